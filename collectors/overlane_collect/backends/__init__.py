"""Sources of records, each behind the same small protocol; the list of them is `BACKENDS`."""

from __future__ import annotations

from overlane_collect.backends.base import Backend, Options, Sink
from overlane_collect.backends.registry import BACKENDS, BackendRegistry

__all__ = ["BACKENDS", "Backend", "BackendRegistry", "Options", "Sink"]
