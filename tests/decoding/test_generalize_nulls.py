"""The two nulls of a cross-validated map, and what a result makes of them."""

from dataclasses import replace

import mne
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import false_discovery_control
from sklearn.model_selection import KFold

from mvpa_kfda import (
    Nystrom,
    Ridge,
    Shrinkage,
    Tuned,
    decode_epochs,
    generalize_arrays,
    generalize_epochs,
    simulate_epochs,
)
from mvpa_kfda.inference.corrections import corrected_p_values, p_values
from mvpa_kfda.inference.null import Null
from mvpa_kfda.utils import memory
from tests import build


def make_arrays(n=40, n_classes=2, strength=1.0, seed=0, p=6, n_times=5):
    """Return noise (n, p, .) with classes that differ from the third time on, and y."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    X = rng.standard_normal((n, p, n_times))
    X[:, :, 2:] += strength * rng.standard_normal((n_classes, p))[y][:, :, None]
    return X, y


def of_both_tests(result, correction):
    """Return the p-values of each test by itself."""
    assert (result.second_scores["accuracy"] != result.scores).any()
    tests = (result.metrics, result.nulls), (result.second_scores, result.second_nulls)
    return [
        corrected_p_values(scores["accuracy"], nulls["accuracy"], correction)
        for scores, nulls in tests
    ]


@pytest.fixture(scope="module")
def plain():
    return generalize_arrays(*make_arrays(), n_permutations=60, random_state=0)


@pytest.fixture(scope="module")
def other_labels():
    X, y = make_arrays(n_classes=3, n=42)
    y_test = np.where(np.arange(42) < 6, (y + 1) % 3, y)
    return generalize_arrays(X, y, y_test=y_test, n_permutations=60, random_state=0)


#: How models are trained, with a penalty above .3 times the size of trials.
STRONG = {
    "linear": {"reg": 2.0},
    "more features": {"reg": 2.0, "p": 60},
    "kernel": {"reg": 2.0, "kernel": "rbf"},
    "landmarks": {"reg": 2.0, "approx": Nystrom(10, random_state=0)},
    "steps": {"reg": 2.0, "preprocess": "zscore"},
    "confounds": {"reg": 2.0, "confounds": np.arange(40) // 20},
    "averages": {"reg": 2.0, "average": 2, "n_repeats": 2},
    "averages, steps": {"reg": 2.0, "average": 2, "preprocess": "zscore"},
    "repeats": {"reg": 2.0, "n_repeats": 2},
    "other labels": {"reg": 2.0, "y_test": np.arange(40) // 4 % 2},
    "chosen": {"reg": "auto"},
    "chosen in folds": {"reg": "auto", "preprocess": "zscore"},
    "shrinkage": {"reg": Shrinkage(0.9)},
    "single precision": {"reg": 2.0, "dtype": "float32", "scoring": "accuracy"},
}


@pytest.mark.parametrize("how", STRONG.values(), ids=STRONG)
def test_the_second_test_has_a_smaller_penalty(how):
    """It is that of reg=0.3; scores and the first test are as they are without it."""
    options = {"scoring": ["roc_auc", "accuracy"], "cv": KFold(4), "random_state": 0}
    options |= {key: value for key, value in how.items() if key != "p"}
    X, y = make_arrays(p=how.get("p", 6), n_times=3)
    result = generalize_arrays(X, y, n_permutations=5, **options)
    alone = generalize_arrays(X, y, **options)
    second = generalize_arrays(X, y, n_permutations=5, **options | {"reg": 0.3})
    assert alone.second_scores == second.second_scores == {}
    assert (np.ravel(result.lambdas) > np.ravel(second.lambdas)).any()
    for name in result.scoring:
        assert_array_equal(result.metrics[name], alone.metrics[name])
        scores, null = result.second_scores[name], result.second_nulls[name]
        assert_allclose(scores, second.metrics[name], rtol=1e-12, atol=0)
        assert_allclose(null, second.second_nulls[name], rtol=1e-6, atol=0)
        assert (result.nulls[name] != second.nulls[name]).any()


def test_times_with_a_smaller_penalty_are_tested_with_it():
    X, y = make_arrays(n_times=3)
    X[:, :, 1] *= 10
    options = {"n_permutations": 5, "random_state": 0, "cv": KFold(4)}
    result, smaller = (
        generalize_arrays(X, y, reg=reg, **options) for reg in (Ridge(20.0), 0.3)
    )
    scores, null = result.second_scores["accuracy"], result.second_nulls["accuracy"]
    assert_array_equal(scores[1], result.scores[1])
    assert_array_equal(scores[::2], smaller.scores[::2])
    assert_array_equal(null[:, ::2], smaller.second_nulls["accuracy"][:, ::2])
    assert (null[:, 1] != smaller.second_nulls["accuracy"][:, 1]).any()
    for reg in (0.3, Ridge(1.0), Tuned([0.1, 10.0]), "tuned"):
        result = generalize_arrays(X, y, reg=reg, **options)
        assert result.second_scores == {}
        assert result.second_nulls


@pytest.mark.parametrize("correction", ["none", "max", "max-step-down", "bonferroni"])
def test_the_larger_p_value_counts_but_for_the_diagonal(plain, correction):
    first, second = of_both_tests(plain, correction)
    expected = np.maximum(first, second)
    np.fill_diagonal(expected, np.diag(first))
    assert_array_equal(plain.pvalues(correction), expected)
    assert (second > first).any()


@pytest.mark.parametrize("correction", ["none", "max"])
def test_other_labels_pass_both_tests_on_the_diagonal_too(other_labels, correction):
    first, second = of_both_tests(other_labels, correction)
    assert_array_equal(other_labels.pvalues(correction), np.maximum(first, second))
    diagonal = other_labels.diagonal()
    first, second = of_both_tests(diagonal, correction)
    assert_array_equal(diagonal.pvalues(correction), np.maximum(first, second))
    assert_array_equal(diagonal.pvalues(), np.diag(other_labels.pvalues()))
    for alternative in ("less", "two-sided"):
        p = other_labels.pvalues(alternative=alternative)
        assert_array_equal(diagonal.pvalues(alternative=alternative), np.diag(p))


@pytest.mark.parametrize("null", ["full", "max"])
def test_the_false_discovery_rate_is_that_of_cells_that_pass_both(null):
    result = generalize_arrays(
        *make_arrays(), n_permutations=60, random_state=0, null=null
    )
    p = result.pvalues("none")
    expected = false_discovery_control(p.ravel()).reshape(p.shape)
    assert_allclose(result.pvalues("fdr"), expected, rtol=1e-14, atol=0)


def test_cells_that_pass_one_test_each_are_no_discoveries(plain):
    """Half of the cells pass one test only, the other half the other one."""
    half = np.zeros((5, 5), bool)
    half[:, :3] = True
    low, high = np.zeros((60, 5, 5), np.float32), np.ones((60, 5, 5), np.float32)
    result = replace(
        plain,
        metrics={"accuracy": np.full((5, 5), 0.5)},
        nulls={"accuracy": np.where(half, low, high)},
        second_scores={},
        second_nulls={"accuracy": np.where(half, high, low)},
        parameters={**plain.parameters, "mode": "other_labels"},
    )
    assert_array_equal(result.pvalues("fdr"), np.ones((5, 5)))


def test_second_nulls_that_do_not_fit_are_refused(plain):
    null = plain.second_nulls["accuracy"]
    for wrong in ({"accuracy": null[:, :2]}, {"accuracy": null[:3]}, {"kappa": null}):
        with pytest.raises(ValueError, match=r"second test of a GeneralizationResult"):
            replace(plain, second_nulls=wrong)
    scores = plain.second_scores["accuracy"]
    for wrong in ({"accuracy": scores[:2]}, {"kappa": scores}):
        with pytest.raises(ValueError, match=r"second test of a GeneralizationResult"):
            replace(plain, second_scores=wrong)


def test_labels_that_cannot_move_are_refused():
    """Each group has one label to train with; only those to be tested vary within."""
    X, y = make_arrays()
    groups = np.arange(40) // 4
    with pytest.raises(ValueError, match=r"'within_groups' leaves the training labels"):
        generalize_arrays(
            X,
            groups % 2,
            y_test=y,
            groups=groups,
            cv=[(np.arange(20), np.arange(20, 40)), (np.arange(20, 40), np.arange(20))],
            permute="within_groups",
            n_permutations=50,
        )


def test_patterns_of_a_diagonal():
    epochs = simulate_epochs(n_trials=60, random_state=0).crop(0.1, 0.2)
    y = epochs.metadata["condition"].to_numpy()
    plain = generalize_epochs(epochs, y, step=0.05)
    for name, evoked in decode_epochs(epochs, y, step=0.05).patterns().items():
        found = plain.diagonal().patterns()[name]
        assert_allclose(found.data, evoked.data, rtol=1e-8, atol=1e-15)
        assert found.nave == evoked.nave == 20
    other = np.where(y == "class_3", "class_1", y)
    result = generalize_epochs(epochs, y, y_test=other, step=0.05)
    assert {evoked.nave for evoked in result.patterns().values()} == {20}
    with pytest.raises(ValueError, match=r"patterns of the whole result instead"):
        result.diagonal().patterns()


def test_patterns_of_other_trials_have_no_folds():
    epochs = simulate_epochs(n_trials=60, random_state=0).crop(0.1, 0.2)
    result = generalize_epochs(epochs, train_on="block < 3", step=0.05)
    assert len(result.patterns()) == 3
    with pytest.raises(ValueError, match="no folds to average over"):
        result.patterns(average="folds")
    assert [len(rows) for rows in result.folds[0]] == [len(result.y), result.n_tested]
    assert [len(rows) for rows in result.diagonal().folds[0]] == [
        len(result.y),
        result.n_tested,
    ]


def test_trials_that_are_equal_by_chance():
    """Spike counts: some trials are alike without being the same."""
    rng = np.random.default_rng(0)
    X, X_test = rng.poisson(0.15, (2, 200, 10, 3)).astype(float)
    y = np.arange(200) % 2
    options = {"y_test": y, "cv": None}
    with pytest.raises(ValueError, match=r"same_trials=False if they are equal by"):
        generalize_arrays(X, y, X_test, **options)
    with pytest.warns(RuntimeWarning, match="are also in X"):
        result = generalize_arrays(X, y, X_test, same_trials=False, **options)
    assert result.parameters["mode"] == "other_trials"
    result = generalize_arrays(X, y, X_test, same_trials=True, **options)
    assert result.parameters["mode"] == "same_trials"
    with pytest.raises(ValueError, match="of the 50 trials of X_test are also in X"):
        generalize_arrays(X, y, X[:50], y_test=y[:50], same_trials=False)


def test_a_part_of_the_same_trials_processed_otherwise_is_asked_about():
    epochs = simulate_epochs(n_trials=60, random_state=0).crop(0.1, 0.12)
    part = epochs.copy()[:20]
    part._data += 1e-9
    with pytest.raises(ValueError, match="have 20 of the events of epochs"):
        generalize_epochs(epochs, "condition", test_epochs=part)


def test_other_projections_are_warned_about():
    epochs = simulate_epochs(n_trials=60, random_state=0).crop(0.1, 0.12)
    other = simulate_epochs(n_trials=60, random_state=1).crop(0.1, 0.12)
    other = mne.set_eeg_reference(other, projection=True, verbose=False)[0]
    other.apply_proj(verbose=False)
    with pytest.warns(UserWarning, match="Different projections have been applied"):
        generalize_epochs(
            epochs, "condition", test_epochs=other, same_trials=False, n_permutations=0
        )


def test_wrong_times_of_the_test_are_refused():
    X, y = make_arrays(n_classes=3)
    for wrong in (np.nan, "a"):
        with pytest.raises(ValueError, match=r"'tmin_test'.*a finite number"):
            generalize_arrays(X, y, X + 1, y_test=y, tmin_test=wrong)
    with pytest.raises(ValueError, match="no X_test is given"):
        generalize_arrays(X, y, tmin_test=3.0)


def test_maps_of_decode_epochs_are_measured_before_they_start(monkeypatch):
    epochs = simulate_epochs(n_trials=60, random_state=0).crop(0.1, 0.12)
    monkeypatch.setattr(memory, "usable_memory", lambda: 2 * 10**5)
    message = r"A map of 32 x 3 positions .* needs .* or fewer permutations\."
    with pytest.raises(ValueError, match=message):
        decode_epochs(epochs, "condition", sensors="adjacency", n_permutations=1000)
    assert decode_epochs(epochs, "condition", n_permutations=10).shape == (3,)


def test_a_binomial_p_value_is_not_what_the_second_null_gives(plain):
    """Its spread at times with a signal is larger than that of coin tosses."""
    spread = plain.second_nulls["accuracy"][:, :2, 2:].std()
    assert spread > 1.2 * np.sqrt(0.25 / 40)
    assert (p_values(plain.scores, plain.nulls["accuracy"])[2:, 2:] <= 0.05).all()


def test_the_diagonal_counts_in_no_cluster_that_is_kept_of_the_second_null():
    X, y = make_arrays()
    options = {"n_permutations": 40, "random_state": 0}
    full, stream = (
        build.keep(null, generalize_arrays, X, y, **options)
        for null in ("full", "stream")
    )
    scores, null = full.second_scores["accuracy"], full.second_nulls["accuracy"]
    differ = 0
    kept = stream.second_summaries["accuracy"]
    for name in ("cluster_maximum", "tfce_maximum"):
        of_all = getattr(Null(scores, null), name)
        beside = getattr(Null(scores, null, exempt=np.eye(5, dtype=bool)), name)
        assert_allclose(kept[name], beside, rtol=1e-6, atol=0)
        differ += not np.allclose(of_all, beside)
    assert differ == 2
    for name in ("cluster", "tfce"):
        assert_array_equal(stream.pvalues(name), full.pvalues(name))
