"""What advice consists of: rules, findings with their evidence, and what could not be checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from overlane.analysis.advice.facts import Facts

__all__ = ["LEAST_SHARE", "SHOWN_ROWS", "Advice", "Evidence", "Finding", "NotChecked", "Rule", "evidence"]

SHOWN_ROWS = 20
"""So many row ids stand for all of them as evidence."""
LEAST_SHARE = 0.001
"""What costs less than this share of the window is not worth a change."""


@dataclass(frozen=True)
class Evidence:
    """Rows that prove a finding.

    Attributes:
        table: Table of the rows.
        row_ids: Ids of the first of them.
        count: How many there are.
        start_ns: First instant that they concern.
        end_ns: Last instant.
        says: What they show.
    """

    table: str
    row_ids: tuple[int, ...]
    count: int
    start_ns: int
    end_ns: int
    says: str


@dataclass(frozen=True)
class Finding:
    """Something to change.

    Attributes:
        rule: Name of the rule.
        title: What is wrong, in a few words.
        cost_ns: Most time that the change can save: the union, per device, of the moments in which an
            operation waited or the device was idle for this reason. 0 for findings about right results or
            measurements.
        device_idle_ns: The part of it in which the whole device was idle.
        is_latency: The cost is how much earlier the operations that waited could start; the whole takes as
            long, since the device was busy.
        is_about_results: Results or measurements may be wrong, whatever it costs.
        finding: What was found, with numbers.
        evidence: The rows that prove it.
        source: Where the rule is written down.
        change: What to change.
    """

    rule: str
    title: str
    cost_ns: int
    device_idle_ns: int
    is_latency: bool
    is_about_results: bool
    finding: str
    evidence: tuple[Evidence, ...]
    source: str
    change: str


@dataclass(frozen=True)
class NotChecked:
    """A rule that the trace could not prove or disprove.

    Attributes:
        rule: Name of the rule.
        reason: A sentence that names what is missing.
    """

    rule: str
    reason: str


@dataclass(frozen=True)
class Advice:
    """All findings, those about results first, then by cost.

    Attributes:
        findings: What to change.
        not_checked: Rules that the trace could not prove.
        checked: Names of the rules that were checked.
        left_out: Findings that cost less than `LEAST_SHARE` of the window.
    """

    findings: tuple[Finding, ...]
    not_checked: tuple[NotChecked, ...]
    checked: tuple[str, ...]
    left_out: int


@dataclass(frozen=True)
class Rule:
    """One thing that is often wrong.

    Attributes:
        name: Identifier in JSON.
        title: What is wrong, in a few words.
        needs: Capabilities without which nothing can be said (`overlane.analysis.proof`).
        source: Where it is written down.
        check: Yields what was found; a `NotChecked` where it sees only then that something is missing.
        is_about_results: As in `Finding`.
        is_latency: As in `Finding`.
    """

    name: str
    title: str
    needs: tuple[str, ...]
    source: str
    check: Callable[[Rule, Facts], Iterable[Finding | NotChecked]]
    is_about_results: bool = False
    is_latency: bool = False

    def found(
        self,
        finding: str,
        change: str,
        proof: Iterable[Evidence],
        *,
        cost_ns: int = 0,
        device_idle_ns: int = 0,
    ) -> Finding:
        """Return a finding of this rule."""
        return Finding(
            self.name,
            self.title,
            cost_ns,
            device_idle_ns,
            self.is_latency,
            self.is_about_results,
            finding,
            tuple(proof),
            self.source,
            change,
        )


def evidence(table: str, rows: Any, start_ns: Any, end_ns: Any, says: str) -> Evidence:
    """Return rows as evidence.

    Args:
        table: Their table.
        rows: Row ids, at least one.
        start_ns: Start of each row.
        end_ns: End of each.
        says: What they show.
    """
    found = np.unique(np.asarray(rows))
    return Evidence(
        table,
        tuple(int(row) for row in found[:SHOWN_ROWS]),
        len(found),
        int(np.min(start_ns)),
        int(np.max(end_ns)),
        says,
    )
