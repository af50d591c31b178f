"""Text tables for terminals and Markdown."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["table_text"]


def table_text(head: Sequence[str], rows: Sequence[Sequence[str]], *, is_markdown: bool = False) -> str:
    """Return a table with aligned columns, those of numbers to the right.

    Args:
        head: Column titles.
        rows: Cells as text, as many per row as titles.
        is_markdown: With the bars of Markdown.

    Example:
        >>> print(table_text(["engine", "busy"], [["compute", "5 ms"]]))
        engine   busy
        -------  ----
        compute  5 ms
    """
    cells = [[_escaped(cell) if is_markdown else cell for cell in row] for row in (head, *rows)]
    least = 3 if is_markdown else 0  # a rule of Markdown has three dashes
    widths = [max(least, *(len(row[i]) for row in cells)) for i in range(len(head))]
    is_number = [all(row[i][:1].isdigit() or row[i] == "-" for row in cells[1:]) for i in range(len(head))]
    lines = []
    for row in cells:
        padded = [
            cell.rjust(width) if is_number[i] else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(f"| {' | '.join(padded)} |" if is_markdown else "  ".join(padded).rstrip())
    if is_markdown:
        rule = ["-" * (width - 1) + ":" if is_number[i] else "-" * width for i, width in enumerate(widths)]
        lines.insert(1, f"| {' | '.join(rule)} |")
    else:
        lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def _escaped(cell: str) -> str:
    return cell.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ")
