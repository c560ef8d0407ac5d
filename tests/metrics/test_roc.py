"""ROC curves of a result, and the figure of how its penalty was tuned."""

from dataclasses import FrozenInstanceError, replace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax
from sklearn.metrics import roc_auc_score, roc_curve
from sklearn.model_selection import KFold, ShuffleSplit, cross_val_predict

from mvpa_kfda import KernelFDA, Ridge, Tuned, cross_validate, decode_arrays
from mvpa_kfda.results.epochs import DecodingResult
from mvpa_kfda.utils.plain import as_call
from mvpa_kfda.viz.diagnostics import plot_roc

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


# ------------------------------------------------------------------------------ curves


@pytest.mark.parametrize("cv", [KFold(5), KFold(7)], ids=["alike", "unequal"])
def test_two_classes_are_ranked_by_the_decision_function(cv):
    X, y = problem(2)
    result = cross_validate(X, y, reg=REG, cv=cv)
    decision = cross_val_predict(
        KernelFDA(reg=REG), X, y, cv=cv, method="decision_function"
    )
    check(result.roc(), y == "bear", decision, "bear")
    check(result.roc("bear"), y == "bear", decision, "bear")
    check(result.roc(positive="apple"), y == "apple", -decision, "apple")


@pytest.mark.parametrize("c", [3, 4])
def test_more_classes_are_ranked_by_their_probability(c):
    X, y = problem(c)
    cv = KFold(7)  # unequal test sets: the models' N differ
    result = cross_validate(X, y, reg=REG, cv=cv)
    p = cross_val_predict(KernelFDA(reg=REG), X, y, cv=cv, method="predict_proba")
    for k, name in enumerate(NAMES[:c]):
        check(result.roc(name), y == name, p[:, k], name)


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


def test_repeated_trials_of_three_classes():
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
    cars = np.flatnonzero(y == "car")
    rest = np.flatnonzero(y != "car")
    tests = [np.r_[cars, rest[::3]], rest[1::3], rest[2::3]]
    pairs = [(np.setdiff1d(np.arange(60), test), test) for test in tests]
    result = cross_validate(X, y, cv=pairs)
    assert np.isneginf(result.class_scores[cars, 2]).all()
    roc = result.roc("car")
    assert_array_equal(roc.thresholds[[0, -1]], [np.inf, 0])
    assert roc.tpr[-2] == 0  # no car before the last step
    n_first = len(rest[::3])
    assert_allclose(roc.auc, 0.5 * n_first / len(rest), rtol=1e-12, atol=0)
    for name in ("apple", "bear"):
        assert 0.5 < result.roc(name).auc <= 1


def test_labels_that_are_numbers():
    X, y = problem(2)
    numbers = np.where(y == "bear", 7, -1)
    roc, named = cross_validate(X, numbers).roc(7), cross_validate(X, y).roc()
    assert_array_equal(roc.tpr, named.tpr)
    assert roc.positive == 7
    assert isinstance(roc.positive, int)


def test_the_curve_is_frozen_and_worded():
    roc = cross_validate(*problem(2)).roc()
    assert repr(roc) == f"<Roc: bear, AUC {roc.auc:.3f}>"
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'auc'"):
        roc.auc = 1.0


def test_the_positive_class_must_be_known():
    result = cross_validate(*problem(3))
    message = r"has 3 classes; say which one is positive.*'apple', 'bear', 'car'"
    with pytest.raises(ValueError, match=message):
        result.roc()
    with pytest.raises(ValueError, match=r"'positive': 'dog'. Allowed: 'apple'"):
        result.roc("dog")
    with pytest.raises(ValueError, match=r"'positive': 1. Allowed: 'apple'"):
        result.plot_roc(positive=1)
    assert plt.get_fignums() == []


def test_one_kind_of_tested_trials_has_no_curve():
    result = cross_validate(*problem(2))
    scores = result.class_scores.copy()
    scores[result.y == 1] = np.nan
    n_left = (result.y == 0).sum()
    message = rf"of 'bear' needs .* of {n_left} tested trials 0 are of this class"
    with pytest.raises(ValueError, match=message):
        replace(result, class_scores=scores).roc()
    with pytest.raises(ValueError, match=rf"of {n_left} tested trials {n_left} are"):
        replace(result, class_scores=scores).roc("apple")


# ------------------------------------------------------------------- figures of curves


def test_the_figure_has_the_curve():
    result = cross_validate(*problem(2))
    ax = result.plot_roc()
    curve, chance = ax.lines
    roc = result.roc()
    assert_array_equal(curve.get_xdata(), roc.fpr)
    assert_array_equal(curve.get_ydata(), roc.tpr)
    assert_array_equal(chance.get_xydata(), [[0, 0], [1, 1]])
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == [f"bear, AUC = {roc.auc:.3f}", "chance (0.5)"]
    assert ax.get_title(loc="left").endswith("\nScores pooled across folds")
    assert ax.get_xlabel() == "False positive rate"
    assert ax.get_ylabel() == "True positive rate"
    assert "2 classes" in ax.get_title(loc="left")


def test_several_classes_have_a_curve_each():
    result = cross_validate(*problem(4), cv=5)
    ax = plt.subplots()[1]
    assert plot_roc(result, ax=ax) is ax
    for name, line in zip(NAMES, ax.lines, strict=False):
        assert_array_equal(line.get_ydata(), result.roc(name).tpr)
        assert line.get_label().startswith(name)
    assert len(ax.lines) == 5
    assert len({line.get_color() for line in ax.lines}) == 5
    (curve, _) = result.plot_roc(positive="car").lines
    assert_array_equal(curve.get_xdata(), result.roc("car").fpr)


def test_many_classes_are_told_apart_by_style():
    rng = np.random.default_rng(0)
    y = np.arange(90) % 9
    lines = cross_validate(rng.standard_normal((90, 4)), y).plot_roc().lines[:-1]
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == 9


@pytest.mark.some(2)
@pytest.mark.parametrize("n_classes", [2, 3, 8, 14])
@pytest.mark.parametrize("name", ["", "a longer name for class "])
def test_legend_and_title_of_any_number_of_classes_are_inside(n_classes, name):
    rng = np.random.default_rng(0)
    labels = np.arange(10 * n_classes) % n_classes
    y = np.array([f"{name}{i:02d}" for i in range(n_classes)])[labels]
    ax = cross_validate(rng.standard_normal((len(y), 4)), y, cv=5).plot_roc()
    figure = ax.figure
    figure.canvas.draw()
    width, height = figure.bbox.size
    curves = ax.get_window_extent()
    for artist in (ax.get_legend(), ax._left_title, ax.xaxis.label, ax.yaxis.label):
        box = artist.get_window_extent()
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.x1 <= width
        assert box.y1 <= height
        assert not curves.shrunk(0.99, 0.99).overlaps(box)
    assert curves.height > 250  # room for the curves
    plt.close(figure)


# ------------------------------------------------------------------- figures of tuning


def tuned(n_kernels, n_folds=4, n_lambdas=6):
    """Return a result with a tuned penalty."""
    rng = np.random.default_rng(0)
    grid = np.geomspace(1e-2, 1e3, n_lambdas) * (1 + np.arange(n_kernels)[:, None])
    criterion = rng.uniform(1, 2, (n_folds, n_kernels, n_lambdas))
    criterion[1, 0, 0] = np.nan
    kernel = np.arange(n_folds) % n_kernels
    column = np.array([2, 3, 3, 5])
    result = cross_validate(*problem(2), cv=n_folds)
    penalty = {
        "lambda": grid[kernel, column] * (1 + 1e-12),
        "kernel": kernel,
        "grid": grid,
        "criterion": criterion,
        "degrees_of_freedom": np.full(n_folds, 3.0),
    }
    names = [f"RBF(gamma={k})" for k in range(n_kernels)]
    parameters = {**result.parameters, "kernels": names}
    return replace(result, penalty=penalty, parameters=parameters), column


@pytest.mark.parametrize("n_kernels", [1, 3, 9])
def test_the_criterion_of_every_fold_and_kernel_is_drawn(n_kernels):
    result, column = tuned(n_kernels)
    scale = {"scale": np.ones(n_kernels)}
    result = replace(result, penalty=result.penalty | scale)
    ax = result.plot_tuning()
    *lines, chosen = ax.lines
    grid, criterion = result.penalty["grid"], result.penalty["criterion"]
    assert len(lines) == n_kernels * 5
    looks = {(line.get_color(), line.get_linestyle()) for line in lines}
    assert len(looks) == n_kernels
    for k in range(n_kernels):
        *folds, mean = lines[5 * k : 5 * k + 5]
        for fold, line in enumerate(folds):
            assert_array_equal(line.get_xdata(), grid[k])
            assert_array_equal(line.get_ydata(), criterion[fold, k])
            assert line.get_color() == mean.get_color()
            assert line.get_linewidth() < mean.get_linewidth()
        assert_allclose(mean.get_ydata(), criterion[:, k].mean(axis=0), rtol=1e-12)
    kernel = result.penalty["kernel"]
    assert_allclose(chosen.get_xdata(), result.penalty["lambda"], rtol=1e-9)
    assert_array_equal(chosen.get_ydata(), criterion[range(4), kernel, column])
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    names = ["mean over folds"]
    if n_kernels > 1:
        names = list(map(as_call, result.parameters["kernels"]))
    median = np.median(result.penalty["lambda"])
    ends = "median; at the end of the grid in 1 of 4 folds"
    assert labels == [*names, f"chosen: reg = {median:.3g} ({ends})"]
    assert ax.get_xscale() == "log"
    assert ax.get_ylabel() == "Squared error in training sets"


def test_penalties_are_relative():
    result, _ = tuned(2)
    scale = np.array([4.0, 50.0])
    result = replace(result, penalty=result.penalty | {"scale": scale})
    ax = result.plot_tuning()
    *lines, chosen = ax.lines
    grid, kernel = result.penalty["grid"], result.penalty["kernel"]
    for k in range(2):
        assert_allclose(lines[5 * k].get_xdata(), grid[k] / scale[k], rtol=1e-12)
    reg = result.penalty["lambda"] / scale[kernel]
    assert_allclose(chosen.get_xdata(), reg, rtol=1e-9)
    assert chosen.get_label().startswith(f"chosen: reg = {np.median(reg):.3g} (median;")
    assert ax.get_xlabel() == "reg = λ / (trace(K_c) / n)"


def test_relative_penalties_are_those_of_the_grid():
    X, y = problem(3)
    grid = [0.01, 0.1, 1.0]
    line = cross_validate(X, y, reg=Tuned(grid)).plot_tuning().lines[0]
    assert_allclose(np.sort(line.get_xdata()), grid, rtol=1e-10)


@pytest.mark.parametrize(
    "reg", ["tuned", Tuned([0.1, 1.0, 10.0])], ids=["tuned", "grid"]
)
@pytest.mark.parametrize("more", [{"preprocess": "zscore"}, {"n_repeats": 2}], ids=str)
def test_folds_may_have_grids_of_their_own(reg, more):
    X, y = problem(3)
    result = cross_validate(X, y, reg=reg, cv=4, random_state=0, **more)
    penalty, n = result.penalty, len(result.lambdas)
    *folds, _, chosen = result.plot_tuning().lines
    assert len(folds) == n
    grids = np.reshape(penalty["grid"], (-1, folds[0].get_xdata().size))
    scales = np.ravel(penalty["scale"])
    for fold, line in enumerate(folds):
        at = fold * len(grids) // n
        assert_allclose(line.get_xdata(), grids[at] / scales[at], rtol=1e-10)
        assert_array_equal(line.get_ydata(), penalty["criterion"][fold, 0])
        assert chosen.get_xdata()[fold] in line.get_xdata()
    relative = result.lambdas / np.repeat(scales, n // len(scales))
    assert_allclose(chosen.get_xdata(), relative, rtol=1e-9)


def test_flexibility_over_time_is_that_of_the_folds():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 4, 5)), np.arange(40) % 2
    options = {"cv": 4, "sfreq": 10, "tmin": -0.2}
    result = decode_arrays(X, y, reg="tuned", **options)
    *folds, mean, onset = result.plot_tuning().lines
    df = result.degrees_of_freedom
    assert df.shape == (5, 4)
    assert_array_equal(np.transpose([line.get_ydata() for line in folds]), df)
    assert_allclose(mean.get_ydata(), df.mean(axis=1), rtol=1e-12)
    assert_array_equal(mean.get_xdata(), result.times)
    assert mean.get_label() == "mean over folds"
    assert onset.get_label() == "onset (0 s)"
    values = decode_arrays(X, X[:, 0, 0], task="regression", reg=0.3, **options)
    ax = plt.subplots()[1]
    assert values.plot_tuning(ax=ax) is ax
    assert_array_equal(ax.lines[0].get_ydata(), values.degrees_of_freedom)
    assert ax.get_ylabel() == "Degrees of freedom"


@pytest.mark.parametrize("reg", [0.3, "auto"])
def test_a_penalty_that_is_not_selected_has_nothing_to_draw(reg):
    result = cross_validate(*problem(2), reg=reg)
    assert isinstance(result, DecodingResult)
    with pytest.raises(ValueError, match=rf"not select.*reg={reg!r}\).*reg='tuned'"):
        result.plot_tuning()
    assert plt.get_fignums() == []
