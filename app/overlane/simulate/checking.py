"""Say what is wrong with a program before it is played."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from overlane.errors import OverlaneError
from overlane.simulate import program as p
from overlane.simulate.calls import CALLS

__all__ = ["ProgramError", "check"]

_KINDS = ("legacy_default", "per_thread_default", "blocking", "nonblocking")
_PLACES = ("stream", "buffer", "graph", "context_id", "device_id")


class ProgramError(OverlaneError):
    """A program that cannot be played: it names what is not there, or asks for what the device cannot do."""


def check(program: p.Program) -> None:
    """Refuse a program that cannot be played.

    Raises:
        ProgramError: Names the thread, the statement, what is wrong and what is allowed.
    """
    for problem in _problems(program):
        raise ProgramError(problem)


def _problems(program: p.Program) -> Iterator[str]:
    yield from _declarations(program)
    known: dict[str, list[object]] = {
        "stream": [s.name for s in program.streams],
        "buffer": [b.name for b in program.buffers],
        "graph": [g.name for g in program.graphs],
        "context_id": [c.context_id for c in program.contexts],
        "device_id": [d.device_id for d in program.devices],
    }
    for number, thread in enumerate(program.threads):
        for place, statement in enumerate(thread.statements):
            for problem in _statement(program, known, statement):
                yield f"thread {number}, statement {place} ({type(statement).__name__}): {problem}"
    for graph in program.graphs:
        for number, node in enumerate(graph.nodes):
            where = f"graph {graph.name}, node {number}"
            if any(not 0 <= before < number for before in node.after):
                yield f"{where}: depends on {list(node.after)}; nodes depend on earlier numbers"
            if isinstance(node.work, p.Copy) and (node.work.is_pageable or not node.work.is_async):
                yield f"{where}: a blocking copy; graphs hold asynchronous ones of pinned memory"
            if isinstance(node.work, p.Launch) and node.work.launch_type == "programmatic":
                yield f"{where}: a programmatic launch; edges of simulated graphs are full ones"
            for problem in _work(program, node.work):
                yield f"{where}: {problem}"


def _declarations(program: p.Program) -> Iterator[str]:
    contexts = {c.context_id: c for c in program.contexts}
    devices = {d.device_id: d for d in program.devices}
    for what, names in (
        ("streams", [s.name for s in program.streams]),
        ("contexts", [c.context_id for c in program.contexts]),
        ("buffers", [b.name for b in program.buffers]),
        ("graphs", [g.name for g in program.graphs]),
    ):
        if len(set(names)) < len(names):
            yield f"two {what} have one name: {sorted(map(str, names))}"
    for device in program.devices:
        if device.fills not in {"emptiest", "fullest"}:
            yield f"device {device.device_id}: fills {device.fills!r}; known: emptiest, fullest"
    for context in program.contexts:
        if context.device_id not in devices:
            yield f"context {context.context_id}: there is no device {context.device_id}"
        elif (context.sms is None) != (context.parent is None):
            yield f"context {context.context_id}: a green context has both a parent and SMs, others neither"
        elif context.sms is not None:
            low, high = context.sms
            if not 0 <= low < high <= devices[context.device_id].sm_count or low % 2 or high % 2:
                yield (
                    f"context {context.context_id}: SMs {low} to {high} are not whole pairs of the device's "
                    f"{devices[context.device_id].sm_count}"
                )
    yield from _streams(program, contexts)


def _streams(program: p.Program, contexts: dict[int, p.Context]) -> Iterator[str]:
    seen = set()
    for stream in program.streams:
        if stream.kind not in _KINDS:
            yield f"stream {stream.name}: kind {stream.kind!r}; known: {', '.join(_KINDS)}"
        context_of = contexts.get(stream.context_id)
        if context_of is None:
            yield f"stream {stream.name}: there is no context {stream.context_id}"
        elif context_of.parent is not None and stream.kind != "nonblocking":
            yield f"stream {stream.name}: a green context takes nonblocking streams only"
        if stream.kind == "legacy_default" and stream.context_id in seen:
            yield f"stream {stream.name}: context {stream.context_id} has a legacy default stream already"
        if stream.kind == "legacy_default":
            seen.add(stream.context_id)


def _statement(program: p.Program, known: dict[str, list[object]], statement: p.Statement) -> Iterator[str]:
    for field in dataclasses.fields(statement):
        value = getattr(statement, field.name)
        if field.name in _PLACES and value not in known[field.name]:
            names = ", ".join(map(str, known[field.name])) or "none"
            yield f"there is no {field.name} {value!r}; known: {names}"
        if field.name in {"duration_ns", "block_ns"} and value < 1:
            yield f"{field.name} is {value}; durations are at least 1"
    if isinstance(statement, p.ImplicitCall) and statement.name not in CALLS:
        yield f"the measured table has no {statement.name}; known: {', '.join(sorted(CALLS))}"
    if isinstance(statement, p.HostAccess):
        yield from _access(program, statement.access)
    if isinstance(statement, p.StreamSync | p.StreamQuery):
        stream = next((s for s in program.streams if s.name == statement.stream), None)
        if stream is not None and stream.kind == "legacy_default":
            yield "what the host waits for on the legacy default stream is not modelled; use ContextSync"
    if isinstance(statement, p.Launch | p.Copy | p.Memset):
        yield from _work(program, statement)


def _work(program: p.Program, work: p.Launch | p.Copy | p.Memset) -> Iterator[str]:
    for access in work.accesses:
        yield from _access(program, access)
    if isinstance(work, p.Copy):
        if work.direction not in {"h2d", "d2h", "d2d"}:
            yield f"direction {work.direction!r}; known: h2d, d2h, d2d"
        kinds = {s.name: s.kind for s in program.streams}
        if not work.is_async and kinds.get(work.stream, "legacy_default") != "legacy_default":
            yield f"a synchronous copy runs on the legacy default stream, not on {work.stream}"
    if not isinstance(work, p.Launch):
        return
    if work.launch_type not in {"regular", "cooperative", "programmatic"}:
        yield f"launch_type {work.launch_type!r}; known: regular, cooperative, programmatic"
    if work.blocks % work.cluster:
        yield f"{work.blocks} blocks are not whole clusters of {work.cluster}"
    if work.trigger_ns is not None and work.trigger_ns < 1:
        yield f"trigger_ns is {work.trigger_ns}; it is at least 1"
    yield from _fits(program, work)


def _fits(program: p.Program, work: p.Launch) -> Iterator[str]:
    contexts = {c.context_id: c for c in program.contexts}
    streams = [s for s in program.streams if s.name == work.stream] or program.streams
    for stream in streams:
        context = contexts[stream.context_id]
        device = next(d for d in program.devices if d.device_id == context.device_id)
        low, high = context.sms or (0, device.sm_count)
        need = (work.threads, 1, work.registers * work.threads, work.shared_bytes)
        has = (device.threads, device.blocks, device.registers, device.shared_bytes)
        per_sm = min(h // n for h, n in zip(has, need, strict=True) if n)
        unit = work.blocks if work.launch_type == "cooperative" else work.cluster
        if per_sm * (high - low) < unit:
            yield (
                f"{unit} blocks that must start together do not fit the {high - low} SMs of context "
                f"{context.context_id}, {per_sm} on each"
            )


def _access(program: p.Program, access: p.Access) -> Iterator[str]:
    buffers = {b.name: b for b in program.buffers}
    if access.buffer not in buffers:
        yield f"there is no buffer {access.buffer!r}; known: {', '.join(buffers) or 'none'}"
    elif not 0 <= access.offset < access.offset + access.bytes <= buffers[access.buffer].bytes:
        yield (
            f"bytes {access.offset} to {access.offset + access.bytes} lie outside buffer {access.buffer} of "
            f"{buffers[access.buffer].bytes}"
        )
    if access.mode not in {"read", "write"}:
        yield f"access mode {access.mode!r}; known: read, write"
