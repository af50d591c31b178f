"""A producer and a consumer stream over one buffer, in order by an event; or with one mistake planted."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from overlane_collect._cuda import Buffer, Event, Gpu, Kernel, Stream
from overlane_collect.annotate import annotate
from overlane_collect.workloads.base import Outcome, Parameter
from overlane_collect.workloads.kernels import SOURCE

__all__ = ["StreamContract"]

_BLOCK = 256
_INT_BYTES = 4
_FAULTS = {
    "none": "nothing",
    "missing-wait": "the consumer does not wait for the producer",
    "early-record": "the event is recorded after the copy, before the kernel",
    "wrong-event": "the consumer waits for another event",
    "early-reuse": "the producer refills a slot without waiting for its consumer",
    "host-overwrite": "the host overwrites the input while it is being copied",
    "early-free": "the buffer is freed on a stream that nothing orders",
}


class _Pipe(NamedTuple):
    """What the steps of one element count work on."""

    gpu: Gpu
    producer: Stream
    consumer: Stream
    other: Stream
    twice: Kernel
    plus_one: Kernel
    fault: str
    turns: int


class _Slot(NamedTuple):
    """One buffer of the pipeline with its events."""

    data: Buffer
    ready: Event
    recycled: Event


class StreamContract:
    """Shows a correct order between two streams, and what each mistake leaves in a trace."""

    name = "stream-contract"
    description = "a producer and a consumer stream over one buffer, correct or with one mistake planted"
    parameters: tuple[Parameter, ...] = (
        Parameter("elements", (1, 257, 4096, 4097), "element counts, one after the other", least=1),
        Parameter("fault", "none", "; ".join(f"{k}: {v}" for k, v in _FAULTS.items()), tuple(_FAULTS)),
        Parameter("slots", 1, "buffers of the pipeline; each is reused after its consumer", least=1),
        Parameter("items", 3, "times that each count goes through the pipeline", least=1),
        Parameter("turns", 2000, "length of the producer's kernel, in turns of a loop", least=0),
    )

    def run(self, gpu: Gpu, values: Mapping[str, Any]) -> Outcome:
        """Send numbers through, and verify every element of every item."""
        kernels = gpu.compile(SOURCE, "twice", "plus_one")
        pipe = _Pipe(
            gpu,
            producer=gpu.stream("producer"),
            consumer=gpu.stream("consumer"),
            other=gpu.stream("unordered"),
            twice=kernels["twice"],
            plus_one=kernels["plus_one"],
            fault=values["fault"],
            turns=values["turns"],
        )
        lines, total = [], 0
        for count in values["elements"]:
            with annotate(f"{count} elements"):
                mismatches = self._one_count(pipe, count, values)
            total += mismatches
            lines.append(f"elements={count} mismatches={mismatches}")
        return Outcome(total == 0, lines, {"mismatches": total})

    def _one_count(self, pipe: _Pipe, count: int, values: Mapping[str, Any]) -> int:
        """Send all items of one element count through, and return how many elements came out wrong."""
        gpu, items = pipe.gpu, values["items"]
        length = count * _INT_BYTES
        slots = [
            _Slot(gpu.allocate_async(length, pipe.producer), gpu.event(timing=False), gpu.event(timing=False))
            for _ in range(values["slots"])
        ]
        inputs = [gpu.host_memory(length, "pinned") for _ in range(items)]
        outputs = [gpu.host_memory(length, "pinned") for _ in range(items)]
        for item in range(items):
            inputs[item].view(np.int32)[:] = np.arange(count) + item
            outputs[item].view(np.int32)[:] = -1
        gpu.synchronize()
        for item in range(items):
            slot = slots[item % len(slots)]
            if item >= len(slots) and pipe.fault != "early-reuse":
                gpu.wait(pipe.producer, slot.recycled)
            self._produce(pipe, slot, inputs[item])
            self._consume(pipe, slot, outputs[item])
        for slot in slots:
            self._free(pipe, slot)
        gpu.synchronize()
        wrong = 0
        for item in range(items):
            expected = (np.arange(count) + item) * 2 + 1 + values["shift"]
            wrong += int(np.count_nonzero(outputs[item].view(np.int32) != expected))
        for buffer in (*inputs, *outputs):
            gpu.free(buffer)
        return wrong

    def _produce(self, pipe: _Pipe, slot: _Slot, source: Buffer) -> None:
        """Copy in and double; record that it is ready, too early when that is the planted mistake."""
        gpu, data = pipe.gpu, slot.data.span()
        gpu.copy_up(data, source.span(), pipe.producer)
        if pipe.fault == "host-overwrite":
            gpu.log.host_access("write", source.span())
            source.view(np.int32)[:] = -7
        if pipe.fault == "early-record":
            gpu.record(slot.ready, pipe.producer)
        gpu.launch(
            pipe.twice,
            _blocks(slot.data),
            _BLOCK,
            pipe.producer,
            [*_arguments(slot.data), (pipe.turns, ctypes.c_int)],
            reads=[data],
            writes=[data],
        )
        if pipe.fault != "early-record":
            gpu.record(slot.ready, pipe.producer)

    def _consume(self, pipe: _Pipe, slot: _Slot, target: Buffer) -> None:
        """Wait for the producer, unless that is the planted mistake; add one and copy out."""
        gpu, data = pipe.gpu, slot.data.span()
        if pipe.fault == "wrong-event":
            gpu.record(slot.recycled, pipe.other)
            gpu.wait(pipe.consumer, slot.recycled)
        elif pipe.fault != "missing-wait":
            gpu.wait(pipe.consumer, slot.ready)
        gpu.launch(
            pipe.plus_one,
            _blocks(slot.data),
            _BLOCK,
            pipe.consumer,
            _arguments(slot.data),
            reads=[data],
            writes=[data],
        )
        gpu.copy_down(target.span(), data, pipe.consumer)
        gpu.record(slot.recycled, pipe.consumer)

    def _free(self, pipe: _Pipe, slot: _Slot) -> None:
        """Free in the order of the consumer, or of nothing when that is the planted mistake."""
        if pipe.fault == "early-free":
            pipe.gpu.free_async(slot.data, pipe.other)
        else:
            pipe.gpu.free_async(slot.data, pipe.consumer)


def _blocks(buffer: Buffer) -> int:
    return -(-buffer.bytes // _INT_BYTES // _BLOCK)


def _arguments(buffer: Buffer) -> list[tuple[Any, Any]]:
    return [(buffer.address, ctypes.c_void_p), (buffer.bytes // _INT_BYTES, ctypes.c_long)]
