"""Slack of every operation against letting it grow and moving all that comes after it, one by one."""

from __future__ import annotations

import pytest

from overlane.analysis.critical_path import critical_path
from overlane.analysis.dependencies import dependencies
from overlane.simulate import run
from overlane.simulate.generate import random_program

FAR = 1 << 50  # longer than any recording
STREAM = ("device_id", "context_id", "stream_id")
HOST_WAITS = ("event", "stream", "context", "device")


class Moved:
    """What comes later when one operation grows: recursion over what each start and end waits for."""

    def __init__(self, trace, deps):
        self.deps, self.issue, self.calls = deps, deps.issue, deps.calls
        self.start, self.end = (deps.issue.start_ns.tolist(), deps.issue.end_ns.tolist())
        self.issued = deps.issued_ns.tolist()
        self.cs, self.ce = deps.calls.start_ns.tolist(), deps.calls.end_ns.tolist()
        self.thread = deps.calls.thread.tolist()
        self.before = {}
        last = {}
        for call in sorted(range(len(self.cs)), key=lambda c: self.cs[c]):
            self.before[call] = last.get(self.thread[call])
            last[self.thread[call]] = call
        self.held = {call: set() for call in range(len(self.cs))}
        for op in range(len(self.start)):
            if deps.issue.is_blocking_copy[op] and self.end[op] <= self.ce[deps.issue_call[op]]:
                self.held[int(deps.issue_call[op])].add(op)
        self.hold(trace)

    def hold(self, trace):
        streams = self.deps.streams
        call_of = {c: row for row, c in enumerate(trace.table("api_calls")["correlation_id"].to_pylist())}
        records = {r["cuda_event_sync_id"]: r for r in trace.table("event_records").to_pylist()}
        parents = {p["context_id"]: p["parent_context_id"] for p in trace.table("partitions").to_pylist()}
        for row in trace.table("syncs").to_pylist():
            if row["sync_kind"] not in HOST_WAITS or row["result"] != 0:
                continue
            call, record = call_of[row["correlation_id"]], records.get(row["cuda_event_sync_id"])
            until = self.cs[call]
            if row["sync_kind"] == "event":
                if record is None:
                    continue
                until = record["at_ns"]
            for op, key in enumerate(self.deps.stream_key.tolist()):
                stream = streams[key]
                mine = (stream.device_id, stream.context_id, stream.stream_id)
                is_covered = {
                    "event": record
                    and mine == tuple(record[k] for k in ("device_id", "context_id", "stream_id")),
                    "stream": mine == tuple(row[k] for k in ("device_id", "context_id", "stream_id")),
                    "context": row["context_id"] in {mine[1], parents.get(mine[1])},
                    "device": row["device_id"] == mine[0],
                }[row["sync_kind"]]
                if is_covered and self.issue.order_ns[op] < until:
                    self.held[call].add(op)

    def last_end(self, op, by):
        self.grown, self.by, self.found = op, by, {}
        stop = max(self.end)
        return max(end + self.op_end(b) for b, end in enumerate(self.end) if self.start[b] < stop)

    def once(self, what, number, compute):
        if (what, number) not in self.found:
            self.found[what, number] = compute(number)
        return self.found[what, number]

    def op_end(self, b):
        return self.once("op", b, self._op_start) + (self.by if b == self.grown else 0)

    def _op_start(self, b):
        waits = [
            (min(self.end[e.source], self.start[b]), self.op_end(e.source))
            for e in self.deps.of(b)
            if e.source is not None and self.start[e.source] <= self.start[b]
        ]
        if self.issued[b] >= 0:
            call = int(self.deps.issue_call[b])
            waits.append((min(self.issued[b], self.start[b]), self.call_start(call) if call >= 0 else 0))
        return later(waits)

    def call_start(self, c):
        return self.once("call", c, lambda c: 0 if self.before[c] is None else self.call_end(self.before[c]))

    def call_end(self, c):
        return self.once("end", c, self._call_end)

    def _call_end(self, c):
        waits = [(min(self.end[a], self.ce[c]), self.op_end(a)) for a in self.held[c]]
        return later([(self.cs[c], self.call_start(c)), *waits])


def later(waits):
    """Return how much later it is when all of some moments are reached, each of which is later by so much."""
    return max((at + by for at, by in waits), default=0) - max((at for at, _ in waits), default=0)


@pytest.mark.parametrize("seeds", [range(start, start + 10) for start in range(0, 60, 10)])
def test_slack_is_how_much_an_operation_may_grow(seeds):
    for seed in seeds:
        trace = run(random_program(seed)).trace
        deps = dependencies(trace)
        if not len(trace.table("ops")):
            continue
        path, moved = critical_path(trace, deps), Moved(trace, deps)
        stop = max(moved.end)
        for op, slack in enumerate(path.slack_ns.tolist()):
            if slack >= 0:
                assert slack == FAR - (moved.last_end(op, FAR) - stop), (seed, op)
