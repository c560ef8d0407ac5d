"""Figures of ROC curves."""

from ._figures.common import SCORE_COLOR, axes_or_new, finish, shown
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
STYLES = ("-", (0, (4, 2)), (0, (4, 2, 1, 2)), (0, (1, 1.5)))

#: Inches of a figure's height that the curves and a line of text take.
CURVES_HEIGHT, LINE_HEIGHT = 4.5, 0.21

#: Characters of a line of the legend that leave room for another one beside it.
HALF_LINE = 26


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
    own = ax is None
    ax = axes_or_new(ax, figsize=(4.6, 5.0))
    for i, roc in enumerate(curves):
        ax.plot(
            roc.fpr,
            roc.tpr,
            color=COLORS[i % len(COLORS)],
            ls=STYLES[i // len(COLORS) % len(STYLES)],
            lw=1.8,
            zorder=3,
            clip_on=False,
            label=f"{_word_class(roc.positive)}, AUC = {roc.auc:.3f}",
        )
    ax.plot([0, 1], [0, 1], color="0.5", lw=1.0, ls=(0, (5, 3)), label="chance (0.5)")
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    ax.set(xlabel="False positive rate", ylabel="True positive rate")
    labels = ax.get_legend_handles_labels()[1]
    columns = 1 if max(map(len, labels)) > HALF_LINE else 2
    note = "Scores of all folds pooled"
    finish(ax, result, show=False, note=note, columns=columns)
    if own:
        n_lines = -(-len(labels) // columns) + ax.get_title(loc="left").count("\n") + 1
        height = CURVES_HEIGHT + LINE_HEIGHT * n_lines
        ax.figure.set_size_inches(4.6, height)
        for _ in range(3):  # the layout of square Axes settles step by step
            ax.figure.draw_without_rendering()
    return shown(ax, show)


def _word_class(label):
    """Word a class: by its name, or as class 7."""
    return label if isinstance(label, str) else f"class {label}"
