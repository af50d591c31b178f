"""The report's sections on engines: busy time, overlap, exposed copies, concurrency."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from overlane.commands.report.section import (
    DEVICE,
    Block,
    Columns,
    Row,
    Rows,
    Section,
    Table,
    fraction,
    longest,
    ns,
    plain,
    share,
)

if TYPE_CHECKING:
    from overlane.analysis.engines import DeviceReport
    from overlane.analysis.study import Study

__all__ = ["SECTIONS"]


def _engine_rows(study: Study) -> Rows:
    return [
        {
            "rank": d.rank,
            "device_id": d.device_id,
            "engine": use.engine,
            "busy_ns": use.busy_ns,
            "busy_fraction": fraction(use.busy_ns, d.window_ns),
            "work_ns": use.work_ns,
            "op_count": use.op_count,
            "longest_ns": use.longest_ns,
        }
        for d in study.engines.devices
        for use in d.engines
    ]


def _overlap_rows(study: Study) -> Rows:
    return [
        {
            "rank": d.rank,
            "device_id": d.device_id,
            "engine_a": pair.engine_a,
            "engine_b": pair.engine_b,
            "overlap_ns": pair.overlap_ns,
            "overlap_fraction": fraction(pair.overlap_ns, d.window_ns),
            "longest_ns": pair.longest_ns,
        }
        for d in study.engines.devices
        for pair in d.overlap
    ]


def _exposed_rows(study: Study) -> Rows:
    rows = []
    for d in study.engines.devices:
        each = [
            (use.engine, use.exposed_ns, use.exposed_longest_ns)
            for use in d.engines
            if use.exposed_ns is not None
        ]
        for engine, exposed_ns, proof in (
            [*each, ("all_copies", d.exposed_copy_ns, d.exposed_longest)] if each else []
        ):
            rows.append(
                {
                    "rank": d.rank,
                    "device_id": d.device_id,
                    "engine": engine,
                    "exposed_ns": exposed_ns,
                    "exposed_fraction": fraction(exposed_ns or 0, d.window_ns),
                    "longest_ns": proof,
                }
            )
    return rows


def _concurrency_rows(study: Study) -> Rows:
    return [
        {
            "rank": d.rank,
            "device_id": d.device_id,
            "concurrency": level.level,
            "at_level_ns": level.ns,
            "at_level_fraction": fraction(level.ns, d.window_ns),
            "longest_ns": level.longest_ns,
        }
        for d in study.engines.devices
        for level in d.concurrency
    ]


def _no_engines(_: DeviceReport) -> str:
    return "No engine was used."


def _no_overlap(device: DeviceReport) -> str:
    used = "Only one engine was used" if device.engines else "No engine was used"
    return f"{used}, so nothing can overlap."


def _no_exposed(_: DeviceReport) -> str:
    return "No copy engine was used, so no copy can be exposed."


def _no_concurrency(_: DeviceReport) -> str:
    return "The window holds no time."


def _text(columns: Columns, why_empty: Callable[[DeviceReport], str]) -> Callable[[Study, Rows], list[Block]]:
    """Return what gives a section's table, and for every device without a row why it has none."""

    def text(study: Study, rows: Rows) -> list[Block]:
        shown = {(row["rank"], row["device_id"]) for row in rows}
        devices = study.engines.devices
        reasons = [
            ("" if len(devices) == 1 else f"{_device_name(device)}: ") + why_empty(device)
            for device in devices
            if (device.rank, device.device_id) not in shown
        ]
        return [Table(rows, columns), *reasons]

    return text


def _device_name(device: DeviceReport) -> str:
    rank = "" if device.rank is None else f"rank {device.rank}, "
    return f"{rank}device {'-' if device.device_id is None else device.device_id}"


def _engine(key: str) -> Callable[[Row], str]:
    return lambda row: row[key] or "unclassified"


_PROOF = ("longest, ns", longest("longest_ns"))
_ENGINES: Columns = (
    *DEVICE, ("engine", _engine("engine")), ("operations", plain("op_count")), ("busy", ns("busy_ns")),
    ("of window", share("busy_fraction")), ("sum of durations", ns("work_ns")), _PROOF,
)  # fmt: skip
_OVERLAP: Columns = (
    *DEVICE, ("engine", _engine("engine_a")), ("and", _engine("engine_b")), ("overlap", ns("overlap_ns")),
    ("of window", share("overlap_fraction")), _PROOF,
)  # fmt: skip
_EXPOSED: Columns = (
    *DEVICE, ("engine", _engine("engine")), ("exposed", ns("exposed_ns")),
    ("of window", share("exposed_fraction")), _PROOF,
)  # fmt: skip
_CONCURRENCY: Columns = (
    *DEVICE, ("open", plain("concurrency")), ("time", ns("at_level_ns")),
    ("of window", share("at_level_fraction")), _PROOF,
)  # fmt: skip

SECTIONS = (
    Section("engines", "Engines", "busy time of each engine", _engine_rows, _text(_ENGINES, _no_engines)),
    Section(
        "overlap",
        "Overlap of engines",
        "time in which two engines were both busy",
        _overlap_rows,
        _text(_OVERLAP, _no_overlap),
    ),
    Section(
        "exposed",
        "Exposed copies",
        "copy time in which nothing computed",
        _exposed_rows,
        _text(_EXPOSED, _no_exposed),
    ),
    Section(
        "concurrency",
        "Operations open at once",
        "time at each number of open operations",
        _concurrency_rows,
        _text(_CONCURRENCY, _no_concurrency),
    ),
)
