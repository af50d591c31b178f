"""Which traces a server may show, and what happens to those that cannot be read."""

from __future__ import annotations

import re

import pytest

from callbacks.conftest import settle, write_host_only, write_small
from overlane.errors import NotInLibraryError, OverlaneError
from overlane.ui.pages.library import card, look_again
from overlane.ui.server import create_app
from overlane.ui.store import TraceStore, short_name


def states(store):
    return {x.trace_id: x.state for x in store.listings()}


def test_one_bad_file_hides_no_other(store):
    assert states(store) == {"small": "ready", "broken": "failed", "host": "ready", "second": "listed"}
    with pytest.raises(OverlaneError, match=r"broken\.overlane"):
        store.opened("broken")
    assert store.opened("small").trace.span_ns == 7000


def test_the_first_trace_is_the_first_that_can_be_read(shared_folder, cache):
    store = TraceStore([shared_folder / "broken.overlane", shared_folder / "small.overlane"], cache=cache)
    settle(store, "broken")
    store.close()
    assert store.first().trace_id == "small"


def test_no_trace_at_all(cache):
    store = TraceStore(cache=cache)
    assert store.listings() == []
    assert store.first() is None
    assert not store.is_busy()


def test_links_that_lead_out_of_the_library_are_not_listed(store):
    assert [x.name for x in store.listings() if not x.is_named] == ["second"]


@pytest.mark.parametrize(
    "text",
    [
        "../small.overlane",
        "link.overlane",
        "/etc/passwd",
        "sub/../../small.overlane",
        "missing.json",
        "",
        "a\0b",
    ],
)
def test_nothing_outside_the_library_is_opened_by_name(store, text):
    before = states(store)
    with pytest.raises(NotInLibraryError) as caught:
        store.add_by_name(text)
    assert "\n" not in str(caught.value)
    assert states(store) == before


def test_files_inside_are_opened_by_name_whatever_their_suffix(own_store, folder):
    write_small(folder / "library" / "odd.bin")
    assert own_store.add_by_name("odd.bin").name == "odd.bin"
    assert settle(own_store, "odd-bin").state == "ready"
    assert own_store.add_by_name("second.overlane").trace_id == "second"
    assert own_store.add_by_name("small").trace_id == "small", "named traces are found by their name too"


def add_twins(library):
    """Write files that share a stem, or a whole name in two folders."""
    for name in ("a/trace.json", "b/trace.json", "twin.json", "twin.overlane"):
        path = library / name
        path.parent.mkdir(exist_ok=True)
        write_small(path)


def test_every_trace_has_a_name_that_no_other_has(own_store, folder):
    add_twins(folder / "library")
    own_store.rescan()
    assert [*own_store.full_names().values()] == [
        *("small.overlane", "broken.overlane", "host.overlane"),
        *("a/trace.json", "b/trace.json", "second.overlane", "twin.json", "twin.overlane"),
    ]
    for name, listing in zip(own_store.full_names().values(), own_store.listings(), strict=True):
        assert own_store.add_by_name(name) == listing


def test_named_files_with_one_name_are_told_apart_by_their_paths(folder, cache):
    (folder / "other").mkdir()
    write_small(folder / "other" / "small.overlane")
    paths = [folder / "small.overlane", folder / "other" / "small.overlane"]
    store = TraceStore(paths, cache=cache)
    assert [*store.full_names().values()] == [str(path.resolve()) for path in paths]


@pytest.mark.parametrize(
    ("name", "candidates"),
    [("trace.json", ("a/trace.json", "b/trace.json")), ("twin", ("twin.json", "twin.overlane"))],
)
def test_a_name_of_several_traces_is_refused_with_their_names(own_store, folder, name, candidates):
    add_twins(folder / "library")
    with pytest.raises(NotInLibraryError) as caught:
        own_store.add_by_name(name)
    assert "\n" not in str(caught.value)
    assert all(one in str(caught.value) for one in candidates)
    assert "small" not in str(caught.value)


def test_a_folder_that_may_not_be_entered_hides_no_other(own_store, folder, monkeypatch):
    closed = folder / "library" / "closed"
    closed.mkdir()
    (closed / "in.json").write_text("{}")
    asked = type(closed).stat

    def stat(path, **options):
        if path.parent == closed:
            raise PermissionError(13, "Permission denied", str(path))
        return asked(path, **options)

    monkeypatch.setattr(type(closed), "stat", stat)
    own_store.rescan()
    assert [x.name for x in own_store.listings() if not x.is_named] == ["second"]
    with pytest.raises(NotInLibraryError, match=r"closed/in\.json"):
        own_store.add_by_name("closed/in.json")


def test_new_files_are_found_and_gone_ones_forgotten(own_store, folder):
    inner = folder / "library" / "runs"
    inner.mkdir()
    write_small(inner / "small.overlane")
    own_store.rescan()
    assert [x.name for x in own_store.listings() if not x.is_named] == ["runs/small", "second"]
    (inner / "small.overlane").unlink()
    own_store.rescan()
    assert [x.name for x in own_store.listings() if not x.is_named] == ["second"]


def test_ids_are_short_and_unique(folder, cache):
    other = folder / "other"
    other.mkdir()
    write_small(other / "small.overlane")
    weird = folder / "<b>bold & 'quotes' é.overlane"
    write_small(weird)
    store = TraceStore([folder / "small.overlane", other / "small.overlane", weird], cache=cache)
    ids = [x.trace_id for x in store.listings()]
    assert ids[:2] == ["small", "small-2"]
    assert all(re.fullmatch(r"[a-z0-9-]{1,64}", one) for one in ids)


def test_the_same_file_is_listed_once(folder, cache):
    store = TraceStore([folder / "small.overlane", folder / "other" / ".." / "small.overlane"], cache=cache)
    assert len(store.listings()) == 1


def test_a_repaired_file_is_read_again_on_request(own_store, folder):
    write_small(folder / "broken.overlane")
    assert settle(own_store, "broken").state == "ready"
    assert own_store.listing("broken").reason == ""


def test_unknown_ids_are_refused(store):
    for ask in (store.listing, store.request, store.opened):
        with pytest.raises(NotInLibraryError, match="nobody"):
            ask("nobody")


def test_progress_only_rises_to_ready(store):
    listing = settle(store, "second")
    assert (listing.state, listing.progress) == ("ready", 1.0)
    assert not store.is_busy()


def test_every_change_raises_the_version(store):
    before = store.version
    settle(store, "second")
    assert store.version > before


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("run.overlane", "run"),
        ("a.pt.trace.json.gz", "a"),
        ("b.json", "b"),
        ("c.json.gz", "c"),
        ("d.bin", "d.bin"),
        (".json", ".json"),
    ],
)
def test_names_lose_their_suffixes(tmp_path, name, short):
    assert short_name(tmp_path / name) == short


def test_a_file_that_becomes_a_link_out_of_the_library_is_not_opened(own_store, folder):
    listed = folder / "library" / "second.overlane"
    listed.unlink()
    listed.symlink_to(folder / "small.overlane")
    assert settle(own_store, "second").state == "failed"
    assert "leads out of the library folder" in own_store.listing("second").reason
    with pytest.raises(OverlaneError, match="leads out of the library folder"):
        own_store.opened("second")


def test_a_folder_that_becomes_a_link_out_of_the_library_is_not_entered(own_store, folder):
    inner = folder / "library" / "inner"
    inner.mkdir()
    write_small(inner / "small.overlane")
    own_store.rescan()
    (inner / "small.overlane").unlink()
    inner.rmdir()
    inner.symlink_to(folder)
    assert settle(own_store, own_store.add_by_name("inner/small").trace_id).state == "failed"


@pytest.mark.parametrize("text", ["a" * 5000, "x\ud800", "a/" * 3000, "loop/x"])
def test_names_that_no_file_can_have_are_refused_in_one_sentence(own_store, folder, text):
    (folder / "library" / "loop").symlink_to(folder / "library" / "loop")
    with pytest.raises(NotInLibraryError, match="has no file"):
        own_store.add_by_name(text)


def test_a_file_replaced_while_open_is_said_and_opened_anew_on_demand(own_store, folder):
    client = create_app(own_store).server.test_client()

    def changed():
        return {x["id"]: x["is_changed"] for x in client.get("/api/traces").json["traces"]}

    assert not any(changed().values())
    write_host_only(folder / "small.overlane")
    assert changed() == {"small": True, "broken": False, "host": False, "second": False}
    version = own_store.version
    own_store.notice_changes()
    assert own_store.version == version
    assert own_store.opened("small").trace.span_ns == 7000, "what is open stays"
    shown = card(own_store.listing("small"), own_store.facts("small"), current=None)
    assert "Changed on disk." in str(shown.to_plotly_json())
    look_again(own_store, 1)
    assert own_store.listing("small").state in {"loading", "ready"}
    assert settle(own_store, "small").state == "ready"
    assert own_store.opened("small").trace.span_ns == 100
    assert not any(changed().values())
