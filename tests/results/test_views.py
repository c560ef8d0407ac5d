"""Maps of results as images and as source estimates."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

from mvpa_kfda.data.space import FeatureSpace
from mvpa_kfda.results.views import map_of_p
from tests import build

P = 99


def make(space=None):
    """Return a map of two metrics, and a third one that is a table."""
    space = build.volume_space() if space is None else space
    result = build.brain_map(
        space, good=(3,), undecoded=[5, 17][: space.n_positions // 9]
    )
    scores, null = result.scores, result.null
    table = np.tile(scores[:, np.newaxis, np.newaxis], (1, 2, 2))
    metrics = {"accuracy": scores, "kappa": 2 * scores - 1, "confusion_matrix": table}
    chances = {"accuracy": 0.5, "kappa": 0.0, "confusion_matrix": np.nan}
    nulls = {"accuracy": null, "kappa": 2 * null - 1}
    return replace(result, metrics=metrics, nulls=nulls, chances=chances)


def test_images_hold_what_they_are_named_after():
    result = make()
    mask, p = result.geometry.mask, result.pvalues("max", metric="kappa")
    expected = {
        None: result.scores,
        "accuracy": result.scores,
        "kappa": result.metrics["kappa"],
        "p": p,
        "neglog10p": -np.log10(p),
        "z": norm.isf(np.minimum(p, 1 - 1 / (P + 1))),
        "chance_difference": result.metrics["kappa"],
        "n_features": result.n_features,
    }
    for name, values in expected.items():
        metric = None if name in ("accuracy", "kappa", None) else "kappa"
        img = result.to_img(name, metric=metric, correction="max")
        assert_array_equal(img.affine, result.geometry.affine)
        data = np.asarray(img.dataobj)
        assert_allclose(data[mask], values, rtol=1e-6, atol=1e-9)
        assert (data[~mask] == (name == "p")).all()
        dtype = {"p": np.float64, "n_features": np.int32}.get(name, np.float32)
        assert data.dtype == dtype  # 0.05 in single precision is more than 0.05
    difference = result.to_img("chance_difference").get_fdata()[mask]
    assert_allclose(difference, result.scores - 0.5, rtol=1e-6, atol=1e-7)


def test_p_of_one_has_a_finite_deviate():
    p = np.array([0.1, 1.0])
    assert_allclose(map_of_p("z", p, 19), norm.isf([0.1, 19 / 20]), rtol=1e-12)
    assert_allclose(map_of_p("z", p, 0), norm.isf([0.1, 1 - 1e-10]), rtol=1e-6)


@pytest.mark.parametrize("tuned", [True, False])
def test_images_of_the_penalty_are_means_over_folds(tuned):
    result, rng = make(), np.random.default_rng(0)
    n = len(result.positions)
    lambdas, df = np.exp(rng.normal(size=(2, n, 4) if tuned else (2, n)))
    result = replace(result, penalty={"lambda": lambdas, "degrees_of_freedom": df})
    if tuned:
        lambdas, df = np.prod(lambdas, axis=1) ** (1 / 4), df.sum(axis=1) / 4
    for name, expected in (("lambda", lambdas), ("degrees_of_freedom", df)):
        values = result.to_img(name).get_fdata()[result.geometry.mask]
        assert_allclose(values, expected, rtol=1e-6)


def test_images_of_regions_and_surfaces():
    result = make(build.region_space())
    painted = result.to_img().get_fdata()[result.geometry.base.mask]
    assert_allclose(painted, result.scores[result.geometry.index], rtol=1e-6, atol=0)
    result = make(build.surface_space())
    parts, mask = result.to_img().data.parts, result.geometry.mask
    values = [parts[part][mask[part]] for part in ("left", "right")]
    assert_allclose(np.concatenate(values), result.scores, rtol=1e-6, atol=0)
    assert not parts["left"][~mask["left"]].any()


def test_chance_that_is_not_that_of_no_effect_is_warned_of():
    result = make()
    off = {"accuracy": result.nulls["accuracy"] + 0.2}
    off = replace(result, nulls=off)
    with pytest.warns(
        UserWarning, match=r"minus chance, 0\.500, but the mean of permu"
    ):
        off.to_img("chance_difference")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "pvalue",
            {},
            "'name': 'pvalue'. Allowed: 'accuracy', 'kappa', 'p', 'neglog10",
        ),
        ("null_max", {}, r"Allowed: .*result\.geometry\.to_img\(result\.null\[0\]\)"),
        ("confusion_matrix", {}, "is not one number per position"),
        (3, {}, "'name': 3"),
        ("kappa", {"metric": "accuracy"}, "shows the metric of that name and takes no"),
    ],
)
def test_images_that_there_are_not(name, options, message):
    with pytest.raises(ValueError, match=message):
        make().to_img(name, **options)


def test_images_that_make_no_sense():
    with pytest.raises(ValueError, match="There is no image of this result"):
        make(FeatureSpace(None, 30)).to_img()
    no_level = replace(make(), chances=dict.fromkeys(make().chances, np.nan))
    with pytest.raises(ValueError, match="'accuracy', which has no chance level"):
        no_level.to_img("chance_difference")
