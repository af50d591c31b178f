"""What runs in the user's process: record, recover, run and list workloads.

Exit codes: 0 done, 1 a check failed, 2 wrong usage or an unreadable input, 3 no usable GPU or driver, 4 a
fault of ours or of the machine; `record` returns the recorded program's own status.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from overlane_collect.errors import CollectError

__all__ = ["build_parser", "main"]

EXIT_FAULT = 4


def add_record_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `record`."""
    parser.add_argument(
        "-o", "--out", type=Path, help="trace to write (default: the program's name with .overlane)"
    )
    parser.add_argument(
        "-m", "--module", action="store_true", help="the program is a module, as with python -m"
    )
    parser.add_argument("--backend", default="cupti", help="where records come from (default: cupti)")
    parser.add_argument(
        "--calls",
        choices=("needed", "all", "none"),
        default="needed",
        help="host calls to record; all slows programs that make many (default: needed)",
    )
    parser.add_argument("--no-allocations", action="store_true", help="leave out allocations and frees")
    parser.add_argument("--no-markers", action="store_true", help="leave out NVTX ranges and marks")
    parser.add_argument(
        "--follow",
        action="store_true",
        help="record Python processes that the program starts, one trace each",
    )
    parser.add_argument(
        "--thorough",
        action="store_true",
        help="newest libcupti and all stamps, even if records then come only at the end; for short runs",
    )
    parser.add_argument(
        "--kinds",
        metavar="KIND,...",
        help="record only these of kernels, copies, memsets, syncs, events, overheads, "
        "host-functions, counters (default: all but counters)",
    )
    parser.add_argument(
        "--accesses",
        action="store_true",
        help="log the memory that copies, memsets and kernels are given; slows every launch",
    )
    _add_window_arguments(parser)
    parser.add_argument("program", nargs=argparse.REMAINDER, help="-- SCRIPT or MODULE with its arguments")


def _add_window_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare which part of the run `record` records."""
    parser.add_argument(
        "--delay", type=float, default=0.0, metavar="SECONDS", help="begin to record only after this time"
    )
    parser.add_argument(
        "--duration", type=float, metavar="SECONDS", help="record no longer than this; the program goes on"
    )
    parser.add_argument(
        "--range", metavar="NAME", help="record only while an NVTX or annotate range of this name is open"
    )
    parser.add_argument(
        "--profiler-calls",
        action="store_true",
        help="record only between the profiler's start and stop calls, as of torch.cuda.profiler",
    )


def add_recover_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `recover`."""
    parser.add_argument("journal", type=Path, help="the .journal file that a killed recording left")
    parser.add_argument(
        "-o", "--out", type=Path, help="trace to write (default: the journal's name without .journal)"
    )
    parser.add_argument("--json", action="store_true", help="print what was recovered as JSON")


def record(arguments: argparse.Namespace) -> int:
    """Record a program and return its own status.

    Raises:
        CollectError: There is nothing to record or nothing to record with.
    """
    from overlane_collect.backends import BACKENDS, Options  # noqa: PLC0415 - keeps --help quick
    from overlane_collect.launch import record_program  # noqa: PLC0415
    from overlane_collect.window import Window  # noqa: PLC0415

    program = arguments.program[1:] if arguments.program[:1] == ["--"] else arguments.program
    if not program:
        raise CollectError("no program is given; use: overlane record -o OUT -- SCRIPT ARGUMENTS")
    if arguments.backend not in BACKENDS.names:
        raise CollectError(f"there is no backend {arguments.backend!r}; known: {', '.join(BACKENDS.names)}")
    if arguments.backend == "cuda_events":
        raise CollectError(
            "cuda_events brackets the operations of our own workloads; use it with overlane run, "
            "or record with cupti"
        )
    out = arguments.out or Path(f"{Path(program[0]).stem}.overlane")
    options = Options(
        calls=arguments.calls,
        allocations=not arguments.no_allocations,
        markers=not arguments.no_markers,
        thorough=arguments.thorough,
        kinds=_kinds(arguments.kinds),
        accesses=arguments.accesses,
    )
    window = Window(arguments.delay, arguments.duration, arguments.range, arguments.profiler_calls)
    launch = record_program(
        program,
        out,
        module=arguments.module,
        backend=arguments.backend,
        options=options,
        follow=arguments.follow,
        window=window,
    )
    recovered = launch.recovered
    ending = "" if recovered.damage is None else f"; {recovered.damage}"
    _say(
        f"{out}: {recovered.rows.get('ops', 0)} operations, "
        f"{recovered.rows.get('api_calls', 0)} calls{ending}"
    )
    for child in launch.children:
        _say(f"{child.path}: {child.rows.get('ops', 0)} operations of a process that it started")
    return launch.status


def _kinds(text: str | None) -> tuple[str, ...]:
    """Return the kinds of records that a list names; without one all that cost little.

    Raises:
        CollectError: One is unknown.
    """
    from overlane_collect.backends.base import DEFAULT_KINDS, KINDS  # noqa: PLC0415 - keeps --help quick

    if text is None:
        return DEFAULT_KINDS
    names = tuple(text.split(","))
    for name in names:
        if name not in KINDS:
            raise CollectError(f"there is no kind {name!r} of records; choose from {', '.join(KINDS)}")
    return names


def recover_journal(arguments: argparse.Namespace) -> int:
    """Write the trace of a journal.

    Raises:
        CollectError: It is no journal, or the trace cannot be written.
    """
    from overlane_collect.recorder import JOURNAL_SUFFIX  # noqa: PLC0415 - keeps --help quick
    from overlane_collect.recovery import recover  # noqa: PLC0415

    journal: Path = arguments.journal
    out = arguments.out
    if out is None:
        if journal.suffix != JOURNAL_SUFFIX:
            raise CollectError(
                f"{journal.name} does not end in {JOURNAL_SUFFIX}; say where the trace goes with -o"
            )
        out = journal.with_suffix("")
    recovered = recover(journal, out)
    if arguments.json:
        facts = {"schema": 1, "path": str(out), "rows": recovered.rows, "damage": recovered.damage}
        sys.stdout.write(json.dumps(facts, indent=2) + "\n")
    else:
        ending = "the journal is whole" if recovered.damage is None else recovered.damage
        sys.stdout.write(f"{out}: {sum(recovered.rows.values())} rows; {ending}\n")
    return 0


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `run`."""
    parser.add_argument("workload", help="name of a workload; `workloads` lists them")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        dest="settings",
        metavar="NAME=VALUE",
        help="set a parameter; with --repeat, NAME=ONE,OTHER makes variants",
    )
    parser.add_argument("--repeat", type=int, help="make this many captures of each variant, in random order")
    parser.add_argument("--repeat-index", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("-o", "--out", type=Path, help="trace to write, or with --repeat the folder")
    parser.add_argument("--backend", default="cupti", help="where records come from (default: cupti)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def add_workloads_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `workloads`."""
    parser.add_argument("--json", action="store_true", help="print them as JSON")


def run_workload(arguments: argparse.Namespace) -> int:
    """Run a workload; 0 when its result is right, 1 when it is wrong.

    Raises:
        CollectError: A setting is wrong, there is no GPU, or a call failed.
    """
    from overlane_collect.workloads import WORKLOADS  # noqa: PLC0415 - keeps --help quick
    from overlane_collect.workloads.runner import plan, run_capture, run_many  # noqa: PLC0415

    workload = WORKLOADS.find(arguments.workload)
    if arguments.repeat is not None:
        if arguments.repeat < 1:
            raise CollectError(f"--repeat {arguments.repeat} makes no capture; give 1 or more")
        folder = arguments.out or Path(f"{workload.name}-captures")
        captures = plan(workload, arguments.settings, arguments.repeat, folder)
        folder.mkdir(parents=True, exist_ok=True)
        said = run_many(workload, captures, backend=arguments.backend)
        if arguments.json:
            sys.stdout.write(json.dumps({"schema": 1, "captures": said}, indent=2) + "\n")
        else:
            for answer in said:
                sys.stdout.write(
                    "\n".join([answer["path"], *(f"  {line}" for line in answer["lines"])]) + "\n"
                )
        return max(int(answer["exit_code"]) for answer in said)
    out = arguments.out or Path(f"{workload.name}.overlane")
    outcome = run_capture(
        workload, arguments.settings, out, backend=arguments.backend, repeat_index=arguments.repeat_index
    )
    if arguments.json:
        answer = {"path": str(out), "correct": outcome.correct, "lines": outcome.lines, **outcome.measured}
        sys.stdout.write(json.dumps({"schema": 1, **answer}, indent=2) + "\n")
    else:
        sys.stdout.write(
            "\n".join([*outcome.lines, f"result={'right' if outcome.correct else 'wrong'}"]) + "\n"
        )
    return 0 if outcome.correct else 1


def list_workloads(arguments: argparse.Namespace) -> int:
    """List the workloads with their parameters."""
    from overlane_collect.workloads import WORKLOADS  # noqa: PLC0415 - keeps --help quick
    from overlane_collect.workloads.runner import describe  # noqa: PLC0415

    known = [describe(workload) for workload in WORKLOADS]
    if arguments.json:
        sys.stdout.write(json.dumps({"schema": 1, "workloads": known}, indent=2) + "\n")
        return 0
    for item in known:
        sys.stdout.write(f"{item['name']}: {item['description']}\n")
        for parameter in item["parameters"]:
            sys.stdout.write(f"    {parameter['name']}={parameter['default']}  {parameter['doc']}\n")
    return 0


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of `python -m overlane_collect`."""
    parser = argparse.ArgumentParser(
        prog="overlane_collect", description="Record what the GPU does.", allow_abbrev=False
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    one = commands.add_parser("record", help="record an unmodified Python program", allow_abbrev=False)
    add_record_arguments(one)
    one.set_defaults(run=record)
    one = commands.add_parser(
        "recover", help="turn the journal of a killed recording into a trace", allow_abbrev=False
    )
    add_recover_arguments(one)
    one.set_defaults(run=recover_journal)
    one = commands.add_parser(
        "run", help="run an instrumented workload and verify its result", allow_abbrev=False
    )
    add_run_arguments(one)
    one.set_defaults(run=run_workload)
    one = commands.add_parser("workloads", help="list the instrumented workloads", allow_abbrev=False)
    add_workloads_arguments(one)
    one.set_defaults(run=list_workloads)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code.

    Args:
        argv: Arguments without the program's name; by default those of the process.
    """
    try:
        arguments = build_parser().parse_args(argv)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else CollectError.exit_code
    try:
        code: int = arguments.run(arguments)
    except CollectError as error:
        if os.environ.get("OVERLANE_DEBUG"):
            traceback.print_exc()
        _say(str(error))
        return error.exit_code
    except Exception as error:  # noqa: BLE001 - the last line of defence: a sentence instead of a traceback
        if os.environ.get("OVERLANE_DEBUG"):
            traceback.print_exc()
        _say(
            f"an unexpected fault, not yours: {type(error).__name__}: {error}; "
            "run it again with OVERLANE_DEBUG=1"
        )
        return EXIT_FAULT
    return code


def _say(sentence: str) -> None:
    sys.stderr.write(f"overlane: {' '.join(sentence.split())}\n")
