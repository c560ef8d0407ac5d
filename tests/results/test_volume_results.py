import pickle
import tracemalloc
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from nilearn.reporting import get_clusters_table
from numpy.testing import assert_allclose, assert_array_equal
from scipy.ndimage import gaussian_filter
from scipy.stats import norm

from mvpa_kfda.data.neighbours import touching
from mvpa_kfda.data.space import FeatureSpace, RegionSpace, SurfaceSpace, VolumeSpace
from mvpa_kfda.inference.corrections import CORRECTIONS, corrected_p_values
from mvpa_kfda.inference.null import ALTERNATIVES, summarize_null
from mvpa_kfda.results.images import find_peaks
from mvpa_kfda.results.load import load_result
from tests import build

N, P = 12, 99
CHANCE = 0.5
AFFINE = np.diag([3.0, 3.0, 4.0, 1.0])
AFFINE[:3, 3] = [-9, -30, 10]
UNDECODED = [5, 17]


def volume(shape=(4, 5, 3), seed=0, affine=AFFINE):
    space = VolumeSpace(np.random.default_rng(seed).random(shape) < 0.8, affine)
    return space, touching(space)


def surface():
    """Make two strips of triangles, with a vertex of the left one left out."""
    coordinates, faces, mask = {}, {}, {}
    for part, n in {"left": 12, "right": 10}.items():
        i = np.arange(n)
        coordinates[part] = np.stack([i * 3.0, i % 2, np.full(n, 7.0)], axis=1)
        faces[part] = np.stack([i[:-2], i[1:-1], i[2:]], axis=1)
        mask[part] = (i != 1) | (part == "right")
    space = SurfaceSpace(coordinates, faces, mask)
    return space, touching(space)


def regions():
    base, _ = volume()
    labels = np.arange(base.n_positions) * 6 // base.n_positions  # 0 is none
    names = ["a", "b", "c", "d", "e"]
    space = RegionSpace(names, np.arange(1, 6), base, labels)
    return space, np.array([[0, 1, 2, 3], [1, 2, 3, 4]])


def features(n=30):
    return FeatureSpace(None, n), np.array([np.arange(n - 1), np.arange(1, n)])


def make(place=None, undecoded=UNDECODED, n_permutations=P, seed=0, peak=None):
    """Make a result with some undecoded positions and some good ones."""
    space, pairs = volume() if place is None else place
    rng, n = np.random.default_rng(seed), space.n_positions
    observed = rng.uniform(0.4, 0.65, n).round(2)
    if peak is not None:
        observed[peak] = 0.9
    null = rng.uniform(0.35, 0.65, (n_permutations, n)).round(2).astype(np.float32)
    n_features = rng.integers(1, 30, n)
    predicted = rng.integers(2, size=(n, N)).astype(np.int8)
    undecoded = np.array(undecoded, dtype=int)
    metrics = {"accuracy": observed, "kappa": 2 * observed - 1}
    metrics["confusion_matrix"] = rng.random((n, 2, 2))
    n_features[undecoded], predicted[undecoded] = 0, -1
    nulls = {"accuracy": null, "kappa": 2 * null - 1}
    for array in metrics.values():
        array[undecoded] = np.nan
    for array in nulls.values():
        array[:, undecoded] = np.nan
    return build.made_of_images(
        space,
        observed,
        adjacency=pairs,
        n_features=n_features,
        metrics=metrics,
        nulls=nulls if n_permutations else {},
        chances={"accuracy": CHANCE, "kappa": 0.0, "confusion_matrix": np.nan},
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


PLACES = {"volume": volume, "surface": surface, "regions": regions, "cols": features}


# ---------------------------------------------------------------------- the object


@pytest.mark.parametrize("tuned", [True, False])
def test_images_of_the_penalty_are_means_over_folds(tuned):
    result = make()
    n, rng = len(result.positions), np.random.default_rng(0)
    lambdas, df = np.exp(rng.normal(size=(2, n, 4) if tuned else (2, n)))
    lambdas[UNDECODED] = df[UNDECODED] = np.nan
    penalty = {"lambda": lambdas, "degrees_of_freedom": df}
    result = replace(result, penalty=penalty)
    if tuned:
        lambdas, df = np.prod(lambdas, axis=1) ** (1 / 4), df.sum(axis=1) / 4
    for name, expected in (("lambda", lambdas), ("degrees_of_freedom", df)):
        values = result.to_img(name).get_fdata()[result.geometry.mask]
        assert_allclose(values, expected, rtol=1e-6)


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("null", ["full", "max", "stream"])
def test_results_survive_files_and_pickles(place, null, tmp_path):
    result = make(place(), undecoded=[2])
    if null != "full":
        result = summarised(result, null)
    result.save(tmp_path / "result.h5")
    loaded = load_result(tmp_path / "result.h5")
    assert loaded == result
    assert loaded.geometry == result.geometry
    assert pickle.loads(pickle.dumps(result)) == result
    assert loaded != make(place(), undecoded=[2], seed=1)


def test_result_is_described_in_one_line():
    result = make()
    best = np.nanmax(result.scores)
    n = len(result.positions)
    assert repr(result) == (
        f"<VolumeResult: highest accuracy {best:.3f} at x, y, z = -3, -27, 14 mm "
        f"(chance 0.500) | {n} voxels, {n - 2} of them decoded | "
        "12 trials, 2 classes, 4 folds, 99 permutations>"
    )
    assert "| 5 regions | 12 trials" in repr(make(regions(), undecoded=[]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "highest accuracy none |" in repr(make(regions(), undecoded=range(5)))


def test_places_and_what_was_decoded():
    result = make()
    assert result.geometry == volume()[0]
    assert_array_equal(result.coordinates, volume()[0].points)
    assert np.flatnonzero(~result.decoded).tolist() == UNDECODED
    assert make(features()).coordinates is None
    assert np.ma.getmaskarray(result.predictions)[UNDECODED].all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"space": features()[0].pack()}, "needs a space of as many"),
        ({"n_features": np.ones(3, int)}, r"n_features of shape \(3,\)"),
        ({"adjacency": np.array([[0], [99]])}, "hold indices of the"),
        ({"adjacency": np.zeros((3, 2), int)}, r"shape \(2, n_pairs\)"),
        ({"adjacency": np.zeros((2, 2))}, "dtype float64"),
        ({"n_features": None}, "must be NaN where n_features is 0, and only there"),
    ],
)
def test_what_does_not_belong_together_is_refused(change, message):
    result = make()
    if change.get("n_features", 0) is None:
        change = {"n_features": np.ones(len(result.positions), int)}
    with pytest.raises(ValueError, match=message):
        replace(result, **change)


def test_summaries_of_undecoded_positions_are_refused():
    whole = summarised(make(undecoded=[]))
    with pytest.raises(ValueError, match="summary of 'accuracy' does not fit"):
        replace(make(), nulls={}, null_summaries=whole.null_summaries)


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
    place = line, touching(line)
    joined = make(place, undecoded=[], peak=[1, 2, 4, 5])
    assert joined.places.adjacency(joined.decoded).shape == (7, 7)
    split = make(place, undecoded=[3], peak=[1, 2, 4, 5])
    pairs = np.argwhere(split.places.adjacency(split.decoded).toarray()).tolist()
    assert pairs == [[0, 1], [1, 0], [1, 2], [2, 1], [3, 4], [4, 3], [4, 5], [5, 4]]
    assert len(set(split.peaks(min_score=0.9)["cluster"])) == 2


def test_null_and_its_maximum_ignore_undecoded_positions():
    result = make()
    expected = result.nulls["accuracy"][:, result.decoded].max(axis=1)
    assert_array_equal(result.null_max, expected)
    assert result.n_permutations == P
    short = summarised(result, "max")
    assert_array_equal(short.null_max, expected)
    assert short.n_permutations == P
    with pytest.raises(ValueError, match=r"result\.null was not kept"):
        _ = short.null
    with pytest.raises(ValueError, match="needs the whole null"):
        short.pvalues("tfce")


def test_p_values_need_permutations():
    result = make(n_permutations=0)
    assert len(result.null_max) == 0
    with pytest.raises(ValueError, match="no label permutations, so no p-values"):
        result.pvalues()


def test_nothing_decoded_gives_nothing():
    result = make(regions(), undecoded=range(5))
    assert np.isnan(result.pvalues("max")).all()
    assert len(result.peaks()) == 0


def test_the_null_is_not_copied_as_a_whole(monkeypatch):
    monkeypatch.setattr("mvpa_kfda.utils.memory._BATCH", 10_000)
    space = features(2000)
    result = make(space, undecoded=[3], n_permutations=500)
    for use in (lambda: result.pvalues("max"), lambda: result.null_max):
        tracemalloc.start()
        use()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < result.null.nbytes / 4


# ----------------------------------------------------------------- images and tables


def test_images_hold_what_they_are_named_after():
    result = make()
    mask, n = result.geometry.mask, 1 - 1 / (P + 1)
    p = result.pvalues("max", metric="kappa")
    expected = {
        None: result.scores,
        "accuracy": result.scores,
        "kappa": result.metrics["kappa"],
        "p": p,
        "neglog10p": -np.log10(p),
        "z": norm.isf(np.minimum(p, n)),
        "chance_difference": result.metrics["kappa"],
        "n_features": result.n_features,
    }
    for name, values in expected.items():
        metric = None if name in ("accuracy", "kappa", None) else "kappa"
        img = result.to_img(name, metric=metric, correction="max")
        assert_array_equal(img.affine, AFFINE)
        data = np.asarray(img.dataobj)
        assert_allclose(data[mask], values, rtol=1e-6, atol=1e-9)
        assert (data[~mask] == (name == "p")).all()
    difference = result.to_img("chance_difference").get_fdata()[mask]
    assert_allclose(difference, result.scores - CHANCE, rtol=1e-6, atol=1e-7)
    assert np.isfinite(result.to_img("z").get_fdata()[mask][result.decoded]).all()


def test_image_of_p_keeps_the_level():
    result = make()
    p = result.pvalues()
    data = np.asarray(result.to_img("p").dataobj)[result.geometry.mask]
    for level in p[result.decoded]:  # 0.05 in single precision is more than 0.05
        assert_array_equal(data <= level, p <= level)


def test_images_of_regions_and_surfaces():
    result = make(regions(), undecoded=[1])
    painted = result.to_img().get_fdata()[result.geometry.base.mask]
    expected = np.append(result.scores, 0)[result.geometry.index]
    assert_allclose(painted, expected, rtol=1e-6, atol=0)
    left = make(surface(), undecoded=[]).to_img().data.parts["left"]
    assert left[1] == 0
    assert left[0] > 0


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("pvalue", "'name': 'pvalue'. Allowed: 'accuracy', 'kappa', 'p', 'neglog10p'"),
        ("null_max", r"Allowed: .*result\.geometry\.to_img\(result\.null\[0\]\)"),
        ("confusion_matrix", "is not one number per position"),
    ],
)
def test_images_that_there_are_not(name, message):
    with pytest.raises(ValueError, match=message):
        make().to_img(name)


def test_images_that_make_no_sense():
    with pytest.raises(ValueError, match="shows the metric of that name and takes no"):
        make().to_img("kappa", metric="accuracy")
    with pytest.raises(ValueError, match="There is no image of this result"):
        make(features()).to_img()
    no_level = replace(make(), chances={**make().chances, "accuracy": np.nan})
    with pytest.raises(ValueError, match="'accuracy', which has no chance level"):
        no_level.to_img("chance_difference")


def test_table_has_a_row_per_position():
    columns = ["x", "y", "z", "n_features", "accuracy", "kappa", "p", "p_max"]
    assert list(make().to_dataframe()) == columns
    by_name = make(regions(), undecoded=[]).to_dataframe(metric="kappa")
    assert by_name["region"].tolist() == ["a", "b", "c", "d", "e"]
    assert "feature" in make(features(), n_permutations=0).to_dataframe()


# ----------------------------------------------------------------------------- peaks


def smooth_map(seed, levels=None, affine=None):
    rng = np.random.default_rng(seed)
    shape = (16, 18, 15)
    mask = gaussian_filter(rng.normal(size=shape), 2) > -0.05
    values = gaussian_filter(rng.normal(size=shape), 1.2)[mask] * 5
    if levels:
        values = np.round(values * levels) / levels
    if affine is None:
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
    assert list(table) == [
        *("x", "y", "z", "score", "p", "p_max", "cluster", "cluster_size_mm3")
    ]
    marked = result.pvalues("max") <= 0.05
    top = table.iloc[0]
    assert top["score"] == pytest.approx(0.9, abs=1e-12)
    assert top["p"] == top["p_max"] == 1 / (P + 1)
    assert_array_equal(top[["x", "y", "z"]].to_numpy(float), result.coordinates[20])
    neighbours = (result.adjacency == 20).any(axis=0)
    together = np.isin(21, result.adjacency[:, neighbours])
    assert top["cluster_size_mm3"] == 36.0 * (1 + together)
    assert marked[20]


def test_peak_table_is_empty_but_has_its_columns():
    empty = make().peaks("bonferroni")
    assert len(empty) == 0
    full = make(peak=[20]).peaks("bonferroni", alpha=0.9)
    assert list(empty) == list(full)
    assert (empty.dtypes == full.dtypes).all()


def test_peaks_above_a_score_need_no_permutations():
    result = make(n_permutations=0, peak=[20])
    table = result.peaks(min_score=0.9)
    assert table["score"].tolist() == [0.9]
    assert list(table)[3:] == ["score", "cluster", "cluster_size_mm3"]
    with pytest.raises(ValueError, match=r"nothing is significant\. Set the lowest"):
        result.peaks()
    with pytest.raises(ValueError, match="'min_score': nan"):
        result.peaks(min_score=np.nan)
    with pytest.raises(ValueError, match=r"'min_distance': 0\.0.* It is in mm"):
        result.peaks(min_score=0.9, min_distance=0.0)
    with pytest.raises(ValueError, match="'alpha': 5"):
        result.peaks(alpha=5)


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


def test_peaks_of_regions_are_all_significant_ones():
    result = make(regions(), undecoded=[4], peak=[0, 1, 3])
    table = result.peaks()
    assert table["region"].tolist() == ["a", "b", "d"]
    assert table["cluster"].tolist() == [1, 1, 2]
    assert {"x", "p_max", "cluster_size"} <= set(table)


@pytest.mark.parametrize(("order", "top"), [(1, 29), (-1, 0)])
def test_a_slope_has_one_peak(order, top):
    space, pairs = features()
    scores = np.arange(30.0)[::order]
    peaks, clusters, sizes = find_peaks(space, scores, scores >= 0, pairs, 8.0)
    assert (peaks.tolist(), clusters.tolist(), sizes.tolist()) == ([top], [1], [30])


def test_peaks_of_features_need_no_places():
    result = make(features(), peak=[3, 9], undecoded=[4])
    assert set(result.peaks("none")["feature"]) >= {3, 9}
    assert isinstance(result.peaks(), pd.DataFrame)
