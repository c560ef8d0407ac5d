"""The commands for images: same numbers as the functions, resumed after a kill."""

import re
import signal

import matplotlib.pyplot as plt
import nibabel
import numpy as np
import pandas as pd
import pytest
from nibabel import Nifti1Image
from nilearn.image import index_img
from nilearn.masking import apply_mask
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

import mvpa_kfda
from mvpa_kfda import decode_regions, load_result, searchlight
from mvpa_kfda.cli import output
from mvpa_kfda.cli.main import main
from mvpa_kfda.utils.checkpoint import Checkpoint
from mvpa_kfda.utils.parallel import WorkersLostError

#: Far from every brain, so that there is no glass brain to draw.
AFFINE = np.array([[-3.0, 0, 0, 6], [0, 3, 0, 300], [0, 0, 3, 9], [0, 0, 0, 1]])
#: Labels of four runs, each in an order of its own: face, house, rest.
ORDERS = "fhrfhfhf", "hfrffhfh", "ffrhfhhf", "ffrhhfhf"
NAMED = {"f": "face", "h": "house", "r": "rest"}
LABELS = [NAMED[letter] for order in ORDERS for letter in order]
RUNS = np.repeat([1, 2, 3, 4], 8)
KEEP = np.array(LABELS) != "rest"
Y = np.array(LABELS)[KEEP]

#: What a searchlight with permutations and correction "max" writes.
ENDINGS = [
    *(".h5", ".csv", "_peaks.csv", ".png", "_scores.nii.gz", "_p.nii.gz"),
    *("_p_max.nii.gz", "_neglog10p_max.nii.gz", "_z.nii.gz"),
]

#: Words that begin a command on the first image of the folder.
BOLD = ["searchlight", "bold.nii.gz", "--labels", "labels.tsv"]
SHORT = ["--drop", "rest", "--mask-img", "mask.nii.gz", "--radius", "3"]
#: Words for a map of 18 voxels.
FEW = ["--process-mask-img", "few.nii.gz"]


def on_disk(path, data):
    """Write an image."""
    Nifti1Image(data, AFFINE).to_filename(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with images of one informative voxel, and files that are none."""
    folder = tmp_path_factory.mktemp("files")
    rng = np.random.default_rng(0)
    bold = rng.normal(size=(5, 5, 5, 32)).astype(np.float32)
    bold[2, 2, 2] += 5 * (np.array(LABELS) == "face")
    bold[..., ~KEEP] += 1000  # nobody may look at these
    on_disk(folder / "bold.nii.gz", bold)
    on_disk(folder / "first.nii.gz", bold[..., :8])
    on_disk(folder / "second.nii", bold[..., 8:])
    on_disk(folder / "single.nii.gz", bold[..., 0])
    dead = bold.copy()
    dead[0, 0, 0] = 0
    on_disk(folder / "dead.nii.gz", dead)
    on_disk(folder / "other.nii.gz", np.ones((4, 4, 4), np.uint8))
    mask = np.ones((5, 5, 5), np.uint8)
    on_disk(folder / "mask.nii.gz", mask)
    mask[4], mask[1, 1, 1] = 0, 0
    on_disk(folder / "centres.nii.gz", mask)
    on_disk(folder / "empty.nii.gz", 0 * mask)
    few = np.zeros((5, 5, 5), np.uint8)
    few[1:4, 1:4, 1:3] = 1
    on_disk(folder / "few.nii.gz", few)
    atlas = np.repeat([7, 7, 0, 0, 0], 25).reshape(5, 5, 5).astype(np.int16)
    atlas[2:4, 1:4, 1:4] = 3
    on_disk(folder / "atlas.nii.gz", atlas)
    whole = (folder / "bold.nii.gz").read_bytes()
    (folder / "cut.nii.gz").write_bytes(whole[: len(whole) // 2])
    (folder / "text.nii.gz").write_text("no image\n")
    names = pd.DataFrame({"index": [3, 7], "name": ["V1 left", "FFA"]})
    names.to_csv(folder / "names.tsv", sep="\t", index=False)
    table = pd.DataFrame({"label": LABELS, "run": RUNS, "chunk": RUNS > 2})
    table.to_csv(folder / "labels.tsv", sep="\t", index=False)
    table[:8].to_csv(folder / "first.csv", index=False)
    table[8:].to_csv(folder / "second.csv", index=False)
    gaps = table.replace("rest", "n/a").assign(run=table["run"].where(KEEP))
    gaps.to_csv(folder / "gaps.tsv", sep="\t", index=False)
    table["run"] = table["run"].where(table["run"] > 1)
    table["code"] = table["label"].map({"face": 1, "house": 2})
    table.to_csv(folder / "holes.tsv", sep="\t", index=False)
    (folder / "labels.txt").write_text("face\nhouse\n")
    return folder


@pytest.fixture
def inside(folder, monkeypatch):
    """Stay in that folder."""
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def no_figures(monkeypatch):
    """Draw nothing, which is most of the time that a short command takes."""
    monkeypatch.setattr(output, "_figures", lambda *_: ())


def kept_bold(folder):
    """Return the volumes that are not rest, as an image."""
    return index_img(nibabel.load(folder / "bold.nii.gz"), KEEP)


def expected_searchlight(folder, **options):
    """Return what the function gives for the volumes that are not rest."""
    options = {"mask_img": folder / "mask.nii.gz", "radius": 3.0} | options
    return searchlight(kept_bold(folder), Y, random_state=0, **options)


def run(out, command, *options):
    """Run a command that must succeed; return its files by ending."""
    assert main([*command, *map(str, options), "--out", str(out)]) == 0
    (stem,) = {path.stem for path in out.glob("*.h5")}
    return {path.name.removeprefix(stem): path for path in out.iterdir()}


# ----------------------------------------------------------------------- what comes out


def test_searchlight_is_the_function(inside, tmp_path, capsys):
    open_before = plt.get_fignums()
    options = [
        *("--label-column", "label", "--drop", "rest", "--groups", "run"),
        *("--mask-img", "mask.nii.gz", "--process-mask-img", "centres.nii.gz"),
        *("--radius", 3.5, "--kernel", "rbf", "--reg", 0.7, "--cv", 3),
        *("--scoring", "roc_auc", "accuracy", "--standardize", "False"),
        *(
            "--n-permutations",
            40,
            "--correction",
            "fdr",
            "--null",
            "max",
            "--random-state",
            4,
        ),
        *("--n-jobs", 1, "--dtype", "float32"),
    ]
    files = run(tmp_path / "new" / "out", BOLD, *options)
    printed = capsys.readouterr()
    (line,) = printed.err.splitlines()
    assert line.startswith("mvpa-kfda: warning: cv=3 makes folds")
    assert plt.get_fignums() == open_before
    with pytest.warns(UserWarning, match="cv=3 makes folds"):
        expected = searchlight(
            kept_bold(inside),
            Y,
            groups=RUNS[KEEP],
            mask_img="mask.nii.gz",
            process_mask_img="centres.nii.gz",
            radius=3.5,
            standardize=False,
            kernel="rbf",
            reg=0.7,
            cv=3,
            scoring=["roc_auc", "accuracy"],
            n_permutations=40,
            null="max",
            random_state=4,
            dtype="float32",
        )
    assert expected.shape == (99,)
    assert load_result(files[".h5"]) == expected
    assert set(files) == {e.replace("max", "fdr") for e in ENDINGS}
    table = pd.read_csv(files[".csv"])
    assert list(table.columns) == (
        ["x", "y", "z", "n_features", "roc_auc", "accuracy", "p", "p_fdr"]
    )
    assert_allclose(table["p_fdr"], expected.pvalues("fdr"), rtol=1e-12, atol=0)
    assert "correction 'fdr'" in printed.out
    assert "Found: highest ROC AUC " in printed.out


def test_maps_tables_and_report_say_the_same(inside, tmp_path, capsys):
    options = ["--groups", "run", "--reg", 0.3, "--n-permutations", 99]
    files = run(tmp_path, BOLD, *SHORT, *options)
    printed = capsys.readouterr().out
    given = {"groups": RUNS[KEEP], "reg": 0.3, "n_permutations": 99}
    result = expected_searchlight(inside, **given)
    assert load_result(files[".h5"]) == result
    assert set(files) == set(ENDINGS)
    assert all(path.name.startswith("bold_searchlight") for path in files.values())
    p, p_max = result.pvalues(), result.pvalues("max")
    for ending, values in {
        "_scores": result.scores,
        "_p": p,
        "_p_max": p_max,
        "_neglog10p_max": -np.log10(p_max),
        "_z": norm.isf(np.minimum(p, 0.99)),
    }.items():
        image = nibabel.load(files[f"{ending}.nii.gz"])
        assert_array_equal(image.affine, AFFINE)
        assert_allclose(apply_mask(image, "mask.nii.gz"), values, rtol=1e-6, atol=1e-9)
    peaks = pd.read_csv(files["_peaks.csv"])
    assert peaks["cluster_size_mm3"][0] == 7 * 27  # the spheres with the one voxel
    assert_allclose(peaks["score"], result.peaks()["score"], rtol=1e-12, atol=0)
    assert files[".png"].read_bytes().startswith(b"\x89PNG")
    assert "Decoded bold.nii.gz: 28 of 32 volumes, 4 groups, 4 folds\n" in printed
    assert "2 classes: face 16, house 12\n" in printed
    assert "125 voxels; 6 voxels per sphere (median; 4 to 7)\n" in printed
    best = result.scores.argmax()
    at = "x, y, z = {:g}, {:g}, {:g} mm".format(*result.coordinates[best])
    found = f"{result.scores[best]:.3f} at {at} (chance {result.chance:.3f})"
    assert f"Found: highest accuracy {found}\n" in printed
    assert "Test: significant at 7 of 125 voxels (p ≤ 0.05, max-" in printed
    assert re.search(r" 0\.0100 +0\.0100 +1 +189\n", printed)
    for ending in ENDINGS:
        assert f"  bold_searchlight{ending} " in printed
    assert "Took " in printed


def test_regions_are_scored_by_name(inside, tmp_path, capsys):
    command = ["regions", *BOLD[1:], "--drop", "rest", "--groups", "run"]
    options = ["--labels-img", "atlas.nii.gz", "--lut", "names.tsv"]
    files = run(tmp_path, command, *options, "--n-permutations", 30)
    printed = capsys.readouterr().out
    result = decode_regions(
        kept_bold(inside),
        Y,
        labels_img="atlas.nii.gz",
        lut="names.tsv",
        groups=RUNS[KEEP],
        n_permutations=30,
        random_state=0,
    )
    assert load_result(files[".h5"]) == result
    patterns = {name: f"_pattern_{name}.nii.gz" for name in ("face", "house")}
    assert set(files) == {*ENDINGS, "_map.png", "_patterns.png", *patterns.values()}
    for name, ending in patterns.items():
        image = nibabel.load(files[ending])
        assert_array_equal(image.get_fdata(), result.patterns()[name].get_fdata())
    assert pd.read_csv(files[".csv"])["region"].tolist() == ["V1 left", "FFA"]
    assert pd.read_csv(files["_peaks.csv"])["region"].tolist() == ["V1 left"]
    assert "2 regions; 34 voxels per region (median; 18 to 50)\n" in printed
    assert f"{result.scores[0]:.3f} in region V1 left (chance 0.500)" in printed
    assert "Test: significant at 1 of 2 regions (p ≤ 0.05, max-" in printed
    table = printed.split("permutations\n")[1].splitlines()
    assert table[0].split()[0] == "region"
    assert table[1].split()[:3] == ["V1", "left", "-1.5"]


def test_without_an_atlas_the_mask_is_one_region(inside, tmp_path, no_figures, capsys):
    table = pd.read_csv("labels.tsv", sep="\t")
    # What no name of a file can hold, twice the same otherwise.
    table["label"] = table["label"].replace({"face": "a/b", "house": "a b"})
    table.to_csv(tmp_path / "labels.tsv", sep="\t", index=False)
    command = ["regions", "bold.nii.gz", "--labels", str(tmp_path / "labels.tsv")]
    command += ["--drop", "rest", "--groups", "run", "--mask-img", "mask.nii.gz"]
    files = run(tmp_path / "out", command)
    result = load_result(files[".h5"])
    assert pd.read_csv(files[".csv"])["region"].tolist() == ["whole mask"]
    assert "in region whole mask" in capsys.readouterr().out
    for name, number in (("a b", "a-b"), ("a/b", "1")):
        image = nibabel.load(files[f"_pattern_{number}.nii.gz"])
        assert_array_equal(image.get_fdata(), result.patterns()[name].get_fdata())


@pytest.mark.some(2)
@pytest.mark.parametrize("groups", ["run", None])
@pytest.mark.parametrize("command", ["searchlight", "regions"])
def test_train_on_is_a_query_on_labels(inside, tmp_path, no_figures, command, groups):
    table = pd.read_csv("labels.tsv", sep="\t").assign(odd=np.arange(32) % 2)
    table.to_csv(tmp_path / "labels.tsv", sep="\t", index=False)
    words = [command, "bold.nii.gz", "--labels", str(tmp_path / "labels.tsv")]
    words += ["--drop", "rest", "--train-on", "odd == 1", "--mask-img", "mask.nii.gz"]
    options = {"groups": groups, "n_permutations": 2, "random_state": 0}
    if groups:
        words += ["--groups", groups]
    if command == "regions":
        words += ["--labels-img", "atlas.nii.gz"]
        decode, options["labels_img"] = decode_regions, "atlas.nii.gz"
    else:
        words += ["--radius", "3"]
        decode, options["radius"] = searchlight, 3.0
    files = run(tmp_path / "out", words, "--n-permutations", 2)
    assert files[".h5"].name == f"bold_{command}_train_on.h5"
    expected = decode(
        kept_bold(inside),
        (table[KEEP], "label"),
        mask_img="mask.nii.gz",
        train_on="odd == 1",
        **options,
    )
    result = load_result(files[".h5"])
    assert result == expected
    assert len(result.folds) == (4 if groups else 1)


def test_mask_leaves_voxels_out_of_regions(inside, tmp_path, no_figures):
    command = ["regions", *BOLD[1:], "--drop", "rest", "--labels-img", "atlas.nii.gz"]
    options = ["--mask-img", "centres.nii.gz", "--n-permutations", 0]
    result = load_result(run(tmp_path, command, *options)[".h5"])
    assert result.n_features.tolist() == [18, 49]  # regions 3 and 7


@pytest.mark.parametrize(
    "labels", [["labels.tsv"], ["first.csv", "second.csv"]], ids=["one", "each"]
)
def test_several_images_are_joined(inside, tmp_path, capsys, no_figures, labels):
    command = ["searchlight", "first.nii.gz", "second.nii", "--labels", *labels]
    files = run(
        tmp_path, [*command, "--n-permutations", "2"], *SHORT, *FEW, "--groups", "file"
    )
    groups = 1 + (RUNS[KEEP] > 1)
    expected = expected_searchlight(
        inside, groups=groups, process_mask_img="few.nii.gz", n_permutations=2
    )
    assert load_result(files[".h5"]) == expected
    assert files[".h5"].name == "first_searchlight.h5"
    assert "first.nii.gz and 1 more: 28 of 32 volumes" in capsys.readouterr().out


def test_image_of_which_nothing_is_left(inside, tmp_path, no_figures):
    table = pd.read_csv("labels.tsv", sep="\t")
    table["label"] = table["label"].where(RUNS < 2, "other")
    table.to_csv(tmp_path / "labels.csv", index=False)
    command = ["searchlight", "first.nii.gz", "second.nii", *SHORT]
    options = ["--drop", "other", "--labels", tmp_path / "labels.csv", "--cv", 3]
    files = run(tmp_path / "out", command, *options, "--n-permutations", 0)
    assert len(load_result(files[".h5"]).y) == KEEP[:8].sum()


def test_without_permutations_there_are_maps_of_scores_only(inside, tmp_path, capsys):
    files = run(tmp_path, BOLD, *SHORT, "--n-permutations", 0)
    assert set(files) == {".h5", ".csv", ".png", "_scores.nii.gz"}
    assert list(pd.read_csv(files[".csv"]).columns) == (
        ["x", "y", "z", "n_features", "accuracy"]
    )
    printed = capsys.readouterr().out
    assert "chance 0.5" in printed
    assert "Test:" not in printed


def test_without_correction_the_maps_have_no_second_name(inside, tmp_path, no_figures):
    options = ["--n-permutations", 19, "--correction", "none"]
    files = run(tmp_path, BOLD, *SHORT, *options)
    assert set(files) == {
        *(".h5", ".csv", "_peaks.csv", "_scores.nii.gz", "_p.nii.gz"),
        *("_neglog10p.nii.gz", "_z.nii.gz"),
    }


@pytest.mark.parametrize("correction", ["cluster", "tfce"])
def test_clusters_keep_what_they_need(
    inside, tmp_path, monkeypatch, no_figures, correction
):
    few = [*SHORT, *FEW, "--n-permutations", 19]
    p, kept = {}, []
    # 18 centres, 19 permutations and 4 bytes
    for limit in (18 * 19 * 4, 18 * 19 * 4 - 1):
        monkeypatch.setattr("mvpa_kfda.decoding.run.FULL_NULL_BYTES", limit)
        files = run(tmp_path / "out", BOLD, *few, "--correction", correction)
        result = load_result(files[".h5"])
        kept.append(result.parameters["null"])
        p[kept[-1]] = result.pvalues(correction)
    assert kept == ["full", "stream"]
    assert_array_equal(p["full"], p["stream"])
    result = load_result(run(tmp_path / "out", BOLD, *few)[".h5"])
    assert result.parameters["null"] == "stream"


def test_regions_keep_all_permutations(inside, tmp_path, no_figures):
    command = ["regions", *BOLD[1:], "--drop", "rest", "--labels-img", "atlas.nii.gz"]
    options = ["--correction", "cluster", "--n-permutations", 9]
    result = load_result(run(tmp_path, command, *options)[".h5"])
    assert result.null.shape == (9, 2)


def test_nothing_significant_is_said(inside, tmp_path, capsys, no_figures):
    options = ["--process-mask-img", tmp_path / "far.nii.gz", "--n-permutations"]
    far = np.zeros((5, 5, 5), np.uint8)
    far[:, 0] = 1
    on_disk(tmp_path / "far.nii.gz", far)
    run(tmp_path / "a", BOLD, *SHORT, *options, 29)
    printed = capsys.readouterr().out
    assert "Test: significant at none of 25 voxels (p ≤ 0.05, max-" in printed
    peaks = pd.read_csv(tmp_path / "a" / "bold_searchlight_peaks.csv")
    assert len(peaks) == 0
    assert list(peaks.columns)[:4] == ["x", "y", "z", "score"]
    run(tmp_path / "b", BOLD, *SHORT, *options, 10)
    assert "too few permutations to reach this level" in capsys.readouterr().out


def test_only_the_first_peaks_are_printed(inside, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(output, "MOST_PEAKS", 1)
    monkeypatch.setattr(output, "_figures", lambda *_: ())
    options = ["--n-permutations", 99, "--correction", "none"]
    files = run(tmp_path, BOLD, *SHORT, *options)
    n = len(pd.read_csv(files["_peaks.csv"]))
    assert n > 1
    printed = capsys.readouterr().out
    heading = f"The first 1 of {n} in bold_searchlight_peaks.csv:\n"
    after = printed.split(heading)[1].split("Wrote to ")[0]
    assert len(after.splitlines()) == 2  # names of columns, one peak


def test_missing_labels_and_numbers_as_labels(inside, tmp_path, capsys, no_figures):
    command = [
        "searchlight",
        "bold.nii.gz",
        "--mask-img",
        "mask.nii.gz",
        "--radius",
        "3",
    ]
    options = ["--labels", "gaps.tsv", "--drop", "n/a", "--groups", "run"]
    run(tmp_path, command, *options, "--n-permutations", 0)
    result = load_result(tmp_path / "bold_searchlight.h5")
    assert result == expected_searchlight(inside, groups=RUNS[KEEP].astype(float))
    options = ["--labels", "holes.tsv", "--label-column", "code", "--drop", "n/a"]
    run(tmp_path, command, *options, "--n-permutations", 0)
    assert "2 classes: 1 16, 2 12\n" in capsys.readouterr().out


def test_glass_brain_of_what_lies_in_one(tmp_path, monkeypatch):
    drawn = []

    def note(path, plot, *, kind, **_):
        drawn.append((path.name, kind))

    monkeypatch.setattr(output, "save_figure", note)
    rng, y = np.random.default_rng(0), np.tile([0, 1], 6)
    for shape in ((3, 3, 3), (3, 3, 1)):
        affine = np.diag([6.0, 6.0, 6.0, 1.0])
        for origin in (0.0, 300.0):  # in the middle of the brain, and out of it
            affine[:3, 3] = origin
            img = Nifti1Image(rng.normal(size=(*shape, 12)), affine)
            mask = Nifti1Image(np.ones(shape, np.uint8), affine)
            result = searchlight(img, y, mask_img=mask, cv=3)
            written = {}
            for ending, words, write in output._figures(result, "none", 0.05):
                write(tmp_path / f"x{ending}")
                written[ending] = words
            assert set(written) == {name.removeprefix("x") for name, _ in drawn}
            glass = ("x_glass.png", "glass_brain") in drawn
            assert glass == (origin == 0 and shape[2] > 1)
            assert ("x.png", "stat_map") in drawn
            drawn.clear()


# ------------------------------------------------------------------- means of blocks

#: Rows are: label, run, image. Rest parts two blocks of one label, as runs do.
BLOCKS = [
    *[("face", 1, 1)] * 3,
    *[("house", 1, 1)] * 2,
    *[("house", 2, 1)] * 2,
    *[("rest", 2, 1), ("house", 2, 1), ("face", 2, 1), ("face", 2, 1)],
    *[("face", 2, 2), ("house", 2, 2), ("house", 2, 2), ("rest", 2, 2)],
    *[("face", 3, 2)] * 3,
    *[("house", 3, 2), ("face", 4, 2), ("house", 4, 2)],
]
#: Where each block begins, and one past its end.
SPANS = [
    *((0, 3), (3, 5), (5, 7), (8, 9), (9, 11), (11, 12), (12, 14), (15, 18)),
    *((18, 19), (19, 20), (20, 21)),
]


def write_blocks(folder):
    """Write two images of blocks and their table; return the data and the table."""
    # Sums of three of these are beyond the type that they are written in.
    data = np.random.default_rng(1).integers(20000, 32000, size=(5, 5, 5, 21))
    data[2, 2, 2] -= 9000 * np.array([row[0] == "face" for row in BLOCKS])
    on_disk(folder / "a.nii.gz", data[..., :11].astype(np.int16))
    on_disk(folder / "b.nii.gz", data[..., 11:].astype(np.int16))
    table = pd.DataFrame(BLOCKS, columns=["label", "run", "image"])
    table.to_csv(folder / "blocks.tsv", sep="\t", index=False)
    return data, table


@pytest.mark.parametrize("groups", ["run", "file", None])
def test_means_of_blocks_are_decoded(inside, tmp_path, capsys, no_figures, groups):
    data, table = write_blocks(tmp_path)
    spans = SPANS
    if groups != "run":  # then runs do not part blocks
        spans = [*SPANS[:1], (3, 7), *SPANS[3:]]
    means = np.stack([data[..., a:b].sum(axis=3) / (b - a) for a, b in spans], axis=3)
    kept = table.iloc[[a for a, _ in spans]]
    of_block = {"run": kept["run"], "file": kept["image"], None: None}[groups]
    options = {"mask_img": "mask.nii.gz", "radius": 3.0, "random_state": 0}
    options["process_mask_img"] = "few.nii.gz"
    if groups is None:
        options["cv"] = 2
    expected = searchlight(
        Nifti1Image(means, AFFINE), kept["label"], groups=of_block, **options
    )
    command = [
        *("searchlight", tmp_path / "a.nii.gz", tmp_path / "b.nii.gz"),
        *("--labels", tmp_path / "blocks.tsv", "--average-blocks"),
        *(("--groups", groups) if groups else ("--cv", 2)),
    ]
    files = run(
        tmp_path / "out", map(str, command), *SHORT, *FEW, "--n-permutations", 0
    )
    assert load_result(files[".h5"]) == expected
    check = ["verify", files[".h5"], *command[1:6], *SHORT[:4], "--n-cells", 2]
    assert main(list(map(str, [*check, *FEW]))) == 0
    assert main(list(map(str, check))) == 1  # 18 positions of a mask that is not given
    said = capsys.readouterr().out
    assert f": 19 of 21 volumes; 19 volumes averaged to {len(spans)} blocks" in said
    assert "as they were for the result" in said
    assert "--mask-img" in said


def test_confounds_are_averaged_within_blocks(inside, tmp_path, capsys, no_figures):
    data, table = write_blocks(tmp_path)
    table["motion"] = np.random.default_rng(3).normal(size=len(table))
    table["scanner"] = np.where(table["image"] == 1, "old", "new")
    table["odd"] = np.where(np.arange(len(table)) % 2, "yes", "no")
    table.to_csv(tmp_path / "blocks.tsv", sep="\t", index=False)
    kept = table.iloc[[a for a, _ in SPANS]].copy()
    kept["motion"] = [table["motion"][a:b].mean() for a, b in SPANS]
    means = [data[..., a:b].sum(axis=3) / (b - a) for a, b in SPANS]
    expected = searchlight(
        Nifti1Image(np.stack(means, axis=3), AFFINE),
        (kept, "label"),
        groups="run",
        confounds=["motion", "scanner"],
        mask_img="mask.nii.gz",
        radius=3.0,
        random_state=0,
    )
    command = [
        *("searchlight", str(tmp_path / "a.nii.gz"), str(tmp_path / "b.nii.gz")),
        *("--labels", str(tmp_path / "blocks.tsv"), "--average-blocks"),
        *("--groups", "run", "--n-permutations", "0", *SHORT, "--confounds"),
    ]
    files = run(tmp_path / "out", command, "motion", "scanner")
    result = load_result(files[".h5"])
    assert result.parameters["n_confounds"] == 2
    assert_array_equal(result.scores, expected.scores)
    assert_allclose(result.lambdas, expected.lambdas, rtol=1e-9, atol=0)
    capsys.readouterr()
    assert main([*command, "motion", "odd", "--out", str(tmp_path / "other")]) == 2
    assert "'odd' of --confounds has several values" in capsys.readouterr().err


def test_no_block_is_both_trained_with_and_tested(inside, tmp_path, capsys, no_figures):
    _, table = write_blocks(tmp_path)
    table["odd"] = np.arange(len(table)) % 2
    table.to_csv(tmp_path / "blocks.tsv", sep="\t", index=False)
    command = ["searchlight", str(tmp_path / "a.nii.gz"), str(tmp_path / "b.nii.gz")]
    command += ["--labels", str(tmp_path / "blocks.tsv"), "--average-blocks", *SHORT]
    options = ["--train-on", "odd == 1", "--n-permutations", 0]
    result = load_result(run(tmp_path / "out", command, *options)[".h5"])
    said = "19 volumes averaged to 19 blocks"
    assert said in capsys.readouterr().out
    (train, test), kept = result.folds[0], table[table["label"] != "rest"]
    assert_array_equal(kept["odd"].to_numpy()[train], 1)
    assert_array_equal(kept["odd"].to_numpy()[test], 0)


def test_single_images_are_averaged_alone(inside, tmp_path, capsys, no_figures):
    rng, paths = np.random.default_rng(2), []
    for number in range(6):
        paths.append(str(tmp_path / f"{number}.nii"))
        on_disk(tmp_path / f"{number}.nii", rng.normal(size=(5, 5, 5)))
    pd.DataFrame({"label": [1, 1, 1, 2, 2, 2]}).to_csv(tmp_path / "t.csv")
    options = ["--labels", tmp_path / "t.csv", "--mask-img", "mask.nii.gz", "--cv", 3]
    options += ["--radius", 3, "--n-permutations", 0, "--average-blocks"]
    run(tmp_path / "out", ["searchlight", *paths], *options)
    said = "0.nii and 5 more: 6 volumes averaged to 6 blocks, 3 folds\n"
    assert said in capsys.readouterr().out


def test_labels_that_last_are_warned_of(inside, tmp_path, capsys, no_figures):
    labels = np.repeat(["face", "house"] * 4, 8)
    pd.DataFrame({"label": labels}).to_csv(tmp_path / "t.csv")
    command = ["searchlight", *["bold.nii.gz"] * 2, "--labels", str(tmp_path / "t.csv")]
    options = ["--mask-img", "mask.nii.gz", "--radius", 3, "--n-permutations", 9]
    run(tmp_path / "a", command, *options)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("mvpa-kfda: warning: ")
    assert "decode the mean of each" in line
    run(tmp_path / "b", command, *options, "--average-blocks", "--cv", 2)
    assert "simulated recordings" not in capsys.readouterr().err


# --------------------------------------------------------------- what the report says


def test_unequal_classes_are_said(inside, tmp_path, capsys, no_figures):
    options = ["--mask-img", "mask.nii.gz", "--radius", 3, "--cv", 2, *FEW]
    for null, scoring in (("full", "accuracy"), ("max", "accuracy"), ("full", "kappa")):
        how = "--n-permutations", 4, "--null", null, "--scoring", scoring
        run(tmp_path, BOLD, *options, *how)
        printed = capsys.readouterr()
        assert ("always guessing" in printed.err) == (scoring == "accuracy")
        if scoring == "accuracy":
            assert "has 16 trials" in printed.err
            assert "Use scoring='balanced_accuracy'" in printed.err
    run(tmp_path, BOLD, *options, "--drop", "rest", "--n-permutations", 0)
    assert "always guessing" not in capsys.readouterr().err  # 16 and 12


def test_clusters_form_at_another_level(inside, tmp_path, capsys, monkeypatch):
    drawn = []
    monkeypatch.setattr(
        output,
        "save_figure",
        lambda path, plot, **_: drawn.append(plot.__self__.pvalues("cluster")),
    )
    monkeypatch.setattr("mvpa_kfda.decoding.run.FULL_NULL_BYTES", 0)
    options = ["--n-permutations", 99, "--correction", "cluster", "--groups", "run"]
    files = run(tmp_path, BOLD, *SHORT, *options, "--threshold", 0.01)
    result = load_result(files[".h5"])
    assert result.parameters["null"] == "full"
    p = result.pvalues("cluster", threshold=0.01)
    assert (p != result.pvalues("cluster")).any()
    table, peaks = pd.read_csv(files[".csv"]), pd.read_csv(files["_peaks.csv"])
    assert_allclose(table["p_cluster"], p, rtol=1e-12, atol=0)
    values = apply_mask(nibabel.load(files["_p_cluster.nii.gz"]), "mask.nii.gz")
    assert_allclose(values, p, rtol=1e-6, atol=0)
    assert_array_equal(drawn, [p])
    n = np.count_nonzero(p <= 0.05)
    assert n > 0
    assert peaks["cluster_size_mm3"].tolist() == [n * 27]
    said = f"Test: significant clusters cover {n} of 125 voxels (p ≤ 0.05, cluster"
    printed = capsys.readouterr().out
    assert said in printed
    assert "clusters formed at p ≤ 0.01; smallest p = 0.010)" in printed


def test_what_a_correction_lacks_is_said(inside, tmp_path, capsys, no_figures):
    options = ["--groups", "run", "--n-permutations", 19, "--correction"]
    run(tmp_path, BOLD, *SHORT, *options, "fdr")
    said = capsys.readouterr().out
    assert "Test: significant at none of 125 voxels (p ≤ 0.05, FDR correction" in said
    run(tmp_path, BOLD, *SHORT, *options, "bonferroni")
    assert "too few permutations to reach this level" in capsys.readouterr().out


def test_reader_who_goes_away_spoils_no_file(inside, tmp_path, monkeypatch):
    def close(*args, **kwargs):
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr("builtins.print", close)
    with pytest.raises(BrokenPipeError, match="Broken pipe"):
        main([*BOLD, *SHORT, "--n-permutations", "19", "--out", str(tmp_path)])
    names = {path.name.removeprefix("bold_searchlight") for path in tmp_path.iterdir()}
    assert names == set(ENDINGS)


# ------------------------------------------------------------------- what goes wrong


def test_warnings_are_lines_without_places_in_programs(
    inside, tmp_path, capsys, no_figures
):
    command = ["searchlight", "dead.nii.gz", *BOLD[2:], *SHORT]
    run(tmp_path, command, "--n-permutations", 0)
    printed = capsys.readouterr()
    (line,) = printed.err.splitlines()
    assert line.startswith("mvpa-kfda: warning: 1 of 125 voxels hold NaN or infinite")
    assert ".py" not in line
    assert "125 voxels, 1 of them not decoded; 6 voxels" in printed.out


JOINED = ["searchlight", "first.nii.gz", "second.nii"]
REGIONS = ["regions", "bold.nii.gz", "--labels", "labels.tsv"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["searchlight"], "required: IMAGES, --labels. Put files first, before"),
        (["searchlight", *BOLD[2:], "bold.nii.gz"], "required: IMAGES. Put files"),
        (["searchlight", "bold.nii.gz"], "required: --labels"),
        (["searchlight", "no.nii.gz", *BOLD[2:]], "no such file: no.nii.gz"),
        ([*BOLD[:3], "no.tsv"], "no such file: no.tsv"),
        ([*BOLD, "--mask-img", "no.nii"], "mask_img: 'no.nii' is no file"),
        ([*REGIONS, "--labels-img", "no.nii"], "'no.nii' is no file"),
        ([*REGIONS, "--lut", "names.tsv"], "lut is for the names of an atlas"),
        (["searchlight", "text.nii.gz", *BOLD[2:]], "'text.nii.gz' is no image"),
        (["searchlight", "labels.tsv", *BOLD[2:]], "'labels.tsv' is no image"),
        (["searchlight", ".", *BOLD[2:]], "is no file"),
        (["searchlight", "cut.nii.gz", *BOLD[2:]], "data of cut.nii.gz cannot be read"),
        (["searchlight", "cut.nii.gz", *BOLD[2:], *SHORT], "data of cut.nii.gz cannot"),
        (["searchlight", "single.nii.gz", *BOLD[2:]], "is a single image"),
        (["searchlight", "bold.nii.gz", "other.nii.gz", *BOLD[2:]], "on another grid"),
        ([*BOLD[:3], "labels.txt"], "--labels must be .* a file whose name ends in"),
        ([*BOLD[:3], "bold.nii.gz"], "The table of --labels must be"),
        ([*BOLD[:3], "first.csv"], "first.csv has 8 rows for the 32 volumes of bold"),
        ([*JOINED, "--labels", "first.csv"], "first.csv has 8 rows for the 32 volumes"),
        (
            [*JOINED[:2], "bold.nii.gz", "--labels", "first.csv", "second.csv"],
            "second.csv has 24 rows for the 32 volumes of bold.nii.gz. A table needs",
        ),
        ([*BOLD, "first.csv"], "2 tables for 1 images. Use one table for all"),
        ([*BOLD, "--label-column", "x"], "--label-column: 'x' is not .*'label', 'run'"),
        ([*BOLD, "--groups", "x"], "--groups: 'x' is not a .*'label', 'run', 'ch"),
        ([*BOLD, "--groups", "[1, 2]"], r"--groups: \[1, 2\] is not a column"),
        ([*BOLD, "--confounds", "run", "x"], "--confounds: 'x' is not a column of --"),
        ([*BOLD[:3], "holes.tsv", "--confounds", "code"], "'code' of --labels is empt"),
        ([*BOLD, "--train-on", "task == 1"], "train_on='task == 1' is no query on the"),
        ([*BOLD, "--drop", "Rest"], "no volume has .* 'Rest'.* 'face', 'house', 'rest"),
        ([*BOLD, "--drop", "face", "house", "rest"], "--drop leaves no volume"),
        ([*BOLD, "--drop", "face", "house"], "class"),
        ([*BOLD[:3], "gaps.tsv"], r"'label' .* empty for 4 volumes \(first: volume 3"),
        ([*BOLD[:3], "holes.tsv", "--groups", "run"], r"'run' of --labels is empty fo"),
        ([*BOLD, "--mask-img", "other.nii.gz"], "mask_img is on another grid"),
        ([*BOLD, "--radius", "wide"], "Invalid value for 'radius': 'wide'"),
        (
            [*REGIONS, "--radius", "3", "--labels-img", "atlas.nii.gz"],
            "unrecognized .*--rad",
        ),
        ([*BOLD, "--standardize", "psc"], "'standardize': 'psc'.*zscore_sample"),
        ([*BOLD, "--correction", "all"], "invalid choice: 'all'.*tfce"),
        ([*BOLD, "--null", "stream"], "Invalid value for 'null': 'stream'.*auto.*full"),
        (
            [*BOLD, "--null", "max", "--correction", "tfce"],
            "tfce needs .*--null full",
        ),
        (
            [*BOLD, "--correction", "cluster-depth"],
            "cluster-depth is for time courses, and images have positions in space",
        ),
        (
            [*BOLD, "--threshold", "1", "--correction", "cluster"],
            "--threshold 1 is not a p-level. Use a number between 0 and 1",
        ),
        ([*BOLD, "--threshold", ".01"], "is for clusters. Add --correction"),
        ([*BOLD, *SHORT, "--random-state", "-3"], "-3"),
        ([*BOLD, "--out", "names.tsv/new"], "names.tsv is a file, not a folder"),
        ([*BOLD, "--out", "names.tsv"], "--out names.tsv: names.tsv is a file, not a"),
    ],
)
def test_errors_are_one_line_and_status_two(
    inside, tmp_path, capsys, arguments, message
):
    before = sorted(path.name for path in inside.iterdir())
    if "--out" not in arguments:
        arguments = [*arguments, "--out", str(tmp_path)]
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    (line,) = printed.err.splitlines()
    assert line.startswith("mvpa-kfda: error: ")
    assert re.search(message, line)
    assert sorted(path.name for path in inside.iterdir()) == before
    assert list(tmp_path.iterdir()) == []  # no checkpoint of a run that never began


@pytest.mark.parametrize("command", ["searchlight", "regions", "betas"])
def test_commands_read_no_gifti_files(inside, tmp_path, capsys, command):
    files = [tmp_path / f"hemi-{part}.func.gii" for part in "LR"]
    for file in files:
        file.touch()
    table = "--events" if command == "betas" else "--labels"
    given = [command, *files, table, "labels.tsv", "--out", tmp_path / "out"]
    assert main([*map(str, given)]) == 2
    said = capsys.readouterr().err
    assert "Commands decode volumes (.nii.gz) and CIFTI files; surface images" in said
    assert "imgs" not in said


def test_output_folder_is_tried_before_anything_is_computed(inside, monkeypatch):
    def fail(*args, **kwargs):
        raise AssertionError("computed although the output cannot be written")

    monkeypatch.setattr(mvpa_kfda, "searchlight", fail)
    assert main([*BOLD, "--out", "names.tsv"]) == 2


def test_folder_that_takes_no_files_is_named(inside, tmp_path, capsys, monkeypatch):
    def refuse(dir):
        raise PermissionError(13, "Permission denied", f"{dir}/tmp1")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    assert main([*BOLD, "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        f"mvpa-kfda: error: --out {tmp_path}: no files can be written into this folder "
        "(Permission denied). Change its permissions, or choose another folder.\n"
    )


CHOSEN = [*BOLD[:4], "--groups", "run", "--classes"]


@pytest.mark.parametrize(
    ("given", "classes"),
    [
        (["rest", "face"], ["rest", "face"]),
        (
            ["{'any': ['face', 'house'], 'none': 'rest'}"],
            {"any": ["face", "house"], "none": "rest"},
        ),
    ],
)
def test_classes_are_chosen_after_z_scores(
    inside, tmp_path, no_figures, given, classes
):
    options = {"mask_img": "mask.nii.gz", "radius": 3.0, "random_state": 0}
    options["process_mask_img"] = "few.nii.gz"
    command = [*CHOSEN, *given, "--mask-img", "mask.nii.gz", "--radius", "3", *FEW]
    files = run(tmp_path, command, "--n-permutations", 0)
    bold, table = nibabel.load("bold.nii.gz"), inside / "labels.tsv"
    expected = searchlight(
        bold, (table, "label"), groups="run", classes=classes, **options
    )
    result = load_result(files[".h5"])
    assert_allclose(result.scores, expected.scores, rtol=1e-12)
    assert result.parameters["n_images"] == 32


def test_classes_may_be_numbers(inside, tmp_path, no_figures):
    command = [
        *BOLD,
        "--label-column",
        "run",
        "--classes",
        "{'early': [1, 2], 'late': 4}",
    ]
    command += ["--cv", "4"]
    files = run(tmp_path, command, "--mask-img", "mask.nii.gz", "--n-permutations", 0)
    result = load_result(files[".h5"])
    assert result.classes.tolist() == ["early", "late"]
    assert result.parameters["classes"] == {"early": ["1", "2"], "late": ["4"]}


def test_unknown_classes_are_named(inside, tmp_path, capsys):
    assert main([*CHOSEN, "face", "horse", "--out", str(tmp_path)]) == 2
    message = capsys.readouterr().err
    assert "classes names 'horse', which is no label in y. The labels are: " in message


# --------------------------------------------------------------- stopped and continued

LONG = [*BOLD, *SHORT, "--groups", "run", "--n-permutations", "20"]


@pytest.fixture
def stop(monkeypatch):
    """Return a function that lets runs end after their first block, by an error."""
    save = Checkpoint.save

    def stop(error):
        def save_and_fail(self, number, arrays):
            save(self, number, arrays)
            raise error

        monkeypatch.setattr(Checkpoint, "save", save_and_fail)
        return lambda: monkeypatch.setattr(Checkpoint, "save", save)

    return stop


def test_stopped_run_is_continued(inside, tmp_path, capsys, stop, no_figures):
    let_go = stop(KeyboardInterrupt())
    command = [*LONG, "--out", str(tmp_path)]
    assert main(command) == 130
    printed = capsys.readouterr()
    assert printed.err == (
        "mvpa-kfda: stopped; run the same command with --resume to continue\n"
    )
    let_go()
    checkpoint = tmp_path / "bold_searchlight.checkpoint"
    assert [path.name for path in tmp_path.iterdir()] == [checkpoint.name]
    with Checkpoint(checkpoint) as kept:
        assert kept.finished == {0}
    assert main(command) == 2
    message = capsys.readouterr().err
    assert f"{checkpoint} is from an interrupted run. Add --re" in message
    for other, named in (
        (["--dtype", "float32"], "dtype was"),
        (["--confounds", "chunk"], "confounds"),
        (["--permute", "free"], "permute was"),
    ):
        assert main([*command, *other, "--resume"]) == 2
        message = capsys.readouterr().err
        assert "is the checkpoint of another run" in message
        assert named in message
        assert checkpoint.exists()
    assert main([*command, "--resume", "--n-jobs", "1"]) == 0
    assert f"Continuing {checkpoint}\n" in capsys.readouterr().out
    assert not checkpoint.exists()
    expected = expected_searchlight(inside, groups=RUNS[KEEP], n_permutations=20)
    assert load_result(tmp_path / "bold_searchlight.h5") == expected


@pytest.mark.parametrize("options", [[], ["--resume"]], ids=["anew", "resume"])
def test_checkpoint_without_parts_stops_nobody(
    inside, tmp_path, capsys, no_figures, options
):
    path = tmp_path / "bold_searchlight.checkpoint"
    with Checkpoint(path) as empty:
        empty.start({"radius": 1.0})
    assert main([*LONG, "--out", str(tmp_path), *options]) == 0
    assert not path.exists()
    assert "Continuing" not in capsys.readouterr().out


def test_resume_without_anything_begun(inside, tmp_path, capsys, no_figures):
    assert main([*LONG, "--out", str(tmp_path), "--resume"]) == 0
    there = tmp_path / "bold_searchlight.checkpoint"
    assert f"Starting, there is no {there}\n" in capsys.readouterr().out
    assert not there.exists()


def test_error_says_that_the_run_can_be_continued(
    inside, tmp_path, capsys, stop, no_figures
):
    let_go = stop(OSError("no space left"))
    command = [*LONG, "--out", str(tmp_path)]
    assert main(command) == 2
    assert capsys.readouterr().err == (
        "mvpa-kfda: error: no space left (Run the same command with --resume "
        "to continue.)\n"
    )
    let_go()
    assert main([*command, "--resume"]) == 0


def test_output_that_fails_leaves_the_checkpoint(
    inside, tmp_path, capsys, monkeypatch, no_figures
):
    def fail(*args):
        raise ValueError("nothing to draw on")

    command = [*LONG, "--out", str(tmp_path)]
    with monkeypatch.context() as patch:
        patch.setattr(output, "_maps", fail)
        assert main(command) == 2
    assert (tmp_path / "bold_searchlight.checkpoint").exists()
    assert main([*command, "--resume"]) == 0


def test_foreign_checkpoint_is_left_alone(inside, tmp_path, capsys):
    path = tmp_path / "bold_searchlight.checkpoint"
    path.write_text("mine")
    assert main([*LONG, "--out", str(tmp_path), "--resume"]) == 2
    assert "is not a checkpoint; it is left as it is" in capsys.readouterr().err
    assert path.read_text() == "mine"


def test_checkpoint_in_use_is_left_alone(inside, tmp_path, capsys):
    path = tmp_path / "bold_searchlight.checkpoint"
    with Checkpoint(path):
        assert main([*LONG, "--out", str(tmp_path), "--resume"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "is in use by another run. Wait until it ends" in line
    assert path.exists()


@pytest.mark.usefixtures("heard")
@pytest.mark.parametrize(
    ("name", "status"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)]
)
def test_signals_stop_a_run_that_continues(
    inside, tmp_path, capsys, monkeypatch, name, status
):
    if not hasattr(signal, name):
        pytest.skip("not on Windows")
    save = Checkpoint.save

    def save_and_signal(self, number, arrays):
        save(self, number, arrays)
        signal.raise_signal(getattr(signal, name))

    # Processes that a shell starts in its background ignore the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.setattr(Checkpoint, "save", save_and_signal)
    try:
        assert main([*LONG, "--out", str(tmp_path)]) == status
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err == (
        "mvpa-kfda: stopped; run the same command with --resume to continue\n"
    )
    (path,) = tmp_path.iterdir()
    assert path.name == "bold_searchlight.checkpoint"  # closed: no log beside it


def test_lost_workers_say_how_to_go_on_in_a_shell(inside, tmp_path, capsys, stop):
    stop(WorkersLostError("A worker was killed. Use fewer workers (n_jobs)."))
    assert main([*LONG, "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        "mvpa-kfda: error: A worker was killed. Use fewer workers (n_jobs). (Run the "
        "same command with --resume to continue.)\n"
    )


def test_stop_before_anything_is_finished(inside, tmp_path, capsys, monkeypatch):
    def stop(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("mvpa_kfda.decoding.analysis.run", stop)
    assert main([*LONG, "--out", str(tmp_path)]) == 130
    assert capsys.readouterr().err == "mvpa-kfda: stopped\n"
    assert list(tmp_path.iterdir()) == []
