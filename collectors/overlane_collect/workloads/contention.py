"""A critical kernel against bulk kernels: what `priority` and `green-context` share.

The latency is the GPU's own. Launching from Python between two event records would measure the host; so the
critical stream is held by a value wait on a pinned flag, record, kernel and record are queued behind it, the
bulk kernels are started, and only then does the host let go. Nothing is allocated, loaded or synchronized
while the stream is held, since those calls would wait for it.
"""

from __future__ import annotations

import ctypes
import statistics
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from overlane_collect._cuda import Buffer, Event, Gpu, Kernel, Stream
from overlane_collect.annotate import annotate
from overlane_collect.workloads.base import Hold, Outcome, Parameter
from overlane_collect.workloads.kernels import SOURCE

__all__ = ["PARAMETERS", "Contest", "run_contest"]

_POINTER = ctypes.c_void_p
_CRITICAL_THREADS = 32
_BULK_BLOCK = 256
_INT_BYTES = 4
_BLOCK_BYTES = 24
_BULK_AHEAD = 1.0  # bulk kernels that have ended, at least, when the critical one is let go

PARAMETERS = (
    Parameter("rounds", 9, "times that the critical kernel is let go", least=1),
    Parameter("bulk_kernels", 20, "bulk kernels of each round", least=1),
    Parameter("bulk_threads", 1 << 22, "threads of a bulk kernel", least=1),
    Parameter("iterations", 1000, "turns of the bulk kernel's square-root loop", least=1),
)
"""Parameters of every contest."""


class Contest(NamedTuple):
    """Who works where.

    Attributes:
        critical: Stream of the critical kernel.
        bulk: Stream of the bulk kernels.
    """

    critical: Stream
    bulk: Stream


class _Work(NamedTuple):
    """Kernels and memory of a contest."""

    kernels: dict[str, Kernel]
    counters: Buffer
    bulk_data: Buffer
    critical_log: Buffer


def run_contest(gpu: Gpu, contest: Contest, values: Mapping[str, Any], *, probe_blocks: int = 0) -> Outcome:
    """Let the critical kernel go while bulk kernels run, round after round.

    Args:
        gpu: Device.
        contest: Streams.
        values: Parameters.
        probe_blocks: Blocks of an instrumented kernel on the bulk stream after the rounds, which logs where
            bulk work runs; 0 for none.

    Returns:
        Correct when each critical and bulk kernel ran exactly as often as it was launched.
    """
    kernels = gpu.compile(SOURCE, "stamped_critical", "bulk", "stamped_bulk")
    rounds = values["rounds"]
    work = _Work(
        kernels,
        gpu.allocate(_CRITICAL_THREADS * _INT_BYTES),
        gpu.allocate(8),
        gpu.allocate(_BLOCK_BYTES * (rounds + 1)),
    )
    probe = gpu.allocate(_BLOCK_BYTES * max(probe_blocks, 1))
    _set_zero(gpu, work.counters, work.bulk_data)
    hold = Hold(gpu)
    events = gpu.event(), gpu.event()
    _critical(gpu, contest.critical, work, rounds)  # warm: loaded, and its stream has its channel
    gpu.synchronize()
    bulk_us = _bulk_us(gpu, contest.bulk, work, events, values)
    latencies, numbers = [], []
    for place in range(rounds):
        with annotate(f"round {place}"):
            numbers.append(
                _one_round(
                    gpu, contest, work, hold, events=events, bulk_us=bulk_us, place=place, values=values
                )
            )
        latencies.append(gpu.elapsed_us(*events))
    probe_number = _probe(gpu, contest, work, probe, blocks=probe_blocks, turns=values["iterations"])
    gpu.synchronize()
    for place, number in enumerate(numbers):
        log = Buffer(work.critical_log.address + place * _BLOCK_BYTES, _BLOCK_BYTES, "device")
        gpu.read_blocks(number, log, 1)
    if probe_blocks:
        gpu.read_blocks(probe_number, probe, probe_blocks)
    return _outcome(gpu, work, latencies, values, expired=hold.expired)


def _one_round(
    gpu: Gpu,
    contest: Contest,
    work: _Work,
    hold: Hold,
    *,
    events: tuple[Event, Event],
    bulk_us: float,
    place: int,
    values: Mapping[str, Any],
) -> int:
    """Queue the critical kernel behind the flag, start the bulk, let go; return the kernel's number."""
    hold.hold(contest.critical)
    gpu.record(events[0], contest.critical)
    number = _critical(gpu, contest.critical, work, place)
    gpu.record(events[1], contest.critical)
    for _ in range(values["bulk_kernels"]):
        _bulk(gpu, contest.bulk, work, values)
    # Each round lets go in another phase of the second bulk kernel, spread evenly over its length.
    time.sleep((_BULK_AHEAD + place / values["rounds"]) * bulk_us / 1e6)
    hold.release()
    gpu.synchronize(event=events[1])
    gpu.synchronize()
    return number


def _bulk(gpu: Gpu, stream: Stream, work: _Work, values: Mapping[str, Any]) -> None:
    grid = -(-values["bulk_threads"] // _BULK_BLOCK)
    arguments = [(work.bulk_data.address, _POINTER), (values["iterations"], ctypes.c_int)]
    data = [work.bulk_data.span()]
    gpu.launch(work.kernels["bulk"], grid, _BULK_BLOCK, stream, arguments, reads=data, writes=data)


def _bulk_us(
    gpu: Gpu, stream: Stream, work: _Work, events: tuple[Event, Event], values: Mapping[str, Any]
) -> float:
    """Return how long one bulk kernel takes alone, in microseconds."""
    gpu.record(events[0], stream)
    _bulk(gpu, stream, work, values)
    gpu.record(events[1], stream)
    gpu.synchronize(stream=stream)
    return gpu.elapsed_us(*events)


def _critical(gpu: Gpu, stream: Stream, work: _Work, place: int) -> int:
    address = work.critical_log.address + place * _BLOCK_BYTES
    counters = [work.counters.span()]
    return gpu.launch(
        work.kernels["stamped_critical"],
        1,
        _CRITICAL_THREADS,
        stream,
        [(work.counters.address, _POINTER), (address, _POINTER)],
        reads=counters,
        writes=[*counters, work.critical_log.span(place * _BLOCK_BYTES, _BLOCK_BYTES)],
    )


def _probe(gpu: Gpu, contest: Contest, work: _Work, log: Buffer, *, blocks: int, turns: int) -> int:
    if not blocks:
        return 0
    arguments = [(work.bulk_data.address, _POINTER), (turns * 20, ctypes.c_int), (log.address, _POINTER)]
    return gpu.launch(
        work.kernels["stamped_bulk"], blocks, _BULK_BLOCK, contest.bulk, arguments, writes=[log.span()]
    )


def _set_zero(gpu: Gpu, *buffers: Buffer) -> None:
    for buffer in buffers:
        zeros = np.zeros(buffer.bytes, np.uint8)
        gpu.call("cuMemcpyHtoD", buffer.address, zeros.ctypes.data, zeros.nbytes)


def _outcome(
    gpu: Gpu, work: _Work, latencies: list[float], values: Mapping[str, Any], *, expired: bool
) -> Outcome:
    counters = np.zeros(_CRITICAL_THREADS, np.int32)
    gpu.call("cuMemcpyDtoH", counters.ctypes.data, work.counters.address, counters.nbytes)
    bulk = np.zeros(2, np.float32)
    gpu.call("cuMemcpyDtoH", bulk.ctypes.data, work.bulk_data.address, bulk.nbytes)
    rounds, shift = values["rounds"], values["shift"]
    wrong = int(np.count_nonzero(counters != rounds + 1 + shift))
    wrong += int(bulk[1] != rounds * values["bulk_kernels"] + 1 + shift)
    spread = f"min={min(latencies):.2f} max={max(latencies):.2f}"
    lines = [
        f"critical_us median={statistics.median(latencies):.2f} {spread} rounds={rounds} wrong={wrong}",
    ]
    if expired:
        lines.append("the host was too slow to let go in time; the latencies are not the kernel's own")
    return Outcome(wrong == 0 and not expired, lines, {"critical_us": latencies, "wrong": wrong})
