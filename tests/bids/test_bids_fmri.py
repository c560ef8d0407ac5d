"""The BIDS app on fMRI: names of files, scans, blocks, masks, kept images of trials."""

import json
import shutil
import warnings
from pathlib import Path
from types import SimpleNamespace

import nibabel
import numpy as np
import pandas as pd
import pytest
from bidsschematools.schema import load_schema
from nilearn.image import load_img
from nilearn.interfaces.fmriprep import load_confounds
from numpy.testing import assert_allclose, assert_array_equal

from mvpa_kfda import decode_regions, load_result, single_trial_betas
from mvpa_kfda.bids import app, find
from mvpa_kfda.bids.bold import join_events, load_runs, mask_of_runs
from mvpa_kfda.cli import main
from tests import bids_data, build
from tests.bids_data import SPACE

STIMULI = "trial_type != 'button'"
FEW = ["--n-permutations", "5", "--radius", "4"]
KEEP = [*FEW, "--keep-betas"]


@pytest.fixture(scope="module", autouse=True)
def no_pages():
    """Leave the pages out, which take seconds each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app, "write_page", lambda *_: ("done", ""))
        yield


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Return a raw dataset and what fMRIPrep makes of it, with all confounds."""
    root = tmp_path_factory.mktemp("source")
    bids_data.write_fmri(root / "raw", root / "prep", ("01", "02"), 3)
    bids_data.add_confounds(root / "prep")
    for path in (root / "prep").rglob("*_mask.nii.gz"):  # small, for little to decode
        mask = nibabel.load(path).get_fdata().astype(np.uint8)
        mask[3:] = 0
        nibabel.Nifti1Image(mask, bids_data.AFFINE).to_filename(path)
    return root


@pytest.fixture
def study(source, tmp_path):
    """Return a copy that a test may change."""
    shutil.copytree(source, tmp_path / "study")
    return tmp_path / "study"


def run(study, *arguments, level="participant"):
    """Run the command on a study; return its exit status."""
    given = ["bids", study / "raw", study / "out", level, "--derivatives"]
    given += [study / "prep", *arguments]
    if level == "participant":
        given += ["--where", STIMULI] if "--where" not in arguments else []
    return main([*map(str, given)])


def result_of(study, name):
    (path,) = (study / "out").rglob(f"*{name}*_decoding.h5")
    return load_result(path)


def record_of(study, name):
    (path,) = (study / "out").rglob(f"*{name}*_decoding.json")
    return json.loads(path.read_text())


def by_hand(study, subject="01", strategy=("motion",), tuned=None, **options):
    """Return single trials of a subject, estimated by the public function."""
    folder = study / "prep" / f"sub-{subject}" / "func"
    paths = sorted(map(str, folder.glob("*_desc-preproc_bold.nii.gz")))
    confounds, scans = load_confounds(paths, strategy=strategy, **(tuned or {}))
    events = sorted((study / "raw" / f"sub-{subject}" / "func").glob("*_events.tsv"))
    given = {"slice_time_ref": 0.5, "conditions": ["cat", "dog"], "t_r": 2.0}
    given |= {"mask_img": next(folder.glob("*run-1_*mask.nii.gz"))} | options
    return single_trial_betas(
        paths, events, confounds=confounds, sample_masks=scans, **given
    )


def assert_images_of(study, name, betas):
    """Compare images of trials that were kept with those made by hand."""
    (path,) = (study / "out").rglob(f"*{name}*_betaseries.nii.gz")
    found, expected = (each.get_fdata() for each in (load_img(path), betas.imgs))
    assert found.shape == expected.shape
    assert np.abs(expected).mean() > 0.1
    assert_allclose(found, expected, rtol=0, atol=1e-9)


# ----------------------------------------------------------------------- names of files


def test_indices_are_those_of_the_schema():
    entities = load_schema().objects.entities.values()
    assert set(find.INDICES) == {e.name for e in entities if e.format == "index"}
    assert find.same_value("run", "1", "01")
    assert not find.same_value("sub", "1", "01")
    assert not find.same_value("run", None, "1")


def test_runs_are_numbers_and_named_as_in_the_raw_dataset(study, source, capsys):
    for path in [*(study / "raw").glob("sub-*/func/*_run-*")]:
        path.rename(path.with_name(path.name.replace("_run-", "_run-0")))
    given = ["--participant-label", "01", *FEW]
    assert run(study, *given, "--keep-betas") == 0
    result = result_of(study, "sub-01")
    assert set(result.groups) == {"01", "02", "03"}
    assert_images_of(study, "sub-01", by_hand(source))
    assert set(record_of(study, "sub-01")["Trials"]["TrialsPerRun"]) == {*result.groups}
    assert run(study, *given, "--run", "2", "03", "--desc", "two") == 0
    assert set(result_of(study, "desc-two").groups) == {"02", "03"}
    capsys.readouterr()
    assert run(study, *given, "--run", "9") == 2
    assert "Those of" in (said := capsys.readouterr().err)
    assert "'01', '02', '03'" in said


def test_uncompressed_images_are_found(study, source):
    for path in [*(study / "prep" / "sub-01").rglob("*.nii.gz")]:
        load_img(path).to_filename(path.with_name(path.name.removesuffix(".gz")))
        path.unlink()
    assert run(study, "--participant-label", "01", *KEEP) == 0
    assert_images_of(study, "sub-01", by_hand(source))
    assert record_of(study, "sub-01")["Trials"]["MaskVoxels"] == 60


# ------------------------------------------------------------------- confounds of scans


@pytest.mark.parametrize(
    ("given", "strategy", "tuned", "columns"),
    [
        ("compcor", ("compcor", "high_pass"), {}, 4),
        ("motion high_pass", ("motion", "high_pass"), {}, 25),
        ("compcor --n-compcor 1", ("compcor", "high_pass"), {"n_compcor": 1}, 2),
    ],
)
def test_drifts_are_modelled_once(study, given, strategy, tuned, columns):
    options = ["--participant-label", "01", "--confounds", *given.split(" ")]
    assert run(study, *options, *KEEP) == 0
    betas = by_hand(study, strategy=strategy, tuned=tuned, drift_model=None)
    assert_images_of(study, "sub-01", betas)
    trials = record_of(study, "sub-01")["Trials"]
    assert len(trials["Confounds"]) == columns
    assert trials["HighPass"] == "by the cosines among the confounds"


@pytest.mark.parametrize(
    ("given", "tuned", "left_out"),
    [
        ([], {}, 0),
        (["--fd-threshold", "0.3"], {"fd_threshold": 0.3}, 9),
        (["--std-dvars-threshold", "1.2"], {"std_dvars_threshold": 1.2}, 6),
    ],
    ids=["defaults", "motion", "signal"],
)
def test_thresholds_of_scrubbing(study, capsys, given, tuned, left_out):
    options = ["--participant-label", "01", "--confounds", "motion", "scrub", *given]
    assert run(study, *options, *KEEP) == 0
    betas = by_hand(study, strategy=("motion", "scrub"), tuned=tuned)
    assert_images_of(study, "sub-01", betas)
    kept = record_of(study, "sub-01")["Trials"]["ScansLeftOut"]
    assert sum(kept.values()) >= left_out
    assert bool(sum(kept.values())) == bool(left_out)
    record = record_of(study, "sub-01")["Parameters"]["recordings"]
    limits = {"fd_threshold": 0.5, "std_dvars_threshold": 1.5} | tuned
    expected = limits | {
        "n_scans": [60, 60, 60],
        "drift_model": "cosine",
        "high_pass": 0.01,
        "noise_model": "ols",
        "signal_scaling": "percent",
        "group": "run",
        "n_scans_left_out": sum(kept.values()),
    }
    assert {name: record.get(name) for name in expected} == expected
    assert "n_compcor" not in record  # nothing was asked of components
    words = f"{sum(kept.values())} scans left out"
    assert (words in capsys.readouterr().out) == bool(left_out)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--confounds", "compcor", "--high-pass", "0.01"], "would model them twice"),
        (["--fd-threshold", "0.3"], "fd_threshold=0.3 is for --confounds scrub"),
        (["--n-compcor", "0", "--confounds", "compcor"], "Invalid value for 'n_compc"),
        (["--delay", "4"], "--delay is for --estimate blocks, and not for lss"),
        (["--block-gap", "4"], "--block-gap is for --estimate blocks, and not for lss"),
        (["--estimate", "images", "--confounds", "motion"], "no images of single tri"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_options_that_do_not_go_together_are_said_once(study, capsys, given, message):
    assert run(study, *given, *FEW) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert not (study / "out").exists()


# ---------------------------------------------------------------------- times of slices


def test_slice_times_are_told_where_no_file_tells_them(study, capsys):
    for path in (study / "prep").rglob("*_bold.json"):
        path.write_text(json.dumps({"RepetitionTime": 2.0}))
    assert run(study, *KEEP) == 0
    said = capsys.readouterr().err
    assert said.count("warning: 2 of 2 subjects: slice_time_ref is not given") == 1
    assert_images_of(study, "sub-01", by_hand(study, slice_time_ref=0.0))
    trials = record_of(study, "sub-01")["Trials"]
    assert (trials["SliceTimeRef"], trials["SliceTimeRefFrom"]) == (0.0, "default")
    assert run(study, *KEEP, "--slice-time-ref", "0.5", "--desc", "half") == 0
    assert "slice_time_ref" not in capsys.readouterr().err
    assert_images_of(study, "sub-01_task-objects*desc-half", by_hand(study))


def test_runs_that_tell_other_times_are_named(study, capsys):
    path = next((study / "prep" / "sub-01").rglob("*run-2*_bold.json"))
    path.write_text(json.dumps({"RepetitionTime": "2 s"}))
    assert run(study, *FEW) == 1
    assert f"{path}: RepetitionTime is '2 s', but must be" in capsys.readouterr().err
    path.write_text(json.dumps({"RepetitionTime": 2.0, "StartTime": 0.0}))
    assert run(study, *FEW) == 1
    assert "StartTime is 0 s, 1 s. Pass slice_time_ref" in capsys.readouterr().err


# ------------------------------------------------------------------------------- blocks


def cut_events(study):
    """Cut the blocks of all runs into stimuli of half a second."""
    for path in (study / "raw").rglob("*_events.tsv"):
        table = pd.read_csv(path, sep="\t")
        parts = [
            row.to_frame().T.assign(onset=row["onset"] + shift, duration=0.5)
            for _, row in table.iterrows()
            for shift in (
                (0.0, 1.2, 2.4, 3.5) if row["trial_type"] != "button" else [0]
            )
        ]
        pd.concat(parts).to_csv(path, sep="\t", index=False, na_rep="n/a")


def test_short_stimuli_are_joined_to_blocks(study, source, capsys):
    shutil.copytree(study, study / "whole")
    cut_events(study)
    given = ["--estimate", "blocks", "--participant-label", "01", *KEEP]
    assert run(study, *given) == 2
    said = capsys.readouterr().err
    assert "0.5 s long, holds no scan, 5 s later" in said
    assert "pauses of 0.7 s: --block-gap 1 joins them" in said
    assert run(study, *given, "--block-gap", "1") == 0
    assert "; 24 blocks of 96 events; " in capsys.readouterr().out
    assert run(study / "whole", *given) == 0
    result, expected = (result_of(s, "sub-01") for s in (study, study / "whole"))
    assert len(result.y) == 24
    assert_array_equal(result.scores, expected.scores)
    series = [
        next(s.glob("out/**/*_betaseries.nii.gz")) for s in (study, study / "whole")
    ]
    images = [load_img(path).get_fdata() for path in series]
    assert_allclose(images[0], images[1], rtol=0, atol=1e-12)


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
def test_the_file_of_a_run_repeats_it(study, capsys, estimate):
    given = ["--estimate", estimate, "--participant-label", "01", *FEW]
    assert run(study, *given) == 0
    config = study / "out" / "participant_desc-searchlight_config.toml"
    assert ("delay = 5.0" in config.read_text()) == (estimate == "blocks")
    capsys.readouterr()
    repeated = ["--config", config, "--derivatives", study / "prep"]
    command = ["bids", study / "raw", study / "out", "participant", *repeated]
    assert main([*map(str, command)]) == 0
    assert "sub-01 task-objects: there already\n" in capsys.readouterr().out


# -------------------------------------------------------------------------------- masks


def test_voxels_that_not_all_runs_have_are_counted(study, capsys):
    folder = study / "prep" / "sub-02" / "func"
    path = folder / f"sub-02_task-objects_run-2_space-{SPACE}_desc-brain_mask.nii.gz"
    mask = load_img(path).get_fdata().astype(np.uint8)
    mask[1, 0, 0] = 0
    nibabel.Nifti1Image(mask, bids_data.AFFINE).to_filename(path)
    assert run(study, *FEW) == 0
    told = capsys.readouterr()
    line = next(text for text in told.out.splitlines() if text.startswith("sub-02"))
    assert "; 1 of 60 voxels left out, not in the masks of all runs; " in line
    assert told.err == ""
    trials = record_of(study, "sub-02")["Trials"]
    assert trials["MaskVoxels"] == result_of(study, "sub-02").scores.size == 59
    assert trials["MaskVoxelsOfRuns"] == {"1": 60, "2": 59, "3": 60}
    assert trials["MaskVoxelsNotInAllRuns"] == 1
    mask[2] = 0
    nibabel.Nifti1Image(mask, bids_data.AFFINE).to_filename(path)
    assert run(study, *FEW) == 0
    said = capsys.readouterr().err
    assert "Only 29 of 60 voxels are in the brain masks of all runs; run 2 has" in said
    mask[:] = 0
    nibabel.Nifti1Image(mask, bids_data.AFFINE).to_filename(path)
    assert run(study, *FEW) == 1
    assert f"{path} is empty: no voxel is in this mask" in capsys.readouterr().err
    mask[0] = 1
    nibabel.Nifti1Image(mask, bids_data.AFFINE).to_filename(path)
    assert run(study, *FEW) == 1
    assert "No voxel is in the brain masks of all runs" in capsys.readouterr().err
    nibabel.Nifti1Image(mask[:4], bids_data.AFFINE).to_filename(path)
    assert run(study, *FEW) == 1
    assert f"{path.name} is on another grid than the images" in capsys.readouterr().err


def test_a_mask_that_is_missing_is_said(study, capsys):
    masks = sorted((study / "prep" / "sub-01").rglob("*mask.nii.gz"))
    masks[1].unlink()
    assert run(study, *FEW) == 0
    said = capsys.readouterr().err
    assert (
        "sub-01 task-objects: There is no brain mask of sub-01_task-objects_run-2_"
        in (said)
    )
    assert "of the other runs" in said
    result, trials = result_of(study, "sub-01"), record_of(study, "sub-01")["Trials"]
    assert any("There is no brain mask" in text for text in result.warnings)
    assert [name[:24] for name in trials["RunsWithoutMask"]] == [
        "sub-01_task-objects_run-"
    ]
    for path in (masks[0], masks[2]):
        path.unlink()
    given = ["--participant-label", "01", *FEW, "--desc", "none"]
    run(study, *given)
    assert "nilearn computes one of the images" in capsys.readouterr().err


# ------------------------------------------------------------- regions, kept images


def test_without_an_atlas_the_whole_mask_is_one_region(study, capsys):
    given = ["--analysis", "regions", "--n-permutations", "5"]
    assert run(study, *given) == 0
    betas = by_hand(study)
    expected = decode_regions(
        betas.imgs,
        (betas.table, "trial_type"),
        groups="run",
        mask_img=betas.mask_img,
        n_permutations=5,
        random_state=0,
    )
    result = result_of(study, "sub-01")
    assert_array_equal(result.scores, expected.scores)
    assert_array_equal(result.null, expected.null)
    given = ["--correction", "none", "--method", "sign-flip"]
    assert run(study, *given, level="group") == 0


@pytest.mark.parametrize("estimate", ["lss", "blocks"])
def test_kept_images_of_trials_are_read_again(study, capsys, monkeypatch, estimate):
    given = ["--participant-label", "01", "--estimate", estimate]
    given += ["--where", "rt > 0 and trial_type != 'button'"]
    assert run(study, *given, *FEW, "--keep-betas", "--desc", "first") == 0
    expected = ["--analysis", "regions", "--n-permutations", "5"]
    expected += ["--train-on", "onset < 50"]
    (folder,) = (study / "out").rglob("func")
    kept = sorted(folder.glob("*_betaseries*"))
    assert [p.name.partition("betaseries")[2] for p in kept] == [
        *(".json", ".nii.gz", ".tsv", "_mask.nii.gz")
    ]
    hidden = [(path, path.rename(path.with_name(f"x{path.name}"))) for path in kept]
    assert run(study, *given, *expected, "--desc", "anew") == 0
    for path, other in hidden:
        other.rename(path)
    capsys.readouterr()

    def fail(*_):
        raise AssertionError("made anew")

    with monkeypatch.context() as patch:
        patch.setattr(app, "read_trials", fail)
        assert run(study, *given, *expected, "--desc", "again") == 0
    stem = f"sub-01_task-objects_space-{SPACE}_desc-first_betaseries"
    assert f"; trials from {stem}.nii.gz; " in capsys.readouterr().out
    assert result_of(study, "desc-again") == result_of(study, "desc-anew")
    assert record_of(study, "desc-again")["Trials"]["TrialsFrom"] == f"{stem}.nii.gz"
    # What was changed by others is made anew, and so is what is of other options.
    (folder / f"{stem}.tsv").write_text((folder / f"{stem}.tsv").read_text() + "\n")
    with monkeypatch.context() as patch:
        patch.setattr(app, "read_trials", fail)
        assert run(study, *given, *expected, "--desc", "changed") == 2
        assert "made anew" in capsys.readouterr().err


def test_images_are_kept_of_a_result_that_is_there(study, capsys):
    given = ["--participant-label", "01", *FEW]
    assert run(study, *given) == 0
    before = result_of(study, "sub-01")
    capsys.readouterr()
    assert run(study, *given, "--keep-betas") == 0
    assert "there already, images of trials kept" in capsys.readouterr().out
    assert len(list((study / "out").rglob("*_betaseries.nii.gz"))) == 1
    assert run(study, *given, "--keep-betas") == 0
    assert "objects: there already\n" in capsys.readouterr().out
    # They are a dataset of single trials, which any analysis takes.
    options = ["bids", study / "out", study / "next", "participant", "--estimate"]
    assert main([*map(str, options), "images", *FEW]) == 0
    (path,) = (study / "next").rglob("*_decoding.h5")
    assert_array_equal(load_result(path).scores, before.scores)


def test_several_results_of_one_analysis_stay_side_by_side(study, capsys):
    given = ["--participant-label", "01", "--n-permutations", "5"]
    assert run(study, *given, "--radius", "4", "--desc", "small") == 0
    assert run(study, *given, "--radius", "9", "--desc", "large") == 0
    small, large = (result_of(study, f"desc-{name}") for name in ("small", "large"))
    assert small.n_features.max() < large.n_features.max()
    page = (study / "out" / "index.html").read_text()
    assert "<th>Subject</th><th>large</th><th>small</th>" in page
    capsys.readouterr()
    assert run(study, *given, "--radius", "6", "--desc", "small") == 0
    assert "another --desc would have kept both" in capsys.readouterr().out


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
        ("*run-2*timeseries.tsv", cut_table, "has 19 rows, but the run has 60 scans"),
        ("*run-2*timeseries.tsv", with_cell("much"), "hold a text where there must be"),
        (
            "*run-2*timeseries.tsv",
            with_cell("n/a"),
            "holds NaN or infinite values in ",
        ),
        ("*run-2*timeseries.tsv", lambda _: "", "nilearn finds no confounds"),
        ("*run-2*mask.nii.gz", lambda _: "no image", "is no image"),
        ("*run-2*bold.nii.gz", lambda _: "no image", "is no image"),
        ("*run-2*events.tsv", with_cell("inf"), "onset is 'inf' in line 5"),
        ("*run-2*events.tsv", with_cell("soon"), "onset is 'soon' in line 5"),
        ("*run-2*events.tsv", lambda _: "", "cannot be read as a table"),
    ],
)
def test_messages_name_the_file(study, capsys, pattern, content, message):
    (path,) = (p for p in study.rglob(pattern) if "sub-01" in p.name)
    text = "" if path.suffix == ".gz" else path.read_text()
    path.write_text(content(text))
    assert run(study, "--participant-label", "01", *FEW) == 2
    said = capsys.readouterr().err
    assert message in said
    assert path.name.partition("_space")[0].partition("_desc")[0] in said
    for word in ("imgs[", "confounds[", "events[", "t_r", "--t-r"):
        assert word not in said


def test_events_without_a_type_are_told_by_the_file(study, capsys):
    (path,) = (study / "raw" / "sub-01").rglob("*run-2_events.tsv")
    table = pd.read_csv(path, sep="\t")
    table.loc[2, "trial_type"] = np.nan
    table.to_csv(path, sep="\t", index=False, na_rep="n/a")
    assert run(study, "--participant-label", "01", *FEW) == 0
    assert f"{path.name}: 1 event without a trial_type" in capsys.readouterr().err


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


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((6, 6, 4), "is on another grid than the images"),
        ((6, 6, 5, 2), "must be a 3D image"),
        (None, "is no image"),
    ],
)
@pytest.mark.parametrize("given", [False, True], ids=["of the run", "--mask-img"])
def test_masks_that_do_not_fit_are_named(study, capsys, shape, message, given):
    path = next((study / "prep").rglob("sub-01*run-1*mask.nii.gz"))
    path = study / "mine.nii.gz" if given else path
    if shape is None:
        path.write_text("no image")
    else:
        image = nibabel.Nifti1Image(np.ones(shape, np.uint8), bids_data.AFFINE)
        image.to_filename(path)
    more = ["--mask-img", path] if given else []
    assert run(study, "--participant-label", "01", *FEW, *more) == 2
    said = capsys.readouterr().err
    assert f"{path.name}" in said
    assert message in said
    assert "img_#" not in said
    assert "nilearn.image" not in said


def test_images_that_are_no_runs_are_named(study, capsys):
    path = next((study / "prep").rglob("sub-01*run-2*preproc_bold.nii.gz"))
    for shape, message in (
        ((6, 6, 5), f"{path} has shape (6, 6, 5); a run must be a 4D image"),
        ((6, 6, 4, 60), f"{path.name} is on another grid than sub-01_"),
    ):
        nibabel.Nifti1Image(np.ones(shape), bids_data.AFFINE).to_filename(path)
        assert run(study, "--participant-label", "01", *FEW) == 2
        assert message in capsys.readouterr().err


def test_no_time_from_scan_to_scan_is_said(study, capsys):
    for path in (study / "prep").rglob("*preproc_bold.*"):
        if path.suffix == ".json":
            path.unlink()
            continue
        image = load_img(path)
        image.header.set_xyzt_units("mm")
        nibabel.Nifti1Image(image.get_fdata(), image.affine).to_filename(path)
    assert run(study, "--participant-label", "01", *FEW) == 2
    said = capsys.readouterr().err
    assert "RepetitionTime in the .json file of BIDS" in said


@pytest.mark.filterwarnings("ignore:There is no brain mask")
def test_runs_without_a_brain_are_named():
    runs = [SimpleNamespace(path=Path(name), mask=None) for name in ("a.nii", "b.nii")]
    some = build.volume(np.zeros((4, 3, 2, 2)))
    with pytest.raises(ValueError, match=r"^nilearn finds no brain in a\.nii and the "):
        mask_of_runs(runs, "bold", [some, some], None)
