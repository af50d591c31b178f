"""Find the bundled sample traces, beside the installed package or in a source checkout."""

from __future__ import annotations

import json
from pathlib import Path

from overlane.errors import OverlaneError

__all__ = ["sample_folder", "sample_path", "sample_paths"]

_FOLDER = "sample_traces"
_MANIFEST = "MANIFEST.json"


def sample_folder() -> Path:
    """Return the folder of the bundled traces.

    Returns:
        `sample_traces` inside the package, where the wheel puts it, else at the top of the checkout.

    Raises:
        OverlaneError: Neither holds a manifest.
    """
    package = Path(__file__).resolve().parent
    candidates = (package / _FOLDER, package.parents[1] / _FOLDER)
    for folder in candidates:
        if (folder / _MANIFEST).is_file():
            return folder
    looked = " and ".join(str(folder) for folder in candidates)
    raise OverlaneError(
        f"the sample traces are missing: no {_MANIFEST} in {looked}; install overlane again, or name a trace"
    )


def sample_paths() -> list[Path]:
    """Return the bundled traces in the order of their manifest, the H200 training run first.

    Raises:
        OverlaneError: The folder or one of the traces that its manifest lists is missing.

    Example:
        >>> sample_paths()[0].name
        'torch_train_pinned.json.gz'
    """
    folder = sample_folder()
    paths = [
        folder / entry["file"] for entry in json.loads((folder / _MANIFEST).read_text("utf-8"))["traces"]
    ]
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        raise OverlaneError(
            f"{folder / _MANIFEST} lists missing traces: {', '.join(missing)}; install overlane again"
        )
    return paths


def sample_path(name: str) -> Path:
    """Return one bundled trace.

    Args:
        name: Its file name, with or without the suffix.

    Raises:
        OverlaneError: No bundled trace is called so; the known ones are listed.

    Example:
        >>> sample_path("torch_cudagraph").name
        'torch_cudagraph.json.gz'
    """
    paths = {path.name: path for path in sample_paths()}
    for file_name, path in paths.items():
        if name in (file_name, file_name.split(".", 1)[0]):
            return path
    raise OverlaneError(f"no sample trace is called {name}; there are {', '.join(paths)}")
