"""The parts of a run that can be looked at by themselves: profiler steps and annotated ranges."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from overlane.analysis.keys import NULL, known, words
from overlane.analysis.nesting import Nesting, nesting, stem_of
from overlane.trace import Trace

__all__ = ["LEAST_REPEATS", "Step", "StepKind", "device_steps", "repeated_steps", "steps"]

StepKind: TypeAlias = Literal["step", "range"]
LEAST_REPEATS = 3
"""Fewer ranges of one name are no repeats."""

_STEP = re.compile(r"(ProfilerStep#|(?:train(?:ing)?|iter(?:ation)?)?[ _]?step[ _#:]?)\d+$", re.IGNORECASE)


@dataclass(frozen=True)
class Step:
    """One annotated range of a host thread.

    Attributes:
        kind: `step` for a profiler's or program's numbered step, else `range`.
        name: Its name.
        start_ns: First nanosecond.
        end_ns: First nanosecond after it.
        range_id: Row id in `ranges`.
    """

    kind: StepKind
    name: str
    start_ns: int
    end_ns: int
    range_id: int


def steps(trace: Trace, *, rank: int | None = None, most: int = 300) -> tuple[Step, ...]:
    """Return the steps of a rank, then its outermost other annotated ranges, each in the order of time.

    Args:
        trace: Any trace.
        rank: Rank; None for a trace whose ranges name none.
        most: Most to return.
    """
    nested = nesting(trace)
    is_annotation = nested.is_track("annotation")
    ranks = trace.table("ranges")["rank"]
    mine = np.array([value == rank for value in ranks.to_pylist()], bool)[nested.row]
    outer = _annotations_around(nested, is_annotation)
    rows = np.flatnonzero(is_annotation & mine)
    rows = rows[np.argsort(nested.start_ns[rows], kind="stable")]
    codes, names = nested.names
    found: list[Step] = []
    for row in rows:
        name = names[codes[row]]
        is_step = _STEP.match(name) is not None
        if is_step or outer[row] == 0:
            start, end = int(nested.start_ns[row]), int(nested.end_ns[row])
            found.append(Step("step" if is_step else "range", name, start, end, int(nested.row[row])))
    found.sort(key=lambda step: (step.kind != "step", step.start_ns))
    return tuple(found[:most])


def repeated_steps(trace: Trace) -> tuple[str, tuple[Step, ...]]:
    """Return the annotated range that repeats and covers the most time.

    Returns:
        Its name without the number, and each of its ranges in the order of time; an empty name where nothing
        repeats `LEAST_REPEATS` times.
    """
    nested = nesting(trace)
    codes, names = nested.names
    rows = np.flatnonzero(nested.is_track("annotation"))
    by_stem: dict[str, list[int]] = {}
    for row in rows:
        by_stem.setdefault(stem_of(names[codes[row]]), []).append(int(row))
    lengths = nested.end_ns - nested.start_ns
    best, best_ns = "", 0
    for stem, members in by_stem.items():
        covered = int(lengths[members].sum())
        if len(members) >= LEAST_REPEATS and covered > best_ns:
            best, best_ns = stem, covered
    members = sorted(by_stem.get(best, []), key=lambda row: int(nested.start_ns[row]))
    return best, tuple(
        Step(
            "range",
            names[codes[row]],
            int(nested.start_ns[row]),
            int(nested.end_ns[row]),
            int(nested.row[row]),
        )
        for row in members
    )


def device_steps(trace: Trace, stem: str) -> tuple[Step, ...]:
    """Return when the device worked on each repeat of a range, as its projections say; empty without them.

    Args:
        trace: Any trace.
        stem: Name of the range without its number.
    """
    ranges = trace.table("ranges")
    track, tracks = words(ranges["track"])
    name, names = words(ranges["name"])
    if "device_annotation" not in tracks:
        return ()
    start, end = known(ranges["start_ns"]), known(ranges["end_ns"])
    found: dict[str, Step] = {}
    for row in np.flatnonzero(track == tracks.index("device_annotation")).tolist():
        label = names[name[row]]
        if stem_of(label) == stem and label != stem and end[row] != NULL:
            before = found.get(label)
            low = int(start[row]) if before is None else min(before.start_ns, int(start[row]))
            high = int(end[row]) if before is None else max(before.end_ns, int(end[row]))
            found[label] = Step("step", label, low, high, row)
    return tuple(sorted(found.values(), key=lambda step: step.start_ns))


def _annotations_around(nested: Nesting, is_annotation: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return how many annotations lie around each range."""
    around = np.zeros(len(nested.row), np.int64)
    for place, parent in enumerate(nested.parent.tolist()):
        if parent >= 0:
            around[place] = around[parent] + is_annotation[parent]
    return around
