"""Kernels on two streams, one on the default stream, and one on the first stream again."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import numpy as np

from overlane_collect._cuda import LEGACY, PER_THREAD, Gpu, Stream
from overlane_collect.annotate import annotate
from overlane_collect.workloads.base import Outcome, Parameter
from overlane_collect.workloads.kernels import SOURCE

__all__ = ["DefaultStream"]

_U64 = ctypes.c_uint64
_POINTER = ctypes.c_void_p
_BLOCK_BYTES = 24
_MODES = {
    "legacy": "streams wait for the legacy default stream",
    "per-thread": "the per-thread default stream makes no barrier between them",
    "nonblocking": "streams that the legacy default stream does not hold",
    "mixed": "the legacy and the per-thread default stream, which do wait for each other",
}


class DefaultStream:
    """Shows the default stream as a barrier, and each way around it."""

    name = "default-stream"
    description = "two streams and a kernel on the default stream between them"
    parameters: tuple[Parameter, ...] = (
        Parameter("mode", "legacy", "; ".join(f"{k}: {v}" for k, v in _MODES.items()), tuple(_MODES)),
        Parameter("kernel_us", 2000, "how long each kernel is busy, in microseconds", least=1),
    )

    def run(self, gpu: Gpu, values: Mapping[str, Any]) -> Outcome:
        """Run the kernels; check that each ran once and that none passed a barrier that CUDA promises."""
        kernel = gpu.compile(SOURCE, "stamped_spin")["stamped_spin"]
        blocking = values["mode"] != "nonblocking"
        first, second = (gpu.stream(name, blocking=blocking) for name in ("first", "second"))
        order = self._order(values["mode"], first, second)
        slots = gpu.allocate(8 * len(order))
        logs = [gpu.allocate(_BLOCK_BYTES) for _ in order]
        zeros = np.zeros(len(order), np.uint64)
        gpu.call("cuMemcpyHtoD", slots.address, zeros.ctypes.data, zeros.nbytes)
        gpu.synchronize()
        numbers = []
        with annotate(f"default stream, {values['mode']}"):
            for place, (_, stream) in enumerate(order):
                slot = slots.span(place * 8, 8)
                arguments = [
                    (slot.address, _POINTER),
                    (values["kernel_us"] * 1000, _U64),
                    (logs[place].address, _POINTER),
                ]
                spans = [slot, logs[place].span()]
                numbers.append(gpu.launch(kernel, 1, 1, stream, arguments, reads=[slot], writes=spans))
            gpu.synchronize()
        counts = np.zeros(len(order), np.uint64)
        gpu.call("cuMemcpyDtoH", counts.ctypes.data, slots.address, counts.nbytes)
        stamps = {
            name: gpu.read_blocks(number, log, 1)[0]
            for (name, _), number, log in zip(order, numbers, logs, strict=True)
        }
        wrong = int(np.count_nonzero(counts != 1 + values["shift"]))
        broken = [f"{a} before {b}" for a, b in self._promised(values["mode"]) if stamps[a][2] > stamps[b][1]]
        total = int(max(s[2] for s in stamps.values()) - min(s[1] for s in stamps.values()))
        return Outcome(
            wrong == 0 and not broken,
            [f"kernels={len(order)} wrong={wrong} milliseconds={total / 1e6:.3f}"]
            + [f"order broken: {pair}" for pair in broken],
            {"wrong": wrong, "broken": broken, "total_ns": total},
        )

    @staticmethod
    def _order(mode: str, first: Stream, second: Stream) -> list[tuple[str, Stream]]:
        """Return names and streams of the kernels in the order of their launch."""
        if mode == "mixed":
            return [("first", first), ("legacy", LEGACY), ("per-thread", PER_THREAD), ("first again", first)]
        default = PER_THREAD if mode == "per-thread" else LEGACY
        return [("first", first), ("second", second), ("default", default), ("first again", first)]

    @staticmethod
    def _promised(mode: str) -> list[tuple[str, str]]:
        """Return pairs of kernels of which CUDA promises that the first has ended when the second starts."""
        stream_order = [("first", "first again")]
        if mode == "legacy":
            return [*stream_order, ("first", "default"), ("second", "default"), ("default", "first again")]
        if mode == "mixed":
            return [*stream_order, ("first", "legacy"), ("legacy", "per-thread"), ("legacy", "first again")]
        return stream_order
