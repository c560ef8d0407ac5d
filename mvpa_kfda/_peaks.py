"""Clusters of marked positions, and the peaks of the scores in them."""

import warnings

import numpy as np
from scipy import ndimage

from ._checks import check_finite, check_positive
from ._figures.common import check_request
from ._inference.clusters import components
from ._results.volume_images import shown_metric


def peak_table(result, correction, alpha, metric, min_distance, threshold):
    """Make a table of peaks, see `VolumeResult.peaks`."""
    import pandas as pd  # slow to import, and only tables need it

    check_positive("min_distance", min_distance, " It is in mm.")
    metric = shown_metric(result, metric)
    metric, correction = check_request(result, metric, correction, alpha)
    marked, p = find_marked(result, metric, correction, alpha, threshold)
    scores, space = result.metrics[metric], result.geometry
    peaks, clusters, sizes = find_peaks(
        space, scores, marked, result.adjacency, min_distance
    )
    table = space.columns() | {"score": scores}
    if result._has_p:
        table["p"] = result._p_for_plot("none", metric)
        if correction != "none":
            p = result._p_for_plot(correction, metric) if p is None else p
            table[f"p_{correction.replace('-', '_')}"] = p
    table = {name: values[peaks] for name, values in table.items()}
    table["cluster"] = clusters
    if space.kind == "volume":
        table["cluster_size_mm3"] = sizes * space.voxel_size
    else:
        table["cluster_size"] = sizes
    return pd.DataFrame(table)


def find_marked(result, metric, correction, alpha, threshold):
    """Return which positions are significant, and the p-values that tell.

    With a threshold, they are those that score as much; there are no p-values then.
    """
    if threshold is not None:
        return result.metrics[metric] >= check_finite("threshold", threshold), None
    if not result._has_p:
        raise ValueError(
            "This result has no label permutations, so nothing is significant. Give "
            "the lowest score that counts, e.g. threshold=0.6, or run the analysis "
            "again with n_permutations=1000 or so."
        )
    p = result._p_for_plot(correction, metric)
    return p <= alpha, p


def find_peaks(space, scores, marked, pairs, min_distance):
    """Find the peaks of the marked positions.

    Parameters
    ----------
    space : VolumeSpace, SurfaceSpace, RegionSpace or FeatureSpace
        Where the positions are. In a volume, the peaks of a cluster are those of
        :func:`nilearn.reporting.get_clusters_table`, four at most; elsewhere those
        that no neighbour surpasses. Every region is a peak.
    scores : array, shape (n_positions,)
        Scores; those that are not marked may be NaN.
    marked : array of bool, shape (n_positions,)
        The positions that count.
    pairs : array of int, shape (2, n_pairs)
        Neighbouring positions. Connected ones are a cluster.
    min_distance : float
        Peaks of one cluster are further apart than this, in mm.

    Returns
    -------
    peaks : array of int, shape (n_peaks,)
        Positions of the peaks, cluster after cluster, the highest scores first.
    clusters : array of int, shape (n_peaks,)
        Number of the cluster that each is in, from 1.
    sizes : array of int, shape (n_peaks,)
        Number of positions in that cluster.

    Examples
    --------
    >>> import numpy as np
    >>> from mvpa_kfda._results.space import FeatureSpace
    >>> scores = np.array([0.7, 0.8, 0.6, 0.5, 0.9])
    >>> pairs = np.array([[0, 1, 2, 3], [1, 2, 3, 4]])
    >>> find_peaks(FeatureSpace(None, 5), scores, scores > 0.5, pairs, 8.0)
    (array([4, 1]), array([1, 2]), array([1, 3]))
    """
    where = np.flatnonzero(marked)
    # From here on, the marked positions are all there are: they are numbered anew.
    scores, edges = scores[where], _among(marked, pairs)
    cluster = components(len(where), edges)
    sizes = np.bincount(cluster)
    if space.kind == "volume":
        grid = space.voxels[where], space.affine
        found = _volume_maxima(*grid, scores, cluster, min_distance)
    elif space.kind == "regions":
        found = np.arange(len(where))
    else:
        found = _graph_maxima(scores, edges)
    found = found[np.lexsort((found, -scores[found]))]
    if space.points is not None and space.kind != "regions":
        found = _spread(found, cluster, space.points[where], min_distance)
    # The clusters in the order of their highest peaks, which come first here.
    _, first = np.unique(cluster[found], return_index=True)
    rank = np.empty(len(sizes), dtype=int)
    rank[cluster[found[np.sort(first)]]] = np.arange(len(sizes))
    found = found[np.argsort(rank[cluster[found]], kind="stable")]
    return where[found], rank[cluster[found]] + 1, sizes[cluster[found]]


def _among(marked, pairs):
    """Return the pairs of marked positions, as indices into the marked ones."""
    number = np.cumsum(marked) - 1
    return number[pairs[:, marked[pairs].all(axis=0)]]


def _volume_maxima(voxels, affine, scores, cluster, min_distance):
    """Return the indices of the peaks and sub-peaks that nilearn finds in clusters."""
    if len(voxels) == 0:
        return np.empty(0, dtype=int)
    grid = np.zeros(voxels.max(axis=0) + 1, dtype=int)
    grid[tuple(voxels.T)] = cluster + 1
    index = np.full(grid.shape, -1)
    index[tuple(voxels.T)] = np.arange(len(voxels))
    found = []
    # One by one, on small images: nilearn goes through the whole image per cluster.
    for number, box in enumerate(ndimage.find_objects(grid), start=1):
        inside, place = grid[box] == number, index[box]
        if inside.size == 1:
            found.append(place.item())
            continue
        values = np.zeros(inside.shape)
        # Ranks, because scores may be negative, and zero is outside for nilearn.
        values[inside] = 1 + np.unique(scores[place[inside]], return_inverse=True)[1]
        start = [side.start for side in box]
        peaks = _nilearn_peaks(values, start, affine, min_distance)
        found.extend(place[tuple(peaks.T)])
    return np.array(found)


def _nilearn_peaks(values, start, affine, min_distance):
    """Return the voxels (n_peaks, 3) of nilearn's peaks of positive values.

    The values were cut out of an image from the voxel `start` on.
    """
    import nibabel
    from nilearn.reporting import get_clusters_table

    # A rim of zeros: plateaus that reach the border of the image are no peaks. Cut at
    # even voxels, plateaus have the same middle as in the whole image: 2.5 becomes 2.
    rim = 2 - np.array(start) % 2
    values = np.pad(values, [(width, 1) for width in rim])
    axes = np.zeros((4, 4))
    axes[:3, :3], axes[3, 3] = affine[:3, :3], 1
    img = nibabel.Nifti1Image(values.astype(np.float32), axes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of plateaus with a middle outside of them
        table = get_clusters_table(img, 0.5, min_distance=min_distance)
    places = table[["X", "Y", "Z"]].to_numpy(dtype=float)
    return np.rint(np.linalg.solve(affine[:3, :3], places.T).T).astype(int) - rim


def _graph_maxima(scores, edges):
    """Return one position of each set of equal scores that no neighbour surpasses."""
    i, j = edges
    plateau = components(len(scores), edges[:, scores[i] == scores[j]])
    surpassed = np.zeros(len(scores), dtype=bool)
    surpassed[plateau[i[scores[i] < scores[j]]]] = True
    surpassed[plateau[j[scores[j] < scores[i]]]] = True
    numbers, first = np.unique(plateau, return_index=True)
    return first[~surpassed[numbers]]


def _spread(found, cluster, points, min_distance):
    """Drop peaks that are too near to a higher one of their cluster; highest first."""
    kept = {number: [] for number in cluster[found]}
    for i in found:
        higher = kept[cluster[i]]
        if (np.linalg.norm(points[higher] - points[i], axis=1) > min_distance).all():
            higher.append(i)
    return found[np.isin(found, np.concatenate([[], *kept.values()]))]
