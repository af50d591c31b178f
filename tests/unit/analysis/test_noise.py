"""Intervals of differences: how often they see a difference that is not there, and miss one that is."""

from __future__ import annotations

import math
from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlane.analysis.noise import (
    BLOCKS,
    LEAST_UNITS,
    adjusted,
    blocks,
    differences,
    paired_ratios,
    ratios,
    student_quantile,
    student_tail,
)

TRIALS = 2000
# Three standard errors of a share of 5 % among so many trials.
ALLOWED = 0.05 + 3 * math.sqrt(0.05 * 0.95 / TRIALS)

# Durations in ns as they come: each takes a generator and a shape.
SHAPES = {
    "steady": lambda g, shape: 1e5 * np.exp(g.normal(0, 0.05, shape)),
    "wild": lambda g, shape: 1e5 * np.exp(g.normal(0, 0.5, shape)),
    "skewed": lambda g, shape: 1e5 * (1 + g.exponential(0.3, shape)),
    "two clocks": lambda g, shape: (
        1e5 * np.where(g.random(shape) < 0.3, 1.4, 1) * np.exp(g.normal(0, 0.02, shape))
    ),
    "rare outliers": lambda g, shape: (
        1e5 * np.where(g.random(shape) < 0.05, 8, 1) * np.exp(g.normal(0, 0.02, shape))
    ),
    "heavy tails": lambda g, shape: 1e5 * np.exp(0.05 * g.standard_t(2, shape)),
    "coarse ticks": lambda g, shape: 32 * np.round(g.normal(40, 1, shape)),
}
COUNTS = [(3, 3), (4, 4), (5, 5), (7, 7), (10, 10), (20, 20), (3, 8), (5, 20)]


def told_apart(estimate):
    return estimate.low > 1 or estimate.high < 1


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("counts", COUNTS, ids=lambda counts: f"{counts[0]} and {counts[1]}")
def test_equal_sides_are_told_apart_no_more_often_than_the_level_admits(shape, counts):
    generator = np.random.default_rng(1)
    before = SHAPES[shape](generator, (TRIALS, counts[0]))
    after = SHAPES[shape](generator, (TRIALS, counts[1]))
    found = ratios([*zip(before, after, strict=True)])
    assert sum(map(told_apart, found)) / TRIALS <= ALLOWED


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("count", [3, 5, 10, 20, 60])
def test_equal_partners_are_told_apart_no_more_often_than_the_level_admits(shape, count):
    """The pairs differ a hundredfold from one another, the partners only by noise."""
    generator = np.random.default_rng(8)
    sizes = np.exp(generator.uniform(0, math.log(100), (TRIALS, count)))
    sides = [np.maximum(sizes * SHAPES[shape](generator, (TRIALS, count)), 1) for _ in range(2)]
    found = paired_ratios([*zip(*sides, strict=True)])
    assert sum(told_apart(estimate) for estimate, _ in found) / TRIALS <= ALLOWED


def test_a_tenth_more_is_seen_in_pairs_whatever_their_sizes():
    generator = np.random.default_rng(9)
    sizes = np.exp(generator.uniform(0, math.log(100), (TRIALS, 10)))
    before, after = (sizes * SHAPES["steady"](generator, (TRIALS, 10)) for _ in range(2))
    found = paired_ratios([*zip(before, 1.1 * after, strict=True)])
    assert sum(estimate.low > 1 for estimate, _ in found) / TRIALS >= 0.8
    unpaired = ratios([*zip(before, 1.1 * after, strict=True)])
    assert sum(estimate.low > 1 for estimate in unpaired) / TRIALS < 0.2
    assert found[0][0].change * found[0][0].baseline == pytest.approx(found[0][0].candidate)
    assert paired_ratios([(before[0][:2], after[0][:2])]) == [None]


@pytest.mark.parametrize(
    ("shape", "counts", "least"),
    [
        ("steady", (5, 5), 0.65),
        ("steady", (10, 10), 0.9),
        ("steady", (20, 20), 0.99),
        ("rare outliers", (20, 20), 0.7),
        ("coarse ticks", (5, 5), 0.99),
        ("heavy tails", (20, 20), 0.85),
    ],
)
def test_a_tenth_more_is_seen(shape, counts, least):
    generator = np.random.default_rng(2)
    before = SHAPES[shape](generator, (TRIALS, counts[0]))
    after = 1.1 * SHAPES[shape](generator, (TRIALS, counts[1]))
    found = ratios([*zip(before, after, strict=True)])
    assert sum(one.low > 1 for one in found) / TRIALS >= least


@pytest.mark.parametrize("counts", [(3, 3), (5, 5), (20, 20)])
def test_intervals_hold_the_true_ratio_as_often_as_they_say(counts):
    generator = np.random.default_rng(3)
    before = SHAPES["steady"](generator, (TRIALS, counts[0]))
    after = 1.25 * SHAPES["steady"](generator, (TRIALS, counts[1]))
    for level in (0.8, 0.95):
        found = ratios([*zip(before, after, strict=True)], level=level)
        share = sum(one.low <= 1.25 <= one.high for one in found) / TRIALS
        assert share >= level - 3 * math.sqrt(level * (1 - level) / TRIALS)
        assert share <= level + (1 - level) * 0.9, "so wide that they would say nothing"


def test_occurrences_that_resemble_their_neighbours_are_not_taken_for_many():
    """A clock that drifts slowly within a capture: neighbours are alike, captures are equal in law."""
    generator = np.random.default_rng(4)
    trials, length, memory = 400, 2000, 0.9

    def capture():
        noise = generator.normal(0, 0.05, (trials, length))
        drift = np.empty_like(noise)
        drift[:, 0] = noise[:, 0] / math.sqrt(1 - memory**2)
        for k in range(1, length):
            drift[:, k] = memory * drift[:, k - 1] + noise[:, k]
        return 1e5 * np.exp(drift)

    before, after = capture(), capture()
    found = ratios([(blocks(a), blocks(b)) for a, b in zip(before, after, strict=True)])
    allowed = 0.05 + 3 * math.sqrt(0.05 * 0.95 / trials)
    assert sum(map(told_apart, found)) / trials <= allowed


def test_among_many_equal_rows_hardly_one_survives_the_correction():
    generator = np.random.default_rng(5)
    families, rows, wrong = 100, 60, 0
    for _ in range(families):
        before, after = (SHAPES["steady"](generator, (rows, 8)) for _ in range(2))
        found = ratios([*zip(before, after, strict=True)])
        wrong += min(adjusted(one.chance for one in found)) <= 0.05
    assert wrong / families <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / families)


def test_one_changed_row_among_many_survives_the_correction():
    generator = np.random.default_rng(6)
    before, after = (SHAPES["steady"](generator, (60, 20)) for _ in range(2))
    after[7] *= 1.2
    corrected = adjusted(one.chance for one in ratios([*zip(before, after, strict=True)]))
    assert [row for row, chance in enumerate(corrected) if chance <= 0.05] == [7]


def test_rows_do_not_depend_on_their_neighbours_or_on_the_order_of_their_units():
    generator = np.random.default_rng(7)
    rows = [
        (generator.random(n) + 1, generator.random(m) + 1)
        for n, m in [(3, 3), (12, 9), (3, 3), (2, 9), (12, 9)]
    ]
    together = differences(rows)
    assert together[3] is None
    for row, one in zip(rows, together, strict=True):
        alone = differences([row])[0]
        assert (alone is None) == (one is None)
        if one is not None:  # sums may end in another last digit
            assert astuple(alone) == pytest.approx(astuple(one), rel=1e-9)
    turned = differences([(rows[1][0][::-1], rows[1][1][::-1])])[0]
    assert astuple(turned) == pytest.approx(astuple(together[1]))


@given(
    st.lists(st.floats(1, 1e9), min_size=LEAST_UNITS, max_size=15),
    st.lists(st.floats(1, 1e9), min_size=LEAST_UNITS, max_size=15),
)
def test_turning_the_sides_around_turns_the_ratio_around(before, after):
    a, b = np.array(before), np.array(after)
    one, other = ratios([(a, b)])[0], ratios([(b, a)])[0]
    assert one.change * other.change == pytest.approx(1)
    assert one.chance == pytest.approx(other.chance)
    assert one.low <= one.high
    assert one.low <= one.change * (1 + 1e-6) or len(before) < 10  # resampling few skewed units is lopsided
    assert 0 <= one.chance <= 1


def test_units_without_any_spread():
    same, more = np.full(4, 7.0), np.full(4, 8.0)
    equal, apart = differences([(same, same), (same, more)])
    assert (equal.change, equal.low, equal.high, equal.chance) == (0, 0, 0, 1)
    assert (apart.change, apart.low, apart.high, apart.chance) == (1, 1, 1, 0)


@pytest.mark.parametrize(
    ("freedom", "chance", "value"),
    [  # tables of Student's t, as printed in textbooks
        (1, 0.05, 12.706), (2, 0.05, 4.303), (3, 0.01, 5.841),
        (10, 0.05, 2.228), (30, 0.01, 2.750), (120, 0.05, 1.980),
    ],
)  # fmt: skip
def test_student_s_t_against_printed_tables(freedom, chance, value):
    assert student_quantile(chance, freedom) == pytest.approx(value, abs=6e-4)
    assert student_tail(value, freedom) == pytest.approx(chance, rel=2e-3)


def test_student_s_t_against_draws():
    draws = np.abs(np.random.default_rng(8).standard_t(3.5, 400_000))
    for value in (0.5, 1.5, 3.0):
        assert student_tail(value, 3.5) == pytest.approx(float((draws >= value).mean()), abs=0.003)


def test_blocks_keep_the_order_and_every_value():
    values = np.random.default_rng(9).permutation(1000)
    found = blocks(values)
    assert len(found) == BLOCKS
    assert list(found) == [float(np.median(part)) for part in values.reshape(BLOCKS, 50)]
    few = np.array([5, 3, 4])
    assert list(blocks(few)) == [5, 3, 4]


@given(st.lists(st.floats(0, 1), max_size=30))
def test_corrected_chances_against_the_definition(chances):
    order = sorted(chances)
    for plain, found in zip(chances, adjusted(chances), strict=True):
        expected = min(
            [min(1.0, len(order) * order[k] / (k + 1)) for k in range(len(order)) if order[k] >= plain]
        )
        assert found == pytest.approx(expected)
