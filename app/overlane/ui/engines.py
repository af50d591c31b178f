"""Engine reports as elements: numbers, tables and charts of one device, each number leading to its proof."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dash import html
from dash.development.base_component import Component

from overlane.figures.overlap import busy_bars, concurrency_bars, overlap_heatmap
from overlane.figures.palette import engine_label
from overlane.figures.units import exact_ns, format_count, format_fraction, format_ns, fraction
from overlane.ui.links import around, timeline_href
from overlane.ui.parts import goto, heading, swatch, table

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from overlane.trace import Trace
    from overlane.ui.studied import Scene

__all__ = ["Place", "device_section", "device_summary", "places_of"]


@dataclass(frozen=True)
class Place:
    """Where the numbers of a report can be looked at.

    Attributes:
        trace_id: Trace.
        rank: Rank of the device.
        span_ns: Span of the trace.
        device_name: Name of the device, empty when not known.
    """

    trace_id: str
    rank: int | None
    span_ns: int
    device_name: str = ""

    def href(self, proof: Sequence[int] | None) -> str:
        """Return the address of an interval, marked in the timeline; empty where there is none.

        Args:
            proof: Start and end in ns; None or empty where what it proves is zero.
        """
        if not proof or proof[1] <= proof[0]:
            return ""
        start, end = int(proof[0]), int(proof[1])
        shown = around(start, end, self.span_ns)
        return timeline_href(self.trace_id, rank=self.rank, window=shown, marked=(start, end))

    def link(self, ns: int, proof: Sequence[int] | None, *, text: str = "", exact: str = "") -> Component:
        """Return a number as a link to the interval that proves it, which is marked there.

        Args:
            ns: The time that has the interval.
            proof: Start and end of its longest stretch; None or empty where it is zero.
            text: Words instead of the time.
            exact: What shows on hover instead of the exact time.
        """
        words, exact = text or format_ns(ns), exact or exact_ns(ns)
        href = self.href(proof)
        if not proof or not href:
            return html.Span(words, title=exact)
        return goto(words, href, title=f"{exact}; its longest stretch is {exact_ns(proof[1] - proof[0])}")


def places_of(trace: Trace, trace_id: str, devices: Sequence[dict[str, Any]]) -> list[Place]:
    """Return where the numbers of each device of a report lead to."""
    table = trace.table("devices")
    keys = zip(table["rank"].to_pylist(), table["device_id"].to_pylist(), strict=True)
    names = dict(zip(keys, table["name"].to_pylist(), strict=True))
    return [
        Place(trace_id, item["rank"], trace.span_ns, names.get((item["rank"], item["device_id"])) or "")
        for item in devices
    ]


def device_title(device: dict[str, Any], place: Place) -> str:
    """Return the words for a device of a report, with its rank and name where it has them."""
    number = "GPU not recorded" if device["device_id"] is None else f"GPU {device['device_id']}"
    rank = "" if device["rank"] is None else f"rank {device['rank']} · "
    return rank + number + (f" · {place.device_name}" if place.device_name else "")


def busy_table(device: dict[str, Any], place: Place, *, is_short: bool = False) -> Component:
    """Return the engines of a device as a table: busy time, share, operations and the sum of their durations.

    Args:
        device: A device of the report.
        place: Where the numbers lead to.
        is_short: Leave out operations and sum, for narrow panels.
    """
    window = device["window_ns"]
    rows = []
    for item in device["engines"]:
        name = html.Span([swatch(item["engine"] or "other"), engine_label(item["engine"])])
        row = [
            name,
            place.link(item["busy_ns"], item["longest_ns"]),
            format_fraction(fraction(item["busy_ns"], window)),
        ]
        if not is_short:
            # Both speak of what the engine ran, so they lead to where it was busy longest.
            busy = item["busy_ns"], item["longest_ns"]
            exact_work = f"{exact_ns(item['work_ns'])} in all, overlaps counted twice"
            row += [
                place.link(
                    *busy, text=format_count(item["op_count"]), exact=f"{item['op_count']} operations"
                ),
                place.link(*busy, text=format_ns(item["work_ns"]), exact=exact_work),
            ]
        rows.append(row)
    head = ["engine", "busy", "share", *([] if is_short else ["operations", "sum of durations"])]
    return table("Busy time of each engine", head, rows, numbers=range(1, len(head)), hides_caption=True)


def overlap_table(device: dict[str, Any], place: Place) -> Component:
    """Return every pair of engines with the time when both were busy."""
    rows = [
        [
            f"{engine_label(pair['engine_a'])} and {engine_label(pair['engine_b'])}",
            place.link(pair["overlap_ns"], pair["longest_ns"]),
            format_fraction(fraction(pair["overlap_ns"], device["window_ns"])),
        ]
        for pair in sorted(device["overlap"], key=lambda pair: -pair["overlap_ns"])
    ]
    if not rows:
        used = "Only one engine was used" if device["engines"] else "No engine was used"
        return html.P(f"{used}, so nothing can overlap.", className="ov-quiet")
    head = ["both busy", "overlap", "share"]
    return table("Overlap of each pair", head, rows, numbers=(1, 2), hides_caption=True)


def concurrency_table(device: dict[str, Any], place: Place) -> Component:
    """Return how long how many operations were open at once."""
    rows = [
        [
            str(item["level"]),
            place.link(item["ns"], item["longest_ns"]),
            format_fraction(fraction(item["ns"], device["window_ns"])),
        ]
        for item in device["concurrency"]
    ]
    head = ["open at once", "time", "share"]
    return table("Operations open at once", head, rows, numbers=(1, 2), hides_caption=True)


def headline(device: dict[str, Any], place: Place) -> Component:
    """Return the few numbers that say how well a device was used."""
    window = device["window_ns"]
    exposed = device["exposed_copy_ns"]
    figures = [
        ("window", place.link(window, device["window"]), "first start to last end"),
        (
            "busy",
            place.link(device["busy_ns"], device["busy_longest"]),
            format_fraction(fraction(device["busy_ns"], window)),
        ),
        (
            "idle",
            place.link(device["idle_ns"], device["idle_longest"]),
            format_fraction(fraction(device["idle_ns"], window)),
        ),
        ("exposed copies", place.link(exposed, device["exposed_longest"]), "copying while nothing computes"),
    ]
    return html.Dl(
        [
            html.Div([html.Dt(label), html.Dd(number), html.Dd(note, className="ov-quiet")])
            for label, number, note in figures
        ],
        className="ov-figures",
    )


def device_summary(device: dict[str, Any], place: Place) -> list[Component]:
    """Return a device in few lines, for narrow panels: busy, idle, busy per engine, overlap of each pair."""
    window = device["window_ns"]
    facts = html.Dl(
        [
            html.Div(
                [
                    html.Dt(label),
                    html.Dd([place.link(ns, proof), f" · {format_fraction(fraction(ns, window))}"]),
                ],
                className="ov-fact",
            )
            for label, ns, proof in (
                ("busy", device["busy_ns"], device["busy_longest"]),
                ("idle", device["idle_ns"], device["idle_longest"]),
            )
        ],
        className="ov-facts",
    )
    tables = [busy_table(device, place, is_short=True)] if device["engines"] else []
    return [html.H3(device_title(device, place)), facts, *tables, overlap_table(device, place)]


def _chart(scene: Scene, name: str, title: str, figure: go.Figure, numbers: Component) -> list[Component]:
    """Return a chart under its heading, with the same numbers as a table."""
    return [heading(title), scene.chart(name, figure, f"{title}, as in the table"), numbers]


def device_section(device: dict[str, Any], place: Place, scene: Scene) -> Component:
    """Return the whole report of one device: headline numbers, charts, and the same numbers as tables."""
    window, number = max(device["window_ns"], 1), f"{device['rank']} {device['device_id']}"
    busy = {item["engine"]: item["busy_ns"] for item in device["engines"]}
    bars = {item["engine"]: place.href(item["longest_ns"]) for item in device["engines"]}
    pairs = {(pair["engine_a"], pair["engine_b"]): pair["overlap_ns"] for pair in device["overlap"]}
    pairs |= {(engine, engine): ns for engine, ns in busy.items()}
    cells = {(one["engine_a"], one["engine_b"]): place.href(one["longest_ns"]) for one in device["overlap"]}
    cells |= {(engine, engine): href for engine, href in bars.items()}
    levels = {item["level"]: item["ns"] for item in device["concurrency"]}
    steps = {item["level"]: place.href(item["longest_ns"]) for item in device["concurrency"]}
    left = [
        *_chart(
            scene,
            f"busy {number}",
            "Busy time of each engine",
            busy_bars(busy, window, hrefs=bars, theme=scene.theme),
            busy_table(device, place),
        ),
        *_chart(
            scene,
            f"levels {number}",
            "Operations open at once",
            concurrency_bars(levels, hrefs=steps, theme=scene.theme),
            concurrency_table(device, place),
        ),
    ]
    matrix = overlap_heatmap(list(busy), pairs, window_ns=window, hrefs=cells, theme=scene.theme)
    right = _chart(scene, f"pairs {number}", "Both busy at once", matrix, overlap_table(device, place))
    return html.Section(
        [
            html.H2(device_title(device, place)),
            headline(device, place),
            html.Div([html.Div(block) for block in (left, right)], className="ov-charts"),
        ],
        className="ov-device",
    )
