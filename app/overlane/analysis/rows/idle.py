"""Idle time as rows: of each device, partition and stream, by cause."""

from __future__ import annotations

from typing import TYPE_CHECKING

from overlane.analysis.rows.naming import Rows
from overlane.analysis.rows.parts import groups, longest_part

if TYPE_CHECKING:
    from overlane.analysis.study import Study

__all__ = ["IDLE_SCOPES", "idle_rows"]

IDLE_SCOPES = ("device", "partition", "stream")
"""What can be idle, in the order of the rows."""


def idle_rows(study: Study) -> Rows:
    """Return a row for each device, partition and stream that idled, each scope's idlest first."""
    from overlane.analysis.causes import CAUSE_NAMES  # noqa: PLC0415 - help must answer without it

    rows = []
    for scope in IDLE_SCOPES:
        parts = study.idle_parts(scope)
        scoped = []
        for which in groups(parts.owner):
            mine = parts.take(which)
            by_cause = {CAUSE_NAMES[int(mine.cause[group[0]])]: group for group in groups(mine.cause)}
            spent = {cause: int(mine.length_ns[group].sum()) for cause, group in by_cause.items()}
            spent = dict(sorted(spent.items(), key=lambda item: -item[1]))
            scoped.append(
                {"scope": scope}
                | study.owner(scope, int(parts.owner[which[0]]))
                | {
                    "idle_ns": sum(spent.values()),
                    "causes": spent,
                    "below_fit_error_ns": int(mine.length_ns[mine.is_below_fit_error].sum()),
                    "longest": {cause: longest_part(mine, by_cause[cause]) for cause in spent},
                }
            )
        rows += sorted(scoped, key=lambda row: -row["idle_ns"])
    return rows
