"""Write a folder of CSV files, one per table, for spreadsheets and scripts."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from overlane.trace import Trace
from overlane.writers.folder import replacing_folder, write_meta
from overlane_collect.schema import TABLES

__all__ = ["CsvWriter"]


class CsvWriter:
    """Writes the tables as text: null is an empty field, empty text `""`, a list numbers between spaces."""

    name = "csv"
    description = "A folder with meta.json and one CSV file per table that has rows."
    suffixes: tuple[str, ...] = ()

    def write(self, trace: Trace, path: Path) -> None:
        """Write the folder.

        Raises:
            OverlaneError: `path` holds other files.
            OSError: The disk is full or not writable.
        """
        with replacing_folder(path, ".csv") as folder:
            write_meta(trace, folder)
            for name in TABLES:
                if trace.table(name).num_rows:
                    csv.write_csv(_flat(trace.table(name)), folder / f"{name}.csv")


def _flat(table: pa.Table) -> pa.Table:
    """Return the table with text for dictionary codes and lists."""
    columns = []
    for column in table.columns:
        values = column
        if pa.types.is_list(values.type):
            values = pc.binary_join(values.cast(pa.list_(pa.string())), " ")
        elif pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        columns.append(values)
    return pa.Table.from_arrays(columns, names=table.column_names)
