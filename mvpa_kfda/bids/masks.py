"""Images of runs, and the voxels to decode: of a mask, or in the brain in all runs."""

import warnings
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
from nilearn.masking import compute_multi_epi_mask, intersect_masks

from ..data.volumes import (
    check_grid,
    load_3d,
    load_mask,
    load_volume,
    on_grid,
    on_one_grid,
)
from ..utils.checks import warn

#: From this share of voxels on that not all masks have there is a warning.
_MANY = 0.1


@dataclass(frozen=True)
class Mask:
    """The voxels to decode, and what became of others."""

    image: object
    about: dict = field(default_factory=dict)  #: for the JSON file
    notes: tuple = ()  #: what to say beside the result


def load_runs(runs):
    """The images of runs, which must be on one grid, their data not yet read."""
    names = [run.path.name for run in runs]
    images = [load_volume(run.path, run.path.name) for run in runs]
    mend = "Runs that are decoded together are on one grid; --run chooses some."
    return on_one_grid(images, names, mend)


def mask_of_runs(runs, kind, images, given):
    """The `Mask` of runs: the voxels given, else those in the brain in all."""
    if given is not None:
        image = _load(given, images[0])
        n = int(load_mask(image, images[0], "--mask-img")[0].sum())
        return Mask(image, {"MaskVoxels": n, "MaskFrom": "--mask-img"})
    if not any(run.mask for run in runs):
        return _computed(runs, kind, images)
    if missing := [run.path.name for run in runs if run.mask is None]:
        warn(
            f"There is no brain mask of {', '.join(missing)}. The voxels are those in "
            "the masks of the other runs; use --mask-img to choose them."
        )
    masks = {run.label: _load(run.mask, images[0]) for run in runs if run.mask}
    return _intersection(masks, missing)


def _load(path, image):
    """A mask, and refuse one that is empty or on another grid, by name."""
    mask = load_3d(path, path.name)
    mend = "Set --mask-img to a mask on their grid."
    check_grid(mask, image, path.name, "the images", mend)
    if not (np.asarray(mask.dataobj) > 0).any():
        raise ValueError(
            f"{path} is empty: no voxel is in this mask. Set --mask-img to another one."
        )
    return on_grid(load_mask(mask, image, path.name)[0].astype(np.uint8), image)


def _computed(runs, kind, images):
    """The mask that nilearn computes of runs without any."""
    name = runs[0].path.name
    others = " and the other runs" if len(images) > 1 else ""
    warn(
        f"There is no brain mask of {name}{others}: nilearn computes one of the "
        "images. Use --mask-img to choose the voxels."
    )
    if kind == "images":  # of which a searchlight finds the background
        return Mask(None, {"MaskFrom": "computed by nilearn"})
    n = 0
    with warnings.catch_warnings(), suppress(ValueError):
        warnings.simplefilter("ignore")  # of empty masks, which are refused below
        image = compute_multi_epi_mask(images)
        n = int(np.count_nonzero(np.asarray(image.dataobj)))
    if n == 0:
        raise ValueError(
            f"nilearn finds no brain in {name}{others}. Use --mask-img to choose the "
            "voxels."
        )
    return Mask(image, {"MaskVoxels": n, "MaskFrom": "computed by nilearn"})


def _intersection(masks, missing):
    """The voxels that all masks have, and count those that only some have."""
    inside = {label: np.asarray(m.dataobj) > 0 for label, m in masks.items()}
    union = int(np.any([*inside.values()], axis=0).sum())
    image = intersect_masks([*masks.values()], threshold=1, connected=False)
    n = int(np.count_nonzero(np.asarray(image.dataobj)))
    if n == 0:
        raise ValueError(
            "No voxel is in the brain masks of all runs. Look at these masks; "
            "--mask-img or --run choose others."
        )
    lost = union - n
    sizes = {label: int(each.sum()) for label, each in inside.items()}
    about = {"MaskVoxels": n, "MaskFrom": "brain masks of the runs"}
    about |= {"MaskVoxelsOfRuns": sizes, "MaskVoxelsNotInAllRuns": lost}
    if missing:
        about["RunsWithoutMask"] = missing
    if lost == 0:
        return Mask(image, about)
    share = lost / union
    if share > _MANY:
        smallest = min(sizes, key=sizes.get)
        warn(
            f"Only {n} of {union} voxels are in the brain masks of all runs; run "
            f"{smallest} has the smallest, of {sizes[smallest]}. The others "
            f"({share:.0%}) are left out. If that mask is wrong, leave the run out, or "
            "use --mask-img."
        )
    words = f"{lost} of {union} voxels left out, not in the masks of all runs"
    return Mask(image, about, (words,))
