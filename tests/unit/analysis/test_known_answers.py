"""The bundled recordings, whose workloads inject one cause each: is it the one that is named?

And against misreadings of CUDA's rules: every certain edge must hold in time in every real recording.
"""

from __future__ import annotations

from collections import Counter
from functools import cache

import numpy as np
import pytest

from helpers import corpus
from overlane.analysis.barriers import barriers
from overlane.analysis.causes import CAUSES
from overlane.analysis.dependencies import DEPENDENCY_KINDS, dependencies
from overlane.analysis.idle import SCOPES, idle
from overlane.analysis.waits import waits
from overlane.errors import OverlaneError
from overlane.readers import open_trace
from overlane.samples import sample_path, sample_paths

UNKNOWN_FRACTION = 0.02
"""Of wait plus idle of a workload, parts below the clock's fit error apart."""


class Answers:
    """The analyses of one recording."""

    def __init__(self, path):
        self.trace = open_trace(path)
        self.deps = dependencies(self.trace)
        self.waits = waits(self.trace, self.deps)
        self.idle = idle(self.trace, self.deps, self.waits)
        self.barriers = barriers(self.trace, self.deps, self.waits, self.idle)

    def ops(self, **chosen):
        """Return the operations with these values in table `ops`."""
        rows = self.trace.table("ops")
        fits = np.ones(rows.num_rows, bool)
        for column, value in chosen.items():
            fits &= np.array([found == value for found in rows[column].to_pylist()])
        return fits

    def stream(self, name):
        """Return the number of the stream with a name."""
        return next(n for n, row in enumerate(self.deps.streams) if row.name == name)

    def waited(self, ops=None, since=None, until=None):
        """Return waiting time by cause, of some operations, within some time."""
        keep = np.ones(len(self.waits.op), bool) if ops is None else ops[self.waits.op]
        low = self.waits.start_ns if since is None else np.maximum(self.waits.start_ns, since)
        high = self.waits.end_ns if until is None else np.minimum(self.waits.end_ns, until)
        return by_cause(self.waits.cause[keep], (high - low)[keep])

    def idled(self, scope="stream", owner=None, within=None):
        """Return idle time by cause, of one owner, within some time."""
        gap = self.idle.gap
        keep = self.idle.scope[gap] == SCOPES.index(scope)
        keep &= self.idle.owner[gap] == owner if owner is not None else True
        low, high = self.idle.part_start_ns, self.idle.part_end_ns
        if within is not None:
            low, high = np.maximum(low, within[0]), np.minimum(high, within[1])
        return by_cause(self.idle.cause[keep], (high - low)[keep])


def by_cause(causes, lengths):
    total = Counter()
    for code, length in zip(causes.tolist(), lengths.tolist(), strict=True):
        if length > 0:
            total[CAUSES[code].name] += length
    return total


def share(counter, *names):
    return sum(counter[name] for name in names) / max(sum(counter.values()), 1)


@cache
def answers(name):
    return Answers(sample_path(name))


def within(found, name):
    """Return start and end of a range of a recording."""
    rows = [row for row in found.trace.table("ranges").to_pylist() if row["name"] == name]
    assert len(rows) == 1
    return rows[0]["start_ns"], rows[0]["end_ns"]


def test_the_legacy_default_stream_holds_blocking_streams():
    found = answers("default-stream-legacy")
    kernels = found.ops(kind="kernel")
    held = found.waited(kernels)
    del held["launch_latency"]
    assert share(held, "legacy_default_stream") >= 0.95
    first = found.barriers[0]
    assert first.kind == "legacy_default_stream"
    names = {found.deps.streams[number].name for number in first.streams_held}
    assert "first" in names


@pytest.mark.parametrize("mode", ["nonblocking", "per-thread"])
def test_other_streams_are_not_held_by_it(mode):
    found = answers(f"default-stream-{mode}")
    assert found.waited(found.ops(kind="kernel"))["legacy_default_stream"] == 0


def test_the_legacy_and_the_per_thread_default_stream_wait_for_each_other():
    found = answers("default-stream-mixed")
    held = found.waited(found.ops(kind="kernel"))
    del held["launch_latency"]
    assert share(held, "legacy_default_stream") >= 0.95


def test_pageable_copies_block():
    found = answers("vector-add-pageable").waited()
    assert share(found, "blocking_copy") > 0.5


def test_pinned_copies_wait_for_their_stream_or_engine():
    found = answers("vector-add-pinned").waited()
    assert share(found, "stream_order", "copy_engine_busy") > 0.95


def released(found):
    """Return the logged moments at which the host let the critical stream go."""
    rows = found.trace.table("accesses").to_pylist()
    return [row["at_ns"] for row in rows if row["op_id"] is None]


@pytest.mark.parametrize(("mode", "least"), [("A", 0.0), ("C", 0.95)])
def test_a_critical_kernel_waits_for_room_only_without_a_partition(mode, least):
    found = answers(f"green-context-{mode}")
    kernels = np.flatnonzero(found.deps.stream_key == found.stream("critical"))[1:]  # the first only warms up
    after, before = Counter(), Counter()
    for op, at in zip(kernels, released(found), strict=True):
        one = np.zeros(len(found.deps.issued_ns), bool)
        one[op] = True
        after += found.waited(one, since=at)
        before += found.waited(one, until=at)
    assert share(before, "value_wait") > 0.99
    if mode == "A":
        assert after["partition_busy"] <= 1000
    else:
        assert share(after, "partition_busy") >= least


def test_allocation_inside_the_loop_is_named():
    found = answers("alloc-in-loop-inside")
    start = found.deps.issue.start_ns
    loop = (int(start[found.ops(kind="kernel")].min()), int(start[found.ops(kind="kernel")].max()))
    idled = found.idled(within=loop)
    assert idled.most_common(1)[0][0] == "allocation"
    assert idled["allocation"] > 5 * answers("alloc-in-loop-before").idled(within=loop)["allocation"]
    calls = {barrier.proof_row for barrier in each(found, "allocation") if barrier.lost_ns}
    names = found.trace.table("api_calls")["name"].to_pylist()
    assert {"cuMemAlloc_v2", "cuMemFree_v2"} <= {names[call] for call in calls}


def each(found, kind):
    return [b for b in map(found.barriers.__getitem__, range(len(found.barriers))) if b.kind == kind]


def test_a_recording_without_stream_waits_blames_no_resource():
    found = answers("ddp_even_rank0.json.gz")
    assert set(found.waited()) == {"stream_order", "unknown"}
    assert {"syncs", "stream_kinds"} <= set(found.waits.untold_ns())


def test_a_launch_bound_program_launches_late():
    assert share(answers("launch-bound").idled(), "late_launch") > 0.85


@pytest.mark.parametrize("scope", ["device", "stream", "event"])
def test_synchronizations_in_the_loop_are_named(scope):
    found = answers(f"sync-scope-{scope}")
    idled = found.idled()
    assert idled.most_common(1)[0][0] == "host_sync"
    kind = {"device": "context_sync", "stream": "stream_sync", "event": "event_sync"}[scope]
    assert len([barrier for barrier in each(found, kind) if barrier.lost_ns]) >= 9


@pytest.mark.parametrize(
    ("call", "cause", "name"),
    [
        ("mem-free", "allocation", "cuMemFree_v2"),
        ("module-load", "module_load", "cuModuleLoadData"),
        ("green-context", "implicit_sync", "cuGreenCtxCreate"),
    ],
)
def test_calls_that_synchronize_are_named_for_host_and_work(call, cause, name):
    found = answers(f"implicit-sync-{call}")
    names = found.trace.table("api_calls")["name"].to_pylist()
    unrelated = np.flatnonzero(found.deps.stream_key == found.stream("unrelated"))[0]
    later = np.flatnonzero(found.deps.stream_key == found.stream("issued later"))[0]
    end = found.deps.issue.end_ns
    during = (int(found.deps.issue.start_ns[unrelated]), int(found.deps.issue.start_ns[later]))
    held = [b for b in each(found, cause) if names[b.proof_row] == name and b.end_ns > end[unrelated]]
    assert held, "the call holds nothing"
    start, until = found.deps.calls.start_ns[held[0].proof_row], found.deps.calls.end_ns[held[0].proof_row]
    assert start < end[unrelated] <= until  # the host was held until the unrelated kernel had ended
    device = found.idled("device", within=during)
    assert device[cause] > 0  # and the kernel behind the call could not run before it


def test_a_launch_that_loads_its_kernel_is_named_for_host_and_work():
    found = answers("lazy-load-lazy")
    names = found.trace.table("api_calls")["name"].to_pylist()
    end = found.deps.issue.end_ns
    kernels = np.flatnonzero(found.ops(kind="kernel"))
    running, loaded = sorted(kernels, key=lambda op: found.deps.issue.start_ns[op])[-2:]
    (held,) = [b for b in each(found, "module_load") if names[b.proof_row] == "cuLaunchKernel"]
    call = held.proof_row
    assert call == found.deps.issue_call[loaded]
    assert found.deps.calls.start_ns[call] < end[running] <= found.deps.calls.end_ns[call]
    between = (int(end[running]), int(found.deps.issue.start_ns[loaded]))
    device = found.idled("device", within=between)
    assert device["module_load"] > 0.9 * (between[1] - between[0])


def test_a_host_function_between_kernels_is_named():
    found = answers("callback")
    held = found.stream("held by the host")
    waited = found.waited(found.deps.stream_key == held)
    assert share(waited, "host_function") > 0.95
    free = found.waited((found.deps.stream_key == found.stream("free")) & found.ops(kind="kernel"))
    assert free["host_function"] == 0


def test_contexts_take_turns():
    found = answers("two-contexts")
    waited = found.waited(found.ops(kind="kernel"))
    assert waited["context_switch"] > 0
    assert share(waited, "stream_order", "context_switch") > 0.98


@pytest.mark.parametrize("path", sample_paths(), ids=lambda path: path.name)
def test_little_is_unknown(path):
    found = answers(path.name)
    below = found.waits.is_below_fit_error
    total = by_cause(found.waits.cause[~below], (found.waits.end_ns - found.waits.start_ns)[~below])
    gap = found.idle.gap
    keep = (found.idle.scope[gap] == SCOPES.index("stream")) & ~found.idle.is_below_fit_error
    total += by_cause(found.idle.cause[keep], (found.idle.part_end_ns - found.idle.part_start_ns)[keep])
    assert share(total, "unknown") <= UNKNOWN_FRACTION


@pytest.mark.parametrize("path", sample_paths(), ids=lambda path: path.name)
def test_parts_of_recordings_add_up(path):
    found = answers(path.name)
    waited = np.zeros(len(found.waits.wait_ns), np.int64)
    np.add.at(waited, found.waits.op, found.waits.end_ns - found.waits.start_ns)
    assert (waited == np.maximum(found.waits.wait_ns, 0)).all()
    idled = np.zeros(len(found.idle.start_ns), np.int64)
    np.add.at(idled, found.idle.gap, found.idle.part_end_ns - found.idle.part_start_ns)
    assert (idled == found.idle.end_ns - found.idle.start_ns).all()
    assert (found.waits.end_ns > found.waits.start_ns).all()
    assert (found.idle.part_end_ns > found.idle.part_start_ns).all()


def broken(trace):
    """Count certain edges by kind, and list those whose source ended after the operation had started."""
    deps = dependencies(trace)
    error = max((clock.fit_error_ns or 0 for clock in trace.header.clocks), default=0)
    certain = (deps.certainty == 0) & (deps.source >= 0)
    late = certain & (deps.end_ns > deps.issue.start_ns[deps.op] + error)
    counts = Counter(DEPENDENCY_KINDS[kind] for kind in deps.kind[certain])
    return counts, [(int(deps.op[k]), int(deps.source[k])) for k in np.flatnonzero(late)]


def test_every_certain_edge_of_the_samples_holds_in_time():
    counts = Counter()
    for path in sample_paths():
        found, late = broken(open_trace(path))
        assert not late, path.name
        counts += found
    assert counts["stream"] > 20_000
    assert min(counts[kind] for kind in ("event", "legacy", "allocation")) > 20


@pytest.mark.corpus
def test_every_certain_edge_of_the_corpus_holds_in_time(corpus_folder):
    counts = Counter()
    for path in sorted(path for path in corpus_folder.rglob("*") if path.is_file()):
        try:
            trace = open_trace(path)
        except OverlaneError:
            continue  # files of other formats, which the corpus' own tests name
        found, late = broken(trace)
        assert not late, path.name
        counts += found
    assert counts["stream"] > 80_000
    assert corpus.VARIABLE


def test_causes_explain_only_what_they_can(samples):
    found = [answers(name.removesuffix(".overlane")) for name in samples if name.endswith(".overlane")]
    waited = set(np.concatenate([each.waits.cause for each in found]).tolist())
    assert len(waited) > 8
    assert {CAUSES[code].explains for code in waited} <= {"wait", "both"}
