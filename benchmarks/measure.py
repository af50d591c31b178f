"""What every benchmark shares: figures with budgets, measured child processes, facts of the machine."""

from __future__ import annotations

import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

HERE = Path(__file__).resolve().parent
WORKER = HERE / "worker.py"
DATA = Path(os.environ.get("OVERLANE_BENCH_DATA", HERE / "results" / "data"))
"""Where generated traces and prepared caches lie; kept between runs, safe to delete."""

SAMPLE_SECONDS = 0.005
MB = 1_000_000


@dataclass(frozen=True)
class Figure:
    """One measured number.

    Attributes:
        part: Benchmark part that it belongs to.
        name: What was measured, in words.
        value: The median, or None when it could not be measured.
        unit: Unit of value and budget.
        budget: What is to be reached, None for numbers that only stand beside others.
        better: Which side of the budget is good.
        repeats: All measurements that the value is the median of.
        note: What else must be known to read it.
    """

    part: str
    name: str
    value: float | None
    unit: str
    budget: float | None = None
    better: Literal["lower", "higher"] = "lower"
    repeats: tuple[float, ...] = ()
    note: str = ""

    @property
    def is_met(self) -> bool | None:
        """Whether the budget is met; None without a budget or value."""
        if self.value is None or self.budget is None:
            return None
        return self.value <= self.budget if self.better == "lower" else self.value >= self.budget

    def to_json(self) -> dict[str, Any]:
        """Return the figure as plain JSON values."""
        return {**asdict(self), "is_met": self.is_met}


def figure_of(part: str, name: str, repeats: Sequence[float], unit: str, **rest: Any) -> Figure:
    """Return the figure whose value is the median of the repeats."""
    return Figure(part, name, statistics.median(repeats), unit, repeats=tuple(repeats), **rest)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least `share` (0..1) of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


@dataclass(frozen=True)
class ChildResult:
    """What one child process did.

    Attributes:
        answer: The JSON object that it printed last.
        peak_anonymous_bytes: Highest RssAnon seen; private memory, without mapped files.
        wall_seconds: From start to end of the process.
    """

    answer: dict[str, Any]
    peak_anonymous_bytes: int
    wall_seconds: float


class ChildFailedError(Exception):
    """A measured child process ended with an error; the message holds its last lines."""


def run_worker(
    job: str,
    *arguments: str | Path,
    python: Path | str = sys.executable,
    environment: Mapping[str, str] | None = None,
) -> ChildResult:
    """Run one job of `worker.py` in a fresh process and sample its private memory every 5 ms from outside.

    Raises:
        ChildFailedError: The process ended with an error.
    """
    command = [str(python), str(WORKER), job, *map(str, arguments)]
    started = time.perf_counter()
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environment or {})},
    ) as child:
        peak = 0
        while child.poll() is None:
            peak = max(peak, anonymous_bytes(child.pid))
            time.sleep(SAMPLE_SECONDS)
        wall = time.perf_counter() - started
        out, err = child.communicate()
    if child.returncode:
        raise ChildFailedError(
            f"{job} ended with status {child.returncode}: {' | '.join(err.strip().splitlines()[-3:])}"
        )
    return ChildResult(json.loads(out.strip().splitlines()[-1]), peak, wall)


def anonymous_bytes(pid: int) -> int:
    """Return the RssAnon of a process, 0 when it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    for line in status.splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0


def seconds(action: Callable[[], Any]) -> float:
    """Return how long one call took."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def machine_facts() -> dict[str, Any]:
    """Return processor, cores, memory, load and versions, so that two results can be told apart."""
    processor = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    memory_kb = int(Path("/proc/meminfo").read_text().split(maxsplit=2)[1])
    versions = {}
    for package in ("overlane", "numpy", "pyarrow", "numba", "isal", "pandas", "dash", "playwright"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "not installed"
    return {
        "processor": processor,
        "cores": os.cpu_count(),
        "memory_bytes": memory_kb * 1024,
        "load_average": os.getloadavg(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "versions": versions,
    }
