"""The report's section on partitions: what was granted, used and shared, and how critical streams waited."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from overlane.analysis.rows.naming import cut, partition_name, stream_name
from overlane.analysis.rows.partitions import (
    isolation_json,
    isolation_rows,
    partition_rows,
    unproven_of_partitions,
)
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
_SPREADS = ("alone", "beside", "elsewhere")


def _text(study: Study, rows: Rows) -> list[Block]:
    from overlane.analysis.proof import why_unproven  # noqa: PLC0415

    if not rows:
        reason = why_unproven(study.trace, "partitions")
        return [reason or "The trace has no partitions."]
    shown = [
        row
        | {
            "label": partition_name(study.trace, row["partition_id"]),
            "busy_fraction": fraction(row["busy_ns"], row["window_ns"]),
            "sms_seen": len(row["sm_ids"]) or None,
            "beside_fraction": fraction(row["beside_ns"], row["compute_ns"]) if row["is_green"] else None,
            "shared_count": _count(row, "shared_sms"),
            "leak_count": _count(row, "leaks"),
        }
        for row in rows
    ]
    blocks: list[Block] = [Table(shown, _COLUMNS, _SHOWN)]
    blocks += [
        f"{partition_name(study.trace, row['partition_id'])}: workqueue {row['workqueue_resource_id']}, "
        f"scope {row['workqueue_scope']}, at most {row['workqueue_limit']} at once."
        for row in rows
        if row["workqueue_resource_id"] is not None
    ]
    blocks += [
        f"{partition_name(study.trace, row['partition_id'])} shares hardware queues {row['shared_channels']} "
        "with another partition of its primary context: their work can wait for one another there."
        for row in rows
        if row["shared_channels"]
    ]
    blocks += [f"Not proven here: {item['reason']}" for item in unproven_of_partitions(study)]
    spreads = [_spread(study, each) for each in isolation_rows(study)]
    flat = [line for lines in spreads for line in lines]
    if flat:
        blocks += [
            "Waits of critical streams for room on the SMs, after everything that they depend on had ended:",
            Table(flat, _ISOLATION, _SHOWN),
        ]
    return blocks


def _count(row: Row, key: str) -> str:
    """Say on how many SMs others were, or how many leaks there are, where the file can tell."""
    if not row["is_green"]:
        return "-"
    if not row["sm_ids"]:
        return "not known"
    return str(sum(each["sm_count"] for each in row[key]) if key == "shared_sms" else len(row[key]))


def _spread(study: Study, row: Row) -> Rows:
    """Return a line for each place in which the kernel ran."""
    place = {
        "alone": "while no other stream's kernel ran",
        "beside": "beside kernels of other streams",
        "elsewhere": "same kernel on other streams",
    }
    return [
        {
            "stream": stream_name(study.trace, row),
            "kernel": cut(row["kernel"]),
            "where": place[key],
            **row[key],
        }
        for key in _SPREADS
        if row[key] is not None
    ]


def _shown(key: str) -> Callable[[Row], str]:
    return lambda row: "not known" if row[key] is None else str(row[key])


_COLUMNS: Columns = (
    ("partition", plain("label")), ("SMs asked", plain("sm_requested")), ("granted", plain("sm_granted")),
    ("seen on", _shown("sms_seen")), ("operations", plain("op_count")), ("busy", ns("busy_ns")),
    ("of window", share("busy_fraction")), ("kernels of others beside", share("beside_fraction")),
    ("shared SMs", plain("shared_count")), ("leaks", plain("leak_count")),
)  # fmt: skip
_ISOLATION: Columns = (
    ("stream", plain("stream")), ("kernel", plain("kernel")), ("waited", plain("where")),
    ("kernels", plain("count")),
    ("median", ns("p50_ns")), ("P90", ns("p90_ns")), ("P99", ns("p99_ns")), ("P99.9", ns("p999_ns")),
    ("longest", ns("max_ns")), ("operation", plain("max_op_id")),
)  # fmt: skip

SECTIONS = (
    Section(
        "partitions",
        "Partitions",
        "SMs granted and used, and the isolation of critical streams",
        partition_rows,
        _text,
        more=isolation_json,
    ),
)
