"""Measure what recording costs a small PyTorch training loop, in alternating blocks of steps.

Short blocks with and without recording alternate in one process, each is compared with the one after it, and
the median of these ratios is told with its interval: the machine's moods weigh on both alike.
With --profiler, PyTorch's own profiler takes the recorder's place. Needs an NVIDIA GPU and PyTorch.
Usage: python tests/gpu/training_cost.py [--blocks 30] [--steps 5] [--profiler] [--calls needed]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def training_step() -> Callable[[], None]:
    """Return a function that does one step of a small transformer's training."""
    import torch  # noqa: PLC0415 - after the recorder, which comes first

    layer = torch.nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.0, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 6).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    batch = torch.randn(32, 128, 512, device="cuda")

    def step() -> None:
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()

    return step


def block(step: Callable[[], None], steps: int) -> list[float]:
    """Return the milliseconds of some steps, after one that is not counted."""
    times = []
    for _ in range(steps + 1):
        began = time.perf_counter_ns()
        step()
        times.append((time.perf_counter_ns() - began) / 1e6)
    return times[1:]


@contextlib.contextmanager
def profiled() -> Any:
    """Run PyTorch's profiler around a block."""
    from torch.profiler import ProfilerActivity, profile  # noqa: PLC0415

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]):
        yield


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=30)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--profiler", action="store_true")
    parser.add_argument("--calls", default="needed")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    from overlane_collect.backends import Options  # noqa: PLC0415 - not needed for --help
    from overlane_collect.recorder import Recorder  # noqa: PLC0415

    folder = Path(tempfile.mkdtemp())
    recorder = Recorder(folder / "a.overlane", options=Options(calls=arguments.calls))
    if not arguments.profiler:
        recorder.start()
    step = training_step()
    for _ in range(10):
        step()
    with_recording: list[float] = []
    without: list[float] = []
    for _ in range(arguments.blocks):
        if arguments.profiler:
            with profiled():
                with_recording.append(statistics.median(block(step, arguments.steps)))
        else:
            recorder.start()
            with_recording.append(statistics.median(block(step, arguments.steps)))
            recorder.stop()
        without.append(statistics.median(block(step, arguments.steps)))
    if not arguments.profiler:
        recorder.close(write=False)
    ratios = np.asarray(with_recording) / np.asarray(without) - 1
    medians = np.median(np.random.default_rng(1).choice(ratios, (2000, len(ratios))), axis=1)
    result = {
        "what": "PyTorch's profiler" if arguments.profiler else f"recorder, calls={arguments.calls}",
        "blocks": len(ratios),
        "with_ms": statistics.median(with_recording),
        "without_ms": statistics.median(without),
        "slowdown_fraction": float(np.median(ratios)),
        "slowdown_95_fraction": [float(q) for q in np.quantile(medians, (0.025, 0.975))],
    }
    text = json.dumps(result, indent=2)
    sys.stdout.write(text + "\n")
    if arguments.json:
        arguments.json.write_text(text)


if __name__ == "__main__":
    main()
