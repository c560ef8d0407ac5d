"""Speed of the estimates of single trials against one nilearn model after another.

Run ``python doc/benchmarks/bench_betas.py``; it takes about five minutes and rewrites
``results_betas.rst`` beside it, which the documentation includes. ``--quick`` takes few
voxels; it prints its rows, and writes them only where ``--out`` says.

One run of 300 scans of noise with 60 trials of two types. nilearn
fits a ``FirstLevelModel`` for every trial, of which some are timed and the rest
extrapolated. Both sides mask the images. Estimates of the trials that nilearn fitted
are compared.
"""

import argparse
import platform
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
from bench_epochs import Table
from nibabel import Nifti1Image
from nilearn.glm.first_level import FirstLevelModel
from nilearn.masking import apply_mask
from ratios import CHECK_HELP, Case, check, end
from threadpoolctl import threadpool_limits

from mvpa_kfda import single_trial_betas

RESULTS = Path(__file__).with_name("results_betas.rst")
BOX, QUICK_BOX = (45, 45, 30), (6, 5, 4)
N_SCANS, T_R, N_TRIALS, N_FITTED = 300, 2.0, 60, 3
AFFINE = np.diag([3.0, 3, 3, 1])
#: Method and model of noise.
CASES = (("lss", "ols"), ("lsa", "ols"), ("lss", "ar1"))


def make_run(box, seed=0):
    """Return a run of noise, its mask and its events."""
    rng = np.random.default_rng(seed)
    data = rng.standard_normal((*box, N_SCANS))
    gaps = rng.uniform(5, 13, size=N_TRIALS)
    onsets = np.cumsum(gaps) / gaps.sum() * (N_SCANS * T_R - 30)
    events = pd.DataFrame({"onset": onsets, "duration": 1.0})
    events["trial_type"] = rng.permutation(["face", "house"] * (N_TRIALS // 2))
    mask = Nifti1Image(np.ones(box, np.uint8), AFFINE)
    return Nifti1Image(1000 + 10 * data, AFFINE), mask, events


def by_nilearn(run, mask, events, method, noise_model, trials):
    """Return estimates (n_trials, n_voxels) of some trials by models of nilearn."""
    options = {"mask_img": mask, "noise_model": noise_model, "t_r": T_R}
    found, model = [], None
    for trial in trials:
        names = np.full(len(events), "others", dtype=object)
        for other in range(len(names)) if method == "lsa" else [trial]:
            names[other] = f"trial {other:02d}"
        if model is None or method == "lss":
            model = FirstLevelModel(**options)
            model.fit(run, events.assign(trial_type=names))
        design = model.design_matrices_[0]
        contrast = (design.columns == f"trial {trial:02d}").astype(float)
        image = model.compute_contrast(contrast, output_type="effect_size")
        found.append(apply_mask(image, mask))
    return np.array(found)


def measure(table, box):
    """Time all cases and compare the estimates."""
    run, mask, events = make_run(box)
    options = {"t_r": T_R, "slice_time_ref": 0.0, "mask_img": mask, "verbose": False}
    for method, noise_model in CASES:
        start = time.perf_counter()
        betas = single_trial_betas(
            run,
            events,
            method=method,
            noise_model=noise_model,
            **options,
        )
        own = time.perf_counter() - start
        n_fitted = N_TRIALS if method == "lsa" else N_FITTED
        start = time.perf_counter()
        expected = by_nilearn(run, mask, events, method, noise_model, range(n_fitted))
        seconds = (time.perf_counter() - start) * N_TRIALS / n_fitted
        found = apply_mask(betas.imgs, mask)[:n_fitted]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)
        extrapolated = f", extrapolated from {n_fitted}" if n_fitted < N_TRIALS else ""
        models = f"{N_TRIALS} models" if method == "lss" else "one model"
        table.append(
            f"{N_TRIALS} trials, {N_SCANS} scans, {np.prod(box):,} voxels, {method}, "
            f"{noise_model}",
            f"{own:.1f} s",
            f"nilearn's FirstLevelModel, {models}: {seconds:.1f} s{extrapolated}",
            f"{seconds / own:.3g} times as fast",
        )


def quick_cases():
    """Return what --check compares: LSS, as LSA is one fit on both sides."""
    run, mask, events = make_run(BOX)
    options = {"t_r": T_R, "slice_time_ref": 0.0, "mask_img": mask}
    options |= {"noise_model": "ols", "verbose": False}
    n_fitted = 3
    return [
        Case(
            f"{N_TRIALS} trials, {N_SCANS} scans, {np.prod(BOX):,} voxels, lss, ols",
            lambda: single_trial_betas(run, events, **options),
            lambda: by_nilearn(run, mask, events, "lss", "ols", range(n_fitted)),
            times=N_TRIALS / n_fitted,
        )
    ]


def main(argv=None):
    """Measure, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few voxels")
    parser.add_argument("--out", type=Path, help="where to write the table")
    parser.add_argument("--check", action="store_true", help=CHECK_HELP)
    args = parser.parse_args(argv)
    table = Table()
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nilearn's, of the mask that is given
        if args.check:
            end(check(RESULTS, quick_cases()))
        measure(table, QUICK_BOX if args.quick else BOX)
    packages = ("numpy", "nilearn")
    machine = f"{platform.machine()}, 1 thread; Python {platform.python_version()}, "
    machine += ", ".join(f"{name} {version(name)}" for name in packages)
    if path := args.out or (None if args.quick else RESULTS):
        table.write(path, machine)


if __name__ == "__main__":
    main()
