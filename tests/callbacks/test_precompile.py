"""The second process that compiles: started where it is needed, waited for, ended with the server."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

import overlane
from overlane.analysis import study as study_module
from overlane.analysis.study import VERSIONS
from overlane.ui import precompile
from overlane.ui.precompile import Precompiler
from overlane.ui.studies import Studies

ENDLESS = ("-c", "import time; time.sleep(600)")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("OVERLANE_CACHE_DIR", str(tmp_path))
    return tmp_path


def test_a_result_is_waited_for_and_no_other(folder):
    """The first of two is told while the second never comes."""
    program = "import time; print('waits', flush=True); time.sleep(600)"
    compiler = Precompiler(("-c", program))
    compiler.wait("waits")
    late = threading.Thread(target=compiler.wait, args=("order",))
    late.start()
    late.join(0.2)
    assert late.is_alive()
    compiler.stop()
    late.join(30)
    assert not late.is_alive()


def test_a_program_that_fails_is_not_waited_for():
    Precompiler(("-c", "raise SystemExit(1)")).wait("waits")


def test_what_is_compiled_is_not_compiled_again(folder):
    precompile._note().touch()
    written = folder / "written"
    compiler = Precompiler(("-c", f"import pathlib; pathlib.Path({str(written)!r}).touch()"))
    compiler.wait("waits")
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
    waiting = threading.Thread(target=compiler.wait, args=("waits",))
    waiting.start()
    until = time.monotonic() + 30
    while compiler._process is None:
        assert time.monotonic() < until
        time.sleep(0.01)
    compiler.stop()
    waiting.join(30)
    assert not waiting.is_alive()
    compiler.wait("waits")  # starts nothing any more
    assert compiler._process.poll() is not None


def test_a_first_trace_that_opens_at_once_needs_no_help():
    compiler, opened = Precompiler(ENDLESS), threading.Event()
    opened.set()
    compiler._watch(opened)
    assert compiler._process is None


def test_what_waits_for_its_code_lets_others_take_their_turn(store):
    """One result is not compiled yet; what needs another one is answered meanwhile."""
    is_compiled, asked = threading.Event(), []

    def until_compiled(name):
        asked.append(name)
        assert name != "dependencies" or is_compiled.wait(60)

    studies = Studies(until_compiled=until_compiled)
    opened = store.opened("second", wait_s=60)
    window = (0, 7000)  # results of a window are not kept
    answers = {
        "slow": lambda study: len(study.dependencies.op),
        "other": lambda study: study.engines.devices[0].busy_ns,
        "same": lambda study: len(study.dependencies.op),
    }
    assert studies.answer(opened, window, "slow", answers["slow"], wait_s=0) is None
    assert studies.answer(opened, window, "other", answers["other"], wait_s=60) == 5000
    for name in ("slow", "same"):
        assert studies.answer(opened, window, name, answers[name], wait_s=0) is None
    is_compiled.set()
    for name in ("slow", "same"):  # the second has its turn and waits for the result of the first
        assert studies.answer(opened, window, name, answers[name], wait_s=60) is not None
    assert sorted(asked) == ["dependencies", "engines"]


def test_two_processes_compile_all_results_between_them(monkeypatch):
    """Each result is computed by one of the two, after those that it is made from."""
    done = {name: threading.Event() for name in {*VERSIONS, *precompile._SECOND}}
    rest = [name for name in VERSIONS if name not in {*precompile._FIRST, *precompile._SECOND}]
    computed = []

    class Fake:
        def __init__(self, trace):
            self.trace = trace

        def __getattr__(self, name):
            computed.append(name)

    monkeypatch.setattr(study_module, "Study", Fake)
    monkeypatch.setattr(precompile, "_OTHERS", dict.fromkeys(precompile._OTHERS, lambda trace: None))
    monkeypatch.setattr(precompile, "_SAMPLES", precompile._SAMPLES[:1])
    lists = precompile._FIRST, (*precompile._SECOND, *rest)
    threads = [
        threading.Thread(target=precompile._compile, args=(names, done, lambda: True)) for names in lists
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert all(event.is_set() for event in done.values())
    places = [precompile._PROPERTIES.get(name, name) for name in VERSIONS]
    assert sorted(computed) == sorted(places)
    for name, (_, sources) in VERSIONS.items():
        for source in sources:
            before, after = (computed.index(precompile._PROPERTIES.get(one, one)) for one in (source, name))
            assert before < after, (source, name)


def test_a_process_whose_other_ended_goes_on_alone(monkeypatch):
    monkeypatch.setattr(precompile, "_SAMPLES", precompile._SAMPLES[:1])
    done = {name: threading.Event() for name in ("dependencies", "waits")}
    precompile._compile(("waits",), done, lambda: False)
    assert done["waits"].is_set()
