"""A kernel that may start before the one ahead of it in its stream has ended."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

from overlane_collect._cuda import Gpu, Kernel, Stream, packed
from overlane_collect.workloads.base import Outcome, Parameter
from overlane_collect.workloads.integers import BLOCK, Integers, verdict
from overlane_collect.workloads.kernels import SOURCE

__all__ = ["ProgrammaticLaunch"]


class ProgrammaticLaunch:
    """Shows two kernels of one stream that overlap, in order only where the second waits for the first."""

    name = "programmatic-launch"
    description = "pairs of kernels in one stream, the second launched to start at the first's trigger"
    parameters: tuple[Parameter, ...] = (
        Parameter("mode", "programmatic", "how the second is launched", ("programmatic", "ordinary")),
        Parameter("pairs", 4, "pairs of kernels", least=1),
        Parameter("turns", 20000, "length of each kernel, in turns of a loop", least=0),
        Parameter("elements", 1 << 12, "integers of each kernel", least=1),
    )

    def run(self, gpu: Gpu, values: Mapping[str, Any]) -> Outcome:
        """Run; every integer must be as doubling and counting up in turn leave it."""
        kernels = gpu.compile(SOURCE, "early_trigger", "late_wait")
        numbers, stream = Integers(gpu, values["elements"]), gpu.stream("pairs")
        turns = (values["turns"], ctypes.c_int)
        gpu.synchronize()
        for _ in range(values["pairs"]):
            numbers.apply(kernels["early_trigger"], stream, turns)
            if values["mode"] == "ordinary":
                numbers.apply(kernels["late_wait"], stream, turns)
            else:
                self._dependent(gpu, kernels["late_wait"], stream, numbers, turns)
        gpu.synchronize()
        wrong = numbers.mismatches((1 << values["pairs"]) - 1 + values["shift"])
        return verdict(wrong, f"pairs={values['pairs']}")

    @staticmethod
    def _dependent(
        gpu: Gpu, kernel: Kernel, stream: Stream, numbers: Integers, turns: tuple[Any, Any]
    ) -> None:
        """Launch a kernel that may start when all blocks of the one ahead have triggered."""
        driver = gpu.driver
        attribute = driver.CUlaunchAttribute()
        attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        attribute.value.programmaticStreamSerializationAllowed = 1
        config = driver.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = numbers.blocks, 1, 1
        config.blockDimX, config.blockDimY, config.blockDimZ = BLOCK, 1, 1
        config.hStream = stream.handle
        config.attrs = [attribute]
        config.numAttrs = 1
        spans = [numbers.buffer.span()]
        given = (config, kernel.handle, packed(numbers.arguments(turns)), 0)
        gpu.start("cuLaunchKernelEx", given, kernel.name, spans, spans)
