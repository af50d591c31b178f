"""The header of a recorded trace: provenance, what it can prove, what is suspect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from overlane_collect import __version__
from overlane_collect.clocks import ClockSample, fit_clock
from overlane_collect.decoding.capabilities import capabilities
from overlane_collect.decoding.frames import Gathered
from overlane_collect.model import ClockDomain, Header, IntegrityCheck

__all__ = ["build_header"]

_DOMINANT_FRACTION = 0.9  # one operation with more of the work than this is looked at before it is believed


def build_header(
    gathered: Gathered,
    tables: Mapping[str, pa.Table],
    *,
    origin_ns: int,
    dropped: Mapping[str, int],
    clocks: tuple[ClockDomain, ...],
    damage: str | None,
) -> Header:
    """Return the header.

    Args:
        gathered: The journal.
        tables: Finished tables.
        origin_ns: The trace's origin on the recorder's clock.
        dropped: Reason to count of records that are in no table.
        clocks: Clocks besides the recorder's.
        damage: What is wrong with the journal, or None.
    """
    run, cupti = gathered.fact("run"), gathered.fact("cupti")
    machine = gathered.fact("machine")
    samples = [
        ClockSample(f["clock_ns"], f["unix_ns"], f["error_ns"]) for f in gathered.facts.get("clock", [])
    ]
    fit = fit_clock(samples)
    name = "host" if gathered.fact("brackets") else "cupti"
    own = ClockDomain(name, 0, fit.fit_error_ns if fit else None)
    shifted = tuple(ClockDomain(c.name, c.offset_ns - origin_ns, c.fit_error_ns) for c in clocks)
    return Header(
        format="overlane",
        producer=f"overlane {__version__}",
        origin_unix_ns=None if fit is None else origin_ns + fit.offset_ns,
        command=run.get("command"),
        driver_version=machine.get("driver_version"),
        runtime_version=machine.get("runtime_version"),
        world_size=run.get("world_size"),
        parameters=run.get("parameters", {}),
        repeat_index=run.get("header", {}).get("repeat_index"),
        dropped={reason: count for reason, count in dropped.items() if count},
        source_events=gathered.row_records,
        capabilities=capabilities(gathered, tables),
        integrity=_integrity(gathered, tables, dropped, damage),
        clocks=(own, *shifted),
        synthetic=bool(gathered.fact("fake")),
        extra={
            "cupti_version": cupti.get("version") or None,
            "cupti_python_version": cupti.get("package_version"),
            "cupti_refused": cupti.get("refused", {}),
            "machine": run.get("machine"),
            "python_version": run.get("python"),
            "max_connections": run.get("max_connections"),
            "recording_cost": _cost(gathered, tables),
            **_windows(gathered, origin_ns),
            **_brackets(gathered),
            **{k: v for k, v in machine.items() if k not in {"fact", "driver_version", "runtime_version"}},
            **{k: v for k, v in run.get("header", {}).items() if k != "repeat_index"},
            **{k: v for k, v in gathered.fact("workload").items() if k != "fact"},
        },
    )


def _windows(gathered: Gathered, origin_ns: int) -> dict[str, Any]:
    """Return the intervals in which recording was paused, relative to the origin; nothing without any."""
    changes = sorted(
        [(fact["at"], True) for fact in gathered.facts.get("pause", [])]
        + [(fact["at"], False) for fact in gathered.facts.get("resume", [])]
    )
    paused: list[list[int | None]] = []
    for at, is_pause in changes:
        if is_pause:
            paused.append([at - origin_ns, None])
        elif paused:
            paused[-1][1] = at - origin_ns
    return {"paused_ns": paused} if paused else {}


def _brackets(gathered: Gathered) -> dict[str, Any]:
    """Return how well pairs of events told the times, where they did."""
    fact = gathered.fact("brackets")
    return {"event_brackets": {k: v for k, v in fact.items() if k != "fact"}} if fact else {}


def _cost(gathered: Gathered, tables: Mapping[str, pa.Table]) -> dict[str, Any]:
    """Return what the recording cost, as far as it is known."""
    costs = gathered.facts.get("cost", [])
    last = costs[-1] if costs else {}
    overheads = tables.get("overheads")
    own = 0
    if overheads is not None and overheads.num_rows:
        mine = overheads.filter(pc.fill_null(overheads["of_recording"], False))
        own = pc.sum(pc.subtract(mine["end_ns"], mine["start_ns"])).as_py() or 0
    return {
        "cupti_overhead_ns": own,
        "decoding_thread_ns": last.get("processing_ns"),
        "buffers": last.get("buffers"),
        "records": last.get("records"),
        "per_launch_ns": gathered.fact("calibration").get("per_launch_ns"),
        "per_launch_95_ns": gathered.fact("calibration").get("per_launch_95_ns"),
        "journal_bytes": gathered.fact("end").get("journal_bytes"),
    }


def _old_library(cupti: Mapping[str, Any]) -> IntegrityCheck:
    """Say when the loaded library is older than the package that was written for it."""
    loaded = int(cupti.get("version") or 0)
    numbers = [int(part) for part in str(cupti.get("package_version") or "0.0").split(".")[:2]]
    old = loaded // 100 < numbers[0] * 100 + numbers[-1] if loaded else False
    return IntegrityCheck(
        "cupti_version",
        "warning" if old else "ok",
        int(old),
        f"The loaded libcupti {loaded} is older than cupti-python {cupti.get('package_version')}; "
        "what it does not record is null."
        if old
        else "The loaded libcupti is as new as cupti-python.",
    )


def _whole(gathered: Gathered, damage: str | None) -> IntegrityCheck:
    """Say whether the recording was ended in order."""
    whole = bool(gathered.fact("end")) and damage is None
    return IntegrityCheck(
        "whole_recording",
        "ok" if whole else "warning",
        int(not whole),
        "The recording was ended in order."
        if whole
        else f"The recording was cut short{': ' + damage if damage else ''}; "
        "what was flushed until then is here.",
    )


def _integrity(
    gathered: Gathered, tables: Mapping[str, pa.Table], dropped: Mapping[str, int], damage: str | None
) -> tuple[IntegrityCheck, ...]:
    costs = gathered.facts.get("cost", [])
    lost = costs[-1].get("dropped", 0) if costs else 0
    unreadable = sum(fact["bytes"] for fact in gathered.facts.get("unreadable", []))
    stamps = dropped.get("zero_stamps", 0) + dropped.get("reversed_stamps", 0)
    checks = [
        _check("dropped_records", lost, "failed", "CUPTI dropped {} records for want of buffers."),
        _check(
            "unreadable_buffers", unreadable, "failed", "{} bytes of buffers could not be cut into records."
        ),
        _check(
            "impossible_stamps", stamps, "failed", "{} records had zero or reversed stamps and are left out."
        ),
        _whole(gathered, damage),
        _old_library(gathered.fact("cupti")),
        _check(
            "accesses_without_operation",
            gathered.fact("lost_accesses").get("count", 0),
            "warning",
            "{} declared accesses belong to no operation, as those of launches captured into a graph.",
        ),
        _check(
            "arguments_without_operation",
            gathered.fact("unplaced_arguments").get("count", 0),
            "warning",
            "{} logged arguments belong to no operation, as those of launches captured into a graph.",
        ),
        _check(
            "callback_failures",
            sum(len(fact["sentences"]) for fact in gathered.facts.get("callback_failures", [])),
            "warning",
            "{} callbacks of CUPTI failed, so edges of graphs or accesses may be missing.",
        ),
        _check(
            "unaccounted_records",
            abs(gathered.row_records - sum(dropped.values()) - _record_rows(tables)),
            "failed",
            "{} records are neither in a table nor counted as dropped.",
        ),
    ]
    return (*checks, *_operation_checks(tables.get("ops")))


def _operation_checks(ops: pa.Table | None) -> tuple[IntegrityCheck, ...]:
    if ops is None or not ops.num_rows:
        return ()
    unfinished, without = ops["end_ns"].null_count, ops["correlation_id"].null_count
    return (
        _check("unfinished_operations", unfinished, "warning", "{} operations had not finished."),
        _check("operations_without_call", without, "warning", "{} operations name no call."),
        _dominant(ops),
    )


def _record_rows(tables: Mapping[str, pa.Table]) -> int:
    """Return the rows of the tables in which each row comes from one record."""
    names = ("ops", "api_calls", "syncs", "event_records", "allocations", "overheads")
    return sum(tables[name].num_rows for name in names if name in tables)


def _check(name: str, count: int, status: Any, sentence: str) -> IntegrityCheck:
    return IntegrityCheck(name, status if count else "ok", count, sentence.format(count))


def _dominant(ops: pa.Table) -> IntegrityCheck:
    durations = pc.fill_null(pc.subtract(ops["end_ns"], ops["start_ns"]), 0)
    total, longest = pc.sum(durations).as_py(), pc.max(durations).as_py()
    suspect = ops.num_rows > 1 and total > 0 and longest > _DOMINANT_FRACTION * total
    return IntegrityCheck(
        "dominant_operation",
        "warning" if suspect else "ok",
        int(suspect),
        f"The longest operation holds {longest / total if total else 0:.0%} of the work.",
    )
