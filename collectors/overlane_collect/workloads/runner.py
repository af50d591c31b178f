"""Runs a workload: alone with its recording, or many times in processes of their own, in random order."""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from overlane_collect._cuda import Gpu
from overlane_collect.backends import Options
from overlane_collect.backends.base import KINDS
from overlane_collect.errors import CollectError, MachineError
from overlane_collect.recorder import Recorder
from overlane_collect.workloads.base import EXPECT, Outcome, Workload, parse_settings
from overlane_collect.workloads.run_log import RunLog

__all__ = ["Capture", "describe", "plan", "run_capture", "run_many"]


@runtime_checkable
class Attachable(Protocol):
    """A backend that is told of what a workload does by the workload's own device."""

    def attach(self, gpu: Gpu) -> None:
        """Observe a device from now on."""


@dataclass(frozen=True)
class Capture:
    """One run to make.

    Attributes:
        settings: Texts like `NAME=VALUE`, each with one value.
        repeat_index: Which repeat of these settings it is.
        out: Trace to write.
    """

    settings: tuple[str, ...]
    repeat_index: int
    out: Path


def describe(workload: Workload) -> dict[str, Any]:
    """Return what `overlane workloads --json` says of one."""
    return {
        "name": workload.name,
        "description": workload.description,
        "parameters": [
            {
                "name": p.name,
                "default": list(p.default) if isinstance(p.default, tuple) else p.default,
                "choices": list(p.choices),
                "doc": p.doc,
            }
            for p in (*workload.parameters, EXPECT)
        ],
    }


def run_capture(
    workload: Workload, settings: Sequence[str], out: Path, *, backend: str, repeat_index: int
) -> Outcome:
    """Run a workload once in this process, and write its trace, also of a wrong result.

    Args:
        workload: Workload.
        settings: Texts like `NAME=VALUE`.
        out: Trace to write.
        backend: Name of a backend.
        repeat_index: Kept in the header.

    Raises:
        NoGpuError: There is nothing to run or record on.
        DriverError: A call failed.
        CollectError: A setting is wrong, or the trace cannot be written.
    """
    values = parse_settings(workload, settings)
    shown = {name: list(v) if isinstance(v, tuple) else v for name, v in values.items()}
    recorder = Recorder(
        out,
        backend=backend,
        parameters={"workload": workload.name, **shown},
        header={"repeat_index": repeat_index},
        options=Options(thorough=True, kinds=KINDS),  # short, and worth every stamp
    )
    recorder.start()  # before CUDA: launch stamps and the kinds of all streams are known only then
    try:
        log = RunLog(recorder)
        gpu = Gpu(0, log)
        if isinstance(recorder.backend, Attachable):
            recorder.backend.attach(gpu)
        outcome = workload.run(gpu, {**values, "shift": int(values["expect"] == "wrong")})
        gpu.synchronize()
        log.finish()
        recorder.fact(
            "workload",
            workload=workload.name,
            correct=outcome.correct,
            measured=outcome.measured,
            **gpu.facts,
        )
    except CollectError:
        recorder.close(write=False)
        recorder.journal_path.unlink(missing_ok=True)
        raise
    recorder.close()
    return outcome


def plan(
    workload: Workload, settings: Sequence[str], repeat: int, out: Path, *, seed: int | None = None
) -> list[Capture]:
    """Return the captures to make, in random order, so that drift of the machine weighs on no variant.

    Args:
        workload: Workload.
        settings: Texts like `NAME=VALUE`; `NAME=ONE,OTHER` of a parameter with choices makes variants.
        repeat: Captures of each variant.
        out: Folder for the traces.
        seed: Of the order.

    Raises:
        CollectError: A setting is wrong.
    """
    captures = [
        Capture(variant, index, out / f"{_label(workload, variant)}-{index}.overlane")
        for variant in _variants(workload, settings)
        for index in range(repeat)
    ]
    for capture in captures:
        parse_settings(workload, capture.settings)
    random.Random(seed).shuffle(captures)  # noqa: S311 - an order, not a secret
    return captures


def _variants(workload: Workload, settings: Sequence[str]) -> Iterator[tuple[str, ...]]:
    with_choices = {parameter.name for parameter in workload.parameters if parameter.choices}
    columns = []
    for setting in settings:
        name, _, text = setting.partition("=")
        texts = text.split(",") if name in with_choices else [text]
        columns.append([f"{name}={text}" for text in texts] if "=" in setting else [setting])
    return itertools.product(*columns)


def _label(workload: Workload, settings: Sequence[str]) -> str:
    """Return a file name that tells variants apart."""
    parts = [setting.partition("=")[2].replace(",", "+") for setting in settings]
    return "-".join([workload.name, *parts])


def run_many(workload: Workload, captures: Sequence[Capture], *, backend: str) -> list[Mapping[str, Any]]:
    """Make each capture in a process of its own, since only a new process has an uninitialized CUDA.

    Args:
        workload: Workload.
        captures: What to make, in this order.
        backend: Name of a backend.

    Returns:
        What each said, with `exit_code`, in the order given.

    Raises:
        CollectError: A capture could not be made; its own sentence.
    """
    said: list[Mapping[str, Any]] = []
    for capture in captures:
        command = [sys.executable, "-m", "overlane_collect", "run", workload.name, "--json"]
        command += ["--backend", backend, "-o", str(capture.out), "--repeat-index", str(capture.repeat_index)]
        for setting in capture.settings:
            command += ["--set", setting]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own
        if done.returncode not in (0, 1):
            sentence = done.stderr.strip().removeprefix("overlane: ") or f"exit code {done.returncode}"
            failure = MachineError(f"{capture.out.name}: {sentence}")
            failure.exit_code = done.returncode if done.returncode > 0 else MachineError.exit_code
            raise failure
        said.append({**json.loads(done.stdout), "exit_code": done.returncode})
    return said
