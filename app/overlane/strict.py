"""Values as JSON that every reader takes: JSON has no word for a number that is none or infinite."""

from __future__ import annotations

import math
import re
from typing import Any

__all__ = ["strict", "strict_text"]

_WORDS = re.compile(r'"(?:[^"\\]|\\.)*"|NaN|-?Infinity', re.DOTALL)


def strict(value: Any) -> Any:
    """Return JSON values with the texts `NaN`, `Infinity` and `-Infinity` for numbers that JSON cannot say.

    Example:
        >>> strict({"a": [1.5, float("nan")], "b": float("-inf")})
        {'a': [1.5, 'NaN'], 'b': '-Infinity'}
    """
    if isinstance(value, dict):
        return {key: strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [strict(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def strict_text(text: str) -> str:
    """Return JSON as Python writes it with such numbers as texts.

    Example:
        >>> strict_text('{"NaN": NaN, "b": [-Infinity, 5]}')
        '{"NaN": "NaN", "b": ["-Infinity", 5]}'
    """
    if "NaN" not in text and "Infinity" not in text:
        return text
    return _WORDS.sub(lambda word: word[0] if word[0].startswith('"') else f'"{word[0]}"', text)
