"""What scores of subjects are compared with where there is no effect."""

import numpy as np

from ..inference.null import NullCentre
from ..utils.checks import warn

#: Scores that depend on class frequencies are tested against permuted labels where the
#: largest class is so many times as frequent as equal ones would be, and without
#: permutations not at all from the second number on: of two classes, at 1.2 and 1.5.
_UNEQUAL, _TOO_UNEQUAL = 12 / 11, 1.2


def level_to_test(subjects, alternative, also=""):
    """Return what scores (S, C) are tested against: chance, or permuted means (S, C).

    The latter are what each subject scores on average without an effect, and chance
    where classes are equal. `also` words what else the caller offers.
    """
    chance = float(subjects.chances[0])
    if np.isnan(chance):
        raise ValueError(
            f"The metric {subjects.metric!r} has no chance level to test against. "
            "Choose another metric, or use method='prevalence' or 'bootstrap', which "
            "compare with permuted labels."
        )
    unequal = subjects.of_frequencies and subjects.unbalanced > _UNEQUAL - 1e-9
    if all(means is not None for means in subjects.permuted_means):
        if unequal or _exceeds(subjects, chance, alternative):
            return np.stack(subjects.permuted_means)
    elif unequal:
        _refuse_or_warn(subjects, chance, also)
    return chance


def _exceeds(subjects, chance, alternative):
    """Tell whether tests against chance would find permuted labels too often."""
    if None in subjects.centres:
        return False
    centre = NullCentre.pooled(subjects.centres)
    above = centre.mean > chance
    if alternative == ("less" if above else "greater"):
        return False
    # Equal classes are slightly below chance, which hardly matters.
    return centre.is_off(chance, len(subjects.names) if above else 1)


def _refuse_or_warn(subjects, chance, also):
    """Refuse, or of classes that are hardly unequal, warn of tests against chance."""
    name = subjects.metric
    known = zip(subjects.names, subjects.permuted_means, strict=True)
    lacking = [who for who, means in known if means is None]
    what = (
        "Subjects have classes of different sizes (the largest up to "
        f"{subjects.unbalanced:.3g} times as frequent as equal ones): without any "
        f"effect {name} is then off its chance level {chance:.3g}"
    )
    advice = (
        "Use metric='balanced_accuracy' or 'roc_auc' (decode with scoring=['accuracy', "
        f"'balanced_accuracy']), or decode with n_permutations=100: {name} is then "
        "tested against the mean of each subject's permuted labels, which "
        f"{len(lacking)} of {len(subjects.names)} subjects lack.{also}"
    )
    if subjects.unbalanced > _TOO_UNEQUAL - 1e-9:
        raise ValueError(f"{what}, and comparisons with that are wrong. {advice}")
    warn(f"{what}, and tests against that level reject too often. {advice}")


def off_chance(subjects, n_first, tested):
    """Return the mean of permuted labels of each list, NaN if at chance; or nothing.

    Also at chance if it was `tested` against. Warn of two lists that differ without an
    effect.
    """
    lists = [subjects.centres[:n_first], subjects.centres[n_first:]]
    lists = [centres for centres in lists if centres]
    if any(None in centres for centres in lists):
        return []
    pooled, chance = [NullCentre.pooled(each) for each in lists], subjects.chances[0]
    if len(lists) == 2:
        about = subjects.metric, subjects.of_frequencies
        _warn_of_lists(*about, *pooled, len(lists[0]))
    found = [x.mean if tested or x.is_off(chance) else np.nan for x in pooled]
    return found if np.isfinite(found).any() else []


def _warn_of_lists(name, of_classes, first, second, n):
    """Warn of two lists whose permuted labels score differently."""
    error = 4 * np.hypot(first.error, second.error)
    matters = 0.2 * first.spread / np.sqrt(n)
    if abs(first.mean - second.mean) > max(error, matters, 1e-6):
        warn(
            f"Permuted labels have a mean {name} of {first.mean:.3g} in the first list "
            f"and {second.mean:.3g} in the second. So much of the difference is there "
            "without any effect, because class sizes or numbers of trials differ."
            + (" Use metric='balanced_accuracy' or 'roc_auc'." if of_classes else "")
        )
