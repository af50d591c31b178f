"""The panels around the canvas: a selected slice, a marked range, the whole trace, the hits of a search."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from dash import html
from dash.development.base_component import Component

from overlane.figures.units import exact_ns, format_count, format_ns, format_stamps
from overlane.ui.engines import device_summary, places_of
from overlane.ui.facts import StreamFacts, TraceFacts, stream_facts
from overlane.ui.links import around, timeline_href
from overlane.ui.parts import fact_list, goto, heading, table
from overlane.ui.plain import plain
from overlane.ui.reasons import idle_of_devices
from overlane.ui.rows import (
    Connection,
    Fact,
    column_facts,
    connections,
    headline_facts,
    interval_of,
    row_title,
    unknown_columns,
)
from overlane.ui.search import row_times
from overlane.ui.why import barrier_table, idle_panel, why_panel

if TYPE_CHECKING:
    from overlane.cache import OpenedTrace
    from overlane.trace import Trace
    from overlane.ui.reasons import Reasons

__all__ = ["range_panel", "selection_panel", "trace_panel"]

_TEXT_SHOWN = 400
_SLOWEST_SHOWN = 6
_STREAMS_VERSION = 1
"""Changes with `StreamFacts`, so that stored ones of older versions are reckoned anew."""
_NOUNS_OF_TABLES = {
    "ops": "operations",
    "api_calls": "host calls",
    "syncs": "synchronizations",
    "ranges": "ranges",
}


def selection_panel(
    opened: OpenedTrace, selection: dict[str, Any], reasons: Reasons | None = None
) -> list[Component]:
    """Return everything that the trace says of the selected slice, and where to go from it.

    Args:
        opened: The slice's trace.
        selection: `trace`, `rank`, `table` and `row` as the canvas gives them.
        reasons: The causes of the trace, None while they are computed.

    Raises:
        KeyError: There is no such table.
        IndexError: There is no such row.
    """
    trace, name, row = opened.trace, str(selection["table"]), int(selection["row"])
    columns = column_facts(trace, name, row)
    said = [Fact(str(key), *_plain(value)) for key, value in trace.attributes(name, row).items()]
    more = [heading("The source also says"), fact_list(said)] if said else []
    noun, _, number = row_title(name, row).rpartition(" ")
    connected = [heading("Connected with"), _links(opened, selection)]
    selected = [
        heading(f"Selected {noun}", note=f"{name} {number}"),
        fact_list(headline_facts(trace, name, row)),
    ]
    if name == "ops":
        why = _computing() if reasons is None else why_panel(reasons, selection)
        selected, connected = [*selected, *connected], why
    parts = (
        selected,
        connected,
        [
            heading("All columns", note=f"{len(columns)} known"),
            fact_list(columns),
            _not_recorded(unknown_columns(trace, name, row)),
            *more,
        ],
    )
    return [plain(html.Div(part, className="ov-panel")) for part in parts]


def _computing() -> list[Component]:
    words = "The causes of this trace are being computed, once per file; they show here when they are there."
    return [heading("Why it waited"), html.P(words, className="ov-quiet")]


def _plain(value: Any) -> tuple[str, str]:
    """Return a value of the source as text, cut where it is very long, and whole for the hover."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return (text, "") if len(text) <= _TEXT_SHOWN else (text[:_TEXT_SHOWN] + " …", text)


def _not_recorded(unknown: list[Fact]) -> Component | None:
    if not unknown:
        return None
    return html.Details(
        [html.Summary(f"{len(unknown)} columns are unknown here"), fact_list(unknown)],
        className="ov-unknown",
    )


def _links(opened: OpenedTrace, selection: dict[str, Any]) -> Component:
    trace, name, row = opened.trace, str(selection["table"]), int(selection["row"])
    found: list[Component] = []
    grouped: dict[str, list[Connection]] = {}
    for item in connections(trace, name, row):
        grouped.setdefault(item.kind, []).append(item)
    for kind, items in grouped.items():
        label = kind if items[0].count == 1 else f"{format_count(items[0].count)} {kind}s"
        links = [html.Span(_link(selection, trace, item)) for item in items]
        if items[0].count > len(items):
            links.append(
                html.Span(f"and {format_count(items[0].count - len(items))} more", className="ov-quiet")
            )
        found.append(html.Div([html.Dt(label), html.Dd(links, className="ov-links")], className="ov-fact"))
    neighbours = opened.timeline(_rank(selection, trace)).neighbours(name, row)
    for side in ("previous", "next"):
        other = neighbours.get(side)
        text = (
            "none on this track"
            if other is None
            else _link(selection, trace, _neighbour(trace, name, side, int(other)))
        )
        found.append(html.Div([html.Dt(side), html.Dd(text)], className="ov-fact"))
    return html.Dl(found, className="ov-facts")


def _rank(selection: dict[str, Any], trace: Trace) -> int | None:
    rank = selection.get("rank")
    return trace.ranks[0] if rank is None or rank == "" else int(rank)


def _neighbour(trace: Trace, name: str, kind: str, row: int) -> Connection:
    values = trace.row(name, row)
    start, end = interval_of(values)
    return Connection(
        kind,
        name,
        row,
        str(values.get("name") or values.get("sync_kind") or row_title(name, row)),
        start,
        end,
    )


def _link(selection: dict[str, Any], trace: Trace, item: Connection) -> Component:
    href = timeline_href(
        selection["trace"],
        rank=_rank(selection, trace),
        window=around(item.start_ns, item.end_ns, trace.span_ns),
        selected=(item.table, item.row),
    )
    length = ""
    if item.end_ns > item.start_ns:
        # A number is never torn from its unit where the line is narrow.
        length = " · " + format_ns(item.end_ns - item.start_ns).replace(" ", "\u00a0")
    return goto(
        f"{item.text}{length}", href, title=f"{row_title(item.table, item.row)} at {exact_ns(item.start_ns)}"
    )


def trace_panel(
    opened: OpenedTrace,
    facts: TraceFacts,
    trace_id: str,
    rank: int | None,
    *,
    reasons: Reasons | None = None,
) -> list[Component]:
    """Return the trace in words, its streams and costliest barriers; stands where no slice is selected."""
    counts = [
        Fact(_NOUNS_OF_TABLES.get(name, name.replace("_", " ")), format_count(count))
        for name, count in facts.row_counts.items()
        if name not in {"attributes", "devices", "streams", "threads", "partitions"}
    ]
    about = [
        Fact("devices", facts.device_words),
        Fact("span", format_ns(facts.span_ns), exact_ns(facts.span_ns)),
        *counts,
    ]
    streams = _stream_table(opened, facts, trace_id, rank)
    return [
        html.Div([heading("This trace"), fact_list(about)], className="ov-panel", id="ov-summary"),
        html.Div([heading("Streams"), streams], className="ov-panel"),
        html.Div(
            [heading("How to look around"), fact_list(_keys())]
            if reasons is None
            else barrier_table(reasons, trace_id, rank),
            className="ov-panel",
        ),
    ]


def _stream_table(opened: OpenedTrace, facts: TraceFacts, trace_id: str, rank: int | None) -> Component:
    """Return the streams that have operations, each leading to its first one."""
    shown_rank = rank if rank is not None else opened.trace.ranks[0]
    found = [
        StreamFacts(**values)
        for values in opened.result(
            f"streams of rank {shown_rank}",
            _STREAMS_VERSION,
            lambda: [asdict(item) for item in stream_facts(opened.trace, shown_rank)],
        )
    ]
    if not found:
        return html.P("This trace holds no GPU work.", className="ov-quiet")
    has_devices = len({stream.device_id for stream in found}) > 1
    rows = []
    for stream in found:
        shown = around(stream.start_ns, stream.end_ns, facts.span_ns, room_fraction=0.02)
        name = "not recorded" if stream.stream_id is None else f"stream {stream.stream_id}"
        if has_devices:
            name = f"GPU {'?' if stream.device_id is None else stream.device_id} · {name}"
        href = timeline_href(trace_id, rank=rank, window=shown, selected=("ops", stream.first_op))
        times = format_ns(stream.start_ns), format_ns(stream.end_ns)
        rows.append([goto(name, href), format_count(stream.op_count), *times])
    head = ["stream", "ops", "first start", "last end"]
    return table("Streams of this trace", head, rows, numbers=(1, 2, 3), hides_caption=True)


def _keys() -> list[Fact]:
    return [
        Fact("click", "select a slice and see all that is known of it"),
        Fact("drag, wheel", "move; zoom at the mouse"),
        Fact("W S A D", "zoom in and out, move"),
        Fact("Shift + drag", "measure a range: busy, idle and overlap"),
        Fact("F, M", "fit the selection into view, mark it"),
        Fact("/ and ?", "search, and all keys"),
    ]


def range_panel(
    trace: Trace | None, marked: dict[str, Any] | None, reasons: Reasons | None = None
) -> list[Component]:
    """Return the numbers of a marked range: busy, overlap, idle by cause, and its slowest operations."""
    if trace is None or marked is None:
        hint = "Shift-drag over the timeline, drag on its ruler, or press R to measure a range."
        return [heading("Marked range"), html.P(hint, className="ov-quiet")]
    from overlane.analysis.engines import engine_report  # noqa: PLC0415 - loads compiled code

    start, end = int(marked["t0_ns"]), int(marked["t1_ns"])
    rank = _rank(marked, trace)
    devices = [x for x in engine_report(trace, window=(start, end)).to_json()["devices"] if x["rank"] == rank]
    ends = f"{exact_ns(start)} to {exact_ns(end)}"
    found: list[Component] = [heading("Marked range", note=format_ns(end - start))]
    found.append(fact_list([Fact("from → to", format_stamps(start, end), ends)]))
    idle = {} if reasons is None else idle_of_devices(reasons, start, end)
    for device, place in zip(devices, places_of(trace, marked["trace"], devices), strict=True):
        found += device_summary(device, place)
        found += idle_panel(idle.get((device["rank"], device["device_id"]), {}))
    if not devices:
        found.append(html.P("No GPU works in this range.", className="ov-quiet"))
    return found + _slowest(trace, marked, (start, end), rank)


def _slowest(
    trace: Trace, marked: dict[str, Any], window: tuple[int, int], rank: int | None
) -> list[Component]:
    """Return the longest operations that meet a range."""
    from overlane.timeline.columns import of_rank  # noqa: PLC0415 - loads compiled code

    ops = trace.table("ops")
    start, end = row_times(trace, "ops")
    inside = (start < window[1]) & (end > window[0])
    chosen = of_rank(trace, rank, ops["rank"])
    rows = np.flatnonzero(inside if chosen is None else inside & chosen)
    longest = rows[np.argsort(start[rows] - end[rows], kind="stable")[:_SLOWEST_SHOWN]]
    if not len(longest):
        return []
    body = []
    for row in longest.tolist():
        name = ops["name"][row].as_py() or row_title("ops", row)
        item = Connection("", "ops", row, name, int(start[row]), int(start[row]))
        body.append([_link(marked, trace, item), format_ns(int(end[row] - start[row]))])
    caption = f"Slowest of {format_count(len(rows))} operations"
    return [table(caption, ["operation", "time"], body, numbers=(1,))]
