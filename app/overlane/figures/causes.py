"""Figures of causes: idle time of streams and devices as stacked bars, the critical path as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from overlane.analysis.causes import CAUSES
from overlane.figures.palette import Theme, cause_colour, colour, graph_objects, template
from overlane.figures.units import format_fraction, format_ns

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["PATH_COLOURS", "Piece", "Stack", "idle_bars", "path_bar"]

_ROW_PX = 26
_NAME_LETTERS = 28

PATH_COLOURS = {
    "operation": ("category", "compute"),
    "device_wait": ("cause", "launch_latency"),
    "launch": ("category", "driver_call"),
    "call": ("category", "annotation"),
    "host": ("cause", "late_launch"),
}
"""Category of the critical path to the colour that stands for it: of an engine or call, or of a cause."""


@dataclass(frozen=True)
class Piece:
    """A part of a stack.

    Attributes:
        name: Cause.
        ns: Its time.
        href: Address that a click on it leads to; empty for none.
    """

    name: str
    ns: int
    href: str = ""


@dataclass(frozen=True)
class Stack:
    """A stacked bar.

    Attributes:
        label: What it is of.
        window_ns: Time that is the whole of it.
        pieces: Its parts.
    """

    label: str
    window_ns: int
    pieces: tuple[Piece, ...]


def idle_bars(stacks: Sequence[Stack], *, theme: Theme) -> go.Figure:
    """Draw the idle time of each owner by cause, as shares of its window.

    Args:
        stacks: The bars from top to bottom.
        theme: Page theme.
    """
    go = graph_objects()
    titles = {cause.name: cause.title for cause in CAUSES}
    sums: dict[str, int] = {}
    for stack in stacks:
        for piece in stack.pieces:
            sums[piece.name] = sums.get(piece.name, 0) + piece.ns
    names = [_plain(stack.label) for stack in stacks]
    figure = go.Figure()
    for cause in sorted(sums, key=lambda name: -sums[name]):
        found = [(stack, piece) for stack in stacks for piece in stack.pieces if piece.name == cause]
        shares = [piece.ns / max(stack.window_ns, 1) for stack, piece in found]
        figure.add_bar(
            name=titles[cause],
            orientation="h",
            y=[_plain(stack.label) for stack, _ in found],
            x=[100 * share for share in shares],
            marker={"color": cause_colour(cause, theme), "line": {"width": 0}},
            customdata=[
                [piece.href, f"{format_ns(piece.ns)}, {format_fraction(share)} of the window"]
                for (_, piece), share in zip(found, shares, strict=True)
            ],
            hovertemplate=f"%{{y}} · {titles[cause]}<br>%{{customdata[1]}}<extra></extra>",
        )
    _lay_out(figure, theme, rows=len(stacks))
    figure.update_yaxes(categoryorder="array", categoryarray=names[::-1])
    return figure


def path_bar(pieces: Sequence[tuple[str, str, int, str]], *, theme: Theme) -> go.Figure:
    """Draw the critical path as one bar by category.

    Args:
        pieces: Kind of link (a key of `PATH_COLOURS`), words for it, its time in ns, and the address that a
            click on it leads to.
        theme: Page theme.
    """
    go = graph_objects()
    total = max(sum(ns for _, _, ns, _ in pieces), 1)
    figure = go.Figure()
    for kind, words, ns, href in pieces:
        table, name = PATH_COLOURS[kind]
        figure.add_bar(
            name=words,
            orientation="h",
            y=[""],
            x=[100 * ns / total],
            marker={
                "color": (cause_colour if table == "cause" else colour)(name, theme),
                "line": {"width": 0},
            },
            customdata=[[href, f"{format_ns(ns)}, {format_fraction(ns / total)} of the path"]],
            hovertemplate=f"{words}<br>%{{customdata[1]}}<extra></extra>",
        )
    _lay_out(figure, theme, rows=1)
    figure.update_layout(margin={"l": 20})  # else 0 % would be past the edge and left out
    return figure


def _lay_out(figure: Any, theme: Theme, *, rows: int) -> None:
    """Set the size and the axis in percent; the page has a legend of its own, which wraps as it needs to."""
    figure.update_layout(
        template=template(theme), barmode="stack", bargap=0.3, height=max(_ROW_PX * rows, 40) + 48
    )
    figure.update_xaxes(ticksuffix=" %", fixedrange=True, rangemode="tozero")
    figure.update_yaxes(fixedrange=True, showgrid=False, ticklabelstandoff=8)


def _plain(name: str) -> str:
    """Return a name that fits and that Plotly shows as it is: it reads a few tags as markup."""
    shown = name if len(name) <= _NAME_LETTERS else name[: _NAME_LETTERS - 1] + "…"
    return escape(shown)
