"""
When do classes differ? EEG epochs over time
============================================

Simulated EEG of three classes. About 5 seconds.

When can a class of stimuli be read from the EEG? This tutorial decodes three classes at
every time point, tests the scores with label permutations, and compares what different
corrections, windows and metrics show. The data are simulated, so we know the answer:
classes differ from about 100 ms after the stimulus on, most at 170 and 380 ms.
"""

# %%
# Simulated epochs
# ----------------
#
# `simulate_epochs` places dipoles in a spherical head and lets MNE-Python compute
# what 32 EEG channels see. Some dipoles answer to the stimulus, and some of these
# answer differently for each class. The background is ongoing activity with a 10 Hz
# rhythm.

# sphinx_gallery_thumbnail_number = 2
import matplotlib.pyplot as plt
import numpy as np

from mvpa_kfda import (
    KernelFDA,
    Ridge,
    check_design,
    cross_validate,
    decode_epochs,
    load_result,
    simulate_epochs,
    verify,
)

epochs = simulate_epochs(n_trials=180, n_classes=3, random_state=0)
print(epochs)
print(epochs.metadata.head())

# %%
# In single trials the classes are hard to tell apart. Here are the means of each class
# at one channel, and some of the trials they come from.

channel = epochs.ch_names.index("PO4")
fig, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
ax.plot(epochs.times, 1e6 * epochs.get_data()[::6, channel].T, color="0.85", lw=0.6)
for name, color in zip(epochs.event_id, ["#0072B2", "#D55E00", "#009E73"], strict=True):
    mean = 1e6 * epochs[name].get_data()[:, channel].mean(axis=0)
    ax.plot(epochs.times, mean, color=color, lw=2, label=name)
ax.axvline(0, color="black", lw=0.8)
ax.set(xlabel="Time (s)", ylabel="PO4 (µV)", xlim=epochs.times[[0, -1]])
ax.set_title("Every sixth trial, and the means of the classes", fontsize="medium")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, ncols=3)

# %%
# Decode
# ------
#
# One call cross-validates a classifier at each of the 101 time points, for the
# observed labels and for 1000 permutations of them. That is a million refitted models
# in principle, but nothing is refitted: see :doc:`/method`.

result = decode_epochs(epochs, n_permutations=1000, random_state=0)
print(result)
print(f"Labels were exchanged {result.parameters['permute']!r}.")
result.plot(correction="max")

# %%
# The gray band holds the central 95 % of the permuted scores at each time point. The
# bars mark significant time points after a correction for all 101 of them. Both
# bursts of class information are found, and nothing before the stimulus. What came out
# is a :class:`~mvpa_kfda.TimeResult`; trials in an array go to
# :func:`~mvpa_kfda.decode_arrays`, which makes the same.
#
# Corrections
# -----------
#
# Corrections answer different questions (see :doc:`/guide`). ``"max"`` lets you speak
# about single time points. ``"cluster"`` and ``"tfce"`` gain power from effects that
# last, but a cluster is significant as a whole. ``"fdr"`` allows some false alarms
# among the time points it finds, and without a correction they are to be expected.

corrections = ["none", "fdr", "cluster", "tfce", "max", "bonferroni"]
fig, ax = plt.subplots(figsize=(7, 3), layout="constrained")
for row, correction in enumerate(corrections):
    significant = result.pvalues(correction) <= 0.05
    ax.plot(
        result.times[significant],
        np.full(significant.sum(), row),
        "s",
        color="#D55E00",
        ms=4,
    )
    print(f"{correction:>10}: {significant.sum():3d} time points with p <= 0.05")
ax.axvline(0, color="black", lw=0.8)
ax.set(xlabel="Time (s)", xlim=result.times[[0, -1]], ylim=(5.6, -0.6))
ax.set_yticks(range(len(corrections)), corrections)
ax.set_title("Time points with p ≤ 0.05", fontsize="medium")
ax.spines[["top", "right"]].set_visible(False)
ax.grid(axis="y", color="0.9")

# %%
# With 1000 permutations no p-value can be smaller than 1/1001. Times 101 time points
# that is more than 0.05, so Bonferroni's correction cannot find anything here. The
# maximum statistic controls the same error without this limit.
#
# Windows
# -------
#
# Single samples are noisy. Averaging over 50 ms steadies the scores, at the price of
# a blurred onset. A window's time is its centre. Results that are drawn into the same
# Axes share a legend, and the bars below have the colors of their curves.

windowed = decode_epochs(
    epochs, window=0.05, step=0.02, n_permutations=1000, random_state=0
)
ax = result.plot(color="0.5", label="single samples")
windowed.plot(ax=ax, label="50 ms windows")
for shown, name in ((result, "single samples"), (windowed, "50 ms windows")):
    first = shown.times[shown.pvalues("max") <= 0.05].min()
    print(f"{name}: peak {shown.scores.max():.2f}, first significant at {first:.3f} s")

# %%
# Groups and several metrics
# --------------------------
#
# Trials of one recording block resemble each other. With ``groups`` a whole block is
# left out at a time, and labels are exchanged within blocks. Several metrics come
# from the same predictions at almost no cost. The first one is `result.scores`.
#
# Before that, a look at the design: which trials are in which block, what each fold
# tests, and whether something about it would make scores or p-values wrong.

design = check_design((epochs.metadata, "condition"), groups="block")
print(design)
design.plot()

# %%
# A :class:`~mvpa_kfda.Design` lists its problems. There are none, so on to decoding.

by_block = decode_epochs(
    epochs,
    "condition",
    groups="block",
    scoring=["accuracy", "roc_auc"],
    n_permutations=1000,
    random_state=0,
)
print(by_block)
by_block.plot(metric="roc_auc", correction="cluster")

# %%
# The confusion matrix at the best time point shows which classes are mixed up. True
# classes are in rows. ``at=(0.15, 0.2)`` would pool the times of a range.

by_block.plot_confusion()

# %%
# Accuracy may come from one class alone. The recall of each class over time tells.

by_block.plot_recall()

# %%
# Trial by trial
# --------------
#
# How clear was each trial? Two classes, by the names of their events, and for every
# trial a decision value: positive where the model, which has not seen the trial, takes
# it for the second class. These values can be correlated with behaviour.

pair = decode_epochs(
    epochs, ["class_1", "class_2"], scoring="roc_auc", keep_class_scores=True
)
values = pair.decision_values()  # times, trials
fig, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
for number, color in enumerate(["#0072B2", "#D55E00"]):
    mine = values[:, pair.y == number]
    mean, error = mine.mean(axis=1), mine.std(axis=1) / np.sqrt(mine.shape[1])
    name = pair.classes[number]
    axes[0].plot(pair.times, mean, color=color, lw=1.8, label=name)
    band = {"color": color, "alpha": 0.25, "lw": 0}
    axes[0].fill_between(pair.times, mean - error, mean + error, **band)
    clearest = values[pair.scores.argmax(), pair.y == number]
    axes[1].hist(clearest, bins=15, color=color, alpha=0.6, label=name)
axes[0].axhline(0, color="black", lw=0.8, ls="--")
axes[0].set(xlabel="Time (s)", ylabel="Decision value", xlim=pair.times[[0, -1]])
axes[0].set_title("Mean and standard error over trials", fontsize="medium")
axes[1].set(xlabel=f"Decision value at {pair.peak()['time']:.2f} s", ylabel="Trials")
axes[1].set_title(f"ROC AUC {pair.scores.max():.2f}", fontsize="medium")
axes[0].legend(frameon=False)
for ax in axes:
    ax.spines[["top", "right"]].set_visible(False)

# %%
# Where should the border between two classes be? The ROC curve shows all borders: how
# many trials of one class are found, and how many of the other are taken for them. A
# map has no curve, so cross-validate again at the time that is asked about. An
# :class:`~mvpa_kfda.Roc` has the numbers.

moment = epochs[["class_1", "class_2"]].get_data()[:, :, pair.scores.argmax()]
at_peak = cross_validate(moment, pair.classes[pair.y])
roc = at_peak.roc()
share = roc.tpr[roc.fpr <= 0.1][-1]
print(f"{share:.0%} of {roc.positive}, with 10 % false alarms")
at_peak.plot_roc()

# %%
# Folds by themselves show whether some of them failed.

folds = pair.fold_scores[pair.scores.argmax()]
print(f"ROC AUC of the ten folds: {folds.round(2)}")

# %%
# Keep the result
# ---------------
#
# A table for other programs, and a file that holds everything needed to redo the
# analysis: scores, permutations' scores, predictions, folds, parameters and versions.

import tempfile
from pathlib import Path

print(by_block.to_dataframe().iloc[by_block.scores.argmax()])
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "decoding.h5"
    by_block.save(path)
    loaded = load_result(path)
print(loaded == by_block)
print(loaded.parameters)

# %%
# Whoever has the file and the data can check it: `verify` refits models of some cells
# (a position, a fold, a permutation) by scikit-learn, and compares what they predict.
# The :class:`~mvpa_kfda.Verification` says in one line whether all agrees; see
# :doc:`/checking`.

print(verify(loaded, epochs, "condition", n_cells=5, random_state=0))

# %%
# The same numbers by retraining
# ------------------------------
#
# `KernelFDA` is the same classifier, trained the ordinary way. In MNE-Python's
# `SlidingEstimator` it is refitted for each fold and time point. With an absolute
# penalty the accuracies agree exactly.

from mne.decoding import SlidingEstimator, cross_val_multiscore
from sklearn.model_selection import LeaveOneGroupOut

few = epochs.copy().crop(0.1, 0.3, verbose=False)
direct = decode_epochs(few, "condition", groups="block", reg=Ridge(1e-9))
retrained = cross_val_multiscore(
    SlidingEstimator(KernelFDA(reg=Ridge(1e-9)), scoring="accuracy", verbose=False),
    few.get_data(),
    few.metadata["condition"].to_numpy(),
    groups=few.metadata["block"].to_numpy(),
    cv=LeaveOneGroupOut(),
    verbose=False,
).mean(axis=0)
print(f"Largest difference: {np.abs(direct.scores - retrained).max():.1e}")

# %%
# The blocks are equally large here, so that the mean over folds is the accuracy over
# all trials.
