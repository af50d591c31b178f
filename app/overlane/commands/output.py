"""The one place where text of traces and file names becomes output: nothing in it may steer a terminal."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from overlane.strict import strict

__all__ = ["json_text", "printable"]

_Value = TypeVar("_Value")

# Control characters, and the marks that turn the direction of text around or start a new line.
_STEERING = [
    *range(0x20),
    *range(0x7F, 0xA0),
    0x61C,
    0x200E,
    0x200F,
    *range(0x2028, 0x202F),
    *range(0x2066, 0x206A),
]
_ESCAPED = {code: f"\\u{code:04x}" for code in _STEERING} | {0x09: "\\t", 0x0A: "\\n", 0x0D: "\\r"}
_ESCAPED_IN_JSON = {
    code: word for code, word in _ESCAPED.items() if code >= 0x20
}  # JSON has escaped the rest


def printable(value: _Value) -> _Value:
    r"""Return a text, or JSON values with every text in them, with control characters shown escaped.

    Example:
        >>> print(printable("GPU\x1b[2J"))
        GPU\u001b[2J
    """
    found: Any = value
    if isinstance(found, str):
        found = found.translate(_ESCAPED)
    elif isinstance(found, dict):
        found = {printable(key): printable(item) for key, item in found.items()}
    elif isinstance(found, list | tuple):
        found = [printable(item) for item in found]
    result: _Value = found
    return result


def json_text(values: Any) -> str:
    """Return JSON for people and programs: indented, with readable letters and no raw control characters."""
    text = json.dumps(strict(values), indent=2, ensure_ascii=False, allow_nan=False)
    return text.translate(_ESCAPED_IN_JSON) + "\n"
