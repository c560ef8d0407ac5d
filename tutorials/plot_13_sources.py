"""
Where in the brain, and when? Source estimates
==============================================

Simulated EEG and its source estimates. About 15 seconds.

:func:`~mvpa_kfda.decode_sources` decodes source estimates, one per trial. All sources
together show when classes differ; with ``radius=25``, each source is decoded with those
around it. Here both simulated sources are found at their times, with accuracies of 0.88
at 0.10 s and 0.97 at 0.25 s (chance: 0.5), 27 and 22 mm from their true places, as the
grid of sources is coarse and inverse solutions are blurred.

Sensors record a mixture of all sources. An inverse solution unmixes them as far as
possible, and gives one source estimate per trial. When can two classes be decoded from
these estimates, and from which sources? Signals are simulated in a spherical head
model, so we know the answer and need no download.
"""

# %%
# Two sources, one after the other
# --------------------------------
#
# In 80 trials a participant sees faces or houses. The activity of a left posterior
# source depends on the stimulus around 0.1 s, that of a right frontal source around
# 0.25 s. All other sources have activity unrelated to the stimulus, and the 64
# electrodes add noise.

# sphinx_gallery_thumbnail_number = 2
import matplotlib.pyplot as plt
import mne
import numpy as np

from mvpa_kfda import decode_sources, generalize_arrays, group_inference

mne.set_log_level("ERROR")
montage = mne.channels.make_standard_montage("biosemi64")
info = mne.create_info(montage.ch_names, sfreq=50.0, ch_types="eeg")
info.set_montage(montage)
sphere = mne.make_sphere_model("auto", "auto", info)
src = mne.setup_volume_source_space(pos=22.0, sphere=sphere)
forward = mne.make_forward_solution(info, trans=None, src=src, bem=sphere)
gain = forward["sol"]["data"].reshape(len(info["ch_names"]), -1, 3)
places = 1e3 * forward["source_rr"]  # in mm
times = np.arange(-5, 20) / info["sfreq"]
y = np.random.default_rng(1).permutation(np.tile(["face", "house"], 40))
effects = [(0.10, [-45, -40, 50]), (0.25, [45, 45, 50])]


def simulate(number):
    """Simulate the epochs of a participant."""
    rng = np.random.default_rng(number)
    sources = rng.normal(size=(len(y), len(places), 3, len(times)))
    for peak, place in effects:
        course = np.exp(-(((times - peak) / 0.04) ** 2) / 2)
        size = np.exp(-(np.linalg.norm(places - place, axis=1) ** 2) / (2 * 15**2))
        moment = rng.normal(size=3)
        moment /= np.linalg.norm(moment)
        pattern = 1.6 * size[:, None, None] * moment[:, None] * course
        sources += pattern * np.where(y == "face", 1, -1)[:, None, None, None]
    data = 2e-9 * np.einsum("esk,nskt->net", gain, sources)
    data += 2e-7 * rng.normal(size=data.shape)
    epochs = mne.EpochsArray(data, info, tmin=times[0])
    return epochs.set_eeg_reference(projection=True)


epochs = simulate(0)
print(epochs)

# %%
# From sensors to sources
# -----------------------
#
# An inverse operator needs a noise covariance, here from the time before the stimulus.
# With ``return_generator=True``, :func:`mne.minimum_norm.apply_inverse_epochs` computes
# one estimate at a time, on demand. :func:`~mvpa_kfda.decode_sources` copies each into
# one array and releases it, so only this array is in memory. ``pick_ori="vector"``
# keeps the three orientations of each source, which are then three features; the length
# of a vector alone lacks the direction of the current.


def invert(epochs):
    """Return a generator of source estimates, and their source space."""
    covariance = mne.compute_covariance(epochs, tmax=0.0, method="shrunk")
    inverse = mne.minimum_norm.make_inverse_operator(
        epochs.info, forward, covariance, loose=1.0
    )
    how = {"lambda2": 1 / 9, "method": "dSPM", "pick_ori": "vector"}
    stcs = mne.minimum_norm.apply_inverse_epochs(
        epochs, inverse, return_generator=True, **how
    )
    return stcs, inverse["src"]


stcs, space = invert(epochs)
options = {"cv": 5, "n_permutations": 100, "random_state": 0}
result = decode_sources(stcs, y, **options)
print(result)
result.plot()

# %%
# All sources together show when classes differ, in a :class:`~mvpa_kfda.SourceResult`.
# The patterns of the model are source estimates as well, one per class: they show which
# sources are stronger or weaker in trials of that class. Vector estimates have a
# ``magnitude()``.

pattern = result.patterns()["face"].magnitude()
for peak, place in effects:
    sample = np.abs(pattern.times - peak).argmin()
    best = pattern.vertices[0][pattern.data[:, sample].argmax()]
    found = 1e3 * space[0]["rr"][best]
    distance = np.linalg.norm(found - place)
    print(f"{peak:.2f} s: strongest {distance:.0f} mm from the source")

# %%
# A searchlight over sources and times
# ------------------------------------
#
# With ``src`` and ``radius`` (in mm), each source is decoded together with those around
# it. In volumes, as here, these are spheres; on the cortex, distances are measured
# along the mesh.

stcs, space = invert(epochs)
where = decode_sources(stcs, y, src=space, radius=25.0, **options)
print(where)
where.plot(correction="max")

# %%
# The upper panel has one row per source, the lower one shows the head from four sides
# at the time of the highest score. The result is a
# :class:`~mvpa_kfda.SourceTimeResult`, whose :meth:`~mvpa_kfda.SourceTimeResult.to_stc`
# returns scores, p-values and so on as a source estimate: ``where.to_stc().plot(...)``
# draws it with MNE-Python, in 3D on a cortex.
#
# Inverse solutions are blurred: information leaks from a source into its neighbours,
# and a searchlight finds it there, too. The extent of leakage is a property of the
# inverse solution, not of the brain. Look at the highest scores.

print(where.to_stc("p", correction="max"))
for peak, place in effects:
    sample = np.abs(where.times - peak).argmin()
    best = where.scores[:, sample].argmax()
    distance = np.linalg.norm(where.sources["points"][best] - place)
    score = where.scores[best, sample]
    print(f"{peak:.2f} s: accuracy {score:.2f}, {distance:.0f} mm from the source")

# %%
# Clusters extend over times and over neighbouring sources, as defined by MNE-Python.

print(where.clusters("cluster", threshold=0.01).head(2))

# %%
# Temporal generalization
# -----------------------
#
# Temporal generalization accepts arrays. As the two sources differ, a classifier
# trained at 0.1 s does not generalize to 0.25 s.

listed = list(invert(epochs)[0])
X = np.stack([stc.data.reshape(-1, len(times)) for stc in listed])
generalize_arrays(X, y, cv=5, tmin=listed[0].tmin, sfreq=listed[0].sfreq).plot()

# %%
# Group analysis
# --------------
#
# Group analysis requires the same vertices in all participants. Here they share one
# head; with real data, first morph the estimates to a template with
# :func:`mne.compute_source_morph`, and pass the ``src`` of the template. Windows of
# 0.1 s save time here.

people = []
for number in range(6):
    stcs, space = invert(simulate(number))
    window = {"window": 0.1, "step": 0.1}
    people.append(decode_sources(stcs, y, src=space, radius=25.0, cv=5, **window))
group = group_inference(people, "sign-flip", random_state=0)
print(group)
print(group.to_stc("p"))
group.plot()
plt.show()
