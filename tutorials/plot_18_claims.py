"""
What may the paper claim? Five claims and their guarantees
==========================================================

Simulated EEG and fMRI of twenty people. About 20 seconds.

``claims(result)`` lists the sentences that a result supports, and what the others would
require. Here twenty people, two of them without an effect, support these: mean accuracy
is above chance at 17 of 37 time points, by 0.150 s; more than half of the population
have the effect at 8 time points; and at 0.4 s mean accuracy is between 0.76 and 1.00.

A significant result is only a beginning. Readers want to know more: where, from when,
how much of it, in how many people, and how large. Each of these claims needs its own
guarantee. This tutorial goes through them twice, over time and over the brain, and ends
with sentences for a paper.
"""

# %%
# Twenty people, two of them without an effect
# --------------------------------------------
#
# Two classes differ from about 100 ms after the stimulus. In participants 19 and 20,
# noise and response are the same, but classes do not differ. Each participant is
# decoded with 100 label permutations.

# sphinx_gallery_thumbnail_number = 2
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from nibabel import Nifti1Image
from scipy.ndimage import gaussian_filter

from mvpa_kfda import (
    claims,
    decode_epochs,
    group_inference,
    searchlight,
    simulate_epochs,
)

rng = np.random.default_rng(0)
results = []
for number in range(1, 21):
    epochs = simulate_epochs(
        72,
        2,
        snr=0.6,
        n_channels=16,
        sfreq=40,
        tmin=-0.2,
        tmax=0.7,
        random_state=number,
    )
    if number > 18:
        epochs.events[:, 2] = rng.permutation(epochs.events[:, 2])
    results.append(decode_epochs(epochs, n_permutations=100, random_state=number))

# %%
# Where, and from when
# --------------------
#
# A cluster test shows *that* there is an effect somewhere in a cluster, but not at
# which time points. The cluster depth test compares each time point with those at the
# same depth in clusters under sign flips, and so supports claims about single time
# points.

group = group_inference(
    results, "sign-flip", correction=["cluster-depth", "cluster"], random_state=0
)
group.plot()

# %%
table = group.clusters("cluster")
columns = ["size", "p", "n_true", "share_true"]
print(table[["from", "to", *columns]].round(3).to_string())

# %%
# How much of it
# --------------
#
# At least ``n_true`` time points of the cluster have an effect. Such bounds
# (:class:`~mvpa_kfda.TrueDiscoveries`) hold for all sets of time points simultaneously,
# so a set may be chosen after seeing the figure.

for span in ((0.1, 0.3), (0.3, 0.5), (-0.1, 0.08)):
    print(f"{span[0]:g} to {span[1]:g} s: {group.true_discoveries(span)}")

# %%
# In how many people
# ------------------
#
# The mean does not show this: a few people may be responsible for it. The i-test asks
# whether more than half of the population have an effect. With order 3 it tests the
# third lowest of the twenty scores, so two people without an effect do not matter; with
# order 1 it tests the lowest score. Choose the order before you see the scores.

people = group_inference(results, "i-test", order=3)
lowest = group_inference(results, "i-test", order=1)
for name, each in {"order 3": people, "order 1": lowest}.items():
    n = np.count_nonzero(each.pvalues("holm") <= 0.05)
    print(f"{name}: a majority at {n} of {len(each.times)} time points")

# %%
# The posterior of the prevalence estimates a proportion instead of testing one: the
# proportion of people in whom this experiment detects the effect. It is valid at one
# time point chosen beforehand, here 0.175 s.

fig, axes = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
share = people.prevalence()
share.plot(ax=axes[0])
chosen = int(np.argmin(np.abs(people.times - 0.175)))
print(
    f"At 0.175 s, {100 * share.mode[chosen]:.0f} % of people "
    f"({100 * share.low[chosen]:.0f} to {100 * share.high[chosen]:.0f} %)."
)

# %%
# How large
# ---------
#
# The confidence interval of the mean is in units of accuracy. A low upper limit shows
# what a p-value above 0.05 does not: that the effect, if any, is small.

interval = group.interval(simultaneous=True)
axes[1].fill_between(interval.times, interval.low, interval.high, alpha=0.3)
axes[1].plot(group.times, group.scores)
axes[1].axhline(0.5, color="0.5", linewidth=1)
axes[1].set(xlabel="Time (s)", ylabel="Mean accuracy, 95 % at once")
before = interval.high[group.times < 0].max()
print(f"Before the stimulus, mean accuracy is below {np.ceil(1e3 * before) / 1e3:.3f}.")

# %%
# All claims in one table
# -----------------------
#
# :func:`~mvpa_kfda.claims` lists the claims that the results support, and what the
# others would require. Reports begin with this table.

table = claims({"mean": group, "people": people})
for _, row in table[table["statement"] != ""].iterrows():
    print(f"{row['result']}, {row['claim']}: {row['statement']}")

# %%
missing = table[table["statement"] == ""]
print(missing[["result", "claim", "missing"]].to_string(index=False))

# %%
# The same for a searchlight
# --------------------------
#
# In a small volume, a ball of voxels carries information in all twenty people. A large
# cluster is significant; how many of its voxels have an effect?

shape, n = (7, 9, 7), 32
mask_img = Nifti1Image(np.ones(shape, dtype=np.int8), np.diag([4.0, 4, 4, 1]))
grid = np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"), axis=-1)
inside = np.linalg.norm(grid - (3, 5, 3), axis=-1) < 2.5
order = np.concatenate([rng.permutation([0, 1] * 4) for _ in range(4)])
labels = pd.DataFrame({"run": np.repeat(range(4), 8), "class": order})
maps = []
for number in range(20):
    rng = np.random.default_rng(number)
    data = gaussian_filter(rng.normal(size=(n, *shape)), (0, 0.6, 0.6, 0.6))
    pattern = rng.normal(size=inside.sum())
    data[:, inside] += 0.08 * np.outer(2 * labels["class"] - 1, pattern)
    images = Nifti1Image(np.moveaxis(data, 0, -1).astype(np.float32), mask_img.affine)
    options = {"mask_img": mask_img, "groups": "run", "radius": 7}
    maps.append(searchlight(images, (labels, "class"), verbose=False, **options))
brain = group_inference(maps, "sign-flip", correction="cluster", random_state=0)
table = brain.clusters()
print(table[columns].head(3).round(3).to_string())

# %%
# The cluster is larger than the ball (white), since every searchlight that overlaps the
# ball contains information. The map on the right shows, at each voxel, the size of the
# largest region around it of which at least 90 % have an effect.

sizes = brain.discovery_map(share=0.9)
volume = np.zeros(shape)
volume[mask_img.get_fdata() > 0] = sizes
fig, axes = plt.subplots(1, 2, figsize=(7, 3.2), layout="constrained")
scores = np.zeros(shape)
scores[mask_img.get_fdata() > 0] = brain.scores
axes[0].imshow(scores[:, :, 3].T, origin="lower")
axes[0].set_title("Mean accuracy")
shown = axes[1].imshow(volume[:, :, 3].T, origin="lower")
axes[1].set_title("Region with 90 % true, voxels")
for ax in axes:
    ax.contour(inside[:, :, 3].T, levels=[0.5], colors="w")
    ax.set_axis_off()
fig.colorbar(shown, ax=axes)

# %%
# Sentences for the paper
# -----------------------

for name, result in {"EEG": group, "EEG, people": people, "fMRI": brain}.items():
    said = claims(result)["statement"]
    print(f"{name}. " + " ".join(said[said != ""]), end="\n\n")
