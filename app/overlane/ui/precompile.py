"""Compile what comes after reading in a process of its own, while this one compiles the reader.

Only the first start after an install compiles: some fifteen seconds of one core, under numba's single lock. A
second process shares the work; what it compiles lands in numba's cache, from where this process loads it.
"""

from __future__ import annotations

import subprocess
import sys
import threading

__all__ = ["Precompiler"]

_START_AFTER_S = 1.5
"""A start whose code is compiled already has opened its first trace by then and needs no help."""


class Precompiler:
    """Starts the second process where the first trace takes long, and ends it with the server."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, opened: threading.Event) -> None:
        """Begin to watch; returns at once.

        Args:
            opened: Set when the first trace is open.
        """
        threading.Thread(target=self._watch, args=(opened,), name="overlane-compile", daemon=True).start()

    def stop(self) -> None:
        """End the process if it still runs."""
        with self._lock:
            self._is_over.set()
            if self._process is not None:
                self._process.terminate()
                self._process.wait()

    def _watch(self, opened: threading.Event) -> None:
        if opened.wait(_START_AFTER_S):
            return
        with self._lock:
            if self._is_over.is_set():
                return
            # This module as a program. If it fails, this process compiles all the same, only later.
            self._process = subprocess.Popen(  # noqa: S603 - runs this module with this interpreter
                [sys.executable, "-m", __name__],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )


def _compile() -> None:
    from overlane.analysis.engines import engine_report  # noqa: PLC0415 - only the second process needs these
    from overlane.tables import table_from_columns  # noqa: PLC0415
    from overlane.timeline import warm_up  # noqa: PLC0415
    from overlane.validation import validate  # noqa: PLC0415
    from overlane_collect.model import Header  # noqa: PLC0415

    warm_up()
    ops = {"kind": ["kernel"], "engine": ["compute"], "name": ["a"], "start_ns": [0], "end_ns": [1]}
    engine_report(validate("nothing", Header(format="overlane"), {"ops": table_from_columns("ops", ops)}))


if __name__ == "__main__":
    _compile()
