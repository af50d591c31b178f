"""Compare runs: which operations are the same, what changed, and whether the change is more than noise.

Each side is one or more captures of a run. With three or more on both sides, each capture is one independent
measurement of a number; with fewer, the numbers of repeated steps (each from its start to that of the next),
or the occurrences of an operation in blocks of consecutive ones, stand in for repeats. Those do not show how
much whole runs differ from one another, so the answer says which of the two it rests on.

A verdict needs three things: the interval of the change excludes none, the change survives the correction
for looking at many rows at once (`overlane.analysis.noise.adjusted`), and it is at least as large as a change
that counts (`least_fraction`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from overlane.analysis import noise
from overlane.analysis.changes import (
    Basis,
    Comparison,
    Judgement,
    MetricChange,
    OperationChange,
    Verdict,
    VerdictWord,
)
from overlane.analysis.comparable import REASONS, differing_parameters, reasons_against
from overlane.analysis.matching import Groups, group
from overlane.analysis.measures import Measured, measure
from overlane.analysis.steps import device_steps, repeated_steps
from overlane.analysis.study import Study
from overlane.analysis.workloads import Sizes, sizes
from overlane.errors import OverlaneError
from overlane.trace import Trace

__all__ = ["compare", "compare_studies"]

_Given: TypeAlias = Trace | str | Path
_FIRST_STEPS = 1
"""The first step of a run warms up caches, allocators and code."""
_LEAST_OF_WINDOW = 0.001
"""Parts of the window that change by less than this share of it do not count, however sure the change is."""
_THREADS = 2
_LEAST_COVERED = 0.5
"""Where the steps hold less of a number, they do not speak for it."""


def compare(
    candidate: _Given | Sequence[_Given],
    baseline: _Given | Sequence[_Given],
    *,
    level: float = 0.95,
    least_fraction: float = 0.01,
    accept: Collection[str] = (),
) -> Comparison:
    """Compare a run with a baseline; either side may be several captures of the same run.

    Args:
        candidate: Trace or path, or several.
        baseline: Trace or path, or several.
        level: Confidence of the intervals, above 0.5 and below 1.
        least_fraction: Smaller changes are no difference, as a share of the baseline.
        accept: What may differ although it makes runs not comparable: `devices`, `drivers`, `workloads`,
            `integrity`.

    Raises:
        OverlaneError: A side is empty, a path cannot be read, or an argument is out of range.

    Example:
        >>> import overlane
        >>> overlane.compare("after.overlane", "before.overlane").verdict  # doctest: +SKIP
        'faster'
    """
    return compare_studies(
        [Study(trace) for trace in _opened(candidate, "candidate")],
        [Study(trace) for trace in _opened(baseline, "baseline")],
        level=level,
        least_fraction=least_fraction,
        accept=accept,
    )


def _opened(side: Any, name: str) -> list[Trace]:
    from overlane.readers import open_trace  # noqa: PLC0415 - traces that are open need no reader

    items = [side] if isinstance(side, Trace | str | Path) else list(side)
    if not items:
        raise OverlaneError(f"the {name} has no captures; give at least one trace")
    return [item if isinstance(item, Trace) else open_trace(item) for item in items]


def compare_studies(
    candidate: Sequence[Study],
    baseline: Sequence[Study],
    *,
    level: float = 0.95,
    least_fraction: float = 0.01,
    accept: Collection[str] = (),
) -> Comparison:
    """Compare a run with a baseline, given as studies whose results may be kept.

    Args:
        candidate: Captures of one side, at least one.
        baseline: Captures of the other, at least one.
        level: As for `compare`.
        least_fraction: As for `compare`.
        accept: As for `compare`.

    Raises:
        OverlaneError: An argument is out of range.
    """
    _check(level, least_fraction, accept)
    studies = [*baseline, *candidate]
    traces = [study.trace for study in studies]
    count = len(baseline)
    groups = group(traces)
    against = [x for x in reasons_against(traces[:count], traces[count:], groups) if x.kind not in accept]
    judge = _Judge(level, least_fraction, " ".join(reason.sentence for reason in against))
    is_repeated = min(count, len(traces) - count) >= noise.LEAST_UNITS
    rows = _operations(groups, count, judge, is_repeated=is_repeated)
    step, windows = ("", [()] * len(traces)) if is_repeated else _common_steps(traces)
    metric_basis: Basis = "captures" if is_repeated else "steps" if step else "none"
    roles = list(dict.fromkeys(key[1] for key in groups.keys))
    of_group = np.array([roles.index(key[1]) for key in groups.keys], np.int64)

    def measured_of(place: int) -> list[Measured]:
        capture = groups.captures[place]
        return measure(studies[place], roles=(of_group[capture.group], roles), windows=windows[place])

    with ThreadPoolExecutor(_THREADS) as pool:  # compiled code and sorting let other threads run
        measured = list(pool.map(measured_of, range(len(studies))))
    return Comparison(
        baseline=tuple(trace.name for trace in traces[:count]),
        candidate=tuple(trace.name for trace in traces[count:]),
        level=level,
        least_fraction=least_fraction,
        operation_basis="captures" if is_repeated else "occurrences",
        metric_basis=metric_basis,
        step=step,
        reasons=tuple(against),
        parameters=differing_parameters(traces[:count], traces[count:]),
        metrics=_metrics(measured[:count], measured[count:], metric_basis, judge),
        operations=tuple(row for row in rows if row.baseline_count and row.candidate_count),
        appeared=tuple(row for row in rows if not row.baseline_count),
        vanished=tuple(row for row in rows if not row.candidate_count),
    )


def _check(level: float, least_fraction: float, accept: Collection[str]) -> None:
    if not 0.5 < level < 1:
        raise OverlaneError(
            f"the level {level} is out of range; give a share above 0.5 and below 1, as in 0.95"
        )
    if not 0 <= least_fraction < 1:
        raise OverlaneError(f"the least change {least_fraction} is out of range; give a share, as in 0.01")
    unknown = sorted(set(accept) - set(REASONS))
    if unknown:
        raise OverlaneError(f"{unknown[0]!r} cannot be accepted; known: {', '.join(REASONS)}")


class _Judge:
    """Turns estimates into verdicts, the same way for every kind of row.

    Args:
        level: Confidence of the intervals.
        least_fraction: Smaller changes are no difference.
        against: Sentences that forbid any verdict; empty where none does.
    """

    def __init__(self, level: float, least_fraction: float, against: str) -> None:
        self.level = level
        self._least = least_fraction
        self._against = against

    def verdicts(
        self,
        estimates: Sequence[noise.Estimate | None],
        why_not: Sequence[str],
        none: float,
        better: Sequence[str],
    ) -> list[Verdict]:
        """Return the verdict of each row.

        Args:
            estimates: Changes; None where the noise is not known.
            why_not: What forbids a verdict on each row; empty where nothing does.
            none: The change that is none: 1 for ratios, 0 for differences.
            better: `lower` or `higher`.
        """
        judged = [
            one if one is not None and not why else None for one, why in zip(estimates, why_not, strict=True)
        ]
        corrected = iter(noise.adjusted(one.chance for one in judged if one is not None))
        return [
            Verdict("not comparable", self._against or why)
            if one is None or self._against
            else self._verdict(one, next(corrected), none, is_lower_better=direction == "lower")
            for one, why, direction in zip(judged, why_not, better, strict=True)
        ]

    def _verdict(self, one: noise.Estimate, chance: float, none: float, *, is_lower_better: bool) -> Verdict:
        words = f"{100 * self.level:g} % interval"
        same: VerdictWord = "no difference beyond noise"
        if one.low <= none <= one.high:
            return Verdict(same, f"Its {words} includes no difference.")
        if chance > 1 - self.level:
            return Verdict(
                same, f"Its {words} excludes no difference, but among so many rows some do by chance."
            )
        share = abs(one.change - 1) if none else abs(one.change) / max(abs(one.baseline), 1e-300)
        if share < self._least:
            return Verdict(
                same, f"It changed by {100 * share:.2g} %; below {100 * self._least:g} % does not count."
            )
        is_faster = (one.change < none) == is_lower_better
        return Verdict("faster" if is_faster else "slower", f"Its {words} excludes no difference.")


# ---- operations


def _operations(groups: Groups, count: int, judge: _Judge, *, is_repeated: bool) -> list[OperationChange]:
    """Compare each group, the most work first."""
    parts = [_split(capture.group, len(groups.keys)) for capture in groups.captures]
    durations = [
        [capture.duration_ns[rows[number]] for capture, rows in zip(groups.captures, parts, strict=True)]
        for number in range(len(groups.keys))
    ]
    units = [
        (_units(one[:count], is_repeated=is_repeated), _units(one[count:], is_repeated=is_repeated))
        for one in durations
    ]
    estimates = noise.ratios(units, level=judge.level)
    sized = [sizes(capture.trace) for capture in (groups.captures[0], groups.captures[count])]
    first = [(parts[0][number], parts[count][number]) for number in range(len(groups.keys))]
    why = [
        _why_not(len(a), len(b), _different_work(sized, rows))
        for (a, b), rows in zip(units, first, strict=True)
    ]
    verdicts = judge.verdicts(estimates, why, 1.0, ["lower"] * len(units))
    found = []
    for number, key in enumerate(groups.keys):
        one = estimates[number]
        judgement = Judgement.of(one, (len(units[number][0]), len(units[number][1]))) if one else None
        sides = [
            _summary(durations[number][:count], first[number][0]),
            _summary(durations[number][count:], first[number][1]),
        ]
        found.append(_change(key, sides, judgement, verdicts[number]))
    found.sort(key=lambda row: -max(row.baseline_work_ns, row.candidate_work_ns))
    return found


def _split(codes: Any, size: int) -> list[Any]:
    """Return the rows of each group, rising."""
    order = np.argsort(codes, kind="stable")
    cuts = np.cumsum(np.bincount(codes, minlength=size))[:-1] if size else np.zeros(0, np.int64)
    return np.split(order, cuts)


def _units(captures: Sequence[Any], *, is_repeated: bool) -> noise.Units:
    """Return the independent repeats of a duration: a median per capture, or blocks of occurrences."""
    present = [np.maximum(one, 1) for one in captures if len(one)]
    if is_repeated:
        return np.array([np.median(one) for one in present], np.float64)
    return noise.blocks(np.concatenate(present)) if present else np.zeros(0)


def _why_not(before: int, after: int, different: str) -> str:
    """Return what forbids a verdict on operations; empty where nothing does."""
    if not before or not after:
        return "Only one side has it."
    if different:
        return different
    if min(before, after) < noise.LEAST_UNITS:
        return f"It ran {before} against {after} times; from {noise.LEAST_UNITS} on, noise can be told."
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
    key: tuple[int, str, str, str], sides: Sequence[_Summary], judgement: Judgement | None, verdict: Verdict
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
        judgement=judgement,
        verdict=verdict,
        baseline_op=op_a,
        candidate_op=op_b,
    )


# ---- metrics


def _common_steps(traces: Sequence[Trace]) -> tuple[str, list[Any]]:
    """Return the range that repeats in every capture, and the windows from one's start to the next's.

    So nothing falls between two steps. Where the trace tells when the device worked on each step, that is
    when it starts: the host can be whole steps ahead.
    """
    found = [repeated_steps(trace) for trace in traces]
    names = {name for name, _ in found}
    if len(names) != 1:
        return "", [()] * len(traces)
    name = names.pop()
    on_device = [device_steps(trace, name) for trace in traces]
    are_projected = all(len(one) == len(host) for one, (_, host) in zip(on_device, found, strict=True))
    steps = on_device if are_projected else [host for _, host in found]
    starts = [[step.start_ns for step in one[_FIRST_STEPS:]] for one in steps]
    windows = [[(a, b) for a, b in pairwise(one) if b > a] for one in starts]
    if min(len(one) for one in windows) < noise.LEAST_UNITS:
        return "", [()] * len(traces)
    return name, windows


def _metrics(
    baseline: Sequence[list[Measured]], candidate: Sequence[list[Measured]], basis: Basis, judge: _Judge
) -> tuple[MetricChange, ...]:
    """Compare each number that one of the sides has; a number that one lacks is 0 there."""
    sides = [
        [{(x.device, x.measure.name, x.of): x for x in one} for one in side] for side in (baseline, candidate)
    ]
    keys = list(
        dict.fromkeys(
            key for side in sides for one in side for key, x in one.items() if x.value or x.steps.any()
        )
    )
    example = {key: one[key] for side in sides for one in side for key in one}
    units = [tuple(_metric_units(side, key, basis) for side in sides) for key in keys]
    estimates = noise.differences([(a, b) for a, b in units], level=judge.level)
    why = [
        _why_no_metric(a, b, basis) or _why_not_covered(sides, key, basis)
        for key, (a, b) in zip(keys, units, strict=True)
    ]
    verdicts = judge.verdicts(estimates, why, 0.0, [example[key].measure.better for key in keys])
    windows = {
        key[0]: one.baseline
        for key, one in zip(keys, estimates, strict=True)
        if one and key[1] == "window_ns"
    }
    found = []
    for key, (a, b), one, verdict in zip(keys, units, estimates, verdicts, strict=True):
        before, after = (_mean(side, key) for side in sides)
        found.append(
            MetricChange(
                metric=key[1],
                of=key[2],
                device=key[0],
                baseline=before,
                candidate=after,
                ratio=after / before if before else None,
                judgement=Judgement.of(one, (len(a), len(b))) if one else None,
                verdict=_unless_tiny(verdict, one, key[1], windows.get(key[0], 0.0)),
                baseline_proof=_proof(sides[0][0], key),
                candidate_proof=_proof(sides[1][0], key),
            )
        )
    return tuple(found)


def _unless_tiny(verdict: Verdict, one: noise.Estimate | None, metric: str, window: float) -> Verdict:
    """Return the verdict, unless a part of the window changed by so little that the window cannot show it."""
    is_part = metric.endswith("_ns") and not metric.startswith("wait_")
    if one is None or not is_part or verdict.word not in {"faster", "slower"}:
        return verdict
    if abs(one.change) >= _LEAST_OF_WINDOW * window:
        return verdict
    words = f"It changed by less than {100 * _LEAST_OF_WINDOW:g} % of the window, which does not count."
    return Verdict("no difference beyond noise", words)


_Side: TypeAlias = Sequence[dict[tuple[int, str, str], Measured]]


def _metric_units(side: _Side, key: tuple[int, str, str], basis: Basis) -> noise.Units:
    if basis == "captures":
        return np.array([one[key].value if key in one else 0.0 for one in side], np.float64)
    parts = [one[key].steps for one in side if key in one]
    if parts:
        return np.concatenate(parts)
    lengths = [len(one[least].steps) for one in side for least in list(one)[:1]]
    return np.zeros(sum(lengths))


def _why_no_metric(before: noise.Units, after: noise.Units, basis: Basis) -> str:
    if basis == "none":
        return (
            "One capture and nothing that repeats in it: noise is not known; give three or more of each side."
        )
    if min(len(before), len(after)) < noise.LEAST_UNITS:
        return "Not every step holds such an operation, so there are too few repeats."
    return ""


def _why_not_covered(sides: Sequence[_Side], key: tuple[int, str, str], basis: Basis) -> str:
    """Return what forbids a verdict on a number of which the steps hold little; empty where most."""
    if basis != "steps" or not key[1].endswith("_ns") or key[1].startswith("wait_"):
        return ""
    for side in sides:
        for one in side:
            if key in one and one[key].steps.sum() < _LEAST_COVERED * one[key].value:
                return "Most of it lies outside of the steps."
    return ""


def _mean(side: _Side, key: tuple[int, str, str]) -> float:
    return float(np.mean([one[key].value if key in one else 0.0 for one in side]))


def _proof(one: dict[tuple[int, str, str], Measured], key: tuple[int, str, str]) -> tuple[int, int] | None:
    return one[key].proof if key in one else None
