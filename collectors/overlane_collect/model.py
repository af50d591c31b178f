"""The header of a trace: what was run, on what, and what the file can prove.

Plain frozen dataclasses without pandas or Arrow, so that they can be made inside a recorded program.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = ["Capability", "ClockDomain", "Header", "IntegrityCheck"]


@dataclass(frozen=True)
class Capability:
    """Whether the file can prove one kind of statement.

    Attributes:
        proven: The file holds what the statement rests on.
        reason: Why it can or cannot, as a sentence.
    """

    proven: bool
    reason: str


@dataclass(frozen=True)
class IntegrityCheck:
    """One check of what is suspect in a file.

    Attributes:
        check: Name in snake_case.
        status: `ok`, `warning` (numbers still hold) or `failed` (conclusions that rest on it are marked).
        count: How many rows or records it concerns.
        detail: One sentence.
    """

    check: str
    status: Literal["ok", "warning", "failed"]
    count: int
    detail: str


@dataclass(frozen=True)
class ClockDomain:
    """A clock that stamps of the trace come from.

    Attributes:
        name: As in `host`, `cupti` or `globaltimer`.
        offset_ns: Added to its stamps to reach the trace's time.
        fit_error_ns: No order closer than this is claimed between it and the trace's time; None when unknown.
    """

    name: str
    offset_ns: int = 0
    fit_error_ns: int | None = None


@dataclass(frozen=True)
class Header:
    """Provenance of one trace (`meta.json` of a `.overlane` file).

    Attributes:
        format: Format that it was read from or written as, as in `kineto` or `overlane`.
        producer: Program that wrote the source, with its version where known.
        origin_unix_ns: Wall-clock time of the trace's origin in ns since 1970, None when the source has only
            relative times.
        command: Command line of the recorded program.
        driver_version: CUDA driver version as text.
        runtime_version: CUDA runtime version as text.
        world_size: Ranks of the distributed job.
        parameters: Parameters of the workload.
        repeat_index: Which repeat of the workload it is.
        dropped: Reason to count of source records that are in no table.
        source_events: Records in the source; equals rows of all tables that come from records plus `dropped`.
        capabilities: What the file can prove, by name.
        integrity: What is suspect.
        clocks: Clock domains of the stamps.
        synthetic: True for made-up traces.
        extra: What else the source's header says (environment, host and user names excluded).
    """

    format: str
    producer: str = ""
    origin_unix_ns: int | None = None
    command: str | None = None
    driver_version: str | None = None
    runtime_version: str | None = None
    world_size: int | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    repeat_index: int | None = None
    dropped: dict[str, int] = field(default_factory=dict)
    source_events: int | None = None
    capabilities: dict[str, Capability] = field(default_factory=dict)
    integrity: tuple[IntegrityCheck, ...] = ()
    clocks: tuple[ClockDomain, ...] = ()
    synthetic: bool = False
    extra: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the header as plain JSON values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Header:
        """Return the header that `to_json` gave.

        Raises:
            TypeError: A field is missing or not known to this version.
        """
        fields = dict(values)
        fields["capabilities"] = {
            name: Capability(**item) for name, item in fields.get("capabilities", {}).items()
        }
        fields["integrity"] = tuple(IntegrityCheck(**item) for item in fields.get("integrity", ()))
        fields["clocks"] = tuple(ClockDomain(**item) for item in fields.get("clocks", ()))
        return cls(**fields)
