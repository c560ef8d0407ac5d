from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex
from numpy.testing import assert_allclose, assert_array_equal

from mvpa_kfda import DecodingResult, TimeResult, decode_arrays, group_inference
from mvpa_kfda.inference.corrections import CORRECTIONS
from mvpa_kfda.metrics.scores import METRICS, metric_in_text
from mvpa_kfda.viz.null import plot_null
from mvpa_kfda.viz.style import (
    CORRECTION_LABELS,
    NULL_BAND,
    histogram_edges,
    metric_label,
    significant_spans,
)
from mvpa_kfda.viz.time import plot_time
from tests import build

N = 40
TIMES = np.linspace(-0.1, 0.3, 9)


def with_kappa(kind, accuracy, null, **fields):
    """Return a made result that has the kappa, too."""
    names = ("accuracy", "kappa", "confusion_matrix")
    confusion = np.zeros((*np.shape(accuracy), 2, 2))
    return build.made(
        kind,
        accuracy,
        n=N,
        metrics=dict(zip(names, (accuracy, 2 * accuracy - 1, confusion), strict=True)),
        nulls={"accuracy": null, "kappa": 2 * null - 0.9} if len(null) else {},
        chances=dict(zip(names, (0.5, 0.0, np.nan), strict=True)),
        **fields,
    )


def time_result(n_permutations=199, times=TIMES):
    accuracy = np.array([0.5, 0.48, 0.5, 0.9, 0.9, 0.52, 0.5, 0.9, 0.5])[: len(times)]
    shape = n_permutations, len(times)
    null = np.random.default_rng(0).uniform(0.4, 0.6, shape)
    return with_kappa(TimeResult, accuracy, null, times=times)


def decoding_result(n_permutations=199):
    null = np.random.default_rng(0).binomial(N, 0.5, n_permutations) / N
    return with_kappa(DecodingResult, 0.7, null, class_scores=np.zeros((N, 2)))


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def artist(ax, start):
    """Return the one artist whose label starts so."""
    handles, labels = ax.get_legend_handles_labels()
    (found,) = (h for h, text in zip(handles, labels, strict=True) if start in text)
    return found


def bars(ax):
    """Return the (start, end) seconds of the bars of significance."""
    paths = artist(ax, "p ≤").get_paths()
    extents = [path.get_extents() for path in paths]
    return np.array([[box.x0, box.x1] for box in extents])


# ------------------------------------------------------------------------- plot_time


@pytest.mark.parametrize("metric", ["accuracy", "kappa"])
def test_the_curve_the_band_and_chance(metric):
    result = time_result()
    ax = plot_time(result, metric=metric)
    line = artist(ax, metric_label(metric))
    assert_array_equal(line.get_xdata(), TIMES)
    assert_array_equal(line.get_ydata(), result.metrics[metric])
    assert set(artist(ax, "chance").get_ydata()) == {result.chances[metric]}
    band = artist(ax, NULL_BAND)
    corners = band.get_paths()[0].vertices
    for t in range(len(TIMES)):
        here = corners[np.isclose(corners[:, 0], TIMES[t], rtol=0, atol=1e-9), 1]
        expected = np.percentile(result.nulls[metric][:, t], [2.5, 97.5])
        assert_allclose([here.min(), here.max()], expected, rtol=1e-12, atol=0)


def test_everything_is_named():
    ax = plot_time(time_result())
    assert ax.get_xlabel() == "Time (s)"
    assert ax.get_ylabel() == "Accuracy"
    assert ax.get_title(loc="left") == (
        "40 trials, 2 classes (face, house), 4 folds, 199 permutations"
    )
    assert legend(ax) == [
        "Accuracy",
        "chance (0.5)",
        NULL_BAND,
        "p ≤ 0.05 (max-statistic correction)",
        "onset (0 s)",
    ]
    assert plot_time(time_result(), metric="kappa").get_ylabel() == "Cohen's kappa"


def test_bars_reach_half_a_sample_beyond_the_significant_ones():
    ax = plot_time(time_result())
    # Samples 3, 4 and 7 of every 0.05 s from -0.1 s.
    expected = [[0.025, 0.125], [0.225, 0.275]]
    assert_allclose(bars(ax), expected, rtol=0, atol=1e-12)


def test_p_equal_to_alpha_is_significant():
    result = time_result()
    alpha = result.pvalues("max").min()
    assert len(bars(plot_time(result, alpha=alpha))) == 2


def test_bars_follow_the_correction_and_alpha():
    result = time_result()
    for correction in ("none", "fdr", "cluster"):
        for alpha in (0.05, 0.4):
            ax = plot_time(result, correction=correction, alpha=alpha)
            significant = result.pvalues(correction) <= alpha
            expected = significant_spans(TIMES, significant)
            assert_allclose(bars(ax), expected, rtol=0, atol=1e-12)
            text = f"p ≤ {alpha:g} ({CORRECTION_LABELS[correction]})"
            assert text in legend(ax)
    assert "p ≤ 0.05 (uncorrected)" in legend(plot_time(result, correction=None))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"correction": "none", "alternative": "less"}, "uncorrected, lower scores"),
        ({"correction": "none", "alternative": "two-sided"}, "uncorrected, two-sided"),
        (
            {"correction": "cluster", "threshold": 0.5},
            "cluster correction, clusters at p ≤ 0.5",
        ),
    ],
)
def test_bars_follow_the_threshold_and_the_alternative(options, words):
    result, alpha = time_result(), 0.75
    p, usual = result.pvalues(**options), result.pvalues(options["correction"])
    assert ((p <= alpha) != (usual <= alpha)).any()
    ax = plot_time(result, alpha=alpha, **options)
    expected = significant_spans(TIMES, p <= alpha)
    assert_allclose(bars(ax), expected, rtol=0, atol=1e-12)
    assert any(text.startswith(f"p ≤ 0.75 ({words}") for text in legend(ax))


def test_the_curve_and_its_bars_have_the_color_and_the_label():
    ax = plot_time(time_result(), color="tab:purple", label="faces")
    assert to_hex(artist(ax, "faces").get_color()) == to_hex("tab:purple")
    (color,) = artist(ax, "p ≤").get_facecolor()
    assert to_hex(color) == to_hex("tab:purple")
    assert ax.get_ylabel() == "Accuracy"
    assert ax.get_title(loc="left").startswith("faces: 40 trials")


def test_bars_lie_below_the_curve_and_the_band():
    ax = plot_time(time_result())
    ax.figure.canvas.draw()
    to_pixels = ax.get_xaxis_transform()
    path = artist(ax, "p ≤").get_paths()[0]
    top = to_pixels.transform_path(path).get_extents().y1
    bottom = to_pixels.transform_path(path).get_extents().y0
    assert bottom > ax.bbox.y0
    lowest = min(time_result().null.min(), time_result().scores.min())
    assert top < ax.transData.transform((0, lowest))[1]


def test_a_level_out_of_reach_is_said():
    label = (
        "p ≤ 0.001 (max-statistic correction) is not attainable with 199 permutations"
    )
    assert label in legend(plot_time(time_result(), alpha=0.001))


def test_a_level_out_of_reach_by_classes_of_equal_numbers_is_said():
    # 3 against 3 subjects, decoded perfectly: 2 of 20 arrangements are perfect.
    y, people = np.arange(12) // 2 % 2, np.arange(12) // 2
    X = np.random.default_rng(0).normal(size=(12, 3, 2)) + 50 * y[:, None, None]
    words = r"accuracy and AUC, for which no p-value can be below 2/20 = 0\.1"
    options = {"groups": people, "n_permutations": 100}
    with pytest.warns(UserWarning, match=words):
        result = decode_arrays(X, y, scoring=["accuracy", "recall"], **options)
    assert_allclose(result.pvalues("none"), 0.1, rtol=1e-12)
    assert "is not attainable with 19 permutations" in " ".join(
        legend(plot_time(result))
    )
    assert result.smallest_p(metric="accuracy") == pytest.approx(0.1, rel=1e-12)
    assert result.smallest_p(metric="recall") == pytest.approx(0.05, rel=1e-12)
    group = group_inference(
        [
            result,
            replace(result, metrics={k: v - 0.1 for k, v in result.metrics.items()}),
        ],
        correction="none",
        n_permutations=10,
    )
    assert group.parameters["first_level_smallest_p"] == [0.1, 0.1]
    assert_allclose(group.pvalues(), 0.01, rtol=1e-9)


def test_a_single_time_point_has_a_band():
    result = time_result(times=TIMES[:1])
    band = artist(plot_time(result), "95 %").get_paths()[0].get_extents()
    low, high = np.percentile(result.null[:, 0], [2.5, 97.5])
    assert_allclose([band.y0, band.y1], [low, high], rtol=1e-12)
    assert band.width > 0


def test_no_significant_sample_is_said():
    result = time_result()
    chance = replace(result, metrics=result.metrics | {"accuracy": result.null[0]})
    ax = plot_time(chance, alpha=0.006)
    assert "no time point at p ≤ 0.006 (max-statistic correction)" in legend(ax)
    # Only the band is left.
    assert sum(isinstance(part, PolyCollection) for part in ax.collections) == 1


def test_without_permutations_there_is_no_band_and_no_bar():
    result = time_result(n_permutations=0)
    ax = plot_time(result)
    assert legend(ax) == ["Accuracy", "chance (0.5)", "onset (0 s)"]
    assert len(ax.collections) == 0
    assert_array_equal(artist(ax, "Accuracy").get_ydata(), result.scores)
    assert "permutations" not in ax.get_title(loc="left")


@pytest.mark.parametrize(
    ("times", "shown"),
    [(TIMES, True), (TIMES + 0.2, False), (TIMES - 0.5, False), (TIMES + 0.1, True)],
)
def test_onset_is_drawn_when_in_range(times, shown):
    ax = plot_time(time_result(times=times))
    assert ("onset (0 s)" in legend(ax)) == shown
    if shown:
        assert set(artist(ax, "onset").get_xdata()) == {0}
    step = times[1] - times[0]
    expected = [times[0] - step / 2, times[-1] + step / 2]
    assert_allclose(ax.get_xlim(), expected, rtol=0, atol=1e-12)


def test_a_single_time_point_is_visible():
    result = time_result(times=np.array([0.2]))
    assert artist(plot_time(result), "Accuracy").get_marker() == "o"
    assert artist(plot_time(time_result()), "Accuracy").get_marker() == "None"


def test_long_class_names_are_left_out():
    classes = np.array(["a very long condition", "another one"])
    ax = plot_time(replace(time_result(), classes=classes))
    assert ", 2 classes, 4 folds" in ax.get_title(loc="left")


# ------------------------------------------------------------------------- plot_null


def test_the_histogram_counts_all_permutations():
    result = decoding_result()
    ax = plot_null(result)
    counts = [patch.get_height() for patch in ax.patches]
    edges = [patch.get_x() for patch in ax.patches]
    edges.append(edges[-1] + ax.patches[-1].get_width())
    assert sum(counts) == 199
    assert_array_equal(counts, np.histogram(result.null, edges)[0])
    assert set(artist(ax, "chance").get_xdata()) == {0.5}
    assert set(artist(ax, "observed").get_xdata()) == {0.7}
    p = (1 + (result.null >= 0.7 - 1e-9).sum()) / 200
    assert f"observed, 0.700 (p = {p:.3f})" in legend(ax)
    assert ax.get_xlabel() == "Accuracy"
    assert ax.get_ylabel() == "Permutations"
    assert ax.get_title(loc="left").endswith("4 folds, 199 permutations")


def test_the_histogram_of_another_metric():
    ax = plot_null(decoding_result(), metric="kappa")
    assert set(artist(ax, "observed").get_xdata()) == {2 * 0.7 - 1}
    assert set(artist(ax, "chance").get_xdata()) == {0.0}
    p = decoding_result().pvalues(metric="kappa")
    assert p != decoding_result().pvalues()
    assert f"observed, 0.400 (p = {p:.3f})" in legend(ax)


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
    with pytest.raises(ValueError, match="n_permutations="):
        plot_null(decoding_result(n_permutations=0))
    with pytest.raises(ValueError, match="'confusion_matrix' is not one number"):
        plot_null(decoding_result(), metric="confusion_matrix")
    assert not plt.get_fignums()


# ----------------------------------------------------------------- single repeats


REPEATS = np.random.default_rng(1).uniform(0.4, 0.9, (len(TIMES), 7))


def test_every_repeat_is_a_thin_line_behind_the_mean():
    both = {"accuracy": REPEATS, "kappa": 2 * REPEATS - 1}
    result = replace(time_result(), repeats=both)
    for metric, repeats in both.items():
        ax = plot_time(result, metric=metric, color="C3", repeats=True)
        mean = artist(ax, metric_label(metric))
        thin = [line for line in ax.lines if line.get_linewidth() == 0.7]
        assert_array_equal([line.get_ydata() for line in thin], repeats.T)
        assert all(line.get_zorder() < mean.get_zorder() for line in thin)
        assert {line.get_color() for line in thin} == {"C3"}
        assert legend(ax).count("7 repeats") == 1
    assert "7 repeats" not in legend(plot_time(result))


def test_a_repeat_of_a_single_time_is_a_dot():
    result = replace(time_result(times=TIMES[:1]), repeats={"accuracy": REPEATS[:1]})
    dots = [line for line in plot_time(result, repeats=True).lines if line.get_alpha()]
    assert {line.get_marker() for line in dots} == {"."}
    assert_array_equal([y for line in dots for y in line.get_ydata()], REPEATS[0])


def test_every_repeat_is_a_short_line_below_the_histogram():
    result = replace(decoding_result(), repeats={"accuracy": REPEATS[0]})
    ax = plot_null(result, repeats=True, color="C3")
    low, high = REPEATS[0].min(), REPEATS[0].max()
    short = artist(ax, f"7 repeats, {low:.3f} to {high:.3f}")
    assert_array_equal(
        [part[:, 0] for part in short.get_segments()], REPEATS[0][:, None] * [1, 1]
    )
    assert to_hex(short.get_color()[0]) == to_hex("C3")
    assert not any("repeats" in text for text in legend(plot_null(result)))


def test_repeats_that_were_not_made_are_not_drawn():
    for result in (time_result(), decoding_result()):
        with pytest.raises(ValueError, match="again with n_repeats=20 or so, or leave"):
            result.plot(repeats=True)
    repeats = {"accuracy": REPEATS}
    with pytest.raises(ValueError, match="repeats=True"):  # of another metric
        plot_time(replace(time_result(), repeats=repeats), metric="kappa", repeats=True)
    assert not plt.get_fignums()


# -------------------------------------------------------------------------- both


def test_every_metric_and_correction_has_a_name():
    assert set(CORRECTION_LABELS) == {*CORRECTIONS, "cluster-fdr"}
    for name, metric in METRICS.items():
        assert metric_in_text(name) == metric.label
        assert metric_label(name) == metric.label[0].upper() + metric.label[1:]


@pytest.mark.parametrize(
    ("name", "label", "in_text"),
    [
        ("my_own_score", "My own score", "my own score"),
        ("mcc", "MCC", "MCC"),
        ("MCC", "MCC", "MCC"),
        ("weighted_f1", "Weighted F1", "weighted F1"),
        ("pr_auc", "PR AUC", "PR AUC"),
        ("dPrime", "DPrime", "dPrime"),
        ("kappa", "Cohen's kappa", "Cohen's kappa"),
        ("roc_auc", "ROC AUC", "ROC AUC"),
        ("recall_macro", "Recall (macro)", "recall (macro)"),
        ("pearsonr", "Pearson correlation", "Pearson correlation"),
        ("r2", "R²", "R²"),
    ],
)
def test_names_of_metrics_are_words(name, label, in_text):
    assert metric_label(name) == label
    assert metric_in_text(name) == in_text


# ---------------------------------------------------------------------- small helpers


@pytest.mark.parametrize(
    ("significant", "expected"),
    [
        ([0, 0, 0, 0], np.empty((0, 2))),
        ([1, 1, 1, 1], [[-0.5, 7.5]]),
        ([1, 0, 0, 1], [[-0.5, 0.5], [4.5, 7.5]]),
        ([0, 1, 0, 0], [[0.5, 2.0]]),
        ([0, 0, 1, 1], [[2.0, 7.5]]),
    ],
)
def test_spans_of_uneven_samples_end_halfway(significant, expected):
    spans = significant_spans([0, 1, 3, 6], np.array(significant, dtype=bool))
    assert_allclose(spans, expected, rtol=0, atol=1e-12)


def test_span_of_a_single_sample():
    assert_allclose(
        significant_spans([0.2], [True]), [[0.195, 0.205]], rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("n", [20, 100, 333])
def test_bins_hold_equally_many_possible_accuracies(n):
    null = np.random.default_rng(n).binomial(n, 0.4, 1000) / n
    edges = histogram_edges(null)
    assert edges[0] < null.min()
    assert edges[-1] > null.max()
    possible = np.arange(2 * n) / n
    counts = np.histogram(possible, edges)[0]
    assert set(counts) == {counts[0]}
    assert 5 < len(counts) < 60


def test_bins_of_continuous_and_of_constant_scores():
    scores = np.random.default_rng(0).normal(size=500)
    assert_array_equal(histogram_edges(scores), np.histogram_bin_edges(scores, "fd"))
    for constant in (0.0, 0.5, -3.0):
        edges = histogram_edges(np.full(10, constant))
        assert edges[0] < constant < edges[1]
        assert len(edges) == 2
