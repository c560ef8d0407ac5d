"""The empirical kernel map, whose ridge is a penalty on the dual coefficients."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ._checks import check_gram
from .kernels import Kernel, KernelChoice, Precomputed, check_kernel


@dataclass(frozen=True)
class EmpiricalMap(Kernel):
    r"""Empirical kernel map: the features of x are k(x, b_1), ..., k(x, b_m).

    The basis b consists of the rows given to `fit`. The values are therefore

    .. math:: \tilde k(x, y) = \sum_j k(x, b_j) \, k(y, b_j),

    and a ridge penalty on them is one on the dual coefficients, the weights of the
    trials. With it, kernel Fisher discriminants have the within-class matrix
    :math:`N + \mu I` of [1]_, and the classifier of [2]_ is the case of two classes.
    With a kernel alone, the penalty is on the weights in its feature space instead.

    Parameters
    ----------
    kernel : str | kernel object | callable, default="rbf"
        The kernel k, as for :func:`cross_validate`. With ``"precomputed"``, the data
        are its matrix, and their columns the features.

    Raises
    ------
    TypeError, ValueError
        If the kernel is no kernel, or a list of several.

    See Also
    --------
    KernelFDA : With ``penalty="dual"`` this map of the training rows is made for you.

    Notes
    -----
    In the direct functions all rows, without their labels, serve as basis. A trial that
    is left out thus is not predicted from its label, but it still is one of the basis
    functions of the model that predicts it. That is the one thing in which the
    closed-form leave-one-out differs from leaving the trial out altogether.

    Shifting the features changes the map of a linear kernel: its basis moves along.

    References
    ----------
    .. [1] Mika, Ratsch, Weston, Scholkopf & Muller (1999). Fisher discriminant analysis
       with kernels. Neural Networks for Signal Processing IX, 41-48.
    .. [2] Cawley & Talbot (2003). Efficient leave-one-out cross-validation of kernel
       Fisher discriminant classifiers. Pattern Recognition 36(11), 2585-2592.

    Examples
    --------
    >>> from mvpa_kfda import EmpiricalMap
    >>> fitted = EmpiricalMap("linear").fit([[1.0], [2.0]])
    >>> fitted([[1.0]], [[3.0]])  # (1, 2) times (3, 6)
    array([[15.]])
    """

    kernel: Kernel | str | Callable = "rbf"
    basis: np.ndarray | None = field(
        default=None, init=False, repr=False, compare=False
    )

    def __post_init__(self):
        """Check the kernel."""
        kernel = check_kernel(self.kernel)
        if isinstance(kernel, KernelChoice):
            raise TypeError(
                "Invalid value for 'kernel' of EmpiricalMap: a list. Give a list of "
                "maps instead, e.g. [EmpiricalMap(RBF(0.1)), EmpiricalMap(RBF(1.0))]."
            )
        object.__setattr__(self, "kernel", kernel)

    @property
    def shift_free(self):
        """Whether the values of the kernel itself survive a shift, as of distances."""
        return self.kernel.shift_free and not self.kernel.is_linear

    @property
    def assumes_unit_scale(self):
        """Whether the kernel's numbers presume features of about unit variance."""
        return self.kernel.assumes_unit_scale

    def _with(self, kernel, basis):
        """Return the map of another kernel and basis."""
        new = type(self)(kernel)
        object.__setattr__(new, "basis", basis)
        return new

    def fit(self, X):
        """Return the map whose basis are the rows of X."""
        X = np.asarray(X)
        if isinstance(self.kernel, Precomputed):
            X = check_gram(X)
        return self._with(self.kernel.fit(X), X)

    def features(self, X):
        """Return the kernel's values (n, n_basis) between rows and basis."""
        return self.kernel(X, self.basis)

    def __call__(self, X, Y=None):
        """Return the Gram matrix (n_x, n_y) between the rows of X and of Y (or X)."""
        fitted = self if self.basis is not None else self.fit(X)
        mapped = fitted.features(X)
        return mapped @ (mapped if Y is None else fitted.features(Y)).T

    def take(self, columns):
        """Return the map for some columns of the features."""
        basis = None if self.basis is None else self.basis[:, columns]
        return self._with(self.kernel.take(columns), basis)

    def repeated(self, times):
        """Return the map, yet without basis, for blocks of columns side by side."""
        return self._with(self.kernel.repeated(times), None)
