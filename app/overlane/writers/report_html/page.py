"""Assemble a report page: one HTML file with its style, script and data, that asks nobody for anything."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from typing import Any

from overlane.writers.report_html.drawing import Drawing

__all__ = ["Block", "Chapter", "Grid", "bounded", "report_page"]

MOST_ITEMS = 1_000
"""Items of a list of the report in its JSON; the page says how many are left out."""
MOST_NESTED = 50
"""Items of a list within such an item."""
_WINDOW = re.compile(r"(?<![\w.:])(\d{1,18}):(\d{1,18})(?![\w.:])")
_NUMBER = re.compile(r"-|[-+]?[\d.,\u202f]+( (ns|µs|ms|s|%|B|[KMGT]iB))?")


@dataclass(frozen=True)
class Grid:
    """A table of text.

    Attributes:
        titles: Column titles.
        rows: Cells of each row.
        left_out: Further rows that are not shown.
    """

    titles: Sequence[str]
    rows: Sequence[Sequence[str]]
    left_out: int = 0


Block = str | Grid
"""A paragraph or a table."""


@dataclass(frozen=True)
class Chapter:
    """One section of the page.

    Attributes:
        name: Identifier, unique on the page.
        title: Heading.
        blocks: What stands under it.
    """

    name: str
    title: str
    blocks: Sequence[Block]


def report_page(
    title: str, facts: Sequence[str], chapters: Sequence[Chapter], *, report: dict[str, Any], drawn: Drawing
) -> str:
    """Return the page as text.

    Args:
        title: Name of the trace.
        facts: Sentences under the title.
        chapters: The sections.
        report: The report as JSON values; long lists are cut, and the page says so.
        drawn: The timeline.

    Example:
        >>> page = report_page("<b>", [], [], report={}, drawn=Drawing({}, 0, 0))
        >>> "<b>" in page, "<title>&lt;b&gt;" in page
        (False, True)
    """
    style, script = (_asset(name) for name in ("report.css", "report.js"))
    values, left_out = bounded(report)
    if left_out:
        values["report_left_out"] = left_out
    policy = (
        f"default-src 'none'; script-src {_source(script)}; style-src {_source(style)}; "
        "base-uri 'none'; form-action 'none'"
    )
    parts = [
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">',
        f"<title>{escape(title)} · Overlane report</title>\n<style>{style}</style>\n</head>\n<body>",
        f'<header>\n<p class="brand">Overlane report</p>\n<h1>{escape(title)}</h1>',
        *(f"<p>{escape(fact)}</p>" for fact in facts),
        *_contents(chapters),
        "</header>\n<main>",
        _TIMELINE.replace("@", escape(_said(drawn))),
        *(line for chapter in chapters for line in _chapter(chapter)),
        "</main>\n<footer><p>Times are counted from the trace's origin. "
        '<button type="button" id="save">Save the numbers as JSON</button>'
        + escape(_left_out(left_out))
        + "</p></footer>",
        _data("drawing", drawn.values),
        _data("report", values),
        f"<script>{script}</script>\n</body>\n</html>\n",
    ]
    return "\n".join(parts)


_TIMELINE = """\
<section id="timeline" aria-labelledby="timeline-title">
<h2 id="timeline-title">Timeline</h2>
<p class="dim">@</p>
<noscript><p>The timeline needs JavaScript; everything else on this page does not.</p></noscript>
<div class="tools" role="toolbar" aria-label="View of the timeline">
<button type="button" data-do="whole">Whole <kbd>0</kbd></button>
<button type="button" data-do="in">Zoom in <kbd>W</kbd></button>
<button type="button" data-do="out">Zoom out <kbd>S</kbd></button>
<button type="button" data-do="left">Left <kbd>A</kbd></button>
<button type="button" data-do="right">Right <kbd>D</kbd></button>
<button type="button" data-do="fit">Fit selection <kbd>F</kbd></button>
<label><input type="checkbox" id="show-waits" checked> waits</label>
<label><input type="checkbox" id="show-gaps" checked> gaps by cause</label>
<label><input type="checkbox" id="show-barriers" checked> barriers</label>
</div>
<div class="frame">
<div class="ruler"><div class="corner" id="span"></div><canvas id="ruler" aria-hidden="true"></canvas></div>
<div class="plot" id="plot">
<div class="labels" id="labels"></div>
<canvas id="canvas" tabindex="0" role="application" aria-describedby="keys details"
 aria-label="Timeline; arrow keys walk along a lane and between lanes"></canvas>
</div>
</div>
<p class="dim" id="keys">Wheel or <kbd>W</kbd> <kbd>S</kbd> zooms, dragging or <kbd>A</kbd> <kbd>D</kbd>
moves, a click or the arrow keys select, <kbd>F</kbd> fits the selection, <kbd>Esc</kbd> lets go. The address
keeps view and selection.</p>
<div class="legend" id="legend"></div>
<div id="details" aria-live="polite"></div>
<div id="tip" aria-hidden="true" hidden></div>
</section>"""


def bounded(report: dict[str, Any]) -> tuple[dict[str, Any], dict[str, int]]:
    """Return a report with its long lists cut, and how many items each of its keys lost.

    Example:
        >>> values, left_out = bounded({"waits": [{"ops": [1, 2]}] * 1_002, "name": "run"})
        >>> len(values["waits"]), left_out
        (1000, {'waits': 2})
    """
    left_out: dict[str, int] = {}

    def cut(value: Any, key: str, most: int) -> Any:
        if isinstance(value, dict):
            return {name: cut(item, f"{key}.{name}" if key else name, most) for name, item in value.items()}
        if not isinstance(value, list | tuple):
            return value
        if len(value) > most:
            left_out[key] = left_out.get(key, 0) + len(value) - most
        return [cut(item, key, MOST_NESTED) for item in value[:most]]

    values: dict[str, Any] = cut(report, "", MOST_ITEMS)
    return values, left_out


def _left_out(left_out: dict[str, int]) -> str:
    if not left_out:
        return ""
    words = ", ".join(f"{count:,} of {key}" for key, count in left_out.items())
    return f" Left out of it: {words}; overlane report --json gives all."


def _said(drawn: Drawing) -> str:
    """Say how much of the trace the timeline holds."""
    values = drawn.values
    if not drawn.slices:
        return "Nothing ran in the window."
    if drawn.slices == drawn.rectangles:
        return f"All {drawn.slices:,} slices of the window are in this page."
    which = " or ".join(
        f"{sort} shorter than {ns:,} ns" for sort, ns in values["resolution_ns"].items() if ns
    )
    return (
        f"{drawn.slices:,} slices of the window are drawn as {drawn.rectangles:,}: neighbours are merged "
        f"where they are {which}. The trace itself is not in this page."
    )


def _contents(chapters: Sequence[Chapter]) -> Iterator[str]:
    yield '<nav aria-label="Sections">'
    yield '<a href="#timeline">Timeline</a>'
    yield from (f'<a href="#{escape(chapter.name)}">{escape(chapter.title)}</a>' for chapter in chapters)
    yield "</nav>"


def _chapter(chapter: Chapter) -> Iterator[str]:
    name = escape(chapter.name)
    yield f'<section id="{name}" aria-labelledby="{name}-title">'
    yield f'<h2 id="{name}-title">{escape(chapter.title)}</h2>'
    for block in chapter.blocks:
        if isinstance(block, str):
            yield f"<p>{_linked(block)}</p>"
        elif block.rows:
            yield from _grid(block, chapter.title)
    yield "</section>"


def _grid(grid: Grid, title: str) -> Iterator[str]:
    yield f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(title)}, table"><table>'
    heads = "".join(f'<th scope="col">{escape(title)}</th>' for title in grid.titles)
    yield f"<thead><tr>{heads}</tr></thead><tbody>"
    for row in grid.rows:
        cells = (
            f'<td class="n">{escape(cell)}</td>' if _NUMBER.fullmatch(cell) else f"<td>{_linked(cell)}</td>"
            for cell in row
        )
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</tbody></table></div>"
    if grid.left_out:
        yield f'<p class="dim">... and {grid.left_out:,} more; overlane report --json gives all.</p>'


def _linked(text: str) -> str:
    """Return escaped text in which windows, as 100:200, lead to the timeline."""

    def link(found: re.Match[str]) -> str:
        start, end = int(found[1]), int(found[2])
        return f'<a href="#t0={start}&amp;t1={end}">{found[0]}</a>' if start < end else found[0]

    return _WINDOW.sub(link, escape(text))


def _asset(name: str) -> str:
    return resources.files("overlane.writers.report_html").joinpath(name).read_text(encoding="utf-8")


def _source(text: str) -> str:
    """Return the policy source that allows exactly this inline text."""
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _data(name: str, values: dict[str, Any]) -> str:
    """Return JSON that no browser takes for anything else, whatever the names in it are."""
    text = json.dumps(values, separators=(",", ":"))  # letters beyond ASCII come out escaped
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return f'<script type="application/json" id="{name}">{text}</script>'
