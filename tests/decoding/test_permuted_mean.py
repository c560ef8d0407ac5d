"""The mean of permuted labels beside chance, wherever it differs from it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.model_selection import LeaveOneOut

from mvpa_kfda import (
    cross_validate,
    decode_arrays,
    generalize_arrays,
    load_result,
    methods_text,
    searchlight,
)
from mvpa_kfda.inference.null import NullCentre, centre_of, summarize_null
from mvpa_kfda.reports.sections import _best_of_metrics
from tests import build

pytestmark = pytest.mark.filterwarnings("ignore:Class .* always guessing")

OPTIONS = {"cv": 5, "n_permutations": 200, "random_state": 0}


def labels(*counts, seed=0):
    y = np.repeat(np.arange(len(counts)), counts)
    return np.random.default_rng(seed).permutation(y)


def decoded(*counts, **options):
    y = labels(*counts)
    X = np.random.default_rng(1).normal(size=(len(y), 6, 3))
    return decode_arrays(X, y, **OPTIONS | options)


@pytest.fixture(scope="module")
def unequal():
    # Of 199 permutations no mean is half of what is rounded.
    scoring = ["accuracy", "balanced_accuracy"]
    return decoded(100, 20, scoring=scoring, n_permutations=199)


def test_it_stands_beside_chance_in_all_words(unequal, tmp_path):
    mean = unequal.null.mean()
    assert mean > 0.53
    assert_allclose(unequal.permuted_mean(), mean, rtol=1e-12, atol=0)
    words = f"chance 0.500; mean of permuted labels {mean:.3f}"
    assert f"({words})" in repr(unequal)
    assert f"({words})" in unequal.worded_peak("accuracy")
    assert words in unequal._repr_html_()
    level = f"accuracy (chance level 0.5; mean of permuted labels {mean:.3g})"
    assert level in methods_text(unequal)
    assert_allclose(unequal.to_xarray().accuracy.permuted_mean, mean, rtol=1e-9)
    table = _best_of_metrics(unequal)
    assert_allclose(table["mean of permuted labels"], [mean, np.nan], rtol=1e-9)
    unequal.save(tmp_path / "a.h5")
    assert load_result(tmp_path / "a.h5").permuted_mean() == unequal.permuted_mean()


def test_it_is_drawn_beside_chance(unequal):
    single = cross_validate(*_noise(100, 20), **OPTIONS)
    maps = generalize_arrays(*_noise(100, 20, shape=(4, 2)), **OPTIONS)
    for result in (unequal, single, maps):
        mean = result.permuted_mean()
        assert f"mean of permuted labels ({mean:.3g})" in _legend(result.plot())
    balanced = _legend(unequal.plot(metric="balanced_accuracy"))
    assert "chance (0.5)" in balanced
    assert "mean of permuted" not in "".join(balanced)


def _noise(*counts, shape=(4,)):
    y = labels(*counts)
    return np.random.default_rng(2).normal(size=(len(y), *shape)), y


def _legend(ax):
    legends = [*ax.figure.legends, *filter(None, [ax.get_legend()])]
    return [text.get_text() for legend in legends for text in legend.get_texts()]


@pytest.mark.parametrize("n", [20, 40, 100])
@pytest.mark.parametrize("cv", [2, 5, None, LeaveOneOut()])
def test_equal_classes_are_at_chance(n, cv):
    result = decoded(n // 2, n // 2, cv=cv, scoring=["accuracy", "balanced_accuracy"])
    assert np.isnan([result.permuted_mean(name) for name in result.scoring]).all()
    assert result.worded_chance() == "chance 0.500"


def test_there_is_none_without_permutations_or_chance():
    assert np.isnan(decoded(100, 20, n_permutations=0).permuted_mean())
    assert np.isnan(decoded(100, 20, scoring=lambda y, p, s: 0.0).permuted_mean())
    # The permutations of this diagonal have the larger of two scores each.
    maps = generalize_arrays(*_noise(30, 30, shape=(4, 3)), **OPTIONS)
    assert np.isnan(maps.diagonal().permuted_mean())


def test_summaries_of_nulls_know_it():
    null = np.random.default_rng(0).normal(0.6, 0.05, (50, 4))
    summary = summarize_null(np.full(4, 0.5), null)
    centre = centre_of(summary)
    assert_allclose(summary.permuted_moments[0], null.mean(axis=0), rtol=1e-12)
    assert_allclose(summary.permuted_moments[1], null.std(axis=0), rtol=1e-9)
    assert_allclose(centre.mean, centre_of(null).mean, rtol=1e-12)
    assert centre.is_off(0.5)
    assert not centre.is_off(0.6)
    # Without the rows, errors are those of positions that are all alike.
    assert centre.error > 1.5 * centre_of(null).error


def test_images_whose_null_is_a_summary_know_it(volume):
    means = {}
    for null in ("full", "max", "stream"):
        means[null] = build.keep(null, searchlight, **volume, radius=4, **OPTIONS)
    full = means.pop("full")
    assert full.permuted_mean() > 0.52
    for result in means.values():
        assert_allclose(result.permuted_mean(), full.permuted_mean(), rtol=1e-6)
    with pytest.warns(
        UserWarning, match=r"score minus chance, 0\.500, but the mean of"
    ):
        full.to_img("chance_difference")


@pytest.fixture
def volume():
    from nibabel import Nifti1Image

    X, y = _noise(50, 10, shape=(3, 3, 2))
    image = Nifti1Image(np.moveaxis(X, 0, -1), np.diag([3.0, 3.0, 3.0, 1.0]))
    mask = Nifti1Image(np.ones((3, 3, 2), np.int8), image.affine)
    return {"imgs": image, "y": y, "mask_img": mask}


def test_pooled_centres_share_the_errors_of_equal_permutations():
    rows = np.random.default_rng(0).normal(0.5, 0.1, 400)
    each = NullCentre(rows, rows.mean(), 0.1, 400)
    assert_allclose(NullCentre.pooled([each] * 9).error, each.error, rtol=1e-12)
    others = np.random.default_rng(1).normal(0.5, 0.1, (9, 400))
    others = [NullCentre(rows, rows.mean(), 0.1, 400) for rows in others]
    assert NullCentre.pooled(others).error < 0.4 * each.error
