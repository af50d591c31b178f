"""A critical kernel against bulk kernels, with equal or with high priority."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from overlane_collect._cuda import Gpu
from overlane_collect.workloads.base import Outcome, Parameter
from overlane_collect.workloads.contention import PARAMETERS, Contest, run_contest

__all__ = ["Priority"]


class Priority:
    """Shows what priority does: blocks of the urgent kernel come next, running ones are not stopped."""

    name = "priority"
    description = "a critical kernel against bulk kernels, with equal or high priority"
    parameters: tuple[Parameter, ...] = (
        Parameter("mode", "high", "priority of the critical stream", ("high", "equal")),
        *PARAMETERS,
    )

    def run(self, gpu: Gpu, values: Mapping[str, Any]) -> Outcome:
        """Run the contest."""
        urgent = gpu.greatest_priority if values["mode"] == "high" else gpu.least_priority
        critical = gpu.stream("critical", priority=urgent)
        bulk = gpu.stream("bulk", priority=gpu.least_priority)
        return run_contest(gpu, Contest(critical, bulk), values)
