"""`overlane report --html`: one whole file with the numbers of --json, in which names are only text."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from browser.known_traces import GEMM_LATE, MARKUP_NAME, write_hostile, write_known, write_without_gpu_work
from overlane import open_trace
from overlane.analysis.causes import CAUSES
from overlane.analysis.study import Study
from overlane.cli import main
from overlane.commands.report import SECTIONS
from overlane.writers.report_html import drawing
from overlane.writers.report_html.merging import joined, merge
from overlane.writers.report_html.page import bounded
from overlane_collect.writer import write_trace
from unit.timeline.traces import make_trace

VOID = {"meta", "br", "img", "input", "link"}


class Page(HTMLParser):
    """A page as a parser sees it: elements with their attributes, and the text of those with an id."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.open, self.inner, self.title = [], [], {}, ""
        self.feed(text)
        self.close()
        assert not self.open, "an element is not closed"

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append((tag, dict(attrs).get("id")))

    def handle_endtag(self, tag):
        assert self.open[-1][0] == tag
        self.open.pop()

    def handle_data(self, data):
        for tag, name in self.open:
            self.inner[name or tag] = self.inner.get(name or tag, "") + data

    def data(self, name):
        return json.loads(self.inner[name])


@pytest.fixture
def write(tmp_path, capsys):
    """Write the report of a file; return its text and its path."""

    def run(path, *arguments):
        target = tmp_path / "report.html"
        assert main(["report", str(path), "--html", str(target), "--force", *arguments]) == 0
        assert capsys.readouterr().out.startswith(f"wrote {target} (")
        return target.read_text(encoding="utf-8"), target

    return run


def json_of(path, capsys, *arguments):
    assert main(["report", str(path), "--json", *arguments]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("name", ["default-stream-legacy", "green-context-A", "stream-contract-missing-wait"])
def test_the_page_has_the_numbers_of_the_json(samples, write, capsys, name):
    text, _ = write(samples[f"{name}.overlane"])
    report = json_of(samples[f"{name}.overlane"], capsys)
    expected, left_out = bounded(report)
    found = Page(text).data("report")
    assert found.pop("report_left_out", {}) == left_out
    assert found == expected
    assert "critical_path" not in left_out


def test_the_page_has_the_sections_of_the_text(samples, write, capsys):
    path = samples["default-stream-legacy.overlane"]
    page = Page(write(path)[0])
    ids = [attrs["id"] for tag, attrs in page.elements if tag == "section"]
    assert ids == ["timeline", "devices", *(section.name for section in SECTIONS)]
    assert main(["report", str(path)]) == 0
    words = " ".join(page.inner["body"].split())
    lines = [line for line in capsys.readouterr().out.splitlines() if line]
    assert len(lines) > 50
    for line in lines[1:]:
        if not set(line) <= {"-", " "}:
            for cell in re.split(r" {2,}", line.strip()):
                assert " ".join(cell.split()) in words, cell


def test_sections_and_window_are_those_asked_for(samples, write):
    text, _ = write(
        samples["default-stream-legacy.overlane"], "--section", "waits", "--window", "140600000:141000000"
    )
    page = Page(text)
    assert [attrs["id"] for tag, attrs in page.elements if tag == "section"] == [
        "timeline",
        "devices",
        "waits",
    ]
    assert page.data("drawing")["window"] == [140_600_000, 141_000_000]


def test_the_page_asks_for_nothing_and_runs_only_its_own_script(samples, write):
    text, _ = write(samples["default-stream-legacy.overlane"])
    page = Page(text)
    policy = next(a["content"] for t, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    script = re.search(r"<script>(.*?)</script>", text, re.DOTALL)[1]
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)[1]
    for kind, inline in (("script", script), ("style", style)):
        digest = base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    for tag, attrs in page.elements:
        assert not {"src", "srcset", "data", "style", "action"} & set(attrs), (tag, attrs)
        assert not any(name.startswith("on") for name in attrs), (tag, attrs)
        assert attrs.get("href", "#").startswith("#"), (tag, attrs)
    assert "http://" not in text
    assert "https://" not in text


def test_hostile_names_stay_text(tmp_path, write):
    path = tmp_path / "<b>bold<img src=x onerror=window.hostile=3>.overlane"
    write_hostile(path)
    text, _ = write(path)
    page = Page(text)
    assert [tag for tag, _ in page.elements if tag in {"img", "b", "iframe"}] == []
    assert [tag for tag, _ in page.elements].count("script") == 3
    assert MARKUP_NAME in page.data("drawing")["names"]
    assert page.inner["title"].startswith("<b>bold<img")


def test_a_name_cannot_end_the_data(tmp_path, write):
    name = "</script><img src=x onerror=alert(1)><!--<script>\u2028"
    trace = make_trace(ops=[{"start_ns": 0, "end_ns": 9_000, "name": name, "device_id": 0, "stream_id": 7}])
    path = tmp_path / "hostile.overlane"
    write_trace(path, trace.header, {"ops": trace.table("ops")})
    text, _ = write(path)
    page = Page(text)
    assert page.data("drawing")["names"] == [name]
    assert "img" not in [tag for tag, _ in page.elements]


def test_the_drawing_has_every_slice_of_a_small_trace(samples):
    trace = open_trace(samples["default-stream-legacy.overlane"])
    found = drawing(Study(trace), (0, trace.span_ns))
    values = found.values
    assert found.slices == found.rectangles == len(values["slices"]["start"])
    starts, rows = np.cumsum(values["slices"]["start"]), np.cumsum(values["slices"]["row"])
    drawn = {}
    for lane in values["lanes"]:
        if lane["kind"] == "stream":
            first, last = (values["slices"]["offset"][lane["first"] + at] for at in (0, lane["sublanes"]))
            for at in range(first, last):
                end = int(starts[at]) + values["slices"]["length"][at]
                drawn[int(rows[at])] = (int(starts[at]), end, values["names"][values["slices"]["name"][at]])
    ops = trace.table("ops")
    assert drawn == {
        row: (each["start_ns"], each["end_ns"], each["name"]) for row, each in enumerate(ops.to_pylist())
    }


def test_waits_gaps_and_barriers_are_those_of_the_analyses(samples):
    study = Study(open_trace(samples["default-stream-legacy.overlane"]))
    values = drawing(study, (0, study.trace.span_ns)).values
    parts = values["wait_parts"]
    waits = study.waits
    for op in range(len(study.work)):
        said = {parts["cause"][at]: parts["ns"][at] for at, each in enumerate(parts["op"]) if each == op}
        mine = waits.op == op
        truth = {}
        for cause, ns in zip(waits.cause[mine], (waits.end_ns - waits.start_ns)[mine], strict=True):
            truth[int(cause)] = truth.get(int(cause), 0) + int(ns)
        assert said == truth
    legacy = [cause.name for cause in CAUSES].index("legacy_default_stream")
    assert legacy in values["waits"]["category"]
    assert legacy in values["gaps"]["category"]
    costly = [
        barrier for barrier in (study.barriers[at] for at in range(len(study.barriers))) if barrier.lost_ns
    ]
    assert [each["lost"] for each in values["barriers"]] == [barrier.lost_ns for barrier in costly]
    labels = [lane["label"] for lane in values["lanes"]]
    assert {labels[lane] for lane in values["barriers"][0]["lanes"]} <= {"stream 7", "stream 13", "stream 14"}


def test_ranks_are_drawn_one_after_another(tmp_path, write):
    rows = [
        {"start_ns": 100 * rank, "end_ns": 100 * rank + 50, "rank": rank, "device_id": 0, "stream_id": 7}
        for rank in (0, 1)
    ]
    trace = make_trace(ops=rows)
    path = tmp_path / "ranks.overlane"
    write_trace(path, trace.header, {"ops": trace.table("ops")})
    values = Page(write(path)[0]).data("drawing")
    assert [lane["label"] for lane in values["lanes"]].count("stream 7") == 2


def test_a_large_trace_makes_a_bounded_page(tmp_path, write):
    count = 200_000
    rows = [
        {"start_ns": at * 1_000, "end_ns": at * 1_000 + 700, "device_id": 0, "stream_id": 7, "name": f"k{at}"}
        for at in range(count)
    ]
    trace = make_trace(ops=rows)
    path = tmp_path / "large.overlane"
    write_trace(path, trace.header, {"ops": trace.table("ops")})
    text, target = write(path, "--section", "engines")
    values = Page(text).data("drawing")
    slices = values["slices"]
    assert 1_000 < len(slices["start"]) <= 42_000
    assert target.stat().st_size < 4_000_000
    assert "slices of the window are drawn as" in text
    stream = next(lane["first"] for lane in values["lanes"] if lane["kind"] == "stream")
    low, high = slices["offset"][stream], slices["offset"][stream + 1]
    counts = dict(zip(slices["several"], zip(slices["count"], slices["busy"], strict=True), strict=True))
    drawn = [counts.get(at, (1, slices["length"][at])) for at in range(low, high)]
    assert sum(each[0] for each in drawn) == count
    assert sum(each[1] for each in drawn) == count * 700


def test_a_trace_without_gpu_work_gives_a_page_that_says_so(tmp_path, write):
    write_without_gpu_work(tmp_path / "cpu.json")
    page = Page(write(tmp_path / "cpu.json")[0])
    assert "No device operations" in page.inner["body"]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40), st.integers(0, 60)), max_size=60),
    st.integers(1, 30),
)
def test_merging_keeps_counts_lengths_and_extent(slices, most):
    """Against sums over the slices themselves; slices of a lane are laid one behind another."""
    reach = dict.fromkeys(range(4), 0)
    rows = []
    for row, (lane, space, length) in enumerate(slices):
        start = reach[lane] + space
        reach[lane] = start + length
        rows.append((lane, start, start + length, 0, row))
    columns = tuple(np.array([each[at] for each in rows], np.int64) for at in range(5))
    found = merge(joined([columns], (0, 1 << 40)), most)
    lanes = {each[0] for each in rows}
    assert len(found) <= max(most, len(lanes))
    assert found.count.sum() == len(rows)
    for lane in lanes:
        mine, truth = found.lane == lane, [each for each in rows if each[0] == lane]
        assert found.busy[mine].sum() == sum(end - start for _, start, end, _, _ in truth)
        assert found.start[mine].min() == truth[0][1]
        assert found.end[mine].max() == truth[-1][2]
        assert (found.start[mine][1:] >= found.end[mine][:-1]).all()
    spoken = {row: (start, end) for _, start, end, _, row in rows}
    for at in range(len(found)):
        start, end = spoken[int(found.row[at])]
        assert found.start[at] <= start <= end <= found.end[at]


def test_what_exists_is_kept_and_what_has_no_folder_is_refused(samples, tmp_path, capsys):
    path = str(samples["default-stream-legacy.overlane"])
    target = tmp_path / "there.html"
    target.write_text("mine")
    assert main(["report", path, "--html", str(target)]) == 2
    assert "exists; choose another name, or replace it with --force" in capsys.readouterr().err
    assert target.read_text() == "mine"
    assert main(["report", path, "--html", str(tmp_path / "no" / "report.html")]) == 2
    assert "does not exist; make it first" in capsys.readouterr().err
    assert main(["report", path, "--html", str(tmp_path), "--force"]) == 2
    assert "is a folder" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [target]


def test_a_full_disk_leaves_nothing(samples, tmp_path, capsys, monkeypatch):
    def refuse(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", refuse)
    target = tmp_path / "report.html"
    assert main(["report", str(samples["default-stream-legacy.overlane"]), "--html", str(target)]) == 4
    assert "free some space" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_known_numbers_are_on_the_page(tmp_path, write):
    write_known(tmp_path / "known.overlane")
    page = Page(write(tmp_path / "known.overlane")[0])
    (device,) = page.data("report")["devices"]
    assert device["busy_ns"] == 1_700_005_000
    values = page.data("drawing")
    rows, starts = np.cumsum(values["slices"]["row"]), np.cumsum(values["slices"]["start"])
    stream = next(lane for lane in values["lanes"] if lane["label"] == "stream 7")
    low, high = (values["slices"]["offset"][stream["first"] + at] for at in (0, 1))
    assert rows[high - 1] == GEMM_LATE
    assert starts[high - 1] == 3_200_000_000
    assert high - low == 1_004
