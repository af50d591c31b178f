"""The bundled traces: complete, unaltered, small, and free of names of people and machines."""

from __future__ import annotations

import gzip
import hashlib
import re

import pytest

from overlane import samples as module
from overlane.errors import OverlaneError
from overlane.readers import open_trace
from overlane.samples import sample_folder, sample_paths

TRACES = (".gz", ".overlane")


def test_the_manifest_lists_exactly_what_is_there(sample_manifest):
    there = {path.name for path in sample_folder().iterdir() if path.suffix in TRACES}
    assert {entry["file"] for entry in sample_manifest} == there
    assert [path.name for path in sample_paths()] == [entry["file"] for entry in sample_manifest]
    assert sample_paths()[0].name == "torch_train_pinned.json.gz"


def test_the_readme_names_every_trace(sample_manifest):
    readme = (sample_folder() / "README.md").read_text("utf-8")
    assert all(entry["file"] in readme for entry in sample_manifest)


def test_how_each_was_made_is_said(sample_manifest):
    for entry in sample_manifest:
        assert entry["made_by"]
        script = entry["script"]  # null: not kept, which the README says
        assert script is None or (sample_folder() / script).is_file()
    assert "scripts are not kept" in (sample_folder() / "README.md").read_text("utf-8")


def test_files_are_as_they_were_recorded(sample_manifest):
    for entry in sample_manifest:
        content = (sample_folder() / entry["file"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == entry["sha256"], entry["file"]


def test_they_are_small():
    assert sum(path.stat().st_size for path in sample_paths()) < 12_000_000


def test_the_manifest_says_what_the_files_say(sample_manifest):
    for entry in sample_manifest:
        trace = open_trace(sample_folder() / entry["file"])
        assert trace.header.synthetic == entry["synthetic"]
        assert trace.header.format == entry["format"]
        runtime = trace.header.runtime_version if not entry["synthetic"] else None
        assert entry["runtime"] == (f"CUDA {runtime}" if runtime else None)
        names = set(trace.table("devices")["name"].to_pylist())
        assert names == {"Synthetic GPU" if entry["synthetic"] else entry["gpu"]}


@pytest.mark.parametrize(
    "path", [path for path in sample_paths() if path.suffix == ".gz"], ids=lambda p: p.name
)
def test_no_person_machine_or_path(path):
    text = gzip.decompress(path.read_bytes()).decode()
    private = (
        r"/(home|root|mnt|opt|tmp|usr|var|work|workspace)/|[Uu]ser_?name|[Hh]ost_?name|\w@\w+\.\w|https?://"
    )
    assert re.search(private, text) is None
    assert re.search(r"\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b", text) is None


def test_missing_samples_are_said_plainly(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "__file__", str(tmp_path / "app" / "overlane" / "samples.py"))
    with pytest.raises(OverlaneError, match="sample traces are missing"):
        sample_folder()
    folder = tmp_path / "sample_traces"
    folder.mkdir()
    (folder / "MANIFEST.json").write_text('{"traces": [{"file": "gone.json.gz"}]}')
    assert sample_folder() == folder
    with pytest.raises(OverlaneError, match=r"gone\.json\.gz"):
        sample_paths()


def test_samples_beside_the_package_come_first(monkeypatch, tmp_path):
    for folder in (tmp_path / "sample_traces", tmp_path / "app" / "overlane" / "sample_traces"):
        folder.mkdir(parents=True)
        (folder / "MANIFEST.json").write_text('{"traces": []}')
    monkeypatch.setattr(module, "__file__", str(tmp_path / "app" / "overlane" / "samples.py"))
    assert sample_folder() == tmp_path / "app" / "overlane" / "sample_traces"
