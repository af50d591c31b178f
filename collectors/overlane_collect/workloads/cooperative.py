"""A cooperative kernel, whose blocks must all run at once, beside an ordinary one."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

from overlane_collect._cuda import Gpu
from overlane_collect.workloads.base import Outcome, Parameter
from overlane_collect.workloads.integers import Integers, verdict
from overlane_collect.workloads.kernels import SOURCE

__all__ = ["Cooperative"]


class Cooperative:
    """Shows a kernel that starts only when all its blocks have room."""

    name = "cooperative"
    description = "a kernel whose blocks wait for each other, beside an ordinary one"
    parameters: tuple[Parameter, ...] = (
        Parameter("blocks_per_sm", 1, "blocks of the cooperative kernel for each SM", least=1),
        Parameter("rounds", 3, "times that it is launched", least=1),
        Parameter("turns", 20000, "length of the ordinary kernel, in turns of a loop", least=0),
    )

    def run(self, gpu: Gpu, values: Mapping[str, Any]) -> Outcome:
        """Run; every integer must have been counted up once per round, after all blocks arrived."""
        kernels = gpu.compile(SOURCE, "all_arrive", "twice")
        count = gpu.attribute("MULTIPROCESSOR_COUNT") * values["blocks_per_sm"] * 256
        together, ordinary = Integers(gpu, count), Integers(gpu, count)
        arrived = Integers(gpu, 1)
        cooperative, other = gpu.stream("cooperative"), gpu.stream("ordinary")
        gpu.synchronize()
        for number in range(values["rounds"]):
            ordinary.apply(kernels["twice"], other, (values["turns"], ctypes.c_int))
            target = (number + 1) * together.blocks
            together.apply(
                kernels["all_arrive"],
                cooperative,
                (arrived.buffer.address, ctypes.c_void_p),
                (target, ctypes.c_uint),
                cooperative=True,
            )
        gpu.synchronize()
        wrong = together.mismatches(values["rounds"] + values["shift"]) + ordinary.mismatches(0)
        return verdict(wrong, f"blocks={together.blocks} rounds={values['rounds']}")
