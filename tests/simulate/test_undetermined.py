"""What the rows leave open: two programs that leave the same rows, and whose truths differ.

Where the simulator says that a cause is open (`WaitPart.may_be`), that is shown here for each reason there
is: nobody can tell the two programs apart by their rows, so who tells one cause is wrong about one of them.
"""

import pytest

from overlane.analysis.causes import CAUSE_NAMES
from overlane.analysis.dependencies import dependencies
from overlane.analysis.hazards import hazards
from overlane.analysis.order import happens_before
from overlane.analysis.waits import waits
from overlane.simulate import (
    Access,
    Buffer,
    Device,
    HostFunction,
    HostWork,
    Launch,
    Program,
    Release,
    Stream,
    StreamSync,
    Thread,
    ValueWait,
    run,
)  # fmt: skip
from overlane.simulate.scoring import stretches
from overlane_collect.schema import TABLES

FULL = {"blocks": 8, "threads": 1024}  # takes all threads of the four SMs
HALF = {"blocks": 4, "threads": 1024}
PLAIN = (Stream("a"), Stream("b"), Stream("c"))
RANKED = (Stream("low"), Stream("filler"), Stream("high", priority=-5))


def program(*statements, streams=PLAIN, flag_ns=None, **more):
    """One thread with these statements; another one, held by nothing, sets the flag `f` at that time."""
    threads = [Thread(statements)]
    if flag_ns is not None:
        threads.append(Thread((HostWork(flag_ns), Release("f"))))
    return Program(tuple(threads), streams, **more)


def function_behind_full_sms(ns):
    """The SMs are full longer than the host function runs, whose end no row shows."""
    return program(Launch("b", 60_000, **FULL), HostFunction("a", ns), Launch("a", **FULL))


def flag_behind_full_sms(ns):
    return program(Launch("b", 60_000, **FULL), ValueWait("a", "f"), Launch("a", **FULL), flag_ns=ns)


def function_and_flag(function_ns, flag_ns):
    """Both hold one kernel; which of them ended last is not shown."""
    return program(HostFunction("a", function_ns), ValueWait("a", "f"), Launch("a"), flag_ns=flag_ns)


def function_of_a_stream(stream):
    """The call of a host function does not say in which stream it stands."""
    first, last = Launch("a", **HALF), Launch("b", **HALF)
    return program(Launch("c", 60_000, **FULL), HostFunction(stream, 30_000), first, last)


def trigger(ns):
    """When a kernel lets a programmatic launch behind it start is in no row."""
    behind = Launch("a", launch_type="programmatic", **FULL)
    return program(Launch("b", 60_000, **HALF), Launch("a", 30_000, trigger_ns=ns, **HALF), behind)


def turn_of_the_higher(ns):
    """Whether the higher kernel was eligible before the lower one hangs on the end of a host function."""
    high, low = Launch("high", **FULL), Launch("low", **FULL)
    filler = Launch("filler", 60_000, **FULL)
    return program(filler, HostFunction("high", ns), high, low, streams=RANKED)


def places_of_blocks(fills):
    """Two small blocks on one SM leave the other to a large one, on two SMs they leave it none."""
    small = Launch("a", 3_500, blocks=2, threads=32, shared_bytes=40_000)
    large = Launch("b", threads=32, shared_bytes=200_000)
    return program(small, large, devices=(Device(sm_count=2, fills=fills),))


PAIRS = {
    "host function": (function_behind_full_sms(10_000), function_behind_full_sms(30_000)),
    "value wait": (flag_behind_full_sms(20_000), flag_behind_full_sms(40_000)),
    "host function or value wait": (function_and_flag(70_000, 40_000), function_and_flag(30_000, 70_750)),
    "stream of a host function": (function_of_a_stream("a"), function_of_a_stream("b")),
    "trigger": (trigger(5_000), trigger(20_000)),
    "priority": (turn_of_the_higher(1_000), turn_of_the_higher(30_000)),
    "room on SMs": (places_of_blocks("emptiest"), places_of_blocks("fullest")),
}


def assert_same_rows(one, other):
    assert one.trace.header == other.trace.header
    for name in TABLES:
        assert one.trace.table(name).equals(other.trace.table(name)), name


def differences(one, other):
    """Instants of a wait at which the truths differ, with both causes."""
    true = [(p.op_id, p.start_ns, p.end_ns, p.cause, p.may_be) for p in one.truth.waits]
    cuts = stretches(true, [(p.op_id, p.start_ns, p.end_ns, p.cause) for p in other.truth.waits])
    return [cut for cut in cuts if cut.true != cut.found]


def found_at(trace, op_id, at_ns):
    """Return the cause that the analysis gives an instant, and those that it lists as also open."""
    found = waits(trace, dependencies(trace))
    is_there = (found.op == op_id) & (found.start_ns <= at_ns) & (at_ns < found.end_ns)
    (place,) = is_there.nonzero()[0]
    bits = int(found.also_open[place])
    return CAUSE_NAMES[found.cause[place]], {n for k, n in enumerate(CAUSE_NAMES) if bits >> k & 1}


@pytest.mark.parametrize("pair", PAIRS)
def test_same_rows_and_different_truths(pair):
    one, other = (run(program) for program in PAIRS[pair])
    assert_same_rows(one, other)
    differ = differences(one, other)
    assert differ
    for cut in differ:
        assert {cut.true, cut.found} <= cut.may_be


@pytest.mark.parametrize("pair", PAIRS)
def test_no_third_cause_is_told(pair):
    one, other = (run(program) for program in PAIRS[pair])
    for cut in differences(one, other):
        cause, _ = found_at(one.trace, cut.subject, cut.start_ns)
        assert cause in {"unknown", cut.true, cut.found}, cut


def test_who_set_a_flag_is_not_shown():
    """The thread that waited for the first kernel sets the flag before the second, or another one does."""
    first = Launch("a", 20_000, accesses=(Access("data", "write"),))
    second = Launch("b", accesses=(Access("data", "read"),))
    held = (first, ValueWait("b", "f"), second, StreamSync("a"))
    after, beside = Thread((*held, Release("f"))), Thread((*held, Release("g")))
    returned = run(Program((after, Thread(())), PLAIN, buffers=(Buffer("data"),))).host.calls[-1].end_ns
    one, other = (
        run(Program((thread, Thread((HostWork(returned), Release(flag)))), PLAIN, buffers=(Buffer("data"),)))
        for thread, flag in ((after, "g"), (beside, "f"))
    )
    assert_same_rows(one, other)
    assert one.truth.may_happen_before[0, 1]
    assert not other.truth.may_happen_before[0, 1]
    order = happens_before(one.trace, dependencies(one.trace))
    assert not order.before(0, 1)
    found = hazards(one.trace, order)
    assert [(found.row(k).kind, found.row(k).certainty) for k in range(len(found))] == [("RAW", "possible")]


def test_a_pair_that_rows_tell_apart_is_noticed():
    one, other = run(function_behind_full_sms(10_000)), run(function_behind_full_sms(70_000))
    with pytest.raises(AssertionError, match="ops"):
        assert_same_rows(one, other)
