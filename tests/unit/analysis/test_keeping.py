"""Results taken apart into arrays are the same again, and hold declared classes only."""

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlane.analysis.keeping import pack, unpack


@dataclass(frozen=True)
class Pair:
    first: Any
    second: Any

    @cached_property
    def derived(self):
        return object()


class Plain:
    def __init__(self, value):
        self.value = value


PACKAGE = {"package": __name__}
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False),
    lambda inner: (
        st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.integers() | st.text(), inner)
    ),
)


@given(values)
def test_plain_values_are_the_same_again(value):
    assert unpack(pack(value)) == value


def test_objects_arrays_and_their_identity_are_the_same_again():
    shared = np.arange(4, dtype=np.int16)
    pair = Pair(shared, (Plain(shared), np.int64(7)))
    assert pair.derived is not None
    again = unpack(pack({(1, None): pair, "same": pair}, **PACKAGE), **PACKAGE)
    found = again[1, None]
    assert found is again["same"]
    assert isinstance(found, Pair)
    assert found.first.dtype == np.int16
    assert found.first.tolist() == [0, 1, 2, 3]
    assert found.second[0].value is found.first
    assert found.second[1] == 7
    assert "derived" not in vars(found)


def test_a_class_of_another_package_is_refused_both_ways():
    with pytest.raises(TypeError, match=r"holds a Plain, which is not of overlane\.analysis"):
        pack(Plain(1))
    arrays = pack(Plain(1), **PACKAGE)
    with pytest.raises(ValueError, match="Plain', which is no class of overlane"):
        unpack(arrays)


@pytest.mark.parametrize(
    "name",
    ["os:PathLike", "overlane.analysis.keeping:json", "overlane.analysis.none:X", "overlane.analysis", "",
     "overlane.analysis.keeping:pack", "overlane.analysis.study:Trace"],
)  # fmt: skip
def test_only_classes_that_a_module_of_the_package_defines_can_be_named(name):
    tree = json.dumps(["object", 0, name, []]).encode()
    with pytest.raises(ValueError, match="is no class of"):
        unpack({"tree": np.frombuffer(tree, np.uint8)})


@pytest.mark.parametrize("tree", [["odd", 1], ["same", 0], ["array", 5], ["object", 0, "x", []]])
def test_a_structure_that_does_not_fit_is_refused(tree):
    with pytest.raises((ValueError, KeyError)):
        unpack({"tree": np.frombuffer(json.dumps(tree).encode(), np.uint8)})
