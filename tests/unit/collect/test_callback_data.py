"""What CUPTI's callbacks give, read from memory laid out by hand, and the tables that are made of it."""

import ctypes
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlane_collect._callbacks import ApiCall, Callbacks
from overlane_collect.activities import Kind, pack_records
from overlane_collect.backends.arguments import moves, pointer_values
from overlane_collect.backends.triggers import watch_profiler_calls, watch_ranges
from overlane_collect.decoding.columns import Column
from overlane_collect.decoding.counters import counters
from overlane_collect.decoding.frames import Gathered
from overlane_collect.decoding.graphs import edges
from overlane_collect.decoding.inferred import inferred


class Library:
    """Stands in for CUPTI: keeps what is enabled, and calls back when told to."""

    def __init__(self):
        self.enabled = set()

    def subscribe(self, called):
        self.called = called

    def enable_callback(self, domain, number, *, enable):
        (self.enabled.add if enable else self.enabled.discard)((domain, number))
        return True

    def call(self, domain, number, data):
        if (domain, number) in self.enabled:
            self.called(None, domain, number, ctypes.addressof(data))


def words(*values):
    return (ctypes.c_uint64 * len(values))(*values)


class Nvtx:
    """A program that calls NVTX."""

    def __init__(self, library):
        self.library, self.kept = library, []

    def text(self, value):
        self.kept.append(ctypes.create_string_buffer(value.encode()))
        return ctypes.addressof(self.kept[-1])

    def call(self, number, parameters, returned=0):
        result = words(returned)
        data = words(0, ctypes.addressof(parameters), ctypes.addressof(result))
        self.kept += [parameters, result]
        self.library.call(5, number, data)

    def attributes(self, message_type, message):
        data = words(*[0] * 4, message_type, message)  # 32 bytes come before the message's type
        self.kept.append(data)
        return ctypes.addressof(data)


def watched(name):
    library, log = Library(), []
    watch_ranges(Callbacks(library), name, lambda: log.append("begin"), lambda: log.append("end"))
    return Nvtx(library), log


def test_pushed_ranges_end_with_their_own_pop():
    nvtx, log = watched("mine")
    for name in ("outer", "mine", "inner"):
        nvtx.call(8, words(nvtx.text(name)))
    assert log == ["begin"]
    nvtx.call(11, words(0))
    assert log == ["begin"]
    nvtx.call(11, words(0))
    assert log == ["begin", "end"]
    nvtx.call(11, words(0))
    nvtx.call(11, words(0))
    assert log == ["begin", "end"]


def test_a_pop_of_another_thread_or_domain_ends_nothing():
    nvtx, log = watched("mine")
    nvtx.call(33, words(70, nvtx.attributes(1, nvtx.text("mine"))))
    nvtx.call(34, words(71))
    nvtx.call(11, words(0))
    thread = threading.Thread(target=nvtx.call, args=(34, words(70)))
    thread.start()
    thread.join()
    assert log == ["begin"]
    nvtx.call(34, words(70))
    assert log == ["begin", "end"]


def test_registered_texts_and_started_ranges_are_known_by_their_handles():
    nvtx, log = watched("mine")
    nvtx.call(39, words(70, nvtx.text("mine")), returned=500)
    nvtx.call(39, words(70, nvtx.text("other")), returned=501)
    nvtx.call(31, words(70, nvtx.attributes(3, 501)), returned=8)
    nvtx.call(31, words(70, nvtx.attributes(3, 500)), returned=9)
    nvtx.call(32, words(70, 8))
    assert log == ["begin"]
    nvtx.call(32, words(70, 9))
    nvtx.call(32, words(70, 9))
    assert log == ["begin", "end"]


def test_the_profiler_starts_after_its_call_and_stops_before_it():
    library, log = Library(), []
    watch_profiler_calls(Callbacks(library), lambda: log.append("begin"), lambda: log.append("end"))
    for number in (308, 309):
        for site in (0, 1):
            library.call(1, number, ApiCall(site=site))
            log.append((number, site))
    assert log == [(308, 0), "begin", (308, 1), "end", (309, 0), (309, 1)]


def test_a_failing_handler_is_noted_and_does_not_reach_the_library():
    library = Library()
    callbacks = Callbacks(library)
    callbacks.on(1, (5,), lambda data: 1 // 0)
    library.call(1, 5, ApiCall())
    callbacks.off(1, (5,))
    library.call(1, 5, ApiCall())
    assert callbacks.failures == ["ZeroDivisionError: integer division or modulo by zero"]


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("cuMemcpyHtoDAsync_v2", (100, 200, 64, 7), [("write", 100, 64), ("read", 200, 64)]),
        ("cuMemcpyDtoH_v2", (100, 200, 64), [("write", 100, 64), ("read", 200, 64)]),
        ("cuMemcpyAsync_ptsz", (100, 200, 64, 7), [("write", 100, 64), ("read", 200, 64)]),
        ("cuMemcpyPeerAsync", (100, 1, 200, 2, 64, 7), [("write", 100, 64), ("read", 200, 64)]),
        ("cuMemsetD32Async", (100, 3, 10, 7), [("write", 100, 40)]),
        ("cuMemsetD16_v2", (100, 3, 10), [("write", 100, 20)]),
        ("cuMemcpyHtoDAsync_v2", (100, 200, 0, 7), []),
        ("cuMemcpy2DAsync_v2", (100, 200, 64, 7), []),
    ],
)
def test_copies_and_memsets_name_their_memory(name, arguments, expected):
    assert moves(name, ctypes.addressof(words(*arguments))) == expected


def test_pointers_are_found_in_parameters_and_in_structures_passed_by_value():
    one, few, small = words(0x7F0000001000), words(5, 0x7F0000002000, 0x7F0000003000), ctypes.c_int32(9)
    places = words(*map(ctypes.addressof, (one, small, few)))
    sizes = [(0, 8), (8, 4), (16, 24)]
    assert pointer_values(ctypes.addressof(places), 0, sizes) == [
        0x7F0000001000,
        0x7F0000002000,
        0x7F0000003000,
    ]
    buffer = words(0x7F0000001000, 9, 5, 0x7F0000002000, 0x7F0000003000)
    packed = words(2, 40, 1, ctypes.addressof(buffer), 0)
    assert pointer_values(0, ctypes.addressof(packed), sizes) == [
        0x7F0000001000,
        0x7F0000002000,
        0x7F0000003000,
    ]
    assert pointer_values(0, 0, sizes) == []


def fact(**columns):
    return {"fact": "x", **columns}


def allocations(rows):
    at, address, length, freed = np.asarray(rows, np.int64).reshape(-1, 4).T
    return {
        "at_ns": Column(at),
        "address": Column(address),
        "bytes": Column(length, freed != 0),
        "freed": Column(freed),
    }


@given(st.data())
def test_a_pointer_is_one_where_an_allocation_was_alive(data):
    """Against a walk over every byte and every moment."""
    changes, alive, at = [], {}, 0
    for _ in range(data.draw(st.integers(0, 8))):
        at += data.draw(st.integers(1, 3))
        free = [a for a in (100, 200, 300) if a not in alive]
        if alive and (not free or data.draw(st.booleans())):
            address = data.draw(st.sampled_from(sorted(alive)))
            changes.append((at, address, alive.pop(address), 1))
        else:
            address = data.draw(st.sampled_from(free))
            alive[address] = data.draw(st.integers(1, 20))
            changes.append((at, address, alive[address], 0))
    places = st.sampled_from([99, 100, 105, 119, 200, 219, 300, 311])
    queries = data.draw(st.lists(st.tuples(st.integers(0, 30), places), min_size=1, max_size=5))
    expected = set()
    for when, address in queries:
        memory = {}
        for time, base, length, freed in changes:
            if time <= when:
                for byte in range(base, base + length):
                    memory[byte] = None if freed else base + length
        end = memory.get(address)
        if end is not None:
            expected |= {(mode, address, min(8, end - address)) for mode in ("read", "write")}
    gathered = Gathered()
    gathered.facts["arguments"] = [
        fact(
            correlation_id=[7] * len(queries),
            at=[when for when, _ in queries],
            mode=["unknown"] * len(queries),
            address=[address for _, address in queries],
            bytes=[0] * len(queries),
        )
    ]
    draft, lost = inferred(gathered, Column(np.array([7])), allocations(changes) if changes else {})
    assert lost == 0
    found = set()
    if draft:
        modes = [draft["mode"].words[code] for code in draft["mode"].values]
        found = set(zip(modes, draft["address"].values.tolist(), draft["bytes"].values.tolist(), strict=True))
    assert found == expected


def test_copies_are_kept_whole_and_arguments_without_an_operation_are_counted():
    gathered = Gathered()
    gathered.facts["arguments"] = [
        fact(correlation_id=[5, 5, 6], at=[1, 1, 1], mode=["write", "read", "write"], address=[64, 128, 0],
             bytes=[32, 32, 4])
    ]  # fmt: skip
    draft, lost = inferred(gathered, Column(np.array([4, 5])), {})
    assert lost == 1
    assert draft["op_id"].values.tolist() == [1, 1]
    assert sorted(zip(draft["address"].values.tolist(), draft["bytes"].values.tolist(), strict=True)) == [
        (64, 32),
        (128, 32),
    ]
    assert draft["certainty"].words == ["inferred"]


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), max_size=8),
    st.permutations(range(1, 6)),
)
def test_edges_of_a_clone_are_those_of_the_original_whatever_order_its_nodes_come_in(pairs, order):
    changes = [("edge", first, second, 1) for first, second in pairs if first < second]
    changes += [("clone", node, node + 100, 2) for node in order]
    changes += [("edge", 1, 5, 1), ("clone", 1, 201, 3)]  # later ones are not the clone's
    gathered = Gathered()
    what, first, second, graph = (list(column) for column in zip(*changes, strict=True))
    gathered.facts["graph_changes"] = [fact(what=what, first=first, second=second, graph=graph)]
    ops = {
        "graph_node_id": Column(np.array([101, 102, 103, 104, 105])),
        "graph_id": Column(np.array([40] * 5)),
    }
    draft = edges(gathered, ops)
    expected = {(first + 100, second + 100) for first, second in pairs if first < second}
    found = set()
    if draft:
        assert set(draft["graph_id"].values.tolist()) == {40}
        found = set(zip(*(draft[f"{end}_node_id"].values.tolist() for end in ("from", "to")), strict=True))
    assert found == expected


def test_removed_edges_and_graphs_that_never_ran_leave_nothing():
    gathered = Gathered()
    rows = [("edge", 1, 2, 1), ("edge", 2, 3, 1), ("gone", 1, 2, 1)]
    rows += [("clone", n, n + 10, 2) for n in (1, 2, 3)]
    columns = {
        n: list(c) for n, c in zip(("what", "first", "second", "graph"), zip(*rows, strict=True), strict=True)
    }
    gathered.facts["graph_changes"] = [fact(**columns)]
    assert edges(gathered, {}) == {}
    gathered.chunks[Kind.GRAPH_HOST_NODE] = [
        pack_records(Kind.GRAPH_HOST_NODE, [{"graph_node_id": 13, "graph_id": 9}])
    ]
    draft = edges(gathered, {})
    assert [draft[n].values.tolist() for n in ("graph_id", "from_node_id", "to_node_id")] == [[9], [12], [13]]


def test_counters_add_up_and_context_switches_are_on_or_off():
    gathered = Gathered()
    rows = [
        {"counter": 1, "value": 100, "start": 10, "end": 20, "dst_id": 1},
        {"counter": 1, "value": 50, "start": 5, "end": 8, "dst_id": 1},
        {"counter": 3, "value": 0x7F00, "start": 7},
        {"counter": 3, "value": 0x7F00, "start": 9},
        {"counter": 4, "value": 6, "start": 7, "end": 9, "src_id": 1},
    ]
    gathered.chunks[Kind.MANAGED_MEMORY] = [pack_records(Kind.MANAGED_MEMORY, rows)]
    switches = [
        {"context_id": 3, "timestamp": 30, "operation": 1},
        {"context_id": 4, "timestamp": 40, "operation": 2},
    ]
    gathered.chunks[Kind.CONTEXT_SWITCH] = [pack_records(Kind.CONTEXT_SWITCH, switches)]
    draft = counters(gathered, {3: 1})
    tracks = [draft["track"].words[code] for code in draft["track"].values]
    found = list(zip(tracks, draft["at_ns"].values.tolist(), draft["value"].values.tolist(), strict=True))
    assert found == [
        ("managed memory to the device", 8, 50),
        ("managed memory to the device", 20, 150),
        ("page faults of the host", 7, 1),
        ("page faults of the host", 9, 2),
        ("page faults of the device", 9, 6),
        ("context 3 on the device", 30, 1),
        ("context 4 on the device", 40, 0),
    ]
    device = draft["device_id"]
    values = [v if k else None for v, k in zip(device.values.tolist(), device.known().tolist(), strict=True)]
    assert values == [1, 1, None, None, 1, 1, None]
