"""Compile what comes after reading in processes of their own, while this one compiles the reader.

Only the first start after an install compiles: a minute of two cores, under numba's single lock, and in this
process it would keep requests waiting. Two processes share the work, what the first page shows first; what
they compile lands in numba's cache, from where this process loads it. They say which results of a study are
compiled, so that each is waited for no longer than needed. What was compiled for which state of the code is
noted in the cache folder, so that later starts need no other process.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overlane.folders import cache_folder

if TYPE_CHECKING:
    from multiprocessing.synchronize import Event

__all__ = ["Precompiler"]

_START_AFTER_S = 1.5
"""A start whose code is compiled already has opened its first trace by then and needs no help."""
_SAMPLES = ("default-stream-legacy", "stream-contract-missing-wait", "green-context-B")
"""Small traces that lead through all analyses."""
_FIRST = ("dependencies", "waits", "idle", "barriers", "hazards")
"""Results of a study that one process compiles, the first page's first; the other compiles the rest."""
_SECOND = ("timeline", "engines", "nesting", "critical_path", "order")
"""What the other begins with; timeline and nesting are no results of a study."""
_PROPERTIES = {"barriers": "barrier_costs"}
"""Results whose property of a study has another name, since the one of their name needs more."""


class Precompiler:
    """Starts the other processes where they are needed, once, and ends them with the server.

    Args:
        program: What they run, which writes the name of each result that is compiled as a line; by default
            this module.
    """

    def __init__(self, program: Sequence[str] = ("-m", __name__)) -> None:
        self._program = program
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self._is_noted = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._changed = threading.Condition()
        self._compiled: set[str] = set()
        self._has_ended = False

    def start(self, opened: threading.Event) -> None:
        """Begin to watch; returns at once.

        Args:
            opened: Set when the first trace is open.
        """
        threading.Thread(target=self._watch, args=(opened,), name="overlane-compile", daemon=True).start()

    def wait(self, name: str) -> None:
        """Return when a result is compiled, or cannot be in a process of its own.

        Args:
            name: Its name in `overlane.analysis.study.VERSIONS`.
        """
        if self._is_noted.is_set():
            return
        if _note().exists():
            self._is_noted.set()
            return
        with contextlib.suppress(OSError):  # then it is compiled in this process
            if self._begin() is not None:
                with self._changed:
                    self._changed.wait_for(lambda: self._has_ended or name in self._compiled)

    def stop(self) -> None:
        """End the processes if they still run."""
        with self._lock:
            self._is_over.set()
            if self._process is not None:
                self._process.terminate()
                self._process.wait()
        self._end()

    def _watch(self, opened: threading.Event) -> None:
        if not _note().exists() and not opened.wait(_START_AFTER_S):
            self._begin()

    def _begin(self) -> subprocess.Popen[str] | None:
        """Return the process, started if it was not yet; None when the server ends."""
        with self._lock:
            if self._is_over.is_set():
                return None
            if self._process is None:
                # If it fails, this process compiles all the same, only later.
                self._process = subprocess.Popen(  # noqa: S603 - runs this module with this interpreter
                    [sys.executable, *self._program],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    text=True,
                )
                told = (self._process,)
                threading.Thread(target=self._listen, args=told, name="overlane-told", daemon=True).start()
            return self._process

    def _listen(self, process: subprocess.Popen[str]) -> None:
        """Note what is compiled, until there is nobody left to tell."""
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        with process.stdout as lines:
            for line in lines:
                with self._changed:
                    self._compiled.add(line.strip())
                    self._changed.notify_all()
        process.wait()
        self._end()

    def _end(self) -> None:
        """Let nobody wait any more."""
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()


def _note() -> Path:
    """Return the file that says that all is compiled, in the state in which the code is now."""
    folder = Path(__file__).resolve().parents[1]
    facts = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in folder.rglob("*.py")]
    versions = (str(folder), sys.version, importlib.metadata.version("numba"))
    state = repr((versions, sorted(facts)))
    return cache_folder() / f"compiled-{hashlib.sha256(state.encode()).hexdigest()[:32]}"


# ---- in the other processes


def _compile_all() -> None:
    """Compile in this process and in one more, and note it."""
    from overlane.analysis.study import VERSIONS  # noqa: PLC0415 - only the other processes need it

    before = _note()
    context = multiprocessing.get_context("spawn")
    done = {name: context.Event() for name in {*VERSIONS, *_SECOND}}
    rest = (*_SECOND, *(name for name in VERSIONS if name not in {*_FIRST, *_SECOND}))
    other = context.Process(target=_run, args=(_FIRST, done, os.getpid()), daemon=True)
    other.start()
    _compile(rest, done, other.is_alive)
    other.join()
    note = _note()
    if other.exitcode or note != before:  # compiled in another state of the code, or not at all
        return
    with contextlib.suppress(OSError):  # then the next start compiles nothing but looks again
        note.parent.mkdir(parents=True, exist_ok=True)
        for old in note.parent.glob("compiled-*"):
            old.unlink()
        note.touch()


def _run(names: Sequence[str], done: dict[str, Event], parent: int) -> None:
    """Compile in a process of its own; it ends with the one that started it."""
    _end_without(parent)
    _compile(names, done, lambda: True)


def _compile(names: Sequence[str], done: dict[str, Event], has_other: Callable[[], bool]) -> None:
    """Compile by computing, each result when those that it is made from are compiled."""
    from overlane.analysis.study import VERSIONS, Study  # noqa: PLC0415 - only the other processes need these
    from overlane.readers import open_trace  # noqa: PLC0415
    from overlane.samples import sample_path  # noqa: PLC0415

    studies = [Study(open_trace(sample_path(name))) for name in _SAMPLES]
    for name in names:
        for source in VERSIONS.get(name, (0, ()))[1]:
            while not done[source].wait(0.5) and has_other():
                pass
        for study in studies:
            if name in VERSIONS:
                getattr(study, _PROPERTIES.get(name, name))
            else:
                _OTHERS[name](study.trace)
        done[name].set()
        print(name, flush=True)  # noqa: T201 - the server listens


def _timeline(_trace: object) -> None:
    from overlane.timeline import warm_up  # noqa: PLC0415 - only the other processes need it

    warm_up()


def _nesting(trace: Any) -> None:
    from overlane.analysis.nesting import nesting  # noqa: PLC0415 - only the other processes need it

    nested = nesting(trace)
    nested.innermost(nested.is_track("annotation"))
    _ = nested.depth


_OTHERS: dict[str, Callable[[Any], None]] = {"timeline": _timeline, "nesting": _nesting}


def _end_without(parent: int) -> None:
    """End this process when the one that started it is gone, however it went."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    _end_without(os.getppid())
    _compile_all()
