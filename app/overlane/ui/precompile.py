"""Compile what comes after reading in a process of its own, while this one compiles the reader.

Only the first start after an install compiles: half a minute of one core, under numba's single lock, and in
this process it would keep requests waiting. A second process shares the work; what it compiles lands in
numba's cache, from where this process loads it. What was compiled for which state of the code is noted in the
cache folder, so that later starts need no second process.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from overlane.folders import cache_folder

__all__ = ["Precompiler"]

_START_AFTER_S = 1.5
"""A start whose code is compiled already has opened its first trace by then and needs no help."""
_SAMPLES = ("default-stream-legacy", "stream-contract-missing-wait", "green-context-B")
"""Small traces that lead through all analyses."""


class Precompiler:
    """Starts the second process where it is needed, once, and ends it with the server.

    Args:
        program: What the second process runs; by default this module.
    """

    def __init__(self, program: Sequence[str] = ("-m", __name__)) -> None:
        self._program = program
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, opened: threading.Event) -> None:
        """Begin to watch; returns at once.

        Args:
            opened: Set when the first trace is open.
        """
        threading.Thread(target=self._watch, args=(opened,), name="overlane-compile", daemon=True).start()

    def analyses(self) -> None:
        """Return when the analyses are compiled, or cannot be in a process of their own."""
        with contextlib.suppress(OSError):  # then they are compiled in this process
            process = None if _note().exists() else self._begin()
            if process is not None:
                process.wait()

    def stop(self) -> None:
        """End the process if it still runs."""
        with self._lock:
            self._is_over.set()
            if self._process is not None:
                self._process.terminate()
                self._process.wait()

    def _watch(self, opened: threading.Event) -> None:
        if not _note().exists() and not opened.wait(_START_AFTER_S):
            self._begin()

    def _begin(self) -> subprocess.Popen[bytes] | None:
        """Return the second process, started if it was not yet; None when the server ends."""
        with self._lock:
            if self._is_over.is_set():
                return None
            if self._process is None:
                # If it fails, this process compiles all the same, only later.
                self._process = subprocess.Popen(  # noqa: S603 - runs this module with this interpreter
                    [sys.executable, *self._program],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            return self._process


def _note() -> Path:
    """Return the file that says that all is compiled, in the state in which the code is now."""
    folder = Path(__file__).resolve().parents[1]
    facts = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in folder.rglob("*.py")]
    versions = (str(folder), sys.version, importlib.metadata.version("numba"))
    state = repr((versions, sorted(facts)))
    return cache_folder() / f"compiled-{hashlib.sha256(state.encode()).hexdigest()[:32]}"


def _compile() -> None:
    """Compile timeline and engines, which the first page shows, then the analyses."""
    from overlane.analysis.engines import engine_report  # noqa: PLC0415 - only the second process needs these
    from overlane.tables import table_from_columns  # noqa: PLC0415
    from overlane.timeline import warm_up  # noqa: PLC0415
    from overlane.validation import validate  # noqa: PLC0415
    from overlane_collect.model import Header  # noqa: PLC0415

    warm_up()
    ops = {"kind": ["kernel"], "engine": ["compute"], "name": ["a"], "start_ns": [0], "end_ns": [1]}
    engine_report(validate("nothing", Header(format="overlane"), {"ops": table_from_columns("ops", ops)}))
    _compile_analyses()
    note = _note()
    with contextlib.suppress(OSError):  # then the next start compiles nothing but looks again
        note.parent.mkdir(parents=True, exist_ok=True)
        for old in note.parent.glob("compiled-*"):
            old.unlink()
        note.touch()


def _compile_analyses() -> None:
    from overlane.analysis.study import Study  # noqa: PLC0415 - only the second process needs these
    from overlane.readers import open_trace  # noqa: PLC0415
    from overlane.samples import sample_path  # noqa: PLC0415

    for name in _SAMPLES:
        study = Study(open_trace(sample_path(name)))
        for result in ("barriers", "critical_path", "hazards", "partitions", "isolation", "advice"):
            getattr(study, result)


def _end_with(parent: int) -> None:
    """End this process when the server is gone, however it went."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    _compile()
