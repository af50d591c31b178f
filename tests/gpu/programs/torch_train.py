"""A small deterministic PyTorch training loop with a copy stream; knows nothing of Overlane.

Prints one JSON line: milliseconds of the measured steps. With PROFILE=FILE, PyTorch's own profiler runs
around everything and its launches per kernel name and its total kernel time are written there.
"""

import contextlib
import json
import os
import statistics
import sys
import time
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile


def main() -> None:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.0, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 6).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    host = torch.randn(32, 128, 512).pin_memory()
    copies = torch.cuda.Stream()
    times = []
    for step in range(steps + 5):
        torch.cuda.synchronize()
        began = time.perf_counter()
        with torch.cuda.stream(copies):
            batch = host.to("cuda", non_blocking=True)
        torch.cuda.current_stream().wait_stream(copies)
        torch.cuda.nvtx.range_push(f"step {step}")
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.nvtx.range_pop()
        torch.cuda.synchronize()
        if step >= 5:
            times.append((time.perf_counter() - began) * 1e3)
    answer = {"step_ms": statistics.median(times), "min_ms": min(times), "steps": steps}
    sys.stdout.write(json.dumps(answer) + "\n")


def profiled(path: str) -> None:
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        main()
    counts: dict[str, int] = {}
    total = 0
    for event in profiler.profiler.kineto_results.events():
        if "CUDA" in str(event.device_type()) and not event.name().startswith(
            ("Memcpy", "Memset", "step ", "Optimizer")
        ):
            counts[event.name()] = counts.get(event.name(), 0) + 1
            total += event.duration_ns()
    Path(path).write_text(json.dumps({"counts": counts, "kernel_ns": total}))


with contextlib.suppress(KeyboardInterrupt):
    profiled(os.environ["PROFILE"]) if "PROFILE" in os.environ else main()
