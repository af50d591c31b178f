"""The timeline page: the canvas, details of the selected slice, numbers of a marked range, the search."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from dash import Input, Output, State, dcc, html, no_update
from dash.development.base_component import Component

from overlane.errors import OverlaneError
from overlane.ui import ids
from overlane.ui.hints import hints
from overlane.ui.panels import range_panel, selection_panel, trace_panel
from overlane.ui.parts import extra, no_work, notice
from overlane.ui.wiring import wire, wire_script

if TYPE_CHECKING:
    import dash

    from overlane.cache import OpenedTrace
    from overlane.ui.reasons import Reasons
    from overlane.ui.store import TraceStore

__all__ = ["NAME", "TITLE", "layout", "register"]

NAME = "timeline"
TITLE = "Timeline"

# Gives the canvases their traces. Attributes only: the elements themselves are never returned by a callback.
_GIVE_TRACES = """function(open, path) {
    const none = dash_clientside.no_update;
    if (!open || !(path || '').startsWith('/timeline')) return [none, none, none, none, none];
    const ready = open.state === 'ready' ? open.trace : '';
    const other = open.state === 'ready' && open.other_state === 'ready' ? open.other_trace : '';
    const rank = open.rank === null || open.rank === undefined ? '' : String(open.rank);
    return [ready, rank, other, '', other ? {} : {display: 'none'}];
}"""

# Hits are shown beside the canvas, so that a search on another page leads to it.
_GO_TO_HITS = """function(text, path) {
    return text && !(path || '').startsWith('/timeline') ? '/timeline' : dash_clientside.no_update;
}"""


def layout() -> Component:
    """Return the static elements of the page."""
    return html.Div(
        [
            html.H1("Timeline", className="ov-hidden"),
            dcc.Store(id=ids.REASONS),
            html.Div(
                [
                    hints(),
                    html.Div(id=ids.NOTICE, className="ov-over"),
                    html.Div(
                        id=ids.TIMELINE,
                        className="ov-timeline",
                        **extra(data_trace="", data_rank="", data_link="main", aria_describedby=ids.SUMMARY),
                    ),
                    html.Div(
                        id=ids.TIMELINE_OTHER,
                        className="ov-timeline",
                        style={"display": "none"},
                        **extra(data_trace="", data_rank="", data_link="main"),
                    ),
                    _search_results(),
                    *(
                        html.Div(id=f"{name}-table", className="ov-hidden")
                        for name in (ids.TIMELINE, ids.TIMELINE_OTHER)
                    ),
                ],
                className="ov-canvases",
            ),
            html.Div(
                [
                    html.Div(id=ids.DETAILS, className="ov-details", **extra(aria_live="polite")),
                    html.Div(range_panel(None, None), id=ids.RANGE_PANEL, className="ov-range"),
                ],
                className="ov-bottom",
            ),
        ],
        className="ov-timeline-page",
    )


def _search_results() -> Component:
    """Return the place of the results; the script fills it, since they follow the canvas."""
    return html.Aside(
        id=ids.SEARCH_PANEL,
        className="ov-search-panel",
        style={"display": "none"},
        **extra(aria_label="Search results"),
    )


def register(app: dash.Dash, store: TraceStore) -> None:
    """Attach the page's callbacks to an app."""
    wire_script(
        app,
        _GIVE_TRACES,
        Output(ids.TIMELINE, "data-trace"),
        Output(ids.TIMELINE, "data-rank"),
        Output(ids.TIMELINE_OTHER, "data-trace"),
        Output(ids.TIMELINE_OTHER, "data-rank"),
        Output(ids.TIMELINE_OTHER, "style"),
        Input(ids.OPEN, "data"),
        Input(ids.LOCATION, "pathname"),
    )
    wire_script(
        app,
        _GO_TO_HITS,
        Output(ids.LOCATION, "pathname", allow_duplicate=True),
        Input(ids.SEARCH, "value"),
        State(ids.LOCATION, "pathname"),
        first_call=False,
    )
    _register_panels(app, store)


def _register_panels(app: dash.Dash, store: TraceStore) -> None:
    wire(app, partial(show_notice, store), Output(ids.NOTICE, "children"), Input(ids.OPEN, "data"))
    wire(
        app,
        partial(show_details, store),
        Output(ids.DETAILS, "children"),
        Input(ids.SELECTION, "data"),
        Input(ids.OPEN, "data"),
        Input(ids.REASONS, "data"),
    )
    wire(
        app,
        partial(show_range, store),
        Output(ids.RANGE_PANEL, "children"),
        Input(ids.RANGE, "data"),
        Input(ids.OPEN, "data"),
        Input(ids.REASONS, "data"),
        first_call=False,
    )


def show_notice(store: TraceStore, state: dict[str, Any] | None) -> Any:
    """Return the sentence that stands in for the canvas or warns of it; nothing where all is well."""
    if not state or state["state"] != "ready":
        return absence(state)
    if state["other_state"] == "failed":
        return notice("The second trace cannot be opened.", state["other_reason"], kind="failed")
    if state["other_state"] == "loading":
        return notice(f"Opening {state['other_name']} …", f"{state['other_progress']:.0%} read and indexed.")
    opened = store.opened(state["trace"])
    if opened is not None and opened.warnings:
        return notice("Note.", " ".join(opened.warnings), kind="warning")
    if opened is not None and not opened.trace.table("ops").num_rows:
        return no_work(opened.trace)
    return None


def absence(state: dict[str, Any] | None) -> Component:
    """Return why no trace is drawn: none chosen, still being opened, cannot be read."""
    if not state or state["state"] == "none":
        what = "Choose one on the library page, or start the server with one: overlane serve TRACE"
        return notice("No trace is open.", what, leads_back=True)
    if state["state"] == "failed":
        return notice(f"{state['name']} cannot be opened.", state["reason"], kind="failed", leads_back=True)
    done = f"{state['progress']:.0%} read and indexed; this is done once per file."
    if not state["progress"]:
        done = "The first start after an install compiles code too, which takes some seconds."
    return notice(f"Opening {state['name']} …", done)


def show_details(
    store: TraceStore,
    selection: dict[str, Any] | None,
    state: dict[str, Any] | None,
    _reasons: dict[str, Any] | None,
) -> Any:
    """Return the panel of the selected slice, or of the whole trace when none of its slices is selected."""
    if not state or state["state"] != "ready":
        return None
    try:
        shown = {state["trace"], state["other_trace"]}
        if selection and selection.get("trace") in shown and selection.get("row") is not None:
            opened = store.opened(selection["trace"])
            if opened is not None:
                return selection_panel(opened, selection, _reasons_of(store, opened, selection))
        opened, facts = store.opened(state["trace"]), store.facts(state["trace"])
        if opened is None or facts is None:
            return None
        reasons = _reasons_of(store, opened, state)
        return trace_panel(opened, facts, state["trace"], state["rank"], reasons=reasons)
    except (OverlaneError, KeyError, IndexError) as error:
        return notice("Nothing to show.", f"The selected row cannot be found: {error}", kind="failed")


def _reasons_of(store: TraceStore, opened: OpenedTrace, chosen: dict[str, Any]) -> Reasons | None:
    """Return the causes of what is chosen, None while they are computed or where they cannot be."""
    rank = chosen.get("rank")
    try:
        return store.reasons.get(opened, opened.trace.ranks[0] if rank in {None, ""} else int(str(rank)))
    except OverlaneError:
        return None


def show_range(
    store: TraceStore,
    marked: dict[str, Any] | None,
    state: dict[str, Any] | None,
    _reasons: dict[str, Any] | None,
) -> Any:
    """Return the statistics of the marked range, if it lies in a trace that is shown."""
    shown = {state["trace"], state["other_trace"]} if state else set()
    if not marked or marked.get("t0_ns") is None or marked.get("trace") not in shown:
        return range_panel(None, None)
    try:
        opened = store.opened(marked["trace"])
    except OverlaneError as error:
        return notice("No statistics.", str(error), kind="failed")
    if opened is None:
        return no_update
    return range_panel(opened.trace, marked, _reasons_of(store, opened, marked))
