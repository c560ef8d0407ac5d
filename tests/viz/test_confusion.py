"""Confusion matrices anywhere in a map, and the recall of each class over time."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import confusion_matrix, recall_score
from sklearn.model_selection import KFold, RepeatedKFold

from mvpa_kfda import cross_validate, decode_arrays, generalize_arrays
from mvpa_kfda.utils.rounding import percent
from mvpa_kfda.viz.confusion import find_confusion, plot_confusion, plot_recall
from tests import build

DATA, CODES = build.trials((14, 12, 10), 5, 6, separation=0.9)
NAMES = build.NAMES[CODES]


def over_time(**options):
    """Return a result at -0.2, -0.1, ..., 0.3 s."""
    options = {"cv": 4, "sfreq": 10, "tmin": -0.2} | options
    return decode_arrays(DATA, NAMES, **options)


def expected(result, *places, true=None):
    """Count with scikit-learn, over some places of the map."""
    true = result.classes[result.y] if true is None else true
    pairs = [
        (true[result.predicted[place] >= 0], result.predicted[place])
        for place in places
    ]
    return sum(
        confusion_matrix(t, result.classes[p[p >= 0]], labels=result.classes)
        for t, p in pairs
    )


def written(ax):
    """Return the numbers of trials that the cells hold, (c, c)."""
    c = len(ax.get_xticks())
    counts = np.full((c, c), -1)
    for text in ax.texts:
        j, i = text.get_position()
        counts[int(i), int(j)] = int(text.get_text().split("\n")[-1])
    return counts


# -------------------------------------------------------------------------- one place


def test_counts_and_recall_are_those_of_sklearn():
    result = over_time(scoring=["accuracy", "confusion_matrix"])
    for i, time in enumerate(result.times):
        found = find_confusion(result, at=time)
        assert_array_equal(found.counts, expected(result, i))
        assert_array_equal(found.counts, result.metrics["confusion_matrix"][i])
        truth = result.classes[result.y]
        recall = recall_score(truth, result.predictions[i], average=None)
        assert_allclose(found.recall, recall, rtol=1e-12)
        assert_allclose(found.rates.sum(axis=1), 1, rtol=1e-12)
    found = find_confusion(result, at=(-0.1, 0.1))
    assert_array_equal(found.counts, expected(result, 1, 2, 3))
    assert found.where == "3 times from -0.1 to 0.1 s, pooled"
    # The nearest sample is taken.
    assert_array_equal(find_confusion(result, at=0.13).counts, expected(result, 3))


def test_the_peak_is_where_the_first_metric_is_highest():
    result = over_time()
    best = int(np.argmax(result.scores))
    ax = result.plot_confusion()
    assert_array_equal(written(ax), expected(result, best))
    rates = expected(result, best) / np.array([[14], [12], [10]])
    assert_allclose(ax.images[0].get_array(), rates, rtol=1e-12)
    title = ax.get_title(loc="left").replace("\n", " ")
    assert title.endswith(f"At {result.times[best]:.3g} s, where accuracy is highest")
    (beside,) = ax.child_axes
    words = [text.get_text() for text in beside.get_yticklabels()]
    assert words[0] == f"{percent(rates[0, 0])} of 14"
    assert [text.get_text() for text in ax.get_xticklabels()] == ["ant", "bee", "cat"]


def test_pairs_of_times_and_other_trials():
    result = generalize_arrays(DATA, NAMES, cv=4, sfreq=10)
    found = find_confusion(result, at=(0.1, 0.3))
    assert_array_equal(found.counts, expected(result, (1, 3)))
    assert found.where == "At training time 0.1 s and test time 0.3 s"
    found = find_confusion(result, at=((0.0, 0.1), 0.3))
    assert_array_equal(found.counts, expected(result, (0, 3), (1, 3)))
    assert found.where == "2 training times from 0 to 0.1 s, test time 0.3 s, pooled"
    options = {"X_test": DATA[::-1] + 0.1, "y_test": NAMES[::-1], "same_trials": False}
    result = generalize_arrays(DATA, NAMES, sfreq=10, **options)
    found = find_confusion(result, at=(0.1, 0.2))
    assert_array_equal(found.counts, expected(result, (1, 2), true=NAMES[::-1]))
    assert not np.array_equal(found.counts, expected(result, (1, 2)))


def test_one_position_repeats_and_trials_that_are_never_tested():
    X = DATA[:, :, 0]
    result = cross_validate(X, NAMES, cv=4)
    assert_array_equal(written(plot_confusion(result)), expected(result, ()))
    assert plot_confusion(result).get_title(loc="left").endswith("4 folds")
    repeated = cross_validate(X, NAMES, cv=4, n_repeats=3, random_state=0)
    found = find_confusion(repeated)
    assert_array_equal(found.counts.sum(axis=1), [42, 36, 30])
    assert_array_equal(found.counts, expected(repeated, ()))
    # A trial of several test sets counts once.
    cv = RepeatedKFold(n_splits=4, n_repeats=2, random_state=0)
    found = find_confusion(cross_validate(X, NAMES, cv=cv))
    assert_array_equal(found.counts.sum(axis=1), [14, 12, 10])
    chosen = np.arange(36) % 2 == 0
    trained = cross_validate(X, NAMES, cv=KFold(3), train_on=chosen)
    found = find_confusion(trained)
    assert found.counts.sum() == 18
    assert_array_equal(found.counts, expected(trained, ()))


def test_a_class_that_is_not_tested():
    tested = np.flatnonzero(CODES < 2)[:6]
    cv = [(np.setdiff1d(np.arange(36), tested), tested)]
    ax = plot_confusion(cross_validate(DATA[:, :, 0], NAMES, cv=cv))
    (beside,) = ax.child_axes
    assert beside.get_yticklabels()[2].get_text() == "not tested"
    assert len(ax.texts) == 6


def test_frequencies_sensors_voxels_and_regions():
    power = build.result("TimeFrequencyResult")
    at = float(power.freqs[1]), float(power.times[0])
    assert_array_equal(find_confusion(power, at=at).counts, expected(power, (1, 0)))
    sensors = build.result("SensorTimeResult")
    found = find_confusion(sensors, at=(str(sensors.ch_names[1]), 0.0))
    assert_array_equal(found.counts, expected(sensors, (1, 0)))
    assert found.where == "At sensor EEG1 and 0 s"
    volume = build.result("VolumeResult")
    at = tuple(volume.coordinates[7] + 0.4)
    assert_array_equal(find_confusion(volume, at).counts, expected(volume, 7))
    assert plot_confusion(volume, at).get_title(loc="left").count("At x, y, z = ") == 1
    regions = build.result("regions")
    for at in ("2", 2):
        assert_array_equal(find_confusion(regions, at=at).counts, expected(regions, 1))


# ------------------------------------------------------------------------- bad input


def test_places_that_there_are_not():
    result = over_time()
    single, maps = (
        cross_validate(DATA[:, :, 0], NAMES, cv=4),
        generalize_arrays(DATA, NAMES, cv=4),
    )
    allowed = 'Allowed: "peak", or at= a time in seconds, or .start, stop.'
    for draw, of, at, message in [
        (plot_confusion, result, 5, "The times go from -0.2 to 0.3 s"),
        (plot_confusion, result, np.nan, allowed),
        (plot_confusion, result, "top", allowed),
        (plot_confusion, result, None, 'Allowed: "peak"'),
        (plot_confusion, result, (0.2, 0.1), 'Allowed: "peak"'),
        (plot_confusion, result, (0.11, 0.12), "None of the times is between 0.11 and"),
        (plot_confusion, single, 0.1, "one position; leave at out"),
        (plot_confusion, maps, 0.1, r"at=\(a training time, a test time\)"),
        (plot_recall, maps, None, "is not a time course"),
    ]:
        with pytest.raises(ValueError, match=message):
            draw(of, **({} if draw is plot_recall else {"at": at}))
    for options in ({"vlim": (1, 0)}, {"cmap": "no_colors"}):
        with pytest.raises(ValueError, match=next(iter(options))):
            plot_confusion(result, **options)
    values = build.result("TimeRegressionResult", scoring="r2", n_permutations=0)
    for draw in (plot_confusion, plot_recall):
        with pytest.raises(TypeError, match="has no predictions for single trials"):
            draw(build.comparison())
        with pytest.raises(TypeError, match="predicts continuous values and has no"):
            draw(values)
    assert not plt.get_fignums()


# ------------------------------------------------------------------- looks, recall


def shade(ax, share):
    """Return the color of a share, red, green and blue."""
    image = ax.images[0]
    return image.cmap(image.norm(share))[:3]


@pytest.mark.parametrize(("c", "separation"), [(2, 2.0), (4, 0.1)])
def test_colors_are_white_at_chance_and_their_scale_is_said(c, separation):
    X, codes = build.trials((12,) * c, 6, 1, separation=separation)
    result = cross_validate(X[:, :, 0], build.NAMES[codes], cv=5)
    ax = plot_confusion(result)
    image, rates = ax.images[0], ax.images[0].get_array()
    low, high = image.get_clim()
    assert (low, high) == (0, max(2 / c, rates.max()))
    assert min(shade(ax, 1 / c)) > 0.95  # white
    assert shade(ax, high)[0] > 2 * shade(ax, high)[2]  # red
    assert shade(ax, 0)[2] > shade(ax, 0)[0]  # blue
    bar = image.colorbar.ax
    assert bar.get_ylabel().startswith("Proportion of the true class")
    assert f"chance, {1 / c:.3g}" in bar.get_ylabel()
    (chance,) = (x for x in bar.lines if x.get_label().startswith("chance"))
    assert_allclose(chance.get_ydata(), 1 / c, rtol=1e-12)
    for text in ax.texts:  # words can be read on all colors
        j, i = map(int, text.get_position())
        letters = 1.0 if text.get_color() == "white" else 0.0
        assert abs(np.mean(shade(ax, rates[i, j])) - letters) > 0.4
    ax = plot_confusion(result, vlim=(0.6, 1), cmap="viridis")
    assert ax.images[0].get_clim() == (0.6, 1)
    assert ax.images[0].cmap.name == "viridis"
    assert "chance" not in ax.images[0].colorbar.ax.get_ylabel()  # is not on the scale


def test_recall_over_time_is_that_of_sklearn():
    result = over_time(cv=KFold(6))
    ax = result.plot_recall()
    true = result.classes[result.y]
    recall = [recall_score(true, p, average=None) for p in result.predictions]
    curves = [line for line in ax.lines if line.get_label() in result.classes]
    assert [line.get_label() for line in curves] == ["ant", "bee", "cat"]
    for line, values in zip(curves, np.transpose(recall), strict=True):
        assert_array_equal(line.get_xdata(), result.times)
        assert_allclose(line.get_ydata(), values, rtol=1e-12)
    (chance,) = (x for x in ax.lines if x.get_label().startswith("chance"))
    assert_allclose(chance.get_ydata(), 1 / 3, rtol=1e-12)


def test_recall_of_many_classes_has_a_mean():
    X, codes = build.trials((2,) * 20, 3, 2)
    result = decode_arrays(X, codes, cv=2)
    ax = plot_recall(result)
    (mean,) = (x for x in ax.lines if x.get_label() == "mean of the classes")
    expected = [recall_score(codes, p, average="macro") for p in result.predictions]
    assert_allclose(mean.get_ydata(), expected, rtol=1e-12)
    assert len(ax.get_legend().get_texts()) == 4
