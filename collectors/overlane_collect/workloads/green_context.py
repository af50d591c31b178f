"""A critical kernel against bulk kernels, with and without a partition of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from overlane_collect._cuda import Gpu
from overlane_collect.partitions import split_device, workqueue_support
from overlane_collect.workloads.base import Outcome, Parameter
from overlane_collect.workloads.concurrency import SIDE_BY_SIDE, run_side_by_side
from overlane_collect.workloads.contention import PARAMETERS, Contest, run_contest

__all__ = ["GreenContext"]

_MODES = {
    "A": "own partition, bulk in the complementary one, high priority",
    "B": "no partition, high priority",
    "C": "no partition, equal priority",
    "concurrency": "a communication-like kernel and a matrix product, a partition each",
    "shared": "these two without partitions",
}
_PROBE_BLOCKS = 512


class GreenContext:
    """Shows what a partition does for a critical kernel, and proves by each block's SM that it held."""

    name = "green-context"
    description = "a critical kernel against bulk kernels, with and without a partition of its own"
    parameters: tuple[Parameter, ...] = (
        Parameter("mode", "A", "; ".join(f"{k}: {v}" for k, v in _MODES.items()), tuple(_MODES)),
        Parameter(
            "sms",
            0,
            "SMs of the critical or the communication's partition; 0 is the least that the device allows",
        ),
        *PARAMETERS,
        *SIDE_BY_SIDE,
    )

    def run(self, gpu: Gpu, values: Mapping[str, Any]) -> Outcome:
        """Run in one mode."""
        if values["mode"] in ("concurrency", "shared"):
            return self._side_by_side(gpu, values)
        lines = []
        measured: dict[str, Any] = {}
        if values["mode"] == "A":
            critical, bulk = split_device(gpu, values["sms"], names=("critical", "bulk"))
            lines.append(f"partitions critical={critical.sm_granted} bulk={bulk.sm_granted} SMs")
            measured |= {"critical_sms": critical.sm_granted, "bulk_sms": bulk.sm_granted}
            reason = workqueue_support(gpu)
            if reason:
                lines.append(f"workqueues are not partitioned: {reason}")
            measured["workqueue"] = reason or "not partitioned by this workload"
            streams = Contest(
                gpu.stream("critical", priority=gpu.greatest_priority, partition=critical.handle),
                gpu.stream("bulk", priority=gpu.least_priority, partition=bulk.handle),
            )
        else:
            urgent = gpu.greatest_priority if values["mode"] == "B" else gpu.least_priority
            streams = Contest(
                gpu.stream("critical", priority=urgent), gpu.stream("bulk", priority=gpu.least_priority)
            )
        outcome = run_contest(gpu, streams, values, probe_blocks=_PROBE_BLOCKS)
        return Outcome(outcome.correct, [*lines, *outcome.lines], {**measured, **outcome.measured})

    @staticmethod
    def _side_by_side(gpu: Gpu, values: Mapping[str, Any]) -> Outcome:
        """Run the two kernels, in a partition each or without."""
        if values["mode"] == "shared":
            return run_side_by_side(gpu, gpu.stream("exchange"), gpu.stream("product"), values)
        exchange, product = split_device(gpu, values["sms"], names=("exchange", "product"))
        outcome = run_side_by_side(
            gpu,
            gpu.stream("exchange", partition=exchange.handle),
            gpu.stream("product", partition=product.handle),
            values,
        )
        granted = f"partitions exchange={exchange.sm_granted} product={product.sm_granted} SMs"
        return Outcome(outcome.correct, [granted, *outcome.lines], outcome.measured)
