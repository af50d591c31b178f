"""The report's sections on causes: why operations waited, why streams, partitions and devices idled."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from overlane.commands.report.naming import cut, device_name, partition_name, stream_name
from overlane.commands.report.section import (
    Block,
    Columns,
    Row,
    Rows,
    Section,
    Table,
    fraction,
    ns,
    plain,
    share,
)

if TYPE_CHECKING:
    import numpy as np

    from overlane.analysis.parts import Parts
    from overlane.analysis.study import Study
    from overlane.analysis.waits import Quantiles

__all__ = ["SECTIONS"]

_SHOWN = 15
_NAMED = 8
_EARLY = (
    "Of all the time between issue and start of operations. What is issued early waits long without harm: "
    "look at what else than the order of its own stream it waited for."
)
_SCOPES = ("device", "partition", "stream")


def _wait_rows(study: Study) -> Rows:
    import numpy as np  # noqa: PLC0415 - help must answer without it

    from overlane.analysis.causes import CAUSE_NAMES  # noqa: PLC0415
    from overlane.analysis.isolation import distribution  # noqa: PLC0415

    parts = study.wait_parts
    rows = []
    for which in _groups(parts.owner.astype(np.int64) * len(CAUSE_NAMES) + parts.cause):
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
                "longest": _longest(parts, which),
            }
        )
    return sorted(rows, key=lambda row: -row["total_ns"])


def _distributions(study: Study) -> dict[str, Any]:
    """Return how long operations waited, by stream, partition, name and cause."""
    return {
        "wait_distributions": [
            {"by": by}
            | dataclasses.asdict(each)
            | {"key": study.stream(each.key) if by == "stream" and isinstance(each.key, int) else each.key}
            for by in ("stream", "partition", "name", "cause")
            for each in _distribution(study, by)
        ]
    }


def _distribution(study: Study, by: str) -> list[Quantiles]:
    found = study.waits_in_window
    has_any = len(found.op) if by == "cause" else (found.wait_ns >= 0).any()
    return found.distribution(by) if has_any else []


def _idle_rows(study: Study) -> Rows:
    from overlane.analysis.causes import CAUSE_NAMES  # noqa: PLC0415

    rows = []
    for scope in _SCOPES:
        parts = study.idle_parts(scope)
        scoped = []
        for which in _groups(parts.owner):
            mine = parts.take(which)
            by_cause = {CAUSE_NAMES[int(mine.cause[group[0]])]: group for group in _groups(mine.cause)}
            spent = {cause: int(mine.length_ns[group].sum()) for cause, group in by_cause.items()}
            spent = dict(sorted(spent.items(), key=lambda item: -item[1]))
            scoped.append(
                {"scope": scope}
                | study.owner(scope, int(parts.owner[which[0]]))
                | {
                    "idle_ns": sum(spent.values()),
                    "causes": spent,
                    "below_fit_error_ns": int(mine.length_ns[mine.is_below_fit_error].sum()),
                    "longest": {cause: _longest(mine, by_cause[cause]) for cause in spent},
                }
            )
        rows += sorted(scoped, key=lambda row: -row["idle_ns"])
    return rows


def _groups(codes: np.ndarray[Any, Any]) -> Iterator[np.ndarray[Any, Any]]:
    """Yield the rows of each code, in the order of the codes."""
    import numpy as np  # noqa: PLC0415

    order = np.argsort(codes, kind="stable")
    yield from (rows for rows in np.split(order, np.flatnonzero(np.diff(codes[order])) + 1) if len(rows))


def _stream(study: Study, owner: int) -> Row:
    known = study.stream(owner)
    return {key: known[key] for key in ("rank", "device_id", "context_id", "stream_id", "stream_row")}


def _longest(parts: Parts, which: np.ndarray[Any, Any]) -> Row:
    """Return the longest of some parts with the rows that prove it."""
    part = int(which[parts.length_ns[which].argmax()])
    table, row = parts.proof(part)
    return {
        "start_ns": int(parts.start_ns[part]),
        "end_ns": int(parts.end_ns[part]),
        "op_id": _known(parts.op[part]),
        "proof_table": table,
        "proof_row": row,
        "call_id": _known(parts.call_row[part]),
        "range_id": _known(parts.range_row[part]),
    }


def _known(row: Any) -> int | None:
    return None if row < 0 else int(row)


def _wait_text(study: Study, rows: Rows) -> list[Block]:
    from overlane.analysis.proof import why_unproven  # noqa: PLC0415

    total = sum(row["total_ns"] for row in rows)
    if not total:
        reason = why_unproven(study.trace, "launch_times")
        return [reason or "No operation waited."]
    lines = [
        row | {"fraction": fraction(row["total_ns"], total), "who": stream_name(study.trace, row)}
        for row in rows
    ]
    below = sum(row["below_fit_error_ns"] for row in rows)
    blocks: list[Block] = [
        _EARLY,
        Table(lines, _WAITS, _SHOWN),
    ]
    kernels = [dataclasses.asdict(each) for each in _distribution(study, "name")]
    kernels.sort(key=lambda row: -row["p99_ns"])
    blocks += ["Whole waits by name, the longest P99 first:", Table(kernels, _BY_NAME, _NAMED)]
    if below:
        blocks.append(f"{_format(below)} of it compares two clocks closer than they are known to agree.")
    return blocks


def _idle_text(study: Study, rows: Rows) -> list[Block]:
    from overlane.analysis.proof import why_unproven  # noqa: PLC0415

    if not any(row["idle_ns"] for row in rows):
        return ["Nothing idled."]
    blocks: list[Block] = []
    windows = {(d.rank, d.device_id): d.window_ns for d in study.engines.devices}
    for scope in _SCOPES:
        lines = [
            {
                "who": _who(study, row),
                "idle_ns": row["idle_ns"],
                "cause": cause.replace("_", " "),
                "cause_ns": spent,
                "cause_fraction": fraction(spent, row["idle_ns"]),
                "window_fraction": fraction(spent, windows.get((row["rank"], row["device_id"]), 0)),
                "longest": row["longest"][cause],
                "host": _host(study, row["longest"][cause]),
            }
            for row in rows
            if row["scope"] == scope and row["idle_ns"]
            for cause, spent in row["causes"].items()
        ]
        # Where a device has one partition, or a partition one stream, the same lines would stand twice.
        if scope != "partition" or len({row["partition_id"] for row in rows if row["scope"] == scope}) > 1:
            head: Columns = ((scope, plain("who")), *_IDLE)
            blocks.append(Table(lines, head, _SHOWN))
    missing = why_unproven(study.trace, "launch_times")
    if missing:
        blocks.append(f"Why the host issued work late is unknown here. {missing}")
    return blocks


def _who(study: Study, row: Row) -> str:
    if row["scope"] == "device":
        return device_name(row)
    if row["scope"] == "partition":
        return partition_name(study.trace, row["partition_id"])
    return stream_name(study.trace, row)


def _host(study: Study, longest: Row) -> str:
    """Say in which call or range the host was."""
    names = [
        cut(study.trace.table(table)["name"][longest[key]].as_py())
        for table, key in (("api_calls", "call_id"), ("ranges", "range_id"))
        if longest[key] is not None
    ]
    return " in ".join(names) or "-"


def _format(length_ns: int) -> str:
    from overlane.figures.units import format_ns  # noqa: PLC0415

    return format_ns(length_ns)


def _where(row: Row) -> str:
    return f"{row['longest']['start_ns']}:{row['longest']['end_ns']}"


_WAITS: Columns = (
    ("stream", plain("who")), ("cause", lambda row: row["cause"].replace("_", " ")),
    ("waited", ns("total_ns")), ("of all", share("fraction")), ("operations", plain("op_count")),
    ("median", ns("p50_ns")), ("P99", ns("p99_ns")), ("longest", ns("max_ns")), ("longest, ns", _where),
)  # fmt: skip
_BY_NAME: Columns = (
    ("name", lambda row: cut(row["key"] or "-")), ("operations", plain("count")), ("median", ns("p50_ns")),
    ("P90", ns("p90_ns")), ("P99", ns("p99_ns")), ("P99.9", ns("p999_ns")), ("longest", ns("max_ns")),
)  # fmt: skip
_IDLE: Columns = (
    ("idle", ns("idle_ns")), ("cause", plain("cause")), ("time", ns("cause_ns")),
    ("of idle", share("cause_fraction")), ("of window", share("window_fraction")),
    ("the host was in", plain("host")), ("longest, ns", _where),
)  # fmt: skip

SECTIONS = (
    Section(
        "waits",
        "Waits by cause",
        "why operations waited after they were issued",
        _wait_rows,
        _wait_text,
        more=_distributions,
    ),
    Section(
        "idle", "Idle time by cause", "why devices, partitions and streams idled", _idle_rows, _idle_text
    ),
)
