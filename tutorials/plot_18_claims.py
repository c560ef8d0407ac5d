"""
What may the paper say? Five claims, and what each of them takes
================================================================

Simulated EEG and fMRI of fourteen people. About 20 seconds.

"Significant" is where papers begin, and readers want to know more: where, from when, how
much of it, in how many people, and how large. Each of these claims needs a guarantee of
its own. This tutorial climbs the ladder twice, over time and over a brain, and ends with
sentences that can be printed.
"""

# %%
# Fourteen people, two of them without an effect
# ----------------------------------------------
#
# Two classes differ from about 100 ms after the stimulus on. Participants 13 and 14 have
# the same noise and the same response, but no difference between the classes. Every
# participant is decoded with 200 label permutations.

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
for number in range(1, 15):
    epochs = simulate_epochs(
        80,
        2,
        snr=0.35,
        n_channels=16,
        sfreq=50,
        tmin=-0.1,
        tmax=0.5,
        random_state=number,
    )
    if number > 12:
        epochs.events[:, 2] = rng.permutation(epochs.events[:, 2])
    results.append(decode_epochs(epochs, n_permutations=200, random_state=number))

# %%
# Where, and from when
# --------------------
#
# A cluster test finds *that* there is an effect somewhere in a cluster, not at which of
# its times. The cluster depth test asks of every single time how deep it lies in its
# cluster, and so it may say from when on.

group = group_inference(
    results, "sign-flip", correction=["cluster-depth", "cluster"], random_state=0
)
group.plot()

# %%
table = group.clusters("cluster")
print(table[["from", "to", "size", "p", "n_true", "share_true"]].round(3).to_string())

# %%
# How much of it
# --------------
#
# ``n_true`` is how many times of the cluster have an effect at least. The bound holds for
# any set of times, also for one that is chosen after looking at the figure.

for span in ((0.1, 0.3), (0.3, 0.5), (-0.1, 0.08)):
    print(f"{span[0]:g} to {span[1]:g} s: {group.true_discoveries(span)}")

# %%
# In how many people
# ------------------
#
# The mean says nothing of that: a few people may carry it. The i-test asks whether more
# than half of the population have an effect. Order 3 takes the third lowest score of the
# fourteen, so two people without an effect do no harm. The order has to be chosen before
# scores are seen.

people = group_inference(results, "i-test", order=3)
lowest = group_inference(results, "i-test", order=1)
best = int(np.argmax(people.scores))
for name, each in {"order 3": people, "order 1": lowest}.items():
    print(f"{name}: p = {each.pvalues('none')[best]:.4f} at {people.times[best]:.2f} s")

# %%
# The posterior of the prevalence answers with a share instead of a yes or no: of people
# in whom an experiment like this one finds the effect. It is read at one time that was
# chosen beforehand.

fig, axes = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
share = people.prevalence()
share.plot(ax=axes[0])
chosen = int(np.argmin(np.abs(people.times - 0.18)))
print(
    f"At 0.18 s, {100 * share.mode[chosen]:.0f} % of people "
    f"({100 * share.low[chosen]:.0f} to {100 * share.high[chosen]:.0f} %)."
)

# %%
# How large, and how small at most
# --------------------------------
#
# The interval of the mean is in units of accuracy. Where its upper end is low, it says
# what a p-value above 0.05 does not: that there is hardly anything.

interval = group.interval(simultaneous=True)
axes[1].fill_between(interval.times, interval.low, interval.high, alpha=0.3)
axes[1].plot(group.times, group.scores)
axes[1].axhline(0.5, color="0.5", linewidth=1)
axes[1].set(xlabel="Time (s)", ylabel="Mean accuracy, 95 % at once")
before = interval.high[group.times < 0].max()
print(f"Before the stimulus, mean accuracy is below {np.ceil(1e3 * before) / 1e3:.3f}.")
fig

# %%
# The ladder, in one table
# ------------------------
#
# `claims` looks for all five guarantees in the results at hand, and says of what is
# missing what it would take. A report begins with this table.

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
# In a small volume, one ball holds information in all fourteen people. A cluster of a
# hundred voxels is significant; how many of them are real?

shape, n = (11, 11, 9), 32
mask_img = Nifti1Image(np.ones(shape, dtype=np.int8), np.diag([4.0, 4, 4, 1]))
grid = np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"), axis=-1)
inside = np.linalg.norm(grid - (4, 6, 4), axis=-1) < 2.5
labels = pd.DataFrame({"run": np.repeat(range(4), 8), "class": np.tile([0, 1], n // 2)})
maps = []
for number in range(14):
    rng = np.random.default_rng(number)
    data = gaussian_filter(rng.normal(size=(n, *shape)), (0, 0.6, 0.6, 0.6))
    pattern = rng.normal(size=inside.sum())
    data[:, inside] += 0.12 * np.outer(2 * labels["class"] - 1, pattern)
    images = Nifti1Image(np.moveaxis(data, 0, -1).astype(np.float32), mask_img.affine)
    options = {"mask_img": mask_img, "groups": "run", "radius": 7}
    maps.append(
        searchlight(
            images, (labels, "class"), n_permutations=50, verbose=False, **options
        )
    )
brain = group_inference(maps, "sign-flip", correction="cluster", random_state=0)
table = brain.clusters()
print(table[["size", "p", "n_true", "share_true"]].head(3).round(3).to_string())

# %%
# The cluster is larger than the ball, as every searchlight that touches the ball sees
# it. At each voxel, the map below has the size of the largest region around it of which
# half has an effect, at least.

sizes = brain.discovery_map(share=0.5)
volume = np.zeros(shape)
volume[mask_img.get_fdata() > 0] = sizes
fig, axes = plt.subplots(1, 2, figsize=(7, 3.2), layout="constrained")
axes[0].imshow(np.squeeze(brain.to_img().get_fdata())[:, :, 4].T, origin="lower")
axes[0].set_title("Mean accuracy")
shown = axes[1].imshow(volume[:, :, 4].T, origin="lower")
axes[1].set_title("Voxels of the region, half of them true")
for ax in axes:
    ax.contour(inside[:, :, 4].T, levels=[0.5], colors="w")
    ax.set_axis_off()
fig.colorbar(shown, ax=axes)
fig

# %%
# What the paper prints
# ---------------------

for name, result in {"EEG": group, "EEG, people": people, "fMRI": brain}.items():
    said = claims(result)["statement"]
    print(f"{name}. " + " ".join(said[said != ""]), end="\n\n")
