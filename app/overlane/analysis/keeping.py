"""Take a result of an analysis apart into named arrays, and put it together again.

A result is a tree of arrays, plain values, tuples, lists, dictionaries and objects of the classes that are
declared for it. Objects are told apart by the names of those classes alone and made without running any of
their code, so a file that was tampered with can name nothing else. What stands in several places of the tree is
stored once and is one object again.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["pack", "unpack"]

_TREE = "tree"
_PLAIN = (bool, int, float, str, type(None))


def pack(result: Any, classes: Mapping[str, type]) -> dict[str, np.ndarray[Any, Any]]:
    """Return the arrays of a result, one of which describes its structure.

    Args:
        result: The result.
        classes: Classes of the objects in it, by name.

    Raises:
        TypeError: It holds an object of another class.

    Example:
        >>> sorted(pack({"at": np.arange(3)}, {}))
        ['0', 'tree']
    """
    packer = _Packer(classes)
    tree = packer.tree(result)
    return packer.arrays | {_TREE: np.frombuffer(json.dumps(tree).encode(), np.uint8)}


def unpack(arrays: Mapping[str, np.ndarray[Any, Any]], classes: Mapping[str, type]) -> Any:
    """Return the result that `pack` took apart.

    Args:
        arrays: Its arrays.
        classes: Classes of the objects in it, by name.

    Raises:
        ValueError, KeyError: The arrays do not fit together.

    Example:
        >>> unpack(pack({"at": np.arange(3)}, {}), {})
        {'at': array([0, 1, 2])}
    """
    return _Unpacker(arrays, classes).value(json.loads(bytes(arrays[_TREE])))


class _Packer:
    def __init__(self, classes: Mapping[str, type]) -> None:
        self.arrays: dict[str, np.ndarray[Any, Any]] = {}
        self._names = {kind: name for name, kind in classes.items()}
        # Holding the objects keeps their ids from being used again.
        self._seen: dict[int, tuple[Any, int]] = {}

    def tree(self, value: Any) -> list[Any]:
        """Return a value as a tag and JSON."""
        if isinstance(value, _PLAIN):
            return ["plain", value]
        if isinstance(value, np.generic):
            return ["plain", value.item()]
        if type(value) in {tuple, list}:
            return [type(value).__name__, [self.tree(item) for item in value]]
        if type(value) is dict:
            return ["dict", [[self.tree(key), self.tree(item)] for key, item in value.items()]]
        if id(value) in self._seen:
            return ["same", self._seen[id(value)][1]]
        number = len(self._seen)
        self._seen[id(value)] = (value, number)
        if isinstance(value, np.ndarray):
            self.arrays[str(number)] = value
            return ["array", number]
        if type(value) not in self._names:
            raise TypeError(f"a result that is kept holds a {type(value).__name__}; declare its class")
        if dataclasses.is_dataclass(value):
            fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        else:
            fields = vars(value)
        parts = [[name, self.tree(part)] for name, part in fields.items()]
        return ["object", number, self._names[type(value)], parts]


class _Unpacker:
    def __init__(self, arrays: Mapping[str, np.ndarray[Any, Any]], classes: Mapping[str, type]) -> None:
        self._arrays = arrays
        self._classes = classes
        self._made: dict[int, Any] = {}

    def value(self, tree: list[Any]) -> Any:
        """Return the value of a tag and JSON."""
        tag, first, *rest = tree
        if tag == "plain":
            return first
        if tag == "same":
            return self._made[first]
        if tag in {"tuple", "list"}:
            items = [self.value(item) for item in first]
            return tuple(items) if tag == "tuple" else items
        if tag == "dict":
            return {self.value(key): self.value(item) for key, item in first}
        if tag == "array":
            self._made[first] = self._arrays[str(first)].view(np.ndarray)
        elif tag == "object":
            name, parts = rest
            made: Any = object.__new__(self._classes[name])
            self._made[first] = made
            vars(made).update({field: self.value(part) for field, part in parts})
        else:
            raise ValueError(f"a kept result holds an unknown {tag!r}")
        return self._made[first]
