"""From a journal to the trace: at the end of a recording, or after its program was killed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from overlane_collect.decoding import decode_journal
from overlane_collect.journal import JournalReader
from overlane_collect.writer import write_trace

__all__ = ["Recovered", "recover"]


@dataclass(frozen=True)
class Recovered:
    """What a journal held.

    Attributes:
        path: Trace that was written.
        rows: Table to its rows.
        damage: What was wrong with the journal, or None.
    """

    path: Path
    rows: dict[str, int]
    damage: str | None


def recover(journal: str | os.PathLike[str], out: str | os.PathLike[str]) -> Recovered:
    """Write the trace of a journal; of a cut one everything that was flushed.

    Args:
        journal: The `.journal` file of a recording; it is left as it is.
        out: Trace to write.

    Raises:
        CollectError: It is no journal, or the trace cannot be written.
    """
    decoded = decode_journal(JournalReader(Path(journal)))
    write_trace(out, decoded.header, decoded.tables)
    rows = {name: table.num_rows for name, table in decoded.tables.items() if table.num_rows}
    return Recovered(Path(out), rows, decoded.damage)
