"""Marks, notes and the arrangement of lanes: kept beside the trace, checked, never lost to a second page."""

from __future__ import annotations

import json

import pytest

from overlane.ui.notes import EMPTY, MOST_BYTES, Notebook, checked

MARK = {"t0_ns": 1000, "t1_ns": 3000, "label": "1 add", "note": "why so <b>long</b>?"}


def put(client, body, trace="second", **options):
    return client.put(f"/api/traces/{trace}/notes", json=body, **options)


@pytest.fixture
def own_client(own_store):
    from overlane.ui.server import create_app  # noqa: PLC0415 - as the other fixtures do

    return create_app(own_store).server.test_client()


def test_a_trace_without_notes_has_none(own_client):
    assert own_client.get("/api/traces/second/notes").json == EMPTY


def test_notes_lie_beside_a_trace_of_the_library(own_client, folder):
    answer = put(own_client, {"revision": 0, "marks": [MARK], "pinned": ["s:0:1:7"], "order": []})
    assert answer.status_code == 200
    beside = folder / "library" / "second.overlane.notes"
    assert json.loads(beside.read_text("utf-8"))["marks"] == [MARK]
    again = own_client.get("/api/traces/second/notes").json
    assert again == {"schema": 1, "revision": 1, "marks": [MARK], "pinned": ["s:0:1:7"], "order": []}
    assert "second.overlane.notes" not in own_client.get("/api/traces").text, "notes are no trace"


def test_notes_of_other_traces_lie_in_the_cache(own_client, folder, tmp_path, monkeypatch):
    monkeypatch.setenv("OVERLANE_CACHE_DIR", str(tmp_path / "kept"))
    assert put(own_client, {"revision": 0, "marks": [MARK]}, trace="small").status_code == 200
    assert not list(folder.glob("*.notes"))
    assert len(list((tmp_path / "kept" / "notes").iterdir())) == 1
    assert own_client.get("/api/traces/small/notes").json["marks"] == [MARK]


def test_notes_that_came_with_a_trace_are_used_and_kept_there(own_client, own_store, tmp_path, monkeypatch):
    monkeypatch.setenv("OVERLANE_CACHE_DIR", str(tmp_path / "kept"))
    path = own_store.listing("small").path
    beside = path.with_name(f"{path.name}.notes")
    beside.write_text(json.dumps({"schema": 1, "revision": 4, "marks": [MARK]}))
    try:
        assert own_client.get("/api/traces/small/notes").json["marks"] == [MARK]
        assert put(own_client, {"revision": 4, "marks": [MARK, MARK]}, trace="small").status_code == 200
        assert len(json.loads(beside.read_text("utf-8"))["marks"]) == 2
    finally:
        beside.unlink()


def test_what_a_second_page_wrote_is_not_lost(own_client):
    assert put(own_client, {"revision": 0, "marks": [MARK]}).status_code == 200
    answer = put(own_client, {"revision": 0, "marks": []})
    assert answer.status_code == 409
    assert answer.json["marks"] == [MARK]
    assert put(own_client, {"revision": 1, "marks": []}).status_code == 200


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ([], "an object"),
        ({"marks": {}}, "a list"),
        ({"marks": [MARK] * 501}, "at most 500"),
        ({"marks": [3]}, "a mark is an object"),
        ({"marks": [{**MARK, "t0_ns": 1.5}]}, "whole nanoseconds"),
        ({"marks": [{**MARK, "t0_ns": True}]}, "whole nanoseconds"),
        ({"marks": [{**MARK, "t1_ns": 5}]}, "ends before it starts"),
        ({"marks": [{**MARK, "label": 5}]}, "are texts"),
        ({"marks": [{**MARK, "note": "x" * 5000}]}, "at most 4000"),
        ({"pinned": "s:0"}, "ids of lanes"),
        ({"order": [1]}, "ids of lanes"),
    ],
)
def test_what_makes_no_sense_is_refused(own_client, values, word):
    answer = put(own_client, {"revision": 0, **values} if isinstance(values, dict) else values)
    assert answer.status_code == 400
    assert word in answer.json["error"] or isinstance(values, list)


def test_other_kinds_of_bodies_are_refused(own_client):
    address = "/api/traces/second/notes"
    assert own_client.put(address, data="{}", content_type="text/plain").status_code == 400
    long = own_client.put(address, data=b" " * (MOST_BYTES + 1), content_type="application/json")
    assert "at most" in long.json["error"]
    assert put(own_client, {"marks": []}).status_code == 400
    assert own_client.put(address, data="{", content_type="application/json").status_code == 400
    assert put(own_client, {"revision": 0}, trace="nothing").status_code == 404
    assert put(own_client, {"revision": 0}, headers={"Origin": "http://evil.example"}).status_code == 403


def test_damaged_notes_are_no_notes(own_client, folder):
    (folder / "library" / "second.overlane.notes").write_text("{cut")
    assert own_client.get("/api/traces/second/notes").json == EMPTY


def test_a_link_is_not_followed(own_client, own_store, folder, tmp_path, monkeypatch):
    monkeypatch.setenv("OVERLANE_CACHE_DIR", str(tmp_path / "kept"))
    target = folder / "precious.txt"
    target.write_text("mine")
    (folder / "library" / "second.overlane.notes").symlink_to(target)
    assert put(own_client, {"revision": 0, "marks": [MARK]}).status_code == 200
    assert target.read_text() == "mine"
    assert own_client.get("/api/traces/second/notes").json["marks"] == [MARK]


def test_a_folder_that_cannot_be_written_is_replaced(own_store, tmp_path, monkeypatch):
    listing = own_store.listing("second")
    notebook = Notebook(listing.path.parent, tmp_path / "elsewhere")
    monkeypatch.setattr("overlane.ui.notes.tempfile.mkstemp", fails_in(listing.path.parent))
    notebook.write(listing, {"marks": [MARK]}, 0)
    assert notebook.read(listing)["marks"] == [MARK]
    assert len(list((tmp_path / "elsewhere").iterdir())) == 1


def fails_in(folder):
    """Make temporary files anywhere but in one folder."""
    import tempfile  # noqa: PLC0415 - the real one, before it is replaced

    real = tempfile.mkstemp

    def make(*, dir, **options):  # noqa: A002 - as the real one calls it
        if dir == folder:
            raise PermissionError("read-only")
        return real(dir=dir, **options)

    return make


def test_checked_drops_what_it_does_not_know():
    assert checked({"marks": [{**MARK, "more": 1}], "extra": 2}) == {
        "schema": 1, "marks": [MARK], "pinned": [], "order": [],
    }  # fmt: skip
