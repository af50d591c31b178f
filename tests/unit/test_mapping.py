"""Arrays of files: read when small, mapped when large."""

from pathlib import Path

import numpy as np
import pytest

from overlane.mapping import SMALL_BYTES, load_array


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize(("count", "files"), [(3, 0), (SMALL_BYTES, 1)])
def test_only_large_files_stay_open(tmp_path, count, files):
    np.save(tmp_path / "a.npy", np.arange(count))
    before = open_files()
    found = load_array(tmp_path / "a.npy", "r")
    assert open_files() - before == files
    assert np.array_equal(found, np.arange(count))


@pytest.mark.parametrize("count", [3, SMALL_BYTES])
def test_only_arrays_of_ones_own_can_be_written(tmp_path, count):
    np.save(tmp_path / "a.npy", np.arange(count))
    with pytest.raises(ValueError, match="read-only"):
        load_array(tmp_path / "a.npy", "r")[0] = 7
    load_array(tmp_path / "a.npy", "c")[0] = 7
    assert load_array(tmp_path / "a.npy", "r")[0] == 0
