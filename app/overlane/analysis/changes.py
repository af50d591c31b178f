"""What a comparison answers, as plain records: changes of metrics and operations, each with a verdict."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

from overlane.analysis.noise import Estimate

__all__ = [
    "WAY_OUT",
    "Basis",
    "Comparison",
    "Judgement",
    "MetricChange",
    "OperationChange",
    "Parameter",
    "Reason",
    "Verdict",
    "VerdictWord",
    "WaitPoint",
    "WaitSpread",
]

VerdictWord: TypeAlias = Literal["faster", "slower", "no difference beyond noise", "not comparable"]
Basis: TypeAlias = Literal["captures", "steps", "pairs", "occurrences", "none"]
"""What stands for independent repeats: whole captures, repeated steps of single captures, pairs of matched
operations, or, where too few of them have a partner, the occurrences of each side."""

WAY_OUT = "give three or more captures a side (`overlane run WORKLOAD --repeat 5` makes five)"


@dataclass(frozen=True)
class Verdict:
    """What is concluded of one row.

    Attributes:
        word: `faster` also where more is better and it became more; `slower` likewise.
        reason: Why, as a sentence.
    """

    word: VerdictWord
    reason: str


@dataclass(frozen=True)
class Judgement:
    """A change with its interval.

    Attributes:
        baseline: Typical value of a repeat of the baseline.
        candidate: Typical value of a repeat of the candidate.
        change: Candidate over baseline for durations, candidate less baseline for metrics.
        low: Lower end of its interval.
        high: Upper end.
        units: Independent repeats of the baseline and of the candidate.
    """

    baseline: float
    candidate: float
    change: float
    low: float
    high: float
    units: tuple[int, int]

    @classmethod
    def of(cls, estimate: Estimate, units: tuple[int, int]) -> Judgement:
        """Return the part of an estimate that is shown."""
        return cls(estimate.baseline, estimate.candidate, estimate.change, estimate.low, estimate.high, units)


@dataclass(frozen=True)
class Reason:
    """Why two runs are not comparable.

    Attributes:
        kind: What `accept` calls it: `devices`, `drivers`, `workloads` or `integrity`.
        sentence: What differs or failed.
    """

    kind: str
    sentence: str


@dataclass(frozen=True)
class Parameter:
    """A parameter of the workload that the sides differ in.

    Attributes:
        name: Its name.
        baseline: Its value there, as text.
        candidate: Its value there.
    """

    name: str
    baseline: str
    candidate: str


@dataclass(frozen=True)
class MetricChange:
    """One number of a device on both sides.

    Attributes:
        metric: Name of the measure.
        of: Engine, engines, cause or stream role that it is told apart by; empty where it has none.
        device: Place of the device among those that have operations.
        baseline: Mean over the captures, in the measure's unit; None where none of them has such an engine,
            cause, kind of barrier or stream role.
        candidate: The same of the candidate.
        ratio: Candidate over baseline; None where the baseline is 0 or a side has none.
        judgement: Change per repeat with its interval; None where the noise is not known.
        verdict: What is concluded.
        baseline_proof: Start and end in ns of the longest stretch that it is made of, in the first capture.
        candidate_proof: The same of the candidate.
    """

    metric: str
    of: str
    device: int
    baseline: float | None
    candidate: float | None
    ratio: float | None
    judgement: Judgement | None
    verdict: Verdict
    baseline_proof: tuple[int, int] | None
    candidate_proof: tuple[int, int] | None


@dataclass(frozen=True)
class OperationChange:
    """Operations that are the same on both sides.

    Attributes:
        device: Place of their device among those that have operations.
        stream_role: Role of their stream.
        kind: Their kind.
        name: Their name.
        baseline_count: Operations in a capture, the median over captures; 0 where they appeared.
        candidate_count: The same of the candidate; 0 where they vanished.
        baseline_median_ns: Median duration over all captures; None without operations.
        candidate_median_ns: The same of the candidate.
        baseline_work_ns: Durations of a capture added up, the mean over captures.
        candidate_work_ns: The same of the candidate.
        difference_ns: Candidate's less baseline's `work_ns`.
        pair_count: Operations of the first captures that have their partner in the other, by launch order.
        same_dependency_count: Of these, the pairs that also follow the same operation in their streams.
        basis: What the interval rests on: `captures`, `pairs` or `occurrences`.
        judgement: Ratio of durations with its interval; None where the noise is not known.
        verdict: What is concluded of their durations.
        baseline_op: Row id of the longest in the first capture; None without operations there.
        candidate_op: The same of the candidate.
    """

    device: int
    stream_role: str
    kind: str
    name: str
    baseline_count: int
    candidate_count: int
    baseline_median_ns: int | None
    candidate_median_ns: int | None
    baseline_work_ns: int
    candidate_work_ns: int
    difference_ns: int
    pair_count: int
    same_dependency_count: int
    basis: Basis
    judgement: Judgement | None
    verdict: Verdict
    baseline_op: int | None
    candidate_op: int | None


@dataclass(frozen=True)
class WaitPoint:
    """A point of a distribution of waits.

    Attributes:
        fraction: Share of the operations that waited no longer.
        ns: The wait.
        capture: Place of its operation's capture on its side.
        op: Row id in `ops` of an operation that waited so long.
    """

    fraction: float
    ns: int
    capture: int
    op: int


@dataclass(frozen=True)
class WaitSpread:
    """How long the operations of a stream role waited.

    Attributes:
        kind: `wait` from issue to start; `wait_room` from the moment at which nothing but room was missing.
        device: Place of the device among those that have operations.
        stream_role: The role.
        baseline_count: Operations of all captures whose wait is known.
        candidate_count: The same of the candidate.
        baseline: Points of their distribution, rising; empty without operations.
        candidate: The same of the candidate.
    """

    kind: str
    device: int
    stream_role: str
    baseline_count: int
    candidate_count: int
    baseline: tuple[WaitPoint, ...]
    candidate: tuple[WaitPoint, ...]


@dataclass(frozen=True)
class Comparison:
    """Two sides side by side.

    Attributes:
        baseline: Names of its captures.
        candidate: Names of its captures.
        level: Confidence of the intervals.
        least_fraction: Changes below this share count as none.
        operation_basis: What the intervals of operations rest on.
        metric_basis: What those of metrics rest on.
        step: Name of the repeated range where that is `steps`; empty otherwise.
        reasons: Why the sides are not comparable; empty where they are.
        parameters: What the workloads differ in.
        metrics: Changes of the numbers of each device.
        operations: Operations that both sides have, the most work first.
        appeared: Operations that only the candidate has.
        vanished: Operations that only the baseline has.
        waits: Distributions of waits by stream role, the longest waits first.
    """

    baseline: tuple[str, ...]
    candidate: tuple[str, ...]
    level: float
    least_fraction: float
    operation_basis: Basis
    metric_basis: Basis
    step: str
    reasons: tuple[Reason, ...]
    parameters: tuple[Parameter, ...]
    metrics: tuple[MetricChange, ...]
    operations: tuple[OperationChange, ...]
    appeared: tuple[OperationChange, ...]
    vanished: tuple[OperationChange, ...]
    waits: tuple[WaitSpread, ...]

    @cached_property
    def verdict(self) -> VerdictWord:
        """The verdict on the whole: that of how long the window, or a step, of the first device took."""
        for change in self.metrics:
            if change.metric == "window_ns":
                return change.verdict.word
        return "not comparable"

    @property
    def basis_sentence(self) -> str:
        """What the intervals rest on, in words."""
        if self.metric_basis == "captures":
            return f"Intervals rest on {len(self.baseline)} and {len(self.candidate)} captures."
        words = ["Intervals of operations rest on pairs of them, matched by launch order and dependency"]
        if self.metric_basis == "steps":
            words.append(f"; those of metrics on the repeats of {self.step!r}")
        else:
            words.append("; metrics have none, since no range repeats in all captures")
        words.append(f". They do not show how much whole runs differ: {WAY_OUT} for that.")
        return "".join(words)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values; pairs are lists, None is null."""
        return {
            "schema": 1,
            "verdict": self.verdict,
            "basis": self.basis_sentence,
            **dataclasses.asdict(self),
        }
