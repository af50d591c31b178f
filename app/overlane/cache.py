"""Where opened traces are kept: mapped columns, timeline indexes, results of analyses.

One entry is one folder, named by the identity of the source (path, size, modification time in ns) and the
versions of schema and index. It is built under a temporary name and renamed when complete; its marker lists
every file with its size and a checksum, and an entry that does not match its marker is built anew. Locks are
advisory file locks (`flock`), so a process that dies leaves none: `ENTRY.build` is held while something is
built, `ENTRY.use` is shared by all that have the entry open, and only an entry whose `ENTRY.use` nobody holds
is evicted.

A cache folder that cannot be written is replaced by a temporary folder for this process, and the opened
trace says so in `warnings`: showing the trace matters more than keeping its index. A full disk is an error,
since nothing can be shown then.

The checksum sees every change of a file of up to 4 MiB, and of a larger one every change in its first MiB,
its last 64 KiB and 64 pages spread evenly between: a single wrong bit in the middle of a large column may
be shown as it is (reading all would take a second per gigabyte at every start), but cannot make the compiled
code of the timeline read or write out of bounds (`overlane.timeline.storing`).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import threading
import time
import weakref
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from overlane.errors import MachineError, TraceUnreadableError
from overlane.folders import cache_folder
from overlane.mapping import load_array
from overlane.tables import null_array
from overlane.trace import Trace
from overlane_collect.model import Header
from overlane_collect.schema import SCHEMA_VERSION, TABLES, arrow_schema

if TYPE_CHECKING:
    from overlane.timeline import Timeline

__all__ = ["DEFAULT_LIMIT_BYTES", "Arrays", "OpenedTrace", "TraceCache", "cache_folder"]

DEFAULT_LIMIT_BYTES = 20_000_000_000
"""Most bytes that all entries together keep. Entries in use are never evicted, so they can exceed it."""

_MARKER = "entry.json"
_LAYOUT_VERSION = 2
_ABANDONED_AFTER_S = 86_400  # no build takes a day, so such a folder was left by a process that died
_FULLY_CHECKED_BYTES = 4 << 20
_HEAD_BYTES, _TAIL_BYTES = 1 << 20, 1 << 16
_PAGES, _PAGE_BYTES = 64, 4096
_Progress = Callable[[float], None]
_T = TypeVar("_T")

Arrays: TypeAlias = dict[str, npt.NDArray[Any]]
"""Columns of a result by name, of any shapes."""


class OpenedTrace:
    """A trace with its cache entry, in use until it is closed.

    Attributes:
        trace: The tables, mapped from the entry.
        key: Name of the entry.
        warnings: Sentences for the user, as when the cache folder cannot be written.
    """

    def __init__(self, trace: Trace, folder: Path, use: _Lock, owner: TraceCache) -> None:
        self.trace = trace
        self.key = folder.name
        self.warnings = owner.warnings
        self._owner = owner  # its temporary folder, if it has one, lives as long as it does
        self._folder = folder
        self._use = use
        self._timelines: dict[int | None, Timeline] = {}
        self._guard = threading.Lock()
        self._result_locks: dict[str, threading.Lock] = {}

    def timeline(self, rank: int | None) -> Timeline:
        """Return the timeline of one rank; its index is built when it is first asked for.

        Raises:
            ValueError: The trace has no such rank.
            MachineError: The index cannot be written.
        """
        from overlane.timeline import Timeline  # noqa: PLC0415 - loads compiled code

        if rank not in self.trace.ranks:
            known = ", ".join(str(r) for r in self.trace.ranks)
            raise ValueError(f"the trace has no rank {rank}; known: {known}")
        with self._guard:
            if rank not in self._timelines:
                folder = self._folder / f"timeline-{'none' if rank is None else rank}"
                with _locked(self._folder.with_suffix(".build")):
                    self._timelines[rank] = self._open_timeline(Timeline, rank, folder)
            return self._timelines[rank]

    def _open_timeline(self, kind: type[Timeline], rank: int | None, folder: Path) -> Timeline:
        if _is_whole(folder):
            # A damaged file fails in whatever way its reader happens to, and is built anew in any case.
            with contextlib.suppress(Exception):
                return kind.open(self.trace, rank, folder)
        with _machine_errors(self._folder.parent):
            _build_folder(folder, lambda target: kind.build(self.trace, rank, target))
            return kind.open(self.trace, rank, folder)

    def result(self, key: str, version: int, compute: Callable[[], _T]) -> _T:
        """Return a result of an analysis, computed once per entry and version; other threads wait for it.

        Args:
            key: Names the analysis and its parameters.
            version: Version of the analysis; results of other versions are not used.
            compute: Returns JSON values; it may ask for results of other names.

        Returns:
            The value as JSON gives it back. A result that cannot be stored is returned all the same.
        """
        name = hashlib.sha256(f"{version}:{key}".encode()).hexdigest()[:32]
        path = self._folder / "results" / f"{name}.json"
        with self._result_locks.setdefault(name, threading.Lock()):
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                stored = json.loads(path.read_text(encoding="utf-8"))
                if stored["key"] == key and stored["version"] == version:
                    return stored["value"]  # type: ignore[no-any-return]
            text = json.dumps({"key": key, "version": version, "value": compute()})
            with contextlib.suppress(OSError):
                path.parent.mkdir(exist_ok=True)
                _write_whole(path, text)
            return json.loads(text)["value"]  # type: ignore[no-any-return]

    def arrays(self, key: str, version: int, compute: Callable[[], Arrays]) -> Arrays:
        """Return the arrays of an analysis, computed once per entry and version and mapped when read.

        They are written whole and renamed, and checked like the entry itself; what is damaged or of another
        version is computed anew. Nothing is locked while they are computed, so one computation may ask for
        the arrays of another.

        Args:
            key: Names the analysis and its parameters.
            version: Version of the analysis; arrays of other versions are replaced.
            compute: Returns arrays of numbers by name.

        Returns:
            The arrays, mapped; changing one changes no file. Those that cannot be stored are returned too.
        """
        folder = self._folder / "results" / hashlib.sha256(key.encode()).hexdigest()[:32]
        identity = {"key": key, "version": version}
        stored = _stored_arrays(folder, identity)
        if stored is not None:
            return stored
        values = compute()
        with contextlib.suppress(OSError):
            folder.parent.mkdir(exist_ok=True)
            with _locked(self._folder.with_suffix(".build")):
                _build_folder(folder, lambda target: _store_arrays(target, values, identity))
        stored = _stored_arrays(folder, identity)
        return values if stored is None else stored

    def close(self) -> None:
        """Let the entry be evicted; tables that are still mapped stay readable."""
        self._use.close()


class TraceCache:
    """Opens traces through a bounded folder of prepared entries.

    Args:
        folder: Where entries are kept; None for `cache_folder()`.
        limit_bytes: Most bytes to keep.
    """

    def __init__(self, folder: Path | None = None, limit_bytes: float = DEFAULT_LIMIT_BYTES) -> None:
        self.warnings: tuple[str, ...] = ()
        self._limit_bytes = int(limit_bytes)
        self.folder = self._writable(Path(folder) if folder is not None else cache_folder())

    def _writable(self, folder: Path) -> Path:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                return folder
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise _full_disk(folder) from error
            temporary = tempfile.mkdtemp(prefix="overlane-")
            weakref.finalize(self, shutil.rmtree, temporary, ignore_errors=True)
            sentence = (
                f"The cache folder {folder} cannot be written ({error.strerror}), so this trace is prepared "
                "anew at every start; set OVERLANE_CACHE_DIR to a folder of yours."
            )
            self.warnings = (sentence,)
            return Path(temporary)

    def open(self, path: Path | str, progress: _Progress | None = None) -> OpenedTrace:
        """Open a trace; the source file is read only when no whole entry for it is there.

        Args:
            path: File to open.
            progress: Called with a share of 0 to 1; may raise to cancel.

        Raises:
            TraceUnreadableError: The file cannot be read as a trace.
            MachineError: The entry cannot be written.
        """
        source = Path(path)
        key = self._key(source)
        entry = self.folder / key
        with _machine_errors(self.folder), _locked(entry.with_suffix(".build")):
            use = _Lock(entry.with_suffix(".use"), shared=True, waits=True)
            try:
                trace = _load(entry) if _is_whole(entry) else None
                if trace is None:
                    _build_folder(entry, lambda target: _store(source, target, progress))
                    trace = _load(entry)
                if trace is None:
                    unreadable = f"what was written to {entry} cannot be read back; check the disk"
                    raise MachineError(unreadable)  # noqa: TRY301 - the lock is let go below
                with contextlib.suppress(OSError):
                    os.utime(entry / _MARKER)
            except BaseException:
                use.close()
                raise
        self.evict(keep_path=source)
        if progress is not None:
            progress(1.0)
        return OpenedTrace(trace, entry, use, self)

    def _key(self, source: Path) -> str:
        from overlane.timeline.version import INDEX_VERSION  # noqa: PLC0415 - the package loads compiled code

        try:
            facts = source.stat()
        except OSError as error:
            raise TraceUnreadableError(
                f"{source} cannot be opened ({error.strerror}); check the path"
            ) from error
        versions = [SCHEMA_VERSION, INDEX_VERSION, _LAYOUT_VERSION]
        identity = [str(source.resolve()), facts.st_size, facts.st_mtime_ns, *versions]
        return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:32]

    def evict(self, keep_path: Path | None = None) -> None:
        """Remove entries that nobody uses.

        Those of an older state of a file go first, then the longest unused, down to the limit.

        Args:
            keep_path: File whose entries of another size or time are out of date; None to look at sizes
                alone.
        """
        for left in [*self.folder.glob("*.new"), *self.folder.glob("*.old")]:
            with contextlib.suppress(OSError):
                if time.time() - left.stat().st_mtime > _ABANDONED_AFTER_S:
                    shutil.rmtree(left, ignore_errors=True)
        entries = []
        for marker in self.folder.glob(f"*/{_MARKER}"):
            with contextlib.suppress(OSError, ValueError, KeyError):
                facts = json.loads(marker.read_text(encoding="utf-8"))
                entries.append((marker.stat().st_mtime_ns, marker.parent, facts["facts"].get("source")))
        sizes = {entry: _size(entry) for _, entry, _ in entries}
        current = None if keep_path is None else str(keep_path.resolve())
        fresh = None if keep_path is None else self._key(keep_path)
        for _, entry, source in entries:
            if current is not None and source == current and entry.name != fresh and self._remove(entry):
                sizes.pop(entry)
        for _, entry, _ in sorted(entries):
            if sum(sizes.values()) <= self._limit_bytes:
                return
            if entry in sizes and self._remove(entry):
                sizes.pop(entry)

    def _remove(self, entry: Path) -> bool:
        """Remove an entry unless somebody uses it; tells whether it is gone."""
        try:
            use = _Lock(entry.with_suffix(".use"), shared=False, waits=False)
        except OSError:
            return False
        with contextlib.closing(use):
            doomed = entry.with_name(f"{entry.name}.{os.getpid()}.old")
            try:
                entry.rename(doomed)
            except OSError:
                return False
            shutil.rmtree(doomed, ignore_errors=True)
        return True


# ---------------------------------------------------------------------- entries


def _store(source: Path, folder: Path, progress: _Progress | None) -> dict[str, Any]:
    """Read a source and write its tables; returns the facts that the marker keeps."""
    from overlane.readers import open_trace  # noqa: PLC0415 - a warm open needs no reader

    share = None if progress is None else (lambda fraction: progress(0.85 * fraction))
    try:
        trace = open_trace(source, progress=share)
    except OSError as error:
        raise TraceUnreadableError(
            f"{source} cannot be read ({error}); check the file and its disk"
        ) from error
    absent: dict[str, list[str]] = {}
    for name in TABLES:
        table = trace.table(name)
        # A column that is null throughout takes no space; it is made again when the entry is opened.
        absent[name] = [
            c for c in table.schema.names if table.num_rows and table[c].null_count == table.num_rows
        ]
        kept = table.drop_columns(absent[name]) if absent[name] else table
        _write_table(folder / f"{name}.arrow", kept)
    if progress is not None:
        progress(0.95)
    return {
        "source": str(source.resolve()),
        "name": trace.name,
        "header": trace.header.to_json(),
        "absent": absent,
        "span_ns": trace.span_ns,
        "ranks": list(trace.ranks),
        "rows": {name: trace.table(name).num_rows for name in TABLES},
    }


def _write_table(path: Path, table: pa.Table) -> None:
    """Write one table as one batch of uncompressed Arrow IPC, so that each column maps as one piece."""
    if table.num_columns == 0:
        return
    table = table.unify_dictionaries().combine_chunks()
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=max(table.num_rows, 1))


def _load(folder: Path) -> Trace | None:
    """Map the tables of an entry; None when they are not what the marker says."""
    try:
        facts = json.loads((folder / _MARKER).read_text(encoding="utf-8"))["facts"]
        tables = {
            name: _map_table(folder, name, facts["absent"][name], facts["rows"][name]) for name in TABLES
        }
        trace = Trace(facts["name"], Header.from_json(facts["header"]), tables)
        # Both would read every row of the time and rank columns.
        trace.span_ns = int(facts["span_ns"])
        trace.ranks = tuple(facts["ranks"])
    except Exception:  # noqa: BLE001 - a damaged file fails in whatever way its reader happens to
        return None
    return trace


def _map_table(folder: Path, name: str, absent: list[str], rows: int) -> pa.Table:
    schema = arrow_schema(name)
    columns: dict[str, Any] = {column: null_array(schema.field(column).type, rows) for column in absent}
    if len(absent) < len(schema):
        with pa.memory_map(str(folder / f"{name}.arrow")) as source:
            stored = pa.ipc.open_file(source).read_all()
        if stored.num_rows != rows:
            raise ValueError(f"{name} holds {stored.num_rows} rows, not {rows}")
        columns.update({column: stored[column] for column in stored.schema.names})
    return pa.Table.from_arrays([columns[column] for column in schema.names], schema=schema)


def _store_arrays(folder: Path, values: Arrays, identity: dict[str, Any]) -> dict[str, Any]:
    for name, array in values.items():
        np.save(folder / f"{name}.npy", array, allow_pickle=False)
    return identity


def _stored_arrays(folder: Path, identity: dict[str, Any]) -> Arrays | None:
    """Map the arrays of a folder; None when they are not whole or not those asked for."""
    if not _is_whole(folder):
        return None
    try:
        if json.loads((folder / _MARKER).read_text(encoding="utf-8"))["facts"] != identity:
            return None
        paths = sorted(folder.glob("*.npy"))
        return {path.stem: load_array(path, "c") for path in paths}
    except (OSError, ValueError, KeyError):
        return None


def _build_folder(folder: Path, build: Callable[[Path], dict[str, Any] | None]) -> None:
    """Build a folder under a temporary name, write its marker and put it in place of what was there."""
    shutil.rmtree(folder, ignore_errors=True)
    target = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", suffix=".new", dir=folder.parent))
    try:
        facts = build(target) or {}
        files = {path.name: _fingerprint(path) for path in sorted(target.iterdir())}
        _write_whole(
            target / _MARKER, json.dumps({"files": files, "facts": facts, "built_unix_ns": time.time_ns()})
        )
        target.rename(folder)
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise


def _is_whole(folder: Path) -> bool:
    """Tell whether every file that the marker lists is there with its size and checksum."""
    try:
        files = json.loads((folder / _MARKER).read_text(encoding="utf-8"))["files"]
        sizes_fit = all((folder / name).stat().st_size == size for name, (size, _) in files.items())
        return sizes_fit and all(_fingerprint(folder / name) == known for name, known in files.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _fingerprint(path: Path) -> list[int]:
    """Return a file's size and the CRC-32 of what is looked at of it; the module says what that is."""
    with path.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        if size <= _FULLY_CHECKED_BYTES:
            return [size, zlib.crc32(file.read())]
        inner = size - _HEAD_BYTES - _TAIL_BYTES - _PAGE_BYTES
        pages = ((_HEAD_BYTES + at * inner // (_PAGES - 1), _PAGE_BYTES) for at in range(_PAGES))
        checksum = 0
        for at, length in ((0, _HEAD_BYTES), *pages, (size - _TAIL_BYTES, _TAIL_BYTES)):
            checksum = zlib.crc32(os.pread(file.fileno(), length, at), checksum)
        return [size, checksum]


def _size(folder: Path) -> int:
    size = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):  # gone: another thread renames what it has written
            size += path.stat().st_size
    return size


def _write_whole(path: Path, text: str) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".new")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


# ---------------------------------------------------------------------- locks and errors


class _Lock:
    """An advisory lock on a file, held until it is closed or nobody refers to it any more.

    Raises:
        BlockingIOError: The lock is held by somebody else and `waits` is false.
    """

    def __init__(self, path: Path, *, shared: bool, waits: bool) -> None:
        handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
        self.close = weakref.finalize(self, os.close, handle)
        try:
            fcntl.flock(
                handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if waits else fcntl.LOCK_NB)
            )
        except BaseException:
            self.close()
            raise


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    lock = _Lock(path, shared=False, waits=True)
    try:
        yield
    finally:
        lock.close()


@contextlib.contextmanager
def _machine_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        # NumPy's short writes carry no number, only words like "119594 requested and 22512 written".
        if error.errno in {errno.ENOSPC, errno.EDQUOT} or (error.errno is None and "written" in str(error)):
            raise _full_disk(folder) from error
        raise MachineError(
            f"the cache entry in {folder} cannot be written ({error}); "
            "set OVERLANE_CACHE_DIR to another folder"
        ) from error


def _full_disk(folder: Path) -> MachineError:
    return MachineError(
        f"the disk of the cache folder {folder} is full; "
        "free some space or set OVERLANE_CACHE_DIR to a folder on another disk"
    )
