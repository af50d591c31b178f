"""The reference pages are what the contracts say, and nothing in the contracts is without words."""

import argparse
import importlib.util
from pathlib import Path

import pytest

from overlane.cli import build_parser
from overlane.commands import CommandRegistry
from overlane.readers.registry import READERS
from overlane.writers import WRITERS
from overlane_collect.schema import TABLES

DOCS = Path(__file__).resolve().parents[1] / "docs"


@pytest.fixture(scope="module")
def generate():
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def parsers():
    choices = next(a.choices for a in build_parser()._actions if isinstance(a, argparse._SubParsersAction))
    return {command.name: choices[command.name] for command in CommandRegistry()}


def is_sentence(text):
    return bool(text) and text[0] == text[0].upper() and text.endswith(".")


def test_the_pages_are_fresh(generate):
    assert generate.stale_pages() == [], "run python docs/generate.py"


def test_a_stale_page_is_noticed(generate, tmp_path):
    for name, make in generate.PAGES.items():
        (tmp_path / name).write_text(make(), encoding="utf-8")
    assert generate.stale_pages(tmp_path) == []
    (tmp_path / "cli.md").write_text("old")
    assert generate.stale_pages(tmp_path) == ["cli.md"]


@pytest.mark.parametrize("spec", TABLES.values(), ids=TABLES)
def test_every_column_has_a_sentence_a_unit_and_a_null_rule(spec):
    assert is_sentence(spec.doc)
    for column in spec.columns:
        assert is_sentence(column.doc), column.name
        assert column.null != "", f"{column.name} needs a null rule or None"
        if column.name.endswith("_ns"):
            assert column.unit == "ns", column.name
        if column.name.endswith("bytes"):
            assert column.unit.startswith("bytes"), column.name


@pytest.mark.parametrize("name", [command.name for command in CommandRegistry()])
def test_every_command_and_argument_has_words(name):
    parser = parsers()[name]
    assert is_sentence(parser.description)
    for action in parser._actions:
        assert action.help, action.dest


def test_every_command_reader_and_writer_is_on_the_page(generate):
    page = generate.command_line()
    for command in CommandRegistry():
        assert f"## overlane {command.name}" in page
    for item in [*READERS, *WRITERS]:
        assert is_sentence(item.description), item.name
        assert item.description.replace("|", "\\|") in page
