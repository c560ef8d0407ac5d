"""Results of images: what was not decoded does not count; p-values and peaks."""

import tracemalloc
import warnings
from dataclasses import replace

import nibabel
import numpy as np
import pytest
from nilearn.reporting import get_clusters_table
from numpy.testing import assert_allclose, assert_array_equal
from scipy.ndimage import gaussian_filter

from mvpa_kfda import (
    group_inference,
    methods_text,
    report,
    verify,
)
from mvpa_kfda.data.neighbours import touching
from mvpa_kfda.data.space import FeatureSpace, SurfaceSpace, VolumeSpace
from mvpa_kfda.inference.corrections import CORRECTIONS, corrected_p_values
from mvpa_kfda.inference.null import ALTERNATIVES, summarize_null
from mvpa_kfda.results.images import find_peaks
from mvpa_kfda.results.load import load_result
from tests import build

N, P = 12, 99
UNDECODED = [5, 17]


def volume():
    return VolumeSpace(np.random.default_rng(0).random((4, 5, 3)) < 0.8, build.AFFINE)


def surface():
    """Make two strips of triangles, with a vertex of the left one left out."""
    coordinates, faces, mask = {}, {}, {}
    for part, n in {"left": 12, "right": 10}.items():
        i = np.arange(n)
        coordinates[part] = np.stack([i * 3.0, i % 2, np.full(n, 7.0)], axis=1)
        faces[part] = np.stack([i[:-2], i[1:-1], i[2:]], axis=1)
        mask[part] = (i != 1) | (part == "right")
    return SurfaceSpace(coordinates, faces, mask)


def regions():
    return replace(build.region_space(5), names=[*"abcde"])


def features(n=30):
    return FeatureSpace(None, n)


def pairs_of(space):
    """Return which positions are neighbours; regions and features are in a row."""
    if space.kind in ("volume", "surface"):
        return touching(space)
    return np.arange(space.n_positions - 1) + np.array([[0], [1]])


def make(space=None, undecoded=UNDECODED, n_permutations=P, peak=None):
    """Make a result with some undecoded positions and some good ones."""
    space, rng = volume() if space is None else space, np.random.default_rng(0)
    n, undecoded = space.n_positions, np.array(undecoded, dtype=int)
    scores = rng.uniform(0.4, 0.65, n).round(2)
    scores[[] if peak is None else peak] = 0.9
    null = rng.uniform(0.35, 0.65, (n_permutations, n)).round(2).astype(np.float32)
    scores[undecoded], null[:, undecoded] = np.nan, np.nan
    predicted = rng.integers(2, size=(n, N)).astype(np.int8)
    predicted[undecoded] = -1
    nulls = {"accuracy": null, "kappa": 2 * null - 1}
    return build.made_of_images(
        space,
        scores,
        adjacency=pairs_of(space),
        metrics={"accuracy": scores, "kappa": 2 * scores - 1},
        nulls=nulls if n_permutations else {},
        chances={"accuracy": 0.5, "kappa": 0.0},
        predicted=predicted,
        parameters={"null": "full", "n_permutations": n_permutations},
    )


def summarised(result, null="stream"):
    """Return the same result with the nulls replaced by their summaries."""
    decoded, kept = result.decoded, {}
    for name, full in result.nulls.items():
        kept[name] = summarize_null(
            result.metrics[name][decoded],
            full[:, decoded],
            with_clusters=null == "stream",
            adjacency=result.places.adjacency(result.decoded),
        ).to_arrays()
    parameters = result.parameters | {"null": null}
    return replace(result, nulls={}, null_summaries=kept, parameters=parameters)


# ---------------------------------------------------------------------- the object


def test_result_is_described_in_one_line():
    result = make()
    n, (x, y, z) = (
        len(result.positions),
        result.coordinates[np.nanargmax(result.scores)],
    )
    assert repr(result) == (
        f"<VolumeResult: highest accuracy {np.nanmax(result.scores):.3f} at x, y, z = "
        f"{x:g}, {y:g}, {z:g} mm (chance 0.500) | {n} voxels, {n - 2} of them decoded "
        "| 12 trials, 2 classes, 4 folds, 99 permutations>"
    )
    assert "| 5 regions | 12 trials" in repr(make(regions(), undecoded=[]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nothing = make(regions(), undecoded=range(5))
        assert "highest accuracy none |" in repr(nothing)
    assert np.isnan(nothing.pvalues("max")).all()
    assert len(nothing.peaks()) == 0


def test_places_and_what_was_decoded():
    result = make()
    assert result.geometry == volume()
    assert_array_equal(result.coordinates, volume().points)
    assert np.flatnonzero(~result.decoded).tolist() == UNDECODED
    assert make(features()).coordinates is None
    assert np.ma.getmaskarray(result.predictions)[UNDECODED].all()
    columns = ["x", "y", "z", "n_features", "accuracy", "kappa", "p", "p_max"]
    assert list(result.to_dataframe()) == columns
    assert make(regions(), []).to_dataframe()["region"].tolist() == [*"abcde"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"space": features().pack()}, "needs a space of as many"),
        ({"n_features": np.ones(3, int)}, r"n_features of shape \(3,\)"),
        ({"adjacency": np.array([[0], [99]])}, "hold indices of the"),
        ({"adjacency": np.zeros((3, 2), int)}, r"shape \(2, n_pairs\)"),
        ({"adjacency": np.zeros((2, 2))}, "dtype float64"),
        ({"n_features": None}, "must be NaN where n_features is 0, and only there"),
        ({"null_summaries": None}, "summary of 'accuracy' does not fit"),
    ],
)
def test_what_does_not_belong_together_is_refused(change, message):
    result = make()
    if change.get("n_features", 0) is None:
        change = {"n_features": np.ones(len(result.positions), int)}
    elif "null_summaries" in change:
        of_all = summarised(make(undecoded=[])).null_summaries
        change = {"nulls": {}, "null_summaries": of_all}
    with pytest.raises(ValueError, match=message):
        replace(result, **change)


# ------------------------------------------------------------------------- p-values

ON_MAPS = [name for name, known in CORRECTIONS.items() if not known.of_courses]


@pytest.mark.parametrize("undecoded", [UNDECODED, []])
@pytest.mark.parametrize("correction", ON_MAPS)
@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_p_values_are_those_of_the_decoded_positions(
    alternative, correction, undecoded
):
    result = make(undecoded=undecoded, peak=[20, 21, 22])
    left = result.decoded
    options = {} if alternative == "greater" else {"threshold": 0.2}
    options["alternative"] = alternative
    expected = corrected_p_values(
        result.metrics["kappa"][left],
        result.nulls["kappa"][:, left],
        correction,
        adjacency=result.places.adjacency(result.decoded),
        **options,
    )
    options["metric"] = "kappa"
    p = result.pvalues(correction, **options)
    assert_array_equal(p[left], expected)
    assert np.isnan(p[undecoded]).all()
    if alternative != "greater" or correction in ("max-step-down", "cluster-size"):
        with pytest.raises(ValueError, match=r"needs the .*null='full'"):
            summarised(result).pvalues(correction, **options)
    else:
        assert_array_equal(summarised(result).pvalues(correction, **options), p)


def test_clusters_do_not_reach_across_undecoded_positions():
    line = VolumeSpace(np.ones((7, 1, 1)), np.eye(4))
    joined = make(line, undecoded=[], peak=[1, 2, 4, 5])
    assert joined.places.adjacency(joined.decoded).shape == (7, 7)
    split = make(line, undecoded=[3], peak=[1, 2, 4, 5])
    pairs = np.argwhere(split.places.adjacency(split.decoded).toarray()).tolist()
    assert pairs == [[0, 1], [1, 0], [1, 2], [2, 1], [3, 4], [4, 3], [4, 5], [5, 4]]
    assert len(set(split.peaks(min_score=0.9)["cluster"])) == 2


def test_null_and_its_maximum_ignore_undecoded_positions(tmp_path):
    result = make()
    expected = result.nulls["accuracy"][:, result.decoded].max(axis=1)
    short = summarised(result, "max")
    for each in (result, short):
        assert_array_equal(each.null_max, expected)
        assert each.n_permutations == P
    short.save(tmp_path / "result.h5")
    assert load_result(tmp_path / "result.h5") == short
    with pytest.raises(ValueError, match=r"result\.null was not kept"):
        _ = short.null
    with pytest.raises(ValueError, match="needs the whole null"):
        short.pvalues("tfce")
    assert len(make(n_permutations=0).null_max) == 0


def warped_images(result, shift=0, order=None):
    """Images of the maps of a result, as of a grid that lies `shift` voxels further."""
    maps = np.array([result.scores, *result.null])[order or slice(None)]
    maps = np.nan_to_num(maps, nan=result.chance)
    images = [result.geometry.to_img(x, outside=result.chance) for x in maps]
    padding = [(shift, 0), (0, 0), (0, 0)]
    data = np.stack([np.asarray(each.dataobj) for each in images], axis=-1)
    n = np.asarray(result.to_img("n_features").dataobj)
    affine = images[0].affine.copy()
    affine[:3, 3] -= shift * affine[:3, 0]
    data = np.pad(data, [*padding, (0, 0)], constant_values=result.chance)
    return (
        nibabel.Nifti1Image(data.astype(np.float32), affine),
        nibabel.Nifti1Image(np.pad(n, padding), affine),
    )


def test_maps_that_were_warped_are_read_with_those_of_permutations(tmp_path):
    result = make()
    decoded = result.decoded
    for shift in (0, 2):
        paths = [tmp_path / f"{name}.nii.gz" for name in ("scores", "n")]
        for image, path in zip(warped_images(result, shift), paths, strict=True):
            image.to_filename(path)
        warped = result.warped(*paths)
        warped.save(tmp_path / "warped.h5", overwrite=True)
        warped = load_result(tmp_path / "warped.h5")
        assert_array_equal(warped.coordinates, result.coordinates[decoded])
        assert_array_equal(warped.n_features, result.n_features[decoded])
        assert_allclose(warped.scores, result.scores[decoded], rtol=1e-6, atol=0)
        assert_allclose(warped.null, result.null[:, decoded], rtol=1e-6, atol=0)
        assert warped.adjacency.shape == touching(warped.geometry).shape
        assert_allclose(
            warped.pvalues("max"), result.pvalues("max")[decoded], rtol=1e-12, atol=0
        )
        assert warped.parameters["warped"] is True
        assert warped.n_permutations == P
    text = methods_text(
        build.result("VolumeResult").warped(
            *warped_images(build.result("VolumeResult"))
        )
    )
    assert "permuted labels, were warped to another space after decoding." in text
    with pytest.raises(ValueError, match="Warped maps have no predictions"):
        warped.confusion(3)
    assert warped.predictions.mask.all()
    page = tmp_path / "page.html"
    report(warped, page)
    assert "warped to another space" in page.read_text()
    bare = make(n_permutations=0)
    scores, n = warped_images(bare)
    assert bare.warped(scores.slicer[..., 0], n).n_permutations == 0


def test_a_group_of_warped_maps():
    results, warped = [], []
    for seed in range(4):
        result = build.result("VolumeResult", seed)
        results.append(result)
        warped.append(result.warped(*warped_images(result, shift=seed)))
    options = {"random_state": 0, "n_permutations": 50}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        group = group_inference(warped, resample=True, **options)
        assert_allclose(
            group.pvalues(), group_inference(results, **options).pvalues(), rtol=1e-12
        )
        assert "were warped to a common space after decoding" in methods_text(group)
        assert not verify(warped[0], None, None).ok
        assert verify(group, warped).ok


def test_other_maps_than_those_of_the_result_are_refused():
    result = make(peak=[3])
    scores, n = warped_images(result)
    swapped, _ = warped_images(result, order=[1, 0, *range(2, P + 1)])
    beyond = np.array(scores.dataobj)
    beyond[n.get_fdata() > 0, 7] += 0.3  # as a spline may
    outside = np.where(n.get_fdata() > 0, n.get_fdata(), 1)
    lost = np.where(n.get_fdata()[..., None] > 0, scores.get_fdata(), 0)
    image = lambda data: nibabel.Nifti1Image(data, scores.affine)  # noqa: E731
    far = nibabel.Nifti1Image(n.get_fdata(), 2 * n.affine)
    of_regions = make(regions(), undecoded=[])
    for given, images, match in (
        (result, (swapped, n), "exceed the range of a map. Warp those of the same sub"),
        (result, (image(beyond), n), "exceed the range of a map"),
        (result, (image(lost), image(outside)), "exceed the range of a map"),
        (result, (scores, image(0 * outside)), "of 0 voxels"),
        (
            result,
            (scores.slicer[..., :-1], n),
            rf"and of its {P} permutations, one vol",
        ),
        (result, (scores.slicer[..., 0], n), "scores_img has shape"),
        (result, (scores, far), "n_features_img is on another grid than scores_img"),
        (of_regions, (scores, n), "of a searchlight in voxels .* of 5 regions"),
    ):
        with pytest.raises(ValueError, match=match):
            given.warped(*images)
    summary = build.result("VolumeResult", null="stream")
    with pytest.raises(ValueError, match="run the analysis again with null='full'"):
        summary.warped(scores, n)


def test_the_null_is_not_copied_as_a_whole(monkeypatch):
    monkeypatch.setattr("mvpa_kfda.utils.memory._BATCH", 10_000)
    result = make(features(2000), undecoded=[3], n_permutations=500)
    for use in (lambda: result.pvalues("max"), lambda: result.null_max):
        tracemalloc.start()
        use()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < result.null.nbytes / 4


# ----------------------------------------------------------------------------- peaks


def smooth_map(seed, levels=None):
    rng = np.random.default_rng(seed)
    mask = gaussian_filter(rng.normal(size=(16, 18, 15)), 2) > -0.05
    values = gaussian_filter(rng.normal(size=mask.shape), 1.2)[mask] * 5
    if levels:
        values = np.round(values * levels) / levels
    affine = np.eye(4)
    affine[:3, :3] = np.linalg.qr(rng.normal(size=(3, 3)))[0] * [2, 3, 4.5]
    affine[:3, 3] = rng.normal(size=3) * 30
    return VolumeSpace(mask, affine), values - 1  # negative scores as well


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("levels", [None, 12], ids=["smooth", "ties"])
def test_peaks_are_those_of_nilearn(seed, levels):
    space, values = smooth_map(seed, levels)
    marked = values > np.quantile(values, 0.85)
    distance = 8.0
    found = find_peaks(space, values, marked, touching(space), distance)
    peaks, clusters, sizes = found
    ranks = np.where(marked, 1 + np.unique(values, return_inverse=True)[1], 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = get_clusters_table(space.to_img(ranks), 0.5, min_distance=distance)
    theirs = {tuple(x) for x in table[["X", "Y", "Z"]].to_numpy(float).round(3)}
    ours = {tuple(x) for x in space.points[peaks].round(3)}
    assert ours <= theirs
    # nilearn brings back sub-peaks that it had dropped: too near to a higher one.
    for extra in theirs - ours:
        gaps = np.linalg.norm(space.points[peaks] - extra, axis=1)
        assert gaps.min() <= distance + 1e-2
    main = table["Cluster Size (mm3)"] != ""
    _, first = np.unique(clusters, return_index=True)
    assert_allclose(
        np.sort(sizes[first] * space.voxel_size),
        np.sort(table.loc[main, "Cluster Size (mm3)"].to_numpy(float)),
        rtol=0,
        atol=1.0,  # nilearn cuts off the decimals
    )
    assert (np.diff(values[peaks[first]]) <= 0).all()
    assert clusters[np.sort(first)].tolist() == [*range(1, len(first) + 1)]


def test_peak_table_of_a_volume():
    result = make(peak=[20, 21])
    result.scores[21] = 0.8
    table = result.peaks()
    columns = ["x", "y", "z", "score", "p", "p_max", "cluster", "cluster_size_mm3"]
    assert list(table) == columns
    assert (result.pvalues("max") <= 0.05)[20]
    top = table.iloc[0]
    assert top["score"] == pytest.approx(0.9, abs=1e-12)
    assert top["p"] == top["p_max"] == 1 / (P + 1)
    assert_array_equal(top[["x", "y", "z"]].to_numpy(float), result.coordinates[20])
    neighbours = (result.adjacency == 20).any(axis=0)
    together = np.isin(21, result.adjacency[:, neighbours])
    assert top["cluster_size_mm3"] == 36.0 * (1 + together)
    empty, full = (result.peaks("bonferroni", alpha=alpha) for alpha in (0.001, 0.9))
    assert len(empty) == 0 < len(full)
    assert list(empty) == list(full)
    assert (empty.dtypes == full.dtypes).all()


def test_peaks_above_a_score_need_no_permutations():
    result = make(n_permutations=0, peak=[20])
    table = result.peaks(min_score=0.9)
    assert table["score"].tolist() == [0.9]
    assert list(table)[3:] == ["score", "cluster", "cluster_size_mm3"]
    for options, message in [
        ({}, r"nothing is significant\. Set the lowest"),
        ({"min_score": np.nan}, "'min_score': nan"),
        (
            {"min_score": 0.9, "min_distance": 0.0},
            r"'min_distance': 0\.0.* It is in mm",
        ),
        ({"alpha": 5}, "'alpha': 5"),
    ]:
        with pytest.raises(ValueError, match=message):
            result.peaks(**options)


def test_peaks_on_a_surface_are_local_maxima():
    result = make(surface(), undecoded=[])
    scores = np.full(21, 0.5)
    scores[[3, 4, 5, 6, 7, 8]] = [0.7, 0.8, 0.7, 0.7, 0.75, 0.7]  # left
    scores[[13, 14]] = 0.9  # right, a plateau
    result = replace(result, metrics={"accuracy": scores}, nulls={})
    table = result.peaks(min_score=0.6, min_distance=1.0)
    assert table["hemisphere"].tolist() == ["right", "left", "left"]
    assert table["vertex"].tolist() == [2, 5, 8]  # vertex 1 is left out on the left
    assert table["cluster"].tolist() == [1, 2, 2]
    assert table["cluster_size"].tolist() == [2, 6, 6]
    assert result.peaks(min_score=0.6, min_distance=20.0)["vertex"].tolist() == [2, 5]
    # Further apart than the distance: not just as far.
    apart = np.linalg.norm(result.coordinates[7] - result.coordinates[4])
    for distance, left in ((apart, [5]), (np.nextafter(apart, 0), [5, 8])):
        table = result.peaks(min_score=0.6, min_distance=distance)
        assert table["vertex"].tolist() == [2, *left]


def test_peaks_of_regions_and_features_need_no_places():
    table = make(regions(), undecoded=[4], peak=[0, 1, 3]).peaks()
    assert table["region"].tolist() == ["a", "b", "d"]
    assert table["cluster"].tolist() == [1, 1, 2]
    assert {"x", "p_max", "cluster_size"} <= set(table)
    table = make(features(), peak=[3, 9], undecoded=[4]).peaks("none")
    assert set(table["feature"]) >= {3, 9}
    for order, top in [(1, 29), (-1, 0)]:  # a slope has one peak
        scores = np.arange(30.0)[::order]
        found = find_peaks(features(), scores, scores >= 0, pairs_of(features()), 8.0)
        assert [each.tolist() for each in found] == [[top], [1], [30]]
