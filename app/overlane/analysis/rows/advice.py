"""Advice as rows, and what was and was not checked."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from overlane.analysis.rows.naming import Rows

if TYPE_CHECKING:
    from overlane.analysis.study import Study

__all__ = ["advice_counts", "advice_rows"]


def advice_rows(study: Study) -> Rows:
    """Return the findings, those about results first, then by cost."""
    return [dataclasses.asdict(finding) for finding in study.advice.findings]


def advice_counts(study: Study) -> dict[str, Any]:
    """Return the rules that were checked, those that could not be, and how many findings were too small."""
    return {
        "advice_checked": list(study.advice.checked),
        "advice_left_out": study.advice.left_out,
        "advice_not_checked": [dataclasses.asdict(item) for item in study.advice.not_checked],
    }
