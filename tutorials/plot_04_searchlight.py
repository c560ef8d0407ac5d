"""
Where in the brain? Searchlights and regions
============================================

Simulated fMRI, one image per trial. About 10 seconds.

:func:`~mvpa_kfda.searchlight` decodes from the voxels of a small sphere around each
voxel of the brain, and tests the whole map with label permutations. Here it finds all
three areas with information among 3,666 spheres, and with the maximum statistic nothing
out of their reach. :func:`~mvpa_kfda.decode_regions` finds the same three among eight
regions chosen beforehand.

If you know :class:`nilearn.decoding.SearchLight`, you will find the same kind of map
here, together with a statistical test. All data are simulated on the MNI brain that
comes with nilearn, so we know the answer and need no download.
"""

# %%
# Data with a known answer
# ------------------------
#
# There are six runs with 15 images each: responses to single trials or blocks, such as
# the beta images of a general linear model. In each run the classes come in random
# order. A table with one row per image describes the images.

import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from nibabel import Nifti1Image
from nilearn import datasets, plotting
from scipy.ndimage import gaussian_filter

from mvpa_kfda import decode_regions, load_result, searchlight

rng = np.random.default_rng(0)
classes = ["face", "house", "tool"]
runs = np.repeat(np.arange(1, 7), 15)
labels = np.concatenate([rng.permutation(classes * 5) for _ in range(6)])
table = pd.DataFrame({"run": runs, "label": labels})

# %%
# Noise is smooth in space and correlated over time, as in fMRI, and each run has its
# own offset. There is information in three areas, in the pattern *within* each: the
# mean over voxels is the same for all classes, so averaging them would lose the
# information.

mask_img = datasets.load_mni152_brain_mask(resolution=8)
mask = mask_img.get_fdata() > 0
mm = np.argwhere(mask) @ mask_img.affine[:3, :3].T + mask_img.affine[:3, 3]

noise = gaussian_filter(rng.normal(size=(len(table), *mask.shape)), (0, 0.7, 0.7, 0.7))
noise = noise[:, mask] / noise.std()
for i in range(1, len(noise)):
    noise[i] += 0.3 * noise[i - 1]
data = noise + np.repeat(2 * rng.normal(size=6), 15)[:, np.newaxis]

# name: centre in mm, radius in mm, strength, classes with a specific pattern
places = {
    "visual cortex": ((0, -88, 4), 20, 0.2, classes),
    "right fusiform gyrus": ((40, -52, -18), 12, 0.8, ["face"]),
    "left premotor cortex": ((-42, 0, 44), 12, 0.8, ["tool"]),
}
inside = {}
for name, (centre, radius, strength, own) in places.items():
    inside[name] = np.linalg.norm(mm - centre, axis=1) <= radius
    for label in own:
        pattern = rng.normal(size=inside[name].sum())
        pattern *= strength / pattern.std()
        rows = np.flatnonzero(labels == label)
        data[np.ix_(rows, inside[name])] += pattern - pattern.mean()

bold = np.zeros((*mask.shape, len(table)), dtype=np.float32)
bold[mask] = data.T
bold_img = Nifti1Image(bold, mask_img.affine)

# %%
# The map and its permutations
# ----------------------------
#
# Labels and runs are columns of the table. With ``groups``, one run at a time is left
# out for testing, voxels are z-scored within each run, and labels are permuted within
# runs only. All spheres share the same 200 permutations.

start = time.perf_counter()
result = searchlight(
    bold_img,
    (table, "label"),
    groups="run",
    mask_img=mask_img,
    radius=12,
    n_permutations=200,
    random_state=0,
    verbose=False,
)
print(f"{len(result.positions)} spheres, {time.perf_counter() - start:.0f} s")
print(f"Voxels per sphere: {np.median(result.n_features):.0f}")
result

# %%
# Maps of the brain are drawn on demand:

# sphinx_gallery_thumbnail_number = 1
result.plot(cut_coords=(40, -52, -18))

# %%
# Red is above chance. Outlined spheres are significant, corrected for all spheres of
# the brain. A score belongs to the sphere *around* a voxel, so an informative area
# looks larger than it is, by up to the radius. Interpret it as "near here". The map is
# a
# :class:`~mvpa_kfda.VolumeResult`.
#
# What a p-value means
# --------------------
#
# Without information, an accuracy of 0.5 can occur by chance. Among thousands of
# spheres, the highest accuracy is even larger. How large? Each permutation yields a map
# as it would be expected if the labels were meaningless. We take the highest accuracy
# of each of these 200 maps.

highest = result.null.max(axis=1)
limit = np.quantile(highest, 0.95, method="higher")

fig, ax = plt.subplots(figsize=(6.5, 3), layout="constrained")
style = {"bins": np.arange(0.105, 0.92, 1 / 45), "density": True}
ax.hist(result.null[:, ::50].ravel(), color="0.8", label="any sphere", **style)
ax.hist(highest, color="0.5", label="the best sphere of each map", **style)
ax.axvline(limit, color="C3", ls="--", label=f"5 % exceed {limit:.2f}")
ax.axvline(result.scores.max(), color="C0", label="observed, best sphere")
ax.set(xlabel="Accuracy", ylabel="Density", title="Permuted labels")
ax.legend(frameon=False, fontsize="small")

# %%
# An uncorrected p-value compares a sphere with *its own* permutations (light). That is
# valid for one sphere chosen beforehand. In a map, up to one in twenty spheres without
# information has p ≤ 0.05. A p-value corrected with the maximum compares a sphere with
# the best spheres (dark): the risk that even *one* sphere without information is marked
# is at most 5 %. With 200 permutations, the smallest attainable p-value is 1 / 201.
#
# Two other corrections make use of the spatial extent of information. Clusters are
# compared with the largest cluster of each permuted map. TFCE combines height and
# extent and needs no cluster-forming threshold. We know where the patterns are, so we
# can count the spheres that each correction finds. Spheres "out of reach" contain no
# part of a pattern.

reach = {
    name: np.linalg.norm(mm - centre, axis=1) <= radius + 12
    for name, (centre, radius, *_) in places.items()
}
nowhere = ~np.any(list(reach.values()), axis=0)
rows = {}
for correction in ("none", "max", "cluster", "tfce"):
    found = result.pvalues(correction) <= 0.05
    rows[correction] = {
        f"{name} ({there.sum()})": np.count_nonzero(found & there)
        for name, there in (inside | {"out of reach": nowhere}).items()
    }
print(pd.DataFrame(rows).to_string())

# %%
# ``to_img`` converts scores and p-values to images, for nilearn and other software.

fig, axes = plt.subplots(4, 1, figsize=(7, 8))
fig.subplots_adjust(left=0.02, right=0.94, top=0.95, bottom=0.02, hspace=0.2)
for ax, correction in zip(axes, rows, strict=True):
    plotting.plot_stat_map(
        result.to_img("neglog10p", correction=correction),
        threshold=-np.log10(0.05),
        vmin=0,
        vmax=2.3,  # of p = 1 / 201
        cmap="inferno",
        display_mode="z",
        cut_coords=(-30, -18, 4, 24, 44),
        axes=ax,
    )
    ax.set_title(f"-log10 p, correction: {correction}", loc="left", fontsize="medium")

# %%
# Without correction, false positives are scattered across the map. With the maximum,
# each marked voxel is significant by itself. Clusters and TFCE find more of the weak
# and extended pattern in visual cortex. But a cluster is significant only *as a whole*:
# some of its voxels may be out of reach of any pattern, and nothing can be said about
# single ones. TFCE, too, marks voxels without an effect next to a strong effect.
#
# ``peaks`` lists the highest spheres of each significant cluster. In a notebook,
# ``result.view(alpha=0.05, correction="tfce")`` shows an interactive map.

print(result.peaks("tfce").round(3).to_string())
result.plot("glass_brain", correction="tfce")

# %%
# One score per region
# --------------------
#
# A few regions chosen beforehand need far fewer tests than all spheres. Here they are
# balls around eight coordinates from the literature. You can use any atlas, such as
# those returned by nilearn's ``fetch_atlas_...`` functions.

centres = {
    "early visual": (0, -88, 4),
    "right FFA": (40, -52, -18),
    "left FFA": (-40, -52, -18),
    "right PPA": (22, -36, -12),
    "left PPA": (-22, -36, -12),
    "right premotor": (42, 0, 44),
    "left premotor": (-42, 0, 44),
    "left auditory": (-52, -20, 8),
}
numbers = np.zeros(len(mm), dtype=np.int32)
for number, centre in enumerate(centres.values(), start=1):
    numbers[np.linalg.norm(mm - centre, axis=1) <= 12] = number
atlas = np.zeros(mask.shape, dtype=np.int32)
atlas[mask] = numbers
lut = pd.DataFrame({"index": range(1, 9), "name": list(centres)})

regions = decode_regions(
    bold_img,
    (table, "label"),
    labels_img=Nifti1Image(atlas, mask_img.affine),
    lut=lut,
    groups="run",
    n_permutations=1000,
    random_state=0,
)
regions.plot()
columns = ["region", "n_features", "accuracy", "p", "p_max"]
print(regions.to_dataframe()[columns].round(3).to_string())

# %%
# All voxels of a region are decoded together, and the correction covers eight regions.
# The price: information between the regions is missed, and a small pattern can be
# drowned out in a large region.
#
# Which signals does the model use? ``patterns`` returns an image for each class: how
# its signal differs from the mean of all images, in their unit, as represented in the
# model. In the right FFA only faces have a specific pattern, and theirs is by far the
# strongest. The confusion matrix agrees: faces are never misclassified, whereas houses
# and tools are confused with each other.

regions.plot_patterns(region="right FFA", cut_coords=5)
print(regions.confusion("right FFA").to_string())

# %%
# Without an atlas, the whole mask is one region. Computing time depends on the number
# of images, which is far smaller than that of voxels. But our patterns are small and
# few: they are drowned out by the noise of thousands of voxels.

start = time.perf_counter()
whole = decode_regions(
    bold_img,
    (table, "label"),
    groups="run",
    mask_img=mask_img,
    n_permutations=1000,
    random_state=0,
)
print(f"{whole.n_features[0]} voxels at once: {time.perf_counter() - start:.1f} s")
print(f"{whole}, p = {whole.pvalues()[0]:.3f}")

# %%
# Saving and resuming
# -------------------
#
# A result file contains everything, including the permutations. Images and tables are
# for other programs.

folder = Path(tempfile.mkdtemp())
result.save(folder / "searchlight.h5")
result.to_img().to_filename(folder / "accuracy.nii.gz")
result.to_img("p", correction="tfce").to_filename(folder / "p_tfce.nii.gz")
result.peaks().to_csv(folder / "peaks.csv", index=False)
print(sorted(path.name for path in folder.iterdir()))
print(load_result(folder / "searchlight.h5"))

# %%
# With ``checkpoint``, finished spheres are saved to a file during a run. If the
# computer crashes, the same call resumes where it stopped, and its result is the same
# as without the interruption. Here we just call it twice, for the
# spheres of one slice, selected with ``process_mask_img``.

level = mm[:, 2] == mm[inside["right fusiform gyrus"], 2].max()
in_slice = np.zeros(mask.shape, dtype=np.uint8)
in_slice[mask] = level
for attempt in ("first", "second"):
    start = time.perf_counter()
    again = searchlight(
        bold_img,
        (table, "label"),
        groups="run",
        mask_img=mask_img,
        process_mask_img=Nifti1Image(in_slice, mask_img.affine),
        radius=12,
        checkpoint=folder / "searchlight.checkpoint",
        verbose=False,
    )
    print(f"{attempt} call: {time.perf_counter() - start:.1f} s")
np.testing.assert_array_equal(again.scores, result.scores[level])
