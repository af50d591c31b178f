"""The list of rules, and the advice that they give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from overlane.analysis.advice import copying, hosting, ordering, results, sharing, suspect
from overlane.analysis.advice.facts import Facts
from overlane.analysis.advice.model import LEAST_SHARE, Advice, Finding, NotChecked, Rule
from overlane.analysis.proof import why_unproven
from overlane.errors import UntoldError

if TYPE_CHECKING:
    from overlane.analysis.study import Study

__all__ = ["RULES", "advice"]

RULES: tuple[Rule, ...] = (
    *results.RULES,
    *ordering.RULES,
    *copying.RULES,
    *hosting.RULES,
    *sharing.RULES,
    *suspect.RULES,
)
"""All rules; to add one, write it and name it in its module's list."""


def advice(study: Study, *, rules: Sequence[Rule] = RULES) -> Advice:
    """Return what to change, first what is about right results, then by cost.

    Args:
        study: The analyses of a trace.
        rules: What to check.
    """
    facts = Facts(study)
    findings: list[Finding] = []
    not_checked: list[NotChecked] = []
    checked = []
    for rule in rules:
        reason = why_unproven(study.trace, *rule.needs)
        if reason is not None:
            not_checked.append(NotChecked(rule.name, reason))
            continue
        try:
            found = list(rule.check(rule, facts))
        except UntoldError as error:
            not_checked.append(NotChecked(rule.name, error.sentence))
            continue
        findings += [item for item in found if isinstance(item, Finding)]
        missing = [item for item in found if isinstance(item, NotChecked)]
        not_checked += missing
        if not missing:
            checked.append(rule.name)
    least = LEAST_SHARE * facts.window_ns
    worth = [item for item in findings if item.is_about_results or item.is_latency or item.cost_ns >= least]
    worth.sort(key=lambda item: (not item.is_about_results, -item.cost_ns))
    return Advice(tuple(worth), tuple(not_checked), tuple(checked), len(findings) - len(worth))
