"""The report's section on the critical path: the chain that decides how long the window takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from overlane.commands.report.naming import cut
from overlane.commands.report.section import (
    Block,
    Columns,
    Row,
    Rows,
    Section,
    Table,
    fraction,
    ns,
    plain,
    share,
)

if TYPE_CHECKING:
    from overlane.analysis.study import Study

__all__ = ["SECTIONS"]

_SHOWN = 12
_KINDS = {
    "operation": "device work",
    "device_wait": "the device, before it started the operation",
    "launch": "launch calls",
    "call": "other host calls",
    "host": "the host, between calls",
}


def _rows(study: Study) -> Rows:
    from overlane.analysis.critical_path import PATH_KINDS  # noqa: PLC0415

    found = study.critical_path
    return [
        {
            "op_id": None if op < 0 else int(op),
            "call_id": None if call < 0 else int(call),
            "start_ns": int(start),
            "end_ns": int(end),
            "kind": PATH_KINDS[kind],
        }
        for op, call, start, end, kind in zip(
            found.op, found.call, found.start_ns, found.end_ns, found.kind, strict=True
        )
    ]


def _text(study: Study, rows: Rows) -> list[Block]:
    total = sum(row["end_ns"] - row["start_ns"] for row in rows)
    if not total:
        return ["No operation ran in the window, so nothing decides how long it takes."]
    names = _Names(study)
    kinds: dict[str, Row] = {}
    named: dict[tuple[str, str], Row] = {}
    for row in rows:
        length = row["end_ns"] - row["start_ns"]
        kind, name = _KINDS[row["kind"]], names.of(row)
        _add(kinds.setdefault(kind, {"what": kind, "ns": 0, "count": 0}), length)
        _add(named.setdefault((kind, name), {"what": kind, "name": name, "ns": 0, "count": 0}), length)
    for each in (*kinds.values(), *named.values()):
        each["fraction"] = fraction(each["ns"], total)
    longest = sorted(rows, key=lambda row: row["start_ns"] - row["end_ns"])[:_LONGEST]
    lines = [
        {
            "what": _KINDS[row["kind"]],
            "name": names.of(row) + ("" if row["op_id"] is None else f" ({row['op_id']})"),
            "ns": row["end_ns"] - row["start_ns"],
            "fraction": fraction(row["end_ns"] - row["start_ns"], total),
            "where": f"{row['start_ns']}:{row['end_ns']}",
        }
        for row in longest
    ]
    return [
        "Making anything else faster does not end the window earlier; making these faster may.",
        Table(_sorted(kinds), _PARTS),
        Table(_sorted(named), _NAMES, _SHOWN),
        "Its longest links:",
        Table(lines, _LINKS),
        _slack(study),
    ]


class _Names:
    """What the links of the path are called; a path can have as many as there are operations."""

    def __init__(self, study: Study) -> None:
        from overlane.analysis.work import text_codes  # noqa: PLC0415 - help must answer without it

        self._tables = []
        for table, key in (("ops", "op_id"), ("api_calls", "call_id")):
            codes, names = text_codes(study.trace.table(table)["name"])
            self._tables.append((key, codes, [cut(name) for name in names]))

    def of(self, row: Row) -> str:
        for key, codes, names in self._tables:
            if row[key] is not None:
                name = names[codes[row[key]]]
                return f"before {name}" if row["kind"] == "host" else name
        return "-"


_LONGEST = 8


def _slack(study: Study) -> str:
    """Say how many operations could take longer without harm."""
    import numpy as np  # noqa: PLC0415 - help must answer without it

    slack = np.asarray(study.critical_path.slack_ns)
    known = slack[slack >= 0]
    tight = int((known == 0).sum())
    return f"{tight} of {len(known)} operations have no slack: any growth of theirs moves the end."


def _add(row: Row, length_ns: int) -> None:
    row["ns"] += length_ns
    row["count"] += 1


def _sorted(rows: dict[Any, Row]) -> Rows:
    return sorted(rows.values(), key=lambda row: -row["ns"])


_PARTS: Columns = (
    ("what", plain("what")), ("time", ns("ns")), ("of the path", share("fraction")),
    ("links", plain("count")),
)  # fmt: skip
_NAMES: Columns = (
    ("name", plain("name")), ("what", plain("what")), ("time", ns("ns")), ("of the path", share("fraction")),
    ("links", plain("count")),
)  # fmt: skip
_LINKS: Columns = (
    ("name", plain("name")), ("what", plain("what")), ("time", ns("ns")), ("of the path", share("fraction")),
    ("at, ns", plain("where")),
)  # fmt: skip

SECTIONS = (
    Section(
        "critical-path", "Critical path", "the chain that decides how long the window takes", _rows, _text
    ),
)
