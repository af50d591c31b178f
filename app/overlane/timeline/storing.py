"""The files of an index: room taken before it is written, sense checked before compiled code reads it.

Compiled loops check no bounds, so what they index with has to make sense even in a damaged file: `check`
looks at every offset and side table, and the loops bound by themselves what stands in the large arrays
(places, rows of tree nodes, the number of items).
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from overlane.timeline.categories import CATEGORY_LIMIT
from overlane.timeline.slices import HEAD, LEAF_BITS, Slices

if TYPE_CHECKING:
    from overlane.timeline.index import Extras

__all__ = ["check", "create", "node_offsets", "save"]

Array = npt.NDArray[Any]

_CHUNK_BYTES = 1 << 20
_CANNOT_RESERVE = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})

_TYPES: dict[str, tuple[type[np.generic], str]] = {
    "start": (np.int64, "slices"),
    "duration": (np.uint32, "slices"),
    "row": (np.uint32, "slices"),
    "place": (np.uint8, "slices"),
    "long_at": (np.int64, "longs"),
    "long_duration": (np.int64, "longs"),
    "lane_offset": (np.int64, "bounds"),
    "node_offset": (np.int64, "bounds"),
    "category_of": (np.uint8, "categories"),
    "width": (np.int64, "lanes"),
    "nodes": (np.int64, "words"),
    "weight_at": (np.int64, "lanes"),
    "weight_sum": (np.int64, "weights"),
    "height_at": (np.int64, "lanes"),
    "height": (np.uint8, "heights"),
}
"""Type of each stored array and what its shape counts."""


def create(folder: Path, name: str, shape: tuple[int, ...], dtype: Any) -> Array:
    """Return a new array of zeros, mapped from a file whose blocks are taken already.

    A sparse file takes its blocks while it is written through the mapping, and where the disk is full the
    process would die of SIGBUS.

    Raises:
        OSError: The file cannot be written, as on a full disk.
    """
    path = folder / f"{name}.npy"
    if 0 in shape:
        np.save(path, np.zeros(shape, dtype))
        return np.zeros(shape, dtype)
    mapped = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
    with path.open("r+b") as file:
        _reserve(file.fileno())
    return np.asarray(mapped)


def save(folder: Path, name: str, values: Array) -> None:
    """Store an array as `create` does; `numpy.save` tells a full disk from other faults only in its words.

    Raises:
        OSError: The file cannot be written, as on a full disk.
    """
    target = create(folder, name, values.shape, values.dtype)
    target[...] = values


def _reserve(handle: int) -> None:
    """Take all blocks of a file, without changing what it holds."""
    size = os.fstat(handle).st_size
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(handle, 0, size)
            return
    except OSError as error:
        if error.errno not in _CANNOT_RESERVE:
            raise
    for at in range(0, size, _CHUNK_BYTES):
        os.pwrite(handle, os.pread(handle, _CHUNK_BYTES, at), at)


def node_offsets(lane_offset: Array, width: Array) -> Array:
    """Return the first word of each lane's tree and, last, the words of all trees: int64 (lanes + 1,)."""
    blocks = np.diff(lane_offset) >> LEAF_BITS
    number = np.zeros_like(blocks)
    while blocks.any():
        number += blocks
        blocks >>= 1
    return np.concatenate([[0], np.cumsum(number * (HEAD + width))]).astype(np.int64)


def check(slices: Slices, extras: Extras) -> None:
    """Check all that compiled code or a shape relies on, without reading the large arrays.

    Raises:
        ValueError: The index is damaged.
    """
    arrays = slices._asdict() | vars(extras)
    lanes, total = len(slices.width), len(slices.start)
    shapes = {
        "slices": (total,),
        "longs": (len(slices.long_at),),
        "bounds": (lanes + 1,),
        "categories": (lanes, CATEGORY_LIMIT),
        "lanes": (lanes,),
        "words": (len(slices.nodes),),
        "weights": (len(extras.weight_sum),),
        "heights": (len(extras.height),),
    }
    for name, (dtype, counted) in _TYPES.items():
        values = arrays[name]
        if values.dtype != dtype or values.shape != shapes[counted] or not values.flags.c_contiguous:
            raise ValueError(f"{name} is damaged: {values.dtype} of shape {values.shape}")
    sizes = np.diff(slices.lane_offset)
    long_at = slices.long_at
    facts = {
        "lane_offset": slices.lane_offset[0] == 0 and slices.lane_offset[-1] == total and (sizes >= 0).all(),
        "width": ((slices.width >= 0) & (slices.width <= CATEGORY_LIMIT)).all(),
        "category_of": (slices.category_of < CATEGORY_LIMIT).all(),
        "long_at": not len(long_at)
        or (long_at[0] >= 0 and long_at[-1] < total and (np.diff(long_at) > 0).all()),
        "weight_at": _fits(extras.weight_at, sizes + 1, len(extras.weight_sum)),
        "height_at": _fits(extras.height_at, sizes, len(extras.height)),
    }
    for name, is_sound in facts.items():
        if not is_sound:
            raise ValueError(f"{name} is damaged")
    words = node_offsets(slices.lane_offset, slices.width)
    if not np.array_equal(slices.node_offset, words) or words[-1] != len(slices.nodes):
        raise ValueError("node_offset is damaged")


def _fits(at: Array, sizes: Array, room: int) -> bool:
    """Tell whether the stretches that begin at `at` (-1 for none) lie within the room."""
    return bool(((at == -1) | ((at >= 0) & (at <= room - sizes))).all())
