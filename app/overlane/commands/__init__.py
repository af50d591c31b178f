"""The subcommands of `overlane`: one module each, listed here and nowhere else.

A command's module imports nothing heavy at its top (no pandas, Dash, NumPy, Arrow), so that
`overlane --help` answers at once; what `run` needs is imported inside `run`. To add a command, write the
module with a `COMMAND` and put its name into `MODULES`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Protocol

from overlane.errors import OverlaneError

__all__ = ["MODULES", "Command", "CommandRegistry"]

MODULES = (
    "demo",
    "serve",
    "record",
    "run",
    "workloads",
    "recover",
    "info",
    "report",
    "compare",
    "check",
    "convert",
)
"""Modules of this package that hold a `COMMAND`, in the order that the help shows."""


class Command(Protocol):
    """One subcommand.

    Attributes:
        name: What the user types.
        help: One sentence without a full stop, for the list of commands and the command's own help.
    """

    name: str
    help: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's arguments, each with a help sentence."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Do it, print facts to standard output, and return the exit code (0 done, 1 a check failed).

        Raises:
            OverlaneError: The user or the machine is at fault; `overlane.cli` prints the sentence and picks
                the exit code.
        """


class CommandRegistry:
    """Commands by name, in the order of the help.

    Args:
        commands: The commands; by default those of `MODULES`.

    """

    def __init__(self, commands: Sequence[Command] | None = None) -> None:
        if commands is None:
            commands = [import_module(f"{__name__}.{module}").COMMAND for module in MODULES]
        self._commands = {command.name: command for command in commands}

    def __iter__(self) -> Iterator[Command]:
        return iter(self._commands.values())

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all commands."""
        return tuple(self._commands)

    def find(self, name: str) -> Command:
        """Return the command called `name`.

        Raises:
            OverlaneError: There is none; the message lists the known ones.
        """
        if name not in self._commands:
            raise OverlaneError(f"there is no command {name!r}; known: {', '.join(self.names)}")
        return self._commands[name]
