"""The groups of one rank, with what the trace says of its devices, partitions, processes and threads.

Ranks use the same numbers for different things, so every look-up here keeps to one rank.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from overlane.timeline.columns import Key, factorize, of_rank
from overlane.timeline.lanes import Group
from overlane.trace import Trace

__all__ = ["Groups"]

Row = dict[str, Any]


class Groups:
    """Groups by id, made when the first lane asks for them; each method returns the id of one.

    Args:
        trace: Trace to describe.
        rank: Rank whose facts count; a fact without rank counts for every rank that has no own.

    Attributes:
        trace: As given.
        rank: As given.
        found: Groups by id, in the order in which they were asked for.
    """

    def __init__(self, trace: Trace, rank: int | None) -> None:
        self.trace = trace
        self.rank = rank
        self.found: dict[str, Group] = {}

    def add(self, group: Group) -> str:
        """Keep a group unless one of its id is there."""
        self.found.setdefault(group.id, group)
        return group.id

    def facts(self, table: str) -> list[tuple[int, Row]]:
        """Return row ids and rows that hold for this rank, its own last so that they win in a dictionary."""
        rows = enumerate(self.trace.table(table).to_pylist())
        mine = [(at, row) for at, row in rows if row["rank"] in {self.rank, None}]
        return sorted(mine, key=lambda item: item[1]["rank"] is not None)

    def _top(self, *words: str | None) -> str:
        """Return the label of a group that has none above it: the rank, where there is one, comes first."""
        rank = None if self.rank is None else f"Rank {self.rank}"
        return " · ".join(filter(None, [rank, *words]))

    # ------------------------------------------------------------------ devices

    @cached_property
    def _devices(self) -> dict[Any, Row]:
        return {row["device_id"]: row for _, row in self.facts("devices")}

    def device(self, device: int | None) -> str:
        """Return the group of a GPU."""
        if f"d{device}" in self.found:
            return f"d{device}"
        facts = self._devices.get(device, {})
        name = "Device not recorded" if device is None else f"GPU {device}"
        parts = []
        if facts.get("sm_count"):
            parts.append(f"{facts['sm_count']} SMs")
        if facts.get("compute_capability"):
            parts.append(f"compute capability {facts['compute_capability']}")
        if facts.get("memory_bytes"):
            parts.append(f"{facts['memory_bytes'] / 2**30:.0f} GiB")
        label = self._top(name, facts.get("name"))
        return self.add(Group(f"d{device}", None, label, "device", " · ".join(parts)))

    @cached_property
    def streams(self) -> dict[Key, Row]:
        """Facts of each (device, context, stream)."""
        return {
            (row["device_id"], row["context_id"], row["stream_id"]): row for _, row in self.facts("streams")
        }

    @cached_property
    def _partitions(self) -> dict[int, Row]:
        return dict(self.facts("partitions"))

    @cached_property
    def _partition_of_context(self) -> dict[Key, int]:
        return {(row["device_id"], row["context_id"]): at for at, row in self._partitions.items()}

    @cached_property
    def _used(self) -> list[Key]:
        """Device, context, stream and partition wherever this rank has operations."""
        ops = self.trace.table("ops")
        codes, keys = factorize(ops, ("device_id", "context_id", "stream_id", "partition_id"))
        chosen = of_rank(self.trace, self.rank, ops["rank"])
        present = np.bincount(codes if chosen is None else codes[chosen], minlength=len(keys))
        return [key for key, rows in zip(keys, present, strict=True) if rows]

    @cached_property
    def _partition_of_stream(self) -> dict[Key, int]:
        return {key[:3]: key[3] for key in self._used if key[3] in self._partitions}

    @cached_property
    def _contexts(self) -> dict[Any, set[Any]]:
        contexts: dict[Any, set[Any]] = {}
        for device, context, *_ in self._used:
            contexts.setdefault(device, set()).add(context)
        return contexts

    def partition(self, device: int | None, context: int | None, stream: int | None) -> str:
        """Return the group of a stream: its partition, or its context where a device has several."""
        parent = self.device(device)
        at = self._partition_of_stream.get((device, context, stream))
        if at is None:
            at = self._partition_of_context.get((device, context))
        if at is not None:
            # A TPC holds two SMs on every device that can be partitioned.
            tpc_count = (self._devices.get(device, {}).get("sm_count") or 0) // 2
            return self.add(_partition_group(parent, at, self._partitions[at], tpc_count))
        if len(self._contexts.get(device, ())) > 1:
            which = "no context recorded" if context is None else f"context {context}"
            return self.add(Group(f"{parent}/c{context}", parent, f"Streams · {which}", "partition"))
        return self.add(Group(f"{parent}/p", parent, "Streams", "partition"))

    # ------------------------------------------------------------------ host

    @cached_property
    def _threads(self) -> dict[Any, list[Row]]:
        threads: dict[Any, list[Row]] = {}
        for _, row in reversed(self.facts("threads")):  # its own first
            threads.setdefault(row["process_id"], []).append(row)
        return threads

    def process(self, process: int | None) -> str:
        """Return the group of a process."""
        if f"h:{process}" in self.found:
            return f"h:{process}"
        name = next((r["process_name"] for r in self._threads.get(process, []) if r["process_name"]), None)
        label = "process not recorded" if process is None else f"process {process}"
        return self.add(Group(f"h:{process}", None, self._top(name, label), "host"))

    def thread(self, process: int | None, thread: int | None) -> str:
        """Return the group of a thread, inside its process."""
        group_id = f"t:{process}:{thread}"
        if group_id in self.found:
            return group_id
        rows = self._threads.get(process, [])
        name = next((r["name"] for r in rows if r["thread_id"] == thread and r["name"]), None)
        number = "no thread recorded" if thread is None else f"thread {thread}"
        if name is None or str(thread) not in name:
            name = " · ".join(filter(None, [name, number]))
        return self.add(Group(group_id, self.process(process), name, "thread"))


def _partition_group(parent: str, partition: int, facts: Row, tpc_count: int) -> Group:
    """Return the group of a partition: its SMs, asked for and granted, and its TPCs where they are known."""
    asked, granted = facts["sm_requested"], facts["sm_granted"]
    count = granted or asked
    is_green = facts["parent_context_id"] is not None
    name = f"Green context {facts['context_id']}" if is_green else "Whole device"
    label = " · ".join(filter(None, [name, f"{count} SMs" if count else None]))
    tpcs = tpcs_of(facts["tpc_mask"])
    sms = ""
    if asked and granted:
        sms = f"asked for {asked} SMs, granted {granted}"
    sublabel = " · ".join(filter(None, [facts["name"], sms, f"TPCs {spans(tpcs)}" if tpcs else None]))
    return Group(
        f"{parent}/p{partition}", parent, label, "partition", sublabel, tpcs=tpcs, tpc_count=tpc_count
    )


def tpcs_of(mask: str | None) -> tuple[int, ...]:
    """Return the numbers of the bits of a hexadecimal mask; none for null and for what is no mask.

    Example:
        >>> tpcs_of("9600"), tpcs_of(None)
        ((9, 10, 12, 15), ())
    """
    try:
        bits = int(mask or "0", 16)
    except ValueError:
        return ()
    return tuple(at for at in range(bits.bit_length()) if bits >> at & 1)


def spans(numbers: tuple[int, ...]) -> str:
    """Return rising numbers as words.

    Example:
        >>> spans((9, 10, 11, 15))
        '9-11, 15'
    """
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in found)
