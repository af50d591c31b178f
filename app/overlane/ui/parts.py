"""Small pieces that the pages are made of. Every text from a trace goes in as text, never as markup."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from dash import dcc, html
from dash.development.base_component import Component

from overlane.figures.palette import COLOURS
from overlane.ui.plain import plain
from overlane.ui.rows import Fact

if TYPE_CHECKING:
    from overlane.trace import Trace

__all__ = [
    "GRAPH_CONFIG",
    "extra",
    "fact_list",
    "goto",
    "heading",
    "no_work",
    "notice",
    "swatch",
    "table",
]


GRAPH_CONFIG: Any = {"displayModeBar": False, "displaylogo": False, "showTips": False}
"""No tool bar: the figures are small and fixed, and nothing of Plotly's leads to another machine."""
_UNIT = re.compile(r"(\d) (?=(?:[nµm]?s|[KMGT]?i?B|[GM]B/s|%)(?:\W|$))")
_TEXT_FITTING = 40
"""Characters that certainly fit into two lines of a narrow panel."""


def extra(**values: str) -> dict[str, Any]:
    """Return `data-*` and `aria-*` attributes, which Python cannot name: `extra(aria_label="next")`."""
    return {name.replace("_", "-"): value for name, value in values.items()}


def heading(text: str, *, note: str = "") -> Component:
    """Return the small heading of a panel, with a quiet note behind it."""
    # Capitals would spell the plural of SM like another word.
    style = "ov-heading ov-as-written" if "SMs" in text or "TPCs" in text else "ov-heading"
    return html.H2([text, html.Span(note, className="ov-note")] if note else text, className=style)


def fact_list(facts: Iterable[Fact]) -> Component:
    """Return facts as a description list; the exact value shows on hover."""
    shown = [
        html.Div(
            [html.Dt(fact.label), html.Dd(_unbroken(fact.text), title=fact.exact or None)],
            className="ov-fact",
        )
        for fact in facts
    ]
    return plain(html.Dl(shown, className="ov-facts"))


def _unbroken(text: str) -> str:
    """Return text in which no line breaks between a number and its unit."""
    return _UNIT.sub("\\1\u00a0", text)


def goto(text: str, href: str, *, title: str = "") -> Component:
    """Return a link to a place in the timeline; the canvas follows it without loading the page anew."""
    if len(text) > _TEXT_FITTING:  # the style sheet cuts it after two lines
        title = "\n".join(filter(None, [text, title]))
    return html.A(text, href=href, className="ov-goto", title=title or None)


def swatch(category: str) -> Component:
    """Return a small square in the colour of a category."""
    known = category if category in COLOURS else "other"
    return html.Span(className="ov-swatch", style={"background": f"var(--ov-{known.replace('_', '-')})"})


def table(
    caption: str,
    head: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    numbers: Sequence[int] = (),
    hides_caption: bool = False,
) -> Component:
    """Return a table.

    Args:
        caption: What the table says, read out before it.
        head: Column headings.
        rows: Cells: texts or elements.
        numbers: Columns that are set right-aligned.
        hides_caption: Keep the caption for screen readers only, where a heading says the same.
    """

    def cell(make: Callable[..., Component], index: int, content: Any) -> Component:
        return make(content, className="ov-number" if index in numbers else None)

    content = [
        html.Caption(caption, className="ov-hidden" if hides_caption else None),
        html.Thead(html.Tr([cell(html.Th, i, text) for i, text in enumerate(head)])),
        html.Tbody([html.Tr([cell(html.Td, i, content) for i, content in enumerate(row)]) for row in rows]),
    ]
    return plain(html.Table(content, className="ov-table"))


def notice(title: str, text: str, *, kind: str = "info", leads_back: bool = False) -> Component:
    """Return a boxed sentence.

    Args:
        title: What it is about.
        text: The sentence.
        kind: info, warning or failed.
        leads_back: Add a link to all traces, where the page has nothing else to offer.
    """
    back = [dcc.Link("All traces", href="/library", className="ov-goto")] if leads_back else []
    return html.Div(
        [html.Strong(title), html.Span(text), *back], className=f"ov-notice ov-notice-{kind}", role="status"
    )


def no_work(trace: Trace) -> Component:
    """Return what stands in for a page of a trace without device work, with what its reader says of that."""
    checks = {one.check: one.detail for one in trace.header.integrity if one.status != "ok"}
    words = checks.get("no_device_work", "the trace holds no device operation")
    return notice("No GPU work.", f"{words[0].upper()}{words[1:]}; it shows the host alone.", kind="warning")
