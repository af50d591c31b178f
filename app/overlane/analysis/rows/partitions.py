"""Partitions as rows, how critical streams waited for room, and what the trace cannot say of them."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from overlane.analysis.rows.naming import Rows

if TYPE_CHECKING:
    from overlane.analysis.study import Study

__all__ = ["isolation_json", "isolation_rows", "partition_rows", "unproven_of_partitions"]


def partition_rows(study: Study) -> Rows:
    """Return what each partition was given and did."""
    return [dataclasses.asdict(part) for part in study.partitions]


def isolation_rows(study: Study) -> Rows:
    """Return how the kernels of each critical stream waited for room."""
    return [dataclasses.asdict(each) for each in study.isolation]


def isolation_json(study: Study) -> dict[str, Any]:
    """Return the keys of the JSON beside the partitions."""
    return {"isolation": isolation_rows(study), "partitions_unproven": unproven_of_partitions(study)}


def unproven_of_partitions(study: Study) -> list[dict[str, str]]:
    """Name what the trace cannot say of its partitions, each with the capability that is missing."""
    from overlane.analysis.proof import why_unproven  # noqa: PLC0415 - help must answer without it

    if not study.partitions:
        return [{"capability": "partitions", "reason": why_unproven(study.trace, "partitions") or ""}]
    found = []
    for name in ("tpc_masks", "block_placement"):
        reason = why_unproven(study.trace, name)
        if reason and any(part.is_green for part in study.partitions):
            found.append({"capability": name, "reason": reason})
    return found
