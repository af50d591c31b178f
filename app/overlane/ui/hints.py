"""The first minute of the demo: three numbered hints above the timeline, each with something to press."""

from __future__ import annotations

from urllib.parse import urlencode

from dash import dcc, html
from dash.development.base_component import Component

from overlane.ui.links import timeline_href
from overlane.ui.naming import slug
from overlane.ui.parts import extra

__all__ = ["AGAINST", "OPENED", "demo_href", "hints"]

OPENED, AGAINST = "green-context-C", "green-context-A"
"""Samples that the hints speak of: urgent kernels beside bulk work without and with SMs of their own."""

_SAID = (
    "Urgent kernels waited here: once it is computed, a thin bar before each has the colour of what held it.",
    "Wheel or W and S zoom, a click selects. The page of advice says what to change first.",
    "In recording A the same kernels have SMs of their own. Hold both against each other.",
)


def demo_href() -> str:
    """Return the address that the demo opens: the timeline with the hints, unless they were dismissed."""
    return f"{timeline_href(slug(OPENED))}&hints=1"


def hints() -> Component:
    """Return the static elements; a script shows them where the address asks for them, until dismissed."""
    opened, against = slug(OPENED), slug(AGAINST)
    compared = "/compare?" + urlencode({"base": opened, "runs": against})
    acts = (
        html.Button("Show one", type="button", className="ov-tl-button", **extra(data_hint="show")),
        dcc.Link("Open advice", href=f"/advice?trace={opened}", className="ov-tl-button"),
        dcc.Link("Compare with A", href=compared, className="ov-tl-button"),
    )
    return html.Section(
        [
            html.Ol(
                [
                    html.Li([html.B(str(at), **extra(aria_hidden="true")), html.P(words), act])
                    for at, (words, act) in enumerate(zip(_SAID, acts, strict=True), 1)
                ]
            ),
            html.Button(
                "×",
                type="button",
                className="ov-tl-button",
                title="Dismiss the hints (Esc)",
                **extra(data_hint="dismiss", aria_label="Dismiss the hints (Esc)"),
            ),
        ],
        id="ov-hints",
        className="ov-hints",
        **extra(aria_label="First steps"),
    )
