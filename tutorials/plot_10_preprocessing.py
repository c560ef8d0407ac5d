"""
Preprocessing without leakage: z-scores, whitening, confounds
=============================================================

Simulated EEG and fMRI in runs. About 10 seconds.

``preprocess="zscore"`` (or ``"pca"``, ``"whiten"``) and ``confounds=`` fit these steps
to the training trials of each fold only, which is always valid and cheap even with many
permutations. Fitted to all trials at once, z-scores raise the accuracy of bad
recordings to 0.61, where new recordings have 0.40 (chance: 0.333). A confound removed
from all trials beforehand pushes the accuracy of data without an effect down to 0.41
(chance: 0.5); removed in each fold, it is 0.50.

Features are z-scored, reduced to principal components or whitened, or confounds are
removed, before they are decoded. Such steps are fitted to trials. If they are fitted to
all trials at once, test trials influence them. No labels are involved, so does it
matter? Sometimes not at all, and sometimes the score is far too high, or far too low.
"""

# %%
# Twelve runs
# -----------
#
# We simulate EEG of three classes in twelve runs. The first six are our data. The other
# six represent future recordings, to which we would like to generalize.

import time

import matplotlib.pyplot as plt
import mne
import numpy as np
import pandas as pd
from nibabel import Nifti1Image
from scipy.ndimage import gaussian_filter
from scipy.stats import norm
from sklearn.decomposition import PCA
from sklearn.model_selection import (
    LeaveOneGroupOut,
    cross_val_predict,
    permutation_test_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mvpa_kfda import (
    KernelFDA,
    cross_validate,
    decode_epochs,
    searchlight,
    simulate_epochs,
)

mne.set_log_level("warning")
epochs = simulate_epochs(
    480, 3, snr=0.5, sfreq=50.0, tmin=-0.1, tmax=0.5, n_blocks=12, random_state=0
)
print(epochs.metadata.head(3))


def with_data(epochs, data):
    """Return the same epochs with other data."""
    return mne.EpochsArray(
        data, epochs.info, epochs.events, epochs.tmin, epochs.event_id,
        metadata=epochs.metadata,
    )  # fmt: skip


# %%
# In a second recording, one electrode is loose in each run, a different one each time,
# and nobody has noticed.

rng = np.random.default_rng(0)
data = epochs.get_data(copy=True)
size = data.std()
for block, channel in enumerate(rng.permutation(32)[:12], start=1):
    rows = np.flatnonzero(epochs.metadata["block"] == block)
    data[rows, channel] += 30 * size * rng.normal(size=(len(rows), 1))
recordings = {
    "All electrodes intact": epochs,
    "One loose electrode per run": with_data(epochs, data),
}

# %%
# Z-scoring across all trials or within training sets
# ---------------------------------------------------
#
# We leave one run out at a time. First, each channel is z-scored over all six runs
# before decoding. Second, with ``preprocess="zscore"``, mean and standard deviation are
# those of the five training runs, at each time point. Finally, the ground truth: a
# model trained on our six runs is tested on the six others. For this, ``cv`` is a
# single pair of training and test trials.

first = (epochs.metadata["block"] <= 6).to_numpy()
new = [(np.flatnonzero(first), np.flatnonzero(~first))]

# sphinx_gallery_thumbnail_number = 1
fig, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained", sharey=True)
for ax, (title, recording) in zip(axes, recordings.items(), strict=True):
    ours = recording[first]
    x = ours.get_data()
    at_once = with_data(ours, (x - x.mean(axis=0)) / x.std(axis=0))
    results = {
        "z-scored all at once": decode_epochs(at_once, groups="block"),
        "z-scored in every fold": decode_epochs(
            ours, groups="block", preprocess="zscore"
        ),
        "new runs": decode_epochs(recording, cv=new, preprocess="zscore"),
    }
    print(title)
    for (name, result), style in zip(
        results.items(), ("C3-", "C0-", "k--"), strict=True
    ):
        ax.plot(1000 * result.times, result.scores, style, label=name)
        print(f"  {name}: {result.scores[result.times > 0.1].mean():.3f}")
    ax.axhline(1 / 3, color="0.7", lw=0.8)
    ax.set(title=title, xlabel="Time (ms)")
axes[0].set_ylabel("Accuracy")
fig.legend(
    *axes[0].get_legend_handles_labels(),
    loc="outside lower center",
    ncols=3,
    frameon=False,
)

# %%
# On the left it makes no difference: means and standard deviations of 240 trials and of
# 200 are nearly the same. On the right, with all trials z-scored at once, the score is
# nearly as high as without loose electrodes, and far above that on new recordings. An
# electrode that is loose only in the test run was scaled down *in the training trials*,
# too. The test trials have warned the model, and no labels were needed for it.
#
# (In practice, mark such electrodes as bad, or z-score each run separately, which is
# also possible for new runs. With neither, test trials influence training trials. With
# the latter the mean is about 0.60, in our runs and in new ones.)
#
# Whitening few trials
# --------------------
#
# The opposite can happen, too. Sixty trials with 192 features, six samples of 32
# channels, are whitened. If all of them are whitened at once, trials become almost
# uncorrelated with each other, including test trials with training trials, since there
# are more dimensions than trials. There is little left to generalize.

x = epochs.get_data()[:, :, 9:15].reshape(len(epochs), -1)
y = epochs.metadata["condition"].to_numpy()
whiten = PCA(0.99, svd_solver="full", whiten=True)
some = np.arange(60)
print("whitened all at once:", cross_validate(whiten.fit_transform(x[some]), y[some]))
print("in every fold:", cross_validate(x[some], y[some], preprocess="whiten"))
rest = [(some, np.arange(60, len(x)))]
print("420 new trials:", cross_validate(x, y, cv=rest, preprocess="whiten"))

# %%
# Computing time
# --------------
#
# These steps change the matrix of a fold, but they do not use labels. So there is one
# matrix per fold, and permutations are still columns of one matrix product.

ours = epochs[first]
for step in (None, "zscore", "pca", ["zscore", "pca"]):
    start = time.perf_counter()
    result = decode_epochs(
        ours, groups="block", preprocess=step, n_permutations=200, random_state=0
    )
    print(f"preprocess={step!r}: {time.perf_counter() - start:.1f} s")
    print(result)

# %%
# Predictions equal those of a refitted pipeline, trial by trial. Refitting requires one
# fit per fold and permutation. We run 10 permutations at a single time point in
# scikit-learn, and extrapolate.

features = ours.get_data()[:, :, ours.time_as_index(0.18)[0]]
labels, runs = (ours.metadata[name].to_numpy() for name in ("condition", "block"))
pipeline = make_pipeline(StandardScaler(), PCA(0.99), KernelFDA())
options = {"groups": runs, "cv": LeaveOneGroupOut()}
direct = cross_validate(
    features, labels, preprocess=[StandardScaler(), PCA(0.99)], **options
)
refitted = cross_val_predict(pipeline, features, labels, **options)
print(f"Equal predictions: {np.mean(direct.predictions == refitted):.0%}")

start = time.perf_counter()
permutation_test_score(pipeline, features, labels, n_permutations=10, **options)
minutes = (time.perf_counter() - start) / 11 * 201 * len(result.times) / 60
print(f"Refitting for the last analysis above would take {minutes:.0f} min")

# %%
# Confounds
# ---------
#
# In a second experiment, two kinds of pictures also differ in contrast: it is higher
# for the first kind on average. By construction, signals depend on the kind at 170 ms,
# and only on contrast at 350 ms.

epochs = simulate_epochs(
    160, 2, snr=0, sfreq=50.0, tmin=-0.1, tmax=0.5, n_blocks=8, random_state=1
)
kind = np.where(epochs.metadata["condition"] == "class_1", 1.0, -1.0)
contrast = 0.6 * kind + 0.8 * rng.normal(size=160)
epochs.metadata = epochs.metadata.assign(contrast=contrast)


def course(peak):
    """Return a bump in time, (n_times,)."""
    return norm.pdf(epochs.times, peak, 0.03) / norm.pdf(0, 0, 0.03)


data = epochs.get_data(copy=True)
size = data.std()
for amount, values, peak in ((0.22, kind, 0.17), (0.9, contrast, 0.35)):
    pattern = amount * size * rng.normal(size=32)
    data += values[:, None, None] * pattern[:, None] * course(peak)
epochs = with_data(epochs, data)

# %%
# Contrast can be regressed out of the signals in all trials before decoding, or with
# ``confounds=``, with coefficients estimated on the training trials of each fold.

design = np.column_stack([np.ones(160), contrast])
flat = epochs.get_data().reshape(160, -1)
rest = flat - design @ np.linalg.lstsq(design, flat, rcond=None)[0]
beforehand = with_data(epochs, rest.reshape(data.shape))

options = {"groups": "block", "n_permutations": 200, "random_state": 0}
results = {
    "as they are": decode_epochs(epochs, **options),
    "removed beforehand": decode_epochs(beforehand, **options),
    "removed in every fold": decode_epochs(epochs, confounds="contrast", **options),
}
fig, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
for (name, result), color in zip(results.items(), ("0.6", "C3", "C0"), strict=True):
    result.plot(ax=ax, label=name, color=color)
for peak, what in ((0.17, "kind"), (0.35, "contrast")):
    ax.text(peak, 1.04, what, ha="center")
ax.set_title("", loc="left")
ax.set_ylim(0.22, 1.12)

# %%
# Without removal, the kind of picture can be decoded at 350 ms, from its contrast. With
# removal beforehand, accuracy is *below* chance at nearly all other times, which is
# puzzling: how can a classifier be systematically wrong? The regression has made
# signals and contrast uncorrelated over *all* trials. Any small correlation in the
# training trials is sign-reversed in the test trials, since both have to add up to
# zero. A model that relies on contrast is therefore wrong about the kind in the test
# trials. This lowers the score at 170 ms, too. With removal in each fold, accuracy is
# at chance where there is only contrast.
#
# At 170 ms both ways of removal lower the score, although contrast has no effect on
# signals there. We return to this below.
#
# Is this systematic? Here are sixty data sets with only the confound in the signals:


def simulate(relation, effect, confound, seed, n=80, p=20):
    """Return signals (n, p), classes, and a confound with this correlation to them."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % 2)
    kind = 2.0 * y - 1
    c = relation * kind + np.sqrt(1 - relation**2) * rng.normal(size=n)
    X = rng.normal(size=(n, p))
    X += effect * np.outer(kind, rng.normal(size=p))
    return X + confound * np.outer(c, rng.normal(size=p)), y, c


results = {"as they are": [], "removed beforehand": [], "removed in every fold": []}
options = {"n_permutations": 59, "random_state": 0}
for seed in range(60):
    X, y, c = simulate(0.6, 0, 0.5, seed)
    C = np.column_stack([np.ones_like(c), c])
    rest = X - C @ np.linalg.lstsq(C, X, rcond=None)[0]
    results["as they are"].append(cross_validate(X, y, **options))
    results["removed beforehand"].append(cross_validate(rest, y, **options))
    results["removed in every fold"].append(
        cross_validate(X, y, confounds=c, **options)
    )
accuracy = {name: [each.scores for each in all_] for name, all_ in results.items()}
for name, values in accuracy.items():
    error = np.std(values, ddof=1) / np.sqrt(len(values))
    found = np.mean([each.pvalues() <= 0.05 for each in results[name]])
    print(f"{name}: {np.mean(values):.3f} ± {error:.3f}, p ≤ 0.05 in {found:.0%}")

# %%
# What removal cannot do
# ----------------------
#
# Removal cannot separate effects of class and confound if the two covary. Now the
# classes do differ, and the confound has no effect at all. The stronger its relation to
# the classes, the more of their difference is removed with it. If it equals the class,
# nothing is left.

relations = np.array([0, 0.3, 0.6, 0.8, 0.9, 0.95, 1])
left = np.array(
    [
        [
            [cross_validate(X, y, confounds=c).scores, cross_validate(X, y).scores]
            for X, y, c in [simulate(relation, 0.25, 0, seed) for seed in range(15)]
        ]
        for relation in relations
    ]
)

fig, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained", sharey=True)
jitter = np.random.default_rng(0).uniform(-0.15, 0.15, 60)
for i, (values, color) in enumerate(
    zip(accuracy.values(), ("0.6", "C3", "C0"), strict=True)
):
    axes[0].plot(i + jitter, values, "o", ms=4, alpha=0.5, mew=0, color=color)
    axes[0].plot([i - 0.3, i + 0.3], 2 * [np.mean(values)], color=color, lw=2.5)
axes[0].set_xticks(range(3), [name.replace(" ", "\n", 1) for name in accuracy])
axes[0].set(title="Only the confound has an effect", ylabel="Accuracy")
for i, (name, color) in enumerate(
    {"removed in every fold": "C0", "as they are": "0.6"}.items()
):
    axes[1].plot(relations, left[..., i].mean(axis=1), "o-", color=color, label=name)
axes[1].set(
    title="Only the class has an effect", xlabel="Correlation of confound and class"
)
axes[1].legend(frameon=False)
for ax in axes:
    ax.axhline(0.5, color="0.7", lw=0.8, zorder=0)

# %%
# Cross-decoding with runs left out
# ---------------------------------
#
# Finally, information about test trials can leak in another way. In six fMRI runs, an
# object (a face or a house) is seen, and right afterwards imagined. Does a model of
# seen objects generalize to imagined ones? There is one image per trial, and noise is
# correlated between successive images. In one area the patterns of seeing reappear in
# imagery, in another one they do not.

shape, rows = (18, 18, 3), []
for run in range(1, 7):
    for thing in rng.permutation(["face", "house"] * 6):
        rows += [(run, "seen", thing), (run, "imagined", thing)]
table = pd.DataFrame(rows, columns=["run", "task", "object"])

noise = gaussian_filter(rng.normal(size=(len(table), *shape)), (0, 0.7, 0.7, 0.7))
noise /= noise.std()
for i in range(1, len(table)):
    if table["run"][i] == table["run"][i - 1]:
        noise[i] += 0.75 * noise[i - 1]

voxels = np.indices(shape)
seen = (table["task"] == "seen").to_numpy()
face = np.where(table["object"] == "face", 1, -1)
areas = {}
for name, centre, trials in (("both", 4, seen | True), ("seen only", 13, seen)):
    distance = np.linalg.norm(
        voxels - np.array([centre, centre, 1])[:, None, None, None], axis=0
    )
    areas[name] = distance
    pattern = np.where(distance <= 2, 0.15 * rng.normal(size=shape), 0)
    noise[trials] += face[trials, None, None, None] * pattern

affine = np.diag([4.0, 4.0, 4.0, 1.0])
imgs = Nifti1Image(np.moveaxis(noise, 0, -1).astype(np.float32), affine)
mask_img = Nifti1Image(np.ones(shape, np.uint8), affine)

# %%
# ``train_on`` selects the trials to train on; all others are test trials. It is a query
# on the table of labels. Without groups, one model is trained on all seen objects. With
# ``groups="run"``, a model is trained on the objects seen in five runs, and tested on
# those imagined in the sixth.

options = {"mask_img": mask_img, "radius": 8, "verbose": False}
options |= {"n_permutations": 100, "random_state": 0}
maps = {
    "All runs at once": searchlight(
        imgs, (table, "object"), train_on="task == 'seen'", **options
    ),
    "Runs left out": searchlight(
        imgs, (table, "object"), groups="run", train_on="task == 'seen'", **options
    ),
}
far = np.min(list(areas.values()), axis=0).ravel() > 4  # spheres that touch neither
for name, result in maps.items():
    print(name, result, sep="\n  ")
    found = (result.pvalues() <= 0.05)[far]
    print(f"  no information: accuracy {result.scores[far].mean():.3f},", end=" ")
    print(f"p ≤ 0.05 in {found.mean():.0%} of the spheres")

fig, axes = plt.subplots(1, 2, figsize=(8, 3.8), layout="constrained")
for ax, (name, result) in zip(axes, maps.items(), strict=True):
    scores = result.to_img().get_fdata()[:, :, 1].T
    significant = result.to_img("p").get_fdata()[:, :, 1].T <= 0.05
    style = {"origin": "lower", "cmap": "RdBu_r", "vmin": 0.2, "vmax": 0.8}
    ax.imshow(scores, alpha=np.where(significant, 1.0, 0.25), **style)
    image = ax.imshow(np.full_like(scores, np.nan), **style)  # for the colours' bar
    for area, at, above in (("both", 4, 3.2), ("seen only", 13, -4)):
        ax.add_patch(plt.Circle((at, at), 2.5, fill=False, ls=":", lw=2))
        ax.text(at, at + above, area, ha="center", weight="bold")
    ax.set(title=name, xticks=[], yticks=[])
fig.colorbar(image, ax=axes, label="Accuracy, imagined objects")

# %%
# Non-significant spheres (uncorrected) are faded. Dotted circles mark areas with
# information. With all runs at once, objects seem to be decoded in about two thirds of
# the spheres without information. In fact, the noise of the previous trial is decoded,
# in which the same object was seen. The permutations do not help: permuted labels of
# seen objects no longer match the next trial. With runs left out, about 5 % of spheres
# are significant outside the area shared by both tasks, as expected. In the area that
# represents only seen objects, accuracy is at chance, as it should be, although seen
# objects can be decoded there:

there = noise[seen][:, areas["seen only"] <= 2]
of_seen = table[seen]
print(cross_validate(there, of_seen["object"], groups=of_seen["run"]))

# %%
# Only the labels of the seen objects are permuted, within runs. Those of the imagined
# ones are not: these may well differ by object in another way, and the question is
# whether a model of the seen objects generalizes to them.
