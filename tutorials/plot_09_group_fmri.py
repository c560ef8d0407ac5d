"""
What holds for people in general? A group with fMRI
===================================================

Simulated fMRI of twelve people. About a quarter of a minute.

Twelve searchlight maps become one map of the group. What does it show: where somebody
has information, or where most people have? All data are simulated over the MNI brain
that comes with nilearn, so we know the answer and need no download.
"""

# %%
# The first level
# ---------------
#
# Each participant has six runs with five images of faces and five of houses. Noise is
# smooth in space. Information is in the pattern within three places, and the pattern
# is everybody's own. Everyone has it in visual cortex and in the right fusiform gyrus,
# a few millimetres apart. Only three of the twelve have it in premotor cortex.

# sphinx_gallery_thumbnail_number = 3
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from nibabel import Nifti1Image
from nilearn import datasets
from scipy.ndimage import gaussian_filter

from mvpa_kfda import group_inference, load_result, searchlight

mask_img = datasets.load_mni152_brain_mask(resolution=8)
mask = mask_img.get_fdata() > 0
mm = np.argwhere(mask) @ mask_img.affine[:3, :3].T + mask_img.affine[:3, 3]
orders = np.random.default_rng(0)
labels = [orders.permutation(["face", "house"] * 5) for _ in range(6)]
table = pd.DataFrame(
    {"run": np.repeat(np.arange(1, 7), 10), "label": np.concatenate(labels)}
)

# name: centre in mm, radius in mm, strength, who has information there
everyone = range(1, 13)
places = {
    "visual cortex": ((0, -88, 4), 20, 0.16, everyone),
    "right fusiform gyrus": ((40, -52, -18), 14, 0.25, everyone),
    "left premotor cortex": ((-42, 0, 44), 14, 0.35, (2, 5, 9)),
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
# Every participant gets a searchlight map with 100 label permutations, and a file.

settings = {"groups": "run", "radius": 13, "n_permutations": 100, "verbose": False}
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
# Prevalence: where do most people have it?
# -----------------------------------------
#
# From here on, the files are all that is needed. Prevalence inference [1]_ looks, in
# each sphere, at the participant with the *lowest* score. If even this score is higher
# than permuted labels can make it, then not all of them are without information.

files = sorted(folder.glob("sub-*/searchlight.h5"))
group = group_inference(files, "prevalence", "max", random_state=0)
print(group)
group.plot(cut_coords=(40, -52, -18))

# %%
# The colors are the mean over participants. The outline says where the *global* null
# hypothesis is rejected, that nobody in the population has information, corrected for
# all spheres. How many have it? The prevalence bound :math:`\gamma_0` answers that:
# with 95 % confidence, more than this share of the population, in all spheres at once.
# Of twelve participants and so many spheres it cannot reach one half, which a warning
# says; it takes about 20 of them to show a majority anywhere in an image.

group.plot(metric="gamma_0", cut_coords=(40, -52, -18))
majority = group.pvalues(hypothesis="majority") <= 0.05
print(f"Somebody: {np.count_nonzero(group.pvalues() <= 0.05)} spheres")
print(f"The majority: {np.count_nonzero(majority)} spheres")
print(f"Largest bound: {np.nanmax(group.gamma_0):.3f}")
print(f"No data of 12 could give more than {group.largest_gamma_0:.3f}.")

# %%
# Twelve are enough for a single sphere that is chosen *before* the map is seen, say the
# one in the middle of the first place. Then nothing has to be corrected:

centre, *_ = next(iter(places.values()))
chosen = np.argmin(np.linalg.norm(mm - centre, axis=1))
p = group.pvalues("none", hypothesis="majority")[chosen]
bound = group.prevalence_bound("none")[chosen]
print(f"The majority: p = {p:.4f}, at least {bound:.3f} of the population")

# %%
# The peaks of the map:

print(group.peaks().round(4).to_string())

# %%
# Other tests ask about the mean
# ------------------------------
#
# ``"bootstrap"`` [2]_ averages over participants and compares with averages of permuted
# maps. Each voxel has a threshold of its own, and clusters of voxels beyond it are
# compared with those of the permuted maps by their size.

bootstrap = group_inference(files, "bootstrap", "cluster-fdr", random_state=0)
slices = {"views": "z", "cut_coords": (-30, -18, 4, 24, 44)}
bootstrap.plot(**slices)

# %%
# ``"sign-flip"`` compares the mean with how much participants differ from each other,
# here with threshold-free cluster enhancement.

sign_flip = group_inference(
    files, "sign-flip", "tfce", n_permutations=1000, random_state=0
)
sign_flip.plot(**slices)

# %%
# We know where the patterns are, so we can count what each test finds there. Out of
# reach are the spheres that touch no pattern.

distances = {
    name: np.linalg.norm(mm - centre, axis=1) for name, (centre, *_) in places.items()
}
where = {name: distances[name] <= places[name][1] for name in places}
# Centres differ by up to 4 mm along each axis, and spheres have a radius of 13 mm.
reach = [distances[name] <= places[name][1] + 4 * 3**0.5 + 13 for name in places]
where["out of reach"] = ~np.any(reach, axis=0)
found = {
    "somebody": group.pvalues() <= 0.05,
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
# In premotor cortex, three of twelve have information. Prevalence inference stays
# silent there, as the lowest score of twelve is that of somebody without. The bootstrap
# finds the place. Its null hypothesis is that *nobody* has information, and three are
# enough to lift the mean above that: a marked voxel does not say how many. The sign
# flips do not find it, because three high scores among twelve are too much of a spread.
# With more participants they would. They, too, cannot tell a few high scores from many
# low ones.
#
# Marked spheres reach beyond the patterns, as a sphere has information if its rim has.
# Nothing is marked where no pattern is in reach.
#
# Images
# ------
#
# Every map becomes an image, for nilearn and every other program.

group.to_img().to_filename(folder / "accuracy.nii.gz")
group.to_img("gamma_0").to_filename(folder / "gamma_0.nii.gz")
group.to_img("neglog10p").to_filename(folder / "neglog10p.nii.gz")
group.peaks().to_csv(folder / "peaks.csv", index=False)
group.save(folder / "group.h5")
print(sorted(path.name for path in folder.glob("*.*")))
print(load_result(folder / "group.h5"))

# %%
# When grids and masks differ
# ---------------------------
#
# Sometimes the field of view of a participant is smaller. Let the lowest four slices of
# the last one be missing, so that its grid begins elsewhere. Results in different grids
# are not put together without being asked.

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
# With ``resample=True``, maps are brought onto the grid of the first participant, each
# voxel from the nearest one. Only spheres that *everybody* has are tested, and the
# correction is for these. A warning says how many are left.

resampled = group_inference(mixed, random_state=0, resample=True)
print(f"{resampled.counted.sum()} of {len(resampled.counted)} spheres are left.")
print(resampled.peaks().round(4).to_string())

# %%
# In a terminal, files become a table, figures, images and peaks with one command::
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
