"""Unmodified programs, recorded: what is in the trace, against what PyTorch's profiler says."""

import collections
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.compute as pc
import pytest

from overlane_collect.writer import read_members

# The viewer's checks are used where it is installed; the collectors alone must do without.
validation = pytest.importorskip("overlane.validation") if "OVERLANE_NO_VIEWER" not in os.environ else None


def opened(path):
    header, tables = read_members(path)
    if validation is not None:
        validation.validate(path.name, header, tables)
    failed = [check for check in header.integrity if check.status == "failed"]
    assert not failed, failed
    return header, tables


def recorded(collect, tmp_path, program, *arguments):
    done = collect("record", "-o", "a.overlane", "--", program, *arguments)
    assert done.returncode == 0, done.stderr
    return (*opened(tmp_path / "a.overlane"), done)


def kernels(tables):
    return tables["ops"].filter(pc.equal(tables["ops"]["kind"], "kernel"))


def test_a_pytorch_training_loop_has_the_launches_that_pytorchs_own_profiler_counts(
    collect, tmp_path, programs
):
    pytest.importorskip("torch")
    program = programs / "torch_train.py"
    header, tables, _ = recorded(collect, tmp_path, program, 20)
    environment = {**os.environ, "PROFILE": str(tmp_path / "profile.json")}
    subprocess.run(
        [sys.executable, str(program), "20"], env=environment, check=True, capture_output=True, timeout=200
    )
    theirs = json.loads((tmp_path / "profile.json").read_text())
    ours = collections.Counter(kernels(tables)["name"].to_pylist())
    assert dict(ours) == theirs["counts"]
    total = pc.sum(pc.subtract(kernels(tables)["end_ns"], kernels(tables)["start_ns"])).as_py()
    assert total == pytest.approx(theirs["kernel_ns"], rel=0.05)
    assert [name for name in tables["ranges"]["name"].to_pylist() if name.startswith("step ")] == [
        f"step {number}" for number in range(25)
    ]
    waits = tables["syncs"].filter(pc.equal(tables["syncs"]["sync_kind"], "stream_wait_event"))
    assert waits.num_rows == 25
    assert waits["waits_on_correlation_id"].null_count == 0
    assert kernels(tables)["queued_ns"].null_count == 0
    assert header.capabilities["launch_times"].proven


def test_every_operation_of_a_jax_program_has_its_call(collect, tmp_path, programs):
    pytest.importorskip("jax")
    _, tables, done = recorded(collect, tmp_path, programs / "jax_program.py")
    assert float(done.stdout) != 0
    assert kernels(tables).num_rows > 40
    calls = set(tables["api_calls"]["correlation_id"].to_pylist())
    assert set(tables["ops"]["correlation_id"].to_pylist()) <= calls


def test_the_two_streams_and_the_event_of_a_cupy_program_are_there(collect, tmp_path, programs):
    pytest.importorskip("cupy")
    _, tables, done = recorded(collect, tmp_path, programs / "cupy_program.py")
    assert done.stdout.strip() == "1048576.0"
    used = set(kernels(tables)["stream_id"].to_pylist())
    kinds = {row["stream_id"]: row["stream_kind"] for row in tables["streams"].to_pylist()}
    assert [kinds[stream] for stream in used] == ["nonblocking", "nonblocking"]
    (wait,) = [s for s in tables["syncs"].to_pylist() if s["sync_kind"] == "stream_wait_event"]
    assert {wait["stream_id"], wait["waits_on_stream_id"]} == used


def test_a_program_that_is_killed_in_the_middle_of_its_work_leaves_it(collect, tmp_path):
    pytest.importorskip("torch")
    (tmp_path / "program.py").write_text(
        "import os, signal, time, torch\n"
        "x = torch.ones(1024, device='cuda')\n"
        "for _ in range(1000):\n"
        "    x += 1\n"
        "torch.cuda.synchronize()\n"
        "time.sleep(1.5)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = collect("record", "-o", "a.overlane", "--", "program.py")
    assert done.returncode == 128 + 9
    _, tables = opened(tmp_path / "a.overlane")
    names = kernels(tables)["name"].to_pylist()
    assert sum("add" in name.lower() for name in names) >= 1000


def test_another_client_of_cupti_is_told_in_one_sentence(collect, tmp_path):
    (tmp_path / "program.py").write_text(
        "import ctypes, sys\n"
        "from overlane_collect._cupti import Cupti\n"
        "first, second = Cupti(), Cupti()\n"
        "first.subscribe()\n"
        "try:\n"
        "    second.subscribe()\n"
        "except Exception as error:\n"
        "    sys.stdout.write(str(error))\n"
    )
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, check=True, capture_output=True, text=True, timeout=60
    )
    assert "another tool in this process uses CUPTI already" in done.stdout


def test_ranges_and_work_of_a_recorder_inside_a_program_share_one_clock(tmp_path):
    (tmp_path / "program.py").write_text(
        "from overlane_collect import Recorder\n"
        "from overlane_collect.annotate import annotate\n"
        "import torch\n"
        "with Recorder('a.overlane'):\n"
        "    x = torch.ones(1 << 20, device='cuda')\n"
        "    torch.cuda.synchronize()\n"
        "    with annotate('inside'):\n"
        "        y = x * 2\n"
        "        torch.cuda.synchronize()\n"
    )
    pytest.importorskip("torch")
    subprocess.run([sys.executable, "program.py"], cwd=tmp_path, check=True, timeout=100)
    _, tables = opened(tmp_path / "a.overlane")
    (inside,) = tables["ranges"].filter(pc.equal(tables["ranges"]["name"], "inside")).to_pylist()
    last = kernels(tables).to_pylist()[-1]
    assert inside["start_ns"] < last["queued_ns"] < last["start_ns"] < last["end_ns"] < inside["end_ns"]


def test_a_pinned_older_library_is_used_and_said(collect, tmp_path, programs, monkeypatch):
    older = [p for p in ("/usr/local/cuda-13.0/targets/x86_64-linux/lib/libcupti.so.13",) if Path(p).exists()]
    if not older:
        pytest.skip("no older libcupti here")
    monkeypatch.setenv("OVERLANE_LIBCUPTI", older[0])
    header, tables, _ = recorded(collect, tmp_path, programs / "streams_program.py")
    assert header.extra["cupti_version"] < 130400
    assert {check.check: check.status for check in header.integrity}["cupti_version"] == "warning"
    assert tables["ops"].num_rows == 19


def test_total_kernel_time_is_that_of_unrecorded_runs(collect, tmp_path, programs):
    """Within the larger of 1 % and the spread of five unrecorded runs, timed by events on a busy GPU."""
    pytest.importorskip("torch")
    program = programs / "torch_events.py"
    command = [sys.executable, str(program)]
    plain = [
        json.loads(subprocess.run(command, check=True, capture_output=True, timeout=200).stdout)["event_ms"]
        for _ in range(5)
    ]
    done = collect("record", "--range", "measured", "-o", "a.overlane", "--", program)
    assert done.returncode == 0, done.stderr
    _, tables = opened(tmp_path / "a.overlane")
    total = pc.sum(pc.subtract(tables["ops"]["end_ns"], tables["ops"]["start_ns"])).as_py() / 1e6
    middle = sorted(plain)[2]
    allowed = max(0.01 * middle, max(plain) - min(plain))
    assert abs(total - middle) <= allowed, (total, plain)


def test_each_rank_of_a_distributed_program_has_a_trace(collect, tmp_path, programs):
    pytest.importorskip("torch")
    done = collect("record", "--follow", "-o", "a.overlane", "--", programs / "torch_ranks.py")
    assert done.returncode == 0, done.stderr
    traces = sorted(tmp_path.glob("a.rank*.overlane"))
    ranks = []
    for path in traces:
        header, tables = opened(path)
        ranks.append(tables["ops"]["rank"][0].as_py())
        assert header.world_size == 2
        assert kernels(tables).num_rows > 10
        assert kernels(tables)["queued_ns"].null_count == 0
    assert ranks == [0, 1]


def test_a_numba_program_is_recorded_with_its_streams(collect, tmp_path, programs):
    pytest.importorskip("numba.cuda")
    alone = subprocess.run(
        [sys.executable, str(programs / "numba_program.py")], check=False, capture_output=True, timeout=200
    )
    if alone.returncode != 0:
        pytest.skip("Numba does not work here: " + alone.stderr.decode().strip().splitlines()[-1])
    _, tables, done = recorded(collect, tmp_path, programs / "numba_program.py")
    assert done.stdout.strip() == str(2 * 10 * (1 << 16))
    assert len([name for name in kernels(tables)["name"].to_pylist() if "count_up" in name]) == 20
    assert len(set(kernels(tables)["stream_id"].to_pylist())) == 2


@pytest.mark.parametrize(("option", "count"), [(["--range", "mine"], 20), (["--profiler-calls"], 30)])
def test_only_the_window_is_recorded_with_its_calls(collect, tmp_path, programs, option, count):
    pytest.importorskip("torch")
    done = collect("record", *option, "-o", "a.overlane", "--", programs / "window_program.py")
    assert done.returncode == 0, done.stderr
    header, tables = opened(tmp_path / "a.overlane")
    assert kernels(tables).num_rows == count
    calls = tables["api_calls"]["name"].to_pylist()
    assert calls.count("cudaLaunchKernel") == count
    assert "cuDevicePrimaryCtxRetain" not in calls, "the recorder's own calls"
    assert not header.capabilities["whole_run"].proven
    assert kernels(tables)["queued_ns"].null_count == 0


def test_a_duration_ends_the_recording_and_not_the_program(collect, tmp_path, programs):
    pytest.importorskip("torch")
    done = collect(
        "record",
        "--range",
        "mine",
        "--duration",
        "30",
        "-o",
        "a.overlane",
        "--",
        programs / "window_program.py",
    )
    assert done.returncode == 0, done.stderr
    assert kernels(opened(tmp_path / "a.overlane")[1]).num_rows == 20
    done = collect(
        "record",
        "--delay",
        "0.01",
        "--duration",
        "12",
        "-o",
        "b.overlane",
        "--",
        programs / "window_program.py",
        15,
    )
    assert done.returncode == 0, done.stderr
    _, tables = opened(tmp_path / "b.overlane")
    assert kernels(tables).num_rows > 100
    (name,) = set(tables["streams"]["stream_kind"].to_pylist())
    assert name == "legacy_default"


def test_arguments_of_pytorchs_kernels_are_found_in_live_allocations(collect, tmp_path, programs):
    pytest.importorskip("torch")
    done = collect("record", "--accesses", "-o", "a.overlane", "--", programs / "window_program.py")
    assert done.returncode == 0, done.stderr
    _, tables = opened(tmp_path / "a.overlane")
    accesses = tables["accesses"].to_pylist()
    assert {row["certainty"] for row in accesses} == {"inferred"}
    work = [row for row, op in enumerate(tables["ops"].to_pylist()) if op["kind"] == "kernel"][1:]
    with_pointers = {row["op_id"] for row in accesses}
    assert set(work) <= with_pointers
