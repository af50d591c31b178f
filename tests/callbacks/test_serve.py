"""Starting the server: what is refused before it starts, which port it takes, what it says."""

from __future__ import annotations

import _thread
import argparse
import gzip
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from contextlib import contextmanager, suppress

import pytest

from callbacks.conftest import write_small
from overlane.cli import main
from overlane.commands.serve import COMMAND, _Watch
from overlane.errors import MachineError
from overlane.ui.server import serve
from overlane.ui.store import TraceStore


@pytest.fixture
def taken_port():
    """A port of the loopback address that another program listens on."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


def test_a_missing_trace_stops_the_start(tmp_path, capsys):
    assert main(["serve", str(tmp_path / "missing.json"), "--no-browser"]) == 2
    assert "missing.json does not exist" in capsys.readouterr().err


def test_a_folder_as_a_trace_says_how_to_show_it(tmp_path, capsys):
    assert main(["serve", str(tmp_path), "--no-browser"]) == 2
    assert "--library" in capsys.readouterr().err


def test_the_only_trace_must_be_one(tmp_path, capsys):
    path = tmp_path / "notes.txt"
    path.write_text("not a trace")
    assert main(["serve", str(path), "--no-browser"]) == 2
    error = capsys.readouterr().err
    assert "notes.txt" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("command", ["serve", "demo"])
def test_a_library_must_be_a_folder(tmp_path, capsys, command):
    assert main([command, "--library", str(tmp_path / "missing"), "--no-browser"]) == 2
    assert "does not exist" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["-1", "65536", "http", "80.5"])
def test_a_port_is_a_number(capsys, text):
    assert main(["serve", f"--port={text}"]) == 2
    assert "a port is a number from 0 to 65535" in capsys.readouterr().err


def test_a_port_in_use_is_a_sentence(tmp_path, capsys, taken_port):
    write_small(tmp_path / "small.overlane")
    arguments = ["serve", "--library", str(tmp_path), "--port", str(taken_port), "--no-browser"]
    assert main(arguments) == 4
    assert f"port {taken_port} of 127.0.0.1 is in use" in capsys.readouterr().err


def test_an_address_that_is_not_ours_is_a_sentence(store):
    with pytest.raises(MachineError, match=r"no address '192\.0\.2\.1'"):
        serve(store, host="192.0.2.1", port=0, opens_browser=False)


def test_every_option_has_a_help_sentence():
    parser = argparse.ArgumentParser()
    COMMAND.add_arguments(parser)
    assert all(action.help for action in parser._actions)


@contextmanager
def started(folder, *options, program=("-m", "overlane")):
    """Start a server as a user does; gives its address and what it said until then."""
    command = [sys.executable, *program, "serve", "--library", str(folder), "--no-browser", *options]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        said = []
        for line in process.stdout:
            said.append(line)
            if found := re.search(r"Overlane is at (http://\S+)", line):
                yield found.group(1), said
                break
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0, said


def cut_trace(folder):
    """A file whose beginning is that of a trace, so that only reading it tells."""
    path = folder / "cut.json.gz"
    event = '{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 2}'
    path.write_bytes(gzip.compress(f"[{event}]".encode())[:-9])
    return path


def test_the_only_trace_that_cannot_be_read_ends_the_server(tmp_path):
    command = [
        sys.executable,
        "-m",
        "overlane",
        "serve",
        str(cut_trace(tmp_path)),
        "--no-browser",
        "--port=0",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 2
    assert "cut.json.gz is cut" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_trace_that_cannot_be_read_beside_others_is_said_and_the_server_stays(
    tmp_path, capsys, monkeypatch
):
    small = tmp_path / "small.overlane"
    write_small(small)
    store = TraceStore([cut_trace(tmp_path), small])
    monkeypatch.setattr(_thread, "interrupt_main", pytest.fail)
    watch = _Watch(store)
    watch.start()
    store.warm_up()
    watch.join(200)
    store.close()
    assert "cut.json.gz is cut" in capsys.readouterr().err
    assert not watch.fatal


def test_the_next_free_port_is_taken_and_said(shared_folder):
    with socket.socket() as other:
        with suppress(OSError):  # then another program has it already
            other.bind(("127.0.0.1", 8050))
            other.listen()
        with started(shared_folder) as (address, said):
            assert said[0].startswith("Port 8050 is in use, so this is port 80")
            with urllib.request.urlopen(f"{address}api/traces", timeout=60) as answer:
                assert answer.status == 200
                assert answer.headers["Content-Security-Policy"]


def test_port_zero_takes_any_and_says_which(shared_folder):
    with started(shared_folder, "--port", "0") as (address, _):
        assert int(address.split(":")[2].strip("/")) > 0


def test_a_host_that_others_reach_is_warned_of(shared_folder):
    with started(shared_folder, "--port", "0", "--host", "0.0.0.0") as (address, said):
        assert said[0].startswith("Warning: bound to 0.0.0.0")
        assert address.startswith("http://127.0.0.1:")


# As after opening many large traces, whose mapped files are open files.
_WITH_MANY_FILES = """
import os, resource, sys
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, most) if most > 0 else 4096, most))
kept = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
from overlane.cli import main
sys.exit(main(sys.argv[1:]))
"""


def test_a_server_with_more_files_open_than_select_takes_answers(shared_folder):
    with (
        started(shared_folder, "--port", "0", program=("-c", _WITH_MANY_FILES)) as (address, _),
        urllib.request.urlopen(f"{address}api/traces", timeout=60) as answer,
    ):
        assert answer.status == 200
