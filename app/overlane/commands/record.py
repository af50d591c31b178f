"""`overlane record`: record an unmodified Python program, in a process of its own."""

from __future__ import annotations

import argparse
import subprocess
import sys

from overlane.errors import OverlaneError

__all__ = ["COMMAND"]


class RecordCommand:
    """Passes its arguments on to `python -m overlane_collect record`, which runs in the user's process."""

    name = "record"
    help = "record what the GPU does while a Python program runs"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's arguments."""
        parser.add_argument("-o", "--out", help="trace to write (default: the program's name with .overlane)")
        parser.add_argument(
            "-m", "--module", action="store_true", help="the program is a module, as with python -m"
        )
        parser.add_argument("--backend", default="cupti", help="where records come from (default: cupti)")
        parser.add_argument(
            "--calls",
            choices=("needed", "all", "none"),
            default="needed",
            help="host calls to record; all slows programs that make many (default: needed)",
        )
        parser.add_argument("--no-allocations", action="store_true", help="leave out allocations and frees")
        parser.add_argument(
            "--follow",
            action="store_true",
            help="record Python processes that the program starts, one trace each",
        )
        parser.add_argument(
            "--thorough",
            action="store_true",
            help="newest libcupti and all stamps, even if records then come only at the end; for short runs",
        )
        parser.add_argument("--no-markers", action="store_true", help="leave out NVTX ranges and marks")
        parser.add_argument(
            "--kinds",
            metavar="KIND,...",
            help="record only these of kernels, copies, memsets, syncs, events, overheads, "
            "host-functions, counters (default: all but counters)",
        )
        parser.add_argument(
            "--accesses",
            action="store_true",
            help="log the memory that copies, memsets and kernels are given; slows every launch",
        )
        parser.add_argument("--delay", metavar="SECONDS", help="begin to record only after this time")
        parser.add_argument(
            "--duration", metavar="SECONDS", help="record no longer than this; the program goes on"
        )
        parser.add_argument(
            "--range", metavar="NAME", help="record only while an NVTX or annotate range of this name is open"
        )
        parser.add_argument(
            "--profiler-calls",
            action="store_true",
            help="record only between the profiler's start and stop calls, as of torch.cuda.profiler",
        )
        parser.add_argument(
            "program", nargs=argparse.REMAINDER, help="-- SCRIPT or MODULE, then its arguments"
        )

    def run(self, arguments: argparse.Namespace) -> int:
        """Record, and return the program's own status; 3 when there is no GPU to record.

        Raises:
            OverlaneError: No program is named.
        """
        program = arguments.program[1:] if arguments.program[:1] == ["--"] else arguments.program
        if not program:
            raise OverlaneError("no program is given; use: overlane record -o OUT -- SCRIPT ARGUMENTS")
        command = [sys.executable, "-m", "overlane_collect", "record", "--backend", arguments.backend]
        command += ["--calls", arguments.calls]
        command += ["-o", arguments.out] if arguments.out else []
        for name in ("kinds", "delay", "duration", "range"):
            if getattr(arguments, name) is not None:
                command += [f"--{name}", getattr(arguments, name)]
        flags = (
            "module",
            "no_allocations",
            "no_markers",
            "follow",
            "thorough",
            "accesses",
            "profiler_calls",
        )
        command += [f"--{flag.replace('_', '-')}" for flag in flags if getattr(arguments, flag)]
        return subprocess.run([*command, "--", *program], check=False).returncode  # noqa: S603 - the user's program


COMMAND = RecordCommand()
