r"""Kernels that penalise the weights of the features: penalised discriminants.

A ridge treats all weights alike. A quadratic penalty :math:`w^\top \Omega w` knows
which of them belong together: with the Laplacian of a graph of neighbouring sensors,
voxels or pixels it is the roughness of the weights, and the discriminants come out
smooth. It is a kernel like any other, :math:`X \Omega^{-1} X^\top`, so that everything
exact about the hat matrix stays exact.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cached_property
from hashlib import sha1

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from scipy.sparse.linalg import splu

from ..utils.checks import check_finite, check_numbers, check_positive
from ..utils.rounding import number
from .arguments import Adjacency, Matrix
from .kernels import Kernel

#: Features from which a sparse matrix is kept sparse when it is factored.
_LARGE = 3000


class DefiniteMatrix:
    """A symmetric positive definite matrix, factored once and only when needed."""

    def __init__(self, matrix, subject):
        self.matrix, self.subject = matrix, subject

    def __getstate__(self):
        # The factors are made again where they are needed: SuperLU's cannot be sent.
        return {"matrix": self.matrix, "subject": self.subject}

    @property
    def stays_sparse(self):
        """Whether the matrix is too large to be made dense for nothing."""
        return sparse.issparse(self.matrix) and self.matrix.shape[0] > _LARGE

    @cached_property
    def cholesky(self):
        """The lower factor L with L L' the matrix."""
        dense = self.matrix.toarray() if sparse.issparse(self.matrix) else self.matrix
        try:
            return cholesky(dense, lower=True, check_finite=False)
        except LinAlgError:
            raise self._not_positive() from None

    @cached_property
    def lu(self):
        """The sparse factors, without pivoting, as suits a positive definite matrix."""
        try:
            lu = splu(
                self.matrix.tocsc(),
                permc_spec="MMD_AT_PLUS_A",
                diag_pivot_thresh=0.0,
                options={"SymmetricMode": True},
            )
        except RuntimeError:  # exactly singular
            raise self._not_positive() from None
        # Only then are the diagonal of U the pivots, all of them above zero.
        if np.any(lu.perm_r != lu.perm_c) or not np.all(lu.U.diagonal() > 0):
            raise self._not_positive()
        return lu

    def _not_positive(self):
        return ValueError(
            f"{self.subject} is not positive definite, so that some weights would cost "
            "nothing. Add a small multiple of the identity to it."
        )

    @cached_property
    def digest(self):
        """A few letters that tell apart matrices of the same size."""
        parts = [self.matrix]
        if sparse.issparse(self.matrix):
            where = self.matrix.indices, self.matrix.indptr
            parts = [self.matrix.data, *(index.astype(np.int64) for index in where)]
        digest = sha1(b"".join(np.ascontiguousarray(part).tobytes() for part in parts))
        return digest.hexdigest()[:8]

    def whiten(self, rows):
        """Return rows times L^-T, (m, p)."""
        return solve_triangular(self.cholesky, rows.T, lower=True, check_finite=False).T

    def unwhiten(self, columns):
        """Return L^-T times columns, (p, m)."""
        return solve_triangular(
            self.cholesky, columns, lower=True, trans="T", check_finite=False
        )

    def solve(self, columns):
        """Return the inverse times columns, (p, m)."""
        if self.stays_sparse:
            return self.lu.solve(np.ascontiguousarray(columns))
        half = solve_triangular(self.cholesky, columns, lower=True, check_finite=False)
        return self.unwhiten(half)


def submatrix(matrix, columns, blocks):
    """Return the rows and columns of a matrix, of all its blocks if repeated."""
    if blocks > 1:
        matrix = sparse.kron(sparse.eye_array(blocks), matrix, format="csr")
    index = np.arange(matrix.shape[0])[columns]
    return matrix[index][:, index]


def check_square(matrix, name):
    """Return a square matrix of finite numbers, sparse if it was."""
    if not sparse.issparse(matrix):
        matrix = check_numbers(matrix, name)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.shape[0]:
        raise ValueError(
            f"{name} must be square, (n_features, n_features); got {matrix.shape}."
        )
    if matrix.dtype.kind not in "biuf":
        raise TypeError(
            f"{name} must hold real numbers or booleans; got dtype {matrix.dtype}."
        )
    if sparse.issparse(matrix):
        matrix = sparse.csr_array(matrix, dtype=np.float64)
    else:
        matrix = matrix.astype(np.float64)
    values = matrix.data if sparse.issparse(matrix) else matrix
    if not np.isfinite(values).all():
        raise ValueError(f"{name} holds NaN or infinite values; it needs finite ones.")
    return matrix


def symmetrised(matrix, name):
    """Return a matrix that is symmetric but for rounding as symmetric throughout."""
    difference = abs(matrix - matrix.T).max()
    if difference > 1e-8 * abs(matrix).max():
        raise ValueError(
            f"{name} must be symmetric; the largest difference between it and its "
            f"transpose is {difference:.3g}. If one direction is enough, pass the mean "
            "of both: (A + A.T) / 2."
        )
    return (matrix + matrix.T) / 2


_ALLOWED = (
    "Allowed: a matrix, or the pair (adjacency, names) that "
    "mne.channels.find_ch_adjacency returns."
)
_STRENGTH_HINT = (
    " It is 0 or more. To choose among several, pass a list of kernels: "
    "kernel=[GraphSmooth(adjacency, s) for s in (1, 10)], reg='tuned'."
)


class Penalty(Kernel):
    r"""Quadratic penalty on the weights of the features, as a kernel.

    Ridge regression with the kernel :math:`K = X \Omega^{-1} X^\top` is regression on
    the features with the penalty :math:`\lambda\, w^\top \Omega w` on their weights w.
    With optimal scoring it becomes penalised discriminant analysis [1]_, in which

    .. math:: W^\top (S_w + \lambda \Omega) W = I.

    Parameters
    ----------
    Omega : array or sparse matrix of shape (n_features, n_features)
        Symmetric and positive definite. It is factorised once, on first use; sparse
        matrices larger than 3000 remain sparse.

    Attributes
    ----------
    Omega : ndarray or sparse array of shape (n_features, n_features)
        The matrix.
    n_features : int
        Number of features of the penalty.

    Raises
    ------
    TypeError, ValueError
        If Omega is not a matrix of finite numbers, or is not square or symmetric. In
        use: if it is not positive definite or does not match the data.

    See Also
    --------
    GraphSmooth : Penalty on differences between neighbouring weights.

    Notes
    -----
    A float for ``reg`` is relative to the kernel, so that the scale of Omega does not
    matter; with ``Ridge(lam)`` it does. For a subset of the features, as in a
    searchlight, the weights outside are zero and the penalty is the principal
    submatrix of Omega.

    References
    ----------
    .. [1] Hastie, Buja & Tibshirani (1995). Penalized discriminant analysis. Annals of
       Statistics 23(1), 73-102.

    Examples
    --------
    A penalty ten times as large on the second feature:

    >>> import numpy as np
    >>> from mvpa_kfda import Penalty
    >>> kernel = Penalty(np.diag([1.0, 10.0]))
    >>> kernel([[1.0, 0.0], [0.0, 1.0]])
    array([[1. , 0. ],
           [0. , 0.1]])
    """

    shift_free = True
    is_linear = True

    @staticmethod
    def _words(given):
        return (
            "a linear kernel with a quadratic penalty on the weights of the features "
            "[@Hastie1995]"
        )

    def __init__(self, Omega: Matrix):
        self.Omega = symmetrised(check_square(Omega, "Omega"), "Omega")
        self._blocks = 1
        self._factor = DefiniteMatrix(self.Omega, "Omega")

    @property
    def n_features(self) -> int:
        """Number of features of the penalty."""
        return self._factor.matrix.shape[0] * self._blocks

    def _shown(self):
        """Return what stands between the parentheses of the representation."""
        return f"{self._factor.matrix.shape[0]} features, {self._factor.digest}"

    def _recorded_arguments(self):
        """Return what a result records; digits stand for the matrix."""
        return {
            "n_features": self.n_features,
            "blocks": self._blocks,
            "checksum": self._factor.digest,
        }

    def __repr__(self):
        """Return a short line; its digits stand for the matrix."""
        times = f".repeated({self._blocks})" if self._blocks > 1 else ""
        return f"{type(self).__name__}({self._shown()}){times}"

    def __eq__(self, other):
        """Tell whether both are the same penalty."""
        return type(self) is type(other) and repr(self) == repr(other)

    def __hash__(self):
        """Return the hash of the representation."""
        return hash(repr(self))

    def fit(self, X: ArrayLike) -> Penalty:
        """Return the kernel itself, having checked the number of columns."""
        self._rows(X)
        return self

    def _rows(self, X):
        """Return X with its blocks one below the other, (n * blocks, p)."""
        X = np.asarray(X, dtype=np.float64)
        if X.shape[1] != self.n_features:
            blocks = f" in each of {self._blocks} blocks" if self._blocks > 1 else ""
            raise ValueError(
                f"The matrix of {self!r} is for {self.n_features // self._blocks} "
                f"features{blocks}, and the data have {X.shape[1]} in all. Pass one "
                "row and column per feature, in the order of the data."
            )
        return X.reshape(-1, X.shape[1] // self._blocks)

    def features(self, X: ArrayLike) -> NDArray:
        """Return the whitened features X L^-T, where L L' = Omega."""
        return self._factor.whiten(self._rows(X)).reshape(len(X), -1)

    def __call__(self, X: ArrayLike, Y: ArrayLike | None = None) -> NDArray:
        """Return the Gram matrix (n_x, n_y) between the rows of X and of Y (or X)."""
        if self._factor.stays_sparse:
            X = np.asarray(X, dtype=np.float64)
            Y = X if Y is None else Y
            solved = self._factor.solve(self._rows(Y).T).T
            self._rows(X)  # of the right number of columns
            return X @ solved.reshape(len(Y), -1).T
        mapped = self.features(X)
        return mapped @ (mapped if Y is None else self.features(Y)).T

    def weights_from_trials(self, X: ArrayLike, dual: NDArray) -> NDArray:
        """Return Omega^-1 X' a, (n_features, m), for weights a (n, m) of trials."""
        columns = self._rows((np.asarray(X).T @ dual).T).T
        return self._unstacked(self._factor.solve(columns), dual.shape[1])

    def weights_from_features(self, coef: NDArray) -> NDArray:
        """Return L^-T b, (n_features, m), for weights b of the whitened features."""
        columns = self._rows(coef.T).T
        return self._unstacked(self._factor.unwhiten(columns), coef.shape[1])

    def _unstacked(self, columns, n_columns):
        """Return (p, m * blocks) as (p * blocks, m)."""
        return columns.T.reshape(n_columns, -1).T

    def repeated(self, times: int) -> Penalty:
        """Return the penalty of each of `times` blocks of the columns alike."""
        new = copy.copy(self)
        new._factor, new._blocks = self._factor, self._blocks * times
        return new

    def take(self, columns: NDArray) -> Penalty:
        """Return the penalty of some columns, the other weights being zero."""
        return type(self)(submatrix(self.Omega, columns, self._blocks))


class GraphSmooth(Penalty):
    r"""Penalty on differences between neighbouring weights, as a kernel.

    With the weights :math:`a_{ij}` of the edges of a graph whose nodes are the
    features,

    .. math:: w^\top \Omega w = s \sum_{i<j} a_{ij} (w_i - w_j)^2
              + \epsilon \sum_i w_i^2,

    that is :math:`\Omega = s (D - A) + \epsilon I` with the graph Laplacian
    :math:`D - A`. The discriminants are smooth over the graph [1]_.

    Parameters
    ----------
    adjacency : array or sparse matrix of shape (n_features, n_features), or tuple
        Symmetric: which features are neighbours, or non-negative edge weights. The
        diagonal is ignored. The tuple (adjacency, names) returned by
        :func:`mne.channels.find_ch_adjacency` can be passed directly. For voxels and
        pixels see :func:`sklearn.feature_extraction.image.grid_to_graph`, with its
        mask; time samples form a one-dimensional grid.
    strength : float, default=1.0
        Weight s of the differences, 0 or more. With 0 this is a ridge penalty.
    eps : float, default=0.1
        Weight of the squares, above zero.

    Attributes
    ----------
    adjacency : sparse array of shape (n_features, n_features)
        The edges, without the diagonal.
    names : tuple of str | None
        The channels, if they came with the adjacency.

    Raises
    ------
    TypeError, ValueError
        If the adjacency is not square or symmetric, has negative or infinite weights or
        no edges, if the names do not match it, or if strength is negative or eps not
        positive. In use: if its size does not match the data.

    See Also
    --------
    Penalty : Any other quadratic penalty.

    Notes
    -----
    A float for ``reg`` is relative to the kernel. Then only the ratio s / eps matters:
    it sets the smoothness, and ``reg`` the strength of the penalty. Features should
    share one unit; z-scoring each of them changes the meaning of their differences.

    For a subset of the features, as in a searchlight, the graph is cut: only edges
    within the subset are used.

    References
    ----------
    .. [1] Hastie, Buja & Tibshirani (1995). Penalized discriminant analysis. Annals of
       Statistics 23(1), 73-102.

    Examples
    --------
    Three features in a row; one trial activates only the first:

    >>> import numpy as np
    >>> from mvpa_kfda import GraphSmooth
    >>> chain = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> kernel = GraphSmooth(chain, strength=1.0, eps=1.0)
    >>> kernel([[1.0, 0.0, 0.0]], np.eye(3))
    array([[0.625, 0.25 , 0.125]])
    """

    @staticmethod
    def _words(given):
        strength = number(given["strength"])
        return (
            "a linear kernel that penalises differences between the weights of "
            f"neighbouring features (strength {strength}) [@Hastie1995]"
        )

    def __init__(self, adjacency: Adjacency, strength: float = 1.0, eps: float = 0.1):
        names = None
        if isinstance(adjacency, str):
            raise TypeError(f"Invalid value for 'adjacency': {adjacency!r}. {_ALLOWED}")
        if isinstance(adjacency, tuple):
            adjacency, names = _check_pair(adjacency)
        adjacency = check_square(adjacency, "adjacency")
        if adjacency.min() < 0:
            raise ValueError(
                f"The adjacency holds negative weights, down to {adjacency.min():.3g}. "
                "An edge has a weight of zero or more."
            )
        adjacency = symmetrised(adjacency, "adjacency")
        if check_finite("strength", strength, hint=_STRENGTH_HINT) < 0:
            raise ValueError(
                f"Invalid value for 'strength': {strength!r}. Allowed: 0 or more; a "
                "negative one would favour rough weights."
            )
        self._set(adjacency, names, strength, check_positive("eps", eps))
        if not self.adjacency.nnz:
            raise ValueError(
                "The adjacency has no edges, so that there is nothing to smooth over. "
                "Mark neighbours by True or by a weight above zero."
            )

    def _set(self, adjacency, names, strength, eps):
        """Set all attributes from a checked adjacency."""
        adjacency = sparse.coo_array(adjacency)
        apart = (adjacency.row != adjacency.col) & (adjacency.data != 0)
        edges = adjacency.data[apart], (adjacency.row[apart], adjacency.col[apart])
        self.adjacency = sparse.csr_array(edges, shape=adjacency.shape)
        self.names = names
        self.strength, self.eps = float(strength), float(eps)
        self._blocks = 1
        diagonal = self.strength * self.adjacency.sum(axis=1) + self.eps
        omega = sparse.diags_array(diagonal) - self.strength * self.adjacency
        self._factor = DefiniteMatrix(omega.tocsr(), "The penalty of the graph")

    @property
    def Omega(self) -> NDArray | sparse.sparray:
        """The matrix of the penalty, a sparse array."""
        return self._factor.matrix

    def _shown(self):
        """Return what stands between the parentheses of the representation."""
        n_edges = self.adjacency.nnz // 2
        return (
            f"{self.adjacency.shape[0]} features, {n_edges} edges, "
            f"strength={self.strength:g}, eps={self.eps:g}, {self._factor.digest}"
        )

    def _recorded_arguments(self):
        """Return what a result records; digits stand for the matrix."""
        edges = {"n_edges": self.adjacency.nnz // 2}
        numbers = {"strength": float(self.strength), "eps": float(self.eps)}
        return edges | numbers | super()._recorded_arguments()

    def take(self, columns: NDArray) -> Penalty:
        """Return the penalty of the graph between some of the columns."""
        names = self.names
        if names is not None:
            names = tuple(np.tile(names, self._blocks)[columns])
        new = copy.copy(self)
        adjacency = submatrix(self.adjacency, columns, self._blocks)
        new._set(adjacency, names, self.strength, self.eps)
        return new

    def for_channels(self, ch_names: Sequence[str]) -> Penalty:
        """Return the penalty for the given channels, in this order.

        Parameters
        ----------
        ch_names : sequence of str
            Channels of the data; the adjacency may contain more.

        Returns
        -------
        kernel : GraphSmooth
            For the graph between these channels.

        Raises
        ------
        ValueError
            If the adjacency came without names, or lacks some of the channels.
        """
        if self.names is None:
            raise ValueError(
                "The adjacency came without channel names. Pass the pair (adjacency, "
                "names) that mne.channels.find_ch_adjacency returns."
            )
        missing = [name for name in ch_names if name not in self.names]
        if missing:
            raise ValueError(
                f"The adjacency lacks {len(missing)} of the {len(ch_names)} channels "
                f"of the data: {', '.join(missing[:5])}"
                f"{', ...' if len(missing) > 5 else ''}. Make it from the info of "
                "these data, or leave the channels out."
            )
        return self.take([self.names.index(name) for name in ch_names])


def _check_pair(pair):
    """Return the adjacency and the channel names of a tuple."""
    if len(pair) != 2 or isinstance(pair[1], str):
        raise TypeError(f"Invalid value for 'adjacency': a tuple. {_ALLOWED}")
    adjacency, names = pair[0], tuple(str(name) for name in pair[1])
    if (len(names),) != np.shape(adjacency)[:1] or len(set(names)) != len(names):
        raise ValueError(
            f"The adjacency is of shape {np.shape(adjacency)} and comes with "
            f"{len(set(names))} different names; it needs one for each row."
        )
    return adjacency, names
