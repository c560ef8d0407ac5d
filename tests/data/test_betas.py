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
from numpy.testing import assert_allclose, assert_array_equal

from mvpa_kfda import (
    decode_regions,
    methods_text,
    searchlight,
    single_trial_betas,
)
from tests import build

SHAPE = (3, 2, 2)
MASK = build.mask(np.ones(SHAPE))
T_R = 2.0
LENGTHS = 75, 64
ABC = ["a", "b", "c"]


pytestmark = [
    pytest.mark.filterwarnings("ignore:.*Generation of a mask has been requested"),
    pytest.mark.filterwarnings("ignore:nilearn says"),
    pytest.mark.filterwarnings("ignore:slice_time_ref is not given"),
]


def bold(n=LENGTHS[0], seed=0):
    """Return a run with drifts and noise on a baseline."""
    steps = np.random.default_rng([seed, 7]).normal(size=(2, n, *SHAPE))
    return build.volume(500 + np.cumsum(steps[0], axis=0) + 5 * steps[1])


def events(n_scans=LENGTHS[0], seed=0, types="abcabcbqacbaq"):
    """Return events with responses that overlap, in no order of time."""
    rng, n = np.random.default_rng([seed, 8]), len(types)
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


def of_all(runs=RUNS, tables=EVENTS, **options):
    """Estimate all runs."""
    given = {"t_r": T_R, "mask_img": MASK, "conditions": ABC}
    return single_trial_betas(runs, tables, **given | options)


def by_nilearn(run, table, method, confounds, sample_masks=None, **options):
    """Return estimates (n_trials, n_voxels) by a FirstLevelModel for each trial."""
    table = table.sort_values("onset", ignore_index=True)
    trials, found = np.flatnonzero(table["trial_type"].isin(ABC)), []
    for i in trials:
        if method == "lss" or i == trials[0]:
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
    given = {"runs": RUNS[0], "tables": EVENTS[0]} | changes
    return of_all(**given)


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
    given = RUNS, EVENTS, CONFOUNDS
    if method == "lss":
        given = [each[:1] for each in given]
    betas = of_all(*given[:2], method=method, confounds=given[2], **options)
    expected = [
        by_nilearn(run, table, method, confounds, **options)
        for run, table, confounds in zip(*given, strict=True)
    ]
    assert np.abs(expected[0]).mean() > 0.01
    assert_allclose(estimates(betas), np.concatenate(expected), rtol=0, atol=1e-8)


SOME_SCANS = np.delete(np.arange(LENGTHS[0]), [0, 1, 30, 31])


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("lss", {"drift_model": "polynomial", "drift_order": 3}),
        ("lsa", {"drift_model": None, "slice_time_ref": 0.5}),
        ("lsa", {"high_pass": 0.02, "signal_scaling": False}),
        ("lsa", {"smoothing_fwhm": 5.0}),
        ("lss", {"sample_masks": SOME_SCANS}),
        ("lsa", {"hrf_model": "glover + derivative", "sample_masks": SOME_SCANS[::2]}),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_every_option_means_what_it_does_in_nilearn(method, options):
    given = RUNS[0], EVENTS[0], method, CONFOUNDS[0]
    expected = by_nilearn(*given, noise_model="ols", **options)
    found = estimates(of_first(method=method, confounds=CONFOUNDS[0], **options))
    assert_allclose(found, expected, rtol=0, atol=1e-8)
    plain = estimates(of_first(method=method, confounds=CONFOUNDS[0]))
    assert np.abs(found - plain).max() > 1e-3
    # Labels have no part in it, nor columns that are not of full rank.
    swapped = EVENTS[0].replace({"trial_type": {"a": "b", "b": "c", "c": "a"}})
    more = moved().assign(again=lambda table: 3 * table["x"], none=0.0)
    same = of_first(method=method, confounds=more, tables=swapped, **options)
    assert_allclose(estimates(same), found, rtol=0, atol=1e-9)


@pytest.mark.parametrize("noise_model", ["ols", "ar1"])
def test_one_trial_in_a_run(noise_model):
    table, options = events(types="qqaqqq"), {"noise_model": noise_model}
    expected = by_nilearn(RUNS[0], table, "lss", None, **options)
    found = estimates(of_first(tables=table, conditions="a", **options))
    assert_allclose(found, expected, rtol=0, atol=1e-8)


def test_images_of_single_precision_are_estimated_in_double():
    single = Nifti1Image(RUNS[0].get_fdata().astype(np.float32), build.AFFINE)
    double = Nifti1Image(single.get_fdata(), build.AFFINE)
    found = of_first(runs=single)
    assert found.imgs.get_data_dtype() == np.float64
    expected = estimates(of_first(runs=double))
    assert_allclose(estimates(found), expected, rtol=0, atol=1e-12)
    small = of_first(runs=single, dtype="float32").imgs
    assert small.get_data_dtype() == np.float32
    assert_allclose(small.get_fdata(), found.imgs.get_fdata(), rtol=1e-6, atol=1e-6)


def test_mask_is_that_of_a_first_level_model():
    rng = np.random.default_rng(0)
    brain = np.zeros((12, 12, 12))
    brain[2:10, 3:10, 2:9] = 800
    runs = [
        build.volume(brain + rng.normal(100, 3, size=(n, 12, 12, 12))) for n in LENGTHS
    ]
    tables = [table.drop(columns="word") for table in EVENTS]
    betas = single_trial_betas(runs, tables, t_r=T_R)
    model = FirstLevelModel(t_r=T_R, noise_model="ols").fit(runs, tables)
    mask = model.masker_.mask_img_.get_fdata()
    assert 150 < mask.sum() < 500
    assert_array_equal(betas.mask_img.get_fdata(), mask)
    assert_array_equal(betas.imgs.get_fdata()[mask == 0], 0)
    with pytest.raises(ValueError, match="nilearn finds no brain in imgs: the mask"):
        of_first(runs=build.volume(np.zeros((75, *SHAPE))), mask_img=None)
    # Affines that differ by rounding are one grid, within a masker too.
    affine = build.AFFINE.copy()
    affine[:3] += 2e-4
    other = Nifti1Image(runs[1].get_fdata(), affine)
    masker = NiftiMasker(Nifti1Image(mask.astype(np.uint8), affine), standardize=None)
    for mask_img in (None, masker.fit()):
        found = single_trial_betas([runs[0], other], tables, t_r=T_R, mask_img=mask_img)
        assert_array_equal(found.imgs.get_fdata(), betas.imgs.get_fdata())


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


def test_what_is_decoded_from_betas_says_how_they_were_made():
    betas = of_all(
        slice_time_ref=0.5,
        hrf_model=[response],
        confounds=CONFOUNDS,
        sample_masks=[np.arange(3, n) for n in LENGTHS],
    )
    options = {"groups": "run", "n_permutations": 9, "random_state": 0}
    result = decode_regions(betas, "trial_type", **options)
    given = {"mask_img": betas.mask_img} | options | {"groups": betas.table["run"]}
    by_hand = decode_regions(betas.imgs, (betas.table, "trial_type"), **given)
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
    betas = of_all(method="lsa")
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
    assert_array_equal(betas.imgs.affine, build.AFFINE)
    assert repr(betas) == "<Betas | 22 trials (a 8, b 8, c 6) of 2 runs, lsa>"
    assert betas.parameters["t_r"] == T_R


def test_files_and_headers(tmp_path):
    parts = zip(RUNS, EVENTS, CONFOUNDS, strict=True)
    for i, (run, table, confounds) in enumerate(parts, start=1):
        run.to_filename(tmp_path / f"sub-01_run-{i}_bold.nii.gz")
        sorted_ = table.sort_values("onset")
        sorted_.to_csv(tmp_path / f"sub-01_run-0{i}_events.tsv", sep="\t", index=False)
        confounds.to_csv(tmp_path / f"sub-01_run-{i}_regressors.csv", index=False)
    MASK.to_filename(tmp_path / "mask.nii")
    files = f"{tmp_path}/*_bold.nii.gz", f"{tmp_path}/*_events.tsv"
    confounds, options = (
        sorted(tmp_path.glob("*.csv")),
        {"mask_img": tmp_path / "mask.nii"},
    )
    found = of_all(*files, confounds=confounds, **options)
    expected = of_all(confounds=CONFOUNDS)
    assert_allclose(estimates(found), estimates(expected), rtol=0, atol=1e-12)
    match = "^sub-01_run-1_bold.nii.gz is of run-1, but sub-01_run-02_events.tsv of run"
    with pytest.raises(ValueError, match=match):
        of_all(files[0], sorted(tmp_path.glob("*events*"))[::-1], **options)
    with pytest.raises(ValueError, match="List imgs and confounds in the same order"):
        of_all(*files, confounds=confounds[::-1], **options)
    CONFOUNDS[0].assign(y="much").to_csv(confounds[0], index=False)
    match = f"{re.escape(str(confounds[0]))} must hold numbers"
    with pytest.raises(ValueError, match=match):
        of_all(*files, confounds=confounds, **options)


def test_fitted_masker_makes_the_data():
    masker = NiftiMasker(MASK, smoothing_fwhm=5.0, standardize=None).fit()
    expected, found = of_first(smoothing_fwhm=5.0), of_first(mask_img=masker)
    assert_allclose(estimates(found), estimates(expected), rtol=0, atol=1e-10)
    with pytest.raises(ValueError, match="for volumes without a masker"):
        of_first(mask_img=masker, smoothing_fwhm=3.0)
    with pytest.raises(ValueError, match="NiftiMasker that is not fitted"):
        of_first(mask_img=NiftiMasker(MASK, standardize=None))


# --------------------------------------------------------------- odd data, warnings


def test_voxels_without_an_estimate():
    data = RUNS[0].get_fdata().copy()
    data[0, 0, 0, 5], data[1, 0, 0] = np.nan, 40.0
    data[2, 0, 0] /= 1000
    with pytest.warns(RuntimeWarning) as caught:
        betas = of_first(runs=Nifti1Image(data, build.AFFINE))
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
        ar1 = of_first(runs=Nifti1Image(data, build.AFFINE), noise_model="ar1")
    assert_array_equal(np.isnan(ar1.imgs.get_fdata()), np.isnan(found))
    data[..., 3] = np.nan
    with pytest.raises(ValueError, match="All voxels of the mask hold NaN"):
        of_first(runs=Nifti1Image(data, build.AFFINE))
    kept = np.delete(np.arange(75), [3, 5])
    with pytest.warns(RuntimeWarning, match="are constant"):
        of_first(runs=Nifti1Image(data, build.AFFINE), sample_masks=kept)


def test_trials_whose_scans_were_left_out_are_told():
    onset = np.sort(EVENTS[0]["onset"])[3]
    first = int(onset / T_R) + 1
    for n_out, is_told in ((1, False), (6, True)):
        kept = np.delete(np.arange(LENGTHS[0]), np.arange(first, first + n_out))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            of_first(sample_masks=kept)
        told = " ".join(str(each.message) for each in caught)
        assert (f"at {onset:g} s of the run" in told) == is_told


# ------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"method": "lsx"}, "Invalid value for 'method'"),
        ({"noise_model": "ar2"}, "Invalid value for 'noise_model'"),
        ({"drift_model": "linear"}, "Invalid value for 'drift_model'"),
        ({"hrf_model": "fir"}, "Invalid value for 'hrf_model'"),
        ({"hrf_model": 3}, "Invalid value for 'hrf_model': 3"),
        ({"hrf_model": lambda t: 1 / 0}, "hrf_model <function .* failed as function"),
        ({"high_pass": 0}, "Invalid value for 'high_pass'"),
        ({"high_pass": 0.25}, r"'high_pass': 0.25. Allowed: less than 0\.\d+ Hz"),
        ({"drift_order": 1.5}, "Invalid value for 'drift_order'"),
        ({"slice_time_ref": 2}, "Invalid value for 'slice_time_ref'"),
        ({"signal_scaling": 1}, "Invalid value for 'signal_scaling'"),
        ({"smoothing_fwhm": -1}, "Invalid value for 'smoothing_fwhm'"),
        ({"smoothing_fwhm": 10**7}, r"'smoothing_fwhm': 1.* up to 100 mm"),
        ({"dtype": "int16"}, "Invalid value for 'dtype'"),
        ({"t_r": 0}, "Invalid value for 't_r'"),
        ({"t_r": None}, "t_r is not given, and not all headers"),
        ({"runs": MASK}, r"imgs is a single image, shape \(3, 2, 2\)"),
        (
            {"runs": [RUNS[0], build.volume(np.ones((75, 4, 2, 2)))]},
            r"imgs\[1\] is on another grid",
        ),
        ({"runs": RUNS}, "imgs holds 2 runs but events 1 item"),
        ({"confounds": moved().rename(columns={"x": "q"})}, "unique names"),
        (
            {"confounds": np.random.default_rng(0).normal(size=(75, 62))}
            | {"method": "lsa"},
            "the model has 11 regressors of trials",
        ),
        ({"sample_masks": np.arange(30)}, "No scan that is kept holds anything"),
        (
            {"tables": EVENTS[0].replace({"trial_type": {"q": "a__001"}})},
            "has a trial_type 'a__001'",
        ),
        ({"mask_img": build.mask(np.ones((4, 2, 2)))}, "on another grid"),
    ],
    ids=lambda value: re.sub(r"\W+", " ", value)[:40] if isinstance(value, str) else "",
)
def test_refused(changes, match):
    with pytest.raises((TypeError, ValueError), match=match):
        of_first(**changes)


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


@pytest.mark.parametrize("method", ["lss", "lsa"])
def test_tables_beyond_reason_are_refused_before_any_work(method):
    onsets = np.sort(np.random.default_rng(0).uniform(0, 149, 100_000))
    table = pd.DataFrame({"onset": onsets, "duration": 0.1, "trial_type": "a"})
    match = "100,000 regressors" if method == "lsa" else "more than the 32,767 volumes"
    start = time.process_time()
    with pytest.raises(ValueError, match=match):
        of_first(tables=table, method=method, conditions=None)
    types = [f"type {i}" for i in range(len(table))]
    table.loc[1:, "trial_type"] = types[1:]
    with pytest.raises(ValueError, match="99,999 of no interest"):
        of_first(tables=table, method=method, conditions="a")
    assert time.process_time() - start < 5
