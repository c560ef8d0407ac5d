"""Metrics over permutations against scikit-learn, one label vector at a time."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp, softmax
from sklearn import metrics as skm

from mvpa_kfda.kfda.direct import Predictions
from mvpa_kfda.metrics.auc import log_odds, roc_auc
from mvpa_kfda.metrics.scores import (
    METRICS,
    REGRESSION_METRICS,
    chance_level,
    evaluate_labellings,
    metric_limits,
    read_scoring,
)
from mvpa_kfda.utils import memory
from tests import reference

#: Metrics of predicted labels; those of pairs are in `test_pairs`.
OF_LABELS = sorted(name for name in METRICS if not METRICS[name].needs_class_scores)
PAIRS = sorted(set(METRICS) - {*OF_LABELS, "roc_auc"})
N_LABELS = 7
#: Twelve test sets: four of 5 rows and eight of 6, from models of so many trials.
SHAPES = ((4, 5, 63), (8, 6, 62))
N_TEST = 68


def make_predictions(n_classes, seed=0, skew=True):
    """Return predictions that are better than chance, for several label vectors."""
    rng = np.random.default_rng(seed)
    p = np.arange(1, n_classes + 1) if skew else np.ones(n_classes)
    true = rng.choice(n_classes, size=(N_TEST, N_LABELS), p=p / p.sum())
    class_scores = rng.standard_normal((N_TEST, n_classes, N_LABELS)) * 0.03
    class_scores += 0.02 * (np.arange(n_classes)[:, None] == true[:, None])
    return Predictions(true, class_scores.argmax(axis=1), class_scores)


def evaluate(scoring, scored, shapes, n_classes):
    """Return the metrics of predictions, by name, for the labels that they carry."""
    metrics = {name: METRICS[name] for name in scoring}
    return evaluate_labellings(metrics, scored, [scored.true], shapes, n_classes)[0]


def sklearn_score(name, true, predicted, n_classes):
    """Return scikit-learn's value of a metric of predicted labels."""
    average = "binary" if n_classes == 2 and "macro" not in name else "macro"
    rate = {"average": average, "zero_division": 0}
    return {
        "accuracy": lambda: skm.accuracy_score(true, predicted),
        "balanced_accuracy": lambda: skm.balanced_accuracy_score(true, predicted),
        "recall": lambda: skm.recall_score(true, predicted, **rate),
        "precision": lambda: skm.precision_score(true, predicted, **rate),
        "f1": lambda: skm.f1_score(true, predicted, **rate),
        "kappa": lambda: skm.cohen_kappa_score(true, predicted),
        "confusion_matrix": lambda: skm.confusion_matrix(
            true, predicted, labels=range(n_classes)
        ),
    }[name.removesuffix("_macro")]()


@pytest.mark.parametrize("n_classes", [2, 3, 6])
@pytest.mark.parametrize("name", OF_LABELS)
def test_metrics_of_labels_are_scikit_learns(name, n_classes):
    scored = make_predictions(n_classes)
    values = evaluate([name], scored, SHAPES, n_classes)[name]
    for b in range(N_LABELS):
        expected = sklearn_score(
            name, scored.true[:, b], scored.predicted[:, b], n_classes
        )
        assert_allclose(values[b], expected, rtol=1e-12, atol=1e-15)


@pytest.mark.filterwarnings("ignore:y_pred contains classes not in y_true")
@pytest.mark.parametrize("name", [name for name in OF_LABELS if name != "kappa"])
def test_a_class_that_is_never_seen_or_never_predicted(name):
    scored = make_predictions(3)
    true = np.where(scored.true == 0, 1, scored.true)
    predicted = np.where(scored.predicted == 2, 1, scored.predicted)
    values = evaluate([name], Predictions(true, predicted, None), SHAPES, 3)[name]
    for b in range(N_LABELS):
        expected = sklearn_score(name, true[:, b], predicted[:, b], 3)
        assert_allclose(values[b], expected, rtol=1e-12, atol=1e-15)


def test_kappa_is_zero_when_only_one_class_occurs():
    ones = np.ones((N_TEST, 1), int)
    assert evaluate(["kappa"], Predictions(ones, ones, None), SHAPES, 3)["kappa"] == [
        0.0
    ]


def fold_slices():
    """Yield (rows, n_train) of every test set."""
    start = 0
    for k, m, n_train in SHAPES:
        for _ in range(k):
            yield slice(start, start + m), n_train
            start += m


def reference_auc(true, scores, n_classes):
    """Average scikit-learn's AUC over test sets and classes where it is defined."""
    per_class = []
    for k in [1] if n_classes == 2 else range(n_classes):
        values = []
        for rows, n_train in fold_slices():
            positive = true[rows] == k
            if 0 < positive.sum() < len(positive):
                posterior = softmax(n_train * scores[rows], axis=1)[:, k].round(12)
                values.append(skm.roc_auc_score(positive, posterior))
        if values:
            per_class.append(np.mean(values))
    return np.mean(per_class)


@pytest.mark.parametrize("n_classes", [2, 3, 6])
def test_auc_is_the_mean_of_scikit_learns_over_test_sets(n_classes):
    scored = make_predictions(n_classes)
    values = roc_auc(scored.true, scored.class_scores, SHAPES)
    for b in range(N_LABELS):
        expected = reference_auc(
            scored.true[:, b], scored.class_scores[:, :, b], n_classes
        )
        assert_allclose(values[b], expected, rtol=1e-12)


def test_auc_pools_where_no_test_set_has_two_classes():
    scored = make_predictions(2)
    values = roc_auc(scored.true, scored.class_scores, ((N_TEST, 1, 67),))
    difference = scored.class_scores[:, 1] - scored.class_scores[:, 0]
    for b in range(N_LABELS):
        expected = skm.roc_auc_score(scored.true[:, b], difference[:, b])
        assert_allclose(values[b], expected, rtol=1e-12)


def test_auc_pools_only_the_class_that_no_test_set_tells_from_the_rest():
    # By the second labelling every class shares a test set with another one; by the
    # others class 2 is alone in the first, and only the second tells 0 from 1.
    true = np.array(
        [[2, 2, 2, 0, 1, 0, 1], [0, 2, 1, 2, 1, 0, 1], [2, 2, 2, 1, 1, 0, 0]]
    )
    shapes, n_train = ((1, 3, 60), (1, 4, 59)), np.repeat([60, 59], [3, 4])
    scores = 0.03 * np.random.default_rng(0).standard_normal((7, 3, 3))
    values = roc_auc(true.T, scores, shapes)
    for b, codes in enumerate(true):
        posterior = softmax(n_train[:, None] * scores[:, :, b], axis=1)
        per_class = []
        for k in range(3):
            sets = [slice(0, 3), slice(3, 7)]
            sets = [rows for rows in sets if len(set(codes[rows] == k)) == 2]
            areas_of_sets = [
                skm.roc_auc_score(codes[rows] == k, posterior[rows, k])
                for rows in sets or [slice(None)]
            ]
            per_class.append(np.mean(areas_of_sets))
        assert_allclose(values[b], np.mean(per_class), rtol=1e-12)


def test_auc_with_ties_absent_classes_and_certainty():
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
    one_class = roc_auc(np.zeros((6, 1), int), flat, shapes)
    assert one_class == [0.5]


@pytest.mark.parametrize(
    ("dtype", "apart", "alike"), [("float64", 1e-8, 1e-12), ("float32", 1e-4, 1e-6)]
)
def test_auc_ranks_what_is_more_than_rounding(dtype, apart, alike):
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


def test_auc_of_many_trials_keeps_its_digits():
    # Sums of ranks beyond the whole numbers of single precision.
    true = np.random.default_rng(0).integers(2, size=(9001, 1))
    scores = np.random.default_rng(1).standard_normal((9001, 2, 1))
    value = roc_auc(true, scores, ((1, 9001, 100),))[0]
    difference = scores[:, 1, 0] - scores[:, 0, 0]
    expected = skm.roc_auc_score(true[:, 0], difference)
    assert_allclose(value, expected, rtol=1e-12)


@pytest.mark.parametrize("k", [0, 1, 2])
def test_auc_ranks_trials_that_are_all_but_certain(k):
    # As probabilities all four would be 1; as sums of exponentials they overflow.
    margins = np.array([40.0, 30.0, 20.0, 10.0])
    scores = np.full((4, 3, 1), 0.0)
    scores[:, k, 0] = margins
    scores[:, k - 1, 0] = 1.0
    true = np.full((4, 1), k)
    true[2:] = k - 1 if k else 2
    for n_train in (1, 100):
        per_class = roc_auc(true, scores, ((1, 4, n_train),))
        # Class k is ranked without error, and so is its rival, from the other end.
        assert per_class == [1.0]


def labellings_at_positions(n_classes, digits):
    """Return predictions at three positions, and labels that all of them share."""
    parts = [make_predictions(n_classes, seed=seed) for seed in range(3)]
    scores = np.stack([part.class_scores for part in parts], axis=2).round(digits)
    true, second = (part.true[:, None].astype(np.int8) for part in parts[:2])
    scored = Predictions(true, scores.argmax(axis=1).astype(np.int8), scores)
    return scored, [true, second, second[..., :1]]


@pytest.mark.some(2)
@pytest.mark.parametrize("digits", [12, 2], ids=["continuous", "tied"])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_labellings_at_positions_are_scored_as_each_alone(n_classes, digits):
    scored, trues = labellings_at_positions(n_classes, digits)
    names = [*OF_LABELS, "roc_auc", *PAIRS]
    metrics = {name: METRICS[name] for name in names}
    found = evaluate_labellings(metrics, scored, trues, SHAPES, n_classes)
    for scores, true in zip(found, trues, strict=True):
        for b in range(0, N_LABELS, 2):
            position = b % 3
            codes = true[:, 0, b % true.shape[2]]
            class_scores = scored.class_scores[:, :, position, b]
            sets = [(codes[s], class_scores[s], n) for s, n in fold_slices()]
            of_pairs = reference.pairs_of_scores(sets, n_classes)
            for name in names:
                if name in PAIRS:
                    expected = of_pairs[name]
                elif name == "roc_auc":
                    expected = reference_auc(codes, class_scores, n_classes)
                else:
                    predicted = scored.predicted[:, position, b]
                    expected = sklearn_score(name, codes, predicted, n_classes)
                value = scores[name][b, position]
                atol = 1e-12 if name in PAIRS else 1e-15
                assert_allclose(value, expected, rtol=1e-10, atol=atol, err_msg=name)


def test_scores_do_not_depend_on_how_much_is_processed_at_a_time(monkeypatch):
    scored, trues = labellings_at_positions(3, 12)
    names = {name: METRICS[name] for name in ("f1", "kappa", "roc_auc")}
    whole = evaluate_labellings(names, scored, trues, SHAPES, 3)
    monkeypatch.setattr(memory, "_BATCH", 9)
    pieces = evaluate_labellings(names, scored, trues, SHAPES, 3)
    for one, other in zip(whole, pieces, strict=True):
        for name in names:
            np.testing.assert_array_equal(one[name], other[name])


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("name", [name for name in METRICS if METRICS[name].scalar])
def test_chance_is_what_a_guesser_scores(name, n_classes):
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(n_classes), 30 * np.arange(1, n_classes + 1))
    true = np.tile(codes[:, None], (1, 400))
    guesses = rng.integers(n_classes, size=true.shape)
    scores = rng.standard_normal((len(codes), n_classes, 400))
    shapes = ((1, len(codes), 100),)
    value = evaluate([name], Predictions(true, guesses, scores), shapes, n_classes)[
        name
    ]
    error = 4 * value.std() / 20 + 0.002  # and the bias of a ratio
    assert_allclose(value.mean(), chance_level(name, codes), rtol=0, atol=error)


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


def score_all(predictions):
    """Return the scores of all metrics, of numbers too, for predictions of two."""
    scores = evaluate(list(METRICS), predictions, SHAPES, 2)
    numbers = predictions.true - 0.5, predictions.predicted - 0.5
    return scores | {k: m.score(*numbers) for k, m in REGRESSION_METRICS.items()}


def test_scores_are_within_the_limits_of_their_metric():
    for name, values in score_all(make_predictions(2)).items():
        lowest, highest = metric_limits(name)
        assert lowest <= values.min() <= values.max() <= highest, name
    assert metric_limits("a metric of one's own") == (-np.inf, np.inf)


@pytest.mark.parametrize("end", [0, 1], ids=["all wrong", "all right"])
def test_scores_reach_the_limits_of_their_metric(end):
    true = np.tile([0, 1], N_TEST // 2)[:, None]
    predicted = true if end else 1 - true
    scores = (np.arange(2)[:, None] == predicted[:, None]).astype(float)
    for name, values in score_all(Predictions(true, predicted, scores)).items():
        limit = metric_limits(name)[end]
        if name != "confusion_matrix" and np.isfinite(limit):
            assert_allclose(values, limit, rtol=0, atol=1e-12, err_msg=name)
