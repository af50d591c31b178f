"""A communication-like kernel beside matrix products: do both make progress at once?"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from overlane_collect._cuda import Gpu, Stream
from overlane_collect.workloads.base import Outcome, Parameter
from overlane_collect.workloads.integers import BLOCK, Integers
from overlane_collect.workloads.kernels import SOURCE

__all__ = ["SIDE_BY_SIDE", "run_side_by_side"]

_POINTER = ctypes.c_void_p
_BLOCK_BYTES = 24
_SM, _START, _END = 0, 1, 2

SIDE_BY_SIDE = (
    Parameter("products", 2, "matrix products of the modes concurrency and shared", least=1),
    Parameter("matrix", 2048, "rows and columns of their matrices", least=16),
    Parameter("exchange_blocks", 8, "blocks of the communication-like kernel", least=1),
    Parameter("exchange_elements", 1 << 20, "integers that it moves in each round", least=1),
    Parameter("exchange_rounds", 16, "rounds of it", least=1),
)
"""Parameters of the modes `concurrency` and `shared`."""


def run_side_by_side(gpu: Gpu, exchange: Stream, product: Stream, values: Mapping[str, Any]) -> Outcome:
    """Start matrix products, then the communication-like kernel, and see from their blocks what overlapped.

    Args:
        gpu: Device.
        exchange: Stream of the communication-like kernel.
        product: Stream of the matrix products.
        values: Parameters.
    """
    kernels = gpu.compile(SOURCE, "stamped_exchange", "stamped_product")
    size, count = values["matrix"], values["exchange_elements"]
    one, two, result = (Integers(gpu, size * size) for _ in range(3))
    source, target = Integers(gpu, count), Integers(gpu, count)
    one.set(np.ones(size * size, np.int32))
    two.set(np.tile(np.arange(size, dtype=np.int32), size))
    source.set(np.arange(count, dtype=np.int32))
    logs = [gpu.allocate(_BLOCK_BYTES * result.blocks) for _ in range(values["products"])]
    exchange_log = gpu.allocate(_BLOCK_BYTES * values["exchange_blocks"])
    gpu.synchronize()
    numbers = []
    for log in logs:
        arguments = [(b.buffer.address, _POINTER) for b in (one, two, result)]
        numbers.append(
            gpu.launch(
                kernels["stamped_product"],
                result.blocks,
                BLOCK,
                product,
                [*arguments, (size, ctypes.c_int), (log.address, _POINTER)],
                reads=[one.buffer.span(), two.buffer.span()],
                writes=[result.buffer.span(), log.span()],
            )
        )
    moved = gpu.launch(
        kernels["stamped_exchange"],
        values["exchange_blocks"],
        BLOCK,
        exchange,
        [
            (target.buffer.address, _POINTER),
            (source.buffer.address, _POINTER),
            (count, ctypes.c_long),
            (values["exchange_rounds"], ctypes.c_int),
            (exchange_log.address, _POINTER),
        ],
        reads=[source.buffer.span()],
        writes=[target.buffer.span(), exchange_log.span()],
    )
    gpu.synchronize()
    products = [gpu.read_blocks(n, log, result.blocks) for n, log in zip(numbers, logs, strict=True)]
    exchanged = gpu.read_blocks(moved, exchange_log, values["exchange_blocks"])
    expected = np.tile(np.arange(size, dtype=np.int32) * size, size) + values["shift"]
    wrong = result.mismatches(expected)
    wrong += target.mismatches(np.arange(count, dtype=np.int32) + values["exchange_rounds"])
    return _outcome(np.concatenate(products), exchanged, wrong)


def _outcome(products: npt.NDArray[np.uint64], exchanged: npt.NDArray[np.uint64], wrong: int) -> Outcome:
    """Say what the blocks' stamps show; shape (blocks, 3) each."""
    begin, end = int(exchanged[:, _START].min()), int(exchanged[:, _END].max())
    first, last = int(products[:, _START].min()), int(products[:, _END].max())
    beside = max(min(end, last) - max(begin, first), 0)
    shared = len(set(exchanged[:, _SM].tolist()) & set(products[:, _SM].tolist()))
    measured = {
        "exchange_us": (end - begin) / 1e3,
        "products_us": (last - first) / 1e3,
        "exchange_waited_us": (begin - first) / 1e3,
        "beside_fraction": beside / max(end - begin, 1),
        "shared_sms": shared,
        "mismatches": wrong,
    }
    line = (
        f"exchange began {measured['exchange_waited_us']:.0f} us after the products, took "
        f"{measured['exchange_us']:.0f} us, {measured['beside_fraction']:.0%} of it beside them, "
        f"on {shared} SMs of theirs; products {measured['products_us']:.0f} us; mismatches={wrong}"
    )
    return Outcome(wrong == 0, [line], measured)
