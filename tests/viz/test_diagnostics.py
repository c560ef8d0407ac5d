"""Figures beside the scores: ROC curves, predictions, tuned penalties."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import pearsonr

from mvpa_kfda import Tuned, cross_validate, decode_arrays, regress
from tests import build
from tests.build import legend

X, CODES = build.features((14, 12, 10), 4)


def test_roc_curves_are_those_of_the_result():
    two = cross_validate(X[CODES < 2], build.NAMES[CODES[CODES < 2]], reg=0.3)
    ax, roc = two.plot_roc(), two.roc()
    curve, chance = ax.lines
    assert_array_equal(curve.get_xydata(), np.column_stack([roc.fpr, roc.tpr]))
    assert_array_equal(chance.get_xydata(), [[0, 0], [1, 1]])
    assert legend(ax) == [f"bee, AUC = {roc.auc:.3f}", "chance (0.5)"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == (
        "False positive rate",
        "True positive rate",
    )
    three = cross_validate(X, build.NAMES[CODES], reg=0.3)
    curves = three.plot_roc().lines[:-1]
    for line, name in zip(curves, three.classes, strict=True):
        assert_array_equal(line.get_ydata(), three.roc(name).tpr)
    (one, _) = three.plot_roc(positive="cat").lines
    assert_array_equal(one.get_ydata(), three.roc("cat").tpr)
    many, codes = build.features((4,) * 20, 4)
    ax = cross_validate(many, codes, cv=2, reg=0.3).plot_roc()
    assert len(ax.lines) >= 21
    assert len(legend(ax)) < 5


def test_predictions_are_points_beside_the_line_of_equality():
    values = build.values_of(X)
    result = regress(X, values, cv=[(np.arange(20), np.arange(20, 36))])
    ax = result.plot_predictions()
    (points,) = (line for line in ax.lines if line.get_marker() == "o")
    expected = np.column_stack([values, result.predictions])[20:]
    assert_array_equal(points.get_xydata(), expected)
    r = pearsonr(*expected.T).statistic
    assert points.get_label() == f"trials, correlation {r:.2f}"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("Observed", "Predicted")


def test_tuning_shows_the_criterion_of_folds_their_mean_and_what_was_chosen():
    reg = Tuned([0.01, 0.1, 1.0])
    result = cross_validate(X, CODES, cv=4, reg=reg, kernel=["linear", "rbf"])
    penalty = result.penalty
    criterion, chosen = np.asarray(penalty["criterion"]), np.asarray(penalty["kernel"])
    ax = result.plot_tuning()
    *lines, marks = ax.lines
    assert len(lines) == 2 * (4 + 1)
    for k in range(2):
        drawn = [line.get_ydata() for line in lines[5 * k : 5 * k + 5]]
        expected = [*criterion[:, k], criterion[:, k].mean(axis=0)]
        assert_allclose(drawn, expected, rtol=1e-12)
        assert_allclose(np.sort(lines[5 * k].get_xdata()), [0.01, 0.1, 1], rtol=1e-9)
    scale = np.asarray(penalty["scale"]).reshape(-1, 2)[0][chosen]
    reg = np.asarray(penalty["lambda"]) / scale
    assert_allclose(marks.get_xdata(), reg, rtol=1e-9)
    best = criterion[np.arange(4), chosen].min(axis=1)
    assert_allclose(marks.get_ydata(), best, rtol=1e-12)
    ends = np.isclose(reg, 0.01) | np.isclose(reg, 1)
    words = f"chosen: reg = {np.median(reg):.3g} (median"
    words += (
        f"; at the end of the grid in {ends.sum()} of 4 folds)" if ends.any() else ")"
    )
    assert words in legend(ax)
    with pytest.raises(ValueError, match="Labels did not select the penalty"):
        cross_validate(X, CODES, reg=0.1).plot_tuning()
    trials, codes = build.trials((8, 8), 4, 3)
    result = decode_arrays(trials, codes, cv=4, reg=Tuned([0.1, 1.0]))
    df = np.asarray(result.degrees_of_freedom)
    *folds, mean, _ = result.plot_tuning().lines
    assert_array_equal([line.get_ydata() for line in folds], df.T)
    assert_allclose(mean.get_ydata(), df.mean(axis=1), rtol=1e-12)
    fixed = replace(result, penalty={"degrees_of_freedom": df[:, 0]})
    assert_array_equal(fixed.plot_tuning().lines[0].get_ydata(), df[:, 0])
    assert legend(fixed.plot_tuning())[0] == "the same in all folds"
