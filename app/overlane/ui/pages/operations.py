"""The operations page: what ran, grouped, each row leading to the timeline; and time by nesting."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import dash_mantine_components as dmc
from dash import Input, Output, State, dcc, html, no_update
from dash.development.base_component import Component

from overlane.errors import OverlaneError
from overlane.figures.palette import Theme, engine_label
from overlane.figures.units import format_count, format_ns
from overlane.ui import ids
from overlane.ui.grids import COPY_SCRIPT, Column, column, grid, grid_height, in_one_unit, used
from overlane.ui.links import around, timeline_href
from overlane.ui.parts import GRAPH_CONFIG, extra, heading, no_work, notice
from overlane.ui.steps import window_of, window_words
from overlane.ui.wiring import wire, wire_again, wire_script

if TYPE_CHECKING:
    import dash

    from overlane.analysis.flame import Flame, Weight
    from overlane.analysis.operations import Grouping, Operations
    from overlane.analysis.study import Study
    from overlane.cache import OpenedTrace
    from overlane.trace import Trace
    from overlane.ui.store import TraceStore
    from overlane.ui.studies import Studies

__all__ = ["NAME", "TITLE", "layout", "register"]

NAME = "operations"
TITLE = "Operations"

BY, FILTER, COPY, COPIED = "ov-ops-by", "ov-ops-filter", "ov-ops-copy", "ov-ops-copied"
GRID, GRID_BOX, SAID = "ov-ops-grid", "ov-ops-grid-box", "ov-ops-said"
WEIGHT, FLAME, FLAME_BOX, FLAME_SAID = "ov-flame-by", "ov-flame", "ov-flame-box", "ov-flame-said"
AGAIN, TURN = "ov-ops-again", "ov-ops-turn"
FLAME_AGAIN, FLAME_TURN = "ov-flame-again", "ov-flame-turn"
VERSION = 2
"""Changes with what the groups hold, so that stored ones of older versions are made anew."""

_HIDDEN = {"display": "none"}
_CHOICES = (
    ("name", "Name"),
    ("family", "Family"),
    ("stream", "Stream"),
    ("range", "Range"),
    ("operator", "Operator"),
)

# Keeps the grouping in the address, and takes it from there.
_KEEP = """function(by, search) {
    const query = new URLSearchParams(search || '');
    if ((query.get('by') || 'name') === by) return dash_clientside.no_update;
    if (by === 'name') query.delete('by'); else query.set('by', by);
    return '?' + query.toString().replaceAll('%3A', ':');
}"""
_TAKE = """function(search, known) {
    const by = new URLSearchParams(search || '').get('by') || 'name';
    return by === known || !KNOWN.includes(by) ? dash_clientside.no_update : by;
}""".replace("KNOWN", str([name for name, _ in _CHOICES]))


def layout() -> Component:
    """Return the static elements of the page."""
    return html.Div(
        [
            html.Div(
                [
                    html.H1("Operations"),
                    html.P(id=SAID, className="ov-quiet", **extra(aria_live="polite")),
                ],
                className="ov-page-head",
            ),
            _tools(),
            html.Div(
                grid(GRID, COLUMNS),
                id=GRID_BOX,
                className="ov-ops-grid",
                role="region",
                **extra(aria_label="Operations by group"),
            ),
            _flame_section(),
            *map(dcc.Store, (AGAIN, TURN, FLAME_AGAIN, FLAME_TURN)),
        ],
        className="ov-scroll",
    )


def _tools() -> Component:
    return html.Div(
        [
            dmc.SegmentedControl(
                id=BY,
                data=[{"value": value, "label": label} for value, label in _CHOICES],
                value="name",
                size="xs",
                **extra(aria_label="Group operations by"),
            ),
            dmc.TextInput(
                id=FILTER,
                placeholder="filter rows …",
                size="xs",
                debounce=150,
                w=220,
                **extra(aria_label="Show only rows that hold this text"),
            ),
            html.Button("Copy rows as CSV", id=COPY, type="button", className="ov-button"),
            html.Span(id=COPIED, className="ov-quiet", **extra(aria_live="polite")),
        ],
        className="ov-tools",
    )


def _flame_section() -> Component:
    weights = [
        {"value": "device", "label": "Launched GPU work"},
        {"value": "host", "label": "Time on the host"},
    ]
    return html.Section(
        [
            heading(
                "Where time goes by nesting", note="ranges, operators and recorded stacks; click to enter"
            ),
            html.Div(
                [
                    dmc.SegmentedControl(
                        id=WEIGHT,
                        data=weights,
                        value="device",
                        size="xs",
                        **extra(aria_label="What the widths are"),
                    ),
                    html.Span(id=FLAME_SAID, className="ov-quiet"),
                ],
                className="ov-tools",
            ),
            html.Div(dcc.Graph(id=FLAME, config=GRAPH_CONFIG, figure={}), id=FLAME_BOX, style=_HIDDEN),
        ],
        className="ov-ops-flame",
    )


COLUMNS: list[Column] = [
    column("label", "what", width=150, renderer="link", grows=True),
    column("engine", "engine", width=80),
    column("op_count", "count", form="count", width=54),
    column(
        "work_ns",
        "total",
        form="ns",
        width=92,
        note="durations added up; overlapping ones count twice",
        sort="desc",
    ),
    column("work_fraction", "share", form="share", width=58, note="share of the durations of all operations"),
    column("median_ns", "median", form="ns", width=82),
    column("most_ns", "longest", form="ns", width=82, note="the row's link leads there"),
    column("bandwidth", "rate", form="rate", width=78, note="bytes over the durations that moved them"),
    column("bytes", "bytes", form="bytes", width=78),
    column("grid_blocks", "blocks", form="extent", width=104, note="blocks of a launch, least and most"),
    column("block_threads", "threads", form="extent", width=62, note="threads of a block, least and most"),
    column("registers", "registers", form="extent", width=68, note="registers of a thread, least and most"),
    column(
        "shared_bytes",
        "shared, B",
        form="extent",
        width=84,
        note="shared memory of a block in bytes, least and most",
    ),
    column(
        "occupancy_fraction",
        "occupancy",
        form="share",
        width=86,
        note="of the longest: as recorded, else the warps that its blocks fit into an SM with",
    ),
    column("shapes", "shapes", width=120, note="shapes of the operator's inputs"),
]


def register(app: dash.Dash, store: TraceStore) -> None:
    """Attach the page's callbacks to an app."""
    wire(
        app,
        partial(show, store),
        Output(GRID, "rowData"),
        Output(GRID, "columnDefs"),
        Output(GRID_BOX, "style"),
        Output(SAID, "children"),
        Output(AGAIN, "data"),
        Input(ids.OPEN, "data"),
        Input(BY, "value"),
        Input(ids.path_id(NAME), "data"),
        Input(TURN, "data"),
    )
    wire(
        app,
        partial(show_flame, store),
        Output(FLAME, "figure"),
        Output(FLAME, "style"),
        Output(FLAME_BOX, "style"),
        Output(FLAME_SAID, "children"),
        Output(FLAME_AGAIN, "data"),
        Input(ids.OPEN, "data"),
        Input(WEIGHT, "value"),
        Input(ids.THEME, "data"),
        Input(ids.path_id(NAME), "data"),
        Input(FLAME_TURN, "data"),
    )
    for again, turn in ((AGAIN, TURN), (FLAME_AGAIN, FLAME_TURN)):
        wire_again(app, again, turn)
    _register_tools(app)


def _register_tools(app: dash.Dash) -> None:
    wire_script(
        app,
        COPY_SCRIPT,
        Output(COPIED, "children"),
        Input(COPY, "n_clicks"),
        State(GRID, "columnDefs"),
        State(GRID, "selectedRows"),
        State(GRID, "virtualRowData"),
        first_call=False,
    )
    wire_script(
        app,
        "function(text, options) { return {...options, quickFilterText: text || ''}; }",
        Output(GRID, "dashGridOptions"),
        Input(FILTER, "value"),
        State(GRID, "dashGridOptions"),
        first_call=False,
    )
    wire_script(
        app,
        _KEEP,
        Output(ids.LOCATION, "search", allow_duplicate=True),
        Input(BY, "value"),
        State(ids.LOCATION, "search"),
        first_call=False,
    )
    wire_script(app, _TAKE, Output(BY, "value"), Input(ids.LOCATION, "search"), State(BY, "value"))


def _is_shown(path: str | None) -> bool:
    return (path or "").strip("/") == NAME


def _opened(store: TraceStore, state: dict[str, Any] | None) -> OpenedTrace | Component:
    """Return the trace that is shown, or why there is none."""
    if not state or state["state"] in {"none", "loading"}:
        words = "Choose one on the library page, or wait until it is opened."
        return notice("No trace is open yet.", words, leads_back=True)
    try:
        opened = store.opened(state["trace"])
    except OverlaneError as error:
        return notice("The trace cannot be opened.", str(error), kind="failed", leads_back=True)
    if opened is None:
        return notice("The trace is being opened.", "Its operations are shown as soon as it is read.")
    return opened


def show(
    store: TraceStore, state: dict[str, Any] | None, by: Grouping, path: str | None, turn: int | None = None
) -> tuple[Any, ...]:
    """Return rows and columns of the grid, its style, the sentence above it, and a number where to ask again.

    Args:
        store: Where the trace is opened.
        state: What is shown.
        by: What operations are grouped by.
        path: Path of the address.
        turn: How often was asked.
    """
    if not _is_shown(path):
        return (no_update,) * 5
    opened = _opened(store, state)
    if state is None or isinstance(opened, Component):
        return [], COLUMNS, _HIDDEN, opened, None
    window = window_of(state)
    try:
        found = groups_of(store.studies, opened, by, window)
    except OverlaneError as error:
        return [], COLUMNS, _HIDDEN, notice("No operations.", str(error), kind="failed"), None
    if found is None:
        return [], COLUMNS, _HIDDEN, "Grouping the operations …", (turn or 0) + 1
    rows = [_row(group, state["trace"], opened.trace.span_ns) for group in found["groups"]]
    if not rows:
        return [], COLUMNS, _HIDDEN, _why_none(window, opened.trace), None
    words = [
        window_words(window),
        f"{format_count(found['op_count'])} operations, {format_ns(found['work_ns'])} of work;",
        f"{format_count(len(rows))} rows. Overlapping work counts twice.",
        found["note"],
    ]
    height = grid_height(len(rows), most="clamp(240px, 52vh, 1200px)")
    return (
        rows,
        used(in_one_unit(COLUMNS, rows), rows),
        height,
        " ".join(word for word in words if word),
        None,
    )


def _why_none(window: tuple[int, int] | None, trace: Trace) -> Component:
    if window is not None:
        return notice("No operation here.", f"{window_words(window)} Nothing ran on a device in it.")
    return no_work(trace)


def groups_of(
    studies: Studies, opened: OpenedTrace, by: Grouping, window: tuple[int, int] | None
) -> dict[str, Any] | None:
    """Return the groups of a trace as JSON, None while they are made; it keeps those of all of it.

    Raises:
        OverlaneError: They could not be made.
    """
    name = f"operations {by}"

    def compute() -> dict[str, Any]:
        from overlane.analysis.operations import operations  # noqa: PLC0415 - loads compiled code

        return _with_occupancy(opened, operations(opened.trace, by=by, window=window))

    def build(_study: Study) -> dict[str, Any]:
        return opened.result(name, VERSION, compute) if window is None else compute()

    return studies.answer(opened, window, name, build, is_quick=True)


_OCCUPANCY_KEY = "est. achieved occupancy %"


def _with_occupancy(opened: OpenedTrace, found: Operations) -> dict[str, Any]:
    """Return groups as JSON, with the occupancy of the longest operation, as recorded or else as reckoned."""
    from overlane.analysis.workloads import resident_fractions  # noqa: PLC0415 - loads compiled code

    answer = found.to_json()
    kernels = [group for group in answer["groups"] if group["kind"] == "kernel"]
    reckoned = resident_fractions(opened.trace, [group["longest_op"] for group in kernels])
    for group, fraction in zip(kernels, reckoned, strict=True):
        recorded = opened.trace.attributes("ops", group["longest_op"]).get(_OCCUPANCY_KEY)
        # A recorded 0 is no occupancy of a kernel that ran.
        group["occupancy_fraction"] = (
            recorded / 100 if isinstance(recorded, int | float) and recorded > 0 else fraction
        )
    return answer


def _row(group: dict[str, Any], trace_id: str, span_ns: int) -> dict[str, Any]:
    start, end = group["longest_start_ns"], group["longest_end_ns"]
    href = timeline_href(
        trace_id,
        rank=group["rank"],
        window=around(start, end, span_ns),
        selected=("ops", group["longest_op"]),
    )
    names = [item["field"] for item in COLUMNS]
    moved, took = group["bytes"], group["bytes_ns"]
    is_copy = (group["engine"] or "").startswith("copy") or group["engine"] == "memset"
    return {
        **{name: group.get(name) for name in names},
        "engine": "several"
        if group["engine"] is None and group["kind"] == "mixed"
        else engine_label(group["engine"]),
        "bandwidth": moved / took if moved and took and is_copy else None,
        "href": href,
    }


def show_flame(  # noqa: PLR0917 - values of a callback
    store: TraceStore,
    state: dict[str, Any] | None,
    weight: Weight,
    theme: str | None,
    path: str | None,
    turn: int | None = None,
) -> tuple[Any, ...]:
    """Return the flame view, its style, that of its box, the sentence beside it, where to ask again."""
    if not _is_shown(path) or theme is None:
        return (no_update,) * 5
    opened = _opened(store, state)
    if isinstance(opened, Component):
        return {}, {}, _HIDDEN, "", None
    window = window_of(state)

    def build(_study: Study) -> Flame:
        from overlane.analysis.flame import flame  # noqa: PLC0415 - loads compiled code

        return flame(opened.trace, weight=weight, window=window)

    try:
        found = store.studies.answer(opened, window, f"flame {weight}", build, is_quick=True)
    except OverlaneError as error:
        return {}, {}, _HIDDEN, str(error), None
    if found is None:
        return {}, {}, _HIDDEN, "Merging the ranges …", (turn or 0) + 1
    if not found.frames:
        return {}, {}, _HIDDEN, _why_empty(opened, weight), None
    from overlane.figures.flame import flame_icicle  # noqa: PLC0415 - loads Plotly

    colours: Theme = "dark" if theme == "dark" else "light"
    figure = flame_icicle(found, theme=colours)
    words = [
        f"{format_count(len(found.frames))} {'frame' if len(found.frames) == 1 else 'frames'}",
        f"{format_count(found.left_out)} lighter ones left out" if found.left_out else "",
        f"{format_ns(found.unplaced_ns)} of work launched outside of any range" if found.unplaced_ns else "",
    ]
    said = "; ".join(word for word in words if word) + "."
    return figure, {"height": figure.layout.height}, {}, said, None


def _why_empty(opened: OpenedTrace, weight: Weight) -> str:
    if not opened.trace.table("ranges").num_rows:
        return (
            "This trace holds no ranges. Record with NVTX ranges, or with PyTorch's profiler and "
            "record_function or with_stack."
        )
    if weight == "device":
        return "No operation was launched inside of a range here; look at the time on the host."
    return "No range of a host thread lies in this window."
