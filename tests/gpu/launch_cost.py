"""Measure what recording costs the host per kernel launch, and record a million launches.

Batches of launches with and without recording alternate, so that clocks, caches and neighbours weigh on both
alike; a batch is short enough that the queue of pending launches (about a thousand) never blocks the host.
Needs an NVIDIA GPU. Usage: python tests/gpu/launch_cost.py [--batches 200] [--million 1000000] [--json FILE]
"""

from __future__ import annotations

import argparse
import ctypes
import json
import resource
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

BATCH = 400  # below the 500 that the protocol allows; 100 more warm the batch up
WARM = 100


def driver_launcher() -> tuple[Any, Any, Any]:
    """Return functions that launch one tiny kernel, synchronize, and read the free memory."""
    from cuda.bindings import driver, nvrtc  # noqa: PLC0415 - after the recorder, which comes first

    def check(result: tuple[Any, ...]) -> Any:
        if int(result[0]) != 0:
            raise SystemExit(f"launch_cost: {result[0]}")
        return result[1] if len(result) > 1 else None

    check(driver.cuInit(0))
    device = check(driver.cuDeviceGet(0))
    check(driver.cuCtxSetCurrent(check(driver.cuDevicePrimaryCtxRetain(device))))
    source = b'extern "C" __global__ void tiny(int* x) { if (x) x[0] = 1; }'
    program = check(nvrtc.nvrtcCreateProgram(source, b"tiny.cu", 0, [], []))
    major = check(
        driver.cuDeviceGetAttribute(
            driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device
        )
    )
    minor = check(
        driver.cuDeviceGetAttribute(
            driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device
        )
    )
    check(nvrtc.nvrtcCompileProgram(program, 1, [f"--gpu-architecture=sm_{major}{minor}".encode()]))
    cubin = b" " * check(nvrtc.nvrtcGetCUBINSize(program))
    check(nvrtc.nvrtcGetCUBIN(program, cubin))
    function = int(check(driver.cuModuleGetFunction(check(driver.cuModuleLoadData(cubin)), b"tiny")))
    library = ctypes.PyDLL("libcuda.so.1")
    pointer = ctypes.c_void_p(0)
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(pointer))
    fixed = [
        ctypes.c_void_p(function),
        *[ctypes.c_uint(v) for v in (1, 1, 1, 32, 1, 1, 0)],
        ctypes.c_void_p(0),
        arguments,
        None,
    ]
    call = library.cuLaunchKernel

    def launch() -> None:
        call(*fixed)

    def free() -> int:
        return int(driver.cuMemGetInfo()[1])

    launch.keep = pointer  # type: ignore[attr-defined]
    return launch, library.cuCtxSynchronize, free


def timed_batch(launch: Any, synchronize: Any) -> float:
    """Return the host's ns per launch of one batch."""
    for _ in range(WARM):
        launch()
    began = time.perf_counter_ns()
    for _ in range(BATCH):
        launch()
    spent = time.perf_counter_ns() - began
    synchronize()
    return spent / BATCH


def bootstrap(values: np.ndarray[Any, Any], seed: int = 1) -> tuple[float, float]:
    """Return the 95 % interval of the median."""
    random = np.random.default_rng(seed)
    medians = np.median(random.choice(values, (2000, len(values))), axis=1)
    return float(np.quantile(medians, 0.025)), float(np.quantile(medians, 0.975))


def launch_cost(batches: int, folder: Path, calls: str) -> dict[str, Any]:
    """Alternate batches with and without recording."""
    from overlane_collect.backends import Options  # noqa: PLC0415 - a benchmark of what it imports
    from overlane_collect.recorder import Recorder  # noqa: PLC0415

    recorder = Recorder(folder / f"cost-{calls}.overlane", options=Options(calls=calls))  # type: ignore[arg-type]
    recorder.start()
    launch, synchronize, _ = driver_launcher()
    launch()
    synchronize()
    with_recording, without = [], []
    for _ in range(batches):
        recorder.start()
        with_recording.append(timed_batch(launch, synchronize))
        recorder.stop()
        without.append(timed_batch(launch, synchronize))
    recorder.start()
    recorder.close(write=False)
    differences = np.asarray(with_recording) - np.asarray(without)
    low, high = bootstrap(differences)
    return {
        "calls": calls,
        "batches": batches,
        "batch": BATCH,
        "without_ns": statistics.median(without),
        "with_ns": statistics.median(with_recording),
        "cost_ns": float(np.median(differences)),
        "cost_95_ns": [low, high],
    }


def million(count: int, folder: Path) -> dict[str, Any]:
    """Record a million launches, and say what it took and what was lost."""
    from overlane_collect.recorder import Recorder  # noqa: PLC0415
    from overlane_collect.recovery import recover  # noqa: PLC0415

    out = folder / "million.overlane"
    recorder = Recorder(out)
    recorder.start()
    launch, synchronize, free = driver_launcher()
    launch()
    synchronize()
    free_before, memory_before = free(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    for _ in range(count - 1):
        launch()
    synchronize()
    spent = time.perf_counter() - began
    free_after = free()
    recorder.close(write=False)
    memory_recording = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    journal_bytes = recorder.journal_path.stat().st_size
    began = time.perf_counter()
    recovered = recover(recorder.journal_path, out)
    writing = time.perf_counter() - began
    recorder.journal_path.unlink()
    from overlane_collect.writer import read_members  # noqa: PLC0415

    header, tables = read_members(out)
    return {
        "launches": count,
        "operations": recovered.rows.get("ops", 0),
        "calls": recovered.rows.get("api_calls", 0),
        "dropped": header.dropped,
        "integrity": {c.check: [c.status, c.count] for c in header.integrity},
        "seconds": spent,
        "us_per_launch": spent / count * 1e6,
        "added_host_mib": (memory_recording - memory_before) / 1024,
        "peak_with_writing_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "added_host_with_writing_mib": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory_before)
        / 1024,
        "added_gpu_mib": (free_before - free_after) / 2**20,
        "journal_mib": journal_bytes / 2**20,
        "file_mib": out.stat().st_size / 2**20,
        "file_bytes_per_operation": out.stat().st_size / count,
        "writing_seconds": writing,
        "cost": header.extra["recording_cost"],
        "null_queued": tables["ops"]["queued_ns"].null_count,
    }


def main() -> None:
    """Run the measurements that the arguments name, print and write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument("--calls", default="needed")
    parser.add_argument("--million", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=Path("/tmp"))
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    result = (
        million(arguments.million, arguments.folder)
        if arguments.million
        else launch_cost(arguments.batches, arguments.folder, arguments.calls)
    )
    text = json.dumps(result, indent=2)
    sys.stdout.write(text + "\n")
    if arguments.json:
        arguments.json.write_text(text)


if __name__ == "__main__":
    main()
