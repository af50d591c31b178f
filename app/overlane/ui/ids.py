"""Ids of the elements that callbacks, the canvas and tests speak of."""

from __future__ import annotations

__all__ = [
    "CAPABILITIES",
    "COMPARE",
    "DETAILS",
    "FAULT",
    "HEADER_TOOLS",
    "HEADER_TRACE",
    "LIBRARY",
    "LIBRARY_FOUND",
    "LIBRARY_NAME",
    "LIBRARY_OPEN",
    "LIBRARY_RESCAN",
    "LOCATION",
    "MAIN",
    "NAV",
    "NOTICE",
    "OPEN",
    "POLL",
    "RANGE",
    "RANGE_PANEL",
    "RANK",
    "REASONS",
    "SEARCH",
    "SEARCH_PANEL",
    "SELECTION",
    "SUMMARY",
    "THEME",
    "TIMELINE",
    "TIMELINE_OTHER",
    "VIEW",
    "WHY",
    "page_id",
    "path_id",
]

LOCATION = "ov-url"
MAIN = "ov-main"
OPEN = "ov-open"  # which trace is shown and how far its opening is
POLL = "ov-poll"
FAULT = "ov-fault"
THEME = "ov-theme"

# Set by the canvas.
SELECTION = "ov-selection"
RANGE = "ov-range"
REASONS = "ov-reasons"  # the causes of the trace are known
VIEW = "ov-view"

HEADER_TRACE = "ov-header-trace"
HEADER_TOOLS = "ov-header-tools"
CAPABILITIES = "ov-capabilities"
COMPARE = "ov-compare"
RANK = "ov-rank"
NAV = "ov-nav"

SEARCH = "ov-search"
SEARCH_PANEL = "ov-search-panel"

TIMELINE = "timeline"
TIMELINE_OTHER = "timeline-b"
NOTICE = "ov-notice"
DETAILS = "ov-details"
RANGE_PANEL = "ov-range-panel"
SUMMARY = "ov-summary"

LIBRARY = "ov-library"
LIBRARY_NAME = "ov-library-name"
LIBRARY_OPEN = "ov-library-open"
LIBRARY_RESCAN = "ov-library-rescan"
LIBRARY_FOUND = "ov-library-found"
WHY = "ov-why"  # type of the ids of what opens the reasons of a card


def page_id(name: str) -> str:
    """Return the id of a page's container."""
    return f"page-{name}"


def path_id(name: str) -> str:
    """Return the id of the store that holds the address's path while a page is shown, else nothing.

    What a page does when it is shown hangs on its own store, so that a change of page asks nothing of others.
    """
    return f"ov-at-{name}"
