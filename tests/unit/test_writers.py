"""The other output formats hold what the trace holds."""

import csv
import gzip
import json

import pyarrow.parquet as pq
import pytest

from overlane.errors import OverlaneError
from overlane.tables import table_from_columns
from overlane.validation import validate
from overlane.writers import WRITERS, WriterRegistry
from overlane.writers.folder import replacing_folder
from overlane_collect.model import Header


@pytest.fixture
def trace():
    """A launched kernel, an unfinished operation, a range with text to escape, a counter, an instant."""
    tables = {
        "ops": table_from_columns(
            "ops",
            {
                "device_id": [0, 0],
                "stream_id": [7, 7],
                "engine": ["compute", None],
                "kind": ["kernel", "other"],
                "name": ["k", ""],
                "start_ns": [1_234_567, 9_000_000],
                "end_ns": [1_234_999, None],
                "correlation_id": [5, None],
                "grid": [[1, 2, 3], None],
            },
        ),
        "api_calls": table_from_columns(
            "api_calls",
            {"api": ["runtime"], "process_id": [42], "thread_id": [43], "name": ["cudaLaunchKernel"],
             "start_ns": [1_000_001], "end_ns": [1_000_002], "correlation_id": [5]},
        ),
        "ranges": table_from_columns(
            "ranges",
            {"track": ["operator"], "process_id": [42], "thread_id": [43], "name": ['say "é"\n'],
             "start_ns": [0], "end_ns": [10_000_000]},
        ),
        "counters": table_from_columns("counters", {"track": ["memory"], "at_ns": [3], "value": [0.5]}),
        "instants": table_from_columns("instants", {"name": ["mark"], "at_ns": [4], "scope": ["global"]}),
        "attributes": table_from_columns(
            "attributes", {"table": ["ops"], "row_id": [0], "template": ['{"warps": #}'], "integers": [[8]]}
        ),
        "devices": table_from_columns("devices", {"device_id": [0], "name": ["GPU"]}),
    }  # fmt: skip
    return validate("made", Header("made", origin_unix_ns=1_700_000_000_000_000_001), tables)


def events(path):
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return json.loads(data, parse_float=str)


@pytest.mark.parametrize("name", ["t.json", "t.json.gz"])
def test_chrome_json_keeps_times_exactly_and_joins_calls_to_operations(trace, tmp_path, name):
    WRITERS.for_path(tmp_path / name).write(trace, tmp_path / name)
    file = events(tmp_path / name)
    assert file["baseTimeNanoseconds"] == 1_700_000_000_000_000_001
    by_name = {event["name"]: event for event in file["traceEvents"] if event["ph"] in "XBiC"}
    kernel = by_name["k"]
    assert (kernel["ph"], kernel["cat"], kernel["ts"], kernel["dur"]) == ("X", "kernel", "1234.567", "0.432")
    assert (kernel["pid"], kernel["tid"]) == (0, 7)
    assert kernel["args"] == {
        "device": 0, "stream": 7, "correlation": 5, "engine": "compute", "grid": [1, 2, 3], "warps": 8,
    }  # fmt: skip
    assert (by_name[""]["ph"], by_name[""]["ts"]) == ("B", "9000.000")  # it never finished
    call = by_name["cudaLaunchKernel"]
    assert (call["cat"], call["pid"], call["tid"], call["dur"]) == ("cuda_runtime", 42, 43, "0.001")
    assert by_name['say "é"\n']["cat"] == "cpu_op"
    assert (by_name["mark"]["ph"], by_name["mark"]["s"]) == ("i", "g")
    assert by_name["memory"]["args"] == {"value": "0.5"}
    flows = [(e["ph"], e["id"], e["pid"], e["ts"]) for e in file["traceEvents"] if e["ph"] in "sf"]
    assert flows == [("s", 5, 42, "1000.001"), ("f", 5, 0, "1234.567")]


def test_parquet_folder_holds_the_contracts_columns(trace, tmp_path):
    WRITERS.find("parquet").write(trace, tmp_path / "out")
    names = {"ops", "api_calls", "ranges", "counters", "instants", "attributes", "devices"}
    assert {p.name for p in (tmp_path / "out").iterdir()} == {"meta.json", *(f"{n}.parquet" for n in names)}
    for name in names:
        assert (
            pq.read_table(tmp_path / "out" / f"{name}.parquet").to_pylist() == trace.table(name).to_pylist()
        )
    meta = json.loads((tmp_path / "out" / "meta.json").read_text())
    assert meta["tables"]["ops"]["columns"]["start_ns"]["unit"] == "ns"


def test_csv_folder_tells_null_from_empty(trace, tmp_path):
    WRITERS.find("csv").write(trace, tmp_path / "out")
    text = (tmp_path / "out" / "ops.csv").read_text().splitlines()
    first, second = csv.DictReader(text)
    assert (first["start_ns"], first["grid"], first["engine"]) == ("1234567", "1 2 3", "compute")
    assert (second["end_ns"], second["engine"]) == ("", "")
    assert ',"",' in text[2]  # the empty name is quoted, null is not


def test_a_folder_appears_whole_or_not_at_all(trace, tmp_path):
    WRITERS.find("csv").write(trace, tmp_path / "out")
    before = sorted(p.name for p in (tmp_path / "out").iterdir())
    with pytest.raises(TypeError), replacing_folder(tmp_path / "out", ".csv") as folder:
        (folder / "ops.csv").write_text(None)
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == before
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    WRITERS.find("csv").write(trace, tmp_path / "out")  # an older export is replaced
    (tmp_path / "out" / "notes.txt").write_text("precious")
    with pytest.raises(OverlaneError, match="holds other files"):
        WRITERS.find("csv").write(trace, tmp_path / "out")
    assert (tmp_path / "out" / "notes.txt").read_text() == "precious"


def test_a_failed_file_leaves_the_old_one(trace, tmp_path, monkeypatch):
    target = tmp_path / "t.json"
    target.write_text("old")
    monkeypatch.setattr("overlane.writers.chrome._events", lambda trace: iter([None]))
    with pytest.raises(TypeError):
        WRITERS.find("chrome").write(trace, target)
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["t.json"]


def test_unknown_formats_list_the_known_ones(tmp_path):
    with pytest.raises(OverlaneError, match="known: overlane, chrome, parquet, csv"):
        WRITERS.find("xml")
    with pytest.raises(OverlaneError, match="tells no format"):
        WriterRegistry([]).for_path(tmp_path / "x.json")
