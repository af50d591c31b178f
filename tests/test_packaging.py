"""The wheel and the source archive hold what they promise; an installed wheel works without the checkout."""

from __future__ import annotations

import configparser
import email
import json
import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def build(source: Path, target: str, folder: Path) -> Path:
    """Build one archive with the build backend itself: nothing is downloaded."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (archive,) = folder.iterdir()
    return archive


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return build(ROOT, "wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    return build(ROOT, "sdist", tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A folder with the wheel's packages alone, used instead of the checkout's."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def run_installed(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=installed,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def contents(wheel: Path) -> dict[str, int]:
    with zipfile.ZipFile(wheel) as archive:
        return {item.filename: item.CRC for item in archive.infolist()}


def source_files(folder: str) -> set[str]:
    """Return what git tracks under a folder, relative to it; without git, what lies there."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", folder], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode == 0 and listed.stdout:
        names = [name for name in listed.stdout.split("\0") if name and (ROOT / name).exists()]
    else:
        names = [str(path.relative_to(ROOT)) for path in (ROOT / folder).rglob("*") if path.is_file()]
    return {str(Path(name).relative_to(folder)) for name in names if "__pycache__" not in name}


@pytest.mark.parametrize(
    ("folder", "inside"),
    [
        ("app/overlane", "overlane"),
        ("collectors/overlane_collect", "overlane_collect"),
        ("sample_traces", "overlane/sample_traces"),
    ],
)
def test_wheel_holds_every_tracked_file(wheel, folder, inside):
    missing = {f"{inside}/{name}" for name in source_files(folder)} - set(contents(wheel))
    assert not missing


@pytest.mark.parametrize(
    "name",
    [
        "overlane/py.typed",
        "overlane_collect/py.typed",
        "overlane/ui/assets/overlane.css",
        "overlane/sample_traces/MANIFEST.json",
        "overlane/sample_traces/torch_train_pinned.json.gz",
    ],
)
def test_wheel_holds(wheel, name):
    assert name in contents(wheel)


def test_wheel_holds_nothing_else(wheel):
    tops = {name.split("/")[0] for name in contents(wheel)}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"overlane", "overlane_collect"}
    assert not [name for name in contents(wheel) if name.endswith((".pyc", ".nbi", ".nbc"))]


def test_wheel_is_small_enough_for_a_registry(wheel):
    assert wheel.stat().st_size < 16_000_000  # samples are kept under 12 MB together


def test_metadata(wheel):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(name))
        scripts = configparser.ConfigParser()
        scripts.read_string(archive.read(name.replace("METADATA", "entry_points.txt")).decode())
    assert metadata["Name"] == "overlane"
    assert metadata["Version"] == project["version"]
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    assert "LICENSE" in metadata.get_all("License-File")
    assert set(metadata.get_all("Provides-Extra")) >= {"cuda", "test"}
    assert dict(scripts["console_scripts"]) == {"overlane": "overlane.cli:main"}


def test_base_install_needs_no_cuda_package(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        needed = email.message_from_bytes(archive.read(name)).get_all("Requires-Dist")
    base = [line for line in needed if "extra ==" not in line]
    assert not [line for line in base if line.startswith(("cuda", "cupti"))]
    assert [line for line in needed if line.startswith("cupti-python") and "cuda" in line]


def test_source_archive_builds_the_same_wheel(sdist, wheel, tmp_path):
    unpacked = tmp_path / "source"
    unpacked.mkdir()
    subprocess.run(["tar", "-xf", sdist, "-C", unpacked], check=True)
    (source,) = unpacked.iterdir()
    again = build(source, "wheel", tmp_path / "wheel")
    assert contents(again) == contents(wheel)


def test_installed_wheel_runs_without_the_checkout(installed):
    done = run_installed(installed, "-c", "import overlane, overlane.cli; print(overlane.__file__)")
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_relative_to(installed)


def test_installed_wheel_opens_its_sample(installed):
    sample = installed / "overlane" / "sample_traces" / "torch_cudagraph.json.gz"
    done = run_installed(installed, "-m", "overlane", "info", str(sample), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["format"] == "kineto"
