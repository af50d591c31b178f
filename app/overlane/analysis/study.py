"""All analyses of one trace and one window, each computed once: the door for commands and pages."""

from __future__ import annotations

from functools import cached_property

from overlane.analysis.engines import EngineReport, engine_report
from overlane.trace import Trace

__all__ = ["Study"]


class Study:
    """The analyses of a trace, computed when first asked for.

    Args:
        trace: What to analyse.
        window: Start and end in ns from the trace's origin; None for all of it.

    Attributes:
        trace: What is analysed.
        window: The window that was asked for.
    """

    def __init__(self, trace: Trace, *, window: tuple[int, int] | None = None) -> None:
        self.trace = trace
        self.window = window

    @cached_property
    def engines(self) -> EngineReport:
        """How the engines shared the time.

        Raises:
            OverlaneError: The window is empty.
        """
        return engine_report(self.trace, window=self.window)
