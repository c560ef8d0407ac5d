"""How a procedure is repeated, as the arguments of a decoding function say."""

from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from typing import get_args

from sklearn.model_selection import KFold

from ..inference.permutation import BLIND, Permute, find_price
from ..kfda.folds import (
    DEFAULT_FOLDS,
    find_cut_groups,
    left_out_folds,
    make_folds,
    may_see_labels,
)
from ..kfda.kernels import KernelChoice
from ..utils.checks import check_count, check_flag, check_option
from ..utils.memory import check_many
from .averaging import average_trials, check_disjoint, count_cells, find_left_out
from .repeats import Regrouped, Reshuffled, Shown, seeded_splitters

#: Repeats that are enough for a mean score.
_ENOUGH = 100


@dataclass(frozen=True)
class Repeating:
    """The samples that trials are made into, and how the procedure is repeated.

    Parameters
    ----------
    average : int | "max" | None
        Number of trials of one class that are averaged, within test sets (and groups),
        into one pseudo-trial; pseudo-trials replace trials in the result. They are
        drawn with `random_state`; remaining trials are left out. ``"max"``: the size of
        the smallest class in any test set (and group).
    n_repeats : int
        Number of repeats, whose scores are averaged: with `average`, trials are
        regrouped at random, without it new random folds are drawn (`cv` is a number, or
        a splitter with random folds). All repeats of a permutation use the same
        permuted labels of trials. ``result.repeats`` has the score of each repeat.
    equalize : bool
        With `average`, make equal numbers of pseudo-trials of all classes in each test
        set (and group), as many as the smallest class allows; each repeat leaves out
        different trials. With ``average=1`` this is random undersampling: trials are
        left out at random until class sizes are equal.
    average_test : bool
        With `average`, test on averages; False tests models trained on averages on
        single trials.
    own_folds : bool
        Whether folds have training sets of their own.
    shows : bool
        Whether the splitter is shown permuted labels, as it was shown the observed
        ones.
    """

    average: int | str | None = None
    n_repeats: int = 1
    equalize: bool = False
    average_test: bool = True
    own_folds: bool = False
    shows: bool = False

    def splitter(self, cv, groups, n_test=None, train_on=None):
        """Return `cv`, for a number of folds that are drawn anew a splitter."""
        n_repeats = check_count("n_repeats", self.n_repeats, minimum=1)
        once = n_repeats == 1 or self.average is not None
        if once or n_test is not None or train_on is not None:
            return cv
        if cv is None and groups is None:
            cv = DEFAULT_FOLDS
        if not isinstance(cv, Integral):
            return cv
        leak = find_cut_groups(cv, groups)
        if leak:
            leak.warn()
        n_folds = check_count("cv", cv, minimum=2)
        return KFold(n_folds, shuffle=True, random_state=0)

    def showing(self, cv, folds, permute, y_test):
        """Return the same for a splitter that may look at the labels, or refuse it.

        Of repeats with other folds each is shown the permuted labels anyway.
        """
        check_option("permute", permute, get_args(Permute))
        kept = permute == "within_folds" or not may_see_labels(cv)
        if kept or folds is None or folds.sees_labels is False:
            return self
        if self.n_repeats > 1 and self.average is None:
            return self
        given = None if self.average is None else f"average={self.average!r}"
        if folds.chosen is not None:
            given = "train_on"
        if y_test is not None:
            given = "y_test, a second label for each trial"
        if given is not None:
            looks = "looks" if folds.sees_labels else "may look"
            raise ValueError(
                f"{folds.name} {looks} at the labels, so that permuted labels would "
                f"have other folds, which cannot be combined with {given}. Use a "
                f"splitter that does not look at the labels ({BLIND}), or "
                "n_permutations=0."
            )
        return replace(self, shows=True)

    def checked(self, folds, y_test, kernel):
        """Return the same for folds, None for tests on other trials; or refuse it."""
        n_repeats = check_count("n_repeats", self.n_repeats, minimum=1)
        check_many(
            n_repeats,
            _ENOUGH,
            8 * (1 if folds is None else folds.n),
            f"n_repeats={n_repeats:,} times other folds or averages",
            f"fewer repeats; with {_ENOUGH} the mean score hardly changes any more",
        )
        for name in ("equalize", "average_test"):
            check_flag(name, getattr(self, name))
        if self.average is None:
            self._check_without_average(folds)
        if self.n_repeats > 1 or self.average is not None:
            self._check_folds(folds, y_test)
        own = folds is not None and folds.trains is not None
        known = replace(self, own_folds=own)
        known.check_kernel(kernel)
        return known

    def _check_without_average(self, folds):
        """Refuse what says how trials are averaged, where none are."""
        if self.equalize or not self.average_test:
            given = "equalize=True" if self.equalize else "average_test=False"
            raise ValueError(
                f"{given} says how trials are averaged, but average is None. Pass "
                "average=k; with average=1 no trials are averaged, and equalize=True "
                "leaves out trials at random until classes are equal."
            )
        chosen = None if folds is None else folds.chosen
        if self.n_repeats > 1 and chosen is not None:
            raise ValueError(
                f"n_repeats={self.n_repeats} without average draws new folds in "
                "each repeat, and cannot be combined with train_on. Pass average=k, "
                "which regroups the trials, or leave n_repeats out."
            )

    def _check_folds(self, folds, y_test):
        """Refuse tests on other trials, or by other labels."""
        if folds is not None and y_test is None:
            return
        given, advice = f"n_repeats={self.n_repeats}", "n_repeats out"
        if self.average is not None:
            given = f"average={self.average!r}"
            advice = "average out, and average such trials before you decode them"
        what = "y_test, a second label for each trial"
        if folds is None:
            what = (
                "tests on other trials (test_epochs, X_test, in time generalization "
                "train_on without groups or cv)"
            )
        raise ValueError(
            f"{given} works within the test sets of a cross-validation, and cannot be "
            f"combined with {what}. Leave {advice}."
        )

    @property
    def two_sided(self):
        """Whether trained and tested samples differ, or models have own folds."""
        return self.average is not None and (self.own_folds or not self.average_test)

    @property
    def is_repeated(self):
        """Whether labels of trials are permuted, and the procedure runs on them."""
        return self.n_repeats > 1 or self.two_sided or self.shows

    @property
    def redraws_folds(self):
        """Whether every repeat, or every permutation, has folds of its own."""
        return self.is_repeated and self.average is None

    def kept_folds(self, folds):
        """Return the folds that all permutations share, None where there are none."""
        return None if self.redraws_folds else folds

    def check_kernel(self, kernel):
        """Refuse a choice among kernels of which no single matrix can be averaged."""
        if self.two_sided and isinstance(kernel, KernelChoice) and not kernel.is_linear:
            raise ValueError(
                f"average={self.average!r} with average_test=False or train_on cannot "
                "choose among kernels that are not linear. Use one kernel."
            )

    def scheme(self, permute, folds):
        """Return what may be exchanged, for `permute`."""
        if not self.is_repeated:
            return permute
        if self.redraws_folds:
            if permute == "within_folds":
                raise ValueError(
                    "permute='within_folds' cannot be combined with n_repeats: each "
                    "repeat has new folds. Leave permute out, or pass "
                    "'within_groups' or 'free'."
                )
            return permute
        if permute not in ("auto", "within_folds"):
            raise ValueError(
                f"permute={permute!r} cannot be combined with regrouped trials "
                "(n_repeats, average_test=False): their labels are permuted within "
                "test sets and groups, so that each permutation has the same number of "
                "averages of each class there. Leave permute out."
            )
        one_model = folds.chosen is not None and left_out_folds(folds) is None
        return "free" if one_model else "within_folds"

    def prepare(self, cv, folds, codes, groups, seed, classes, permuted):
        """Return splitters, `Cells` of averages, an `Averaging`, or None for neither.

        Of a regrouping that is `permuted`, some cells must hold several classes.
        """
        options = {"equalize": self.equalize}
        if not self.is_repeated:
            if self.average is None:
                return None
            return average_trials(
                self.average, folds, codes, groups, seed, classes, **options
            )
        if self.redraws_folds:
            return self._draws(cv, folds, groups, seed, classes)
        check_disjoint(self.average, folds)
        options["average_test"] = self.average_test
        cells = count_cells(self.average, folds, codes, groups, classes, **options)
        if permuted and (cells.counts > 0).sum(axis=1).max() < 2:
            raise ValueError(
                "Regrouped trials (n_repeats, average_test=False) have "
                "their labels permuted within test sets and groups, and none of these "
                "holds trials of two classes. Leave n_repeats and average_test out, or "
                "use n_permutations=0. Where rows are sorted by class, "
                "cv=KFold(5, shuffle=True, random_state=0) mixes them."
            )
        left_out = find_left_out(cells, folds, groups, classes)
        if left_out:
            left_out.warn()
        return cells

    def _draws(self, cv, folds, groups, seed, classes):
        """Return what draws the folds of each repeat for some labels."""
        if self.n_repeats > 1:
            splitters = seeded_splitters(cv, folds, groups, self.n_repeats, seed)
            options = {"groups": groups, "classes": classes}
            return tuple(partial(make_folds, each, **options) for each in splitters)
        return (Shown(cv, folds, groups, classes),)

    def plan(self, prepared, folds, labels, groups, seed, classes):
        """Return what repeats the procedure, for label vectors (P + 1, n) of trials."""
        if self.shows:
            (each,) = prepared
            shown = Reshuffled((each.shown(labels),), labels, groups)
            if shown.sees_labels:
                find_price(folds).warn()
            return shown
        if self.redraws_folds:
            return Reshuffled(prepared, labels, groups)
        cells = prepared
        return Regrouped(
            self.n_repeats, cells, labels, seed, folds, groups, self.average_test
        )

    def record(self, made):
        """Return what a result records of it, and of the averages that were `made`."""
        return {
            "average": getattr(made, "k", None),  # a number where it is "max"
            "n_repeats": self.n_repeats,
            "equalize": self.equalize,
            "average_test": self.average_test,
            "folds_by_labels": getattr(made, "sees_labels", False),
        }


#: Nothing is averaged or repeated.
ONCE = Repeating()
