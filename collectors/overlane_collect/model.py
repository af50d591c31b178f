"""The header of a trace: what was run, on what, and what the file can prove.

Plain frozen dataclasses without pandas or Arrow, so that they can be made inside a recorded program.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

__all__ = ["Capability", "ClockDomain", "Header", "IntegrityCheck"]

_Made = TypeVar("_Made")


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
            TypeError: A field is missing, of another type, or not known to this version.
        """
        if not isinstance(values, dict):
            raise TypeError("it is no object")
        fields = dict(values)
        for name, part in (("integrity", IntegrityCheck), ("clocks", ClockDomain)):
            items = fields.get(name, ())
            if not isinstance(items, list | tuple):
                raise TypeError(f"{name} is no list")
            fields[name] = tuple(_made(part, item, f"{name}: ") for item in items)
        capabilities = fields.get("capabilities", {})
        if not isinstance(capabilities, dict):
            raise TypeError("capabilities is no object")
        fields["capabilities"] = {
            name: _made(Capability, item, f"capability {name}: ") for name, item in capabilities.items()
        }
        return _made(cls, fields, "")


def _made(part: type[_Made], values: Any, place: str) -> _Made:
    """Return one dataclass of this module, made of JSON values.

    Raises:
        TypeError: A field is missing, of another type, or not known; the message starts with `place`.
    """
    if not isinstance(values, dict):
        raise TypeError(f"{place}it is no object")
    known = {item.name: item for item in dataclasses.fields(part)}  # type: ignore[arg-type]
    unknown = [name for name in values if name not in known]
    if unknown:
        raise TypeError(f"{place}no field is called {unknown[0]!r}")
    for name, item in known.items():
        if name not in values:
            if item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING:
                raise TypeError(f"{place}{name} is missing")
            continue
        fits, words = _FORMS[str(item.type)]
        if not fits(values[name]):
            raise TypeError(f"{place}{name} is not {words}")
    return part(**values)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(1 << 63) <= value < 1 << 63


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_any(value: Any) -> bool:
    """Accept what was checked before."""
    del value
    return True


# By the fields' annotations, so that none can be declared as one type and checked as another.
_FORMS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "str": (_is_text, "text"),
    "str | None": (lambda value: value is None or _is_text(value), "text or null"),
    "bool": (lambda value: isinstance(value, bool), "true or false"),
    "int": (_is_whole, "a whole number of 64 bits"),
    "int | None": (lambda value: value is None or _is_whole(value), "a whole number of 64 bits or null"),
    "dict[str, Any]": (_is_object, "an object"),
    "dict[str, int]": (
        lambda value: _is_object(value) and all(map(_is_whole, value.values())),
        "an object of whole numbers",
    ),
    "Literal['ok', 'warning', 'failed']": (
        lambda value: _is_text(value) and value in {"ok", "warning", "failed"},
        "one of ok, warning, failed",
    ),
    "dict[str, Capability]": (_is_any, ""),
    "tuple[IntegrityCheck, ...]": (_is_any, ""),
    "tuple[ClockDomain, ...]": (_is_any, ""),
}
