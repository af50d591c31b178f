"""The errors that Overlane tells its users about.

Each message says what is wrong, what was found and what to do. The command line turns them into exit codes in
one place (`overlane.cli`); the dashboard shows the sentence beside the trace that it is about.
"""

from __future__ import annotations


class OverlaneError(Exception):
    """A condition that the user can act on.

    Attributes:
        exit_code: The process status that the command line ends with: 2 for wrong usage or unreadable input.
    """

    exit_code = 2


class TraceUnreadableError(OverlaneError):
    """A file cannot be read as a trace: no trace, empty, cut, damaged, not permitted, unknown version."""


class TraceInvalidError(OverlaneError):
    """Tables break the trace contract (`overlane_collect.schema`); a fault of a reader or of made-up data."""


class NotInLibraryError(OverlaneError):
    """A name does not lie in the library folder and was not given on the command line."""


class UntoldError(OverlaneError):
    """A trace has more than one analysis has room for; what does not rest on that one goes on."""

    @property
    def sentence(self) -> str:
        """What to show in place of what is not told."""
        text = str(self)
        return text[:1].upper() + text[1:] + "."


class MachineError(OverlaneError):
    """The machine cannot do what is asked: full disk, no permission for the cache, port in use."""

    exit_code = 4
