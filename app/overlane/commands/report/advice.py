"""The report's section on advice: what to change first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from overlane.analysis.rows.advice import advice_counts, advice_rows
from overlane.commands.report.section import Block, Row, Rows, Section, fraction

if TYPE_CHECKING:
    from overlane.analysis.study import Study

__all__ = ["SECTIONS"]

_SHOWN = 8
_SHOWN_ROWS = 5


def _text(study: Study, rows: Rows) -> list[Block]:
    blocks: list[Block] = []
    if not rows:
        blocks.append(f"None of the {len(study.advice.checked)} rules that could be checked found anything.")
    window = sum(device.window_ns for device in study.engines.devices)
    for number, row in enumerate(rows[:_SHOWN], 1):
        blocks += _finding(number, row, window)
    if len(rows) > _SHOWN:
        blocks.append(f"... and {len(rows) - _SHOWN} more; --json gives all.")
    by_reason: dict[str, list[str]] = {}
    for item in study.advice.not_checked:
        by_reason.setdefault(item.reason, []).append(item.rule.replace("_", " "))
    blocks += [f"Not checked: {', '.join(rules)}. {reason}" for reason, rules in by_reason.items()]
    return blocks


def _finding(number: int, row: Row, window_ns: int) -> list[Block]:
    from overlane.figures.units import format_ns  # noqa: PLC0415

    cost = ""
    if row["is_about_results"]:
        cost = " (results or measurements may be wrong)"
    elif row["is_latency"] and row["cost_ns"]:
        cost = f": kernels start up to {format_ns(row['cost_ns'])} later in all"
    elif row["cost_ns"]:
        percent = 100 * fraction(row["cost_ns"], window_ns)
        cost = f": at most {format_ns(row['cost_ns'])}, {percent:.1f} % of the window"
        if row["device_idle_ns"]:
            cost += f"; the device idled in {format_ns(row['device_idle_ns'])} of it"
    proof = "; ".join(_evidence(item) for item in row["evidence"])
    return [
        f"{number}. {row['title']}{cost}.",
        row["finding"],
        f"Change: {row['change']}",
        f"Proof: {proof}. Rule: {row['source']}.",
    ]


def _evidence(item: Row) -> str:
    ids = ", ".join(str(row) for row in item["row_ids"][:_SHOWN_ROWS])
    more = f" and {item['count'] - _SHOWN_ROWS} more" if item["count"] > _SHOWN_ROWS else ""
    return f"{item['table']} {ids}{more} ({item['says']}, {item['start_ns']}:{item['end_ns']})"


SECTIONS = (
    Section(
        "advice",
        "What to change first",
        "findings ranked by the time they cost",
        advice_rows,
        _text,
        more=advice_counts,
    ),
)
