"""Colours and words of everything that is drawn; the canvas has the same values as CSS variables."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from overlane.timeline.categories import ENGINE_LABELS, engine_label

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = [
    "CAUSE_COLOURS",
    "COLOURS",
    "ENGINE_LABELS",
    "SERIES_COLOURS",
    "Theme",
    "cause_colour",
    "colour",
    "engine_label",
    "graph_objects",
    "template",
]

Theme = Literal["light", "dark"]

COLOURS: dict[str, tuple[str, str]] = {
    "compute": ("#4c78a8", "#6f9fd0"),
    "copy_h2d": ("#e0943a", "#eaa552"),
    "copy_d2h": ("#b0559a", "#cf7fbc"),
    "copy_d2d": ("#3f9c8f", "#5fbcae"),
    "copy_p2p": ("#8a6d3b", "#b39557"),
    "memset": ("#8a8f98", "#9aa0aa"),
    "collective": ("#c44e52", "#e0787b"),
    "runtime_call": ("#7aa37a", "#7fb07f"),
    "driver_call": ("#5d8a5d", "#6a9a6a"),
    "sync": ("#c9a227", "#dcb94a"),
    "operator": ("#9aa7c7", "#5d6b8f"),
    "annotation": ("#9d8fd0", "#8577c0"),
    "python": ("#c3b9a5", "#6f6757"),
    "profiler": ("#c9ced6", "#454d59"),
    "overhead": ("#d98880", "#b0605a"),
    "instant": ("#66707e", "#8c96a5"),
    "counter": ("#6c9bd2", "#6c9bd2"),
    "other": ("#b0b7c1", "#5a6472"),
}
"""Category to its colour on a light and on a dark page."""

CAUSE_COLOURS: dict[str, tuple[str, str]] = {
    "stream_order": ("#878d96", "#b8bec6"),
    "event_wait": ("#6938a7", "#8f67cd"),
    "legacy_default_stream": ("#f05751", "#ff998f"),
    "graph_order": ("#005a64", "#208089"),
    "host_function": ("#91932f", "#c2c46f"),
    "value_wait": ("#91256c", "#ba5894"),
    "blocking_copy": ("#cc7400", "#fba95b"),
    "copy_engine_busy": ("#7c4a2d", "#a47459"),
    "partition_busy": ("#4891d8", "#82c3ff"),
    "priority": ("#4045ba", "#6674df"),
    "channel_shared": ("#2f9cb3", "#74cde2"),
    "context_switch": ("#753e81", "#9d6aa8"),
    "module_load": ("#49a261", "#84d395"),
    "implicit_sync": ("#9a2737", "#c35a61"),
    "launch_latency": ("#9a7fd0", "#c0b0f0"),
    "profiler_overhead": ("#68524e", "#907b77"),
    "host_sync": ("#a38f00", "#e3cf5a"),
    "allocation": ("#29672e", "#59905a"),
    "launch_queue_full": ("#d16191", "#ff98c2"),
    "late_launch": ("#435a73", "#6c839b"),
    "unknown": ("#8d8d8d", "#bebebe"),
}
"""Cause to its colour on a light and on a dark page, in the order of the list of causes.

Neighbours in the list differ in lightness as well as in hue, so that they stay apart for colour-blind people;
what needs no attention (stream order, unknown) is grey.
"""

SERIES_COLOURS: tuple[tuple[str, str], ...] = (
    ("#488acb", "#7eb6f0"),
    ("#98483c", "#be766a"),
    ("#65a467", "#98ce99"),
    ("#6f4797", "#9674bb"),
    ("#bf8f34", "#e7bd75"),
    ("#1e7777", "#5da09f"),
    ("#c66897", "#ed9ac1"),
    ("#3f5482", "#697da6"),
    ("#96a054", "#c2cb8b"),
    ("#9e6033", "#c58d68"),
)
"""Colours without a meaning of their own, for names, streams and partitions; they repeat after the last."""

# Background, raised surface, rule, text and quiet text of the pages.
_SURFACES: dict[Theme, tuple[str, str, str, str, str]] = {
    "light": ("#fbfcfd", "#ffffff", "#e4e8ee", "#1c2430", "#66707e"),
    "dark": ("#12161c", "#181d25", "#2a313c", "#e6eaf0", "#8c96a5"),
}
_FONT = 'Inter, "Segoe UI", system-ui, sans-serif'


def colour(category: str, theme: Theme) -> str:
    """Return the colour of a category as a hex code; unknown categories look like `other`."""
    light, dark = COLOURS.get(category, COLOURS["other"])
    return dark if theme == "dark" else light


def cause_colour(cause: str, theme: Theme) -> str:
    """Return the colour of a cause as a hex code; a name that is no cause looks like `unknown`."""
    light, dark = CAUSE_COLOURS.get(cause, CAUSE_COLOURS["unknown"])
    return dark if theme == "dark" else light


def graph_objects() -> Any:
    """Return `plotly.graph_objects`, a third of a second to import that only pages with charts pay."""
    # Plotly uses pandas where somebody has imported it, even half: another thread may be at it just now.
    if "pandas" in sys.modules:
        import_module("pandas")
    return import_module("plotly.graph_objects")


def template(theme: Theme) -> go.layout.Template:
    """Return the Plotly template that matches the page: its colours, font and calm axes."""
    _, panel, rule, text, quiet = _SURFACES[theme]
    axis = {
        "gridcolor": rule,
        "linecolor": rule,
        "zerolinecolor": rule,
        "tickfont": {"color": quiet},
        "automargin": True,
    }
    return graph_objects().layout.Template(
        layout={
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"family": _FONT, "size": 12, "color": text},
            "colorway": [colour(name, theme) for name in ENGINE_LABELS],
            "xaxis": axis,
            "yaxis": axis,
            "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
            "hoverlabel": {"bgcolor": panel, "bordercolor": rule, "font": {"color": text, "family": _FONT}},
            "showlegend": False,
        }
    )
