"""What is asked of a group inference: the arguments, checked, and the two lists."""

from dataclasses import dataclass

from .._checks import check_option, quoted
from .._null import ALTERNATIVES, level_of_side
from ..inference import check_correction
from .entries import listed, name_subjects

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
    n_jobs : int or None
        Processes for the libraries that take some.
    verbose : bool
        Whether these report their progress.
    """

    corrections: tuple
    alternative: str
    threshold: float
    n_permutations: int
    seed: int
    n_jobs: int | None
    verbose: bool

    @property
    def level(self):
        """The p-level that forms clusters, on each of the sides that are tested."""
        return level_of_side(self.threshold, self.alternative)


def join_lists(results, other, subjects, paired):
    """Return all entries, how many are in the first list, and all names."""
    entries = listed(results)
    names = name_subjects(subjects, entries)
    if other is None:
        return entries, len(entries), names
    others = listed(other, "other")
    other_names = name_subjects(subjects if paired else None, others)
    if paired and len(others) != len(entries):
        raise ValueError(
            f"Paired comparisons need the same subjects in both lists; results has "
            f"{len(entries)} and other {len(others)}. Leave out who is in one only, or "
            "use paired=False for two groups."
        )
    if paired and list(names) != list(other_names):
        raise ValueError(
            f"The subjects of other are not those of results, in the same order: "
            f"{quoted(names)} and {quoted(other_names)}. Sort both lists in the same "
            "way; if the names are wrong, pass subjects=[...]."
        )
    joined = [*names, *(f"{name} (other)" for name in other_names)]
    return [*entries, *others], len(entries), joined


def check_corrections(correction, method):
    """Return the names of the corrections as a tuple, each once."""
    asked = (
        [correction]
        if correction is None or isinstance(correction, str)
        else [*correction]
    )
    if not asked:
        raise ValueError("correction is an empty list; give 'max' or another one.")
    names = []
    for name in asked:
        special = isinstance(name, str) and name.replace("_", "-") == CLUSTER_FDR
        if special and method != "bootstrap":
            raise ValueError(
                f"The correction {CLUSTER_FDR!r} is that of method='bootstrap'; for "
                f"method={method!r} use 'cluster-size' or 'cluster'."
            )
        names.append(CLUSTER_FDR if special else check_correction(name))
    return tuple(dict.fromkeys(names))


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
