"""What dissimilarity matrices of many classes cost, measured in one run.

Run ``python doc/benchmarks/bench_rdm.py``; it takes some minutes and rewrites
``results_rdm.rst`` beside it, which the documentation includes. One job:

(a) a time course, 92 classes x 10 trials x 64 channels x 100 times, ten folds: both
    tables of all 4,186 pairs, and accuracy alone, in alternating runs; and
    scikit-learn's linear discriminant analysis of each pair at each time, of which some
    pairs at one time are timed and the rest is extrapolated;
(b) a searchlight, 4 classes x 8 runs, one image each, spheres of 8 mm: the distances of
    all pairs, and the peak of what is allocated.
"""

import argparse
import platform
import time
import tracemalloc
from functools import partial
from pathlib import Path

import numpy as np
import scipy
import sklearn
from bench_epochs import Table, medians
from nibabel import Nifti1Image
from ratios import CHECK_HELP, Case, check, end
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import KFold, cross_val_predict
from threadpoolctl import threadpool_info, threadpool_limits

from mvpa_kfda import decode_arrays, searchlight

RESULTS = Path(__file__).with_name("results_rdm.rst")
OPTIONS = {"reg": 0.3, "random_state": 0, "n_jobs": 1, "verbose": False}
TABLES = ["crossnobis_distances", "pairwise_accuracies"]


def make_trials(n_classes=92, n_each=10, p=64, n_times=100, seed=0):
    """Return trials (n, p, n_times) of many classes in random order, and labels."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat(np.arange(n_classes), n_each))
    means = 0.2 * rng.standard_normal((n_classes, p, 1))
    return rng.standard_normal((len(y), p, n_times)) + means[y], y


def decode(X, y, scoring):
    """Decode in ten folds that do not look at the labels."""
    cv = KFold(10, shuffle=True, random_state=0)
    return decode_arrays(X, y, cv=cv, scoring=scoring, **OPTIONS)


def seconds_by_pairs(X, y, n_pairs):
    """Return the seconds that scikit-learn takes for a pair at a time."""
    rng, start = np.random.default_rng(0), time.perf_counter()
    for _ in range(n_pairs):
        rows = np.isin(y, rng.choice(y.max() + 1, 2, replace=False))
        lda = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
        cross_val_predict(lda, X[rows, :, 0], y[rows], cv=10)
    return (time.perf_counter() - start) / n_pairs


def make_images(side=40, seed=0):
    """Return images of 4 classes in 8 runs, their labels and runs, and a mask."""
    rng = np.random.default_rng(seed)
    y, runs = np.tile(np.arange(4), 8), np.repeat(np.arange(8), 4)
    affine = np.diag([2.0, 2.0, 2.0, 1.0])
    data = rng.standard_normal((side, side, side, 32), dtype=np.float32)
    mask = Nifti1Image(np.ones((side,) * 3, np.uint8), affine)
    return Nifti1Image(data, affine), y, runs, mask


def search(images, y, runs, mask):
    """Return the distances of all pairs around every voxel."""
    return searchlight(
        images,
        y,
        groups=runs,
        mask_img=mask,
        radius=8.0,
        scoring="crossnobis_distances",
        **OPTIONS,
    )


def part_a(table, n_runs, n_pairs):
    """Time the course of 92 classes."""
    X, y = make_trials()
    calls = {
        "tables": partial(decode, X, y, TABLES),
        "accuracy": partial(decode, X, y, "accuracy"),
    }
    seconds = medians(n_runs, **calls)
    words = "(a) 92 classes x 10 trials x 64 x 100, both tables"
    table.append(
        words,
        f"{seconds['tables']:.2f} s",
        f"accuracy: {seconds['accuracy']:.2f} s",
        f"{seconds['tables'] / seconds['accuracy']:.2f} of its time",
    )
    total = seconds_by_pairs(X, y, n_pairs) * 4186 * X.shape[2]
    table.append(
        "(a) the same by pairs",
        f"{seconds['tables']:.2f} s",
        f"LDA of each pair, from {n_pairs} of them: {total:.0f} s",
        f"{total / seconds['tables']:.0f} times faster",
    )


def part_b(table, side):
    """Time the searchlight, and measure it once more."""
    given = make_images(side)
    start = time.perf_counter()
    result = search(*given)
    seconds = time.perf_counter() - start
    tracemalloc.start()
    search(*given)
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    n = len(result.scores)
    table.append(
        f"(b) searchlight, 4 classes x 8 runs, {n:,} spheres of 8 mm",
        f"{seconds:.1f} s, {peak:.0f} MB at most",
        "",
        f"{n / seconds:,.0f} spheres per second",
    )


def quick_cases():
    """Return what --check compares with the table."""
    X, y = make_trials()
    words = "(a) 92 classes x 10 trials x 64 x 100, both tables"
    tables, plain = (partial(decode, X, y, s) for s in (TABLES, "accuracy"))
    return [Case(words, tables, plain)]


def main():
    """Run both parts; write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--side", type=int, default=40, help="voxels along an axis")
    parser.add_argument("--check", action="store_true", help=CHECK_HELP)
    args = parser.parse_args()
    if args.check:
        end(check(RESULTS, quick_cases()))
    table = Table()
    with threadpool_limits(1):
        part_a(table, args.runs, args.pairs)
        part_b(table, args.side)
        blas = max(pool["num_threads"] for pool in threadpool_info())
    table.write(
        RESULTS,
        f"{blas} {platform.machine()} core; Python {platform.python_version()}, NumPy "
        f"{np.__version__}, SciPy {scipy.__version__}, scikit-learn "
        f"{sklearn.__version__}",
    )


if __name__ == "__main__":
    main()
