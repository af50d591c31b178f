"""The compare page: runs aligned under each other, what changed, and the verdict on each number."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import dash_mantine_components as dmc
from dash import Input, Output, State, dcc, html, no_update
from dash.development.base_component import Component

from overlane.errors import OverlaneError
from overlane.ui import ids
from overlane.ui.changes import (
    METRIC_COLUMNS,
    OPERATION_COLUMNS,
    change_rows,
    metric_columns,
    operation_columns,
    summary,
)
from overlane.ui.compared import (
    AT_START,
    MOST_SIDES,
    Wish,
    aligned,
    comparison,
    names_of,
    open_sides,
    parse_wish,
    sides_of,
)
from overlane.ui.compared_charts import CHARTS_SHOWN, chart_section, chart_values, register_charts
from overlane.ui.grids import COPY_SCRIPT, grid, grid_height
from overlane.ui.parts import extra, heading, notice
from overlane.ui.studies import MOMENT_S
from overlane.ui.wiring import wire, wire_again, wire_script

if TYPE_CHECKING:
    import dash

    from overlane.ui.store import TraceStore

__all__ = ["NAME", "TITLE", "layout", "register"]

NAME = "compare"
TITLE = "Compare"

BASELINE, RUNS, REPEATS, ALIGN = "ov-cmp-base", "ov-cmp-runs", "ov-cmp-repeats", "ov-cmp-align"
STATE, OPENING, VERDICTS, LINES = "ov-cmp-state", "ov-cmp-opening", "ov-cmp-verdicts", "ov-cmp-lines"
METRICS, OPERATIONS, TABLES = "ov-cmp-metrics", "ov-cmp-ops", "ov-cmp-tables"
METRICS_BOX, OPERATIONS_BOX = "ov-cmp-metrics-box", "ov-cmp-ops-box"
COPY, COPIED = "ov-cmp-copy", "ov-cmp-copied"
OPEN_AGAIN, OPEN_TURN = "ov-cmp-open-again", "ov-cmp-open-turn"
COMPARE_AGAIN, COMPARE_TURN = "ov-cmp-again", "ov-cmp-turn"
_HIDDEN = {"display": "none"}
_MOST_HEIGHT = "clamp(220px, 44vh, 900px)"


def timeline_id(place: int) -> str:
    """Return the id of the timeline of a side."""
    return f"compare-{place}"


# Writes the choices into the address; the rest of it stays.
_CHOOSE = """function(base, runs, repeats, align, search, path) {
    if (!(path || '').startsWith('/compare')) return dash_clientside.no_update;
    const query = new URLSearchParams(search || '');
    const before = query.toString();
    const put = (key, value) => value ? query.set(key, value) : query.delete(key);
    if (base && base.length && base.join(',') !== (query.get('base') || query.get('trace'))) {
        put('base', base.join(','));
        put('trace', base[0]);
    }
    put('runs', (runs || []).join(','));
    if (!(runs || []).length) query.delete('with');
    put('repeats', repeats === 'repeats' ? '1' : '');
    if (align && align !== (query.get('align') || 'start')) {
        put('align', align === 'start' ? '' : align);
        query.delete('c0');
        query.delete('c1');
    }
    return query.toString() === before ? dash_clientside.no_update : '?' + query.toString();
}"""

# Gives the timelines their traces, shifts them, and keeps the shared view in the address.
_DRAW = """function(state, path) {
    const shown = (path || '').startsWith('/compare') && state ? state.shown : [];
    const places = [...Array(MOST).keys()];
    const label = (place) => shown[place] ? shown[place].label : '';
    if (shown.length && window.overlane && window.overlane.align) {
        const query = new URLSearchParams(location.search);
        const number = (key) => /^\\d{1,16}$/.test(query.get(key) || '') ? Number(query.get(key)) : null;
        const [c0, c1] = [number('c0'), number('c1')];
        const ids = shown.map((_, place) => 'compare-' + place);
        const kept = c0 !== null && c1 !== null && c1 > c0 ? [c0, c1] : state.window;
        if (window.overlaneCompared !== state.key) {
            window.overlaneCompared = state.key;
            window.overlane.align.align('compare', state.shifts, kept, ids);
        }
        if (!window.overlaneCompareWatched) {
            window.overlaneCompareWatched = true;
            window.overlane.align.watch('compare', 400, (t0, t1, limit) => {
                if (!location.pathname.startsWith('/compare')) return;
                const now = new URLSearchParams(location.search);
                if (t1 - t0 >= limit * 0.999) { now.delete('c0'); now.delete('c1'); }
                else { now.set('c0', Math.max(0, Math.floor(t0))); now.set('c1', Math.ceil(t1)); }
                history.replaceState(history.state, '', location.pathname + '?' + now.toString());
            });
        }
    }
    const hidden = {display: 'none'};
    return [
        ...places.map(place => shown[place] ? shown[place].trace : ''),
        ...places.map(label),
        ...places.map(place => shown[place] ? {} : hidden),
        shown.length ? {height: `${Math.max(2, shown.length) * 380}px`} : hidden,
    ];
}""".replace("MOST", str(MOST_SIDES))


def layout() -> Component:
    """Return the static elements of the page."""
    return html.Div(
        [
            html.Div([html.H1("Compare"), html.P(_LEAD, className="ov-quiet")], className="ov-page-head"),
            _tools(),
            html.Div(
                [html.Div(id=OPENING), html.Div(id=VERDICTS)], id="ov-cmp-said", **extra(aria_live="polite")
            ),
            html.Div(
                [_side(place) for place in range(MOST_SIDES)],
                id=LINES,
                className="ov-cmp-lines",
                style=_HIDDEN,
            ),
            html.Div(
                [
                    chart_section(),
                    heading("Numbers of each device", note="intervals are of the change of each repeat"),
                    html.Div(
                        grid(METRICS, METRIC_COLUMNS, is_selectable=False),
                        id=METRICS_BOX,
                        className="ov-cmp-grid",
                        role="region",
                        **extra(aria_label="Metrics"),
                    ),
                    heading("Operations", note="matched by name, stream role, launch order and dependency"),
                    html.Div(
                        [
                            html.Button("Copy rows as CSV", id=COPY, type="button", className="ov-button"),
                            html.Span(id=COPIED, className="ov-quiet", **extra(aria_live="polite")),
                        ],
                        className="ov-tools",
                    ),
                    html.Div(
                        grid(OPERATIONS, OPERATION_COLUMNS),
                        id=OPERATIONS_BOX,
                        className="ov-cmp-grid",
                        role="region",
                        **extra(aria_label="Operations"),
                    ),
                ],
                id=TABLES,
                style=_HIDDEN,
            ),
            *map(dcc.Store, (STATE, OPEN_AGAIN, OPEN_TURN, COMPARE_AGAIN, COMPARE_TURN, CHARTS_SHOWN)),
        ],
        className="ov-scroll",
    )


_LEAD = (
    "Choose a baseline and what to hold against it; several captures of one run make the intervals sharper."
)


def _tools() -> Component:
    many = {
        "size": "xs",
        "searchable": True,
        "clearable": True,
        "hidePickedOptions": True,
        "data": [],
        "value": [],
    }
    return html.Div(
        [
            dmc.MultiSelect(id=BASELINE, label="Baseline", placeholder="captures of one run", w=270, **many),
            dmc.MultiSelect(id=RUNS, label="Compared with it", placeholder="one or more runs", w=360, **many),
            dmc.SegmentedControl(
                id=REPEATS,
                data=[
                    {"value": "runs", "label": "each its own run"},
                    {"value": "repeats", "label": "captures of one run"},
                ],
                value="runs",
                size="xs",
                **extra(aria_label="What the compared traces are"),
            ),
            dmc.Select(
                id=ALIGN,
                label="Aligned by",
                data=[],
                value=None,
                size="xs",
                w=230,
                searchable=True,
                allowDeselect=False,
            ),
        ],
        className="ov-tools ov-cmp-tools",
    )


def _side(place: int) -> Component:
    return html.Div(
        [
            html.Div(id=f"compare-label-{place}", className="ov-cmp-label"),
            html.Div(
                id=timeline_id(place),
                className="ov-timeline",
                **extra(data_trace="", data_rank="", data_link=f"compare:{place}"),
            ),
        ],
        id=f"compare-side-{place}",
        className="ov-cmp-side",
        style=_HIDDEN,
    )


def register(app: dash.Dash, store: TraceStore) -> None:
    """Attach the page's callbacks to an app."""
    wire(
        app,
        partial(follow, store),
        Output(STATE, "data"),
        Output(OPEN_AGAIN, "data"),
        Output(OPENING, "children"),
        Input(ids.LOCATION, "search"),
        Input(ids.path_id(NAME), "data"),
        Input(OPEN_TURN, "data"),
        State(STATE, "data"),
    )
    for again, turn in ((OPEN_AGAIN, OPEN_TURN), (COMPARE_AGAIN, COMPARE_TURN)):
        wire_again(app, again, turn)
    wire(
        app,
        partial(show_choices, store),
        Output(BASELINE, "data"),
        Output(BASELINE, "value"),
        Output(RUNS, "data"),
        Output(RUNS, "value"),
        Output(REPEATS, "value"),
        Output(ALIGN, "data"),
        Output(ALIGN, "value"),
        Input(STATE, "data"),
        State(ids.LOCATION, "search"),
        first_call=False,
    )
    wire_script(
        app,
        _CHOOSE,
        Output(ids.LOCATION, "search", allow_duplicate=True),
        Input(BASELINE, "value"),
        Input(RUNS, "value"),
        Input(REPEATS, "value"),
        Input(ALIGN, "value"),
        State(ids.LOCATION, "search"),
        State(ids.LOCATION, "pathname"),
        first_call=False,
    )
    _register_lines(app)
    _register_tables(app, store)


def _register_lines(app: dash.Dash) -> None:
    places = range(MOST_SIDES)
    wire_script(
        app,
        _DRAW,
        *[Output(timeline_id(place), "data-trace") for place in places],
        *[Output(f"compare-label-{place}", "children") for place in places],
        *[Output(f"compare-side-{place}", "style") for place in places],
        Output(LINES, "style"),
        Input(STATE, "data"),
        Input(ids.LOCATION, "pathname"),
    )


def _register_tables(app: dash.Dash, store: TraceStore) -> None:
    wire(
        app,
        partial(show_tables, store),
        Output(METRICS, "rowData"),
        Output(METRICS, "columnDefs"),
        Output(METRICS_BOX, "style"),
        Output(OPERATIONS, "rowData"),
        Output(OPERATIONS, "columnDefs"),
        Output(OPERATIONS_BOX, "style"),
        Output(TABLES, "style"),
        Output(CHARTS_SHOWN, "data"),
        Output(VERDICTS, "children"),
        Output(COMPARE_AGAIN, "data"),
        Input(STATE, "data"),
        Input(COMPARE_TURN, "data"),
        first_call=False,
    )
    register_charts(app)
    wire_script(
        app,
        COPY_SCRIPT,
        Output(COPIED, "children"),
        Input(COPY, "n_clicks"),
        State(OPERATIONS, "columnDefs"),
        State(OPERATIONS, "selectedRows"),
        State(OPERATIONS, "virtualRowData"),
        first_call=False,
    )


def _wish(store: TraceStore, search: str | None) -> Wish:
    first = store.first()
    return parse_wish(search, first.trace_id if first is not None else None)


def follow(
    store: TraceStore, search: str | None, path: str | None, turn: int | None, before: dict[str, Any] | None
) -> tuple[Any, int | None, Any]:
    """Return what is compared, a number where to ask again, and what is missing.

    Args:
        store: Where the traces are opened.
        search: Query part of the address.
        path: Path of the address.
        turn: How often was asked.
        before: What was compared before.
    """
    if (path or "").strip("/") != NAME:
        return no_update, None, no_update
    wish = _wish(store, search)
    sides = sides_of(wish)
    opened, missing = open_sides(store, sides)
    is_waiting = any(sentence.startswith("Opening ") for sentence in missing)
    state: dict[str, Any] = {
        "sides": [list(side) for side in sides],
        "shown": [],
        "ready": False,
        "align": wish.align,
        "is_aligned": False,
        "window": None,
    }
    said: Any = None
    if missing:
        said = notice("Not all traces are open.", " ".join(missing), kind="info" if is_waiting else "failed")
    elif len(sides) < 2:
        said = notice(
            "Nothing to compare yet.",
            "Choose a second run above; a baseline alone has nothing to be held against.",
        )
    if not missing and sides:
        try:
            found = aligned(store, wish, opened, sides)
        except OverlaneError as error:
            said = notice("The runs cannot be aligned.", str(error), kind="failed")
        else:
            state |= found
            is_waiting = not found["is_aligned"]
            if is_waiting:
                said = notice("Aligning …", "Steps and first operations are looked for, once per file.")
    state = json.loads(json.dumps(state))  # as it comes back, to be compared
    return (no_update if state == before else state), (turn or 0) + 1 if is_waiting else None, said


def show_choices(store: TraceStore, state: dict[str, Any] | None, search: str | None) -> Any:
    """Return the choices of both sides and of the alignment, and what is chosen."""
    if not state:
        return [no_update] * 7
    names = store.full_names()
    data = [
        {"value": one.trace_id, "label": names.get(one.trace_id, one.name)}
        for one in store.listings()
        if one.state != "failed"
    ]
    wish = _wish(store, search)
    choices = state.get("choices") or [AT_START]
    is_offered = any(one["value"] == state["align"] for one in choices)
    if not is_offered and not state["is_aligned"]:  # else the address would lose what it asks for
        choices = [*choices, {"value": state["align"], "label": state["align"].partition(":")[2]}]
    return (
        data,
        list(wish.baseline),
        [one for one in data if one["value"] not in wish.baseline],
        list(wish.runs),
        "repeats" if wish.are_repeats else "runs",
        choices,
        state["align"] if is_offered or not state["is_aligned"] else "start",
    )


def show_tables(store: TraceStore, state: dict[str, Any] | None, turn: int | None) -> Any:
    """Return both tables, what the charts show, the verdicts in words, and a number where to ask again.

    Args:
        store: Where the traces are open.
        state: What is compared.
        turn: How often was asked.

    Returns:
        Rows, columns and style of each table's box, metrics first; style of the section; the values of the
        charts; the verdicts; the number.
    """
    nothing: tuple[Any, ...] = ([], METRIC_COLUMNS, {}, [], OPERATION_COLUMNS, {}, _HIDDEN, None)
    if not state or not state["ready"]:
        return (*nothing, None, None)
    sides = [tuple(side) for side in state["sides"]]
    windows = [[tuple(one) if one else None for one in side] for side in state["windows"]]
    opened, missing = open_sides(store, sides)
    if missing:
        return (*nothing, None, (turn or 0) + 1)
    try:
        found: list[dict[str, Any] | None] = []
        for run, narrowed in zip(opened[1:], windows[1:], strict=True):
            wait_s = 0.0 if None in found else MOMENT_S
            pair = (opened[0], run), (windows[0], narrowed)
            found.append(comparison(store, *pair, wait_s=wait_s))
    except OverlaneError as error:
        return (*nothing, notice("The runs cannot be compared.", str(error), kind="failed"), None)
    done = [one for one in found if one is not None]
    names = names_of(store, sides)
    if len(done) < len(found):
        words = f"{len(done)} of {len(found)} runs are held against {names[0]}; this is done once."
        return (*nothing, notice("Comparing …", words), (turn or 0) + 1)
    rows = change_rows(done, [(side[0], one[0].trace) for side, one in zip(sides, opened, strict=True)])
    return (
        rows.metrics,
        metric_columns(names, done[0]),
        grid_height(len(rows.metrics), most=_MOST_HEIGHT, is_grouped=True),
        rows.operations,
        operation_columns(names),
        grid_height(len(rows.operations), most=_MOST_HEIGHT, is_grouped=True),
        {},
        chart_values(done, names, list(zip(sides, opened, strict=True))),
        summary(done, names, state["narrowed"]),
        None,
    )
