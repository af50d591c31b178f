"""Memory that is used again: never while somebody still looks at it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from overlane.timeline import encode_tile
from overlane.timeline.lending import Lender
from unit.timeline.traces import make_trace, open_timeline


def address(array):
    return array.__array_interface__["data"][0]


def test_a_block_is_lent_again_once_its_last_view_is_gone():
    lender = Lender()
    view = lender.lend(1_000)[10:20].view(np.uint16)[1:]
    first = address(view) - 12
    second = lender.lend(1_000)
    assert address(second) != first
    del view
    assert address(lender.lend(900)) == first


def test_a_block_that_is_too_small_makes_way_for_a_larger_one():
    lender = Lender()
    lender.lend(10)  # given back at once
    assert len(lender.lend(10_000)) == 10_000
    assert len(lender.lend(0)) == 0


def test_no_more_blocks_are_kept_than_asked_for():
    lender = Lender(kept=1, largest_bytes=1_000)
    blocks = [lender.lend(100), lender.lend(100), lender.lend(5_000)]
    blocks.clear()
    assert len(lender._free) == 1


def test_columns_are_apart_and_aligned():
    columns = Lender().columns(7, np.int64, np.float64, np.uint32, np.uint16, np.uint8)
    for number, column in enumerate(columns):
        assert column.shape == (7,)
        assert column.flags.aligned
        assert column.flags.writeable
        column[...] = number
    assert [set(column.tolist()) for column in columns] == [{0}, {1}, {2}, {3}, {4}]


def test_a_tile_keeps_its_values_while_others_are_asked_for():
    rng = np.random.default_rng(7)
    ops = [
        {"device_id": 0, "context_id": 1, "stream_id": 7, "start_ns": int(s), "end_ns": int(s) + 5}
        for s in np.unique(rng.integers(0, 10**5, 2_000))
    ]
    timeline = open_timeline(make_trace(ops=ops))
    windows = [(at, at + 30_000) for at in range(0, 70_000, 1_000)]
    alone = [encode_tile(timeline.tile(*window, 500)) for window in windows]
    tiles = [timeline.tile(*window, 500) for window in windows]
    starts = [timeline.tile(*window, 500).start_ns for window in windows]
    assert [encode_tile(tile) for tile in tiles] == alone
    for tile, start in zip(tiles, starts, strict=True):
        np.testing.assert_array_equal(tile.start_ns, start)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda window: encode_tile(timeline.tile(*window, 500)), windows)) == alone


def test_the_memory_of_an_answer_serves_the_next_one():
    timeline = open_timeline(make_trace(ops=[{"start_ns": 0, "end_ns": 5}]))
    first = address(timeline.tile(0, 10, 10).start_ns)
    assert address(timeline.tile(0, 10, 10).start_ns) == first
