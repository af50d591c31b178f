"""Who may talk to the server, and what a page may load: host names, origins, headers."""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import socket
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

from flask import Flask, Response, jsonify, request

__all__ = ["allowed_hosts", "content_security_policy", "is_loopback", "protect", "script_hash"]

_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_EVERYWHERE = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - what a user may ask for; loopback is the default


def is_loopback(host: str) -> bool:
    """Tell whether a host to bind to is reachable from this machine only."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _name_of(authority: str) -> str:
    """Return the host of `host:port`, lower case, without brackets; empty when it makes no sense."""
    if any(sign in authority for sign in "@/\\?#"):  # a name of a user, a path: no browser sends them here
        return ""
    try:
        return (urlsplit(f"//{authority}").hostname or "").lower()
    except ValueError:
        return ""


def _authority_of(origin: str) -> str:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


def allowed_hosts(host: str) -> Callable[[str], bool]:
    """Return the test that a request's `Host` must pass.

    A page of another site can make a browser send requests here under the site's own name (DNS rebinding).
    Loopback names and the bound host are allowed; a server bound to every address also answers to this
    machine's name and to addresses written as numbers, which no other site's page can claim as its own.

    Args:
        host: Host that the server is bound to.
    """
    names = set(_LOOPBACK_NAMES) | {host.strip("[]").lower()}
    is_everywhere = host in _EVERYWHERE
    if is_everywhere:
        names |= {socket.gethostname().lower(), socket.getfqdn().lower()}

    def is_allowed(authority: str) -> bool:
        name = _name_of(authority)
        if name in names and name:
            return True
        if not is_everywhere:
            return False
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    return is_allowed


def script_hash(script: str) -> str:
    """Return the policy source that allows exactly this inline script."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def content_security_policy(script_hashes: Sequence[str]) -> str:
    """Return the policy of all pages: everything from this server, inline scripts by their hash.

    Styles may stand inline, since Mantine, Plotly and the figures write them; scripts may not.
    """
    return "; ".join(
        (
            "default-src 'none'",
            "script-src 'self' " + " ".join(script_hashes),
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data: blob:",
            "font-src 'self' data:",
            "connect-src 'self'",
            "worker-src 'self' blob:",
            "base-uri 'self'",
            "form-action 'self'",
            "frame-ancestors 'self'",
        )
    )


def protect(server: Flask, *, host: str, policy: Callable[[], str]) -> None:
    """Refuse requests under foreign names and give every answer the security headers.

    Args:
        server: The Flask server.
        host: Host that the server is bound to.
        policy: Gives the content security policy; asked with each answer, since Dash adds its scripts late.
    """
    is_allowed = allowed_hosts(host)

    @server.before_request
    def refuse_foreign_names() -> tuple[Response, int] | None:
        origin = request.headers.get("Origin")
        came_under = request.headers.get("Host", "")
        if is_allowed(came_under) and (origin is None or is_allowed(_authority_of(origin))):
            return None
        sentence = (
            f"this server does not answer under the name {came_under[:80]!r}; open it under 127.0.0.1"
            if not is_allowed(came_under)
            else f"pages of {(origin or '')[:80]!r} may not talk to this server; open it directly"
        )
        return jsonify({"error": sentence}), 403

    @server.after_request
    def add_headers(response: Response) -> Response:
        response.headers.setdefault("X-Content-Type-Options", "nosniff")
        response.headers.setdefault("Referrer-Policy", "same-origin")
        response.headers.setdefault("X-Frame-Options", "SAMEORIGIN")
        response.headers.setdefault("Cross-Origin-Resource-Policy", "same-origin")
        response.headers.setdefault("Content-Security-Policy", policy())
        if request.path.startswith("/api/"):
            response.headers.setdefault("Cache-Control", "no-store")
        return response
