"""The routes that the canvas timeline and other clients read: JSON and the binary tiles."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from flask import Blueprint, Response, current_app, jsonify, request
from werkzeug.exceptions import HTTPException

from overlane.errors import NotInLibraryError, OverlaneError
from overlane.strict import strict
from overlane.ui import asked
from overlane.ui.api_reasons import add_reason_routes, path_asked_for
from overlane.ui.asked import BadRequestError, NotReadyError
from overlane.ui.notes import Notebook, add_note_routes
from overlane.ui.overlays import Searches
from overlane.ui.rows import column_facts, connections, unknown_columns
from overlane.ui.search import QueryError
from overlane.ui.uploads import Uploads, add_upload_routes
from overlane_collect.schema import TABLES

if TYPE_CHECKING:
    from overlane.cache import OpenedTrace
    from overlane.timeline import Timeline
    from overlane.trace import Trace
    from overlane.ui.search import Hits
    from overlane.ui.store import Listing, TraceStore

__all__ = ["create_api"]

MAX_PIXELS = 16_384
"""Widest viewport that is answered; an 8K screen has 7680 pixels."""
MAX_HITS = 1_000
"""Hits of one answer; a client asks for further ones by their offset."""


def listing_json(listing: Listing) -> dict[str, Any]:
    """Return a listing as JSON; the file's place on this machine is not part of it."""
    values = asdict(listing)
    del values["path"]
    values["id"] = values.pop("trace_id")
    return values


def create_api(store: TraceStore) -> Blueprint:
    """Return the blueprint of all routes under `/api`."""
    api = Blueprint("api", __name__, url_prefix="/api")
    _add_trace_routes(api, store)
    _add_timeline_routes(api, store, Searches(store.reasons))
    add_reason_routes(api, store)
    add_upload_routes(api, store, Uploads())
    add_note_routes(api, store, Notebook(store.library))
    _add_error_handlers(api)

    @api.route("/<path:rest>")
    def unknown(rest: str) -> tuple[Response, int]:
        return jsonify({"error": f"there is no address /api/{rest[:80]}; see /api/traces"}), 404

    return api


def _add_trace_routes(api: Blueprint, store: TraceStore) -> None:
    """Answer which traces there are and what their rows say."""

    @api.get("/traces")
    def traces() -> Response:
        store.notice_changes()
        return jsonify({"schema": 1, "traces": [listing_json(x) for x in store.listings()]})

    @api.get("/traces/<trace_id>/row")
    def row(trace_id: str) -> Response:
        opened = asked.opened_trace(store, trace_id)
        table = request.args.get("table", "")
        if table not in TABLES:
            raise BadRequestError(f"no table is called {table[:40]!r}; known: {', '.join(TABLES)}")
        row_id = asked.whole("row", low=0, high=2**62)
        place = opened.timeline(asked.rank(opened)).locate(table, row_id)
        return jsonify({**row_json(opened.trace, table, row_id), "lane": None if place is None else place[0]})


def _add_timeline_routes(api: Blueprint, store: TraceStore, searches: Searches) -> None:
    """Answer lanes, viewports and searches of one rank of a trace."""

    @api.get("/traces/<trace_id>/timeline")
    def timeline(trace_id: str) -> Response:
        opened = asked.opened_trace(store, trace_id)
        meta = opened.timeline(asked.rank(opened)).meta()
        return jsonify({**meta, "trace": trace_id, "name": store.listing(trace_id).name})

    @api.get("/traces/<trace_id>/tile")
    def tile(trace_id: str) -> Response:
        opened = asked.opened_trace(store, trace_id)
        return tile_response(overlay_of(opened, searches, store, trace_id))

    @api.get("/traces/<trace_id>/search")
    def search(trace_id: str) -> Response:
        opened = asked.opened_trace(store, trace_id)
        rank = asked.rank(opened)
        hits = searches.hits(opened, rank, asked.line())
        offset = asked.whole("offset", low=0, high=2**40) if "offset" in request.args else 0
        limit = asked.whole("limit", low=1, high=MAX_HITS) if "limit" in request.args else 100
        shown = hits_json(opened, rank, hits, offset, min(offset + limit, len(hits)))
        filled = searches.overlay(opened, rank, asked.line()).filled_wires() if len(hits) else []
        return jsonify({"schema": 1, "total": len(hits), "offset": offset, "lanes": filled, "hits": shown})


def overlay_of(opened: OpenedTrace, searches: Searches, store: TraceStore, trace_id: str) -> Timeline:
    """Return the timeline that the address asks for: the trace's, or what `layer` lays over it."""
    rank, name = asked.rank(opened), request.args.get("layer", "")
    if not name:
        return opened.timeline(rank)
    if name == "found":
        return searches.overlay(opened, rank, asked.line())
    if name == "reasons":
        reasons = store.reasons.get(opened, rank)
        if reasons is None:
            raise NotReadyError(store.listing(trace_id), what="the causes of")
        return reasons.overlay
    if name == "path":
        return path_asked_for(store, opened, trace_id).overlay
    raise BadRequestError(f"no overlay is called {name[:40]!r}; known: found, path, reasons")


def tile_response(shown: Timeline) -> Response:
    """Return what a timeline answers to the viewport of the address."""
    from overlane.timeline import encode_tile  # noqa: PLC0415 - compiled code is loaded by the store's thread

    t0 = asked.whole("t0", low=-(2**62), high=2**62)
    t1 = asked.whole("t1", low=-(2**62), high=2**62)
    if t1 <= t0:
        raise BadRequestError(f"t1 must be later than t0, not {t1} after {t0}")
    pixels = asked.whole("px", low=1, high=MAX_PIXELS)
    try:
        found = shown.tile(t0, t1, pixels, asked.lanes(request.args.get("lanes")))
    except ValueError as error:  # a lane that the trace does not have
        raise BadRequestError(str(error)) from None
    return Response(encode_tile(found), mimetype="application/octet-stream")


def _add_error_handlers(api: Blueprint) -> None:
    """Answer every error of the routes with one sentence as JSON."""

    @api.errorhandler(NotReadyError)
    def not_ready(error: NotReadyError) -> tuple[Response, int, dict[str, str]]:
        body = {"error": str(error), "state": error.listing.state, "progress": error.listing.progress}
        return jsonify(body), 503, {"Retry-After": "1"}

    @api.errorhandler(OverlaneError)
    def refused(error: OverlaneError) -> tuple[Response, int]:
        status = (
            404
            if isinstance(error, NotInLibraryError)
            else 400
            if isinstance(error, BadRequestError | QueryError)
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
    said: dict[str, Any] = strict({
        "schema": 1,
        "table": table,
        "row": row_id,
        "columns": trace.row(table, row_id),
        "attributes": trace.attributes(table, row_id),
        "facts": [asdict(fact) for fact in column_facts(trace, table, row_id)],
        "unknown": [fact.column for fact in unknown_columns(trace, table, row_id)],
        "links": [asdict(link) for link in connections(trace, table, row_id)],
    })  # fmt: skip
    return said


def hits_json(
    opened: OpenedTrace, rank: int | None, hits: Hits, first: int, end: int
) -> list[dict[str, Any]]:
    """Return some of the rows that a search found as JSON: what and where they are."""
    timeline = opened.timeline(rank)
    found = []
    for at in range(first, end):
        table, row = hits.tables[hits.table[at]], int(hits.row[at])
        values = opened.trace.table(table)
        columns = values.schema.names
        found.append({
            "table": table,
            "row": row,
            "name": timeline.word(table, row) or "",
            "start_ns": int(hits.start_ns[at]),
            "end_ns": int(hits.end_ns[at]),
            "stream": values["stream_id"][row].as_py() if "stream_id" in columns else None,
            "thread": values["thread_id"][row].as_py() if "thread_id" in columns else None,
        })  # fmt: skip
    return found
