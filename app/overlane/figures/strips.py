"""Strips of SMs: how many each partition asked for and got, and which ones they are where that is known."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from overlane.figures.palette import COLOURS, SERIES_COLOURS, Theme, colour, graph_objects, template

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["Granted", "Strip", "granted_bars", "unit_strips"]

_ROW_PX = 28
_SET_APART = 80
"""More units than this stand without room between them."""
_NONE = {"light": "#eef1f5", "dark": "#222934"}
_LEAK_CATEGORY = "collective"


@dataclass(frozen=True)
class Granted:
    """SMs of one partition.

    Attributes:
        label: What it is called.
        requested: SMs asked for, None when not recorded.
        granted: SMs granted, None when not recorded.
    """

    label: str
    requested: int | None
    granted: int | None


@dataclass(frozen=True)
class Strip:
    """Which SMs or TPCs one partition has.

    Attributes:
        label: What it is called.
        series: Place of its colour in `SERIES_COLOURS`.
        units: Their numbers.
        foreign: Those among them on which others worked or that are not its own.
    """

    label: str
    series: int
    units: Collection[int]
    foreign: Collection[int] = ()


def granted_bars(rows: Sequence[Granted], sm_count: int | None, *, theme: Theme) -> go.Figure:
    """Draw the SMs granted to each partition, with a mark at what was asked for.

    Args:
        rows: Partitions of one device from top to bottom.
        sm_count: SMs of the device, None when not recorded.
        theme: Page theme.
    """
    go = graph_objects()
    labels = [escape(row.label) for row in rows]
    figure = go.Figure(
        go.Bar(
            orientation="h",
            y=labels,
            x=[row.granted or 0 for row in rows],
            marker={"color": [_series(at, theme) for at in range(len(rows))]},
            text=["not recorded" if row.granted is None else f"{row.granted} SMs" for row in rows],
            textposition="outside",
            cliponaxis=False,
            hovertemplate="%{y}: %{text} granted<extra></extra>",
        )
    )
    asked = [(label, row.requested) for label, row in zip(labels, rows, strict=True) if row.requested]
    figure.add_scatter(
        x=[count for _, count in asked],
        y=[label for label, _ in asked],
        mode="markers",
        marker={
            "symbol": "line-ns",
            "size": 20,
            "line": {"width": 3, "color": "#e6eaf0" if theme == "dark" else "#1c2430"},
        },
        hovertemplate="%{y}: %{x} SMs asked for<extra></extra>",
    )
    most = max([sm_count or 0, *(row.granted or 0 for row in rows), *(count or 0 for _, count in asked), 1])
    figure.update_layout(template=template(theme), height=_ROW_PX * len(rows) + 56, bargap=0.35)
    figure.update_xaxes(range=[0, most * 1.28], fixedrange=True)
    figure.update_yaxes(
        fixedrange=True,
        showgrid=False,
        ticklabelstandoff=8,
        categoryorder="array",
        categoryarray=labels[::-1],
    )
    return figure


def unit_strips(strips: Sequence[Strip], count: int, what: str, *, theme: Theme) -> go.Figure:
    """Draw which of a device's SMs or TPCs each partition has, one row each.

    Args:
        strips: Partitions from top to bottom.
        count: Number of units of the device.
        what: `SM` or `TPC`.
        theme: Page theme.
    """
    go = graph_objects()
    foreign = len(strips) + 1
    cells = [
        [
            (foreign if unit in strip.foreign else row + 1) if unit in strip.units else 0
            for unit in range(count)
        ]
        for row, strip in enumerate(strips)
    ]
    words = {0: "not its own", foreign: "also others"}
    figure = go.Figure(
        go.Heatmap(
            y=[escape(strip.label) for strip in strips],
            z=cells,
            zmin=-0.5,
            zmax=foreign + 0.5,
            xgap=1 if count <= _SET_APART else 0,
            ygap=6,
            colorscale=_steps(
                [_NONE[theme], *(_series(strip.series, theme) for strip in strips), _leak(theme)]
            ),
            showscale=False,
            customdata=[[words.get(cell, "its own") for cell in row] for row in cells],
            hovertemplate=f"{what} %{{x}}: %{{customdata}}<extra>%{{y}}</extra>",
        )
    )
    figure.update_layout(template=template(theme), height=_ROW_PX * len(strips) + 60)
    figure.update_xaxes(fixedrange=True, showgrid=False, range=[-0.5, count - 0.5], zeroline=False, ticks="")
    figure.update_yaxes(autorange="reversed", fixedrange=True, showgrid=False, ticks="", ticklabelstandoff=8)
    return figure


def _steps(colours: Sequence[str]) -> list[Any]:
    """Return a scale of flat colours."""
    n = len(colours)
    return [[at / n, one] for number, one in enumerate(colours) for at in (number, number + 1)]


def _series(number: int, theme: Theme) -> str:
    return SERIES_COLOURS[number % len(SERIES_COLOURS)][theme == "dark"]


def _leak(theme: Theme) -> str:
    assert _LEAK_CATEGORY in COLOURS  # noqa: S101 - else it would look like anything else
    return colour(_LEAK_CATEGORY, theme)
