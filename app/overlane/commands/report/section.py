"""What a section of the report is, and how cells of its text table are written."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from overlane.commands.output import printable
from overlane.commands.tables import table_text
from overlane.figures.units import fraction

if TYPE_CHECKING:
    from overlane.analysis.study import Study

__all__ = [
    "DEVICE",
    "Block",
    "Columns",
    "Row",
    "Rows",
    "Section",
    "Table",
    "block_lines",
    "fraction",
    "longest",
    "ns",
    "plain",
    "share",
]

_WIDTH = 110
Row: TypeAlias = dict[str, Any]
Rows: TypeAlias = list[Row]
Columns: TypeAlias = tuple[tuple[str, Callable[[Row], str]], ...]


@dataclass(frozen=True)
class Table:
    """A table of the text.

    Attributes:
        rows: In the order to show them.
        columns: Column titles, with what each shows of a row.
        limit: Most rows to show, then how many more there are; None for all.
    """

    rows: Rows
    columns: Columns
    limit: int | None = None

    @property
    def shown(self) -> Rows:
        """The rows to show; one that alone would be left out is shown too."""
        is_cut = self.limit is not None and len(self.rows) > self.limit + 1
        return self.rows[: self.limit] if is_cut else self.rows


Block: TypeAlias = str | Table
"""A paragraph or a table."""


def _no_more(_: Study) -> dict[str, Any]:
    """Add nothing to the JSON."""
    return {}


@dataclass(frozen=True)
class Section:
    """One section of the report.

    Attributes:
        name: What `--section` takes; with `_` for `-` the key in the JSON.
        title: Heading of the text.
        help: What it answers.
        rows: The section's list in the JSON.
        text: From these rows to what stands under the heading.
        more: Further keys of the JSON that belong to the section.
    """

    name: str
    title: str
    help: str
    rows: Callable[[Study], Rows]
    text: Callable[[Study, Rows], list[Block]]
    more: Callable[[Study], dict[str, Any]] = _no_more

    @property
    def key(self) -> str:
        """The section's key in the JSON."""
        return self.name.replace("-", "_")


def block_lines(block: Block, *, is_markdown: bool) -> list[str]:
    """Return the lines of one block, with control characters shown escaped."""
    if isinstance(block, str):
        text = printable(block)
        wrapped = textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False)
        return [text, ""] if is_markdown else [*wrapped, ""]
    if not block.rows:
        return []
    shown = block.shown
    cells = [[printable(show(row)) for _, show in block.columns] for row in shown]
    lines = [table_text([name for name, _ in block.columns], cells, is_markdown=is_markdown), ""]
    left = len(block.rows) - len(shown)
    return [*lines, f"... and {left:,} more; --json gives all.", ""] if left else lines


def ns(key: str) -> Callable[[Row], str]:
    """Show a length of time with a fitting unit."""

    def show(row: Row) -> str:
        from overlane.figures.units import format_ns  # noqa: PLC0415

        return "-" if row[key] is None else format_ns(row[key])

    return show


def share(key: str) -> Callable[[Row], str]:
    """Show a fraction in percent."""

    def show(row: Row) -> str:
        return "-" if row[key] is None else f"{100 * row[key]:.1f} %"

    return show


def longest(key: str) -> Callable[[Row], str]:
    """Show an interval as `--window` takes it."""

    def show(row: Row) -> str:
        return f"{row[key][0]}:{row[key][1]}" if row[key] else "-"

    return show


def plain(key: str) -> Callable[[Row], str]:
    """Show a value as it is, unknown as a dash."""
    return lambda row: "-" if row[key] is None else str(row[key])


DEVICE: Columns = (("rank", plain("rank")), ("device", plain("device_id")))
