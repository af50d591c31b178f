"""The cache of opened traces: read once, safe with two processes, bounded, rebuilt when in doubt."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import textwrap
import threading
import tokenize

import numpy as np
import pytest

from overlane import cache as cache_module
from overlane import readers
from overlane.cache import TraceCache, cache_folder
from overlane.errors import MachineError, TraceUnreadableError
from overlane.timeline import Timeline, building, encode_tile, filling, storing, warm_up
from overlane_collect.model import Capability, Header
from overlane_collect.schema import TABLES
from unit.timeline.traces import make_trace

OP = {"device_id": 0, "context_id": 1, "stream_id": 7, "engine": "compute"}


def some_trace(rows=50):
    header = Header(
        "test",
        "made up",
        origin_unix_ns=17,
        capabilities={"launch_times": Capability(False, "It is made up.")},
    )
    return make_trace(
        "made", header,
        ops=[{**OP, "start_ns": 10 * at, "end_ns": 10 * at + at % 9, "name": f"k{at % 3}",
              "grid": [at, 1, 1] if at % 2 else None}
             for at in range(rows)],
        api_calls=[{"start_ns": 0, "end_ns": None, "name": "cudaMalloc"}],
    )  # fmt: skip


class FakeReader:
    """Stands for the readers; counts how often a source is read."""

    def __init__(self):
        self.reads = 0
        self.fails = None

    def __call__(self, path, *, progress=None):
        self.reads += 1
        if self.fails is not None:
            raise self.fails
        if progress is not None:
            progress(0.5)
        return some_trace(len(path.read_bytes()))


@pytest.fixture
def reader(monkeypatch):
    fake = FakeReader()
    monkeypatch.setattr(readers, "open_trace", fake, raising=False)
    return fake


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "trace.bin"
    path.write_bytes(b"x" * 50)
    return path


@pytest.fixture
def cache(tmp_path):
    return TraceCache(tmp_path / "cache")


def test_a_second_opening_does_not_read_the_source(reader, source, cache):
    first = cache.open(source)
    second = TraceCache(cache.folder).open(source)
    assert reader.reads == 1
    for name in TABLES:
        assert second.trace.table(name).equals(some_trace().table(name)), name
        assert first.trace.table(name).equals(second.trace.table(name))
    assert second.trace.header == some_trace().header
    assert (second.trace.name, second.trace.span_ns, second.trace.ranks) == ("made", 494, (None,))
    assert second.trace.row("ops", 3)["grid"] == [3, 1, 1]


def test_columns_are_mapped_not_copied(reader, source, cache):
    cache.open(source).close()
    start = cache.open(source).trace.column("ops", "start_ns")
    assert not start.flags.owndata
    assert not start.flags.writeable
    assert start.base is not None


def test_timelines_are_built_once_per_rank(reader, source, cache, monkeypatch):
    opened = cache.open(source)
    message = encode_tile(opened.timeline(None).tile(0, 500, 10))
    assert opened.timeline(None) is opened.timeline(None)
    monkeypatch.setattr(Timeline, "build", lambda *_: pytest.fail("built again"))
    again = cache.open(source)
    assert encode_tile(again.timeline(None).tile(0, 500, 10)) == message
    with pytest.raises(ValueError, match="no rank 3; known: None"):
        again.timeline(3)


def test_a_changed_source_is_read_anew_and_its_old_entry_goes(reader, source, cache):
    old = cache.open(source)
    old.close()
    source.write_bytes(b"x" * 30)
    new = cache.open(source)
    assert reader.reads == 2
    assert new.trace.table("ops").num_rows == 30
    assert new.key != old.key
    assert not (cache.folder / old.key).exists()


def test_the_same_path_and_size_with_a_new_time_is_another_trace(reader, source, cache):
    first = cache.open(source)
    facts = source.stat()
    os.utime(source, ns=(facts.st_atime_ns, facts.st_mtime_ns + 1))
    second = cache.open(source)
    assert reader.reads == 2
    assert second.key != first.key
    assert (cache.folder / first.key).exists(), "it is still in use"


@pytest.mark.parametrize(
    "damage", ["cut table", "no table", "marker is no JSON", "marker lies", "no marker", "garbage table"]
)
def test_a_damaged_entry_is_built_anew(reader, source, cache, damage):
    opened = cache.open(source)
    opened.close()
    entry = cache.folder / opened.key
    table = entry / "ops.arrow"
    if damage == "cut table":
        table.write_bytes(table.read_bytes()[:-1])
    elif damage == "no table":
        table.unlink()
    elif damage == "marker is no JSON":
        (entry / "entry.json").write_text("{")
    elif damage == "marker lies":
        marker = json.loads((entry / "entry.json").read_text())
        marker["facts"]["rows"]["ops"] = 4
        (entry / "entry.json").write_text(json.dumps(marker))
    elif damage == "no marker":
        (entry / "entry.json").unlink()
    else:
        table.write_bytes(b"\0" * table.stat().st_size)
    assert cache.open(source).trace.table("ops").equals(some_trace().table("ops"))
    assert reader.reads == 2


@pytest.mark.parametrize("name", ["start.npy", "timeline.json", "entry.json"])
def test_a_damaged_timeline_is_built_anew(reader, source, cache, name):
    opened = cache.open(source)
    message = encode_tile(opened.timeline(None).tile(0, 500, 10))
    opened.close()
    file = cache.folder / opened.key / "timeline-none" / name
    file.write_bytes(file.read_bytes()[:-9])
    again = cache.open(source)
    assert encode_tile(again.timeline(None).tile(0, 500, 10)) == message
    assert reader.reads == 1


def test_results_are_computed_once_per_version(reader, source, cache):
    opened = cache.open(source)
    calls = []

    def compute():
        calls.append(1)
        return {"busy_ns": 5, "pairs": (1, 2)}

    assert opened.result("engines", 1, compute) == {"busy_ns": 5, "pairs": [1, 2]}
    assert cache.open(source).result("engines", 1, compute) == {"busy_ns": 5, "pairs": [1, 2]}
    assert len(calls) == 1
    opened.result("engines", 2, compute)
    opened.result("engines window 1:2", 2, compute)
    assert len(calls) == 3
    for file in (cache.folder / opened.key / "results").iterdir():
        file.write_text("{")
    opened.result("engines", 2, compute)
    assert len(calls) == 4


def test_threads_compute_a_result_once(reader, source, cache):
    opened = cache.open(source)
    calls, may_end = [], threading.Event()

    def compute():
        calls.append(1)
        assert may_end.wait(60)
        return {"busy_ns": opened.result("part", 1, lambda: 5)}

    found = []
    threads = [
        threading.Thread(target=lambda: found.append(opened.result("whole", 1, compute))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    may_end.set()
    for thread in threads:
        thread.join()
    assert (found, calls) == ([{"busy_ns": 5}] * 4, [1])


class Counted:
    """Arrays of an analysis, counting how often they were computed."""

    def __init__(self):
        self.count = 0

    def __call__(self):
        self.count += 1
        return {
            "op": np.arange(5, dtype=np.int32),
            "none": np.zeros((0, 2), np.uint8),
            "number": np.array(1 << 60),
            "is_late": np.array([True, False]),
        }


def same_arrays(found, wanted):
    return found.keys() == wanted.keys() and all(
        found[name].dtype == wanted[name].dtype and np.array_equal(found[name], wanted[name])
        for name in wanted
    )


def test_arrays_are_computed_once_and_kept(reader, source, cache):
    compute = Counted()
    opened = cache.open(source)
    assert same_arrays(opened.arrays("waits", 1, compute), Counted()())
    again = TraceCache(cache.folder).open(source).arrays("waits", 1, compute)
    assert same_arrays(again, Counted()())
    assert compute.count == 1
    again["op"][0] = 9  # its own copy
    assert same_arrays(cache.open(source).arrays("waits", 1, compute), Counted()())
    opened.arrays("waits window 1:2", 1, compute)
    assert compute.count == 2


def test_arrays_of_another_version_are_replaced(reader, source, cache):
    compute = Counted()
    opened = cache.open(source)
    opened.arrays("waits", 1, compute)
    opened.arrays("waits", 2, compute)
    assert compute.count == 2
    assert len(list((cache.folder / opened.key / "results").iterdir())) == 1
    opened.arrays("waits", 2, compute)
    assert compute.count == 2


@pytest.mark.parametrize("damage", ["cut", "flipped bit", "gone", "no marker", "folder gone", "pickle"])
def test_damaged_arrays_are_computed_anew(reader, source, cache, damage):
    compute = Counted()
    opened = cache.open(source)
    opened.arrays("waits", 1, compute)
    (folder,) = (cache.folder / opened.key / "results").iterdir()
    file = folder / "op.npy"
    content = bytearray(file.read_bytes())
    if damage == "cut":
        file.write_bytes(content[:-1])
    elif damage == "flipped bit":
        content[-3] ^= 1
        file.write_bytes(content)
    elif damage == "gone":
        file.unlink()
    elif damage == "no marker":
        (folder / "entry.json").unlink()
    elif damage == "pickle":
        np.save(file, np.array([{}], dtype=object), allow_pickle=True)
    else:
        shutil.rmtree(folder)
    assert same_arrays(opened.arrays("waits", 1, compute), Counted()())
    assert compute.count == 2
    assert same_arrays(cache.open(source).arrays("waits", 1, compute), Counted()())
    assert compute.count == 2


def test_an_analysis_can_ask_for_the_arrays_of_another(reader, source, cache):
    opened = cache.open(source)
    inner = Counted()
    outer = opened.arrays("idle", 1, lambda: {"op": opened.arrays("waits", 1, inner)["op"] * 2})
    assert outer["op"].tolist() == [0, 2, 4, 6, 8]
    assert opened.arrays("waits", 1, inner)["op"].tolist() == [0, 1, 2, 3, 4]
    assert inner.count == 1


def test_arrays_that_cannot_be_stored_are_returned_all_the_same(reader, source, cache, monkeypatch):
    def full(*_args, **_kwargs):
        raise OSError(errno.ENOSPC, "full")

    compute = Counted()
    opened = cache.open(source)
    monkeypatch.setattr(cache_module.np, "save", full)
    assert same_arrays(opened.arrays("waits", 1, compute), Counted()())
    assert list((cache.folder / opened.key / "results").iterdir()) == []


def test_the_longest_unused_entries_go_first_but_none_in_use(reader, tmp_path):
    cache = TraceCache(tmp_path / "cache")
    sources = []
    for number in range(4):
        path = tmp_path / f"{number}.bin"
        path.write_bytes(b"x" * 50)
        sources.append(path)
    opened = [cache.open(path) for path in sources]
    for at, each in enumerate(opened):
        os.utime(cache.folder / each.key / "entry.json", ns=(at * 10**9, at * 10**9))
    for each in opened[:3]:
        each.close()
    size = sum(f.stat().st_size for f in (cache.folder / opened[0].key).iterdir())
    TraceCache(cache.folder, limit_bytes=2.5 * size).evict()
    assert [(cache.folder / each.key).exists() for each in opened] == [False, False, True, True]
    TraceCache(cache.folder, limit_bytes=0).evict()
    assert [(cache.folder / each.key).exists() for each in opened] == [False, False, False, True]
    assert opened[3].trace.table("ops").num_rows == 50


def test_what_dead_processes_left_is_removed_after_a_day(reader, source, cache):
    left, fresh = cache.folder / "abc.x.new", cache.folder / "abc.y.new"
    for folder in (left, fresh):
        folder.mkdir()
        (folder / "ops.arrow").write_bytes(b"half")
    os.utime(left, (0, 0))
    cache.open(source)
    assert not left.exists()
    assert fresh.exists()


def test_two_threads_read_the_source_once(reader, source, cache):
    opened = []
    threads = [threading.Thread(target=lambda: opened.append(cache.open(source))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(opened) == 4
    assert reader.reads == 1


def test_two_processes_read_the_source_once(tmp_path, source):
    program = textwrap.dedent("""
        import sys, time, pathlib
        sys.path.insert(0, sys.argv[3])
        from overlane import readers
        from unit.test_cache import some_trace
        def slow(path, *, progress=None):
            with open(sys.argv[4], "a") as log:
                log.write("read\\n")
            time.sleep(0.5)
            return some_trace()
        readers.open_trace = slow
        from overlane.cache import TraceCache
        opened = TraceCache(sys.argv[1]).open(sys.argv[2])
        print(opened.trace.table("ops").num_rows, len(opened.timeline(None).tile(0, 500, 10)))
    """)
    tests = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
    log = tmp_path / "log"
    command = [sys.executable, "-c", program, str(tmp_path / "cache"), str(source), tests, str(log)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    answers = [process.communicate()[0] for process in running]
    assert [process.returncode for process in running] == [0, 0]
    assert answers[0] == answers[1]
    assert answers[0].startswith("50 ")
    assert log.read_text() == "read\n"


def test_nothing_is_left_of_a_failed_reading(reader, source, cache):
    reader.fails = TraceUnreadableError("trace.bin is no trace")
    with pytest.raises(TraceUnreadableError, match="is no trace"):
        cache.open(source)
    assert [path for path in cache.folder.iterdir() if path.is_dir()] == []
    reader.fails = None
    assert cache.open(source).trace.table("ops").num_rows == 50


def test_progress_can_cancel(reader, source, cache):
    def cancel(_fraction):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.open(source, progress=cancel)
    assert [path for path in cache.folder.iterdir() if path.is_dir()] == []
    seen = []
    cache.open(source, progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


def test_a_missing_source_is_said(cache, tmp_path):
    with pytest.raises(TraceUnreadableError, match=r"cannot be opened .No such file"):
        cache.open(tmp_path / "nothing.json")


def test_a_full_disk_is_said(reader, source, cache, monkeypatch):
    def full(*_args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(cache_module, "_write_table", full)
    with pytest.raises(MachineError, match="is full; free some space"):
        cache.open(source)
    assert [path for path in cache.folder.iterdir() if path.is_dir()] == []


def test_a_folder_that_cannot_be_written_is_replaced_for_this_process(reader, source, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_bytes(b"")
    cache = TraceCache(blocked / "cache")
    opened = cache.open(source)
    assert len(opened.timeline(None).tile(0, 500, 10)) > 0
    assert len(opened.warnings) == 1
    assert "cannot be written" in opened.warnings[0]
    assert "OVERLANE_CACHE_DIR" in opened.warnings[0]


def test_where_the_cache_is(monkeypatch, tmp_path):
    monkeypatch.setenv("OVERLANE_CACHE_DIR", str(tmp_path / "mine"))
    assert cache_folder() == tmp_path / "mine"
    monkeypatch.delenv("OVERLANE_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "overlane"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "overlane"


def test_looking_an_entry_up_loads_no_compiled_code(source, tmp_path):
    program = (
        "import sys, pathlib; from overlane.cache import TraceCache;"
        "TraceCache(sys.argv[1])._key(pathlib.Path(sys.argv[2]));"
        "print([m for m in ('numba', 'pandas') if m in sys.modules])"
    )
    output = subprocess.check_output(
        [sys.executable, "-c", program, str(tmp_path / "c"), str(source)], text=True
    )
    assert output.strip() == "[]"


def test_a_warm_opening_up_to_the_first_tile_loads_no_pandas(reader, source, cache):
    cache.open(source).timeline(None)
    program = (
        "import sys; from overlane.cache import TraceCache; from overlane.timeline import encode_tile;"
        "opened = TraceCache(sys.argv[1]).open(sys.argv[2]);"
        "size = len(encode_tile(opened.timeline(None).tile(0, 500, 10)));"
        "print(size > 48, 'pandas' in sys.modules)"
    )
    command = [sys.executable, "-c", program, str(cache.folder), str(source)]
    assert subprocess.check_output(command, text=True).split() == ["True", "False"]


def test_warming_up_leaves_nothing_to_compile(reader, source, cache):
    def compiled():
        loops = [getattr(module, name) for module in (building, filling) for name in module.LOOPS]
        return [len(loop.signatures) for loop in loops]

    warm_up()
    before = compiled()
    cache.open(source).timeline(None).tile(0, 500, 10)
    assert compiled() == before
    assert set(before) == {1}


def test_the_index_takes_its_room_before_it_is_written(tmp_path):
    made = storing.create(tmp_path, "made", (300_000,), np.int64)
    file = tmp_path / "made.npy"
    assert file.stat().st_blocks * 512 >= file.stat().st_size >= made.nbytes
    made[:] = 3
    assert (np.load(file) == 3).all()


def test_room_is_taken_where_the_system_cannot_reserve_it(tmp_path, monkeypatch):
    def cannot(*_args):
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(os, "posix_fallocate", cannot)
    made = storing.create(tmp_path, "made", (300_000,), np.int64)
    file = tmp_path / "made.npy"
    assert file.stat().st_blocks * 512 >= file.stat().st_size
    made[:] = 3
    assert (np.load(file) == 3).all()


def test_a_disk_that_fills_up_under_the_index_is_said(reader, source, cache, monkeypatch):
    def full(*_args):
        raise OSError(errno.ENOSPC, "No space left on device")

    opened = cache.open(source)
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(MachineError, match=f"of the cache folder {cache.folder} is full; free some space"):
        opened.timeline(None)
    monkeypatch.undo()
    assert len(opened.timeline(None).tile(0, 500, 10)) > 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")
def test_a_real_full_disk_ends_no_process(tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", small], check=False).returncode:
        pytest.skip("mounting is not permitted here")
    try:
        with pytest.raises(OSError, match="No space left"):
            storing.create(small, "start", (1_000_000,), np.int64)
        with pytest.raises(OSError, match="No space left"):
            storing.save(small, "long_at", np.ones(1_000_000, np.int64))
    finally:
        subprocess.run(["umount", small], check=True)


def test_a_short_write_of_numpy_is_a_full_disk(reader, source, cache, monkeypatch):
    def short(*_args):
        raise OSError("119594 requested and 22512 written")

    monkeypatch.setattr(Timeline, "build", short)
    with pytest.raises(MachineError, match="is full; free some space"):
        cache.open(source).timeline(None)


def flip(file, at, bit=0):
    content = bytearray(file.read_bytes())
    content[at] ^= 1 << bit
    file.write_bytes(content)


def test_no_flipped_bit_of_a_small_file_goes_unnoticed(reader, source, cache):
    opened = cache.open(source)
    message = encode_tile(opened.timeline(None).tile(0, 500, 10))
    opened.close()
    index = cache.folder / opened.key / "timeline-none"
    for name in sorted(path.name for path in index.glob("*.*") if path.name != "entry.json"):
        for at in (0, 9, 40, (index / name).stat().st_size - 1):
            flip(index / name, at, bit=6)
            damaged = (index / name).read_bytes()
            again = cache.open(source)
            assert encode_tile(again.timeline(None).tile(0, 500, 10)) == message, (name, at)
            assert (index / name).read_bytes() != damaged
            again.close()
    assert reader.reads == 1


def test_a_flipped_bit_of_a_table_is_noticed(reader, source, cache):
    opened = cache.open(source)
    opened.close()
    table = cache.folder / opened.key / "ops.arrow"
    flip(table, table.stat().st_size // 2)
    assert cache.open(source).trace.table("ops").equals(some_trace().table("ops"))
    assert reader.reads == 2


@pytest.mark.parametrize("failure", [IndexError, RuntimeError, RecursionError, tokenize.TokenError])
def test_an_index_that_fails_to_open_in_any_way_is_built_anew(reader, source, cache, monkeypatch, failure):
    cache.open(source).timeline(None)
    true_open, failures = Timeline.open, []

    def fails_once(*arguments):
        if not failures:
            failures.append(1)
            raise failure
        return true_open(*arguments)

    monkeypatch.setattr(Timeline, "open", fails_once)
    assert len(cache.open(source).timeline(None).tile(0, 500, 10)) > 0


@pytest.mark.parametrize("at", [0, 5_000, (1 << 20) - 1, -1, -(1 << 16)])
def test_the_ends_of_a_large_file_are_looked_at_wholly(tmp_path, at):
    file = tmp_path / "large"
    file.write_bytes(bytes(6 << 20))
    known = cache_module._fingerprint(file)
    flip(file, at)
    assert cache_module._fingerprint(file) != known


def test_a_stretch_of_a_large_file_that_was_overwritten_is_noticed(tmp_path):
    file = tmp_path / "large"
    content = bytes(range(1, 252)) * (6 << 12)
    file.write_bytes(content)
    known = cache_module._fingerprint(file)
    for at in range(0, len(content), len(content) // 10):
        file.write_bytes(content[:at] + bytes(1 << 18) + content[at + (1 << 18) :])
        assert cache_module._fingerprint(file) != known, at
    file.write_bytes(content)
    assert cache_module._fingerprint(file) == known
