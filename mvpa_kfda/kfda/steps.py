"""Steps before the kernel that every fold learns from its own training rows.

Steps are transformers of scikit-learn that look at no labels: they change a fold's
kernel, but not its labels, so that all label permutations share them.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import lstsq
from scipy.sparse import issparse
from sklearn.base import (
    BaseEstimator,
    OneToOneFeatureMixin,
    TransformerMixin,
    clone,
)
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

from ..utils.checks import quoted
from .kernels import kernels_of, needs_gram

#: What names stand for.
STEPS = {
    "zscore": StandardScaler(),
    "pca": PCA(0.99, svd_solver="full"),
    "whiten": PCA(0.99, svd_solver="full", whiten=True),
}

#: Steps that make one feature of each.
_KEEPS = OneToOneFeatureMixin
#: Confounds are collinear from here on, relative to the largest singular value.
_ALIKE = 1e-10

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


def check_kernel_after(kernel, learned, given):
    """Refuse kernels that cannot follow on what folds learn, as a message has given."""
    if any(needs_gram(each) for each in kernels_of(kernel)):
        raise ValueError(
            f"{kernel!r} is given kernel matrices, and {given} needs features to learn "
            "from. Give the features and a kernel of them."
        )
    mixing = [step for step in learned.steps if not isinstance(step, _KEEPS)]
    placed = [each for each in kernels_of(kernel) if hasattr(each, "n_features")]
    if mixing and placed:
        raise ValueError(
            f"{placed[0]!r} knows the features by their places, and the step "
            f"{mixing[0]!r} in preprocess makes others of them. Use another kernel, or "
            "steps that keep the features apart, such as 'zscore'."
        )


class RemoveConfounds(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Take what the last columns explain out of the other ones, by regression.

    The coefficients, with an intercept, are those of the rows it is fitted on. The
    last columns are left out of what it returns.

    Parameters
    ----------
    n_confounds : int
        How many columns are confounds.
    """

    def __init__(self, n_confounds):
        self.n_confounds = n_confounds

    def _split(self, X):
        """Return features and confounds."""
        return X[:, : -self.n_confounds], X[:, -self.n_confounds :]

    def fit(self, X, y=None):
        """Fit the regression of the features on the confounds."""
        features, confounds = self._split(X)
        self.mean_ = confounds.mean(axis=0)
        centred = confounds - self.mean_
        # Constant and collinear confounds explain nothing more: the least norm.
        self.coef_ = lstsq(centred, features - features.mean(axis=0), cond=_ALIKE)[0]
        return self

    def transform(self, X):
        """Return the features without what the confounds explain."""
        features, confounds = self._split(X)
        return features - (confounds - self.mean_) @ self.coef_


@dataclass(frozen=True)
class Learned:
    """What every fold learns from its training trials, before the kernel."""

    #: Transformers, to be cloned.
    steps: tuple = ()
    #: To be taken out of the features first, (n, k).
    confounds: np.ndarray | None = None
    #: The same of other trials that are tested, (n_test, k).
    others: np.ndarray | None = None

    def __bool__(self):
        return bool(self.steps) or self.confounds is not None

    def augmented(self, X, trials=slice(None)):
        """Return features (..., n, p) of some trials with their confounds behind."""
        if self.confounds is None:
            return X
        C = self.confounds[trials]
        C = np.broadcast_to(C, (*X.shape[:-1], C.shape[-1]))
        return np.concatenate([X, C], axis=-1)

    @property
    def of_others(self):
        """The same for other trials that are tested."""
        return replace(self, confounds=self.others)

    def averaged(self, averaging):
        """Return the same for averages of trials."""
        if self.confounds is None:
            return self
        return replace(self, confounds=averaging.apply(self.confounds, 0))

    def fit(self, X):
        """Return the `FittedSteps` of rows X, with their confounds behind."""
        first = ()
        if self.confounds is not None:
            first = (RemoveConfounds(self.confounds.shape[1]),)
        return fit_steps((*first, *self.steps), X)

    def record(self):
        """Return what a result records of it."""
        n_confounds = 0 if self.confounds is None else self.confounds.shape[1]
        return {
            "preprocess": [repr(step) for step in self.steps] or None,
            "n_confounds": n_confounds,
        }


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
    """Return the `FittedSteps` of rows X (n, p), each learned from the last one's."""
    fitted = []
    for number, step in enumerate(steps):
        if number:
            X = _checked(steps[number - 1], fitted[-1].transform(X), len(X))
        try:
            fitted.append(clone(step).fit(X))
        except TypeError as error:
            if "'y'" not in str(error):
                raise
            raise ValueError(
                f"The step {step!r} in preprocess needs labels: {error}. {_REFIT}"
            ) from error
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
