"""How much work one operation is, so that only equal work is compared: bytes moved, threads launched."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overlane.analysis.keys import NULL, Ids, known
from overlane.analysis.operations import triple_products
from overlane.trace import Trace

__all__ = ["Sizes", "sizes"]


@dataclass(frozen=True)
class Sizes:
    """The work of each operation of a trace.

    Attributes:
        bytes: Bytes moved or set, -1 where not recorded; int64, shape (operations,).
        threads: Threads of the launch, -1 where not recorded.
    """

    bytes: Ids
    threads: Ids


def sizes(trace: Trace) -> Sizes:
    """Return how much work each operation of a trace is."""
    ops = trace.table("ops")
    moved = known(ops["bytes"])
    blocks, threads = triple_products(ops["grid"]), triple_products(ops["block"])
    is_known = (blocks != NULL) & (threads != NULL)
    return Sizes(
        np.where(moved == NULL, -1, moved), np.where(is_known, blocks * np.where(is_known, threads, 0), -1)
    )
