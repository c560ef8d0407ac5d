r"""The linear map of a fold from training labels to scores of its test rows.

With features Z of the fold's training rows, centred, and
:math:`Z^\top Z + \lambda I = L L^\top`, or with their centred kernel matrix K and
:math:`K + \lambda I = L L^\top`, the contrasts T of the training labels, their mean m
and their centred cross-product C give

.. math::

    h = L^{-1} Z^\top T, \quad A = C - h^\top h
    \qquad \text{or} \qquad
    h = L^{-1} (T - 1 m^\top), \quad A = \lambda\, h^\top h,

and the scores of test rows, :math:`1 m^\top + Z_{te} L^{-\top} h` or
:math:`1 m^\top + K_{te} L^{-\top} h`.

Where features are affine in the data, :math:`z = W^\top x + b` on all rows, and
training is on all others, the product with the labels is shared by all folds, and left
to a fold are small ones, with :math:`\bar x` the mean of its training rows:

.. math::

    h = L^{-1} W^\top (X^\top T - \bar x\, 1^\top T) - (Z_{te} L^{-\top})^\top T_{te}.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import lapack

from .direct import cross_product, refuse_too_large
from .hat import (
    NOT_POSITIVE,
    SINGULAR_SCATTER,
    centre_gram,
    count_features,
    scatter_moments,
)
from .kernels import Linear, gram_of, needs_gram
from .penalties import of_trials, resolve_penalty

#: How nearly features must be affine in the data, relative to their size.
_AFFINE = 1e-11
#: How many standard deviations test trials may be away, lest digits are lost to them.
_FAR = 1e4


@dataclass(frozen=True)
class FoldMap:
    """From labels to scores, in one fold."""

    #: From contrasts to h: of all trials in the layout's order (r, n), or of those that
    #: are taken; where it is affine, from products with features and ones (r, p + 1).
    left: np.ndarray
    #: From h to the scores of the test trials, (m, r).
    right: np.ndarray
    #: Where the training trials are in the layout's order; None: `left` is of all.
    take: np.ndarray | None
    #: Where it is affine: the mean of the training trials, (p,).
    mean: np.ndarray | None
    #: Where the training trials are in the layout's order.
    places: np.ndarray
    #: What h'h times is A, of kernel matrices; of features None: h'h is what A lacks.
    times: float | None
    lam: float
    degrees_of_freedom: float

    def project(self, T, shared, T_te):
        """Return h (q, r, B) of contrasts T (q, n, B), T_te (q, m, B) in testing.

        `shared` holds the products of all trials with features and ones.
        """
        if self.mean is None:
            return self.left @ (T if self.take is None else T[:, self.take])
        h = self.left @ shared
        h -= self.right.T @ T_te
        return h

    def fitted(self, T, X):
        """Return the scores of the training trials X (n_train, p), for their T.

        Contrasts T (n_train, q) less their mean, and so the scores.
        """
        if self.mean is not None:
            left, rows = self.left[:, :-1], X - self.mean
            return rows @ (left.T @ (left @ (rows.T @ T)))
        left = self.left if self.take is not None else self.left[:, self.places]
        scores = left.T @ (left @ T)
        return scores if self.times is None else T - self.times * scores


@dataclass(frozen=True)
class MapMaker:
    """The data of one position, of which every fold's map is made.

    Attributes
    ----------
    X : ndarray, shape (n, p) | (n, n)
        Features, or a precomputed kernel matrix.
    kernel, reg
        Resolved kernel and regularisation.
    layout : Layout
        The folds.
    dtype : dtype
        The precision in which labels are processed.
    """

    X: np.ndarray
    kernel: object
    reg: object
    layout: object
    dtype: np.dtype

    @cached_property
    def place(self):
        """Where every trial is in the layout's order."""
        return np.argsort(self.layout.order)

    @cached_property
    def offset(self):
        """The mean of all trials, (p,)."""
        return self.X.mean(axis=0)

    @cached_property
    def centred(self):
        """All trials in the layout's order, centred, (n, p)."""
        return self.X[self.layout.order] - self.offset

    @cached_property
    def squares(self):
        """The centred trials' sums of squares, (p,)."""
        return np.square(self.centred).sum(axis=0)

    @cached_property
    def spread(self):
        """How much every column of the data varies, (p,)."""
        size = np.sqrt(self.squares / len(self.X))
        return np.where(size == 0, 1.0, size)

    @cached_property
    def probes(self):
        """The mean of all trials, and each column moved by itself, (p + 1, p)."""
        return self.offset + np.vstack(
            [np.zeros_like(self.spread), np.diag(self.spread)]
        )

    @cached_property
    def products(self):
        """What products with features and ones are made with, (p + 1, n)."""
        ones = np.ones((len(self.X), 1))
        return np.ascontiguousarray(np.hstack([self.centred, ones]).T, self.dtype)

    def __call__(self, train, test, transform):
        """Return the map of a fold, `transform` being its fitted steps."""
        kernel, shift = self.kernel, 0.0
        if needs_gram(kernel):
            K, K_te = self.X[np.ix_(train, train)], self.X[np.ix_(test, train)]
            return self._dual(train, K, K_te, count_features(kernel, len(train)))
        Z, n = transform(self.X[np.concatenate([train, test])]), len(train)
        n_features = count_features(kernel, Z.shape[1])
        if kernel.shift_free:
            shift = Z[:n].mean(axis=0)
            Z = Z - shift
        kernel = kernel.fit(Z[:n])
        few = kernel.is_linear and 4 * Z.shape[1] < 3 * n  # they are the cheaper
        if not (kernel.low_rank or few):
            K, K_te = gram_of(Z[:n], kernel), kernel(Z[n:], Z[:n])
            return self._dual(train, K, K_te, n_features)

        def weights(F):
            return self._weights(transform, kernel, shift, F, train, test)

        return self._primal(train, test, kernel.features(Z), weights, n_features)

    def _dual(self, train, K, K_te, n_features):
        """Return the map of kernel matrices (n_train, n_train) and (m, n_train)."""
        Kc, moments = centre_gram(K, n_features=n_features)
        n, scale = moments.n, moments.scale
        lam = resolve_penalty(of_trials(self.reg, train), moments)
        refuse_too_large(lam, scale, self.dtype)
        # As for hats, the constant vector is lifted to ordinary size.
        lifted = Kc + scale / n
        lifted.flat[:: n + 1] += lam
        L, failed = lapack.dpotrf(lifted, lower=1, clean=1)
        if failed:
            raise ValueError(NOT_POSITIVE.format(lam))
        inverse, _ = lapack.dtrtri(L, lower=1)
        df = n - lam * np.square(inverse).sum() + lam / (scale + lam)
        cross = K_te - K.mean(axis=0)
        cross -= cross.mean(axis=1, keepdims=True)
        left = inverse - inverse.mean(axis=1, keepdims=True)
        # A power of two about the root of lambda: h'h of data in a small unit would
        # leave the range of single precision.
        unit = 2.0 ** (np.frexp(lam)[1] // 2)
        right = cross @ inverse.T / unit
        return self._pack(train, left * unit, right, lam / unit**2, lam, df)

    def _primal(self, train, test, F, weights, n_features):
        """Return the map of features F (n_train + m, r), with a function of weights."""
        n, centred = len(train), isinstance(self.kernel, Linear)
        offset = 0.0 if centred else F[:n].mean(axis=0)
        Fc, moments = scatter_moments(F[:n], n_features, centred)
        lam = resolve_penalty(of_trials(self.reg, train), moments)
        scatter = moments.matrix.copy()
        refuse_too_large(lam, moments.scale, self.dtype)
        scatter.flat[:: len(scatter) + 1] += lam
        L, failed = lapack.dpotrf(scatter, lower=1, clean=1)
        if failed:
            raise ValueError(SINGULAR_SCATTER.format(lam, len(scatter)))
        inverse, _ = lapack.dtrtri(L, lower=1)
        df = 1 + len(inverse) - lam * np.square(inverse).sum()
        right, W, mean = (F[n:] - offset) @ inverse.T, None, None
        if self._shares(len(F), len(scatter)) and not self._is_far(test):
            W = weights(F)
        if W is None:
            left = inverse @ Fc.T
        else:
            left, mean = inverse @ W.T, self._mean_without(test)
            left = np.column_stack([left, -(left @ mean)])
            mean = self.offset + mean
        return self._pack(train, left, right, None, lam, df, mean)

    def _shares(self, n_rows, rank):
        """Tell whether a product that folds share, and small ones, are the cheaper."""
        (n, p), k = self.X.shape, sum(batch.k for batch in self.layout.batches)
        return (
            self.kernel.is_linear
            and n_rows == n
            and 2 * n * p + k * rank * p < k * rank * n
        )

    def _is_far(self, test):
        """Tell whether a test trial is so large that others would lose digits to it.

        These are the digits of what training trials share.
        """
        new, mean = self.centred[self.place[test]], self._mean_without(test)
        left = self.squares - np.square(new).sum(axis=0)
        variance = left / (len(self.X) - len(new)) - mean**2
        deviation = np.sqrt(np.maximum(variance, 0.0))
        away = np.abs(new - mean).max(axis=0)
        return bool((away > _FAR * deviation + 1e-12 * np.abs(self.offset)).any())

    def _mean_without(self, test):
        """Return the mean of all centred trials but some, (p,)."""
        new = self.centred[self.place[test]]
        return -new.sum(axis=0) / (len(self.X) - len(new))

    def _weights(self, transform, kernel, shift, F, train, test):
        """Return W (p, r) of features F of all trials; None if they are not affine."""
        matrix = transform.matrix
        if matrix is not None:
            return kernel.features(matrix)
        moved = kernel.features(transform(self.probes) - shift)
        W = (moved[1:] - moved[0]) / self.spread[:, None]
        rows = self.centred[self.place[np.concatenate([train, test])]]
        error = np.abs(rows @ W + moved[0] - F).max()
        return W if error <= _AFFINE * np.abs(F).max() else None

    def _pack(self, train, left, right, times, lam, df, mean=None):
        """Return a map in the computing precision."""
        places, take = self.place[train], None
        if mean is None:
            left, take = padded(left, places, len(self.layout.order))
        left, right = left.astype(self.dtype), right.astype(self.dtype)
        return FoldMap(left, right, take, mean, places, times, lam, df)


def padded(left, places, n):
    """Return a map from trials at places (., n_train) for all n, and None.

    Where a product with zeros is cheaper than a copy of the trials; else itself, and
    the places.
    """
    if 2 * len(places) <= n:
        return left, places
    wide = np.zeros((len(left), n))
    wide[:, places] = left
    return wide, None


def training_means(batch, T, total):
    """Return how many training trials folds have, and their means (q, k, B).

    Of contrasts T (q, n, B), of which all trials' total is known.
    """
    if batch.trains is None:
        n_train = T.shape[1] - batch.m
        return n_train, (total[:, None] - batch.of(T).sum(axis=2)) / n_train
    means = [T[:, train].mean(axis=1) for train in batch.trains]
    return batch.trains.shape[1], np.stack(means, axis=1)


def apply_maps(maker, maps, T, fold_targets=None):
    """Yield residuals E (q, k, m, B) and A (q, q, k, B) of every batch of folds.

    Of contrasts T (q, n, B) in the layout's order; without the targets of the folds,
    they are no classes, and A is None.
    """
    maps, shared, total = iter(maps), None, T.sum(axis=1)
    for number, batch in enumerate(maker.layout.batches):
        T_te = batch.of(T)
        _, means = training_means(batch, T, total)
        E = np.empty_like(T_te)
        A = np.empty((len(T), *E.shape[:2], E.shape[3]), T.dtype)
        for i in range(batch.k):
            each, mean = next(maps), means[:, i]
            if shared is None and each.mean is not None:
                shared = maker.products @ T
            h = each.project(T, shared, T_te[:, i])
            np.subtract(T_te[:, i] - mean[:, None], each.right @ h, out=E[:, i])
            if fold_targets is not None:
                A[:, :, i] = cross_product(h[:, None], h[:, None])[:, :, 0]
                if each.times is None:
                    scatter = fold_targets[number].terms.scatter[:, :, i]
                    np.subtract(scatter, A[:, :, i], out=A[:, :, i])
                else:
                    A[:, :, i] *= each.times
        yield E, None if fold_targets is None else A
