"""The features of every position of images: spheres and regions."""

import numpy as np

from ..data.atlas import read_regions
from ..data.images import process_positions, read_images, read_labels
from ..data.neighbours import (
    adjacency_members,
    centre_features,
    keep_usable,
    members_within,
)
from ..data.volumes import usable_columns
from .reading import NotCovered, Reading


def reread_searchlight(result, imgs, y, given):
    """Return the `Reading` of `searchlight`."""
    options = result.options
    images = read_images(imgs, given.get("mask_img"), given.get("mesh"))
    centres = process_positions(images, given.get("process_mask_img"))
    n, n_known = centres.n_positions, np.shape(result.scores)[0]
    if n != n_known:
        raise NotCovered(
            f"it has {n_known:,} positions, and these data have {n:,}; pass the masks "
            "that it was computed with (mask_img, process_mask_img)"
        )
    own = centre_features(images.space, centres)
    adjacency = given.get("adjacency", options.get("adjacency"))
    if adjacency is not None:
        members = adjacency_members(adjacency, images.space.n_positions)[own]
    else:
        near = options["radius"], options.get("distance", "geodesic")
        members = members_within(images.space, centres, *near)
    return _of_images(result, images, members, own, y, given)


def reread_atlas(result, imgs, y, given):
    """Return the `Reading` of `decode_regions`."""
    options = result.options
    atlas = given.get("labels_img", options.get("labels_img")), given.get("mask_img")
    lut = given.get("lut", options.get("lut"))
    images, regions = read_regions(imgs, *atlas, lut, given.get("mesh"))
    nowhere = np.full(regions.n_positions, -1)
    return _of_images(result, images, regions.membership, nowhere, y, given)


def _of_images(result, images, members, own, y, given):
    """Return the `Reading` of images, z-scored within their runs."""
    options = result.options

    def was(name):
        return given.get(name, options.get(name))

    known = was("groups"), was("confounds"), was("train_on")
    labels = read_labels(y, *known, options.get("classes"))
    X, (all_y, all_groups) = np.array(images.X), labels.given
    reading = Reading(None, (members.shape[0],), labels.trials.y, labels.trials.groups)
    reading.note(data=X)
    scored = z_scores(X, all_y, all_groups) if result.parameters["standardize"] else X
    scored = labels.take(scored)
    members = keep_usable(members, usable_columns(X) & usable_columns(scored), own)
    reading.columns = lambda position: members[[position[0]]].indices
    reading.train = lambda position: scored[:, reading.columns(position)]
    trials = labels.trials
    reading.numbers, reading.confounds = trials.numbers, trials.confounds
    reading.train_on = None if trials.train_on is None else trials.train_on.mask
    return reading


def z_scores(X, y, groups):
    """Return images (n, p), every feature z-scored within runs; 0 where constant.

    Over all of them, if there are no groups, or each is of a single class.
    """
    scored, runs = np.zeros_like(X), [np.arange(len(X))]
    if groups is not None:
        of_runs = [np.flatnonzero(groups == name) for name in np.unique(groups)]
        if any(len(np.unique(y[rows])) > 1 for rows in of_runs):
            runs = of_runs
    for rows in runs:
        columns = np.flatnonzero(usable_columns(X[rows]))
        values = X[np.ix_(rows, columns)]
        values = values / np.abs(values).max(axis=0)
        values = (values - values.mean(axis=0)) / values.std(axis=0, ddof=1)
        scored[np.ix_(rows, columns)] = values
    return scored


#: How the data of a decoding function are read, by its name.
READERS = {"searchlight": reread_searchlight, "decode_regions": reread_atlas}
