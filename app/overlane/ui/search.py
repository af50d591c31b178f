"""Search over a whole trace: a line of words becomes a query, a query becomes rows in order of start."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from overlane.analysis.causes import CAUSE_NAMES
from overlane.errors import OverlaneError
from overlane.tables import numbers
from overlane.ui.columns import equal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from overlane.trace import Trace

__all__ = ["Hits", "Query", "QueryError", "find_rows", "parse_query"]

Array = npt.NDArray[Any]

KINDS: dict[str, tuple[str, str | None]] = {
    "operation": ("ops", None),
    "kernel": ("ops", "kernel"),
    "memcpy": ("ops", "memcpy"),
    "memset": ("ops", "memset"),
    "graph": ("ops", "graph"),
    "call": ("api_calls", None),
    "sync": ("syncs", None),
    "range": ("ranges", None),
    "overhead": ("overheads", None),
    "instant": ("instants", None),
}
"""Word of a kind to its table and, for operations, the kind in the table's column."""

NAMES = {
    "ops": "name",
    "api_calls": "name",
    "syncs": "sync_kind",
    "ranges": "name",
    "overheads": "kind",
    "instants": "name",
}
"""Tables that are searched, with the column that names their rows."""

_UNITS = {"ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_DURATION = r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s)"
_BOUND = re.compile(rf"([<>]=?){_DURATION}", re.IGNORECASE)
_BETWEEN = re.compile(rf"{_DURATION}\.\.{_DURATION}", re.IGNORECASE)
_TOKEN = re.compile(r'(?:(\w+):)?(?:"([^"]*)"|(\S+))')


class QueryError(OverlaneError):
    """A search that makes no sense."""


@dataclass(frozen=True)
class Query:
    """What to look for; all parts must hold.

    Attributes:
        text: Part of the name, any case; empty for any name.
        kinds: Words of `KINDS`; empty for all.
        streams: Stream ids; empty for all rows, those without a stream too.
        causes: Causes of waiting; empty for all rows.
        least_ns: Shortest duration.
        most_ns: Longest duration, None for any.
    """

    text: str = ""
    kinds: tuple[str, ...] = ()
    streams: tuple[int, ...] = ()
    causes: tuple[str, ...] = ()
    least_ns: int = 0
    most_ns: int | None = None

    @property
    def is_empty(self) -> bool:
        """Nothing was asked for."""
        return self == Query()


@dataclass(frozen=True)
class Hits:
    """Rows that a query found, in order of start.

    Attributes:
        table: uint8 (n,), place of the row's table in `tables`.
        row: int64 (n,).
        start_ns: int64 (n,).
        end_ns: int64 (n,); the start for instants, the trace's end for what never ended.
        tables: Names of the tables.
    """

    table: Array
    row: Array
    start_ns: Array
    end_ns: Array
    tables: tuple[str, ...] = field(default=tuple(NAMES))

    def __len__(self) -> int:
        return len(self.row)


def parse_query(line: str) -> Query:
    """Read a line as people type it: words of a name, and `kind:`, `stream:`, `cause:`, `>10us`, `1ms..2ms`.

    Args:
        line: What was typed. Text in double quotes is taken as it stands.

    Raises:
        QueryError: A part makes no sense; the sentence says which.

    Example:
        >>> parse_query('gemm stream:7 >10us')
        Query(text='gemm', kinds=(), streams=(7,), causes=(), least_ns=10001, most_ns=None)
    """
    query = Query()
    words: list[str] = []
    for key, quoted, plain in _TOKEN.findall(line):
        if key.lower() in _READERS:
            query = _READERS[key.lower()](query, (quoted or plain).lower())
        elif (bounded := _with_bounds(query, plain)) is not None:
            query = bounded
        else:
            words.append((f"{key}:" if key else "") + (quoted or plain))
    return replace(query, text=" ".join(words))


def _with_bounds(query: Query, word: str) -> Query | None:
    """Return the query with the durations that a word names, None where it names none."""
    if between := _BETWEEN.fullmatch(word):
        least, most = _ns(*between.group(1, 2)), _ns(*between.group(3, 4))
        if least > most:
            raise QueryError(f"{word!r} begins above its end; write the shorter duration first")
        return replace(query, least_ns=least, most_ns=most)
    if bound := _BOUND.fullmatch(word):
        sign, value = bound.group(1), _ns(*bound.group(2, 3))
        strict = 0 if sign.endswith("=") else 1
        if sign.startswith(">"):
            return replace(query, least_ns=value + strict)
        return replace(query, most_ns=value - strict)
    return None


def _ns(number: str, unit: str) -> int:
    return round(float(number) * _UNITS[unit.lower()])


def _kind(query: Query, word: str) -> Query:
    if word not in KINDS:
        raise QueryError(f"no kind is called {word[:40]!r}; known: {', '.join(KINDS)}")
    return replace(query, kinds=(*query.kinds, word))


def _stream(query: Query, word: str) -> Query:
    if not word.isdecimal() or len(word) > 9:
        raise QueryError(f"a stream is a number as in stream:7, not {word[:40]!r}")
    return replace(query, streams=(*query.streams, int(word)))


def _cause(query: Query, word: str) -> Query:
    if word not in CAUSE_NAMES:
        raise QueryError(f"no cause is called {word[:40]!r}; known: {', '.join(CAUSE_NAMES)}")
    return replace(query, causes=(*query.causes, word))


_READERS: dict[str, Callable[[Query, str], Query]] = {"kind": _kind, "stream": _stream, "cause": _cause}


def find_rows(
    trace: Trace,
    query: Query,
    *,
    of_rank: Callable[[Any], Array | None],
    ops_of_causes: Callable[[tuple[str, ...]], Array] | None = None,
) -> Hits:
    """Return all rows that a query holds for.

    Args:
        trace: Trace to look through.
        query: What to look for; an empty one finds nothing.
        of_rank: Takes a rank column, returns which rows count, None for all.
        ops_of_causes: Takes causes, returns which operations waited for one of them: bool (ops,).

    Raises:
        QueryError: Causes are asked for and not known.
    """
    found: list[tuple[int, Array, Array, Array]] = []
    if not query.is_empty:
        for code, table in enumerate(NAMES):
            mask = _matching(trace, table, query, ops_of_causes)
            chosen = None if mask is None else of_rank(trace.table(table)["rank"])
            if mask is None:
                continue
            rows = np.flatnonzero(mask if chosen is None else mask & chosen)
            start, end = row_times(trace, table)
            found.append((code, rows, start[rows], end[rows]))
    if not found:
        nothing = np.zeros(0, np.int64)
        return Hits(nothing.astype(np.uint8), nothing, nothing, nothing)
    codes = np.concatenate([np.full(len(rows), at, np.uint8) for at, rows, *_ in found])
    row, start, end = (np.concatenate([item[part] for item in found]) for part in (1, 2, 3))
    order = np.argsort(start, kind="stable")
    return Hits(codes[order], row[order], start[order], end[order])


def row_times(trace: Trace, table: str) -> tuple[Array, Array]:
    """Return starts and ends of a table's rows in ns; what never ended counts to the end of the trace."""
    values = trace.table(table)
    if "at_ns" in values.schema.names:
        at = trace.column(table, "at_ns")
        return at, at
    start = trace.column(table, "start_ns")
    return start, np.maximum(numbers(values["end_ns"], null=trace.span_ns), start)


def _matching(
    trace: Trace, table: str, query: Query, ops_of_causes: Callable[[tuple[str, ...]], Array] | None
) -> Array | None:
    """Return which rows of a table a query holds for, None where none can."""
    values = trace.table(table)
    kinds = [column for where, column in (KINDS[word] for word in query.kinds) if where == table]
    if not values.num_rows or (query.kinds and not kinds):
        return None
    mask = _named(values[NAMES[table]], query.text) if query.text else np.ones(values.num_rows, bool)
    if kinds and None not in kinds:
        mask &= _equal_words(values["kind"], kinds)
    if query.streams:
        if "stream_id" not in values.schema.names:
            return None
        mask &= np.any([_equals(values["stream_id"], stream) for stream in query.streams], axis=0)
    if query.least_ns or query.most_ns is not None:
        start, end = row_times(trace, table)
        mask &= end - start >= query.least_ns
        if query.most_ns is not None:
            mask &= end - start <= query.most_ns
    if query.causes:
        if table != "ops":
            return None
        if ops_of_causes is None:
            raise QueryError("the causes of this trace are not known yet; ask again when they are computed")
        mask &= ops_of_causes(query.causes)
    return mask


def _words_of(column: Any) -> tuple[Array, list[str]]:
    """Return codes of a text column, len(words) for null, and its words."""
    from overlane.timeline.columns import one_chunk  # noqa: PLC0415 - the package loads compiled code

    values = one_chunk(column)
    words = values.dictionary.to_pylist()
    return numbers(values.indices, null=len(words)), words


def _named(column: Any, text: str) -> Array:
    codes, words = _words_of(column)
    wanted = text.casefold()
    return np.array([*(wanted in (word or "").casefold() for word in words), False])[codes]


def _equal_words(column: Any, wanted: list[str | None]) -> Array:
    codes, words = _words_of(column)
    return np.array([*(word in wanted for word in words), False])[codes]


def _equals(column: Any, value: int) -> Array:
    import pyarrow.compute as pc  # noqa: PLC0415

    hits = np.zeros(len(column), bool)
    hits[np.from_dlpack(pc.indices_nonzero(equal(column, value, if_null=False)))] = True
    return hits


def masks_of(hits: Hits, trace: Trace) -> Mapping[str, Array]:
    """Return per table which of its rows were found, bool (rows,)."""
    found = {}
    for code, table in enumerate(hits.tables):
        mask = np.zeros(trace.table(table).num_rows, bool)
        mask[hits.row[hits.table == code]] = True
        found[table] = mask
    return found
