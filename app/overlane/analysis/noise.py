"""Tell a difference between two sides from noise: bootstrap intervals of typical values.

Each side is a handful of *units*, numbers that were measured independently of one another: one per capture,
or one per block of consecutive occurrences. The *typical value* of a side is the mean of its units, from ten
units on their 20 % trimmed mean, which one slow first launch does not move.

The interval of the difference of two typical values is the percentile bootstrap interval over both sides'
units, stretched about the difference. Unstretched it is too narrow for few units: it knows neither that the
spread was estimated from them (hence Student's quantile at Welch's degrees of freedom, at most those of two
sides as small as the smaller, instead of the normal one), nor that resampling n of n units shrinks their
spread (hence the square root of n / (n - 1)). Stretched, two sides that differ by nothing are told apart in
at most as many cases as the level admits; the tests simulate this.

Ratios are differences of logarithms. Where each number of one side has its partner in the other, the ratios
of the partners are the units of one sample: work that differs from one occurrence to the next cancels out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import NormalDist
from typing import Any, TypeAlias

import numpy as np

__all__ = [
    "BLOCKS",
    "LEAST_UNITS",
    "Estimate",
    "adjusted",
    "blocks",
    "differences",
    "paired_ratios",
    "ratios",
    "student_quantile",
    "student_tail",
]

Units: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
"""float64 array, shape (units,): one number per capture or block."""

LEAST_UNITS = 3
"""With fewer, nothing can be said of the noise."""
BLOCKS = 20
"""Occurrences of one capture are cut into at most so many blocks."""
RESAMPLES = 2000
_TRIMMED_FROM = 10
_TRIMMED_SHARE = 0.2
_SEED = 20_240_229
_CHUNK_ROWS = 512


@dataclass(frozen=True)
class Estimate:
    """How far apart two sides are.

    Attributes:
        baseline: Typical value of the baseline.
        candidate: Typical value of the candidate.
        change: Candidate less baseline (`differences`), or candidate over baseline (`ratios`).
        low: Lower end of the interval of `change`.
        high: Upper end.
        chance: How often sides that differ by nothing would differ so much, 0..1 (Welch's test).
    """

    baseline: float
    candidate: float
    change: float
    low: float
    high: float
    chance: float


def differences(
    rows: Sequence[tuple[Units, Units]], *, level: float = 0.95, seed: int = _SEED
) -> list[Estimate | None]:
    """Return for each row how much the candidate's typical value is above the baseline's.

    Args:
        rows: Units of the baseline and of the candidate.
        level: Share of intervals that hold the true difference, above 0 and below 1.
        seed: Seed of the resampling, so that the same units give the same interval.

    Returns:
        An estimate per row, None where a side has fewer than `LEAST_UNITS` units.

    Example:
        >>> import numpy as np
        >>> found = differences([(np.array([9.0, 10, 11]), np.array([19.0, 20, 21]))])[0]
        >>> found.change, found.low > 0
        (10.0, True)
    """
    return _estimated(rows, level, seed)


def _estimated(rows: Sequence[tuple[Units, ...]], level: float, seed: int) -> list[Estimate | None]:
    """Return the estimate of each row: of two samples, or of one against 0."""
    found: list[Estimate | None] = [None] * len(rows)
    shapes: dict[tuple[int, ...], list[int]] = {}
    for place, samples in enumerate(rows):
        if min(map(len, samples)) >= LEAST_UNITS:
            shapes.setdefault(tuple(map(len, samples)), []).append(place)
    for shape, places in sorted(shapes.items()):
        weights = [
            _resampling(count, np.random.default_rng((seed, side, count))) for side, count in enumerate(shape)
        ]
        for first in range(0, len(places), _CHUNK_ROWS):
            chunk = places[first : first + _CHUNK_ROWS]
            sides = [
                np.sort(np.stack([rows[place][side] for place in chunk]), axis=1)
                for side in range(len(shape))
            ]
            for place, estimate in zip(chunk, _estimates(sides, weights, level), strict=True):
                found[place] = estimate
    return found


def ratios(
    rows: Sequence[tuple[Units, Units]], *, level: float = 0.95, seed: int = _SEED
) -> list[Estimate | None]:
    """Return for each row the candidate's typical value over the baseline's, both geometric means.

    Args:
        rows: Units of the baseline and of the candidate, all above 0.
        level: Share of intervals that hold the true ratio.
        seed: Seed of the resampling.

    Returns:
        An estimate per row, None where a side has fewer than `LEAST_UNITS` units.

    Example:
        >>> import numpy as np
        >>> found = ratios([(np.array([10.0, 10, 10]), np.array([11.0, 11, 11]))])[0]
        >>> round(found.change, 6), found.low > 1
        (1.1, True)
    """
    logs = [(np.log(before), np.log(after)) for before, after in rows]
    return [None if found is None else _raised(found) for found in differences(logs, level=level, seed=seed)]


def paired_ratios(
    rows: Sequence[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]],
    *,
    level: float = 0.95,
    seed: int = _SEED,
) -> list[tuple[Estimate, int] | None]:
    """Return for each row how much longer the partners in the candidate take, as a geometric mean.

    Args:
        rows: Numbers of the baseline and of their partners in the candidate, both shape (pairs,), all above
            0, in the order in which they were measured.
        level: Share of intervals that hold the true ratio.
        seed: Seed of the resampling.

    Returns:
        An estimate per row with the number of units (blocks of pairs) that it rests on; None where they are
        fewer than `LEAST_UNITS`. Its baseline is the geometric mean of the baseline's numbers.

    Example:
        >>> import numpy as np
        >>> estimate, units = paired_ratios([(np.array([10.0, 90, 500]), np.array([11.0, 99, 550]))])[0]
        >>> round(estimate.change, 6), estimate.low > 1, units
        (1.1, True, 3)
    """
    logs = [(np.log(before), np.log(after)) for before, after in rows]
    units = [blocks(after - before) for before, after in logs]
    found: list[tuple[Estimate, int] | None] = []
    for one, (before, _), sample in zip(
        _estimated([(sample,) for sample in units], level, seed), logs, units, strict=True
    ):
        if one is None:
            found.append(None)
            continue
        typical = float(before.mean())
        whole = replace(one, baseline=typical, candidate=typical + one.change)
        found.append((_raised(whole), len(sample)))
    return found


def _raised(found: Estimate) -> Estimate:
    """Turn an estimate of logarithms into one of ratios."""
    return Estimate(
        baseline=math.exp(found.baseline),
        candidate=math.exp(found.candidate),
        change=math.exp(found.change),
        low=math.exp(found.low),
        high=math.exp(found.high),
        chance=found.chance,
    )


def blocks(values: np.ndarray[Any, Any]) -> Units:
    """Return the median of each of at most `BLOCKS` blocks of consecutive values.

    Neighbouring occurrences resemble each other (clocks, caches, one step of a training), so that many of
    them say less than as many independent ones would; medians of blocks are closer to independent.

    Args:
        values: Numbers in the order in which they were measured, shape (n,).

    Example:
        >>> import numpy as np
        >>> blocks(np.arange(40))[:3]
        array([0.5, 2.5, 4.5])
    """
    if len(values) <= BLOCKS:
        return values.astype(np.float64)
    return np.array([np.median(part) for part in np.array_split(values, BLOCKS)], np.float64)


def adjusted(chances: Iterable[float]) -> list[float]:
    """Return chances corrected for looking at many rows at once (Benjamini and Hochberg).

    Of the rows whose corrected chance is at most x, a share of x is expected to be there by chance.

    Args:
        chances: Chance of each row, 0..1.

    Example:
        >>> adjusted([0.01, 0.5, 0.02])
        [0.03, 0.5, 0.03]
    """
    plain = list(chances)
    order = sorted(range(len(plain)), key=plain.__getitem__, reverse=True)
    found, least = [0.0] * len(plain), 1.0
    for position, place in enumerate(order):
        least = min(least, plain[place] * len(plain) / (len(plain) - position))
        found[place] = least
    return found


def student_tail(value: float, freedom: float) -> float:
    """Return the chance that Student's t lies at least so far from 0, on either side.

    Args:
        value: Number of standard errors.
        freedom: Degrees of freedom, above 0, not necessarily whole.

    Example:
        >>> round(student_tail(2.776445, 4), 6)
        0.05
    """
    if math.isinf(value):
        return 0.0
    return _incomplete_beta(freedom / 2, 0.5, freedom / (freedom + value * value))


def student_quantile(chance: float, freedom: float) -> float:
    """Return the distance from 0 that Student's t exceeds, on either side, with this chance.

    Args:
        chance: Above 0 and below 1.
        freedom: Degrees of freedom, at least 1.

    Example:
        >>> round(student_quantile(0.05, 4), 4)
        2.7764
    """
    low, high = 0.0, 1.0
    while student_tail(high, freedom) > chance:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if student_tail(middle, freedom) > chance else (low, middle)
    return high


_cached_quantile = cache(student_quantile)


def _trimmed(count: int) -> int:
    """Return how many units the typical value leaves out at each end."""
    return int(_TRIMMED_SHARE * count) if count >= _TRIMMED_FROM else 0


def _resampling(count: int, generator: np.random.Generator) -> Units:
    """Return the weights of sorted units in the typical value of each resample, (count, resamples)."""
    cut = _trimmed(count)
    drawn = np.sort(generator.integers(0, count, (RESAMPLES, count)), axis=1)[:, cut : count - cut]
    weights = np.zeros((count, RESAMPLES))
    np.add.at(weights, (drawn, np.arange(RESAMPLES)[:, None]), 1 / drawn.shape[1])
    return weights


def _typical(units: Units) -> tuple[Units, Units]:
    """Return typical value and its squared standard error for each row of sorted units."""
    count = units.shape[1]
    cut = _trimmed(count)
    kept = count - 2 * cut
    winsorized = np.clip(units, units[:, [cut]], units[:, [count - 1 - cut]])
    squares = winsorized.var(axis=1, ddof=1) * (count - 1)
    return units[:, cut : count - cut].mean(axis=1), squares / (kept * (kept - 1))


def _estimates(sides: Sequence[Units], weights: Sequence[Units], level: float) -> Iterable[Estimate]:
    """Yield the estimate of each row, from sorted units and the resamples' weights of both sides.

    A single side is held against 0.
    """
    typical, errors = zip(*(_typical(side) for side in sides), strict=True)
    after = typical[-1]
    before = typical[0] if len(sides) > 1 else np.zeros_like(after)
    counts = [side.shape[1] for side in sides]
    kept = [count - 2 * _trimmed(count) for count in counts]
    stretch = math.sqrt(max(count / (count - 1) for count in counts)) / NormalDist().inv_cdf(0.5 + level / 2)
    resampled = sides[-1] @ weights[-1]
    if len(sides) > 1:
        resampled -= sides[0] @ weights[0]
    ends = np.quantile(resampled, [0.5 - level / 2, 0.5 + level / 2], axis=1)
    squares = sum(errors, np.zeros_like(after))
    for row, change in enumerate(after - before):
        least = 1e-12 * max(abs(before[row]), abs(after[row]))  # rounding is no spread
        if squares[row] <= least * least:
            exact = float(change)
            chance = 0.0 if abs(exact) > least else 1.0
            yield Estimate(float(before[row]), float(after[row]), exact, exact, exact, chance)
            continue
        parts = sum(error[row] ** 2 / (count - 1) for error, count in zip(errors, kept, strict=True))
        freedom = max(min(float(squares[row] ** 2 / parts), float(len(sides)) * (min(kept) - 1)), 1.0)
        factor = stretch * _cached_quantile(1 - level, math.floor(100 * freedom) / 100)
        low, high = (float(change + (end - change) * factor) for end in ends[:, row])
        chance = student_tail(float(change / math.sqrt(squares[row])), freedom)
        yield Estimate(float(before[row]), float(after[row]), float(change), low, high, chance)


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """Return the regularized incomplete beta function, by its continued fraction (Lentz)."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(b, a, 1 - x)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    tiny = 1e-300
    numerator, denominator = 1.0, 1 / (1 - (a + b) * x / (a + 1) or tiny)
    fraction = denominator
    for m in range(1, 500):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            denominator = 1 / (1 + term * denominator or tiny)
            numerator = 1 + term / numerator or tiny
            fraction *= denominator * numerator
        if abs(denominator * numerator - 1) < 1e-14:
            break
    return front * fraction / a
