"""Are p-values uniform on pure noise? Simulations over many data sets, hence slow."""

from functools import partial

import numpy as np
import pytest
from nibabel import Nifti1Image
from scipy.ndimage import gaussian_filter
from scipy.signal import lfilter
from scipy.stats import kstest
from sklearn.model_selection import (
    GroupKFold,
    LeaveOneGroupOut,
    LeaveOneOut,
    ShuffleSplit,
    StratifiedKFold,
    StratifiedShuffleSplit,
    TimeSeriesSplit,
)

from mvpa_kfda import Tuned, cross_validate, generalize_arrays, searchlight
from mvpa_kfda.inference.corrections import p_values

pytestmark = pytest.mark.slow


def features(rng, groups=None, spread=2.0):
    """Return noise; trials of a group share an offset if there are groups."""
    if groups is None:
        return rng.normal(size=(40, 20))
    offsets = spread * rng.normal(size=(groups.max() + 1, 8))
    return offsets[groups] + rng.normal(size=(len(groups), 8))


def stratified(rng, **options):
    return features(rng), np.arange(40) % 2, {"cv": StratifiedKFold(10), **options}


def listed(rng):
    # Folds that do not follow the labels when these are shuffled.
    X, y, _ = stratified(rng)
    return X, y, {"cv": list(StratifiedKFold(10).split(X, y))}


def stratified_wide(rng):
    return rng.normal(size=(40, 60)), np.arange(40) % 2, {"cv": StratifiedKFold(10)}


def stratified_unbalanced(rng):
    y = rng.permutation(np.repeat(["a", "b", "c"], [20, 12, 8]))
    return features(rng), y, {"cv": StratifiedKFold(4, shuffle=True, random_state=0)}


def leave_one_out(rng):
    return features(rng), np.arange(40) % 2, {"cv": LeaveOneOut()}


def leave_one_run_out(rng):
    # Runs differ in level and in how many trials of each class they hold.
    groups = np.repeat(np.arange(5), 8)
    y = (np.arange(40) % 8 < groups + 2).astype(int)
    options = {"cv": LeaveOneGroupOut(), "groups": groups}
    return features(rng, groups), y, options


def runs_across_folds(rng):
    groups = np.repeat(np.arange(5), 8)
    y = (np.arange(40) % 8 < groups + 2).astype(int)
    return features(rng, groups), y, {"cv": LeaveOneOut(), "groups": groups}


def between_subjects(rng):
    groups = np.repeat(np.arange(12), rng.integers(3, 7, 12))
    y = rng.permutation(np.arange(12) % 2)[groups]
    return features(rng, groups), y, {"cv": GroupKFold(4), "groups": groups}


def stepped(rng, **options):
    X = features(rng) * rng.uniform(0.1, 10, 20) + 5
    return X, np.arange(40) % 2, {"cv": StratifiedKFold(4), **options}


def confounded(rng):
    # A confound that is related to the classes, and that the features depend on.
    confound = np.arange(40) % 2 + rng.normal(size=40)
    X, y, options = stepped(rng, confounds=confound)
    return X + 2 * np.outer(confound, rng.normal(size=20)), y, options


def lasting(rng, cv):
    # Noise that lasts from trial to trial, under labels in random order.
    X = lfilter([1], [1, -0.7], rng.normal(size=(40, 20)), axis=0)
    return X, rng.permutation(np.arange(40) % 2), {"cv": cv}


def crossed(rng, **options):
    # Train on half of the trials, which tell nothing; test on the others, which do.
    groups, trained = np.repeat(np.arange(5), 8), np.arange(40) % 8 < 4
    y = np.concatenate([rng.permutation([0, 0, 1, 1]) for _ in range(10)])
    X = features(rng, groups) + 0.7 * np.outer(y * ~trained, rng.normal(size=8))
    return X, y, {"groups": groups, "train_on": trained, **options}


PROBLEMS = {
    "stratified": (stratified, "free"),
    "stratified, unbalanced": (stratified_unbalanced, "free"),
    "stratified, within folds": (
        partial(stratified, permute="within_folds"),
        "within_folds",
    ),
    "leave one out": (leave_one_out, "free"),
    "leave one run out": (leave_one_run_out, "within_groups"),
    "runs across folds": (runs_across_folds, "within_groups"),
    "between subjects": (between_subjects, "groups"),
    "z-scores": (partial(stepped, preprocess="zscore"), "free"),
    "z-scores, within folds": (
        partial(stepped, preprocess="zscore", permute="within_folds"),
        "within_folds",
    ),
    "components": (partial(stepped, preprocess="pca"), "free"),
    "whitening": (partial(stepped, preprocess="whiten"), "free"),
    "z-scores, tuned": (
        partial(stepped, preprocess="zscore", reg=Tuned()),
        "free",
    ),
    "confounds": (confounded, "free"),
    "overlapping": (
        partial(lasting, cv=StratifiedShuffleSplit(10, random_state=0)),
        "free",
    ),
    "time series": (partial(lasting, cv=TimeSeriesSplit(4)), "free"),
    "few training trials": (
        partial(lasting, cv=ShuffleSplit(5, train_size=0.5, random_state=0)),
        "free",
    ),
    "cross-decoding": (crossed, "within_groups"),
    "cross-decoding, z-scores": (
        partial(crossed, preprocess="zscore"),
        "within_groups",
    ),
}


def simulate(problem, n_data, n_permutations, **options):
    """Decode many data sets of noise; return the results."""
    results = []
    for seed in range(n_data):
        X, y, given = problem(np.random.default_rng(seed))
        given = {**given, "n_permutations": n_permutations, "random_state": seed}
        results.append(cross_validate(X, y, **given, **options))
    return results


def p_without_ties(results):
    """Return p-values with ties broken at random: uniform if the test is right.

    Accuracies of few trials are coarse, so the p-values themselves are not uniform but
    a little too large.
    """
    rng = np.random.default_rng(0)
    p = []
    for result in results:
        larger = (result.null > result.scores + 1e-9).sum()
        tied = (abs(result.null - result.scores) <= 1e-9).sum()
        p.append((larger + rng.uniform() * (1 + tied)) / (1 + len(result.null)))
    return np.array(p)


@pytest.mark.parametrize(("problem", "scheme"), PROBLEMS.values(), ids=PROBLEMS)
@pytest.mark.parametrize("scoring", ["accuracy", "roc_auc"])
# As random orders of labels may be.
@pytest.mark.filterwarnings("ignore:(Successive|The class)")
@pytest.mark.filterwarnings("ignore:No trial of class")
def test_p_values_are_uniform_on_noise(problem, scheme, scoring):
    results = simulate(problem, 400, 99, scoring=scoring)
    assert {result.parameters["permute"] for result in results} == {scheme}
    assert kstest(p_without_ties(results), "uniform").pvalue > 0.01
    p = np.array([result.pvalues() for result in results])
    for alpha in (0.05, 0.1, 0.2, 0.5):
        margin = 3 * np.sqrt(alpha * (1 - alpha) / len(p))
        assert (p <= alpha).mean() < alpha + margin


def test_forgetting_the_subjects_finds_effects_in_noise():
    # Why whole groups exchange labels: the same data with trials shuffled freely.
    p = p_without_ties(simulate(between_subjects, 200, 99, permute="free"))
    assert (p <= 0.05).mean() > 0.1


@pytest.mark.filterwarnings("ignore:permute='free'")
def test_free_shuffling_over_fixed_stratified_folds_is_biased():
    # Observed labels are one draw from the shuffles within folds, so these stand for
    # them, with far less spread. 40 trials, 20 features, 2 classes, 10 folds: 0.006.
    within = simulate(listed, 200, 200, permute="within_folds")
    free = simulate(listed, 200, 200, permute="free")
    gaps = [a.null.mean() - b.null.mean() for a, b in zip(within, free, strict=True)]
    assert np.std(gaps) / np.sqrt(200) < 0.001
    assert np.mean(gaps) == pytest.approx(0.006, abs=0.002)
    assert np.mean([result.null.mean() for result in free]) < 0.497


@pytest.mark.parametrize("permute", ["free", "within_folds"])
def test_stratified_folds_that_follow_the_labels_are_not_biased(permute):
    # With 60 features free shuffling over fixed folds would show a gap of 0.010.
    results = simulate(stratified_wide, 1500, 40, permute=permute)
    gaps = [result.scores - result.null.mean() for result in results]
    error = np.std(gaps) / np.sqrt(len(gaps))
    assert error < 0.003
    assert abs(np.mean(gaps)) < 2 * error


def test_error_falls_with_the_number_of_permutations():
    # 12 trials, 6 of each class: all 924 arrangements can be listed.
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 3)), np.arange(12) % 2
    X[y == 1, 0] += 1.0
    options = {"cv": LeaveOneOut(), "permute": "free", "scoring": "roc_auc"}
    listed = cross_validate(X, y, n_permutations=5000, **options)
    assert listed.parameters["exact"]
    assert len(listed.null) == 923
    exact = listed.pvalues()
    errors = {}
    for n_permutations in (50, 200, 800):
        p = [
            cross_validate(
                X, y, n_permutations=n_permutations, random_state=seed, **options
            ).pvalues()
            for seed in range(200)
        ]
        errors[n_permutations] = np.sqrt(np.mean((np.array(p) - exact) ** 2))
        expected = np.sqrt(exact * (1 - exact) / n_permutations)
        assert errors[n_permutations] == pytest.approx(expected, rel=0.25)
    assert errors[800] < errors[200] < errors[50]
    assert exact == p_values(listed.scores, listed.null)


def generalization_maps(strength, autocorrelation, n_maps=300):
    """Yield maps of two classes that differ in the second half of the times only."""
    rng = np.random.default_rng(0)
    y, half = np.arange(60) % 2, 3
    for seed in range(n_maps):
        X = rng.standard_normal((60, 20, 2 * half))
        for t in range(1, X.shape[2]):
            keep = np.sqrt(1 - autocorrelation**2)
            X[:, :, t] = autocorrelation * X[:, :, t - 1] + keep * X[:, :, t]
        pattern = rng.standard_normal((2, 20))
        X[:, :, half:] += strength * pattern[y][:, :, None]
        yield generalize_arrays(
            X, y, cv=5, scoring="roc_auc", n_permutations=99, random_state=seed
        )


def share(flags):
    """Return the share of true cells, averaged over maps."""
    return np.mean([np.mean(flag) for flag in flags])


def test_a_classifier_of_noise_does_not_count_as_generalizing_to_a_signal():
    maps = list(generalization_maps(strength=1.0, autocorrelation=0.0))
    noise_to_signal = np.s_[:3, 3:]
    joint = [p_values(m.scores, m.nulls["roc_auc"]) for m in maps]
    assert share([p[noise_to_signal] <= 0.05 for p in joint]) > 0.15
    assert share([m.pvalues()[noise_to_signal] <= 0.05 for m in maps]) < 0.07
    corrected = [m.pvalues("max") <= 0.05 for m in maps]
    assert share([p[noise_to_signal].any() for p in corrected]) < 0.08
    assert share([p[3:, 3:] for p in corrected]) > 0.9  # not with a larger penalty


def test_maps_of_noise_that_lasts_are_calibrated():
    maps = list(generalization_maps(strength=0.0, autocorrelation=0.9))
    tests = [m.kept_tests("roc_auc")[1] for m in maps]
    fixed = [p_values(test.scores, test.null) for test in tests]
    assert share([np.diag(p) <= 0.05 for p in fixed]) > 0.065
    assert share([np.diag(m.pvalues()) <= 0.05 for m in maps]) < 0.055
    assert share([m.pvalues() <= 0.05 for m in maps]) < 0.055
    for correction in ("max", "cluster", "tfce"):
        assert share([(m.pvalues(correction) <= 0.05).any() for m in maps]) < 0.088


@pytest.mark.parametrize("cv", [None, LeaveOneOut()], ids=["runs", "leave one out"])
def test_searchlights_of_noise_are_calibrated(cv):
    """Smooth noise with drifting runs: any sphere, and the best of them."""
    affine, n_maps = np.diag([3.0, 3.0, 3.0, 1.0]), 300
    mask = Nifti1Image(np.ones((6, 6, 6), dtype=np.uint8), affine)
    groups = np.repeat(np.arange(4), 6)
    found = {"none": [], "max": [], "cluster": [], "tfce": []}
    for seed in range(n_maps):
        rng = np.random.default_rng(seed)
        y = np.concatenate([rng.permutation([0, 0, 0, 1, 1, 1]) for _ in range(4)])
        noise = gaussian_filter(rng.normal(size=(6, 6, 6, 24)), (1, 1, 1, 0))
        noise += gaussian_filter(rng.normal(size=(6, 6, 6, 4)), (1, 1, 1, 0))[
            ..., groups
        ]
        result = searchlight(
            Nifti1Image(noise, affine),
            y,
            groups=groups,
            mask_img=mask,
            radius=4.5,
            cv=cv,
            n_permutations=99,
            random_state=seed,
        )
        for correction, rates in found.items():
            rates.append(np.mean(result.pvalues(correction) <= 0.05))
    # Accuracies are discrete, so that a test may be conservative.
    assert 0.01 < np.mean(found.pop("none")) < 0.06
    for rates in found.values():
        wrong = np.mean(np.array(rates) > 0)
        assert wrong < 0.05 + 3 * np.sqrt(0.05 * 0.95 / n_maps)
