"""Sign flips of subjects' differences, tested by the one inference layer."""

import numpy as np
from scipy import stats

from .._checks import check_option
from .._inference.corrections import correct
from .._inference.null import ALTERNATIVES, FullNull, level_of_side
from .exchange import SignFlips, draw_signs

#: Where a null keeps the largest values that a correction compares with.
MAXIMA = {
    "max": "maximum",
    "cluster": "cluster_maximum",
    "cluster-size": "cluster_size_maximum",
    "tfce": "tfce_maximum",
}


def flip_here(
    differences,
    neighbours,
    correction,
    *,
    threshold=0.05,
    alternative="greater",
    n_permutations=10000,
    random_state=None,
):
    """Test the mean difference at every position by sign flips of this package.

    Parameters
    ----------
    differences : array, shape (S, C)
        Difference of each subject at each position.
    neighbours : sparse matrix, shape (C, C), or tuple of int
        Which positions are neighbours, or the shape of the lattice that they are.
    correction : {"max", "cluster", "cluster-size", "tfce"}
        Correction for the number of positions.
    threshold : float, default=0.05
        p-level of t that forms clusters, one half on each side if two-sided.
    alternative : {"greater", "less", "two-sided"}, default="greater"
        Which differences are the interesting ones.
    n_permutations : int, default=10000
        Number of sign flips. All 2^S - 1 if there are no more than that.
    random_state : int, Generator or None, default=None
        Seed of the flips.

    Returns
    -------
    p : array, shape (C,)
        Family-wise p-values; of a cluster at all its positions, and 1 elsewhere.
    null_max : array, shape (P,)
        Largest statistic of each flip.

    Raises
    ------
    ValueError
        If the correction, the alternative or the threshold is not valid.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> differences = rng.normal([0.0, 2.0, 2.0, 0.0], 0.5, (6, 4))
    >>> flip_here(differences, (4,), "cluster")[0].round(3)
    array([1.   , 0.016, 0.016, 1.   ])
    """
    check_option("correction", correction, MAXIMA)
    signs = draw_signs(len(differences), n_permutations, random_state)
    flips = SignFlips(differences, signs)
    observed, adjacency = flips.observed, neighbours
    if isinstance(neighbours, tuple):
        observed, flips = observed.reshape(neighbours), OnLattice(flips, neighbours)
        adjacency = None
    check_option("alternative", alternative, ALTERNATIVES)
    height = height_of_t(threshold, alternative, len(differences))
    null = FullNull(observed, flips, adjacency, alternative=alternative, height=height)
    return np.ravel(correct(null, correction)), getattr(null, MAXIMA[correction])


class OnLattice:
    """A lazy null (P, C) as one of shape (P, lattice...)."""

    def __init__(self, null, lattice):
        self._null, self._lattice = null, lattice
        self.shape, self.dtype = (len(null), *lattice), null.dtype
        self.ndim = len(self.shape)

    def __len__(self):
        """Return the number of permutations."""
        return len(self._null)

    def __getitem__(self, rows):
        """Return the maps of some permutations."""
        rows = self._null[rows]
        return rows.reshape(len(rows), *self._lattice)


def height_of_t(threshold, alternative, n_subjects):
    """Return the t at which clusters are formed."""
    return stats.t.isf(level_of_side(threshold, alternative), n_subjects - 1)
