"""Speed and memory of decoding epochs, as ratios measured in one run.

Run ``python doc/benchmarks/bench_epochs.py``; it takes some minutes and rewrites
``results_epochs.rst`` beside it, which the documentation includes. Times are medians of
alternating runs, so that both sides of a ratio see the same machine.

(a) ``decode_epochs`` with 1000 permutations against ONE cross-validation, without any
    permutation, of scikit-learn's shrinkage LDA in MNE's SlidingEstimator: CPU time of
    one thread.
(b) One time point with 1000 permutations against the floor: a single matrix product
    with as many operations as G times all permuted label columns.
(c) One time point against refitting: by the textbook (all eigenvectors of the dual
    scatter matrices' quotient, as released code for the method does), by the textbook
    with a solver that computes only the eigenvectors needed, and by ``KernelFDA``,
    which solves a linear system instead.
"""

import argparse
import platform
import subprocess
import sys
import tracemalloc
from functools import partial
from pathlib import Path
from time import perf_counter, process_time

import mne
import numpy as np
import scipy
import sklearn
from ratios import CHECK_HELP, Case, check, end
from scipy.linalg import eig, eigh
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import KFold
from threadpoolctl import threadpool_info, threadpool_limits

from mvpa_kfda import KernelFDA, Ridge, cross_validate, decode_epochs
from mvpa_kfda.kfda import direct
from mvpa_kfda.kfda.folds import make_folds
from mvpa_kfda.kfda.hat import make_hat
from mvpa_kfda.kfda.kernels import Linear

CV = KFold(10)
RESULTS = Path(__file__).with_name("results_epochs.rst")
EPOCHS = "(a) 300 x 64 x 100, 3 classes, 10 folds, 1000 permutations"


def make_epochs(n=300, n_channels=64, n_times=100, n_classes=3):
    """Return epochs of noise with a class difference in the second half."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % n_classes
    data = rng.standard_normal((n, n_channels, n_times))
    patterns = rng.standard_normal((n_classes, n_channels))
    data[:, :, n_times // 2 :] += 0.2 * patterns[y][:, :, None]
    info = mne.create_info(n_channels, 100.0, "eeg")
    return mne.EpochsArray(data * 1e-6, info, verbose=False), y


def make_features(n, p, n_classes):
    """Return features of one time point and their labels."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % n_classes
    return rng.standard_normal((n, p)) + rng.standard_normal((n_classes, p))[y] / 5, y


def decode(epochs, y, **kwargs):
    """Decode with 1000 permutations."""
    return decode_epochs(
        epochs, y, cv=CV, n_permutations=1000, random_state=0, verbose=False, **kwargs
    )


def sliding_lda(epochs, y):
    """Cross-validate LDA at every time point, without permutations."""
    lda = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1)
    sliding = mne.decoding.SlidingEstimator(lda, scoring="accuracy", verbose=False)
    data = epochs.get_data()
    return mne.decoding.cross_val_multiscore(sliding, data, y, cv=CV, verbose=False)


def refit_textbook(X, y, lam, solve):
    """Cross-validate by solving the dual eigenproblem anew in every fold."""
    correct = 0
    for train, test in CV.split(X, y):
        mean = X[train].mean(axis=0)
        K = (X[train] - mean) @ (X[train] - mean).T
        K_test = (X[test] - mean) @ (X[train] - mean).T
        y_train, classes = y[train], np.unique(y[train])
        means = np.array([K[y_train == k].mean(axis=0) for k in classes])  # (c, n)
        between = (means.T * np.bincount(y_train)) @ means
        within = K @ K - between + lam * K
        within.flat[:: len(K) + 1] += 1e-8 * np.trace(within) / len(K)
        alphas = solve(between, within, len(classes) - 1)
        alphas = alphas / np.sqrt(np.sum(alphas * (within @ alphas), axis=0))
        distances = (((K_test @ alphas)[:, None] - (means @ alphas)[None]) ** 2).sum(
            axis=2
        )
        correct += (distances.argmin(axis=1) == y[test]).sum()
    return correct / len(y)


def all_eigenvectors(between, within, n_components):
    """Return the leading eigenvectors of within^-1 between, having computed all."""
    values, vectors = eig(np.linalg.solve(within, between))
    return vectors[:, np.argsort(-values.real)[:n_components]].real


def leading_eigenvectors(between, within, n_components):
    """Return the leading eigenvectors of the symmetric generalised problem only."""
    n = len(within)
    return eigh(between, within, subset_by_index=[n - n_components, n - 1])[1]


def refit_estimator(X, y, lam):
    """Cross-validate by fitting KernelFDA in every fold."""
    model = KernelFDA(reg=Ridge(lam))
    return np.mean(
        [model.fit(X[tr], y[tr]).score(X[te], y[te]) for tr, te in CV.split(X, y)]
    )


def medians(n_runs, clock=perf_counter, **functions):
    """Time functions in turn, n_runs times each; return the median seconds."""
    seconds = {name: [] for name in functions}
    for _ in range(n_runs):
        for name, function in functions.items():
            start = clock()
            function()
            seconds[name].append(clock() - start)
    return {name: float(np.median(values)) for name, values in seconds.items()}


def peak_memory(part):
    """Return the peak memory in MB that a part allocates, run in its own process."""
    command = [sys.executable, __file__, "--memory", part]
    return float(subprocess.run(command, capture_output=True, check=True).stdout)


def memory_part(part):
    """Run one part alone and print the peak of what it allocated on top of its data."""
    X, y = make_features(1000, 1000, 5) if part == "b" else make_epochs()
    tracemalloc.start()
    if part == "b":
        cross_validate(X, y, reg=0.3, cv=CV, n_permutations=1000, random_state=0)
    else:
        {"decode": decode, "lda": sliding_lda}[part](X, y)
    print(tracemalloc.get_traced_memory()[1] / 1e6)


def part_a(rows):
    """Time 100 time points with 1000 permutations against one LDA run."""
    epochs, y = make_epochs()
    for label, options in (
        ("", {}),
        (", float32", {"dtype": "float32"}),
        (", reg=0.3", {"reg": 0.3}),
        (', reg="tuned"', {"reg": "tuned"}),
    ):
        sides = {
            "decode": partial(decode, epochs, y, **options),
            "lda": partial(sliding_lda, epochs, y),
        }
        with threadpool_limits(1):
            t = medians(3, process_time, **sides)
        ratio = t["decode"] / t["lda"]
        rows.append(
            f"{EPOCHS}{label}",
            f"{t['decode']:.2f} s",
            f"one unpermuted sliding LDA: {t['lda']:.2f} s",
            f"{ratio:.2f} of its time",
        )
    ours, theirs = peak_memory("decode"), peak_memory("lda")
    rows.append(
        "(a) peak memory, the data (15 MB) not counted",
        f"{ours:.0f} MB",
        f"one unpermuted sliding LDA: {theirs:.0f} MB",
        f"{ours / theirs:.1f} times its memory",
    )


def part_b(rows):
    """Time one large time point against one matrix product."""
    n, n_permutations, n_classes = 1000, 1000, 5
    X, y = make_features(n, 1000, n_classes)
    folds = make_folds(CV, y)
    rng = np.random.default_rng(0)
    labels = np.array([rng.permutation(y) for _ in range(n_permutations)])
    for dtype in ("float64", "float32"):
        G = rng.standard_normal((n, n)).astype(dtype)
        T = rng.standard_normal((n, (n_classes - 1) * n_permutations)).astype(dtype)
        plan = direct.prepare(make_hat(X, Linear(), 0.3), folds, dtype)
        size = plan.block_size(n_classes)

        def apply(plan=plan, size=size):
            for start in range(0, n_permutations, size):
                direct.apply(plan, labels[start : start + size], n_classes)

        t = medians(
            5,
            apply=apply,
            hat=lambda: direct.prepare(make_hat(X, Linear(), 0.3), folds),
            gemm=lambda G=G, T=T: G @ T,
        )
        rows.append(
            f"(b) n = 1000, 5 classes, 1000 permutations, {dtype}",
            f"{1e3 * t['apply']:.0f} ms",
            f"one matrix product: {1e3 * t['gemm']:.0f} ms",
            f"{t['apply'] / t['gemm']:.2f} times it "
            f"({(t['apply'] + t['hat']) / t['gemm']:.2f} with the hat matrix)",
        )
    rows.append(
        "(b) peak memory, the features (8 MB) not counted",
        f"{peak_memory('b'):.0f} MB",
        "",
        "",
    )


def part_c(rows):
    """Time one time point against refitting, for 5 and 10 classes."""
    against_refitting(rows, 5)
    against_refitting(rows, 10)


def against_refitting(rows, n_classes, n_permutations=100):
    """Time one time point against refitting."""
    X, y = make_features(1000, 1000, n_classes)
    lam = make_hat(X, Linear(), 0.3).lam
    ours = medians(
        3,
        once=lambda: cross_validate(X, y, reg=0.3, cv=CV),
        permuted=lambda: cross_validate(
            X, y, reg=0.3, cv=CV, n_permutations=n_permutations, random_state=0
        ),
    )
    problem = f"(c) n = p = 1000, {n_classes} classes"
    for kind, refit in (
        ("textbook, all", lambda: refit_textbook(X, y, lam, all_eigenvectors)),
        ("textbook, leading", lambda: refit_textbook(X, y, lam, leading_eigenvectors)),
        ("KernelFDA", lambda: refit_estimator(X, y, lam)),
    ):
        seconds = medians(1, refit=refit)["refit"]
        rows.append(
            f"{problem}, one cross-validation",
            f"{1e3 * ours['once']:.0f} ms",
            f"refitting, {kind}: {seconds:.2f} s",
            f"{seconds / ours['once']:.0f} times faster",
        )
        rows.append(
            f"{problem}, {n_permutations} permutations",
            f"{1e3 * ours['permuted']:.0f} ms",
            f"refitting, {kind}: {seconds * (n_permutations + 1):.0f} s (one run times "
            f"{n_permutations + 1})",
            f"{seconds * (n_permutations + 1) / ours['permuted']:.0f} times faster",
        )
        added = (ours["permuted"] - ours["once"]) / n_permutations
        rows.append(
            f"{problem}, each further permutation",
            f"{1e3 * added:.2f} ms",
            f"refitting, {kind}: {seconds:.2f} s",
            f"{seconds / added:.0f} times faster",
        )


def quick_cases():
    """Return what --check compares with the table: where threads matter little."""
    epochs, labels = make_epochs()
    double = partial(decode, epochs, labels)
    single = partial(double, dtype="float32")
    lda = partial(sliding_lda, epochs, labels)
    return [Case(EPOCHS, double, lda), Case(f"{EPOCHS}, float32", single, lda)]


class Table:
    """Rows of a reStructuredText table, printed as they come."""

    def __init__(self):
        self.rows = []

    def append(self, *row):
        self.rows.append(row)
        print(" | ".join(row), flush=True)

    def write(self, path, machine):
        lines = [
            f".. Written by {path.stem.replace('results', 'bench')}.py.",
            "",
            f"Measured on {machine}.",
            "",
            ".. list-table::",
            "   :header-rows: 1",
            "",
        ]
        for row in (("Problem", "mvpa_kfda", "Against", "Ratio"), *self.rows):
            lines += [
                f"   {'*' if i == 0 else ' '} - {cell}" for i, cell in enumerate(row)
            ]
        path.write_text("\n".join(lines) + "\n")


def main():
    """Run all parts and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--memory", choices=("decode", "lda", "b"))
    parser.add_argument("--threads", type=int, help="BLAS threads, for both sides")
    parser.add_argument("--check", action="store_true", help=CHECK_HELP)
    args = parser.parse_args()
    if args.memory:
        memory_part(args.memory)
        return
    if args.check:
        end(check(RESULTS, quick_cases()))
    table = Table()
    with threadpool_limits(args.threads):
        blas = max(pool["num_threads"] for pool in threadpool_info())
        for part in (part_a, part_b, part_c):
            part(table)
    machine = (
        f"{blas} {platform.machine()} cores; Python {platform.python_version()}, NumPy "
        f"{np.__version__}, SciPy {scipy.__version__}, scikit-learn "
        f"{sklearn.__version__}, MNE-Python {mne.__version__}"
    )
    table.write(RESULTS, machine)


if __name__ == "__main__":
    main()
