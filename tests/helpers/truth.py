"""Compare a trace with the oracle's truth about its file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from helpers.oracle import measure_by_unions
from overlane_collect.schema import TABLES
from overlane_collect.writer import read_members, write_trace

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.oracle import DeviceTruth, FileTruth
    from overlane.analysis.engines import DeviceReport
    from overlane.trace import Trace

__all__ = [
    "assert_accounted",
    "assert_device",
    "assert_figures",
    "assert_lanes",
    "assert_round_trip",
    "assert_times",
]

# Tables whose rows are records of the source; the others are derived from them, or from the header.
RECORD_TABLES = ("ops", "api_calls", "syncs", "ranges", "instants", "overheads")
# Here one record may make several rows, and rows may be derived from records that have a row of their own.
SEVERAL_TABLES = ("event_records", "counters")
NOT_ROWS = ("metadata", "flow", "empty", "other", "no_series")


def assert_accounted(trace: Trace, truth: FileTruth) -> None:
    """Every event of the file is in one table or in a counted reason for leaving it out, and none twice."""
    rows = {name: trace.table(name).num_rows for name in (*RECORD_TABLES, *SEVERAL_TABLES)}
    assert trace.header.extra.get("derived_rows", {}) == truth.derived
    assert trace.header.source_events == truth.events
    assert rows == {name: truth.fates[name] + truth.derived[name] for name in rows}
    assert sum(trace.header.dropped.values()) == sum(truth.fates[fate] for fate in NOT_ROWS)
    assert truth.events == sum(truth.fates.values())
    assert set(truth.fates) <= {*rows, *NOT_ROWS}
    assert all(count > 0 for count in trace.header.dropped.values())


def assert_times(trace: Trace, truth: FileTruth, *, names: bool = True) -> None:
    """Every time of every table is the text's, to the nanosecond, with its name."""
    for table in RECORD_TABLES:
        assert _intervals(trace, table, names) == _expected(truth, table, names), table
    ops = trace.table("ops")
    columns = ("start_ns", "end_ns", "device_id", "stream_id", "engine", "correlation_id")
    found = sorted(zip(*(ops[column].to_pylist() for column in columns), strict=True), key=str)
    expected = [(op.start_ns, op.end_ns, op.device, op.stream, op.engine, op.correlation) for op in truth.ops]
    assert found == sorted(expected, key=str)
    if truth.origin_ns is not None and (truth.base_ns or truth.origin_ns > 10**18):
        assert trace.header.origin_unix_ns == truth.base_ns + truth.origin_ns


def _intervals(trace: Trace, table: str, names: bool) -> list[tuple[Any, ...]]:
    stored = trace.table(table)
    columns = ("at_ns",) if table == "instants" else ("start_ns", "end_ns")
    name = {"overheads": "kind"}.get(table, "name")
    if names and name in stored.schema.names:
        columns += (name,)
    return sorted(zip(*(stored[column].to_pylist() for column in columns), strict=True))


def _expected(truth: FileTruth, table: str, names: bool) -> list[tuple[Any, ...]]:
    named = names and table != "syncs"
    rows = truth.intervals.get(table, [])
    if table == "instants":
        return sorted((start, name) if named else (start,) for start, _, name in rows)
    return sorted((start, end, name) if named else (start, end) for start, end, name in rows)


def assert_figures(trace: Trace, truth: FileTruth) -> None:
    """The engine report of every device equals the oracle's figures, to the nanosecond."""
    from overlane.analysis.engines import engine_report  # noqa: PLC0415 - compiled code, only where it is used

    report = engine_report(trace)
    expected = {(truth.rank, device): figures for device, figures in truth.devices.items()}
    for device, figures in truth.devices.items():
        rows = [(op.start_ns, op.end_ns, op.engine) for op in truth.ops if op.device == device]
        second_opinion = measure_by_unions(rows)
        assert second_opinion == {name: getattr(figures, name) for name in second_opinion}
    found = {(device.rank, device.device_id): device for device in report.devices}
    assert set(found) >= set(expected)
    for key, figures in expected.items():
        assert_device(found[key], figures)


def assert_device(found: DeviceReport, expected: DeviceTruth) -> None:
    """One device's figures and the lengths of their proofs equal the oracle's."""
    assert (found.window, found.window_ns) == (expected.window, expected.window[1] - expected.window[0])
    assert (found.busy_ns, found.idle_ns) == (expected.busy_ns, expected.idle_ns)
    assert {use.engine: use.busy_ns for use in found.engines} == expected.engine_busy_ns
    assert {use.engine: use.work_ns for use in found.engines} == expected.engine_work_ns
    assert {use.engine: use.op_count for use in found.engines} == expected.engine_ops
    pairs = {_pair(each.engine_a, each.engine_b): each for each in found.overlap}
    assert len(pairs) == len(found.overlap)
    assert {pair: each.overlap_ns for pair, each in pairs.items()} == expected.overlap_ns
    assert found.exposed_copy_ns == expected.exposed_copy_ns
    levels = {each.level: each.ns for each in found.concurrency}
    assert levels == {level: ns for level, ns in expected.concurrency_ns.items() if ns}
    if expected.longest_ns:
        _assert_proofs(found, expected.longest_ns)


def _assert_proofs(found: DeviceReport, longest: dict[object, int]) -> None:
    assert _length(found.busy_longest) == longest.get("busy", 0)
    assert _length(found.idle_longest) == longest.get("idle", 0)
    assert _length(found.exposed_longest) == longest.get("exposed", 0)
    for use in found.engines:
        assert _length(use.longest_ns) == longest.get((use.engine,), 0)
    for pair in found.overlap:
        assert _length(pair.longest_ns) == longest.get(_pair(pair.engine_a, pair.engine_b), 0)
    for level in found.concurrency:
        assert _length(level.longest_ns) == longest[level.level]


def _pair(a: str | None, b: str | None) -> tuple[str | None, str | None]:
    first, second = sorted((a, b), key=lambda engine: (engine is None, engine or ""))
    return first, second


def _length(interval: tuple[int, int] | None) -> int:
    return interval[1] - interval[0] if interval else 0


def assert_round_trip(trace: Trace, path: Path) -> None:
    """Written and read again, all tables and the header are equal, from the file and through the reader."""
    from overlane.readers import open_trace  # noqa: PLC0415 - compiled code, only where it is used

    write_trace(path, trace.header, {name: trace.table(name) for name in TABLES})
    header, tables = read_members(path)
    again = open_trace(path)
    for name in TABLES:
        columns = trace.table(name)
        stored = tables.get(name, columns.slice(0, 0))
        assert stored.schema == columns.schema, name
        assert again.table(name).schema == columns.schema, name
        for column in columns.schema.names:
            expected = _plain(columns[column])
            assert _plain(stored[column]).equals(expected), f"{name}.{column}"
            assert _plain(again.table(name)[column]).equals(expected), f"{name}.{column}"
    assert header == trace.header
    assert again.header == trace.header


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return text as text: two dictionaries may number the same words differently."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def assert_lanes(trace: Trace, folder: Path) -> None:
    """Every operation is drawn on its stream's lane with its own times, whatever it overlaps."""
    from overlane.timeline import Timeline  # noqa: PLC0415 - compiled code, only where it is used

    ops = trace.table("ops")
    starts, ends = ops["start_ns"].to_pylist(), ops["end_ns"].to_pylist()
    keys = list(
        zip(*(ops[c].to_pylist() for c in ("rank", "device_id", "context_id", "stream_id")), strict=True)
    )
    drawn: dict[int, int] = {}  # row -> lane
    gathered = 0
    for number, rank in enumerate(trace.ranks):
        place = folder / str(number)
        place.mkdir()
        Timeline.build(trace, rank, place)
        timeline = Timeline.open(trace, rank, place)
        lanes = [lane for lane in timeline.meta()["lanes"] if lane["kind"] == "stream"]
        assert sum(lane["rows"] for lane in lanes) == sum(key[0] == rank for key in keys)
        for lane in lanes:
            wires = range(lane["first"], lane["first"] + lane["sublanes"])
            slices, left = _slices(timeline, list(wires), trace.span_ns + 1)
            gathered += left
            assert len(slices) + left == lane["rows"], lane["label"]
            for row, (start, end) in slices.items():
                assert (start, end) == (starts[row], ends[row])
                assert row not in drawn
                drawn[row] = lane["first"]
    missing = set(range(len(starts))) - set(drawn)
    assert len(missing) == gathered
    assert all(starts[row] == ends[row] for row in missing)  # only points in one place may share an item
    by_lane: dict[int, set[object]] = {}
    for row, lane in drawn.items():
        by_lane.setdefault(lane, set()).add(keys[row])
    assert all(len(streams) == 1 for streams in by_lane.values())


def _slices(timeline: Any, wires: list[int], end: int) -> tuple[dict[int, tuple[int, int]], int]:
    """Zoom into every run of slices until each is drawn alone.

    Returns:
        Row to (start, end) of what is drawn alone, and the number of slices in runs that no zoom takes apart.
    """
    alone: dict[int, tuple[int, int]] = {}
    inseparable: dict[tuple[int, int], int] = {}
    windows = [(0, end, tuple(wires))]
    while windows:
        first, last, lanes = windows.pop()
        tile = timeline.tile(first, last, 4096, lanes)
        columns = (tile.lane, tile.row, tile.start_ns, tile.end_ns, tile.count)
        for wire, row, start, stop, count in zip(*(column.tolist() for column in columns), strict=True):
            if count == 1:
                alone[row] = (start, stop)
            elif (start, stop + 1) == (first, last):
                inseparable[wire, start] = count
            else:
                windows.append((start, stop + 1, (wire,)))
    return alone, sum(inseparable.values())
