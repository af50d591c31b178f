"""What a picture must show, from the tables alone, and what it does show, from its pixels alone."""

from __future__ import annotations

import numpy as np
from PIL import Image

from overlane.figures.palette import COLOURS

SHADE_SHARE = 0.2  # slices of one category are told apart by mixing in up to this much white or black
TOLERANCE = 3  # of 255: rounding of mixed colours


def cover(start_ns, end_ns, t0_ns, t1_ns, columns):
    """Return the share of each pixel column of [t0, t1) that sorted intervals without overlaps cover.

    Works on the total length covered up to each column's edges, in integers and one division at the end.
    """
    start, end = np.asarray(start_ns, np.int64), np.asarray(end_ns, np.int64)
    assert (start[1:] >= end[:-1]).all(), "these intervals overlap"
    done = np.concatenate([[0], np.cumsum(end - start)])
    edges = t0_ns + (t1_ns - t0_ns) * np.arange(columns + 1) / columns
    at = np.searchsorted(start, edges, side="right") - 1
    covered = np.where(at >= 0, done[at] + np.minimum(edges - start[at], (end - start)[at]), 0.0)
    return np.diff(covered) / ((t1_ns - t0_ns) / columns)


def spread(mask, by):
    """Return the mask with every true entry widened by `by` entries to both sides."""
    out = mask.copy()
    for k in range(1, by + 1):
        out[k:] |= mask[:-k]
        out[:-k] |= mask[k:]
    return out


def is_category(pixels, category, theme="light"):
    """Tell for pixels, shape (..., 3), whether they have a category's colour in one of its shades."""
    base = np.array([int(COLOURS[category][theme == "dark"][at : at + 2], 16) for at in (1, 3, 5)], float)
    pixels = np.asarray(pixels, float)
    found = np.zeros(pixels.shape[:-1], bool)
    for goal in (np.array([255.0] * 3), np.zeros(3)):
        way = goal - base
        share = ((pixels - base) @ way) / (way @ way)
        near = np.abs(pixels - base - share[..., None] * way).max(axis=-1) <= TOLERANCE
        found |= near & (share >= -0.01) & (share <= SHADE_SHARE + 0.01)
    return found


def lane_pixels(image: Image.Image, box: dict[str, float], lane) -> np.ndarray:
    """Return the pixels of a lane's plot, shape (height, width, 3); `box` is the plot on the page."""
    top = round(box["y"] + lane.y)
    left = round(box["x"])
    array = np.asarray(image)
    return array[top : top + round(lane.h), left : left + round(box["width"])]
