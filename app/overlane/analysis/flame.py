"""Where time goes by nested ranges: recorded stacks, framework operators and annotations, merged by path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from overlane.analysis.keys import NULL, known
from overlane.analysis.nesting import Nesting, nesting, stem_of
from overlane.intervals import close_unfinished
from overlane.trace import Trace

__all__ = ["MOST_FRAMES", "Flame", "Frame", "Weight", "flame"]

Weight: TypeAlias = Literal["device", "host"]
"""`device`: durations of the operations that were launched inside; `host`: time on the thread."""

MOST_FRAMES = 600
_Times: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Frame:
    """All ranges that have the same names around them.

    Attributes:
        frame: Number of the frame; a parent's is lower.
        parent: Frame around it, -1 for an outermost one.
        name: Name of the ranges.
        count: Ranges that touch the window.
        total_ns: Weight of the ranges with all that they hold.
        self_ns: Weight of the ranges themselves.
    """

    frame: int
    parent: int
    name: str
    count: int
    total_ns: int
    self_ns: int


@dataclass(frozen=True)
class Flame:
    """The heaviest frames of a trace; each one's parent is among them.

    Attributes:
        weight: What the times are.
        frames: The frames, parents first.
        left_out: Frames that were too light to be among them.
        total_ns: Weight of all outermost frames.
        unplaced_ns: Weight of the operations that were launched outside of any range; 0 for `host`.
    """

    weight: Weight
    frames: tuple[Frame, ...]
    left_out: int
    total_ns: int
    unplaced_ns: int


def flame(
    trace: Trace,
    *,
    weight: Weight = "device",
    window: tuple[int, int] | None = None,
    most: int = MOST_FRAMES,
) -> Flame:
    """Merge the nested ranges of all host threads by their path of names.

    Args:
        trace: Any trace; one without ranges has no frames.
        weight: `device` or `host`.
        window: Start and end in ns; ranges and operations count with their parts inside.
        most: Most frames to return, the heaviest.
    """
    nested = nesting(trace)
    low, high = window if window is not None else (0, 1 << 62)
    inside = np.maximum(np.minimum(nested.end_ns, high) - np.maximum(nested.start_ns, low), 0)
    touches = (nested.start_ns < high) & ((nested.end_ns > low) | (nested.start_ns >= low))
    own, unplaced = (
        _device_weights(nested, low, high) if weight == "device" else (_host_weights(nested, inside), 0)
    )
    path, parents, names = _paths(nested)
    size = len(parents)
    self_ns = np.bincount(path, own, size).astype(np.int64)
    total = self_ns.copy()
    for frame in range(size - 1, -1, -1):  # a parent's number is lower
        if parents[frame] >= 0:
            total[parents[frame]] += total[frame]
    count = np.bincount(path, touches, size).astype(np.int64)
    used = (count > 0) & (total > 0)
    # A parent weighs at least as much as a child and has a lower number, so the first ones are closed.
    heaviest = np.lexsort((np.arange(size), -total))
    heaviest = np.sort(heaviest[used[heaviest]][:most])
    number = np.full(size + 1, -1, np.int64)
    number[heaviest] = np.arange(len(heaviest))
    frames = tuple(
        Frame(
            frame=int(number[old]),
            parent=int(number[parents[old]]),
            name=names[old],
            count=int(count[old]),
            total_ns=int(total[old]),
            self_ns=int(self_ns[old]),
        )
        for old in heaviest
    )
    return Flame(
        weight,
        frames,
        int(used.sum()) - len(frames),
        int(total[np.asarray(parents) < 0].sum()) if size else 0,
        unplaced,
    )


def _device_weights(nested: Nesting, low: int, high: int) -> tuple[_Times, int]:
    """Return the durations of the operations launched in each range itself, and of those launched in none."""
    trace = nested.trace
    start, end = trace.column("ops", "start_ns"), known(trace.table("ops")["end_ns"])
    end = close_unfinished(start, end, end == NULL, trace.span_ns)
    inside = np.maximum(np.minimum(end, high) - np.maximum(start, low), 0)
    placed = nested.op_range >= 0
    own = np.bincount(nested.op_range[placed], inside[placed], len(nested.row)).astype(np.int64)
    return own, int(inside[~placed].sum())


def _host_weights(nested: Nesting, inside: _Times) -> _Times:
    """Return the time of each range without the ranges in it."""
    held = nested.parent >= 0
    return inside - np.bincount(nested.parent[held], inside[held], len(inside)).astype(np.int64)


def _paths(nested: Nesting) -> tuple[_Times, list[int], list[str]]:
    """Number the paths of names: number of each range, and parent and name of each number, parents first."""
    codes, labels = nested.names
    words = list(dict.fromkeys(map(stem_of, labels)))  # repeated steps lie on one another
    place = {word: number for number, word in enumerate(words)}
    codes = np.array([place[stem_of(label)] for label in labels], np.int64)[codes] if labels else codes
    path = np.zeros(len(nested.row), np.int64)
    parents: list[int] = []
    names: list[str] = []
    for level in range(int(nested.depth.max(initial=-1)) + 1):
        rows = np.flatnonzero(nested.depth == level)
        above = path[nested.parent[rows]] if level else np.full(len(rows), -1, np.int64)
        keys, found = np.unique((above + 1) * len(words) + codes[rows], return_inverse=True)
        path[rows] = len(parents) + found
        parents += (keys // len(words) - 1).tolist()
        names += [words[key % len(words)] for key in keys]
    return path, parents, names
