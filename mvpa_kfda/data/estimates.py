"""Estimates of single trials, as decoding takes them and results record them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..utils.checks import counted

if TYPE_CHECKING:
    from nibabel.cifti2 import Cifti2Image
    from nibabel.spatialimages import SpatialImage
    from nilearn.surface import SurfaceImage
    from pandas import DataFrame

#: Parameters that results record under another name.
_RECORDED_AS = {"method": "estimate"}
#: Parameters that results do not record: the precision of images, and what was told.
_NOT_RECORDED = ("dtype", "slice_time_ref_from")
#: Parameters that only one way of estimating has a use for -> which way that is.
_USED_WITH = {
    "others": ("method", "lss"),
    "high_pass": ("drift_model", "cosine"),
    "drift_order": ("drift_model", "polynomial"),
}
#: The columns of a table by which runs and sessions are known as groups.
_GROUPS = ("run", "session")


@dataclass(frozen=True, eq=False, repr=False)
class Betas:
    """Single-trial estimates, from `single_trial_betas`.

    They can be passed directly to :func:`~mvpa_kfda.searchlight` and
    :func:`~mvpa_kfda.decode_regions`, whose results record how the estimates were made.

    Parameters
    ----------
    imgs : 4D image | SurfaceImage | Cifti2Image
        One image per trial; zeros outside the mask.
    table : DataFrame
        One row per trial: run, onset, duration, trial_type, and all further columns of
        the events.
    mask_img : 3D image | SurfaceImage | Cifti2Image | None
        The voxels, vertices or grayordinates with estimates; None for parcels.
    design_matrices : list of DataFrame
        For each run, the regressors of each trial and the nuisance regressors. With
        "lsa" they are the model; with "lss" the regressors of other trials are summed.
    parameters : dict
        How the estimates were made, including the ``t_r`` and ``slice_time_ref`` used,
        the origin of the latter (``slice_time_ref_from``: "given", "StartTime" or
        "default"), the numbers of scans in each run (``n_scans``) and of those left out
        (``n_scans_left_out``), and the names of confounds (``regressors``).

    Examples
    --------
    >>> import nibabel
    >>> import numpy as np
    >>> import pandas as pd
    >>> from mvpa_kfda import Betas
    >>> imgs = nibabel.Nifti1Image(np.zeros((2, 2, 2, 4), np.float32), np.eye(4))
    >>> table = pd.DataFrame({"trial_type": ["cat", "dog"] * 2, "run": [1, 1, 2, 2]})
    >>> designs = [pd.DataFrame({"cat": [1.0], "dog": [0.0]})] * 2
    >>> Betas(imgs, table, None, designs, {"method": "lss"})
    <Betas | 4 trials (cat 2, dog 2) of 2 runs, lss>
    """

    imgs: SpatialImage | SurfaceImage | Cifti2Image
    table: DataFrame
    mask_img: SpatialImage | SurfaceImage | Cifti2Image | None
    design_matrices: list
    parameters: dict

    def __repr__(self):
        types = self.table["trial_type"].value_counts(sort=False).items()
        return (
            f"<Betas | {counted(len(self.table), 'trial')} "
            f"({', '.join(f'{name} {n}' for name, n in types)}) of "
            f"{counted(len(self.design_matrices), 'run')}, "
            f"{self.parameters['method']}>"
        )

    def record(self) -> dict:
        """Return the record of how the estimates were made.

        Returns
        -------
        record : dict
            The value of ``parameters["recordings"]`` in a result.
        """
        given = {
            _RECORDED_AS.get(name, name): value
            for name, value in self.parameters.items()
            if name not in _NOT_RECORDED and self._uses(name)
        }
        if "signal_scaling" in given:  # 0 and False would be the same number
            given["signal_scaling"] = (
                "none" if given["signal_scaling"] is False else "percent"
            )
        regressors = self.parameters.get("regressors", [])
        return {
            "kind": "bold",
            "n_runs": len(self.design_matrices),
            **given,
            "n_confound_regressors": len(regressors),
        }

    def _uses(self, name):
        """Tell whether a parameter was used for the estimates."""
        other, value = _USED_WITH.get(name, (name, self.parameters[name]))
        return self.parameters.get(other) == value


def opened(imgs, y, groups=None, mask_img=None):
    """Return images, labels, a mask and what a result records of `Betas`, or nothing.

    The labels of `Betas` may be a column of their table, and their mask is the default.
    """
    if not isinstance(imgs, Betas):
        return imgs, y, mask_img, {}
    y = (imgs.table, y) if isinstance(y, str) else y
    mask_img = imgs.mask_img if mask_img is None else mask_img
    record = imgs.record() | {"group": _called(imgs.table, groups)}
    return imgs.imgs, y, mask_img, {"recordings": record}


def _called(table, groups):
    """Return what groups are called if they are the runs or sessions of a table."""
    if isinstance(groups, str):
        return groups if groups in _GROUPS else None
    for name in _GROUPS:
        if groups is not None and name in table and np.array_equal(groups, table[name]):
            return name
    return None
