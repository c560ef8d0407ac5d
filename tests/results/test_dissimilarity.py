"""How well each pair of classes is told apart, and what single trials say."""

from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mvpa_kfda import decode_arrays
from tests import build

X, CODES = build.trials((12, 12, 12), 4, 3)
NAMES = build.NAMES[CODES]
TABLES = ["crossnobis_distances", "pairwise_accuracies"]
SOME = {"within": [("ant", "bee")], "between": [("ant", "cat"), ("cat", "bee")]}


def decode(scoring=("accuracy",), y=NAMES, **options):
    options = {"cv": 4, "reg": 0.3, "random_state": 0} | options
    return decode_arrays(X, y, scoring=list(scoring), **options)


def test_matrices_are_the_upper_triangles_of_tables():
    result = decode(TABLES)
    assert result.pairs == list(combinations(["ant", "bee", "cat"], 2))
    assert result.kind_of() == "crossnobis"
    rows, columns = np.triu_indices(3, 1)
    for kind, name in zip(("crossnobis", "accuracy"), TABLES, strict=True):
        table = result.metrics[name]
        assert table.shape == (3, 3, 3)
        assert_array_equal(result.rdm(kind), table[:, rows, columns])
        assert_array_equal(table, np.swapaxes(table, 1, 2))
    frame = result.to_dataframe(metric=TABLES[0])
    assert list(frame) == ["time", "class_1", "class_2", TABLES[0]]
    assert_array_equal(frame[TABLES[0]], result.rdm().ravel())
    assert (
        list(zip(frame["class_1"], frame["class_2"], strict=True)) == 3 * result.pairs
    )
    volume = build.result("VolumeResult", scoring=TABLES)
    assert volume.metrics[TABLES[1]].shape == (12, 1)  # many positions stay condensed
    assert_array_equal(volume.rdm("accuracy"), volume.metrics[TABLES[1]])


def test_chosen_pairs_are_means_with_the_permutations_that_were_kept():
    result = decode([TABLES[0], SOME], n_permutations=9)
    chosen = result.select_pairs(SOME)
    rdm = result.rdm()
    assert_allclose(chosen.metrics["within"], rdm[:, 0], rtol=1e-12)
    assert_allclose(chosen.metrics["between"], rdm[:, 1:].mean(axis=1), rtol=1e-12)
    for name in SOME:
        assert_allclose(
            chosen.metrics[name], result.metrics[name], rtol=1e-9, atol=1e-12
        )
        assert_array_equal(chosen.nulls[name], result.nulls[name])
        assert_array_equal(chosen.pvalues(metric=name), result.pvalues(metric=name))
    other = result.select_pairs([("bee", "cat")])
    assert other.scoring == ["bee / cat"]
    assert other.chances == {"bee / cat": 0.0}
    assert other.parameters["n_permutations"] == 0
    with pytest.raises(ValueError, match="These pairs of classes have no p-values"):
        other.pvalues()


def test_tables_that_there_are_not_are_refused():
    result = decode([TABLES[1]])
    assert result.rdm().shape == (3, 3)
    for call in (result.rdm, result.to_rsatoolbox, result.plot_rdm):
        with pytest.raises(ValueError, match=r"again with 'crossnobis_distances'"):
            call(kind="crossnobis")
    with pytest.raises(ValueError, match="'kind': 'euclid'"):
        result.rdm("euclid")
    with pytest.raises(ValueError, match="'dog'"):
        result.select_pairs([("ant", "dog")])
