"""Cluster sizes of a group map against those of group maps of permuted labels."""

from dataclasses import dataclass

import numpy as np
from scipy.stats import false_discovery_control

from .._inference.clusters import batches, find_clusters
from .._inference.null import TIES, check_finite, check_level


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
    >>> from mvpa_kfda._group.recombined import Recombined, draw_recombinations
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
        check_finite(size)
        # What is larger by a rounding error is a tie, and does not pass.
        heights[part] = np.partition(maps, row, axis=0)[row]
        heights[part] += TIES[null.dtype] * size
    return heights
