"""How unlike classes are: dissimilarity matrices, and the classes in a plane.

Matplotlib is imported by the helpers only, so that decoding never loads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..metrics.pairs import TABLES, squares
from ..metrics.scores import METRICS
from ..utils.checks import check_option
from . import style
from .confusion import find_places
from .maps import check_colors

if TYPE_CHECKING:
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

#: The colors of dissimilarities, from alike to different.
_COLORS = "viridis"
#: Characters of the names of classes.
_LONGEST = 16
#: Classes that are named at the matrices, at most.
_NAMED = 40


@style.draws_names
def plot_rdm(
    result,
    at: Any = "peak",
    *,
    kind: Literal["crossnobis", "accuracy"] | None = None,
    order: Literal["classes", "similarity"] | Sequence[Any] = "classes",
    vlim: tuple[float, float] | None = None,
    cmap: str | Colormap | None = None,
    show: bool = False,
) -> Figure:
    """Plot how well every pair of classes is told apart.

    A representational dissimilarity matrix: the brighter a cell, the more two classes
    differ. Several places are drawn in a row, in one scale.

    Parameters
    ----------
    result : TimeResult
        The result to draw, or any other whose `scoring` had ``"crossnobis_distances"``
        or ``"pairwise_accuracies"``.
    at : "peak" | float | str | tuple | list of these
        Where in the map, as for `plot_confusion`; over a range the mean. A list has a
        matrix for each of its entries.
    kind : {"crossnobis", "accuracy"} or None
        Which table; None: the distances, if there are any.
    order : {"classes", "similarity"} | list of labels
        The order of classes: sorted, or such that classes that are alike at the first
        place are next to each other (the leaves of an average-linkage tree), or as
        given.
    vlim : tuple of float or None
        The values at the two ends of the colors; None takes 0 (of accuracies 0.5) and
        the largest.
    cmap : str, matplotlib Colormap, or None
        The colors; None takes "viridis".
    show : bool
        Show the figure at once.

    Returns
    -------
    figure : matplotlib Figure
        The figure.

    Raises
    ------
    ValueError
        If the result has no such table, if there is no such place, or if order, limits
        or colors are not valid.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from mvpa_kfda import decode_epochs, simulate_epochs
    >>> from mvpa_kfda.viz.rdm import plot_rdm
    >>> epochs = simulate_epochs(60, n_classes=4, random_state=0)
    >>> options = {"scoring": "crossnobis_distances", "step": 0.1, "reg": 0.1}
    >>> figure = plot_rdm(decode_epochs(epochs, **options), at=[0.1, 0.2])
    >>> [ax.get_title() for ax in figure.axes[:2]]
    ['0.1 s', '0.2 s']
    """
    found = _matrices(result, kind, at)
    matrices = [matrix for matrix, _ in found]
    metric = METRICS[TABLES[result.kind_of(kind)]]
    chance = metric.chance(None)
    finite = np.concatenate([matrix[np.isfinite(matrix)] for matrix in matrices])
    reach = max(finite.max(initial=chance), chance + 1e-9)
    low, high = check_colors(vlim, cmap) or (chance, reach)
    rows = _order_of(result, order, matrices[0])
    size = np.clip(0.28 * len(rows), 1.8, 5.0)
    figure = style.new_figure((len(found) * size + 2.6, size + 1.5), "constrained")
    axes = figure.subplots(1, len(found), squeeze=False)[0]
    names = [style.short_names(result.classes, _LONGEST)[i] for i in rows]
    for ax, (matrix, where) in zip(axes, found, strict=True):
        shown = matrix[np.ix_(rows, rows)].copy()
        np.fill_diagonal(shown, np.nan)
        image = ax.imshow(shown, vmin=low, vmax=high, cmap=cmap or _COLORS)
        ax.set_title(where, fontsize="medium")
        _name_rows(ax, names, is_first=ax is axes[0])
    label = style.metric_label(metric.summary)
    figure.colorbar(image, ax=list(axes), label=label, shrink=0.8, aspect=25)
    figure.suptitle(style.describe(result), fontsize="medium", x=0.02, ha="left")
    return style.maybe_show(figure, show)


@style.draws_names
def plot_mds(
    result,
    at: Any = "peak",
    *,
    kind: Literal["crossnobis", "accuracy"] | None = None,
    random_state: int | None = 0,
    show: bool = False,
) -> Figure:
    """Plot the classes as points in a plane: the more they differ, the further apart.

    By multidimensional scaling, :class:`sklearn.manifold.MDS`, of the square roots of
    distances, or of what accuracies are above chance; what is below is taken for 0. The
    planes of several places are turned and mirrored to fit the first one.

    Parameters
    ----------
    result : TimeResult
        As for `plot_rdm`.
    at : "peak" | float | str | tuple | list of these
        Where in the map, as for `plot_rdm`.
    kind : {"crossnobis", "accuracy"} or None
        Which table; None: the distances, if there are any.
    random_state : int or None
        Seed of the starting points.
    show : bool
        Show the figure at once.

    Returns
    -------
    figure : matplotlib Figure
        The figure.

    Raises
    ------
    ValueError
        If the result has no such table, if a pair was not tested, or if there is no
        such place.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from mvpa_kfda import decode_epochs, simulate_epochs
    >>> from mvpa_kfda.viz.rdm import plot_mds
    >>> epochs = simulate_epochs(60, n_classes=4, random_state=0)
    >>> options = {"scoring": "crossnobis_distances", "step": 0.1, "reg": 0.1}
    >>> len(plot_mds(decode_epochs(epochs, **options), at=0.2).axes)
    1
    """
    from scipy.linalg import orthogonal_procrustes

    found = _matrices(result, kind, at)
    kind = result.kind_of(kind)
    chance, is_squared = METRICS[TABLES[kind]].chance(None), kind == "crossnobis"
    planes = []
    for matrix, where in found:
        if not np.isfinite(matrix).all():
            raise ValueError(
                f"Some pair of classes was not tested ({where}), so the classes cannot "
                "be arranged in a plane. Use folds that test every pair."
            )
        apart = np.maximum(matrix - chance, 0)
        plane = _scale(np.sqrt(apart) if is_squared else apart, random_state)
        # Turned and mirrored to be near the points of the first place.
        if planes:
            plane = plane @ orthogonal_procrustes(plane, planes[0])[0]
        planes.append(plane)
    figure = style.new_figure((3.6 * len(found) + 0.6, 4.0), "constrained")
    axes = figure.subplots(1, len(found), squeeze=False)[0]
    reach = 1.15 * max(np.abs(plane).max() for plane in planes) or 1.0
    names = style.short_names(result.classes, _LONGEST)
    for ax, plane, (_, where) in zip(axes, planes, found, strict=True):
        for i, (point, name) in enumerate(zip(plane, names, strict=True)):
            ax.plot(*point, "o", color=style.COLORS[i % len(style.COLORS)], ms=6)
            beside = {"xytext": (5, 3), "textcoords": "offset points"}
            ax.annotate(name, point, fontsize="small", **beside)
        ax.set(xlim=(-reach, reach), ylim=(-reach, reach), xticks=[], yticks=[])
        ax.set_aspect("equal")
        ax.set_title(where, fontsize="medium")
    figure.suptitle(style.describe(result), fontsize="medium", x=0.02, ha="left")
    return style.maybe_show(figure, show)


def _matrices(result, kind, at):
    """The mean matrix (c, c) at each of the places, and words for it."""
    found = []
    for each in at if isinstance(at, list) else [at]:
        mask, where = find_places(result, each)
        values = np.atleast_2d(result.rdm(kind)[mask]).mean(axis=0)
        where = where.removeprefix("At ").removeprefix("In ").removesuffix(", pooled")
        found.append((squares(values, len(result.classes), 0.0), where))
    return found


def _order_of(result, order, matrix):
    """The order of the classes, their numbers."""
    classes = result.classes.tolist()
    if not isinstance(order, str):
        wanted = list(order)
        if sorted(map(str, wanted)) != sorted(map(str, classes)):
            raise ValueError(
                f"Invalid value for 'order': {order!r}. Allowed: 'classes', "
                f"'similarity', or all of the classes {classes} once."
            )
        return [classes.index(each) for each in wanted]
    check_option("order", order, ["classes", "similarity"])
    if order == "classes" or len(classes) < 3:
        return list(range(len(classes)))
    from scipy.cluster.hierarchy import leaves_list, linkage, optimal_leaf_ordering

    apart = matrix[np.triu_indices(len(classes), 1)]
    apart = np.nan_to_num(apart - np.nanmin(apart))
    tree = linkage(apart, "average")
    return leaves_list(optimal_leaf_ordering(tree, apart)).tolist()


def _name_rows(ax, names, is_first):
    """Name rows and columns of a matrix if there is room."""
    ax.spines[:].set_visible(False)
    if len(names) > _NAMED:
        ax.set(xticks=[], yticks=[], xlabel=f"{len(names)} classes")
        return
    points = np.clip(72 * style.inches_of(ax).min() / len(names) * 0.8, 4, 9)
    look = {"fontsize": points}
    ax.set_xticks(range(len(names)), names, rotation=90, **look)
    ax.set_yticks(range(len(names)), names if is_first else [], **look)
    ax.tick_params(length=0)


def _scale(apart, random_state):
    """Points (c, 2) that are so far apart (c, c), around zero."""
    from inspect import signature

    from sklearn.manifold import MDS

    # scikit-learn has renamed the option, and given the old name to this one.
    renamed = "metric_mds" in signature(MDS).parameters
    name = "metric" if renamed else "dissimilarity"
    options = {name: "precomputed", "n_init": 8, "random_state": random_state}
    if "init" in signature(MDS).parameters:
        options["init"] = "random"
    return MDS(2, **options).fit_transform(apart)
