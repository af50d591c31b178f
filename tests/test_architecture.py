"""Who may import whom, what an import may load, and how long a module may be."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
APP = ROOT / "app" / "overlane"
COLLECT = ROOT / "collectors" / "overlane_collect"
SHARED = {"schema", "model", "writer", "errors"}  # what the application may use of the collectors
MAX_LINES = 500
MAX_FUNCTION_LINES = 50  # of code: neither docstring, comment nor blank line
# Longer ones of today. A ratchet: a number here may only become smaller, and a name may only leave.
LONG_FUNCTIONS = {
    "overlane/analysis/sweep._engines": 53,
    "overlane/readers/kineto/assemble.assemble": 55,
    "overlane/readers/kineto/attributes.attributes_table": 51,
    "overlane/readers/kineto/header.capabilities": 64,
    "overlane/readers/kineto/text._any_nanoseconds": 62,
    "overlane/timeline/filling.fill": 149,
}
HEAVY = ("pandas", "dash", "plotly", "cuda", "cupti", "numba", "numpy", "pyarrow")


def imports(path):
    """Every module that a file imports, at any depth, as dotted names."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide where a name comes from"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def sources(folder):
    found = sorted(folder.rglob("*.py"))
    assert found
    return found


def loaded_by(statement, *names):
    """Which of these top-level modules are loaded after running a statement in a new interpreter."""
    code = f"import sys\n{statement}\nprint(*[name for name in {names!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split("\n")[-2].split()


def test_the_collectors_never_import_the_application():
    for path in sources(COLLECT):
        bad = [name for name in imports(path) if name.split(".")[0] == "overlane"]
        assert not bad, f"{path} imports {bad}"


def test_the_application_uses_the_shared_part_of_the_collectors_only():
    for path in sources(APP):
        for name in imports(path):
            parts = name.split(".")
            if parts[0] == "overlane_collect":
                assert len(parts) > 1, f"{path} imports overlane_collect as a whole"
                assert parts[1] in SHARED, f"{path} imports {name}"


def test_the_walk_sees_imports_inside_functions(tmp_path):
    file = tmp_path / "module.py"
    file.write_text("def f():\n    from overlane.trace import Trace\n    import overlane.cli\n")
    assert list(imports(file)) == ["overlane.trace", "overlane.trace.Trace", "overlane.cli"]


@pytest.mark.parametrize(
    "module", ["overlane_collect"] + [f"overlane_collect.{name}" for name in sorted(SHARED)]
)
def test_importing_the_collectors_loads_nothing_heavy(module):
    assert loaded_by(f"import {module}", *HEAVY) == []


def test_importing_the_application_loads_nothing_heavy():
    assert loaded_by("import overlane", *HEAVY) == []


@pytest.mark.parametrize("arguments", [[], ["--help"], ["--version"], ["report", "--help"]])
def test_help_loads_nothing_heavy(arguments):
    statement = f"from overlane.cli import main\nassert main({arguments!r}) == 0"
    assert loaded_by(statement, *HEAVY) == []


@pytest.mark.parametrize("name", ["open_trace", "Trace"])
def test_public_names_load_neither_pandas_nor_dash(name):
    assert loaded_by(f"import overlane\noverlane.{name}", "pandas", "dash") == []


@pytest.mark.parametrize("path", [*sources(APP), *sources(COLLECT)], ids=lambda path: path.stem)
def test_modules_are_short_enough_to_read(path):
    text = path.read_text(encoding="utf-8")
    count = len(text.splitlines())
    reason = f"Longer than {MAX_LINES} lines"  # then why, in the module's docstring
    assert count < MAX_LINES or reason in (ast.get_docstring(ast.parse(text)) or "")


def functions(path):
    """Every function of a file: dotted name, lines of code, and whether it gives a reason for its length."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    reason = f"Longer than {MAX_FUNCTION_LINES} lines"  # then why, in the docstring or beside the def

    def walk(node, prefix):
        for child in ast.iter_child_nodes(node):
            inner = prefix
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = f"{prefix}.{child.name}"
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                documented = ast.get_docstring(child)
                head = range(child.lineno, child.body[0].lineno)
                first = child.body[0].end_lineno + 1 if documented is not None else child.body[0].lineno
                body = (lines[number - 1].strip() for number in range(first, child.end_lineno + 1))
                count = len(head) + sum(1 for line in body if line and not line.startswith("#"))
                words = (documented or "") + "".join(lines[number - 1] for number in head)
                yield inner, count, reason in words
            yield from walk(child, inner)

    yield from walk(ast.parse(text), path.stem)


@pytest.fixture(scope="module")
def long_functions():
    """Functions over the limit that give no reason, as `folder/module.function` with their lines."""
    found = {}
    for root in (APP, COLLECT):
        for path in sources(root):
            for name, count, is_explained in functions(path):
                if count > MAX_FUNCTION_LINES and not is_explained:
                    found[str(path.relative_to(root.parent).parent / name)] = count
    return found


def test_functions_are_short_enough_to_read(long_functions):
    grown = {name: n for name, n in long_functions.items() if n > LONG_FUNCTIONS.get(name, 0)}
    assert not grown, f"over {MAX_FUNCTION_LINES} lines of code: split them, or say why in the docstring"


def test_the_list_of_long_functions_only_shrinks(long_functions):
    shrunk = {name: n for name, n in LONG_FUNCTIONS.items() if long_functions.get(name, 0) < n}
    assert not shrunk, "these became shorter: lower their numbers, or take them out"


def test_lines_of_code_are_counted(tmp_path):
    file = tmp_path / "module.py"
    file.write_text(
        "class A:\n"
        "    def f(\n"
        "        self,\n"
        "    ):\n"
        '        """Do.\n\n        Longer than 50 lines, since it is a test.\n        """\n'
        "        a = 1\n\n"
        "        # why\n"
        "        def g():  # Longer than 50 lines: also a test\n"
        "            return a\n"
        "        return g\n"
    )
    assert list(functions(file)) == [("module.A.f", 7, True), ("module.A.f.g", 2, True)]


def test_the_public_surface_is_typed():
    """`tests/typing/api.py` passes mypy in strict mode."""
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file",
        "pyproject.toml",
        "tests/typing/api.py",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
