"""The host side: threads that carry out statements, pay for calls and are held by them.

Calls that put work into streams exclude one another, as the driver's own lock does, so that the order of
calls is the order of issue. A thread that is held lets the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from overlane.simulate import program as p
from overlane.simulate.calls import HOLDING, LARGE_COPY_BYTES, idle_cause
from overlane.simulate.commands import Call, Command, Gate, Operation, StreamState
from overlane.simulate.machine import Machine

__all__ = ["Host", "Point"]

_ACCESS_NS = 100  # so that what comes next does not begin at the same moment
_NOT_READY = 600  # CUDA_ERROR_NOT_READY

Step = Iterator[int | Gate]
"""What a thread does: it gives the moment or the gate that it waits for next."""


class Point:
    """A moment of a host thread in the order of events.

    Attributes:
        thread: Thread that it belongs to; points of a thread follow one another.
        after: Commands that are known to have ended here, with whether a documented rule guarantees it.
        issues: Command that is put into a stream here.
        access: Access of the host, with the moment.
        frees: Call that frees memory here, and the buffer.
        releases: Flag that is set here.
    """

    __slots__ = ("access", "after", "at_ns", "frees", "issues", "releases", "thread")

    def __init__(self, thread: int, at_ns: int) -> None:
        self.thread = thread
        self.at_ns = at_ns
        self.after: list[tuple[Command, bool]] = []
        self.issues: Command | None = None
        self.access: p.Access | None = None
        self.frees: tuple[Call, str] | None = None
        self.releases = ""


class Host:
    """All host threads of a program, and the rows that their calls leave.

    Attributes:
        calls: All calls in order of start.
        syncs: Synchronizations and queries: call, kind, what was waited for (stream, context, event record).
        records: Event records: call, name of the event, command.
        waits: Stream waits: call, stream, name of the event, record or None.
        ranges: Named host work: thread, name, start, end.
        overheads: Thread, kind, whether the recording caused it, start, end.
        allocations: Call, buffer, freed, device, stream or None.
        shown: Host functions and value waits of which rows tell the stream and the end: call, command.
        points: Points of all threads in order of time.
    """

    def __init__(self, program: p.Program, machine: Machine) -> None:
        self.program = program
        self.machine = machine
        self.calls: list[Call] = []
        self.syncs: list[tuple[Call, str, StreamState | None, int | None, str, Command | None]] = []
        self.records: list[tuple[Call, str, Command]] = []
        self.waits: list[tuple[Call, StreamState, str, Command | None]] = []
        self.ranges: list[tuple[int, str, int, int]] = []
        self.overheads: list[tuple[int, str, bool, int, int]] = []
        self.allocations: list[tuple[Call, str, bool, int, StreamState | None]] = []
        self.shown: list[tuple[Call, Command]] = []
        self.points: list[Point] = []
        self._events: dict[str, Command] = {}
        self._graphs = {graph.name: graph for graph in program.graphs}
        self._graph_ends: dict[str, Command] = {}
        self._launches = 0
        self._locked_until = 0
        self._full: Gate | None = (
            None  # what a thread with a full queue waits for; it keeps the driver's lock
        )
        self._ways: dict[type, Callable[..., Step]] = {
            p.Launch: self._work,
            p.Copy: self._work,
            p.Memset: self._work,
            p.Record: self._record,
            p.WaitEvent: self._wait,
            p.EventSync: self._event_sync,
            p.StreamSync: self._stream_sync,
            p.ContextSync: self._context_sync,
            p.DeviceSync: self._device_sync,
            p.EventQuery: self._event_query,
            p.StreamQuery: self._stream_query,
            p.HostFunction: self._host_function,
            p.ValueWait: self._value_wait,
            p.Release: self._release,
            p.Allocate: self._allocate,
            p.Free: self._free,
            p.AllocateAsync: self._stream_ordered,
            p.FreeAsync: self._stream_ordered,
            p.ImplicitCall: self._implicit_call,
            p.HostWork: self._host_work,
            p.Recording: self._recording,
            p.HostAccess: self._host_access,
            p.GraphLaunch: self._graph,
        }

    def start(self) -> None:
        """Put the beginning of every thread on the agenda."""
        for number, thread in enumerate(self.program.threads):
            steps = self._carry_out(number, thread.statements)
            self.machine.at(thread.begins_ns, lambda steps=steps: self._advance(steps))  # type: ignore[misc]

    def _advance(self, steps: Step) -> None:
        for wanted in steps:
            if isinstance(wanted, int):
                if wanted > self.machine.now_ns:
                    self.machine.at(wanted, lambda: self._advance(steps))
                    return
            elif wanted.done_ns is None:
                wanted.sleepers.append(lambda: self._advance(steps))
                return

    def _carry_out(self, thread: int, statements: Iterable[p.Statement]) -> Step:
        for statement in statements:
            yield from self._ways[type(statement)](thread, statement)

    # Calls

    def _begin(self, thread: int, name: str, holds: str = "late_launch") -> Call:
        call = Call(thread, name, self.machine.now_ns, 100 + len(self.calls), holds)
        self.calls.append(call)
        return call

    def _locked(self, cost_ns: int) -> Step:
        """Wait for the driver's lock, then take it for so long from now on."""
        while self._full is not None or self._locked_until > self.machine.now_ns:
            yield self._full if self._full is not None else self._locked_until
        self._locked_until = self.machine.now_ns + cost_ns

    def _point(self, thread: int) -> Point:
        point = Point(thread, self.machine.now_ns)
        self.points.append(point)
        return point

    def _mark(self, thread: int, name: str, act: Callable[[Call], None]) -> Step:
        """Make a short call that does its work at three quarters of its cost."""
        cost = self.program.costs.mark_ns
        yield from self._locked(cost)
        call = self._begin(thread, name, idle_cause(name))
        yield call.start_ns + cost * 3 // 4
        act(call)
        yield call.start_ns + cost
        call.end_ns = self.machine.now_ns

    def _put(
        self, thread: int, stream: StreamState, needs: list[tuple[Command, str]], kind: str = "mark"
    ) -> Command:
        command = self.machine.put(stream, kind, needs)
        self._point(thread).issues = command
        return command

    # Work

    def _work(self, thread: int, statement: p.Launch | p.Copy | p.Memset) -> Step:
        stream = self.machine.streams[statement.stream]
        costs = self.program.costs
        yield from self._locked(costs.launch_ns)
        call = self._begin(thread, _work_name(statement))
        if isinstance(statement, p.Copy) and (statement.is_pageable or not statement.is_async):
            call.holds = "blocking_copy" if statement.direction != "d2d" else "late_launch"
        yield from self._room(call, stream)
        cost = costs.launch_ns + self._extra(call, statement)
        self._locked_until = max(self._locked_until, self.machine.now_ns + cost)
        end = self.machine.now_ns + cost
        yield end - costs.launch_ns // 4
        operation = self._issue(thread, call, stream, statement)
        yield end
        yield from self._hold(thread, operation)
        call.end_ns = self.machine.now_ns

    def _room(self, call: Call, stream: StreamState) -> Step:
        """Hold the thread while the queue of a stream is full."""
        start = self.machine.now_ns
        while stream.waiting >= self.program.costs.queue_depth:
            self._full = stream.room
            yield stream.room
        self._full = None
        if self.machine.now_ns > start:
            call.queue_full = start, self.machine.now_ns
            self.overheads.append((call.thread, "command_buffer_full", False, *call.queue_full))

    def _extra(self, call: Call, statement: p.Launch | p.Copy | p.Memset) -> int:
        """Return what this call costs beside queueing: loading code, or staging a small pageable copy."""
        costs, now = self.program.costs, self.machine.now_ns
        if isinstance(statement, p.Launch) and statement.loads_code:
            self.overheads.append((call.thread, "lazy_function_loading", False, now, now + costs.lazy_ns))
            call.holds = "module_load"
            return costs.lazy_ns
        if isinstance(statement, p.Copy) and _is_staged_at_once(statement):
            return costs.staging_ns
        return 0

    def _issue(
        self, thread: int, call: Call, stream: StreamState, statement: p.Launch | p.Copy | p.Memset
    ) -> Operation:
        needs: list[tuple[Command, str]] = []
        behind = None
        if isinstance(statement, p.Launch) and statement.loads_code:
            needs = [(last, "module") for last in self._all_of(stream.context.device_id)]
        if isinstance(statement, p.Launch) and statement.launch_type == "programmatic":
            before = stream.last.operation if stream.last is not None else None
            if _may_start_early(before, needs) and not self.machine.held_by_legacy(stream):
                behind = before
            else:  # only a kernel can let another start early; behind anything else it is an ordinary launch
                statement = replace(statement, launch_type="regular")
        command = self._put(thread, stream, needs, "operation")
        if behind is not None and behind.trigger is not None:
            command.needs = [
                (behind.trigger, "programmatic") if need is behind.command else (need, rule)
                for need, rule in command.needs
            ]
        operation = self._operation(statement, command, call)
        operation.behind = behind.command if behind is not None else None
        if isinstance(statement, p.Copy) and operation.is_blocking and not _is_staged_at_once(statement):
            operation.staging_ns = self.program.costs.staging_ns
        self.machine.add_operation(operation)
        return operation

    def _operation(self, work: p.Launch | p.Copy | p.Memset, command: Command, call: Call) -> Operation:
        stream = command.stream
        sms = stream.context.sms or (0, self.machine.devices[stream.context.device_id].sm_count)
        return Operation(len(self.machine.operations), work, command, call, stream.stream_id, sms)

    def _hold(self, thread: int, operation: Operation) -> Step:
        """Hold the thread as long as a blocking copy does."""
        work = operation.work
        if not isinstance(work, p.Copy) or not operation.is_blocking or _is_staged_at_once(work):
            return
        if work.direction == "h2d" and work.is_pageable:
            # Staged piece by piece: the call may return before the last piece has been transferred.
            yield operation.started
            yield operation.start_ns + work.duration_ns * 7 // 8
            return
        yield operation.command
        yield self.machine.now_ns + self.program.costs.return_ns
        self._point(thread).after.append((operation.command, True))

    def _graph(self, thread: int, statement: p.GraphLaunch) -> Step:
        stream, graph = self.machine.streams[statement.stream], self._graphs[statement.graph]
        cost = self.program.costs.launch_ns
        yield from self._locked(cost)
        call = self._begin(thread, "cuGraphLaunch")
        yield call.start_ns + cost * 3 // 4
        earlier = self._graph_ends.get(graph.name)
        begin = self._put(thread, stream, [(earlier, "graph")] if earlier is not None else [])
        self._launches += 1
        nodes: list[Command] = []
        for number, node in enumerate(graph.nodes):
            command = Command(len(self.machine.commands), "operation", stream, self.machine.now_ns)
            self.machine.commands.append(command)
            command.needs = [(nodes[k], "graph") for k in node.after] or [(begin, "stream")]
            nodes.append(command)
            operation = self._operation(node.work, command, call)
            operation.graph = graph.name, self._launches, number
            self.machine.add_operation(operation)
        end = self.machine.put(stream, "mark", [])
        end.needs = [(node, "stream") for node in nodes]
        self._graph_ends[graph.name] = end
        self.machine.submit(begin)
        self.machine.submit(end)
        yield call.start_ns + cost
        call.end_ns = self.machine.now_ns

    def _host_function(self, thread: int, statement: p.HostFunction) -> Step:
        def act(call: Call) -> None:
            command = self._put(thread, self.machine.streams[statement.stream], [], "host_function")
            command.duration_ns = statement.duration_ns
            self._show(call, command, is_shown=statement.is_shown)
            self.machine.submit(command)

        yield from self._mark(thread, "cuLaunchHostFunc", act)

    def _value_wait(self, thread: int, statement: p.ValueWait) -> Step:
        def act(call: Call) -> None:
            command = self._put(thread, self.machine.streams[statement.stream], [], "value_wait")
            command.flag = statement.flag
            self._show(call, command, is_shown=statement.is_shown)
            self.machine.submit(command)

        yield from self._mark(thread, "cuStreamWaitValue32_v2", act)

    def _show(self, call: Call, command: Command, *, is_shown: bool) -> None:
        if is_shown:
            command.shown_by = call
            self.shown.append((call, command))

    def _release(self, thread: int, statement: p.Release) -> Step:
        self._point(thread).releases = statement.flag
        flag = self.machine.released.setdefault(statement.flag, Gate())
        if flag.done_ns is None:
            self.machine.happen(flag)
        yield self.machine.now_ns

    # Events

    def _record(self, thread: int, statement: p.Record) -> Step:
        def act(call: Call) -> None:
            command = self._put(thread, self.machine.streams[statement.stream], [])
            self._events[statement.event] = command
            self.records.append((call, statement.event, command))
            self.machine.submit(command)

        yield from self._mark(thread, "cuEventRecord", act)

    def _wait(self, thread: int, statement: p.WaitEvent) -> Step:
        def act(call: Call) -> None:
            stream, record = self.machine.streams[statement.stream], self._events.get(statement.event)
            self.waits.append((call, stream, statement.event, record))
            needs = [(record, "event")] if record is not None else []
            self.machine.submit(self._put(thread, stream, needs))

        yield from self._mark(thread, "cuStreamWaitEvent", act)

    # Synchronizations

    def _all_of(self, device: int | None = None, context: int | None = None) -> list[Command]:
        """Return the last commands of the streams of a device, or of a context and its green contexts."""
        return [
            stream.last
            for stream in self.machine.streams.values()
            if stream.last is not None
            and (device is None or stream.context.device_id == device)
            and (context is None or context in {stream.context.context_id, stream.context.parent})
        ]

    def _sync(
        self, thread: int, name: str, kind: str, *, stream: StreamState | None = None,
        context: int | None = None,
        event: str = "", wanted: Callable[[], list[Command]] = list,
    ) -> Step:  # fmt: skip
        costs = self.program.costs
        yield from self._locked(costs.mark_ns)
        is_query = kind.endswith("_query")
        call = self._begin(thread, name, "late_launch" if is_query else "host_sync")
        targets = wanted()
        record = targets[0] if event and targets else None
        self.syncs.append((call, kind, stream, context, event, record))
        yield call.start_ns + costs.mark_ns
        if is_query:
            if any(target.done_ns is None for target in targets):
                call.result = _NOT_READY
        else:
            yield from self._until(targets)
        call.end_ns = self.machine.now_ns
        if not call.result:
            self._point(thread).after += [(target, True) for target in targets]

    def _until(self, targets: list[Command]) -> Step:
        is_held = any(target.done_ns is None for target in targets)
        yield from targets
        if is_held:
            yield self.machine.now_ns + self.program.costs.return_ns

    def _event_sync(self, thread: int, statement: p.EventSync) -> Step:
        yield from self._sync(
            thread, "cuEventSynchronize", "event", event=statement.event,
            wanted=lambda: self._latest(statement.event),
        )  # fmt: skip

    def _event_query(self, thread: int, statement: p.EventQuery) -> Step:
        yield from self._sync(
            thread, "cuEventQuery", "event_query", event=statement.event,
            wanted=lambda: self._latest(statement.event),
        )  # fmt: skip

    def _latest(self, event: str) -> list[Command]:
        return [self._events[event]] if event in self._events else []

    def _stream_sync(self, thread: int, statement: p.StreamSync) -> Step:
        stream = self.machine.streams[statement.stream]
        yield from self._sync(
            thread, "cuStreamSynchronize", "stream", stream=stream,
            wanted=lambda: [stream.last] if stream.last is not None else [],
        )  # fmt: skip

    def _stream_query(self, thread: int, statement: p.StreamQuery) -> Step:
        stream = self.machine.streams[statement.stream]
        yield from self._sync(
            thread, "cuStreamQuery", "stream_query", stream=stream,
            wanted=lambda: [stream.last] if stream.last is not None else [],
        )  # fmt: skip

    def _context_sync(self, thread: int, statement: p.ContextSync) -> Step:
        context = statement.context_id
        yield from self._sync(
            thread, "cuCtxSynchronize", "context", context=context,
            wanted=lambda: self._all_of(context=context),
        )  # fmt: skip

    def _device_sync(self, thread: int, statement: p.DeviceSync) -> Step:
        context = next(c.context_id for c in self.program.contexts if c.device_id == statement.device_id)
        yield from self._sync(
            thread, "cudaDeviceSynchronize", "device", context=context,
            wanted=lambda: self._all_of(device=statement.device_id),
        )  # fmt: skip

    # Memory, code and the host's own work

    def _implicit(self, thread: int, name: str, device: int, duration_ns: int, buffer: str = "") -> Step:
        yield from self._locked(duration_ns)
        call = self._begin(thread, name, idle_cause(name))
        if buffer:
            self.allocations.append((call, buffer, name in HOLDING, device, None))
        targets = self._all_of(device) if name in HOLDING else []
        yield call.start_ns + duration_ns
        yield from self._until(targets)
        call.end_ns = self.machine.now_ns
        point = self._point(thread)
        point.after += [(target, False) for target in targets]
        if buffer and name in HOLDING:
            point.frees = call, buffer

    def _implicit_call(self, thread: int, statement: p.ImplicitCall) -> Step:
        yield from self._implicit(thread, statement.name, statement.device_id, statement.duration_ns)

    def _allocate(self, thread: int, statement: p.Allocate) -> Step:
        yield from self._implicit(thread, "cuMemAlloc_v2", 0, statement.duration_ns, statement.buffer)

    def _free(self, thread: int, statement: p.Free) -> Step:
        cost = self.program.costs.mark_ns
        yield from self._implicit(thread, "cuMemFree_v2", statement.device_id, cost, statement.buffer)

    def _stream_ordered(self, thread: int, statement: p.AllocateAsync | p.FreeAsync) -> Step:
        is_free = isinstance(statement, p.FreeAsync)

        def act(call: Call) -> None:
            stream = self.machine.streams[statement.stream]
            self.allocations.append((call, statement.buffer, is_free, stream.context.device_id, stream))
            command = self._put(thread, stream, [], "allocation")
            if is_free:
                self.points[-1].frees = call, statement.buffer
            self.machine.submit(command)

        yield from self._mark(thread, "cuMemFreeAsync" if is_free else "cuMemAllocAsync", act)

    def _host_work(self, thread: int, statement: p.HostWork) -> Step:
        start = self.machine.now_ns
        yield start + statement.duration_ns
        if statement.name is not None:
            self.ranges.append((thread, statement.name, start, self.machine.now_ns))

    def _recording(self, thread: int, statement: p.Recording) -> Step:
        start = self.machine.now_ns
        yield start + statement.duration_ns
        self.overheads.append((thread, "cupti_buffer_flush", True, start, self.machine.now_ns))

    def _host_access(self, thread: int, statement: p.HostAccess) -> Step:
        self._point(thread).access = statement.access
        yield self.machine.now_ns + _ACCESS_NS


def _is_staged_at_once(work: p.Copy) -> bool:
    return work.direction == "h2d" and work.is_pageable and work.is_async and work.bytes <= LARGE_COPY_BYTES


def _may_start_early(before: Operation | None, needs: list[tuple[Command, str]]) -> bool:
    return before is not None and before.trigger is not None and before.graph is None and not needs


def _work_name(work: p.Launch | p.Copy | p.Memset) -> str:
    """Return the driver's function for a launch, copy or memset."""
    if isinstance(work, p.Launch):
        names = {"cooperative": "cuLaunchCooperativeKernel", "programmatic": "cuLaunchKernelEx"}
        return names.get(work.launch_type, "cuLaunchKernel")
    if isinstance(work, p.Memset):
        return "cuMemsetD8Async"
    directions = {"h2d": "HtoD", "d2h": "DtoH", "d2d": "DtoD"}
    return f"cuMemcpy{directions[work.direction]}{'Async' if work.is_async else ''}_v2"
