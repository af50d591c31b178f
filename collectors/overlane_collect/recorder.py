"""The one public entry: record what the GPU does between `start` and `stop`, into one trace.

Everything goes to a journal beside the trace while the program runs; `close` turns the journal into the
trace, and `overlane recover` does the same when the program was killed.
"""

from __future__ import annotations

import atexit
import functools
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from overlane_collect import annotate
from overlane_collect.backends import BACKENDS, Backend, Options, Sink
from overlane_collect.clocks import sample_clock
from overlane_collect.errors import CollectError
from overlane_collect.journal import JournalWriter
from overlane_collect.machine import cuda_is_initialized

__all__ = ["JOURNAL_SUFFIX", "Recorder"]

JOURNAL_SUFFIX = ".journal"
"""Added to the trace's name for the journal beside it."""

FLUSH_INTERVAL_S = 0.5  # a kill loses at most a second: this and the time that a flush takes

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Recorder:
    """Records this process into one trace; use as a context manager, a decorator, or by its methods.

    Args:
        out: Trace to write, `NAME.overlane` by custom.
        backend: Name of a backend in `overlane_collect.backends.BACKENDS`, or a backend.
        options: What to record.
        parameters: Parameters of the workload, kept in the header.
        header: More facts for the header such as `repeat_index`.

    Example:
        >>> with Recorder("/tmp/example.overlane", backend="fake") as recorder:
        ...     recorder.flush()
    """

    def __init__(
        self,
        out: str | os.PathLike[str],
        *,
        backend: str | Backend = "cupti",
        options: Options | None = None,
        parameters: dict[str, Any] | None = None,
        header: dict[str, Any] | None = None,
    ) -> None:
        self.out = Path(out)
        self.journal_path = self.out.with_name(self.out.name + JOURNAL_SUFFIX)
        self._backend_choice = backend
        self._options = options or Options()
        self._parameters = parameters or {}
        self._header = header or {}
        self._backend: Backend | None = None
        self._journal: JournalWriter | None = None
        self._sink: Sink | None = None
        self._ranges = annotate.RangeLog()
        self._lock = threading.RLock()
        self._thread: threading.Thread | None = None
        self._halt = threading.Event()
        self._failure: CollectError | None = None
        self._paused = False
        self._closed = False

    @property
    def backend(self) -> Backend:
        """The backend in use.

        Raises:
            CollectError: Recording has not been started.
        """
        if self._backend is None:
            raise CollectError("the recorder has not been started; call start() first")
        return self._backend

    def start(self) -> None:
        """Begin to record, or go on after `stop`.

        Raises:
            NoGpuError: There is nothing to record with.
            MachineError: The journal cannot be made.
        """
        with self._lock:
            if self._closed:
                raise CollectError(f"the recording of {self.out} is closed; make a new Recorder")
            if self._thread is not None:
                return
            if self._backend is None:
                choice = self._backend_choice
                self._backend = BACKENDS.make(choice) if isinstance(choice, str) else choice
                self._journal = JournalWriter(self.journal_path)
                self._sink = Sink(self._journal)
                self._sink.fact(
                    "run",
                    **_run_facts(),
                    late=cuda_is_initialized(),
                    parameters=self._parameters,
                    header=self._header,
                )
            assert self._sink is not None  # noqa: S101 - made together with the backend
            try:
                self._backend.start(self._sink, self._options)
            except CollectError:
                self._discard()
                raise
            self._sample_clock()
            self._paused = False
            annotate.attach(self._ranges, self._backend.timestamp)
            self._halt.clear()
            self._thread = threading.Thread(target=self._flush_often, name="overlane-flush", daemon=True)
            self._thread.start()

    def flush(self) -> None:
        """Bring everything that is complete into the journal.

        Raises:
            MachineError: The disk is full.
        """
        with self._lock:
            if self._backend is None or self._sink is None or self._closed:
                return
            self._backend.flush()
            self._keep_ranges()
        self._raise_failure()

    def pause(self) -> None:
        """Leave out what the device does until `resume`; contexts and streams are still noted.

        Unlike `stop` it may be called in the middle of the program's calls, and costs little to end again.

        Raises:
            MachineError: The disk is full.
        """
        with self._lock:
            if self._paused or self._backend is None or self._sink is None or self._closed:
                return
            self._paused = True
            self._backend.pause()
            annotate.detach(self._ranges)
            self._sink.fact("pause", at=self._backend.timestamp())

    def resume(self) -> None:
        """Record everything again after `pause`.

        Raises:
            MachineError: The disk is full.
        """
        with self._lock:
            if not self._paused or self._backend is None or self._sink is None or self._closed:
                return
            self._paused = False
            self._sink.fact("resume", at=self._backend.timestamp())
            annotate.attach(self._ranges, self._backend.timestamp)
            self._backend.resume()

    def stop(self) -> None:
        """Record no more; `start` goes on with the same trace.

        Raises:
            MachineError: The disk is full, now or at an earlier flush.
        """
        self._stop(calibrate=False)

    def _stop(self, *, calibrate: bool) -> None:
        thread = self._thread
        if thread is None:
            return
        self._halt.set()
        thread.join()
        with self._lock:
            self._thread = None
            annotate.detach(self._ranges)
            assert self._backend is not None  # noqa: S101 - a thread runs only after `start`
            assert self._sink is not None  # noqa: S101 - same
            self._sample_clock()
            self._backend.stop(calibrate=calibrate)
            self._keep_ranges(unfinished=True)
            names = {t.native_id: t.name for t in threading.enumerate() if t.native_id is not None}
            self._sink.fact("threads", names=names, process_id=os.getpid())
        self._raise_failure()

    def close(self, *, write: bool = True) -> None:
        """Stop, and turn the journal into the trace.

        Args:
            write: False leaves the journal for someone else to turn into the trace.

        Raises:
            CollectError: The trace cannot be written; the journal is still there.
        """
        if self._closed:
            return
        self._stop(calibrate=True)
        with self._lock:
            self._closed = True
            if self._journal is None or self._sink is None:
                return
            self._sink.fact("end", journal_bytes=self._journal.bytes_written)
            self._journal.close()
        if write:
            from overlane_collect.recovery import recover  # noqa: PLC0415 - loads Arrow, only at the end

            recover(self.journal_path, self.out)
            self.journal_path.unlink()

    def fact(self, fact: str, **values: Any) -> None:
        """Keep a fact about the run, as workloads do with declared accesses."""
        if self._sink is None:
            raise CollectError("the recorder has not been started; call start() first")
        self._sink.fact(fact, **values)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __call__(self, function: Callable[_P, _T]) -> Callable[_P, _T]:
        """Record each call of a function; all calls go to one trace, written when the process ends.

        Args:
            function: Function to record.
        """

        @functools.wraps(function)
        def recorded(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            first = self._backend is None
            self.start()
            if first:
                atexit.register(self._close_at_exit)
            try:
                return function(*args, **kwargs)
            finally:
                self.stop()

        return recorded

    def _close_at_exit(self) -> None:
        """Close when the interpreter ends: it starts no more threads then, so another process writes."""
        self.close(write=False)
        command = [
            sys.executable,
            "-m",
            "overlane_collect",
            "recover",
            str(self.journal_path),
            "-o",
            str(self.out),
        ]
        if subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode == 0:  # noqa: S603
            self.journal_path.unlink()

    def _flush_often(self) -> None:
        while not self._halt.wait(FLUSH_INTERVAL_S):
            try:
                self.flush()
            except CollectError as error:
                self._failure = error
                return

    def _keep_ranges(self, *, unfinished: bool = False) -> None:
        assert self._sink is not None  # noqa: S101 - callers check
        columns = self._ranges.take(unfinished=unfinished)
        if columns["name"]:
            self._sink.fact("ranges", process_id=os.getpid(), **columns)

    def _sample_clock(self) -> None:
        assert self._backend is not None  # noqa: S101 - callers check
        assert self._sink is not None  # noqa: S101 - same
        sample = sample_clock(self._backend.timestamp)
        self._sink.fact("clock", clock_ns=sample.clock_ns, unix_ns=sample.unix_ns, error_ns=sample.error_ns)

    def _raise_failure(self) -> None:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def _discard(self) -> None:
        """Leave no journal behind when recording never began."""
        if self._journal is not None:
            self._journal.close()
            self.journal_path.unlink(missing_ok=True)
        self._backend = self._journal = self._sink = None


def _run_facts() -> dict[str, Any]:
    """Return what is known about the process before anything is recorded; no environment, no user."""
    rank = next(
        (os.environ[n] for n in ("RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID") if n in os.environ), ""
    )
    world = next(
        (os.environ[n] for n in ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS") if n in os.environ), ""
    )
    program = sys.argv[0] if sys.argv else ""
    if Path(program).parts[-2:] == ("overlane_collect", "__main__.py"):
        program = "overlane"  # our own command, wherever it is installed
    return {
        "command": " ".join([program, *sys.argv[1:]]),
        "process_id": os.getpid(),
        "process_name": Path(program).name,
        "rank": int(rank) if rank.isdigit() and world.isdigit() and int(world) > 1 else None,
        "world_size": int(world) if world.isdigit() else None,
        "max_connections": os.environ.get("CUDA_DEVICE_MAX_CONNECTIONS"),
        "machine": os.uname().machine,
        "python": ".".join(str(part) for part in sys.version_info[:3]),
    }
