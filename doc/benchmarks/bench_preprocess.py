"""What steps learned in every fold cost, as ratios measured in one run.

Run ``python doc/benchmarks/bench_preprocess.py``; it takes some minutes and rewrites
``results_preprocess.rst`` beside it, which the documentation includes. Times are
medians of alternating runs, so that both sides of a ratio see the same machine, with
one thread. ``--before FOLDER`` also times another version of the package, in FOLDER, on
calls without steps; ``--parts a c`` runs some of the parts, ``--quick`` takes few
permutations and repetitions, and ``--out`` says where to write.

(a) 1000 permutations at one position, with and without steps or confounds: a time point
    of 300 trials x 64 channels, 3 classes, 10 folds, and a sphere of 100 images x 93
    voxels, 4 classes, 5 folds.
(b) The same with training sets that are not all others, without steps, against as many
    ordinary folds.
(c) ``decode_epochs``, 100 time points of the first shape, without permutations and with
    1000, against the same call without steps, and against ONE cross-validation, without
    any permutation, of a pipeline of StandardScaler and linear discriminant analysis in
    MNE's SlidingEstimator; a searchlight of such spheres.
(d) scikit-learn's ``permutation_test_score`` of the same pipelines, which refits them
    for every fold and permutation; extrapolated from few permutations.
(e) Calls without steps, against the other version, in processes that take turns.

Before anything is timed, the pipelines with KernelFDA must predict the same.
"""

import argparse
import os
import platform
import subprocess
import sys
from functools import partial
from importlib.metadata import version
from pathlib import Path

import mne
import numpy as np
from bench_epochs import Table, make_epochs, make_features, medians
from ratios import CHECK_HELP, Case, check, end
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import (
    KFold,
    ShuffleSplit,
    TimeSeriesSplit,
    cross_val_predict,
    permutation_test_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from mvpa_kfda import KernelFDA, cross_validate, decode_epochs

RESULTS = Path(__file__).with_name("results_preprocess.rst")
#: Words -> trials, features, classes, folds.
SHAPES = {
    "300 x 64, 3 classes, 10 folds": (300, 64, 3, 10),
    "100 x 93, 4 classes, 5 folds": (100, 93, 4, 5),
}
STEPS = {
    "zscore": StandardScaler(),
    "pca": PCA(0.99, svd_solver="full"),
    "whiten": PCA(0.99, svd_solver="full", whiten=True),
}


class Sizes:
    """Numbers of repetitions, permutations, spheres and times."""

    runs, n_permutations, n_refitted, n_centres, n_times = 9, 1000, 4, 400, 100

    @classmethod
    def quicken(cls):
        """Take few of them."""
        cls.runs, cls.n_permutations, cls.n_refitted = 1, 20, 1
        cls.n_centres, cls.n_times = 10, 4


def cross_validated(shape, cv=None, **options):
    """Return a call of the package at one position, with permutations."""
    n, p, n_classes, n_folds = shape
    X, y = make_features(n, p, n_classes)
    cv = KFold(n_folds) if cv is None else cv
    options |= {"n_permutations": Sizes.n_permutations, "random_state": 0}
    return partial(cross_validate, X, y, reg=0.3, cv=cv, **options)


def check_equal(shape):
    """Compare the predictions with those of refitted pipelines."""
    n, p, n_classes, n_folds = shape
    X, y = make_features(n, p, n_classes)
    X = X * np.geomspace(1, 3, p) + 5
    cv = KFold(n_folds)
    for name, step in STEPS.items():
        found = cross_validate(X, y, reg=0.3, cv=cv, preprocess=name)
        expected = cross_val_predict(
            make_pipeline(step, KernelFDA(reg=0.3)), X, y, cv=cv
        )
        np.testing.assert_array_equal(found.classes[found.predicted], expected)


def milliseconds(seconds):
    """Word a time."""
    return f"{1e3 * seconds:.0f} ms" if seconds < 1 else f"{seconds:.2f} s"


def part_a(table):
    """Time one position with steps against none."""
    for words, shape in SHAPES.items():
        confounds = np.random.default_rng(1).standard_normal((shape[0], 2))
        calls = {"none": cross_validated(shape)}
        for name in STEPS:
            calls[f'"{name}"'] = cross_validated(shape, preprocess=name)
        calls["2 confounds"] = cross_validated(shape, confounds=confounds)
        calls['"zscore", 2 confounds'] = cross_validated(
            shape, preprocess="zscore", confounds=confounds
        )
        seconds = medians(Sizes.runs, **calls)
        plain = seconds.pop("none")
        for name, value in seconds.items():
            table.append(
                f"(a) {words}, {Sizes.n_permutations} permutations, {name}",
                milliseconds(value),
                f"without: {milliseconds(plain)}",
                f"{value / plain:.2f} times it",
            )


def part_b(table):
    """Time training sets that are not all others."""
    for words, shape in SHAPES.items():
        k = shape[3]
        shuffled = {"test_size": 1 / k, "random_state": 0}
        folds = {
            f"TimeSeriesSplit({k})": TimeSeriesSplit(k),
            f"ShuffleSplit({k}), training on 60 %": ShuffleSplit(
                k, train_size=0.6, **shuffled
            ),
        }
        calls = {name: cross_validated(shape, cv) for name, cv in folds.items()}
        seconds = medians(Sizes.runs, plain=cross_validated(shape), **calls)
        plain = seconds.pop("plain")
        for name, value in seconds.items():
            table.append(
                f"(b) {words.rpartition(',')[0]}, {name}",
                milliseconds(value),
                f"{k} ordinary folds: {milliseconds(plain)}",
                f"{value / plain:.2f} times it",
            )


def sliding(epochs, y, cv):
    """Cross-validate a pipeline at every time point, without permutations."""
    pipeline = make_pipeline(StandardScaler(), LinearDiscriminantAnalysis())
    model = mne.decoding.SlidingEstimator(pipeline, scoring="accuracy", verbose=False)
    data = epochs.get_data()
    return mne.decoding.cross_val_multiscore(model, data, y, cv=cv, verbose=False)


def part_c(table):
    """Time a time course and a searchlight."""
    epochs, y = make_epochs(n_times=Sizes.n_times)
    cv, steps = KFold(10), [None, *STEPS]

    def decode(step, n_permutations):
        options = {"n_permutations": n_permutations, "random_state": 0, "reg": 0.3}
        decode_epochs(epochs, y, cv=cv, preprocess=step, verbose=False, **options)

    theirs = partial(sliding, epochs, y, cv)
    for n, in_words in ((0, "no"), (Sizes.n_permutations, Sizes.n_permutations)):
        sides = {str(step): partial(decode, step, n) for step in steps}
        seconds = medians(max(1, Sizes.runs // 3), **sides, mne=theirs)
        against = {"without": seconds.pop("None")}
        against["one sliding pipeline"] = seconds.pop("mne")
        words = f"(c) 300 x 64 x {Sizes.n_times} times, {in_words} permutations"
        for step, value in seconds.items():
            for other, those in against.items():
                table.append(
                    f'{words}, "{step}"',
                    milliseconds(value),
                    f"{other}: {milliseconds(those)}",
                    f"{value / those:.2f} of its time",
                )
    spheres(table)


def spheres(table):
    """Time a searchlight with z-scores against one without."""
    import bench_searchlight

    problem = bench_searchlight.A
    images, centres = problem.images, problem.centres(Sizes.n_centres)
    ours = partial(
        bench_searchlight.ours, problem, images, Sizes.n_permutations, centres, reg=0.3
    )
    seconds = medians(
        max(1, Sizes.runs // 3), plain=ours, zscore=partial(ours, preprocess="zscore")
    )
    table.append(
        f'(c) {problem.describe(Sizes.n_permutations, Sizes.n_centres)}, "zscore"',
        milliseconds(seconds["zscore"]),
        f"without: {milliseconds(seconds['plain'])}",
        f"{seconds['zscore'] / seconds['plain']:.2f} of its time",
    )


def part_d(table):
    """Time scikit-learn's permutations of the same pipelines."""
    n_refitted, n_permutations = Sizes.n_refitted, Sizes.n_permutations
    for words, shape in SHAPES.items():
        n, p, n_classes, n_folds = shape
        X, y = make_features(n, p, n_classes)
        for model in (KernelFDA(reg=0.3), LinearDiscriminantAnalysis()):
            pipeline = make_pipeline(StandardScaler(), model)
            refit = partial(permutation_test_score, pipeline, X, y)
            seconds = medians(
                max(1, Sizes.runs // 3),
                ours=cross_validated(shape, preprocess="zscore"),
                theirs=partial(refit, cv=KFold(n_folds), n_permutations=n_refitted),
            )
            all_of_them = seconds["theirs"] / (n_refitted + 1) * (n_permutations + 1)
            table.append(
                f'(d) {words}, {n_permutations} permutations, "zscore"',
                milliseconds(seconds["ours"]),
                f"permutation_test_score, StandardScaler and {type(model).__name__}: "
                f"{all_of_them:.0f} s, extrapolated from {n_refitted} permutations",
                f"{all_of_them / seconds['ours']:.0f} times faster",
            )


#: Calls that both versions know.
SAME = {
    **SHAPES,
    "300 x 64 x 100 times": None,
}


def time_plain():
    """Print the median seconds of calls without steps."""
    epochs, y = make_epochs(n_times=Sizes.n_times)
    options = {"n_permutations": Sizes.n_permutations, "random_state": 0}
    course = partial(decode_epochs, epochs, y, cv=KFold(10), verbose=False, **options)
    with threadpool_limits(1):
        for shape in SAME.values():
            call = course if shape is None else cross_validated(shape)
            n_runs = max(1, Sizes.runs // 3) if shape is None else 3 * Sizes.runs
            call()
            print(medians(n_runs, call=call)["call"])


def part_e(table, before, quick):
    """Time calls without steps in both versions, by turns."""
    folders = {"now": Path(__file__).parents[2], "before": before}
    found = {name: [] for name in folders}
    for _ in range(max(1, Sizes.runs // 2)):
        for name, folder in folders.items():
            command = [sys.executable, __file__, "--plain", *["--quick"] * quick]
            env = os.environ | {"PYTHONPATH": str(folder)}
            done = subprocess.run(command, env=env, stdout=-1, check=True)
            found[name].append([float(number) for number in done.stdout.split()])
    now, then = (np.median(found[name], axis=0) for name in folders)
    for words, ours, theirs in zip(SAME, now, then, strict=True):
        table.append(
            f"(e) {words}, {Sizes.n_permutations} permutations, without steps",
            milliseconds(ours),
            f"the version before there were any: {milliseconds(theirs)}",
            f"{ours / theirs:.2f} of its time",
        )


PARTS = {"a": part_a, "b": part_b, "c": part_c, "d": part_d}


def quick_cases():
    """Return what --check compares with the table: steps at one position."""
    (words, shape), *_ = SHAPES.items()
    plain = cross_validated(shape)
    return [
        Case(
            f'(a) {words}, {Sizes.n_permutations} permutations, "{name}"',
            cross_validated(shape, preprocess=name),
            plain,
        )
        for name in STEPS
    ]


def main(arguments=None):
    """Run the parts and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, help="folder of another version")
    parser.add_argument("--parts", nargs="+", choices="abcde", default=list("abcde"))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, help="where to write the table")
    parser.add_argument("--check", action="store_true", help=CHECK_HELP)
    parser.add_argument("--plain", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    if args.quick:
        Sizes.quicken()
    if args.plain:
        time_plain()
        return
    table = Table()
    with threadpool_limits(1):
        if args.check:
            end(check(RESULTS, quick_cases()))
        for shape in SHAPES.values():
            check_equal(shape)
        for name, part in PARTS.items():
            if name in args.parts:
                part(table)
    if args.before and "e" in args.parts:
        part_e(table, args.before, args.quick)
    packages = ("numpy", "scipy", "scikit-learn", "mne")
    packages = ", ".join(f"{name} {version(name)}" for name in packages)
    machine = f"1 {platform.machine()} core; Python {platform.python_version()}"
    if path := args.out or (None if args.quick else RESULTS):
        table.write(path, f"{machine}, {packages}")


if __name__ == "__main__":
    main()
