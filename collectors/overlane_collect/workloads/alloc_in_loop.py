"""Memory allocated and freed in every step, in stream order, or once before."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from overlane_collect._cuda import Gpu, Stream
from overlane_collect.workloads.base import Outcome, Parameter
from overlane_collect.workloads.integers import INT_BYTES, Integers, verdict
from overlane_collect.workloads.kernels import SOURCE

__all__ = ["AllocInLoop"]

_MODES = {
    "inside": "allocated and freed in every step; the free waits for all running work",
    "async": "allocated and freed in every step, in the order of the stream",
    "before": "allocated once before the loop",
}


class AllocInLoop:
    """Shows that a free inside a loop makes the loop serial."""

    name = "alloc-in-loop"
    description = "scratch memory allocated and freed inside a loop, in stream order, or before it"
    parameters: tuple[Parameter, ...] = (
        Parameter("mode", "inside", "; ".join(f"{k}: {v}" for k, v in _MODES.items()), tuple(_MODES)),
        Parameter("steps", 12, "steps", least=1),
        Parameter("streams", 2, "streams that take the steps in turn", least=1),
        Parameter("elements", 1 << 20, "integers that each step counts up", least=1),
        Parameter("scratch_kib", 1024, "scratch memory of a step in KiB", least=1),
    )

    def run(self, gpu: Gpu, values: Mapping[str, Any]) -> Outcome:
        """Run; every integer must have been counted up once per step of its stream."""
        kernel = gpu.compile(SOURCE, "plus_one")["plus_one"]
        streams = [gpu.stream(f"steps {n}") for n in range(values["streams"])]
        numbers = [Integers(gpu, values["elements"]) for _ in streams]
        length = max(values["scratch_kib"] * 1024, INT_BYTES)
        kept = [gpu.allocate(length) for _ in streams] if values["mode"] == "before" else []
        gpu.free_async(gpu.allocate_async(length, streams[0]), streams[0])  # the first one makes the pool
        gpu.synchronize()
        began = time.perf_counter_ns()
        for step in range(values["steps"]):
            place = step % len(streams)
            self._step(gpu, values["mode"], streams[place], length, kept[place] if kept else None)
            numbers[place].apply(kernel, streams[place])
        gpu.synchronize()
        milliseconds = (time.perf_counter_ns() - began) / 1e6
        steps, count = values["steps"], len(streams)
        wrong = sum(
            part.mismatches((steps - place + count - 1) // count + values["shift"])
            for place, part in enumerate(numbers)
        )
        return verdict(wrong, f"steps={steps} milliseconds={milliseconds:.3f}", milliseconds=milliseconds)

    @staticmethod
    def _step(gpu: Gpu, mode: str, stream: Stream, length: int, kept: Any) -> None:
        """Clear the scratch memory, which the mode gets in its way."""
        if mode == "before":
            gpu.fill(kept.span(), 0, stream)
            return
        scratch = gpu.allocate(length) if mode == "inside" else gpu.allocate_async(length, stream)
        gpu.fill(scratch.span(), 0, stream)
        if mode == "inside":
            gpu.free(scratch)
        else:
            gpu.free_async(scratch, stream)
