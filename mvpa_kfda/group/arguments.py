"""What is asked of a group inference: the arguments, checked, and the two lists."""

import re
from dataclasses import dataclass
from numbers import Real

from scipy import stats

from ..inference.corrections import ADJUSTMENTS, CORRECTIONS, check_correction
from ..inference.null import ALTERNATIVES, level_of_side
from ..utils.checks import check_option, check_share, quoted, warn
from .subjects import list_entries, name_subjects

#: The methods by name, and whether they need the subjects' permutations.
METHODS = {
    "prevalence": True,
    "bootstrap": True,
    "sign-flip": False,
    "t": False,
    "wilcoxon": False,
}

#: The correction that only the bootstrap has: the false discovery rate of clusters.
CLUSTER_FDR = "cluster-fdr"

#: Second-level permutations where no number is given: of "prevalence", whose bound
#: grows with them, at up to so many positions, and otherwise.
_MANY, _FEW_POSITIONS, _PERMUTATIONS = 1_000_000, 1_000, 10_000

#: Corrections that look at each permuted map only once, at every position alone.
_QUICK = ("none", "max", *ADJUSTMENTS)


@dataclass(frozen=True)
class Request:
    """What is asked of a method.

    Attributes
    ----------
    corrections : tuple of str
        Names of corrections.
    alternative : str
        "greater", "less" or "two-sided".
    threshold : float
        p-level that forms clusters.
    n_permutations : int
        Second-level permutations, at most.
    seed : int
        What they are drawn from.
    """

    corrections: tuple
    alternative: str
    threshold: float
    n_permutations: int
    seed: int

    @property
    def level(self):
        """The p-level that forms clusters, on each of the sides that are tested."""
        return level_of_side(self.threshold, self.alternative)


def join_lists(results, other, subjects, paired):
    """Return all entries, how many are in the first list, and all names."""
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
    joined = [*names, *(f"{name} (other)" for name in other_names)]
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
            f"{quoted(shared[:3])}{more} are in both lists, and are taken for "
            "different people. If they are the same in two conditions, use paired=True."
        )


def check_group_method(method):
    """Return the name of a method, in which underscores count as hyphens."""
    name = method.replace("_", "-") if isinstance(method, str) else method
    if not isinstance(name, str) or name not in METHODS:
        check_option("method", method, METHODS)
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
    if real and 1 < threshold < float("inf"):
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
        return ("first", "second")
    several = isinstance(labels, list | tuple)
    names = tuple(map(str, labels)) if several else ()
    if len(names) != 2 or names[0] == names[1]:
        raise ValueError(
            f"Invalid value for 'labels': {labels!r}. Allowed: two different names, of "
            "results and of other, such as ('patients', 'controls')."
        )
    if other is None:
        raise ValueError("labels name results and other; give other=[...], too.")
    return names


def choose_n_permutations(n_permutations, method, corrections, n_positions):
    """Return the number of second-level permutations, where None was given, too."""
    if n_permutations is not None:
        return n_permutations
    quick = set(corrections) <= set(_QUICK) and n_positions <= _FEW_POSITIONS
    return _MANY if method == "prevalence" and quick else _PERMUTATIONS


def check_corrections(correction, method):
    """Return the names of the corrections as a tuple, each once."""
    several = isinstance(correction, list | tuple | set | frozenset)
    asked = [*correction] if several else [correction]
    if not asked:
        raise ValueError("correction is an empty list; give 'max' or another one.")
    return tuple(dict.fromkeys(_check_correction(name, method) for name in asked))


def _check_correction(name, method):
    """Return the name of one correction; large letters count as small ones."""
    known = name.lower() if isinstance(name, str) else name
    if isinstance(known, str) and known.replace("_", "-") == CLUSTER_FDR:
        if method == "bootstrap":
            return CLUSTER_FDR
        raise ValueError(
            f"The correction {CLUSTER_FDR!r} is that of method='bootstrap'; for "
            f"method={method!r} use 'cluster-size' or 'cluster'."
        )
    try:
        return check_correction(known)
    except ValueError:
        special = (CLUSTER_FDR,) if method == "bootstrap" else ()
        raise ValueError(
            f"Invalid value for 'correction': {name!r}. Allowed: "
            f"{quoted((*CORRECTIONS, *special))}. 'max' controls the family-wise error."
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
    if method == "prevalence" and alternative != "greater":
        raise ValueError(
            "The minimum over subjects can only be tested for being above chance; "
            f"method='prevalence' has alternative='greater', got {alternative!r}."
        )
    return alternative


def check_other(other, paired, method):
    """Raise a ValueError unless the second list belongs to the method."""
    if other is None and paired:
        raise ValueError("paired=True compares with another list; give other=[...].")
    if other is not None and METHODS[method]:
        raise ValueError(
            f"method={method!r} tests one group against permuted labels and takes no "
            "other group. For a comparison use method='sign-flip', 't' or 'wilcoxon'."
        )
