"""Figures of results of regression. Each draws into one Axes and returns it.

Matplotlib is imported by the helpers only, so that decoding never loads it.
"""

import numpy as np

from ._figures.common import SCORE_COLOR, axes_or_new, finish


def plot_predictions(result, *, ax=None, show=False):
    """Plot the predicted values against the observed ones.

    Each point is a trial, predicted by models that it was left out of. On the dashed
    line both are equal. Ridge regression draws predictions towards the mean, so that
    the points are less steep than the line.

    Parameters
    ----------
    result : RegressionResult
        The result to draw.
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
    >>> from mvpa_kfda.regression_plots import plot_predictions
    >>> X = np.random.default_rng(0).normal(size=(40, 5))
    >>> plot_predictions(regress(X, X[:, 0])).get_xlabel()
    'Observed'
    """
    ax = axes_or_new(ax, figsize=(5.0, 5.0))
    predictions = result.predictions
    tested = np.isfinite(predictions)
    observed, predictions = result.y[tested], predictions[tested]
    ax.axline(
        [observed.mean()] * 2,
        slope=1,
        color="black",
        lw=1.1,
        ls=(0, (5, 3)),
        zorder=1,
        label="predicted = observed",
    )
    ax.plot(
        observed,
        predictions,
        "o",
        color=SCORE_COLOR,
        ms=4,
        alpha=0.6,
        mew=0,
        label=f"trials, correlation {_correlation(observed, predictions):.2f}",
    )
    ax.set(xlabel="Observed", ylabel="Predicted")
    ax.set_aspect("equal", adjustable="datalim")
    return finish(ax, result, show)


def _correlation(one, other):
    """Return the correlation of two vectors, 0 if one is constant."""
    if min(np.ptp(one), np.ptp(other)) == 0:
        return 0.0
    return np.corrcoef(one, other)[0, 1]
