"""Analyses: pure functions of a `Trace` with frozen results."""
