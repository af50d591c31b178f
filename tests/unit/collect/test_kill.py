"""Killed at random moments, fifty times: everything that was flushed is in the recovered trace."""

import json
import subprocess
import sys

import pyarrow.compute as pc

from overlane.validation import validate
from overlane_collect.recovery import recover
from overlane_collect.writer import read_members

KILLS = 50

# Forks one recording process after the other and kills each at a random moment. A recording process says
# after every flush how many operations it has flushed; only what was said before the kill counts.
HARNESS = """
import json, os, random, signal, sys, time
from overlane_collect.annotate import annotate
from overlane_collect.recorder import Recorder
random.seed(int(sys.argv[3]))
for number in range(int(sys.argv[2])):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        recorder = Recorder(f"{sys.argv[1]}/{number}.overlane", backend="fake")
        recorder.start()
        flushed = 0
        while True:
            with annotate("round"):
                recorder.flush()
            flushed += 50
            os.write(writing, flushed.to_bytes(8, "little"))
    os.close(writing)
    os.read(reading, 8)
    time.sleep(random.random() ** 2 * 0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    said = 50
    while word := os.read(reading, 8):
        said = int.from_bytes(word, "little")
    os.close(reading)
    print(json.dumps({"number": number, "flushed": said}), flush=True)
"""


def test_fifty_kills_lose_nothing_that_was_flushed(tmp_path):
    run = subprocess.run(
        [sys.executable, "-c", HARNESS, str(tmp_path), str(KILLS), "7"],
        check=True,
        capture_output=True,
        text=True,
        timeout=240,
    )
    said = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(said) == KILLS
    damaged = 0
    for entry in said:
        journal = tmp_path / f"{entry['number']}.overlane.journal"
        recovered = recover(journal, tmp_path / "out.overlane")
        header, tables = read_members(tmp_path / "out.overlane")
        validate("out", header, tables)
        ops = tables["ops"]
        assert ops.num_rows >= entry["flushed"]
        first = ops["correlation_id"].slice(0, entry["flushed"]).to_pylist()
        assert first == list(range(1, entry["flushed"] + 1))
        assert pc.all(pc.equal(pc.subtract(ops["end_ns"], ops["start_ns"]), 10_000)).as_py()
        assert {c.check: c.status for c in header.integrity}["whole_recording"] == "warning"
        damaged += recovered.damage is not None
        journal.unlink()
    assert damaged < KILLS
