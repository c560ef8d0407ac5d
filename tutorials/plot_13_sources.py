"""
Where in the brain, and when: source estimates
==============================================

Simulated EEG and its source estimates. About 20 seconds.

Sensors see a mixture of all sources. An inverse solution takes it apart as well as it
can, and gives one source estimate per trial. When do these tell two classes apart, and
which of the sources do? Signals are simulated in a spherical head, so we know the
answer and need no download.
"""

# %%
# Two sources, one after the other
# --------------------------------
#
# In 80 trials a participant sees faces or houses. A source in the back of the left half
# of the head depends on what is seen around 0.1 s, one in the front of the right half
# around 0.25 s. Everywhere else there is activity as well, which says nothing, and the
# 64 electrodes add their noise.

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
src = mne.setup_volume_source_space(pos=18.0, sphere=sphere)
forward = mne.make_forward_solution(info, trans=None, src=src, bem=sphere)
gain = forward["sol"]["data"].reshape(len(info["ch_names"]), -1, 3)
places = 1e3 * forward["source_rr"]  # in mm
times = np.arange(-5, 25) / info["sfreq"]
y = np.random.default_rng(1).permutation(np.tile(["face", "house"], 40))
effects = [(0.10, [-45, -40, 50]), (0.25, [45, 45, 50])]


def simulate(number):
    """Simulate the epochs of a participant."""
    rng = np.random.default_rng(number)
    sources = rng.normal(size=(len(y), len(places), 3, len(times)))
    for peak, place in effects:
        course = np.exp(-(((times - peak) / 0.04) ** 2) / 2)
        size = np.exp(-(np.linalg.norm(places - place, axis=1) ** 2) / (2 * 12**2))
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
# With ``return_generator=True`` :func:`mne.minimum_norm.apply_inverse_epochs` makes one
# estimate at a time, when it is asked for. :func:`~mvpa_kfda.decode_sources` puts each
# into its one array and drops it, so that no more than this array is ever held.
# ``pick_ori="vector"`` keeps the three orientations of every source, which are then
# three features; the length of a vector alone has lost which way the current ran.


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
# All sources together say when, in a :class:`~mvpa_kfda.SourceResult`. The patterns of
# the model are source estimates themselves, one per class: what is stronger or weaker
# in trials of that class. Vector estimates have a ``magnitude()``.

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
# With ``src`` and ``radius`` (in mm) every source is decoded with those around it. In
# volumes, as here, these are spheres; on a cortex distances run along the mesh.

stcs, space = invert(epochs)
where = decode_sources(stcs, y, src=space, radius=20.0, **options)
print(where)
where.plot(correction="max")

# %%
# The upper figure has one row per source, the lower one shows the head from four sides
# at the time of the highest score. It is a :class:`~mvpa_kfda.SourceTimeResult`, whose
# :meth:`~mvpa_kfda.SourceTimeResult.to_stc` makes a
# source estimate of scores, p-values and so on: ``where.to_stc().plot(...)`` draws it
# with MNE-Python, in three dimensions on a cortex.
#
# Inverse solutions are blurred: what one source says leaks into its neighbours, and a
# searchlight finds it there too. How far it leaks is a property of the inverse, not of
# the brain. The highest scores are where to look.

print(where.to_stc("p", correction="max"))
for peak, place in effects:
    sample = np.abs(where.times - peak).argmin()
    best = where.scores[:, sample].argmax()
    distance = np.linalg.norm(where.sources["points"][best] - place)
    score = where.scores[best, sample]
    print(f"{peak:.2f} s: accuracy {score:.2f}, {distance:.0f} mm from the source")

# %%
# Clusters extend over neighbouring sources, as MNE-Python knows them, and times.

print(where.clusters("cluster", threshold=0.01).head(2))

# %%
# Does the code of one time hold at another?
# ------------------------------------------
#
# Time generalization takes arrays. As the two sources differ, what was learned at 0.1 s
# says nothing at 0.25 s.

listed = list(invert(epochs)[0])
X = np.stack([stc.data.reshape(-1, len(times)) for stc in listed])
generalize_arrays(X, y, cv=5, tmin=listed[0].tmin, sfreq=listed[0].sfreq).plot()

# %%
# A group
# -------
#
# Participants whose estimates have the same vertices are tested together: here they
# share one head; real ones are morphed to a template first, with
# :func:`mne.compute_source_morph`, and ``src`` is that of the template.

people = []
for number in range(6):
    stcs, space = invert(simulate(number))
    window = {"window": 0.1, "step": 0.1}
    people.append(decode_sources(stcs, y, src=space, radius=20.0, cv=5, **window))
group = group_inference(people, "sign-flip", random_state=0)
print(group)
print(group.to_stc("p"))
group.plot()
plt.show()
