from unit.timeline.oracle import Drawn, first_fit, meeting, union_length, union_runs


def test_first_fit_by_hand():
    #            0: 0-10   1: 2-4   2: 3-6   3: 10-12  4: 4-5 (empty places are taken again)
    assert first_fit([(0, 10), (2, 4), (3, 6), (10, 12), (4, 5)]) == [0, 1, 2, 0, 1]


def test_longer_goes_first_at_equal_start():
    assert first_fit([(0, 3), (0, 9)]) == [1, 0]


def test_zero_length_inside_another_needs_its_own_sublane():
    assert first_fit([(0, 10), (5, 5), (10, 10)]) == [0, 1, 0]


def test_meeting_is_half_open():
    slices = [Drawn(0, 5, 0, 1), Drawn(5, 5, 1, 1), Drawn(5, 7, 2, 1), Drawn(9, 9, 3, 1)]
    assert [s.row for s in meeting(slices, 5, 9)] == [1, 2]


def test_union_by_hand():
    assert union_length([(0, 4), (2, 6), (6, 8), (10, 11), (3, 3)]) == 9
    runs = union_runs([Drawn(0, 4, 0, 1), Drawn(4, 6, 1, 2), Drawn(7, 8, 2, 2)])
    assert runs == [Drawn(0, 6, 0, 1, 2), Drawn(7, 8, 2, 2, 1)]
