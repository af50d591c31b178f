"""Distributions of waits as curves over percentiles, stretched towards the longest waits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10
from typing import TYPE_CHECKING, Any

from overlane.figures.palette import SERIES_COLOURS, Theme, graph_objects, template
from overlane.figures.units import format_ns

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["TICKS", "Curve", "percentile_curves", "percentile_name"]

TICKS = (0.0, 0.5, 0.9, 0.99, 0.999, 1.0)
_LAST = 3.7
"""Where the longest wait stands: after P99.9, which is at 3."""
_HEIGHT = 320


@dataclass(frozen=True)
class Curve:
    """One distribution.

    Attributes:
        label: What waited.
        points: Share of the operations that waited no longer, the wait in ns, and the address of an operation
            that waited so long; in rising order.
    """

    label: str
    points: tuple[tuple[float, int, str], ...]


def percentile_name(fraction: float) -> str:
    """Return the name of a percentile.

    Example:
        >>> percentile_name(0.5), percentile_name(0.999), percentile_name(1.0), percentile_name(0.0)
        ('P50', 'P99.9', 'longest', 'shortest')
    """
    if fraction in {0.0, 1.0}:
        return "longest" if fraction else "shortest"
    return f"P{100 * fraction:.4g}"


def percentile_curves(curves: Sequence[Curve], *, theme: Theme) -> go.Figure:
    """Draw waits over percentiles on a logarithmic axis; every further nine is as wide.

    Args:
        curves: At least one, with the colours of `SERIES_COLOURS` in turn; a wait of zero is drawn at 1 ns.
        theme: Page theme.
    """
    go = graph_objects()
    figure = go.Figure()
    for number, curve in enumerate(curves):
        name = escape(curve.label)
        figure.add_scatter(
            name=name,
            mode="lines+markers",
            x=[_place(fraction) for fraction, _, _ in curve.points],
            y=[max(ns, 1) for _, ns, _ in curve.points],
            line={
                "color": SERIES_COLOURS[number % len(SERIES_COLOURS)][theme == "dark"],
                "width": 2,
            },
            marker={"size": 5},
            customdata=[
                [href, f"{percentile_name(fraction)}: {format_ns(ns)}"] for fraction, ns, href in curve.points
            ],
            hovertemplate=f"{name}<br>%{{customdata[1]}}<extra></extra>",
        )
    _lay_out(figure, curves, theme)
    return figure


def _lay_out(figure: Any, curves: Sequence[Curve], theme: Theme) -> None:
    """Set the size, and axes that stretch towards the longest waits."""
    waits = [max(ns, 1) for curve in curves for _, ns, _ in curve.points]
    low = floor(log10(min(waits)))
    high = max(ceil(log10(max(waits)) + 0.02), low + 1)
    least = min(curve.points[0][0] for curve in curves)
    figure.update_layout(template=template(theme), height=_HEIGHT)
    figure.update_xaxes(
        tickvals=[_place(tick) for tick in TICKS],
        ticktext=["P0", *(percentile_name(tick) for tick in TICKS[1:])],
        range=[_place(least) - 0.12, _LAST + 0.15],
        fixedrange=True,
    )
    decades = range(low, high + 1)
    figure.update_yaxes(
        type="log",
        range=[low - 0.05, high + 0.05],
        tickvals=[10**decade for decade in decades],
        ticktext=[_decade(decade) for decade in decades],
        fixedrange=True,
        ticklabelstandoff=6,
    )


def _place(fraction: float) -> float:
    return _LAST if fraction >= 1 else -log10(1 - fraction)


def _decade(decade: int) -> str:
    """Write a power of ten ns: 10 µs."""
    unit, factor = (("ns", 0), ("µs", 3), ("ms", 6), ("s", 9))[min(max(decade, 0) // 3, 3)]
    return f"{10 ** (decade - factor)} {unit}"
