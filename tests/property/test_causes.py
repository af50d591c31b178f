"""The analyses against the simulator's truth, over random programs.

`OVERLANE_PROGRAMS` sets how many (2,000 when unset). A failure names the seeds;
`overlane.simulate.generate.shrink` makes the program of a seed small.
"""

import os
from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
import pytest

from overlane.analysis.dependencies import dependencies
from overlane.analysis.hazards import hazards
from overlane.analysis.idle import idle
from overlane.analysis.order import happens_before
from overlane.analysis.waits import waits
from overlane.simulate import run
from overlane.simulate.generate import FEATURES, random_program
from overlane.simulate.judging import (
    judge_also_open,
    judge_hazards,
    judge_idle,
    judge_order,
    judge_waits,
    maker_of_access,
)
from overlane.simulate.scoring import Score
from overlane.tables import array_of
from overlane.validation import validate
from overlane_collect.schema import TABLES

PROGRAMS = int(os.environ.get("OVERLANE_PROGRAMS", "2000"))


@dataclass
class Judged:
    """What differed, by property, as (seed, what); and how much was looked at."""

    wrong: dict = field(default_factory=lambda: defaultdict(list))
    waits: Score = field(default_factory=Score)
    idle: Score = field(default_factory=Score)
    also_open: int = 0
    ordered_pairs: int = 0
    hazards: int = 0
    clean_programs: int = 0
    programs: int = 0


def without_hazards(simulated):
    """The trace with accesses taken away until every pair that is left is ordered, and how many are left.

    None where nothing had to be taken away: the trace itself is such a one.
    """
    dropped = set()
    for hazard in simulated.truth.hazards:  # of a pair with the host or a free, the second is the operation
        if hazard.first not in dropped:
            dropped.add(hazard.second)
    trace = simulated.trace
    table = trace.table("accesses")
    if not dropped:
        return None, table.num_rows
    keep = [k for k, row in enumerate(table.to_pylist()) if maker_of_access(row) not in dropped]
    tables = {name: trace.table(name) for name in TABLES}
    tables["accesses"] = table.take(array_of(keep, table["address"].type))
    return validate(trace.name, trace.header, tables), len(keep)


def judge(seed, judged):
    simulated = run(random_program(seed))
    trace, truth = simulated.trace, simulated.truth
    deps = dependencies(trace)
    if deps.issued_ns.tolist() != list(truth.issued_ns):
        judged.wrong["issue"].append(seed)
    found = waits(trace, deps)
    length = np.zeros(len(truth.issued_ns), np.int64)
    np.add.at(length, found.op, found.end_ns - found.start_ns)
    starts = np.array([operation.start_ns for operation in simulated.operations], np.int64)
    if (length != np.maximum(starts - np.array(truth.issued_ns, np.int64), 0)).any():
        judged.wrong["sum"].append(seed)
    for stretch in judge_waits(simulated, found):
        judged.waits.add(stretch)
        if not stretch.is_right:
            judged.wrong["waits"].append((seed, stretch))
    judged.also_open += sum(len(part.also_needed) for part in truth.waits)
    judged.wrong["also"] += [(seed, *difference) for difference in judge_also_open(simulated, found)]
    gaps = idle(trace, deps, found)
    parts = np.zeros(len(gaps.start_ns), np.int64)
    np.add.at(parts, gaps.gap, gaps.part_end_ns - gaps.part_start_ns)
    if (parts != gaps.end_ns - gaps.start_ns).any():
        judged.wrong["sum"].append(seed)
    for stretch in judge_idle(simulated, deps, gaps):
        judged.idle.add(stretch)
        if not stretch.is_right:
            judged.wrong["idle"].append((seed, stretch))
    order = happens_before(trace, deps)
    judged.ordered_pairs += int(truth.happens_before.sum())
    judged.wrong["order"] += [(seed, *difference) for difference in judge_order(simulated, order)]
    judged.hazards += len(truth.certain_hazards)
    reported = hazards(trace, order)
    judged.wrong["hazards"] += [(seed, *difference) for difference in judge_hazards(simulated, reported)]
    clean, access_count = without_hazards(simulated)
    if access_count:
        judged.clean_programs += 1
        if clean is not None:
            reported = hazards(clean, happens_before(clean, deps))
        judged.wrong["clean"] += [(seed, reported.row(k)) for k in range(len(reported))]
    judged.programs += 1


CHUNK = 250  # programs a test, so that none runs long
_JUDGED = Judged()


@pytest.mark.parametrize("first", range(0, PROGRAMS, CHUNK))
def test_the_analyses_run(first):
    for seed in range(first, min(first + CHUNK, PROGRAMS)):
        judge(seed, _JUDGED)


@pytest.fixture
def judged():
    """What the tests above have found; on its own, a test has nothing to look at."""
    if not _JUDGED.programs:
        pytest.skip("run the whole file: its first tests play the programs")
    assert _JUDGED.programs == PROGRAMS, "some of the programs failed above"
    return _JUDGED


def test_every_operation_was_issued_when_it_was(judged):
    assert judged.wrong["issue"] == []


def test_parts_add_up(judged):
    assert judged.wrong["sum"] == []


def test_every_wait_has_its_true_cause(judged):
    assert judged.wrong["waits"][:3] == [], f"{len(judged.wrong['waits'])} stretches differ"


def test_what_else_was_open_is_listed_and_nothing_more(judged):
    assert judged.wrong["also"][:3] == [], f"{len(judged.wrong['also'])} causes differ"


def test_every_gap_has_its_true_cause(judged):
    assert judged.wrong["idle"][:3] == [], f"{len(judged.wrong['idle'])} stretches differ"


def test_happens_before_is_reachability(judged):
    assert judged.wrong["order"][:5] == [], f"{len(judged.wrong['order'])} pairs differ"


def test_every_hazard_is_found_and_no_other(judged):
    assert judged.wrong["hazards"][:5] == [], f"{len(judged.wrong['hazards'])} pairs differ"


def test_programs_whose_accesses_are_all_ordered_have_no_hazard(judged):
    assert judged.wrong["clean"][:3] == [], f"{len(judged.wrong['clean'])} reported"


def test_the_programs_are_about_everything(judged):
    """So that a change of the generator cannot leave a property with nothing to say."""
    if PROGRAMS < 500:
        pytest.skip("too few programs were asked for")
    assert {
        "stream_order", "event_wait", "legacy_default_stream", "graph_order", "blocking_copy",
        "copy_engine_busy", "partition_busy", "priority", "context_switch", "module_load", "launch_latency",
        "host_function", "value_wait",
    } <= set(judged.waits.true_ns)  # fmt: skip
    assert {"host_function", "value_wait"} <= set(judged.waits.open_ns)  # those that no row shows
    assert {
        "host_sync", "allocation", "module_load", "implicit_sync", "blocking_copy", "launch_queue_full",
        "profiler_overhead", "late_launch",
    } <= set(judged.idle.true_ns)  # fmt: skip
    assert sum(judged.waits.open_ns.values()) < 0.1 * sum(judged.waits.true_ns.values())
    assert judged.also_open > PROGRAMS // 10
    assert judged.ordered_pairs > 10 * PROGRAMS
    assert judged.hazards > PROGRAMS
    assert judged.clean_programs > PROGRAMS // 4


@pytest.mark.parametrize("feature", FEATURES)
def test_programs_about_one_thing(feature):
    """Few features at a time, so that what differs is plain."""
    result = Judged()
    for seed in range(3):
        simulated = run(random_program(seed, features=frozenset({feature})))
        found = waits(simulated.trace, dependencies(simulated.trace))
        result.wrong["waits"] += [s for s in judge_waits(simulated, found) if not s.is_right]
    assert result.wrong["waits"] == []
