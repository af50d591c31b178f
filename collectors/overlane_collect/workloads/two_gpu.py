"""Two devices that sum their numbers by peer copies, as collectives do, beside or after other work."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from overlane_collect._cuda import Buffer, Event, Gpu, Kernel, Span, Stream
from overlane_collect.errors import NoGpuError
from overlane_collect.workloads.base import Outcome, Parameter
from overlane_collect.workloads.integers import BLOCK, INT_BYTES, Integers, verdict
from overlane_collect.workloads.kernels import SOURCE

__all__ = ["TwoGpu"]

_POINTER = ctypes.c_void_p
_SECOND_NUMBERS = 1 << 20  # marks of the second device come after all of the first
_MODES = {
    "overlap": "the sums go on streams of their own, beside the other work",
    "serial": "the sums and the other work share a stream on each device",
}


class _Side(NamedTuple):
    """One device."""

    gpu: Gpu
    kernels: dict[str, Kernel]
    numbers: Integers
    received: Buffer
    work: Integers
    exchange: Stream
    compute: Stream
    sent: Event
    gathered: Event


class TwoGpu:
    """Shows what an exchange between devices costs, and that it can go on beside other work."""

    name = "two-gpu"
    description = "two devices that sum their numbers by peer copies, beside or after other work"
    parameters: tuple[Parameter, ...] = (
        Parameter("mode", "overlap", "; ".join(f"{k}: {v}" for k, v in _MODES.items()), tuple(_MODES)),
        Parameter("rounds", 4, "sums", least=1),
        Parameter("elements", 1 << 22, "integers of each device; an even number", least=2),
        Parameter("turns", 20000, "length of the other work's kernel, in turns of a loop", least=0),
    )

    def run(self, gpu: Gpu, values: Mapping[str, Any]) -> Outcome:
        """Run; both devices must hold the sum of all, doubled with each further round.

        Raises:
            NoGpuError: There is no second device.
        """
        found = int(gpu.call("cuDeviceGetCount"))
        if found < 2:
            raise NoGpuError(f"two-gpu needs two GPUs and this machine has {found}; run it where two are")
        first = self._side(gpu, 0, values)
        other = Gpu(1, gpu.log, numbered_from=_SECOND_NUMBERS)
        other.observer = gpu.observer
        other.activate()
        sides = (first, self._side(other, 1, values))
        direct = self._connect(sides)
        began = time.perf_counter_ns()
        for _ in range(values["rounds"]):
            for side in sides:
                side.gpu.activate()
                side.work.apply(side.kernels["twice"], side.compute, (values["turns"], ctypes.c_int))
            self._sum(sides)
        for side in sides:
            side.gpu.activate()
            side.gpu.synchronize()
        milliseconds = (time.perf_counter_ns() - began) / 1e6
        wrong = 0
        for side in reversed(sides):
            side.gpu.activate()
            wrong += side.numbers.mismatches(3 * (1 << (values["rounds"] - 1)) + values["shift"])
        facts = (
            f"rounds={values['rounds']} direct={'yes' if direct else 'no'} milliseconds={milliseconds:.3f}"
        )
        return verdict(wrong, facts, milliseconds=milliseconds, direct=direct)

    @staticmethod
    def _side(gpu: Gpu, rank: int, values: Mapping[str, Any]) -> _Side:
        count = values["elements"] // 2 * 2
        numbers = Integers(gpu, count)
        numbers.set(np.full(count, rank + 1, np.int32))
        exchange = gpu.stream(f"exchange {rank}")
        compute = exchange if values["mode"] == "serial" else gpu.stream(f"compute {rank}")
        return _Side(
            gpu,
            gpu.compile(SOURCE, "accumulate", "twice"),
            numbers,
            gpu.allocate(count // 2 * INT_BYTES),
            Integers(gpu, 1 << 16),
            exchange,
            compute,
            gpu.event(timing=False),
            gpu.event(timing=False),
        )

    @staticmethod
    def _connect(sides: tuple[_Side, _Side]) -> bool:
        """Let each device reach the other's memory; tells whether they can, else copies go by the host."""
        able = True
        for side, other in (sides, sides[::-1]):
            able &= bool(side.gpu.call("cuDeviceCanAccessPeer", side.gpu.device, other.gpu.device))
        for side, other in (sides, sides[::-1]) if able else ():
            side.gpu.activate()
            side.gpu.call("cuCtxEnablePeerAccess", other.gpu.context, 0)
            side.gpu.synchronize()
        return able

    def _sum(self, sides: tuple[_Side, _Side]) -> None:
        """Sum on both devices: each adds up one half, and then sends it to the other."""
        half = sides[0].received.bytes
        for rank, (side, other) in enumerate((sides, sides[::-1])):
            self._send(side, other, side.numbers.buffer.span((1 - rank) * half, half), other.received.span())
            side.gpu.record(side.sent, side.exchange)
        for rank, (side, other) in enumerate((sides, sides[::-1])):
            side.gpu.activate()
            side.gpu.wait(side.exchange, other.sent)
            mine = side.numbers.buffer.span(rank * half, half)
            count = half // INT_BYTES
            side.gpu.launch(
                side.kernels["accumulate"],
                -(-count // BLOCK),
                BLOCK,
                side.exchange,
                [(mine.address, _POINTER), (side.received.address, _POINTER), (count, ctypes.c_long)],
                reads=[mine, side.received.span()],
                writes=[mine],
            )
            self._send(side, other, mine, other.numbers.buffer.span(rank * half, half))
            side.gpu.record(side.gathered, side.exchange)
        for side, other in (sides, sides[::-1]):
            side.gpu.activate()
            side.gpu.wait(side.exchange, other.gathered)

    @staticmethod
    def _send(side: _Side, other: _Side, source: Span, target: Span) -> None:
        """Copy half of the numbers to the other device."""
        side.gpu.activate()
        contexts = other.gpu.context, side.gpu.context
        arguments = (
            target.address,
            contexts[0],
            source.address,
            contexts[1],
            source.bytes,
            side.exchange.handle,
        )
        side.gpu.start("cuMemcpyPeerAsync", arguments, "copy to the other device", [source], [target])
