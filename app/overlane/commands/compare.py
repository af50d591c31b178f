"""`overlane compare`: what changed between two runs, and whether the change is more than noise."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overlane.commands.loading import Activity, load
from overlane.commands.output import json_text, printable
from overlane.commands.tables import table_text
from overlane.ui.naming import told_apart

if TYPE_CHECKING:
    from overlane.analysis.changes import Comparison, MetricChange, OperationChange

__all__ = ["ACCEPTED", "COMMAND", "CompareCommand", "add_judging_arguments", "comparison_text"]

ACCEPTED = ("devices", "drivers", "workloads", "integrity")
_ROWS = 20


class CompareCommand:
    """Compares the captures of two sides."""

    name = "compare"
    help = "compare a run with a baseline: what changed, with intervals and a verdict for each number"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare both sides, how to judge and the form of the answer."""
        parser.add_argument(
            "candidate",
            metavar="CANDIDATE",
            nargs="+",
            type=Path,
            help="trace of the run to judge; several are repeats of the same run",
        )
        parser.add_argument(
            "--against",
            metavar="BASELINE",
            nargs="+",
            type=Path,
            required=True,
            help="trace of the run to compare with; several are repeats of the same run",
        )
        add_judging_arguments(parser)
        parser.add_argument("--json", action="store_true", help="print JSON instead of text")

    def run(self, arguments: argparse.Namespace) -> int:
        """Print the comparison.

        Raises:
            OverlaneError: A file cannot be read as a trace, or an option is out of range.
        """
        from overlane.analysis.compare import compare_studies  # noqa: PLC0415 - loads compiled code
        from overlane.analysis.study import Study  # noqa: PLC0415

        sides = [[load(path) for path in side] for side in (arguments.candidate, arguments.against)]
        with Activity() as activity:
            candidate, baseline = ([Study(trace, before=activity) for trace in side] for side in sides)
            found = compare_studies(
                candidate,
                baseline,
                level=arguments.level,
                least_fraction=arguments.least,
                accept=arguments.accept or (),
            )
        paths = [*arguments.candidate, *arguments.against]
        names = told_apart([*found.candidate, *found.baseline], paths)
        count = len(found.candidate)
        found = replace(found, candidate=tuple(names[:count]), baseline=tuple(names[count:]))
        if arguments.json:
            sys.stdout.write(json_text(found.to_json()))
        else:
            sys.stdout.write(printable_lines(comparison_text(found)))
        return 0


def add_judging_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare how a change is judged."""
    parser.add_argument(
        "--level",
        type=float,
        default=0.95,
        metavar="SHARE",
        help="confidence of the intervals, above 0.5 and below 1 (default: 0.95)",
    )
    parser.add_argument(
        "--least",
        type=float,
        default=0.01,
        metavar="SHARE",
        help="changes below this share of the baseline do not count (default: 0.01)",
    )
    parser.add_argument(
        "--accept",
        action="append",
        choices=ACCEPTED,
        help="compare although these differ, or although integrity checks failed; can be given several times",
    )


def printable_lines(text: str) -> str:
    """Return a text of several lines whose lines hold nothing that steers a terminal."""
    return "".join(f"{printable(line)}\n" for line in text.split("\n"))


def comparison_text(found: Comparison, *, most_rows: int = _ROWS) -> str:
    """Return a comparison as text.

    Args:
        found: What was compared.
        most_rows: Most operations to list, the most work first.
    """
    lines = [
        f"{_names(found.candidate)} against {_names(found.baseline)}: {found.verdict}",
        *(f"not comparable: {reason.sentence}" for reason in found.reasons),
        found.basis_sentence,
    ]
    if found.parameters:
        changed = (f"{p.name} {p.baseline} -> {p.candidate}" for p in found.parameters)
        lines.append(f"parameters: {', '.join(changed)}")
    blocks = ["\n".join(lines), _metrics(found)]
    blocks += [_operations(found, most_rows), *_one_sided(found, most_rows)]
    return "\n\n".join(block for block in blocks if block)


def _names(side: tuple[str, ...]) -> str:
    return side[0] if len(side) == 1 else f"{len(side)} captures ({', '.join(side)})"


def _metrics(found: Comparison) -> str:
    from overlane.figures.units import format_measure, format_ns  # noqa: PLC0415 - help must answer at once

    def interval(row: Any) -> str:
        if row.judgement is None:
            return "-"
        if row.metric.endswith("_fraction"):
            ends = (f"{100 * x:+.1f}" for x in (row.judgement.low, row.judgement.high))
            return " .. ".join(ends) + " points"
        return f"{format_ns(round(row.judgement.low))} .. {format_ns(round(row.judgement.high))}"

    each = f"change of each {found.step}" if found.metric_basis == "steps" else "change"
    rows = [
        [
            f"GPU {row.device}: {row.metric.removesuffix('_ns').removesuffix('_fraction').replace('_', ' ')}"
            + (" share" if row.metric.endswith("_fraction") else "")
            + (f" {row.of}" if row.of else ""),
            format_measure(row.metric, row.baseline),
            format_measure(row.metric, row.candidate),
            _change(row.ratio),
            interval(row),
            row.verdict.word,
        ]
        for row in found.metrics
    ]
    text = table_text(["metric", "baseline", "candidate", "ratio", each, "verdict"], rows) if rows else ""
    return text + _why(found, found.metrics)


def _why(found: Comparison, rows: Sequence[MetricChange | OperationChange]) -> str:
    """Return why rows are not comparable, each reason once; the reasons against all stand above."""
    if found.reasons:
        return ""
    reasons = dict.fromkeys(row.verdict.reason for row in rows if row.verdict.word == "not comparable")
    return "".join(f"\nnot comparable: {reason}" for reason in reasons)


def _operations(found: Comparison, most: int) -> str:
    from overlane.figures.units import format_ns  # noqa: PLC0415 - help must answer at once

    rows = [
        [
            f"{row.name[:60]} ({row.stream_role})",
            str(row.baseline_count),
            str(row.candidate_count),
            str(row.pair_count),
            format_ns(row.baseline_median_ns),
            format_ns(row.candidate_median_ns),
            format_ns(row.difference_ns),
            _change(row.judgement.change if row.judgement else None),
            f"{_change(row.judgement.low)} .. {_change(row.judgement.high)}" if row.judgement else "-",
            row.verdict.word,
        ]
        for row in found.operations[:most]
    ]
    if not rows:
        return ""
    head = [
        "operation",
        "count",
        "then",
        "paired",
        "median",
        "then",
        "total changed",
        "ratio",
        "interval",
        "verdict",
    ]
    left = len(found.operations) - len(rows)
    more = f"\n{left} more with less work; --json lists all" if left else ""
    return table_text(head, rows) + more + _why(found, found.operations[:most])


def _one_sided(found: Comparison, most: int) -> list[str]:
    from overlane.figures.units import format_ns  # noqa: PLC0415 - help must answer at once

    blocks = []
    for word, rows, side in (
        ("appeared", found.appeared, "candidate"),
        ("vanished", found.vanished, "baseline"),
    ):
        lines = [
            f"{word}: {row.name[:80]} ({row.stream_role}), {getattr(row, f'{side}_count')} times, "
            f"{format_ns(getattr(row, f'{side}_work_ns'))}"
            for row in rows[:most]
        ]
        if len(rows) > most:
            lines.append(f"{word}: {len(rows) - most} more")
        blocks.append("\n".join(lines))
    return blocks


def _change(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.3f}"


COMMAND = CompareCommand()
