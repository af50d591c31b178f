"""`overlane compare` and `overlane check` as a user or a build runs them."""

from __future__ import annotations

import json

import pytest

from overlane.analysis.rules import read_rules
from overlane.cli import main
from overlane.errors import OverlaneError


@pytest.fixture
def modes(samples):
    return {mode: str(samples[f"green-context-{mode}.overlane"]) for mode in "ABC"}


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_compare_prints_what_changed(capsys, modes):
    code, out, _ = run(capsys, "compare", modes["A"], "--against", modes["B"])
    lines = out.splitlines()
    assert code == 0
    assert lines[0] == "green-context-A against green-context-B: slower"
    assert "parameters: mode B -> A" in lines
    critical = next(line for line in lines if line.startswith("stamped_critical (critical)"))
    assert critical.endswith("faster")
    assert "13.09 µs" in critical
    assert "896 ns" in critical
    assert any(line.startswith("GPU 0: idle share") and "points" in line for line in lines)
    assert "not comparable: It ran 2 against 2 times; from 3 on, noise can be told." in lines


def test_compare_in_json_exits_with_0_whatever_the_verdict(capsys, modes):
    code, out, _ = run(capsys, "compare", modes["A"], "--against", modes["B"], "--json")
    found = json.loads(out)
    assert (code, found["schema"], found["verdict"]) == (0, 1, "slower")
    row = next(row for row in found["operations"] if row["stream_role"] == "critical")
    assert row["judgement"]["low"] < row["judgement"]["change"] < row["judgement"]["high"] < 1
    assert isinstance(row["baseline_op"], int)


def test_several_captures_are_repeats_of_one_run(capsys, modes):
    code, out, _ = run(
        capsys, "compare", modes["A"], modes["A"], modes["A"], "--against", modes["B"], modes["B"], modes["B"]
    )
    assert code == 0
    assert "Intervals rest on 3 and 3 captures." in out


def test_files_of_one_name_are_told_apart_and_what_a_side_lacks_is_a_dash(capsys, samples, tmp_path):
    paths = [tmp_path / folder / "run.overlane" for folder in ("before", "after")]
    names = ("default-stream-legacy", "default-stream-nonblocking")
    for path, name in zip(paths, names, strict=True):
        path.parent.mkdir()
        path.write_bytes(samples[f"{name}.overlane"].read_bytes())
    code, out, _ = run(capsys, "compare", paths[1], "--against", paths[0])
    assert code == 0
    assert out.startswith("after/run.overlane against before/run.overlane: ")
    (line,) = (line for line in out.splitlines() if "barrier lost legacy_default_stream" in line)
    assert " ".join(line.split()) == "GPU 0: barrier lost legacy_default_stream 1.408 ms – - - not comparable"


def test_traces_of_different_workloads(capsys, samples, modes):
    code, out, _ = run(capsys, "compare", modes["A"], "--against", samples["vector-add-pinned.overlane"])
    assert code == 0
    assert out.splitlines()[0].endswith("not comparable")
    assert "not comparable: The workloads differ: vector-add against green-context." in out


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--level", "2"], "level 2.0 is out of range"),
        (["--least", "-1"], "least change -1.0 is out of range"),
    ],
)
def test_options_out_of_range(capsys, modes, options, sentence):
    code, _, err = run(capsys, "compare", modes["A"], "--against", modes["B"], *options)
    assert code == 2
    assert sentence in err


RULES = """
[[rule]]
metric = "idle_fraction"
at_most = 0.2
why = "the device should not wait"

[[rule]]
operation = "stamped_*critical*"
statistic = "median_ns"
at_most = {most}
"""


@pytest.mark.parametrize(("most", "code"), [(1000, 0), (500, 1)])
def test_a_broken_rule_fails_the_build(capsys, tmp_path, modes, most, code):
    rules = tmp_path / "rules.toml"
    rules.write_text(RULES.format(most=most))
    found, out, _ = run(capsys, "check", modes["A"], "--rules", rules)
    lines = out.splitlines()
    assert found == code
    assert lines[0].startswith("kept    idle_fraction at most 0.2: GPU 0 idle_fraction is 0.05")
    assert lines[1].startswith("kept" if code == 0 else "BROKEN")
    assert "median_ns of stamped_critical is 896" in lines[1]
    assert lines[-1] == ("kept" if code == 0 else "broken")


def test_a_rule_about_nothing_is_broken(capsys, tmp_path, modes):
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\noperation = "no such kernel"\nat_most = 1\n')
    code, out, _ = run(capsys, "check", modes["A"], "--rules", rules, "--json")
    found = json.loads(out)
    assert (code, found["kept"], found["rules"][0]["value"]) == (1, False, None)


def test_a_baseline_that_got_slower_fails_the_build(capsys, modes):
    code, out, _ = run(capsys, "check", modes["A"], "--baseline", modes["B"])
    assert code == 1
    assert "SLOWER  bulk (bulk): +6.4 %" in out
    same, out, _ = run(capsys, "check", modes["A"], "--baseline", modes["A"])
    assert (same, out.splitlines()[-1]) == (0, "kept")


def test_a_baseline_that_cannot_be_judged_does_not_pass(capsys, samples, modes):
    code, out, _ = run(capsys, "check", modes["A"], "--baseline", samples["vector-add-pinned.overlane"])
    assert code == 1
    assert "not comparable: The workloads differ" in out
    pinned = samples["vector-add-pinned.overlane"]
    code, out, _ = run(capsys, "check", pinned, "--baseline", pinned)
    assert code == 1
    assert "noise is not known" in out


def test_nothing_to_check_against(capsys, modes):
    code, _, err = run(capsys, "check", modes["A"])
    assert code == 2
    assert "give --rules FILE or --baseline" in err


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[[rule", "is no TOML"),
        ("", r"holds no \[\[rule\]\] table"),
        ("rule = 3", r"holds no \[\[rule\]\] table"),
        ("rule = [3]", r"holds no \[\[rule\]\] table"),
        ("name = 1\n[[rule]]\nmetric='busy_ns'\nat_most=1", "holds 'name'"),
        ("[[rule]]\nmetrics='busy_ns'\nat_most=1", "rule 1 of .* has 'metrics'"),
        ("[[rule]]\nat_most=1", "names neither"),
        ("[[rule]]\nmetric='busy_ns'\noperation='x'\nat_most=1", "names both"),
        ("[[rule]]\nmetric='busy'\nat_most=1", "no metric 'busy'; known: window_ns"),
        ("[[rule]]\noperation='x'\nstatistic='mean'\nat_most=1", "no statistic 'mean'"),
        ("[[rule]]\noperation='x'\ndevice=0\nat_most=1", "belong to metrics"),
        ("[[rule]]\nmetric='busy_ns'", "has no bound"),
        ("[[rule]]\nmetric='busy_ns'\nat_most='1'", "at_most is '1'"),
        ("[[rule]]\nmetric='busy_ns'\nat_most=nan", "at_most is nan"),
        ("[[rule]]\nmetric='busy_ns'\nat_most=true", "at_most is True"),
        ("[[rule]]\nmetric='busy_ns'\ndevice=-1\nat_most=1", "device is -1"),
        ("[[rule]]\nmetric=3\nat_most=1", "metric is no text"),
    ],
)
def test_files_that_hold_no_rules(capsys, tmp_path, modes, text, sentence):
    rules = tmp_path / "rules.toml"
    rules.write_text(text)
    with pytest.raises(OverlaneError, match=sentence):
        read_rules(rules)
    code, _, err = run(capsys, "check", modes["A"], "--rules", rules)
    assert code == 2
    assert err.count("\n") == 1


def test_a_file_of_rules_that_is_missing_or_no_text(tmp_path):
    with pytest.raises(OverlaneError, match="cannot be read"):
        read_rules(tmp_path / "none.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(OverlaneError, match="is no TOML"):
        read_rules(tmp_path / "binary.toml")


def test_bounds_on_both_sides_find_the_worst(tmp_path, capsys, modes):
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\noperation = "*bulk*"\nstatistic = "op_count"\nat_least = 1\nat_most = 100\n')
    code, out, _ = run(capsys, "check", modes["A"], "--rules", rules)
    assert code == 1
    assert "op_count of bulk is 181" in out
    rules.write_text('[[rule]]\noperation = "*bulk*"\nstatistic = "op_count"\nat_least = 2\nat_most = 300\n')
    code, out, _ = run(capsys, "check", modes["A"], "--rules", rules)
    assert code == 1
    assert "op_count of stamped_bulk is 1" in out


def test_every_reason_can_be_accepted():
    from overlane.analysis.comparable import REASONS  # noqa: PLC0415 - the command answers without it
    from overlane.commands.compare import ACCEPTED  # noqa: PLC0415

    assert ACCEPTED == REASONS
