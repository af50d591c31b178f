"""What the compare page shows: which captures, how far they are opened, how they align, what changed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from overlane.errors import OverlaneError
from overlane.figures.units import format_ns
from overlane.ui.links import parse_search
from overlane.ui.naming import told_apart
from overlane.ui.studies import MOMENT_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from overlane.analysis.changes import Comparison
    from overlane.analysis.study import Study
    from overlane.cache import OpenedTrace
    from overlane.trace import Trace
    from overlane.ui.store import TraceStore

__all__ = [
    "AT_START",
    "MOST_SIDES",
    "Wish",
    "aligned",
    "comparison",
    "names_of",
    "open_sides",
    "parse_wish",
    "sides_of",
]

_Window = tuple[int, int]

MOST_SIDES = 4
"""Sides whose timelines are drawn under each other."""
AT_START = {"value": "start", "label": "start of the device's work"}
"""The alignment that is always there."""
_MOST_CAPTURES = 40
VERSION = 6
"""Changes with what a comparison holds."""


@dataclass(frozen=True)
class Wish:
    """What the address asks for.

    Attributes:
        baseline: Ids of the captures of the baseline.
        runs: Ids of the captures to compare with it.
        are_repeats: These are captures of one run, not runs of their own.
        align: `start`, `range:NAME` or `op:NAME`.
        window: Window of the baseline that is compared, in ns; None for whole captures.
    """

    baseline: tuple[str, ...]
    runs: tuple[str, ...]
    are_repeats: bool
    align: str
    window: _Window | None = None


def parse_wish(search: str | None, first: str | None) -> Wish:
    """Read the query part of an address; without a baseline it is the trace that is shown.

    Args:
        search: Query part.
        first: Trace to show when the address names none.
    """
    values = parse_qs((search or "").lstrip("?"), max_num_fields=50)

    def ids(key: str) -> tuple[str, ...]:
        found = [one for text in values.get(key, []) for one in text.split(",") if one]
        return tuple(dict.fromkeys(found))[:_MOST_CAPTURES]

    baseline = ids("base") or ids("trace")[:1] or ((first,) if first else ())
    runs = tuple(one for one in ids("runs") or ids("with")[:1] if one not in baseline)
    align = values.get("align", ["start"])[-1]
    is_known = align.startswith(("range:", "op:"))
    are_repeats = values.get("repeats", [""])[-1] == "1"
    window = parse_search(search).window
    return Wish(baseline, runs, are_repeats, align if is_known else "start", window)


def sides_of(wish: Wish) -> list[tuple[str, ...]]:
    """Return the captures of each side, the baseline first."""
    runs = [wish.runs] if wish.are_repeats else [(one,) for one in wish.runs]
    return [side for side in (wish.baseline, *runs) if side]


def names_of(store: TraceStore, sides: Sequence[tuple[str, ...]]) -> list[str]:
    """Return a name for each side, that of its first capture, told apart where two have the same."""
    firsts = [store.listing(side[0]) for side in sides]
    return told_apart([one.name for one in firsts], [one.path for one in firsts])


def open_sides(store: TraceStore, sides: list[tuple[str, ...]]) -> tuple[list[list[OpenedTrace]], list[str]]:
    """Return the traces of each side that are open, and sentences on those that are not.

    Those that are not open yet are asked for.
    """
    opened: list[list[OpenedTrace]] = []
    missing: list[str] = []
    for side in sides:
        present = []
        for trace_id in side:
            try:
                found = store.opened(trace_id)
                if found is None:
                    listing = store.listing(trace_id)
                    missing.append(f"Opening {listing.name}: {listing.progress:.0%}.")
                else:
                    present.append(found)
            except OverlaneError as error:
                missing.append(str(error))
        opened.append(present)
    return opened, missing


def comparison(
    store: TraceStore,
    sides: Sequence[Sequence[OpenedTrace]],
    windows: Sequence[Sequence[_Window | None]],
    *,
    wait_s: float = MOMENT_S,
) -> dict[str, Any] | None:
    """Return the comparison of a run with the baseline as JSON, None while it is made in the background.

    It is kept with the baseline's first capture.

    Args:
        store: Its studies are used.
        sides: Captures of the baseline, and of the run.
        windows: Window of each capture, None for all of it.
        wait_s: Wait so long for it.

    Raises:
        OverlaneError: It could not be made.
    """
    names = [
        f"{one.key} {window}" if window else one.key
        for side, narrowed in zip(sides, windows, strict=True)
        for one, window in zip(side, narrowed, strict=True)
    ]
    key = f"compare {len(sides[0])} with " + " ".join(names)
    first, window = sides[0][0], windows[0][0]

    def made(_study: Study) -> dict[str, Any]:
        return first.result(key, VERSION, lambda: _compare(store, sides, windows).to_json())

    return store.studies.answer(first, window, key, made, wait_s=wait_s)


def _compare(
    store: TraceStore, sides: Sequence[Sequence[OpenedTrace]], windows: Sequence[Sequence[_Window | None]]
) -> Comparison:
    from overlane.analysis.compare import compare_studies  # noqa: PLC0415 - loads compiled code

    baseline, candidate = (
        [store.studies.study(one, window) for one, window in zip(side, narrowed, strict=True)]
        for side, narrowed in zip(sides, windows, strict=True)
    )
    return compare_studies(candidate, baseline)


@dataclass(frozen=True)
class _Marks:
    """What a capture can be aligned with others by.

    Attributes:
        start_ns: Start of its device's work.
        span_ns: Its span.
        ranges: First step or outer range of each name.
        operations: First start of each operation by plain name, those that cost most first.
    """

    start_ns: int
    span_ns: int
    ranges: dict[str, _Window]
    operations: dict[str, int]


def _marks_of(store: TraceStore, captures: Sequence[OpenedTrace]) -> list[_Marks] | None:
    """Return what captures can be aligned by, None while it is looked for in the background.

    Args:
        store: Its studies are used.
        captures: The captures; each keeps what was found.

    Raises:
        OverlaneError: It could not be found.
    """
    found: list[_Marks | None] = []
    for one in captures:
        wait_s = 0.0 if None in found else MOMENT_S
        build = partial(_marks, one)
        found.append(store.studies.answer(one, None, "marks", build, is_quick=True, wait_s=wait_s))
    there = [one for one in found if one is not None]
    return there if len(there) == len(found) else None


def _marks(opened: OpenedTrace, study: Study) -> _Marks:
    found = opened.result("marks", VERSION, lambda: _found_marks(study.trace))
    ranges = {name: (low, high) for name, (low, high) in found["ranges"].items()}
    return replace(_plain_marks(study.trace), ranges=ranges, operations=found["operations"])


def _plain_marks(trace: Trace) -> _Marks:
    """Return what a capture can be aligned by without looking at more than its first operation."""
    starts = trace.column("ops", "start_ns")
    return _Marks(int(starts[0]) if len(starts) else 0, trace.span_ns, {}, {})


def _windows_of(
    sides: Sequence[Sequence[_Marks]], window: _Window, align: str
) -> tuple[list[list[_Window | None]], str]:
    """Return the window of each capture that answers to a window of the baseline, and what they are in words.

    Where the window is a step or range of the baseline, it is that of the same name in the others; else it is
    as far from the moment by which the captures are aligned.

    Args:
        sides: Captures of each side, the baseline first.
        window: Window in the baseline's first capture.
        align: The moment, as in `_alignments`.
    """
    name = next((key for key, found in sides[0][0].ranges.items() if found == window), None)
    length = format_ns(window[1] - window[0])
    every = [one for side in sides for one in side]
    if name is not None and all(name in one.ranges for one in every):
        return [[one.ranges[name] for one in side] for side in sides], f"Only {name} of each ({length})."
    moments = _alignments(every, align)["origins_ns"]
    shifted: list[_Window | None] = []
    for one, moment in zip(every, moments, strict=True):
        low = max(window[0] + moment - moments[0], 0)
        shifted.append((low, max(min(window[1] + moment - moments[0], one.span_ns + 1), low)))
    parts = iter(shifted)
    words = f"Only a window of {length}, in each capture as far from where they are aligned."
    return [[next(parts) for _ in side] for side in sides], words


def _alignments(sides: Sequence[_Marks], wanted: str) -> dict[str, Any]:
    """Return how the timelines can be aligned and where they are.

    Args:
        sides: The first capture of each side.
        wanted: `start`, `range:NAME` or `op:NAME`.

    Returns:
        `choices` (list of `value` and `label`), `value` (the one in effect), `origins_ns` (for each side the
        moment that lies under the others').
    """
    starts = {
        "range": [{name: window[0] for name, window in one.ranges.items()} for one in sides],
        "op": [one.operations for one in sides],
    }
    common, alike = (
        [name for name in found[0] if all(name in other for other in found)] if found else []
        for found in starts.values()
    )
    choices = [AT_START]
    choices += [{"value": f"range:{name}", "label": f"range {name}"} for name in common[:100]]
    choices += [{"value": f"op:{name}", "label": f"first {name}"} for name in alike[:200]]
    kind, _, name = wanted.partition(":")
    if kind in starts and all(name in one for one in starts[kind]):
        return {"choices": choices, "value": wanted, "origins_ns": [one[name] for one in starts[kind]]}
    return {"choices": choices, "value": "start", "origins_ns": [one.start_ns for one in sides]}


def aligned(
    store: TraceStore,
    wish: Wish,
    opened: Sequence[Sequence[OpenedTrace]],
    sides: Sequence[tuple[str, ...]],
) -> dict[str, Any]:
    """Return what is drawn, how it is shifted and the windows that are compared.

    While it is not known what captures can be aligned by, they are drawn by the start of their work.

    Args:
        store: Its studies are used.
        wish: What the address asks for.
        opened: Captures of each side.
        sides: Their ids.

    Returns:
        `shown` (trace and label of each timeline), `shifts` (ns), `window` (what is in view at first, on the
        shared axis), `key` (changes with what is drawn), `choices` and `align` (as in `_alignments`),
        `windows` (of each capture, None for all of it), `narrowed` (these in words), `is_aligned` (it is as
        the address asks), `ready` (there is something to compare).

    Raises:
        OverlaneError: What they can be aligned by could not be found.
    """
    every = [one for side in opened for one in side]
    needed = every if wish.window else [side[0] for side in opened]
    marks = _marks_of(store, needed)
    is_aligned = marks is not None
    if marks is None:
        wish = replace(wish, window=None)
        needed = [side[0] for side in opened]
        marks = [_plain_marks(one.trace) for one in needed]
    of_capture = dict(zip(map(id, needed), marks, strict=True))
    firsts = [of_capture[id(side[0])] for side in opened]
    state = _drawn(store, wish.align if is_aligned else "start", firsts[:MOST_SIDES], sides)
    windows: list[list[_Window | None]] = [[None] * len(side) for side in sides]
    words = ""
    if wish.window:
        by_side = [[of_capture[id(one)] for one in side] for side in opened]
        windows, words = _windows_of(by_side, wish.window, wish.align)
    if words:
        low, high = windows[0][0] or (0, 0)
        shift, room = state["shifts"][0], max((high - low) // 20, 1000)
        state["window"] = [max(low + shift - room, 0), high + shift + room]
        state["key"] += f" {low}-{high}"
    ready = is_aligned and len(sides) > 1
    if not is_aligned:
        state |= {"align": wish.align, "choices": []}
    return state | {"ready": ready, "is_aligned": is_aligned, "windows": windows, "narrowed": words}


def _drawn(
    store: TraceStore, align: str, marks: Sequence[_Marks], sides: Sequence[tuple[str, ...]]
) -> dict[str, Any]:
    """Return the timelines to draw and how they are shifted against one another."""
    found = _alignments(marks, align)
    origins = found["origins_ns"]
    shifts = [max(origins) - origin for origin in origins]
    names = names_of(store, sides)[:MOST_SIDES]
    more = [f" and {len(side) - 1} more" if len(side) > 1 else "" for side in sides[:MOST_SIDES]]
    words = ["baseline", *(["compared"] * (len(names) - 1))]
    window = None
    if found["value"] != "start":
        window = [max(max(origins) - 2_000_000, 0), max(origins) + 8_000_000]
    else:
        reach = max(one.span_ns - origin for one, origin in zip(marks, origins, strict=True))
        room = max(reach // 50, 1000)
        window = [max(max(origins) - room, 0), max(origins) + reach + room]
    return {
        "choices": found["choices"],
        "align": found["value"],
        "shifts": shifts,
        "window": window,
        "shown": [
            {"trace": side[0], "label": f"{word}: {name}{extra_words}"}
            for side, word, name, extra_words in zip(sides, words, names, more, strict=False)
        ],
        "key": f"{list(sides)} {found['value']}",
    }


def _found_marks(trace: Trace) -> dict[str, Any]:
    from overlane.analysis.steps import steps  # noqa: PLC0415 - loads compiled code

    ranges: dict[str, _Window] = {}
    for step in steps(trace, rank=trace.ranks[0]):
        ranges.setdefault(step.name, (step.start_ns, step.end_ns))
    return {"ranges": ranges, "operations": _first_of_operations(trace)}


def _first_of_operations(trace: Trace) -> dict[str, int]:
    import numpy as np  # noqa: PLC0415

    from overlane.analysis.matching import group  # noqa: PLC0415 - loads compiled code

    groups = group([trace])
    (capture,) = groups.captures
    work = np.bincount(capture.group, capture.duration_ns, len(groups.keys))
    first = np.zeros(len(groups.keys), np.int64)
    first[capture.group[::-1]] = capture.start_ns[::-1]  # rows stand in the order of their starts
    found: dict[str, int] = {}
    for number in np.argsort(-work).tolist():
        name = groups.keys[number][3]
        found[name] = min(found.get(name, int(first[number])), int(first[number]))
    return found
