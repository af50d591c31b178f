"""From a journal's frames to the tables of the trace contract."""

from __future__ import annotations

from overlane_collect.decoding.trace import decode_journal

__all__ = ["decode_journal"]
