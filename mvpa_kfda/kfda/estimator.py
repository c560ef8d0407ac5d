r"""Kernel Fisher discriminant analysis as a scikit-learn estimator.

:class:`KernelFDA` is trained the ordinary way, by one fit. What looks at the labels in
the training folds, such as features that are selected by class, is at home here: in a
pipeline that is refitted. A fit finds the discriminants of the rows' training set
 (:mod:`mvpa_kfda.kfda.foldwise`).

With the N training rows, the centred kernel :math:`K_c = JKJ` and contrast-coded labels
:math:`T = YQ` centred to :math:`T_c`, ridge regression in the kernel's feature space
gives

.. math:: B = (K_c + \lambda I)^{-1} T_c, \quad
          P = T_c^\top K_c B, \quad A = \lambda T_c^\top B, \quad P + A = T_c^\top T_c.

Optimal scoring turns the regression into discriminants. Its eigenproblem
:math:`P v = \alpha^2 (P + A) v` has the same vectors as

.. math:: P v = \rho A v, \qquad \rho = \alpha^2 / (1 - \alpha^2),

where :math:`\rho` is the ratio of between-class to penalised within-class scatter. With
:math:`v^\top A v = 1`, the dual coefficients :math:`B v / \alpha` are scaled so that
:math:`W^\top (S_w + \lambda I) W = I`. No step subtracts nearly equal numbers, and
:math:`P + A = T_c^\top T_c` fails only where rounding has spoiled the inverse.

Where columns F (N, r) stand for the kernel, :math:`K = F F^\top`, their weights
:math:`\beta = (F_c^\top F_c + \lambda I)^{-1} F_c^\top T_c` do the same without any
(N, N) matrix: with :math:`R = T_c - F_c \beta`, :math:`B = R / \lambda`,
:math:`A = R^\top R + \lambda \beta^\top \beta`.

Three kinds of columns carry the discriminants to new rows: the features themselves for
a linear kernel, a finite number of features that stand for a kernel (a low-rank kernel,
an empirical map), and otherwise the kernel's values with the training rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh
from scipy.special import log_softmax
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from ..utils.advice import described
from ..utils.checks import (
    check_components,
    check_gram,
    check_numbers,
    check_option,
    check_per_trial,
    invalid,
    plain_labels,
)
from .folds import Folds, InnerFolds
from .foldwise import FoldwisePlan, compare_rows
from .kernels import (
    EmpiricalMap,
    KernelLike,
    Nystrom,
    Precomputed,
    approximated,
    check_feature_kernel,
    check_kernel,
    check_range,
    kernels_of,
    needs_gram,
)
from .penalties import (
    Auto,
    PenaltyLike,
    Tuned,
    check_method,
    check_reg,
    resolve_penalty,
)
from .preprocess import FoldPreprocessing
from .rules import contrasts

#: From which share of features to trials a kernel matrix is the cheaper way.
_BY_GRAM = 3 / 4
#: How errors begin that NumPy raises where scikit-learn makes an array: they do not say
#: of what.
_OF_NUMPY = ("could not convert", "float() argument", "setting an array element")


class KernelFDA(
    ClassNamePrefixFeaturesOutMixin, ClassifierMixin, TransformerMixin, BaseEstimator
):
    r"""Multi-class kernel Fisher discriminant analysis.

    Regularised discriminant analysis in the feature space of a kernel; with a linear
    kernel, a ridge-regularised LDA. It classifies by the distance to the class
    centroids in discriminant space, and transforms trials into that space.

    Parameters
    ----------
    kernel : str | kernel object | callable | list, default="linear"
        ``"linear"``, ``"rbf"``, ``"polynomial"``, ``"precomputed"``, a kernel object
        such as ``RBF(gamma=0.1)`` or :class:`GraphSmooth`, or a function ``(X, Y) ->
        (n_x, n_y)`` that returns a positive semi-definite kernel matrix. Data-dependent
        bandwidths are set from the training rows. With ``"precomputed"``, `fit` takes
        the (n_train, n_train) kernel matrix and the other methods the (n_test, n_train)
        one. A list of kernels to select from requires a tuned `reg`.
    reg : float | str | penalty object, default="auto"
        ``"auto"``: lambda is set by the features of the training rows, without labels;
        ``"tuned"``, a list of penalties, or :class:`Tuned`: it is selected by
        cross-validation. A float is relative, lambda = reg * trace(K_c) / n, where K_c
        is the centred kernel matrix of the n rows given to `fit`. ``Ridge(lam)`` is
        absolute. Also :class:`Shrinkage`, :class:`DegreesOfFreedom`, ``"ledoit_wolf"``
        and ``"oas"`` (which penalise too little for single scans).
    priors : str | array-like of shape (n_classes,), default="equal"
        Prior class probabilities: ``"equal"`` (the nearest centroid is predicted),
        ``"empirical"`` (the proportions in the training set), or positive numbers that
        sum to one, in the sorted order of the classes.
    n_components : int | None, default=None
        Number of discriminants, at most n_classes - 1 (None: all). It is the number of
        columns of `transform`; with fewer than all, classification has reduced rank
        too.
    penalty : {"rkhs", "dual"}, default="rkhs"
        The quantity multiplied by lambda: the squared norm of a discriminant in the
        kernel's feature space, or that of its dual coefficients. The latter is the
        textbook kernel FDA (see Notes).
    approx : Nystrom | None, default=None
        Landmarks that replace the training rows, so that no (n_train, n_train) array is
        created.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The sorted class labels.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features,)
        Column names, if X had string column names.
    priors_ : ndarray of shape (n_classes,)
        The class probabilities.
    lambda_ : float
        The penalty that was used.
    degrees_of_freedom_ : float
        The trace of the hat matrix, including the intercept.
    tuning_ : Choice | None
        With a tuned `reg`: the candidate lambdas and kernels with their
        criterion values.
    kernel_ : kernel object
        The fitted kernel; the one selected from a list. An :class:`EmpiricalMap` with
        ``penalty="dual"``.
    X_fit_ : ndarray of shape (n_train, n_features) | None
        The training rows, centred if the kernel is invariant to shifts. None for a
        precomputed kernel, and with `approx`.
    dual_coef_ : ndarray of shape (n_train, n_components)
        Weights of the training rows in each discriminant.
    scalings_ : ndarray of shape (n_features, n_components) | None
        Weights of the features in each discriminant, for linear kernels, including
        those with their own penalty such as :class:`GraphSmooth`. None otherwise.
    means_ : ndarray of shape (n_classes, n_components)
        Class centroids in discriminant space; its origin is the training mean.
    offsets_ : ndarray of shape (n_classes,)
        Offsets added to ``transform(X) @ means_.T`` to give the class scores.
    coef_ : ndarray of shape (n_classes, n_features), or (1, n_features)
        Weights of the features in `decision_function`, one row for two classes, as in
        :class:`~sklearn.discriminant_analysis.LinearDiscriminantAnalysis`. For linear
        kernels, including those with their own penalty such as :class:`GraphSmooth`,
        also with ``penalty="dual"`` and `approx`. Not available for other kernels.
    intercept_ : ndarray of shape (n_classes,), or (1,)
        Intercepts: ``X @ coef_.T + intercept_`` equals `decision_function`. Available
        if `coef_` is.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        Proportion of the between-class variance explained by each discriminant, with
        the penalised within-class variance scaled to one in every direction.

    Raises
    ------
    ValueError
        In `fit`: for complex, infinite or missing values, fewer than two classes,
        identical trials, a penalty at or below zero or too small for the kernel,
        invalid priors, too many components, an unknown kernel, a precomputed kernel
        matrix that is not square and symmetric, or incompatible arguments: a list of
        kernels without tuning, `approx` with a precomputed kernel or with
        ``penalty="dual"``.

    See Also
    --------
    cross_validate : The same cross-validated predictions, without retraining.

    Notes
    -----
    The discriminants maximise the between-class scatter, scaled so that :math:`W^\top
    (S_w + \lambda I) W = I`, with the within-class scatter :math:`S_w` a sum over
    trials. They are computed by optimal scoring [1]_ in the dual form of [2]_, or from
    the features if these are fewer than half the number of trials. With :math:`z` the
    discriminant scores of a trial and :math:`m_k` the centroid of class k,

    .. math:: s_k = z^\top m_k - \tfrac12 \lVert m_k \rVert^2

    is the class score of :func:`cross_validate`, and :math:`(S_w + \lambda I) / N` the
    covariance of each class, so that the log posterior probability is :math:`N s_k +
    \log \pi_k` up to a constant. With all components this is the rule of
    :class:`~sklearn.discriminant_analysis.LinearDiscriminantAnalysis` whose covariance
    is :math:`(S_w + \lambda I) / N`. Near ties go to the class that sorts first.

    A component along which the class means do not differ (there are at most as many
    others as features) is kept as zeros, so that the shape of the result does not
    depend on the data.

    With ``penalty="dual"`` the discriminants are :math:`z(x) = \sum_j a_j k(x, x_j)`
    and the dual coefficients satisfy

    .. math:: A^\top (N + \lambda I) A = I,

    where N is the within-class scatter of the columns of the kernel matrix [3]_ [4]_.

    The relative penalty is scaled by the rows it is given: the training rows in `fit`,
    all rows (without their labels) in the direct functions. Cross-validating this
    estimator therefore equals the direct functions exactly with ``Ridge`` and a kernel
    without data-dependent bandwidth, and approximately otherwise.

    References
    ----------
    .. [1] Hastie, Buja & Tibshirani (1995). Penalized discriminant analysis. Annals of
       Statistics 23(1), 73-102.
    .. [2] Treder (2018). Direct calculation of out-of-sample predictions in multi-class
       kernel FDA. ESANN.
    .. [3] Mika, Ratsch, Weston, Scholkopf & Muller (1999). Fisher discriminant analysis
       with kernels. Neural Networks for Signal Processing IX, 41-48.
    .. [4] Cawley & Talbot (2003). Efficient leave-one-out cross-validation of kernel
       Fisher discriminant classifiers. Pattern Recognition 36(11), 2585-2592.

    Examples
    --------
    >>> import numpy as np
    >>> from mvpa_kfda import RBF, KernelFDA
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(["cat", "dog", "house"], 20)
    >>> centers = {"cat": [0, 0], "dog": [4, 0], "house": [0, 4]}
    >>> X = np.array([centers[label] for label in y]) + rng.standard_normal((60, 2))
    >>> model = KernelFDA(kernel=RBF(gamma=0.1), reg=0.1).fit(X, y)
    >>> model.predict([[3.5, 0.5], [0.0, 5.0]])
    array(['dog', 'house'], dtype='<U5')
    >>> model.transform(X).shape
    (60, 2)
    """

    def __init__(
        self,
        kernel: KernelLike = "linear",
        reg: PenaltyLike = "auto",
        *,
        priors: Literal["equal", "empirical"] | ArrayLike = "equal",
        n_components: int | None = None,
        penalty: Literal["rkhs", "dual"] = "rkhs",
        approx: Nystrom | None = None,
    ):
        self.kernel = kernel
        self.reg = reg
        self.priors = priors
        self.n_components = n_components
        self.penalty = penalty
        self.approx = approx

    def __sklearn_tags__(self):
        """Declare that a precomputed kernel is indexed by trials on both axes."""
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = needs_gram(self.kernel)
        return tags

    def fit(
        self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None
    ) -> KernelFDA:
        """Fit the model to labelled trials.

        Parameters
        ----------
        X : array-like of shape (n_train, n_features)
            The training trials, or (n_train, n_train) for a precomputed kernel.
        y : array-like of shape (n_train,)
            Their class labels.
        groups : array-like of shape (n_train,) | None, default=None
            The group of each trial, such as its run, of which an automatic or tuned
            `reg` takes account: trials of a group may be correlated. Ignored otherwise.

        Returns
        -------
        self : KernelFDA
            The fitted estimator.
        """
        y = plain_labels(y)
        X, y = _validate(self, X, y, ensure_min_samples=2)
        check_classification_targets(y)
        kernel, reg = check_model(self.kernel, self.reg, self.penalty, self.approx)
        self.classes_, codes = np.unique(y, return_inverse=True)
        n_classes = len(self.classes_)
        if n_classes < 2:
            raise ValueError(
                f"y holds one class only ({self.classes_[0]!r}); a discriminant needs "
                "two or more classes."
            )
        if groups is not None:
            groups = check_per_trial(groups, len(y), "groups")
        n_components = self.n_components
        if n_components is not None:
            n_components = check_components(n_components, n_classes)
        sizes = np.bincount(codes)
        self.priors_ = _check_priors(self.priors, sizes)
        if needs_gram(kernel):
            X = check_gram(X)
        compared = [compare_rows(X, each, _BY_GRAM) for each in kernels_of(kernel)]
        compared, centred, lam = self._choose(X, compared, kernel, reg, codes, groups)
        each = compared.training_set(centred, lam)
        dual, coef, means, shares = (
            part[..., :n_components]
            for part in _discriminants(compared, each, lam, codes, n_classes)
        )
        self.lambda_, self.degrees_of_freedom_ = lam, each.degrees_of_freedom(lam)
        self.kernel_, self._each = compared.kernel, each
        self.X_fit_ = None
        if not (self.kernel_.low_rank or isinstance(self.kernel_, Precomputed)):
            self.X_fit_ = X - each.shift
            check_range(self.X_fit_)
        self.dual_coef_, self._coef, self.scalings_ = dual, coef, None
        if isinstance(self.kernel_, EmpiricalMap):
            self.dual_coef_ = self.kernel_.features(self.X_fit_).T @ dual
        elif self.kernel_.is_linear and each.is_dual:
            self.scalings_ = self.kernel_.weights_from_trials(self.X_fit_, dual)
        elif self.kernel_.is_linear and not self.kernel_.low_rank:
            self.scalings_ = self.kernel_.weights_from_features(coef)
        self.means_, self.explained_variance_ratio_ = means, shares
        norms = np.square(means).sum(axis=1)
        # As in the direct functions, what differs by rounding only is a tie, and the
        # class that sorts first wins it.
        ties = np.arange(n_classes) * (np.finfo(float).eps ** 0.75 * norms.max())
        priors = np.log(n_classes * self.priors_) / len(y)
        self.offsets_ = priors - norms / 2 - ties
        return self

    def _choose(self, X, compared, kernel, reg, codes, groups):
        """The rows under the kernel to train with, centred too, and lambda."""
        self.tuning_ = None
        if not isinstance(reg, Tuned):
            reg = Auto(groups=groups) if isinstance(reg, Auto) else reg
            centred = compared[0].centred()
            return compared[0], centred, resolve_penalty(reg, centred[1])
        trials = Folds((), len(X)), InnerFolds(groups), np.dtype("float64")
        plan = FoldwisePlan(X, kernel, reg, FoldPreprocessing(), *trials)
        record = plan.penalty(codes[None], len(self.classes_))
        lam, grid = float(record["lambda"][0, 0]), record["grid"][0]
        chosen = int(record["kernel"][0, 0]), lam, grid, record["criterion"][0, 0]
        self.tuning_ = Choice(*chosen)
        compared = compared[self.tuning_.kernel]
        return compared, compared.centred(), self.tuning_.lam

    @property
    def coef_(self) -> NDArray:
        """Weights of the features in the decision function, for linear kernels."""
        return self._affine[0]

    @property
    def intercept_(self) -> NDArray:
        """Intercepts of the decision function, for linear kernels."""
        return self._affine[1]

    @property
    def _affine(self):
        """The weights (c, p) and the intercepts (c,) of the class scores, or (1, ...).

        An AttributeError without them, so that `hasattr` says no.
        """
        check_is_fitted(self)
        weights, inner = self.scalings_, getattr(self.kernel_, "kernel", None)
        if weights is None and inner is not None and inner.is_linear:
            coef = self._coef if self.kernel_.low_rank else self.dual_coef_
            weights = self.kernel_.weights_from_features(coef)
        if weights is None:
            raise AttributeError(
                f"{self.kernel_!r} has no weights of features, so there is no coef_ "
                "and no intercept_; kernel='linear', GraphSmooth and Penalty have."
            )
        coef = self.means_ @ weights.T
        origin = self._projected(np.zeros((1, len(weights))))
        intercept = (origin @ self.means_.T + self.offsets_)[0]
        if len(self.classes_) == 2:
            coef, intercept = np.diff(coef, axis=0), np.diff(intercept)
        return coef, intercept

    @property
    def _n_features_out(self):
        """Number of discriminants, for the names of the transformed columns."""
        return self.dual_coef_.shape[1]

    def _project(self, X):
        """The discriminant scores (n, n_components) of new trials."""
        check_is_fitted(self)
        return self._projected(_validate(self, X, reset=False))

    def _projected(self, X):
        """The same of rows (n, p) that are in order."""
        each, rows = self._each, self.X_fit_
        if self.scalings_ is not None:
            return (X - each.shift - rows.mean(axis=0)) @ self.scalings_
        if isinstance(self.kernel_, EmpiricalMap):  # fewer products than by values
            origin = self.kernel_.features(rows).mean(axis=0)
            return (self.kernel_.features(X - each.shift) - origin) @ self.dual_coef_
        return (each.columns(X, rows) - each.offset) @ self._coef

    def _class_scores(self, X):
        """The scores (n, n_classes) of all classes, priors included."""
        return self._project(X) @ self.means_.T + self.offsets_

    def transform(self, X: ArrayLike) -> NDArray:
        """Project trials onto the discriminants.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Trials, or (n, n_train) for a precomputed kernel.

        Returns
        -------
        Z : ndarray of shape (n, n_components)
            Discriminant scores, the most discriminant first. The training trials have
            mean zero and a penalised within-class scatter of one. Signs are such that
            the second of two classes, or the centroid farthest from zero, is positive.
        """
        return self._project(X)

    def decision_function(self, X: ArrayLike) -> NDArray:
        r"""Return the class scores.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Trials, or (n, n_train) for a precomputed kernel.

        Returns
        -------
        scores : ndarray of shape (n, n_classes), or (n,) for two classes
            :math:`s_k + \log(c \pi_k) / N` (see Notes of the class), with equal priors
            the class scores :math:`s_k` themselves. For two classes the second minus
            the first, positive where the second is predicted.
        """
        scores = self._class_scores(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: ArrayLike) -> NDArray:
        """Predict the class of trials.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Trials, or (n, n_train) for a precomputed kernel.

        Returns
        -------
        y : ndarray of shape (n,)
            The class with the highest score; with equal priors, that of the nearest
            centroid in discriminant space.
        """
        best = self._class_scores(X).argmax(axis=1)
        return self.classes_[best]

    def predict_log_proba(self, X: ArrayLike) -> NDArray:
        """Return the logarithm of the class probabilities.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Trials, or (n, n_train) for a precomputed kernel.

        Returns
        -------
        log_p : ndarray of shape (n, n_classes)
            Finite even where a probability is too small for a float.
        """
        scores = self._class_scores(X)
        return log_softmax(len(self.dual_coef_) * scores, axis=1)

    def predict_proba(self, X: ArrayLike) -> NDArray:
        """Return the class probabilities, assuming Gaussian classes.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Trials, or (n, n_train) for a precomputed kernel.

        Returns
        -------
        p : ndarray of shape (n, n_classes)
            Rows sum to one.
        """
        return np.exp(self.predict_log_proba(X))

    def score(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> float:
        """Return the accuracy: the proportion of correctly predicted trials.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Trials, or (n, n_train) for a precomputed kernel.
        y : array-like of shape (n,)
            Their true labels.
        sample_weight : array-like of shape (n,) | None, default=None
            Weight of each trial. None: equal weights.

        Returns
        -------
        score : float
            Between 0 and 1.
        """
        return super().score(X, plain_labels(y), sample_weight)


def _validate(model, X, *y, **options):
    """Return X, and y if it is given, as scikit-learn has them; name X in errors."""
    if np.ma.is_masked(X):
        check_numbers(X, "X")  # scikit-learn would take what is behind the mask
    try:
        return validate_data(model, X, *y, dtype=np.float64, **options)
    except (TypeError, ValueError) as error:
        if not str(error).startswith(_OF_NUMPY):
            raise
        raise type(error)(
            f"X must be an array of numbers, shape (n, n_features); got {described(X)}:"
            f" {error}"
        ) from error


def resolve_method(kernel, reg, approx=None, precomputed=False):
    """The kernel and `reg` that a decoding function was given, checked.

    The kernel is of low rank if it is to be approximated. Only where the data may be a
    kernel matrix it may be precomputed.
    """
    kernel = check_kernel(kernel) if precomputed else check_feature_kernel(kernel)
    if isinstance(approx, Nystrom) and approx.random_state is None:
        # The same landmarks whenever they are drawn.
        seed = int(np.random.default_rng().integers(2**31))
        approx = replace(approx, random_state=seed)
    return check_model(kernel, reg, "rkhs", approx)


def check_model(kernel, reg, penalty, approx):
    """The kernel, or the choice of kernels, and the `reg` of a model."""
    kernel, reg = check_kernel(kernel), check_reg(reg)
    if check_option("penalty", penalty, ("rkhs", "dual")) == "dual":
        if approx is not None:
            raise ValueError(
                "penalty='dual' has a coefficient for every training row, and "
                "approx=Nystrom(...) is there to do without. Leave out one of them."
            )
        kernel = kernel.map(EmpiricalMap)
    check_method(kernel, reg)
    kernel = approximated(kernel, approx)
    check_method(kernel, reg)
    return kernel, reg


def _check_priors(priors, sizes):
    """One prior probability per class."""
    if isinstance(priors, str) and priors in ("equal", "empirical"):
        weights = sizes if priors == "empirical" else np.ones(len(sizes))
        return weights / weights.sum()
    try:
        values = np.asarray(priors)
    except ValueError:  # lists of other lengths
        values = np.empty(0)
    right = values.shape == sizes.shape and values.dtype.kind in "iuf"
    if not (right and np.all(values > 0) and abs(values.sum() - 1) < 1e-8):
        allowed = f"'equal', 'empirical', or {len(sizes)} numbers above zero, one per "
        hint = " To exclude a class, leave its trials out of fit."
        raise invalid("priors", priors, f"{allowed}class, that sum to one", hint=hint)
    return values.astype(np.float64)


@dataclass(frozen=True)
class Choice:
    """What was chosen by the labels of all trials.

    Attributes
    ----------
    kernel : int
        The number of the kernel.
    lam : float
        Lambda.
    lambdas : ndarray, shape (n_kernels, n_lambdas)
        The candidates.
    criterion : ndarray, shape (n_kernels, n_lambdas)
        What was minimised; NaN where a candidate was skipped.
    """

    kernel: int
    lam: float
    lambdas: NDArray
    criterion: NDArray


def _discriminants(compared, each, lam, codes, n_classes):
    """All c - 1 discriminants of class codes (N,) of a training set with a penalty.

    Weights of the training rows (N, c - 1) and of the columns of the training set
    (d, c - 1), class centroids (c, c - 1), and shares of the between-class over the
    penalised within-class scatter (c - 1,), the largest first. One without any class
    difference is zero throughout.
    """
    everybody, Y = slice(None), np.eye(n_classes)[codes]
    T = Y @ contrasts(n_classes)
    T -= T.mean(axis=0)
    weights = each.gain(lam) * (each.U.T @ T).T  # (q, r)
    fitted = compared.tested(each, everybody, everybody) @ weights.T
    beta = each.root @ weights.T
    if each.is_dual:
        B = beta / each.unit
        A = lam * (T.T @ B)
    else:
        R = T - fitted
        B, A = R / lam, R.T @ R + lam * (beta.T @ beta)
    P = fitted.T @ T
    if not np.abs(P + A - T.T @ T).max() < 1e-6 * np.square(T).sum(axis=0).max():
        raise ValueError(
            f"lambda = {lam:.3g} is too small for this kernel: in double precision "
            "the inverse of K_c + lambda I is lost to rounding. Use a larger reg."
        )
    ratio, axes = eigh((P + P.T) / 2, (A + A.T) / 2)
    ratio, axes = ratio[::-1], axes[:, ::-1]
    # Where the classes differ by rounding only, there is no direction to scale.
    possible = max(ratio[0], (each.degrees_of_freedom(lam) - 1) / len(T))
    useful = ratio > len(T) * np.finfo(float).eps * possible
    ratio = np.where(useful, ratio, 0.0)
    axes[:, ~useful] = 0.0
    axes[:, useful] *= np.sqrt((1 + ratio[useful]) / ratio[useful])
    means = Y.T @ fitted @ axes / Y.sum(axis=0)[:, None]
    leading = 1 if n_classes == 2 else np.abs(means).argmax(axis=0)
    signs = np.where(means[leading, np.arange(n_classes - 1)] < 0, -1.0, 1.0)
    axes = axes * signs
    shares = ratio / ratio.sum() if ratio.any() else ratio
    return B @ axes, beta @ axes, means * signs, shares
