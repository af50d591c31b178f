"""`overlane report` on causes, partitions and advice: documented keys, windows, and files that prove less."""

import itertools
import json
import re
from pathlib import Path

import pytest

from overlane import open_trace
from overlane.analysis.ordering import clocks
from overlane.analysis.study import Study
from overlane.cli import main
from overlane.commands.report import SECTIONS, report_json
from overlane.simulate import Copy, Device, Launch, Program, Record, Stream, Thread, WaitEvent, run
from overlane.tables import empty_table, null_array
from overlane.trace import Trace
from overlane_collect.model import Header
from overlane_collect.schema import TABLES
from overlane_collect.writer import write_trace
from unit.timeline.traces import make_trace

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "report.md"
OWN = ("advice", "waits", "idle", "barriers", "hazards", "partitions", "critical-path")
US = 1_000


def documented():
    """Keys of each section's rows, as the tables of the document give them."""
    text = DOCUMENT.read_text(encoding="utf-8")
    found = {}
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        title, _, body = part.partition("\n")
        found[title] = re.findall(r"^\| `(\w+)` \|", body, flags=re.MULTILINE)
    return found


def run_json(capsys, *arguments):
    assert main(["report", *map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def report_of(trace, **kwargs):
    return report_json(Study(trace, **kwargs))


def text_of(capsys, path, *arguments):
    assert main(["report", str(path), *arguments]) == 0
    return capsys.readouterr().out


@pytest.fixture
def made(tmp_path):
    """Write a trace to a file."""

    def write(trace):
        path = tmp_path / "made.overlane"
        write_trace(
            path, trace.header, {name: trace.table(name) for name in TABLES if len(trace.table(name))}
        )
        return path

    return write


@pytest.fixture
def busy(made):
    """A file in which a stream waits for an event of another one, after an upload from pageable memory."""
    statements = (
        Copy("a", bytes=1 << 24, duration_ns=200 * US, is_pageable=True), Launch("a", 100 * US),
        Record("e", "a"), WaitEvent("b", "e"), Launch("b", 50 * US), Launch("b", 50 * US),
    )  # fmt: skip
    streams = (Stream("a"), Stream("b"))
    return made(run(Program((Thread(statements),), streams, (Device(),))).trace)


def test_every_section_is_documented():
    titles = documented()
    assert {section.name for section in SECTIONS} <= {*titles, "engines", "overlap", "exposed", "concurrency"}


@pytest.mark.parametrize("section", OWN)
def test_rows_have_exactly_the_documented_keys(samples, section):
    """Over all samples, so that every section has rows somewhere."""
    keys = documented()[section]
    seen = 0
    for name in ("stream-contract-missing-wait", "green-context-A", "vector-add-pageable"):
        report = report_of(open_trace(samples[f"{name}.overlane"]))
        for row in report[section.replace("-", "_")]:
            assert set(row) == set(keys), section
            seen += 1
    assert seen


def test_the_asked_for_keys_are_there(busy, capsys):
    """The keys that issue trackers and scripts were promised."""
    report = run_json(capsys, busy)
    promised = {
        "waits": {"device_id", "context_id", "stream_id", "cause", "total_ns", "op_count"},
        "idle": {"scope", "device_id", "partition_id", "stream_id", "idle_ns", "causes"},
        "barriers": {"kind", "start_ns", "end_ns", "streams_held", "ops_held", "lost_ns"},
        "advice": {"rule", "cost_ns", "evidence", "change"},
        "critical_path": {"op_id", "call_id", "start_ns", "end_ns", "kind"},
    }
    for section, keys in promised.items():
        assert report[section], section
        assert all(keys <= set(row) for row in report[section]), section
    assert {"hazards", "partitions", "advice_not_checked", "isolation"} <= set(report)


def test_numbers_of_the_sections_agree(busy, capsys):
    report = run_json(capsys, busy)
    assert sum(row["total_ns"] for row in report["waits"] if row["cause"] == "event_wait") > 90 * US
    for row in report["idle"]:
        assert sum(row["causes"].values()) == row["idle_ns"]
        assert set(row["longest"]) == set(row["causes"])
    (device,) = [row for row in report["idle"] if row["scope"] == "device"]
    assert device["idle_ns"] == report["devices"][0]["idle_ns"]
    assert [row["lost_ns"] for row in report["barriers"]] == sorted(
        (row["lost_ns"] for row in report["barriers"]), reverse=True
    )
    links = report["critical_path"]
    assert all(first["end_ns"] == second["start_ns"] for first, second in itertools.pairwise(links))
    costs = [row["cost_ns"] for row in report["advice"] if not row["is_about_results"]]
    assert costs == sorted(costs, reverse=True)
    assert report["advice"][0]["rule"] == "pageable_copies"


def test_a_window_cuts_waits_and_idle_time(busy, capsys):
    whole = run_json(capsys, busy)
    start, end = whole["window_start_ns"], whole["window_end_ns"]
    middle = (start + end) // 2
    halves = [
        run_json(capsys, busy, "--window", window) for window in (f"{start}:{middle}", f"{middle}:{end}")
    ]

    def total(report, section, key):
        return sum(row[key] for row in report[section] if row.get("scope", "device") == "device")

    assert total(whole, "idle", "idle_ns") == sum(total(half, "idle", "idle_ns") for half in halves)
    assert sum(total(half, "waits", "total_ns") for half in halves) <= total(whole, "waits", "total_ns")
    assert all(total(half, "waits", "total_ns") > 0 for half in halves)


@pytest.mark.parametrize(
    "window", ["-4611686018427387903:4611686018427387903", "-10:-5", "0:1", "999999999999:1000000000000"]
)
@pytest.mark.parametrize("form", ["--json", "--markdown"])
def test_hostile_windows_are_answered(busy, capsys, window, form):
    assert main(["report", str(busy), f"--window={window}", form]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    if form == "--json":
        report = json.loads(captured.out)
        (device,) = [row for row in report["idle"] if row["scope"] == "device"]
        assert device["idle_ns"] == report["devices"][0]["idle_ns"]


def test_distributions_are_of_waits_that_start_in_the_window(busy, capsys):
    whole = run_json(capsys, busy)
    found = {(row["by"], str(row["key"])): row for row in whole["wait_distributions"]}
    assert {by for by, _ in found} == {"stream", "partition", "name", "cause"}
    waits = sum(row["total_ns"] for row in whole["waits"])
    for by in ("stream", "partition", "name", "cause"):
        assert sum(row["total_ns"] for key, row in found.items() if key[0] == by) == waits
    assert found["name", "kernel"]["count"] == 3
    last = whole["window_end_ns"] - 1
    cut = run_json(capsys, busy, "--window", f"{last}:{last + 1}")
    assert [row for row in cut["wait_distributions"] if row["by"] == "name"] == []


def test_an_empty_trace_is_one_sentence(made, capsys):
    path = made(make_trace())
    assert "there is no GPU work to report on" in text_of(capsys, path)
    report = run_json(capsys, path)
    assert all(report[section.key] == [] for section in SECTIONS)


def without(trace, *tables):
    """The trace without the rows of some tables, as a source that does not record them would give it."""
    kept = {name: empty_table(name) if name in tables else trace.table(name) for name in TABLES}
    if "partitions" in tables:
        place = kept["ops"].schema.get_field_index("partition_id")
        nothing = null_array(kept["ops"].schema.field(place).type, len(kept["ops"]))
        kept["ops"] = kept["ops"].set_column(place, kept["ops"].schema.field(place), nothing)
    return Trace(trace.name, Header("test"), kept)


@pytest.mark.parametrize("table", ["api_calls", "syncs", "event_records", "streams", "partitions", "blocks",
                                   "accesses", "overheads", "ranges", "devices", "allocations"])  # fmt: skip
def test_a_trace_without_a_table_is_reported_and_says_what_it_cannot_prove(samples, table, made, capsys):
    trace = without(open_trace(samples["green-context-A.overlane"]), table)
    path = made(trace)
    report = run_json(capsys, path)
    assert report["devices"]
    out = text_of(capsys, path)
    for name, words in {
        "api_calls": "No operation can be joined to the call that started it. (missing: launch_times)",
        "partitions": "The trace does not say which SMs its operations may use. (missing: partitions)",
        "blocks": "No kernel logged on which SM its blocks ran. (missing: block_placement)",
        "accesses": "Whether accesses are ordered cannot be told.",
    }.items():
        assert (" ".join(words.split()) in " ".join(out.split())) == (name == table), name
    unchecked = {item["rule"] for item in report["advice_not_checked"]}
    needs = {"api_calls": "pageable_copies", "accesses": "unordered_accesses", "blocks": "left_its_partition",
             "partitions": "partition_too_large", "overheads": "recording_cost"}  # fmt: skip
    assert all((rule in unchecked) == (name == table) for name, rule in needs.items() if name != "blocks")


@pytest.mark.parametrize(
    ("sample", "named"),
    [
        ("implicit-sync-mem-free", "cuMemFree_v2"), ("vector-add-pageable", "cuMemcpyHtoDAsync_v2"),
        ("sync-scope-stream", "stream sync"), ("torch_train_pinned", "cudaDeviceSynchronize"),
    ],
)  # fmt: skip
def test_idle_time_names_the_call_that_the_host_was_in(samples, sample, named, capsys):
    path = next(path for name, path in samples.items() if name.split(".")[0] == sample)
    assert named in text_of(capsys, path, "--section", "idle")


def test_what_has_no_cause_is_said_with_what_is_missing(samples, busy, capsys):
    text = text_of(capsys, samples["ddp_even_rank0.json.gz"], "--section", "waits")
    assert "has no cause that this file can prove" in text
    assert "stream kinds" in text
    assert "has no cause" not in text_of(capsys, busy, "--section", "waits")


def test_a_device_that_is_one_partition_is_not_told_twice(samples, capsys):
    def heads(sample):
        return [line.split()[0] for line in text_of(capsys, samples[sample], "--section", "idle").splitlines()
                if re.search(r"\bidle +cause", line)]  # fmt: skip

    assert heads("two-gpu-overlap.overlane") == ["device", "stream"]
    assert heads("green-context-A.overlane") == ["device", "partition", "stream"]


def test_a_trace_of_too_many_streams_has_all_sections_but_the_order(samples, monkeypatch, capsys):
    path = samples["stream-contract-missing-wait.overlane"]
    whole = run_json(capsys, path)
    assert whole["hazards"]
    assert whole["untold"] == {}
    monkeypatch.setattr(clocks, "_MOST_CHAINS", 1)
    study = Study(open_trace(path))
    found = report_json(study)
    assert found["hazards"] == []
    [(section, why)] = found["untold"].items()
    assert section == "hazards"
    assert "at most 1 streams and host threads" in why
    assert found["waits"] == whole["waits"]
    assert found["critical_path"] == whole["critical_path"]
    refused = {item["rule"] for item in found["advice_not_checked"] if item["reason"] == why}
    assert refused >= {"unordered_accesses", "host_reads_too_early"}
    assert not refused & set(found["advice_checked"])
