"""
Where and at which frequency? Sensor maps, power and activation patterns
========================================================================

Simulated EEG of three classes, and its power. About 5 seconds.

``decode_epochs(epochs, sensors="adjacency")`` decodes each sensor together with its
neighbours, at each time: here from posterior sensors around 170 ms, and from left and
central ones around 380 ms. Given single-trial power, the same function finds bursts
around 20 Hz that differ between classes, although the signal itself is not significant
at any time. And ``result.patterns()`` shows what the signal looks like: the patterns
resemble the true difference far more than the weights of the classifier do.

Decoding over time shows *when* classes can be discriminated. This tutorial shows
*where* on the head, *at which frequency*, and *what the signal looks like*. All data
are simulated, so we know the answers.
"""

# %%
# Where: a searchlight over sensors
# ---------------------------------
#
# With ``sensors="adjacency"``, each sensor is decoded together with its neighbours, at
# each time. Windows of 40 ms keep the number of positions low. The correction covers
# all of them (sensors x windows). Clusters extend over neighbouring sensors as well as
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
    n_permutations=200,
    random_state=0,
    verbose=False,
)
print(searchlight)
searchlight.plot(times=[0.06, 0.18, 0.38, 0.5])

# %%
# Around 170 ms the classes can be decoded from posterior sensors, around 380 ms from
# left and central ones. A dot means that the sensor *together with its neighbours*
# carries information; the sensor alone need not. `to_dataframe` of this
# :class:`~mvpa_kfda.SensorTimeResult` has one row per sensor and time.

table = searchlight.to_dataframe("max")
print(table.sort_values("accuracy", ascending=False).head(3))

# %%
# At which frequency: power
# -------------------------
#
# Now the classes differ in a way that averages cannot show: 20 Hz bursts around 450 ms
# near C3, with a different amplitude in each class and a random phase in each trial.
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
over_time = decode_epochs(bursting, n_permutations=200, random_state=0)
print(f"Signal itself: {np.sum(over_time.pvalues('max') <= 0.05)} significant times")

# %%
# `decode_epochs` accepts power computed by MNE-Python, and decodes each frequency and
# time.

freqs = np.geomspace(6, 36, 9)
power = bursting.compute_tfr("morlet", freqs=freqs, n_cycles=freqs / 4, decim=4)
over_freqs = decode_epochs(power, n_permutations=200, random_state=0, verbose=False)
print(over_freqs)
over_freqs.plot(correction="cluster")

# %%
# The wavelets blur the burst over time and frequency, so information appears slightly
# before and after it. The correction covers all frequencies and times. `clusters` of
# this :class:`~mvpa_kfda.TimeFrequencyResult` gives the extent of each cluster in time
# and frequency, the sum of its standardised scores (``mass``), and its peak.

print(over_freqs.clusters().head(3).round(3).to_string())

# %%
# The p-value refers to the cluster as a whole, not to its first time point or its
# frequencies. How much of the cluster has an effect is another question: at least
# ``n_true`` of its positions, a proportion of ``share_true``.
# `true_discoveries` gives this bound for any set, even one chosen after seeing the
# results:

print(over_freqs.true_discoveries((0.4, 0.5)))

# %%
# What the signal looks like: activation patterns
# -----------------------------------------------
#
# The weights of a classifier describe how channels are combined, which partly serves to
# cancel noise: a channel without any signal gets weight if it shares noise with others.
# The *activation pattern* [1]_ answers the question of interest: how does the signal
# change with the output of the classifier? All results with a linear kernel have
# patterns, as MNE-Python objects in the units of the channels.

result = decode_epochs(epochs)
patterns = result.patterns()
print(patterns["class_2"])
patterns["class_2"].plot_topomap(times=[0.05, 0.17, 0.3, 0.38, 0.5], show=False)

# %%
# The map shows by how many microvolts trials of this class differ from the mean of all
# trials, as represented in the classifier. Before 100 ms there is only noise: interpret
# patterns where classes can be decoded.
#
# As the data are simulated, we can compare patterns with the true difference, which
# comes from the same simulation with hardly any noise.

clear = simulate_epochs(n_trials=180, n_classes=3, snr=300, random_state=0)
true = (clear["class_2"].average().data - clear.average().data) * 0.3 / 300

shown = epochs.time_as_index([0.17, 0.38], use_rounding=True)
fig, axes = plt.subplots(2, 3, figsize=(6.6, 4.4), layout="constrained")
for row, sample in zip(axes, shown, strict=True):
    data = epochs.get_data()[:, :, sample]
    model = KernelFDA(kernel="linear").fit(data, epochs.metadata["condition"])
    # The scores are linear, so unit vectors give the weights.
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
# Patterns resemble the true difference far more than weights do. They are not tested:
# permutations test the scores. These patterns belong to the model trained on all
# trials. The mean over the cross-validated models is nearly the same.

folds = result.patterns(average="folds")["class_2"].data
again = np.corrcoef(folds[:, shown[1]], patterns["class_2"].data[:, shown[1]])[0, 1]
print(f"Correlation between the two at 0.38 s: {again:.3f}")

# %%
# With three classes there are two discriminants, the most discriminating one first.
# Their patterns are in microvolts per unit of the discriminant score, and their sign is
# arbitrary.

result.patterns("discriminant")["discriminant 1"].plot_topomap(
    times=[0.17, 0.38], show=False
)

# %%
# Power has patterns, too, for each frequency. The third class has the largest bursts,
# and its power near C3 is above the mean.

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
