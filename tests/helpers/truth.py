"""Compare a trace with the oracle's truth about its file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from helpers.oracle import DeviceTruth, FileTruth
    from overlane.trace import Trace

__all__ = ["assert_accounted", "assert_device", "assert_figures", "assert_times"]

# Tables whose rows are records of the source; the others are derived from them, or from the header.
RECORD_TABLES = ("ops", "api_calls", "syncs", "ranges", "instants", "counters", "overheads")
NOT_ROWS = ("metadata", "flow", "empty", "other")


def assert_accounted(trace: Trace, truth: FileTruth) -> None:
    """Every event of the file is in one table or in a counted reason for leaving it out, and none twice."""
    rows = {name: trace.table(name).num_rows for name in RECORD_TABLES}
    dropped = sum(trace.header.dropped.values())
    assert trace.header.source_events == truth.events
    assert sum(rows.values()) + dropped == truth.events
    assert rows == {name: truth.fates.get(name, 0) for name in RECORD_TABLES}
    assert dropped == sum(truth.fates.get(fate, 0) for fate in NOT_ROWS)
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
    columns = ("at_ns",) if table in {"instants", "counters"} else ("start_ns", "end_ns")
    name = {"overheads": "kind"}.get(table, "name")
    if names and name in stored.schema.names:
        columns += (name,)
    return sorted(zip(*(stored[column].to_pylist() for column in columns), strict=True))


def _expected(truth: FileTruth, table: str, names: bool) -> list[tuple[Any, ...]]:
    named = names and table not in {"syncs", "counters"}
    rows = truth.intervals.get(table, [])
    if table in {"instants", "counters"}:
        return sorted((start, name) if named else (start,) for start, _, name in rows)
    return sorted((start, end, name) if named else (start, end) for start, end, name in rows)


def assert_figures(trace: Trace, truth: FileTruth) -> None:
    """The engine report of every device equals the oracle's figures, to the nanosecond."""
    from overlane.analysis.engines import engine_report  # noqa: PLC0415 - compiled code, only where it is used

    report = engine_report(trace)
    expected = {(truth.rank, device): figures for device, figures in truth.devices.items()}
    found = {(device.rank, device.device_id): device for device in report.devices}
    assert set(found) >= set(expected)
    for key, figures in expected.items():
        assert_device(found[key], figures)


def assert_device(found: Any, expected: DeviceTruth) -> None:
    """One device's figures equal the oracle's."""
    raise NotImplementedError
