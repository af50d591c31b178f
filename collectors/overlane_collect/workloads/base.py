"""What a workload is: parameters, a run on a device, a check of its result."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from overlane_collect._cuda import Buffer, Gpu
from overlane_collect.errors import CollectError

__all__ = ["EXPECT", "Hold", "Outcome", "Parameter", "Workload", "parse_settings"]

RELEASE_AFTER_S = 5.0  # a held stream is let go after this, whatever happens, so that nothing hangs


@dataclass(frozen=True)
class Parameter:
    """One parameter of a workload.

    Attributes:
        name: As in `--set NAME=VALUE`.
        default: Value when it is not set; its type is the parameter's.
        doc: One sentence.
        choices: Allowed values; empty when any of the type is.
        least: Smallest allowed number.
    """

    name: str
    default: int | str | tuple[int, ...]
    doc: str
    choices: tuple[str, ...] = ()
    least: int = 0

    def parse(self, text: str) -> int | str | tuple[int, ...]:
        """Return the value of a text.

        Raises:
            CollectError: It is none; the message says what is.
        """
        if self.choices:
            if text not in self.choices:
                raise CollectError(f"{self.name}={text} is unknown; choose from {', '.join(self.choices)}")
            return text
        if isinstance(self.default, str):
            return text
        try:
            numbers = tuple(int(part, 0) for part in text.split(","))
        except ValueError as error:
            raise CollectError(f"{self.name}={text} is not a number; give one like {self.default}") from error
        if min(numbers) < self.least:
            raise CollectError(f"{self.name}={text} is too small; give at least {self.least}")
        if isinstance(self.default, tuple):
            return numbers
        if len(numbers) > 1:
            raise CollectError(f"{self.name}={text} is more than one number; give one like {self.default}")
        return numbers[0]


EXPECT = Parameter(
    "expect", "right", "wrong shifts the expected result, to see the check fail", ("right", "wrong")
)
"""Every workload has it."""


@dataclass
class Outcome:
    """What a run gave.

    Attributes:
        correct: The result is as expected.
        lines: What to print.
        measured: Figures by name, for the header and `--json`.
    """

    correct: bool
    lines: list[str] = field(default_factory=list)
    measured: dict[str, Any] = field(default_factory=dict)


class Workload(Protocol):
    """One workload.

    Attributes:
        name: As in `overlane run NAME`.
        description: One sentence.
        parameters: Its parameters besides `expect`.
    """

    name: str
    description: str
    parameters: tuple[Parameter, ...]

    def run(self, gpu: Gpu, values: Mapping[str, Any]) -> Outcome:
        """Run it on a device and check the result.

        Args:
            gpu: Device.
            values: Value of each parameter; `shift` is added to what is expected (0 unless `expect=wrong`).

        Raises:
            DriverError: A call failed.
        """


def parse_settings(workload: Workload, settings: Sequence[str]) -> dict[str, Any]:
    """Return the value of every parameter.

    Args:
        workload: Workload.
        settings: Texts like `NAME=VALUE`.

    Raises:
        CollectError: A parameter is unknown or its value is none.
    """
    known = {parameter.name: parameter for parameter in (*workload.parameters, EXPECT)}
    values: dict[str, Any] = {name: parameter.default for name, parameter in known.items()}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if name not in known or not equals:
            raise CollectError(
                f"{workload.name} has no parameter {setting!r}; use NAME=VALUE with one of {', '.join(known)}"
            )
        values[name] = known[name].parse(text)
    return values


class Hold:
    """A pinned flag that streams wait for, let go by the host; a watchdog lets go if the host does not.

    While it holds, allocate, load and synchronize nothing: the calls would wait for the held work.

    Args:
        gpu: Device.
    """

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self.buffer: Buffer = gpu.host_memory(4, "pinned")
        self._flag: npt.NDArray[np.uint32] = self.buffer.view(np.uint32)
        self._flag[0] = 0
        self._round = 0
        self._watchdog: threading.Timer | None = None
        self.expired = False

    def hold(self, stream: Any) -> None:
        """Let a stream wait for the next release."""
        self._round += 1
        self._gpu.wait_value(stream, self.buffer, self._round)
        self._watchdog = threading.Timer(RELEASE_AFTER_S, self._expire)
        self._watchdog.daemon = True
        self._watchdog.start()

    def release(self) -> None:
        """Let the held streams go, and log that the host did."""
        at = self._gpu.log.now()  # just before, so that no kernel starts earlier
        self._flag[0] = self._round
        self._gpu.log.host_access("write", self.buffer.span(), at_ns=at)
        if self._watchdog is not None:
            self._watchdog.cancel()
            self._watchdog = None

    def _expire(self) -> None:
        self.expired = True
        self._flag[0] = self._round
