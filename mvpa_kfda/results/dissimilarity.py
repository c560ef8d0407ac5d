"""How well every pair of classes is told apart: representational dissimilarity.

Matrices, their figures, and what other toolboxes take are what results of subjects and
of groups have in common. Those of subjects have tables in full or condensed, and chosen
pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from ..metrics.auc import count_trained
from ..metrics.pairs import TABLES, n_pairs, squares
from ..metrics.scores import (
    METRICS,
    NamedPairs,
    mean_of_defined,
    name_pairs,
    number_pairs,
)
from ..utils.checks import check_option
from ..viz.confusion import plot_confusion
from ..viz.rdm import plot_mds, plot_rdm
from .fields import figure_method, record

if TYPE_CHECKING:
    from rsatoolbox.rdm import RDMs
    from typing_extensions import Self  # typing's from Python 3.11 on

#: Pairs of classes by their labels, or some of them by a name.
Pairs = Sequence[tuple[Any, Any]] | NamedPairs


class MatricesMixin:
    """A result that may have `matrices` of pairs of its `classes` at its `places`.

    `_advise` says how to have a matrix of a kind that is not there.
    """

    @property
    def pairs(self) -> list[tuple[Any, Any]]:
        """The pairs of classes in the order of `rdm`, a list of two labels each."""
        return list(combinations(self.classes.tolist(), 2))

    def rdm(self, kind: str | None = None) -> NDArray:
        """Return the dissimilarity of each pair of classes.

        A representational dissimilarity matrix (RDM) at each position, condensed as by
        :func:`scipy.spatial.distance.squareform`, in the order of `pairs`.

        Parameters
        ----------
        kind : {"crossnobis", "accuracy"} or None
            Cross-validated squared Mahalanobis distances, or accuracies. None: the
            distances, if `scoring` included them.

        Returns
        -------
        rdm : array, shape (positions..., c (c - 1) / 2)
            Distances, which vary around 0 for classes that do not differ and may be
            negative, or accuracies, with chance level 0.5. NaN for untested pairs.

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
        """Return the kind of table of pairs to use.

        Parameters
        ----------
        kind : {"crossnobis", "accuracy"} or None
            As in `rdm`.

        Returns
        -------
        kind : {"crossnobis", "accuracy"}
            The available kind.

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
        """Return the matrices as RDMs of rsatoolbox (which must be installed).

        Parameters
        ----------
        kind : {"crossnobis", "accuracy"} or None
            As in `rdm`.

        Returns
        -------
        rdms : rsatoolbox.rdm.RDMs
            One matrix per position. The pattern descriptor ``conds`` holds the classes;
            the RDM descriptors are the position columns of `to_dataframe`, such as
            ``time``.

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


@record
class DissimilarityMixin(MatricesMixin):
    """A subject's result with tables of pairs or not; before `SubjectResult`."""

    #: Whether tables of pairs stay condensed in `metrics`: maps have many positions.
    keeps_condensed: ClassVar[bool] = False

    def __post_init__(self):
        """Make tables (positions..., c, c) of condensed ones, where these are few."""
        self._convert(self._expanded, "metrics")
        super().__post_init__()

    def _expanded(self, metrics):
        """Metrics with condensed tables of pairs in full."""
        c, found = len(self.classes), dict(metrics)
        if self.keeps_condensed:
            return found
        for name in found.keys() & TABLES.values():
            values = np.asarray(found[name])
            if values.shape == (*self.shape, n_pairs(c)):
                found[name] = squares(values, c, self.chances[name])
        return found

    @property
    def matrices(self) -> dict[str, NDArray]:
        """Tables of pairs (positions..., c (c - 1) / 2) by their kind."""
        found, (first, second) = {}, np.triu_indices(len(self.classes), 1)
        for kind, name in TABLES.items():
            if name in self.metrics:
                values = np.asarray(self.metrics[name])
                is_condensed = values.ndim == len(self.axes) + 1
                found[kind] = values if is_condensed else values[..., first, second]
        return found

    def _advise(self, kind):
        """Say how to have a table of pairs."""
        wanted = TABLES[kind]
        return (
            "This result has no such table of pairs of classes. Run the analysis "
            f"again with {wanted!r} in scoring, e.g. "
            f"scoring=[{METRICS[wanted].summary!r}, {wanted!r}]."
        )

    def _advise_permutations(self, what):
        """Say how to have what needs permutations."""
        if "pairs_of" not in self.parameters:
            return super()._advise_permutations(what)
        table, pairs = self.parameters["pairs_of"], self.parameters["pairs"]
        return (
            f"These pairs of classes have no {what}: label permutations are kept of "
            "pairs that are in scoring. Run the analysis again with n_permutations="
            f"1000 or so and scoring=[{table!r}, {pairs!r}]."
        )

    @property
    def pair_tables(self) -> list[str]:
        """Names of the metrics that are tables of pairs."""
        return [name for name in TABLES.values() if name in self.metrics]

    def _frame_of_pairs(self, metric):
        """A table of pairs of classes, of a metric that is one."""
        import pandas as pd  # slow to import, and only tables need it

        (kind,) = (kind for kind, name in TABLES.items() if name == metric)
        values, n = self.rdm(kind), len(self.pairs)
        places = self.places.columns()
        table = {name: np.repeat(of, n) for name, of in places.items()}
        for i, column in enumerate(("class_1", "class_2")):
            labels = np.array([pair[i] for pair in self.pairs])
            table[column] = np.tile(labels, values.size // n)
        return pd.DataFrame(table | {metric: values.ravel()})

    def select_pairs(self, pairs: Pairs, kind: str | None = None) -> Self:
        """Return the result for selected pairs of classes, or for means over pairs.

        The returned result has one metric per pair or mean, and can be plotted,
        compared and passed to :func:`group_inference` like any other. It has p-values
        only if `scoring` included the same pairs, so that the permutations of their
        mean were kept; otherwise only those of the mean over all pairs exist.

        Parameters
        ----------
        pairs : list of (label, label) | dict of str -> list of (label, label)
            ``[("face", "house")]``, or means by name: ``{"within": [("face", "hand")],
            "between": [("face", "house"), ("hand", "house")]}``.
        kind : {"crossnobis", "accuracy"} or None
            As in `rdm`.

        Returns
        -------
        result : of the same class
            Its metrics are named by the keys, or "face / house".

        Raises
        ------
        ValueError
            If there is no such table, class or pair.

        Examples
        --------
        >>> import numpy as np
        >>> from mvpa_kfda import decode_arrays
        >>> rng = np.random.default_rng(0)
        >>> y = rng.permutation(np.repeat(["cat", "dog", "house"], 30))
        >>> X = rng.normal(size=(90, 5, 4)) + 3 * (y == "house")[:, None, None]
        >>> scoring = ["crossnobis", "crossnobis_distances"]
        >>> result = decode_arrays(X, y, cv=5, scoring=scoring, reg=0.1)
        >>> some = {"animals": [("cat", "dog")], "others": [("cat", "house")]}
        >>> result.select_pairs(some).scoring
        ['animals', 'others']
        """
        table = TABLES[self.kind_of(kind)]
        values = self.rdm(kind)
        chosen = number_pairs(name_pairs(pairs), self.classes)
        metrics = {
            name: mean_of_defined(values[..., numbers], axis=-1)
            for name, numbers in chosen.items()
        }
        said = {
            name: [self.pairs[i] for i in numbers] for name, numbers in chosen.items()
        }
        kept = self._kept_of(chosen, table)
        parameters = self.parameters | {"scoring": list(metrics), "pairs": said}
        parameters |= {"pairs_of": table}
        if not any(kept[name] for name in ("nulls", "null_summaries") if name in kept):
            parameters |= {"n_permutations": 0}
        return replace(
            self,
            metrics=metrics,
            chances=dict.fromkeys(metrics, self.chances[table]),
            parameters=parameters,
            **kept,
        )

    def _kept_of(self, chosen, table):
        """What was kept of chosen pairs, by name, that were in scoring too."""
        before, same = {}, self.parameters.get("pairs_of") == table
        for name, pairs in (self.parameters["pairs"] if same else {}).items():
            numbers = number_pairs({name: pairs}, self.classes)[name]
            before[frozenset(numbers)] = name
        names = {new: before.get(frozenset(of)) for new, of in chosen.items()}
        return {
            part: {
                new: vars(self)[part][old]
                for new, old in names.items()
                if old in vars(self)[part]
            }
            for part in _OF_METRICS
            if part in vars(self)
        }


#: What is kept of single metrics beside their scores.
_OF_METRICS = (
    *("nulls", "null_summaries"),
    *("second_scores", "second_nulls", "second_summaries"),
    *("fold_metrics", "repeats"),
)


@record
class EvidenceMixin(DissimilarityMixin):
    """A result that may hold class scores; comes before `SubjectResult` as a base.

    Parameters
    ----------
    class_scores : array, shape (positions..., n, c), or None
        Out-of-sample score of each class for each trial; the class with the highest
        score is predicted. Averaged over the folds that test a trial; NaN for untested
        trials, -inf for a class absent from training. Only their differences are
        meaningful. None without ``keep_class_scores=True``.
    """

    class_scores: NDArray | None = None

    def __post_init__(self):
        """Normalize the arrays and check that their shapes belong together."""
        super().__post_init__()
        if self.class_scores is None:
            return
        shape = self.shape[: self._n_scored_axes]
        expected = (*shape, self.n_tested, len(self.classes))
        if self.class_scores.shape != expected:
            raise ValueError(
                f"class_scores must have shape (positions..., n_trials, n_classes) "
                f"{expected}; got {self.class_scores.shape}."
            )

    #: How many axes the positions have that class scores are kept of; None: all.
    _n_scored_axes: ClassVar[int | None] = None

    def decision_values(self) -> NDArray:
        """Return decision values of trials, positive for the second of two classes.

        The models that predict a trial were not trained on it, so these values may be
        correlated with behaviour, reaction times or other recordings. The models of
        different folds differ slightly in scale: where small differences matter,
        compare trials within folds.

        Returns
        -------
        values : array, shape (positions..., n_trials)
            The class score of the second class (``result.classes[1]``) minus that of
            the first: positive where the second is predicted, as in
            :meth:`KernelFDA.decision_function`. NaN for a trial that was in no test
            set.

        Raises
        ------
        ValueError
            If no class scores were kept, or there are more than two classes.

        Examples
        --------
        >>> from mvpa_kfda import decode_epochs, simulate_epochs
        >>> epochs = simulate_epochs(n_classes=2, random_state=0)
        >>> result = decode_epochs(epochs, keep_class_scores=True)
        >>> values = result.decision_values()
        >>> values.shape == (len(result.times), len(epochs))
        True
        """
        scores = self._kept_scores("decision_values()")
        if len(self.classes) != 2:
            raise ValueError(
                f"decision_values() is for two classes; this result has "
                f"{len(self.classes)}. Use result.probabilities(), or differences of "
                "result.class_scores[..., k]."
            )
        with np.errstate(invalid="ignore"):  # of classes that are both absent
            return scores[..., 1] - scores[..., 0]

    def probabilities(self) -> NDArray:
        """Return the posterior probability of each class for each trial.

        Assuming Gaussian classes of equal prior probability, as in
        :meth:`KernelFDA.predict_proba`. Probabilities express the models' confidence
        and are not calibrated.

        Returns
        -------
        p : array, shape (positions..., n_trials, n_classes)
            Sums to one over classes. NaN for a trial that was in no test set.

        Raises
        ------
        ValueError
            If no class scores were kept.
        """
        scores = self._kept_scores("probabilities()")
        n_train = count_trained(self, self.n_tested)
        return softmax(n_train[:, np.newaxis] * scores, axis=-1)

    plot_confusion = figure_method(plot_confusion)

    def _kept_scores(self, what):
        """The class scores, or say how to have them."""
        if self.class_scores is None:
            raise ValueError(
                f"{what} needs the class scores of every trial, which were not kept. "
                "Run the analysis again with keep_class_scores=True."
            )
        return self.class_scores
