"""What a file keeps of nulls that are too large for it, looked at by refitting.

Of every permutation it has the largest score of all positions, and of every position
how many permutations score as high as the observed labels. Either takes many refits, so
that one permutation and one position are drawn, if the map or the draw is small.
"""

from dataclasses import dataclass, field

import numpy as np

#: Permutations, or positions, up to which all of them are refitted.
_MOST = 500


@dataclass
class Kept:
    """The summaries of the nulls of a result, and what they are compared with."""

    claims: object
    #: (position, permutation) -> what is refitted there.
    cell: object
    #: What has been refitted: (score, by how much ties may change it).
    known: dict = field(default_factory=dict)
    #: How many permutations and positions were looked at, of how many.
    samples: tuple = ()

    def rows(self, n_cells, rng):
        """Return what is said of some permutations and positions, and what is true."""
        if not self.claims.summaries:
            return []
        positions = [tuple(i.tolist()) for i in np.argwhere(self.claims.is_decoded)]
        permutations = list(range(1, len(self.claims.labels)))
        if n_cells is None:
            some, places = permutations, positions
        else:
            some = [_drawn(permutations, rng)] if len(positions) <= _MOST else []
            places = [_drawn(positions, rng)] if len(permutations) <= _MOST else []
        self._say_what_is_left_out(some, places)
        self.samples = (
            ("largest score of a permutation", len(some), len(permutations)),
            ("p-value of a position", len(places), len(positions)),
        )
        return [
            *(self._row_of_maximum(b, positions) for b in some),
            *(self._row_of_counts(each, positions, permutations) for each in places),
        ]

    def _say_what_is_left_out(self, some, places):
        """Say which numbers in the file were not looked at."""
        left_out, null = [], self.claims.result.parameters["null"]
        if not some:
            left_out.append("the largest score of each permutation")
        if not places:
            left_out.append("the p-values of single positions")
        if left_out:
            self.claims.unverified.append(
                f"{' and '.join(left_out)} would take too many refits (null={null!r}); "
                "n_cells=None refits them all"
            )
        if any("cluster_maximum" in each for _, _, each in self.claims.summaries):
            self.claims.unverified.append(
                "the largest clusters and enhanced scores of the permutations are made "
                f"of all scores under all of them, which null={null!r} does not keep"
            )

    def _scores(self, name, second, position, permutations):
        """Return refitted scores under permutations (P,), and what ties may change."""
        for b in permutations:
            if (name, second, position, b) not in self.known:
                cell = self.cell(position, b)
                folds = range(len(self.claims.folds))
                for each, of_second, _ in self.claims.summaries:
                    models = cell.second_models if of_second else cell.models
                    how = each, folds, models, of_second
                    found = cell.score(*how), cell.slack(*how)
                    self.known[each, of_second, position, b] = found
        found = [self.known[name, second, position, b] for b in permutations]
        return np.array(found, float).T

    def _row_of_maximum(self, b, positions):
        """Compare the largest score of one permutation over all positions."""
        fine, compared = True, []
        for name, second, summary in self.claims.summaries:
            each = [self._scores(name, second, i, [b])[:, 0] for i in positions]
            scores, slack = np.array(each).T
            stored, again = float(summary["maximum"][b - 1]), scores.max()
            # Where ties are undecided, another position may have the largest one.
            most = np.clip(stored, (scores - slack).max(), (scores + slack).max())
            fine &= self.claims.agrees(stored, most, single=True)
            compared.append((stored, again))
        return _row("all", b, *compared[0], fine)

    def _row_of_counts(self, position, positions, permutations):
        """Compare how many permutations score as high as the observed labels."""
        fine, compared, n = True, [], len(permutations)
        for name, second, summary in self.claims.summaries:
            scores, slack = self._scores(name, second, position, permutations)
            observed = self.claims.observed(name, second)[position]
            near = slack + self.claims.tolerance(single=True) * max(1, abs(observed))
            stored = _at(summary["exceedances"], position, positions)
            fewest, most = (
                np.sum(scores + sign * near >= observed) for sign in (-1, 1)
            )
            fine &= bool(fewest <= stored <= most)
            compared.append(
                [(1 + k) / (1 + n) for k in (stored, np.sum(scores >= observed - near))]
            )
            slack, all_scores = slack.mean(), np.append(scores, observed)
            for kind, values in (
                ("moments", all_scores),
                ("permuted_moments", scores),
            ):
                if summary.get(kind) is None:
                    continue
                for said, again in zip(
                    summary[kind], (values.mean(), values.std()), strict=True
                ):
                    said = _at(said, position, positions)
                    fine &= self.claims.agrees(said, again, slack, single=True)
        where = position if len(position) != 1 else position[0]
        return _row(where, "all", *compared[0], fine)


def _drawn(values, rng):
    """Return one of some values."""
    return values[rng.integers(len(values))]


def _at(values, position, positions):
    """Return the value of a position, of a map or of the positions that have scores."""
    values = np.asarray(values)
    if values.ndim == len(position) and values.size != len(positions):
        return values[position]
    return values.ravel()[positions.index(position)]


def _row(position, b, stored, again, fine):
    """Return a row of the table of cells."""
    return {
        **{"position": position, "fold": "all", "permutation": b},
        **{"n_trials": 0, "n_differ": 0, "n_ties": 0},
        **{"score": stored, "score_refitted": again, "ok": bool(fine)},
    }
