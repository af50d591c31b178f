"""Small traces for the timeline's tests, from rows written as dictionaries."""

from __future__ import annotations

import tempfile
from pathlib import Path

from overlane.tables import table_from_columns
from overlane.timeline import Timeline
from overlane.validation import validate
from overlane_collect.model import Header
from overlane_collect.schema import TABLES

DEFAULTS = {
    "ops": {"kind": "kernel", "name": "k"},
    "api_calls": {"api": "runtime", "name": "cudaLaunchKernel"},
    "syncs": {"sync_kind": "device"},
    "ranges": {"track": "annotation", "name": "step"},
    "instants": {"name": "mark"},
    "counters": {"track": "power"},
    "overheads": {"kind": "CUPTI_OVERHEAD"},
    "threads": {},
    "streams": {},
    "devices": {},
    "partitions": {},
    "blocks": {},
    "collectives": {"collective": "allreduce"},
}


def make_trace(name="made", header=None, **tables):
    """Return a validated trace; each argument is a table's list of rows, in any order."""
    made = {}
    for table, rows in tables.items():
        columns = {c.name for c in TABLES[table].columns}
        full = [{**DEFAULTS[table], **row} for row in rows]
        used = {c for row in full for c in row}
        assert used <= columns
        made[table] = table_from_columns(table, {c: [row.get(c) for row in full] for c in sorted(used)})
    return validate(name, header or Header("test"), made)


def open_timeline(trace, rank=None):
    """Return the timeline of one rank, built in a folder that stays mapped after it is gone."""
    with tempfile.TemporaryDirectory() as folder:
        Timeline.build(trace, rank, Path(folder))
        return Timeline.open(trace, rank, Path(folder))


def lane(timeline, lane_id):
    """Return the description of one lane."""
    return next(each for each in timeline.meta()["lanes"] if each["id"] == lane_id)


def tree(timeline):
    """Return the lanes as text, one `group path / label (rows)` each, in drawing order."""
    meta = timeline.meta()
    groups = {group["id"]: group for group in meta["groups"]}

    def path(group_id):
        group = groups[group_id]
        above = path(group["parent"]) if group["parent"] else []
        return [*above, group["label"]]

    return [
        " / ".join([*path(each["group"]), each["label"]]) + f" ({each['rows']})" for each in meta["lanes"]
    ]
