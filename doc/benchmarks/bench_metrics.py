"""What other metrics than accuracy cost, as ratios measured in one run.

Run ``python doc/benchmarks/bench_metrics.py``; it takes some minutes and rewrites
``results_metrics.rst`` beside it, which the documentation includes. Times are medians
of alternating runs, so that both sides of a ratio see the same machine. All with two
classes, ten folds and one job:

(a) a time course, 300 trials x 64 channels x 100 times, 1000 permutations;
(b) a generalization map, 200 trials x 32 channels, 58 x 58 times, 100 permutations;
(c) a searchlight, 100 images of 1000 voxels, 100 permutations.
"""

import argparse
import platform
from functools import partial
from pathlib import Path

import numpy as np
import scipy
from bench_epochs import Table, medians
from nibabel import Nifti1Image
from ratios import CHECK_HELP, Case, check, end
from threadpoolctl import threadpool_info, threadpool_limits

from mvpa_kfda import decode_arrays, generalize_arrays, searchlight

RESULTS = Path(__file__).with_name("results_metrics.rst")
METRICS = ("accuracy", "balanced_accuracy", "f1", "kappa", "roc_auc")
OPTIONS = {"reg": 0.3, "random_state": 0, "n_jobs": 1, "verbose": False}


def make_trials(n, p, n_times, seed=0):
    """Return trials (n, p, n_times) of two classes, and their labels."""
    y = np.arange(n) % 2
    noise = np.random.default_rng(seed).standard_normal((n, p, n_times))
    return noise + 0.2 * y[:, np.newaxis, np.newaxis], y


def time_course():
    """Return the words for the first problem, and a function of the metric."""
    X, y = make_trials(300, 64, 100)

    def decode(metric):
        decode_arrays(X, y, scoring=metric, n_permutations=1000, **OPTIONS)

    return "300 x 64 x 100, 1000 permutations", decode


def generalization():
    """Do the same for the second problem."""
    X, y = make_trials(200, 32, 58)

    def decode(metric):
        generalize_arrays(X, y, scoring=metric, n_permutations=100, **OPTIONS)

    return "200 x 32, 58 x 58 times, 100 permutations", decode


def spheres():
    """Do the same for the third problem."""
    X, y = make_trials(100, 1000, 1)
    affine = np.diag([3.0, 3.0, 3.0, 1.0])
    images = Nifti1Image(X.reshape(100, 10, 10, 10).transpose(1, 2, 3, 0), affine)
    mask = Nifti1Image(np.ones((10, 10, 10), np.uint8), affine)

    def decode(metric):
        searchlight(
            images,
            y,
            mask_img=mask,
            radius=6,
            cv=10,
            scoring=metric,
            n_permutations=100,
            **OPTIONS,
        )

    return "searchlight, 100 images, 1000 spheres, 100 permutations", decode


PROBLEMS = {"a": time_course, "b": generalization, "c": spheres}


def quick_cases():
    """Return what --check compares with the table."""
    words, decode = PROBLEMS["a"]()
    return [
        Case(f"(a) {words}, {name}", partial(decode, name), partial(decode, "accuracy"))
        for name in ("balanced_accuracy", "roc_auc")
    ]


def main():
    """Run all problems; write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--check", action="store_true", help=CHECK_HELP)
    args = parser.parse_args()
    if args.check:
        end(check(RESULTS, quick_cases()))
    table = Table()
    with threadpool_limits(1):
        for letter, problem in PROBLEMS.items():
            words, decode = problem()
            calls = {name: partial(decode, name) for name in METRICS}
            seconds = medians(args.runs, **calls)
            plain = seconds["accuracy"]
            for name in METRICS[1:]:
                table.append(
                    f"({letter}) {words}, {name}",
                    f"{seconds[name]:.2f} s",
                    f"accuracy: {plain:.2f} s",
                    f"{seconds[name] / plain:.2f} of its time",
                )
        blas = max(pool["num_threads"] for pool in threadpool_info())
    table.write(
        RESULTS,
        f"{blas} {platform.machine()} core; Python {platform.python_version()}, NumPy "
        f"{np.__version__}, SciPy {scipy.__version__}",
    )


if __name__ == "__main__":
    main()
