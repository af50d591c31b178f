"""Data-parallel training by two processes that share one GPU (gloo); knows nothing of Overlane.

The first process starts the two ranks, as torchrun does.
"""

import os
import subprocess
import sys
import tempfile

import torch


def train() -> None:
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{os.environ['MEETING']}", rank=rank, world_size=world
    )
    torch.manual_seed(rank)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(256, 256).cuda())
    for _ in range(5):
        model(torch.randn(64, 256, device="cuda")).square().mean().backward()
    total = model.module.weight.grad.sum()
    others = [torch.zeros_like(total).cpu() for _ in range(world)]
    torch.distributed.all_gather(others, total.cpu())
    assert all(torch.equal(others[0], other) for other in others)
    torch.distributed.destroy_process_group()


def main() -> None:
    if "RANK" in os.environ:
        train()
        return
    with tempfile.TemporaryDirectory() as folder:
        ranks = [
            subprocess.Popen(
                [sys.executable, __file__],
                env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "MEETING": f"{folder}/meeting"},
            )
            for rank in range(2)
        ]
        sys.exit(max(rank.wait() for rank in ranks))


main()
