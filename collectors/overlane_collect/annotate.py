"""Named ranges in a program: recorded while a `Recorder` runs, mirrored to NVTX where that is installed."""

from __future__ import annotations

import functools
import importlib
import threading
from collections.abc import Callable
from types import ModuleType, TracebackType
from typing import Any, ParamSpec, Self, TypeVar

__all__ = ["NVTX_DOMAIN", "RangeLog", "annotate", "attach", "detach", "listen"]

NVTX_DOMAIN = "overlane"
"""NVTX domain of the mirrored ranges; the recorder leaves it out, since it has them already."""

_P = ParamSpec("_P")
_T = TypeVar("_T")


class RangeLog:
    """Ranges of one recording; finished ones wait to be taken."""

    def __init__(self) -> None:
        self._finished: list[tuple[str, int, int, int | None]] = []
        self._open: dict[int, tuple[str, int, int]] = {}
        self._lock = threading.Lock()

    def begin(self, key: int, name: str, at_ns: int) -> None:
        """Note the start of a range."""
        with self._lock:
            self._open[key] = (name, threading.get_native_id(), at_ns)

    def end(self, key: int, at_ns: int) -> None:
        """Note the end of a range; one that began before the recording is left out."""
        with self._lock:
            begun = self._open.pop(key, None)
            if begun is not None:
                self._finished.append((*begun, at_ns))

    def take(self, *, unfinished: bool) -> dict[str, list[Any]]:
        """Return finished ranges as columns and forget them; with `unfinished` those still open too."""
        with self._lock:
            rows, self._finished = self._finished, []
            if unfinished:
                rows += [(*begun, None) for begun in self._open.values()]
                self._open.clear()
        names = ("name", "thread_id", "start", "end")
        return {name: [row[i] for row in rows] for i, name in enumerate(names)}


_attached: list[tuple[RangeLog, Callable[[], int]]] = []


def attach(log: RangeLog, clock: Callable[[], int]) -> None:
    """Send ranges to a log from now on, stamped by a clock."""
    _attached.append((log, clock))


def detach(log: RangeLog) -> None:
    """Send no more ranges to a log."""
    _attached[:] = [entry for entry in _attached if entry[0] is not log]


_listeners: list[tuple[str, Callable[[], None], Callable[[], None]]] = []


def listen(name: str, begun: Callable[[], None], ended: Callable[[], None]) -> None:
    """Call a function when a range of a name begins, and another when it ends, until the process ends."""
    _listeners.append((name, begun, ended))


class annotate:  # noqa: N801 - reads as a statement: `with annotate("step"):`
    """Name what runs inside; a context manager and a decorator.

    Args:
        name: Name of the range.

    Example:
        >>> with annotate("step"):
        ...     pass
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._nvtx: Any = None

    def __enter__(self) -> Self:
        nvtx = _nvtx()
        if nvtx is not None:
            self._nvtx = nvtx.start_range(self.name, domain=NVTX_DOMAIN)
        for name, begun, _ in _listeners:
            if name == self.name:
                begun()
        for log, clock in _attached:
            log.begin(id(self), self.name, clock())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for log, clock in _attached:
            log.end(id(self), clock())
        for name, _, ended in _listeners:
            if name == self.name:
                ended()
        if self._nvtx is not None:
            _nvtx_module.end_range(self._nvtx)  # type: ignore[union-attr]
            self._nvtx = None

    def __call__(self, function: Callable[_P, _T]) -> Callable[_P, _T]:
        """Return a function whose every call is such a range."""

        @functools.wraps(function)
        def named(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            with annotate(self.name):
                return function(*args, **kwargs)

        return named


_nvtx_module: ModuleType | None = None
_nvtx_looked_for = False


def _nvtx() -> ModuleType | None:
    """Return the nvtx package, looked for at the first range and not at import."""
    global _nvtx_module, _nvtx_looked_for  # noqa: PLW0603 - found once per process
    if not _nvtx_looked_for:
        _nvtx_looked_for = True
        try:
            _nvtx_module = importlib.import_module("nvtx")
        except ImportError:
            return None
    return _nvtx_module
