"""`python -m overlane_collect record` and `recover`, with the fake backend and a real program."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from overlane.validation import validate
from overlane_collect.writer import read_members


def collect(*arguments, cwd, **more):
    return subprocess.run(
        [sys.executable, "-m", "overlane_collect", *map(str, arguments)],
        cwd=cwd,
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        **more,
    )


def record(folder, code, *arguments, name="program.py"):
    (folder / name).write_text(code)
    return collect("record", "--backend", "fake", "-o", "a.overlane", "--", name, *arguments, cwd=folder)


def checked(path):
    header, tables = read_members(path)
    validate("a", header, tables)
    return header, tables


def test_the_program_runs_as_it_would_alone_and_its_status_is_returned(tmp_path):
    (tmp_path / "beside.py").write_text("VALUE = 42\n")
    code = (
        "import sys, json, beside\n"
        "import __main__\n"
        "print(json.dumps([sys.argv, __name__, __file__, beside.VALUE, __main__.__file__]))\n"
        "sys.exit(7)\n"
    )
    done = record(tmp_path, code, "--flag", "x")
    assert done.returncode == 7
    assert json.loads(done.stdout) == [
        ["program.py", "--flag", "x"],
        "__main__",
        "program.py",
        42,
        "program.py",
    ]
    header, _ = checked(tmp_path / "a.overlane")
    assert header.command == "program.py --flag x"
    assert header.synthetic
    assert {c.status for c in header.integrity} == {"ok"}
    assert not (tmp_path / "a.overlane.journal").exists()


def test_an_exception_shows_the_programs_own_traceback(tmp_path):
    done = record(tmp_path, "def broken():\n    raise ValueError('mine')\nbroken()\n")
    assert done.returncode == 1
    assert "ValueError: mine" in done.stderr
    assert "overlane_collect" not in done.stderr
    checked(tmp_path / "a.overlane")


def test_exit_handlers_of_the_program_are_recorded_too(tmp_path):
    code = (
        "import atexit\n"
        "from overlane_collect.annotate import annotate\n"
        "def last():\n"
        "    with annotate('at the end'):\n"
        "        pass\n"
        "atexit.register(last)\n"
    )
    assert record(tmp_path, code).returncode == 0
    _, tables = checked(tmp_path / "a.overlane")
    assert tables["ranges"]["name"].to_pylist() == ["at the end"]


def test_a_program_that_is_killed_leaves_its_trace(tmp_path):
    code = "import os, signal, time\ntime.sleep(1.3)\nos.kill(os.getpid(), signal.SIGKILL)\n"
    done = record(tmp_path, code)
    assert done.returncode == 128 + 9
    header, tables = checked(tmp_path / "a.overlane")
    assert tables["ops"].num_rows >= 50
    assert {c.check: c.status for c in header.integrity}["whole_recording"] == "warning"


def test_a_program_that_leaves_without_goodbye_leaves_its_trace(tmp_path):
    done = record(tmp_path, "import os, time\ntime.sleep(0.8)\nos._exit(5)\n")
    assert done.returncode == 5
    checked(tmp_path / "a.overlane")


def test_a_module_is_run_as_with_python_m(tmp_path):
    package = tmp_path / "pack"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text("import sys\nprint(__package__, sys.argv[1:])\n")
    done = collect("record", "--backend", "fake", "-o", "a.overlane", "-m", "--", "pack", "x", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "pack ['x']\n")
    checked(tmp_path / "a.overlane")


def test_processes_that_the_program_starts_do_not_end_the_recording(tmp_path):
    code = (
        "import multiprocessing, os\n"
        "def work(n):\n"
        "    return n * n\n"
        "if __name__ == '__main__':\n"
        "    for method in ('fork', 'spawn'):\n"
        "        with multiprocessing.get_context(method).Pool(2) as pool:\n"
        "            print(pool.map(work, [1, 2, 3]))\n"
    )
    done = record(tmp_path, code)
    assert (done.returncode, done.stdout) == (0, "[1, 4, 9]\n[1, 4, 9]\n"), done.stderr
    header, _ = checked(tmp_path / "a.overlane")
    assert {c.status for c in header.integrity} == {"ok"}


def test_followed_processes_leave_a_trace_each(tmp_path):
    code = (
        "import os, subprocess, sys\n"
        "worker = 'import time, sys; time.sleep(0.8); sys.exit(0)'\n"
        "for rank in '01':\n"
        "    environment = {**os.environ, 'RANK': rank, 'WORLD_SIZE': '2'}\n"
        "    subprocess.run([sys.executable, '-c', worker], env=environment, check=True)\n"
        "subprocess.run([sys.executable, '-c', 'import os; os._exit(0)'], check=True)\n"
    )
    (tmp_path / "program.py").write_text(code)
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.stdout.write('theirs ran\\n')\n")
    done = collect(
        "record",
        "--backend",
        "fake",
        "--follow",
        "-o",
        "a.overlane",
        "--",
        "program.py",
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(tmp_path)])},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("theirs ran") >= 3
    names = sorted(path.name for path in tmp_path.iterdir() if "overlane" in path.name)
    assert [re.sub(r"\d{2,}", "N", name) for name in names] == [
        "a.overlane",
        "a.rank0.N.overlane",
        "a.rank1.N.overlane",
    ]
    header, tables = checked(tmp_path / names[2])
    assert (header.world_size, tables["ops"]["rank"][0].as_py()) == (2, 1)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["record", "--backend", "fake"], "no program is given"),
        (["record", "--backend", "fake", "--", "missing.py"], "there is no script missing.py"),
        (["record", "--backend", "nvprof", "--", "x.py"], "known: cupti, cuda_events, fake"),
        (["record", "--backend", "cuda_events", "--", "program.py"], "use it with overlane run"),
        (["record", "--backend", "fake", "--kinds", "kernels,all", "--", "x.py"], "there is no kind 'all'"),
        (["recover", "missing.journal"], "cannot be read"),
        (["recover", "program.txt"], "say where the trace goes with -o"),
    ],
)
def test_wrong_usage_is_one_sentence_and_exit_2(tmp_path, arguments, sentence):
    done = collect(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="there is a GPU here")
def test_without_a_gpu_the_program_is_not_run_and_the_exit_code_is_3(tmp_path):
    (tmp_path / "program.py").write_text("print('ran')\n")
    done = collect("record", "--", "program.py", cwd=tmp_path)
    assert done.returncode == 3
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1
    assert "NVIDIA" in done.stderr or "cupti" in done.stderr.lower()
    assert [path.name for path in tmp_path.iterdir()] == ["program.py"]


def test_recover_says_what_it_found(tmp_path):
    script = (
        "import os\nfrom overlane_collect import Recorder\n"
        "r = Recorder('k.overlane', backend='fake'); r.start(); r.flush(); os._exit(0)\n"
    )
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True, timeout=60)
    done = collect("recover", "k.overlane.journal", "--json", cwd=tmp_path)
    facts = json.loads(done.stdout)
    assert (done.returncode, facts["damage"], facts["rows"]["ops"]) == (0, None, 50)
    checked(tmp_path / "k.overlane")
