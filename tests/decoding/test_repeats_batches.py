"""Repeats that are handled together: how many never changes a result or a message."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import PredefinedSplit, StratifiedKFold

from mvpa_kfda import RBF, cross_validate, decode_arrays, generalize_arrays
from mvpa_kfda.decoding import draws

RUNS = np.repeat(np.arange(5), [8, 10, 6, 4, 8])
UNEQUAL = PredefinedSplit(np.repeat([0, 1, 2], [18, 6, 12]))
OPTIONS = {
    "reg": 0.3,
    "cv": 3,
    "average": 2,
    "n_repeats": 5,
    "n_permutations": 3,
    "random_state": 0,
}


def problem(n_times=6, n_features=20):
    """Return trials (36, features, times) of two classes, and their labels."""
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat([0, 1], [16, 20]))
    noise = rng.standard_normal((36, n_features, n_times))
    return noise + 0.2 * y[:, None, None], y


CASES = {
    "times": lambda X, y: decode_arrays(X, y, verbose=False, **OPTIONS),
    "averaged kernels": lambda X, y: decode_arrays(
        X, y, kernel=RBF(0.1), verbose=False, **OPTIONS
    ),
    "confounds": lambda X, y: decode_arrays(
        X, y, confounds=X[:, :2, 0], verbose=False, **OPTIONS
    ),
    "single trials tested": lambda X, y: decode_arrays(
        X, y, average_test=False, verbose=False, **OPTIONS
    ),
    "features": lambda X, y: cross_validate(X[:, :, 0], y, **OPTIONS),
    "generalization": lambda X, y: generalize_arrays(X, y, verbose=False, **OPTIONS),
}


@pytest.mark.some(6)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("limit", ["MATRIX_BYTES", "DRAWN_BYTES"])
def test_memory_for_repeats_changes_nothing(name, limit, monkeypatch):
    X, y = problem()
    expected = CASES[name](X, y)
    monkeypatch.setattr(draws, limit, 0)
    found = CASES[name](X, y)
    assert len(np.unique(found.null)) > 2
    assert_array_equal(found.scores, expected.scores)
    assert_array_equal(found.null, expected.null)


def spread(true, predicted, scores):
    """Return a score that no two penalties share."""
    return np.abs(scores - scores.mean(axis=1, keepdims=True)).mean()


@pytest.mark.parametrize(
    ("n_features", "options", "n_grams"),
    [
        (60, {}, 6),
        (60, {"reg": "ledoit_wolf"}, 6),
        (60, {"reg": "ledoit_wolf", "average_test": False}, 0),
        (60, {"reg": "auto"}, 6),
        # The largest fold comes first, and is handled last.
        (20, {"reg": "auto", "groups": RUNS, "cv": UNEQUAL}, 0),
        (20, {"reg": "ledoit_wolf"}, 0),
        (20, {"kernel": RBF(0.1)}, 6),
        (20, {"average": None, "cv": StratifiedKFold(3)}, 0),
        (60, {"average": None, "cv": StratifiedKFold(3), "reg": "ledoit_wolf"}, 0),
        (60, {"average": None, "cv": StratifiedKFold(3), "reg": "auto"}, 0),
    ],
)
def test_shared_matrices_change_nothing(n_features, options, n_grams, monkeypatch):
    """Those of a block of positions, against a model of its own for every repeat."""
    X, y = problem(n_features=n_features)
    options = OPTIONS | {"scoring": ["accuracy", "roc_auc", spread]} | options
    made = []

    def counted(name, function):
        return lambda *args: made.append(name) or function(*args)

    with monkeypatch.context() as patch:
        patch.setattr(draws, "gram_of", counted("gram", draws.gram_of))
        of_block = counted("block", draws.BlockHats.of)
        patch.setattr(draws.BlockHats, "of", of_block)
        together = decode_arrays(X + 5, y, verbose=False, **options)
    assert [made.count(each) for each in ("gram", "block")] == [n_grams, 2]
    monkeypatch.setattr(draws.BlockHats, "of", staticmethod(lambda *_: None))
    apart = decode_arrays(X + 5, y, verbose=False, **options)
    assert_allclose(together.lambdas, apart.lambdas, rtol=1e-10, atol=0)
    for name, null in apart.nulls.items():
        assert len(np.unique(null)) > 5
        rtol = 1e-7 if name == "spread" else 1e-12
        assert_allclose(together.metrics[name], apart.metrics[name], rtol=rtol, atol=0)
        assert_allclose(together.nulls[name], null, rtol=rtol, atol=0)


def test_few_matrices_are_held_at_once(monkeypatch):
    X, y = problem()
    held = []
    prepare_sorted = draws.prepare_sorted

    def counted(hats, *settings, **options):
        held.append(len(hats))
        return prepare_sorted(hats, *settings, **options)

    monkeypatch.setattr(draws, "prepare_sorted", counted)
    options = OPTIONS | {"cv": list(StratifiedKFold(3).split(X[:, :, 0], y))}
    decode_arrays(X, y, verbose=False, **options)
    assert held == [4 * 15, 2 * 15]  # 5 repeats of 3 permutations, of 4 and of 2 times
    # Of one time they hold a matrix (16, 16) of 8 bytes, and blocks of folds twice.
    each = 8 * (16**2 + 2 * (6**2 + 6**2 + 4**2))
    monkeypatch.setattr(draws, "MATRIX_BYTES", 2 * 4 * each)
    held.clear()
    decode_arrays(X, y, verbose=False, **options)
    assert max(held) == 8


def test_what_fails_in_a_permutation_is_located(monkeypatch):
    X, y = problem()
    calls = []

    def fails(hats, *settings, **options):
        calls.append(len(hats))
        raise ValueError("some of them")  # one by one they are in order

    expected = decode_arrays(X, y, verbose=False, **OPTIONS)
    monkeypatch.setattr(draws, "prepare_sorted", fails)
    found = decode_arrays(X, y, verbose=False, **OPTIONS)
    assert calls == [4 * 15, 2 * 15]
    assert len(np.unique(found.null)) > 2
    assert_array_equal(found.null, expected.null)

    def kernel(A, B):
        if A[0, 0] == X[0, 0, 4]:
            raise ValueError("my kernel")
        return A @ B.T

    with pytest.raises(ValueError, match=r"^At 0\.400 s: kernel .* my kernel$"):
        decode_arrays(X, y, kernel=kernel, sfreq=10.0, verbose=False, **OPTIONS)
