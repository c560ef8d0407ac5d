"""Decoding of source estimates: against arrays, by hand, and against MNE-Python."""

import tracemalloc

import mne
import numpy as np
import pytest
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
    X = np.random.default_rng(seed).normal(size=(N, n, *[3] * vector, T))
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
    dtype = np.float32 if vector == (kind == "volume") else np.float64
    _, stcs, X = made(kind, vector, scale=1e-11, dtype=dtype)
    how = OPTIONS | {"scoring": ["accuracy", "roc_auc"], "keep_class_scores": True}
    if vector:
        how |= {"window": 0.02, "step": 0.02, "average": 2, "cv": 3}
    ours = decode_sources(iter(stcs), Y, **how)
    theirs = decode_arrays(X, Y, tmin=TMIN, sfreq=SFREQ, **how)
    assert type(ours) is SourceResult
    assert ours.scores.max() > 0.6  # there is something to be found
    for name in theirs.metrics:
        assert_array_equal(ours.metrics[name], theirs.metrics[name])
        assert_array_equal(ours.nulls[name], theirs.nulls[name])
    assert_array_equal(ours.predicted, theirs.predicted)
    assert_array_equal(ours.class_scores, theirs.class_scores)
    # With patterns, averages are of features, and else of a kernel matrix.
    assert_allclose(ours.lambdas, theirs.lambdas, rtol=1e-11, atol=0)
    assert_allclose(ours.times, theirs.times, rtol=0, atol=1e-12)
    assert ours.parameters["n_features"] == X.shape[1]


def test_features_of_a_unit_are_those_divided_by_one_number():
    _, stcs, X = made(scale=1e-9)
    chosen = np.arange(N) % 2 == 0
    how = OPTIONS | {"kernel": RBF(None), "train_on": chosen}
    ours = decode_sources(stcs, Y, **how)
    theirs = decode_arrays(X / X[chosen].std(), Y, **how)
    assert_array_equal(ours.predicted, theirs.predicted)
    assert_allclose(ours.lambdas, theirs.lambdas, rtol=1e-9)
    with pytest.raises(ValueError, match=r"no activation patterns.*kernel='linear'"):
        ours.patterns()


@every_kind
def test_patterns_are_source_estimates_in_the_unit_of_the_data(kind, vector):
    _, stcs, X = made(kind, vector, scale=1e-11)
    result = decode_sources(stcs, Y, reg=0.3, **OPTIONS)
    patterns = result.patterns()
    assert list(patterns) == ["ant", "bee"]
    for stc in patterns.values():
        assert type(stc) is type(stcs[0])
        assert stc.subject == "sample"
        for ours, theirs in zip(stc.vertices, stcs[0].vertices, strict=True):
            assert_array_equal(ours, theirs)
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
    result = decode_sources(stcs, Y, window=0.02, step=0.02, **OPTIONS)
    (first,) = result.patterns("discriminant").values()
    assert_allclose(first.times, [-0.095, -0.075], rtol=0, atol=1e-12)


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


@pytest.mark.parametrize("kind", KINDS)
def test_neighbours_are_those_of_mne(kind):
    src, stcs, _ = made(kind)
    result = decode_sources(stcs, Y, src=src, radius=RADIUS, **OPTIONS)
    expected = adjacency_by_mne(src)
    assert_array_equal(as_matrix(result.adjacency, len(expected)), expected)
    # With time, against MNE-Python, where vertices are counted first.
    times = mne.stats.combine_adjacency(T, sparse.coo_array(expected)).toarray() > 0
    V = len(expected)
    order = np.arange(V * T).reshape(T, V).T.ravel()
    ours = result.places.adjacency().toarray()
    np.fill_diagonal(ours, True)
    assert_array_equal(ours, times[np.ix_(order, order)] | np.eye(V * T, dtype=bool))
    if kind == "volume":  # points of a grid touch as its voxels do
        discrete = mne.SourceSpaces([src[0] | {"type": "discrete"}])
        form = unpack_form(result.sources)
        pairs = [find_source_neighbours(form, s, RADIUS)[2] for s in (src, discrete)]
        assert pairs[0].shape[1] > 20
        assert_array_equal(*pairs)


def test_estimates_of_some_vertices_are_found_by_number(tmp_path):
    src, stcs, X = made()
    left, right = stcs[0].vertices
    vertices, chosen = [left[::2], right[::2]], np.arange(0, 36, 2)
    few = [mne.SourceEstimate(x[chosen], vertices, TMIN, 0.01, "sample") for x in X]
    result = decode_sources(few, Y, src=src, radius=20.0, **OPTIONS)
    near = near_by_hand(src, 20.0)[np.ix_(chosen, chosen)]
    expected = decode_arrays(X[:, chosen][:, near[3]], Y, **OPTIONS)
    assert_array_equal(result.scores[3], expected.scores)
    mne_pairs = adjacency_by_mne(src)[np.ix_(chosen, chosen)]
    assert_array_equal(as_matrix(result.adjacency, 18), mne_pairs)
    # One hemisphere may be empty.
    none = np.array([], int)
    half = [mne.SourceEstimate(x[:20], [left, none], TMIN, 0.01) for x in X]
    result = decode_sources(half, Y, src=src, radius=RADIUS, **OPTIONS)
    whole = decode_sources(stcs, Y, src=src, radius=RADIUS, **OPTIONS)
    assert_array_equal(result.scores, whole.scores[:20])
    assert len(result.plot().axes) == 6
    # A source space may be a file.
    src = build.points(1e3 * src[0]["rr"][left], "sample")
    half = build.estimates(X[:, :20], src)
    src.save(tmp_path / "test-src.fif", verbose=False)
    ours, theirs = (
        decode_sources(half, Y, src=each, radius=RADIUS, **OPTIONS)
        for each in (src, str(tmp_path / "test-src.fif"))
    )
    assert_array_equal(ours.scores, theirs.scores)
    assert_array_equal(ours.adjacency, theirs.adjacency)


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


def replaced(i, **changes):
    """Return estimates of which one is another."""
    _, stcs, _ = made()
    stc = stcs[i]
    names = "data", "vertices", "tmin", "tstep", "subject"
    stcs[i] = mne.SourceEstimate(**{n: getattr(stc, n) for n in names} | changes)
    return stcs


def spoiled(value):
    data = made()[1][5].data.astype(type(value))
    data[21, 2] = value
    return replaced(5, data=data)


LEFT, RIGHT = made()[1][0].vertices


VECTORS = made(vector=True)[1]


BAD = {
    "nothing": (list, "stcs is empty"),
    "no more": (lambda: iter(()), "stcs is empty"),
    "one": (lambda: made()[1][0], "stcs is a SourceEstimate, but must be"),
    "an array": (lambda: made()[2], "array of shape.*decode_arrays"),
    "paths": (lambda: ["a-lh.stc"], r"stcs\[0\] is a str\. stcs must be"),
    "numbers": (lambda: [*made()[1][1:], 3], r"stcs\[23\] is a int"),
    "kinds": (lambda: [*made()[1][:2], *VECTORS[2:]], r"stcs\[2\] has the kind Vector"),
    "NaN": (lambda: spoiled(np.nan), r"stcs\[5\] has NaN.* vertex rh 3, -0\.080 s"),
    "complex": (lambda: spoiled(1j), r"stcs\[5\] has complex data"),
    "vertices": (
        lambda: replaced(4, vertices=[LEFT, RIGHT + 1]),
        r"stcs\[4\] has other vertices of rh",
    ),
    "fewer": (
        lambda: replaced(4, vertices=[LEFT, RIGHT[1:]], data=ALL_ONES[1:]),
        r"\[4\] has 35 vertices instead of 36",
    ),
    "times": (lambda: replaced(3, data=ALL_ONES[:, 1:]), r"\[3\] has 3 times instead"),
    "tmin": (lambda: replaced(3, tmin=0.0), r"tmin=0 s instead of -0\.1 s"),
    "tstep": (lambda: replaced(3, tstep=0.02), r"tstep=0\.02 s instead of"),
    "subject": (
        lambda: replaced(7, subject="fsaverage"),
        r"stcs\[7\] has the subject 'fsaverage' instead of 'sample'",
    ),
    "too few": (
        lambda: iter(made()[1][:-2]),
        "stcs ended after 22 source estimates, and y has 24 labels",
    ),
    "too many": (
        lambda: iter(made()[1] * 2),
        "stcs holds more source estimates than the 24 labels",
    ),
    "a short list": (lambda: made()[1][:-2], "y must hold one value per"),
}


def changed(**fields):
    """Return a function that makes a source space with other fields."""

    def make():
        src = build.source_space()
        for space in src:
            space.update(fields)
        return src

    return make


@pytest.mark.parametrize(("stcs", "message"), BAD.values(), ids=BAD)
def test_wrong_estimates_are_refused(stcs, message):
    with pytest.raises((TypeError, ValueError), match=message):
        decode_sources(stcs(), Y, cv=3)


#: Source space, radius, and what is wrong.
BAD_SPACES = {
    "no radius": (build.source_space, None, "src is given without radius"),
    "no src": (lambda: None, 10.0, "radius is given without src"),
    "a forward": (
        lambda: {"src": build.source_space()},
        1,
        r"'src': dict\. Allowed: mne\.SourceSpaces.*\['src'\]",
    ),
    "volume": (
        lambda: build.source_space("volume"),
        1,
        "src has 1 volume, but the source estimates are of 2 surfaces",
    ),
    "subject": (changed(subject_his_id="fsaverage"), 1, "of subject 'fsaverage', but"),
    "numbers": (
        lambda: mne.SourceSpaces([build.sheet(60, step=4), build.sheet(48, 1)]),
        1,
        "15 of the 20 vertices of lh",
    ),
    "triangles": (changed(tris=np.empty((0, 3), int)), 1, "no triangles of lh"),
    "spacing": (changed(use_tris=None), 1, "not joined by triangle"),
    "radius": (build.source_space, "1", "'radius': '1'.*in mm"),
}


@pytest.mark.parametrize(("src", "radius", "message"), BAD_SPACES.values())
def test_wrong_source_spaces_are_refused(src, radius, message):
    with pytest.raises((TypeError, ValueError), match=message):
        decode_sources(made()[1], Y, src=src(), radius=radius)


def test_maps_that_are_searchlights_alone_and_flat_neighbourhoods():
    src, stcs, _ = made()
    with pytest.raises(ValueError, match="null='max' is for searchlights"):
        decode_sources(stcs, Y, null="max")
    near = near_by_hand(src, 5.0)
    alone = np.flatnonzero(near.sum(axis=1) == 1)[0]
    for stc in stcs:
        stc.data[alone, 2] = 1.0
    message = f"At vertex lh {LEFT[alone]}, -0.080 s: "
    with pytest.raises(ValueError, match=message):
        decode_sources(stcs, Y, src=src, radius=5.0, **OPTIONS)


# ------------------------------------------------------------------ what comes out


@pytest.mark.parametrize(
    ("kind", "vector"), [("surface", False), ("volume", False), ("mixed", True)]
)
def test_maps_are_source_estimates(kind, vector, tmp_path):
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
    names = ["lh", "rh", "Left-Amygdala", "Brain-Stem"]
    names = {"surface": names[:2], "mixed": names, "volume": ["volume"]}[kind]
    assert result.sources["structures"].tolist() == names
    pairs = zip(names, stcs[0].vertices, strict=True)
    assert_array_equal(result.vertices, [f"{n} {v}" for n, vs in pairs for v in vs])
    with pytest.raises(ValueError, match=r"'name': 'foo'.*neglog10p"):
        result.to_stc("foo")
    whole = decode_sources(stcs, Y, cv=4)
    for each in (result, whole):
        each.save(tmp_path / "result.h5", overwrite=True)
        loaded = load_result(tmp_path / "result.h5")
        assert loaded == each
    ours, theirs = (one.patterns()["ant"] for one in (loaded, whole))
    assert_array_equal(ours.data, theirs.data)
    assert ours.subject == theirs.subject


def test_a_checkpoint_continues_and_knows_its_run(tmp_path, monkeypatch):
    src, stcs, _ = made()
    how = {"src": src, "radius": RADIUS, "n_permutations": 9, "cv": OPTIONS["cv"]}
    how["checkpoint"], save = tmp_path / "run.checkpoint", Checkpoint.save

    def stop(self, number, part):
        save(self, number, part)
        raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoint, "save", stop)
    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        decode_sources(stcs, Y, random_state=3, **how)
    monkeypatch.setattr(Checkpoint, "save", save)
    result = decode_sources(iter(stcs), Y, **how)  # takes the seed
    fresh = how | {"checkpoint": None, "random_state": 3}
    assert result == decode_sources(stcs, Y, **fresh)
    larger = build.source_space()
    for space in larger:
        space["rr"] *= 1.2
    others, later = made()[1], made()[1]
    others[0].data[0, 0] += 1
    for each in later:
        each.tmin += 0.05
    for given, changes, message in (
        (others, {}, "another run: the data of stcs"),
        (later, {}, "another run: the data of times"),
        (stcs, {"src": larger}, "another run: the data of src and"),
        (stcs, {"radius": 18.0}, r"another run: .*radius"),
    ):
        with pytest.raises(ValueError, match=message):
            decode_sources(given, Y, **how | changes)


def test_groups_have_clusters_and_estimates(tmp_path):
    results, how = [], {"cv": OPTIONS["cv"], "radius": RADIUS}
    for seed in range(6):
        src, stcs, _ = made(seed=seed, shift=3.0)
        results.append(decode_sources(stcs, Y, src=src, **how))
    options = {"random_state": 0, "correction": ["cluster", "max"]}
    group = group_inference(results, "sign-flip", **options)
    for correction in options["correction"]:
        assert group.pvalues(correction)[2, 1:].max() <= 0.05
    assert "of lh" in group.clusters()["places"][0]
    group.save(tmp_path / "group.h5")
    loaded = load_result(tmp_path / "group.h5")
    assert loaded == group
    for name, expected in (
        (None, np.mean([r.scores for r in results], axis=0)),
        ("p", group.pvalues()),
        ("statistic", group.statistic),
        ("z", group.to_stc("z").data),
    ):
        stc = loaded.to_stc(name)
        assert_allclose(stc.data, expected, rtol=1e-12)
        assert stc.subject == "sample"
        assert_allclose(stc.times, results[0].times, rtol=0, atol=1e-12)
    src, stcs, _ = made("volume")
    others = [decode_sources(stcs, Y, src=src, **how)]
    with pytest.raises(ValueError, match=r"23 vertices x 4 times.*36 vertices"):
        group_inference([*results[1:], *others], "sign-flip", random_state=0)
    with pytest.raises(ValueError, match=r"no source estimate of \d times"):
        build.group("SourceResult").to_stc()


# ------------------------------------------------------------------------------ figures


def test_figure_has_rows_by_structure_and_views_of_all_vertices():
    src, stcs, _ = made("mixed", shift=3.0)
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


ALL_ONES = np.ones((36, T))
