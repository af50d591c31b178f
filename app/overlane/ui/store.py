"""The traces that the dashboard may show: those named at start and those of the library folder.

Traces are opened one after the other in a background thread, each through the cache of indexes. A file that
cannot be read is remembered with its sentence and never hides the others.
"""

from __future__ import annotations

import itertools
import queue
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from overlane.errors import NotInLibraryError, OverlaneError
from overlane.ui.chain import Paths
from overlane.ui.facts import TraceFacts, trace_facts
from overlane.ui.naming import enumerated, short_name, slug
from overlane.ui.precompile import Precompiler
from overlane.ui.reasons import ReasonsStore
from overlane.ui.studies import Studies

if TYPE_CHECKING:
    from overlane.cache import OpenedTrace, TraceCache

__all__ = ["Listing", "State", "TraceStore", "short_name"]

State = Literal["listed", "loading", "ready", "failed"]

SUFFIXES = (".overlane", ".json", ".json.gz", ".gz", ".trace")
"""Files of the library folder that are listed; any other can still be opened by its name."""
LIBRARY_DEPTH = 4
LIBRARY_FILES = 2000
"""Bounds of a scan, so that a home folder given by mistake does not stop the page."""
_SOON, _LATER = 0, 1


@dataclass(frozen=True)
class Listing:
    """One trace as the library shows it.

    Attributes:
        trace_id: Short id used in addresses; stable while the server runs.
        name: Name to show: the file's, with its folder within the library, without the suffix.
        path: The file.
        is_named: It was given on the command line (else found in the library folder).
        state: `listed` (not opened yet), `loading`, `ready` or `failed`.
        progress: Share of the loading that is done, 0..1.
        reason: Why it failed, as a sentence; empty otherwise.
        size_bytes: Size of the file, None when it cannot be asked.
        is_changed: The file was changed on disk since it was opened; asking for it again opens it anew.
    """

    trace_id: str
    name: str
    path: Path
    is_named: bool
    state: State = "listed"
    progress: float = 0.0
    reason: str = ""
    size_bytes: int | None = None
    is_changed: bool = False


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None


def _identity(path: Path) -> tuple[int, int] | None:
    """Return what changes with a file's content: size and time of change in ns; None without a file."""
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_size, facts.st_mtime_ns


def _is_file(path: Path) -> bool:
    """Tell whether a path is a file that this user can reach; never fails."""
    try:
        return path.is_file()
    except OSError:
        return False


class TraceStore:
    """All traces of one server, by id.

    Args:
        paths: Files named by the user; they are opened in this order once `warm_up` is called.
        library: Folder whose files may be opened too; None for no library.
        cache: Cache to open through; by default the user's.
        name_of: Name to show for a named file; by default the file's name without suffixes.

    Attributes:
        studies: The analyses of its traces, one study per trace and window.
        reasons: The causes of its traces, for the timeline.
        paths: The critical paths of its traces, for the timeline.
    """

    def __init__(
        self,
        paths: Iterable[Path] = (),
        *,
        library: Path | None = None,
        cache: TraceCache | None = None,
        name_of: Callable[[Path], str] = short_name,
    ) -> None:
        self.library = library.resolve() if library is not None else None
        self._cache = cache
        self._lock = threading.Lock()
        self._listings: dict[str, Listing] = {}
        self._by_path: dict[Path, str] = {}
        self._opened: dict[str, OpenedTrace] = {}
        self._facts: dict[str, TraceFacts] = {}
        self._seen: dict[str, tuple[int, int] | None] = {}
        self._settled: dict[str, threading.Event] = {}
        self._jobs: queue.PriorityQueue[tuple[int, int, str]] = queue.PriorityQueue()
        self._ticket = itertools.count()
        self._waiting: set[str] = set()
        self._worker: threading.Thread | None = None
        self._version = 0
        self._is_closing = False
        self._precompiler = Precompiler()
        self.studies = Studies(until_compiled=self._precompiler.wait)
        self.reasons = ReasonsStore(self.studies)
        self.paths = Paths(self.studies)
        for path in paths:
            self._add(path.resolve(), name_of(path), is_named=True)
        self.rescan()

    @property
    def version(self) -> int:
        """Number that grows whenever a listing changes, so that pages can tell that nothing did."""
        return self._version

    def listings(self) -> list[Listing]:
        """Return all traces: the named ones in their order, then the library's by name."""
        with self._lock:
            found = list(self._listings.values())
        return [x for x in found if x.is_named] + sorted(
            (x for x in found if not x.is_named), key=lambda x: x.name
        )

    def full_names(self) -> dict[str, str]:
        """Return for each trace, by id and in the order of `listings`, a name that no other has.

        It is the path within the library, else the file's name, or its whole path where that is taken.
        """
        listings = self.listings()
        names = [self._name_with_suffix(x.path) for x in listings]
        counts = Counter(names)
        return {
            x.trace_id: name if counts[name] == 1 else str(x.path)
            for name, x in zip(names, listings, strict=True)
        }

    def listing(self, trace_id: str) -> Listing:
        """Return one trace's listing.

        Raises:
            NotInLibraryError: No trace has this id.
        """
        with self._lock:
            if trace_id in self._listings:
                return self._listings[trace_id]
        raise NotInLibraryError(
            f"no trace is called {trace_id!r} here; open it by its name on the library page"
        )

    def first(self) -> Listing | None:
        """Return the trace to show when none is asked for: the first named one that did not fail."""
        return next((x for x in self.listings() if x.is_named and x.state != "failed"), None)

    def is_busy(self) -> bool:
        """Tell whether a trace is being opened."""
        with self._lock:
            return any(x.state == "loading" for x in self._listings.values())

    def rescan(self) -> None:
        """Look at the files again: notice changes, add new ones of the library, drop those that went away."""
        self.notice_changes()
        if self.library is None:
            return
        found = set(itertools.islice(self._library_files(self.library, LIBRARY_DEPTH), LIBRARY_FILES))
        for path in sorted(found):
            self._add(path, self._name_in_library(path), is_named=False)
        with self._lock:
            for trace_id, listing in list(self._listings.items()):
                gone = not listing.is_named and listing.path not in found and not _is_file(listing.path)
                if gone and listing.state in {"listed", "failed"}:
                    del self._listings[trace_id], self._by_path[listing.path]
                    self._version += 1

    def notice_changes(self) -> None:
        """Mark the opened traces whose files were changed on disk since."""
        for listing in self.listings():
            if listing.state == "ready" and not listing.is_changed and self._differs(listing):
                with self._lock:
                    if self._listings.get(listing.trace_id) is listing:
                        self._listings[listing.trace_id] = replace(listing, is_changed=True)
                        self._version += 1

    def _differs(self, listing: Listing) -> bool:
        return _identity(listing.path) != self._seen.get(listing.trace_id)

    def add_by_name(self, text: str) -> Listing:
        """Return the trace that a user typed: an id, a name, or a path within the library folder.

        Raises:
            NotInLibraryError: There is no such trace, several have the name, or the path leaves the library
                folder.
        """
        wanted = text.strip()
        self.rescan()
        listings, names = self.listings(), self.full_names()
        found = [x for x in listings if names.get(x.trace_id) == wanted] or [
            x for x in listings if wanted in {x.trace_id, x.name, x.path.name}
        ]
        if len(found) > 1:
            candidates = enumerated(names.get(x.trace_id, x.name) for x in found)
            raise NotInLibraryError(
                f"{wanted!r} is the name of {len(found)} traces; type one of {candidates}"
            )
        if found:
            return found[0]
        if self.library is None:
            raise NotInLibraryError(
                f"no trace is called {wanted!r}; start the server with --library FOLDER to open its files"
            )
        path = self._inside(wanted)
        self._add(path, self._name_in_library(path), is_named=False)
        return self.listing(self._by_path[path])

    def add_file(self, path: Path) -> Listing:
        """Return the listing of a file that may be opened from now on, as if it had been named at start."""
        self._add(path, short_name(path), is_named=True)
        return self.listing(self._by_path[path])

    def request(self, trace_id: str, *, soon: bool = True) -> Listing:
        """Ask for a trace to be opened in the background and return its listing at once.

        A trace that failed is tried again, since its file may have been repaired; one whose file was changed
        on disk is opened anew.

        Raises:
            NotInLibraryError: No trace has this id.
        """
        listing = self.listing(trace_id)
        with self._lock:
            listing = self._listings[trace_id]
            if listing.state == "loading" and soon and trace_id in self._waiting:
                self._jobs.put((_SOON, next(self._ticket), trace_id))  # overtakes its own earlier place
            if listing.state == "loading" or (listing.state == "ready" and not listing.is_changed):
                return listing
            self._forget(trace_id)
            self._waiting.add(trace_id)
            listing = replace(listing, state="loading", progress=0.0, reason="", is_changed=False)
            self._listings[trace_id] = listing
            self._settled[trace_id] = threading.Event()
            self._version += 1
            self._jobs.put((_SOON if soon else _LATER, next(self._ticket), trace_id))
            if self._worker is None:
                self._worker = threading.Thread(target=self._work, name="overlane-open", daemon=True)
                self._worker.start()
        return listing

    def opened(self, trace_id: str, *, wait_s: float = 0.0) -> OpenedTrace | None:
        """Return an opened trace, or None while it is being opened.

        One that was only listed is asked for, and so is one that failed, once its file was changed.

        Args:
            trace_id: Id of the trace.
            wait_s: Seconds to wait for it.

        Raises:
            NotInLibraryError: No trace has this id.
            OverlaneError: The file could not be read; the sentence that the library shows.
        """
        listing = self.listing(trace_id)
        if listing.state == "listed" or (listing.state == "failed" and self._differs(listing)):
            self.request(trace_id)
        settled = self._settled.get(trace_id)
        if wait_s > 0 and settled is not None:
            settled.wait(wait_s)
        with self._lock:
            listing = self._listings[trace_id]
            if listing.state == "failed":
                raise OverlaneError(listing.reason)
            return self._opened.get(trace_id)

    def facts(self, trace_id: str | None) -> TraceFacts | None:
        """Return the facts of a trace, None unless it is ready."""
        with self._lock:
            return self._facts.get(trace_id) if trace_id is not None else None

    def warm_up(self) -> None:
        """Start opening the named traces, after those asked for; compiled code is loaded on the way."""
        listed = self.listings()
        asked = [x.trace_id for x in listed if x.state == "loading"]
        named = [x.trace_id for x in listed if x.is_named and x.state == "listed"]
        for trace_id in named:
            self.request(trace_id, soon=False)
        for trace_id in (asked + named)[:1]:
            self._precompiler.start(self._settled[trace_id])

    def close(self) -> None:
        """Stop opening and give up all opened traces, so that the cache may evict them."""
        self._precompiler.stop()
        with self._lock:
            self._is_closing = True
            self._waiting.clear()
            worker, self._worker = self._worker, None
        if worker is not None:
            self._jobs.put((_LATER, next(self._ticket), ""))
            worker.join()
        with self._lock:
            for trace_id in list(self._opened):
                self._forget(trace_id)
                self._listings[trace_id] = replace(self._listings[trace_id], state="listed")
            self._is_closing = False

    def _forget(self, trace_id: str) -> None:
        """Give up an opened trace, if it is one; to be called with the lock held."""
        opened = self._opened.pop(trace_id, None)
        self._facts.pop(trace_id, None)
        if opened is not None:
            opened.close()

    def _add(self, path: Path, name: str, *, is_named: bool) -> None:
        with self._lock:
            if path in self._by_path:
                return
            base = slug(name)
            numbered = (f"{base}-{n}" for n in itertools.count(2))
            trace_id = next(x for x in itertools.chain((base,), numbered) if x not in self._listings)
            self._by_path[path] = trace_id
            self._listings[trace_id] = Listing(trace_id, name, path, is_named, size_bytes=_size(path))
            self._version += 1

    def _library_files(self, folder: Path, depth: int) -> Iterable[Path]:
        """Yield the real paths of files that look like traces; links that lead out are left out."""
        try:
            children = sorted(folder.iterdir())
            folders = {child for child in children if child.is_dir() and not child.is_symlink()}
        except OSError:  # it may not be listed or not be entered
            return
        for child in children:
            if child.name.startswith("."):
                continue
            if child in folders:
                if depth > 1:
                    yield from self._library_files(child, depth - 1)
            elif child.name.lower().endswith(SUFFIXES) and _is_file(child):
                path = child.resolve()
                if self.library is not None and path.is_relative_to(self.library):
                    yield path

    def _name_in_library(self, path: Path) -> str:
        if self.library is None or not path.is_relative_to(self.library):
            return short_name(path)
        return str(path.relative_to(self.library).with_name(short_name(path)))

    def _name_with_suffix(self, path: Path) -> str:
        is_inside = self.library is not None and path.is_relative_to(self.library)
        return str(path.relative_to(self.library)) if self.library and is_inside else path.name

    def _inside(self, text: str) -> Path:
        """Return the real path of a file that the user named within the library."""
        library = self.library
        if library is None or not text or "\0" in text:
            raise NotInLibraryError(
                f"{text!r} is no name of a trace; type the name of a file of the library folder"
            )
        try:
            path = (library / text).resolve()
        # Too long, no characters of file names, links in a circle.
        except (OSError, ValueError, RuntimeError):
            raise NotInLibraryError(
                f"the library folder has no file {text[:60]!r}; type the name of one of them"
            ) from None
        if not path.is_relative_to(library):
            sentence = (
                f"{text!r} lies outside the library folder {library}; copy it there or name it at start"
            )
            raise NotInLibraryError(sentence)
        if not _is_file(path):
            raise NotInLibraryError(
                f"the library folder {library} has no file {text!r}; type the name of one of them"
            )
        return path

    def _work(self) -> None:
        while True:
            _, _, trace_id = self._jobs.get()
            if not trace_id:
                return
            with self._lock:
                is_waiting = trace_id in self._waiting
                self._waiting.discard(trace_id)
            if is_waiting:
                self._open(trace_id)

    def _open(self, trace_id: str) -> None:
        listing = self.listing(trace_id)
        path = listing.path
        self._seen[trace_id] = _identity(path)
        try:
            self._check_place(listing)
            opened = self._the_cache().open(
                path, progress=lambda fraction: self._progress(trace_id, fraction)
            )
            # The first rank's index and the compiled code of a tile are made here, before the page asks.
            opened.timeline(opened.trace.ranks[0]).tile(0, max(opened.trace.span_ns, 1), 64)
            facts = trace_facts(opened.trace)
        except OverlaneError as error:
            reason = str(error).replace(str(path), path.name)  # where it lies is nobody's business
            self._settle(trace_id, state="failed", reason=reason)
        except MemoryError:
            self._settle(
                trace_id,
                state="failed",
                reason=f"{path.name} does not fit into this machine's memory; use a shorter recording",
            )
        except Exception as error:  # noqa: BLE001 - one bad file must not take the server down
            fault = f"{type(error).__name__}: {error}"
            reason = f"{path.name} could not be opened, a fault of Overlane ({fault}); please report it"
            self._settle(trace_id, state="failed", reason=reason)
        else:
            with self._lock:
                self._opened[trace_id] = opened
                self._facts[trace_id] = facts
            self._settle(trace_id, state="ready", reason="")

    def _check_place(self, listing: Listing) -> None:
        """Refuse a file of the library that became a link out of it since it was listed."""
        if listing.is_named or self.library is None:
            return
        try:
            is_inside = listing.path.resolve().is_relative_to(self.library)
        except (OSError, RuntimeError):
            is_inside = False
        if not is_inside:
            raise NotInLibraryError(
                f"{listing.path.name} leads out of the library folder now; copy it there or name it at start"
            )

    def _the_cache(self) -> TraceCache:
        if self._cache is None:
            from overlane.cache import TraceCache  # noqa: PLC0415 - compiled code is loaded in the background thread

            self._cache = TraceCache()
        return self._cache

    def _progress(self, trace_id: str, fraction: float) -> None:
        if self._is_closing:
            raise OverlaneError("the server is stopping")
        fraction = min(max(fraction, 0.0), 1.0)
        with self._lock:
            listing = self._listings[trace_id]
            if fraction - listing.progress >= 0.01:
                self._listings[trace_id] = replace(listing, progress=fraction)
                self._version += 1

    def _settle(self, trace_id: str, *, state: State, reason: str) -> None:
        with self._lock:
            self._listings[trace_id] = replace(
                self._listings[trace_id], state=state, progress=1.0, reason=reason
            )
            self._version += 1
            settled = self._settled[trace_id]
        settled.set()
