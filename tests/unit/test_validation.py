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
    assert refused(ops=ops(partition_id=[0, None])) == (
        "table ops: column partition_id holds 0 in row 0, which lies outside its table of 0 rows"
    )
    partitions = table_from_columns("partitions", {"context_id": [1]})
    assert "column partition_id holds 7 in row 1" in refused(
        ops=ops(partition_id=[None, 7]), partitions=partitions
    )
    assert "column partition_id holds -2 in row 1" in refused(
        ops=ops(partition_id=[0, -2]), partitions=partitions
    )
    validate("t", Header("test"), {"ops": ops(partition_id=[0, None]), "partitions": partitions})


def attributes(**changes):
    columns = {
        "table": ["ops", "ops"],
        "row_id": [0, 1],
        "template": ['{"a": #}'] * 2,
        "integers": [[1], [2]],
    }
    return table_from_columns("attributes", columns | changes, is_sorted=True)


def test_good_attributes_of_any_shape():
    templates = ['{"a": "#\\"#\\\\", "b": [#, {"c": #}]}', '{"#": "\\\\", "b": -1.5}']
    found = attributes(template=templates, integers=[[1, -2], []])
    for table in (found, pa.concat_tables([found.slice(0, 1), found.slice(1, 1)])):
        trace = validate("t", Header("test"), {"ops": ops(), "attributes": table})
        assert trace.attributes("ops", 0) == {"a": '#"#\\', "b": [1, {"c": -2}]}
        assert trace.attributes("ops", 1) == {"#": "\\", "b": -1.5}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"integers": [[1], []]}, "row 1 has 0 integers and its template has 1 places for them"),
        ({"integers": [[1, 2], [2]]}, "row 0 has 2 integers and its template has 1 places for them"),
        ({"template": ['{"a": "#"}'] * 2}, "row 0 has 1 integers and its template has 0 places"),
        ({"integers": [[1], [None]]}, "column integers holds null"),
        ({"template": ['{"a": #}', "[#]"]}, "column template is no JSON object with # for integers in row 1"),
        ({"template": ['{"a": 1#}'] * 2}, "is no JSON object"),
        ({"template": ['{"a": -#}'] * 2}, "is no JSON object"),
        ({"template": ['{"a": #.5}'] * 2}, "is no JSON object"),
        ({"template": ["{#: 1}"] * 2}, "is no JSON object"),
        ({"template": ['{"a": #'] * 2}, "is no JSON object"),
        ({"template": ["#"] * 2}, "is no JSON object"),
        ({"template": ["[" * 100_000] * 2}, "is no JSON object"),
        ({"table": ["ops", "kernels"]}, "column table holds 'kernels' in row 1; known: ops"),
        ({"row_id": [0, 2]}, "column row_id holds 2 in row 1, which lies outside ops of 2 rows"),
        ({"row_id": [-1, 0]}, "column row_id holds -1 in row 0, which lies outside ops of 2 rows"),
        ({"row_id": [1, 0]}, "row 1 is not in canonical order"),
        ({"row_id": [1, 1]}, "row 1 is not in canonical order"),
        ({"table": ["ranges", "ops"]}, "row 1 is not in canonical order"),
        ({"table": ["ranges", "ranges"]}, "lies outside ranges of 1 rows"),
    ],
)
def test_attributes_that_could_not_be_handed_out(changes, words):
    ranges = table_from_columns("ranges", {"track": ["python"], "name": ["f"], "start_ns": [0]})
    table = attributes(**changes)
    assert words in refused(ops=ops(), ranges=ranges, attributes=table)
    if "row 1" in words:  # in whatever pieces the table comes
        split = pa.concat_tables([table.slice(0, 1), table.slice(1, 1)])
        assert words in refused(ops=ops(), ranges=ranges, attributes=split)
