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

from .direct import cross_product
from .folds import shared_groups

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

    @classmethod
    def shared(cls, groups):
        """Return these of groups (n,); none where no group holds two trials."""
        return cls(shared_groups(groups))

    def can_be_left_out(self, rows):
        """Tell whether some trials have groups to leave out.

        A group of every trial's own is no group, and a single one cannot be left out.
        """
        if self.groups is None:
            return False
        key = rows.tobytes()
        if key not in self._known:
            self._known[key] = 1 < len(np.unique(self.groups[rows])) < len(rows)
        return self._known[key]

    def of(self, sets):
        """Return the :class:`GroupRows` of sets of trials (k, n_train)."""
        key = sets.tobytes(), len(sets)
        if key not in self._known:
            numbers = [np.unique(self.groups[s], return_inverse=True)[1] for s in sets]
            self._known[key] = GroupRows.of(np.stack(numbers))
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


def eigenvectors(matrices):
    """Return the positive eigenvalues (k, r) of symmetric matrices (k, n, n).

    The largest first, and their eigenvectors (k, n, r). Where a matrix has fewer than
    others, zeros follow.
    """
    values, vectors = np.linalg.eigh(matrices)
    values, vectors = values[:, ::-1], vectors[:, :, ::-1]
    least, largest = values[:, -1], values[:, 0]
    wrong = np.flatnonzero(least < -_NEGATIVE * largest)
    if len(wrong):
        raise ValueError(_INDEFINITE.format(least[wrong[0]], largest[wrong[0]]))
    is_direction = values > _NULL * largest[:, None]
    rank = is_direction.sum(axis=1).max()
    values, vectors = values[:, :rank], vectors[:, :, :rank]
    if not is_direction[:, :rank].all():
        values = values * is_direction[:, :rank]
        vectors = vectors * is_direction[:, None, :rank]
    return values, vectors


def inverse_roots(values):
    """Return values (k, r) to the power of -1/2, zero where they are zero."""
    with np.errstate(divide="ignore"):
        return np.where(values > 0, 1 / np.sqrt(values), 0.0)


@dataclass(frozen=True, eq=False)
class GroupRows:
    """Which trials of k training sets belong to the same of R groups."""

    #: The number of each trial's group, (k, n_train), and the groups' sizes (k, R),
    #: zero where a set has fewer groups than others.
    numbers: np.ndarray
    sizes: np.ndarray
    #: The trials of every group (k, R, size); a short one repeats the first, and the
    #: weights (k, R, size, 1) of what is repeated are zero.
    rows: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, numbers):
        """Return those of groups with these numbers (k, n_train), from zero."""
        n_groups = numbers.max() + 1
        sizes = np.stack([np.bincount(each, minlength=n_groups) for each in numbers])
        rows = np.zeros((*sizes.shape, sizes.max()), int)
        for i, g in np.ndindex(sizes.shape):
            rows[i, g, : sizes[i, g]] = np.flatnonzero(numbers[i] == g)
        weights = np.arange(sizes.max()) < sizes[..., None]
        return cls(numbers, sizes, rows, weights[..., None].astype(float))


@dataclass(frozen=True, eq=False)
class GroupDirections:
    """The groups of k training sets, in the directions of their kernels."""

    groups: GroupRows
    #: The eigenvectors (k, n_train, r) of trials at places (k, n_train) of n.
    U: np.ndarray
    places: np.ndarray
    n: int
    #: What ridge regression explains of every direction, (k, L, r).
    explained: np.ndarray

    @cached_property
    def vectors(self):
        """The eigenvectors by groups, (k, R, size, r)."""
        sets = np.arange(len(self.U))[:, None, None]
        return self.U[sets, self.groups.rows] * self.groups.weights

    @cached_property
    def rows(self):
        """Where the trials of groups are among the n, (k, R, size)."""
        return self.places[np.arange(len(self.U))[:, None, None], self.groups.rows]

    @cached_property
    def sums(self):
        """The sums of eigenvectors over groups, (k, R, r)."""
        return self.vectors.sum(axis=2)

    @cached_property
    def between(self):
        """The share of every direction that is between groups, (k, r)."""
        sizes = np.maximum(self.groups.sizes, 1)
        return (np.square(self.sums) / sizes[..., None]).sum(axis=1)

    def project(self, T, mean, pairs=None, sets=slice(None)):
        """Return c (q, k, r, B) of contrasts T (q, n, B), and what groups explain.

        The latter of their own labels, (k, L, B): the sum of x'Hx over groups, with a
        group's contrasts x less the mean (q, k, B) of all, and its block H of the hat
        matrix. By the :class:`PairProducts`, where that takes less time. Of some of the
        sets.
        """
        if pairs is not None:
            if "by pairs" not in self._kept:
                self._kept["by pairs"] = PairMaps.of(self, pairs.first, pairs.second)
            return self._kept["by pairs"].project(T, mean, pairs.products, sets)
        left, rows = self.vectors[sets].swapaxes(2, 3), self.rows[sets]
        c, energy = np.empty((len(T), *left[:, 0, :, 0].shape, T.shape[2])), 0.0
        for i in range(len(T)):  # one at a time stays in the cache
            parts = left @ (T[i, rows] - mean[i, :, None, None])
            parts.sum(axis=1, out=c[i])
            energy += np.einsum("kgrb,kgrb->krb", parts, parts)
        return c, self.explained[sets] @ energy

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
    #: their group, (k, r + L, n).
    left: np.ndarray
    #: From the products of pairs, (k, L, pairs), and of constants, (k, L).
    of_pairs: np.ndarray
    of_constants: np.ndarray

    @classmethod
    def of(cls, groups, first, second):
        """Return those of `GroupDirections`, with the pairs of trials of a group."""
        U, places, share = groups.U, groups.places, groups.explained
        sets = np.arange(len(U))[:, None]
        whole, own = np.zeros((2, len(U), groups.n, U.shape[2]))
        whole[sets, places] = U  # zero in trials that are not trained with
        own[sets, places] = groups.sums[sets, groups.groups.numbers]
        products = whole[:, first] * whole[:, second]
        products[:, first != second] *= 2
        of_pairs = share @ products.swapaxes(1, 2)
        left = [whole.swapaxes(1, 2), share @ (whole * own).swapaxes(1, 2)]
        constants = np.square(groups.sums).sum(axis=1)
        of_constants = (share @ constants[:, :, None])[:, :, 0]
        return cls(np.concatenate(left, axis=1), of_pairs, of_constants)

    def project(self, T, mean, products, sets):
        """Do as `GroupDirections`, with the products (pairs, B) of contrasts."""
        both, of_constants = self.left[sets] @ T[:, None], self.of_constants[sets]
        rank = both.shape[2] - of_constants.shape[1]
        own = self.of_pairs[sets] @ products
        own -= 2 * np.einsum("qklb,qkb->klb", both[:, :, rank:], mean)
        own += of_constants[:, :, None] * np.square(mean).sum(axis=0)[:, None]
        return both[:, :, :rank], own


@dataclass(frozen=True, eq=False)
class TrainingSpectra:
    """What is known of k training sets of equal size without labels.

    Attributes
    ----------
    values : ndarray, shape (k, r)
        The positive eigenvalues of their centred kernels, the largest first; zeros
        follow where a set has fewer.
    n : int
        The number of trials.
    n_groups : ndarray of int, shape (k,)
        The number of groups; 1 without any.
    left : ndarray, shape (k, 2 L, r)
        Shares l of the grid, and their squares behind.
    share : ndarray, shape (k, L, 1)
        The means of l, within groups where there are any.
    """

    values: np.ndarray
    n: int
    n_groups: np.ndarray
    left: np.ndarray
    share: np.ndarray

    @classmethod
    def of(cls, values, n, groups=None):
        """Return those of sets of n trials, perhaps with their `GroupDirections`."""
        lam = (GRID * values[:, :1])[:, :, None]
        left = lam / (values[:, None] + lam)
        within, n_groups = (values > 0).astype(float), np.ones(len(values), int)
        if groups is not None:
            within -= groups.between
            n_groups = (groups.groups.sizes > 0).sum(axis=1)
        n_within = n - n_groups
        rest = n_within - within.sum(axis=1)  # where l is one
        rest[rest < _NO_DIRECTION] = 0
        share = left @ within[:, :, None]
        share += rest[:, None, None]
        share /= n_within[:, None, None]
        return cls(values, n, n_groups, np.concatenate([left, left**2], 1), share)

    def __getitem__(self, sets):
        """Return those of some of the sets."""
        of_sets = (self.n_groups[sets], self.left[sets], self.share[sets])
        return TrainingSpectra(self.values[sets], self.n, *of_sets)

    @property
    def is_full(self):
        """Whether the directions are all that there can be, (k, 1)."""
        return (self.values > 0).sum(axis=1, keepdims=True) == self.n - 1

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
        errors = errors_left_out(sums, share, are_classes)
        index = index_of_largest(errors, self.n, are_classes)
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
        R = self.n_groups[:, None, None]
        between = 1 - own / size[:, None] - sums[:, : len(GRID)] / R
        return np.sqrt(np.maximum(between, 0) * (self.share * R / (R - 1)))


def errors_left_out(sums, share, are_classes):
    r"""Return the errors (k, L, B) of left-out trials; the sums are used up.

    Of e_1, with e_2 behind, as shares of the squares of T, (k, 2 L, B), and rho. With
    these shares :math:`P^\top P = 1 - 2 e_1 + e_2`, and without a scale the error is
    :math:`e_2`, the residuals' square.
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


def index_of_largest(errors, n, are_classes):
    """Return the index (k, B) of the largest lambda that is as good as the best.

    Of errors (k, L, B) of training sets of n trials.
    """
    least = errors.min(axis=1, keepdims=True)
    margin = _TOLERANCE / n * (1 if are_classes else least)
    return (errors <= least + margin).argmax(axis=1)


def rounding_of(dtype):
    """Return the share of labels' squares that is rounding in a precision."""
    return _ROUNDING[np.dtype(dtype).name]


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
        rounding = rounding_of(C.dtype)
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
        """What is explained of c of the first label vector, (q, r) for each set."""
        return list(self.explained[..., 0].swapaxes(0, 1))

    def record(self):
        """Return what the first label vector chose, lists over the training sets."""
        values = self.spectra.values
        grids = GRID * values[:, :1]
        lambdas = grids[np.arange(len(grids)), self.index[:, 0]]
        return {
            "lambda": list(lambdas),
            "degrees_of_freedom": list(
                1 + (values / (values + lambdas[:, None])).sum(axis=1)
            ),
            "kernel": [0] * len(values),
            "grid": list(grids[:, None]),
            "scale": list(values.sum(axis=1, keepdims=True) / self.spectra.n),
            "criterion": list(self.errors[:, None]),
        }
