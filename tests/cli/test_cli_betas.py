"""The command for single trials: the numbers of the function, from files to files."""

import json

import nibabel
import numpy as np
import pandas as pd
import pytest
from nibabel import Nifti1Image
from nilearn.interfaces.fmriprep import load_confounds
from numpy.testing import assert_allclose, assert_array_equal

from mvpa_kfda import load_result, single_trial_betas
from mvpa_kfda.cli.main import main
from tests import bids_data

AFFINE = np.diag([3.0, 3, 3, 1])
MOTION = [f"{kind}_{axis}" for kind in ("trans", "rot") for axis in "xyz"]
NAMES = [f"sub-1_task-x_run-{i}_desc-preproc" for i in (1, 2)]
BOLD = [f"{name}_bold.nii.gz" for name in NAMES]
EVENTS = ["run-1_events.tsv", "run-2_events.tsv"]
MASK = ["--mask-img", "mask.nii.gz"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with two runs as fMRIPrep names them, their events and confounds."""
    folder = tmp_path_factory.mktemp("bold")
    for i, (image, table) in enumerate(zip(BOLD, EVENTS, strict=True)):
        rng = np.random.default_rng(i)
        data = rng.normal(500, 5, size=(3, 3, 3, 80))
        run = Nifti1Image(data.astype(np.float32), AFFINE)
        run.header.set_zooms((3, 3, 3, 2.0))
        run.header.set_xyzt_units("mm", "sec")
        run.to_filename(folder / image)
        events = pd.DataFrame({"onset": np.arange(13) * 10.0, "duration": 1.0})
        events["trial_type"] = [*rng.permutation(["face", "house"] * 6), "key"]
        events["answer"] = [None, *range(12)]
        events.to_csv(folder / table, sep="\t", index=False, na_rep="n/a")
        motion = pd.DataFrame(rng.normal(size=(80, 6)), columns=MOTION)
        for name in MOTION:
            change = motion[name].diff()
            motion[f"{name}_derivative1"] = change
            motion[f"{name}_power2"] = motion[name] ** 2
            motion[f"{name}_derivative1_power2"] = change**2
        stem = f"sub-1_task-x_run-{i + 1}_desc-confounds_timeseries"
        motion.to_csv(folder / f"{stem}.tsv", sep="\t", index=False, na_rep="n/a")
        (folder / f"{stem}.json").write_text(json.dumps({}))
    mask = Nifti1Image(np.ones((3, 3, 3), np.uint8), AFFINE)
    mask.to_filename(folder / "mask.nii.gz")
    return folder


@pytest.fixture
def inside(folder, monkeypatch):
    """Stay in that folder."""
    monkeypatch.chdir(folder)
    return folder


def test_every_option_reaches_the_function(inside, tmp_path, capsys):
    options = [
        *("--method", "lsa", "--conditions", "face", "house", "--t-r", "2.0"),
        *("--slice-time-ref", "0.5", "--hrf-model", "spm + derivative"),
        *("--drift-model", "polynomial", "--drift-order", "2", "--high-pass", "0.02"),
        *("--smoothing-fwhm", "4", "--noise-model", "ar1", "--dtype", "float32"),
        *(
            *("--signal-scaling", "False"),
            "--confounds",
            *sorted(map(str, inside.glob("*timeseries.tsv"))),
        ),
        *("--confound-columns", "rot_x", "trans_z"),
    ]
    command = ["betas", *BOLD, "--events", *EVENTS, *MASK, *options]
    assert main([*command, "--out", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out
    tables = sorted(inside.glob("*timeseries.tsv"))
    expected = single_trial_betas(
        BOLD,
        EVENTS,
        method="lsa",
        conditions=["face", "house"],
        t_r=2.0,
        slice_time_ref=0.5,
        hrf_model="spm + derivative",
        drift_model="polynomial",
        drift_order=2,
        high_pass=0.02,
        smoothing_fwhm=4.0,
        noise_model="ar1",
        dtype="float32",
        signal_scaling=False,
        confounds=[pd.read_csv(t, sep="\t")[["rot_x", "trans_z"]] for t in tables],
        mask_img="mask.nii.gz",
    )
    stem = f"{BOLD[0].removesuffix('.nii.gz')}_betas"
    found = nibabel.load(tmp_path / "out" / f"{stem}.nii.gz")
    assert found.get_data_dtype() == np.float32
    assert_array_equal(found.get_fdata(), expected.imgs.get_fdata())
    table = pd.read_csv(tmp_path / "out" / f"{stem}.tsv", sep="\t")
    pd.testing.assert_frame_equal(table, expected.table, check_dtype=False)
    mask = nibabel.load(tmp_path / "out" / f"{stem}_mask.nii.gz")
    assert_array_equal(mask.get_fdata(), 1)
    assert "Estimated 24 trials of 2 runs by lsa: face 12, house 12\n" in printed
    assert f"{stem}.tsv --label-column trial_type --groups run --mask-img" in printed


def test_estimates_are_decoded_by_the_command_that_is_printed(inside, tmp_path, capsys):
    out = ["--out", str(tmp_path)]
    command = ["betas", *BOLD, "--events", *EVENTS, "--conditions", "face", "house"]
    assert main([*command, *MASK, *out]) == 0
    (line,) = (
        line.partition("mvpa-kfda ")[2]
        for line in capsys.readouterr().out.splitlines()
        if line.startswith("Decode them: ")
    )
    more = ["--n-permutations", "0", "--radius", "4"]
    assert main([*line.split(" "), *more, *out]) == 0
    (path,) = tmp_path.glob("*.h5")
    result = load_result(path)
    assert result.groups.tolist() == [1] * 12 + [2] * 12
    assert result.classes.tolist() == ["face", "house"]


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_confounds_of_fmriprep(inside, tmp_path):
    command = ["betas", *BOLD, "--events", *EVENTS, *MASK, "--fmriprep", "motion"]
    command += ["--drift-model", "None"]
    assert main([*command, "--out", str(tmp_path)]) == 0
    confounds, kept = load_confounds(BOLD, strategy=["motion"])
    assert confounds[0].shape == (80, 24)
    options = {"confounds": confounds, "sample_masks": kept, "drift_model": None}
    betas = single_trial_betas(BOLD, EVENTS, mask_img="mask.nii.gz", **options)
    (path,) = tmp_path.glob("*_betas.nii.gz")
    found = nibabel.load(path).get_fdata()
    assert_allclose(found, betas.imgs.get_fdata(), rtol=0, atol=1e-12)


@pytest.fixture(scope="module")
def preprocessed(tmp_path_factory):
    """Two runs of fMRIPrep with components, cosines and measures of motion."""
    root = tmp_path_factory.mktemp("prep")
    bids_data.write_fmri(root / "raw", root / "prep", ("01",), 2)
    bids_data.add_confounds(root / "prep")
    bold = sorted((root / "prep").rglob("*_bold.nii.gz"))
    events = sorted((root / "raw").rglob("*_events.tsv"))
    masks = sorted((root / "prep").rglob("*_mask.nii.gz"))
    return ["betas", *bold, "--events", *events, "--mask-img", masks[0]], bold, events


@pytest.mark.parametrize(
    ("given", "strategy", "tuned", "drifts"),
    [
        ("compcor", ("compcor", "high_pass"), {}, None),
        ("compcor --n-compcor 1", ("compcor", "high_pass"), {"n_compcor": 1}, None),
        ("scrub --fd-threshold 0.3", ("scrub",), {"fd_threshold": 0.3}, "cosine"),
    ],
)
def test_drifts_of_fmriprep_take_the_place_of_others(
    preprocessed, tmp_path, capsys, given, strategy, tuned, drifts
):
    command, bold, events = preprocessed
    command = [*command, "--fmriprep", *given.split(" "), "--out", tmp_path]
    assert main([*map(str, command)]) == 0
    told = capsys.readouterr()
    assert told.err == ""
    assert ("no drift model other than confounds" in told.out) == (drifts is None)
    confounds, kept = load_confounds([*map(str, bold)], strategy=strategy, **tuned)
    betas = single_trial_betas(
        bold,
        events,
        confounds=confounds,
        sample_masks=kept,
        drift_model=drifts,
        mask_img=command[command.index("--mask-img") + 1],
    )
    (path,) = tmp_path.glob("*_betas.nii.gz")
    expected = betas.imgs.get_fdata()
    assert_allclose(nibabel.load(path).get_fdata(), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (
            ["--fmriprep", "compcor", "--drift-model", "cosine"],
            "and --drift-model woul",
        ),
        (["--fmriprep", "high_pass", "--high-pass", "0.01"], "and --high-pass would a"),
        (["--fmriprep", "motion", "--n-compcor", "3"], "n_compcor=3 is for --fmripr"),
        (["--fd-threshold", "0.3"], "--fd-threshold tunes confounds of fMRIPrep. Add"),
        (
            ["--fmriprep", "scrub", "--fd-threshold", "0"],
            "Invalid value for 'fd_thres",
        ),
        (["--fmriprep", "scrub", "--fd-threshold", "0.01"], "leaves no scan. Raise"),
        (["--fmriprep", "wm_csf"], "bold.nii.gz: nilearn finds no confounds 'wm_csf'"),
    ],
    ids=str,
)
def test_confounds_of_fmriprep_that_cannot_be(
    preprocessed, tmp_path, capsys, options, line
):
    command = [*preprocessed[0], *options, "--out", tmp_path]
    assert main([*map(str, command)]) == 2
    *_, said = capsys.readouterr().err.splitlines()  # nilearn may warn before
    assert said.startswith("mvpa-kfda: error: ")
    assert line in said


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--events", "no.tsv"], "no such file: no.tsv"),
        (["--events", EVENTS[0]], "imgs holds 2 runs but events 1 item"),
        (["--events", *EVENTS[::-1]], "List imgs and events in the same order"),
        (["--t-r", "0"], "Invalid value for 't_r': 0"),
        (["--conditions", "cat"], "conditions names 'cat', which no trial_type is"),
        (["--confound-columns", "x"], "Add --confounds TABLE, or leave it out"),
        (["--fmriprep", "motion", "--confounds", *EVENTS], "Use either --fmriprep or"),
        (
            ["--confounds", *EVENTS, "--confound-columns", "x"],
            "run-1_events.tsv has no column 'x', which --confound-columns names",
        ),
    ],
    ids=str,
)
def test_refused_in_one_line(inside, tmp_path, capsys, options, line):
    command = [
        "betas",
        *BOLD,
        *([] if "--events" in options else ["--events", *EVENTS]),
    ]
    status = main([*command, *options, *MASK, "--out", str(tmp_path)])
    printed = capsys.readouterr().err
    assert status == 2
    assert printed.startswith("mvpa-kfda: error: ")
    assert line in printed
    assert printed.count("\n") == 1
