"""Make the dashboard and serve it."""

from __future__ import annotations

import errno
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

import dash
from dash.exceptions import DependencyException
from flask import Flask, Response, jsonify

from overlane.errors import MachineError
from overlane.ui import shell
from overlane.ui.api import create_api
from overlane.ui.pages import PAGES
from overlane.ui.security import content_security_policy, is_loopback, protect, script_hash

if TYPE_CHECKING:
    from overlane.ui.store import TraceStore

__all__ = ["create_app", "serve"]

DEFAULT_PORT = 8050
_PORTS_TRIED = 20
_OPEN_FILES = 65_536
_THREADS = 8
"""A page asks for tiles, details and progress at once; compiled queries release the interpreter."""


def create_app(store: TraceStore, *, host: str = "127.0.0.1") -> dash.Dash:
    """Return the dashboard over the traces of a store, ready to be served.

    Args:
        store: The traces.
        host: Host that the server will be bound to; requests under other names are refused.
    """
    server = Flask("overlane", static_folder=None)
    app = dash.Dash(
        "overlane.ui",
        server=server,  # type: ignore[arg-type]  # Dash takes a Flask server, its annotation forgot it
        title="Overlane",
        update_title="",
        serve_locally=True,
        include_assets_files=True,
        index_string=shell.INDEX,
        on_error=shell.report_fault,
    )
    server.register_blueprint(create_api(store))
    app.layout = lambda: shell.layout(store)
    shell.register(app, store)
    for page in PAGES:
        page.register(app, store)

    @cache
    def policy() -> str:
        return content_security_policy([*app.csp_hashes(), script_hash(shell.THEME_SCRIPT)])

    protect(server, host=host, policy=policy)
    server.register_error_handler(DependencyException, _no_such_file)
    return app


def _no_such_file(_error: Exception) -> tuple[Response, int]:
    """Answer for a file that Dash does not serve, where it raises an error of its own."""
    return jsonify({"error": "there is no such file; open the start page"}), 404


def serve(
    store: TraceStore,
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    path: str = "/",
    opens_browser: bool = True,
    say: Callable[[str], None] | None = None,
) -> None:
    """Serve the dashboard until it is interrupted.

    Args:
        store: The traces; the named ones are opened in the background from now on.
        host: Address to bind to.
        port: Port to bind to; None takes 8050 or the next free one.
        path: Page to open, with its query.
        opens_browser: Open the user's browser once the server answers.
        say: Prints one line for the user; by default to standard output.

    Raises:
        MachineError: The port is in use or may not be bound.
    """
    say = say or _print_line
    from waitress.server import create_server  # noqa: PLC0415 - tests of the app do without it

    listener = _bind(host, port)
    app = create_app(store, host=host)
    _allow_many_files()
    server = create_server(
        app.server,
        sockets=[listener],
        threads=_THREADS,
        ident="overlane",
        clear_untrusted_proxy_headers=True,
        asyncore_use_poll=True,  # `select` fails from the 1024th open file on; mapped files are open
    )
    try:
        address = _announce(say, host, port, listener.getsockname()[1], path)
        store.warm_up()
        if opens_browser:
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
        server.run()
    except KeyboardInterrupt:  # Ctrl+C is how a server is stopped, not a failure
        pass
    finally:
        server.close()
        store.close()


def _announce(say: Callable[[str], None], host: str, wanted: int | None, port: int, path: str) -> str:
    """Say where the server is and what to know about that; returns the address to open."""
    shown = "127.0.0.1" if host in {"0.0.0.0", "::", ""} else f"[{host}]" if ":" in host else host  # noqa: S104
    if wanted is None and port != DEFAULT_PORT:
        say(f"Port {DEFAULT_PORT} is in use, so this is port {port}.")
    if not is_loopback(host):
        say(f"Warning: bound to {host}, so whoever reaches this machine can read the traces.")
    address = f"http://{shown}:{port}{path}"
    say(f"Overlane is at {address} (stop it with Ctrl+C)")
    return address


def _print_line(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _allow_many_files() -> None:
    """Raise the number of files that may be open: each mapped part of an opened trace is one."""
    try:
        import resource  # noqa: PLC0415 - not on every system
    except ImportError:
        return
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if most == resource.RLIM_INFINITY else min(_OPEN_FILES, most)
    if allowed != resource.RLIM_INFINITY and allowed < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def _bind(host: str, port: int | None) -> socket.socket:
    """Return a socket bound to the port asked for, else to the first free one from the default port on."""
    ports = [port] if port is not None else list(range(DEFAULT_PORT, DEFAULT_PORT + _PORTS_TRIED))
    for candidate in ports:
        try:
            return _bound_socket(host, candidate)
        except OSError as error:
            if error.errno == errno.EADDRINUSE and port is None:
                continue
            raise MachineError(_why_not(host, candidate, error)) from None
    raise MachineError(
        f"ports {ports[0]} to {ports[-1]} of {host} are all in use; name a free one with --port"
    )


def _bound_socket(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    bound = socket.socket(family, kind, protocol)
    try:
        # A server that was just stopped leaves connections that would hold its port for a minute.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError:
        bound.close()
        raise
    return bound


def _why_not(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} of {host} is in use; stop the program that has it or choose another with --port"
    if error.errno in {errno.EACCES, errno.EPERM}:
        return f"port {port} of {host} may not be bound by this user; choose one above 1023 with --port"
    if error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
        return f"this machine has no address {host!r}; use --host 127.0.0.1, or 0.0.0.0 for all its addresses"
    reason = error.strerror or str(error)
    return f"port {port} of {host} cannot be bound ({reason}); choose another with --host or --port"
