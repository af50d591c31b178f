"""Write a folder of Parquet files, one per table, for pandas, Polars, DuckDB and the like."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from overlane.trace import Trace
from overlane.writers.folder import replacing_folder, write_meta
from overlane_collect.schema import TABLES

__all__ = ["ParquetWriter"]


class ParquetWriter:
    """Writes the tables exactly as the trace contract defines them; tables without rows are left out."""

    name = "parquet"
    description = "A folder with meta.json and one Parquet file per table that has rows."
    suffixes: tuple[str, ...] = ()

    def write(self, trace: Trace, path: Path) -> None:
        """Write the folder.

        Raises:
            OverlaneError: `path` holds other files.
            OSError: The disk is full or not writable.
        """
        with replacing_folder(path, ".parquet") as folder:
            write_meta(trace, folder)
            for name in TABLES:
                if trace.table(name).num_rows:
                    pq.write_table(trace.table(name), folder / f"{name}.parquet", compression="zstd")
