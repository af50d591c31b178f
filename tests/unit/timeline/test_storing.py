"""What is checked of a stored index, and that damage which is not seen never leads compiled code astray."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from overlane.timeline import Timeline
from unit.timeline.traces import make_trace

OP = {"device_id": 0, "context_id": 1, "stream_id": 7, "engine": "compute"}
LONG_NS = 1 << 33


def some_trace():
    rows = [
        {**OP, "start_ns": 10 * at, "end_ns": 10 * at + at % 9, "name": f"k{at % 3}"} for at in range(4000)
    ]
    rows += [
        {**OP, "stream_id": 8, "start_ns": at * LONG_NS, "end_ns": (at + 1) * LONG_NS} for at in range(5)
    ]
    calls = [{"start_ns": 7 * at, "end_ns": 7 * at + 5, "name": "cudaLaunchKernel"} for at in range(300)]
    return make_trace("made", None, ops=sorted(rows, key=lambda row: row["start_ns"]), api_calls=calls)


@pytest.fixture
def index(tmp_path):
    trace = some_trace()
    Timeline.build(trace, None, tmp_path)
    return trace, tmp_path


CASES = {
    "lane_offset": (1, 1 << 40), "node_offset": (1, 1 << 40), "width": (0, 200), "long_at": (1, 0),
    "category_of": ((0, 0), 64), "weight_at": (0, 1 << 40), "height_at": (0, 1 << 40),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_compiled_code_relies_on_is_checked(index, name):
    trace, folder = index
    Timeline.open(trace, None, folder)
    values = np.load(folder / f"{name}.npy")
    place, wrong = CASES[name]
    values[place] = wrong
    np.save(folder / f"{name}.npy", values)
    with pytest.raises(ValueError, match=f"(?:{name}|node_offset) is damaged"):
        Timeline.open(trace, None, folder)


@pytest.mark.parametrize("name", ["start", "place", "lane_offset", "nodes", "height", "weight_sum"])
@pytest.mark.parametrize(
    "change", [lambda values: values.astype(np.float32), lambda values: np.stack([values, values])]
)
def test_types_and_shapes_are_checked(index, name, change):
    trace, folder = index
    np.save(folder / f"{name}.npy", change(np.load(folder / f"{name}.npy")))
    with pytest.raises(ValueError, match="is damaged"):
        Timeline.open(trace, None, folder)


@pytest.mark.parametrize("name", ["start", "duration", "place", "nodes", "row", "long_duration"])
def test_an_array_cut_short_is_noticed(index, name):
    trace, folder = index
    np.save(folder / f"{name}.npy", np.load(folder / f"{name}.npy")[:-1])
    with pytest.raises(ValueError, match="is damaged"):
        Timeline.open(trace, None, folder)


def test_lanes_that_do_not_fit_the_index_are_noticed(index):
    trace, folder = index
    meta = folder / "timeline.json"
    meta.write_text(meta.read_text().replace('"sublanes": 1', '"sublanes": 2', 1))
    with pytest.raises(ValueError, match=r"timeline\.json is damaged"):
        Timeline.open(trace, None, folder)


def test_wrong_content_never_reads_or_writes_out_of_bounds(index, tmp_path_factory):
    """Numba checks bounds in this process alone, so what would be a crash or silent is an error."""
    _, folder = index
    program = textwrap.dedent("""
        import sys, warnings
        from pathlib import Path
        import numpy as np
        warnings.simplefilter("ignore")
        sys.path.insert(0, sys.argv[2])
        from overlane.timeline import Timeline
        from overlane.timeline import encode_tile
        from unit.timeline.test_storing import some_trace
        trace, folder = some_trace(), Path(sys.argv[1])
        random = np.random.default_rng(7)
        tried = 0
        for name in ("start", "duration", "place", "row", "nodes", "long_duration"):
            file = folder / f"{name}.npy"
            true = np.load(file)
            low, high = np.iinfo(true.dtype).min, np.iinfo(true.dtype).max
            everything = (np.full_like(true, low), np.full_like(true, high), true[::-1], -true,
                          random.permutation(true), random.integers(low, high, true.shape, true.dtype))
            some = []
            for _ in range(20):
                values = true.copy()
                bit = random.integers(0, 8 * true.itemsize - 1)
                values[random.integers(0, len(true), 3)] ^= true.dtype.type(1 << bit)
                some.append(values)
            for values in (*everything, *some):
                np.save(file, values)
                timeline = Timeline.open(trace, None, folder)
                for t0, t1, px in ((0, 40_000, 100), (0, 40_000, 3), (0, 5 << 33, 700), (900, 30_000, 4000)):
                    encode_tile(timeline.tile(t0, t1, px))
                    tried += 1
            np.save(file, true)
        print(tried)
    """)
    tests = str(Path(__file__).resolve().parents[2])
    environment = os.environ | {
        "NUMBA_BOUNDSCHECK": "1",
        "NUMBA_CACHE_DIR": str(tmp_path_factory.mktemp("numba")),
    }
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder), tests], env=environment, capture_output=True, text=True,
        check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) == 6 * 26 * 4
