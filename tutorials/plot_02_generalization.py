"""
Does a code last? Generalization over times and conditions
==========================================================

Simulated EEG and small arrays. About a quarter of a minute.

A classifier that was trained at one time can be tested at every other one. The map of
all pairs of times tells whether the code that distinguishes the classes stays, changes
or comes back [1]_. Trained on one kind of trials and tested on another, it tells
whether both share the code. This tutorial does both, with label permutations for whole
maps. All data are simulated, so we know the answers.
"""

# %%
# What a map can look like
# ------------------------
#
# Three small data sets with 20 features, given as plain arrays. In all of them two
# classes differ from 0 to 0.5 s. In the first one, the same feature tells them apart
# all the time. In the second one, one feature after the other does for a moment. In
# the third one, it is one feature again, but its sign turns around in the middle.

# sphinx_gallery_thumbnail_number = 2
import matplotlib.pyplot as plt
import mne
import numpy as np

from mvpa_kfda import (
    KernelFDA,
    Ridge,
    decode_epochs,
    generalize_arrays,
    generalize_epochs,
    simulate_epochs,
)

rng = np.random.default_rng(0)
y = np.random.default_rng(1).permutation(np.tile([0, 1], 60))
answers = np.zeros((3, 20, 40))  # data sets, features, times
answers[0, 0, 10:30] = 1
late = np.arange(40) - np.arange(10, 30)[:, np.newaxis]
answers[1] = np.exp(-0.5 * (late / 1.5) ** 2)
answers[2, 0, 10:20], answers[2, 0, 20:30] = 1, -1

fig, axes = plt.subplots(1, 3, figsize=(10, 3.2), layout="constrained")
titles = ["The code stays", "The code changes", "The code turns around"]
for ax, answer, title in zip(axes, answers, titles, strict=True):
    X = rng.normal(size=(120, 20, 40)) + 1.5 * y[:, np.newaxis, np.newaxis] * answer
    toy = generalize_arrays(
        X, y, sfreq=40, tmin=-0.25, n_permutations=100, random_state=0
    )
    toy.plot(ax=ax, vlim=(0, 1), correction="cluster")
    ax.set_title(title, loc="left", fontsize="medium")
    ax.get_legend().remove()

# %%
# A *square* means that the classifier of one time works at the others: the code stays.
# A *diagonal* means that every time has a code of its own, although classes can be told
# apart all the time. Scores *below* chance (blue) mean that the classifier is
# systematically wrong: the same pattern is there, with its sign turned around. The
# outlines hold what is significantly above chance.
#
# Generalization over time in EEG
# -------------------------------
#
# In the simulated EEG some dipoles distinguish the classes around 170 ms, and others
# around 380 ms. Averages over 20 ms make 50 x 50 cells. Each has the scores of the
# observed labels and of 500 permutations, in 10 folds: 250 000 models are trained
# in principle, and each is tested at 50 times.

epochs = simulate_epochs(n_trials=180, n_classes=3, random_state=0)
result = generalize_epochs(
    epochs, window=0.02, step=0.02, n_permutations=500, random_state=0
)
print(result)
result.plot(correction="cluster")

# %%
# There are two squares. Different dipoles make them, so each has a code of its own.
# ``"cluster"`` outlines areas in which both of two tests, see below, exceed the
# threshold, and which both of them find significant as a whole. With ``"max"`` one
# may point at single cells. It finds fewer of them. The map is a
# :class:`~mvpa_kfda.GeneralizationResult`.

result.plot(correction="max")
for correction in ("none", "cluster", "tfce", "max"):
    share = np.mean(result.pvalues(correction) <= 0.05)
    print(f"{correction:>8}: {share:5.1%} of the cells have p <= 0.05")

# %%
# Other cells are above chance too, and not significant. There the tested time has
# information on the classes, but the model was trained when there was none, or another
# one. As trials of a class resemble each other at the tested time, even such a model
# may name a whole class rightly, by chance and in all folds alike. So a cell beside
# the diagonal has to pass two tests, which :doc:`/guide` describes.
#
# Permutations are the same in all cells, so that the correction takes into account how
# cells hang together. The diagonal is what `decode_epochs` gives, with its
# permutations.

diagonal = result.diagonal()
decoded = decode_epochs(
    epochs, window=0.02, step=0.02, n_permutations=500, random_state=0
)
print(np.array_equal(diagonal.scores, decoded.scores))
difference = np.abs(diagonal.null - decoded.null).max()
print(f"Largest difference of permuted scores: {difference:.1e}")

# %%
# The numbers agree but for rounding: a map keeps its permutations' scores in single
# precision. `to_dataframe` gives one row per cell.

print(result.to_dataframe("max").sort_values("accuracy").tail(3))

# %%
# Other trials
# ------------
#
# Do words and pictures of the same things share a code? Let the answers to both be the
# same, but 100 ms later for pictures. What the classifier learns at one time with
# words, it should then find 100 ms later with pictures.

both = simulate_epochs(n_trials=240, tmin=-0.4, random_state=0)
words = both[:120].crop(-0.2, 0.7)
pictures = both[120:].shift_time(0.1).crop(-0.2, 0.7)

crossed = generalize_epochs(
    words,
    test_epochs=pictures,
    window=0.02,
    step=0.02,
    n_permutations=500,
    random_state=0,
)
print(crossed)
ax = crossed.plot(correction="cluster")
ax.plot([-0.1, 0.7], [-0.2, 0.6], color="#D55E00", lw=1.5, ls="--")
ax.set_title(
    "Trained with words, tested on pictures (dashed: 100 ms later)",
    loc="left",
    fontsize="medium",
)

# %%
# Both squares lie on the line of 100 ms. There are no folds: each model is trained with
# all words, and tested on all pictures. Only the labels of the words are permuted. The
# question is whether what was learned *from words* holds for pictures. That pictures
# can be told apart is not in question, so their labels stay.
#
# This makes a difference. Where pictures differ by class, their trials fall into
# bunches. A model without any information may still name one whole bunch rightly or
# wrongly, so its score strays far more than that of coin tosses. The permutations know
# about it, a binomial test does not.

spread = crossed.null.std(axis=0)
fig, ax = plt.subplots(figsize=(7, 3), layout="constrained")
ax.plot(crossed.test_times, spread.mean(axis=0), lw=2, label="permutations")
coins = np.sqrt(1 / 3 * 2 / 3 / len(pictures))
ax.axhline(coins, color="black", ls="--", lw=1, label="binomial distribution")
ax.set(xlabel="Testing time (s)", ylabel="Standard deviation", ylim=(0, None))
ax.set_title("How far scores stray without information", fontsize="medium")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)

# %%
# The same with all trials in one object: a query on the metadata says which of them are
# trained with, and the rest is tested.

words.metadata["kind"], pictures.metadata["kind"] = "word", "picture"
mixed = mne.concatenate_epochs([words, pictures], verbose=False)
queried = generalize_epochs(mixed, train_on="kind == 'word'", window=0.02, step=0.02)
print(np.array_equal(queried.scores, crossed.scores))

# %%
# Other labels of the same trials
# -------------------------------
#
# Let participants report in each trial what they saw, wrongly in 30 % of the trials.
# The EEG follows the stimulus. What does a classifier that was trained with the stimuli
# know about the reports? The trials are the same, so that it has to be
# cross-validated: trained with `y`, and tested against `y_test` in the left-out trials.

stimulus = epochs.metadata["condition"].to_numpy()
report = stimulus.copy()
wrong = rng.permutation(len(report))[: round(0.3 * len(report))]
classes = np.unique(stimulus)
number = np.searchsorted(classes, stimulus[wrong]) + rng.integers(1, 3, len(wrong))
report[wrong] = classes[number % 3]

reported = generalize_epochs(
    epochs,
    stimulus,
    y_test=report,
    window=0.02,
    step=0.02,
    n_permutations=200,
    random_state=0,
)
best = np.unravel_index(result.scores.argmax(), result.shape)
known = result.scores[best]
print(f"Stimuli are predicted with accuracy {known:.2f}, so that by their agreement")
print(f"alone reports would be with {0.7 * known + 0.3 * (1 - known) / 2:.2f}.")
p = reported.pvalues("max")[best]
print(f"They are with {reported.scores[best]:.2f}, p = {p:.3f}.")

# %%
# The p-value is small, although the EEG knows nothing about the reports beyond the
# stimulus. It says that training with the stimuli informs about the reports, and as
# the two agree in most trials, it must. Where labels are correlated, a significant
# score is no evidence that the tested label is itself in the signal.
#
# Memory
# ------
#
# The permutations' maps are P x n_train_times x n_test_times numbers, and as many again
# for the second test. ``null="max"`` keeps what all p-values but those of clusters and
# TFCE need. ``null="stream"`` also serves these two and puts the maps into a temporary
# file. By default everything is kept up to 1 GiB. Once more for the pictures:

lean = generalize_epochs(
    words,
    test_epochs=pictures,
    window=0.02,
    step=0.02,
    n_permutations=500,
    null="max",
    random_state=0,
)
kept = sum(np.asarray(part).nbytes for part in lean.null_summaries["accuracy"].values())
print(f"All maps of a test: {crossed.null.nbytes / 1e6:.0f} MB")
print(f"Maxima and counts: {kept / 1e6:.2f} MB")
print(np.array_equal(lean.pvalues("max"), crossed.pvalues("max")))

# %%
# The same numbers by retraining
# ------------------------------
#
# MNE-Python's `GeneralizingEstimator` refits `KernelFDA` for each fold and time. With
# an absolute penalty the accuracies agree exactly. The folds are equally large, so that
# the mean over folds is the accuracy over all trials.

from mne.decoding import GeneralizingEstimator, cross_val_multiscore
from sklearn.model_selection import StratifiedKFold

few = epochs.copy().crop(0.1, 0.4).decimate(3, verbose="error")
cv = StratifiedKFold(5)
direct = generalize_epochs(few, stimulus, cv=cv, reg=Ridge(1e-9))
model = KernelFDA(reg=Ridge(1e-9))
retrained = cross_val_multiscore(
    GeneralizingEstimator(model, scoring="accuracy", verbose=False),
    few.get_data(),
    stimulus,
    cv=cv,
    verbose=False,
).mean(axis=0)
difference = np.abs(direct.scores - retrained).max()
print(f"{direct.shape} cells, largest difference {difference:.1e}")

# %%
# References
# ----------
#
# .. [1] King, J.-R., & Dehaene, S. (2014). Characterizing the dynamics of mental
#    representations: the temporal generalization method. Trends in Cognitive
#    Sciences, 18(4), 203-210.
