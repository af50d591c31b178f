"""The page of advice: what to change first, with its cost, its proof and the rule's source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dash import html
from dash.development.base_component import Component

from overlane.analysis.rows.advice import advice_counts, advice_rows
from overlane.figures.units import exact_ns, format_count, format_fraction, format_ns
from overlane.ui.parts import table
from overlane.ui.studied import Scene, StudyPage, block, capped

if TYPE_CHECKING:
    import dash

    from overlane.analysis.study import Study
    from overlane.ui.store import TraceStore

__all__ = ["NAME", "TITLE", "layout", "register"]

NAME = "advice"
TITLE = "Advice"

_MOST_FINDINGS = 25
_MOST_ROWS = 6


def _rows(study: Study) -> dict[str, Any]:
    return {
        "findings": advice_rows(study),
        **advice_counts(study),
        "window_ns": sum(device.window_ns for device in study.engines.devices),
    }


def _show(found: dict[str, Any], scene: Scene) -> list[Component]:
    findings, left = capped(found["findings"], most=_MOST_FINDINGS)
    cards = [_card(number, row, found["window_ns"], scene) for number, row in enumerate(findings, 1)]
    if not cards:
        checked = len(found["advice_checked"])
        words = f"None of the {checked} rules that could be checked found anything worth a change."
        cards = [html.P(words, className="ov-quiet")]
    small = found["advice_left_out"]
    if small:
        words = f"{small} further findings cost less than 0.1 % of the window and are left out."
        left = [*left, html.P(words, className="ov-quiet")]
    return [html.Div([*cards, *left], className="ov-advice"), *_not_checked(found), *_checked(found)]


def _card(number: int, row: dict[str, Any], window_ns: int, scene: Scene) -> Component:
    return html.Article(
        [
            html.Div(
                [
                    html.H2([html.Span(str(number), className="ov-rank"), row["title"]]),
                    *_cost(row, window_ns),
                ],
                className="ov-advice-head",
            ),
            html.P(row["finding"]),
            html.P([html.Strong("Change: "), row["change"]]),
            html.P(["Rule: ", row["source"]], className="ov-quiet"),
            html.Dl(
                [_evidence(item, scene) for item in row["evidence"]], className="ov-facts ov-advice-proof"
            ),
        ],
        className="ov-card",
    )


def _cost(row: dict[str, Any], window_ns: int) -> list[Component]:
    """Return what a finding costs as a number, a share and a bar."""
    if row["is_about_results"]:
        return [html.Span("results or measurements may be wrong", className="ov-chip ov-chip-bad")]
    if not row["cost_ns"]:
        return []
    cost = html.Strong(format_ns(row["cost_ns"]), title=exact_ns(row["cost_ns"]))
    if row["is_latency"]:
        return [html.Span(["kernels start up to ", cost, " later in all"], className="ov-advice-cost")]
    share = row["cost_ns"] / window_ns if window_ns else 0.0
    idle = f"; the device idled in {format_ns(row['device_idle_ns'])} of it" if row["device_idle_ns"] else ""
    width = f"{min(100 * share, 100):.2f}%"
    return [
        html.Span(
            ["at most ", cost, f", {format_fraction(share)} of the window{idle}"], className="ov-advice-cost"
        ),
        html.Span(html.Span(style={"width": width}), className="ov-share", title=format_fraction(share)),
    ]


def _evidence(item: dict[str, Any], scene: Scene) -> Component:
    """Return the rows that prove a finding as links into the timeline."""
    links: list[Any] = []
    for row in item["row_ids"][:_MOST_ROWS]:
        links += [scene.row_link(str(row), item["table"], row), " "]
    more = item["count"] - min(len(item["row_ids"]), _MOST_ROWS)
    if more > 0:
        links.append(html.Span(f"and {format_count(more)} more ", className="ov-quiet"))
    first = item["row_ids"][0] if item["row_ids"] else None
    rank = None if first is None else scene.trace.row(item["table"], first).get("rank")
    if item["end_ns"] > item["start_ns"]:
        words = scene.span_link(item["start_ns"], item["end_ns"], rank=rank, is_marked=True)
        links += ["within ", words]
    noun = _NOUNS.get(item["table"], item["table"].replace("_", " "))
    return html.Div([html.Dt(item["says"]), html.Dd([f"{noun} ", *links])], className="ov-fact")


_NOUNS = {"ops": "operations", "api_calls": "host calls", "syncs": "synchronizations"}


def _not_checked(found: dict[str, Any]) -> list[Component]:
    if not found["advice_not_checked"]:
        return []
    lines = [[item["rule"].replace("_", " "), item["reason"]] for item in found["advice_not_checked"]]
    shown = table("Not checked", ["rule", "what is missing"], lines, hides_caption=True)
    return [block("Not checked", shown, note="a finding that the file cannot prove is not made")]


def _checked(found: dict[str, Any]) -> list[Component]:
    made = {row["rule"] for row in found["findings"]}
    quiet = [rule.replace("_", " ") for rule in found["advice_checked"] if rule not in made]
    if not quiet:
        return []
    return [block("Checked, nothing found", html.P(", ".join(quiet) + ".", className="ov-quiet"))]


_PAGE = StudyPage(
    NAME,
    TITLE,
    "What to change first: findings about right results come first, then those that cost the most time. The "
    "cost is the most time that the change can save, not how long streams stood still, which Waits and "
    "barriers adds up. Each row of evidence leads to the timeline.",
    _rows,
    _show,
    "Checking the rules …",
)


def layout() -> Component:
    """Return the static elements of the page."""
    return _PAGE.layout()


def register(app: dash.Dash, store: TraceStore) -> None:
    """Attach the page's callbacks to an app."""
    _PAGE.register(app, store)
