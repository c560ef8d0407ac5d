r"""Folds by the eigenvectors of their training sets, for penalties that labels choose.

With the centred kernel matrix of a fold's training rows, :math:`U \mathrm{diag}(w)
U^\top`, the contrasts T of their labels and :math:`c = U^\top T`, ridge regression by
any lambda predicts test rows as

.. math::

    \bar t + U_{te}\, \mathrm{diag}\frac{w}{w + \lambda}\, c, \qquad
    U_{te} = K_{te}\, U\, \mathrm{diag}(1 / w),

with :math:`K_{te}` the kernel of test and training rows, centred. So one decomposition
serves all lambdas, and every label vector may have its own, see
:mod:`mvpa_kfda.kfda.automatic`.
As in :mod:`mvpa_kfda.kfda.foldmaps`, folds share the product of features and labels
where they can.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np

from .automatic import (
    GroupDirections,
    PairProducts,
    TrainingSpectra,
    TrainingSpectrum,
    TrialGroups,
    eigenvectors,
)
from .direct import PlanMixin, make_targets, prepare
from .foldmaps import MapMaker, padded, training_means
from .folds import Layout
from .hat import (
    centre_features,
    centre_gram,
    hat_from_features,
    hat_from_gram,
    scatter_moments,
)
from .kernels import Linear, gram_of, needs_gram
from .penalties import Ridge
from .tuning import Choice

#: Bytes of the products of contrasts that are handled at a time, of some folds, and of
#: all that a block of label vectors has in one fold: blocks that are small take longer.
_CACHE_BYTES, _BLOCK_BYTES = 2**21, 3 * 2**22
#: Label vectors for which it pays to prepare products of pairs.
_MANY = 32
#: By how much test trials may add to the scatter of a feature, lest digits are lost.
_MOST_LOST = 1e3


@dataclass(frozen=True)
class Source:
    """Rows under a kernel: what eigenvectors are computed from."""

    #: Features (n, r), or the kernel matrix (n, n).
    values: np.ndarray
    are_features: bool
    #: From other rows as they are given to those of features, or of kernel values.
    rows: Callable

    @classmethod
    def of(cls, X, kernel, n_least):
        """Return that of X (n, p), for training sets of n_least trials or more."""
        if needs_gram(kernel):
            return cls(X, False, np.asarray)
        shift = 0.0
        if kernel.shift_free:
            shift = X.mean(axis=0)
            X = centre_features(X)
        kernel = kernel.fit(X)
        if kernel.low_rank or (kernel.is_linear and X.shape[1] < n_least):
            return cls(kernel.features(X), True, lambda Z: kernel.features(Z - shift))
        return cls(gram_of(X, kernel), False, lambda Z: kernel(Z - shift, X))

    def hat(self, lam):
        """Return the hat of all rows for a lambda."""
        if self.are_features:
            return hat_from_features(self.values, Ridge(lam))
        return hat_from_gram(self.values, Ridge(lam))


@dataclass(frozen=True)
class FoldBasis:
    """The eigenvectors of a fold's training set."""

    spectrum: TrainingSpectrum
    #: From contrasts to c: of all trials in the layout's order (r, n), or of those that
    #: are taken; where it is shared, from products with features and ones (r, p + 1).
    left: np.ndarray
    #: U_te, (m, r).
    right: np.ndarray
    #: Where the training trials are in the layout's order; None: `left` is of all.
    take: np.ndarray | None
    #: Whether products are shared with other folds.
    is_shared: bool
    groups: GroupDirections | None

    def project(self, T, shared, T_te, mean):
        """Return c (q, r, B), and what groups explain (L, B) where there are any.

        Of contrasts T (q, n, B), of which T_te (q, m, B) are tested, with a mean (q, B)
        over training. `shared` holds the products of all trials with features and ones,
        or where groups are small those of pairs.
        """
        if self.groups is not None:
            return self.groups.project(T, mean, shared)
        if self.is_shared:
            c = self.left @ shared
            c -= self.right.T @ T_te
            return c, None
        return self.left @ (T if self.take is None else T[:, self.take]), None

    def scores(self, c, X, places):
        """Return c U' (q, n_train) of training trials X (n_train, p) at places."""
        if self.is_shared:
            weights = c @ self.left
            return weights[:, :-1] @ X.T + weights[:, -1:]
        if self.groups is not None:
            return c @ self.groups.U.T
        return c @ (self.left if self.take is not None else self.left[:, places])


@dataclass(frozen=True)
class BasisMaker(MapMaker):
    """The data of one position, of which every fold's :class:`FoldBasis` is made.

    Attributes
    ----------
    X, kernel, reg, layout, dtype
        As of the :class:`~mvpa_kfda.kfda.foldmaps.MapMaker`.
    groups : TrialGroups
        Each trial's group, in the order of X.
    are_plain : bool
        Whether features are taken as they are given.
    """

    groups: TrialGroups
    are_plain: bool

    def __call__(self, train, test, transform):
        """Return the basis of a fold, `transform` being its fitted steps."""
        if self._may_subtract(train, test):
            found = self._subtracted(train, test)
            if found is not None:
                return found
        return super().__call__(train, test, transform)

    def prefers_features(self, rank, n):
        """Tell whether features are decomposed rather than the kernel matrix."""
        return rank < n

    def fitted(self, train, basis, c):
        """Return the scores (q, n_train) of training trials, of c (q, r) that is left.

        Scores less their mean, of the chosen lambda: c times what that explains.
        """
        places = self.place[train]
        X = self.centred[places] if basis.is_shared else None
        return basis.scores(c, X, places)

    def _may_subtract(self, train, test):
        """Tell whether training scatter may be that of all trials less the others'."""
        return (
            self.are_plain
            and isinstance(self.kernel, Linear)
            and len(train) + len(test) == len(self.X)
            and self.X.shape[1] < len(train)
        )

    def pair_products(self, T, targets):
        """Return the `PairProducts` of T (q, n, B); None where they do not pay."""
        q, _, n_columns = T.shape
        small = self.groups.are_small(min(self.X.shape), q)
        if n_columns < _MANY or not small:
            return None
        first, second = self.pairs
        if targets is not None:
            return PairProducts(first, second, targets.products(first, second))
        products = np.einsum("qpb,qpb->pb", T[:, first], T[:, second])
        return PairProducts(first, second, products.astype(float, copy=False))

    @cached_property
    def pairs(self):
        """Pairs of trials of a group, in the layout's order: first and second."""
        first, second = self.groups.pairs
        return self.place[first], self.place[second]

    @cached_property
    def scatter(self):
        """The scatter matrix of all trials, (p, p)."""
        return self.centred.T @ self.centred

    def _subtracted(self, train, test):
        """Return the basis from the scatter of all trials; None if digits were lost."""
        new, n = self.centred[self.place[test]], len(train)
        mean = new.sum(axis=0) / -n
        scatter = self.scatter - new.T @ new
        scatter -= n * mean[:, None] * mean
        if not (self.squares <= _MOST_LOST * scatter.diagonal()).all():
            return None
        values, V = eigenvectors(scatter)
        root = V / np.sqrt(values)
        right = (new - mean) @ root
        if self.groups.of(train) is not None:
            U = (self.centred[self.place[train]] - mean) @ root
            return self._pack_basis(train, values, U, right)
        left = np.empty((len(values), len(root) + 1), self.dtype)
        left[:, :-1], left[:, -1] = root.T, mean @ -root
        right = right.astype(self.dtype, copy=False)
        return FoldBasis(TrainingSpectrum.of(values, n), left, right, None, True, None)

    def _dual(self, train, K, K_te, n_features):
        """Return the basis of kernel matrices (n_train, n_train) and (m, n_train)."""
        Kc, _ = centre_gram(K)
        values, U = eigenvectors(Kc)
        U = U - U.mean(axis=0)
        cross = K_te - K.mean(axis=0)
        return self._pack_basis(train, values, U, cross @ U / values)

    def _primal(self, train, test, F, weights, n_features):
        """Return the basis of features F (n_train + m, r)."""
        n = len(train)  # the others are tested
        root, values, offset, Fc = principal_axes(F[:n])
        return self._pack_basis(train, values, Fc @ root, (F[n:] - offset) @ root)

    def _pack_basis(self, train, values, U, right):
        """Return the basis of U (n_train, r) and U_te, in the computing precision."""
        places, numbers, groups = self.place[train], self.groups.of(train), None
        right = right.astype(self.dtype)
        if numbers is not None:
            n = len(self.place)
            groups = GroupDirections(numbers, values, U, places, n)
            spectrum = TrainingSpectrum.of(values, len(train), groups)
            return FoldBasis(spectrum, right[:0], right, None, False, groups)
        left, take = padded(U.T, places, len(self.layout.order))
        spectrum = TrainingSpectrum.of(values, len(train))
        left = left.astype(self.dtype)
        return FoldBasis(spectrum, left, right, take, False, None)


def principal_axes(F):
    """Return V w^(-1/2) (p, r) and w (r,) of features F, their mean and F less that."""
    offset = F.mean(axis=0)
    Fc, moments = scatter_moments(F - offset, centred=True)
    values, V = eigenvectors(moments.matrix)
    return V / np.sqrt(values), values, offset, Fc


def apply_bases(maker, bases, T, targets=None):
    """Yield residuals E (q, k, m, B), A (q, q, k, B) and choices of batches of folds.

    Of contrasts T (q, n, B) in the layout's order; without targets they are no classes.
    Choices are a list of :class:`~.automatic.ChosenPenalties`, of a single label vector
    only.
    """
    bases, total, shared = iter(bases), T.sum(axis=1), {}

    def share(each):
        """Return what a basis shares with others."""
        if each.is_shared and "features" not in shared:
            shared["features"] = maker.products @ T
        if each.groups is not None and "pairs" not in shared:
            shared["pairs"] = maker.pair_products(T, targets)
        return shared.get("pairs" if each.groups is not None else "features")

    for number, batch in enumerate(maker.layout.batches):
        n_train, means = training_means(batch, T, total)
        T_te, of_folds = batch.of(T), targets and targets.folds[number]
        S = of_folds.terms.scatter if of_folds else _squares(batch, T, means, n_train)
        E, A, choices = np.empty_like(T_te), np.empty(S.shape, T.dtype), []
        for folds, some in _some(bases, batch.k, T):
            new, mean, out = T_te[:, folds], means[:, folds], E[:, folds]
            found = [
                each.project(T, share(each), new[:, i], mean[:, i])
                for i, each in enumerate(some)
            ]
            chosen = choose(some, found, S[:, :, folds], T.dtype, targets)
            if targets:
                A[:, :, folds] = chosen.A
            C = chosen.explained
            for i, each in enumerate(some):
                np.matmul(each.right, C[:, i, : each.right.shape[1]], out=out[:, i])
            out += mean[:, :, None]
            np.subtract(new, out, out=out)
            if T.shape[2] == 1:
                choices.append(chosen)
        yield E, A if targets else None, choices


def choose(bases, found, S, dtype, targets):
    """Return the :class:`~.automatic.ChosenPenalties` of k sets.

    Of what the bases of training sets found (`project`), and contrasts with a
    cross-product S, in a precision; without targets, they are no classes.
    """
    spectra = TrainingSpectra(tuple(each.spectrum for each in bases))
    C, own = _side_by_side(found, spectra.rank, dtype)
    return spectra.choose(C, own, S, targets is not None)


def _squares(batch, T, means, n_train):
    """Return the sums of squares (1, 1, k, B) of training values T (1, n, B)."""
    if batch.trains is not None:
        squares = [np.square(T[0, train]).sum(axis=0) for train in batch.trains]
        squares = np.stack(squares)
    else:
        squares = np.square(T[0]).sum(axis=0) - np.square(batch.of(T)[0]).sum(axis=1)
    return (squares - n_train * means[0] ** 2).astype(float)[None, None]


def _some(bases, k, T):
    """Yield slices of k folds, and their bases: as many as fit the cache.

    All of them have groups to leave out, or none.
    """
    (q, _, n_columns), start, some, most = T.shape, 0, [], 0
    for each in islice(bases, k):
        others = some and (each.groups is None) != (some[0].groups is None)
        if some and (len(some) == most or others):
            yield slice(start, start + len(some)), some
            start, some = start + len(some), []
        if not some:
            size = 8 * q * (q + 3) // 2 * len(each.spectrum.values) * n_columns
            most = max(1, _CACHE_BYTES // size)
        some.append(each)
    yield slice(start, start + len(some)), some


def _side_by_side(found, rank, dtype):
    """Return C (q, k, r, B) and what groups explain (k, L, B) or None, of k sets."""
    own = None if found[0][1] is None else np.stack([each for _, each in found])
    if len(found) == 1:
        return found[0][0].astype(dtype, copy=False)[:, None], own
    q, _, n_columns = found[0][0].shape
    C = np.zeros((q, len(found), rank, n_columns), dtype)
    for i, (c, _) in enumerate(found):
        C[:, i, : c.shape[1]] = c
    return C, own


@dataclass(frozen=True)
class AutoPlan(PlanMixin):
    """All trials as one training set, without folds.

    Attributes
    ----------
    source : Source
        The trials.
    groups : TrialGroups
        Their groups.
    dtype : dtype
        The precision in which labels are processed.
    rank : int | None
        How many discriminants to use; None: all.
    """

    source: Source
    groups: TrialGroups
    dtype: np.dtype
    rank: int | None = None

    @cached_property
    def layout(self):
        """One model of all trials."""
        return Layout.of_all(np.arange(len(self.source.values)))

    @cached_property
    def _basis(self):
        """The basis of all trials, and what makes scores of rows, (columns + 1, r)."""
        values, n = self.source.values, len(self.source.values)
        if self.source.are_features:
            root, w, offset, Fc = principal_axes(values)
            U, origin = Fc @ root, offset @ root
        else:
            w, U = eigenvectors(centre_gram(values)[0])
            U = U - U.mean(axis=0)
            root = U / w
            origin = values.mean(axis=0) @ root
        everything, groups = np.arange(n), None
        numbers = self.groups.of(everything)
        if numbers is not None:
            groups = GroupDirections(numbers, w, U, everything, n)
        spectrum = TrainingSpectrum.of(w, n, groups)
        left = U.T.astype(self.dtype)
        basis = FoldBasis(spectrum, left, left[:, :0].T, None, False, groups)
        return basis, np.vstack([root, -origin]).astype(self.dtype)

    def _project(self, T):
        """Return c (q, r, B), and what groups explain, of contrasts T (q, n, B)."""
        return self._basis[0].project(T, None, None, T.mean(axis=1))

    def _choose(self, T, targets=None):
        """Return what contrasts T (q, n, B) choose; without targets, as no classes."""
        if targets is None:
            S = np.square(T[0] - T[0].mean(axis=0)).sum(axis=0).astype(float)
            S = S[None, None, None]
        else:
            S = targets.terms.scatter
        return choose([self._basis[0]], [self._project(T)], S, self.dtype, targets)

    def block_size(self, n_classes, want_scores=False):
        """Return how many label vectors to process at a time."""
        return block_size(self.source.values.shape, n_classes)

    def all_models(self, targets):
        """Return A (q, q, 1, B) and the choice of models of all trials."""
        chosen = self._choose(targets.T, targets)
        return chosen.A.astype(self.dtype), chosen.index

    def coefficients(self, T, index):
        """Return the coefficients (q, 1, columns + 1, B) of models of T (q, n, B).

        For rows (x, 1), of lambdas with an index (1, B), see
        :mod:`mvpa_kfda.kfda.transfer`.
        """
        basis, expansion = self._basis
        c = self._project(T)[0].astype(self.dtype, copy=False)
        c *= 1 - TrainingSpectra((basis.spectrum,)).at(index)[0]
        g = (expansion @ c)[:, None]
        g[:, :, -1] += T.mean(axis=1)[:, None]
        return g

    def plain(self, codes, n_classes):
        """Return the plan of the penalty that one label vector chooses; no folds'."""
        lam = self.choose_all(codes, n_classes).lam
        return prepare(self.source.hat(lam), None, "float64", self.rank), []

    def choose_all(self, codes, n_classes):
        """Return the :class:`Choice` of one label vector (n,)."""
        labels = np.asarray(codes)[None]
        targets = make_targets(labels, n_classes, self.layout, self.dtype)
        chosen = self._choose(targets.T, targets)
        found = {key: values[0] for key, values in chosen.record().items()}
        return Choice(0, float(found["lambda"]), found["grid"], found["criterion"])

    def penalty(self, labels, n_classes):
        """Return what is to be recorded of the penalty, arrays (1, 1, ...)."""
        if n_classes is None:
            chosen = self._choose(np.asarray(labels, self.dtype).T[None])
        else:
            targets = make_targets(labels, n_classes, self.layout, self.dtype)
            chosen = self._choose(targets.T, targets)
        return {key: np.array(each)[None] for key, each in chosen.record().items()}


@dataclass(frozen=True)
class AutoExpansions:
    """What makes rows of test trials for the coefficients of an :class:`AutoPlan`."""

    source: Source

    @property
    def n_columns(self):
        """The number of columns of the rows."""
        return self.source.values.shape[1]

    def rows(self, X):
        """Return the rows (n, n_columns) of test trials X (n, p)."""
        return self.source.rows(X)


def block_size(shape, n_classes):
    """Return how many label vectors to process at a time, of values of some shape."""
    q = n_classes - 1
    values = (q * (q + 5) // 2 + 4) * min(shape)
    return int(np.clip(_BLOCK_BYTES // (8 * values), 32, 512))
