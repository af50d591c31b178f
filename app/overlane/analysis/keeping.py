"""Take a result of an analysis apart into named arrays, and put it together again.

A result is a tree of arrays, plain values, tuples, lists, dictionaries and objects of a package's classes.
Objects are made without running any of their code, and classes are looked up in that package alone, so a file
that was tampered with can name nothing else. What stands in several places of the tree is stored once and is
one object again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np

__all__ = ["pack", "unpack"]

_TREE = "tree"
_PLAIN = (bool, int, float, str, type(None))


def pack(result: Any, *, package: str = "overlane.analysis") -> dict[str, np.ndarray[Any, Any]]:
    """Return the arrays of a result, one of which describes its structure.

    Args:
        result: The result.
        package: Package whose classes its objects may have.

    Raises:
        TypeError: It holds an object of another class.

    Example:
        >>> sorted(pack({"at": np.arange(3)}))
        ['0', 'tree']
    """
    packer = _Packer(package)
    tree = packer.tree(result)
    return packer.arrays | {_TREE: np.frombuffer(json.dumps(tree).encode(), np.uint8)}


def unpack(arrays: Mapping[str, np.ndarray[Any, Any]], *, package: str = "overlane.analysis") -> Any:
    """Return the result that `pack` took apart.

    Args:
        arrays: Its arrays.
        package: Package whose classes its objects may have.

    Raises:
        ValueError, KeyError, TypeError: The arrays do not fit together, or name another class.

    Example:
        >>> unpack(pack({"at": np.arange(3)}))
        {'at': array([0, 1, 2])}
    """
    return _Unpacker(arrays, package).value(json.loads(bytes(arrays[_TREE])))


def _class(name: str, package: str) -> type:
    """Return the class of a package's module that `MODULE:CLASS` names.

    Raises:
        ValueError: There is none.
    """
    module, _, word = name.partition(":")
    if module == package or module.startswith(f"{package}."):
        with contextlib.suppress(ImportError):
            found = vars(import_module(module)).get(word)
            if isinstance(found, type) and found.__module__ == module:
                return found
    raise ValueError(f"a kept result names {name!r}, which is no class of {package}")


class _Packer:
    def __init__(self, package: str) -> None:
        self.arrays: dict[str, np.ndarray[Any, Any]] = {}
        self._package = package
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
        kind = type(value)
        if not f"{kind.__module__}.".startswith(f"{self._package}."):
            raise TypeError(f"a result that is kept holds a {kind.__name__}, which is not of {self._package}")
        if dataclasses.is_dataclass(value):
            fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        else:
            fields = vars(value)
        parts = [[name, self.tree(part)] for name, part in fields.items()]
        return ["object", number, f"{kind.__module__}:{kind.__qualname__}", parts]


class _Unpacker:
    def __init__(self, arrays: Mapping[str, np.ndarray[Any, Any]], package: str) -> None:
        self._arrays = arrays
        self._package = package
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
            made: Any = object.__new__(_class(name, self._package))
            self._made[first] = made
            vars(made).update({field: self.value(part) for field, part in parts})
        else:
            raise ValueError(f"a kept result holds an unknown {tag!r}")
        return self._made[first]
