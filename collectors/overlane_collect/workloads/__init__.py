"""Instrumented workloads: each does one thing on purpose, checks its result, and leaves a trace of it."""

from __future__ import annotations

from overlane_collect.workloads.registry import WORKLOADS, WorkloadRegistry

__all__ = ["WORKLOADS", "WorkloadRegistry"]
