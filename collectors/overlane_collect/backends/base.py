"""What a source of records does, and where it puts them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from overlane_collect.journal import JournalWriter
from overlane_collect.strings import StringTable

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["Backend", "Options", "Sink"]


@dataclass(frozen=True)
class Options:
    """What to record.

    Attributes:
        calls: `needed` (launches, copies, synchronizations, events, allocations, loading), `all` or `none`.
        allocations: Record allocations and frees.
        markers: Record NVTX ranges and marks.
        external: Record the numbers that programs push to correlate their operators.
        thorough: Use the newest libcupti, and ask for launch stamps where they hold all records back until
            the end: for short runs, since memory grows and a kill loses everything.
        buffer_bytes: Size of one activity buffer; each thread that calls CUDA fills one.
    """

    calls: Literal["needed", "all", "none"] = "needed"
    allocations: bool = True
    markers: bool = True
    external: bool = True
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

    def stop(self) -> None:
        """End the recording and give the sink everything, with the facts about what was lost."""

    def timestamp(self) -> int:
        """Return the clock of the records, in ns."""
