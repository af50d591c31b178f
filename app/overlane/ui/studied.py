"""Pages that show what a study found: the common frame, the moment of computing, and links into the timeline.

Such a page gives `rows` (a study to plain values, made in the background) and `show` (these values to
elements). The window of the step picker narrows both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dash import ALL, Input, Output, State, dcc, html, no_update
from dash.development.base_component import Component

from overlane.errors import OverlaneError
from overlane.figures.palette import SERIES_COLOURS, Theme
from overlane.figures.units import exact_ns, format_ns
from overlane.ui import ids
from overlane.ui.grids import Column, grid, used
from overlane.ui.links import around, timeline_href
from overlane.ui.parts import GRAPH_CONFIG, extra, goto, heading, no_work, notice
from overlane.ui.steps import window_of, window_words
from overlane.ui.wiring import wire, wire_script

if TYPE_CHECKING:
    import dash
    import plotly.graph_objects as go

    from overlane.analysis.study import Study
    from overlane.trace import Trace
    from overlane.ui.store import TraceStore

__all__ = [
    "Scene",
    "StudyPage",
    "block",
    "capped",
    "chart",
    "filled",
    "in_two",
    "legend",
    "series_colour",
    "wire_charts",
]

POLL_MS = 400
MOST_ROWS = 40
"""Rows of a table in plain HTML; longer ones say how many more there are."""
_GRID_ROW_PX, _GRID_HEAD_PX = 28, 52
"""Height of a row of a grid; of its head with borders and a scroll bar."""

# A click on what a chart draws goes where the row of the table goes; its address is the point's custom data.
_LEAD = """function(clicks) {
    const at = clicks.find(one => one && one.points && one.points.length);
    const data = at ? at.points[0].customdata : null;
    const href = Array.isArray(data) ? data[0] : data;
    if (typeof href === 'string' && href.startsWith('/')) window.overlane.page.open(href);
    return clicks.map(() => null);
}"""


@dataclass(frozen=True)
class Scene:
    """What a page shows its rows of.

    Attributes:
        page: Name of the page.
        trace: The trace.
        trace_id: Its id.
        window: Window that the pages are narrowed to, None for all.
        theme: Theme of the page.
    """

    page: str
    trace: Trace
    trace_id: str
    window: tuple[int, int] | None
    theme: Theme

    def href(
        self,
        start_ns: int,
        end_ns: int,
        *,
        rank: int | None = None,
        selected: tuple[str, int] | None = None,
        is_marked: bool = False,
    ) -> str:
        """Return the address of an interval in the timeline.

        Args:
            start_ns: Its start.
            end_ns: Its end.
            rank: Rank that it belongs to, None for the trace's first.
            selected: Table and row id of the slice that is selected there.
            is_marked: Measure the interval there.
        """
        return timeline_href(
            self.trace_id,
            rank=rank,
            window=around(start_ns, end_ns, self.trace.span_ns),
            selected=selected,
            marked=(start_ns, end_ns) if is_marked and end_ns > start_ns else None,
            narrowed=self.window,
        )

    def page_href(self, page: str) -> str:
        """Return the address of another page of the same trace and window."""
        return f"/{page}?{timeline_href(self.trace_id, narrowed=self.window).partition('?')[2]}"

    def row_href(self, table: str, row: int) -> str:
        """Return the address of a row of the trace; empty where the timeline draws none of its kind."""
        from overlane.ui.rows import interval_of  # noqa: PLC0415 - only where rows are linked

        if table not in _DRAWN:
            return ""
        values = self.trace.row(table, row)
        start, end = interval_of(values)
        return self.href(start, end, rank=values.get("rank"), selected=(table, row))

    def row_link(self, text: str, table: str, row: int) -> Component:
        """Return a link to a row of the trace; plain text where the timeline draws none of its kind."""
        href = self.row_href(table, row)
        return goto(text, href, title=f"{table} {row}") if href else html.Span(text, title=f"{table} {row}")

    def span_link(self, start_ns: int, end_ns: int, **where: Any) -> Component:
        """Return the length of an interval as a link to it; `where` as in `href`."""
        words = f"{exact_ns(end_ns - start_ns)} from {exact_ns(start_ns)}"
        return goto(format_ns(end_ns - start_ns), self.href(start_ns, end_ns, **where), title=words)

    def chart(self, name: str, figure: go.Figure, label: str) -> Component:
        """Return a chart; a click on a point with an address as its custom data leads there.

        Args:
            name: Its name on the page.
            figure: What it shows.
            label: What it shows, in words; a table beside it says the same.
        """
        return chart(self.page, name, figure, label)


_DRAWN = ("ops", "api_calls", "syncs", "ranges", "overheads")
"""Tables whose rows the timeline draws."""


def wire_charts(app: dash.Dash, page: str) -> None:
    """Let clicks on the charts of a page lead to the addresses that their points have as custom data."""
    charts = _chart_id(page, ALL)
    wire_script(app, _LEAD, Output(charts, "clickData"), Input(charts, "clickData"), first_call=False)


def chart(page: str, name: str, figure: go.Figure, label: str) -> Component:
    """Return a chart; a click on a point with an address as its custom data leads there.

    Args:
        page: Name of the page, whose charts are wired by `wire_charts`.
        name: Its name on the page.
        figure: What it shows.
        label: What it shows, in words; a table beside it says the same.
    """
    return html.Div(
        dcc.Graph(
            id=_chart_id(page, name),
            figure=figure,
            config=GRAPH_CONFIG,
            style={"height": figure.layout.height},
        ),
        className="ov-chart",
        role="img",
        **extra(aria_label=label),
    )


def _chart_id(page: str, name: Any) -> dict[str, Any]:
    return {"type": "ov-study-chart", "page": page, "name": name}


@dataclass(frozen=True)
class StudyPage:
    """The frame of a page.

    Attributes:
        name: Name in addresses.
        title: Heading.
        lead: A sentence beside it.
        rows: Makes plain values from a study, in a background thread.
        show: Makes elements of these values.
        computing: What is said meanwhile.
        is_quick: The rows need none of the causes.
        below: Static elements below the shown ones.
    """

    name: str
    title: str
    lead: str
    rows: Callable[[Study], dict[str, Any]]
    show: Callable[[dict[str, Any], Scene], Sequence[Component]]
    computing: str
    is_quick: bool = False
    below: Sequence[Component] = field(default_factory=list)

    @property
    def body(self) -> str:
        """Id of the element that holds what is shown."""
        return f"ov-{self.name}"

    @property
    def shown(self) -> str:
        """Id of the store that says what is shown."""
        return f"ov-{self.name}-shown"

    def layout(self) -> Component:
        """Return the static elements of the page."""
        return html.Div(
            [
                html.Div(
                    [html.H1(self.title), html.P(self.lead, className="ov-quiet")], className="ov-page-head"
                ),
                html.Div(id=self.body, className="ov-study", **extra(aria_live="polite")),
                *self.below,
                dcc.Store(id=self.shown),
                dcc.Interval(id=f"{self.body}-poll", interval=POLL_MS, disabled=True),
            ],
            className="ov-scroll",
        )

    def register(self, app: dash.Dash, store: TraceStore) -> None:
        """Attach the page's callbacks to an app."""

        def update(*values: Any) -> Any:
            return self.update(store, *values)

        wire(
            app,
            update,
            Output(self.body, "children"),
            Output(f"{self.body}-poll", "disabled"),
            Output(self.shown, "data"),
            Input(ids.OPEN, "data"),
            Input(ids.THEME, "data"),
            Input(ids.path_id(self.name), "data"),
            Input(f"{self.body}-poll", "n_intervals"),
            State(self.shown, "data"),
        )
        wire_charts(app, self.name)

    def update(
        self,
        store: TraceStore,
        state: dict[str, Any] | None,
        theme: str | None,
        path: str | None,
        _ticks: int | None,
        shown: dict[str, Any] | None,
    ) -> Any:
        """Return the page's elements, whether there is nothing to ask for again, and what is shown."""
        if (path or "").strip("/") != self.name or theme is None:
            return no_update, True, no_update
        if not state or state["state"] in {"none", "loading"}:
            words = "Choose one on the library page, or wait until it is opened."
            return notice("No trace is open yet.", words, leads_back=True), True, None
        window = window_of(state)
        try:
            opened = store.opened(state["trace"])
            if opened is None:
                return no_update, False, no_update
            wanted = {"key": opened.key, "window": list(window) if window else None, "theme": theme}
            if wanted == shown:
                return no_update, True, no_update
            if not opened.trace.table("ops").num_rows:
                return no_work(opened.trace), True, wanted
            found = store.studies.answer(opened, window, self.name, self.rows, is_quick=self.is_quick)
        except OverlaneError as error:
            said = notice("There is nothing to show.", str(error), kind="failed", leads_back=True)
            return said, True, None
        if found is None:
            return notice(self.computing, "This is done once per file and window."), False, None
        colours: Theme = "dark" if theme == "dark" else "light"
        scene = Scene(self.name, opened.trace, state["trace"], window, colours)
        narrowed = [html.P(window_words(window), className="ov-quiet")] if window else []
        return [*narrowed, *self.show(found, scene)], True, wanted


def capped(rows: Sequence[Any], most: int = MOST_ROWS) -> tuple[Sequence[Any], list[Component]]:
    """Return the first rows, and what says how many more there are."""
    left = len(rows) - most
    if left <= 1:
        return rows, []
    more = f"and {left} more; overlane report TRACE --json gives all"
    return rows[:most], [html.P(more, className="ov-quiet ov-more")]


def block(title: str, *content: Component | None, note: str = "") -> Component:
    """Return a part of a page under its heading."""
    return html.Section(
        [heading(title, note=note), *(one for one in content if one is not None)], className="ov-block"
    )


def in_two(left: Sequence[Component], right: Sequence[Component]) -> Component:
    """Return two columns, below each other where there is no room."""
    return html.Div([html.Div(list(left)), html.Div(list(right))], className="ov-charts")


def filled(name: str, columns: Sequence[Column], rows: Sequence[dict[str, Any]], label: str) -> Component:
    """Return a grid with its rows, as high as they need up to half of the page.

    Args:
        name: Id of the grid.
        columns: Its columns; those without a value are hidden.
        rows: Its rows.
        label: What it shows.
    """
    made: Any = grid(name, used(columns, rows), is_selectable=False)
    made.rowData = list(rows)
    height = f"min({_GRID_HEAD_PX + _GRID_ROW_PX * len(rows)}px, 46vh)"
    return html.Div(
        made, className="ov-study-grid", style={"height": height}, role="region", **extra(aria_label=label)
    )


def legend(items: Iterable[tuple[str, str]]) -> Component:
    """Return what the colours of a chart stand for.

    Args:
        items: A colour, as CSS or the name of a variable of it, and words.
    """
    return html.Div(
        [
            html.Span([html.Span(className="ov-swatch", style={"background": colour}), words])
            for colour, words in items
        ],
        className="ov-legend",
    )


def series_colour(number: int) -> str:
    """Return the colour of a curve or partition by its number, as CSS."""
    return f"var(--ov-series-{number % len(SERIES_COLOURS)})"
