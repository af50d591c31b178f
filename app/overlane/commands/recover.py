"""`overlane recover`: a trace from the journal of a killed recording."""

from __future__ import annotations

import argparse
import subprocess
import sys

__all__ = ["COMMAND"]


class RecoverCommand:
    """Passes its arguments on to `python -m overlane_collect recover`."""

    name = "recover"
    help = "turn the journal of a killed recording into a trace"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's arguments."""
        parser.add_argument("journal", help="the .journal file that a killed recording left")
        parser.add_argument(
            "-o", "--out", help="trace to write (default: the journal's name without .journal)"
        )
        parser.add_argument("--json", action="store_true", help="print what was recovered as JSON")

    def run(self, arguments: argparse.Namespace) -> int:
        """Recover, and return 0; 2 when it is no journal."""
        command = [sys.executable, "-m", "overlane_collect", "recover", arguments.journal]
        command += ["-o", arguments.out] if arguments.out else []
        command += ["--json"] if arguments.json else []
        return subprocess.run(command, check=False).returncode  # noqa: S603 - our own command


COMMAND = RecoverCommand()
