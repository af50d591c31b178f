"""The command line: parsing, and the one place where an error becomes an exit code.

Exit codes: 0 done, 1 a check failed, 2 wrong usage or an input that cannot be read, 3 no usable GPU or
driver, 4 a fault of ours or of the machine, 130 interrupted. An error is one sentence on standard error;
`OVERLANE_DEBUG=1` adds the traceback.
"""

from __future__ import annotations

import argparse
import errno
import io
import os
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

from overlane import __version__
from overlane.commands import CommandRegistry
from overlane.commands.output import printable
from overlane.errors import MachineError, OverlaneError

__all__ = ["build_parser", "main"]

EXIT_DONE = 0
EXIT_USAGE = 2
EXIT_FAULT = 4
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells report it

_DESCRIPTION = (
    "Show what every CUDA stream and SM partition of a GPU was doing, and why it was not doing more."
)
_EPILOG = (
    "Exit codes: 0 done, 1 a check failed, 2 wrong usage or unreadable input, 3 no usable GPU or driver, "
    "4 a fault of ours or of the machine. Set OVERLANE_DEBUG=1 to see the traceback of an error."
)
_MACHINE_ERRNOS = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EROFS,
    errno.EIO,
    errno.ENOMEM,
    errno.EMFILE,
    errno.ENFILE,
}


class _Parser(argparse.ArgumentParser):
    """Says what is wrong with a command line without handing its control characters to the terminal."""

    def error(self, message: str) -> NoReturn:
        super().error(printable(message))


def build_parser(registry: CommandRegistry | None = None) -> argparse.ArgumentParser:
    """Return the parser of the whole command line, with one subparser per command.

    Args:
        registry: Commands to offer; by default all.
    """
    parser = _Parser(prog="overlane", description=_DESCRIPTION, epilog=_EPILOG, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"overlane {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for command in registry or CommandRegistry():
        sentence = command.help[0].upper() + command.help[1:] + "."
        command.add_arguments(
            commands.add_parser(command.name, help=command.help, description=sentence, allow_abbrev=False),
        )
    return parser


def main(argv: Sequence[str] | None = None, *, registry: CommandRegistry | None = None) -> int:
    """Run one command line and return its exit code.

    Args:
        argv: Arguments without the program's name; by default those of the process.
        registry: Commands to offer; by default all.
    """
    _tolerate_narrow_output()
    registry = registry or CommandRegistry()
    parser = build_parser(registry)
    try:
        arguments = parser.parse_args(argv)
    except SystemExit as stop:  # argparse has printed its help, version or sentence
        return stop.code if isinstance(stop.code, int) else EXIT_USAGE
    if arguments.command is None:
        parser.print_help()
        return EXIT_DONE
    try:
        code = registry.find(arguments.command).run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        _silence_stdout()
        return EXIT_DONE
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last line of defence: a sentence instead of a traceback
        return _report(error)
    return code


def _report(error: Exception) -> int:
    """Print an error as one sentence and return its exit code."""
    if os.environ.get("OVERLANE_DEBUG"):
        traceback.print_exception(error)
    if isinstance(error, OverlaneError):
        return _say(str(error), error.exit_code)
    if isinstance(error, MemoryError):
        return _say(
            "the machine ran out of memory; close other programs or use a smaller trace",
            MachineError.exit_code,
        )
    if isinstance(error, OSError) and error.errno in _MACHINE_ERRNOS:
        from overlane_collect.writer import advice_for  # noqa: PLC0415 - help must answer at once

        place = f" at {error.filename}" if error.filename else ""
        return _say(
            f"the machine refused{place}: {error.strerror}; {advice_for(error)}",
            EXIT_FAULT,
        )
    return _say(
        f"an unexpected fault, not yours: {type(error).__name__}: {error}; "
        "run it again with OVERLANE_DEBUG=1 to see where, and please report it",
        EXIT_FAULT,
    )


def _tolerate_narrow_output() -> None:
    """Let a terminal or pipe that knows only ASCII show `?` for what it cannot, not fail on a name."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _say(sentence: str, code: int) -> int:
    sys.stderr.write(f"overlane: {printable(' '.join(sentence.split()))}\n")
    return code


def _silence_stdout() -> None:
    """Point standard output at nothing, so that the interpreter's flush at exit meets no closed pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
