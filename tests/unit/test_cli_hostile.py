"""The command line on hostile files and names: one sentence, the right exit code, no steered terminal."""

import errno
import hashlib
import json
import os
import zipfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from overlane.cli import main
from overlane.commands import CommandRegistry
from overlane.commands.output import json_text, printable
from overlane.tables import table_from_columns
from overlane.writers import WRITERS
from overlane_collect import writer
from overlane_collect.model import Capability, Header, IntegrityCheck
from overlane_collect.schema import SCHEMA_VERSION

CLEAR = "\x1b[2J\x9b1mA\x07\nB\u202e"
SHOWN = r"\u001b[2J\u009b1mA\u0007\nB\u202e"


def steers(text):
    """The control characters of a text but the ends of its lines."""
    return [c for c in text if c != "\n" and (ord(c) < 32 or 127 <= ord(c) < 160 or c == "\u202e")]


def sealed(path, meta, members):
    """Write an archive whose hashes are right, whatever it holds."""
    with path.open("w+b") as file:
        writer._write_archive(file, json.dumps(meta).encode(), {n: memoryview(d) for n, d in members.items()})
    return path


def stored(table):
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return sink.getvalue().to_pybytes()


def hostile(path, header=None, version=SCHEMA_VERSION, **tables):
    members = {name: stored(table) for name, table in tables.items()}
    listed = {
        name: {"rows": tables[name].num_rows, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in members.items()
    }
    meta = {
        "format": "overlane",
        "version": version,
        "header": {**Header("overlane").to_json(), **(header or {})},
        "tables": listed,
    }
    return sealed(path, meta, members)


@pytest.fixture
def trace(tmp_path):
    ops = table_from_columns(
        "ops",
        {"device_id": [0], "stream_id": [7], "kind": ["kernel"], "engine": ["compute"], "name": [CLEAR],
         "start_ns": [0], "end_ns": [9]},
    )  # fmt: skip
    devices = table_from_columns("devices", {"device_id": [0], "name": [CLEAR]})
    header = Header(
        "overlane",
        producer=CLEAR,
        capabilities={CLEAR: Capability(True, CLEAR)},
        integrity=(IntegrityCheck(CLEAR, "warning", 1, CLEAR),),
        dropped={CLEAR: 1},
    )
    path = tmp_path / "evil\x1b[2J.overlane"
    writer.write_trace(path, header, {"ops": ops, "devices": devices})
    return path


OPS = pa.table({"kind": ["kernel"], "name": ["k"], "start_ns": [0]})


def attributes(**changes):
    columns = {"table": ["ops"], "row_id": [0], "template": ['{"a": #}'], "integers": [[1]]} | changes
    return pa.table({**columns, "integers": pa.array(columns["integers"], pa.list_(pa.int64()))})


@pytest.mark.parametrize("command", ["info", "report"])
@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"header": {"dropped": 5}}, "dropped is not an object of whole numbers"),
        ({"header": {"dropped": None}}, "dropped is not"),
        ({"header": {"dropped": []}}, "dropped is not"),
        ({"header": {"dropped": "x"}}, "dropped is not"),
        ({"version": True}, "is of version True"),
        ({"version": 1.0}, "is of version 1.0"),
        ({"ops": OPS, "attributes": attributes(integers=[[]])}, "has 0 integers"),
        ({"ops": OPS, "attributes": attributes(template=["5"], integers=[[]])}, "no JSON object"),
        ({"ops": OPS, "attributes": attributes(row_id=[1])}, "lies outside ops"),
        ({"ops": OPS, "attributes": attributes(table=["none"])}, "column table holds 'none'"),
    ],
)
def test_a_sealed_file_with_odd_content_is_one_sentence(capsys, tmp_path, command, content, words):
    assert main([command, str(hostile(tmp_path / "t.overlane", **content))]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err
    assert captured.err.count("\n") == 1


def test_the_builder_of_hostile_files_makes_good_ones_too(capsys, tmp_path):
    path = hostile(tmp_path / "t.overlane", ops=OPS, attributes=attributes())
    assert main(["info", str(path)]) == 0
    assert "1 kernel" in capsys.readouterr().out


def test_a_foreign_archive_says_what_it_is(capsys, tmp_path):
    path = tmp_path / "foreign.overlane"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "a" * 99)
    assert main(["info", str(path)]) == 2
    assert "it is a ZIP archive whose first member is not meta.json" in capsys.readouterr().err


@pytest.mark.parametrize(
    "window",
    ["0:9223372036854775808", "-9223372036854775809:5", f"0:{2**62}", f"{-(2**62)}:0", f"0:{10**40}"],
)
def test_a_window_out_of_reach_is_wrong_usage(capsys, trace, window):
    assert main(["report", str(trace), f"--window={window}"]) == 2
    assert f"the window {window} is out of reach; give ns below {2**62}" in capsys.readouterr().err


def test_the_widest_window_is_measured(capsys, trace):
    far = 2**62 - 1
    assert main(["report", str(trace), f"--window={-far}:{far}", "--json"]) == 0
    (device,) = json.loads(capsys.readouterr().out)["devices"]
    assert (device["window_ns"], device["busy_ns"], device["idle_ns"]) == (2 * far, 9, 2 * far - 9)


@pytest.mark.parametrize("arguments", [["info"], ["report"], ["report", "--markdown"]])
def test_text_of_a_trace_steers_no_terminal(capsys, trace, arguments):
    assert main([arguments[0], str(trace), *arguments[1:]]) == 0
    out = capsys.readouterr().out
    assert steers(out) == []
    assert r"evil\u001b[2J" in out
    assert arguments[0] == "report" or SHOWN in out


@pytest.mark.parametrize("command", ["info", "report"])
def test_json_holds_the_names_as_they_are(capsys, trace, command):
    assert main([command, str(trace), "--json"]) == 0
    out = capsys.readouterr().out
    assert steers(out) == []
    assert json.loads(out)["name"] == "evil\x1b[2J"
    assert json.loads(out)["integrity"][0]["detail"] == CLEAR


@pytest.mark.parametrize(
    "arguments",
    [
        ["info", "none\x1b[2J.overlane"],
        ["info", "a", "extra\x1b[2J"],
        ["report", "a", "--section", "\x1b[2J"],
        ["convert", "a", "b\x1b[2J"],
        ["\x1b[2J"],
    ],
)
def test_names_in_errors_steer_no_terminal(capsys, arguments):
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert steers(captured.out + captured.err) == []
    assert "[2J" in captured.err


def test_printable_leaves_letters_alone():
    values = {"ärger\t": ["ü→字", 5, None, {"a": "\r"}]}
    assert printable(values) == {"ärger\\t": ["ü→字", 5, None, {"a": "\\r"}]}
    assert json.loads(json_text(values)) == values
    assert "ü→字" in json_text(values)


class Fails:
    name = "fail"
    help = "fail"

    def __init__(self, number):
        self.number = number

    def add_arguments(self, parser):
        parser.add_argument("--flag", help="a flag")

    def run(self, arguments):
        raise OSError(self.number, os.strerror(self.number), "/x")


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.ENOSPC, "free some space or choose another place"),
        (errno.EROFS, "choose another place"),
        (errno.EMFILE, "close other programs and try again"),
    ],
)
def test_the_advice_of_a_refusal_fits_its_cause(capsys, number, advice):
    assert main(["fail"], registry=CommandRegistry([Fails(number)])) == 4
    assert (
        capsys.readouterr().err == f"overlane: the machine refused at /x: {os.strerror(number)}; {advice}\n"
    )


@pytest.mark.parametrize("target", ["out.json", "out.overlane"])
def test_convert_advises_by_the_cause(capsys, trace, tmp_path, monkeypatch, target):
    def refuse(*arguments):
        raise PermissionError(errno.EACCES, "Permission denied")

    assert WRITERS.for_path(tmp_path / target)
    monkeypatch.setattr(os, "fsync", refuse)
    assert main(["convert", str(trace), str(tmp_path / target)]) == 4
    assert capsys.readouterr().err.endswith(
        "could not be written: Permission denied; change the permissions of its folder "
        "or choose another place\n"
    )
