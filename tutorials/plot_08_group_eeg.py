"""
Does it hold in the population? Group analysis of EEG
=====================================================

Simulated EEG of twelve people. About 15 seconds.

``group_inference(files, "prevalence", "max")`` combines the saved results of the
subjects. Here it shows at 10 of 25 time points that someone in the population has an
effect, and at the best of them that a proportion of more than 0.55 does; in fact, ten
of twelve do. ``"sign-flip"`` tests the mean, :func:`~mvpa_kfda.bootstrap_latency`
estimates when decoding starts and peaks, and :func:`~mvpa_kfda.compare` tests two
decoders.

Twelve participants were recorded, and each was decoded separately. What do their
results tell us about the population: that *some* people show the effect, or that it is
typical? We ask both questions of simulated EEG, where the answer is known. Everything
here uses only the saved results, so it could run on another computer without access to
the data.
"""

# %%
# The first level
# ---------------
#
# Each participant sees two classes of stimuli in 160 trials. In ten of the twelve, the
# EEG has information about them, to varying degrees. In two there is none. Each is
# decoded with 50 label permutations, on which the group tests are based, and
# everything is saved.

# sphinx_gallery_thumbnail_number = 1
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

from mvpa_kfda import (
    bootstrap_latency,
    compare,
    decode_epochs,
    group_inference,
    load_result,
    simulate_epochs,
)
from mvpa_kfda.cli.main import main

rng = np.random.default_rng(0)
strengths = rng.uniform(0.1, 0.3, size=12)
without = (4, 9)  # the participants without an effect
folder = Path(tempfile.mkdtemp())

for number, strength in enumerate(strengths, start=1):
    # The same recording with and without an effect: its noise depends on the seed.
    simulation = {"n_trials": 160, "n_classes": 2, "random_state": number}
    epochs = simulate_epochs(snr=strength, **simulation)
    other = simulate_epochs(snr=0, **simulation)
    if number in without:
        epochs, other = other, epochs
    for recording in (epochs, other):
        recording.crop(-0.06, 0.46)
    options = {
        "window": 0.04,
        "step": 0.02,
        "n_permutations": 50,
        "cv": 5,
        "random_state": number,
    }
    own = folder / f"sub-{number:02d}"
    own.mkdir()
    decode_epochs(epochs, **options).save(own / "result.h5")
    decode_epochs(epochs, kernel="rbf", **options).save(own / "rbf.h5")
    decode_epochs(other, **options).save(own / "other.h5")

for name in ("sub-01", "sub-04"):
    print(name, load_result(folder / name / "result.h5"))

# %%
# The file "other.h5" contains the opposite result: without an effect for participants
# who have one, and with an effect for the others. We use it to compose other groups
# below.
#
# Prevalence: how many show the effect?
# -------------------------------------
#
# Prevalence inference [1]_ is based on the *lowest* score of all participants. If even
# this score is higher than expected by chance, at least some of them have an effect.
# For the null distribution, one permuted result of each participant is drawn at random,
# many times.

files = sorted(folder.glob("sub-*/result.h5"))
group = group_inference(files, method="prevalence", correction="max", random_state=0)
group

# %%
# ``plot`` draws the figure in full size.

group.plot()

# %%
# The bars mark where the *global* null hypothesis is rejected, that nobody in the
# population has an effect. The panel below shows the prevalence bound :math:`\gamma_0`:
# with 95 % confidence, more than this proportion of the population has an effect at
# that time, simultaneously for all times. Where the bound is above one half, an effect
# is shown for the majority. The :class:`~mvpa_kfda.GroupResult` has the corresponding
# p-values:

for hypothesis in ("global", "majority", 0.6):
    significant = group.pvalues(hypothesis=hypothesis) <= 0.05
    print(f"{hypothesis!s:>8}: {significant.sum():2d} time points with p <= 0.05")
print(f"Largest bound: {np.nanmax(group.gamma_0):.3f}")
print(f"Largest attainable bound with 12 subjects: {group.largest_gamma_0:.3f}")

# %%
# In fact, ten of twelve have an effect. A bound is not an estimate: the proportion is
# *higher* than the bound, but we do not know by how much. With more participants, or
# fewer time points chosen beforehand, the bound can be higher.
#
# The correction for the global null compares each statistic with the distribution of
# the largest statistic over all time points, one for each second-level permutation.
# Beyond the dashed line, p is at most 0.05. The majority null is corrected with Holm's
# method.

group.plot_null()

# %%
# What is the most probable proportion? :class:`~mvpa_kfda.Prevalence` is its posterior,
# based on the number of people who are significant by their own permutations. It refers
# to effects that such data can detect in one person, and to each time point separately:
# the largest bound supports no claim. The difference between the proportions of two
# groups is a :class:`~mvpa_kfda.PrevalenceDifference`.

group.prevalence().plot()

# %%
# How large is the effect on average? :class:`~mvpa_kfda.MeanInterval` contains the
# means that a sign-flip test does not reject, here at all time points simultaneously.

interval = group.interval(simultaneous=True)
best = np.argmax(interval.mean)
print(
    f"At {1000 * interval.times[best]:.0f} ms the mean accuracy is between "
    f"{interval.low[best]:.2f} and {interval.high[best]:.2f}."
)

# %%
# Interpreting a t-test
# ---------------------
#
# The usual test asks whether the *mean* accuracy is above chance. True accuracies
# cannot be below chance. So the mean is above chance as soon as *anyone* has an effect,
# and this is all that a significant test shows. How few are enough? Suppose that k
# participants have the same score above chance, and all others are exactly at chance:

for n in (12, 50, 1000):
    k = np.arange(1, n)
    t = np.sqrt(k * (n - 1) / (n - k))  # of k ones and n - k zeros
    p = stats.t.sf(t, n - 1)
    fewest = k[p <= 0.05][0]
    print(f"{fewest} of {n} participants are enough: p = {p[fewest - 1]:.3f}")

# %%
# Three are enough, whatever the number of the others. With noise a few more are needed.
# We compose groups in which fewer and fewer participants have the effect, and ask for
# each: is the mean above chance? This is tested with random sign flips of the
# participants and a cluster correction. For twelve participants there are only 4096
# sign patterns, including the observed one, so all of them are used, and the test is
# exact if, without an effect, scores are distributed symmetrically around chance. And
# does prevalence inference find that someone, or the majority, has an effect?

order = [*(number for number in range(1, 13) if number not in without), *without]
shares = [12, 10, 8, 6, 4, 2, 0]
questions = {
    "the mean is above chance": ("sign-flip", "global", "#D55E00"),
    "someone has an effect": ("prevalence", "global", "#56B4E9"),
    "the majority has an effect": ("prevalence", "majority", "#0072B2"),
}
loaded = {  # each file is read once, for all groups
    (path.parent.name, path.name): load_result(path)
    for name in ("result.h5", "other.h5")
    for path in folder.glob(f"sub-*/{name}")
}
fig, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
for row, share in enumerate(shares):
    made_up = []
    for rank, number in enumerate(order):
        as_it_is = (rank < share) == (number not in without)
        file = "result.h5" if as_it_is else "other.h5"
        made_up.append(loaded[f"sub-{number:02d}", file])
    tests = {
        "sign-flip": group_inference(made_up, "sign-flip", "cluster", random_state=0),
        "prevalence": group_inference(
            made_up, "prevalence", "max", n_permutations=2000, random_state=0
        ),
    }
    for k, (method, hypothesis, color) in enumerate(questions.values()):
        tested = tests[method]
        times = tested.times[tested.pvalues(hypothesis=hypothesis) <= 0.05]
        heights = np.full(len(times), row + 0.22 * (k - 1))
        ax.plot(times, heights, "s", color=color, ms=4)
for name, (*_, color) in questions.items():
    ax.plot([], [], "s", color=color, ms=4, label=name)
ax.axvline(0, color="black", lw=0.8)
ax.hlines(np.arange(0.5, 6), *tested.times[[0, -1]], color="0.9", lw=0.8)
ax.set(xlabel="Time (s)", xlim=tested.times[[0, -1]], ylim=(6.6, -0.6))
ax.set_yticks(range(7), [f"{share} of 12" for share in shares])
ax.set_title("Time points with p ≤ 0.05, by number with an effect", fontsize="medium")
ax.spines[["top", "right"]].set_visible(False)
fig.legend(loc="outside lower center", ncols=3, frameon=False, fontsize="small")

# %%
# With four of twelve, the mean is significantly above chance, although most
# participants have no effect. This is not an error of the test; it answers another
# question. Prevalence inference shows a majority effect at many time points if all
# participants have the effect, and nothing if none has. The price is low power with ten
# or eight of twelve: the lowest score is then that of a participant without an effect,
# which is rarely high.
#
# A t-test (``method="t"``), Wilcoxon's test and the bootstrap of mean scores cannot
# distinguish between a few and most participants, either.
#
# Latencies
# ---------
#
# When does decoding start, and when does it peak? Resampling participants with
# replacement shows how much onset and peak would vary with other participants. The
# onset is the time at which the mean reaches half of its peak height above chance. The
# time course has two peaks, so we select one with ``window``: otherwise some resamples
# would have their peak in one of them and some in the other. A
# :class:`~mvpa_kfda.Latency` contains onset, peak and their confidence intervals.

latency = bootstrap_latency(files, window=(0.05, 0.25), random_state=0)
print(latency.to_dataframe().round(3))
latency.plot()

# %%
# The first *significant* time point is not an onset: with more participants it tends to
# be earlier.
#
# Comparing two decoders
# ----------------------
#
# We also saved the results of a classifier with an RBF kernel. Is the linear one
# better? Both decoded the same people, so the test is paired: it tests the difference
# within each participant.

rbf_files = sorted(folder.glob("sub-*/rbf.h5"))
paired = group_inference(
    files,
    "sign-flip",
    "max",
    other=rbf_files,
    paired=True,
    labels=("linear", "RBF"),
    random_state=0,
)
print(paired)
paired.plot()

# %%
# The linear kernel is slightly better, as the simulated classes differ mostly in their
# means. Is its onset earlier, too? The interval contains 0, so this is not shown.

difference = bootstrap_latency(
    files, other=rbf_files, paired=True, window=(0.05, 0.25), random_state=0
)
print(difference)

# %%
# Within a single participant, `compare` compares the difference with its distribution
# under shared label permutations; its null hypothesis is that neither decodes. To show
# a small difference between decoders that both perform well requires many people.
# :func:`~mvpa_kfda.compare` returns a :class:`~mvpa_kfda.ComparisonResult`.

own = folder / "sub-12"
comparison = compare(own / "result.h5", own / "rbf.h5")
comparison

# %%
# Tables, files, and the command line
# -----------------------------------
#
# Like all results, group results can be exported as a table and saved to a file.

table = group.to_dataframe()
print(table[table["time"].between(0.12, 0.2)].round(4).to_string(index=False))
group.save(folder / "group.h5")
print(load_result(folder / "group.h5") == group)

# %%
# The command-line equivalent is::
#
#     mvpa-kfda group sub-*/result.h5 --method prevalence --correction max --out group
#
# It writes the result, the table and the figures. Here we call it from Python instead
# of a terminal.


names = [str(file) for file in files]
options = ["--method", "prevalence", "--correction", "max", "--out"]
main(["group", *names, *options, str(folder / "group")])

# %%
# References
# ----------
#
# .. [1] Allefeld, C., Goergen, K., & Haynes, J.-D. (2016). Valid population inference
#    for information-based imaging: From the second-level t-test to prevalence
#    inference. NeuroImage, 141, 378-392.
