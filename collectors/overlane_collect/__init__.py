"""Overlane's collectors and the trace contract.

Importing this package is cheap and loads no CUDA, pandas or Dash module: it is meant for the process of the
program that is being recorded. `Recorder` records, `overlane_collect.annotate.annotate` names ranges; the
tables of a trace are defined in `overlane_collect.schema`, the file in `overlane_collect.writer`.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from overlane_collect.recorder import Recorder

__all__ = ["Recorder", "__version__"]

try:
    __version__ = version("overlane")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0+unknown"


def __getattr__(name: str) -> object:
    """Load `Recorder` when it is first used: it needs NumPy, which other users of this package do not."""
    if name == "Recorder":
        from overlane_collect.recorder import Recorder  # noqa: PLC0415

        return Recorder
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
