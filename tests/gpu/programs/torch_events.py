"""A training loop whose kernels are long enough that the GPU never waits; knows nothing of Overlane.

Prints one JSON line: milliseconds of the measured steps between two CUDA events.
"""

import json
import sys

import torch


def main() -> None:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(2048, 16, 8192, dropout=0.0, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 2).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 1e-4)
    batch = torch.randn(16, 512, 2048, device="cuda")

    def step() -> None:
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    for _ in range(5):
        step()
    torch.cuda.synchronize()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.nvtx.range_push("measured")
    begin.record()
    for _ in range(10):
        step()
    end.record()
    torch.cuda.synchronize()
    torch.cuda.nvtx.range_pop()
    sys.stdout.write(json.dumps({"event_ms": begin.elapsed_time(end)}) + "\n")


main()
