"""Maps of rows before the kernel, fitted on each fold's training trials.

Steps are transformers of scikit-learn. Most use no labels: they change a fold's kernel,
but not its labels, so that all label permutations share them. Those that learn from the
labels are fitted anew for every permutation, and with them each fold's matrix.
"""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np
from scipy.linalg import lstsq
from scipy.sparse import issparse
from sklearn import config_context
from sklearn.base import (
    BaseEstimator,
    OneToOneFeatureMixin,
    TransformerMixin,
    clone,
)
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectorMixin, VarianceThreshold
from sklearn.preprocessing import StandardScaler

from ..utils.checks import counted, invalid, quoted
from ..utils.plain import recorded
from .kernels import innermost, kernels_of, needs_gram


class NoiseScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    r"""Divide each feature by its standard deviation within classes.

    Known as univariate noise normalisation [1]_: of n rows x of c classes with means m,
    :math:`\sigma_j^2 = \sum_i (x_{ij} - m_{y_i j})^2 / (n - c)`. Features that are
    constant within classes but for rounding are left as they are.

    References
    ----------
    .. [1] Guggenmos, Sterzer & Cichy (2018). Multivariate pattern analysis for MEG: A
       comparison of dissimilarity measures. NeuroImage 173, 434-447.
    """

    def fit(self, X, y):
        """Learn the standard deviations of rows (n, p) of classes y (n,)."""
        _, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
        member = codes == np.arange(len(counts))[:, np.newaxis]
        centred = X - X.mean(axis=0)
        means = (member @ centred) / counts[:, np.newaxis]
        squares = np.square(centred - means[codes]).sum(axis=0)
        # Rounding of the values themselves, and of what their spread is made of.
        size = np.abs(X).max(axis=0) * np.finfo(float).eps
        noise = squares > len(X) * np.maximum(size, _ALIKE * np.ptp(X, axis=0)) ** 2
        spread = np.sqrt(squares / max(len(X) - len(counts), 1))
        self.scale_ = np.where(noise, spread, 1.0)
        return self

    def transform(self, X):
        """Return the features by their standard deviations."""
        return X / self.scale_


#: Steps by name.
STEPS = {
    "zscore": StandardScaler(),
    "pca": PCA(0.99, svd_solver="full"),
    "whiten": PCA(0.99, svd_solver="full", whiten=True),
    "noise_scale": NoiseScaler(),
}


class Transformer(Protocol):
    """What is learned from rows, as transformers of scikit-learn are."""

    def fit(self, X: Any, y: Any = None) -> Any:
        """Learn from rows."""
        ...

    def transform(self, X: Any) -> Any:
        """What becomes of rows."""
        ...


StepName = Literal["zscore", "pca", "whiten", "noise_scale"]
Step = StepName | str | Transformer
Preprocess = Step | Sequence[Step] | None

#: How nearly a step must map rows alone as among others, relative to the largest value.
_SAME = 1e-7
#: Share of the variance up to which components are as exact from the covariance.
_MOST_EXPLAINED = 0.999
#: Confounds are collinear from here on, relative to the largest singular value; and no
#: earlier, however few digits they have left.
_ALIKE, _MOST_ALIKE = 1e-10, 1e-6
#: What an offset adds to the size of what varies, in rounding.
_SMALLEST = 1e-4

_REFIT = (
    "To refit such a step with the classifier, use "
    "sklearn.model_selection.cross_val_score(make_pipeline(step, KernelFDA()), X, y)."
)
_HIDES_LABELS = (
    "The step {!r} in preprocess learns from the labels, but does not say so (its "
    f"fit has y=None), so that it was fitted without. {_REFIT}"
)


def check_steps(preprocess):
    """The transformers (a tuple) of a `preprocess` argument."""
    if preprocess is None:
        return ()
    given = preprocess if isinstance(preprocess, list | tuple) else [preprocess]
    return tuple(_check_step(each) for each in given)


def _check_step(step):
    if isinstance(step, str) and step in STEPS:
        return STEPS[step]
    if isinstance(step, type):
        raise TypeError(
            f"Invalid value for 'preprocess': the class {step.__name__}. Pass an "
            f"object, {step.__name__}()."
        )
    if not all(hasattr(step, name) for name in ("fit", "transform", "get_params")):
        named = f"None, {quoted(STEPS)}, a transformer of scikit-learn"
        raise invalid("preprocess", step, f"{named}, or a list of these", TypeError)
    return step


def needs_labels(step):
    """Whether a transformer, or one within it, learns from labels."""
    if type(step) in (StandardScaler, PCA, VarianceThreshold):
        return False
    # Some selectors say that they may do without.
    if isinstance(step, NoiseScaler | SelectorMixin):
        return True
    y = inspect.signature(step.fit).parameters.get("y")
    if y is not None and y.default is y.empty:
        return True
    tags = getattr(step, "__sklearn_tags__", None)
    if tags is not None and tags().target_tags.required:
        return True
    within = [x for x in step.get_params().values() if not isinstance(x, type)]
    steps = [x for x in within if hasattr(x, "transform") and hasattr(x, "get_params")]
    return any(map(needs_labels, steps))


def check_kernel_after(kernel, preprocessing, given):
    """Refuse kernels that cannot follow a `FoldPreprocessing`, given as worded."""
    if any(needs_gram(each) for each in kernels_of(kernel)):
        raise ValueError(
            f"{kernel!r} is given kernel matrices, and {given} needs features to learn "
            "from. Pass the features and a kernel for them."
        )
    keeps = OneToOneFeatureMixin  # one feature of each
    mixing = [step for step in preprocessing.steps if not isinstance(step, keeps)]
    inner = map(innermost, kernels_of(kernel))
    placed = [each for each in inner if hasattr(each, "n_features")]
    if mixing and placed:
        raise ValueError(
            f"{placed[0]!r} knows the features by their places, and the step "
            f"{mixing[0]!r} in preprocess makes others of them. Use another kernel, or "
            "steps that keep the features apart, such as 'zscore'."
        )


class RemoveConfounds(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Take what the last columns explain out of the other ones, by regression.

    The coefficients, with an intercept, are those of the rows it is fitted on, whose
    mean features keep. Of categories there is an indicator of each, and of all
    coefficients that fit alike the smallest are taken. They sum to zero over the
    categories of the rows fitted on, so that another category, with zeros in all of
    them, is taken for their mean. The last columns are left out of what it returns.
    Features that they explain but for rounding become zero: a later step might scale
    the rounding up.

    Parameters
    ----------
    n_confounds : int
        How many columns are confounds.
    rounding : float, default=0.0
        The rounding of the confounds, relative to their spread.
    """

    def __init__(self, n_confounds, rounding=0.0):
        self.n_confounds = n_confounds
        self.rounding = rounding

    def fit(self, X, y=None):
        """Fit the regression of the features on the confounds."""
        features, confounds = np.split(X, [-self.n_confounds], axis=1)
        self.mean_ = confounds.mean(axis=0)
        centred = confounds - self.mean_
        # Constant and collinear confounds explain nothing more: the least norm.
        offset = features.mean(axis=0)
        signal = features - offset
        alike = np.clip(self.rounding, _ALIKE, _MOST_ALIKE)
        self.coef_ = lstsq(centred, signal, cond=alike)[0]
        left = np.abs(signal - centred @ self.coef_).max(axis=0)
        size = np.abs(signal).max(axis=0) + _SMALLEST * np.abs(offset)
        self.left_ = left > _ALIKE * size
        return self

    def transform(self, X):
        """Return the features without what the confounds explain."""
        features, confounds = np.split(X, [-self.n_confounds], axis=1)
        return (features - (confounds - self.mean_) @ self.coef_) * self.left_


@dataclass(frozen=True)
class FoldPreprocessing:
    """What is fitted on the training trials of each fold, before the kernel."""

    #: Transformers, to be cloned.
    steps: tuple = ()
    #: To be taken out of the features first, (n, k).
    confounds: np.ndarray | None = None
    #: The same of other trials that are tested, (n_test, k).
    others: np.ndarray | None = None
    #: What a result records of each confound.
    named: tuple = ()
    #: How many directions of the trials confounds take out, of collinear ones all.
    n_confounds: int = 0
    #: The rounding of confounds, relative to their spread.
    rounding: float = 0.0

    def __bool__(self):
        return bool(self.steps) or self.confounds is not None

    @property
    def sees_labels(self):
        """Whether some step learns from labels, and so anew for every permutation."""
        return any(map(needs_labels, self.steps))

    @property
    def is_zscores(self):
        """Whether features are z-scored (:class:`ZScores`), and no more."""
        return self.confounds is None and len(self.steps) == 1 and _scores(*self.steps)

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
        """The same for averages of trials."""
        if self.confounds is None:
            return self
        return replace(self, confounds=averaging.apply(self.confounds, 0))

    def fit(self, X, y=None):
        """The `FittedSteps` of rows X, with their confounds behind, and labels y."""
        if self.confounds is None:
            return fit_steps(self.steps, X, y)
        first = RemoveConfounds(self.confounds.shape[1], self.rounding)
        return fit_steps((first, *self.steps), X, y)

    def seeded(self, seed):
        """The same with steps that draw at random alike wherever they do."""
        seed, steps = seed % 2**32, []  # no larger one is taken by scikit-learn
        for step in self.steps:
            given = step.get_params().items()
            free = [name for name, value in given if value is None]
            free = [x for x in free if x.rpartition("__")[2] == "random_state"]
            drawn = dict.fromkeys(free, seed)
            steps.append(clone(step).set_params(**drawn) if drawn else step)
        return replace(self, steps=tuple(steps))

    def record(self):
        """The record of it for a result."""
        return {
            "preprocess": [recorded(step) for step in self.steps] or None,
            "n_confounds": self.n_confounds,
            "confounds": list(self.named) or None,
        }


@dataclass(frozen=True, repr=False)
class ZScores:
    """What a StandardScaler learns, in a fraction of the time it takes itself."""

    mean: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(cls, X):
        """Those of rows X; a feature that is constant keeps its scale."""
        mean, eps = X.mean(axis=0), len(X) * np.finfo(float).eps
        variance = np.square(X - mean).mean(axis=0)
        constant = variance <= eps * variance + (eps * mean) ** 2  # but for rounding
        return cls(mean, np.where(constant, 1.0, np.sqrt(variance)))

    def transform(self, X):
        """The features of rows less the mean, by their scale."""
        return (X - self.mean) / self.scale

    def __repr__(self):
        """Say whose they are."""
        return repr(StandardScaler())


@dataclass(frozen=True)
class FittedSteps:
    """Steps that have been fitted on some rows."""

    steps: tuple

    def __call__(self, X):
        """Return features (n, r) of rows (n, p)."""
        for step in self.steps:
            X = _checked(step, step.transform(X), len(X))
        return X


#: Known to map each row alone as among others, like what selects features.
_BY_ROW = RemoveConfounds, NoiseScaler, StandardScaler, PCA


def fit_steps(steps, X, y=None):
    """The `FittedSteps` of rows X (n, p), each fitted on the last one's.

    Steps that learn from labels are given y (n,).
    """
    fitted = []
    for last, step in enumerate(steps, 1):
        fitted.append(_fit(step, X, y if needs_labels(step) else None))
        by_row = isinstance(step, SelectorMixin) or type(step) in _BY_ROW
        if by_row and last == len(steps):
            break
        among = _checked(step, fitted[-1].transform(X), len(X))
        if not by_row and not _maps_alone(fitted[-1], X[:2], among[:2]):
            raise ValueError(
                f"The step {step!r} in preprocess makes of a trial what depends on the "
                "other trials that it is given with, or on chance, so that test trials "
                "would leak. Use a step that learns all it needs in fit, such as "
                "'zscore' in the place of a function that takes means over trials."
            )
        X = among
    return FittedSteps(tuple(fitted))


def _maps_alone(step, X, among):
    """Whether a step makes of rows alone what it made of them among others."""
    alone, near = np.asarray(step.transform(X)), _SAME * np.abs(among).max()
    return among.shape == alone.shape and np.allclose(alone, among, rtol=0, atol=near)


def _scores(step):
    """Whether a step takes z-scores."""
    return type(step) is StandardScaler and step.with_mean and step.with_std


def _fit(step, X, y=None):
    """A step fitted on rows X, by a shortcut where there is one."""
    n, p = X.shape
    try:
        if type(step) is RemoveConfounds:
            return step.fit(X)  # made for these rows
        if y is not None:
            return clone(step).fit(X, y)
        if _scores(step):
            return ZScores.of(X)
        share = step.n_components if type(step) is PCA and n > p else None
        may_square = isinstance(share, float) and share <= _MOST_EXPLAINED
        if may_square and step.svd_solver == "full":
            # The covariance takes a fraction of the time. The digits it costs the
            # smallest components are not among this share of the variance. Centred
            # first, since an offset costs digits, too.
            mean = X.mean(axis=0)
            fitted = clone(step).set_params(svd_solver="covariance_eigh")
            fitted.fit(X - mean).mean_ += mean
            return fitted
        return clone(step).fit(X)
    except Exception as error:
        if y is None and _failure(step, X, np.arange(n) % 2) is None:
            raise ValueError(_HIDES_LABELS.format(step)) from error
        raise ValueError(
            f"The step {step!r} in preprocess cannot be learned from these {n} trials "
            f"with {counted(p, 'feature')}: {_failure(step, X, y) or error}"
        ) from error


def _failure(step, *data):
    """The error of a step that may look at its data; None if it can learn."""
    try:
        with config_context(assume_finite=False, skip_parameter_validation=False):
            clone(step).fit(*data)
    except Exception as error:  # of anybody's step
        return error
    return None


def _checked(step, X, n):
    """What a step made of n rows, finite values (n, r)."""
    shape = np.shape(X)
    if issparse(X):
        problem = "a sparse matrix. Allowed: a dense array; many steps have an option "
        problem += "for that."
    elif len(shape) != 2 or (shape[1] == 0 and shape[0] == n):
        problem = f"shape {shape} for {n} rows. Allowed: one row with one or more "
        problem += "features for each."
    elif shape[0] != n:
        problem = f"{shape[0]} rows of {n}: trials and their labels would no longer "
        problem += f"belong together. {_REFIT}"
    elif np.asarray(X).dtype.kind not in "iuf" or not np.isfinite(X).all():
        problem = "values that are not finite numbers. Look at its options, and for "
        problem += "features that are constant in some training set."
    else:
        return np.asarray(X).astype(np.float64, copy=False)
    is_own = isinstance(step, RemoveConfounds)
    subject = "regression on confounds" if is_own else f"step {step!r} in preprocess"
    raise ValueError(f"The {subject} returns {problem}")
