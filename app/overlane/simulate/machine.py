"""The device side: streams in order, events, copy engines, and SMs that admit blocks by free capacity.

An operation becomes eligible when all that it needs has happened, arrives at the device a launch latency
later, and starts when the engine or an SM has room for it. Kernels are served by priority, then in order of
arrival; one that does not fit does not hold back others that do.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import cast

from overlane.simulate.commands import Command, Gate, Operation, StreamState
from overlane.simulate.program import Copy, Launch, Memset, Program

__all__ = ["Machine"]


class Machine:
    """Streams, engines and SMs of one program, and the clock.

    Attributes:
        now_ns: The moment that is being played.
        streams: Streams by name.
        operations: All operations in order of issue.
        commands: All commands in order of issue.
        engines: Per device and direction the copies that ran, in order.
        released: Flags that have been set.
        admitted: When blocks started, of which kernel, and on which SMs, in order of time.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.now_ns = 0
        self.operations: list[Operation] = []
        self.commands: list[Command] = []
        self.engines: dict[tuple[int, str], list[Operation]] = {}
        self.released: dict[str, Gate] = {}
        self.admitted: list[tuple[int, Operation, list[tuple[int, int]]]] = []
        contexts = {c.context_id: c for c in program.contexts}
        self.streams = {
            s.name: StreamState(s, 7 + k, contexts[s.context_id]) for k, s in enumerate(program.streams)
        }
        self.devices = {d.device_id: d for d in program.devices}
        # Free threads, blocks, registers and shared bytes per SM.
        self._free = {
            (d.device_id, sm): [d.threads, d.blocks, d.registers, d.shared_bytes]
            for d in program.devices
            for sm in range(d.sm_count)
        }
        self._queues: dict[tuple[int, str], list[Operation]] = {}
        self._arrived: list[Operation] = []
        self._pending: list[Operation] = []
        self._resident: list[Operation] = []
        self._is_changed = False
        self._agenda: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0

    def at(self, moment_ns: int, action: Callable[[], None]) -> None:
        """Do something at a moment that has not passed."""
        self._count += 1
        heapq.heappush(self._agenda, (moment_ns, self._count, action))

    def run(self) -> None:
        """Play until nothing is left to happen."""
        agenda = self._agenda
        while agenda:
            self.now_ns = agenda[0][0]
            while agenda and agenda[0][0] == self.now_ns:
                heapq.heappop(agenda)[2]()
            self._settle()

    def happen(self, gate: Gate) -> None:
        """Let a gate happen now: what follows it may go on."""
        gate.done_ns = self.now_ns
        for follower in gate.followers:
            follower.left -= 1
            if not follower.left:
                self._ready(follower)
        sleepers, gate.sleepers = gate.sleepers, []
        for wake in sleepers:
            self.at(self.now_ns, wake)

    def put(self, stream: StreamState, kind: str, needs: list[tuple[Command, str]]) -> Command:
        """Put a command into a stream behind what it holds; `submit` lets it go.

        The legacy default stream's rule is applied here: a command of it comes after all that the blocking
        and per-thread default streams of its context hold, and theirs come after all that it holds.
        """
        command = Command(len(self.commands), kind, stream, self.now_ns)
        self.commands.append(command)
        if stream.last is not None:
            needs = [(stream.last, "stream"), *needs]
        needs = [*needs, *((last, "legacy") for last in self.held_by_legacy(stream))]
        stream.last = command
        command.needs = needs
        return command

    def held_by_legacy(self, stream: StreamState) -> list[Command]:
        """Return what a stream's next command comes after by the legacy default stream's rule."""
        context, mine = stream.spec.context_id, stream.spec.kind
        found = []
        for other in self.streams.values():
            kinds = {mine, other.spec.kind}
            if other.last is None or other.spec.context_id != context or other is stream:
                continue
            if "legacy_default" in kinds and "nonblocking" not in kinds:
                found.append(other.last)
        return found

    def submit(self, command: Command) -> None:
        """Let a command start once all that it needs has happened."""
        for need, _ in command.needs:
            if need.done_ns is None:
                need.followers.append(command)
                command.left += 1
        if not command.left:
            self._ready(command)

    def add_operation(self, operation: Operation) -> None:
        """Take an operation, whose command has been put into its stream, and let it go."""
        self.operations.append(operation)
        stream = operation.command.stream
        operation.command.operation = operation
        stream.waiting += 1
        if isinstance(operation.work, Launch):
            operation.left = operation.work.blocks
            operation.trigger = Command(-1, "trigger", stream, self.now_ns)
            operation.trigger.operation = operation
        self.submit(operation.command)

    def _ready(self, command: Command) -> None:
        if command.kind == "host_function":
            self.at(self.now_ns + command.duration_ns, lambda: self.happen(command))
        elif command.kind == "value_wait":
            flag = self.released.setdefault(command.flag, Gate())
            if flag.done_ns is None:
                flag.sleepers.append(lambda: self.happen(command))
            else:
                self.happen(command)
        elif command.operation is None:
            self.happen(command)
        else:
            self._eligible(command.operation)

    def _eligible(self, operation: Operation) -> None:
        operation.eligible_ns = self.now_ns
        costs, work = self.program.costs, operation.work
        latency = costs.memset_ns
        if isinstance(work, Launch):
            latency = costs.kernel_ns
        elif isinstance(work, Copy):
            latency = costs.copy_ns + operation.staging_ns
        self._pending.append(operation)
        self._is_changed = True
        self.at(self.now_ns + latency, lambda: self._arrive(operation))

    def _arrive(self, operation: Operation) -> None:
        operation.arrived_ns = self.now_ns
        if isinstance(operation.work, Launch):
            self._arrived.append(operation)
            self._arrived.sort(key=lambda o: (o.priority, o.arrived_ns, o.number))
            self._is_changed = True
        elif isinstance(operation.work, Copy):
            key = (operation.device_id, operation.engine)
            self._queues.setdefault(key, []).append(operation)
        else:
            self._transfer(operation)

    def _transfer(self, operation: Operation) -> None:
        """Start a copy or memset, and end it after its duration."""
        self._start(operation)
        duration = cast("Copy | Memset", operation.work).duration_ns
        self.at(self.now_ns + duration, lambda: self._finish(operation))

    def _start(self, operation: Operation) -> None:
        operation.start_ns = self.now_ns
        self._pending.remove(operation)
        stream = operation.command.stream
        stream.waiting -= 1
        self.happen(operation.started)
        room, stream.room = stream.room, Gate()
        self.happen(room)

    def _finish(self, operation: Operation) -> None:
        if operation.behind is not None and operation.behind.done_ns is None:
            # A programmatic launch ends no earlier than what it was launched behind.
            operation.behind.sleepers.append(lambda: self._finish(operation))
            return
        operation.end_ns = self.now_ns
        if operation.trigger is not None and operation.trigger.done_ns is None:
            self.happen(operation.trigger)
        self.happen(operation.command)

    def _settle(self) -> None:
        """Give what is free to those who wait for it, then note why the others still wait."""
        for key, queue in self._queues.items():
            ran = self.engines.setdefault(key, [])
            if queue and (not ran or ran[-1].end_ns >= 0):
                ran.append(queue.pop(0))
                self._transfer(ran[-1])
        if not self._is_changed:
            return
        self._is_changed = False
        for operation in [o for o in self._arrived if o.left]:
            self._admit(operation)
        self._arrived = [o for o in self._arrived if o.left]
        for operation in self._pending:
            if isinstance(operation.work, Launch):
                state = self._reason(operation)
                if not operation.states or operation.states[-1][1] != state:
                    operation.states.append((self.now_ns, state))

    def _places(self, operation: Operation, blocks: int) -> list[tuple[int, int]]:
        """Return SMs for up to so many blocks, as the device fills them; fewer if they do not fit."""
        need, device = operation.kernel.need, operation.device_id
        is_packed = self.devices[device].fills == "fullest"
        free = {sm: self._free[device, sm] for sm in range(*operation.sms)}
        chosen: list[tuple[int, int]] = []
        while len(chosen) < blocks:
            fitting = [sm for sm, has in free.items() if all(h >= n for h, n in zip(has, need, strict=True))]
            if not fitting:
                break
            if is_packed:
                fitting = [min(fitting, key=lambda sm: (free[sm][3], free[sm][0], free[sm][1]))]
            fitting.sort(key=lambda sm: (-free[sm][0], -free[sm][1]))
            for sm in fitting[: blocks - len(chosen)]:
                free[sm] = [h - n for h, n in zip(free[sm], need, strict=True)]
                chosen.append((device, sm))
        return chosen

    def had_room(self, operation: Operation, at_ns: int) -> bool:
        """Return whether a kernel's first blocks would have fitted at a moment of a run that is over."""
        device = self.devices[operation.device_id]
        free = {sm: [device.threads, device.blocks, device.registers, device.shared_bytes]
                for sm in range(*operation.sms)}  # fmt: skip
        for start, other, places in self.admitted:
            if other.device_id == operation.device_id and start <= at_ns < start + other.kernel.block_ns:
                for _, sm in places:
                    if sm in free:
                        free[sm] = [h - n for h, n in zip(free[sm], other.kernel.need, strict=True)]
        need = operation.kernel.need
        fitting = (min(h // n for h, n in zip(has, need, strict=True) if n) for has in free.values())
        return sum(fitting) >= operation.kernel.unit

    def _admit(self, operation: Operation) -> None:
        """Let as many blocks start as there is room for, in whole clusters, or all of a cooperative grid."""
        if self._is_others_turn(operation):
            return
        work = operation.kernel
        need, unit = work.need, work.unit
        admitted = self._places(operation, operation.left)
        admitted = admitted[: len(admitted) // unit * unit]
        if not admitted:
            return
        for place in admitted:
            self._free[place] = [h - n for h, n in zip(self._free[place], need, strict=True)]
            operation.running[place[1]] = operation.running.get(place[1], 0) + 1
        operation.left -= len(admitted)
        self.admitted.append((self.now_ns, operation, admitted))
        if operation.start_ns < 0:
            self._resident.append(operation)
            self._start(operation)
            if work.trigger_ns is not None:
                self.at(self.now_ns + work.trigger_ns, lambda: self._trigger(operation))
        self.at(self.now_ns + work.block_ns, lambda: self._leave(operation, admitted))

    def _trigger(self, operation: Operation) -> None:
        if operation.trigger is not None and operation.trigger.done_ns is None:
            self.happen(operation.trigger)

    def _leave(self, operation: Operation, places: list[tuple[int, int]]) -> None:
        need = operation.kernel.need
        for place in places:
            self._free[place] = [h + n for h, n in zip(self._free[place], need, strict=True)]
            operation.running[place[1]] -= 1
        self._is_changed = True
        if not operation.left and not any(operation.running.values()):
            self._resident.remove(operation)
            self._finish(operation)

    def _is_others_turn(self, operation: Operation) -> bool:
        """Whether kernels of another context run: contexts take turns, green ones with their parent."""
        return any(
            other.device_id == operation.device_id and other.family != operation.family
            for other in self._resident
        )

    def _reason(self, operation: Operation) -> str:
        """Return why a kernel that is eligible has no room, empty when it has room."""
        if self._is_others_turn(operation):
            return "context_switch"
        unit = operation.kernel.unit
        if len(self._places(operation, unit)) == unit:
            return ""
        for other in self._resident:
            if (
                other.priority < operation.priority
                and other.eligible_ns > operation.eligible_ns
                and any(count and sm in range(*operation.sms) for sm, count in other.running.items())
                and other.device_id == operation.device_id
            ):
                return "priority"
        return "partition_busy"
