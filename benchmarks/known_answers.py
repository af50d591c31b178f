"""Figures of docs/known-answers.md: causes in the bundled recordings, and scores over simulated programs.

    python benchmarks/known_answers.py            writes the tables of the page again
    python benchmarks/known_answers.py --check    exits 1 when they are not what would be written

Between `<!-- NAME: ... -->` and `<!-- end of NAME -->` stands what this script makes; the rest is by hand.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from causes import scores
from overlane import open_trace
from overlane.analysis.causes import CAUSES, Cause
from overlane.analysis.idle import SCOPES
from overlane.analysis.parts import Parts
from overlane.analysis.study import Study
from overlane.figures.units import format_ns
from overlane.samples import sample_folder, sample_path
from overlane.ui.links import around, timeline_href

PAGE = Path(__file__).resolve().parents[1] / "docs" / "known-answers.md"
PROGRAMS = 500
NOTICE = "made by python benchmarks/known_answers.py; change the sources and run it again"
SHOWN = 3
LEAST = 0.01
_NAME_WIDTH = 28
_FAULTS = ("early-record", "missing-wait", "wrong-event", "early-reuse", "early-free", "host-overwrite")
_OWN = "stream_order"
_PLAIN = (_OWN, "launch_latency")
_PAUSE_NS = 100_000
# What a recording is about where it holds any of it, however short.
_ABOUT = (
    "legacy_default_stream", "partition_busy", "context_switch", "host_function", "copy_engine_busy",
    "module_load", "implicit_sync", "allocation", "host_sync", "event_wait",
)  # fmt: skip
_Rows = np.ndarray[Any, Any]


class Recording:
    """One bundled recording and its analyses.

    Args:
        name: Name of the sample.
    """

    def __init__(self, name: str) -> None:
        self.study = Study(open_trace(sample_path(name)))
        self.trace = self.study.trace

    @cached_property
    def kernels(self) -> _Rows:
        """Whether each operation is a kernel."""
        return np.array([kind == "kernel" for kind in self.trace.table("ops")["kind"].to_pylist()], bool)

    @cached_property
    def loop(self) -> tuple[int, int]:
        """From the launch of the first kernel to that of the last one."""
        call = self.study.dependencies.issue_call[self.kernels]
        at = [row["start_ns"] for row in self.trace.table("api_calls").take(call[call >= 0]).to_pylist()]
        return (min(at), max(at)) if at else self.study.engines.devices[0].window

    def waited(self, ops: _Rows | None = None, window: tuple[int, int] | None = None) -> Counter[str]:
        """Return waiting time by cause, of some operations, within some time."""
        parts = self.study.wait_parts
        return by_cause(parts if ops is None else parts.take(np.flatnonzero(ops[parts.op])), window)

    def idled(self, scope: str = "stream", window: tuple[int, int] | None = None) -> Counter[str]:
        """Return idle time by cause."""
        return by_cause(self.study.idle_parts(scope), window)

    def stream(self, name: str) -> _Rows:
        """Return which operations are of the stream with a name."""
        number = next(n for n, row in enumerate(self.study.dependencies.streams) if row.name == name)
        return np.asarray(self.study.dependencies.stream_key == number)

    def released(self) -> Counter[str]:
        """Return by cause what critical kernels waited after the host had let them go; the first warms up."""
        rows = self.trace.table("accesses").to_pylist()
        total: Counter[str] = Counter()
        at = [row["at_ns"] for row in rows if row["op_id"] is None]
        for op, since in zip(np.flatnonzero(self.stream("critical"))[1:], at, strict=True):
            one = np.arange(len(self.kernels)) == op
            total += self.waited(one, (since, 1 << 62))
        return total

    def hazards(self) -> str:
        """Return what is proven not to be ordered, by kind."""
        found = self.study.hazards
        kinds = Counter(found.row(int(place)).kind for place in np.flatnonzero(found.is_proven))
        words = (f"{count} {kind.replace('_', ' ')}" for kind, count in kinds.items())
        return ", ".join(words) or "none"

    def unknown(self) -> float:
        """Return the share of waits and idle time of streams that has no cause, above the clock's error."""
        waits, idle = self.study.waits, self.study.idle
        told = ~waits.is_below_fit_error
        gaps = (idle.scope[idle.gap] == SCOPES.index("stream")) & ~idle.is_below_fit_error
        total: Counter[str] = Counter()
        add(total, waits.cause[told], (waits.end_ns - waits.start_ns)[told])
        add(total, idle.cause[gaps], (idle.part_end_ns - idle.part_start_ns)[gaps])
        return share(total, "unknown")

    def named(self, parts: Parts, cause: str, window: tuple[int, int] | None = None) -> str:
        """Return the name of the rows that prove most of the time of a cause, empty where none does."""
        low, high = clipped(parts, window)
        time: Counter[str] = Counter()
        for row in np.flatnonzero(parts.of(cause) & (high > low)):
            table, proof = parts.proof(int(row))
            name = self._name(table, proof)
            if name:
                time[name] += int(high[row] - low[row])
        return time.most_common(1)[0][0] if time else ""

    @cache  # noqa: B019 - a recording lives as long as the script
    def _name(self, table: str | None, row: int | None) -> str:
        if not table or row is None:
            return ""
        found = self.trace.row(table, row)
        if table == "syncs":
            calls = self.trace.table("api_calls")
            same = np.flatnonzero(
                np.array(calls["correlation_id"].to_pylist(), object) == found["correlation_id"]
            )
            return str(calls["name"][int(same[0])]) if len(same) else str(found["sync_kind"])
        name = str(found.get("name") or found.get("kind") or "")
        return name if len(name) <= _NAME_WIDTH else f"{name[: _NAME_WIDTH - 3]}..."


@cache
def recording(name: str) -> Recording:
    """Return a recording, opened once."""
    return Recording(name)


def clipped(parts: Parts, window: tuple[int, int] | None) -> tuple[_Rows, _Rows]:
    """Return start and end of parts inside a window; an end before its start is outside."""
    if window is None:
        return parts.start_ns, parts.end_ns
    return np.maximum(parts.start_ns, window[0]), np.minimum(parts.end_ns, window[1])


def by_cause(parts: Parts, window: tuple[int, int] | None) -> Counter[str]:
    """Return the time of parts by cause."""
    low, high = clipped(parts, window)
    total: Counter[str] = Counter()
    add(total, parts.cause, np.maximum(high - low, 0))
    return total


def add(total: Counter[str], cause: _Rows, length: _Rows) -> None:
    """Add lengths to the names of their causes."""
    sums = np.zeros(len(CAUSES), np.int64)
    np.add.at(sums, cause, length)
    for code in np.flatnonzero(sums):
        total[CAUSES[code].name] += int(sums[code])


def share(total: Counter[str], *names: str) -> float:
    """Return the share of some causes, 0 of nothing."""
    return sum(total[name] for name in names) / max(sum(total.values()), 1)


def without(total: Counter[str], *names: str) -> Counter[str]:
    """Return the time of the other causes."""
    return Counter({name: length for name, length in total.items() if name not in names})


def percent(part: float) -> str:
    """Write a share."""
    return f"{100 * part:.1f} %"


def _title(name: str) -> str:
    cause: Cause = next(cause for cause in CAUSES if cause.name == name)
    return cause.title


def _causes(
    found: Recording, total: Counter[str], parts: Parts, window: tuple[int, int] | None = None
) -> str:
    if not sum(total.values()):
        return "none"
    most = [name for name, _ in total.most_common(SHOWN) if share(total, name) >= LEAST]
    words = [f"{_title(name)} {percent(share(total, name))}" for name in most]
    name = found.named(parts, most[0], window)
    first = f"{words[0]} (`{name}`)" if name else words[0]
    return f"{format_ns(sum(total.values()))}: " + ", ".join([first, *words[1:]])


def workloads() -> dict[str, list[str]]:
    """Return the names of the bundled recordings by workload, others by the first word of their name."""
    groups: dict[str, list[str]] = {}
    for entry in json.loads((sample_folder() / "MANIFEST.json").read_text("utf-8"))["traces"]:
        ran = re.match(r"overlane run (\S+)", entry["made_by"] or "")
        group = ran[1] if ran else re.split(r"[_.]", entry["file"])[0]
        groups.setdefault(group, []).append(entry["file"])
    return groups


def recordings(files: Sequence[str]) -> Iterator[str]:
    """Yield the table of some bundled recordings."""
    yield "| recording | own stream | waits for else | streams idled in the loop | unknown | where to look |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for file in files:
        found = recording(file)
        waits, idle = found.study.wait_parts, found.study.idle_parts("stream")
        total = found.waited()
        cells = (
            f"`{_short(file)}`",
            format_ns(total[_OWN]),
            _causes(found, without(total, _OWN), waits),
            _causes(found, found.idled(window=found.loop), idle, found.loop),
            percent(found.unknown()),
            f"`{_address(found, file)}`",
        )
        yield "| " + " | ".join(cells) + " |"


def _short(file: str) -> str:
    return file.removesuffix(".overlane").removesuffix(".json.gz")


def _address(found: Recording, file: str) -> str:
    """Return the address of the longest part of what this recording is about, else of its longest cause."""
    waits = found.study.wait_parts
    gaps = found.study.idle_parts("stream").within(found.loop)
    waited, idled = without(found.waited(), *_PLAIN), without(found.idled(window=found.loop), *_PLAIN)
    cause = next((each for each in _ABOUT if waited[each] + idled[each]), None)
    if cause is None:
        cause = max(CAUSES, key=lambda each: waited[each.name] + idled[each.name]).name
    parts = waits if waited[cause] else gaps
    rows = np.flatnonzero(parts.of(cause))
    # Rather one of the loop itself than of a stream that has work before and after it.
    first = found.study.dependencies.issue.start_ns
    inside = rows[first[parts.op[rows]] <= found.loop[1] + _PAUSE_NS]
    rows = inside if len(inside) else rows
    trace_id = re.sub(r"[^a-z0-9]+", "-", _short(file).lower())
    if not len(rows):
        return timeline_href(trace_id)
    row = int(rows[parts.length_ns[rows].argmax()])
    window = around(int(parts.start_ns[row]), int(parts.end_ns[row]), found.trace.span_ns)
    op = int(parts.op[row])
    return timeline_href(trace_id, window=window, selected=("ops", op) if op >= 0 else None)


def answers() -> Iterator[str]:
    """Yield the table of what the workloads were written to cause, with what was found."""
    yield "| recording | what has to be found | found |"
    yield "| --- | --- | --- |"
    for name, wanted, figure in _ANSWERS:
        yield f"| `{name}` | {wanted} | {figure(recording(name))} |"
    for fault in _FAULTS:
        name = f"stream-contract-{fault}"
        yield f"| `{name}` | hazards, whatever the values were | {recording(name).hazards()} |"


def _held(found: Recording) -> str:
    return percent(
        share(without(found.waited(found.kernels), "launch_latency", _OWN), "legacy_default_stream")
    )


def _idle_share(cause: str) -> Callable[[Recording], str]:
    def show(found: Recording) -> str:
        total = found.idled(window=found.loop)
        name = found.named(found.study.idle_parts("stream"), cause, found.loop)
        return percent(share(total, cause)) + (f", `{name}`" if name else "")

    return show


def _held_by_call(cause: str) -> Callable[[Recording], str]:
    def show(found: Recording) -> str:
        rows = (found.study.barriers[n] for n in range(len(found.study.barriers)))
        first = max((row for row in rows if row.kind == cause), key=lambda row: row.end_ns - row.start_ns)
        call = found.trace.row(first.proof_table, first.proof_row)
        held = format_ns(call["end_ns"] - call["start_ns"])
        return f"`{call['name']}` held the host for {held}, and streams for {format_ns(first.lost_ns)} in all"

    return show


def _free(found: Recording) -> str:
    return percent(share(without(found.waited(found.stream("held by the host")), _OWN), "host_function"))


_ANSWERS: tuple[tuple[str, str, Callable[[Recording], str]], ...] = (
    ("default-stream-legacy", "kernels are held by the legacy default stream, at least 95 %", _held),
    ("default-stream-mixed", "the same", _held),
    ("default-stream-nonblocking", "none of it", _held),
    ("default-stream-per-thread", "none of it", _held),
    ("vector-add-pageable", "blocking copies prevail", lambda r: percent(share(r.waited(), "blocking_copy"))),
    (
        "vector-add-pinned",
        "stream order or the copy engine",
        lambda r: percent(share(r.waited(), _OWN, "copy_engine_busy")),
    ),
    (
        "green-context-A",
        "after its release, the critical kernel waits at most 1 µs for room",
        lambda r: format_ns(r.released()["partition_busy"]),
    ),
    (
        "green-context-C",
        "after its release, at least 95 % of its wait is for room",
        lambda r: percent(share(r.released(), "partition_busy")),
    ),
    ("alloc-in-loop-inside", "allocation, in the loop", _idle_share("allocation")),
    ("alloc-in-loop-before", "none of it", _idle_share("allocation")),
    ("launch-bound", "late launches", _idle_share("late_launch")),
    ("sync-scope-device", "host synchronization of the device", _idle_share("host_sync")),
    ("sync-scope-stream", "of a stream", _idle_share("host_sync")),
    ("sync-scope-event", "of an event", _idle_share("host_sync")),
    ("implicit-sync-mem-free", "the call is named", _held_by_call("allocation")),
    ("implicit-sync-module-load", "the call is named", _held_by_call("module_load")),
    ("implicit-sync-green-context", "the call is named", _held_by_call("implicit_sync")),
    ("callback", "the host function", _free),
    ("stream-contract-clean", "no hazard", lambda r: r.hazards()),
)


def simulated(programs: int = PROGRAMS) -> Iterator[str]:
    """Yield the table of precision and recall over simulated programs."""
    found = scores(0, programs)
    yield f"| cause, over {programs} programs | waits: precision | recall | idle: precision | recall |"
    yield "| --- | --- | --- | --- | --- |"
    for cause in CAUSES:
        cells = []
        for of in ("wait", "idle"):
            score = found[of]
            both = (score.precision(cause.name), score.recall(cause.name))
            cells += ["-" if value is None else percent(value) for value in both]
        if set(cells) != {"-"}:
            yield f"| {cause.title} | " + " | ".join(cells) + " |"


def blocks() -> dict[str, Callable[[], Iterator[str]]]:
    """Return what makes each table of the page, by the name in its comments."""
    made: dict[str, Callable[[], Iterator[str]]] = {"answers": answers, "simulated": simulated}
    return made | {f"recordings of {name}": partial(recordings, files) for name, files in workloads().items()}


def written(text: str, making: dict[str, Callable[[], Iterator[str]]]) -> str:
    """Return a page with its tables made again.

    Args:
        text: The page.
        making: What makes each table, by its name.

    Raises:
        ValueError: The page has no place for one of them.
    """
    for name, make in making.items():
        pattern = re.compile(rf"<!-- {name}: .*?<!-- end of {name} -->", re.DOTALL)
        if not pattern.search(text):
            raise ValueError(f"{PAGE.name} has no block {name}; add its two comments where it shall stand")
        block = "\n".join([f"<!-- {name}: {NOTICE} -->", "", *make(), "", f"<!-- end of {name} -->"])
        text = pattern.sub(block.replace("\\", r"\\"), text)
    return text


def main() -> int:
    """Write or check the tables of the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when the page is stale")
    is_check = parser.parse_args().check
    text = PAGE.read_text(encoding="utf-8")
    fresh = written(text, blocks())
    if is_check:
        if fresh != text:
            sys.stderr.write(f"docs/{PAGE.name} is stale; run python benchmarks/known_answers.py\n")
        return int(fresh != text)
    PAGE.write_text(fresh, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
