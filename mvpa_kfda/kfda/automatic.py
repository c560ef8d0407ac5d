r"""Penalties that look at no label: `reg="auto"`, and what `"tuned"` chooses from.

A discriminant projects trials on :math:`A d`, with d half the difference of two class
means, :math:`A = (S + \lambda I)^{-1}` and the scatter matrix S of the trials. How well
that separates new trials depends on d, which labels would tell. Without them, ask how
large an effect has to be, on average over directions, before the mean of new trials of
a class is one standard deviation of the noise away from the middle. With C the
covariance of new trials:

* Of an effect like noise, :math:`d \sim N(0, t C)`, :math:`t\, \mathrm{tr}\, AC` is the
  move, and :math:`\mathrm{tr}\, ACAC` is proportional to the variance, so that t is
  proportional to :math:`\mathrm{tr}\, ACAC / (\mathrm{tr}\, AC)^2`.
* Of an effect anywhere, :math:`d \sim N(0, t I)`, :math:`t\, \mathrm{tr}\, A` is the
  move, and :math:`t\, x^\top A^2 x + \mathrm{tr}\, ACAC / n` the variance, x being a
  new trial; the second term is due to the error of the estimate of d.

The best lambda has the smallest t. New are trials that A has not seen: one for
:math:`\mathrm{tr}\, AC = x^\top A x`, two for :math:`\mathrm{tr}\, ACAC = (x^\top A
z)^2`. As in generalized cross-validation [1]_, the residuals that trials leave are
taken as equal. With :math:`h_j = w_j / (w_j + \lambda)` the shares that are explained
of the m = n - 1 directions of n centred trials, :math:`w_j` the eigenvalues of their
kernel matrix, zeros among them, and :math:`\bar h` their mean,

.. math::

    \mathrm{tr}\, AC = \frac{\bar h}{1 - \bar h}, \qquad
    \mathrm{tr}\, ACAC = \frac{\mathrm{var}\, h}{(m - 1)(1 - \bar h)^4}, \qquad
    \text{like noise:}\quad
    t \propto \frac{\mathrm{var}\, h}{\bar h^2 (1 - \bar h)^2} .

Trials of a group, such as a run, may depend on each other. With three or more groups of
several trials, the logarithm of t is averaged with that of unseen groups: with B the
hat matrix of all trials less the means of the groups' rows and columns, and f the sum
of the groups' degrees of freedom, :math:`f_g = n_g - 1` each, :math:`\bar h` is
:math:`\mathrm{tr}\, B / f`, and in the place of the variance is the mean square of the
elements of B that two groups share, plus, as for single trials, that of what its
diagonal differs from :math:`\bar h f_g / n_g`: a far trial shares nothing with others.

No label has a part in it, and A is the same whatever the labels are: one matrix serves
all folds and all permutations. The eigenvalues are all that it takes, and with groups
the eigenvectors.

References
----------
.. [1] Golub, Heath & Wahba (1979). Generalized cross-validation as a method for
   choosing a good ridge parameter. Technometrics 21(2), 215-223.
"""

from dataclasses import dataclass

import numpy as np

#: Lambdas to try: from this many times the largest eigenvalue down to a share of the
#: second, for one trial that is far away has the largest alone. So many in a decade.
_MOST, _PER_DECADE = 10.0, 4
#: That share for linear kernels, and for others: their many small eigenvalues are
#: details of the kernel, and no effects that are as large as noise.
_LEAST, _LEAST_OF_OTHERS = 1e-6, 1e-2
#: How far below zero, as a share of the largest, eigenvalues may be by rounding.
_NEGATIVE = 1e-7
_INDEFINITE = (
    "The kernel is not positive semi-definite: its centred matrix has eigenvalues from "
    "{:.3g} to {:.3g}. Use similarities, which are largest between a trial and "
    "itself, not distances; or a fixed penalty, such as reg=0.3."
)
#: What effects like noise need at least: less is rounding, of what is all alike.
_ALIKE = 1e-14
#: What a smaller lambda has to win per decade, in the logarithm of what is needed: of
#: lambdas that are as good the largest leaves most digits.
_WORTH = 1e-3
#: Trials, and groups of several of them, of which two can be left out.
_FEWEST_TRIALS, _FEWEST_GROUPS = 4, 3


@dataclass(frozen=True)
class Unseen:
    """What is known, for every lambda of a grid, of trials that are not seen."""

    #: Lambda and the trace of A, (L,), and the number n of trials.
    lambdas: np.ndarray
    trace: np.ndarray
    n: int
    #: Of trials, perhaps of groups: the mean shares that are explained and that are
    #: not, the mean of x'A^2x of seen trials, and the mean square of what two share.
    views: tuple

    @classmethod
    def of(cls, moments, groups=None):
        """Those of the moments of n trials, in groups (n,)."""
        m, parts = moments.n - 1, _groups_of_several(groups)
        values, scores = moments.axes if parts else (moments.eigenvalues, None)
        if values[0] < -_NEGATIVE * values[-1]:
            raise ValueError(_INDEFINITE.format(values[0], values[-1]))
        w = np.zeros(max(m, len(values)))
        w[: len(values)] = values[::-1]
        w[w <= moments.rounding * w[0]] = 0
        r, w = min(np.count_nonzero(w), m), w[:m]
        least = _LEAST_OF_OTHERS if moments.n_features is None else _LEAST
        decades = np.log10(_MOST * w[0] / (least * w[:r][:2][-1]))
        steps = np.arange(np.ceil(_PER_DECADE * decades) + 1) / _PER_DECADE
        lambdas = _MOST * w[0] * 10.0**-steps
        shrunk = 1 / (w + lambdas[:, None])  # (L, m)
        explained, left = w * shrunk, lambdas[:, None] * shrunk
        energy, products = explained * shrunk, left.var(axis=1) / max(m - 1, 1)
        seen = explained, left, energy
        views = [(*(each.mean(axis=1) for each in seen), products)]
        if parts:
            units = scores[:, ::-1][:, :r] / np.sqrt(w[:r])
            views += _of_groups(units, parts, *(each[:, :r] for each in seen))
        trace = shrunk[:, :r].sum(axis=1)
        if r == m:  # for want of trials there are directions not seen
            trace += max((moments.n_features or 0) - m, 0) / lambdas
        return cls(lambdas, trace, moments.n, tuple(views))

    def like_noise(self):
        """The best lambda for effects that lie where noise lies."""
        return self._best(
            np.maximum(products / (explained * left) ** 2, _ALIKE)
            for explained, left, _, products in self.views
        )

    def anywhere(self):
        """The best lambda for effects in any direction."""
        needed = []
        for _, left, energy, products in self.views:
            move, noise = self.trace + energy / left, energy / left**2
            error = products / left**4 / self.n
            root = np.sqrt(noise**2 + 4 * move**2 * error)
            needed.append((noise + root) / move**2)  # t of t^2 move^2 = t noise + error
        return self._best(needed)

    def _best(self, needed):
        """The lambda with the smallest geometric mean of what is needed.

        The vertex of a parabola through the smallest value and those beside it.
        """
        if self.n < _FEWEST_TRIALS:
            return float(self.lambdas[0])
        decades = np.arange(len(self.lambdas)) / _PER_DECADE
        y = sum(map(np.log, needed)) + _WORTH * decades
        i = int(y.argmin())
        if i in (0, len(y) - 1):
            return float(self.lambdas[i])
        before, after = y[i - 1] - y[i], y[i + 1] - y[i]
        steps = (before - after) / (2 * (before + after))
        return float(self.lambdas[i] * (self.lambdas[1] / self.lambdas[0]) ** steps)


def _groups_of_several(groups):
    """The rows of each group of several trials; none of too few groups."""
    if groups is None:
        return []
    names, numbers = np.unique(groups, return_inverse=True)
    parts = [np.flatnonzero(numbers == i) for i in range(len(names))]
    parts = [rows for rows in parts if len(rows) > 1]
    return parts if len(parts) >= _FEWEST_GROUPS else []


def _of_groups(units, parts, explained, left, energy):
    """The view of groups, if any, by unit scores U (n, r) of some directions.

    The hat U diag(explained) U' has the same elements between groups, but for their
    sign, as U diag(left) U' where U U' has none there, which costs no digits.
    """
    within = [units[rows] - units[rows].mean(axis=0) for rows in parts]
    inner = [each.T @ each for each in within]
    freedom = np.array([len(rows) - 1 for rows in parts])
    f, total = freedom.sum(), sum(inner)
    size = total.diagonal() / f
    if size.sum() < _ALIKE:  # trials of a group are the same
        return []
    between = total**2 - sum(each**2 for each in inner)
    shares = left if units.shape[1] == len(units) - 1 else explained
    products = np.maximum(np.einsum("lr,lr->l", shares @ between, shares), 0)
    # A far trial shares nothing with other groups, but is explained as no other one is.
    mean, own = explained @ size, explained @ np.concatenate(within).T ** 2
    expected = np.concatenate([np.full(k + 1, k / (k + 1)) for k in freedom])
    products += np.square(own - np.outer(mean, expected)).sum(axis=1)
    products /= f**2 - (freedom**2).sum()
    return [(mean, left @ size + 1 - size.sum(), energy @ size, products)]
