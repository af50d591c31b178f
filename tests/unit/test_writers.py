"""The other output formats hold what the trace holds."""

import csv
import gzip
import json

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlane import open_trace
from overlane.cli import main
from overlane.errors import OverlaneError
from overlane.readers.kineto.keys import CATEGORIES
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


def through_chrome(tables, folder, **header):
    """Write tables as Chrome JSON and read them back."""
    trace = validate("made", Header("made", **header), tables)
    WRITERS.find("chrome").write(trace, folder / "t.json")
    return open_trace(folder / "t.json")


COUNTED = ("ops", "api_calls", "ranges", "syncs", "overheads", "instants")
IDS = ("device_id", "context_id", "stream_id", "correlation_id", "external_id", "start_ns", "end_ns", "name")


def busy_ns(rows, key):
    """Length of the union of the finished intervals of each group, walked in the order of their starts."""
    total, reach = {}, {}
    for row in sorted((r for r in rows if r["end_ns"] is not None), key=lambda r: r["start_ns"]):
        group = key(row)
        start = max(row["start_ns"], reach.get(group, 0))
        total[group] = total.get(group, 0) + max(row["end_ns"] - start, 0)
        reach[group] = max(reach.get(group, 0), row["end_ns"])
    return total


MAYBE = st.none() | st.integers(0, 3)
ENGINE_OF = {"kernel": ["compute"], "memset": ["memset"], "other": [None]}
COPY_ENGINES = [None, "copy_h2d", "copy_d2h", "copy_d2d", "copy_p2p"]


@st.composite
def intervals(draw, **columns):
    """Columns of up to six rows with stamps close together, so that many touch, tie or never end."""
    count = draw(st.integers(0, 6))
    starts = draw(st.lists(st.integers(0, 3000), min_size=count, max_size=count))
    lengths = draw(st.lists(st.none() | st.integers(0, 2000), min_size=count, max_size=count))
    ends = [None if n is None else start + n for start, n in zip(starts, lengths, strict=True)]
    drawn = {k: draw(st.lists(v, min_size=count, max_size=count)) for k, v in columns.items()}
    return {"start_ns": starts, "end_ns": ends, **drawn}


@st.composite
def traces(draw):
    maybe_id = st.none() | st.integers(1, 3)
    ops = draw(
        intervals(
            device_id=MAYBE, context_id=MAYBE, stream_id=MAYBE, correlation_id=MAYBE, external_id=maybe_id,
            name=st.sampled_from(["", "k", "copy"]),
            kind=st.sampled_from(["kernel", "memcpy", "memset", "other"]),
        )
    )  # fmt: skip
    ops["engine"] = [draw(st.sampled_from(ENGINE_OF.get(kind, COPY_ENGINES))) for kind in ops["kind"]]
    calls = draw(
        intervals(
            process_id=MAYBE, thread_id=MAYBE, correlation_id=MAYBE, name=st.just("call"),
            api=st.sampled_from(["runtime", "driver", "other"]),
        )
    )  # fmt: skip
    ranges = draw(
        intervals(
            process_id=MAYBE, thread_id=MAYBE, device_id=MAYBE, stream_id=MAYBE, name=st.just("r"),
            track=st.sampled_from(["operator", "annotation", "device_annotation", "python", "other"]),
            domain=st.none() | st.sampled_from(["mine", "other", *CATEGORIES]),
        )
    )  # fmt: skip
    kinds = ["event", "stream", "context", "device", "stream_wait_event", "event_query", "stream_query"]
    syncs = draw(intervals(device_id=MAYBE, stream_id=MAYBE, sync_kind=st.sampled_from([*kinds, "other"])))
    overheads = draw(intervals(kind=st.just("o"), thread_id=MAYBE))
    columns = {"ops": ops, "api_calls": calls, "ranges": ranges, "syncs": syncs, "overheads": overheads}
    tables = {name: table_from_columns(name, found) for name, found in columns.items()}
    count = tables["ops"].num_rows
    said = [row for row in range(count) if draw(st.booleans())]
    template = draw(
        st.sampled_from(['{"note": "\\"device\\" #"}', '{"deep": {"stream": "x"}}', '{"bytes": #}'])
    )
    tables["attributes"] = table_from_columns(
        "attributes",
        {"table": ["ops"] * len(said), "row_id": said, "template": [template] * len(said),
         "integers": [[7] if template == '{"bytes": #}' else []] * len(said)},
    )  # fmt: skip
    return tables


@settings(max_examples=60, deadline=None)
@given(traces(), st.sampled_from([0, 2**61 - 1500, 2**61 + 2**59 - 6000]))
def test_chrome_json_is_read_back_as_the_same_operations(tmp_path_factory, tables, later_ns):
    first = min(
        [s for name in COUNTED if name in tables for s in tables[name]["start_ns"].to_pylist()] or [0]
    )
    if later_ns:  # one early mark puts all else near the end of what the format can say
        tables["instants"] = table_from_columns("instants", {"name": ["mark"], "at_ns": [0]})
        first = 0
        for name in ("ops", "api_calls", "ranges", "syncs", "overheads"):
            rows = tables[name].to_pylist()
            columns = {key: [row[key] for row in rows] for key in tables[name].schema.names}
            for key in ("start_ns", "end_ns"):
                columns[key] = [None if ns is None else ns + later_ns for ns in columns[key]]
            tables[name] = table_from_columns(name, columns, is_sorted=True)
    back = through_chrome(tables, tmp_path_factory.mktemp("chrome"))
    for name in COUNTED:
        assert back.table(name).num_rows == (tables[name].num_rows if name in tables else 0), name
    written, read = tables["ops"].to_pylist(), back.table("ops").to_pylist()
    for row in read:
        row["start_ns"] += first
        row["end_ns"] = None if row["end_ns"] is None else row["end_ns"] + first
    assert [[row[key] for key in IDS] for row in read] == [[row[key] for key in IDS] for row in written]
    for key in (lambda r: r["device_id"], lambda r: (r["device_id"], r["engine"])):
        assert busy_ns(read, key) == busy_ns(written, key)
    for name, column in (("ranges", "track"), ("syncs", "sync_kind"), ("api_calls", "api"), ("ops", "kind")):
        assert sorted(back.table(name)[column].to_pylist()) == sorted(tables[name][column].to_pylist())


def test_an_operation_of_no_device_does_not_join_device_0(tmp_path):
    ops = table_from_columns(
        "ops",
        {"device_id": [0, None], "kind": ["kernel"] * 2, "name": ["a", "b"], "start_ns": [0, 50],
         "end_ns": [100, 150]},
    )  # fmt: skip
    back = through_chrome({"ops": ops}, tmp_path).table("ops").to_pylist()
    assert [(row["device_id"], row["stream_id"], row["name"]) for row in back] == [
        (0, None, "a"),
        (None, None, "b"),
    ]


def test_the_devices_of_two_ranks_stay_apart(tmp_path):
    ops = table_from_columns(
        "ops",
        {"rank": [0, 1], "device_id": [0, 0], "kind": ["kernel"] * 2, "name": ["a", "b"],
         "start_ns": [0, 50], "end_ns": [100, 150]},
    )  # fmt: skip
    back = through_chrome({"ops": ops}, tmp_path).table("ops").to_pylist()
    assert busy_ns(back, lambda row: row["device_id"]) == {0: 100, back[1]["device_id"]: 100}


def test_an_event_of_unknown_phase_stays_a_range(tmp_path):
    """Read as a range of no known track, whose category is that of kernels."""
    kernel = {"cat": "kernel", "pid": 0, "tid": 7, "dur": 5, "args": {"device": 0}}
    events = [{**kernel, "ph": "X", "name": "k", "ts": 0}, {**kernel, "ph": "Q", "name": "q", "ts": 9}]
    (tmp_path / "odd.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    trace = open_trace(tmp_path / "odd.json")
    assert (trace.table("ops").num_rows, trace.table("ranges").num_rows) == (1, 1)
    back = through_chrome({name: trace.table(name) for name in ("ops", "ranges")}, tmp_path)
    assert (back.table("ops").num_rows, back.table("ranges")["track"].to_pylist()) == (1, ["other"])
    assert back.attributes("ranges", 0)["domain"] == "kernel"


def test_times_that_the_format_cannot_say_are_refused(tmp_path):
    columns = {"kind": ["kernel"] * 2, "name": ["k"] * 2}
    for starts, ends in (([0, 1], [2**59, 5]), ([0, 2**61 + 2**59], [1, None])):
        ops = table_from_columns("ops", {**columns, "start_ns": starts, "end_ns": ends})
        with pytest.raises(OverlaneError, match=r"reaches over \d+ ns, .* convert it to another format"):
            through_chrome({"ops": ops}, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_shifted_times_keep_their_wall_clock(tmp_path):
    ops = table_from_columns(
        "ops", {"kind": ["kernel"] * 2, "name": ["k"] * 2, "start_ns": [0, 2**61], "end_ns": [1, 2**61 + 1]}
    )
    back = through_chrome({"ops": ops}, tmp_path, origin_unix_ns=10**18 + 1)
    assert back.header.origin_unix_ns == 10**18 + 1
    assert back.table("ops")["start_ns"].to_pylist() == [0, 2**61]


def test_a_name_that_is_no_text_is_written(trace, tmp_path):
    trace.name = "\udcff"
    WRITERS.find("chrome").write(trace, tmp_path / "t.json")
    assert json.loads((tmp_path / "t.json").read_text())["traceName"] == "\udcff"


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


def strictly(text):
    """Parse JSON as readers do that know no NaN and no Infinity."""

    def refuse(word):
        raise ValueError(word)

    return json.loads(text, parse_constant=refuse)


def test_numbers_that_json_cannot_say_go_out_as_texts(tmp_path, capsys):
    said = '{"x": NaN, "n": 5, "deep": [Infinity, {"y": -Infinity}], "NaN": "Infinity # NaN", "q": "\\\\"}'
    event = f'{{"ph":"X","cat":"kernel","name":"NaN","pid":0,"tid":7,"ts":1,"dur":2,"args":{said}}}'
    source, target, kept = (tmp_path / name for name in ("a.json", "b.json", "c.overlane"))
    source.write_text(f'{{"with_flops": NaN, "trace_id": Infinity, "traceEvents": [{event}]}}')
    WRITERS.find("chrome").write(open_trace(source), target)
    (written,) = [e for e in strictly(target.read_text())["traceEvents"] if e["ph"] == "X"]
    assert written["name"] == "NaN"
    expected = {
        "x": "NaN", "n": 5, "deep": ["Infinity", {"y": "-Infinity"}], "NaN": "Infinity # NaN", "q": "\\",
    }  # fmt: skip
    assert {key: written["args"][key] for key in expected} == expected
    back = open_trace(target).attributes("ops", 0)
    assert {key: back[key] for key in expected} == expected
    WRITERS.find("overlane").write(open_trace(source), kept)  # whose header is strict JSON too
    for command in ("info", "report"):
        assert main([command, str(kept), "--json"]) == 0
        strictly(capsys.readouterr().out)
