"""The command: what to report, of which time, and in which form."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overlane.commands.loading import Activity, add_trace_argument, load
from overlane.commands.output import json_text, printable
from overlane.commands.report.html import write_html
from overlane.commands.report.section import (
    DEVICE,
    Block,
    Columns,
    Section,
    Table,
    block_lines,
    fraction,
    longest,
    ns,
    share,
)
from overlane.commands.report.sections import SECTIONS
from overlane.commands.targets import check_target
from overlane.errors import UntoldError

if TYPE_CHECKING:
    from overlane.analysis.study import Study

__all__ = ["COMMAND", "ReportCommand", "parse_window", "report_json"]

JSON_VERSION = 1
_REACH_NS = 1 << 62  # the length of any window has 63 bits then


class ReportCommand:
    """Prints what the analyses find in one trace."""

    name = "report"
    help = (
        "report what to change first, why operations waited and devices idled, what barriers cost, what is "
        "not ordered, and how engines and partitions shared the time"
    )

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
        parser.add_argument(
            "--exclusive",
            metavar="NAME",
            action="append",
            default=[],
            help="a partition, by name, on whose SMs no other work may run: such work is a leak then; can be "
            "given several times",
        )
        form = parser.add_mutually_exclusive_group()
        form.add_argument("--json", action="store_true", help="print JSON instead of text")
        form.add_argument("--markdown", action="store_true", help="print Markdown instead of plain text")
        form.add_argument(
            "--html",
            metavar="FILE",
            type=Path,
            help="write the report and a timeline as one HTML file that needs neither trace nor network",
        )
        parser.add_argument("--force", action="store_true", help="with --html: replace FILE where it exists")

    def run(self, arguments: argparse.Namespace) -> int:
        """Print the report.

        Raises:
            OverlaneError: The file cannot be read as a trace, the window is empty, or FILE exists.
            MachineError: FILE cannot be written.
        """
        if arguments.html is not None:
            check_target(arguments.html, "a report", is_file=True, replaces=arguments.force)
        names = arguments.section or [section.name for section in SECTIONS]
        sections = [section for section in SECTIONS if section.name in names]
        from overlane.analysis.study import Study  # noqa: PLC0415 - loads compiled code

        trace = load(arguments.trace)
        with Activity() as activity:
            study = Study(trace, window=arguments.window, exclusive=arguments.exclusive, before=activity)
            report = report_json(study, sections)
        if arguments.json:
            sys.stdout.write(json_text(report))
        elif arguments.html is not None:
            sys.stdout.write(printable(_html(arguments.html, study, report, sections)) + "\n")
        else:
            sys.stdout.write(_text(study, printable(report), sections, is_markdown=arguments.markdown))
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


def report_json(study: Study, sections: Sequence[Section] = SECTIONS) -> dict[str, Any]:
    """Return the report as JSON values.

    Args:
        study: The analyses of a trace and a window.
        sections: Which lists to give.

    Returns:
        `schema`, `name`, `window_start_ns`, `window_end_ns`, `devices` (list of `rank`, `device_id`,
        `window_ns`, `busy_ns`, `idle_ns` ...), one list per section, `untold` (why sections are empty that
        the trace is too large for), and `integrity`. Intervals `longest_ns` are the start and end of the
        longest unbroken stretch that proves the number beside them.
    """
    devices = study.engines.devices
    given = devices[0].window if devices else study.window or (0, 0)
    report = {
        "schema": JSON_VERSION,
        "name": study.trace.name,
        "window_start_ns": given[0],
        "window_end_ns": given[1],
        "devices": [
            {
                "rank": d.rank,
                "device_id": d.device_id,
                "window_ns": d.window_ns,
                "busy_ns": d.busy_ns,
                "busy_fraction": fraction(d.busy_ns, d.window_ns),
                "busy_longest_ns": d.busy_longest,
                "idle_ns": d.idle_ns,
                "idle_longest_ns": d.idle_longest,
                "work_ns": d.work_ns,
                "op_count": d.op_count,
                "unfinished_count": d.unfinished_count,
            }
            for d in devices
        ],
    }
    untold: dict[str, str] = {}
    for section in sections:
        try:
            report |= {section.key: section.rows(study), **section.more(study)}
        except UntoldError as error:
            report[section.key] = []
            untold[section.key] = error.sentence
    return report | {"untold": untold, "integrity": list(study.trace.header.to_json()["integrity"])}


_DEVICES: Columns = (
    *DEVICE, ("window", ns("window_ns")), ("busy", ns("busy_ns")), ("of window", share("busy_fraction")),
    ("idle", ns("idle_ns")), ("longest gap, ns", longest("idle_longest_ns")),
)  # fmt: skip


def _head(study: Study, report: dict[str, Any]) -> list[str]:
    """Return what to say first: whether there is device work, and what is suspect."""
    devices = study.engines.devices
    lines = [] if devices else ["No device operations: there is no GPU work to report on."]
    lines += [f"{item['status']}: {item['detail']}" for item in report["integrity"] if item["status"] != "ok"]
    unfinished = sum(device.unfinished_count for device in devices)
    if unfinished:
        lines.append(f"{unfinished} operations had not finished; they are taken to run to the last stamp.")
    return lines


def _parts(
    study: Study, report: dict[str, Any], sections: Sequence[Section]
) -> list[tuple[str, str, list[Block]]]:
    """Return name, title and blocks of each part; without device work there is nothing to tell."""
    if not study.engines.devices:
        return []
    parts: list[tuple[str, str, list[Block]]] = [("devices", "Devices", [Table(report["devices"], _DEVICES)])]
    for section in sections:
        why = report["untold"].get(section.key)
        blocks = section.text(study, report[section.key]) if why is None else [why]
        parts.append((section.name, section.title, blocks))
    return parts


def _text(study: Study, report: dict[str, Any], sections: Sequence[Section], *, is_markdown: bool) -> str:
    lines = [("# " if is_markdown else "") + report["name"], ""]
    for line in _head(study, report):
        lines += [line, ""]
    for _, title, blocks in _parts(study, report, sections):
        lines += [f"## {title}" if is_markdown else title, ""]
        for block in blocks:
            lines += block_lines(block, is_markdown=is_markdown)
    return "\n".join(lines)


def _html(path: Path, study: Study, report: dict[str, Any], sections: Sequence[Section]) -> str:
    from overlane.figures.units import format_stamps  # noqa: PLC0415 - help must answer without it

    shown = printable(report)
    window = format_stamps(report["window_start_ns"], report["window_end_ns"])
    head = [f"Window: {window}.", *_head(study, shown)]
    return write_html(path, study, report, head=head, sections=_parts(study, shown, sections))


COMMAND = ReportCommand()
