"""Have sanssouci calibrate Simes' line and bound true discoveries, see `remake.py`."""

import sys
from pathlib import Path

import numpy as np
from sanssouci.lambda_calibration import get_pivotal_stats
from sanssouci.post_hoc_bounds import min_tp
from sanssouci.reference_families import linear_template

folder, found = Path(sys.argv[1]), {}
with np.load(folder / "sanssouci_in.npz") as cases:
    for key in sorted({name.split("/")[0] for name in cases.files}):
        rows, sets, alpha = (cases[f"{key}/{x}"] for x in ("rows", "sets", "alpha"))
        # As many rows as a power of two: these p-values are exact.
        p = (rows[np.newaxis] >= rows[:, np.newaxis]).mean(axis=1)
        statistics = get_pivotal_stats(p)
        slope = np.sort(statistics)[int(alpha * len(p))]
        # A little less, so that rounding cannot pass a p-value that is equal.
        line = linear_template(slope * (1 - 1e-12), p.shape[1], p.shape[1])
        found[f"{key}/statistics"] = statistics
        found[f"{key}/bounds"] = [min_tp(p[0][members], line) for members in sets]
np.savez(folder / "sanssouci_out.npz", **found)
