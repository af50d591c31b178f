"""A real server and a real Chromium; every page is watched for what it must never do."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import sync_playwright

from browser import known_traces
from browser.driver import Dashboard

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "sample_traces" / "torch_train_pinned.json.gz"
LEGACY = ROOT / "sample_traces" / "default-stream-legacy.overlane"
GREEN = ROOT / "sample_traces" / "green-context-A.overlane"
UNORDERED = ROOT / "sample_traces" / "stream-contract-missing-wait.overlane"
CONTENDED = ROOT / "sample_traces" / "green-context-C.overlane"
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-color-profile=srgb",  # pixels are compared with the palette's numbers
]
VIEWPORT = {"width": 1400, "height": 1000}
START_SECONDS = 120  # compilation after an install included


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


def find_chromium() -> str:
    for name in (os.environ.get("OVERLANE_CHROMIUM"), "chromium", "chromium-browser", "google-chrome"):
        if name and (found := shutil.which(name)):
            return found
    pytest.fail(
        "no Chromium was found: run scripts/test, which installs it, or set OVERLANE_CHROMIUM; "
        'pytest -m "not browser" leaves these tests out',
        pytrace=False,
    )


@pytest.fixture(scope="session")
def traces(tmp_path_factory):
    """A library folder with every kind of trace that the tests open."""
    folder = tmp_path_factory.mktemp("library")
    known_traces.write_known(folder / "known.overlane")
    known_traces.write_known(folder / "second.overlane")
    known_traces.write_hostile(folder / known_traces.HOSTILE_FILE)
    known_traces.write_without_gpu_work(folder / "no-gpu.json")
    known_traces.write_broken(folder / "broken.json")
    known_traces.write_twins(folder)
    shutil.copy(SAMPLE, folder / "h200.json.gz")
    shutil.copy(LEGACY, folder / "legacy.overlane")
    shutil.copy(GREEN, folder / "green.overlane")
    shutil.copy(UNORDERED, folder / "unordered.overlane")
    shutil.copy(CONTENDED, folder / CONTENDED.name)
    return folder


@pytest.fixture(scope="session")
def server(traces, tmp_path_factory):
    """The address of a server over the library, started as a user starts it."""
    environment = {
        **os.environ,
        "OVERLANE_CACHE_DIR": str(tmp_path_factory.mktemp("cache")),
        "PYTHONUNBUFFERED": "1",
    }
    command = [
        sys.executable,
        "-m",
        "overlane",
        "serve",
        "--library",
        str(traces),
        "--port",
        "0",
        "--no-browser",
    ]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        watchdog = threading.Timer(START_SECONDS, process.kill)
        watchdog.start()
        said = []
        address = None
        for line in process.stdout:
            said.append(line)
            if found := re.search(r"http://[\d.]+:\d+", line):
                address = found.group()
                break
        watchdog.cancel()
        if address is None:
            pytest.fail(f"the server did not start: {''.join(said)}", pytrace=False)
        # Its later lines must not fill the pipe; the thread ends with the process.
        drain = threading.Thread(target=lambda: [said.append(line) for line in process.stdout], daemon=True)
        drain.start()
        yield address
        process.terminate()
        process.wait(20)
        drain.join(5)


@pytest.fixture(scope="session")
def chromium():
    executable = find_chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=CHROMIUM_FLAGS, headless=True)
        yield browser
        browser.close()


@pytest.fixture
def dashboard(chromium, server):
    """A fresh browser profile on the server. Fails on console errors, page errors and foreign requests."""
    context = chromium.new_context(
        viewport=VIEWPORT, device_scale_factor=1, color_scheme="light", reduced_motion="reduce"
    )
    host = urlsplit(server).netloc
    foreign, failed, errors = [], [], []
    context.on("request", lambda r: foreign.append(r.url) if is_foreign(r.url, host) else None)
    context.on(
        "requestfailed", lambda r: failed.append(f"{r.url}: {r.failure}") if not is_aborted(r) else None
    )
    context.on(
        "console", lambda m: errors.append(f"{m.type}: {m.text}") if m.type in {"error", "warning"} else None
    )
    context.on("weberror", lambda e: errors.append(str(e.error)))
    context.set_default_timeout(30_000)
    board = Dashboard(context.new_page(), server, errors)
    yield board
    context.close()
    assert not foreign, "the page asked another host"
    assert not failed, "a request failed"
    assert not [text for text in errors if not any(word in text for word in board.expected_errors)]


def is_foreign(url: str, host: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme not in {"data", "blob", "about"} and parts.netloc != host


def is_aborted(request) -> bool:
    """Tell whether the page itself gave up on a request, as it does with tiles that it no longer needs."""
    return "ERR_ABORTED" in (request.failure or "")
