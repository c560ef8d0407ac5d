"""Statistics over subjects: sign flips, exchanges of group labels, and theory.

Both are lazy nulls: rows of statistics (P, positions), computed when they are asked
for. Both come down to one matrix product, because what an exchange changes of the
statistic is a weighted sum over subjects, and the rest is the same in all exchanges.
"""

import math
from itertools import combinations

import numpy as np
from scipy import stats
from scipy.stats import rankdata

from ..inference.corrections import correct
from ..inference.null import ALTERNATIVES, FullNull, count_p, level_of_side
from ..utils.checks import check_count, check_option, generator

#: Statistics over subjects: Student's t, or the standardised rank statistic.
STATISTICS = ("t", "wilcoxon")

#: Least part of the variance that t leaves unexplained, 1 - r^2. It keeps t finite
#: where all subjects have the same value, and as exact as the ties between
#: permutations need it: the rounding error of t is that of r divided by 1 - r^2.
LEAST_REST = 1e-5

#: The largest value in units of the smallest difference that counts: a score minus its
#: chance level is exact to about 16 digits of the score, not of the difference.
_UNITS = 1e12


class Exchange:
    """A null whose row p is a function of the correlations of weights and values.

    Parameters
    ----------
    values : array, shape (S, C)
        Values of the subjects, as `tidied`, or their ranks.
    weights : array, shape (P, S)
        Weight of each subject in each exchange.
    observed_weights : array, shape (S,)
        The weights of the data as they are.
    centre, norm : array, shape (C,)
        The correlation is the weighted sum minus the centre, divided by the norm.
    dof : int
        Degrees of freedom of t.
    factor : float
        What makes a unit normal deviate of the correlation of ranks.
    statistic : {"t", "wilcoxon"}
        Which statistic the rows are.
    """

    def __init__(
        self,
        values,
        weights,
        observed_weights,
        *,
        centre,
        norm,
        dof,
        factor,
        statistic,
    ):
        self.values, self._weights, self._centre = values, weights, centre
        self._dof, self._factor, self.statistic = dof, factor, statistic
        self._norm = np.where(norm > 0, norm, np.inf)  # the statistic of zeros is 0
        self.shape = (len(weights), values.shape[1])
        self.ndim = 2
        self.dtype = np.dtype(np.float64)
        self.observed = self._rows(observed_weights)

    def __len__(self):
        """Return the number of exchanges."""
        return len(self._weights)

    def __getitem__(self, rows):
        """Return the statistics (rows, C) of some exchanges."""
        return self._rows(self._weights[rows])

    def _rows(self, weights):
        return self.of_sums(np.asarray(weights, dtype=float) @ self.values)

    def of_sums(self, sums):
        """Return the statistics of weighted sums of the values over subjects."""
        r = (sums - self._centre) / self._norm
        if self.statistic == "wilcoxon":
            return r * self._factor
        rest = np.square(r)
        np.subtract(1, rest, out=rest)
        np.maximum(rest, LEAST_REST, out=rest)
        np.divide(self._dof, rest, out=rest)
        r *= np.sqrt(rest, out=rest)
        return r


class SignFlips(Exchange):
    r"""One-sample statistics when subjects' differences change their signs.

    Parameters
    ----------
    differences : array, shape (S, C)
        Difference of each subject from chance, or between two conditions.
    signs : array, shape (P, S)
        1 or -1 for each subject in each permutation, see :func:`draw_signs`.
    statistic : {"t", "wilcoxon"}, default="t"
        Student's t of the mean, or the signed-rank statistic as a normal deviate.

    Attributes
    ----------
    observed : array, shape (C,)
        The statistic of the differences as they are.
    shape, ndim, dtype : tuple, int, dtype
        Those of the array (P, C) that the object stands for.

    Raises
    ------
    ValueError
        If the statistic is not known.

    Notes
    -----
    A flip changes the sum over subjects and leaves the sum of squares as it is. With
    :math:`r = \sum_i s_i d_i / \sqrt{S \sum_i d_i^2}`,

    .. math:: t = r \sqrt{(S - 1) / (1 - r^2)}

    where :math:`1 - r^2` is at least 1e-5, so that t is finite where all subjects have
    the same difference. It is 0 where all differences are.

    The signed-rank statistic replaces d by its signed midrank, zeros left out. Its
    mean over flips is 0 and its variance the sum of squared ranks, ties or not, so
    :math:`z = r \sqrt S` [1]_. Differences that agree to 12 digits of the largest one
    are ties.

    References
    ----------
    .. [1] Wilcoxon, F. (1945). Individual comparisons by ranking methods. Biometrics
       Bulletin, 1(6), 80-83.

    Examples
    --------
    >>> import numpy as np
    >>> differences = np.array([[0.1, 0.2], [0.3, -0.1], [0.2, 0.3]])
    >>> flips = SignFlips(differences, draw_signs(3, 100))
    >>> flips.shape, flips.observed.round(3)
    ((7, 2), array([3.464, 1.109]))
    >>> flips[:1].round(3)
    array([[1.109, 0.   ]])
    """

    def __init__(self, differences, signs, statistic="t"):
        check_option("statistic", statistic, STATISTICS)
        values = tidied(differences)
        if statistic == "wilcoxon":
            values = signed_ranks(values)
        n = len(values)
        super().__init__(
            values,
            signs,
            np.ones(n),
            centre=0.0,
            norm=np.sqrt(n * np.square(values).sum(axis=0)),
            dof=n - 1,
            factor=math.sqrt(n),
            statistic=statistic,
        )


class LabelExchange(Exchange):
    r"""Two-sample statistics when subjects change their groups.

    Parameters
    ----------
    values : array, shape (S, C)
        Value of each subject, the first group's subjects first.
    labels : array of bool, shape (P, S)
        True for the subjects that are in the first group in each permutation, see
        :func:`draw_labels`. All rows have as many.
    statistic : {"t", "wilcoxon"}, default="t"
        Student's t with equal variances, or the rank-sum statistic as a normal
        deviate. Both are large where the first group has the larger values.

    Attributes
    ----------
    observed : array, shape (C,)
        The statistic of the groups as they are.
    shape, ndim, dtype : tuple, int, dtype
        Those of the array (P, C) that the object stands for.

    Raises
    ------
    ValueError
        If the statistic is not known.

    Notes
    -----
    With the values centred over all subjects, the sum of the first group is all that
    changes. Let :math:`r` be the correlation of the values with the labels; then

    .. math:: t = r \sqrt{(S - 2) / (1 - r^2)}

    is the t of equal variances; :math:`1 - r^2` is at least 1e-5. With midranks in
    place of the values, :math:`z = r \sqrt{S - 1}` is the rank sum minus its mean,
    divided by its standard deviation over all relabellings, ties included [1]_.

    References
    ----------
    .. [1] Mann, H. B., & Whitney, D. R. (1947). On a test of whether one of two random
       variables is stochastically larger than the other. Annals of Mathematical
       Statistics, 18(1), 50-60.

    Examples
    --------
    >>> import numpy as np
    >>> values = np.array([[0.9], [0.8], [0.5], [0.6]])
    >>> exchange = LabelExchange(values, draw_labels(2, 2, 100))
    >>> exchange.shape, exchange.observed.round(3)
    ((5, 1), array([4.243]))
    """

    def __init__(self, values, labels, statistic="t"):
        check_option("statistic", statistic, STATISTICS)
        values, labels = tidied(values), np.asarray(labels)
        n, n_first = len(values), np.count_nonzero(labels[0])
        if statistic == "wilcoxon":
            values = rankdata(values, axis=0)
        mean = values.mean(axis=0)
        spread = np.square(values - mean).sum(axis=0)
        # Equal values have no spread, whatever rounding their mean has.
        spread[(values == values[0]).all(axis=0)] = 0.0
        super().__init__(
            values,
            labels,
            np.arange(n) < n_first,
            centre=n_first * mean,
            norm=np.sqrt(n_first * (n - n_first) / n * spread),
            dof=n - 2,
            factor=math.sqrt(n - 1),
            statistic=statistic,
        )


def tidied(values):
    """Return values as whole numbers, the largest 10^12.

    Equal ones are then equal, and sums of some thousand of them exact: in any order,
    in any batch, and with any number of threads.
    """
    values = np.asarray(values, dtype=float)
    largest = np.abs(values).max(initial=0)
    return np.rint(values / largest * _UNITS) if largest > 0 else values


def signed_ranks(values):
    """Return the midranks of the sizes among those that are not 0, with the signs."""
    ranks = rankdata(np.abs(values), axis=0) - np.count_nonzero(values == 0, axis=0)
    return np.sign(values) * ranks


# --------------------------------------------------------------- which exchanges


def draw_signs(n_subjects, n_permutations, random_state=None):
    """Return signs of subjects: all that differ from the data's, or as many as asked.

    Parameters
    ----------
    n_subjects : int
        Number of subjects S.
    n_permutations : int
        Number of permutations P.
    random_state : int, Generator or None, default=None
        Seed, as taken by :func:`numpy.random.default_rng`.

    Returns
    -------
    signs : array of int, shape (P, S)
        1 or -1, no two rows the same and none of them all 1, which is the data as it
        is. Fewer rows, 2^S - 1, if there are no more; the test is then exact.

    Raises
    ------
    ValueError
        If a number is not valid, or if random_state is not.

    Notes
    -----
    In a two-sided test the flip of all subjects is always a tie with the data, so an
    exact p is then never below 2 / 2^S.

    Examples
    --------
    >>> draw_signs(2, 10)
    array([[-1,  1],
           [ 1, -1],
           [-1, -1]], dtype=int8)
    """
    n = check_count("n_subjects", n_subjects, minimum=1)
    n_permutations = check_count("n_permutations", n_permutations, minimum=1)
    if 2**n - 1 <= n_permutations:
        codes = np.arange(1, 2**n)[:, np.newaxis]
        return (1 - 2 * (codes >> np.arange(n) & 1)).astype(np.int8)
    rng = generator(random_state)
    identity = np.ones(n, dtype=np.int8)
    coin = np.array([1, -1], dtype=np.int8)
    return _distinct(lambda m: rng.choice(coin, (m, n)), n_permutations, identity)


def draw_labels(n_first, n_second, n_permutations, random_state=None):
    """Return groups of subjects: all that differ from the data's, or as many as asked.

    Parameters
    ----------
    n_first, n_second : int
        Number of subjects in each group.
    n_permutations : int
        Number of permutations P.
    random_state : int, Generator or None, default=None
        Seed, as taken by :func:`numpy.random.default_rng`.

    Returns
    -------
    labels : array of bool, shape (P, n_first + n_second)
        True for the subjects in the first group, no two rows the same and none of them
        the data's, where the first group comes first. Fewer rows if there are no more;
        the test is then exact.

    Raises
    ------
    ValueError
        If a number is not valid, or if random_state is not.

    Examples
    --------
    >>> draw_labels(1, 2, 10)
    array([[False,  True, False],
           [False, False,  True]])
    """
    n_first = check_count("n_first", n_first, minimum=1)
    n = n_first + check_count("n_second", n_second, minimum=1)
    n_permutations = check_count("n_permutations", n_permutations, minimum=1)
    observed = np.arange(n) < n_first
    n_others = math.comb(n, n_first) - 1
    if n_others <= n_permutations:
        chosen = np.array(list(combinations(range(n), n_first)))[1:]
        labels = np.zeros((n_others, n), dtype=bool)
        np.put_along_axis(labels, chosen, True, axis=1)
        return labels
    rng = generator(random_state)
    return _distinct(
        lambda m: rng.permuted(np.tile(observed, (m, 1)), axis=1),
        n_permutations,
        observed,
    )


def _distinct(draw, n_rows, observed):
    """Return the first rows that differ from each other and from the observed one.

    Drawn without replacement, the observed row and the others are exchangeable.
    """
    seen, rows = {observed.tobytes()}, []
    while len(rows) < n_rows:
        for row in draw(n_rows):
            key = row.tobytes()
            if key not in seen and len(rows) < n_rows:
                seen.add(key)
                rows.append(row)
    return np.array(rows)


#: Where a null keeps the largest values that a correction compares with.
MAXIMA = {
    "max": "maximum",
    "cluster": "cluster_maximum",
    "cluster-size": "cluster_size_maximum",
    "tfce": "tfce_maximum",
}


def flip_here(
    differences,
    neighbours,
    correction,
    *,
    threshold=0.05,
    alternative="greater",
    n_permutations=10000,
    random_state=None,
):
    """Test the mean difference at every position by sign flips of this package.

    Parameters
    ----------
    differences : array, shape (S, C)
        Difference of each subject at each position.
    neighbours : sparse matrix, shape (C, C), or tuple of int
        Which positions are neighbours, or the shape of the lattice that they are.
    correction : {"max", "cluster", "cluster-size", "tfce"}
        Correction for the number of positions.
    threshold : float, default=0.05
        p-level of t that forms clusters, one half on each side if two-sided.
    alternative : {"greater", "less", "two-sided"}, default="greater"
        Which differences are the interesting ones.
    n_permutations : int, default=10000
        Number of sign flips. All 2^S - 1 if there are no more than that.
    random_state : int, Generator or None, default=None
        Seed of the flips.

    Returns
    -------
    p : array, shape (C,)
        Family-wise p-values; of a cluster at all its positions, and 1 elsewhere.
    null_max : array, shape (P,)
        Largest statistic of each flip.

    Raises
    ------
    ValueError
        If the correction, the alternative or the threshold is not valid.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> differences = rng.normal([0.0, 2.0, 2.0, 0.0], 0.5, (6, 4))
    >>> flip_here(differences, (4,), "cluster")[0].round(3)
    array([1.   , 0.016, 0.016, 1.   ])
    """
    check_option("correction", correction, MAXIMA)
    signs = draw_signs(len(differences), n_permutations, random_state)
    flips = SignFlips(differences, signs)
    observed, adjacency = flips.observed, neighbours
    if isinstance(neighbours, tuple):
        observed, flips = observed.reshape(neighbours), OnLattice(flips, neighbours)
        adjacency = None
    check_option("alternative", alternative, ALTERNATIVES)
    height = height_of_t(threshold, alternative, len(differences))
    null = FullNull(observed, flips, adjacency, alternative=alternative, height=height)
    return np.ravel(correct(null, correction)), getattr(null, MAXIMA[correction])


class OnLattice:
    """A lazy null (P, C) as one of shape (P, lattice...)."""

    def __init__(self, null, lattice):
        self._null, self._lattice = null, lattice
        self.shape, self.dtype = (len(null), *lattice), null.dtype
        self.ndim = len(self.shape)

    def __len__(self):
        """Return the number of permutations."""
        return len(self._null)

    def __getitem__(self, rows):
        """Return the maps of some permutations."""
        rows = self._null[rows]
        return rows.reshape(len(rows), *self._lattice)


def height_of_t(threshold, alternative, n_subjects):
    """Return the t at which clusters are formed."""
    return stats.t.isf(level_of_side(threshold, alternative), n_subjects - 1)


#: Up to so many subjects the signed-rank test is exact: without ties by its known
#: distribution, with ties by listing the signs. SciPy's bounds.
_EXACT, _LISTED = 50, 13

#: The rank-sum test without ties is exact if one group is not larger. SciPy's bound.
_EXACT_GROUP = 8


def parametric_p(first, second=None, statistic="t", alternative="greater"):
    """Return p-values of a test at every position, one by one.

    Parameters
    ----------
    first : array, shape (S, C)
        Differences of subjects from 0, or the values of the first group.
    second : array, shape (S2, C), or None, default=None
        The values of the second group.
    statistic : {"t", "wilcoxon"}, default="t"
        Student's t-test for one group or, with equal variances, for two; or Wilcoxon's
        signed-rank test for one group and the rank-sum test of Mann and Whitney for
        two.
    alternative : {"greater", "less", "two-sided"}, default="greater"
        Whether the differences are above 0, or the first group above the second.

    Returns
    -------
    p : array, shape (C,)
        p-values, not corrected for the number of positions; 1 where all differences
        are 0, or all values the same.

    Raises
    ------
    ValueError
        If the statistic or the alternative is not known.

    Notes
    -----
    The signed-rank test leaves zeros out. It is exact up to 50 subjects without ties
    and zeros, up to 13 with them, and else by the normal approximation. The rank-sum
    test is exact without ties if a group has at most 8 subjects, and else by the normal
    approximation with continuity correction. These are the choices of
    :func:`scipy.stats.wilcoxon` and :func:`scipy.stats.mannwhitneyu`, made for each
    position by itself. t is finite where all differences are the same, see
    :class:`SignFlips`.

    Examples
    --------
    >>> import numpy as np
    >>> parametric_p(np.array([[0.1, 0.0], [0.3, 0.0], [0.2, 0.0]])).round(4)
    array([0.0371, 1.    ])
    """
    check_option("statistic", statistic, STATISTICS)
    check_option("alternative", alternative, ALTERNATIVES)
    n, values = len(first), first
    if second is not None:
        values = np.concatenate([first, second])
    values = tidied(values)
    spread = values if second is None else values - values[0]
    varied = np.flatnonzero(spread.any(axis=0))
    p = np.ones(values.shape[1])
    if len(varied):
        test = _one_group if second is None else _two_groups
        p[varied] = test(values[:, varied], n, statistic, alternative)
    return p


def _one_group(values, n, statistic, alternative):
    flips = SignFlips(values, np.ones((1, n)), statistic)
    if statistic == "t":
        return _tail(flips.observed, stats.t(n - 1), alternative)
    p = _tail(flips.observed, stats.norm(), alternative)
    tied = _tied(np.abs(values)) | (values == 0).any(axis=0)
    if n <= _EXACT and not tied.all():
        p[~tied] = stats.wilcoxon(
            values[:, ~tied], alternative=alternative, method="exact", axis=0
        ).pvalue
    if n <= _LISTED and tied.any():
        flips = SignFlips(values[:, tied], draw_signs(n, 2**n), statistic)
        null = FullNull(flips.observed, flips, alternative=alternative, height=1.0)
        p[tied] = count_p(null.exceedances, null.n_permutations)
    return p


def _two_groups(values, n, statistic, alternative):
    if statistic == "t":
        labels = np.arange(len(values))[np.newaxis] < n
        t = LabelExchange(values, labels).observed
        return _tail(t, stats.t(len(values) - 2), alternative)
    p = np.empty(values.shape[1])
    approximate = _tied(values) | (min(n, len(values) - n) > _EXACT_GROUP)
    for method, chosen in (("exact", ~approximate), ("asymptotic", approximate)):
        if chosen.any():
            first, second = np.split(values[:, chosen], [n])
            p[chosen] = stats.mannwhitneyu(
                first, second, alternative=alternative, method=method, axis=0
            ).pvalue
    return p


def _tail(statistic, distribution, alternative):
    """Return the probability of a value that is at least as extreme."""
    if alternative == "two-sided":
        return 2 * distribution.sf(np.abs(statistic))
    return distribution.sf(-statistic if alternative == "less" else statistic)


def _tied(values):
    """Tell which columns hold a value twice."""
    return (np.diff(np.sort(values, axis=0), axis=0) == 0).any(axis=0)
