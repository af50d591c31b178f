"""Record an unmodified Python program in a process of its own, and write its trace when it ends."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from overlane_collect.backends import Options
from overlane_collect.errors import CollectError, NoGpuError
from overlane_collect.recorder import JOURNAL_SUFFIX
from overlane_collect.recovery import Recovered, recover
from overlane_collect.window import Window

__all__ = ["Launch", "record_program"]

_SIGNAL_BASE = 128  # what shells add to the number of the signal that ended a program


@dataclass(frozen=True)
class Launch:
    """How a recorded program ended.

    Attributes:
        status: Its own exit status; 128 plus the signal's number when a signal ended it.
        recovered: Its trace.
        children: Traces of the processes that it started, when they were followed.
    """

    status: int
    recovered: Recovered
    children: tuple[Recovered, ...] = ()


def record_program(
    program: Sequence[str],
    out: Path,
    *,
    module: bool,
    backend: str,
    options: Options,
    window: Window,
    follow: bool = False,
) -> Launch:
    """Run a Python program, record it, and write its trace, also when it is killed.

    Args:
        program: Script or module, then its arguments.
        out: Trace to write.
        module: Whether the program is named as a module.
        backend: Name of a backend.
        options: What to record.
        window: When to record.
        follow: Record the Python processes that it starts too, each into a trace beside `out`.

    Raises:
        NoGpuError: There is nothing to record with; the program was not run.
        CollectError: The program does not exist, or its trace cannot be written.
    """
    if not module and not Path(program[0]).exists():
        raise CollectError(f"there is no script {program[0]}; give a Python script, or a module with -m")
    journal = out.with_name(out.name + JOURNAL_SUFFIX)
    reading, writing = os.pipe()
    settings = {
        "out": str(out.resolve()),
        "backend": backend,
        "options": dataclasses.asdict(options),
        "window": dataclasses.asdict(window),
        "status_fd": writing,
        "follow": follow,
    }
    form = "module" if module else "script"
    command = [sys.executable, "-m", "overlane_collect._child", json.dumps(settings), form, *program]
    process = subprocess.Popen(command, pass_fds=[writing], env=_environment(options))  # noqa: S603 - the user's program
    os.close(writing)
    with os.fdopen(reading) as pipe:
        answer = json.loads(pipe.read() or "{}")
    status = _wait(process)
    if "error" in answer:
        kind = NoGpuError if answer["exit_code"] == NoGpuError.exit_code else CollectError
        raise kind(answer["error"])
    if not journal.exists():
        raise CollectError(f"{program[0]} ended with status {status} before anything was recorded")
    recovered = recover(journal, out)
    journal.unlink()
    children = tuple(_children(out)) if follow else ()
    return Launch(_SIGNAL_BASE - status if status < 0 else status, recovered, children)


def _children(out: Path) -> Iterator[Recovered]:
    """Write the traces of followed processes; one that did nothing on a device leaves none."""
    for journal in sorted(out.parent.glob(f"{out.stem}.*{out.suffix}{JOURNAL_SUFFIX}")):
        target = journal.with_name(journal.name.removesuffix(JOURNAL_SUFFIX))
        recovered = recover(journal, target)
        journal.unlink()
        if recovered.rows.get("ops"):
            yield recovered
        else:
            target.unlink()


def _environment(options: Options) -> dict[str, str]:
    """Return the environment of the program: its own, and for NVTX the library that listens to it."""
    from overlane_collect._cupti import find_library  # noqa: PLC0415 - reads the list of packages

    environment = dict(os.environ)
    library = find_library(newest=options.thorough)
    if library is not None:
        environment.setdefault("NVTX_INJECTION64_PATH", str(library))
    return environment


def _wait(process: subprocess.Popen[bytes]) -> int:
    """Wait for the program; an interrupt reaches it by itself and does not end the recording."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return process.wait()
    finally:
        signal.signal(signal.SIGINT, before)
