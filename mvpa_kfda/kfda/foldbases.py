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

import numpy as np

from .automatic import (
    GRID,
    GroupDirections,
    PairProducts,
    TrainingSpectra,
    TrialGroups,
    eigenvectors,
    inverse_roots,
)
from .direct import PlanMixin, make_targets, prepare
from .foldmaps import MapMaker, training_means
from .folds import Layout
from .hat import (
    centre_features,
    centre_gram,
    hat_from_features,
    hat_from_gram,
    middle_of,
    scatter_moments,
)
from .kernels import Linear, gram_of, needs_gram
from .penalties import Ridge
from .tuning import Choice

#: Bytes of the products of contrasts that are handled at a time, of some folds, and of
#: all that a block of label vectors has in one fold: blocks that are small take longer.
_CACHE_BYTES, _BLOCK_BYTES = 2**21, 3 * 2**22
#: Bytes of the matrices of folds that are decomposed in one call.
_TOGETHER_BYTES = 2**24
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
        are_features = kernel.low_rank or (kernel.is_linear and X.shape[1] < n_least)
        if kernel.shift_free:
            shift = X.mean(axis=0) if are_features else middle_of(X)
            centred = centre_features(X)
            X = centred if are_features else X - shift
        kernel = kernel.fit(X)
        if are_features:
            return cls(kernel.features(X), True, lambda Z: kernel.features(Z - shift))
        return cls(gram_of(X, kernel), False, lambda Z: kernel(Z - shift, X))

    @cached_property
    def unit(self):
        """A power of two about the values' size: single precision has no squares."""
        return 2.0 ** np.frexp(np.abs(self.values).max())[1]

    def hat(self, lam):
        """Return the hat of all rows for a lambda."""
        if self.are_features:
            return hat_from_features(self.values, Ridge(lam))
        return hat_from_gram(self.values, Ridge(lam))


@dataclass(frozen=True)
class FoldBases:
    """The eigenvectors of the training sets of k folds."""

    spectra: TrainingSpectra
    #: From contrasts to c: of all trials in the layout's order (k, r, n), or of those
    #: that are taken; where it is shared, from products with features and ones
    #: (k, r, p + 1); none with groups.
    left: np.ndarray | None
    #: U_te, (k, m, r).
    right: np.ndarray
    #: Where the training trials are in the layout's order, (k, n_train); None: `left`
    #: is of all.
    take: np.ndarray | None
    #: Whether products are shared with other folds.
    is_shared: bool
    groups: GroupDirections | None

    def __len__(self):
        return len(self.right)

    def n_values(self, n_contrasts):
        """Return how many values a label vector's contrasts become in every fold."""
        products = n_contrasts * (n_contrasts + 3) // 2
        of_groups = 0 if self.groups is None else self.groups.sums.shape[1]
        return max(products, of_groups) * self.spectra.values.shape[1]

    def project(self, T, shared, T_te, mean, sets=slice(None)):
        """Return c (q, k, r, B), and what groups explain (k, L, B) where there are any.

        Of contrasts T (q, n, B), of which T_te (q, k, m, B) are tested, with a mean
        (q, k, B) over training, for some of the folds. `shared` holds the products of
        all trials with features and ones, or where groups are small those of pairs.
        """
        if self.groups is not None:
            return self.groups.project(T, mean, shared, sets)
        if self.is_shared:
            c = self.left[sets] @ shared[:, None]
            c -= self.right[sets].swapaxes(1, 2) @ T_te
            return c, None
        T = T[:, None] if self.take is None else T[:, self.take[sets]]
        return self.left[sets] @ T, None

    def scores(self, i, c, X, places):
        """Return c U' (q, n_train) of training trials X (n_train, p) of fold i."""
        if self.is_shared:
            weights = c @ self.left[i]
            return weights[:, :-1] @ X.T + weights[:, -1:]
        if self.groups is not None:
            return c @ self.groups.U[i].T
        return c @ (self.left[i] if self.take is not None else self.left[i][:, places])


@dataclass(frozen=True)
class BasisMaker(MapMaker):
    """The data of one position, of which :class:`FoldBases` are made.

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

    def chunks(self, pairs):
        """Return slices of (train, test) pairs that may have their bases together.

        Those of sets of equal size, all of which have groups to leave out, or none.
        """
        kinds = [
            (len(train), len(test), self.groups.can_be_left_out(train))
            for train, test in pairs
        ]
        n_train, p = kinds[0][0], self.X.shape[1]
        most = max(1, _TOGETHER_BYTES // (8 * max(n_train, p) * min(n_train, p)))
        chunks, start = [], 0
        for stop in range(1, len(kinds) + 1):
            at_end = stop == len(kinds) or kinds[stop] != kinds[start]
            if at_end or stop - start == most:
                chunks.append(slice(start, stop))
                start = stop
        return chunks

    def together(self, pairs):
        """Return the bases of some folds in one go; None if that cannot be done."""
        trains, tests = (np.stack(sets) for sets in zip(*pairs, strict=True))
        if needs_gram(self.kernel):
            return self._of_grams(trains, tests)
        return self._subtracted(trains, tests) if self._may_subtract(pairs[0]) else None

    def stacked(self, pairs, parts):
        """Return the bases of folds, of what `__call__` returned for each of them."""
        rank = max(len(values) for values, _, _ in parts)
        arrays = []
        for each in zip(*parts, strict=True):
            out = np.zeros((len(each), *each[0].shape[:-1], rank))
            for place, some in zip(out, each, strict=True):
                place[..., : some.shape[-1]] = some
            arrays.append(out)
        return self._pack_bases(np.stack([train for train, _ in pairs]), *arrays)

    def prefers_features(self, rank, n):
        """Tell whether features are decomposed rather than the kernel matrix."""
        return rank < n

    def fitted(self, train, bases, i, c):
        """Return the scores (q, n_train) of training trials, of c (q, r) that is left.

        Scores less their mean, of the chosen lambda: c times what that explains.
        """
        places = self.place[train]
        X = self.centred[places] if bases.is_shared else None
        return bases.scores(i, c, X, places)

    def _may_subtract(self, pair):
        """Tell whether training scatter may be that of all trials less the others'."""
        train, test = pair
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

    def _subtracted(self, trains, tests):
        """Return bases from the scatter of all trials; None if digits were lost."""
        new, n = self.centred[self.place[tests]], trains.shape[1]
        mean = new.sum(axis=1) / -n
        scatter = self.scatter - new.swapaxes(1, 2) @ new
        scatter -= n * mean[:, :, None] * mean[:, None]
        left_over = np.einsum("kpp->kp", scatter)
        if not (self.squares <= _MOST_LOST * left_over).all():
            return None
        values, V = eigenvectors(scatter)
        root = V * inverse_roots(values)[:, None]
        right = (new - mean[:, None]) @ root
        if self.groups.can_be_left_out(trains[0]):
            U = (self.centred[self.place[trains]] - mean[:, None]) @ root
            return self._pack_bases(trains, values, U, right)
        left = np.empty((len(values), values.shape[1], root.shape[1] + 1), self.dtype)
        left[:, :, :-1] = root.swapaxes(1, 2)
        left[:, :, -1] = (mean[:, None] @ -root)[:, 0]
        right = right.astype(self.dtype, copy=False)
        return FoldBases(TrainingSpectra.of(values, n), left, right, None, True, None)

    def _of_grams(self, trains, tests):
        """Return bases from a precomputed kernel matrix."""
        K = self.X[trains[:, :, None], trains[:, None]]
        cross = self.X[tests[:, :, None], trains[:, None]]
        cross -= K.mean(axis=1, keepdims=True)
        values, U = eigenvectors(np.stack([centre_gram(each)[0] for each in K]))
        U = U - U.mean(axis=1, keepdims=True)
        roots = inverse_roots(values)
        right = cross @ U * np.square(roots)[:, None]
        return self._pack_bases(trains, values, U, right)

    def _dual(self, train, K, K_te, n_features):
        """Return w, U and U_te of kernels (n_train, n_train) and (m, n_train)."""
        values, U = axes_of_gram(K)
        cross = K_te - K.mean(axis=0)
        return values, U, cross @ U / values

    def _primal(self, train, test, F, weights, n_features):
        """Return w, U and U_te of features F (n_train + m, r)."""
        n = len(train)  # the others are tested
        root, values, offset, Fc = principal_axes(F[:n])
        return values, Fc @ root, (F[n:] - offset) @ root

    def _pack_bases(self, trains, values, U, right):
        """Return bases of U (k, n_train, r) and U_te, in the computing precision."""
        places, n, (k, n_train) = self.place[trains], len(self.place), trains.shape
        right = right.astype(self.dtype)
        if self.groups.can_be_left_out(trains[0]):
            groups, spectra = with_groups(self.groups.of(trains), values, U, places, n)
            return FoldBases(spectra, None, right, None, False, groups)
        left, take = U.swapaxes(1, 2).astype(self.dtype), places
        if n < 2 * n_train:  # products with zeros are cheaper than a copy of the trials
            wide, take = np.zeros((k, n, U.shape[2]), self.dtype), None
            wide[np.arange(k)[:, None], places] = U
            left = wide.swapaxes(1, 2)
        spectra = TrainingSpectra.of(values, n_train)
        return FoldBases(spectra, left, right, take, False, None)


def with_groups(rows, values, U, places, n):
    """Return `GroupDirections` of trials at places of n, and their spectra."""
    explained = values[:, None] / (
        values[:, None] + GRID[:, None] * values[:, None, :1]
    )
    groups = GroupDirections(rows, U, places, n, explained)
    return groups, TrainingSpectra.of(values, U.shape[1], groups)


def axes_of_gram(K):
    """Return the eigenvalues (r,) of a kernel matrix (n, n), centred, and U (n, r)."""
    values, U = eigenvectors(centre_gram(K)[0][None])
    return values[0], U[0] - U[0].mean(axis=0)


def principal_axes(F):
    """Return V w^(-1/2) (p, r) and w (r,) of features F, their mean and F less that."""
    offset = F.mean(axis=0)
    Fc, moments = scatter_moments(F - offset, centred=True)
    values, V = eigenvectors(moments.matrix[None])
    return V[0] / np.sqrt(values[0]), values[0], offset, Fc


def apply_bases(maker, bases, T, targets=None):
    """Yield residuals E (q, k, m, B), A (q, q, k, B) and choices of batches of folds.

    Of contrasts T (q, n, B) in the layout's order; without targets they are no classes.
    Choices are a list of :class:`~.automatic.ChosenPenalties`, of a single label vector
    only.
    """
    bases, total, shared = iter(bases), T.sum(axis=1), {}

    def share(each):
        """Return what bases share with others."""
        if each.is_shared and "features" not in shared:
            shared["features"] = maker.products @ T
        if each.groups is not None and "pairs" not in shared:
            shared["pairs"] = maker.pair_products(T, targets)
        return shared.get("pairs" if each.groups is not None else "features")

    for number, batch in enumerate(maker.layout.batches):
        n_train, means = training_means(batch, T, total)
        T_te, of_folds = batch.of(T), targets and targets.folds[number]
        S = of_folds.terms.scatter if of_folds else squares_of(batch, T, means, n_train)
        E, A, choices = np.empty_like(T_te), np.empty(S.shape, T.dtype), []
        for folds, each, sets in _some(bases, batch.k, T):
            new, mean, out = T_te[:, folds], means[:, folds], E[:, folds]
            found = each.project(T, share(each), new, mean, sets)
            chosen = choose(each.spectra[sets], found, S[:, :, folds], T.dtype, targets)
            if targets:
                A[:, :, folds] = chosen.A
            np.matmul(each.right[sets], chosen.explained, out=out)
            out += mean[:, :, None]
            np.subtract(new, out, out=out)
            if T.shape[2] == 1:
                choices.append(chosen)
        yield E, A if targets else None, choices


def choose(spectra, found, S, dtype, targets):
    """Return the :class:`~.automatic.ChosenPenalties` of k sets.

    Of what was found of their contrasts (`project`), which have a cross-product S, in a
    precision; without targets, they are no classes.
    """
    C, own = found
    return spectra.choose(C.astype(dtype, copy=False), own, S, targets is not None)


def squares_of(batch, T, means, n_train):
    """Return the sums of squares (1, 1, k, B) of training values T (1, n, B)."""
    if batch.trains is not None:
        squares = [np.square(T[0, train]).sum(axis=0) for train in batch.trains]
        squares = np.stack(squares)
    else:
        squares = np.square(T[0]).sum(axis=0) - np.square(batch.of(T)[0]).sum(axis=1)
    return (squares - n_train * means[0] ** 2).astype(float)[None, None]


def _some(bases, k, T):
    """Yield slices of k folds, bases, and which of these; as many as fit the cache."""
    (q, _, n_columns), start = T.shape, 0
    while start < k:
        each = next(bases)
        most = max(1, _CACHE_BYTES // (8 * each.n_values(q) * n_columns))
        for first in range(0, len(each), most):
            sets = slice(first, min(first + most, len(each)))
            yield slice(start + sets.start, start + sets.stop), each, sets
        start += len(each)


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
    def _bases(self):
        """The basis of all trials, and what makes scores of rows, (columns + 1, r)."""
        values, n = self.source.values, len(self.source.values)
        if self.source.are_features:
            root, w, offset, Fc = principal_axes(values)
            U, origin = Fc @ root, offset @ root
        else:
            w, U = axes_of_gram(values)
            root = U / w
            origin = values.mean(axis=0) @ root
        everything, groups = np.arange(n)[None], None
        spectra = TrainingSpectra.of(w[None], n)
        if self.groups.can_be_left_out(everything[0]):
            rows = self.groups.of(everything)
            groups, spectra = with_groups(rows, w[None], U[None], everything, n)
        left = U.T[None].astype(self.dtype)
        bases = FoldBases(
            spectra, left, left[:, :, :0].swapaxes(1, 2), None, False, groups
        )
        rows = [root * self.source.unit, -origin]
        return bases, np.vstack(rows).astype(self.dtype)

    def _project(self, T):
        """Return c (q, 1, r, B), and what groups explain, of contrasts T (q, n, B)."""
        return self._bases[0].project(T, None, None, T.mean(axis=1, keepdims=True))

    def _choose(self, T, targets=None):
        """Return what contrasts T (q, n, B) choose; without targets, as no classes."""
        if targets is None:
            S = np.square(T[0] - T[0].mean(axis=0)).sum(axis=0).astype(float)
            S = S[None, None, None]
        else:
            S = targets.terms.scatter
        spectra = self._bases[0].spectra
        return choose(spectra, self._project(T), S, self.dtype, targets)

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
        bases, expansion = self._bases
        c = self._project(T)[0].astype(self.dtype, copy=False)
        c *= 1 - bases.spectra.at(index)
        g = expansion @ c
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
        return self.source.rows(X) / self.source.unit


def block_size(shape, n_classes):
    """Return how many label vectors to process at a time, of values of some shape."""
    q = n_classes - 1
    values = (q * (q + 5) // 2 + 4) * min(shape)
    return int(np.clip(_BLOCK_BYTES // (8 * values), 32, 512))
