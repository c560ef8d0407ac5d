"""Calls of decoding functions with options drawn at random, for checks of anything."""

import numpy as np
from sklearn.metrics.pairwise import laplacian_kernel
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneOut,
    ShuffleSplit,
    StratifiedKFold,
)

from mvpa_kfda import (
    RBF,
    DegreesOfFreedom,
    EmpiricalMap,
    GraphSmooth,
    Nystrom,
    Polynomial,
    Ridge,
    Shrinkage,
    Tuned,
    cross_validate,
    decode_arrays,
    decode_regions,
    generalize_arrays,
    regress,
    searchlight,
)

N, P, T = 24, 4, 4
NEAR = np.abs(np.subtract.outer(np.arange(P), np.arange(P))) <= 1
KERNELS = ["linear", "linear", "linear", "linear", RBF(), RBF(0.1), Polynomial(2)]
KERNELS += [EmpiricalMap("rbf"), GraphSmooth(NEAR), laplacian_kernel]
PENALTIES = [
    *("auto", "auto", "ledoit_wolf", "oas", 0.1, 2.0, "tuned"),
    *(Ridge(3.0), Shrinkage(0.2), DegreesOfFreedom(2.5)),
    *([0.1, 1.0, Ridge(5)], Tuned([0.1, 10])),
]
STEPS = [None, None, None, "zscore", "pca", "whiten", ["zscore", "pca"]]
FOLDS = [None, 3, 4, KFold(4), KFold(3, shuffle=True, random_state=1), LeaveOneOut()]
FOLDS += [ShuffleSplit(4, random_state=2), StratifiedKFold(3), GroupKFold(2)]
FOLDS += [[(np.arange(8, N), np.arange(8)), (np.arange(N - 8), np.arange(N - 8, N))]]
#: Training sets of which trials are left out that are not tested either.
OWN = [(np.arange(N)[start::3], np.arange(N)[start + 1 :: 3]) for start in (0, 1)]
SCORES = [
    *("accuracy", "balanced_accuracy", "roc_auc", "kappa", "f1", "recall_macro"),
    ["accuracy", "roc_auc", "precision"],
    ["pairwise_accuracy", "crossnobis"],
    ["crossnobis_distances", "accuracy", {"one": [("a", "b")]}],
]
OF_NUMBERS = ["r2", "pearsonr", ["neg_mean_squared_error", "r2"]]


def random_call(seed):
    """Return a function, its two first arguments, its other data, and its options."""
    rng = np.random.default_rng(seed)

    def some(values):
        return values[rng.integers(len(values))]

    function = some(
        [
            *(cross_validate, decode_arrays, decode_arrays, regress),
            *(generalize_arrays, searchlight, decode_regions),
        ]
    )
    over_time = function in (decode_arrays, generalize_arrays)
    X = rng.normal(size=(N, P, T) if over_time else (N, P))
    n_classes = some([2, 2, 3])
    codes = np.arange(N) * n_classes // N
    for run in range(4):
        codes[run::4] = rng.permutation(codes[run::4])
    X[:, 0] += codes if not over_time else codes[:, np.newaxis]
    y = np.array(["a", "b", "c"])[codes]
    options = {
        "kernel": some(KERNELS),
        "reg": some(PENALTIES),
        "preprocess": some(STEPS),
        "cv": some(FOLDS),
        "n_permutations": some([0, 5, 11]),
        "permute": some(["auto", "auto", "auto", "free", "within_folds"]),
        "random_state": seed,
        "dtype": some(["float64", "float64", "float32"]),
    }
    if function is regress:
        y = codes + rng.normal(size=N)
        options["scoring"] = some(OF_NUMBERS)
    else:
        options["scoring"] = some(SCORES)
        options["n_components"] = some([None, None, 1])
        if rng.random() < 0.3:
            options |= {"average": some([1, 2]), "equalize": bool(rng.integers(2))}
            options["n_repeats"] = some([1, 1, 2])
            options["average_test"] = bool(rng.integers(2))
        elif rng.random() < 0.2:
            options["n_repeats"] = 2
    if rng.random() < 0.1:
        options["approx"] = Nystrom(8, sampling=some(["kmeans", "uniform"]))
    if over_time and rng.random() < 0.4:
        options |= {"window": 2, "window_mode": some(["mean", "concatenate"])}
    data = {}
    if rng.random() < 0.5:
        data["groups"] = np.arange(N) % 4
    if rng.random() < 0.2:
        table = [rng.normal(size=N), rng.permutation(np.repeat(["u", "v"], N // 2))]
        data["confounds"] = some(table)
    if function is not regress and rng.random() < 0.15:
        data["train_on"] = rng.random(N) < 0.6
    if function is searchlight:
        data["adjacency"] = NEAR
    if function is decode_regions:
        data["labels_img"] = np.array([1, 1, 2, 2])
    if function is generalize_arrays and rng.random() < 0.3:
        data["y_test"] = rng.permutation(y)
    if rng.random() < 0.1:
        options["cv"] = OWN
    if function not in (cross_validate, regress) and rng.random() < 0.15:
        options["null"] = some(["max", "auto", "full"])
    return function, (X, y), data, options
