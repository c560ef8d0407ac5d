"""
One image per trial: how do BOLD runs become what is decoded?
=============================================================

Simulated BOLD runs of eight people. About a quarter of a minute.

A searchlight takes one image per trial. In event-related designs responses to
successive trials overlap, so these images have to be estimated. Which way of doing so
finds most? From BOLD runs and events we go to single trials, searchlights and the
group. All data are simulated over the MNI brain that comes with nilearn, so we know
the answer and need no download.
"""

# %%
# Fast trials
# -----------
#
# Eight participants see faces and houses, a new picture every 3.5 seconds on average,
# in an order drawn anew for each of three runs. The response to a picture lasts more
# than twenty seconds, so what is measured at any moment is a mixture of six trials
# and more. Which of the two was seen makes a difference in the right fusiform gyrus
# only, by a pattern that is everybody's own.

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

mask_img = datasets.load_mni152_brain_mask(resolution=8)
mask = mask_img.get_fdata() > 0
mm = np.argwhere(mask) @ mask_img.affine[:3, :3].T + mask_img.affine[:3, 3]
inside = np.linalg.norm(mm - (40, -52, -18), axis=1) <= 14
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


participants = [simulate_runs(number) for number in range(8)]
runs, events = participants[0]
print(events[0].head().round(1).to_string())

# %%
# From runs to trials
# -------------------
#
# ``single_trial_betas`` takes runs and events as nilearn's ``FirstLevelModel`` does:
# images, DataFrames, or the paths of both. Drifts, responses and maskers are nilearn's,
# and arguments have its names. With ``confounds=`` there are more regressors, such as
# those of ``nilearn.interfaces.fmriprep.load_confounds``. Scans were simulated as of
# their first moment; of files that fMRIPrep wrote, the time of slices is read. The
# :class:`~mvpa_kfda.Betas` hold an image and a row of a table for each trial.

options = {"t_r": t_r, "slice_time_ref": 0.0, "hrf_model": "spm"}
options |= {"mask_img": mask_img, "verbose": False}
betas = single_trial_betas(runs, events, **options)
print(betas)
print(betas.imgs.shape)
print(betas.table.head().round(1).to_string())

# %%
# Regressors of the first run, one for each trial, and drifts. Neighbours overlap.

fig, ax = plt.subplots(figsize=(9, 5), layout="constrained")
plot_design_matrix(betas.design_matrices[0], axes=ax)
ax.tick_params(axis="x", labelsize=5)

# %%
# The default is least squares separate (LSS) [1]_. Every trial has a model of its own,
# with one regressor for the trial and one for all other trials. The numbers are those
# of as many models of nilearn, but computed all at once. The other way is one model
# with all trials (LSA). It gives each trial the part of the data that is its own alone;
# of fast trials that is little, and mostly noise. The simplest way of all takes the
# mean of the scans from four to eight seconds after each onset.
#
# What is of one class must not be known to the estimates. With ``others="by_type"``
# [2]_ it is, and p-values can be too small; the guide has numbers.


def mean_scans(runs, events):
    """Average the scans in which the response to each trial should be highest."""
    images = []
    for run, table in zip(runs, events, strict=True):
        for onset in table["onset"]:
            near = (scan_times >= onset + 4) & (scan_times <= onset + 8)
            images.append(run.get_fdata()[..., near].mean(axis=3))
    return Nifti1Image(np.stack(images, axis=3), mask_img.affine)


# %%
# We know the place, and so we can compare them there. Decoding takes the betas as they
# are, and the text for the methods section says how they were estimated; other images
# come with a table. Runs are groups: one at a time is left out, and estimates of
# neighbouring trials, which are correlated, stay on one side.

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
# Each line is a participant, bars are means. On average LSS is best here. That is not a
# law: LSA has no bias, and where trials are far apart or responses differ much from
# trial to trial it is as good or better. Choose by the design, not by the result.
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
        radius=13,
        n_permutations=60,
        random_state=number,
        verbose=False,
    )


results = [decode_everywhere(each, i) for i, each in enumerate(images["LSS"])]
group = group_inference(results, "prevalence", "max", random_state=0)
print(group)
group.plot(cut_coords=(40, -52, -18))

# %%
# How many spheres are found that touch the place, and how many elsewhere?

near = np.linalg.norm(mm - (40, -52, -18), axis=1) <= 14 + 13
found = group.pvalues() <= 0.05
print(f"Touching the place: {np.count_nonzero(found & near)} of {near.sum()}")
print(f"Elsewhere: {np.count_nonzero(found & ~near)} of {(~near).sum()}")

# %%
# In a terminal
# -------------
#
# One command makes one image per trial, its table and the mask, and prints the command
# that decodes them::
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
