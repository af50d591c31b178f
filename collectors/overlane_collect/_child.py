"""Runs the recorded program: starts the recorder, then becomes the program.

Started by `overlane_collect.launch` in a process of its own, so that decoding and writing the trace cost the
program nothing, and a program that is killed still leaves its trace.
"""

from __future__ import annotations

import atexit
import io
import json
import os
import runpy
import sys
import types
from pathlib import Path

from overlane_collect.errors import CollectError
from overlane_collect.follow import FOLLOWED, follow_children
from overlane_collect.recorder import Recorder
from overlane_collect.window import Window, WindowControl

__all__ = ["main"]


def main(argv: list[str]) -> None:
    """Record a program.

    Args:
        argv: The launcher's settings as JSON, `script` or `module`, then the program with its arguments.
    """
    settings, form, program = json.loads(argv[0]), argv[1], argv[2:]
    status = settings["status_fd"]
    os.set_inheritable(status, False)
    sys.argv = list(program)
    from overlane_collect.backends import Options  # noqa: PLC0415 - after argv, which the header keeps

    recorder = Recorder(settings["out"], backend=settings["backend"], options=Options(**settings["options"]))
    try:
        recorder.start()
        WindowControl(recorder, Window(**settings["window"])).begin()
    except CollectError as error:
        os.write(status, json.dumps({"error": str(error), "exit_code": error.exit_code}).encode())
        os._exit(error.exit_code)
    os.write(status, b"{}")
    os.close(status)
    atexit.register(_finish, recorder, os.getpid())
    if settings["follow"]:
        follow_children(os.environ, {name: settings[name] for name in FOLLOWED})
    if form == "module":
        sys.path[0] = str(Path.cwd())
        runpy.run_module(program[0], run_name="__main__", alter_sys=True)
    else:
        _run_script(program[0])


def _finish(recorder: Recorder, process_id: int) -> None:
    """Bring the rest into the journal; runs after the program's own exit handlers, and not in forks of it."""
    if os.getpid() != process_id:
        return
    try:
        recorder.close(write=False)
    except CollectError as error:
        sys.stderr.write(f"overlane: {error}\n")


def _run_script(script: str) -> None:
    """Run a script as `python SCRIPT` does: in a module `__main__` of its own, which stays until the end."""
    path = Path(script)
    if not path.is_file():  # a folder or archive with a __main__.py
        runpy.run_path(script, run_name="__main__")
        return
    sys.path[0] = str(path.resolve().parent)
    main_module = types.ModuleType("__main__")
    main_module.__file__ = script
    main_module.__builtins__ = __builtins__  # type: ignore[attr-defined]
    sys.modules["__main__"] = main_module
    with io.open_code(str(path.resolve())) as file:
        code = compile(file.read(), script, "exec")
    try:
        exec(code, main_module.__dict__)  # noqa: S102 - that is what recording a program means
    except Exception as error:  # noqa: BLE001 - shown as Python would, without our frames
        own = error.__traceback__.tb_next if error.__traceback__ is not None else None
        sys.excepthook(type(error), error.with_traceback(own), own)
        sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
