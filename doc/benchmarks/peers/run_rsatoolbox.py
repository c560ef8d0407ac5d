"""Have rsatoolbox shrink covariances, see `remake.py`."""

import sys
from pathlib import Path

import numpy as np
from rsatoolbox.data.noise import cov_from_residuals

folder = Path(sys.argv[1])
with np.load(folder / "rsatoolbox_in.npz") as cases:
    covariances = {
        key: cov_from_residuals(
            cases[key] - cases[key].mean(axis=0), method="shrinkage_eye"
        )
        for key in cases.files
    }
np.savez(folder / "rsatoolbox_out.npz", **covariances)
