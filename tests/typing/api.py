"""The public surface as a user's program sees it; checked by mypy in strict mode, never run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, assert_type

import overlane
from overlane.analysis.changes import Comparison
from overlane.analysis.engines import DeviceReport, EngineReport, engine_report
from overlane_collect.model import Header
from overlane_collect.schema import TABLES, TableSpec
from overlane_collect.writer import read_members, write_trace

if TYPE_CHECKING:
    import pandas as pd


def use(path: Path) -> None:
    """Touch every public name."""
    assert_type(overlane.__version__, str)
    try:
        trace = overlane.open_trace(path, progress=lambda fraction: None)
    except overlane.OverlaneError as error:
        assert_type(error.exit_code, int)
        return
    assert_type(trace, overlane.Trace)
    assert_type(trace.span_ns, int)
    assert_type(trace.ranks, tuple[int | None, ...])
    assert_type(trace.header, Header)
    frame: pd.DataFrame = trace.ops
    frame = trace.view("api_calls")
    frame.head()
    report = engine_report(trace, window=(0, 10))
    assert_type(report, EngineReport)
    assert_type(report.devices, tuple[DeviceReport, ...])
    assert_type(report.devices[0].busy_ns, int)
    compared = overlane.compare([trace, path], "before.overlane", level=0.9, accept=["drivers"])
    assert_type(compared, Comparison)
    assert_type(compared.operations[0].verdict.reason, str)
    assert_type(compared.metrics[0].baseline, float | None)
    assert_type(TABLES["ops"], TableSpec)
    header, tables = read_members(path)
    write_trace(path, header, tables)
