"""Where to keep what can be made again: opened traces, and compiled code that numba finds no place for."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from pathlib import Path

__all__ = ["cache_folder", "place_compiled_code"]

_VARIABLE = "NUMBA_CACHE_DIR"


def cache_folder() -> Path:
    """Return the folder to keep entries in: `OVERLANE_CACHE_DIR`, else `overlane` in the XDG cache folder."""
    named = os.environ.get("OVERLANE_CACHE_DIR")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path("~").expanduser() / ".cache") / "overlane"


def place_compiled_code() -> None:
    """Name a folder for compiled code where numba would find none; to be called before numba is imported.

    Numba keeps it beside the sources or in the user's cache folder and refuses to work where it may write to
    neither, as for a service without a home over an installed package. A user's own choice stands.
    """
    package = Path(__file__).parent
    if os.environ.get(_VARIABLE) or _may_write(package / "__pycache__") or _may_write(_numbas_own()):
        return
    chosen = cache_folder() / "numba"
    if not _may_write(chosen):
        chosen = _private_folder()
    os.environ[_VARIABLE] = str(chosen)  # for processes started from this one, too
    if "numba" in sys.modules:
        sys.modules["numba"].config.CACHE_DIR = str(chosen)


def _numbas_own() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path("~").expanduser() / ".cache") / "numba"


def _may_write(folder: Path) -> bool:
    """Tell whether files can be made in a folder, which need not exist yet."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return os.access(folder, os.W_OK | os.X_OK)


def _private_folder() -> Path:
    """Return a temporary folder that only this user can write to: what lies in it is run."""
    folder = Path(tempfile.gettempdir()) / f"overlane-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        facts = folder.lstat()
        is_ours = stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid()
        if is_ours and not facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return folder
    except OSError:  # something else has the name
        pass
    return Path(tempfile.mkdtemp(prefix="overlane-"))
