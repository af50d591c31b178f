"""What became of the operations that two sides have in common, and which appeared or vanished.

Where captures stand for repeats, each operation's interval rests on its median in each capture. With fewer,
the operations of the captures are paired by launch order and dependency (`overlane.analysis.matching.pair`),
and the interval rests on the ratio of each pair: so one layer is held against the same layer, not against all
that run the same kernel. Where more than half of an operation's occurrences have no partner the pairs say
little, and it rests on the occurrences of each side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from overlane.analysis import noise
from overlane.analysis.changes import Basis, Judgement, OperationChange, Verdict
from overlane.analysis.judging import Judge
from overlane.analysis.keys import Ids, group_rows
from overlane.analysis.matching import Groups, pair
from overlane.analysis.work import Mask
from overlane.analysis.workloads import Sizes, sizes

__all__ = ["operation_changes"]

_LEAST_PAIRED = 0.5
"""Share of the occurrences of the side with more that must have a partner for pairs to speak for all."""


def operation_changes(
    groups: Groups, inside: Sequence[Mask], count: int, judge: Judge, *, is_repeated: bool
) -> list[OperationChange]:
    """Compare each group, the most work first.

    Args:
        groups: The operations of all captures, the baseline's first.
        inside: Which operations of each capture count, shape (operations,).
        count: Captures of the baseline.
        judge: Gives the verdicts.
        is_repeated: Captures stand for repeats.
    """
    size = len(groups.keys)
    parts = [
        _split(capture.group, np.flatnonzero(mask), size)
        for capture, mask in zip(groups.captures, inside, strict=True)
    ]
    durations = [
        [capture.duration_ns[rows[number]] for capture, rows in zip(groups.captures, parts, strict=True)]
        for number in range(size)
    ]
    pairs = _pairs(groups, inside, count)
    found = _estimates(durations, pairs, count, judge.level, is_repeated=is_repeated)
    sized = [sizes(capture.trace) for capture in (groups.captures[0], groups.captures[count])]
    first = [(parts[0][number], parts[count][number]) for number in range(size)]
    why = [
        _why_not(one, durations[number], count, _different_work(sized, first[number]))
        for number, one in enumerate(found)
    ]
    verdicts = judge.verdicts([one.estimate for one in found], why, 1.0, ["lower"] * size)
    changes = []
    for number, one in enumerate(found):
        sides = [
            _summary(durations[number][:count], first[number][0]),
            _summary(durations[number][count:], first[number][1]),
        ]
        paired = (int(pairs.counts[number]), int(pairs.same[number]))
        changes.append(_change(groups.keys[number], sides, paired, one, verdicts[number]))
    changes = [row for row in changes if row.baseline_count or row.candidate_count]
    changes.sort(key=lambda row: -max(row.baseline_work_ns, row.candidate_work_ns))
    return changes


def _split(codes: Ids, rows: Ids, size: int) -> list[Ids]:
    """Return which of the rows belong to each group, rising."""
    order, begins = group_rows(codes[rows], size)
    return np.split(rows[order], begins[1:-1]) if size else []


# ---- pairs


@dataclass(frozen=True)
class _Pairs:
    """Partners by group.

    Attributes:
        before: Durations in the baseline's captures of each group, in the order of their starts.
        after: Those of the partners.
        counts: Pairs of the first captures in each group.
        same: Of these, those that follow the same operation.
    """

    before: list[Ids]
    after: list[Ids]
    counts: Ids
    same: Ids


def _pairs(groups: Groups, inside: Sequence[Mask], count: int) -> _Pairs:
    """Pair the first captures of both sides, the second ones and so on."""
    size = len(groups.keys)
    codes, before, after = [], [], []
    counts = same = np.zeros(size, np.int64)
    for turn, (one, other) in enumerate(zip(groups.captures[:count], groups.captures[count:], strict=False)):
        match = pair(one, other, inside=(inside[turn], inside[count + turn]))
        codes.append(one.group[match.first])
        before.append(one.duration_ns[match.first])
        after.append(other.duration_ns[match.second])
        if turn == 0:
            counts = np.bincount(codes[0], minlength=size)
            same = np.bincount(codes[0][match.same_dependency], minlength=size)
    code = np.concatenate(codes)
    rows = _split(code, np.arange(len(code)), size)
    sides = [[np.concatenate(side)[part] for part in rows] for side in (before, after)]
    return _Pairs(sides[0], sides[1], counts, same)


# ---- estimates


@dataclass(frozen=True)
class _Found:
    """The change of one group.

    Attributes:
        estimate: The change; None where the noise is not known.
        units: Repeats of both sides that it rests on.
        basis: What these are.
    """

    estimate: noise.Estimate | None
    units: tuple[int, int]
    basis: Basis


def _estimates(
    durations: Sequence[Sequence[Ids]], pairs: _Pairs, count: int, level: float, *, is_repeated: bool
) -> list[_Found]:
    basis: Basis = "captures" if is_repeated else "occurrences"
    units = [
        tuple(_units(side, is_repeated=is_repeated) for side in (one[:count], one[count:]))
        for one in durations
    ]
    found = [
        _Found(estimate, (len(a), len(b)), basis)
        for estimate, (a, b) in zip(noise.ratios([(a, b) for a, b in units], level=level), units, strict=True)
    ]
    if is_repeated:
        return found
    most = [max(sum(map(len, one[:count])), sum(map(len, one[count:]))) for one in durations]
    speaking = [
        number
        for number, before in enumerate(pairs.before)
        if len(before) >= max(_LEAST_PAIRED * most[number], noise.LEAST_UNITS)
    ]
    rows = [tuple(np.maximum(side[number], 1) for side in (pairs.before, pairs.after)) for number in speaking]
    estimates = noise.paired_ratios([(a, b) for a, b in rows], level=level)
    for number, one in zip(speaking, estimates, strict=True):
        if one is not None:
            found[number] = _Found(one[0], (one[1], one[1]), "pairs")
    return found


def _units(captures: Sequence[Ids], *, is_repeated: bool) -> noise.Units:
    """Return the independent repeats of a duration: a median per capture, or blocks of occurrences."""
    present = [np.maximum(one, 1) for one in captures if len(one)]
    if is_repeated:
        return np.array([np.median(one) for one in present], np.float64)
    return noise.blocks(np.concatenate(present)) if present else np.zeros(0)


def _why_not(found: _Found, durations: Sequence[Ids], count: int, different: str) -> str:
    """Return what forbids a verdict on operations; empty where nothing does."""
    times = [sum(map(len, side)) for side in (durations[:count], durations[count:])]
    if not all(times):
        return "Only one side has it."
    if different:
        return different
    if found.estimate is None and found.basis == "captures":
        return f"Too few captures hold it: {found.units[0]} against {found.units[1]}."
    if found.estimate is None:
        return f"It ran {times[0]} against {times[1]} times; from {noise.LEAST_UNITS} on, noise can be told."
    return ""


def _different_work(sides: Sequence[Sizes], rows: tuple[Any, Any]) -> str:
    """Return how one occurrence of each side is different work; empty where it is the same."""
    if not all(map(len, rows)):
        return ""
    for what, values in (("bytes", "bytes"), ("threads", "threads")):
        typical = [getattr(side, values)[part] for side, part in zip(sides, rows, strict=True)]
        typical = [part[part >= 0] for part in typical]
        if all(map(len, typical)):
            before, after = (float(np.median(part)) for part in typical)
            if abs(after - before) > 0.01 * max(before, after):
                return f"One is {before:,.0f} {what} against {after:,.0f}: different work, so compare totals."
    return ""


_Summary: TypeAlias = tuple[int, int | None, int, int | None]
"""Count in a capture, median duration, work of a capture, row of the longest in the first capture."""


def _summary(captures: Sequence[Any], rows: Any) -> _Summary:
    everything = np.concatenate(captures)
    if not len(everything):
        return 0, None, 0, None
    counts = [len(one) for one in captures]
    longest = int(rows[np.argmax(captures[0])]) if len(rows) else None
    count = max(int(np.median(counts)), 1)
    return count, int(np.median(everything)), int(everything.sum()) // len(captures), longest


def _change(
    key: tuple[int, str, str, str],
    sides: Sequence[_Summary],
    paired: tuple[int, int],
    found: _Found,
    verdict: Verdict,
) -> OperationChange:
    (count_a, median_a, work_a, op_a), (count_b, median_b, work_b, op_b) = sides
    return OperationChange(
        device=key[0],
        stream_role=key[1],
        kind=key[2],
        name=key[3],
        baseline_count=count_a,
        candidate_count=count_b,
        baseline_median_ns=median_a,
        candidate_median_ns=median_b,
        baseline_work_ns=work_a,
        candidate_work_ns=work_b,
        difference_ns=work_b - work_a,
        pair_count=paired[0],
        same_dependency_count=paired[1],
        basis=found.basis,
        judgement=Judgement.of(found.estimate, found.units) if found.estimate else None,
        verdict=verdict,
        baseline_op=op_a,
        candidate_op=op_b,
    )
