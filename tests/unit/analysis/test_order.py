"""Happens-before: small programs by hand, and all programs against searching an explicit graph."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.happens import Act, programs, trace_of, truth_of
from overlane.analysis.dependencies import dependencies
from overlane.analysis.order import CERTAIN, happens_before
from overlane.analysis.ordering import clocks
from overlane.errors import OverlaneError


def order_of(trace):
    return happens_before(trace, dependencies(trace))


def matrix(order, count):
    every = np.arange(count)
    return order.before(every[:, None], every[None, :])


@settings(max_examples=400, deadline=None)
@given(programs(), st.randoms())
def test_order_is_reachability(acts, chance):
    ops = sum(act.kind in {"op", "programmatic", "copy_back"} for act in acts)
    stamps = list(range(ops))
    chance.shuffle(stamps)
    trace, op_of, row_of = trace_of(acts, stamps)
    truth, order = truth_of(acts), order_of(trace)
    found = matrix(order, ops)
    for a, first in op_of.items():
        for b, second in op_of.items():
            assert found[first, second] == truth.before(a, b), (a, b)
    items = {i: order.program.op_item[op] for i, op in op_of.items()}
    items |= {i: order.program.access_item[row] for i, row in row_of.items()}
    for a, first in items.items():
        for b, second in items.items():
            if a != b:
                assert order.before_items(first, second) == truth.before(a, b), (a, b)
    assert np.array_equal(order.certainty(*np.indices(found.shape)) == CERTAIN, found)


def test_more_streams_than_clocks_have_room_for_are_refused(monkeypatch):
    trace, _, _ = trace_of([Act("op", 0, 3), Act("op", 0, 4)])
    assert not order_of(trace).before(0, 1)
    monkeypatch.setattr(clocks, "_MOST_CHAINS", 2)
    with pytest.raises(OverlaneError, match=r"at most 2 streams and host threads, and the trace has \d+"):
        order_of(trace)
