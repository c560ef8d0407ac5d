"""
How large a penalty? Estimation and selection without leakage
=============================================================

Simulated trials, and noise. About 20 seconds.

Nothing has to be chosen: ``reg="auto"``, the default of all functions, takes the
penalty from the features and looks at no label. For three of the four kinds of data
below its accuracy is within half a percentage point of the best one. For the fourth it
is 34 points below, and ``reg="tuned"``, which uses labels, 2 points. Trying penalties
and kernels and keeping the best score reaches 0.56 on pure noise.

With more than a handful of channels, a discriminant needs a penalty: without one it
fits the noise. This tutorial looks at the penalties that are taken, shows what happens
if they are selected incorrectly, and compares the alternatives, such as
:class:`~mvpa_kfda.Tuned`.
"""

# %%
# Effects of the penalty
# ----------------------
#
# Channels share noise: a source of artefacts or of ongoing activity reaches many of
# them. A classifier with a small penalty can learn to cancel this noise, one with a
# large penalty cannot. But with a small penalty it also learns the noise of single
# trials. We draw ten data sets of each of four kinds, and average their accuracies.

import warnings
from itertools import product

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.signal import lfilter
from sklearn.model_selection import LeaveOneGroupOut

from mvpa_kfda import (
    RBF,
    DegreesOfFreedom,
    EmpiricalMap,
    Polynomial,
    Shrinkage,
    Tuned,
    cross_validate,
)


def simulate(n_trials, n_features, effect, n_sources=0, spread=0, seed=0):
    """Return trials of two classes, with noise that features share."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n_trials) % 2)
    X = rng.normal(size=(n_trials, n_features))
    X += rng.normal(size=(n_trials, n_sources)) @ (
        3 * rng.normal(size=(n_sources, n_features))
    )
    X += spread * X @ rng.normal(size=(n_features, n_features)) / np.sqrt(n_features)
    direction = rng.normal(size=n_features)
    return X + effect * np.outer(y - 0.5, direction / np.linalg.norm(direction)), y


regs = np.geomspace(1e-5, 1e2, 22)
kinds = {
    "100 trials, 70 features, noise of 5 sources": (100, 70, 3.5, 5),
    "100 trials, 70 features, independent noise": (100, 70, 2.2),
    "60 trials, 300 features, independent noise": (60, 300, 4),
    "80 trials, 60 features, noise in many directions": (80, 60, 2, 0, 2),
}

fig, ax = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
rows = {}
for color, (kind, about) in zip(("C0", "C1", "C2", "C3"), kinds.items(), strict=True):
    sets = [simulate(*about, seed=seed) for seed in range(10)]
    curve = [
        np.mean([cross_validate(*each, reg=reg).scores for each in sets])
        for reg in regs
    ]
    ax.semilogx(regs, curve, color=color, label=kind)
    rows[kind] = {"best": max(curve)}
    for reg, style in (("tuned", {"marker": "s", "mfc": "none"}), ("auto", {})):
        results = [cross_validate(*each, reg=reg) for each in sets]
        rows[kind][reg] = np.mean([result.scores for result in results])
        relative = [
            np.median(result.lambdas) / X.var(axis=0).sum()
            for result, (X, _) in zip(results, sets, strict=True)
        ]
        style = {"marker": "o", "ms": 7, "color": color} | style
        ax.plot(np.median(relative), rows[kind][reg], **style)
ax.set(xlabel="reg = lambda / (trace(K_c) / n)", ylabel="Accuracy (chance: 0.5)")
ax.legend(frameon=False, fontsize="small")
print(pd.DataFrame(rows).T.round(3).to_string())

# %%
# The best penalty differs between kinds of data: no single value suits all of them. The
# circles show the default, ``reg="auto"``. It is near the maximum of the first three
# curves, although no label was used: it suits effects that lie in the directions in
# which trials vary (see :doc:`/method/penalties`). All folds and permutations share it,
# so it costs little more than a fixed value.
#
# When labels are needed
# ----------------------
#
# In the fourth kind of data, noise varies in all directions, but in some far more than
# in others, and there are about as many features as trials. The effect can be found in
# the directions of little noise, if the penalty is small enough to use them. Features
# alone do not tell whether there is an effect. Labels do: the squares show
# ``reg="tuned"``, which on each training set selects from two penalties, the default
# and one for effects in any direction. In the other three kinds they agree with the
# default.
#
# Selecting and reporting on the same trials
# ------------------------------------------
#
# The curves above are cross-validated. It is tempting to report the highest point of
# such a curve. To see what is wrong with it, we do so on data without information: 20
# data sets of pure noise. We take the best of 10 penalties, then the best of 10
# penalties with each of three kernels. Finally, a list of the same 10 penalties as
# ``reg`` selects one within each training set, without using the test trials of this
# fold.

regs = np.geomspace(1e-3, 1e2, 10)
kernels = ["linear", RBF(), Polynomial(degree=2)]
accuracy = {"auto": [], "best of 10": [], "best of 30": [], "selected inside": []}
for seed in range(20):
    X, y = simulate(60, 20, effect=0, seed=1000 + seed)
    tried = np.array(
        [
            [cross_validate(X, y, kernel=kernel, reg=reg).scores for reg in regs]
            for kernel in kernels
        ]
    )
    accuracy["best of 10"].append(tried[0].max())
    accuracy["best of 30"].append(tried.max())
    accuracy["auto"].append(cross_validate(X, y).scores)
    accuracy["selected inside"].append(cross_validate(X, y, reg=regs).scores)

# sphinx_gallery_thumbnail_number = 2
fig, ax = plt.subplots(figsize=(6.5, 3.2), layout="constrained")
jitter = np.random.default_rng(0).uniform(-0.15, 0.15, 20)
for i, values in enumerate(accuracy.values()):
    color = "C3" if i in (1, 2) else "C0"
    ax.plot(i + jitter, values, "o", ms=4, alpha=0.5, mew=0, color=color)
    ax.plot([i - 0.3, i + 0.3], 2 * [np.mean(values)], color=color, lw=2.5)
ax.axhline(0.5, color="0.6", lw=0.8, ls="--")
ax.set_xticks(range(4), accuracy)
ax.set(ylabel="Accuracy (noise)")
for name, values in accuracy.items():
    error = np.std(values, ddof=1) / np.sqrt(len(values))
    print(f"{name}: {np.mean(values):.3f} ± {error:.3f}")

# %%
# The best of 10 is above chance on average, without any information. Each of the 10
# accuracies is unbiased, but their maximum is not: it picks the luckiest draw. The more
# values we try, the higher it gets. This is leakage: the test trials influenced the
# model that is tested on them. With selection within the training sets, accuracies are
# at chance, within their error.
#
# Selection within each training set
# ----------------------------------
#
# How is a penalty selected from a list? For each training set, each penalty is
# evaluated by leave-one-out prediction of the training trials. That sounds expensive:
# 10 folds, 10 penalties and 90 trials are 9,000 models. None of them is trained. All
# their predictions follow from one decomposition of the kernel matrix and one small
# matrix per fold.

X, y = simulate(*kinds["100 trials, 70 features, noise of 5 sources"], seed=6)
result = cross_validate(X, y, reg=regs, n_permutations=200, random_state=0)
print(f"list: {result.scores:.2f}, auto: {cross_validate(X, y).scores:.2f}")
print("lambda of each fold:", result.lambdas.round(1))
result.plot_tuning()

# %%
# Thin lines are folds, the thick line is their mean, and circles are the selected
# values. The squared error is that of the coded classes. The figure shows lambda
# relative to the kernel, like ``reg``; ``result.lambdas`` are in squared units of the
# features, and ``result.degrees_of_freedom`` are the corresponding degrees of freedom.
# All of these are in the :class:`~mvpa_kfda.DecodingResult`.
# :func:`~mvpa_kfda.regress` predicts continuous targets, and lets them select the
# penalty by default.
#
# Correlated trials: leave out groups
# -----------------------------------
#
# Neighbouring trials share slow noise, and successive fMRI volumes are highly
# correlated. If they also belong to the same class, a left-out trial is predicted from
# its neighbour, including its noise. Leave-one-out then rewards models that memorise
# the neighbours. With ``groups``, the inner cross-validation leaves out one group at a
# time, like the outer one; the default takes unseen groups into account, too. Here are
# 6 runs with blocks of 6 trials of one class.


def simulate_runs(seed, n_runs=6, n_each=24, n_features=40, effect=1.5, lasting=0.9):
    """Return trials in blocks of one class, with correlated noise, and their runs."""
    rng = np.random.default_rng(seed)
    direction = rng.normal(size=n_features)
    direction /= np.linalg.norm(direction)
    y = np.concatenate(
        [np.repeat(rng.permutation(np.arange(4) % 2), 6) for _ in range(n_runs)]
    )
    noise = rng.normal(size=(n_runs, n_each, n_features))
    noise[:, 1:] *= np.sqrt(1 - lasting**2)
    noise = lfilter([1], [1, -lasting], noise, axis=1).reshape(-1, n_features)
    runs = np.repeat(np.arange(n_runs), n_each)
    return noise + effect * np.outer(y - 0.5, direction), y, runs


grid = np.geomspace(1e-3, 1e2, 20)
tuned = Tuned(grid)
found = {"one trial": [], "one run": []}
for seed in range(12):
    X, y, runs = simulate_runs(seed)
    found["one run"].append(cross_validate(X, y, groups=runs, reg=tuned))
    outer = list(LeaveOneGroupOut().split(X, y, runs))  # without groups inside
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that trials of a block are correlated
        found["one trial"].append(cross_validate(X, y, cv=outer, reg=tuned))

fig, ax = plt.subplots(figsize=(6.5, 3.4), layout="constrained")
for (way, results), color in zip(found.items(), ("C3", "C0"), strict=True):
    errors = np.mean(
        [each.penalty["criterion"].mean(axis=(0, 1)) for each in results], 0
    )
    ax.semilogx(grid[::-1], errors, color=color, label=f"leaving out {way}")
    ax.plot(grid[::-1][errors.argmin()], errors.min(), "o", color=color)
    df = np.mean([each.degrees_of_freedom.mean() for each in results])
    accuracy = np.mean([each.scores for each in results])
    print(f"Leaving out {way} inside: {df:.0f} degrees of freedom, {accuracy:.3f}")
ax.set(xlabel="reg = lambda / (trace(K_c) / n)", ylabel="Squared error inside")
ax.legend(frameon=False, fontsize="small")

# %%
# Leaving out one trial suggests small errors and selects a flexible model. But such a
# model does not generalize to other runs: with runs left out, its errors are larger
# than those of guessing (0.5), and a much larger penalty is best. The reported accuracy
# is unbiased in both cases, since the outer cross-validation leaves out whole runs.
# Only the selection is worse; how much this costs depends on the data.
#
# Selecting a kernel
# ------------------
#
# From a list of kernels, one is selected together with the penalty, again without bias.
# Here class 1 surrounds class 0 in the first two features, so a linear kernel fails. (A
# name stands for a kernel with default parameters: ``"linear"`` for
# :class:`~mvpa_kfda.Linear`, ``"rbf"`` for :class:`~mvpa_kfda.RBF`.)

rng = np.random.default_rng(0)
X = rng.normal(size=(120, 6))
y = (np.hypot(X[:, 0], X[:, 1]) > 1.2).astype(int)
result = cross_validate(
    X, y, kernel=["linear", RBF(0.02), RBF(0.2), Polynomial(2)], reg="tuned"
)
print(f"accuracy {result.scores:.2f}")
print(f"linear: {cross_validate(X, y, reg='tuned').scores:.2f}")
names = ["linear", "RBF(0.02)", "RBF(0.2)", "Polynomial(2)"]
print(pd.Series(names)[result.penalty["kernel"]].value_counts().to_string())
result.plot_tuning()

# %%
# Textbooks, and other toolboxes with kernel Fisher discriminants, place the penalty on
# the dual coefficients, the weights of the trials. :class:`~mvpa_kfda.EmpiricalMap`
# gives this classifier for any kernel.

fig, ax = plt.subplots(figsize=(6.5, 3.2), layout="constrained")
wide = np.geomspace(1e-6, 1e2, 25)
penalised = {"in the kernel's feature space": RBF(0.2)}
penalised["on dual coefficients"] = EmpiricalMap(RBF(0.2))
for name, kernel in penalised.items():
    curve = [cross_validate(X, y, kernel=kernel, reg=reg).scores for reg in wide]
    ax.semilogx(wide, curve, label=name)
ax.axvline(0.3, color="0.6", lw=0.8, ls="--")
ax.set(xlabel="reg = lambda / (trace(K_c) / n)", ylabel="Accuracy (chance: 0.5)")
ax.legend(frameon=False, fontsize="small", title="Penalty")

# %%
# Both solve the task, but with different penalties. Penalising dual coefficients is
# like squaring the kernel matrix. So do not transfer a value from one to the other, or
# from a program that uses the other.
#
# Other penalties without labels
# ------------------------------
#
# Like the default, these cost almost nothing with permutations, as all of them share
# one inverse, and nothing can leak. :class:`~mvpa_kfda.DegreesOfFreedom` sets the
# flexibility of the model, which is easier to compare between data sets than a penalty.
# ``"ledoit_wolf"`` and ``"oas"`` estimate the optimal shrinkage of the covariance.

X, y = simulate(*kinds["100 trials, 70 features, noise of 5 sources"], seed=6)
rows = {}
ways = ("auto", "tuned", 0.3, DegreesOfFreedom(30), "ledoit_wolf", "oas")
for reg in (*ways, Shrinkage(0.05)):
    result = cross_validate(X, y, reg=reg)
    rows[str(reg)] = {
        "lambda": np.mean(result.lambdas),
        "degrees of freedom": np.mean(result.degrees_of_freedom),
        "accuracy": result.scores,
    }
print(pd.DataFrame(rows).T.round(2).to_string())

# %%
# :doc:`/benchmarks` compares all of them on many kinds of data.
#
# Valid p-values
# --------------
#
# What labels select, penalty and kernel, is selected again for each permutation. The
# null distribution thus accounts for the selection, and p-values are valid: on noise,
# at most 5 % of them are at or below 0.05. This is not the case if we first search for
# the best of all, and then permute labels with this one.

counts = {"tuned inside": 0, "best of 30": 0}
n_sets = 30
for seed in range(n_sets):
    X, y = simulate(40, 10, effect=0, seed=2000 + seed)
    options = {"cv": 5, "n_permutations": 19, "random_state": seed}
    result = cross_validate(X, y, kernel=kernels, reg=Tuned(regs), **options)
    counts["tuned inside"] += result.pvalues() <= 0.05
    kernel, reg = max(
        product(kernels, regs),
        key=lambda pair: cross_validate(X, y, kernel=pair[0], reg=pair[1], cv=5).scores,
    )
    result = cross_validate(X, y, kernel=kernel, reg=reg, **options)
    counts["best of 30"] += result.pvalues() <= 0.05
for name, count in counts.items():
    print(f"{name}: p <= 0.05 in {count} of {n_sets} data sets of noise")
