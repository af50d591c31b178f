"""The page of waits and barriers: what held streams, why they were idle, and how long operations waited."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dash import dcc, html
from dash.development.base_component import Component

from overlane.analysis.causes import CAUSES
from overlane.analysis.rows.barriers import barrier_rows, barrier_sums
from overlane.analysis.rows.idle import idle_rows
from overlane.analysis.rows.naming import device_name, partition_name, row_name, stream_name
from overlane.analysis.rows.waits import wait_rows, wait_spreads
from overlane.figures.units import exact_ns, format_count, format_fraction, format_ns
from overlane.ui.grids import Column, column
from overlane.ui.parts import notice, table
from overlane.ui.studied import Scene, StudyPage, block, capped, filled, in_two, legend, series_colour
from overlane.ui.why import cause_swatch

if TYPE_CHECKING:
    import dash

    from overlane.analysis.study import Study
    from overlane.ui.store import TraceStore

__all__ = ["NAME", "TITLE", "layout", "register"]

NAME = "waits"
TITLE = "Waits and barriers"

_MOST_BARRIERS = 500
_MOST_STREAMS = 3
_MOST_CURVES = 10
_CAUSES = {cause.name: cause for cause in CAUSES}
_LOST = (
    "Lost is how long the held streams stood still, added up over them: three streams that are held for 1 ms "
    "lose 3 ms. A change gains less, for streams run out of work and the device may be busy meanwhile; how "
    "much at most is on the page "
)
_EARLY = (
    "From issue to start. What is issued early waits long without harm: look at what else than the order of "
    "its own stream an operation waited for."
)


def _rows(study: Study) -> dict[str, Any]:
    from overlane.analysis.proof import why_unproven  # noqa: PLC0415 - loads compiled code

    costly = int((study.barriers.lost_ns > 0).sum())
    low, high = study.critical_path.window
    return {
        "barriers": barrier_rows(study, most=min(costly, _MOST_BARRIERS)),
        "barrier_count": costly,
        "quiet_count": len(study.barriers) - costly,
        "sums": barrier_sums(study),
        "path_ns": high - low,
        "waits": wait_rows(study),
        "idle": idle_rows(study),
        "spreads": wait_spreads(study),
        "windows": {(d.rank, d.device_id): d.window_ns for d in study.engines.devices},
        "no_launches": why_unproven(study.trace, "launch_times"),
        "no_kinds": why_unproven(study.trace, "stream_kinds"),
    }


def _show(found: dict[str, Any], scene: Scene) -> list[Component]:
    missing = []
    if found["no_launches"]:
        words = f"{found['no_launches']} Record host calls together with the device's work to see waits."
        missing.append(notice("Only part of this can be told here.", words, kind="warning"))
    shown = (_barriers(found, scene), _idle(found, scene), _spreads(found, scene), _waits(found, scene))
    return [*missing, *(one for one in shown if one is not None)]


# ---- barriers


BARRIER_COLUMNS: list[Column] = [
    column("place", "#", form="count", width=56, note="by what it cost"),
    column("kind", "kind", width=152),
    column("what", "what it is", width=204, renderer="link", grows=True, note="leads to it in the timeline"),
    column("lost_ns", "lost", form="ns", width=98, note="held time of each held stream, added up"),
    column("who", "streams held", width=150, grows=True, tooltip="who_all"),
    column("op_count", "operations", form="count", width=100, note="operations held"),
    column("critical_ns", "on the path", form="ns", width=104, note="how long it held what lies on it"),
    column("critical_fraction", "of the path", form="share", width=100, note="share of the critical path"),
    column("span_ns", "span", form="ns", width=96, note="from the first held instant to the last"),
    column("start_ns", "start", form="ns", width=104, note="from the trace's origin"),
]


def _barriers(found: dict[str, Any], scene: Scene) -> Component:
    title = "Barriers by what they cost"
    if not found["barriers"]:
        quiet = found["quiet_count"]
        words = f"{format_count(quiet)} synchronizations held nothing back." if quiet else ""
        return block(title, html.P(words or "Nothing held several streams here.", className="ov-quiet"))
    rows = [
        [
            row["kind"].replace("_", " "),
            format_count(row["count"]),
            html.Span(format_ns(row["lost_ns"]), title=exact_ns(row["lost_ns"])),
            format_fraction(row["fraction"]),
            format_count(row["op_count"]),
        ]
        for row in found["sums"]
    ]
    head = ["kind", "barriers", "stream time lost", "share", "operations held"]
    sums = table("Barriers by kind", head, rows, numbers=(1, 2, 3, 4), hides_caption=True)
    lines = [
        _barrier_line(place, row, found["path_ns"], scene) for place, row in enumerate(found["barriers"])
    ]
    notes = [
        f"The {format_count(len(lines))} costliest of {format_count(found['barrier_count'])}."
        if len(lines) < found["barrier_count"]
        else "",
        f"Held nothing back: {format_count(found['quiet_count'])} further "
        f"synchronization{'' if found['quiet_count'] == 1 else 's'}."
        if found["quiet_count"]
        else "",
        f"Whether the legacy default stream held others cannot be told. {found['no_kinds']}"
        if found["no_kinds"]
        else "",
    ]
    said = " ".join(note for note in notes if note)
    meaning: list[Component | str] = [_LOST, dcc.Link("Advice", href=scene.page_href("advice")), "."]
    return block(
        title,
        html.P(meaning, className="ov-quiet"),
        html.Div(sums, className="ov-narrow"),
        filled("ov-waits-barriers", BARRIER_COLUMNS, lines, "Barriers, the costliest first"),
        html.P(said, className="ov-quiet") if said else None,
    )


def _barrier_line(place: int, row: dict[str, Any], path_ns: int, scene: Scene) -> dict[str, Any]:
    trace, named, number = scene.trace, row["proof_table"], row["proof_row"]
    names = [
        stream_name(trace, trace.row("streams", at) | {"stream_row": at})
        for at in row["stream_rows"]
        if at is not None
    ]
    more = len(row["stream_rows"]) - min(len(names), _MOST_STREAMS)
    shown = ", ".join(names[:_MOST_STREAMS])
    values = trace.row(named, number)
    said = row_name(trace, named, number) or f"{values.get('sync_kind') or named} synchronization"
    rank = values.get("rank")
    return {
        "place": place + 1,
        "kind": row["kind"].replace("_", " "),
        "what": f"{said} ({number})",
        "lost_ns": row["lost_ns"],
        "who": f"{shown} and {more} more" if more and shown else shown or f"{more} streams",
        "who_all": ", ".join(names[:40]),
        "op_count": len(row["ops_held"]),
        "critical_ns": row["critical_ns"],
        "critical_fraction": row["critical_ns"] / path_ns
        if path_ns and row["critical_ns"] is not None
        else None,
        "span_ns": row["end_ns"] - row["start_ns"],
        "start_ns": row["start_ns"],
        "href": scene.href(
            row["start_ns"], row["end_ns"], rank=rank, selected=(named, number), is_marked=True
        ),
    }


# ---- idle


def _idle(found: dict[str, Any], scene: Scene) -> Component:
    from overlane.figures.causes import Piece, Stack, idle_bars  # noqa: PLC0415 - loads Plotly

    rows = [row for row in found["idle"] if row["idle_ns"]]
    title = "Idle time by cause"
    if not rows:
        return block(title, html.P("Nothing idled here.", className="ov-quiet"))
    # Where a device has one partition, its rows would say the same twice.
    if len({row["partition_id"] for row in rows if row["scope"] == "partition"}) < 2:
        rows = [row for row in rows if row["scope"] != "partition"]
    shown, more = capped(rows, most=24)
    stacks = [
        Stack(
            _who(row, scene),
            found["windows"].get((row["rank"], row["device_id"]), 0),
            tuple(
                Piece(cause, ns, _longest_href(row["longest"][cause], row["rank"], scene))
                for cause, ns in row["causes"].items()
            ),
        )
        for row in shown
    ]
    lines = [line for row in rows for line in _idle_lines(row, found["windows"], scene)]
    few, left = capped(lines)
    head = ["", "cause", "idle", "of window", "host was in", "longest"]
    numbers = table("Idle time by cause", head, few, numbers=(2, 3, 5), hides_caption=True)
    sums: dict[str, int] = {}
    for row in shown:
        for cause, ns in row["causes"].items():
            sums[cause] = sums.get(cause, 0) + ns
    colours = legend(
        (f"var(--ov-cause-{cause.replace('_', '-')})", _CAUSES[cause].title)
        for cause in sorted(sums, key=lambda one: -sums[one])
    )
    chart = scene.chart("idle", idle_bars(stacks, theme=scene.theme), "Idle time by cause, as in the table")
    return block(
        title,
        in_two([colours, chart, *more], [numbers, *left]),
        note="as a share of the window; a click on a bar leads to the longest stretch",
    )


def _idle_lines(row: dict[str, Any], windows: dict[Any, int], scene: Scene) -> list[Sequence[Any]]:
    window = windows.get((row["rank"], row["device_id"]), 0)
    found: list[Sequence[Any]] = []
    for number, (cause, ns) in enumerate(row["causes"].items()):
        longest = row["longest"][cause]
        found.append(
            [
                "" if number else _who(row, scene),
                _cause(cause),
                html.Span(
                    format_ns(ns),
                    title=f"{exact_ns(ns)}, {format_fraction(ns / row['idle_ns'])} of its idle time",
                ),
                format_fraction(ns / window if window else None),
                _host(longest, scene),
                _longest_link(longest, row["rank"], scene),
            ]
        )
    return found


def _who(row: dict[str, Any], scene: Scene) -> str:
    if row["scope"] == "device":
        return f"device {device_name(row)}"
    if row["scope"] == "partition":
        return f"partition {partition_name(scene.trace, row['partition_id'])}"
    return stream_name(scene.trace, row)


def _cause(name: str) -> Component:
    words: list[Component | str] = [cause_swatch(name), _CAUSES[name].title]
    return html.Span(words, title=_CAUSES[name].sentence, className="ov-nowrap")


def _host(longest: dict[str, Any], scene: Scene) -> Component | str:
    """Return in which call or range the host was."""
    links: list[Any] = []
    for named, key in (("api_calls", "call_id"), ("ranges", "range_id")):
        if longest[key] is not None:
            links += [" in "] if links else []
            links.append(
                scene.row_link(row_name(scene.trace, named, longest[key], 30) or "?", named, longest[key])
            )
    return html.Span(links) if links else ""


def _selected(longest: dict[str, Any]) -> tuple[str, int] | None:
    return ("ops", longest["op_id"]) if longest["op_id"] is not None else None


def _longest_href(longest: dict[str, Any], rank: int | None, scene: Scene) -> str:
    return scene.href(
        longest["start_ns"], longest["end_ns"], rank=rank, selected=_selected(longest), is_marked=True
    )


def _longest_link(longest: dict[str, Any], rank: int | None, scene: Scene) -> Component:
    where = {"rank": rank, "selected": _selected(longest), "is_marked": True}
    return scene.span_link(longest["start_ns"], longest["end_ns"], **where)


# ---- distributions and causes of waits


def _spreads(found: dict[str, Any], scene: Scene) -> Component | None:
    from overlane.figures.spreads import TICKS, Curve, percentile_curves, percentile_name  # noqa: PLC0415

    title = "How long operations waited, from issue to start"
    rows = found["spreads"]
    if len({row["partition_id"] for row in rows if row["scope"] == "partition"}) < 2:
        rows = [row for row in rows if row["scope"] != "partition"]
    if not rows:
        words = found["no_launches"] or "No operation that starts here says when it was issued."
        return block(title, html.P(words, className="ov-quiet"))
    curves, lines = [], []
    for row in rows:
        points = tuple(
            (point["fraction"], point["ns"], scene.row_href("ops", point["op_id"]))
            for point in row["quantiles"]
        )
        curves.append(Curve(_who(row, scene), points))
        shown = [point for point in row["quantiles"] if point["fraction"] in TICKS]
        lines.append(
            [
                curves[-1].label,
                format_count(row["op_count"]),
                *(scene.row_link(format_ns(point["ns"]), "ops", point["op_id"]) for point in shown),
            ]
        )
    few, left = capped(lines)
    head = ["", "operations", *(percentile_name(fraction) for fraction in TICKS)]
    numbers = table("Waits by percentile", head, few, numbers=range(1, len(head)), hides_caption=True)
    more = len(curves) - _MOST_CURVES
    said = [html.P(f"The {_MOST_CURVES} with the longest waits are drawn.", className="ov-quiet")]
    colours = legend((series_colour(at), curve.label) for at, curve in enumerate(curves[:_MOST_CURVES]))
    chart = scene.chart(
        "spreads",
        percentile_curves(curves[:_MOST_CURVES], theme=scene.theme),
        "Waits by percentile, as in the table",
    )
    return block(
        title,
        in_two([colours, chart, *(said if more > 0 else [])], [numbers, *left]),
        note="each number leads to an operation that waited so long",
    )


def _waits(found: dict[str, Any], scene: Scene) -> Component | None:
    total = sum(row["total_ns"] for row in found["waits"])
    if not total:
        return None
    lines = [
        [
            stream_name(scene.trace, row),
            _cause(row["cause"]),
            html.Span(format_ns(row["total_ns"]), title=exact_ns(row["total_ns"])),
            format_fraction(row["total_ns"] / total),
            format_count(row["op_count"]),
            format_ns(row["p50_ns"]),
            format_ns(row["p99_ns"]),
            scene.row_link(format_ns(row["max_ns"]), "ops", row["max_op_id"]),
            _longest_link(row["longest"], row["rank"], scene),
        ]
        for row in found["waits"]
    ]
    few, left = capped(lines)
    head = ["stream", "cause", "waited", "of all", "operations", "P50", "P99", "longest", "longest part"]
    below = sum(row["below_fit_error_ns"] for row in found["waits"])
    said = (
        f" {format_ns(below)} of it compares two clocks closer than they are known to agree." if below else ""
    )
    return block(
        "Waits by stream and cause",
        html.P(_EARLY + said, className="ov-quiet"),
        table("Waits by stream and cause", head, few, numbers=range(2, 9), hides_caption=True),
        *left,
    )


_PAGE = StudyPage(
    NAME,
    TITLE,
    "What held several streams and what it cost, why devices and streams were idle, and how long operations "
    "waited after they were issued.",
    _rows,
    _show,
    "Finding why everything waited …",
)


def layout() -> Component:
    """Return the static elements of the page."""
    return _PAGE.layout()


def register(app: dash.Dash, store: TraceStore) -> None:
    """Attach the page's callbacks to an app."""
    _PAGE.register(app, store)
