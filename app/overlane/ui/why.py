"""The panel of causes: why an operation waited, what it waited for, and what waited for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dash import html
from dash.development.base_component import Component

from overlane.analysis.causes import CAUSES
from overlane.figures.units import exact_ns, format_count, format_fraction, format_ns
from overlane.ui.links import around, timeline_href
from overlane.ui.parts import extra, goto, heading, table
from overlane.ui.reasons import barriers_json, op_json
from overlane.ui.rows import interval_of, row_title

if TYPE_CHECKING:
    from overlane.trace import Trace
    from overlane.ui.reasons import Reasons

__all__ = ["barrier_table", "cause_bar", "cause_swatch", "idle_panel", "why_panel"]

_EDGES_LISTED = 6
_BARRIERS_LISTED = 12


def cause_swatch(name: str) -> Component:
    """Return a small square in the colour of a cause."""
    return html.Span(className="ov-swatch", style={"background": _colour(name)})


def cause_bar(parts: list[tuple[str, int]]) -> Component:
    """Return a bar of parts by cause, each as wide as its share.

    Args:
        parts: Name of the cause and length in ns, in the order of drawing.
    """
    titles = {cause.name: cause.title for cause in CAUSES}
    return html.Div(
        [
            html.Span(
                style={"flexGrow": str(ns), "background": _colour(name)},
                title=f"{titles[name]}: {exact_ns(ns)}",
            )
            for name, ns in parts
            if ns > 0
        ],
        className="ov-cause-bar",
        **extra(aria_hidden="true"),
    )


def _colour(name: str) -> str:
    return f"var(--ov-cause-{name.replace('_', '-')})"


def why_panel(reasons: Reasons, selection: dict[str, Any]) -> list[Component]:
    """Return why the selected operation waited, part by part with proofs, and its dependencies.

    Args:
        reasons: The causes of its trace.
        selection: `trace`, `rank` and `row` as the canvas gives them.

    Raises:
        IndexError: There is no such operation.
    """
    trace = reasons.trace
    found = op_json(reasons, int(selection["row"]))
    parts = found["parts"]
    whole = sum(part["end_ns"] - part["start_ns"] for part in parts)
    if found["issued_ns"] is None:
        sentence = (
            "This trace does not say when it was issued: no launch call and no queued stamp belong to it. "
            "Record host calls together with the device's work."
        )
        return [
            heading("Why it waited"),
            html.P(sentence, className="ov-quiet"),
            *_edges(selection, trace, found),
        ]
    shown = [heading("Why it waited", note=format_ns(whole))]
    if whole:
        shown.append(cause_bar([(part["name"], part["end_ns"] - part["start_ns"]) for part in parts]))
        shown.append(_part_table(selection, trace, parts, whole))
    else:
        shown.append(html.P("It did not wait: it started as soon as it was issued.", className="ov-quiet"))
    return [*shown, *_edges(selection, trace, found)]


def idle_panel(causes: dict[str, int]) -> list[Component]:
    """Return the idle time of a device by cause as a bar and a table; nothing where there is none.

    Args:
        causes: Name of the cause to ns, the largest first.
    """
    if not causes:
        return []
    titles = {cause.name: cause.title for cause in CAUSES}
    whole = sum(causes.values())
    rows = [
        [
            html.Span([cause_swatch(name), titles[name]]),
            html.Span(format_ns(ns), title=exact_ns(ns)),
            format_fraction(ns / whole),
        ]
        for name, ns in causes.items()
    ]
    return [
        table("Idle by cause", ["cause", "time", "share"], rows, numbers=(1, 2)),
        cause_bar(list(causes.items())),
    ]


def barrier_table(reasons: Reasons, trace_id: str, rank: int | None) -> list[Component]:
    """Return the costliest barriers, as the canvas draws them: what, its cost, and whom it held.

    Args:
        reasons: The causes of the trace.
        trace_id: Trace, for the links.
        rank: Rank, for the links.
    """
    span = reasons.trace.span_ns
    found = barriers_json(reasons, 0, max(span, 1), limit=_BARRIERS_LISTED)
    rows = []
    for barrier in found["barriers"]:
        start, end = barrier["start_ns"], barrier["end_ns"]
        href = timeline_href(
            trace_id,
            rank=rank,
            window=around(start, end, span),
            selected=(barrier["proof_table"], barrier["proof_row"]),
        )
        held = f"{_held_words(barrier)}: {', '.join(op['name'] for op in barrier['ops'])}"
        rows.append([
            goto(barrier["title"], href, title=f"{barrier['proof']} at {exact_ns(start)}"),
            html.Span(format_ns(barrier["lost_ns"]), title=exact_ns(barrier["lost_ns"])),
            html.Span(format_count(barrier["ops_held"]), title=held),
        ])  # fmt: skip
    if not rows:
        return [heading("Barriers"), html.P("Nothing held a stream of this trace.", className="ov-quiet")]
    head = ["barrier", "lost", "ops held"]
    title = heading("Barriers", note=f"{len(rows)} of {format_count(found['total'])}")
    listed = table(
        "The costliest barriers: time lost, operations held on how many streams",
        head,
        rows,
        numbers=(1, 2),
        hides_caption=True,
    )
    return [title, listed]


def _held_words(barrier: dict[str, Any]) -> str:
    ops, streams = barrier["ops_held"], barrier["streams_held"]
    return (
        f"{format_count(ops)} operation{'' if ops == 1 else 's'} on "
        f"{format_count(streams)} stream{'' if streams == 1 else 's'}"
    )


def _part_table(
    selection: dict[str, Any], trace: Trace, parts: list[dict[str, Any]], whole: int
) -> Component:
    rows = []
    for part in parts:
        length = part["end_ns"] - part["start_ns"]
        hint = f"also open: {', '.join(part['also_open'])}" if part["also_open"] else ""
        if part["is_below_fit_error"]:
            hint = " · ".join(filter(None, [hint, "below the resolution of the clocks"]))
        cause = html.Span([cause_swatch(part["name"]), part["title"]], title=hint or None)
        exact = f"{exact_ns(length)}, {format_fraction(length / whole)} of the wait"
        proof = _proof(selection, trace, part["proof_table"], part["proof_row"])
        rows.append([cause, html.Span(format_ns(length), title=exact), proof])
    return table(
        "Parts of the wait in order of time",
        ["cause", "time", "because of"],
        rows,
        numbers=(1,),
        hides_caption=True,
    )


def _proof(selection: dict[str, Any], trace: Trace, name: str | None, row: int | None) -> Component | str:
    """Return a link to the row that proves something, or what to say where there is none."""
    if name is None or row is None:
        return ""
    values = trace.row(name, row)
    words = str(values.get("name") or values.get("sync_kind") or values.get("kind") or row_title(name, row))
    start, end = interval_of(values)
    if name == "ops" and values.get("stream_id") is not None:
        words = f"{words}, stream {values['stream_id']}"
    href = timeline_href(
        selection["trace"],
        rank=selection.get("rank"),
        window=around(start, end, trace.span_ns),
        selected=(name, row),
    )
    return goto(words, href, title=f"{row_title(name, row)} at {exact_ns(start)}")


def _edges(selection: dict[str, Any], trace: Trace, found: dict[str, Any]) -> list[Component]:
    """Return the dependencies as the arrows show them."""
    shown: list[Component] = []
    for title, key in (("Waited for", "waited_for"), ("Waiting for it", "waiting")):
        count = found[f"{key}_count"]
        facts: list[Component] = [
            html.Div(
                [
                    html.Dt(
                        edge["kind"].replace("_", " ")
                        + ("" if edge["certainty"] == "certain" else ", likely")
                    ),
                    html.Dd(
                        "a host call" if edge["op"] is None else _proof(selection, trace, "ops", edge["op"])
                    ),
                ],
                className="ov-fact",
            )
            for edge in found[key][:_EDGES_LISTED]
        ]
        if count > _EDGES_LISTED:
            facts.append(html.P(f"and {format_count(count - _EDGES_LISTED)} more", className="ov-quiet"))
        shown += [heading(title, note=str(count) if count else "")]
        shown += (
            [html.Dl(facts, className="ov-facts")]
            if count
            else [html.P("no recorded operation", className="ov-quiet")]
        )
    return shown
