"""
Does the code persist? Generalization over time and conditions
==============================================================

Simulated EEG and small arrays. About 10 seconds.

:func:`~mvpa_kfda.generalize_epochs` trains at each time point, tests at all others, and
tests the whole map with label permutations. Here the map has two squares, around 170
and 380 ms: each of two codes persists for a while, and neither generalizes to the
other's time. Trained on words and tested on pictures (``test_epochs=``), the same
squares appear 100 ms later.

The map shows whether the code that distinguishes the classes persists, changes or
reappears [1]_. Training on one kind of trials and testing on another shows whether both
share a code. All data are simulated, so we know the answers.
"""

# %%
# Typical maps
# ------------
#
# We start with three small data sets of 20 features, as plain arrays. In all of them,
# two classes differ from 0 to 0.5 s. In the first, the same feature distinguishes them
# throughout. In the second, a sequence of features does, each for a moment. In the
# third, it is a single feature again, but its sign reverses halfway.

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
titles = ["The code persists", "The code changes", "The code reverses"]
for ax, answer, title in zip(axes, answers, titles, strict=True):
    X = rng.normal(size=(120, 20, 40)) + 1.5 * y[:, np.newaxis, np.newaxis] * answer
    toy = generalize_arrays(
        X, y, cv=5, sfreq=40, tmin=-0.25, n_permutations=100, random_state=0
    )
    toy.plot(ax=ax, vlim=(0, 1), correction="cluster")
    ax.set_title(title, loc="left", fontsize="medium")
    ax.get_legend().remove()

# %%
# A *square* means that a classifier trained at one time works at the others: the code
# persists. A *diagonal* means that each time point has its own code, although classes
# can be decoded throughout. Scores *below* chance (blue) mean that the classifier is
# systematically wrong: the same pattern is present, but sign-reversed. The outlines
# mark clusters significantly above chance.
#
# Generalization over time in EEG
# -------------------------------
#
# In the simulated EEG some dipoles distinguish the classes around 170 ms, and others
# around 380 ms. Averages over 20 ms give 35 x 35 cells. Each has the scores of the
# observed labels and of 200 permutations, in 10 folds: in principle, 70,000 models
# would have to be trained, and each tested at 35 times.

epochs = simulate_epochs(n_trials=180, n_classes=3, random_state=0).crop(-0.1, 0.6)
result = generalize_epochs(
    epochs, window=0.02, step=0.02, n_permutations=200, random_state=0
)
print(result)
result.plot(correction="cluster")

# %%
# There are two squares. They are due to different dipoles, so each has its own code.
# ``"cluster"`` outlines areas in which both of two tests, see below, exceed the
# threshold, and which are significant as a whole in both tests. ``"max"`` allows claims
# about single cells, but finds fewer of them. The map is a
# :class:`~mvpa_kfda.GeneralizationResult`.

result.plot(correction="max")
for correction in ("none", "cluster", "tfce", "max"):
    share = np.mean(result.pvalues(correction) <= 0.05)
    print(f"{correction:>8}: {share:5.1%} of the cells have p <= 0.05")

# %%
# Some other cells are above chance, but not significant. There, the test time has
# information about the classes, but the model was trained at a time with no or
# different information. As trials of a class resemble each other at the test time, even
# such a model may classify a whole class correctly, by chance and in all folds alike.
# Cells off the diagonal therefore have to pass two tests, described in
# :doc:`/guide/generalization`.
#
# The same permutations are used in all cells, so the correction takes the dependence
# between cells into account. The diagonal equals the result of `decode_epochs`,
# including its permutations.

diagonal = result.diagonal()
decoded = decode_epochs(
    epochs, window=0.02, step=0.02, n_permutations=200, random_state=0
)
print(np.array_equal(diagonal.scores, decoded.scores))
difference = np.abs(diagonal.null - decoded.null).max()
print(f"Largest difference of permuted scores: {difference:.1e}")

# %%
# The numbers agree up to rounding: a map keeps permuted scores in single precision.
# `to_dataframe` gives one row per cell.

print(result.to_dataframe("max").sort_values("accuracy").tail(3))

# %%
# Separate test trials
# --------------------
#
# Do words and pictures of the same things share a code? In this simulation, the
# responses to both are the same, but 100 ms later for pictures. A classifier trained on
# words at one time should then work 100 ms later on pictures.

both = simulate_epochs(n_trials=240, tmin=-0.4, random_state=0)
words = both[:120].crop(-0.1, 0.6)
pictures = both[120:].shift_time(0.1).crop(-0.1, 0.6)

crossed = generalize_epochs(
    words,
    test_epochs=pictures,
    window=0.02,
    step=0.02,
    n_permutations=200,
    random_state=0,
)
print(crossed)
ax = crossed.plot(correction="cluster")
ax.plot([0.0, 0.6], [-0.1, 0.5], color="#D55E00", lw=1.5, ls="--")
ax.set_title(
    "Trained on words, tested on pictures (dashed: 100 ms later)",
    loc="left",
    fontsize="medium",
)

# %%
# Both squares lie on the line for 100 ms. There are no folds: each model is trained on
# all words, and tested on all pictures. Only the labels of the words are permuted. The
# question is whether a model trained *on words* generalizes to pictures. Whether
# pictures can be decoded is not the question, so their labels are not permuted.
#
# This makes a difference. When pictures differ by class, their trials form clusters. A
# model without any information may still classify a whole cluster correctly or
# incorrectly, so its score varies far more than that of coin tosses. The permutations
# reflect this, a binomial test does not.

spread = crossed.null.std(axis=0)
fig, ax = plt.subplots(figsize=(7, 3), layout="constrained")
ax.plot(crossed.test_times, spread.mean(axis=0), lw=2, label="permutations")
coins = np.sqrt(1 / 3 * 2 / 3 / len(pictures))
ax.axhline(coins, color="black", ls="--", lw=1, label="binomial distribution")
ax.set(xlabel="Test time (s)", ylabel="Standard deviation", ylim=(0, None))
ax.set_title("Variability of scores without information", fontsize="medium")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)

# %%
# The same analysis with all trials in one object: a query on the metadata selects the
# training trials, and the rest are test trials.

words.metadata["kind"], pictures.metadata["kind"] = "word", "picture"
mixed = mne.concatenate_epochs([words, pictures], verbose=False)
queried = generalize_epochs(mixed, train_on="kind == 'word'", window=0.02, step=0.02)
print(np.array_equal(queried.scores, crossed.scores))

# %%
# Other labels for the same trials
# --------------------------------
#
# Suppose that participants report in each trial what they saw, incorrectly in 30 % of
# the trials. The EEG depends on the stimulus. What does a classifier trained on the
# stimuli reveal about the reports? The trials are the same, so it has to be
# cross-validated: trained on `y`, and tested against `y_test` in the left-out trials.

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
    n_permutations=100,
    random_state=0,
)
best = np.unravel_index(result.scores.argmax(), result.shape)
known = result.scores[best]
print(f"Stimuli are predicted with accuracy {known:.2f}. From their agreement alone,")
print(f"the accuracy for reports would be {0.7 * known + 0.3 * (1 - known) / 2:.2f}.")
p = reported.pvalues("max")[best]
print(f"The accuracy for reports is {reported.scores[best]:.2f}, p = {p:.3f}.")

# %%
# The p-value is small, although the EEG has no information about the reports beyond the
# stimulus. It means that a model trained on the stimuli predicts the reports, which it
# must, as the two agree in most trials. If labels are correlated, a significant score
# is no evidence that the tested label itself is encoded in the signal.
#
# Memory
# ------
#
# The permuted maps have P x n_train_times x n_test_times numbers, and the same again
# for the second test. By default everything is kept up to 1 GiB; larger maps are
# written to a temporary file, and a summary is kept that also supports clusters and
# TFCE. ``null="max"`` needs no file and keeps enough for all other p-values. Once more
# for the pictures:

lean = generalize_epochs(
    words,
    test_epochs=pictures,
    window=0.02,
    step=0.02,
    n_permutations=200,
    null="max",
    random_state=0,
)
kept = sum(np.asarray(part).nbytes for part in lean.null_summaries["accuracy"].values())
print(f"All maps of a test: {crossed.null.nbytes / 1e6:.0f} MB")
print(f"Maxima and counts: {kept / 1e6:.2f} MB")
print(np.array_equal(lean.pvalues("max"), crossed.pvalues("max")))

# %%
# Comparison with retraining
# --------------------------
#
# MNE-Python's `GeneralizingEstimator` refits `KernelFDA` for each fold and time. With
# an absolute penalty, the accuracies agree exactly. The folds are equally large, so the
# mean over folds equals the accuracy over all trials.

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
