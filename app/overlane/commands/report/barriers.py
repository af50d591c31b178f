"""The report's section on barriers: what held several streams or threads, and what it cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from overlane.analysis.rows.barriers import barrier_rows, barrier_sums
from overlane.analysis.rows.naming import cut, stream_name
from overlane.commands.report.section import (
    Block,
    Columns,
    Row,
    Rows,
    Section,
    Table,
    ns,
    plain,
    share,
)

if TYPE_CHECKING:
    from overlane.analysis.study import Study

__all__ = ["SECTIONS"]

_SHOWN = 15
_STREAMS = 3


def _text(study: Study, rows: Rows) -> list[Block]:
    from overlane.analysis.proof import why_unproven  # noqa: PLC0415

    costly = [row for row in rows if row["lost_ns"]]
    missing = why_unproven(study.trace, "launch_times")
    if not costly:
        held = f"{len(rows)} synchronizations held nothing back." if rows else "Nothing held several streams."
        return [missing or held]
    sums = [row | {"kind": row["kind"].replace("_", " ")} for row in barrier_sums(study)]
    lines = [_line(study, row) for row in costly[: _SHOWN + 1]]
    blocks: list[Block] = [Table(sums, _SUMS)]
    blocks += ["The costliest:", Table([*lines, *costly[len(lines) :]], _COLUMNS, _SHOWN)]
    if len(rows) > len(costly):
        blocks.append(f"Of {len(rows)} barriers, {len(rows) - len(costly)} held nothing back.")
    kinds = why_unproven(study.trace, "stream_kinds")
    if kinds:
        blocks.append(f"Whether the legacy default stream held others cannot be told. {kinds}")
    return blocks


def _line(study: Study, row: Row) -> dict[str, Any]:
    streams = [
        stream_name(study.trace, study.trace.row("streams", at) | {"stream_row": at})
        for at in row["stream_rows"][:_STREAMS]
        if at is not None
    ]
    more = len(row["stream_rows"]) - len(streams)
    table = row["proof_table"]
    names = study.trace.table(table)["name"] if "name" in study.trace.table(table).schema.names else None
    named = "" if names is None else f" {cut(names[row['proof_row']].as_py())}"
    return row | {
        "kind": row["kind"].replace("_", " "),
        "row": f"{table} {row['proof_row']}{named}",
        "who": ", ".join(streams) + (f" and {more} more" if more and streams else f"{more}" if more else ""),
        "op_count": len(row["ops_held"]),
        "span": f"{row['start_ns']}:{row['end_ns']}",
    }


_SUMS: Columns = (
    ("kind", plain("kind")), ("barriers", plain("count")), ("lost", ns("lost_ns")),
    ("of all", share("fraction")),     ("operations held", plain("op_count")),
)  # fmt: skip
_COLUMNS: Columns = (
    ("kind", plain("kind")), ("what it is", plain("row")), ("lost", ns("lost_ns")),
    ("streams held", plain("who")),
    ("operations", plain("op_count")), ("on the critical path", ns("critical_ns")),
    ("span, ns", plain("span")),
)  # fmt: skip

SECTIONS = (
    Section(
        "barriers", "Barriers", "what held several streams or threads, by what it cost", barrier_rows, _text
    ),
)
