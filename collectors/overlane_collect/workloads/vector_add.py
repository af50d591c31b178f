"""Vector addition: two copies up, one kernel, one copy down, per chunk."""

from __future__ import annotations

import ctypes
import itertools
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from overlane_collect._cuda import Buffer, Gpu, Kernel, Span, Stream
from overlane_collect.annotate import annotate
from overlane_collect.workloads.base import Outcome, Parameter
from overlane_collect.workloads.kernels import SOURCE

__all__ = ["VectorAdd"]

_BLOCK = 256
_FLOAT_BYTES = 4
_EXACT = 1 << 22  # sums of two integers below this are exact in 32-bit floats


class VectorAdd:
    """Shows the way from no overlap to three engines at once, and that pageable copies overlap nothing."""

    name = "vector-add"
    description = "host to device, add, device to host, in chunks over streams, pinned or pageable"
    parameters: tuple[Parameter, ...] = (
        Parameter("elements", 1 << 24, "elements of each vector", least=1),
        Parameter("memory", "pinned", "host memory", ("pinned", "pageable")),
        Parameter("streams", 4, "streams that take the chunks in turn", least=1),
        Parameter("chunks", 16, "parts of the vectors", least=1),
        Parameter("rounds", 2, "times that everything is done; the first warms up", least=1),
    )

    def run(self, gpu: Gpu, values: Mapping[str, Any]) -> Outcome:
        """Add, and compare every element with its exact sum."""
        count = values["elements"]
        length = count * _FLOAT_BYTES
        kernel = gpu.compile(SOURCE, "add")["add"]
        host = [gpu.host_memory(length, values["memory"]) for _ in range(3)]
        device = [gpu.allocate(length) for _ in range(3)]
        index = np.arange(count, dtype=np.int64)
        first, second, result = (buffer.view(np.float32) for buffer in host)
        first[:] = index % _EXACT
        second[:] = (index * 7) % _EXACT
        streams = [gpu.stream(f"chunks {n}") for n in range(values["streams"])]
        gpu.synchronize()
        times = []
        for round_number in range(values["rounds"]):
            result.fill(-1.0)
            with annotate(f"round {round_number}"):
                began = time.perf_counter_ns()
                self._enqueue(gpu, kernel, host=host, device=device, streams=streams, values=values)
                gpu.synchronize()
                times.append((time.perf_counter_ns() - began) / 1e6)
        expected = first.astype(np.float64) + second + values["shift"]
        mismatches = int(np.count_nonzero(result != expected))
        return Outcome(
            mismatches == 0,
            [f"elements={count} mismatches={mismatches} milliseconds={min(times):.3f}"],
            {"milliseconds": times, "mismatches": mismatches},
        )

    def _enqueue(
        self,
        gpu: Gpu,
        kernel: Kernel,
        *,
        host: Sequence[Buffer],
        device: Sequence[Buffer],
        streams: Sequence[Stream],
        values: Mapping[str, Any],
    ) -> None:
        count, chunks = values["elements"], values["chunks"]
        borders = [count * n // chunks for n in range(chunks + 1)]
        for number, (low, high) in enumerate(itertools.pairwise(borders)):
            if low == high:
                continue
            stream = streams[number % len(streams)]
            part = Span(low * _FLOAT_BYTES, (high - low) * _FLOAT_BYTES)
            on_host = [buffer.span(*part) for buffer in host]
            on_device = [buffer.span(*part) for buffer in device]
            for place in (0, 1):
                gpu.copy_up(on_device[place], on_host[place], stream)
            gpu.launch(
                kernel,
                -(-(high - low) // _BLOCK),
                _BLOCK,
                stream,
                [(span.address, ctypes.c_void_p) for span in on_device] + [(high - low, ctypes.c_long)],
                reads=on_device[:2],
                writes=on_device[2:],
            )
            gpu.copy_down(on_host[2], on_device[2], stream)
