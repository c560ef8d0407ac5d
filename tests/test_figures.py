"""What holds for the figures of all results alike."""

import inspect
from functools import cache

import matplotlib.pyplot as plt
import numpy as np
import pytest

import build

#: Kinds of results, as `build` makes them, and the methods that draw them.
FIGURES = [
    *[("DecodingResult", name) for name in ("plot", "plot_roc", "plot_tuning")],
    *[("RegressionResult", name) for name in ("plot", "plot_predictions")],
    *[("TimeResult", name) for name in ("plot", "plot_tuning")],
    ("TimeRegressionResult", "plot"),
    ("TimeFrequencyResult", "plot"),
    ("SensorTimeResult", "plot"),
    ("GeneralizationResult", "plot"),
    ("VolumeResult", "plot"),
    ("regions", "plot"),
    *[("group", name) for name in ("plot", "plot_null")],
    *[("comparison", name) for name in ("plot", "plot_null")],
    ("latency", "plot"),
]
#: The latency of so few subjects of noise is not found in all resamples.
pytestmark = pytest.mark.filterwarnings("ignore:.* resamples:RuntimeWarning")


@cache
def result_of(kind, n_permutations=39, reg="tuned"):
    """Return a result to be drawn, made once."""
    if kind in ("group", "comparison", "latency"):
        return getattr(build, kind)()
    scoring = "r2" if "Regression" in kind else ["accuracy", "confusion_matrix"]
    options = {"scoring": scoring, "reg": reg}
    return build.result(kind, n_permutations=n_permutations, **options)


def figures_with(*arguments):
    """Parametrise by the figures that have all of these arguments."""
    chosen = []
    for kind, name in FIGURES:
        known = inspect.signature(getattr(result_of(kind, reg=0.3), name)).parameters
        chosen += [(kind, name)] if set(arguments) <= set(known) else []
    return pytest.mark.parametrize(("kind", "name"), chosen)


@figures_with("show")
def test_figures_are_shown_on_request_only(kind, name, monkeypatch):
    shown = []
    monkeypatch.setattr(plt, "show", lambda: shown.append(True))
    plot = getattr(result_of(kind), name)
    plot()
    assert not shown
    plot(show=True)
    assert shown == [True]


@figures_with("ax")
def test_the_given_axes_are_used(kind, name):
    _, axes = plt.subplots(1, 2)
    assert getattr(result_of(kind), name)(ax=axes[1]) is axes[1]
    assert len(axes[0].get_children()) == len(plt.figure().subplots().get_children())
    assert len(plt.get_fignums()) == 2


@figures_with()
def test_nothing_is_cut_off(kind, name):
    drawn = getattr(result_of(kind), name)()
    figure = drawn if isinstance(drawn, plt.Figure) else drawn.figure
    figure.canvas.draw()
    inside = figure.bbox.padded(1)
    box = figure.get_tightbbox(figure.canvas.get_renderer())
    box = box.transformed(figure.dpi_scale_trans)
    assert inside.x0 <= box.x0
    assert inside.y0 <= box.y0
    assert box.x1 <= inside.x1
    assert box.y1 <= inside.y1


MISTAKES = [
    ("metric", "auc", "'metric': 'auc'"),
    ("metric", "confusion_matrix", "'confusion_matrix' is not one number|'metric': "),
    ("correction", "maximum", "'correction': 'maximum'"),
    ("alpha", 0, "'alpha': 0"),
    ("alpha", 1.0, r"'alpha': 1\.0"),
    ("vlim", 0.5, r"'vlim': 0\.5"),
    ("vlim", (0.5, 0.4), r"'vlim': \(0\.5, 0\.4\)"),
    ("vlim", (0.5, 0.5), r"'vlim': \(0\.5, 0\.5\)"),
    ("vlim", (0, np.inf), r"'vlim': \(0, inf\)"),
    ("vlim", (None, 1), r"'vlim': \(None, 1\)"),
    ("vlim", (0, 0.5, 1), r"'vlim': \(0, 0\.5, 1\)"),
    ("cmap", "no_colors", "no_colors"),
]


@pytest.mark.parametrize("n_permutations", [0, 39])
@figures_with("metric")
def test_bad_options_are_refused_and_leave_no_figure(kind, name, n_permutations):
    plot = getattr(result_of(kind, n_permutations), name)
    for argument, value, match in MISTAKES:
        if argument in inspect.signature(plot).parameters:
            with pytest.raises(ValueError, match=match):
                plot(**{argument: value})
    assert not plt.get_fignums()


@pytest.mark.parametrize("kind", ["GeneralizationResult", "VolumeResult"])
def test_a_null_that_was_not_kept_leaves_no_figure(kind):
    result = build.result(kind, null="max")
    with pytest.raises(ValueError, match="'cluster' needs the whole null"):
        result.plot(correction="cluster")
    assert not plt.get_fignums()
