"""The `.overlane` file: one trace in one file that is either whole and as it was written, or refused.

It is a ZIP archive with stored (uncompressed) members, so that any tool can open it: `meta.json` first,
then one Parquet file per table that has rows. `meta.json` holds the format's version, the header of the
trace and, per table, its rows, its bytes and their SHA-256. The archive's comment holds the SHA-256 of
everything else: `meta.json`, all ZIP headers and the directory. So every byte of the file is covered by one
of the two, and a flipped one is found.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import secrets
import struct
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from overlane_collect._members import decode_table, encode_table
from overlane_collect.errors import TraceFileError
from overlane_collect.model import Header
from overlane_collect.schema import SCHEMA_VERSION, TABLES

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["META_NAME", "advice_for", "is_trace_head", "read_members", "replacing", "write_trace"]

META_NAME = "meta.json"
"""First member of every file, so that the format shows in its first bytes."""

FORMAT = "overlane"
SUFFIX = ".parquet"
_SEAL = b"overlane sha256 "  # then 64 hexadecimal digits, the last bytes of the file
_DIGEST_BYTES = 64
_SEAL_BYTES = len(_SEAL) + _DIGEST_BYTES
_LOCAL_HEADER = struct.Struct(
    "<4s5H3L2H"
)  # signature, version, flags, method, time, date, crc, sizes, name and extra lengths
_LOCAL_SIGNATURE = b"PK\x03\x04"
_FIRST_BYTES = _LOCAL_HEADER.size + len(META_NAME)
_MAX_META_BYTES = 64 << 20  # a header is a few kilobytes; more is an attack or a mistake
_MAX_DIRECTORY_BYTES = 64 << 10  # twenty entries of about a hundred bytes
_FIXED_DATE = (1980, 1, 1, 0, 0, 0)  # equal traces give equal files
_COPY_AGAIN = "copy it again from where it came, or record again"


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that takes the name `path` only when the block ends without an error.

    It is written beside `path` under a temporary name, flushed to the disk, then renamed. After an error
    nothing is left and an older file called `path` is untouched.

    Args:
        path: Final name; a file of that name is replaced.

    Raises:
        OSError: The disk is full or not writable, or `path` is no file.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with replacing(Path(folder, "example.txt")) as file:
        ...         _ = file.write(b"whole")
        ...     Path(folder, "example.txt").read_bytes()
        b'whole'
    """
    if path.exists() and not path.is_file():
        raise FileExistsError(errno.EEXIST, "it is a folder, device or pipe", str(path))
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with os.fdopen(descriptor, "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def write_trace(path: str | os.PathLike[str], header: Header, tables: Mapping[str, pa.Table]) -> None:
    """Write one trace, replacing `path` only when everything is on the disk.

    Args:
        path: File to write, `NAME.overlane` by custom.
        header: Provenance.
        tables: Tables of the contract by name; tables that are left out or have no rows come back empty.

    Raises:
        TraceFileError: A table is not the contract's, or the disk is full or not writable; nothing is left
            under `path`.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_trace(Path(folder, "empty.overlane"), Header("overlane"), {})
    """
    path = Path(path)
    unknown = sorted(set(tables) - set(TABLES))
    if unknown:
        raise TraceFileError(f"{path.name} cannot be written: no table is called {', '.join(unknown)}")
    names = [name for name in TABLES if name in tables and tables[name].num_rows]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        # Largest first, so that no long table is left to one thread at the end.
        jobs = {
            name: pool.submit(_encoded, name, tables[name])
            for name in sorted(names, key=lambda n: -tables[n].nbytes)
        }
        members = {name: jobs[name].result() for name in names}
    meta = {
        "format": FORMAT,
        "version": SCHEMA_VERSION,
        "header": header.to_json(),
        "tables": {
            n: {"rows": tables[n].num_rows, "bytes": len(data), "sha256": sha}
            for n, (data, sha) in members.items()
        },
    }
    try:
        # Half a surrogate pair, which JSON may say and UTF-8 may not, stays escaped.
        encoded = json.dumps(meta, ensure_ascii=False, allow_nan=False).encode(errors="backslashreplace")
    except (TypeError, ValueError) as error:
        raise TraceFileError(
            f"{path.name} cannot be written: its header is not plain JSON ({error})"
        ) from error
    try:
        with replacing(path) as file:
            _write_archive(file, encoded, {name: data for name, (data, _) in members.items()})
    except OSError as error:
        raise TraceFileError(
            f"{path} could not be written: {error.strerror or error}; {advice_for(error)}"
        ) from error


def read_members(path: str | os.PathLike[str]) -> tuple[Header, dict[str, pa.Table]]:
    """Return the header and the tables that have rows, exactly as they were written.

    Nothing is unpacked to the disk, and sizes are checked before memory is taken, so that a hostile file
    does no harm.

    Args:
        path: File that `write_trace` wrote.

    Raises:
        TraceFileError: Not an `.overlane` file, of an unknown version, cut, damaged, or not readable; one
            sentence.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            meta, spans = _open_archive(file, path.name)
            with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
                order = sorted(spans, key=lambda span: -span.length)
                jobs = {span.table: pool.submit(_decoded, file.fileno(), span, path.name) for span in order}
                tables = {span.table: jobs[span.table].result() for span in spans}
    except OSError as error:
        raise TraceFileError(
            f"{path} cannot be read: {error.strerror or error}; check its name and permissions"
        ) from error
    try:
        return Header.from_json(meta["header"]), tables
    except (TypeError, AttributeError, KeyError) as error:
        raise TraceFileError(
            f"{path.name} has a header that this version does not know ({error}); {_COPY_AGAIN}"
        ) from error


def advice_for(error: OSError) -> str:
    """Return what to do about a file or folder that could not be written, by the cause."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
        return "free some space or choose another place"
    if error.errno in {errno.EACCES, errno.EPERM}:
        return "change the permissions of its folder or choose another place"
    if error.errno == errno.ENOENT:
        return "make its folder first or choose another place"
    if error.errno == errno.ENAMETOOLONG:
        return "choose a shorter name"
    if error.errno in {errno.ENOMEM, errno.EMFILE, errno.ENFILE}:
        return "close other programs and try again"
    return "choose another place"


def is_trace_head(head: bytes) -> bool:
    """Tell whether a file that starts with these bytes (at least 39) claims to be an `.overlane` file."""
    return head.startswith(_LOCAL_SIGNATURE) and head[_LOCAL_HEADER.size : _FIRST_BYTES] == META_NAME.encode()


@dataclass(frozen=True)
class _Span:
    """Where one table lies in the file, and what it must be."""

    table: str
    offset: int
    length: int
    rows: int
    sha256: str


def _encoded(name: str, table: pa.Table) -> tuple[memoryview, str]:
    data = memoryview(encode_table(name, table))
    return data, hashlib.sha256(data).hexdigest()


def _decoded(descriptor: int, span: _Span, file_name: str) -> pa.Table:
    data = _read_exactly(descriptor, span.offset, span.length)
    if hashlib.sha256(data).hexdigest() != span.sha256:
        raise TraceFileError(f"{file_name} is damaged: table {span.table} is not as written; {_COPY_AGAIN}")
    try:
        return decode_table(span.table, data, rows=span.rows)
    except TraceFileError as error:
        raise TraceFileError(f"{file_name} cannot be used: {error}") from error


def _write_archive(file: IO[bytes], meta: bytes, members: Mapping[str, memoryview]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo(META_NAME, _FIXED_DATE), meta)
        for name, data in members.items():
            info = zipfile.ZipInfo(name + SUFFIX, _FIXED_DATE)
            info.file_size = len(data)  # known before, so that members over 2 GiB get the larger header
            with archive.open(info, "w") as member:
                member.write(data)
        archive.comment = _SEAL + b"0" * _DIGEST_BYTES
    file.flush()
    size = os.fstat(file.fileno()).st_size
    lengths = {name: len(data) for name, data in members.items()}
    offsets = _payload_offsets(file.fileno(), len(meta), lengths)
    digest = _frame_digest(file.fileno(), [(offsets[name], lengths[name]) for name in members], size)
    file.seek(size - _DIGEST_BYTES)
    file.write(digest.encode())


def _open_archive(file: IO[bytes], name: str) -> tuple[dict[str, Any], list[_Span]]:
    """Check everything but the tables themselves; return `meta.json` and where the tables lie."""
    descriptor = file.fileno()
    size = os.fstat(descriptor).st_size
    head = _read_exactly(descriptor, 0, min(size, _FIRST_BYTES))
    if not is_trace_head(head):
        if head.startswith(_LOCAL_SIGNATURE):
            found = f"it is a ZIP archive whose first member is not {META_NAME}"
        else:
            found = f"it starts with {head[:4]!r}" if head else "it is empty"
        raise TraceFileError(f"{name} is not an .overlane file: {found}; give a trace file")
    version: object = None
    try:
        meta = _read_meta(descriptor, head, size)
        version = meta["version"]
        spans = _sealed_spans(descriptor, meta, size)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        other = f"it says version {version!r}, " if version not in (None, SCHEMA_VERSION) else ""
        raise TraceFileError(f"{name} is cut or damaged ({other}{error}); {_COPY_AGAIN}") from error
    if meta["format"] != FORMAT:
        raise TraceFileError(
            f"{name} is not an .overlane file: it says that its format is {meta['format']!r}; "
            "open it with the program that wrote it"
        )
    if type(version) is not int or version != SCHEMA_VERSION:  # true and 1.0 are equal to 1 and are not it
        raise TraceFileError(
            f"{name} is of version {version!r} and this Overlane reads version {SCHEMA_VERSION}; "
            "open it with the Overlane that wrote it, or update this one (pip install --upgrade overlane)",
        )
    return meta, spans


def _read_meta(descriptor: int, head: bytes, size: int) -> dict[str, Any]:
    length = _LOCAL_HEADER.unpack_from(head)[8]
    if length > min(_MAX_META_BYTES, size):
        raise ValueError(f"{META_NAME} would be {length} bytes")
    meta = json.loads(_read_exactly(descriptor, _FIRST_BYTES, length), parse_constant=_no_number)
    meta["format"], meta["version"], meta["header"], meta["tables"].items()
    return {**meta, "bytes": length}


def _no_number(word: str) -> None:
    """Refuse what Python's reader takes and JSON does not know."""
    raise ValueError(f"{META_NAME} holds {word}")


def _whole(value: object) -> int:
    if type(value) is not int:
        raise ValueError(f"{META_NAME} holds {value!r} where a whole number belongs")
    return value


def _sealed_spans(descriptor: int, meta: dict[str, Any], size: int) -> list[_Span]:
    """Return where the tables lie, once all bytes around them are proven to be as written."""
    entries = {
        t: (_whole(e["bytes"]), _whole(e["rows"]), str(e["sha256"])) for t, e in meta["tables"].items()
    }
    lengths = {table: entry[0] for table, entry in entries.items()}
    offsets = _payload_offsets(descriptor, meta["bytes"], lengths)
    digest = _frame_digest(descriptor, [(offsets[table], lengths[table]) for table in lengths], size)
    if _read_exactly(descriptor, size - _SEAL_BYTES, _SEAL_BYTES) != _SEAL + digest.encode():
        raise ValueError("its checksum does not fit")
    return [_Span(table, offsets[table], *entry) for table, entry in entries.items()]


def _payload_offsets(descriptor: int, meta_bytes: int, lengths: Mapping[str, int]) -> dict[str, int]:
    """Walk the ZIP's local headers and return where each table's Parquet file starts.

    Raises:
        ValueError: A table is not in the contract, or a header is not where and what it must be.
    """
    position = _FIRST_BYTES + meta_bytes
    offsets: dict[str, int] = {}
    for table, length in lengths.items():
        if table not in TABLES or length < 0:
            raise ValueError(f"unknown table {table!r} of {length} bytes")
        member = (table + SUFFIX).encode()
        header = _read_exactly(descriptor, position, _LOCAL_HEADER.size + len(member))
        fields = _LOCAL_HEADER.unpack_from(header)
        if (
            fields[0] != _LOCAL_SIGNATURE
            or fields[9] != len(member)
            or header[_LOCAL_HEADER.size :] != member
        ):
            raise ValueError(f"table {table} is not where it should be")
        offsets[table] = position + len(header) + fields[10]
        position = offsets[table] + length
    return offsets


def _frame_digest(descriptor: int, payloads: Sequence[tuple[int, int]], size: int) -> str:
    """Return the SHA-256 of all bytes of the file outside the tables' payloads and the digest itself.

    Args:
        descriptor: Open file.
        payloads: Offset and length of each table, in the order of the file.
        size: Length of the file.

    Raises:
        ValueError: The file is shorter than its parts, or has more bytes between them than headers need.
    """
    digest = hashlib.sha256()
    position = 0
    for offset, length in [*payloads, (size - _DIGEST_BYTES, _DIGEST_BYTES)]:
        gap = offset - position
        if gap < 0 or offset + length > size:
            raise ValueError("it ends too early")
        if gap > _MAX_META_BYTES + _FIRST_BYTES + _MAX_DIRECTORY_BYTES:
            raise ValueError("it holds bytes that belong to nothing")
        digest.update(_read_exactly(descriptor, position, gap))
        position = offset + length
    return digest.hexdigest()


def _read_exactly(descriptor: int, offset: int, length: int) -> bytes:
    """Return bytes of an open file without moving its position, so that threads can share it.

    Raises:
        ValueError: The file ends before.
    """
    parts: list[bytes] = []
    while length:
        part = os.pread(descriptor, min(length, 1 << 30), offset) if offset >= 0 else b""
        if not part:
            raise ValueError("it ends too early")
        parts.append(part)
        offset += len(part)
        length -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _sync_folder(folder: Path) -> None:
    """Bring a rename to the disk; file systems that cannot sync folders keep their own promise."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
