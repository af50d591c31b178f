"""Scan the pieces of a file in threads, and prove that they fit together.

Each piece is scanned as if it began at an event. That is proven afterwards, in order: the first piece begins
at the first event, and a piece that ends exactly behind a comma of the event array makes the start of the
next one true. Where it does not (the border lay inside a string), what is left of the piece is scanned again
together with the next one.
"""

from __future__ import annotations

import os
import queue
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from overlane.errors import TraceUnreadableError
from overlane.readers.base import Progress
from overlane.readers.kineto.envelope import Envelope, Fault, NotJsonError, take_head, take_tail
from overlane.readers.kineto.grown import Grown, mapped
from overlane.readers.kineto.guess import empty_guesses
from overlane.readers.kineto.keys import Column, Wide, key_table
from overlane.readers.kineto.layout import COUNTS, State, Status
from overlane.readers.kineto.scan import scan
from overlane.readers.kineto.source import Piece, pieces
from overlane.readers.kineto.spelling import plain_event
from overlane.readers.kineto.strings import StringTable
from overlane.readers.kineto.text import MAX_DEPTH, MISSING, PADDING, skip_value

__all__ = ["Scanned", "scan_file"]

_ROWS = 1 << 13
_MAX_THREADS = 8
_MAX_HEAD_BYTES = 256 << 20
_FAULTS = {int(Status.BROKEN): Fault.BROKEN, int(Status.DEEP): Fault.DEEP}
_DTYPES = dict.fromkeys((Column.WHAT, Column.CATEGORY, Column.NAME, Column.THREAD, Column.TEMPLATE), np.int32)

Array = np.ndarray[Any, Any]


@dataclass
class _Part:
    """Rows of one stretch of the file.

    Attributes:
        worker: Index of the string table that the ids belong to.
        columns: One array per `Column`.
        wide: One array per `Wide`, None where no row has a value.
        wide_rows: Length of the wide arrays.
        pool: Packed integers of the rows' templates, in order.
    """

    worker: int
    columns: list[Array]
    wide: list[Array | None]
    wide_rows: int
    pool: Array


class Scanned:
    """All that was found in a file.

    Attributes:
        envelope: Members around the events.
        columns: The rows, in the order of the file.
        wide: The wide rows; columns without a value in the whole file are left out.
        wide_rows: Number of wide rows.
        pool: Packed integers of the rows' templates, in order.
        stretches: Worker and number of rows, one after the other: whose string table the ids of these rows
            belong to.
        wide_stretches: The same for wide rows.
        tables: String tables of the workers.
        counts: Sums of the scanner's counts, by name in lower case.
    """

    def __init__(self, envelope: Envelope, tables: list[StringTable]) -> None:
        self.envelope = envelope
        self.columns = {column: Grown(_DTYPES.get(column, np.int64)) for column in Column}
        self.wide: dict[Wide, Grown] = {}
        self.wide_rows = 0
        self.pool = Grown(np.uint8)
        self.stretches: list[tuple[int, int]] = []
        self.wide_stretches: list[tuple[int, int]] = []
        self.tables = tables
        self.counts: dict[str, int] = {}

    def append(self, part: _Part) -> None:
        """Take in the rows of one part."""
        for column in Column:
            self.columns[column].append(part.columns[column])
        for name in Wide:
            values = part.wide[name]
            if values is not None and name not in self.wide:
                self.wide[name] = Grown(np.int64)
                self.wide[name].append(np.full(self.wide_rows, MISSING))
            if name in self.wide:
                self.wide[name].append(np.full(part.wide_rows, MISSING) if values is None else values)
        self.wide_rows += part.wide_rows
        self.pool.append(part.pool)
        self.stretches.append((part.worker, part.columns[0].size))
        self.wide_stretches.append((part.worker, part.wide_rows))


@dataclass
class _Result:
    parts: list[_Part]
    counts: Array
    status: int
    position: int
    is_after_value: bool


class _Worker:
    """Buffers and string table of one thread."""

    def __init__(self, index: int, keys: Array) -> None:
        self.index = index
        self.table = StringTable()
        self._keys = keys
        self._rows = mapped(_ROWS * len(Column), np.int64).reshape(_ROWS, -1)
        self._wide = mapped(_ROWS * len(Wide), np.int64).reshape(_ROWS, -1)
        self._pool = np.zeros(1 << 18, np.uint8)
        self._scratch = np.zeros(1 << 16, np.uint8)
        state = self.table.state
        self._guesses = empty_guesses()
        state[State.KEYS_AT], state[State.GUESSES_AT] = keys.ctypes.data, self._guesses.ctypes.data
        state[State.ROWS_AT], state[State.ROWS_SIZE] = self._rows.ctypes.data, _ROWS
        state[State.WIDE_AT], state[State.WIDE_SIZE] = self._wide.ctypes.data, _ROWS
        self._publish()

    def _publish(self) -> None:
        state = self.table.state
        state[State.POOL_AT], state[State.POOL_SIZE] = self._pool.ctypes.data, self._pool.size
        state[State.SCRATCH_AT], state[State.SCRATCH_SIZE] = self._scratch.ctypes.data, self._scratch.size

    def scan(self, piece: Piece, start: int, *, is_after_value: bool = False) -> _Result:
        """Scan one piece from `start` on."""
        state = self.table.state
        base = piece.buffer.ctypes.data
        state[State.POSITION] = base + start
        state[State.AFTER_VALUE] = int(is_after_value)
        state[State.PIECE] += 1
        state[COUNTS] = 0
        parts: list[_Part] = []
        while (status := self._run(base + piece.size, piece.size, parts)) == Status.ODD:
            status = self._run_plain(piece, parts)
            if status != Status.MORE:
                break
        self._flush(parts)
        return _Result(
            parts,
            state[COUNTS].copy(),
            status,
            int(state[State.POSITION]) - base,
            bool(state[State.AFTER_VALUE]),
        )

    def _run(self, end: int, size: int, parts: list[_Part]) -> int:
        """Scan from the state's position to the address `end`; return why the scanner stopped."""
        stuck_at = -1
        while True:
            status = int(scan(end, self.table.address))
            if status == Status.FULL:
                position = int(self.table.state[State.POSITION])
                self._flush(parts)
                self._grow(size, is_stuck=position == stuck_at)
                stuck_at = position
            elif status == Status.FLUSH:
                self._flush(parts)
            else:
                return status

    def _run_plain(self, piece: Piece, parts: list[_Part]) -> int:
        """Take in the event at the position by its plain spelling; return MORE, or why there is none."""
        state = self.table.state
        base = piece.buffer.ctypes.data
        start = int(state[State.POSITION])
        stop = int(skip_value(start, base + piece.size))
        if stop < 0:
            return stop
        text = plain_event(piece.buffer[start - base : stop - base].tobytes())
        buffer = np.frombuffer(text + bytes(PADDING), np.uint8)
        state[State.POSITION], state[State.PLAIN] = buffer.ctypes.data, 1
        status = self._run(buffer.ctypes.data + len(text), len(text), parts)
        state[State.POSITION], state[State.PLAIN] = start, 0
        if status == Status.MORE and state[State.AFTER_VALUE]:
            state[State.POSITION] = stop
            return Status.MORE
        return status if status == Status.DEEP else Status.BROKEN

    def _grow(self, event_bytes: int, *, is_stuck: bool) -> None:
        """Grow the string table; when it was not what was missing, the buffers for an event's members too."""
        self.table.grow(event_bytes if is_stuck else 0)
        if is_stuck:
            self._pool = np.zeros(self._pool.size * 2, np.uint8)
            self._scratch = np.zeros(self._scratch.size * 2, np.uint8)
        self._publish()

    def _flush(self, parts: list[_Part]) -> None:
        state = self.table.state
        rows, wide_rows = int(state[State.ROWS]), int(state[State.WIDE])
        if rows:
            columns: list[Array] = [
                self._rows[:rows, column].astype(_DTYPES.get(column, np.int64)) for column in Column
            ]
            wide: list[Array | None] = []
            for column in Wide:
                values = self._wide[:wide_rows, column]
                wide.append(values.copy() if wide_rows and values.max() != MISSING else None)
            parts.append(
                _Part(self.index, columns, wide, wide_rows, self._pool[: state[State.POOLED]].copy())
            )
        state[State.ROWS] = state[State.WIDE] = state[State.POOLED] = 0


class _Crew:
    """A few workers that take pieces by turns and scan them, results in the order of the file.

    The thread that scans a piece has read or inflated it too, so that its text is still in that core's cache.
    """

    def __init__(self, threads: int) -> None:
        keys = key_table()
        self.workers = [_Worker(index, keys) for index in range(threads)]
        self._free: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        self._turn = threading.Lock()
        self._taken = 0
        for worker in self.workers:
            self._free.put(worker)

    def scan(self, piece: Piece, start: int, *, is_after_value: bool = False) -> _Result:
        worker = self._free.get()
        try:
            return worker.scan(piece, start, is_after_value=is_after_value)
        finally:
            self._free.put(worker)

    def _take(self, stream: Iterator[Piece]) -> tuple[int, Piece, _Result] | None:
        """Scan the next piece; returns its number too, None behind the last one."""
        with self._turn:
            piece = next(stream, None)
            self._taken += 1
            number = self._taken
        return None if piece is None else (number, piece, self.scan(piece, 0))

    def results(self, stream: Iterator[Piece], first: Piece, start: int) -> Iterator[tuple[Piece, _Result]]:
        """Scan pieces ahead of the one that is asked for."""
        waiting: deque[Future[tuple[int, Piece, _Result] | None]] = deque()
        done: dict[int, tuple[Piece, _Result]] = {}
        with ThreadPoolExecutor(len(self.workers), thread_name_prefix="overlane-scan") as pool:
            ahead = 0 if first.is_last else len(self.workers) + 1
            waiting.extend(pool.submit(self._take, stream) for _ in range(ahead))
            yield first, self.scan(first, start)
            number = 1
            while waiting or done:
                if number in done:
                    yield done.pop(number)
                    number += 1
                    continue
                found = waiting.popleft().result()
                if found is not None:
                    done[found[0]] = found[1:]
                    waiting.append(pool.submit(self._take, stream))


def scan_file(
    path: Path, *, is_gzip: bool, progress: Progress | None = None, threads: int | None = None
) -> Scanned:
    """Scan a whole file.

    Args:
        path: File of trace events as JSON.
        is_gzip: Its content is gzipped.
        progress: Told the fraction of the file that is read.
        threads: Scanning threads; by default one per core, at most 8.

    Raises:
        TraceUnreadableError: Not JSON, cut, damaged, or JSON without `traceEvents`.
    """
    with closing(pieces(path, is_gzip=is_gzip)) as stream:
        first = next(stream)
        if first.is_last and not first.text().strip(b" \t\r\n\0\xef\xbb\xbf"):
            raise TraceUnreadableError(
                f"{path.name} is empty but for white space; record it again, or look for a copy"
            )
        envelope, first = _head(path, stream, first)
        wanted = threads or min(_MAX_THREADS, len(os.sched_getaffinity(0)))
        crew = _Crew(1 if first.is_last else wanted)
        return _assemble(path, crew, stream, first, envelope, progress)


def _head(path: Path, stream: Iterator[Piece], first: Piece) -> tuple[Envelope, Piece]:
    while True:
        try:
            envelope = take_head(first.buffer, first.size)
        except NotJsonError as error:
            is_cut = error.fault == Fault.CUT
            if is_cut and not first.is_last and first.size < _MAX_HEAD_BYTES:
                first = first.joined(0, next(stream))
                continue
            if is_cut and first.size >= _MAX_HEAD_BYTES:
                raise TraceUnreadableError(
                    f"{path.name} holds no traceEvents within its first {_MAX_HEAD_BYTES >> 20} MiB; "
                    "name a file that export_chrome_trace wrote"
                ) from None
            raise _refusal(path, first.text(), error.position, first.offset, error.fault) from None
        if not envelope.found:
            names = ", ".join(list(envelope.members)[:4]) or "none"
            raise TraceUnreadableError(
                f"{path.name} is JSON without traceEvents (its members: {names}), so no trace of PyTorch's "
                "profiler; name a file that export_chrome_trace wrote"
            )
        return envelope, first


def _assemble(  # noqa: PLR0917 - what it works with; called once
    path: Path,
    crew: _Crew,
    stream: Iterator[Piece],
    first: Piece,
    envelope: Envelope,
    progress: Progress | None,
) -> Scanned:
    whole = Scanned(envelope, [worker.table for worker in crew.workers])
    counts = np.zeros(COUNTS.stop - COUNTS.start, np.int64)
    left: tuple[Piece, int, bool] | None = None  # unproven rest of the piece before
    tail: list[bytes] | None = None
    tail_offset = 0
    for piece, scanned in crew.results(stream, first, envelope.events):
        if tail is not None:
            tail.append(piece.text())
            continue
        current, result = piece, scanned
        if left is not None:
            before, position, after = left
            current = before.joined(position, piece)
            result = crew.scan(current, 0, is_after_value=after)
        left = None
        for part in result.parts:
            whole.append(part)
        counts += result.counts
        if result.status == Status.END:
            tail, tail_offset = [current.text(result.position)], current.offset + result.position
        elif current.is_last or result.status in _FAULTS:
            fault = _FAULTS.get(result.status, Fault.CUT)
            raise _refusal(path, current.text(), result.position, current.offset, fault)
        elif result.status != Status.MORE or result.is_after_value:
            left = (current, result.position, result.is_after_value)
        if left is None and tail is None:
            piece.release()
        if progress is not None:
            progress(piece.done_fraction * 0.8)
    if tail is None:
        raise _refusal(path, first.text(), first.size, first.offset, Fault.CUT)
    try:
        take_tail(b"".join(tail), envelope)
    except NotJsonError as error:
        raise _refusal(path, b"".join(tail), error.position, tail_offset, error.fault) from None
    names = [state.name.lower() for state in State][COUNTS]
    whole.counts = dict(zip(names, counts.tolist(), strict=True))
    return whole


def _refusal(path: Path, text: bytes, position: int, offset: int, fault: Fault) -> TraceUnreadableError:
    """Return the error for a fault at `position` of a text that begins at byte `offset` of the file."""
    at = f"byte {offset + position}"
    if fault == Fault.CUT:
        return TraceUnreadableError(
            f"{path.name} is cut: its JSON ends at byte {offset + len(text)} before the trace does; "
            "copy or record it again"
        )
    if fault == Fault.DEEP:
        return TraceUnreadableError(
            f"{path.name} is nested too deep: a value in the member or event at {at} has more than "
            f"{MAX_DEPTH} levels of brackets; take the value out there"
        )
    if fault == Fault.NO_LIST:
        return TraceUnreadableError(
            f"{path.name} has no list of events: its traceEvents at {at} is something else; "
            "name a file that export_chrome_trace wrote"
        )
    if fault == Fault.TWO_LISTS:
        return TraceUnreadableError(
            f"{path.name} has two lists of events: a second traceEvents stands at {at}; "
            "leave one of them, or make it two files"
        )
    found = text[max(position, 0) : position + 40].decode("utf-8", "replace").split("\n")[0]
    return TraceUnreadableError(
        f"{path.name} is not valid JSON at {at}, near {found!r}; record it again or mend it there"
    )
