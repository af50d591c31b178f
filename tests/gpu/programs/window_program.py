"""PyTorch work outside and inside ranges, and between the profiler's calls; knows nothing of Overlane."""

import sys
import time

import torch

x = torch.ones(1 << 16, device="cuda")


def work(kernels: int) -> None:
    for _ in range(kernels):
        x.mul_(1.0)


work(10)
torch.cuda.synchronize()
torch.cuda.nvtx.range_push("mine")
work(20)
torch.cuda.nvtx.range_pop()
torch.cuda.profiler.start()
work(30)
torch.cuda.profiler.stop()
work(40)
torch.cuda.synchronize()
if len(sys.argv) > 1:
    end = time.monotonic() + float(sys.argv[1])
    while time.monotonic() < end:
        work(1)
        torch.cuda.synchronize()
        time.sleep(0.005)
