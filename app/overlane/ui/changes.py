"""Comparisons as rows and columns of grids, and their verdicts in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dash import html
from dash.development.base_component import Component

from overlane.figures.palette import engine_label
from overlane.figures.units import format_measure, format_ns
from overlane.ui.grids import Column, column, together
from overlane.ui.links import around, timeline_href

if TYPE_CHECKING:
    from overlane.trace import Trace

__all__ = [
    "METRIC_COLUMNS",
    "OPERATION_COLUMNS",
    "Rows",
    "change_rows",
    "metric_columns",
    "operation_columns",
    "summary",
    "verdict_chip",
]

_MINUS = "\u2212"
_TONES = {"faster": "ok", "slower": "bad", "not comparable": "warn"}
_WORDS = {
    "window_ns": "window",
    "busy_ns": "busy",
    "idle_ns": "idle",
    "idle_fraction": "idle, share of the window",
    "engine_busy_ns": "busy",
    "overlap_ns": "overlap",
    "exposed_copy_ns": "exposed copies",
    "idle_cause_ns": "idle by cause",
    "barrier_lost_ns": "lost to barriers",
    "wait_p50_ns": "wait, median",
    "wait_p90_ns": "wait, 90th percentile",
    "wait_p99_ns": "wait, 99th percentile",
    "wait_max_ns": "wait, longest",
    "wait_room_p50_ns": "wait for room, median",
    "wait_room_p90_ns": "wait for room, 90th percentile",
    "wait_room_p99_ns": "wait for room, 99th percentile",
    "wait_room_max_ns": "wait for room, longest",
}


@dataclass(frozen=True)
class Rows:
    """Rows of both grids.

    Attributes:
        metrics: One per number of a device.
        operations: One per matched, appeared or vanished group.
    """

    metrics: list[dict[str, Any]]
    operations: list[dict[str, Any]]


def metric_columns(names: Sequence[str], found: dict[str, Any]) -> list[Column]:
    """Return the columns of the metrics: the baseline, then value, change and verdict of each run.

    Args:
        names: Name of each side, the baseline first.
        found: One of the comparisons, as JSON.
    """
    each = f"change of each {found['step']}" if found["metric_basis"] == "steps" else "interval of the change"
    columns = [
        column("what", "number", width=230, grows=True, renderer="link"),
        together(names[0], [column("baseline", "baseline", width=132)]),
    ]
    for place, name in enumerate(names[1:]):
        parts = [
            column(f"candidate_{place}", "value", width=104),
            column(f"ratio_{place}", "change", form="ratio", width=88, note=f"{name} against the baseline"),
            _verdict_column(place),
            column(f"interval_{place}", each, width=190, note="interval of the change of one repeat"),
        ]
        columns.append(together(name, parts))
    return columns


def operation_columns(names: Sequence[str]) -> list[Column]:
    """Return the columns of the operations: the baseline, then verdict, times and counts of each run.

    Args:
        names: Name of each side, the baseline first.
    """
    baseline = [
        column("baseline_count", "count", form="count", width=72),
        column("baseline_median_ns", "median", form="ns", width=92),
        column("baseline_work_ns", "total", form="ns", width=92, note="durations added up", sort="desc"),
    ]
    columns = [
        column("name", "operation", width=210, grows=True, renderer="link"),
        column("stream_role", "stream role", width=122),
        together(names[0], baseline),
    ]
    for place, name in enumerate(names[1:]):
        parts = [
            column(f"median_ns_{place}", "median", form="ns", width=92),
            column(
                f"ratio_{place}",
                "each takes",
                form="ratio",
                width=90,
                note="ratio of typical durations, as a change",
            ),
            _verdict_column(place),
            column(f"interval_{place}", "interval", form="interval", width=172, note="of that ratio"),
            column(f"count_{place}", "count", form="count", width=72),
            column(
                f"pairs_{place}",
                "paired",
                form="count",
                width=76,
                note="operations that have their partner in the baseline, by launch order and dependency",
            ),
            column(f"difference_ns_{place}", "total changed", form="change", width=106),
        ]
        columns.append(together(name, parts))
    return columns


def _verdict_column(place: int) -> Column:
    return column(f"verdict_{place}", "verdict", width=196, renderer="verdict", tooltip=f"reason_{place}")


METRIC_COLUMNS = metric_columns(["baseline", "compared"], {"step": "", "metric_basis": "captures"})
OPERATION_COLUMNS = operation_columns(["baseline", "compared"])


def change_rows(found: Sequence[dict[str, Any]], sides: Sequence[tuple[str, Trace]]) -> Rows:
    """Return the rows of both grids.

    Args:
        found: Comparison of each run with the baseline, as JSON.
        sides: Id and first capture of each side, the baseline first.
    """
    metrics: dict[tuple[Any, ...], dict[str, Any]] = {}
    key: tuple[Any, ...]
    operations: dict[tuple[Any, ...], dict[str, Any]] = {}
    for place, one in enumerate(found):
        for change in one["metrics"]:
            key = (change["device"], change["metric"], change["of"])
            metrics.setdefault(key, _metric_row(change, sides)).update(_metric_part(change, place))
        for word in ("", "appeared", "vanished"):
            for change in one[word or "operations"]:
                key = (change["device"], change["stream_role"], change["kind"], change["name"])
                row = operations.setdefault(key, _operation_row(change, sides, place))
                row.update(_operation_part(change, place, word))
    return Rows(list(metrics.values()), list(operations.values()))


def _metric_row(change: dict[str, Any], sides: Sequence[tuple[str, Trace]]) -> dict[str, Any]:
    trace_id, trace = sides[0]
    of = " and ".join(engine_label(part) for part in change["of"].split("+")) if change["of"] else ""
    words = _WORDS.get(change["metric"], change["metric"])
    proof = change["baseline_proof"]
    href = ""
    if proof:
        shown = around(proof[0], proof[1], trace.span_ns)
        href = timeline_href(trace_id, window=shown, marked=(proof[0], proof[1]), other_id=sides[1][0])
    return {
        "what": f"GPU {change['device']} · {words}" + (f" · {of}" if of else ""),
        "baseline": format_measure(change["metric"], change["baseline"]),
        "href": href,
    }


def _metric_part(change: dict[str, Any], place: int) -> dict[str, Any]:
    judgement = change["judgement"]
    interval = ""
    if judgement and change["verdict"]["word"] != "not comparable":
        ends = (judgement["low"], judgement["high"])
        interval = " … ".join(_signed(change["metric"], end) for end in ends)
    return {
        f"candidate_{place}": format_measure(change["metric"], change["candidate"]),
        f"ratio_{place}": change["ratio"],
        f"interval_{place}": interval,
        f"verdict_{place}": change["verdict"]["word"],
        f"reason_{place}": change["verdict"]["reason"],
    }


def _signed(metric: str, value: float) -> str:
    if metric.endswith("_fraction"):
        return f"{100 * value:+.1f} points".replace("-", _MINUS)
    text = format_ns(round(value)).replace("-", _MINUS)
    return text if value <= 0 else f"+{text}"


def _operation_row(change: dict[str, Any], sides: Sequence[tuple[str, Trace]], place: int) -> dict[str, Any]:
    is_new = change["baseline_op"] is None
    op = change["candidate_op"] if is_new else change["baseline_op"]
    trace_id, trace = sides[place + 1 if is_new else 0]
    href = ""
    if op is not None:
        row = trace.row("ops", op)
        end = row["end_ns"] if row["end_ns"] is not None else trace.span_ns
        shown = around(row["start_ns"], end, trace.span_ns)
        href = timeline_href(trace_id, rank=row["rank"], window=shown, selected=("ops", op))
    names = ("name", "stream_role", "baseline_count", "baseline_median_ns", "baseline_work_ns")
    return {**{name: change[name] for name in names}, "href": href}


def _operation_part(change: dict[str, Any], place: int, word: str) -> dict[str, Any]:
    judgement = change["judgement"]
    return {
        f"count_{place}": change["candidate_count"],
        f"median_ns_{place}": change["candidate_median_ns"],
        f"difference_ns_{place}": change["difference_ns"],
        f"ratio_{place}": judgement["change"] if judgement else None,
        f"interval_{place}": [judgement["low"], judgement["high"]] if judgement else None,
        f"pairs_{place}": change["pair_count"],
        f"verdict_{place}": word or change["verdict"]["word"],
        f"reason_{place}": f"Only one side has it: it {word}." if word else _operation_reason(change),
    }


def _operation_reason(change: dict[str, Any]) -> str:
    """Return the reason of a verdict, with what the pairs say."""
    words = [change["verdict"]["reason"]]
    if change["basis"] == "pairs":
        words.append(
            f"It rests on {change['pair_count']} pairs, {change['same_dependency_count']} of them after the "
            "same operation."
        )
    for side, word in (("candidate", "appeared"), ("baseline", "vanished")):
        alone = change[f"{side}_count"] - change["pair_count"]
        if alone > 0:
            words.append(f"{alone} of {change[f'{side}_count']} {word}: without a partner.")
    return " ".join(words)


def summary(found: Sequence[dict[str, Any]], names: Sequence[str], narrowed: str = "") -> Component:
    """Return the verdict on each run with its reasons, what differs, and what the intervals rest on.

    Args:
        found: Comparison of each run with the baseline, as JSON.
        names: Name of each side, the baseline first.
        narrowed: What of the captures is compared, in words; empty for all.
    """
    cards = [_verdict(one, names[place + 1], names[0]) for place, one in enumerate(found)]
    bases = dict.fromkeys(f"{narrowed} {one['basis']}".strip().replace("`", "") for one in found)
    return html.Div(
        [*cards, *(html.P(basis, className="ov-quiet") for basis in bases)], className="ov-cmp-verdicts"
    )


def verdict_chip(verdict: dict[str, Any]) -> Component:
    """Return a verdict as a chip; its reason shows when it is pointed at."""
    tone = _TONES.get(verdict["word"], "none")
    return html.Span(verdict["word"], className=f"ov-chip ov-verdict ov-chip-{tone}", title=verdict["reason"])


def _verdict(one: dict[str, Any], name: str, baseline: str) -> Component:
    word = one["verdict"]
    whole = next((change for change in one["metrics"] if change["metric"] == "window_ns"), None)
    lines: list[Any] = [
        html.Div(
            [
                html.Span(word, className=f"ov-chip ov-verdict ov-chip-{_TONES.get(word, 'none')}"),
                html.Strong(f"{name} against {baseline}"),
                html.Span(_took(whole), className="ov-quiet"),
            ],
            className="ov-cmp-verdict",
        )
    ]
    reasons = [reason["sentence"] for reason in one["reasons"]]
    if whole is not None and not reasons:
        reasons = [whole["verdict"]["reason"].replace("`", "")]
    if one["parameters"]:
        changed = ", ".join(f"{p['name']} {p['baseline']} → {p['candidate']}" for p in one["parameters"])
        reasons.append(f"The workloads differ in {changed}.")
    reasons.append(_counted(one))
    lines.append(html.P(" ".join(sentence for sentence in reasons if sentence)))
    return html.Section(lines, className="ov-card ov-cmp-card")


def _took(whole: dict[str, Any] | None) -> str:
    if whole is None:
        return ""
    words = " → ".join(format_measure("window_ns", whole[side]) for side in ("baseline", "candidate"))
    judgement = whole["judgement"]
    if judgement and judgement["baseline"]:
        change, low, high = (
            f"{100 * judgement[end] / judgement['baseline']:+.1f} %".replace("-", _MINUS)
            for end in ("change", "low", "high")
        )
        words += f" · each repeat {change} ({low} … {high})"
    return words


def _counted(one: dict[str, Any]) -> str:
    words = [change["verdict"]["word"] for change in one["operations"]]
    parts = [f"{words.count(word)} {word}" for word in ("faster", "slower") if word in words]
    parts += [f"{len(one[word])} {word}" for word in ("appeared", "vanished") if one[word]]
    return f"Of {len(words)} matched kinds of operations: {', '.join(parts)}." if parts else ""
