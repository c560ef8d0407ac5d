"""The paragraphs of `methods_text` on one subject: grammar, numbers, what is said."""

import numpy as np
import pandas as pd
import pytest
import sklearn.model_selection as ms
from sklearn.feature_selection import VarianceThreshold

from mvpa_kfda import (
    RBF,
    DegreesOfFreedom,
    EmpiricalMap,
    GraphSmooth,
    Nystrom,
    Penalty,
    Polynomial,
    Ridge,
    Shrinkage,
    TimeResult,
    Tuned,
    cross_validate,
    decode_arrays,
    decode_epochs,
    decode_regions,
    generalize_arrays,
    generalize_epochs,
    load_result,
    methods_text,
    regress,
    searchlight,
)
from mvpa_kfda.cli.main import main
from mvpa_kfda.metrics.scores import METRICS, REGRESSION_METRICS
from mvpa_kfda.reports.citations import STYLES
from mvpa_kfda.utils.rounding import rounded
from tests import build
from tests.texts import check_text, found_words

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
X, CODES = build.trials((10, 10), 4, 3)
NAMES = build.NAMES[CODES]
RUNS = np.tile(np.arange(4), 5)
THREE, THREE_CODES = build.trials((8, 8, 8), 4, 3)
OTHERS, OTHER_CODES = build.trials((5, 7), 4, 3, seed=1)
VALUES = build.values_of(X)
SOME = {"cv": 4, "n_permutations": 19, "random_state": 0}


def one(**options):
    """Return a result of classification at one position."""
    return cross_validate(X[:, :, 0], NAMES, **SOME | options)


def in_time(types="eeg", **options):
    """Return a result of epochs over time."""
    given = {"epochs": build.epochs(X, CODES, types), "y": NAMES} | SOME | options
    return decode_epochs(given.pop("epochs"), given.pop("y"), **given)


def agreement(y_true, y_pred, class_scores):
    """Return the share of right predictions."""
    return float(np.mean(y_true == y_pred))


# ------------------------------------------------------------------- one position


HALVES = [(np.arange(10), np.arange(10, 20)), (np.arange(10, 20), np.arange(10))]
FIRST = np.arange(20) < 12
MIXED = ["eeg", "eeg", "mag", "grad"]
NAMED = pd.DataFrame({"rt": np.arange(20.0), "hand": ["left", "right"] * 10})
IN_RUNS = {"groups": RUNS, "cv": None}
FOUR, OF_RBF, KAPPA = (
    {"cv": ms.KFold(4)},
    {"kernel": "rbf"},
    ["kappa", "confusion_matrix"],
)
AT_RANDOM = ms.ShuffleSplit(3, random_state=0)
REPEATED = ms.RepeatedStratifiedKFold(n_splits=2, n_repeats=2, random_state=0)
SHUFFLED = ms.StratifiedKFold(5, shuffle=True, random_state=0)
OPTIONS = {
    "plain": {},
    # What has nothing to do with each other is told of in one text.
    "rbf, halves": {"kernel": "rbf", "cv": HALVES},
    "wide rbf, one split": {"kernel": RBF(None), "cv": HALVES[:1]},
    "polynomial, leave one out": {"kernel": "polynomial", "cv": ms.LeaveOneOut()},
    "function, ridge": {"kernel": lambda X, Y: X @ Y.T, "reg": Ridge(2.5)},
    "empirical, free": {"kernel": EmpiricalMap("rbf"), "permute": "free"} | FOUR,
    "smooth, random": {"kernel": GraphSmooth(build.chain(4)), "cv": AT_RANDOM},
    "penalty, shuffled": {"kernel": Penalty(np.eye(4)), "cv": SHUFFLED},
    "nystrom, shrinkage": {"approx": Nystrom(5), "reg": Shrinkage(0.1)} | OF_RBF,
    "one landmark": {"approx": Nystrom(1, "uniform"), "n_permutations": 0} | OF_RBF,
    "a fixed penalty": {"reg": 0.3},
    "tiny, own metric": {"reg": 1e-7, "scoring": agreement},
    "df, all metrics": {"reg": DegreesOfFreedom(2.5), "scoring": list(METRICS)},
    "ledoit, one permutation": {"reg": "ledoit_wolf", "n_permutations": 1},
    "auto groups": {"reg": "auto"} | IN_RUNS,
    "tuned": {"reg": "tuned"},
    "of one": {"reg": Tuned([0.5])},
    "of three": {"reg": Tuned([0.1, Ridge(3), 2.0])},
    "a tuned rbf": {"reg": "tuned", "kernel": RBF(0.1)},
    "two kernels": {"kernel": ["linear", RBF(0.1)], "reg": "tuned"},
    "three kernels": {"kernel": ["linear", "rbf", Polynomial()], "reg": "tuned"},
    "tuned groups": {"reg": "tuned"} | IN_RUNS,
    "z-scores": {"preprocess": "zscore"},
    "steps, kappa": {"preprocess": ["zscore", "pca"], "scoring": KAPPA},
    "whiten, auc": {"preprocess": "whiten", "scoring": ["roc_auc", "f1"]},
    "noise": {"preprocess": "noise_scale"},
    "another step": {"preprocess": VarianceThreshold()},
    "confound": {"confounds": np.arange(20.0)},
    "confounds": {"confounds": np.random.default_rng(0).normal(size=(20, 2))},
    "named confounds": {"confounds": NAMED},
    "one named confound": {"confounds": NAMED[["hand"]]},
    "within groups": {"permute": "within_groups"} | IN_RUNS,
    "stratified": {"cv": ms.StratifiedKFold(4)},
    "stratified once": {"cv": ms.StratifiedKFold(4), "permute": "within_folds"},
    "repeated folds": {"cv": REPEATED},
    "repeats": {"n_repeats": 3},
    "averages": {"average": 2, "cv": 2},
    "averages in runs": {"average": 2, "cv": None, "groups": RUNS > 1},
    "averages anew": {"average": 2, "cv": 2, "n_repeats": 2},
    "single tests": {"average": 2, "cv": 2, "average_test": False},
    "equal": {"average": 1, "cv": 2, "equalize": True},
    "equal averages": {"average": 2, "cv": 2, "equalize": True},
    "equal anew": {"average": 1, "cv": 2, "equalize": True, "n_repeats": 2},
    "areas": {"scoring": "roc_auc"},
    "auc of single trials": {"scoring": "roc_auc", "cv": ms.LeaveOneOut()},
    "train on": {"train_on": FIRST, "cv": None},
    "train on in folds": {"train_on": FIRST} | IN_RUNS,
    "train on some": {"train_on": np.arange(20) % 2 == 0, "cv": 2},
}
OF_EACH_SET = "from the features of the trials of each training set, without labels"
CLOSED = "folds were computed in closed form, without retraining"
#: Name of options -> what the text says then, and what it does not say.
FACTS = {
    "plain": (
        f"{CLOSED}|for training in any fold, without labels.|minimised v / (m - m²)²|"
        "by cross-validation in 4 contiguous folds (4 folds|among all trials",
        "ridge regression|Given the penalty|groups|redrawn|averaged over",
    ),
    "tuned": (
        "by generalized cross-validation (Golub|The second,|4 c d²)) / d²|"
        "again for each permutation|selected from 2 values by|without labels",
        "without retraining|groups|spaced logarithmically",
    ),
    "of one": ("selected from 1 value by", "without labels|logarithmically"),
    "of three": ("selected from 3 values by", "without labels|logarithmically"),
    "a tuned rbf": (
        "selected from 13 values by|were spaced logarithmically|with a Gaussian kernel",
        "without labels",
    ),
    "two kernels": ("The kernel, a linear", "(Mika et al., 1999) with a"),
    "tuned groups": (
        "training trials left out one group at a time|the summed products of two",
        "selected from 2 values by generalized",
    ),
    "repeats": ("for training in any fold, without labels.", "each training set"),
    "a fixed penalty": (CLOSED, "Given the penalty"),
    "stratified": (
        "depended on the labels and were redrawn for each permutation",
        "contiguous|of the same training",
    ),
    "stratified once": (
        "stratified 4-fold|among trials of the same training and test sets",
        "redrawn",
    ),
    "z-scores": (
        f"Z-scoring of each feature was fitted to the training trials of|{OF_EACH_SET}",
        "in closed form",
    ),
    "confound": ("The effect of 1 confound regressor was removed", "in closed form"),
    "named confounds": (
        "The effects of rt (linear) and hand (2 categories) were removed",
        "regressor",
    ),
    "one named confound": ("The effect of hand (2 categories) was", "regressor"),
    "equal": ("Numbers of trials were equalised across classes", "average of"),
    "equal averages": (
        "Numbers of averages were equalised across|the average of 2 of",
        "were grouped",
    ),
    "averages": (
        "permuted at random 19 times among pseudo-trials of the same",
        "permuted before",
    ),
    "averages anew": (
        "among trials of the same|at the level of single trials|"
        "run twice, each time with trials regrouped at random",
        "among pseudo-trials|left out at random",
    ),
    "equal anew": (
        "run twice, each time with other trials left out at random",
        "regrouped",
    ),
    "areas": ("(ROC AUC|averaged over test sets", "each against the rest"),
    "auc of single trials": ("(ROC AUC", "averaged over"),
    "train on some": (
        "the selected trials of the training set and tested on the remaining|"
        f"{OF_EACH_SET}",
        "one of them alone",
    ),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_all_options_are_told_of_in_good_english(name):
    result = one(**OPTIONS[name])
    body = check_text(result)
    P = result.n_permutations
    assert (f"P = {P:,}" in body) == (P > 0)
    for metric in result.scalar_metrics:
        assert f"{result.metrics[metric]:.3f}" in body
    if name in FACTS:
        said, unsaid = (words.split("|") for words in FACTS[name])
        assert [words for words in said if words not in body] == []
        assert [words for words in unsaid if words in body] == []
    if name in ("two kernels", "a tuned rbf"):
        assert body.count("a Gaussian kernel") == 1


# ------------------------------------------------------------------ kinds of results


CUBE = np.moveaxis(X, 2, 1).reshape(20, 3, 2, 2)
IN_CUBE = {"mask_img": build.mask(np.ones((3, 2, 2))), "radius": 4.0, "null": "max"}
ON_SURFACE = build.surface(X[:, :, 0], X[:, :, 1])
KINDS = {
    "three classes": lambda: cross_validate(
        THREE[:, :, 0],
        build.NAMES[THREE_CODES],
        n_components=1,
        scoring=["recall", "roc_auc"],
        **SOME,
    ),
    "a matrix": lambda: cross_validate(
        X[:, :, 0] @ X[:, :, 0].T, NAMES, kernel="precomputed", **SOME
    ),
    "regression": lambda: regress(
        X[:, :, 0], VALUES, scoring=list(REGRESSION_METRICS), **SOME
    ),
    "tuned regression": lambda: regress(X[:, :, 0], VALUES, reg="tuned", **SOME),
    "regression by one": lambda: regress(X[:, :, 0], VALUES, reg=Tuned([0.5]), **SOME),
    "time": in_time,
    "no permutations": lambda: in_time(n_permutations=0),
    "windows": lambda: in_time(window=0.02, step=0.01),
    "joined": lambda: in_time(window=0.02, window_mode="concatenate"),
    "sparse": lambda: in_time(step=0.02),
    "one time": lambda: in_time(window=0.03),
    "two types": lambda: in_time(MIXED),
    "each channel": lambda: in_time(MIXED, scale="channel"),
    "trained on": lambda: in_time(MIXED, train_on=FIRST, **IN_RUNS),
    "a kernel of a fixed width": lambda: in_time(kernel=RBF(None)),
    "regression in time": lambda: in_time(y=VALUES, task="regression"),
    "sensors": lambda: in_time(sensors=build.chain(4)),
    "frequencies": lambda: build.result("TimeFrequencyResult"),
    "unit scale": lambda: decode_epochs(
        build.power(X, CODES), kernel=RBF(None), **SOME
    ),
    "generalization": lambda: generalize_arrays(X, NAMES, **SOME),
    "largest kept": lambda: generalize_arrays(X, NAMES, null="max", **SOME),
    "other labels": lambda: generalize_arrays(X, NAMES, y_test=NAMES[::-1], **SOME),
    "other trials": lambda: generalize_arrays(
        *(X, NAMES),
        X_test=OTHERS,
        y_test=build.NAMES[OTHER_CODES],
        same_trials=False,
        n_permutations=19,
        random_state=0,
    ),
    "cross-decoding": lambda: generalize_epochs(
        build.epochs(X, CODES), train_on="run < 2", n_permutations=9, random_state=0
    ),
    "diagonal": lambda: generalize_arrays(X, NAMES, **SOME).diagonal(),
    "spheres": lambda: build.result("VolumeResult"),
    "spheres in runs": lambda: searchlight(
        build.volume(CUBE), NAMES, **SOME | IN_CUBE, groups=np.arange(20) // 10
    ),
    "surface": lambda: searchlight(
        ON_SURFACE, NAMES, radius=1, distance="edges", standardize=False, **SOME
    ),
    "along a surface": lambda: searchlight(ON_SURFACE, NAMES, radius=4.0, **SOME),
    "columns": lambda: searchlight(
        X[:, :, 0], NAMES, adjacency=build.chain(4), standardize=False, **SOME
    ),
    "regions": lambda: build.result("regions"),
    "columns in regions": lambda: decode_regions(
        X[:, :, 0], NAMES, labels_img=np.array([1, 1, 2, 2]), **SOME
    ),
}
GENERAL, SCALED = "Following the temporal generalization", "divided by their standard"
#: Kinds whose text tells of scaling, and those that are of generalization over time.
OF_SCALING = {"two types", "each channel", "trained on", "unit scale"}
OF_SCALING |= {"a kernel of a fixed width"}
OF_GENERAL = {"generalization", "largest kept", "other labels", "other trials"}
OF_GENERAL |= {"cross-decoding"}


@pytest.mark.parametrize("name", KINDS)
def test_all_kinds_are_told_of_in_good_english(name):
    result = KINDS[name]()
    body = check_text(result)
    for metric in result.scalar_metrics:
        assert rounded(np.nanmax(result.metrics[metric])) in body
    if result.n_permutations and result.axes:
        p = np.asarray(result.pvalues("max", metric=result.scalar_metrics[0]))
        n, marked = np.isfinite(p).sum(), (p <= 0.05).sum()
        assert f"{n:,} " in body
        assert (found_words(marked, n, "") in body) == (marked > 0 and n > 1)
    for label in result.classes:
        assert str(label) in body
    assert (SCALED in body) == (name in OF_SCALING)
    assert (GENERAL in body) == (name in OF_GENERAL)
    if name == "time":
        assert "3 time points from 0 to 0.02 s" in body
    if name == "three classes":
        assert "averaged over classes, each against the rest, and test sets" in body
    if name == "tuned regression":
        assert "selected from 13 values by" in body


def test_numbers_of_trials_classes_and_folds():
    """Numbers in the text, against those that the data were made with."""
    data, codes = build.trials((7, 12), 4, 3)
    y, runs = build.NAMES[codes], np.arange(19) % 3
    body = check_text(cross_validate(data[:, :, 0], y, groups=runs))
    told = "applied to 19 trials of 2 classes (7 ant, 12 bee). Each trial had 4 f"
    assert told in body
    # Runs have 7, 6 and 6 trials.
    sets = "(3 folds, each with 12 to 13 training trials and 6 to 7 test trials;"
    assert f"{sets} trials were in 3 groups)" in body
    assert "permut" not in body
    first = np.arange(19) < 10
    n_trained = [np.count_nonzero(codes[first] == k) for k in (0, 1)]
    body = check_text(cross_validate(data[:, :, 0], y, train_on=first))
    trained = f"trained on 10 trials of 2 classes ({n_trained[0]} ant, {n_trained[1]}"
    assert trained in body
    tested = f"({7 - n_trained[0]} ant, {12 - n_trained[1]} bee), none of which"
    assert f"tested on 9 trials of 2 classes {tested}" in body
    averaged = {"cv": ms.StratifiedKFold(2), "average": 3, "random_state": 0}
    body = check_text(cross_validate(data[:, :, 0], y, **averaged, n_repeats=4))
    # Halves of 3 and 4 ants, and of 6 and 6 bees, hold 1, 1, 2 and 2 threes.
    assert "applied to 6 pseudo-trials of 2 classes (2 ant, 4 bee)" in body
    assert "the average of 3 of 18 trials" in body
    assert "run 4 times" in body
    assert "(2 folds, each with 3 training pseudo-trials and 3 test" in body
    options = {"average": 1, "equalize": True, "n_permutations": 9, "random_state": 0}
    body = check_text(decode_arrays(data, y, cv=3, **options))
    assert "at random (there were 7 ant and 12 bee)." in body
    assert "applied to 12 trials of 2 classes (6 ant, 6 bee)." in body


def test_all_arrangements():
    pairs = np.repeat(np.arange(4), 2)
    # Each pair can be turned around: 2**4 arrangements with the observed one.
    for y, cv, ways in (
        (["ant", "bee"] * 4, None, "among trials of the same group in all 15 other"),
        (np.repeat(["ant", "bee"], 4), ms.GroupKFold(2), "whole groups in all 5 other"),
    ):
        result = cross_validate(X[:8, :, 0], y, groups=pairs, cv=cv, n_permutations=99)
        text = check_text(result)
        assert f"{ways} ways possible, which makes the test exact, and" in text


def test_unknown_things_are_left_out():
    """A result that records next to nothing has a text that claims next to nothing."""
    scores, times = np.array([0.5, 0.75]), np.array([0.0, 0.1])
    body = check_text(build.made(TimeResult, scores, times=times))
    assert "kernel" not in body
    assert "permut" not in body
    body = check_text(build.made(TimeResult, scores, np.zeros((19, 2)), times=times))
    assert "labels were permuted at random 19 times, and models" in body
    assert "0.750, at 0.1 s" in body


# -------------------------------------------------------------- files, and bad input


def test_saved_results_have_the_same_text_and_the_command_prints_it(tmp_path, capsys):
    path = tmp_path / "result.h5"
    result = in_time(reg="tuned")
    result.save(path)
    for style in STYLES:
        assert methods_text(load_result(path), style) == methods_text(result, style)
    assert main(["methods", str(path)]) == 0
    assert capsys.readouterr().out == f"{methods_text(result)}\n"
    options = ["--correction", "cluster", "--alpha", "0.1"]
    options += ["--style", "markdown", "--threshold", "0.2"]
    assert main(["methods", str(path), *options]) == 0
    how = {"correction": "cluster", "alpha": 0.1, "threshold": 0.2}
    printed = capsys.readouterr().out
    assert printed == f"{methods_text(result, 'markdown', **how)}\n"
    assert main(["methods", str(tmp_path / "none.h5")]) == 2
    assert "no such file" in capsys.readouterr().err


#: A result, options that are refused, and a part of the message.
REFUSED = [
    (lambda: [one()], {}, "result of mvpa_kfda; got a list"),
    (one, {"style": "word"}, "'style'.*'apa', 'markdown'"),
    (one, {"alpha": 2}, "alpha"),
    (one, {"alternative": "more"}, "'alternative'"),
    (build.latency, {"correction": "max"}, "Leave correction out"),
    (build.latency, {"alpha": 0.05}, "of its own confidence and no p-values"),
    (build.comparison, {"threshold": 0.01}, "tested with one of its own"),
    (lambda: one(n_permutations=0), {"correction": "max"}, "no label permutations"),
]


@pytest.mark.parametrize(("make", "options", "match"), REFUSED)
def test_what_has_no_text_is_refused(make, options, match):
    result = make()
    with pytest.raises((TypeError, ValueError), match=match):
        methods_text(result, **options)
