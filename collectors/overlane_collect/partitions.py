"""Green contexts: SMs of a device, split into partitions, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from overlane_collect._cuda import DriverError, Gpu

__all__ = ["Partition", "split_device", "workqueue_support"]


@dataclass(frozen=True)
class Partition:
    """One green context.

    Attributes:
        handle: The green context.
        sm_requested: SMs asked for.
        sm_granted: SMs granted; the device rounds up to its alignment.
    """

    handle: Any
    sm_requested: int
    sm_granted: int


def split_device(gpu: Gpu, sm_count: int, *, names: tuple[str, str]) -> tuple[Partition, Partition]:
    """Return a partition of some SMs and one of all others.

    Args:
        gpu: Device; nothing may run on it, since making a green context waits for running work.
        names: What the trace calls the two.
        sm_count: SMs of the first one; 0 asks for the least that the device allows.

    Raises:
        DriverError: The driver has no green contexts, or the device too few SMs.
    """
    driver = gpu.driver
    kind = driver.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM
    resource = gpu.call("cuDeviceGetDevResource", gpu.device, kind, what="SMs of the device")
    wanted = sm_count or int(getattr(resource.sm, "minSmPartitionSize", 0)) or 8
    groups, _, rest = gpu.call("cuDevSmResourceSplitByCount", 1, resource, 0, wanted, what=f"{wanted} SMs")
    return (
        _green_context(gpu, groups[0], wanted, names[0]),
        _green_context(gpu, rest, int(rest.sm.smCount), names[1]),
    )


def _green_context(gpu: Gpu, resource: Any, asked: int, name: str) -> Partition:
    flags = gpu.driver.CUgreenCtxCreate_flags.CU_GREEN_CTX_DEFAULT_STREAM
    description = gpu.call("cuDevResourceGenerateDesc", [resource], 1)
    handle = gpu.call("cuGreenCtxCreate", description, gpu.device, flags, what=f"{asked} SMs")
    gpu.log.name_partition(gpu.context_of(handle), name, asked)
    return Partition(handle, asked, int(resource.sm.smCount))


def workqueue_support(gpu: Gpu) -> str:
    """Return why workqueues cannot be given to partitions here, or an empty string when they can."""
    kinds = gpu.driver.CUdevResourceType
    kind = getattr(kinds, "CU_DEV_RESOURCE_TYPE_WORKQUEUE_CONFIG", None)
    if kind is None:
        return "this cuda-python is older than workqueue resources (CUDA 13.1)"
    try:
        gpu.call("cuDeviceGetDevResource", gpu.device, kind, what="workqueue configuration")
    except DriverError as error:
        version = int(gpu.call("cuDriverGetVersion"))
        has = f"{version // 1000}.{version % 1000 // 10}"
        return f"workqueues need CUDA 13.1 and the driver has {has} ({error.code})"
    return ""
