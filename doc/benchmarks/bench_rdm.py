"""What dissimilarity matrices of many classes cost, measured in one run.

Run ``python doc/benchmarks/bench_rdm.py``; it takes some minutes and rewrites
``results_rdm.rst`` beside it, which the documentation includes. CPU seconds of one
process, of which others that run at the same time hardly change anything:

(a) a time course, 92 classes x 10 trials x 64 channels x 100 times, ten folds: both
    tables of all 4,186 pairs, and accuracy alone, in alternating runs, with a fixed
    penalty and the default; and scikit-learn's linear discriminant analysis of each
    pair at each time, of which some pairs at one time are timed and the rest is
    extrapolated;
(b) a searchlight, 4 classes x 8 runs, one image each, spheres of 8 mm: the distances of
    all pairs in a process of their own, whose peak memory is what the system says; and
    rsatoolbox's own searchlight on spheres of the same size, if it is installed. It
    has no covariance of the noise there.
"""

import argparse
import json
import platform
import subprocess
import sys
import time
import warnings
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from bench_epochs import Table, medians
from nibabel import Nifti1Image
from ratios import CHECK_HELP, Case, check, end
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import KFold, cross_val_predict
from threadpoolctl import threadpool_info, threadpool_limits

from mvpa_kfda import decode_arrays, searchlight

RESULTS = Path(__file__).with_name("results_rdm.rst")
OPTIONS = {"random_state": 0, "n_jobs": 1, "verbose": False}
TABLES = ["crossnobis_distances", "pairwise_accuracies"]


def make_trials(n_classes=92, n_each=10, p=64, n_times=100, seed=0):
    """Return trials (n, p, n_times) of many classes in random order, and labels."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat(np.arange(n_classes), n_each))
    means = 0.2 * rng.standard_normal((n_classes, p, 1))
    return rng.standard_normal((len(y), p, n_times)) + means[y], y


def decode(X, y, scoring, reg=0.3):
    """Decode in ten folds that do not look at the labels."""
    cv = KFold(10, shuffle=True, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of sizes that nobody compares here
        return decode_arrays(X, y, cv=cv, scoring=scoring, reg=reg, **OPTIONS)


def seconds_by_pairs(X, y, n_pairs):
    """Return the CPU seconds that scikit-learn takes for a pair at a time."""
    rng, start = np.random.default_rng(0), time.process_time()
    for _ in range(n_pairs):
        rows = np.isin(y, rng.choice(y.max() + 1, 2, replace=False))
        lda = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
        cross_val_predict(lda, X[rows, :, 0], y[rows], cv=10)
    return (time.process_time() - start) / n_pairs


#: Voxels from the centre of a sphere to its end, and of the cubes.
REACH = 4


def make_images(side):
    """Return images (32, voxels) of 4 classes in 8 runs, their labels and runs."""
    rng = np.random.default_rng(0)
    y, runs = np.tile(np.arange(4), 8), np.repeat(np.arange(8), 4)
    return rng.standard_normal((32, side**3), dtype=np.float32), y, runs


def search(side):
    """Return the distances of all pairs around every voxel with a whole sphere."""
    data, y, runs = make_images(side)
    affine = np.diag([2.0, 2.0, 2.0, 1.0])
    inner = np.zeros((side,) * 3, np.uint8)
    inner[(slice(REACH, -REACH),) * 3] = 1
    result = searchlight(
        Nifti1Image(data.T.reshape(side, side, side, 32), affine),
        y,
        groups=runs,
        mask_img=Nifti1Image(np.ones_like(inner), affine),
        process_mask_img=Nifti1Image(inner, affine),
        radius=2.0 * REACH + 1e-3,
        scoring="crossnobis_distances",
        standardize=False,
        reg=0.3,
        **OPTIONS,
    )
    return result.rdm()


def search_with_rsatoolbox(side):
    """Do the same with rsatoolbox, whose folds are of the first images, and so on."""
    from rsatoolbox.util.searchlight import (
        get_searchlight_RDMs,
        get_volume_searchlight,
    )

    data, y, _ = make_images(side)
    whole = np.ones((side,) * 3)
    centres, spheres = get_volume_searchlight(whole, REACH + 1e-3)
    at = np.array(np.unravel_index(centres, whole.shape))
    inside = ((at >= REACH) & (at < side - REACH)).all(axis=0)
    spheres = [sphere for sphere, kept in zip(spheres, inside, strict=True) if kept]
    found = get_searchlight_RDMs(data, centres[inside], spheres, y, "crossnobis")
    return found.dissimilarities


SEARCHES = {"mvpa_kfda": search, "rsatoolbox": search_with_rsatoolbox}


def search_alone(name, side):
    """Print the spheres, CPU seconds and peak megabytes of a search, as JSON."""
    start = time.process_time()
    n = len(SEARCHES[name](side))
    seconds = time.process_time() - start
    print(json.dumps([n, seconds, peak_memory()]))


def peak_memory():
    """Return the peak megabytes of this process, on Linux.

    That of getrusage begins with what the process had that started this one.
    """
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1e3


def measured(name, side):
    """Return what `search_alone` prints in a process of its own."""
    command = [sys.executable, __file__, "--search", name, "--side", str(side)]
    output = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(output.stdout.splitlines()[-1])


def part_a(table, n_runs, n_pairs, penalties):
    """Time the course of 92 classes."""
    X, y = make_trials()
    for reg in penalties:
        calls = {
            "tables": partial(decode, X, y, TABLES, reg),
            "accuracy": partial(decode, X, y, "accuracy", reg),
        }
        seconds = medians(n_runs, time.process_time, **calls)
        words = "(a) 92 classes x 10 trials x 64 x 100, both tables"
        table.append(
            words if reg == 0.3 else f"{words}, reg={reg!r}",
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


def part_b(table, sides):
    """Measure searchlights."""
    for side in sides:
        n, seconds, peak = measured("mvpa_kfda", side)
        against, ratio = "", f"{n / seconds:,.0f} spheres per second"
        if side == min(sides) and find_spec("rsatoolbox"):
            _, theirs, their_peak = measured("rsatoolbox", side)
            against = f"rsatoolbox: {theirs:.1f} s, {their_peak:.0f} MB peak"
            ratio = f"{theirs / seconds:.1f} times faster"
        table.append(
            f"(b) searchlight, 4 classes x 8 runs, {n:,} spheres of 257 voxels",
            f"{seconds:.1f} s, {peak:.0f} MB peak",
            against,
            ratio,
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
    parser.add_argument("--side", type=int, default=71, help="voxels along a cube")
    only = "leave out the default penalty and the large searchlight"
    parser.add_argument("--quick", action="store_true", help=only)
    parser.add_argument("--search", choices=SEARCHES, help="measure one alone")
    parser.add_argument("--check", action="store_true", help=CHECK_HELP)
    args = parser.parse_args()
    if args.check:
        end(check(RESULTS, quick_cases()))
    if args.search:
        return search_alone(args.search, args.side)
    table = Table()
    with threadpool_limits(1):
        part_a(table, args.runs, args.pairs, [0.3] if args.quick else ["auto", 0.3])
        part_b(table, [20] if args.quick else [20, args.side])
        blas = max(pool["num_threads"] for pool in threadpool_info())
    packages = ["numpy", "scipy", "scikit-learn"]
    packages += ["rsatoolbox"] * (find_spec("rsatoolbox") is not None)
    table.write(
        RESULTS,
        f"{blas} {platform.machine()} core; Python {platform.python_version()}, "
        + ", ".join(f"{name} {version(name)}" for name in packages),
    )


if __name__ == "__main__":
    main()
