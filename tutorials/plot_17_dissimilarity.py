"""
Representational dissimilarity: twelve conditions over time
===========================================================

Simulated EEG of twelve pictures. About 20 seconds.

``decode_arrays(..., scoring="crossnobis_distances")`` and ``result.rdm()`` give a
representational dissimilarity matrix (RDM) at each time: the distances of all pairs of
conditions, from one multi-class model. Here twelve pictures differ from each other at
120 ms, and at 240 ms houses differ from the rest. Across eight subjects, distances
between kinds of pictures are above zero from 0.08 to 0.32 s.

With many conditions, the question is less whether they differ than *which* do, when,
and how much. For definitions and interpretation see :doc:`/rdm`.
"""

# %%
# Twelve pictures
# ---------------
#
# The pictures are four faces, four animals and four houses, with 16 trials each, in
# four blocks. Around 120 ms the responses differ between pictures; around 250 ms they
# differ between animate and inanimate pictures, and slightly between faces and animals.

# sphinx_gallery_thumbnail_number = 1
import warnings

import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial.distance import pdist, squareform
from scipy.stats import norm, rankdata, spearmanr
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import LeaveOneGroupOut, cross_val_predict

from mvpa_kfda import cross_validate, decode_arrays, group_inference

KINDS = ["face", "animal", "house"]
NAMES = np.array([f"{kind} {i}" for kind in KINDS for i in range(1, 5)])
KIND = np.repeat(np.arange(3), 4)
TIMES = np.arange(-0.1, 0.5, 0.02)
N_CHANNELS = 24


def simulate(seed, n_each=16):
    """Return trials (n, channels, times) of one subject, pictures and blocks."""
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(N_CHANNELS, N_CHANNELS)) / N_CHANNELS**0.5
    of_block = np.repeat(np.arange(12), n_each // 4)
    codes = np.concatenate([rng.permutation(of_block) for _ in range(4)])
    of_picture = rng.normal(size=(12, N_CHANNELS))
    alive = np.where(KIND == 2, -1.0, 1.0)[:, None] * rng.normal(size=N_CHANNELS)
    of_kind = alive + 0.5 * rng.normal(size=(3, N_CHANNELS))[KIND]
    early, late = (norm.pdf((TIMES - t) / 0.04) / norm.pdf(0) for t in (0.12, 0.25))
    mean = 0.25 * of_picture[..., None] * early + 0.35 * of_kind[..., None] * late
    noise = rng.normal(size=(len(codes), N_CHANNELS, len(TIMES)))
    X = np.einsum("cd,ndt->nct", mixing, mean[codes] + noise)
    return X, NAMES[codes], np.repeat(np.arange(4), len(codes) // 4)


def decode(seed, **more):
    """Leave one block out at each time."""
    X, y, blocks = simulate(seed)
    return decode_arrays(X, y, groups=blocks, **OPTIONS, **more)


same = squareform(KIND[:, None] == KIND, checks=False)
named = [tuple(NAMES[list(at)]) for at in zip(*np.triu_indices(12, 1), strict=True)]
chosen = {
    "within": [pair for pair, is_same in zip(named, same, strict=True) if is_same],
    "between": [pair for pair, is_same in zip(named, same, strict=True) if not is_same],
}
OPTIONS = {
    "scoring": ["crossnobis_distances", "pairwise_accuracies", chosen],
    "reg": 0.1,
    "sfreq": 50.0,
    "tmin": -0.1,
}
result = decode(0, n_permutations=200, random_state=0)
figure = result.plot_rdm(at=[0.0, 0.12, 0.24], order=NAMES.tolist())

# %%
# Each cell is the cross-validated squared Mahalanobis distance between two pictures, in
# units of the variance within pictures. The penalty is fixed, ``reg=0.1``: if it were
# chosen at each time, distances would be smaller at some times than at others. Before
# the stimulus, distances are around 0, with either sign. At 120 ms most pairs differ;
# at 240 ms houses differ from the rest.
#
# The same distances in two dimensions, with multidimensional scaling:

figure = result.plot_mds(at=[0.12, 0.24])

# %%
# Over time
# ---------
#
# The mean over all pairs is a score like any other, with p-values. So are the means
# over the pairs named in ``scoring``: within and between kinds of pictures.

print(result.to_dataframe(["max"]).iloc[::4].round(3).to_string(index=False))

fig, ax = plt.subplots(figsize=(7, 3.8), layout="constrained")
for name in chosen:
    result.plot(metric=name, correction="max", label=f"{name} kinds", ax=ax)
ax.set_ylabel("Crossnobis distance")

# %%
# Eight subjects
# --------------
#
# Selected pairs are tested across subjects like any score. Here we test whether
# distances between kinds are above 0. ``group.rdm()`` is the mean matrix.

subjects = [decode(seed) for seed in range(8)]
group = group_inference(subjects, "sign-flip", metric="between", random_state=0)
significant = group.times[group.pvalues("max") <= 0.05]
first, last = significant.min(), significant.max()
print(f"between kinds: p <= 0.05 from {first:.2f} to {last:.2f} s")

# %%
# Two models
# ----------
#
# Is dissimilarity explained by animacy, or by the three kinds? Each model is an RDM.
# Models are compared with the data by rank correlation, and with the noise ceiling: the
# correlation with the mean of the other subjects, and with that of all subjects.

models = {
    "alive": pdist((KIND == 2)[:, None].astype(float)),
    "three kinds": 1.0 - same,
}
rdms = np.stack([subject.rdm() for subject in subjects])  # (subjects, times, pairs)


def fit(model, t):
    """Return each subject's rank correlation with a model at one time."""
    return [spearmanr(rdm[t], model).statistic for rdm in rdms]


def ceiling(t):
    """Return the lower and upper bound of the noise ceiling."""
    ranks = rankdata(rdms[:, t], axis=1)
    others = (ranks.sum(axis=0) - ranks) / (len(ranks) - 1)
    lower = [spearmanr(*pair).statistic for pair in zip(ranks, others, strict=True)]
    upper = [spearmanr(rank, ranks.mean(axis=0)).statistic for rank in ranks]
    return np.mean(lower), np.mean(upper)


steps = range(len(TIMES))
fig, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
bounds = np.array([ceiling(t) for t in steps])
ax.fill_between(result.times, *bounds.T, color="0.85", label="noise ceiling")
for name, model in models.items():
    values = np.array([fit(model, t) for t in steps])
    ax.plot(result.times, values.mean(axis=1), label=name)
ax.axhline(0, color="0.6", lw=1)
ax.set(xlabel="Time (s)", ylabel="Spearman correlation")
ax.legend(frameon=False, ncols=3, loc="upper right", bbox_to_anchor=(1, 1.15))

# %%
# rsatoolbox offers more methods and tests. RDMs can be passed to it directly (``pip
# install "mvpa-kfda[rsa]"``)::
#
#     from rsatoolbox.inference import eval_fixed
#     from rsatoolbox.model import ModelFixed
#     from rsatoolbox.rdm import concat
#
#     at = int(np.argmin(abs(result.times - 0.24)))
#     data = concat([s.to_rsatoolbox().subset("time", s.times[at]) for s in subjects])
#     fixed = [ModelFixed(name, model) for name, model in models.items()]
#     evaluated = eval_fixed(fixed, data, method="spearman")
#     print(evaluated)
#
# For mne-rsa, ``mne_rsa.rsa(subject.rdm()[at], models["alive"], metric="spearman")``.

# %%
# Why not one classifier per pair?
# --------------------------------
#
# A classifier trained on the trials of two pictures has to estimate the covariance of
# all channels from these. The model of all pictures estimates it from all trials, which
# helps most if there are few trials per picture:

counts, ours, theirs = [4, 8, 16, 32, 64], [], []
at = int(np.argmin(abs(TIMES - 0.12)))
for n_each in counts:
    X, y, blocks = simulate(1, n_each)
    features = X[:, :, at]
    shared = cross_validate(features, y, groups=blocks, scoring="pairwise_accuracies")
    ours.append(shared.rdm("accuracy")[::4].mean())
    each = []
    for pair in named[::4]:
        rows = np.isin(y, pair)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of features that are collinear
            lda = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
            given = {"groups": blocks[rows], "cv": LeaveOneGroupOut()}
            found = cross_val_predict(lda, features[rows], y[rows], **given)
        each.append(np.mean(found == y[rows]))
    theirs.append(np.mean(each))

fig, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
ax.plot(counts, ours, "o-", label="one model of all pictures")
ax.plot(counts, theirs, "s--", label="shrinkage LDA of each pair")
ax.axhline(0.5, color="0.6", lw=1)
ax.set(xscale="log", xlabel="Trials of each picture", ylabel="Mean accuracy of a pair")
ax.set_xticks(counts, counts)
ax.minorticks_off()
ax.legend(frameon=False)
