"""Few images: accuracy, false alarms and time with features scaled by their noise.

Run ``python doc/benchmarks/bench_few_images.py``; it takes about a quarter of an hour
with one thread and rewrites ``results_few_images.rst`` beside it, which the
documentation includes. ``--quick`` takes few data sets, ``--out`` says where to write,
and ``--recordings FILE`` adds rows for recordings: an .npz file with NAME_X, NAME_y and
NAME_run for each.

Images are simulated as betas, one of each class and run: neighbouring voxels share
noise, so do the images of a run, and voxels differ in how much of it they have. Effects
are patterns that neighbouring voxels share, too, and are larger where there is more
noise, but not in proportion to it.
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from bench_paper import list_table
from scipy.ndimage import gaussian_filter1d
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import LeaveOneGroupOut, cross_val_score
from threadpoolctl import threadpool_limits

from mvpa_kfda import cross_validate

RESULTS = Path(__file__).with_name("results_few_images.rst")
#: Column -> the steps that are compared.
STEPS = {"default": None, "z-scores": "zscore", "noise scale": "noise_scale"}
#: Runs, classes, voxels and the size of the effect.
DESIGNS = {
    "6 runs, 2 classes": (6, 2, 400, 0.3),
    "6 runs, 4 classes": (6, 4, 400, 0.3),
    "8 runs, 5 classes": (8, 5, 800, 0.2),
    "12 runs, 2 classes": (12, 2, 400, 0.2),
    "12 runs, 8 classes": (12, 8, 400, 0.2),
}
#: Noise -> how much images of a run share, and how long it lasts from one to the next.
NOISE = {"of each image": (0, 0), "of runs": (0.5, 0), "lasting": (0.5, 0.9)}


def smooth(rng, *shape):
    """Return noise that neighbouring voxels share."""
    noise = gaussian_filter1d(rng.standard_normal(shape), 1.5, axis=-1)
    return noise / noise.std()


def simulate(design, noise, rng):
    """Return images (n, p), their classes and runs, in random order within runs."""
    (runs, n_classes, p, effect), (shared, lasting) = design, noise
    run = np.repeat(np.arange(runs), n_classes)
    y = np.concatenate([rng.permutation(n_classes) for _ in range(runs)])
    X = smooth(rng, len(y), p)
    for i in np.flatnonzero(np.diff(run) == 0):
        X[i + 1] = lasting * X[i] + np.sqrt(1 - lasting**2) * X[i + 1]
    X += shared * smooth(rng, runs, p)[run]
    spread = np.exp(0.7 * rng.standard_normal(p))
    patterns = effect * smooth(rng, n_classes, p)
    return X * spread + patterns[y] * np.sqrt(spread), y, run


def z_scored(X, run):
    """Return z-scores within runs."""
    Z = np.empty(X.shape)
    for k in np.unique(run):
        part = X[run == k]
        Z[run == k] = (part - part.mean(axis=0)) / part.std(axis=0)
    return Z


def accuracies(X, y, run):
    """Return the accuracy of every step, and of shrinkage LDA."""
    found = [
        cross_validate(X, y, groups=run, preprocess=step).metrics["accuracy"]
        for step in STEPS.values()
    ]
    lda = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
    # As many images in every run.
    scores = cross_val_score(lda, X, y, groups=run, cv=LeaveOneGroupOut())
    return [*found, scores.mean()]


def accuracy_rows(n, recordings):
    """Yield rows of mean accuracies, for images as they are and by run z-scored."""
    sets = {
        words: [
            simulate(design, NOISE["of runs"], np.random.default_rng([i, seed]))
            for seed in range(n)
        ]
        for i, (words, design) in enumerate(DESIGNS.items())
    }
    for words, data in (sets | recordings).items():
        for kind in ("raw", "z-scored by run"):
            if kind != "raw":
                data = [(z_scored(X, run), y, run) for X, y, run in data]
            means = np.mean([accuracies(*each) for each in data], axis=0)
            yield [f"{words}, {kind}", *(f"{mean:.3f}" for mean in means)]


def alarm_rows(n):
    """Yield rows of shares of data sets without effects with p <= 0.05."""
    runs, n_classes, p, _ = DESIGNS["6 runs, 4 classes"]
    for words, noise in NOISE.items():
        rates = []
        for step in STEPS.values():
            p_values = []
            for seed in range(n):
                rng = np.random.default_rng([100, seed])
                X, y, run = simulate((runs, n_classes, p, 0), noise, rng)
                options = {"preprocess": step, "n_permutations": 19}
                result = cross_validate(
                    z_scored(X, run), y, groups=run, random_state=seed, **options
                )
                p_values.append(float(result.pvalues()))
            rates.append(f"{100 * np.mean(np.array(p_values) <= 0.05):.1f} %")
        yield [words, *rates]


def time_rows(n_permutations):
    """Yield rows of seconds with permutations."""
    for words in ("6 runs, 4 classes", "8 runs, 5 classes", "12 runs, 8 classes"):
        X, y, run = simulate(DESIGNS[words], NOISE["of runs"], np.random.default_rng(0))
        seconds = []
        for step in STEPS.values():
            start = time.process_time()
            options = {"preprocess": step, "n_permutations": n_permutations}
            cross_validate(X, y, groups=run, random_state=0, **options)
            seconds.append(time.process_time() - start)
        start = time.process_time()
        lda = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
        cross_val_score(lda, X, y, groups=run, cv=LeaveOneGroupOut())
        seconds.append((time.process_time() - start) * (n_permutations + 1))
        yield [f"{words}, {X.shape[1]} voxels", *(f"{each:.3g} s" for each in seconds)]


def main(argv=None):
    """Run all; write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--recordings", type=Path)
    args = parser.parse_args(argv)
    n, n_null, n_permutations = (2, 2, 9) if args.quick else (60, 400, 1000)
    recordings = {}
    if args.recordings:
        with np.load(args.recordings) as file:
            names = [key.removesuffix("_run") for key in file if key.endswith("_run")]
            for name in names:
                data = (file[f"{name}_{part}"] for part in ("X", "y", "run"))
                recordings[name] = [tuple(data)]
    head = ["Images", *STEPS, "shrinkage LDA"]
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        accuracy = list(accuracy_rows(n, recordings))
        alarms = list(alarm_rows(n_null))
        seconds = list(time_rows(n_permutations))
    lines = [
        *list_table(head, accuracy),
        "",
        f"Accuracy, means over {n} data sets, runs left out one by one.",
        "",
        *list_table(["Noise", *STEPS], alarms),
        "",
        f"Data sets without effects with p ≤ 0.05, of {n_null} with 6 runs and 4",
        "classes, z-scored by run, 19 permutations.",
        "",
        *list_table(["Images", *STEPS, "LDA, estimated"], seconds),
        "",
        f"Processor time with {n_permutations} permutations.",
        "",
    ]
    args.out.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
