"""Marks and notes of a trace, and how its lanes are arranged: a file beside the trace, written by the page.

A trace of the library folder has `NAME.notes` beside it, so that both travel together, and so has any other
that came with one. For the rest, and where the folder cannot be written, they lie in the cache folder.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flask import Blueprint, Response, jsonify, request

from overlane.errors import MachineError, OverlaneError
from overlane.notes import MOST_BYTES, beside, elsewhere, latest
from overlane.ui.asked import BadRequestError

if TYPE_CHECKING:
    from overlane.ui.store import Listing, TraceStore

__all__ = ["EMPTY", "Notebook", "add_note_routes", "checked"]

MOST_MARKS = 500
MOST_LANES = 5_000
LABEL_LETTERS = 200
NOTE_LETTERS = 4_000
_LATEST_NS = 2**62

EMPTY: dict[str, Any] = {"schema": 1, "revision": 0, "marks": [], "pinned": [], "order": []}
"""Notes of a trace that has none."""


def checked(values: Any) -> dict[str, Any]:
    """Return notes with everything that makes no sense refused.

    Args:
        values: `marks` (each with `t0_ns`, `t1_ns`, `label` and `note`), `pinned` and `order` (ids of lanes).

    Raises:
        BadRequestError: Something is of the wrong kind or too long; the sentence says what.
    """
    if not isinstance(values, dict):
        raise BadRequestError("notes are an object with marks, pinned and order")
    marks = values.get("marks", [])
    if not isinstance(marks, list) or len(marks) > MOST_MARKS:
        raise BadRequestError(f"marks are a list of at most {MOST_MARKS}")
    return {
        "schema": 1,
        "marks": [_mark(mark) for mark in marks],
        "pinned": _lanes(values.get("pinned", []), "pinned"),
        "order": _lanes(values.get("order", []), "order"),
    }


def _mark(values: Any) -> dict[str, Any]:
    if not isinstance(values, dict):
        raise BadRequestError("a mark is an object with t0_ns, t1_ns, label and note")
    start, end = values.get("t0_ns"), values.get("t1_ns")
    for stamp in (start, end):
        if not isinstance(stamp, int) or isinstance(stamp, bool) or not 0 <= stamp <= _LATEST_NS:
            raise BadRequestError(f"the times of a mark are whole nanoseconds, not {str(stamp)[:40]!r}")
    if start > end:  # type: ignore[operator]  # both are whole numbers, see above
        raise BadRequestError(f"a mark from {start} to {end} ends before it starts")
    return {
        "t0_ns": start,
        "t1_ns": end,
        "label": _text(values.get("label", ""), LABEL_LETTERS),
        "note": _text(values.get("note", ""), NOTE_LETTERS),
    }


def _text(value: Any, most: int) -> str:
    if not isinstance(value, str) or len(value) > most:
        raise BadRequestError(f"labels and notes are texts of at most {most} letters")
    return value


def _lanes(values: Any, name: str) -> list[str]:
    is_sound = isinstance(values, list) and len(values) <= MOST_LANES
    if not is_sound or not all(isinstance(x, str) and len(x) <= LABEL_LETTERS for x in values):
        raise BadRequestError(f"{name} is a list of ids of lanes")
    return list(dict.fromkeys(values))


class Notebook:
    """The notes of all traces of a server.

    Args:
        library: Folder whose traces have their notes beside them; None for no library.
        folder: Where the notes of other traces lie; None for the cache folder.
    """

    def __init__(self, library: Path | None, folder: Path | None = None) -> None:
        self._library = library
        self._folder = folder
        self._guard = threading.Lock()

    def _places(self, listing: Listing) -> list[Path]:
        """Return where the notes of a trace may be written, the best place first."""
        near, far = beside(listing.path), elsewhere(listing.path, self._folder)
        is_in_library = self._library is not None and listing.path.is_relative_to(self._library)
        return [near, far] if is_in_library or near.is_file() else [far]

    def read(self, listing: Listing) -> dict[str, Any]:
        """Return the notes of a trace, `EMPTY` where it has none or they are damaged."""
        found = latest(listing.path, self._folder)
        if found is not None:
            try:
                stored = json.loads(found[1])
                return {**checked(stored), "revision": int(stored["revision"])}
            except OverlaneError:
                pass
        return dict(EMPTY)

    def write(self, listing: Listing, values: Any, revision: int) -> dict[str, Any] | None:
        """Store the notes of a trace.

        Args:
            listing: The trace.
            values: As `checked` takes them.
            revision: Revision that they were made from.

        Returns:
            What is stored now, None where somebody else has written meanwhile.

        Raises:
            BadRequestError: They make no sense.
            MachineError: They cannot be written anywhere.
        """
        sound = checked(values)
        with self._guard:
            if self.read(listing)["revision"] != revision:
                return None
            stored = {**sound, "revision": revision + 1}
            for path in self._places(listing):
                if _written(path, stored):
                    return stored
        raise MachineError("the notes cannot be written; set OVERLANE_CACHE_DIR to a folder of yours")


def _written(path: Path, values: dict[str, Any]) -> bool:
    """Write a file whole or not at all; tells whether it was."""
    if path.is_symlink():
        return False
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".notes", suffix=".new")
    except OSError:
        return False
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(values, file, ensure_ascii=False, indent=1)
        Path(name).replace(path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        return False
    return True


def add_note_routes(api: Blueprint, store: TraceStore, notebook: Notebook) -> None:
    """Answer and take the notes of traces."""

    @api.get("/traces/<trace_id>/notes")
    def read(trace_id: str) -> Response:
        return jsonify(notebook.read(store.listing(trace_id)))

    @api.put("/traces/<trace_id>/notes")
    def write(trace_id: str) -> tuple[Response, int]:
        listing = store.listing(trace_id)
        if request.mimetype != "application/json":  # which pages of other sites cannot send
            raise BadRequestError("send notes as application/json")
        if request.content_length is None or request.content_length > MOST_BYTES:
            raise BadRequestError(f"notes have at most {MOST_BYTES} bytes; delete some marks")
        try:
            values = json.loads(request.get_data())
        except ValueError as error:
            raise BadRequestError(f"these notes are no JSON ({error})") from None
        revision = values.get("revision") if isinstance(values, dict) else None
        if not isinstance(revision, int):
            raise BadRequestError("send the revision that the notes were made from")
        stored = notebook.write(listing, values, revision)
        if stored is None:
            sentence = "the notes were changed elsewhere meanwhile; they are read again"
            return jsonify({**notebook.read(listing), "error": sentence}), 409
        return jsonify(stored), 200
