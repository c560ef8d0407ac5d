"""Histograms of scores of permuted labels, at one position and of whole maps."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex
from numpy.testing import assert_allclose, assert_array_equal

from mvpa_kfda import DecodingResult
from mvpa_kfda.utils.rounding import rounded
from mvpa_kfda.viz.null import largest_scores, plot_map_null, plot_null, quantile_of
from tests import build
from tests.build import artist, legend

N = 40
REPEATS = np.random.default_rng(1).uniform(0.4, 0.9, 7)


def decoding_result(n_permutations=199, **fields):
    null = np.random.default_rng(0).binomial(N, 0.5, n_permutations) / N
    return build.made(
        DecodingResult,
        0.7,
        n=N,
        metrics={"accuracy": 0.7, "kappa": 0.4, "confusion_matrix": np.eye(2)},
        nulls={"accuracy": null, "kappa": 2 * null - 0.9} if len(null) else {},
        chances={"accuracy": 0.5, "kappa": 0.0, "confusion_matrix": np.nan},
        class_scores=np.zeros((N, 2)),
        **fields,
    )


def heights(ax):
    return np.array([patch.get_height() for patch in ax.patches])


def assert_histogram(ax, null):
    edges = [patch.get_x() for patch in ax.patches]
    edges.append(edges[-1] + ax.patches[-1].get_width())
    assert heights(ax).sum() == len(null)
    assert_array_equal(heights(ax), np.histogram(null, edges)[0])


@pytest.mark.parametrize("metric", ["accuracy", "kappa"])
def test_the_histogram_counts_all_permutations(metric):
    result = decoding_result()
    ax, score = plot_null(result, metric=metric), result.metrics[metric]
    assert_histogram(ax, result.nulls[metric])
    assert set(artist(ax, "chance").get_xdata()) == {result.chances[metric]}
    assert set(artist(ax, "observed").get_xdata()) == {score}
    p = (1 + (result.nulls[metric] >= score - 1e-9).sum()) / 200
    assert f"observed, {score:.3f} (p = {p:.3f})" in legend(ax)
    assert ax.get_ylabel() == "Permutations"
    assert ax.get_title(loc="left").endswith("4 folds, 199 permutations")
    labels = {"accuracy": "Accuracy", "kappa": "Cohen's kappa"}
    assert ax.get_xlabel() == labels[metric]


@pytest.mark.parametrize("alternative", ["less", "two-sided"])
def test_the_histogram_has_the_p_value_of_the_alternative(alternative):
    result = decoding_result()
    p = result.pvalues(alternative=alternative)
    assert p != result.pvalues()
    ax = plot_null(result, alternative=alternative, label="faces", color="C3")
    side = {"less": "lower scores"}.get(alternative, alternative)
    assert f"faces, 0.700 (p = {p:.3f}, {side})" in legend(ax)
    assert artist(ax, "faces").get_color() == "C3"


def test_no_histogram_without_permutations():
    for draw in (plot_null, lambda result: plot_map_null(result)):
        with pytest.raises(ValueError, match="n_permutations="):
            draw(decoding_result(n_permutations=0))
    with pytest.raises(ValueError, match="'confusion_matrix' is not one number"):
        plot_null(decoding_result(), metric="confusion_matrix")
    with pytest.raises(ValueError, match="again with n_repeats=20 or so, or leave"):
        decoding_result().plot(repeats=True)
    assert not plt.get_fignums()


def test_every_repeat_is_a_short_line_below_the_histogram():
    result = decoding_result(repeats={"accuracy": REPEATS})
    ax = plot_null(result, repeats=True, color="C3")
    short = artist(ax, f"7 repeats, {REPEATS.min():.3f} to {REPEATS.max():.3f}")
    places = [part[:, 0] for part in short.get_segments()]
    assert_array_equal(places, REPEATS[:, None] * [1, 1])
    assert to_hex(short.get_color()[0]) == to_hex("C3")
    assert not any("repeats" in text for text in legend(plot_null(result)))


def test_two_scores_on_their_permutations():
    one, other = (build.result("DecodingResult", seed, 39) for seed in (0, 1))
    ax = one.plot(label="faces")
    other.plot(ax=ax, label="words")
    first, second = (artist(ax, name) for name in ("faces", "words"))
    assert first.get_color() != second.get_color()
    assert [first.get_xdata()[0], second.get_xdata()[0]] == [one.scores, other.scores]
    assert legend(ax).count("chance (0.5)") == 1


@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_maps_have_the_largest_score_of_each_permutation(alpha):
    result = build.result(n_permutations=39, scoring=["accuracy", "roc_auc"])
    ax, largest = plot_map_null(result, alpha=alpha), result.null.max(axis=1)
    assert_histogram(ax, largest)
    best = result.scores.max()
    assert_array_equal(artist(ax, "observed").get_xdata(), [best, best])
    p = result.pvalues("max").min()
    assert any(f"{best:.3f} (p = {p:.3f})" in text for text in legend(ax))
    bound = quantile_of(largest, alpha)
    assert set(artist(ax, f"p ≤ {alpha:g} above").get_xdata()) == {bound}
    label = result.plot_null(metric="roc_auc").get_xlabel()
    assert label == "ROC AUC, maximum over positions"
    with pytest.raises(ValueError, match="'alpha': 2"):
        result.plot_null(alpha=2)


@pytest.mark.parametrize("null", ["full", "max", "stream"])
def test_the_null_of_a_map_is_drawn_whatever_was_kept_of_it(null):
    volume = build.result("VolumeResult", 0, 39, null=null)
    full = build.result("VolumeResult", 0, 39).null
    assert_allclose(volume.null_max, full.max(axis=1), rtol=1e-12)
    assert_array_equal(largest_scores(full), full.max(axis=1))
    ax = volume.plot_null(alpha=0.1)
    p, best = np.nanmin(volume.pvalues("max")), np.nanmax(volume.scores)
    assert f"observed, {rounded(best)} (p = {p:.2g})" in legend(ax)
    assert f"p ≤ 0.1 above {rounded(np.sort(volume.null_max)[-4])}" in legend(ax)
    assert heights(ax).sum() == 39


def test_generalization_has_two_nulls():
    result = build.result("GeneralizationResult", n_permutations=39)
    ax = plot_map_null(result)
    words = {"permuted labels", "permuted labels of the training trials alone"}
    assert words < {*legend(ax)}
    (drawn,) = [line for line in ax.lines if "second test" in line.get_label()]
    assert drawn.get_xdata()[0] == result.second_scores["accuracy"].max()


def test_what_is_above_the_line_is_significant():
    rng = np.random.default_rng(0)
    for n in [*range(1, 60), 99, 100]:
        null, alpha = rng.integers(0, 13, n) / 12, rng.choice([0.01, 0.05, 0.1, 0.5])
        bound = quantile_of(null, alpha)
        for score in np.arange(-1, 15) / 12:
            p = (1 + np.sum(null >= score)) / (1 + len(null))
            above = bound is not None and score > bound
            assert above == (p <= alpha + 1e-12)
