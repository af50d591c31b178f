"""The first launch of a kernel, loaded before or by that launch, while another kernel runs."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

from overlane_collect._cuda import Gpu
from overlane_collect.workloads.base import Outcome, Parameter
from overlane_collect.workloads.integers import Integers, verdict
from overlane_collect.workloads.kernels import SOURCE

__all__ = ["LazyLoad"]


class LazyLoad:
    """Shows that a kernel's first launch waits for running kernels when it has to be loaded."""

    name = "lazy-load"
    description = "the first launch of a kernel while another one runs, loaded lazily or before"
    parameters: tuple[Parameter, ...] = (
        Parameter("mode", "lazy", "when the second kernel is loaded", ("lazy", "eager")),
        Parameter("turns", 200000, "length of the running kernel, in turns of a loop", least=0),
        Parameter("elements", 1 << 12, "integers of each kernel", least=1),
    )

    def run(self, gpu: Gpu, values: Mapping[str, Any]) -> Outcome:
        """Run; the integers of both must be as their kernels leave them."""
        running = gpu.compile(SOURCE, "twice")["twice"]
        first = gpu.compile(SOURCE, "plus_one", lazy=values["mode"] == "lazy")["plus_one"]
        busy, numbers = Integers(gpu, values["elements"]), Integers(gpu, values["elements"])
        long_stream, stream = gpu.stream("running"), gpu.stream("first launch")
        gpu.synchronize()
        busy.apply(running, long_stream, (values["turns"], ctypes.c_int))
        numbers.apply(first, stream)
        gpu.synchronize()
        wrong = busy.mismatches(values["shift"]) + numbers.mismatches(1 + values["shift"])
        return verdict(wrong, f"mode={values['mode']}")
