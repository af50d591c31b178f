"""The Gantt chart of a window as a Plotly figure, for notebooks and reports."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from overlane.errors import OverlaneError
from overlane.figures.palette import Theme, colour, engine_label, graph_objects, template
from overlane.figures.units import exact_ns, format_count, format_ns, unit_of
from overlane.tables import numbers

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from overlane.trace import Trace

__all__ = ["MOST_BARS", "gantt"]

MOST_BARS = 2_000
"""Bars that Plotly moves fluidly; a window with more operations is drawn as a raster of busy shares."""
COLUMNS = 1_200
"""Columns of the raster: about one per pixel of a wide notebook."""
_LANE_PX = 34
_NAME_LETTERS = 60

Array = npt.NDArray[Any]
_StreamKey = tuple[int | None, int | None, int | None, int | None]


@dataclass(frozen=True)
class _Work:
    """The operations of a window.

    Attributes:
        row: int64 (n,), operation ids.
        lane: int64 (n,), place of its stream in `names`.
        start: int64 (n,), ns, cut to the window.
        end: int64 (n,), ns, cut to the window.
        names: Words for the streams.
    """

    row: Array
    lane: Array
    start: Array
    end: Array
    names: list[str]


def gantt(
    trace: Trace,
    window: tuple[int, int] | None = None,
    *,
    most_bars: int = MOST_BARS,
    theme: Theme = "light",
) -> go.Figure:
    """Draw the operations of a window, one lane per stream.

    Up to `most_bars` operations are drawn one by one; more become a raster in which a cell is as strong as
    its stream was busy in it.

    Args:
        trace: What to draw.
        window: Start and end in ns from the trace's origin; None for all of it.
        most_bars: Operations that are drawn one by one.
        theme: Colours for a light or a dark page.

    Raises:
        OverlaneError: The window is empty.

    Example:
        >>> import overlane
        >>> from overlane.samples import sample_path
        >>> trace = overlane.open_trace(sample_path("default-stream-legacy.overlane"))
        >>> [bars.name for bars in gantt(trace).data]
        ['compute', 'copy D2H', 'copy H2D']
    """
    start, end = window if window is not None else (0, max(trace.span_ns, 1))
    if end <= start:
        raise OverlaneError(f"the window {start}:{end} is empty; give a start before its end")
    work = _work_of(trace, start, end)
    scale, unit = unit_of((end - start) // 2)
    figure = graph_objects().Figure()
    if len(work.row) <= most_bars:
        _add_bars(figure, trace, work, scale, theme)
        note = ""
    else:
        _add_raster(figure, work, (start, end), scale, theme)
        note = f" · {format_count(len(work.row))} operations as busy shares"
    figure.update_layout(
        template=template(theme),
        barmode="overlay",
        height=_LANE_PX * max(len(work.names), 1) + 110,
        showlegend=len(work.row) <= most_bars,
        legend={"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0},
        margin={"l": 8, "r": 16, "t": 40, "b": 8},
    )
    figure.update_xaxes(
        range=[start / scale, end / scale], title=f"time from the trace's origin in {unit}{note}"
    )
    figure.update_yaxes(
        categoryorder="array",
        categoryarray=work.names[::-1],
        fixedrange=True,
        showgrid=False,
        type="category",
    )
    if not len(work.row):
        figure.add_annotation(text="No operation runs in this window.", showarrow=False, x=0.5, xref="paper")
    return figure


def _work_of(trace: Trace, start: int, end: int) -> _Work:
    """Return the operations that meet a window, and the streams they are on, in order of identity."""
    ops = trace.table("ops")
    begins = trace.column("ops", "start_ns")
    ends = np.maximum(numbers(ops["end_ns"], null=trace.span_ns), begins)
    # An operation without length counts where it starts.
    row = np.flatnonzero((begins < end) & ((ends > start) | (begins >= start)))
    ids = [_ids(ops[name], row) for name in ("rank", "device_id", "context_id", "stream_id")]
    keys = np.stack(ids, axis=1) if len(row) else np.zeros((0, 4), np.int64)
    found, lane = np.unique(keys, axis=0, return_inverse=True)
    named = [tuple(None if part < 0 else int(part) for part in key) for key in found.tolist()]
    names = _stream_names(named)  # type: ignore[arg-type]
    return _Work(row, lane.reshape(-1), np.maximum(begins[row], start), np.minimum(ends[row], end), names)


def _ids(column: Any, row: Array) -> Array:
    """Return some rows of an id column, -1 for null; ids are not negative."""
    return numbers(column, null=-1)[row].astype(np.int64)


def _stream_names(keys: list[_StreamKey]) -> list[str]:
    """Return words for streams that tell them apart and no more."""
    parts = list(zip(*keys, strict=True)) if keys else [(), (), (), ()]
    varies = [len(set(part)) > 1 for part in parts]
    names = []
    for rank, device, context, stream in keys:
        words = [
            f"rank {rank}" if varies[0] else "",
            f"GPU {'?' if device is None else device}" if varies[1] else "",
            f"context {'?' if context is None else context}" if varies[2] else "",
            "no stream recorded" if stream is None else f"stream {stream}",
        ]
        names.append(" · ".join(word for word in words if word))
    return names


def _add_bars(figure: go.Figure, trace: Trace, work: _Work, scale: int, theme: Theme) -> None:
    """Add one trace of bars per engine, so that the legend names them."""
    go = graph_objects()
    ops = trace.table("ops")
    engines = [ops["engine"][int(row)].as_py() for row in work.row]
    for engine in sorted(set(engines), key=lambda name: (name is None, name or "")):
        mine = [at for at, name in enumerate(engines) if name == engine]
        rows = [int(work.row[at]) for at in mine]
        # Plotly reads markup in hover texts, and a name is never markup.
        names = [escape((ops["name"][row].as_py() or f"operation {row}")[:_NAME_LETTERS]) for row in rows]
        begins, ends = work.start[mine], work.end[mine]
        figure.add_trace(
            go.Bar(
                orientation="h",
                name=engine_label(engine),
                y=[work.names[work.lane[at]] for at in mine],
                base=begins / scale,
                x=(ends - begins) / scale,
                marker={"color": colour(engine or "other", theme), "line": {"width": 0}},
                customdata=[
                    [name, format_ns(int(end - begin)), exact_ns(int(begin)), row]
                    for name, begin, end, row in zip(names, begins, ends, rows, strict=True)
                ],
                hovertemplate=(
                    "%{customdata[0]}<br>%{customdata[1]} from %{customdata[2]}<br>operation %{customdata[3]}"
                    "<extra>%{y}</extra>"
                ),
            )
        )


def _add_raster(figure: go.Figure, work: _Work, window: tuple[int, int], scale: int, theme: Theme) -> None:
    """Add the busy share of each stream in each column of the window."""
    go = graph_objects()
    edges = np.linspace(window[0], window[1], COLUMNS + 1)
    shares = np.zeros((len(work.names), COLUMNS))
    for lane in range(len(work.names)):
        mine = work.lane == lane
        shares[lane] = busy_shares(work.start[mine], work.end[mine], edges)
    figure.add_trace(
        go.Heatmap(
            x=edges / scale,
            y=work.names,
            z=shares,
            zmin=0,
            zmax=1,
            ygap=6,
            colorscale=[[0, "rgba(0,0,0,0)"], [1, colour("compute", theme)]],
            colorbar={"title": "busy", "tickformat": ".0%", "thickness": 10},
            hovertemplate="%{y}: busy %{z:.1%}<extra></extra>",
        )
    )


def busy_shares(start: Array, end: Array, edges: Array) -> Array:
    """Return the share of each column that the union of some intervals covers.

    Args:
        start: int64 (n,), ns, any order; intervals may overlap.
        end: int64 (n,), ns.
        edges: float64 (columns + 1,), ns, rising.

    Example:
        >>> busy_shares(np.array([0, 5]), np.array([10, 15]), np.array([0.0, 10.0, 20.0]))
        array([1. , 0.5])
    """
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    reach = np.maximum.accumulate(end) if len(end) else end
    opens = np.ones(len(start), bool)
    opens[1:] = start[1:] > reach[:-1]
    first = np.flatnonzero(opens)
    run_start = start[first]
    run_end = reach[np.append(first[1:] - 1, len(reach) - 1)] if len(first) else run_start
    done = np.concatenate([[0], np.cumsum(run_end - run_start)])
    at = np.searchsorted(run_start, edges, side="right") - 1
    inside = (
        np.minimum(edges - run_start[at], (run_end - run_start)[at]) if len(first) else np.zeros(len(edges))
    )
    covered = np.where(at >= 0, done[np.maximum(at, 0)] + inside, 0.0)
    shares: Array = np.diff(covered) / np.diff(edges)
    return shares
