"""Where compiled code is kept when numba itself finds no place."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from overlane import folders

PROGRAM = """
import os, sys, overlane, numpy as np
assert "numba" not in sys.modules
from overlane.timeline.slices import long_duration
assert long_duration(np.zeros(1, np.int64), np.ones(1, np.int64), 0) == 1
print(os.environ.get("NUMBA_CACHE_DIR"))
"""


@pytest.fixture
def nothing_is_writable(monkeypatch, tmp_path):
    """Neither package, home nor cache folder can be written, except what the test allows."""
    allowed = []
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.delenv("OVERLANE_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/nonexistent")
    monkeypatch.setattr(
        folders.os, "access", lambda path, _mode: any(map(Path(path).is_relative_to, allowed))
    )
    monkeypatch.setattr(folders.tempfile, "gettempdir", lambda: str(tmp_path))
    return allowed


def test_the_cache_folder_takes_compiled_code(nothing_is_writable, monkeypatch, tmp_path):
    nothing_is_writable.append(tmp_path)
    monkeypatch.setenv("OVERLANE_CACHE_DIR", str(tmp_path / "mine"))
    folders.place_compiled_code()
    assert os.environ["NUMBA_CACHE_DIR"] == str(tmp_path / "mine" / "numba")
    assert not (tmp_path / "mine").exists(), "an import makes no folders that may never be needed"


@pytest.mark.parametrize("place", ["package", "home", "user"])
def test_numba_is_left_alone_where_it_finds_a_place(nothing_is_writable, monkeypatch, tmp_path, place):
    if place == "package":
        nothing_is_writable.append(Path(folders.__file__).parent)
    elif place == "home":
        nothing_is_writable.append(tmp_path)
        monkeypatch.setenv("HOME", str(tmp_path))
    else:
        monkeypatch.setenv("NUMBA_CACHE_DIR", "chosen")
    folders.place_compiled_code()
    assert os.environ.get("NUMBA_CACHE_DIR") == ("chosen" if place == "user" else None)


def test_else_a_temporary_folder_of_this_user_alone(nothing_is_writable, tmp_path):
    folders.place_compiled_code()
    mine = tmp_path / f"overlane-{os.getuid()}"
    assert os.environ["NUMBA_CACHE_DIR"] == str(mine)
    assert mine.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("trap", ["open to all", "a link", "a file"])
def test_a_folder_that_others_could_write_to_is_not_used(nothing_is_writable, tmp_path, trap):
    mine = tmp_path / f"overlane-{os.getuid()}"
    if trap == "open to all":
        mine.mkdir()
        mine.chmod(0o777)
    elif trap == "a link":
        (tmp_path / "other").mkdir()
        mine.symlink_to(tmp_path / "other")
    else:
        mine.write_bytes(b"")
    folders.place_compiled_code()
    chosen = Path(os.environ["NUMBA_CACHE_DIR"])
    assert chosen != mine
    assert chosen.stat().st_mode & 0o777 == 0o700
    chosen.rmdir()


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None, reason="only root may become another user"
)
def test_a_user_without_a_home_compiles_and_starts_again(tmp_path):
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    for folder in (temporary, *temporary.parents[:3]):
        folder.chmod(0o777 if folder == temporary else 0o755)
    environment = {"HOME": "/nonexistent", "TMPDIR": str(temporary), "PATH": os.environ["PATH"]}
    # The interpreter may lie in root's home: the user may read everything, and write nothing.
    become = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
              "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]  # fmt: skip

    def run(program):
        command = [*become, sys.executable, "-c", program]
        return subprocess.run(command, env=environment, text=True, capture_output=True, check=False)

    if run("import numba").returncode:
        pytest.skip("this user cannot reach the interpreter")
    done = run(PROGRAM)
    assert done.returncode == 0, done.stderr[-1000:]
    assert done.stdout.split() == [str(temporary / "overlane-65534")]
    assert list((temporary / "overlane-65534").rglob("*.nbc")), "kept for the next start"
