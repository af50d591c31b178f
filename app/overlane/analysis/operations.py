"""What ran, grouped: kernels, copies and operators by name, family, stream, range or operator.

Operations count with their parts inside the window. `work_ns` adds durations up, so overlapping ones count
twice; it says what a group cost, not how long the device was busy.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from overlane.analysis.keys import NULL, identities, known, words
from overlane.analysis.nesting import Nesting, nesting, stem_of
from overlane.errors import OverlaneError
from overlane.intervals import close_unfinished
from overlane.tables import numbers
from overlane.trace import Trace

__all__ = [
    "Grouping",
    "OperationGroup",
    "Operations",
    "family_of",
    "operations",
    "stream_label",
    "triple_products",
]

Grouping: TypeAlias = Literal["name", "family", "stream", "range", "operator"]
MOST_SHAPES = 20_000
"""With more operators that launched something, their shapes are not read one by one."""

_SHAPE_KEYS = ("Input Dims", "Input dims", "Input Dimensions", "shapes")
_ARGUMENTS = re.compile(r"[<(][^<>()]*[>)]")
_GENERIC = re.compile(r"(?:void )?(?:\w+::)*[Kk]ernel\d*<([^<>,]+)")
_LAMBDAS = re.compile(r"\{[^{}]*\}")


@dataclass(frozen=True)
class OperationGroup:
    """Operations that have the name, family, stream, range or operator in common.

    Attributes:
        label: What they have in common.
        kind: Kind of the operations, `mixed` where there are several.
        engine: Their engine; None where the source does not say or there are several.
        op_count: Operations that touch the window.
        work_ns: Their durations inside the window, added up.
        work_fraction: Share of the durations of all operations.
        median_ns: Median duration.
        least_ns: Shortest.
        most_ns: Longest.
        bytes: Bytes moved or set by those that say; None where none does.
        bytes_ns: Durations of the operations that say their bytes, so that bytes over it is a bandwidth.
        registers: Least and most registers per thread; None where not recorded.
        shared_bytes: Least and most shared memory per block.
        grid_blocks: Least and most blocks of a launch.
        block_threads: Least and most threads of a block.
        shapes: Shapes of the operator's inputs as recorded; empty where not recorded.
        longest_op: Row id in `ops` of the longest.
        longest_start_ns: Its start.
        longest_end_ns: Its end.
        rank: Its rank.
    """

    label: str
    kind: str
    engine: str | None
    op_count: int
    work_ns: int
    work_fraction: float
    median_ns: int
    least_ns: int
    most_ns: int
    bytes: int | None
    bytes_ns: int
    registers: tuple[int, int] | None
    shared_bytes: tuple[int, int] | None
    grid_blocks: tuple[int, int] | None
    block_threads: tuple[int, int] | None
    shapes: str
    longest_op: int
    longest_start_ns: int
    longest_end_ns: int
    rank: int | None


@dataclass(frozen=True)
class Operations:
    """The groups of a trace, the most work first.

    Attributes:
        by: What they are grouped by.
        work_ns: Durations of all operations inside the window, added up.
        op_count: Operations that touch the window.
        groups: The groups.
        note: A sentence on what the grouping could not tell; empty where it told all.
    """

    by: Grouping
    work_ns: int
    op_count: int
    groups: tuple[OperationGroup, ...]
    note: str

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values; pairs are lists, None is null."""
        return {"schema": 1, **dataclasses.asdict(self)}


def family_of(name: str) -> str:
    """Return what is left of a name without types, arguments and numbers.

    Example:
        >>> family_of("void at::native::elementwise_kernel<128, 2, {lambda(int)#1}>(int, float*)")
        'at::native::elementwise_kernel'
        >>> family_of("sm80_xmma_gemm_f32f32_tn_n_tilesize128x64x8_stage3")
        'sm#_xmma_gemm_f#f#_tn_n_tilesize#x#x#_stage#'
        >>> family_of("Memcpy HtoD (Pinned -> Device)")
        'Memcpy HtoD'
    """
    plain = name.replace("(anonymous namespace)", "anonymous").replace("->", "")
    generic = _GENERIC.match(plain)
    if generic:  # the first type says what it is
        plain = generic.group(1)
    for pattern in (_LAMBDAS, _ARGUMENTS):
        before = None
        while before != plain:
            before, plain = plain, pattern.sub("", plain)
    return re.sub(r"\d+", "#", plain.removeprefix("void ").strip()) or name


def stream_label(rank: int | None, device: int | None, stream: int | None, name: str | None) -> str:
    """Return the words for a stream, with rank and device where they are recorded."""
    words_of = [
        "" if rank is None else f"rank {rank}",
        "" if device is None else f"GPU {device}",
        "stream not recorded" if stream is None else f"stream {stream}",
    ]
    return " · ".join(word for word in words_of if word) + (f" ({name})" if name else "")


def operations(trace: Trace, *, by: Grouping = "name", window: tuple[int, int] | None = None) -> Operations:
    """Group the operations of a trace.

    Args:
        trace: Any trace.
        by: `name`; `family` (the name without types, arguments and numbers); `stream`; `range` (the innermost
            annotation around the launch, numbered ones together); `operator` (the innermost framework
            operator around the launch, with the shapes of its inputs where they are recorded).
        window: Start and end in ns from the trace's origin; None for all.

    Raises:
        OverlaneError: The window ends before it starts.

    Example:
        >>> import overlane
        >>> from overlane.analysis.operations import operations
        >>> trace = overlane.open_trace("run.overlane")  # doctest: +SKIP
        >>> operations(trace, by="family").groups[0].label  # doctest: +SKIP
    """
    if window is not None and window[1] < window[0]:
        raise OverlaneError(f"the window {window[0]}:{window[1]} ends before it starts; give its start first")
    ops = trace.table("ops")
    start = trace.column("ops", "start_ns")
    end = known(ops["end_ns"])
    end = close_unfinished(start, end, end == NULL, trace.span_ns)
    low, high = window if window is not None else (0, max(trace.span_ns, int(end.max(initial=0))) + 1)
    rows = np.flatnonzero((start < high) & ((end > low) | (start >= low)))
    codes, labels, shapes, note = _GROUPERS[by](trace)
    lengths = np.minimum(end[rows], high) - np.maximum(start[rows], low)
    total = int(lengths.sum())
    order = np.lexsort((lengths, codes[rows]))
    sorted_codes = codes[rows][order]
    cuts = np.flatnonzero(np.diff(sorted_codes)) + 1
    columns = _Columns(trace)
    groups = [
        _group(columns, (labels[code], shapes.get(code, "")), rows[part], lengths[part], total)
        for part in np.split(order, cuts)
        if len(part)
        for code in [int(codes[rows[part[0]]])]
    ]
    groups.sort(key=lambda group: (-group.work_ns, group.label))
    return Operations(by, total, len(rows), tuple(groups), note)


class _Columns:
    """The columns of `ops` that groups are described by, read once."""

    def __init__(self, trace: Trace) -> None:
        ops = trace.table("ops")
        self.start = trace.column("ops", "start_ns")
        self.end = known(ops["end_ns"])
        self.span_ns = trace.span_ns
        self.kind, self.kinds = words(ops["kind"])
        self.engine, self.engines = words(ops["engine"])
        self.rank = known(ops["rank"])
        self.bytes = known(ops["bytes"])
        self.registers = known(ops["registers"])
        self.shared_bytes = known(ops["shared_bytes"])
        self.grid_blocks = triple_products(ops["grid"])
        self.block_threads = triple_products(ops["block"])


def triple_products(column: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the product of each triple, `NULL` where it is null or no triple."""
    parts = []
    for chunk in column.chunks:
        offsets = np.frombuffer(chunk.buffers()[1], np.int32)[chunk.offset : chunk.offset + len(chunk) + 1]
        is_triple = np.diff(offsets) == 3
        found = np.full(len(chunk), NULL, np.int64)
        if is_triple.any():
            values = numbers(chunk.values, null=0).astype(np.int64)
            first = offsets[:-1][is_triple]
            found[is_triple] = values[first] * values[first + 1] * values[first + 2]
        if chunk.null_count:
            valid = np.frombuffer(chunk.buffers()[0], np.uint8)
            known_rows = np.unpackbits(valid, bitorder="little")[chunk.offset : chunk.offset + len(chunk)]
            found[known_rows == 0] = NULL
        parts.append(found)
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _group(
    columns: _Columns, words_of: tuple[str, str], rows: Any, lengths: Any, total: int
) -> OperationGroup:
    """Describe operations, given with label and shapes and with their lengths in rising order."""
    kinds, engines = np.unique(columns.kind[rows]), np.unique(columns.engine[rows])
    longest = int(rows[-1])
    sized = columns.bytes[rows] != NULL
    work = int(lengths.sum())
    middle = len(lengths) // 2
    median = lengths[middle] if len(lengths) % 2 else (lengths[middle - 1] + lengths[middle]) // 2
    end = int(columns.end[longest])
    rank = int(columns.rank[longest])

    def extent(values: Any) -> tuple[int, int] | None:
        present = values[rows][values[rows] != NULL]
        return (int(present.min()), int(present.max())) if len(present) else None

    return OperationGroup(
        label=words_of[0],
        kind=columns.kinds[kinds[0]] if len(kinds) == 1 else "mixed",
        engine=columns.engines[engines[0]] if len(engines) == 1 and engines[0] >= 0 else None,
        op_count=len(rows),
        work_ns=work,
        work_fraction=work / total if total else 0.0,
        median_ns=int(median),
        least_ns=int(lengths[0]),
        most_ns=int(lengths[-1]),
        bytes=int(columns.bytes[rows][sized].sum()) if sized.any() else None,
        bytes_ns=int(lengths[sized].sum()),
        registers=extent(columns.registers),
        shared_bytes=extent(columns.shared_bytes),
        grid_blocks=extent(columns.grid_blocks),
        block_threads=extent(columns.block_threads),
        shapes=words_of[1],
        longest_op=longest,
        longest_start_ns=int(columns.start[longest]),
        longest_end_ns=columns.span_ns if end == NULL else end,
        rank=None if rank == NULL else rank,
    )


_Grouped: TypeAlias = tuple[np.ndarray[Any, np.dtype[np.int64]], list[str], dict[int, str], str]
"""Code of each operation, label of each code, shapes of some codes, and what could not be told."""


def _by_name(trace: Trace) -> _Grouped:
    codes, names = words(trace.table("ops")["name"])
    return codes.astype(np.int64), names, {}, ""


def _by_family(trace: Trace) -> _Grouped:
    codes, names = words(trace.table("ops")["name"])
    families = [family_of(name) for name in names]
    numbers_of = {family: number for number, family in enumerate(dict.fromkeys(families))}
    of_name = np.array([numbers_of[family] for family in families], np.int64)
    return of_name[codes] if len(codes) else codes.astype(np.int64), list(numbers_of), {}, ""


def _by_stream(trace: Trace) -> _Grouped:
    codes, keys = identities(trace.table("ops"), ("rank", "device_id", "context_id", "stream_id"))
    streams = (
        trace.table("streams").select(["rank", "device_id", "context_id", "stream_id", "name"]).to_pylist()
    )
    names = {tuple(row.values())[:4]: row["name"] for row in streams}
    return codes, [stream_label(key[0], key[1], key[3], names.get(key)) for key in keys], {}, ""


def _by_range(trace: Trace) -> _Grouped:
    nested = nesting(trace)
    place = nested.innermost(nested.is_track("annotation"))
    codes, labels = _range_codes(nested, place, "outside of any range")
    note = _missing(codes, labels, "an annotation around their launch")
    numbers_of = {stem: number for number, stem in enumerate(dict.fromkeys(map(stem_of, labels)))}
    of_label = np.array([numbers_of[stem_of(label)] for label in labels], np.int64)
    return of_label[codes], list(numbers_of), {}, note


def _by_operator(trace: Trace) -> _Grouped:
    nested = nesting(trace)
    place = nested.innermost(nested.is_track("operator"))
    codes, labels = _range_codes(nested, place, "launched by no operator")
    note = _missing(codes, labels, "an operator around their launch")
    launching = np.unique(place[place >= 0])
    if len(launching) > MOST_SHAPES:
        return (
            codes,
            labels,
            {},
            (
                note + f" More than {MOST_SHAPES} operators launched work, so shapes are not told apart."
            ).strip(),
        )
    found: dict[tuple[int, str], int] = {}
    of_place = np.zeros(len(nested.row) + 1, np.int64)
    name_codes = nested.names[0]
    for at in launching:
        shape = _shape(trace, int(nested.row[at]))
        of_place[at] = found.setdefault((int(name_codes[at]), shape), len(found))
    if not any(shape for _, shape in found):
        return codes, labels, {}, (note + " The trace does not record the shapes of inputs.").strip()
    of_place[-1] = len(found)
    names = nested.names[1]
    shown = [names[name] for name, _ in found] + ["launched by no operator"]
    shapes = {code: shape for code, (_, shape) in enumerate(found)}
    return of_place[place], shown, shapes, note


def _shape(trace: Trace, range_row: int) -> str:
    attributes = trace.attributes("ranges", range_row)
    for key in _SHAPE_KEYS:
        if key in attributes:
            return json.dumps(attributes[key])
    return ""


def _range_codes(nested: Nesting, place: Any, without: str) -> tuple[Any, list[str]]:
    codes, names = nested.names
    return np.where(place >= 0, np.append(codes, 0)[place], len(names)), [*names, without]


def _missing(codes: Any, labels: list[str], what: str) -> str:
    count = int((codes == len(labels) - 1).sum())
    if not count:
        return ""
    return f"{count} of {len(codes)} operations have no record of {what}."


_GROUPERS: dict[Grouping, Callable[[Trace], _Grouped]] = {
    "name": _by_name,
    "family": _by_family,
    "stream": _by_stream,
    "range": _by_range,
    "operator": _by_operator,
}
