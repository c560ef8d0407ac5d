"""Figures of how the penalty was chosen."""

import numpy as np

from .plots import axes_or_new, finish
from .roc_plots import COLORS, STYLES

#: What is minimised, by the name of the criterion.
CRITERION_LABELS = {
    "squared_error": "Squared error",
    "accuracy": "Share of errors",
    "log_loss": "Log loss",
}


def plot_tuning(result, *, ax=None, show=False):
    """Plot the criterion over the grid of penalties.

    Shows, for every kernel, the criterion inside the training set of each fold as a
    thin line and the mean over folds as a thick one, and marks what each fold chose.
    The lower the better. A lambda that was skipped as unstable interrupts the line of
    the fold, and that of the mean.

    Parameters
    ----------
    result : DecodingResult
        A result whose penalty was tuned.
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
        If the penalty was not tuned.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn.datasets import load_iris
    >>> from mvpa_kfda import cross_validate
    >>> from mvpa_kfda.tuning_plots import plot_tuning
    >>> X, y = load_iris(return_X_y=True)
    >>> plot_tuning(cross_validate(X, y, reg="tuned")).get_ylabel()
    'Squared error in training sets'
    """
    penalty = result.penalty
    if "criterion" not in penalty:
        reg = result.parameters.get("reg", "a fixed penalty")
        raise ValueError(
            f"The penalty of this result was not tuned (reg: {reg}), so there is no "
            "criterion to plot. Run the analysis again with reg='tuned'."
        )
    criterion = np.asarray(penalty["criterion"])  # (n_folds, n_kernels, L)
    grid = np.asarray(penalty["grid"])
    kernels = np.asarray(penalty["kernel"])
    several = len(grid) > 1
    names = result.parameters.get("kernels") if several else ["mean over folds"]
    ax = axes_or_new(ax, figsize=(6.5, 4.4))
    for k, (lambdas, name) in enumerate(zip(grid, names, strict=True)):
        style = {"color": COLORS[k % len(COLORS)]}
        style["ls"] = STYLES[k // len(COLORS) % len(STYLES)]
        ax.plot(lambdas, criterion[:, k].T, lw=0.6, alpha=0.45, **style)
        mean = criterion[:, k].mean(axis=0)
        ax.plot(lambdas, mean, lw=2.2, zorder=3, label=name, **style)
    nearest = np.abs(np.log(grid[kernels] / np.asarray(penalty["lambda"])[:, None]))
    chosen = nearest.argmin(axis=1)
    ax.plot(
        grid[kernels, chosen],
        criterion[np.arange(len(kernels)), kernels, chosen],
        ls="",
        marker="o",
        ms=5,
        mfc="white",
        mec="black",
        zorder=4,
        label="chosen in a fold",
    )
    name = result.parameters.get("criterion")
    ax.set(
        xscale="log",
        xlabel="Penalty λ",
        ylabel=f"{CRITERION_LABELS.get(name, name)} in training sets",
    )
    return finish(ax, result, show)
