"""`overlane report`: the answers of the analyses, as text, Markdown or JSON."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from overlane.commands.loading import add_trace_argument, load
from overlane.commands.output import json_text, printable
from overlane.commands.tables import table_text

if TYPE_CHECKING:
    from overlane.analysis.engines import DeviceReport, EngineReport
    from overlane.trace import Trace

__all__ = ["COMMAND", "SECTIONS", "ReportCommand", "Section", "report_json"]

JSON_VERSION = 1
_REACH_NS = 1 << 62  # the length of any window has 63 bits then
_Rows: TypeAlias = list[dict[str, Any]]
_Columns: TypeAlias = tuple[tuple[str, Callable[[dict[str, Any]], str]], ...]


@dataclass(frozen=True)
class Section:
    """One section of the report.

    Attributes:
        name: What `--section` takes, and the key in the JSON.
        title: Heading of the text.
        help: What it answers.
        rows: From the engine report to the section's list in the JSON.
        why_empty: The sentence that stands in the text for a device without rows.
        columns: Column titles of the text table, with what each shows of a row.
    """

    name: str
    title: str
    help: str
    rows: Callable[[EngineReport], _Rows]
    why_empty: Callable[[DeviceReport], str]
    columns: _Columns


class ReportCommand:
    """Prints what the analyses find in one trace."""

    name = "report"
    help = "report how the engines of each device shared its time: busy, idle, overlap, exposed copies"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the trace, what to report and in which form."""
        add_trace_argument(parser)
        known = "; ".join(f"{section.name}: {section.help}" for section in SECTIONS)
        parser.add_argument(
            "--section",
            action="append",
            choices=[section.name for section in SECTIONS],
            help=f"report only this section; can be given several times ({known})",
        )
        parser.add_argument(
            "--window",
            metavar="A:B",
            type=parse_window,
            help="report only this time, in ns from the trace's origin; by default from the first start to "
            "the last end of the trace's device operations",
        )
        form = parser.add_mutually_exclusive_group()
        form.add_argument("--json", action="store_true", help="print JSON instead of text")
        form.add_argument("--markdown", action="store_true", help="print Markdown instead of plain text")

    def run(self, arguments: argparse.Namespace) -> int:
        """Print the report.

        Raises:
            OverlaneError: The file cannot be read as a trace, or the window is empty.
        """
        names = arguments.section or [section.name for section in SECTIONS]
        sections = [section for section in SECTIONS if section.name in names]
        from overlane.analysis.engines import engine_report  # noqa: PLC0415 - loads compiled code

        trace = load(arguments.trace)
        measured = engine_report(trace, window=arguments.window)
        report = report_json(trace, measured, sections, window=arguments.window)
        if arguments.json:
            sys.stdout.write(json_text(report))
        else:
            sys.stdout.write(_text(printable(report), measured, sections, is_markdown=arguments.markdown))
        return 0


def parse_window(text: str) -> tuple[int, int]:
    """Return the window that `A:B` names, in ns.

    Raises:
        argparse.ArgumentTypeError: Not two whole numbers, or the end is not after the start.
    """
    parts = text.split(":")
    try:
        start, end = (int(part) for part in parts)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a window; give start and end in ns, as in 1000000:2000000"
        ) from None
    if end <= start:
        raise argparse.ArgumentTypeError(f"the window {text} holds no time; its end must be after its start")
    if max(abs(start), abs(end)) >= _REACH_NS:
        raise argparse.ArgumentTypeError(f"the window {text} is out of reach; give ns below {_REACH_NS}")
    return start, end


def report_json(
    trace: Trace, measured: EngineReport, sections: list[Section], *, window: tuple[int, int] | None
) -> dict[str, Any]:
    """Return the report as JSON values.

    Args:
        trace: What was measured.
        measured: Its figures.
        sections: Which lists to give.
        window: The window that was asked for, in ns; shown where no device could be measured.

    Returns:
        `schema`, `name`, `window_start_ns`, `window_end_ns`, `devices` (list of `rank`, `device_id`,
        `window_ns`, `busy_ns`, `idle_ns` ...), one list per section, and `integrity`. Intervals
        `longest_ns` are the start and end of the longest unbroken stretch that proves the number beside
        them.
    """
    given = measured.devices[0].window if measured.devices else window or (0, 0)
    return {
        "schema": JSON_VERSION,
        "name": trace.name,
        "window_start_ns": given[0],
        "window_end_ns": given[1],
        "devices": [
            {
                "rank": d.rank,
                "device_id": d.device_id,
                "window_ns": d.window_ns,
                "busy_ns": d.busy_ns,
                "busy_fraction": _fraction(d.busy_ns, d.window_ns),
                "busy_longest_ns": d.busy_longest,
                "idle_ns": d.idle_ns,
                "idle_longest_ns": d.idle_longest,
                "work_ns": d.work_ns,
                "op_count": d.op_count,
                "unfinished_count": d.unfinished_count,
            }
            for d in measured.devices
        ],
        **{section.name: section.rows(measured) for section in sections},
        "integrity": list(trace.header.to_json()["integrity"]),
    }


def _engine_rows(report: EngineReport) -> _Rows:
    return [
        {
            "rank": d.rank,
            "device_id": d.device_id,
            "engine": use.engine,
            "busy_ns": use.busy_ns,
            "busy_fraction": _fraction(use.busy_ns, d.window_ns),
            "work_ns": use.work_ns,
            "op_count": use.op_count,
            "longest_ns": use.longest_ns,
        }
        for d in report.devices
        for use in d.engines
    ]


def _overlap_rows(report: EngineReport) -> _Rows:
    return [
        {
            "rank": d.rank,
            "device_id": d.device_id,
            "engine_a": pair.engine_a,
            "engine_b": pair.engine_b,
            "overlap_ns": pair.overlap_ns,
            "overlap_fraction": _fraction(pair.overlap_ns, d.window_ns),
            "longest_ns": pair.longest_ns,
        }
        for d in report.devices
        for pair in d.overlap
    ]


def _exposed_rows(report: EngineReport) -> _Rows:
    rows = []
    for d in report.devices:
        each = [
            (use.engine, use.exposed_ns, use.exposed_longest_ns)
            for use in d.engines
            if use.exposed_ns is not None
        ]
        for engine, ns, longest in (
            [*each, ("all_copies", d.exposed_copy_ns, d.exposed_longest)] if each else []
        ):
            rows.append(
                {
                    "rank": d.rank,
                    "device_id": d.device_id,
                    "engine": engine,
                    "exposed_ns": ns,
                    "exposed_fraction": _fraction(ns or 0, d.window_ns),
                    "longest_ns": longest,
                }
            )
    return rows


def _concurrency_rows(report: EngineReport) -> _Rows:
    return [
        {
            "rank": d.rank,
            "device_id": d.device_id,
            "concurrency": level.level,
            "at_level_ns": level.ns,
            "at_level_fraction": _fraction(level.ns, d.window_ns),
            "longest_ns": level.longest_ns,
        }
        for d in report.devices
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


def _fraction(ns: int, window_ns: int) -> float:
    return ns / window_ns if window_ns else 0.0


def _ns(key: str) -> Callable[[dict[str, Any]], str]:
    def show(row: dict[str, Any]) -> str:
        from overlane.figures.units import format_ns  # noqa: PLC0415

        return format_ns(row[key])

    return show


def _share(key: str) -> Callable[[dict[str, Any]], str]:
    def show(row: dict[str, Any]) -> str:
        return f"{100 * row[key]:.1f} %"

    return show


def _longest(key: str) -> Callable[[dict[str, Any]], str]:
    def show(row: dict[str, Any]) -> str:
        return f"{row[key][0]}:{row[key][1]}" if row[key] else "-"

    return show


def _plain(key: str) -> Callable[[dict[str, Any]], str]:
    return lambda row: "-" if row[key] is None else str(row[key])


def _engine(key: str) -> Callable[[dict[str, Any]], str]:
    return lambda row: row[key] or "unclassified"


_DEVICE = (("rank", _plain("rank")), ("device", _plain("device_id")))
_PROOF = ("longest, ns", _longest("longest_ns"))

SECTIONS = (
    Section(
        "engines",
        "Engines",
        "busy time of each engine",
        _engine_rows,
        _no_engines,
        (
            *_DEVICE, ("engine", _engine("engine")), ("operations", _plain("op_count")),
            ("busy", _ns("busy_ns")),
            ("of window", _share("busy_fraction")), ("sum of durations", _ns("work_ns")), _PROOF,
        ),
    ),
    Section(
        "overlap",
        "Overlap of engines",
        "time in which two engines were both busy",
        _overlap_rows,
        _no_overlap,
        (
            *_DEVICE, ("engine", _engine("engine_a")), ("and", _engine("engine_b")),
            ("overlap", _ns("overlap_ns")),
            ("of window", _share("overlap_fraction")), _PROOF,
        ),
    ),
    Section(
        "exposed",
        "Exposed copies",
        "copy time in which nothing computed",
        _exposed_rows,
        _no_exposed,
        (
            *_DEVICE, ("engine", _engine("engine")), ("exposed", _ns("exposed_ns")),
            ("of window", _share("exposed_fraction")), _PROOF,
        ),
    ),
    Section(
        "concurrency",
        "Operations open at once",
        "time at each number of open operations",
        _concurrency_rows,
        _no_concurrency,
        (
            *_DEVICE, ("open", _plain("concurrency")), ("time", _ns("at_level_ns")),
            ("of window", _share("at_level_fraction")), _PROOF,
        ),
    ),
)  # fmt: skip
"""All sections, in the order of the report."""

_DEVICES = (
    *_DEVICE, ("window", _ns("window_ns")), ("busy", _ns("busy_ns")), ("of window", _share("busy_fraction")),
    ("idle", _ns("idle_ns")), ("longest gap, ns", _longest("idle_longest_ns")),
)  # fmt: skip


def _text(
    report: dict[str, Any], measured: EngineReport, sections: list[Section], *, is_markdown: bool
) -> str:
    mark = "# " if is_markdown else ""
    lines = [mark + report["name"], ""]
    if not measured.devices:
        lines += ["No device operations: there is no GPU work to report on.", ""]
    for item in report["integrity"]:
        if item["status"] != "ok":
            lines += [f"{item['status']}: {item['detail']}", ""]
    unfinished = sum(device.unfinished_count for device in measured.devices)
    if unfinished:
        lines += [f"{unfinished} operations had not finished; they are taken to run to the last stamp.", ""]
    if not measured.devices:
        return "\n".join(lines)
    lines += _table("Devices", report["devices"], _DEVICES, [], is_markdown=is_markdown)
    for section in sections:
        rows = report[section.name]
        reasons = _reasons(section, rows, measured)
        lines += _table(section.title, rows, section.columns, reasons, is_markdown=is_markdown)
    return "\n".join(lines)


def _reasons(section: Section, rows: _Rows, measured: EngineReport) -> list[str]:
    """Say for every device without a row why it has none."""
    shown = {(row["rank"], row["device_id"]) for row in rows}
    without = [device for device in measured.devices if (device.rank, device.device_id) not in shown]
    if len(measured.devices) == 1:
        return [section.why_empty(device) for device in without]
    return [f"{_device_name(device)}: {section.why_empty(device)}" for device in without]


def _device_name(device: DeviceReport) -> str:
    rank = "" if device.rank is None else f"rank {device.rank}, "
    return f"{rank}device {'-' if device.device_id is None else device.device_id}"


def _table(title: str, rows: _Rows, columns: _Columns, reasons: list[str], *, is_markdown: bool) -> list[str]:
    lines = [f"## {title}" if is_markdown else title, ""]
    if rows:
        cells = [[show(row) for _, show in columns] for row in rows]
        lines += [table_text([name for name, _ in columns], cells, is_markdown=is_markdown), ""]
    for reason in reasons:
        lines += [reason, ""]
    return lines


COMMAND = ReportCommand()
