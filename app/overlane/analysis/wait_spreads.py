"""How long the operations of each stream role waited, on both sides of a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from overlane.analysis.changes import WaitPoint, WaitSpread
from overlane.analysis.keys import Ids, group_rows
from overlane.analysis.matching import Groups
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
    every = [study.wait_lengths for study in studies]
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
    rows = []
    for capture, mask, waits in zip(groups.captures, inside, every, strict=True):
        code = np.where(mask & (waits >= 0), of_group[capture.group], -1) if places else capture.group
        order, cuts = group_rows(code, len(places))
        rows.append([order[a:b] for a, b in pairwise(cuts)])
    found = []
    for number, (device, role) in enumerate(places):
        sides = []
        for captures in (range(count), range(count, len(every))):
            mine = [rows[at][number] for at in captures]
            sides.append(_points([every[at][part] for at, part in zip(captures, mine, strict=True)], mine))
        if any(points for _, points in sides):
            (before, baseline), (after, candidate) = sides
            found.append(WaitSpread(kind, device, role, before, after, baseline, candidate))
    return found


def _points(waits: Sequence[Ids], rows: Sequence[Ids]) -> tuple[int, tuple[WaitPoint, ...]]:
    """Return how many operations waited, and the points of their distribution: waits that were measured."""
    length = np.concatenate(waits)
    if not len(length):
        return 0, ()
    begins = np.cumsum([0, *(len(part) for part in rows)])
    ranks = [max(int(np.ceil(share * len(length))) - 1, 0) for share in FRACTIONS]
    points = []
    for share, ns in zip(FRACTIONS, np.partition(length, ranks)[ranks].tolist(), strict=True):
        at = int(np.argmax(length == ns))  # the first operation that waited so long
        capture = int(np.searchsorted(begins, at, side="right")) - 1
        points.append(WaitPoint(share, ns, capture, int(rows[capture][at - begins[capture]])))
    return len(length), tuple(points)
