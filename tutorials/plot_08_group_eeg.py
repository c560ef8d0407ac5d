"""
What holds for people in general? A group with EEG
==================================================

Simulated EEG of twelve people. About 20 seconds.

Twelve participants were recorded, and each was decoded. What do their results say about
people in general? That *some* have an effect, or that it is typical? This tutorial asks
both questions of simulated EEG, where we know the answer. It then looks at latencies
and compares two decoders. All of it is done with the files of the single results alone,
as it would be on another computer, without the data.
"""

# %%
# The first level
# ---------------
#
# Every participant sees two classes of stimuli in 160 trials. Ten of the twelve have
# information about them in their EEG, some more and some less. Two have none. Each is
# decoded with 50 label permutations, which the tests of a group are made of, and
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
        recording.crop(-0.1, 0.55)
    options = {
        "window": 0.04,
        "step": 0.02,
        "n_permutations": 50,
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
# The file "other.h5" holds what would have come out if those with an effect had none,
# and the other way round. It lets us make up other groups below.
#
# Prevalence: how many have it?
# -----------------------------
#
# Prevalence inference [1]_ looks at the participant with the *lowest* score. If even
# this score is higher than one would expect, then not all of them are without an
# effect. For the null distribution, a permuted result of each is picked at random, over
# and over again.

files = sorted(folder.glob("sub-*/result.h5"))
group = group_inference(files, method="prevalence", correction="max", random_state=0)
print(group)
group.plot()

# %%
# The bars mark where the *global* null hypothesis is rejected, that nobody in the
# population has an effect. The panel below has the prevalence bound
# :math:`\gamma_0`: with 95 % confidence, more than this share of the population has an
# effect at that time, for all times at once. Where the bound is above one half, an
# effect is shown for the majority. The :class:`~mvpa_kfda.GroupResult` has the same as
# p-values:

for hypothesis in ("global", "majority", 0.6):
    significant = group.pvalues(hypothesis=hypothesis) <= 0.05
    print(f"{hypothesis!s:>8}: {significant.sum():2d} time points with p <= 0.05")
print(f"Largest bound: {np.nanmax(group.gamma_0):.3f}")
print(f"No data of 12 could give more than {group.largest_gamma_0:.3f}.")

# %%
# In truth ten of twelve have an effect. A bound is not an estimate: the share is
# *higher* than this, and nobody knows by how much. With more participants, or for
# fewer time points that are chosen beforehand, the bound can be higher.
#
# The correction of the global null compares with the largest statistic over all time
# points, one for each of the second-level permutations. Beyond the dashed line p is at
# most 0.05. For the majority it is Holm's method.

group.plot_null()

# %%
# What a t-test says
# ------------------
#
# The usual test asks whether the *mean* accuracy is above chance. True accuracies can
# not be below it. So the mean is above chance as soon as *anybody* has an effect, and
# this is all that a significant test says. How few are enough? Let k participants have
# one and the same score above chance, and all others be exactly at chance:

for n in (12, 50, 1000):
    k = np.arange(1, n)
    t = np.sqrt(k * (n - 1) / (n - k))  # of k ones and n - k zeros
    p = stats.t.sf(t, n - 1)
    fewest = k[p <= 0.05][0]
    print(f"{fewest} of {n} are enough: p = {p[fewest - 1]:.3f}")

# %%
# Three, whatever the number of the others. With noise it takes some more. We make up
# groups in which fewer and fewer have the effect, and ask of each: Is the mean above
# chance? This is tested with random signs of the participants and a correction by
# clusters. There are only 4096 ways to give signs to twelve, the data and 4095 besides,
# so all of them are used, and the test is exact. And does prevalence inference find
# that somebody, or the majority, has an effect?

order = [*(number for number in range(1, 13) if number not in without), *without]
shares = [12, 10, 8, 6, 4, 2, 0]
questions = {
    "the mean is above chance": ("sign-flip", "global", "#D55E00"),
    "somebody has an effect": ("prevalence", "global", "#56B4E9"),
    "the majority has an effect": ("prevalence", "majority", "#0072B2"),
}
fig, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
for row, share in enumerate(shares):
    made_up = []
    for rank, number in enumerate(order):
        as_it_is = (rank < share) == (number not in without)
        file = "result.h5" if as_it_is else "other.h5"
        made_up.append(folder / f"sub-{number:02d}" / file)
    tests = {
        "sign-flip": group_inference(made_up, "sign-flip", "cluster", random_state=0),
        "prevalence": group_inference(made_up, "prevalence", "max", random_state=0),
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
ax.set_title("Time points with p ≤ 0.05, by how many have an effect", fontsize="medium")
ax.spines[["top", "right"]].set_visible(False)
fig.legend(loc="outside lower center", ncols=3, frameon=False, fontsize="small")

# %%
# With four of twelve, the mean is significantly above chance, and most of the
# participants have no effect. This is not an error of the test. It answers another
# question. Prevalence inference finds the majority at many time points where all have
# the effect, and says nothing when it is none. The price is paid with ten and with
# eight of twelve: the lowest score is that of a participant without an effect, which is
# seldom high.
#
# A t-test (``method="t"``), Wilcoxon's test and the bootstrap of mean scores can not
# tell a few participants from most of them, either.
#
# When does it start?
# -------------------
#
# Drawing participants with replacement shows how far onset and peak would vary with
# other participants. The onset is where the mean has climbed to half of its peak above
# chance. The time course has two bumps, so the ``window`` says which one is meant:
# otherwise some resamples would have their peak in one of them and some in the other.
# A :class:`~mvpa_kfda.Latency` has both, and their intervals.

latency = bootstrap_latency(files, window=(0.05, 0.25), random_state=0)
print(latency.to_dataframe().round(3))
latency.plot()

# %%
# The first *significant* time point is no onset: with more participants it tends
# to be earlier.
#
# Comparing two decoders
# ----------------------
#
# The other file of each participant comes from a classifier with an RBF kernel. Is the
# linear one better? Both decoded the same people, so the test is paired: it is about
# the difference within each of them.

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
# The linear one is a little better, as the simulated classes differ in little else than
# their means. Is its onset earlier, too? An interval that holds 0 leaves this open.

difference = bootstrap_latency(
    files, other=rbf_files, paired=True, window=(0.05, 0.25), random_state=0
)
print(difference)

# %%
# Within a single participant, `compare` has two tests. One takes the difference under
# the same label permutations and asks whether either decodes at all. The other flips
# signs of trials and asks whether both are right equally often. The trials of a test
# set share a classifier, so they are not independent, and where decoding is weak, the
# flips alone find far too many differences. ``method="both"`` has the larger of the two
# p-values. In this participant it finds none: a small difference takes many people.
# What :func:`~mvpa_kfda.compare` makes is a :class:`~mvpa_kfda.ComparisonResult`.

own = folder / "sub-05"
comparison = compare(own / "result.h5", own / "rbf.h5", "both", "max", random_state=0)
print(comparison)
comparison.plot()

# %%
# Tables, files, and the command line
# -----------------------------------
#
# A result of a group goes into a table and into a file, as all results do.

table = group.to_dataframe()
print(table[table["time"].between(0.12, 0.2)].round(4).to_string(index=False))
group.save(folder / "group.h5")
print(load_result(folder / "group.h5") == group)

# %%
# The same without a line of Python, in a terminal::
#
#     mvpa-kfda group sub-*/result.h5 --method prevalence --correction max --out group
#
# It writes the result, the table and the figures. From here on, Python stands in for
# the terminal.


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
