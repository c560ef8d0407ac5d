"""Speed and memory of time generalization, as ratios measured in one run.

Run ``python doc/benchmarks/bench_generalization.py``; it takes some minutes and
rewrites ``results_generalization.rst`` beside it, which the documentation includes.
Times are medians of alternating runs, so that both sides of a ratio see the same
machine. All parts take 300 trials x 64 channels x 100 times, 3 classes and 10 folds,
and make a map of 100 training times x 100 test times.

(a) ``generalize_epochs`` without permutations against scikit-learn's shrinkage LDA in
    MNE's GeneralizingEstimator: CPU time of one thread.
(b) ``generalize_epochs`` with 1000 permutations against that same single run, without
    any permutation, and against the floor: the matrix products that give every test
    trial at every time its score under every permutation, and nothing else.
(c) A kernel that is not linear, without and with permutations, against retraining
    ``KernelFDA`` in MNE's GeneralizingEstimator.
(d) Peak memory of (a) and (b).
"""

import argparse
import platform
import subprocess
import sys
import tracemalloc
from pathlib import Path
from time import process_time

import mne
import numpy as np
import scipy
import sklearn
from bench_epochs import CV, Table, make_epochs, medians
from ratios import CHECK_HELP, Case, check, end
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from threadpoolctl import threadpool_info, threadpool_limits

from mvpa_kfda import KernelFDA, generalize_epochs

RESULTS = Path(__file__).with_name("results_generalization.rst")
PROBLEM = "300 x 64 x 100, 3 classes, 10 folds"
N_PERMUTATIONS = 1000


def generalize(epochs, y, n_permutations=0, reg=0.3, **kwargs):
    """Generalize over time with the direct method."""
    return generalize_epochs(
        epochs,
        y,
        cv=CV,
        reg=reg,
        n_permutations=n_permutations,
        random_state=0,
        verbose=False,
        **kwargs,
    )


def generalizing_lda(epochs, y, n_jobs=None):
    """Cross-validate LDA over all pairs of times, without permutations."""
    lda = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1)
    model = mne.decoding.GeneralizingEstimator(lda, scoring="accuracy", verbose=False)
    data = epochs.get_data(copy=False)
    return mne.decoding.cross_val_multiscore(
        model, data, y, cv=CV, n_jobs=n_jobs, verbose=False
    )


def generalizing_rbf(epochs, y, step):
    """Retrain an rbf discriminant at every step-th time, test it at all times."""
    model = mne.decoding.GeneralizingEstimator(
        KernelFDA(kernel="rbf", reg=0.3), scoring="accuracy", verbose=False
    )
    data = epochs.get_data(copy=False)
    for train, test in CV.split(data, y):
        model.fit(data[train][..., ::step], y[train]).score(data[test], y[test])


def one_thread(function, *args):
    """Call a function with a single BLAS thread."""
    with threadpool_limits(1):
        function(*args)


def floor(epochs, n_classes, dtype):
    """Estimate the seconds of the products of (b), from a hundredth of one time's.

    At each training time the trials of all test times, n T x p, meet the weights of
    c - 1 contrasts and P permutations, p x (c - 1) P. A slice of n T / 100 rows stays
    in the cache where the whole would not, so no faster way of doing it is left out.
    """
    n, p, n_times = epochs.get_data(copy=False).shape
    rng = np.random.default_rng(0)
    n_rows = n * n_times // 100
    rows = rng.standard_normal((n_rows, p)).astype(dtype)
    weights = rng.standard_normal((p, (n_classes - 1) * N_PERMUTATIONS)).astype(dtype)
    out = np.empty((n_rows, weights.shape[1]), dtype)
    seconds = medians(2000, product=lambda: np.matmul(rows, weights, out=out))
    return 100 * n_times * seconds["product"]


def part_a(rows):
    """Time one map without permutations."""
    epochs, y = make_epochs()
    with threadpool_limits(1):
        t = medians(
            3,
            process_time,
            auto=lambda: generalize(epochs, y, reg="auto"),
            fixed=lambda: generalize(epochs, y),
            lda=lambda: generalizing_lda(epochs, y),
        )
    for name, words in (("auto", ', reg="auto"'), ("fixed", "")):
        rows.append(
            f"(a) {PROBLEM}, no permutations{words}",
            f"{t[name]:.2f} s",
            f"generalizing LDA: {t['lda']:.2f} s",
            f"{t['lda'] / t[name]:.1f} times faster",
        )


def part_b(rows):
    """Time one map with permutations against one LDA run without."""
    epochs, y = make_epochs()
    for dtype in ("float64", "float32"):
        for n_jobs in (None, 2):
            label = (
                "" if n_jobs is None else ", n_jobs=2, starting the workers included"
            )
            t = medians(
                3,
                ours=lambda d=dtype, j=n_jobs: generalize(
                    epochs, y, N_PERMUTATIONS, dtype=d, n_jobs=j
                ),
                lda=lambda j=n_jobs: generalizing_lda(epochs, y, j),
            )
            problem = f"(b) {PROBLEM}, {N_PERMUTATIONS} permutations, {dtype}{label}"
            rows.append(
                problem,
                f"{t['ours']:.1f} s",
                f"one unpermuted generalizing LDA: {t['lda']:.2f} s",
                f"{t['ours'] / t['lda']:.1f} times its time",
            )
            if not n_jobs:
                products = floor(epochs, len(np.unique(y)), dtype)
                rows.append(
                    problem,
                    f"{t['ours']:.1f} s",
                    f"the matrix products alone: {products:.1f} s",
                    f"{t['ours'] / products:.2f} times their time",
                )


def part_c(rows, step=10, n_permutations=100):
    """Time a map of an rbf kernel against retraining."""
    epochs, y = make_epochs()
    t = medians(
        1,
        once=lambda: generalize(epochs, y, kernel="rbf"),
        permuted=lambda: generalize(epochs, y, n_permutations, kernel="rbf"),
        retrained=lambda: generalizing_rbf(epochs, y, step),
        one_thread=lambda: one_thread(generalizing_rbf, epochs, y, step),
    )
    # Fits and cells both grow with the training times; folds and test times are all in.
    # Its many small matrices may be faster with one thread: the better one counts.
    retrained = min(t["retrained"], t["one_thread"]) * step
    how = f"{len(epochs.times) // step} of the 100 training times, times {step}"
    rows.append(
        f"(c) {PROBLEM}, rbf kernel, no permutations",
        f"{t['once']:.1f} s",
        f"retraining KernelFDA: {retrained:.0f} s ({how})",
        f"{retrained / t['once']:.1f} times faster",
    )
    retrained *= n_permutations + 1
    rows.append(
        f"(c) {PROBLEM}, rbf kernel, {n_permutations} permutations",
        f"{t['permuted']:.1f} s",
        f"retraining KernelFDA: {retrained:.0f} s ({how}, times {n_permutations + 1})",
        f"{retrained / t['permuted']:.0f} times faster",
    )


MEMORY = {
    "no permutations": generalize,
    "1000 permutations": lambda epochs, y: generalize(epochs, y, N_PERMUTATIONS),
    "LDA": generalizing_lda,
}


def peak_memory(part):
    """Return the peak memory in MB that a part allocates, run in its own process."""
    command = [sys.executable, __file__, "--memory", part]
    return float(subprocess.run(command, capture_output=True, check=True).stdout)


def memory_part(part):
    """Run one part alone and print the peak of what it allocated on top of its data."""
    epochs, y = make_epochs()
    tracemalloc.start()
    MEMORY[part](epochs, y)
    print(tracemalloc.get_traced_memory()[1] / 1e6)


def part_d(rows):
    """Measure the peak memory of one map without and with permutations."""
    theirs = peak_memory("LDA")
    for part in ("no permutations", "1000 permutations"):
        ours = peak_memory(part)
        rows.append(
            f"(d) {part}, peak memory, the data (15 MB) not counted",
            f"{ours:.0f} MB",
            f"one unpermuted generalizing LDA: {theirs:.0f} MB",
            f"{ours / theirs:.1f} times its memory",
        )


PARTS = {"a": part_a, "b": part_b, "c": part_c, "d": part_d}


def quick_cases():
    """Return what --check compares with the table."""
    epochs, y = make_epochs()
    ours, lda = (lambda: generalize(epochs, y)), (lambda: generalizing_lda(epochs, y))
    return [Case(f"(a) {PROBLEM}, no permutations", ours, lda)]


def main():
    """Run the parts; write the table when all of them ran."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--memory", choices=MEMORY)
    parser.add_argument("--threads", type=int, help="BLAS threads, for both sides")
    parser.add_argument("--parts", default="abcd", help="only these; writes no file")
    parser.add_argument("--check", action="store_true", help=CHECK_HELP)
    args = parser.parse_args()
    if args.memory:
        memory_part(args.memory)
        return
    table = Table()
    with threadpool_limits(args.threads):
        blas = max(pool["num_threads"] for pool in threadpool_info())
        if args.check:
            end(check(RESULTS, quick_cases()))
        for part in args.parts:
            PARTS[part](table)
    machine = (
        f"{blas} {platform.machine()} cores; Python {platform.python_version()}, NumPy "
        f"{np.__version__}, SciPy {scipy.__version__}, scikit-learn "
        f"{sklearn.__version__}, MNE-Python {mne.__version__}"
    )
    if args.parts == "abcd":
        table.write(RESULTS, machine)


if __name__ == "__main__":
    main()
