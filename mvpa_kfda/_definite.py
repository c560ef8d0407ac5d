"""Symmetric positive definite matrices: checked, cut, and factored once."""

from functools import cached_property
from hashlib import sha1

import numpy as np
from scipy import sparse
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from scipy.sparse.linalg import splu

#: Features from which a sparse matrix is kept sparse when it is factored.
_LARGE = 3000


class Definite:
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
            parts = [self.matrix.data, *(each.astype(np.int64) for each in where)]
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
        matrix = np.asarray(matrix)
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
            f"transpose is {difference:.3g}. If one direction is meant to do, give "
            "the mean of both: (A + A.T) / 2."
        )
    return (matrix + matrix.T) / 2
