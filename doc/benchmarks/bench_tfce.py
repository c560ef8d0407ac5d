"""Threshold-free cluster enhancement: the exact integral against sums over heights.

Run ``python doc/benchmarks/bench_tfce.py``; it takes some minutes with one thread and
rewrites ``results_tfce.rst`` beside it, which the documentation includes. ``--quick``
takes small maps, ``--out`` says where to write.

Twenty maps of smooth noise on a lattice of 12 x 143 x 143 positions, as of
sensors at pairs of times, are enhanced by all programs. Times are those of the
processor, of one run; those of other programs are of some maps, in proportion.
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
FWHM = 4


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


#: Of so many maps the time of other programs is measured.
N_OTHERS = 1
EXACT = "mvpa_kfda, exact"
PROGRAMS = {
    EXACT: tfce,
    "MNE-Python, steps of 0.2": lambda maps: by_mne(maps, 0.2),
    "nilearn, 100 steps": by_nilearn,
}


def draw(shape):
    """Return maps of smooth noise with variance 1."""
    maps = np.random.default_rng(0).normal(size=(N_MAPS, *shape))
    maps = np.stack([gaussian_filter(one, FWHM / 2.355) for one in maps])
    return maps / maps.std()


def measure(maps):
    """Return seconds of the processor by program, and how far scores are from ours."""
    seconds, scores = {}, {}
    for name, enhance in PROGRAMS.items():
        taken = maps if name == EXACT else maps[:N_OTHERS]
        start = time.process_time()
        scores[name] = enhance(taken)[:N_OTHERS]
        seconds[name] = (time.process_time() - start) * len(maps) / len(taken)
    exact = scores[EXACT]
    rows = []
    for name in PROGRAMS:
        # How much a score differs, where it is among the larger half.
        large = exact > np.median(exact[exact > 0])
        off = np.abs(scores[name][large] / exact[large] - 1)
        largest = np.abs(scores[name] - exact).max() / exact.max()
        differences = (f"{100 * x:.2g}" for x in (np.median(off), largest))
        rows.append([name, f"{seconds[name]:.2f}", *differences])
    return rows


def main(arguments=None):
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS)
    asked = parser.parse_args(arguments)
    shape = QUICK_SHAPE if asked.quick else SHAPE
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = measure(draw(shape))
    heads = [
        "Program",
        "CPU seconds",
        "Typical difference from the integral, %",
        "Largest difference, % of the highest score",
    ]
    lattice = " x ".join(map(str, shape))
    lines = [
        f"{N_MAPS} maps of smooth noise on a lattice of {lattice} positions. Other "
        f"programs were timed on {N_OTHERS}, and their time is scaled to all. The "
        "typical difference is the median over the larger half of the scores.",
        "",
        *list_table(heads, rows),
        "",
        machine(),
        "",
    ]
    asked.out.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
