"""Part of a result is what only these positions give."""

import mne
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mvpa_kfda import (
    cross_validate,
    decode_arrays,
    decode_epochs,
    decode_regions,
    decode_sources,
    generalize_arrays,
    group_inference,
    load_result,
    methods_text,
    searchlight,
    verify,
)
from tests import build

X, Y = build.trials((14, 12), 4, 8)
RUN = {"sfreq": 20, "n_permutations": 19, "random_state": 0, "cv": 4}
FOLDWISE = {"reg": [0.1, 1.0], "preprocess": "zscore", "keep_class_scores": True}


NEAR = build.chain(4)
CUBE = np.moveaxis(X[..., :3], 2, 1).reshape(26, 3, 2, 2)
ATLAS = np.repeat([3, 7, 5], 4).reshape(3, 2, 2)
LUT = pd.DataFrame({"index": [3, 5, 7], "name": ["V1", "FFA", "PPA"]})
MASK = {"mask_img": build.mask(np.ones((3, 2, 2)))}
SPHERES = MASK | {"radius": 4.0, "null": "full"}
IMAGES = {name: RUN[name] for name in ("n_permutations", "random_state", "cv")}


def at_voxel(*voxel):
    """Return the centre of a voxel in mm."""
    return tuple((build.AFFINE @ [*voxel, 1])[:3])


def same_but_for_the_call(one, other):
    """Compare results whose records say how much was decoded."""
    for name in ("scores", "null", "predicted", "lambdas", "fold_scores"):
        assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    for correction in ("none", "max", "cluster", "tfce"):
        assert_array_equal(one.pvalues(correction), other.pvalues(correction))


@pytest.mark.parametrize("options", [{}, FOLDWISE])
def test_selected_times_are_what_these_times_give(options, tmp_path):
    part = decode_arrays(X, Y, **RUN, **options).sel(times=slice(0.1, 0.3))
    alone = decode_arrays(X[:, :, 2:7], Y, tmin=0.1, **RUN, **options)
    assert type(part) is type(alone)
    assert_allclose(part.times, alone.times, rtol=1e-12)
    same_but_for_the_call(part, alone)
    assert_array_equal(part.class_scores, alone.class_scores)
    part.save(tmp_path / "part.h5")
    assert load_result(tmp_path / "part.h5") == part
    assert "restricted to times from 0.1 to 0.3 s, and" in methods_text(part)
    assert not verify(part, X, Y).ok
    (score,) = part.sel(times=0.2).scores
    assert score == alone.scores[2]


def test_selected_cells_of_a_map_have_both_tests():
    where = {"train_times": slice(None, 0.2), "test_times": slice(0.1, None)}
    part = generalize_arrays(X, Y, **RUN).sel(**where)
    alone = generalize_arrays(
        X[:, :, :5],
        Y,
        X[:, :, 2:],
        tmin_test=0.1,
        same_trials=True,
        **RUN,
    )
    assert part.scores.shape == (5, 6)
    assert part.lambdas.shape == (5,)
    for name in ("scores", "null", "predicted", "lambdas"):
        # But for the mean of all times, which is taken out first.
        assert_allclose(getattr(part, name), getattr(alone, name), rtol=1e-9)
    assert_array_equal(part.second_nulls["accuracy"], alone.second_nulls["accuracy"])
    p = generalize_arrays(X, Y, **RUN).pvalues()
    assert_array_equal(part.pvalues(), p[:5, 2:])
    both = part.sel(test_times=0.2).parameters["selection"]
    assert both.endswith("; test time 0.2 s")


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (at_voxel(2.6, 0, 0), r"mask, at x, y, z = -3, -30, 10 mm, is 1.8 mm away"),
        ([at_voxel(0, 0, 0), (90, 0, 0)], "is 97.4 mm away"),
        ((np.nan, 0, 0), r"Allowed: \(x, y, z\) in mm, or its number"),
        (12, r"Allowed: \(x, y, z\)"),
        ([], "a list of these, or an image"),
        ("V1", r"Allowed: \(x, y, z\)"),
    ],
)
def test_a_place_outside_of_the_mask_is_not_moved_into_it(place, message):
    whole = searchlight(build.volume(CUBE), Y, radius=4.0, cv=4, **MASK)
    with pytest.raises(ValueError, match=message):
        whole.sel(place=place)


def test_unknown_names_of_regions_are_answered_by_the_nearest():
    X_of = np.hstack([X[:, :, 0], np.full((26, 1), np.nan)])
    names = ["V1", "V2", "FFA", "FFA", "gap"]
    with pytest.warns(RuntimeWarning, match="1 of 4 regions have nothing to decode"):
        whole = decode_regions(X_of, Y, labels_img=names, cv=4)
    for place, message in (
        ("ffa", r"no region of the name 'ffa'. Did you mean 'FFA'\? The names are: "),
        ("gap", "Nothing was decoded at the place"),
        ((1.0, 2.0, 3.0), "Allowed: the name or the number of a region"),
    ):
        with pytest.raises(ValueError, match=message):
            whole.sel(place=place)
    assert whole.sel(place=["gap", "V1"]).decoded.tolist() == [True, False]


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ({}, "Invalid coordinates: none"),
        ({"freqs": 3}, r"can be selected by times, as in result.sel\(times="),
        ({"place": "V1"}, "Invalid coordinates: 'place'"),
        ({"times": slice(5, 6)}, "go from 0 to 0.35 s"),
        ({"times": slice(0, 1, 2)}, "has a step"),
        ({"times": "early"}, r"Allowed: a number, or slice\(start, stop\), in s"),
    ],
)
def test_what_is_not_there_cannot_be_selected(where, message):
    with pytest.raises(ValueError, match=message):
        decode_arrays(X, Y, cv=4, sfreq=20).sel(**where)


def test_a_selected_sensor_is_what_its_neighbourhood_gives(tmp_path):
    epochs = build.epochs(X, units={})
    whole = decode_epochs(epochs, Y, sensors=NEAR, scale=None, **IMAGES)
    part = whole.sel(place="EEG2", times=slice(0.01, 0.04))
    alone = decode_arrays(X[:, [1, 2, 3], 1:5], Y, **IMAGES)
    assert type(part) is type(whole)
    assert part.ch_names.tolist() == ["EEG2"]
    for name in ("scores", "predicted", "lambdas"):
        assert_allclose(getattr(part, name)[0], getattr(alone, name), rtol=1e-9)
    assert_array_equal(part.null[:, 0], alone.null)
    for correction in ("none", "max", "cluster", "tfce"):
        assert_array_equal(part.pvalues(correction)[0], alone.pvalues(correction))
    text = methods_text(part)
    assert "restricted to sensor EEG2 and times from 0.01 to 0.04 s, and" in text
    assert "at one sensor and 4 time points" in text
    part.save(tmp_path / "part.h5")
    assert load_result(tmp_path / "part.h5") == part
    # Corrected for two sensors, which are neighbours or not.
    for names, pairs in ((["EEG2", "EEG1"], [[0], [1]]), (["EEG0", "EEG3"], [[], []])):
        two = whole.sel(place=names)
        assert two.ch_names.tolist() == sorted(names)
        assert_array_equal(two.adjacency, pairs)
        highest = np.append(two.null.max(axis=(1, 2)), np.inf)
        p = (highest[:, None, None] >= two.scores - 1e-6).mean(axis=0)
        assert_array_equal(two.pvalues("max"), p)
    assert two.figure().axes[0].get_yticklabels()[1].get_text() == "EEG3"


def test_selected_regions_are_what_these_regions_give():
    def decode(atlas):
        image = build.mask(atlas)
        scoring = ["accuracy", "confusion_matrix"]
        options = IMAGES | MASK | {"scoring": scoring}
        return decode_regions(
            build.volume(CUBE), Y, labels_img=image, lut=LUT, **options
        )

    whole, alone = decode(ATLAS), decode(np.where(ATLAS == 7, 0, ATLAS))
    assert whole.sel(place=[5, "V1"]) == whole.sel(place=["V1", "FFA"])
    part = whole.sel(place=["V1", "FFA"])
    same_but_for_the_call(part, alone)
    assert_array_equal(part.to_dataframe(), alone.to_dataframe())
    assert_array_equal(part.adjacency, alone.adjacency)
    assert_array_equal(part.confusion("FFA"), alone.confusion("FFA"))
    for image, other in (
        (part.to_img("p"), alone.to_img("p")),
        (part.patterns()["0"], alone.patterns()["0"]),
        (part.sel(place=5).patterns()["0"], alone.patterns(region=5)["0"]),
    ):
        # In other regions there is no pattern.
        assert_array_equal(*(np.nan_to_num(x.get_fdata()) for x in (image, other)))
    assert "restricted to regions V1 and FFA, and" in methods_text(part)
    one = part.sel(place="FFA")
    assert one.pvalues("max") == one.pvalues() == part.pvalues()[1]


def test_selected_voxels_are_what_these_centres_give():
    def decode(seed, **options):
        image, trained = build.volume(CUBE + seed), SPHERES | IMAGES
        return searchlight(image, Y, **trained | options)

    whole, centres = decode(0), np.zeros((3, 2, 2))
    centres[1, 0, 1] = centres[2, 0, 1] = 1
    alone = decode(0, process_mask_img=build.mask(centres))
    points = [at_voxel(2.4, 0, 0.6), at_voxel(0.6, -0.4, 1.4)]
    for place in (points, np.array(points), build.mask(centres)):
        part = whole.sel(place=place)
        same_but_for_the_call(part, alone)
        assert part.to_dataframe().equals(alone.to_dataframe())
        assert_array_equal(part.adjacency, alone.adjacency)
        assert part.geometry == alone.geometry
    assert "restricted to 2 of 12 voxels, and" in methods_text(part)
    one = whole.sel(place=points[0])
    assert one == whole.sel(place=list(points[0]))
    for single in (one, part.sel(place=1)):
        assert single.scores == alone.scores[1]
        for correction in ("none", "max", "holm"):
            assert single.pvalues(correction) == alone.pvalues()[1]
    text = methods_text(one)
    assert "restricted to the voxel at x, y, z = -3, -30, 14 mm, and" in text
    assert ") was centred on one voxel and comprised all voxels within 4 mm" in text
    one.figure()
    # The same voxel of several subjects is a group's.
    subjects = [decode(seed).sel(place=points[0]) for seed in range(6)]
    assert group_inference(subjects, n_permutations=19).subject_scores.shape == (6, 1)


def test_selected_sources_are_what_their_neighbourhoods_give():
    src = build.source_space("mixed")
    n = [space["nuse"] for space in src]
    data = np.random.default_rng(0).normal(size=(26, sum(n), 3))
    stcs, options = build.estimates(data, src), IMAGES | {"null": "full"}
    whole = decode_sources(stcs, Y, src=src, radius=8.0, **options)
    left, right = (mne.Label([0, 3, 4], hemi=h, subject="sample") for h in ("lh", "rh"))
    brain_stem = [f"Brain-Stem {i}" for i in src[3]["vertno"]]
    for place, names in (
        (left, ["lh 0", "lh 3"]),
        (left + right, ["lh 0", "lh 3", "rh 0", "rh 3"]),
        ("Brain-Stem", brain_stem),
        (["rh 3", left], ["lh 0", "lh 3", "rh 3"]),
    ):
        assert whole.sel(place=place).vertices.tolist() == names
    part = whole.sel(place=left, times=slice(-0.1, -0.09))
    rows, where = [0, 1], np.ix_([0, 1], [0, 1])
    assert_array_equal(part.scores, whole.scores[where])
    assert_array_equal(part.null, whole.null[:, :2, :2])
    highest = np.append(part.null.max(axis=(1, 2)), np.inf)
    p = (highest[:, None, None] >= part.scores - 1e-6).mean(axis=0)
    assert_array_equal(part.pvalues("max"), p)
    stc, of_all = part.to_stc(), whole.to_stc()
    assert [each.tolist() for each in stc.vertices] == [[0, 3], [], [], []]
    assert_array_equal(stc.data, of_all.data[where])
    assert_array_equal(part.sources["points"], whole.sources["points"][rows])
    text = methods_text(part)
    assert "restricted to vertices lh 0 and lh 3 and times from" in text
    assert "among 66 sources in a mixed source space, at each of 2 vertices" in text
    assert "27 of 66" in whole.sel(place=["lh", "Brain-Stem"]).parameters["selection"]
    other = mne.Label([0], hemi="lh", subject="fsaverage")
    for place, message in (
        (other, "is of 'fsaverage'; the map is of 'sample'"),
        (mne.Label([1, 2], hemi="lh"), "No vertex of the map is in <Label"),
        ("lh 1", "no vertex is named 'lh 1'"),
        (("lh", 3), "Allowed: the name of a vertex, a structure, or an mne.Label"),
    ):
        with pytest.raises(ValueError, match=message):
            whole.sel(place=place)


def test_selected_vertices_of_a_mesh():
    image = build.surface(X[:, :, 0], X[:, :, 1])
    whole = searchlight(image, Y, radius=1, distance="edges", **IMAGES)
    part = whole.sel(place=[("left", 2), ("right", 0)])
    assert_array_equal(part.scores, whole.scores[[2, 4]])
    table = part.to_dataframe()
    assert table[["hemisphere", "vertex"]].to_numpy().tolist() == [
        ["left", 2],
        ["right", 0],
    ]
    one = whole.sel(place=("left", 2)).parameters["selection"]
    assert one == "vertex 2 of the left hemisphere"


def test_a_single_position_has_no_part():
    with pytest.raises(ValueError, match="of a single position, which has no parts"):
        cross_validate(X[:, :, 0], Y).sel(times=0.1)


def test_summaries_of_whole_maps_are_of_no_part():
    result = generalize_arrays(X, Y, null="max", **RUN)
    with pytest.raises(ValueError, match="null='full'"):
        result.sel(test_times=0.1)
