"""Have rsatoolbox shrink covariances and compute distances, see `remake.py`."""

import sys
from pathlib import Path

import numpy as np
from rsatoolbox.data import Dataset
from rsatoolbox.data.noise import cov_from_residuals
from rsatoolbox.rdm import calc_rdm

folder = Path(sys.argv[1])
with np.load(folder / "rsatoolbox_in.npz") as cases:
    covariances = {
        key: cov_from_residuals(
            cases[key] - cases[key].mean(axis=0), method="shrinkage_eye"
        )
        for key in cases.files
    }
np.savez(folder / "rsatoolbox_out.npz", **covariances)

with np.load(folder / "rsatoolbox_rdm_in.npz") as cases:
    distances = {}
    for key in sorted({name.split("/")[0] for name in cases.files}):
        X, y, fold = (cases[f"{key}/{field}"] for field in ("X", "y", "fold"))
        dataset = Dataset(X, obs_descriptors={"class": y, "run": fold})
        rdm = calc_rdm(dataset, "crossnobis", "class", cv_descriptor="run")
        distances[key] = rdm.dissimilarities[0]
np.savez(folder / "rsatoolbox_rdm_out.npz", **distances)
