"""The fit of the recorder's clock to the wall clock."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlane_collect.clocks import ClockSample, fit_clock, sample_clock


def test_no_samples_give_no_fit():
    assert fit_clock([]) is None


@given(
    st.lists(
        st.tuples(st.integers(0, 10**18), st.integers(-(10**6), 10**6), st.integers(0, 10**4)), min_size=1
    )
)
def test_every_sample_lies_within_the_stated_error(samples):
    fit = fit_clock([ClockSample(clock, clock + 5000 + drift, error) for clock, drift, error in samples])
    for clock, drift, _ in samples:
        assert abs(clock + fit.offset_ns - (clock + 5000 + drift)) <= fit.fit_error_ns


def test_a_clock_that_jumps_while_it_is_read_is_read_again():
    readings = iter(range(100, 10_000, 7))
    sample = sample_clock(lambda: next(readings))
    assert sample.clock_ns in range(100, 200)
    assert sample.error_ns >= 0


def test_equal_clocks_have_no_offset():
    assert fit_clock([ClockSample(5, 5, 0)]).offset_ns == pytest.approx(0)
