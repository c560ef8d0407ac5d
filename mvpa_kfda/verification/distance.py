"""How far data are from those that were decoded, and features that are moved as far.

Data that were saved in single precision, or read by other versions of packages, are not
the same, but for rounding. Their distance is in standard deviations, pooled over all
features: the root of the mean squared difference, by the root of the mean variance.
"""

import numpy as np

from ..utils.fingerprints import projections


def spread(values):
    """Return the standard deviation of values (n, ...) over trials, of all features."""
    return np.sqrt(np.mean(np.var(values, axis=0, dtype=float)))


def rounding(values, dtype):
    """Return how far values are from others that a floating type rounds to them."""
    size = np.sqrt(np.mean(np.square(values, dtype=float)))
    return float(np.finfo(dtype).eps * size / spread(values))


def distance(values, projected):
    """Return how far values (n, ...) are from those whose projections (n,) are known.

    None if they are not known.
    """
    if np.shape(projected) != (len(values),):
        return None
    square = np.mean((projections(values) - projected) ** 2)
    return float(np.sqrt(square * len(values) / values.size) / spread(values))


def moved(X, share, rng):
    """Return features (n, ...) that are moved at random by a share of their deviation.

    Twins of a model that is trained on these tell what such a distance does to it.
    """
    return X + share * X.std(axis=0) * rng.normal(size=X.shape)


def moved_gram(K, share, rng):
    """Return a precomputed kernel matrix of trials that are moved."""
    factors = 1 + share * rng.normal(size=len(K))
    return K * np.outer(factors, factors)
