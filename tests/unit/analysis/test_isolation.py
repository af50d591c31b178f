"""Isolation of critical streams: the waits for room, and what they are compared with."""

from types import SimpleNamespace

import numpy as np
import pytest

from overlane.analysis.isolation import Distribution, distribution, isolation
from unit.timeline.traces import make_trace


@pytest.mark.parametrize(
    ("count", "wanted"),
    [(1, (1, 1, 1, 1, 1)), (2, (1, 2, 2, 2, 2)), (10, (5, 9, 10, 10, 10)), (100, (50, 90, 99, 100, 100)),
     (1000, (500, 900, 990, 999, 1000))],
)  # fmt: skip
def test_percentiles_are_observed_waits(count, wanted):
    """Of the waits 1 to n, the q-quantile by nearest rank is the least that q of them do not exceed."""
    waits = np.random.default_rng(1).permutation(np.arange(1, count + 1))
    found = distribution(waits, np.arange(count) + 7)
    assert (found.p50_ns, found.p90_ns, found.p99_ns, found.p999_ns, found.max_ns) == wanted
    assert waits[found.max_op_id - 7] == count
    assert distribution(waits[:0], waits[:0]) is None


def kernel(stream, start, name="k", priority=0, partition=None):
    return {"device_id": 0, "context_id": 1, "stream_id": stream, "engine": "compute", "name": name,
            "priority": priority, "partition_id": partition, "start_ns": start,
            "end_ns": start + 10}  # fmt: skip


def one(*waits, op):
    ranked = sorted(waits)
    return Distribution(len(waits), ranked[(len(ranked) - 1) // 2], *[ranked[-1]] * 4, op)


def test_a_more_urgent_stream_is_compared_alone_beside_others_and_elsewhere():
    trace = make_trace(
        ops=[kernel(7, 0, "bulk"), kernel(9, 8, priority=-5), kernel(9, 50, priority=-5), kernel(7, 70)]
    )
    deps = SimpleNamespace(eligible_ns=np.array([0, 5, 48, 61]))
    (found,) = isolation(trace, deps)
    assert (found.stream_id, found.priority, found.kernel) == (9, -5, "k")
    assert found.beside == one(3, op=1)
    assert found.alone == one(2, op=2)
    assert found.elsewhere == one(9, op=3)


def test_streams_of_green_contexts_are_critical_and_unknown_waits_are_counted():
    parts = [{"device_id": 0, "context_id": 1}, {"device_id": 0, "context_id": 2, "parent_context_id": 1}]
    trace = make_trace(ops=[kernel(7, 0, partition=0), kernel(9, 20, partition=1)], partitions=parts)
    (found,) = isolation(trace, SimpleNamespace(eligible_ns=np.array([0, -1])))
    assert (found.partition_id, found.unknown_count, found.alone, found.beside) == (1, 1, None, None)
    assert found.elsewhere == one(0, op=0)


def test_nothing_is_critical_without_partition_or_priority():
    trace = make_trace(ops=[kernel(7, 0, priority=None), kernel(9, 20, priority=None)])
    assert isolation(trace, SimpleNamespace(eligible_ns=np.array([0, 0]))) == ()
    assert isolation(make_trace(), SimpleNamespace(eligible_ns=np.zeros(0, np.int64))) == ()


def test_a_window_takes_the_kernels_that_start_in_it():
    trace = make_trace(ops=[kernel(7, 0), kernel(9, 20, priority=-1), kernel(9, 40, priority=-1)])
    (found,) = isolation(trace, SimpleNamespace(eligible_ns=np.array([0, 15, 40])), window=(30, 50))
    assert found.alone == one(0, op=2)
    assert found.elsewhere is None
