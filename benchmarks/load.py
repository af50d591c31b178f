"""Kineto JSON to validated columns: rate and memory, beside other readers in the same run."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import generate
from measure import DATA, HERE, MB, ChildFailedError, ChildResult, Figure, figure_of, run_worker

PART = "load"
HTA_ENVIRONMENT = HERE / ".venv-hta"
HTA_PACKAGES = ("HolisticTraceAnalysis==0.5.0", "pandas<3")  # 0.5.0 fails on pandas 3 with files of this size
RATE_BUDGET = 1.0e6  # events/s; the goal is 1.5e6
MEMORY_BUDGET = 0.6  # of the unpacked bytes
HTA_BUDGET = 30.0  # times its rate, in the same run
GZIP_BUDGET = 1.1  # of the time for the plain file


def measure(*, is_quick: bool) -> list[Figure]:
    """Return the load figures: 1 M and 5 M events, or 100 k for a quick look.

    The loaders of one size run in turn, round by round, so that they share whatever else the machine does.
    """
    figures: list[Figure] = []
    sizes, repeats = ((100_000,), 3) if is_quick else ((1_000_000, 5_000_000), 5)
    warm_up = trace_file(2_000)
    for count in sizes:
        figures += _plain_and_gzip(count, warm_up, repeats)
        figures += _peers(count, figures, is_rival_small=count <= 1_000_000)
    first = sizes[0]
    for layout in ({"compact": True}, {"relative": True}):
        path = trace_file(first, **layout)
        results = [_checked(run_worker("load_overlane", path, warm_up), path) for _ in range(repeats)]
        name = f"{_count(first)} events, {'compact' if 'compact' in layout else 'relative stamps'}: rate"
        figures.append(_rate(name, first, results, RATE_BUDGET))
    return figures


def trace_file(count: int, *, suffix: str = ".json", **layout: bool) -> Path:
    """Return a generated trace, made on first use."""
    words = "".join(f"-{word}" for word in sorted(layout))
    path = DATA / f"kineto-{count}{words}{suffix}"
    if not (path.exists() and generate.facts_path(path).exists()):
        DATA.mkdir(parents=True, exist_ok=True)
        print(f"  generating {path.name}", file=sys.stderr)
        partial = path.with_name(f"partial-{path.name}")
        generate.generate(partial, count, **layout)
        generate.facts_path(partial).replace(generate.facts_path(path))
        partial.replace(path)
    return path


def hta_python() -> Path:
    """Return the Python of an environment with HolisticTraceAnalysis, made on first use.

    Raises:
        ChildFailedError: It cannot be installed here.
    """
    python = HTA_ENVIRONMENT / "bin" / "python"
    probe = [str(python), "-c", "import hta.common.trace"]
    if python.exists() and subprocess.run(probe, capture_output=True, check=False).returncode == 0:
        return python
    print(f"  installing HolisticTraceAnalysis into {HTA_ENVIRONMENT.name}", file=sys.stderr)
    for command in (
        [sys.executable, "-m", "venv", str(HTA_ENVIRONMENT)],
        [str(python), "-m", "pip", "install", "-qq", *HTA_PACKAGES],
        probe,
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ChildFailedError(
                f"not installed: {(done.stderr.strip().splitlines() or ['no message'])[-1]}"
            )
    return python


def _plain_and_gzip(count: int, warm_up: Path, repeats: int) -> list[Figure]:
    plain, packed = trace_file(count), trace_file(count, suffix=".json.gz")
    plain_results, packed_results = [], []
    for _ in range(repeats):
        plain_results.append(_checked(run_worker("load_overlane", plain, warm_up), plain))
        packed_results.append(_checked(run_worker("load_overlane", packed, warm_up), packed))
    label, size = _count(count), plain.stat().st_size
    memory_budget = (
        MEMORY_BUDGET if count >= 1_000_000 else None
    )  # a small file's own bytes are lost in the libraries'
    return [
        _rate(f"{label} events ({size // MB} MB): rate", count, plain_results, RATE_BUDGET),
        figure_of(
            PART,
            f"{label} events: private memory / unpacked bytes",
            [r.peak_anonymous_bytes / size for r in plain_results],
            "",
            budget=memory_budget,
        ),
        _rate(f"{label} events, .json.gz: rate", count, packed_results, RATE_BUDGET),
        figure_of(
            PART,
            f"{label} events, .json.gz: private memory / unpacked bytes",
            [r.peak_anonymous_bytes / size for r in packed_results],
            "",
            budget=memory_budget,
        ),
        figure_of(
            PART,
            f"{label} events: time of .json.gz / time of .json",
            [
                z.answer["seconds"] / p.answer["seconds"]
                for z, p in zip(packed_results, plain_results, strict=True)
            ],
            "times",
            budget=GZIP_BUDGET,
        ),
        figure_of(
            PART,
            f"{label} events: start-up (imports, compiled code from its cache)",
            [r.answer["start_up_seconds"] for r in plain_results],
            "s",
        ),
    ]


def _peers(count: int, own: list[Figure], *, is_rival_small: bool) -> list[Figure]:
    path, label = trace_file(count), _count(count)
    rate = next(f.value for f in own if f.name.startswith(f"{label} events (")) or 0.0
    figures = []
    peers: list[tuple[str, str, float | None]] = [
        ("standard json + columns", "load_stdlib", None),
        ("HolisticTraceAnalysis", "load_hta", HTA_BUDGET),
    ]
    for peer, job, budget in peers:
        if not is_rival_small:
            figures.append(
                Figure(
                    PART,
                    f"{label} events: times as fast as {peer}",
                    None,
                    "times",
                    budget,
                    "higher",
                    note="measured at 1 M only: takes minutes and 10 GB",
                )
            )
            continue
        try:
            result = run_worker(job, path, python=hta_python() if job == "load_hta" else sys.executable)
        except ChildFailedError as error:
            figures.append(
                Figure(
                    PART,
                    f"{label} events: times as fast as {peer}",
                    None,
                    "times",
                    budget,
                    "higher",
                    note=str(error),
                )
            )
            continue
        peer_rate = count / result.answer["seconds"]
        memory = result.peak_anonymous_bytes // MB
        note = f"{peer}: {peer_rate / 1000:.0f} k events/s, {memory} MB private, one run"
        figures.append(
            Figure(
                PART,
                f"{label} events: times as fast as {peer}",
                rate / peer_rate,
                "times",
                budget,
                "higher",
                (rate / peer_rate,),
                note,
            )
        )
    return figures


def _rate(name: str, count: int, results: list[ChildResult], budget: float) -> Figure:
    """Return the rate by the clock; the note has the processor time, which other programs disturb less."""
    rates = [count / r.answer["seconds"] for r in results]
    cpu = statistics.median(r.answer["cpu_seconds"] for r in results)
    note = f"{cpu:.2f} s of processor time"
    return figure_of(PART, name, rates, "events/s", budget=budget, better="higher", note=note)


def _checked(result: ChildResult, path: Path) -> ChildResult:
    """Refuse a fast wrong answer: counts and sums of nanoseconds must be the generator's."""
    facts: dict[str, Any] = json.loads(generate.facts_path(path).read_text())
    for key in ("ops", "api_calls", "ops_start_sum_ns", "ops_duration_sum_ns"):
        if result.answer[key] != facts[key]:
            raise ChildFailedError(
                f"{path.name} was read wrongly: {key} is {result.answer[key]}, generated were {facts[key]}"
            )
    return result


def _count(count: int) -> str:
    return f"{count // 1_000_000} M" if count >= 1_000_000 else f"{count // 1_000} k"
