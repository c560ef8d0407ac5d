"""Speed and memory of group inference, as ratios measured in one run.

Run ``python doc/benchmarks/bench_group.py``; it takes about ten minutes and rewrites
``results_group.rst`` beside it, which the documentation includes. ``--quick`` takes few
voxels and permutations; it prints its rows, and writes them only where ``--out`` says.

20 subjects with 100 label permutations of 30,000 voxels in a box, saved in one file
each. Accuracies of 40 trials are noise that is smooth over voxels, single precision.

(a) ``group_inference`` on the files, with 10,000 second-level permutations: prevalence
    and bootstrap, in a process of its own whose peak memory includes the libraries.
    Against it, the plain way of a second-level permutation: take a map of each subject,
    and their minimum; timed on some permutations and extrapolated.
(b) 1,000 sign flips, by this package (as ``method="t"`` makes them), by MNE-Python on a
    graph of voxels, and by nilearn's ``permuted_ols`` on the volume.
(c) The corrections of one map, observed and 1,000 permuted ones of 30,000 voxels, on
    the lattice and on a graph.
"""

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
import warnings
from functools import partial
from importlib.metadata import version
from inspect import signature
from pathlib import Path

import numpy as np
from bench_epochs import Table, medians
from bench_nystrom import peak
from mne.stats import permutation_cluster_1samp_test, permutation_t_test
from nibabel import Nifti1Image
from nilearn.maskers import NiftiMasker
from nilearn.mass_univariate import permuted_ols
from ratios import CHECK_HELP, Case, check, end
from scipy.ndimage import gaussian_filter
from scipy.sparse import coo_array, triu
from scipy.stats import t
from sklearn.feature_extraction.image import grid_to_graph
from threadpoolctl import threadpool_limits

from mvpa_kfda import VolumeResult, group_inference
from mvpa_kfda.data.space import VolumeSpace
from mvpa_kfda.inference.corrections import CORRECTIONS, corrected_p_values

RESULTS = Path(__file__).with_name("results_group.rst")
BOX, QUICK_BOX = (40, 30, 25), (8, 6, 5)
N_SUBJECTS, N_TRIALS, FWHM_VOXELS = 20, 40, 3
#: Permuted maps of a subject, second-level permutations, and sign flips.
N_FIRST, N_SECOND, N_FLIPS = 100, 10_000, 1000
#: Method and correction of the cases of (a).
CASES = (
    ("prevalence", "max"),
    ("bootstrap", "max"),
    ("bootstrap", "cluster-fdr"),
    ("prevalence", "cluster"),
)
FLIPPED = ("max", "cluster", "tfce")
LEVEL = 0.001


def smooth_maps(rng, n_maps, box):
    """Return maps of normal deviates that are smooth in space, (n_maps, voxels)."""
    maps = rng.standard_normal((n_maps, *box), dtype=np.float32)
    for each in maps:
        each[:] = gaussian_filter(each, FWHM_VOXELS / 2.355)
    return maps.reshape(n_maps, -1) / maps.std()


def make_result(seed, n_permutations, box):
    """Return a result whose scores are accuracies of noise."""
    maps = smooth_maps(np.random.default_rng(seed), n_permutations + 1, box)
    correct = np.rint(N_TRIALS / 2 + np.sqrt(N_TRIALS) / 2 * maps)
    scores = (correct / N_TRIALS).clip(0, 1).astype(np.float32)
    n = scores.shape[1]
    pairs = triu(grid_to_graph(*box), k=1).nonzero()
    return VolumeResult(
        positions=np.arange(n),
        space=VolumeSpace(np.ones(box, bool), np.diag([3.0, 3.0, 3.0, 1.0])).pack(),
        adjacency=np.stack(pairs),
        n_features=np.full(n, 33),
        metrics={"accuracy": scores[0].astype(float)},
        nulls={"accuracy": scores[1:]},
        chances={"accuracy": 0.5},
        classes=np.array(["face", "house"]),
        y=np.array([0, 1]),
        groups=None,
        predicted=np.zeros((n, 2), np.int8),
        tests=(np.array([0, 1]),),
        parameters={"null": "full", "n_permutations": n_permutations},
        versions={},
    )


def run_case(number, folder, n_permutations):
    """Run one case of (a) on the files; print seconds, and peaks of memory in MB."""
    method, correction = CASES[number]
    before = peak()
    start = time.perf_counter()
    group = group_inference(
        sorted(Path(folder).glob("sub-*.h5")),
        method,
        correction,
        n_permutations=n_permutations,
        random_state=0,
    )
    seconds = time.perf_counter() - start
    smallest = float(np.nanmin(group.pvalues()))
    print(json.dumps([seconds, before, peak(), smallest]))


def plainly(results, reduce, some=50):
    """Return a function that makes some second-level permutations one by one."""
    maps = [np.vstack([r.scores[np.newaxis], r.null]) for r in results]
    rng = np.random.default_rng(0)
    observed = reduce([each[0] for each in maps], axis=0)

    def permute():
        count, maxima = np.zeros(len(observed), int), []
        for _ in range(some):
            drawn = [each[rng.integers(len(each))] for each in maps]
            permuted = reduce(drawn, axis=0)
            count += permuted >= observed
            maxima.append(permuted.max())

    return permute


def plain_seconds(results, n_permutations, reduce, some=50):
    """Extrapolate the time of so many second-level permutations, one after another."""
    seconds = medians(1, plain=plainly(results, reduce, some))["plain"]
    return seconds / some * n_permutations


def words_of_a(n_first, n_voxels, n_permutations, method, correction):
    """Word a case of (a)."""
    return (
        f"{N_SUBJECTS} subjects x {n_first} x {n_voxels:,} voxels, {n_permutations:,} "
        f"second-level permutations, {method}, correction {correction!r}"
    )


def part_a(table, results, n_permutations):
    """Measure all cases, each in a process of its own."""
    n_voxels, n_first = results[0].scores.size, results[0].n_permutations
    plain = {
        "prevalence": plain_seconds(results, n_permutations, np.min),
        "bootstrap": plain_seconds(results, n_permutations, np.mean),
    }
    with tempfile.TemporaryDirectory() as folder:
        for number, result in enumerate(results, start=1):
            result.save(Path(folder) / f"sub-{number:02d}.h5")
        for number, (method, correction) in enumerate(CASES):
            command = [sys.executable, __file__, "--case", str(number)]
            command += ["--folder", folder, "--permutations", str(n_permutations)]
            done = subprocess.run(command, stdout=-1, check=True)
            seconds, before, after, _ = json.loads(done.stdout)
            table.append(
                words_of_a(n_first, n_voxels, n_permutations, method, correction),
                f"{seconds:.1f} s with loading, {after / 1e3:.2f} GB, of which "
                f"libraries {before / 1e3:.2f} GB",
                f"one permutation after another, without correcting: "
                f"{plain[method]:.0f} s",
                f"{seconds / plain[method]:.2g}",
            )


def by_mne(differences, graph, correction, n_flips):
    """Flip signs by MNE-Python."""
    options = {"n_permutations": n_flips, "tail": 1, "verbose": False}
    # The older name of the argument is "seed".
    names = signature(permutation_t_test).parameters
    options["rng" if "rng" in names else "seed"] = 0
    if correction == "max":
        permutation_t_test(differences, **options)
        return
    height = t.isf(LEVEL, len(differences) - 1)
    permutation_cluster_1samp_test(
        differences,
        threshold=height if correction == "cluster" else {"start": 0, "step": 0.2},
        adjacency=coo_array(graph),
        out_type="indices",
        buffer_size=None,
        **options,
    )


def by_nilearn(differences, masker, correction, n_flips):
    """Flip signs by nilearn, without the writing of its images."""
    permuted_ols(
        np.ones((len(differences), 1)),
        differences,
        model_intercept=False,
        n_perm=n_flips,
        two_sided_test=False,
        random_state=0,
        masker=None if correction == "max" else masker,
        tfce=correction == "tfce",
        threshold=LEVEL if correction == "cluster" else None,
        output_type="dict",
    )


def flipping(results, name, n_flips):
    """Return the problem in words, and functions that flip signs by each library."""
    differences = np.stack([result.scores - 0.5 for result in results])
    space = results[0].geometry
    graph = grid_to_graph(*space.mask.shape)
    mask = Nifti1Image(space.mask.astype(np.uint8), space.affine)
    masker = NiftiMasker(mask, standardize=None).fit()
    options = {"n_permutations": n_flips, "threshold": LEVEL, "random_state": 0}
    words = (
        f"{len(results)} subjects, {space.n_positions:,} voxels, {n_flips:,} sign "
        f"flips, correction {name!r}"
    )
    return words, {
        "ours": partial(group_inference, results, "t", name, **options),
        "MNE-Python": partial(by_mne, differences, graph, name, n_flips),
        "nilearn": partial(by_nilearn, differences, masker, name, n_flips),
    }


def part_b(table, results, n_flips):
    """Compare sign flips of this package with those of the libraries."""
    for name in FLIPPED:
        words, sides = flipping(results, name, n_flips)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            seconds = medians(1, **sides)
        own = seconds.pop("ours")
        for library, theirs in seconds.items():
            table.append(
                words,
                f"{own:.2f} s",
                f"{library}: {theirs:.1f} s",
                f"{own / theirs:.2g}",
            )


def part_c(table, box, n_permutations):
    """Measure every correction of one map."""
    maps = smooth_maps(np.random.default_rng(0), n_permutations + 1, box)
    maps = maps.astype(float)
    on_box = maps.reshape(-1, *box)
    graph = grid_to_graph(*box)
    for name in [n for n, known in CORRECTIONS.items() if not known.of_courses]:
        seconds = medians(
            1,
            lattice=lambda name=name: corrected_p_values(on_box[0], on_box[1:], name),
            graph=lambda name=name: corrected_p_values(
                maps[0], maps[1:], name, adjacency=graph
            ),
        )
        table.append(
            f"One map of {maps.shape[1]:,} voxels, {n_permutations:,} permutations, "
            f"correction {name!r}",
            f"{seconds['lattice']:.2f} s on the lattice",
            f"on a graph {seconds['graph']:.2f} s",
            f"{seconds['lattice'] / seconds['graph']:.2g}",
        )


def quick_cases():
    """Return what --check compares with the table.

    Results are in memory: loading them, about a sixth of the time of (a), is left out.
    """
    results = [make_result(seed, N_FIRST, BOX) for seed in range(N_SUBJECTS)]
    n_voxels, some = results[0].scores.size, 500
    options = {"n_permutations": N_SECOND, "random_state": 0}
    second_level = Case(
        words_of_a(N_FIRST, n_voxels, N_SECOND, *CASES[0]),
        partial(group_inference, results, *CASES[0], **options),
        plainly(results, np.min, some),
        times=N_SECOND / some,
    )
    words, sides = flipping(results, "cluster", N_FLIPS)
    ours = sides.pop("ours")
    flips = [Case(words, ours, side, library) for library, side in sides.items()]
    return [second_level, *flips]


def main():
    """Run the parts and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few voxels")
    parser.add_argument("--out", type=Path, help="where to write the table")
    parser.add_argument("--check", action="store_true", help=CHECK_HELP)
    parser.add_argument("--case", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    parser.add_argument("--permutations", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    with threadpool_limits(1):
        if args.case is not None:
            run_case(args.case, args.folder, args.permutations)
            return
        if args.check:
            warnings.simplefilter("ignore")  # as in part_b
            end(check(RESULTS, quick_cases()))
        box = QUICK_BOX if args.quick else BOX
        n_first, n_second, n_flips = (
            (20, 999, 200) if args.quick else (N_FIRST, N_SECOND, N_FLIPS)
        )
        results = [make_result(seed, n_first, box) for seed in range(N_SUBJECTS)]
        table = Table()
        part_a(table, results, n_second)
        part_b(table, results, n_flips)
        part_c(table, box, n_flips)
    packages = ("numpy", "scipy", "mne", "nilearn")
    machine = f"{platform.machine()}, 1 thread; Python {platform.python_version()}, "
    machine += ", ".join(f"{name} {version(name)}" for name in packages)
    if path := args.out or (None if args.quick else RESULTS):
        table.write(path, machine)


if __name__ == "__main__":
    main()
