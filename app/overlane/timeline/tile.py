"""The answer to one viewport and its bytes on the wire."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from overlane.timeline.lending import Lender

__all__ = ["MAGIC", "NO_NAME", "Tile", "encode_tile"]

Array = npt.NDArray[Any]

MAGIC = 0x3154564F
"""`OVT1`, little-endian."""

NO_NAME = 0xFFFFFFFF
"""Name code of an item without a name."""

_HEADER = struct.Struct("<IIdddIIII")
_ALL_EXACT = 1

_lender = Lender()


@dataclass(frozen=True)
class Tile:
    """What to draw in one window, n items sorted by (lane, start).

    An item with `count` 1 is one slice as it is stored. An item with more is a run of neighbouring slices
    that are shorter than a pixel, from the start of the first to the end of the last.

    Attributes:
        t0_ns: Start of the window.
        t1_ns: End of the window.
        px: Width in pixels that was asked for.
        start_ns: int64 (n,), may lie before `t0_ns`.
        end_ns: int64 (n,).
        row: int64 (n,), row of the slice, or of the run's longest.
        count: int64 (n,), rows that the item stands for.
        name: uint32 (n,), code of the name or `NO_NAME`.
        lane: uint16 (n,), wire lane.
        busy_ns: int64 (n,), length of the union of the item's slices.
        busy: uint8 (n,), height: 255 for one slice, else the busy share of the run (at least 1), or a
            counter's value.
        category: uint8 (n,), code of the category with most busy time.
        names: JSON object from code to short name, UTF-8.
        is_exact: Every item is one slice.
    """

    t0_ns: int
    t1_ns: int
    px: int
    start_ns: Array
    end_ns: Array
    row: Array
    count: Array
    name: Array
    lane: Array
    busy_ns: Array
    busy: Array
    category: Array
    names: bytes
    is_exact: bool

    def __len__(self) -> int:
        return len(self.start_ns)


def encode_tile(tile: Tile) -> bytes:
    """Return the bytes of a tile: a 48-byte header, one array per column, the names; all little-endian."""
    window = tile.t1_ns - tile.t0_ns
    header = _HEADER.pack(
        MAGIC, len(tile), float(tile.t0_ns), float(tile.t1_ns), window / tile.px,
        len(tile.names), _ALL_EXACT if tile.is_exact else 0, 0, 0,
    )  # fmt: skip
    start, end, row, count, name, lane = _lender.columns(len(tile), "<f4", "<f4", "<u4", "<u4", "<u4", "<u2")
    np.subtract(tile.start_ns, tile.t0_ns, out=start, casting="unsafe")
    np.subtract(tile.end_ns, tile.t0_ns, out=end, casting="unsafe")
    row[...], count[...], name[...], lane[...] = tile.row, tile.count, tile.name, tile.lane
    padding = bytes(-24 * len(tile) % 4)
    columns = (start, end, row, count, name, lane, tile.busy, tile.category)
    return b"".join([header, *(column.data for column in columns), padding, tile.names])
