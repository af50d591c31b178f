"""What the compare page shows: which captures, how far they are opened, how they align, what changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from overlane.errors import OverlaneError
from overlane.figures.units import format_ns
from overlane.ui.links import parse_search

if TYPE_CHECKING:
    from collections.abc import Sequence

    from overlane.analysis.changes import Comparison
    from overlane.analysis.study import Study
    from overlane.cache import OpenedTrace
    from overlane.trace import Trace
    from overlane.ui.store import TraceStore

__all__ = [
    "MOST_SIDES",
    "Wish",
    "alignments",
    "comparison",
    "open_sides",
    "parse_wish",
    "sides_of",
    "windows_of",
]

_Window = tuple[int, int]

MOST_SIDES = 4
"""Sides whose timelines are drawn under each other."""
_MOST_CAPTURES = 40
VERSION = 5
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
    store: TraceStore, sides: Sequence[Sequence[OpenedTrace]], windows: Sequence[Sequence[_Window | None]]
) -> dict[str, Any] | None:
    """Return the comparison of a run with the baseline as JSON, None while it is made in the background.

    It is kept with the baseline's first capture.

    Args:
        store: Its studies are used.
        sides: Captures of the baseline, and of the run.
        windows: Window of each capture, None for all of it.

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

    return store.studies.answer(first, window, key, made)


def _compare(
    store: TraceStore, sides: Sequence[Sequence[OpenedTrace]], windows: Sequence[Sequence[_Window | None]]
) -> Comparison:
    from overlane.analysis.compare import compare_studies  # noqa: PLC0415 - loads compiled code

    baseline, candidate = (
        [store.studies.study(one, window) for one, window in zip(side, narrowed, strict=True)]
        for side, narrowed in zip(sides, windows, strict=True)
    )
    return compare_studies(candidate, baseline)


def windows_of(
    sides: Sequence[Sequence[OpenedTrace]], window: _Window | None, align: str
) -> tuple[list[list[_Window | None]], str]:
    """Return the window of each capture that answers to a window of the baseline, and what they are in words.

    Where the window is a step or range of the baseline, it is that of the same name in the others; else it is
    as far from the moment by which the captures are aligned.

    Args:
        sides: Captures of each side, the baseline first.
        window: Window in the baseline's first capture, None for whole captures.
        align: The moment, as in `alignments`.
    """
    if window is None:
        return [[None] * len(side) for side in sides], ""
    name = next((key for key, found in _ranges(sides[0][0]).items() if found == window), None)
    length = format_ns(window[1] - window[0])
    every = [one for side in sides for one in side]
    if name is not None and all(name in _ranges(one) for one in every):
        return [[_ranges(one)[name] for one in side] for side in sides], f"Only {name} of each ({length})."
    moments = alignments(every, align)["origins_ns"]
    shifted: list[_Window | None] = []
    for one, moment in zip(every, moments, strict=True):
        low = max(window[0] + moment - moments[0], 0)
        shifted.append((low, max(min(window[1] + moment - moments[0], one.trace.span_ns + 1), low)))
    parts = iter(shifted)
    words = f"Only a window of {length}, in each capture as far from where they are aligned."
    return [[next(parts) for _ in side] for side in sides], words


def alignments(sides: list[OpenedTrace], wanted: str) -> dict[str, Any]:
    """Return how the timelines can be aligned and where they are.

    Args:
        sides: The first capture of each side.
        wanted: `start`, `range:NAME` or `op:NAME`.

    Returns:
        `choices` (list of `value` and `label`), `value` (the one in effect), `origins_ns` (for each side the
        moment that lies under the others').
    """
    starts = [_first_start(one.trace) for one in sides]
    ranges = [_first_of_ranges(one) for one in sides]
    operations = [_first_of_operations(one) for one in sides]
    common = [name for name in ranges[0] if all(name in other for other in ranges)] if sides else []
    alike = [name for name in operations[0] if all(name in other for other in operations)] if sides else []
    choices = [{"value": "start", "label": "start of the device's work"}]
    choices += [{"value": f"range:{name}", "label": f"range {name}"} for name in common[:100]]
    choices += [{"value": f"op:{name}", "label": f"first {name}"} for name in alike[:200]]
    kind, _, name = wanted.partition(":")
    found = {"range": ranges, "op": operations}.get(kind)
    if found is not None and all(name in one for one in found):
        return {"choices": choices, "value": wanted, "origins_ns": [one[name] for one in found]}
    return {"choices": choices, "value": "start", "origins_ns": starts}


def _first_start(trace: Trace) -> int:
    starts = trace.column("ops", "start_ns")
    return int(starts[0]) if len(starts) else 0


def _first_of_ranges(opened: OpenedTrace) -> dict[str, int]:
    """Return the first start of each step and outer range, by name."""
    return {name: window[0] for name, window in _ranges(opened).items()}


def _ranges(opened: OpenedTrace) -> dict[str, _Window]:
    """Return the first step or outer range of each name."""

    def compute() -> dict[str, _Window]:
        from overlane.analysis.steps import steps  # noqa: PLC0415 - loads compiled code

        found: dict[str, _Window] = {}
        for step in steps(opened.trace, rank=opened.trace.ranks[0]):
            found.setdefault(step.name, (step.start_ns, step.end_ns))
        return found

    return {name: (low, high) for name, (low, high) in opened.result("ranges", VERSION, compute).items()}


def _first_of_operations(opened: OpenedTrace) -> dict[str, int]:
    """Return the first start of each operation by plain name, those that cost most first."""
    return opened.result("first operations", VERSION, lambda: _found_operations(opened.trace))


def _found_operations(trace: Trace) -> dict[str, int]:
    import numpy as np  # noqa: PLC0415

    from overlane.analysis.matching import group  # noqa: PLC0415 - loads compiled code

    groups = group([trace])
    (capture,) = groups.captures
    work = np.bincount(capture.group, capture.duration_ns, len(groups.keys))
    first = np.full(len(groups.keys), np.iinfo(np.int64).max)
    np.minimum.at(first, capture.group, capture.start_ns)
    found: dict[str, int] = {}
    for number in np.argsort(-work).tolist():
        name = groups.keys[number][3]
        found[name] = min(found.get(name, int(first[number])), int(first[number]))
    return found
