"""Some labels of images are decoded, with z-scores of all images of their runs."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from nilearn.maskers import NiftiMasker
from numpy.testing import assert_allclose, assert_array_equal

from mvpa_kfda import (
    check_design,
    decode_regions,
    load_result,
    methods_text,
    searchlight,
)
from tests import build

#: Eight runs with one image of each of six labels, in an order of its own.
N_RUNS, LABELS = 8, np.array(["cat", "chair", "dog", "face", "house", "shoe"])
RNG = np.random.default_rng(0)
Y = np.concatenate([RNG.permutation(LABELS) for _ in range(N_RUNS)])
RUNS = np.repeat(np.arange(N_RUNS), len(LABELS))
N = len(Y)
TABLE = pd.DataFrame({"label": Y, "run": RUNS, "pace": RNG.normal(size=N)})
X = RNG.normal(size=(N, 8)) + 0.8 * np.arange(8) * (Y == "face")[:, None]
X = (X + 3 * RUNS[:, None]) * np.logspace(-2, 2, 8)
PAIR = np.isin(Y, ["face", "house"])
NEAR = build.chain(8) | np.eye(8, dtype=bool)
OPTIONS = {"adjacency": NEAR, "n_permutations": 30, "random_state": 0}


def z_scores(data=X, runs=RUNS):
    """Return z-scores within runs, by hand."""
    scores = np.empty_like(data)
    for run in np.unique(runs):
        rows = data[runs == run]
        scores[runs == run] = (rows - rows.mean(axis=0)) / rows.std(axis=0, ddof=1)
    return scores


@pytest.mark.parametrize("y", [Y, (TABLE, "label")], ids=["array", "table"])
@pytest.mark.parametrize(
    ("classes", "names"),
    [
        (["face", "house"], {"face": "face", "house": "house"}),
        (np.array(["house", "face", "cat"]), {x: x for x in ("cat", "face", "house")}),
        (
            {"animate": ["face", "dog"], "inanimate": "house"},
            {"face": "animate", "dog": "animate", "house": "inanimate"},
        ),
    ],
    ids=["two", "three", "named"],
)
def test_labels_are_chosen_after_z_scores(y, classes, names):
    kept = np.isin(Y, list(names))
    labels = np.array([names[label] for label in Y[kept]])
    result = searchlight(X, y, groups=RUNS, classes=classes, **OPTIONS)
    expected = searchlight(
        z_scores()[kept], labels, groups=RUNS[kept], standardize=False, **OPTIONS
    )
    assert_allclose(result.scores, expected.scores, rtol=1e-12)
    assert_allclose(result.null, expected.null, rtol=1e-6)
    assert_array_equal(result.classes, np.unique(labels))
    assert_array_equal(result.parameters["selected"], np.flatnonzero(kept))
    assert result.parameters["n_images"] == N


def test_it_is_what_a_masker_of_nilearn_makes_of_runs():
    data = X.T.reshape(2, 2, 2, N)
    mask = build.mask(np.ones((2, 2, 2)))
    masker = NiftiMasker(mask, runs=RUNS, standardize="zscore_sample", reports=False)
    features = masker.fit_transform(build.volume(data.transpose(3, 0, 1, 2)))
    options = {"n_permutations": 30, "random_state": 0}
    result = decode_regions(
        build.volume(data.transpose(3, 0, 1, 2)),
        (TABLE, "label"),
        groups="run",
        mask_img=mask,
        classes=["face", "house"],
        **options,
    )
    expected = decode_regions(
        features[PAIR],
        Y[PAIR],
        labels_img=np.ones(8),
        groups=RUNS[PAIR],
        standardize=False,
        **options,
    )
    assert_allclose(result.scores, expected.scores, rtol=1e-12)
    assert_allclose(result.null, expected.null, rtol=1e-6)


def test_confounds_groups_and_chosen_trials_are_those_of_the_images_left():
    options = OPTIONS | {"train_on": "pace > 0", "confounds": "pace"}
    result = searchlight(
        X, (TABLE, "label"), classes=["face", "house"], groups="run", **options
    )
    of_pair = {"groups": RUNS[PAIR], "confounds": TABLE["pace"].to_numpy()[PAIR]}
    options = OPTIONS | of_pair | {"train_on": TABLE["pace"].to_numpy()[PAIR] > 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of runs without a test trial
        expected = searchlight(z_scores()[PAIR], Y[PAIR], standardize=False, **options)
    assert_allclose(result.scores, expected.scores, rtol=1e-12)


def test_blanks_at_the_ends_of_labels_and_names_mean_nothing():
    y = [f" {each}" if i % 3 == 0 else each for i, each in enumerate(Y)]
    classes = {"face ": " face", "house": ["house "]}
    result = searchlight(X, y, groups=RUNS, classes=classes, **OPTIONS)
    expected = searchlight(X, Y, groups=RUNS, classes=["face", "house"], **OPTIONS)
    assert_array_equal(result.classes, expected.classes)
    assert_array_equal(result.null, expected.null)
    classes["face"] = "face"
    with pytest.raises(ValueError, match=r"same name but for blanks\. Put the labels"):
        searchlight(X, y, groups=RUNS, classes=classes, **OPTIONS)


def test_names_of_the_other_labels_do_not_matter():
    others = Y.copy()
    others[~PAIR] = np.random.default_rng(1).permutation(Y[~PAIR])
    one, other = (
        searchlight(X, y, groups=RUNS, classes=["face", "house"], **OPTIONS)
        for y in (Y, others)
    )
    assert_array_equal(one.scores, other.scores)
    assert_array_equal(one.null, other.null)


def test_without_z_scores_the_other_images_do_not_matter():
    options = OPTIONS | {"standardize": False}
    result = searchlight(X, Y, groups=RUNS, classes=["face", "house"], **options)
    expected = searchlight(X[PAIR], Y[PAIR], groups=RUNS[PAIR], **options)
    assert_array_equal(result.scores, expected.scores)
    assert_array_equal(result.null, expected.null)


def test_patterns_are_in_the_unit_of_the_images():
    options = {"labels_img": np.ones(8), "groups": RUNS, "classes": ["face", "house"]}
    patterns = decode_regions(X, Y, **options).patterns()["face"]
    scaled = decode_regions(X * [1, 1, 1, 1, 1, 1, 1, 50], Y, **options)
    expected = np.asarray(patterns) * [1, 1, 1, 1, 1, 1, 1, 50]
    assert_allclose(scaled.patterns()["face"], expected, rtol=1e-9)


def test_patterns_know_the_run_of_every_image_that_is_decoded():
    data, rows = X * (1.0 + RUNS[:, None]) ** 2, np.random.default_rng(0).permutation(N)
    options = {"labels_img": np.ones(8), "classes": ["face", "house"]}
    patterns, shuffled = (
        decode_regions(data[i], Y[i], groups=RUNS[i], **options).patterns()["face"]
        for i in (np.arange(N), rows)
    )
    assert_allclose(shuffled, patterns, rtol=1e-9)


def test_files_checkpoints_and_methods_know_the_classes(tmp_path):
    options = OPTIONS | {"checkpoint": tmp_path / "run.checkpoint"}
    classes = {"animate": ["face", "dog"], "inanimate": "house"}
    result = searchlight(X, Y, groups=RUNS, classes=classes, **options)
    again = searchlight(X, Y, groups=RUNS, classes=classes, **options)
    assert again == result
    result.save(tmp_path / "result.h5")
    loaded = load_result(tmp_path / "result.h5")
    expected = {"animate": ["face", "dog"], "inanimate": ["house"]}
    assert loaded.parameters["classes"] == expected
    assert "of all 48 images, of which 24 were decoded" in methods_text(loaded)
    with pytest.raises(ValueError, match=r"of another run: .*the data of imgs differ"):
        searchlight(X, Y, groups=RUNS, classes=["face", "house"], **options)


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ("face", "'classes': 'face'. Allowed: a list of two or more labels"),
        (3, "'classes': 3. Allowed: a list"),
        (["face"], "names 1 class; decoding needs two or more"),
        ([], "names 0 classes; decoding"),
        (
            ["face", "horse"],
            "names 'horse', which is no label in y. The labels are: 'c",
        ),
        (["face", 3], "names 3, which is no label in y"),
        (["face", "house", "face"], "names the label 'face' twice"),
        ({"a": "face", "b": ["house", "face"]}, "names the label 'face' twice"),
        ({"a": "face", "b": []}, r"names 'b': \[\]. Allowed: a dict of name"),
        ({1: "face", 2: "house"}, "names 1: 'face'. Allowed: a dict of name"),
        ([["face"], ["house"]], r"names \['face'\]. Allowed: labels that are in y"),
    ],
)
@pytest.mark.parametrize("function", [searchlight, decode_regions, check_design])
def test_classes_that_are_refused(function, classes, message):
    options = {"groups": RUNS, "classes": classes}
    data = () if function is check_design else (X,)
    options |= {"adjacency": NEAR} if function is searchlight else {}
    options |= {"labels_img": np.ones(8)} if function is decode_regions else {}
    with pytest.raises((TypeError, ValueError), match=message):
        function(*data, Y, **options)


@pytest.mark.parametrize("name", ["y", "groups"])
def test_labels_and_groups_are_those_of_all_images(name):
    given = {"y": Y[:-2]} if name == "y" else {"y": Y, "groups": RUNS[:-2]}
    for classes in (None, ["face", "house"]):
        with pytest.raises(ValueError, match=f"{name} must hold one value per trial"):
            searchlight(X, **given, classes=classes, **OPTIONS)


# ------------------------------------------------------------------ runs of few images


def warnings_of(function, *args, **options):
    """Return the result of a call, and the texts that it warns with."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = function(*args, **options)
    return result, {str(each.message) for each in caught}


def test_of_two_images_in_a_run_both_are_right_or_neither():
    result = searchlight(X[PAIR], Y[PAIR], groups=RUNS[PAIR], **OPTIONS)
    right = result.predictions == Y[PAIR]
    of_runs = right.reshape(len(right), N_RUNS, 2)
    assert_array_equal(of_runs[..., 0], of_runs[..., 1])
    assert 0 < of_runs.mean() < 1
    chosen = searchlight(X, Y, groups=RUNS, classes=["face", "house"], **OPTIONS)
    right = (chosen.predictions == Y[PAIR]).reshape(len(right), N_RUNS, 2)
    assert (right[..., 0] != right[..., 1]).any()


@pytest.mark.parametrize("function", [searchlight, decode_regions])
@pytest.mark.parametrize("n_labels", [2, 3])
def test_runs_too_short_for_z_scores_are_warned_of(function, n_labels):
    rows = np.isin(Y, LABELS[:n_labels])
    options = {"adjacency": NEAR} if function is searchlight else {"labels_img": ROIS}
    given, words = (X[rows], Y[rows]), {"groups": RUNS[rows]}
    _, told = warnings_of(function, *given, **words, **options)
    (problem,) = check_design(Y[rows], **words, n_permutations=0).problems
    assert problem.name == "short_runs"
    assert problem.severity == "warning"
    assert problem.numbers == {"groups": N_RUNS, "images": n_labels}
    assert problem.text in told
    assert re.search(f"^8 of 8 groups hold {n_labels} images or fewer", problem.text)
    _, told = warnings_of(function, *given, **words, standardize=False, **options)
    assert problem.text not in told


ROIS = np.repeat([1, 2], 4)


def test_no_run_is_too_short_where_all_images_of_it_are_given():
    options = {"groups": RUNS, "classes": ["face", "house"]}
    _, told = warnings_of(searchlight, X, Y, adjacency=NEAR, **options)
    assert not any("z-score" in text for text in told)
    assert check_design(Y, **options, n_permutations=0).problems == []


@pytest.mark.parametrize(
    ("y", "groups"),
    [
        (np.tile([0, 0, 1, 1], 6), np.arange(24) // 4),  # four in each
        (np.arange(24) // 2 % 2, np.arange(24) // 2),  # patients and controls
        (np.arange(24) % 2, np.r_[np.repeat([0, 1, 2], 2), np.full(18, 3)] // 3),
        (np.arange(24) % 2, None),
    ],
    ids=["four", "patients", "most are long", "no runs"],
)
def test_other_designs_have_no_short_runs(y, groups):
    design = check_design(y, groups, n_permutations=0)
    assert "short_runs" not in [problem.name for problem in design.problems]


def test_most_runs_have_to_be_short():
    for n_long, found in ((5, True), (6, False)):
        sizes = [2] * 5 + [8] * n_long
        groups = np.repeat(np.arange(len(sizes)), sizes)
        y = np.concatenate([np.arange(size) % 2 for size in sizes])
        problems = check_design(y, groups, n_permutations=0).problems
        assert ("short_runs" in [problem.name for problem in problems]) == found
