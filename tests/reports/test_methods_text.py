"""The paragraphs of `methods_text`: grammar, numbers, and words for all there is."""

import inspect
import math
import re
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import get_args

import mne
import numpy as np
import pandas as pd
import pytest
import sklearn.model_selection as ms
from numpy.testing import assert_allclose
from sklearn.decomposition import PCA
from sklearn.feature_selection import VarianceThreshold

import mvpa_kfda
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
    bootstrap_latency,
    compare,
    cross_validate,
    decode_arrays,
    decode_epochs,
    decode_regions,
    generalize_arrays,
    generalize_epochs,
    group_inference,
    load_result,
    methods_text,
    regress,
    report,
    searchlight,
)
from mvpa_kfda.cli.main import main
from mvpa_kfda.group.latency import ONSETS
from mvpa_kfda.group.second_level import METHODS as GROUP_METHODS
from mvpa_kfda.group.subjects import MAY_DIFFER, NUMBERS
from mvpa_kfda.inference.corrections import CORRECTIONS
from mvpa_kfda.inference.corrections import NAMED as ALL_CORRECTIONS
from mvpa_kfda.inference.listed import (
    ComparisonName,
    CorrectionName,
    MethodName,
    OnsetName,
    Permute,
)
from mvpa_kfda.inference.permutation import SCHEMES
from mvpa_kfda.kfda import kernels, penalties, preprocess
from mvpa_kfda.kfda.folds import GIVEN, PARTS, SPLITTERS
from mvpa_kfda.kfda.penalties import penalty_words
from mvpa_kfda.kfda.preprocess import STEPS
from mvpa_kfda.metrics.scores import METRICS, REGRESSION_METRICS
from mvpa_kfda.reports.citations import REFERENCES, STYLES, cited_in
from mvpa_kfda.reports.findings import PACKAGES
from mvpa_kfda.reports.sections import SECTIONS
from mvpa_kfda.reports.summary import HEADINGS
from mvpa_kfda.reports.templating import macro
from mvpa_kfda.reports.vocabulary import (
    NOT_SAID,
    SETTING_WORDS,
    metric_words,
    splitter_words,
)
from mvpa_kfda.results.base import SubjectResult
from mvpa_kfda.results.fields import RESULTS
from mvpa_kfda.utils.axes import AXES
from mvpa_kfda.utils.plain import recorded
from mvpa_kfda.utils.rounding import number, rounded
from tests import build

X, CODES = build.trials((10, 10), 4, 3)
NAMES = build.NAMES[CODES]
RUNS = np.tile(np.arange(4), 5)
THREE, THREE_CODES = build.trials((8, 8, 8), 4, 3)
OTHERS, OTHER_CODES = build.trials((5, 7), 4, 3, seed=1)
VALUES = build.values_of(X)
SOME = {"cv": 4, "n_permutations": 19, "random_state": 0}

TIMES = "\N{MULTIPLICATION SIGN}"

#: What no text may have, by what is wrong with it.
WRONG = {
    "two spaces": r"  ",
    "a space before a mark": r" [.,;:)]",
    "a number of one thing in the plural": (
        r"\b1 (?:[\w-]+ )?(?:trial|class|fold|group|permutation|channel|feature|"
        r"time point|voxel|region|subject|flip|sensor|split|value|regressor)(?:s|es)\b"
    ),
    "a number of several in the singular": (
        r"\b(?:[2-9]|\d{2,}) (?:(?:test|training|pseudo)[ -])*(?:trial|fold|group|"
        r"permutation|channel|feature|voxel|region|subject)\b(?! test)"
    ),
    "a value of Python": (
        r"\b(?:None(?! of the)|True|False|nan|NaN|inf|array|dict|lambda)\b"
    ),
    "a name of Python": r"(?<!mvpa)_(?!kfda)|\w\(\w*\)|\w=\w|0x[0-9a-f]+|object at",
    "an empty bracket": r"\(\s*\)|\[\s*\]|\(;|\(,",
    "the wrong article": r"\b[Aa] [aeio]\w|\b[Aa] (?:8|11|18)\b|\b[Aa]n [^aeioRFMLS8]",
    "a word twice": r"\b([A-Za-z]+) \1\b",
    "a small letter at the start": r"(?:^|\n\n|[.] )(?!p-value)[a-z](?!\w* 0)",
    "an end that is missing": r"[^.:]\n\n(?!References)",
    "two marks": r"[.,;]{2}|:[.]|,;",
    "a mark of the text itself": r"\[@|\*\w+\*|[\ue000\ue001{}]",
    "brackets beside brackets": r"\) \(",
}


def body_of(text):
    """Return the paragraphs without the list of references."""
    return text.partition("\n\nReferences")[0]


def check_text(result, **options):
    """Return the plain text of a result, whose grammar and references are right."""
    text = methods_text(result, **options)
    body = body_of(text)
    # What is short for something has a full stop of its own.
    plain = body.replace("et al.", "et al")
    for what, pattern in WRONG.items():
        for paragraph in plain.split("\n\n"):
            found = re.search(pattern, paragraph + "\n\nReferences")
            assert not found, f"{what}: {found[0]!r} in {paragraph!r}"
    assert body.count("(") == body.count(")")
    assert body.endswith(".")
    entries = text.partition("References\n\n")[2].split("\n\n")
    cited = set(re.findall(r"[(;] ?([^();]+?, (?:19|20)\d\d)", body))
    listed = {short_of(entry) for entry in entries if entry}
    assert cited == listed
    assert entries == sorted(entries, key=lambda entry: entry.lower())
    keys = set(re.findall(r"@\w+\{(\w+),", methods_text(result, "bibtex", **options)))
    assert len(keys) == len(listed)
    markdown = methods_text(result, "markdown", **options)
    assert plain_of(markdown).startswith(body[:200].replace("\n\n", "\n\n"))
    return body


def furthest(scores, middle):
    """Return the score that is furthest from another."""
    return scores.flat[np.abs(scores - middle).argmax()]


def found_words(marked, n, noun):
    """Return how so many significant ones of n positions are worded."""
    if marked == n:
        return f"All {n:,} {noun}"
    return f"In all, {marked:,} of the {n:,} {noun}"


def short_of(entry):
    """Return how an entry of the list is cited."""
    authors, year = re.match(r"(.*?) \((\d+)\)", entry).groups()
    families = re.findall(r"((?:van der )?[^\s,&][^,&]*), (?:[A-Z]\.[- ]?)+", authors)
    if "et al." in authors or len(families) > 2:
        return f"{families[0]} et al., {year}"
    return f"{' & '.join(families)}, {year}"


def plain_of(markdown):
    """Return Markdown as it is shown."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", markdown)
    text = re.sub(r"\*(\w+)\*", r"\1", text)
    return re.sub(r"\\([^\w\s])", r"\1", text)


# ----------------------------------------------------------- one subject: all options


def one(**options):
    """Return a result of classification at one position."""
    return cross_validate(X[:, :, 0], NAMES, **SOME | options)


def of_values(**options):
    """Return a result of regression at one position."""
    return regress(X[:, :, 0], VALUES, **SOME | options)


def in_time(**options):
    """Return a result of epochs over time."""
    given = {"epochs": build.epochs(X, CODES), "y": NAMES} | SOME | options
    return decode_epochs(given.pop("epochs"), given.pop("y"), **given)


def mixed(**options):
    """Return a result of epochs with channels of two types."""
    types = ["eeg", "eeg", "mag", "grad"]
    return in_time(epochs=build.epochs(X, CODES, types), **options)


def agreement(y_true, y_pred, class_scores):
    """Return the share of right predictions."""
    return float(np.mean(y_true == y_pred))


HALVES = [(np.arange(10), np.arange(10, 20)), (np.arange(10, 20), np.arange(10))]
FIRST = np.arange(20) < 12
OPTIONS = {
    "rbf": {"kernel": "rbf"},
    "wide rbf": {"kernel": RBF(None)},
    "narrow rbf": {"kernel": RBF(0.5)},
    "polynomial": {"kernel": "polynomial"},
    "degree 2": {"kernel": Polynomial(2, gamma=0.5, coef0=0.0)},
    "function": {"kernel": lambda X, Y: X @ Y.T},
    "empirical": {"kernel": EmpiricalMap("rbf")},
    "smooth": {"kernel": GraphSmooth(build.chain(4))},
    "penalty": {"kernel": Penalty(np.eye(4))},
    "nystrom": {"kernel": "rbf", "approx": Nystrom(5)},
    "one landmark": {"kernel": "rbf", "approx": Nystrom(1, "uniform")},
    "of a map": {"kernel": EmpiricalMap(RBF(0.1)), "approx": Nystrom(5)},
    "ridge": {"reg": Ridge(2.5)},
    "tiny": {"reg": 1e-7},
    "shrinkage": {"reg": Shrinkage(0.1)},
    "df": {"reg": DegreesOfFreedom(2.5)},
    "ledoit": {"reg": "ledoit_wolf"},
    "oas": {"reg": "oas"},
    "auto": {"reg": "auto"},
    "auto groups": {"reg": "auto", "groups": RUNS, "cv": None},
    "tuned": {"reg": "tuned"},
    "of one": {"reg": Tuned([0.5])},
    "of three": {"reg": Tuned([0.1, Ridge(3), 2.0])},
    "two kernels": {"kernel": ["linear", RBF(0.1)], "reg": "tuned"},
    "three kernels": {"kernel": ["linear", "rbf", Polynomial()], "reg": "tuned"},
    "tuned groups": {"reg": "tuned", "groups": RUNS, "cv": None},
    "steps": {"preprocess": ["zscore", "pca"]},
    "whiten": {"preprocess": "whiten"},
    "another step": {"preprocess": VarianceThreshold()},
    "confound": {"confounds": np.arange(20.0)},
    "confounds": {"confounds": np.random.default_rng(0).normal(size=(20, 2))},
    "all metrics": {"scoring": list(METRICS)},
    "own metric": {"scoring": agreement},
    "confusion": {"scoring": ["kappa", "confusion_matrix"]},
    "auc": {"scoring": ["roc_auc", "f1"]},
    "no permutations": {"n_permutations": 0},
    "one permutation": {"n_permutations": 1},
    "two permutations": {"n_permutations": 2},
    "groups": {"groups": RUNS, "cv": None},
    "within groups": {"groups": RUNS, "cv": None, "permute": "within_groups"},
    "free": {"cv": ms.KFold(4), "permute": "free"},
    "halves": {"cv": HALVES},
    "one split": {"cv": HALVES[:1]},
    "leave one out": {"cv": ms.LeaveOneOut()},
    "random": {"cv": ms.ShuffleSplit(3, random_state=0)},
    "shuffled": {"cv": ms.StratifiedKFold(5, shuffle=True, random_state=0)},
    "repeated folds": {
        "cv": ms.RepeatedStratifiedKFold(n_splits=2, n_repeats=2, random_state=0)
    },
    "repeats": {"n_repeats": 3},
    "averages": {"average": 2, "cv": 2},
    "averages in runs": {"average": 2, "cv": None, "groups": RUNS > 1},
    "averages anew": {"average": 2, "cv": 2, "n_repeats": 2},
    "single tests": {"average": 2, "cv": 2, "average_test": False},
    "auc of single trials": {"scoring": "roc_auc", "cv": ms.LeaveOneOut()},
    "undersampled": {"average": 1, "cv": 2, "equalize": True, "n_repeats": 2},
    "train on": {"train_on": FIRST, "cv": None},
    "train on in folds": {"train_on": FIRST, "groups": RUNS, "cv": None},
}


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_grammar_at_one_position(options):
    result = one(**options)
    body = check_text(result)
    P = result.n_permutations
    assert (f"P = {P:,}" in body) == (P > 0)
    assert (str(result.n_permutations) in body) or P < 3
    for metric in result.scalar_metrics:
        assert f"{result.metrics[metric]:.3f}" in body


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("correction", CORRECTIONS)
def test_grammar_of_corrections(correction):
    result = in_time()
    body = check_text(result, correction=correction, alpha=0.1)
    p = result.pvalues(correction)
    n = int((p <= 0.1).sum())
    assert "level was 0.1" in body
    assert "(p ≤ 0.1" in body
    assert (found_words(n, 3, "time point") in body) == (n > 0)
    assert ALL_CORRECTIONS[correction].tag in body


RESULTS_OF = {
    "three classes": lambda: cross_validate(
        THREE[:, :, 0],
        build.NAMES[THREE_CODES],
        n_components=1,
        scoring=["recall", "roc_auc"],
        **SOME,
    ),
    "gram": lambda: (
        one(kernel="precomputed")
        if False
        else cross_validate(
            X[:, :, 0] @ X[:, :, 0].T, NAMES, kernel="precomputed", **SOME
        )
    ),
    "regression": lambda: regress(
        X[:, :, 0], VALUES, scoring=list(REGRESSION_METRICS), **SOME
    ),
    "tuned regression": lambda: regress(X[:, :, 0], VALUES, reg="tuned", **SOME),
    "auto regression": lambda: regress(X[:, :, 0], VALUES, reg="auto", **SOME),
    "time": in_time,
    "no permutations": lambda: in_time(n_permutations=0),
    "windows": lambda: in_time(window=0.02, step=0.01),
    "joined": lambda: in_time(window=0.02, window_mode="concatenate"),
    "sparse": lambda: in_time(step=0.02),
    "one time": lambda: in_time(window=0.03),
    "two types": mixed,
    "each channel": lambda: mixed(scale="channel"),
    "trained on": lambda: mixed(train_on=FIRST, groups=RUNS, cv=None),
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
        X,
        NAMES,
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
        build.volume(np.moveaxis(X, 2, 1).reshape(20, 3, 2, 2)),
        NAMES,
        groups=np.repeat(np.arange(2), 10),
        mask_img=build.mask(np.ones((3, 2, 2))),
        radius=4.0,
        null="max",
        n_permutations=9,
        random_state=0,
    ),
    "surface": lambda: searchlight(
        build.surface(X[:, :, 0], X[:, :, 1]),
        NAMES,
        radius=1,
        distance="edges",
        standardize=False,
        **SOME,
    ),
    "along a surface": lambda: searchlight(
        build.surface(X[:, :, 0], X[:, :, 1]), NAMES, radius=4.0, **SOME
    ),
    "columns": lambda: searchlight(
        X[:, :, 0], NAMES, adjacency=build.chain(4), standardize=False, **SOME
    ),
    "regions": lambda: build.result("regions"),
    "columns in regions": lambda: decode_regions(
        X[:, :, 0], NAMES, labels_img=np.array([1, 1, 2, 2]), **SOME
    ),
}


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("make", RESULTS_OF.values(), ids=RESULTS_OF)
def test_grammar_of_kinds(make):
    result = make()
    body = check_text(result)
    shown = result.scalar_metrics
    for metric in shown:
        assert rounded(np.nanmax(result.metrics[metric])) in body
    if result.n_permutations and result.axes:
        p = np.asarray(result.pvalues("max", metric=shown[0]))
        n, marked = np.isfinite(p).sum(), (p <= 0.05).sum()
        assert f"{n:,} " in body
        assert (found_words(marked, n, "") in body) == (marked > 0 and n > 1)
    for label in result.classes:
        assert str(label) in body


def test_numbers_of_trials_classes_and_folds():
    """Numbers in the text, against those that the data were made with."""
    data, codes = build.trials((7, 12), 4, 3)
    y, runs = build.NAMES[codes], np.arange(19) % 3
    options = {"groups": runs, "n_permutations": 0}
    body = check_text(cross_validate(data[:, :, 0], y, **options))
    assert (
        "applied to 19 trials of 2 classes (7 ant, 12 bee). Each trial had 4 f" in body
    )
    # Runs have 7, 6 and 6 trials.
    assert (
        "(3 folds, each with 12 to 13 training trials and 6 to 7 test trials;" in body
    )
    assert "trials were in 3 groups)" in body
    assert "permut" not in body
    first = np.arange(19) < 10
    n_trained = [np.count_nonzero(codes[first] == k) for k in (0, 1)]
    body = check_text(cross_validate(data[:, :, 0], y, train_on=first))
    trained = f"trained on 10 trials of 2 classes ({n_trained[0]} ant, {n_trained[1]}"
    assert trained in body
    tested = f"({7 - n_trained[0]} ant, {12 - n_trained[1]} bee), none of which"
    assert f"tested on 9 trials of 2 classes {tested}" in body
    halves = ms.StratifiedKFold(2)
    averaged = {"cv": halves, "average": 3, "random_state": 0}
    body = check_text(cross_validate(data[:, :, 0], y, **averaged, n_repeats=4))
    # Halves of 3 and 4 ants, and of 6 and 6 bees, hold 1, 1, 2 and 2 threes.
    assert "applied to 6 pseudo-trials of 2 classes (2 ant, 4 bee)" in body
    assert "the average of 3 of 18 trials" in body
    assert "run 4 times" in body
    assert "(2 folds, each with 3 training pseudo-trials and 3 test" in body


NAMED = pd.DataFrame({"rt": np.arange(20.0), "hand": ["left", "right"] * 10})
#: What is asked -> what the text says then, and what it does not say.
FACTS = {
    "plain": (
        {},
        [
            *("discriminant analysis", "for training in any fold, without labels."),
            "folds were computed in closed form, without retraining",
        ],
        ["ridge regression", "Given the penalty", "groups", "each training set"],
    ),
    "a tuned penalty": (
        {"reg": "tuned"},
        [
            *("by generalized cross-validation (Golub et al., 1979)", "The second,"),
            "set, again for each permutation, out-of-sample predictions were computed",
        ],
        ["without retraining", "groups"],
    ),
    "tuned in groups": (
        {"reg": "tuned", "groups": RUNS, "cv": None},
        ["training trials left out one group at a time", "the summed products of two"],
        ["selected from 2 values by generalized"],
    ),
    "repeats": (
        {"n_repeats": 2},
        ["for training in any fold, without labels."],
        ["each training set"],
    ),
    "a fixed penalty": (
        {"reg": 0.3},
        ["folds were computed in closed form, without retraining"],
        ["Given the penalty"],
    ),
    "neighbours": (
        {"cv": 4},
        ["by cross-validation in 4 contiguous folds (4 folds", "among all trials"],
        ["redrawn"],
    ),
    "stratified": (
        {"cv": ms.StratifiedKFold(4)},
        ["depended on the labels and were redrawn for each permutation"],
        ["contiguous", "of the same training"],
    ),
    "stratified once": (
        {"cv": ms.StratifiedKFold(4), "permute": "within_folds"},
        ["stratified 4-fold", "among trials of the same training and test sets"],
        ["redrawn"],
    ),
    "folds learn": (
        {"preprocess": "zscore"},
        [
            "Z-scoring of each feature was fitted to the training trials of",
            "from the features of the trials of each training set, without labels",
        ],
        ["predictions were computed in closed form"],
    ),
    "a confound": (
        {"confounds": np.arange(20.0)},
        ["The effect of 1 confound regressor was removed"],
        ["predictions were computed in closed form"],
    ),
    "named confounds": (
        {"confounds": NAMED},
        ["The effects of rt (linear) and hand (2 categories) were removed from"],
        ["regressor"],
    ),
    "one named confound": (
        {"confounds": NAMED[["hand"]]},
        ["The effect of hand (2 categories) was removed from"],
        ["regressor"],
    ),
    "equal": (
        {"average": 1, "cv": 2, "equalize": True},
        ["Numbers of trials were equalised across classes"],
        ["average of"],
    ),
    "equal averages": (
        {"average": 2, "cv": 2, "equalize": True},
        ["Numbers of averages were equalised across", "the average of 2 of"],
        ["were grouped"],
    ),
    "averages": (
        {"average": 2, "cv": 2},
        ["permuted at random 19 times among pseudo-trials of the same"],
        ["as the smallest had", "permuted before"],
    ),
    "averages anew": (
        {"average": 2, "cv": 2, "n_repeats": 2},
        [
            *("among trials of the same", "at the level of single trials"),
            "run twice, each time with trials regrouped at random",
        ],
        ["among pseudo-trials", "left out at random"],
    ),
    "equal anew": (
        {"average": 1, "cv": 2, "equalize": True, "n_repeats": 2},
        ["run twice, each time with other trials left out at random"],
        ["regrouped"],
    ),
    "areas": (
        {"scoring": "roc_auc"},
        ["(ROC AUC", "averaged over test sets"],
        ["each against the rest"],
    ),
    "trained on some": (
        {"train_on": np.arange(len(NAMES)) % 2 == 0, "cv": 2},
        [
            "the selected trials of the training set and tested on the remaining",
            "from the features of the trials of each training set, without labels",
        ],
        ["one of them alone"],
    ),
}


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize(("options", "said", "unsaid"), FACTS.values(), ids=FACTS)
def test_what_was_done_is_said(options, said, unsaid):
    body = check_text(one(**options))
    for words in said:
        assert words in body
    for words in unsaid:
        assert words not in body


def as_told(X, groups):
    """Return both penalties that no label has a part in, as the text tells of them."""
    n, p = X.shape
    K = (X - X.mean(axis=0)) @ (X - X.mean(axis=0)).T
    w = np.linalg.eigvalsh(K)[::-1]
    grid = 10 * w[0] / 10 ** np.arange(0, np.log10(1e7 * w[0] / w[1]) + 0.25, 0.25)
    others = groups != groups[:, np.newaxis]
    same = ~others / (~others).sum(axis=0)
    f = np.array([np.sum(groups == g) - 1 for g in np.unique(groups)])
    found = []
    for lam in grid:
        h, sizes = w[:-1] / (w[:-1] + lam), w[:-1] / (w[:-1] + lam) ** 2
        views = [(h.mean(), h.var(), sizes.mean(), n - 2)]
        if np.sum(f > 0) > 2:
            A = np.linalg.inv(K + lam * np.eye(n))
            C = np.eye(n) - same
            H, products = C @ K @ A @ C, f.sum() ** 2 - np.sum(f**2)
            s = np.trace(C @ K @ A @ A @ C) / f.sum()
            alone = np.diag(H) - np.trace(H) / f.sum() * np.diag(C)
            v = (np.sum(H[others] ** 2) + np.sum(alone**2)) / products
            views.append((np.trace(H) / f.sum(), v, s, 1))
        logs = 0
        for m, v, s, factor in views:
            q = 1 - m
            a = s / q + np.sum(1 / (w[: min(n - 1, p)] + lam)) + max(p - n + 1, 0) / lam
            b, c = s / q**2, v / (n * factor * q**4)
            both = v / (m - m**2) ** 2, (b + np.sqrt(b**2 + 4 * a**2 * c)) / a**2
            logs = logs + np.log(both)
        found.append(logs)
    lambdas = []
    for each in np.transpose(found):
        each = each - 0.001 * np.log10(grid)
        i = np.argmin(each)
        x, y = np.log(grid[i - 1 : i + 2]), each[i - 1 : i + 2]
        a, b, _ = np.polyfit(x - x[1], y, 2)
        lambdas.append(np.exp(x[1] - b / (2 * a)))
    return lambdas


@pytest.mark.parametrize("p", [6, 30])
@pytest.mark.parametrize("groups", [RUNS, np.arange(20)], ids=["runs", "trials"])
def test_the_penalty_can_be_computed_from_the_text(groups, p):
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(20, 30)) * np.geomspace(1, 0.1, 30)
    data, options = noise @ rng.normal(size=(30, p)), {"groups": groups, "cv": None}
    like_noise, anywhere = as_told(data, groups)
    auto = cross_validate(data, NAMES, **options)
    assert_allclose(auto.lambdas, like_noise, rtol=1e-6, atol=0)
    tuned = cross_validate(data, NAMES, reg="tuned", **options)
    grid = np.ravel(tuned.penalty["grid"])
    assert_allclose(grid, sorted([like_noise, anywhere])[::-1], rtol=1e-6, atol=0)
    for result, words in ((auto, "minimised v / (m - m²)²"), (tuned, "4 c d²)) / d²")):
        assert words in check_text(result)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
def test_what_maps_are_over_is_said():
    result = in_time()
    first, last = (number(each) for each in result.times[[0, -1]])
    body = check_text(result)
    assert f"{len(result.times)} time points from {first} to {last} s" in body
    assert "temporal generalization" not in body
    general = check_text(build.result("GeneralizationResult"))
    assert "Following the temporal generalization" in general


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_all_arrangements():
    pairs = np.repeat(np.arange(4), 2)
    y = np.tile(["ant", "bee"], 4)
    result = cross_validate(X[:8, :, 0], y, groups=pairs, n_permutations=99)
    body = check_text(result)
    # Each pair can be turned around: 2**4 arrangements, the observed one among them.
    ways = "among trials of the same group in all 15 other ways possible"
    assert f"permuted {ways}, which makes the test exact, and" in body
    y = np.repeat(["ant", "bee"], 4)
    result = cross_validate(
        X[:8, :, 0], y, groups=pairs, cv=ms.GroupKFold(2), n_permutations=99
    )
    assert "across whole groups in all 5 other ways possible" in check_text(result)


# ------------------------------------------------------------------- groups and others


GROUPS = {
    "prevalence": {"method": "prevalence", "n_permutations": 99},
    "one": {"method": "prevalence", "n_permutations": 1},
    "i-test": {"method": "i-test"},
    "i-test, share": {"method": "i-test", "order": 2, "hypothesis": 0.3},
    "i-test, nobody": {"method": "i-test", "order": 5, "hypothesis": "global"},
    "bootstrap": {"method": "bootstrap", "n_permutations": 99},
    "clusters": {
        **{"method": "bootstrap", "n_permutations": 99},
        "correction": ["cluster-fdr", "tfce"],
    },
    "flips": {"method": "sign-flip", "correction": ["cluster", "cluster-size"]},
    "drawn": {"method": "sign-flip", "n_permutations": 20, "correction": "tfce"},
    "t": {"method": "t", "correction": "fdr", "alternative": "less"},
    "t flips": {"method": "t", "correction": "max", "alternative": "two-sided"},
    "wilcoxon": {"method": "wilcoxon", "correction": "bonferroni"},
}


@pytest.fixture(scope="module")
def people():
    return build.subjects(n=6)


@pytest.fixture(scope="module")
def others():
    return [build.result("TimeResult", seed) for seed in range(6, 11)]


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("options", GROUPS.values(), ids=GROUPS)
def test_grammar_of_groups(people, options):
    group = group_inference(people, random_state=0, **options)
    body = check_text(group)
    assert "6 subjects" in body
    assert "16 trials of the classes ant and bee" in body
    side = {"less": group.scores.min(), "two-sided": furthest(group.scores, 0.5)}
    assert f"was {side.get(group.alternative, group.scores.max()):.3f}, at" in body
    p = group.pvalues()
    n = int((p <= group.alpha).sum())
    assert (found_words(n, 3, "time point") in body) == (n > 0)
    product = group.method == "prevalence" and group.correction[0] == "none"
    if len(group.null_max) and group.method not in ("t", "wilcoxon") and not product:
        assert f"P = {group.n_permutations:,}" in body
    if "All possible sign flips were used" in body:
        assert "exact if, without an effect, scores were distributed symm" in body
    if group.method == "i-test":
        assert "valid only if order and proportion were fixed before" in body
        assert "b of 9 label permutations of a subject" in body
        assert f"subject number {group.order} from the lowest" in body
        nobody = group.parameters["hypothesis"] == 0
        assert ("that nobody in the population has an effect" in body) == nobody
        with pytest.raises(ValueError, match="has no correction 'max-step-down'"):
            methods_text(group, correction="max-step-down")
        return
    by_labels = group.method in ("prevalence", "bootstrap")
    assert ("or one of 9 label permutations" in body) == by_labels
    if group.method == "prevalence" and np.isfinite(group.gamma_0).any():
        share = math.floor(100 * np.nanmax(group.gamma_0))  # not more than the bound
        assert f"effect was {share} %" in body
    with pytest.raises(ValueError, match="was not requested"):
        methods_text(group, correction="max-step-down")


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("method", ["sign-flip", "t", "wilcoxon"])
@pytest.mark.parametrize("paired", [True, False])
def test_grammar_of_two_groups(people, others, method, paired):
    other = [*others, build.result(seed=11)] if paired else others
    labels = ["old <b>", "young"]
    group = group_inference(
        people, method, other=other, paired=paired, labels=labels, random_state=0
    )
    body = check_text(group)
    assert "old <b>" in body
    assert "old \\<b\\>" in methods_text(group, "markdown")
    assert f"was {furthest(group.scores, 0):+.3f}, at" in body
    assert ("in two conditions" in body) == paired
    for condition, holds in (
        ("differences were distributed symmetrically around zero", paired),
        ("scores had the same distribution in both groups", not paired),
    ):
        said = f"The test is exact if, without an effect, {condition}" in body
        assert not said or holds
        assert said or not holds or method != "sign-flip"
    assert ("(6)" in body and "(5)" in body) == (not paired)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("kind", ["DecodingResult", "VolumeResult", "regions"])
def test_grammar_of_groups_of_other_kinds(kind):
    check_text(build.group(kind, n=5, correction=["fdr"]))
    check_text(build.group(kind, n=5, method="prevalence", n_permutations=50))


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("alternative", ["greater", "less", "two-sided"])
def test_grammar_of_groups_without_a_chance_level(alternative):
    kinds = ("RegressionResult", "TimeRegressionResult")
    for kind in kinds:
        options = {"alternative": alternative, "n_permutations": 50}
        group = build.group(kind, n=5, method="bootstrap", **options)
        body = check_text(group)
        assert "R²" in body
        assert "chance" not in body
        assert "predicted using kernel ridge regression" in body


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("method", get_args(ComparisonName))
@pytest.mark.parametrize("kind", ["TimeResult", "DecodingResult", "VolumeResult"])
def test_grammar_of_comparisons(method, kind):
    for alternative in ("two-sided", "greater"):
        result = build.comparison(kind, method=method, alternative=alternative)
        body = check_text(result)
        assert "0.3 times" in body
        assert "30 times" in body
        assert "16 trials" in body
        assert "of the P permutations were at least as ext" in body


#: Method, correction -> what was compared with what, of a group and of a comparison.
COMPARED = {
    ("group", "sign-flip", "max"): (
        "comparing each statistic with the null distribution of the most extreme "
        "statistic across all time points of each sign flip"
    ),
    ("group", "bootstrap", "max"): "comparing each statistic with the null",
    ("group", "sign-flip", "cluster"): "the sum of the statistic over its time points",
    ("group", "wilcoxon", "cluster"): "the sum of the statistic over its time points",
    ("group", "bootstrap", "cluster"): "the sum of standardised statistics over its",
    ("comparison", "permutation", "max"): (
        "comparing each difference with the null distribution of the most extreme "
        "difference across all time points of each permutation"
    ),
    ("comparison", "permutation", "cluster"): "the sum of standardised differences",
}


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize(("case", "words"), COMPARED.items(), ids=map(str, COMPARED))
def test_what_corrections_compare(people, case, words):
    what, method, correction = case
    options = {"method": method, "correction": correction}
    if correction == "cluster":
        options["threshold"] = 0.25
    if what == "group":
        result = group_inference(people, n_permutations=99, random_state=0, **options)
    else:
        result = build.comparison(**options)
    body = check_text(result)
    assert words in body
    assert ("threshold (p = 0.25)" in body) == (correction == "cluster")


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "bootstrap"}, "(one-sided, for high scores)"),
        ({"method": "t"}, "(one-sided, for scores above chance)"),
        ({"method": "t", "alternative": "less"}, "for scores below chance)"),
        ({"method": "sign-flip", "alternative": "two-sided"}, "(two-sided)"),
    ],
    ids=lambda value: "-".join(value.values()) if isinstance(value, dict) else "",
)
def test_sides_of_group_tests(people, options, words):
    group = group_inference(people, n_permutations=50, random_state=0, **options)
    assert words in check_text(group)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("side", ["greater", "less"])
def test_sides_of_differences(people, others, side):
    group = group_inference(people, "t", "none", other=others, alternative=side)
    higher = {"greater": "higher", "less": "lower"}[side]
    assert f"(one-sided, for {higher} scores of first)" in check_text(group)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
def test_kernels_that_were_chosen_from_are_named_once():
    body = check_text(one(kernel=["linear", RBF(0.1)], reg="tuned"))
    assert "discriminant analysis (Mika et al., 1999). The kernel, a linear" in body
    assert body.count("a Gaussian kernel") == 1
    body = check_text(one(kernel=RBF(0.1), reg="tuned"))
    assert "(Mika et al., 1999) with a Gaussian kernel of inverse" in body
    assert body.count("a Gaussian kernel") == 1


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("reg", [Tuned([0.5]), [0.1, 1.0, 2.0], "tuned"])
@pytest.mark.parametrize(
    "make",
    [one, partial(one, kernel="rbf"), of_values],
    ids=["linear", "rbf", "numbers"],
)
def test_number_of_penalties_that_were_tried(make, reg):
    result = make(reg=reg)
    n = np.size(result.penalty["grid"])
    body = check_text(result)
    assert f"selected from {n} value{'s' * (n > 1)} by" in body
    assert ("without labels" in body) == (n == 2)
    assert ("were spaced logarithmically" in body) == (n == 13)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
def test_what_an_onset_is(people):
    more = {"n_bootstraps": 100, "random_state": 0, "min_duration": 0.01}
    body = check_text(bootstrap_latency(people, fraction=0.25, **more))
    assert "exceeded 25 % of its peak height above chance (0.5) for at least" in body
    first, last = bootstrap_latency(people, **more).window
    assert f"times from {number(first)} to {number(last)} s were searched" in body
    body = check_text(bootstrap_latency(people, criterion="t", level=0.02, **more))
    assert "Student's t-test at a level of 0.02 for at least 0.01 s" in body


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
def test_grammar_of_latencies(people, others):
    more = {"n_bootstraps": 100, "random_state": 0, "min_duration": 0.01}
    latency = bootstrap_latency(people, **more)
    body = check_text(latency)
    assert "100 times" in body
    assert f"{number(latency.peak)} s" in body
    assert "95 % confidence intervals are based on Student's t" in body
    low, high = map(number, latency.peak_interval)
    assert f"{number(latency.peak)} s (95 % interval {low} to {high} s)" in body
    check_text(bootstrap_latency(people, criterion="t", level=0.01, **more))
    body = check_text(bootstrap_latency(people, other=others, **more))
    assert "two groups of subjects (11 subjects in all)" in body
    with pytest.raises(ValueError, match="no p-values"):
        methods_text(latency, correction="max")
    with pytest.raises(ValueError, match="of its own confidence"):
        methods_text(latency, alpha=0.05)


# ----------------------------------------------------------- words for all there is


def classes_of(module, base):
    """Return the names of the classes of a module that are of a kind."""
    found = inspect.getmembers(module, inspect.isclass)
    return {name for name, kind in found if issubclass(kind, base) and kind is not base}


INNER_KERNELS = "Kernel", "ScaledKernel", "KernelMap", "InnerProducts", "AveragedKernel"


def named_entries():
    """Map everything that has a name to its words."""
    words, written = {}, partial(macro, "kernels.txt")
    for name in classes_of(kernels, kernels.Kernel):
        # Inside only: results record the linear kernel that it stands for.
        if name not in INNER_KERNELS:
            words[name] = written("kernel")(RECORDED[name])
    for rule in (*RULES, *penalties.ESTIMATED):
        words[str(rule)] = penalty_words(recorded(rule))
    for name, step in STEPS.items():
        words[name] = written("step")(recorded(step))
    words |= {name: each.words for name, each in ALL_CORRECTIONS.items()}
    words |= {f"group {name}": each.words for name, each in GROUP_METHODS.items()}
    words |= {f"onset {name}": each for name, each in ONSETS.items()}
    words |= {f"{name} of schemes": each.words for name, each in SCHEMES.items()}
    for each in kernels.SAMPLING:
        approximated = kernels.approximated(kernels.Linear(), kernels.Nystrom(5, each))
        words[each] = written("kernel")(recorded(approximated))
    return words


#: A rule of every class.
RULES = Ridge(0.1), Shrinkage(0.1), DegreesOfFreedom(3)
#: Class of a kernel -> how one is recorded.
RECORDED = {
    type(each).__name__: recorded(each)
    for each in (
        *(kernels.Linear(), kernels.RBF(), kernels.Polynomial()),
        *(kernels.Precomputed(), kernels.Callable(len), kernels.EmpiricalMap()),
        kernels.approximated(kernels.RBF(), kernels.Nystrom(5)),
        *(kernels.Penalty(np.eye(2)), kernels.GraphSmooth(1 - np.eye(2))),
    )
}


def test_everything_that_has_a_name_has_words_of_its_own():
    words = named_entries()
    assert all(words.values())
    for correction in ALL_CORRECTIONS.values():
        assert correction.label
        assert correction.tag
    for method in GROUP_METHODS.values():
        assert bool(method.words_of_two) != method.by_labels
    assert len({*words.values()}) == len(words)
    assert not [text for text in words.values() if "custom kernel" == text]
    assert {key for text in words.values() for key in cited_in(text)} <= {*REFERENCES}
    rules = {type(each).__name__ for each in RULES}
    # "auto" is worded with the trials that set it, and a bound with the test it is for.
    assert rules | {"Auto", "AtMost"} == classes_of(penalties, penalties._Rule)


def test_names_that_are_listed_are_those_of_the_entries():
    for names, there in (
        (kernels.KernelName, kernels.KERNELS),
        (penalties.PenaltyName, (*penalties._NAMED, *penalties.ESTIMATED)),
        (preprocess.StepName, STEPS),
        (CorrectionName, CORRECTIONS),
        (Permute, ("auto", *SCHEMES)),
        (MethodName, GROUP_METHODS),
        (OnsetName, ONSETS),
    ):
        assert get_args(names) == (*there,)


def test_everything_registered_has_words():
    axes = [getattr(kind, "axes", None) for kind in RESULTS.values()]
    names = {name for of in axes if isinstance(of, dict) for name in of}
    assert names - {"positions"} == set(AXES)
    assert set(HEADINGS) == set(RESULTS)


def test_splitters_of_scikit_learn_have_words():
    split = {name for name in ms.__all__ if hasattr(getattr(ms, name), "split")}
    abstract = {name for name in split if name.startswith("Base")}
    assert split - abstract == set(SPLITTERS) - {GIVEN, PARTS}
    for given in (
        *(ms.KFold(3), ms.GroupKFold(3), ms.StratifiedGroupKFold(3), ms.LeavePOut(2)),
        *(ms.LeavePGroupsOut(1), ms.ShuffleSplit(3), ms.GroupShuffleSplit(3)),
        *(ms.TimeSeriesSplit(3), ms.PredefinedSplit([0, 1, 2]), ms.RepeatedKFold()),
    ):
        words = splitter_words(recorded(given), 20)
        assert words
        assert "=" not in words


def test_numbers_of_folds_are_one_several_or_unknown():
    for splitter, numbers, words in (
        (ms.KFold(), [4, 6], "cross-validation in 4 to 6 contiguous folds"),
        (ms.KFold(7), None, "cross-validation in 7 contiguous folds"),
        (ms.StratifiedKFold(), [4, 6], "stratified 4- to 6-fold cross-validation"),
        (ms.LeaveOneGroupOut(), None, "leave-one-group-out cross-validation"),
        (ms.RepeatedKFold(n_repeats=2), [8, 10], "4- to 5-fold cross-validation, rep"),
        (ms.GroupShuffleSplit(), [3, 4], "3 to 4 random splits of groups"),
    ):
        assert splitter_words(recorded(splitter), numbers).startswith(words)
    unknown = {"name": "KFold", "shuffle": False}
    assert splitter_words(unknown) == "cross-validation in contiguous folds"
    kept = splitter_words({"name": "GroupKFold"})
    assert kept.startswith("k-fold cross-validation with")
    assert splitter_words({"name": "ShuffleSplit"}) == "random splits"


def test_what_a_splitter_shuffles_is_named():
    how = {"shuffle": True, "random_state": 0}
    for splitter, end in (
        (ms.KFold(3, **how), "3-fold cross-validation, trials in random order"),
        (ms.StratifiedGroupKFold(3, **how), "intact, groups in random order"),
        (ms.StratifiedGroupKFold(3), "intact"),
    ):
        assert splitter_words(recorded(splitter), 3).endswith(end)


def test_what_is_cited_exists():
    files = Path(mvpa_kfda.__file__).parent.rglob("*.*")
    files = [path for path in files if path.suffix in (".py", ".txt")]
    files = [path for path in files if path.stem != "citations"]
    text = "".join(path.read_text(encoding="utf-8") for path in files)
    cited = set(re.findall(r"[@\"]([A-Z][a-z]+[A-Za-z]*\d{4})", text))
    assert cited == set(REFERENCES)
    assert set(PACKAGES) <= set(one().versions)
    assert cited_in("[@Mika1999; @Cawley2003]") == ["Cawley2003", "Mika1999"]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        *((0.5, "0.5"), (1 / 3, "0.333"), (120, "120"), (1234.6, "1235"), (0, "0")),
        *(
            (1e-7, "1 \N{MULTIPLICATION SIGN} 10^-7"),
            (-0.2, "-0.2"),
            (2.5e7, "2.5 \N{MULTIPLICATION SIGN} 10^7"),
        ),
    ],
)
def test_numbers(value, words):
    assert number(value) == words


# ------------------------------------------------------------------ styles and edges


def test_names_are_shown_as_they_are():
    odd = np.array(["a_b*c", "<img src=x>", "[@Mika1999]"])
    result = cross_validate(THREE[:, :, 0], odd[THREE_CODES], **SOME)
    for text in map(str, odd):
        assert text in methods_text(result)
    markdown = methods_text(result, "markdown")
    assert "a\\_b\\*c" in markdown
    assert "<img" not in markdown.replace("\\<img", "")
    assert "(@Mika1999" not in markdown


def test_bibtex_has_an_entry_for_each_citation():
    text = methods_text(in_time(), "bibtex", correction="tfce")
    assert text.count("{") == text.count("}")
    keys = re.findall(r"@(\w+)\{(\w+),", text)
    assert ("article", "Smith2009") in keys
    assert [key for _, key in keys] == sorted(key for _, key in keys)
    assert "  doi = {10.1016/j.neuroimage.2008.03.061}," in text
    assert "  pages = {83--98}," in text
    assert "Sassenhagen2019" not in text


def test_text_of_a_saved_result(tmp_path, people):
    group = group_inference(people, "sign-flip", random_state=0)
    for number_, result in enumerate((in_time(reg="tuned"), group)):
        path = tmp_path / f"{number_}.h5"
        result.save(path)
        for style in STYLES:
            assert methods_text(load_result(path), style) == methods_text(result, style)


def test_unknown_things_are_left_out():
    """A result that records next to nothing has a text that claims next to nothing."""
    from mvpa_kfda import TimeResult

    scores = np.array([0.5, 0.75])
    result = build.made(TimeResult, scores, times=np.array([0.0, 0.1]))
    body = check_text(result)
    assert "kernel" not in body
    assert "permut" not in body
    null = np.zeros((19, 2))
    permuted = build.made(TimeResult, scores, null, times=np.array([0.0, 0.1]))
    body = check_text(permuted)
    assert "labels were permuted at random 19 times, and models" in body
    assert "0.750, at 0.1 s" in body


@pytest.mark.parametrize("alternative", ["greater", "less", "two-sided"])
@pytest.mark.parametrize("threshold", [0.05, 0.3])
def test_the_test_that_is_reported(alternative, threshold):
    how = {"threshold": threshold, "alternative": alternative}
    for metric in ("accuracy", "r2"):
        result = in_time()
        if metric == "r2":
            result = in_time(y=VALUES, task="regression")
        body = check_text(result, correction="cluster", **how)
        marked = int((result.pvalues("cluster", **how) <= 0.05).sum())
        assert (found_words(marked, 3, "time point") in body) == (marked > 0)
        assert f"threshold (p = {threshold})" in body
        words = {"less": "at least as low", "greater": "at least as high"}
        assert words.get(alternative, "at least as far") in body
    lowest = result.scores.min()
    assert (f"was {lowest:.3f}, at" in body) == (alternative == "less")


def test_command_prints_the_text(tmp_path, capsys):
    path = tmp_path / "result.h5"
    result = in_time()
    result.save(path)
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


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_bad_input():
    result = one()
    with pytest.raises(TypeError, match="result of mvpa_kfda; got a list"):
        methods_text([result])
    with pytest.raises(ValueError, match=r"'style'.*'apa', 'markdown'"):
        methods_text(result, "word")
    with pytest.raises(ValueError, match="alpha"):
        methods_text(result, alpha=2)
    with pytest.raises(ValueError, match="correction"):
        methods_text(result, correction="none at all")
    for name, value in (("correction", "max"), ("alternative", "less")):
        with pytest.raises(ValueError, match=f"Leave {name} out"):
            methods_text(build.latency(), **{name: value})
    with pytest.raises(ValueError, match="'alternative'"):
        methods_text(result, alternative="more")
    with pytest.raises(ValueError, match="tested with one of its own"):
        methods_text(build.comparison(), threshold=0.01)
    with pytest.raises(ValueError, match="no label permutations"):
        methods_text(one(n_permutations=0), correction="max")


def test_clusters_of_several_tests_are_told():
    both = "Clusters were formed where all tests exceeded the threshold, and their "
    map_of = build.result("GeneralizationResult")
    assert f"{both}mass was compared in" in methods_text(map_of, correction="cluster")
    text = methods_text(map_of, correction="cluster-size")
    assert f"{both}size was compared in each test." in text
    assert "over which all tests exceeded" in methods_text(map_of, correction="tfce")
    assert "all tests" not in methods_text(map_of)
    assert "all tests" not in methods_text(build.result(), correction="cluster")
    names = ["cluster-fdr", "cluster"]
    group = build.group("GeneralizationResult", 5, "bootstrap", correction=names)
    assert group.parameters["n_tests"] == 2
    text = methods_text(group)
    assert f"{both}size was compared" in text
    assert "Scores were tested twice" in text
    for result in (map_of, group):
        assert "and a penalty of at most 0.3 times the mean" in methods_text(result)
    tuned = build.result("GeneralizationResult", reg="tuned")
    assert "a penalty of at most" not in methods_text(tuned)
    flips = build.group("GeneralizationResult", 5, correction="cluster")
    assert "all tests" not in methods_text(flips)
    assert "tested twice" not in methods_text(flips)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
def test_what_was_not_tested_first_is_exploratory(tmp_path, monkeypatch):
    methods = [section for section in SECTIONS if section.title == "Methods"]
    monkeypatch.setattr("mvpa_kfda.reports.page.SECTIONS", methods)
    metrics = ["roc_auc", "accuracy"]
    people = [build.result(scoring=metrics, seed=k) for k in range(5)]
    auc = metric_words("roc_auc")[1]
    first = f"The first metric, {auc}, was tested; tests of others"
    assert methods_text(people[0]).count("exploratory") == 1
    assert first in methods_text(people[0])
    report(people[0], fname=tmp_path / "one.html")
    assert first in (tmp_path / "one.html").read_text("utf-8")
    options = {"random_state": 0, "method": "sign-flip"}
    one = group_inference(people, correction="max", **options)
    assert first in methods_text(one)
    assert one.parameters["scoring"] == metrics
    another = group_inference(
        people, correction=["max", "fdr"], metric="accuracy", **options
    )
    text = methods_text(another)
    assert f"was {auc}; tests of accuracy are exploratory" in text
    assert "Of 2 corrections the first (corrected by the maximum" in text
    text = methods_text(another, correction="fdr")
    assert "correction named first was another (corrected by the maximum" in text
    single = [build.result(seed=k) for k in range(5)]
    text = methods_text(group_inference(single, correction="max", **options))
    assert "exploratory" not in text + methods_text(single[0])
    other = build.result(scoring=metrics, reg=30.0)
    compared = compare(people[0], other, "permutation", metric="accuracy")
    assert "tests of accuracy are exploratory" in methods_text(compared)


# ------------------------------------------------------- every setting of the record

#: Field of a record -> another value, and what else it takes for it to mean something.
ANOTHER = {
    "kernel": ({"name": "RBF", "gamma": "median"}, {}),
    "reg": ({"name": "Shrinkage", "gamma": 0.2}, {}),
    "n_components": (1, {}),
    "average": (3, {}),
    "n_repeats": (2, {}),
    "equalize": (True, {}),
    "folds_by_labels": (True, {}),
    "cv": ({"name": "LeaveOneOut"}, {}),
    "train_on": ("modality == 'words'", {}),
    "preprocess": ([recorded(PCA(2))], {}),
    "n_confounds": (2, {}),
    "confounds": ([{"name": "age", "taken_as": "a number"}], {"n_confounds": 1}),
    "permute": ("groups", {}),
    "exact": (True, {}),
    "random_state": (7, {}),
    "dtype": ("float32", {}),
    "n_features": (9, {}),
    "scale": ("channel", {}),
    "sfreq": (250.0, {}),
    "window": (5.0, {}),
    "step": (3.0, {}),
    "window_mode": ("concatenate", {"window": 5.0}),
    "mode": ("same_trials", {}),
    "radius": (12.0, {}),
    "distance": ("geodesic", {}),
    "standardize": (False, {}),
    "classes": ({"face": ["face/left", "face/right"]}, {}),
    "classes_test": ({"face": ["face/left", "face/right"]}, {}),
    "kernels": (
        [{"name": "Linear"}, {"name": "RBF", "gamma": "median"}],
        {"reg": recorded(Tuned())},
    ),
}
KINDS_OF_ONE = [
    name for name, kind in RESULTS.items() if issubclass(kind, SubjectResult)
]


def text_of(result, **changes):
    return methods_text(replace(result, parameters=result.parameters | changes))


@pytest.mark.parametrize("kind", [*KINDS_OF_ONE, "regions"])
def test_every_setting_of_the_record_is_said(kind):
    result = build.result(kind)
    assert not set(ANOTHER) & NOT_SAID
    # Sources are counted, and a result of regression is no other.
    own = {"n_features"} if "Source" in kind else {"task"}
    for name in sorted({*result.parameters} - NOT_SAID - own):
        value, also = ANOTHER[name]
        assert text_of(result, **also) != text_of(result, **also | {name: value}), name


def test_fields_that_only_some_calls_record_are_said():
    of_times, of_maps = build.result(), build.result("VolumeResult")
    of_sources = build.result("GeneralizationResult")
    cases = {
        "classes": of_times,
        "classes_test": of_times,
        "distance": of_maps,
        "mode": of_sources,
        "kernels": of_times,
    }
    for name, result in cases.items():
        value, also = ANOTHER[name]
        assert text_of(result, **also) != text_of(result, **also | {name: value}), name


#: What the BIDS command records of fMRI, and another value of each field.
SCANS = {
    "kind": ("bold", None),
    "n_runs": (4, 5),
    "group": ("run", "session"),
    "n_scans": ([60, 64], [60, 60]),
    "by": ("condition", "response"),
    "where": (None, "rt > 0.2"),
    "space": ("MNI152NLin6Asym", None),
    "entity": (["desc-denoised"], ["desc-optcom"]),
    "echo": ("2", "1"),
    "estimate": ("lss", "lsa"),
    "hrf_model": ("glover", "spm"),
    "t_r": (2.0, 1.5),
    "slice_time_ref": (0.5, 0.0),
    "smoothing_fwhm": (None, 4.0),
    "mask": ("brain masks of the runs", "--mask-img"),
    "n_mask_voxels": (150, 90),
    "drift_model": ("cosine", "fMRIPrep"),
    "high_pass": (0.01, 0.02),
    "confounds": (["motion", "scrub"], ["none"]),
    "fd_threshold": (0.5, 0.3),
    "std_dvars_threshold": (1.5, 2.0),
    "n_compcor": (5, "all"),
    "n_confound_regressors": (24, 12),
    "n_scans_left_out": (7, 0),
}
NO_BLOCKS = {"hrf_model"}
BLOCKS = {name: pair for name, pair in SCANS.items() if name not in NO_BLOCKS} | {
    "estimate": ("blocks", "images"),
    "drift_model": ("filter", "fMRIPrep"),
    "delay": (5.0, 4.0),
    "block_gap": (1.0, None),
}
ESTIMATES = {
    "kind": ("bold", None),
    "n_runs": (4, 5),
    "group": ("run", "session"),
    "n_scans": ([60, 64], [60, 60]),
    "estimate": ("lss", "lsa"),
    "t_r": (2.0, 1.5),
    "slice_time_ref": (0.5, 0.0),
    "hrf_model": ([{"function": "early"}, {"function": "late"}], None),
    "drift_model": ("polynomial", None),
    "drift_order": (1, 2),
    "smoothing_fwhm": (None, 4.0),
    "signal_scaling": ("percent", "none"),
    "noise_model": ("ols", "ar1"),
    "regressors": (["heart", "breath"], ["pitch", "yaw"]),
    "n_confound_regressors": (2, 12),
    "n_scans_left_out": (7, 0),
}
RAW = {
    "kind": ("raw", None),
    "n_runs": (4, 5),
    "by": ("condition", "response"),
    "where": ("rt > 0.2", None),
    "tmin": (-0.2, -0.1),
    "tmax": (0.5, 1.0),
    "high_pass": (0.1, None),
    "low_pass": (40.0, None),
    "baseline": (["none", "0"], ["none"]),
    "reject": (["eeg=150e-6"], None),
    "resample": (100.0, None),
}
CUT = {
    "kind": ("epochs", None),
    "n_runs": (4, 5),
    "by": ("condition", "response"),
    "where": (None, "rt > 0.2"),
    "resample": (None, 100.0),
}


@cache
def three_subjects():
    """Return results of three subjects."""
    return [build.result("DecodingResult", seed) for seed in range(3)]


@pytest.mark.parametrize("recorded", [SCANS, BLOCKS, ESTIMATES, RAW, CUT])
def test_every_field_of_a_recording_is_said_of_a_subject_and_of_a_group(recorded):
    base = {name: value for name, (value, _) in recorded.items()}

    def texts(record):
        results = [
            replace(each, parameters=each.parameters | {"recordings": record})
            for each in three_subjects()
        ]
        group = group_inference(results, "sign-flip", alpha=0.5, random_state=0)
        return check_text(results[0]), check_text(group)

    usual = texts(base)
    for name, (value, another) in recorded.items():
        if value == another:
            continue
        for text, before in zip(texts(base | {name: another}), usual, strict=True):
            assert text != before, name


def test_every_field_in_which_subjects_may_differ_has_words():
    recorded = {
        f"recordings.{name}"
        for each in (SCANS, BLOCKS, ESTIMATES, RAW, CUT)
        for name in each
    }
    free = {*MAY_DIFFER, *NUMBERS}
    named = {
        name for name in {*ANOTHER, *recorded} if name.rpartition(".")[2] not in free
    }
    assert named <= {*SETTING_WORDS}


def test_groups_of_trials_are_runs_where_they_are_known_to_be():
    groups = build.groups_of(16)
    result = decode_arrays(*trials_of(16), groups=groups, cv=None, n_permutations=9)
    assert "leave-one-group-out" in check_text(result)
    named = replace(result, classes=np.array(["group", "groups"]))
    text = text_of(named, recordings={"kind": "epochs", "n_runs": 4})
    assert "leave-one-run-out" in text
    assert "(8 group, 8 groups)" in text  # names stay as they are
    assert "trials were in 4 runs" in text


def trials_of(n):
    X, codes = build.trials((n // 2, n // 2), 4, 3)
    return X, build.NAMES[codes]


def test_a_group_says_what_its_subjects_did():
    results = [build.result("VolumeResult", seed=seed) for seed in range(3)]
    assert (
        "Searchlights (Kriegeskorte et al., 2006) comprised all voxels within 4 mm"
        in (
            check_text(group_inference(results, "sign-flip", alpha=0.5, random_state=0))
        )
    )
    options = {"window": 0.02, "n_permutations": 9, "sfreq": 100, "random_state": 0}
    made = [build.trials((12, 12), 4, 6, seed) for seed in range(3)]
    results = [
        decode_arrays(data, codes, average=2, n_repeats=2, cv=3, **options)
        for data, codes in made
    ]
    text = check_text(group_inference(results, "sign-flip", alpha=0.5, random_state=0))
    for words in (
        "Each trial had 4 features.",
        "Samples were averaged within sliding windows (window length 0.02 s",
        "Averages of 2 trials were decoded.",
        "The procedure was run twice",
    ):
        assert words in text


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_group_says_how_many_channels_of_which_type():
    options = {"n_permutations": 9, "random_state": 0, "cv": 4}
    info = mne.create_info(4, 100.0, ["eeg", "eeg", "mag", "grad"])

    def words(drop):
        results = []
        for seed in range(3):
            data, codes = build.trials((12, 12), 4, 3, seed)
            epochs = mne.EpochsArray(data, info, verbose=False)
            epochs.drop_channels(drop[seed])
            results.append(decode_epochs(epochs, codes, **options))
        alone = {check_text(result).split(", at each")[0] for result in results}
        group = group_inference(results, "sign-flip", alpha=0.5, random_state=0)
        return check_text(group), alone

    text, alone = words([[], [], []])
    said = "signals of 4 channels (2 EEG channels, 1 magnetometer, and 1 gradiometer)"
    assert f"Features were the {said}." in text
    assert all(each.endswith(said) for each in alone)
    text, _ = words([["2", "3"], ["2", "3"], ["1", "2", "3"]])
    assert "Features were the signals of 1 to 2 EEG channels." in text
    text, _ = words([["3"], [], []])  # of which not all have all types
    assert "Features were the signals of 3 to 4 channels." in text


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("shift", [-1, 1])
def test_a_difference_in_latency_says_both_and_which_is_later(shift):
    times = np.arange(10) / 10

    def made(starts, height):
        scores = [np.where(times >= start, height, 0.5) for start in starts]
        return [
            build.made(TimeResult, each + 0.001 * k, times=times)
            for k, each in enumerate(scores)
        ]

    how = {"n_bootstraps": 100, "min_duration": 0.1, "random_state": 0}
    lists = made([0.4] * 4 + [0.5], 0.9), made([0.6] * 4 + [0.5], 0.8)
    first, other = lists if shift > 0 else lists[::-1]
    latency = bootstrap_latency(first, other=other, labels=("faces", "words"), **how)
    text = check_text(latency)
    late, early = ("words", "faces") if shift > 0 else ("faces", "words")
    assert f"later in {late} than in {early}: at 0." in text
    both = [part.onset for part in latency.parts]
    assert f" s) in faces and at {both[1]:.3g} s" in text
    assert f"at {both[0]:.3g} s" in text
    assert "no order" not in text
    # Of two that differ less than subjects do, neither is called the later one.
    lists = made([0.4, 0.6] * 3, 0.9), made([0.6, 0.6, 0.4, 0.4, 0.6], 0.85)
    latency = bootstrap_latency(lists[0], other=lists[1], **how)
    low, high = latency.when("onset")[1]
    assert low < 0 < high
    text = check_text(latency)
    assert "later in" not in text
    assert "The interval includes 0: no order of the two onsets is shown." in text


def test_undersampling_says_how_many_trials_there_were():
    X, codes = build.trials((9, 14), 4, 3)
    options = {"average": 1, "equalize": True, "n_permutations": 9, "random_state": 0}
    result = decode_arrays(X, build.NAMES[codes], cv=3, **options)
    text = check_text(result)
    assert "at random (there were 9 ant and 14 bee)." in text
    assert "applied to 18 trials of 2 classes (9 ant, 9 bee)." in text
