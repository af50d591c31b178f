"""Waits as rows: by stream and cause, and how they are distributed on each stream and partition."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from overlane.analysis.rows.naming import Row, Rows
from overlane.analysis.rows.parts import groups, longest_part

if TYPE_CHECKING:
    import numpy as np

    from overlane.analysis.study import Study
    from overlane.analysis.waits import Quantiles

__all__ = ["QUANTILES", "distribution_by", "wait_distributions", "wait_rows", "wait_spreads"]

QUANTILES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 1.0)
"""Shares of the operations at which a distribution of waits is given."""


def wait_rows(study: Study) -> Rows:
    """Return a row for each stream and cause of waits, the longest in all first."""
    import numpy as np  # noqa: PLC0415 - help must answer without it

    from overlane.analysis.causes import CAUSE_NAMES  # noqa: PLC0415
    from overlane.analysis.isolation import distribution  # noqa: PLC0415

    parts = study.wait_parts
    rows = []
    for which in groups(parts.owner.astype(np.int64) * len(CAUSE_NAMES) + parts.cause):
        ops, of = np.unique(parts.op[which], return_inverse=True)
        length = parts.length_ns[which]
        spread = distribution(np.bincount(of, weights=length).astype(np.int64), ops)
        assert spread is not None  # noqa: S101 - a group has an operation
        rows.append(
            _stream(study, int(parts.owner[which[0]]))
            | {
                "cause": CAUSE_NAMES[int(parts.cause[which[0]])],
                "total_ns": int(length.sum()),
                "op_count": len(ops),
                "held_ns": parts.union_ns(which),
                "below_fit_error_ns": int(length[parts.is_below_fit_error[which]].sum()),
                "p50_ns": spread.p50_ns,
                "p90_ns": spread.p90_ns,
                "p99_ns": spread.p99_ns,
                "p999_ns": spread.p999_ns,
                "max_ns": spread.max_ns,
                "max_op_id": spread.max_op_id,
                "longest": longest_part(parts, which),
            }
        )
    return sorted(rows, key=lambda row: -row["total_ns"])


def wait_distributions(study: Study) -> dict[str, Any]:
    """Return how long operations waited, by stream, partition, name and cause."""
    return {
        "wait_distributions": [
            {"by": by}
            | dataclasses.asdict(each)
            | {"key": study.stream(each.key) if by == "stream" and isinstance(each.key, int) else each.key}
            for by in ("stream", "partition", "name", "cause")
            for each in distribution_by(study, by)
        ]
    }


def distribution_by(study: Study, by: str) -> list[Quantiles]:
    """Return how long the operations of each stream, partition, name or cause waited; none without waits."""
    found = study.waits_in_window
    has_any = len(found.op) if by == "cause" else (found.wait_ns >= 0).any()
    return found.distribution(by) if has_any else []


def wait_spreads(study: Study) -> Rows:
    """Return how long operations waited from issue to start, in more quantiles, with who had each wait.

    Rows of streams come first, then those of partitions, the longest wait first. Those operations count that
    start inside the window and whose issue is known; quantiles are observed waits (nearest rank).
    """
    import numpy as np  # noqa: PLC0415 - help must answer without it

    waits, stream_key = study.waits_in_window.wait_ns, study.dependencies.stream_key
    ops = np.flatnonzero(waits >= 0)
    streams = study.dependencies.streams
    partition = np.array([-1 if row.partition_id is None else row.partition_id for row in streams], np.int64)
    rows = []
    for which in groups(stream_key[ops]):
        own = {"scope": "stream"} | study.stream(int(stream_key[ops[which[0]]]))
        rows.append(own | _spread(waits, ops[which]))
    of = partition[stream_key[ops]] if len(streams) else stream_key[ops]
    for which in groups(of):
        if of[which[0]] >= 0:
            own = {"scope": "partition"} | study.owner("partition", int(of[which[0]]))
            rows.append(own | _spread(waits, ops[which]))
    return sorted(rows, key=lambda row: (row["scope"] == "partition", -row["max_ns"]))


def _spread(waits: np.ndarray[Any, Any], ops: np.ndarray[Any, Any]) -> Row:
    """Return the quantiles of the waits of some operations."""
    import numpy as np  # noqa: PLC0415

    order = ops[np.argsort(waits[ops], kind="stable")]
    last = len(order) - 1
    at = [min(max(int(np.ceil(share * len(order))) - 1, 0), last) for share in QUANTILES]
    return {
        "op_count": len(order),
        "quantiles": [
            {"fraction": share, "ns": int(waits[order[place]]), "op_id": int(order[place])}
            for share, place in zip(QUANTILES, at, strict=True)
        ],
        "max_ns": int(waits[order[last]]),
        "max_op_id": int(order[last]),
    }


def _stream(study: Study, owner: int) -> Row:
    known = study.stream(owner)
    return {key: known[key] for key in ("rank", "device_id", "context_id", "stream_id", "stream_row")}
