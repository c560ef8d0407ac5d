"""The test of a group as its options say, from the scores of its subjects."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import stats
from scipy.sparse import coo_array

from . import second_level as formulas
from .corrections import CORRECTIONS, Null, ranks_of_rows
from .reading import NotCovered

#: The methods that compare with permuted labels, and with theory.
BY_LABELS, BY_THEORY = ("prevalence", "i-test", "bootstrap"), ("t", "wilcoxon")
#: Corrections of uncorrected p-values (V,), which results work out when asked.
ADJUSTED = ("bonferroni", "holm", "fdr", "fdr-by")
#: How many numbers of second-level maps are made at a time, over all subjects.
_BATCH = 2**22
#: True discoveries are bounded by so many numbers, or by a thousand maps at least.
_RANKED, _LEAST_RANKED = 2**25, 1000


@dataclass
class Anew:
    """What a group's file should say, at the positions (C,) that count."""

    options: dict
    places: object
    #: `Member` of the first list, then of the second.
    members: list
    n_first: int
    #: Whether scores are compared with those of permuted labels in place of chance.
    against_permuted: bool = False

    # ----------------------------------------------------------- what there is to test

    @cached_property
    def counted(self):
        """Where every subject has a score (V,)."""
        return ~np.isnan([each.scores for each in self.members]).any(axis=0)

    @cached_property
    def scores(self):
        """The scores of the subjects (S, C)."""
        return np.array([each.scores[self.counted] for each in self.members])

    @cached_property
    def tested(self):
        """The scores of the subjects (S, C) in each test by permuted labels."""
        return [
            np.array([each.tested[k][self.counted] for each in self.members])
            for k in range(self.n_tests)
        ]

    @cached_property
    def nulls(self):
        """The scores under permuted labels, of each test and subject (P, C)."""
        if self.n_tests == 0:
            raise NotCovered("a subject's result has no scores under permuted labels")
        return [
            [each.nulls[k][:, self.counted] for each in self.members]
            for k in range(self.n_tests)
        ]

    @property
    def n_tests(self):
        """How many nulls the subjects have, all of which are to be rejected."""
        return min(len(each.nulls) for each in self.members)

    @cached_property
    def exempt(self):
        """Where each test does not count, (C,) each."""
        first = np.zeros(self.counted.sum(), bool)
        return [first, self.members[0].exempt[self.counted]]

    @cached_property
    def near(self):
        """Up to which share of the largest number others are ties."""
        return formulas.NEAR_OF_SINGLE if self._is_single else formulas.NEAR

    @property
    def _is_single(self):
        """Whether scores are in single precision."""
        if self.options["method"] not in BY_LABELS:
            return False
        return any(null.dtype == np.float32 for each in self.nulls for null in each)

    @cached_property
    def _values(self):
        """What is compared with 0, or between two groups, as whole numbers (S, C)."""
        values, n = self.scores, self.n_first
        if self.options["paired"]:
            values = values[:n] - values[n:]
        elif self.has_one_list:
            against = self.permuted_means if self.against_permuted else None
            values = values - (self.members[0].chance if against is None else against)
        return formulas.whole_numbers(values)

    @cached_property
    def permuted_means(self):
        """The mean scores of the subjects under permuted labels (S, C)."""
        if any(each.means is None for each in self.members):
            raise NotCovered("a subject's result has no scores under permuted labels")
        return np.array([each.means[self.counted] for each in self.members])

    @property
    def has_one_list(self):
        """Whether there are no other subjects, and no other condition."""
        return self.n_first == len(self.members)

    @property
    def _has_two_groups(self):
        return not self.has_one_list and not self.options["paired"]

    # ----------------------------------------------------------------- the permutations

    @cached_property
    def draws(self):
        """The second-level permutations, (P, S)."""
        drawn = self.options["n_permutations"], self.options["random_state"]
        n = len(self.members)
        if self.options["method"] in BY_LABELS:
            n_maps = [1 + len(null) for null in self.nulls[0]]
            return formulas.recombinations(n_maps, *drawn)
        if self._has_two_groups:
            return formulas.exchanges(self.n_first, n - self.n_first, *drawn)
        return formulas.sign_flips(self.n_first, *drawn)

    @cached_property
    def tests(self):
        """What makes maps of permutations, one for each test that has to reject."""
        method, draws = self.options["method"], self.draws
        by_ranks = method == "wilcoxon"
        if method in BY_LABELS:
            over = np.min if method == "prevalence" else np.mean
            kind = np.float32 if self._is_single else float
            return [
                formulas.Recombined(scores.astype(kind), each, draws, over)
                for scores, each in zip(self.tested, self.nulls, strict=True)
            ]
        if self._has_two_groups:
            values = self._values
            values = stats.rankdata(values, axis=0) if by_ranks else values
            return [formulas.Exchanged(values, draws, self.n_first, by_ranks)]
        values = formulas.signed_ranks(self._values) if by_ranks else self._values
        return [formulas.Flipped(values, draws, by_ranks)]

    @property
    def n_permutations(self):
        """How many second-level permutations are needed."""
        return len(self.draws) if self.is_drawn else 0

    @property
    def is_drawn(self):
        """Whether any p-value takes second-level permutations."""
        method = self.options["method"]
        if method in BY_THEORY:
            return bool(self.corrections - {"none"})
        return method != "i-test"

    @cached_property
    def corrections(self):
        """The p-values that the file should have."""
        always = {"prevalence": {"none", "max"}, "bootstrap": {"none", "max"}}
        asked = {each for each in self.options["correction"] if each not in ADJUSTED}
        return asked | always.get(self.options["method"], {"none"})

    # ---------------------------------------------------------------------- the numbers

    @cached_property
    def statistic(self):
        """The observed statistic (C,)."""
        if self.options["method"] == "i-test":
            return self._in_order(self.scores)
        return self.tests[0].observed().astype(float)

    def _in_order(self, scores):
        """Return the scores (C,) of the subject that is as low as the i-test says."""
        scores = np.sort(scores, axis=0)[self.options["order"] - 1]
        return scores.astype(np.float32).astype(float) if self._is_single else scores

    @cached_property
    def p_of_minimum(self):
        """Each subject's own p (S, C) of the statistic; the larger one of two tests."""
        if self.options["method"] == "i-test":
            observed = map(self._in_order, self.tested)
        else:
            observed = [test.observed().astype(float) for test in self.tests]
        tests = zip(self.nulls, observed, self.exempt, strict=False)
        return np.max(
            [
                np.where(exempt, 0.0, formulas.p_of_subjects(nulls, each, self.near))
                for nulls, each, exempt in tests
            ],
            axis=0,
        )

    def p_of_position(self, i):
        """Return the uncorrected p of one position, but by permutations of subjects."""
        options, n = self.options, self.n_first
        if options["method"] == "prevalence":
            p = np.prod(self.p_of_minimum[:, i])
            return max(p, np.finfo(float).tiny)
        if options["method"] == "i-test":
            p = self.p_of_minimum[:, [i]]
            return formulas.p_of_order(p, options["order"], options["hypothesis"])[0]
        first, second = self._values[:n, i], None
        if self._has_two_groups:
            second = self._values[n:, i]
        how = options["method"] == "wilcoxon", options["alternative"]
        return formulas.p_of_distribution(first, second, self.statistic[i], *how)

    @property
    def is_by_position(self):
        """Whether uncorrected p-values take no permutations of subjects."""
        return self.options["method"] in ("prevalence", "i-test", *BY_THEORY)

    def rows(self, test, numbers, at=slice(None)):
        """Return the maps of permutations with these numbers, from 0, in batches."""
        step = max(1, _BATCH // self.scores.size)
        return np.concatenate(
            [
                test.maps(numbers[start : start + step], at)
                for start in range(0, len(numbers), step)
            ]
        )

    def null(self, test, exempt, rows, at=slice(None)):
        """Return the `Null` of a test, of the permutations `rows` at some positions."""
        return Null(
            observed=test.observed()[at].astype(float),
            null=rows,
            alternative=self.options["alternative"],
            near=self.near,
            standard=self.options["method"] not in BY_LABELS,
            level=self.options["threshold"],
            height=self.height,
            edges=self.edges,
            exempt=exempt[at],
        )

    @property
    def is_centred(self):
        """Whether numbers are compared with the centre of all maps."""
        two_sided = self.options["alternative"] == "two-sided"
        return two_sided and self.options["method"] in BY_LABELS

    def nulls_of(self, numbers, at=slice(None)):
        """Return the `Null` of each test, of some permutations and positions."""
        return [
            self.null(test, exempt, self.rows(test, numbers, at), at)
            for test, exempt in zip(self.tests, self.exempt, strict=False)
        ]

    @property
    def height(self):
        """The t, or the normal deviate, above which clusters are."""
        level, dof = self.options["threshold"], self.n_first - 1
        if self.options["alternative"] == "two-sided":
            level = level / 2
        if self._has_two_groups:
            dof = len(self.members) - 2
        theory = stats.norm if self.options["method"] == "wilcoxon" else stats.t(dof)
        return float(theory.isf(level))

    @cached_property
    def whole_nulls(self):
        """The nulls of all permutations at all positions."""
        return self.nulls_of(np.arange(len(self.draws)))

    def p_values(self, name):
        """Return the p-values (C,) of a correction, from all permutations."""
        if name == "none" and self.is_by_position:
            positions = range(len(self.statistic))
            return np.array([self.p_of_position(i) for i in positions])
        p = CORRECTIONS[name](self.whole_nulls)
        if self.options["method"] == "prevalence" and name in ("max", "max-step-down"):
            return np.maximum(p, self.p_values("none"))
        return p

    @property
    def largest(self):
        """The most extreme statistic of each permutation, (P,)."""
        return np.max([null.largest for null in self.whole_nulls], axis=0)

    @property
    def cluster_scores(self):
        """What clusters are formed of: of several tests, what is nearest to 0."""
        signs = {"greater": [0, None], "less": [None, 0], "two-sided": [0, 1]}
        high, low = (
            np.min([self._side(null, side) for null in self.whole_nulls], axis=0)
            for side in signs[self.options["alternative"]]
        )
        return np.where(high > 0, high, np.minimum(0.0, -low))

    @staticmethod
    def _side(null, side):
        """Return a side of the observed map, or the other side of the only one."""
        z = -null.maps[0, 0] if side is None else null.maps[side, 0]
        return np.where(null.exempt, np.inf, z)

    def ranks(self):
        """Return ranks (T, C) and statistics (T, rows) for true discoveries."""
        n = max(_LEAST_RANKED, _RANKED // self.scores.shape[1])
        ranks, statistics = np.zeros((len(self.tests), self.scores.shape[1])), []
        for k, null in enumerate(self.whole_nulls):
            part = ~null.exempt
            null = self.null(self.tests[k], null.exempt, null.null[:n])
            ranks[k, part], found = self._ranked(null, part)
            statistics.append(found)
        return ranks, np.array(statistics)

    def _ranked(self, null, part):
        """Return the ranks of the observed map at a part, and the rows' statistics."""
        null.observed, null.null = null.observed[part], null.null[:, part]
        of_rows, statistics = ranks_of_rows(null)
        return of_rows[0], statistics

    @cached_property
    def edges(self):
        """Pairs of neighbours (2, n)."""
        adjacency = self.places.adjacency(self.counted)
        if adjacency is not None:
            found = coo_array(adjacency)
            return np.array([found.row, found.col])[:, found.row < found.col]
        numbers = np.arange(self.counted.size).reshape(self.places.shape)
        pairs = [np.empty((2, 0), int)]
        for axis in range(numbers.ndim):
            along = np.moveaxis(numbers, axis, 0)
            pairs.append(np.stack([along[:-1].ravel(), along[1:].ravel()]))
        return np.concatenate(pairs, axis=1)

    # ----------------------------------------------------------------- subjects alone

    def own(self, at):
        """Return subjects' p and sizes (S, len(at)), and those of anywhere (S,)."""
        n, alpha = len(self.members), self.options["alpha"]
        p, sizes = np.zeros((2, n, len(at)))
        anywhere, size_anywhere = np.zeros((n, self.scores.shape[1])), np.zeros(n)
        tests = zip(self.tested, self.nulls, self.exempt, strict=False)
        for tested, nulls, exempt in tests:
            counted = ~exempt
            for s, null in enumerate(nulls):
                single = null.dtype == np.float32
                near = formulas.NEAR_OF_SINGLE if single else formulas.NEAR
                scores = tested[s].astype(null.dtype).astype(float)
                here = counted[at]
                p_here = formulas.p_uncorrected(scores[at], null[:, at], near)
                p[s] = np.maximum(p[s], p_here * here)
                size = formulas.attained_size(scores[at], null[:, at], alpha, near)
                sizes[s] = np.maximum(sizes[s], size * here)
                if not counted.any():
                    continue
                top, largest = scores[counted].max(), null[:, counted].max(axis=1)
                reached = formulas.p_uncorrected(
                    scores, np.tile(largest, (len(scores), 1)).T, near
                )
                anywhere[s] = np.maximum(anywhere[s], reached * counted)
                size = formulas.attained_size(
                    np.array([top]), largest[:, np.newaxis], alpha, near
                )
                size_anywhere[s] = max(size_anywhere[s], size[0])
        return p, sizes, anywhere.min(axis=1), size_anywhere
