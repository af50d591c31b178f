"""The same work launched call by call, or captured once and replayed as a graph."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from overlane_collect._cuda import Gpu, Stream
from overlane_collect.workloads.base import Outcome, Parameter
from overlane_collect.workloads.integers import Integers, verdict
from overlane_collect.workloads.kernels import SOURCE

__all__ = ["GraphReplay"]


class GraphReplay:
    """Shows what a graph saves: one launch for many kernels, on two branches."""

    name = "graph-replay"
    description = "two branches of small kernels, launched one by one or replayed as a graph"
    parameters: tuple[Parameter, ...] = (
        Parameter("mode", "graph", "how the work is launched", ("graph", "stream")),
        Parameter("kernels", 10, "kernels of each branch", least=1),
        Parameter("replays", 5, "times that the work is done", least=1),
        Parameter("elements", 1 << 16, "integers that each kernel counts up", least=1),
    )

    def run(self, gpu: Gpu, values: Mapping[str, Any]) -> Outcome:
        """Run; every integer must have been counted up once per kernel and replay."""
        kernel = gpu.compile(SOURCE, "plus_one")["plus_one"]
        branches = Integers(gpu, values["elements"]), Integers(gpu, values["elements"])
        main, side = gpu.stream("main"), gpu.stream("side")
        fork, join = gpu.event(timing=False), gpu.event(timing=False)

        def work() -> None:
            gpu.record(fork, main)
            gpu.wait(side, fork)
            for _ in range(values["kernels"]):
                branches[0].apply(kernel, main)
                branches[1].apply(kernel, side)
            gpu.record(join, side)
            gpu.wait(main, join)

        executable = self._captured(gpu, main, work) if values["mode"] == "graph" else None
        gpu.synchronize()
        spans = [numbers.buffer.span() for numbers in branches]
        began = time.perf_counter_ns()
        for _ in range(values["replays"]):
            if executable is None:
                work()
            else:
                gpu.start("cuGraphLaunch", (executable, main.handle), "graph", spans, spans)
        gpu.synchronize()
        milliseconds = (time.perf_counter_ns() - began) / 1e6
        expected = values["kernels"] * values["replays"] + values["shift"]
        wrong = sum(numbers.mismatches(expected) for numbers in branches)
        facts = f"replays={values['replays']} milliseconds={milliseconds:.3f}"
        return verdict(wrong, facts, milliseconds=milliseconds)

    @staticmethod
    def _captured(gpu: Gpu, stream: Stream, work: Any) -> Any:
        mode = gpu.driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        gpu.call("cuStreamBeginCapture", stream.handle, mode)
        work()
        graph = gpu.call("cuStreamEndCapture", stream.handle)
        return gpu.call("cuGraphInstantiate", graph, 0, what="graph")
