"""A trace hands out rows, views and attributes as the source wrote them."""

import pandas as pd
import pytest

from overlane.tables import table_from_columns
from overlane.validation import validate
from overlane_collect.model import Capability, ClockDomain, Header, IntegrityCheck


@pytest.fixture
def trace():
    ops = table_from_columns(
        "ops",
        {
            "rank": [1, 1],
            "start_ns": [0, 5],
            "end_ns": [4, None],
            "kind": ["kernel", "memcpy"],
            "name": ["a", "b"],
            "grid": [[2, 1, 1], None],
        },
    )
    attributes = table_from_columns(
        "attributes",
        {
            "table": ["ops", "ops", "ranges"],
            "row_id": [0, 1, 0],
            "template": [
                '{"occupancy": #, "note": "#5 \\"#\\"", "sizes": [#, #]}',
                '{"x": #}',
                '{"stack": "f"}',
            ],
            "integers": [[50, 3, -4], [9007199254740993], []],
        },
    )
    ranges = table_from_columns(
        "ranges", {"rank": [1], "track": ["python"], "name": ["f"], "start_ns": [0], "end_ns": [4]}
    )
    return validate("t", Header("test"), {"ops": ops, "ranges": ranges, "attributes": attributes})


def test_row_holds_every_column(trace):
    row = trace.row("ops", 0)
    assert row["grid"] == [2, 1, 1]
    assert row["end_ns"] == 4
    assert set(row) == set(trace.table("ops").schema.names)


def test_row_outside_the_table(trace):
    with pytest.raises(IndexError, match="ops has 2 rows, none is 2"):
        trace.row("ops", 2)


def test_attributes_come_back_as_written(trace):
    assert trace.attributes("ops", 0) == {"occupancy": 50, "note": '#5 "#"', "sizes": [3, -4]}
    assert trace.attributes("ops", 1) == {"x": 2**53 + 1}
    assert trace.attributes("ranges", 0) == {"stack": "f"}
    assert trace.attributes("syncs", 0) == {}
    assert trace.attributes("ranges", 1) == {}


def test_view_is_indexed_by_row_id_and_keeps_unknown_as_na(trace):
    ops = trace.ops
    assert ops.index.name == "op_id"
    assert ops["end_ns"].isna().tolist() == [False, True]
    assert ops["rank"].dtype == pd.Int32Dtype()


def test_changing_a_view_does_not_change_the_trace(trace):
    view = trace.ops
    view["start_ns"] = 0
    assert trace.ops["start_ns"].tolist() == [0, 5]


def test_span_counts_an_unfinished_row_by_its_start(trace):
    assert trace.span_ns == 5


def test_ranks(trace):
    assert trace.ranks == (1,)
    assert validate("empty", Header("test"), {}).ranks == (None,)


def test_a_column_with_unknown_values_is_not_handed_out_as_numbers(trace):
    assert trace.column("ops", "start_ns").tolist() == [0, 5]
    with pytest.raises(ValueError, match="holds nulls"):
        trace.column("ops", "end_ns")


def test_header_survives_json():
    header = Header(
        "test",
        origin_unix_ns=2**62,
        capabilities={"sync_ids": Capability(proven=False, reason="no such rows")},
        integrity=(IntegrityCheck("dropped", "ok", 0, "nothing dropped"),),
        clocks=(ClockDomain("host"),),
    )
    assert Header.from_json(header.to_json()) == header
