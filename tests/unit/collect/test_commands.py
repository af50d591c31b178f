"""The viewer's commands that run in the user's process: the collectors' options, passed on."""

import json

import pytest

from overlane.cli import build_parser as viewer_parser
from overlane.cli import main
from overlane.commands import CommandRegistry, record, recover, run, workloads
from overlane_collect.cli import build_parser as collector_parser
from overlane_collect.writer import read_members

REGISTRY = CommandRegistry([record.COMMAND, recover.COMMAND, run.COMMAND, workloads.COMMAND])


def options(parser, command):
    sub = parser._subparsers._group_actions[0].choices[command]
    return {name: action.choices for action in sub._actions for name in action.option_strings}


@pytest.mark.parametrize("command", REGISTRY.names)
def test_both_command_lines_offer_the_same_options(command):
    ours = options(viewer_parser(REGISTRY), command)
    theirs = options(collector_parser(), command)
    theirs.pop("--repeat-index", None)  # between the collectors' own processes
    assert ours == theirs


def test_record_passes_everything_on_and_returns_the_programs_status(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "program.py").write_text(
        "import sys\nsys.exit(5 if sys.argv[1:] == ['--json', '-o'] else 6)\n"
    )
    command = ["record", "--backend", "fake", "--calls", "none", "-o", "b.overlane", "--no-markers"]
    assert main([*command, "--", "program.py", "--json", "-o"], registry=REGISTRY) == 5
    header, _ = read_members(tmp_path / "b.overlane")
    assert header.command == "program.py --json -o"
    assert main(["record"], registry=REGISTRY) == 2


def test_recover_and_workloads_pass_on_too(tmp_path, capfd):
    assert main(["recover", str(tmp_path / "gone.journal"), "--json"], registry=REGISTRY) == 2
    assert "cannot be read" in capfd.readouterr().err
    assert main(["workloads", "--json"], registry=REGISTRY) == 0
    assert json.loads(capfd.readouterr().out)["schema"] == 1
    assert main(["run", "nothing", "--set", "a=b", "--repeat", "2"], registry=REGISTRY) == 2
    assert "known: vector-add" in capfd.readouterr().err
