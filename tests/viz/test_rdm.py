"""Matrices of how well pairs of classes are told apart, and classes in a plane."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.cluster.hierarchy import leaves_list, linkage, optimal_leaf_ordering
from scipy.spatial.distance import pdist, squareform

from mvpa_kfda import cross_validate, decode_arrays, generalize_arrays
from tests import build

X, CODES = build.trials((10, 9, 11, 10), 4, 3)
NAMES = ["ant", "bee", "cat", "dog"]
OPTIONS = {"cv": 4, "reg": 0.3, "scoring": ["crossnobis_distances"]}


def shown(ax):
    return np.ma.filled(ax.images[0].get_array(), np.nan)


def matrix(distances, rows):
    table = squareform(distances, checks=False)[np.ix_(rows, rows)]
    np.fill_diagonal(table, np.nan)
    return table


def test_matrices_have_the_distances_in_the_order_asked_for():
    result = decode_arrays(X, build.NAMES[CODES], **OPTIONS)
    rows = [3, 0, 2, 1]
    order = [NAMES[i] for i in rows]
    figure = result.plot_rdm(at=[0.0, (1.0, 2.0)], order=order)
    first, second, bar = figure.axes
    rdm = result.rdm()
    assert_allclose(shown(first), matrix(rdm[0], rows), rtol=1e-12)
    assert_allclose(shown(second), matrix(rdm[1:].mean(axis=0), rows), rtol=1e-12)
    assert first.images[0].get_clim() == second.images[0].get_clim()
    assert [text.get_text() for text in first.get_yticklabels()] == order
    assert bar.get_ylabel() == "Crossnobis distance"
    alike = result.plot_rdm(at=0.0, order="similarity").axes[0]
    rows = [NAMES.index(text.get_text()) for text in alike.get_xticklabels()]
    assert_allclose(shown(alike), matrix(rdm[0], rows), rtol=1e-12)
    # The sum of distances between neighbours is the smallest that the tree allows.
    apart = rdm[0] - rdm[0].min()
    leaves = leaves_list(optimal_leaf_ordering(linkage(apart, "average"), apart))
    assert rows in (leaves.tolist(), leaves[::-1].tolist())
    before = plt.get_fignums()
    for order in ("size", ["ant"]):
        with pytest.raises(ValueError, match=r"'order': .*'classes', 'simil"):
            result.plot_rdm(order=order)
    assert plt.get_fignums() == before
    maps = generalize_arrays(X, CODES, **OPTIONS)
    ax = maps.plot_rdm(at=(0.0, 2.0)).axes[0]
    assert_allclose(shown(ax), matrix(maps.rdm()[0, 2], range(4)), rtol=1e-12)


def test_classes_in_a_plane_are_as_far_apart_as_they_differ():
    features, codes = build.features((30, 30, 30), 3, separation=0.0)
    features[codes == 1, 0] += 3
    features[codes == 2, 1] += 3
    result = cross_validate(features, codes, cv=5, scoring="crossnobis_distances")
    (ax,) = result.plot_mds().axes
    points = np.array([line.get_xydata()[0] for line in ax.lines])
    assert_allclose(pdist(points), np.sqrt(result.rdm()), rtol=0.02)
    assert [text.get_text() for text in ax.texts] == ["0", "1", "2"]
