"""Accuracy and run time of each way to choose the penalty.

Run ``python doc/benchmarks/bench_penalty.py``; it takes some minutes with one thread
and rewrites ``results_penalty.rst`` beside it, which the documentation includes.
``--quick`` takes few data sets, ``--out`` says where to write. ``--real DIR`` compares
accuracies on recordings that lie in a folder, and rewrites
``results_penalty_recordings.rst``.

Simulated trials have class means in random directions. Of the first kinds of data, the
noise has unit variance, is spread over all features by a few sources, as volume
conduction does, or lasts from trial to trial within a run. Of the others, its spectrum
is broad, so that some directions have little of it. Accuracies are cross-validated in
the same folds for all: 10 of them, or one for each run. Before anything is timed,
``Tuned`` must select what scikit-learn's ``GridSearchCV`` selects when it refits.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path
from time import process_time

import numpy as np
import ratios
from bench_epochs import medians
from bench_paper import duration, list_table, machine
from scipy.signal import lfilter
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.linear_model import Ridge as RidgeRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    LeaveOneGroupOut,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from mvpa_kfda import KernelFDA, Ridge, Tuned, cross_validate

RESULTS = Path(__file__).with_name("results_penalty.rst")
RESULTS_REAL = RESULTS.with_stem("results_penalty_recordings")
N_SETS = 24
N_SOURCES = 8
LASTING = 0.8  # correlation of noise from trial to trial, in runs


# ------------------------------------------------------------------- simulated data


@dataclass(frozen=True)
class Case:
    """A kind of data."""

    text: str
    n: int
    p: int
    effect: float  # the length of a class mean, in the units of `where`
    n_classes: int = 2
    noise: str = "white"  # or from a few "sources", or of a "broad" spectrum
    n_runs: int | None = None  # None: no runs, noise of trials is independent
    block: int = 1  # trials of a class in a row
    where: str = "anywhere"  # the directions that class means may have
    has_tails: bool = False
    ratio: int = 1  # of two classes

    def describe(self):
        """Word the case for a row of the table."""
        classes = f", {self.n_classes} classes" if self.n_classes > 2 else ""
        runs = f", {self.n_runs} runs" if self.n_runs else ""
        return f"{self.text}; {self.n} trials, {self.p} features{classes}{runs}"

    def draw(self, seed):
        """Draw features, labels and runs."""
        rng = np.random.default_rng(seed)
        numbers = np.arange(self.n) % (self.n_classes + self.ratio - 1)
        groups, y = None, rng.permutation(numbers) // self.ratio
        noise, spread = rng.standard_normal((self.n, self.p)), np.eye(self.p)
        if self.noise == "sources":
            sources = rng.standard_normal((N_SOURCES, self.p)) * 2
            noise += rng.standard_normal((self.n, N_SOURCES)) @ sources
        if self.noise == "broad":
            spread += 2 * rng.standard_normal((self.p, self.p)) / np.sqrt(self.p)
            noise = noise @ spread
        if self.has_tails:  # those of Student's t with 3 degrees of freedom
            noise /= np.sqrt(rng.chisquare(3, (self.n, 1)) / 3)
        if self.n_runs:
            groups = np.arange(self.n) * self.n_runs // self.n
            y = np.concatenate([self._order(rng) for _ in range(self.n_runs)])
            noise = np.concatenate(
                [last(noise[groups == g]) for g in np.unique(groups)]
            )
        means = rng.standard_normal((self.n_classes, self.p))
        if self.where == "like noise":
            axes = spread
        elif self.where == "where noise is largest":
            _, sizes, vectors = np.linalg.svd(spread)
            axes = sizes[:5, None] * vectors[:5]
        else:
            axes = np.eye(self.p)[: 3 if self.where == "three features" else None]
        means = means[:, : len(axes)]
        means *= self.effect / np.linalg.norm(means, axis=1, keepdims=True)
        return noise + (means @ axes)[y], y, groups

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
    Case("few features, weak effect", 120, 20, 1.0),
    Case("few features, strong effect", 120, 20, 2.5),
    Case("many features, weak effect", 80, 300, 2.0),
    Case("many features, strong effect", 80, 300, 3.5),
    Case("correlated noise", 120, 60, 2.0, noise="sources"),
    Case("correlated noise, many features", 80, 300, 4.0, noise="sources"),
    Case("noise lasts, blocks of trials", 144, 60, 1.5, n_runs=6, block=6),
    Case("eight classes", 160, 40, 2.5, 8),
    Case("eight classes, noise lasts, blocks", 192, 150, 3.0, 8, n_runs=6, block=4),
)


def broad(text, effect, n=80, p=60, **others):
    """Return a kind of data whose noise has a broad spectrum."""
    return Case(text, n, p, effect, noise="broad", **others)


BROAD = (
    broad("effect in any direction", 1.4, p=6),
    broad("the same", 1.1, p=20),
    broad("the same", 1.4),
    broad("the same", 0.7, n=300),
    broad("the same", 2.8, p=200),
    broad("effect where noise is largest", 1.8, where="where noise is largest"),
    broad("effect like noise", 2.5, where="like noise"),
    broad("effect in three features", 1.5, where="three features"),
    broad("effect in any direction, noise with heavy tails", 1.8, has_tails=True),
    broad("effect in any direction, classes 5:1", 1.4, n=120, ratio=5),
)


# ------------------------------------------------------------------- ways to choose

#: Relative to the mean squared norm of trials; the largest first, which wins a tie.
GRID = list(np.geomspace(1e2, 1e-4, 13))
DEFAULT = '``"auto"``'
#: Name -> reg of mvpa_kfda, or a model of scikit-learn that is refitted in each fold.
WAYS = {
    DEFAULT: "auto",
    '``"tuned"``': "tuned",
    "``0.3``": 0.3,
    "a grid": GRID,
    '``"ledoit_wolf"``': "ledoit_wolf",
    "LDA": LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"),
    "SVC, z": make_pipeline(StandardScaler(), SVC(kernel="linear")),
    "logistic, z": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
}


def accuracies(X, y, groups):
    """Return the cross-validated accuracy of every way, balanced over classes."""
    cv = StratifiedKFold(10) if groups is None else LeaveOneGroupOut()
    found, options = {}, {"groups": groups, "cv": cv}
    for name, way in WAYS.items():
        if hasattr(way, "fit"):
            predicted = cross_val_predict(way, X, y, **options)
            found[name] = balanced_accuracy_score(y, predicted)
        else:
            scoring = "balanced_accuracy"
            result = cross_validate(X, y, reg=way, scoring=scoring, **options)
            found[name] = float(result.scores)
    return found


def compare(kinds, worded):
    """Return the rows of a table of accuracies, of names and data sets of kinds."""
    rows = [("Data", *WAYS, "difference")]
    for name, sets in kinds:
        found = [accuracies(*each) for each in sets]
        values = {way: [100 * each[way] for each in found] for way in WAYS}
        best = max(np.mean(values[w]) for w, way in WAYS.items() if hasattr(way, "fit"))
        ahead = np.mean(values[DEFAULT]) - best
        rows.append((name, *map(worded, values.values()), f"{ahead:+.1f}"))
        print(" | ".join(rows[-1]), flush=True)
    return rows


def mean(values):
    """Word a mean."""
    return f"{np.mean(values):.1f}"


def with_error(values):
    """Word a mean and its standard error."""
    return f"{mean(values)} ± {np.std(values, ddof=1) / np.sqrt(len(values)):.1f}"


# ------------------------------------------------------------------------- run time

TIMED = Case("", 200, 64, 1.2)
OUTER, INNER = KFold(10), KFold(5, shuffle=True, random_state=0)
N_PERMUTATIONS = 1000


def search(X):
    """Return penalties, and scikit-learn's nested search over the same."""
    size = np.square(X - X.mean(axis=0)).sum() / len(X)
    lambdas = [Ridge(value * size) for value in GRID]
    return lambdas, GridSearchCV(KernelFDA(), {"reg": lambdas}, cv=INNER)


def check_equal(X, y):
    """Raise unless refitting in nested loops selects the same."""
    lambdas, _ = search(X)
    groups = np.arange(len(X)) % INNER.n_splits
    ours = cross_validate(X, y, groups=groups, reg=Tuned(lambdas), cv=OUTER)
    model = GridSearchCV(
        RidgeRegression(),
        {"alpha": [each.lam for each in lambdas]},
        cv=LeaveOneGroupOut(),
        scoring="neg_mean_squared_error",
    )
    theirs = [
        model.fit(X[train], y[train], groups=groups[train]).best_params_["alpha"]
        for train, _ in OUTER.split(X)
    ]
    np.testing.assert_allclose(ours.lambdas, theirs, rtol=1e-12, atol=0)


def timed(X, y):
    """Return what is timed by what it is, and what each is compared with."""
    sides, bases = {}, {}
    for n in (0, N_PERMUTATIONS):
        words = f", {n} permutations" if n else ""
        for name in ("``0.3``", DEFAULT, '``"tuned"``', "a grid"):
            options = {"reg": WAYS[name], "n_permutations": n, "random_state": 0}
            sides[name + words] = lambda options=options: cross_validate(
                X, y, cv=OUTER, **options
            )
            bases[name + words] = "``0.3``" + words
    name = "``GridSearchCV(KernelFDA())``, 5 folds inside, refitted"
    sides[name] = lambda: cross_val_score(search(X)[1], X, y, cv=OUTER)
    bases[name] = "``0.3``"
    return sides, bases


OF_FIXED = "Of a fixed penalty's"


def times(n_runs):
    """Return the rows of the table of run times."""
    X, y, _ = TIMED.draw(0)
    check_equal(X, y)
    sides, bases = timed(X, y)
    seconds = medians(n_runs, process_time, **sides)
    rows = [("Penalty", "Time", OF_FIXED)]
    for name, base in bases.items():
        ratio = "" if name == base else f"{seconds[name] / seconds[base]:.3g} times"
        rows.append((name, duration(seconds[name]), ratio))
        print(" | ".join(rows[-1]), flush=True)
    return rows


def quick_cases():
    """Return what --check compares with the table."""
    sides, bases = timed(*TIMED.draw(0)[:2])
    return [
        ratios.Case(name, sides[name], sides[base], column=OF_FIXED)
        for name, base in bases.items()
        if name.startswith((DEFAULT, '``"tuned"``'))
    ]


# ------------------------------------------------------------------ real recordings

OBJECTS, WORDS = "zhang-desimone-7objects-epo.fif", "n400-words-epo.fif"
#: Name, file, the time that is averaged in seconds, groups.
RECORDINGS = (
    ("7 objects, 0.14 s", OBJECTS, 0.139, 0.141, None),
    ("7 objects, 0.11 to 0.3 s", OBJECTS, 0.109, 0.301, None),
    ("7 objects, 0.14 s, position left out", OBJECTS, 0.139, 0.141, "position"),
    ("N400, 0.38 s", WORDS, 0.379, 0.381, None),
)
#: Single times of other EEG: name and what it is.
EEG = {"finger": "Hand about to press a key", "spatial": "Side of a cue"}
#: Every so many samples.
STEP = 7


def real_sets(folder):
    """Yield names of real recordings, and features, labels and groups of some sets."""
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
    yield "Haxby slice, block means", [(means, labels[first], runs[first])]
    yield "Haxby slice, volumes", [(standard(X, runs), labels, runs)]
    arrays = np.load(folder / "small-sets.npz")
    for number, who in enumerate(("s1", "s3"), start=1):
        X, y, runs = (arrays[f"hand7T_{who}_{name}"] for name in ("X", "y", "run"))
        for words, features in (
            ("", X.astype(float)),
            (" z-scored", standard(X, runs)),
        ):
            yield f"Fingers at 7 T, person {number}{words}", [(features, y, runs)]
    for name, file, start, stop, groups in RECORDINGS:
        epochs = mne.read_epochs(folder / file, verbose=False)
        near = (epochs.times > start) & (epochs.times < stop)
        X = epochs.get_data(picks="all")[:, :, near].mean(axis=2)
        X = X[:, X.std(axis=0) > 0]
        groups = None if groups is None else epochs.metadata[groups].to_numpy()
        yield name, [(X / X.std(), epochs.events[:, 2], groups)]
    for name, words in EEG.items():
        X, y = arrays[f"{name}_X"].astype(float), arrays[f"{name}_y"]
        sets = [(each, y, None) for each in np.moveaxis(X[..., ::STEP], -1, 0)]
        yield f"{words}, {len(sets)} single times", sets


def standard(X, runs):
    """Return features z-scored within runs."""
    X = X.astype(float)
    for run in np.unique(runs):
        rows = runs == run
        X[rows] -= X[rows].mean(axis=0)
        X[rows] /= np.maximum(X[rows].std(axis=0), 1e-12)
    return X


def described(kinds):
    """Yield the same with the sizes of the data in the names."""
    for name, sets in kinds:
        n, p = sets[0][0].shape
        yield f"{name}; {n} trials, {p} features", sets


# --------------------------------------------------------------------------- output

USUAL = (
    "Cross-validated accuracy in per cent, mean and standard error over {} data sets "
    "of each kind:"
)
GIVEN_UP = (
    "What is given up without labels. Noise with a broad spectrum, and effects that "
    "are easiest to find where there is little noise; with about as many features as "
    "trials, only labels tell so:"
)


def write(path, lines):
    """Write a file of results."""
    head = [".. Written by bench_penalty.py.", "", machine(), ""]
    path.write_text("\n".join([*head, *lines]))


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
            header, *rows = compare(described(real_sets(args.real)), mean)
            write(args.out or RESULTS_REAL, list_table(header, rows))
            return
        lines, n_sets = [], 2 if args.quick else N_SETS
        for number, (text, cases) in enumerate(((USUAL, CASES), (GIVEN_UP, BROAD))):
            kinds = (
                (case.describe(), [case.draw((number, k, s)) for s in range(n_sets)])
                for k, case in enumerate(cases)
            )
            header, *rows = compare(kinds, with_error)
            lines += [text.format(n_sets), "", *list_table(header, rows)]
        header, *rows = times(1 if args.quick else 15)
        size = f"{TIMED.n} trials, {TIMED.p} features, two classes, 10 folds"
        lines += [f"CPU time for {size}; the grid has {len(GRID)} values:", ""]
        lines += list_table(header, rows)
    if path := args.out or (None if args.quick else RESULTS):
        write(path, lines)


if __name__ == "__main__":
    main()
