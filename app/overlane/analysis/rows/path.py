"""The critical path as rows: link by link, by category and by name, and the slack of what is not on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from overlane.analysis.rows.naming import Row, Rows
from overlane.analysis.rows.parts import groups

if TYPE_CHECKING:
    import numpy as np

    from overlane.analysis.study import Study

__all__ = [
    "PATH_TITLES",
    "longest_links",
    "path_by_kind",
    "path_by_name",
    "path_rows",
    "slack_counts",
    "slack_rows",
]

PATH_TITLES = {
    "operation": "device work",
    "device_wait": "the device, before it started the operation",
    "launch": "launch calls",
    "call": "other host calls",
    "host": "the host, between calls",
}
"""Kind of a link to words for it."""


def path_rows(study: Study) -> Rows:
    """Return all links of the path in order of time."""
    from overlane.analysis.critical_path import PATH_KINDS  # noqa: PLC0415 - help must answer without it

    found = study.critical_path
    columns = (found.op, found.call, found.start_ns, found.end_ns, found.kind)
    return [
        {
            "op_id": None if op < 0 else op,
            "call_id": None if call < 0 else call,
            "start_ns": start,
            "end_ns": end,
            "kind": PATH_KINDS[kind],
        }
        for op, call, start, end, kind in zip(*(column.tolist() for column in columns), strict=True)
    ]


def _link(study: Study, place: int) -> Row:
    from overlane.analysis.critical_path import PATH_KINDS  # noqa: PLC0415 - help must answer without it

    found = study.critical_path
    op, call = int(found.op[place]), int(found.call[place])
    return {
        "op_id": None if op < 0 else op,
        "call_id": None if call < 0 else call,
        "start_ns": int(found.start_ns[place]),
        "end_ns": int(found.end_ns[place]),
        "kind": PATH_KINDS[found.kind[place]],
    }


def path_by_kind(study: Study) -> Rows:
    """Return the time and the longest link of each category, the longest in all first."""
    return _sums(study, study.critical_path.kind)


def path_by_name(study: Study) -> Rows:
    """Return the time and the longest link of each category and name, the longest in all first."""
    codes, names = _names(study)
    rows = _sums(study, study.critical_path.kind.astype("int64") * len(names) + codes)
    for row in rows:
        row["name"] = names[codes[row["place"]]]
    return rows


def longest_links(study: Study, most: int) -> Rows:
    """Return the longest links with their names."""
    import numpy as np  # noqa: PLC0415 - help must answer without it

    found = study.critical_path
    codes, names = _names(study)
    order = np.argsort(found.start_ns - found.end_ns, kind="stable")[:most]
    return [_link(study, int(place)) | {"name": names[codes[place]]} for place in order]


def _sums(study: Study, codes: np.ndarray[Any, Any]) -> Rows:
    """Return a row for each code; `place` is the place of its longest link."""
    found = study.critical_path
    length = found.end_ns - found.start_ns
    total = max(int(length.sum()), 1)
    rows = []
    for which in groups(codes):
        spent = int(length[which].sum())
        place = int(which[length[which].argmax()])
        link = _link(study, place)
        rows.append(
            {
                "kind": link["kind"],
                "ns": spent,
                "fraction": spent / total,
                "count": len(which),
                "longest": link,
                "place": place,
            }
        )
    return sorted(rows, key=lambda row: -row["ns"])


def _names(study: Study) -> tuple[np.ndarray[Any, Any], list[str]]:
    """Return a number for the name of each link, and the names: of its operation, else of its call."""
    import numpy as np  # noqa: PLC0415 - help must answer without it

    from overlane.analysis.work import text_codes  # noqa: PLC0415

    found = study.critical_path
    names = ["-"]
    codes = np.zeros(len(found), np.int64)
    for table, rows in (("api_calls", found.call), ("ops", found.op)):
        known, words = text_codes(study.trace.table(table)["name"])
        is_one = rows >= 0
        here = known[rows[is_one]]
        codes[is_one] = np.where(here < 0, 0, here + len(names))
        names += words
    return codes, names


def slack_counts(study: Study) -> dict[str, int]:
    """Return how many operations have no slack, and of how many it is known."""
    import numpy as np  # noqa: PLC0415 - help must answer without it

    slack = np.asarray(study.critical_path.slack_ns)
    return {"tight_count": int((slack == 0).sum()), "known_count": int((slack >= 0).sum())}


def slack_rows(study: Study) -> Rows:
    """Return the slack of the operations of each name that touch the window, the most work first."""
    import numpy as np  # noqa: PLC0415 - help must answer without it

    slack = np.asarray(study.critical_path.slack_ns)
    start, end = study.work.start, study.work.end
    is_wanted = slack >= 0
    if study.window is not None:
        start, end = np.maximum(start, study.window[0]), np.minimum(end, study.window[1])
        is_wanted = is_wanted & (start < end)
    codes, names = study.work.names
    ops = np.flatnonzero(is_wanted)
    rows = []
    for which in groups(codes[ops]):
        mine = ops[which]
        rows.append(
            {
                "name": names[codes[mine[0]]] if codes[mine[0]] >= 0 else "-",
                "op_count": len(mine),
                "work_ns": int((end[mine] - start[mine]).sum()),
                "tight_count": int((slack[mine] == 0).sum()),
                "least_slack_ns": int(slack[mine].min()),
                "median_slack_ns": int(np.sort(slack[mine])[(len(mine) - 1) // 2]),
                "most_slack_ns": int(slack[mine].max()),
                "least_op_id": int(mine[slack[mine].argmin()]),
            }
        )
    return sorted(rows, key=lambda row: -row["work_ns"])
