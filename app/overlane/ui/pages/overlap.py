"""The overlap page: how the engines of each device share its time, each number leading to its proof."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from dash import ALL, Input, Output, State, html, no_update
from dash.development.base_component import Component

from overlane.errors import OverlaneError
from overlane.figures.palette import Theme
from overlane.ui import ids
from overlane.ui.engines import device_section, places_of, report_of
from overlane.ui.parts import extra, notice
from overlane.ui.steps import window_of, window_words
from overlane.ui.wiring import wire, wire_script

if TYPE_CHECKING:
    import dash

    from overlane.ui.store import TraceStore

__all__ = ["NAME", "TITLE", "layout", "register"]

NAME = "overlap"
TITLE = "Overlap"


def layout() -> Component:
    """Return the static elements of the page."""
    return html.Div(
        [
            html.Div(
                [
                    html.H1("Engines and overlap"),
                    html.P(
                        "Busy is the length of the union of the operations; overlap is when both were busy. "
                        "Each time and count, bar and cell leads to the longest stretch that proves it.",
                        className="ov-quiet",
                    ),
                ],
                className="ov-page-head",
            ),
            html.Div(id=ids.OVERLAP, **extra(aria_live="polite")),
        ],
        className="ov-scroll",
    )


# A click on a bar or cell goes where the number in the table goes.
# Forgets the click, so that a second one on the same bar is one too.
_FOLLOW = """function(clicks, figures) {
    const {triggered_id: id, inputs_list: [charts]} = dash_clientside.callback_context;
    const at = charts.findIndex(one => id && one.id.kind === id.kind && one.id.device === id.device);
    const point = at >= 0 && clicks[at] ? clicks[at].points[0] : null;
    if (point) {
        const name = {busy: point.y, levels: point.x, pairs: point.y + '|' + point.x}[id.kind];
        const href = figures[at].layout.meta.links[name];
        if (href) window.overlane.page.open(href);
    }
    return clicks.map(() => null);
}"""


def register(app: dash.Dash, store: TraceStore) -> None:
    """Attach the page's callbacks to an app."""
    wire(
        app,
        partial(show, store),
        Output(ids.OVERLAP, "children"),
        Input(ids.OPEN, "data"),
        Input(ids.THEME, "data"),
        Input(ids.LOCATION, "pathname"),
    )
    charts = {"type": ids.CHART, "kind": ALL, "device": ALL}
    wire_script(
        app,
        _FOLLOW,
        Output(charts, "clickData"),
        Input(charts, "clickData"),
        State(charts, "figure"),
        first_call=False,
    )


def show(store: TraceStore, state: dict[str, Any] | None, theme: str | None, path: str | None) -> Any:
    """Return the report of every device of the trace that is shown; nothing while another page is shown."""
    if (path or "").strip("/") != NAME or theme is None:
        return no_update
    if not state or state["state"] in {"none", "loading"}:
        return notice("No trace is open yet.", "Choose one on the library page, or wait until it is opened.")
    try:
        opened = store.opened(state["trace"])
    except OverlaneError as error:
        return notice("The trace cannot be opened.", str(error), kind="failed")
    if opened is None:
        return no_update
    window = window_of(state)
    devices = report_of(store.studies, opened, window)["devices"]
    if not devices:
        return notice(
            "No GPU work.", "This trace holds no device operation: no engine was busy.", kind="warning"
        )
    colours: Theme = "dark" if theme == "dark" else "light"
    places = places_of(opened.trace, state["trace"], devices)
    sections = [device_section(device, place, colours) for device, place in zip(devices, places, strict=True)]
    return [html.P(window_words(window), className="ov-quiet"), *sections] if window else sections
