r"""True discoveries: how many positions of a set have an effect, at least.

The bound holds for all sets of positions at once, so that a set may be chosen after
looking. Rows :math:`b = 0, \dots, P` are the observed scores (row 0) and those of P
label permutations, over m positions.

At position j, :math:`r_b(j)` is the rank of row b: the number of rows that score as
high as it or higher, itself among them. :math:`r_b(j) / (P + 1)` is a p-value, that of
row 0 the uncorrected one. Ranks are used as they are, whole numbers. With the sorted
ranks :math:`r_b^{(1)} \le \dots \le r_b^{(m)}`, a row has the statistic

.. math:: x_b = \min_k \frac{r_b^{(k)}}{k}

and :math:`\lambda` is the :math:`(\lfloor \alpha (P + 1) \rfloor + 1)`-th smallest of
them, :math:`x_0` among them. Let N be the positions without an effect, at which rows
are exchangeable, and :math:`x_b^N` the same statistic over these alone. Leaving out
positions only raises sorted ranks, so that :math:`x_b^N \ge x_b` and the quantile
:math:`\lambda^N \ge \lambda`. At most :math:`\lfloor \alpha (P + 1) \rfloor` rows have
:math:`x_b^N < \lambda^N`, so that row 0 is one of them with a probability of at most
:math:`\alpha`. Otherwise :math:`x_0^N \ge \lambda`: for all k at once, fewer than k
positions of N have

.. math:: r_0(j) < t_k = \lambda k.

Of a set S at most :math:`k - 1` positions below :math:`t_k` are then in N, and of those
at or above it all may be: at most

.. math:: V(S) = \min\left(|S|, \min_k \#\{j \in S: r_0(j) \ge t_k\} + k - 1\right)

have no effect, and :math:`|S| - V(S)` have one at least, for all S at once, with a
confidence of :math:`1 - \alpha` [1]_ [2]_ [3]_. In terms of p-values the critical curve
is Simes' line :math:`\lambda' k / m`, with the calibrated level :math:`\lambda' =
\lambda m / (P + 1)` in the place of :math:`\alpha`. The inequality is strict: ranks are
discrete, and the row that gives :math:`\lambda` has ranks equal to :math:`t_k`.

No rank is below 1, hence nothing is found below :math:`k = 1 / \lambda`, and
:math:`\lambda \le (P + 1) / m`: sets of fewer than m / (P + 1) positions show nothing.
A line that begins at a shift :math:`\delta` fixed beforehand, :math:`\lambda (k -
\delta)` for :math:`k > \delta`, is steeper, but loses :math:`\delta` positions of any
set. With :math:`\delta` = m / (P + 1) it showed, in simulated rough maps, up to a third
more of the whole map and up to a seventh less of the true region; in smooth maps both
within 6 %. There is none here.

Where several tests have to reject, :math:`j` has no effect if one of their hypotheses
is true. Each of T tests is calibrated at :math:`\alpha / T`; of the positions that all
tests find at k, at most :math:`T (k - 1)` have no effect.

References
----------
.. [1] Blanchard, G., Neuvial, P., & Roquain, E. (2020). Post hoc confidence bounds on
   false positives using reference families. The Annals of Statistics, 48(3),
   1281-1303.
.. [2] Andreella, A., Hemerik, J., Finos, L., Weeda, W., & Goeman, J. (2023).
   Permutation-based true discovery proportions for functional magnetic resonance
   imaging cluster analysis. Statistics in Medicine, 42(14), 2311-2340.
.. [3] Goeman, J. J., & Solari, A. (2011). Multiple testing for exploratory research.
   Statistical Science, 26(4), 584-597.
"""

from dataclasses import dataclass

import numpy as np

from ..utils.memory import batches, check_memory, usable_memory
from .null import TIES

#: Scores that are ranked at a time, if there is no memory for more: those of all rows
#: at some of the positions. Rows that are worked out are worked out once for each part.
_PART = 2**24

#: What a quotient of ranks may differ from its true value by rounding. Quotients that
#: are not whole numbers are further away from these.
_ROUNDING = 1e-7


@dataclass(frozen=True, eq=False)
class Calibration:
    """What bounds of any set, at any level, need of a null: ranks and statistics.

    `ranks` (m,) are those of the observed scores among the P + 1 rows, 0 where the test
    does not count, and `statistics` (P + 1,) those of all rows, the observed one first.
    """

    ranks: np.ndarray
    statistics: np.ndarray

    def levels(self, alpha):
        """At which k each position is found (m,), 0 where it does not count."""
        n_rows, n_positions = len(self.statistics), len(self.ranks)
        # A product that should be whole may fall short of it by a rounding error.
        allowed = min(int(alpha * n_rows * (1 + 1e-12)), n_rows - 1)
        slope = np.partition(self.statistics, allowed)[allowed]
        # The smallest k with a rank below slope * k, which it may not equal.
        k = np.floor(self.ranks / slope + _ROUNDING) + 1
        k[self.ranks == 0] = 0
        return np.minimum(k, n_positions + 1).astype(np.int64)


def calibrate(null, counting=None):
    """The `Calibration` of a `Null`.

    Of all rows the ranks are kept, or, `counting`, how often each row has each rank;
    None: what takes less.

    Examples
    --------
    >>> import numpy as np
    >>> from mvpa_kfda.inference.null import Null
    >>> null = np.random.default_rng(0).normal(size=(99, 6))
    >>> observed = np.array([3.0, 0.1, 2.9, 3.1, 3.2, -0.3])
    >>> made = calibrate(Null(observed, null))
    >>> made.ranks
    array([ 1, 55,  1,  1,  1, 64], dtype=uint16)
    >>> n_true(made.levels(0.05)[:5])  # of the first five
    array([4])
    """
    n_rows = null.n_permutations + 1
    counted = True if null.counted is None else null.counted
    where = np.flatnonzero(np.broadcast_to(counted, null.observed.shape))
    dtype = np.dtype(np.uint16 if n_rows < 2**16 else np.uint32)
    whole, counts = dtype.itemsize * n_rows * len(where), 4 * n_rows * (n_rows + 1)
    what = f"To rank {n_rows:,} maps of {len(where):,} positions"
    check_memory(min(whole, counts), what, "fewer permutations or positions")
    counting = counts < whole if counting is None else counting
    shape = n_rows, n_rows + 1 if counting else len(where)
    kept = np.zeros(shape, np.uint32 if counting else dtype)
    observed = np.zeros(null.observed.size, dtype)
    for part, values in _by_position(null, where):
        ties = TIES[null.dtype] * np.ravel(null.size)[where[part], np.newaxis]
        for rows in batches(len(values), n_rows):
            ranks = rank(values[rows], ties[rows]).astype(dtype).T
            at = slice(part.start + rows.start, part.start + rows.stop)
            observed[where[at]] = ranks[0]
            if counting:
                kept += _count(ranks, n_rows).astype(np.uint32)
            else:
                kept[:, at] = ranks
    statistics = np.empty(n_rows)
    for rows in batches(n_rows, n_rows):
        counts = kept[rows] if counting else _count(kept[rows], n_rows)
        # Of positions with one rank the last in the order has the smallest ratio.
        k = np.cumsum(counts, axis=1, dtype=np.int64)[:, 1:]
        ratio = np.full(k.shape, np.inf)
        np.divide(np.arange(1, n_rows + 1), k, out=ratio, where=k > 0)
        statistics[rows] = ratio.min(axis=1)
    return Calibration(observed, statistics)


def rank(values, ties=0.0):
    """How many of a row's values (..., n) are as large as each, or larger.

    Values that are no more than `ties` from the next one are equal.

    Examples
    --------
    >>> rank(np.array([0.5, 0.9, 0.9, 0.7]))
    array([4, 2, 2, 3])
    """
    order = np.argsort(values, axis=-1)
    ascending = np.take_along_axis(values, order, axis=-1)
    n = values.shape[-1]
    # Where in the order the first of each run of equal ones is.
    first = np.zeros(values.shape, dtype=np.int64)
    larger = np.diff(ascending, axis=-1) > ties
    np.multiply(larger, np.arange(1, n), out=first[..., 1:])
    np.maximum.accumulate(first, axis=-1, out=first)
    ranks = np.empty_like(first)
    np.put_along_axis(ranks, order, n - first, axis=-1)
    return ranks


def n_true(levels, sets=None):
    """How many positions of sets have an effect, at least, by their levels.

    Parameters
    ----------
    levels : array of int, shape (n,) or (T, n)
        From which k on a test finds each position, 0 where that is exempt.
    sets : array of int, shape (n,), or None
        The number of the set that each position is in, from 0; None: all are in one.

    Returns
    -------
    n_true : array of int, shape (n_sets,)
        The bounds.

    Examples
    --------
    >>> n_true(np.array([1, 1, 1, 2, 9]))  # 3 at k = 1, and at k = 2 one of 4 is not
    array([3])
    """
    levels = np.atleast_2d(levels)
    n = levels.shape[1]
    sets = np.zeros(n, dtype=np.int64) if sets is None else sets
    sizes = np.bincount(sets)
    # Of a set that is exempt from a test as a whole, that test decides nothing.
    n_tests = sum(np.bincount(sets, each > 0) > 0 for each in levels)
    k = np.maximum(1, levels.max(axis=0))
    order = np.lexsort((k, sets))
    k, sets = k[order], sets[order]
    start = np.cumsum(sizes) - sizes
    found = np.arange(1, n + 1) - start[sets]
    bounds = np.zeros(len(sizes), dtype=np.int64)
    np.maximum.at(bounds, sets, found - n_tests[sets] * (k - 1))
    return bounds


# ----------------------------------------------------------------- ranks of all rows


def _by_position(null, where):
    """Yield slices of the positions `where`, and their scores (positions, P + 1)."""
    n_rows, available = null.n_permutations + 1, usable_memory() or 0
    n_values = max(_PART, available // 8 // null.dtype.itemsize)
    step = max(1, n_values // n_rows)
    dtype = null.dtype if null.alternative != "two-sided" else np.float64
    for start in range(0, len(where), step):
        part = slice(start, min(start + step, len(where)))
        chosen = where[part]
        values = np.empty((len(chosen), n_rows), dtype)
        values[:, 0] = null.values.ravel()[chosen]
        for rows, scores in null.rows():
            turned = null.turned(scores).reshape(len(scores), -1)
            values[:, rows.start + 1 : rows.stop + 1] = turned[:, chosen].T
        yield part, values


def _count(ranks, n_rows):
    """How often each row of ranks (m, positions) has each rank, (m, P + 2)."""
    keys = ranks + (n_rows + 1) * np.arange(len(ranks))[:, np.newaxis]
    counts = np.bincount(keys.ravel(), minlength=len(ranks) * (n_rows + 1))
    return counts.reshape(len(ranks), n_rows + 1)
