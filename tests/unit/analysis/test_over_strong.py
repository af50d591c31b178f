"""Over-strong synchronizations: random programs against an explicit graph, and small ones by hand."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings

from helpers.happens import Act, programs, trace_of, truth_of
from overlane.analysis.dependencies import dependencies
from overlane.analysis.order import happens_before
from overlane.analysis.over_strong import over_strong
from overlane.analysis.redundant_waits import redundant_waits

STRONG = ("stream_sync", "context_sync", "device_sync")
ITEMS = ("op", "programmatic", "copy_back", "copy_out", "host")
KINDS = (
    *["op"] * 6, "programmatic", "copy_back", *["copy_out"] * 2, *["record"] * 3, *["wait"] * 3, "event_sync",
    *["stream_sync"] * 3, "context_sync", "device_sync", "device_sync", "stream_query", "host",
)  # fmt: skip
SMALL = programs(18, least=6, kinds=KINDS, few=True, touches=(1, 1))
MIXED = SMALL | programs(20, least=6, kinds=KINDS) | programs(20, least=6, kinds=KINDS, touches=(1, 2))


def begun(acts):
    """Let each thread wait for all streams first, as nothing is known of what came before the recording."""
    threads = sorted({act.thread for act in acts})
    return [Act("device_sync", thread, stream) for thread in threads for stream in (4, 6)] + acts


def of_acts(acts):
    """Return the operation whose event would do in place of each that is found, and those checked."""
    trace, op_of, _ = trace_of(acts)
    deps = dependencies(trace)
    order = happens_before(trace, deps)
    gone = redundant_waits(trace, deps, order)
    found = over_strong(trace, deps, order, gone)
    act_of = [ns // 10 for ns in trace.table("syncs")["start_ns"].to_pylist()]
    act_of_op = {op: act for act, op in op_of.items()}
    rows = [found.row(place) for place in range(len(found))]
    event = {act_of[row.sync_id]: None if row.op_id is None else act_of_op[row.op_id] for row in rows}
    silent = {act_of[row] for row in gone.sync[gone.is_certain].tolist() if acts[act_of[row]].kind in STRONG}
    return event, silent, {act_of[row] for row, code in enumerate(found.reason.tolist()) if code == 0}


def overlaps(a, b):
    return any(
        x[0] < y[0] + y[1] and y[0] < x[0] + x[1] and (x[2] or y[2]) for x, y in product(a.touches, b.touches)
    )


def conflicts(a, b):
    """Tell whether two actions may touch the same bytes, one of them writing; an operation may hide that."""
    hidden = [act.kind != "host" and not act.touches for act in (a, b)]
    return overlaps(a, b) or (
        any(hidden) and all(h or act.touches for h, act in zip(hidden, (a, b), strict=True))
    )


def is_for_host(acts, i):
    """Tell whether the host may need what an operation writes: the target of a copy, or what is not told."""
    act = acts[i]
    if act.kind == "host":
        return False
    told = {byte for a in acts if a.kind == "host" for t in a.touches for byte in range(t[0], t[0] + t[1])}
    writes = [t for t in act.touches if t[2]]
    if act.kind in {"op", "programmatic"}:
        return not act.touches
    return not writes or any(byte not in told for t in writes for byte in range(t[0], t[0] + t[1]))


def kept(acts, truth, *, at_end=True):
    """Return what has to be so: pairs of items in order, and items that a thread knows to be over by then."""
    items = [i for i, act in enumerate(acts) if act.kind in ITEMS and (act.touches or act.kind != "host")]
    found = {
        ("before", a, b)
        for a, b in product(items, items)
        if a < b and truth.before(a, b) and conflicts(acts[a], acts[b])
    }
    ends = {act.thread: i for i, act in enumerate(acts)}
    for a, (i, act) in product(items, enumerate(acts)):
        if act.kind in {*STRONG, "event_sync", "copy_back", "stream_query"} or (
            at_end and ends[act.thread] == i
        ):
            is_needed = is_for_host(acts, a) or (at_end and ends[act.thread] == i)
            if is_needed and truth.reach[truth.end[a], truth.done[i]]:
                found.add(("over", a, i))
    return found


@settings(max_examples=400, deadline=None)
@given(MIXED)
def test_events_in_place_of_all_that_are_found_keep_every_conflict_in_order(acts):
    acts = begun(acts)
    event, silent, checked = of_acts(acts)
    assert set(event) <= checked
    full, rest = kept(acts, truth_of(acts)), kept(acts, truth_of(acts, instead=event, mute=silent))
    assert full <= rest, (event, sorted(full - rest))
