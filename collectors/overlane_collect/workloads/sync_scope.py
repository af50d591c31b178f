"""The same pipeline, ended in each step by a synchronization of another scope."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from overlane_collect._cuda import Gpu
from overlane_collect.annotate import annotate
from overlane_collect.workloads.base import Outcome, Parameter
from overlane_collect.workloads.kernels import SOURCE

__all__ = ["SyncScope"]

_BLOCK = 256
_INT_BYTES = 4
_SCOPES = {
    "device": "the host waits for all work",
    "stream": "the host waits for the step's stream",
    "event": "the host waits for an event behind the step's kernel, not for its copy",
    "none": "the host does not wait",
}


class SyncScope:
    """Shows how much a wait holds back that did not have to wait."""

    name = "sync-scope"
    description = "one pipeline, ended per step by device, stream or event synchronization, or none"
    parameters: tuple[Parameter, ...] = (
        Parameter("scope", "device", "; ".join(f"{k}: {v}" for k, v in _SCOPES.items()), tuple(_SCOPES)),
        Parameter("streams", 3, "streams that take the steps in turn", least=1),
        Parameter("steps", 12, "steps", least=1),
        Parameter("elements", 1 << 20, "integers of each step", least=1),
        Parameter("turns", 4000, "length of a step's kernel, in turns of a loop", least=0),
    )

    def run(self, gpu: Gpu, values: Mapping[str, Any]) -> Outcome:
        """Double numbers on several streams, and compare every one with its exact double."""
        kernel = gpu.compile(SOURCE, "twice")["twice"]
        count, steps = values["elements"], values["steps"]
        length = count * _INT_BYTES
        streams = [gpu.stream(f"steps {n}") for n in range(values["streams"])]
        data = [gpu.allocate(length) for _ in range(steps)]
        inputs = [gpu.host_memory(length, "pinned") for _ in range(steps)]
        outputs = [gpu.host_memory(length, "pinned") for _ in range(steps)]
        for step in range(steps):
            inputs[step].view(np.int32)[:] = np.arange(count) + step
            gpu.log.host_access("write", inputs[step].span())
        event = gpu.event(timing=False)
        gpu.synchronize()
        began = time.perf_counter_ns()
        for step in range(steps):
            stream = streams[step % len(streams)]
            with annotate(f"step {step}"):
                whole = data[step].span()
                gpu.copy_up(whole, inputs[step].span(), stream)
                arguments = [
                    (data[step].address, ctypes.c_void_p),
                    (count, ctypes.c_long),
                    (values["turns"], ctypes.c_int),
                ]
                blocks = -(-count // _BLOCK)
                gpu.launch(kernel, blocks, _BLOCK, stream, arguments, reads=[whole], writes=[whole])
                gpu.record(event, stream)
                gpu.copy_down(outputs[step].span(), whole, stream)
                if values["scope"] == "device":
                    gpu.synchronize()
                elif values["scope"] == "stream":
                    gpu.synchronize(stream=stream)
                elif values["scope"] == "event":
                    gpu.synchronize(event=event)
        gpu.synchronize()
        milliseconds = (time.perf_counter_ns() - began) / 1e6
        for output in outputs:
            gpu.log.host_access("read", output.span())
        mismatches = 0
        for step, output in enumerate(outputs):
            expected = (np.arange(count) + step) * 2 + values["shift"]
            mismatches += int(np.count_nonzero(output.view(np.int32) != expected))
        return Outcome(
            mismatches == 0,
            [f"steps={steps} mismatches={mismatches} milliseconds={milliseconds:.3f}"],
            {"milliseconds": milliseconds, "mismatches": mismatches},
        )
