"""The recorder inside a program."""

import subprocess
import sys

import pytest

from overlane.validation import validate
from overlane_collect.annotate import annotate
from overlane_collect.backends import BACKENDS, BackendRegistry
from overlane_collect.backends.fake import FakeBackend
from overlane_collect.errors import CollectError, NoGpuError
from overlane_collect.recorder import Recorder
from overlane_collect.recovery import recover
from overlane_collect.writer import read_members


def tables_of(path):
    header, tables = read_members(path)
    validate("a", header, tables)
    return header, tables


def test_a_with_block_leaves_a_trace_and_no_journal(tmp_path):
    with Recorder(tmp_path / "a.overlane", backend="fake", parameters={"n": 3}) as recorder:
        recorder.flush()
    header, tables = tables_of(tmp_path / "a.overlane")
    assert tables["ops"].num_rows >= 50
    assert header.parameters == {"n": 3}
    assert {check.status for check in header.integrity} == {"ok"}
    assert [path.name for path in tmp_path.iterdir()] == ["a.overlane"]


def test_stop_and_start_go_on_with_the_same_trace(tmp_path):
    recorder = Recorder(tmp_path / "a.overlane", backend="fake")
    recorder.start()
    recorder.flush()
    recorder.stop()
    recorder.flush()
    recorder.start()
    recorder.flush()
    recorder.close()
    recorder.close()
    _, tables = tables_of(tmp_path / "a.overlane")
    assert tables["ops"].num_rows == 100
    with pytest.raises(CollectError, match="is closed"):
        recorder.start()


def test_annotated_ranges_nest_and_carry_their_thread(tmp_path):
    with Recorder(tmp_path / "a.overlane", backend=FakeBackend([])):

        @annotate("inner")
        def inner():
            return 5

        with annotate("outer"):
            assert inner() == 5
        left_open = annotate("open")
        left_open.__enter__()
    _, tables = tables_of(tmp_path / "a.overlane")
    ranges = tables["ranges"].to_pylist()
    assert [(r["name"], r["nesting_level"], r["end_ns"] is None) for r in ranges] == [
        ("outer", 0, False),
        ("inner", 1, False),
        ("open", None, True),
    ]
    assert len({r["thread_id"] for r in ranges}) == 1


def test_a_range_without_a_recorder_does_nothing():
    with annotate("nobody listens"):
        pass


def test_the_decorator_records_every_call_into_one_trace(tmp_path):
    script = f"""
from overlane_collect import Recorder
from overlane_collect.annotate import annotate
@Recorder({str(tmp_path / "a.overlane")!r}, backend="fake")
def step(n):
    with annotate(f"step {{n}}"):
        return n
assert [step(1), step(2)] == [1, 2]
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
    _, tables = tables_of(tmp_path / "a.overlane")
    assert tables["ranges"]["name"].to_pylist() == ["step 1", "step 2"]


def test_importing_starts_nothing_and_loads_nothing_heavy():
    script = (
        "import sys, threading, overlane_collect, overlane_collect.annotate, overlane_collect.errors\n"
        "heavy = {'numpy', 'pyarrow', 'pandas', 'cupti', 'cuda', 'nvtx', 'dash'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "assert threading.active_count() == 1\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_an_unknown_backend_lists_the_known_ones(tmp_path):
    with pytest.raises(CollectError, match="no backend 'nvprof'; known: cupti, cuda_events, fake"):
        Recorder(tmp_path / "a.overlane", backend="nvprof").start()
    assert BACKENDS.names == ("cupti", "cuda_events", "fake")
    assert BackendRegistry({}).names == ()


def test_a_backend_that_cannot_start_leaves_no_journal(tmp_path):
    class Refusing(FakeBackend):
        def start(self, sink, options):
            raise NoGpuError("no GPU; use one")

    with pytest.raises(NoGpuError, match="no GPU"):
        Recorder(tmp_path / "a.overlane", backend=Refusing()).start()
    assert list(tmp_path.iterdir()) == []


def test_a_failing_flush_is_told_at_the_next_call(tmp_path):
    class Failing(FakeBackend):
        def flush(self):
            raise CollectError("the disk is full")

    recorder = Recorder(tmp_path / "a.overlane", backend=Failing([]))
    recorder.start()
    with pytest.raises(CollectError, match="the disk is full"):
        recorder.flush()
    recorder.close()


def test_a_journal_that_was_not_closed_says_so_in_the_trace(tmp_path):
    recorder = Recorder(tmp_path / "a.overlane", backend="fake")
    recorder.start()
    recorder.flush()
    recovered = recover(recorder.journal_path, tmp_path / "b.overlane")
    recorder.close()
    assert recovered.rows["ops"] == 50
    assert recovered.damage is None
    header, _ = tables_of(tmp_path / "b.overlane")
    assert {c.check: c.status for c in header.integrity}["whole_recording"] == "warning"
