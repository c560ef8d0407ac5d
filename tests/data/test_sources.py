"""Decoding of source estimates: against arrays, by hand, and against MNE-Python."""

import tracemalloc
import warnings
from functools import cache

import mne
import numpy as np
import pytest
from mne.stats import cluster_level
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.sparse import csgraph
from scipy.spatial.distance import cdist
from scipy.stats import gmean
from sklearn.model_selection import StratifiedKFold

from mvpa_kfda import (
    RBF,
    SourceResult,
    SourceTimeResult,
    decode_arrays,
    decode_sources,
    generalize_arrays,
    group_inference,
    load_result,
)
from mvpa_kfda.data.sources import find_source_neighbours, unpack_form
from mvpa_kfda.utils.checkpoint import Checkpoint
from mvpa_kfda.viz.maps import plot_sources
from tests import build, reference

RADIUS = 15.0
KINDS = ("surface", "volume", "mixed")
N, T, TMIN, SFREQ = 24, 4, -0.1, 100.0
CODES = build.codes_of((12, 12))
Y = build.NAMES[CODES]
EVEN = list(StratifiedKFold(4).split(CODES, CODES))
OPTIONS = {"cv": EVEN, "n_permutations": 9, "random_state": 0}
every_kind = pytest.mark.parametrize(
    ("kind", "vector"), [(kind, vector) for kind in KINDS for vector in (False, True)]
)


def made(kind="surface", vector=False, scale=1.0, dtype=float, seed=0, shift=1.0):
    """Return a source space, estimates of all trials, and their data (n, p, times)."""
    src = build.source_space(kind)
    n = sum(space["nuse"] for space in src)
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, n, *[3] * vector, T))
    X[CODES == 1, 2:5, ..., 1:] += shift
    X = (scale * X).astype(dtype)
    stcs = build.estimates(X, src, vector, TMIN, SFREQ)
    return src, stcs, X.reshape(N, -1, T)


def near_by_hand(src, radius):
    """Return which vertices are within so many mm, (V, V), structure by structure."""
    blocks = []
    for space in src:
        places, used = 1e3 * space["rr"], space["vertno"]
        distances = cdist(places, places)
        if space["type"] == "surf":
            joined = np.zeros(distances.shape, bool)
            for a, b, c in space["tris"]:
                joined[[a, b, c, b, c, a], [b, c, a, a, b, c]] = True
            graph = sparse.csr_array(np.where(joined, distances, 0))
            distances = csgraph.shortest_path(graph)
        blocks.append(distances[np.ix_(used, used)] <= radius + 1e-6)
    return sparse.block_diag(blocks).toarray().astype(bool)


def adjacency_by_mne(src):
    """Return which vertices touch, (V, V), as MNE-Python has it for each structure."""
    blocks = [mne.spatial_src_adjacency(src[i : i + 1]) for i in range(len(src))]
    matrix = sparse.block_diag(blocks).toarray() > 0
    np.fill_diagonal(matrix, False)
    return matrix


def as_matrix(pairs, n):
    """Return pairs (2, n_pairs), each once, as a symmetric matrix."""
    matrix = np.zeros((n, n), int)
    np.add.at(matrix, tuple(pairs), 1)
    assert matrix.max(initial=0) <= 1
    assert not (matrix & matrix.T).any()
    return (matrix + matrix.T).astype(bool)


# ----------------------------------------------------------------- all sources together


@every_kind
def test_scores_are_those_of_the_stacked_arrays(kind, vector):
    _, stcs, X = made(kind, vector, scale=1e-11)
    ours = decode_sources(stcs, Y, scoring=["accuracy", "roc_auc"], **OPTIONS)
    theirs = decode_arrays(
        X, Y, tmin=TMIN, sfreq=SFREQ, scoring=["accuracy", "roc_auc"], **OPTIONS
    )
    assert type(ours) is SourceResult
    assert ours.scores.max() > 0.6  # there is something to be found
    for name in theirs.metrics:
        assert_array_equal(ours.metrics[name], theirs.metrics[name])
        assert_array_equal(ours.nulls[name], theirs.nulls[name])
    assert_array_equal(ours.predicted, theirs.predicted)
    assert_array_equal(ours.lambdas, theirs.lambdas)
    assert_array_equal(ours.times, stcs[0].times)
    assert ours.parameters["n_features"] == X.shape[1]


ALIKE = {
    "windows": {"window": 0.02, "step": 0.02},
    "concatenated": {"window": 0.02, "window_mode": "concatenate"},
    "rbf": {"kernel": "rbf"},
    "averages": {"average": 2, "cv": 3},
    "repeats": {"average": 3, "cv": 2, "n_repeats": 2, "n_permutations": 3},
    "zscore": {"preprocess": "zscore"},
    "confounds": {"confounds": np.arange(N) % 7},
    "groups": {"groups": np.arange(N) % 3, "cv": None},
    "train_on": {"train_on": np.arange(N) % 2 == 0},
    "tuned": {"reg": "tuned"},
    "class scores": {"keep_class_scores": True},
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("options", ALIKE.values(), ids=ALIKE)
def test_options_and_single_precision_change_nothing(options, dtype):
    _, stcs, X = made(dtype=dtype)
    options = OPTIONS | options
    ours = decode_sources(iter(stcs), Y, **options)
    theirs = decode_arrays(X, Y, tmin=TMIN, sfreq=SFREQ, **options)
    assert_array_equal(ours.scores, theirs.scores)
    assert_array_equal(ours.null, theirs.null)
    assert_array_equal(ours.predicted, theirs.predicted)
    # With patterns, averages are of features, and else of a kernel matrix.
    assert_allclose(ours.lambdas, theirs.lambdas, rtol=1e-11, atol=0)
    if "keep_class_scores" in options:
        assert_array_equal(ours.class_scores, theirs.class_scores)


def test_the_unit_changes_no_prediction():
    results = [
        decode_sources(made(scale=scale)[1], Y, kernel=kernel, **OPTIONS).predicted
        for kernel in ("linear", RBF(None))
        for scale in (1e-11, 1.0)
    ]
    assert_array_equal(results[0], results[1])
    assert_array_equal(results[2], results[3])
    assert len(np.unique(results[2])) == 2  # and not one class everywhere


def test_features_of_a_unit_are_those_divided_by_one_number():
    _, stcs, X = made(scale=1e-9)
    chosen = np.arange(N) % 2 == 0
    how = OPTIONS | {"kernel": RBF(None), "train_on": chosen}
    ours = decode_sources(stcs, Y, **how)
    theirs = decode_arrays(X / X[chosen].std(), Y, **how)
    assert_array_equal(ours.predicted, theirs.predicted)
    assert_allclose(ours.lambdas, theirs.lambdas, rtol=1e-9)


@every_kind
def test_patterns_are_source_estimates_in_the_unit_of_the_data(kind, vector):
    _, stcs, X = made(kind, vector, scale=1e-11)
    result = decode_sources(stcs, Y, reg=0.3, **OPTIONS)
    patterns = result.patterns()
    assert list(patterns) == ["ant", "bee"]
    for stc in patterns.values():
        assert type(stc) is type(stcs[0])
        assert stc.subject == "sample"
        assert_array_equal(
            np.concatenate(stc.vertices), np.concatenate(stcs[0].vertices)
        )
        assert_allclose(stc.times, stcs[0].times, rtol=0, atol=1e-12)
        assert stc.data.shape == stcs[0].data.shape
    # The covariance of the features with the one discriminant, which is 1-D here:
    # patterns of two classes of equal size are each other's opposite, and by Haufe
    # et al. proportional to the covariance with the scores of the model.
    for t in range(T):
        Z = X[:, :, t] - X[:, :, t].mean(axis=0)
        K = Z @ Z.T
        model = reference.fit(K, CODES, 0.3 * np.trace(K) / N, 2)
        scores = model.class_scores(K)
        along = scores[:, 1] - scores[:, 0]
        covariance = Z.T @ (along - along.mean())
        ours = patterns["bee"].data.reshape(-1, T)[:, t]
        cosine = ours @ covariance / np.linalg.norm(ours) / np.linalg.norm(covariance)
        assert_allclose(cosine, 1, rtol=0, atol=1e-9)
        opposite = patterns["ant"].data.reshape(-1, T)[:, t]
        assert_allclose(opposite, -ours, rtol=1e-9, atol=1e-22)
    assert 1e-13 < np.abs(patterns["bee"].data).max() < 1e-10


def test_patterns_of_windows_have_their_times():
    _, stcs, _ = made()
    result = decode_sources(stcs, Y, window=0.02, step=0.02, **OPTIONS)
    (first, _) = result.patterns(average="folds").values()
    assert_allclose(first.times, [-0.095, -0.075], rtol=0, atol=1e-12)
    assert_allclose(first.times, result.times, rtol=0, atol=1e-12)
    assert set(result.patterns("discriminant")) == {"discriminant 1"}


def test_without_patterns_it_is_said_why():
    result = decode_sources(made()[1], Y, kernel="rbf", **OPTIONS)
    with pytest.raises(ValueError, match=r"no activation patterns.*kernel='linear'"):
        result.patterns()


# ------------------------------------------------------------------------- searchlights


@pytest.mark.some(4)
@every_kind
def test_a_vertex_is_decoded_with_those_around_it(kind, vector):
    src, stcs, X = made(kind, vector)
    result = decode_sources(stcs, Y, src=src, radius=RADIUS, **OPTIONS)
    near = near_by_hand(src, RADIUS)
    assert type(result) is SourceTimeResult
    assert result.scores.shape == (len(near), T)
    assert near.sum(axis=1).max() > 3
    assert not near.all(axis=1).any()
    for vertex in (0, 2, len(near) // 2, len(near) - 1):
        features = near[vertex].repeat(3) if vector else near[vertex]
        expected = decode_arrays(X[:, features], Y, **OPTIONS)
        assert_array_equal(result.scores[vertex], expected.scores)
        assert_array_equal(result.predicted[vertex], expected.predicted)
        assert_array_equal(result.null[:, vertex], np.float32(expected.null))
        assert_allclose(result.lambdas[vertex], expected.lambdas, rtol=1e-12)


def test_a_vertex_is_decoded_as_by_the_textbook():
    src, stcs, X = made("mixed")
    result = decode_sources(stcs, Y, src=src, radius=RADIUS, reg=0.3, **OPTIONS)
    near, folds = near_by_hand(src, RADIUS), OPTIONS["cv"]
    labels = build.permuted(CODES, 9, OPTIONS["cv"])
    for vertex, t in ((2, 3), (40, 0), (65, 2)):
        Z = X[:, near[vertex], t]
        K, centred = Z @ Z.T, Z - Z.mean(axis=0)
        lam = 0.3 * np.square(centred).sum() / N
        for b in (0, 4):
            hits = 0
            for train, test in folds:
                model = reference.fit(K[np.ix_(train, train)], labels[b, train], lam, 2)
                predicted = model.predict(K[np.ix_(test, train)])
                hits += np.sum(predicted == labels[b, test])
            ours = result.null[b - 1, vertex, t] if b else result.scores[vertex, t]
            assert_allclose(ours, hits / N, rtol=1e-6)


def test_windows_of_a_searchlight():
    src, stcs, X = made()
    how = OPTIONS | {"window": 0.02, "window_mode": "concatenate"}
    result = decode_sources(stcs, Y, src=src, radius=RADIUS, **how)
    near = near_by_hand(src, RADIUS)
    expected = decode_arrays(X[:, near[7]], Y, sfreq=SFREQ, **how)
    assert_array_equal(result.scores[7], expected.scores)
    assert result.shape == (36, T - 1)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_repeats_of_a_searchlight(kernel):
    src, stcs, X = made("volume")
    stcs, X = [each.copy().crop(tmax=TMIN + 0.01) for each in stcs], X[..., :2]
    how = {"average": 3, "cv": 2, "n_repeats": 2, "random_state": 0, "kernel": kernel}
    how["n_permutations"] = 3
    result = decode_sources(stcs, Y, src=src, radius=RADIUS, **how)
    near = near_by_hand(src, RADIUS)
    expected = decode_arrays(X[:, near[4]], Y, **how)
    assert_array_equal(result.scores[4], expected.scores)
    assert_array_equal(result.null[:, 4], np.float32(expected.null))


@pytest.mark.parametrize("kind", KINDS)
def test_neighbours_are_those_of_mne(kind):
    src, stcs, _ = made(kind)
    result = decode_sources(stcs, Y, src=src, radius=RADIUS, **OPTIONS)
    expected = adjacency_by_mne(src)
    assert_array_equal(as_matrix(result.adjacency, len(expected)), expected)
    if kind == "surface":
        whole = mne.spatial_src_adjacency(src).toarray() > 0
        assert_array_equal(whole & ~np.eye(len(whole), dtype=bool), expected)
    # With time, against MNE-Python, where vertices are counted first.
    times = mne.stats.combine_adjacency(T, sparse.coo_array(expected)).toarray() > 0
    V = len(expected)
    order = np.arange(V * T).reshape(T, V).T.ravel()
    ours = result.places.adjacency().toarray()
    np.fill_diagonal(ours, True)
    assert_array_equal(ours, times[np.ix_(order, order)] | np.eye(V * T, dtype=bool))


def test_points_of_a_grid_touch_as_its_voxels_do():
    volume = mne.SourceSpaces([build.grid((3, 4, 2))])
    discrete = volume.copy()
    discrete[0]["type"] = "discrete"
    form = unpack_form(decode_sources(made("volume")[1], Y).sources)
    pairs = [find_source_neighbours(form, s, RADIUS)[2] for s in (volume, discrete)]
    assert pairs[0].shape[1] > 20
    assert_array_equal(*pairs)


def test_clusters_are_those_of_mne():
    src, stcs, _ = made(shift=2.0)
    result = decode_sources(stcs, Y, src=src, radius=RADIUS, **OPTIONS)
    marked = result.scores > 0.7
    adjacency = mne.stats.combine_adjacency(T, mne.spatial_src_adjacency(src))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clusters, _ = cluster_level._find_clusters(
            marked.T.ravel().astype(float), 0.5, tail=1, adjacency=adjacency
        )
    sizes = sorted(len(each) for each in clusters)
    graph = result.places.adjacency()[marked.ravel()][:, marked.ravel()]
    ours = np.bincount(csgraph.connected_components(graph)[1])
    assert len(sizes) > 1
    assert sorted(ours.tolist()) == sizes
    table = result.clusters("cluster")
    assert table["places"].str.contains(r"^\d+ vert\w+ of [lr]h").all()
    assert table["peak"][0][0].startswith("lh ")


def test_estimates_of_some_vertices_are_found_by_number():
    src, stcs, X = made()
    chosen = np.arange(0, 36, 2)
    some = [
        np.intersect1d(each, numbers)
        for each, numbers in zip(
            stcs[0].vertices,
            np.split(np.concatenate(stcs[0].vertices)[chosen], [10]),
            strict=True,
        )
    ]
    few = [mne.SourceEstimate(x[chosen], some, TMIN, 1 / SFREQ, "sample") for x in X]
    result = decode_sources(few, Y, src=src, radius=20.0, **OPTIONS)
    near = near_by_hand(src, 20.0)[np.ix_(chosen, chosen)]
    expected = decode_arrays(X[:, chosen][:, near[3]], Y, **OPTIONS)
    assert_array_equal(result.scores[3], expected.scores)
    mne_pairs = adjacency_by_mne(src)[np.ix_(chosen, chosen)]
    assert_array_equal(as_matrix(result.adjacency, 18), mne_pairs)


def test_a_source_space_may_be_a_file(tmp_path):
    src, stcs, _ = made("volume")
    path = tmp_path / "test-src.fif"
    src = build.points(1e3 * src[0]["rr"][src[0]["vertno"]], "sample")
    stcs = build.estimates([stc.data for stc in stcs], src)
    src.save(path, verbose=False)
    ours, theirs = (
        decode_sources(stcs, Y, src=each, radius=RADIUS, **OPTIONS)
        for each in (src, str(path))
    )
    assert_array_equal(ours.scores, theirs.scores)
    assert_array_equal(ours.adjacency, theirs.adjacency)


def test_one_hemisphere_may_be_empty():
    src, stcs, X = made()
    vertices = [stcs[0].vertices[0], np.array([], int)]
    left = [mne.SourceEstimate(x[:20], vertices, TMIN, 0.01) for x in X]
    result = decode_sources(left, Y, src=src, radius=RADIUS, **OPTIONS)
    whole = decode_sources(stcs, Y, src=src, radius=RADIUS, **OPTIONS)
    assert_array_equal(result.scores, whole.scores[:20])
    assert len(result.plot().axes) == 6


# ------------------------------------------------------------------------ what is read


def test_a_generator_is_never_whole():
    n, V, times = 60, 800, 100
    y, held = np.tile([0, 1], n // 2), []

    def one_by_one(times=times):
        rng = np.random.default_rng(0)
        for _ in range(n):
            data = rng.normal(size=(V, times))
            yield mne.SourceEstimate(data, [np.arange(V), np.arange(0)], 0, 0.01)

    decode_sources(one_by_one(2), y, cv=3)  # what is loaded once is loaded now
    tracemalloc.start()
    try:
        decode_sources(one_by_one(), y, cv=3)
        held = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    data = n * V * times * 8
    # The rest is what the run loop touches once, 16 MiB, and the result.
    assert data < held < 1.2 * data + 2**24


def test_what_estimates_hold_is_not_computed_in_them():
    rng = np.random.default_rng(0)
    kernel, vertices = rng.normal(size=(6, 3)), [np.arange(3), np.arange(3)]
    lazy = [
        mne.SourceEstimate((kernel, rng.normal(size=(3, T))), vertices, 0, 0.01)
        for _ in range(N)
    ]
    result = decode_sources(lazy, Y, **OPTIONS)
    assert all(stc._data is None for stc in lazy)
    expected = decode_arrays(np.stack([stc.data for stc in lazy]), Y, **OPTIONS)
    assert_array_equal(result.scores, expected.scores)


def test_estimates_of_an_inverse_solution():
    montage = mne.channels.make_standard_montage("biosemi32")
    info = mne.create_info(montage.ch_names, 100.0, "eeg").set_montage(montage)
    sphere = mne.make_sphere_model("auto", "auto", info, verbose=False)
    src = mne.setup_volume_source_space(pos=45.0, sphere=sphere, verbose=False)
    forward = mne.make_forward_solution(info, None, src, sphere, verbose=False)
    rng = np.random.default_rng(0)
    data = 1e-6 * rng.normal(size=(N, 32, T))
    epochs = mne.EpochsArray(data, info, verbose=False)
    epochs.set_eeg_reference(projection=True, verbose=False)
    info = epochs.info
    covariance = mne.make_ad_hoc_cov(info, verbose=False)
    inverse = mne.minimum_norm.make_inverse_operator(
        info, forward, covariance, loose=1.0, verbose=False
    )
    how = {"lambda2": 1 / 9, "method": "MNE", "verbose": False}
    apply = mne.minimum_norm.apply_inverse_epochs
    for orientation in (None, "vector"):
        how["pick_ori"] = orientation
        listed = apply(epochs, inverse, **how)
        given = apply(epochs, inverse, return_generator=True, **how)
        space = inverse["src"]
        result = decode_sources(given, Y, src=space, radius=45.0, **OPTIONS)
        assert type(result.to_stc()).__name__ == "VolSourceEstimate"
        again = decode_sources(listed, Y, src=space, radius=45.0, **OPTIONS)
        assert result == again
        assert np.isfinite(result.scores).all()


def replaced(i, **changes):
    """Return estimates of which one is another."""
    _, stcs, _ = made()
    stc = stcs[i]
    fields = {
        "data": stc.data,
        "vertices": stc.vertices,
        "tmin": stc.tmin,
        "tstep": stc.tstep,
        "subject": stc.subject,
    } | changes
    stcs[i] = mne.SourceEstimate(**fields)
    return stcs


def with_nan():
    _, stcs, _ = made()
    stcs[5].data[21, 2] = np.nan
    return stcs


def mixed_kinds():
    stcs = made()[1]
    stcs[2] = made(vector=True)[1][2]
    return stcs


def other_vertices():
    left, right = made()[1][0].vertices
    return replaced(4, vertices=[left, right + 1])


def fewer_vertices():
    left, right = made()[1][0].vertices
    return replaced(4, vertices=[left, right[1:]], data=np.ones((35, T)))


BAD = {
    "nothing": (list, ValueError, "stcs is empty"),
    "no more": (lambda: iter(()), ValueError, "stcs is empty"),
    "one": (lambda: made()[1][0], TypeError, "stcs is a SourceEstimate, but must be"),
    "an array": (lambda: made()[2], TypeError, "array of shape.*decode_arrays"),
    "paths": (lambda: ["a-lh.stc"], TypeError, r"stcs\[0\] is a str\. stcs must be"),
    "numbers": (lambda: [*made()[1][1:], 3], TypeError, r"stcs\[23\] is a int"),
    "kinds": (mixed_kinds, ValueError, r"stcs\[2\] has the kind VectorSourceEst"),
    "NaN": (with_nan, ValueError, r"stcs\[5\] has NaN.* vertex rh 3, -0\.080 s"),
    "vertices": (other_vertices, ValueError, r"stcs\[4\] has other vertices of rh"),
    "fewer": (fewer_vertices, ValueError, r"\[4\] has 35 vertices instead of 36"),
    "times": (
        lambda: replaced(3, data=np.ones((36, 5))),
        ValueError,
        r"stcs\[3\] has 5 times instead of 4",
    ),
    "tmin": (lambda: replaced(3, tmin=0.0), ValueError, r"tmin=0 s instead of -0\.1 s"),
    "tstep": (lambda: replaced(3, tstep=0.02), ValueError, r"tstep=0\.02 s instead of"),
    "subject": (
        lambda: replaced(7, subject="fsaverage"),
        ValueError,
        r"stcs\[7\] has the subject 'fsaverage' instead of 'sample'",
    ),
    "too few": (
        lambda: iter(made()[1][:-2]),
        ValueError,
        "stcs ended after 22 source estimates, and y has 24 labels",
    ),
    "too many": (
        lambda: iter(made()[1] * 2),
        ValueError,
        "stcs holds more source estimates than the 24 labels",
    ),
    "a short list": (lambda: made()[1][:-2], ValueError, "y must hold one value per"),
    "complex": (
        lambda: replaced(0, data=np.ones((36, T)) * 1j),
        ValueError,
        r"stcs\[0\] has complex data",
    ),
}


@pytest.mark.parametrize(("stcs", "error", "message"), BAD.values(), ids=BAD)
def test_wrong_estimates_are_refused(stcs, error, message):
    with pytest.raises(error, match=message):
        decode_sources(stcs(), Y, cv=3)


def without_triangles():
    src = build.source_space()
    src[0]["tris"] = np.empty((0, 3), int)
    return src


def spaced_in_mm():
    src = build.source_space()
    for space in src:
        space["use_tris"] = None
    return src


def of_another():
    src = build.source_space()
    for space in src:
        space["subject_his_id"] = "fsaverage"
    return src


def other_numbers():
    return mne.SourceSpaces([build.sheet(60, step=4), build.sheet(48, 1)])


BAD_SPACES = {
    "no radius": ({"src": build.source_space}, "src is given without radius"),
    "no src": ({"radius": 10.0}, "radius is given without src"),
    "null": ({"null": "max"}, "null='max' is for searchlights"),
    "a forward": (
        {"src": lambda: {"src": build.source_space()}, "radius": 1},
        r"'src': dict\. Allowed: mne\.SourceSpaces.*\['src'\]",
    ),
    "volume": (
        {"src": lambda: build.source_space("volume"), "radius": 1},
        "src has 1 volume, but the source estimates are of 2 surfaces",
    ),
    "subject": ({"src": of_another, "radius": 1}, "is of subject 'fsaverage', but"),
    "numbers": ({"src": other_numbers, "radius": 1}, "15 of the 20 vertices of lh"),
    "triangles": ({"src": without_triangles, "radius": 1}, "no triangles of lh"),
    "spacing": ({"src": spaced_in_mm, "radius": 1}, "not joined by triangles"),
    "radius": ({"src": build.source_space, "radius": "1"}, "'radius': '1'.*in mm"),
}


@pytest.mark.parametrize(("options", "message"), BAD_SPACES.values(), ids=BAD_SPACES)
def test_wrong_source_spaces_are_refused(options, message):
    options = options | {k: v() for k, v in options.items() if callable(v)}
    with pytest.raises((TypeError, ValueError), match=message):
        decode_sources(made()[1], Y, **options)


def test_flat_neighbourhoods_are_named():
    src, stcs, _ = made()
    near = near_by_hand(src, 5.0)
    alone = np.flatnonzero(near.sum(axis=1) == 1)[0]
    for stc in stcs:
        stc.data[alone, 2] = 1.0
    name = made()[1][0].vertices[0][alone]
    with pytest.raises(ValueError, match=f"At vertex lh {name}, -0.080 s: "):
        decode_sources(stcs, Y, src=src, radius=5.0, **OPTIONS)


# ------------------------------------------------------------------ what comes out


@pytest.mark.some(4)
@every_kind
def test_maps_are_source_estimates(kind, vector):
    src, stcs, _ = made(kind, vector)
    options = OPTIONS | {"reg": [0.1, 3.0]}
    result = decode_sources(stcs, Y, src=src, radius=RADIUS, **options)
    maps = {
        None: result.scores,
        "accuracy": result.scores,
        "p": result.pvalues(),
        "neglog10p": -np.log10(result.pvalues()),
        "chance_difference": result.scores - 0.5,
        "lambda": gmean(result.lambdas, axis=-1),
        "degrees_of_freedom": result.degrees_of_freedom.mean(axis=-1),
    }
    for name, expected in maps.items():
        stc = result.to_stc(name)
        assert type(stc).__name__ == type(stcs[0]).__name__.replace("Vector", "")
        assert_allclose(stc.data, expected, rtol=1e-12)
        assert stc.subject == "sample"
        assert_allclose(stc.times, stcs[0].times, rtol=0, atol=1e-12)
        for ours, theirs in zip(stc.vertices, stcs[0].vertices, strict=True):
            assert_array_equal(ours, theirs)
    p = result.to_stc("p", correction="cluster").data
    assert_array_equal(p, result.pvalues("cluster"))
    assert np.isfinite(result.to_stc("z").data).all()
    names = [
        f"{n} {v}"
        for n, vs in zip(result.sources["structures"], stcs[0].vertices, strict=True)
        for v in vs
    ]
    assert_array_equal(result.vertices, names)
    with pytest.raises(ValueError, match=r"'name': 'foo'.*neglog10p"):
        result.to_stc("foo")


def test_structures_of_volumes_have_their_names():
    result = build.result("SourceTimeResult")
    assert set(result.to_dataframe()) >= {"vertex", "time", "accuracy", "p"}
    src, stcs, _ = made("mixed")
    mixed = decode_sources(stcs, Y, src=src, radius=RADIUS, **OPTIONS)
    names = ["lh", "rh", "Left-Amygdala", "Brain-Stem"]
    assert mixed.sources["structures"].tolist() == names
    assert mixed.vertices[-1] == "Brain-Stem 7"


@cache
def whole_null():
    """Return the result that keeps all permutations."""
    src, stcs, _ = made()
    return decode_sources(stcs, Y, src=src, radius=RADIUS, null="full", **OPTIONS)


@pytest.mark.some(2)
@pytest.mark.parametrize("null", ["full", "max", "stream"])
def test_what_is_kept_of_the_null_changes_no_p(null):
    src, stcs, _ = made()
    full = whole_null()
    how = {"src": src, "radius": RADIUS} | OPTIONS
    kept = build.keep(null, decode_sources, stcs, Y, **how)
    corrections = ["none", "max", "fdr"]
    if null != "max":
        corrections += ["cluster", "tfce"]
    for correction in corrections:
        assert_allclose(kept.pvalues(correction), full.pvalues(correction), rtol=1e-12)
    assert (null == "full") == (len(kept.nulls) > 0)


@pytest.mark.parametrize("options", [{}, {"src": True, "radius": RADIUS}])
def test_results_are_saved_with_all_they_hold(options, tmp_path):
    src, stcs, _ = made("mixed", vector=True)
    options = options | ({"src": src} if "src" in options else {})
    result = decode_sources(stcs, Y, **options, **OPTIONS)
    result.save(tmp_path / "result.h5")
    loaded = load_result(tmp_path / "result.h5")
    assert loaded == result
    ours, theirs = (
        each.to_stc() if options else each.patterns()["ant"]
        for each in (loaded, result)
    )
    assert_array_equal(ours.data, theirs.data)
    assert ours.subject == theirs.subject


def test_a_checkpoint_continues_and_knows_its_run(tmp_path, monkeypatch):
    src, stcs, _ = made()
    how = {"src": src, "radius": RADIUS, "n_permutations": 9, "cv": OPTIONS["cv"]}
    expected = decode_sources(stcs, Y, random_state=3, **how)
    path = tmp_path / "run.checkpoint"
    save, done = Checkpoint.save, []

    def stop_after_ten(self, number, part):
        if len(done) == 10:
            raise KeyboardInterrupt
        done.append(number)
        save(self, number, part)

    monkeypatch.setattr(Checkpoint, "save", stop_after_ten)
    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        decode_sources(stcs, Y, random_state=3, checkpoint=path, **how)
    monkeypatch.setattr(Checkpoint, "save", save)
    loaded, load = [], Checkpoint.load
    monkeypatch.setattr(
        Checkpoint, "load", lambda self, i: (loaded.append(i), load(self, i))[1]
    )
    result = decode_sources(iter(stcs), Y, checkpoint=path, **how)  # takes the seed
    assert loaded == done
    assert result == expected
    stcs[0].data[0, 0] += 1
    larger = build.source_space()
    for space in larger:
        space["rr"] *= 1.2
    later = [each.copy() for each in made()[1]]
    for each in later:
        each.tmin += 0.05
    for changed, message in (
        ((stcs, how), "another run: the data of stcs"),
        ((later, how), "another run: the data of times"),
        ((made()[1], how | {"src": larger}), "another run: the data of src and"),
        ((made()[1], how | {"radius": 18.0}), r"another run: .*radius"),
    ):
        with pytest.raises(ValueError, match=message):
            decode_sources(changed[0], Y, checkpoint=path, **changed[1])


def test_a_time_course_has_checkpoints_too(tmp_path):
    _, stcs, _ = made()
    first = decode_sources(stcs, Y, checkpoint=tmp_path / "a", **OPTIONS)
    assert decode_sources(stcs, Y, checkpoint=tmp_path / "a", **OPTIONS) == first
    assert decode_sources(stcs, Y, **OPTIONS) == first


# ------------------------------------------------------------------------------- groups


@cache
def group_of(kind="surface", n=6, **options):
    """Return results of subjects that were morphed to the same vertices."""
    results = []
    for seed in range(n):
        src, stcs, _ = made(kind, seed=seed, shift=3.0)
        given = {"src": src} | options if options else {}
        results.append(decode_sources(stcs, Y, cv=OPTIONS["cv"], **given))
    return results


def test_groups_of_searchlights_have_clusters_and_estimates(tmp_path):
    results = group_of(radius=RADIUS)
    group = group_inference(
        results, "sign-flip", correction=["cluster", "max"], random_state=0
    )
    assert_allclose(group.scores, np.mean([r.scores for r in results], axis=0))
    assert group.pvalues("max")[2, 1:].max() <= 0.05
    assert group.pvalues("cluster")[2, 1:].max() <= 0.05
    stc = group.to_stc("p")
    assert_array_equal(stc.data, group.pvalues())
    assert stc.subject == "sample"
    assert_allclose(stc.times, results[0].times, rtol=0, atol=1e-12)
    assert_array_equal(group.to_stc().data, group.scores)
    assert_array_equal(group.to_stc("statistic").data, group.statistic)
    table = group.clusters()
    assert "of lh" in table["places"][0]
    group.save(tmp_path / "group.h5")
    loaded = load_result(tmp_path / "group.h5")
    assert loaded == group
    assert_array_equal(loaded.to_stc("z").data, group.to_stc("z").data)
    assert len(group.plot().axes) == 6


def test_groups_of_time_courses_need_no_common_vertices():
    results = [*group_of()]
    results[0] = decode_sources(made("volume")[1], Y, cv=OPTIONS["cv"])
    group = group_inference(results, "sign-flip", random_state=0)
    assert group.scores.shape == (T,)
    with pytest.raises(ValueError, match="no source estimate of 4 times"):
        group.to_stc()


def test_groups_of_other_vertices_are_refused():
    results = [*group_of(radius=RADIUS)]
    results[2] = group_of("volume", 1, radius=RADIUS)[0]
    with pytest.raises(ValueError, match=r"23 vertices x 4 times.*36 vertices"):
        group_inference(results, "sign-flip", random_state=0)


# ------------------------------------------------------------------------------ figures


@pytest.mark.some(2)
@pytest.mark.parametrize("kind", KINDS)
def test_figure_has_rows_by_structure_and_views_of_all_vertices(kind):
    src, stcs, _ = made(kind, shift=3.0)
    result = decode_sources(stcs, Y, src=src, radius=RADIUS, **OPTIONS)
    figure = plot_sources(result, time=-0.08, correction="none")
    rows, *views, _ = figure.axes
    drawn = rows.collections[0].get_array().reshape(result.shape)
    sizes = np.cumsum([len(each) for each in stcs[0].vertices])[:-1]
    for ours, theirs in zip(
        np.split(drawn, sizes), np.split(result.scores, sizes), strict=True
    ):  # the rows of a structure stay in its part of the figure
        assert sorted(map(tuple, ours)) == sorted(map(tuple, theirs))
    points, sample = result.sources["points"], 2
    halves = [points[:, 0] < 0, points[:, 0] > 0, *[points[:, 0] > -np.inf] * 2]
    for ax, half in zip(views, halves, strict=True):
        (dots,) = ax.collections
        shown = np.sort(np.asarray(dots.get_array()))
        assert_allclose(shown, np.sort(result.scores[half, sample]), rtol=1e-12)
        assert ax.get_title().endswith("-0.08 s")
    left = views[0].get_xlim()
    assert left[0] > left[1]  # seen from the left, the front is on the left
    with pytest.raises(ValueError, match=r"'time': 3\. The times go from -0\.1 to"):
        result.plot(time=3)


def test_time_generalization_is_that_of_arrays():
    _, stcs, _ = made()
    X = np.stack([stc.data for stc in stcs])
    how = {"tmin": stcs[0].tmin, "sfreq": stcs[0].sfreq} | OPTIONS
    whole = decode_sources(stcs, Y, **OPTIONS)
    assert_array_equal(generalize_arrays(X, Y, **how).diagonal().scores, whole.scores)
