"""Traces that are dropped on the page: kept in a folder of this process, opened like any other.

What is refused, and why: names are cut to a file name of plain characters, so that no path leaves the folder;
a body has to say its length and that it is bytes, which no form of another site's page can send; sizes are
limited, one by one and together, and by what the disk has left.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import threading
import weakref
from pathlib import Path
from typing import IO, TYPE_CHECKING

from flask import Blueprint, Response, jsonify, request

from overlane.figures.units import format_bytes
from overlane.ui.asked import BadRequestError

if TYPE_CHECKING:
    from overlane.ui.store import TraceStore

__all__ = ["MAX_UPLOAD_BYTES", "Uploads", "add_upload_routes", "file_name"]

MAX_UPLOAD_BYTES = 1 << 30
"""Largest file that may be dropped; the server takes no longer body. Others are opened from the library."""
MAX_TOTAL_BYTES = 8 << 30
"""Most that all dropped files together may take while the server runs."""
LEAST_FREE_SHARE = 3
"""The disk must have this many times the file's size left: an opened trace is prepared beside it."""
_CHUNK_BYTES = 1 << 20
_LETTERS = 120


def file_name(text: str) -> str:
    r"""Return the plain file name of what a browser called a file.

    Raises:
        BadRequestError: Nothing of it can be a file's name.

    Example:
        >>> file_name("../../etc/run 1.overlane"), file_name("a\x00b.json")
        ('run 1.overlane', 'a_b.json')
    """
    last = re.split(r"[/\\]", text)[-1]
    name = re.sub(r"[^\w.()+ -]", "_", last)[-_LETTERS:].strip(" .")
    if not name:
        raise BadRequestError(f"{text[:40]!r} is no name of a file; rename it and drop it again")
    return name


class Uploads:
    """The folder of dropped files; it goes away with the process.

    Args:
        folder: Where to keep them; None for a temporary folder.
        total_bytes: Most that all of them may take.
    """

    def __init__(self, folder: Path | None = None, *, total_bytes: int = MAX_TOTAL_BYTES) -> None:
        self._folder = folder
        self._total_bytes = total_bytes
        self._taken_bytes = 0
        self._guard = threading.Lock()

    def _place(self, name: str) -> Path:
        """Return a path that no file has; each one lies in a folder of its own."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="overlane-dropped-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        return Path(tempfile.mkdtemp(dir=self._folder)) / name

    def check(self, size_bytes: int) -> None:
        """Refuse a file that is too large.

        Raises:
            BadRequestError: It is empty, above the limit, or the disk or all files together are full.
        """
        if size_bytes <= 0:
            raise BadRequestError("the file is empty; drop a trace")
        if size_bytes > MAX_UPLOAD_BYTES:
            raise BadRequestError(
                f"the file has {format_bytes(size_bytes)}, at most {format_bytes(MAX_UPLOAD_BYTES)} can be "
                "dropped; put it into the library folder and open it there"
            )
        if self._taken_bytes + size_bytes > self._total_bytes:
            raise BadRequestError(
                f"the files dropped so far leave no room below {format_bytes(self._total_bytes)}; "
                "start the server anew or put the file into the library folder"
            )

    def keep(self, name: str, size_bytes: int, body: IO[bytes]) -> Path:
        """Write a file from a stream and return its path.

        Args:
            name: File name, as `file_name` gives it.
            size_bytes: Length that the body must have.
            body: Where it is read from.

        Raises:
            BadRequestError: It is too large, or the body ends early, as when the browser cancels.
        """
        self.check(size_bytes)
        with self._guard:
            path = self._place(name)
            free = shutil.disk_usage(path.parent).free
            if free < LEAST_FREE_SHARE * size_bytes:
                raise BadRequestError(
                    f"the disk of the server has {format_bytes(free)} left, too little to prepare a trace of "
                    f"{format_bytes(size_bytes)}; free some space"
                )
            self._taken_bytes += size_bytes
        try:
            self._write(path, size_bytes, body)
        except BaseException:
            shutil.rmtree(path.parent, ignore_errors=True)
            with self._guard:
                self._taken_bytes -= size_bytes
            raise
        return path

    @staticmethod
    def _write(path: Path, size_bytes: int, body: IO[bytes]) -> None:
        left = size_bytes
        with path.open("xb") as file:
            while left and (chunk := body.read(min(_CHUNK_BYTES, left))):
                file.write(chunk)
                left -= len(chunk)
        if left:
            raise BadRequestError(f"{left} of {size_bytes} bytes did not arrive; drop the file again")


def add_upload_routes(api: Blueprint, store: TraceStore, uploads: Uploads) -> None:
    """Take dropped files."""

    @api.post("/traces")
    def take() -> tuple[Response, int]:
        # A page of another site can post forms and text without asking, but not bytes.
        if request.mimetype != "application/octet-stream":
            raise BadRequestError("send the file as application/octet-stream, with its length")
        size = request.content_length
        if size is None:
            raise BadRequestError("the file is empty or does not say its length; drop a trace")
        name = file_name(request.args.get("name", ""))
        path = uploads.keep(name, size, request.stream)
        listing = store.add_file(path.resolve())
        return jsonify({"schema": 1, "id": listing.trace_id, "name": listing.name}), 201
