"""Connected sets of positions in statistic maps, and threshold-free enhancement.

Maps come stacked, shape (m, positions...), one per permutation, and are labelled many
at once. Only large values form clusters.
"""

import numpy as np
from scipy import ndimage, sparse
from scipy.sparse.csgraph import connected_components

from ._checks import check_positive

#: Stacks of maps are worked on in batches of about this many values. They stay in the
#: processor's cache, and the temporaries stay small however many maps there are.
_BATCH = 500_000


def batches(n_maps, n_values):
    """Yield slices of `n_maps` maps: as many as fit a batch, with `n_values` in each.

    What is computed per batch must not depend on the batch; a slice holds at least one
    map.
    """
    step = max(1, _BATCH // max(1, n_values))
    for first in range(0, n_maps, step):
        yield slice(first, min(first + step, n_maps))


def find_clusters(maps, threshold, adjacency=None):
    """Find connected sets of positions above a threshold, in many maps at once.

    Parameters
    ----------
    maps : array, shape (m, positions...)
        Statistic maps. Clusters never reach from one map to another.
    threshold : float
        Positions with a larger value are in a cluster.
    adjacency : sparse matrix, shape (n_positions, n_positions) or None, default=None
        Which positions are neighbours; the positions are counted in C order, and only
        the pattern of non-zeros matters. None: neighbours on the lattice, one step
        along one axis.

    Returns
    -------
    labels : array of int, shape (m, positions...)
        Number of the cluster of each position, from 1 over all maps; 0 is no cluster.
    masses : array, shape (n_clusters,)
        Sum of the map over each cluster; cluster k is at index k - 1.

    Raises
    ------
    ValueError
        If a map holds NaN or infinite values, or if the adjacency has the wrong size
        or is not symmetric.

    Examples
    --------
    >>> import numpy as np
    >>> labels, masses = find_clusters(np.array([[0, 2, 3, 0, 4], [0, 0, 5, 0, 0]]), 1)
    >>> labels
    array([[0, 1, 1, 0, 2],
           [0, 0, 3, 0, 0]], dtype=int32)
    >>> masses
    array([5., 4., 5.])
    """
    maps = _check_maps(maps)
    if not np.isfinite(threshold):
        raise ValueError(f"threshold must be a finite number; got {threshold!r}.")
    edges = _check_adjacency(adjacency, maps.shape[1:])
    labels, n_clusters = _label(maps > threshold, edges)
    return labels, _sums(labels, maps, n_clusters)


def tfce(maps, adjacency=None, start=0.0, step=0.2, e_power=0.5, h_power=2.0):
    r"""Threshold-free cluster enhancement of the positive values of many maps.

    Parameters
    ----------
    maps : array, shape (m, positions...)
        Statistic maps, in units of about one standard deviation.
    adjacency : sparse matrix, shape (n_positions, n_positions) or None, default=None
        As in :func:`find_clusters`.
    start : float, default=0.0
        First threshold.
    step : float, default=0.2
        Step between thresholds. Smaller steps cost more and change little.
    e_power : float, default=0.5
        Power E of the cluster's extent.
    h_power : float, default=2.0
        Power H of the height.

    Returns
    -------
    scores : array, shape (m, positions...)
        Enhanced maps; zero where a map is not above the lowest threshold.

    Raises
    ------
    ValueError
        If a map holds NaN or infinite values, if start or step are not valid, or if
        the adjacency has the wrong size or is not symmetric.

    Notes
    -----
    The score of position x is an integral over the heights h, done as a sum [1]_:

    .. math:: \mathrm{TFCE}(x) = \sum_h e_x(h)^E \, h^H \, \Delta h

    where :math:`e_x(h)` is the number of positions in the cluster that holds x when
    the map is cut at h.

    References
    ----------
    .. [1] Smith, S. M., & Nichols, T. E. (2009). Threshold-free cluster enhancement.
       NeuroImage, 44(1), 83-98.

    Examples
    --------
    >>> import numpy as np
    >>> tfce(np.array([[0.0, 2.5, 1.5, 0.0]]), step=1.0).round(3)
    array([[0.   , 5.414, 1.414, 0.   ]])
    """
    maps = _check_maps(maps)
    check_positive("step", step)
    if not (np.isfinite(start) and start >= 0):
        raise ValueError(f"start must be zero or a positive number; got {start!r}.")
    edges = _check_adjacency(adjacency, maps.shape[1:])
    scores = np.zeros(maps.shape)
    for rows in batches(len(maps), maps[0].size):
        _enhance(maps[rows], scores[rows], edges, (start, step), (e_power, h_power))
    return scores


def _enhance(maps, scores, edges, grid, powers):
    """Add to the scores of a few maps what each height gives their positions."""
    (start, step), (e_power, h_power) = grid, powers
    peaks = maps.reshape(len(maps), -1).max(axis=1)
    heights = np.arange(start, peaks.max(initial=start), step)
    # The first slice reaches down to zero, the others to the height before.
    slices = np.diff(heights, prepend=0.0)
    for height, weight in zip(heights, heights**h_power * slices, strict=True):
        if weight == 0:  # at height 0, which takes the longest to label
            continue
        tall = np.flatnonzero(peaks > height)
        labels, n_clusters = _label(maps[tall] > height, edges)
        extents = np.bincount(labels.ravel(), minlength=n_clusters + 1)
        gains = weight * extents**e_power
        gains[0] = 0.0  # label 0 is everything below the height
        scores[tall] += gains[labels]


def _label(above, edges):
    """Label the clusters of (m, positions...) booleans from 1, and count them."""
    if edges is not None:
        return _label_graph(above, *edges)
    structure = ndimage.generate_binary_structure(above.ndim, 1)
    structure[[0, 2]] = False  # nothing connects one map to the next
    return ndimage.label(above, structure)


def _label_graph(above, i, j):
    """Do as `_label` for a graph whose edges join the positions i and j."""
    flat = above.reshape(len(above), -1)
    labels = np.zeros(flat.shape, dtype=np.int32)
    n_clusters = 0
    for rows in batches(len(flat), max(flat.shape[1], len(i))):
        part = flat[rows]
        # The positions above, of all maps of the batch, are the nodes of one graph.
        node = np.cumsum(part).reshape(part.shape) - 1
        row, edge = np.nonzero(part[:, i] & part[:, j])
        ends = node[row, i[edge]], node[row, j[edge]]
        n_nodes = np.count_nonzero(part)
        if n_nodes:
            shape = (n_nodes, n_nodes)
            graph = sparse.coo_array((np.ones(len(row), dtype=bool), ends), shape)
            n_found, component = connected_components(graph, directed=False)
            labels[rows][part] = component + 1 + n_clusters
            n_clusters += n_found
    return labels.reshape(above.shape), n_clusters


def _sums(labels, maps, n_clusters):
    """Sum the maps over each cluster."""
    return np.bincount(labels.ravel(), maps.ravel(), minlength=n_clusters + 1)[1:]


def adjacency_among(pairs, n_positions, chosen):
    """Return the adjacency matrix of some positions.

    Parameters
    ----------
    pairs : array of int, shape (2, n_pairs)
        Neighbouring positions, each pair once.
    n_positions : int
        Number of all positions.
    chosen : array of int, shape (n_chosen,)
        The positions that the matrix is of.

    Returns
    -------
    adjacency : csr_array of bool, shape (n_chosen, n_chosen)
        True for neighbours.
    """
    marks = np.ones(pairs.shape[1], dtype=bool), tuple(pairs)
    one_way = sparse.csr_array(marks, shape=(n_positions, n_positions))
    return (one_way + one_way.T)[chosen][:, chosen]


def _check_maps(maps):
    maps = np.asarray(maps, dtype=float)
    if maps.ndim < 2 or maps.size == 0:
        raise ValueError(
            f"maps must have shape (m, *positions) and not be empty; got {maps.shape}."
        )
    if not np.isfinite(maps).all():
        raise ValueError("maps must be finite; got NaN or infinite values.")
    return maps


def _check_adjacency(adjacency, shape):
    """Return the edges (i, j), each once, of an adjacency; None for a lattice."""
    if adjacency is None:
        return None
    n_positions = int(np.prod(shape))
    graph = sparse.csr_array(adjacency).astype(bool)
    if graph.shape != (n_positions, n_positions):
        raise ValueError(
            f"adjacency must have shape ({n_positions}, {n_positions}), one row per "
            f"position of {shape}; got {graph.shape}. For sensors x times, combine the "
            "sensors' adjacency with mne.stats.combine_adjacency."
        )
    if (graph != graph.T).nnz:
        raise ValueError(
            "adjacency must be symmetric: if position i is next to j, j is next to i."
        )
    return sparse.triu(graph, k=1).nonzero()
