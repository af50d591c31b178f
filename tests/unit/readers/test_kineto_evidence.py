"""What is said of a file rests on what its events show: what was proven, guessed, left out or not understood."""

import pytest

from helpers.kineto import document, kernel, launch


def found(trace):
    """The counts of the checks that are not ok."""
    return {check.check: check.count for check in trace.header.integrity if check.status != "ok"}


def sentence(trace, name):
    return next(check.detail for check in trace.header.integrity if check.check == name)


@pytest.mark.parametrize(("of_call", "of_kernel", "is_proven"), [(1, 77, 0), (77, 77, 1), (-1, -1, 0)])
def test_launch_times_are_proven_by_an_operation_of_a_recorded_call(read, of_call, of_kernel, is_proven):
    call = launch("1", "1", correlation=of_call)
    trace = read(document(call, kernel("3", "1", correlation=of_kernel)))
    assert trace.header.capabilities["launch_times"].proven is bool(is_proven)
    assert found(trace).get("operations_without_launch", 0) == 1 - is_proven
