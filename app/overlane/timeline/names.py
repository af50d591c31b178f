"""Names of rows, as codes over the dictionaries of a trace's tables."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from overlane.tables import numbers
from overlane.timeline.columns import one_chunk
from overlane.timeline.layers import NAME_COLUMNS
from overlane.timeline.tile import NO_NAME
from overlane.trace import Trace

__all__ = ["Names", "short_name"]

Array = npt.NDArray[Any]

_LONGEST = 120


def short_name(name: str) -> str:
    """Return an operation's name without return type, template arguments, parameters and namespaces.

    >>> short_name("Memcpy HtoD (Pageable -> Device)")
    'Memcpy HtoD'
    >>> short_name("void at::native::fill<4, at::Functor<float> >(int, at::Functor<float>)")
    'fill'
    """
    if not ("::" in name or "<" in name or name.startswith("void ")):
        return (name.split("(", maxsplit=1)[0].strip() or name)[:_LONGEST]
    kept = []
    depth = 0
    for at, char in enumerate(name):
        # Outside of all brackets, those of `operator()` and `operator<` belong to the name itself.
        if char in "<(" and (depth or not name[:at].endswith("operator")):
            depth += 1
        elif char in ">)" and depth:
            depth -= not name[:at].endswith("-")
        elif depth == 0:
            kept.append(char)
    words = "".join(kept).strip().split(" ")
    last = words[-1].split("::")[-1] if words[-1] else ""
    return (last or name)[:_LONGEST]


class Names:
    """Codes and words of all named tables; the dictionaries stand one after another.

    Args:
        trace: Trace whose rows are named.
    """

    def __init__(self, trace: Trace) -> None:
        self._indices: dict[str, Array] = {}
        self._dictionaries: dict[str, pa.Array] = {}
        self._base: dict[str, int] = {}
        self._pieces: dict[int, bytes] = {}
        total = 0
        for table, column in NAME_COLUMNS.items():
            values = one_chunk(trace.table(table)[column])
            self._indices[table] = numbers(values.indices, null=-1)
            self._dictionaries[table] = values.dictionary
            self._base[table] = total
            total += len(values.dictionary)
        self.size = total
        blocks = trace.table("blocks")
        if blocks.num_rows:  # a block has the name of its kernel
            self._indices["blocks"] = self._indices["ops"][numbers(blocks["op_id"])]
            self._dictionaries["blocks"] = self._dictionaries["ops"]
            self._base["blocks"] = self._base["ops"]

    @property
    def tables(self) -> tuple[str, ...]:
        """Tables whose rows have names."""
        return tuple(self._indices)

    def codes(self, table: str, rows: Array) -> Array:
        """Return the name codes of rows, uint32; `NO_NAME` for rows of tables without names."""
        if table not in self._indices:
            return np.full(len(rows), NO_NAME, np.uint32)
        indices = self._indices[table][rows]
        return np.where(indices < 0, NO_NAME, indices.astype(np.int64) + self._base[table]).astype(np.uint32)

    def word(self, table: str, row: int) -> str | None:
        """Return the full name of one row, None when its table has no names."""
        if table not in self._indices or self._indices[table][row] < 0:
            return None
        return str(self._dictionaries[table][int(self._indices[table][row])].as_py())

    def as_json(self, codes: Array) -> bytes:
        """Return a JSON object from the codes that occur to their short names, in order of code."""
        seen = np.zeros(self.size + 1, bool)
        seen[np.minimum(codes, self.size)] = True
        pieces = []
        for code in np.flatnonzero(seen[:-1]).tolist():
            piece = self._pieces.get(code)
            if piece is None:
                piece = self._pieces[code] = self._piece(code)
            pieces.append(piece)
        return b"{" + b",".join(pieces) + b"}"

    def _piece(self, code: int) -> bytes:
        table = max(
            (t for t, base in self._base.items() if base <= code and len(self._dictionaries[t])),
            key=self._base.__getitem__,
        )
        name = self._dictionaries[table][code - self._base[table]].as_py()
        word = short_name(name) if table == "ops" else name[:_LONGEST]
        return f'"{code}":{json.dumps(word, ensure_ascii=False)}'.encode("utf-8", "replace")

    def matching(self, table: str, text: str) -> Array:
        """Return which words hold `text`, ignoring case: bool, and False at the end for no name."""
        words = self._dictionaries[table]
        hits = pc.match_substring(words, text, ignore_case=True)
        found = np.zeros(len(words) + 1, bool)
        found[:-1] = [bool(hit) for hit in hits.to_pylist()]
        return found

    def indices(self, table: str) -> Array:
        """Return the dictionary indices of a table's rows, -1 for no name."""
        return self._indices[table]
