"""The command line: exit codes, sentences instead of tracebacks, stable JSON."""

import errno
import io
import json
import os
import shutil
import subprocess
import sys

import pytest

from overlane import __version__
from overlane.cli import main
from overlane.commands import CommandRegistry
from overlane.commands.convert import FORMATS
from overlane.commands.loading import Activity, ProgressBar
from overlane.commands.tables import table_text
from overlane.errors import MachineError, OverlaneError, TraceUnreadableError
from overlane.notes import elsewhere
from overlane.readers.native import NativeReader
from overlane.tables import table_from_columns
from overlane.writers import WRITERS
from overlane_collect.model import Capability, Header, IntegrityCheck
from overlane_collect.writer import write_trace


class Fails:
    """A command that does what it was made for."""

    name = "fail"
    help = "fail"

    def __init__(self, action):
        self.action = action

    def add_arguments(self, parser):
        parser.add_argument("--flag", help="a flag")

    def run(self, arguments):
        if isinstance(self.action, BaseException):
            raise self.action
        return self.action


def run_failing(action):
    return main(["fail"], registry=CommandRegistry([Fails(action)]))


@pytest.fixture
def trace(tmp_path):
    """compute 0-40 and 60-100 on stream 7, a copy 30-80 on stream 20, one call."""
    ops = table_from_columns(
        "ops",
        {
            "device_id": [0, 0, 0],
            "stream_id": [7, 20, 7],
            "engine": ["compute", "copy_h2d", "compute"],
            "kind": ["kernel", "memcpy", "kernel"],
            "name": ["a", "copy", 'b"<é>'],
            "start_ns": [0, 30, 60],
            "end_ns": [40, 80, 100],
            "correlation_id": [1, None, 2],
            "bytes": [None, 64, None],
            "grid": [[1, 2, 3], None, None],
        },
    )
    calls = table_from_columns(
        "api_calls",
        {"api": ["runtime"], "name": ["launch"], "start_ns": [0], "end_ns": [5], "correlation_id": [1]},
    )
    devices = table_from_columns("devices", {"device_id": [0], "name": ["Made GPU"]})
    header = Header(
        "overlane",
        producer="hand",
        capabilities={"launch_times": Capability(False, "one operation has no call")},
        integrity=(IntegrityCheck("recorded", "warning", 1, "made by hand"),),
    )
    path = tmp_path / "made.overlane"
    write_trace(path, header, {"ops": ops, "api_calls": calls, "devices": devices})
    return path


def run_json(capsys, *arguments):
    assert main([*map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_alone_it_prints_what_it_can_do(capsys):
    assert main([]) == 0
    out = capsys.readouterr().out
    for command in CommandRegistry():
        assert command.name in out


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"overlane {__version__}\n"


def test_an_unknown_command_lists_the_known_ones(capsys):
    assert main(["frobnicate"]) == 2
    assert "'info'" in capsys.readouterr().err
    with pytest.raises(OverlaneError, match="known: fail"):
        CommandRegistry([Fails(0)]).find("info")


@pytest.mark.parametrize(
    ("action", "code", "sentence"),
    [
        (0, 0, ""),
        (1, 1, ""),
        (TraceUnreadableError("x is empty;\nrecord it again"), 2, "overlane: x is empty; record it again\n"),
        (MachineError("the disk is full"), 4, "overlane: the disk is full\n"),
        (
            MemoryError(),
            4,
            "overlane: the machine ran out of memory; close other programs or use a smaller trace\n",
        ),
        (
            OSError(errno.ENOSPC, "No space left on device", "/x"),
            4,
            (
                "overlane: the machine refused at /x: No space left on device; "
                "free some space or choose another place\n"
            ),
        ),
        (
            ZeroDivisionError("oops"),
            4,
            (
                "overlane: an unexpected fault, not yours: ZeroDivisionError: oops; "
                "run it again with OVERLANE_DEBUG=1 to see where, and please report it\n"
            ),
        ),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_each_end_has_its_exit_code_and_one_sentence(capsys, monkeypatch, action, code, sentence):
    monkeypatch.delenv("OVERLANE_DEBUG", raising=False)
    assert run_failing(action) == code
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", sentence)


def test_debug_shows_the_traceback(capsys, monkeypatch):
    monkeypatch.setenv("OVERLANE_DEBUG", "1")
    assert run_failing(ZeroDivisionError("oops")) == 4
    assert "Traceback" in capsys.readouterr().err


def test_a_closed_pipe_is_quiet(trace):
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "overlane", "info", str(trace)]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_pipe_that_knows_only_ascii_gets_question_marks(tmp_path):
    path = tmp_path / "µ.overlane"
    write_trace(path, Header("overlane"), {})
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "overlane", "info", str(path)]
    done = subprocess.run(command, env=environment, capture_output=True, check=True)
    assert done.stdout.startswith(b"?\n")


def test_info_as_json(capsys, trace):
    info = run_json(capsys, "info", trace)
    assert info["schema"] == 1
    assert (info["format"], info["producer"], info["span_ns"], info["ranks"]) == (
        "overlane",
        "hand",
        100,
        [None],
    )
    (device,) = info["devices"]
    assert {key: device[key] for key in ("rank", "device_id", "name", "window_ns", "busy_ns", "idle_ns")} == {
        "rank": None, "device_id": 0, "name": "Made GPU", "window_ns": 100, "busy_ns": 100, "idle_ns": 0,
    }  # fmt: skip
    assert [(s["stream_id"], s["op_count"]) for s in info["streams"]] == [(7, 2), (20, 1)]
    assert info["partitions"] == []
    assert {name: n for name, n in info["counts"].items() if n} == {
        "kernel": 2, "memcpy": 1, "ops": 3, "api_calls": 1, "devices": 1,
    }  # fmt: skip
    assert info["capabilities"] == {"launch_times": {"proven": False, "reason": "one operation has no call"}}
    assert info["integrity"] == [
        {"check": "recorded", "status": "warning", "count": 1, "detail": "made by hand"}
    ]


def test_info_as_text(capsys, trace):
    assert main(["info", str(trace)]) == 0
    out = capsys.readouterr().out
    for words in (
        "made",
        "written by hand",
        "Made GPU",
        "no   launch times: one operation has no call",
        "made by hand",
    ):
        assert words in out


def test_report_as_json(capsys, trace):
    report = run_json(capsys, "report", trace)
    assert (report["window_start_ns"], report["window_end_ns"]) == (0, 100)
    (device,) = report["devices"]
    assert (device["window_ns"], device["busy_ns"], device["idle_ns"], device["idle_longest_ns"]) == (
        100,
        100,
        0,
        None,
    )
    assert [
        (
            e["rank"],
            e["device_id"],
            e["engine"],
            e["busy_ns"],
            e["busy_fraction"],
            e["op_count"],
            e["longest_ns"],
        )
        for e in report["engines"]
    ] == [(None, 0, "compute", 80, 0.8, 2, [0, 40]), (None, 0, "copy_h2d", 50, 0.5, 1, [30, 80])]
    assert report["overlap"] == [
        {
            "rank": None, "device_id": 0, "engine_a": "compute", "engine_b": "copy_h2d",
            "overlap_ns": 30, "overlap_fraction": 0.3, "longest_ns": [60, 80],
        }
    ]  # fmt: skip
    assert [(row["engine"], row["exposed_ns"]) for row in report["exposed"]] == [
        ("copy_h2d", 20),
        ("all_copies", 20),
    ]
    assert [(row["concurrency"], row["at_level_ns"]) for row in report["concurrency"]] == [(1, 70), (2, 30)]


def test_report_of_one_section_and_a_window(capsys, trace):
    report = run_json(capsys, "report", trace, "--section", "overlap", "--window", "30:70")
    assert "engines" not in report
    assert [(pair["engine_a"], pair["overlap_ns"]) for pair in report["overlap"]] == [("compute", 20)]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--section", "nonsense"], "'overlap'"),
        (["--window", "5"], "give start and end in ns, as in 1000000:2000000"),
        (["--window", "9:3"], "its end must be after its start"),
        (["--json", "--markdown"], "not allowed with"),
    ],
)
def test_wrong_usage_of_report(capsys, trace, arguments, words):
    assert main(["report", str(trace), *arguments]) == 2
    assert words in capsys.readouterr().err


def test_report_as_markdown(capsys, trace):
    assert main(["report", str(trace), "--section", "overlap", "--markdown"]) == 0
    out = capsys.readouterr().out
    assert "# made\n" in out
    assert "| compute | copy_h2d |" in out
    assert "warning: made by hand" in out


def test_a_trace_without_device_work_says_so(capsys, tmp_path):
    path = tmp_path / "host.overlane"
    ranges = table_from_columns(
        "ranges", {"track": ["annotation"], "name": ["r"], "start_ns": [0], "end_ns": [9]}
    )
    write_trace(path, Header("overlane"), {"ranges": ranges})
    assert main(["info", str(path)]) == 0
    assert "this trace holds no GPU work" in capsys.readouterr().out
    assert main(["report", str(path)]) == 0
    assert "there is no GPU work to report on" in capsys.readouterr().out
    report = run_json(capsys, "report", path)
    assert (report["devices"], report["engines"]) == ([], [])


@pytest.mark.parametrize("command", [["info"], ["report"], ["convert", "--to", "csv"]])
def test_a_file_that_is_no_trace_is_one_sentence(capsys, tmp_path, command):
    path = tmp_path / "notes.txt"
    path.write_text("nothing to see")
    arguments = [command[0], str(path), *([str(tmp_path / "out")] if len(command) > 1 else []), *command[1:]]
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("overlane: ")
    assert captured.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_convert_to_our_own_format_keeps_every_table(capsys, trace, tmp_path):
    target = tmp_path / "again.overlane"
    assert main(["convert", str(trace), str(target)]) == 0
    before, after = NativeReader().read(trace), NativeReader().read(target)
    assert before.header == after.header
    for name in ("ops", "api_calls", "devices"):
        assert before.table(name).equals(after.table(name))


@pytest.mark.parametrize("target", ["again.overlane", "again.json"])
def test_convert_takes_marks_and_notes_along(trace, tmp_path, target):
    notes = {"schema": 1, "revision": 3, "marks": [{"t0_ns": 1, "t1_ns": 2, "label": "here", "note": "why?"}]}
    trace.with_name(f"{trace.name}.notes").write_text(json.dumps(notes))
    assert main(["convert", str(trace), str(tmp_path / target)]) == 0
    assert json.loads((tmp_path / f"{target}.notes").read_text()) == notes


def test_convert_takes_those_notes_that_were_written_last(monkeypatch, trace, tmp_path):
    monkeypatch.setenv("OVERLANE_CACHE_DIR", str(tmp_path / "cache"))
    far = elsewhere(trace.resolve())
    far.parent.mkdir(parents=True)
    far.write_text('{"revision": 5}')
    trace.with_name(f"{trace.name}.notes").write_text('{"revision": 4}')
    assert main(["convert", str(trace), str(tmp_path / "again.overlane")]) == 0
    assert (tmp_path / "again.overlane.notes").read_text() == '{"revision": 5}'


def test_convert_replaces_no_notes_unless_told(capsys, trace, tmp_path):
    trace.with_name(f"{trace.name}.notes").write_text('{"revision": 1}')
    precious = tmp_path / "again.overlane.notes"
    precious.write_text("precious")
    assert main(["convert", str(trace), str(tmp_path / "again.overlane")]) == 2
    assert "again.overlane.notes exists" in capsys.readouterr().err
    assert precious.read_text() == "precious"
    assert not (tmp_path / "again.overlane").exists()
    assert main(["convert", str(trace), str(tmp_path / "again.overlane"), "--force"]) == 0
    assert precious.read_text() == '{"revision": 1}'


def test_convert_writes_no_notes_where_there_are_none(trace, tmp_path):
    assert main(["convert", str(trace), str(tmp_path / "again.overlane")]) == 0
    assert not (tmp_path / "again.overlane.notes").exists()


def test_convert_replaces_nothing_unless_told(capsys, trace, tmp_path):
    target = tmp_path / "out.overlane"
    target.write_text("precious")
    assert main(["convert", str(trace), str(target)]) == 2
    assert "replace it with --force" in capsys.readouterr().err
    assert target.read_text() == "precious"
    assert main(["convert", str(trace), str(target), "--force"]) == 0
    assert NativeReader().read(target).table("ops").num_rows == 3


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("run.bin", "tells no format; add --to"),
        ("missing/run.overlane", "does not exist; make it first"),
    ],
)
def test_convert_needs_a_place_and_a_format(capsys, trace, tmp_path, target, words):
    assert main(["convert", str(trace), str(tmp_path / target)]) == 2
    assert words in capsys.readouterr().err


def test_convert_never_replaces_a_pipe_or_a_folder_of_other_files(capsys, trace, tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    assert main(["convert", str(trace), str(tmp_path / "pipe.json"), "--force"]) == 2
    assert "is a device or pipe" in capsys.readouterr().err
    assert main(["convert", str(trace), str(tmp_path), "--to", "csv", "--force"]) == 2
    assert "holds other files" in capsys.readouterr().err
    assert main(["convert", str(trace), str(tmp_path), "--to", "chrome", "--force"]) == 2
    assert "is written as one file" in capsys.readouterr().err
    assert trace.exists()


AS_ANOTHER_USER = """
import os, sys
import overlane.readers, overlane.writers  # which the other user may not be able to read
from overlane.cli import main
from overlane.commands import CommandRegistry
CommandRegistry()  # loads the commands
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ["serve", "{closed}/made.overlane", "--no-browser"],
        ["serve", "--library", "{closed}/traces", "--no-browser"],
        ["serve", "--library", "{closed}", "--no-browser"],
        ["demo", "--library", "{closed}/traces", "--no-browser"],
        ["convert", "{trace}", "{closed}/out.overlane"],
        ["convert", "{closed}/made.overlane", "{open}/out.overlane"],
    ],
)
def test_a_folder_that_may_not_be_entered_is_one_sentence(trace, tmp_path, arguments):
    """Another user asks when we are root, since root may enter every folder."""
    closed = tmp_path / "closed"
    (closed / "traces").mkdir(parents=True)
    shutil.copy(trace, closed / "made.overlane")
    closed.chmod(0o700 if os.geteuid() == 0 else 0)
    if os.geteuid() == 0:  # the folders of the session are root's alone
        for folder in (tmp_path, *tmp_path.parents[:-1]):
            if folder.stat().st_uid == 0:
                folder.chmod(folder.stat().st_mode | 0o055)
    words = [word.format(closed=closed, trace=trace, open=tmp_path) for word in arguments]
    command = [sys.executable, "-c", AS_ANOTHER_USER, *words]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    closed.chmod(0o700)
    assert result.returncode == 2, result.stderr
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert "closed" in result.stderr
    assert "ermi" in result.stderr, "it says that the permission is missing"


def test_a_name_that_is_too_long_is_one_sentence(capsys, trace, tmp_path):
    long = str(tmp_path / ("x" * 300 + ".json"))
    for arguments in (["serve", long], ["serve", "--library", long], ["convert", str(trace), long]):
        assert main(arguments) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_the_formats_in_the_help_are_those_that_can_be_written():
    assert WRITERS.names == FORMATS


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_drawn_on_terminals_only_and_taken_away(monkeypatch):
    clock = iter([0.0, 0.1, 1.0, 1.01, 2.0])
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    terminal = Terminal()
    bar = ProgressBar("reading x", terminal)
    for fraction in (0.1, 0.5, 0.51, 1.0):
        bar(fraction)
    bar.clear()
    assert [part.split("] ")[-1] for part in terminal.getvalue().split("\r")[1:]] == [
        " 50 %",
        "100 %",
        "\x1b[K",
    ]
    silent = io.StringIO()
    monkeypatch.undo()
    ProgressBar("reading x", silent)(0.5)
    assert silent.getvalue() == ""


def test_what_is_computed_is_said_on_terminals_only_and_only_where_it_takes_long(monkeypatch):
    terminal = Terminal()
    with Activity(terminal) as activity:
        activity("dependencies")
        assert terminal.getvalue() == ""
        activity._show()  # as its timer does after a while
        activity("critical_path")
    said = "\r\x1b[Kcomputing dependencies …\r\x1b[Kcomputing critical path …\r\x1b[K"
    assert terminal.getvalue() == said
    assert not activity._timer.is_alive() or activity._timer.finished.is_set()
    silent = io.StringIO()
    with Activity(silent) as activity:
        activity("dependencies")
        assert not activity._timer.is_alive()
    assert silent.getvalue() == ""


def test_a_report_says_what_it_computes(capsys, monkeypatch, trace):
    said = []
    monkeypatch.setattr(Activity, "__call__", lambda self, name: said.append(name))
    assert main(["report", str(trace), "--json"]) == 0
    assert {"engines", "dependencies", "waits"} <= set(said)
    assert json.loads(capsys.readouterr().out)["schema"] == 1


def test_tables_escape_markdown():
    table = table_text(["name", "n"], [["x|y", "12"]], is_markdown=True)
    assert table.splitlines() == ["| name |   n |", "| ---- | --: |", "| x\\|y |  12 |"]
