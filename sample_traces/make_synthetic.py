# noqa: INP001 - a script beside its product, not a package
"""Make `synthetic_barriers.overlane`: a made-up run that holds what the recorded samples cannot.

PyTorch's profiler records no synchronization ids, stream kinds or partitions. This script plays a small
host program against CUDA's ordering rules and writes what a full recording of it would say. Nothing is
random: the same rows come out every time, and the figures of the whole trace can be worked out on paper
(`tests/corpus/test_synthetic.py` does).

The rules that are played, all times in whole microseconds:

* the host is one thread; a launch or an asynchronous copy costs it 5, an event record, wait or query 2, and
  a synchronization returns 3 after the last operation that it waits for has ended;
* an operation is queued 3 after its call began and may start 2 after it is queued or after the last operation
  that it depends on ended, whichever is later; it is submitted in between;
* an operation depends on the one before it in its stream, on the records that its stream was told to wait
  for, and through the legacy default stream: what is on it waits for all earlier work of the blocking streams
  and of the per-thread default stream of its context, and their later work waits for it; non-blocking streams
  are exempt;
* a copy between pageable memory and the device on the legacy default stream holds the host until its end.

Usage: python sample_traces/make_synthetic.py [OUT]
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from overlane.tables import table_from_columns
from overlane_collect.model import Capability, ClockDomain, Header, IntegrityCheck
from overlane_collect.writer import write_trace

US = 1_000  # ns
LAUNCH_US, MARK_US, QUEUE_US, DEVICE_US, RETURN_US = 5, 2, 3, 2, 3
PROCESS, DEVICE = 4242, 0
PRIMARY, GREEN = 1, 2
NOT_READY = 600  # cudaErrorNotReady

# Stream to its context, kind, priority and name.
STREAMS = {
    7: (PRIMARY, "legacy_default", 0, "default"),
    8: (PRIMARY, "per_thread_default", 0, "per-thread default"),
    13: (PRIMARY, "blocking", 0, "compute a"),
    14: (PRIMARY, "blocking", 0, "compute b"),
    15: (PRIMARY, "nonblocking", 0, "upload"),
    16: (PRIMARY, "nonblocking", 0, "download"),
    17: (GREEN, "nonblocking", -5, "critical"),
}
LEGACY = 7
ORDERED_WITH_LEGACY = (8, 13, 14)
PARTITION_ROW = {PRIMARY: 0, GREEN: 1}  # rows of `partitions`, sorted by context


class Program:
    """A host thread that issues work in made-up time and keeps the rows that a recording of it would hold."""

    def __init__(self) -> None:
        self.now = 0
        self.rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.ends: dict[int, int] = {}  # stream -> end of its last operation
        self.issued: dict[int, int] = defaultdict(int)  # stream -> operations issued
        self.gates: dict[int, int] = defaultdict(
            int
        )  # stream -> latest record that its next operation waits for
        self.correlation = 100
        self.sync_id = 0

    def call(self, name: str, cost: int, result: int = 0) -> tuple[int, int]:
        """Let the host spend `cost` in one call; return (start, correlation id)."""
        self.correlation += 1
        start, self.now = self.now, self.now + cost
        self.rows["api_calls"].append(
            {
                "process_id": PROCESS,
                "thread_id": PROCESS,
                "api": "runtime",
                "name": name,
                "start_ns": start * US,
                "end_ns": self.now * US,
                "correlation_id": self.correlation,
                "result": result,
            }
        )
        return start, self.correlation

    def _place(self, stream: int, called: int, duration: int) -> tuple[int, int, int, int]:
        """Return (queued, submitted, start, end) of the next operation of a stream under the rules above."""
        kind = STREAMS[stream][1]
        needed = [self.ends.get(stream, 0), self.gates[stream]]
        if kind == "legacy_default":
            needed += [self.ends.get(other, 0) for other in ORDERED_WITH_LEGACY]
        elif stream in ORDERED_WITH_LEGACY:
            needed.append(self.ends.get(LEGACY, 0))
        queued = called + QUEUE_US
        start = max(queued, *needed) + DEVICE_US
        self.ends[stream] = start + duration
        return queued, start - 1, start, start + duration

    def _operation(self, stream: int, duration: int, called: int, correlation: int, **columns: Any) -> int:
        queued, submitted, start, end = self._place(stream, called, duration)
        context, _, priority, _ = STREAMS[stream]
        if columns["kind"] == "kernel":
            columns |= {"queued_ns": queued * US, "submitted_ns": submitted * US}
        self.rows["ops"].append(
            {
                "process_id": PROCESS,
                "device_id": DEVICE,
                "context_id": context,
                "stream_id": stream,
                "partition_id": PARTITION_ROW[context],
                "priority": priority,
                "start_ns": start * US,
                "end_ns": end * US,
                "correlation_id": correlation,
                **columns,
            }
        )
        return end

    def launch(self, stream: int, duration: int, name: str, blocks: int = 32) -> None:
        """Launch a kernel."""
        called, correlation = self.call("cudaLaunchKernel", LAUNCH_US)
        self._operation(
            stream,
            duration,
            called,
            correlation,
            kind="kernel",
            engine="compute",
            name=name,
            grid=[blocks, 1, 1],
            block=[256, 1, 1],
            registers=32,
            shared_bytes=0,
            launch_type="regular",
        )

    def copy(self, stream: int, duration: int, direction: str, size: int, *, host: str = "pinned") -> None:
        """Issue a copy (`HtoD`, `DtoH`, `DtoD`); one with pageable memory holds the host until its end."""
        kinds = {"H": host, "D": "device"}
        source, target = kinds[direction[0]], kinds[direction[-1]]
        holds = "pageable" in (source, target)
        called, correlation = self.call("cudaMemcpy" if holds else "cudaMemcpyAsync", LAUNCH_US)
        end = self._operation(
            stream,
            duration,
            called,
            correlation,
            kind="memcpy",
            engine="copy_" + direction.replace("to", "2").lower(),
            name=f"Memcpy {direction} ({source.title()} -> {target.title()})",
            bytes=size,
            src_memory=source,
            dst_memory=target,
        )
        if holds:
            self.now = end + RETURN_US
            self.rows["api_calls"][-1]["end_ns"] = self.now * US

    def fill(self, stream: int, duration: int, size: int) -> None:
        """Issue a memset."""
        called, correlation = self.call("cudaMemsetAsync", LAUNCH_US)
        self._operation(
            stream,
            duration,
            called,
            correlation,
            kind="memset",
            engine="memset",
            name="Memset (Device)",
            bytes=size,
            dst_memory="device",
        )

    def record(self, event: int, stream: int) -> dict[str, Any]:
        """Record a CUDA event into a stream and return its row."""
        called, correlation = self.call("cudaEventRecord", MARK_US)
        self.sync_id += 1
        done = max(self.now, self.ends.get(stream, 0))
        row = {
            "cuda_event_id": event,
            "cuda_event_sync_id": self.sync_id,
            "process_id": PROCESS,
            "thread_id": PROCESS,
            "device_id": DEVICE,
            "context_id": STREAMS[stream][0],
            "stream_id": stream,
            "correlation_id": correlation,
            "at_ns": called * US,
            "device_ns": done * US,
        }
        self.rows["event_records"].append(row)
        return row

    def wait(self, stream: int, record: dict[str, Any]) -> None:
        """Tell a stream to wait for a record."""
        self.gates[stream] = max(self.gates[stream], record["device_ns"] // US)
        self._sync("cudaStreamWaitEvent", "stream_wait_event", MARK_US, stream=stream, record=record)

    def query(self, name: str, kind: str, stream: int, record: dict[str, Any] | None = None) -> None:
        """Ask for a record or for a stream without waiting."""
        done = record["device_ns"] // US if record else self.ends.get(stream, 0)
        result = 0 if done <= self.now else NOT_READY
        self._sync(name, kind, MARK_US, stream=stream, record=record, result=result)

    def synchronize(
        self, name: str, kind: str, stream: int | None = None, record: dict[str, Any] | None = None
    ) -> None:
        """Hold the host until a record, a stream, a context or the device is done."""
        done = max(end for other, end in self.ends.items() if stream in (None, other))
        if kind == "context":
            done = max(end for other, end in self.ends.items() if STREAMS[other][0] == PRIMARY)
        if record:
            done = record["device_ns"] // US
        cost = max(done - self.now, 0) + RETURN_US
        self._sync(name, kind, cost, stream=None if record else stream, record=record)

    def _sync(
        self,
        name: str,
        kind: str,
        cost: int,
        *,
        stream: int | None,
        record: dict[str, Any] | None,
        result: int = 0,
    ) -> None:
        start, correlation = self.call(name, cost, result)
        event = record or {}
        self.rows["syncs"].append(
            {
                "sync_kind": kind,
                "process_id": PROCESS,
                "thread_id": PROCESS,
                "device_id": DEVICE,
                "context_id": STREAMS[stream][0] if stream else PRIMARY,
                "stream_id": None if kind == "event_query" else stream,
                "waits_on_stream_id": event.get("stream_id"),
                "waits_on_correlation_id": event.get("correlation_id"),
                "cuda_event_id": event.get("cuda_event_id"),
                "cuda_event_sync_id": event.get("cuda_event_sync_id"),
                "start_ns": start * US,
                "end_ns": self.now * US,
                "correlation_id": correlation,
                "result": result,
            }
        )

    @contextmanager
    def scene(self, name: str, start: int) -> Iterator[None]:
        """Move the host to `start` and mark what it does there as a range."""
        self.now = start
        yield
        self.range(name, start, self.now, level=1)

    def range(self, name: str, start: int, end: int, level: int = 0, **columns: Any) -> None:
        """Keep one annotated range."""
        row = {
            "process_id": PROCESS,
            "thread_id": PROCESS,
            "track": "annotation",
            "name": name,
            "domain": "synthetic",
            "start_ns": start * US,
            "end_ns": end * US,
            "nesting_level": level,
        }
        self.rows["ranges"].append(row | columns)


def play() -> dict[str, list[dict[str, Any]]]:
    """Play the program and return its rows by table."""
    program = Program()
    with program.scene("pipeline", 100):
        for chunk in range(4):
            program.copy(15, 200, "HtoD", 10_000_000)
            uploaded = program.record(2 * chunk, 15)
            program.wait(13, uploaded)
            program.launch(13, 250, "transform(float*, int)", blocks=64)
            transformed = program.record(2 * chunk + 1, 13)
            program.wait(16, transformed)
            program.copy(16, 100, "DtoH", 5_000_000)
        program.synchronize("cudaDeviceSynchronize", "device")
    with program.scene("legacy default stream", 2000):
        program.launch(13, 600, "solve(double*)")
        program.launch(14, 400, "solve(double*)")
        program.launch(8, 300, "solve(double*)")
        program.launch(15, 1500, "background(int)", blocks=16)
        program.launch(7, 200, "reduce(double*)")
        program.launch(13, 300, "solve(double*)")
        program.launch(8, 100, "solve(double*)")
        program.launch(15, 100, "background(int)", blocks=16)
        solved = program.record(0, 13)  # an event of the pipeline again: only its sync id is new
        program.synchronize("cudaEventSynchronize", "event", record=solved)
        program.synchronize("cudaStreamSynchronize", "stream", stream=15)
    with program.scene("synchronized after every kernel", 4000):
        for _ in range(5):
            program.launch(13, 80, "step(float*)")
            program.synchronize("cudaDeviceSynchronize", "device")
            program.now += 50  # the host thinks before it launches again
    with program.scene("queries", 5000):
        program.launch(14, 300, "probe(int*)")
        probed = program.record(1, 14)
        program.query("cudaEventQuery", "event_query", 14, probed)
        program.query("cudaStreamQuery", "stream_query", 14)
        program.fill(14, 20, 33_554_432)
        program.synchronize("cudaStreamSynchronize", "stream", stream=14)
        program.query("cudaEventQuery", "event_query", 14, probed)
        program.query("cudaStreamQuery", "stream_query", 14)
    with program.scene("partition", 6000):
        for _ in range(5):
            program.launch(13, 500, "bulk(float*, long)", blocks=116)
        for turn in range(20):
            program.now = 6100 + 100 * turn
            program.launch(17, 20, "critical(float*)", blocks=16)
        program.synchronize("cuCtxSynchronize", "context")
    with program.scene("pageable copies", 9000):
        program.launch(13, 200, "transform(float*, int)", blocks=64)
        program.copy(7, 150, "DtoH", 1_048_576, host="pageable")
        program.copy(7, 100, "HtoD", 700_000, host="pageable")
        program.copy(14, 40, "DtoD", 41_943_040)
        program.fill(8, 10, 16_777_216)
        program.synchronize("cudaDeviceSynchronize", "device")
    program.range("synthetic program", 0, 10_000)
    program.range(
        "legacy default stream",
        2005,
        3109,
        track="device_annotation",
        thread_id=None,
        device_id=DEVICE,
        stream_id=13,
    )
    return dict(program.rows)


def describe() -> dict[str, list[dict[str, Any]]]:
    """Return the rows that no call makes: device, streams, partitions, thread, samples and one instant."""
    device = {"device_id": DEVICE}
    return {
        "devices": [
            device
            | {
                "name": "Synthetic GPU",
                "sm_count": 132,
                "copy_engine_count": 3,
                "compute_capability": "9.0",
                "memory_bytes": 150_109_880_320,
            }
        ],
        "streams": [
            device
            | {
                "context_id": context,
                "stream_id": stream,
                "stream_kind": kind,
                "priority": priority,
                "name": name,
            }
            for stream, (context, kind, priority, name) in STREAMS.items()
        ],
        "partitions": [
            device | {"context_id": PRIMARY, "name": "whole device", "sm_granted": 132},
            device
            | {
                "context_id": GREEN,
                "parent_context_id": PRIMARY,
                "name": "critical",
                "sm_requested": 10,
                "sm_granted": 16,
                "tpc_mask": "0xff",
            },
        ],
        "threads": [
            {"process_id": PROCESS, "thread_id": PROCESS, "process_name": "synthetic", "name": "main"}
        ],
        "counters": [
            device
            | {
                "process_id": PROCESS,
                "track": track,
                "at_ns": 1_000_000 * sample,
                "value": value,
                "unit": unit,
            }
            for track, unit, values in (
                ("SM clock", "MHz", (1980, 1980, 1980, 1965, 1980, 1980, 1830, 1830, 1830, 1980)),
                (
                    "memory used",
                    "bytes",
                    (2e9, 2.1e9, 2.1e9, 2.1e9, 2.1e9, 2.1e9, 2.4e9, 2.4e9, 2.4e9, 2.1e9),
                ),
            )
            for sample, value in enumerate(values)
        ],
        "instants": [
            {
                "process_id": PROCESS,
                "thread_id": PROCESS,
                "track": "annotation",
                "name": "warm-up over",
                "at_ns": 3_900_000,
                "scope": "process",
            }
        ],
    }


def header(rows: dict[str, list[dict[str, Any]]]) -> Header:
    """Return the header: labelled synthetic, with what the rows can prove."""
    of_calls = ("ops", "api_calls", "syncs", "event_records", "ranges", "counters", "instants")
    proven = {
        "launch_times": "every operation has the call that issued it",
        "queue_times": "every kernel has queued and submitted stamps",
        "sync_ids": "event records and waits share cuda_event_sync_id",
        "syncs": "every synchronization, wait and query is recorded",
        "event_records": "every record is recorded with its stream",
        "stream_kinds": "every stream says its kind",
        "partitions": "every operation says the partition whose SMs it may use",
        "memory_kinds": "every copy says the memory at both ends",
        "device_timestamps": "every event record says when it completed on the device",
        "priorities": "every operation says the priority of its stream",
        "results": "every call says what it returned",
    }
    missing = {
        "buffer_accesses": "the program declares no accesses",
        "graph_nodes": "the program launches no graph",
        "graph_edges": "the program launches no graph",
        "collectives": "the program has one process",
    }
    return Header(
        format="overlane",
        producer="make_synthetic.py",
        parameters={"made_up": True, "scenes": 6},
        source_events=sum(len(rows[table]) for table in of_calls),
        capabilities={name: Capability(True, reason) for name, reason in proven.items()}
        | {name: Capability(False, reason) for name, reason in missing.items()},
        integrity=(IntegrityCheck("synthetic", "warning", 0, "no GPU ran this, its times are made up"),),
        clocks=(ClockDomain("synthetic", 0, 0),),
        synthetic=True,
    )


def make(out: Path) -> None:
    """Write the trace to `out`."""
    rows = play() | describe()
    tables = {}
    for name, items in rows.items():
        columns = dict.fromkeys(column for item in items for column in item)
        filled = {column: [item.get(column) for item in items] for column in columns}
        tables[name] = table_from_columns(name, filled)
    write_trace(out, header(rows), tables)


if __name__ == "__main__":
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "synthetic_barriers.overlane")
