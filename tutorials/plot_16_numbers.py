"""
How fast will they answer? Predicting numbers
=============================================

Simulated EEG and reaction times. About 10 seconds.

Not everything comes in classes. Reaction times, ratings and contrasts are numbers, and
whoever sorts their trials into "fast" and "slow" throws a part of them away. Ridge
regression predicts the numbers themselves, with the same folds, permutations and
corrections. What it needs besides is some care with what drifts.
"""

# %%
# Reaction times
# --------------
#
# A participant answers 200 times in eight blocks. A response around 300 ms after the
# stimulus is larger when the answer will come late. And two things change from the
# first trial to the last: answers become slower, as people tire, and electrodes drift.

# sphinx_gallery_thumbnail_number = 1
import matplotlib.pyplot as plt
import mne
import numpy as np
from scipy.stats import norm

from mvpa_kfda import cross_validate, decode_epochs, regress, simulate_epochs

mne.set_log_level("warning")
rng = np.random.default_rng(0)
noise = simulate_epochs(200, 2, snr=0, sfreq=50.0, tmax=0.6, n_blocks=8, random_state=1)
trial = np.arange(len(noise))
late = rng.normal(size=len(noise))
seconds = 0.5 + 0.06 * late + 0.12 * trial / len(noise)

data = noise.get_data()
size = data.std()
course = norm.pdf(noise.times, 0.3, 0.05) / norm.pdf(0, 0, 0.05)
for amount, values, over_time in (
    (0.12, late, course),
    (0.35, trial / len(noise), np.ones_like(course)),
):
    pattern = amount * size * rng.normal(size=32)
    data += values[:, None, None] * pattern[:, None] * over_time
epochs = mne.EpochsArray(
    data,
    noise.info,
    noise.events,
    noise.tmin,
    metadata=noise.metadata.assign(trial=trial, seconds=seconds),
)
print(epochs.metadata[["block", "trial", "seconds"]].describe().round(2).to_string())

# %%
# At every time
# -------------
#
# ``task="regression"`` is all that changes. Blocks are left out one at a time. The
# score is R²: 1 is perfect, and 0 as good as to predict the mean. In the place of
# labels, reaction times are permuted, within blocks.

options = {"groups": "block", "n_permutations": 500, "random_state": 0}
options |= {"task": "regression", "scoring": ["r2", "pearsonr"]}
raw = decode_epochs(epochs, "seconds", **options)
freed = decode_epochs(epochs, "seconds", confounds="trial", **options)

fig, axes = plt.subplots(2, 1, figsize=(7, 7.5), layout="constrained", sharey=True)
for ax, result, title in zip(
    axes, (raw, freed), ("As they are", "Freed of the number of the trial"), strict=True
):
    result.plot(ax=ax)
    ax.set_title(title, loc="left")
    ax.get_legend().set_visible(result is freed)
    before = result.times < 0
    print(title)
    print(f"  R² before the stimulus: {result.scores[before].mean():.2f}")
    print(f"  of permuted times: {result.null[:, before].mean():.2f}")

# %%
# In the upper figure reaction times can be predicted *before the stimulus*. That is the
# drift: electrodes tell how late in the session it is, and late in the session answers
# are slow. The permutations know, for they exchange reaction times within blocks, and
# those of late blocks stay slow. So the gray band has moved up with the score. But it
# does not follow all the way, since there is drift within blocks, too, and the score is
# not what it seems.
#
# Below, the number of the trial is taken out of the signals in every fold, by
# ``confounds=``. What is left is the response at 300 ms. This is not a matter of looks:
# with drifts two to three times as large and nothing else to be found, p ≤ 0.05 came
# out in 21 of 200 simulated data sets as they were, and in 9 of 200 when freed of it.
#
# Where nothing can be predicted, R² is *below* zero. A model that has learned from
# noise is worse than the mean. The permutations show the same, so judge by the band,
# not by the zero line. Both results are of the kind
# :class:`~mvpa_kfda.TimeRegressionResult`.
#
# Trial by trial
# --------------
#
# :func:`~mvpa_kfda.regress` does the same for one set of features, here the signals at
# the best time. It makes a :class:`~mvpa_kfda.RegressionResult`, and that draws what
# was predicted of every trial by a model that had not seen it.

at_peak = epochs.get_data()[:, :, freed.scores.argmax()]
result = regress(
    at_peak,
    seconds,
    groups=epochs.metadata["block"],
    confounds=trial,
    scoring=["r2", "pearsonr"],
    n_permutations=999,
    random_state=0,
)
print(result)
for name in result.metrics:
    p = result.pvalues(metric=name)
    print(f"{name}: {result.metrics[name]:.2f}, p = {p:.3f}")
result.plot_predictions()

# %%
# The time was chosen because its score is the highest, so this p-value is too small.
# The one to report is corrected for all times: ``freed.pvalues("max")``.
#
# Predictions are drawn towards the mean, as those of a penalised model are. R² counts
# that as error, the correlation does not.
#
# Fast and slow
# -------------
#
# What does it cost to make two classes of the numbers, cut at the median? Here are 100
# small data sets in which ten features follow a number weakly. How often is that found?

found = {"numbers": 0, "two classes": 0}
for seed in range(100):
    rng = np.random.default_rng(seed)
    number = rng.normal(size=80)
    X = rng.normal(size=(80, 10)) + 0.14 * number[:, None]
    classes = number > np.median(number)
    drawn = {"n_permutations": 199, "random_state": 0}
    p = regress(X, number, scoring="pearsonr", **drawn).pvalues()
    found["numbers"] += p <= 0.05
    found["two classes"] += cross_validate(X, classes, **drawn).pvalues() <= 0.05
for name, count in found.items():
    print(f"{name}: p <= 0.05 in {count} of 100 data sets")

# %%
# All trials near the median are as good as unlabelled, and how slow the slowest are is
# forgotten. Classes are right where the question is about classes.
