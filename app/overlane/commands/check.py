"""`overlane check`: fail when a trace breaks a rule or is slower than its baseline."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overlane.commands.compare import add_judging_arguments, printable_lines
from overlane.commands.loading import add_trace_argument, load
from overlane.commands.output import json_text
from overlane.errors import OverlaneError

if TYPE_CHECKING:
    from overlane.analysis.changes import Comparison
    from overlane.analysis.rules import Finding

__all__ = ["COMMAND", "CheckCommand"]

JSON_VERSION = 1
EXIT_KEPT = 0
EXIT_BROKEN = 1


class CheckCommand:
    """Holds a trace against rules and a baseline."""

    name = "check"
    help = "check a trace against rules and a baseline; exit 1 when one is broken"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the trace and what to hold it against."""
        add_trace_argument(parser)
        parser.add_argument(
            "--rules",
            metavar="FILE",
            type=Path,
            help="TOML file of [[rule]] tables: metric or operation, with at_most or at_least",
        )
        parser.add_argument(
            "--repeat",
            metavar="TRACE",
            nargs="+",
            type=Path,
            default=[],
            help="further captures of the same run, to compare with the baseline",
        )
        parser.add_argument(
            "--baseline",
            metavar="TRACE",
            nargs="+",
            type=Path,
            default=[],
            help="captures to compare with; a number that is slower beyond noise breaks it, and so does a "
            "baseline that is not comparable",
        )
        add_judging_arguments(parser)
        parser.add_argument("--json", action="store_true", help="print JSON instead of text")

    def run(self, arguments: argparse.Namespace) -> int:
        """Print what was found; 1 when something is broken.

        Raises:
            OverlaneError: A file cannot be read, or nothing was given to check against.
        """
        if arguments.rules is None and not arguments.baseline:
            raise OverlaneError(
                "there is nothing to check against; give --rules FILE or --baseline TRACE ..."
            )
        from overlane.analysis.compare import compare_studies  # noqa: PLC0415 - loads compiled code
        from overlane.analysis.rules import check_rules, read_rules  # noqa: PLC0415
        from overlane.analysis.study import Study  # noqa: PLC0415

        rules = read_rules(arguments.rules) if arguments.rules is not None else []
        study = Study(load(arguments.trace))
        findings = check_rules(study, rules)
        comparison = None
        if arguments.baseline:
            comparison = compare_studies(
                [study, *(Study(load(path)) for path in arguments.repeat)],
                [Study(load(path)) for path in arguments.baseline],
                level=arguments.level,
                least_fraction=arguments.least,
                accept=arguments.accept or (),
            )
        slower = _slower(comparison) if comparison is not None else []
        is_unjudged = comparison is not None and comparison.verdict == "not comparable"
        is_kept = all(one.kept for one in findings) and not slower and not is_unjudged
        if arguments.json:
            sys.stdout.write(
                json_text(_json(study.trace.name, findings, comparison, slower, is_kept=is_kept))
            )
        else:
            sys.stdout.write(printable_lines(_text(findings, comparison, slower, is_kept=is_kept)))
        return EXIT_KEPT if is_kept else EXIT_BROKEN


def _slower(found: Comparison) -> list[str]:
    """Return what became slower beyond noise, in words."""
    metrics = [
        f"GPU {row.device} {row.metric} {row.of}".rstrip()
        + f": {row.baseline or 0:g} -> {row.candidate or 0:g}"
        for row in found.metrics
        if row.verdict.word == "slower"
    ]
    return metrics + [
        f"{row.name} ({row.stream_role}): {100 * (row.judgement.change - 1):+.1f} %"
        for row in found.operations
        if row.verdict.word == "slower" and row.judgement is not None
    ]


def _json(
    name: str, findings: list[Finding], comparison: Comparison | None, slower: list[str], *, is_kept: bool
) -> dict[str, Any]:
    return {
        "schema": JSON_VERSION,
        "name": name,
        "kept": is_kept,
        "rules": [dataclasses.asdict(one) for one in findings],
        "slower": slower,
        "comparison": comparison.to_json() if comparison is not None else None,
    }


def _text(findings: list[Finding], comparison: Comparison | None, slower: list[str], *, is_kept: bool) -> str:
    lines = []
    for one in findings:
        mark = "kept  " if one.kept else "BROKEN"
        what = f"{one.what} is {one.value:g}" if one.value is not None else "the trace has no such number"
        why = f" ({one.rule.why})" if one.rule.why and not one.kept else ""
        lines.append(f"{mark}  {one.rule.words}: {what}{why}")
    if comparison is not None:
        lines += [f"SLOWER  {line}" for line in slower]
        lines += [f"not comparable: {reason.sentence}" for reason in comparison.reasons]
        if comparison.verdict == "not comparable" and not comparison.reasons:
            lines.append(f"not comparable: {comparison.metrics[0].verdict.reason}")
        lines += [f"against the baseline: {comparison.verdict}", comparison.basis_sentence]
    return "\n".join([*lines, "kept" if is_kept else "broken"])


COMMAND = CheckCommand()
