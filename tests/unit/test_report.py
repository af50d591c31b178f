"""`overlane report` as text: a section without rows says why it is empty."""

import pytest

from overlane.cli import main
from overlane.tables import table_from_columns
from overlane_collect.model import Header
from overlane_collect.writer import write_trace


@pytest.fixture
def report(tmp_path, capsys):
    """Print the report of operations given as (device, engine, start, end)."""

    def run(*ops, arguments=()):
        path = tmp_path / "made.overlane"
        device, engine, start, end = zip(*ops, strict=True)
        columns = {"device_id": device, "stream_id": device, "engine": engine, "kind": ["kernel"] * len(ops)}
        columns |= {"name": ["x"] * len(ops), "start_ns": start, "end_ns": end}
        rows = table_from_columns("ops", {name: list(values) for name, values in columns.items()})
        write_trace(path, Header("overlane"), {"ops": rows})
        assert main(["report", str(path), *arguments]) == 0
        return capsys.readouterr().out

    return run


@pytest.mark.parametrize("form", [[], ["--markdown"]])
@pytest.mark.parametrize(
    ("section", "title", "reason"),
    [
        ("overlap", "Overlap of engines", "Only one engine was used, so nothing can overlap."),
        ("exposed", "Exposed copies", "No copy engine was used, so no copy can be exposed."),
    ],
)
def test_one_engine(report, section, title, reason, form):
    out = report((0, "compute", 0, 10), arguments=["--section", section, *form])
    mark = "## " if form else ""
    assert out.endswith(f"\n{mark}{title}\n\n{reason}\n")


def test_a_window_without_operations(report):
    ops = [(0, "compute", 0, 10), (0, "copy_h2d", 90, 100)]
    out = report(*ops, arguments=["--window", "20:80"])
    assert "\nEngines\n\nNo engine was used.\n" in out
    assert "No engine was used, so nothing can overlap." in out
    assert "No copy engine was used, so no copy can be exposed." in out


def test_only_the_device_without_rows_is_explained(report):
    ops = [(0, "compute", 0, 10), (1, "compute", 0, 10), (1, "copy_h2d", 5, 10)]
    out = report(*ops, arguments=["--section", "overlap"])
    assert out.count("nothing can overlap") == 1
    assert "\ndevice 0: Only one engine was used, so nothing can overlap.\n" in out
    assert "copy_h2d" in out
