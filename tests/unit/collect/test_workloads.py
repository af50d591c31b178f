"""Workloads as far as they can be tested without a GPU: parameters, plans, exit codes, sources, the list."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest

from overlane.validation import validate
from overlane_collect import cli
from overlane_collect._cuda import DriverError, Span
from overlane_collect.errors import CollectError, NoGpuError
from overlane_collect.workloads import WORKLOADS, WorkloadRegistry
from overlane_collect.workloads import runner as runner_module
from overlane_collect.workloads.base import EXPECT, Outcome, Parameter, parse_settings
from overlane_collect.workloads.kernels import SOURCE
from overlane_collect.workloads.runner import describe, plan
from overlane_collect.writer import read_members

PROMISED = {
    "vector-add",
    "default-stream",
    "sync-scope",
    "priority",
    "green-context",
    "stream-contract",
    "event-chain",
    "callback",
    "many-streams",
    "graph-replay",
    "alloc-in-loop",
    "launch-bound",
    "implicit-sync",
    "programmatic-launch",
    "lazy-load",
    "managed-memory",
    "cooperative",
    "two-contexts",
    "two-gpu",
}


class Probe:
    """A workload that only reports its shift, or fails as it is told to."""

    name = "probe"
    description = "for tests"
    parameters = (
        Parameter("count", 3, "a number", least=1),
        Parameter("sizes", (1, 2), "numbers"),
        Parameter("mode", "plain", "a choice", ("plain", "fails", "no-gpu")),
    )

    def run(self, gpu, values):
        if values["mode"] == "fails":
            raise DriverError(
                "cuLaunchKernel (work) failed: CUDA_ERROR_LAUNCH_FAILED; the result cannot be used"
            )
        if values["mode"] == "no-gpu":
            raise NoGpuError("cuInit failed: CUDA_ERROR_NO_DEVICE; check nvidia-smi and the driver")
        gpu.log.host_access("write", Span(4096, 64))
        gpu.log.blocks(7, np.array([[1, 2, 3]], np.uint64))
        return Outcome(values["shift"] == 0, [f"count={values['count']}"], {"us": 1.5})


class NoDevice:
    """Stands in for the device, which the probe does not need."""

    def __init__(self, device, log):
        self.log = log
        self.facts = {"kernel_sha256": "ab"}

    def synchronize(self):
        pass


@pytest.fixture
def probe(monkeypatch):
    monkeypatch.setattr(runner_module, "Gpu", NoDevice)
    registry = WorkloadRegistry([Probe()])
    monkeypatch.setattr("overlane_collect.workloads.WORKLOADS", registry)
    return Probe()


def run(tmp_path, *settings):
    arguments = ["run", "probe", "--backend", "fake", "-o", str(tmp_path / "a.overlane")]
    for setting in settings:
        arguments += ["--set", setting]
    return cli.main(arguments)


def test_the_list_holds_what_was_promised():
    assert {workload.name for workload in WORKLOADS} == PROMISED


@pytest.mark.parametrize("workload", list(WORKLOADS), ids=lambda w: w.name)
def test_every_workload_describes_itself_in_full(workload):
    described = describe(workload)
    assert described["description"]
    names = [parameter["name"] for parameter in described["parameters"]]
    assert len(names) == len(set(names))
    assert names[-1] == "expect"
    for parameter in described["parameters"]:
        assert parameter["doc"]
        if parameter["choices"]:
            assert parameter["default"] in parameter["choices"]
    values = parse_settings(workload, [])
    assert set(values) == set(names)


def test_values_are_read_by_the_type_of_their_default(probe):
    values = parse_settings(probe, ["count=0x10", "sizes=5,6,7", "mode=fails", "expect=wrong"])
    assert values == {"count": 16, "sizes": (5, 6, 7), "mode": "fails", "expect": "wrong"}


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("count=many", "count=many is not a number; give one like 3"),
        ("count=0", "count=0 is too small; give at least 1"),
        ("count=1,2", "is more than one number"),
        ("mode=odd", "mode=odd is unknown; choose from plain, fails, no-gpu"),
        ("color=red", "has no parameter 'color=red'; use NAME=VALUE with one of count, sizes, mode, expect"),
        ("count", "has no parameter 'count'"),
    ],
)
def test_a_wrong_setting_is_one_sentence_and_exit_2(tmp_path, probe, capsys, setting, sentence):
    assert run(tmp_path, setting) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert len(error.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_right_result_is_exit_0_and_leaves_its_trace(tmp_path, probe, capsys):
    assert run(tmp_path, "count=4") == 0
    assert capsys.readouterr().out == "count=4\nresult=right\n"
    header, tables = read_members(tmp_path / "a.overlane")
    validate("a", header, tables)
    assert header.parameters == {
        "workload": "probe",
        "count": 4,
        "sizes": [1, 2],
        "mode": "plain",
        "expect": "right",
    }
    assert (header.extra["correct"], header.extra["measured"], header.extra["kernel_sha256"]) == (
        True,
        {"us": 1.5},
        "ab",
    )
    assert tables["accesses"]["address"].to_pylist() == [4096]
    assert header.repeat_index == 0


def test_a_wrong_result_is_exit_1_and_leaves_its_trace_too(tmp_path, probe, capsys):
    assert run(tmp_path, "expect=wrong") == 1
    assert capsys.readouterr().out.endswith("result=wrong\n")
    header, _ = read_members(tmp_path / "a.overlane")
    assert header.extra["correct"] is False


@pytest.mark.usefixtures("probe")
@pytest.mark.parametrize(
    ("mode", "code", "name"), [("fails", 4, "LAUNCH_FAILED"), ("no-gpu", 3, "NO_DEVICE")]
)
def test_a_failing_call_keeps_the_drivers_name_and_leaves_nothing(tmp_path, capsys, mode, code, name):
    assert run(tmp_path, f"mode={mode}") == code
    assert f"CUDA_ERROR_{name}" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_repeats_of_variants_come_in_a_random_order_each_with_its_index(tmp_path, probe):
    captures = plan(probe, ["mode=plain,fails", "sizes=1,2"], 3, tmp_path, seed=4)
    assert sorted((c.settings, c.repeat_index) for c in captures) == [
        ((f"mode={mode}", "sizes=1,2"), index) for mode in ("fails", "plain") for index in range(3)
    ]
    assert len({c.out for c in captures}) == 6
    assert captures != sorted(captures, key=lambda c: str(c.out))
    with pytest.raises(CollectError, match="mode=odd is unknown"):
        plan(probe, ["mode=plain,odd"], 1, tmp_path)


def test_the_list_is_json_on_request(capsys):
    assert cli.main(["workloads", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed["schema"] == 1
    assert {w["name"] for w in listed["workloads"]} == PROMISED
    assert cli.main(["workloads"]) == 0
    assert EXPECT.doc in capsys.readouterr().out


def test_an_unknown_workload_lists_the_known_ones(capsys):
    assert cli.main(["run", "nothing"]) == 2
    assert "known: vector-add, default-stream" in capsys.readouterr().err


def test_every_kernel_writes_something_that_can_be_checked():
    kernels = re.findall(r'extern "C" __global__ void (\w+)\(', SOURCE)
    assert len(kernels) == len(set(kernels)) == 13
    for body in SOURCE.split('extern "C" __global__ void ')[1:]:
        assert re.search(r"\]\s*\+?=|\*slot \+=|log_block", body), body.split("(")[0]


def test_the_sources_compile_where_nvrtc_is():
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc")
    try:
        status, program = nvrtc.nvrtcCreateProgram(SOURCE.encode(), b"k.cu", 0, [], [])
    except RuntimeError as error:
        pytest.skip(f"NVRTC does not load: {error}")
    assert int(status) == 0
    assert int(nvrtc.nvrtcCompileProgram(program, 1, [b"--gpu-architecture=sm_90"])[0]) == 0


def test_listing_loads_no_cuda():
    script = (
        "import sys\nfrom overlane_collect import cli\ncli.main(['workloads'])\n"
        "assert not {'cuda', 'cupti', 'pyarrow', 'pandas'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60, stdout=subprocess.DEVNULL)
