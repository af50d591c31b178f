"""Every workload and every option of recording is documented."""

import re
from pathlib import Path

import pytest

from overlane_collect.cli import build_parser
from overlane_collect.workloads import WORKLOADS

DOCS = Path(__file__).parents[3] / "docs" / "collectors"


@pytest.mark.parametrize("name", [workload.name for workload in WORKLOADS])
def test_each_workload_says_what_to_see(name):
    assert re.search(rf"^\| `{name}` \| \S", (DOCS / "workloads.md").read_text("utf-8"), re.MULTILINE)


def test_each_option_of_record_is_explained():
    text = (DOCS / "recording.md").read_text("utf-8")
    record = build_parser()._subparsers._group_actions[0].choices["record"]
    options = {name for action in record._actions for name in action.option_strings if name.startswith("--")}
    for option in options - {"--help", "--out", "--module", "--backend"}:
        assert f"`{option}" in text, option
