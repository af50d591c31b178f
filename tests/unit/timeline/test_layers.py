"""The list of layers: one entry draws a table, and what stands in the list is complete."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import overlane.timeline
from overlane.timeline import layers, tracks
from overlane.timeline import timeline as timeline_module
from overlane.timeline.categories import CODES
from overlane.timeline.columns import one_category
from overlane.timeline.lanes import Lane
from overlane_collect.schema import TABLES
from unit.timeline.traces import lane, make_trace, open_timeline, tree

SYNC = {"process_id": 1, "thread_id": 2, "device_id": 0, "context_id": 1, "stream_id": 7}


def stream_wait(groups, device, context, stream):
    return Lane(f"w:{device}:{stream}", groups.partition(device, context, stream), "waits", "ranges", "syncs")


def wait_kind(**options):
    key = ("device_id", "context_id", "stream_id")
    return layers.LayerKind("waits", "syncs", key, stream_wait, lambda _: one_category("sync"), **options)


@pytest.fixture
def syncs():
    return make_trace(syncs=[
        {**SYNC, "start_ns": 0, "end_ns": 10},
        {**SYNC, "start_ns": 5, "end_ns": 12},
        {**SYNC, "start_ns": 20, "end_ns": 30, "stream_id": None},
    ])  # fmt: skip


def add(monkeypatch, *kinds):
    for module in (tracks, timeline_module):
        monkeypatch.setattr(module, "LAYERS", (*layers.LAYERS, *kinds))


def test_one_more_entry_draws_a_table_and_finds_its_rows(monkeypatch, syncs):
    kinds = [kind for kind in layers.LAYERS if kind.table != "syncs"]
    for module in (tracks, timeline_module):
        monkeypatch.setattr(module, "LAYERS", (*kinds, wait_kind()))
    timeline = open_timeline(syncs)
    assert tree(timeline) == ["GPU 0 / Streams / waits (2)", "GPU 0 / Streams / waits (1)"]
    waits = lane(timeline, "w:0:7")
    assert (waits["layer"], waits["sublanes"]) == ("waits", 2)
    assert timeline.locate("syncs", 1) == (waits["first"] + 1, 5, 12)
    assert timeline.locate("syncs", 2) == (lane(timeline, "w:0:None")["first"], 20, 30)


def test_a_second_layer_of_a_table_is_drawn_beside_the_first(monkeypatch, syncs):
    add(monkeypatch, wait_kind(is_union=True))
    timeline = open_timeline(syncs)
    assert [each["layer"] for each in timeline.meta()["lanes"]] == ["waits", "waits", "synchronizations"]
    tile = timeline.tile(0, 100, 1_000, [lane(timeline, "w:0:7")["first"]])
    assert (tile.start_ns.tolist(), tile.end_ns.tolist(), tile.count.tolist()) == ([0], [12], [2])
    assert tile.category.tolist() == [CODES["sync"]]
    calls = lane(timeline, "y:1:2")
    assert timeline.locate("syncs", 0) == (calls["first"], 0, 10)


def test_the_list_names_tables_and_columns_of_the_contract():
    names = [kind.name for kind in layers.LAYERS]
    assert len(set(names)) == len(names)
    for kind in layers.LAYERS:
        columns = {column.name for column in TABLES[kind.table].columns}
        if kind.name != "blocks":  # these take the device from their operation
            assert set(kind.key) <= columns
        assert kind.names is None or kind.names in columns
    assert layers.NAME_COLUMNS == {
        "ops": "name", "api_calls": "name", "syncs": "sync_kind", "ranges": "name", "instants": "name",
        "overheads": "kind",
    }  # fmt: skip


def test_every_lane_says_its_layer():
    trace = make_trace(
        ops=[
            {"device_id": 0, "context_id": 1, "stream_id": 7, "engine": "compute", "start_ns": 0, "end_ns": 9}
        ]
    )
    assert [each["layer"] for each in open_timeline(trace).meta()["lanes"]] == [
        "all work", "engines", "streams"
    ]  # fmt: skip


def test_the_timeline_needs_nothing_of_the_figures():
    for path in sorted(Path(overlane.timeline.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            module = getattr(node, "module", None) if isinstance(node, ast.ImportFrom) else None
            assert not (module or "").startswith(("overlane.figures", "overlane.ui")), path


def test_the_palette_takes_the_words_of_engines_and_loads_no_compiled_code():
    code = (
        "import sys; from overlane.figures.palette import engine_label; "
        "assert engine_label.__module__ == 'overlane.timeline.categories'; "
        "assert not {'numba', 'numpy', 'pyarrow'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
