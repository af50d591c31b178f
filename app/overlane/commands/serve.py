"""`overlane serve`: the dashboard on traces and a folder of the user."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from overlane.errors import NotInLibraryError, TraceUnreadableError

__all__ = ["COMMAND", "ServeCommand", "add_server_arguments"]


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
            TraceUnreadableError: A named trace does not exist, is a folder, or the only one cannot be read.
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
        serve(
            store,
            host=arguments.host,
            port=arguments.port,
            path=timeline_href(first.trace_id) if first is not None else "/",
            opens_browser=not arguments.no_browser,
        )
        return 0


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
