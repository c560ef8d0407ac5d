r"""The penalty that labels choose in closed form, in every training set: `reg="auto"`.

A penalty is good if it predicts trials well that are left out. Generalized
cross-validation [1]_ estimates that from one fit. With the centred kernel matrix of n
training trials, :math:`U \mathrm{diag}(w) U^\top`, their centred contrasts T and
:math:`c = U^\top T`, ridge regression leaves of direction j the share
:math:`l_j = \lambda / (w_j + \lambda)`, so that for any lambda

.. math::

    e_1 = \mathrm{tr}\, T^\top (T - \hat T) = \sum_j l_j c_j^2 + e_0, \qquad
    e_2 = \lVert T - \hat T \rVert^2 = \sum_j l_j^2 c_j^2 + e_0,

where :math:`e_0` is what of T lies in no direction. A left-out trial has the residual
:math:`(T - \hat T) / \varrho`, with :math:`\varrho` the mean of :math:`l_j` over all
n - 1 directions, and the prediction P, T less that residual. A discriminant may have
any scale: what counts is the error after the best one, :math:`a \ge 1` (of values that
are no classes, a = 1),

.. math::

    \frac{\lVert T - a P \rVert^2}{\lVert T \rVert^2}, \qquad
    a = \max\!\left(1, \frac{\mathrm{tr}\, T^\top P}{\lVert P \rVert^2}\right).

Of a grid of 13 lambdas from 7.5 times the largest eigenvalue to 7e-7 of it, the largest
wins whose error is at most 0.1 / n above the least; of values that are no classes, that
share of the least above it.

Where trials belong to groups (runs), it is R groups that are left out, and
:math:`\varrho` is the geometric mean of two shares. The one is the mean of l within
groups, over the n - R directions that sum to zero in each. The other is how much a
group does not explain of its own labels, with the hat matrix H and the rows
:math:`x_g` of T:

.. math::

    \frac{R}{R - 1} \left( 1 - \frac{\sum_g \mathrm{tr}\, x_g^\top H_{gg} x_g + e_1 / R}
    {\lVert T \rVert^2} \right).

The first knows the kernel alone, the second how labels follow each other within groups
in which noise may last.

All of this is a few products for any number of label vectors. No test trial has a part
in it.

References
----------
.. [1] Golub, Heath & Wahba (1979). Generalized cross-validation as a method for
   choosing a good ridge parameter. Technometrics 21(2), 215-223.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import lapack

from .direct import cross_product

#: Lambda over the largest eigenvalue, the largest first.
GRID = 10.0 ** (np.arange(3, -22, -2) * 7 / 24)
#: How much worse than the least, times n, is as good.
_TOLERANCE = 0.1
#: Eigenvalues that are zero but for rounding, as a share of the largest; and how far
#: below zero the smallest lambda still lifts them.
_NULL, _NEGATIVE = 1e-11, 1e-7
#: Squared trials of a group for each direction and contrast, from which a group is
#: large: pairs of trials then cost more than what the group adds to every direction.
_FEW = 1
#: In how many stretches of pairs those of training trials are looked up.
_MOST_STRETCHES = 3
#: A share of the labels' squares that is rounding.
_ROUNDING = {"float64": 1e-9, "float32": 1e-5}
#: Less than this is no direction, but rounding.
_NO_DIRECTION = 1e-6
_INDEFINITE = (
    "The kernel is not positive semi-definite: its centred matrix has eigenvalues from "
    "{:.3g} to {:.3g}. Use similarities, which are largest between a trial and "
    "itself, not distances; or a fixed penalty, such as reg=0.3."
)


@dataclass(frozen=True, eq=False)
class TrialGroups:
    """What takes the place of folds within training sets: each trial's group (n,)."""

    groups: np.ndarray | None

    def of(self, rows):
        """Return the :class:`GroupRows` of some trials, None where there are none.

        A group of every trial's own is no group, and a single one cannot be left out.
        """
        if self.groups is None:
            return None
        key = rows.tobytes()
        if key not in self._known:
            names, numbers = np.unique(self.groups[rows], return_inverse=True)
            some = 1 < len(names) < len(rows)
            self._known[key] = GroupRows.of(numbers) if some else None
        return self._known[key]

    @cached_property
    def _known(self):
        return {}

    @cached_property
    def pairs(self):
        """All pairs of trials of a group, themselves among them: first and second."""
        _, numbers = np.unique(self.groups, return_inverse=True)
        first, second = [], []
        for g in range(numbers.max() + 1):  # no matrix of all trials: they may be many
            rows = np.flatnonzero(numbers == g)
            i, j = np.triu_indices(len(rows))
            first.append(rows[i])
            second.append(rows[j])
        return np.concatenate(first), np.concatenate(second)

    def are_small(self, rank, n_contrasts):
        """Tell whether pairs of trials are fewer than what groups add to directions."""
        return self._squared_size <= _FEW * rank * n_contrasts

    @cached_property
    def _squared_size(self):
        """The square of the number of trials in a trial's group, on average."""
        _, sizes = np.unique(self.groups, return_counts=True)
        return (np.square(sizes).sum() / sizes.sum()) ** 2


def eigenvectors(matrix):
    """Return the positive eigenvalues (r,) of a symmetric matrix, the largest first.

    And their eigenvectors (., r).
    """
    values, vectors, failed = lapack.dsyevd(matrix.T, lower=1)
    if failed:
        raise ValueError("The eigenvalues of the kernel matrix were not found.")
    if values[0] < -_NEGATIVE * values[-1]:
        raise ValueError(_INDEFINITE.format(values[0], values[-1]))
    first = np.searchsorted(values, _NULL * values[-1], side="right")
    return values[first:][::-1], vectors[:, first:][:, ::-1]


@dataclass(frozen=True, eq=False)
class GroupRows:
    """Which trials of a training set belong to the same of R groups."""

    #: The number of each trial's group, (n_train,), and the groups' sizes (R,).
    numbers: np.ndarray
    sizes: np.ndarray
    #: The trials of every group (R, size); a short one repeats the first, and the
    #: weights (R, size, 1) of what is repeated are zero.
    rows: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, numbers):
        """Return those of groups with these numbers (n_train,), from zero."""
        sizes = np.bincount(numbers)
        rows = np.zeros((len(sizes), sizes.max()), int)
        for g, size in enumerate(sizes):
            rows[g, :size] = np.flatnonzero(numbers == g)
        weights = np.arange(sizes.max()) < sizes[:, None]
        return cls(numbers, sizes, rows, weights[..., None].astype(float))


@dataclass(frozen=True, eq=False)
class GroupDirections:
    """The groups of a training set, in the directions of its kernel."""

    groups: GroupRows
    #: The eigenvalues (r,), and eigenvectors (n_train, r) of trials at places of n.
    values: np.ndarray
    U: np.ndarray
    places: np.ndarray
    n: int

    @cached_property
    def vectors(self):
        """The eigenvectors by groups, (R, size, r)."""
        return self.U[self.groups.rows] * self.groups.weights

    @cached_property
    def sums(self):
        """The sums of eigenvectors over groups, (R, r)."""
        return self.vectors.sum(axis=1)

    @cached_property
    def explained(self):
        """What ridge regression explains of every direction, (L, r)."""
        return self.values / (self.values + GRID[:, None] * self.values[0])

    def project(self, T, mean, pairs=None):
        """Return c (q, r, B) of contrasts T (q, n, B), and what groups explain (L, B).

        Of their own labels: the sum of x'Hx over groups, with a group's contrasts x
        less the mean (q, B) of all, and its block H of the hat matrix. By the
        :class:`PairProducts`, where that takes less time.
        """
        if pairs is not None:
            if "by pairs" not in self._kept:
                self._kept["by pairs"] = PairMaps.of(self, pairs.first, pairs.second)
            return self._kept["by pairs"].project(T, mean, pairs.products)
        rows = self.places[self.groups.rows]
        parts = self.vectors.swapaxes(1, 2) @ (T[:, rows] - mean[:, None, None])
        energy = np.einsum("qgrb,qgrb->rb", parts, parts)
        return parts.sum(axis=1), self.explained @ energy

    @cached_property
    def _kept(self):
        return {}


@dataclass(frozen=True)
class PairProducts:
    """The products of many label vectors' contrasts, of pairs of trials of a group."""

    #: The trials of every pair, among the n of contrasts.
    first: np.ndarray
    second: np.ndarray
    #: The products, (pairs, B), summed over contrasts.
    products: np.ndarray


@dataclass(frozen=True, eq=False)
class PairMaps:
    """What `GroupDirections` are for many label vectors, if groups are small."""

    #: From contrasts (n,) to c, and to what is explained of them and a constant in
    #: their group, (r + L, n).
    left: np.ndarray
    #: From the products of pairs, (L, pairs), and of constants, (L,).
    of_pairs: np.ndarray
    of_constants: np.ndarray
    #: Which pairs are of training trials, neighbours together; others add nothing.
    used: tuple

    @classmethod
    def of(cls, groups, first, second):
        """Return those of `GroupDirections`, with the pairs of trials of a group."""
        U, places, sums = groups.U, groups.places, groups.sums
        whole, own = np.zeros((2, groups.n, U.shape[1]))
        whole[places], own[places] = U, sums[groups.groups.numbers]
        trained = np.zeros(groups.n, bool)
        trained[places] = True
        share, used = groups.explained, _stretches(trained[first] & trained[second])
        of_pairs = np.empty((len(share), len(first)))
        for some in used:
            products = whole[first[some]] * whole[second[some]]
            products[first[some] != second[some]] *= 2
            of_pairs[:, some] = share @ products.T
        left = np.concatenate([whole.T, share @ (whole * own).T])
        return cls(left, of_pairs, share @ np.square(sums).sum(axis=0), used)

    def project(self, T, mean, products):
        """Do as `GroupDirections`, with the products (pairs, B) of contrasts."""
        both, rank = self.left @ T, len(self.left) - len(self.of_constants)
        own = sum(self.of_pairs[:, some] @ products[some] for some in self.used)
        own -= 2 * np.einsum("qlb,qb->lb", both[:, rank:], mean)
        own += self.of_constants[:, None] * np.square(mean).sum(axis=0)
        return both[:, :rank], own


def _stretches(chosen):
    """Return slices of what is chosen (n,); all of it where there would be many."""
    edges = np.flatnonzero(np.diff(chosen, prepend=False, append=False))
    if len(edges) > 2 * _MOST_STRETCHES:
        return (slice(None),)
    return tuple(slice(*each) for each in edges.reshape(-1, 2))


@dataclass(frozen=True)
class TrainingSpectrum:
    """What is known of a training set without labels."""

    #: The positive eigenvalues of its centred kernel, the largest first, (r,).
    values: np.ndarray
    #: The number of trials.
    n: int
    #: The share of every direction (r,) that is within groups, and how many directions
    #: that are there are; without groups all.
    within: np.ndarray | float
    n_within: int

    @classmethod
    def of(cls, values, n, groups=None):
        """Return that of n trials, perhaps with their `GroupDirections`."""
        if groups is None:
            return cls(values, n, 1.0, n - 1)
        sizes = groups.groups.sizes
        between = (np.square(groups.sums) / sizes[:, None]).sum(axis=0)
        return cls(values, n, 1 - between, n - len(groups.sums))

    @property
    def n_groups(self):
        """The number of groups; 1 without any."""
        return self.n - self.n_within

    @property
    def scale(self):
        """trace(K_c) / n, the mean squared norm of a centred trial."""
        return self.values.sum() / self.n

    @property
    def is_full(self):
        """Whether the directions are all that centred trials can have."""
        return len(self.values) == self.n - 1

    @property
    def lambdas(self):
        """The grid (L,)."""
        return GRID * self.values[0]

    @cached_property
    def left(self):
        """Shares l of the grid, and their squares behind, (2 L, r)."""
        lam = self.lambdas[:, None]
        left = lam / (self.values + lam)
        return np.concatenate([left, left**2])

    @cached_property
    def share(self):
        """The means of l (L,), within groups where there are any."""
        within = np.broadcast_to(self.within, self.values.shape)
        rest = self.n_within - within.sum()  # where l is one
        if rest < _NO_DIRECTION:
            rest = 0
        return (self.left[: len(GRID)] @ within + rest) / self.n_within

    def degrees_of_freedom(self, lam):
        """Return the trace of the hat matrix for a lambda."""
        return float(1 + (self.values / (self.values + lam)).sum())


@dataclass(frozen=True)
class TrainingSpectra:
    """The spectra of k training sets of equal size, side by side.

    Attributes
    ----------
    of_sets : tuple of TrainingSpectrum
        Those of each by itself.
    """

    of_sets: tuple[TrainingSpectrum, ...]

    @property
    def rank(self):
        """The largest number of directions r."""
        return max(len(each.values) for each in self.of_sets)

    @property
    def n(self):
        """The number of trials."""
        return self.of_sets[0].n

    @cached_property
    def left(self):
        """Shares l, and their squares behind, (k, 2 L, r); 1 where no direction is."""
        left = np.ones((len(self.of_sets), 2 * len(GRID), self.rank))
        for out, each in zip(left, self.of_sets, strict=True):
            out[:, : len(each.values)] = each.left
        return left

    @cached_property
    def share(self):
        """The means of l (k, L, 1), within groups where there are any."""
        return np.stack([each.share for each in self.of_sets])[..., None]

    @cached_property
    def is_full(self):
        """Whether the directions are all that there can be, (k, 1)."""
        return np.array([[each.is_full] for each in self.of_sets])

    def at(self, index):
        """Return l (k, r, B) of the lambdas with an index (k, B)."""
        columns = np.ascontiguousarray(self.left[:, : len(GRID)].swapaxes(1, 2))
        found = [each.take(i, axis=1) for each, i in zip(columns, index, strict=True)]
        return np.stack(found)

    def choose(self, C, own, S, are_classes):
        """Return the :class:`ChosenPenalties` of label vectors.

        Parameters
        ----------
        C : ndarray, shape (q, k, r, B)
            The contrasts in the sets' directions.
        own : ndarray, shape (k, L, B) | None
            What groups explain of their own labels, where there are any.
        S : ndarray, shape (q, q, k, B)
            The contrasts' centred cross-product.
        are_classes : bool
            Whether the scale of predictions is free.
        """
        labels = _Labels.of(self, C, S)
        sums = self._sums(labels)
        share = self.share if own is None else self._between(own, labels.size, sums)
        errors = self._errors(sums, share, are_classes)
        index = self._largest(errors, are_classes)
        return ChosenPenalties(self, index, errors[..., 0], labels)

    def _sums(self, labels):
        """Return e_1, with e_2 behind, as shares of |T|^2, (k, 2 L, B)."""
        sums = self.left @ labels.energy
        if labels.beside.any():
            sums += labels.beside[:, None]
        sums *= (1 / labels.size)[:, None]
        return sums

    def _between(self, own, size, sums):
        """Return rho (k, L, B) of groups that explain so much of their own labels."""
        R = np.reshape([each.n_groups for each in self.of_sets], (-1, 1, 1))
        between = 1 - own / size[:, None] - sums[:, : len(GRID)] / R
        return np.sqrt(np.maximum(between, 0) * (self.share * R / (R - 1)))

    def _errors(self, sums, share, are_classes):
        r"""Return the errors (k, L, B) of left-out trials; the sums are used up.

        As shares of the squares of T, :math:`P^\top P = 1 - 2 e_1 + e_2`, and without a
        scale the error is :math:`e_2`, the residuals' square.
        """
        first, second = sums[:, : len(GRID)], sums[:, len(GRID) :]
        with np.errstate(all="ignore"):  # what has no value is not chosen
            first *= 1 / share
            second *= 1 / np.square(share)
            if are_classes:
                along = 1 - first  # T'P
                free = along - first
                free += second  # P'P
                np.divide(np.square(along, out=along), free, out=free)
                second = np.where(first > second, 1 - free, second)
        if not np.isfinite(second).all():
            second[~np.isfinite(second)] = np.inf
        return second

    def _largest(self, errors, are_classes):
        """Return the index (k, B) of the largest lambda that is as good as the best."""
        least = errors.min(axis=1, keepdims=True)
        margin = _TOLERANCE / self.n * (1 if are_classes else least)
        return (errors <= least + margin).argmax(axis=1)


@dataclass(frozen=True)
class _Labels:
    """What label vectors are to k training sets, in double precision."""

    #: The contrasts in directions (q, k, r, B), and their cross-product (q, q, k, B).
    C: np.ndarray
    S: np.ndarray
    #: Their squares in every direction (k, r, B), of all trials (k, B), one where there
    #: are none, and beside the directions.
    energy: np.ndarray
    size: np.ndarray
    beside: np.ndarray

    @classmethod
    def of(cls, spectra, C, S):
        """Return those of contrasts C in the directions of spectra."""
        rounding = _ROUNDING[C.dtype.name]
        C = C.astype(np.float64, copy=False)
        energy, size = np.einsum("qkrb,qkrb->krb", C, C), np.einsum("qqkb->kb", S)
        beside = size - energy.sum(axis=1)
        none = spectra.is_full | (beside <= rounding * size)
        return cls(C, S, energy, np.where(size > 0, size, 1), np.where(none, 0, beside))

    def cross_product(self, left, explained):
        """Return T'(T - fitted), (q, q, k, B), of c that is left and c explained.

        Without anything beside the directions it is a sum over these. Otherwise what is
        explained is taken off: the difference is never small then.
        """
        all_there, A = self.beside == 0, 0.0
        if not all_there.all():
            A = self.S - cross_product(explained, self.C)
        if all_there.any():
            A = np.where(all_there, cross_product(left, self.C), A)
        return A


@dataclass(frozen=True)
class ChosenPenalties:
    """What label vectors choose in k training sets."""

    spectra: TrainingSpectra
    #: The number of lambda in the grid, (k, B).
    index: np.ndarray
    #: The errors by which the first label vector chose, (k, L).
    errors: np.ndarray
    labels: _Labels

    @cached_property
    def left(self):
        """What is left of c by the chosen lambdas, (q, k, r, B)."""
        return self.labels.C * self.spectra.at(self.index)

    @cached_property
    def explained(self):
        """What is explained of c, (q, k, r, B)."""
        return self.labels.C - self.left

    @property
    def A(self):
        """The training cross-products T'(T - fitted), (q, q, k, B)."""
        return self.labels.cross_product(self.left, self.explained)

    @property
    def explained_of_first(self):
        """What is explained of c of the first label vector, q rows for each set."""
        found = self.explained[..., 0].swapaxes(0, 1)
        sizes = [len(each.values) for each in self.spectra.of_sets]
        return [each[:, :r] for each, r in zip(found, sizes, strict=True)]

    def record(self):
        """Return what the first label vector chose, lists over the training sets."""
        sets, first = self.spectra.of_sets, self.index[:, 0]
        lambdas = [each.lambdas[i] for each, i in zip(sets, first, strict=True)]
        df = [s.degrees_of_freedom(lam) for s, lam in zip(sets, lambdas, strict=True)]
        grids = [each.lambdas[None] for each in sets]
        return {
            "lambda": lambdas,
            "degrees_of_freedom": df,
            "kernel": [0] * len(sets),
            "grid": grids,
            "scale": [[each.scale] for each in sets],
            "criterion": [errors[None] for errors in self.errors],
        }
