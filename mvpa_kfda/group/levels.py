"""What scores of subjects are without an effect, and how much they can say."""

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
    members, name = subjects.members, subjects.first.metric
    chance = float(subjects.first.chance)
    if np.isnan(chance):
        raise ValueError(
            f"The metric {name!r} has no chance level to test against. Choose another "
            "metric, or use method='prevalence' or 'bootstrap', which compare with "
            "permuted labels."
        )
    unequal = _are_unequal(subjects)
    n_lacking = sum(one.permuted_means is None for one in members)
    if not n_lacking:
        if unequal or _exceeds(subjects, chance, alternative):
            return np.stack([one.permuted_means for one in members])
    elif unequal:
        what = (
            "Subjects have classes of different sizes (the largest up to "
            f"{subjects.unbalanced:.3g} times as frequent as equal ones): without any "
            f"effect {name} is then off its chance level {chance:.3g}"
        )
        advice = (
            "Use metric='balanced_accuracy' (decode with scoring='balanced_accuracy'), "
            f"or 'roc_auc' likewise; or decode with n_permutations=100: {name} is then "
            "tested against the mean of each subject's permuted labels, which "
            f"{n_lacking} of {len(members)} subjects lack.{also}"
        )
        if subjects.unbalanced > _TOO_UNEQUAL - 1e-9:
            raise ValueError(f"{what}, and comparisons with that are wrong. {advice}")
        warn(f"{what}, and tests against that level reject too often. {advice}")
    return chance


def _are_unequal(subjects):
    """Whether classes are so unequal that the metric leaves its chance level."""
    return subjects.first.of_frequencies and subjects.unbalanced > _UNEQUAL - 1e-9


def _exceeds(subjects, chance, alternative):
    """Whether tests against chance would find permuted labels too often."""
    centres = [one.centre for one in subjects.members]
    if None in centres:
        return False
    centre = NullCentre.pooled(centres)
    above = centre.mean > chance
    if alternative == ("less" if above else "greater"):
        return False
    # Equal classes are slightly below chance, which hardly matters.
    return centre.is_off(chance, len(centres) if above else 1)


def off_chance(subjects, tested):
    """Return the mean of permuted labels of each list, NaN if at chance; or nothing.

    Also at chance if it was `tested` against. Refuse, or if classes do not matter warn
    of, two lists that differ without an effect.
    """
    centres, n_first = [one.centre for one in subjects.members], subjects.n_first
    if None in centres:
        return []
    lists = [centres[:n_first], centres[n_first:]]
    pooled = [NullCentre.pooled(each) for each in lists if each]
    if len(pooled) == 2:
        _check_lists(subjects.first.metric, _are_unequal(subjects), *pooled, n_first)
    found = [
        centre.mean if tested or centre.is_off(subjects.first.chance) else np.nan
        for centre in pooled
    ]
    return found if np.isfinite(found).any() else []


def _check_lists(name, unequal, first, second, n):
    """Refuse two lists whose permuted labels score differently, or warn of them."""
    error = 4 * np.hypot(first.error, second.error)
    matters = 0.2 * first.spread / np.sqrt(n)
    if abs(first.mean - second.mean) <= max(error, matters, 1e-6):
        return
    text = (
        f"Permuted labels have a mean {name} of {first.mean:.3g} in the first list "
        f"and {second.mean:.3g} in the second. So much of the difference is there "
        "without any effect, because class sizes or numbers of trials differ."
    )
    if unequal:
        raise ValueError(
            f"{text} Use metric='balanced_accuracy' or 'roc_auc', which do not depend "
            "on class sizes (decode with scoring=['accuracy', 'balanced_accuracy'])."
        )
    warn(text)
