"""The analyses of the traces that pages ask for: one study per trace and window, computed in the background.

A page asks again until its answer is there; nothing waits for it longer than a moment.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from overlane.errors import OverlaneError

if TYPE_CHECKING:
    from overlane.analysis.study import Study
    from overlane.cache import OpenedTrace

__all__ = ["MOMENT_S", "Studies"]

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_Key = tuple[str, tuple[int, int] | None]

KEPT = 8
"""Studies that stay in memory; results of others are mapped from the cache when they are asked for again."""
MOMENT_S = 0.25
"""So long an answer is waited for: small traces are answered at once and need no second question."""


@dataclass
class _Job:
    """One answer.

    Attributes:
        done: It is there, or failed.
        answer: The answer.
        error: Why there is none.
    """

    done: threading.Event = field(default_factory=threading.Event)
    answer: Any = None
    error: str = ""


@dataclass
class _Shelf:
    """One study with the answers that were made from it."""

    study: Study
    jobs: dict[str, _Job] = field(default_factory=dict)


class Studies:
    """The studies that were asked for last; safe to use from several threads.

    Args:
        kept: How many.
        until_compiled: Called with the name of a result before it is computed; returns when its code is
            compiled. None where that need not be waited for.
    """

    def __init__(self, kept: int = KEPT, until_compiled: Callable[[str], None] | None = None) -> None:
        self._kept = kept
        self._until_compiled = until_compiled
        self._mine = threading.local()
        self._shelves: OrderedDict[_Key, _Shelf] = OrderedDict()
        self._guard = threading.Lock()
        self._turn = threading.Lock()
        self._quick_turn = threading.Lock()

    def study(self, opened: OpenedTrace, window: tuple[int, int] | None = None) -> Study:
        """Return the study of a trace and a window; what it computes is kept with the trace.

        Args:
            opened: The trace.
            window: Start and end in ns, None for the whole trace.
        """
        with self._guard:
            return self._shelf(opened, window).study

    def answer(
        self,
        opened: OpenedTrace,
        window: tuple[int, int] | None,
        name: str,
        build: Callable[[Study], _T],
        *,
        is_quick: bool = False,
        wait_s: float = MOMENT_S,
    ) -> _T | None:
        """Return what is made from a study, None while it is computed in the background.

        Args:
            opened: The trace.
            window: Start and end in ns, None for the whole trace.
            name: Names what is made; each is made once.
            build: Makes it; not None.
            is_quick: It needs none of the causes, so it does not stand in line behind them.
            wait_s: Wait so long for it.

        Raises:
            OverlaneError: It could not be computed.
        """
        with self._guard:
            shelf = self._shelf(opened, window)
            job = shelf.jobs.get(name)
            if job is None:
                job = shelf.jobs[name] = _Job()
                work = (job, shelf.study, build, is_quick)
                threading.Thread(target=self._work, args=work, name=f"overlane-{name}", daemon=True).start()
        job.done.wait(wait_s)
        if job.error:
            with self._guard:  # asked for again, it is tried again: memory may have become free
                if shelf.jobs.get(name) is job:
                    del shelf.jobs[name]
            raise OverlaneError(job.error)
        answer: _T | None = job.answer
        return answer

    def _shelf(self, opened: OpenedTrace, window: tuple[int, int] | None) -> _Shelf:
        """Return the shelf of a trace and a window; to be called with the guard held."""
        from overlane.analysis.study import Study  # noqa: PLC0415 - loads compiled code

        key = (opened.key, window)
        if key not in self._shelves:
            study = Study(opened.trace, window=window, keep=opened, before=self._wait)
            self._shelves[key] = _Shelf(study)
            while len(self._shelves) > self._kept:
                self._shelves.popitem(last=False)
        self._shelves.move_to_end(key)
        return self._shelves[key]

    def _wait(self, name: str) -> None:
        """Return when the code of a result is compiled; who waits lets the next one take its turn."""
        if self._until_compiled is None:
            return
        turn, self._mine.turn = getattr(self._mine, "turn", None), None
        # The turn is not taken back: the next one may wait for the result that is waited for here.
        if turn is not None:
            turn.release()
        self._until_compiled(name)

    def _work(self, job: _Job, study: Study, build: Callable[[Study], Any], is_quick: bool) -> None:
        # One after the other: each takes all the memory and cores that it can get.
        turn = self._quick_turn if is_quick else self._turn
        turn.acquire()
        self._mine.turn = turn
        try:
            job.answer = build(study)
        except OverlaneError as error:
            job.error = str(error)
        except MemoryError:
            job.error = "The analyses of this trace do not fit into this machine's memory."
        except Exception as error:  # noqa: BLE001 - one bad trace must not take the server down
            _log.exception("an analysis failed")
            job.error = (
                f"The analysis failed, a fault of Overlane ({type(error).__name__}); please report it "
                "with what the server printed."
            )
        finally:
            job.done.set()
            if self._mine.turn is not None:
                turn.release()
