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
    scikit-learn's shrinkage LDA.
(b) 512 images, 8 classes, 8 runs, 28,000 centres, without permutations.
(c) 80 images, 2 classes, leave-one-out, 10,000 permutations, the whole brain.
(d) Peak memory of each, in a process of its own.

In (b) and (c) nilearn's time is extrapolated from a few centres. Before anything is
timed, ``SearchLight`` with ``KernelFDA`` must give the same scores as ``searchlight``.
"""

import argparse
import platform
import resource
import subprocess
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

import nilearn
import numpy as np
import scipy
import sklearn
from bench_epochs import Table, medians
from joblib.externals.loky import get_reusable_executor
from nibabel import Nifti1Image
from nilearn.datasets import load_mni152_brain_mask
from nilearn.decoding import SearchLight
from nilearn.decoding.searchlight import search_light
from nilearn.image import coord_transform
from nilearn.maskers.nifti_spheres_masker import apply_mask_and_get_affinity
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import LeaveOneGroupOut, LeaveOneOut
from threadpoolctl import threadpool_limits

from mvpa_kfda import KernelFDA, Ridge, searchlight
from mvpa_kfda._images import process_positions, read_images
from mvpa_kfda._neighbours import own_columns, sphere_members, touching

RESULTS = Path(__file__).with_name("results_searchlight.rst")
RADIUS = 11.4  # mm: 93 voxels of 4 mm where the brain does not end
LDA = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")


@dataclass(frozen=True)
class Problem:
    """Images and what is asked of them."""

    n_images: int
    n_classes: int
    n_runs: int | None  # None leaves one image out
    n_centres: int | None  # None: all voxels
    n_permutations: int
    n_sample: int  # centres that nilearn's time is extrapolated from

    @property
    def mask(self):
        return load_mni152_brain_mask(resolution=4)

    @property
    def images(self):
        """A 4D image of noise, in single precision like most files."""
        mask = np.asarray(self.mask.dataobj) != 0
        rng = np.random.default_rng(0)
        bold = np.zeros((*mask.shape, self.n_images), np.float32)
        bold[mask] = rng.standard_normal(bold[mask].shape, dtype=np.float32)
        return Nifti1Image(bold, self.mask.affine)

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
        inside = np.argwhere(np.asarray(self.mask.dataobj))
        chosen = np.zeros(self.mask.shape, np.uint8)
        n = n or self.n_centres or len(inside)
        rows = np.linspace(0, len(inside) - 1, n).round().astype(int)
        chosen[tuple(inside[rows].T)] = 1
        return Nifti1Image(chosen, self.mask.affine)

    def describe(self, n_permutations=None, n=None):
        """Word the problem."""
        n = n or self.n_centres or int(np.asarray(self.mask.dataobj).sum())
        runs = f"{self.n_runs} runs" if self.n_runs else "leave-one-out"
        if n_permutations is None:
            n_permutations = self.n_permutations
        return (
            f"{self.n_images} images, {self.n_classes} classes, {runs}, {n:,} centres, "
            f"{f'{n_permutations:,}' if n_permutations else 'no'} permutations"
        )


A = Problem(100, 4, 5, 2_000, 1_000, 2_000)
B = Problem(512, 8, 8, 28_000, 0, 40)
C = Problem(80, 2, None, None, 10_000, 40)


def ours(problem, images, n_permutations, centres, **kwargs):
    """Decode with the direct method."""
    return searchlight(
        images,
        problem.y,
        groups=problem.groups,
        mask_img=problem.mask,
        process_mask_img=centres,
        radius=RADIUS,
        standardize=False,
        cv=problem.cv,
        n_permutations=n_permutations,
        random_state=0,
        verbose=False,
        **kwargs,
    )


def theirs(problem, images, centres, estimator=LDA):
    """Decode with nilearn, in one process."""
    model = SearchLight(
        problem.mask,
        process_mask_img=centres,
        radius=RADIUS,
        estimator=estimator,
        scoring="accuracy",
        cv=problem.cv,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the estimator is not one of its own
        return model.fit(images, problem.y, problem.groups)


def our_spheres(problem, images, centres):
    """Read the images and find the voxels of the spheres."""
    read = read_images(images, problem.mask)
    space = process_positions(read, centres)
    own_columns(read.space, space)
    touching(space)
    return sphere_members(read.space, space, RADIUS)


def their_spheres(problem, images, centres):
    """Do the same with nilearn."""
    where = coord_transform(*np.nonzero(np.asarray(centres.dataobj)), centres.affine)
    return apply_mask_and_get_affinity(
        np.transpose(where), images, RADIUS, True, mask_img=problem.mask
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
    n = min(problem.n_sample, n_centres)
    X, rows = their_spheres(problem, images, problem.centres(n))
    args = X, problem.y, LDA, rows, problem.groups, "accuracy", problem.cv
    seconds = medians(1, lda=lambda: search_light(*args))["lda"]
    return seconds / n * n_centres


def part_a(rows, n_centres):
    """Time some centres with and without permutations against one LDA map."""
    images, centres = A.images, A.centres(n_centres)
    sides = {
        "theirs": lambda: theirs(A, images, centres),
        "their_spheres": lambda: their_spheres(A, images, centres),
        "our_spheres": lambda: our_spheres(A, images, centres),
    }
    for dtype in ("float64", "float32"):
        for p in (0, A.n_permutations):
            sides[dtype, p] = lambda d=dtype, p=p: ours(A, images, p, centres, dtype=d)
    t = medians(3, **{str(name): side for name, side in sides.items()})
    lda = t["theirs"]
    alone = {name: t[name] - t["our_spheres"] for name in t}
    for dtype in ("float64", "float32"):
        for p in (A.n_permutations, 0):
            name = str((dtype, p))
            problem = f"(a) {A.describe(p, n_centres)}, {dtype}"
            lda_alone = lda - t["their_spheres"]
            for what, mine, other in (
                ("", t[name], lda),
                (", decoding alone", alone[name], lda_alone),
            ):
                ratio = f"{mine / other:.2f} of its time"
                if not p:
                    ratio = f"{other / mine:.0f} times faster"
                rows.append(
                    problem + what,
                    f"{mine:.2f} s",
                    f"one unpermuted nilearn SearchLight with LDA: {other:.1f} s",
                    ratio,
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
                f"{worded(other)}, extrapolated from {min(problem.n_sample, n)} centres"
                + (" and one job" if n_jobs else ""),
                f"{other / seconds:.3g} times faster",
            )


def worded(seconds):
    """Word a time."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = seconds / 60
    return f"{minutes:.1f} min" if minutes < 90 else f"{minutes / 60:.1f} h"


#: What peak memory is measured of: the problem, whose it is, and the workers.
MEMORY = {
    "a": (A, "ours", 1),
    "a_lda": (A, "theirs", 1),
    "b": (B, "ours", 1),
    "c": (C, "ours", 2),
}


def memory_of(name, n_centres):
    """Run one part alone and print its peak memory in MB, that of workers added."""
    problem, whose, n_jobs = MEMORY[name]
    images, centres = problem.images, problem.centres(n_centres)
    if whose == "theirs":
        theirs(problem, images, problem.centres(50))  # memory does not grow with them
    else:
        n_permutations = problem.n_permutations
        ours(problem, images, n_permutations, centres, n_jobs=n_jobs)
    if n_jobs > 1:
        get_reusable_executor().shutdown(wait=True)
    own, largest = (
        resource.getrusage(who).ru_maxrss / 1e3
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    print(own, largest if n_jobs > 1 else 0.0)


def part_d(rows, quick):
    """Measure the peak memory of all parts, each in a process of its own."""
    for name, (problem, whose, n_jobs) in MEMORY.items():
        command = [sys.executable, __file__, "--memory", name]
        command += ["--quick"] * quick
        output = subprocess.run(command, capture_output=True, check=True).stdout
        own, worker = map(float, output.split())
        n_centres = quick_centres(problem) if quick else None
        text = problem.describe(0 if whose == "theirs" else None, n_centres)
        if whose == "theirs":
            text += ", nilearn's SearchLight"
        images = problem.n_images * np.prod(problem.mask.shape) * 4 / 1e6
        rows.append(
            f"(d) peak memory, {text}, n_jobs={n_jobs}",
            f"{own:.0f} MB" + (f", and {worker:.0f} MB per worker" if worker else ""),
            f"the images in memory, part of it: {images:.0f} MB",
            "",
        )


def quick_centres(problem):
    """Return how many centres a quick run decodes."""
    return 200 if problem is A else 500


def main():
    """Run the parts and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices="abcd", default=list("abcd"))
    parser.add_argument("--quick", action="store_true", help="few centres")
    parser.add_argument("--out", type=Path, help="where to write the table")
    parser.add_argument("--memory", choices=MEMORY, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.memory:
        problem = MEMORY[args.memory][0]
        memory_of(args.memory, quick_centres(problem) if args.quick else None)
        return
    table = Table()
    with threadpool_limits(1):
        for problem in (A, C):
            check_equal(problem)
        for name, problem, part in (
            ("a", A, part_a),
            ("b", B, part_b),
            ("c", C, part_c),
        ):
            if name in args.parts:
                part(table, quick_centres(problem) if args.quick else None)
    if "d" in args.parts:
        part_d(table, args.quick)
    machine = (
        f"{platform.machine()}, one core per worker; Python "
        f"{platform.python_version()}, NumPy {np.__version__}, SciPy "
        f"{scipy.__version__}, scikit-learn {sklearn.__version__}, nilearn "
        f"{nilearn.__version__}"
    )
    whole = not args.quick and len(args.parts) == 4
    if path := args.out or (RESULTS if whole else None):
        table.write(path, machine)


if __name__ == "__main__":
    main()
