"""Many trials: time, memory and error of low-rank kernels.

Run ``python doc/benchmarks/bench_nystrom.py``; it takes some minutes and rewrites
``results_nystrom.rst`` beside it, which the documentation includes. ``--quick`` takes
few trials; it prints its rows, and writes them only where ``--out`` says.

(a) 50,000 trials with 300 features, 2 classes, 10 folds: ``cross_validate`` with a
    Gaussian kernel and 200 or 500 landmarks, and with a linear kernel, which needs no
    approximation; without permutations and with 100. Each in a process of its own,
    whose peak memory includes the libraries and the data.
(b) 4,000 of such trials, for which the exact result can be had: the difference of the
    class scores from it (root mean square, relative to their standard deviation) and
    the accuracy, by the number of landmarks and the way to choose them.

Trials lie around a curved surface of four dimensions. The classes are its inside and
outside: no hyperplane parts them.
"""

import argparse
import json
import platform
import re
import subprocess
import sys
import time
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path

import numpy as np
from bench_epochs import Table
from ratios import CHECK_HELP, Case, check, end, told
from threadpoolctl import threadpool_info

from mvpa_kfda import Nystrom, cross_validate
from mvpa_kfda.kfda.kernels import SAMPLING

RESULTS = Path(__file__).with_name("results_nystrom.rst")
N_TRIALS, N_FEATURES = 50_000, 300
N_EXACT = 4_000
#: Kernel, landmarks and permutations of the cases of (a).
CASES = [
    (kernel, r, n_permutations)
    for kernel, r in (("rbf", 200), ("rbf", 500), ("linear", None))
    for n_permutations in (0, 100)
]
RANKS = (50, 100, 200, 500, 1000)


def simulate(n_trials, n_features=N_FEATURES):
    """Return features (n_trials, n_features) and two classes."""
    rng = np.random.default_rng(0)
    where = rng.standard_normal((n_trials, 4))
    bent = np.hstack([where, np.sin(2 * where)])
    X = bent @ rng.standard_normal((8, n_features))
    X += rng.standard_normal(X.shape)
    return X, (np.square(where).sum(axis=1) > 3.36).astype(int)  # the median


def run_case(number, n_trials):
    """Run one case of (a), and print its seconds, peak memory in MB and accuracy."""
    kernel, r, n_permutations = CASES[number]
    X, y = simulate(n_trials)
    before = peak()
    start = time.perf_counter()
    result = cross_validate(
        X,
        y,
        kernel=kernel,
        reg=0.3,
        approx=Nystrom(r) if r else None,
        cv=10,
        n_permutations=n_permutations,
        random_state=0,
    )
    seconds = time.perf_counter() - start
    print(json.dumps([seconds, before, peak(), float(result.scores)]))


def peak():
    """Return the peak memory of this process in MB.

    Linux says it here. What getrusage says begins with the memory of the parent.
    """
    return (
        int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1])
        / 1e3
    )


def measure_case(number, n_trials):
    """Run one case of (a) in a process of its own; return what it prints."""
    command = [sys.executable, __file__, "--case", str(number)]
    done = subprocess.run([*command, "--trials", str(n_trials)], stdout=-1, check=True)
    return json.loads(done.stdout)


def matrix_size(n_trials):
    """Return the GB of a matrix of the kernel of all trials."""
    return 8e-9 * n_trials**2


def words_of_a(number, n_trials):
    """Word a case of (a)."""
    kernel, r, n_permutations = CASES[number]
    landmarks = f"{r} landmarks" if r else "no approximation"
    return (
        f"(a) {n_trials:,} trials, {N_FEATURES} features, 2 classes, 10 folds, "
        f"{kernel} kernel, {landmarks}, {n_permutations or 'no'} permutations"
    )


def words_of_b(n_trials, sampling, r):
    """Word a case of (b)."""
    return f"(b) {n_trials:,} trials, {sampling}, {r} landmarks"


def part_a(table, n_trials):
    """Measure all cases, each in a process of its own."""
    matrix = matrix_size(n_trials)
    for number in range(len(CASES)):
        seconds, before, after, accuracy = measure_case(number, n_trials)
        table.append(
            words_of_a(number, n_trials),
            f"accuracy {accuracy:.3f}, {seconds:.1f} s, {after / 1e3:.2f} GB, of which "
            f"libraries and data {before / 1e3:.2f} GB",
            f"the (n, n) matrix alone: {matrix:.3g} GB",
            ratio(matrix, after / 1e3, "its memory"),
        )


def ratio(theirs, ours, what):
    """Word how much less ours is."""
    return f"{ours / theirs:.2g} times {what}"


def part_b(table, n_trials):
    """Compare class scores with the exact ones."""
    X, y = simulate(n_trials)
    start = time.perf_counter()
    exact = cross_validate(X, y, kernel="rbf", reg=0.3, cv=10)
    exact_seconds = time.perf_counter() - start
    for sampling in SAMPLING:
        for r in (r for r in RANKS if r < n_trials):
            start = time.perf_counter()
            found = cross_validate(
                X, y, kernel="rbf", reg=0.3, approx=Nystrom(r, sampling), cv=10
            )
            seconds = time.perf_counter() - start
            difference = found.class_scores - exact.class_scores
            error = np.sqrt(np.mean(difference**2)) / exact.class_scores.std()
            table.append(
                words_of_b(n_trials, sampling, r),
                f"accuracy {found.scores:.3f}, relative error {error:.2g}, "
                f"{seconds:.2f} s",
                f"exact: accuracy {exact.scores:.3f}, {exact_seconds:.2f} s",
                ratio(exact_seconds, seconds, "its time"),
            )


def quick_cases():
    """Return what --check compares with the table: memory, and both samplings."""
    X, y = simulate(N_EXACT)
    decode = partial(cross_validate, X, y, kernel="rbf", cv=10)
    some, *_ = (number for number, case in enumerate(CASES) if case[2])
    needed = cache(partial(measure_case, some, N_TRIALS))  # it is the same every time
    memory = Case(
        words_of_a(some, N_TRIALS),
        lambda: needed()[2] / 1e3,
        lambda: matrix_size(N_TRIALS),
        measured=told,
    )
    return [memory] + [
        Case(
            words_of_b(N_EXACT, sampling, 500),
            partial(decode, approx=Nystrom(500, sampling)),
            decode,
        )
        for sampling in SAMPLING
    ]


def main():
    """Run the parts and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few trials")
    parser.add_argument("--out", type=Path, help="where to write the table")
    parser.add_argument("--check", action="store_true", help=CHECK_HELP)
    parser.add_argument("--case", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--trials", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.case is not None:
        run_case(args.case, args.trials)
        return
    if args.check:
        end(check(RESULTS, quick_cases()))
    table = Table()
    part_a(table, 5_000 if args.quick else N_TRIALS)
    part_b(table, 800 if args.quick else N_EXACT)
    packages = ", ".join(
        f"{name} {version(name)}" for name in ("numpy", "scipy", "scikit-learn")
    )
    cores = max(pool["num_threads"] for pool in threadpool_info())
    machine = f"{platform.machine()}, {cores} thread{'s' * (cores > 1)}; Python "
    machine += f"{platform.python_version()}, {packages}"
    if path := args.out or (None if args.quick else RESULTS):
        table.write(path, machine)


if __name__ == "__main__":
    main()
