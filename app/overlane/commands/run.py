"""`overlane run`: run an instrumented workload and verify its result."""

from __future__ import annotations

import argparse
import subprocess
import sys

__all__ = ["COMMAND"]


class RunCommand:
    """Passes its arguments on to `python -m overlane_collect run`, which uses the GPU."""

    name = "run"
    help = "run an instrumented workload, verify its result, write its trace"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's arguments."""
        parser.add_argument("workload", help="name of a workload; `overlane workloads` lists them")
        parser.add_argument(
            "--set",
            action="append",
            default=[],
            dest="settings",
            metavar="NAME=VALUE",
            help="set a parameter; with --repeat, NAME=ONE,OTHER makes variants",
        )
        parser.add_argument(
            "--repeat", type=int, help="make this many captures of each variant, in random order"
        )
        parser.add_argument("-o", "--out", help="trace to write, or with --repeat the folder")
        parser.add_argument("--backend", default="cupti", help="where records come from (default: cupti)")
        parser.add_argument("--json", action="store_true", help="print the result as JSON")

    def run(self, arguments: argparse.Namespace) -> int:
        """Run; 0 when the result is right, 1 when it is wrong, 3 without a GPU, 4 when a call failed."""
        command = [sys.executable, "-m", "overlane_collect", "run", arguments.workload]
        command += ["--backend", arguments.backend]
        for setting in arguments.settings:
            command += ["--set", setting]
        command += ["--repeat", str(arguments.repeat)] if arguments.repeat is not None else []
        command += ["-o", arguments.out] if arguments.out else []
        command += ["--json"] if arguments.json else []
        return subprocess.run(command, check=False).returncode  # noqa: S603 - our own command


COMMAND = RunCommand()
