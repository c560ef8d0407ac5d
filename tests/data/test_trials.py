"""What is known of trials: confounds as columns, which to train on, some of them."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from mvpa_kfda.data.trials import (
    OF_IMAGES,
    Trials,
    make_trials,
    read_confounds,
    read_train_on,
)

N = 6
SPEED = np.array([3.0, 1.0, 2.0, 5.0, 4.0, 0.0])
SIDE = np.array(["left", "right", "left", "left", "up", "right"])
INDICATORS = (SIDE[:, None] == ["left", "right", "up"]).astype(float)
TABLE = pd.DataFrame({"speed": SPEED, "side": SIDE, "said": [True, None] * 3})


# --------------------------------------------------------------------------- confounds


def test_numbers_stay_and_texts_are_categories():
    both = np.column_stack([SPEED.astype(object), SIDE])
    named = {"column_of": TABLE.__getitem__}
    for given, names, options in (
        (both, [None, None], {}),
        (both.tolist(), [None, None], {}),
        (TABLE[["speed", "side"]], ["speed", "side"], {}),
        (["speed", "side"], ["speed", "side"], named),
    ):
        table = read_confounds(given, N, **options)
        assert_array_equal(table.columns, np.column_stack([SPEED, INDICATORS]))
        takes = ["a number", "3 categories"]
        pairs = zip(names, takes, strict=True)
        assert table.record() == [{"name": n, "taken_as": t} for n, t in pairs]
        assert table.size == 3
        centre, spread = table.unit
        assert_array_equal(centre, [2.5, 0, 0, 0])
        assert_array_equal(spread, [2.5, 1, 1, 1])
        assert_array_equal(table[[4, 1]].columns, table.columns[[4, 1]])
    numbers = pd.Series([2, 7, 2, 2, 7, 7])
    for given in (numbers.astype("category"), numbers.astype(str), numbers == 2):
        assert read_confounds(given, N).columns.shape == (N, 2)
    assert read_confounds(numbers, N).columns.shape == (N, 1)
    assert read_confounds("speed", N, **named).columns.shape == (N, 1)
    assert read_confounds(None, N) is None


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        (SPEED[1:], ValueError, r"shape \(5,\) for 6 trials"),
        (np.ones((N, 2, 2)), ValueError, r"shape \(6, 2, 2\) for 6 trials"),
        (np.ones((N, 0)), ValueError, r"shape \(6, 0\)"),
        ([[1], [2, 3], [1], [2], [1], [2]], ValueError, "rows of different lengths"),
        (["speed"], TypeError, r"names columns, but there is no table here"),
        (TABLE[1:], ValueError, "the column 'speed' has 5 rows for 6 trials"),
        (
            np.where(SPEED > 3, np.nan, SPEED),
            ValueError,
            r"for 2 of 6 .*first: 3",
        ),
        (
            np.where(SPEED > 4, np.inf, SPEED),
            ValueError,
            "missing or infinite for 1",
        ),
        (np.full(N, 2.0), ValueError, r"is constant \(2.0 for all 6 trials\)"),
        (1j * SPEED, TypeError, "the array is complex"),
        (list("abcdef"), ValueError, "a category of its own for each of the 6"),
        (pd.date_range("2020", periods=N), TypeError, "holds dates or durations"),
    ],
)
def test_confounds_that_are_refused(given, error, match):
    with pytest.raises(error, match=match):
        read_confounds(given, N)


# ----------------------------------------------------------------- which to train on


def test_masks_and_queries_choose_the_same():
    chosen = SPEED > 2
    for given, record in (
        (chosen, "mask"),
        (chosen.tolist(), "mask"),
        (chosen.astype(object), "mask"),
        ("speed > 2", "speed > 2"),
    ):
        train_on = read_train_on(given, N, TABLE)
        assert_array_equal(train_on.mask, chosen)
        assert train_on.record == record
        assert_array_equal(train_on[[0, 1, 3]].mask, chosen[[0, 1, 3]])
        train_on.check_labels(np.array([0, 0, 1, 1, 0, 1]))
        message = r"selects no trial of class '7', which is among the trials to be test"
        with pytest.raises(ValueError, match=message):
            train_on.check_labels(np.array([0, 7, 1, 1, 0, 1]))
    # Of what a query does not know trials are not chosen.
    assert_array_equal(read_train_on("not not said", N, TABLE).mask, [True, False] * 3)
    assert_array_equal(
        read_train_on("not said", N, TABLE[::-1].fillna(False)).mask.sum(), 3
    )
    assert read_train_on(None, N) is None


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        (np.ones(N, bool), ValueError, "train_on selects all of the 6 trials"),
        (np.zeros(N, bool), ValueError, "train_on selects none of the 6 trials"),
        (SPEED > [[2]], ValueError, r"shape \(1, 6\) for 6 trials"),
        (np.arange(N), TypeError, "must hold booleans.*dtype int64"),
        ([[True], [True, False]], ValueError, "is no array of booleans"),
        ("speed > 9", ValueError, r"'speed > 9' selects none .* columns are: 'speed'"),
        (
            "speed",
            ValueError,
            "is no query on the columns .* not true or false",
        ),
        ("spead > 1", ValueError, "is no query on .* There is no column 'spead'"),
    ],
)
def test_masks_and_queries_that_are_refused(given, error, match):
    with pytest.raises(error, match=match):
        read_train_on(given, N, TABLE)


def test_queries_need_a_table():
    with pytest.raises(ValueError, match=r"asks the table of y, but y is not given as"):
        make_trials(SIDE, N, None, None, "speed > 2", None, OF_IMAGES)


# ------------------------------------------------------------------------ some of them


def test_some_trials_keep_what_is_known_of_them():
    groups, numbers = [1, 1, 2, 2, 3, 3], np.array([5, 4, 9, 8, 7, 6])
    trials = make_trials(SIDE.tolist(), N, groups, SPEED, SPEED > 2)
    trials = Trials(**vars(trials) | {"numbers": numbers, "y_test": SPEED})
    assert_array_equal(trials.recorded_order, [1, 0, 5, 4, 3, 2])
    for rows in ([4, 0, 3, 2], np.array([1, 0, 0, 1, 1, 1], bool), slice(1, None)):
        some = trials.take(rows)
        assert_array_equal(some.y, SIDE[rows])
        assert_array_equal(some.y_test, SPEED[rows])
        assert_array_equal(some.groups, np.array(groups)[rows])
        assert_array_equal(some.confounds.columns[:, 0], SPEED[rows])
        assert_array_equal(some.train_on.mask, SPEED[rows] > 2)
        assert_array_equal(some.numbers, numbers[rows])
        assert some.n == len(SIDE[rows])
    assert Trials(y=SIDE, n=N, numbers=np.arange(N) * 2).recorded_order is None
    assert Trials(y=SIDE, n=N).recorded_order is None
    y = np.array([0, 0, 1, 1, 0, 1])
    parts = Trials(y=y, n=N, train_on=read_train_on(SPEED > 2, N)).parted()
    assert_array_equal(parts.y, y[SPEED > 2])
    assert_array_equal(parts.test.y, y[SPEED <= 2])
    assert (parts.train_on, parts.n, parts.test.n) == (None, 3, 3)
