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
of the groups' degrees of freedom, :math:`n_g - 1` each, :math:`\bar h` is
:math:`\mathrm{tr}\, B / f`, and in the place of the variance is the mean square of the
elements of B that two groups share.

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
#: The variance of shares, relative to their squared mean, below which they are equal.
_EQUAL = 1e-20
#: Trials, and groups of several of them, of which two can be left out.
_FEWEST_TRIALS, _FEWEST_GROUPS = 4, 3


@dataclass(frozen=True)
class Unseen:
    """What is known, for every lambda of a grid, of trials that are not seen."""

    #: Lambda and the trace of A, (L,), and the number n of trials.
    lambdas: np.ndarray
    trace: np.ndarray
    n: int
    #: Of trials, perhaps of groups: the mean share that is explained, the mean square
    #: of what two share, and the mean of x'A^2x of trials that are seen, (L,) each.
    views: tuple

    @classmethod
    def of(cls, moments, groups=None):
        """Return those of the moments of n trials, in groups (n,)."""
        m, parts = moments.n - 1, _groups_of_several(groups)
        if parts:
            values, scores = moments.axes
        else:
            values, scores = moments.eigenvalues, None
        w = np.zeros(max(m, len(values)))
        w[: len(values)] = np.maximum(values[::-1], 0)
        is_null = w <= moments.noise
        lambdas = _grid(w[~is_null], moments.n_features is not None)
        shrunk = 1 / (w + lambdas[:, None])  # (L, r)
        left = lambdas[:, None] * shrunk[:, :m]  # what is not explained of directions
        explained, energy = 1 - left.mean(axis=1), (w * shrunk**2).sum(axis=1) / m
        varied = np.square(left - left.mean(axis=1, keepdims=True)).mean(axis=1)
        varied = np.maximum(varied, _EQUAL * explained**2)
        views = [(explained, varied / max(m - 1, 1), energy)]
        if parts:
            views.append(_of_groups(scores, parts, shrunk[:, : len(values)][:, ::-1]))
        trace = shrunk[:, ~is_null].sum(axis=1)
        if (~is_null).sum() >= m:  # for want of trials there are directions not seen
            trace += max((moments.n_features or 0) - m, 0) / lambdas
        return cls(lambdas, trace, moments.n, tuple(views))

    def like_noise(self):
        """Return the best lambda for effects that lie where noise lies."""
        return self._best(
            products / (explained * (1 - explained)) ** 2
            for explained, products, _ in self.views
        )

    def anywhere(self):
        """Return the best lambda for effects in any direction."""
        needed = []
        for explained, products, energy in self.views:
            left = 1 - explained
            move, noise = self.trace + energy / left, energy / left**2
            error = products / left**4 / self.n
            root = np.sqrt(noise**2 + 4 * move**2 * error)
            needed.append((noise + root) / move**2)  # t of t^2 move^2 = t noise + error
        return self._best(needed)

    def _best(self, needed):
        """Return the lambda with the smallest geometric mean of what is needed.

        The vertex of a parabola through the smallest value and those beside it.
        """
        if self.n < _FEWEST_TRIALS:
            return float(self.lambdas[0])
        y = sum(np.log(np.maximum(each, np.finfo(float).tiny)) for each in needed)
        i, log_lambdas = int(y.argmin()), np.log(self.lambdas)
        if i in (0, len(y) - 1):
            return float(self.lambdas[i])
        before, after = y[i - 1] - y[i], y[i + 1] - y[i]
        shift = (before - after) / (2 * (before + after)) if before + after > 0 else 0.0
        step = log_lambdas[1] - log_lambdas[0]
        return float(np.exp(log_lambdas[i] + shift * step))


def _grid(w, is_linear):
    """Return the lambdas (L,) to try for eigenvalues w, the largest first."""
    least = w[:2][-1] * (_LEAST if is_linear else _LEAST_OF_OTHERS)
    decades = np.log10(_MOST * w[0] / least)
    steps = np.arange(np.ceil(_PER_DECADE * decades) + 1) / _PER_DECADE
    return _MOST * w[0] * 10.0**-steps


def _groups_of_several(groups):
    """Return the rows of each group of several trials; none of too few groups."""
    if groups is None:
        return []
    names, numbers = np.unique(groups, return_inverse=True)
    parts = [np.flatnonzero(numbers == i) for i in range(len(names))]
    parts = [rows for rows in parts if len(rows) > 1]
    return parts if len(parts) >= _FEWEST_GROUPS else []


def _of_groups(scores, parts, shrunk):
    """Return a view of groups: of scores F (n, r), with F diag(shrunk) F' the hat."""
    within = [scores[rows] - scores[rows].mean(axis=0) for rows in parts]
    inner = [each.T @ each for each in within]
    freedom = np.array([len(rows) - 1 for rows in parts])
    f, total = freedom.sum(), sum(inner)
    between = total**2 - sum(each**2 for each in inner)
    products = np.einsum("lr,lr->l", shrunk @ between, shrunk)
    products = np.maximum(products, 0) / (f**2 - (freedom**2).sum())
    size = total.diagonal() / f
    return shrunk @ size, products, shrunk**2 @ size
