"""A host function between two kernels of a stream."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping
from typing import Any

from overlane_collect._cuda import Gpu
from overlane_collect.workloads.base import Outcome, Parameter
from overlane_collect.workloads.integers import Integers, verdict
from overlane_collect.workloads.kernels import SOURCE

__all__ = ["Callback"]

_HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Callback:
    """Shows a stream that is held by code on the host, while another one goes on."""

    name = "callback"
    description = "a host function between the kernels of one stream, while another stream goes on"
    parameters: tuple[Parameter, ...] = (
        Parameter("host_us", 500, "how long the host function takes, in microseconds"),
        Parameter("rounds", 4, "host functions", least=1),
        Parameter("elements", 1 << 18, "integers that each kernel counts up", least=1),
    )

    def run(self, gpu: Gpu, values: Mapping[str, Any]) -> Outcome:
        """Run; every integer and the host function must have been counted up once per round."""
        kernel = gpu.compile(SOURCE, "plus_one")["plus_one"]
        held, free = Integers(gpu, values["elements"]), Integers(gpu, values["elements"])
        held_stream, free_stream = gpu.stream("held by the host"), gpu.stream("free")
        calls = []

        def on_host(_: int | None) -> None:
            time.sleep(values["host_us"] / 1e6)
            calls.append(1)

        function = _HOST_FUNCTION(on_host)
        pointer = gpu.driver.CUhostFn(_ptr=ctypes.addressof(function))
        gpu.synchronize()
        for _ in range(values["rounds"]):
            held.apply(kernel, held_stream)
            gpu.call("cuLaunchHostFunc", held_stream.handle, pointer, 0, what="host function")
            free.apply(kernel, free_stream)
        held.apply(kernel, held_stream)
        gpu.synchronize()
        expected = values["rounds"] + values["shift"]
        wrong = (
            held.mismatches(expected + 1) + free.mismatches(expected) + int(len(calls) != values["rounds"])
        )
        return verdict(wrong, f"rounds={values['rounds']} calls={len(calls)}", calls=len(calls))
