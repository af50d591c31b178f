"""Synchronizations that wait for too much as rows, with what each cost and what to do instead."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from overlane.analysis.rows.naming import Row, Rows, op_name, stream_name
from overlane.analysis.rows.needless import held_by_syncs

if TYPE_CHECKING:
    from overlane.analysis.study import Study

__all__ = ["UNCHECKED", "checked_words", "over_strong_counts", "over_strong_rows"]

UNCHECKED = {
    "no_accesses": "no operation says what memory it reads and writes",
    "records_dropped": "the recording dropped rows, or holds no calls",
    "shared_memory": "calls share memory with other processes or with graphics",
    "not_placed": "no row tells where it, an access or a free stands in the host's order",
    "order_guessed": "the order of a stream that it covers is a guess",
    "first_wait": "the first wait for a stream also covers work from before the recording",
    "hidden_work": "work that is in no row was put into a stream",
    "other_threads": "other threads may rely on it",
    "open_hazard": "what it waits for beyond the event is unordered with an access",
}
"""Why a synchronization could not be checked, in words."""

_SCOPES = {"stream": "all of the stream", "context": "the whole context", "device": "the whole device"}
_NOTHING = "Leave it out, unless the host measures time there: nothing that was recorded needs it."


def over_strong_rows(study: Study) -> Rows:
    """Return the over-strong synchronizations whose call touches the window, the costliest first."""
    found, table = study.over_strong, study.trace.table("syncs")
    low, high = study.window or (0, study.trace.span_ns + 1)
    held = held_by_syncs(study) if len(found) else {}
    rows = []
    for place in range(len(found)):
        row = dataclasses.asdict(found.row(place))
        start, end, thread, stream = (
            table[name][row["sync_id"]].as_py() for name in ("start_ns", "end_ns", "thread_id", "stream_id")
        )
        if start < high and (end is None or end > low):
            streams = [study.stream(number) for number in row["more_streams"]]
            row |= {
                "more_streams": [one["stream_id"] for one in streams],
                "more_stream_rows": [one["stream_row"] for one in streams],
            }
            row |= {"start_ns": start, "end_ns": end, "held_ns": held.get(row["sync_id"], 0)}
            rows.append(row | {"thread_id": thread, "stream_id": stream, "change": _change(study, row)})
    return rows


def _change(study: Study, row: Row) -> str:
    """Say what to do instead."""
    op = row["op_id"]
    if op is None:
        return _NOTHING
    stream = stream_name(study.trace, study.stream(int(study.dependencies.stream_key[op])))
    return (
        f"Record an event in {stream} after {op_name(study.trace, op)}, and wait for that event"
        f" (cudaEventSynchronize) instead of for {_SCOPES[row['kind']]}."
    )


def over_strong_counts(study: Study) -> dict[str, Any]:
    """Return how many over-strong synchronizations are not listed, and how many could not be checked."""
    found = study.over_strong
    return {"over_strong_left_out": found.left_out_count, "over_strong_unchecked": found.unchecked()}


def checked_words(study: Study) -> str:
    """Say how many synchronizations were checked, and why others were not; nothing where there is none."""
    found = study.over_strong
    counts = found.unchecked()
    total = found.checked_count + sum(counts.values())
    if not total:
        return ""
    words = (
        f"{found.checked_count} of {total} synchronizations of a stream, context or device could be checked"
        " for waiting for more than is needed"
    )
    if found.checked_count and not len(found):
        words += ": none is known to"
    why = [f"{count} ({UNCHECKED[name]})" for name, count in sorted(counts.items(), key=lambda one: -one[1])]
    return f"{words}. Not checked: {', '.join(why)}." if why else f"{words}."
