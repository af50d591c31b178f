"""Managed memory that the GPU faults in page by page, or that is fetched before it is needed."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import numpy as np

from overlane_collect._cuda import Buffer, Gpu
from overlane_collect.workloads.base import Outcome, Parameter
from overlane_collect.workloads.integers import BLOCK, INT_BYTES, verdict
from overlane_collect.workloads.kernels import SOURCE

__all__ = ["ManagedMemory"]

_ATTACH_GLOBAL = 1
_MOST_KIB = 65536  # managed memory beyond the device's can hang it


class ManagedMemory:
    """Shows kernels that are slow because their data comes page by page."""

    name = "managed-memory"
    description = "a kernel over managed memory, faulted in or prefetched"
    parameters: tuple[Parameter, ...] = (
        Parameter("mode", "fault", "how the data gets to the device", ("fault", "prefetch")),
        Parameter("size_kib", 4096, "size of the data in KiB, at most 64 MiB", least=4),
        Parameter("rounds", 3, "times that host and device take turns", least=1),
    )

    def run(self, gpu: Gpu, values: Mapping[str, Any]) -> Outcome:
        """Run; every integer must have been counted up by both sides in every round."""
        kernel = gpu.compile(SOURCE, "plus_one")["plus_one"]
        length = min(values["size_kib"], _MOST_KIB) * 1024
        count = length // INT_BYTES
        address = int(gpu.call("cuMemAllocManaged", length, _ATTACH_GLOBAL, what="managed memory"))
        data = np.ctypeslib.as_array((ctypes.c_int32 * count).from_address(address))
        data.fill(0)
        stream = gpu.stream("managed")
        span = Buffer(address, length, "managed").span()
        gpu.synchronize()
        for _ in range(values["rounds"]):
            gpu.log.host_access("write", span)
            data += 1
            if values["mode"] == "prefetch":
                self._prefetch(gpu, address, length, stream)
            arguments = [(address, ctypes.c_void_p), (count, ctypes.c_long)]
            gpu.launch(kernel, -(-count // BLOCK), BLOCK, stream, arguments, reads=[span], writes=[span])
            gpu.synchronize(stream=stream)
            gpu.log.host_access("read", span)
        wrong = int(np.count_nonzero(data != 2 * values["rounds"] + values["shift"]))
        return verdict(wrong, f"mode={values['mode']} rounds={values['rounds']}")

    @staticmethod
    def _prefetch(gpu: Gpu, address: int, length: int, stream: Any) -> None:
        place = gpu.driver.CUmemLocation()
        place.type = gpu.driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        place.id = int(gpu.device)
        gpu.call("cuMemPrefetchAsync", address, length, place, 0, stream.handle, what="prefetch")
