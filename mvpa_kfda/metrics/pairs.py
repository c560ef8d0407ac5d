r"""How well every pair of classes is told apart, from the one model of all classes.

The difference of two classes' scores, :math:`s_i - s_j`, is the linear discriminant of
i against j, with the within-class covariance of the training trials of *all* classes.
So the tested trials of i and j alone say how well these two are told apart, and c
classes have a matrix of c (c - 1) / 2 pairs without any further model: a
representational dissimilarity matrix (RDM), see [1]_.

*Accuracy.* Of all tested trials of i, the share with :math:`s_i > s_j`; of those of j,
the share with :math:`s_j > s_i`; ties count one half. Their mean is the pair's
accuracy. As for other counts, all test sets are counted together.

*Distance.* In a test set that holds both, with means over its trials of i and of j,

.. math::

    d_{ij} = (n - c) \left( \overline{s_i - s_j}^{\,(i)}
    - \overline{s_i - s_j}^{\,(j)} \right)
    = (m_i - m_j)^\top \left( \frac{W + \lambda I}{n - c} \right)^{-1} (t_i - t_j),

with the class means m and the within-class scatter W of n training trials of c classes,
and the means t of the test trials: the cross-validated squared Mahalanobis distance
("crossnobis", linear discriminant contrast) of [2]_. Noise of training and test trials
is independent, so that it is 0 on average where classes do not differ, and may be
negative. It is the mean over test sets that hold both classes.

Pairs are in the order of :func:`scipy.spatial.distance.squareform`: (0, 1), (0, 2), ...

References
----------
.. [1] Guggenmos, Sterzer & Cichy (2018). Multivariate pattern analysis for MEG: A
   comparison of dissimilarity measures. NeuroImage 173, 434-447.
.. [2] Walther, Nili, Ejaz, Alink, Kriegeskorte & Diedrichsen (2016). Reliability of
   dissimilarity measures for multi-voxel pattern analysis. NeuroImage 137, 188-200.
"""

import numpy as np

from ..utils.memory import batches
from .auc import set_batches, total_in_order

#: Kind of dissimilarity -> the metric that is its table.
TABLES = {"crossnobis": "crossnobis_distances", "accuracy": "pairwise_accuracies"}
#: What is wrong where there is nothing to measure distances by.
_NO_VARIANCE = (
    "Crossnobis distances are in units of the variance within classes, and a training "
    "set holds one trial of each class only, after averaging. Use more folds, more "
    "trials, or smaller averages."
)


def n_pairs(n_classes):
    """The number of pairs of classes."""
    return n_classes * (n_classes - 1) // 2


def squares(values, n_classes, diagonal):
    """Tables (..., c, c) of condensed ones (..., pairs)."""
    out = np.full((*values.shape[:-1], n_classes, n_classes), diagonal)
    first, second = np.triu_indices(n_classes, 1)
    out[..., first, second] = out[..., second, first] = values
    return out


def pairwise_accuracy(tested):
    """The mean accuracy over pairs (t, ..., B) of what was tested.

    Of the pairs whose classes are both tested; 0.5, which is chance, if there is none.
    """
    true, n_classes = tested.true, tested.n_classes
    tested_classes = [true == i for i in range(n_classes)]
    counts = np.stack([each.sum(axis=0) for each in tested_classes])  # (c, t, ..., B)
    present = counts > 0
    # Twice how many of the tested classes a trial's own one scores above, ties once.
    own = _own_scores(true, tested.class_scores)
    above = np.full(tested.shape, -1, np.int32)  # of itself
    for j in range(n_classes):
        wins = (own > tested.class_scores[:, j]).astype(np.int8)
        wins += own >= tested.class_scores[:, j]
        above += wins * present[j]
    sums = np.stack([(above * each).sum(axis=0) for each in tested_classes])
    shares = sums / np.maximum(2 * counts, 1)
    n_present = present.sum(axis=0)
    n_ordered = n_present * (n_present - 1)  # pairs, twice
    mean = total_in_order(shares) / np.maximum(n_ordered, 1)
    return np.where(n_ordered > 0, mean, 0.5)


def _own_scores(true, scores):
    """The scores of each trial's own class, by codes and scores per class."""
    own = np.zeros(np.broadcast_shapes(true.shape, scores[:, 0].shape), scores.dtype)
    for i in range(scores.shape[1]):
        np.copyto(own, scores[:, i], where=true == i)
    return own


def pairwise_accuracies(tested):
    """The accuracy of every pair (pairs, t, ..., B); NaN if it is not tested."""
    c = tested.n_classes
    out, parts = _columns(tested)
    for part, true, scores in parts:
        own = _own_scores(true, scores)
        # Trials of i count one for every j that they are above, ties one half.
        wins = (own[:, None] > scores) + 0.5 * (own[:, None] == scores)
        shares = _class_means(true, wins, 1, c)[..., 0, :, :]
        first, second = np.triu_indices(c, 1)
        found = (shares[..., first, second] + shares[..., second, first]) / 2
        out[..., part] = np.moveaxis(found, -1, 0)
    return out.reshape(len(out), *tested.shape[1:])


def crossnobis(tested):
    """The mean distance over pairs (t, ..., B) of what was tested.

    Of the pairs that some test set holds; 0, which is chance, if there is none.
    """
    distances = tested.pair_distances
    defined = np.isfinite(distances)
    total = total_in_order(np.where(defined, distances, 0))
    return total / np.maximum(defined.sum(axis=0), 1)


def crossnobis_distances(tested):
    """The distance of every pair (pairs, t, ..., B).

    NaN where no test set holds both classes. A ValueError where a training set has one
    trial of each class, and so no variance within classes.
    """
    c = tested.n_classes
    out, parts = _columns(tested)
    for part, true, scores in parts:
        total, count = np.zeros((2, *out[..., part].shape))
        for rows, (k, m, n_train) in set_batches(tested.shapes):
            means = _class_means(true[rows], scores[rows], k, c)
            # Of the classes that the model has seen: the others' scores are infinite.
            n_seen = np.isfinite(scores[rows][::m]).sum(axis=1)
            freedom = n_train - np.moveaxis(n_seen, 0, -1)[..., None]
            if not (freedom > 0).all():
                raise ValueError(_NO_VARIANCE)
            own = np.diagonal(means, axis1=-2, axis2=-1)[..., None]
            with np.errstate(invalid="ignore"):  # absent classes' scores are infinite
                further = own - means
            first, second = np.triu_indices(c, 1)
            contrasts = further[..., first, second] + further[..., second, first]
            found = freedom * contrasts  # (t, M, B, k, pairs)
            for fold in np.moveaxis(found, (-2, -1), (0, 1)):
                is_there = np.isfinite(fold)
                total += np.where(is_there, fold, 0)
                count += is_there
        with np.errstate(invalid="ignore"):
            out[..., part] = total / count
    return out.reshape(len(out), *tested.shape[1:])


def _columns(tested):
    """An empty table (pairs, t, M, B), and parts of the columns B with theirs.

    Parts are of codes (n_test, t, M or 1, . or 1) and scores (n_test, c, 1, M, .): the
    axes in the middle are made one.
    """
    true, scores = tested.true, tested.class_scores
    true = true.reshape(*true.shape[:2], -1, true.shape[-1])
    scores = scores.reshape(*scores.shape[:2], 1, -1, scores.shape[-1])
    out = np.empty((n_pairs(tested.n_classes), *true.shape[1:2], *scores.shape[3:]))

    def parts():
        for part in batches(scores.shape[-1], scores[..., 0].size):
            of_part = true if true.shape[-1] == 1 else true[..., part]
            yield part, of_part, scores[..., part]

    return out, parts()


def _class_means(true, values, k, n_classes):
    """The means over the test trials of every class, (t, M, B, k, c, c).

    Of k test sets' codes (k m, t, M or 1, B or 1) and values (k m, c, 1 or t, M, B).
    NaN for classes that a set does not hold.
    """
    true = np.moveaxis(true.reshape(k, -1, *true.shape[1:]), (0, 1), (-2, -1))
    values = values.reshape(k, -1, *values.shape[1:])
    values = np.ascontiguousarray(np.moveaxis(values, (0, 1, 2), (-3, -2, -1)))
    members = true[..., None, :] == np.arange(n_classes)[:, None]
    with np.errstate(invalid="ignore"):
        return members.astype(float) @ values / members.sum(axis=-1)[..., None]
