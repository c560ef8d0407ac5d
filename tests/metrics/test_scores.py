"""Scores over permutations, test sets and trials against scikit-learn; users' own."""

import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from scipy.stats import norm, pearsonr
from sklearn import metrics as skm
from sklearn.model_selection import RepeatedStratifiedKFold, ShuffleSplit

from mvpa_kfda import (
    cross_validate,
    decode_arrays,
    generalize_arrays,
    regress,
    searchlight,
)
from mvpa_kfda.kfda.direct import Predictions
from mvpa_kfda.metrics.auc import roc_auc
from mvpa_kfda.metrics.scores import (
    METRICS,
    REGRESSION_METRICS,
    chance_level,
    crowding,
    depends_on_frequencies,
    evaluate_labellings,
    metric_in_text,
    metric_limits,
    read_scoring,
)
from mvpa_kfda.utils import memory
from mvpa_kfda.verification.scoring import score
from tests import build, reference

SETS = build.SETS
OF_LABELS = sorted(name for name in METRICS if not METRICS[name].needs_class_scores)
OF_PROBABILITIES = ["neg_brier_score", "neg_log_loss"]
OF_SCORES = ["average_precision", "roc_auc", *OF_PROBABILITIES]
PAIRS = sorted(set(METRICS) - {*OF_LABELS, *OF_SCORES})


def evaluate(scoring, scored, n_classes, shapes=SETS):
    """Return the metrics of predictions, by name, for the labels that they carry."""
    metrics = {name: METRICS[name] for name in scoring}
    return evaluate_labellings(metrics, scored, [scored.true], shapes, n_classes)[0]


def d_prime(true, predicted):
    """Return the mean over classes of z(hits) - z(false alarms), by definition."""
    found = []
    for k in set(true):
        of_class, called = true == k, predicted == k
        hits = (np.sum(called & of_class) + 0.5) / (np.sum(of_class) + 1)
        alarms = (np.sum(called & ~of_class) + 0.5) / (np.sum(~of_class) + 1)
        if not of_class.all():
            found.append(norm.ppf(hits) - norm.ppf(alarms))
    return np.mean(found) if found else 0.0


def by_sklearn(name, true, predicted, n_classes):
    """Return scikit-learn's value of a metric of predicted labels."""
    average = "binary" if n_classes == 2 and "macro" not in name else "macro"
    rate = {"average": average, "zero_division": 0}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "y_pred contains classes not in y_true")
        return {
            "accuracy": lambda: skm.accuracy_score(true, predicted),
            "balanced_accuracy": lambda: skm.balanced_accuracy_score(true, predicted),
            "recall": lambda: skm.recall_score(true, predicted, **rate),
            "precision": lambda: skm.precision_score(true, predicted, **rate),
            "f1": lambda: skm.f1_score(true, predicted, **rate),
            "kappa": lambda: skm.cohen_kappa_score(true, predicted),
            "matthews_corrcoef": lambda: skm.matthews_corrcoef(true, predicted),
            "d_prime": lambda: d_prime(true, predicted),
            "confusion_matrix": lambda: skm.confusion_matrix(
                true, predicted, labels=range(n_classes)
            ),
        }[name.removesuffix("_macro")]()


@pytest.mark.parametrize("n_classes", [2, 3, 6])
def test_metrics_of_labels_are_scikit_learns(n_classes):
    scored = build.predictions(n_classes)
    values = evaluate(OF_LABELS, scored, n_classes)
    for name in OF_LABELS:
        for b, value in enumerate(values[name]):
            pair = scored.true[:, b], scored.predicted[:, b]
            expected = by_sklearn(name, *pair, n_classes)
            assert_allclose(value, expected, rtol=1e-12, atol=1e-15, err_msg=name)


def test_a_class_that_is_never_seen_or_never_predicted():
    scored = build.predictions(3)
    true = np.where(scored.true == 0, 1, scored.true)
    predicted = np.where(scored.predicted == 2, 1, scored.predicted)
    names = [name for name in OF_LABELS if name != "kappa"]
    values = evaluate(names, Predictions(true, predicted, None), 3)
    for name in names:
        for b, value in enumerate(values[name]):
            expected = by_sklearn(name, true[:, b], predicted[:, b], 3)
            assert_allclose(value, expected, rtol=1e-12, atol=1e-15, err_msg=name)
    ones, scores = np.ones((len(true), 1), int), np.zeros((len(true), 3, 1))
    found = evaluate(METRICS, Predictions(ones, ones, scores), 3)
    chance = {"kappa": 0, "pairwise_accuracy": 0.5, "crossnobis": 0, "roc_auc": 0.5}
    assert {name: found[name].tolist() for name in chance} == {
        name: [level] for name, level in chance.items()
    }


def average_precision(sets, n_classes):
    """Return scikit-learn's, in its mean over test sets of two classes, and classes."""
    means = []
    for k in [1] if n_classes == 2 else range(n_classes):
        found = []
        for true, scores, n in sets:
            others = logsumexp(n * np.delete(scores, k, axis=1), axis=1)
            odds = np.round(n * scores[:, k] - others, 8)  # alike but for rounding
            if 0 < np.sum(true == k) < len(true):
                found.append(skm.average_precision_score(true == k, odds))
        means += [np.mean(found)] if found else []
    return np.mean(means)


def labellings_at_positions(n_classes, digits):
    """Return predictions at three positions, and labels that all of them share."""
    parts = [build.predictions(n_classes, seed, digits) for seed in range(3)]
    scores = np.stack([part.class_scores for part in parts], axis=2)
    true, second = (part.true[:, None].astype(np.int8) for part in parts[:2])
    scored = Predictions(true, scores.argmax(axis=1).astype(np.int8), scores)
    return scored, [true, second, second[..., :1]]


@pytest.mark.parametrize(("n_classes", "digits"), [(2, 12), (2, 2), (4, 2), (4, 12)])
def test_labellings_at_positions_are_scored_as_each_alone(n_classes, digits):
    scored, trues = labellings_at_positions(n_classes, digits)
    found = evaluate_labellings(METRICS, scored, trues, SETS, n_classes)
    for scores, true in zip(found, trues, strict=True):
        for b in (1, 5):
            position, codes = b % 3, true[:, 0, b % true.shape[2]]
            class_scores = scored.class_scores[:, :, position, b]
            sets = [(codes[s], class_scores[s], n) for s, n in build.sets_of(SETS)]
            of_pairs = reference.pairs_of_scores(sets, n_classes)
            by_hand = of_pairs | {
                "average_precision": average_precision(sets, n_classes),
                "roc_auc": roc_auc(codes[:, None], class_scores[..., None], SETS)[0],
            }
            sets = [(true, true, scores, n) for true, scores, n in sets]
            for name in OF_PROBABILITIES:
                by_hand[name] = score(name, sets, n_classes, {})
            predicted = scored.predicted[:, position, b]
            for name in METRICS:
                expected = by_hand.get(name)
                if expected is None:
                    expected = by_sklearn(name, codes, predicted, n_classes)
                value, atol = scores[name][b, position], 1e-12 * (name in PAIRS) + 1e-15
                assert_allclose(value, expected, rtol=1e-10, atol=atol, err_msg=name)


def test_scores_do_not_depend_on_how_much_is_processed_at_a_time(monkeypatch):
    scored, trues = labellings_at_positions(3, 12)
    whole = evaluate_labellings(METRICS, scored, trues, SETS, 3)
    monkeypatch.setattr(memory, "_BATCH", 9)
    pieces = evaluate_labellings(METRICS, scored, trues, SETS, 3)
    for one, other in zip(whole, pieces, strict=True):
        for name in METRICS:
            rtol = 1e-12 * (name in PAIRS)
            assert_allclose(one[name], other[name], rtol=rtol, atol=0, err_msg=name)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_chance_is_what_a_guesser_scores(n_classes):
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(n_classes), 30 * np.arange(1, n_classes + 1))
    true = np.tile(codes[:, None], (1, 400))
    guesses = rng.integers(n_classes, size=true.shape)
    scores = rng.standard_normal((len(codes), n_classes, 400))
    scored, shapes = Predictions(true, guesses, scores), ((1, len(codes), 100),)
    names = [name for name in METRICS if METRICS[name].scalar]
    alike = replace(scored, class_scores=np.zeros_like(scores))
    for name, values in evaluate(OF_PROBABILITIES, alike, n_classes, shapes).items():
        assert_allclose(values, chance_level(name, codes), rtol=1e-12)
    names = [name for name in names if name not in OF_PROBABILITIES]
    for name, values in evaluate(names, scored, n_classes, shapes).items():
        error = 4 * values.std() / 20 + 0.002  # and the bias of a ratio
        error += 0.02 * (name == "average_precision")  # which is higher for few trials
        chance = chance_level(name, codes)
        assert_allclose(values.mean(), chance, rtol=0, atol=error, err_msg=name)
    # Who always guesses the largest class is beyond chance in these alone.
    largest = Predictions(true[:, :1], np.full((len(codes), 1), n_classes - 1), None)
    names = [name for name in OF_LABELS if METRICS[name].scalar]
    for name, (value,) in evaluate(names, largest, n_classes, shapes).items():
        beyond = value > chance_level(name, codes) + 1e-9
        if beyond and "precision" not in name:
            assert depends_on_frequencies(name, n_classes), name
    assert depends_on_frequencies("accuracy", n_classes)
    assert depends_on_frequencies("recall", 2) > depends_on_frequencies("recall", 3)
    assert_allclose(crowding(codes, n_classes), 2 * n_classes / (n_classes + 1))


@pytest.mark.parametrize("end", [0, 1, None], ids=["wrong", "right", "between"])
def test_scores_are_within_the_limits_of_their_metric_and_reach_them(end):
    scored = build.predictions(2)
    if end is not None:
        true = np.tile([0, 1], 34)[:, None]
        predicted = true if end else 1 - true
        scores = 9.0 * (np.arange(2)[:, None] == predicted[:, None])
        scored = Predictions(true, predicted, scores)
    numbers = scored.true - 0.5, scored.predicted - 0.5
    found = evaluate(METRICS, scored, 2)
    found |= {name: m.score(*numbers) for name, m in REGRESSION_METRICS.items()}
    for name, values in found.items():
        lowest, highest = metric_limits(name)
        assert lowest <= values.min() <= values.max() <= highest, name
        limit = highest if end else lowest
        if name in ("average_precision", "neg_brier_score") and not end:
            continue  # of which these cases are not the worst
        if end is not None and name != "confusion_matrix" and np.isfinite(limit):
            assert_allclose(values, limit, rtol=0, atol=1e-12, err_msg=name)
    assert metric_limits("a metric of one's own") == (-np.inf, np.inf)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_scores_of_numbers_are_scikit_learns_and_scipys(scale):
    rng = np.random.default_rng(0)
    true = scale * rng.standard_normal((20, 5))
    predicted = true + scale * rng.standard_normal((20, 5))
    found = {name: m.score(true, predicted) for name, m in REGRESSION_METRICS.items()}
    for b, pair in enumerate(zip(true.T, predicted.T, strict=True)):
        error = skm.mean_squared_error(*pair)
        assert_allclose(found["neg_mean_squared_error"][b], -error, rtol=1e-12)
        assert_allclose(found["r2"][b], skm.r2_score(*pair), rtol=1e-12)
        assert_allclose(found["pearsonr"][b], pearsonr(*pair)[0], rtol=1e-10)
    # What does not vary but for rounding has no correlation; hit exactly, R² is 1.
    flat = np.full((20, 1), 4.0)
    rounded = flat * (1 + 1e-16 * np.arange(20)[:, None])
    assert REGRESSION_METRICS["pearsonr"].score(true[:, :1], rounded) == [0]
    assert REGRESSION_METRICS["pearsonr"].score(rounded, true[:, :1]) == [0]
    assert REGRESSION_METRICS["r2"].score(flat, flat) == [1]
    assert REGRESSION_METRICS["r2"].score(flat, flat + 1) == [0]


def test_scoring_argument():
    assert read_scoring("f1")[0] == ["f1"]
    assert read_scoring(("f1", "roc_auc"))[0] == ["f1", "roc_auc"]
    with pytest.raises(ValueError, match=r"'scoring': 'auc'.*'accuracy'.*'roc_auc'"):
        read_scoring(["f1", "auc"])
    with pytest.raises(ValueError, match="a metric twice"):
        read_scoring(["f1", "f1"])
    with pytest.raises(ValueError, match="'confusion_matrix' is a table"):
        read_scoring("confusion_matrix")
    for value in ([], None, 3, skm.accuracy_score):
        with pytest.raises(TypeError, match=r"'scoring'.*accuracy"):
            read_scoring(value)
    words = {"mean_mcc": "mean MCC", "f1_difference": "F1 difference", "r2": "R²"}
    assert {name: metric_in_text(name) for name in words} == words


# ------------------------------------------------------------- of test sets and trials

DATA, CODES = build.trials((12, 15), 4, 3, separation=0.4)
X, Y = DATA[:, :, 0], np.array(["cat", "dog"])[CODES]
#: Runs of 12, 6 and 9 trials, the first of them by name being the largest.
RUNS = np.random.default_rng(7).permutation(np.repeat(["a", "b", "c"], (12, 6, 9)))


def auc(true, predicted, scores):
    return skm.roc_auc_score(true == "dog", scores[:, 1] - scores[:, 0])


def test_folds_of_unequal_size_come_in_the_order_of_the_folds():
    result = cross_validate(X, Y, groups=RUNS, scoring=["accuracy", "roc_auc", auc])
    hits, values = result.predictions == Y, result.decision_values()
    expected = [hits[RUNS == run].mean() for run in "abc"]
    assert len(set(expected)) == 3
    assert_allclose(result.fold_scores, expected, rtol=1e-12)
    areas = [skm.roc_auc_score(Y[RUNS == r] == "dog", values[RUNS == r]) for r in "abc"]
    for name in ("roc_auc", "auc"):
        assert_allclose(result.fold_metrics[name], areas, rtol=1e-12)
    assert_allclose(result.metrics["auc"], np.mean(areas), rtol=1e-12)
    assert_allclose(result.scores, hits.mean(), rtol=1e-12)  # of all trials together


def test_what_is_undefined_for_a_test_set_is_left_out_there():
    runs = np.where(np.arange(27) == 3, "z", RUNS)
    result = cross_validate(X, Y, groups=runs, scoring=["roc_auc", "accuracy"])
    assert_array_equal(np.isnan(result.fold_scores), [False, False, False, True])
    assert_allclose(result.scores, np.nanmean(result.fold_scores), rtol=1e-12)
    assert np.isfinite(result.fold_metrics["accuracy"]).all()
    y = build.values_of(DATA)
    scoring = ["r2", "pearsonr", "neg_mean_squared_error"]
    result = regress(X, y, groups=runs, scoring=scoring)
    for name in scoring[:2]:
        missing = np.isnan(result.fold_metrics[name])
        assert_array_equal(missing, [False, False, False, True])
    error = [-np.mean((result.predictions - y)[runs == r] ** 2) for r in "abcz"]
    assert_allclose(result.fold_metrics[scoring[2]], error, rtol=1e-12)


def test_test_sets_that_overlap_have_scores_each():
    cv = RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0)
    result = cross_validate(X, Y, cv=cv, scoring=["accuracy", auc])
    for k, fold in enumerate(cv.split(X, Y)):
        alone = cross_validate(X, Y, cv=[fold], scoring=["accuracy", auc])
        assert result.fold_scores[k] == alone.scores == alone.fold_scores[0]
        area = result.fold_metrics["auc"][k]
        assert_allclose(area, alone.metrics["auc"], rtol=1e-12)
    mean = result.fold_metrics["auc"].mean()
    assert_allclose(result.metrics["auc"], mean, rtol=1e-12)


def test_evidence_is_of_tested_trials_and_agrees_with_predictions():
    result = decode_arrays(DATA, Y, cv=3, keep_class_scores=True)
    values, p = result.decision_values(), result.probabilities()
    assert_array_equal(result.classes[(values > 0).astype(int)], result.predictions)
    assert_allclose(p.sum(axis=-1), 1, rtol=1e-12)
    assert_array_equal(p[..., 1] > 0.5, values > 0)
    of_map = generalize_arrays(DATA, Y, cv=3, keep_class_scores=True)
    for each in of_map, of_map.diagonal():
        assert_allclose(each.decision_values(), values, rtol=1e-9, atol=1e-12)
    assert_array_equal(of_map.diagonal().fold_scores, result.fold_scores)
    cv = ShuffleSplit(1, test_size=5, random_state=0)
    result = decode_arrays(DATA, Y, cv=cv, keep_class_scores=True)
    untested = np.setdiff1d(np.arange(27), result.tests[0])
    for values in result.decision_values(), result.probabilities()[..., 0]:
        assert_array_equal(np.flatnonzero(np.isnan(values[0])), untested)
    options = {"tmin_test": 1.0, "same_trials": True, "keep_class_scores": True}
    result = generalize_arrays(DATA, Y, DATA[:, :, :2], cv=3, **options)
    missing = np.isnan(result.class_scores).all(axis=(1, 2))
    assert_array_equal(missing, [True, False, False])  # times that are not tested
    assert result.diagonal().class_scores.shape == (2, 27, 2)


def test_what_was_not_kept_is_said():
    result = decode_arrays(DATA, Y)
    for method in result.decision_values, result.probabilities:
        with pytest.raises(ValueError, match="keep_class_scores=True"):
            method()
    data, codes = build.trials((9, 9, 9))
    result = decode_arrays(data, codes, cv=3, keep_class_scores=True)
    with pytest.raises(ValueError, match="for two classes; this result has 3"):
        result.decision_values()
    table = cross_validate(X, Y, scoring=["accuracy", "confusion_matrix"])
    assert set(table.fold_metrics) == {"accuracy"}


# ------------------------------------------------------------------- functions of users


def returns(value):
    """Return a function that returns this for all labels."""

    def returns(true, predicted, scores):
        return value

    return returns


def spoils(which):
    """Return a function that changes one of the arrays it is given in place."""

    def spoils(*arrays):
        arrays[which][...] = arrays[which][::-1]
        return 0.0

    return spoils


def none_of_it(true, predicted, scores):
    return np.nan if len(set(true)) == 2 else 0.0


def fails(true, predicted, scores):
    raise KeyError("nothing here")


def accuracy(true, predicted, scores):
    return np.mean(true == predicted)


def test_any_single_number_is_a_score():
    numbers = [1, True, np.float32(0.5), np.array(0.5), np.bool_(False), Fraction(1, 2)]
    for value in numbers:
        result = cross_validate(X, Y, scoring=returns(value))
        assert result.scores == float(value)


def test_functions_cannot_change_what_is_scored():
    cases = [(cross_validate, X, Y, 3), (decode_arrays, DATA, Y, 3)]
    cases += [(regress, X, np.arange(27) / 3, 2)]  # there are no class scores
    for function, data, y, n in cases:
        for which in range(n):
            message = r"'spoils'.*read-only.*Change a copy"
            with pytest.raises(ValueError, match=message):
                function(data, y, scoring=spoils(which))


def test_functions_of_scikit_learn_take_what_is_read_only():
    def several(true, predicted, scores):
        hinge = skm.hinge_loss(true, scores[:, 1] - scores[:, 0])
        best = skm.top_k_accuracy_score(true, scores[:, 1], k=1)
        return skm.matthews_corrcoef(true, predicted) + best - hinge

    result = cross_validate(X, Y, cv=3, scoring=several, n_permutations=3)
    assert np.isfinite(result.null).all()


#: What is no score, and how messages word it.
RETURNED = [
    (None, "returned None"),
    ("0.5", r"returned '0\.5'"),
    (1j, "returned 1j"),
    ([0.5], r"returned \[0\.5\]"),
    ([[1], [2, 3]], r"returned \[\[1\]"),
    (np.ma.masked, "returned masked"),
    (np.datetime64("2020-01-01"), "returned .*2020"),
    (pd.NA, "returned <NA>"),
    (np.inf, "returned inf"),
]


@pytest.mark.parametrize(
    ("scoring", "error", "message"),
    [
        (skm.accuracy_score, TypeError, "a function of .y_true, y_pred, class_scores."),
        (skm.make_scorer(skm.accuracy_score), TypeError, "a function of .y_true"),
        (none_of_it, ValueError, "'none_of_it', called with y_true='.*returned nan"),
        (lambda t, p, s: s, ValueError, "(?s)'custom'.*one finite number"),
        *[
            (returns(x), ValueError, f"'returns', called.*{said}.*one finite number")
            for x, said in RETURNED
        ],
        (fails, ValueError, "'fails'.*failed: 'nothing here'"),
        (accuracy, ValueError, "named 'accuracy', which is the name of another"),
        ([auc, "accuracy", auc], ValueError, "named 'auc'"),
        (["accuracy", 3], ValueError, "'scoring': 3"),
    ],
)
def test_functions_that_are_no_scores_are_refused(scoring, error, message):
    with pytest.raises(error, match=message):
        cross_validate(X, Y, scoring=scoring)


def test_functions_that_are_undefined_everywhere_are_refused():
    def of_both(true, predicted, scores):
        return np.nan if len(set(true)) == 1 else 1.0

    each = [(np.delete(np.arange(27), i), [i]) for i in range(4)]
    with pytest.raises(ValueError, match="returned NaN for every test set"):
        cross_validate(X, Y, cv=each, scoring=of_both)


def test_a_figure_and_a_table_of_a_function():
    result = decode_arrays(DATA, Y, cv=3, scoring=auc, n_permutations=5)
    assert result.plot().get_ylabel() == "AUC"
    assert "auc" in result.to_dataframe().columns
    assert repr(result).startswith("<TimeResult: highest AUC ")


def test_a_checkpoint_knows_functions_by_what_they_return(tmp_path):
    def score(weight):
        def own(true, predicted, scores):
            return weight * np.mean(true == predicted)

        return own

    options = {"adjacency": np.eye(4), "standardize": False, "cv": 3}
    options |= {"checkpoint": tmp_path / "run.ckpt", "random_state": 0}
    first = searchlight(X, Y, scoring=score(1), **options)
    again = searchlight(X, Y, scoring=score(1), **options)
    assert_array_equal(again.scores, first.scores)
    with pytest.raises(ValueError, match="scoring's own"):
        searchlight(X, Y, scoring=score(2), **options)


def test_r2_of_equal_numbers():
    r2 = REGRESSION_METRICS["r2"].score
    flat = np.full((3, 1), 2.0)
    assert_array_equal(r2(flat, flat), [1.0])
    assert_array_equal(r2(flat, flat + 1), [0.0])
    true, predicted = np.array([[1.0], [2], [6]]), np.array([[1.0], [3], [4]])
    # 1 - (0 + 1 + 4) / (4 + 1 + 9), by hand
    assert_allclose(r2(true, predicted), [1 - 5 / 14], rtol=1e-14)
