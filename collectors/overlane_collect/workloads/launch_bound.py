"""Thousands of tiny kernels: the host cannot launch them as fast as the GPU ends them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from overlane_collect._cuda import Gpu
from overlane_collect.workloads.base import Outcome, Parameter
from overlane_collect.workloads.integers import Integers, verdict
from overlane_collect.workloads.kernels import SOURCE

__all__ = ["LaunchBound"]


class LaunchBound:
    """Shows gaps that are the host's: late launches, and no dependency."""

    name = "launch-bound"
    description = "thousands of tiny kernels, launched one by one"
    parameters: tuple[Parameter, ...] = (
        Parameter("launches", 3000, "kernels", least=1),
        Parameter("elements", 256, "integers that each counts up", least=1),
    )

    def run(self, gpu: Gpu, values: Mapping[str, Any]) -> Outcome:
        """Run; every integer must be the number of launches."""
        kernel = gpu.compile(SOURCE, "plus_one")["plus_one"]
        numbers = Integers(gpu, values["elements"])
        stream = gpu.stream("launches")
        gpu.synchronize()
        began = time.perf_counter_ns()
        for _ in range(values["launches"]):
            numbers.apply(kernel, stream)
        gpu.synchronize()
        microseconds = (time.perf_counter_ns() - began) / 1e3 / values["launches"]
        wrong = numbers.mismatches(values["launches"] + values["shift"])
        facts = f"launches={values['launches']} us_per_launch={microseconds:.2f}"
        return verdict(wrong, facts, us_per_launch=microseconds)
