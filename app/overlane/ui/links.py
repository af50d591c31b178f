"""Addresses of the dashboard: what a link or the browser's address says about trace, view and selection."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlencode

__all__ = ["Address", "overlap_href", "parse_search", "timeline_href"]


@dataclass(frozen=True)
class Address:
    """What the browser's address asks for.

    Attributes:
        trace_id: Trace to show, None for the server's first.
        other_id: Second trace that shares the view, None for none.
        rank: Rank of a distributed job, None for the trace's first.
        window: Start and end in ns that every page is narrowed to, None for the whole trace.
    """

    trace_id: str | None = None
    other_id: str | None = None
    rank: int | None = None
    window: tuple[int, int] | None = None


def parse_search(search: str | None) -> Address:
    """Read the query part of an address; parts that make no sense are left out."""
    values = parse_qs((search or "").lstrip("?"), max_num_fields=50)

    def last(key: str) -> str | None:
        return values[key][-1] if key in values else None

    rank = last("rank")
    is_number = rank is not None and rank.isdecimal() and len(rank) < 10
    shown = last("trace") or (last("base") or "").split(",")[0] or None
    return Address(
        shown,
        last("with"),
        int(rank) if rank is not None and is_number else None,
        _window(last("window")),
    )


def _window(text: str | None) -> tuple[int, int] | None:
    """Return the window that `A-B` names in ns; None where it names none."""
    found = re.fullmatch(r"(\d{1,18})-(\d{1,18})", text or "", re.ASCII)
    if found is None or int(found[1]) >= int(found[2]):
        return None
    return int(found[1]), int(found[2])


def timeline_href(
    trace_id: str,
    *,
    rank: int | None = None,
    window: tuple[int, int] | None = None,
    selected: tuple[str, int] | None = None,
    marked: tuple[int, int] | None = None,
    other_id: str | None = None,
    narrowed: tuple[int, int] | None = None,
) -> str:
    """Return the address of the timeline page.

    Args:
        trace_id: Trace to show.
        rank: Rank, None for the trace's first.
        window: First and last nanosecond in view.
        selected: Table and row id of the selected slice.
        marked: Range whose statistics are shown, in ns.
        other_id: Second trace that shares the view.
        narrowed: Window that every page is narrowed to, in ns.
    """
    query: dict[str, Any] = {"trace": trace_id}
    if other_id:
        query["with"] = other_id
    if narrowed is not None:
        query["window"] = f"{narrowed[0]}-{narrowed[1]}"
    if rank is not None:
        query["rank"] = rank
    if window is not None:
        query["t0"], query["t1"] = window
    if selected is not None:
        query["sel"] = f"{selected[0]}:{selected[1]}"
    if marked is not None:
        query["range"] = f"{marked[0]}-{marked[1]}"
    return "/timeline?" + urlencode(query, safe=":")


def overlap_href(trace_id: str, *, rank: int | None = None) -> str:
    """Return the address of the overlap page of a trace."""
    query: dict[str, Any] = {"trace": trace_id}
    if rank is not None:
        query["rank"] = rank
    return "/overlap?" + urlencode(query)


def around(start_ns: int, end_ns: int, span_ns: int, *, room_fraction: float = 1.0) -> tuple[int, int]:
    """Return a window around an interval that leaves some room on both sides, within the trace."""
    room = max(int((end_ns - start_ns) * room_fraction), 500)
    low = max(start_ns - room, 0)
    return low, max(min(end_ns + room, max(span_ns, end_ns)), low + 1)
