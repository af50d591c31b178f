"""The critical path of the whole trace or of a window, ready to be drawn and walked."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from overlane.ui.overlays import Recent
from overlane.ui.reasons import kept_version

if TYPE_CHECKING:
    from overlane.analysis.critical_path import CriticalPath
    from overlane.analysis.study import Study
    from overlane.cache import OpenedTrace
    from overlane.timeline import Timeline
    from overlane.timeline.overlay import Array
    from overlane.ui.studies import Studies

__all__ = ["DrawnPath", "Paths", "path_step"]

VERSION = 1
"""Changes with what the overlay of a path holds."""
VIEWS_KEPT = 8
"""Windows in view whose paths stay in memory; every move makes another."""


@dataclass(frozen=True)
class DrawnPath:
    """The critical path of one window.

    Attributes:
        path: The chain that the end of the window waited for.
        overlay: Its links, on lanes numbered as those of the timeline under it.
    """

    path: CriticalPath
    overlay: Timeline


class Paths:
    """The critical paths of the traces of a server; safe to use from several threads.

    Args:
        studies: The studies that they are made from.
    """

    def __init__(self, studies: Studies) -> None:
        self._studies = studies
        self._views = Recent(VIEWS_KEPT)

    def get(
        self, opened: OpenedTrace, rank: int | None, window: tuple[int, int] | None, *, is_view: bool = False
    ) -> DrawnPath | None:
        """Return the path of a window, None while it is computed in the background.

        Args:
            opened: The trace.
            rank: Rank whose lanes it is drawn on.
            window: Start and end in ns, None for the whole trace.
            is_view: The window is one of many that are looked at in passing, so its path is not kept.

        Raises:
            OverlaneError: It could not be computed.
        """
        if window is None or not is_view:
            return self._studies.answer(opened, window, f"path of rank {rank}", partial(_kept, opened, rank))
        build = partial(_of_view, opened, rank, self._studies.study(opened), window)
        return self._views.get((opened.key, rank, window), build)


def _kept(opened: OpenedTrace, rank: int | None, study: Study) -> DrawnPath:
    from overlane.timeline.overlay import open_overlay  # noqa: PLC0415 - loads compiled code

    path = study.critical_path
    make = partial(_arrays, opened, rank, path)
    # As with the studies: only what is of the whole trace is kept on the disk.
    whole = study.window is None
    arrays = opened.arrays(f"path of rank {rank}", kept_version(VERSION), make) if whole else make()
    return DrawnPath(path, open_overlay(opened.trace, rank, arrays))


def _of_view(opened: OpenedTrace, rank: int | None, study: Study, window: tuple[int, int]) -> DrawnPath:
    from overlane.analysis.critical_path import critical_path  # noqa: PLC0415 - loads compiled code
    from overlane.timeline.overlay import open_overlay  # noqa: PLC0415

    path = critical_path(opened.trace, study.dependencies, window=window)
    return DrawnPath(path, open_overlay(opened.trace, rank, _arrays(opened, rank, path)))


def _arrays(opened: OpenedTrace, rank: int | None, path: CriticalPath) -> dict[str, Array]:
    from overlane.timeline.overlay import overlay_arrays  # noqa: PLC0415 - loads compiled code
    from overlane.timeline.reasons import lanes_of_rows, path_layer  # noqa: PLC0415

    trace, timeline = opened.trace, opened.timeline(rank)
    op_lane, call_lane = (lanes_of_rows(trace, timeline, rank, name) for name in ("ops", "api_calls"))
    layer = path_layer((path.op, path.call, path.start_ns, path.end_ns), op_lane, call_lane)
    return overlay_arrays(trace, rank, [layer], [lane["table"] for lane in timeline.meta()["lanes"]])


def path_step(
    path: CriticalPath, by: int, at_ns: int, *, selected: tuple[str, int] | None, place: int | None
) -> dict[str, Any] | None:
    """Return the next row of the critical path that is drawn, None beyond its ends.

    Args:
        path: The path.
        by: 1 for the next one, -1 for the one before.
        at_ns: Where to begin when the selected row is not on the path.
        selected: Table and row that the walk begins at, None for none.
        place: Place of the link that the walk has reached; a call can be on the path more than once.
    """
    from overlane.analysis.critical_path import PATH_KINDS  # noqa: PLC0415 - loads compiled code

    table, row = selected or ("", -1)
    mine = {"ops": path.op, "api_calls": np.where(path.op < 0, path.call, -1)}.get(table)
    on_path = np.flatnonzero(mine == row).tolist() if mine is not None else []
    if on_path:
        begin = place if place in on_path else on_path[-1 if by > 0 else 0]
        at = begin + by
    else:
        at = int(np.searchsorted(path.end_ns, at_ns, side="right"))
    while 0 <= at < len(path):
        op, call = int(path.op[at]), int(path.call[at])
        found = ("ops", op) if op >= 0 else ("api_calls", call)
        if found[1] >= 0 and found != selected:
            kind = PATH_KINDS[path.kind[at]]
            times = {"start_ns": int(path.start_ns[at]), "end_ns": int(path.end_ns[at])}
            return {"table": found[0], "row": found[1], "place": at, "kind": kind, **times}
        at += by
    return None
