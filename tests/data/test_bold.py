"""Runs of volumes, surfaces and CIFTI files: time, events and what else is given."""

import json
import re
import time
import warnings

import nibabel
import numpy as np
import pandas as pd
import pytest
from nibabel.cifti2 import BrainModelAxis, Cifti2Image, ParcelsAxis, SeriesAxis
from nilearn.surface import SurfaceImage
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
    """Write a run for each sidecar, a dict, text or None; return their paths."""
    paths = []
    for i, sidecar in enumerate(sidecars):
        path = folder / f"sub-1_task-x_run-{i}_bold{ending}"
        bold(i).to_filename(path)
        if sidecar is not None:
            content = sidecar if isinstance(sidecar, str) else json.dumps(sidecar)
            (folder / f"sub-1_task-x_run-{i}_bold.json").write_text(content)
        paths.append(path)
    return paths


def estimate(imgs, events=EVENTS, **options):
    """Estimate the trials of runs without a warning."""
    events = [events] * len(imgs) if isinstance(imgs, list) else events
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        options = {"mask_img": MASK} | options
        return single_trial_betas(imgs, events, **options)


def values(betas):
    return betas.imgs.get_fdata()


# ----------------------------------------------------------------------- times of scans


@pytest.mark.parametrize("ending", [".nii.gz", ".nii"])
def test_start_time_of_sidecars_is_taken_and_recorded(tmp_path, ending):
    sidecar = {"RepetitionTime": T_R, "StartTime": 0.5, "SliceTimingCorrected": True}
    found = estimate(write_runs(tmp_path, [sidecar, sidecar], ending))
    given = estimate([bold(0), bold(1)], t_r=T_R, slice_time_ref=0.25)
    assert_allclose(values(found), values(given), rtol=0, atol=1e-12)
    early = estimate([bold(0), bold(1)], t_r=T_R, slice_time_ref=0)
    assert np.abs(values(found) - values(early)).max() > 1e-2
    names = "t_r", "slice_time_ref", "slice_time_ref_from"
    assert [found.parameters[n] for n in names] == [T_R, 0.25, "StartTime"]
    assert [given.parameters[n] for n in names] == [T_R, 0.25, "given"]


def test_of_times_what_is_given_comes_first_then_sidecars_then_headers(tmp_path):
    early = estimate(bold(), slice_time_ref=0.0)
    (path,) = write_runs(tmp_path, [{"RepetitionTime": T_R}])
    for run in (bold(), path):
        with pytest.warns(RuntimeWarning, match=NOT_GIVEN):
            found = single_trial_betas(run, EVENTS, mask_img=MASK)
        assert found.parameters["slice_time_ref_from"] == "default"
        assert_array_equal(values(found), values(early))
    (path,) = write_runs(tmp_path, [{"RepetitionTime": T_R, "StartTime": 1.0}])
    with pytest.warns(RuntimeWarning, match="slice_time_ref=0, but by the StartTime"):
        found = single_trial_betas(path, EVENTS, mask_img=MASK, slice_time_ref=0)
    assert_array_equal(values(found), values(early))
    (path,) = write_runs(tmp_path, [{"RepetitionTime": 2.5, "StartTime": 0.0}])
    with pytest.warns(RuntimeWarning, match=r"2.5 is used, but the header of .*run-0"):
        found = single_trial_betas(path, EVENTS, mask_img=MASK)
    assert found.parameters["t_r"] == 2.5
    match = r"_r=2 is used, but the \.json file of .*run-0"
    with pytest.warns(RuntimeWarning, match=match):
        single_trial_betas(path, EVENTS, mask_img=MASK, t_r=2.0, slice_time_ref=0.0)
    in_ms = bold()
    in_ms.header.set_xyzt_units("mm", "msec")
    in_ms.header.set_zooms((3, 3, 3, 1000 * T_R))
    found = estimate(in_ms, slice_time_ref=0.0)
    assert_array_equal(values(found), values(early))


@pytest.mark.parametrize(
    ("sidecars", "match"),
    [
        ([{"StartTime": 1.0}, {"StartTime": 0.5}], "StartTime is 0.5 s, 1 s. Pass"),
        ([{"StartTime": 1.0}, {}], "StartTime is 1 s, none. Pass slice_time_ref"),
        ([{"StartTime": 3.0}], "StartTime is 3 s. Pass slice_time_ref"),
        ([{"StartTime": 3.0, "RepetitionTime": 2.0}], "0_bold.json: RepetitionTime is"),
        ([{"StartTime": None}], r"0_bold\.json: StartTime is null, but must be a"),
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


def test_the_command_has_the_same_defaults(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("mvpa_kfda.cli.output.save_figure", lambda *_, **__: None)
    path, stem = tmp_path / "sub-1_bold.dtseries.nii", "sub-1_bold_betas"
    dtseries().to_filename(path)
    sidecar = tmp_path / "sub-1_bold.json"
    sidecar.write_text(json.dumps({"RepetitionTime": T_R, "StartTime": 1.0}))
    EVENTS.to_csv(tmp_path / "events.tsv", sep="\t", index=False)
    command = ["betas", path, "--events", tmp_path / "events.tsv", "--out", tmp_path]
    assert main([*map(str, command)]) == 0
    told = capsys.readouterr()
    assert told.err == ""
    assert "slice times at 0.5 of the TR (StartTime)" in told.out
    names = sorted(p.name for p in tmp_path.glob("*_betas*"))
    assert names == [f"{stem}.dscalar.nii", f"{stem}.tsv", f"{stem}_mask.dscalar.nii"]
    expected = values(estimate(dtseries(), slice_time_ref=0.5, mask_img=None))
    found = nibabel.load(tmp_path / f"{stem}.dscalar.nii").get_fdata()
    assert_allclose(found, expected, rtol=0, atol=1e-12)
    (line,) = (t for t in told.out.splitlines() if t.startswith("Decode them: "))
    words = line.removeprefix("Decode them: mvpa-kfda ").split(" ")
    more = ["--n-permutations", "0", "--radius", "3", "--cv", "2"]
    assert main([*words, *more, "--out", str(tmp_path)]) == 0
    sidecar.unlink()
    assert main([*map(str, command)]) == 0
    told = capsys.readouterr()
    assert "warning: slice_time_ref is not given" in told.err
    assert "slice times at 0 of the TR (default)" in told.out


# ------------------------------------------------------------------- CIFTI and surfaces

AXIS = BrainModelAxis.from_mask(np.ones(SHAPE), "thalamus_left", build.MNI)
PARCELS = ParcelsAxis.from_brain_models([("one", AXIS[:5]), ("two", AXIS[5:])])


def dtseries(seed=0, axis=AXIS, columns=slice(None)):
    """Return the data of a run as a CIFTI file."""
    data = bold(seed).get_fdata().reshape(-1, N_SCANS).T[:, columns]
    rows = SeriesAxis(0, T_R, N_SCANS)
    image = Cifti2Image(data, (rows, axis), dtype=np.float64)
    image.nifti_header.set_intent("ConnDenseSeries")
    return image


def test_cifti_files_and_surfaces_have_the_numbers_of_volumes(tmp_path):
    expected = estimate([bold(0), bold(1)], slice_time_ref=0.5)
    flat = values(expected).reshape(-1, 24).T
    found = estimate([dtseries(0), dtseries(1)], slice_time_ref=0.5, mask_img=None)
    assert isinstance(found.imgs, Cifti2Image)
    assert_allclose(values(found), flat, rtol=0, atol=1e-9)
    options = {"y": (found.table, "trial_type"), "groups": "run", "radius": 3.0}
    scores = searchlight(found.imgs, mask_img=found.mask_img, **options).scores
    of_volumes = searchlight(expected.imgs, mask_img=expected.mask_img, **options)
    assert_array_equal(scores, of_volumes.scores)
    path = tmp_path / "betas.dscalar.nii"
    found.imgs.to_filename(path)
    assert_array_equal(searchlight(path, **options).scores, scores)
    marked = np.arange(12) % 3 > 0
    mask = build.cifti_of(marked[np.newaxis].astype(float), AXIS)
    masked = estimate([dtseries(0), dtseries(1)], slice_time_ref=0.5, mask_img=mask)
    assert_allclose(values(masked), np.where(marked, flat, 0), rtol=0, atol=1e-9)
    assert_array_equal(masked.mask_img.get_fdata()[0], marked)
    parcels = [dtseries(i, PARCELS, [0, 7]) for i in range(2)]
    found = estimate(parcels, slice_time_ref=0.5, mask_img=None)
    assert found.mask_img is None
    assert_allclose(values(found), flat[:, [0, 7]], rtol=0, atol=1e-9)
    surfaces = [
        build.surface(*np.split(bold(i).get_fdata().reshape(12, -1).T, 2, axis=1))
        for i in range(2)
    ]
    found = estimate(surfaces, t_r=T_R, slice_time_ref=0.5, mask_img=None)
    assert isinstance(found.imgs, SurfaceImage)
    on_both = np.concatenate(list(found.imgs.data.parts.values())).T
    assert_allclose(on_both, flat, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"smoothing_fwhm": 4.0}, "smoothing_fwhm is for volumes"),
        ({"imgs": build.cifti_of(np.ones((9, 12)), AXIS)}, "no time seri"),
        ({"imgs": [dtseries(), bold()]}, "imgs.* must be a CIFTI image"),
        ({"imgs": np.ones((2, 2))}, "imgs must be the 4D image of a run"),
        ({"imgs": [bold().slicer[..., :2]] * 2}, "a run must be a 4D image"),
    ],
    ids=["smoothing", "scalars", "mixture", "array", "short"],
)
def test_what_is_no_run_is_refused(changes, match):
    given = {"imgs": dtseries(), "slice_time_ref": 0.0} | changes
    with pytest.raises((TypeError, ValueError), match=match):
        single_trial_betas(given.pop("imgs"), EVENTS, **given)


# ------------------------------------------------------------------------------- events


def of_run(events=EVENTS, imgs=None, **options):
    """Estimate a run, or others."""
    options = {"mask_img": MASK, "t_r": T_R, "slice_time_ref": 0.0} | options
    return single_trial_betas(bold() if imgs is None else imgs, events, **options)


def changed(row=11, **cells):
    """Return the events with other values in one row."""
    table = EVENTS.astype(object)
    for name, value in cells.items():
        table.loc[row, name] = value
    return table


def test_names_of_runs_and_whole_numbers_as_types():
    numbered = EVENTS.assign(trial_type=EVENTS["trial_type"].map({"a": 0, "b": 2}))
    tables = [numbered.assign(run=name) for name in ("late", "early")]
    tables[0].loc[50] = [1.0, 1.0, None, "late"]
    runs = [bold(0), bold(1)]
    with pytest.warns(RuntimeWarning, match=r"^events\[0\]: 1 event without .* is not"):
        betas = of_run(tables, runs)
    assert betas.table["run"].unique().tolist() == ["late", "early"]
    assert betas.table["trial_type"].unique().tolist() == [0, 2]
    named = of_run([EVENTS, EVENTS], runs)
    assert_allclose(values(betas), values(named), rtol=0, atol=1e-12)
    tables = [numbered.assign(run="late")] * 2
    with pytest.raises(ValueError, match="The column 'run' of events must have one"):
        of_run(tables, runs)


@pytest.mark.parametrize(
    ("table", "match"),
    [
        (changed(onset=147.0), r"kept for 1 trial \('b' at 147 s of the run\)"),
        (changed(3, duration=30.0), "1 trial of 12 began before the previous"),
        (EVENTS.assign(duration=0.0), "All trials have a duration of 0, and"),
    ],
)
def test_what_is_doubtful_is_said(table, match):
    with pytest.warns(RuntimeWarning, match=match):
        of_run(table)


@pytest.mark.parametrize(
    ("events", "match"),
    [
        (EVENTS.drop(columns="duration"), "has no column 'duration'"),
        (EVENTS[:0], "has no rows"),
        (changed(2, onset=float("nan")), "onset is 'nan' in row 2 .* wrong in 1 of"),
        (changed(2, duration=-1), "duration is '-1' in row 2"),
        (changed(2, onset="soon"), "onset is 'soon' in row 2"),
        (changed(onset=200), "to 150 s, and does not contain 1 trial"),
        (changed(0, onset=-3), r"1 trial \(the first: onset -3 s\)"),
        (changed(0, duration=0), "1 trial of 12 with a duration of 0"),
        (EVENTS.assign(onset=1.0), "two trials have the onset 1 s"),
        (EVENTS.assign(modulation=2.0), "a modulation other than 1"),
        (EVENTS.assign(trial_type="q"), "conditions names 'a', which no trial_type is"),
        (np.ones(3), r"events must be a DataFrame or a path"),
        ([EVENTS] * 2, "imgs holds 1 run but events 2 items"),
    ],
)
def test_events_that_are_refused(events, match):
    with pytest.raises((TypeError, ValueError), match=match):
        of_run(events, conditions="a" if "conditions" in match else None)


@pytest.mark.parametrize("value", [151.0, 1e9, 1e300])
@pytest.mark.parametrize("kind", ["a", "q"])
def test_durations_beyond_the_run_are_refused_before_any_work(value, kind):
    table, start = changed(duration=value, trial_type=kind), time.process_time()
    with pytest.raises(ValueError, match=r"s, but the whole run 150 s \(1 such"):
        of_run(table, conditions=["a", "b"])
    assert time.process_time() - start < 1


def test_mistakes_in_files_are_named_by_file_and_line(tmp_path):
    path = tmp_path / "events.tsv"
    for name, value, match in (
        ("onset", "soon", "onset is 'soon' in line 13, and wrong in 1 of 12 rows"),
        ("onset", "n/a", "onset is 'n/a' in line 13"),
        ("duration", "-1", r"duration is '-1(\.0)?' in line 13"),
    ):
        changed(**{name: value}).to_csv(path, sep="\t", index=False)
        with pytest.raises(ValueError, match=f"{re.escape(str(path))}: {match}"):
            of_run(path)
    tables = [EVENTS, EVENTS.assign(trial_type="q")]
    with pytest.raises(ValueError, match="run 2 holds no trials of interest"):
        of_run(tables, [bold(0), bold(1)], conditions=["a", "b"])


# ---------------------------------------------------------- what else is given for runs


def test_scans_without_signal():
    data = bold().get_fdata().copy()
    data[..., 60:] = 0
    empty = nibabel.Nifti1Image(data, build.MNI)
    with pytest.raises(ValueError, match=r"15 scans of 75 without .* scan 60,"):
        of_run(imgs=empty)
    of_run(EVENTS[:9], empty, sample_masks=np.arange(60))
    data = bold().get_fdata().copy()
    data[..., 7] = 4
    with pytest.warns(RuntimeWarning, match="1 scan of 75 without any signal"):
        of_run(imgs=nibabel.Nifti1Image(data, build.MNI))


def test_drifts_of_fmriprep_are_no_second_model():
    cosines = pd.DataFrame(
        {f"cosine0{k}": np.cos(np.pi * (k + 1) * np.arange(75) / 75) for k in (0, 1)}
    )
    with pytest.warns(RuntimeWarning, match="twice: by .* confounds, 'cosine00', 'cos"):
        of_run(confounds=cosines)
    estimate(bold(), confounds=cosines, drift_model=None, slice_time_ref=0.0)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"confounds": np.ones((64, 2))}, r"confounds has 64 rows, but the run has 75"),
        ({"confounds": np.full((75, 3), np.nan)}, "infinite values in 3 of 3 columns"),
        (
            {"confounds": pd.DataFrame({"x": ["much"] * 75})},
            "hold numbers only",
        ),
        ({"confounds": [(EVENTS, None)]}, "load_confounds returns, pass"),
        ({"confounds": [None, None]}, "imgs holds 1 run but confounds 2 items"),
        ({"sample_masks": np.array([3, 1])}, r"sample_masks must hold the numbers"),
        ({"sample_masks": np.array([3, 75])}, r"sample_masks must hold the numbers"),
        ({"conditions": []}, "conditions names nothing"),
    ],
)
def test_what_is_given_for_runs_must_fit(given, match):
    with pytest.raises((TypeError, ValueError), match=match):
        of_run(**given)
