"""`overlane convert`: write a trace in another format."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from overlane.commands.loading import add_trace_argument, load
from overlane.commands.output import printable
from overlane.commands.targets import check_target
from overlane.errors import MachineError
from overlane.notes import beside, latest

__all__ = ["COMMAND", "ConvertCommand"]

FORMATS = ("overlane", "chrome", "parquet", "csv")
"""Names in `overlane.writers.WRITERS`, repeated so that help answers at once; a test compares."""


class ConvertCommand:
    """Reads a trace in one format and writes it in another, with its marks and notes in a file beside it."""

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
        from overlane_collect.writer import advice_for, replacing  # noqa: PLC0415

        source, target = getattr(arguments, "in"), arguments.out
        writer = WRITERS.find(arguments.to) if arguments.to else WRITERS.for_path(target)
        is_file = bool(writer.suffixes)
        check_target(target, writer.name, is_file=is_file, replaces=arguments.force)
        trace = load(source)
        notes = latest(source.resolve())
        if notes is not None:
            check_target(beside(target), "the notes", is_file=True, replaces=arguments.force)
        try:
            writer.write(trace, target)
            if notes is not None:
                with replacing(beside(target)) as file:
                    file.write(notes[1].encode())
        except OSError as error:
            raise MachineError(
                f"{target} could not be written: {error.strerror or error}; {advice_for(error)}"
            ) from error
        along = "" if notes is None else f", and its marks and notes to {beside(target)}"
        said = printable(f"wrote {target} ({writer.name}){along}")
        sys.stderr.write(said + "\n" if sys.stderr.isatty() else "")
        return 0


COMMAND = ConvertCommand()
