"""The report's sections on causes: why operations waited, why streams, partitions and devices idled."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from overlane.analysis.rows.idle import IDLE_SCOPES, idle_rows
from overlane.analysis.rows.naming import cut, device_name, partition_name, stream_name
from overlane.analysis.rows.waits import distribution_by, wait_distributions, wait_rows
from overlane.commands.report.section import (
    Block,
    Columns,
    Row,
    Rows,
    Section,
    Table,
    fraction,
    ns,
    plain,
    share,
)

if TYPE_CHECKING:
    from overlane.analysis.study import Study

__all__ = ["SECTIONS"]

_SHOWN = 15
_NAMED = 8
_EARLY = (
    "Of all the time between issue and start of operations. What is issued early waits long without harm: "
    "look at what else than the order of its own stream it waited for."
)


def _wait_text(study: Study, rows: Rows) -> list[Block]:
    from overlane.analysis.proof import why_unproven  # noqa: PLC0415

    total = sum(row["total_ns"] for row in rows)
    if not total:
        reason = why_unproven(study.trace, "launch_times")
        return [reason or "No operation waited."]
    lines = [
        row | {"fraction": fraction(row["total_ns"], total), "who": stream_name(study.trace, row)}
        for row in rows
    ]
    below = sum(row["below_fit_error_ns"] for row in rows)
    blocks: list[Block] = [
        _EARLY,
        Table(lines, _WAITS, _SHOWN),
    ]
    kernels = [dataclasses.asdict(each) for each in distribution_by(study, "name")]
    kernels.sort(key=lambda row: -row["p99_ns"])
    blocks += ["Whole waits by name, the longest P99 first:", Table(kernels, _BY_NAME, _NAMED)]
    unknown = sum(row["total_ns"] for row in rows if row["cause"] == "unknown")
    lacking = study.waits_in_window.untold_ns()
    if unknown and lacking:
        blocks.append(
            f"{_format(unknown)} has no cause that this file can prove. It lacks what could have held the "
            f"operations meanwhile: {', '.join(name.replace('_', ' ') for name in lacking)}."
        )
    if below:
        blocks.append(f"{_format(below)} of it compares two clocks closer than they are known to agree.")
    return blocks


def _idle_text(study: Study, rows: Rows) -> list[Block]:
    from overlane.analysis.proof import why_unproven  # noqa: PLC0415

    if not any(row["idle_ns"] for row in rows):
        return ["Nothing idled."]
    blocks: list[Block] = []
    windows = {(d.rank, d.device_id): d.window_ns for d in study.engines.devices}
    for scope in IDLE_SCOPES:
        lines = [
            {
                "who": _who(study, row),
                "idle_ns": row["idle_ns"],
                "cause": cause.replace("_", " "),
                "cause_ns": spent,
                "cause_fraction": fraction(spent, row["idle_ns"]),
                "window_fraction": fraction(spent, windows.get((row["rank"], row["device_id"]), 0)),
                "longest": row["longest"][cause],
                "host": _host(study, row["longest"][cause]),
            }
            for row in rows
            if row["scope"] == scope and row["idle_ns"]
            for cause, spent in row["causes"].items()
        ]
        # Where a device has one partition, or a partition one stream, the same lines would stand twice.
        if scope != "partition" or _is_parted(rows):
            head: Columns = ((scope, plain("who")), *_IDLE)
            blocks.append(Table(lines, head, _SHOWN))
    missing = why_unproven(study.trace, "launch_times")
    if missing:
        blocks.append(f"Why the host issued work late is unknown here. {missing}")
    return blocks


def _is_parted(rows: Rows) -> bool:
    """Tell whether a device has more than one partition."""
    parted = [(row["rank"], row["device_id"]) for row in rows if row["scope"] == "partition"]
    return len(parted) > len(set(parted))


def _who(study: Study, row: Row) -> str:
    if row["scope"] == "device":
        return device_name(row)
    if row["scope"] == "partition":
        return partition_name(study.trace, row["partition_id"])
    return stream_name(study.trace, row)


def _host(study: Study, longest: Row) -> str:
    """Say in which call or range the host was, or which call proves the part."""
    call = longest["call_id"]
    if call is None and longest["proof_table"] == "api_calls":
        call = longest["proof_row"]
    names = [
        cut(study.trace.table(table)["name"][row].as_py())
        for table, row in (("api_calls", call), ("ranges", longest["range_id"]))
        if row is not None
    ]
    if not names and longest["proof_table"] == "syncs":
        names = [f"{study.trace.row('syncs', longest['proof_row'])['sync_kind'].replace('_', ' ')} sync"]
    return " in ".join(names) or "-"


def _format(length_ns: int) -> str:
    from overlane.figures.units import format_ns  # noqa: PLC0415

    return format_ns(length_ns)


def _where(row: Row) -> str:
    return f"{row['longest']['start_ns']}:{row['longest']['end_ns']}"


_WAITS: Columns = (
    ("stream", plain("who")), ("cause", lambda row: row["cause"].replace("_", " ")),
    ("waited", ns("total_ns")), ("of all", share("fraction")), ("operations", plain("op_count")),
    ("median", ns("p50_ns")), ("P99", ns("p99_ns")), ("longest", ns("max_ns")), ("longest, ns", _where),
)  # fmt: skip
_BY_NAME: Columns = (
    ("name", lambda row: cut(row["key"] or "-")), ("operations", plain("count")), ("median", ns("p50_ns")),
    ("P90", ns("p90_ns")), ("P99", ns("p99_ns")), ("P99.9", ns("p999_ns")), ("longest", ns("max_ns")),
)  # fmt: skip
_IDLE: Columns = (
    ("idle", ns("idle_ns")), ("cause", plain("cause")), ("time", ns("cause_ns")),
    ("of idle", share("cause_fraction")), ("of window", share("window_fraction")),
    ("the host was in", plain("host")), ("longest, ns", _where),
)  # fmt: skip

SECTIONS = (
    Section(
        "waits",
        "Waits by cause",
        "why operations waited after they were issued",
        wait_rows,
        _wait_text,
        more=wait_distributions,
    ),
    Section("idle", "Idle time by cause", "why devices, partitions and streams idled", idle_rows, _idle_text),
)
