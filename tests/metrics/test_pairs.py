"""Pairs of classes from the one model: each equals what refits and definitions give.

Distances are compared with their definition in features, those of a kernel in a basis
of its feature space; accuracies with scikit-learn's discriminant of every pair. That
this holds for every entry point, kernel, penalty, step and permutation is in
`test_contract`.
"""

import sys
import warnings
from dataclasses import replace
from functools import cache
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace

import nibabel
import numpy as np
import pandas as pd
import pytest
from nibabel.affines import apply_affine
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import kstest
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import (
    KFold,
    LeaveOneGroupOut,
    LeaveOneOut,
    ShuffleSplit,
    StratifiedKFold,
)

from mvpa_kfda import (
    RBF,
    Ridge,
    cross_validate,
    decode_arrays,
    group_inference,
    load_result,
    methods_text,
    searchlight,
)
from mvpa_kfda.cli.main import main
from mvpa_kfda.metrics import pairs
from mvpa_kfda.utils import memory
from tests import build, reference

BOTH = ["crossnobis", "pairwise_accuracy", *pairs.TABLES.values()]
LAM = 3.0
COUNTS = {
    2: (14, 9),
    3: (9, 15, 12),
    5: (8, 6, 11, 7, 9),
    10: (5, 6, 7, 5, 8, 6, 5, 7, 6, 5),
}


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
@pytest.mark.parametrize("p", [6, 80])
@pytest.mark.parametrize("c", COUNTS)
def test_distances_are_cross_validated_mahalanobis(c, p, kernel, cv):
    X, codes = build.features(COUNTS[c], p, seed=c)
    groups = np.random.default_rng(c).permutation(len(codes)) % 4
    groups = groups if isinstance(cv, LeaveOneGroupOut) else None
    F, lam, options = X, LAM, {"kernel": "linear"}
    if kernel == "rbf":
        F, lam = basis_of(rbf_kernel(X, gamma=0.3 / p)), 0.2
        options = {"kernel": RBF(0.3 / p)}
    some = [0, c - 2][: c - 1]
    result = cross_validate(
        X,
        codes,
        reg=Ridge(lam),
        cv=cv,
        groups=groups,
        scoring=[*BOTH, {"some": [(1, 0), (0, c - 1)][: c - 1]}],
        n_permutations=4,
        permute="free",
        random_state=0,
        **options,
    )
    expected = by_definition(F, codes, list(cv.split(X, codes, groups)), lam)
    assert_equal_distances(result.rdm("crossnobis"), expected)
    assert_equal_distances(result.scores, np.nanmean(expected))
    assert_equal_distances(result.metrics["some"], np.nanmean(expected[some]))
    labels = build.permuted(codes, 4, cv, groups, 0, "free")
    for b, each in enumerate(labels[1:]):
        own = list(cv.split(X, each, groups))  # stratified folds are of these labels
        expected = by_definition(F, codes, own, lam, each)
        for name, numbers in (("crossnobis", slice(None)), ("some", some)):
            mean = np.nanmean(expected[numbers])
            assert_allclose(result.nulls[name][b], mean, rtol=1e-8, atol=1e-10)


@pytest.mark.filterwarnings("ignore:(No trial|All trials) of class")
def test_only_sets_that_hold_both_classes_have_a_distance():
    X, codes = build.features((12, 10, 12), 4)
    order = np.argsort(codes, kind="stable")
    X, codes = X[order], codes[order]
    # Class 0 is in the first test set, with class 1; class 2 in the others.
    sizes = [17, 11, 6]
    test_of, rows = np.repeat([0, 1, 2], sizes), np.arange(len(codes))
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
    # Without class 2 in training its trials are below every other one, others above.
    folds = [(rows[rows % 3 != k], rows[rows % 3 == k]) for k in range(3)]
    folds[1] = folds[1][0][codes[folds[1][0]] != 2], folds[1][1]
    result = cross_validate(X, codes, cv=folds, reg=Ridge(LAM), scoring=BOTH)
    assert_equal_distances(result.rdm(), by_definition(X, codes, folds, LAM))
    sets, K = [], X @ X.T
    for train, test in folds:
        model = reference.fit(K[np.ix_(train, train)], codes[train], LAM, 3)
        scores = model.class_scores(K[np.ix_(test, train)])
        sets.append((codes[test], scores, len(train)))
    expected = reference.pairs_of_scores(sets, 3)["pairwise_accuracies"]
    assert_allclose(result.rdm("accuracy"), expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("metric", ["crossnobis", "crossnobis_distances"])
def test_distances_need_two_classes_in_a_test_set_and_trials_that_vary(metric):
    X, codes = build.features((8, 8, 8), 3)
    cv = LeaveOneOut()
    message = r"'crossnobis' compares .* none of the 24 test sets .* Use larger test"
    with pytest.raises(ValueError, match=message):
        cross_validate(X, codes, cv=cv, scoring=metric)
    accuracy = cross_validate(X, codes, cv=cv, scoring="pairwise_accuracies")
    assert accuracy.scoring == ["pairwise_accuracy", "pairwise_accuracies"]
    assert np.isfinite(accuracy.rdm("accuracy")).all()
    X, codes = build.features((2, 2, 2), 3)
    with pytest.raises(ValueError, match=r"one trial of each class .* Use more folds"):
        cross_validate(X, codes, cv=StratifiedKFold(2), scoring=metric)


# ----------------------------------------------------------------------------- results

WORDS = ["ant", "bee", "cat", "dog"]


@cache
def of_arrays(seed=0, names=tuple(WORDS)):
    """Return a time course of four classes with tables, chosen pairs, and a null."""
    X, codes = build.trials((10, 9, 11, 10), 5, 4, seed)
    a, b, c, d = names
    some = {"within": [(a, b), (d, c)], "between": [(c, a)]}
    options = {"cv": 4, "n_permutations": 19, "random_state": seed, "reg": 0.3}
    y = np.array(names)[codes]
    return decode_arrays(X, y, scoring=[*BOTH, some], **options)


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
def test_a_class_is_as_far_from_itself_as_by_chance(kind):
    result = of_arrays()
    table = result.metrics[pairs.TABLES[kind]]
    diagonal = {"crossnobis": 0.0, "accuracy": 0.5}[kind]
    assert (np.diagonal(table, axis1=1, axis2=2) == diagonal).all()
    scalar = {"crossnobis": "crossnobis", "accuracy": "pairwise_accuracy"}[kind]
    mean = result.rdm(kind).mean(axis=-1)
    assert_allclose(result.metrics[scalar], mean, rtol=1e-12)
    image = of_volume().select_pairs([("cat", "ant")], kind).to_img()
    inside = image.get_fdata()[np.ones((3, 2, 2), bool)]
    assert_allclose(inside, of_volume().rdm(kind)[:, 1], rtol=1e-6)


@pytest.mark.parametrize("names", [tuple(WORDS), (0, 10, 20, 30)], ids=str)
def test_chosen_pairs_of_texts_and_of_numbers_are_kept_in_files(names, tmp_path):
    result, (a, b, c, d) = of_arrays(names=names), names
    chosen = result.select_pairs({"as before": [(c, d), (b, a)], "new": [(b, c)]})
    assert_array_equal(chosen.scores, result.metrics["within"])
    assert_array_equal(chosen.metrics["new"], result.rdm()[:, 3])
    assert list(chosen.nulls) == ["as before"]
    one = result.select_pairs([(b, a)], "accuracy")
    assert (one.scoring, one.chance) == ([f"{b} / {a}"], 0.5)
    for each in (result, chosen, one):
        each.save(tmp_path / "result.h5", overwrite=True)
        assert load_result(tmp_path / "result.h5") == each
    tested = result.select_pairs({"as before": [(c, d), (b, a)]})
    assert "2 pairs of classes" in methods_text(tested)


def test_pairs_that_there_are_none_of_are_refused():
    for given, message in (
        ([("ant", "eel")], r"'pairs': \('ant', 'eel'\)\. Allowed: two different"),
        ([("ant", "ant")], r"'pairs': \('ant', 'ant'\)"),
        ({"twice": [("ant", "bee"), ("bee", "ant")]}, "names a pair twice"),
        ({"none": []}, "names no pair"),
        ([], "names no pair"),
    ):
        with pytest.raises(ValueError, match=message):
            of_arrays().select_pairs(given)


@pytest.mark.parametrize("name", ["crossnobis", "pairwise_accuracy"])
def test_nulls_of_single_pairs_have_that_of_all_for_their_mean(name):
    X, codes = build.trials((10, 9, 11, 10), 5, 4)
    singles = {f"{a}-{b}": [(a, b)] for a, b in combinations(WORDS, 2)}
    options = {"cv": 4, "n_permutations": 9, "random_state": 0, "reg": 0.3}
    result = decode_arrays(X, build.NAMES[codes], scoring=[name, singles], **options)
    assert set(result.chances.values()) == {0.5 * (name == "pairwise_accuracy")}
    for values in (result.metrics, result.nulls, result.fold_metrics):
        mean = np.mean([values[each] for each in singles], axis=0)
        assert_allclose(mean, values[name], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("method", ["prevalence", "bootstrap", "sign-flip"])
@pytest.mark.filterwarnings("ignore:method='sign-flip' finds")
@pytest.mark.filterwarnings("ignore:With .* the smallest:RuntimeWarning")
def test_groups_test_chosen_pairs(method):
    several = [of_arrays(seed) for seed in range(5)]
    same = {"as before": [("cat", "dog"), ("bee", "ant")], "new": [("bee", "cat")]}
    selected = [each.select_pairs(same) for each in several]
    options = {"random_state": 0, "n_permutations": 99}
    group = group_inference(several, method, metric="within", **options)
    again = group_inference(selected, method, **options)
    assert_array_equal(again.pvalues("max"), group.pvalues("max"))
    new = [each.metrics["new"] for each in selected]
    if method == "sign-flip":
        found = group_inference(selected, method, metric="new", **options)
        assert_allclose(found.scores, np.mean(new, axis=0), rtol=1e-12)
        return
    with pytest.raises(ValueError, match=r"pairs .* method='sign-flip' or 't', or run"):
        group_inference(selected, method, metric="new", **options)


def shown_in(figure, number=0):
    """Return the matrix of a figure, NaN on its diagonal."""
    return np.ma.filled(figure.axes[number].images[0].get_array(), np.nan)


@pytest.mark.filterwarnings("ignore:The subjects have scores at different")
@pytest.mark.filterwarnings("ignore:With .* the smallest:RuntimeWarning")
def test_the_mean_matrix_of_a_group_is_of_what_subjects_have_in_common():
    several = [of_arrays(seed) for seed in range(4)]
    mean = np.mean([each.rdm() for each in several], axis=0)
    group = group_inference(several, "t")
    assert_allclose(group.rdm(), mean, rtol=1e-12)
    assert group.pairs == several[0].pairs
    assert_allclose(shown_in(group.plot_rdm(at=2.0))[0, 1:], mean[2, :3], rtol=1e-12)
    both = group_inference(several[:2], "t", other=several[2:])
    with pytest.raises(ValueError, match="compares two groups"):
        both.plot_rdm()
    place = apply_affine(build.AFFINE, np.argwhere(np.ones((3, 2, 2)))[5])
    shown = shown_in(of_volume().plot_rdm(at=tuple(place)))
    assert_allclose(shown[0, 1:], of_volume().rdm()[5, :2], rtol=1e-12)
    maps = [of_volume(seed) for seed in range(3)]
    matrices = [each.rdm().copy() for each in maps]
    matrices[1][3, 0] = np.nan  # a pair that was not tested
    metrics = maps[1].metrics | {"crossnobis_distances": matrices[1]}
    maps[1] = replace(maps[1], metrics=metrics)
    gap = {name: values.copy() for name, values in maps[2].metrics.items()}
    n_features = maps[2].n_features.copy()
    for values in (*gap.values(), n_features):
        values[5] = 0 if values is n_features else np.nan
    maps[2] = replace(maps[2], metrics=gap, n_features=n_features)
    expected = np.nanmean(matrices, axis=0)
    expected[5] = np.nan
    group = group_inference(maps, "t", metric="crossnobis")
    assert_allclose(group.rdm(), expected, rtol=1e-12)
    renamed = replace(maps[0], classes=np.array(["a", "b", "c"]))
    with pytest.raises(ValueError, match="the same classes"):
        group_inference([renamed, *maps[1:]], "t").rdm()
    fewer = {k: v for k, v in maps[0].metrics.items() if k != "pairwise_accuracies"}
    group = group_inference([replace(maps[0], metrics=fewer), *maps[1:]], "t")
    with pytest.raises(ValueError, match=r"All subjects need 'pairwise_accuracies'"):
        group.rdm("accuracy")


def test_sizes_of_distances_need_a_penalty_that_is_fixed():
    X, codes = build.features((12, 10, 12), 4)
    for reg in ("auto", "ledoit_wolf"):
        with pytest.warns(RuntimeWarning, match=f"reg='{reg}' chooses it from the"):
            cross_validate(X, codes, cv=4, reg=reg, scoring="crossnobis")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cross_validate(X, codes, cv=4, reg=0.1, scoring="crossnobis")
        cross_validate(X, codes, cv=4, scoring="pairwise_accuracies")


def test_matrices_for_rsatoolbox(monkeypatch):
    result = of_arrays()
    for name in ("rsatoolbox", "rsatoolbox.rdm"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match="pip install"):
        result.to_rsatoolbox()
    module = SimpleNamespace(RDMs=lambda matrices, **given: (matrices, given))
    for name in ("rsatoolbox", "rsatoolbox.rdm"):
        monkeypatch.setitem(sys.modules, name, module)
    matrices, given = result.to_rsatoolbox("accuracy")
    assert_array_equal(matrices, result.rdm("accuracy"))
    assert given["pattern_descriptors"] == {"conds": WORDS}
    assert given["rdm_descriptors"] == {"time": result.times.tolist()}


@pytest.mark.filterwarnings("ignore:Crossnobis distances are the smaller")
@pytest.mark.parametrize("labels", [["ant", "bee", "cat"], [1, 2, 3]], ids=str)
def test_the_command_line_searches_for_pairs(tmp_path, labels, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("mvpa_kfda.cli.output._figures", lambda *_: ())
    X, codes = build.trials((8, 8, 8), 12, 1)
    build.volume(X.reshape(-1, 3, 2, 2)).to_filename("bold.nii.gz")
    build.mask(np.ones((3, 2, 2))).to_filename("mask.nii.gz")
    table = pd.DataFrame({"label": np.array(labels)[codes]})
    table.to_csv("labels.csv", index=False)
    a, b, c = labels
    given = {f"{a} / {c}": [(a, c)], "my pairs": [(c, b), (a, b)]}
    options = ["--scoring", "crossnobis_distances", repr(given)]
    options += ["--radius", "4", "--cv", "4", "--reg", "0.3", "--n-permutations", "9"]
    options += ["--labels", "labels.csv", "--label-column", "label", "--out", "out"]
    options += ["--mask-img", "mask.nii.gz"]
    assert main(["searchlight", "bold.nii.gz", *options]) == 0
    found = {p.name.partition("searchlight")[2]: p for p in Path("out").iterdir()}
    result = load_result(found[".h5"])
    assert result.scoring[1:] == ["crossnobis_distances", f"{a} / {c}", "my pairs"]
    rdm = result.rdm()
    table = pd.read_csv(found["_crossnobis_distances.csv"])
    assert_allclose(table["crossnobis_distances"], rdm.ravel(), rtol=1e-12, atol=0)
    for ending, values in (
        (f"_{a}-{c}.nii.gz", rdm[:, 1]),
        ("_my-pairs.nii.gz", rdm[:, [0, 2]].mean(1)),
    ):
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


def noise(problem, rng):
    """Return data without an effect, labels of unequal classes or runs, and options."""
    X, y, cv = rng.normal(size=(40, 20)), np.arange(40) % 2, StratifiedKFold(4)
    if problem == "unequal classes":
        return X, rng.permutation(np.repeat(["a", "b", "c"], [20, 12, 8])), {"cv": cv}
    if problem == "confounds":
        confound = y + rng.normal(size=40)
        X += 2 * np.outer(confound, rng.normal(size=20))
        return X, y, {"cv": cv, "confounds": confound}
    groups = np.repeat(np.arange(5), 8)
    X += 2 * rng.normal(size=(5, 20))[groups]
    return X, (np.arange(40) % 8 < groups + 2).astype(int), {"groups": groups}


@pytest.mark.slow
@pytest.mark.parametrize("problem", ["unequal classes", "runs", "confounds"])
@pytest.mark.parametrize("scoring", ["crossnobis", "pairwise_accuracy"])
@pytest.mark.filterwarnings("ignore:(Successive|The class|No trial of class)")
@pytest.mark.filterwarnings("ignore:No test set holds both")
def test_p_values_of_pairs_are_uniform_on_noise(problem, scoring):
    p, ties = [], np.random.default_rng(0)
    for seed in range(300):
        X, y, options = noise(problem, np.random.default_rng(seed))
        options |= {"n_permutations": 39, "random_state": seed, "scoring": scoring}
        result = cross_validate(X, y, **options)
        larger = np.sum(result.null > result.scores + 1e-9)
        tied = np.sum(np.abs(result.null - result.scores) <= 1e-9)
        p.append((larger + ties.uniform() * (1 + tied)) / 40)
    p = np.array(p)
    assert np.mean(p <= 0.05) < 0.05 + 3 * (0.05 * 0.95 / 300) ** 0.5
    if (problem, scoring) == ("confounds", "crossnobis"):
        # What is left of data without their confounds differs less between the classes
        # that these go with than between permuted ones: distances are smaller, of
        # either sign, and the test is conservative.
        assert np.mean(p <= 0.05) < 0.05
        return
    assert kstest(p, "uniform").pvalue > 0.001
