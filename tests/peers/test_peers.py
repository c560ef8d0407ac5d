"""The numbers of other people's programs, kept in `peers`, come out here as well.

``peers/README.rst`` names the programs, their versions and licences, and
``doc/benchmarks/peers`` has the scripts that ran them. Where a program defines a
quantity in another way, the test converts it, and so the guide says how to.
"""

from functools import cache
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mvpa_kfda import (
    RBF,
    DegreesOfFreedom,
    KernelFDA,
    Linear,
    Penalty,
    Polynomial,
    Ridge,
    TimeResult,
    cross_validate,
    decode_arrays,
    generalize_arrays,
    group_inference,
    regress,
)
from mvpa_kfda.inference.clusters import find_clusters, tfce
from mvpa_kfda.inference.corrections import corrected_p_values
from mvpa_kfda.inference.discoveries import calibrate, n_true
from mvpa_kfda.inference.null import Null
from mvpa_kfda.inference.prevalence import prevalence_bound, prevalence_p
from mvpa_kfda.kfda import direct
from mvpa_kfda.kfda.folds import make_folds
from mvpa_kfda.kfda.hat import hat_from_features
from mvpa_kfda.metrics.auc import make_roc, roc_auc
from tests import build

FOLDER = Path(__file__).parent


@cache
def read(name):
    """Return the cases of a file, whose arrays are named "number/field"."""
    cases = {}
    with np.load(FOLDER / f"{name}.npz") as file:
        for key in file.files:
            number, field = key.split("/")
            cases.setdefault(number, {})[field] = file[key]
    return [SimpleNamespace(**cases[number]) for number in sorted(cases)]


def cases_of(name, only=None):
    """Return a decorator that runs a test for every case of a program."""
    cases = enumerate(read(name))
    chosen = [pytest.param(c, id=f"{i}") for i, c in cases if only is None or only(c)]
    assert chosen
    return pytest.mark.parametrize("case", chosen)


def pairs_of(fold):
    """Return (train, test) pairs by the test set of every trial."""
    rows = np.arange(len(fold))
    return [(rows[fold != k], rows[fold == k]) for k in np.unique(fold)]


def has_two(case):
    """Whether there are two classes."""
    return hasattr(case, "lda_dval")


def decode(case, y=None, **options):
    """Cross-validate a case of MVPA-Light; lambda adds to the scatter, as there."""
    y = case.y if y is None else y
    cv, reg = pairs_of(case.fold), Ridge(float(case.lam))
    return cross_validate(case.X, y, reg=reg, cv=cv, **options)


# ------------------------------------------------------------------------- MVPA-Light


@cases_of("mvpa_light")
def test_mvpa_light_multiclass_lda(case):
    # Every prediction of every trial.
    assert_array_equal(decode(case).predictions, case.multiclass_lda)


@cases_of("mvpa_light")
def test_mvpa_light_metrics_of_all_classes(case):
    names = ["accuracy", "kappa", "confusion_matrix"]
    ours = decode(case, scoring=names).metrics
    assert_allclose(ours["accuracy"], case.accuracy, rtol=0, atol=1e-14)
    assert_allclose(ours["kappa"], case.kappa, rtol=0, atol=1e-14)
    # Theirs is divided by the number of trials of each class.
    shares = ours["confusion_matrix"] / ours["confusion_matrix"].sum(axis=1)[:, None]
    assert_allclose(shares, case.confusion, rtol=0, atol=1e-14)


@cases_of("mvpa_light")
def test_mvpa_light_precision_recall_and_f1(case):
    names = ["precision", "recall", "f1"]
    # With two classes the first is their positive one and the second is ours; with more
    # they list all classes, whose mean is ours. What nothing was predicted of is NaN.
    y = 1 - case.y if has_two(case) else case.y
    ours = decode(case, y, scoring=names).metrics
    for name in names:
        theirs = np.nan_to_num(getattr(case, name)).mean()
        assert_allclose(ours[name], theirs, rtol=0, atol=1e-14)


@cases_of("mvpa_light", has_two)
def test_mvpa_light_decision_values(case):
    # Theirs point at the first class, with w = (S_w + lambda I)^-1 (m_1 - m_2).
    scores = decode(case).class_scores
    atol = 1e-11 * np.abs(case.lda_dval).max()
    assert_allclose(scores[:, 0] - scores[:, 1], case.lda_dval, rtol=0, atol=atol)


@cases_of("mvpa_light", has_two)
def test_mvpa_light_areas(case):
    result = decode(case, scoring="roc_auc")
    # Test sets of one class have no area, in either program. Their mean is weighted by
    # the size of test sets, ours is not.
    ours = result.metrics["roc_auc"]
    assert_allclose(ours, np.nanmean(case.auc_fold), rtol=0, atol=1e-14)
    assert_allclose(result.roc().auc, case.auc_pooled, rtol=0, atol=1e-14)


@cases_of("mvpa_light")
def test_mvpa_light_ridge_regression(case):
    reg, cv = Ridge(float(case.lam)), pairs_of(case.fold)
    result = regress(case.X, case.yr, reg=reg, cv=cv)
    atol = 1e-9 * np.abs(case.yr).max()
    assert_allclose(result.predictions, case.ridge, rtol=0, atol=atol)


@cases_of("mvpa_light")
def test_mvpa_light_kernel_fda(case):
    # Theirs with discriminants of unit penalised scatter, see the guide.
    gamma = float(case.gamma)
    kernels = {"linear": Linear(), "rbf": RBF(gamma)}
    kernels["polynomial"] = Polynomial(2, gamma, 1.0)
    reg, kernel = Ridge(float(case.klam)), kernels[str(case.kernel)]
    model = KernelFDA(kernel, reg, penalty="dual")
    for train, test in pairs_of(case.fold):
        found = model.fit(case.X[train], case.y[train]).predict(case.X[test])
        assert_array_equal(found, case.kernel_fda[test])


@cases_of("mvpa_light_time")
def test_mvpa_light_time_generalization(case):
    options = {"reg": Ridge(float(case.lam)), "cv": pairs_of(case.fold)}
    ours = generalize_arrays(case.X, case.y, **options)
    # Accuracies of some tens of trials: less than 1e-3 apart is the same count.
    assert_allclose(ours.scores, case.txt, rtol=0, atol=1e-13)
    ours = decode_arrays(case.X, case.y, **options)
    assert_allclose(ours.scores, case.across, rtol=0, atol=1e-13)


@cases_of("mvpa_light_time")
def test_mvpa_light_cross_decoding(case):
    reg, options = Ridge(float(case.lam)), {"y_test": case.y2, "same_trials": False}
    ours = generalize_arrays(case.X, case.y, case.X2, reg=reg, **options)
    assert_allclose(ours.scores, case.cross, rtol=0, atol=1e-13)


# ----------------------------------------------------------------- Fast-Least-Squares


def labellings(case):
    """Return the labels and their permutations; each permutes the one before."""
    labels = [case.y]
    for order in case.perm:
        labels.append(labels[-1][order])
    return np.array(labels, dtype=int)


def comparable(labels, fold, n_classes, n_least):
    """Tell where all classes have so many training trials: (n, labellings)."""
    where = np.zeros(labels.T.shape, dtype=bool)
    for b, row in enumerate(labels):
        for k in np.unique(fold):
            counts = np.bincount(row[fold != k], minlength=n_classes)
            where[fold == k, b] = counts.min() >= n_least
    return where


@cases_of("mvpa_light", lambda case: hasattr(case, "perm"))
def test_direct_method_of_its_author_observed_and_permuted(case):
    labels, n_classes = labellings(case), len(np.unique(case.y))
    hat = hat_from_features(case.X, Ridge(float(case.lam)))
    plan = direct.prepare(hat, make_folds(pairs_of(case.fold), case.y))
    ours = np.empty(labels.T.shape, dtype=int)
    ours[plan.rows] = direct.apply(plan, labels, n_classes).predicted
    if n_classes == 2:
        theirs, least = np.where(case.direct_dval > 0, 0, 1), 1
    else:
        # The mean of one row is taken over its columns there, so that the centroid of
        # a class with one training trial is not where the class is.
        theirs, least = case.direct_class, 2
    where = comparable(labels, case.fold, n_classes, least)
    assert where.mean() > 0.9
    assert_array_equal(ours[where], theirs[where])


# -------------------------------------------------------------------------- prevalence


@cases_of("prevalence")
def test_prevalence_core(case):
    n_subjects, alpha = case.a.shape[1], float(case.alpha)
    results = [
        build.made(TimeResult, maps[:, 0], maps[:, 1:].T, times=np.arange(len(maps)))
        for maps in np.moveaxis(case.a, 1, 0)
    ]
    ours = group_inference(
        results,
        "prevalence",
        ["max", "none"],
        alpha=alpha,
        n_permutations=case.a.shape[2] ** n_subjects,  # all there are
    )
    near = {"rtol": 0, "atol": 1e-14}
    assert_allclose(ours.pvalues("none"), case.puGN, **near)
    assert_allclose(ours.pvalues("max"), case.pcGN, **near)
    # The program takes all subjects for alike, Eq. 19. Its correction, Eq. 21, is no
    # part of ours, but follows from the same functions.
    p, corrected = ours.pvalues("none"), ours.pvalues("max")
    alike = np.tile(p ** (1 / n_subjects), (n_subjects, 1))
    uncorrected = prevalence_p(alike, 0.5)
    assert_allclose(uncorrected, case.puMN, **near)
    assert_allclose(corrected + (1 - corrected) * uncorrected, case.pcMN, **near)
    assert_allclose(prevalence_bound(alike, alpha), case.gamma0u, rtol=0, atol=1e-12)
    with np.errstate(divide="ignore"):
        level = (alpha - corrected) / (1 - corrected)
    assert_allclose(prevalence_bound(alike, level), case.gamma0c, rtol=0, atol=1e-12)
    # Where subjects differ, the power of their mean is too small.
    own = prevalence_p(ours.p_of_minimum, 0.5)
    assert_allclose(ours.pvalues("none", hypothesis="majority"), own, **near)
    assert (own >= uncorrected - 1e-14).all()


# --------------------------------------------------------------------------- CoSMoMVPA


@cases_of("cosmomvpa")
def test_cosmomvpa_tfce(case):
    ours, step = tfce(case.z, case.adjacency), float(case.step)
    # Theirs are sums over heights, with an error in proportion to the step.
    assert_allclose(ours, case.tfce, rtol=0, atol=step / 2 * ours.max())


@cases_of("cosmomvpa")
def test_cosmomvpa_clusters(case):
    labels, masses = find_clusters(case.z, float(case.threshold), case.adjacency)
    sizes = np.bincount(labels.ravel())
    assert_allclose(np.r_[0, masses][labels], case.mass, rtol=1e-12, atol=0)
    assert_array_equal(np.r_[0, sizes[1:]][labels], case.extent)


@pytest.mark.parametrize(
    ("correction", "field"),
    [("cluster", "mass_p"), ("cluster-size", "extent_p")],
)
@cases_of("cosmomvpa")
def test_cosmomvpa_p_values_of_clusters(case, correction, field):
    # Accuracies, with a level and a spread of their own at every position.
    accuracy = 0.5 + 0.01 * case.z * np.arange(1, case.z.shape[1] + 1)
    ours = corrected_p_values(
        accuracy[0],
        accuracy[1:],
        correction,
        adjacency=case.adjacency,
        threshold=float(case.level),
    )
    assert_allclose(ours, getattr(case, field), rtol=0, atol=1e-14)


@cases_of("cosmomvpa")
def test_cosmomvpa_p_values_of_tfce(case):
    ours = corrected_p_values(case.z[0], case.z[1:], "tfce", adjacency=case.adjacency)
    # Their sums change the order of some maps.
    assert np.median(np.abs(ours - case.tfce_p)) < 1e-12
    assert_allclose(ours, case.tfce_p, rtol=0, atol=float(case.step) + 1e-12)


# --------------------------------------------------------------------- R: mda and MASS


def fitted_as_fda(case, **options):
    """Return the discriminants of mda's lambda, and what was left out of training."""
    train = np.setdiff1d(np.arange(len(case.y)), case.test)
    kernel = Penalty(case.omega) if case.kind == "matrix" else "linear"
    model = KernelFDA(kernel, Ridge(float(case.fitted_lam)), **options)
    return model.fit(case.X[train], case.y[train]), case.X[case.test], len(train)


@cases_of("r")
def test_mda_classes(case):
    model, X, _ = fitted_as_fda(case)
    assert_array_equal(model.predict(X), case.fda)
    model, X, _ = fitted_as_fda(case, priors="empirical")
    assert_array_equal(model.predict(X), case.fda_empirical)


@cases_of("r")
def test_mda_discriminants(case):
    model, X, n_train = fitted_as_fda(case)
    # Theirs have the scatter of one trial for their unit, and any sign.
    ours = np.sqrt(n_train) * model.transform(X)
    ours *= np.sign((ours * case.variates).sum(axis=0))
    assert_allclose(ours, case.variates, rtol=0, atol=1e-9)
    shares = 100 * np.cumsum(model.explained_variance_ratio_)
    assert_allclose(shares, np.atleast_1d(case.explained), rtol=0, atol=1e-9)


@cases_of("r")
def test_mda_posterior(case):
    model, X, _ = fitted_as_fda(case)
    assert_allclose(model.predict_proba(X), case.posterior, rtol=0, atol=1e-9)


@cases_of("r")
def test_mda_degrees_of_freedom(case):
    model, _, _ = fitted_as_fda(case)
    # Theirs are those of the slopes alone.
    ours = model.degrees_of_freedom_ - 1
    assert_allclose(ours, float(case.fitted_df), rtol=0, atol=1e-9)


@cases_of("r", lambda case: case.kind == "df")
def test_mda_penalty_for_degrees_of_freedom(case):
    train = np.setdiff1d(np.arange(len(case.y)), case.test)
    reg = DegreesOfFreedom(float(case.df) + 1)
    ours = KernelFDA(reg=reg).fit(case.X[train], case.y[train]).lambda_
    # Their search stops within a thousandth of the degrees of freedom.
    assert_allclose(ours, float(case.fitted_lam), rtol=2e-3)


@cases_of("r", lambda case: hasattr(case, "lda"))
def test_mass_lda(case):
    train = np.setdiff1d(np.arange(len(case.y)), case.test)
    n, n_classes = len(train), case.y.max() + 1
    model = KernelFDA(reg=Ridge(1e-5)).fit(case.X[train], case.y[train])
    near = {"rtol": 1e-4, "atol": 1e-4}  # lambda is next to none
    X = case.X[case.test]
    assert_array_equal(model.predict(X), case.lda)
    # Their covariance is S_w / (n - c), ours S_w / n.
    ours = np.sqrt(n - n_classes) * model.transform(X)
    ours *= np.sign((ours * case.lda_x).sum(axis=0))
    assert_allclose(ours, case.lda_x, **near)
    log_p = (1 - n_classes / n) * model.predict_log_proba(X)
    odds = np.exp(log_p - log_p.max(axis=1)[:, None])
    ours = odds / odds.sum(axis=1)[:, None]
    assert_allclose(ours, case.lda_posterior, **near)


# ----------------------------------------------------------------- R: pROC, p.adjust


@cases_of("r")
def test_proc_curve_and_area_with_ties(case):
    two = case.y < 2
    true, few = case.y[two], case.few[two]
    assert len(np.unique(few)) < len(few)
    scores = np.stack([np.zeros(len(few)), few], axis=1)
    result = SimpleNamespace(classes=np.arange(2), class_scores=scores, y=true)
    roc = make_roc(result)
    area = roc_auc(true[:, None], scores[:, :, None], [(1, len(true), 30)])
    assert_allclose([roc.auc, area[0]], case.auc, rtol=0, atol=1e-14)
    # Points on a line between others are left out here.
    theirs = np.stack([1 - case.specificity, case.sensitivity], axis=1)
    ours = np.stack([roc.fpr, roc.tpr], axis=1)
    apart = np.abs(ours[:, None] - theirs).max(axis=2).min(axis=1)
    assert_allclose(apart, 0, atol=1e-14)


@pytest.mark.parametrize(
    ("correction", "field"),
    [("none", "p"), ("bonferroni", "bonferroni"), ("fdr", "BH"), ("fdr-by", "BY")],
)
@cases_of("r")
def test_p_adjust(case, correction, field):
    ours = corrected_p_values(case.null[0], case.null[1:], correction)
    assert_allclose(ours, getattr(case, field), rtol=0, atol=1e-13)


# -------------------------------------------------------------------------- rsatoolbox


@cases_of("rsatoolbox")
def test_rsatoolbox_shrinkage(case):
    n, p = case.X.shape
    X = case.X - case.X.mean(axis=0)
    result = cross_validate(X, np.arange(n) % 2, reg="ledoit_wolf", cv=2)
    # Ours is lambda in S + lambda I; theirs keeps the trace of the covariance S / n,
    # and divides by n - 1.
    S, lam = X.T @ X, float(result.penalty["lambda"])
    ours = (S + lam * np.eye(p)) / (1 + lam * p / np.trace(S)) / (n - 1)
    assert_allclose(ours, case.covariance, rtol=0, atol=1e-12 * np.trace(S) / n)


@pytest.mark.filterwarnings("ignore:The class of a trial")
@cases_of("rsatoolbox_rdm")
def test_rsatoolbox_crossnobis(case):
    # Theirs has the identity for a covariance, is divided by the number of features,
    # and has a run as a test set. With a large penalty W + lambda I is nearly lambda I,
    # and (n_train - c) / lambda is the unit of ours. What W does falls as 1 / lambda,
    # and is taken out by a second penalty.
    p, lam = case.X.shape[1], 1e6
    near, nearer = (large_penalty(case, each) / p for each in (lam, 2 * lam))
    assert_allclose(near, case.distances, rtol=1e-2, atol=1e-3)
    assert_allclose(2 * nearer - near, case.distances, rtol=1e-6, atol=1e-7)


def large_penalty(case, lam):
    """Return the mean over runs of our distances, with the unit 1 / lambda."""
    each = []
    for train, test in pairs_of(case.fold):
        options = {"reg": Ridge(lam), "cv": [(train, test)]}
        result = cross_validate(
            case.X, case.y, scoring="crossnobis_distances", **options
        )
        each.append(result.rdm() * lam / (len(train) - len(result.classes)))
    return np.mean(each, axis=0)


# --------------------------------------------------------------------------- sanssouci


@cases_of("sanssouci")
def test_sanssouci_true_discoveries(case):
    made = calibrate(Null(case.rows[0], case.rows[1:]))
    # Theirs are of p-values, times the number of positions.
    n_rows, m = case.rows.shape
    assert_allclose(made.statistics * m / n_rows, case.statistics, rtol=1e-12, atol=0)
    levels = made.levels(float(case.alpha))
    bounds = [n_true(levels[members])[0] for members in case.sets]
    assert_array_equal(bounds, case.bounds)
    assert max(bounds) > 1


# ------------------------------------------------------------------------- the scripts


def test_numbers_are_compared_with_those_made_again(monkeypatch, tmp_path, capsys):
    scripts = Path(__file__).parents[2] / "doc" / "benchmarks" / "peers"
    monkeypatch.syspath_prepend(scripts)
    remake = import_module("remake")
    remake.write_inputs(tmp_path)
    assert {path.stem for path in tmp_path.iterdir()} == {
        f"{name}_in" for name in remake.INPUTS
    }
    covariances = {str(i): case.covariance for i, case in enumerate(read("rsatoolbox"))}
    covariances["2"] = covariances["2"] + 0.25
    np.savez(tmp_path / "rsatoolbox_out.npz", **covariances)
    monkeypatch.setattr("sys.argv", ["remake.py", "outputs", str(tmp_path)])
    remake.main()
    assert "covariance       furthest apart 2.5e-01" in capsys.readouterr().out
