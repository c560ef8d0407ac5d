"""What commands write and print: maps, tables and figures that say the same."""

import re

import nibabel
import numpy as np
import pandas as pd
import pytest
from nibabel import Nifti1Image
from nilearn.masking import apply_mask
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

from mvpa_kfda import decode_regions, load_result, searchlight
from mvpa_kfda.cli import output
from tests import build
from tests.commands import (
    AFFINE,
    BOLD,
    FEW,
    KEEP,
    RUNS,
    SHORT,
    Y,
    call,
    expected_searchlight,
    kept_bold,
    on_disk,
    run,
)

#: What a searchlight with permutations and correction "max" writes.
ENDINGS = [
    *(".h5", ".csv", "_peaks.csv", ".png", "_scores.nii.gz", "_p.nii.gz"),
    *("_p_max.nii.gz", "_neglog10p_max.nii.gz", "_z.nii.gz"),
]
REGIONS = "regions bold.nii.gz --labels labels.tsv --drop rest --groups run"


def test_maps_tables_and_report_say_the_same(inside, tmp_path, capsys):
    files = run(tmp_path, f"{BOLD} {SHORT} --groups run --reg 0.3 --n-permutations 99")
    printed = capsys.readouterr().out
    result = expected_searchlight(groups=RUNS[KEEP], reg=0.3, n_permutations=99)
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
    at = "x, y, z = {:g}, {:g}, {:g} mm".format(
        *result.coordinates[result.scores.argmax()]
    )
    found = f"{result.scores.max():.3f} at {at} (chance {result.chance:.3f})"
    assert f"Found: highest accuracy {found}\n" in printed
    assert "Test: significant at 7 of 125 voxels (p ≤ 0.05, max-" in printed
    assert re.search(r" 0\.0100 +0\.0100 +1 +189\n", printed)
    for ending in ENDINGS:
        assert f"  bold_searchlight{ending} " in printed


def test_regions_are_scored_by_name(inside, tmp_path, capsys):
    words = f"{REGIONS} --labels-img atlas.nii.gz --lut names.tsv --n-permutations 30"
    files = run(tmp_path, words)
    printed = capsys.readouterr().out
    options = {"groups": RUNS[KEEP], "n_permutations": 30, "random_state": 0}
    options |= {"labels_img": "atlas.nii.gz", "lut": "names.tsv"}
    result = decode_regions(kept_bold(), Y, **options)
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
    assert "Test: significant in 1 of 2 regions (p ≤ 0.05, max-" in printed
    table = printed.split("permutations\n")[1].splitlines()
    assert table[0].split()[0] == "region"
    assert table[1].split()[:3] == ["V1", "left", "-1.5"]


def test_without_an_atlas_the_mask_is_one_region(inside, tmp_path, no_figures, capsys):
    table = pd.read_csv("labels.tsv", sep="\t")
    # What no name of a file can hold, twice the same otherwise.
    table["label"] = table["label"].replace({"face": "a/b", "house": "a b"})
    table.to_csv(tmp_path / "labels.tsv", sep="\t", index=False)
    words = REGIONS.replace("labels.tsv", str(tmp_path / "labels.tsv"))
    files = run(tmp_path / "out", f"{words} --mask-img mask.nii.gz")
    result = load_result(files[".h5"])
    assert pd.read_csv(files[".csv"])["region"].tolist() == ["whole mask"]
    assert "in region whole mask" in capsys.readouterr().out
    for name, number in (("a b", "a-b"), ("a/b", "1")):
        image = nibabel.load(files[f"_pattern_{number}.nii.gz"])
        assert_array_equal(image.get_fdata(), result.patterns()[name].get_fdata())


def test_what_was_not_tested_has_no_p_values(inside, tmp_path, capsys, undrawn):
    files = run(tmp_path / "0", f"{BOLD} {SHORT} --n-permutations 0")
    assert set(files) == {".h5", ".csv", ".png", "_scores.nii.gz"}
    columns = ["x", "y", "z", "n_features", "accuracy"]
    assert list(pd.read_csv(files[".csv"]).columns) == columns
    printed = capsys.readouterr().out
    assert "chance 0.5" in printed
    files = run(tmp_path / "1", f"{BOLD} {SHORT} --n-permutations 19 --correction none")
    assert set(files) == {
        *(".h5", ".csv", ".png", "_peaks.csv", "_scores.nii.gz", "_p.nii.gz"),
        *("_neglog10p.nii.gz", "_z.nii.gz"),
    }
    capsys.readouterr()
    files = run(tmp_path / "2", "epochs words-epo.fif --step 0.2 --n-permutations 0")
    assert list(pd.read_csv(files[".csv"]).columns) == ["time", "accuracy"]
    printed += capsys.readouterr().out
    assert "chance 0.333" in printed
    assert "Test:" not in printed


def test_what_is_not_significant_is_said(inside, tmp_path, capsys, no_figures):
    far = np.zeros((5, 5, 5), np.uint8)
    far[:, 0] = 1
    on_disk(tmp_path / "far.nii.gz", far)
    words = f"{BOLD} {SHORT} --process-mask-img {tmp_path}/far.nii.gz"
    files = run(tmp_path / "29", f"{words} --n-permutations 29")
    assert "significant at none of 25 voxels (p ≤ 0.05, max-" in capsys.readouterr().out
    peaks = pd.read_csv(files["_peaks.csv"])
    assert len(peaks) == 0
    assert list(peaks.columns)[:4] == ["x", "y", "z", "score"]
    run(tmp_path / "10", f"{words} --n-permutations 10")
    few = "too few permutations to reach this level"
    assert few in capsys.readouterr().out


def test_only_the_first_peaks_are_printed(
    inside, tmp_path, capsys, monkeypatch, no_figures
):
    monkeypatch.setattr(output, "MOST_PEAKS", 1)
    words = f"{BOLD} {SHORT} --n-permutations 99 --correction none"
    n = len(pd.read_csv(run(tmp_path, words)["_peaks.csv"]))
    assert n > 1
    printed = capsys.readouterr().out
    heading = f"The first 1 of {n} in bold_searchlight_peaks.csv:\n"
    after = printed.split(heading)[1].split("Wrote to ")[0]
    assert len(after.splitlines()) == 2  # names of columns, one peak


def test_glass_brain_of_what_lies_in_one(tmp_path, monkeypatch):
    monkeypatch.setattr(output, "save_figure", lambda path, **_: path.touch())
    rng, y, affine = np.random.default_rng(0), np.tile([0, 1], 6), np.diag([6.0] * 4)
    # In the middle of the brain, flat, and out of it.
    for shape, origin in (((3, 3, 3), 0), ((3, 3, 1), 0), ((3, 3, 3), 300)):
        affine[:3, 3], affine[3, 3] = origin, 1
        img = Nifti1Image(rng.normal(size=(*shape, 12)), affine)
        mask = Nifti1Image(np.ones(shape, np.uint8), affine)
        result = searchlight(img, y, mask_img=mask, cv=3)
        drawn = {ending: draw for ending, _, draw in output._figures(result, "none", 1)}
        expected = {".png": "stat_map"}
        if (shape[2], origin) == (3, 0):
            expected["_glass.png"] = "glass_brain"
        assert {e: draw.keywords["kind"] for e, draw in drawn.items()} == expected


def test_clusters_form_at_another_level(inside, tmp_path, capsys, monkeypatch):
    drawn = []

    def note(path, plot, **_):
        drawn.append(plot.__self__.pvalues("cluster"))

    monkeypatch.setattr(output, "save_figure", note)
    monkeypatch.setattr("mvpa_kfda.decoding.run.FULL_NULL_BYTES", 0)
    words = f"{BOLD} {SHORT} --groups run --n-permutations 99 --correction cluster"
    files = run(tmp_path, f"{words} --threshold 0.01")
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


def test_voxels_that_were_not_decoded_are_counted(inside, tmp_path, capsys, no_figures):
    run(tmp_path, f"{BOLD} {SHORT} --n-permutations 0".replace("bold", "dead"))
    printed = capsys.readouterr()
    (line,) = printed.err.splitlines()
    assert line.startswith("mvpa-kfda: warning: 1 of 125 voxels hold NaN or infinite")
    assert ".py" not in line
    assert "125 voxels, 1 of them not decoded; 6 voxels" in printed.out


def test_each_peak_of_a_group_is_a_line():
    group = build.group("VolumeResult", alpha=0.9)
    lines = list(output.word_group(group))
    assert not any("\n" in line for line in lines)
    heading = next(i for i, line in enumerate(lines) if line.split()[0] == "x")
    assert len(lines) > heading + 1


def test_reader_who_goes_away_spoils_no_file(inside, tmp_path, monkeypatch, undrawn):
    def close(*args, **kwargs):
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr("builtins.print", close)
    with pytest.raises(BrokenPipeError, match="Broken pipe"):
        call(f"{BOLD} {SHORT} {FEW} --n-permutations 19", "--out", tmp_path)
    names = {path.name.removeprefix("bold_searchlight") for path in tmp_path.iterdir()}
    assert names == set(ENDINGS)
