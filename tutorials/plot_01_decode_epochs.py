"""
When do classes differ? EEG epochs over time
============================================

Simulated EEG of three classes. About 5 seconds.

:func:`~mvpa_kfda.decode_epochs` with ``n_permutations=1000`` decodes the classes at
each time point and tests every score, corrected for all of them. Here three classes can
be decoded at 24 of 101 time points, the first at 0.15 s, with an accuracy of up to 0.69
at 0.35 s (chance: 0.33), and at none before the stimulus.

The data are simulated, so we know the answer: classes differ from about 100 ms after
the stimulus, most strongly at 170 and 380 ms. This tutorial compares corrections,
windows and metrics, looks at single trials, and checks the result.
"""

# %%
# Simulated epochs
# ----------------
#
# `simulate_epochs` places dipoles in a spherical head model and uses MNE-Python to
# compute the signals of 32 EEG channels. Some dipoles respond to the stimulus, and some
# of these respond differently for each class. The background is ongoing activity with a
# 10 Hz rhythm.

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
# In single trials the classes are hard to distinguish. Here are the class means at one
# channel, with some of the single trials.

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
# in principle, but nothing is refitted: see :doc:`/method/direct`.

result = decode_epochs(epochs, n_permutations=1000, random_state=0)
result

# %%
# This is how a notebook shows a result; ``print(result)`` gives one line. ``plot`` has
# options, such as the metric and the correction.

print(f"Permutation scheme: {result.parameters['permute']!r}")
result.plot(correction="max")

# %%
# The grey band contains the central 95 % of the permuted scores at each time point. The
# bars mark significant time points, corrected for all 101 of them. Both bursts of class
# information are found, and nothing before the stimulus. The result is a
# :class:`~mvpa_kfda.TimeResult`; for trials in an array,
# :func:`~mvpa_kfda.decode_arrays` returns the same.
#
# Corrections
# -----------
#
# Corrections answer different questions (see :doc:`/guide/corrections`). ``"max"``
# allows claims about single time points. ``"cluster"`` and ``"tfce"`` gain power from
# sustained effects, but a cluster is significant only as a whole. ``"fdr"`` allows some
# false positives among the significant time points, and without a correction they are
# to be expected.

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
# With 1000 permutations, the smallest attainable p-value is 1/1001. Multiplied by 101
# time points, this exceeds 0.05, so the Bonferroni correction cannot find anything
# here. The maximum statistic controls the same error without this limit.
#
# Windows
# -------
#
# Single samples are noisy. Averaging over 50 ms makes scores less variable, at the
# price of a blurred onset. The time of a window is its centre. Results drawn into the
# same Axes share a legend, and the bars below have the colours of their curves.

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
# Trials of one recording block resemble each other. With ``groups``, one whole block is
# left out at a time, and labels are permuted within blocks. Several metrics can be
# computed from the same predictions at almost no cost. The first one is in
# `result.scores`.
#
# First, we check the design: the trials of each block, the test set of each fold, and
# problems that would invalidate scores or p-values.

design = check_design((epochs.metadata, "condition"), groups="block")
design

# %%
# A :class:`~mvpa_kfda.Design` lists its problems. There are none, so on to decoding.

by_block = decode_epochs(
    epochs,
    "condition",
    groups="block",
    scoring=["accuracy", "roc_auc"],
    n_permutations=500,
    random_state=0,
)
print(by_block)
by_block.plot(metric="roc_auc", correction="cluster")

# %%
# The confusion matrix at the best time point shows which classes are confused. True
# classes are in rows. ``at=(0.15, 0.2)`` would pool a range of time points.

by_block.plot_confusion()

# %%
# Accuracy may be due to one class alone. The recall of each class over time shows
# whether it is.

by_block.plot_recall()

# %%
# Single trials
# -------------
#
# How clear was each trial? We decode two classes, selected by event name, and obtain a
# decision value for each trial: positive if the model, which was not trained on this
# trial, predicts the second class. These values can be correlated with behaviour.

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
# Which decision threshold should separate two classes? The ROC curve shows all
# thresholds: the proportion of trials of one class that are detected, and of the other
# that are mistaken for it. A map has no ROC curve, so cross-validate again at the time
# point of interest. An :class:`~mvpa_kfda.Roc` has the numbers.

moment = epochs[["class_1", "class_2"]].get_data()[:, :, pair.scores.argmax()]
at_peak = cross_validate(moment, pair.classes[pair.y])
roc = at_peak.roc()
share = roc.tpr[roc.fpr <= 0.1][-1]
print(f"{share:.0%} of {roc.positive} detected, with 10 % false positives")
at_peak.plot_roc()

# %%
# The scores of single folds show whether decoding failed in some of them.

folds = pair.fold_scores[pair.scores.argmax()]
print(f"ROC AUC of the ten folds: {folds.round(2)}")

# %%
# Save the result
# ---------------
#
# Export a table for other programs, or save a file with everything needed to repeat the
# analysis: scores, permuted scores, predictions, folds, parameters and versions.

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
# Anyone with the file and the data can check it: :func:`~mvpa_kfda.verify` refits the
# models of some cells (position, fold, permutation) with scikit-learn, and compares
# their predictions. The :class:`~mvpa_kfda.Verification` says in one line whether
# everything agrees; see :doc:`/checking`.

verify(loaded, epochs, "condition", n_cells=5, random_state=0)

# %%
# Comparison with retraining
# --------------------------
#
# `KernelFDA` is the same classifier, trained in the usual way. In MNE-Python's
# `SlidingEstimator` it is refitted for each fold and time point. With an absolute
# penalty, the accuracies agree exactly.

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
# The blocks are equally large here, so the mean over folds equals the accuracy over all
# trials.
