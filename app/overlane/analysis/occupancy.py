"""How many blocks of a kernel an SM holds, and whether there was room for one beside what ran.

The limits are those of the CUDA programming guide's table of technical specifications by compute capability.
Where a kernel's needs are not recorded they count as nothing, and usage is the least that any SM must have
had, so that "no room" is said only where it is certain.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from overlane.analysis.keys import Ids, known
from overlane.tables import numbers

__all__ = ["KernelNeeds", "SmLimits", "kernel_needs", "limits_of"]

_WARP_THREADS = 32
_REGISTER_UNIT = 256
"""Registers are given to warps in units of so many."""
_KIB = 1024


@dataclass(frozen=True)
class SmLimits:
    """What one SM can hold at once.

    Attributes:
        threads: Resident threads.
        blocks: Resident blocks.
        registers: 32-bit registers.
        shared_bytes: Shared memory.
        reserved_bytes: Shared memory that the system takes for every block.
    """

    threads: int
    blocks: int
    registers: int
    shared_bytes: int
    reserved_bytes: int


_TABLE = {  # compute capability: threads, blocks, KiB of shared memory
    "5.0": (2048, 32, 64),
    "5.2": (2048, 32, 96),
    "5.3": (2048, 32, 64),
    "6.0": (2048, 32, 64),
    "6.1": (2048, 32, 96),
    "6.2": (2048, 32, 64),
    "7.0": (2048, 32, 96),
    "7.2": (2048, 32, 96),
    "7.5": (1024, 16, 64),
    "8.0": (2048, 32, 164),
    "8.6": (1536, 16, 100),
    "8.7": (1536, 16, 164),
    "8.9": (1536, 24, 100),
    "9.0": (2048, 32, 228),
    "10.0": (2048, 32, 228),
    "10.3": (2048, 32, 228),
    "11.0": (1536, 24, 228),
    "12.0": (1536, 24, 100),
    "12.1": (1536, 24, 100),
}
_REGISTERS = 64 * _KIB
_FIRST_RESERVING = 8
"""From compute capability 8.0 on, a KiB of shared memory of every block is the system's."""


def limits_of(compute_capability: str | None) -> SmLimits | None:
    """Return what an SM of a compute capability holds, None where it is not known.

    Example:
        >>> limits_of("9.0").threads
        2048
    """
    if compute_capability not in _TABLE:
        return None
    threads, blocks, shared = _TABLE[compute_capability]
    reserved = _KIB if int(compute_capability.split(".")[0]) >= _FIRST_RESERVING else 0
    return SmLimits(threads, blocks, _REGISTERS, shared * _KIB, reserved)


@dataclass(frozen=True)
class KernelNeeds:
    """What blocks of kernels take, and how many there are; arrays in order of the given rows.

    Attributes:
        blocks: int64, blocks of the grid, -1 where not known.
        threads: int64, threads of a block in whole warps, -1 where not known.
        registers: int64, registers of a block, 0 where not known.
        shared_bytes: int64, shared memory of a block without what is reserved, 0 where not known.
        cluster: int64, blocks of a cluster, 1 without.
    """

    blocks: Ids
    threads: Ids
    registers: Ids
    shared_bytes: Ids
    cluster: Ids

    def blocks_per_sm(self, limits: SmLimits) -> Ids:
        """Return how many blocks an SM holds that runs nothing else; -1 where not known.

        Example:
            >>> one = np.array([1])
            >>> KernelNeeds(one, one * 256, one * 256 * 64, one * 0, one).blocks_per_sm(limits_of("9.0"))
            array([4])
        """
        by_threads = limits.threads // np.maximum(self.threads, _WARP_THREADS)
        by_registers = np.where(
            self.registers > 0, limits.registers // np.maximum(self.registers, 1), limits.blocks
        )
        shared = self.shared_bytes + limits.reserved_bytes
        by_shared = np.where(shared > 0, limits.shared_bytes // np.maximum(shared, 1), limits.blocks)
        held = np.minimum(np.minimum(by_threads, by_registers), np.minimum(by_shared, limits.blocks))
        return np.where(self.threads < 0, -1, held)


def kernel_needs(ops: pa.Table, rows: Ids) -> KernelNeeds:
    """Return what the blocks of some operations take.

    Args:
        ops: Table `ops`.
        rows: int64, shape (n,), rows that are kernels.
    """
    block = _product(ops["block"])[rows]
    threads = np.where(block < 0, -1, -(-block // _WARP_THREADS) * _WARP_THREADS)
    registers = known(ops["registers"], null=0)[rows]
    per_warp = -(-registers * _WARP_THREADS // _REGISTER_UNIT) * _REGISTER_UNIT
    return KernelNeeds(
        _product(ops["grid"])[rows],
        threads,
        np.where(threads < 0, 0, per_warp * (threads // _WARP_THREADS)),
        known(ops["shared_bytes"], null=0)[rows],
        np.maximum(_product(ops["cluster"])[rows], 1),
    )


def _product(column: pa.ChunkedArray) -> Ids:
    """Return the product of each list of three, -1 for null."""
    parts = []
    for chunk in column.chunks:
        product = np.full(len(chunk), -1)
        if chunk.null_count < len(chunk):
            rows = np.flatnonzero(numbers(chunk.is_valid().cast(pa.uint8())))
            # A list that is no triple of sizes says nothing.
            lengths = numbers(chunk.value_lengths(), null=0)[rows]
            begins = np.cumsum(lengths) - lengths
            values = numbers(chunk.flatten()).astype(np.int64)
            fits = (lengths > 0).nonzero()[0]
            product[rows[fits]] = np.multiply.reduceat(values, begins[fits]) if len(fits) else -1
        parts.append(product)
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)
