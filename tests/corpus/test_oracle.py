"""The oracle itself against figures worked by hand, and against counting every single nanosecond."""

from __future__ import annotations

import random
from itertools import combinations, groupby

import pytest

from helpers.oracle import measure, measure_by_unions, nanoseconds, read_text


def test_two_engines_by_hand():
    #        0    2    4    6    8    10   12   14
    # comp   [---------)         [----)                0-4, 8-10
    # h2d         [---------)                          2-6
    # h2d              [----)                          4-6
    # set                                  [----)      12-14
    truth = measure(
        [(0, 4, "compute"), (8, 10, "compute"), (2, 6, "copy_h2d"), (4, 6, "copy_h2d"), (12, 14, "memset")]
    )
    assert truth.window == (0, 14)
    assert truth.busy_ns == 10  # 0-6, 8-10, 12-14
    assert truth.idle_ns == 4
    assert truth.engine_busy_ns == {"compute": 6, "copy_h2d": 4, "memset": 2}
    assert truth.engine_work_ns == {"compute": 6, "copy_h2d": 6, "memset": 2}
    assert truth.engine_ops == {"compute": 2, "copy_h2d": 2, "memset": 1}
    assert truth.overlap_ns == {
        ("compute", "copy_h2d"): 2,
        ("compute", "memset"): 0,
        ("copy_h2d", "memset"): 0,
    }
    assert truth.exposed_copy_ns == 2  # 4-6; 2-4 is hidden behind the kernel
    assert truth.concurrency_ns == {0: 4, 1: 6, 2: 4}  # two at once: 2-4 and 4-6


def test_a_wider_window_is_idle_outside():
    truth = measure([(10, 14, "compute")], (0, 20))
    assert (truth.window, truth.busy_ns, truth.idle_ns, truth.concurrency_ns) == (
        (0, 20),
        4,
        16,
        {0: 16, 1: 4},
    )


def test_longest_stretches_by_hand():
    truth = measure([(0, 4, "compute"), (4, 6, "compute"), (5, 7, "copy_h2d"), (10, 11, "compute")])
    assert truth.longest_ns == {
        "busy": 7,
        "idle": 3,
        "exposed": 1,
        ("compute",): 6,
        ("copy_h2d",): 2,
        ("compute", "copy_h2d"): 1,
        0: 3,
        1: 5,
        2: 1,
    }


def test_touching_intervals_do_not_overlap():
    truth = measure([(0, 5, "compute"), (5, 9, "copy_d2h")])
    assert truth.busy_ns == 9
    assert truth.overlap_ns == {("compute", "copy_d2h"): 0}
    assert truth.concurrency_ns == {1: 9}
    assert truth.exposed_copy_ns == 4


def test_nested_equal_and_zero_length_intervals():
    truth = measure(
        [(0, 10, "compute"), (2, 4, "compute"), (2, 4, "compute"), (7, 7, "memset"), (20, 20, "memset")]
    )
    assert truth.window == (0, 20)  # a zero-length operation is an operation: it stretches the window
    assert truth.busy_ns == 10
    assert truth.idle_ns == 10
    assert truth.engine_busy_ns == {"compute": 10, "memset": 0}
    assert truth.engine_work_ns == {"compute": 14, "memset": 0}
    assert truth.concurrency_ns == {0: 10, 1: 8, 3: 2}


def test_a_single_zero_length_operation():
    truth = measure([(5, 5, "compute")])
    assert (truth.window, truth.busy_ns, truth.idle_ns, truth.concurrency_ns) == ((5, 5), 0, 0, {})


@pytest.mark.parametrize("seed", range(40))
def test_equals_counting_every_nanosecond(seed):
    random_numbers = random.Random(seed)
    engines = ["compute", "copy_h2d", "copy_d2h", "memset", None]
    rows = []
    for _ in range(random_numbers.randint(1, 14)):
        start = random_numbers.randint(0, 40)
        rows.append((start, start + random_numbers.choice([0, 0, 1, 3, 9]), random_numbers.choice(engines)))
    first, last = min(a for a, _, _ in rows), max(b for _, b, _ in rows)
    at = [[e for a, b, e in rows if a <= t < b] for t in range(first, last)]
    truth = measure(rows)
    assert truth.busy_ns == sum(bool(now) for now in at)
    assert truth.idle_ns == sum(not now for now in at)
    for engine in {e for *_, e in rows}:
        assert truth.engine_busy_ns[engine] == sum(engine in now for now in at)
    for pair, overlap in truth.overlap_ns.items():
        assert overlap == sum(set(pair) <= set(now) for now in at)
    assert len(truth.overlap_ns) == len(list(combinations({e for *_, e in rows}, 2)))
    runs = [len(list(group)) for is_busy, group in groupby(at, key=bool) if is_busy]
    assert truth.longest_ns.get("busy", 0) == max(runs, default=0)
    copies = {"copy_h2d", "copy_d2h"}
    assert truth.exposed_copy_ns == sum(bool(copies & set(now)) and "compute" not in now for now in at)
    assert measure_by_unions(rows) == {name: getattr(truth, name) for name in measure_by_unions(rows)}
    for open_operations, length in truth.concurrency_ns.items():
        assert length == sum(len(now) == open_operations for now in at)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1606911006433418", 1606911006433418000),
        ("1718293847561234.567", 1718293847561234567),  # a float64 is 57 ns off here
        ("5174031605284.5", 5174031605284500),
        ("0.001", 1),
        ("-5", -5000),
        ("4.2e1", 42000),
    ],
)
def test_stamps_are_exact(text, expected):
    assert nanoseconds(text) == expected


def test_stamp_below_a_nanosecond_is_refused():
    with pytest.raises(ValueError, match="whole number"):
        nanoseconds("0.0005")


FIVE_EVENTS = """
{"schemaVersion": 1, "distributedInfo": {"rank": 3}, "deviceProperties": [{"id": 1}], "traceEvents": [
  {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "ts": 0, "args": {"name": "python"}},
  {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9,
   "ts": 1718293847561234.001, "dur": 0.5, "args": {"correlation": 7}},
  {"ph": "s", "id": 7, "pid": 9, "tid": 9, "ts": 1718293847561234.001, "cat": "ac2g", "name": "ac2g"},
  {"ph": "X", "cat": "kernel", "name": "k", "pid": 1, "tid": 7, "ts": 1718293847561236.000, "dur": 1.250,
   "args": {"device": 1, "stream": 7, "correlation": 7}},
  {"ph": "X", "cat": "gpu_user_annotation", "name": "step", "pid": 1, "tid": 7,
   "ts": 1718293847561235.5, "dur": 9},
  {}
], "traceName": "x", "baseTimeNanoseconds": 5}
"""


def test_reading_by_hand():
    truth = read_text(FIVE_EVENTS)
    assert truth.events == 6
    assert truth.rank == 3
    assert truth.base_ns == 5
    assert truth.origin_ns == 1718293847561234001
    assert truth.fates == {"metadata": 1, "api_calls": 1, "flow": 1, "ops": 1, "ranges": 1, "empty": 1}
    assert truth.intervals == {
        "api_calls": [(0, 500, "cudaLaunchKernel")],
        "ops": [(1999, 3249, "k")],
        "ranges": [(1499, 10499, "step")],
    }
    (op,) = truth.ops
    assert (op.device, op.stream, op.engine, op.correlation) == (1, 7, "compute", 7)
    assert truth.devices[1].busy_ns == 1250  # the annotation repeats device time and is not counted


def test_bare_list_and_empty_list():
    assert read_text('[{"ph": "i", "name": "here", "ts": 12, "pid": 0, "tid": 0}]').fates == {"instants": 1}
    assert read_text("[]").events == 0
    assert read_text('{"traceEvents": []}').devices == {}


def test_derived_rows_are_counted_by_hand():
    def call(number, name, at):
        return (
            f'{{"ph": "X", "cat": "cuda_runtime", "name": "{name}", "ts": {at}, "dur": 1,'
            f' "args": {{"correlation": {number}}}}}'
        )

    def wait(number):
        return (
            '{"ph": "X", "cat": "cuda_sync", "name": "Stream Wait Event", "ts": 9, "dur": 1,'
            f' "args": {{"wait_on_cuda_event_record_corr_id": {number}}}}}'
        )

    events = [
        call(1, "cudaEventRecord", 1), wait(1), wait(1),  # one row, however many wait for it
        call(2, "cudaEventRecordWithFlags", 2),  # nothing names it
        call(3, "cudaLaunchKernel", 3), wait(3), wait(99), wait(-1),  # these name no record
        call(4, "cudaEventRecord", 4), wait(4),
        '{"ph": "X", "cat": "cuda_event", "name": "e", "ts": 4, "dur": 0, "args": {"correlation": 4}}',
        '{"ph": "C", "name": "m", "ts": 5, "args": {"a": 1, "b": 2.5, "c": "x", "d": true, "e": 3}}',
        '{"ph": "C", "name": "m", "ts": 6, "args": {"a": 1}}',
        '{"ph": "C", "name": "m", "ts": 7, "args": {"c": "x"}}',
    ]  # fmt: skip
    truth = read_text("[" + ",".join(events) + "]")
    assert truth.derived == {"event_records": 1, "counters": 2}
    assert (truth.fates["counters"], truth.fates["no_series"]) == (2, 1)
