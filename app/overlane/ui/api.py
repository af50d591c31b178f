"""The routes that the canvas timeline and other clients read: JSON and the binary tiles."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from flask import Blueprint, Response, current_app, jsonify, request
from werkzeug.exceptions import HTTPException

from overlane.errors import NotInLibraryError, OverlaneError
from overlane.ui.rows import column_facts, connections, unknown_columns
from overlane_collect.schema import TABLES

if TYPE_CHECKING:
    from overlane.cache import OpenedTrace
    from overlane.trace import Trace
    from overlane.ui.store import Listing, TraceStore

__all__ = ["create_api", "rank_of"]

MAX_PIXELS = 16_384
"""Widest viewport that is answered; an 8K screen has 7680 pixels."""
MAX_LANE = 65_535
_LANE_DIGITS = 20
_WAIT_S = 2.0


class _NotReadyError(Exception):
    """The trace is being opened; the client asks again."""

    def __init__(self, listing: Listing) -> None:
        super().__init__(
            f"{listing.name} is being opened ({round(100 * listing.progress)} %); ask again in a moment"
        )
        self.listing = listing


class _BadRequestError(OverlaneError):
    """A parameter of the address makes no sense."""


def _whole(name: str, *, low: int, high: int) -> int:
    text = request.args.get(name, "")
    try:
        value = int(text)
    except ValueError:
        raise _BadRequestError(f"{name} must be a whole number, not {text[:40]!r}") from None
    if not low <= value <= high:
        raise _BadRequestError(f"{name} must lie from {low} to {high}, not {text[:40]}")
    return value


def _lanes(text: str | None) -> list[int] | None:
    """Read wire lanes as in `0-12,15`; nothing asks for all."""
    if not text:
        return None
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not first.isdecimal() or (last and not last.isdecimal()):
            raise _BadRequestError(f"lanes must read like 0-12,15, not {text[:60]!r}")
        # Python refuses to read numbers of thousands of digits, in words of its own.
        low, high = (
            int(each) if len(each) <= _LANE_DIGITS else MAX_LANE + 1 for each in (first, last or first)
        )
        if low > high or high > MAX_LANE:
            raise _BadRequestError(f"lanes must rise and stay below {MAX_LANE + 1}, not {part[:40]!r}")
        found.extend(range(low, high + 1))
        if len(found) > MAX_LANE:
            raise _BadRequestError("lanes repeat themselves; name each lane once")
    return found


def rank_of(trace: Trace, wanted: int | None) -> int | None:
    """Return the rank to show: the one asked for, or the trace's first.

    Raises:
        OverlaneError: The trace has no such rank.
    """
    if wanted is None:
        return trace.ranks[0]
    if wanted not in trace.ranks:
        known = ", ".join("none named" if rank is None else str(rank) for rank in trace.ranks)
        raise _BadRequestError(f"{trace.name} has no rank {wanted}; it has: {known}")
    return wanted


def _rank(opened: OpenedTrace) -> int | None:
    text = request.args.get("rank")
    return rank_of(
        opened.trace, None if text in {None, "", "null"} else _whole("rank", low=0, high=2**31 - 1)
    )


def listing_json(listing: Listing) -> dict[str, Any]:
    """Return a listing as JSON; the file's place on this machine is not part of it."""
    values = asdict(listing)
    del values["path"]
    values["id"] = values.pop("trace_id")
    return values


def create_api(store: TraceStore) -> Blueprint:
    """Return the blueprint of all routes under `/api`."""
    api = Blueprint("api", __name__, url_prefix="/api")

    def ready(trace_id: str) -> OpenedTrace:
        opened = store.opened(trace_id, wait_s=_WAIT_S)
        if opened is None:
            raise _NotReadyError(store.listing(trace_id))
        return opened

    @api.get("/traces")
    def traces() -> Response:
        store.notice_changes()
        return jsonify({"schema": 1, "traces": [listing_json(x) for x in store.listings()]})

    @api.get("/traces/<trace_id>/timeline")
    def timeline(trace_id: str) -> Response:
        opened = ready(trace_id)
        meta = opened.timeline(_rank(opened)).meta()
        return jsonify({**meta, "trace": trace_id, "name": store.listing(trace_id).name})

    @api.get("/traces/<trace_id>/tile")
    def tile(trace_id: str) -> Response:
        from overlane.timeline import encode_tile  # noqa: PLC0415 - compiled code is loaded by the store's thread

        opened = ready(trace_id)
        t0 = _whole("t0", low=-(2**62), high=2**62)
        t1 = _whole("t1", low=-(2**62), high=2**62)
        if t1 <= t0:
            raise _BadRequestError(f"t1 must be later than t0, not {t1} after {t0}")
        pixels = _whole("px", low=1, high=MAX_PIXELS)
        timeline = opened.timeline(_rank(opened))
        try:
            found = timeline.tile(t0, t1, pixels, _lanes(request.args.get("lanes")))
        except ValueError as error:  # a lane that the trace does not have
            raise _BadRequestError(str(error)) from None
        return Response(encode_tile(found), mimetype="application/octet-stream")

    @api.get("/traces/<trace_id>/row")
    def row(trace_id: str) -> Response:
        opened = ready(trace_id)
        table = request.args.get("table", "")
        if table not in TABLES:
            raise _BadRequestError(f"no table is called {table[:40]!r}; known: {', '.join(TABLES)}")
        row_id = _whole("row", low=0, high=2**62)
        place = opened.timeline(_rank(opened)).locate(table, row_id)
        return jsonify({**row_json(opened.trace, table, row_id), "lane": None if place is None else place[0]})

    _add_error_handlers(api)

    @api.route("/<path:rest>")
    def unknown(rest: str) -> tuple[Response, int]:
        return jsonify({"error": f"there is no address /api/{rest[:80]}; see /api/traces"}), 404

    return api


def _add_error_handlers(api: Blueprint) -> None:
    """Answer every error of the routes with one sentence as JSON."""

    @api.errorhandler(_NotReadyError)
    def not_ready(error: _NotReadyError) -> tuple[Response, int, dict[str, str]]:
        body = {"error": str(error), "state": error.listing.state, "progress": error.listing.progress}
        return jsonify(body), 503, {"Retry-After": "1"}

    @api.errorhandler(OverlaneError)
    def refused(error: OverlaneError) -> tuple[Response, int]:
        status = (
            404
            if isinstance(error, NotInLibraryError)
            else 400
            if isinstance(error, _BadRequestError)
            else 422
        )
        return jsonify({"error": str(error)}), status

    @api.errorhandler(IndexError)
    def no_such_row(error: IndexError) -> tuple[Response, int]:
        return jsonify({"error": str(error)}), 404

    @api.errorhandler(Exception)
    def fault(error: Exception) -> tuple[Response, int]:
        current_app.logger.error("a request failed", exc_info=error)
        sentence = (
            f"a fault of Overlane ({type(error).__name__}); please report it with what the server printed"
        )
        return jsonify({"error": sentence}), 500

    # Of the whole application, since an address that is asked in a wrong way belongs to no blueprint yet.
    @api.app_errorhandler(HTTPException)
    def refused_by_flask(error: HTTPException) -> HTTPException | tuple[Response, int, dict[str, str]]:
        if not request.path.startswith("/api/"):
            return error
        kept = {name: value for name, value in error.get_headers() if name == "Allow"}
        sentence = f"{request.method} {request.path[:80]} is refused ({error.name}); see /api/traces"
        return jsonify({"error": sentence}), error.code or 500, kept


def row_json(trace: Trace, table: str, row_id: int) -> dict[str, Any]:
    """Return all that the trace says of one row: its columns, attributes, words for them, connected rows."""
    return {
        "schema": 1,
        "table": table,
        "row": row_id,
        "columns": trace.row(table, row_id),
        "attributes": trace.attributes(table, row_id),
        "facts": [asdict(fact) for fact in column_facts(trace, table, row_id)],
        "unknown": [fact.column for fact in unknown_columns(trace, table, row_id)],
        "links": [asdict(link) for link in connections(trace, table, row_id)],
    }
