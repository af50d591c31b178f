"""What really happened in a simulated run, in the words of `docs/causes.md`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from overlane.simulate.reach import Reach

__all__ = ["Hazard", "IdlePart", "Truth", "WaitPart"]


@dataclass(frozen=True)
class WaitPart:
    """A stretch of the wait of one operation.

    Attributes:
        op_id: Row in `ops`.
        start_ns, end_ns: Half-open interval.
        cause: What held the operation.
        also_open: What held it too, but ended earlier, or stood behind the cause.
        may_be: Causes that the rows leave open, the true one among them; one name where they determine it.
        also_needed: Those of `also_open` that nothing else which held it comes after.
    """

    op_id: int
    start_ns: int
    end_ns: int
    cause: str
    also_open: frozenset[str]
    may_be: frozenset[str]
    also_needed: frozenset[str] = frozenset()


@dataclass(frozen=True)
class IdlePart:
    """A stretch of an idle gap.

    Attributes:
        scope: `stream`, `partition` or `device`.
        owner: (context_id, stream_id) of a stream, row in `partitions`, or device_id.
        start_ns, end_ns: Half-open interval.
        cause: Why nothing ran.
        next_op: Row in `ops` of the operation after the gap.
        may_be: As in `WaitPart`.
    """

    scope: str
    owner: Any
    start_ns: int
    end_ns: int
    cause: str
    next_op: int
    may_be: frozenset[str]


@dataclass(frozen=True)
class Hazard:
    """Two unordered accesses to the same bytes, at least one a write, or one of them a free.

    Attributes:
        kind: `RAW`, `WAR` or `WAW`, for the first and the second, or `use_after_free`.
        first, second: Who made them, in order: `("free", correlation id)`, `("host", thread, at_ns, address,
            mode)` or `("op", row in ops)`.
        address, bytes: The bytes that both touch.
    """

    kind: str
    first: tuple[Any, ...]
    second: tuple[Any, ...]
    address: int
    bytes: int


@dataclass(frozen=True)
class Truth:
    """The true answers to what the analyses ask.

    Attributes:
        waits: Parts of all waits in order of operation and time.
        idle: Parts of all gaps in order of scope, owner and time.
        issued_ns: Issue of each operation, by row in `ops`.
        reach: The order of events; `happens_before` and `hazards` are made from it when asked for.
    """

    waits: tuple[WaitPart, ...]
    idle: tuple[IdlePart, ...]
    issued_ns: tuple[int, ...]
    reach: Reach

    @cached_property
    def happens_before(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Whether a documented rule that the rows show orders the first before the second.

        Boolean matrix, shape (ops, ops), by rows in `ops`.
        """
        return self.reach.matrix(certain=True)

    @cached_property
    def may_happen_before(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """As `happens_before`, with what no rule guarantees or no row shows.

        Such are flags set by the host, programmatic launches, and calls that synchronize implicitly.
        """
        return self.reach.matrix(certain=False)

    @cached_property
    def hazards(self) -> tuple[Hazard, ...]:
        """Pairs of accesses that `happens_before` leaves unordered."""
        return self.reach.hazards(certain=True)

    @cached_property
    def certain_hazards(self) -> tuple[Hazard, ...]:
        """Pairs of accesses that nothing orders, shown or not."""
        return self.reach.hazards(certain=False)
