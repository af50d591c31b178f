"""The page of partitions: what each was given and did, and how well critical streams are kept apart."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from dash import html
from dash.development.base_component import Component

from overlane.analysis.rows.naming import cut, partition_name, stream_name
from overlane.analysis.rows.partitions import isolation_rows, partition_rows, unproven_of_partitions
from overlane.figures.units import exact_ns, format_count, format_fraction, format_ns
from overlane.ui.parts import heading, notice, table
from overlane.ui.studied import Scene, StudyPage, block, capped, in_two, legend, series_colour

if TYPE_CHECKING:
    import dash

    from overlane.analysis.study import Study
    from overlane.figures.spreads import Curve
    from overlane.figures.strips import Strip
    from overlane.ui.store import TraceStore

__all__ = ["NAME", "TITLE", "layout", "number_ranges", "register"]

NAME = "partitions"
TITLE = "Partitions"

_SMS_PER_TPC = 2
_MOST_CURVES = 10
_PLACES = {
    "alone": "alone on the device",
    "beside": "beside kernels of others",
    "elsewhere": "same kernel on other streams",
}
_QUANTILES = ((0.5, "p50_ns"), (0.9, "p90_ns"), (0.99, "p99_ns"), (0.999, "p999_ns"), (1.0, "max_ns"))
_KINDS = {
    "shared_sms": "others on its SMs",
    "exclusive_sms_used": "others on its SMs, though declared exclusive",
    "outside_its_sms": "its blocks on more SMs than it was granted",
    "either_outside": "blocks of two partitions with different SMs met on one",
}


def _rows(study: Study) -> dict[str, Any]:
    return {
        "partitions": partition_rows(study),
        "isolation": isolation_rows(study),
        "unproven": unproven_of_partitions(study),
        "devices": study.trace.table("devices").to_pylist(),
    }


def _show(found: dict[str, Any], scene: Scene) -> list[Component]:
    rows = found["partitions"]
    if not rows:
        reason = " ".join(item["reason"] for item in found["unproven"])
        how = "Record with overlane record or overlane run, which ask each context for its SMs."
        return [notice("No partition is known.", f"{reason} {how}", kind="warning")]
    devices = dict.fromkeys((row["rank"], row["device_id"]) for row in rows)
    shown: list[Component] = []
    for device in devices:
        mine = [row for row in rows if (row["rank"], row["device_id"]) == device]
        shown.append(_device(device, mine, _sm_count(found["devices"], device), scene))
    return [*shown, *_isolation(found, scene), *_unproven(found)]


def _sm_count(devices: Iterable[dict[str, Any]], device: tuple[int | None, int | None]) -> int | None:
    known = {(row["rank"], row["device_id"]): row["sm_count"] for row in devices}
    return known.get(device) or known.get((None, device[1]))


def _device(
    device: tuple[int | None, int | None], rows: list[dict[str, Any]], sm_count: int | None, scene: Scene
) -> Component:
    rank, number = device
    title = ("" if rank is None else f"rank {rank} · ") + (
        "GPU not recorded" if number is None else f"GPU {number}"
    )
    note = "" if sm_count is None else f"{sm_count} SMs"
    return block(
        title,
        in_two(_charts(rows, sm_count, scene), [_use_table(rows, scene), *_facts(rows, scene)]),
        *_foreign(rows, scene),
        note=note,
    )


def _name(row: dict[str, Any], scene: Scene) -> str:
    return partition_name(scene.trace, row["partition_id"])


def _use_table(rows: list[dict[str, Any]], scene: Scene) -> Component:
    lines = [
        [
            _name(row, scene),
            _count(row["sm_requested"]),
            _count(row["sm_granted"]),
            _seen(row),
            format_count(row["op_count"]),
            html.Span(format_ns(row["busy_ns"]), title=exact_ns(row["busy_ns"])),
            format_fraction(row["busy_ns"] / row["window_ns"] if row["window_ns"] else None),
            _beside(row),
        ]
        for row in rows
    ]
    head = [
        "partition",
        "SMs asked",
        "granted",
        "seen on",
        "operations",
        "busy",
        "of window",
        "others beside",
    ]
    return table("SMs and use of each partition", head, lines, numbers=range(1, 8), hides_caption=True)


def _count(value: int | None) -> str:
    return "–" if value is None else str(value)


def _seen(row: dict[str, Any]) -> Component | str:
    if not row["sm_ids"]:
        return "not known"
    return html.Span(
        str(len(row["sm_ids"])),
        title=f"SMs {number_ranges(row['sm_ids'])}; blocks of {row['placed_count']} of its "
        f"{row['kernel_count']} kernels were recorded",
    )


def _beside(row: dict[str, Any]) -> Component | str:
    if not row["is_green"] or not row["compute_ns"]:
        return "–"
    share = format_fraction(row["beside_ns"] / row["compute_ns"])
    words = f"{exact_ns(row['beside_ns'])} of its compute time kernels ran that may use its SMs too"
    return html.Span(share, title=words)


def _facts(rows: list[dict[str, Any]], scene: Scene) -> list[Component]:
    """Return what is known of masks, workqueues and channels, a line each."""
    lines: list[list[str]] = []
    for row in rows:
        name = _name(row, scene)
        if row["tpc_mask"]:
            units = number_ranges(_bits(row["tpc_mask"]))
            lines.append([name, "TPCs granted (logical numbers)", units])
        if row["sm_ids"]:
            lines.append([name, "SMs on which its blocks were seen", number_ranges(row["sm_ids"])])
        if row["workqueue_resource_id"] is not None:
            limit = "" if row["workqueue_limit"] is None else f", at most {row['workqueue_limit']} at once"
            scope = f", scope {row['workqueue_scope']}" if row["workqueue_scope"] else ""
            lines.append([name, "workqueue", f"{row['workqueue_resource_id']}{scope}{limit}"])
        if row["shared_channels"]:
            words = f"{number_ranges(row['shared_channels'])}: work of both can wait for one another there"
            lines.append([name, "hardware queues shared with another partition", words])
        lines += [
            [
                name,
                f"busy together with {partition_name(scene.trace, other['partition_id'])}",
                f"{format_ns(other['overlap_ns'])}, {format_ns(other['compute_ns'])} of it both computing",
            ]
            for other in row["overlap"]
            if other["overlap_ns"]
        ]
    few, left = capped(lines)
    return (
        [heading("Layout"), table("Layout", ["partition", "what", "which"], few, hides_caption=True), *left]
        if few
        else []
    )


def _charts(rows: list[dict[str, Any]], sm_count: int | None, scene: Scene) -> list[Component]:
    from overlane.figures.strips import Granted, Strip, granted_bars, unit_strips  # noqa: PLC0415

    key = f"{rows[0]['rank']} {rows[0]['device_id']}"
    counts = [Granted(_name(row, scene), row["sm_requested"], row["sm_granted"]) for row in rows]
    found = [
        heading("SMs granted", note="the mark is what was asked for"),
        scene.chart(f"granted {key}", granted_bars(counts, sm_count, theme=scene.theme), "SMs granted"),
    ]
    masks = [
        Strip(_name(row, scene), at, _bits(row["tpc_mask"])) for at, row in enumerate(rows) if row["tpc_mask"]
    ]
    if masks and sm_count:
        tpcs = max(sm_count // _SMS_PER_TPC, 1 + max(max(strip.units, default=0) for strip in masks))
        figure = unit_strips(masks, tpcs, "TPC", theme=scene.theme)
        found += [
            heading("TPCs granted", note="logical numbers; they say nothing about the numbers of SMs"),
            scene.chart(f"tpcs {key}", figure, "TPCs granted to each partition"),
        ]
    seen = [
        Strip(_name(row, scene), at, row["sm_ids"], _foreign_sms(row))
        for at, row in enumerate(rows)
        if row["sm_ids"] and (row["is_green"] or len(rows) == 1)
    ]
    if seen:
        count = max(sm_count or 0, 1 + max(max(strip.units) for strip in seen))
        figure = unit_strips(seen, count, "SM", theme=scene.theme)
        found += [
            heading("SMs on which its blocks were seen", note=_foreign_note(seen)),
            scene.chart(f"sms {key}", figure, "SMs on which blocks of each partition were seen"),
        ]
    return found


def _foreign_note(strips: list[Strip]) -> str:
    return "red: others were there too" if any(strip.foreign for strip in strips) else ""


def _foreign_sms(row: dict[str, Any]) -> set[int]:
    return {sm for one in (*row["shared_sms"], *row["leaks"]) for sm in one["sm_ids"]}


def _bits(mask: str) -> list[int]:
    value = int(mask, 16)
    return [bit for bit in range(value.bit_length()) if value >> bit & 1]


def number_ranges(numbers: Iterable[int]) -> str:
    """Write whole numbers with runs drawn together.

    Example:
        >>> number_ranges([0, 1, 2, 5, 7, 8])
        '0–2, 5, 7–8'
    """
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(low) if low == high else f"{low}–{high}" for low, high in runs)


def _foreign(rows: list[dict[str, Any]], scene: Scene) -> list[Component]:
    """Return the proven leaks and shared SMs of a device."""
    lines = []
    for row in rows:
        for word, key in (("leak", "leaks"), ("shared SMs", "shared_sms")):
            for one in row[key]:
                other = one["other_partition_id"]
                where = {
                    "rank": row["rank"],
                    "selected": ("ops", one["op_ids"][0]) if one["op_ids"] else None,
                    "is_marked": True,
                }
                lines.append(
                    [
                        _name(row, scene),
                        word,
                        _KINDS.get(one["kind"], one["kind"]),
                        "–" if other is None else partition_name(scene.trace, other),
                        html.Span(_count(one["sm_count"]), title=f"SMs {number_ranges(one['sm_ids'])}"),
                        format_count(one["block_count"]),
                        format_ns(one["occupied_ns"]),
                        scene.span_link(one["start_ns"], one["end_ns"], **where),
                    ]
                )
    if not lines:
        return []
    few, left = capped(lines)
    head = ["partition", "", "what", "other", "SMs", "blocks", "occupied", "seen within"]
    shown = table("Leaks and shared SMs", head, few, numbers=(4, 5, 6, 7), hides_caption=True)
    return [heading("Leaks and shared SMs", note="proven by where thread blocks ran"), shown, *left]


def _isolation(found: dict[str, Any], scene: Scene) -> list[Component]:
    """Return how the kernels of critical streams waited for room."""
    from overlane.figures.spreads import percentile_curves  # noqa: PLC0415 - loads Plotly

    title = "Isolation of critical streams"
    against = "/compare?" + urlencode({"base": scene.trace_id, "trace": scene.trace_id})
    link = html.A("compare page", href=against)
    words = "Recordings of the same work in other modes are held against this one on the "
    others = html.P([words, link, "."], className="ov-quiet")
    curves, lines = _isolation_lines(found, scene)
    if not lines:
        words = (
            "No stream is known to be critical: none belongs to a green context, and none that ran kernels "
            "has a more urgent priority than another."
        )
        return [block(title, html.P(words, className="ov-quiet"), others)]
    few, left = capped(lines)
    head = ["stream", "kernel", "waited for room", "kernels", "P50", "P90", "P99", "P99.9", "longest"]
    figure = percentile_curves(curves[:_MOST_CURVES], theme=scene.theme)
    chart = scene.chart("isolation", figure, "Waits for room by percentile, as in the table")
    numbers = table("Waits of critical streams for room", head, few, numbers=range(3, 9), hides_caption=True)
    colours = legend((series_colour(at), curve.label) for at, curve in enumerate(curves[:_MOST_CURVES]))
    return [
        block(
            title,
            in_two([colours, chart], [numbers, *left, others]),
            note="from the end of everything that a kernel depends on to its start",
        )
    ]


def _isolation_lines(found: dict[str, Any], scene: Scene) -> tuple[list[Curve], list[list[Any]]]:
    """Return a curve and a line of the table for each kernel of a critical stream and each place."""
    from overlane.figures.spreads import Curve  # noqa: PLC0415 - loads Plotly

    curves, lines = [], []
    for row in found["isolation"]:
        who = stream_name(scene.trace, row)
        for place, words in _PLACES.items():
            spread = row[place]
            if spread is None:
                continue
            longest = scene.row_href("ops", spread["max_op_id"])
            points = tuple((share, spread[key], longest if share == 1 else "") for share, key in _QUANTILES)
            curves.append(Curve(f"{who} · {cut(row['kernel'], 24)}, {place}", points))
            lines.append(
                [
                    who,
                    html.Span(cut(row["kernel"], 28), title=row["kernel"]),
                    words,
                    format_count(spread["count"]),
                    *(format_ns(spread[key]) for _, key in _QUANTILES[:-1]),
                    scene.row_link(format_ns(spread["max_ns"]), "ops", spread["max_op_id"]),
                ]
            )
    return curves, lines


def _unproven(found: dict[str, Any]) -> list[Component]:
    if not found["unproven"]:
        return []
    lines = [[item["capability"].replace("_", " "), item["reason"]] for item in found["unproven"]]
    shown = table("What cannot be proven here", ["capability", "why not"], lines, hides_caption=True)
    return [block("What cannot be proven here", shown)]


_PAGE = StudyPage(
    NAME,
    TITLE,
    "What each partition of the SMs was given and did, who else was on its SMs, and how long critical "
    "kernels waited for room.",
    _rows,
    _show,
    "Measuring the partitions …",
)


def layout() -> Component:
    """Return the static elements of the page."""
    return _PAGE.layout()


def register(app: dash.Dash, store: TraceStore) -> None:
    """Attach the page's callbacks to an app."""
    _PAGE.register(app, store)
