"""Steps before the kernel that every fold learns from its own training rows.

Steps are transformers of scikit-learn that look at no labels: they change a fold's
kernel, but not its labels, so that all label permutations share them.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

from ..utils.checks import quoted

#: What names stand for.
STEPS = {
    "zscore": StandardScaler(),
    "pca": PCA(0.99, svd_solver="full"),
    "whiten": PCA(0.99, svd_solver="full", whiten=True),
}

_REFIT = (
    "To refit such a step with the classifier, use "
    "sklearn.model_selection.cross_val_score(make_pipeline(step, KernelFDA()), X, y)."
)


def check_steps(preprocess):
    """Return the transformers (a tuple) of a `preprocess` argument; none for None."""
    if preprocess is None:
        return ()
    given = preprocess if isinstance(preprocess, list | tuple) else [preprocess]
    return tuple(_check_step(each) for each in given)


def _check_step(step):
    """Return a transformer, which must look at no labels."""
    if isinstance(step, str) and step in STEPS:
        return STEPS[step]
    if isinstance(step, type):
        raise TypeError(
            f"Invalid value for 'preprocess': the class {step.__name__}. Give an "
            f"object, {step.__name__}()."
        )
    if not all(hasattr(step, name) for name in ("fit", "transform", "get_params")):
        raise TypeError(
            f"Invalid value for 'preprocess': {step!r}. Allowed: None, "
            f"{quoted(STEPS)}, a transformer of scikit-learn, or a list of these."
        )
    if get_tags(step).target_tags.required:
        raise ValueError(
            f"The step {step!r} in preprocess looks at the labels, so that it would "
            f"have to be learned anew for every permutation of them. {_REFIT}"
        )
    return step


@dataclass(frozen=True)
class FittedSteps:
    """Steps that have been learned from some rows."""

    steps: tuple

    def __call__(self, X):
        """Return features (n, r) of rows (n, p)."""
        for step in self.steps:
            X = _checked(step, step.transform(X), len(X))
        return X


def fit_steps(steps, X):
    """Return the `FittedSteps` of rows X (n, p), each learned from what the last made."""
    fitted = []
    for step in steps:
        try:
            fitted.append(clone(step).fit(X))
        except TypeError as error:
            if "'y'" not in str(error):
                raise
            raise ValueError(
                f"The step {step!r} in preprocess needs labels: {error}. {_REFIT}"
            ) from error
        X = _checked(step, fitted[-1].transform(X), len(X))
    return FittedSteps(tuple(fitted))


def _checked(step, X, n):
    """Return what a step made of n rows, finite values (n, r)."""
    what = f"The step {step!r} in preprocess"
    if issparse(X):
        raise ValueError(
            f"{what} returns a sparse matrix. Allowed: a dense array; many steps have "
            "an option for that."
        )
    X = np.asarray(X)
    if X.ndim != 2 or len(X) != n or X.shape[1] == 0:
        raise ValueError(
            f"{what} returns shape {X.shape} for {n} rows. Allowed: one row with one "
            "or more features for each."
        )
    if X.dtype.kind not in "iuf" or not np.isfinite(X).all():
        raise ValueError(
            f"{what} returns values that are not finite numbers. Look at its options, "
            "and for features that are constant in some training set."
        )
    return X.astype(np.float64, copy=False)
