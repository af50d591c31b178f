"""`overlane convert`: write a trace in another format."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from overlane.commands.loading import add_trace_argument, load
from overlane.commands.output import printable
from overlane.errors import MachineError, OverlaneError

if TYPE_CHECKING:
    from overlane.writers import Writer

__all__ = ["COMMAND", "ConvertCommand"]

FORMATS = ("overlane", "chrome", "parquet", "csv")
"""Names in `overlane.writers.WRITERS`, repeated so that help answers at once; a test compares."""


class ConvertCommand:
    """Reads a trace in one format and writes it in another."""

    name = "convert"
    help = "write a trace as .overlane, Chrome/Perfetto JSON, or a folder of Parquet or CSV files"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the trace, the output and its format."""
        add_trace_argument(parser, "in")
        parser.add_argument("out", metavar="OUT", type=Path, help="file or folder to write")
        parser.add_argument(
            "--to",
            metavar="FORMAT",
            choices=FORMATS,
            help=f"format to write: {', '.join(FORMATS)}; by default told by OUT's name "
            "(.overlane, .json, .json.gz)",
        )
        parser.add_argument("--force", action="store_true", help="replace OUT where it exists")

    def run(self, arguments: argparse.Namespace) -> int:
        """Write the trace.

        Raises:
            OverlaneError: The trace cannot be read, OUT exists, or its name tells no format.
            MachineError: OUT cannot be written.
        """
        from overlane.writers import WRITERS  # noqa: PLC0415 - help must answer without loading Arrow
        from overlane_collect.writer import advice_for  # noqa: PLC0415

        source, target = getattr(arguments, "in"), arguments.out
        writer = WRITERS.find(arguments.to) if arguments.to else WRITERS.for_path(target)
        try:
            _check_target(target, writer, replaces=arguments.force)
        except OSError as error:  # a folder on the way may not be entered, or the name is too long
            raise OverlaneError(
                f"{target} cannot be reached: {error.strerror or error}; "
                "change the permissions of its folder or choose another place"
            ) from error
        trace = load(source)
        try:
            writer.write(trace, target)
        except OSError as error:
            raise MachineError(
                f"{target} could not be written: {error.strerror or error}; {advice_for(error)}"
            ) from error
        sys.stderr.write(printable(f"wrote {target} ({writer.name})") + "\n" if sys.stderr.isatty() else "")
        return 0


def _check_target(target: Path, writer: Writer, *, replaces: bool) -> None:
    if target.exists() and not replaces:
        raise OverlaneError(f"{target} exists; choose another name, or replace it with --force")
    if target.exists() and not target.is_file() and not target.is_dir():
        raise OverlaneError(f"{target} is a device or pipe; give the name of a file or folder")
    if writer.suffixes and target.is_dir():
        raise OverlaneError(f"{target} is a folder and {writer.name} is written as one file; give its name")
    if not target.absolute().parent.is_dir():
        raise OverlaneError(f"the folder {target.absolute().parent} does not exist; make it first")


COMMAND = ConvertCommand()
