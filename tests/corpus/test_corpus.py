"""Every real file at hand, and every sample: read right to the nanosecond, or refused by its name."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from helpers import corpus
from helpers.oracle import FileTruth, read_file
from helpers.truth import assert_accounted, assert_figures, assert_lanes, assert_round_trip, assert_times
from overlane.cli import main
from overlane.errors import TraceUnreadableError
from overlane.readers import open_trace
from overlane.samples import sample_paths
from overlane.trace import Trace

CORPUS = corpus.paths()
READ = [path for path in CORPUS if corpus.refused_as(path) is None]
REFUSED = [path for path in CORPUS if corpus.refused_as(path) is not None]
SAMPLES = [path for path in sample_paths() if path.suffix == ".gz"]

needs_corpus = pytest.mark.skipif(not CORPUS, reason=corpus.WHY_SKIPPED)


def shown(path):
    """Return a file's name with its folder, since names repeat."""
    return "/".join(path.parts[-2:])


@dataclass
class Pair:
    """A file, the trace that was read from it and the truth about it."""

    path: object
    trace: Trace
    truth: FileTruth


@pytest.fixture(scope="module", params=[*READ, *SAMPLES], ids=shown)
def pair(request):
    """One file, read once by each side; the tests of one file run together."""
    return Pair(request.param, open_trace(request.param), read_file(request.param))


def test_every_event_is_accounted(pair):
    assert_accounted(pair.trace, pair.truth)


def test_times_are_the_text(pair):
    assert_times(pair.trace, pair.truth)


def test_busy_overlap_and_idle(pair, corpus_tally):
    assert_figures(pair.trace, pair.truth)
    if pair.path in READ:
        corpus_tally.read.add(str(pair.path))


def test_round_trip(pair, tmp_path):
    assert_round_trip(pair.trace, tmp_path / "again.overlane")


def test_operations_are_on_the_lanes(pair, tmp_path):
    assert_lanes(pair.trace, tmp_path)


def test_no_host_user_or_environment(pair):
    """What a foreign file says of a person or a machine is not kept in the header."""
    text = str(pair.trace.header.to_json()).lower()
    for word in ("host_name", "hostname", "username", "user_name", "environ", "/home/", "ld_library_path"):
        assert word not in text


@needs_corpus
@pytest.mark.corpus
@pytest.mark.parametrize("path", REFUSED, ids=shown)
def test_other_formats_are_refused_by_name(path, capsys, corpus_tally):
    words = corpus.refused_as(path)
    with pytest.raises(TraceUnreadableError) as caught:
        open_trace(path)
    sentence = str(caught.value)
    assert path.name in sentence
    assert "\n" not in sentence
    rest = sentence.replace(str(path), "").replace(path.name, "")
    assert any(word in rest for word in words), sentence
    assert main(["info", str(path)]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert len(output.err.splitlines()) == 1
    corpus_tally.refused.add(str(path))


@needs_corpus
@pytest.mark.corpus
def test_the_corpus_holds_what_its_manifest_lists():
    missing = [str(path) for path in CORPUS if not path.is_file()]
    assert not missing
    names = [path.name for path in READ]
    assert "mtia_rank_0.json.gz" in names
    assert "torch_train_long.json.gz" in names


@needs_corpus
@pytest.mark.corpus
def test_all_files_were_checked(corpus_tally):
    """Last in the file: in CI nothing that the manifest lists may have been left out."""
    left_out = {str(path) for path in CORPUS} - corpus_tally.read - corpus_tally.refused
    if corpus.is_in_ci():
        assert not left_out, corpus_tally.sentence()


@pytest.mark.skipif(
    shutil.which("git") is None, reason="git is missing, and the entry of CI asks it for the root"
)
def test_the_entry_of_ci_demands_all_files(tmp_path):
    """What makes the test above bite is set by the entry itself, not hoped for from whoever starts it."""
    entry = tmp_path / ".ci" / "run"
    entry.parent.mkdir()
    shutil.copy(Path(__file__).resolve().parents[2] / ".ci" / "run", entry)
    stub = tmp_path / "scripts" / "test"
    stub.parent.mkdir()
    stub.write_text("#!/bin/sh\necho CI=$CI\n")
    stub.chmod(0o755)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    environment = {name: value for name, value in os.environ.items() if name != "CI"}
    done = subprocess.run([entry], capture_output=True, text=True, check=True, env=environment)
    assert "CI=true" in done.stdout.splitlines()
