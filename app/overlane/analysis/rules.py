"""Rules that a trace must keep, read from a TOML file.

A rule names a measure (`overlane.analysis.measures.MEASURES`) or an operation, and what its value may be at
most or at least:

    [[rule]]
    metric = "idle_fraction"
    at_most = 0.30

    [[rule]]
    metric = "wait_p99_ns"
    of = "critical"
    at_most = 200_000

    [[rule]]
    operation = "*gemm*"
    statistic = "median_ns"
    at_most = 190_000
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from overlane.analysis.matching import group
from overlane.analysis.measures import MEASURES, Measured, measure
from overlane.analysis.operations import OperationGroup, operations
from overlane.analysis.study import Study
from overlane.errors import OverlaneError

__all__ = ["STATISTICS", "Finding", "Rule", "check_rules", "read_rules"]

STATISTICS = ("op_count", "work_ns", "work_fraction", "median_ns", "least_ns", "most_ns")
_KEYS = {"metric", "of", "device", "operation", "statistic", "at_most", "at_least", "why"}


@dataclass(frozen=True)
class Rule:
    """One rule.

    Attributes:
        metric: Measure that it is about; empty for a rule about operations.
        of: Engine, engines or stream role, with `*` and `?`; empty for every one.
        device: Place of the device among those that have operations, None for every one.
        operation: Name of operations, with `*` and `?`; empty for a rule about a measure.
        statistic: What of these operations.
        at_most: Highest value that keeps it, None for no bound.
        at_least: Lowest value that keeps it, None for no bound.
        why: What the author says of it.
    """

    metric: str
    of: str
    device: int | None
    operation: str
    statistic: str
    at_most: float | None
    at_least: float | None
    why: str

    @property
    def words(self) -> str:
        """The rule in one line."""
        bounds = [f"at most {self.at_most:g}"] if self.at_most is not None else []
        bounds += [f"at least {self.at_least:g}"] if self.at_least is not None else []
        where = f" of GPU {self.device}" if self.device is not None else ""
        if self.operation:
            return f"{self.statistic} of {self.operation!r} {' and '.join(bounds)}"
        return f"{self.metric}{f' {self.of}' if self.of else ''}{where} {' and '.join(bounds)}"


@dataclass(frozen=True)
class Finding:
    """What a rule found in a trace.

    Attributes:
        rule: The rule.
        what: The number that it found, by device and name; empty where it found none.
        value: That number; None where there is none.
        kept: Whether it keeps the rule.
        proof: Start and end in ns of the longest stretch or operation; None where there is none.
    """

    rule: Rule
    what: str
    value: float | None
    kept: bool
    proof: tuple[int, int] | None


def read_rules(path: Path) -> list[Rule]:
    """Read a file of rules.

    Args:
        path: TOML file.

    Raises:
        OverlaneError: It cannot be read, is no TOML, or holds something that is no rule.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise OverlaneError(f"{path} cannot be read: {error.strerror}; name a file of rules") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise OverlaneError(f"{path} is no TOML: {error}; see `overlane check --help`") from None
    extra = sorted(set(values) - {"rule"})
    if extra:
        raise OverlaneError(f"{path} holds {extra[0]!r}; a file of rules holds only [[rule]] tables")
    rules = values.get("rule", [])
    if not isinstance(rules, list) or not rules or not all(isinstance(rule, dict) for rule in rules):
        raise OverlaneError(f"{path} holds no [[rule]] table; write at least one")
    return [_rule(rule, f"rule {number} of {path}") for number, rule in enumerate(rules, 1)]


def _rule(values: dict[str, Any], place: str) -> Rule:
    unknown = sorted(set(values) - _KEYS)
    if unknown:
        raise OverlaneError(f"{place} has {unknown[0]!r}; known: {', '.join(sorted(_KEYS))}")
    for key in ("metric", "of", "operation", "statistic", "why"):
        if not isinstance(values.get(key, ""), str):
            raise OverlaneError(f"{place}: {key} is no text; put it in quotes")
    metric, operation = values.get("metric", ""), values.get("operation", "")
    if bool(metric) == bool(operation):
        raise OverlaneError(
            f"{place} names {'both' if metric else 'neither'}; give either metric or operation"
        )
    if metric and metric not in MEASURES:
        raise OverlaneError(f"{place}: there is no metric {metric!r}; known: {', '.join(MEASURES)}")
    statistic = values.get("statistic", "median_ns" if operation else "")
    if operation and statistic not in STATISTICS:
        raise OverlaneError(f"{place}: there is no statistic {statistic!r}; known: {', '.join(STATISTICS)}")
    if operation and (values.get("of") or "device" in values):
        raise OverlaneError(f"{place} is about operations; `of` and `device` belong to metrics")
    device = values.get("device")
    if device is not None and (not isinstance(device, int) or isinstance(device, bool) or device < 0):
        raise OverlaneError(f"{place}: device is {device!r}; give a number from 0")
    bounds = [_bound(values, key, place) for key in ("at_most", "at_least")]
    if bounds == [None, None]:
        raise OverlaneError(f"{place} has no bound; give at_most or at_least")
    return Rule(
        metric,
        values.get("of", ""),
        device,
        operation,
        statistic,
        bounds[0],
        bounds[1],
        values.get("why", ""),
    )


def _bound(values: dict[str, Any], key: str, place: str) -> float | None:
    bound = values.get(key)
    if bound is None:
        return None
    if isinstance(bound, bool) or not isinstance(bound, int | float) or bound != bound:  # noqa: PLR0124 - NaN
        raise OverlaneError(f"{place}: {key} is {bound!r}; give a number (times in ns, shares from 0 to 1)")
    return float(bound)


def check_rules(study: Study, rules: Sequence[Rule]) -> list[Finding]:
    """Hold a trace against rules.

    A rule about a metric that the trace lacks is broken: a build must not pass because nothing was measured.

    Args:
        study: The trace.
        rules: The rules.

    Returns:
        For each rule, its worst number of those that it is about.
    """
    groups = group([study.trace])
    measured = (
        measure(study, roles=(groups.captures[0].group, [key[1] for key in groups.keys]))
        if groups.keys
        else []
    )
    named = operations(study.trace).groups
    return [
        _worst(rule, _operation_findings(rule, named) if rule.operation else _metric_findings(rule, measured))
        for rule in rules
    ]


def _keeps(rule: Rule, value: float) -> bool:
    over = rule.at_most is not None and value > rule.at_most
    under = rule.at_least is not None and value < rule.at_least
    return not over and not under


def _metric_findings(rule: Rule, measured: Sequence[Measured]) -> list[Finding]:
    return [
        Finding(
            rule, f"GPU {x.device} {x.measure.name} {x.of}".rstrip(), x.value, _keeps(rule, x.value), x.proof
        )
        for x in measured
        if x.measure.name == rule.metric
        and rule.device in {None, x.device}
        and (not rule.of or fnmatchcase(x.of, rule.of))
    ]


def _operation_findings(rule: Rule, named: Sequence[OperationGroup]) -> list[Finding]:
    return [
        Finding(
            rule,
            f"{rule.statistic} of {one.label}",
            float(value),
            _keeps(rule, float(value)),
            (one.longest_start_ns, one.longest_end_ns),
        )
        for one in named
        if fnmatchcase(one.label, rule.operation)
        for value in [getattr(one, rule.statistic)]
    ]


def _worst(rule: Rule, found: Sequence[Finding]) -> Finding:
    if not found:
        return Finding(rule, "", None, kept=False, proof=None)
    if rule.at_most is not None:
        highest = max(found, key=lambda one: one.value or 0.0)
        if not highest.kept or rule.at_least is None:
            return highest
    return min(found, key=lambda one: one.value or 0.0)
