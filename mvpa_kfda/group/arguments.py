"""Arguments of group inference and comparisons, checked."""

from numbers import Real

from scipy import stats

from ..inference.corrections import CORRECTIONS, check_correction
from ..inference.listed import CLUSTER_FDR
from ..utils.checks import check_share, quoted, warn
from ..viz.common import DEFAULT_NAMES


def check_alpha(alpha):
    """A significance level."""
    try:
        return check_share("alpha", alpha)
    except ValueError as error:
        raise ValueError(f"{str(error)[:-1]}, such as 0.05.") from None


def check_threshold(threshold, dof=None):
    """A p-level that forms clusters of t with `dof`, or of normal deviates."""
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
    """The names of the two groups or conditions."""
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
    """The names of the corrections, each once; `also` are the method's own."""
    if correction is None:
        correction = only[0] if only else "max"
    several = isinstance(correction, list | tuple | set | frozenset)
    asked, names = [*correction] if several else [correction], {}
    if not asked:
        raise ValueError("correction is an empty list; pass 'max' or another one.")
    for given in asked:  # large letters count as small ones, underscores as hyphens
        text = isinstance(given, str)
        name = given.lower().replace("_", "-") if text else given
        if text and name == CLUSTER_FDR and name not in also:
            raise ValueError(
                f"The correction {CLUSTER_FDR!r} is that of method='bootstrap'; for "
                f"method={method!r} use 'cluster-size' or 'cluster'."
            )
        try:
            name = name if text and name in also else check_correction(name)
        except ValueError:
            raise ValueError(
                f"Invalid value for 'correction': {given!r}. Allowed: "
                f"{quoted((*CORRECTIONS, *also))}. 'max' controls the family-wise "
                "error."
            ) from None
        names[name] = None
    for name in names:
        if only and name not in only:
            raise ValueError(
                f"method={method!r} has no correction {name!r}: it would correct where "
                "nobody has an effect, and not where a few have one. Use "
                f"{only[0]!r}, or one of {quoted(only[1:])}."
            )
    return tuple(names)


def warn_if_above(alpha, least, correction, drawn, advice):
    """Warn if the least p-value of a correction is above alpha; tell whether it is."""
    if least > alpha:
        warn(
            f"With {drawn} the smallest p-value attainable with correction "
            f"{correction!r} is {least:.3g}, above alpha={alpha:g}: nothing can be "
            f"significant. {advice}"
        )
    return least > alpha
