# ruff: noqa: INP001, S603 - a script that runs our own command
"""Record the workloads of the collectors as sample traces, and list them in MANIFEST.json.

Needs an NVIDIA GPU and `pip install overlane[cuda]`.
Usage: python sample_traces/record_workloads.py [FOLDER [NAME ...]], by default all into this folder.
"""

from __future__ import annotations

import ctypes
import datetime as dt
import hashlib
import json
import subprocess
import sys
from pathlib import Path

from overlane_collect.writer import read_members

WRONG_VALUES = {"missing-wait", "early-record", "wrong-event", "early-reuse", "host-overwrite", "early-free"}

# File name, title, workload, settings.
SAMPLES = [
    (
        "vector-add-pageable",
        "Vector addition, pageable, serial",
        "vector-add",
        "elements=16777216 memory=pageable streams=1 chunks=1",
    ),
    (
        "vector-add-pinned",
        "Vector addition, pinned, four streams",
        "vector-add",
        "elements=16777216 streams=4 chunks=16",
    ),
    *[
        (f"default-stream-{m}", f"Default stream, {m}", "default-stream", f"mode={m} kernel_us=500")
        for m in ("legacy", "per-thread", "nonblocking", "mixed")
    ],
    *[
        (f"green-context-{m}", f"Critical kernel against bulk, mode {m}", "green-context", f"mode={m}")
        for m in "ABC"
    ],
    (
        "green-context-concurrency",
        "Communication beside products, a partition each",
        "green-context",
        "mode=concurrency",
    ),
    ("green-context-shared", "Communication beside products, no partitions", "green-context", "mode=shared"),
    ("stream-contract-clean", "Producer and consumer, correct", "stream-contract", ""),
    *[
        (f"stream-contract-{f}", f"Producer and consumer, {f}", "stream-contract", f"fault={f}")
        for f in sorted(WRONG_VALUES)
    ],
    *[
        (
            f"sync-scope-{m}",
            f"Pipeline ended by {m} synchronization",
            "sync-scope",
            f"scope={m} elements=262144",
        )
        for m in ("device", "stream", "event", "none")
    ],
    *[
        (f"priority-{m}", f"Critical kernel with {m} priority", "priority", f"mode={m}")
        for m in ("high", "equal")
    ],
    ("event-chain", "A chain of events over four streams", "event-chain", ""),
    ("callback", "A stream held by host functions", "callback", ""),
    (
        "many-streams-small-chunks",
        "Many streams, chunks of 64 KiB",
        "many-streams",
        "chunk_kib=64 total_kib=8192 streams=32",
    ),
    ("many-streams-large-chunks", "Streams with chunks of 4 MiB", "many-streams", "chunk_kib=4096"),
    *[
        (f"graph-replay-{m}", f"Small kernels, launched as {m}", "graph-replay", f"mode={m}")
        for m in ("graph", "stream")
    ],
    *[
        (
            f"alloc-in-loop-{m}",
            f"Scratch memory, allocated {m} the loop" if m != "async" else "Scratch memory in stream order",
            "alloc-in-loop",
            f"mode={m}",
        )
        for m in ("inside", "async", "before")
    ],
    ("launch-bound", "Thousands of tiny kernels", "launch-bound", "launches=2000"),
    *[
        (f"implicit-sync-{c}", f"One call while a kernel runs: {c}", "implicit-sync", f"call={c}")
        for c in ("none", "mem-free", "module-load", "green-context", "pageable-copy")
    ],
    *[
        (f"lazy-load-{m}", f"First launch of a kernel, {m} loading", "lazy-load", f"mode={m}")
        for m in ("lazy", "eager")
    ],
    ("cooperative", "Cooperative kernels beside ordinary ones", "cooperative", ""),
    *[
        (f"programmatic-launch-{m}", f"Pairs of kernels, {m} launch", "programmatic-launch", f"mode={m}")
        for m in ("programmatic", "ordinary")
    ],
    *[
        (f"managed-memory-{m}", f"Managed memory, {m}", "managed-memory", f"mode={m}")
        for m in ("fault", "prefetch")
    ],
    ("two-contexts", "Two contexts take turns", "two-contexts", ""),
]

# Besides what CUPTI records: one of each kind of what brackets of CUDA events can tell.
EVENT_SAMPLES = [
    (
        "vector-add-pinned-cuda-events",
        "Vector addition, pinned, by CUDA events",
        "vector-add",
        "elements=16777216 streams=4 chunks=16",
    ),
    ("green-context-B-cuda-events", "Critical kernel, mode B, by CUDA events", "green-context", "mode=B"),
]

# Where two GPUs are.
TWO_GPU_SAMPLES = [
    (f"two-gpu-{m}", f"Two GPUs sum their numbers, {m}", "two-gpu", f"mode={m}")
    for m in ("overlap", "serial")
]


def record(
    folder: Path, name: str, title: str, workload: str, settings: str, *, backend: str = "cupti"
) -> dict[str, object]:
    """Make one recording and return its entry of the manifest."""
    out = folder / f"{name}.overlane"
    command = [
        sys.executable,
        "-m",
        "overlane_collect",
        "run",
        workload,
        "-o",
        out.name,
        "--backend",
        backend,
    ]
    for setting in settings.split():
        command += ["--set", setting]
    # In the folder, since the header keeps the command and is to name no place.
    code = subprocess.run(command, cwd=folder, check=False, stdout=subprocess.DEVNULL).returncode
    if code not in ((0, 1) if settings.partition("=")[2] in WRONG_VALUES else (0,)):
        raise SystemExit(f"{name}: exit code {code}")
    return entry(out, title, workload, settings, backend=backend)


def entry(out: Path, title: str, workload: str, settings: str, *, backend: str) -> dict[str, object]:
    """Return what the manifest says of a recording."""
    header, tables = read_members(out)
    recorded = dt.datetime.fromtimestamp((header.origin_unix_ns or 0) / 1e9, dt.UTC)
    options = "" if backend == "cupti" else f" --backend {backend}"
    version = header.extra["cupti_version"]
    return {
        "file": out.name,
        "title": title,
        "made_by": f"overlane run {workload}{options}"
        + "".join(f" --set {setting}" for setting in settings.split()),
        "gpu": tables["devices"]["name"][0].as_py(),
        "driver": header.driver_version,
        "recorded": recorded.date().isoformat(),
        "recorder": f"{header.producer} ({f'CUPTI {version}' if version else 'CUDA events'})",
        "runtime": f"CUDA {header.runtime_version}" if header.runtime_version else None,
        "framework": None,
        "script": Path(__file__).name,
        "format": "overlane",
        "synthetic": False,
        "sha256": hashlib.sha256(out.read_bytes()).hexdigest(),
    }


def devices() -> int:
    """Return how many GPUs are here."""
    driver, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
    driver.cuInit(0)
    driver.cuDeviceGetCount(ctypes.byref(count))
    return count.value


def main() -> None:
    """Record everything, and put the entries into the manifest in place of older ones."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    folder.mkdir(parents=True, exist_ok=True)
    chosen = set(sys.argv[2:])
    samples = [(sample, "cupti") for sample in SAMPLES] + [
        (sample, "cuda_events") for sample in EVENT_SAMPLES
    ]
    samples += [(sample, "cupti") for sample in TWO_GPU_SAMPLES] if devices() > 1 else []
    made = [
        record(folder, *sample, backend=backend)
        for sample, backend in samples
        if not chosen or sample[0] in chosen
    ]
    manifest = folder / "MANIFEST.json"
    listed = json.loads(manifest.read_text())["traces"] if manifest.exists() else []
    names = {item["file"] for item in made}
    kept = [item for item in listed if item["file"] not in names]
    manifest.write_text(json.dumps({"schema": 1, "traces": kept + made}, indent=1) + "\n")


if __name__ == "__main__":
    main()
