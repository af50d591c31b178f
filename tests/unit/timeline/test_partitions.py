"""What the timeline shows of partitions and blocks, on a recording with two green contexts."""

from __future__ import annotations

import json

import pytest

from overlane.readers import open_trace
from overlane.samples import sample_path
from overlane.timeline import Timeline
from overlane.timeline.groups import spans, tpcs_of


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    trace = open_trace(sample_path("green-context-A"))
    folder = tmp_path_factory.mktemp("index")
    Timeline.build(trace, None, folder)
    return trace, Timeline.open(trace, None, folder)


def test_partitions_say_what_they_asked_for_and_got(shown):
    trace, timeline = shown
    groups = {group["label"]: group for group in timeline.meta()["groups"]}
    rows = [row for row in trace.table("partitions").to_pylist() if row["tpc_mask"]]
    assert len(rows) == 2
    for row in rows:
        group = groups[f"Green context {row['context_id']} · {row['sm_granted']} SMs"]
        mask = format(sum(1 << tpc for tpc in group["tpcs"]), "x")
        assert mask == row["tpc_mask"]
        assert group["tpc_count"] == 66
        for words in (
            row["name"],
            f"asked for {row['sm_requested']} SMs, granted {row['sm_granted']}",
            "TPCs",
        ):
            assert words in group["sublabel"]


@pytest.mark.parametrize(("mask", "tpcs"), [(None, ()), ("", ()), ("zz", ()), ("0", ()), ("b", (0, 1, 3))])
def test_masks_are_read(mask, tpcs):
    assert tpcs_of(mask) == tpcs


def test_numbers_are_joined():
    assert spans((0, 1, 2, 5, 7, 8)) == "0-2, 5, 7-8"
    assert spans(()) == ""


def test_blocks_have_the_names_of_their_kernels(shown):
    trace, timeline = shown
    of_blocks = [lane for lane in timeline.meta()["lanes"] if lane["table"] == "blocks"]
    lanes = [lane["first"] + k for lane in of_blocks for k in range(lane["sublanes"])]
    assert lanes
    tile = timeline.tile(0, trace.span_ns, 1_000_000, lanes)
    names = json.loads(tile.names)
    assert len(tile) == trace.table("blocks").num_rows
    for at in range(0, len(tile), 37):
        op = trace.table("blocks")["op_id"][int(tile.row[at])].as_py()
        assert names[str(tile.name[at])] in trace.table("ops")["name"][op].as_py()
