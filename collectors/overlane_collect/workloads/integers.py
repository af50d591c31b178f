"""Integers on the device that kernels double and count up: what the smaller workloads have in common."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

from overlane_collect._cuda import Buffer, Gpu, Kernel, Stream
from overlane_collect.workloads.base import Outcome

__all__ = ["BLOCK", "INT_BYTES", "Integers", "verdict"]

BLOCK = 256
INT_BYTES = 4


class Integers:
    """An array of integers on the device, 0 at first.

    Args:
        gpu: Device.
        count: Integers.
        buffer: Memory to use; by default newly allocated.
    """

    def __init__(self, gpu: Gpu, count: int, *, buffer: Buffer | None = None) -> None:
        self.gpu = gpu
        self.count = count
        self.buffer = buffer or gpu.allocate(count * INT_BYTES)
        self.set(np.zeros(count, np.int32))

    @property
    def blocks(self) -> int:
        """Blocks of a kernel with one thread per integer."""
        return -(-self.count // BLOCK)

    def arguments(self, *more: tuple[Any, Any]) -> list[tuple[Any, Any]]:
        """Return address and length as kernel arguments, and what else the kernel takes."""
        return [(self.buffer.address, ctypes.c_void_p), (self.count, ctypes.c_long), *more]

    def apply(self, kernel: Kernel, stream: Stream, *more: tuple[Any, Any], cooperative: bool = False) -> int:
        """Launch a kernel that reads and writes all of them; returns the launch's number."""
        spans = [self.buffer.span()]
        return self.gpu.launch(
            kernel,
            self.blocks,
            BLOCK,
            stream,
            self.arguments(*more),
            reads=spans,
            writes=spans,
            cooperative=cooperative,
        )

    def set(self, values: npt.NDArray[np.int32]) -> None:
        """Set all of them, outside of what is measured."""
        self.gpu.call("cuMemcpyHtoD", self.buffer.address, values.ctypes.data, values.nbytes)

    def values(self) -> npt.NDArray[np.int32]:
        """Fetch all of them, once all work has ended."""
        result = np.empty(self.count, np.int32)
        self.gpu.call("cuMemcpyDtoH", result.ctypes.data, self.buffer.address, result.nbytes)
        return result

    def mismatches(self, expected: npt.NDArray[Any] | int) -> int:
        """Return how many are not as expected."""
        return int(np.count_nonzero(self.values() != expected))


def verdict(mismatches: int, facts: str, **measured: Any) -> Outcome:
    """Return the outcome of a workload that compares every integer.

    Args:
        mismatches: Integers that are not as expected.
        facts: What to print beside that.
        measured: Figures for the header.
    """
    return Outcome(
        mismatches == 0, [f"{facts} mismatches={mismatches}"], {"mismatches": mismatches, **measured}
    )
