"""What a source of records does, and where it puts them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from overlane_collect.journal import JournalWriter
from overlane_collect.strings import StringTable

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["DEFAULT_KINDS", "KINDS", "Backend", "Options", "Sink"]

KINDS = ("kernels", "copies", "memsets", "syncs", "events", "overheads", "host-functions", "counters")
"""Kinds of records that can be chosen."""

DEFAULT_KINDS = tuple(kind for kind in KINDS if kind != "counters")
"""Those that are recorded when none are chosen: the counters of managed memory take a second to switch on."""


@dataclass(frozen=True)
class Options:
    """What to record.

    Attributes:
        calls: `needed` (launches, copies, synchronizations, events, allocations, loading), `all` or `none`.
        allocations: Record allocations and frees.
        markers: Record NVTX ranges and marks.
        external: Record the numbers that programs push to correlate their operators.
        kinds: Which of `KINDS` to record.
        accesses: Log what memory copies, memsets and kernels are given; costs each of them microseconds.
        thorough: Use the newest libcupti, and ask for launch stamps where they hold all records back until
            the end: for short runs, since memory grows and a kill loses everything.
        buffer_bytes: Size of one activity buffer; each thread that calls CUDA fills one.
    """

    calls: Literal["needed", "all", "none"] = "needed"
    allocations: bool = True
    markers: bool = True
    external: bool = True
    kinds: tuple[str, ...] = DEFAULT_KINDS
    accesses: bool = False
    thorough: bool = False
    buffer_bytes: int = 2 << 20


class Sink:
    """Where records, texts and facts of a recording go.

    Args:
        journal: Open journal.
    """

    def __init__(self, journal: JournalWriter) -> None:
        self._journal = journal
        self.strings = StringTable()

    def records(self, kind: int, records: npt.NDArray[Any]) -> None:
        """Keep records of one kind; their texts must be numbered in `strings`."""
        self._texts()
        self._journal.records(kind, records)

    def fact(self, fact: str, **values: Any) -> None:
        """Keep one fact."""
        self._texts()
        self._journal.fact(fact, **values)

    def _texts(self) -> None:
        new = self.strings.take_new()
        if new:
            self._journal.fact("strings", texts=new)


class Backend(Protocol):
    """One source of records.

    All but `timestamp` are called by one thread at a time.
    """

    def start(self, sink: Sink, options: Options) -> None:
        """Begin to record; may be called again after `stop`.

        Raises:
            NoGpuError: It cannot record here.
        """

    def flush(self) -> None:
        """Give the sink what is complete; called at least every second."""

    def pause(self) -> None:
        """Record only contexts, streams and the like from now on, so that later work can be placed."""

    def resume(self) -> None:
        """Record everything again."""

    def watch_profiler_calls(self, begin: Callable[[], None], end: Callable[[], None]) -> None:
        """Call `begin` when the program starts the profiler, and `end` before it stops it.

        Raises:
            CollectError: This backend does not notice.
        """

    def watch_ranges(self, name: str, begin: Callable[[], None], end: Callable[[], None]) -> None:
        """Call `begin` and `end` with each NVTX range of a name."""

    def stop(self, *, calibrate: bool = False) -> None:
        """End the recording and give the sink everything, with the facts about what was lost.

        Args:
            calibrate: Measure what a launch costs while recording, if that can be done.
        """

    def timestamp(self) -> int:
        """Return the clock of the records, in ns."""
