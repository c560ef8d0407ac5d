r"""Activation patterns: what the signal looks like where a model sees a class.

The weights of a discriminant tell how channels are combined, noise cancelled included;
they do not show where a class difference is. A model with outputs
:math:`s = W^\top (x - \bar x)` has the forward model [1]_

.. math:: x - \bar x = A s + \varepsilon, \qquad
          A = \mathrm{Cov}(x, s)\, \mathrm{Cov}(s)^{-1},

whose columns are the activation patterns. Here s are the regression scores of the
training trials, c - 1 columns that are linear combinations of the discriminants: those
of the full-data model are the rows of GT, those of a fold's model, from its residuals
E (:mod:`mvpa_kfda.kfda.direct`),

.. math:: \hat T_{tr} = (G T)_{tr} - G_{tr,te} E_{te}.

The pattern of class k against the mean is :math:`a_k = A m_k`, with :math:`m_k` the
mean of s over the training trials of class k minus that over all of them. It is in the
unit of x. Replacing s by :math:`R^\top s` turns A into :math:`A R^{-\top}` and
:math:`m_k` into :math:`R^\top m_k`: the pattern depends neither on how discriminants
are rotated nor on how they are scaled. It is linear in x, so that it may be computed
from scaled or whitened channels and brought back to their units afterwards.

When s is computed from x itself, :math:`s = B^\top (x - \bar x)`, :math:`a_k` is the
class mean difference :math:`d_k = \bar x_k - \bar x` projected onto the columns of
Cov(x) B along those directions that B does not see, since :math:`m_k = B^\top d_k`.
Without a penalty and with more trials than channels these columns are those of
:math:`X_c^\top T` (where :math:`B = (X_c^\top X_c)^{-1} X_c^\top T`), which are
combinations of all :math:`d_k`: the projection changes nothing and
:math:`a_k = d_k`. The penalty smooths the pattern by what the model saw.

References
----------
.. [1] Haufe, Meinecke, Goergen, Daehne, Haynes, Blankertz & Biessmann (2014). On the
   interpretation of weight vectors of linear models in multivariate neuroimaging.
   NeuroImage 87, 96-110.
"""

from dataclasses import dataclass
from itertools import islice

import numpy as np

from .direct import fold_models, make_targets, regress_targets
from .foldwise import FoldwisePlan
from .rules import contrasts, discriminant_axes

#: Below this share of the scores' variance, their correlation is rounding error. The
#: largest lambda leaves ten digits of the scores in double precision, four in single.
_SMALLEST = {"float64": 1e-12, "float32": 1e-7}
#: Bytes of an array over folds or channels handled at a time, to stay in the cache.
_CACHE_BYTES = 2**21


def class_patterns(plan, codes, n_classes, signal):
    r"""Return the activation patterns of one label vector's models.

    Parameters
    ----------
    plan : Plan
        From :func:`mvpa_kfda.kfda.direct.prepare`, with or without folds.
    codes : ndarray of int, shape (n,)
        Class codes 0..c-1, in the order of trials.
    n_classes : int
        The number of classes c.
    signal : ndarray, shape (n, p)
        The channels of every trial; often, but not necessarily, the model's features.

    Returns
    -------
    patterns : dict of str to ndarray
        ``"class"`` (c, p): each class against the mean, full-data model, in the unit
        of `signal`. ``"class_folds"`` (c, p): the mean over the folds' models, each on
        its own training trials; folds that do not train on a class are left out of its
        mean, and a class that no fold trains on is NaN. Without folds, the same as
        ``"class"``. ``"discriminant"`` (c - 1, p): the columns of A for the
        discriminant scores of the full-data model, in the unit of `signal` per unit of
        the score, scaled as by :meth:`KernelFDA.transform`. The sign is free; the
        largest absolute entry is made positive. Discriminants without any class
        difference are zero.

    Raises
    ------
    ValueError
        If lambda is so small that a model fits its training trials exactly.

    Examples
    --------
    Two channels, the second one noise that the first one carries too. The model
    subtracts it; the pattern shows that there is no class difference in it.

    >>> import numpy as np
    >>> from mvpa_kfda.kfda.direct import prepare
    >>> from mvpa_kfda.kfda.hat import hat_from_features
    >>> codes = np.repeat([0, 1], 50)
    >>> noise = np.tile([-1.0, 1.0], 50)
    >>> signal = np.column_stack([codes + noise, noise])
    >>> signal += np.random.default_rng(0).normal(scale=0.01, size=(100, 2))
    >>> plan = prepare(hat_from_features(signal, 1e-6), None)
    >>> class_patterns(plan, codes, 2, signal)["class"].round(1) + 0.0
    array([[-0.5,  0. ],
           [ 0.5,  0. ]])
    """
    of_folds = _foldwise_weights if isinstance(plan, FoldwisePlan) else _weights
    weights = of_folds(plan, codes, n_classes)
    patterns = {
        kind: np.empty((len(W), signal.shape[1])) for kind, W in weights.items()
    }
    step = max(1, _CACHE_BYTES // (8 * len(signal)))
    for start in range(0, signal.shape[1], step):
        some = signal[:, start : start + step]
        # Weights sum to zero: this only keeps digits of a signal far from zero.
        some = some - some.mean(axis=0)
        for kind, W in weights.items():
            np.matmul(W, some, out=patterns[kind][:, start : start + step])
    forward = patterns["discriminant"]
    peak = np.abs(forward).argmax(axis=1)[:, None]  # to be positive
    forward *= np.where(np.take_along_axis(forward, peak, 1) < 0, -1, 1)
    return patterns


def _weights(plan, codes, n_classes):
    """Return what every trial (., n) adds to the patterns, which are linear in it.

    So all folds together take one product with the signal.
    """
    full, parts = plan.plain(codes, n_classes)
    targets, regression, fitted = fit = _fit(full, codes, n_classes)
    trials = _trials(targets.codes, n_classes, plan)
    everybody = np.ones((1, len(codes)))
    _, class_maps, counts = trials.fit(fitted[None].copy(), everybody)
    A = regression.A[:, :, 0, 0].astype(float)
    axes = discriminant_axes(A, counts[0], contrasts(n_classes))
    forward, _, _ = trials.fit((axes.T @ fitted)[None], everybody)
    weights = {"class": class_maps[0], "class_folds": class_maps[0]}
    weights["discriminant"] = forward[0]
    if plan.batches:
        fits = ((p, fit if p is full else _fit(p, codes, n_classes)) for p in parts)
        found = (each for part, of in fits for each in _fold_scores(part, *of))
        weights["class_folds"] = trials.mean_maps(found)
    back = np.argsort(plan.order)
    return {kind: W[:, back] for kind, W in weights.items()}


def _foldwise_weights(plan, codes, n_classes):
    """Return the weights of models with steps or training sets of their own."""
    rows, of_all = plan.whole.train, plan.whole.plan
    weights = {}
    for kind, W in _weights(of_all, codes[rows], n_classes).items():
        weights[kind] = np.zeros((len(W), len(codes)))
        weights[kind][:, rows] = W
    found = _own_scores(plan, codes, n_classes)
    maps = _trials(codes[:, None], n_classes, plan).mean_maps(found)
    return weights | {"class_folds": maps}


def _fit(plan, codes, n_classes):
    """Return targets, their regression on all trials, and the fitted scores (q, n)."""
    targets = make_targets(np.asarray(codes)[None], n_classes, plan.layout, plan.dtype)
    regression = regress_targets(plan, targets)
    return targets, regression, (targets.T - regression.R)[:, :, 0].astype(float)


@dataclass(frozen=True)
class _Trials:
    """What the forward models of all folds have in common."""

    #: 1 where a trial is of a class, else 0, (n, c).
    member: np.ndarray
    #: The smallest share of variance that is not rounding error.
    smallest: float

    def fit(self, scores, trained):
        """Return weights of A' (k, q, n), of class patterns (k, c, n), and counts.

        Of k models with scores (k, q, n), which are used up. Of trials that a model was
        not trained on, 0 in `trained` (k, n) and not 1, they do not matter. The weights
        of a class without any training trial are zero. The counts (k, c) are of
        training trials.
        """
        among, n_train = trained[:, None], trained.sum(axis=1)
        scores *= among
        scores -= scores.sum(axis=2, keepdims=True) / n_train[:, None, None]
        scores *= among
        covariance = scores @ scores.transpose(0, 2, 1)
        inverse = _inverse(covariance, self.smallest)
        counts = trained @ self.member
        means = (scores @ self.member) / np.maximum(counts, 1)[:, None]  # (k, q, c)
        of_classes = (means.transpose(0, 2, 1) @ inverse) @ scores
        return inverse @ scores, of_classes, counts

    def mean_maps(self, found):
        """Return the weights of class patterns (c, n), the mean over models.

        Of some models' scores and training trials at a time, see `fit`; models that
        were not trained on a class are left out of its mean.
        """
        total, times = 0.0, 0
        for scores, trained in found:
            _, class_maps, counts = self.fit(scores, trained)
            total += class_maps.sum(axis=0)
            times += (counts > 0).sum(axis=0)
        with np.errstate(invalid="ignore"):  # 0 / 0 is NaN: no model knows the class
            return total / times[:, None]


def _trials(codes, n_classes, plan):
    """Return the `_Trials` of class codes (n, 1)."""
    member = (codes == np.arange(n_classes)).astype(float)
    return _Trials(member, _SMALLEST[plan.dtype.name])


def _inverse(covariance, smallest):
    """Return a generalised inverse of covariances (k, q, q), singular ones included.

    Scores may be constant, or linear combinations of others, as when a class is absent
    from a training set or when there are fewer channels than contrasts. The scale of a
    score does not decide whether it counts: correlations are inverted.
    """
    deviation = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    scale = np.zeros_like(deviation)
    np.divide(1, deviation, out=scale, where=deviation > 0)
    scale = scale[:, :, None] * scale[:, None, :]
    values, vectors = np.linalg.eigh(covariance * scale)
    inverse = np.zeros_like(values)
    np.divide(1, values, out=inverse, where=values > smallest * values[:, -1:])
    return (vectors * inverse[:, None]) @ vectors.transpose(0, 2, 1) * scale


def _fold_scores(plan, targets, regression, fitted):
    """Yield the scores (k, q, n) of some folds at a time, and 1 for what they train on.

    I - G is held, not G; off the diagonal the one is the negative of the other. Scores
    of test trials, 0 in the second (k, n), are not to be used.
    """
    residual, factor = plan.hat.residual, plan.hat.factor
    q, n = fitted.shape
    for model in fold_models(plan, targets.folds, regression):
        batch, tests = model.batch, model.batch.index(n)
        step = max(1, _CACHE_BYTES // (8 * n * (batch.m + q)))
        for start in range(0, batch.k, step):
            te = tests[start : start + step]
            E = model.residuals[:, start : start + step, :, 0].transpose(1, 0, 2)
            trained = np.ones((len(te), n))
            np.put_along_axis(trained, te, 0, axis=1)
            if residual is None:
                # One product of large matrices instead of one for each fold.
                weights = (E @ factor[te]).reshape(-1, factor.shape[1])
                yield fitted - (weights @ factor.T).reshape(-1, q, n), trained
            else:
                yield fitted + E @ residual[te], trained


def _own_scores(plan, codes, n_classes):
    """Do as `_fold_scores` of folds with matrices of their own, in order of trials."""
    folds = plan.fitted(codes, n_classes)
    step = max(1, _CACHE_BYTES // (8 * len(codes) * n_classes))
    while some := list(islice(folds, step)):
        scores = np.zeros((len(some), n_classes - 1, len(codes)))
        trained = np.zeros((len(some), len(codes)))
        for i, (train, values) in enumerate(some):
            scores[i][:, train], trained[i, train] = values, 1
        yield scores, trained
