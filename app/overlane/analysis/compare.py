"""Compare runs: which operations are the same, what changed, and whether the change is more than noise.

Each side is one or more captures of a run. With three or more on both sides, each capture is one independent
measurement of a number; with fewer, the numbers of repeated steps (each from its start to that of the next),
or pairs of operations in blocks of consecutive ones, stand in for repeats. Those do not show how much whole
runs differ from one another, so the answer says which of the two it rests on.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from overlane.analysis import noise
from overlane.analysis.changes import WAY_OUT, Basis, Comparison, Judgement, MetricChange, Verdict
from overlane.analysis.comparable import REASONS, differing_parameters, reasons_against
from overlane.analysis.judging import Judge
from overlane.analysis.matching import Groups, group
from overlane.analysis.measures import Measured, measure
from overlane.analysis.operation_changes import operation_changes
from overlane.analysis.steps import device_steps, repeated_steps
from overlane.analysis.study import Study
from overlane.analysis.wait_spreads import wait_spreads
from overlane.analysis.work import Mask
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
        candidate: Captures of one side, at least one; those with a window are compared inside of it: the use
            of the device cut to it, and the operations that start in it.
        baseline: Captures of the other, at least one, with windows of their own.
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
    judge = Judge(level, least_fraction, " ".join(reason.sentence for reason in against))
    is_repeated = min(count, len(traces) - count) >= noise.LEAST_UNITS
    inside = [_inside(study, groups, place) for place, study in enumerate(studies)]
    step, windows = ("", [()] * len(traces)) if is_repeated else _common_steps(studies)
    metric_basis: Basis = "captures" if is_repeated else "steps" if step else "none"
    roles = list(dict.fromkeys(key[1] for key in groups.keys))
    of_group = np.array([roles.index(key[1]) for key in groups.keys], np.int64)

    def measured_of(place: int) -> list[Measured]:
        capture = groups.captures[place]
        return measure(studies[place], roles=(of_group[capture.group], roles), windows=windows[place])

    with ThreadPoolExecutor(_THREADS) as pool:  # compiled code and sorting let other threads run
        pending = [pool.submit(measured_of, place) for place in range(len(studies))]
        rows = operation_changes(groups, inside, count, judge, is_repeated=is_repeated)
        measured = [one.result() for one in pending]
    return Comparison(
        baseline=tuple(trace.name for trace in traces[:count]),
        candidate=tuple(trace.name for trace in traces[count:]),
        level=level,
        least_fraction=least_fraction,
        operation_basis="captures" if is_repeated else "pairs",
        metric_basis=metric_basis,
        step=step,
        reasons=tuple(against),
        parameters=differing_parameters(traces[:count], traces[count:]),
        metrics=_metrics(measured[:count], measured[count:], metric_basis, judge),
        operations=tuple(row for row in rows if row.baseline_count and row.candidate_count),
        appeared=tuple(row for row in rows if not row.baseline_count),
        vanished=tuple(row for row in rows if not row.candidate_count),
        waits=wait_spreads(studies, groups, inside, count),
    )


def _inside(study: Study, groups: Groups, place: int) -> Mask:
    """Return which operations of a capture start in its window."""
    start = groups.captures[place].start_ns
    if study.window is None:
        return np.ones(len(start), np.bool_)
    return np.asarray((start >= study.window[0]) & (start < study.window[1]))


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


# ---- metrics


def _common_steps(studies: Sequence[Study]) -> tuple[str, list[Any]]:
    """Return the range that repeats in every capture, and the windows from one's start to the next's.

    So nothing falls between two steps. Where the trace tells when the device worked on each step, that is
    when it starts: the host can be whole steps ahead. Steps count that lie in the window of their study.
    """
    traces = [study.trace for study in studies]
    found = [repeated_steps(trace) for trace in traces]
    names = {name for name, _ in found}
    if len(names) != 1:
        return "", [()] * len(traces)
    name = names.pop()
    on_device = [device_steps(trace, name) for trace in traces]
    are_projected = all(len(one) == len(host) for one, (_, host) in zip(on_device, found, strict=True))
    steps = on_device if are_projected else [host for _, host in found]
    starts = [[step.start_ns for step in one[_FIRST_STEPS:]] for one in steps]
    limits = [study.window or (0, study.trace.span_ns) for study in studies]
    windows = [
        [(a, b) for a, b in pairwise(one) if b > a >= low and b <= high]
        for one, (low, high) in zip(starts, limits, strict=True)
    ]
    if min(len(one) for one in windows) < noise.LEAST_UNITS:
        return "", [()] * len(traces)
    return name, windows


def _metrics(
    baseline: Sequence[list[Measured]], candidate: Sequence[list[Measured]], basis: Basis, judge: Judge
) -> tuple[MetricChange, ...]:
    """Compare each number that one of the sides has; a time that one lacks counts as 0, a wait as none."""
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
        _why_one_sided(sides, key) or _why_no_metric(a, b, basis) or _why_not_covered(sides, key, basis)
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
                ratio=after / before if before and after is not None else None,
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


def _why_one_sided(sides: Sequence[_Side], key: tuple[int, str, str]) -> str:
    """Return what forbids a verdict on waits of which a side has none; empty where both have some."""
    if key[1].startswith("wait_") and not all(any(key in one for one in side) for side in sides):
        return "Only one side has operations whose waits are known here."
    return ""


def _why_no_metric(before: noise.Units, after: noise.Units, basis: Basis) -> str:
    if basis == "none":
        return f"One capture a side and nothing that repeats in it, so noise is not known: {WAY_OUT}."
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


def _mean(side: _Side, key: tuple[int, str, str]) -> float | None:
    if not any(key in one for one in side):
        return None
    return float(np.mean([one[key].value if key in one else 0.0 for one in side]))


def _proof(one: dict[tuple[int, str, str], Measured], key: tuple[int, str, str]) -> tuple[int, int] | None:
    return one[key].proof if key in one else None
