"""The page of the critical path: what decides how long the window takes, and what could grow without harm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dash import html
from dash.development.base_component import Component

from overlane.analysis.rows.naming import cut
from overlane.analysis.rows.path import (
    PATH_TITLES,
    longest_links,
    path_by_kind,
    path_by_name,
    slack_counts,
    slack_rows,
)
from overlane.figures.units import exact_ns, format_count, format_fraction, format_ns
from overlane.ui.grids import Column, column
from overlane.ui.parts import notice, table
from overlane.ui.studied import Scene, StudyPage, block, filled, in_two

if TYPE_CHECKING:
    import dash

    from overlane.analysis.study import Study
    from overlane.ui.store import TraceStore

__all__ = ["NAME", "TITLE", "layout", "register"]

NAME = "path"
TITLE = "Critical path"

_MOST_NAMES = 500
_LONGEST = 12


def _rows(study: Study) -> dict[str, Any]:
    low, high = study.critical_path.window
    return {
        "window_ns": (low, high),
        "count": len(study.critical_path),
        "kinds": path_by_kind(study),
        "names": path_by_name(study)[:_MOST_NAMES],
        "longest": longest_links(study, _LONGEST),
        "slack": slack_rows(study)[:_MOST_NAMES],
        **slack_counts(study),
    }


def _show(found: dict[str, Any], scene: Scene) -> list[Component]:
    if not found["count"]:
        words = "No operation ran in the window, so nothing decides how long it takes."
        return [notice("There is no critical path.", words)]
    return [_kinds(found, scene), _names(found, scene), _slack(found, scene)]


def _kinds(found: dict[str, Any], scene: Scene) -> Component:
    from overlane.figures.causes import path_bar  # noqa: PLC0415 - loads Plotly

    low, high = found["window_ns"]
    pieces = [
        (row["kind"], PATH_TITLES[row["kind"]], row["ns"], _href(row["longest"], scene))
        for row in found["kinds"]
    ]
    chart = scene.chart("kinds", path_bar(pieces, theme=scene.theme), "The path by category, as in the table")
    rows = [
        [
            html.Span(
                [
                    html.Span(className="ov-swatch", style={"background": _colour(row["kind"])}),
                    PATH_TITLES[row["kind"]],
                ]
            ),
            html.Span(format_ns(row["ns"]), title=exact_ns(row["ns"])),
            format_fraction(row["fraction"]),
            format_count(row["count"]),
            _link(row["longest"], scene),
        ]
        for row in found["kinds"]
    ]
    head = ["category", "time", "of the path", "links", "longest link"]
    longest = [
        [
            html.Span(f"{cut(_called(row), 44)}{_number(row)}", title=row["name"]),
            PATH_TITLES[row["kind"]],
            format_fraction((row["end_ns"] - row["start_ns"]) / max(high - low, 1)),
            _link(row, scene),
        ]
        for row in found["longest"]
    ]
    titles = ["longest links", "what", "of the path", "time"]
    return block(
        "By category",
        in_two(
            [
                chart,
                html.Div(
                    table("The path by category", head, rows, numbers=(1, 2, 3, 4), hides_caption=True),
                    className="ov-wrapped",
                ),
            ],
            [table("The longest links", titles, longest, numbers=(2, 3), hides_caption=True)],
        ),
        note=f"{format_count(found['count'])} links in {format_ns(high - low)}, without a gap",
    )


def _called(row: dict[str, Any]) -> str:
    return f"before {row['name']}" if row["kind"] == "host" else row["name"]


def _number(row: dict[str, Any]) -> str:
    return "" if row["op_id"] is None else f" ({row['op_id']})"


def _colour(kind: str) -> str:
    """Return the colour of a category as CSS."""
    from overlane.figures.causes import PATH_COLOURS  # noqa: PLC0415 - loads Plotly

    table_of, name = PATH_COLOURS[kind]
    return f"var(--ov-{'cause-' if table_of == 'cause' else ''}{name.replace('_', '-')})"


def _place(link: dict[str, Any], scene: Scene) -> dict[str, Any]:
    """Return the rank and row of a link, as addresses name them."""
    named, key = ("ops", "op_id") if link["op_id"] is not None else ("api_calls", "call_id")
    if link[key] is None:
        return {}
    return {"rank": scene.trace.row(named, link[key]).get("rank"), "selected": (named, link[key])}


def _href(link: dict[str, Any], scene: Scene) -> str:
    return scene.href(link["start_ns"], link["end_ns"], is_marked=True, **_place(link, scene))


def _link(link: dict[str, Any], scene: Scene) -> Component:
    return scene.span_link(link["start_ns"], link["end_ns"], is_marked=True, **_place(link, scene))


NAME_COLUMNS: list[Column] = [
    column("name", "name", width=260, renderer="link", grows=True, note="leads to its longest link"),
    column("what", "what", width=220),
    column("ns", "time on the path", form="ns", width=126),
    column("fraction", "of the path", form="share", width=98),
    column("count", "links", form="count", width=78),
    column("longest_ns", "longest", form="ns", width=100),
]


def _names(found: dict[str, Any], scene: Scene) -> Component:
    rows = [
        {
            "name": _called(row),
            "what": PATH_TITLES[row["kind"]],
            "ns": row["ns"],
            "fraction": row["fraction"],
            "count": row["count"],
            "longest_ns": row["longest"]["end_ns"] - row["longest"]["start_ns"],
            "href": _href(row["longest"], scene),
        }
        for row in found["names"]
    ]
    label = "The path by operation and call, the longest first"
    return block(
        "By operation and call",
        filled("ov-path-names", NAME_COLUMNS, rows, label),
        note="making these faster may end the window earlier; making anything else faster does not",
    )


SLACK_COLUMNS: list[Column] = [
    column(
        "name", "operation", width=260, renderer="link", grows=True, note="leads to the one with least slack"
    ),
    column("op_count", "count", form="count", width=84),
    column("work_ns", "work", form="ns", width=100, note="durations added up"),
    column(
        "tight_count", "without slack", form="count", width=112, note="any growth of theirs moves the end"
    ),
    column("least_slack_ns", "least slack", form="ns", width=106),
    column("median_slack_ns", "median slack", form="ns", width=112),
    column("most_slack_ns", "most slack", form="ns", width=106),
]


def _slack(found: dict[str, Any], scene: Scene) -> Component:
    rows = [row | {"href": scene.row_href("ops", row["least_op_id"])} for row in found["slack"]]
    tight, known = format_count(found["tight_count"]), format_count(found["known_count"])
    return block(
        "Slack of operations",
        filled("ov-path-slack", SLACK_COLUMNS, rows, "Slack of operations by name, the most work first"),
        note=f"how much longer each may take without moving the end; {tight} of {known} operations have none",
    )


_PAGE = StudyPage(
    NAME,
    TITLE,
    "The chain of work, waits and host calls without a gap that the end of the window waited for.",
    _rows,
    _show,
    "Walking the critical path …",
)


def layout() -> Component:
    """Return the static elements of the page."""
    return _PAGE.layout()


def register(app: dash.Dash, store: TraceStore) -> None:
    """Attach the page's callbacks to an app."""
    _PAGE.register(app, store)
