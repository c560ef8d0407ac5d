"""Figures beside the scores: tuned penalties, predicted numbers, ROC curves.

Matplotlib is imported by the helpers only, so that decoding never loads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..metrics.auc import make_roc
from ..utils.plain import as_call
from ..utils.rounding import rounded
from . import style
from .time import draw_curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STYLES = ("-", (0, (4, 2)), (0, (4, 2, 1, 2)), (0, (1, 1.5)))


def nth_style(k):
    """The color and the line of the k-th of several curves."""
    look = STYLES[k // len(style.COLORS) % len(STYLES)]
    return {"color": style.COLORS[k % len(style.COLORS)], "ls": look}


#: Characters of a line of the legend that leave room for another one beside it.
HALF_LINE = 45

#: Classes that have curves with names of their own, at most.
MOST_CURVES = 14


@style.draws_names
def plot_tuning(
    result, *, legend: bool = True, ax: Axes | None = None, show: bool = False
) -> Axes:
    """Plot the criterion over the grid of penalties.

    Shows, for every kernel, the criterion inside the training set of each fold as a
    thin line and the mean over folds as a thick one, and marks what each fold chose.
    The penalties are relative, as `reg` is: lambda / (trace(K_c) / n).
    The lower the better. A lambda that was skipped as unstable interrupts the line of
    the fold, and that of the mean.

    Parameters
    ----------
    result : DecodingResult
        A result whose penalty was selected within training sets: by ``reg="tuned"`` or
        a list, in regression also by ``"auto"``.
    legend : bool
        Draw the legend.
    ax : matplotlib Axes or None
        Where to draw; None makes a figure.
    show : bool
        Show the figure at once.

    Returns
    -------
    ax : matplotlib Axes
        The Axes drawn into.

    Raises
    ------
    ValueError
        If the penalty was not selected so.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn.datasets import load_iris
    >>> from mvpa_kfda import cross_validate
    >>> from mvpa_kfda.viz.diagnostics import plot_tuning
    >>> X, y = load_iris(return_X_y=True)
    >>> plot_tuning(cross_validate(X, y, reg="tuned")).get_ylabel()
    'Squared error in training sets'
    """
    penalty = result.penalty
    if "criterion" not in penalty:
        reg = as_call(result.parameters.get("reg"))
        raise ValueError(
            f"Labels did not select the penalty of this result (reg={reg}), so there "
            "is no criterion to plot. Run the analysis again with reg='tuned', or a "
            "list of penalties to select from, such as reg=[0.1, 1, 10]."
        )
    criterion = np.asarray(penalty["criterion"])  # (n_folds, n_kernels, L)
    scale, grid = _scales_and_grids(penalty, criterion.shape)
    kernels, folds = np.asarray(penalty["kernel"]), np.arange(len(criterion))
    several = criterion.shape[1] > 1
    names = ["mean over folds"]
    if several:
        names = list(map(as_call, result.parameters["kernels"]))
    ax = style.axes_or_new(ax, figsize=(6.5, 4.4))
    for k, name in enumerate(names):
        look = nth_style(k)
        ax.plot(grid[:, k].T, criterion[:, k].T, lw=0.6, alpha=0.45, **look)
        lambdas = np.exp(np.log(grid[:, k]).mean(axis=0))
        mean = criterion[:, k].mean(axis=0)
        ax.plot(lambdas, mean, lw=2.2, zorder=3, label=name, **look)
    lambdas = np.asarray(penalty["lambda"]) / scale[folds, kernels]
    chosen = np.abs(np.log(grid[folds, kernels] / lambdas[:, None])).argmin(axis=1)
    n, L = len(chosen), criterion.shape[2]
    n_ends = np.count_nonzero((chosen == 0) | (chosen == L - 1))
    is_told = L > 2 and n_ends
    ends = f"; at the end of the grid in {n_ends} of {n} folds" if is_told else ""
    label = f"chosen: reg = {np.median(lambdas):.3g} (median{ends})"
    look = {"ls": "", "marker": "o", "ms": 5, "mfc": "white", "mec": "black"}
    best = folds, kernels, chosen
    ax.plot(grid[best], criterion[best], zorder=4, label=label, **look)
    ax.set(
        xscale="log",
        xlabel="reg = λ / (trace(K_c) / n)",
        ylabel="Squared error in training sets",
    )
    labels = ax.get_legend_handles_labels()[1]
    columns = 1 if max(map(len, labels)) > HALF_LINE else 2
    return style.finish(ax, result, show, columns=columns, legend=legend)


def _scales_and_grids(penalty, shape):
    """Scales (n_folds, n_kernels) and relative grids (n_folds, n_kernels, L).

    Folds share them, or those of a repeat do, or each has its own.
    """
    scales = np.reshape(penalty["scale"], (-1, shape[1]))
    grids = np.reshape(penalty["grid"], (-1, *shape[1:])) / scales[:, :, None]
    n_each = shape[0] // len(grids)
    return (np.repeat(each, n_each, axis=0) for each in (scales, grids))


@style.draws_names
def plot_flexibility(
    result, *, legend: bool = True, ax: Axes | None = None, show: bool = False
) -> Axes:
    """Plot the degrees of freedom of the model over time.

    Folds that have their own penalty, such as a tuned one, are thin lines; the thick
    one is their mean. It says how flexible the models are, not how much they know.

    Parameters
    ----------
    result : TimeResult or TimeRegressionResult
        The result to draw.
    legend : bool
        Draw the legend.
    ax : matplotlib Axes or None
        Where to draw; None makes a figure.
    show : bool
        Show the figure at once.

    Returns
    -------
    ax : matplotlib Axes
        The Axes drawn into.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from mvpa_kfda import decode_epochs, simulate_epochs
    >>> from mvpa_kfda.viz.diagnostics import plot_flexibility
    >>> result = decode_epochs(simulate_epochs(n_trials=30), step=0.1, reg="tuned")
    >>> plot_flexibility(result).get_ylabel()
    'Degrees of freedom'
    """
    df = np.asarray(result.degrees_of_freedom)
    ax = style.axes_or_new(ax, figsize=(7.0, 4.2))
    label = "the same in all folds"
    if df.ndim > 1:
        ax.plot(result.times, df, color=style.COLORS[0], lw=0.6, alpha=0.45)
        df, label = df.mean(axis=1), "mean over folds"
    draw_curve(ax, result.times, df, style.COLORS[0], label, lw=2.2)
    style.label_times(ax, result.times)
    ax.set_ylabel("Degrees of freedom")
    return style.finish(ax, result, show, legend=legend)


@style.draws_names
def plot_predictions(
    result, *, legend: bool = True, ax: Axes | None = None, show: bool = False
) -> Axes:
    """Plot the predicted values against the observed ones.

    Each point is a trial, predicted by models that it was left out of. On the dashed
    line both are equal. Ridge regression draws predictions towards the mean, so that
    the points are less steep than the line.

    Parameters
    ----------
    result : RegressionResult
        The result to draw.
    legend : bool
        Draw the legend.
    ax : matplotlib Axes or None
        Where to draw; None makes a figure.
    show : bool
        Show the figure at once.

    Returns
    -------
    ax : matplotlib Axes
        The Axes drawn into.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np
    >>> from mvpa_kfda import regress
    >>> from mvpa_kfda.viz.diagnostics import plot_predictions
    >>> X = np.random.default_rng(0).normal(size=(40, 5))
    >>> plot_predictions(regress(X, X[:, 0])).get_xlabel()
    'Observed'
    """
    ax = style.axes_or_new(ax, figsize=(5.0, 5.0))
    predictions = result.predictions
    tested = np.isfinite(predictions)
    observed, predictions = result.y[tested], predictions[tested]
    is_constant = min(np.ptp(observed), np.ptp(predictions)) == 0
    correlation = 0.0 if is_constant else np.corrcoef(observed, predictions)[0, 1]
    equal = {"zorder": 1, "label": "predicted = observed", **style.DASHED}
    ax.axline([observed.mean()] * 2, slope=1, **equal)
    look = {"color": style.SCORE_COLOR, "ms": 4, "alpha": 0.6, "mew": 0}
    label = f"trials, correlation {rounded(correlation, 2)}"
    ax.plot(observed, predictions, "o", label=label, **look)
    ax.set(xlabel="Observed", ylabel="Predicted")
    ax.set_aspect("equal", adjustable="datalim")
    return style.finish(ax, result, show, legend=legend)


#: Inches of a figure's height that the curves with their labels take, and a further
#: line of the title.
CURVES_HEIGHT, LINE_HEIGHT = 4.7, 0.17


@style.draws_names
def plot_roc(
    result,
    *,
    positive: Any = None,
    legend: bool = True,
    ax: Axes | None = None,
    show: bool = False,
) -> Axes:
    """Plot ROC curves, one for each class if there are more than two.

    Of more than 14 classes the curves are thin lines without names.

    Parameters
    ----------
    result : DecodingResult
        The result to draw.
    positive : label or None
        The positive class. None: the second of two classes, otherwise each class
        against the rest.
    legend : bool
        Draw the legend.
    ax : matplotlib Axes or None
        Where to draw; None makes a figure.
    show : bool
        Show the figure at once.

    Returns
    -------
    ax : matplotlib Axes
        The Axes drawn into.

    Raises
    ------
    ValueError
        As :func:`mvpa_kfda.metrics.auc.make_roc`.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn.datasets import load_iris
    >>> from mvpa_kfda import cross_validate
    >>> from mvpa_kfda.viz.diagnostics import plot_roc
    >>> X, y = load_iris(return_X_y=True)
    >>> plot_roc(cross_validate(X, y)).get_ylabel()
    'True positive rate'
    """
    wanted = [positive]
    if positive is None and len(result.classes) > 2:
        wanted = result.classes.tolist()
    curves = [make_roc(result, label) for label in wanted]
    own = ax is None
    ax = style.axes_or_new(ax, figsize=(4.6, 5.0))
    labels = [roc.positive for roc in curves]
    names = [each if isinstance(each, str) else f"class {each}" for each in labels]
    words = [f"{name}, AUC = " for name in style.short_names(names)]
    words = [x + rounded(roc.auc) for x, roc in zip(words, curves, strict=True)]
    looks = [nth_style(i) | {"lw": 1.8} for i in range(len(curves))]
    if len(curves) > MOST_CURVES:
        mean = rounded(np.mean([roc.auc for roc in curves]))
        # Once in the legend.
        words = [f"each of {len(curves)} classes, mean AUC = {mean}"]
        words += [None] * (len(curves) - 1)
        looks = [{"color": style.SCORE_COLOR, "lw": 0.8, "alpha": 0.5}] * len(curves)
    for roc, label, look in zip(curves, words, looks, strict=True):
        ax.plot(roc.fpr, roc.tpr, zorder=3, clip_on=False, label=label, **look)
    ax.plot([0, 1], [0, 1], color="0.5", lw=1.0, ls=(0, (5, 3)), label="chance (0.5)")
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    ax.set(xlabel="False positive rate", ylabel="True positive rate")
    note = "Scores pooled across folds"
    style.finish(ax, result, False, note=note, legend=legend)
    if own:
        height = CURVES_HEIGHT + LINE_HEIGHT * ax.get_title(loc="left").count("\n")
        if legend:
            box = ax.get_legend().get_window_extent()
            height += box.height / ax.figure.dpi
        ax.figure.set_size_inches(4.6, height)
        for _ in range(3):  # the layout of square Axes settles step by step
            ax.figure.draw_without_rendering()
    return style.maybe_show(ax, show)
