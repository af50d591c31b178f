"""When a recording records: delay, duration, ranges, the profiler's calls, and kinds that are left out."""

import threading

import pytest

from overlane.validation import validate
from overlane_collect.annotate import annotate
from overlane_collect.backends import Options
from overlane_collect.backends.fake import FakeBackend
from overlane_collect.errors import CollectError
from overlane_collect.recorder import Recorder
from overlane_collect.window import Window, WindowControl
from overlane_collect.writer import read_members


class Played(FakeBackend):
    """Plays its launches only when it is told to, so that no thread of the recorder changes the counts."""

    def flush(self):
        pass

    def work(self):
        super().flush()


def recorded(tmp_path, window, program, options=None):
    backend = Played()
    recorder = Recorder(tmp_path / "a.overlane", backend=backend, options=options)
    recorder.start()
    WindowControl(recorder, window).begin()
    program(backend)
    recorder.close()
    header, tables = read_members(tmp_path / "a.overlane")
    validate("a", header, tables)
    return header, tables


def launched(tables):
    """Which of the fake backend's batches of 50 launches are there."""
    if "ops" not in tables:
        return []
    return sorted({(number - 1) // 50 for number in tables["ops"]["correlation_id"].to_pylist()})


def test_without_a_window_everything_is_there_and_nothing_is_said_of_pauses(tmp_path):
    header, tables = recorded(tmp_path, Window(), lambda b: (b.work(), b.work()))
    assert launched(tables) == [0, 1]
    assert header.capabilities["whole_run"].proven
    assert "paused_ns" not in header.extra


def test_only_the_ranges_of_the_name_are_recorded(tmp_path):
    def program(backend):
        backend.work()
        with annotate("mine"):
            backend.work()
            with annotate("mine"):
                backend.work()
            backend.work()
        backend.work()
        with annotate("other"):
            backend.work()
        with annotate("mine"):
            backend.work()
        backend.work()

    header, tables = recorded(tmp_path, Window(range_name="mine"), program)
    assert launched(tables) == [1, 2, 3, 6]
    assert not header.capabilities["whole_run"].proven
    assert "3 times" in header.capabilities["whole_run"].reason
    ends = [end for _, end in header.extra["paused_ns"]]
    assert ends[-1] is None
    assert all(start < end for start, end in header.extra["paused_ns"][:-1])
    assert tables["devices"].num_rows == 1


def test_the_profilers_calls_start_and_stop_and_need_not_pair_up(tmp_path):
    def program(backend):
        backend.profiler_call(start=False)
        backend.work()
        backend.profiler_call(start=True)
        backend.profiler_call(start=True)
        backend.work()
        backend.profiler_call(start=False)
        backend.work()
        backend.profiler_call(start=True)
        backend.work()

    _, tables = recorded(tmp_path, Window(profiler_calls=True), program)
    assert launched(tables) == [1, 3]


@pytest.fixture
def timers(monkeypatch):
    """Timers that go off when the test says so."""
    made = []

    class Timer:
        def __init__(self, seconds, action):
            self.seconds, self.action, self.cancelled = seconds, action, False
            made.append(self)

        def start(self):
            pass

        def cancel(self):
            self.cancelled = True

    monkeypatch.setattr(threading, "Timer", Timer)
    return made


def test_a_delay_and_a_duration_cut_a_piece_out(tmp_path, timers):
    def program(backend):
        backend.work()
        assert [timer.seconds for timer in timers] == [2.5]
        timers[0].action()
        backend.work()
        assert [timer.seconds for timer in timers] == [2.5, 0.5]
        timers[1].action()
        backend.work()

    _, tables = recorded(tmp_path, Window(delay_s=2.5, duration_s=0.5), program)
    assert launched(tables) == [1]


def test_a_range_that_is_open_when_the_delay_ends_is_recorded_and_one_that_ended_is_not(tmp_path, timers):
    def program(backend):
        with annotate("mine"):
            backend.work()
        with annotate("mine"):
            backend.work()
            timers[0].action()
            backend.work()
        backend.work()

    _, tables = recorded(tmp_path, Window(delay_s=1, range_name="mine"), program)
    assert launched(tables) == [2]


def test_a_duration_ends_each_range_anew(tmp_path, timers):
    def program(backend):
        for _ in range(2):
            with annotate("mine"):
                backend.work()
                timers[-1].action()
                backend.work()
        with annotate("mine"):
            backend.work()
        assert timers[-1].cancelled

    _, tables = recorded(tmp_path, Window(duration_s=1, range_name="mine"), program)
    assert launched(tables) == [0, 2, 4]


@pytest.mark.parametrize(
    ("window", "sentence"),
    [({"delay_s": -1}, "lies in the past"), ({"duration_s": 0}, "records nothing")],
)
def test_impossible_times_are_refused(window, sentence):
    with pytest.raises(CollectError, match=sentence):
        Window(**window)


def test_kinds_that_are_left_out_are_not_there_and_the_header_says_so(tmp_path):
    header, tables = recorded(tmp_path, Window(), Played.work, Options(kinds=("copies", "syncs")))
    assert not header.capabilities["all_kinds"].proven
    assert "kernels" in header.capabilities["all_kinds"].reason
    assert "ops" not in tables
    assert tables["api_calls"].num_rows == 50
