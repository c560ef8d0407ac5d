"""Figures of ROC curves."""

from .plots import SCORE_COLOR, axes_or_new, finish
from .roc import make_roc

#: Okabe and Ito's colors, which color-blind readers tell apart, and line styles.
COLORS = (
    SCORE_COLOR,
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#000000",
)
STYLES = ("-", "--", "-.", ":")


def plot_roc(result, *, positive=None, ax=None, show=False):
    """Plot ROC curves, one for each class if there are more than two.

    Parameters
    ----------
    result : DecodingResult
        The result to draw.
    positive : label or None
        The positive class. None: the second of two classes, otherwise each class
        against the rest.
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
        As :func:`mvpa_kfda.roc.make_roc`.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn.datasets import load_iris
    >>> from mvpa_kfda import cross_validate
    >>> from mvpa_kfda.roc_plots import plot_roc
    >>> X, y = load_iris(return_X_y=True)
    >>> plot_roc(cross_validate(X, y)).get_ylabel()
    'True positive rate'
    """
    wanted = [positive]
    if positive is None and len(result.classes) > 2:
        wanted = result.classes.tolist()
    curves = [make_roc(result, label) for label in wanted]
    height = 5.0 + 0.1 * max(0, len(curves) - 4)  # room for the legend
    ax = axes_or_new(ax, figsize=(4.6, height))
    for i, roc in enumerate(curves):
        ax.plot(
            roc.fpr,
            roc.tpr,
            color=COLORS[i % len(COLORS)],
            ls=STYLES[i // len(COLORS) % len(STYLES)],
            lw=1.8,
            zorder=3,
            clip_on=False,
            label=f"{roc.positive}, AUC = {roc.auc:.3f}",
        )
    ax.plot([0, 1], [0, 1], color="black", lw=1.1, ls=(0, (5, 3)), label="chance (0.5)")
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    ax.set(xlabel="False positive rate", ylabel="True positive rate")
    return finish(ax, result, show)
