"""Folders that appear whole or not at all."""

from __future__ import annotations

import contextlib
import json
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from overlane.errors import OverlaneError
from overlane.trace import Trace
from overlane_collect.schema import SCHEMA_VERSION, TABLES

__all__ = ["replacing_folder", "write_meta"]

META_NAME = "meta.json"


@contextlib.contextmanager
def replacing_folder(path: Path, suffix: str) -> Iterator[Path]:
    """Fill a folder that takes the name `path` only when the block ends without an error.

    An older export of the same kind is replaced; anything else that is called `path` is left alone.

    Args:
        path: Final name.
        suffix: Ending of the tables' files, to tell an older export.

    Raises:
        OverlaneError: `path` exists and holds files that no export wrote.
    """
    own = {META_NAME, *(name + suffix for name in TABLES)}
    if path.exists() and (not path.is_dir() or any(entry.name not in own for entry in path.iterdir())):
        raise OverlaneError(
            f"{path} holds other files than an export's; choose another name or empty it first"
        )
    token = secrets.token_hex(6)
    fresh, old = path.with_name(f".{path.name}.{token}.tmp"), path.with_name(f".{path.name}.{token}.old")
    fresh.mkdir()
    try:
        yield fresh
        if path.exists():
            path.rename(old)
        fresh.rename(path)
    except BaseException:
        if old.exists() and not path.exists():
            old.rename(path)
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    shutil.rmtree(old, ignore_errors=True)


def write_meta(trace: Trace, folder: Path) -> None:
    """Write the header of a trace and the meaning of every column beside its tables."""
    tables: dict[str, Any] = {}
    for name, spec in TABLES.items():
        if trace.table(name).num_rows:
            columns = {
                c.name: {"dtype": c.dtype, "unit": c.unit, "null": c.null, "doc": c.doc} for c in spec.columns
            }
            tables[name] = {"rows": trace.table(name).num_rows, "doc": spec.doc, "columns": columns}
    meta = {"schema_version": SCHEMA_VERSION, "header": trace.header.to_json(), "tables": tables}
    # Half a surrogate pair, which JSON may say and UTF-8 may not, stays escaped.
    text = json.dumps(meta, indent=2, ensure_ascii=False).encode(errors="backslashreplace")
    (folder / META_NAME).write_bytes(text + b"\n")
