"""Speed and memory of searchlights, as ratios measured in one run.

Run ``python doc/benchmarks/bench_searchlight.py``; it takes about half an hour and
rewrites ``results_searchlight.rst`` beside it, which the documentation includes.
``--parts a c`` runs some of the parts, ``--quick`` all of them with few centres; these
print their rows, and write them only where ``--out`` says.

Data are noise in nilearn's MNI brain at 4 mm, 29,398 voxels, with spheres of about 93
voxels (radius 11.4 mm). Both sides have the same images, masks, folds and number of
workers, one BLAS thread per worker, and nothing standardised. The time of finding the
voxels of the spheres is included, except where it says "decoding alone". Times are
medians of alternating runs, so that both sides of a ratio see the same machine.

(a) 100 images, 4 classes, 5 runs, 2,000 centres: ``searchlight`` with 1000 permutations
    and without any, against ONE unpermuted run of nilearn's ``SearchLight`` with
    scikit-learn's shrinkage LDA: CPU time.
(b) 512 images, 8 classes, 8 runs, 28,000 centres, without permutations.
(c) 80 images, 2 classes, leave-one-out, 10,000 permutations, the whole brain.
(d) Peak memory of each, in a process of its own.

In (b) and (c) nilearn's time is extrapolated from a few centres. Before anything is
timed, ``SearchLight`` with ``KernelFDA`` must give the same scores as ``searchlight``.
"""

import argparse
import contextlib
import platform
import re
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path

import numpy as np
from bench_epochs import Table, medians
from joblib.externals.loky import get_reusable_executor
from nibabel import Nifti1Image
from nilearn.datasets import load_mni152_brain_mask
from nilearn.decoding import SearchLight
from nilearn.decoding.searchlight import search_light
from nilearn.image import coord_transform
from nilearn.maskers.nifti_spheres_masker import apply_mask_and_get_affinity
from ratios import CHECK_HELP, Case, check, end
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import LeaveOneGroupOut, LeaveOneOut
from threadpoolctl import threadpool_limits

from mvpa_kfda import KernelFDA, Linear, Ridge, searchlight
from mvpa_kfda.data.images import process_positions, read_images
from mvpa_kfda.data.neighbours import sphere_members
from mvpa_kfda.data.trials import Trials
from mvpa_kfda.decoding.analysis import make_analysis
from mvpa_kfda.decoding.positions import SubsetPositions
from mvpa_kfda.decoding.procedure import Procedure
from mvpa_kfda.decoding.run import run

RESULTS = Path(__file__).with_name("results_searchlight.rst")
N_VOXELS = 29_398
RADIUS = 11.4  # mm: 93 voxels of 4 mm where the brain does not end
N_SAMPLE = 40  # centres that nilearn's time is extrapolated from
LDA = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")


@cache
def brain():
    """Return nilearn's mask of the MNI brain."""
    return load_mni152_brain_mask(resolution=4)


@dataclass(frozen=True)
class Problem:
    """Images and what is asked of them."""

    n_images: int
    n_classes: int
    n_runs: int | None  # None leaves one image out
    n_centres: int | None  # None: all voxels
    n_permutations: int

    @property
    def images(self):
        """A 4D image of noise, in single precision like most files."""
        mask = np.asarray(brain().dataobj) != 0
        rng = np.random.default_rng(0)
        bold = np.zeros((*mask.shape, self.n_images), np.float32)
        size = np.count_nonzero(mask), self.n_images
        bold[mask] = rng.standard_normal(size, dtype=np.float32)
        return Nifti1Image(bold, brain().affine)

    @property
    def y(self):
        return np.arange(self.n_images) % self.n_classes

    @property
    def groups(self):
        if self.n_runs is None:
            return None
        return np.arange(self.n_images) * self.n_runs // self.n_images

    @property
    def cv(self):
        return LeaveOneOut() if self.n_runs is None else LeaveOneGroupOut()

    def centres(self, n=None):
        """Return a mask of some voxels, spread over the brain."""
        inside = np.argwhere(np.asarray(brain().dataobj))
        chosen = np.zeros(brain().shape, np.uint8)
        n = n or self.n_centres or N_VOXELS
        rows = np.linspace(0, len(inside) - 1, n).round().astype(int)
        chosen[tuple(inside[rows].T)] = 1
        return Nifti1Image(chosen, brain().affine)

    def describe(self, n_permutations=None, n=None):
        """Word the problem."""
        n = n or self.n_centres or N_VOXELS
        runs = f"{self.n_runs} runs" if self.n_runs else "leave-one-out"
        if n_permutations is None:
            n_permutations = self.n_permutations
        return (
            f"{self.n_images} images, {self.n_classes} classes, {runs}, {n:,} centres, "
            f"{f'{n_permutations:,}' if n_permutations else 'no'} permutations"
        )


def quick_centres(problem):
    return 200 if problem is A else 500


A = Problem(100, 4, 5, 2_000, 1_000)
B = Problem(512, 8, 8, 28_000, 0)
C = Problem(80, 2, None, None, 10_000)


def ours(problem, images, n_permutations, centres, mask=None, reg=0.3, **kwargs):
    """Decode with the direct method."""
    return searchlight(
        images,
        problem.y,
        groups=problem.groups,
        mask_img=mask or brain(),
        process_mask_img=centres,
        radius=RADIUS,
        standardize=False,
        reg=reg,
        cv=problem.cv,
        n_permutations=n_permutations,
        random_state=0,
        verbose=False,
        **kwargs,
    )


def theirs(problem, images, centres, estimator=LDA, mask=None):
    """Decode with nilearn's SearchLight."""
    model = SearchLight(
        mask or brain(),
        process_mask_img=centres,
        radius=RADIUS,
        estimator=estimator,
        scoring="accuracy",
        cv=problem.cv,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the estimator is not one of its own
        return model.fit(images, problem.y, problem.groups)


def our_decoding(problem, images, n_permutations, centres, dtype):
    """Return a function that decodes when the voxels of all spheres are known."""
    read = read_images(images, brain())
    spheres = sphere_members(read.space, process_positions(read, centres), RADIUS)
    options = {"reg": 0.3, "cv": problem.cv, "n_permutations": n_permutations}
    procedure = Procedure.of(options, random_state=0, dtype=dtype)
    trials = Trials(y=problem.y, n=problem.n_images, groups=problem.groups)
    analysis = make_analysis(trials, procedure)
    data = np.ascontiguousarray(read.X.T)
    source = SubsetPositions(data, spheres.indptr, spheres.indices, Linear(), 0.3)
    task = analysis.task
    return lambda: run(source, task, verbose=False)


def their_spheres(problem, images, centres):
    """Read the images and find the voxels of the spheres, with nilearn."""
    where = coord_transform(*np.nonzero(np.asarray(centres.dataobj)), centres.affine)
    return apply_mask_and_get_affinity(
        np.transpose(where), images, RADIUS, True, mask_img=brain()
    )


def check_equal(problem, n=20, lam=30.0):
    """Compare the scores of both at some centres."""
    images, centres = problem.images, problem.centres(n)
    expected = theirs(problem, images, centres, KernelFDA(reg=Ridge(lam)))
    result = ours(problem, images, 0, centres, reg=Ridge(lam))
    np.testing.assert_allclose(
        result.scores, expected.masked_scores_, rtol=0, atol=1e-12
    )
    print(f"The same scores: {problem.describe(0, n)}.", flush=True)


def their_time(problem, images, n_centres):
    """Return seconds that one LDA map takes, decoding alone, from some centres."""
    n = min(N_SAMPLE, n_centres)
    X, rows = their_spheres(problem, images, problem.centres(n))
    args = X, problem.y, LDA, rows, problem.groups, "accuracy", problem.cv
    seconds = medians(1, lda=lambda: search_light(*args))["lda"]
    return seconds / n * n_centres


def part_a(rows, n_centres):
    """Time some centres with and without permutations against one LDA map."""
    images, centres = A.images, A.centres(n_centres)
    cases = [(A.n_permutations, "float64"), (A.n_permutations, "float32"), (0, None)]
    sides = {
        "lda": lambda: theirs(A, images, centres),
        "spheres": lambda: their_spheres(A, images, centres),
    }
    for p, dtype in cases:
        d = dtype or "float64"
        sides[f"{p} {dtype}"] = lambda p=p, d=d: ours(A, images, p, centres, dtype=d)
        sides[f"{p} {dtype} alone"] = our_decoding(A, images, p, centres, d)
    others = [(A.n_permutations, "auto"), (0, "auto"), (A.n_permutations, "tuned")]
    for p, reg in others:
        sides[f"{p} {reg}"] = partial(ours, A, images, p, centres, reg=reg)
    t = medians(3, time.process_time, **sides)
    for p, reg in others:
        words = f'{A.describe(p, n_centres)}, reg="{reg}"'
        add_ratio(rows, words, p, t[f"{p} {reg}"], t["lda"])
    for p, dtype in cases:
        name, precision = f"{p} {dtype}", f", {dtype}" if dtype else ""
        for what, mine, lda in (
            ("", t[name], t["lda"]),
            (", decoding alone", t[f"{name} alone"], t["lda"] - t["spheres"]),
        ):
            words = f"{A.describe(p, n_centres)}{precision}{what}"
            add_ratio(rows, words, p, mine, lda)


def add_ratio(rows, words, n_permutations, mine, lda):
    """Add our seconds and those of LDA to the table."""
    faster = f"{lda / mine:.0f} times faster"
    rows.append(
        f"(a) {words}",
        f"{mine:.2f} s",
        f"one unpermuted nilearn SearchLight with LDA: {lda:.1f} s",
        f"{mine / lda:.2f} of its time" if n_permutations else faster,
    )


def part_b(rows, n_centres):
    """Time many images, without permutations."""
    against_extrapolated(rows, "b", B, n_centres, (None, 2), ("float64",))


def part_c(rows, n_centres):
    """Time very many permutations of two classes."""
    against_extrapolated(rows, "c", C, n_centres, (2,), ("float64", "float32"))


def against_extrapolated(rows, part, problem, n_centres, jobs, dtypes):
    """Time a whole brain, against LDA at a few of its centres."""
    images, centres = problem.images, problem.centres(n_centres)
    n = int(np.asarray(centres.dataobj).sum())
    lda = their_time(problem, images, n)
    for n_jobs in jobs:
        for dtype in dtypes:
            get_reusable_executor().shutdown(wait=True)  # they start anew
            seconds = medians(
                1,
                ours=lambda j=n_jobs, d=dtype: ours(
                    problem, images, problem.n_permutations, centres, n_jobs=j, dtype=d
                ),
            )["ours"]
            text = f"({part}) {problem.describe(n=n)}, {dtype}"
            if n_jobs:
                text += f", n_jobs={n_jobs}, starting the workers included"
            other = lda / (n_jobs or 1)
            rows.append(
                text,
                worded(seconds),
                f"one unpermuted nilearn SearchLight with LDA, n_jobs={n_jobs or 1}: "
                f"{worded(other)}, extrapolated from {min(N_SAMPLE, n)} centres"
                + (" and one job" if n_jobs else ""),
                f"{other / seconds:.3g} times faster",
            )


def worded(seconds):
    """Word a time."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = seconds / 60
    return f"{minutes:.1f} min" if minutes < 90 else f"{minutes / 60:.1f} h"


#: The parts by name, with their workers in (d).
PROBLEMS = {"a": (A, 1), "b": (B, 1), "c": (C, 2)}


def part_d(rows, quick):
    """Measure the peak memory of all parts, each in processes of its own."""
    for name, (problem, n_jobs) in PROBLEMS.items():
        n = quick_centres(problem) if quick else problem.n_centres
        with tempfile.TemporaryDirectory() as folder:
            call_self("--write", name, folder, quick)
            before, own, worker = call_self("--memory", name, folder, quick)
            lda = 0
            if name == "a":
                lda = call_self("--lda-memory", name, folder, quick)[1]
            size = (Path(folder) / "bold.nii").stat().st_size / 1e6
        rows.append(
            f"(d) peak memory, {problem.describe(n=n)}, n_jobs={n_jobs}; of it, "
            f"libraries {before:.0f} MB; the file of the images has {size:.0f} MB",
            f"{own:.0f} MB" + f" and {worker:.0f} MB per worker" * (n_jobs > 1),
            f"one unpermuted nilearn SearchLight with LDA: {lda:.0f} MB" * (lda > 0),
            f"{own / lda:.1f} times its memory" if lda else "",
        )


def call_self(what, name, folder, quick):
    """Run this script for one step of (d), and return the numbers that it prints."""
    command = [sys.executable, __file__, what, name, "--folder", folder]
    done = subprocess.run([*command, *["--quick"] * quick], stdout=-1, check=True)
    return [float(number) for number in done.stdout.split()]


def memory_step(args):
    """Write images to files, or decode them; print peaks before, after, of workers."""
    name = args.write or args.memory or args.lda_memory
    problem, n_jobs = PROBLEMS[name]
    files = [str(args.folder / f"{name}.nii") for name in ("bold", "centres", "brain")]
    if args.write:
        centres = problem.centres(quick_centres(problem) if args.quick else None)
        for image, file in zip((problem.images, centres, brain()), files, strict=True):
            image.to_filename(file)
        return
    before, workers = peak("self"), {}
    threading.Thread(target=watch_workers, args=(workers,), daemon=True).start()
    if args.lda_memory:
        theirs(problem, files[0], files[1], mask=files[2])
    else:
        p, images, centres, mask = problem.n_permutations, *files
        ours(problem, images, p, centres, mask=mask, n_jobs=n_jobs)
    print(before, peak("self"), max(workers.values(), default=0))


def watch_workers(peaks):
    """Keep the latest peak of each process that this one has started."""
    while True:
        for children in Path("/proc/self/task").glob("*/children"):
            with contextlib.suppress(OSError, TypeError):  # some have just ended
                peaks.update((pid, peak(pid)) for pid in children.read_text().split())
        time.sleep(0.05)


def peak(process):
    """Return the peak memory of a process in MB.

    Linux says it here. What getrusage says begins with the memory of the parent.
    """
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1e3


def quick_cases():
    """Return what --check compares with the table: both sides at fewer centres."""
    # Without permutations reading the images would be most of what ours does there.
    images, centres = A.images, A.centres(quick_centres(A))
    mine = partial(ours, A, images, A.n_permutations, centres)
    lda = partial(theirs, A, images, centres)
    return [Case(f"(a) {A.describe()}, float64", mine, lda)]


def main():
    """Run the parts and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices="abcd", default=list("abcd"))
    parser.add_argument("--quick", action="store_true", help="few centres")
    parser.add_argument("--out", type=Path, help="where to write the table")
    parser.add_argument("--check", action="store_true", help=CHECK_HELP)
    for step in ("--write", "--memory", "--lda-memory"):
        parser.add_argument(step, choices=PROBLEMS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.folder:
        with threadpool_limits(1):
            memory_step(args)
        return
    table = Table()
    with threadpool_limits(1):
        if args.check:
            warnings.simplefilter("ignore")  # of the order of the classes
            end(check(RESULTS, quick_cases()))
        for problem in (A, C):
            check_equal(problem)
        for part, problem in ((part_a, A), (part_b, B), (part_c, C)):
            if part.__name__[-1] in args.parts:
                part(table, quick_centres(problem) if args.quick else None)
    if "d" in args.parts:
        part_d(table, args.quick)
    packages = ("numpy", "scipy", "scikit-learn", "nilearn", "joblib")
    packages = ", ".join(f"{name} {version(name)}" for name in packages)
    machine = f"{platform.machine()}, one core per worker; Python "
    machine += f"{platform.python_version()}, {packages}"
    whole = not args.quick and len(args.parts) == 4
    if path := args.out or (RESULTS if whole else None):
        table.write(path, machine)


if __name__ == "__main__":
    main()
