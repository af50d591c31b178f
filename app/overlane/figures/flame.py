"""Flame views as Plotly icicles: pure functions of frames and theme."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from overlane.figures.palette import Theme, graph_objects, template
from overlane.figures.units import format_count, format_fraction, format_ns

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from overlane.analysis.flame import Flame

__all__ = ["flame_icicle"]

# Quiet neighbouring shades: a frame is told by its place and name, the shade only sets it off.
_SHADES: dict[Theme, tuple[str, ...]] = {
    "light": ("#c9d6ea", "#d5dff0", "#bccce4", "#dde2ee", "#cbd3e6", "#b7c9de"),
    "dark": ("#33445f", "#3b4d69", "#2d3c55", "#424f66", "#374460", "#2b4058"),
}
_ROW_PX = 21
_ALL = "all"


def flame_icicle(flame: Flame, *, theme: Theme) -> go.Figure:
    """Draw frames from the outermost down, each as wide as its weight.

    Args:
        flame: At least one frame.
        theme: Page theme.
    """
    go = graph_objects()
    shades = _SHADES[theme]
    frames = flame.frames
    depths: list[int] = []
    for frame in frames:
        depths.append(depths[frame.parent] + 1 if frame.parent >= 0 else 1)
    total = max(flame.total_ns, 1)
    what = "launched work" if flame.weight == "device" else "time on the thread"
    texts = [
        f"{format_ns(f.total_ns)} {what}, {format_fraction(f.total_ns / total)} of all<br>"
        f"{format_ns(f.self_ns)} in itself · {format_count(f.count)} times"
        for f in frames
    ]
    figure = go.Figure(
        go.Icicle(
            ids=[_ALL, *(str(f.frame) for f in frames)],
            labels=[f"all · {format_ns(flame.total_ns)}", *(_plain(f.name) for f in frames)],
            parents=["", *(str(f.parent) if f.parent >= 0 else _ALL for f in frames)],
            values=[flame.total_ns, *(f.total_ns for f in frames)],
            branchvalues="total",
            sort=True,
            tiling={"orientation": "v", "pad": 1},
            root={"color": shades[1]},
            marker={"colors": [shades[1], *(shades[_number(f.name) % len(shades)] for f in frames)]},
            customdata=[f"{format_ns(flame.total_ns)} {what}", *texts],
            hovertemplate="%{label}<br>%{customdata}<extra></extra>",
            textposition="middle left",
            texttemplate="%{label}",
            maxdepth=max(depths, default=0) + 1,
        )
    )
    height = _ROW_PX * (max(depths, default=0) + 1) + 30
    figure.update_layout(
        template=template(theme),
        height=min(max(height, 120), 640),
        margin={"l": 0, "r": 0, "t": 22, "b": 4},
        uniformtext={"minsize": 10, "mode": "hide"},
    )
    figure.update_traces(pathbar={"thickness": 20, "edgeshape": "/"})
    return figure


def _plain(name: str) -> str:
    """Return a name that Plotly shows as it is: it reads a few tags as markup."""
    return name.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _number(name: str) -> int:
    """Return a number that is the same for the same name in every process."""
    return hashlib.blake2b(name.encode(), digest_size=2).digest()[0]
