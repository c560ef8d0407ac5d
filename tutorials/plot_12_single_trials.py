"""
One image per trial: from BOLD runs to single-trial estimates
=============================================================

Simulated BOLD runs of six people. About 10 seconds.

``single_trial_betas(runs, events)`` turns BOLD runs into one image per trial, which all
decoding functions accept. With fast trials, its default (least squares separate) leads
to a mean accuracy of 0.70 in the informative area, one model of all trials to 0.67, and
averaged scans to 0.71. The searchlights of six people then show the area in the
group, and nothing elsewhere.

A searchlight needs one image per trial. In event-related designs, responses to
successive trials overlap, so these images have to be estimated. This tutorial goes from
BOLD runs and events to single trials, searchlights and the group. All data are
simulated on the MNI brain that comes with nilearn, so we know the answer and need no
download.
"""

# %%
# Fast trials
# -----------
#
# Six participants see faces and houses, a new picture every 3.5 seconds on average,
# in a new random order for each of three runs. The response to a picture lasts more
# than twenty seconds, so each scan is a mixture of responses to six or more trials.
# Faces and houses differ in the right fusiform gyrus only, with a different pattern in
# each participant.

# sphinx_gallery_thumbnail_number = 2
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from nibabel import Nifti1Image
from nilearn import datasets
from nilearn.glm.first_level import make_first_level_design_matrix
from nilearn.plotting import plot_design_matrix
from scipy.ndimage import gaussian_filter

from mvpa_kfda import decode_regions, group_inference, searchlight, single_trial_betas

mask_img = datasets.load_mni152_brain_mask(resolution=10)
mask = mask_img.get_fdata() > 0
mm = np.argwhere(mask) @ mask_img.affine[:3, :3].T + mask_img.affine[:3, 3]
inside = np.linalg.norm(mm - (40, -52, -18), axis=1) <= 17.5
t_r, n_scans, n_runs, n_trials = 2.0, 75, 3, 36
scan_times = np.arange(n_scans) * t_r


def draw_events(rng):
    """Draw the events of a run, as its events.tsv file would have them."""
    gaps = 1.2 + rng.exponential(2, size=n_trials)
    table = pd.DataFrame({"onset": 2 + np.cumsum(gaps) / gaps.sum() * 126})
    table["duration"] = 0.5
    table["trial_type"] = rng.permutation(["face", "house"] * (n_trials // 2))
    return table


def simulate_runs(number):
    """Simulate runs and events of a participant."""
    rng = np.random.default_rng(number)
    pattern = rng.normal(size=inside.sum())
    runs, events = [], []
    for _ in range(n_runs):
        table = draw_events(rng)
        single = table.assign(trial_type=[f"{i:02d}" for i in range(n_trials)])
        responses = make_first_level_design_matrix(
            scan_times, single, hrf_model="spm", drift_model=None
        ).to_numpy()[:, :n_trials]
        sizes = rng.normal(1, 0.3, size=(n_trials, mask.sum()))
        sign = np.where(table["trial_type"] == "face", 1, -1)
        sizes[:, inside] += 0.4 * np.outer(sign, pattern)
        noise = gaussian_filter(
            rng.normal(size=(n_scans, *mask.shape)), (0.5, 0.7, 0.7, 0.7)
        )[:, mask]
        drift = np.cumsum(rng.normal(size=(n_scans, mask.sum())), axis=0)
        signal = responses / responses.max() @ sizes + 2 * noise / noise.std()
        data = np.zeros((*mask.shape, n_scans), dtype=np.float32)
        data[mask] = (500 + 5 * signal + 3 * drift).T
        runs.append(Nifti1Image(data, mask_img.affine))
        events.append(table)
    return runs, events


participants = [simulate_runs(number) for number in range(8, 14)]
runs, events = participants[0]
print(events[0].head().round(1).to_string())

# %%
# From runs to trials
# -------------------
#
# ``single_trial_betas`` accepts runs and events in the same form as nilearn's
# ``FirstLevelModel``: images, DataFrames, or paths to both. Drift models, response
# functions and maskers are those of nilearn, and arguments have the same names.
# ``confounds=`` adds regressors, such as those of
# ``nilearn.interfaces.fmriprep.load_confounds``. Scans were simulated with the
# reference time at their start; for fMRIPrep output, slice timing is read from the
# files. The :class:`~mvpa_kfda.Betas` contain an image and a table row for each trial.

options = {"t_r": t_r, "slice_time_ref": 0.0, "hrf_model": "spm"}
options |= {"mask_img": mask_img, "verbose": False}
betas = single_trial_betas(runs, events, **options)
print(betas)
print(betas.imgs.shape)
print(betas.table.head().round(1).to_string())

# %%
# The design matrix of the first run has one regressor per trial, and drifts.
# Neighbouring regressors overlap.

fig, ax = plt.subplots(figsize=(9, 5), layout="constrained")
plot_design_matrix(betas.design_matrices[0], axes=ax)
ax.tick_params(axis="x", labelsize=5)

# %%
# The default is least squares separate (LSS) [1]_. Each trial has a separate model,
# with one regressor for the trial and one for all other trials. The estimates equal
# those of separate nilearn models, but are computed all at once. The alternative is one
# model with all trials (LSA). It assigns to each trial only the part of the signal
# unique to it; for fast trials that is little, and mostly noise. The simplest method
# averages the scans from four to eight seconds after each onset.
#
# Estimates must not use the class labels: with one regressor for each type of the other
# trials [2]_, p-values can be too small; for numbers see :doc:`/guide/betas`.


def mean_scans(runs, events):
    """Average the scans in which the response to each trial should be highest."""
    images = []
    for run, table in zip(runs, events, strict=True):
        for onset in table["onset"]:
            near = (scan_times >= onset + 4) & (scan_times <= onset + 8)
            images.append(run.get_fdata()[..., near].mean(axis=3))
    return Nifti1Image(np.stack(images, axis=3), mask_img.affine)


# %%
# We know where the information is, so we can compare the methods there. Decoding
# functions take the betas as they are, and the text for the methods section then says
# how they were estimated; other images come with a table. Runs are the groups: one at a
# time is left out, so the correlated estimates of neighbouring trials stay on the same
# side of each split.

place = np.zeros(mask.shape, dtype=np.int16)
place[mask] = inside
place_img = Nifti1Image(place, mask_img.affine)
images = {"LSS": [], "LSA": [], "mean of scans": []}
for runs, events in participants:
    for method in ("lss", "lsa"):
        found = single_trial_betas(runs, events, method=method, **options)
        images[method.upper()].append(found)
    images["mean of scans"].append(mean_scans(runs, events))

accuracies = {name: [] for name in images}
for number in range(len(participants)):
    table = images["LSS"][number].table
    for name, each in images.items():
        result = decode_regions(
            each[number], (table, "trial_type"), labels_img=place_img, groups="run"
        )
        accuracies[name].append(result.scores[0])

fig, ax = plt.subplots(figsize=(5, 3.5), layout="constrained")
ax.plot(list(accuracies), list(accuracies.values()), color="0.7", marker="o")
ax.plot([np.mean(each) for each in accuracies.values()], "k_", markersize=30)
ax.axhline(0.5, color="k", linestyle=":")
ax.set_ylabel("accuracy in fusiform gyrus")
print(pd.DataFrame(accuracies).mean().round(3).to_string())

# %%
# Each line is a participant, bars are means. On average LSS is better than LSA here,
# and no better than means of scans. This is not always so: LSA is unbiased, and if
# trials are widely spaced or responses vary strongly between trials, it is equally good
# or better. Choose by the design, not by the result.
#
# Searchlights and the group
# --------------------------
#
# The rest is as in the tutorials on fMRI: a searchlight map for each participant, and
# the prevalence of information in the group.


def decode_everywhere(found, number):
    """Return the searchlight map of a participant."""
    return searchlight(
        found,
        "trial_type",
        groups="run",
        radius=16,
        n_permutations=60,
        random_state=number,
        verbose=False,
    )


results = [decode_everywhere(each, i) for i, each in enumerate(images["LSS"])]
group = group_inference(
    results, "prevalence", "max", n_permutations=2000, random_state=0
)
print(group)
group.plot(cut_coords=(40, -52, -18))

# %%
# How many significant spheres overlap the area, and how many do not?

near = np.linalg.norm(mm - (40, -52, -18), axis=1) <= 17.5 + 16
found = group.pvalues() <= 0.05
print(f"Overlapping the area: {np.count_nonzero(found & near)} of {near.sum()}")
print(f"Elsewhere: {np.count_nonzero(found & ~near)} of {(~near).sum()}")

# %%
# On the command line
# -------------------
#
# One command creates one image per trial, the table and the mask, and prints the
# command to decode them::
#
#     mvpa-kfda betas sub-01_*_bold.nii.gz --events sub-01_*_events.tsv \
#         --conditions face house --fmriprep motion wm_csf --out betas
#
# References
# ----------
#
# .. [1] Mumford, J. A., Turner, B. O., Ashby, F. G., & Poldrack, R. A. (2012).
#    Deconvolving BOLD activation in event-related designs for multivoxel pattern
#    classification analyses. NeuroImage, 59(3), 2636-2643.
# .. [2] Turner, B. O., Mumford, J. A., Poldrack, R. A., & Ashby, F. G. (2012).
#    Spatiotemporal activity estimation for multivoxel pattern analysis with rapid
#    event-related designs. NeuroImage, 62(3), 1429-1438.
