"""Everything in this folder needs a GPU; without one it is skipped, and only then."""

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"


def has_gpu():
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return driver.cuInit(0) == 0


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    mine = [item for item in items if here in Path(str(item.fspath)).parents]
    gpu = bool(mine) and has_gpu()
    for item in mine:
        item.add_marker(pytest.mark.gpu)
        if not gpu:
            item.add_marker(pytest.mark.skip(reason="no NVIDIA GPU"))


@pytest.fixture
def collect(tmp_path):
    """Run `python -m overlane_collect` in a folder of its own and return the finished process."""

    def run(*arguments, timeout=200):
        command = [sys.executable, "-m", "overlane_collect", *map(str, arguments)]
        return subprocess.run(
            command, cwd=tmp_path, check=False, capture_output=True, text=True, timeout=timeout
        )

    return run


@pytest.fixture(scope="session")
def programs():
    """Folder of the programs that know nothing of Overlane."""
    return PROGRAMS
