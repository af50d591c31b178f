"""The report's section on hazards: accesses to the same bytes that nothing orders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from overlane.analysis.rows.hazards import hazard_counts, hazard_rows
from overlane.analysis.rows.naming import op_name
from overlane.commands.report.section import Block, Columns, Rows, Section, Table, plain

if TYPE_CHECKING:
    from overlane.analysis.study import Study

__all__ = ["SECTIONS"]

_SHOWN = 10
_FIXES = 3


def _text(study: Study, rows: Rows) -> list[Block]:
    from overlane.analysis.proof import why_unproven  # noqa: PLC0415

    missing = why_unproven(study.trace, "buffer_accesses")
    if missing:
        return [f"Whether accesses are ordered cannot be told. {missing}"]
    found = study.hazards
    if not rows:
        return ["Every two accesses to the same bytes are ordered."]
    own = [row for row in rows if row["implied_by"] is None]
    lines = [
        {
            "kind": row["kind"].replace("_", " "),
            "certainty": row["certainty"],
            "first": _side(study, row["first_op_id"], row["first_table"]),
            "second": _side(study, row["second_op_id"], row["second_table"]),
            "bytes": f"{row['bytes']:,}",
        }
        for row in own
    ]
    blocks: list[Block] = [Table(lines, _COLUMNS, _SHOWN)]
    if len(rows) > len(own):
        blocks.append(f"{len(rows) - len(own)} further pairs are ordered by the same fixes.")
    if found.left_out_count:
        blocks.append(f"{found.left_out_count} further conflicts are not listed.")
    fixes = list(dict.fromkeys(row["fix"] for row in own))
    blocks += [f"Fix: {fix}" for fix in fixes[:_FIXES]]
    if len(fixes) > _FIXES:
        blocks.append(f"... and {len(fixes) - _FIXES} more fixes, one for each pair above; --json gives all.")
    return blocks


def _side(study: Study, op_id: int | None, table: str) -> str:
    if op_id is not None:
        return op_name(study.trace, op_id)
    return "free" if table == "allocations" else "host"


_COLUMNS: Columns = (
    ("kind", plain("kind")), ("", plain("certainty")), ("first", plain("first")), ("second", plain("second")),
    ("bytes", plain("bytes")),
)  # fmt: skip

SECTIONS = (
    Section(
        "hazards",
        "Hazards",
        "accesses to the same bytes that nothing orders",
        hazard_rows,
        _text,
        more=hazard_counts,
    ),
)
