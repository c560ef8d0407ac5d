"""Areas under the ROC curve and curves, against scikit-learn's, and their figures."""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp, softmax
from sklearn.metrics import roc_auc_score, roc_curve
from sklearn.model_selection import KFold, ShuffleSplit, cross_val_predict

from mvpa_kfda import KernelFDA, Ridge, Tuned, cross_validate
from mvpa_kfda.metrics.auc import find_rare_class, log_odds, roc_auc
from tests import build

# ------------------------------------------------------------------------------- areas


def mean_area(codes, scores, sets):
    """Average scikit-learn's areas over test sets (rows, n_train), and over classes.

    Of all rows together for a class that no set tells from the others.
    """
    n_classes, per_class = scores.shape[1], []
    log = np.concatenate([n_train * scores[rows] for rows, n_train in sets])
    posterior = softmax(log, axis=1).round(12)
    for k in [1] if n_classes == 2 else np.unique(codes):
        rows_of = [rows for rows, _ in sets if len(set(codes[rows] == k)) == 2]
        areas = [
            roc_auc_score(codes[rows] == k, posterior[rows, k])
            for rows in rows_of or [slice(None)]
        ]
        per_class.append(np.mean(areas))
    return np.mean(per_class)


@pytest.mark.parametrize("digits", [12, 2], ids=["continuous", "tied"])
@pytest.mark.parametrize("n_classes", [2, 3, 6])
def test_areas_are_the_mean_of_scikit_learns_over_test_sets(n_classes, digits):
    scored = build.predictions(n_classes, digits=digits)
    sets = build.sets_of(build.SETS)
    values = roc_auc(scored.true, scored.class_scores, build.SETS)
    for b in (0, 3, 6):
        codes, scores = scored.true[:, b], scored.class_scores[:, :, b]
        assert_allclose(values[b], mean_area(codes, scores, sets), rtol=1e-12)


def test_rows_are_pooled_for_classes_that_no_test_set_tells_from_the_rest():
    scored = build.predictions(2)
    shapes = ((len(scored.true), 1, 67),)  # a set for each trial
    values = roc_auc(scored.true, scored.class_scores, shapes)
    margins = scored.class_scores[:, 1] - scored.class_scores[:, 0]
    expected = [
        roc_auc_score(*pair) for pair in zip(scored.true.T, margins.T, strict=True)
    ]
    assert_allclose(values, expected, rtol=1e-12)
    # By the second labelling every class shares a test set with another one; by the
    # others class 2 is alone in the first, and only the second tells 0 from 1.
    true = np.array(
        [[2, 2, 2, 0, 1, 0, 1], [0, 2, 1, 2, 1, 0, 1], [2, 2, 2, 1, 1, 0, 0]]
    )
    scores = 0.03 * np.random.default_rng(0).standard_normal((7, 3, 3))
    shapes = ((1, 3, 60), (1, 4, 59))
    values = roc_auc(true.T, scores, shapes)
    for b, codes in enumerate(true):
        expected = mean_area(codes, scores[:, :, b], build.sets_of(shapes))
        assert_allclose(values[b], expected, rtol=1e-12)


def test_areas_with_ties_absent_classes_and_certainty():
    true = np.array([0, 0, 1, 1, 2, 2])[:, None]
    shapes = ((1, 6, 60),)
    flat = np.zeros((6, 3, 1))
    assert roc_auc(true, flat, shapes) == [0.5]
    big = np.where(np.arange(3)[:, None] == true[:, None], 0.0, -1.0)
    assert roc_auc(true, 100 * big, shapes) == [1.0]  # log odds do not saturate
    # Scores that differ by rounding are ties, even if the rounding knows the labels.
    rounding = 1e-13 * (np.arange(3)[:, None] == true[:, None])
    assert roc_auc(true, 0.3 + rounding, shapes) == [0.5]
    absent = big.copy()
    absent[:, 2] = -np.inf  # nothing can be said for the third class
    assert_allclose(roc_auc(true, absent, shapes), 2.5 / 3, rtol=0, atol=0.09)
    alone = np.full((6, 3, 1), -np.inf)
    alone[:, 0] = 0.0  # only one class was there to learn from
    assert roc_auc(true, alone, shapes) == [0.5]
    assert roc_auc(np.zeros((6, 1), int), flat, shapes) == [0.5]


@pytest.mark.parametrize(
    ("dtype", "apart", "alike"), [("float64", 1e-8, 1e-12), ("float32", 1e-4, 1e-6)]
)
def test_what_is_more_than_rounding_is_ranked(dtype, apart, alike):
    # Of the largest score, 3; one pair of trials differs by so much.
    true = np.array([[0], [1], [0], [1]])
    for gap, expected in ((apart, 0.75), (0.0, 0.625), (alike, 0.625), (-apart, 0.5)):
        # Next to a label vector of small scores, without any ties.
        columns = [[1.0, 1.0 + 3 * gap, 2.0, 3.0], 1e-3 * np.arange(1.0, 5.0)]
        # And next to one in which the largest scores are this pair.
        columns.append([1e-3, 2e-3, 3.0, 3.0 + 3 * gap])
        scores = np.stack([np.zeros((4, 3)), np.stack(columns, axis=1)], axis=1)
        values = roc_auc(np.tile(true, 3), scores.astype(dtype), ((1, 4, 60),))
        assert_allclose(values, [expected, 0.75, expected], rtol=1e-12)


def test_the_area_of_many_trials_keeps_its_digits():
    # Sums of ranks beyond the whole numbers of single precision.
    true = np.random.default_rng(0).integers(2, size=(9001, 1))
    scores = np.random.default_rng(1).standard_normal((9001, 2, 1))
    value = roc_auc(true, scores, ((1, 9001, 100),))[0]
    expected = roc_auc_score(true[:, 0], scores[:, 1, 0] - scores[:, 0, 0])
    assert_allclose(value, expected, rtol=1e-12)


def test_trials_that_are_all_but_certain_are_ranked():
    # As probabilities all four would be 1; as sums of exponentials they overflow.
    for k in range(3):
        scores = np.zeros((4, 3, 1))
        scores[:, k, 0] = [40.0, 30.0, 20.0, 10.0]
        scores[:, k - 1, 0] = 1.0
        true = np.full((4, 1), k)
        true[2:] = k - 1 if k else 2
        for n_train in (1, 100):
            # Class k is ranked without error, and so is its rival, from the other end.
            assert roc_auc(true, scores, ((1, 4, n_train),)) == [1.0]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_log_odds_keep_their_digits_however_certain(dtype):
    # Up to and past where exponentials of the others underflow.
    rng = np.random.default_rng(0)
    top = -np.log(np.finfo(dtype).tiny)
    gap = np.linspace(0.5 * top, 1.2 * top, 200)
    scores = -gap[:, None] + rng.random((200, 6))
    scores[:, 2] = 0.0
    odds = log_odds(scores[:, :, None].astype(dtype), ((1, 200, 1),))
    for k in range(6):
        others = np.delete(scores.astype(dtype).astype(float), k, axis=1)
        expected = scores[:, k] - logsumexp(others, axis=1)
        assert_allclose(odds[k, :, 0], expected, rtol=4 * np.finfo(dtype).eps)


def test_a_class_that_most_test_sets_lack_is_found():
    codes = np.array([3, 3, 5, 5, 3, 3, 5, 5, 3, 9, 9, 5])
    tests = np.arange(12).reshape(6, 2)  # 33 55 33 55 39 95
    found = find_rare_class(tests, codes)
    # Two sets hold 9 and another class, one pair each; no set tells 3 from 5.
    assert (found.code, found.n_trials, found.n_sets, found.n_all) == (3, 5, 1, 6)
    assert found.step == 1.0
    codes[[1, 3]] = 5, 3
    assert find_rare_class(tests[:2], codes) is None
    codes = np.array([0, 1, 0, 1, 0, 1, 0, 9, 1, 9])
    tests = np.arange(10).reshape(5, 2)  # 01 01 01 09 19
    found = find_rare_class(tests, codes)
    assert (found.code, found.n_sets, found.step) == (9, 2, 0.5)
    assert find_rare_class(tests[1:], codes) is None  # half of the sets have it


# ------------------------------------------------------------------------------ curves

REG = Ridge(5.0)
NAMES = np.array(["apple", "bear", "car", "dog"])


def problem(c, n=83, signal=1.0, seed=0):
    """Return features and the labels of unbalanced classes."""
    rng = np.random.default_rng(seed)
    codes = rng.choice(c, n, p=np.arange(1, c + 1) / np.arange(1, c + 1).sum())
    X = rng.standard_normal((n, 5)) + signal * rng.standard_normal((c, 5))[codes]
    return X, NAMES[codes]


def check(roc, truth, scores, positive):
    """Compare a curve with scikit-learn's."""
    fpr, tpr, thresholds = roc_curve(truth, scores)
    assert_allclose(roc.fpr, fpr, rtol=1e-12, atol=0)
    assert_allclose(roc.tpr, tpr, rtol=1e-12, atol=0)
    assert_allclose(roc.thresholds, thresholds, rtol=1e-7, atol=1e-12)
    assert_allclose(roc.auc, roc_auc_score(truth, scores), rtol=1e-12, atol=0)
    assert roc.positive == positive
    assert repr(roc) == f"<Roc: {positive}, AUC {roc.auc:.3f}>"


@pytest.mark.parametrize(("c", "k"), [(2, 5), (2, 7), (3, 7), (4, 7)])
def test_classes_are_ranked_by_decision_or_probability(c, k):
    X, y = problem(c)
    cv, model = KFold(k), KernelFDA(reg=REG)  # of 7 sets models' N differ
    result = cross_validate(X, y, reg=REG, cv=cv)
    if c == 2:
        decision = cross_val_predict(model, X, y, cv=cv, method="decision_function")
        check(result.roc(), y == "bear", decision, "bear")
        check(result.roc(positive="apple"), y == "apple", -decision, "apple")
        numbers = np.where(y == "bear", 7, -1)
        of_numbers = cross_validate(X, numbers, reg=REG, cv=cv).roc(7)
        check(of_numbers, y == "bear", decision, 7)
        assert isinstance(of_numbers.positive, int)
        return
    p = cross_val_predict(model, X, y, cv=cv, method="predict_proba")
    for number, name in enumerate(NAMES[:c]):
        check(result.roc(name), y == name, p[:, number], name)


def test_probabilities_that_reach_one_are_still_ranked():
    X, y = problem(3, signal=12)
    result = cross_validate(1e3 * X, y, reg=Ridge(1e-3), cv=5)
    p = softmax(70 * result.class_scores, axis=1)
    assert (p == 1).sum() > 10  # saturated
    y = np.roll(y, 1)  # labels that the scores do not separate
    mixed = replace(result, y=np.roll(result.y, 1))
    n_train = np.empty((len(y), 1))
    for train, test in result.folds:
        n_train[test] = len(train)
    log = n_train * result.class_scores
    others = np.logaddexp(log[:, 1], log[:, 2])
    expected = roc_auc_score(y == "apple", log[:, 0] - others)
    assert_allclose(mixed.roc("apple").auc, expected, rtol=1e-12, atol=0)
    assert abs(expected - roc_auc_score(y == "apple", p[:, 0])) > 1e-3


def test_repeated_trials_count_once_and_untested_ones_not_at_all():
    X, y = problem(2)
    cv = ShuffleSplit(3, test_size=0.4, random_state=0)
    result = cross_validate(X, y, reg=REG, cv=cv)
    tested = np.unique(np.concatenate(result.tests))
    assert len(tested) < len(y) < sum(map(len, result.tests))
    scores = result.class_scores[tested]
    check(result.roc(), y[tested] == "bear", scores[:, 1] - scores[:, 0], "bear")
    X, y = problem(3)
    rows = np.arange(len(y))
    tests = [rows[:30], rows[20:60]]
    pairs = [(np.setdiff1d(rows, test), test) for test in tests]
    result = cross_validate(X, y, reg=REG, cv=pairs)
    n_train = np.full(60, 43.0)
    n_train[:20], n_train[20:30] = 53, 48  # the mean where a trial is in both
    p = softmax(n_train[:, None] * result.class_scores[:60], axis=1)
    check(result.roc("car"), y[:60] == "car", p[:, 2], "car")


def test_rounding_does_not_order_trials():
    X, y = problem(2)
    result = cross_validate(X, y)
    scores = 0.3 + 1e-14 * np.random.default_rng(0).standard_normal((len(y), 2))
    scores[:, 1] += np.arange(len(y)) % 2
    roc = replace(result, class_scores=scores).roc()
    check(roc, y == "bear", np.arange(len(y)) % 2, "bear")
    assert len(roc.thresholds) == 3


def test_a_class_absent_from_training_is_last():
    X, y = problem(3, n=60)
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    cars, rest = np.flatnonzero(y == "car"), np.flatnonzero(y != "car")
    tests = [np.r_[cars, rest[::3]], rest[1::3], rest[2::3]]
    pairs = [(np.setdiff1d(np.arange(60), test), test) for test in tests]
    result = cross_validate(X, y, cv=pairs)
    assert np.isneginf(result.class_scores[cars, 2]).all()
    roc = result.roc("car")
    assert_array_equal(roc.thresholds[[0, -1]], [np.inf, 0])
    assert roc.tpr[-2] == 0  # no car before the last step
    assert_allclose(roc.auc, 0.5 * len(rest[::3]) / len(rest), rtol=1e-12, atol=0)
    for name in ("apple", "bear"):
        assert 0.5 < result.roc(name).auc <= 1


def test_curves_that_there_are_none_of_are_refused():
    result = cross_validate(*problem(3))
    message = r"has 3 classes; say which one is positive.*'apple', 'bear', 'car'"
    with pytest.raises(ValueError, match=message):
        result.roc()
    for call in (result.roc, result.plot_roc):
        with pytest.raises(ValueError, match=r"'positive': 'dog'. Allowed: 'apple'"):
            call(positive="dog")
    assert plt.get_fignums() == []
    result = cross_validate(*problem(2))
    scores = result.class_scores.copy()
    scores[result.y == 1] = np.nan
    one_kind, n = replace(result, class_scores=scores), (result.y == 0).sum()
    message = rf"of 'bear' needs .* of {n} tested trials 0 are of this class"
    with pytest.raises(ValueError, match=message):
        one_kind.roc()
    with pytest.raises(ValueError, match=rf"of {n} tested trials {n} are"):
        one_kind.roc("apple")


# ------------------------------------------------------------------- figures of tuning


@pytest.mark.parametrize(
    ("reg", "more"),
    [
        (Tuned([0.1, 1.0, 10.0]), {"preprocess": "zscore"}),
        ("tuned", {"preprocess": "zscore"}),
        ("tuned", {"n_repeats": 2}),
    ],
    ids=str,
)
def test_folds_may_have_grids_of_their_own(reg, more):
    X, y = problem(3)
    result = cross_validate(X, y, reg=reg, cv=4, random_state=0, **more)
    penalty, n = result.penalty, len(result.lambdas)
    *folds, _, chosen = result.plot_tuning().lines
    assert len(folds) == n
    if reg != "tuned":
        assert_allclose(np.sort(folds[0].get_xdata()), [0.1, 1, 10], rtol=1e-10)
    grids = np.reshape(penalty["grid"], (-1, folds[0].get_xdata().size))
    scales = np.ravel(penalty["scale"])
    for fold, line in enumerate(folds):
        at = fold * len(grids) // n
        assert_allclose(line.get_xdata(), grids[at] / scales[at], rtol=1e-10)
        assert_array_equal(line.get_ydata(), penalty["criterion"][fold, 0])
    relative = result.lambdas / np.repeat(scales, n // len(scales))
    assert_allclose(chosen.get_xdata(), relative, rtol=1e-9)
