"""The members of events without a column of their own: the attributes table, and what is read out of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from overlane.readers.kineto.envelope import repaired
from overlane.readers.kineto.grown import mapped
from overlane.readers.kineto.layout import HOLE
from overlane.readers.kineto.rows import Rows, arrow
from overlane.tables import array_of, table_from_columns

__all__ = ["Hole", "attributes_table", "members", "template_texts"]

Array = np.ndarray[Any, Any]

_HOLE = bytes([HOLE])
_BATCH = 512


class Hole:
    """Stands in parsed members for the integer number `index` of a row's template."""

    def __init__(self, index: int) -> None:
        self.index = index


def _text(raw: bytes) -> str:
    """Return the JSON of one template with `#` for its integers, mended where it is no JSON."""
    holes = raw.count(_HOLE)
    text = raw.decode("utf-8", "replace")
    for mend in (str, repaired):
        mended = mend(text)
        try:
            found = json.loads(mended.replace("\x01", "0"))
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict) and mended.count("\x01") == holes:
            return mended.replace("\x01", "#")
    kept = json.dumps(text.replace("\x01", "#"))
    return f'{{"text":{kept},"integers":[{",".join("#" * holes)}]}}'


def template_texts(rows: Rows, codes: Array) -> dict[int, str]:
    """Return the JSON of the given templates, each checked to be JSON once its integers are put back.

    Args:
        rows: The rows, for their strings.
        codes: Distinct template ids.
    """
    texts: dict[int, str] = {}
    for start in range(0, codes.size, _BATCH):
        batch = codes[start : start + _BATCH].tolist()
        contents = rows.strings.contents(codes[start : start + _BATCH])
        try:
            whole = b",".join(contents)
            json.loads(b"[" + whole.replace(_HOLE, b"0") + b"]")
            texts.update(zip(batch, (raw.replace(_HOLE, b"#").decode() for raw in contents), strict=True))
        except (ValueError, RecursionError):
            texts.update(zip(batch, map(_text, contents), strict=True))
    return texts


def members(rows: Rows, code: int) -> dict[str, Any]:
    """Return the members of one template, a `Hole` for each integer that was cut out."""
    text = _text(rows.strings.content(code))
    return _with_holes(text)


def _with_holes(text: str) -> dict[str, Any]:
    numbers = iter(range(text.count("#")))
    pieces: list[str] = []
    in_string = False
    escaped = False
    for character in text:
        if in_string:
            in_string = escaped or character != '"'
            escaped = character == "\\" and not escaped
        elif character == '"':
            in_string = True
        elif character == "#":
            pieces.append(f'{{"\\u0001":{next(numbers)}}}')
            continue
        pieces.append(character)
    found = json.loads("".join(pieces), object_hook=lambda d: Hole(d["\x01"]) if "\x01" in d else d)
    return dict(found)


def attributes_table(rows: Rows, tables: Iterator[tuple[str, Array]]) -> pa.Table:
    """Build the attributes table.

    Args:
        rows: The rows.
        tables: Per table in the order of names: its name, and the source row of each of its rows in canonical
            order.
    """
    names: list[str] = []
    row_ids: list[Array] = []
    sources: list[Array] = []
    for name, source in tables:
        having = np.flatnonzero((source >= 0) & (rows.template.take(source) >= 0))
        if having.size:
            names.append(name)
            row_ids.append(having)
            sources.append(source.take(having))
    if not names:
        return table_from_columns("attributes", {}, is_sorted=True)
    lengths = [source.size for source in sources]
    total = sum(lengths)
    offsets = mapped(total + 1, np.int32)
    template = mapped(total, np.int32)
    ends = np.cumsum(lengths).tolist()
    for end, source in zip(ends, sources, strict=True):
        template[end - source.size : end] = rows.template.take(source)
        offsets[end - source.size + 1 : end + 1] = rows.integer_counts(source)
    counts = offsets[1:].copy()
    np.cumsum(counts, out=offsets[1:])
    flat = mapped(int(offsets[-1]), np.int64)
    for end, source in zip(ends, sources, strict=True):
        low = end - source.size
        rows.unpack(source, counts[low:end], flat[offsets[low] : offsets[end]])
    del counts, sources
    used = rows.used_codes(template)
    texts = template_texts(rows, used)
    place = np.zeros(len(rows.strings), np.int32)
    place[used] = np.arange(used.size)
    distinct = list(texts.values())
    if len(set(distinct)) != len(distinct):  # mending can make two templates equal
        entries = {text: k for k, text in enumerate(dict.fromkeys(distinct))}
        place[used] = [entries[text] for text in distinct]
        distinct = list(entries)
    columns = {
        "table": pa.DictionaryArray.from_arrays(
            arrow(np.repeat(np.arange(len(names), dtype=np.int32), lengths), pa.int32(), total),
            array_of(names, pa.string()),
        ),
        "row_id": arrow(np.concatenate(row_ids), pa.int64(), total, missing=None),
        "template": pa.DictionaryArray.from_arrays(
            arrow(place.take(template), pa.int32(), total), array_of(distinct, pa.string())
        ),
        "integers": pa.ListArray.from_arrays(
            arrow(offsets, pa.int32(), total + 1, missing=None),
            arrow(flat, pa.int64(), flat.size, missing=None),
        ),
    }
    return table_from_columns("attributes", columns, is_sorted=True)
