"""Who may talk to the server, and what its pages may load."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest

from overlane.ui.security import allowed_hosts, is_loopback
from overlane.ui.server import create_app


@pytest.mark.parametrize("host", ["127.0.0.1:8050", "localhost:8050", "LOCALHOST", "[::1]:8050"])
def test_loopback_names_are_answered(client, host):
    assert client.get("/api/traces", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8050", "127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.5", ""],
)
@pytest.mark.parametrize("path", ["/", "/api/traces", "/_dash-layout", "/assets/overlane.css"])
def test_foreign_names_are_refused(client, host, path):
    answer = client.get(path, headers={"Host": host})
    assert answer.status_code == 403
    assert "does not answer under the name" in answer.json["error"]


def test_pages_of_other_sites_may_not_call_back(client):
    body = {"output": "ov-open.data", "inputs": [], "changedPropIds": []}
    refused = client.post("/_dash-update-component", json=body, headers={"Origin": "http://evil.example"})
    assert refused.status_code == 403
    own = client.get("/api/traces", headers={"Origin": "http://localhost"})
    assert own.status_code == 200


def test_the_bound_host_is_allowed_too():
    assert allowed_hosts("gpu-box.lan")("gpu-box.lan:80")
    assert not allowed_hosts("gpu-box.lan")("other.lan")


def test_bound_to_all_addresses_numbers_are_allowed_but_names_are_not():
    is_allowed = allowed_hosts("0.0.0.0")
    assert is_allowed("192.168.1.4:8050")
    assert is_allowed("[fe80::1]:8050")
    assert not is_allowed("evil.example")


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("box", False),
    ],
)
def test_loopback_is_told(host, expected):
    assert is_loopback(host) is expected


@pytest.mark.parametrize("path", ["/", "/timeline", "/api/traces", "/api/nothing", "/assets/overlane.css"])
def test_every_answer_has_the_headers(client, path):
    with client.get(path) as answer:
        headers = answer.headers
    assert headers["X-Content-Type-Options"] == "nosniff"
    policy = dict(part.split(" ", 1) for part in headers["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["frame-ancestors"] == "'self'"
    assert "unsafe" not in policy["script-src"]
    assert "http" not in headers["Content-Security-Policy"]


def test_inline_scripts_are_allowed_by_their_hash(client):
    answer = client.get("/")
    scripts = re.findall(r"<script([^>]*)>(.*?)</script>", answer.text, re.DOTALL)
    inline = [text for attributes, text in scripts if text and "json" not in attributes]
    assert len(inline) >= 2
    for text in inline:
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in answer.headers["Content-Security-Policy"]


def test_the_page_names_no_other_host(client):
    for path in ("/", "/_dash-layout", "/_dash-dependencies"):
        assert not re.findall(r"(?:src|href)=[\"']?(?:https?:)?//", client.get(path).text)


@pytest.mark.parametrize(
    "path",
    ["/assets/../server.py", "/assets/%2e%2e/server.py", "/assets/..%2fserver.py", "/assets//etc/passwd"],
)
def test_assets_give_nothing_else(client, path):
    answer = client.get(path)
    assert "create_app" not in answer.text
    assert "root:" not in answer.text


def test_two_apps_in_one_process_both_answer(store):
    for app in (create_app(store), create_app(store)):
        assert len(app.server.test_client().get("/_dash-dependencies").json) > 5


@pytest.mark.parametrize(
    "origin", ["http://[evil", "null", "http://evil.example@127.0.0.1", "file://", "http://"]
)
def test_origins_that_make_no_sense_are_refused(client, origin):
    answer = client.get("/api/traces", headers={"Origin": origin})
    assert answer.status_code == 403
    assert "may not talk to this server" in answer.json["error"]


@pytest.mark.parametrize("host", ["evil.example@127.0.0.1", "127.0.0.1/evil", "evil.example#@127.0.0.1"])
def test_hosts_with_more_than_a_name_are_refused(client, host):
    assert not allowed_hosts("127.0.0.1")(host)
    assert client.get("/api/traces", headers={"Host": host}).status_code in {400, 403}


@pytest.mark.parametrize(
    "rest", ["../../etc/passwd", "dash/../../../etc/passwd", "nothing/here.js", "dash/no.js"]
)
def test_component_files_that_do_not_exist_are_not_found(app, rest):
    app.server.testing = False  # as it is served, a fault would be an answer of 500
    answer = app.server.test_client().get(f"/_dash-component-suites/{rest}")
    assert answer.status_code == 404
    assert "Traceback" not in answer.text
