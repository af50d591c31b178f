"""One host call while unrelated work runs: does it hold the host, and what comes after it?"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from overlane_collect._cuda import Buffer, Gpu
from overlane_collect.annotate import annotate
from overlane_collect.partitions import split_device
from overlane_collect.workloads.base import Outcome, Parameter
from overlane_collect.workloads.kernels import SOURCE

__all__ = ["ImplicitSync"]

_POINTER, _U64 = ctypes.c_void_p, ctypes.c_uint64
_MEBIBYTE = 1 << 20
_BLOCK_BYTES = 24
_CALLS = {
    "none": "no call, for comparison",
    "mem-free": "cuMemFree",
    "mem-free-host": "cuMemFreeHost",
    "mem-free-async": "cuMemFreeAsync on another stream",
    "mem-alloc": "cuMemAlloc",
    "host-unregister": "cuMemHostUnregister",
    "module-load": "cuModuleLoadData",
    "green-context": "cuGreenCtxCreate",
    "stream-create": "cuStreamCreate",
    "pageable-copy": "cuMemcpyHtoD of pageable memory",
}


class ImplicitSync:
    """Shows which calls wait for work that they have nothing to do with."""

    name = "implicit-sync"
    description = "one host call while an unrelated kernel runs, and a kernel issued after it"
    parameters: tuple[Parameter, ...] = (
        Parameter("call", "mem-free", "; ".join(f"{k}: {v}" for k, v in _CALLS.items()), tuple(_CALLS)),
        Parameter("kernel_us", 5000, "how long the unrelated kernel is busy, in microseconds", least=1),
    )

    def run(self, gpu: Gpu, values: Mapping[str, Any]) -> Outcome:
        """Run; each kernel must have run once. Whether the call held anything is printed, not judged."""
        kernel = gpu.compile(SOURCE, "stamped_spin")["stamped_spin"]
        unrelated, later = gpu.stream("unrelated"), gpu.stream("issued later")
        slots, logs = gpu.allocate(16), gpu.allocate(2 * _BLOCK_BYTES)
        zeros = np.zeros(2, np.uint64)
        gpu.call("cuMemcpyHtoD", slots.address, zeros.ctypes.data, zeros.nbytes)
        call = self._prepared(gpu, values["call"])
        gpu.synchronize()
        numbers = []
        for place, (stream, busy) in enumerate(((unrelated, values["kernel_us"]), (later, 10))):
            if place:
                with annotate(_CALLS[values["call"]]):
                    began = time.perf_counter_ns()
                    call()
                    held_ms = (time.perf_counter_ns() - began) / 1e6
            slot, log = slots.span(place * 8, 8), logs.span(place * _BLOCK_BYTES, _BLOCK_BYTES)
            arguments = [(slot.address, _POINTER), (busy * 1000, _U64), (log.address, _POINTER)]
            numbers.append(gpu.launch(kernel, 1, 1, stream, arguments, reads=[slot], writes=[slot, log]))
        gpu.synchronize()
        counts = np.zeros(2, np.uint64)
        gpu.call("cuMemcpyDtoH", counts.ctypes.data, slots.address, counts.nbytes)
        stamps = [
            gpu.read_blocks(number, Buffer(logs.address + place * _BLOCK_BYTES, _BLOCK_BYTES, "device"), 1)[0]
            for place, number in enumerate(numbers)
        ]
        waited = bool(stamps[1][1] >= stamps[0][2])
        wrong = int(np.count_nonzero(counts != 1 + values["shift"]))
        line = f"call={values['call']} host_ms={held_ms:.3f} later_kernel_waited={waited} wrong={wrong}"
        return Outcome(
            wrong == 0, [line], {"host_ms": held_ms, "later_kernel_waited": waited, "wrong": wrong}
        )

    @staticmethod
    def _prepared(gpu: Gpu, call: str) -> Callable[[], object]:
        """Return the call, with everything that it needs made before."""
        if call == "mem-free":
            memory = gpu.allocate(_MEBIBYTE)
            return lambda: gpu.free(memory)
        if call == "mem-free-host":
            pinned = gpu.host_memory(_MEBIBYTE, "pinned")
            return lambda: gpu.free(pinned)
        if call == "mem-free-async":
            other = gpu.stream("other")
            pooled = gpu.allocate_async(_MEBIBYTE, other)
            return lambda: gpu.free_async(pooled, other)
        if call == "host-unregister":
            array = np.ones(_MEBIBYTE, np.uint8)
            gpu.call("cuMemHostRegister", array.ctypes.data, array.nbytes, 0)
            return lambda: gpu.call("cuMemHostUnregister", array.ctypes.data)
        if call == "pageable-copy":
            source, target = gpu.host_memory(_MEBIBYTE, "pageable"), gpu.allocate(_MEBIBYTE)
            return lambda: gpu.call("cuMemcpyHtoD", target.address, source.address, _MEBIBYTE)
        binary = gpu.build(SOURCE)
        simple: dict[str, Callable[[], object]] = {
            "none": lambda: None,
            "mem-alloc": lambda: gpu.allocate(_MEBIBYTE),
            "module-load": lambda: gpu.call("cuModuleLoadData", binary),
            "green-context": lambda: split_device(gpu, 0, names=("first", "rest")),
            "stream-create": lambda: gpu.stream("new"),
        }
        return simple[call]
