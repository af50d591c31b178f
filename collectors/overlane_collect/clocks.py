"""How the recorder's clock relates to wall-clock time, measured by pairs of readings."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

__all__ = ["ClockFit", "ClockSample", "fit_clock", "sample_clock"]

_TRIES = 9  # the narrowest of a few tries is free of interruptions


@dataclass(frozen=True)
class ClockSample:
    """One pair of readings.

    Attributes:
        clock_ns: The recorder's clock.
        unix_ns: Wall-clock time since 1970 at that moment.
        error_ns: Half the time that the pair took: the wall-clock time is that uncertain.
    """

    clock_ns: int
    unix_ns: int
    error_ns: int


@dataclass(frozen=True)
class ClockFit:
    """A constant offset between the clocks.

    Attributes:
        offset_ns: Added to the recorder's clock gives wall-clock time.
        fit_error_ns: The largest distance of a sample from that, its own error included.
    """

    offset_ns: int
    fit_error_ns: int


def sample_clock(clock: Callable[[], int]) -> ClockSample:
    """Read the recorder's clock and the wall clock together.

    Args:
        clock: Returns the recorder's clock in ns.

    Example:
        >>> sample_clock(time.time_ns).error_ns >= 0
        True
    """
    best: ClockSample | None = None
    for _ in range(_TRIES):
        before = time.time_ns()
        reading = clock()
        after = time.time_ns()
        error = (after - before + 1) // 2
        if best is None or error < best.error_ns:
            best = ClockSample(reading, before + (after - before) // 2, error)
    assert best is not None  # noqa: S101 - _TRIES is positive
    return best


def fit_clock(samples: Sequence[ClockSample]) -> ClockFit | None:
    """Return the offset that fits samples best (the middle of the extremes), or None without samples.

    Example:
        >>> fit_clock([ClockSample(100, 1100, 5), ClockSample(200, 1220, 5)])
        ClockFit(offset_ns=1010, fit_error_ns=15)
    """
    if not samples:
        return None
    offsets = [sample.unix_ns - sample.clock_ns for sample in samples]
    middle = (min(offsets) + max(offsets)) // 2
    errors = (abs(offset - middle) + sample.error_ns for offset, sample in zip(offsets, samples, strict=True))
    return ClockFit(middle, max(errors))
