"""Chunks of data over many streams: where overlap stops paying."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from overlane_collect._cuda import Gpu
from overlane_collect.workloads.base import Outcome, Parameter
from overlane_collect.workloads.integers import INT_BYTES, Integers, verdict
from overlane_collect.workloads.kernels import SOURCE

__all__ = ["ManyStreams"]


class ManyStreams:
    """Shows that small chunks and many streams cost more than they overlap."""

    name = "many-streams"
    description = "copy up, count up, copy down, in chunks of any size over up to 64 streams"
    parameters: tuple[Parameter, ...] = (
        Parameter("streams", 8, "streams that take the chunks in turn", least=1),
        Parameter("chunk_kib", 1024, "size of a chunk in KiB", least=1),
        Parameter("total_kib", 16384, "size of all chunks in KiB", least=1),
    )

    def run(self, gpu: Gpu, values: Mapping[str, Any]) -> Outcome:
        """Run; every integer must have been counted up once."""
        kernel = gpu.compile(SOURCE, "plus_one")["plus_one"]
        chunk = values["chunk_kib"] * 1024 // INT_BYTES
        chunks = max(1, values["total_kib"] // values["chunk_kib"])
        length = chunk * INT_BYTES
        host = gpu.host_memory(chunks * length, "pinned")
        device = gpu.allocate(chunks * length)
        before = np.arange(chunks * chunk, dtype=np.int32)
        host.view(np.int32)[:] = before
        parts = [
            Integers(gpu, chunk, buffer=type(device)(device.address + n * length, length, "device"))
            for n in range(chunks)
        ]
        streams = [gpu.stream(f"chunks {n}") for n in range(values["streams"])]
        gpu.synchronize()
        began = time.perf_counter_ns()
        for number, part in enumerate(parts):
            stream = streams[number % len(streams)]
            on_host, on_device = host.span(number * length, length), part.buffer.span()
            gpu.copy_up(on_device, on_host, stream)
            part.apply(kernel, stream)
            gpu.copy_down(on_host, on_device, stream)
        gpu.synchronize()
        milliseconds = (time.perf_counter_ns() - began) / 1e6
        wrong = int(np.count_nonzero(host.view(np.int32) != before + 1 + values["shift"]))
        facts = f"chunks={chunks} milliseconds={milliseconds:.3f}"
        return verdict(wrong, facts, milliseconds=milliseconds)
