"""Where a command may write: whole files and folders that replace nothing unless asked to."""

from __future__ import annotations

from pathlib import Path

from overlane.errors import OverlaneError

__all__ = ["check_target"]


def check_target(target: Path, form: str, *, is_file: bool, replaces: bool) -> None:
    """Refuse a place that cannot be written to, before any work is done.

    Args:
        target: File or folder to write.
        form: What is written, for the sentence.
        is_file: It is one file, not a folder.
        replaces: It may exist.

    Raises:
        OverlaneError: It exists, is of the wrong sort, or its folder is not there.
    """
    try:
        _check(target, form, is_file=is_file, replaces=replaces)
    except OSError as error:  # a folder on the way may not be entered, or the name is too long
        raise OverlaneError(
            f"{target} cannot be reached: {error.strerror or error}; "
            "change the permissions of its folder or choose another place"
        ) from error


def _check(target: Path, form: str, *, is_file: bool, replaces: bool) -> None:
    if target.exists() and not replaces:
        raise OverlaneError(f"{target} exists; choose another name, or replace it with --force")
    if target.exists() and not target.is_file() and not target.is_dir():
        raise OverlaneError(f"{target} is a device or pipe; give the name of a file or folder")
    if is_file and target.is_dir():
        raise OverlaneError(f"{target} is a folder and {form} is written as one file; give its name")
    if not target.absolute().parent.is_dir():
        raise OverlaneError(f"the folder {target.absolute().parent} does not exist; make it first")
