"""Facts about the machine that a recording keeps: versions, each asked from its own source."""

from __future__ import annotations

import contextlib
import ctypes
import re
from pathlib import Path
from typing import Any

__all__ = ["cuda_is_initialized", "finish_device_work", "machine_facts"]


def machine_facts() -> dict[str, Any]:
    """Return driver and CUDA versions as far as the libraries that are loaded tell them."""
    facts: dict[str, Any] = {}
    with contextlib.suppress(OSError, AttributeError):
        value = ctypes.c_int()
        if ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(value)) == 0:
            facts["driver_cuda_version"] = _cuda_version(value.value)
    with contextlib.suppress(OSError, AttributeError):
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        text = ctypes.create_string_buffer(80)
        if nvml.nvmlInit_v2() == 0 and nvml.nvmlSystemGetDriverVersion(text, len(text)) == 0:
            facts["driver_version"] = text.value.decode()
    for key, pattern, function in (
        ("runtime_version", r"/libcudart[-.\w]*\.so[.\d]*$", "cudaRuntimeGetVersion"),
    ):
        library = _mapped(pattern)
        if library is not None:
            with contextlib.suppress(OSError, AttributeError):
                value = ctypes.c_int()
                if getattr(ctypes.CDLL(library), function)(ctypes.byref(value)) == 0:
                    facts[key] = _cuda_version(value.value)
    library = _mapped(r"/libnvrtc\.so[.\d]*$")
    if library is not None:
        with contextlib.suppress(OSError, AttributeError):
            major, minor = ctypes.c_int(), ctypes.c_int()
            if ctypes.CDLL(library).nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)) == 0:
                facts["nvrtc_version"] = f"{major.value}.{minor.value}"
    return facts


def cuda_is_initialized() -> bool:
    """Tell whether this process has initialized CUDA; starts nothing."""
    path = _mapped(r"/libcuda\.so[.\d]*$")
    return path is not None and ctypes.CDLL(path).cuDeviceGetCount(ctypes.byref(ctypes.c_int())) == 0


def finish_device_work() -> None:
    """Wait for the work of every device's primary context, so that its records are whole; starts nothing."""
    if not cuda_is_initialized():
        return
    driver = ctypes.CDLL("libcuda.so.1")
    count = ctypes.c_int()
    driver.cuDeviceGetCount(ctypes.byref(count))
    for device in range(count.value):
        flags, active = ctypes.c_uint(), ctypes.c_int()
        driver.cuDevicePrimaryCtxGetState(device, ctypes.byref(flags), ctypes.byref(active))
        context = ctypes.c_void_p()
        if active.value and driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0:
            if driver.cuCtxPushCurrent_v2(context) == 0:
                driver.cuCtxSynchronize()
                driver.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))
            driver.cuDevicePrimaryCtxRelease_v2(device)


def _cuda_version(value: int) -> str:
    return f"{value // 1000}.{value % 1000 // 10}"


def _mapped(pattern: str) -> str | None:
    with contextlib.suppress(OSError), Path("/proc/self/maps").open(encoding="utf-8") as maps:
        for line in maps:
            path = line.split(maxsplit=5)[-1].strip()
            if re.search(pattern, path):
                return path
    return None
