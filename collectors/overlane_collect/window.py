"""When a recording records: from the start or after a delay, for a while, or while the program says so."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from overlane_collect import annotate
from overlane_collect.errors import CollectError

if TYPE_CHECKING:
    from overlane_collect.recorder import Recorder

__all__ = ["Window", "WindowControl"]


@dataclass(frozen=True)
class Window:
    """When to record.

    Attributes:
        delay_s: Seconds from the program's start until recording may begin.
        duration_s: Seconds after which each recording ends; None records on.
        range_name: Record only while a range of this name is open, NVTX's or `annotate`'s.
        profiler_calls: Record only between the profiler's start and stop calls.
    """

    delay_s: float = 0.0
    duration_s: float | None = None
    range_name: str | None = None
    profiler_calls: bool = False

    def __post_init__(self) -> None:
        """Check the seconds.

        Raises:
            CollectError: They are negative, or the duration is nothing.
        """
        if self.delay_s < 0:
            raise CollectError(f"a delay of {self.delay_s:g} s lies in the past; give 0 or more")
        if self.duration_s is not None and self.duration_s <= 0:
            raise CollectError(f"a duration of {self.duration_s:g} s records nothing; give more than 0")

    @property
    def triggered(self) -> bool:
        """Whether the program itself starts and stops the recording."""
        return self.range_name is not None or self.profiler_calls


class WindowControl:
    """Pauses and resumes a recorder as its window says.

    Args:
        recorder: Started recorder.
        window: When to record.
    """

    def __init__(self, recorder: Recorder, window: Window) -> None:
        self._recorder = recorder
        self._window = window
        self._lock = threading.RLock()
        self._open = 0  # ranges of the name
        self._profiling = False
        self._armed = False
        self._timer: threading.Timer | None = None

    def begin(self) -> None:
        """Take over; called once, before the program runs."""
        window = self._window
        if window.triggered or window.delay_s:
            self._recorder.pause()
        if window.range_name is not None:
            annotate.listen(window.range_name, self._range_begun, self._range_ended)
            self._recorder.backend.watch_ranges(window.range_name, self._range_begun, self._range_ended)
        if window.profiler_calls:
            self._recorder.backend.watch_profiler_calls(self._profiler_started, self._profiler_stopping)
        if window.delay_s:
            _after(window.delay_s, self._arm)
        else:
            self._arm()

    def _arm(self) -> None:
        with self._lock:
            self._armed = True
            if not self._window.triggered or self._wanted:
                self._resume()

    @property
    def _wanted(self) -> bool:
        return self._open > 0 or self._profiling

    def _range_begun(self) -> None:
        with self._lock:
            self._change(self._open + 1, profiling=self._profiling)

    def _range_ended(self) -> None:
        with self._lock:
            self._change(max(self._open - 1, 0), profiling=self._profiling)

    def _profiler_started(self) -> None:
        with self._lock:
            self._change(self._open, profiling=True)

    def _profiler_stopping(self) -> None:
        with self._lock:
            self._change(self._open, profiling=False)

    def _change(self, open_ranges: int, *, profiling: bool) -> None:
        before = self._wanted
        self._open, self._profiling = open_ranges, profiling
        if self._armed and before != self._wanted:
            if self._wanted:
                self._resume()
            else:
                self._pause()

    def _resume(self) -> None:
        self._try(self._recorder.resume)
        if self._window.duration_s is not None:
            self._timer = _after(self._window.duration_s, self._expire)

    def _expire(self) -> None:
        with self._lock:
            self._pause()

    def _pause(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._try(self._recorder.pause)

    @staticmethod
    def _try(step: Callable[[], None]) -> None:
        """Take a step; the program goes on whatever comes of it."""
        try:
            step()
        except CollectError as error:
            sys.stderr.write(f"overlane: {error}\n")


def _after(seconds: float, action: Callable[[], None]) -> threading.Timer:
    timer = threading.Timer(seconds, action)
    timer.daemon = True
    timer.name = "overlane-window"
    timer.start()
    return timer
