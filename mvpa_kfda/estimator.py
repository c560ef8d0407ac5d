r"""Kernel Fisher discriminant analysis as a scikit-learn estimator.

:class:`KernelFDA` is trained the ordinary way, by one fit. With the N training rows,
the centred kernel :math:`K_c = JKJ` and contrast-coded labels :math:`T = YQ` centred
to :math:`T_c`, ridge regression in the kernel's feature space gives

.. math:: B = (K_c + \lambda I)^{-1} T_c, \quad
          P = T_c^\top K_c B, \quad A = \lambda T_c^\top B, \quad P + A = T_c^\top T_c.

Optimal scoring turns the regression into discriminants. Its eigenproblem
:math:`P v = \alpha^2 (P + A) v` has the same vectors as

.. math:: P v = \rho A v, \qquad \rho = \alpha^2 / (1 - \alpha^2),

where :math:`\rho` is the ratio of between-class to penalised within-class scatter. With
:math:`v^\top A v = 1`, the dual coefficients :math:`B v / \alpha` are scaled so that
:math:`W^\top (S_w + \lambda I) W = I`. No step subtracts nearly equal numbers, and
:math:`P + A = T_c^\top T_c` fails only where rounding has spoiled the inverse.
"""

import numpy as np
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

from ._checks import check_count, check_gram, check_symmetric
from ._rules import contrasts
from .hat import check_reg, hat_from_gram
from .kernels import Callable, Precomputed, check_kernel


def _discriminants(K, hat, codes, n_classes):
    """Return all c - 1 discriminants of N trials with codes 0..c-1, all present.

    K (N, N) is the kernel matrix less its column means and hat its dense residual
    maker. A component without any class difference is zero throughout.
    """
    Y = np.eye(n_classes)[codes]
    T = Y @ contrasts(n_classes)
    T -= T.mean(axis=0)
    B = hat.residuals(T) / hat.lam
    # The columns of B sum to zero; what the inverse leaves of a sum is rounding, which
    # an uncentred kernel would magnify.
    B -= B.mean(axis=0)
    fitted = K @ B
    P = T.T @ fitted
    A = hat.lam * (T.T @ B)
    total = T.T @ T
    if not np.abs(P + A - total).max() < 1e-6 * total.max():
        raise ValueError(
            f"lambda = {hat.lam:.3g} is too small for this kernel: in double precision "
            "the inverse of K_c + lambda I is lost to rounding. Use a larger reg."
        )
    ratio, axes = eigh((P + P.T) / 2, (A + A.T) / 2)
    ratio, axes = ratio[::-1], axes[:, ::-1]
    # Where the classes differ by rounding only, there is no direction to scale.
    possible = max(ratio[0], 1 - (1 + np.trace(hat.residual)) / len(K))
    useful = ratio > len(K) * np.finfo(float).eps * possible
    ratio = np.where(useful, ratio, 0.0)
    axes[:, ~useful] = 0.0
    axes[:, useful] *= np.sqrt((1 + ratio[useful]) / ratio[useful])
    means = Y.T @ fitted @ axes / Y.sum(axis=0)[:, None]
    leading = 1 if n_classes == 2 else np.abs(means).argmax(axis=0)
    signs = np.where(means[leading, np.arange(n_classes - 1)] < 0, -1.0, 1.0)
    return B @ axes * signs, means * signs, ratio  # (N, c-1), (c, c-1), (c-1,)


def _check_priors(priors, sizes):
    """Return one prior probability per class."""
    if isinstance(priors, str) and priors in ("equal", "empirical"):
        weights = sizes if priors == "empirical" else np.ones(len(sizes))
        return weights / weights.sum()
    values = np.asarray(priors)
    right = values.shape == sizes.shape and values.dtype.kind in "iuf"
    if not (right and np.all(values > 0) and abs(values.sum() - 1) < 1e-8):
        raise ValueError(
            f"Invalid value for 'priors': {priors!r}. Allowed: 'equal', 'empirical', "
            f"or {len(sizes)} numbers above zero, one per class, that sum to one. To "
            "exclude a class, leave its trials out of fit."
        )
    return values.astype(np.float64)


class KernelFDA(
    ClassNamePrefixFeaturesOutMixin, ClassifierMixin, TransformerMixin, BaseEstimator
):
    r"""Multi-class kernel Fisher discriminant analysis.

    Regularised discriminant analysis in the feature space of a kernel; with a linear
    kernel, a ridge-regularised LDA. It classifies by the distance to the class
    centroids in discriminant space, and transforms trials into that space.

    Parameters
    ----------
    kernel : str | kernel object | callable, default="linear"
        ``"linear"``, ``"rbf"``, ``"polynomial"``, ``"precomputed"``, one of
        :class:`Linear`, :class:`RBF` and :class:`Polynomial`, or a function
        ``(X, Y) -> (n_x, n_y)`` that returns a positive semi-definite kernel matrix.
        Widths that depend on the data are set by the training rows. With
        ``"precomputed"``, `fit` takes the (n_train, n_train) kernel matrix and the
        other methods the (n_test, n_train) one.
    reg : float | Ridge, default=0.3
        A float is relative, lambda = reg * trace(K_c) / n, where K_c is the centred
        kernel matrix of the n rows given to `fit`. ``Ridge(lam)`` is absolute.
    priors : str | array-like of shape (n_classes,), default="equal"
        Class probabilities: ``"equal"``, by which the nearest centroid wins,
        ``"empirical"``, the proportions in the training set, or positive numbers that
        sum to one, in the sorted order of the classes.
    n_components : int | None, default=None
        How many discriminants to use, at most n_classes - 1 (None: all of them). It is
        the width of `transform`, and with fewer than all, the classification is of
        reduced rank too.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The sorted class labels.
    n_features_in_ : int
        The number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features,)
        Column names, when X had string column names.
    priors_ : ndarray of shape (n_classes,)
        The class probabilities.
    lambda_ : float
        The penalty that was used.
    kernel_ : kernel object
        The kernel, with data-dependent numbers fixed.
    X_fit_ : ndarray of shape (n_train, n_features) | None
        The training rows, less their mean when the kernel ignores a shift. None for a
        precomputed kernel.
    dual_coef_ : ndarray of shape (n_train, n_components)
        Weights of the training rows in each discriminant.
    means_ : ndarray of shape (n_classes, n_components)
        Class centroids in discriminant space; its origin is the training mean.
    intercept_ : ndarray of shape (n_classes,)
        The part of the class scores that does not depend on the trial.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        The share of each discriminant in the between-class variance, where the
        penalised within-class variance is one in every direction.

    Raises
    ------
    ValueError
        In `fit`: for complex, infinite or missing values, fewer than two classes,
        trials that do not differ, a penalty at or below zero or too small for the
        kernel, wrong priors, too many components, an unknown kernel, or a
        precomputed kernel matrix that is not square and symmetric.

    See Also
    --------
    cross_validate : The same cross-validated predictions, without retraining.

    Notes
    -----
    The discriminants maximise the between-class scatter, scaled so that
    :math:`W^\top (S_w + \lambda I) W = I`, with the within-class scatter :math:`S_w` a
    sum over trials. They are found by optimal scoring [1]_ in the dual form of
    [2]_. With :math:`z` the discriminant scores of a trial and :math:`m_k` the centroid
    of class k,

    .. math:: s_k = z^\top m_k - \tfrac12 \lVert m_k \rVert^2

    is the class score of :func:`cross_validate`, and :math:`(S_w + \lambda I) / N` the
    covariance of every class, so that the log posterior probability is :math:`N s_k +
    \log \pi_k` up to a constant. With all components this is the rule of
    :class:`~sklearn.discriminant_analysis.LinearDiscriminantAnalysis` whose covariance
    is :math:`(S_w + \lambda I) / N`. Near ties go to the class that sorts first.

    A component along which the class means do not differ (there are at most as many
    others as features) is kept and is zero, so that the shape of the result does not
    depend on the data.

    The relative penalty takes its scale from the rows it is given. In `fit` these are
    the training rows, in the direct functions all rows (without their labels).
    Cross-validating this estimator therefore equals the direct functions exactly with
    ``Ridge`` and a kernel without data-dependent width, and closely otherwise.

    References
    ----------
    .. [1] Hastie, Buja & Tibshirani (1995). Penalized discriminant analysis. Annals of
       Statistics 23(1), 73-102.
    .. [2] Treder (2018). Direct calculation of out-of-sample predictions in multi-class
       kernel FDA. ESANN.

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

    def __init__(self, kernel="linear", reg=0.3, *, priors="equal", n_components=None):
        self.kernel = kernel
        self.reg = reg
        self.priors = priors
        self.n_components = n_components

    def __sklearn_tags__(self):
        """Declare that a precomputed kernel is indexed by trials on both axes."""
        tags = super().__sklearn_tags__()
        named = isinstance(self.kernel, str) and self.kernel == "precomputed"
        tags.input_tags.pairwise = named or isinstance(self.kernel, Precomputed)
        return tags

    def fit(self, X, y):
        """Train on labelled trials.

        Parameters
        ----------
        X : array-like of shape (n_train, n_features)
            The training trials, or (n_train, n_train) for a precomputed kernel.
        y : array-like of shape (n_train,)
            Their class labels.

        Returns
        -------
        self : KernelFDA
            The fitted estimator.
        """
        X, y = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        check_classification_targets(y)
        reg, kernel = check_reg(self.reg), check_kernel(self.kernel)
        self.classes_, codes = np.unique(y, return_inverse=True)
        n_classes = len(self.classes_)
        if n_classes < 2:
            raise ValueError(
                f"y holds one class only ({self.classes_[0]!r}); a discriminant needs "
                "two or more classes."
            )
        n_components = self._check_n_components(n_classes)
        sizes = np.bincount(codes)
        self.priors_ = _check_priors(self.priors, sizes)
        K = self._fit_kernel(X, kernel)
        hat = hat_from_gram(K, reg)
        self.lambda_ = hat.lam
        self._kernel_mean = K.mean(axis=0)
        dual, means, ratio = _discriminants(
            K - self._kernel_mean, hat, codes, n_classes
        )
        self.dual_coef_ = dual[:, :n_components]
        self.means_ = means[:, :n_components]
        shares = ratio / ratio.sum() if ratio.any() else ratio
        self.explained_variance_ratio_ = shares[:n_components]
        self.intercept_ = self._intercept(sizes)
        return self

    def _check_n_components(self, n_classes):
        """Return the number of discriminants to keep."""
        if self.n_components is None:
            return n_classes - 1
        n_components = check_count("n_components", self.n_components, minimum=1)
        if n_components > n_classes - 1:
            raise ValueError(
                f"Invalid value for 'n_components': {n_components}. Allowed: at most "
                f"{n_classes - 1}, one less than the {n_classes} classes in y."
            )
        return n_components

    def _fit_kernel(self, X, kernel):
        """Store what the kernel of new trials needs; return the training kernel."""
        if isinstance(kernel, Precomputed):
            self.kernel_, self.X_fit_, self._shift = kernel, None, None
            return check_gram(X)
        self.kernel_ = kernel.fit(X)
        # An offset common to all trials drops out, and the digits it costs with it.
        self._shift = X.mean(axis=0) if kernel.shift_free else None
        self.X_fit_ = X.copy() if self._shift is None else X - self._shift
        K = self.kernel_(self.X_fit_)
        if isinstance(kernel, Callable):
            check_symmetric(K, f"The value of kernel {kernel.function!r}")
        return K

    def _intercept(self, sizes):
        """Return what the class scores add to the projection on the centroids."""
        norms = np.square(self.means_).sum(axis=1)
        priors = np.log(len(sizes) * self.priors_) / sizes.sum()
        # As in the direct functions, what differs by rounding only is a tie, and the
        # class that sorts first wins it.
        ties = np.arange(len(sizes)) * (np.finfo(float).eps ** 0.75 * norms.max())
        return priors - norms / 2 - ties

    @property
    def _n_features_out(self):
        """Number of discriminants, for the names of the transformed columns."""
        return self.dual_coef_.shape[1]

    def _project(self, X):
        """Return the discriminant scores (n, n_components) of new trials."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        if self._shift is not None:
            X = X - self._shift
        K = self.kernel_(X, self.X_fit_)
        # Row means drop out: the dual coefficients sum to zero.
        return (K - self._kernel_mean) @ self.dual_coef_

    def _class_scores(self, X):
        """Return the scores (n, n_classes) of all classes, priors included."""
        return self._project(X) @ self.means_.T + self.intercept_

    def transform(self, X):
        """Project trials onto the discriminants.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Trials, or (n, n_train) for a precomputed kernel.

        Returns
        -------
        Z : ndarray of shape (n, n_components)
            Discriminant scores, the most discriminant first. The training trials have
            mean zero and a penalised within-class scatter of one. A column is positive
            towards the second of two classes, else its centroid farthest from zero.
        """
        return self._project(X)

    def decision_function(self, X):
        r"""Return the class scores.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Trials, or (n, n_train) for a precomputed kernel.

        Returns
        -------
        scores : ndarray of shape (n, n_classes), or (n,) for two classes
            :math:`s_k + \log(c \pi_k) / N` (see Notes of the class), with equal priors
            the class scores :math:`s_k` themselves. For two classes the second less
            the first, positive where the second is predicted.
        """
        scores = self._class_scores(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X):
        """Predict the class of trials.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Trials, or (n, n_train) for a precomputed kernel.

        Returns
        -------
        y : ndarray of shape (n,)
            The class with the largest score; with equal priors, that of the nearest
            centroid in discriminant space.
        """
        best = self._class_scores(X).argmax(axis=1)
        return self.classes_[best]

    def predict_log_proba(self, X):
        """Return the logarithm of the class probabilities.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Trials, or (n, n_train) for a precomputed kernel.

        Returns
        -------
        log_p : ndarray of shape (n, n_classes)
            Finite also where a probability is too small for a float.
        """
        scores = self._class_scores(X)
        return log_softmax(len(self._kernel_mean) * scores, axis=1)

    def predict_proba(self, X):
        """Return the class probabilities under Gaussian classes.

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
