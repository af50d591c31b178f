"""The corpus of real trace files: where it is, what each file is, and how many were checked."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

VARIABLE = "OVERLANE_TRACE_CORPUS"
WHY_SKIPPED = f"{VARIABLE} names no folder of real traces (with public/MANIFEST.json and h200/)"

# What a refused file is called in the sentence that refuses it, by the end of its name; longest first.
REFUSED_AS = {
    "matmul_result.json": ("RPD", "Chrome"),
    "jax_host.trace.json.gz": ("JAX", "TensorFlow", "XLA", "Chrome"),
    "jax08_gemm.trace.json.gz": ("JAX", "TensorFlow", "XLA", "Chrome"),
    "jax_conv_minimal_08.trace.json.gz": ("JAX", "TensorFlow", "XLA", "Chrome"),
    "908_trim1500.json": ("rocprof",),
    ".xplane.pb": ("XPlane", "XSpace"),
    ".nsys-rep": ("Nsight",),
    "docs/examples/test.sqlite": ("SQLite",),
    ".sqlite": ("Nsight",),
    ".rpd": ("RPD", "SQLite"),
    ".pftrace": ("Perfetto",),
    ".csv": ("CSV", "rocprof"),
}


@dataclass
class Tally:
    """How many files of the corpus a session checked.

    Attributes:
        listed: Files that the corpus holds: those of the manifest and those of h200/.
        read: Names of files that were read and measured.
        refused: Names of files that were refused with the right sentence.
    """

    listed: int
    read: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)

    @property
    def checked(self) -> int:
        """Files that were read or refused."""
        return len(self.read) + len(self.refused)

    def sentence(self) -> str:
        """Return the line for the end of the session."""
        return (
            f"corpus: {self.checked} files checked ({len(self.read)} read, {len(self.refused)} refused) "
            f"of {self.listed} listed"
        )


TALLY: pytest.StashKey[Tally] = pytest.StashKey()


def folder() -> Path | None:
    """Return the folder of the corpus, None when none is named."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else None


def paths() -> list[Path]:
    """Return all files of the corpus: those that the manifest lists, then the recordings of the H200."""
    root = folder()
    if root is None:
        return []
    manifest = json.loads((root / "public" / "MANIFEST.json").read_text("utf-8"))
    listed = [root / "public" / entry["local"] for entry in manifest]
    return listed + sorted(path for path in (root / "h200").iterdir() if path.is_file())


def refused_as(path: Path) -> tuple[str, ...] | None:
    """Return the words of which one must stand in the refusal; None for a file that is to be read."""
    for end, words in REFUSED_AS.items():
        if str(path).endswith(end):
            return words
    return None


def is_in_ci() -> bool:
    """Tell whether fewer files than listed are a failure."""
    return os.environ.get("CI") == "true"
