"""Causes at single nanoseconds, found by looking at every row: slow, and written apart from the analyses.

From the definition of causes, for traces of one thread, one context and one device, whose streams are known,
whose operations have calls, and whose kernels say nothing of their blocks. At each nanosecond the oracle asks
who is open; nothing is sorted, swept or cut.
"""

from __future__ import annotations

from functools import cache

from overlane.trace import Trace

__all__ = ["Oracle"]

LATENCY_NS = 20_000
MOST = 95
CLASSES = {
    "cudaMalloc": "allocation",
    "cuModuleLoadData": "module_load",
    "cuCtxSetLimit": "implicit_sync",
    "cudaStreamSynchronize": "host_sync",
}


class Oracle:
    """Answers for one trace.

    Args:
        trace: Trace as described above.
    """

    def __init__(self, trace: Trace) -> None:
        self.ops = trace.table("ops").to_pylist()
        self.calls = trace.table("api_calls").to_pylist()
        self.syncs = trace.table("syncs").to_pylist()
        self.records = trace.table("event_records").to_pylist()
        kinds = trace.table("streams").to_pylist()
        self.kind_of = {row["stream_id"]: row["stream_kind"] for row in kinds}
        self.call_of = [self._call(row["correlation_id"]) for row in self.ops]
        self.sources = [self._sources(op) for op in range(len(self.ops))]

    def _call(self, correlation: int | None) -> dict:
        return next(call for call in self.calls if call["correlation_id"] == correlation)

    def issued(self, op: int) -> int:
        """Return when an operation was issued."""
        row, call = self.ops[op], self.call_of[op]
        if row["kind"] == "kernel" and row["queued_ns"] is not None:
            return row["queued_ns"]
        if self._blocks(op):
            return call["start_ns"]
        return min(call["end_ns"], row["start_ns"])

    def _blocks(self, op: int) -> bool:
        row = self.ops[op]
        return row["kind"] == "memcpy" and "pageable" in {row["src_memory"], row["dst_memory"]}

    def _acts(self) -> list[tuple[int, str, int]]:
        """Return everything that the host did to streams, in its order: time, what, row."""
        acts = [(call["start_ns"], "op", op) for op, call in enumerate(self.call_of)]
        acts += [(row["at_ns"], "record", k) for k, row in enumerate(self.records)]
        acts += [
            (row["start_ns"], "wait", k)
            for k, row in enumerate(self.syncs)
            if row["sync_kind"] == "stream_wait_event"
        ]
        return sorted(acts)

    def _stream(self, act: tuple[int, str, int]) -> int:
        table = {"op": self.ops, "record": self.records, "wait": self.syncs}[act[1]]
        return table[act[2]]["stream_id"]

    def _sources(self, op: int) -> list[tuple[str, int]]:
        """Return kind and operation of everything that an operation directly depends on."""
        acts = self._acts()
        at = next(k for k, act in enumerate(acts) if act[1:] == ("op", op))
        return list(self._behind(acts, at, None))

    def _behind(self, acts: list, at: int, kind: str | None):
        """Walk back from an act to operations; marks are looked through, the first names the kind."""
        stream = self._stream(acts[at])
        before = [k for k in range(at) if self._stream(acts[k]) == stream]
        if before:
            yield from self._reach(acts, before[-1], kind or "stream")
        if acts[at][1] == "wait":
            wanted = self.syncs[acts[at][2]]["cuda_event_sync_id"]
            for k in range(at):
                if acts[k][1] == "record" and self.records[acts[k][2]]["cuda_event_sync_id"] == wanted:
                    yield from self._reach(acts, k, kind if kind not in {None, "stream"} else "event")
        mine = self.kind_of[stream]
        for other in {self._stream(act) for act in acts[:at]} - {stream}:
            theirs = self.kind_of[other]
            if "nonblocking" in {mine, theirs} or "legacy_default" not in {mine, theirs}:
                continue
            last = max(k for k in range(at) if self._stream(acts[k]) == other)
            if before and last < before[-1]:
                continue  # what stands before in the own stream has waited for it
            yield from self._reach(acts, last, kind if kind not in {None, "stream"} else "legacy")

    def _reach(self, acts: list, at: int, kind: str):
        if acts[at][1] == "op":
            yield kind, acts[at][2]
        else:
            yield from self._behind(acts, at, kind)

    @cache  # noqa: B019 - one oracle per trace
    def eligible(self, op: int) -> int:
        """Return the latest end of what orders an operation, or its issue."""
        return max([self.issued(op), *(self.ops[source]["end_ns"] for _, source in self.sources[op])])

    @cache  # noqa: B019 - one oracle per trace
    def latency(self, op: int) -> int:
        """Return the launch latency of the operation's class."""
        kind = self.ops[op]["kind"]
        found = []
        for other, row in enumerate(self.ops):
            low, high = min(self.eligible(other), row["start_ns"]), row["start_ns"]
            is_free = row["kind"] == kind and not any(self.taken(other, t) for t in range(low, high))
            if is_free and not self.is_unjudged(other):
                found.append(high - low)
        if len(found) < 8:
            return LATENCY_NS
        found.sort()
        return min(found[-(-len(found) * MOST // 100) - 1], LATENCY_NS)

    def taken(self, op: int, at: int) -> str | None:
        """Return what of the device had been taken at a moment, None for nothing."""
        row = self.ops[op]
        if row["kind"] == "memcpy":
            for other, copy in enumerate(self.ops):
                if other != op and copy["kind"] == "memcpy" and copy["start_ns"] <= at < copy["end_ns"]:
                    return "copy_engine_busy"
            if self._blocks(op) and at < self.call_of[op]["end_ns"]:
                return "blocking_copy"
        return None

    def is_unjudged(self, op: int) -> bool:
        """Return whether a kernel of unknown size ran beside a kernel while that waited for the device."""
        row = self.ops[op]
        low = min(self.eligible(op), row["start_ns"])
        return row["kind"] == "kernel" and any(
            other["kind"] == "kernel" and max(other["start_ns"], low) < min(other["end_ns"], row["start_ns"])
            for other in self.ops
        )

    def wait_causes(self, op: int, at: int) -> set[str]:
        """Return the causes that may be named for a moment of an operation's wait."""
        row = self.ops[op]
        low = min(self.eligible(op), row["start_ns"])
        if at < low:
            names = {"stream": "stream_order", "event": "event_wait", "legacy": "legacy_default_stream"}
            last = max(self.ops[source]["end_ns"] for _, source in self.sources[op])
            order = list(names)
            kinds = {kind for kind, source in self.sources[op] if self.ops[source]["end_ns"] == last}
            return {names[min(kinds, key=order.index)]}
        if self.is_unjudged(op):
            return {"unknown"}
        taken = self.taken(op, at)
        if taken:
            return {taken}
        return {"launch_latency" if at >= row["start_ns"] - self.latency(op) else "unknown"}

    def host_cause(self, at: int) -> str:
        """Return what the thread did at a moment that held work up."""
        found = set()
        for call in self.calls:
            if call["start_ns"] <= at < call["end_ns"]:
                found.add(CLASSES.get(call["name"], ""))
                copies = [op for op, own in enumerate(self.call_of) if own is call and self._blocks(op)]
                if copies:
                    found.add("blocking_copy")
        for name in ("host_sync", "allocation", "module_load", "implicit_sync", "blocking_copy"):
            if name in found:
                return name
        return "late_launch"

    def idle_cause(self, following: int, at: int) -> set[str]:
        """Return the causes that may be named for a moment of a gap before an operation."""
        if at < self.issued(following):
            return {self.host_cause(at)}
        return self.wait_causes(following, at)
