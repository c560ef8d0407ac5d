"""Second-level permutations: one first-level map of every subject, taken together."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import false_discovery_control

from ..inference.clusters import batches, find_clusters
from ..inference.null import (
    TIES,
    as_precise_as,
    as_scores,
    check_finite_scores,
    check_level,
)
from ..utils.checks import check_option, generator


class Recombined:
    r"""Group maps under second-level permutations, worked out whenever they are read.

    Nothing of the size of all group maps is ever held: what is asked for is made of the
    first-level maps, in parts that fit the processor's cache.

    Parameters
    ----------
    scores : array, shape (S, C)
        Observed scores of S subjects at C positions: map 0 of each subject.
    nulls : sequence of S arrays, shape (P_s, C)
        Scores under P_s label permutations: maps 1 to P_s of subject s.
    draws : array of int, shape (P, S)
        Which map of each subject goes into each second-level permutation, see
        :func:`draw_recombinations`.
    statistic : {"min", "mean"}
        What is made of the subjects' scores at a position.

    Attributes
    ----------
    observed : array, shape (C,)
        The statistic of the observed scores.
    shape : tuple of int
        (P, C), as if it were an array.
    ndim : int
        2.
    dtype : dtype
        float32 if any of the nulls is, otherwise float64. It tells which scores are
        ties: those of the least precise null decide. A mean is worked out in float64.

    Notes
    -----
    With :math:`a_{sj}` map j of subject s, and :math:`j_{is}` what was drawn, row i is

    .. math:: m_i = \min_s a_{s j_{is}} \quad \text{or} \quad
              m_i = \frac{1}{S} \sum_s a_{s j_{is}}

    the minimum statistic of prevalence inference [1]_ or the group mean [2]_. Subjects
    are taken one after the other, so a row does not depend on which are read with it.

    References
    ----------
    .. [1] Allefeld, C., Goergen, K., & Haynes, J.-D. (2016). Valid population
       inference for information-based imaging: From the second-level t-test to
       prevalence inference. NeuroImage, 141, 378-392.
    .. [2] Stelzer, J., Chen, Y., & Turner, R. (2013). Statistical inference and
       multiple testing correction in classification-based multi-voxel pattern analysis
       (MVPA): Random permutations and cluster size control. NeuroImage, 65, 69-82.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.array([[0.9, 0.5], [0.8, 0.6]])
    >>> nulls = np.array([[0.4, 0.7]]), np.array([[0.6, 0.3]])
    >>> null = Recombined(scores, nulls, draw_recombinations([2, 2], 10), "min")
    >>> null.observed
    array([0.8, 0.5])
    >>> null[:]
    array([[0.6, 0.3],
           [0.4, 0.6],
           [0.4, 0.3]])
    """

    ndim = 2

    def __init__(self, scores, nulls, draws, statistic):
        check_option("statistic", statistic, ("min", "mean"))
        # In one piece each, or every read would copy the whole null.
        self._nulls = [np.ascontiguousarray(as_scores(null)) for null in nulls]
        single = any(null.dtype == np.float32 for null in self._nulls)
        self.dtype = np.dtype(np.float32 if single else np.float64)
        self._scores = as_precise_as(self.dtype, scores)
        self._draws, self._statistic = np.asarray(draws), statistic
        self.shape = len(self._draws), self._scores.shape[1]
        self.observed = self._over_subjects(self._scores).astype(float)

    def __len__(self):
        """Return the number of second-level permutations."""
        return len(self._draws)

    def __getitem__(self, key):
        """Return group maps: null[rows] or null[rows, positions], both of them slices.

        The array has shape (rows, positions).
        """
        rows, part = key if isinstance(key, tuple) else (key, slice(None))
        draws = self._draws[rows]
        maps = np.empty((len(draws), self._scores[0, part].size), self.dtype)
        for some in batches(*maps.shape):
            drawn = (
                self._drawn(s, index, part) for s, index in enumerate(draws[some].T)
            )
            maps[some] = self._over_subjects(drawn)
        return maps

    def _drawn(self, s, index, part):
        """Return the maps (m, part) of subject s with these numbers; 0 is observed."""
        index = index.astype(np.intp) - 1
        # Index -1 takes any row, the last one, and is put right.
        maps = self._nulls[s][:, part].take(index, axis=0)
        maps[index < 0] = self._scores[s, part]
        return maps

    def _over_subjects(self, maps):
        """Return the statistic of maps that come one subject after the other."""
        maps = iter(maps)
        if self._statistic == "min":
            total = next(maps).astype(self.dtype)
            for part in maps:
                np.minimum(total, part, out=total)
            return total
        total, n_subjects = next(maps).astype(float), len(self._nulls)
        for part in maps:
            total += part
        return (total / n_subjects).astype(self.dtype)


def draw_recombinations(n_maps, n_permutations, random_state=None):
    r"""Draw which first-level map of each subject goes into each group map.

    Parameters
    ----------
    n_maps : sequence of S int
        Number of maps :math:`P_s + 1` of each subject, the observed one and those of
        its label permutations.
    n_permutations : int
        Number of second-level permutations.
    random_state : int, Generator or None, default=None
        Seed or generator, as `numpy.random.default_rng` takes it.

    Returns
    -------
    draws : array of int, shape (P, S)
        Map numbers from 0, the observed one, to P_s. If there are at most
        n_permutations of them, P of the list of all
        :math:`\prod_s (P_s + 1)` combinations but the neutral one, which takes the
        observed map of every subject; the test is exact then. Otherwise n_permutations
        random ones.

    Notes
    -----
    The observed map is one of those drawn, in every subject: under the null hypothesis
    it is a map like the others. With b of the P group maps at least as large as the
    observed one, p = (1 + b) / (1 + P): the neutral combination is always counted [1]_.
    This is the sum over :math:`P_2 = P + 1` second-level permutations, the neutral one
    first, in Eq. 24 and 26 of [2]_.

    References
    ----------
    .. [1] Phipson, B., & Smyth, G. K. (2010). Permutation p-values should never be
       zero. Statistical Applications in Genetics and Molecular Biology, 9(1), 39.
    .. [2] Allefeld, C., Goergen, K., & Haynes, J.-D. (2016). Valid population
       inference for information-based imaging: From the second-level t-test to
       prevalence inference. NeuroImage, 141, 378-392.

    Examples
    --------
    >>> draw_recombinations([2, 3], 10)
    array([[0, 1],
           [0, 2],
           [1, 0],
           [1, 1],
           [1, 2]])
    >>> draw_recombinations([101, 101, 101], 10000, random_state=0).shape
    (10000, 3)
    """
    n_maps = [int(number) for number in n_maps]
    n_others = math.prod(n_maps) - 1
    if n_others <= n_permutations:
        every = np.unravel_index(np.arange(1, n_others + 1), n_maps)
        return np.stack(every, axis=1)
    rng = generator(random_state)
    return rng.integers(0, n_maps, size=(n_permutations, len(n_maps)), dtype=np.int32)


@dataclass(frozen=True, eq=False)
class ClusterSizes:
    """Clusters of a group map and their p-values.

    Attributes
    ----------
    p_values : array, shape (C,)
        Adjusted p-value of the cluster that a position is in, 1 outside of clusters.
    labels : array of int, shape (C,)
        Number of the cluster of each position, from 1; 0 is no cluster.
    sizes : array of int, shape (n_clusters,)
        Number of positions of each cluster.
    cluster_p : array, shape (n_clusters,)
        p-value of each cluster, not adjusted for the number of clusters.
    n_null_clusters : int
        Number of clusters that they were compared with: those of all group maps, the
        observed one included.
    """

    p_values: np.ndarray
    labels: np.ndarray
    sizes: np.ndarray
    cluster_p: np.ndarray
    n_null_clusters: int


def cluster_size_p(null, threshold=0.001, adjacency=None, shape=None):
    r"""Cluster-size inference on the group mean, with a threshold per position.

    Parameters
    ----------
    null : Recombined
        Group means under P second-level permutations, and the observed one.
    threshold : float, default=0.001
        p-level that a position passes to be in a cluster. The default is the paper's.
    adjacency : sparse matrix, shape (C, C) or None, default=None
        Which of the C positions are neighbours. None: those on the lattice of `shape`.
    shape : tuple of int or None, default=None
        Shape of the lattice, of C positions; not used with an adjacency. None, or ()
        for a single position: all of them in one line.

    Returns
    -------
    found : ClusterSizes
        The clusters of the observed map and their p-values.

    Raises
    ------
    ValueError
        If the threshold is not a p-level, if so few group maps cannot pass it, if a
        score is NaN or infinite, or if the adjacency is not valid.

    Notes
    -----
    The procedure of [1]_, on n = P + 1 group maps, the observed one included:

    1. A group map is the mean over subjects of one map each. The paper has 100
       permuted maps per subject and makes 100,000 group maps of them.
    2. At every position v a height :math:`h_v` of its own: the largest score that more
       than `threshold` of the n maps reach. A position is in a cluster where its score
       is larger; hence no more than this share of the maps passes there.
    3. With :math:`n_s` the number of clusters of size s in all n maps, a cluster of
       size S has

       .. math:: p = \sum_{s \ge S} n_s \Big/ \sum_s n_s

    4. The p-values of the observed clusters are adjusted with the procedure of
       Benjamini and Hochberg, as the paper takes 0.05 for the level of the false
       discovery rate.

    We differ from the paper in one thing. There, group maps are made of permuted maps
    only. Here the observed map of a subject is among its maps that are drawn, and the
    observed group map counts among the group maps. Under the null hypothesis the
    observed map is then a map like any other, also with few first-level permutations,
    and no p-value is zero [2]_.

    What this aims at is the false discovery rate of clusters: of the clusters with
    p <= 0.05, one in twenty is expected to be false. It says nothing about single
    positions, and a family-wise error is not controlled; for that, take the correction
    "cluster-size".

    References
    ----------
    .. [1] Stelzer, J., Chen, Y., & Turner, R. (2013). Statistical inference and
       multiple testing correction in classification-based multi-voxel pattern analysis
       (MVPA): Random permutations and cluster size control. NeuroImage, 65, 69-82.
    .. [2] Phipson, B., & Smyth, G. K. (2010). Permutation p-values should never be
       zero. Statistical Applications in Genetics and Molecular Biology, 9(1), 39.

    Examples
    --------
    >>> import numpy as np
    >>> from mvpa_kfda.group.recombined import Recombined, draw_recombinations
    >>> maps = np.random.default_rng(0).uniform(0.4, 0.6, (5, 20, 8))
    >>> maps[:, 0, 2:5] += 0.2
    >>> draws = draw_recombinations([20] * 5, 999, random_state=0)
    >>> null = Recombined(maps[:, 0], maps[:, 1:], draws, "mean")
    >>> found = cluster_size_p(null, threshold=0.01)
    >>> found.sizes
    array([3])
    >>> found.p_values.round(3)
    array([1.   , 1.   , 0.042, 0.042, 0.042, 1.   , 1.   , 1.   ])
    """
    n_positions = null.shape[1]
    lattice = shape if adjacency is None and shape else (n_positions,)
    heights = _heights(null, check_level(threshold))

    def clusters(maps):
        above = (maps > heights).reshape(len(maps), *lattice)
        # The mass of a map of zeros and ones is a size.
        labels, masses = find_clusters(above, 0.5, adjacency)
        return labels, masses.astype(int)

    labels, sizes = clusters(null.observed[np.newaxis])
    count = np.bincount(sizes, minlength=n_positions + 1)
    for rows in batches(len(null), n_positions):
        count += np.bincount(clusters(null[rows])[1], minlength=n_positions + 1)
    as_large = np.cumsum(count[::-1])[::-1]
    labels, n_null = labels.ravel(), int(as_large[0])
    if not len(sizes):
        return ClusterSizes(np.ones(n_positions), labels, sizes, np.ones(0), n_null)
    p = as_large[sizes] / n_null
    p_values = np.concatenate([[1.0], false_discovery_control(p)])[labels]
    return ClusterSizes(p_values, labels, sizes, p, n_null)


def _heights(null, threshold):
    """Return the heights (C,) above which a score is in a cluster."""
    n_maps = len(null) + 1
    # A product that should be whole may fall short of it by a rounding error.
    allowed = int(threshold * n_maps * (1 + 1e-12))
    if allowed < 1:
        raise ValueError(
            f"No score can pass threshold={threshold:g} with {len(null)} second-level "
            "permutations. Take more of them (n_permutations="
            f"{int(np.ceil(1 / threshold)) - 1} or more), or a larger threshold."
        )
    row = n_maps - 1 - allowed  # in ascending order: the largest that too many reach
    heights = np.empty(null.shape[1])
    for part in batches(len(heights), n_maps):
        maps = np.concatenate([null.observed[np.newaxis, part], null[:, part]])
        size = np.abs(maps).max(axis=0)
        check_finite_scores(size)
        # What is larger by a rounding error is a tie, and does not pass.
        heights[part] = np.partition(maps, row, axis=0)[row]
        heights[part] += TIES[null.dtype] * size
    return heights
