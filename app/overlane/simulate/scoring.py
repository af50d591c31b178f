"""Hold parts that an analysis found against the true ones, instant by instant."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise

__all__ = ["Found", "Score", "Stretch", "stretches"]

Found = tuple[Hashable, int, int, str]
"""What was given a cause (an operation, or a gap's scope and owner), start, end, cause."""


@dataclass(frozen=True)
class Stretch:
    """Instants of one subject with one true and one found cause.

    Attributes:
        subject: Operation, or scope and owner of a gap.
        start_ns, end_ns: Half-open interval.
        true: True cause, None where nothing waited or idled.
        found: Found cause, None where the analysis gives none.
        may_be: Causes that the rows leave open; only the true one where they determine it.
    """

    subject: Hashable
    start_ns: int
    end_ns: int
    true: str | None
    found: str | None
    may_be: frozenset[str]

    @property
    def is_determined(self) -> bool:
        """Whether the rows leave one cause only."""
        return len(self.may_be) < 2

    @property
    def is_right(self) -> bool:
        """Whether the found cause is the true one, or one that the rows leave open."""
        if self.true is None or self.found is None or self.is_determined:
            return self.found == self.true
        return self.found in self.may_be or self.found == "unknown"


def stretches(
    true: Iterable[tuple[Hashable, int, int, str, frozenset[str]]], found: Iterable[Found]
) -> list[Stretch]:
    """Return the stretches between all cuts of both sides, in order of subject as met, then time.

    Args:
        true: Subject, start, end, cause, and causes that the rows leave open; disjoint for each subject.
        found: Parts of an analysis, disjoint for each subject.

    Example:
        >>> one = frozenset({"stream_order"})
        >>> found = [(0, 10, 20, "stream_order"), (0, 20, 30, "event_wait")]
        >>> [s.is_right for s in stretches([(0, 10, 30, "stream_order", one)], found)]
        [True, False]
    """
    left: dict[Hashable, list[tuple[int, int, str, frozenset[str]]]] = defaultdict(list)
    right: dict[Hashable, list[tuple[int, int, str]]] = defaultdict(list)
    for subject, start, end, cause, may_be in true:
        left[subject].append((start, end, cause, may_be))
    for subject, start, end, cause in found:
        right[subject].append((start, end, cause))
    result = []
    for subject in dict.fromkeys((*left, *right)):
        spans = [(s, e) for s, e, *_ in left[subject]] + [(s, e) for s, e, _ in right[subject]]
        for low, high in pairwise(sorted({t for span in spans for t in span})):
            a = next((part for part in left[subject] if part[0] <= low and high <= part[1]), None)
            b = next((part for part in right[subject] if part[0] <= low and high <= part[1]), None)
            if a is not None or b is not None:
                may_be = a[3] if a is not None else frozenset()
                result.append(Stretch(subject, low, high, a and a[2], b and b[2], may_be))
    return result


@dataclass
class Score:
    """Nanoseconds per cause over many stretches, of those that the rows determine.

    Attributes:
        true_ns: Per cause, how long it was the true one.
        found_ns: Per cause, how long it was found.
        right_ns: Per cause, how long it was both.
        open_ns: Per true cause, how long the rows left it open.
    """

    true_ns: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    found_ns: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    right_ns: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    open_ns: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def add(self, stretch: Stretch) -> None:
        """Count a stretch."""
        length = stretch.end_ns - stretch.start_ns
        if not stretch.is_determined and stretch.true is not None:
            self.open_ns[stretch.true] += length
            return
        if stretch.true is not None:
            self.true_ns[stretch.true] += length
        if stretch.found is not None:
            self.found_ns[stretch.found] += length
            if stretch.found == stretch.true:
                self.right_ns[stretch.found] += length

    def precision(self, cause: str) -> float | None:
        """Return which share of what was given this cause had it, None when nothing was."""
        found = self.found_ns.get(cause, 0)
        return self.right_ns.get(cause, 0) / found if found else None

    def recall(self, cause: str) -> float | None:
        """Return which share of what had this cause was given it, None when nothing had it."""
        true = self.true_ns.get(cause, 0)
        return self.right_ns.get(cause, 0) / true if true else None
