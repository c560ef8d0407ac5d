"""How well every pair of classes is told apart: representational dissimilarity.

What results of subjects and of groups have in common: matrices, their figures, and what
other toolboxes take.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from ..metrics.pairs import TABLES
from ..utils.checks import check_option
from ..viz.rdm import plot_mds, plot_rdm
from .kinds import figure_method

if TYPE_CHECKING:
    from rsatoolbox.rdm import RDMs


class MatricesMixin:
    """A result that may have matrices of pairs of its `classes` at its `places`."""

    @property
    def matrices(self) -> dict[str, NDArray]:
        """Tables of pairs (positions..., c (c - 1) / 2) by their kind."""
        raise NotImplementedError

    def _advise(self, kind):
        """Say how to have a matrix that is not there."""
        raise NotImplementedError

    @property
    def pairs(self) -> list[tuple[Any, Any]]:
        """The pairs of classes in the order of `rdm`, a list of two labels each."""
        return list(combinations(self.classes.tolist(), 2))

    def rdm(self, kind: str | None = None) -> NDArray:
        """Return how well every pair of classes is told apart.

        A representational dissimilarity matrix (RDM) at every position, condensed as by
        :func:`scipy.spatial.distance.squareform`: the order is that of `pairs`.

        Parameters
        ----------
        kind : {"crossnobis", "accuracy"} or None
            Cross-validated squared Mahalanobis distances, or accuracies. None: the
            distances, if `scoring` had them.

        Returns
        -------
        rdm : array, shape (positions..., c (c - 1) / 2)
            The distances, around 0 for classes that do not differ and also below, or
            accuracies, chance 0.5. NaN for a pair that was not tested.

        Raises
        ------
        ValueError
            If the result has no such table.

        Examples
        --------
        >>> import numpy as np
        >>> from mvpa_kfda import cross_validate
        >>> rng = np.random.default_rng(0)
        >>> y = rng.permutation(np.repeat(["cat", "dog", "house"], 30))
        >>> X = rng.normal(size=(90, 5)) + 3 * (y == "house")[:, None]
        >>> scoring = ["crossnobis", "crossnobis_distances"]
        >>> result = cross_validate(X, y, cv=5, reg=0.1, scoring=scoring)
        >>> result.pairs
        [('cat', 'dog'), ('cat', 'house'), ('dog', 'house')]
        >>> (result.rdm() > 5).tolist()
        [False, True, True]
        """
        return self.matrices[self.kind_of(kind)]

    def kind_of(self, kind: str | None = None) -> str:
        """Return which kind of table of pairs is meant.

        Parameters
        ----------
        kind : {"crossnobis", "accuracy"} or None
            As in `rdm`.

        Returns
        -------
        kind : {"crossnobis", "accuracy"}
            The kind that is there.

        Raises
        ------
        ValueError
            If the result has no such table.
        """
        kinds = list(self.matrices)
        if kind is not None:
            check_option("kind", kind, list(TABLES))
        if not kinds or kind not in (None, *kinds):
            raise ValueError(self._advise(kind or "crossnobis"))
        return kind or kinds[0]

    def to_rsatoolbox(self, kind: str | None = None) -> RDMs:
        """Return the matrices as rsatoolbox takes them, which has to be installed.

        Parameters
        ----------
        kind : {"crossnobis", "accuracy"} or None
            As in `rdm`.

        Returns
        -------
        rdms : rsatoolbox.rdm.RDMs
            One matrix per position. The pattern descriptor ``conds`` has the classes;
            the descriptors of matrices are the columns of `to_dataframe` that say where
            a position is, such as ``time``.

        Raises
        ------
        ImportError
            If rsatoolbox is not installed.
        ValueError
            If the result has no such table.
        """
        rdm = self.rdm(kind)
        try:
            from rsatoolbox.rdm import RDMs
        except ImportError:
            raise ImportError(
                'to_rsatoolbox needs rsatoolbox: pip install "mvpa-kfda[rsa]".'
            ) from None
        columns = self.places.columns()
        return RDMs(
            rdm.reshape(-1, rdm.shape[-1]),
            dissimilarity_measure=TABLES[self.kind_of(kind)],
            rdm_descriptors={name: list(of) for name, of in columns.items()},
            pattern_descriptors={"conds": self.classes.tolist()},
        )

    plot_rdm = figure_method(plot_rdm)
    plot_mds = figure_method(plot_mds)
