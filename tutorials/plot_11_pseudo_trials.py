"""
How many regroupings are enough? Pseudo-trials and unequal classes
==================================================================

Simulated EEG of an oddball. About a quarter of a minute.

Averages of a few trials are less noisy than single ones, so many laboratories decode
such pseudo-trials. Which trials are averaged together is drawn by lot, and with one
draw the result hangs on it. Here we see how much, how often trials have to be grouped
anew until it does not matter any more, what p-values then refer to, and what to do
with classes of unequal sizes.
"""

# %%
# One draw, and another one
# -------------------------
#
# An oddball: 90 frequent and 30 rare trials. Three folds leave 30 and 10 of them out.
# Averages are made of five trials of one class within a test set, and ``equalize=True``
# makes as many of each class as there can be of the rare one. With ``n_repeats=20`` all
# of this is done twenty times, and the scores are means over these repeats. The penalty
# is a number here: regroupings with permutations share most of their work then. With
# the default, which every fold of every regrouping chooses for every permutation, they
# take about twenty times as long.

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
# Four averages are tested in every fold, twelve in all, so that a single draw moves in
# steps of 1/12. The gray band is that of means over twenty groupings.
# ``result.repeats`` has the scores of all draws, ``result.scores`` their mean.
#
# Spread of scores and p-values
# -----------------------------
#
# To see how many repeats it takes, we look at one window of time and analyse it again
# and again. Nothing changes from one analysis to the next but ``random_state``.

inside = (epochs.times > 0.13) & (epochs.times < 0.21)
X = 1e6 * epochs.get_data()[:, :, inside].mean(axis=2)
y = epochs.events[:, 2]


def analyse(n_repeats, n_seeds, n_permutations=0):
    """Return the results of so many analyses that differ in their seed only."""
    changed = {"n_repeats": n_repeats, "n_permutations": n_permutations}
    return [
        cross_validate(X, y, **options | changed | {"random_state": seed})
        for seed in range(n_seeds)
    ]


repeats = [1, 2, 5, 10, 20, 50]
scores = np.array([[each.scores for each in analyse(r, 30)] for r in repeats])
tested = [1, 5, 20]
p = np.array([[each.pvalues() for each in analyse(r, 12, 100)] for r in tested])

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
right.set(ylabel="p-value", title="12 seeds each, 100 permutations", ylim=(0, None))

table = {"spread of the score": spread, "least": scores.min(1), "most": scores.max(1)}
index = pd.Index(repeats, name="repeats")
print(pd.DataFrame(table, index=index).round(3).to_string())

# %%
# Groupings are independent draws, so the spread falls with the square root of their
# number (red: two standard deviations). With one grouping the same data can be worse
# than chance or without an error, and whoever may choose the seed may choose the
# p-value. From 20 repeats on, accuracies differ by some hundredths, and with 50 or 100
# seeds hardly matter. What then remains of the spread of p is mostly the lot of the
# permutations: draw more of them, too.
#
# p-values also get smaller on average. The lot is noise, in the score and in the null
# distribution, and repeats take it out of both. They do not make trials, however: the
# noise of the 120 trials stays, and more repeats know nothing more about it.
#
# What is permuted
# ----------------
#
# A permutation moves the labels of *trials*, once, and then everything is done with
# them that was done with the observed labels: twenty groupings, twenty scores, and
# their mean. It is tempting to shuffle the labels of pseudo-trials in every regrouping
# instead, each time anew. We compare the two. Groupings of the observed trials share
# these trials. If they score high by chance they do so together. Labels that are
# shuffled for each grouping by itself have nothing in common, and their mean over
# twenty is never far from chance.

n_permutations = 200
(result,) = analyse(20, 1, n_permutations)
shuffled = [each.null for each in analyse(1, 20, n_permutations)]
n = min(map(len, shuffled))
shortcut = np.mean([np.random.default_rng(0).permutation(s)[:n] for s in shuffled], 0)

fig, ax = plt.subplots(figsize=(6.5, 3.2), layout="constrained")
bins = np.arange(0.1 + 1 / 480, 0.9, 6 / 240)  # scores are multiples of 1/240
both = {"labels of trials, all groupings": result.null}
both["labels of averages, anew in each grouping (wrong)"] = shortcut
for (name, null), color in zip(both.items(), ("C0", "C3"), strict=True):
    ax.hist(null, bins, density=True, color=color, alpha=0.5, label=name)
    print(f"{name}: standard deviation {null.std():.3f}")
ax.axvline(result.scores, 0, 0.7, color="black", lw=1.5, label="observed")
ax.set(xlabel="Mean accuracy over 20 groupings", ylabel="Density", ylim=(0, 18))
ax.legend(frameon=False, fontsize="small", loc="upper right")

# %%
# The second null is much too narrow, and its p-values are too small. How often it finds
# something in noise is in the table of :doc:`/benchmarks`.
#
# How many trials to average
# --------------------------
#
# The more trials an average has, the less noise it has, and the fewer averages there
# are. So accuracy rises with ``average``, whether there is more to be found or not:
# look at the p-values. Accuracies of other ``average`` cannot be compared, not between
# studies either. With ``average_test=False`` models of averages are tested on single
# trials, and accuracies can be compared with those without averages.

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
# Without averages, ``average=1`` and ``equalize=True`` leave out trials of the larger
# class at random: undersampling, which is honest about chance but wasteful with trials,
# less so if it is repeated. Balanced accuracy keeps all trials, and chance at its
# place. Here is what they make of 60 data sets of noise with 90 and 30 trials.

ways = {
    "accuracy": {},
    "balanced accuracy": {"scoring": "balanced_accuracy"},
    "undersampled once": {"average": 1, "equalize": True},
    "undersampled 10 times": {"average": 1, "equalize": True, "n_repeats": 10},
}
found = {name: [] for name in ways}
for seed in range(60):
    noise = np.random.default_rng(seed).normal(size=X.shape)
    for name, way in ways.items():
        drawn = {"cv": 3, "random_state": seed} | way
        found[name].append(cross_validate(noise, y, **drawn).scores)

fig, ax = plt.subplots(figsize=(6.5, 3), layout="constrained")
jitter = np.random.default_rng(0).uniform(-0.15, 0.15, 60)
for i, values in enumerate(found.values()):
    color = "C3" if i == 0 else "C0"
    ax.plot(i + jitter, values, "o", ms=4, alpha=0.5, mew=0, color=color)
    ax.plot([i - 0.3, i + 0.3], 2 * [np.mean(values)], color=color, lw=2.5)
ax.axhline(0.5, color="0.6", lw=0.8, ls="--")
ax.set_xticks(range(4), found, fontsize="small")
ax.set(ylabel="Score (noise)")
for name, values in found.items():
    print(f"{name}: {np.mean(values):.3f}, spread {np.std(values, ddof=1):.3f}")

# %%
# The accuracy of unequal classes is above 0.5 without any information. p-values know,
# as permuted labels are as unequal, but readers do not. Undersampling once costs the
# trials that are left out, which shows in the spread; ten times brings most of them
# back.
#
# What to report
# --------------
#
# How many trials an average has, how many averages of each class there are in a test
# set, how often trials were grouped, the spread over repeats, and that permutations
# moved the labels of trials with the whole procedure run on each.
