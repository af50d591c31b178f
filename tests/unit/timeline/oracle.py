"""Slow and plain answers to what a timeline must show, apart from the index and checked by hand."""

from __future__ import annotations

import itertools
import json
import math
import struct
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Drawn:
    """One slice as it must be drawn: `rows` is how many rows it stands for."""

    start: int
    end: int
    row: int
    category: int
    rows: int = 1


def first_fit(intervals):
    """Return the sublane of each (start, end): placed by start, longer first, then as given."""
    order = sorted(range(len(intervals)), key=lambda i: (intervals[i][0], -intervals[i][1], i))
    lanes = []
    sublane = {}
    for i in order:
        start, end = intervals[i][:2]
        free = [at for at, taken in enumerate(lanes) if not any(e > start for _, e in taken)]
        number = free[0] if free else len(lanes)
        if not free:
            lanes.append([])
        lanes[number].append((start, end))
        sublane[i] = number
    return [sublane[i] for i in range(len(intervals))]


def union_runs(slices):
    """Return the runs of touching slices, each with first row, number of rows and category of most work."""
    runs = []
    for s in sorted(slices, key=lambda s: (s.start, s.row)):
        if runs and s.start <= max(x.end for x in runs[-1]):
            runs[-1].append(s)
        else:
            runs.append([s])
    return [
        Drawn(r[0].start, max(x.end for x in r), r[0].row, heaviest(r, r[0].category), len(r)) for r in runs
    ]


def heaviest(slices, otherwise):
    work = {}
    for s in slices:
        work[s.category] = work.get(s.category, 0) + s.end - s.start
    most = max(work.values())
    return min(c for c, w in work.items() if w == most) if most else otherwise


def meeting(slices, t0, t1):
    """Return the slices that meet [t0, t1), in order; an empty one meets the window of its point."""
    return sorted(
        (s for s in slices if s.start < t1 and (s.end > t0 or s.start >= t0)),
        key=lambda s: (s.start, s.end, s.row),
    )


def union_length(intervals):
    """Return how many nanoseconds are covered, by walking over all edges."""
    edges = sorted({e for i in intervals for e in i})
    return sum(b - a for a, b in itertools.pairwise(edges) if any(s <= a and b <= e for s, e in intervals))


def check_lane(tile, wire, slices, *, whole_pixels=True):
    """Assert that what a tile shows of one wire lane is right; `slices` are all slices of that lane."""
    expected = meeting(slices, tile.t0_ns, tile.t1_ns)
    window, px = tile.t1_ns - tile.t0_ns, tile.px
    mine = np.flatnonzero(tile.lane == wire)
    at = 0
    for i in mine:
        # Each item stands for the next few slices, all of them and no others.
        run = []
        while at < len(expected) and sum(s.rows for s in run) < tile.count[i]:
            run.append(expected[at])
            at += 1
        assert sum(s.rows for s in run) == tile.count[i]
        assert tile.start_ns[i] == run[0].start
        assert tile.end_ns[i] == run[-1].end
        busy = sum(s.end - s.start for s in run)
        assert tile.busy_ns[i] == busy == union_length([(s.start, s.end) for s in run])
        extent = run[-1].end - run[0].start
        share = 255 if extent == 0 else min(255, max(1, math.ceil(255 * busy / extent)))
        assert tile.busy[i] == share
        longest = max(s.end - s.start for s in run)
        assert tile.row[i] == next(s.row for s in run if s.end - s.start == longest)
        assert tile.category[i] == heaviest(run, run[0].category)
        if len(run) > 1 and whole_pixels:
            assert all((s.end - s.start) * px < window for s in run), "a slice of a pixel or more was merged"
            # A column is 1.07 pixels wide and its last element less than three quarters of one.
            assert (run[-1].start - max(run[0].start, tile.t0_ns)) * px < 1.82 * window + px, (
                "a run is too wide"
            )
    assert at == len(expected), "slices were lost"
    return len(mine)


def decode(message):
    """Decode a tile from its bytes, as the contract of the wire format has it."""
    magic, n, t0, t1, ns_per_px, name_bytes, flags, zero, zero2 = struct.unpack_from("<IIdddIIII", message)
    assert (magic, zero, zero2) == (0x3154564F, 0, 0)
    at = 48
    columns = {}
    for name, dtype in (
        ("start", "<f4"), ("end", "<f4"), ("row", "<u4"), ("count", "<u4"), ("name", "<u4"), ("lane", "<u2"),
        ("busy", "u1"), ("category", "u1"),
    ):  # fmt: skip
        columns[name] = np.frombuffer(message, dtype, n, at)
        at += columns[name].nbytes
    at += -at % 4
    names = json.loads(message[at : at + name_bytes])
    assert at + name_bytes == len(message)
    return {
        "t0": t0,
        "t1": t1,
        "ns_per_px": ns_per_px,
        "is_exact": bool(flags & 1),
        "names": names,
        **columns,
    }
