"""Figures of how the engines of one device share its time: pure functions of numbers and theme."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from overlane.figures.palette import Theme, colour, engine_label, graph_objects, template
from overlane.figures.units import format_fraction, format_ns

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["busy_bars", "concurrency_bars", "overlap_heatmap"]

NO_HREFS: Mapping[Any, str] = {}
"""Clicks lead nowhere."""
_ROW_PX = 34
_SCALE = {"light": ("#f4f6f9", "#2f6fde"), "dark": ("#1b212a", "#6ea3ff")}
"""An empty cell and a full one."""
_DARK_TEXT_FROM = 0.55
"""Share of the window from which a cell is so strongly coloured that its text needs the other colour."""


def busy_bars(
    busy_ns: Mapping[str | None, int],
    window_ns: int,
    *,
    hrefs: Mapping[str | None, str] = NO_HREFS,
    theme: Theme,
) -> go.Figure:
    """Draw one bar per engine: its busy share of the window.

    Args:
        busy_ns: Engine to its busy time in ns.
        window_ns: Length of the window in ns, above 0.
        hrefs: Engine to the address that a click on its bar leads to.
        theme: Page theme.
    """
    go = graph_objects()

    engines = list(busy_ns)[::-1]
    shares = [busy_ns[engine] / window_ns for engine in engines]
    figure = go.Figure(
        go.Bar(
            orientation="h",
            y=[engine_label(engine) for engine in engines],
            x=[100 * share for share in shares],
            marker={"color": [colour(engine or "other", theme) for engine in engines]},
            text=[
                f"{format_fraction(share)} · {format_ns(busy_ns[e])}"
                for share, e in zip(shares, engines, strict=True)
            ],
            textposition="outside",
            cliponaxis=False,
            customdata=[hrefs.get(engine, "") for engine in engines],
            hovertemplate="%{y}: %{text} busy<extra></extra>",
        )
    )
    figure.update_layout(template=template(theme), height=_ROW_PX * len(engines) + 44, bargap=0.35)
    # Text stands behind the bars, so the axis leaves room for it after 100 %.
    ticks = [0, 25, 50, 75, 100]
    figure.update_xaxes(
        range=[0, 136], tickvals=ticks, ticktext=[f"{tick} %" for tick in ticks], fixedrange=True
    )
    figure.update_yaxes(fixedrange=True, showgrid=False, ticklabelstandoff=8)
    return figure


def overlap_heatmap(
    engines: Sequence[str | None],
    overlap_ns: Mapping[tuple[str | None, str | None], int],
    *,
    window_ns: int,
    hrefs: Mapping[tuple[str | None, str | None], str] = NO_HREFS,
    theme: Theme,
) -> go.Figure:
    """Draw the engine-by-engine matrix: both busy at once; the diagonal is the engine's own busy time.

    Args:
        engines: Engines in order.
        overlap_ns: Pair, in either order, to the time in ns when both were busy; an engine with itself is
            its own busy time.
        window_ns: Length of the window in ns, above 0; colours are shares of it.
        hrefs: Pair, in either order, to the address that a click on its cell leads to.
        theme: Page theme.
    """
    go = graph_objects()

    names = [engine_label(engine) for engine in engines]
    cells = [[overlap_ns.get((a, b), overlap_ns.get((b, a), 0)) for b in engines] for a in engines]
    shares = [[cell / window_ns for cell in row] for row in cells]
    empty, full = _SCALE[theme]
    figure = go.Figure(
        go.Heatmap(
            x=names,
            y=names,
            z=shares,
            zmin=0,
            zmax=1,
            xgap=2,
            ygap=2,
            colorscale=[[0, empty], [1, full]],
            showscale=False,
            # Dash hands on what belongs to a cell only where it is one text.
            customdata=[[hrefs.get((a, b)) or hrefs.get((b, a), "") for b in engines] for a in engines],
            text=[[f"{format_ns(c)} ({format_fraction(c / window_ns)})" for c in row] for row in cells],
            hovertemplate="%{y} and %{x}: %{text}<extra></extra>",
        )
    )
    for y, row in enumerate(cells):
        for x, cell in enumerate(row):
            is_strong = cell / window_ns >= _DARK_TEXT_FROM
            figure.add_annotation(
                x=names[x],
                y=names[y],
                text=format_ns(cell),
                showarrow=False,
                font={"size": 12, "color": "#ffffff"} if is_strong and theme == "light" else {"size": 12},
            )
    figure.update_layout(template=template(theme), height=max(52 * len(engines) + 40, 150))
    figure.update_xaxes(side="top", fixedrange=True, showgrid=False, ticks="")
    figure.update_yaxes(autorange="reversed", fixedrange=True, showgrid=False, ticks="", ticklabelstandoff=8)
    return figure


def concurrency_bars(
    times_ns: Mapping[int, int], *, hrefs: Mapping[int, str] = NO_HREFS, theme: Theme
) -> go.Figure:
    """Draw how long how many operations were open at once, idle included.

    Args:
        times_ns: Number of open operations to the time in ns.
        hrefs: Number of open operations to the address that a click on its bar leads to.
        theme: Page theme.
    """
    go = graph_objects()

    total = max(sum(times_ns.values()), 1)
    numbers = sorted(times_ns)
    quiet, busy = colour("memset", theme), colour("compute", theme)
    figure = go.Figure(
        go.Bar(
            x=[str(number) if number else "idle" for number in numbers],
            y=[100 * times_ns[number] / total for number in numbers],
            marker={"color": [busy if number else quiet for number in numbers]},
            text=[format_fraction(times_ns[number] / total) for number in numbers],
            textposition="outside",
            cliponaxis=False,
            customdata=[[hrefs.get(number, ""), format_ns(times_ns[number])] for number in numbers],
            hovertemplate="%{x} open: %{customdata[1]} (%{text})<extra></extra>",
        )
    )
    figure.update_layout(template=template(theme), height=200, bargap=0.35, margin={"t": 24})
    figure.update_xaxes(type="category", fixedrange=True)
    figure.update_yaxes(ticksuffix=" %", rangemode="tozero", fixedrange=True)
    return figure
