"""Threshold-free cluster enhancement: the exact integral against sums over heights.

Run ``python doc/benchmarks/bench_tfce.py``; it takes some minutes with one thread and
rewrites ``results_tfce.rst`` beside it, which the documentation includes. ``--quick``
takes small maps, ``--out`` says where to write.

Twenty maps of noise, smoothed or not, on a lattice of 12 x 143 x 143 positions, as of
sensors at pairs of times, are enhanced by all programs. Times are those of the
processor, the best of three, in turns.
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from bench_paper import list_table, machine
from mne.stats.cluster_level import _find_clusters
from nilearn.mass_univariate._utils import calculate_tfce
from scipy.ndimage import gaussian_filter, generate_binary_structure
from threadpoolctl import threadpool_limits

from mvpa_kfda.inference.clusters import tfce

RESULTS = Path(__file__).with_name("results_tfce.rst")
SHAPE, QUICK_SHAPE, N_MAPS = (12, 143, 143), (4, 15, 15), 20
STEPS = (0.2, 0.05)


def by_mne(maps, step):
    """Return the scores of MNE-Python."""
    how = {"start": 0, "step": step, "e_power": 0.5, "h_power": 2.0}
    return np.stack(
        [_find_clusters(one, how, tail=1)[1].reshape(one.shape) for one in maps]
    )


def by_nilearn(maps):
    """Return the scores of nilearn, which takes 100 steps up to the highest value."""
    faces = generate_binary_structure(3, 1)
    found = calculate_tfce(np.moveaxis(maps, 0, -1), faces, two_sided_test=False)
    # It leaves the width of a step out of its sum.
    return np.moveaxis(found, -1, 0) * maps.max(axis=(1, 2, 3), keepdims=True) / 100


PROGRAMS = {
    "mvpa_kfda, exact": tfce,
    "MNE-Python, steps of 0.2": lambda maps: by_mne(maps, STEPS[0]),
    "MNE-Python, steps of 0.05": lambda maps: by_mne(maps, STEPS[1]),
    "nilearn, 100 steps": by_nilearn,
}


def draw(shape, fwhm):
    """Return maps of noise with variance 1."""
    maps = np.random.default_rng(0).normal(size=(N_MAPS, *shape))
    if fwhm:
        maps = np.stack([gaussian_filter(one, fwhm / 2.355) for one in maps])
    return maps / maps.std()


def measure(maps, n_runs):
    """Return seconds of the processor by program, and how far scores are from ours."""
    seconds, scores = {name: [] for name in PROGRAMS}, {}
    for _ in range(n_runs):
        for name, enhance in PROGRAMS.items():
            start = time.process_time()
            scores[name] = enhance(maps)
            seconds[name].append(time.process_time() - start)
    exact = scores["mvpa_kfda, exact"]
    rows = []
    for name in PROGRAMS:
        # How much a score differs, where it is among the larger half.
        large = exact > np.median(exact[exact > 0])
        off = np.abs(scores[name][large] / exact[large] - 1)
        largest = np.abs(scores[name] - exact).max() / exact.max()
        rows.append(
            [name, f"{min(seconds[name]):.2f}", f"{100 * np.median(off):.2g}"]
            + [f"{100 * largest:.2g}"]
        )
    return rows


def main(arguments=None):
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS)
    asked = parser.parse_args(arguments)
    shape = QUICK_SHAPE if asked.quick else SHAPE
    rows = []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for words, fwhm in (("white noise", 0), ("smooth noise, FWHM 4", 4)):
            found = measure(draw(shape, fwhm), 1 if asked.quick else 3)
            rows += [[words, *row] for row in found]
    heads = [
        "Maps",
        "Program",
        "CPU seconds",
        "Typical difference to the integral, %",
        "Largest difference, % of the highest score",
    ]
    lattice = " x ".join(map(str, shape))
    lines = [
        f"{N_MAPS} maps on a lattice of {lattice} positions, positive values. The "
        "typical difference is the median over the larger half of the scores.",
        "",
        *list_table(heads, rows),
        "",
        f"{machine()}.",
        "",
    ]
    asked.out.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
