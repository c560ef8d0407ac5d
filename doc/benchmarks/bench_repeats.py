"""Procedures that are repeated: the calibration of their null, and their speed.

Run ``python doc/benchmarks/bench_repeats.py``; it takes about twenty minutes with one
thread and rewrites ``results_repeats.rst`` and ``results_repeats_speed.rst`` beside it,
which the documentation includes. ``--part noise`` or ``--part speed`` runs one of them
only, ``--quick`` takes few data sets and small ones, ``--out`` says into which folder
to write.

Calibration: data sets of noise, with labels in random order, are decoded with 19
permutations, so that the smallest p-value is 0.05. Four data sets at a time have the
same labels, permutations and groupings, but noise of their own, as times of an epoch
without any correlation. Seeds were chosen before anything was simulated, and are the
numbers of these fours.

The shortcut: the same averages are decoded, but the null comes from labels of
*averages*, shuffled within test sets and independently in each regrouping. It is
written here in plain code; the package has no such null.

Speed: a time course of 300 trials, 64 channels and 100 times, against the same
regroupings decoded by scikit-learn's shrinkage LDA.
"""

import argparse
import time
import warnings
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
import ratios
from bench_epochs import medians
from bench_paper import duration, list_table, machine
from scipy.signal import lfilter
from scipy.stats import binom
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import KFold, StratifiedKFold
from threadpoolctl import threadpool_limits

from mvpa_kfda import Linear, decode_arrays
from mvpa_kfda.kfda import direct
from mvpa_kfda.kfda.folds import make_folds
from mvpa_kfda.kfda.hat import make_hat

#: The tables of times, and of noise.
RESULTS = Path(__file__).with_name("results_repeats_speed.rst")
NOISE = "results_repeats.rst"
ALPHA, CONFIDENCE, N_PERMUTATIONS = 0.05, 0.99, 19
N_SETS, N_RUNS, N_FEATURES = 3, 3, 6
#: Data sets that are decoded at once.
AT_ONCE = 4
#: Scores that differ by less are ties.
TIE = 1e-9


# ------------------------------------------------------------------------ data of noise


@dataclass(frozen=True)
class Case:
    """Data sets of one kind, and how they are decoded."""

    words: str
    options: dict
    #: Trials of the two classes in each of the three runs.
    sizes: tuple = (8, 8)
    #: Whether runs are left out one at a time, and differ in level.
    has_runs: bool = False
    #: The correlation of a trial with the next one of its run.
    lasting: float = 0.0

    def draw(self, number):
        """Draw features (n, 6, 4), labels (n,) and groups of four data sets, if any."""
        rng = np.random.default_rng((16, number))
        run = np.repeat([0, 1], self.sizes)
        y = np.concatenate([rng.permutation(run) for _ in range(N_RUNS)])
        X = rng.standard_normal((N_RUNS, len(run), N_FEATURES, AT_ONCE))
        if self.lasting:
            X[:, 1:] *= np.sqrt(1 - self.lasting**2)  # the same variance everywhere
            X = lfilter([1], [1, -self.lasting], X, axis=1)
        if self.has_runs:
            X = X + rng.standard_normal((N_RUNS, 1, N_FEATURES, AT_ONCE))
        groups = np.repeat(np.arange(N_RUNS), len(run)) if self.has_runs else None
        return X.reshape(-1, N_FEATURES, AT_ONCE), y, groups

    def decode(self, number):
        """Return the features of four data sets and their result."""
        X, y, groups = self.draw(number)
        options = {} if self.has_runs else {"cv": N_SETS}
        options |= {"n_permutations": N_PERMUTATIONS, "verbose": False, "reg": 0.3}
        options |= self.options
        with warnings.catch_warnings():  # of few averages
            warnings.filterwarnings("ignore", category=UserWarning)
            made = decode_arrays(X, y, groups=groups, random_state=number, **options)
        return X, made


def cases():
    """Return what is decoded, and with how many repeats."""
    four, uneven = {"average": 4}, {"average": 3, "scoring": "balanced_accuracy"}
    equal = uneven | {"equalize": True}
    ten, fifty = {"n_repeats": 10}, {"n_repeats": 50}
    folds = {"cv": KFold(N_SETS, shuffle=True)}
    stratified = {"cv": StratifiedKFold(N_SETS, shuffle=True), "n_repeats": 5}
    runs = {"has_runs": True, "lasting": 0.8}
    alike = "runs of neighbours that resemble each other"
    single = {"average_test": False}
    return [
        *(Case(f"k = 4, r = {r}", four | {"n_repeats": r}) for r in (1, 10, 50)),
        Case("classes 1:3, k = 3, r = 10, balanced accuracy", uneven | ten, (6, 18)),
        Case("the same, equalize=True", equal | ten, (6, 18)),
        Case("the same, equalize=True, r = 50", equal | fifty, (6, 18)),
        Case("runs of different level, k = 4, r = 10", four | ten, has_runs=True),
        Case(f"{alike}, k = 4, r = 10", four | ten, **runs),
        Case("the same, r = 50", four | fifty, **runs),
        Case("single trials tested, k = 4, r = 10", four | ten | single),
        Case("no averages, KFold drawn anew, r = 10", folds | ten),
        Case("no averages, StratifiedKFold drawn anew, r = 5", stratified),
    ]


# --------------------------------------------------------------------------- the nulls


def shortcut(X, result, seed):
    """Return the nulls (P, 4) of labels of averages shuffled anew in each regrouping.

    The regroupings are those of a result, and so are the observed scores.
    """
    rng = np.random.default_rng((17, seed))
    r = result.repeats["accuracy"].shape[1] if result.repeats else 1
    regroupings = result.members.reshape(r, -1, result.members.shape[1])
    n, found = regroupings.shape[1], []
    for members, codes, tests in zip(
        regroupings,
        result.y.reshape(r, n),
        np.reshape(np.array(result.tests, dtype=object), (r, N_SETS, -1)),
        strict=True,
    ):
        tests = [test.astype(int) % n for test in tests]
        labels = np.tile(codes, (N_PERMUTATIONS + 1, 1))
        for test in tests:
            labels[1:, test] = rng.permuted(labels[1:, test], axis=1)
        averages = X[members].mean(axis=1)  # (n, 6, 4)
        pairs = [(np.setdiff1d(np.arange(n), test), test) for test in tests]
        folds = make_folds(pairs, codes)
        plans = [
            direct.prepare(make_hat(each, Linear(), 0.3), folds)
            for each in averages.transpose(2, 0, 1)
        ]
        made = [direct.apply(plan, labels, 2) for plan in plans]
        found.append([(each.predicted == each.true).mean(axis=0) for each in made])
    scores, *nulls = np.mean(found, axis=0).T
    np.testing.assert_allclose(scores, result.scores, rtol=0, atol=TIE)
    return nulls


@dataclass
class Found:
    """Observed scores and their nulls, data set after data set."""

    scores: list = field(default_factory=list)
    nulls: list = field(default_factory=list)

    def add(self, scores, nulls):
        """Take in the scores (4,) and nulls (P, 4) of four data sets."""
        self.scores += list(scores)
        self.nulls += list(np.transpose(nulls))

    @property
    def _ranks(self):
        """How many permuted scores are larger than the observed, and how many tie."""
        gaps = np.array(self.nulls) - np.array(self.scores)[:, np.newaxis]
        return (gaps > TIE).sum(axis=1), (np.abs(gaps) <= TIE).sum(axis=1)

    @property
    def hits(self):
        """Whether p <= 0.05, of every data set."""
        larger, ties = self._ranks
        return (1 + larger + ties) / (1 + N_PERMUTATIONS) <= ALPHA + TIE

    @property
    def hits_of_ties(self):
        """The chance of p <= 0.05 if ties are broken at random, of every data set."""
        larger, ties = self._ranks
        return (larger == 0) / (1 + ties)

    @property
    def spread(self):
        """The standard deviation of the observed scores over data sets."""
        return np.std(self.scores, ddof=1)

    @property
    def width(self):
        """That of permuted scores within data sets."""
        return np.sqrt(np.mean(np.var(self.nulls, axis=1, ddof=1)))


def study(n):
    """Decode n data sets of every case; return `Found` by words, true and shortcut."""
    true, short = {}, {}
    start = time.perf_counter()
    for case in cases():
        found, also = Found(), Found()
        for number in range(n // AT_ONCE):
            X, result = case.decode(number)
            found.add(result.scores, result.null)
            if case.words.startswith("k = 4, r ="):
                also.add(result.scores, shortcut(X, result, number))
        true[case.words] = found
        if also.scores:
            short[case.words] = also
        seconds = duration(time.perf_counter() - start)
        print(f"{case.words}: {percent(found.hits)}, after {seconds}", flush=True)
    return true, short


def interval(n, rate=ALPHA):
    """Return what the share of n data sets is within if its true value is a rate."""
    return np.array(binom.interval(CONFIDENCE, n, rate)) / n


def percent(hits):
    """Word a share of data sets, marked if it is not 5 % within sampling error."""
    low, high = interval(len(hits))
    rate = np.mean(hits)
    mark = " ↑" if rate > high else " ↓" if rate < low else ""
    return f"{100 * rate:.1f}{mark}"


def rows_of(found):
    """Return the cells of a table of `Found` by words."""
    return [
        [
            words,
            percent(each.hits),
            percent(each.hits_of_ties),
            f"{each.spread:.4f}",
            f"{each.width:.4f}",
            f"{each.width / each.spread:.2f}",
        ]
        for words, each in found.items()
    ]


def write_noise(path, true, short):
    """Write the tables on noise."""
    n = len(next(iter(true.values())).scores)
    low, high = 100 * interval(n)
    header = ["Found", "Ties at random", "Spread of scores", "Width of nulls", "Ratio"]
    lines = [
        ".. Written by bench_repeats.py.",
        "",
        machine(),
        "",
        f"{n} data sets of noise in each row, {N_PERMUTATIONS} permutations each: 48 "
        "trials (72 with unequal classes) in random order, also within runs, 6 "
        "features, 3 test sets, accuracy unless stated otherwise. Sets of four data "
        "sets share labels, permutations and groupings. Found is the percentage of "
        f"data sets with p <= {ALPHA:g}; {low:.1f} to {high:.1f} % is calibrated "
        f"({100 * CONFIDENCE:g} % binomial interval), and ↑ and ↓ mark values above or "
        "below. Ties count against an effect, so tests of few trials and a single "
        "grouping find less; the next column is the percentage if ties were broken at "
        "random, which should be 5 %. Spread is the standard deviation of the scores "
        "over data sets, width that of the permuted scores of a data set: a valid null "
        "distribution is as wide as the spread of the scores.",
        "",
        *list_table(["Labels of trials are permuted", *header], rows_of(true)),
        "The same data sets, groupings and scores, with the null distribution of the "
        "shortcut: labels of averages shuffled within test sets, independently in each "
        "regrouping. With a single grouping this is correct, and is what is done. With "
        "several, the means under this null vary too little: independent shuffles "
        "cancel each other, regroupings of the same trials do not.",
        "",
        *list_table(["Labels of averages are shuffled", *header], rows_of(short)),
    ]
    path.write_text("\n".join(lines), encoding="utf-8")


# -------------------------------------------------------------------------------- speed


@dataclass(frozen=True)
class Size:
    """A time course, and how much of it is timed."""

    n: int = 300
    p: int = 64
    n_times: int = 100
    k: int = 5
    r: int = 20
    #: Permutations that are timed, and those that are asked for.
    timed: tuple = (10, 20)
    asked: int = 200
    #: Repeats of the loop that are timed.
    looped: int = 2
    #: How often everything is timed.
    runs: int = 3

    def words(self, permutations):
        """Word the problem with its permutations in words."""
        trials = f"{self.n} x {self.p} x {self.n_times}"
        return f"{trials}, k = {self.k}, r = {self.r}, {permutations}"


QUICK_SIZE = Size(n=60, p=4, n_times=3, k=2, r=4, timed=(1, 2), asked=5, runs=1)


def lda_loop(X, y, r, k):
    """Group trials r times and cross-validate shrinkage LDA at all times.

    Trials are averaged within the test sets; return the mean accuracy of every time.
    """
    tests = [test for _, test in StratifiedKFold(N_SETS).split(X, y)]
    scores = np.empty((r, X.shape[2]))
    for j in range(r):
        rng, averages, classes, sets = np.random.default_rng(j), [], [], []
        for number, test in enumerate(tests):
            for c in (0, 1):
                trials = rng.permutation(test[y[test] == c])
                members = trials[: len(trials) // k * k].reshape(-1, k)
                averages.append(X[members].mean(axis=1))
                classes += [c] * len(members)
                sets += [number] * len(members)
        averages = np.concatenate(averages)
        classes, sets = np.array(classes), np.array(sets)
        for t in range(X.shape[2]):
            correct = 0
            for number in range(N_SETS):
                train, test = sets != number, sets == number
                lda = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
                lda.fit(averages[train, :, t], classes[train])
                predicted = lda.predict(averages[test, :, t])
                correct += np.count_nonzero(predicted == classes[test])
            scores[j, t] = correct / len(classes)
    return scores.mean(axis=0)


def sides(size):
    """Return how the package decodes with permutations, and the loop without any."""
    rng = np.random.default_rng(0)
    y = np.arange(size.n) % 2
    X = rng.standard_normal((size.n, size.p, size.n_times))
    X += 0.1 * y[:, np.newaxis, np.newaxis]
    options = {"cv": N_SETS, "average": size.k, "n_repeats": size.r, "reg": 0.3}

    def decode(n_permutations):
        options["n_permutations"] = n_permutations
        decode_arrays(X, y, random_state=0, verbose=False, **options)

    return decode, partial(lda_loop, X, y, size.looped, size.k)


def measure_speed(size):
    """Return the rows of the table of times."""
    decode, looped = sides(size)
    calls = {str(n): partial(decode, n) for n in (0, *size.timed)}
    seconds = medians(size.runs, loop=looped, **calls)
    loop = seconds["loop"] * size.r / size.looped
    fewer, more = (seconds[str(n)] for n in size.timed)
    each = (more - fewer) / (size.timed[1] - size.timed[0])
    permuted = more + each * (size.asked - size.timed[1])
    refitted = loop * (size.asked + 1)
    scaled = f"{size.looped} repeats, times {size.r / size.looped:g}"
    return [
        [
            size.words("no permutations"),
            duration(seconds["0"]),
            f"shrinkage LDA: {duration(loop)} ({scaled})",
            f"{seconds['0'] / loop:.3f} of its time",
        ],
        [
            size.words(f"{size.timed[1]} permutations"),
            duration(more),
            f"the same loop {size.timed[1] + 1} times: "
            f"{duration(loop * (size.timed[1] + 1))}",
            f"{more / loop / (size.timed[1] + 1):.3f} of its time",
        ],
        [
            size.words(f"{size.asked} permutations"),
            f"{duration(permuted)} (of {' and '.join(map(str, size.timed))})",
            f"the same loop {size.asked + 1} times: {duration(refitted)}",
            f"{permuted / refitted:.3f} of its time",
        ],
        [size.words("each further permutation"), duration(each), "", ""],
    ]


def quick_cases():
    """Return what --check compares with the table of times: fewer times decoded."""
    size = Size()
    fewer = replace(size, n_times=30, looped=1)
    decode, looped = sides(fewer)
    n = size.timed[1]
    words = size.words(f"{n} permutations")
    loops = size.r / fewer.looped * (n + 1)
    return [ratios.Case(words, partial(decode, n), looped, times=loops)]


def write_speed(path, rows):
    """Write the table of times."""
    lines = [
        ".. Written by bench_repeats.py.",
        "",
        machine(),
        "",
        "Two classes, 3 folds, one job; medians of alternating runs. The loop groups "
        "trials as often and as large, averages them and cross-validates "
        '``LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")`` at every '
        "time. It is timed with fewer repeats, all of which take equally long, and "
        "the permutations that are not timed are extrapolated from those that are.",
        "",
        *list_table(["Problem", "mvpa_kfda", "Against", "Ratio"], rows),
    ]
    path.write_text("\n".join(lines), encoding="utf-8")


def main(arguments=None):
    """Run everything and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=("noise", "speed"), help="one part only")
    parser.add_argument("--quick", action="store_true", help="few data sets")
    parser.add_argument("--out", type=Path, help="the folder to write to")
    parser.add_argument("--check", action="store_true", help=ratios.CHECK_HELP)
    args = parser.parse_args(arguments)
    if args.check:
        ratios.end(ratios.check(RESULTS, quick_cases()))
    folder = args.out or (None if args.quick else RESULTS.parent)
    with threadpool_limits(1):
        if args.part != "speed":
            true, short = study(4 if args.quick else 1000)
            if folder:
                write_noise(folder / NOISE, true, short)
        if args.part != "noise":
            rows = measure_speed(QUICK_SIZE if args.quick else Size())
            print(*map(" | ".join, rows), sep="\n")
            if folder:
                write_speed(folder / RESULTS.name, rows)


if __name__ == "__main__":
    main()
