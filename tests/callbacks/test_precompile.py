"""The second process that compiles: started where it is needed, waited for, ended with the server."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

import overlane
from overlane.ui import precompile
from overlane.ui.precompile import Precompiler
from overlane.ui.studies import Studies

ENDLESS = ("-c", "import time; time.sleep(600)")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("OVERLANE_CACHE_DIR", str(tmp_path))
    return tmp_path


def test_the_analyses_are_waited_for(folder):
    written = folder / "written"
    Precompiler(("-c", f"import pathlib; pathlib.Path({str(written)!r}).touch()")).analyses()
    assert written.exists()


def test_what_is_compiled_is_not_compiled_again(folder):
    precompile._note().touch()
    written = folder / "written"
    compiler = Precompiler(("-c", f"import pathlib; pathlib.Path({str(written)!r}).touch()"))
    compiler.analyses()
    compiler.stop()
    assert not written.exists()


def test_another_state_of_the_code_is_another_note(monkeypatch, tmp_path):
    source = Path(overlane.__file__).parent / "analysis" / "waits.py"
    before = precompile._note()
    real = Path.stat

    def touched(path, **options):
        facts = list(real(path, **options))
        if path == source:
            facts[6] += 1  # one byte longer
            return os.stat_result(facts)
        return real(path, **options)

    monkeypatch.setattr(Path, "stat", touched)
    assert precompile._note() != before


def test_the_end_of_the_server_ends_the_waiting():
    compiler = Precompiler(ENDLESS)
    waiting = threading.Thread(target=compiler.analyses)
    waiting.start()
    until = time.monotonic() + 30
    while compiler._process is None:
        assert time.monotonic() < until
        time.sleep(0.01)
    compiler.stop()
    waiting.join(30)
    assert not waiting.is_alive()
    compiler.analyses()  # starts nothing any more
    assert compiler._process.poll() is not None


def test_a_first_trace_that_opens_at_once_needs_no_help():
    compiler, opened = Precompiler(ENDLESS), threading.Event()
    opened.set()
    compiler._watch(opened)
    assert compiler._process is None


def test_studies_are_prepared_once(client, store):
    calls = []
    studies = Studies(prepare=lambda: calls.append("prepared"))
    opened = store.opened("second", wait_s=60)
    for name in ("first", "second"):
        assert studies.answer(opened, None, name, lambda _: calls.append("made") or 1, wait_s=60) == 1
    assert calls == ["prepared", "made", "made"]
