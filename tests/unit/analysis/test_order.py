"""Happens-before: small programs by hand, and all programs against searching an explicit graph."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.happens import programs, trace_of, truth_of
from overlane.analysis.dependencies import dependencies
from overlane.analysis.order import CERTAIN, happens_before


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
