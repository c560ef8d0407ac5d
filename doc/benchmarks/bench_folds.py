"""How often noise that lasts or drifts is significant, with every default of folds.

Run ``python doc/benchmarks/bench_folds.py``; it takes about 40 minutes with one thread
and rewrites ``results_folds.rst`` beside it, which the documentation includes.
``--quick`` takes few data sets, ``--out`` says where to write. There is no ``--check``:
what few data sets can show, the slow tests show.

Every data set is noise, with labels in random order. Seeds are the numbers of the data
sets.
"""

import argparse
import os
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from bench_paper import list_table
from scipy.signal import lfilter
from scipy.stats import binom
from sklearn.model_selection import StratifiedKFold
from threadpoolctl import threadpool_limits

from mvpa_kfda import cross_validate, generalize_arrays, group_inference, regress

RESULTS = Path(__file__).with_name("results_folds.rst")
ALPHA, N, P, N_PERMUTATIONS = 0.05, 80, 10, 199
SIDES = ("greater", "less", "two-sided")
N_SUBJECTS, N_SECOND = 16, 999


# ----------------------------------------------------------------------------- the data


def lasting(rng, rho, n=N):
    """Draw noise (n, P) of which every trial is rho times the last one, and new."""
    burnt_in = rng.standard_normal((n + 100, P))
    return lfilter([1], [1, -rho], burnt_in, axis=0)[100:]


def drifting(rng, size, n=N):
    """Draw noise (n, P) with a linear drift of so many standard deviations."""
    slopes = rng.standard_normal(P)
    slopes /= np.abs(slopes).mean()
    drift = size * np.outer(np.linspace(-0.5, 0.5, n), slopes)
    return rng.standard_normal((n, P)) + drift


NOISES = {
    "independent": partial(lasting, rho=0.0),
    "AR .5": partial(lasting, rho=0.5),
    "AR .7": partial(lasting, rho=0.7),
    "AR .9": partial(lasting, rho=0.9),
    "drift 1": partial(drifting, size=1.0),
    "drift 3": partial(drifting, size=3.0),
    "drift 10": partial(drifting, size=10.0),
}


def labels(rng, counts):
    """Draw labels in random order."""
    return rng.permutation(np.repeat(np.arange(len(counts)), counts))


def in_runs(rng):
    """Draw labels in random order within 8 runs."""
    return np.concatenate([labels(rng, (5, 5)) for _ in range(N // 10)])


def of_subjects(rng):
    """Draw labels of 16 subjects with 5 trials each."""
    return np.repeat(labels(rng, (8, 8)), N // 16)


HALVES, THIRDS, RARE, MANY = (40, 40), (27, 27, 26), (75, 5), (100, 100)
CLASSES = ("accuracy", "roc_auc")
#: What is decoded how -> numbers of trials of the classes or their labels, options.
DESIGNS = {
    "the default, 10 folds": (HALVES, {}),
    "``cv=5``": (HALVES, {"cv": 5}),
    "200 trials": (MANY, {}),
    "three classes": (THIRDS, {}),
    "5 trials of one class, 75 of the other": (RARE, {}),
    "``n_repeats=5``": (HALVES, {"n_repeats": 5}),
    "``average=3``": (HALVES, {"average": 3, "cv": 5}),
    "``average=3``, ``n_repeats=2``": (
        HALVES,
        {"average": 3, "cv": 5, "n_repeats": 2},
    ),
    "8 runs, left out": (in_runs, {"groups": np.arange(N) // 10}),
    "16 subjects of two kinds, left out": (of_subjects, {"groups": np.arange(N) // 5}),
}
#: Folds that look at labels: shown the permuted ones, and kept for them.
SHOWN = {"cv": StratifiedKFold(10)}
KEPT = SHOWN | {"permute": "within_folds"}
#: With a model for every permutation, and fewer data sets.
SLOW = "``StratifiedKFold(10)``"


def classify(counts, options, noise, number):
    """Return a result of noise."""
    rng = np.random.default_rng(number)
    if callable(counts):
        X, y = noise(rng), counts(rng)
    else:
        X, y = noise(rng, n=sum(counts)), labels(rng, counts)
    options = {"scoring": list(CLASSES), "n_permutations": N_PERMUTATIONS} | options
    return cross_validate(X, y, random_state=number, **options)


def cross_decode(noise, number):
    """Return a result of noise, trained on half of the trials, drawn at random."""
    half = np.random.default_rng((2, number)).permutation(N) < N // 2
    return classify(HALVES, {"train_on": half}, noise, number)


def generalize(noise, number):
    """Return a result of noise at two times, half of it the same."""
    rng = np.random.default_rng(number)
    common, y = noise(rng), labels(rng, HALVES)
    X = np.stack([common + noise(rng) for _ in range(2)], axis=2)
    options = {"scoring": list(CLASSES), "n_permutations": N_PERMUTATIONS}
    return generalize_arrays(X, y, random_state=number, verbose=False, **options)


def predict(options, noise, number):
    """Return a result of noise, by which numbers in random order are predicted."""
    rng = np.random.default_rng(number)
    X, y = noise(rng), rng.standard_normal(N)
    options = {"scoring": ["pearsonr", "r2"], "n_permutations": N_PERMUTATIONS}
    return regress(X, y, random_state=number, **options)


# ---------------------------------------------------------------------------- the rates


def rates(decode, n, metrics):
    """Return how often p is 0.05 or less, by noise, then metric and side."""
    found = {}
    for words, noise in NOISES.items():
        results = [decode(noise, number) for number in range(n)]
        for metric in metrics:
            for side in SIDES:
                p = [_pvalue(result, metric, side) for result in results]
                rate = np.mean(np.array(p) <= ALPHA + 1e-9)
                found.setdefault(words, {})[metric, side] = rate
    return found


def _pvalue(result, metric, side):
    """Return the p-value; of two times, that from the first to the second."""
    p = result.pvalues("none", metric=metric, alternative=side)
    return p[0, 1] if np.ndim(p) else p


def group_rates(n, options):
    """Return how often a group is significant, by noise, metric and test."""
    found = {}
    for words, noise in NOISES.items():
        hits = {}
        for number in range(n):
            seeds = N_SUBJECTS * number + np.arange(N_SUBJECTS)
            group = [classify(HALVES, options, noise, int(seed)) for seed in seeds]
            for metric in CLASSES:
                for method in ("bootstrap", "sign-flip", "prevalence"):
                    tested = group_inference(
                        group,
                        method,
                        "none",
                        metric=metric,
                        n_permutations=N_SECOND,
                        random_state=number,
                    )
                    p = tested.pvalues()
                    hits.setdefault((metric, method), []).append(p <= ALPHA + 1e-9)
        found[words] = {key: np.mean(each) for key, each in hits.items()}
    return found


def power(n):
    """Return the accuracy and the power of classes that differ, by the folds."""
    found = {}
    for words, options in (("10 folds of neighbours", {}), ("stratified, kept", KEPT)):
        scores, hits = [], []
        for number in range(n):
            rng = np.random.default_rng((1, number))
            X, y = lasting(rng, 0.0), labels(rng, HALVES)
            X[:, 0] += 0.9 * y
            options = {"n_permutations": N_PERMUTATIONS} | options
            result = cross_validate(X, y, random_state=number, **options)
            scores.append(result.scores)
            hits.append(result.pvalues() <= ALPHA + 1e-9)
        found[words] = np.mean(scores), np.mean(hits)
    return found


# --------------------------------------------------------------------------- the tables


def within(n):
    """Word what a rate of 5 % is within in n data sets, with 99 % confidence."""
    low, high = 100 * np.array(binom.interval(0.99, n, ALPHA)) / n
    return f"{low:.1f} to {high:.1f} %"


def table(found, n):
    """Return the lines of a table of noises by metrics and sides."""
    low, high = np.array(binom.interval(0.99, n, ALPHA)) / n
    columns = list(next(iter(found.values())))
    short = {"accuracy": "acc.", "roc_auc": "AUC", "pearsonr": "r", "r2": "R²"}
    header = ["Noise", *(f"{short[metric]}, {side}" for metric, side in columns)]
    rows = []
    for words, each in found.items():
        marks = [" ↑" if r > high else " ↓" if r < low else "" for r in each.values()]
        cells = [f"{100 * r:.1f}" for r in each.values()]
        rows.append([words, *map("".join, zip(cells, marks, strict=True))])
    return list_table(header, rows)


def study(n):
    """Yield title, what was found, and in how many data sets, one design at a time."""
    few = max(2, n // 2)
    for words, (counts, options) in DESIGNS.items():
        yield words, rates(partial(classify, counts, options), n, CLASSES), n
    yield "``train_on``", rates(cross_decode, n, CLASSES), n
    yield "generalization to another time", rates(generalize, n, CLASSES), n
    yield "``regress``", rates(partial(predict, {}), n, ("pearsonr", "r2")), n
    shown = partial(classify, HALVES, SHOWN)
    yield SLOW, rates(shown, few, CLASSES), few
    for counts in (HALVES, MANY):
        words = f'{SLOW}, ``permute="within_folds"``, {sum(counts)} trials'
        yield words, rates(partial(classify, counts, KEPT), n, CLASSES), n
    yield f"groups of {N_SUBJECTS}, the default", group_rates(n, {}), n


def run(n, path):
    """Decode, and write the tables as they come."""
    lines = [
        f"Noise, {N} trials, {P} features, {N_PERMUTATIONS} permutations, labels in "
        "random order: how often p <= 0.05, in %. ↑ and ↓: not 5 % within sampling "
        "error (99 %).",
        "",
    ]
    for words, found, many in study(n):
        title = words[0].upper() + words[1:]
        lines += [title, "~" * len(title), "", f"{many} data sets: {within(many)}.", ""]
        lines += table(found, many)
        path.write_text("\n".join(lines), encoding="utf-8")
    lines += ["Power", "~~~~~", "", f"{n} data sets, independent noise.", ""]
    rows = [[w, f"{a:.3f}", f"{100 * b:.1f} %"] for w, (a, b) in power(n).items()]
    lines += list_table(["Folds", "mean accuracy", "p <= 0.05"], rows)
    path.write_text("\n".join(lines), encoding="utf-8")


def main(arguments=None):
    """Run everything and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few data sets")
    parser.add_argument("--out", type=Path, help="where to write the tables")
    args = parser.parse_args(arguments)
    path = args.out or (Path(os.devnull) if args.quick else RESULTS)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run(2 if args.quick else 400, path)


if __name__ == "__main__":
    main()
