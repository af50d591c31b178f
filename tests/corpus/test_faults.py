"""Odd files through the public entry and the command line: read right, or refused with one sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import overlane
from helpers.faults import FAULTS, PLAIN
from helpers.kineto import Fault, Readable, Refused
from helpers.oracle import read_text
from helpers.truth import assert_accounted, assert_figures, assert_times
from overlane.cli import main
from overlane.errors import OverlaneError, TraceUnreadableError

READABLE = [fault for fault in FAULTS if isinstance(fault.outcome, Readable)]
UNREADABLE = [fault for fault in FAULTS if isinstance(fault.outcome, Refused)]
NOBODY = 65534


def written(fault: Fault, folder: Path) -> Path:
    path = folder / f"case{fault.suffix}"
    path.write_bytes(fault.content)
    return path


@pytest.mark.parametrize("fault", READABLE, ids=lambda fault: fault.name)
def test_is_read_right(fault, tmp_path):
    trace = overlane.open_trace(written(fault, tmp_path))
    truth = read_text(fault.clean or fault.content.decode())
    busy = {device: figures.busy_ns for device, figures in truth.devices.items()}
    assert busy == fault.outcome.busy_ns, "the oracle disagrees with the literal worked by hand"
    assert trace.table("ops").num_rows == fault.outcome.ops
    assert sum(trace.header.dropped.values()) == fault.outcome.dropped
    assert_accounted(trace, truth)
    assert_times(trace, truth, names=fault.clean is None)
    assert_figures(trace, truth)
    if fault.outcome.also is not None:
        fault.outcome.also(trace)


@pytest.mark.parametrize("fault", READABLE, ids=lambda fault: fault.name)
def test_info_of_a_readable_one(fault, tmp_path, capsys):
    assert main(["info", str(written(fault, tmp_path))]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("fault", UNREADABLE, ids=lambda fault: fault.name)
def test_is_refused_with_one_sentence(fault, tmp_path, capsys):
    path = written(fault, tmp_path)
    with pytest.raises(TraceUnreadableError) as caught:
        overlane.open_trace(path)
    assert_sentence(str(caught.value), path, fault.outcome.words)
    assert main(["info", str(path)]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert_sentence(output.err, path, fault.outcome.words)


def assert_sentence(text: str, path: Path, words: tuple[str, ...] = ()) -> None:
    assert path.name in text
    assert len(text.strip().splitlines()) == 1
    assert len(text) < 500
    assert "Traceback" not in text
    if words:
        assert any(word.lower() in text.lower().replace(path.name.lower(), "") for word in words), text


def test_a_folder(tmp_path, capsys):
    assert main(["info", str(tmp_path)]) == 2
    assert_sentence(capsys.readouterr().err, tmp_path, ("directory", "folder"))


def test_a_path_that_does_not_exist(tmp_path, capsys):
    path = tmp_path / "nothing.json"
    assert main(["info", str(path)]) == 2
    assert_sentence(capsys.readouterr().err, path, ("no such", "does not exist", "no file"))
    assert not path.exists()


def test_a_path_below_a_file(tmp_path, capsys):
    (tmp_path / "file").write_text("x")
    path = tmp_path / "file" / "trace.json"
    assert main(["info", str(path)]) == 2
    assert_sentence(capsys.readouterr().err, path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_named_pipe_does_not_block(tmp_path, capsys):
    path = tmp_path / "pipe.json"
    os.mkfifo(path)
    assert main(["info", str(path)]) == 2
    assert_sentence(capsys.readouterr().err, path)


def run_info(path: Path, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "overlane", "info", str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **options)


AS_ANOTHER_USER = """
import os, sys
from overlane.cli import main
readable, secret, user = sys.argv[1], sys.argv[2], int(sys.argv[3])
if main(["info", readable]):  # imports what the command needs, which the other user may not be able to
    sys.exit("the readable file could not be read")
sys.stdout.flush()
if user:
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
print("-- secret --", flush=True)
sys.exit(main(["info", secret]))
"""


def test_without_permission(tmp_path):
    """Another user asks when we are root, since root may read everything."""
    readable, secret = tmp_path / "readable.json", tmp_path / "secret.json"
    for path in (readable, secret):
        path.write_text(PLAIN)
    secret.chmod(0)
    if os.geteuid() == 0:  # the folders of the session are root's alone
        for folder in (tmp_path, *tmp_path.parents):
            if folder.stat().st_uid == 0 and folder != Path("/"):
                folder.chmod(folder.stat().st_mode | 0o055)
    user = NOBODY if os.geteuid() == 0 else 0
    command = [sys.executable, "-c", AS_ANOTHER_USER, str(readable), str(secret), str(user)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 2, result.stderr
    assert result.stdout.endswith("-- secret --\n")
    assert_sentence(result.stderr, secret, ("permission", "may not be read"))


@pytest.mark.parametrize(
    "name", ["empty", "cut inside the last string", "cut gzip", "text", "name with raw quotes"]
)
def test_a_process_ends_with_two_and_no_traceback(name, tmp_path):
    (fault,) = (fault for fault in UNREADABLE if fault.name == name)
    path = written(fault, tmp_path)
    result = run_info(path)
    assert result.returncode == 2
    assert result.stdout == ""
    assert_sentence(result.stderr, path)


def test_foreign_names_under_the_c_locale(tmp_path):
    (fault,) = (fault for fault in READABLE if fault.name == "Greek and Chinese names")
    environment = os.environ | {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    result = run_info(written(fault, tmp_path), env=environment)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""


def test_every_prefix_of_a_file_is_refused_or_says_so(tmp_path):
    """Cut anywhere: never a traceback, never a trace that silently lacks events."""
    content = PLAIN.encode()
    path = tmp_path / "cut.json"
    whole = len(content.rstrip())
    for length in range(0, whole, 7):
        path.write_bytes(content[:length])
        with pytest.raises(OverlaneError):
            overlane.open_trace(path)
