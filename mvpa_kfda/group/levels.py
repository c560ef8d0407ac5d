"""What scores of subjects are without an effect, and how much they can say."""

import numpy as np

from ..inference.null import NullCentre, permuted_means
from ..metrics.auc import find_rare_class
from ..metrics.classes import METRICS, crowding
from ..utils.checks import counted, some_of, warn

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
        "Use metric='balanced_accuracy' (decode with scoring='balanced_accuracy'), or "
        f"'roc_auc' likewise; or decode with n_permutations=100: {name} is then tested "
        "against the mean of each subject's permuted labels, which "
        f"{len(lacking)} of {len(subjects.names)} subjects lack.{also}"
    )
    if subjects.unbalanced > _TOO_UNEQUAL - 1e-9:
        raise ValueError(f"{what}, and comparisons with that are wrong. {advice}")
    warn(f"{what}, and tests against that level reject too often. {advice}")


def off_chance(subjects, n_first, tested):
    """Return the mean of permuted labels of each list, NaN if at chance; or nothing.

    Also at chance if it was `tested` against. Refuse, or if classes do not matter warn
    of, two lists that differ without an effect.
    """
    lists = [subjects.centres[:n_first], subjects.centres[n_first:]]
    lists = [centres for centres in lists if centres]
    if any(None in centres for centres in lists):
        return []
    pooled, chance = [NullCentre.pooled(each) for each in lists], subjects.chances[0]
    if len(lists) == 2:
        unequal = subjects.of_frequencies and subjects.unbalanced > _UNEQUAL - 1e-9
        _check_lists(subjects.metric, unequal, *pooled, len(lists[0]))
    found = [x.mean if tested or x.is_off(chance) else np.nan for x in pooled]
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


# ------------------------------------------------------------------ of one subject


def means_of(scores, null):
    """Return the mean permuted score at each position (V,), or None."""
    means = permuted_means(null)
    if means is None or means.size == np.size(scores):
        return None if means is None else np.ravel(means)
    every = np.full(np.size(scores), np.nan)  # summaries leave out gaps
    every[~np.isnan(np.ravel(scores))] = np.ravel(means)
    return every


def crowding_of(result):
    """Return how many times as frequent the largest tested class is as equal ones."""
    n_classes = len(result.classes)
    return crowding(result.true_classes, n_classes) if n_classes else 1.0


def rare_class_of(result, metric):
    """Return the class that most test sets of a mean over test sets lack, or None."""
    known = METRICS.get(metric)
    if known is None or not (metric == "roc_auc" or known.within_sets):
        return None
    n_sets = len(result.tests) // result.n_repeats
    return find_rare_class(result.tests[:n_sets], result.y_tested)


def warn_of_rare_classes(metric, rare_classes, names):
    """Warn of subjects whose score rests on few of their test sets."""
    told = {n: x for n, x in zip(names, rare_classes, strict=True) if x is not None}
    if not told:
        return
    each = [
        f"{name}: {rare.n_sets} of {rare.n_all} with {counted(rare.n_trials, 'trial')}"
        for name, rare in told.items()
    ]
    pooled = ""
    if metric == "roc_auc":
        pooled = ", or use metric='balanced_accuracy', which pools all test sets"
    warn(
        f"{metric!r} of {len(told)} of {len(names)} subjects rests on "
        "fewer than half of their test sets, which alone hold the rarest class "
        f"({some_of(each)}). It says little of these subjects and counts as much as "
        f"that of the others. Leave them out{pooled}."
    )
