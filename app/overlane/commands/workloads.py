"""`overlane workloads`: the instrumented workloads with their parameters."""

from __future__ import annotations

import argparse
import subprocess
import sys

__all__ = ["COMMAND"]


class WorkloadsCommand:
    """Passes its arguments on to `python -m overlane_collect workloads`."""

    name = "workloads"
    help = "list the instrumented workloads with their parameters"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's arguments."""
        parser.add_argument("--json", action="store_true", help="print them as JSON")

    def run(self, arguments: argparse.Namespace) -> int:
        """List them."""
        command = [sys.executable, "-m", "overlane_collect", "workloads"]
        command += ["--json"] if arguments.json else []
        return subprocess.run(command, check=False).returncode  # noqa: S603 - our own command


COMMAND = WorkloadsCommand()
