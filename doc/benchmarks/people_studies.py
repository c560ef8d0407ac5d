"""Simulated groups, and how often what is claimed of people is wrong, or is found.

Scores are drawn as they are, without trials to decode: accuracies as shares of hits,
and areas under the ROC curve from the ranks of 16 and 16 trials. Each subject has 99
permuted scores with the same distribution as a score without an effect. Seeds were
chosen before anything was simulated, and are the numbers of the data sets.
"""

from functools import cache
from types import SimpleNamespace

import numpy as np
from scipy.signal import lfilter

from mvpa_kfda.group.second_level import p_of_scores, test_each_subject
from mvpa_kfda.inference.corrections import holm
from mvpa_kfda.inference.exchange import interval_of_mean
from mvpa_kfda.inference.prevalence import Share, densest, order_p, quantile

ALPHA, N_NULL, N_POSITIONS = 0.05, 99, 30
#: An effect is found for certain where it is a claim that must not be made too often.
CERTAIN, CLEAR = 0.98, 0.75


# --------------------------------------------------------------------------- the scores


def accuracies(rng, shape, n_trials, p=0.5):
    """Draw accuracies of so many trials each, (S, ...)."""
    n = np.reshape(np.resize(n_trials, shape[0]), (-1, *[1] * (len(shape) - 1)))
    return rng.binomial(n, p, shape) / n


def areas(rng, shape, n_trials, p=0.5):
    """Draw areas under the ROC curve of 16 and 16 trials, 1 with an effect."""
    noise = np.searchsorted(_rank_sums(), rng.random(shape)) / 16**2
    return np.where(np.broadcast_to(p, shape) > 0.5, 1.0, noise)


@cache
def _rank_sums(n=16):
    """Return the distribution of pairs in which one of n is above one of n others."""
    # Ways to choose j of the ranks with a sum, rank by rank.
    ways = np.zeros((n + 1, n * 2 * n))
    ways[0, 0] = 1.0
    for rank in range(2 * n):
        taken = np.zeros_like(ways)
        taken[1:, rank:] = ways[:-1, : ways.shape[1] - rank]
        ways += taken
    first = n * (n - 1) // 2
    counts = ways[n, first : first + n * n + 1]
    return np.cumsum(counts) / counts.sum()


def group(rng, carriers, draw=accuracies, n_trials=(40,), p=CERTAIN):
    """Return scores (S, C), where carriers have an effect, and nulls of S subjects."""
    n, n_positions = carriers.shape
    scores = draw(rng, carriers.shape, n_trials, np.where(carriers, p, 0.5))
    nulls = draw(rng, (n, N_NULL, n_positions), n_trials)
    return scores, [*nulls]


def p_of_order(scores, nulls, order, share=0.5):
    """Return the p-values (C,) of the i-test."""
    lowest = np.sort(scores, axis=0)[order - 1]
    return order_p(p_of_scores(lowest, nulls), order, share)


# -------------------------------------------------------------------------- how many


def each(rng, n):
    """Draw who has an effect at each of the positions, half of the population."""
    return rng.random((n, N_POSITIONS)) < 0.5


def everywhere(rng, n):
    """Draw who has an effect, the same at all positions."""
    return np.repeat(rng.random((n, 1)) < 0.5, N_POSITIONS, axis=1)


def neighbours(rng, n):
    """Draw who has an effect where neighbours are mostly alike."""
    wave = lfilter([1], [1, -0.9], rng.standard_normal((n, N_POSITIONS + 50)), axis=1)
    return wave[:, 50:] > 0


def beside(rng, n):
    """Draw who has an effect in a half of the positions; in the other one nobody."""
    return each(rng, n) & (np.arange(N_POSITIONS) % 2 == 0)


#: Design -> who has an effect, how scores are drawn, and of how many trials.
ITEST = {
    "accuracy, different people at each position": (each, accuracies, (40,)),
    "accuracy, the same people everywhere": (everywhere, accuracies, (40,)),
    "accuracy, neighbours mostly the same": (neighbours, accuracies, (40,)),
    "accuracy, effects at some positions": (beside, accuracies, (40,)),
    "accuracy, 20 or 400 trials": (each, accuracies, (20, 400)),
    "AUC, different people at each position": (each, areas, (32,)),
    "AUC, the same people everywhere": (everywhere, areas, (32,)),
    "AUC, effects at some positions": (beside, areas, (32,)),
}
#: Numbers of subjects and orders.
ORDERS = ((8, 1), (12, 1), (12, 3), (20, 1), (20, 3), (20, 6))


def false_majorities(n):
    """Return how often a majority is claimed where half have an effect.

    Design -> (subjects, order) -> at how many of the positions where half have an
    effect without a correction (n,), and whether at any position by Holm's (n,).
    """
    found = {}
    for study, (words, (who, draw, n_trials)) in enumerate(ITEST.items(), start=1):
        found[words] = {case: ([], []) for case in ORDERS}
        for number in range(n):
            for n_subjects in sorted({case[0] for case in ORDERS}):
                rng = np.random.default_rng((study, n_subjects, number))
                carriers = who(rng, n_subjects)
                scores, nulls = group(rng, carriers, draw, n_trials)
                at = slice(None, None, 2) if who is beside else slice(None)
                for m, order in ORDERS:
                    if m != n_subjects:
                        continue
                    p = p_of_order(scores, nulls, order)
                    at_each, at_any = found[words][m, order]
                    at_each.append(np.mean(p[at] <= ALPHA))
                    at_any.append((holm(p) <= ALPHA).any())
    return found


def power(n, n_silent=2):
    """Return how often a majority is found where a few of 20 are at chance.

    Order -> at one position, and the share of 30 positions by Holm's method, (n,).
    """
    found = {order: ([], []) for order in range(1, 7)}
    for number in range(n):
        rng = np.random.default_rng((20, n_silent, number))
        carriers = np.ones((20, N_POSITIONS), dtype=bool)
        carriers[:n_silent] = False
        scores, nulls = group(rng, carriers, n_trials=(60,), p=CLEAR)
        for order, (at_one, at_many) in found.items():
            p = p_of_order(scores, nulls, order)
            at_one.append(p[0] <= ALPHA)
            at_many.append(np.mean(holm(p) <= ALPHA))
    return found


#: Shares of the population with an effect, for the coverage of posteriors; None draws
#: one anew for each group, all being as probable.
SHARES = (None, 0.0, 0.2, 0.5, 0.8, 1.0)
#: Numbers of trials: sizes below the level, and different ones.
OF_TRIALS = {"20 trials": (20,), "40 trials": (40,), "16 or 200 trials": (16, 200)}


def posteriors(n, n_subjects=20, confidence=0.95):
    """Return which intervals hold the share, and the bounds.

    Trials -> share -> (whether the interval holds it, the bound less the share, and the
    same with sizes of 0.05), each (n,); and "size", the mean attained one.
    """
    found = {}
    for study, (words, n_trials) in enumerate(OF_TRIALS.items(), start=30):
        sizes, found[words] = [], {}
        for k, given in enumerate(SHARES):
            rng = np.random.default_rng((study, k))
            shares = np.full(n, np.nan if given is None else given)
            shares = rng.random(n) if given is None else shares
            carriers = rng.random((n_subjects, n)) < shares
            scores, nulls = group(rng, carriers, n_trials=n_trials)
            test = scores, nulls, np.zeros(n, dtype=bool)
            subjects = SimpleNamespace(scores=scores, tests=[test])
            maps, _ = test_each_subject(subjects, ALPHA)
            p, sizes_here = maps["subject_p"], maps["subject_sizes"]
            significant = p <= ALPHA + 1e-9
            posterior = Share.of(significant, sizes_here)
            nominal = Share.of(significant, np.full_like(sizes_here, ALPHA))
            low, high = densest(posterior, confidence)
            sizes.append(sizes_here)
            found[words][given] = (
                (low <= shares + 1e-9) & (shares - 1e-9 <= high),
                quantile(posterior, 1 - confidence) - shares,
                quantile(nominal, 1 - confidence) - shares,
            )
        found[words]["size"] = np.mean(sizes)
    return found


# ---------------------------------------------------------------------------- how large


def normal(rng, shape):
    """Draw normal scores."""
    return rng.standard_normal(shape)


def heavy(rng, shape):
    """Draw scores of Student's t with 3 degrees of freedom."""
    return rng.standard_t(3, shape)


def skewed(rng, shape):
    """Draw scores with a long tail above, of mean 0."""
    return rng.exponential(1.0, shape) - 1


def carried(rng, shape):
    """Draw scores of a population of whom 15 % have an effect of 4, of mean 0."""
    return rng.standard_normal(shape) + 4 * (rng.random(shape) < 0.15) - 0.6


def stepped(rng, shape):
    """Draw accuracies of 20 trials, less their mean."""
    return rng.binomial(20, 0.7, shape) / 20 - 0.7


def smooth(rng, shape):
    """Draw normal scores that last over positions."""
    wave = rng.standard_normal((*shape[:-1], shape[-1] + 50))
    return lfilter([1], [1, -0.9], wave, axis=-1)[..., 50:]


def uneven(rng, shape):
    """Draw normal scores of different variance at each position."""
    return rng.standard_normal(shape) * np.linspace(0.1, 3, shape[-1])


SCORES = {
    "normal": normal,
    "normal, correlated over positions": smooth,
    "normal, variances 1 to 900": uneven,
    "Student's t, 3 degrees of freedom": heavy,
    "accuracies of 20 trials": stepped,
    "differences of skewed scores": lambda r, s: skewed(r, s) - skewed(r, s),
    "skewed": skewed,
    "15 % have an effect": carried,
}
OF_INTERVALS = (6, 8, 12, 20)


def intervals(n, two_groups=False):
    """Return how intervals miss the mean, which is 0.

    Scores -> number of subjects -> shares (n, 4): of positions whose interval is wholly
    above the mean, and wholly below it; whether any of the simultaneous ones misses it;
    and whether any bound of "greater" does.
    """
    found = {}
    for study, (words, draw) in enumerate(SCORES.items(), start=40):
        found[words] = {}
        for n_subjects in OF_INTERVALS:
            rows = []
            for number in range(n):
                rng = np.random.default_rng((study, n_subjects, number, two_groups))
                values = draw(rng, (n_subjects, N_POSITIONS))
                others = draw(rng, (n_subjects, N_POSITIONS)) if two_groups else None
                rows.append(_missed(values, others))
            found[words][n_subjects] = np.array(rows)
    return found


def _missed(values, others):
    """Return how the intervals of one group miss 0, see `intervals`."""
    options = {"confidence": 0.95, "random_state": 0, "alternative": "two-sided"}
    low, high = interval_of_mean(values, others, simultaneous=False, **options)
    least, most = interval_of_mean(values, others, simultaneous=True, **options)
    options["alternative"] = "greater"
    bound, _ = interval_of_mean(values, others, simultaneous=True, **options)
    at_once = ((least > 0) | (most < 0)).any()
    return np.mean(low > 0), np.mean(high < 0), at_once, (bound > 0).any()
