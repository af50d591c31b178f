"""The report's section on the critical path: the chain that decides how long the window takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from overlane.analysis.rows.naming import cut
from overlane.analysis.rows.path import (
    PATH_TITLES,
    longest_links,
    path_by_kind,
    path_by_name,
    path_rows,
    slack_counts,
)
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
_LONGEST = 8


def _text(study: Study, rows: Rows) -> list[Block]:
    total = sum(row["end_ns"] - row["start_ns"] for row in rows)
    if not total:
        return ["No operation ran in the window, so nothing decides how long it takes."]
    kinds = [row | {"what": PATH_TITLES[row["kind"]]} for row in path_by_kind(study)]
    names = [row | {"what": PATH_TITLES[row["kind"]], "name": _called(row)} for row in path_by_name(study)]
    lines = [
        {
            "what": PATH_TITLES[row["kind"]],
            "name": _called(row) + ("" if row["op_id"] is None else f" ({row['op_id']})"),
            "ns": row["end_ns"] - row["start_ns"],
            "fraction": fraction(row["end_ns"] - row["start_ns"], total),
            "where": f"{row['start_ns']}:{row['end_ns']}",
        }
        for row in longest_links(study, _LONGEST)
    ]
    return [
        "Making anything else faster does not end the window earlier; making these faster may.",
        Table(kinds, _PARTS),
        Table(names, _NAMES, _SHOWN),
        "Its longest links:",
        Table(lines, _LINKS),
        _slack(study),
    ]


def _called(row: Row) -> str:
    return f"before {cut(row['name'])}" if row["kind"] == "host" else cut(row["name"])


def _slack(study: Study) -> str:
    """Say how many operations could take longer without harm."""
    counts = slack_counts(study)
    tight, known = counts["tight_count"], counts["known_count"]
    return f"{tight} of {known} operations have no slack: any growth of theirs moves the end."


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
        "critical-path", "Critical path", "the chain that decides how long the window takes", path_rows, _text
    ),
)
