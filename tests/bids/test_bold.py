"""Trials of fMRI as by hand: estimates, blocks, images; scans, masks, damaged files."""

import json
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import nibabel
import numpy as np
import pandas as pd
import pytest
from nilearn.image import load_img
from nilearn.interfaces.fmriprep import load_confounds
from nilearn.signal import clean
from numpy.testing import assert_allclose, assert_array_equal

from mvpa_kfda import decode_regions, methods_text, searchlight, single_trial_betas
from mvpa_kfda.bids.bold import join_events, load_runs, mask_of_runs
from tests import bids_data, build
from tests.bids_data import SPACE, Study

ONE = "--participant-label 01 --radius 4"
KEEP = f"{ONE} --keep-betas --n-permutations 0"
#: Of the kept images.
IN_MASK = np.s_[1:3]


def save(data, path):
    nibabel.Nifti1Image(data, bids_data.AFFINE).to_filename(path)


def by_hand(study, strategy=("motion",), tuned=None, **options):
    """Return single trials of the first subject, estimated by the public function."""
    folder = study.root / "prep" / "sub-01" / "func"
    paths = sorted(map(str, folder.glob("*_desc-preproc_bold.nii.gz")))
    confounds, scans = load_confounds(paths, strategy=strategy, **(tuned or {}))
    events = sorted((study.root / "sub-01" / "func").glob("*_events.tsv"))
    given = {"slice_time_ref": 0.5, "conditions": ["cat", "dog"], "t_r": 2.0}
    given |= {"mask_img": next(folder.glob("*run-1_*mask.nii.gz"))} | options
    return single_trial_betas(
        paths, events, confounds=confounds, sample_masks=scans, **given
    )


def kept_images(study, name="sub-01"):
    """Return images of trials that were kept."""
    (path,) = study.out.rglob(f"*{name}*_betaseries.nii.gz")
    return load_img(path).get_fdata()


def assert_images_of(study, betas, name="sub-01"):
    """Compare images of trials that were kept with those made by hand."""
    expected = betas.imgs.get_fdata()
    assert np.abs(expected).mean() > 0.1
    assert_allclose(kept_images(study, name), expected, rtol=0, atol=1e-9)


# -------------------------------------------------------------------------- as by hand


def test_runs_of_fmriprep_are_decoded_as_by_hand(fmri_of_two, tmp_path, capsys):
    study = fmri_of_two.elsewhere(tmp_path)
    assert study.run(ONE) == 0
    betas = by_hand(study)
    of_both = {"groups": "run", "n_permutations": 5, "random_state": 0}
    given = {"mask_img": betas.mask_img, **of_both}
    labels = betas.table, "trial_type"
    expected = searchlight(betas.imgs, labels, radius=4.0, **given)
    result = study.result()
    assert_array_equal(result.scores, expected.scores)
    assert_array_equal(result.null, expected.null)
    for stat, values in (
        ("accuracy", expected.scores),
        ("pMax", expected.pvalues("max")),
    ):
        (path,) = study.out.rglob(f"*sub-01_*stat-{stat}_statmap.nii.gz")
        found = load_img(path).get_fdata()[IN_MASK].ravel()
        assert_allclose(found, values, rtol=1e-6, atol=0)
    # Regions of an atlas, and of none.
    atlas = np.ones((6, 6, 5), np.int16)
    atlas[2:] = 2
    save(atlas, tmp_path / "atlas.nii.gz")
    of_images = "--participant-label 01 --analysis regions"
    for more, options in (
        ("", {}),
        (
            f"--labels-img {tmp_path}/atlas.nii.gz",
            {"labels_img": tmp_path / "atlas.nii.gz"},
        ),
    ):
        assert study.run(f"{of_images} {more} --desc r{len(options)}") == 0
        expected = decode_regions(betas.imgs, labels, **given, **options)
        result = study.result(f"desc-r{len(options)}")
        assert_array_equal(result.scores, expected.scores)
        assert_array_equal(result.null, expected.null)


def test_blocks_are_means_of_their_scans(fmri_of_two, tmp_path):
    study = fmri_of_two.elsewhere(tmp_path)
    assert study.run(f"{KEEP} --estimate blocks --delay 4") == 0
    text = methods_text(study.result())
    assert "slower than 0.01 Hz were removed, the latter by a Butterworth" in text
    images = kept_images(study)
    assert images.shape[3] == 24
    path = study.find("sub-01*run-2*preproc_bold.nii.gz")
    confounds, _ = load_confounds(str(path), strategy=("motion",))
    signal = load_img(path).get_fdata()[2, 3, 4]
    cleaned = clean(
        signal[:, np.newaxis],
        standardize=None,
        confounds=confounds,
        high_pass=0.01,
        t_r=2.0,
    )
    events = pd.read_csv(study.find("sub-01*run-2_events.tsv"), sep="\t")
    for i, onset in enumerate(events["onset"][:8]):
        # Scans are taken at 1, 3, 5, ... s; a block of 4 s holds two, 4 s later.
        first = round((onset + 4 - 1 + 1) / 2)
        expected = cleaned[first : first + 2].mean() + signal.mean()
        assert_allclose(images[2, 3, 4, 8 + i], expected, rtol=1e-5)


def write_series(root, images, table, mask, stem="sub-01_task-objects"):
    """Write images of single trials, their table and their mask."""
    bids_data.describe(root, "GLMsingle")
    folder = root / "sub-01" / "func"
    folder.mkdir(parents=True, exist_ok=True)
    save(images, folder / f"{stem}_betaseries.nii.gz")
    save(mask, folder / f"{stem}_betaseries_mask.nii.gz")
    table.to_csv(folder / f"{stem}_betaseries.tsv", sep="\t", index=False)


def test_images_of_single_trials_are_decoded_with_their_tables(
    fmri_of_two, tmp_path, capsys
):
    study = fmri_of_two.elsewhere(tmp_path)
    assert study.run(ONE) == 0
    betas, images = by_hand(study), Study(tmp_path / "trials", tmp_path / "of images")
    for number in (1, 2, 3):
        rows = np.flatnonzero(betas.table["run"] == number)
        # Stacked by condition, as some programs write them.
        labels = betas.table["trial_type"].to_numpy()[rows]
        rows = rows[np.argsort(labels, kind="stable")]
        stem = f"sub-01_task-objects_run-{number}_space-{SPACE}"
        data, mask = betas.imgs.get_fdata()[..., rows], betas.mask_img.get_fdata()
        write_series(images.root, data, betas.table.iloc[rows], mask, stem)
    assert images.run("--estimate images --radius 4") == 0
    assert_array_equal(images.result().y, study.result().y)
    assert_array_equal(images.result().scores, study.result().scores)
    # Volumes of zeros are no trials.
    zeros = Study(tmp_path / "zeros", tmp_path / "of zeros")
    data = np.random.default_rng(0).normal(size=(4, 4, 3, 32))
    data[..., 5] = 0
    table = pd.DataFrame({"trial_type": ["cat", "dog"] * 16})
    write_series(zeros.root, data, table, np.ones((4, 4, 3)))
    capsys.readouterr()
    assert zeros.run("--estimate images --radius 4 --n-permutations 0") == 0
    counts = {"1": {"decoded": 31, "without any signal": 1}}
    assert zeros.record()["Trials"]["Events"] == counts
    assert "31 of 32 events decoded: 1 without any signal" in capsys.readouterr().out


# ------------------------------------------------------------------- confounds of scans


def test_drifts_are_modelled_once(fmri_of_two, tmp_path):
    study = fmri_of_two.elsewhere(tmp_path)
    assert study.run(f"{KEEP} --confounds compcor --n-compcor 1") == 0
    options = {"strategy": ("compcor", "high_pass"), "tuned": {"n_compcor": 1}}
    assert_images_of(study, by_hand(study, drift_model=None, **options))
    trials = study.record()["Trials"]
    assert len(trials["Confounds"]) == 2
    assert trials["HighPass"] == "by the cosines among the confounds"
    assert study.record()["Parameters"]["recordings"]["drift_model"] == "fMRIPrep"


@pytest.mark.parametrize(
    ("words", "tuned", "left_out"),
    [
        ("", {}, 0),
        (
            "--fd-threshold 0.3 --std-dvars-threshold 1.2",
            {"fd_threshold": 0.3, "std_dvars_threshold": 1.2},
            12,
        ),
    ],
    ids=["defaults", "others"],
)
def test_thresholds_of_scrubbing(fmri_of_two, tmp_path, capsys, words, tuned, left_out):
    study = fmri_of_two.elsewhere(tmp_path)
    assert study.run(f"{KEEP} --confounds motion scrub {words}") == 0
    assert_images_of(study, by_hand(study, ("motion", "scrub"), tuned))
    n = sum(study.record()["Trials"]["ScansLeftOut"].values())
    assert n >= left_out
    assert bool(n) == bool(left_out)
    record = study.record()["Parameters"]["recordings"]
    expected = {"fd_threshold": 0.5, "std_dvars_threshold": 1.5} | tuned
    expected |= {
        "n_scans": [60, 60, 60],
        "drift_model": "cosine",
        "high_pass": 0.01,
        "noise_model": "ols",
        "signal_scaling": "percent",
        "group": "run",
        "n_scans_left_out": n,
    }
    assert {name: record.get(name) for name in expected} == expected
    assert "n_compcor" not in record  # nothing was asked of components
    assert (f"{n} scans left out" in capsys.readouterr().out) == bool(left_out)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--confounds compcor --high-pass 0.01", "would model them twice"),
        ("--fd-threshold 0.3", "fd_threshold=0.3 is for --confounds scrub"),
        ("--n-compcor 0 --confounds compcor", "Invalid value for 'n_compc"),
        ("--delay 4", "--delay is for --estimate blocks, and not for lss"),
        ("--block-gap 4", "--block-gap is for --estimate blocks, and not for lss"),
        ("--estimate images --confounds motion", "no images of single tri"),
    ],
)
def test_options_that_do_not_go_together_are_said_once(
    fmri_of_two, tmp_path, capsys, words, message
):
    study = fmri_of_two.elsewhere(tmp_path)
    assert study.run(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert not study.out.exists()


@pytest.mark.parametrize(
    ("estimate", "scans"), [("lss", range(20, 42)), ("blocks", range(22, 26))]
)
def test_trials_whose_scans_are_left_out_are_counted(fmri, capsys, estimate, scans):
    path = fmri.find("sub-01*run-1_*confounds_timeseries.tsv")
    table = pd.read_csv(path, sep="\t")
    table.loc[[*scans], "framewise_displacement"] = 9.0
    table.to_csv(path, sep="\t", index=False, na_rep="n/a")
    assert fmri.run(f"{ONE} --confounds scrub --estimate {estimate}") == 0
    reason = "without a scan that --confounds scrub leaves"
    counts = {"decoded": 7, reason: 1, "not chosen by --where": 1}
    assert fmri.record()["Trials"]["Events"]["1"] == counts
    assert f"1 {reason}" in capsys.readouterr().out


def test_slice_times_are_told_where_no_file_tells_them(fmri, capsys):
    for path in (fmri.root / "prep").rglob("*_bold.json"):
        path.write_text(json.dumps({"RepetitionTime": 2.0}))
    words = KEEP.replace("--participant-label 01", "")
    assert fmri.run(words) == 0
    said = capsys.readouterr().err
    assert said.count("warning: 2 of 2 subjects: slice_time_ref is not given") == 1
    assert_images_of(fmri, by_hand(fmri, slice_time_ref=0.0))
    trials = fmri.record()["Trials"]
    assert (trials["SliceTimeRef"], trials["SliceTimeRefFrom"]) == (0.0, "default")
    assert fmri.run(f"{KEEP} --slice-time-ref 0.5 --desc half") == 0
    assert "slice_time_ref" not in capsys.readouterr().err
    assert_images_of(fmri, by_hand(fmri), "sub-01_task-objects*desc-half")
    path = fmri.find("sub-01*run-2*_bold.json")
    path.write_text(json.dumps({"RepetitionTime": 2.0, "StartTime": 0.5}))
    path = fmri.find("sub-01*run-1*_bold.json")
    path.write_text(json.dumps({"RepetitionTime": 2.0, "StartTime": 1.0}))
    assert fmri.run(ONE) == 2
    assert (
        "StartTime is 0.5 s, 1 s, none. Pass slice_time_ref" in capsys.readouterr().err
    )


# ------------------------------------------------------------------------------- blocks


def test_short_stimuli_are_joined_to_blocks(fmri, tmp_path, capsys):
    whole, words = fmri.elsewhere(tmp_path, "whole"), f"{KEEP} --estimate blocks"
    assert whole.run(words) == 0
    for path in fmri.root.glob("sub-01/func/*_events.tsv"):
        table = pd.read_csv(path, sep="\t")
        shifts = [0.0, 1.2, 2.4, 3.5]
        parts = [table.assign(onset=table["onset"] + s, duration=0.5) for s in shifts]
        parts = [parts[0], *(p[p["trial_type"] != "button"] for p in parts[1:])]
        pd.concat(parts).to_csv(path, sep="\t", index=False, na_rep="n/a")
    assert fmri.run(words) == 2
    said = capsys.readouterr().err
    assert "0.5 s long, holds no scan, 5 s later" in said
    assert "pauses of 0.7 s: --block-gap 1 joins them" in said
    assert fmri.run(f"{words} --block-gap 1") == 0
    assert "; 24 blocks of 96 events; " in capsys.readouterr().out
    assert_array_equal(fmri.result().scores, whole.result().scores)
    assert_allclose(kept_images(fmri), kept_images(whole), rtol=0, atol=1e-12)


def test_events_are_joined_by_label_and_pause():
    table = pd.DataFrame(
        {
            "onset": [7.0, 0.0, 2.0, 4.0, 20.0, 22.0],
            "duration": [1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
            "trial_type": ["cat 4", "cat 1", "cat 2", "dog", "dog", "dog"],
            "rt": [0.5, 0.5, 0.5, 1.0, np.nan, 2.0],
            "decoded_label": ["cat", "cat", "cat", "dog", "dog", "dog"],
        }
    )
    blocks = join_events(table, 1.0)
    assert blocks["onset"].tolist() == [0, 4, 7, 20]
    assert blocks["duration"].tolist() == [3, 1, 1, 3]
    assert blocks["n_events"].tolist() == [2, 1, 1, 2]
    assert blocks["decoded_label"].tolist() == ["cat", "dog", "cat", "dog"]
    assert blocks["trial_type"].isna().tolist() == [True, False, False, False]
    assert blocks["rt"].isna().tolist() == [False, False, False, True]
    assert len(join_events(table, 0.9)) == 6
    assert join_events(table, None)["onset"].tolist() == [0, 2, 4, 7, 20, 22]


@pytest.mark.parametrize("estimate", ["lss", "blocks"])
def test_what_cannot_be_estimated_is_refused_at_once(fmri, capsys, estimate):
    words, path = f"{ONE} --estimate {estimate}", fmri.find("sub-01*run-2_events.tsv")
    given = path.read_text()
    path.write_text(given.replace("40.0\t4.0", "40.0\t150"))
    assert fmri.run(words) == 2
    said = capsys.readouterr().err
    assert "run-2_events.tsv: the event at 40 s lasts" in said
    assert "but the whole run 120 s" in said
    onsets, kinds = np.linspace(4, 90, 40_000).round(5), ["cat", "dog"] * 20_000
    table = {"onset": onsets, "duration": 1.0, "trial_type": kinds}
    pd.DataFrame(table).to_csv(path, sep="\t", index=False)
    start = time.process_time()
    assert fmri.run(words) == 2
    assert "more than the 32,767 volumes" in capsys.readouterr().err
    assert time.process_time() - start < 5
    path.write_text(given)
    save(np.zeros((6, 6, 5, 60)), fmri.find("sub-01*run-1*preproc_bold.nii.gz"))
    assert fmri.run(f"{words} --confounds none") == 2
    said = capsys.readouterr().err
    assert "60 scans of 60 without any signal" in said
    assert "run 1" in said


# -------------------------------------------------------------------------------- masks


def test_voxels_that_not_all_runs_have_are_counted(fmri, capsys):
    path = fmri.find("sub-01*run-2_*brain_mask.nii.gz")
    mask = load_img(path).get_fdata().astype(np.uint8)
    mask[1, 0, 0] = 0
    save(mask, path)
    assert fmri.run(ONE) == 0
    told = capsys.readouterr()
    line = "; 1 of 60 voxels left out, not in the masks of all runs; "
    assert line in told.out.splitlines()[0]
    assert told.err == ""
    trials = fmri.record()["Trials"]
    assert trials["MaskVoxels"] == fmri.result().scores.size == 59
    assert trials["MaskVoxelsOfRuns"] == {"1": 60, "2": 59, "3": 60}
    assert trials["MaskVoxelsNotInAllRuns"] == 1
    mask[2] = 0
    save(mask, path)
    assert fmri.run(ONE) == 0
    said = capsys.readouterr().err
    assert "Only 29 of 60 voxels are in the brain masks of all runs; run 2 has" in said
    elsewhere = np.zeros_like(mask)
    elsewhere[0] = 1
    for wrong, message in (
        (np.zeros_like(mask), f"{path} is empty: no voxel is in this mask"),
        (elsewhere, "No voxel is in the brain masks of all runs"),
        (mask[:4], f"{path.name} is on another grid than the images"),
        (np.stack([mask, mask], axis=3), "must be a 3D image"),
    ):
        save(wrong, path)
        assert fmri.run(ONE) == 2
        said = capsys.readouterr().err
        assert message in said
        assert "nilearn.image" not in said
    given = fmri.root / "mine.nii.gz"
    save(mask[:4], given)
    assert fmri.run(f"{ONE} --mask-img {given}") == 2
    assert "mine.nii.gz is on another grid" in capsys.readouterr().err
    save(np.ones_like(mask), given)
    assert fmri.run(f"{ONE} --mask-img {given}") == 0
    trials = fmri.record()["Trials"]
    assert (trials["MaskVoxels"], trials["MaskFrom"]) == (180, "--mask-img")


def test_a_mask_that_is_missing_is_said(fmri, capsys):
    masks = sorted((fmri.root / "prep" / "sub-01").rglob("*mask.nii.gz"))
    masks[1].unlink()
    assert fmri.run(ONE) == 0
    said = capsys.readouterr().err
    assert "There is no brain mask of sub-01_task-objects_run-2_" in said
    assert "of the other runs" in said
    assert any("There is no brain mask" in text for text in fmri.result().warnings)
    assert fmri.record()["Trials"]["MaskVoxels"] == 60
    (name,) = fmri.record()["Trials"]["RunsWithoutMask"]
    assert name.startswith("sub-01_task-objects_run-2")
    for path in (masks[0], masks[2]):
        path.unlink()
    fmri.run(f"{ONE} --desc none")
    assert "nilearn computes one of the images" in capsys.readouterr().err


@pytest.mark.parametrize("with_masks", [True, False])
def test_affines_of_runs_that_differ_by_rounding(tmp_path, with_masks):
    """nilearn stops at them, without the name of a file."""
    runs, brain = [], np.pad(np.ones((4, 4, 4)), 2)
    for k in range(2):
        affine = bids_data.AFFINE.copy()
        affine[:3] += 2e-4 * k
        path, mask = tmp_path / f"run-{k}_bold.nii", tmp_path / f"run-{k}_mask.nii"
        nibabel.Nifti1Image(brain[..., None] * [500.0, 501], affine).to_filename(path)
        nibabel.Nifti1Image(brain, affine).to_filename(mask)
        run = SimpleNamespace(path=path, mask=mask if with_masks else None, label=k)
        runs.append(run)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "There is no brain mask")
        mask = mask_of_runs(runs, "bold", load_runs(runs), None)
    assert_array_equal(mask.image.affine, bids_data.AFFINE)
    assert mask.about["MaskVoxels"] > 0


@pytest.mark.filterwarnings("ignore:There is no brain mask")
def test_runs_without_a_brain_are_named():
    runs = [SimpleNamespace(path=Path(name), mask=None) for name in ("a.nii", "b.nii")]
    some = build.volume(np.zeros((4, 3, 2, 2)))
    with pytest.raises(ValueError, match=r"^nilearn finds no brain in a\.nii and the "):
        mask_of_runs(runs, "bold", [some, some], None)


# ----------------------------------------------------------------------- damaged files


def cut_table(text):
    """Return a table without its last rows."""
    return "\n".join([*text.splitlines()[:20], ""])


def with_cell(value):
    """Return what puts a value into the first column of a table, in its fourth row."""

    def change(text):
        lines = text.splitlines()
        lines[4] = "\t".join([value, *lines[4].split("\t")[1:]])
        return "\n".join([*lines, ""])

    return change


@pytest.mark.parametrize(
    ("pattern", "content", "message"),
    [
        ("*run-1*preproc_bold.json", lambda _: "[1]", "holds no names with values"),
        ("*run-1*preproc_bold.json", lambda _: "", "is no JSON file"),
        (
            "*run-1*preproc_bold.json",
            lambda _: '{"StartTime": null}',
            "StartTime is null, but must be a number of seconds. Correct it",
        ),
        (
            "*run-2*preproc_bold.json",
            lambda _: '{"RepetitionTime": "2 s"}',
            "RepetitionTime is '2 s', but must be",
        ),
        ("*run-2*timeseries.tsv", cut_table, "has 19 rows, but the run has 60 scans"),
        ("*run-2*timeseries.tsv", with_cell("much"), "hold a text where there must be"),
        ("*run-2*timeseries.tsv", with_cell("n/a"), "holds NaN or infinite values in "),
        ("*run-2*bold.nii.gz", lambda _: "no image", "is no image"),
    ],
)
def test_messages_name_the_file(fmri, capsys, pattern, content, message):
    (path,) = (p for p in fmri.root.rglob(pattern) if "sub-01" in p.name)
    text = "" if path.suffix == ".gz" else path.read_text()
    path.write_text(content(text))
    assert fmri.run(ONE) == 2
    said = capsys.readouterr().err
    assert message in said
    assert path.name.partition("_space")[0].partition("_desc")[0] in said
    for word in ("imgs[", "confounds[", "events[", "t_r", "--t-r"):
        assert word not in said


def test_images_that_are_no_runs_are_named(fmri, capsys):
    path = fmri.find("sub-01*run-2*preproc_bold.nii.gz")
    for shape, message in (
        ((6, 6, 5), f"{path} has shape (6, 6, 5); a run must be a 4D image"),
        ((6, 6, 4, 60), f"{path.name} is on another grid than sub-01_"),
    ):
        save(np.ones(shape), path)
        assert fmri.run(ONE) == 2
        assert message in capsys.readouterr().err
    for path in (fmri.root / "prep").rglob("sub-01*preproc_bold.*"):
        if path.suffix == ".json":
            path.unlink()
        else:  # without a time from scan to scan
            save(np.ones((6, 6, 5, 60)), path)
    assert fmri.run(ONE) == 2
    assert "RepetitionTime in the .json file of BIDS" in capsys.readouterr().err


def test_events_without_a_type_are_told_by_the_file(fmri, capsys):
    path = fmri.find("sub-01*run-2_events.tsv")
    table = pd.read_csv(path, sep="\t")
    table.loc[2, "trial_type"] = np.nan
    table.to_csv(path, sep="\t", index=False, na_rep="n/a")
    assert fmri.run(ONE) == 0
    assert f"{path.name}: 1 event without a trial_type" in capsys.readouterr().err
