"""Clusters that several tests have in common, by plain loops: the oracle of p-values.

An island is a connected set of positions at which the standardised scores of all tests
exceed the height, with one sign. In every test its mass (size, enhanced score) is
compared with the largest of each permutation, and the largest p-value counts. Positions
that are exempt from a test are above its heights, and in none of its masses.
"""

from functools import partial
from itertools import pairwise, product

import numpy as np
from scipy.stats import norm


def lattice(shape):
    """Return the neighbours of each position of a lattice."""
    cells = list(product(*map(range, shape)))
    return {
        cell: [o for o in cells if sum(abs(np.subtract(cell, o))) == 1]
        for cell in cells
    }


def components(inside, near):
    """Return the connected sets of some positions, by a walk."""
    waiting, found = set(inside), []
    while waiting:
        members = [waiting.pop()]
        for one in members:  # which grows on the way
            new = [other for other in near[one] if other in waiting]
            waiting -= set(new)
            members += new
        found.append(members)
    return found


class Test:
    """One test: standardised scores, the observed ones first, and who is exempt."""

    __test__ = False

    def __init__(self, observed, null, exempt=(), standardise=True):
        rows = np.concatenate([np.asarray(observed)[np.newaxis], null]).astype(float)
        if standardise:
            spread = rows.std(axis=0)
            rows = (rows - rows.mean(axis=0)) / np.where(spread > 1e-9, spread, np.inf)
        self.rows, self.exempt = rows, set(exempt)

    def above(self, row, sign, height):
        """Return the positions above a height, and those that are exempt."""
        z = sign * self.rows[row]
        return {c for c in np.ndindex(z.shape) if z[c] > height or c in self.exempt}

    def value(self, kind, row, sign, members):
        """Return the mass or size of some positions, None where all are exempt."""
        own = [cell for cell in members if cell not in self.exempt]
        if not own:
            return None
        z = sign * self.rows[row]
        return sum(z[c] for c in own) if kind == "cluster" else float(len(own))

    def largest(self, kind, row, signs, near, height):
        """Return the largest mass or size of the clusters of a map."""
        values = [
            self.value(kind, row, sign, members)
            for sign in signs
            for members in components(self.above(row, sign, height), near)
        ]
        return max((v for v in values if v is not None), default=0.0)

    def enhanced(self, above, near, heights):
        """Return enhanced scores by what is above each of the ascending heights."""
        scores = {}
        for low, high in pairwise([0.0, *heights]):
            for members in components(above(low), near):
                own = [cell for cell in members if cell not in self.exempt]
                for cell in own:
                    more = np.sqrt(len(own)) * (high**3 - low**3) / 3
                    scores[cell] = scores.get(cell, 0.0) + more
        return scores


def signs_of(alternative):
    return {"greater": [1], "less": [-1], "two-sided": [1, -1]}[alternative]


def p_of(value, maxima):
    return (1 + sum(m >= value - 1e-6 * abs(value) for m in maxima)) / (1 + len(maxima))


def p_values(tests, kind, alternative="greater", level=0.05, near=None, height=None):
    """Return the p-values of all positions, 1 outside of islands."""
    shape, signs = tests[0].rows.shape[1:], signs_of(alternative)
    near = lattice(shape) if near is None else near
    height = norm.isf(level / len(signs)) if height is None else height
    p = np.ones(shape)
    if kind == "tfce":
        return _tfce(tests, signs, near, p)
    maxima = [
        [t.largest(kind, row, signs, near, height) for row in range(1, len(t.rows))]
        for t in tests
    ]
    for sign in signs:
        inside = _above_in_all(tests, sign, height)
        for members in components(inside, near):
            found = [
                p_of(value, largest)
                for t, largest in zip(tests, maxima, strict=True)
                if (value := t.value(kind, 0, sign, members)) is not None
            ]
            for cell in members:
                p[cell] = max(found)
    return p


def _above_in_all(tests, sign, height):
    """Return the positions above a height in the observed maps of all tests."""
    return set.intersection(*(t.above(0, sign, height) for t in tests))


def heights_of(tests, row):
    """Return all heights at which what is above them changes, on either side."""
    return np.unique([np.abs(t.rows[row]) for t in tests])


def _tfce(tests, signs, near, p):
    """Fill in the p-values of enhanced scores; each position is on one side only."""
    found = {}
    for t in tests:
        maxima = []
        for row in range(1, len(t.rows)):
            of_row = heights_of([t], row)
            scores = [t.enhanced(partial(t.above, row, s), near, of_row) for s in signs]
            maxima.append(max(max(each.values(), default=0.0) for each in scores))
        for sign in signs:
            all_above = partial(_above_in_all, tests, sign)
            for cell, score in t.enhanced(
                all_above, near, heights_of(tests, 0)
            ).items():
                found.setdefault(cell, []).append(p_of(score, maxima))
    for cell, values in found.items():
        p[cell] = max(values)
    return p
