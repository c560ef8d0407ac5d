"""The simulation of the paper: how much faster than refitting the direct way is.

Run ``python doc/benchmarks/bench_paper.py``; it takes about ten minutes with one BLAS
thread and rewrites ``results_paper.rst`` and ``figures/paper.png`` beside it, which the
documentation includes. ``--quick`` takes a few small problems; it prints them, and
writes them only where ``--out`` says.

Treder (2018) drew classes with random centroids on the unit sphere and one covariance
matrix from a Wishart distribution, and timed 10-fold cross-validation with 5 and 10
classes, 100 and 1000 trials and 10 to 1000 features, and with 10 and 100 permutations
at 100 and 1000 features. Speed increase is the time of refitting over the time of the
direct calculation, ``cross_validate``, from the features to the scores. Refitted are

textbook FDA
    all eigenvectors of the features' scatter quotient, (S_w + lambda I)^-1 S_b;
textbook KFDA
    all eigenvectors of the dual quotient, (N + lambda K)^-1 M, as released code does;
KernelFDA
    this package's estimator, which solves a linear system instead;
LDA
    scikit-learn's, with ``solver="lsqr"`` and a fixed shrinkage.

The first three are the model of the direct calculation, with the same folds, penalty
and permuted labels: before it is timed, each must give the same scores. Every job (one
fold of one permutation) takes equally long, so where all jobs would take long, the
first few are timed and the rest is extrapolated.
"""

import argparse
import platform
import sys
import time
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from itertools import product
from pathlib import Path

import numpy as np
from ratios import CHECK_HELP, Case, check, end
from scipy.linalg import eig
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import StratifiedKFold
from threadpoolctl import threadpool_limits

from mvpa_kfda import KernelFDA, Ridge, cross_validate
from mvpa_kfda.inference.permutation import permute_labels
from mvpa_kfda.kfda.folds import make_folds

RESULTS = Path(__file__).with_name("results_paper.rst")
#: What the paper says of cross-validation and of permutations: "up to".
CLAIMS = {"cv": 1_000, "permutations": 10_000}
#: The head of a method's column.
FASTER = "Faster than {}"


@dataclass(frozen=True)
class Sizes:
    """What is simulated."""

    n_classes: tuple = (5, 10)
    n_trials: tuple = (100, 1000)
    n_features: tuple = (10, 32, 100, 316, 1000)
    n_features_permuted: tuple = (100, 1000)
    n_permutations: tuple = (10, 100)
    n_repeats: int = 3
    seconds: float = 0.4  # of refitting, per repetition, before it is extrapolated

    def cases(self, part):
        """Return (classes, trials, features, permutations) of a part."""
        if part == "cv":
            return list(product(self.n_classes, self.n_trials, self.n_features, [0]))
        features, permutations = self.n_features_permuted, self.n_permutations
        return list(product(self.n_classes, self.n_trials, features, permutations))


FULL = Sizes()
QUICK = Sizes(
    n_trials=(100,),
    n_features=(10, 100),
    n_features_permuted=(100,),
    n_permutations=(10,),
    n_repeats=1,
    seconds=0.1,
)


class Problem:
    """Random data with folds and permuted labels.

    Parameters
    ----------
    n_classes, n, p, n_permutations : int
        Its size.
    seed : int
        Seed of everything random.
    """

    def __init__(self, n_classes, n, p, n_permutations, seed):
        rng = np.random.default_rng(seed)
        centroids = rng.standard_normal((n_classes, p))
        centroids /= np.linalg.norm(centroids, axis=1, keepdims=True)
        # A'A / p is a Wishart matrix with p degrees of freedom over p.
        noise = rng.standard_normal((n, p)) @ rng.standard_normal((p, p)) / p**0.5
        self.y = np.arange(n) % n_classes
        self.X = centroids[self.y] + noise
        self.n_permutations = n_permutations
        self.folds = list(StratifiedKFold(10).split(self.X, self.y))
        self.lam = 0.3 * np.square(self.X - self.X.mean(axis=0)).sum() / n

    @cached_property
    def labels(self):
        """The labels of every permutation, the observed ones first: (P + 1, n)."""
        folds = make_folds(self.folds, self.y)
        return permute_labels(
            self.y, self.n_permutations, folds=folds, random_state=0
        ).labels

    @property
    def n_jobs(self):
        """How many models refitting trains."""
        return (self.n_permutations + 1) * len(self.folds)

    def direct(self):
        """Return the scores (P + 1,) by the direct calculation."""
        result = cross_validate(
            self.X,
            self.y,
            cv=self.folds,
            reg=Ridge(self.lam),
            n_permutations=self.n_permutations,
            random_state=0,
        )
        return np.append(result.scores, result.null)

    def refit(self, method, job):
        """Return how many test trials of one fold and permutation come out right."""
        permutation, fold = divmod(job, len(self.folds))
        labels, (train, test) = self.labels[permutation], self.folds[fold]
        predicted = method(self.X[train], labels[train], self.X[test], self.lam)
        return np.count_nonzero(predicted == labels[test])


def textbook_fda(X, y, X_test, lam):
    """Train and test by all eigenvectors of (S_w + lam I)^-1 S_b."""
    mean, (classes, sizes) = X.mean(axis=0), np.unique(y, return_counts=True)
    Xc = X - mean
    means = np.array([Xc[y == k].mean(axis=0) for k in classes])  # (c, p)
    between = (means.T * sizes) @ means
    within = Xc.T @ Xc - between
    within.flat[:: len(within) + 1] += lam
    values, vectors = eig(np.linalg.solve(within, between))
    leading = np.argsort(-values.real)[: len(classes) - 1]
    W = normalised(vectors[:, leading].real, within)
    return nearest((X_test - mean) @ W, means @ W, classes)


def textbook_kfda(X, y, X_test, lam):
    """Train and test by all eigenvectors of (N + lam K)^-1 M, a linear kernel."""
    mean, (classes, sizes) = X.mean(axis=0), np.unique(y, return_counts=True)
    Xc = X - mean
    K, K_test = Xc @ Xc.T, (X_test - mean) @ Xc.T
    means = np.array([K[y == k].mean(axis=0) for k in classes])  # (c, n)
    between = (means.T * sizes) @ means
    within = K @ K - between + lam * K
    # K is singular; this much makes the quotient exist and changes no prediction.
    within.flat[:: len(K) + 1] += 1e-9 * np.trace(within) / len(K)
    values, vectors = eig(np.linalg.solve(within, between))
    leading = np.argsort(-values.real)[: len(classes) - 1]
    W = normalised(vectors[:, leading].real, within)
    return nearest(K_test @ W, means @ W, classes)


def normalised(W, within):
    """Scale discriminants to W'(within) W = I."""
    return W / np.sqrt(np.sum(W * (within @ W), axis=0))


def nearest(Z, centroids, classes):
    """Return the class of the centroid that is nearest to every row of Z."""
    distances = np.square(Z[:, None] - centroids[None]).sum(axis=2)
    return classes[distances.argmin(axis=1)]


def kernel_fda(X, y, X_test, lam):
    """Train and test this package's estimator."""
    return KernelFDA(reg=Ridge(lam)).fit(X, y).predict(X_test)


def lda(X, y, X_test, lam):
    """Train and test scikit-learn's shrinkage LDA; lam is not used."""
    model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1)
    return model.fit(X, y).predict(X_test)


METHODS = {
    "textbook FDA": textbook_fda,
    "textbook KFDA": textbook_kfda,
    "KernelFDA": kernel_fda,
    "LDA": lda,
}


def check_equal(problem):
    """Compare the scores of refitting with the direct ones, observed and permuted."""
    direct, n_folds = problem.direct(), len(problem.folds)
    for name, method in METHODS.items():
        if name == "LDA":
            continue
        correct = [problem.refit(method, job) for job in range(problem.n_jobs)]
        scores = np.reshape(correct, (-1, n_folds)).sum(axis=1) / len(problem.y)
        np.testing.assert_allclose(scores, direct, rtol=0, atol=1e-12, err_msg=name)


def time_direct(problem):
    """Return the seconds of the direct calculation: the median of some runs."""
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        problem.direct()
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds))


def time_refit(problem, method, limit):
    """Return the seconds that all jobs take, and the share of them that was timed."""
    start, done, seconds = time.perf_counter(), 0, 0.0
    while done < problem.n_jobs and (done == 0 or seconds < limit):
        problem.refit(method, done)
        done += 1
        seconds = time.perf_counter() - start
    return seconds / done * problem.n_jobs, done / problem.n_jobs


@dataclass(frozen=True)
class Measured:
    """The times of one case, medians over repetitions with new data.

    Attributes
    ----------
    case : tuple of int
        Classes, trials, features and permutations.
    direct : float
        Seconds of the direct calculation.
    refit : dict of str to float
        Seconds of refitting, per method.
    speed : dict of str to float
        The speed increase: the median of its repetitions.
    share : dict of str to float
        The share of refitting that was timed; the rest is extrapolated.
    """

    case: tuple
    direct: float
    refit: dict
    speed: dict
    share: dict


def measure(case, sizes):
    """Time one case."""
    direct, refit, share = [], [], []
    for seed in range(sizes.n_repeats):
        problem = Problem(*case, seed)
        problem.labels  # noqa: B018 - made here, so that no method is charged for it
        direct.append(time_direct(problem))
        found = [
            time_refit(problem, method, sizes.seconds) for method in METHODS.values()
        ]
        refit.append([seconds for seconds, _ in found])
        share.append([part for _, part in found])
    refit, direct = np.array(refit), np.array(direct)
    return Measured(
        case,
        float(np.median(direct)),
        dict(zip(METHODS, np.median(refit, axis=0), strict=True)),
        dict(zip(METHODS, np.median(refit / direct[:, None], axis=0), strict=True)),
        dict(zip(METHODS, np.min(share, axis=0), strict=True)),
    )


def run(sizes):
    """Check and time everything; return lists of :class:`Measured` by part."""
    smallest = min(sizes.n_trials)
    for n_classes, p in product(sizes.n_classes, (10, 2 * smallest)):
        check_equal(Problem(n_classes, smallest, p, 2, seed=0))
    found = {}
    for part in CLAIMS:
        found[part] = []
        for case in sizes.cases(part):
            found[part].append(measure(case, sizes))
            print(part, " | ".join(words(found[part][-1])), flush=True)
    return found


def problem_words(n_classes, n, p, n_permutations):
    """Word the problem of a case."""
    words = f"{n_classes} classes, {n} trials, {p} features"
    return words + f", {n_permutations} permutations" * bool(n_permutations)


def words(measured):
    """Word one case as a row of the table."""
    cells = [problem_words(*measured.case), f"{1e3 * measured.direct:.3g} ms"]
    for name, speed in measured.speed.items():
        mark = "" if measured.share[name] == 1 else " \\*"
        cells.append(f"{thousands(speed)} ({duration(measured.refit[name])}{mark})")
    return cells


def thousands(number):
    """Word a ratio with two significant digits or as a whole number."""
    return f"{number:.2g}" if number < 10 else f"{round(number):,}"


def duration(seconds):
    """Word a time."""
    if seconds < 0.1:
        return f"{1e3 * seconds:.2g} ms"
    if seconds < 100:
        return f"{seconds:.2g} s"
    return f"{seconds / 60:.2g} min" if seconds < 6000 else f"{seconds / 3600:.2g} h"


def list_table(header, rows):
    """Return the lines of a reStructuredText table."""
    lines = [".. list-table::", "   :header-rows: 1", ""]
    for row in (header, *rows):
        lines += [f"   {'*' if i == 0 else ' '} - {cell}" for i, cell in enumerate(row)]
    return [*lines, ""]


def figure(name, text):
    """Return the lines of a figure of the documentation."""
    return [f".. figure:: /benchmarks/figures/{name}", "", f"   {text}", ""]


def machine():
    """Word what the times were measured on."""
    packages = ("numpy", "scipy", "scikit-learn")
    packages = ", ".join(f"{name} {version(name)}" for name in packages)
    python = platform.python_version()
    return f"Measured on {platform.machine()}, one thread; Python {python}, {packages}."


def write(found, path):
    """Write the tables to a file, and the figure to a folder beside it."""
    figures = path.parent / "figures"
    figures.mkdir(exist_ok=True)
    plot(found, figures / "paper.png")
    header = ["Largest speed increase", "The paper", *(f"Over {m}" for m in METHODS)]
    claims = []
    for part, title in (("cv", "10-fold cross-validation"), ("permutations",) * 2):
        best = [thousands(max(m.speed[name] for m in found[part])) for name in METHODS]
        claims.append([title.capitalize(), f"up to {CLAIMS[part]:,}", *best])
    lines = [".. Written by bench_paper.py.", "", machine(), ""]
    lines += list_table(header, claims)
    lines += figure(
        "paper.png",
        "How many times faster the direct calculation is than refitting. Dashed: what "
        "the paper reports, up to 1000 (cross-validation) and 10,000 (permutations).",
    )
    lines += [
        "In the paper the increase grew with the number of features, and less so with "
        "more trials. So it does here over textbook FDA, whose matrices have a row per "
        "feature; those of textbook KFDA have a row per training trial.",
        "",
        "All cases: the time of the direct calculation, and how many times faster it "
        "is than refitting (in brackets the time of refitting; \\* extrapolated from "
        "the first few models, of which all take equally long).",
        "",
    ]
    header = ["Problem", "Direct", *map(FASTER.format, METHODS)]
    lines += list_table(header, [words(m) for part in found.values() for m in part])
    path.write_text("\n".join(lines), encoding="utf-8")


#: One colour and marker per method.
STYLE = dict(
    zip(METHODS, (("C3", "s"), ("C1", "D"), ("C0", "o"), ("C2", "^")), strict=True)
)


def plot(found, path):
    """Draw the speed increase, one panel per class count, trials and part."""
    from matplotlib.figure import Figure

    classes, trials = (sorted({m.case[i] for m in found["cv"]}) for i in (0, 1))
    columns = list(product(CLAIMS, trials))
    size = (2.8 * len(columns), 2.5 * len(classes) + 0.5)
    fig = Figure(figsize=size, layout="constrained")
    axes = fig.subplots(len(classes), len(columns), sharey=True, squeeze=False)
    for (i, c), (j, (part, n)) in product(enumerate(classes), enumerate(columns)):
        ax = axes[i, j]
        cases = [m for m in found[part] if m.case[:2] == (c, n)]
        (plot_cv if part == "cv" else plot_permuted)(ax, cases)
        ax.axhline(CLAIMS[part], color="0.4", ls="--", lw=1)
        ax.axhline(1, color="0.8", lw=1)
        ax.set(yscale="log", title=f"{c} classes, {n} trials")
        ax.title.set_fontsize("medium")
        ax.grid(axis="y", color="0.93")
        if j == 0:
            ax.set_ylabel("times faster")
    handles, names = axes[0, 0].get_legend_handles_labels()
    fig.legend(handles, names, loc="outside upper center", ncols=4, frameon=False)
    fig.savefig(path, dpi=75)


def plot_cv(ax, cases):
    """Draw cross-validation over the number of features."""
    for name, (color, marker) in STYLE.items():
        x, y = [m.case[2] for m in cases], [m.speed[name] for m in cases]
        ax.plot(x, y, color=color, marker=marker, ms=4, lw=1.2, label=name)
    ax.set(xscale="log", xlabel="features (cross-validation)")


def plot_permuted(ax, cases):
    """Draw permutations, grouped by features and by how many there are."""
    for name, (color, marker) in STYLE.items():
        for p in sorted({m.case[2] for m in cases}):
            x = [k for k, m in enumerate(cases) if m.case[2] == p]
            y = [cases[k].speed[name] for k in x]
            ax.plot(x, y, color=color, marker=marker, ms=4, lw=1.2)
    ax.set_xticks(range(len(cases)), [f"{m.case[2]}\n{m.case[3]}" for m in cases])
    ax.set(xlabel="features; permutations", xlim=(-0.5, len(cases) - 0.5))


#: What --check compares with the table: cases, methods, and how many models are fitted.
CHECKED = (
    ((5, 1000, 316, 0), "LDA", 10),
    ((5, 1000, 1000, 0), "KernelFDA", 10),
    ((5, 100, 100, 100), "KernelFDA", 100),
)


def quick_cases():
    """Return what --check compares with the table."""
    cases = []
    for case, name, n_fitted in CHECKED:
        problem = Problem(*case, seed=0)
        problem.labels  # noqa: B018 - as in measure

        def refit(problem=problem, method=METHODS[name], n_fitted=n_fitted):
            for job in range(n_fitted):
                problem.refit(method, job)

        cases.append(
            Case(
                problem_words(*case),
                problem.direct,
                refit,
                column=FASTER.format(name),
                times=problem.n_jobs / n_fitted,
            )
        )
    return cases


def main(argv=None):
    """Run the simulation and write the table and the figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few small problems")
    parser.add_argument("--out", type=Path, help="where to write the table")
    parser.add_argument("--check", action="store_true", help=CHECK_HELP)
    args = parser.parse_args(argv)
    if args.check:
        end(check(RESULTS, quick_cases()))
    start = time.perf_counter()
    with threadpool_limits(1):
        found = run(QUICK if args.quick else FULL)
    if path := args.out or (None if args.quick else RESULTS):
        write(found, path)
    print(f"{time.perf_counter() - start:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
