"""The errors that the collectors and the trace file tell their users about."""

from __future__ import annotations


class CollectError(Exception):
    """A condition that the user can act on; the message says what, what was found and what to do."""


class TraceFileError(CollectError):
    """A `.overlane` file is of an unknown version, cut, damaged, or cannot be written."""
