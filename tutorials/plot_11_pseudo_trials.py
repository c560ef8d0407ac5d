"""
Pseudo-trials and unequal classes: how many repeats are enough?
===============================================================

Simulated EEG of an oddball task. About 15 seconds.

``decode_epochs(epochs, average=5, equalize=True, n_repeats=20)`` averages five trials
at a time, with equal numbers of averages in both classes, and repeats the random
grouping twenty times. Repeats matter: the same data have an accuracy between 0.417 and
1.000 with a single grouping, and between 0.650 and 0.742 with twenty. Permuted labels
go through the same groupings, so p-values account for them.

Averages of a few trials are less noisy than single trials, so many laboratories decode
such pseudo-trials. This tutorial shows how much depends on the random grouping, how
many repeats are needed until it no longer matters, how p-values are obtained, and how
to deal with classes of unequal size.
"""

# %%
# Random groupings
# ----------------
#
# The oddball task has 90 frequent and 30 rare trials. Each of three folds leaves out 30
# and 10 of them. Five trials of one class are averaged within a test set, and
# ``equalize=True`` makes equal numbers of averages of both classes, as many as the rare
# class allows. With ``n_repeats=20`` all of this is repeated twenty times, and scores
# are averaged over repeats. The penalty is fixed here, which takes a third of the time
# of the default: each regrouping of each permutation has features of its own, from
# which the default is estimated.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from mvpa_kfda import cross_validate, decode_epochs, simulate_epochs

epochs = simulate_epochs(
    180, 2, snr=0.2, n_channels=16, sfreq=25, tmax=0.6, random_state=5
)
rare = np.flatnonzero(epochs.events[:, 2] == 2)
epochs = epochs.drop(np.setdiff1d(rare, rare[::3]), verbose=False)
options = {"cv": 3, "average": 5, "equalize": True, "random_state": 0, "reg": 0.3}
result = decode_epochs(epochs, n_repeats=20, n_permutations=100, **options)
print(result)
result.plot(repeats=True)

# %%
# Each thin line is one grouping of the same trials, and could have been the result.
# Four averages are tested in each fold, twelve in total, so the scores of a single
# grouping are multiples of 1/12. The grey band refers to means over twenty groupings.
# ``result.repeats`` has the scores of all groupings, ``result.scores`` their mean.
#
# Variability of scores and p-values
# ----------------------------------
#
# To see how many repeats are needed, we analyse one time window many times. Only
# ``random_state`` changes from one analysis to the next.

inside = (epochs.times > 0.13) & (epochs.times < 0.21)
X = 1e6 * epochs.get_data()[:, :, inside].mean(axis=2)
y = epochs.events[:, 2]


def analyse(n_repeats, n_seeds, n_permutations=0):
    """Return the results of analyses that differ in their seed only."""
    changed = {"n_repeats": n_repeats, "n_permutations": n_permutations}
    return [
        cross_validate(X, y, **options | changed | {"random_state": seed})
        for seed in range(n_seeds)
    ]


repeats = [1, 2, 5, 10, 20, 50]
scores = np.array([[each.scores for each in analyse(r, 30)] for r in repeats])
tested = [1, 5, 20]
p = np.array([[each.pvalues() for each in analyse(r, 8, 100)] for r in tested])

# sphinx_gallery_thumbnail_number = 2
fig, (left, right) = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
rng = np.random.default_rng(0)
for ax, rows, counts in ((left, scores, repeats), (right, p, tested)):
    for r, row in zip(counts, rows, strict=True):
        jitter = np.exp(rng.uniform(-0.13, 0.13, len(row)))
        ax.plot(r * jitter, row, "o", color="C0", ms=5, mew=0, alpha=0.5)
    ax.set_xscale("log")
    ax.set_xticks(counts, counts)
    ax.minorticks_off()
    ax.set_xlabel("Repeats (n_repeats)")
    ax.spines[["top", "right"]].set_visible(False)
spread = scores.std(axis=1, ddof=1)
middle = scores[-1].mean()
for sign in (-2, 2):
    curve = middle + sign * spread[0] / np.sqrt(repeats)
    left.plot(repeats, curve, color="C3", lw=1)
left.set(ylabel="Accuracy", title="The same data, 30 seeds each")
right.axhline(0.05, color="0.5", lw=0.8, ls="--")
right.set(ylabel="p-value", title="8 seeds each, 100 permutations", ylim=(0, None))

table = {"sd of the score": spread, "minimum": scores.min(1), "maximum": scores.max(1)}
index = pd.Index(repeats, name="repeats")
print(pd.DataFrame(table, index=index).round(3).to_string())

# %%
# Groupings are independent draws, so the standard deviation falls with the square root
# of their number (red: two standard deviations). With one grouping, the same data can
# give anything from below chance to perfect accuracy, and by choosing the seed one
# could choose the p-value. From 20 repeats on, accuracies differ by a few hundredths,
# and with 50 or 100 the seed hardly matters. The remaining variability of p is mostly
# that of the permutations: draw more of them, too.
#
# P-values also become smaller on average. Random grouping adds noise to the score and
# to the null distribution, and repeats reduce it in both. However, they do not add
# trials: the noise of the 120 trials remains.
#
# Permuting labels of trials
# --------------------------
#
# In each permutation, the labels of *trials* are permuted once, and the whole procedure
# is run as with the observed labels: twenty groupings, twenty scores, and their mean.
# It is tempting to shuffle the labels of pseudo-trials separately in each regrouping
# instead. We compare the two. All groupings of the observed trials share the same
# trials. If their scores are high by chance, they are so together. Labels shuffled
# separately for each grouping have nothing in common, and the mean of twenty scores is
# never far from chance.

n_permutations = 200
(result,) = analyse(20, 1, n_permutations)
shuffled = [each.null for each in analyse(1, 20, n_permutations)]
n = min(map(len, shuffled))
shortcut = np.mean([np.random.default_rng(0).permutation(s)[:n] for s in shuffled], 0)

fig, ax = plt.subplots(figsize=(6.5, 3.2), layout="constrained")
bins = np.arange(0.1 + 1 / 480, 0.9, 6 / 240)  # scores are multiples of 1/240
both = {"labels of trials, all groupings": result.null}
both["labels of averages, shuffled in each grouping (wrong)"] = shortcut
for (name, null), color in zip(both.items(), ("C0", "C3"), strict=True):
    ax.hist(null, bins, density=True, color=color, alpha=0.5, label=name)
    print(f"{name}: standard deviation {null.std():.3f}")
ax.axvline(result.scores, 0, 0.7, color="black", lw=1.5, label="observed")
ax.set(xlabel="Mean accuracy over 20 groupings", ylabel="Density", ylim=(0, 18))
ax.legend(frameon=False, fontsize="small", loc="upper right")

# %%
# The second null distribution is much too narrow, and its p-values are too small.
# :doc:`/benchmarks` reports its false-positive rate.
#
# How many trials to average
# --------------------------
#
# The more trials are averaged, the less noise averages have, and the fewer averages
# there are. So accuracy rises with ``average`` even without additional information:
# look at the p-values. Accuracies with different values of ``average`` cannot be
# compared, not even between studies. With ``average_test=False``, models trained on
# averages are tested on single trials, and accuracies can be compared with those
# without averaging.

rows = {}
for k in (1, 2, 5, "max"):
    for average_test in (True, False):
        drawn = options | {"average": k, "average_test": average_test}
        found = cross_validate(X, y, n_repeats=10, n_permutations=100, **drawn)
        column = "averages" if average_test else "single trials"
        rows.setdefault(k, {})[f"accuracy, tested on {column}"] = found.scores
        rows[k][f"p, {column}"] = found.pvalues()
print(pd.DataFrame(rows).T.round(3).to_string())

# %%
# Unequal classes
# ---------------
#
# Without averaging, ``average=1`` and ``equalize=True`` leave out trials of the larger
# class at random. Such undersampling restores the chance level but wastes trials, less
# so if it is repeated. Balanced accuracy uses all trials and has the same chance level.
# We compare them on 40 data sets of noise with 90 and 30 trials.

ways = {
    "accuracy": {},
    "balanced accuracy": {"scoring": "balanced_accuracy"},
    "undersampled once": {"average": 1, "equalize": True},
    "undersampled 10 times": {"average": 1, "equalize": True, "n_repeats": 10},
}
found = {name: [] for name in ways}
for seed in range(40):
    noise = np.random.default_rng(seed).normal(size=X.shape)
    for name, way in ways.items():
        drawn = {"cv": 3, "random_state": seed} | way
        found[name].append(cross_validate(noise, y, **drawn).scores)

fig, ax = plt.subplots(figsize=(6.5, 3), layout="constrained")
jitter = np.random.default_rng(0).uniform(-0.15, 0.15, 40)
for i, values in enumerate(found.values()):
    color = "C3" if i == 0 else "C0"
    ax.plot(i + jitter, values, "o", ms=4, alpha=0.5, mew=0, color=color)
    ax.plot([i - 0.3, i + 0.3], 2 * [np.mean(values)], color=color, lw=2.5)
ax.axhline(0.5, color="0.6", lw=0.8, ls="--")
ax.set_xticks(range(4), found, fontsize="small")
ax.set(ylabel="Score (noise)")
for name, values in found.items():
    print(f"{name}: {np.mean(values):.3f}, sd {np.std(values, ddof=1):.3f}")

# %%
# With unequal classes, accuracy is above 0.5 without any information, and a warning
# says so. P-values account for this, as permuted labels are equally unbalanced, but
# readers may not: with permutations, their mean is given beside chance. A single
# undersampling wastes trials, which increases the standard deviation; ten repeats
# recover most of them.
#
# What to report
# --------------
#
# Report the number of trials per average, the number of averages per class and test
# set, the number of repeats, the standard deviation across repeats, and that the labels
# of trials were permuted and the whole procedure was run on each permutation.
