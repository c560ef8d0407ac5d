"""
Regression: predicting reaction times
=====================================

Simulated EEG and reaction times. About 10 seconds.

``decode_epochs(epochs, "seconds", task="regression")`` predicts reaction times at each
time point, with the same folds, permutations and corrections as for classes. Here they
can be predicted around 300 ms; with a drift in the signals also before the stimulus (R²
= 0.11), unless the trial number is removed with ``confounds="trial"``. Sorting trials
into "fast" and "slow" instead finds a weak effect in 39 of 100 data sets rather than in
70.

Not all variables are categorical. Reaction times, ratings and contrasts are continuous,
and sorting them into classes discards part of the information. Ridge regression
predicts the values themselves. In addition, it requires some care with drifts.
"""

# %%
# Reaction times
# --------------
#
# A participant responds 200 times in eight blocks. An evoked response around 300 ms
# after the stimulus is larger in trials with slow reactions. Two things change from the
# first trial to the last: reactions become slower, as people tire, and electrodes
# drift.

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
# Regression over time
# --------------------
#
# Only ``task="regression"`` has to be added. Blocks are left out one at a time. The
# score is R²: 1 is perfect, and 0 is no better than predicting the mean. Instead of
# labels, reaction times are permuted, within blocks.

options = {"groups": "block", "n_permutations": 500, "random_state": 0}
options |= {"task": "regression", "scoring": ["r2", "pearsonr"]}
raw = decode_epochs(epochs, "seconds", **options)
freed = decode_epochs(epochs, "seconds", confounds="trial", **options)

fig, axes = plt.subplots(2, 1, figsize=(7, 7.5), layout="constrained", sharey=True)
for ax, result, title in zip(
    axes, (raw, freed), ("Unchanged", "Trial number regressed out"), strict=True
):
    result.plot(ax=ax)
    ax.set_title(title, loc="left")
    ax.get_legend().set_visible(result is freed)
    before = result.times < 0
    print(title)
    print(f"  R² before the stimulus: {result.scores[before].mean():.2f}")
    print(f"  with permuted reaction times: {result.null[:, before].mean():.2f}")

# %%
# In the upper figure, reaction times can be predicted *before the stimulus*. The reason
# is drift, of which the warning speaks: signals reveal how late in the session it is,
# and late in the session reactions are slow. The permutations reflect this in part:
# reaction times are permuted within blocks, so those of late blocks remain slow, and
# the grey band has moved up with the score. But it does not move far enough, since
# there is drift within blocks, too, and the score is misleading.
#
# In the lower figure, the trial number is regressed out of the signals in each fold
# with ``confounds=``. Only the response at 300 ms remains. This also affects validity:
# with drifts two to three times as large and no other effect, p ≤ 0.05 was found in 21
# of 200 simulated data sets without, and in 9 of 200 with removal of the trial number.
#
# If nothing can be predicted, R² is *below* zero: a model fitted to noise is worse than
# the mean. The permutations show the same, so compare with the band, not with the zero
# line. Both results are of the kind
# :class:`~mvpa_kfda.TimeRegressionResult`.
#
# Single trials
# -------------
#
# :func:`~mvpa_kfda.regress` does the same for one set of features, here the signals at
# the best time. It returns a :class:`~mvpa_kfda.RegressionResult`, which can plot the
# out-of-sample prediction for each trial.

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
# The time point was selected because its score is the highest, so this p-value is too
# small. Report the one corrected for all time points: ``freed.pvalues("max")``.
#
# Predictions are shrunk towards the mean, as in all penalised models. R² treats this as
# error, the correlation does not.
#
# Median split
# ------------
#
# What is the cost of splitting continuous values into two classes at the median? Here
# are 100 small data sets in which ten features weakly depend on a continuous variable.
# How often is the effect found?

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
# A split discards the differences within each half, and labels of trials near the
# median are almost arbitrary. Use classes if the question is about classes.
