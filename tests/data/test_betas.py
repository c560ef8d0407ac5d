"""Single trials of BOLD runs: equal to nilearn's models, refused where senseless."""

import re
import time
import warnings

import numpy as np
import pandas as pd
import pytest
from nibabel import Nifti1Image
from nilearn.glm.first_level import FirstLevelModel, make_first_level_design_matrix
from nilearn.maskers import NiftiMasker
from nilearn.masking import apply_mask
from nilearn.surface import SurfaceImage
from numpy.testing import assert_allclose, assert_array_equal

from mvpa_kfda import (
    decode_regions,
    methods_text,
    searchlight,
    single_trial_betas,
)
from tests import build

AFFINE = np.diag([3.0, 3, 3, 1])
SHAPE = (3, 2, 2)
MASK = Nifti1Image(np.ones(SHAPE, np.uint8), AFFINE)
T_R = 2.0
LENGTHS = 75, 64
ABC = ["a", "b", "c"]
NAN = float("nan")


pytestmark = [
    pytest.mark.filterwarnings("ignore:.*Generation of a mask has been requested"),
    pytest.mark.filterwarnings("ignore:nilearn says"),
    pytest.mark.filterwarnings("ignore:slice_time_ref is not given"),
]


def bold(n=LENGTHS[0], seed=0):
    """Return a run with drifts and noise on a baseline."""
    steps = np.random.default_rng([seed, 7]).normal(size=(2, *SHAPE, n))
    return Nifti1Image(500 + np.cumsum(steps[0], axis=-1) + 5 * steps[1], AFFINE)


def events(n_scans=LENGTHS[0], seed=0, types="abcabcbqacbaq"):
    """Return events with responses that overlap, in no order of time."""
    rng = np.random.default_rng([seed, 8])
    n = len(types)
    gaps = rng.uniform(0.7, 1.3, n)
    onsets = np.cumsum(gaps) / gaps.sum() * (n_scans * T_R - 30)
    table = pd.DataFrame(
        {
            "onset": onsets.round(2),
            "duration": rng.uniform(0.5, 3, n).round(2),
            "trial_type": list(types),
            "word": [f"word {i}" for i in range(n)],
        }
    )
    return table.sample(frac=1, random_state=seed)


def moved(n_scans=LENGTHS[0], seed=0, k=3):
    """Return confounds of a run."""
    rng = np.random.default_rng([seed, 9])
    return pd.DataFrame(rng.normal(size=(n_scans, k)), columns=list("xyz")[:k])


RUNS = [bold(n, i) for i, n in enumerate(LENGTHS)]
EVENTS = [events(n, i) for i, n in enumerate(LENGTHS)]
CONFOUNDS = [moved(n, i) for i, n in enumerate(LENGTHS)]


def response(t_r, oversampling=50):
    """Return a haemodynamic response of one's own."""
    t = np.arange(0, 20, t_r / oversampling)
    return t * np.exp(-t / 3)


def by_nilearn(run, table, method, confounds, sample_masks=None, **options):
    """Return estimates (n_trials, n_voxels) by a FirstLevelModel for each trial."""
    table = table.sort_values("onset", ignore_index=True)
    trials, found = np.flatnonzero(table["trial_type"].isin(ABC)), []
    for i in trials:
        names = table["trial_type"].to_numpy(dtype=object, copy=True)
        names[trials] = "others"
        for j in trials if method == "lsa" else [i]:
            names[j] = f"trial {j:02d}"
        model = FirstLevelModel(**{"mask_img": MASK, "t_r": T_R} | options)
        known = table[["onset", "duration"]].assign(trial_type=names)
        model.fit(run, known, confounds, sample_masks)
        columns = model.design_matrices_[0].columns
        own = [str(column).startswith(f"trial {i:02d}") for column in columns]
        contrast = np.zeros(len(columns))
        contrast[own.index(True)] = 1
        image = model.compute_contrast(contrast, output_type="effect_size")
        found.append(apply_mask(image, MASK))
    return np.array(found)


def estimates(betas):
    """Return estimates (n_trials, n_voxels)."""
    return apply_mask(betas.imgs, MASK, ensure_finite=False)


def of_first(**changes):
    """Estimate the first run, whose description is changed."""
    options = {"t_r": T_R, "mask_img": MASK, "conditions": ABC}
    given = {"imgs": RUNS[0], "events": EVENTS[0]} | options | changes
    return single_trial_betas(given.pop("imgs"), given.pop("events"), **given)


# ------------------------------------------------------------------ equal to nilearn


@pytest.mark.some(4)
@pytest.mark.parametrize(
    ("method", "noise_model", "hrf_model"),
    [
        ("lss", "ols", "glover"),
        ("lss", "ols", "spm + derivative"),
        ("lss", "ols", "glover + derivative + dispersion"),
        ("lss", "ols", response),
        ("lss", "ols", [response]),
        ("lss", "ar1", "spm"),
        ("lss", "ar1", "glover + derivative"),
        ("lsa", "ols", "spm"),
        ("lsa", "ols", "glover + derivative"),
        ("lsa", "ar1", "glover"),
    ],
)
def test_equal_to_models_of_nilearn(method, noise_model, hrf_model):
    options = {"hrf_model": hrf_model, "noise_model": noise_model}
    betas = single_trial_betas(
        RUNS,
        EVENTS,
        t_r=T_R,
        method=method,
        conditions=ABC,
        confounds=CONFOUNDS,
        mask_img=MASK,
        **options,
    )
    expected = [
        by_nilearn(run, table, method, confounds, **options)
        for run, table, confounds in zip(RUNS, EVENTS, CONFOUNDS, strict=True)
    ]
    assert np.abs(expected[0]).mean() > 0.01
    found = estimates(betas)
    assert_allclose(found, np.concatenate(expected), rtol=0, atol=1e-8)


@pytest.mark.some(5)
@pytest.mark.parametrize(
    "options",
    [
        {"drift_model": "polynomial", "drift_order": 3},
        {"drift_model": None, "slice_time_ref": 0.5},
        {"high_pass": 0.02, "signal_scaling": False},
        {"smoothing_fwhm": 5.0},
        {"sample_masks": np.delete(np.arange(LENGTHS[0]), [0, 1, 30, 31])},
    ],
    ids=lambda options: " ".join(options),
)
@pytest.mark.parametrize("method", ["lss", "lsa"])
def test_every_option_means_what_it_does_in_nilearn(method, options):
    expected = by_nilearn(
        RUNS[0], EVENTS[0], method, CONFOUNDS[0], noise_model="ols", **options
    )
    found = estimates(of_first(method=method, confounds=CONFOUNDS[0], **options))
    assert_allclose(found, expected, rtol=0, atol=1e-8)
    plain = estimates(of_first(method=method, confounds=CONFOUNDS[0]))
    assert np.abs(found - plain).max() > 1e-3


def test_derivatives_are_orthogonal_before_scans_are_left_out():
    options = {"hrf_model": "glover + derivative", "sample_masks": np.arange(0, 75, 2)}
    expected = by_nilearn(RUNS[0], EVENTS[0], "lss", None, noise_model="ols", **options)
    assert_allclose(estimates(of_first(**options)), expected, rtol=0, atol=1e-8)


def test_nuisance_that_is_not_of_full_rank():
    confounds = moved().assign(again=lambda table: 3 * table["x"], none=0.0)
    for method in ("lss", "lsa"):
        once = of_first(method=method, confounds=moved())
        twice = of_first(method=method, confounds=confounds)
        assert_allclose(estimates(twice), estimates(once), rtol=0, atol=1e-9)


@pytest.mark.parametrize("noise_model", ["ols", "ar1"])
def test_one_trial_in_a_run(noise_model):
    table, options = events(types="qqaqqq"), {"noise_model": noise_model}
    expected = by_nilearn(RUNS[0], table, "lss", None, **options)
    found = estimates(of_first(events=table, conditions="a", **options))
    assert_allclose(found, expected, rtol=0, atol=1e-8)


def test_labels_have_no_part_in_estimates():
    swapped = EVENTS[0].replace({"trial_type": {"a": "b", "b": "c", "c": "a"}})
    for method in ("lss", "lsa"):
        found, same = of_first(method=method), of_first(method=method, events=swapped)
        assert_allclose(estimates(found), estimates(same), rtol=0, atol=1e-12)


def test_images_of_single_precision_are_estimated_in_double():
    single = Nifti1Image(RUNS[0].get_fdata().astype(np.float32), AFFINE)
    double = Nifti1Image(single.get_fdata(), AFFINE)
    found = of_first(imgs=single)
    assert found.imgs.get_data_dtype() == np.float64
    assert_allclose(estimates(found), estimates(of_first(imgs=double)), atol=1e-12)
    small = of_first(imgs=single, dtype="float32").imgs
    assert small.get_data_dtype() == np.float32
    assert_allclose(small.get_fdata(), found.imgs.get_fdata(), rtol=1e-6, atol=1e-6)


def test_mask_is_that_of_a_first_level_model():
    rng = np.random.default_rng(0)
    brain = np.zeros((12, 12, 12, 1))
    brain[2:10, 3:10, 2:9] = 800
    runs = [
        Nifti1Image(brain + rng.normal(100, 3, size=(12, 12, 12, n)), AFFINE)
        for n in LENGTHS
    ]
    tables = [table.drop(columns="word") for table in EVENTS]
    betas = single_trial_betas(runs, tables, t_r=T_R)
    model = FirstLevelModel(t_r=T_R, noise_model="ols").fit(runs, tables)
    mask = model.masker_.mask_img_.get_fdata()
    assert 150 < mask.sum() < 500
    assert_array_equal(betas.mask_img.get_fdata(), mask)
    assert_array_equal(betas.imgs.get_fdata()[mask == 0], 0)


def test_design_matrices_are_those_of_nilearn():
    (design,) = of_first(confounds=moved()).design_matrices
    table = EVENTS[0].sort_values("onset", ignore_index=True)
    is_trial = table["trial_type"].isin(ABC)
    counts = table.groupby("trial_type").cumcount() + 1
    numbered = table["trial_type"] + counts.map("__{:03d}".format)
    table["trial_type"] = table["trial_type"].mask(is_trial, numbered)
    expected = make_first_level_design_matrix(
        np.arange(LENGTHS[0]) * T_R, table.drop(columns="word"), add_regs=moved()
    )
    assert design.columns[:2].tolist() == ["a__001", "b__001"]
    assert_allclose(design[expected.columns], expected, rtol=0, atol=1e-12)


# ------------------------------------------------------------------ what comes out


def responses_alone(n_scans=200, n=24, seed=0):
    """Return a run without noise, its events, and the amplitudes (n, n_voxels)."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "onset": np.arange(n) * 16.0,
            "duration": 1.0,
            "trial_type": rng.permutation(["a", "b"] * (n // 2)),
        }
    )
    names = table.assign(trial_type=[f"t{i:02d}" for i in range(n)])
    X = make_first_level_design_matrix(
        np.arange(n_scans) * T_R, names, drift_model=None
    )
    amplitudes = rng.normal(size=(n, np.prod(SHAPE)))
    amplitudes[:, :4] += 3 * (table["trial_type"] == "a").to_numpy()[:, np.newaxis]
    data = 300 + X.iloc[:, :n].to_numpy() @ amplitudes
    return Nifti1Image(data.T.reshape(*SHAPE, -1), AFFINE), table, amplitudes


def test_responses_without_noise_come_back():
    run, table, amplitudes = responses_alone()
    options = {"t_r": T_R, "mask_img": MASK, "signal_scaling": False}
    together = single_trial_betas(run, table, method="lsa", **options)
    assert_allclose(estimates(together), amplitudes, rtol=0, atol=1e-9)
    scaled = single_trial_betas(
        run, table, method="lsa", **options | {"signal_scaling": 0}
    )
    percent = 100 * amplitudes / apply_mask(run, MASK).mean(axis=0)
    assert_allclose(estimates(scaled), percent, rtol=0, atol=1e-9)


def test_images_and_table_are_decoded_as_they_are():
    parts = [responses_alone(seed=seed) for seed in range(3)]
    betas = single_trial_betas(
        [run for run, *_ in parts],
        [table for _, table, _ in parts],
        t_r=T_R,
        mask_img=MASK,
    )
    y = (betas.table, "trial_type")
    options = {"groups": "run", "mask_img": betas.mask_img}
    result = searchlight(betas.imgs, y, radius=2.0, **options)
    assert result.groups.tolist() == np.repeat([1, 2, 3], 24).tolist()
    informative = result.scores[:4].mean()
    assert informative > 0.85
    assert abs(result.scores[4:].mean() - 0.5) < 0.15
    atlas = Nifti1Image(np.arange(12).reshape(SHAPE) // 4 + 1, AFFINE, dtype=np.int16)
    regions = decode_regions(betas.imgs, y, labels_img=atlas, groups="run")
    assert regions.scores.argmax() == 0


@pytest.mark.parametrize("given", ["column", "array"])
def test_what_is_decoded_from_betas_says_how_they_were_made(given):
    betas = single_trial_betas(
        RUNS,
        EVENTS,
        t_r=T_R,
        slice_time_ref=0.5,
        mask_img=MASK,
        conditions=ABC,
        hrf_model=[response],
        confounds=CONFOUNDS,
        sample_masks=[np.arange(3, n) for n in LENGTHS],
    )
    groups = "run" if given == "column" else betas.table["run"]
    options = {"groups": groups, "n_permutations": 9, "random_state": 0}
    result = decode_regions(betas, "trial_type", **options)
    by_hand = decode_regions(
        betas.imgs,
        (betas.table, "trial_type"),
        mask_img=betas.mask_img,
        **options | {"groups": betas.table["run"]},
    )
    assert_array_equal(result.predicted, by_hand.predicted)
    record = result.parameters["recordings"]
    assert record == betas.record() | {"group": "run"}
    assert record["hrf_model"] == [{"function": "response"}]
    assert (record["n_scans"], record["n_scans_left_out"]) == ([75, 64], 6)
    text = methods_text(result)
    for words in (
        "least squares, separate; LSS",
        "2 runs of 64 to 75 scans (TR 2 s), whose slices refer to 50 % of the TR",
        "Drifts slower than 0.01 Hz were modelled by cosines",
        "3 regressors: x, y, and z",
        "Of the scans, 6 were left out",
        "were z-scored within each run",
        "leave-one-run-out",
    ):
        assert words in text
    around = searchlight(betas, "trial_type", radius=3, **options)
    assert around.parameters["recordings"] == record
    unknown = decode_regions(betas, "trial_type", groups=np.arange(22) % 3)
    assert "leave-one-group-out" in methods_text(unknown)


def test_table_has_one_row_per_trial_in_order():
    betas = single_trial_betas(
        RUNS, EVENTS, t_r=T_R, conditions=ABC, mask_img=MASK, method="lsa"
    )
    table = betas.table
    assert list(table.columns) == ["run", "onset", "duration", "trial_type", "word"]
    expected = pd.concat(
        [
            each[each["trial_type"] != "q"].sort_values("onset").assign(run=i)
            for i, each in enumerate(EVENTS, start=1)
        ]
    )
    for column in table.columns:
        assert table[column].tolist() == expected[column].tolist()
    assert table.index.tolist() == list(range(22))
    assert betas.imgs.shape == (*SHAPE, 22)
    assert_array_equal(betas.imgs.affine, AFFINE)
    assert repr(betas) == "<Betas | 22 trials (a 8, b 8, c 6) of 2 runs, lsa>"
    assert betas.parameters["t_r"] == T_R


def test_names_of_runs_and_whole_numbers_as_types():
    tables = [
        each.assign(run=name, trial_type=each["trial_type"].map(ABC.index, "ignore"))
        for each, name in zip(
            [e[e["trial_type"] != "q"] for e in EVENTS], ["late", "early"], strict=True
        )
    ]
    tables[0].loc[len(tables[0]) + 50] = [1.0, 1.0, None, "", "late"]
    options = {"t_r": T_R, "mask_img": MASK}
    with pytest.warns(RuntimeWarning, match=r"^events\[0\]: 1 event without .* is not"):
        betas = single_trial_betas(RUNS, tables, conditions=[0, 2], **options)
    assert betas.table["run"].unique().tolist() == ["late", "early"]
    assert betas.table["trial_type"].unique().tolist() == [0, 2]
    named = single_trial_betas(RUNS, EVENTS, conditions=["a", "c"], **options)
    without = [each[each["trial_type"] != "q"] for each in EVENTS]
    named = single_trial_betas(RUNS, without, conditions=["a", "c"], **options)
    assert_allclose(estimates(betas), estimates(named), rtol=0, atol=1e-12)
    tables[1]["run"] = "late"
    with pytest.raises(ValueError, match="The column 'run' of events must have one"):
        with pytest.warns(RuntimeWarning, match="without a trial_type"):
            single_trial_betas(RUNS, tables, **options)


def test_affines_that_differ_by_rounding():
    """They are one grid, for the mask of all runs and within a masker too."""
    affine = AFFINE.copy()
    affine[:3] += 2e-4
    inside = np.pad(np.ones((3, 4, 4)), 3)[..., np.newaxis]  # a brain and around it
    noise = np.random.default_rng(0).normal(size=(2, *inside.shape[:3], LENGTHS[1]))
    data = inside * (500 + noise)
    masker = NiftiMasker(
        Nifti1Image(inside[..., 0], affine), standardize=None, reports=False
    ).fit()
    for mask_img in (None, masker):
        found, expected = (
            single_trial_betas(
                [Nifti1Image(data[0], AFFINE), Nifti1Image(data[1], other)],
                [events(LENGTHS[1])] * 2,
                t_r=T_R,
                mask_img=mask_img,
            )
            for other in (affine, AFFINE)
        )
        assert_array_equal(found.imgs.get_fdata(), expected.imgs.get_fdata())


def test_files_and_headers(tmp_path):
    for i, (run, table, confounds) in enumerate(
        zip(RUNS, EVENTS, CONFOUNDS, strict=True), start=1
    ):
        run = Nifti1Image(run.get_fdata(), AFFINE)
        run.header.set_zooms((3, 3, 3, 1000 * T_R))
        run.header.set_xyzt_units("mm", "msec")
        run.to_filename(tmp_path / f"sub-01_run-{i}_bold.nii.gz")
        sorted_ = table.sort_values("onset")
        sorted_.to_csv(tmp_path / f"sub-01_run-0{i}_events.tsv", sep="\t", index=False)
        confounds.to_csv(tmp_path / f"sub-01_run-{i}_regressors.csv", index=False)
    Nifti1Image(MASK.get_fdata(), AFFINE).to_filename(tmp_path / "mask.nii")
    options = {"conditions": ABC, "mask_img": tmp_path / "mask.nii"}
    files = f"{tmp_path}/*_bold.nii.gz", f"{tmp_path}/*_events.tsv"
    confounds = sorted(tmp_path.glob("*.csv"))
    found = single_trial_betas(*files, confounds=confounds, **options)
    expected = single_trial_betas(RUNS, EVENTS, t_r=T_R, confounds=CONFOUNDS, **options)
    assert_allclose(estimates(found), estimates(expected), rtol=0, atol=1e-12)
    with pytest.warns(RuntimeWarning, match="but the header of /.*run-1_bold.nii.gz"):
        single_trial_betas(*files, t_r=2.5, **options)
    match = "^sub-01_run-1_bold.nii.gz is of run-1, but sub-01_run-02_events.tsv of run"
    with pytest.raises(ValueError, match=match):
        single_trial_betas(files[0], sorted(tmp_path.glob("*events*"))[::-1], **options)
    with pytest.raises(ValueError, match="List imgs and confounds in the same order"):
        single_trial_betas(*files, confounds=confounds[::-1], **options)


def test_fitted_masker_makes_the_data():
    masker = NiftiMasker(MASK, smoothing_fwhm=5.0, standardize=None).fit()
    expected = of_first(smoothing_fwhm=5.0)
    found = of_first(mask_img=masker)
    assert_allclose(estimates(found), estimates(expected), rtol=0, atol=1e-10)
    with pytest.raises(ValueError, match="for volumes without a masker"):
        of_first(mask_img=masker, smoothing_fwhm=3.0)
    with pytest.raises(ValueError, match="NiftiMasker that is not fitted"):
        of_first(mask_img=NiftiMasker(MASK, standardize=None))


def test_surfaces_have_the_numbers_of_volumes():
    image = build.surface(*np.split(RUNS[0].get_fdata().reshape(12, -1).T, 2, axis=1))
    assert image.shape == (12, 75)
    betas = single_trial_betas(image, EVENTS[0], t_r=T_R, conditions=ABC)
    assert isinstance(betas.imgs, SurfaceImage)
    expected = estimates(of_first())
    found = np.concatenate(list(betas.imgs.data.parts.values())).T
    assert_allclose(found, expected, rtol=0, atol=1e-9)
    result = searchlight(
        betas.imgs, (betas.table, "trial_type"), radius=2, distance="edges", cv=2
    )
    assert result.shape == (12,)


# --------------------------------------------------------------- odd data, warnings


def test_voxels_without_an_estimate():
    data = RUNS[0].get_fdata().copy()
    data[0, 0, 0, 5], data[1, 0, 0], data[2, 0, 0] = NAN, 40.0, data[2, 0, 0] / 1000
    with pytest.warns(RuntimeWarning) as caught:
        betas = of_first(imgs=Nifti1Image(data, AFFINE))
    told = " ".join(str(warning.message) for warning in caught)
    assert "1 of 12 voxels of the mask hold NaN or infinite values" in told
    assert "1 of 12 voxels of the mask are constant in some run" in told
    assert "1 of 12 voxels of the mask have a mean below 1" in told
    found = betas.imgs.get_fdata()
    assert np.isnan(found[0, 0, 0]).all()
    assert_array_equal(found[1, 0, 0], 0)
    expected = of_first().imgs.get_fdata()
    assert_allclose(found[:, 1], expected[:, 1], rtol=0, atol=1e-12)
    raw = of_first(signal_scaling=False).imgs.get_fdata()
    assert_allclose(found[2, 0, 0], raw[2, 0, 0] / 1000 * 100, rtol=1e-9, atol=0)
    with pytest.warns(RuntimeWarning, match="hold NaN"):
        ar1 = of_first(imgs=Nifti1Image(data, AFFINE), noise_model="ar1")
    assert_array_equal(np.isnan(ar1.imgs.get_fdata()), np.isnan(found))
    data[..., 3] = NAN
    with pytest.raises(ValueError, match="All voxels of the mask hold NaN"):
        of_first(imgs=Nifti1Image(data, AFFINE))
    kept = np.delete(np.arange(75), [3, 5])
    with pytest.warns(RuntimeWarning, match="are constant"):
        of_first(imgs=Nifti1Image(data, AFFINE), sample_masks=kept)


def changed(**columns):
    """Return the events of the first run in order, with other values in some rows."""
    table = EVENTS[0].sort_values("onset", ignore_index=True)
    for name, values in columns.items():
        for row, value in values.items():
            table[name] = table[name].astype(
                object if isinstance(value, str) else float
            )
            table.loc[row, name] = value
    return table


@pytest.mark.parametrize(
    ("table", "match"),
    [
        (
            changed(onset={12: 143.0}, trial_type={12: "a"}),
            r"kept for 1 trial \('a' at 143 s of the run\)",
        ),
        (changed(duration={3: 60.0}), "1 trial of 11 began before the previous"),
        (EVENTS[0].assign(duration=0.0), "All trials have a duration of 0, and"),
    ],
)
def test_what_is_doubtful_is_said(table, match):
    with pytest.warns(RuntimeWarning, match=match):
        of_first(events=table)


def test_trials_whose_scans_were_left_out_are_told():
    onset = changed()["onset"][3]
    first = int(onset / T_R) + 1
    for n_out, is_told in ((1, False), (6, True)):
        kept = np.delete(np.arange(LENGTHS[0]), np.arange(first, first + n_out))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            of_first(events=changed(), sample_masks=kept)
        told = " ".join(str(each.message) for each in caught)
        assert (f"at {onset:g} s of the run" in told) == is_told


# ------------------------------------------------------------------- what is refused


OTHER = Nifti1Image(np.ones((4, 2, 2, 75)), AFFINE)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"method": "lsx"}, "Invalid value for 'method'"),
        ({"noise_model": "ar2"}, "Invalid value for 'noise_model'"),
        ({"drift_model": "linear"}, "Invalid value for 'drift_model'"),
        ({"hrf_model": "fir"}, "Invalid value for 'hrf_model'"),
        ({"high_pass": 0}, "Invalid value for 'high_pass'"),
        ({"high_pass": 0.25}, r"'high_pass': 0.25. Allowed: less than 0\.\d+ Hz"),
        ({"drift_order": 1.5}, "Invalid value for 'drift_order'"),
        ({"slice_time_ref": 2}, "Invalid value for 'slice_time_ref'"),
        ({"signal_scaling": 1}, "Invalid value for 'signal_scaling'"),
        ({"smoothing_fwhm": -1}, "Invalid value for 'smoothing_fwhm'"),
        ({"smoothing_fwhm": 10**7}, r"'smoothing_fwhm': 1.* up to 100 mm"),
        (
            {"hrf_model": lambda t: 1 / 0},
            "hrf_model <function .* failed as function",
        ),
        ({"dtype": "int16"}, "Invalid value for 'dtype'"),
        ({"t_r": 0}, "Invalid value for 't_r'"),
        ({"t_r": None}, "t_r is not given, and not all headers"),
        ({"imgs": MASK}, r"imgs is a single image, shape \(3, 2, 2\)"),
        ({"imgs": [RUNS[0], OTHER]}, r"imgs\[1\] is on another grid"),
        ({"imgs": RUNS}, "imgs holds 2 runs but events 1 item"),
        ({"events": EVENTS}, "imgs holds 1 run but events 2 items"),
        ({"confounds": CONFOUNDS}, "imgs holds 1 run but confounds 2 items"),
        (
            {"confounds": CONFOUNDS[1]},
            r"confounds has 64 rows, but the run has 75",
        ),
        (
            {"confounds": moved() * NAN},
            "holds NaN or infinite values in 3 of 3 columns",
        ),
        ({"confounds": moved().astype(str) + "x"}, "must hold numbers only"),
        ({"confounds": moved(k=3).rename(columns={"x": "q"})}, "unique names"),
        (
            {
                "confounds": np.random.default_rng(0).normal(size=(75, 62)),
                "method": "lsa",
            },
            "the model has 11 regressors of trials",
        ),
        (
            {"sample_masks": np.array([3, 1])},
            r"sample_masks must hold the numbers",
        ),
        ({"sample_masks": np.arange(30)}, "No scan that is kept holds anything"),
        ({"conditions": ["d"]}, "conditions names 'd', which no trial_type is"),
        ({"conditions": []}, "conditions names nothing"),
        ({"events": EVENTS[0].drop(columns="duration")}, "has no column 'duration'"),
        ({"events": EVENTS[0][:0]}, "has no rows"),
        (
            {"events": changed(onset={2: NAN})},
            "onset is 'nan' in row 2 .* wrong in 1 of",
        ),
        ({"events": changed(duration={2: -1})}, "duration is '-1.0' in row 2"),
        ({"events": changed(onset={2: "soon"})}, "onset is 'soon' in row 2"),
        (
            {"events": changed(onset={12: 200}), "conditions": None},
            "to 150 s, and does not contain 1 trial",
        ),
        (
            {"events": changed(onset={0: -3})},
            r"1 trial \(the first: onset -3 s\)",
        ),
        ({"events": changed(duration={0: 0})}, "1 trial of 11 with a duration of 0"),
        (
            {"events": EVENTS[0].assign(onset=1.0, duration=1.0)},
            "two trials have the on",
        ),
        ({"events": EVENTS[0].assign(modulation=2.0)}, "a modulation other than 1"),
        ({"events": changed(trial_type={12: "a__001"})}, "has a trial_type 'a__001'"),
        ({"mask_img": Nifti1Image(np.ones((4, 2, 2)), AFFINE)}, "on another grid"),
    ],
    ids=lambda value: re.sub(r"\W+", " ", value)[:40] if isinstance(value, str) else "",
)
def test_refused(changes, match):
    with pytest.raises(ValueError, match=match):
        of_first(**changes)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"hrf_model": 3}, "Invalid value for 'hrf_model': 3"),
        ({"events": np.ones(3)}, r"events must be a DataFrame or a path"),
        ({"confounds": [(moved(), None)]}, "load_confounds returns, pass"),
        ({"imgs": np.ones((2, 2))}, "must be"),
    ],
)
def test_refused_types(changes, match):
    with pytest.raises(TypeError, match=match):
        of_first(**changes)


def test_runs_without_trials_of_interest():
    tables = [EVENTS[0], EVENTS[1].assign(trial_type="q")]
    with pytest.raises(ValueError, match="run 2 holds no trials of interest"):
        single_trial_betas(RUNS, tables, t_r=T_R, conditions=ABC, mask_img=MASK)


def test_drifts_of_fmriprep_are_no_second_model():
    cosines = pd.DataFrame(
        {f"cosine0{k}": np.cos(np.pi * (k + 1) * np.arange(75) / 75) for k in (0, 1)}
    )
    with pytest.warns(RuntimeWarning, match="twice: by .* confounds, 'cosine00', 'cos"):
        of_first(confounds=cosines)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        of_first(confounds=cosines, drift_model=None, slice_time_ref=0.0)


def test_singular_designs():
    table = EVENTS[0].sort_values("onset", ignore_index=True)
    matrix = make_first_level_design_matrix(
        np.arange(LENGTHS[0]) * T_R,
        table.drop(columns="word"),
        drift_model=None,
    )
    known = matrix[[*"abc"]].sum(axis=1).to_frame("known")
    with pytest.raises(ValueError, match="singular: the response to 'other trials' in"):
        of_first(confounds=known)
    (design,) = of_first().design_matrices
    known = design[["c__002"]].rename(columns={"c__002": "known"})
    for method in ("lss", "lsa"):
        with pytest.raises(ValueError, match=r"singular: the response to '?c'? at "):
            of_first(confounds=known, method=method)


# ------------------------------------------------------------ one cell of a table


def with_cell(name, value, **more):
    """Return events of the first run with another value in the last row."""
    table = EVENTS[0].sort_values("onset", ignore_index=True).astype({name: object})
    table.loc[len(table) - 1, name] = value
    return table.assign(**more)


@pytest.mark.parametrize("value", [151.0, 1e6, 1e9, 1e300])
@pytest.mark.parametrize("row", ["a", "q"])
def test_durations_beyond_the_run_are_refused_before_any_work(value, row):
    table = with_cell("duration", value)
    table.loc[len(table) - 1, "trial_type"] = row
    start = time.process_time()
    with pytest.raises(ValueError, match=r"s, but the whole run 150 s \(1 such"):
        of_first(events=table)
    assert time.process_time() - start < 1


@pytest.mark.parametrize("method", ["lss", "lsa"])
def test_tables_beyond_reason_are_refused_before_any_work(method):
    onsets = np.sort(np.random.default_rng(0).uniform(0, 149, 100_000))
    table = pd.DataFrame({"onset": onsets, "duration": 0.1, "trial_type": "a"})
    match = "100,000 regressors" if method == "lsa" else "more than the 32,767 volumes"
    start = time.process_time()
    with pytest.raises(ValueError, match=match):
        of_first(events=table, method=method, conditions=None)
    types = [f"type {i}" for i in range(len(table))]
    table.loc[1:, "trial_type"] = types[1:]
    with pytest.raises(ValueError, match="99,999 of no interest"):
        of_first(events=table, method=method, conditions="a")
    assert time.process_time() - start < 5


def test_scans_without_signal():
    data = RUNS[0].get_fdata().copy()
    data[..., 60:] = 0
    empty = Nifti1Image(data, AFFINE)
    with pytest.raises(ValueError, match=r"15 scans of 75 without .* scan 60,"):
        of_first(imgs=empty)
    of_first(imgs=empty, sample_masks=np.arange(60))
    data = RUNS[0].get_fdata().copy()
    data[..., 7] = 4
    with pytest.warns(RuntimeWarning, match="1 scan of 75 without any signal"):
        of_first(imgs=Nifti1Image(data, AFFINE))


@pytest.mark.parametrize(
    ("name", "value", "match"),
    [
        ("onset", "soon", "onset is 'soon' in line 14, and wrong in 1 of 13 rows"),
        ("onset", "inf", "onset is 'inf' in line 14"),
        ("onset", "n/a", "onset is 'n/a' in line 14"),
        ("duration", "-1", r"duration is '-1(\.0)?' in line 14"),
    ],
)
def test_mistakes_in_files_are_named_by_file_and_line(tmp_path, name, value, match):
    path = tmp_path / "events.tsv"
    with_cell(name, value).to_csv(path, sep="\t", index=False)
    with pytest.raises(ValueError, match=f"{re.escape(str(path))}: {match}"):
        of_first(events=path)


def test_mistakes_in_files_of_confounds_are_named_by_file(tmp_path):
    path = tmp_path / "confounds.tsv"
    table = CONFOUNDS[0].astype(object)
    table.loc[3, "y"] = "much"
    table.to_csv(path, sep="\t", index=False)
    with pytest.raises(ValueError, match=f"{re.escape(str(path))} must hold numbers"):
        of_first(confounds=path)


def test_empty_masks_that_nobody_gave_are_no_masks_that_were_given():
    empty = Nifti1Image(np.zeros((*SHAPE, 75)), AFFINE)
    with pytest.raises(
        ValueError, match="nilearn finds no brain in imgs: the mask that"
    ):
        of_first(imgs=empty, mask_img=None)
