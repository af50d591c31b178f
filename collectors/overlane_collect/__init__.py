"""Overlane's collectors and the trace contract.

Importing this package is cheap and loads no CUDA, pandas or Dash module: it is meant for the process of the
program that is being recorded. The tables of a trace are defined in `overlane_collect.schema`, the file in
`overlane_collect.writer`.
"""

from __future__ import annotations

__all__ = ["__version__"]

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("overlane")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0+unknown"
