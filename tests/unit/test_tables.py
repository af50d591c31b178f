"""Tables are built in the contract's shape, order and types."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlane.errors import TraceInvalidError
from overlane.tables import empty_table, null_array, table_from_columns
from overlane_collect.schema import TABLES, arrow_schema


@pytest.mark.parametrize("name", TABLES)
def test_empty_table_has_the_contracts_schema(name):
    assert empty_table(name).schema == arrow_schema(name)


def test_left_out_columns_become_null():
    table = table_from_columns("ops", {"start_ns": [3], "end_ns": [4], "kind": ["kernel"], "name": ["k"]})

    row = {name: table[name][0].as_py() for name in table.schema.names}
    assert {name for name, value in row.items() if value is not None} == {
        "start_ns",
        "end_ns",
        "kind",
        "name",
    }


def test_rows_are_sorted_with_ties_in_the_order_given():
    table = table_from_columns(
        "ops",
        {
            "start_ns": [5, 1, 1, 1],
            "end_ns": [6, 3, 2, 3],
            "kind": ["kernel"] * 4,
            "name": ["d", "b", "a", "c"],
        },
    )

    assert table["name"].to_pylist() == ["a", "b", "c", "d"]


def test_ranges_put_the_longer_of_two_that_start_together_first():
    table = table_from_columns(
        "ranges",
        {"start_ns": [0, 0], "end_ns": [1, 9], "track": ["operator"] * 2, "name": ["inner", "outer"]},
    )

    assert table["name"].to_pylist() == ["outer", "inner"]


def test_an_unfinished_range_counts_as_the_longest():
    table = table_from_columns(
        "ranges",
        {"start_ns": [0, 0], "end_ns": [9, None], "track": ["operator"] * 2, "name": ["inner", "unfinished"]},
    )

    assert table["name"].to_pylist() == ["unfinished", "inner"]


def test_unknown_identities_sort_last():
    table = table_from_columns("streams", {"device_id": [1, None, 0], "stream_id": [7, 7, 7]})

    assert table["device_id"].to_pylist() == [0, 1, None]


def test_text_keys_sort_by_their_text():
    table = table_from_columns(
        "counters", {"track": ["b", "a", "b"], "at_ns": [1, 5, 0], "value": [1.0, 2.0, 3.0]}
    )

    assert table["value"].to_pylist() == [2.0, 3.0, 1.0]


def test_an_unknown_column_is_refused_with_the_known_ones():
    with pytest.raises(TraceInvalidError, match=r"no column colour; known: .*start_ns"):
        table_from_columns("ops", {"colour": [1]})


def test_lengths_that_differ_are_refused():
    with pytest.raises(TraceInvalidError, match="differ in length"):
        table_from_columns("ops", {"start_ns": [1, 2], "end_ns": [3]})


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=30))
def test_sorting_equals_pythons_stable_sort(rows):
    starts = [start for start, _ in rows]
    ends = [start + length for start, length in rows]
    table = table_from_columns(
        "ops",
        {
            "start_ns": np.array(starts, np.int64),
            "end_ns": np.array(ends, np.int64),
            "kind": ["kernel"] * len(rows),
            "name": [str(i) for i in range(len(rows))],
        },
    )

    order = sorted(range(len(rows)), key=lambda i: (starts[i], ends[i]))
    assert table["name"].to_pylist() == [str(i) for i in order]


@pytest.mark.parametrize("dtype", [field.type for field in arrow_schema("ops")])
def test_null_array_is_all_null_in_every_type(dtype):
    array = null_array(dtype, 5)

    assert array.type == dtype
    assert array.to_pylist() == [None] * 5
    array.validate(full=True)


def test_null_array_survives_a_sort():
    assert null_array(pa.int64(), 3).take(pa.array([2, 0])).to_pylist() == [None, None]
