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

from itertools import islice

import numpy as np

from .direct import Stack
from .foldwise import FoldwisePlan
from .rules import contrasts, discriminant_axes

#: Below this share of the scores' variance, their correlation is rounding error. The
#: largest lambda leaves ten digits of the scores in double precision, four in single.
_SMALLEST = {np.dtype("float64"): 1e-12, np.dtype("float32"): 1e-7}
#: Below this standard deviation, in units of the rounding of contrasts, a score is
#: constant but for rounding: it tells a class that is absent from the others.
_CONSTANT = 100
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
    (weights,) = pattern_weights([plan], codes, n_classes)
    return patterns_of(weights, signal)


def patterns_of(weights, signal):
    """The patterns of one of the :func:`pattern_weights` of a signal (n, p)."""
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


def pattern_weights(plans, codes, n_classes):
    """What every trial adds to the patterns, of plans with the same folds.

    A dict for each plan, of weights (., n) by kind. Patterns are linear in the trials,
    so that all folds together take one product with the signal.
    """
    if isinstance(plans[0], FoldwisePlan):
        return [_foldwise_weights(plan, codes, n_classes) for plan in plans]
    stack = Stack(tuple(plans))
    targets = plans[0].targets(np.asarray(codes)[None], n_classes)
    R, A = regression = stack.fit_targets(targets)
    fitted = (targets.T - R).astype(float)  # (q, n, S)
    fitted = np.ascontiguousarray(fitted.transpose(2, 0, 1))
    among = (targets.codes == np.arange(n_classes)).astype(float), stack.dtype
    A = A[:, :, 0].astype(float).transpose(2, 0, 1)
    weights = _of_all(fitted, A, *among)
    if stack.batches:
        models = stack.fold_models(targets, regression)
        scores = _fold_scores(plans, models, fitted)
        weights["class_folds"] = _mean_of_classes(scores, *among)
    back = np.argsort(stack.order)
    return [
        {kind: W[s][:, back] for kind, W in weights.items()} for s in range(len(plans))
    ]


def _of_all(fitted, A, member, dtype):
    """The weights of models of all trials, of scores (S, q, n) and A (S, q, q)."""
    among = np.ones(len(member)), member, dtype
    _, class_maps, counts = _forward_weights(fitted.copy(), *among)
    axes = discriminant_axes(A, counts, contrasts(member.shape[1]))
    forward, _, _ = _forward_weights(axes.swapaxes(1, 2) @ fitted, *among)
    return {"class": class_maps, "class_folds": class_maps, "discriminant": forward}


def _foldwise_weights(plan, codes, n_classes):
    """The weights of models of folds with a matrix of their own."""
    targets = plan.targets(codes[None], n_classes)
    plan = plan.of_labels(targets)
    whole, fit = plan.whole, plan.of_all(targets)
    fitted = whole.fitted(fit, targets.T)[:, :, 0][None].astype(float)
    A = fit.A[:, :, 0][None].astype(float)
    member, weights = (codes[:, None] == np.arange(n_classes)).astype(float), {}
    of_all = _of_all(fitted, A, member[whole.train], plan.dtype)
    for kind, (W,) in of_all.items():
        weights[kind] = np.zeros((len(W), len(codes)))
        weights[kind][:, whole.train] = W
    if not plan.batches:
        return weights

    def scores():
        """Yield those of some folds at a time, as `_fold_scores` does."""
        n = plan.n_rows
        fitted = (  # without the folds, whose matrices may be large
            (fold.train, fold.test, fold.fitted(fit, targets.T)[:, :, 0])
            for fold, fit, _ in plan.models(targets)
        )
        step = max(1, _CACHE_BYTES // (8 * n * n_classes))
        while some := list(islice(fitted, step)):
            scores = np.zeros((len(some), n_classes - 1, n))
            trained = np.zeros((len(some), n))
            for i, (train, test, values) in enumerate(some):
                scores[i][:, train] = values
                trained[i, train], trained[i, test] = 1, 0
            yield scores, trained

    return weights | {"class_folds": _mean_of_classes(scores(), member, plan.dtype)}


def _fold_scores(plans, models, fitted):
    """Yield scores (S, k, q, n) of some folds at a time, and 1 for what they train on.

    I - G is held, not G; off the diagonal the one is the negative of the other. Scores
    of test trials, 0 in the second (k, n), are not to be used.
    """
    n_plans, q, n = fitted.shape
    for batch, _, residuals, _ in models:
        tests = batch.index(n)
        step = max(1, _CACHE_BYTES // (8 * n * (batch.m + q) * n_plans))
        for start in range(0, batch.k, step):
            te = tests[start : start + step]
            E = residuals[:, start : start + step].transpose(3, 1, 0, 2)
            scores = np.empty((n_plans, len(te), q, n))
            for plan, E_s, fitted_s, out in zip(plans, E, fitted, scores, strict=True):
                if plan.hat.residual is not None:
                    spread = E_s @ plan.hat.residual[te]
                else:  # one product of large matrices instead of one for each fold
                    U = plan.hat.factor
                    spread = -((E_s @ U[te]).reshape(-1, U.shape[1]) @ U.T)
                np.add(fitted_s, spread.reshape(-1, q, n), out=out)
            trained = np.ones((len(te), n))
            np.put_along_axis(trained, te, 0, axis=1)
            yield scores, trained


def _forward_weights(scores, trained, member, dtype):
    """Return weights of A' (..., q, n), of class patterns (..., c, n), and counts.

    Of models with scores (..., q, n), which are used up. Of trials that a model was not
    trained on, 0 in `trained` (..., n) and not 1, they do not matter. `member` (n, c)
    is 1 where a trial is of a class, else 0; `dtype` is the precision of the models.
    The weights of a class without any training trial are zero. The counts (..., c) are
    of training trials.

    Scores may be constant, or linear combinations of others, as when a class is absent
    from a training set or when there are fewer channels than contrasts. But for these,
    the scale of a score does not decide whether it counts: correlations are inverted.
    """
    among, n_train = trained[..., None, :], trained.sum(axis=-1)[..., None, None]
    scores *= among
    scores -= scores.sum(axis=-1, keepdims=True) / n_train
    scores *= among
    covariance = scores @ scores.swapaxes(-2, -1)
    deviation = np.sqrt(np.diagonal(covariance, axis1=-2, axis2=-1))
    scale, rounding = np.zeros_like(deviation), _CONSTANT * np.finfo(dtype).eps
    varies = deviation > rounding * np.sqrt(n_train[..., 0])
    np.divide(1, deviation, out=scale, where=varies)
    scale = scale[..., None] * scale[..., None, :]
    values, vectors = np.linalg.eigh(covariance * scale)
    shares = np.zeros_like(values)
    kept = values > _SMALLEST[dtype] * values[..., -1:]
    np.divide(1, values, out=shares, where=kept)
    inverse = (vectors * shares[..., None, :]) @ vectors.swapaxes(-2, -1) * scale
    counts = trained @ member
    means = scores @ member  # (..., q, c)
    means /= np.maximum(counts, 1)[..., None, :]
    of_classes = (means.swapaxes(-2, -1) @ inverse) @ scores
    return inverse @ scores, of_classes, counts


def _mean_of_classes(found, member, dtype):
    """The weights of class patterns (..., c, n), the mean over models.

    Of some models' scores (..., k, q, n) and training trials (k, n) at a time, see
    `_forward_weights`; those not trained on a class are left out of its mean.
    """
    total, times = 0.0, 0
    for scores, trained in found:
        _, class_maps, counts = _forward_weights(scores, trained, member, dtype)
        total = total + class_maps.sum(axis=-3)
        times += (counts > 0).sum(axis=0)
    with np.errstate(invalid="ignore"):  # 0 / 0 is NaN: no model knows the class
        return total / times[:, None]
