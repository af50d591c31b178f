"""Comparing two traces of a million operations each, as the dashboard does when both are open.

    python benchmarks/comparing.py [--ops 1000000]

The analyses of both sides are kept with their cache entries, as the timeline page leaves them: a first
process opens both files and computes them, a fresh one compares. Compiled code is loaded by a comparison of
small traces before.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from measure import ChildFailedError, Figure, figure_of

PART = "compare"
BUDGET_SECONDS = 5.0
_SEEDS = {"baseline": 7, "candidate": 8}
_SMALL = 2_000


def measure(*, is_quick: bool) -> list[Figure]:
    """Return wall and CPU seconds until the comparison of two traces is ready."""
    count, repeats = (100_000, 1) if is_quick else (1_000_000, 3)
    found = compared(count, repeats)
    cpu = ", ".join(f"{one['cpu_seconds']:.2f}" for one in found["repeats"])
    note = f"CPU {cpu} s; what is kept of both sides took {found['kept_cpu_seconds']:.1f} s CPU, once"
    name = f"two traces of {count / 1e6:g} M operations compared"
    seconds = [one["seconds"] for one in found["repeats"]]
    return [figure_of(PART, name, seconds, "s", budget=BUDGET_SECONDS, note=note)]


def compared(count: int, repeats: int) -> dict[str, Any]:
    """Make two traces, keep their analyses, and compare them in fresh processes.

    Args:
        count: Operations of each.
        repeats: Comparisons.
    """
    with tempfile.TemporaryDirectory() as folder:
        kept = _child("keep", Path(folder), count)
        return {
            "repeats": [_child("compare", Path(folder), count) for _ in range(repeats)],
            "kept_cpu_seconds": kept["cpu_seconds"],
        }


def _child(task: str, folder: Path, count: int) -> dict[str, Any]:
    command = [
        sys.executable,
        str(Path(__file__).resolve()),
        "--ops",
        str(count),
        "--child",
        task,
        str(folder),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ChildFailedError(f"the {task} process failed: {done.stderr.strip().splitlines()[-1:]}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _keep(folder: Path, count: int) -> dict[str, Any]:
    """Write both traces and compute what the comparison needs of each."""
    from analyses import synthetic_trace  # noqa: PLC0415
    from overlane.cache import TraceCache  # noqa: PLC0415
    from overlane_collect.schema import TABLES  # noqa: PLC0415
    from overlane_collect.writer import write_trace  # noqa: PLC0415

    cache, spent = TraceCache(folder / "cache"), 0.0
    for name, seed in _SEEDS.items():
        for size in (_SMALL, count):
            path = folder / f"{name}-{size}.overlane"
            trace = synthetic_trace(size, seed=seed)
            write_trace(path, trace.header, {table: trace.table(table) for table in TABLES})
            study = _study(cache, path)
            begin = time.process_time()
            for part in ("dependencies", "waits", "idle", "barriers"):
                getattr(study, part)
            spent += time.process_time() - begin
    return {"cpu_seconds": spent}


def _compare(folder: Path, count: int) -> dict[str, Any]:
    """Compare the traces of each size; the large ones are timed, from the moment at which both are open."""
    from overlane.analysis.compare import compare_studies  # noqa: PLC0415
    from overlane.cache import TraceCache  # noqa: PLC0415

    cache, answer = TraceCache(folder / "cache"), {}
    for size in (_SMALL, count):
        studies = [_study(cache, folder / f"{name}-{size}.overlane") for name in _SEEDS]
        wall, cpu = time.perf_counter(), time.process_time()
        found = compare_studies(studies[1:], studies[:1])
        json.dumps(found.to_json())
        answer = {
            "seconds": time.perf_counter() - wall,
            "cpu_seconds": time.process_time() - cpu,
            "pairs": sum(row.pair_count for row in found.operations),
        }
    return answer


def _study(cache: Any, path: Path) -> Any:
    from overlane.analysis.study import Study  # noqa: PLC0415

    opened = cache.open(path)
    return Study(opened.trace, keep=opened)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and return 1 when the budget is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ops", type=int, default=1_000_000, help="operations of each trace")
    parser.add_argument("--repeats", type=int, default=3, help="comparisons")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child:
        task, folder = options.child
        run = {"keep": _keep, "compare": _compare}[task]
        print(json.dumps(run(Path(folder), options.ops)))
        return 0
    found = compared(options.ops, options.repeats)
    for one in found["repeats"]:
        print(
            f"{options.ops:,} operations a side, {one['pairs']:,} pairs: "
            f"{one['seconds']:.2f} s, {one['cpu_seconds']:.2f} s CPU"
        )
    print(f"what is kept of both sides took {found['kept_cpu_seconds']:.1f} s CPU, once")
    return int(min(one["seconds"] for one in found["repeats"]) > BUDGET_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
