"""The report's section on hazards: accesses to the same bytes that nothing orders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from overlane.analysis.rows.hazards import hazard_counts, hazard_rows
from overlane.analysis.rows.naming import op_name
from overlane.analysis.rows.needless import redundant_counts, redundant_rows, redundant_words
from overlane.analysis.rows.over_strong import checked_words, over_strong_counts, over_strong_rows
from overlane.commands.report.section import Block, Columns, Rows, Section, Table, ns, plain

if TYPE_CHECKING:
    from overlane.analysis.study import Study

__all__ = ["SECTIONS"]

_SHOWN = 10
_FIXES = 3


def _text(study: Study, rows: Rows) -> list[Block]:
    from overlane.analysis.proof import why_unproven  # noqa: PLC0415

    missing = why_unproven(study.trace, "buffer_accesses")
    if missing:
        unordered: list[Block] = [f"Whether accesses are ordered cannot be told. {missing}"]
    else:
        unordered = _unordered(study, rows)
    return [*unordered, *_needless(study), *_too_strong(study)]


def _unordered(study: Study, rows: Rows) -> list[Block]:
    """Say which accesses nothing orders, and what would."""
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
        blocks.append(f"Pairs that the same fixes order too: {len(rows) - len(own)}.")
    if found.left_out_count:
        blocks.append(f"Conflicts that are not listed: {found.left_out_count}.")
    fixes = list(dict.fromkeys(row["fix"] for row in own))
    blocks += [f"Fix: {fix}" for fix in fixes[:_FIXES]]
    if len(fixes) > _FIXES:
        blocks.append(f"... and {len(fixes) - _FIXES} more, one for each pair above; --json gives all.")
    return blocks


def _needless(study: Study) -> list[Block]:
    """Say which waits could go."""
    rows = redundant_rows(study)
    if not rows:
        return []
    lines = [redundant_words(study.trace, row) for row in rows]
    text = (
        "1 wait guarantees nothing: what it waits for is over anyway, by what stands beside it. It can go"
        if len(rows) == 1
        else f"{len(rows)} waits guarantee nothing: what they wait for is over anyway, by what stands beside"
        " them. All of them can go together"
    )
    return [f"{text}, unless the host measures time there.", Table(lines, _WAIT_COLUMNS, _SHOWN)]


def _too_strong(study: Study) -> list[Block]:
    """Say which synchronizations wait for more than is needed, and what would do instead."""
    rows, checked = over_strong_rows(study), checked_words(study)
    if not rows:
        return [checked] if checked else []
    lines = [
        {
            "wait": f"{row['kind']} ({row['sync_id']})",
            "certainty": row["certainty"],
            "op": "nothing" if row["op_id"] is None else op_name(study.trace, row["op_id"]),
            "more": f"{row['more_count']:,}",
            "last": op_name(study.trace, row["more_op_id"]),
            "sooner_ns": row["sooner_ns"],
        }
        for row in rows
    ]
    text = (
        "1 synchronization waits for more than anything recorded needs."
        if len(rows) == 1
        else f"{len(rows)} synchronizations wait for more than anything recorded needs. All of them can be"
        " replaced together."
    )
    changes = list(dict.fromkeys(row["change"] for row in rows))
    blocks: list[Block] = [text, Table(lines, _STRONG_COLUMNS, _SHOWN), *changes[:_FIXES]]
    if len(changes) > _FIXES:
        blocks.append(f"... and {len(changes) - _FIXES} more; --json gives all.")
    return [*blocks, checked]


def _more(study: Study) -> dict[str, Any]:
    found: dict[str, Any] = {"redundant_waits": redundant_rows(study), "over_strong": over_strong_rows(study)}
    return hazard_counts(study) | found | redundant_counts(study) | over_strong_counts(study)


def _side(study: Study, op_id: int | None, table: str) -> str:
    if op_id is not None:
        return op_name(study.trace, op_id)
    return "free" if table == "allocations" else "host"


_COLUMNS: Columns = (
    ("kind", plain("kind")), ("", plain("certainty")), ("first", plain("first")), ("second", plain("second")),
    ("bytes", plain("bytes")),
)  # fmt: skip

_WAIT_COLUMNS: Columns = (
    ("wait", plain("wait")), ("", plain("certainty")), ("last waits for", plain("op")),
    ("over by", plain("known")), ("call", ns("call_ns")),
)  # fmt: skip

_STRONG_COLUMNS: Columns = (
    ("wait", plain("wait")), ("", plain("certainty")), ("would do: event after", plain("op")),
    ("operations beyond", plain("more")), ("the last of them", plain("last")),
    ("sooner by up to", ns("sooner_ns")),
)  # fmt: skip

SECTIONS = (
    Section(
        "hazards",
        "Hazards",
        "accesses to the same bytes that nothing orders",
        hazard_rows,
        _text,
        more=_more,
    ),
)
