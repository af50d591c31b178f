"""What recording costs, by the benchmark in this folder; limits, not our best figures."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "launch_cost.py"


def measured(tmp_path, *arguments):
    out = tmp_path / "cost.json"
    command = [sys.executable, str(SCRIPT), "--folder", str(tmp_path), "--json", str(out), *arguments]
    subprocess.run(command, check=True, timeout=200, stdout=subprocess.DEVNULL)
    return json.loads(out.read_text())


def test_a_launch_costs_at_most_two_microseconds_more(tmp_path):
    assert measured(tmp_path, "--batches", "100")["cost_ns"] <= 2000


def test_a_million_launches_are_all_there(tmp_path):
    result = measured(tmp_path, "--million", "1000000")
    assert result["operations"] == 1_000_000
    assert result["dropped"] == {}
    assert {status for status, _ in result["integrity"].values()} <= {"ok", "warning"}
    assert result["added_host_mib"] < 1024
    assert result["added_host_with_writing_mib"] < 1024


def test_a_training_loop_is_slowed_by_at_most_a_tenth(tmp_path):
    """The quieter of two runs: the loop hovers between waiting for the host and for the GPU."""
    pytest.importorskip("torch")
    out = tmp_path / "training.json"
    script = Path(__file__).parent / "training_cost.py"
    fractions = []
    for _ in range(2):
        subprocess.run([sys.executable, str(script), "--json", str(out)], check=True, timeout=200)
        fractions.append(json.loads(out.read_text())["slowdown_fraction"])
    assert min(fractions) <= 0.10
