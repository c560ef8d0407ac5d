"""What maps of probabilities say: which region a place is in, or in which it may be.

Regions are numbered from 1 in the order of their maps. Values are those of the atlas,
from 0 to 1, in percent or in any other unit; what is not above 0 is in no region.
"""

import numpy as np
from scipy import sparse

from ..utils.checks import warn

#: Values that differ by less than this part are equal: files and resampling round them.
_ROUNDING = 1e-6
#: Places that a pile of labels has in common, as a part of those of all its images.
_SHARED = 0.9


def check_maps(maps, threshold):
    """Refuse maps (n_maps, n_places) of no use, and thresholds that none reaches."""
    if _are_labels(maps):
        raise ValueError(
            f"labels_img holds {len(maps)} images of labels (whole numbers, all in the "
            "same places), not maps of probabilities. Pass one of them; the first is "
            "nilearn.image.index_img(labels_img, 0)."
        )
    highest = max(values.max(initial=0) for values in maps)
    if not highest > 0:
        raise ValueError("No map of labels_img has a value above 0.")
    if threshold is None:
        return
    if highest < threshold * (1 - _ROUNDING):
        lowest = min(values.min() for values in maps)
        raise ValueError(
            f"No voxel of labels_img reaches atlas_threshold={threshold:g}: its values "
            f"go from {lowest:g} to {highest:g}. Use a threshold in the same unit."
        )
    positive = (values[values > 0] for values in maps)
    lowest = min(values.min() for values in positive if len(values))
    if lowest > threshold:
        warn(
            f"atlas_threshold={threshold:g} leaves nothing out: values of labels_img "
            f"above 0 go from {lowest:g} to {highest:g}. Is it in the same unit?",
            UserWarning,
        )


def decide(maps, n_places, threshold=None):
    """Return the number of the highest map at every place (n_places,), and members.

    Members are a sparse array (n_maps, n_places) of where maps reach the threshold;
    None if that is what the numbers say.
    """
    labels, highest = np.zeros(n_places, np.int64), np.zeros(n_places)
    lowest = 0.0 if threshold is None else threshold * (1 - _ROUNDING)
    reached = []
    for number, values in enumerate(maps, 1):
        inside = (values > 0) & (values >= lowest)
        wins = inside & (values > highest * (1 + _ROUNDING))
        labels[wins], highest[wins] = number, values[wins]
        if threshold is not None:
            reached.append(np.flatnonzero(inside))
    if sum(map(len, reached)) in (0, np.count_nonzero(labels)):
        return labels, None
    ends = np.cumsum([0, *map(len, reached)])
    columns = np.concatenate(reached)
    marks = np.ones(len(columns), dtype=bool), columns, ends
    return labels, sparse.csr_array(marks, shape=(len(reached), n_places))


def _are_labels(maps):
    """Tell whether maps (n_maps, n_places) are labels of several atlases."""
    if len(maps) < 2 or any((values != np.rint(values)).any() for values in maps):
        return False
    inside = [np.count_nonzero(values) for values in maps]
    total = np.zeros(maps[0].shape)
    for values in maps:
        total += values
    highest = max(values.max(initial=0) for values in maps)
    # Probabilities, in percent for one, add up to no more than the whole.
    shared = min(inside) >= _SHARED * np.count_nonzero(total)
    return bool(highest > 1 and shared and total.max() > 1.1 * highest)
