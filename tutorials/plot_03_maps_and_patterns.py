"""
Where, at which frequency, and what does it look like?
======================================================

Simulated EEG of three classes, and its power. About 5 seconds.

Decoding over time says *when* classes can be told apart. This tutorial asks *where* on
the head with a searchlight over sensors, *at which frequency* with the power of single
trials, and *what the signal looks like* with activation patterns. All data are
simulated, so we know the answers.
"""

# %%
# Where: a searchlight over sensors
# ---------------------------------
#
# With ``sensors="adjacency"`` every sensor is decoded together with its neighbours, at
# every time. Windows of 40 ms keep the number of positions low. The correction is for
# all of them, sensors times windows. Clusters grow over neighbouring sensors as well as
# over time.

# sphinx_gallery_thumbnail_number = 1
import matplotlib.pyplot as plt
import mne
import numpy as np

from mvpa_kfda import KernelFDA, decode_epochs, simulate_epochs

mne.set_log_level("warning")
epochs = simulate_epochs(n_trials=180, n_classes=3, random_state=0)
searchlight = decode_epochs(
    epochs,
    sensors="adjacency",
    window=0.04,
    step=0.04,
    n_permutations=500,
    random_state=0,
    verbose=False,
)
print(searchlight)
searchlight.plot(times=[0.06, 0.18, 0.38, 0.5])

# %%
# Around 170 ms the back of the head tells the classes apart, around 380 ms sensors on
# the left and in the middle. A dot means that the sensor *and its neighbours* carry
# information; the sensor by itself need not. `to_dataframe` of this
# :class:`~mvpa_kfda.SensorTimeResult` has one row per sensor and time.

table = searchlight.to_dataframe("max")
print(table.sort_values("accuracy", ascending=False).head(3))

# %%
# At which frequency: power
# -------------------------
#
# Now the classes differ in something that averages never show: bursts of 20 Hz around
# 450 ms near C3, larger in one class than in the next, with a new phase in every trial.
# With ``snr=0`` nothing else differs.

noise = simulate_epochs(n_trials=180, n_classes=3, snr=0, random_state=0)
places = np.array([channel["loc"][:3] for channel in noise.info["chs"]])
distance = np.linalg.norm(places - places[noise.ch_names.index("C3")], axis=1)
field = np.exp(-0.5 * (distance / 0.05) ** 2)  # 5 cm wide
field -= field.mean()  # average reference

rng = np.random.default_rng(0)
size = 1e-6 * np.array([3, 6, 9])[noise.events[:, 2] - 1]  # V
phase = rng.uniform(0, 2 * np.pi, len(noise))
course = np.exp(-0.5 * ((noise.times - 0.45) / 0.1) ** 2)
bursts = course * np.cos(2 * np.pi * 20 * noise.times + phase[:, np.newaxis])
bursts *= size[:, np.newaxis]

bursting = mne.EpochsArray(
    noise.get_data() + field[:, np.newaxis] * bursts[:, np.newaxis],
    noise.info,
    noise.events,
    noise.tmin,
    noise.event_id,
)
over_time = decode_epochs(bursting, n_permutations=500, random_state=0)
print(f"Signal itself: {np.sum(over_time.pvalues('max') <= 0.05)} significant times")

# %%
# `decode_epochs` takes the power that MNE-Python computes, and decodes every frequency
# and time.

freqs = np.geomspace(6, 36, 9)
power = bursting.compute_tfr("morlet", freqs=freqs, n_cycles=freqs / 4, decim=4)
over_freqs = decode_epochs(power, n_permutations=500, random_state=0, verbose=False)
print(over_freqs)
over_freqs.plot(correction="cluster")

# %%
# The wavelets blur the burst over time and frequency, so that information seems to be
# there a little before and after it. The correction is for all frequencies and times.
# `clusters` of this :class:`~mvpa_kfda.TimeFrequencyResult` has the numbers: from
# when to when and at which frequencies each cluster was found, the sum of
# its standardised scores (``mass``), and where it peaks.

print(over_freqs.clusters().head(3).round(3).to_string())

# %%
# The p-value is that of the cluster as a whole, and not of its first time or of its
# frequencies. How much of a cluster has an effect is another question: at least
# ``n_true`` of its positions, a share of ``share_true``. `true_discoveries` answers it
# for any set, also one chosen after looking, with a
# :class:`~mvpa_kfda.TrueDiscoveries`:

print(over_freqs.true_discoveries((0.4, 0.5)))

# %%
# What it looks like: activation patterns
# ---------------------------------------
#
# A classifier's weights say how channels are combined, and a part of that is cancelling
# noise: a channel without any signal gets weight if it shares noise with others. The
# *activation pattern* [1]_ answers the question that is usually meant: how does the
# signal change with what the classifier sees? Every result with the linear kernel has
# them, as objects of MNE-Python in the units of the channels.

result = decode_epochs(epochs)
patterns = result.patterns()
print(patterns["class_2"])
patterns["class_2"].plot_topomap(times=[0.05, 0.17, 0.3, 0.38, 0.5], show=False)

# %%
# The map shows by how many microvolts trials of this class differ from the mean of all
# trials, as far as the classifier sees it. Before 100 ms there is nothing to see but
# noise: look at patterns where classes can be decoded.
#
# As the data are simulated, we can compare with the truth. It comes from the same
# simulation with hardly any noise.

clear = simulate_epochs(n_trials=180, n_classes=3, snr=300, random_state=0)
true = (clear["class_2"].average().data - clear.average().data) * 0.3 / 300

shown = epochs.time_as_index([0.17, 0.38], use_rounding=True)
fig, axes = plt.subplots(2, 3, figsize=(6.6, 4.4), layout="constrained")
for row, sample in zip(axes, shown, strict=True):
    data = epochs.get_data()[:, :, sample]
    model = KernelFDA(kernel="linear").fit(data, epochs.metadata["condition"])
    # The scores are linear, so that unit vectors give the weights.
    scores = model.decision_function(np.vstack([0 * data[:1], np.eye(data.shape[1])]))
    maps = {
        "true difference": true[:, sample],
        "pattern": patterns["class_2"].data[:, sample],
        "weights": scores[1:, 1] - scores[0, 1],
    }
    for ax, (name, values) in zip(row, maps.items(), strict=True):
        mne.viz.plot_topomap(values, epochs.info, axes=ax, show=False)
        similar = np.corrcoef(values, true[:, sample])[0, 1]
        ax.set_title(f"{name}\n(correlation {similar:.2f})", fontsize="medium")
    row[0].set_ylabel(f"{epochs.times[sample]:.2f} s")

# %%
# Patterns resemble the truth far more than weights do. They are not tested: the
# permutations are about scores. These patterns belong to the model of all trials. The
# mean over the models that were cross-validated is nearly the same.

folds = result.patterns(average="folds")["class_2"].data
again = np.corrcoef(folds[:, shown[1]], patterns["class_2"].data[:, shown[1]])[0, 1]
print(f"Correlation of the two at 0.38 s: {again:.3f}")

# %%
# With three classes there are two discriminants, the most discriminating one first.
# Their patterns are in microvolts per unit of the discriminant's score, and their sign
# is free.

result.patterns("discriminant")["discriminant 1"].plot_topomap(
    times=[0.17, 0.38], show=False
)

# %%
# Power has patterns too, for every frequency. The third class has the largest bursts,
# and its power is above the mean near C3.

at_burst = over_freqs.patterns()["class_3"]
at_burst.plot_topomap(
    tmin=0.4, tmax=0.5, fmin=17, fmax=23, size=2.5, cbar_fmt="%.0e", show=False
)

# %%
# References
# ----------
#
# .. [1] Haufe, S., Meinecke, F., Görgen, K., Dähne, S., Haynes, J.-D., Blankertz, B.,
#    & Bießmann, F. (2014). On the interpretation of weight vectors of linear models in
#    multivariate neuroimaging. NeuroImage, 87, 96-110.
