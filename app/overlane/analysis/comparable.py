"""Whether two runs may be compared at all: devices, drivers, workloads, integrity."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from overlane.analysis.changes import Parameter, Reason
from overlane.analysis.matching import Groups
from overlane.trace import Trace

__all__ = ["REASONS", "differing_parameters", "reasons_against"]

REASONS = ("devices", "drivers", "workloads", "integrity")
LEAST_SHARED = 0.5
"""Share of each side's kinds of operations, weighed by their time, that both must have."""


def reasons_against(baseline: Sequence[Trace], candidate: Sequence[Trace], groups: Groups) -> list[Reason]:
    """Return why two sides are not comparable; empty where they are.

    Args:
        baseline: Captures of one side.
        candidate: Captures of the other.
        groups: Their operations, the baseline's captures first.
    """
    found = []
    sides = [_facts(baseline, _devices), _facts(candidate, _devices)]
    if sides[0] != sides[1] and all(trace.table("ops").num_rows for trace in (*baseline, *candidate)):
        found.append(
            Reason("devices", f"The devices differ: {_listed(sides[0])} against {_listed(sides[1])}.")
        )
    sides = [_facts(baseline, _driver), _facts(candidate, _driver)]
    if sides[0] != sides[1]:
        found.append(
            Reason("drivers", f"The drivers differ: {_listed(sides[0])} against {_listed(sides[1])}.")
        )
    sides = [_facts(baseline, _workload), _facts(candidate, _workload)]
    if sides[0] != sides[1]:
        found.append(
            Reason("workloads", f"The workloads differ: {_listed(sides[0])} against {_listed(sides[1])}.")
        )
    else:
        found += _unlike(groups, len(baseline))
    for trace in (*baseline, *candidate):
        failed = [
            check.check.replace("_", " ") for check in trace.header.integrity if check.status == "failed"
        ]
        if failed:
            found.append(
                Reason("integrity", f"{trace.name} fails {_and(failed)}; its numbers cannot be relied on.")
            )
        if not trace.table("ops").num_rows:
            found.append(Reason("workloads", f"{trace.name} holds no device operation."))
    return found


def differing_parameters(baseline: Sequence[Trace], candidate: Sequence[Trace]) -> tuple[Parameter, ...]:
    """Return the parameters of the workload that differ, by name."""
    names = sorted({name for trace in (*baseline, *candidate) for name in trace.header.parameters})
    found = []
    for name in names:
        values = [
            _listed(sorted({_text(trace.header.parameters.get(name)) for trace in side}))
            for side in (baseline, candidate)
        ]
        if values[0] != values[1]:
            found.append(Parameter(name, values[0], values[1]))
    return tuple(found)


def _text(value: object) -> str:
    return "not given" if value is None else value if isinstance(value, str) else json.dumps(value)


def _facts(side: Sequence[Trace], of: object) -> list[str]:
    return sorted({of(trace) for trace in side})  # type: ignore[operator]


def _devices(trace: Trace) -> str:
    """Return the models of the devices that have operations."""
    used = {
        (row["rank"], row["device_id"])
        for row in trace.table("ops")
        .select(["rank", "device_id"])
        .group_by(["rank", "device_id"])
        .aggregate([])
        .to_pylist()
    }
    models = [
        f"{row['name'] or 'a device that is not named'}"
        + (f" ({row['sm_count']} SMs)" if row["sm_count"] else "")
        for row in trace.table("devices").to_pylist()
        if (row["rank"], row["device_id"]) in used
    ]
    counts = {model: models.count(model) for model in sorted(models)}
    return " and ".join(f"{count} × {model}" if count > 1 else model for model, count in counts.items()) or (
        f"{len(used)} × a device that is not recorded"
    )


def _driver(trace: Trace) -> str:
    return trace.header.driver_version or "not recorded"


def _workload(trace: Trace) -> str:
    return _text(trace.header.parameters.get("workload"))


def _unlike(groups: Groups, count: int) -> list[Reason]:
    """Return a reason where the sides have little work in common."""
    size = len(groups.keys)
    names = np.array([hash(key[2:]) for key in groups.keys], np.int64)  # in whichever stream it runs
    works = [
        sum((np.bincount(one.group, one.duration_ns, size) for one in part), np.zeros(size))
        for part in (groups.captures[:count], groups.captures[count:])
    ]
    if not all(work.sum() for work in works):
        return []
    present = [set(names[work > 0].tolist()) for work in works]
    shares = [
        work[np.isin(names, list(other))].sum() / work.sum()
        for work, other in zip(works, present[::-1], strict=True)
    ]
    if min(shares) >= LEAST_SHARED:
        return []
    side = "baseline" if shares[0] < shares[1] else "candidate"
    return [
        Reason(
            "workloads",
            "The sides have little work in common: "
            f"{100 * min(shares):.0f} % of the {side}'s is of kinds that the other has.",
        )
    ]


def _listed(values: Sequence[str]) -> str:
    return _and(list(values))


def _and(words: list[str]) -> str:
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + f" and {words[-1]}" if words else "none"
