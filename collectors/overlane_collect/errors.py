"""The errors that the collectors and the trace file tell their users about.

Each carries the exit code of the command line (design, section 4); `overlane_collect.cli` is the only place
that uses it.
"""

from __future__ import annotations


class CollectError(Exception):
    """A condition that the user can act on; the message says what, what was found and what to do."""

    exit_code = 2


class TraceFileError(CollectError):
    """A `.overlane` file is of an unknown version, cut, damaged, or cannot be written."""


class NoGpuError(CollectError):
    """There is no usable GPU, driver or CUPTI, or they do not let this process in."""

    exit_code = 3


class MachineError(CollectError):
    """The machine is at fault: a full disk, or a driver that failed where it should not."""

    exit_code = 4
