"""The picture of a design: trials by run and class, folds, what may be exchanged.

All panels have the same rows, the groups of trials. Matplotlib is imported by the
helpers only, so that decoding never loads it.
"""

from __future__ import annotations

import textwrap
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from ..utils.checks import capital, check_flag
from . import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: What a group is in a fold: neither, trained with, tested, or some of both; without
#: groups a line of trials may be both, with them it is a leak.
_FOLD_COLORS = ("#FFFFFF", "#D5DEE7", "#2B4A66", "#8FA6BC")
_LEAK_COLOR = "#B00020"
#: What a group is in a block of exchange: not of it, with labels that can change, or
#: with such as are all alike.
_BLOCK_COLORS = ("#FFFFFF", "#4D9A83", "#CFCFCF")

#: Trials in a line at most; longer groups take several.
_LONGEST = 120
#: Classes that a legend names; more have a color bar.
_NAMED = 12
#: Rows and columns that have numbers of their own.
_TICKS = 24
#: Characters on an inch above the panels.
_DENSITY = 11.5
#: Inches: of the trials' panel, of the others' columns and widths; of a trial and a
#: panel of few; of rows and heights.
_TRIALS, _COLUMN, _NARROWEST, _WIDEST = 5.0, 0.15, 0.75, 2.2
_TRIAL, _FEW_TRIALS = 0.3, 2.5
_ROW, _LOWEST, _HIGHEST = 0.19, 0.9, 6.0
#: Inches of a legend that there are in any case.
_LEGEND = 0.5


@style.draws_names
def plot_design(design, *, legend: bool = True, show: bool = False) -> Figure:
    """Plot which trials are of which class, tested in which fold, and exchanged.

    Left, the trials of every group in their order, colored by class. In the middle,
    which groups each fold trains with and tests; a group of which it does both is
    marked, since folds then leak. Right, the blocks within which labels are exchanged.
    Groups of many trials take several lines, as do trials without groups.

    Parameters
    ----------
    design : Design
        The design to draw.
    legend : bool
        Draw the legend.
    show : bool
        Show the figure at once.

    Returns
    -------
    figure : matplotlib Figure
        The figure.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np
    >>> from mvpa_kfda import check_design
    >>> from mvpa_kfda.viz.design import plot_design
    >>> y = np.random.default_rng(0).permutation(["cat", "dog"] * 24)
    >>> figure = plot_design(check_design(y, np.repeat([1, 2, 3, 4], 12)))
    >>> [ax.get_title() for ax in figure.axes]
    ['Trials', 'Folds', 'Exchange']
    """
    lines = _lines(design)
    longest = max(len(rows) for _, rows in lines)
    parts = [(_draw_trials, float(np.clip(_TRIAL * longest, _FEW_TRIALS, _TRIALS)))]
    if design.folds is not None:
        parts.append((_draw_folds, _width(len(design.folds))))
    if design.blocks is not None:
        parts.append((_draw_blocks, _width(len(_block_numbers(design)))))
    widths = [width for _, width in parts]
    height = float(np.clip(_ROW * len(lines), _LOWEST, _HIGHEST))
    figure = style.new_figure((sum(widths) + 1.3, height + 2.0), "constrained")
    axes = figure.subplots(1, len(parts), squeeze=False, width_ratios=widths)[0]
    handles = []
    for ax, (draw, _) in zip(axes, parts, strict=True):
        handles += draw(ax, design, lines)
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
        ax.set_ylim(len(lines), 0)
    named = [i for i, (label, _) in enumerate(lines) if label]
    named = named[:: -(-len(named) // _TICKS)]
    labels = [lines[i][0] for i in named]
    axes[0].set_yticks(np.array(named) + 0.5, labels, fontsize="small")
    for ax in axes[1:]:
        ax.set_yticks([])
    width, above = int(_DENSITY * figure.get_figwidth()), []
    for words in design.summary.split("; "):
        above += textwrap.wrap(capital(words), width)
    above.append(capital(design.worded_problems))
    figure.suptitle("\n".join(above), x=0.01, ha="left", fontsize="medium")
    if check_flag("legend", legend) and handles:
        columns = max(1, int(figure.get_figwidth() / 1.7))
        style.add_figure_legend(figure, handles, columns=columns)
        (drawn,) = figure.legends
        lines = drawn.get_window_extent().height / figure.dpi - _LEGEND
        if lines > 0:  # of many classes, or of long names
            figure.set_figheight(figure.get_figheight() + lines)
    return style.maybe_show(figure, show)


def _width(n_columns):
    """The width of a panel of so many columns."""
    return float(np.clip(_COLUMN * n_columns, _NARROWEST, _WIDEST))


def _lines(design):
    """What every line shows: its label, "" within a group, and its trials."""
    n = len(design.y)
    if design.groups is None:
        length = int(np.clip(10 * round(np.sqrt(3 * n) / 10), 10, _LONGEST))
        starts = range(0, n, length)
        return [(f"from {s + 1}", np.arange(s, min(s + length, n))) for s in starts]
    lines = []
    for name in np.unique(design.groups):
        rows = np.flatnonzero(design.groups == name)
        n_lines = -(-len(rows) // _LONGEST)
        length = -(-len(rows) // n_lines)
        for i in range(n_lines):
            label = "" if i else style.short_name(name)
            lines.append((label, rows[i * length : (i + 1) * length]))
    return lines


def _mesh(ax, values, **look):
    """Draw cells, with lines between them where there is room."""
    n_rows, n_columns = values.shape
    room = n_columns <= 70 and n_rows <= 60
    edges = {"edgecolors": "white", "linewidth": 0.7} if room else {"rasterized": True}
    return ax.pcolormesh(values, **edges, **look)


def _draw_trials(ax, design, lines):
    """Draw every trial in the color of its class; return what the legend has."""
    from matplotlib.colors import BoundaryNorm, ListedColormap
    from matplotlib.patches import Patch

    values = np.ma.masked_all((len(lines), max(len(rows) for _, rows in lines)))
    for i, (_, rows) in enumerate(lines):
        values[i, : len(rows)] = design.y[rows]
    c = len(design.classes)
    look = {"cmap": "viridis"}
    if c:
        colors = _class_colors(c)
        norm = BoundaryNorm(np.arange(c + 1) - 0.5, c)
        look = {"cmap": ListedColormap(colors), "norm": norm}
    mesh = _mesh(ax, values, **look)
    title = {"trial": "Trials", "average": "Averages"}[design.noun]
    where = "in order of recording" if design.groups is None else "within its group"
    ax.set(title=title, xlabel=f"{design.noun.capitalize()} {where}")
    if design.groups is None and len(lines) > 1:
        ax.set_xlabel(f"{design.noun.capitalize()} within its line")
    _number_columns(ax, values.shape[1], first=1)
    handles = _mark_chosen(ax, design, lines)
    if 0 < c <= _NAMED:
        pairs = zip(colors, style.short_names(design.classes), strict=True)
        return [Patch(color=color, label=name) for color, name in pairs] + handles
    _add_bar(ax, mesh, design)
    return handles


def _class_colors(c):
    """A color for each of c classes."""
    import matplotlib as mpl

    if c <= len(style.COLORS):
        return list(style.COLORS[:c])
    if c <= _NAMED:
        return list(mpl.colormaps["Paired"].colors[:c])
    return mpl.colormaps["viridis"](np.linspace(0, 1, c))


def _add_bar(ax, mesh, design):
    """Add a color bar of many classes, or of numbers."""
    options = {"orientation": "horizontal", "shrink": 0.6, "pad": 0.02, "aspect": 40}
    bar = ax.figure.colorbar(mesh, ax=ax, **options)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize="small", length=2)
    c = len(design.classes)
    if c:
        shown = np.unique(np.linspace(0, c - 1, 5).astype(int))
        bar.set_ticks(shown, labels=style.short_names(design.classes[shown], 12))
        bar.ax.minorticks_off()
    else:
        bar.set_label("Value", size="small")


def _mark_chosen(ax, design, lines):
    """Mark trials that are trained with and never tested."""
    if design.chosen is None:
        return []
    at = [
        (j + 0.5, i + 0.5)
        for i, (_, rows) in enumerate(lines)
        for j in np.flatnonzero(design.chosen[rows])
    ]
    longest = max(len(rows) for _, rows in lines)
    size = float(np.clip(100 / max(longest, 1), 1.0, 4.0))
    look = {"ls": "", "marker": "o", "mfc": "white", "mec": "black", "mew": 0.4}
    label = "training trials only"
    return ax.plot(*np.transpose(at), ms=size, label=label, **look)


def _draw_folds(ax, design, lines):
    """Draw what every fold does with every line; return what the legend has."""
    n = len(design.y)
    does = np.zeros((len(lines), len(design.folds)), int)
    for f, (train, test) in enumerate(design.folds):
        for rows, value in ((train, 1), (test, 2)):
            inside = np.zeros(n, bool)
            inside[rows] = True
            does[:, f] += [value * inside[mine].any() for _, mine in lines]
    colors = list(_FOLD_COLORS)
    labels = ["", "trained", "tested", "partly tested"]
    if design.groups is not None:
        does = _of_groups(does, lines)
        colors[3] = _LEAK_COLOR
        labels[3] = "group in both training and test set"
    handles = _draw_kinds(ax, does, colors, labels)
    ax.set(title="Folds", xlabel="Fold")
    _number_columns(ax, does.shape[1])
    return handles


def _of_groups(does, lines):
    """What is done with whole groups in the place of their lines."""
    group = np.cumsum([bool(label) for label, _ in lines]) - 1
    whole = np.zeros((group[-1] + 1, does.shape[1]), int)
    np.bitwise_or.at(whole, group, does)
    return whole[group]


def _block_numbers(design):
    """The numbers of the blocks in the order of their first trials."""
    numbers, first = np.unique(design.blocks, return_index=True)
    return numbers[np.argsort(first)][numbers[np.argsort(first)] >= 0]


def _draw_blocks(ax, design, lines):
    """Draw the blocks of exchange in every line; return what the legend has."""
    numbers = _block_numbers(design)
    has = np.zeros((len(lines), len(numbers)), int)
    for b, number in enumerate(numbers):
        inside = design.blocks == number
        alike = len(np.unique(design.y[inside])) == 1
        has[:, b] = [(1 + alike) * inside[rows].any() for _, rows in lines]
    what = "labels" if len(design.classes) else "values"
    labels = ["", f"{what} permuted within a column", "all equal, never permuted"]
    if design.parameters.get("permute") == "groups":
        labels[1] = f"{what} permuted across groups"
    handles = _draw_kinds(ax, has, _BLOCK_COLORS, labels)
    ax.set(title="Exchange", xlabel="Block")
    _number_columns(ax, has.shape[1])
    return handles


def _draw_kinds(ax, kinds, colors, labels):
    """Draw cells of a few kinds; return what the legend has of those there are."""
    from matplotlib.colors import BoundaryNorm, ListedColormap
    from matplotlib.patches import Patch

    norm = BoundaryNorm(np.arange(len(colors) + 1) - 0.5, len(colors))
    _mesh(ax, kinds, cmap=ListedColormap(colors), norm=norm)
    there = [k for k in np.unique(kinds) if labels[k]]
    return [Patch(color=colors[k], label=labels[k]) for k in there]


def _number_columns(ax, n, first=0):
    """Set numbers below columns, below some of them where there are many."""
    width = ax.get_subplotspec().get_gridspec().get_width_ratios()
    width = width[ax.get_subplotspec().colspan.start]
    steps = (s * 10**k for k in count() for s in (1, 2, 5))
    step = next(step for step in steps if step * width >= 0.3 * n)
    at = np.arange(0, n, step) if first == 0 else np.arange(step, n + 1, step) - 1
    if first and step > 1:
        at = np.concatenate([[0], at])
    ax.set_xticks(at + 0.5, at + first, fontsize="small")
