"""The reference pages are what the contracts say, and nothing in the contracts is without words."""

import argparse
import doctest
import importlib.util
import pkgutil
import re
import shlex
import shutil
from pathlib import Path

import pytest

import overlane
import overlane_collect
from overlane.cli import build_parser, main
from overlane.commands import CommandRegistry
from overlane.readers.registry import READERS
from overlane.samples import sample_paths
from overlane.ui.store import TraceStore
from overlane.writers import WRITERS
from overlane_collect.schema import TABLES
from overlane_collect.workloads.registry import WORKLOADS

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
MODULES = sorted(
    module.name
    for package in (overlane, overlane_collect)
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    if not module.name.endswith("__main__")  # importing it runs the program
)
BENCHMARKS = ROOT / "benchmarks"
ANSWERS = DOCS / "known-answers.md"
GUIDES = [ROOT / "README.md", DOCS / "how-to.md", DOCS / "tutorial.md", DOCS / "simulator.md", ANSWERS]
LINKING = [
    *GUIDES, *(DOCS / f"{name}.md" for name in ("design", "causes", "report")),
    *sorted((DOCS / "collectors").glob("*.md")), *sorted((DOCS / "reference").glob("*.md")),
    ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", BENCHMARKS / "README.md",
    ROOT / "sample_traces" / "README.md",
]  # fmt: skip
PARSED_ONLY = {"demo", "serve", "record", "run"}  # these do not return, or need a GPU


@pytest.fixture(scope="module")
def generate():
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def answers(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("known_answers")


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


def test_the_figures_are_fresh(answers):
    text = ANSWERS.read_text("utf-8")
    stale = [name for name, make in answers.blocks().items() if answers.written(text, {name: make}) != text]
    assert stale == [], "run python benchmarks/known_answers.py"


def test_a_stale_figure_and_a_table_without_a_place_are_noticed(answers):
    text = "<!-- sums: x -->\n1\n<!-- end of sums -->"
    fresh = answers.written(text, {"sums": lambda: iter(["2"])})
    assert "\n2\n" in fresh
    assert answers.written(fresh, {"sums": lambda: iter(["2"])}) == fresh != text
    with pytest.raises(ValueError, match="no block others"):
        answers.written(text, {"others": lambda: iter(["2"])})


def test_every_workload_and_recording_is_walked_through():
    text = ANSWERS.read_text("utf-8")
    assert {workload.name for workload in WORKLOADS} <= set(re.findall(r"^## ([a-z-]+):", text, re.MULTILINE))
    listings = {listing.trace_id for listing in TraceStore(sample_paths()).listings()}
    assert set(re.findall(r"/timeline\?trace=([a-z0-9-]+)", text)) == listings


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


@pytest.mark.parametrize("name", ["overlane", "overlane_collect", *MODULES])
def test_examples_in_docstrings(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    failed, _ = doctest.testmod(module)
    assert failed == 0  # doctest has printed which
    assert not list(tmp_path.iterdir())


def blocks(path, language):
    """The code blocks of a document in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def overlane_lines(path):
    """The arguments of every `overlane` command in the shell blocks of a document, in its order."""
    for block in blocks(path, "sh"):
        for command in re.split(r"\n|&&", block):
            words = shlex.split(command, comments=True)
            if words and words[0] in {"overlane", ".venv/bin/overlane"}:
                yield words[1:]


@pytest.fixture
def reader_folder(tmp_path, monkeypatch, samples):
    """The folder of someone who follows a document: the bundled traces and one of their own, nothing else."""
    (tmp_path / "sample_traces").symlink_to(samples["torch_train_pinned.json.gz"].parent)
    shutil.copy(samples["torch_train_pinned.json.gz"], tmp_path / "trace.json.gz")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)
def test_python_in_documents_runs(path, reader_folder):
    for block in blocks(path, "python"):
        code = compile(block, path.name, "exec")
        if "torch" not in code.co_names and not any(name.startswith("torch.") for name in code.co_names):
            exec(code, {"__name__": "__main__"})  # the rest needs a GPU and the reader's own model


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)
def test_commands_in_documents_run(path, reader_folder, capsys):
    for arguments in overlane_lines(path):
        if arguments[0] in PARSED_ONLY:
            build_parser().parse_args(arguments)
        else:
            assert main(arguments) == 0, (arguments, capsys.readouterr().err)


def test_the_numbers_of_the_tutorial_are_those_of_its_commands(reader_folder, capsys):
    """Each length of time in it is printed by one of its commands, so that readers see what they are told."""
    printed = ""
    for arguments in overlane_lines(DOCS / "tutorial.md"):
        if arguments[0] not in PARSED_ONLY and "--html" not in arguments:
            assert main(arguments) == 0
            printed += capsys.readouterr().out
    told = re.findall(r"(?<![\d.])\d+\.\d+ (?:ms|µs)", (DOCS / "tutorial.md").read_text("utf-8"))
    assert len(told) > 10
    assert [length for length in told if length not in printed] == []


def test_the_documents_have_examples():
    """What the two tests above find, so that a change of style cannot leave them with nothing."""
    assert sum(len(blocks(path, "python")) for path in GUIDES) >= 3
    found = [arguments[0] for path in GUIDES for arguments in overlane_lines(path)]
    assert {"demo", "serve", "info", "report", "convert"} <= set(found)


def missing_targets(path):
    """The relative links and pictures of a document that lead to no file."""
    text = path.read_text("utf-8")
    targets = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r"(?:src|srcset|href)=\"([^\"]+)\"", text)
    files = [target.partition("#")[0] for target in targets if not re.match(r"[a-z]+:", target)]
    return sorted({file for file in files if file and not (path.parent / file).exists()})


@pytest.mark.parametrize("path", LINKING, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_and_pictures_lead_somewhere(path):
    assert missing_targets(path) == []


def test_a_link_that_leads_nowhere_is_noticed(tmp_path):
    document = tmp_path / "page.md"
    document.write_text(
        "[here](page.md#part) [away](https://example.org/x.md) [gone](no.md#a) ![gone](no.png)\n"
        '<img src="lost.png">'
    )
    assert missing_targets(document) == ["lost.png", "no.md", "no.png"]
