"""`overlane info`: what a trace holds, what it can prove, and what is suspect."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from overlane.commands.loading import add_trace_argument, load
from overlane.commands.output import json_text, printable
from overlane.commands.tables import table_text

if TYPE_CHECKING:
    from overlane.trace import Trace

__all__ = ["COMMAND", "InfoCommand", "trace_info"]

JSON_VERSION = 1


class InfoCommand:
    """Prints the facts of one trace."""

    name = "info"
    help = "tell what a trace holds: devices, streams, counts, span, what it can prove and what is suspect"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the trace and the form of the answer."""
        add_trace_argument(parser)
        parser.add_argument("--json", action="store_true", help="print JSON instead of text")

    def run(self, arguments: argparse.Namespace) -> int:
        """Print what the trace holds.

        Raises:
            TraceUnreadableError: The file cannot be read as a trace.
        """
        info = trace_info(load(arguments.trace))
        if arguments.json:
            sys.stdout.write(json_text(info))
        else:
            sys.stdout.write(_text(printable(info)))
        return 0


def trace_info(trace: Trace) -> dict[str, Any]:
    """Return the facts of a trace as JSON values.

    Returns:
        `schema`, `name`, `format`, `producer`, `span_ns`, `origin_unix_ns`, `is_synthetic`, `ranks`;
        `devices`, `streams` and `partitions` as lists; `counts` from kind of operation and from table to
        rows; `source_events` and `dropped` (reason to count); `capabilities` (name to `proven` and
        `reason`); `integrity` (list of `check`, `status`, `count`, `detail`).
    """
    from overlane_collect.schema import OP_KINDS, TABLES  # noqa: PLC0415 - help must answer at once

    header = trace.header.to_json()
    kinds = _value_counts(trace, "kind")
    return {
        "schema": JSON_VERSION,
        "name": trace.name,
        "format": header["format"],
        "producer": header["producer"],
        "driver_version": header["driver_version"],
        "runtime_version": header["runtime_version"],
        "is_synthetic": header["synthetic"],
        "span_ns": trace.span_ns,
        "origin_unix_ns": header["origin_unix_ns"],
        "ranks": list(trace.ranks),
        "world_size": header["world_size"],
        "devices": _devices(trace),
        "streams": _streams(trace),
        "partitions": [
            {"partition_id": number, **row}
            for number, row in enumerate(trace.table("partitions").to_pylist())
        ],
        "counts": {
            **{kind: kinds.get(kind, 0) for kind in OP_KINDS},
            **{name: trace.table(name).num_rows for name in TABLES},
        },
        "source_events": header["source_events"],
        "dropped": header["dropped"],
        "capabilities": header["capabilities"],
        "integrity": list(header["integrity"]),
    }


def _value_counts(trace: Trace, column: str) -> dict[Any, int]:
    import pyarrow.compute as pc  # noqa: PLC0415

    counts = pc.value_counts(trace.table("ops")[column]).to_pylist()
    return {item["values"]: item["counts"] for item in counts}


def _devices(trace: Trace) -> list[dict[str, Any]]:
    """Return every device that the trace names or that has operations, with its busy and idle time."""
    from overlane.analysis.engines import engine_report  # noqa: PLC0415 - loads compiled code

    measured = {(d.rank, d.device_id): d for d in engine_report(trace).devices}
    rows = {(row["rank"], row["device_id"]): row for row in trace.table("devices").to_pylist()}
    unnamed = dict.fromkeys(trace.table("devices").schema.names)
    devices = []
    for key in [*rows, *(key for key in measured if key not in rows)]:
        device = measured.get(key)
        facts = rows.get(key, {**unnamed, "rank": key[0], "device_id": key[1]})
        figures = {
            "window_ns": device.window_ns if device else 0,
            "busy_ns": device.busy_ns if device else 0,
            "idle_ns": device.idle_ns if device else 0,
            "op_count": device.op_count if device else 0,
        }
        devices.append({**facts, **figures})
    return devices


def _streams(trace: Trace) -> list[dict[str, Any]]:
    """Return every stream that the trace names or that has operations, with how many."""
    keys = ["rank", "device_id", "context_id", "stream_id"]
    grouped = trace.table("ops").select([*keys, "kind"]).group_by(keys, use_threads=False)
    counted = grouped.aggregate([("kind", "count")]).to_pylist()
    counts = {tuple(row[key] for key in keys): row["kind_count"] for row in counted}
    streams = trace.table("streams").to_pylist()
    known = {tuple(row[key] for key in keys) for row in streams}
    unknown = dict.fromkeys(trace.table("streams").schema.names)
    streams += [{**unknown, **dict(zip(keys, key, strict=True))} for key in counts if key not in known]
    return [{**row, "op_count": counts.get(tuple(row[key] for key in keys), 0)} for row in streams]


def _text(info: dict[str, Any]) -> str:
    from overlane.figures.units import format_count, format_ns  # noqa: PLC0415

    counts = ", ".join(f"{format_count(n)} {name}" for name, n in info["counts"].items() if n)
    producer = f", written by {info['producer']}" if info["producer"] else ""
    lines = [
        info["name"] + (" (synthetic)" if info["is_synthetic"] else ""),
        f"  format    {info['format']}{producer}",
        f"  span      {format_ns(info['span_ns'])} ({info['span_ns']} ns)",
        f"  ranks     {', '.join('not named' if rank is None else str(rank) for rank in info['ranks'])}",
        f"  rows      {counts or 'none'}",
        "",
    ]
    if not any(device["op_count"] for device in info["devices"]):
        lines += ["No device operations: this trace holds no GPU work.", ""]
    if info["devices"]:
        head = ["rank", "device", "name", "operations", "window", "busy", "idle"]
        rows = [
            [
                _id(d["rank"]), _id(d["device_id"]), d["name"] or "", str(d["op_count"]),
                *(format_ns(d[key]) for key in ("window_ns", "busy_ns", "idle_ns")),
            ]
            for d in info["devices"]
        ]  # fmt: skip
        lines += [table_text(head, rows), ""]
    if info["streams"]:
        head = ["rank", "device", "context", "stream", "kind", "operations"]
        rows = [
            [
                _id(s["rank"]), _id(s["device_id"]), _id(s["context_id"]), _id(s["stream_id"]),
                s["stream_kind"] or "not recorded", str(s["op_count"]),
            ]
            for s in info["streams"]
        ]  # fmt: skip
        lines += [table_text(head, rows), ""]
    if info["partitions"]:
        head = ["partition", "rank", "device", "context", "name", "SMs"]
        rows = [
            [
                _id(p["partition_id"]), _id(p["rank"]), _id(p["device_id"]), _id(p["context_id"]),
                p["name"] or "", _id(p["sm_granted"]),
            ]
            for p in info["partitions"]
        ]  # fmt: skip
        lines += [table_text(head, rows), ""]
    lines += _statements(info)
    return "\n".join(lines) + "\n"


def _statements(info: dict[str, Any]) -> list[str]:
    """Return what the file can prove and what is suspect, one line each."""
    lines = ["What this file can prove:"]
    for name, item in info["capabilities"].items():
        lines.append(f"  {'yes' if item['proven'] else 'no ':3}  {name.replace('_', ' ')}: {item['reason']}")
    lines += ["", "Integrity:"]
    for item in info["integrity"]:
        count = f" ({item['count']})" if item["count"] else ""
        lines.append(f"  {item['status']:7}  {item['check'].replace('_', ' ')}{count}: {item['detail']}")
    for reason, count in info["dropped"].items():
        lines.append(f"  left out {count}: {reason.replace('_', ' ')}")
    return lines


def _id(value: int | None) -> str:
    return "-" if value is None else str(value)


COMMAND = InfoCommand()
