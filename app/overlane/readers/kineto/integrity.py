"""What is suspect in a Kineto trace."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overlane.readers.kineto.compiled import count_overlaps
from overlane.readers.kineto.details import distinct_rows
from overlane.readers.kineto.keys import Class
from overlane.readers.kineto.names import words_by_code
from overlane.readers.kineto.rows import UNSET_IDS, Rows
from overlane.readers.kineto.settle import Settled
from overlane.readers.kineto.text import MISSING
from overlane_collect.model import IntegrityCheck

__all__ = ["integrity_checks"]

Array = np.ndarray[Any, Any]

_ROUND_COUNTS = (1_000_000, 5_000_000)
_GIANT_FRACTION = 0.5
_GIANT_MIN_OPS = 10
_DAY_NS = 86_400_000_000_000
_US_SAMPLE = 100_000
_SHOWN_CATEGORIES, _SHOWN_LETTERS = 5, 40


def _check(
    check: str, count: int, bad: str, good: str, *, status: Literal["warning", "failed"] = "warning"
) -> IntegrityCheck:
    return IntegrityCheck(check, status if count else "ok", count, bad if count else good)


def integrity_checks(
    rows: Rows,
    settled: Settled,
    tables: dict[str, pa.Table],
    ops: Array,
    calls: Array,
    *,
    counts: dict[str, int],
    listed: set[int],
) -> tuple[IntegrityCheck, ...]:
    """Return every check with its result.

    Args:
        rows: The rows.
        settled: What was decided about them.
        tables: The tables.
        ops: Source row of each operation, in canonical order.
        calls: Source row of each call, in canonical order.
        counts: The scanner's counts, as `Scanned.counts` has them.
        listed: Devices in the file's device list.
    """
    start = rows.ts[ops]
    dur = rows.dur[ops]
    end = np.where(dur == MISSING, start, start + dur)
    return (
        *_device_work(ops.size, counts["lost_ops"]),
        _taken(settled.taken),
        _without_launch(rows, ops, calls),
        _check(
            "impossible_durations", settled.impossible + counts["absurd"],
            "negative or impossible durations; these rows are kept with no length",
            "every duration is possible", status="failed",
        ),
        _oversized(counts["oversized"]),
        _check(
            "unfinished", int(np.count_nonzero(dur == MISSING)),
            "operations without an end", "every operation has an end",
        ),
        _overlaps(tables["ops"], start, end),
        _check(
            "zero_length_operations", int(np.count_nonzero(dur == 0)),
            "operations last 0 ns", "no operation lasts 0 ns",
        ),
        _giant(start, end),
        _whole_us(rows),
        _round(counts["events"]),
        _devices(tables["ops"], listed),
        _outliers(rows, settled),
        _steps(rows, start, end),
    )  # fmt: skip


def _device_work(ops: int, lost: int) -> tuple[IntegrityCheck, IntegrityCheck]:
    """Return whether there is device work, and whether some of it was left out for want of a time."""
    left_out = f", as all of its {lost} have no possible time stamp and are left out" if lost else ""
    return (
        _check(
            "no_device_work", int(not ops),
            f"the trace holds no device operation{left_out}", "the trace holds device operations",
        ),
        _check(
            "untimed_operations", lost,
            "device operations have no possible time stamp and are left out: busy times lack them",
            "every device operation has a time stamp", status="failed",
        ),
    )  # fmt: skip


def _taken(categories: list[str]) -> IntegrityCheck:
    shown = ", ".join(name[:_SHOWN_LETTERS] for name in categories[:_SHOWN_CATEGORIES])
    more = f" and {len(categories) - _SHOWN_CATEGORIES} more" if len(categories) > _SHOWN_CATEGORIES else ""
    return _check(
        "unknown_categories", len(categories),
        "unknown categories were taken for device work, since their events name a device and a stream: "
        f"{shown}{more}",
        "no unknown category was taken for device work",
    )  # fmt: skip


def _round(events: int) -> IntegrityCheck:
    return _check(
        "round_event_count", int(events in _ROUND_COUNTS),
        f"the file holds exactly {events} events: its writer may have stopped at a limit",
        "the number of events is no usual limit",
    )  # fmt: skip


def _oversized(count: int) -> IntegrityCheck:
    return _check(
        "oversized_ids", count,
        "ids and sizes do not fit into 64 bits; their columns are empty, the attributes hold them",
        "every id and size fits into 64 bits",
    )  # fmt: skip


def _without_launch(rows: Rows, ops: Array, calls: Array) -> IntegrityCheck:
    ids = rows.correlation[ops]
    launched = np.isin(ids, rows.correlation[calls]) & ~np.isin(ids, (MISSING, *UNSET_IDS))
    return _check(
        "operations_without_launch", int(np.count_nonzero(~launched)),
        "operations have no recorded call that started them", "every operation has the call that started it",
    )  # fmt: skip


def _overlaps(ops: pa.Table, start: Array, end: Array) -> IntegrityCheck:
    count = 0
    if start.size:
        streams, tracks = distinct_rows(ops, ("device_id", "context_id", "stream_id"))
        count = int(count_overlaps(tracks.astype(np.int32), len(streams), start, end))
    return _check(
        "same_stream_overlaps", count,
        "operations start before an earlier one of their stream has ended; they are kept as they are",
        "no operation starts before an earlier one of its stream has ended",
    )  # fmt: skip


def _giant(start: Array, end: Array) -> IntegrityCheck:
    count = 0
    if start.size >= _GIANT_MIN_OPS:
        window = int(end.max() - start.min())
        count = int(np.count_nonzero((end - start) > _GIANT_FRACTION * window))
    return _check(
        "giant_operation", count,
        "one operation lasts more than half of the device's window",
        "no operation lasts more than half of the device's window",
    )  # fmt: skip


def _whole_us(rows: Rows) -> IntegrityCheck:
    sample = rows.ts[:_US_SAMPLE][rows.phase[:_US_SAMPLE] != ord("M")]
    whole = sample.size > _GIANT_MIN_OPS and not np.any(sample % 1000)
    return _check(
        "whole_microseconds", int(whole),
        "all stamps are whole microseconds: neighbours may seem to overlap or to last 0 ns",
        "stamps are finer than microseconds",
    )  # fmt: skip


def _devices(ops: pa.Table, listed: set[int]) -> IntegrityCheck:
    seen = {device for device in pc.unique(ops["device_id"]).to_pylist() if device is not None}
    missing = sorted(seen - listed)
    return _check(
        "devices_not_listed", len(missing),
        f"operations name devices {', '.join(map(str, missing))}, which the file's device list lacks",
        "every device of the operations is in the file's list",
    )  # fmt: skip


def _outliers(rows: Rows, settled: Settled) -> IntegrityCheck:
    kept = rows.ts[(settled.target > 0) & (rows.phase != ord("M"))]
    count = 0
    if kept.size > 1:
        middle = np.partition(kept, kept.size // 2)[kept.size // 2]
        count = int(np.count_nonzero(np.abs(kept - middle) > _DAY_NS))
    return _check(
        "outlying_stamps", count,
        "stamps lie more than a day from the middle of the trace",
        "no stamp lies far from the others", status="failed",
    )  # fmt: skip


def _steps(rows: Rows, start: Array, end: Array) -> IntegrityCheck:
    """Count profiler steps (annotations called `ProfilerStep#...`) during which no device operation ran."""
    chosen = np.flatnonzero(rows.rows_of(Class.ANNOTATION) & (rows.name >= 0) & (rows.phase != ord("M")))
    words = words_by_code(rows, rows.name[chosen])
    steps = [row for row in chosen.tolist() if (words[rows.name[row]] or "").startswith("ProfilerStep#")]
    latest = np.maximum.accumulate(end) if end.size else end
    count = 0
    for row in steps:
        low, dur = int(rows.ts[row]), int(rows.dur[row])
        before = start.size if dur == MISSING else int(np.searchsorted(start, low + dur))
        count += int(not before or latest[before - 1] <= low)
    return _check(
        "steps_without_device_work", count,
        f"of {len(steps)} profiler steps had no device operation",
        "every profiler step has device operations, or there are no steps",
    )  # fmt: skip
