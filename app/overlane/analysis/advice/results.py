"""Rules on order that is missing: results that can be wrong whatever the stamps say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from overlane.analysis.advice.facts import Facts
from overlane.analysis.advice.model import Evidence, Finding, Rule, evidence

if TYPE_CHECKING:
    from overlane.analysis.hazards import Hazard

__all__ = ["RULES"]

_FIXES = 3


def _unordered(rule: Rule, facts: Facts) -> Iterator[Finding]:
    yield from _of(
        rule,
        facts,
        [each for each in _proven(facts) if not _is_host_read(each)],
        "accesses to device or host memory",
    )


def _host_reads(rule: Rule, facts: Facts) -> Iterator[Finding]:
    yield from _of(rule, facts, [each for each in _proven(facts) if _is_host_read(each)], "reads by the host")


def _proven(facts: Facts) -> list[Hazard]:
    found = facts.study.hazards
    return [found.row(int(place)) for place in facts.study.hazard_places if found.is_proven[place]]


def _is_host_read(each: Hazard) -> bool:
    return each.kind == "RAW" and each.second_op_id is None and each.second_table == "accesses"


def _of(rule: Rule, facts: Facts, hazards: list[Hazard], what: str) -> Iterator[Finding]:
    if not hazards:
        return
    kinds = ", ".join(
        f"{count} {kind.replace('_', ' ')}" for kind, count in Counter(h.kind for h in hazards).items()
    )
    fixes = list(dict.fromkeys(each.fix for each in hazards if each.implied_by is None)) or [hazards[0].fix]
    left = len(fixes) - _FIXES
    more = f" ({left} more such {'place' if left == 1 else 'places'})" if left > 0 else ""
    yield rule.found(
        f"{len(hazards)} pairs of {what} touch the same bytes, and nothing orders them ({kinds}). That the "
        "values were right in this run proves nothing.",
        " ".join(fixes[:_FIXES]) + more,
        _rows(facts, hazards),
    )


def _rows(facts: Facts, hazards: list[Hazard]) -> list[Evidence]:
    ops = np.array(
        sorted({op for each in hazards for op in (each.first_op_id, each.second_op_id) if op is not None}),
        np.int64,
    )
    proof = [facts.op_evidence(ops, "unordered")] if len(ops) else []
    for table in ("accesses", "allocations"):
        sides = [
            row
            for each in hazards
            for side, row in ((each.first_table, each.first_row), (each.second_table, each.second_row))
            if side == table
        ]
        if sides:
            start, end = (facts.work.start[ops], facts.work.end[ops]) if len(ops) else facts.window
            proof.append(evidence(table, sides, start, end, "the same bytes"))
    return proof


RULES = (
    Rule(
        "unordered_accesses",
        "Accesses to the same bytes are not ordered",
        ("buffer_accesses",),
        "CUDA C++ Programming Guide, Streams and events (implicit and explicit order)",
        _unordered,
        is_about_results=True,
    ),
    Rule(
        "host_reads_too_early",
        "The host reads results before they are ready",
        ("buffer_accesses",),
        "CUDA Runtime API, API synchronization behavior",
        _host_reads,
        is_about_results=True,
    ),
)
