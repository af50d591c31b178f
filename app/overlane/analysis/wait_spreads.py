"""How long the operations of each stream role waited, on both sides of a comparison."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from overlane.analysis.changes import WaitPoint, WaitSpread
from overlane.analysis.keys import Ids
from overlane.analysis.matching import Groups
from overlane.analysis.measures import waits_of
from overlane.analysis.study import Study
from overlane.analysis.work import Mask

__all__ = ["FRACTIONS", "wait_spreads"]

FRACTIONS = (0.0, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1.0)
"""Shares of the operations that waited no longer than the wait that is told."""


def wait_spreads(
    studies: Sequence[Study], groups: Groups, inside: Sequence[Mask], count: int
) -> tuple[WaitSpread, ...]:
    """Return the waits of each stream role that waited on some side, the longest waits first.

    Args:
        studies: The captures, the baseline's first.
        groups: Their operations.
        inside: Which operations of each capture count, shape (operations,).
        count: Captures of the baseline.
    """
    every = [waits_of(study) for study in studies]
    found = [
        spread
        for kind in every[0]
        for spread in _spreads(kind, [waits[kind] for waits in every], groups, inside, count)
    ]
    found.sort(key=lambda one: -max(point.ns for point in (*one.baseline, *one.candidate)))
    return tuple(found)


def _spreads(
    kind: str, every: Sequence[Ids], groups: Groups, inside: Sequence[Mask], count: int
) -> list[WaitSpread]:
    """Return the waits of one kind, by stream role."""
    places = list(dict.fromkeys(key[:2] for key in groups.keys))
    of_group = np.array([places.index(key[:2]) for key in groups.keys], np.int64)
    waits = [np.where(mask, one, -1) for one, mask in zip(every, inside, strict=True)]
    codes = [of_group[capture.group] for capture in groups.captures]
    found = []
    for number, (device, role) in enumerate(places):
        sides = []
        for first, last in ((0, count), (count, len(every))):
            rows = [np.flatnonzero((codes[at] == number) & (waits[at] >= 0)) for at in range(first, last)]
            sides.append(
                _points([waits[at][part] for at, part in zip(range(first, last), rows, strict=True)], rows)
            )
        if any(points for _, points in sides):
            (before, baseline), (after, candidate) = sides
            found.append(WaitSpread(kind, device, role, before, after, baseline, candidate))
    return found


def _points(waits: Sequence[Ids], rows: Sequence[Ids]) -> tuple[int, tuple[WaitPoint, ...]]:
    """Return how many operations waited, and the points of their distribution: waits that were measured."""
    length = np.concatenate(waits)
    if not len(length):
        return 0, ()
    capture = np.repeat(np.arange(len(rows)), [len(part) for part in rows])
    op = np.concatenate(rows)
    order = np.argsort(length, kind="stable")
    ranks = [max(int(np.ceil(share * len(length))) - 1, 0) for share in FRACTIONS]
    return len(length), tuple(
        WaitPoint(share, int(length[at]), int(capture[at]), int(op[at]))
        for share, at in zip(FRACTIONS, order[ranks].tolist(), strict=True)
    )
