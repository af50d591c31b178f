# ruff: noqa: N802 - methods have the names of the driver's calls
"""The backend of CUDA events, on a driver that runs work on paper: each operation's time is known."""

import ctypes
import types

import pytest

from overlane.validation import validate
from overlane_collect import _cuda
from overlane_collect._cuda import LEGACY, Gpu, Kernel, Span
from overlane_collect.backends.cuda_events import CudaEventsBackend
from overlane_collect.errors import CollectError
from overlane_collect.recorder import Recorder
from overlane_collect.workloads.run_log import RunLog
from overlane_collect.writer import read_members

KERNEL_NS, COPY_NS, EVENT_NS = 10_000, 4_000, 100


class Status(int):
    name = "CUDA_SUCCESS"


class Driver:
    """Streams that do one thing after another, and a clock that the host's calls move by 50 ns each."""

    CUdevice_attribute = types.SimpleNamespace(
        CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT=132,
        CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT=3,
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR=9,
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR=0,
    )
    CUfunction_attribute = types.SimpleNamespace(
        CU_FUNC_ATTRIBUTE_NUM_REGS=40, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES=64
    )

    def __init__(self):
        self.clock = 1_000_000
        self.ready = {}  # stream to when it is idle
        self.events = {}  # event to when it completed
        self.capturing = False
        self.truth = []
        self.handles = 1000

    def __getattr__(self, name):
        method = type(self).__dict__.get(f"do_{name}", lambda *_: None)

        def call(*arguments):
            self.clock += 50
            given = method(self, *arguments)
            return (Status(0), *(given if isinstance(given, tuple) else () if given is None else (given,)))

        return call

    def enqueue(self, stream, length):
        begin = max(self.ready.get(stream, 0), self.clock)
        self.ready[stream] = begin + length
        return begin, begin + length

    def new(self):
        self.handles += 1
        return self.handles

    def do_cuDeviceGet(self, number):
        return number

    def do_cuDevicePrimaryCtxRetain(self, device):
        return 500 + device

    def do_cuCtxGetStreamPriorityRange(self):
        return 0, -5

    def do_cuDeviceGetAttribute(self, attribute, device):
        return attribute

    def do_cuFuncGetAttribute(self, attribute, function):
        return attribute

    def do_cuDeviceGetName(self, length, device):
        return b"Paper GPU\0" + bytes(length - 10)

    def do_cuDeviceTotalMem(self, device):
        return 1 << 30

    def do_cuStreamCreate(self, flags):
        return self.new()

    def do_cuStreamCreateWithPriority(self, flags, priority):
        return self.new()

    def do_cuEventCreate(self, flags):
        return self.new()

    def do_cuMemAlloc(self, length):
        return self.new() << 20

    def do_cuStreamIsCapturing(self, stream):
        return int(self.capturing)

    def do_cuEventRecord(self, event, stream):
        if not self.capturing:
            self.events[event] = self.enqueue(stream, EVENT_NS)[1]

    def do_cuStreamWaitEvent(self, stream, event, flags):
        self.ready[stream] = max(self.ready.get(stream, 0), self.events[event])

    def do_cuEventSynchronize(self, event):
        self.clock = max(self.clock, self.events[event])

    def do_cuStreamSynchronize(self, stream):
        self.clock = max(self.clock, self.ready[stream])

    def do_cuCtxSynchronize(self):
        self.clock = max([self.clock, *self.ready.values()])

    def do_cuEventElapsedTime(self, begin, end):
        return (self.events[end] - self.events[begin]) / 1e6

    def do_cuLaunchKernel(self, function, *rest):
        if not self.capturing:
            self.truth.append(self.enqueue(rest[7], KERNEL_NS))

    def do_cuMemcpyHtoDAsync(self, target, source, length, stream):
        self.truth.append(self.enqueue(stream, COPY_NS))


class PaperBackend(CudaEventsBackend):
    """Reads the driver's clock."""

    driver = None

    def now(self):
        return self.driver.clock

    timestamp = now


@pytest.fixture
def paper(tmp_path, monkeypatch):
    """Run a function with a Gpu on the paper driver, and return driver, header and tables."""
    driver = Driver()

    def run(program):
        backend = PaperBackend()
        backend.driver = driver
        recorder = Recorder(tmp_path / "a.overlane", backend=backend)
        recorder.start()
        log = RunLog(recorder)
        with monkeypatch.context() as patched:
            patched.setattr(_cuda.importlib, "import_module", lambda name: driver)
            gpu = Gpu(0, log)
        backend.attach(gpu)
        program(gpu)
        gpu.synchronize()
        log.finish()
        recorder.close()
        header, tables = read_members(tmp_path / "a.overlane")
        validate("a", header, tables)
        return driver, header, tables

    return run


def two_streams(gpu):
    first, second = gpu.stream("first", priority=-5), gpu.stream("second", blocking=True)
    host, device = gpu.host_memory(64, "pageable"), gpu.allocate(64)
    event = gpu.event()
    gpu.copy_up(device.span(), host.span(), first)
    gpu.launch(Kernel(7, "work"), 3, 32, first, [(1, ctypes.c_int)], writes=[device.span()])
    gpu.record(event, first)
    gpu.wait(second, event)
    gpu.launch(Kernel(7, "after"), 1, 32, second, [], reads=[Span(device.address, 8)])
    gpu.synchronize(stream=second)


def test_every_operation_lies_inside_its_bracket_and_no_more_than_an_event_is_added(paper):
    driver, header, tables = paper(two_streams)
    ops = tables["ops"].to_pylist()
    assert [op["name"] for op in ops] == ["Memcpy HtoD (Pageable -> Device)", "work", "after"]
    origin = header.clocks[0]
    assert origin.name == "host"
    error = header.extra["event_brackets"]["clock_error_ns"]
    lengths = [op["end_ns"] - op["start_ns"] for op in ops]
    assert lengths == [COPY_NS + EVENT_NS, KERNEL_NS + EVENT_NS, KERNEL_NS + EVENT_NS]
    truth = [begin - driver.truth[0][0] for begin, _ in driver.truth]
    starts = [op["start_ns"] - ops[0]["start_ns"] for op in ops]
    assert all(abs(a - b) <= 1 for a, b in zip(starts, truth, strict=True))
    assert 0 < error < 1000
    assert header.extra["event_brackets"]["empty_ns"] == EVENT_NS


def test_brackets_prove_no_times_of_the_device(paper):
    _, header, _ = paper(two_streams)
    assert not header.capabilities["device_times"].proven
    assert "waiting for SMs or a copy engine" in header.capabilities["device_times"].reason
    assert header.extra["cupti_version"] is None
    assert {c.status for c in header.integrity} == {"ok"}


def test_streams_calls_and_the_order_by_the_event_are_there(paper):
    _, _, tables = paper(two_streams)
    streams = {s["name"]: s for s in tables["streams"].to_pylist()}
    assert (streams["first"]["stream_kind"], streams["first"]["priority"]) == ("nonblocking", -5)
    assert streams["second"]["stream_kind"] == "blocking"
    (record,) = tables["event_records"].to_pylist()
    wait, host = (s for s in tables["syncs"].to_pylist() if s["sync_kind"] != "context")
    assert (wait["sync_kind"], host["sync_kind"]) == ("stream_wait_event", "stream")
    assert wait["waits_on_stream_id"] == record["stream_id"] == streams["first"]["stream_id"]
    assert wait["waits_on_correlation_id"] == record["correlation_id"]
    assert wait["stream_id"] == host["stream_id"] == streams["second"]["stream_id"]
    names = [call["name"] for call in tables["api_calls"].to_pylist()]
    assert names.count("cuEventRecord") == 1, "the backend's own events are no calls of the workload"
    calls = {call["correlation_id"]: call["name"] for call in tables["api_calls"].to_pylist()}
    assert [calls[op["correlation_id"]] for op in tables["ops"].to_pylist()] == [
        "cuMemcpyHtoDAsync",
        "cuLaunchKernel",
        "cuLaunchKernel",
    ]
    kernel = tables["ops"].to_pylist()[1]
    assert (kernel["grid"], kernel["registers"], kernel["shared_bytes"]) == ([3, 1, 1], 40, 64)
    accesses = sorted((a["op_id"], a["mode"], a["certainty"]) for a in tables["accesses"].to_pylist())
    assert accesses == [(0, "read", "declared"), (0, "write", "declared"), (1, "write", "declared"),
                        (2, "read", "declared")]  # fmt: skip
    assert tables["devices"].to_pylist()[0]["name"] == "Paper GPU"


def test_what_is_captured_has_no_bracket_and_the_graph_has_one(paper):
    def program(gpu):
        stream = gpu.stream("main")
        gpu.driver.capturing = True
        gpu.launch(Kernel(7, "work"), 1, 32, stream, [])
        gpu.record(gpu.event(), stream)
        gpu.driver.capturing = False
        gpu.start("cuGraphLaunch", (9, stream.handle), "graph", (), ())
        gpu.launch(Kernel(7, "work"), 1, 32, LEGACY, [])

    _, _, tables = paper(program)
    assert [(op["kind"], op["stream_id"]) for op in tables["ops"].to_pylist()] == [
        ("graph", 13),
        ("kernel", 7),
    ]
    assert "event_records" not in tables
    kinds = {s["stream_id"]: s["stream_kind"] for s in tables["streams"].to_pylist()}
    assert kinds == {7: "legacy_default", 13: "nonblocking"}


def test_parts_of_a_run_are_refused():
    with pytest.raises(CollectError, match="whole workloads only"):
        CudaEventsBackend().pause()
