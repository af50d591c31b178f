"""The comparisons with the oracle notice what they are there for: each kind of damage makes one fail."""

from __future__ import annotations

import dataclasses

import pyarrow as pa
import pytest

from helpers import corpus
from helpers import truth as helper
from helpers.oracle import read_file
from helpers.truth import assert_accounted, assert_device, assert_figures, assert_round_trip, assert_times
from overlane.analysis.engines import engine_report
from overlane.readers import open_trace
from overlane.trace import Trace
from overlane_collect.schema import TABLES


@pytest.fixture(scope="module")
def path(samples):
    return samples["torch_cudagraph.json.gz"]


@pytest.fixture(scope="module")
def truth(path):
    return read_file(path)


@pytest.fixture(scope="module")
def trace(path):
    return open_trace(path)


def changed(trace, **tables):
    return Trace(trace.name, trace.header, {name: trace.table(name) for name in TABLES} | tables)


def moved(table, column, row, by):
    values = table[column].to_pylist()
    values[row] += by
    at = table.schema.get_field_index(column)
    return table.set_column(at, table.schema.field(column), pa.array(values, table.schema.field(column).type))


def test_the_undamaged_trace_passes(trace, truth):
    assert_accounted(trace, truth)
    assert_times(trace, truth)
    assert_figures(trace, truth)


@pytest.mark.parametrize("table", ["ops", "api_calls", "ranges"])
def test_one_nanosecond_is_noticed(trace, truth, table):
    damaged = changed(trace, **{table: moved(trace.table(table), "end_ns", 0, 1)})
    with pytest.raises(AssertionError):
        assert_times(damaged, truth)


def test_one_nanosecond_of_busy_time_is_noticed(trace, truth):
    gap_after = next(
        row
        for row, (end, start) in enumerate(
            zip(trace.column("ops", "end_ns"), trace.column("ops", "start_ns")[1:], strict=False)
        )
        if start > end
    )
    damaged = changed(trace, ops=moved(trace.table("ops"), "end_ns", gap_after, 1))
    with pytest.raises(AssertionError):
        assert_figures(damaged, truth)


def test_a_lost_or_doubled_row_is_noticed(trace, truth):
    ops = trace.table("ops")
    for damaged in (ops.slice(1), pa.concat_tables([ops.slice(0, 1), ops])):
        with pytest.raises(AssertionError):
            assert_accounted(changed(trace, ops=damaged), truth)


@pytest.mark.parametrize(
    "damage",
    [
        {"busy_ns": 1},
        {"idle_ns": 1},
        {"exposed_copy_ns": 1},
        {"window": (0, 1)},
        {"engines": ()},
        {"concurrency": ()},
        {"busy_longest": None},
    ],
    ids=lambda damage: next(iter(damage)),
)
def test_every_figure_is_compared(trace, truth, damage):
    (device,) = engine_report(trace).devices
    with pytest.raises(AssertionError):
        assert_device(dataclasses.replace(device, **damage), truth.devices[0])


def test_a_round_trip_that_loses_something_is_noticed(trace, tmp_path, monkeypatch):

    def forgetful(path, header, tables):
        original(path, header, tables | {"streams": tables["streams"].slice(1)})

    original = helper.write_trace
    monkeypatch.setattr(helper, "write_trace", forgetful)
    with pytest.raises(AssertionError, match="streams"):
        assert_round_trip(trace, tmp_path / "again.overlane")


def test_the_tally_counts_what_is_left_out():
    tally = corpus.Tally(listed=3, read={"a"}, refused={"b"})
    assert tally.sentence() == "corpus: 2 files checked (1 read, 1 refused) of 3 listed"


def test_the_corpus_is_named_by_its_variable(monkeypatch, tmp_path):
    monkeypatch.delenv(corpus.VARIABLE, raising=False)
    assert corpus.paths() == []
    (tmp_path / "public").mkdir()
    (tmp_path / "h200").mkdir()
    (tmp_path / "public" / "MANIFEST.json").write_text('[{"local": "a/b.sqlite"}, {"local": "c.json"}]')
    (tmp_path / "h200" / "d.json.gz").write_text("")
    monkeypatch.setenv(corpus.VARIABLE, str(tmp_path))
    assert [path.name for path in corpus.paths()] == ["b.sqlite", "c.json", "d.json.gz"]
    assert [corpus.refused_as(path) is None for path in corpus.paths()] == [False, True, True]
