"""Follow the processes that a recorded program starts: each records itself, into a trace of its own.

The recorded program's environment gets a folder at the head of PYTHONPATH whose `sitecustomize` starts a
recorder before the process runs anything else; a `sitecustomize` that was there before is run too. Forked
processes are not followed: CUDA cannot be used in them once their parent has used it.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.machinery
import importlib.util
import json
import os
import sys
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

from overlane_collect.errors import CollectError

__all__ = [
    "FOLLOWED",
    "SETTINGS_VARIABLE",
    "child_name",
    "follow_children",
    "run_sitecustomize",
    "start_child",
]

SETTINGS_VARIABLE = "OVERLANE_FOLLOW"
"""Environment variable with the settings of the recording, as JSON."""

FOLLOWED = ("out", "backend", "options", "window")
"""What followed processes get of the recording's settings."""

_SITE = Path(__file__).parent / "_site"


def follow_children(environment: MutableMapping[str, str], settings: dict[str, Any]) -> None:
    """Change an environment so that Python processes started with it record themselves.

    Args:
        environment: Environment of the recorded program, changed in place.
        settings: `FOLLOWED` of the recording.
    """
    path = environment.get("PYTHONPATH", "")
    environment["PYTHONPATH"] = os.pathsep.join(part for part in (str(_SITE), path) if part)
    environment[SETTINGS_VARIABLE] = json.dumps(settings)


def child_name(out: Path, environment: MutableMapping[str, str], process_id: int) -> Path:
    """Return the trace of a followed process: its rank tells it where it has one, and its process id.

    Example:
        >>> child_name(Path("run.overlane"), {"RANK": "3", "WORLD_SIZE": "8"}, 77).name
        'run.rank3.77.overlane'
    """
    rank = environment.get("RANK", "")
    part = f".rank{rank}" if rank.isdigit() and environment.get("WORLD_SIZE", "1") != "1" else ""
    return out.with_name(f"{out.stem}{part}.{process_id}{out.suffix}")


def start_child() -> None:
    """Start the recorder of this process, as the settings in its environment say.

    A process that cannot be recorded runs on without; the sentence says why.
    """
    settings = json.loads(os.environ[SETTINGS_VARIABLE])
    from overlane_collect.backends import Options  # noqa: PLC0415 - only in a process that is followed
    from overlane_collect.recorder import Recorder  # noqa: PLC0415
    from overlane_collect.window import Window, WindowControl  # noqa: PLC0415

    out = child_name(Path(settings["out"]), os.environ, os.getpid())
    recorder = Recorder(out, backend=settings["backend"], options=Options(**settings["options"]))
    try:
        recorder.start()
        WindowControl(recorder, Window(**settings["window"])).begin()
    except CollectError as error:
        sys.stderr.write(f"overlane: process {os.getpid()} is not recorded: {error}\n")
        return
    atexit.register(_finish, recorder, os.getpid())


def _finish(recorder: Any, process_id: int) -> None:
    if os.getpid() == process_id:
        with contextlib.suppress(CollectError):
            recorder.close(write=False)


def run_sitecustomize() -> None:
    """Run the `sitecustomize` that ours stands before, if there is one."""
    others = [entry for entry in sys.path if Path(entry or ".").resolve() != _SITE.resolve()]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
