"""Fixtures that all tests share: samples, the corpus of real files, and a cache that is nobody's."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers import corpus
from overlane.samples import sample_paths

pytest.register_assert_rewrite("helpers.truth")  # its asserts show values only when they are rewritten


@pytest.fixture(scope="session", autouse=True)
def overlane_cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Point OVERLANE_CACHE_DIR at a folder of this session, so that no test meets a user's cache."""
    folder = tmp_path_factory.mktemp("overlane-cache")
    before = os.environ.get("OVERLANE_CACHE_DIR")
    os.environ["OVERLANE_CACHE_DIR"] = str(folder)
    yield folder
    if before is None:
        del os.environ["OVERLANE_CACHE_DIR"]
    else:
        os.environ["OVERLANE_CACHE_DIR"] = before


@pytest.fixture(scope="session")
def samples() -> dict[str, Path]:
    """Return the bundled traces by file name."""
    return {path.name: path for path in sample_paths()}


@pytest.fixture(scope="session")
def sample_manifest() -> list[dict[str, object]]:
    """Return the entries of the samples' manifest."""
    return list(json.loads((sample_paths()[0].parent / "MANIFEST.json").read_text("utf-8"))["traces"])


@pytest.fixture(scope="session")
def corpus_folder() -> Path:
    """Return the folder of real files, or skip."""
    folder = corpus.folder()
    if folder is None:
        pytest.skip(corpus.WHY_SKIPPED)
    return folder


_CHECKED = pytest.StashKey[list[str]]()


def pytest_configure() -> None:
    """Let servers that tests start be interrupted, also where a script runs the tests in its background."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Keep each file in one process, and all browser tests in one, since they share a server."""
    from xdist.scheduler import LoadFileScheduling  # noqa: PLC0415 - only there when several processes run

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "browser" if nodeid.startswith("tests/browser/") else super()._split_scope(nodeid)

    return Scheduling(config, log)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send what was checked of the corpus to the process that reports it."""
    tally = session.config.stash.get(corpus.TALLY, None)
    if tally is not None and tally.checked:
        output = getattr(session.config, "workeroutput", None)
        if output is None:
            session.config.stash.setdefault(_CHECKED, []).append(tally.sentence())
        else:
            output["corpus"] = tally.sentence()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take what a process of tests has sent."""
    if "corpus" in getattr(node, "workeroutput", {}):
        node.config.stash.setdefault(_CHECKED, []).append(node.workeroutput["corpus"])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say how much of the corpus was checked."""
    for sentence in config.stash.get(_CHECKED, []):
        terminalreporter.write_line(sentence)


@pytest.fixture(scope="session")
def corpus_tally(pytestconfig: pytest.Config) -> corpus.Tally:
    """Return the session's count of checked files."""
    return pytestconfig.stash.setdefault(corpus.TALLY, corpus.Tally(listed=len(corpus.paths())))
