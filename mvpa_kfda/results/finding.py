"""What a map shows under one correction: the source of every sentence about it."""

from functools import cached_property

import numpy as np

from ..inference.corrections import NAMED, is_of_clusters
from ..metrics.scores import metric_in_text
from ..utils.checks import counted
from ..utils.rounding import brief, p_words, rounded
from ..viz.style import with_null

#: Alternative -> the score that speaks most for it, and the difference that does.
_EXTREMES = {
    "greater": ("highest {}", "largest {}"),
    "less": ("lowest {}", "smallest {}"),
    "two-sided": ("{} furthest from chance", "largest {}"),
}


class Finding:
    """The score that speaks most for an effect, and where a map is significant.

    Notebooks, pages, commands, methods texts and claims are made of these parts.

    Parameters
    ----------
    result : ScoreMap
        The result.
    correction, alpha, metric : str, float, str or None
        What is looked at; None is the correction, level and metric of the result.
    name : callable
        What prints a name that comes from data.
    **options
        Further options of `pvalues`.
    """

    def __init__(
        self, result, correction=None, alpha=None, metric=None, name=str, **options
    ):
        self.result, self.name, self.options = result, name, options
        self.correction = correction or result.default_correction
        if not result.axes:
            self.correction = "none"
        self.alpha = result.significance_level if alpha is None else alpha
        self.metric = metric or result.scalar_metrics[0]
        self.scores = np.ravel(result.metrics[self.metric])
        self.side = options.get("alternative") or result.side_of(self.metric)

    # ------------------------------------------------------------------ the best score

    @property
    def has_scores(self):
        """Whether anything could be decoded."""
        return bool(np.isfinite(self.scores).any())

    @cached_property
    def position(self):
        """The position whose score speaks most for an effect, in the flattened map."""
        side = self.options.get("alternative") or "greater"
        return int(np.nanargmax(self.result.favour(self.metric, side)))

    @property
    def label(self):
        """For example "accuracy", "mean accuracy", "difference in accuracy"."""
        words = metric_in_text(self.metric.removesuffix("_difference"))
        if self.result.is_difference:
            return f"difference in {words}"
        return f"mean {words}" if self.result.has_subjects else words

    def worded(self, label):
        """For example "highest accuracy" of a map; the label of a single score."""
        if self.scores.size == 1:
            return label
        side = self.side
        if side == "two-sided" and np.isnan(self.result.chances[self.metric]):
            side = "greater"
        return _EXTREMES[side][self.result.is_difference].format(label)

    @property
    def score(self):
        """For example "0.825", and "+0.050" of differences."""
        sign = "+" if self.result.is_difference else ""
        return rounded(self.scores[self.position], sign=sign)

    @property
    def chance(self):
        """For example " (chance 0.500)", or nothing."""
        words = self.result.worded_chance(self.metric)
        return f" ({words})" if words and not self.result.is_difference else ""

    @property
    def place(self):
        """For example " at 0.42 s", or nothing."""
        places = self.result.places
        return f" {places.at(self.position, self.name)}" if self.result.axes else ""

    @property
    def headline(self):
        """For example "highest accuracy 0.825 at 0.42 s (chance 0.500)"."""
        return f"{self.worded(self.label)} {self.best}"

    @property
    def best(self):
        """For example "0.825 at 0.42 s (chance 0.500)"."""
        return f"{self.score}{self.place}{self.chance}" if self.has_scores else "none"

    # ------------------------------------------------------------------------ the test

    @cached_property
    def _tested(self):
        """The p-values of the map, and why there are none."""
        none = np.full(self.scores.shape, np.nan)
        if not self.result.has_p:
            return none, "there are no permutations"
        try:
            p = self.result.p_of_map(self.correction, self.metric, **self.options)
        except ValueError as error:  # a score of the permutations is NaN, for example
            return none, str(error)
        return np.ravel(p), "" if np.isfinite(p).any() else "it has no p-values"

    @property
    def p(self):
        """p-values (n_positions,), NaN where nothing was tested."""
        return self._tested[0]

    @property
    def untested(self):
        """Why there are no p-values, or nothing."""
        return self._tested[1]

    @property
    def smallest_p(self):
        """The smallest p-value of the map, NaN without any."""
        return float(np.fmin.reduce(self.p))

    @property
    def marked(self):
        """Where the map is significant, (n_positions,)."""
        return self.p <= self.alpha

    @property
    def n(self):
        """Number of significant positions."""
        return int(np.count_nonzero(self.marked))

    @property
    def n_tested(self):
        """Number of positions with a p-value."""
        return int(np.count_nonzero(np.isfinite(self.p)))

    @property
    def is_attainable(self):
        """Whether enough labels were drawn for p to be significant."""
        if not self.result.n_permutations:
            return True
        least = self.result.smallest_p(self.correction, self.n_tested, self.metric)
        return least <= self.alpha

    @property
    def level(self):
        """For example "p ≤ 0.05, max-corrected"."""
        words = f"p ≤ {self.alpha:g}, {NAMED[self.correction].label}"
        if (threshold := self.options.get("threshold")) is not None:
            words += f", clusters formed at p ≤ {threshold:g}"
        return with_null(self.result, words)

    @property
    def spans(self):
        """For example "0.1 to 0.3, 0.5 s" of a time course, or nothing."""
        if [*self.result.axes] != ["times"] or not self.n:
            return ""
        index = np.flatnonzero(self.marked)
        runs = np.split(index, np.flatnonzero(np.diff(index) > 1) + 1)
        ends = [dict.fromkeys(self.result.times[run[[0, -1]]]) for run in runs]
        return f"{', '.join(' to '.join(map(brief, times)) for times in ends)} s"

    @property
    def of_all(self):
        """For example "12 of 101 time points"."""
        noun = self.result.places.noun(1)
        n = f"{self.n:,}" if self.n else "none"
        return f"{n} of {counted(self.n_tested, noun, ',')}"

    @property
    def test(self):
        """For example "significant at 12 of 101 time points (...)", "p = 0.010"."""
        if self.untested:
            return f"not tested, as {self.untested}"
        smallest = p_words(self.smallest_p)
        if self.scores.size == 1:
            return with_null(self.result, smallest)
        at = "in" if self.result.places.noun(1) == "region" else "at"
        what = f"significant {at} {self.of_all}"
        if self.n and is_of_clusters(self.correction):  # p is of a cluster as a whole
            what = f"significant clusters cover {self.of_all}"
        where = f": {self.spans}" if self.spans else ""
        few = "" if self.is_attainable else "; too few permutations to reach this level"
        return f"{what}{where} ({self.level}; smallest {smallest}{few})"

    def __str__(self):
        """What was found, in a line."""
        return f"{self.headline}; {self.test}" if self.has_scores else self.headline
