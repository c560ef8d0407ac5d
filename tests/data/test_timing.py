"""When scans were taken, and CIFTI runs: the same default however runs are given."""

import json
import warnings

import nibabel
import numpy as np
import pandas as pd
import pytest
from nibabel.cifti2 import BrainModelAxis, Cifti2Image, ParcelsAxis, SeriesAxis
from numpy.testing import assert_allclose, assert_array_equal

from mvpa_kfda import searchlight, single_trial_betas
from mvpa_kfda.cli.main import main
from tests import build

T_R, SHAPE, N_SCANS = 2.0, (3, 2, 2), 75
MASK = build.mask(np.ones(SHAPE), build.MNI)
EVENTS = pd.DataFrame(
    {"onset": 4.3 + 11.0 * np.arange(12), "duration": 1.0, "trial_type": list("ab" * 6)}
)
NOT_GIVEN = r"slice_time_ref is not given, and no \.json file of the runs has"


def bold(seed=0):
    """Return a run whose header tells the seconds from scan to scan."""
    noise = np.random.default_rng(seed).normal(size=(2, *SHAPE, N_SCANS))
    data = 500 + np.cumsum(noise[0], axis=-1) + 5 * noise[1]
    image = nibabel.Nifti1Image(data, build.MNI)
    image.header.set_xyzt_units("mm", "sec")
    image.header.set_zooms((3, 3, 3, T_R))
    return image


def write_runs(folder, sidecars, ending=".nii.gz"):
    """Write a run for each sidecar, a dict or None; return their paths."""
    paths = []
    for i, sidecar in enumerate(sidecars):
        path = folder / f"sub-1_task-x_run-{i}_bold{ending}"
        bold(i).to_filename(path)
        if sidecar is not None:
            content = sidecar if isinstance(sidecar, str) else json.dumps(sidecar)
            (folder / f"sub-1_task-x_run-{i}_bold.json").write_text(content)
        paths.append(path)
    return paths


def estimate(imgs, **options):
    """Estimate the trials of runs without a warning."""
    n = len(imgs) if isinstance(imgs, list) else 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        options = {"mask_img": MASK} | options
        return single_trial_betas(imgs, [EVENTS] * n, **options)


def values(betas):
    return betas.imgs.get_fdata()


# --------------------------------------------------------------- slices of volumes


@pytest.mark.parametrize("ending", [".nii.gz", ".nii"])
def test_start_time_of_sidecars_is_taken_and_recorded(tmp_path, ending):
    sidecar = {"RepetitionTime": T_R, "StartTime": 0.5, "SliceTimingCorrected": True}
    paths = write_runs(tmp_path, [sidecar, sidecar], ending)
    found = estimate(paths)
    given = estimate([bold(0), bold(1)], t_r=T_R, slice_time_ref=0.25)
    assert_allclose(values(found), values(given), rtol=0, atol=1e-12)
    early = estimate([bold(0), bold(1)], t_r=T_R, slice_time_ref=0)
    assert np.abs(values(found) - values(early)).max() > 1e-2
    names = "t_r", "slice_time_ref", "slice_time_ref_from"
    assert [found.parameters[n] for n in names] == [T_R, 0.25, "StartTime"]
    assert [given.parameters[n] for n in names] == [T_R, 0.25, "given"]


def test_what_nobody_tells_is_zero_and_said(tmp_path):
    early = estimate(bold(), slice_time_ref=0.0)
    (path,) = write_runs(tmp_path, [{"RepetitionTime": T_R}])
    for run in (bold(), path):
        with pytest.warns(RuntimeWarning, match=NOT_GIVEN):
            found = single_trial_betas(run, EVENTS, mask_img=MASK)
        assert found.parameters["slice_time_ref_from"] == "default"
        assert_array_equal(values(found), values(early))


def test_the_time_from_scan_to_scan_is_that_of_sidecars(tmp_path):
    (path,) = write_runs(tmp_path, [{"RepetitionTime": 2.5, "StartTime": 0.0}])
    with pytest.warns(RuntimeWarning, match=r"2.5 is used, but the header of .*run-0"):
        found = single_trial_betas(path, EVENTS, mask_img=MASK)
    assert found.parameters["t_r"] == 2.5
    with pytest.warns(
        RuntimeWarning, match=r"_r=2 is used, but the \.json file of .*run-0"
    ):
        single_trial_betas(path, EVENTS, mask_img=MASK, t_r=2.0, slice_time_ref=0.0)


def test_a_slice_time_that_is_given_comes_first(tmp_path):
    (path,) = write_runs(tmp_path, [{"RepetitionTime": T_R, "StartTime": 1.0}])
    with pytest.warns(RuntimeWarning, match="slice_time_ref=0, but by the StartTime"):
        found = single_trial_betas(path, EVENTS, mask_img=MASK, slice_time_ref=0)
    early = estimate(bold(), slice_time_ref=0)
    assert_array_equal(values(found), values(early))


@pytest.mark.parametrize(
    ("sidecars", "match"),
    [
        ([{"StartTime": 1.0}, {"StartTime": 0.5}], "StartTime is 0.5 s, 1 s. Pass"),
        ([{"StartTime": 1.0}, {}], "StartTime is 1 s, none. Pass slice_time_ref"),
        ([{"StartTime": 3.0}], "StartTime is 3 s. Pass slice_time_ref"),
        ([{"StartTime": 3.0, "RepetitionTime": 2.0}], "0_bold.json: RepetitionTime is"),
        (
            [{"StartTime": None}],
            r"0_bold\.json: StartTime is null, but must be a",
        ),
        ([{"RepetitionTime": "2 s"}], "RepetitionTime is '2 s', but must be a number"),
        ([{"RepetitionTime": 0}], "RepetitionTime is 0 s"),
        ([{"RepetitionTime": 2.0}, {"RepetitionTime": 3.0}], "from 2 to 3 s"),
        (["[2.0]"], r"0_bold\.json holds no names with values"),
        (["{"], r"0_bold\.json is no JSON file"),
    ],
    ids=str,
)
def test_sidecars_that_make_no_sense_are_named(tmp_path, sidecars, match):
    paths = write_runs(tmp_path, sidecars)
    with pytest.raises(ValueError, match=match):
        single_trial_betas(paths, [EVENTS] * len(paths), mask_img=MASK)


def test_the_command_has_the_same_default(tmp_path, capsys):
    (path,) = write_runs(tmp_path, [{"RepetitionTime": T_R, "StartTime": 1.0}])
    EVENTS.to_csv(tmp_path / "events.tsv", sep="\t", index=False)
    MASK.to_filename(tmp_path / "mask.nii")
    command = ["betas", path, "--events", tmp_path / "events.tsv", "--out", tmp_path]
    command += ["--mask-img", tmp_path / "mask.nii"]
    assert main([*map(str, command)]) == 0
    told = capsys.readouterr()
    assert told.err == ""
    assert "slice times at 0.5 of the TR (StartTime)" in told.out
    (made,) = tmp_path.glob("*_betas.nii.gz")
    found = nibabel.load(made).get_fdata()
    expected = values(estimate(bold(), slice_time_ref=0.5))
    assert_allclose(found, expected, rtol=0, atol=1e-12)
    path.with_name("sub-1_task-x_run-0_bold.json").unlink()
    assert main([*map(str, command)]) == 0
    told = capsys.readouterr()
    assert "warning: slice_time_ref is not given" in told.err
    assert "slice times at 0 of the TR (default)" in told.out


# -------------------------------------------------------------------------- CIFTI runs

AXIS = BrainModelAxis.from_mask(np.ones(SHAPE), "thalamus_left", build.MNI)
PARCELS = ParcelsAxis.from_brain_models([("one", AXIS[:5]), ("two", AXIS[5:])])


def dtseries(seed=0, axis=AXIS, columns=slice(None)):
    """Return the data of a run as a CIFTI file."""
    data = bold(seed).get_fdata().reshape(-1, N_SCANS).T[:, columns]
    rows = SeriesAxis(0, T_R, N_SCANS)
    image = Cifti2Image(data, (rows, axis), dtype=np.float64)
    image.nifti_header.set_intent("ConnDenseSeries")
    return image


def test_cifti_files_have_the_numbers_of_volumes(tmp_path):
    runs = [dtseries(0), dtseries(1)]
    expected = estimate([bold(0), bold(1)], slice_time_ref=0.5)
    found = estimate(runs, slice_time_ref=0.5, mask_img=None)
    assert isinstance(found.imgs, Cifti2Image)
    flat = values(expected).reshape(-1, 24).T
    assert_allclose(values(found), flat, rtol=0, atol=1e-9)
    options = {"y": (found.table, "trial_type"), "groups": "run", "radius": 3.0}
    scores = searchlight(found.imgs, mask_img=found.mask_img, **options).scores
    of_volumes = searchlight(expected.imgs, mask_img=expected.mask_img, **options)
    assert_array_equal(scores, of_volumes.scores)
    path = tmp_path / "betas.dscalar.nii"
    found.imgs.to_filename(path)
    assert_array_equal(searchlight(path, **options).scores, scores)


def test_masks_and_parcels_of_cifti_files():
    marked = np.arange(12) % 3 > 0
    mask = build.cifti_of(marked[np.newaxis].astype(float), AXIS)
    whole = values(estimate(dtseries(), slice_time_ref=0, mask_img=None))
    found = estimate(dtseries(), slice_time_ref=0, mask_img=mask)
    assert_array_equal(values(found), np.where(marked, whole, 0))
    assert_array_equal(found.mask_img.get_fdata()[0], marked)
    found = estimate(
        dtseries(axis=PARCELS, columns=[0, 7]), slice_time_ref=0, mask_img=None
    )
    assert found.mask_img is None
    assert_array_equal(values(found), whole[:, [0, 7]])


@pytest.mark.parametrize(
    ("changes", "error", "match"),
    [
        ({"smoothing_fwhm": 4.0}, ValueError, "smoothing_fwhm is for volumes"),
        ({"imgs": build.cifti_of(np.ones((9, 12)), AXIS)}, ValueError, "no time seri"),
        ({"imgs": [dtseries(), bold()]}, TypeError, "imgs.* must be a CIFTI image"),
    ],
    ids=["smoothing", "scalars", "mixture"],
)
def test_refused_of_cifti_files(changes, error, match):
    given = {"imgs": dtseries(), "slice_time_ref": 0.0} | changes
    with pytest.raises(error, match=match):
        single_trial_betas(given.pop("imgs"), EVENTS, **given)


def test_the_command_writes_cifti_files_that_its_advice_decodes(tmp_path, capsys):
    path = tmp_path / "sub-1_bold.dtseries.nii"
    dtseries().to_filename(path)
    content = {"RepetitionTime": T_R, "StartTime": 1.0}
    (tmp_path / "sub-1_bold.json").write_text(json.dumps(content))
    EVENTS.to_csv(tmp_path / "events.tsv", sep="\t", index=False)
    command = ["betas", path, "--events", tmp_path / "events.tsv", "--out", tmp_path]
    assert main([*map(str, command)]) == 0
    told = capsys.readouterr().out
    names = sorted(p.name for p in tmp_path.glob("*_betas*"))
    stem = "sub-1_bold_betas"
    assert names == [f"{stem}.dscalar.nii", f"{stem}.tsv", f"{stem}_mask.dscalar.nii"]
    expected = values(estimate(dtseries(), slice_time_ref=0.5, mask_img=None))
    found = nibabel.load(tmp_path / f"{stem}.dscalar.nii").get_fdata()
    assert_allclose(found, expected, rtol=0, atol=1e-12)
    (line,) = (t for t in told.splitlines() if t.startswith("Decode them: "))
    words = line.removeprefix("Decode them: mvpa-kfda ").split(" ")
    more = ["--n-permutations", "0", "--radius", "3", "--cv", "2"]
    assert main([*words, *more, "--out", str(tmp_path)]) == 0
