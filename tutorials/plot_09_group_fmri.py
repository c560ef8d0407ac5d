"""
Does it hold in the population? Group analysis of fMRI
======================================================

Simulated fMRI of twelve people. About 15 seconds.

``group_inference(files, "prevalence", "max")`` combines twelve searchlight maps. It
shows in 76 of 1,876 spheres that someone has information, all of them within reach of
the two areas where everyone does. For one sphere chosen beforehand it shows more: a
proportion of more than 0.776 of the population have information there. A test of the
mean (``"bootstrap"``) also marks an area where only three of twelve have information.

What does a group map show: where someone has information, or where most people have?
All data are simulated on the MNI brain that comes with nilearn, so we know the answer
and need no download.
"""

# %%
# The first level
# ---------------
#
# Each participant has six runs with five images of faces and five of houses. Noise is
# smooth in space. Three areas contain information in spatial patterns that are specific
# to each participant. All participants have information in visual cortex and in the
# right fusiform gyrus, at positions that vary by a few millimetres. Only three of the
# twelve have it in premotor cortex.

# sphinx_gallery_thumbnail_number = 3
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from nibabel import Nifti1Image
from nilearn import datasets
from scipy.ndimage import gaussian_filter

from mvpa_kfda import group_inference, load_result, searchlight

mask_img = datasets.load_mni152_brain_mask(resolution=10)
mask = mask_img.get_fdata() > 0
mm = np.argwhere(mask) @ mask_img.affine[:3, :3].T + mask_img.affine[:3, 3]
orders = np.random.default_rng(0)
labels = [orders.permutation(["face", "house"] * 5) for _ in range(6)]
table = pd.DataFrame(
    {"run": np.repeat(np.arange(1, 7), 10), "label": np.concatenate(labels)}
)

# name: centre in mm, radius in mm, strength, participants with information
everyone = range(1, 13)
places = {
    "visual cortex": ((0, -88, 4), 25, 0.16, everyone),
    "right fusiform gyrus": ((40, -52, -18), 17.5, 0.25, everyone),
    "left premotor cortex": ((-42, 0, 44), 17.5, 0.35, (2, 5, 9)),
}


def simulate_images(number):
    """Simulate the images of a participant."""
    rng = np.random.default_rng(12 + number)
    noise = rng.normal(size=(len(table), *mask.shape))
    noise = gaussian_filter(noise, (0, 0.7, 0.7, 0.7))[:, mask]
    data = noise / noise.std()
    sign = np.where(table["label"] == "face", 1, -1)
    for centre, radius, strength, who in places.values():
        own_centre = centre + rng.uniform(-4, 4, size=3)
        inside = np.linalg.norm(mm - own_centre, axis=1) <= radius
        pattern = rng.normal(size=inside.sum())
        if number in who:
            data[:, inside] += strength * np.outer(sign, pattern)
    images = np.zeros((*mask.shape, len(table)), dtype=np.float32)
    images[mask] = data.T
    return Nifti1Image(images, mask_img.affine)


# %%
# We compute a searchlight map with 100 label permutations for each participant, and
# save it.

settings = {"groups": "run", "radius": 16, "n_permutations": 100}
settings["verbose"] = False
folder = Path(tempfile.mkdtemp())
for number in everyone:
    result = searchlight(
        simulate_images(number),
        (table, "label"),
        mask_img=mask_img,
        random_state=number,
        **settings,
    )
    own = folder / f"sub-{number:02d}"
    own.mkdir()
    result.save(own / "searchlight.h5")
print(result)
result.plot(cut_coords=(40, -52, -18))

# %%
# Prevalence: where do most people have information?
# --------------------------------------------------
#
# From here on, only the files are needed. For each sphere, prevalence inference [1]_ is
# based on the *lowest* score of all participants. If even this score is higher than
# expected under permuted labels, at least some of them have information.

files = sorted(folder.glob("sub-*/searchlight.h5"))
draws = {"n_permutations": 2000, "random_state": 0}
group = group_inference(files, "prevalence", "max", **draws)
group

# %%

group.plot(cut_coords=(40, -52, -18))

# %%
# The colours show the mean across participants. The outline shows where the *global*
# null hypothesis is rejected, that nobody in the population has information, corrected
# for all spheres. How many people have information? The prevalence bound
# :math:`\gamma_0` answers this: with 95 % confidence, more than this proportion of the
# population, simultaneously for all spheres. With twelve participants and so many
# spheres, it cannot reach one half, as a warning says; about 20 are needed to show a
# majority anywhere in an image.

group.plot(metric="gamma_0", cut_coords=(40, -52, -18))
majority = group.pvalues(hypothesis="majority") <= 0.05
print(f"Someone: {np.count_nonzero(group.pvalues() <= 0.05)} spheres")
print(f"The majority: {np.count_nonzero(majority)} spheres")
print(f"Largest bound: {np.nanmax(group.gamma_0):.3f}")
print(f"Largest attainable bound with 12 subjects: {group.largest_gamma_0:.3f}")

# %%
# Twelve are enough for a single sphere chosen *before* the map is seen, for example the
# one at the centre of the first area. Then no correction is needed:

centre, *_ = next(iter(places.values()))
chosen = np.argmin(np.linalg.norm(mm - centre, axis=1))
p = group.pvalues("none", hypothesis="majority")[chosen]
bound = group.prevalence_bound("none")[chosen]
print(f"The majority: p = {p:.4f}, at least {bound:.3f} of the population")

# %%
# The peaks of the map:

print(group.peaks().round(4).to_string())

# %%
# Tests of the mean
# -----------------
#
# ``"bootstrap"`` [2]_ compares the average across participants with averages of
# permuted maps. Each voxel has its own threshold, and the sizes of clusters of voxels
# above it are compared with those in permuted maps.

bootstrap = group_inference(files, "bootstrap", "cluster-fdr", **draws)
slices = {"views": "z", "cut_coords": (-30, -18, 4, 24, 44)}
bootstrap.plot(**slices)

# %%
# ``"sign-flip"`` compares the mean with the variability between participants, here with
# threshold-free cluster enhancement.

sign_flip = group_inference(
    files, "sign-flip", "tfce", n_permutations=1000, random_state=0
)
sign_flip.plot(**slices)

# %%
# We know where the patterns are, so we can count the spheres that each test finds
# there. Spheres "out of reach" contain no part of a pattern.

distances = {
    name: np.linalg.norm(mm - centre, axis=1) for name, (centre, *_) in places.items()
}
where = {name: distances[name] <= places[name][1] for name in places}
# Centres differ by up to 4 mm along each axis, and spheres have a radius of 16 mm.
reach = [distances[name] <= places[name][1] + 4 * 3**0.5 + 16 for name in places]
where["out of reach"] = ~np.any(reach, axis=0)
found = {
    "someone": group.pvalues() <= 0.05,
    "majority": majority,
    "bootstrap": bootstrap.pvalues() <= 0.05,
    "sign-flip": sign_flip.pvalues() <= 0.05,
}
rows = {
    f"{name} ({there.sum()})": {
        test: np.count_nonzero(marked & there) for test, marked in found.items()
    }
    for name, there in where.items()
}
print(pd.DataFrame(rows).T.to_string())

# %%
# In premotor cortex, three of twelve have information. Prevalence inference finds
# nothing there, as the lowest score is that of someone without information. The
# bootstrap finds the area. Its null hypothesis is that *nobody* has information, and
# three participants are enough to raise the mean: a marked voxel does not show how many
# have information. The sign-flip test does not find it, because three high scores among
# twelve have a large variance. With more participants it would. It cannot distinguish a
# few high scores from many low ones, either.
#
# Marked spheres extend beyond the patterns, as a sphere carries information even if
# only its edge does. Nothing is marked out of reach of the patterns.
#
# Images
# ------
#
# All maps can be converted to images, for nilearn and other software.

group.to_img().to_filename(folder / "accuracy.nii.gz")
group.to_img("gamma_0").to_filename(folder / "gamma_0.nii.gz")
group.to_img("neglog10p").to_filename(folder / "neglog10p.nii.gz")
group.peaks().to_csv(folder / "peaks.csv", index=False)
group.save(folder / "group.h5")
print(sorted(path.name for path in folder.glob("*.*")))
print(load_result(folder / "group.h5"))

# %%
# Different grids and masks
# -------------------------
#
# Sometimes the field of view of a participant is smaller. Suppose that the lowest four
# slices of the last one are missing, so its grid begins elsewhere. Results on different
# grids are not combined by default.

smaller = searchlight(
    simulate_images(12).slicer[:, :, 4:],
    (table, "label"),
    mask_img=mask_img.slicer[:, :, 4:],
    random_state=12,
    **settings,
)
smaller.save(folder / "sub-12" / "smaller.h5")
mixed = [*files[:-1], folder / "sub-12" / "smaller.h5"]
try:
    group_inference(mixed, random_state=0)
except ValueError as error:
    print(error)

# %%
# With ``resample=True``, maps are resampled to the grid of the first participant
# (nearest neighbour). Only spheres that *all* participants have are tested and
# corrected for. A warning gives their number.

resampled = group_inference(mixed, resample=True, **draws)
print(f"{resampled.counted.sum()} of {len(resampled.counted)} spheres are left.")
print(resampled.peaks().round(4).to_string())

# %%
# On the command line, one command creates a table, figures, images and peaks from the
# files::
#
#     mvpa-kfda group sub-*/searchlight.h5 --method prevalence --resample --out group

# %%
# References
# ----------
#
# .. [1] Allefeld, C., Goergen, K., & Haynes, J.-D. (2016). Valid population inference
#    for information-based imaging: From the second-level t-test to prevalence
#    inference. NeuroImage, 141, 378-392.
# .. [2] Stelzer, J., Chen, Y., & Turner, R. (2013). Statistical inference and multiple
#    testing correction in classification-based multi-voxel pattern analysis (MVPA):
#    Random permutations and cluster size control. NeuroImage, 65, 69-82.
