"""The result of a group against the results of its subjects, number by number."""

from functools import cached_property

import numpy as np
import pandas as pd

from ..utils.plain import recorded
from .anew import BY_LABELS, Anew
from .corrections import uncorrected
from .differences import most_permutations
from .members import find_members, read_member
from .reading import NotCovered, of_the_file
from .second_level import NEAR, p_uncorrected
from .verdict import Verification

#: So many numbers, permutations times positions, are drawn anew without being asked.
WHOLE = 2**23
#: How nearly numbers must agree, in double and in single precision.
_TOLERANCE, _TOLERANCE_OF_SINGLE = 1e-6, 1e-5
#: What a result says again that its options say, in fields and in parameters.
_FIELDS = ("method", "alternative", "alpha", "paired", "metric", "correction")
_PARAMETERS = ("n_permutations", "threshold", "random_state", "order", "hypothesis")


def verify_group(group, subjects, other, n_cells, rng):
    """Return the `Verification` of a group's result with those of its subjects."""
    if not group.inputs or not group.options:
        raise NotCovered("it does not say of which results it was made")
    _, results, differences = find_members(group, subjects, other)
    with of_the_file():
        differences += _differences_of_options(group)
        differences += _differences_of_places(group, results)
        if differences:
            return Verification(differences=tuple(differences))
        members = [read_member(result, group, group.places) for result in results]
        options = recorded(group.options)
        asked = min(options["n_permutations"], most_permutations(group))
        options["n_permutations"] = asked
        against_permuted = group.permuted_means is not None
        anew = Anew(
            options, group.places, members, len(group.subjects), against_permuted
        )
        checked = _Whole if n_cells is None else _Checked
        if anew.n_permutations * anew.scores.shape[1] <= WHOLE:
            checked = _Whole
        return checked(group, anew, results).verification(n_cells, rng)


def _differences_of_options(group):
    """Return where a result says something else than its options."""
    said = {name: getattr(group, name) for name in _FIELDS}
    said["correction"] = list(said["correction"])
    said |= {k: group.parameters[k] for k in _PARAMETERS if k in group.parameters}
    return [
        f"{name} is {value!r}, and {group.options[name]!r} in the options"
        for name, value in said.items()
        if value != group.options[name]
    ]


def _names(group):
    """Return the names of the subjects of one list or of both."""
    others = [] if group.other_subjects is None else group.other_subjects
    return [*group.subjects, *others]


def _differences_of_places(group, results):
    """Return whose positions are others than those of the group."""
    names = _names(group)
    found = []
    for name, result in zip(names, results, strict=False):
        differ = result.places.difference(group.places, within_sample=True)
        may = group.options["resample"] and result is not results[0]
        if differ and not (may and result.places.in_voxels):
            found.append(
                f"the positions of {name} are others than in the file: {differ}"
            )
    pairs = [each.places.pairs for each in (group, *results[:1])]
    if len(pairs) > 1 and not np.array_equal(*pairs):
        found.append(f"neighbours are others than those of {names[0]}")
    return found


class _Checked:
    """A result of which some positions and permutations are worked out again."""

    def __init__(self, group, anew, results):
        self.group, self.anew, self.results = group, anew, results
        self.unverified = []

    def verification(self, n_cells, rng):
        """Return what is found."""
        differences = list(self._differences_of_size())
        if differences:
            return Verification(differences=tuple(differences))
        self.draw(n_cells, rng)
        cells = pd.DataFrame([*self._observed_rows(), *self._permuted_rows()])
        differences = [
            f"{name} is {stored:.6g}{where}, and {again:.6g} when recomputed"
            for name, stored, again, where in self._different()
        ]
        return Verification(
            cells,
            tuple(differences),
            tuple(self.unverified),
            self.notes(),
            tuple(each for each in self.samples() if each[-1]),
        )

    def notes(self):
        """Return what to know of the check."""
        return ()

    def samples(self):
        """Return how many positions and permutations are looked at, of how many."""
        looked_at = self.drawn, self.permutations
        for noun, drawn, n in zip(
            ("position", "permutation"), looked_at, self._sizes, strict=True
        ):
            yield noun, len(drawn), n

    @property
    def _sizes(self):
        """How many positions and permutations there are."""
        return self.anew.scores.shape[1], self.anew.n_permutations

    def draw(self, n_cells, rng):
        """Draw positions that are looked at, and permutations."""
        n_positions, n = self._sizes
        if n_cells is None:
            self.drawn, self.permutations = np.arange(n_positions), np.arange(n)
        else:
            n_permuted = min(n_cells // 2, n)
            size = min(n_cells - n_permuted, n_positions)
            self.drawn = np.sort(rng.choice(n_positions, size, replace=False))
            self.permutations = np.sort(rng.choice(n, n_permuted, replace=False))
        self.at = self.drawn

    # ------------------------------------------------------------------- what is stored

    def _stored(self, values):
        """Return a map, or several, at the positions that count (..., C)."""
        shape = self.group.shape
        flat = np.reshape(
            values, (*np.shape(values)[: np.ndim(values) - len(shape)], -1)
        )
        return flat[..., self.anew.counted]

    def _differences_of_size(self):
        """Compare how much there is."""
        group, anew = self.group, self.anew
        n = anew.n_permutations
        for said in {group.n_permutations, len(group.null_max)} - {n}:
            yield f"the file has {said} second-level permutations, and should have {n}"
        missing = sorted(anew.corrections - set(group.p_maps))
        if missing:
            yield f"the file has no p-values by {', '.join(missing)}"
        if not np.array_equal(np.ravel(group.counted), anew.counted):
            yield "the file has p-values elsewhere than the subjects have scores"

    # ------------------------------------------------------------------------ the cells

    def _observed_rows(self):
        """Yield a row for each drawn position."""
        name = next(
            x for x in (*self.group.correction, "none") if x in self.group.p_maps
        )
        p, again = self._stored(self.group.p_maps[name]), self._p.get(name, {})
        for i in self.drawn:
            scores = self._stored(self.group.statistic)[i], self.anew.statistic[i]
            row = self._row(self._position(i), 0, *scores)
            if i in again:
                row |= {"p": p[i], "p_refitted": again[i]}
                row["ok"] &= self._agree(p[i], again[i])
            yield row

    def _permuted_rows(self):
        """Yield a row for the largest number of each drawn permutation."""
        largest = self._largest(self.permutations)
        for b, again in zip(self.permutations, largest, strict=True):
            yield self._row("largest", int(b) + 1, self.group.null_max[b], again)

    def _row(self, position, permutation, stored, again):
        """Return a row without p-values."""
        return {
            "position": position,
            "permutation": permutation,
            "score": float(stored),
            "score_refitted": float(again),
            "p": np.nan,
            "p_refitted": np.nan,
            "ok": bool(self._agree(stored, again)),
        }

    def _position(self, i):
        """Return the indices of a position that counts, a number if there is one."""
        flat = np.flatnonzero(self.anew.counted)[i]
        where = tuple(int(k) for k in np.unravel_index(flat, self.group.shape))
        return where[0] if len(where) == 1 else where

    def _agree(self, stored, again):
        """Tell where numbers are the same but for rounding."""
        single = self.anew.near > NEAR
        tolerance = _TOLERANCE_OF_SINGLE if single else _TOLERANCE
        near = {"rtol": tolerance, "atol": 1e-12, "equal_nan": True}
        return np.isclose(stored, again, **near)

    # ------------------------------------------------------- what is worked out again

    def _largest(self, numbers):
        """Return the most extreme statistics of some permutations."""
        if not len(numbers):
            return np.empty(0)
        if self.anew.is_centred:
            self.unverified.append(
                "the centre of a two-sided test needs all maps (n_cells=None has them)"
            )
            return self.group.null_max[numbers]
        nulls = self.anew.nulls_of(numbers)
        return np.max([null.largest for null in nulls], axis=0)

    @cached_property
    def _p(self):
        """The p-values of each correction by position, as far as they are at hand."""
        anew, group = self.anew, self.group
        found, left_out = {}, []
        for name in group.p_maps:
            if name == "none" and anew.is_by_position:
                found[name] = {i: anew.p_of_position(i) for i in self.at}
            elif name == "none":
                numbers = np.arange(anew.n_permutations)
                p = uncorrected(anew.nulls_of(numbers, self.at))
                found[name] = dict(zip(self.at, p, strict=True))
            elif name == "max" and len(anew.tests) == 1 and not anew.is_centred:
                found[name] = self._p_by_maximum()
            else:
                left_out.append(name)
        if left_out:
            self.unverified.append(
                f"p-values by {', '.join(left_out)} need all maps of all permutations "
                "(n_cells=None has them)"
            )
        return found

    def _p_by_maximum(self):
        """Return p-values by the largest numbers in the file; some are checked."""
        anew, largest = self.anew, self.group.null_max
        values = anew.nulls_of(np.arange(1))[0]
        values = values.sided(values.observed)[self.at]
        size = np.maximum(np.abs(values), np.abs(largest).max())
        of_all = np.tile(largest[:, np.newaxis], len(values))
        p = dict(
            zip(self.at, p_uncorrected(values, of_all, anew.near, size), strict=True)
        )
        if anew.options["method"] == "prevalence":
            p = {i: max(each, anew.p_of_position(i)) for i, each in p.items()}
        return p

    # ------------------------------------------------------------- all that is compared

    def _different(self):
        """Yield what differs first of each kind: name, stored, again, and where."""
        for name, stored, again, at in self._compared():
            stored, again = np.broadcast_arrays(stored, again)
            wrong = np.flatnonzero(~self._agree(stored, again).ravel())
            if len(wrong):
                where = "" if at is None else f" at {self._word(at[wrong[0]])}"
                yield name, stored.ravel()[wrong[0]], again.ravel()[wrong[0]], where

    def _word(self, i):
        """Word a position that counts."""
        return f"position {self._position(i)}".replace("(", "").replace(")", "")

    def _compared(self):
        """Yield the name, what is stored and what is found again, and the positions."""
        yield from self._compared_scores()
        group, at = self.group, self.at
        for name, p in self._p.items():
            stored = self._stored(group.p_maps[name])[list(p)]
            yield f"p ({name})", stored, np.array([*p.values()]), list(p)
        if self.anew.options["method"] in BY_LABELS:
            yield from self._compared_subjects(at)

    def _compared_scores(self):
        """Compare scores, and what is made of them alone."""
        group, anew, n = self.group, self.anew, self.anew.n_first
        everywhere = np.arange(anew.scores.shape[1])
        names = _names(group)
        stored = [self._stored(group.subject_scores)]
        if not anew.has_one_list:
            stored.append(self._stored(group.other_scores))
        for who, one, two in zip(
            names, np.concatenate(stored), anew.scores, strict=True
        ):
            yield f"the score of {who}", one, two, everywhere
        lists = [anew.members[:n], anew.members[n:]]
        for stored, members in zip(
            group.parameters.get("permuted_mean", ()), lists, strict=False
        ):
            again = np.mean([each.mean for each in members])
            if np.isfinite(stored):
                yield "the mean of permuted labels", stored, again, None
        if anew.against_permuted:
            stored = self._stored(group.permuted_means)
            for who, one, two in zip(names, stored, anew.permuted_means, strict=True):
                yield f"the mean of permuted labels of {who}", one, two, everywhere
        yield "statistic", self._stored(group.statistic), anew.statistic, everywhere
        yield "score_chance", group.score_chance, anew.members[0].chance, None
        chance = anew.members[0].chance if anew.has_one_list else 0.0
        yield "chance", group.chance, chance, None
        n_tests = 1
        if anew.options["method"] in BY_LABELS:
            told, n_tests = group.parameters["first_level_permutations"], anew.n_tests
            again = [len(each.nulls[0]) for each in anew.members]
            yield "first_level_permutations", told, again, None
        yield "n_tests", group.parameters["n_tests"], n_tests, None
        for kind, stored in group.mean_matrices.items():
            with np.errstate(invalid="ignore"):
                each = [member.matrices[kind] for member in anew.members[:n]]
                again = np.nanmean(each, axis=0)[anew.counted].T
            for stored_pair, pair in zip(
                np.moveaxis(stored, -1, 0), again, strict=True
            ):
                yield f"mean {kind}", self._stored(stored_pair), pair, everywhere
        if group.p_of_minimum is not None:
            stored = self._stored(group.p_of_minimum)
            for who, one, two in zip(names, stored, anew.p_of_minimum, strict=True):
                yield f"the p of {who} for the statistic", one, two, everywhere

    def _compared_subjects(self, at):
        """Compare what subjects' own permutations say of them."""
        group = self.group
        p, sizes, p_anywhere, sizes_anywhere = self.anew.own(at)
        for which, stored, again in (
            ("p", group.subject_p, p),
            ("size of the test", group.subject_sizes, sizes),
        ):
            for k, who in enumerate(group.subjects):
                yield f"the {which} of {who}", self._stored(stored)[k, at], again[k], at
        anywhere = group.parameters["anywhere"]
        yield "p of a subject anywhere", anywhere["p"], p_anywhere, None
        yield "size of its test anywhere", anywhere["size"], sizes_anywhere, None


class _Whole(_Checked):
    """A result of which everything is worked out again."""

    def draw(self, n_cells, rng):
        """Draw what the table shows; all positions are looked at."""
        super().draw(n_cells, rng)
        self.at = np.arange(self.anew.scores.shape[1])

    def notes(self):
        """Return what to know of the check."""
        n_shown, n = len(self.drawn) + len(self.permutations), sum(self._sizes)
        return ("The table shows a random sample.",) if n_shown < n else ()

    def samples(self):
        """Return the same, as all are looked at."""
        for noun, n in zip(("position", "permutation"), self._sizes, strict=True):
            yield noun, n, n

    def _largest(self, numbers):
        """Return the most extreme statistics of some permutations."""
        return self.anew.largest[numbers] if len(numbers) else np.empty(0)

    @cached_property
    def _p(self):
        """The p-values of all corrections by position."""
        maps = {name: self.anew.p_values(name) for name in self.group.p_maps}
        return {name: dict(enumerate(p)) for name, p in maps.items()}

    def _compared(self):
        """Yield the name, what is stored and what is found again, and the positions."""
        yield from super()._compared()
        group, anew = self.group, self.anew
        if not anew.is_drawn:
            yield "observed_max", group.observed_max, np.nan, None
            height = np.nan if anew.options["method"] in BY_LABELS else anew.height
            yield "cluster_height", group.cluster_height, height, None
            if group.cluster_scores is not None:
                stored = self._stored(group.cluster_scores)
                yield "cluster_scores", stored, anew.statistic, self.at
            return
        yield "the largest of a permutation", group.null_max, anew.largest, None
        most = np.max([null.sided(null.observed).max() for null in anew.whole_nulls])
        yield "observed_max", group.observed_max, most, None
        if group.cluster_scores is not None:
            stored = self._stored(group.cluster_scores)
            yield "cluster_scores", stored, anew.cluster_scores, self.at
        yield "cluster_height", group.cluster_height, anew.whole_nulls[0].cut, None
        if len(group.ranks):
            ranks, statistics = anew.ranks()
            for stored, again in zip(self._stored(group.ranks), ranks, strict=True):
                yield "the rank", stored, again, self.at
            yield "a statistic of ranks", group.rank_statistics, statistics, None
