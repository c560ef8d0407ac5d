"""Patterns and confusions of regions, and the whole mask as one region.

The oracle fits a `KernelFDA` on the z-scores of a region and writes the forward model
of Haufe et al. (2014) out, for the signal in the unit of the images.
"""

import numpy as np
import pandas as pd
import pytest
from nibabel import Nifti1Image
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import RepeatedKFold, StratifiedKFold

from mvpa_kfda import (
    KernelFDA,
    Nystrom,
    Ridge,
    decode_regions,
    load_result,
    searchlight,
)
from mvpa_kfda.data.space import RegionSpace
from mvpa_kfda.decoding import positions
from mvpa_kfda.results.images import VolumeResult
from mvpa_kfda.viz.brains import _cuts
from tests import build

# Region 1 has fewer features than half of the trials, region 2 more than trials.
N, RUNS, SIZES = 48, 4, (6, 70)
LABELS = np.repeat([1, 2, 0], [*SIZES, 3])
GROUPS = build.groups_of(N, RUNS)


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


def centred_in(X, runs):
    """Return data less the mean of each run: what z-scores are of, before scaling."""
    return np.concatenate(
        [X[runs == r] - X[runs == r].mean(0) for r in np.unique(runs)]
    )


def z_scored_in(X, runs):
    parts = [centred_in(X, runs)[runs == r] for r in np.unique(runs)]
    return np.concatenate([part / part.std(axis=0, ddof=1) for part in parts])


def haufe(model, X, signal, y):
    """Return patterns of classes (c, p) and discriminants (q, p) of a fitted model."""
    scores = model.transform(X)
    s, x = scores - scores.mean(axis=0), signal - signal.mean(axis=0)
    # Sigma_x W Sigma_s^-1, of which Sigma_x W is the covariance of x and s.
    A = (x.T @ s) @ np.linalg.inv(s.T @ s)
    of_class = [A @ s[y == name].mean(axis=0) for name in np.unique(y)]
    signs = np.sign(A[np.abs(A).argmax(axis=0), np.arange(A.shape[1])])
    return np.array(of_class), (A * signs).T


def by_hand(X, signal, y, train=None):
    """Return the patterns of a model of some trials, with the penalty of all."""
    centred = X - X.mean(axis=0)
    lam = 0.3 * np.square(centred).sum() / len(X)
    rows = np.arange(len(X)) if train is None else train
    model = KernelFDA(reg=Ridge(lam)).fit(X[rows], y[rows])
    return haufe(model, X[rows], signal[rows], y[rows])


def assert_close(got, expected, rtol=1e-8):
    """Compare patterns relative to their largest value."""
    assert_allclose(got, expected, rtol=0, atol=rtol * np.abs(expected).max())


def values(patterns):
    """Return patterns of arrays as a table, (patterns, columns)."""
    return pd.DataFrame(patterns).to_numpy().T


# ------------------------------------------------------------------------------ numbers


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("region", [1, 2])
@pytest.mark.parametrize("standardize", ["zscore_sample", False])
def test_patterns_are_those_of_haufe_in_the_unit_of_the_data(
    n_classes, region, standardize
):
    X, y = make_data(n_classes)
    options = {"groups": GROUPS, "standardize": standardize, "reg": 0.3}
    result = decode_regions(X, y, labels_img=LABELS, **options)
    inside = region == LABELS
    scored = z_scored_in(X[:, inside], GROUPS) if standardize else X[:, inside]
    signal = centred_in(X[:, inside], GROUPS) if standardize else X[:, inside]
    classes, discriminants = by_hand(scored, signal, y)
    got = result.patterns(region=region)
    assert list(got) == list(np.unique(y))
    places = np.flatnonzero(LABELS)  # columns of no region are left out
    chosen = inside[places]
    assert_array_equal(got[y[0]].index, places.astype(str))
    assert_close(values(got)[:, chosen], classes)
    assert np.isnan(values(got)[:, ~chosen]).all()
    got = values(result.patterns("discriminant", region=region))
    assert_close(got[:, chosen], discriminants)
    folds = [by_hand(scored, signal, y, train)[0] for train, _ in result.folds]
    got = values(result.patterns(average="folds", region=region))
    assert_close(got[:, chosen], np.mean(folds, axis=0))


def test_all_regions_are_painted_at_once():
    X, y = make_data()
    result = decode_regions(X, y, labels_img=LABELS, groups=GROUPS)
    whole = values(result.patterns())
    for region in (1, 2):
        chosen = LABELS[LABELS > 0] == region
        got = values(result.patterns(region=region))
        assert_array_equal(whole[:, chosen], got[:, chosen])


def test_patterns_of_averages():
    X, y = make_data(2)
    options = {"labels_img": LABELS, "groups": GROUPS, "average": 2, "reg": 0.3}
    result = decode_regions(X, y, random_state=0, **options)
    averages = z_scored_in(X, GROUPS)[result.members].mean(axis=1)
    signal = centred_in(X, GROUPS)[result.members].mean(axis=1)
    inside, y = LABELS == 2, y[result.members[:, 0]]
    expected, _ = by_hand(averages[:, inside], signal[:, inside], y)
    got = result.patterns(region=2)
    assert_close(values(got)[:, inside[LABELS > 0]], expected)


@pytest.mark.parametrize("longest", [1, 64])
@pytest.mark.parametrize("average_test", [True, False])
@pytest.mark.parametrize("region", [1, 2])
def test_patterns_of_repeats_are_means_over_them(
    region, average_test, longest, monkeypatch
):
    # Blocks of one region have the features of this region only.
    monkeypatch.setattr(positions, "_LONGEST", longest)
    X, y = make_data(2)
    options = {"labels_img": LABELS, "groups": GROUPS, "average": 2, "n_repeats": 3}
    options["reg"] = 0.3
    result = decode_regions(X, y, random_state=0, average_test=average_test, **options)
    inside, expected = LABELS == region, []
    scored, signal = z_scored_in(X, GROUPS), centred_in(X, GROUPS)
    if average_test:
        for some in np.split(result.members, 3):
            averages = scored[some].mean(axis=1)[:, inside]
            own = signal[some].mean(axis=1)[:, inside]
            expected.append(by_hand(averages, own, y[some[:, 0]])[0])
        got = values(result.patterns(region=region))[:, inside[LABELS > 0]]
        assert_close(got, np.mean(expected, axis=0))
    got = values(result.patterns(region=region))[:, inside[LABELS > 0]]
    means = [signal[y == k][:, inside].mean(axis=0) for k in np.unique(y)]
    # Not far from the differences of means, whatever is averaged how.
    assert np.corrcoef(got.ravel(), np.ravel(means))[0, 1] > 0.8
    with pytest.raises(ValueError, match=r"Each repeat has its own averages"):
        result.patterns("discriminant", region=region)


def test_patterns_of_steps_learned_in_folds():
    X, y = make_data(2)
    options = {"preprocess": "zscore", "standardize": False, "reg": 0.3}
    result = decode_regions(X, y, labels_img=LABELS, groups=GROUPS, **options)
    inside, found = LABELS == 2, []
    for train, _ in result.folds:
        own, labels = X[train][:, inside], y[train]
        scored = (own - own.mean(axis=0)) / own.std(axis=0)
        lam = 0.3 * np.square(scored).sum() / len(scored)
        model = KernelFDA(reg=Ridge(lam)).fit(scored, labels)
        found.append(haufe(model, scored, own, labels)[0])
    got = values(result.patterns(average="folds", region=2))[:, inside[LABELS > 0]]
    assert_close(got, np.mean(found, axis=0))


def test_train_on_has_the_patterns_of_the_trained_images():
    X, y = make_data(2)
    chosen = np.arange(N) % 3 > 0
    options = {"train_on": chosen, "standardize": False, "reg": 0.3}
    result = decode_regions(X, y, labels_img=LABELS, **options)
    inside = LABELS == 2
    own = X[chosen][:, inside]
    lam = 0.3 * np.square(own - own.mean(axis=0)).sum() / len(own)
    model = KernelFDA(reg=Ridge(lam)).fit(own, y[chosen])
    expected, _ = haufe(model, own, own, y[chosen])
    got = values(result.patterns(region=2))[:, inside[LABELS > 0]]
    assert_close(got, expected)


def test_a_voxel_that_is_constant_in_a_run_says_nothing_there():
    X, y = make_data(2)
    X[GROUPS == 1, 8] = 300.0
    with pytest.warns(RuntimeWarning, match=r"1 features are constant within"):
        result = decode_regions(X, y, labels_img=LABELS, groups=GROUPS, reg=0.3)
    inside = LABELS == 2
    signal, scored = centred_in(X, GROUPS), np.zeros_like(X)
    for run in range(RUNS):
        rows = run == GROUPS
        deviation = X[rows].std(axis=0, ddof=1)
        scored[rows] = signal[rows] / np.where(deviation > 0, deviation, 1)
    expected, _ = by_hand(scored[:, inside], signal[:, inside], y)
    got = values(result.patterns(region=2))[:, inside[LABELS > 0]]
    assert_close(got, expected)


# ------------------------------------------------------------------- images and tables


def make_image(X):
    """Return images of a box of voxels, (4, 5, 4): its first 79 are the columns."""
    data = np.zeros((len(X), 80))
    data[:, :79] = X
    return build.volume(data.reshape(len(X), 4, 5, 4))


def make_atlas():
    return build.mask(np.append(LABELS, 0).reshape(4, 5, 4))


def test_patterns_of_volumes_are_images(tmp_path):
    X, y = make_data()
    X[3, 2], X[:, 10] = np.nan, 7.0  # in region 1, and in region 2
    lut = pd.DataFrame({"index": [1, 2], "name": ["small", "large"]})
    images, options = make_image(X), {"labels_img": make_atlas(), "groups": GROUPS}
    with pytest.warns(RuntimeWarning, match=r"2 of 76 voxels"):
        result = decode_regions(images, y, lut=lut, **options)
    for kind, average in (("class", "full"), ("class", "folds"), ("discriminant",) * 2):
        average = "full" if kind == "discriminant" else average
        name = "class_folds" if average == "folds" else kind
        found = result.patterns(kind, average=average)
        maps = result.pattern_maps[name]
        assert len(found) == maps.shape[1] == (3 if kind == "discriminant" else 4)
        for i, image in enumerate(found.values()):
            assert isinstance(image, Nifti1Image)
            assert_array_equal(image.affine, images.affine)
            got = image.get_fdata().ravel()
            used = np.setdiff1d(np.arange(76), [2, 10])
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
    images = build.surface(X[:, :40], X[:, 40:])
    result = decode_regions(images, y, groups=GROUPS)
    flat = decode_regions(X, y, groups=GROUPS)
    image, expected = result.patterns()[y[0]], flat.patterns()[y[0]].to_numpy()
    joined = np.concatenate([image.data.parts[part] for part in ("left", "right")])
    assert_allclose(joined, expected, rtol=1e-6, atol=0)  # float32


@pytest.mark.some(2)
@pytest.mark.parametrize("options", [{}, {"preprocess": "zscore"}, {"average": 2}])
def test_workers_and_checkpoints_change_nothing(options, tmp_path):
    X, y = make_data()
    many = np.repeat(np.arange(1, 80), 1)
    known = {"labels_img": many, "groups": GROUPS, "random_state": 0} | options
    once = decode_regions(X, y, **known)
    file = tmp_path / "run"
    for n_jobs in (1, 2):
        again = decode_regions(X, y, n_jobs=n_jobs, checkpoint=file, **known)
        assert again == once


def test_a_checkpoint_knows_the_unit_of_the_images(tmp_path):
    X, y = make_data()
    known = {"labels_img": LABELS, "groups": GROUPS, "random_state": 0}
    decode_regions(X, y, checkpoint=tmp_path / "run", **known)
    with pytest.raises(ValueError, match=r"imgs"):  # though z-scores are the same
        decode_regions(2 * X, y, checkpoint=tmp_path / "run", **known)


# ------------------------------------------------------------------------------ figures


def test_figures_of_volumes_show_the_patterns(monkeypatch):
    X, y = make_data()
    result = decode_regions(
        make_image(X), y, labels_img=make_atlas(), groups=GROUPS, standardize=False
    )
    shown = []
    monkeypatch.setattr(
        "nilearn.plotting.plot_stat_map", lambda *a, **k: shown.append((a, k))
    )
    figure = result.plot_patterns(region=2, cut_coords=3)
    expected = result.patterns(region=2).values()
    most = np.nanmax([np.nanmax(np.abs(image.get_fdata())) for image in expected])
    for ((drawn,), options), image in zip(shown, expected, strict=True):
        assert_array_equal(drawn.get_fdata(), np.nan_to_num(image.get_fdata()))
        assert options["vmax"] == -options["vmin"] == pytest.approx(most, rel=1e-6)
        assert len(options["cut_coords"]) == 3
    assert [text.get_text() for text in figure.texts[:4]] == list(result.patterns())
    assert figure.get_suptitle().startswith("region 2, 48 trials, 4 classes")
    assert figure.axes[-1].get_ylabel() == "Pattern (unit of the data)"


def test_slices_are_cut_where_patterns_are_large():
    places = np.repeat(np.arange(10.0), 3)[::-1]
    at_two = np.where(np.isin(places, [2, 7]), 1.0, 0.0)
    assert _cuts(places, at_two, 7) == [2, 7]
    assert _cuts(places, np.ones(30), 5) == [0, 2, 4, 6, 8]
    assert _cuts(places, at_two, 1) == [2]


def test_figures_are_drawn_by_nilearn():
    X, y = make_data(2)
    result = decode_regions(make_image(X), y, labels_img=make_atlas(), groups=GROUPS)
    figure = result.plot_patterns("discriminant", views="x", vlim=(-1, 1))
    assert figure.axes[-1].get_ylim() == (-1, 1)
    surfaces = build.surface(X[:, :40], X[:, 40:])
    result = decode_regions(surfaces, y, groups=GROUPS)
    figure = result.plot_patterns(views="lateral")
    assert len([ax for ax in figure.axes if ax.name == "3d"]) == 2 * 2
    with pytest.raises(ValueError, match=r"A surface has no cuts"):
        result.plot_patterns(cut_coords=3)


def test_columns_of_an_array_have_no_figure():
    X, y = make_data(2)
    result = decode_regions(X, y, labels_img=LABELS, groups=GROUPS)
    with pytest.raises(
        ValueError, match=r"no location in a brain. Use result.patterns"
    ):
        result.plot_patterns()


# ----------------------------------------------------------------------- the whole mask


def test_without_an_atlas_the_mask_is_one_region():
    X, y = make_data()
    options = {"groups": GROUPS, "n_permutations": 20, "random_state": 0, "reg": 0.3}
    result = decode_regions(X, y, **options)
    same = decode_regions(X, y, labels_img=np.ones(X.shape[1], int), **options)
    assert_array_equal(result.scores, same.scores)
    assert_array_equal(result.null, same.null)
    assert result.n_features.tolist() == [X.shape[1]]
    assert result.to_dataframe()["region"].tolist() == ["all features"]
    classes, _ = by_hand(z_scored_in(X, GROUPS), centred_in(X, GROUPS), y)
    assert_close(values(result.patterns()), classes)


def test_the_whole_mask_of_volumes():
    X, y = make_data(2)
    inside = build.mask(np.append(LABELS == 2, False).reshape(4, 5, 4))
    options = {"groups": GROUPS, "n_permutations": 20, "random_state": 0}
    result = decode_regions(make_image(X), y, mask_img=inside, **options)
    expected = decode_regions(X[:, LABELS == 2], y, **options)
    assert_array_equal(result.scores, expected.scores)
    assert_array_equal(result.null, expected.null)
    assert result.to_dataframe()["region"].tolist() == ["whole mask"]
    assert result.adjacency.shape == (2, 0)
    scores = result.to_img().get_fdata()
    assert_allclose(scores[inside.get_fdata() > 0], result.scores[0], rtol=1e-6, atol=0)


def test_names_need_an_atlas():
    X, y = make_data()
    with pytest.raises(TypeError, match=r"lut is for the names of an atlas"):
        decode_regions(X, y, lut="names.tsv")


# -------------------------------------------------------------------------- confusions


@pytest.mark.parametrize("n_classes", [2, 4])
def test_confusions_are_those_of_the_metric(n_classes):
    X, y = make_data(n_classes)
    options = {"labels_img": LABELS, "groups": GROUPS}
    result = decode_regions(X, y, **options)
    scoring = ["accuracy", "confusion_matrix"]
    scored = decode_regions(X, y, scoring=scoring, **options)
    for i in (1, 2):
        table, predicted = result.confusion(i), result.predictions[i - 1]
        assert table.index.tolist() == table.columns.tolist() == sorted(set(y))
        assert_array_equal(table, confusion_matrix(y, predicted))
        pd.testing.assert_frame_equal(scored.confusion(i), table)
        assert np.trace(table) / N == pytest.approx(result.scores[i - 1], abs=1e-12)


def test_confusions_of_repeats_and_of_tested_images_only():
    X, y = make_data(2)
    options = {"labels_img": LABELS, "scoring": ["accuracy", "confusion_matrix"]}
    ways = (
        {"cv": StratifiedKFold(4), "n_repeats": 2, "random_state": 0},
        {"train_on": np.arange(N) % 3 > 0},
        {"groups": GROUPS, "average": 2, "n_repeats": 2, "random_state": 0},
    )
    for way in ways:
        scored = decode_regions(X, y, **options, **way)
        result = decode_regions(X, y, labels_img=LABELS, **way)
        pd.testing.assert_frame_equal(result.confusion(2), scored.confusion(2))


def test_confusions_of_overlapping_test_sets_have_to_be_scored():
    X, y = make_data(2)
    cv = RepeatedKFold(n_splits=4, n_repeats=2, random_state=0)
    options = {"labels_img": LABELS, "cv": cv}
    with pytest.raises(ValueError, match=r"scoring=\['accuracy', 'confusion_matrix'\]"):
        decode_regions(X, y, **options).confusion(1)
    result = decode_regions(X, y, scoring=["accuracy", "confusion_matrix"], **options)
    assert result.confusion(1).to_numpy().sum() == 2 * N


def test_confusions_of_a_searchlight():
    X, y = make_data(2)
    result = searchlight(X, y, adjacency=build.chain(X.shape[1]), groups=GROUPS)
    expected = confusion_matrix(y, result.predictions[5])
    assert_array_equal(result.confusion(5), expected)
    with pytest.raises(ValueError, match=r"its number in result.positions"):
        result.confusion("V1")


# ----------------------------------------------------------------------------- refusals


def test_regions_are_found_by_name_and_number():
    base = build.volume_space((2, 3, 2))
    names, labels = ["V1", "V2", "V1"], np.arange(base.n_positions) % 3 + 5
    space = RegionSpace(names, [7, 5, 6], base, labels)
    assert [space.find(x) for x in ("V2", 7, np.int64(6))] == [1, 0, 2]
    with pytest.raises(ValueError, match=r"2 regions are called 'V1'.* 7, 6"):
        space.find("V1")
    with pytest.raises(ValueError, match=r"no region of the name 'V3'.*'V1', 'V2'"):
        space.find("V3")
    with pytest.raises(ValueError, match=r"no region of the number 3.*7, 5, 6"):
        space.find(3)
    with pytest.raises(TypeError, match=r"Invalid value for 'region': 1.5"):
        space.find(1.5)


def test_what_has_no_patterns_says_so():
    X, y = make_data(2)
    light = searchlight(X, y, adjacency=build.chain(X.shape[1]), groups=GROUPS)
    with pytest.raises(ValueError, match=r"Searchlights hold no activation patterns"):
        light.patterns()
    options = {"labels_img": LABELS, "groups": GROUPS}
    bent = decode_regions(X, y, kernel="rbf", **options)
    assert bent.pattern_maps == {}
    assert len(bent.pattern_features) == 0
    with pytest.raises(ValueError, match=r"its kernel is RBF.*kernel='linear'\.$"):
        bent.patterns()
    result = decode_regions(X, y, **options)
    with pytest.raises(ValueError, match=r"Invalid value for 'kind'"):
        result.patterns("classes")
    with pytest.raises(ValueError, match=r"Each fold has its own discriminants"):
        result.patterns("discriminant", average="folds")
    with pytest.raises(ValueError, match=r"no region of the number 3"):
        result.patterns(region=3)
    with pytest.raises(ValueError, match=r"its kernel is LowRank"):
        decode_regions(X, y, approx=Nystrom(20), **options).patterns()


def test_a_region_without_voxels_has_neither_patterns_nor_confusions():
    X, y = make_data(2)
    X[:, LABELS == 1] = 3.0
    with pytest.warns(RuntimeWarning, match=r"left out"):
        result = decode_regions(X, y, labels_img=LABELS, groups=GROUPS)
    for ask in (result.confusion, lambda number: result.patterns(region=number)):
        with pytest.raises(ValueError, match=r"Nothing could be decoded in region 1"):
            ask(1)
    assert np.isnan(values(result.patterns())[:, : SIZES[0]]).all()


def changed(result, **fields):
    """Return the result with other fields."""
    return VolumeResult(**(result._content() | fields))


def test_patterns_that_do_not_fit_are_refused():
    X, y = make_data(2)
    result = decode_regions(X, y, labels_img=LABELS, groups=GROUPS)
    maps, features = result.pattern_maps, result.pattern_features
    wrong = (
        {"pattern_features": features[1:]},
        {"pattern_features": features + 1},
        {"pattern_maps": {"class": maps["class"][1:]}},
    )
    for fields in wrong:
        with pytest.raises(ValueError, match=r"one row for each of the 76 features"):
            changed(result, **fields)


def test_one_of_several_regions_has_to_be_named():
    X, y = make_data(2)
    result = decode_regions(X, y, labels_img=LABELS, groups=GROUPS)
    with pytest.raises(ValueError, match=r"Invalid value for 'region': None\. .* name"):
        result.confusion()
