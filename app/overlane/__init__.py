"""Overlane: what every CUDA stream and SM partition was doing, and why it was not doing more.

>>> import overlane
>>> trace = overlane.open_trace("run.overlane")  # doctest: +SKIP
>>> trace.ops.groupby("engine").size()  # doctest: +SKIP
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from overlane.folders import place_compiled_code

if TYPE_CHECKING:
    from overlane.analysis.compare import compare
    from overlane.errors import OverlaneError
    from overlane.readers import open_trace
    from overlane.trace import Trace

__all__ = ["OverlaneError", "Trace", "__version__", "compare", "open_trace"]

try:
    __version__ = version("overlane")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0+unknown"

place_compiled_code()

_HOMES = {
    "OverlaneError": "overlane.errors",
    "Trace": "overlane.trace",
    "compare": "overlane.analysis.compare",
    "open_trace": "overlane.readers",
}


def __getattr__(name: str) -> Any:
    """Import public names on first use: importing the package stays instant."""
    if name in _HOMES:
        from importlib import import_module  # noqa: PLC0415

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'overlane' has no attribute {name!r}")
