"""Two classes need no class scores."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from mvpa_kfda import Linear
from mvpa_kfda.kfda import direct
from mvpa_kfda.kfda.folds import Folds
from mvpa_kfda.kfda.hat import make_hat


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_two_classes_are_told_apart_alike_with_and_without_scores(dtype):
    """Also where a class is absent from training, and where whole numbers tie."""
    for seed in range(80):
        rng = np.random.default_rng(seed)
        n, whole = int(rng.integers(6, 24)), seed % 2
        X = rng.uniform(-2.5, 2.5, (n, int(rng.integers(1, 4))))
        X = np.rint(X) if whole else X
        X[0] += 0.1 * (X == X[0]).all()  # trials that do not differ at all are refused
        tests = [rng.choice(n, rng.integers(1, n // 2), False) for _ in range(4)]
        labels = rng.integers(0, 2, (30, n))
        labels[0] = np.isin(np.arange(n), tests[0])  # its second class is not trained
        labels[1] = 1 - labels[0]
        plan = direct.prepare(make_hat(X, Linear(), 0.3), Folds(tuple(tests), n), dtype)
        quick = direct.apply(plan, labels, 2)
        slow = direct.apply(plan, labels, 2, want_scores=True)
        assert quick.class_scores is None
        assert np.isneginf(slow.class_scores).any()
        assert_array_equal(quick.predicted, slow.predicted)
