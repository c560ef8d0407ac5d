"""
Decoding responses: were the labels randomised?
===============================================

Simulated responses of one person, and recordings without any effect. About 20 seconds.

``permute="transitions"`` keeps how often responses repeat, ``permute="trend"`` how they
change over time. Of recordings without an effect, a person who tends to repeat
responses makes 14% significant, and 4% with the first scheme; a person who learns makes
25% significant, and 3% with the second.

A permutation test asks what the score would have been in another order of the labels.
If the experimenter drew the order at random, all orders are alike. Responses, errors
and ratings come from the participant: they repeat, and they change as people learn or
tire. So does the signal. Permuted labels then have to keep what the order has.
"""

# %%
# A person who repeats responses
# ------------------------------
#
# In six runs of 36 trials, the person answers "yes" or "no", and repeats the previous
# response with a probability of 0.7.

# sphinx_gallery_thumbnail_number = 1
import warnings

import matplotlib.pyplot as plt
import numpy as np
from scipy.signal import lfilter

from mvpa_kfda import check_design, decode_arrays
from mvpa_kfda.inference.permutation import permute_labels

N_RUNS, N = 6, 36
runs = np.repeat(np.arange(1, N_RUNS + 1), N)
rng = np.random.default_rng(1)
changes = rng.random((N_RUNS, N)) > 0.7
responses = np.array(["no", "yes"])[(changes.cumsum(axis=1) % 2).ravel()]

# %%
# ``check_design`` simulates recordings without an effect, decodes them with these
# labels, and warns. The warning says which scheme helps, and how much.

design = check_design(responses, runs)
print(design)

# %%
# Permuted within runs, labels no longer form stretches. With ``"transitions"`` the
# stretches stay, and their lengths are exchanged: each permutation has the same number
# of changes from "yes" to "no" and back in each run. If a response depends only on the
# one before, these labellings are exactly as probable as the observed one, and the test
# is exact, whatever the noise.

answers = (responses == "yes").astype(int)
schemes = {"within_groups": "within runs", "transitions": "transitions kept"}
figure, axes = plt.subplots(3, 1, figsize=(8, 4.2), sharex=True, layout="constrained")
rows = {"observed": answers}
for scheme, words in schemes.items():
    options = {"groups": runs, "permute": scheme, "random_state": 0}
    rows[words] = permute_labels(answers, 1, folds=None, **options).labels[1]
for ax, (words, labels) in zip(axes, rows.items(), strict=True):
    ax.imshow(labels.reshape(N_RUNS, N), aspect="auto", cmap="cividis")
    ax.set(ylabel="run", title=f"{words}: yellow is yes", yticks=[0, 5])
    ax.set_yticklabels([1, 6])
axes[-1].set_xlabel("trial")

# %%
# Recordings without an effect
# ----------------------------
#
# Noise that lasts from trial to trial (correlation 0.9 between successive trials), in
# ten channels. The time points of this array are 300 separate recordings. A valid test
# finds 5% of them at p ≤ 0.05, and its p-values lie on the diagonal.


def significant(noise, labels, title):
    """Decode recordings without an effect with each scheme, and show p-values."""
    ax = plt.subplots(figsize=(5, 4), layout="constrained")[1]
    options = {"groups": runs, "scoring": "roc_auc", "reg": 0.1, "random_state": 0}
    for permute in ("within_groups", "transitions", "trend"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # check_design has said it
            result = decode_arrays(
                noise, labels, permute=permute, n_permutations=199, **options
            )
        p = np.sort(result.pvalues("none"))
        share = f"{np.mean(p <= 0.05):.0%} at p ≤ 0.05"
        ax.plot(p, np.linspace(0, 1, len(p)), label=f"{permute}: {share}")
        print(f"{permute}: {share}")
    ax.plot([0, 1], [0, 1], color="grey", linestyle=":")
    ax.axvline(0.05, color="grey", linewidth=0.5)
    ax.set(xlabel="p-value", ylabel="proportion of recordings", title=title)
    ax.legend()


shape = (N_RUNS, N, 10, 300)
lasting = lfilter([1], [1, -0.9], rng.standard_normal(shape), axis=1)
significant(lasting.reshape(-1, *shape[2:]), responses, "Responses that repeat")

# %%
# A person who learns
# -------------------
#
# In each run new stimuli are learned, and the proportion of correct answers rises from
# 40 to 90%. Signals drift in each run in the same way, as people get used to the task.
# Stretches are not what matters here. ``permute="trend"`` fits the probability of each
# class to the position by logistic regression, and draws permutations accordingly. It
# is approximate, since the probabilities are estimated.

rng, position = np.random.default_rng(4), np.linspace(-1, 1, N)
correct = rng.random((N_RUNS, N)) < 0.65 + 0.25 * position
answers = np.where(correct, "correct", "wrong").ravel()
print(check_design(answers, runs))

# %%
curves = 0.4 * np.einsum(
    "ik,kcr->icr", np.vander(position, 3)[:, :2], rng.standard_normal((2, *shape[2:]))
)
drifting = rng.standard_normal(shape) + curves
significant(drifting.reshape(-1, *shape[2:]), answers, "Answers that improve")

# %%
# Which scheme?
# -------------
#
# If the order was randomised, leave ``permute`` out. If not, use the scheme that keeps
# what the labels have: ``"transitions"`` for sequences in which a label depends on the
# previous one, ``"trend"`` for those that change over the recording, and decide before
# you see the scores. Neither helps if a slow response to one trial is still there in
# the next: pass the previous label as a confound. :doc:`/guide/unrandomised` has
# measured error rates, and says what is lost.
