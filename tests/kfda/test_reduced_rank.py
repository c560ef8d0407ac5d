"""Classification by the first discriminants only, in every fold and permutation."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import KFold, LeaveOneOut, ShuffleSplit

from mvpa_kfda import RBF, KernelFDA, Ridge
from mvpa_kfda.kfda import direct
from mvpa_kfda.kfda.direct import Stack, make_targets
from mvpa_kfda.kfda.folds import make_folds
from mvpa_kfda.kfda.hat import make_hat
from mvpa_kfda.kfda.kernels import Linear
from mvpa_kfda.kfda.rules import (
    FITTED_EXACTLY,
    RuleTerms,
    _full,
    _reduced,
    best_of_two,
    class_rule,
    contrasts,
    usable,
)

LAM = 3.0


def problem(c, p, n=47, n_permutations=3, seed=0):
    """Return features, and unbalanced label vectors, the observed ones first."""
    rng = np.random.default_rng(seed)
    codes = np.minimum(rng.geometric(0.4, n) - 1, c - 1)
    codes[: 2 * c] = np.tile(np.arange(c), 2)
    X = rng.standard_normal((n, p)) + 1.5 * rng.standard_normal((c, p))[codes]
    shuffled = (rng.permutation(codes) for _ in range(n_permutations))
    return X, np.stack([codes, *shuffled])


def apply(X, labels, c, folds, rank, kernel=None, dtype="float64"):
    """Return the plan's rows and the direct predictions of reduced rank."""
    hat = make_hat(X, Linear() if kernel is None else kernel, Ridge(LAM))
    plan = direct.prepare(hat, folds, dtype)
    targets = make_targets(labels, c, plan.folds, plan.dtype, rank)
    return plan.rows, direct.apply_targets(plan, targets, want_scores=True)


def by_size(folds):
    """Return (train, test) in the order in which folds are processed."""
    return sorted(folds.pairs, key=lambda pair: len(pair[1]))


def estimator_scores(X, codes, train, test, c, rank, kernel="linear"):
    """Return the class scores of a fold's test rows by KernelFDA, fitted anew."""
    scores = np.full((len(test), c), -np.inf)
    present = np.unique(codes[train])
    rank = min(rank, len(present) - 1)
    model = KernelFDA(kernel, Ridge(LAM), n_components=rank)
    model.fit(X[train], codes[train])
    scores[:, present] = model.transform(X[test]) @ model.means_.T + model.offsets_
    return scores


def check(scored, labels, folds, expected_of):
    """Compare class scores and predictions with those of refitted models."""
    for b, codes in enumerate(labels):
        expected = np.concatenate([expected_of(codes, *f) for f in by_size(folds)])
        scale = np.abs(expected[np.isfinite(expected)]).max()
        assert_allclose(
            scored.class_scores[:, :, b], expected, rtol=1e-8, atol=1e-8 * scale
        )
        assert_array_equal(scored.predicted[:, b], expected.argmax(axis=1))


@pytest.mark.parametrize("p", [6, 90])
@pytest.mark.parametrize(
    ("c", "rank"), [(3, 1), (4, 1), (4, 2), (5, 3), (8, 1), (8, 4), (8, 6)]
)
def test_refitted_discriminants_classify_alike(c, rank, p):
    X, labels = problem(c, p)
    folds = make_folds(KFold(4), labels[0])
    rows, scored = apply(X, labels, c, folds, rank)
    assert_array_equal(rows, np.concatenate([test for _, test in by_size(folds)]))
    check(
        scored,
        labels,
        folds,
        lambda codes, train, test: estimator_scores(X, codes, train, test, c, rank),
    )


@pytest.mark.parametrize(
    "cv",
    [LeaveOneOut(), ShuffleSplit(3, test_size=0.3, random_state=0)],
    ids=["leave one out", "overlap"],
)
def test_other_kernels_and_folds(cv):
    X, labels = problem(4, 6, n=30, n_permutations=1)
    folds, kernel = make_folds(cv, labels[0]), RBF(0.1)
    _, scored = apply(X, labels, 4, folds, 2, kernel)
    check(
        scored,
        labels,
        folds,
        lambda *fold: estimator_scores(X, *fold, c=4, rank=2, kernel=kernel),
    )


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_classes_absent_from_training_are_never_predicted(rank):
    X, labels = problem(5, 7, n_permutations=0)
    codes = np.sort(labels[0])
    lost = [np.flatnonzero(codes == 4), np.flatnonzero(np.isin(codes, [1, 3]))]
    pairs = [(np.setdiff1d(np.arange(len(codes)), test), test) for test in lost]
    folds = make_folds(pairs, codes)
    _, scored = apply(X, codes[None], 5, folds, rank)
    assert np.isneginf(scored.class_scores).any()
    check(
        scored,
        codes[None],
        folds,
        lambda *fold: estimator_scores(X, *fold, c=5, rank=rank),
    )


def test_rank_matters_and_the_full_rank_is_the_usual_rule():
    X, labels = problem(5, 8)
    folds = make_folds(KFold(4), labels[0])
    plan = direct.prepare(make_hat(X, Linear(), Ridge(LAM)), folds)
    usual = direct.apply(plan, labels, 5, True)
    for rank in (4, 5, None):
        _, scored = apply(X, labels, 5, folds, rank)
        assert_array_equal(scored.class_scores, usual.class_scores)
    _, scored = apply(X, labels, 5, folds, 1)
    assert (scored.predicted != usual.predicted).mean() > 0.1


@pytest.mark.parametrize("absent", [False, True])
def test_all_discriminants_together_are_the_solution(absent):
    X, labels = problem(5, 8)
    codes = labels[0]
    if absent:
        X, codes = X[codes != 2], codes[codes != 2]
    counts = np.bincount(codes, minlength=5).astype(float)[:, None, None]
    terms = RuleTerms(counts, contrasts(5), rank=4)
    T = contrasts(5)[codes]
    A = (T.T @ make_hat(X, Linear(), Ridge(LAM)).residuals(T))[:, :, None, None]
    if absent:
        A += terms.fill
    present = np.flatnonzero(counts)
    assert len(present) == 5 - absent
    for reduced, full in zip(_reduced(A, terms), _full(A, terms), strict=True):
        axis = reduced.ndim - 3
        assert_allclose(
            reduced.take(present, axis), full.take(present, axis), rtol=1e-9, atol=1e-11
        )


def test_many_positions_are_one_model():
    X, labels = problem(4, 6)
    folds = make_folds(KFold(5), labels[0])
    plans = tuple(
        direct.prepare(make_hat(part, Linear(), Ridge(LAM)), folds)
        for part in (X, X[:, :4], X[:, 2:])
    )
    folds, dtype = plans[0].folds, plans[0].dtype
    targets = make_targets(labels[:1], 4, folds, dtype, 2)
    together = direct.apply_targets(Stack(plans), targets, True)
    for s, plan in enumerate(plans):
        alone = direct.apply_targets(plan, targets, True)
        assert_allclose(
            together.class_scores[:, :, s],
            alone.class_scores[:, :, 0],
            rtol=1e-9,
            atol=1e-11,
        )


def test_two_classes_have_one_discriminant():
    X, labels = problem(2, 5)
    folds = make_folds(KFold(5), labels[0])
    plan = direct.prepare(make_hat(X, Linear(), Ridge(LAM)), folds)
    targets = make_targets(labels, 2, plan.folds, plan.dtype, 1)
    usual = direct.apply(plan, labels, 2)
    assert_array_equal(direct.apply_targets(plan, targets).predicted, usual.predicted)


def test_single_precision_deviates_by_its_rounding():
    X, labels = problem(5, 30, n=150)
    folds = make_folds(KFold(5), labels[0])
    _, double = apply(X, labels, 5, folds, 2)
    _, single = apply(X, labels, 5, folds, 2, dtype="float32")
    assert single.class_scores.dtype == np.float32
    scale = np.abs(double.class_scores).max()
    assert_allclose(single.class_scores, double.class_scores, rtol=0, atol=1e-3 * scale)


def test_ties_go_to_the_first_class():
    rng = np.random.default_rng(0)
    X = np.tile(rng.standard_normal((15, 4)), (4, 1))  # every class has the same trials
    codes, trial = np.repeat(np.arange(4), 15), np.tile(np.arange(15), 4)
    pairs = [
        (np.flatnonzero(trial % 5 != i), np.flatnonzero(trial % 5 == i))
        for i in range(5)
    ]
    _, scored = apply(X, codes[None], 4, make_folds(pairs, codes), 2)
    assert_array_equal(scored.predicted, 0)


@pytest.mark.parametrize("rank", [3, None])
def test_absent_classes_do_not_widen_near_ties(rank):
    counts = np.array([12, 0, 9, 0, 15], np.float32)[:, None, None]
    terms = RuleTerms(counts, contrasts(5).astype(np.float32), rank)
    centred = terms.D[:, :, 0, 0] * np.sqrt(counts[:, 0, 0])
    A = (0.5 * centred @ centred.T)[:, :, None, None]  # alpha^2 is a half
    W, b = class_rule(A, terms)
    at_mean = (b + (terms.mean[:, None] * W).sum(axis=0))[[0, 2, 4], 0, 0]
    norms = 1 / counts[[0, 2, 4], 0, 0] - 1 / counts.sum()
    assert_allclose(at_mean, -norms / 2, rtol=0, atol=1.5e-5)


@pytest.mark.parametrize(
    ("c", "rank", "share"),
    [(4, 2, 0.0), (4, 2, 30.0), (4, None, 0.0), (4, None, -30.0), (14, None, -30.0)],
)
def test_an_exact_fit_is_refused(c, rank, share):
    # Of the spread within classes nothing is left but units of rounding.
    terms = RuleTerms(np.full((c, 1, 1), 6.0), contrasts(c), rank)
    A = (share * np.finfo(np.float64).eps) * terms.scatter
    with pytest.raises(ValueError, match=FITTED_EXACTLY.split(":")[0]):
        class_rule(A, terms)
    assert not usable(A, terms).any()


def test_an_exact_fit_of_two_classes_is_refused():
    terms = RuleTerms(np.full((2, 1, 1), 6.0), contrasts(2))
    T = contrasts(2)[[0, 1]].T[:, None, :, None]
    best_of_two(np.zeros((1, 1, 2, 1)), T, np.full((1, 1, 1, 1), 1e-9), terms)
    with pytest.raises(ValueError, match=FITTED_EXACTLY.split(":")[0]):
        best_of_two(np.zeros((1, 1, 2, 1)), T, np.zeros((1, 1, 1, 1)), terms)
