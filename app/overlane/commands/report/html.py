"""The report as one HTML file: its sections beside a timeline of the window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overlane.commands.output import printable
from overlane.commands.report.section import Block
from overlane.errors import MachineError

if TYPE_CHECKING:
    from overlane.analysis.study import Study
    from overlane.writers.report_html import Block as PageBlock

__all__ = ["write_html"]


def write_html(
    path: Path,
    study: Study,
    report: dict[str, Any],
    *,
    head: Sequence[str],
    sections: Sequence[tuple[str, str, Sequence[Block]]],
) -> str:
    """Write the page, whole or not at all; return a sentence about what was written.

    Args:
        path: File to write.
        study: The analyses.
        report: The report as JSON values.
        head: What to say first.
        sections: Name, title and blocks of each.

    Raises:
        MachineError: The disk is full or not writable.
    """
    from overlane.figures.units import format_bytes  # noqa: PLC0415 - help must answer without it
    from overlane.writers.report_html import Chapter, drawing, report_page  # noqa: PLC0415 - loads compiled code
    from overlane_collect.writer import advice_for, replacing  # noqa: PLC0415

    drawn = drawing(study, (report["window_start_ns"], report["window_end_ns"]))
    chapters = [Chapter(name, title, list(_blocks(blocks))) for name, title, blocks in sections]
    page = report_page(report["name"], head, chapters, report=report, drawn=drawn)
    raw = page.encode("utf-8", "replace")
    try:
        with replacing(path) as file:
            file.write(raw)
    except OSError as error:
        raise MachineError(
            f"{path} could not be written: {error.strerror or error}; {advice_for(error)}"
        ) from error
    return (
        f"wrote {path} ({format_bytes(len(raw))}, {drawn.slices:,} slices as {drawn.rectangles:,} rectangles)"
    )


def _blocks(blocks: Sequence[Block]) -> Iterator[PageBlock]:
    from overlane.writers.report_html import Grid  # noqa: PLC0415 - loads compiled code

    for block in blocks:
        if isinstance(block, str):
            yield printable(block)
            continue
        yield Grid(
            [title for title, _ in block.columns],
            [[printable(show(row)) for _, show in block.columns] for row in block.shown],
            len(block.rows) - len(block.shown),
        )
