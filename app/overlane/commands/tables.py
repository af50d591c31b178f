"""Text tables for terminals and Markdown."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["table_text"]


def table_text(head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: int, is_markdown: bool) -> str:
    """Return a table with aligned columns.

    Args:
        head: Column titles.
        rows: Cells as text, as many per row as titles.
        numbers: How many of the last columns are aligned to the right.
        is_markdown: With the bars of Markdown.

    Example:
        >>> print(table_text(["engine", "busy"], [["compute", "5 ms"]], numbers=1, is_markdown=False))
        engine   busy
        -------  ----
        compute  5 ms
    """
    cells = [[_escaped(cell) if is_markdown else cell for cell in row] for row in (head, *rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    first_number = len(head) - numbers
    lines = []
    for row in cells:
        padded = [
            cell.rjust(width) if i >= first_number else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(f"| {' | '.join(padded)} |" if is_markdown else "  ".join(padded).rstrip())
    if is_markdown:
        rule = [
            "-" * (width - 1) + ":" if i >= first_number else "-" * width
            for i, width in enumerate(max(width, 3) for width in widths)
        ]
        lines.insert(1, f"| {' | '.join(rule)} |")
    else:
        lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def _escaped(cell: str) -> str:
    return cell.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ")
