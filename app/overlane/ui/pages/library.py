"""The library page: every trace that this server may show, what it holds and what it can prove."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import dash_mantine_components as dmc
from dash import ALL, Input, Output, State, dcc, html, no_update
from dash.development.base_component import Component

from overlane.errors import OverlaneError
from overlane.figures.palette import engine_label
from overlane.figures.units import format_bytes, format_count, format_ns
from overlane.ui import ids
from overlane.ui.facts import TraceFacts
from overlane.ui.links import overlap_href, timeline_href
from overlane.ui.parts import extra, notice, swatch
from overlane.ui.proof import proof_details
from overlane.ui.wiring import wire

if TYPE_CHECKING:
    import dash

    from overlane.ui.store import Listing, TraceStore

__all__ = ["NAME", "TITLE", "layout", "register"]

NAME = "library"
TITLE = "Library"

_TICKS_PER_LOOK = 5
"""While traces are being opened, the cards are made anew at every fifth tick: it keeps the browser busy."""

_FULL_CARDS = 12
"""With more traces than this each card is a few lines of text: Dash takes milliseconds per element."""


def layout() -> Component:
    """Return the static elements of the page."""
    return html.Div(
        [
            html.Div(
                [
                    html.H1("Traces"),
                    html.Div(
                        [
                            dmc.Autocomplete(
                                id=ids.LIBRARY_NAME,
                                placeholder="open by name, as in runs/step.json.gz",
                                data=[],
                                size="sm",
                                w=340,
                                **extra(aria_label="Name of a file of the library folder"),
                            ),
                            dmc.Button("Open", id=ids.LIBRARY_OPEN, size="sm"),
                            dmc.Button("Look again", id=ids.LIBRARY_RESCAN, size="sm", variant="default"),
                        ],
                        className="ov-library-tools",
                    ),
                ],
                className="ov-library-head",
            ),
            html.Div(id=ids.LIBRARY_FOUND, **extra(aria_live="polite")),
            html.Div(id=ids.LIBRARY, className="ov-library"),
        ],
        className="ov-scroll",
    )


def register(app: dash.Dash, store: TraceStore) -> None:
    """Attach the page's callbacks to an app."""
    wire(
        app,
        partial(show, store),
        Output(ids.LIBRARY, "children"),
        Output(ids.LIBRARY_NAME, "data"),
        Input(ids.OPEN, "data"),
        Input(ids.POLL, "n_intervals"),
        Input(ids.LIBRARY_RESCAN, "n_clicks"),
        Input(ids.LOCATION, "pathname"),
        State({"type": ids.WHY, "trace": ALL}, "id"),
        State({"type": ids.WHY, "trace": ALL}, "n_clicks"),
    )
    wire(
        app,
        partial(look_again, store),
        Output(ids.POLL, "disabled", allow_duplicate=True),
        Input(ids.LIBRARY_RESCAN, "n_clicks"),
        first_call=False,
    )
    wire(
        app,
        partial(open_by_name, store),
        Output(ids.LIBRARY_FOUND, "children"),
        Output(ids.LOCATION, "pathname", allow_duplicate=True),
        Output(ids.LOCATION, "search", allow_duplicate=True),
        Output(ids.POLL, "disabled", allow_duplicate=True),
        Input(ids.LIBRARY_OPEN, "n_clicks"),
        State(ids.LIBRARY_NAME, "value"),
        first_call=False,
    )


def look_again(store: TraceStore, _clicks: int | None) -> bool:
    """Read the library folder again and try once more what failed; returns whether polling may rest."""
    store.rescan()
    for listing in store.listings():
        if listing.state == "failed" or listing.is_changed:
            store.request(listing.trace_id)
    return not store.is_busy()


def show(  # noqa: PLR0917 - one parameter per input, in Dash's order
    store: TraceStore,
    state: dict[str, Any] | None,
    ticks: int | None,
    _clicks: int | None,
    path: str | None,
    opened: list[dict[str, str]] | None = None,
    opened_clicks: list[int | None] | None = None,
) -> tuple[Any, Any]:
    """Return the cards of all traces and the names to suggest; nothing while another page is shown."""
    if (path or "/").strip("/") not in {"", NAME}:
        return no_update, no_update
    if ticks and ticks % _TICKS_PER_LOOK and store.is_busy():
        return no_update, no_update
    store.rescan()
    listings = store.listings()
    current = (state or {}).get("trace")
    clicks = {one["trace"]: count or 0 for one, count in zip(opened or [], opened_clicks or [], strict=True)}
    cards = [
        card(
            listing,
            store.facts(listing.trace_id),
            current=current,
            clicks=clicks.get(listing.trace_id, 0),
            is_brief=len(listings) > _FULL_CARDS,
        )
        for listing in listings
    ]
    return cards or [empty_library(store)], [*store.full_names().values()]


def open_by_name(store: TraceStore, _clicks: int | None, name: str | None) -> tuple[Any, Any, Any, Any]:
    """Go to the timeline of the trace that was typed, or say in one sentence why not.

    Polling starts at once: the address may be that of a trace that failed before, and then nothing else asks.
    """
    try:
        listing = store.add_by_name(name or "")
        store.request(listing.trace_id)
    except OverlaneError as error:
        return notice("Not opened.", str(error), kind="failed"), no_update, no_update, no_update
    path, _, query = timeline_href(listing.trace_id).partition("?")
    return None, path, f"?{query}", False


def empty_library(store: TraceStore) -> Component:
    """Return what to do when there is no trace at all."""
    place = (
        f"Put trace files into {store.library}"
        if store.library
        else "Start it with a trace: overlane serve TRACE"
    )
    return html.Div(
        [
            html.H2("No traces yet"),
            html.P(f"{place}, then press Look again."),
            html.P("Files of the PyTorch profiler (.json, .json.gz) and .overlane files are read."),
            html.P("To see what it looks like, run: overlane demo"),
        ],
        className="ov-empty",
    )


def card(
    listing: Listing,
    facts: TraceFacts | None,
    *,
    current: str | None,
    clicks: int = 0,
    is_brief: bool = False,
) -> Component:
    """Return one trace: its name and state, what it holds, what it can prove, and where to go."""
    body: list[Component]
    if listing.state == "failed":
        body = [
            notice("Cannot be opened.", listing.reason, kind="failed"),
            html.P("Look again tries it once more.", className="ov-quiet"),
        ]
    elif listing.state == "loading":
        body = [
            dmc.Progress(value=max(100 * listing.progress, 3), striped=True, animated=True, size="sm"),
            html.P("being opened …"),
        ]
    elif facts is None:
        body = [
            html.P(
                "Not opened yet: open it to see its devices, streams and what it can prove.",
                className="ov-quiet",
            )
        ]
    else:
        body = [
            html.P(holdings_words(facts)) if is_brief else holdings(facts),
            proof_details(facts, listing.trace_id, clicks, is_brief=is_brief),
        ]
        if listing.is_changed:
            body.insert(0, notice("Changed on disk.", "Look again opens it anew.", kind="warning"))
    return html.Article(
        [
            html.Div(
                [
                    html.H2([dcc.Link(listing.name, href=timeline_href(listing.trace_id))]),
                    html.Span(_origin(listing, facts), className="ov-quiet"),
                    html.Span(actions(listing, current=current), className="ov-actions"),
                ],
                className="ov-card-head",
            ),
            *body,
        ],
        className="ov-card" + (" ov-card-current" if listing.trace_id == current else ""),
        **extra(data_trace=listing.trace_id, data_state=listing.state),
    )


def _origin(listing: Listing, facts: TraceFacts | None) -> str:
    words = [listing.path.name, format_bytes(listing.size_bytes) if listing.size_bytes is not None else ""]
    if facts is not None:
        words += [facts.format, facts.producer if facts.producer != facts.format else ""]
    return " · ".join(word for word in words if word)


def actions(listing: Listing, *, current: str | None) -> list[Component]:
    """Return the links of a trace: open, overlap, compare with the one that is shown."""
    if listing.state == "failed":
        return []
    found: list[Component] = [
        dcc.Link("Timeline", href=timeline_href(listing.trace_id), className="ov-button ov-button-main"),
        dcc.Link("Overlap", href=overlap_href(listing.trace_id), className="ov-button"),
    ]
    if current is not None and current != listing.trace_id:
        href = timeline_href(current, other_id=listing.trace_id)
        found.append(
            dcc.Link("Compare", href=href, className="ov-button", title=f"beside {current}, sharing the view")
        )
    return found


def _holdings(facts: TraceFacts) -> list[tuple[str, str]]:
    # A trace of one process calls its rank 0, whether there were others or not.
    ranks = [rank for rank in facts.ranks if rank is not None] if facts.ranks != (0,) else []
    pairs = [
        ("device", facts.device_words),
        ("span", format_ns(facts.span_ns)),
        ("streams", format_count(facts.stream_count)),
        (
            "operations",
            format_count(facts.op_count) if facts.op_count else "none: this trace holds no GPU work",
        ),
        ("host calls", format_count(facts.row_counts.get("api_calls", 0))),
        ("synchronizations", format_count(facts.row_counts.get("syncs", 0))),
        ("ranges", format_count(facts.row_counts.get("ranges", 0))),
        ("partitions", format_count(facts.partition_count) if facts.partition_count else ""),
        ("rank" if len(ranks) == 1 else "ranks", ", ".join(str(rank) for rank in ranks)),
    ]
    return [(label, text) for label, text in pairs if text]


def holdings_words(facts: TraceFacts) -> str:
    """Return what a trace holds as one line."""
    return " · ".join(f"{label} {text}" for label, text in _holdings(facts))


def holdings(facts: TraceFacts) -> Component:
    """Return what a trace holds, as numbers with their words."""
    cells = [html.Div([html.Dt(label), html.Dd(text)]) for label, text in _holdings(facts)]
    engines = [
        html.Span(
            [swatch(engine or "other"), f"{engine_label(engine)} {format_count(count)}"],
            className="ov-engine",
        )
        for engine, count in sorted(facts.engine_counts.items(), key=lambda pair: -pair[1])
    ]
    return html.Div([html.Dl(cells, className="ov-holdings"), html.Div(engines, className="ov-engines")])
