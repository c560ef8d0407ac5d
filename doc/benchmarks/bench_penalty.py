"""Accuracy and run time of each way to choose the penalty.

Run ``python doc/benchmarks/bench_penalty.py``; it takes some minutes with one thread
and rewrites ``results_penalty.rst`` beside it, which the documentation includes.
``--quick`` takes few data sets, ``--out`` says where to write. ``--real DIR`` compares
accuracies on recordings that lie in a folder, and rewrites
``results_penalty_recordings.rst``.

Simulated trials have noise of unit variance, class means in random directions, and
where that is said noise that a few sources spread over all features, as volume
conduction does, or noise that lasts from trial to trial within a run. Accuracies are
cross-validated in the same folds for all: 10 of them, or one for each run. What is
chosen from the data is chosen inside each training set, except for the shrinkage that
``"ledoit_wolf"``, ``"oas"`` and ``Shrinkage`` take from all trials without their
labels. Before anything is timed, ``Tuned`` must find what scikit-learn's
``GridSearchCV`` finds when it refits.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import ratios
from bench_epochs import medians
from bench_paper import duration, list_table, machine
from scipy.signal import lfilter
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    LeaveOneGroupOut,
    LeaveOneOut,
    StratifiedKFold,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from mvpa_kfda import (
    DegreesOfFreedom,
    KernelFDA,
    Ridge,
    Shrinkage,
    Tuned,
    cross_validate,
)

RESULTS = Path(__file__).with_name("results_penalty.rst")
RESULTS_REAL = RESULTS.with_stem("results_penalty_recordings")
N_SETS = 24
N_SOURCES = 8
LASTING = 0.8  # correlation of noise from trial to trial, in runs


@dataclass(frozen=True)
class Case:
    """A kind of data."""

    text: str
    n: int
    p: int
    n_classes: int
    effect: float
    correlated: bool = False
    n_runs: int | None = None  # None: no runs, noise of trials is independent
    block: int = 1  # trials of a class in a row

    def describe(self):
        """Word the case for a row of the table."""
        runs = f", {self.n_runs} runs" if self.n_runs else ""
        return (
            f"{self.text}; {self.n} trials, {self.p} features, {self.n_classes} "
            f"classes{runs}"
        )

    def draw(self, seed):
        """Draw features, labels and runs."""
        rng = np.random.default_rng(seed)
        groups, y = None, rng.permutation(np.arange(self.n) % self.n_classes)
        noise = rng.standard_normal((self.n, self.p))
        if self.correlated:
            spread = rng.standard_normal((N_SOURCES, self.p)) * 2
            noise += rng.standard_normal((self.n, N_SOURCES)) @ spread
        if self.n_runs:
            groups = np.arange(self.n) * self.n_runs // self.n
            y = np.concatenate([self._order(rng) for _ in range(self.n_runs)])
            noise = np.concatenate(
                [last(noise[groups == g]) for g in np.unique(groups)]
            )
        means = rng.standard_normal((self.n_classes, self.p))
        means *= self.effect / np.linalg.norm(means, axis=1, keepdims=True)
        return noise + means[y], y, groups

    def _order(self, rng):
        """Return the labels of a run: blocks of a class in random order."""
        n_blocks = self.n // self.n_runs // self.block
        order = rng.permutation(np.arange(n_blocks) % self.n_classes)
        return np.repeat(order, self.block)


def last(noise):
    """Return noise (n, p) whose values persist from trial to trial."""
    # The first trial, too, has the variance of all others.
    fresh = noise * np.sqrt(1 - LASTING**2)
    fresh[0] = noise[0]
    return lfilter([1], [1, -LASTING], fresh, axis=0)


CASES = (
    Case("few features, weak effect", 120, 20, 2, 1.0),
    Case("few features, strong effect", 120, 20, 2, 2.5),
    Case("many features, weak effect", 80, 300, 2, 2.0),
    Case("many features, strong effect", 80, 300, 2, 3.5),
    Case("correlated noise", 120, 60, 2, 2.0, correlated=True),
    Case("correlated noise, many features", 80, 300, 2, 4.0, correlated=True),
    Case("noise lasts, blocks of trials", 144, 60, 2, 1.5, False, 6, 6),
    Case("eight classes", 160, 40, 8, 2.5),
    Case("eight classes, noise lasts, blocks", 192, 150, 8, 3.0, False, 6, 4),
)


LETTERS = "ABCDEFGHI"


# ------------------------------------------------------------------- ways to choose


def quarter(X):
    """Return a quarter of the directions that trials have, and the intercept."""
    return 1 + min(len(X) - 1, X.shape[1]) / 4


DEFAULT = '``"auto"``, the default'
#: Name -> reg for the data, of those that mvpa_kfda offers.
WAYS = {
    DEFAULT: lambda X: "auto",
    "``reg=0.3``": lambda X: 0.3,
    "tuned, squared error": lambda X: Tuned(),
    "tuned, accuracy": lambda X: Tuned(criterion="accuracy"),
    "tuned, log loss": lambda X: Tuned(criterion="log_loss"),
    "tuned, squared error, one trial at a time": lambda X: Tuned(cv=LeaveOneOut()),
    "``DegreesOfFreedom``, a quarter": lambda X: DegreesOfFreedom(quarter(X)),
    '``"ledoit_wolf"``': lambda X: "ledoit_wolf",
    '``"oas"``': lambda X: "oas",
    "``Shrinkage(0.1)``": lambda X: Shrinkage(0.1),
}
#: Those of scikit-learn, refitted in every fold.
OTHERS = {
    "LDA, ``shrinkage='auto'``": LinearDiscriminantAnalysis(
        solver="lsqr", shrinkage="auto"
    ),
    "linear SVC, ``C=1``": SVC(kernel="linear"),
    "the same, standardised": make_pipeline(StandardScaler(), SVC(kernel="linear")),
    "LDA, ``shrinkage='auto'``, standardised": make_pipeline(
        StandardScaler(), LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
    ),
    "logistic regression, ``C=1``, standardised": make_pipeline(
        StandardScaler(), LogisticRegression(max_iter=1000)
    ),
}
#: What people use by default, with which ours is compared.
RIVALS = tuple(name for name in OTHERS if name != "linear SVC, ``C=1``")
DIFFERENCE = '``"auto"`` less the best of LDA and the standardised ones'


def folds_for(groups):
    """Return the folds that all ways share."""
    return StratifiedKFold(10) if groups is None else LeaveOneGroupOut()


def accuracies(X, y, groups):
    """Return the cross-validated accuracy of every way."""
    cv = folds_for(groups)
    found = {}
    for name, reg in WAYS.items():
        if groups is None and "one trial" in name:
            found[name] = found["tuned, squared error"]  # it is the same
            continue
        found[name] = cross_validate(X, y, groups=groups, reg=reg(X), cv=cv).scores
    for name, model in OTHERS.items():
        folds = [len(test) for _, test in cv.split(X, y, groups)]
        scores = cross_val_score(model, X, y, groups=groups, cv=cv)
        found[name] = np.average(scores, weights=folds)
    return found


def compare(cases, n_sets):
    """Return the rows of the table of accuracies."""
    columns = []
    for number, case in enumerate(cases):
        sets = [accuracies(*case.draw((number, seed))) for seed in range(n_sets)]
        columns.append({name: [each[name] for each in sets] for name in sets[0]})
        print(case.describe(), flush=True)
        for name, values in columns[-1].items():
            print(f"  {name}: {with_error(values)}", flush=True)
    rows = [("Penalty", *LETTERS[: len(cases)])]
    for name in columns[0]:
        rows.append((name, *(with_error(column[name]) for column in columns)))
    rows.append((DIFFERENCE, *(f"{advantage(column):+.1f}" for column in columns)))
    return rows


def advantage(found):
    """Return how much the default is better than the best rival, in points."""
    best = max(np.mean(found[name]) for name in RIVALS)
    return 100 * (np.mean(found[DEFAULT]) - best)


def with_error(values):
    """Word the mean and its standard error, both in per cent."""
    error = np.std(values, ddof=1) / np.sqrt(len(values))
    return f"{100 * np.mean(values):.1f} ± {100 * error:.1f}"


# ------------------------------------------------------------------------- run time

TIMED = Case("", 200, 64, 2, 1.2)
OUTER, INNER = KFold(10), KFold(5, shuffle=True, random_state=0)
GRID = np.geomspace(1e3, 1e-1, 20)  # the largest first, which wins where two are equal


def search(cv):
    """Return scikit-learn's nested search over the same penalties."""
    candidates = {"reg": [Ridge(lam) for lam in GRID]}
    return GridSearchCV(KernelFDA(), candidates, cv=cv)


def check_equal(X, y):
    """Raise unless refitting in nested loops finds the same, with inner folds alike."""
    reg = Tuned([Ridge(lam) for lam in GRID], "accuracy", INNER)
    ours = cross_validate(X, y, reg=reg, cv=OUTER)
    theirs = cross_val_score(search(INNER), X, y, cv=OUTER).mean()
    np.testing.assert_allclose(ours.scores, theirs, rtol=0, atol=1e-12)


#: What is timed in words, and what its time is compared with.
TIMES = {
    "fixed": ("``reg=0.3``", None),
    "auto": (DEFAULT, "fixed"),
    "loo": ("``Tuned``, leave-one-out inside", "fixed"),
    "fifths": ("``Tuned``, 5 folds inside, by accuracy", "fixed"),
    "grid": ("``GridSearchCV(KernelFDA())``, 5 folds inside, refitted", "fixed"),
    "grid_loo": (
        "the same, leave-one-out inside, extrapolated from one of the 10 outer folds",
        "fixed",
    ),
    "fixed_100": ("``reg=0.3``, 100 permutations", None),
    "auto_100": (f"{DEFAULT}, 100 permutations", "fixed_100"),
    "loo_100": ("``Tuned``, leave-one-out inside, 100 permutations", "fixed_100"),
}
OF_FIXED = "Of a fixed penalty's"


def timed(X, y):
    """Return functions by their names in `TIMES`, but for the one extrapolated."""
    lambdas = [Ridge(lam) for lam in GRID]

    def ours(reg, n_permutations=0):
        options = {"n_permutations": n_permutations, "random_state": 0}
        return lambda: cross_validate(X, y, reg=reg, cv=OUTER, **options)

    return {
        "fixed": ours(0.3),
        "auto": ours("auto"),
        "loo": ours(Tuned(lambdas)),
        "fifths": ours(Tuned(lambdas, "accuracy", INNER)),
        "fixed_100": ours(0.3, 100),
        "auto_100": ours("auto", 100),
        "loo_100": ours(Tuned(lambdas), 100),
        "grid": lambda: cross_val_score(search(INNER), X, y, cv=OUTER),
    }


def times(n_runs):
    """Return the rows of the table of run times."""
    X, y, _ = TIMED.draw(0)
    check_equal(X, y)

    def one_outer_fold():
        train, _ = next(OUTER.split(X, y))
        search(LeaveOneOut()).fit(X[train], y[train])

    seconds = medians(n_runs, **timed(X, y)) | medians(1, grid_loo=one_outer_fold)
    seconds["grid_loo"] *= OUTER.get_n_splits()
    rows = [("What", "Time", OF_FIXED)]
    for name, (words, base) in TIMES.items():
        ratio = "" if base is None else f"{seconds[name] / seconds[base]:.3g} times"
        rows.append((words, duration(seconds[name]), ratio))
        print(" | ".join(rows[-1]), flush=True)
    return rows


def quick_cases():
    """Return what --check compares with the table: what ``Tuned`` costs."""
    sides = timed(*TIMED.draw(0)[:2])
    rows = ((name, *TIMES[name]) for name in ("auto", "loo", "fifths", "loo_100"))
    return [
        ratios.Case(words, sides[name], sides[base], column=OF_FIXED)
        for name, words, base in rows
    ]


# ------------------------------------------------------------------ real recordings


OBJECTS, WORDS = "zhang-desimone-7objects-epo.fif", "n400-words-epo.fif"
#: Name, file, the time that is averaged in seconds, groups.
RECORDINGS = (
    ("7 objects, 0.14 s, 10 folds", OBJECTS, 0.139, 0.141, None),
    ("7 objects, 0.11 to 0.3 s, 10 folds", OBJECTS, 0.109, 0.301, None),
    ("7 objects, 0.14 s, position left out", OBJECTS, 0.139, 0.141, "position"),
    ("N400, 0.38 s, 10 folds", WORDS, 0.379, 0.381, None),
)


def real_sets(folder):
    """Yield the name, features, labels and groups of real recordings."""
    import mne
    import pandas as pd
    from nibabel import load

    bold = np.asarray(load(folder / "haxby-slice-bold.nii.gz").dataobj, float)
    table = pd.read_csv(folder / "haxby-slice-labels.tsv", sep="\t")
    starts = (table != table.shift()).any(axis=1).cumsum()
    kept = (table["label"] != "rest").to_numpy()
    table, X = table[kept], bold.reshape(-1, bold.shape[-1]).T[kept]
    X = X[:, X.std(axis=0) > 0]
    labels, runs = table["label"].to_numpy(), table["run"].to_numpy()
    _, first, block = np.unique(starts[kept], return_index=True, return_inverse=True)
    means = np.stack([X[block == i].mean(axis=0) for i in range(len(first))])
    means = standard(means, runs[first])
    yield "Haxby slice, block means", means, labels[first], runs[first]
    yield "Haxby slice, volumes", standard(X, runs), labels, runs
    for name, file, start, stop, groups in RECORDINGS:
        epochs = mne.read_epochs(folder / file, verbose=False)
        near = (epochs.times > start) & (epochs.times < stop)
        X = epochs.get_data(picks="all")[:, :, near].mean(axis=2)
        X = X[:, X.std(axis=0) > 0]
        groups = None if groups is None else epochs.metadata[groups].to_numpy()
        yield name, X / X.std(), epochs.events[:, 2], groups


def standard(X, runs):
    """Return features z-scored within runs."""
    X = X.copy()
    for run in np.unique(runs):
        rows = runs == run
        X[rows] -= X[rows].mean(axis=0)
        X[rows] /= np.maximum(X[rows].std(axis=0), 1e-12)
    return X


#: The columns of the table of real recordings, and what stands over them.
SHOWN = {
    DEFAULT: DEFAULT,
    "``reg=0.3``": "``0.3``",
    "tuned, squared error": "tuned",
    '``"ledoit_wolf"``': '``"ledoit_wolf"``',
    RIVALS[0]: "LDA",
    RIVALS[2]: "LDA, z",
    RIVALS[1]: "SVC, z",
    RIVALS[3]: "logistic, z",
}


def compare_real(folder):
    """Return the rows of the table of accuracies on real recordings."""
    rows = [("Recording", *SHOWN.values(), "difference")]
    for name, X, y, groups in real_sets(folder):
        found = accuracies(X, y, groups)
        shares = (f"{100 * found[way]:.1f}" for way in SHOWN)
        size = f"{len(X)} trials, {X.shape[1]} features"
        rows.append((f"{name}; {size}", *shares, f"{advantage(found):+.1f}"))
        print(" | ".join(rows[-1]), flush=True)
    return rows


# --------------------------------------------------------------------------- output


def write(path, accuracy, seconds, n_sets):
    """Write the tables."""
    lines = [
        ".. Written by bench_penalty.py.",
        "",
        machine(),
        "",
        f"Cross-validated accuracy in per cent, mean and standard error over {n_sets} "
        "data sets of each kind. The kinds are",
        "",
        *(f"* {k}: {c.describe()}" for k, c in zip(LETTERS, CASES, strict=True)),
        "",
        *list_table(accuracy[0], accuracy[1:]),
        f"Time for {TIMED.n} trials, {TIMED.p} features, {TIMED.n_classes} classes, 10 "
        f"outer folds and {len(GRID)} penalties to choose from:",
        "",
        *list_table(seconds[0], seconds[1:]),
    ]
    path.write_text("\n".join(lines))


def write_real(path, rows):
    """Write the table of real recordings."""
    lines = [".. Written by bench_penalty.py.", "", machine(), ""]
    path.write_text("\n".join([*lines, *list_table(rows[0], rows[1:])]))


def main(arguments=None):
    """Run everything and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few data sets")
    parser.add_argument("--out", type=Path, help="where to write the tables")
    parser.add_argument("--real", type=Path, metavar="DIR", help="real recordings")
    parser.add_argument("--check", action="store_true", help=ratios.CHECK_HELP)
    args = parser.parse_args(arguments)
    if args.check:
        ratios.end(ratios.check(RESULTS, quick_cases()))
    with threadpool_limits(1):
        if args.real:
            rows = compare_real(args.real)
            write_real(args.out or RESULTS_REAL, rows)
            return
        n_sets = 2 if args.quick else N_SETS
        accuracy = compare(CASES, n_sets)
        seconds = times(1 if args.quick else 5)
    if path := args.out or (None if args.quick else RESULTS):
        write(path, accuracy, seconds, n_sets)


if __name__ == "__main__":
    main()
