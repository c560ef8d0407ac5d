"""Comparing two results of one subject."""

from dataclasses import replace

import numpy as np
import pytest
from nibabel import Nifti1Image
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.model_selection import KFold, StratifiedKFold

from mvpa_kfda import (
    cross_validate,
    decode_arrays,
    generalize_arrays,
    load_result,
    methods_text,
    searchlight,
)
from mvpa_kfda.group.comparison import (
    compare,
    subtract,
)
from mvpa_kfda.reports.summary import word_question
from tests import islands

#: Corrections by what several tests have in common, see `islands`.
ISLANDS = ["cluster", "cluster-size", "tfce"]

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


def p_by_hand(a, b, name, alternative):
    """Return p-values of the difference by plain counting; names "none" and "max"."""
    observed, null = a.scores - b.scores, a.null - b.null
    rows = np.concatenate([observed[np.newaxis], null])
    if alternative == "two-sided":
        rows = np.abs(rows - rows.mean(axis=0))
    elif alternative == "less":
        rows = -rows
    against = rows if name == "none" else rows.max(axis=1, keepdims=True)
    return np.mean(against >= rows[0] - 1e-9, axis=0)


@pytest.mark.parametrize("alternative", ["greater", "less", "two-sided"])
@pytest.mark.parametrize("name", ["none", "max"])
def test_permutation_equals_counting(pair, name, alternative):
    result = compare(*pair, correction=name, alternative=alternative)
    wanted = p_by_hand(*pair, name, alternative)
    assert_allclose(result.pvalues(), wanted, rtol=1e-12)
    assert_allclose(result.scores, pair[0].scores - pair[1].scores, rtol=0, atol=0)
    assert_array_equal(result.statistic.round(12), result.scores.round(12))
    assert result.n_permutations == len(result.null_max) == 99


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
    assert_allclose(image[1:], result.scores[1:], rtol=1e-6)
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
    options = {"threshold": 0.3}
    names = ["none", "max", "fdr", *ISLANDS]
    result = compare(*maps, correction=names, **options)
    p, tests, cells = [], [], [(), [(k, k) for k in range(5)]]
    kinds = ("metrics", "nulls"), ("second_scores", "second_nulls")
    for kind, exempt in zip(kinds, cells, strict=True):
        differences = []
        for what in kind:
            pairs = [getattr(each, what)["accuracy"].astype(float) for each in maps]
            differences.append(np.rint(60 * np.subtract(*pairs)) / 60)
        observed, null = differences
        tests.append(islands.Test(observed, null, exempt))
        rows = np.concatenate([observed[np.newaxis], null])
        rows = np.abs(rows - rows.mean(axis=0))
        p.append(np.mean(rows >= rows[0] - 1e-6, axis=0))
    np.fill_diagonal(p[1], 0)
    assert (p[1] > p[0]).any()  # or the second would not be seen
    assert_allclose(result.pvalues("none"), np.maximum(*p), rtol=1e-12)
    adjusted = stats.false_discovery_control(np.maximum(*p).ravel()).reshape(5, 5)
    assert_allclose(result.pvalues("fdr"), adjusted, rtol=1e-12)
    for name in ISLANDS:
        expected = islands.p_values(tests, name, "two-sided", 0.3)
        assert_allclose(result.pvalues(name), expected, rtol=1e-12, err_msg=name)
        assert 0 < (expected < 1).sum() < 25
    times = [decode_arrays(X[:, k], y, **SEEDED) for k in (slice(3), slice(3, 6))]
    on_time = compare(*times, correction="none").pvalues()
    assert_allclose(np.diag(result.pvalues("none")), on_time, rtol=1e-12)
    # The diagonal of a map was permuted as a time course is.
    again = compare(maps[0].diagonal(), times[1], correction="none")
    assert_allclose(again.pvalues(), on_time, rtol=1e-12)


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


def test_runs_without_a_record_are_refused(pair):
    a, b = (replace(each, parameters={}) for each in pair)
    with pytest.raises(ValueError, match=r"random_state \(not recorded\)"):
        compare(a, b)


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


def test_other_versions_warn(pair):
    b = replace(pair[1], versions=pair[1].versions | {"numpy": "1.25.0"})
    with pytest.warns(RuntimeWarning, match=r"different versions, .*numpy .* and 1\.2"):
        compare(pair[0], b)


def test_missing_permutations(data, images):
    X, y, _ = data
    a, b = (decode_arrays(X[:, k : k + 3], y, cv=5) for k in (0, 3))
    with pytest.raises(ValueError, match="result_a has no scores of permuted labels"):
        compare(a, b)
    seeded = {"step": 1, "null": "max", **SEEDED}
    maps = [generalize_arrays(X[:, k : k + 3], y, **seeded) for k in (0, 3)]
    with pytest.raises(ValueError, match="null='full', which keeps them"):
        compare(*maps)


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
        ({"threshold": 0.7}, r"'threshold': 0\.7\. Allowed: a p-level"),
        ({"threshold": 0.5, "alternative": "greater"}, r"0\.5\. Allowed: a p-level"),
        ({"metric": "kappa"}, "Invalid value for 'metric': 'kappa'"),
    ],
)
def test_invalid_arguments(pair, options, message):
    with pytest.raises(ValueError, match=message):
        compare(*pair, **options)


def test_what_is_no_result(pair):
    with pytest.raises(TypeError, match=r"result_b must be a result .* got a list"):
        compare(pair[0], [pair[1]])
    with pytest.raises(TypeError, match=r"got a ComparisonResult.*group_inference"):
        compare(compare(*pair), pair[0])
    with pytest.raises(FileNotFoundError, match=r"There is no file .*missing\.h5"):
        compare(pair[0], "missing.h5")


def test_equal_results(pair, tmp_path):
    with pytest.raises(ValueError, match="are equal, so there is nothing to compare"):
        compare(pair[0], pair[0])
    pair[0].save(tmp_path / "a.h5")
    with pytest.raises(ValueError, match="the same result or file twice"):
        compare(tmp_path / "a.h5", pair[0])


def test_other_positions_and_kinds(data, pair):
    X, y, _ = data
    shorter = decode_arrays(X[:, :3, :4], y, **SEEDED)
    with pytest.raises(ValueError, match=r"result_b has 4 times from .* instead of 5"):
        compare(pair[0], shorter)
    with pytest.raises(ValueError, match="result_b is a DecodingResult instead of a"):
        compare(pair[0], cross_validate(X[:, :, 0], y, **SEEDED))


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


def test_too_few_permutations_warn(data):
    X, y, _ = data
    a, b = (
        decode_arrays(X[:, k : k + 3], y, cv=5, n_permutations=9, random_state=0)
        for k in (0, 3)
    )
    with pytest.warns(RuntimeWarning, match=r"9 permutations the smallest .* is 0\.1,"):
        compare(a, b)


# ------------------------------------------------------------------- what comes out


def test_table(pair):
    table = compare(*pair, correction=["max", "max-step-down"]).to_dataframe()
    assert list(table.columns) == [
        "time",
        "accuracy_difference",
        "accuracy_a",
        "accuracy_b",
        "statistic",
        "p",
        "p_max",
        "p_max_step_down",
    ]
    assert_array_equal(table["accuracy_a"], pair[0].scores)


def test_what_was_not_asked_for(pair):
    result = compare(*pair)
    assert_array_equal(result.pvalues(), result.pvalues("max"))
    with pytest.raises(ValueError, match=r"'tfce' was not requested, .* Run compare a"):
        result.pvalues("tfce")


def test_result_says_what_it_is(pair):
    result = compare(*pair)
    text = repr(result)
    assert text.startswith("<ComparisonResult: largest difference in accuracy +0.")
    assert "60 trials | method 'permutation' | 99 permutations" in text
    assert result.chances == {
        "accuracy_difference": 0.0,
        "accuracy_a": 0.5,
        "accuracy_b": 0.5,
        "statistic": 0.0,
    }
    assert_array_equal(result.times, pair[0].times)
    assert result.parameters["a"] == pair[0].parameters


# ---------------------------------------------------------------------------- names


def test_names_of_two_results(pair, tmp_path):
    names = ("linear", "RBF")
    result = compare(*pair, labels=names)
    assert result.labels == names
    assert compare(*pair).labels == ("a", "b")
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
    assert "In the analysis “" not in methods_text(compare(*pair))
    assert list(result.to_dataframe())[2:4] == ["accuracy_a", "accuracy_b"]
    for labels in (("linear",), ("linear", "linear"), "ab", 3):
        with pytest.raises(ValueError, match="Invalid value for 'labels'"):
            compare(*pair, labels=labels)


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


def plain_interval(a, b, confidence, alternative, simultaneous):
    """Return both ends by sorting permuted differences, in plain loops."""
    null = (a.null - b.null).reshape(len(a.null), -1)
    observed = (a.scores - b.scores).ravel()
    rest = [[row[i] - null[:, i].mean() for i in range(null.shape[1])] for row in null]
    sd = [np.sqrt(np.mean([row[i] ** 2 for row in rest])) for i in range(len(rest[0]))]
    turn = {"greater": lambda x: x, "less": lambda x: -x, "two-sided": abs}[alternative]
    k = int((1 - confidence) * (len(null) + 1) + 1e-9)
    ends = []
    for i, value in enumerate(observed):
        far = sorted(turn(row[i]) for row in rest)[-k]
        if simultaneous:
            scaled = np.array([[turn(x) for x in row] for row in rest]) / sd
            far = sd[i] * sorted(scaled.max(axis=1))[-k]
        low = -np.inf if alternative == "less" else value - far
        ends.append((low, np.inf if alternative == "greater" else value + far))
    return np.transpose(ends)


@pytest.mark.parametrize("simultaneous", [False, True])
@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
def test_intervals_are_those_of_permuted_differences(alternative, simultaneous):
    # A tenth of 99 differences are 9, not 10.
    a, b = pair_of_results(0, 2.0, 0.5, n_times=4, n_permutations=98)
    how = {"alternative": alternative, "simultaneous": simultaneous}
    found = compare(a, b).interval(0.9, **how)
    low, high = plain_interval(a, b, 0.9, **how)
    assert_allclose(found.low, low, rtol=0, atol=1e-6)
    assert_allclose(found.high, high, rtol=0, atol=1e-6)
    assert_allclose(found.mean, a.scores - b.scores, rtol=0, atol=1e-12)
    assert found.shape == (4,)


def test_intervals_are_kept_in_files(tmp_path):
    result = compare(*pair_of_results(0, n_times=3))
    result.save(tmp_path / "comparison.h5")
    loaded = load_result(tmp_path / "comparison.h5")
    assert_array_equal(loaded.interval().low, result.interval().low)


def test_intervals_that_cannot_be_had():
    a, b = pair_of_results(0, scoring=["accuracy", "kappa"])
    with pytest.raises(ValueError, match="no intervals for differences in 'kappa'"):
        compare(a, b, metric="kappa").interval()
    with pytest.raises(ValueError, match="99 permutations are too few"):
        compare(a, b).interval(0.995)
    assert np.isfinite(compare(a, b).interval(0.99).low)  # just enough
    few = replace(compare(a, b), null_differences=None)
    with pytest.raises(ValueError, match="so many positions were not kept"):
        few.interval()


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
