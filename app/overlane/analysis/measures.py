"""The numbers that runs are compared and checked by, for a whole trace and for each of its repeated steps.

A step's numbers are those of its window: what ran there, cut to it. `idle_ns` of a step is its window minus
the union of all operations of the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from overlane.analysis.barriers import BARRIER_KINDS
from overlane.analysis.causes import CAUSE_NAMES
from overlane.analysis.idle import SCOPES
from overlane.analysis.keys import NULL, Ids, group_rows, identities, known, words
from overlane.analysis.work import Mask
from overlane.intervals import Intervals, close_unfinished, intersect, subtract, union
from overlane_collect.schema import ENGINES

if TYPE_CHECKING:
    from overlane.analysis.study import Study

__all__ = ["MEASURES", "Measure", "Measured", "measure"]

Windows: TypeAlias = Sequence[tuple[int, int]]
_COPIES = tuple(name for name in ENGINES if name.startswith("copy_"))


@dataclass(frozen=True)
class Measure:
    """One kind of number.

    Attributes:
        name: Name in JSON and rules; times end in `_ns`, shares in `_fraction`.
        better: Whether less or more of it is better.
        sentence: What it is, without unit.
        of: What it is told apart by: an engine, two engines, a cause, a kind of barrier, a stream's role;
            empty where a device has one.
    """

    name: str
    better: Literal["lower", "higher"]
    sentence: str
    of: str = ""


_ALL = (
    Measure(
        "window_ns", "lower", "Time from the first start to the last end on the device; length of a step."
    ),
    Measure("busy_ns", "lower", "Time in which at least one operation ran."),
    Measure("idle_ns", "lower", "Time in which none ran."),
    Measure("idle_fraction", "lower", "Share of the window in which none ran."),
    Measure("engine_busy_ns", "lower", "Time in which the engine was busy.", "engine"),
    Measure("overlap_ns", "higher", "Time in which both engines were busy.", "two engines"),
    Measure("exposed_copy_ns", "lower", "Time in which a copy was under way and nothing computed."),
    Measure("idle_cause_ns", "lower", "Idle time of the device by cause.", "cause"),
    Measure("barrier_lost_ns", "lower", "Time that barriers held streams, added up.", "kind of barrier"),
    Measure("wait_p50_ns", "lower", "Median wait from issue to start.", "stream role"),
    Measure("wait_p90_ns", "lower", "90th percentile of the waits.", "stream role"),
    Measure("wait_p99_ns", "lower", "99th percentile of the waits.", "stream role"),
    Measure("wait_max_ns", "lower", "Longest wait.", "stream role"),
    Measure("wait_room_p50_ns", "lower", "Median wait for room.", "stream role"),
    Measure("wait_room_p90_ns", "lower", "90th percentile of the waits for room.", "stream role"),
    Measure("wait_room_p99_ns", "lower", "99th percentile of the waits for room.", "stream role"),
    Measure("wait_room_max_ns", "lower", "Longest wait for room.", "stream role"),
)
MEASURES = {measure.name: measure for measure in _ALL}
_PERCENTILES = {"p50_ns": 0.5, "p90_ns": 0.9, "p99_ns": 0.99, "max_ns": 1.0}


@dataclass(frozen=True)
class Measured:
    """One number of one device.

    Attributes:
        measure: What kind of number.
        device: Place of the device among those that have operations, by rank and id.
        of: Engine, engines, cause, kind of barrier or stream role; empty where the measure has none.
        value: Of the whole trace, in ns or as a share.
        steps: Of each window, shape (windows,); empty where it cannot be told by window.
        proof: Start and end in ns of the longest stretch that it is made of; None where there is none.
    """

    measure: Measure
    device: int
    of: str
    value: float
    steps: np.ndarray[Any, np.dtype[np.float64]]
    proof: tuple[int, int] | None


class _Union:
    """Disjoint intervals whose length inside any window is told at once."""

    def __init__(self, intervals: Intervals) -> None:
        self.start, self.end = union(intervals)
        self._before = np.concatenate([[0], np.cumsum(self.end - self.start)])

    def until(self, at: Ids) -> Ids:
        """Return the length before each instant."""
        place = np.searchsorted(self.start, at, side="right")
        last = np.maximum(place - 1, 0)
        if not len(self.start):
            return np.zeros(len(at), np.int64)
        over = np.maximum(self.end[last] - np.maximum(at, self.start[last]), 0)
        found: Ids = self._before[place] - np.where(place > 0, over, 0)
        return found

    def within(self, low: Ids, high: Ids) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Return the length inside each window."""
        return (self.until(high) - self.until(low)).astype(np.float64)

    @property
    def length(self) -> int:
        """All of it."""
        return int(self._before[-1])

    @property
    def longest(self) -> tuple[int, int] | None:
        """The longest unbroken interval."""
        if not len(self.start):
            return None
        at = int(np.argmax(self.end - self.start))
        return int(self.start[at]), int(self.end[at])


def measure(study: Study, *, roles: tuple[Ids, Sequence[str]], windows: Windows = ()) -> list[Measured]:
    """Measure every device of a trace, in the window of the study where it has one.

    Args:
        study: The trace and its analyses.
        roles: Number of the stream role of each operation, shape (operations,), and the roles.
        windows: Repeated steps, in ns.
    """
    trace = study.trace
    ops = trace.table("ops")
    if not ops.num_rows:
        return []
    start = trace.column("ops", "start_ns")
    end = known(ops["end_ns"])
    end = close_unfinished(start, end, end == NULL, trace.span_ns)
    is_inside = np.ones(len(start), np.bool_)
    if study.window is not None:
        is_inside = (start < study.window[1]) & (end > study.window[0])
        start, end = np.maximum(start, study.window[0]), np.minimum(end, study.window[1])
    codes, keys = identities(ops, ("rank", "device_id"))
    engine, engines = words(ops["engine"])
    order = sorted(range(len(keys)), key=lambda at: tuple((part is None, part or 0) for part in keys[at]))
    low, high = (np.array([window[side] for window in windows], np.int64) for side in (0, 1))
    found: list[Measured] = []
    for place, code in enumerate(order):
        rows = np.flatnonzero((codes == code) & is_inside)
        of_engine = {
            name: _Union((start[part], end[part]))
            for number, name in enumerate(engines)
            if len(part := rows[engine[rows] == number])
        }
        found += _use(place, _Union((start[rows], end[rows])), of_engine, (low, high), study.window)
        for prefix, waits in study.wait_lengths.items():
            mine = (roles[0][rows], roles[1])
            found += _waits((prefix, place), waits[rows], study.work.start[rows], mine, (low, high))
        found += _idle_causes(study, place, keys[code], (low, high))
        found += _barriers(study, place, codes == code, (low, high))
    return found


def _use(
    place: int,
    busy: _Union,
    of_engine: dict[str, _Union],
    windows: tuple[Ids, Ids],
    whole: tuple[int, int] | None,
) -> list[Measured]:
    """Measure busy, idle, overlap and exposed time of one device."""
    low, high = windows
    lengths = (high - low).astype(np.float64)
    span = whole or ((int(busy.start[0]), int(busy.end[-1])) if len(busy.start) else (0, 0))
    window = span[1] - span[0]
    busy_steps = busy.within(low, high)
    gaps = _Union(subtract((np.array([span[0]]), np.array([span[1]])), (busy.start, busy.end)))
    idle = window - busy.length

    def one(name: str, of: str, value: float, steps: Any, proof: tuple[int, int] | None) -> Measured:
        return Measured(MEASURES[name], place, of, value, steps, proof)

    found = [
        one("window_ns", "", window, lengths, span if window else None),
        one("busy_ns", "", busy.length, busy_steps, busy.longest),
        one("idle_ns", "", idle, lengths - busy_steps, gaps.longest),
        one(
            "idle_fraction",
            "",
            idle / window if window else 0.0,
            1 - busy_steps / np.maximum(lengths, 1),
            gaps.longest,
        ),
    ]
    present = [name for name in ENGINES if name in of_engine]
    for name in present:
        used = of_engine[name]
        found.append(one("engine_busy_ns", name, used.length, used.within(low, high), used.longest))
    for a, b in combinations(present, 2):
        both = _Union(intersect(*((of_engine[x].start, of_engine[x].end) for x in (a, b))))
        found.append(one("overlap_ns", f"{a}+{b}", both.length, both.within(low, high), both.longest))
    copies = [of_engine[name] for name in _COPIES if name in of_engine]
    if copies:
        merged = (np.concatenate([x.start for x in copies]), np.concatenate([x.end for x in copies]))
        computed = of_engine.get("compute")
        shown = _Union(subtract(merged, (computed.start, computed.end)) if computed else merged)
        found.append(one("exposed_copy_ns", "", shown.length, shown.within(low, high), shown.longest))
    return found


def _waits(
    which: tuple[str, int],
    wait: Ids,
    start: Ids,
    roles: tuple[Ids, Sequence[str]],
    windows: tuple[Ids, Ids],
) -> list[Measured]:
    """Measure percentiles of waits of one kind on one device, by stream role."""
    order, cuts = group_rows(np.where(wait >= 0, roles[0], -1), len(roles[1]))
    found = []
    for number in np.flatnonzero(np.diff(cuts)).tolist():
        mine = order[cuts[number] : cuts[number + 1]]
        lengths, begins = wait[mine], start[mine]
        edges = [np.searchsorted(begins, side) for side in windows]
        parts = [_percentiles(lengths[a:b]) for a, b in zip(*edges, strict=True) if b > a]
        longest = int(np.argmax(lengths))
        proof = (int(begins[longest] - lengths[longest]), int(begins[longest]))
        whole = _percentiles(lengths)
        is_whole = len(parts) == len(edges[0])
        for place, name in enumerate(_PERCENTILES):
            steps = np.array([part[place] for part in parts] if is_whole else [], np.float64)
            measure_of = MEASURES[f"{which[0]}_{name}"]
            found.append(Measured(measure_of, which[1], roles[1][number], whole[place], steps, proof))
    return found


def _idle_causes(
    study: Study, place: int, key: tuple[int | None, ...], windows: tuple[Ids, Ids]
) -> list[Measured]:
    """Measure the idle time of one device by cause."""
    idle = study.idle
    is_mine = (idle.scope == SCOPES.index("device")) & (
        idle.owner == (idle.devices.index((key[0], key[1])) if key in idle.devices else -1)
    )
    parts = np.flatnonzero(is_mine[idle.gap])
    found = []
    for cause in np.unique(idle.cause[parts]).tolist():
        mine = parts[idle.cause[parts] == cause]
        spent = _Union((idle.part_start_ns[mine], idle.part_end_ns[mine]))
        steps = spent.within(*windows)
        name = CAUSE_NAMES[cause]
        found.append(Measured(MEASURES["idle_cause_ns"], place, name, spent.length, steps, spent.longest))
    return found


def _barriers(study: Study, place: int, is_mine: Mask, windows: tuple[Ids, Ids]) -> list[Measured]:
    """Measure what barriers of each kind cost on one device, told by the first operation that each held."""
    barriers = study.barrier_costs
    holds = np.flatnonzero(np.diff(barriers.op_begins) > 0)
    holds = holds[is_mine[barriers.ops_held[barriers.op_begins[holds]]]]
    found = []
    for kind in np.unique(barriers.kind[holds]).tolist():
        mine = holds[barriers.kind[holds] == kind]
        lost, begins = barriers.lost_ns[mine].astype(np.float64), barriers.start_ns[mine]
        steps = np.array(
            [lost[(begins >= a) & (begins < b)].sum() for a, b in zip(*windows, strict=True)], np.float64
        )
        worst = int(mine[np.argmax(lost)])
        proof = (int(barriers.start_ns[worst]), int(barriers.end_ns[worst]))
        found.append(
            Measured(MEASURES["barrier_lost_ns"], place, BARRIER_KINDS[kind], float(lost.sum()), steps, proof)
        )
    return found


def _percentiles(values: Ids) -> list[float]:
    """Return for each of `_PERCENTILES` the least value that this share of all does not exceed."""
    ranks = [max(int(np.ceil(share * len(values))) - 1, 0) for share in _PERCENTILES.values()]
    return [float(value) for value in np.partition(values, ranks)[ranks]]
