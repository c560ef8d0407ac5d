"""Pairs of classes from the one model: each equals what refits and definitions give.

Distances are compared with their definition in features, those of a kernel in a basis
of its feature space; accuracies with scikit-learn's discriminant of every pair. That
this holds for every entry point, kernel, penalty, step and permutation is in
`test_contract`, for averages and repeats in `test_repeats`.
"""

import sys
import warnings
from dataclasses import replace
from functools import cache
from itertools import combinations
from types import ModuleType

import nibabel
import numpy as np
import pandas as pd
import pytest
from nibabel.affines import apply_affine
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import pdist, squareform
from scipy.stats import kstest, ttest_1samp
from sklearn.base import BaseEstimator
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel
from sklearn.model_selection import (
    KFold,
    LeaveOneGroupOut,
    LeaveOneOut,
    ShuffleSplit,
    StratifiedKFold,
)
from sklearn.preprocessing import StandardScaler

from mvpa_kfda import (
    RBF,
    Ridge,
    cross_validate,
    decode_arrays,
    generalize_arrays,
    group_inference,
    load_result,
    methods_text,
    searchlight,
)
from mvpa_kfda.cli.main import main
from mvpa_kfda.metrics import pairs
from mvpa_kfda.utils import memory
from tests import build, reference
from tests.build import PROBLEMS, p_without_ties, simulate

BOTH = ["crossnobis", "pairwise_accuracy", *pairs.TABLES.values()]
LAM = 3.0
COUNTS = {
    2: (14, 9),
    3: (9, 15, 12),
    5: (8, 6, 11, 7, 9),
    10: (5, 6, 7, 5, 8, 6, 5, 7, 6, 5),
}
shapes = pytest.mark.parametrize("p", [6, 80])
classes = pytest.mark.parametrize("c", COUNTS)


def basis_of(K):
    """Return features (n, r) whose inner products are the kernel matrix."""
    values, vectors = np.linalg.eigh(K)
    return vectors * np.sqrt(np.maximum(values, 0))


def by_definition(F, codes, folds, lam, labels=None):
    """Return the mean distances of pairs over test sets, (pairs,)."""
    labels, c = codes if labels is None else labels, codes.max() + 1
    found = [
        reference.distances_by_definition(
            F[train], labels[train], F[test], labels[test], lam, c
        )
        for train, test in folds
    ]
    return np.nanmean(found, axis=0)


def assert_equal_distances(ours, expected):
    """Assert that distances are equal, relative to the largest."""
    atol = 1e-10 * np.nanmax(np.abs(expected))
    assert_allclose(ours, expected, rtol=1e-10, atol=atol)


FOLDS = {
    "stratified": StratifiedKFold(4, shuffle=True, random_state=1),
    "groups": LeaveOneGroupOut(),
    "overlapping": ShuffleSplit(6, test_size=0.3, random_state=0),
    "few are trained with": ShuffleSplit(5, train_size=0.5, random_state=3),
}


@pytest.mark.some(19)
@pytest.mark.filterwarnings("ignore:(No trial|All trials) of class")
@pytest.mark.filterwarnings("ignore:(Successive|The class|No test set holds both)")
@pytest.mark.parametrize("cv", FOLDS.values(), ids=FOLDS)
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@shapes
@classes
def test_distances_are_cross_validated_mahalanobis(c, p, kernel, cv):
    X, codes = build.features(COUNTS[c], p, seed=c)
    groups = np.random.default_rng(c).permutation(len(codes)) % 4
    groups = groups if isinstance(cv, LeaveOneGroupOut) else None
    K = linear_kernel(X) if kernel == "linear" else rbf_kernel(X, gamma=0.3 / p)
    folds = list(cv.split(X, codes, groups))
    result = cross_validate(
        X,
        codes,
        kernel=kernel if kernel == "linear" else RBF(0.3 / p),
        reg=Ridge(LAM if kernel == "linear" else 0.2),
        cv=cv,
        groups=groups,
        scoring=[*BOTH, {"some": [(1, 0), (0, c - 1)][: c - 1]}],
        n_permutations=4,
        permute="free",
        random_state=0,
    )
    lam = LAM if kernel == "linear" else 0.2
    F = X if kernel == "linear" else basis_of(K)
    expected = by_definition(F, codes, folds, lam)
    assert_equal_distances(result.rdm("crossnobis"), expected)
    assert_equal_distances(result.scores, np.nanmean(expected))
    some = [0, c - 2][: c - 1]
    assert_equal_distances(result.metrics["some"], np.nanmean(expected[some]))
    labels = build.permuted(codes, 4, cv, groups, 0, "free")
    for b, each in enumerate(labels[1:]):
        own = list(cv.split(X, each, groups))  # stratified folds are of these labels
        expected = by_definition(F, codes, own, lam, each)
        for name, numbers in (("crossnobis", slice(None)), ("some", some)):
            mean = np.nanmean(expected[numbers])
            assert_allclose(result.nulls[name][b], mean, rtol=1e-8, atol=1e-10)


class Known(BaseEstimator):
    """The covariance of all training trials, for any two classes."""

    def __init__(self, covariance):
        self.covariance = covariance

    def fit(self, X, y=None):
        """Do not look at the data."""
        self.covariance_ = self.covariance
        return self


def lda_of_pair(X, codes, train, rows, pair, lam):
    """Return what scikit-learn's discriminant of two classes takes rows for."""
    within = reference.scatters(X[train], codes[train])[1]
    covariance = (within + lam * np.eye(X.shape[1])) / len(train)
    lda = LinearDiscriminantAnalysis(
        solver="lsqr", priors=[0.5, 0.5], covariance_estimator=Known(covariance)
    )
    of_pair = train[np.isin(codes[train], pair)]
    return lda.fit(X[of_pair], codes[of_pair]).predict(X[rows])


@shapes
@classes
def test_accuracies_are_those_of_scikit_learns_discriminant_of_each_pair(c, p):
    X, codes = build.features(COUNTS[c], p, seed=c, separation=0.35)
    cv = StratifiedKFold(4, shuffle=True, random_state=0)
    scoring = ["pairwise_accuracy", "pairwise_accuracies"]
    result = cross_validate(X, codes, reg=Ridge(LAM), cv=cv, scoring=scoring)
    folds, expected, n_other = list(cv.split(X, codes)), [], 0
    for i, j in result.pairs:
        found = np.full(len(codes), -1)
        for train, test in folds:
            rows = test[np.isin(codes[test], [i, j])]
            found[rows] = lda_of_pair(X, codes, train, rows, [i, j], LAM)
        scores = result.class_scores
        ours = np.where(scores[:, i] > scores[:, j], i, j)
        tested = found >= 0
        n_other += np.sum(ours[tested] != found[tested])
        shares = [np.mean(found[codes == k] == k) for k in (i, j)]
        expected.append(np.mean(shares))
    assert n_other == 0
    assert 0.5 < np.mean(expected) < 1
    assert_allclose(result.rdm("accuracy"), expected, rtol=1e-12, atol=0)
    assert_allclose(result.scores, np.mean(expected), rtol=1e-12, atol=0)


def test_a_pair_of_two_classes_is_the_accuracy_and_the_distance():
    X, codes = build.features((14, 14), 5)
    result = cross_validate(X, codes, cv=KFold(4), scoring=["accuracy", *BOTH])
    for value in (result.metrics["pairwise_accuracy"], *result.rdm("accuracy")):
        assert_allclose(value, result.scores, rtol=1e-14)
    assert_array_equal(result.rdm(), [result.metrics["crossnobis"]])


@pytest.mark.parametrize("steps", [None, "zscore"])
def test_distances_at_other_times_of_trained_trials_alone(steps):
    X, codes = build.trials((20, 14, 16), 5, 3, seed=4)
    trained = np.random.default_rng(0).random(len(codes)) < 0.6
    X *= np.geomspace(0.5, 4, 5)[:, None]
    cv, c = KFold(3, shuffle=True, random_state=0), 3
    options = {"train_on": trained, "cv": cv, "reg": Ridge(LAM), "preprocess": steps}
    scoring = ["crossnobis", "crossnobis_distances"]
    result = generalize_arrays(X, codes, scoring=scoring, **options)
    folds = [
        (train[trained[train]], test[~trained[test]]) for train, test in cv.split(X)
    ]
    for t, u in np.ndindex(3, 3):
        found = []
        for train, test in folds:
            F, F_test = X[train, :, t], X[test, :, u]
            if steps:
                scaler = StandardScaler().fit(F)
                F, F_test = scaler.transform(F), scaler.transform(F_test)
            found.append(
                reference.distances_by_definition(
                    F, codes[train], F_test, codes[test], LAM, c
                )
            )
        expected = np.nanmean(found, axis=0)
        assert_equal_distances(result.rdm()[t, u], expected)
        table = result.metrics["crossnobis_distances"][t, u]
        assert_equal_distances(table, squareform(expected))


# ----------------------------------------------------------- what sets and trials lack


def test_only_test_sets_with_both_classes_have_a_distance():
    X, codes = build.features((12, 10, 12), 4)
    order = np.argsort(codes, kind="stable")
    X, codes = X[order], codes[order]
    # Class 0 is in the first test set, with class 1; class 2 in the others.
    test_of = np.r_[np.zeros(12), np.repeat([0, 1], 5), np.repeat([1, 2], 6)].astype(
        int
    )
    rows = np.arange(len(codes))
    folds = [(rows[test_of != k], rows[test_of == k]) for k in range(3)]
    folds[0] = np.r_[folds[0][0], :4], rows[4:17]
    with pytest.warns(RuntimeWarning, match=r"1 pair, such as '0' and '2'"):
        result = cross_validate(X, codes, cv=folds, reg=Ridge(LAM), scoring=BOTH)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the mean of nothing
        expected = by_definition(X, codes, folds, LAM)
    assert_array_equal(np.isnan(expected), [False, True, False])
    assert_equal_distances(result.rdm(), expected)
    assert_equal_distances(result.scores, np.nanmean(expected))
    apart = {"apart": [(0, 2)]}
    with pytest.raises(ValueError, match=r"any pair of 'apart' \(\(0, 2\)\)\. Use lar"):
        cross_validate(X, codes, cv=folds, scoring=["pairwise_accuracy", apart])
    # Accuracies are counted over all test sets.
    assert np.isfinite(result.rdm("accuracy")).all()


@pytest.mark.filterwarnings("ignore:(No trial|All trials) of class")
def test_a_class_that_was_not_trained_with():
    X, codes = build.features((12, 10, 12), 4)
    rows = np.arange(len(codes))
    folds = [(rows[rows % 3 != k], rows[rows % 3 == k]) for k in range(3)]
    folds[1] = folds[1][0][codes[folds[1][0]] != 2], folds[1][1]
    result = cross_validate(X, codes, cv=folds, reg=Ridge(LAM), scoring=BOTH)
    expected = by_definition(X, codes, folds, LAM)
    assert_equal_distances(result.rdm(), expected)
    # Its trials are below every other class, and others above it.
    sets = [
        (codes[test], reference_scores(X, codes, train, test), len(train))
        for train, test in folds
    ]
    expected = reference.pairs_of_scores(sets, 3)["pairwise_accuracies"]
    assert_allclose(result.rdm("accuracy"), expected, rtol=1e-12, atol=0)


def reference_scores(X, codes, train, test):
    """Return class scores of a refitted model, (n_test, c)."""
    K = X @ X.T
    model = reference.fit(K[np.ix_(train, train)], codes[train], LAM, codes.max() + 1)
    return model.class_scores(K[np.ix_(test, train)])


@pytest.mark.parametrize("metric", ["crossnobis", "crossnobis_distances"])
def test_distances_need_two_classes_in_a_test_set(metric):
    X, codes = build.features((8, 8, 8), 3)
    cv = LeaveOneOut()
    message = (
        r"'crossnobis' compares .* none of the 24 test sets .* Use larger test sets"
    )
    with pytest.raises(ValueError, match=message):
        cross_validate(X, codes, cv=cv, scoring=metric)
    accuracy = cross_validate(X, codes, cv=cv, scoring="pairwise_accuracies")
    assert accuracy.scoring == ["pairwise_accuracy", "pairwise_accuracies"]
    assert np.isfinite(accuracy.rdm("accuracy")).all()


def test_distances_need_two_training_trials_of_a_class():
    X, codes = build.features((2, 2, 2), 3)
    cv = StratifiedKFold(2)
    with pytest.raises(ValueError, match=r"one trial of each class .* Use more folds"):
        cross_validate(X, codes, cv=cv, scoring="crossnobis")


def test_classes_that_are_alike_are_at_chance():
    codes = build.codes_of((8, 8, 8))
    X = np.zeros((24, 3))
    X[:, 0] = codes == 2
    result = cross_validate(X, codes, cv=4, reg=Ridge(1.0), scoring=BOTH)
    assert_allclose(result.rdm("accuracy"), [0.5, 1, 1], rtol=0, atol=1e-12)
    assert_allclose(result.metrics["pairwise_accuracy"], 2.5 / 3, rtol=1e-12)
    assert_allclose(result.rdm()[0], 0, rtol=0, atol=1e-12)


def test_parts_of_the_columns_give_the_same(monkeypatch):
    X, codes = build.trials((9, 8, 10), 4, 5)
    options = {"cv": 4, "scoring": BOTH, "n_permutations": 7, "random_state": 0}
    one = decode_arrays(X, codes, **options)
    monkeypatch.setattr(memory, "_BATCH", 1)
    other = decode_arrays(X, codes, **options)
    for name in BOTH:
        assert_allclose(other.metrics[name], one.metrics[name], rtol=1e-13)
    for name in ("crossnobis", "pairwise_accuracy"):
        assert_allclose(other.nulls[name], one.nulls[name], rtol=1e-13)


# ----------------------------------------------------------------------------- results

WORDS = ["ant", "bee", "cat", "dog"]
SOME = {"within": [("ant", "bee"), ("dog", "cat")], "between": [("cat", "ant")]}


@cache
def of_arrays(seed=0, labels="words"):
    """Return a time course of four classes with tables and a null."""
    X, codes = build.trials((10, 9, 11, 10), 5, 4, seed)
    y = build.NAMES[codes] if labels == "words" else 10 * codes
    options = {"cv": 4, "n_permutations": 5, "random_state": 0, "reg": 0.3}
    return decode_arrays(X, y, scoring=BOTH, **options)


@cache
def of_volume(seed=0):
    """Return a searchlight with tables."""
    X, codes = build.trials((8, 8, 8), 12, 1, seed)
    options = {"mask_img": build.mask(np.ones((3, 2, 2))), "cv": 4, "radius": 4.0}
    return searchlight(
        build.volume(X.reshape(-1, 3, 2, 2)),
        build.NAMES[codes],
        scoring=BOTH,
        **options,
    )


@pytest.mark.parametrize("kind", ["crossnobis", "accuracy"])
def test_matrices_are_in_the_order_of_pairs(kind):
    result = of_arrays()
    assert result.pairs == list(combinations(WORDS, 2))
    table = result.metrics[pairs.TABLES[kind]]
    diagonal = {"crossnobis": 0.0, "accuracy": 0.5}[kind]
    assert (np.diagonal(table, axis1=1, axis2=2) == diagonal).all()
    for number, (one, other) in enumerate(result.pairs):
        at = WORDS.index(one), WORDS.index(other)
        for i, j in (at, at[::-1]):
            assert_array_equal(result.rdm(kind)[:, number], table[:, i, j])
    scalar = {"crossnobis": "crossnobis", "accuracy": "pairwise_accuracy"}[kind]
    mean = result.rdm(kind).mean(axis=-1)
    assert_allclose(result.metrics[scalar], mean, rtol=1e-12)


def test_maps_keep_tables_condensed():
    result = of_volume()
    assert result.rdm().shape == (12, 3)
    assert result.rdm() is result.metrics["crossnobis_distances"]
    image = result.select_pairs([("cat", "ant")]).to_img()
    inside = image.get_fdata()[np.ones((3, 2, 2), bool)]
    assert_allclose(inside, result.rdm()[:, 1], rtol=1e-6)


@pytest.mark.parametrize("labels", ["words", "numbers"])
def test_chosen_pairs_are_means_of_the_table(labels, tmp_path):
    result = of_arrays(labels=labels)
    labels = WORDS if labels == "words" else range(0, 40, 10)
    name = dict(zip(WORDS, labels, strict=True))
    some = {key: [(name[a], name[b]) for a, b in of] for key, of in SOME.items()}
    chosen = result.select_pairs(some)
    rdm = result.rdm()
    assert chosen.scoring == ["within", "between"]
    assert_allclose(chosen.metrics["within"], rdm[:, [0, 5]].mean(axis=1), rtol=1e-13)
    assert_array_equal(chosen.metrics["between"], rdm[:, 1])
    one = result.select_pairs([(name["bee"], name["ant"])], "accuracy")
    assert one.scoring == [f"{name['bee']} / {name['ant']}"]
    assert one.chance == 0.5
    assert_array_equal(one.scores, result.rdm("accuracy")[:, 0])
    assert one.n_permutations == 0
    with pytest.raises(ValueError, match=r"pairs that are in scoring\. Run .* again"):
        one.pvalues()
    for each in (result, chosen, one):
        each.save(tmp_path / "result.h5", overwrite=True)
        assert load_result(tmp_path / "result.h5") == each
    (line,) = [x for x in np.ravel(chosen.plot())[0].lines if len(x.get_xdata()) == 4][
        :1
    ]
    assert_allclose(line.get_ydata(), chosen.scores, rtol=1e-12)
    assert "2 pairs of classes" in methods_text(chosen)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([("ant", "eel")], r"'pairs': \('ant', 'eel'\)\. Allowed: two different"),
        ([("ant", "ant")], r"'pairs': \('ant', 'ant'\)"),
        ({"none": []}, "names no pair"),
        ([], "names no pair"),
    ],
)
def test_pairs_that_are_none(given, message):
    with pytest.raises(ValueError, match=message):
        of_arrays().select_pairs(given)


@pytest.mark.parametrize("name", ["crossnobis", "pairwise_accuracy"])
def test_nulls_of_single_pairs_have_that_of_all_for_their_mean(name):
    X, codes = build.trials((10, 9, 11, 10), 5, 4)
    singles = {f"{a}-{b}": [(a, b)] for a, b in combinations(WORDS, 2)}
    options = {"cv": 4, "n_permutations": 9, "random_state": 0, "reg": 0.3}
    result = decode_arrays(X, build.NAMES[codes], scoring=[name, singles], **options)
    assert result.scoring == [name, *singles]
    assert set(result.chances.values()) == {0.5 * (name == "pairwise_accuracy")}
    for part in ("metrics", "nulls", "fold_metrics"):
        values = getattr(result, part)
        mean = np.mean([values[each] for each in singles], axis=0)
        assert_allclose(mean, values[name], rtol=1e-10, atol=1e-12)


def test_results_without_tables_say_how_to_have_them():
    X, codes = build.features((12, 12, 12), 4)
    result = cross_validate(X, codes, scoring=["accuracy", "pairwise_accuracies"], cv=4)
    assert result.rdm().shape == (3,)
    for call in (result.rdm, result.to_rsatoolbox, result.plot_rdm):
        with pytest.raises(ValueError, match=r"again with 'crossnobis_distances'"):
            call(kind="crossnobis")
    with pytest.raises(ValueError, match="'kind': 'euclid'"):
        result.rdm("euclid")


@pytest.mark.filterwarnings("ignore:With .* sign flips the smallest:RuntimeWarning")
def test_a_group_tests_chosen_pairs():
    several = [of_arrays(seed).select_pairs(SOME) for seed in range(6)]
    expected = np.stack([each.metrics["between"] for each in several])
    group = group_inference(several, "t", metric="between")
    assert_allclose(group.scores, expected.mean(axis=0), rtol=1e-12)
    p = ttest_1samp(expected, 0, alternative="greater").pvalue
    assert_allclose(group.pvalues("none"), p, rtol=1e-10)
    flipped = group_inference(several, "sign-flip", metric="between", random_state=0)
    assert_allclose(flipped.scores, group.scores, rtol=1e-12)
    with pytest.raises(ValueError, match=r"pairs .* method='sign-flip' or 't', or run"):
        group_inference(several, "prevalence")


@cache
def of_subject(seed):
    """Return a time course with chosen pairs, tables, and a null."""
    X, codes = build.trials((10, 9, 11, 10), 5, 4, seed)
    options = {"cv": 4, "n_permutations": 19, "random_state": seed, "reg": 0.3}
    scoring = ["crossnobis_distances", SOME]
    return decode_arrays(X, build.NAMES[codes], scoring=scoring, **options)


@pytest.mark.parametrize("method", ["prevalence", "bootstrap", "sign-flip"])
@pytest.mark.filterwarnings("ignore:method='sign-flip' finds")
@pytest.mark.filterwarnings("ignore:With .* the smallest:RuntimeWarning")
def test_pairs_in_scoring_have_p_values_of_subjects_and_groups(method, tmp_path):
    several = [of_subject(seed) for seed in range(5)]
    same = {
        "other way round": [("cat", "dog"), ("bee", "ant")],
        "new": [("bee", "cat")],
    }
    selected = [each.select_pairs(same) for each in several]
    one = selected[0]
    assert_array_equal(one.null, several[0].nulls["within"])
    assert_array_equal(one.pvalues("max"), several[0].pvalues("max", metric="within"))
    assert list(one.nulls) == ["other way round"]
    options = {"random_state": 0, "n_permutations": 99}
    group = group_inference(several, method, metric="within", **options)
    again = group_inference(selected, method, **options)
    assert_array_equal(again.pvalues("max"), group.pvalues("max"))
    for each in (one, group):
        each.save(tmp_path / "result.h5", overwrite=True)
        assert load_result(tmp_path / "result.h5") == each


@pytest.mark.filterwarnings("ignore:With .* the smallest:RuntimeWarning")
def test_the_mean_matrix_of_a_group():
    several = [of_subject(seed) for seed in range(4)]
    mean = np.mean([each.rdm() for each in several], axis=0)
    group = group_inference(several, "t")
    assert_allclose(group.rdm(), mean, rtol=1e-12)
    assert group.pairs == several[0].pairs
    shown = np.ma.filled(group.plot_rdm(at=2.0).axes[0].images[0].get_array(), np.nan)
    assert_allclose(shown[0, 1:], mean[2, :3], rtol=1e-12)
    with pytest.raises(ValueError, match=r"All subjects need 'pairwise_accuracies'"):
        group.rdm("accuracy")
    both = group_inference(several[:2], "t", other=several[2:])
    with pytest.raises(ValueError, match="compares two groups"):
        both.plot_rdm()


@pytest.mark.filterwarnings("ignore:The subjects have scores at different")
@pytest.mark.filterwarnings("ignore:With .* the smallest:RuntimeWarning")
def test_a_mean_matrix_is_of_what_subjects_have_in_common():
    several = [of_volume(seed) for seed in range(3)]
    matrices = [each.rdm().copy() for each in several]
    matrices[1][3, 0] = np.nan  # a pair that was not tested
    metrics = several[1].metrics | {"crossnobis_distances": matrices[1]}
    several[1] = replace(several[1], metrics=metrics)
    gap = {name: values.copy() for name, values in several[2].metrics.items()}
    n_features = several[2].n_features.copy()
    for values in (*gap.values(), n_features):
        values[5] = 0 if values is n_features else np.nan
    several[2] = replace(several[2], metrics=gap, n_features=n_features)
    expected = np.nanmean(matrices, axis=0)
    expected[5] = np.nan
    group = group_inference(several, "t", metric="crossnobis")
    assert_allclose(group.rdm(), expected, rtol=1e-12)
    renamed = replace(several[0], classes=np.array(["a", "b", "c"]))
    with pytest.raises(ValueError, match="the same classes"):
        group_inference([renamed, *several[1:]], "t").rdm()


def test_sizes_of_distances_need_a_penalty_that_is_fixed():
    X, codes = build.features((12, 10, 12), 4)
    for reg in ("auto", "ledoit_wolf"):
        with pytest.warns(RuntimeWarning, match=f"reg='{reg}' chooses it from the"):
            cross_validate(X, codes, cv=4, reg=reg, scoring="crossnobis")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cross_validate(X, codes, cv=4, reg=0.1, scoring="crossnobis")
        cross_validate(X, codes, cv=4, scoring="pairwise_accuracies")


class Matrices:
    """Stands for rsatoolbox's, and keeps what it is given."""

    def __init__(self, dissimilarities, **fields):
        self.dissimilarities, self.fields = dissimilarities, fields


def test_matrices_for_rsatoolbox(monkeypatch):
    result = of_arrays()
    monkeypatch.setitem(sys.modules, "rsatoolbox", None)
    monkeypatch.setitem(sys.modules, "rsatoolbox.rdm", None)
    with pytest.raises(ImportError, match="pip install"):
        result.to_rsatoolbox()
    module = ModuleType("rsatoolbox.rdm")
    module.RDMs = Matrices
    monkeypatch.setitem(sys.modules, "rsatoolbox", ModuleType("rsatoolbox"))
    monkeypatch.setitem(sys.modules, "rsatoolbox.rdm", module)
    given = result.to_rsatoolbox("accuracy")
    assert_array_equal(given.dissimilarities, result.rdm("accuracy"))
    assert given.fields["pattern_descriptors"] == {"conds": WORDS}
    assert given.fields["rdm_descriptors"] == {"time": result.times.tolist()}


def test_rsatoolbox_takes_the_matrices():
    rdm = pytest.importorskip("rsatoolbox.rdm")
    result = of_arrays()
    found = result.to_rsatoolbox()
    assert isinstance(found, rdm.RDMs)
    expected = result.metrics["crossnobis_distances"]
    assert_array_equal(found.get_matrices(), expected)
    one = found.subset("time", result.times[1])
    assert_array_equal(one.dissimilarities[0], result.rdm()[1])


def test_a_figure_of_matrices():
    result = of_arrays()
    figure = result.plot_rdm(at=[0.0, 2.0], order=["dog", "ant", "cat", "bee"])
    first, second, bar = figure.axes
    rows = [3, 0, 2, 1]
    for ax, time in ((first, 0), (second, 2)):
        shown = np.ma.filled(ax.images[0].get_array(), np.nan)
        expected = result.metrics["crossnobis_distances"][time][np.ix_(rows, rows)]
        np.fill_diagonal(expected, np.nan)
        assert_allclose(shown, expected, rtol=1e-12)
        assert ax.images[0].get_clim() == first.images[0].get_clim()
    assert [t.get_text() for t in first.get_yticklabels()] == [WORDS[i] for i in rows]
    assert bar.get_ylabel() == "Crossnobis distance"
    alike = result.plot_rdm(order="similarity", kind="accuracy").axes[0]
    assert sorted(t.get_text() for t in alike.get_xticklabels()) == WORDS
    with pytest.raises(ValueError, match="'order': 'size'"):
        result.plot_rdm(order="size")
    with pytest.raises(ValueError, match=r"'order': \['ant'\]"):
        result.plot_rdm(order=["ant"])


def test_figures_of_maps():
    X, codes = build.trials((10, 9, 11), 4, 3)
    result = generalize_arrays(X, codes, cv=4, scoring="crossnobis_distances")
    ax = result.plot_rdm(at=(0.0, 2.0)).axes[0]
    shown = np.ma.filled(ax.images[0].get_array(), np.nan)
    table = result.metrics["crossnobis_distances"][0, 2]
    assert_allclose(shown[0, 1:], table[0, 1:], rtol=1e-12)
    place = apply_affine(build.AFFINE, np.argwhere(np.ones((3, 2, 2)))[5])
    ax = of_volume().plot_rdm(at=tuple(place)).axes[0]
    shown = np.ma.filled(ax.images[0].get_array(), np.nan)
    assert_allclose(shown[0, 1:], of_volume().rdm()[5, :2], rtol=1e-12)


def test_classes_in_a_plane_are_as_far_apart_as_they_differ():
    X, codes = build.features((30, 30, 30), 3, separation=0.0)
    X[codes == 1, 0] += 3
    X[codes == 2, 1] += 3
    result = cross_validate(X, codes, cv=5, scoring="crossnobis_distances")
    (ax,) = result.plot_mds().axes
    points = np.array([line.get_xydata()[0] for line in ax.lines])
    assert_allclose(pdist(points), np.sqrt(result.rdm()), rtol=0.02)
    assert [text.get_text() for text in ax.texts] == ["0", "1", "2"]


def test_tables_of_pairs_have_a_row_for_each():
    result = of_arrays()
    table = result.to_dataframe(metric="crossnobis_distances")
    assert list(table) == ["time", "class_1", "class_2", "crossnobis_distances"]
    assert_array_equal(table["crossnobis_distances"], result.rdm().ravel())
    named = list(zip(table["class_1"], table["class_2"], strict=True))
    assert named == result.pairs * 4


def test_the_command_line_writes_tables_of_pairs(tmp_path):
    X, codes = build.trials((8, 8, 8), 4, 3)
    epochs, out = tmp_path / "words-epo.fif", tmp_path / "out"
    build.epochs(X, codes).save(epochs, verbose=False)
    options = [
        "--scoring",
        "crossnobis_distances",
        "--cv",
        "4",
        "--n-permutations",
        "5",
    ]
    assert main(["epochs", str(epochs), *options, "--out", str(out)]) == 0
    (path,) = out.glob("*_crossnobis_distances.csv")
    (file,) = out.glob("*.h5")
    found, result = pd.read_csv(path), load_result(file)
    assert_allclose(
        found["crossnobis_distances"], result.rdm().ravel(), rtol=1e-12, atol=0
    )
    assert found["class_2"].tolist() == ["bee", "cat", "cat"] * 3


@pytest.mark.filterwarnings("ignore:Crossnobis distances are the smaller")
@pytest.mark.parametrize("labels", ["words", "numbers"])
def test_the_command_line_searches_for_pairs(tmp_path, labels, capsys, monkeypatch):
    monkeypatch.setattr("mvpa_kfda.cli.output._figures", lambda *_: ())
    X, codes = build.trials((8, 8, 8), 12, 1)
    images, out = build.volume(X.reshape(-1, 3, 2, 2)), tmp_path / "out"
    names = dict(enumerate(["ant", "bee", "cat"] if labels == "words" else [1, 2, 3]))
    images.to_filename(tmp_path / "bold.nii.gz")
    mask = build.mask(np.ones((3, 2, 2)))
    mask.to_filename(tmp_path / "mask.nii.gz")
    table = pd.DataFrame({"label": [names[code] for code in codes]})
    table.to_csv(tmp_path / "labels.csv", index=False)
    a, b, c = names.values()
    pairs = {f"{a} / {c}": [(a, c)], "my pairs": [(c, b), (a, b)]}
    options = ["--scoring", "crossnobis_distances", repr(pairs)]
    options += ["--radius", "4", "--cv", "4", "--reg", "0.3", "--n-permutations", "9"]
    paths = [
        "--labels",
        tmp_path / "labels.csv",
        "--mask-img",
        tmp_path / "mask.nii.gz",
    ]
    given = map(str, [tmp_path / "bold.nii.gz", *paths, "--label-column", "label"])
    assert main(["searchlight", *given, *options, "--out", str(out)]) == 0
    found = {path.name.partition("searchlight")[2]: path for path in out.iterdir()}
    result = load_result(found[".h5"])
    assert result.scoring[1:] == ["crossnobis_distances", f"{a} / {c}", "my pairs"]
    rdm = result.rdm()
    table = pd.read_csv(found["_crossnobis_distances.csv"])
    assert_allclose(table["crossnobis_distances"], rdm.ravel(), rtol=1e-12, atol=0)
    expected = {
        f"_{a}-{c}.nii.gz": rdm[:, 1],
        "_my-pairs.nii.gz": rdm[:, [0, 2]].mean(1),
    }
    for ending, values in expected.items():
        image = nibabel.load(found[ending]).get_fdata()
        assert_allclose(image[np.ones((3, 2, 2), bool)], values, rtol=1e-5)
    assert result.pvalues("max", metric="my pairs").shape == (12,)
    assert f"map of the pairs {a} / {c}" in capsys.readouterr().out


def test_memory_of_tables_is_known_beforehand(monkeypatch):
    X = np.random.default_rng(0).standard_normal((400, 2, 3))
    y = np.arange(400) % 100
    options = {"cv": KFold(4, shuffle=True, random_state=0), "reg": 1.0}
    accuracy = 3 * (400 * 8 + 5 * 16)  # about what is kept without tables
    monkeypatch.setattr(memory, "usable_memory", lambda: 10 * accuracy)
    decode_arrays(X, y, **options)
    with pytest.raises(ValueError, match=r"needs .* memory"):
        decode_arrays(X, y, scoring="crossnobis_distances", **options)


def test_a_run_that_was_stopped_goes_on_with_its_tables(tmp_path):
    X, codes = build.trials((8, 8, 8), 12, 1)
    options = {"mask_img": build.mask(np.ones((3, 2, 2))), "cv": 4, "radius": 4.0}
    scoring = [*BOTH, {"a / b": [("ant", "bee")]}]
    options |= {"scoring": scoring, "n_permutations": 3, "random_state": 0}
    images, y = build.volume(X.reshape(-1, 3, 2, 2)), build.NAMES[codes]
    whole = searchlight(images, y, **options)
    for _ in range(2):
        again = searchlight(images, y, checkpoint=tmp_path / "run", **options)
        for name in [*BOTH, "a / b"]:
            assert_array_equal(again.metrics[name], whole.metrics[name])
        assert_array_equal(again.nulls["a / b"], whole.nulls["a / b"])
    other = options | {"scoring": [*BOTH, {"a / b": [("cat", "bee")]}]}
    with pytest.raises(ValueError, match="pairs"):
        searchlight(images, y, checkpoint=tmp_path / "run", **other)


# ------------------------------------------------------------------------- calibration


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_distances_of_equal_classes_are_zero_on_average(kernel):
    # Classes and runs of unequal sizes; the third class does differ.
    n_data, rng = 1000, np.random.default_rng(0)
    groups = np.repeat(np.arange(4), [18, 9, 14, 11])
    found = []
    for _ in range(n_data):
        codes = np.concatenate(
            [rng.permutation(np.arange(m) * 5 // m) for m in np.bincount(groups)]
        )
        codes = np.array([0, 0, 1, 2, 2])[codes]
        X = rng.normal(size=(len(codes), 6)) + 2 * rng.normal(size=(4, 6))[groups]
        X[:, 0] += 1.5 * (codes == 2)
        result = cross_validate(
            X, codes, groups=groups, kernel=kernel, scoring="crossnobis_distances"
        )
        found.append(result.rdm())
    mean, error = np.mean(found, axis=0), np.std(found, axis=0) / n_data**0.5
    assert abs(mean[0]) < 3 * error[0]
    assert (mean[1:] > 5 * error[1:]).all()


NOISE = ["stratified, unbalanced", "leave one run out", "between subjects", "confounds"]


@pytest.mark.slow
@pytest.mark.parametrize("problem", NOISE)
@pytest.mark.parametrize("scoring", ["crossnobis", "pairwise_accuracy"])
@pytest.mark.filterwarnings("ignore:(Successive|The class|No trial of class)")
@pytest.mark.filterwarnings("ignore:No test set holds both")
def test_p_values_of_pairs_are_uniform_on_noise(problem, scoring):
    make, permute = PROBLEMS[problem]
    p = p_without_ties(simulate(make, 300, 39, permute=permute, scoring=scoring))
    assert np.mean(p <= 0.05) < 0.05 + 3 * (0.05 * 0.95 / 300) ** 0.5
    if (problem, scoring) == ("confounds", "crossnobis"):
        # What is left of data without their confounds differs less between the classes
        # that these go with than between permuted ones: distances are smaller, of
        # either sign, and the test is conservative.
        assert np.mean(p <= 0.05) < 0.05
        return
    assert kstest(p, "uniform").pvalue > 0.001
