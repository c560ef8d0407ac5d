"""Searchlights and regions of images: z-scores, chosen labels, patterns, confusions."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from nibabel import Nifti1Image
from nilearn.maskers import NiftiMasker
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import RepeatedKFold, StratifiedKFold

from mvpa_kfda import (
    KernelFDA,
    Nystrom,
    Ridge,
    check_design,
    decode_regions,
    load_result,
    methods_text,
    searchlight,
)
from mvpa_kfda.data.space import RegionSpace
from mvpa_kfda.decoding import positions
from tests import build


def centred_in(X, runs):
    """Return data less the mean of each run: what z-scores are of, before scaling."""
    centred = np.empty_like(X)
    for run in np.unique(runs):
        centred[runs == run] = X[runs == run] - X[runs == run].mean(axis=0)
    return centred


def z_scored_in(X, runs):
    scores = centred_in(X, runs)
    for run in np.unique(runs):
        deviation = scores[runs == run].std(axis=0, ddof=1)
        scores[runs == run] /= np.where(deviation > 0, deviation, 1)
    return scores


# ------------------------------------------------- some labels, z-scores of all images

#: Eight runs with one image of each of six labels, in an order of its own.
N_RUNS, NAMES = 8, np.array(["cat", "chair", "dog", "face", "house", "shoe"])
RNG = np.random.default_rng(0)
Y = np.concatenate([RNG.permutation(NAMES) for _ in range(N_RUNS)])
RUN_OF = np.repeat(np.arange(N_RUNS), len(NAMES))
TABLE = pd.DataFrame({"label": Y, "run": RUN_OF, "pace": RNG.normal(size=len(Y))})
X = RNG.normal(size=(len(Y), 8)) + 0.8 * np.arange(8) * (Y == "face")[:, None]
X = (X + 3 * RUN_OF[:, None]) * np.logspace(-2, 2, 8)
PAIR = np.isin(Y, ["face", "house"])
NEAR = build.chain(8) | np.eye(8, dtype=bool)
OPTIONS = {"adjacency": NEAR, "n_permutations": 30, "random_state": 0}
OF_PAIR = {"groups": RUN_OF, "classes": ["face", "house"]}


def same(result, expected):
    assert_allclose(result.scores, expected.scores, rtol=1e-12)
    assert_allclose(result.null, expected.null, rtol=1e-6)
    assert_array_equal(result.classes, expected.classes)


@pytest.mark.parametrize(
    ("classes", "names"),
    [
        (np.array(["house", "face", "cat"]), {x: x for x in ("cat", "face", "house")}),
        (
            {"animate": ["face", "dog"], "inanimate": "house"},
            {"face": "animate", "dog": "animate", "house": "inanimate"},
        ),
    ],
    ids=["three", "named"],
)
def test_labels_are_chosen_after_z_scores(classes, names):
    kept = np.isin(Y, list(names))
    labels = np.array([names[label] for label in Y[kept]])
    for standardize, data in (("zscore_sample", z_scored_in(X, RUN_OF)), (False, X)):
        options = {"standardize": standardize, "groups": RUN_OF, "classes": classes}
        result = searchlight(X, Y, **options, **OPTIONS)
        options = {"standardize": False, "groups": RUN_OF[kept]}
        same(result, searchlight(data[kept], labels, **options, **OPTIONS))
        assert_array_equal(result.parameters["selected"], np.flatnonzero(kept))
        assert result.parameters["n_images"] == len(Y)


def test_it_is_what_a_masker_of_nilearn_makes_of_runs():
    images = build.volume(X.reshape(-1, 2, 2, 2))
    mask = build.mask(np.ones((2, 2, 2)))
    masker = NiftiMasker(mask, runs=RUN_OF, standardize="zscore_sample", reports=False)
    features = masker.fit_transform(images)
    options = {"n_permutations": 30, "random_state": 0}
    known = OF_PAIR | {"groups": "run", "mask_img": mask}
    result = decode_regions(images, (TABLE, "label"), **known, **options)
    known = {"groups": RUN_OF[PAIR], "labels_img": np.ones(8), "standardize": False}
    same(result, decode_regions(features[PAIR], Y[PAIR], **known, **options))


def test_confounds_groups_and_chosen_trials_are_those_of_the_images_left():
    options = OPTIONS | OF_PAIR | {"groups": "run"}
    options |= {"train_on": "pace > 0", "confounds": "pace"}
    result = searchlight(X, (TABLE, "label"), **options)
    pace = TABLE["pace"].to_numpy()[PAIR]
    of_pair = {"groups": RUN_OF[PAIR], "confounds": pace, "train_on": pace > 0}
    options = OPTIONS | of_pair | {"standardize": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of runs without a test trial
        expected = searchlight(z_scored_in(X, RUN_OF)[PAIR], Y[PAIR], **options)
    assert_allclose(result.scores, expected.scores, rtol=1e-12)


def test_blanks_at_the_ends_of_labels_and_names_mean_nothing():
    y = [f" {each}" if i % 3 == 0 else each for i, each in enumerate(Y)]
    classes = {"face ": " face", "house": ["house "]}
    result = searchlight(X, y, groups=RUN_OF, classes=classes, **OPTIONS)
    same(result, searchlight(X, Y, **OF_PAIR, **OPTIONS))
    classes["face"] = "face"
    with pytest.raises(ValueError, match=r"same name but for blanks\. Put the labels"):
        searchlight(X, y, groups=RUN_OF, classes=classes, **OPTIONS)


def test_patterns_have_the_unit_and_know_the_run_of_every_image_that_is_decoded():
    data = X * (1.0 + RUN_OF[:, None]) ** 2
    rows, unit = np.random.default_rng(0).permutation(len(Y)), np.r_[[1.0] * 7, 50.0]
    options = {"labels_img": np.ones(8), "classes": ["face", "house"]}
    patterns, scaled = (
        decode_regions(images[i], Y[i], groups=RUN_OF[i], **options).patterns()["face"]
        for images, i in ((data, np.arange(len(Y))), (data * unit, rows))
    )
    assert_allclose(scaled, np.asarray(patterns) * unit, rtol=1e-9)


def test_files_checkpoints_and_methods_know_the_classes(tmp_path):
    options = OPTIONS | {"checkpoint": tmp_path / "run.checkpoint", "groups": RUN_OF}
    classes = {"animate": ["face", "dog"], "inanimate": "house"}
    result = searchlight(X, Y, classes=classes, **options)
    assert searchlight(X, Y, classes=classes, **options) == result
    result.save(tmp_path / "result.h5")
    loaded = load_result(tmp_path / "result.h5")
    expected = {"animate": ["face", "dog"], "inanimate": ["house"]}
    assert loaded.parameters["classes"] == expected
    assert "of all 48 images, of which 24 were decoded" in methods_text(loaded)
    with pytest.raises(ValueError, match=r"of another run: .*the data of imgs differ"):
        searchlight(X, Y, classes=["face", "house"], **options)


ROIS = np.repeat([1, 2], 4)
LAID_OUT = {
    searchlight: ((X,), {"adjacency": NEAR}),
    decode_regions: ((X,), {"labels_img": ROIS}),
    check_design: ((), {}),
}


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ([], "names 0 classes; decoding"),
        ({1: "face", 2: "house"}, "names 1: 'face'. Allowed: a dict of name"),
        ([["face"], ["house"]], r"names \['face'\]. Allowed: labels that are in y"),
    ],
)
def test_classes_that_are_refused(classes, message):
    with pytest.raises((TypeError, ValueError), match=message):
        searchlight(X, Y, groups=RUN_OF, classes=classes, **OPTIONS)


def test_features_without_neighbours_or_with_other_names_are_refused():
    table = pd.DataFrame(X, columns=list("abcdefgh"))
    result = searchlight(table, Y, adjacency=(NEAR, table.columns), groups=RUN_OF)
    assert result.to_dataframe()["feature"].tolist() == list("abcdefgh")
    options = {"adjacency": (NEAR, list("abXdefgh"))}
    for imgs, given, match in (
        (table, {}, "imgs is an array, whose features have no .*Pass adjacency="),
        (table, options, "'c'.*'X'"),
    ):
        with pytest.raises(ValueError, match=match):
            searchlight(imgs, Y, groups=RUN_OF, **given)


def warnings_of(function, **options):
    """Return the texts that a call of some data warns with."""
    data, more = LAID_OUT[function]
    kept = options.pop("rows", np.ones(len(Y), bool))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function(data[0][kept], Y[kept], groups=RUN_OF[kept], **more, **options)
    return {str(each.message) for each in caught}


@pytest.mark.parametrize("function", [searchlight, decode_regions])
@pytest.mark.parametrize("n_labels", [2, 3])
def test_runs_too_short_for_z_scores_are_warned_of(function, n_labels):
    rows = np.isin(Y, NAMES[:n_labels])
    (problem,) = check_design(Y[rows], RUN_OF[rows], n_permutations=0).problems
    assert (problem.name, problem.severity) == ("short_runs", "warning")
    assert problem.numbers == {"groups": N_RUNS, "images": n_labels}
    assert problem.text in warnings_of(function, rows=rows)
    assert re.search(f"^8 of 8 groups hold {n_labels} images or fewer", problem.text)
    assert problem.text not in warnings_of(function, rows=rows, standardize=False)
    # All images of the runs are given.
    told = warnings_of(function, classes=list(NAMES[:n_labels]))
    assert not any("z-score" in text for text in told)
    assert check_design(Y, **OF_PAIR, n_permutations=0).problems == []


# ------------------------------------------------------------------ patterns of regions

# Region 1 has fewer features than half of the trials, region 2 more than trials.
N, RUNS, SIZES = 48, 4, (6, 70)
LABELS = np.repeat([1, 2, 0], [*SIZES, 3])
GROUPS = build.groups_of(N, RUNS)
INSIDE = LABELS[LABELS > 0]  # columns of no region are left out
REGIONS = {"labels_img": LABELS, "groups": GROUPS, "reg": 0.3}


def make_data(n_classes=4, seed=0):
    """Return images (n, p) in units of their own, run by run, and labels."""
    rng = np.random.default_rng(seed)
    codes = np.concatenate(
        [rng.permutation(np.arange(N // RUNS) % n_classes) for _ in range(RUNS)]
    )
    p = len(LABELS)
    X = rng.normal(size=(N, p)) + 0.8 * rng.normal(size=(n_classes, p))[codes]
    unit, gain = rng.uniform(5, 50, size=p), rng.uniform(0.5, 2, size=(RUNS, p))
    level = rng.normal(300, 60, size=(RUNS, p))
    return level[GROUPS] + unit * gain[GROUPS] * X, build.NAMES[codes]


def by_hand(X, signal, y, train=None):
    """Return patterns of classes (c, p) and discriminants (q, p) by Haufe et al.

    Of a `KernelFDA` of some trials, with the penalty of all.
    """
    lam = 0.3 * np.square(X - X.mean(axis=0)).sum() / len(X)
    rows = np.arange(len(X)) if train is None else train
    X, signal, y = X[rows], signal[rows], y[rows]
    scores = KernelFDA(reg=Ridge(lam)).fit(X, y).transform(X)
    s, x = scores - scores.mean(axis=0), signal - signal.mean(axis=0)
    # Sigma_x W Sigma_s^-1, of which Sigma_x W is the covariance of x and s.
    A = (x.T @ s) @ np.linalg.inv(s.T @ s)
    of_class = [A @ s[y == name].mean(axis=0) for name in np.unique(y)]
    signs = np.sign(A[np.abs(A).argmax(axis=0), np.arange(A.shape[1])])
    return np.array(of_class), (A * signs).T


def assert_close(got, expected, rtol=1e-8):
    """Compare patterns relative to their largest value."""
    assert_allclose(got, expected, rtol=0, atol=rtol * np.abs(expected).max())


def values(patterns):
    """Return patterns of arrays as a table, (patterns, columns)."""
    return pd.DataFrame(patterns).to_numpy().T


def patterns_in(result, region=2, *kind, **options):
    """Return the patterns of one region, which are NaN elsewhere."""
    found = values(result.patterns(*kind, region=region, **options))
    assert np.isnan(found[:, region != INSIDE]).all()
    return found[:, region == INSIDE]


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("region", [1, 2])
@pytest.mark.parametrize("standardize", ["zscore_sample", False])
def test_patterns_are_those_of_haufe_in_the_unit_of_the_data(
    n_classes, region, standardize
):
    X, y = make_data(n_classes)
    result = decode_regions(X, y, standardize=standardize, **REGIONS)
    own = X[:, region == LABELS]
    scored, signal = (
        (z_scored_in(own, GROUPS), centred_in(own, GROUPS))
        if standardize
        else (own,) * 2
    )
    classes, discriminants = by_hand(scored, signal, y)
    assert list(result.patterns()) == list(np.unique(y))
    assert_array_equal(
        result.patterns()[y[0]].index, np.flatnonzero(LABELS).astype(str)
    )
    assert_close(patterns_in(result, region), classes)
    assert_close(values(result.patterns())[:, region == INSIDE], classes)
    assert_close(patterns_in(result, region, "discriminant"), discriminants)
    folds = [by_hand(scored, signal, y, train)[0] for train, _ in result.folds]
    got = patterns_in(result, region, average="folds")
    assert_close(got, np.mean(folds, axis=0))


@pytest.mark.parametrize("n_repeats", [1, 3])
@pytest.mark.parametrize("region", [1, 2])
def test_patterns_of_averages_are_means_over_repeats(region, n_repeats, monkeypatch):
    X, y = make_data(2)
    options = REGIONS | {"average": 2, "n_repeats": n_repeats, "random_state": 0}
    scored, signal = (
        f(X, GROUPS)[:, region == LABELS] for f in (z_scored_in, centred_in)
    )
    # Blocks of one region have the features of this region only.
    for longest in (1, 64):
        monkeypatch.setattr(positions, "_LONGEST", longest)
        result, expected = decode_regions(X, y, **options), []
        for some in np.split(result.members, n_repeats):
            averages = scored[some].mean(axis=1), signal[some].mean(axis=1)
            expected.append(by_hand(*averages, y[some[:, 0]])[0])
        assert_close(patterns_in(result, region), np.mean(expected, axis=0))
        # Not far from the differences of means, whatever is averaged how.
        result = decode_regions(X, y, average_test=False, **options)
        means = [signal[y == k].mean(axis=0) for k in np.unique(y)]
        found = patterns_in(result, region).ravel()
        assert np.corrcoef(found, np.ravel(means))[0, 1] > 0.8
        if n_repeats > 1:
            with pytest.raises(ValueError, match=r"Each repeat has its own averages"):
                result.patterns("discriminant", region=region)


def test_patterns_of_steps_learned_in_folds():
    X, y = make_data(2)
    options = {"preprocess": "zscore", "standardize": False}
    result = decode_regions(X, y, **options, **REGIONS)
    found = []
    for train, _ in result.folds:
        own = X[train][:, LABELS == 2]
        scored = (own - own.mean(axis=0)) / own.std(axis=0)
        found.append(by_hand(scored, own, y[train])[0])
    assert_close(patterns_in(result, average="folds"), np.mean(found, axis=0))


def test_train_on_has_the_patterns_of_the_trained_images():
    X, y = make_data(2)
    chosen = np.arange(N) % 3 > 0
    options = REGIONS | {"groups": None, "train_on": chosen, "standardize": False}
    own = X[chosen][:, LABELS == 2]
    expected, _ = by_hand(own, own, y[chosen])
    assert_close(patterns_in(decode_regions(X, y, **options)), expected)


def test_a_voxel_that_is_constant_in_a_run_says_nothing_there():
    X, y = make_data(2)
    X[GROUPS == 1, 8] = 300.0
    with pytest.warns(RuntimeWarning, match=r"1 features are constant within"):
        result = decode_regions(X, y, **REGIONS)
    own = X[:, LABELS == 2]
    expected, _ = by_hand(z_scored_in(own, GROUPS), centred_in(own, GROUPS), y)
    assert_close(patterns_in(result), expected)


def make_image(X):
    """Return images of a box of voxels, (4, 5, 4): its first 79 are the columns."""
    data = np.zeros((len(X), 80))
    data[:, :79] = X
    return build.volume(data.reshape(len(X), 4, 5, 4))


ATLAS = build.mask(np.append(LABELS, 0).reshape(4, 5, 4))


def test_patterns_of_volumes_are_images(tmp_path):
    X, y = make_data()
    X[3, 2], X[:, 10] = np.nan, 7.0  # in region 1, and in region 2
    lut = pd.DataFrame({"index": [1, 2], "name": ["small", "large"]})
    images, options = make_image(X), {"labels_img": ATLAS, "groups": GROUPS}
    with pytest.warns(RuntimeWarning, match=r"2 of 76 voxels"):
        result = decode_regions(images, y, lut=lut, **options)
    used = np.setdiff1d(np.arange(76), [2, 10])
    for name, (kind, average) in {
        "class": ("class", "full"),
        "class_folds": ("class", "folds"),
        "discriminant": ("discriminant", "full"),
    }.items():
        found, maps = result.patterns(kind, average=average), result.pattern_maps[name]
        assert len(found) == maps.shape[1] == (3 if kind == "discriminant" else 4)
        for i, image in enumerate(found.values()):
            assert isinstance(image, Nifti1Image)
            assert_array_equal(image.affine, images.affine)
            got = image.get_fdata().ravel()
            assert_allclose(got[used], maps[:, i], rtol=1e-6, atol=0)  # float32
            assert np.isnan(got[[2, 10]]).all()
            assert not got[76:].any()
    large = result.patterns(region="large")[y[0]].get_fdata().ravel()
    assert np.isfinite(large[6:10]).all()
    assert np.isnan(large[:6]).all()
    result.save(tmp_path / "regions.h5")
    loaded = load_result(tmp_path / "regions.h5")
    assert loaded == result
    for name, image in result.patterns().items():
        assert_array_equal(loaded.patterns()[name].dataobj, image.dataobj)


def test_patterns_of_surfaces_are_surface_images():
    X, y = make_data(2)
    result = decode_regions(build.surface(X[:, :40], X[:, 40:]), y, groups=GROUPS)
    flat = decode_regions(X, y, groups=GROUPS)
    image, expected = result.patterns()[y[0]], flat.patterns()[y[0]].to_numpy()
    joined = np.concatenate([image.data.parts[part] for part in ("left", "right")])
    assert_allclose(joined, expected, rtol=1e-6, atol=0)  # float32


@pytest.mark.parametrize("options", [{"preprocess": "zscore"}, {"average": 2}])
def test_checkpoints_change_nothing_and_know_the_unit_of_the_images(options, tmp_path):
    X, y = make_data()
    known = {"labels_img": np.arange(79) // 8 + 1, "groups": GROUPS, "random_state": 0}
    known |= options
    once = decode_regions(X, y, **known)
    for _ in range(2):
        assert decode_regions(X, y, checkpoint=tmp_path / "run", **known) == once
    with pytest.raises(ValueError, match=r"imgs"):  # though z-scores are the same
        decode_regions(2 * X, y, checkpoint=tmp_path / "run", **known)


def test_what_has_no_patterns_says_so():
    X, y = make_data(2)
    result = decode_regions(X, y, **REGIONS)
    light = searchlight(X, y, adjacency=build.chain(X.shape[1]), groups=GROUPS)
    bent = decode_regions(X, y, kernel="rbf", **REGIONS)
    landmarks = decode_regions(X, y, approx=Nystrom(20), **REGIONS)
    assert bent.pattern_maps == {}
    assert len(bent.pattern_features) == 0
    for each, options, message in (
        (light, {}, r"Searchlights hold no activation patterns"),
        (bent, {}, r"its kernel is RBF.*kernel='linear'\.$"),
        (landmarks, {}, r"its kernel is LowRank"),
        (result, {"kind": "classes"}, r"Invalid value for 'kind'"),
        (
            result,
            {"kind": "discriminant", "average": "folds"},
            r"Each fold has its own discriminants",
        ),
        (result, {"region": 3}, r"no region of the number 3"),
    ):
        with pytest.raises(ValueError, match=message):
            each.patterns(**options)


def test_a_region_without_voxels_has_neither_patterns_nor_confusions():
    X, y = make_data(2)
    X[:, LABELS == 1] = 3.0
    with pytest.warns(RuntimeWarning, match=r"left out"):
        result = decode_regions(X, y, **REGIONS)
    for ask in (result.confusion, lambda number: result.patterns(region=number)):
        with pytest.raises(ValueError, match=r"Nothing could be decoded in region 1"):
            ask(1)
    assert np.isnan(values(result.patterns())[:, : SIZES[0]]).all()


def test_patterns_that_do_not_fit_are_refused():
    result = decode_regions(*make_data(2), **REGIONS)
    maps, features = result.pattern_maps, result.pattern_features
    for wrong in (
        {"pattern_features": features[1:]},
        {"pattern_features": features + 1},
        {"pattern_maps": {"class": maps["class"][1:]}},
    ):
        with pytest.raises(ValueError, match=r"one row for each of the 76 features"):
            type(result)(**(result._content() | wrong))


# -------------------------------------------------------------- figures of the patterns


def test_figures_of_surfaces_show_both_hemispheres():
    X, y = make_data(2)
    surfaces = build.surface(X[:, :40], X[:, 40:])
    result = decode_regions(surfaces, y, groups=GROUPS)
    figure = result.plot_patterns(views="lateral", vlim=(-1, 1))
    assert len([ax for ax in figure.axes if ax.name == "3d"]) == 2 * 2
    assert figure.axes[-1].get_ylim() == (-1, 1)
    with pytest.raises(ValueError, match=r"A surface has no cuts"):
        result.plot_patterns(cut_coords=3)
    with pytest.raises(ValueError, match=r"no location in a brain. Use result.pattern"):
        decode_regions(X, y, **REGIONS).plot_patterns()


# ----------------------------------------------------------------------- the whole mask


def test_without_an_atlas_the_mask_is_one_region():
    X, y = make_data()
    options = {"groups": GROUPS, "n_permutations": 20, "random_state": 0, "reg": 0.3}
    result = decode_regions(X, y, **options)
    same(result, decode_regions(X, y, labels_img=np.ones(X.shape[1], int), **options))
    assert result.n_features.tolist() == [X.shape[1]]
    assert result.to_dataframe()["region"].tolist() == ["all features"]
    classes, _ = by_hand(z_scored_in(X, GROUPS), centred_in(X, GROUPS), y)
    assert_close(values(result.patterns()), classes)
    with pytest.raises(TypeError, match=r"lut is for the names of an atlas"):
        decode_regions(X, y, lut="names.tsv")


def test_the_whole_mask_of_volumes():
    X, y = make_data(2)
    inside = build.mask(np.append(LABELS == 2, False).reshape(4, 5, 4))
    options = {"groups": GROUPS, "n_permutations": 20, "random_state": 0}
    result = decode_regions(make_image(X), y, mask_img=inside, **options)
    same(result, decode_regions(X[:, LABELS == 2], y, **options))
    assert result.to_dataframe()["region"].tolist() == ["whole mask"]
    assert result.adjacency.shape == (2, 0)
    scores = result.to_img().get_fdata()
    assert_allclose(scores[inside.get_fdata() > 0], result.scores[0], rtol=1e-6, atol=0)


# -------------------------------------------------------------------------- confusions

WITH_TABLE = {"scoring": ["accuracy", "confusion_matrix"]}


@pytest.mark.parametrize("n_classes", [2, 4])
def test_confusions_are_those_of_the_metric(n_classes):
    X, y = make_data(n_classes)
    result = decode_regions(X, y, **REGIONS)
    scored = decode_regions(X, y, **WITH_TABLE, **REGIONS)
    for i in (1, 2):
        table, predicted = result.confusion(i), result.predictions[i - 1]
        assert table.index.tolist() == table.columns.tolist() == sorted(set(y))
        assert_array_equal(table, confusion_matrix(y, predicted))
        pd.testing.assert_frame_equal(scored.confusion(i), table)
        assert np.trace(table) / N == pytest.approx(result.scores[i - 1], abs=1e-12)
    with pytest.raises(ValueError, match=r"Invalid value for 'region': None\. .* name"):
        result.confusion()
    light = searchlight(X, y, adjacency=build.chain(X.shape[1]), groups=GROUPS)
    assert_array_equal(light.confusion(5), confusion_matrix(y, light.predictions[5]))
    with pytest.raises(ValueError, match=r"its number in result.positions"):
        light.confusion("V1")


@pytest.mark.parametrize(
    "way",
    [
        {"cv": StratifiedKFold(4), "n_repeats": 2},
        {"train_on": np.arange(N) % 3 > 0},
        {"groups": GROUPS, "average": 2, "n_repeats": 2},
    ],
    ids=["repeats", "trained on", "averages"],
)
def test_confusions_of_repeats_and_of_tested_images_only(way):
    X, y = make_data(2)
    options = {"labels_img": LABELS, "random_state": 0} | way
    result = decode_regions(X, y, **options)
    scored = decode_regions(X, y, **WITH_TABLE, **options)
    pd.testing.assert_frame_equal(result.confusion(2), scored.confusion(2))


def test_confusions_of_overlapping_test_sets_have_to_be_scored():
    X, y = make_data(2)
    cv = RepeatedKFold(n_splits=4, n_repeats=2, random_state=0)
    options = {"labels_img": LABELS, "cv": cv}
    with pytest.raises(ValueError, match=r"scoring=\['accuracy', 'confusion_matrix'\]"):
        decode_regions(X, y, **options).confusion(1)
    result = decode_regions(X, y, **WITH_TABLE, **options)
    assert result.confusion(1).to_numpy().sum() == 2 * N


# -------------------------------------------------------------------- names, and files


def test_regions_are_found_by_name_and_number():
    base = build.volume_space((2, 3, 2))
    names, labels = ["V1", "V2", "V1"], np.arange(base.n_positions) % 3 + 5
    space = RegionSpace(names, [7, 5, 6], base, labels)
    assert [space.find(x) for x in ("V2", 7, np.int64(6))] == [1, 0, 2]
    for given, error, message in (
        ("V1", ValueError, r"2 regions are called 'V1'.* 7, 6"),
        ("V3", ValueError, r"no region of the name 'V3'.*'V1', 'V2'"),
        (3, ValueError, r"no region of the number 3.*7, 5, 6"),
        (1.5, TypeError, r"Invalid value for 'region': 1.5"),
    ):
        with pytest.raises(error, match=message):
            space.find(given)
