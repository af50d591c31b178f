"""Charts of the compare page: how long operations waited on each side, and why its devices idled.

What they show is one plain value, made where the comparison is known and kept in the page, so that another
stream role or theme asks for no analysis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import dash_mantine_components as dmc
from dash import Input, Output, State, html
from dash.development.base_component import Component

from overlane.figures.units import (
    exact_ns,
    format_count,
    format_fraction,
    format_measure,
    format_ns,
    fraction,
)
from overlane.ui import ids
from overlane.ui.changes import verdict_chip
from overlane.ui.links import around, timeline_href
from overlane.ui.parts import goto, table
from overlane.ui.studied import block, chart, in_two, legend, series_colour, wire_charts
from overlane.ui.why import cause_swatch
from overlane.ui.wiring import wire

if TYPE_CHECKING:
    import dash

    from overlane.cache import OpenedTrace
    from overlane.figures.palette import Theme

__all__ = [
    "CHARTS_SHOWN",
    "chart_section",
    "chart_values",
    "offer_roles",
    "register_charts",
    "show_idle",
    "show_waits",
]

PAGE = "compare"
CHARTS_SHOWN, WAITS, IDLE = "ov-cmp-charts-shown", "ov-cmp-waits", "ov-cmp-idle"
ROLE, ROLE_BOX = "ov-cmp-role", "ov-cmp-role-box"
_HIDDEN = {"display": "none"}
_TOLD = 0.99
_KINDS = {"wait": "from issue", "wait_room": "for room"}
"""Kinds of waits to their words."""
_MOST_CAUSES = 8


def chart_values(
    found: Sequence[dict[str, Any]],
    names: Sequence[str],
    sides: Sequence[tuple[Sequence[str], Sequence[OpenedTrace]]],
) -> dict[str, Any]:
    """Return what the charts show.

    Args:
        found: Comparison of each run with the baseline, as JSON.
        names: Name of each side, the baseline first.
        sides: Ids and captures of each side.
    """
    waits: dict[str, dict[str, Any]] = {}
    for place, one in enumerate(found):
        verdicts = {
            (x["device"], x["of"], x["metric"]): x["verdict"]
            for x in one["metrics"]
            if x["metric"].startswith("wait_")
        }
        for spread in one["waits"]:
            label = f"GPU {spread['device']} · {spread['stream_role']} · {_KINDS[spread['kind']]}"
            curves = waits.setdefault(label, {})
            if spread["baseline"]:
                curves.setdefault("0", _curve(spread, "baseline", sides[0]))
            if spread["candidate"]:
                curve = _curve(spread, "candidate", sides[place + 1])
                key = (spread["device"], spread["stream_role"])
                curve["verdicts"] = [verdicts.get((*key, f"{spread['kind']}_{p}_ns")) for p in ("p50", "p99")]
                curves[str(place + 1)] = curve
    return {"names": list(names), "waits": waits, "idle": _idle_values(found)}


def _curve(
    spread: dict[str, Any], side: str, captures: tuple[Sequence[str], Sequence[OpenedTrace]]
) -> dict[str, Any]:
    points = []
    for point in spread[side]:
        trace_id, trace = captures[0][point["capture"]], captures[1][point["capture"]].trace
        row = trace.row("ops", point["op"])
        end = row["end_ns"] if row["end_ns"] is not None else trace.span_ns
        shown = around(row["start_ns"] - point["ns"], end, trace.span_ns)
        href = timeline_href(trace_id, rank=row["rank"], window=shown, selected=("ops", point["op"]))
        points.append([point["fraction"], point["ns"], href])
    return {"count": spread[f"{side}_count"], "points": points, "verdicts": [None, None]}


def _idle_values(found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return for each device and side its window and its idle time by cause."""
    rows: dict[tuple[int, int], dict[str, Any]] = {}
    for place, one in enumerate(found):
        for change in one["metrics"]:
            for side, key in ((0, "baseline"), (place + 1, "candidate")):
                row = rows.setdefault(
                    (change["device"], side),
                    {"device": change["device"], "side": side, "window_ns": 0, "causes": {}},
                )
                if change["metric"] == "window_ns":
                    row["window_ns"] = round(change[key] or 0)
                elif change["metric"] == "idle_cause_ns" and change[key]:
                    row["causes"][change["of"]] = round(change[key])
    return [rows[key] for key in sorted(rows)]


def chart_section() -> Component:
    """Return the static elements of the charts."""
    choice: Component = dmc.Select(
        id=ROLE,
        label="Waits of",
        data=[],
        value=None,
        size="xs",
        w=260,
        allowDeselect=False,
        searchable=True,
    )
    return html.Div(
        [
            html.Div(choice, id=ROLE_BOX, className="ov-tools", style=_HIDDEN),
            html.Div(id=WAITS),
            html.Div(id=IDLE),
        ],
        className="ov-cmp-charts",
    )


def register_charts(app: dash.Dash) -> None:
    """Attach the callbacks of the charts to an app; `CHARTS_SHOWN` holds what they show."""
    wire(
        app,
        offer_roles,
        Output(ROLE, "data"),
        Output(ROLE, "value"),
        Output(ROLE_BOX, "style"),
        Input(CHARTS_SHOWN, "data"),
        State(ROLE, "value"),
        first_call=False,
    )
    shown = (Input(CHARTS_SHOWN, "data"), Input(ids.THEME, "data"))
    wire(app, show_waits, Output(WAITS, "children"), *shown, Input(ROLE, "value"), first_call=False)
    wire(app, show_idle, Output(IDLE, "children"), *shown, first_call=False)
    wire_charts(app, PAGE)


def offer_roles(
    values: dict[str, Any] | None, before: str | None
) -> tuple[list[str], str | None, dict[str, str]]:
    """Return the stream roles, the one whose waits are shown, and whether there is a choice.

    At first it is one that is called critical, else the one whose longest waits differ most.
    """
    labels = list(values["waits"]) if values else []

    def weight(label: str) -> tuple[bool, bool, float]:
        curves = values["waits"][label].values() if values else []
        longest = [math.log(max(ns, 1)) for one in curves for share, ns, _ in one["points"] if share == _TOLD]
        return "critical" in label, label.endswith(_KINDS["wait_room"]), max(longest) - min(longest)

    usual = before if before in labels else max(labels, key=weight, default=None)
    return labels, usual, {} if len(labels) > 1 else _HIDDEN


def show_waits(values: dict[str, Any] | None, theme: str | None, role: str | None) -> Component | None:
    """Return the distributions of the waits of a stream role on each side, drawn and as a table."""
    if not values or theme is None or (values["waits"] and role not in values["waits"]):
        return None
    return _waits_block(values, role, "dark" if theme == "dark" else "light")


def show_idle(values: dict[str, Any] | None, theme: str | None) -> Component | None:
    """Return the idle time of each device by cause, the sides under each other; None where nothing idled."""
    if not values or theme is None or not any(row["causes"] for row in values["idle"]):
        return None
    return _idle_block(values, "dark" if theme == "dark" else "light")


def _waits_block(values: dict[str, Any], role: str | None, theme: Theme) -> Component:
    from overlane.figures.spreads import TICKS, Curve, percentile_curves, percentile_name  # noqa: PLC0415

    title = "How long operations waited"
    if role is None:
        words = "No operation of these runs says when it was issued; record launches to see waits."
        return block(title, html.P(words, className="ov-quiet"))
    names, curves, lines = values["names"], [], []
    for place, curve in sorted(values["waits"][role].items(), key=lambda item: int(item[0])):
        name = names[int(place)]
        curves.append(Curve(name, tuple((share, ns, href) for share, ns, href in curve["points"])))
        shown = [point for point in curve["points"] if point[0] in TICKS[1:]]
        lines.append(
            [
                name,
                format_count(curve["count"]),
                *(goto(format_ns(ns), href, title=exact_ns(ns)) for _, ns, href in shown),
                *(verdict_chip(verdict) if verdict else "" for verdict in curve["verdicts"]),
            ]
        )
    head = [
        "",
        "operations",
        *map(percentile_name, TICKS[1:]),
        "P50 against baseline",
        "P99 against baseline",
    ]
    numbers = table(f"Waits of {role}", head, lines, numbers=range(1, 2 + len(TICKS[1:])), hides_caption=True)
    drawn = chart(
        PAGE,
        "waits",
        percentile_curves(curves, theme=theme),
        f"Waits of {role} by percentile, as in the table",
    )
    is_room = role.endswith(_KINDS["wait_room"])
    note = "once they were issued and all that they depend on had ended" if is_room else "from issue to start"
    colours = legend((series_colour(at), curve.label) for at, curve in enumerate(curves))
    return block(title, colours, drawn, html.Div(numbers, className="ov-cmp-numbers"), note=note)


def _idle_cell(ns: int | None, window_ns: int) -> Component:
    if ns is None:
        return html.Span(format_measure("idle_cause_ns", None), title="no idle time of this cause")
    return html.Span(format_ns(ns), title=f"{format_fraction(fraction(ns, window_ns))} of the window")


def _idle_block(values: dict[str, Any], theme: Theme) -> Component:
    from overlane.figures.causes import Piece, Stack, idle_bars  # noqa: PLC0415 - loads Plotly

    rows = [row for row in values["idle"] if row["causes"]]
    has_many = len({row["device"] for row in rows}) > 1
    labels = [
        (f"GPU {row['device']} · " if has_many else "") + values["names"][row["side"]]
        for row in values["idle"]
    ]
    stacks = [
        Stack(label, row["window_ns"], tuple(Piece(cause, ns) for cause, ns in row["causes"].items()))
        for label, row in zip(labels, values["idle"], strict=True)
    ]
    totals: dict[str, int] = {}
    for row in rows:
        for cause, ns in row["causes"].items():
            totals[cause] = max(totals.get(cause, 0), ns)
    causes = sorted(totals, key=lambda cause: -totals[cause])[:_MOST_CAUSES]
    lines = [
        [
            html.Span([cause_swatch(cause), cause.replace("_", " ")]),
            *(_idle_cell(row["causes"].get(cause), row["window_ns"]) for row in values["idle"]),
        ]
        for cause in causes
    ]
    numbers = table(
        "Idle time by cause", ["cause", *labels], lines, numbers=range(1, 1 + len(labels)), hides_caption=True
    )
    drawn = chart(PAGE, "idle", idle_bars(stacks, theme=theme), "Idle time by cause, as in the table")
    return block(
        "Idle time of the device by cause", in_two([drawn], [numbers]), note="as a share of each window"
    )
