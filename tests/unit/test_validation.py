"""Validation refuses tables that break the contract and says where."""

import pyarrow as pa
import pytest

from overlane.errors import TraceInvalidError
from overlane.tables import table_from_columns
from overlane.validation import validate
from overlane_collect.model import Header
from overlane_collect.schema import TABLES


def ops(**changes):
    columns = {"start_ns": [0, 5], "end_ns": [4, 9], "kind": ["kernel", "kernel"], "name": ["a", "b"]}
    return table_from_columns("ops", columns | changes)


def replaced(table, column, values):
    index = table.schema.get_field_index(column)
    return table.set_column(
        index, table.schema.field(index).with_nullable(True), pa.array(values, table.schema.field(index).type)
    )


def refused(**tables):
    with pytest.raises(TraceInvalidError) as caught:
        validate("t", Header("test"), tables)
    return str(caught.value)


def test_a_good_table_makes_a_trace_and_the_others_are_empty():
    trace = validate("t", Header("test"), {"ops": ops()})

    assert trace.table("ops").num_rows == 2
    assert all(trace.table(name).num_rows == 0 for name in TABLES if name != "ops")


def test_unknown_table():
    assert refused(kernels=ops()) == "no table is called kernels; known: " + ", ".join(TABLES)


def test_missing_column():
    assert "missing ['stream_id']" in refused(ops=ops().drop_columns(["stream_id"]))


def test_wrong_type():
    table = ops()
    index = table.schema.get_field_index("start_ns")
    assert refused(ops=table.set_column(index, "start_ns", table["start_ns"].cast(pa.float64()))) == (
        "table ops: column start_ns is double, not int64"
    )


def test_null_where_null_is_not_allowed():
    assert refused(ops=replaced(ops(), "start_ns", [0, None])) == (
        "table ops: column start_ns is never null, row 1 is"
    )


def test_value_outside_an_enumeration():
    message = refused(ops=ops(engine=["compute", "gpu"]))
    assert message.startswith("table ops: column engine holds ['gpu']; allowed: compute, copy_h2d")


def test_a_word_that_no_row_uses_is_no_fault():
    encoded = pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int32()), pa.array(["compute", "gpu"]))
    assert (
        validate("t", Header("test"), {"ops": ops(engine=encoded)}).ops["engine"].tolist() == ["compute"] * 2
    )


def test_end_before_start():
    assert refused(ops=replaced(ops(), "end_ns", [4, 1])) == "table ops: row 1 ends before it starts"


def test_unfinished_is_not_before_start():
    assert (
        validate("t", Header("test"), {"ops": ops(end_ns=[None, 9])}).table("ops")["end_ns"].null_count == 1
    )


def test_negative_time():
    assert "holds -1" in refused(ops=ops(start_ns=[-1, 5]))


def test_queued_before_the_origin_is_allowed():
    validate("t", Header("test"), {"ops": ops(queued_ns=[-10, 1])})


def test_out_of_order():
    assert "row 1 is not in canonical order" in refused(
        ops=replaced(replaced(ops(), "start_ns", [5, 0]), "end_ns", [9, 4])
    )


def test_second_sort_key_counts_too():
    table = replaced(replaced(ops(), "start_ns", [0, 0]), "end_ns", [9, 4])
    assert "row 1 is not in canonical order" in refused(ops=table)


def test_reference_outside_its_table():
    assert "lies outside its table of 0 rows" in refused(ops=ops(partition_id=[0, None]))
