"""The routes of causes: the state of their computation, one operation's wait, barriers, the critical path."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flask import Blueprint, Response, jsonify, request

from overlane.ui import asked
from overlane.ui.chain import DrawnPath, path_step
from overlane.ui.reasons import Reasons, barriers_json, op_json, reasons_json

if TYPE_CHECKING:
    from overlane.cache import OpenedTrace
    from overlane.ui.store import TraceStore

__all__ = ["add_reason_routes", "path_asked_for"]

MAX_BARRIERS = 500
"""Barriers of one answer; the costliest of the window."""


def path_asked_for(store: TraceStore, opened: OpenedTrace, trace_id: str) -> DrawnPath:
    """Return the critical path of the window that the address asks for, of the whole trace without one.

    Raises:
        NotReadyError: It is being computed.
    """
    window = None
    if "from" in request.args:
        window = (asked.whole("from", low=0, high=2**62), asked.whole("to", low=0, high=2**62))
        if window[1] <= window[0]:
            raise asked.BadRequestError(f"to must be later than from, not {window[1]} after {window[0]}")
    is_view = request.args.get("passing") == "1"
    # Its dependencies are those of the causes, which are computed first and once.
    if store.reasons.get(opened, asked.rank(opened)) is None:
        raise asked.NotReadyError(store.listing(trace_id), what="the causes of")
    found = store.paths.get(opened, asked.rank(opened), window, is_view=is_view)
    if found is None:
        raise asked.NotReadyError(store.listing(trace_id), what="the critical path of")
    return found


def add_reason_routes(api: Blueprint, store: TraceStore) -> None:
    """Answer why operations waited and streams were idle."""
    reasons_of = store.reasons

    def reasons(trace_id: str) -> Reasons:
        opened = asked.opened_trace(store, trace_id)
        found = reasons_of.get(opened, asked.rank(opened))
        if found is None:
            raise asked.NotReadyError(store.listing(trace_id), what="the causes of")
        return found

    @api.get("/traces/<trace_id>/reasons")
    def state(trace_id: str) -> Response | tuple[Response, int]:
        opened = asked.opened_trace(store, trace_id)
        found = reasons_of.get(opened, asked.rank(opened))
        if found is None:
            return jsonify({"schema": 1, "state": "computing"}), 202
        return jsonify(reasons_json(found))

    @api.get("/traces/<trace_id>/reasons/op")
    def op(trace_id: str) -> Response:
        return jsonify(op_json(reasons(trace_id), asked.whole("op", low=0, high=2**40)))

    @api.get("/traces/<trace_id>/reasons/path")
    def path(trace_id: str) -> Response:
        by = asked.whole("by", low=-1, high=1)
        if by == 0:
            raise asked.BadRequestError("by is 1 for the next link, -1 for the one before")
        at_ns = asked.whole("at", low=-(2**62), high=2**62)
        selected = None
        if "table" in request.args:
            selected = (request.args["table"], asked.whole("row", low=0, high=2**40))
        place = asked.whole("place", low=0, high=2**40) if "place" in request.args else None
        drawn = path_asked_for(store, asked.opened_trace(store, trace_id), trace_id)
        link = path_step(drawn.path, by, at_ns, selected=selected, place=place)
        return jsonify({"schema": 1, "link": link})

    @api.get("/traces/<trace_id>/barriers")
    def barriers(trace_id: str) -> Response:
        t0 = asked.whole("t0", low=-(2**62), high=2**62)
        t1 = asked.whole("t1", low=-(2**62), high=2**62)
        limit = asked.whole("limit", low=1, high=MAX_BARRIERS) if "limit" in request.args else 100
        return jsonify(barriers_json(reasons(trace_id), t0, t1, limit=limit))
