"""What one launch costs the host while recording, measured in the recorded process when its work is done."""

from __future__ import annotations

import contextlib
import ctypes
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

__all__ = ["Launcher", "batches", "compared", "launcher"]

_PTX = b""".version 6.4
.target sm_52
.address_size 64
.visible .entry overlane_calibration() { ret; }
\0"""
_SUCCESS = 0
_NON_BLOCKING = 1
_WARM, _BATCH = (
    100,
    300,
)  # together far below the thousand launches that may be pending before the host is held
_BATCHES = 25

Launcher = Callable[[int], None]
"""Launches so many empty kernels, and returns when they are launched."""


@contextlib.contextmanager
def launcher() -> Iterator[tuple[Launcher, Callable[[], None]] | None]:
    """Give functions that launch kernels and wait for them, in the first primary context that is in use.

    None where there is no such context, or it is broken. All that is made here is gone afterwards.
    """
    driver = ctypes.PyDLL("libcuda.so.1")  # keeps the interpreter's lock: calls of a microsecond
    device = _device_in_use(driver)
    context, module, function, stream = (ctypes.c_void_p() for _ in range(4))
    if device is None or driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) != _SUCCESS:
        yield None
        return
    driver.cuCtxPushCurrent_v2(context)
    try:
        made = (
            driver.cuModuleLoadData(ctypes.byref(module), _PTX) == _SUCCESS
            and driver.cuModuleGetFunction(ctypes.byref(function), module, b"overlane_calibration")
            == _SUCCESS
            and driver.cuStreamCreate(ctypes.byref(stream), _NON_BLOCKING) == _SUCCESS
        )
        if not made:
            yield None
            return
        arguments = (function, *map(ctypes.c_uint, (1, 1, 1, 32, 1, 1, 0)), stream, None, None)

        def launch(count: int) -> None:
            call = driver.cuLaunchKernel
            for _ in range(count):
                call(*arguments)

        yield launch, lambda: driver.cuStreamSynchronize(stream)
    finally:
        if stream.value:
            driver.cuStreamDestroy_v2(stream)
        if module.value:
            driver.cuModuleUnload(module)
        driver.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))
        driver.cuDevicePrimaryCtxRelease_v2(device)


def _device_in_use(driver: Any) -> int | None:
    count, flags, active = ctypes.c_int(), ctypes.c_uint(), ctypes.c_int()
    driver.cuDeviceGetCount(ctypes.byref(count))
    for device in range(count.value):
        driver.cuDevicePrimaryCtxGetState(device, ctypes.byref(flags), ctypes.byref(active))
        if active.value:
            return device
    return None


def batches(launch: Launcher, wait: Callable[[], None]) -> list[float]:
    """Return the host's ns per launch of some batches, after one that warms up."""
    times = []
    for _ in range(_BATCHES + 1):
        launch(_WARM)
        began = time.perf_counter_ns()
        launch(_BATCH)
        times.append((time.perf_counter_ns() - began) / _BATCH)
        wait()
    return times[1:]


def compared(recorded: list[float], plain: list[float]) -> dict[str, Any]:
    """Return the cost of a launch: difference of the medians in ns, with its 95 % interval.

    Args:
        recorded: ns per launch of batches with recording.
        plain: The same without.

    Example:
        >>> compared([30.0] * 5, [10.0] * 5)
        {'per_launch_ns': 20, 'per_launch_95_ns': [20, 20]}
    """
    random = np.random.default_rng(0)
    one, other = np.asarray(recorded), np.asarray(plain)
    draws = np.median(random.choice(one, (1000, len(one))), axis=1)
    draws -= np.median(random.choice(other, (1000, len(other))), axis=1)
    low, high = np.quantile(draws, (0.025, 0.975))
    return {
        "per_launch_ns": round(float(np.median(one) - np.median(other))),
        "per_launch_95_ns": [round(float(low)), round(float(high))],
    }
