"""How a buffer of CUPTI is cut into records, for the newest and for older libraries."""

import numpy as np
import pytest

from overlane_collect.activities import (
    LAYOUTS,
    Kind,
    RecordSizeError,
    layout_dtype,
    pack_records,
    split_buffer,
)


def buffer_of(*parts):
    """Lay records behind each other and return the words, and where each kind's length can be asked."""
    data = b"".join(part.tobytes() for part in parts)
    lengths, position = {}, 0
    for part in parts:
        for _ in range(len(part)):
            lengths[position] = part.dtype.itemsize
            position += part.dtype.itemsize
    return np.frombuffer(data, np.uint64).copy(), lengths


def kernels(*starts, record_bytes=None):
    rows = [{"start": s, "end": s + 5, "priority": -3} for s in starts]
    if record_bytes is not None and record_bytes < 224:
        rows = [{k: v for k, v in row.items() if k != "priority"} for row in rows]
    return pack_records(Kind.CONCURRENT_KERNEL, rows, record_bytes)


def calls(*starts):
    return pack_records(Kind.RUNTIME, [{"start": s, "end": s + 1, "correlation_id": s} for s in starts])


def test_mixed_records_are_sorted_by_kind_in_their_order():
    words, lengths = buffer_of(calls(1, 2), kernels(10), calls(3), kernels(20, 30))
    asked = []
    parts = split_buffer(words, {}, lambda offset: asked.append(offset) or lengths[offset])
    assert parts[Kind.RUNTIME]["start"].tolist() == [1, 2, 3]
    assert parts[Kind.CONCURRENT_KERNEL]["start"].tolist() == [10, 20, 30]
    assert asked == [0, 80]  # once per kind, not per record


@pytest.mark.parametrize(
    ("record_bytes", "has_priority"), [(208, False), (216, False), (224, True), (248, True)]
)
def test_the_length_of_the_records_decides_which_fields_are_there(record_bytes, has_priority):
    words, lengths = buffer_of(kernels(10, 20, record_bytes=record_bytes))
    part = split_buffer(words, {}, lengths.__getitem__)[Kind.CONCURRENT_KERNEL]
    assert part["start"].tolist() == [10, 20]
    assert ("priority" in part.dtype.names) == has_priority


def test_kinds_without_a_layout_are_stepped_over():
    odd = np.array([[77, 5, 6], [77, 7, 8]], np.uint64)
    data = np.concatenate([odd[0], calls(4).view(np.uint64), odd[1]])
    lengths = {0: 24, 24: 40, 64: 24}
    parts = split_buffer(data, {}, lengths.__getitem__)
    assert parts[77].tolist() == odd.tolist()
    assert parts[Kind.RUNTIME]["start"].tolist() == [4]


@pytest.mark.parametrize("length", [0, -8, 12, 1 << 20])
def test_an_impossible_length_is_refused(length):
    words, _ = buffer_of(calls(1))
    with pytest.raises(RecordSizeError, match=r"records of kind 5 would be"):
        split_buffer(words, {}, lambda _: length)


def test_records_that_do_not_fill_the_buffer_are_refused():
    words, _ = buffer_of(calls(1, 2))
    with pytest.raises(RecordSizeError, match="end at byte"):
        split_buffer(words, {Kind.RUNTIME: 48}, lambda _: 48)


def test_layouts_agree_with_cupti_python():
    cupti = pytest.importorskip("cupti.cupti")
    newest = {
        Kind.CONCURRENT_KERNEL: "kernel13",
        Kind.MEMCPY: "memcpy7",
        Kind.MEMCPY2: "memcpy_pto_p4",
        Kind.MEMSET: "memset5",
        Kind.RUNTIME: "api",
        Kind.SYNCHRONIZATION: "synchronization2",
        Kind.CUDA_EVENT: "cuda_event2",
        Kind.STREAM: "stream",
        Kind.CONTEXT: "context4",
        Kind.GREEN_CONTEXT: "green_context3",
        Kind.DEVICE: "device6",
        Kind.MARKER: "marker2",
        Kind.OVERHEAD: "overhead3",
        Kind.MEMORY2: "memory4",
        Kind.HOST_LAUNCH: "host_launch",
        Kind.GRAPH_HOST_NODE: "graph_host_node",
        Kind.EXTERNAL_CORRELATION: "external_correlation",
    }
    for kind, name in newest.items():
        theirs = getattr(cupti, f"activity_{name}_dtype")
        places = {offset: form.itemsize for form, offset in theirs.fields.values()}
        for field, (form, offset) in LAYOUTS[kind].fields.items():
            item = np.dtype(form).base
            assert offset in places, (name, field)
            assert item.itemsize <= places[offset] or places[offset] in (4, 8, 12, 128), (name, field)
        assert layout_dtype(kind, theirs.itemsize).itemsize == theirs.itemsize
