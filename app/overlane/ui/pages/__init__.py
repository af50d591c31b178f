"""The pages of the dashboard: one module each, listed here and nowhere else.

All pages stand in the static layout and are shown or hidden, since Dash remounts whatever a callback
returns: a canvas with its zoom and selection would be thrown away. To add a page, write a module with the
members of `Page` and put it into `PAGES`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from overlane.ui.pages import (
    advice,
    compare,
    hazards,
    library,
    operations,
    overlap,
    partitions,
    path,
    timeline,
    waits,
)

if TYPE_CHECKING:
    import dash
    from dash.development.base_component import Component

    from overlane.ui.store import TraceStore

__all__ = ["PAGES", "Page"]


class Page(Protocol):
    """One page.

    Attributes:
        NAME: Its name in addresses (`/NAME`) and in ids.
        TITLE: Its name for people.
    """

    NAME: str
    TITLE: str

    def layout(self) -> Component:
        """Return the page's static elements; they exist once and are never returned by a callback."""

    def register(self, app: dash.Dash, store: TraceStore) -> None:
        """Attach the page's callbacks to an app."""


PAGES: tuple[Page, ...] = (
    library,
    timeline,
    advice,
    waits,
    overlap,
    path,
    partitions,
    hazards,
    operations,
    compare,
)
"""All pages in the order of the navigation; the first one is also at `/`."""
