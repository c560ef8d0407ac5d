"""
Decoding an orientation: where does the grating point?
======================================================

Simulated EEG of one person who sees gratings of any orientation. About 10 seconds.

``decode_arrays(X, degrees, task="regression", circular=True, period=180)`` predicts the
orientation of each grating at each time. Its error is 15 degrees at 0.22 s, and would
be 45 degrees by chance.

Orientations, directions and phases lie on a circle: 179 and 1 degrees are neighbours. A
regression of the number would take them for opposites, and classes of orientations
would lose what is between them. The sine and the cosine of the angle are ordinary
numbers: both are regressed with the same model, and the angle of the two predictions is
the predicted orientation.
"""

# %%
# Gratings of any orientation
# ---------------------------
#
# In six runs of 30 trials, orientations are drawn at random from 0 to 180 degrees. From
# 0.1 s on, 20 channels respond to the orientation, each with a preference of its own.

# sphinx_gallery_thumbnail_number = 2
import matplotlib.pyplot as plt
import numpy as np

from mvpa_kfda import decode_arrays, generalize_arrays

rng = np.random.default_rng(0)
n_trials, n_channels, sfreq, tmin = 180, 20, 50, -0.1
runs = np.repeat(np.arange(6), 30)
degrees = rng.uniform(0, 180, n_trials)
times = tmin + np.arange(31) / sfreq
preferred = rng.uniform(0, 180, n_channels)
tuning = np.cos(2 * np.deg2rad(degrees[:, None] - preferred))
course = np.exp(-0.5 * ((times - 0.25) / 0.07) ** 2) * (times > 0.1)
X = tuning[:, :, None] * course + 1.5 * rng.standard_normal((180, 20, len(times)))

# %%
# The error over time
# -------------------
#
# ``period=180`` closes the circle; without it, values are radians. The first score is
# the mean cosine of the error: 1 if all predictions are right, 0 by chance. The mean
# absolute error is in degrees, taken negative so that more is better. Runs are left out
# one at a time, and permutations exchange orientations within runs.

orientation = {"task": "regression", "circular": True, "period": 180}
result = decode_arrays(
    X,
    degrees,
    groups=runs,
    sfreq=sfreq,
    tmin=tmin,
    scoring=["mean_cosine", "neg_mean_absolute_error"],
    reg=0.1,
    n_permutations=199,
    random_state=0,
    **orientation,
)
print(result)
error = -result.metrics["neg_mean_absolute_error"]
print(f"Mean absolute error: {error.min():.0f} degrees, {error[0]:.0f} at the start")
result.plot(correction="cluster", show=False)

# %%
# Predicted orientations
# ----------------------
#
# At 0.22 s predictions follow the orientations around the circle: those near 180
# degrees are predicted near 180 or near 0, which is next to it.

best = int(np.argmax(result.scores))
figure, ax = plt.subplots(figsize=(4.5, 4.2), layout="constrained")
ax.plot([0, 180], [0, 180], color="0.7", linewidth=1)
ax.scatter(degrees, result.predictions[best], s=12, alpha=0.7)
ticks = [0, 45, 90, 135, 180]
ax.set(
    xlabel="shown (degrees)", ylabel="predicted (degrees)", xticks=ticks, yticks=ticks
)
ax.set_title(f"At {times[best]:.2f} s: mean cosine {result.scores[best]:.2f}")

# %%
# The same number, not taken as a circle
# --------------------------------------
#
# A regression of the degrees predicts the middle of the range for orientations near its
# ends, and its errors are larger.

plain = decode_arrays(
    X[:, :, [best]],
    degrees,
    groups=runs,
    task="regression",
    reg=0.1,
    scoring=lambda true, predicted, _: (
        -np.mean(np.abs((predicted - true + 90) % 180 - 90))
    ),
)
print(f"As a number: {-plain.scores[0]:.0f} degrees; as a circle: {error[best]:.0f}")

# %%
# From time to time
# -----------------
#
# Everything else works as for classes: maps of the brain, penalties, confounds, groups
# of subjects and reports. Trained at each time and tested at all others:

across = generalize_arrays(
    X,
    degrees,
    groups=runs,
    sfreq=sfreq,
    tmin=tmin,
    reg=0.1,
    n_permutations=99,
    random_state=0,
    **orientation,
)
across.plot(correction="max", show=False)
