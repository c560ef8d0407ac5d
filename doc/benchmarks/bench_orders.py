"""Size and power of the schemes of permutation for orders that nobody randomised.

Run ``python doc/benchmarks/bench_orders.py``; it takes about two hours with one thread
and rewrites ``results_orders.rst`` beside it, which the documentation includes. The
tables are written again after each twentieth part, so that it can be ended early.
``--quick`` takes few data sets, ``--out`` says where to write. There is no ``--check``:
what few data sets can show, the slow tests show.

A subject has 144 trials, in 6 runs or in one, of ten features. Labels are drawn from an
order, noise without regard to them; at some "times" of the data, classes differ, too.
"""

import argparse
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np
from bench_paper import list_table, machine
from scipy.signal import lfilter
from scipy.stats import binom
from threadpoolctl import threadpool_limits

from mvpa_kfda import decode_arrays

RESULTS = Path(__file__).with_name("results_orders.rst")
N_RUNS, N_TRIALS, N_FEATURES, N_PERMUTATIONS = 6, 144, 10, 199
N, N_QUICK = 400, 2
ALPHA, CONFIDENCE = 0.05, 0.99
LASTING, CURVE, EFFECT = 0.9, 0.5, 0.45
SCHEMES = ("today", "transitions", "trend")
METRICS = ("accuracy", "roc_auc")
SIDES = ("greater", "less", "two-sided")
NOISE = ("white", "lasting", "drift")
#: Without and with an effect.
TIMES = (*NOISE, "white, effect", "lasting, effect")


# ------------------------------------------------------------------------- the orders


def _chain(rng, n, changes):
    """Return labels (n,) of a Markov chain, by probabilities (c, c) of what follows."""
    changes = np.asarray(changes)
    labels = [rng.integers(len(changes))]
    while len(labels) < n:
        labels.append(rng.choice(len(changes), p=changes[labels[-1]]))
    return np.array(labels)


def _repeating(share):
    """Return what draws labels that repeat with a probability."""

    def draw(rng, n, c, _):
        others = (1 - share) / (c - 1)
        return _chain(rng, n, np.full((c, c), others) + (share - others) * np.eye(c))

    return draw


def _after_errors(rng, n, c, _):
    """Return labels of which the last is twice as frequent after itself."""
    rare = np.r_[np.full(c - 1, 0.8 / (c - 1)), 0.2]
    often = np.r_[np.full(c - 1, 0.6 / (c - 1)), 0.4]
    return _chain(rng, n, [rare] * (c - 1) + [often])


def _rising(rng, n, c, place):
    """Return labels of which the last rises from 30 to 70 % of what two would have."""
    share = (0.3 + 0.4 * place) * 2 / c
    others = rng.integers(c - 1, size=n)
    return np.where(rng.random(n) < share, c - 1, others)


def _in_blocks(rng, n, c, _, size=4):
    return np.repeat(rng.permutation(np.arange(n // size) % c), size)


def _balanced(rng, n, c, _):
    window = np.arange(2 * c) % c
    return np.concatenate([rng.permutation(window) for _ in range(n // (2 * c))])


#: Draws of labels (n,) of c classes in a run, at places from 0 to 1.
ORDERS = {
    "random": lambda rng, n, c, _: rng.permutation(np.arange(n) % c),
    "repeats at .6": _repeating(0.6),
    "repeats at .7": _repeating(0.7),
    "repeats at .4": _repeating(0.4),
    "after errors": _after_errors,
    "share rises in runs": _rising,
    "share rises in recording": _rising,
    "blocks of 4": _in_blocks,
    "balanced in 2 of each": _balanced,
}


def draw(order, c, n_runs, rng):
    """Return labels, runs, and data (n, p, times) of a subject."""
    n = N_TRIALS // n_runs
    runs, place = np.repeat(np.arange(n_runs), n), np.linspace(0, 1, n)
    whole = np.linspace(0, 1, N_TRIALS).reshape(n_runs, n)
    places = whole if order == "share rises in recording" else [place] * n_runs
    y = np.concatenate([ORDERS[order](rng, n, c, each) for each in places])
    white = rng.standard_normal((len(TIMES), N_TRIALS, N_FEATURES))
    memory = lfilter([np.sqrt(1 - LASTING**2)], [1, -LASTING], white, axis=1)
    curve = np.vander(2 * place - 1, 3)[:, :2] @ rng.standard_normal((2, N_FEATURES))
    drifting = white + CURVE * np.tile(curve, (n_runs, 1))
    means = rng.standard_normal((c, N_FEATURES))
    means -= means.mean(axis=0)
    means *= EFFECT * np.sqrt(c) / 2 / np.linalg.norm(means, axis=1).mean()
    effect = means[y]
    kinds = white[0], memory[1], drifting[2], white[3] + effect, memory[4] + effect
    return y, runs, np.stack(kinds, axis=2)


def significant(order, c, n_runs, seed):
    """Return which tests are significant, by (scheme, time, metric, side)."""
    rng = np.random.default_rng([seed, c, n_runs, [*ORDERS].index(order)])
    y, runs, X = draw(order, c, n_runs, rng)
    options = {"groups": runs} if n_runs > 1 else {"cv": N_RUNS}
    options |= {"scoring": METRICS, "reg": 0.1, "n_permutations": N_PERMUTATIONS}
    found = {}
    for scheme in SCHEMES:
        permute = "auto" if scheme == "today" else scheme
        try:
            result = decode_arrays(X, y, permute=permute, random_state=seed, **options)
        except ValueError:  # too few stretches: nothing is found
            result = None
        for metric in METRICS:
            for side in SIDES:
                p = np.ones(len(TIMES))
                if result is not None:
                    p = result.pvalues("none", metric=metric, alternative=side)
                for time, each in zip(TIMES, p, strict=True):
                    found[scheme, time, metric, side] = each <= ALPHA + 1e-9
    return found


# ------------------------------------------------------------------------- the tables


def table(found, setting, times, side):
    """Return the lines of a table of orders by noise and scheme."""
    header, rows, n = ["Order"], [], 1
    header += [f"{time}: {scheme}" for time in times for scheme in SCHEMES]
    for order in ORDERS:
        if (counts := found.get((order, *setting))) is None:
            continue
        rows.append([order])
        for time in times:
            for scheme in SCHEMES:
                both = [counts[scheme, time, metric, side] for metric in METRICS]
                n = len(both[0])
                top = binom.ppf((1 + CONFIDENCE) / 2, n, ALPHA) / n
                mark = " ↑" if "effect" not in time and np.mean(both) > top else ""
                shares = " / ".join(f"{100 * np.mean(each):.0f}" for each in both)
                rows[-1].append(shares + mark)
    return list_table(header, rows)


def write(path, found, n):
    """Write the tables."""
    lines = [
        ".. Written by bench_orders.py.",
        "",
        machine(),
        "",
        f"{N_TRIALS} trials, {N_FEATURES} features, {N_PERMUTATIONS} permutations, "
        f"{n} data sets for each number: the percentage with p ≤ {ALPHA:g}, for "
        "accuracy and AUC. *Today* is the default, within runs or among all trials. "
        f"Lasting noise has a correlation of {LASTING:g} between successive trials; "
        "drift is a curve that all runs share. ↑ marks means of both beyond the "
        f"{100 * CONFIDENCE:g} % interval around {100 * ALPHA:g} %, where one in two "
        "hundred calibrated tests is by chance. With blocks of 4 of three classes in "
        "runs, stretches are too few for ``transitions``, and nothing is found.",
        "",
    ]
    for setting in ((2, N_RUNS), (2, 1), (3, N_RUNS), (3, 1)):
        words = "6 runs" if setting[1] > 1 else "without runs"
        title = f"{setting[0]} classes, {words}"
        lines += [title, "~" * len(title), ""]
        for side in SIDES:
            lines += [f"No effect, ``alternative={side!r}``:", ""]
            lines += table(found, setting, NOISE, side)
        lines += ["Power, ``alternative='greater'``:", ""]
        lines += table(found, setting, TIMES[len(NOISE) :], "greater")
    path.write_text("\n".join(lines), encoding="utf-8")


def main(arguments=None):
    """Run everything and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few data sets")
    parser.add_argument("--out", type=Path, help="where to write the tables")
    args = parser.parse_args(arguments)
    n = N_QUICK if args.quick else N
    path = args.out or (None if args.quick else RESULTS)
    found = defaultdict(lambda: defaultdict(list))
    for seed in range(n):
        for order in ORDERS:
            for c in (2, 3):
                for n_runs in (N_RUNS, 1):
                    if n_runs == 1 and order == "share rises in recording":
                        continue  # which is that of the run
                    with warnings.catch_warnings(), threadpool_limits(1):
                        warnings.simplefilter("ignore")
                        each = significant(order, c, n_runs, seed)
                    for key, value in each.items():
                        found[order, c, n_runs][key].append(value)
        if path and (seed + 1) % max(1, n // 20) == 0:
            write(path, found, seed + 1)
            print(f"{seed + 1} of {n} data sets", flush=True)


if __name__ == "__main__":
    main()
