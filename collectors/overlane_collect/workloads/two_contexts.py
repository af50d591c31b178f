"""Kernels of two contexts, which take turns on the device."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

from overlane_collect._cuda import Gpu
from overlane_collect.workloads.base import Outcome, Parameter
from overlane_collect.workloads.integers import Integers, verdict
from overlane_collect.workloads.kernels import SOURCE

__all__ = ["TwoContexts"]


class TwoContexts:
    """Shows that work of two contexts does not run at once: the device switches between them."""

    name = "two-contexts"
    description = "the same kernels in two contexts of one device, which take turns"
    parameters: tuple[Parameter, ...] = (
        Parameter("rounds", 4, "kernels of each context", least=1),
        Parameter("turns", 50000, "length of a kernel, in turns of a loop", least=0),
        Parameter("elements", 1 << 14, "integers of each kernel", least=1),
    )

    def run(self, gpu: Gpu, values: Mapping[str, Any]) -> Outcome:
        """Run; every integer must have been doubled from one once per round."""
        primary = gpu.context
        second = gpu.call("cuCtxCreate", None, 0, gpu.device, what="second context")
        sides = []
        for context, name in ((primary, "primary context"), (second, "second context")):
            gpu.enter(context)
            kernels = gpu.compile(SOURCE, "twice", "plus_one")
            numbers, stream = Integers(gpu, values["elements"]), gpu.stream(name)
            numbers.apply(kernels["plus_one"], stream)
            gpu.synchronize()
            sides.append((context, kernels["twice"], numbers, stream))
        for _ in range(values["rounds"]):
            for context, kernel, numbers, stream in sides:
                gpu.enter(context)
                numbers.apply(kernel, stream, (values["turns"], ctypes.c_int))
        wrong = 0
        for context, _, numbers, _ in reversed(sides):
            gpu.enter(context)
            gpu.synchronize()
            wrong += numbers.mismatches((1 << values["rounds"]) + values["shift"])
        return verdict(wrong, f"contexts=2 rounds={values['rounds']}")
