"""What is asked of a group inference: the arguments, checked, and the two lists.

What a method takes is in its `GroupMethod`; the methods are in `second_level.METHODS`.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real

from scipy import stats

from ..inference.corrections import CORRECTIONS, check_correction
from ..inference.listed import CLUSTER_FDR
from ..inference.null import ALTERNATIVES, level_of_side
from ..inference.prevalence import largest_order
from ..utils.checks import (
    check_count,
    check_flag,
    check_option,
    check_share,
    quoted,
    warn,
)
from ..viz.common import DEFAULT_NAMES
from .subjects import list_entries, name_subjects

#: Second-level permutations where no number is given.
N_PERMUTATIONS = 10_000


@dataclass(frozen=True)
class GroupMethod:
    """How subjects are put together, and what may be asked of it."""

    #: The test: of `Subjects` and a `Request` it makes a `MapTest`.
    test: Callable
    #: What is tested: "min" or "mean" over subjects, or one of `STATISTICS`.
    statistic: str
    #: For the methods section, the test of one list of scores, and of two groups.
    words: str
    words_of_two: str = ""
    #: Whether it tests against the subjects' permuted labels, and so no second list.
    by_labels: bool = False
    #: Whether uncorrected p-values come from a distribution.
    parametric: bool = False
    #: Corrections that no other method has.
    corrections: tuple = ()
    #: The only ones it has, the first by default; none: all, "max" by default.
    only: tuple = ()
    #: Whether it takes one subject from below, by an order, and a share.
    ordered: bool = False
    #: What may be tested for; of some methods and corrections only high scores.
    alternatives: tuple = ALTERNATIVES


@dataclass(frozen=True)
class Request:
    """What is asked of a method."""

    method: GroupMethod
    corrections: tuple
    alternative: str
    #: p-level that forms clusters.
    threshold: float
    #: Second-level permutations, at most, and what they are drawn from.
    n_permutations: int
    seed: int
    #: How many subjects are in the first list, and whether the second are the same.
    n_first: int
    paired: bool
    #: Of the i-test: which subject from below, and the share of the null hypothesis.
    order: int | None = None
    share: float | None = None

    @property
    def level(self):
        """The p-level that forms clusters, on each of the sides that are tested."""
        return level_of_side(self.threshold, self.alternative)


def join_lists(results, other, subjects, paired, labels):
    """Return all entries, how many are in the first list, and all names.

    `labels` are the names of the lists; that of the second is added to its subjects'.
    """
    check_flag("paired", paired)
    entries = list_entries(results)
    names = name_subjects(subjects, entries)
    if other is None:
        return entries, len(entries), names
    others = list_entries(other, "other")
    other_names = name_subjects(subjects if paired else None, others)
    if not paired:
        _warn_of_same_people(names, other_names)
    if paired and len(others) != len(entries):
        raise ValueError(
            f"Paired comparisons need the same subjects in both lists; results has "
            f"{len(entries)} and other {len(others)}. Leave out who is in one only, or "
            "use paired=False for two groups."
        )
    if paired and names != other_names:
        k = next(i for i, name in enumerate(names) if name != other_names[i])
        raise ValueError(
            "The subjects of other are not those of results, in the same order: "
            f"number {k + 1} is {other_names[k]!r} instead of {names[k]!r}. Sort both "
            "lists in the same way; if the names are wrong, pass subjects=[...]."
        )
    second = "other" if labels == DEFAULT_NAMES else labels[1]
    joined = [*names, *(f"{name} ({second})" for name in other_names)]
    return [*entries, *others], len(entries), joined


def _warn_of_same_people(names, other_names):
    """Warn if two groups may share people, as far as names tell."""
    # Objects without names are counted in both lists.
    counted = re.compile(r"subject \d+")
    shared = [
        name for name in names if name in other_names and not counted.fullmatch(name)
    ]
    if shared:
        more = f" and {len(shared) - 3} more" if len(shared) > 3 else ""
        warn(
            f"{quoted(shared[:3])}{more} are in both lists, and are treated as "
            "different people. If they are the same in two conditions, use paired=True."
        )


def check_group_method(method, methods):
    """Return the name of one of the methods, in which underscores count as hyphens."""
    name = method.replace("_", "-") if isinstance(method, str) else method
    if not isinstance(name, str) or name not in methods:
        check_option("method", method, methods)
    return name


def check_alpha(alpha):
    """Return a significance level."""
    try:
        return check_share("alpha", alpha)
    except ValueError as error:
        raise ValueError(f"{str(error)[:-1]}, such as 0.05.") from None


def check_threshold(threshold, dof=None):
    """Return a p-level that forms clusters of t with `dof`, or of normal deviates."""
    real = isinstance(threshold, Real) and not isinstance(threshold, bool)
    if real and 0 < threshold < 0.5:
        return float(threshold)
    hint = ""
    if real and 1 < threshold < 1000:
        name = "z" if dof is None else f"t({dof})"
        p = stats.norm.sf(threshold) if dof is None else stats.t.sf(threshold, dof)
        hint = f" It is no t or z: {name} = {threshold:g} is a p of {p:.2g}, one-sided."
    raise ValueError(
        f"Invalid value for 'threshold': {threshold!r}. Allowed: a p-level above 0 and "
        f"below 0.5, such as 0.001 or 0.05.{hint}"
    )


def check_list_names(labels, other):
    """Return the names of the two groups or conditions."""
    if labels is None:
        return DEFAULT_NAMES
    names = check_two_names(labels, "results and of other", ("patients", "controls"))
    if other is None:
        raise ValueError("labels name results and other; pass other=[...], too.")
    return names


def check_two_names(labels, whose, example):
    """Return two different names as text."""
    several = isinstance(labels, list | tuple)
    names = tuple(map(str, labels)) if several else ()
    if len(names) != 2 or names[0] == names[1] or not all(map(str.strip, names)):
        raise ValueError(
            f"Invalid value for 'labels': {labels!r}. Allowed: two different names, of "
            f"{whose}, such as {example}."
        )
    return names


def check_corrections(correction, method, also=(), only=()):
    """Return the names of the corrections, each once; `also` are the method's own."""
    if correction is None:
        correction = only[0] if only else "max"
    several = isinstance(correction, list | tuple | set | frozenset)
    asked = [*correction] if several else [correction]
    if not asked:
        raise ValueError("correction is an empty list; pass 'max' or another one.")
    names = dict.fromkeys(_check_correction(name, method, also) for name in asked)
    for name in names:
        if only and name not in only:
            raise ValueError(
                f"method={method!r} has no correction {name!r}: it would correct where "
                "nobody has an effect, and not where a few have one. Use "
                f"{only[0]!r}, or one of {quoted(only[1:])}."
            )
    return tuple(names)


def check_order(order, share, n_subjects, alpha, method):
    """Return the order of an i-test; refuse one that cannot reach alpha."""
    if not method.ordered:
        if order is not None or share is not None:
            name = "hypothesis" if order is None else "order"
            raise ValueError(
                f"{name}={share if order is None else order!r} is for method='i-test' "
                "only; leave it out."
            )
        return None
    order = check_count("order", 1 if order is None else order, minimum=1)
    largest = largest_order(n_subjects, share, alpha)
    if largest < 1:
        raise ValueError(
            f"With {n_subjects} subjects no order of the i-test can reject a "
            f"proportion of {share:g} at alpha={alpha:g}. Use more subjects or a "
            "smaller proportion."
        )
    if order > largest:
        raise ValueError(
            f"With {n_subjects} subjects order={order} cannot reject a proportion of "
            f"{share:g} at alpha={alpha:g}, whatever the scores. The largest order "
            f"possible is {largest}; choose it before scores are seen."
        )
    return order


def _check_correction(name, method, also):
    """Return the name of one correction; large letters count as small ones."""
    known = name.lower() if isinstance(name, str) else name
    own = known.replace("_", "-") if isinstance(known, str) else known
    if isinstance(own, str) and own in also:
        return own
    if isinstance(own, str) and own == CLUSTER_FDR:
        raise ValueError(
            f"The correction {CLUSTER_FDR!r} is that of method='bootstrap'; for "
            f"method={method!r} use 'cluster-size' or 'cluster'."
        )
    try:
        return check_correction(known)
    except ValueError:
        raise ValueError(
            f"Invalid value for 'correction': {name!r}. Allowed: "
            f"{quoted((*CORRECTIONS, *also))}. 'max' controls the family-wise error."
        ) from None


def check_alternative(alternative, method, corrections, differences):
    """Return the alternative; the default depends on what is tested."""
    if alternative is None:
        return "two-sided" if differences else "greater"
    check_option("alternative", alternative, ALTERNATIVES)
    if CLUSTER_FDR in corrections and alternative != "greater":
        raise ValueError(
            f"The correction {CLUSTER_FDR!r} finds clusters of high scores only; use "
            f"alternative='greater', or 'cluster-size' for {alternative!r}."
        )
    if alternative not in method.alternatives:
        raise ValueError(
            "The lowest subjects can only be tested for being above chance; methods "
            "'prevalence' and 'i-test' have alternative='greater', got "
            f"{alternative!r}."
        )
    return alternative


def check_other(other, paired, name, method):
    """Raise a ValueError unless the second list belongs to the method of this name."""
    if other is None and check_flag("paired", paired):
        raise ValueError("paired=True compares with another list; pass other=[...].")
    if other is not None and method.by_labels:
        raise ValueError(
            f"method={name!r} tests one group against permuted labels and takes no "
            "other group. For a comparison use method='sign-flip', 't' or 'wilcoxon'."
        )


def warn_if_above(alpha, least, correction, drawn, advice):
    """Warn if the least p-value of a correction is above alpha; tell whether it is."""
    if least > alpha:
        warn(
            f"With {drawn} the smallest p-value attainable with correction "
            f"{correction!r} is {least:.3g}, above alpha={alpha:g}: nothing can be "
            f"significant. {advice}"
        )
    return least > alpha
