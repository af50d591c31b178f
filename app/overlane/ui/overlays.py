"""What is drawn over an opened trace's timeline: the slices that a search found, the causes of waiting.

Searches and their indexes are kept for the last few lines that were typed; they are quick to make again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from overlane.ui.reasons import ops_of_causes
from overlane.ui.search import Hits, Query, find_rows, masks_of, parse_query

if TYPE_CHECKING:
    from overlane.cache import OpenedTrace
    from overlane.timeline import Timeline
    from overlane.ui.reasons import ReasonsStore

__all__ = ["Recent", "Searches"]

_T = TypeVar("_T")


class Recent:
    """The last few results of something that can be computed again; safe to use from several threads.

    Args:
        kept: How many.
    """

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._values: OrderedDict[Hashable, Any] = OrderedDict()
        self._guard = threading.Lock()

    def get(self, key: Hashable, compute: Callable[[], _T]) -> _T:
        """Return the value of a key, computed where it is not one of the last few."""
        with self._guard:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]  # type: ignore[no-any-return]
        value = compute()
        with self._guard:
            self._values[key] = value
            while len(self._values) > self._kept:
                self._values.popitem(last=False)
        return value


class Searches:
    """Searches of all traces of a server.

    Args:
        reasons: The causes of the server's traces.
        kept: Searches whose hits are kept.
        overlays_kept: Searches whose index is kept, on the disk.
    """

    def __init__(self, reasons: ReasonsStore, kept: int = 8, overlays_kept: int = 4) -> None:
        self._reasons = reasons
        self._hits = Recent(kept)
        self._overlays = Recent(overlays_kept)

    def hits(self, opened: OpenedTrace, rank: int | None, line: str) -> Hits:
        """Return the rows that a line of words finds.

        Raises:
            QueryError: The line makes no sense.
        """
        query = parse_query(line)
        return self._hits.get((opened.key, rank, query), lambda: self._find(opened, rank, query))

    def _find(self, opened: OpenedTrace, rank: int | None, query: Query) -> Hits:
        from overlane.timeline.columns import of_rank  # noqa: PLC0415 - loads compiled code

        reasons = self._reasons.get(opened, rank) if query.causes else None
        return find_rows(
            opened.trace,
            query,
            of_rank=partial(of_rank, opened.trace, rank),
            ops_of_causes=None if reasons is None else partial(ops_of_causes, reasons),
        )

    def overlay(self, opened: OpenedTrace, rank: int | None, line: str) -> Timeline:
        """Return the slices that a line of words finds as a timeline with the same wire lanes.

        Raises:
            QueryError: The line makes no sense.
        """
        key = (opened.key, rank, parse_query(line))
        return self._overlays.get(key, lambda: self._overlay(opened, rank, line))

    def _overlay(self, opened: OpenedTrace, rank: int | None, line: str) -> Timeline:
        from overlane.timeline.overlay import (  # noqa: PLC0415 - loads compiled code
            chosen_slices,
            open_overlay,
            overlay_arrays,
        )

        under = opened.timeline(rank)
        layer = chosen_slices(under, masks_of(self.hits(opened, rank, line), opened.trace))
        tables = [lane["table"] for lane in under.lane_of_wires()]
        return open_overlay(opened.trace, rank, overlay_arrays(opened.trace, rank, [layer], tables))
