"""Dropped files: what is taken, where it is kept, and what is refused."""

from __future__ import annotations

import io

import pytest

from callbacks.conftest import settle
from overlane.ui import uploads
from overlane.ui.asked import BadRequestError
from overlane.ui.uploads import Uploads, file_name


def drop(client, data, name="dropped.overlane", **options):
    options.setdefault("content_type", "application/octet-stream")
    return client.post("/api/traces", query_string={"name": name}, data=data, **options)


def test_a_dropped_trace_is_opened(client, store, folder):
    answer = drop(client, (folder / "small.overlane").read_bytes())
    assert answer.status_code == 201
    trace_id = answer.json["id"]
    assert answer.json["name"] == "dropped"
    store.request(trace_id)
    settle(store, trace_id)
    assert client.get(f"/api/traces/{trace_id}/timeline").json["span_ns"] == 7001


def test_a_dropped_file_that_is_no_trace_is_refused_in_words(client, store):
    trace_id = drop(client, b"holiday pictures", "beach.json").json["id"]
    store.request(trace_id)
    settle(store, trace_id)
    (listed,) = [x for x in client.get("/api/traces").json["traces"] if x["id"] == trace_id]
    assert listed["state"] == "failed"
    assert "beach.json" in listed["reason"]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("run.overlane", "run.overlane"),
        ("../../etc/passwd", "passwd"),
        ("C:\\traces\\run.json", "run.json"),
        ("a\0b\n.json", "a_b_.json"),
        ("<img src=x>.json", "_img src_x_.json"),
        ("x" * 500 + ".json", "x" * 115 + ".json"),
    ],
)
def test_names_stay_inside_the_folder(given, kept, tmp_path):
    assert file_name(given) == kept
    path = Uploads(tmp_path).keep(file_name(given), 3, io.BytesIO(b"abc"))
    assert path.resolve().is_relative_to(tmp_path)
    assert path.read_bytes() == b"abc"


@pytest.mark.parametrize("given", ["", "..", "/", " . "])
def test_names_that_are_none_are_refused(given):
    with pytest.raises(BadRequestError, match="no name of a file"):
        file_name(given)


def test_two_files_of_one_name_are_two(tmp_path):
    kept = Uploads(tmp_path)
    assert kept.keep("a.json", 1, io.BytesIO(b"1")) != kept.keep("a.json", 1, io.BytesIO(b"2"))


def test_limits_are_said(client, tmp_path, monkeypatch):
    monkeypatch.setattr(uploads, "MAX_UPLOAD_BYTES", 10)
    answer = drop(client, b"x" * 11)
    assert answer.status_code == 400
    assert "at most 10 B" in answer.json["error"]
    few = Uploads(tmp_path, total_bytes=5)
    few.keep("a", 4, io.BytesIO(b"1234"))
    with pytest.raises(BadRequestError, match="leave no room"):
        few.keep("b", 2, io.BytesIO(b"12"))
    assert "empty" in drop(client, b"").json["error"]


def test_a_full_disk_is_said(tmp_path, monkeypatch):
    usage = uploads.shutil.disk_usage(tmp_path)._replace(free=5)
    monkeypatch.setattr(uploads.shutil, "disk_usage", lambda _path: usage)
    with pytest.raises(BadRequestError, match="5 B left"):
        Uploads(tmp_path).keep("a", 2, io.BytesIO(b"12"))


def test_a_cancelled_upload_leaves_nothing(tmp_path):
    kept = Uploads(tmp_path, total_bytes=10)
    with pytest.raises(BadRequestError, match="did not arrive"):
        kept.keep("a", 10, io.BytesIO(b"123"))
    assert not list(tmp_path.rglob("a"))
    kept.keep("b", 10, io.BytesIO(b"0123456789"))


@pytest.mark.parametrize("kind", ["text/plain", "multipart/form-data", "application/x-www-form-urlencoded"])
def test_what_a_foreign_page_could_post_is_refused(client, kind):
    assert drop(client, b"abc", content_type=kind).status_code == 400


def test_foreign_origins_are_refused(client):
    answer = drop(client, b"abc", headers={"Origin": "http://evil.example"})
    assert answer.status_code == 403
