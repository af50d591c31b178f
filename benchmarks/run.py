"""Run the benchmarks, print a table with the budget beside each figure, write JSON.

python benchmarks/run.py [--quick] [--only PART ...] [--json FILE]
"""

from __future__ import annotations

import argparse
import datetime as dt
import importlib
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from measure import HERE, ChildFailedError, Figure, machine_facts

PARTS = {
    "load": "Kineto JSON to validated columns",
    "open": "cold and warm open to the first answered viewport",
    "viewport": "viewport query in the server, index size and build",
    "file": "the .overlane file: size and write rate",
    "engines": "engine report of 10 M operations",
    "compare": "two traces of 1 M operations compared",
    "browser": "first paint, frames while panning and zooming, detail after a zoom, click to details",
    "reasons": "the dashboard with all causes drawn: frames, clicks, page changes, many clients",
}
MODULES = {
    "load": "load",
    "open": "opening",
    "viewport": "queries",
    "file": "native_file",
    "engines": "engines",
    "compare": "comparing",
    "browser": "browser",
    "reasons": "reasons",
}
MARKS = {True: "met", False: "MISSED", None: ""}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the chosen parts; the status is 1 when a part could not run, missed budgets do not change it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help="small sizes and few repeats: a look, not a result"
    )
    parser.add_argument(
        "--only", action="append", choices=list(PARTS), help="run this part alone (may be repeated)"
    )
    parser.add_argument(
        "--json", type=Path, default=HERE / "results" / "latest.json", help="where the JSON is written"
    )
    options = parser.parse_args(arguments)
    started, facts = dt.datetime.now(dt.UTC), machine_facts()
    figures: list[Figure] = []
    failures: dict[str, str] = {}
    for part in options.only or PARTS:
        print(f"{part}: {PARTS[part]}", file=sys.stderr)
        begin = time.perf_counter()
        try:
            figures += importlib.import_module(MODULES[part]).measure(is_quick=options.quick)
        except ChildFailedError as error:
            failures[part] = str(error)
        print(f"  {time.perf_counter() - begin:.0f} s", file=sys.stderr)
    print(table(figures))
    for part, reason in failures.items():
        print(f"{part} could not be measured: {reason}")
    result = {
        "schema": 1,
        "started": started.isoformat(timespec="seconds"),
        "is_quick": options.quick,
        "machine": facts,
        "figures": [figure.to_json() for figure in figures],
        "failures": failures,
    }
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(result, indent=2) + "\n")
    print(f"written to {options.json}")
    return 1 if failures else 0


def table(figures: Sequence[Figure]) -> str:
    """Return the figures as aligned text, one line each."""
    rows = [("part", "figure", "median", "budget", "", "spread, remarks")]
    for f in figures:
        sign = "<=" if f.better == "lower" else ">="
        spread = (
            f"{number(min(f.repeats))} to {number(max(f.repeats))}, {len(f.repeats)} runs"
            if len(f.repeats) > 1
            else ""
        )
        rows.append(
            (
                f.part,
                f.name,
                "not measured" if f.value is None else f"{number(f.value)} {f.unit}".strip(),
                "" if f.budget is None else f"{sign} {number(f.budget)}",
                MARKS[f.is_met],
                "; ".join(word for word in (spread, f.note) if word),
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, (*widths, 0), strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def number(value: float) -> str:
    """Return a number with three significant digits, thousands apart."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


if __name__ == "__main__":
    sys.exit(main())
