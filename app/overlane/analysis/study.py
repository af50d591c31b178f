"""All analyses of one trace and one window, each computed once: the door for commands and pages.

With a cache entry, what an analysis computed is kept with it (`overlane.analysis.keeping`) and is mapped the
next time, also by another process. `VERSIONS` counts the versions of the analyses; raise one when its result
changes, and those that are made from it are computed anew too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from overlane.analysis.keeping import pack, unpack
from overlane.analysis.parts import Parts
from overlane.analysis.work import Work
from overlane.errors import OverlaneError
from overlane.intervals import Times, union_length
from overlane.trace import Trace

if TYPE_CHECKING:
    from overlane.analysis.advice import Advice
    from overlane.analysis.barriers import Barriers
    from overlane.analysis.critical_path import CriticalPath
    from overlane.analysis.dependencies import Dependencies
    from overlane.analysis.engines import EngineReport
    from overlane.analysis.hazards import Hazards
    from overlane.analysis.idle import Idle
    from overlane.analysis.isolation import Isolation
    from overlane.analysis.order import Order
    from overlane.analysis.over_strong import OverStrongs
    from overlane.analysis.partitions import PartitionUse
    from overlane.analysis.redundant_waits import RedundantWaits
    from overlane.analysis.waits import Waits

__all__ = ["VERSIONS", "Keeper", "Study"]

_T = TypeVar("_T")
VERSIONS = {
    "engines": (1, ()),
    "dependencies": (3, ()),
    "waits": (2, ("dependencies",)),
    "idle": (2, ("waits",)),
    "barriers": (1, ("idle",)),
    "order": (2, ("dependencies",)),
    "hazards": (2, ("order",)),
    "redundant_waits": (1, ("order",)),
    "over_strong": (1, ("redundant_waits",)),
    "critical_path": (1, ("dependencies",)),
}
"""Version of each result that is kept, and the results that it is made from."""
_OWNER_KEYS = ("rank", "device_id", "context_id", "partition_id", "stream_id", "stream_row")


class Keeper(Protocol):
    """Keeps arrays by name, as `overlane.cache.OpenedTrace` does."""

    def arrays(
        self, key: str, version: int, compute: Callable[[], dict[str, npt.NDArray[Any]]]
    ) -> Mapping[str, npt.NDArray[Any]]:
        """Return the arrays of an analysis, computed where they are not kept."""
        ...


class Study:
    """The analyses of a trace, computed when first asked for; safe to use from several threads.

    Args:
        trace: What to analyse.
        window: Start and end in ns from the trace's origin; None for all of it.
        keep: Where to keep results, as a cache entry; None to compute them in each study.
        exclusive: Names of partitions that the user declares exclusive.
        before: Called with the name of a result of `VERSIONS` before it is computed; None for nothing.

    Attributes:
        trace: What is analysed.
        window: The window that was asked for.

    Raises:
        OverlaneError: The window ends before it starts.

    Example:
        >>> import overlane
        >>> from overlane.analysis.study import Study
        >>> study = Study(overlane.open_trace("run.overlane"))  # doctest: +SKIP
        >>> study.advice.findings[0].change  # doctest: +SKIP
    """

    def __init__(
        self,
        trace: Trace,
        *,
        window: tuple[int, int] | None = None,
        keep: Keeper | None = None,
        exclusive: Collection[str] = (),
        before: Callable[[str], None] | None = None,
    ) -> None:
        if window is not None and window[1] < window[0]:
            raise OverlaneError(
                f"the window {window[0]}:{window[1]} ends before it starts; give its start first"
            )
        self.trace = trace
        self.window = window
        self.work = Work(trace)
        self._keep = keep
        self._exclusive = tuple(exclusive)
        self._before = before
        self._made: dict[str, Any] = {}
        self._locks: dict[str, threading.Lock] = {}

    def _once(self, name: str, compute: Callable[[], _T]) -> _T:
        # A lock for each result, so that what needs little does not wait for what takes long. They are always
        # taken in the order in which results are made from one another.
        with self._locks.setdefault(name, threading.Lock()):
            if name not in self._made:
                self._made[name] = compute()
            made: _T = self._made[name]
            return made

    def _kept(self, name: str, compute: Callable[[], _T], *, is_of_window: bool = False) -> _T:
        """Return a result from memory, from where it is kept, or computed.

        What belongs to a window stays in memory: any two numbers are one, and each would stay on the disk.
        """

        def made() -> _T:
            if self._before is not None:
                self._before(name)
            return compute()

        def find() -> _T:
            if self._keep is None or (is_of_window and self.window is not None):
                return made()
            arrays = self._keep.arrays(name, _version(name), lambda: pack(made()))
            try:
                kept: _T = unpack(arrays)
            except (KeyError, ValueError, TypeError):  # kept by another state of the program
                return made()
            return kept

        return self._once(name, find)

    @property
    def engines(self) -> EngineReport:
        """How the engines shared the time."""
        from overlane.analysis.engines import engine_report  # noqa: PLC0415 - each analysis only where asked for

        return self._kept("engines", lambda: engine_report(self.trace, window=self.window), is_of_window=True)

    @property
    def dependencies(self) -> Dependencies:
        """What every operation depends on."""
        from overlane.analysis.dependencies import dependencies  # noqa: PLC0415

        return self._kept("dependencies", lambda: dependencies(self.trace))

    @property
    def waits(self) -> Waits:
        """Why operations waited, over the whole trace."""
        from overlane.analysis.waits import waits  # noqa: PLC0415

        return self._kept("waits", lambda: waits(self.trace, self.dependencies))

    @property
    def waits_in_window(self) -> Waits:
        """The waits cut to the window; whole waits only of operations that start in it."""
        return self._once("waits in window", lambda: _within(self.waits, self.window, self.work.start))

    @property
    def wait_lengths(self) -> dict[str, Times]:
        """How long each operation that starts in the window waited, in ns, -1 where not known, by kind.

        `wait` runs from issue to start; `wait_room` from the moment at which it was issued and all that it
        depends on had ended: what the device, not the order that was asked for, made it wait.
        """

        def build() -> dict[str, Times]:
            deps, start, wait = self.dependencies, self.work.start, self.waits_in_window.wait_ns
            room = np.maximum(start - np.maximum(deps.eligible_ns, deps.issued_ns), 0)
            room[(deps.eligible_ns < 0) | (wait < 0)] = -1
            return {"wait": wait, "wait_room": room}

        return self._once("wait_lengths", build)

    @property
    def idle(self) -> Idle:
        """Why streams, partitions and devices idled."""
        from overlane.analysis.idle import idle  # noqa: PLC0415

        return self._kept(
            "idle",
            lambda: idle(self.trace, self.dependencies, self.waits, window=self.window),
            is_of_window=True,
        )

    @property
    def barriers(self) -> Barriers:
        """What held several participants, what it cost, and how long it held the critical path."""
        found = self.barrier_costs
        return self._once("barriers on the path", lambda: found.with_critical(self._on_path(found)))

    @property
    def barrier_costs(self) -> Barriers:
        """What held several participants and what it cost, without the critical path."""
        from overlane.analysis.barriers import barriers  # noqa: PLC0415

        return self._kept(
            "barriers",
            lambda: barriers(self.trace, self.dependencies, self.waits_in_window, self.idle),
            is_of_window=True,
        )

    def _on_path(self, found: Barriers) -> npt.NDArray[np.int64]:
        """Return for how long each barrier held operations that lie on the critical path."""
        path = self.critical_path
        is_on_path = np.zeros(len(self.work) + 1, np.bool_)  # the last for parts without an operation
        is_on_path[path.op[path.op >= 0]] = True
        held = [
            parts.take(np.flatnonzero(is_on_path[parts.op] & (parts.proof_row >= 0)))
            for parts in (self.wait_parts, self.idle_parts("stream"))
        ]
        table, row, start, end = (
            np.concatenate([getattr(parts, name) for parts in held])
            for name in ("proof_table", "proof_row", "start_ns", "end_ns")
        )
        room = int(max(row.max(initial=0), found.proof_row.max(initial=0))) + 1
        keys = table.astype(np.int64) * room + row
        wanted = found.proof_table.astype(np.int64) * room + found.proof_row
        order = np.argsort(keys, kind="stable")
        low, high = (np.searchsorted(keys[order], wanted, side=side) for side in ("left", "right"))
        spans = (order[first:last] for first, last in zip(low, high, strict=True))
        return np.array([union_length((start[which], end[which])) for which in spans], np.int64)

    @property
    def order(self) -> Order:
        """What surely happens before what."""
        from overlane.analysis.order import happens_before  # noqa: PLC0415

        return self._kept("order", lambda: happens_before(self.trace, self.dependencies))

    @property
    def hazards(self) -> Hazards:
        """Accesses to the same bytes that nothing orders, over the whole trace."""
        from overlane.analysis.hazards import hazards  # noqa: PLC0415

        return self._kept("hazards", lambda: hazards(self.trace, self.order))

    @property
    def redundant_waits(self) -> RedundantWaits:
        """Stream waits and host synchronizations that guarantee nothing, over the whole trace."""
        from overlane.analysis.redundant_waits import redundant_waits  # noqa: PLC0415

        return self._kept(
            "redundant_waits", lambda: redundant_waits(self.trace, self.dependencies, self.order)
        )

    @property
    def over_strong(self) -> OverStrongs:
        """Synchronizations that wait for more than anything recorded needs, over the whole trace."""
        from overlane.analysis.over_strong import over_strong  # noqa: PLC0415

        return self._kept(
            "over_strong",
            lambda: over_strong(self.trace, self.dependencies, self.order, self.redundant_waits),
        )

    @property
    def hazard_places(self) -> np.ndarray[Any, Any]:
        """Places in `hazards` of those with an operation that touches the window."""
        found = self.hazards
        if self.window is None:
            return np.arange(len(found))
        touches = np.append((self.work.start < self.window[1]) & (self.work.end > self.window[0]), False)
        return np.flatnonzero(touches[found.first_op] | touches[found.second_op])

    @property
    def critical_path(self) -> CriticalPath:
        """The chain that decides how long the window takes."""
        from overlane.analysis.critical_path import critical_path  # noqa: PLC0415

        return self._kept(
            "critical_path",
            lambda: critical_path(self.trace, self.dependencies, window=self.window),
            is_of_window=True,
        )

    @property
    def wait_parts(self) -> Parts:
        """The parts of all waits inside the window."""

        def build() -> Parts:
            from overlane.analysis.dependencies import PROOF_TABLES  # noqa: PLC0415

            found = self.waits
            none = np.full(len(found.op), -1, np.int64)
            op = found.op.astype(np.int64)
            whole = Parts(
                start_ns=found.start_ns,
                end_ns=found.end_ns,
                cause=found.cause,
                op=op,
                owner=self.dependencies.stream_key[op],
                device=self.work.device[0][op],
                proof_table=found.proof_table,
                proof_row=found.proof_row,
                call_row=none,
                range_row=none,
                is_below_fit_error=found.is_below_fit_error,
                proof_tables=PROOF_TABLES,
            )
            return whole.within(self.window)

        return self._once("wait_parts", build)

    def idle_parts(self, scope: str) -> Parts:
        """Return the parts of all idle time of a scope.

        Args:
            scope: `stream`, `partition` or `device`.
        """

        def build() -> Parts:
            from overlane.analysis.dependencies import PROOF_TABLES  # noqa: PLC0415
            from overlane.analysis.idle import SCOPES  # noqa: PLC0415

            found = self.idle
            which = np.flatnonzero(found.scope[found.gap] == SCOPES.index(scope))
            gap = found.gap[which]
            owner = found.owner[gap].astype(np.int64)
            codes = np.array(
                [self._device_code(found, scope, at) for at in range(int(owner.max(initial=-1)) + 1)]
            )
            return Parts(
                start_ns=found.part_start_ns[which],
                end_ns=found.part_end_ns[which],
                cause=found.cause[which],
                op=found.next_op[gap].astype(np.int64),
                owner=owner,
                device=codes[owner] if len(codes) else owner,
                proof_table=found.proof_table[which],
                proof_row=found.proof_row[which],
                call_row=found.call_row[which],
                range_row=found.range_row[which],
                is_below_fit_error=found.is_below_fit_error[which],
                proof_tables=PROOF_TABLES,
            )

        return self._once(f"idle_parts {scope}", build)

    def owner(self, scope: str, number: int) -> dict[str, Any]:
        """Return what identifies a stream, partition or device that was idle; what does not apply is None."""
        if scope == "stream":
            return self.stream(number)
        none = dict.fromkeys(_OWNER_KEYS)
        if scope == "device":
            rank, device_id = self.idle.devices[number]
            return none | {"rank": rank, "device_id": device_id}
        row = self.trace.row("partitions", number)
        return (
            none | {key: row[key] for key in ("rank", "device_id", "context_id")} | {"partition_id": number}
        )

    def _device_code(self, found: Idle, scope: str, owner: int) -> int:
        """Return the number that `Work.device` has for the device of an owner, -1 for none."""
        if scope == "device":
            wanted = found.devices[owner]
        else:
            known = self.owner(scope, owner)
            wanted = (known["rank"], known["device_id"])
        known_devices = self.work.device[1]
        return known_devices.index(wanted) if wanted in known_devices else -1

    def stream(self, number: int) -> dict[str, Any]:
        """Return what identifies a stream, by its number in `dependencies.streams`."""
        row = self.dependencies.streams[number]
        return {key: getattr(row, key) for key in _OWNER_KEYS}

    @property
    def partitions(self) -> tuple[PartitionUse, ...]:
        """What each partition was given and did."""
        from overlane.analysis.partitions import partitions  # noqa: PLC0415

        return self._once(
            "partitions",
            lambda: partitions(self.trace, window=self.window, exclusive=self._exclusive),
        )

    @property
    def isolation(self) -> tuple[Isolation, ...]:
        """How the kernels of critical streams waited for room."""
        from overlane.analysis.isolation import isolation  # noqa: PLC0415

        return self._once("isolation", lambda: isolation(self.trace, self.dependencies, window=self.window))

    @property
    def advice(self) -> Advice:
        """What to change, by what it costs."""
        from overlane.analysis.advice import advice  # noqa: PLC0415

        return self._once("advice", lambda: advice(self))


def _version(name: str) -> int:
    """Return the version of a result and of all that it is made from, as one number."""
    own, sources = VERSIONS[name]
    return own + sum(_version(source) for source in sources)


def _within(waits: Waits, window: tuple[int, int] | None, starts: Times) -> Waits:
    """Return the waits cut to a window, those of operations that start outside of it as not known."""
    if window is None:
        return waits
    low, high = window
    start, end = np.maximum(waits.start_ns, low), np.minimum(waits.end_ns, high)
    kept = np.flatnonzero(start < end)
    columns = ("op", "cause", "proof_table", "proof_row", "also_open", "is_below_fit_error")
    return replace(
        waits,
        start_ns=start[kept],
        end_ns=end[kept],
        wait_ns=np.where((starts >= low) & (starts < high), waits.wait_ns, -1),
        **{name: getattr(waits, name)[kept] for name in columns},
    )
