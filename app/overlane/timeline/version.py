"""The version of the stored index, apart so that a look-up in the cache loads no compiled code."""

from __future__ import annotations

__all__ = ["INDEX_VERSION"]

INDEX_VERSION = 6
"""A cache entry of another version is built anew. Raise it when lanes or stored arrays change."""
