"""Comparing two results of one subject."""

from dataclasses import replace

import numpy as np
import pytest
from nibabel import Nifti1Image
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import KFold, StratifiedKFold

from mvpa_kfda import (
    cross_validate,
    decode_arrays,
    generalize_arrays,
    load_result,
    methods_text,
    searchlight,
)
from mvpa_kfda.group.comparison import compare, subtract
from mvpa_kfda.reports.summary import word_question
from tests import reference_group

SEEDED = {"n_permutations": 99, "random_state": 0, "cv": 5}


@pytest.fixture(scope="module")
def data():
    """Return trials (60, 6, 5) whose first three channels decode at late times."""
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat(["face", "house"], 30))
    X = rng.normal(size=(60, 6, 5))
    X[y == "house", :3, 3:] += 2.0
    groups = np.tile(np.arange(6), 10)
    return X, y, groups


@pytest.fixture(scope="module")
def pair(data):
    """Return two results over time: one that decodes, and one that does not."""
    X, y, _ = data
    return decode_arrays(X[:, :3], y, **SEEDED), decode_arrays(X[:, 3:], y, **SEEDED)


# ------------------------------------------------------------- shared permutations


def rows_of(a, b, scores="metrics", nulls="nulls"):
    """Return the differences (P + 1, ...) of numbers of hits of 60, as shares."""
    tests = [
        np.concatenate([getattr(each, scores)["accuracy"][np.newaxis], null])
        for each in (a, b)
        for null in getattr(each, nulls).values()
    ]
    return np.rint(60 * np.subtract(*tests)) / 60


@pytest.mark.parametrize("alternative", ["greater", "less", "two-sided"])
def test_p_values_of_differences_equal_the_oracle(pair, alternative):
    names = ["none", "max", "max-step-down", "cluster", "cluster-size", "tfce"]
    how = {"alternative": alternative, "threshold": 0.3}
    result = compare(*pair, correction=names, **how)
    null = reference_group.null_of(rows_of(*pair), alternative, 0.3)
    for name in [*names, "fdr", "holm"]:
        expected = reference_group.p_values([null], name)
        assert_allclose(result.pvalues(name), expected, rtol=1e-12, atol=0)
    assert_allclose(result.scores, pair[0].scores - pair[1].scores, rtol=0, atol=0)
    assert_array_equal(result.statistic.round(12), result.scores.round(12))
    assert result.n_permutations == len(result.null_max) == 99
    assert_array_equal(compare(*pair).pvalues(), compare(*pair).pvalues("max"))


# ----------------------------------------------- maps of images and of generalization


@pytest.fixture(scope="module")
def images():
    """Return results of searchlights in eight voxels, one left out of the second."""
    rng = np.random.default_rng(0)
    y = np.tile(["face", "house"], 20)
    bold = rng.normal(size=(8, 1, 1, 40))
    bold[5:, 0, 0] += 4.0 * (y == "face")
    affine = np.diag([4.0, 4.0, 4.0, 1.0])
    mask = Nifti1Image(np.ones((8, 1, 1), dtype=np.uint8), affine)
    noise = rng.normal(size=bold.shape)
    noise[0] = 0.0
    options = {"mask_img": mask, "radius": 1.0, **SEEDED}
    a = searchlight(Nifti1Image(bold, affine), y, **options)
    with pytest.warns(RuntimeWarning, match="left out"):
        b = searchlight(Nifti1Image(noise, affine), y, **options)
    return a, b


def test_only_voxels_of_both_count(images):
    names = ["max", "cluster", "tfce", "cluster-size", "max-step-down"]
    result = compare(*images, correction=names)
    for name in [*names, "fdr"]:
        p = result.pvalues(name)
        assert np.isnan(p[0])
        assert np.isfinite(p[1:]).all()
        assert (p[5:] <= 0.05).all(), name
    assert np.isnan(result.scores[0])
    assert_array_equal(result.counted, images[1].decoded)
    image = result.to_img().get_fdata().ravel()
    assert_allclose(image[1:], result.scores[1:], rtol=1e-6, atol=0)
    assert result.to_img("p").get_fdata().ravel()[5] == result.pvalues("max")[5]


def test_ties_of_counts_stay_ties_in_single_precision():
    """0.7 - 0.6 and 0.5 - 0.4 are the same number of hits."""
    n, rng = 1000, np.random.default_rng(0)
    hits = rng.integers(400, 600, size=(2, 200, 7))
    nulls = (hits / n).astype(np.float32)
    scores = hits[:, 0] / n + 0.1
    null = subtract(scores, nulls, np.ones(7, bool), n)
    assert null.dtype == np.float64
    assert_array_equal(null[3:9], (hits[0] - hits[1])[3:9] / n)
    assert_array_equal(null.observed, (hits[0] - hits[1])[0] / n)
    # Other scores keep the precision of their null, and with it a wider tie.
    assert subtract(scores, nulls, np.ones(7, bool), None).dtype == np.float32


def test_generalization_passes_both_tests(data):
    X, y, _ = data
    maps = [generalize_arrays(X[:, k], y, **SEEDED) for k in (slice(3), slice(3, 6))]
    names = ["none", "max", "cluster", "cluster-size", "tfce"]
    result = compare(*maps, correction=names, threshold=0.3)
    how = "two-sided", 0.3
    nulls = [
        reference_group.null_of(rows_of(*maps), *how),
        reference_group.null_of(
            rows_of(*maps, "second_scores", "second_nulls"), *how, exempt=np.eye(5) == 1
        ),
    ]
    p = [reference_group.p_values([null], "none") for null in nulls]
    assert (p[1] > p[0]).any()  # or the second would not be seen
    for name in [*names, "fdr"]:
        expected = reference_group.p_values(nulls, name).reshape(5, 5)
        found = result.pvalues(name)
        assert_allclose(found, expected, rtol=1e-12, atol=0, err_msg=name)
        assert (expected < 1).any()
    times = [decode_arrays(X[:, k], y, **SEEDED) for k in (slice(3), slice(3, 6))]
    on_time = compare(*times, correction="none").pvalues()
    assert_allclose(np.diag(result.pvalues("none")), on_time, rtol=1e-12, atol=0)
    # The diagonal of a map was permuted as a time course is.
    again = compare(maps[0].diagonal(), times[1], correction="none")
    assert_allclose(again.pvalues(), on_time, rtol=1e-12, atol=0)


def test_diagonals_of_other_epochs_pass_both_tests(data):
    X, y, _ = data
    others = {"X_test": X[:, :3, ::-1], "same_trials": True, **SEEDED}
    a = generalize_arrays(X[:, :3], y, **others)
    b = generalize_arrays(X[:, 3:], y, **others)
    found = compare(a.diagonal(), b.diagonal(), correction="none")
    p = compare(a, b, correction="none").pvalues()
    assert_array_equal(found.pvalues(), np.diag(p))


# -------------------------------------------------- runs that cannot be compared so


def test_permutations_must_be_the_same(data, pair):
    X, y, groups = data
    a = pair[0]

    def run(**options):
        return decode_arrays(X[:, 3:], y, **SEEDED | options)

    for options, words in (
        ({"random_state": 1}, r"random_state \(0 and 1\)"),
        ({"random_state": None}, r"random_state \(0 and \d+\)"),
        ({"n_permutations": 98}, r"n_permutations \(99 and 98\)"),
        ({"cv": 6}, r"folds \(cv: .*5 folds and .*6 folds\)"),
        ({"groups": groups, "cv": a.folds}, "groups"),
        ({"cv": KFold(5, shuffle=True, random_state=1)}, "folds"),
        ({"train_on": np.arange(60) % 2 == 0}, "train_on"),
        ({"permute": "free"}, None),
    ):
        b = run(**options)
        if words is None:  # the same scheme, whether chosen or named
            assert compare(a, b).n_permutations == 99
            continue
        with pytest.raises(
            ValueError, match=f"they differ in: .*{words}.*random_state=0"
        ):
            compare(a, b)


def test_records_of_other_runs(pair):
    a, b = (replace(each, parameters={}) for each in pair)
    with pytest.raises(ValueError, match=r"random_state \(not recorded\)"):
        compare(a, b)
    b = replace(pair[1], versions=pair[1].versions | {"numpy": "1.25.0"})
    with pytest.warns(RuntimeWarning, match=r"different versions, .*numpy .* and 1\.2"):
        compare(pair[0], b)


def test_all_permutations_need_no_seed(data):
    X, y, _ = data
    rows = np.argsort(y, kind="stable").reshape(2, 30)[:, :4]
    keep = np.sort(rows, axis=None)
    halves = list(StratifiedKFold(2).split(X[keep], y[keep]))
    options = {"cv": halves, "n_permutations": 1000, "permute": "within_folds"}
    a, b = (
        decode_arrays(X[keep, k : k + 3], y[keep], random_state=k, **options)
        for k in (0, 3)
    )
    assert a.parameters["exact"]
    assert compare(a, b).n_permutations == 35


def test_missing_permutations(data):
    X, y, _ = data

    def pair_by(decode, **options):
        return [decode(X[:, k : k + 3], y, **options) for k in (0, 3)]

    with pytest.raises(ValueError, match="result_a has no scores of permuted labels"):
        compare(*pair_by(decode_arrays, cv=5))
    with pytest.raises(ValueError, match="null='full', which keeps them"):
        compare(*pair_by(generalize_arrays, null="max", **SEEDED))
    few = pair_by(decode_arrays, **SEEDED | {"n_permutations": 9})
    with pytest.warns(RuntimeWarning, match=r"9 permutations the smallest .* is 0\.1,"):
        compare(*few)


def test_alike_decoders_have_p_of_one(data):
    X, y, _ = data
    a = decode_arrays(X, y, scoring=["accuracy"], **SEEDED)
    b = decode_arrays(3 * X, y, scoring=["accuracy", "roc_auc"], **SEEDED)
    result = compare(a, b)
    assert (result.pvalues() == 1).all()
    assert (result.scores == 0).all()


# ------------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "sign-flip"}, r"'method': 'sign-flip'\. Allowed: 'permutation'\."),
        ({"correction": "sidak"}, "Invalid value for 'correction': 'sidak'"),
        ({"correction": []}, "correction is an empty list"),
        ({"alternative": "larger"}, "Invalid value for 'alternative'"),
        ({"alpha": 5}, "Invalid value for 'alpha': 5"),
        ({"threshold": 0.5, "alternative": "greater"}, r"0\.5\. Allowed: a p-level"),
        ({"metric": "kappa"}, "Invalid value for 'metric': 'kappa'"),
        ({"labels": ("linear", "linear")}, "Invalid value for 'labels'"),
        ({"labels": "ab"}, "Invalid value for 'labels'"),
    ],
)
def test_invalid_arguments(pair, options, message):
    with pytest.raises(ValueError, match=message):
        compare(*pair, **options)


def test_what_is_no_pair_of_results(data, pair, tmp_path):
    X, y, _ = data
    pair[0].save(tmp_path / "a.h5")
    shorter = decode_arrays(X[:, :3, :4], y, **SEEDED)
    single = cross_validate(X[:, :, 0], y, **SEEDED)
    for a, b, message in (
        (pair[0], [pair[1]], r"result_b must be a result .* got a list"),
        (compare(*pair), pair[0], r"got a ComparisonResult.*group_inference"),
        (pair[0], "missing.h5", r"There is no file .*missing\.h5"),
        (pair[0], pair[0], "are equal, so there is nothing to compare"),
        (tmp_path / "a.h5", pair[0], "the same result or file twice"),
        (pair[0], shorter, "result_b has 4 times from .* instead of 5"),
        (pair[0], single, "result_b is a DecodingResult instead of a"),
    ):
        with pytest.raises((TypeError, ValueError, FileNotFoundError), match=message):
            compare(a, b)


def test_other_trials(data, pair):
    X, y, _ = data
    by_class = np.argsort(y, kind="stable")
    swapped, rows = y.copy(), by_class.reshape(2, 30)[:, :2]
    swapped[rows] = y[rows[::-1]]
    three = np.where(np.arange(60) % 30 < 5, "none", y)
    for labels, words in (
        (y[:58], "y of 60 and 58 trials"),
        (swapped, "another y for 4 of 60 trials"),
        (three, "2 and 3 classes"),
    ):
        b = decode_arrays(X[: len(labels), 3:], labels, **SEEDED)
        with pytest.raises(ValueError, match=f"the same trials .* they have {words}"):
            compare(pair[0], b)
    X, y = X[by_class], y[by_class]  # other averages are then of the same classes
    averaged = decode_arrays(X[:, 3:], y, average=2, **SEEDED)
    other = decode_arrays(X[:, :3], y, average=2, **SEEDED | {"random_state": 5})
    with pytest.raises(ValueError, match="they have other averages of trials"):
        compare(averaged, other)
    same = decode_arrays(X[:, :3], y, average=2, **SEEDED)
    assert compare(averaged, same).shape == (5,)


def test_metric_of_one_only(data, pair):
    X, y, _ = data
    b = decode_arrays(X[:, 3:], y, scoring="kappa", **SEEDED)
    with pytest.raises(ValueError, match=r"no metric in common: result_a has 'accurac"):
        compare(pair[0], b)
    both = decode_arrays(X[:, 3:], y, scoring=["kappa", "accuracy"], **SEEDED)
    with pytest.raises(ValueError, match=r"result_b has no metric 'kappa'; both resul"):
        compare(both, pair[0])


# ------------------------------------------------------------------- what comes out


def test_a_result_says_what_was_compared(pair):
    result = compare(*pair, correction=["max", "max-step-down"])
    table = result.to_dataframe()
    names = ["accuracy_difference", "accuracy_a", "accuracy_b", "statistic"]
    assert list(table.columns) == ["time", *names, "p", "p_max", "p_max_step_down"]
    assert_array_equal(table[["accuracy_a", "accuracy_b"]].T, [x.scores for x in pair])
    text = repr(result)
    assert text.startswith("<ComparisonResult: largest difference in accuracy +0.")
    assert "60 trials | method 'permutation' | 99 permutations" in text
    assert result.chances == dict(zip(names, (0.0, 0.5, 0.5, 0.0), strict=True))
    assert_array_equal(result.times, pair[0].times)
    assert result.parameters["a"] == pair[0].parameters
    assert result.parameters["b"] == pair[1].parameters
    assert result.labels == ("a", "b")
    assert (result.alpha, result.parameters["threshold"]) == (0.05, 0.05)
    assert result.alternative == "two-sided"
    assert "In the analysis “" not in methods_text(result)


def test_names_of_two_results(pair, tmp_path):
    names = ("linear", "RBF")
    result = compare(*pair, labels=names)
    assert result.labels == names
    result.save(tmp_path / "result.h5")
    assert load_result(tmp_path / "result.h5") == result
    figure = result.plot()
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend[:2] == ["linear", "RBF"]
    assert figure.axes[1].get_ylabel() == "Accuracy\nlinear - RBF"
    assert "Accuracy of RBF" in result.plot(metric="accuracy_b").get_ylabel()
    assert "accuracy differ between linear and RBF" in word_question(result)
    text = methods_text(result)
    assert "Two analyses, linear and RBF, of the same trials" in text
    assert "difference in accuracy, linear minus RBF, was" in text
    less = methods_text(compare(*pair, labels=names, alternative="less"))
    assert "one-sided, for higher scores in the analysis “RBF”" in less


# ---------------------------------------------------------------------------- intervals


def pair_of_results(seed, first=0.8, second=0.8, n=40, n_times=1, **options):
    """Return results of two sets of channels, whose classes differ so much."""
    rng = np.random.default_rng([seed, n, n_times])
    y = rng.permutation(np.arange(n) % 2)
    pair = []
    for effect in (first, second):
        X = rng.normal(size=(n, 5, n_times))
        X[:, 0] += effect * y[:, np.newaxis]
        how = {"cv": KFold(8), "reg": 0.3, "n_permutations": 99, "random_state": seed}
        pair.append(decode_arrays(X, y, **how | options))
    return pair


@pytest.mark.slow
@pytest.mark.parametrize("scoring", ["accuracy", "roc_auc"])
@pytest.mark.parametrize("effects", [(0, 0), (0.8, 0.8), (2, 0), (1.5, 0.7)], ids=str)
@pytest.mark.parametrize("n", [40, 120])
def test_intervals_contain_the_difference(n, effects, scoring):
    found = []
    for seed in range(300):
        result = compare(*pair_of_results(seed, *effects, n=n, scoring=scoring))
        interval = result.interval()
        found.append((interval.mean, interval.low, interval.high))
    mean, low, high = np.squeeze(np.array(found)).T
    truth = mean.mean()
    assert np.mean((low <= truth) & (truth <= high)) >= 0.92  # binomial, p = 0.01


# --------------------------------------------------- the permutations of two results


def test_renamed_classes_are_no_further_permutations():
    """69 of them are 35 pairs that differ in names alone: the smallest p is 2 / 70."""
    X, y = np.random.default_rng(0).normal(size=(2, 8, 3, 4)), np.tile([0, 1], 4)
    folds = np.arange(8).reshape(4, 2)
    cv = [(np.setdiff1d(np.arange(8), test), test) for test in folds]
    options = {"cv": cv, "n_permutations": 999, "permute": "free", "reg": 0.3}
    results = [decode_arrays(each, y, **options) for each in X]
    assert results[0].smallest_p() == 2 / 70
    with pytest.warns(RuntimeWarning, match="Use more permutations"):
        compare(*results, alpha=0.02)
