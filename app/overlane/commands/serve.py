"""`overlane serve`: the dashboard on traces and a folder of the user."""

from __future__ import annotations

import _thread
import argparse
import os
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from overlane.commands.output import printable
from overlane.errors import NotInLibraryError, TraceUnreadableError

if TYPE_CHECKING:
    from overlane.ui.store import TraceStore

__all__ = ["COMMAND", "ServeCommand", "add_server_arguments"]

_LOOKED_EVERY_S = 0.2


def add_server_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare where and how to serve; `overlane demo` takes the same."""
    parser.add_argument(
        "--library",
        type=Path,
        metavar="DIR",
        help="folder whose traces can be opened in the browser too; nothing outside it can",
    )
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to bind to (default: %(default)s, this machine only)"
    )
    parser.add_argument("--port", type=_port, help="port to bind to (default: 8050, or the next free one)")
    parser.add_argument("--no-browser", action="store_true", help="print the address and open no browser")


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(
            f"a port is a number from 0 to 65535, not {text!r} (0 takes any free one)"
        )
    return int(text)


def check_library(folder: Path | None) -> None:
    """Refuse a library that is no folder.

    Raises:
        NotInLibraryError: It is missing, a file, or may not be read by this user.
    """
    if folder is None:
        return
    try:
        if not folder.is_dir():
            found = "is a file" if folder.exists() else "does not exist"
            raise NotInLibraryError(f"the library {folder} {found}; name a folder with --library")
        with os.scandir(folder):  # it may be listed
            os.stat(os.path.join(folder, "."))  # noqa: PTH116, PTH118 - and entered; a Path drops the dot
    except OSError as error:
        raise NotInLibraryError(
            f"the library {folder} cannot be read: {error.strerror or error}; "
            "change its permissions or name another folder with --library"
        ) from error


class ServeCommand:
    """Serves the dashboard on the traces named and on a library folder."""

    name = "serve"
    help = "serve the dashboard on these traces and on the files of a folder"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the traces and where to serve."""
        parser.add_argument(
            "traces",
            nargs="*",
            type=Path,
            metavar="TRACE",
            help="trace to show; one that cannot be read is listed with the reason",
        )
        add_server_arguments(parser)

    def run(self, arguments: argparse.Namespace) -> int:
        """Serve until interrupted.

        Raises:
            TraceUnreadableError: A named trace does not exist or is a folder, or the only one could not be
                read and no other was opened meanwhile; that may end a server that has already started.
            NotInLibraryError: The library is no folder.
            MachineError: The port cannot be bound.
        """
        for path in arguments.traces:
            _check_exists(path)
        check_library(arguments.library)
        if len(arguments.traces) == 1 and arguments.library is None:
            # With nothing else to show, a file of an unknown kind is better refused here than in the browser.
            from overlane.readers.registry import Registry  # noqa: PLC0415

            Registry().find(arguments.traces[0])
        from overlane.ui.links import timeline_href  # noqa: PLC0415
        from overlane.ui.server import serve  # noqa: PLC0415
        from overlane.ui.store import TraceStore  # noqa: PLC0415

        store = TraceStore(arguments.traces, library=arguments.library)
        first = store.first()
        watch = _Watch(store)
        watch.start()
        try:
            serve(
                store,
                host=arguments.host,
                port=arguments.port,
                path=timeline_href(first.trace_id) if first is not None else "/",
                opens_browser=not arguments.no_browser,
            )
        finally:
            watch.stop()
        if watch.fatal:
            raise TraceUnreadableError(watch.fatal)
        return 0


class _Watch(threading.Thread):
    """Says why named traces could not be opened, and ends a server that has nothing else to show.

    Attributes:
        fatal: Why the only trace could not be opened, once the server was told to end for that; else empty.
    """

    def __init__(self, store: TraceStore) -> None:
        super().__init__(name="overlane-watch", daemon=True)
        self.fatal = ""
        self._store = store
        self._waiting = [x.trace_id for x in store.listings() if x.is_named]
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Stop watching."""
        self._stopped.set()

    def run(self) -> None:
        """Watch until each named trace was opened or failed."""
        while self._waiting and not self._stopped.wait(_LOOKED_EVERY_S):
            for listing in [self._store.listing(trace_id) for trace_id in self._waiting]:
                if listing.state in {"ready", "failed"}:
                    self._waiting.remove(listing.trace_id)
                if listing.state == "failed":
                    self._say(listing.reason)

    def _say(self, reason: str) -> None:
        is_alone = self._store.library is None and len(self._store.listings()) == 1
        if is_alone and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self.fatal = reason
            _thread.interrupt_main()  # as Ctrl+C, which is how a server is stopped
        else:
            sys.stderr.write(printable(f"overlane: {reason}") + "\n")


def _check_exists(path: Path) -> None:
    try:
        if path.is_dir():
            raise TraceUnreadableError(
                f"{path} is a folder; name a trace in it, or show all of it with --library {path}"
            )
        if not path.exists():
            raise TraceUnreadableError(f"{path} does not exist; check the name")
    except OSError as error:  # a folder on the way may not be entered, or the name is too long
        raise TraceUnreadableError(
            f"{path} cannot be reached: {error.strerror or error}; "
            "change the permissions of its folder or check the name"
        ) from error


COMMAND = ServeCommand()
