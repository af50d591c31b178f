"""The timeline: an index of lanes with levels of detail, viewport answers, their bytes on the wire.

Names are loaded when they are first used, since most of them load compiled code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from overlane.timeline.categories import CATEGORIES
    from overlane.timeline.tile import Tile, encode_tile
    from overlane.timeline.timeline import Timeline
    from overlane.timeline.version import INDEX_VERSION
    from overlane.timeline.warm import warm_up

__all__ = ["CATEGORIES", "INDEX_VERSION", "Tile", "Timeline", "encode_tile", "warm_up"]

_HOMES = {
    "CATEGORIES": "categories",
    "INDEX_VERSION": "version",
    "Tile": "tile",
    "Timeline": "timeline",
    "encode_tile": "tile",
    "warm_up": "warm",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
