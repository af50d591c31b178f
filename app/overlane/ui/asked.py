"""What a request asks for: numbers, lanes, ranks and traces of an address, refused in one sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flask import request

from overlane.errors import OverlaneError

if TYPE_CHECKING:
    from overlane.cache import OpenedTrace
    from overlane.trace import Trace
    from overlane.ui.store import Listing, TraceStore

__all__ = ["BadRequestError", "NotReadyError", "lanes", "line", "opened_trace", "rank", "rank_of", "whole"]

MAX_LANE = 65_535
MAX_QUERY = 400
"""Letters of a search; more is no name that anybody types."""
_LANE_DIGITS = 20
_WAIT_S = 2.0


class NotReadyError(Exception):
    """The trace is being opened, or its causes computed; the client asks again."""

    def __init__(self, listing: Listing, *, what: str = "") -> None:
        opening = f"{listing.name} is being opened ({round(100 * listing.progress)} %)"
        doing = f"{what} {listing.name} are being computed" if what else opening
        super().__init__(f"{doing}; ask again in a moment")
        self.listing = listing


class BadRequestError(OverlaneError):
    """A parameter of the address makes no sense."""


def whole(name: str, *, low: int, high: int) -> int:
    """Return a whole number of the address.

    Raises:
        BadRequestError: It is none, or not from `low` to `high`.
    """
    text = request.args.get(name, "")
    try:
        value = int(text)
    except ValueError:
        raise BadRequestError(f"{name} must be a whole number, not {text[:40]!r}") from None
    if not low <= value <= high:
        raise BadRequestError(f"{name} must lie from {low} to {high}, not {text[:40]}")
    return value


def lanes(text: str | None) -> list[int] | None:
    """Read wire lanes as in `0-12,15`; nothing asks for all."""
    if not text:
        return None
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not first.isdecimal() or (last and not last.isdecimal()):
            raise BadRequestError(f"lanes must read like 0-12,15, not {text[:60]!r}")
        # Python refuses to read numbers of thousands of digits, in words of its own.
        low, high = (
            int(each) if len(each) <= _LANE_DIGITS else MAX_LANE + 1 for each in (first, last or first)
        )
        if low > high or high > MAX_LANE:
            raise BadRequestError(f"lanes must rise and stay below {MAX_LANE + 1}, not {part[:40]!r}")
        found.extend(range(low, high + 1))
        if len(found) > MAX_LANE:
            raise BadRequestError("lanes repeat themselves; name each lane once")
    return found


def line() -> str:
    """Return what is searched for."""
    typed = request.args.get("q", "").strip()
    if len(typed) > MAX_QUERY:
        raise BadRequestError(f"a search has at most {MAX_QUERY} letters, not {len(typed)}")
    return typed


def rank_of(trace: Trace, wanted: int | None) -> int | None:
    """Return the rank to show: the one asked for, or the trace's first.

    Raises:
        OverlaneError: The trace has no such rank.
    """
    if wanted is None:
        return trace.ranks[0]
    if wanted not in trace.ranks:
        known = ", ".join("none named" if rank is None else str(rank) for rank in trace.ranks)
        raise BadRequestError(f"{trace.name} has no rank {wanted}; it has: {known}")
    return wanted


def opened_trace(store: TraceStore, trace_id: str) -> OpenedTrace:
    """Return an opened trace; waits a moment for one that is being opened.

    Raises:
        NotReadyError: It is still being opened.
        NotInLibraryError: There is no such trace.
        OverlaneError: It cannot be read.
    """
    opened = store.opened(trace_id, wait_s=_WAIT_S)
    if opened is None:
        raise NotReadyError(store.listing(trace_id))
    return opened


def rank(opened: OpenedTrace) -> int | None:
    """Return the rank of the address, or the trace's first."""
    text = request.args.get("rank")
    return rank_of(opened.trace, None if text in {None, "", "null"} else whole("rank", low=0, high=2**31 - 1))
