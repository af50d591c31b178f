"""The `.overlane` file: read back equal, refused when anything differs, never half-written."""

import errno
import hashlib
import json
import os
import struct
import subprocess
import sys
import zipfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlane.tables import empty_table, table_from_columns
from overlane_collect import writer
from overlane_collect.errors import TraceFileError
from overlane_collect.model import Capability, ClockDomain, Header, IntegrityCheck
from overlane_collect.schema import SCHEMA_VERSION, TABLES

HEADER = Header(
    format="overlane",
    producer="hand",
    origin_unix_ns=1_718_293_847_561_234_567,
    dropped={"flow": 3},
    capabilities={"launch_times": Capability(True, "Every kernel has its call.")},
    integrity=(IntegrityCheck("dropped", "warning", 3, "Three records were dropped."),),
    clocks=(ClockDomain("cupti", 0, 40),),
    extra={"ärger": ["ü", 1.5, None]},
)


def small_tables():
    """Unsorted ids, unknown ends, triples (grid) and lists of other lengths (block), text with markup."""
    ops = table_from_columns(
        "ops",
        {
            "stream_id": [7, 7, None, 20],
            "kind": ["kernel", "memcpy", "other", "graph"],
            "name": ["a<1>", "copy", "", "a<1>"],
            "start_ns": [0, 10, 10, 4_000_000_000_000],
            "end_ns": [5, 10, None, 4_000_000_000_001],
            "grid": [[1, 2, 3], None, None, [4, 5, 6]],
            "block": [[1, 2], None, [], [2**31 - 1]],
        },
    )
    attributes = table_from_columns(
        "attributes",
        {
            "table": ["ops", "ops"],
            "row_id": [0, 3],
            "template": ['{"a":#}', "{}"],
            "integers": [[2**62, -1], []],
        },
    )
    return {"ops": ops, "attributes": attributes, "streams": empty_table("streams")}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "small.overlane"
    writer.write_trace(path, HEADER, small_tables())
    return path


def test_what_was_written_comes_back_equal(file):
    header, tables = writer.read_members(file)
    written = small_tables()
    assert header == HEADER
    assert set(tables) == {"ops", "attributes"}  # empty tables are left out
    for name, table in tables.items():
        assert table.equals(written[name])
        assert table.schema == written[name].schema
        table.validate(full=True)


@pytest.mark.parametrize(
    "grids",
    [
        [[2**31 - 1, 65_535, 65_535], None, [1, 1, 1]],  # CUDA's limits
        [[1, 65_536, 1], [1, 2, 3]],  # beyond them: kept as lists
        [[-1, 0, 0]],
        [[1, 2, 3], [4, 5, None]],
        [[1, 2], [1, 2, 3], []],
        [[i, 0, 0] for i in range(70_000)],  # too many for a dictionary
    ],
)
def test_triples_of_any_kind_come_back(tmp_path, grids):
    count = len(grids)
    columns = {"kind": ["kernel"] * count, "name": ["k"] * count, "start_ns": range(count), "grid": grids}
    table = table_from_columns("ops", columns)
    for part in (table, table.slice(count // 2)):
        writer.write_trace(tmp_path / "t.overlane", HEADER, {"ops": part})
        _, tables = writer.read_members(tmp_path / "t.overlane")
        assert tables["ops"]["grid"].to_pylist() == part["grid"].to_pylist()
        tables["ops"].validate(full=True)


@pytest.mark.parametrize("name", list(TABLES))
def test_every_table_keeps_every_type_and_null(tmp_path, name):
    samples = {
        "bool": [True, False, None],
        "int16": [0, -(2**15), None],
        "int32": [2**31 - 1, -(2**31), None],
        "int64": [2**63 - 1, -(2**63), None],
        "float64": [0.1, -1e300, None],
        "string": ["x", "ö\x00", None],
        "list<int32>": [[1, 2, 3], [4, 5, 6], None],
        "list<int64>": [[2**62], [], None],
    }
    schema = empty_table(name).schema
    columns = []
    for spec, field in zip(TABLES[name].columns, schema, strict=True):
        values = list(samples[spec.dtype])
        if spec.null is None:
            values[2] = values[0]
        plain = pa.array(values, field.type.value_type if pa.types.is_dictionary(field.type) else field.type)
        columns.append(plain.cast(field.type) if pa.types.is_dictionary(field.type) else plain)
    table = pa.Table.from_arrays(columns, schema=schema)
    writer.write_trace(tmp_path / "t.overlane", Header("x"), {name: table})
    _, tables = writer.read_members(tmp_path / "t.overlane")
    assert tables[name].to_pylist() == table.to_pylist()
    assert tables[name].schema == schema


def all_null_columns(name, rows):
    """Return the table whose nullable columns hold nulls alone; the others hold the least value."""
    least = {"string": "", "bool": False, "float64": 0.0, "list<int32>": [], "list<int64>": []}
    columns = [
        pa.array([None if spec.null is not None else least.get(spec.dtype, 0)] * rows, field.type)
        for spec, field in zip(TABLES[name].columns, empty_table(name).schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=empty_table(name).schema)


@given(name=st.sampled_from(list(TABLES)), rows=st.integers(1, 300))
@settings(deadline=None)
def test_rows_that_hold_nulls_alone_come_back(tmp_path_factory, name, rows):
    path = tmp_path_factory.mktemp("nulls") / "t.overlane"
    table = all_null_columns(name, rows)
    writer.write_trace(path, HEADER, {name: table})
    _, tables = writer.read_members(path)
    assert tables[name].num_rows == rows
    assert tables[name].equals(table)
    tables[name].validate(full=True)


def test_a_table_stored_without_any_column_has_the_announced_rows(tmp_path):
    """What was written when even the last column of nulls was left out: Parquet then counts no rows."""
    data = parquet(pa.table({}))
    listed = {"rows": 3, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    meta = {**hostile_meta(data), "tables": {"streams": listed}}
    _, tables = writer.read_members(sealed(tmp_path / "t.overlane", meta, {"streams": data}))
    assert tables["streams"].equals(all_null_columns("streams", 3))
    meta["tables"] = {"ops": listed}  # whose columns may not all be null
    with pytest.raises(TraceFileError, match="column kind is missing"):
        writer.read_members(sealed(tmp_path / "t.overlane", meta, {"ops": data}))


def test_several_row_groups_come_back_as_one_table(tmp_path, monkeypatch):
    monkeypatch.setattr("overlane_collect._members.ROW_GROUP_ROWS", 2)
    writer.write_trace(tmp_path / "t.overlane", HEADER, small_tables())
    _, tables = writer.read_members(tmp_path / "t.overlane")
    assert tables["ops"].to_pylist() == small_tables()["ops"].to_pylist()
    assert tables["ops"]["name"].num_chunks == 1


def test_sliced_and_chunked_tables_are_written_right(tmp_path):
    whole = small_tables()["ops"]
    table = pa.concat_tables([whole.slice(0, 1), whole.slice(2, 2)])
    writer.write_trace(tmp_path / "t.overlane", HEADER, {"ops": table})
    _, tables = writer.read_members(tmp_path / "t.overlane")
    assert tables["ops"].to_pylist() == table.to_pylist()


def test_any_zip_and_parquet_tool_can_open_it(file):
    with zipfile.ZipFile(file) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == ["meta.json", "ops.parquet", "attributes.parquet"]
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_STORED}
        meta = json.loads(archive.read("meta.json"))
        assert (meta["format"], meta["version"]) == ("overlane", SCHEMA_VERSION)
        assert meta["tables"]["ops"]["rows"] == 4
        stored = pq.read_table(pa.BufferReader(archive.read("ops.parquet")))
        assert stored["name"].to_pylist() == ["a<1>", "copy", "", "a<1>"]
        assert stored["grid"].to_pylist() == ["1 2 3", None, None, "4 5 6"]


def test_equal_traces_give_equal_files(file, tmp_path):
    writer.write_trace(tmp_path / "again.overlane", HEADER, small_tables())
    assert (tmp_path / "again.overlane").read_bytes() == file.read_bytes()


def test_every_flipped_byte_is_refused(file, tmp_path):
    data = bytearray(file.read_bytes())
    damaged = tmp_path / "damaged.overlane"
    accepted = []
    for position in range(len(data)):
        data[position] ^= 1 << (position % 8)
        damaged.write_bytes(data)
        try:
            writer.read_members(damaged)
        except TraceFileError:
            pass
        else:
            accepted.append(position)
        data[position] ^= 1 << (position % 8)
    assert accepted == []


def test_every_cut_and_every_addition_is_refused(file, tmp_path):
    data = file.read_bytes()
    changed = tmp_path / "changed.overlane"
    for keep in range(0, len(data), 7):
        changed.write_bytes(data[:keep])
        with pytest.raises(TraceFileError, match=r"cut or damaged|not an \.overlane"):
            writer.read_members(changed)
    for addition in (data + b"\0", b"\0" + data, data + data):
        changed.write_bytes(addition)
        with pytest.raises(TraceFileError):
            writer.read_members(changed)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "not an .overlane file"),
        (b'{"traceEvents": []}' * 10, "not an .overlane file"),
        (b"PK\x03\x04" + b"\0" * 100, "not an .overlane file"),
    ],
)
def test_other_files_are_refused(tmp_path, content, sentence):
    path = tmp_path / "other.overlane"
    path.write_bytes(content)
    with pytest.raises(TraceFileError, match=sentence):
        writer.read_members(path)


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    with pytest.raises(TraceFileError, match="No such file"):
        writer.read_members(tmp_path / "none.overlane")
    with pytest.raises(TraceFileError, match="Is a directory"):
        writer.read_members(tmp_path)


def test_another_version_is_named_and_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "SCHEMA_VERSION", 7)
    writer.write_trace(tmp_path / "t.overlane", HEADER, small_tables())
    monkeypatch.undo()
    with pytest.raises(TraceFileError, match=r"is of version 7 and this Overlane reads version 1; .*update"):
        writer.read_members(tmp_path / "t.overlane")


def sealed(path, meta, members):
    """Write a file with a valid seal around a hostile content."""
    with path.open("w+b") as file:
        writer._write_archive(file, json.dumps(meta).encode(), {n: memoryview(d) for n, d in members.items()})
    return path


def hostile_meta(data, **entry):
    listed = {"rows": 4, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(), **entry}
    return {
        "format": "overlane",
        "version": SCHEMA_VERSION,
        "header": HEADER.to_json(),
        "tables": {"ops": listed},
    }


NEEDED = {"kind": ["kernel"] * 4, "name": ["k"] * 4, "start_ns": [0] * 4}


def parquet(table):
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize(
    ("data", "entry", "sentence"),
    [
        (b"no parquet at all", {}, "cannot be decoded"),
        (parquet(pa.table({"name": ["a"] * 3})), {}, "holds 3 rows where 4 are announced"),
        (parquet(pa.table({"name": ["a"] * 4})), {}, "missing"),
        (parquet(pa.table({"evil": [1] * 4})), {}, "missing|unknown"),
        (parquet(pa.table({f"c{i}": [1] * 4 for i in range(200)})), {}, "more than the contract"),
        (parquet(pa.table({"grid": ["1 2"] * 4, **NEEDED})), {}, "cannot be decoded"),
        (parquet(pa.table({"grid": ["1 2 x"] * 4, **NEEDED})), {}, "cannot be decoded"),
        (parquet(pa.table({"grid": [f"1 2 {2**40}"] * 4, **NEEDED})), {}, "cannot be decoded"),
        (parquet(pa.table({"x": [1] * 4})), {"rows": 2**62}, "announced"),
        (parquet(pa.table({"x": [1] * 4})), {"bytes": 2**62}, "cut or damaged"),
        (parquet(pa.table({"x": [1] * 4})), {"bytes": -1}, "cut or damaged"),
        (parquet(pa.table({"x": [1] * 4})), {"sha256": "0" * 64}, "damaged"),
    ],
)
def test_hostile_tables_are_refused(tmp_path, data, entry, sentence):
    meta = hostile_meta(data, **entry)
    with pytest.raises(TraceFileError, match=sentence):
        writer.read_members(sealed(tmp_path / "t.overlane", meta, {"ops": data}))


def sealed_header(path, **changes):
    """Write a file without tables whose seal is valid and whose header is as given."""
    header = {**HEADER.to_json(), **changes}
    meta = {"format": "overlane", "version": SCHEMA_VERSION, "header": header, "tables": {}}
    return sealed(path, meta, {})


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("dropped", 5, "dropped is not an object of whole numbers"),
        ("dropped", None, "dropped is not"),
        ("dropped", [], "dropped is not"),
        ("dropped", "x", "dropped is not"),
        ("dropped", {"flow": "3"}, "dropped is not"),
        ("format", None, "format is not text"),
        ("producer", 7, "producer is not text"),
        ("origin_unix_ns", 1.5, "origin_unix_ns is not a whole number of 64 bits or null"),
        ("origin_unix_ns", 2**63, "origin_unix_ns is not"),
        ("world_size", True, "world_size is not"),
        ("synthetic", 1, "synthetic is not true or false"),
        ("extra", [], "extra is not an object"),
        ("clocks", 5, "clocks is no list"),
        ("clocks", [{"name": "host", "offset_ns": "0"}], "clocks: offset_ns is not a whole number"),
        ("integrity", {"a": 1}, "integrity is no list"),
        ("integrity", [5], "integrity: it is no object"),
        ("integrity", [{"check": "a", "status": "ok", "count": 0}], "integrity: detail is missing"),
        ("integrity", [{"check": "a", "status": "odd", "count": 0, "detail": ""}], "one of ok, warning"),
        ("integrity", [{"check": "a", "status": [], "count": 0, "detail": ""}], "one of ok, warning"),
        ("capabilities", [], "capabilities is no object"),
        ("capabilities", {"a": {"proven": "yes", "reason": ""}}, "capability a: proven is not true or false"),
        ("capabilities", {"a": {"proven": True, "reason": "", "b": 1}}, "a: no field is called 'b'"),
        ("colour", "red", "no field is called 'colour'"),
    ],
)  # fmt: skip
def test_a_header_of_other_types_is_refused(tmp_path, field, value, words):
    path = sealed_header(tmp_path / "t.overlane", **{field: value})
    with pytest.raises(TraceFileError, match=r"has a header that this version does not know \(") as caught:
        writer.read_members(path)
    assert words in str(caught.value)


@pytest.mark.parametrize("header", [None, [], 5, {}])
def test_a_header_that_is_none_is_refused(tmp_path, header):
    meta = {"format": "overlane", "version": SCHEMA_VERSION, "header": header, "tables": {}}
    with pytest.raises(TraceFileError, match=r"it is no object|format is missing"):
        writer.read_members(sealed(tmp_path / "t.overlane", meta, {}))


@pytest.mark.parametrize("version", [True, 1.0, "1", None, [1], 10**30])
def test_only_the_number_1_is_version_1(tmp_path, version):
    meta = {"format": "overlane", "version": version, "header": HEADER.to_json(), "tables": {}}
    with pytest.raises(TraceFileError, match="is of version"):
        writer.read_members(sealed(tmp_path / "t.overlane", meta, {}))


def test_another_format_is_named(tmp_path):
    meta = {"format": "x", "version": SCHEMA_VERSION, "header": HEADER.to_json(), "tables": {}}
    with pytest.raises(TraceFileError, match=r"not an \.overlane file: it says that its format is 'x'"):
        writer.read_members(sealed(tmp_path / "t.overlane", meta, {}))


def test_a_foreign_zip_is_told_from_ours(tmp_path):
    path = tmp_path / "foreign.overlane"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("notes.txt", "nothing to see" * 10)
    with pytest.raises(TraceFileError, match=r"it is a ZIP archive whose first member is not meta\.json"):
        writer.read_members(path)


def test_a_header_that_holds_no_number_is_refused(tmp_path):
    path = sealed_header(tmp_path / "t.overlane", extra={"a": float("nan")})
    with pytest.raises(TraceFileError, match="holds NaN"):
        writer.read_members(path)


@pytest.mark.parametrize(("entry", "value"), [("rows", "4"), ("rows", 4.0), ("bytes", True), ("rows", None)])
def test_counts_of_other_types_are_refused(tmp_path, entry, value):
    meta = hostile_meta(b"x", **{entry: value})
    with pytest.raises(TraceFileError, match="where a whole number belongs"):
        writer.read_members(sealed(tmp_path / "t.overlane", meta, {"ops": b"x"}))


def test_words_that_are_no_text_are_refused(tmp_path):
    bad = pa.Array.from_buffers(pa.string(), 4, [None, pa.py_buffer(struct.pack("<5i", *range(5))),
                                                 pa.py_buffer(b"ab\xffd")])  # fmt: skip
    data = parquet(pa.table({**NEEDED, "name": bad}))
    with pytest.raises(TraceFileError, match="table ops cannot be decoded"):
        writer.read_members(sealed(tmp_path / "t.overlane", hostile_meta(data), {"ops": data}))


def test_half_a_surrogate_pair_is_kept(tmp_path):
    header = Header("x", extra={"a": "\ud800"})
    writer.write_trace(tmp_path / "t.overlane", header, {})
    assert writer.read_members(tmp_path / "t.overlane")[0] == header


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.ENOSPC, "free some space or choose another place"),
        (errno.EDQUOT, "free some space or choose another place"),
        (errno.EACCES, "change the permissions of its folder or choose another place"),
        (errno.EROFS, "choose another place"),
        (errno.ENOENT, "make its folder first or choose another place"),
        (errno.ENAMETOOLONG, "choose a shorter name"),
        (errno.EMFILE, "close other programs and try again"),
    ],
)
def test_the_advice_fits_the_cause(file, monkeypatch, number, advice):
    def fail(descriptor):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(TraceFileError) as caught:
        writer.write_trace(file, HEADER, {})
    assert str(caught.value).endswith(f": {os.strerror(number)}; {advice}")


def test_member_names_are_never_paths(tmp_path):
    meta = hostile_meta(b"x")
    meta["tables"] = {"../../etc/passwd": meta["tables"]["ops"]}
    path = sealed(tmp_path / "t.overlane", {**meta, "tables": {}}, {"ops": b"x"})
    data = path.read_bytes()
    with pytest.raises(TraceFileError):
        writer.read_members(path)  # a member that the list of tables does not name
    path.write_bytes(data)
    with pytest.raises(ValueError, match="unknown table"), path.open("rb") as file:
        writer._payload_offsets(file.fileno(), 0, {"../../etc/passwd": 1})


def test_a_bomb_is_refused_before_memory_is_taken(tmp_path):
    """A billion rows that compress to nothing."""
    rows = 200_000_000
    sink = pa.BufferOutputStream()
    pq.write_table(
        pa.table({"rank": pa.nulls(rows, pa.int32())}), sink, compression="zstd", row_group_size=rows
    )
    data = sink.getvalue().to_pybytes()
    assert len(data) < 1 << 20
    with pytest.raises(TraceFileError, match=r"would need [\d.]+ GB of memory"):
        writer.read_members(sealed(tmp_path / "t.overlane", hostile_meta(data, rows=rows), {"ops": data}))


def test_a_huge_announced_header_is_refused(file):
    data = bytearray(file.read_bytes())
    data[22:26] = struct.pack("<L", 0xFFFFFFF0)
    file.write_bytes(data)
    with pytest.raises(TraceFileError, match="cut or damaged"):
        writer.read_members(file)


def test_deeply_nested_json_is_refused(tmp_path):
    path = tmp_path / "t.overlane"
    with path.open("w+b") as file:
        writer._write_archive(file, b"[" * 200_000, {})
    with pytest.raises(TraceFileError, match="cut or damaged"):
        writer.read_members(path)


def test_a_full_disk_leaves_nothing_and_keeps_the_old_file(file, monkeypatch):
    before = file.read_bytes()

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(TraceFileError, match="No space left on device; free some space"):
        writer.write_trace(file, Header("other"), small_tables())
    assert file.read_bytes() == before
    assert list(file.parent.iterdir()) == [file]


def test_a_place_that_is_no_folder_is_one_sentence():
    with pytest.raises(TraceFileError, match="could not be written"):
        writer.write_trace("/dev/full/t.overlane", HEADER, small_tables())


def test_nothing_but_files_is_replaced(tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("folder", "pipe"):
        with pytest.raises(TraceFileError, match="could not be written: it is a folder, device or pipe"):
            writer.write_trace(tmp_path / name, HEADER, {})
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["folder", "pipe"]


def test_the_file_takes_the_usual_permissions(file):
    mask = os.umask(0)
    os.umask(mask)
    assert file.stat().st_mode & 0o777 == 0o666 & ~mask


def test_tables_that_break_the_contract_are_refused(tmp_path):
    path = tmp_path / "t.overlane"
    with pytest.raises(TraceFileError, match="no table is called opps"):
        writer.write_trace(path, HEADER, {"opps": small_tables()["ops"]})
    with pytest.raises(TraceFileError, match="not those of the trace contract"):
        writer.write_trace(path, HEADER, {"ops": small_tables()["attributes"]})
    with pytest.raises(TraceFileError, match="not plain JSON"):
        writer.write_trace(path, Header("x", extra={"a": float("nan")}), {})
    assert list(tmp_path.iterdir()) == []


def test_reading_and_writing_load_no_pandas(file):
    code = (
        "import sys; from overlane_collect import writer\n"
        f"header, tables = writer.read_members({str(file)!r})\n"
        f"writer.write_trace({str(file)!r}, header, tables)\n"
        "print([m for m in ('pandas', 'dash', 'cuda', 'cupti') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
