"""CIFTI files: written by nibabel to the standard, decoded, and written again."""

import nibabel
import numpy as np
import pandas as pd
import pytest
from nibabel.cifti2 import (
    BrainModelAxis,
    Cifti2Image,
    LabelAxis,
    ParcelsAxis,
    ScalarAxis,
    SeriesAxis,
)
from nilearn.surface import InMemoryMesh, PolyMesh, SurfaceImage
from numpy.testing import assert_allclose, assert_array_equal

from mvpa_kfda import decode_regions, group_inference, load_result, searchlight
from mvpa_kfda.cli import output
from mvpa_kfda.cli.main import main
from mvpa_kfda.data.cifti import cifti_space, load_cifti
from mvpa_kfda.data.images import read_images
from mvpa_kfda.data.neighbours import touching
from mvpa_kfda.viz import brains
from mvpa_kfda.viz.maps import make_picture
from tests import build

N, AFFINE = 24, build.MNI
Y = np.array(list("abbabaabbabaabbaaabbabab"))
RUNS = np.repeat([1, 2, 3], N // 3)
SHEETS = build.surface_space()
N_VERTICES = len(SHEETS.coordinates["left"])
MESH = PolyMesh(
    **{p: InMemoryMesh(SHEETS.coordinates[p], SHEETS.faces[p]) for p in SHEETS.faces}
)
#: The vertices that files have, all but those of a medial wall.
WALLS = {"left": np.arange(N_VERTICES) > 7, "right": np.arange(N_VERTICES) < 66}
SHAPE = (6, 5, 4)
#: Two structures side by side, and one away from them.
BOXES = {"thalamus_left": np.s_[:3, 1:4, :], "thalamus_right": np.s_[3:, 1:4, :]}
RANDOM = {"random_state": 0, "n_permutations": 19}
QUICK = {"groups": RUNS, "null": "full"} | RANDOM


def box(name):
    inside = np.zeros(SHAPE, bool)
    inside[BOXES[name]] = True
    return inside


def brain(*parts):
    """Return the axis of some structures, all of them if none is named."""
    axes = [
        BrainModelAxis.from_mask(WALLS[p], f"Cortex{p.capitalize()}") for p in WALLS
    ]
    axes += [BrainModelAxis.from_mask(box(name), name, AFFINE) for name in BOXES]
    chosen = [a for a, p in zip(axes, (*WALLS, *BOXES), strict=True) if p in parts]
    return sum(chosen[1:], start=chosen[0]) if parts else brain(*WALLS, *BOXES)


ALL = brain()


def rows_of(axis, seed=0, n=N):
    """Return data (n, n_columns), every fifth column of which tells the class."""
    X = np.random.default_rng(seed).standard_normal((n, len(axis)))
    X[:, ::5] += 1.5 * (Y[:n] == "a")[:, np.newaxis]
    return X


X = rows_of(ALL)
IMG = build.cifti_of(X, ALL)


def within(axis, *names):
    """Mark the columns of some structures."""
    known = [axis.to_cifti_brain_structure_name(name) for name in names]
    return np.isin(axis.name, known)


def saved(img, path):
    img.to_filename(path)
    return path


def surface_of(X, mesh=MESH):
    """Return the same data as a surface image, zero on the walls."""
    data = {}
    for part, wall in WALLS.items():
        data[part] = np.zeros((N_VERTICES, len(X)))
        data[part][wall] = X[:, within(ALL, f"Cortex{part.capitalize()}")].T
    return SurfaceImage(mesh, data)


WALL_MASK = SurfaceImage(MESH, {p: wall.astype(float) for p, wall in WALLS.items()})


def volume_of(X, name):
    """Return the same data of one structure as a volume, and its mask."""
    data = np.zeros((*SHAPE, len(X)))
    data[box(name)] = X[:, within(ALL, name)].T
    return nibabel.Nifti1Image(data, AFFINE), build.mask(box(name), AFFINE)


# -------------------------------------------------------- equal to surface and volume


def assert_equal_maps(result, other, where):
    """Compare scores, predictions and permuted scores to the last bit."""
    assert other.decoded.any()
    for name in result.scoring:
        assert_array_equal(result.metrics[name][where], other.metrics[name])
        assert_array_equal(result.nulls[name][:, where], other.nulls[name])
    assert_array_equal(result.predicted[where], other.predicted)
    assert_array_equal(result.n_features[where], other.n_features)
    if result.lambdas is not None:
        assert_array_equal(result.lambdas[where], other.lambdas)


SCORED = QUICK | {"scoring": ["accuracy", "roc_auc"]}


@pytest.fixture(scope="module")
def result():
    return searchlight(IMG, Y, mesh=MESH, radius=9.0, **SCORED)


def test_the_cortex_equals_the_searchlight_on_surfaces(result):
    surface = searchlight(surface_of(X), Y, mask_img=WALL_MASK, radius=9.0, **SCORED)
    cortex = within(ALL, "CortexLeft", "CortexRight")
    assert_equal_maps(result, surface, cortex)
    # Neighbours too, in whichever order the pairs come.
    here = cortex[result.adjacency].all(axis=0)
    assert_array_equal(result.adjacency[:, here], surface.adjacency)


@pytest.mark.parametrize("name", BOXES)
def test_a_structure_equals_the_searchlight_in_its_mask(result, name):
    img, mask_img = volume_of(X, name)
    volume = searchlight(img, Y, mask_img=mask_img, radius=9.0, **SCORED)
    assert_equal_maps(result, volume, within(ALL, name))


def test_structures_never_mix(result):
    # Neither in neighbourhoods nor in clusters, though the two boxes touch.
    names = ALL.name[result.adjacency]
    assert_array_equal(names[0], names[1])
    assert set(names[0]) == set(ALL.name)
    far = searchlight(IMG, Y, mesh=MESH, radius=1e4, groups=RUNS)
    sizes = {name: np.count_nonzero(ALL.name == name) for name in set(ALL.name)}
    assert_array_equal(far.n_features, [sizes[name] for name in ALL.name])


def test_the_order_of_the_columns_is_kept():
    # Voxels in the order of the Human Connectome Project, first index fastest.
    order = np.random.default_rng(1).permutation(len(ALL))
    order = order[np.argsort(ALL.name[order], kind="stable")]
    mixed = build.cifti_of(X[:, order], ALL[order])
    options = {"mesh": MESH, "radius": 9.0} | QUICK
    one, other = searchlight(IMG, Y, **options), searchlight(mixed, Y, **options)
    assert_array_equal(one.scores[order], other.scores)
    assert_array_equal(one.null[:, order], other.null)
    assert_array_equal(one.geometry.points[order], other.geometry.points)
    assert one.to_img().header.get_axis(1) == ALL
    assert other.to_img().header.get_axis(1) == ALL[order]
    own = searchlight(IMG, Y, mesh=MESH, radius=0.1, groups=RUNS)
    assert_array_equal(own.n_features, 1)


def test_regions_equal_those_of_arrays():
    labels = np.random.default_rng(2).integers(0, 4, len(ALL))
    atlas = build.dlabel(labels, ALL, ["???", "V1", "MT", "Pulvinar"])
    result = decode_regions(IMG, Y, labels_img=atlas, **QUICK)
    plain = decode_regions(X, Y, labels_img=labels, **QUICK)
    assert result.to_dataframe()["region"].tolist() == ["V1", "MT", "Pulvinar"]
    assert_equal_maps(result, plain, slice(None))
    painted = np.asarray(result.to_img().dataobj)[0]
    wanted = np.append(result.scores, 0)[np.where(labels, labels - 1, 3)]
    assert_allclose(painted, wanted, rtol=1e-6, atol=0)
    # Labels that the file does not name are called by their numbers.
    unnamed = build.dlabel(labels, ALL, ["???", "V1"])
    result = decode_regions(IMG, Y, labels_img=unnamed, groups=RUNS)
    assert result.geometry.names.tolist() == ["V1", "2", "3"]
    lut = pd.DataFrame({"index": [1, 2, 3], "name": ["a", "b", "c"]})
    result = decode_regions(IMG, Y, labels_img=unnamed, lut=lut, groups=RUNS)
    assert result.geometry.names.tolist() == ["a", "b", "c"]
    # Numbers alone are names, too.
    numbers = build.cifti_of(labels[np.newaxis].astype(float), ALL)
    result = decode_regions(IMG, Y, labels_img=numbers, groups=RUNS)
    assert result.geometry.names.tolist() == ["1", "2", "3"]
    assert_array_equal(result.scores, plain.scores)


# --------------------------------------------------------------------------- in and out


@pytest.mark.parametrize("ending", [".dtseries.nii", ".dscalar.nii"])
def test_files_of_runs_are_read_in_their_order(tmp_path, ending, result):
    paths = []
    for run in (1, 2, 3):
        own, rows = RUNS == run, SeriesAxis(0, 0.8, N // 3)
        if ending == ".dscalar.nii":
            rows = ScalarAxis([f"trial {i}" for i in range(N // 3)])
        img = Cifti2Image(X[own], (rows, ALL))
        paths.append(saved(img, tmp_path / f"run-{run}{ending}"))
    options = {"mesh": MESH, "radius": 9.0} | SCORED
    given = paths if ending == ".dscalar.nii" else str(tmp_path / "run-*")
    assert searchlight(given, Y, **options) == result


def test_files_of_any_name_are_known_by_what_is_in_them(tmp_path, result):
    plain = saved(IMG, tmp_path / "all.nii")
    assert searchlight(plain, Y, mesh=MESH, radius=9.0, **SCORED) == result


def test_maps_are_files_with_the_columns_of_the_images(tmp_path, result):
    path = tmp_path / "map.dscalar.nii"
    result.to_img().to_filename(path)
    read = nibabel.load(path)
    assert isinstance(read, Cifti2Image)
    assert read.header.get_axis(0).name.tolist() == ["accuracy"]
    assert read.header.get_axis(1) == ALL
    assert read.nifti_header.get_intent()[0] == "ConnDenseScalar"
    assert_allclose(read.get_fdata()[0], result.scores, rtol=1e-6, atol=0)
    p = result.to_img("p", correction="max")
    assert p.header.get_axis(0).name.tolist() == ["p"]
    assert_array_equal(np.asarray(p.dataobj)[0], result.pvalues("max"))


def test_masks_leave_their_columns_in_the_maps():
    chosen = np.zeros(len(ALL))
    chosen[::2] = 1
    mask_img = build.cifti_of(chosen[np.newaxis], ALL)
    options = {"mesh": MESH, "radius": 9.0} | QUICK
    result = searchlight(IMG, Y, mask_img=mask_img, **options)
    assert result.shape == (np.count_nonzero(chosen),)
    img = result.to_img()
    assert img.header.get_axis(1) == ALL
    assert_array_equal(np.asarray(img.dataobj)[0, 1::2], 0)
    assert_allclose(np.asarray(img.dataobj)[0, ::2], result.scores, rtol=1e-6, atol=0)
    p = np.asarray(result.to_img("p").dataobj)[0]
    assert_array_equal(p[1::2], 1)
    assert_array_equal(p[::2], result.pvalues())
    # Centres alone: as without, but of fewer.
    every = searchlight(IMG, Y, **options)
    some = searchlight(IMG, Y, process_mask_img=mask_img, **options)
    assert_array_equal(some.scores, every.scores[::2])
    # A mask of part of the structures leaves out the others.
    left = brain("left")
    left = searchlight(
        IMG, Y, mask_img=build.cifti_of(np.ones((1, len(left))), left), **options
    )
    assert_array_equal(left.scores, every.scores[within(ALL, "CortexLeft")])


def test_results_are_saved_with_their_space(tmp_path, result):
    path = tmp_path / "result.h5"
    result.save(path)
    read = load_result(path)
    assert read == result
    assert read.geometry == result.geometry
    assert read.to_img().header.get_axis(1) == ALL
    without = decode_regions(
        IMG, Y, labels_img=build.dlabel(np.ones(len(ALL)), ALL, ["", "all"])
    )
    without.save(path, overwrite=True)
    assert load_result(path) == without
    assert load_result(path).geometry.base.coordinates == {}


def test_voxels_alone_need_no_mesh():
    axis = brain(*BOXES)
    result = searchlight(build.cifti_of(X[:, -len(axis) :], axis), Y, **QUICK)
    assert [*result.geometry.columns()] == ["structure", "x", "y", "z"]
    whole = searchlight(IMG, Y, mesh=MESH, **QUICK)
    assert_array_equal(result.scores, whole.scores[-len(axis) :])
    mask_img = build.cifti_of(np.ones((1, len(axis))), axis)
    chosen = searchlight(IMG, Y, mask_img=mask_img, **QUICK)
    assert_array_equal(chosen.scores, result.scores)


@pytest.mark.parametrize("exponent", [-3, 0])
def test_places_are_in_mm_whatever_the_unit_of_the_file(tmp_path, exponent):
    axis = brain(*BOXES)
    img = build.cifti_of(rows_of(axis), axis)
    matrix = img.header.get_index_map(1).volume
    matrix = matrix.transformation_matrix_voxel_indices_ijk_to_xyz
    matrix.matrix = AFFINE.copy()
    matrix.matrix[:3] /= 10.0 ** (exponent + 3)
    matrix.meter_exponent = exponent
    space = read_images(saved(img, tmp_path / "x.dscalar.nii")).space
    wanted = axis.voxel @ AFFINE[:3, :3].T + AFFINE[:3, 3]
    assert_allclose(space.points, wanted, rtol=0, atol=1e-9)
    assert_allclose(space.axis().affine, AFFINE, rtol=0, atol=1e-9)


def gifti(part):
    """Return a mesh as the image that a .surf.gii file holds."""
    mesh, array = MESH.parts[part], nibabel.gifti.GiftiDataArray
    points = array(mesh.coordinates.astype(np.float32), "NIFTI_INTENT_POINTSET")
    corners = array(mesh.faces.astype(np.int32), "NIFTI_INTENT_TRIANGLE")
    return nibabel.GiftiImage(darrays=[points, corners])


def test_meshes_are_given_in_several_ways(tmp_path):
    paths = {}
    for part in MESH.parts:
        paths[part] = saved(gifti(part), tmp_path / f"{part}.surf.gii")
    ways = [paths, tuple(map(str, paths.values())), dict(MESH.parts), MESH]
    for mesh in ways:
        space = read_images(IMG, mesh=mesh).space
        for part, known in MESH.parts.items():
            assert_allclose(space.coordinates[part], known.coordinates, atol=1e-5)
            assert_array_equal(space.faces[part], known.faces)
    one = brain("right", "thalamus_left")
    img = build.cifti_of(rows_of(one), one)
    only = searchlight(img, Y, mesh=(None, MESH.parts["right"]), **QUICK)
    both = searchlight(img, Y, mesh=MESH, **QUICK)
    assert only == both


# --------------------------------------------------------------------- the command line


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of files of a subject, which is the current one."""
    monkeypatch.chdir(tmp_path)
    saved(IMG, "betas.dscalar.nii")
    saved(parcels(".pscalar.nii"), "parcels.pscalar.nii")
    table = pd.DataFrame({"label": Y, "run": RUNS})
    table.to_csv("labels.tsv", sep="\t", index=False)
    labels = np.arange(len(ALL)) % 4
    saved(
        build.dlabel(labels, ALL, ["???", "V1", "MT", "Pulvinar"]), "atlas.dlabel.nii"
    )
    for part in MESH.parts:
        saved(gifti(part), f"{part}.surf.gii")
    return tmp_path


BETAS = ["betas.dscalar.nii", "--labels", "labels.tsv", "--groups", "run"]
SURFACES = ["--mesh", "left.surf.gii", "right.surf.gii", "--radius", "9"]
PERMUTED = ["--n-permutations", "19", "--random-state", "0", "--null", "full"]


def test_the_command_writes_cifti_maps(folder, capsys, undrawn):
    main(["searchlight", *BETAS, *SURFACES, *PERMUTED])
    result = load_result("betas_searchlight.h5")
    mesh = {part: f"{part}.surf.gii" for part in MESH.parts}
    assert result == searchlight(
        IMG,
        (pd.read_csv("labels.tsv", sep="\t"), "label"),
        mesh=mesh,
        radius=9.0,
        **QUICK | {"groups": "run"},
    )
    scores = nibabel.load("betas_searchlight_scores.dscalar.nii")
    assert scores.header.get_axis(1) == ALL
    assert_allclose(scores.get_fdata()[0], result.scores, rtol=1e-6, atol=0)
    for name in ("p", "p_max", "z", "neglog10p_max"):
        assert (folder / f"betas_searchlight_{name}.dscalar.nii").is_file()
    for name in (".png", "_map.png"):
        assert (folder / f"betas_searchlight{name}").is_file()
    assert "202 grayordinates; " in capsys.readouterr().out


def test_the_command_decodes_regions_and_leaves_rows_out(folder, monkeypatch):
    monkeypatch.setattr(output, "_figures", lambda *_: ())  # as above
    table = pd.read_csv("labels.tsv", sep="\t")
    table.loc[:1, "label"] = "rest"
    table.to_csv("labels.tsv", sep="\t", index=False)
    main(["regions", *BETAS, "--labels-img", "atlas.dlabel.nii", "--drop", "rest"])
    result = load_result("betas_regions.h5")
    labels = np.arange(len(ALL)) % 4
    plain = decode_regions(X[2:], Y[2:], labels_img=labels, groups=RUNS[2:])
    assert_array_equal(result.scores, plain.scores)
    assert result.geometry.names.tolist() == ["V1", "MT", "Pulvinar"]
    scores = nibabel.load("betas_regions_scores.dscalar.nii")
    assert scores.header.get_axis(1) == ALL


def test_the_command_averages_blocks_of_parcels(folder):
    codes = [2, 2, 1, 0]
    saved(build.dlabel(codes, PARCELS, ["???", "a", "b"]), "atlas.plabel.nii")
    words = ["parcels.pscalar.nii", *BETAS[1:], "--labels-img", "atlas.plabel.nii"]
    main(["regions", *words, "--average-blocks"])
    result = load_result("parcels_regions.h5")
    starts = np.append(True, (Y[1:] != Y[:-1]) | (RUNS[1:] != RUNS[:-1]))
    blocks = np.split(rows_of(PARCELS), np.flatnonzero(starts)[1:])
    means = np.array([block.mean(axis=0) for block in blocks])
    options = {"labels_img": codes, "groups": RUNS[starts]}
    plain = decode_regions(means, Y[starts], **options)
    assert_array_equal(result.scores, plain.scores)
    scores = nibabel.load("parcels_regions_scores.pscalar.nii")
    assert scores.header.get_axis(1) == PARCELS


def test_mistakes_are_told_in_the_words_of_the_command(folder, capsys):
    refused = {
        "mesh=(left, right)": [],
        "mesh": ["--mesh", "left.surf.gii"],
        "other.surf.gii": ["--mesh", "left.surf.gii", "other.surf.gii"],
    }
    for words, options in refused.items():
        assert main(["searchlight", *BETAS, *options]) == 2
        assert words in " ".join(capsys.readouterr().err.split())


# -------------------------------------------------------------------- tables and tests


def test_peaks_say_where_they_are(result):
    table = result.peaks("max", min_score=0.8)
    assert len(table) > 3
    assert {"structure", "vertex", "x", "y", "z", "cluster_size"} <= {*table.columns}
    for row in table.itertuples():
        part = row.structure.removeprefix("CORTEX_").lower()
        if part in WALLS:
            place = MESH.parts[part].coordinates[row.vertex]
            column = np.flatnonzero(
                within(ALL, row.structure) & (ALL.vertex == row.vertex)
            )
        else:
            assert row.vertex == -1
            voxel = np.rint(np.linalg.solve(AFFINE, [row.x, row.y, row.z, 1]))[:3]
            place = (AFFINE @ [*voxel, 1])[:3]
            column = np.flatnonzero(
                within(ALL, row.structure) & (ALL.voxel == voxel).all(axis=1)
            )
        assert_allclose([row.x, row.y, row.z], place, rtol=0, atol=1e-9)
        assert_array_equal(result.scores[column], [row.score])


def test_clusters_stay_within_structures():
    # The two thalami are significant as a whole, and are two clusters.
    near = np.where(within(ALL, *BOXES), (Y == "a")[:, np.newaxis] * 9.0, 0)
    strong = build.cifti_of(X + near, ALL)
    result = searchlight(strong, Y, mesh=MESH, radius=9.0, **QUICK)
    table = result.peaks("none", min_score=0.99)
    sizes = table.groupby("structure")["cluster_size"].unique()
    for name in BOXES:
        assert sizes[name.upper()].tolist() == [np.count_nonzero(box(name))]


def test_neighbours_in_a_volume_share_a_face():
    space = cifti_space(load_cifti(IMG, "imgs"))
    pairs = touching(space)
    voxel, name = ALL.voxel, ALL.name
    near = np.abs(voxel[:, np.newaxis] - voxel).sum(axis=2) == 1
    near &= (name[:, np.newaxis] == name) & (voxel[:, 0] >= 0)
    assert_array_equal(pairs, np.triu(near, k=1).nonzero())


def test_groups_of_subjects(tmp_path):
    # Everyone has a cortex of their own, whose vertices correspond.
    results, axis = [], brain("left", "thalamus_left")
    for seed in range(4):
        parts = {
            p: InMemoryMesh(m.coordinates * (1 + seed / 50), m.faces)
            for p, m in MESH.parts.items()
        }
        img = build.cifti_of(rows_of(axis, seed), axis)
        results.append(searchlight(img, Y, mesh=PolyMesh(**parts), radius=9.0, **QUICK))
    group = group_inference(results, "sign-flip", random_state=0)
    means = np.mean([r.scores for r in results], axis=0)
    img = group.to_img()
    assert img.header.get_axis(1) == axis
    assert_allclose(np.asarray(img.dataobj)[0], means, rtol=1e-6, atol=0)
    group.save(tmp_path / "group.h5")
    assert load_result(tmp_path / "group.h5") == group
    other = build.cifti_of(rows_of(axis)[:, 1:], axis[1:])
    results[1] = searchlight(other, Y, mesh=MESH, radius=9.0, **QUICK)
    with pytest.raises(ValueError, match=f"{len(axis) - 1} grayordinates instead of"):
        group_inference(results, "sign-flip", random_state=0)


# -------------------------------------------------------------------------------- plots


@pytest.mark.parametrize("alpha", [1e-6, 0.999])
def test_voxels_are_cut_where_they_are_best(result, alpha):
    tested = "accuracy", "max", alpha, 0.05, "greater"
    shown = make_picture(result, "place", tested, (None, None))
    assert shown.marked.any() == (alpha > 0.5)
    part, picture = brains.on_part(result, shown, "stat_map")
    cut = brains.choose_cuts(part, picture, "ortho", None)
    scores = part.scores[(part.geometry.points == cut).all(axis=1)]
    assert_array_equal(scores, [np.nanmax(part.scores)])


def test_figures_of_the_cortex_and_of_the_voxels(result):
    figure = result.plot()
    assert [text.get_text() for text in figure.texts[:2]] == ["Left", "Right"]
    figure = result.plot(kind="stat_map")
    assert len(figure.axes) > 2
    result.plot(kind="bar")
    plain = decode_regions(
        IMG, Y, labels_img=build.dlabel(np.ones(len(ALL)), ALL, ["", "all"])
    )
    plain.plot()
    with pytest.raises(ValueError, match=r"'kind': 'surface'.*'bar'"):
        plain.plot(kind="surface")
    axis = brain("thalamus_left")
    mask_img = build.cifti_of(np.ones((1, len(axis))), axis)
    voxels = searchlight(IMG, Y, mask_img=mask_img, mesh=MESH, **QUICK)
    with pytest.raises(ValueError, match=r"Allowed: 'stat_map', 'glass_brain', 'bar'"):
        voxels.plot(kind="surface")


def test_figures_show_each_part_by_itself(result, monkeypatch):
    drawn = {}
    for kind in ("surface", "stat_map"):

        def keep(part, picture, *options, kind=kind):
            drawn[kind] = part.geometry, picture.values, picture.marked
            raise RuntimeError("seen")

        monkeypatch.setitem(brains.BRAINS, kind, keep)
        with pytest.raises(RuntimeError, match="seen"):
            result.plot(kind=kind)
    space, values, _ = drawn["surface"]
    cortex = within(ALL, "CortexLeft", "CortexRight")
    assert_array_equal(values, result.scores[cortex])
    assert_array_equal(space.mask["left"], WALLS["left"])
    space, values, marked = drawn["stat_map"]
    wanted = np.zeros(SHAPE)
    wanted[tuple(ALL.voxel[~cortex].T)] = result.scores[~cortex]
    img = space.to_img(values, dtype=np.float64)
    assert_array_equal(img.get_fdata(), wanted)
    assert_array_equal(np.sort(marked), np.sort(result.pvalues("max")[~cortex] <= 0.05))


# ------------------------------------------------------------------------------ parcels


PARCELS = ParcelsAxis.from_brain_models(
    [
        ("V1", brain("left")[:20]),
        ("MT", brain("left")[20:] + brain("right")[:9]),
        ("Pulvinar", brain("thalamus_left")),
        ("Mixed", brain("right")[9:] + brain("thalamus_right")),
    ]
)
CHAIN = build.chain(4)


def parcels(ending=".ptseries.nii"):
    rows = SeriesAxis(0, 1, N) if ending == ".ptseries.nii" else None
    rows = rows or ScalarAxis([f"trial {i}" for i in range(N)])
    return Cifti2Image(rows_of(PARCELS), (rows, PARCELS))


@pytest.mark.parametrize("ending", [".ptseries.nii", ".pscalar.nii"])
def test_parcels_are_features_with_names(tmp_path, ending):
    path = saved(parcels(ending), tmp_path / f"x{ending}")
    result = searchlight(path, Y, adjacency=CHAIN, **QUICK)
    plain = searchlight(rows_of(PARCELS), Y, adjacency=CHAIN, **QUICK)
    assert_equal_maps(result, plain, slice(None))
    assert result.to_dataframe()["parcel"].tolist() == PARCELS.name.tolist()
    result.to_img().to_filename(tmp_path / "map.pscalar.nii")
    read = nibabel.load(tmp_path / "map.pscalar.nii")
    assert read.header.get_axis(1) == PARCELS
    assert read.nifti_header.get_intent()[0] == "ConnParcelScalr"
    assert_allclose(read.get_fdata()[0], result.scores, rtol=1e-6, atol=0)
    result.save(tmp_path / "result.h5")
    assert load_result(tmp_path / "result.h5") == result
    result.plot()
    with pytest.raises(ValueError, match=r"CIFTI file of parcels.*Pass adjacency="):
        searchlight(path, Y)


def test_networks_of_parcels():
    networks = ["visual", "visual", "thalamus", ""]
    plain = decode_regions(rows_of(PARCELS), Y, labels_img=networks, **QUICK)
    codes = [2, 2, 1, 0]
    plabel = build.dlabel(codes, PARCELS, ["???", "thalamus", "visual"])
    for labels_img in (networks, np.array(networks), plabel):
        result = decode_regions(parcels(), Y, labels_img=labels_img, **QUICK)
        assert_equal_maps(result, plain, slice(None))
        assert result.geometry.names.tolist() == ["thalamus", "visual"]
        img = result.to_img()
        assert img.header.get_axis(1) == PARCELS
        painted = np.append(0, result.scores)[codes]
        assert_allclose(np.asarray(img.dataobj)[0], painted, rtol=1e-6, atol=0)


def test_names_of_parcels_and_of_an_adjacency_must_agree():
    names = PARCELS.name[::-1]
    with pytest.raises(ValueError, match="column 0 is 'V1' in imgs and 'Mixed'"):
        searchlight(parcels(), Y, adjacency=(CHAIN, names))


# --------------------------------------------------- atlases and masks on other columns


def test_an_atlas_of_the_whole_cortex_is_matched_by_vertex():
    # Those of the Human Connectome Project leave the subcortex out, or have the wall.
    whole = BrainModelAxis.from_mask(np.ones(N_VERTICES), "CortexRight")
    whole += BrainModelAxis.from_mask(np.ones(N_VERTICES), "CortexLeft")
    labels = np.arange(2 * N_VERTICES) % 3
    result = decode_regions(IMG, Y, labels_img=build.dlabel(labels, whole), **QUICK)
    own = np.zeros(len(ALL), int)
    for part, at in {"Right": labels[:N_VERTICES], "Left": labels[N_VERTICES:]}.items():
        columns = within(ALL, f"Cortex{part}")
        own[columns] = at[ALL.vertex[columns]]
    plain = decode_regions(X, Y, labels_img=own, **QUICK)
    assert_equal_maps(result, plain, slice(None))


def test_an_atlas_of_voxels_is_matched_by_voxel():
    every = BrainModelAxis.from_mask(np.ones(SHAPE), "other", AFFINE)
    labels = np.random.default_rng(3).integers(0, 4, len(every))
    result = decode_regions(IMG, Y, labels_img=build.dlabel(labels, every), **QUICK)
    own = np.zeros(len(ALL), int)
    inside = within(ALL, *BOXES)
    own[inside] = labels.reshape(SHAPE)[tuple(ALL.voxel[inside].T)]
    plain = decode_regions(X, Y, labels_img=own, **QUICK)
    assert_equal_maps(result, plain, slice(None))


# ---------------------------------------------------------------------------- bad input


def test_affines_of_files_that_differ_by_rounding():
    """nibabel takes their columns for others."""
    first, second = (
        BrainModelAxis.from_mask(box("thalamus_left"), "thalamus_left", AFFINE + by)
        for by in (0, 2e-4 * np.eye(4, k=1))
    )
    assert first != second
    images = [build.cifti_of(rows_of(axis), axis) for axis in (first, second)]
    twice = [build.cifti_of(rows_of(first), first)] * 2
    y, groups = np.tile(Y, 2), np.repeat([0, 1], len(Y))
    mask = build.cifti_of(np.ones((1, len(second))), second)
    found, expected = (
        searchlight(imgs, y, groups=groups, mask_img=given, radius=7)
        for imgs, given in ((images, mask), (twice, None))
    )
    assert_array_equal(found.scores, expected.scores)


def test_images_that_do_not_fit_are_refused(tmp_path):
    other = build.cifti_of(X[:, 1:], ALL[1:])
    with pytest.raises(ValueError, match=r"imgs\[1\] has other columns than .*: "):
        searchlight([IMG, other], Y, mesh=MESH)
    order = np.arange(len(ALL))[::-1]
    same = build.cifti_of(X[:, order], ALL[order])
    with pytest.raises(ValueError, match="or the same in another order"):
        searchlight([IMG, same], Y, mesh=MESH)
    moved = BrainModelAxis.from_mask(box("thalamus_left"), "thalamus_left", 2 * AFFINE)
    axis = brain("thalamus_left")
    pair = [build.cifti_of(rows_of(a), a) for a in (axis, moved)]
    with pytest.raises(ValueError, match="voxels on another grid"):
        searchlight(pair, Y)
    with pytest.raises(ValueError, match="4 parcels against"):
        searchlight([IMG, parcels()], Y, mesh=MESH)
    with pytest.raises(TypeError, match="holds both CIFTI files and others"):
        searchlight([volume_of(X, "thalamus_left")[0], IMG], Y)
    with pytest.raises(TypeError, match=r"imgs\[1\] must be a CIFTI image"):
        searchlight([IMG, volume_of(X, "thalamus_left")[0]], Y, mesh=MESH)
    dconn = Cifti2Image(np.zeros((len(ALL), len(ALL))), (ALL, ALL))
    with pytest.raises(ValueError, match="a CIFTI file of BrainModel x BrainModel"):
        searchlight(dconn, Y, mesh=MESH)
    with pytest.raises(ValueError, match="a CIFTI file of BrainModel x BrainModel"):
        searchlight(saved(dconn, tmp_path / "x.dconn.nii"), Y, mesh=MESH)
    with pytest.raises(ValueError, match="holds the labels of an atlas"):
        searchlight(build.dlabel(np.ones(len(ALL)), ALL), Y, mesh=MESH)
    with pytest.raises(ValueError, match="a single image"):
        searchlight(build.cifti_of(X[:1], ALL), Y[:1], mesh=MESH)
    with pytest.raises(FileNotFoundError, match="is no file"):
        searchlight(tmp_path / "missing.dscalar.nii", Y, mesh=MESH)
    (tmp_path / "empty.dscalar.nii").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="is no image"):
        searchlight(tmp_path / "empty.dscalar.nii", Y, mesh=MESH)
    volume = saved(volume_of(X, "thalamus_left")[0], tmp_path / "volume.dscalar.nii")
    with pytest.raises(TypeError, match=r"must be a CIFTI image.*got Nifti"):
        searchlight(volume, Y, mesh=MESH)


def fewer(mesh):
    """Return a mesh without its last vertex."""
    faces = mesh.faces[(mesh.faces < N_VERTICES - 1).all(axis=1)]
    return InMemoryMesh(mesh.coordinates[:-1], faces)


@pytest.mark.parametrize(
    ("mesh", "error", "match"),
    [
        (None, ValueError, r"imgs hold CORTEX_LEFT \(72 vertices\) and CORTEX_RIGHT"),
        ({"left": MESH.parts["left"]}, ValueError, r"imgs hold CORTEX_RIGHT \(72 v"),
        (
            (fewer(MESH.parts["left"]), MESH.parts["right"]),
            ValueError,
            "left mesh has 71 vertices, but CORTEX_LEFT of imgs has 72",
        ),
        ("left.surf.gii", TypeError, "Allowed: a PolyMesh of nilearn, a dict"),
        ({"lh": MESH.parts["left"]}, ValueError, "Invalid parts of mesh: 'lh'"),
        (("no.surf.gii", "no.surf.gii"), FileNotFoundError, "no.surf.gii' is no file"),
        ((3, 4), ValueError, "is no mesh"),
    ],
)
def test_meshes_that_do_not_fit_are_refused(mesh, error, match):
    with pytest.raises(error, match=match):
        searchlight(IMG, Y, mesh=mesh)


def test_meshes_are_for_cifti_alone():
    with pytest.raises(TypeError, match="mesh is for CIFTI images"):
        searchlight(X, Y, adjacency=np.eye(len(ALL)), mesh=MESH)
    with pytest.raises(TypeError, match="mesh is for CIFTI images"):
        searchlight(surface_of(X), Y, mesh=MESH)
    with pytest.raises(TypeError, match="mesh is for CIFTI images"):
        decode_regions(X, Y, labels_img=np.ones(len(ALL), int), mesh=MESH)


def test_masks_that_do_not_fit_are_refused():
    options = {"mesh": MESH, "radius": 9.0}
    with pytest.raises(TypeError, match=r"mask_img must be a CIFTI image.*Nifti1Image"):
        searchlight(IMG, Y, mask_img=volume_of(X, "thalamus_left")[1], **options)
    with pytest.raises(ValueError, match="mask_img must hold zeros and one other"):
        searchlight(IMG, Y, mask_img=build.cifti_of(X[:1], ALL), **options)
    with pytest.raises(ValueError, match="mask_img must hold one map; it holds 24"):
        searchlight(IMG, Y, mask_img=IMG, **options)
    axis = BrainModelAxis.from_mask(np.ones(5), "CortexLeft")
    small = build.cifti_of(np.ones((1, 5)), axis)
    with pytest.raises(ValueError, match=r"mask_img.* 5 vertices .*_LEFT against 72"):
        searchlight(IMG, Y, process_mask_img=small, **options)
    away = BrainModelAxis.from_mask(np.ones(5), "cerebellum")
    away = build.cifti_of(np.ones((1, 5)), away)
    with pytest.raises(ValueError, match="selects no grayordinate of the images"):
        searchlight(IMG, Y, mask_img=away, **options)
    with pytest.raises(TypeError, match="mask_img is for grayordinates; imgs are parc"):
        searchlight(parcels(), Y, mask_img=away, adjacency=CHAIN)
    with pytest.raises(TypeError, match="parcels have no places"):
        searchlight(parcels(), Y, process_mask_img=away, adjacency=CHAIN)


def test_atlases_that_do_not_fit_are_refused():
    axis = BrainModelAxis.from_mask(np.ones(5), "CortexLeft")
    with pytest.raises(ValueError, match=r"labels_img .* 5 vertices on CORTEX_LEFT"):
        decode_regions(IMG, Y, labels_img=build.dlabel(np.ones(5), axis))
    axis = BrainModelAxis.from_mask(np.ones((2, 2, 2)), "brain_stem", AFFINE)
    with pytest.raises(ValueError, match=r"labels_img .* has voxels on another grid"):
        decode_regions(IMG, Y, labels_img=build.dlabel(np.ones(8), axis))
    with pytest.raises(ValueError, match=r"grayordinates against 4 parcels"):
        decode_regions(parcels(), Y, labels_img=build.dlabel(np.ones(len(ALL)), ALL))
    with pytest.raises(ValueError, match="labels_img must hold whole numbers"):
        decode_regions(IMG, Y, labels_img=build.cifti_of(X[:1], ALL))
    with pytest.raises(TypeError, match="labels_img must be a CIFTI image"):
        decode_regions(IMG, Y, labels_img=build.mask(box("thalamus_left"), AFFINE))
    with pytest.raises(ValueError, match="labels_img must hold the region of each of"):
        decode_regions(IMG, Y, labels_img=["V1", "V2"])
    rows = LabelAxis(["a", "b"], [{1: ("V1", (1, 0, 0, 1))}] * 2)
    two = Cifti2Image(np.ones((2, len(ALL))), (rows, ALL))
    with pytest.raises(ValueError, match="labels_img must hold one map; it holds 2"):
        decode_regions(IMG, Y, labels_img=two)


def test_edges_are_counted_on_surfaces_only():
    options = {"mesh": MESH, "radius": 1, "distance": "edges", "groups": RUNS}
    with pytest.raises(ValueError, match="distance='edges' is for surfaces only"):
        searchlight(IMG, Y, **options)
    axis = brain("left", "right")
    result = searchlight(build.cifti_of(X[:, : len(axis)], axis), Y, **options)
    options["mask_img"] = WALL_MASK
    del options["mesh"]
    surface = searchlight(surface_of(X), Y, **options)
    assert_array_equal(result.scores, surface.scores)
