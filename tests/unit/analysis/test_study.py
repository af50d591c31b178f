"""A study computes each analysis once, keeps it with the cache entry, and cuts parts to its window."""

from __future__ import annotations

import dataclasses
import threading

import numpy as np
import pytest

from overlane import open_trace
from overlane.analysis import barriers, dependencies
from overlane.analysis import study as study_module
from overlane.analysis.study import VERSIONS, Study
from overlane.cache import TraceCache
from overlane.errors import OverlaneError
from unit.timeline.traces import make_trace

KEPT = tuple(VERSIONS)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return TraceCache(tmp_path_factory.mktemp("cache"))


def same(a, b):
    """Whether two results hold the same numbers, whatever they are made of."""
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b)
    if dataclasses.is_dataclass(a):
        return type(a) is type(b) and all(
            same(getattr(a, field.name), getattr(b, field.name)) for field in dataclasses.fields(a)
        )
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return same(vars(a), vars(b)) if type(a).__module__.startswith("overlane") else a == b


@pytest.mark.parametrize(
    "sample", ["green-context-A.overlane", "event-chain.overlane", "ddp_even_rank0.json.gz"]
)
def test_what_is_kept_is_what_was_computed(samples, cache, sample):
    opened = cache.open(samples[sample])
    fresh, kept = Study(opened.trace), Study(opened.trace, keep=opened)
    for name in KEPT:
        assert same(getattr(fresh, name), getattr(kept, name)), name
    assert kept.advice == fresh.advice


def test_nothing_kept_is_computed_again(samples, cache, monkeypatch):
    opened = cache.open(samples["event-chain.overlane"])
    first = Study(opened.trace, keep=opened)
    found = first.advice
    for name in KEPT:
        getattr(first, name)
    again = cache.open(samples["event-chain.overlane"])
    for name in KEPT:
        module = {"order": "order"}.get(name, name)
        function = {"order": "happens_before", "engines": "engine_report"}.get(name, name)
        monkeypatch.setattr(
            f"overlane.analysis.{module}.{function}", lambda *_, name=name, **__: pytest.fail(f"{name} again")
        )
    assert Study(again.trace, keep=again).advice == found


@pytest.mark.parametrize("damage", ["cut", "other classes"])
def test_a_damaged_result_is_computed_anew(samples, tmp_path, monkeypatch, damage):
    opened = TraceCache(tmp_path).open(samples["event-chain.overlane"])
    assert len(Study(opened.trace, keep=opened).waits.op)
    whole = Study(opened.trace).waits
    for file in (tmp_path / opened.key / "results").rglob("*.npy"):
        if damage == "cut":
            content = file.read_bytes()
            file.unlink()
            file.write_bytes(content[:-1])
    if damage == "other classes":
        monkeypatch.setattr(study_module, "unpack", lambda _: {}["Waits"])
    assert same(Study(opened.trace, keep=opened).waits, whole)


def test_a_newer_version_of_a_source_computes_what_is_made_from_it(samples, tmp_path, monkeypatch):
    opened = TraceCache(tmp_path).open(samples["event-chain.overlane"])
    calls = []
    real = barriers.barriers
    monkeypatch.setattr(barriers, "barriers", lambda *given: calls.append(1) or real(*given))
    for _ in range(2):
        assert len(Study(opened.trace, keep=opened).barriers)
    assert calls == [1]
    monkeypatch.setitem(VERSIONS, "dependencies", (VERSIONS["dependencies"][0] + 1, ()))
    assert len(Study(opened.trace, keep=opened).barriers)
    assert calls == [1, 1]


def test_results_of_windows_are_not_those_of_the_whole_and_stay_in_memory(samples, cache):
    opened = cache.open(samples["event-chain.overlane"])
    start = int(opened.trace.column("ops", "start_ns")[3])
    window = (start, start + 100_000)
    whole, cut = Study(opened.trace, keep=opened), Study(opened.trace, keep=opened, window=window)
    assert cut.waits is not whole.waits
    assert same(cut.waits, whole.waits)
    assert int(cut.idle_parts("device").length_ns.sum()) < int(whole.idle_parts("device").length_ns.sum())
    kept = sorted(path.name for path in cache.folder.rglob("*.npy"))
    assert same(Study(opened.trace, keep=opened, window=window).idle, cut.idle)
    assert cut.critical_path is not None
    assert cut.barriers is not None
    assert sorted(path.name for path in cache.folder.rglob("*.npy")) == kept


def test_parts_are_cut_to_the_window(samples, cache):
    opened = cache.open(samples["vector-add-pinned.overlane"])
    whole = Study(opened.trace).wait_parts
    low, high = (int(np.quantile(whole.start_ns, share)) for share in (0.4, 0.6))
    cut = Study(opened.trace, window=(low, high)).wait_parts
    assert len(cut) > 0
    assert cut.start_ns.min() >= low
    assert cut.end_ns.max() <= high
    inside = np.maximum(np.minimum(whole.end_ns, high) - np.maximum(whole.start_ns, low), 0)
    assert int(cut.length_ns.sum()) == int(inside.sum())


@pytest.mark.parametrize("scope", ["device", "partition", "stream"])
def test_parts_of_idle_time_name_their_owner_and_device(samples, cache, scope):
    study = Study(cache.open(samples["green-context-A.overlane"]).trace)
    parts = study.idle_parts(scope)
    owner = study.owner(scope, int(parts.owner[0]))
    assert owner["device_id"] == 0
    assert (owner["stream_id"] is None) == (scope != "stream")
    assert (parts.device == 0).all()


def test_an_empty_trace_has_no_parts_and_no_findings():
    study = Study(make_trace())
    assert len(study.wait_parts) == len(study.idle_parts("stream")) == len(study.barriers) == 0
    assert (study.partitions, study.isolation, study.advice.findings) == ((), (), ())


def test_a_window_that_ends_before_it_starts_is_refused():
    with pytest.raises(OverlaneError, match="ends before it starts"):
        Study(make_trace(), window=(9, 3))


def test_threads_compute_each_analysis_once(samples, monkeypatch):
    calls = []
    real = dependencies.dependencies
    monkeypatch.setattr(dependencies, "dependencies", lambda trace: calls.append(1) or real(trace))
    study = Study(open_trace(samples["event-chain.overlane"]))
    threads = [threading.Thread(target=lambda: study.advice) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert calls == [1]


def test_what_needs_little_does_not_wait_for_what_takes_long(samples, monkeypatch):
    """How engines shared the time is told while another thread is still at the dependencies."""
    may_end, has_begun = threading.Event(), threading.Event()
    real = dependencies.dependencies

    def slow(trace):
        has_begun.set()
        assert may_end.wait(60)
        return real(trace)

    monkeypatch.setattr(dependencies, "dependencies", slow)
    study = Study(open_trace(samples["event-chain.overlane"]))
    thread = threading.Thread(target=lambda: study.waits)
    thread.start()
    assert has_begun.wait(60)
    assert study.engines.devices
    assert thread.is_alive()
    may_end.set()
    thread.join()
    assert len(study.waits.wait_ns) == len(study.work)


@pytest.mark.parametrize("by", ["stream", "partition", "name", "cause"])
def test_nothing_waited_has_no_distribution(by):
    trace = make_trace(ops=[{"device_id": 0, "context_id": 1, "stream_id": 7, "start_ns": 0, "end_ns": 5}])
    assert Study(trace).waits.distribution(by) == []
