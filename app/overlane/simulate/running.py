"""Play a program and hand back its trace together with the truth."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from overlane.simulate.checking import ProgramError, check
from overlane.simulate.commands import Operation
from overlane.simulate.explain import Explainer
from overlane.simulate.gaps import idle_parts
from overlane.simulate.host import Host
from overlane.simulate.machine import Machine
from overlane.simulate.program import Program
from overlane.simulate.reach import Reach
from overlane.simulate.rows import addresses, name_streams, partition_rows, trace_of
from overlane.simulate.truth import Truth
from overlane.trace import Trace

__all__ = ["Simulated", "run"]


@dataclass(frozen=True)
class Simulated:
    """A program that has been played.

    Attributes:
        program: What was played.
        machine: Device side after the run.
        host: Host side after the run.
        operations: Operations in the order of their rows in `ops`.
    """

    program: Program
    machine: Machine
    host: Host
    operations: tuple[Operation, ...]
    streams_made: dict[int, int]

    @cached_property
    def trace(self) -> Trace:
        """What a full recording of the run would hold."""
        return trace_of(self.program, self.machine, self.host, self.operations, self.streams_made)

    @cached_property
    def truth(self) -> Truth:
        """What really happened."""
        capacity = {
            d.device_id: (d.threads, d.blocks, d.registers, d.shared_bytes) for d in self.program.devices
        }
        explainer = Explainer(
            self.operations, self.machine.engines, capacity, self.host.calls, self.machine.commands
        )  # fmt: skip
        issued = tuple(explainer.issued_ns(operation) for operation in self.operations)
        waits = [explainer.parts(op_id, operation) for op_id, operation in enumerate(self.operations)]
        idle = idle_parts(self.operations, waits, issued, self.host, partition_rows(self.program))
        reach = Reach(
            self.operations, self.machine.commands, self.host.points, addresses(self.program),
            {buffer.name: buffer.bytes for buffer in self.program.buffers},
        )  # fmt: skip
        return Truth(tuple(part for parts in waits for part in parts), tuple(idle), issued, reach)


def run(program: Program) -> Simulated:
    """Play a program to its end.

    Raises:
        ProgramError: It cannot be played, or it never ends (a flag that nobody sets).

    Example:
        >>> from overlane.simulate import Launch, Program, Stream, Thread, run
        >>> work = Thread((Launch("s", 5_000), Launch("s", 5_000)))
        >>> played = run(Program((work,), (Stream("s"),)))
        >>> [(part.op_id, part.cause, part.end_ns - part.start_ns) for part in played.truth.waits]
        [(0, 'launch_latency', 1500), (1, 'stream_order', 2500), (1, 'launch_latency', 1500)]
    """
    check(program)
    machine = Machine(program)
    host = Host(program, machine)
    host.start()
    machine.run()
    stuck = [call.name for call in host.calls if call.end_ns < 0]
    open_commands = [command for command in machine.commands if command.done_ns is None]
    if stuck or open_commands:
        names = sorted({f"stream {command.stream.spec.name}" for command in open_commands} | set(stuck))
        raise ProgramError(f"the program never ends: {', '.join(names)} wait for what does not come")
    made = name_streams(machine.operations)
    operations = sorted(machine.operations, key=lambda o: (o.start_ns, o.end_ns))
    return Simulated(program, machine, host, tuple(operations), made)
