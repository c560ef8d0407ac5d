"""
How large a penalty? Selection without leakage
==============================================

Simulated EEG, and noise. About 15 seconds.

Nothing has to be chosen: ``reg="auto"``, the default of all functions, selects the
penalty within each training set, and again for each permutation. On noise, accuracy is
then at chance, 0.49 ± 0.018 in 20 data sets, whereas the best of 30 penalties and
kernels reaches 0.56 without any information. Where there is information, the selected
penalties are near the best ones.

With more than a handful of channels, a discriminant needs a penalty: without one it
fits the noise. Trying several values and keeping the best one is valid, provided that
test trials are not involved. This tutorial looks at the selected values, shows what
happens if the selection is done incorrectly, and compares the alternatives, such as
:class:`~mvpa_kfda.Tuned`.
"""

# %%
# Effects of the penalty
# ----------------------
#
# Channels share noise: a source of artefacts or of ongoing activity reaches many of
# them. A classifier with a small penalty can learn to cancel this noise, one with a
# large penalty cannot. But with a small penalty it also learns the noise of single
# trials.

from itertools import product

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.signal import lfilter
from sklearn.model_selection import LeaveOneOut

from mvpa_kfda import (
    RBF,
    DegreesOfFreedom,
    EmpiricalMap,
    Polynomial,
    Shrinkage,
    Tuned,
    cross_validate,
    decode_epochs,
    simulate_epochs,
)


def simulate(n_trials, n_features, effect, n_sources=0, seed=0):
    """Return trials of two classes, with noise from shared sources."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n_trials) % 2)
    X = rng.normal(size=(n_trials, n_features))
    X += rng.normal(size=(n_trials, n_sources)) @ (
        3 * rng.normal(size=(n_sources, n_features))
    )
    direction = rng.normal(size=n_features)
    return X + effect * np.outer(y - 0.5, direction / np.linalg.norm(direction)), y


regs = np.geomspace(1e-5, 1e2, 22)
problems = {
    "100 trials, 70 features, shared noise": simulate(100, 70, 3.5, 5, seed=6),
    "100 trials, 70 features, independent noise": simulate(100, 70, 2.2),
    "60 trials, 300 features, independent noise": simulate(60, 300, 4, seed=1),
}

fig, ax = plt.subplots(figsize=(6.5, 3.4), layout="constrained")
for name, (X, y) in problems.items():
    scores = [cross_validate(X, y, reg=reg).scores for reg in regs]
    (line,) = ax.semilogx(regs, scores, label=name)
    result = cross_validate(X, y)  # reg="auto" is the default
    chosen = result.lambdas / result.penalty["scale"][..., 0]
    ax.plot(np.median(chosen), result.scores, "o", color=line.get_color())
    print(f"{name}: {result.scores:.2f}")
ax.set(xlabel="reg = lambda / (trace(K_c) / n)", ylabel="Accuracy (chance: 0.5)")
ax.legend(frameon=False, fontsize="small")

# %%
# The best penalty differs between data sets: no single value suits all of them. The
# circles show the default, ``reg="auto"``, at the median of the values selected on the
# ten training sets. They are near the maximum of their curves, and test trials were not
# involved: on each training set, generalized cross-validation estimates in closed form
# how well each of 13 penalties predicts left-out trials (see
# :doc:`/method/penalties`).
#
# Selecting and reporting on the same trials
# ------------------------------------------
#
# The curves above are cross-validated. It is tempting to report the highest point of
# such a curve. To see what is wrong with it, we do so on data without information: 20
# data sets of pure noise. We take the best of 10 penalties, then the best of 10
# penalties with each of three kernels. Finally, ``reg=Tuned(...)`` selects from the
# same 10 penalties, but within each training set, without using the test trials of this
# fold.

regs = np.geomspace(1e-3, 1e2, 10)
kernels = ["linear", RBF(), Polynomial(degree=2)]
accuracy = {"auto": [], "best of 10": [], "best of 30": [], "tuned inside": []}
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
    accuracy["tuned inside"].append(cross_validate(X, y, reg=Tuned(regs)).scores)

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
# The default estimates the error for left-out trials. ``reg="tuned"`` computes it. For
# each training set, each penalty of the grid is evaluated by leave-one-out prediction
# of the training trials. That sounds expensive: 10 folds, 20 penalties and 90 trials
# are 18,000 models. None of them is trained. All their predictions follow from one
# decomposition of the kernel matrix and one small matrix per fold (see
# :doc:`/method/penalties`).

X, y = problems["100 trials, 70 features, shared noise"]
result = cross_validate(X, y, reg="tuned", n_permutations=200, random_state=0)
print(f"tuned: {result.scores:.2f}, auto: {cross_validate(X, y).scores:.2f}")
print(f"reg=0.3: {cross_validate(X, y, reg=0.3).scores:.2f}")
print("lambda of each fold:", result.lambdas.round(1))
result.plot_tuning()

# %%
# Thin lines are folds, the thick line is their mean, and circles are the selected
# values. The grid spans the eigenvalues of the kernel matrix. The figure shows lambda
# relative to the kernel, like ``reg``; ``result.lambdas`` are in squared units of the
# features, and ``result.degrees_of_freedom`` are the corresponding degrees of freedom.
# All of these are in the :class:`~mvpa_kfda.DecodingResult`. :func:`~mvpa_kfda.regress`
# predicts continuous targets with the same penalties.
#
# Although nothing is trained, this has a cost: a tuned penalty takes 10 to 40 times as
# long as a fixed one, the default two to twelve times with permutations. A short grid,
# ``Tuned([0.01, 0.1, 1, 10, 100])``, takes a third of the time of the long one.
#
# Which penalty is *best* depends on the ``criterion``: the squared error of the coded
# classes (the default), accuracy, or the log loss of the probabilities. Accuracy is
# what we are interested in, but with few trials it changes in steps, so that many
# penalties are equally good, and differences between others are due to chance. The
# squared error is smooth.

rows = {}
for criterion in ("squared_error", "accuracy", "log_loss"):
    tuned = Tuned(criterion=criterion)
    each = [cross_validate(*problem, reg=tuned).scores for problem in problems.values()]
    rows[criterion] = dict(zip(problems, each, strict=True))
print(pd.DataFrame(rows).round(2).to_string())

# %%
# Over time
# ---------
#
# In :func:`~mvpa_kfda.decode_epochs` and all other functions, the penalty is selected
# separately at each position. If classes differ strongly, a flexible model is better.
# If they do not differ, there is nothing to learn and the largest penalties are
# selected. The degrees of freedom, here averaged over folds, show this;
# ``tuned.plot_tuning()`` draws them, too.

epochs = simulate_epochs(
    120, n_classes=3, snr=0.4, sfreq=50, tmin=-0.1, tmax=0.6, random_state=1
)
tuned = decode_epochs(epochs, reg="tuned", groups="block", verbose=False)
auto = decode_epochs(epochs, groups="block", verbose=False)
fixed = decode_epochs(epochs, reg=0.3, groups="block", verbose=False)

fig, (top, below) = plt.subplots(
    2, 1, figsize=(6.5, 4.4), sharex=True, layout="constrained"
)
top.plot(tuned.times, tuned.scores, label="tuned")
top.plot(auto.times, auto.scores, color="C1", label="auto")
top.plot(fixed.times, fixed.scores, color="0.5", lw=1, label="reg=0.3")
top.axhline(1 / 3, color="0.6", lw=0.8, ls="--")
top.set(ylabel="Accuracy")
top.legend(frameon=False, fontsize="small")
below.plot(tuned.times, tuned.degrees_of_freedom, color="C0", lw=0.5, alpha=0.4)
below.plot(tuned.times, tuned.degrees_of_freedom.mean(axis=1), color="C0", lw=2)
below.plot(auto.times, auto.degrees_of_freedom.mean(axis=1), color="C1", lw=2)
below.plot(fixed.times, fixed.degrees_of_freedom, color="0.5", lw=1)
below.set(xlabel="Time (s)", ylabel="Degrees of freedom")

# %%
# Do not interpret this as a map of information: it only shows the flexibility of the
# model. At times without information, folds disagree about a choice that does not
# matter.
#
# Correlated trials: leave out groups
# -----------------------------------
#
# Neighbouring trials share slow noise, and successive fMRI volumes are highly
# correlated. If they also belong to the same class, a left-out trial is predicted from
# its neighbour, including its noise. Leave-one-out then rewards models that memorise
# the neighbours. With ``groups``, the inner cross-validation leaves out one group at a
# time, like the outer one. Here are 6 runs with blocks of 6 trials of one class.


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


ways = {"one trial": LeaveOneOut(), "one run": None}  # None: a group, if there are any
grid = np.geomspace(1e-3, 1e2, 20)
found = {way: [] for way in ways}
for seed in range(12):
    X, y, runs = simulate_runs(seed)
    for way, cv in ways.items():
        found[way].append(cross_validate(X, y, groups=runs, reg=Tuned(grid, cv=cv)))

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
# Penalties without labels
# ------------------------
#
# Other options do not use labels at all. They cost almost nothing with permutations, as
# all of them share one inverse, and nothing can leak.
# :class:`~mvpa_kfda.DegreesOfFreedom` sets the flexibility of the model, which is
# easier to compare between data sets than a penalty. ``"ledoit_wolf"`` and ``"oas"``
# estimate the optimal shrinkage of the covariance from the trials alone.

X, y = problems["100 trials, 70 features, shared noise"]
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
# :doc:`/benchmarks` compares all of them on many kinds of data. Penalties selected with
# labels are rarely far from the best. The same is true of the shrinkage estimates,
# except with many features and noise from few sources, where selection with labels
# performs better.
#
# Valid p-values
# --------------
#
# Penalty and kernel are selected again for each permutation. The null distribution thus
# accounts for the selection, and p-values are valid: on noise, 5 % of them are at or
# below 0.05. This is not the case if we first search for the best of all, and then
# permute labels with this one.

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
