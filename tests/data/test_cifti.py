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
from mvpa_kfda.cli.main import main
from mvpa_kfda.data.images import read_images
from mvpa_kfda.data.volumes import is_cifti
from mvpa_kfda.viz import brains
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


@pytest.mark.parametrize("ending", [".dtseries.nii", ".dscalar.nii", ".nii"])
def test_files_of_runs_are_read_in_their_order(tmp_path, ending):
    paths = []
    for run in (1, 2, 3):
        own, rows = RUNS == run, SeriesAxis(0, 0.8, N // 3)
        if ending != ".dtseries.nii":
            rows = ScalarAxis([f"trial {i}" for i in range(N // 3)])
        img = Cifti2Image(X[own], (rows, ALL))
        paths.append(saved(img, tmp_path / f"run-{run}{ending}"))
    given = paths if ending == ".dscalar.nii" else str(tmp_path / "run-*")
    images = read_images(given, mesh=MESH)
    assert_array_equal(images.X, X)
    assert images.space == read_images(IMG, mesh=MESH).space


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


def test_the_command_writes_cifti_maps(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("mvpa_kfda.cli.output.save_figure", lambda *_, **__: None)
    monkeypatch.chdir(tmp_path)
    saved(IMG, "betas.dscalar.nii")
    table = pd.DataFrame({"label": Y, "run": RUNS})
    table.to_csv("labels.tsv", sep="\t", index=False)
    mesh = {part: saved(gifti(part), f"{part}.surf.gii") for part in MESH.parts}
    command = "searchlight betas.dscalar.nii --labels labels.tsv --groups run".split()
    options = "--mesh left.surf.gii right.surf.gii --radius 9 --n-permutations 19"
    options += " --random-state 0 --null full"
    main([*command, *options.split()])
    result = load_result("betas_searchlight.h5")
    how = QUICK | {"groups": "run", "mesh": mesh, "radius": 9.0}
    assert result == searchlight(IMG, (table, "label"), **how)
    scores = nibabel.load("betas_searchlight_scores.dscalar.nii")
    assert scores.header.get_axis(1) == ALL
    assert_allclose(scores.get_fdata()[0], result.scores, rtol=1e-6, atol=0)
    for name in ("p", "p_max", "z", "neglog10p_max"):
        assert (tmp_path / f"betas_searchlight_{name}.dscalar.nii").is_file()
    assert "202 grayordinates; " in capsys.readouterr().out
    for options, words in (([], "mesh=(left, right)"), (["--mesh", "x"], "mesh")):
        assert main([*command, *options]) == 2
        assert words in " ".join(capsys.readouterr().err.split())


# -------------------------------------------------------------------- tables and tests


def test_peaks_say_where_they_are(result):
    table = result.peaks("max", min_score=0.8)
    assert len(table) > 3
    for row in table.itertuples():
        same = ALL.name == ALL.to_cifti_brain_structure_name(row.structure)
        same &= (result.geometry.points == [row.x, row.y, row.z]).all(axis=1)
        (column,) = np.flatnonzero(same)
        assert ALL.vertex[column] == row.vertex
        assert result.scores[column] == row.score


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
    assert group.to_img().header.get_axis(1) == axis
    assert_allclose(group.to_img().get_fdata()[0], means, rtol=1e-6, atol=0)
    group.save(tmp_path / "group.h5")
    assert load_result(tmp_path / "group.h5") == group
    other = build.cifti_of(rows_of(axis)[:, 1:], axis[1:])
    results[1] = searchlight(other, Y, mesh=MESH, radius=9.0, **QUICK)
    with pytest.raises(ValueError, match=f"{len(axis) - 1} grayordinates instead of"):
        group_inference(results, "sign-flip", random_state=0)


# -------------------------------------------------------------------------------- plots


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


def test_an_atlas_is_matched_by_vertex_or_voxel():
    # Those of the Human Connectome Project leave the subcortex out, or have the wall.
    whole = BrainModelAxis.from_mask(np.ones(N_VERTICES), "CortexRight")
    whole += BrainModelAxis.from_mask(np.ones(N_VERTICES), "CortexLeft")
    labels = np.arange(2 * N_VERTICES) % 3
    own, inside = np.zeros(len(ALL), int), within(ALL, *BOXES)
    for part, at in {"Right": labels[:N_VERTICES], "Left": labels[N_VERTICES:]}.items():
        columns = within(ALL, f"Cortex{part}")
        own[columns] = at[ALL.vertex[columns]]
    every = BrainModelAxis.from_mask(np.ones(SHAPE), "other", AFFINE)
    of_voxels, others = np.random.default_rng(3).integers(0, 4, len(every)), 0 * own
    others[inside] = of_voxels.reshape(SHAPE)[tuple(ALL.voxel[inside].T)]
    for given, axis, expected in ((labels, whole, own), (of_voxels, every, others)):
        result = decode_regions(IMG, Y, labels_img=build.dlabel(given, axis), **QUICK)
        plain = decode_regions(X, Y, labels_img=expected, **QUICK)
        assert_equal_maps(result, plain, slice(None))


THALAMUS = brain("thalamus_left")


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
    img = result.sel(place=["Mixed", "MT"]).to_img()
    assert img.header.get_axis(1) == PARCELS[[1, 3]]
    assert_allclose(img.get_fdata()[0], result.scores[[1, 3]], rtol=1e-6, atol=0)


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


# --------------------------------------------------- atlases and masks on other columns


# ---------------------------------------------------------------------------- bad input


def test_affines_of_files_that_differ_by_rounding():
    """nibabel takes their columns for others."""
    inside, near = box("thalamus_left"), AFFINE + 2e-4 * np.eye(4, k=1)
    other = BrainModelAxis.from_mask(inside, "thalamus_left", near)
    assert THALAMUS != other
    one, two = (build.cifti_of(rows_of(THALAMUS), axis) for axis in (THALAMUS, other))
    mask = build.cifti_of(np.ones((1, len(other))), other)
    how = {"groups": np.repeat([0, 1], N), "radius": 7}
    found = searchlight([one, two], np.tile(Y, 2), mask_img=mask, **how)
    expected = searchlight([one, one], np.tile(Y, 2), **how)
    assert_array_equal(found.scores, expected.scores)


def test_images_that_do_not_fit_are_refused(tmp_path, monkeypatch):
    volume, _ = volume_of(X, "thalamus_left")
    moved = BrainModelAxis.from_mask(box("thalamus_left"), "thalamus_left", 2 * AFFINE)
    pair = [build.cifti_of(rows_of(axis), axis) for axis in (THALAMUS, moved)]
    dconn = Cifti2Image(np.zeros((len(ALL), len(ALL))), (ALL, ALL))
    (tmp_path / "empty.dscalar.nii").write_bytes(b"nothing")
    in_file = saved(volume, tmp_path / "volume.dscalar.nii")
    for imgs, match in (
        ([IMG, build.cifti_of(X[:, 1:], ALL[1:])], r"imgs\[1\] has other columns th"),
        (
            [IMG, build.cifti_of(X[:, ::-1], ALL[np.arange(len(ALL))[::-1]])],
            "or the same in another order",
        ),
        (pair, "voxels on another grid"),
        ([IMG, parcels()], "4 parcels against"),
        ([volume, IMG], "holds both CIFTI files and others"),
        ([IMG, volume], "must be a CIFTI image"),
        (dconn, "a CIFTI file of BrainModel x BrainModel"),
        (saved(dconn, tmp_path / "x.dconn.nii"), "a CIFTI file of BrainModel x BrainM"),
        (build.dlabel(np.ones(len(ALL)), ALL), "holds the labels of an atlas"),
        (build.cifti_of(X[:1], ALL), "a single image"),
        (tmp_path / "missing.dscalar.nii", "is no file"),
        (tmp_path / "empty.dscalar.nii", "is no image"),
        (in_file, r"must be a CIFTI image.*got Nifti"),
    ):
        with pytest.raises((TypeError, ValueError, FileNotFoundError), match=match):
            read_images(imgs)
    assert is_cifti(saved(IMG, tmp_path / "x.nii"))
    (tmp_path / "other.txt").write_text("no image")
    monkeypatch.setattr(nibabel, "load", pytest.fail)  # of other names none is opened
    assert not is_cifti(tmp_path / "other.txt")


TRIANGLE = np.array([[0, 1, 2]])


@pytest.mark.parametrize(
    ("mesh", "match"),
    [
        ("left.surf.gii", "Allowed: a PolyMesh of nilearn, a dict"),
        ({"lh": MESH.parts["left"]}, "Invalid parts of mesh: 'lh'"),
        (("no.surf.gii", "no.surf.gii"), "no.surf.gii' is no file"),
        ((3, 4), "is no mesh"),
        (
            {"left": InMemoryMesh(SHEETS.coordinates["left"][:9], TRIANGLE)},
            "left mesh has 9 vertices, but CORTEX_LEFT of imgs has 72",
        ),
    ],
)
def test_meshes_that_do_not_fit_are_refused(mesh, match):
    with pytest.raises((TypeError, ValueError, FileNotFoundError), match=match):
        read_images(IMG, mesh=mesh)


SMALL = BrainModelAxis.from_mask(np.ones(5), "CortexLeft")


AWAY = BrainModelAxis.from_mask(np.ones(5), "cerebellum")


STEM = BrainModelAxis.from_mask(np.ones((2, 2, 2)), "brain_stem", AFFINE)


TWO_MAPS = Cifti2Image(
    np.ones((2, len(ALL))),
    (LabelAxis(["a", "b"], [{1: ("V1", (1, 0, 0, 1))}] * 2), ALL),
)


def ones_of(axis):
    return build.cifti_of(np.ones((1, len(axis))), axis)


def labels_of(axis, labels=1.0):
    return build.dlabel(labels * np.ones(len(axis)), axis)


#: Images, a mask or an atlas of them, and what is wrong.
MISFITS = [
    (IMG, {}, r"imgs hold CORTEX_LEFT \(72 vertices\) and CORTEX_RIGHT"),
    (IMG, {"mesh": {"left": MESH.parts["left"]}}, r"imgs hold CORTEX_RIGHT \(72 ver"),
    (IMG, {"mask_img": build.mask(box("thalamus_left"))}, "must be a CIFTI image"),
    (IMG, {"mask_img": build.cifti_of(X[:1], ALL)}, "must hold zeros and one other"),
    (IMG, {"mask_img": IMG}, "mask_img must hold one map; it holds 24"),
    (IMG, {"mask_img": ones_of(SMALL)}, r"mask_img.* 5 vertices .*_LEFT against 72"),
    (IMG, {"mask_img": ones_of(AWAY)}, "selects no grayordinate of the images"),
    (IMG, {"labels_img": labels_of(SMALL)}, "labels_img .* 5 vertices on CORTEX_LEFT"),
    (IMG, {"labels_img": labels_of(STEM)}, "labels_img .* has voxels on another grid"),
    (IMG, {"labels_img": build.cifti_of(X[:1], ALL)}, "must hold whole numbers"),
    (IMG, {"labels_img": build.mask(box("thalamus_left"))}, "must be a CIFTI image"),
    (IMG, {"labels_img": ["V1", "V2"]}, "must hold the region of each of"),
    (IMG, {"labels_img": TWO_MAPS}, "labels_img must hold one map; it holds 2"),
    (parcels(), {"labels_img": labels_of(ALL)}, "grayordinates against 4 parcels"),
    (parcels(), {"mask_img": ones_of(AWAY)}, "for grayordinates; imgs are parc"),
    (parcels(), {}, r"CIFTI file of parcels.*Pass adjacency="),
    (parcels(), {"adjacency": (CHAIN, PARCELS.name[::-1])}, "'V1' in imgs and 'Mixed'"),
    (
        parcels(),
        {"process_mask_img": ones_of(AWAY), "adjacency": CHAIN},
        "parcels have no places",
    ),
    (surface_of(X), {"mesh": MESH}, "mesh is for CIFTI images"),
]


@pytest.mark.parametrize(("imgs", "options", "match"), MISFITS)
def test_masks_and_atlases_that_do_not_fit_are_refused(imgs, options, match):
    function = decode_regions if "labels_img" in options else searchlight
    with pytest.raises((TypeError, ValueError), match=match):
        function(imgs, Y, **options)


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


def test_cortex_and_structures_equal_searchlights_on_surfaces_and_in_masks(result):
    surface = searchlight(surface_of(X), Y, mask_img=WALL_MASK, radius=9.0, **SCORED)
    cortex = within(ALL, "CortexLeft", "CortexRight")
    assert_equal_maps(result, surface, cortex)
    # Neighbours too, in whichever order the pairs come.
    here = cortex[result.adjacency].all(axis=0)
    assert_array_equal(result.adjacency[:, here], surface.adjacency)
    for name in BOXES:
        img, mask_img = volume_of(X, name)
        volume = searchlight(img, Y, mask_img=mask_img, radius=9.0, **SCORED)
        assert_equal_maps(result, volume, within(ALL, name))
