"""The missing edge of a hazard, drawn over the operations around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from overlane.figures.palette import Theme, colour, graph_objects, template
from overlane.figures.units import format_ns, unit_of

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["Bar", "missing_edge"]

_LANE_PX = 54
_NAME_LETTERS = 26


@dataclass(frozen=True)
class Bar:
    """An operation, or an action of the host.

    Attributes:
        lane: What it ran on.
        name: Its name.
        start_ns: Its start.
        end_ns: Its end; the same as the start for an action without a length.
        category: Its colour, as in `overlane.figures.palette.COLOURS`.
        is_party: It is one of the two that nothing orders.
    """

    lane: str
    name: str
    start_ns: int
    end_ns: int
    category: str
    is_party: bool = False


def missing_edge(bars: Sequence[Bar], edge: tuple[Bar, Bar] | None, *, theme: Theme) -> go.Figure:
    """Draw operations on their streams, and the order that is missing as a dashed arrow.

    Args:
        bars: Operations of the lanes concerned, the two parties among them.
        edge: From the end of the first to the start of the second; None where it is not between two of them.
        theme: Page theme.
    """
    go = graph_objects()
    lanes = list(dict.fromkeys(bar.lane for bar in bars))
    low = min(bar.start_ns for bar in bars)
    high = max(bar.end_ns for bar in bars)
    factor, unit = unit_of(high - low)
    least = max((high - low) / 250, 1)  # a bar that short can still be seen
    text = "#e6eaf0" if theme == "dark" else "#1c2430"
    figure = go.Figure()
    for is_party in (False, True):
        shown = [bar for bar in bars if bar.is_party == is_party]
        figure.add_bar(
            orientation="h",
            y=[escape(bar.lane) for bar in shown],
            base=[(bar.start_ns - low) / factor for bar in shown],
            x=[max(bar.end_ns - bar.start_ns, least) / factor for bar in shown],
            width=0.44,
            marker={
                "color": [colour(bar.category, theme) for bar in shown],
                "opacity": 1 if is_party else 0.28,
                "line": {"width": 1.5 if is_party else 0, "color": text},
            },
            customdata=[
                f"{escape(bar.name)}<br>{format_ns(bar.start_ns - low)} after the left end, "
                f"{format_ns(bar.end_ns - bar.start_ns)} long"
                for bar in shown
            ],
            hovertemplate="%{customdata}<extra></extra>",
        )
    # Each name stands on the side of its bar that the arrow does not touch.
    down = 0 if edge is None else lanes.index(edge[1].lane) - lanes.index(edge[0].lane)
    below = edge[int(down > 0)] if edge is not None and down else None
    for number, bar in enumerate([bar for bar in bars if bar.is_party]):
        middle = ((bar.start_ns + max(bar.end_ns, bar.start_ns + least)) / 2 - low) / factor
        figure.add_annotation(
            x=middle,
            y=lanes.index(bar.lane),
            text=f"{'first' if number == 0 else 'second'}: {escape(_short(bar.name))}",
            showarrow=False,
            yshift=-21 if below and (bar.lane, bar.start_ns) == (below.lane, below.start_ns) else 21,
            font={"size": 11, "color": text},
        )
    if edge is not None:
        _add_arrow(figure, edge, lanes, (low, factor), theme)
    _lay_out(figure, lanes, (high - low) / factor, unit, theme)
    return figure


def _add_arrow(
    figure: Any, edge: tuple[Bar, Bar], lanes: list[str], scale: tuple[int, int], theme: Theme
) -> None:
    low, factor = scale
    before, after = edge
    figure.add_annotation(
        ax=(before.end_ns - low) / factor,
        ay=lanes.index(before.lane),
        x=(after.start_ns - low) / factor,
        y=lanes.index(after.lane),
        axref="x",
        ayref="y",
        xref="x",
        yref="y",
        text="",
        arrowhead=2,
        arrowsize=1.2,
        arrowwidth=2,
        arrowcolor=colour("collective", theme),
    )


def _lay_out(figure: Any, lanes: list[str], span: float, unit: str, theme: Theme) -> None:
    figure.update_layout(
        template=template(theme), barmode="overlay", height=_LANE_PX * len(lanes) + 48, showlegend=False
    )
    figure.update_xaxes(range=[-0.04 * span, 1.08 * span], ticksuffix=f" {unit}", fixedrange=True)
    figure.update_yaxes(
        fixedrange=True,
        showgrid=False,
        ticklabelstandoff=8,
        type="category",
        categoryorder="array",
        categoryarray=[escape(lane) for lane in lanes],
        range=[len(lanes) - 0.5, -0.7],
    )


def _short(name: str) -> str:
    return name if len(name) <= _NAME_LETTERS else name[: _NAME_LETTERS - 1] + "…"
