"""The BIDS app: from a dataset to a derivative dataset, as the Python calls by hand."""

import json
import os
import re
import shutil
import sys
import textwrap
from dataclasses import replace
from functools import wraps
from pathlib import Path

import mne
import numpy as np
import pandas as pd
import pytest
from nibabel import Nifti1Image
from nilearn.image import load_img
from nilearn.interfaces.bids import get_bids_files
from nilearn.interfaces.fmriprep import load_confounds
from nilearn.signal import clean

from mvpa_kfda import (
    __version__,
    decode_epochs,
    decode_regions,
    generalize_epochs,
    group_inference,
    load_result,
    methods_text,
    searchlight,
    single_trial_betas,
)
from mvpa_kfda.bids import app, events
from mvpa_kfda.bids.app import _with_single_sessions
from mvpa_kfda.bids.config import read_config
from mvpa_kfda.bids.events import Fate, count_fates, wanted
from mvpa_kfda.bids.find import Run, _recordings
from mvpa_kfda.bids.store import Output
from mvpa_kfda.bids.write import COLUMNS, describe_dataset
from mvpa_kfda.cli import main
from mvpa_kfda.cli.bids import LEVELS, keys_of
from mvpa_kfda.reports.sections import SECTIONS
from mvpa_kfda.utils.rounding import rounded
from tests import bids_data
from tests.bids_data import SPACE

STIMULI = "trial_type != 'button'"
FEW = ["--n-permutations", "5"]
#: Of the brain images.
SHAPE = (5, 4, 5)
#: What writes pages; most tests do without.
WRITE_PAGE = app.write_page


@pytest.fixture(scope="module", autouse=True)
def no_pages():
    """Leave the pages out, which take seconds each."""

    def write(paths, page, title):
        page.write_text(f"{title}: {' '.join(path.name for path in paths)}")
        return "done", str(page)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app, "write_page", write)
        yield


@pytest.fixture(scope="module")
def eeg(tmp_path_factory):
    """Return raw EEG of two subjects and tasks, and what is decoded of it."""
    root = tmp_path_factory.mktemp("eeg") / "data"
    bids_data.write_eeg(root, tasks=bids_data.TASKS)
    out = root / "derivatives" / "kfda"
    given = ["--where", STIMULI, "--tmin", "-0.05", "--tmax", "0.2"]
    assert run(root, out, "participant", *given, *FEW) == 0
    return root, out


@pytest.fixture(scope="module")
def fmri(tmp_path_factory):
    """Return runs as of fMRIPrep of three subjects, and searchlights in them."""
    root = tmp_path_factory.mktemp("fmri") / "data"
    derived = root / "derivatives" / "fmriprep"
    bids_data.write_fmri(root, derived, ("01", "02", "03"), shape=SHAPE)
    out = root.with_name("out")
    given = ["--derivatives", derived, "--where", STIMULI, "--radius", "4"]
    assert run(root, out, "participant", *given, *FEW) == 0
    return root, derived, out


def run(*arguments):
    """Run the command; return its exit status."""
    return main(["bids", *map(str, arguments)])


def the_result(out, name):
    """Load the one result whose name holds some text."""
    (path,) = out.rglob(f"*{name}*_decoding.h5")
    return load_result(path)


def states(root):
    """Return the time of every file."""
    return {path: path.stat().st_mtime_ns for path in root.rglob("*.h5")}


# ----------------------------------------------------------------------- EEG by hand


def epochs_by_hand(root, subject, task, high_pass=None):
    """Return epochs of raw BIDS data and the run of each, as a user would make them."""
    from mne_bids import BIDSPath, read_raw_bids

    parts, runs = [], []
    for number in (1, 2):
        path = BIDSPath(subject, task=task, run=number, datatype="eeg", root=root)
        raw = read_raw_bids(path, verbose="error").load_data(verbose="error")
        if high_pass is not None:
            raw.filter(high_pass, None, verbose="error")
        wanted = {"face/left": 1, "house/left": 2}
        events, _ = mne.events_from_annotations(raw, wanted, verbose="error")
        parts.append(
            mne.Epochs(raw, events, wanted, -0.1, 0.3, preload=True, verbose="error")
        )
        runs += [number] * len(parts[-1])
    return mne.concatenate_epochs(parts, verbose="error"), runs


def test_raw_eeg_is_decoded_as_by_hand(eeg, tmp_path):
    root, _ = eeg
    given = [
        "--tmin",
        "-0.1",
        "--tmax",
        "0.3",
        "--high-pass",
        "0.5",
        "--picks",
        "Cz,Pz",
        "--task",
        "faces",
    ]
    one = ["--participant-label", "01", "--n-permutations", "0"]
    assert (
        run(root, tmp_path / "out", "participant", *given, *one)
        == run(root, tmp_path / "o2", "participant", "--where", STIMULI, *given, *FEW)
        == 0
    )
    for subject in ("01", "02"):
        epochs, runs = epochs_by_hand(root, subject, "faces", 0.5)
        expected = decode_epochs(
            epochs, groups=runs, picks=["Cz", "Pz"], n_permutations=5, random_state=0
        )
        result = the_result(tmp_path / "o2", f"sub-{subject}_task-faces")
        np.testing.assert_allclose(result.times, expected.times, rtol=0, atol=1e-12)
        np.testing.assert_array_equal(result.scores, expected.scores)
        np.testing.assert_array_equal(result.null, expected.null)
        assert result.scores.max() > 0.8
    # Without --where the button is a class, too.
    assert len(the_result(tmp_path / "out", "sub-01").classes) == 3


def test_events_are_put_in_the_order_of_their_onsets(eeg, tmp_path):
    root = shutil.copytree(eeg[0], tmp_path / "data", ignore=lambda *_: ["derivatives"])
    for path in root.rglob("sub-01*_task-faces*_events.tsv"):
        events = pd.read_csv(path, sep="\t", keep_default_na=False)
        events.sort_values("trial_type", kind="stable").to_csv(
            path, sep="\t", index=False
        )
    given = ["--where", STIMULI, "--tmin", "-0.05", "--tmax", "0.2", "--task", "faces"]
    given += ["--participant-label", "01", *FEW]
    assert run(root, tmp_path / "out", "participant", *given) == 0
    result = the_result(tmp_path / "out", "sub-01")
    expected = the_result(eeg[1], "sub-01_task-faces")
    np.testing.assert_array_equal(result.y, expected.y)
    np.testing.assert_array_equal(result.scores, expected.scores)


def test_classes_are_made_by_expressions(eeg, tmp_path):
    given = ["--by", "trial_type.str.startswith('house')", "--task", "faces"]
    given += ["--tmin", "-0.05", "--tmax", "0.2"]
    given += [
        "--where",
        "trial_type.str.startswith('face') or trial_type.str.startswith('house')",
    ]
    given += FEW
    assert run(eeg[0], tmp_path / "out", "participant", *given) == 0
    for subject in ("01", "02"):
        result = the_result(tmp_path / "out", f"sub-{subject}")
        expected = the_result(eeg[1], f"sub-{subject}_task-faces")
        assert result.classes.tolist() == [False, True]
        np.testing.assert_array_equal(result.scores, expected.scores)


def test_generalization_of_raw_eeg_is_as_by_hand(eeg, tmp_path):
    root, _ = eeg
    given = ["--task", "faces", "--participant-label", "sub-01", "--where", STIMULI]
    given += ["--analysis", "generalization", "--tmin", "-0.1", "--tmax", "0.3"]
    assert run(root, tmp_path / "out", "participant", *given, *FEW) == 0
    epochs, runs = epochs_by_hand(root, "01", "faces")
    expected = generalize_epochs(epochs, groups=runs, n_permutations=5, random_state=0)
    result = the_result(tmp_path / "out", "desc-generalization")
    np.testing.assert_array_equal(result.scores, expected.scores)
    table = pd.read_csv(next((tmp_path / "out").rglob("*.tsv")), sep="\t")
    np.testing.assert_allclose(table["accuracy"], result.scores.ravel(), rtol=1e-12)


def test_epochs_of_the_pipeline_are_decoded_as_by_hand(tmp_path):
    root = bids_data.write_epochs(tmp_path / "pipeline", ("01", "02"))
    given = ["--by", "rt > 0.5", "--train-on", "trial_type == 'face'"]
    given += ["--tmin", "0.1", *FEW]
    assert run(root, tmp_path / "out", "participant", *given) == 0
    assert run(root, tmp_path / "simple", "participant", *FEW) == 0
    path = root / "sub-02" / "eeg" / "sub-02_task-faces_proc-clean_epo.fif"
    epochs = mne.read_epochs(path, verbose="error")
    options = {"groups": "run", "n_permutations": 5, "random_state": 0}
    expected = decode_epochs(epochs, **options)
    result = the_result(tmp_path / "simple", "sub-02")
    np.testing.assert_array_equal(result.scores, expected.scores)
    epochs.crop(0.1, None)
    rt = epochs.metadata["rt"]
    mask = epochs.events[:, 2] == 1
    expected = decode_epochs(epochs, rt > 0.5, train_on=mask, **options)
    result = the_result(tmp_path / "out", "sub-02")
    np.testing.assert_array_equal(result.scores, expected.scores)
    assert result.parameters["train_on"] == "trial_type == 'face'"


def test_the_final_epochs_of_the_pipeline_are_taken(tmp_path):
    """Clean ones, else plain ones, else the first by the name of what was done."""
    root = bids_data.write_epochs(tmp_path / "pipeline", ("01", "02", "03"))
    for subject in ("02", "03"):
        folder = root / f"sub-{subject}" / "eeg"
        stem = f"sub-{subject}_task-faces"
        clean, plain = (folder / f"{stem}{x}_epo.fif" for x in ("_proc-clean", ""))
        shutil.copy(clean, folder / f"{stem}_proc-ssp_epo.fif")
        clean.rename(folder / f"{stem}_proc-ica_epo.fif")
        if subject == "03":
            plain.unlink()
    found = _recordings(root, {"estimate": None})["eeg", "epochs"]
    assert [each.path.name for each in found] == [
        "sub-01_task-faces_proc-clean_epo.fif",
        "sub-02_task-faces_epo.fif",
        "sub-03_task-faces_proc-ica_epo.fif",
    ]


def test_epochs_that_are_rejected_take_their_events_with_them(eeg, tmp_path):
    root = tmp_path / "data"
    bids_data.write_eeg(root, ("01",), loud=(3, 7))
    given = [
        "--reject",
        "eeg=60e-6",
        "--where",
        STIMULI,
        "--tmin",
        "0",
        "--tmax",
        "0.1",
    ]
    out = tmp_path / "out"
    assert run(root, out, "participant", *given, "--baseline", "none", *FEW) == 0
    result = the_result(out, "sub-01")
    assert len(result.y) == 2 * 14
    raw = bids_data.labels_of(root, "01", "faces")
    expected = [np.delete(labels, (3, 7)) for labels in raw]
    np.testing.assert_array_equal(result.classes[result.y], np.concatenate(expected))


# ---------------------------------------------------------------------- fMRI by hand


def betas_by_hand(root, derived, subject):
    """Return what the app estimates of a subject, made by the public function."""
    folder = derived / f"sub-{subject}" / "func"
    stems = [f"sub-{subject}_task-objects_run-{i}" for i in (1, 2, 3)]
    paths = [str(folder / f"{s}_space-{SPACE}_desc-preproc_bold.nii.gz") for s in stems]
    confounds, scans = load_confounds(paths, strategy=("motion",))
    return single_trial_betas(
        paths,
        [root / f"sub-{subject}" / "func" / f"{stem}_events.tsv" for stem in stems],
        conditions=["cat", "dog"],
        t_r=2.0,
        slice_time_ref=0.5,
        confounds=confounds,
        sample_masks=scans,
        mask_img=folder / f"{stems[0]}_space-{SPACE}_desc-brain_mask.nii.gz",
    )


def test_runs_of_fmriprep_are_decoded_as_by_hand(fmri):
    root, derived, out = fmri
    for subject in ("01", "03"):
        betas = betas_by_hand(root, derived, subject)
        expected = searchlight(
            betas.imgs,
            (betas.table, "trial_type"),
            groups="run",
            mask_img=betas.mask_img,
            radius=4.0,
            n_permutations=5,
            random_state=0,
        )
        result = the_result(out, f"sub-{subject}")
        np.testing.assert_array_equal(result.scores, expected.scores)
        assert result.n_permutations == 5
        name = f"*sub-{subject}_*stat-accuracy_statmap.nii.gz"
        (path,) = out.rglob(name)
        values = load_img(path).get_fdata()[1:].ravel()
        np.testing.assert_allclose(values, expected.scores, rtol=1e-6)
    (path,) = out.rglob("*sub-01_*stat-pMax_statmap.nii.gz")
    p = load_img(path).get_fdata()[1:].ravel()
    np.testing.assert_allclose(p, the_result(out, "sub-01").pvalues("max"), rtol=1e-12)


def atlas_of(shape):
    """Return an atlas of two regions."""
    labels = np.ones(shape, np.int16)
    labels[shape[0] // 2 :] = 2
    return Nifti1Image(labels, bids_data.AFFINE)


def test_regions_are_decoded_as_by_hand(fmri, tmp_path):
    root, derived, _ = fmri
    atlas_of(SHAPE).to_filename(tmp_path / "atlas.nii.gz")
    given = ["--derivatives", derived, "--analysis", "regions", "--where", STIMULI]
    given += [
        "--labels-img",
        tmp_path / "atlas.nii.gz",
        "--participant-label",
        "02",
        *FEW,
    ]
    assert run(root, tmp_path / "out", "participant", *given) == 0
    betas = betas_by_hand(root, derived, "02")
    expected = decode_regions(
        betas.imgs,
        (betas.table, "trial_type"),
        groups="run",
        labels_img=tmp_path / "atlas.nii.gz",
        mask_img=betas.mask_img,
    )
    result = the_result(tmp_path / "out", "desc-regions")
    np.testing.assert_array_equal(result.scores, expected.scores)


def test_blocks_are_means_of_their_scans(fmri, tmp_path):
    root, derived, _ = fmri
    given = ["--derivatives", derived, "--estimate", "blocks", "--where", STIMULI]
    given += ["--participant-label", "01", "--delay", "4", "--radius", "4", *FEW]
    seen = []

    @wraps(searchlight)
    def spy(imgs, y, **options):
        seen.append((imgs, y[0]))
        return searchlight(imgs, y, **options)

    with pytest.MonkeyPatch.context() as patch:
        spying = replace(app.ANALYSES["searchlight"], function=spy)
        patch.setitem(app.ANALYSES, "searchlight", spying)
        assert run(root, tmp_path / "out", "participant", *given) == 0
    text = methods_text(the_result(tmp_path / "out", "sub-01"))
    assert "slower than 0.01 Hz were removed, the latter by a Butterworth" in text
    ((imgs, trials),) = seen
    images = np.asarray(imgs.dataobj)
    assert images.shape[3] == len(trials) == 24
    stem = "sub-01_task-objects_run-2"
    folder = derived / "sub-01" / "func"
    path = folder / f"{stem}_space-{SPACE}_desc-preproc_bold.nii.gz"
    confounds, _ = load_confounds(str(path), strategy=("motion",))
    signal = load_img(path).get_fdata()[2, 3, 4]
    cleaned = clean(
        signal[:, np.newaxis],
        standardize=None,
        confounds=confounds,
        high_pass=0.01,
        t_r=2.0,
    )
    events = pd.read_csv(root / "sub-01" / "func" / f"{stem}_events.tsv", sep="\t")
    for i, onset in enumerate(events["onset"][:8]):
        # Scans are taken at 1, 3, 5, ... s; a block of 4 s holds two, 4 s later.
        first = round((onset + 4 - 1 + 1) / 2)
        expected = cleaned[first : first + 2].mean() + signal.mean()
        np.testing.assert_allclose(images[2, 3, 4, 8 + i], expected, rtol=1e-5)


def test_images_of_single_trials_are_decoded_with_their_tables(fmri, tmp_path):
    root, derived, out = fmri
    betas = betas_by_hand(root, derived, "01")
    bids_data.describe(tmp_path / "trials", "GLMsingle")
    folder = tmp_path / "trials" / "sub-01" / "func"
    folder.mkdir(parents=True)
    for number in (1, 2, 3):
        rows = np.flatnonzero(betas.table["run"] == number)
        # Stacked by condition, as some programs write them.
        labels = betas.table["trial_type"].to_numpy()[rows]
        rows = rows[np.argsort(labels, kind="stable")]
        stem = folder / f"sub-01_task-objects_run-{number}_space-{SPACE}_betaseries"
        data = betas.imgs.get_fdata()[..., rows]
        Nifti1Image(data, bids_data.AFFINE).to_filename(f"{stem}.nii.gz")
        betas.mask_img.to_filename(f"{stem}_mask.nii.gz")
        betas.table.iloc[rows].to_csv(f"{stem}.tsv", sep="\t", index=False)
    given = ["--estimate", "images", "--radius", "4", *FEW]
    assert run(tmp_path / "trials", tmp_path / "out", "participant", *given) == 0
    expected = the_result(out, "sub-01")
    result = the_result(tmp_path / "out", "sub-01")
    np.testing.assert_array_equal(result.y, expected.y)
    np.testing.assert_array_equal(result.scores, expected.scores)


# ------------------------------------------------------------------- names and sidecars


def test_names_are_found_by_the_tools_of_others(eeg, fmri):
    from mne_bids import find_matching_paths, get_entity_vals

    out = eeg[1]
    assert get_entity_vals(out, "subject") == ["01", "02"]
    assert get_entity_vals(out, "task") == ["faces", "words"]
    assert get_entity_vals(out, "description") == ["time"]
    assert get_entity_vals(fmri[2], "space") == [SPACE]
    assert get_entity_vals(fmri[2], "description") == ["searchlight"]
    found = find_matching_paths(
        out, subjects="02", tasks="words", descriptions="time", extensions=".tsv"
    )
    assert [path.basename for path in found] == [
        "sub-02_task-words_desc-time_decoding.tsv"
    ]
    found = get_bids_files(
        fmri[2],
        file_tag="statmap",
        file_type="nii.gz",
        sub_label="03",
        modality_folder="func",
        filters=[("task", "objects"), ("stat", "accuracy"), ("space", SPACE)],
    )
    assert len(found) == 1
    folder = Path(found[0]).parent
    described = json.loads((fmri[2] / "dataset_description.json").read_text())
    assert described["DatasetType"] == "derivative"
    assert described["GeneratedBy"][0]["Name"] == "mvpa_kfda"
    for url in described["DatasetLinks"].values():
        assert (fmri[2] / url / "dataset_description.json").is_file()
    assert {p.name.partition(".")[2] for p in folder.iterdir()} == {
        *("h5", "tsv", "json", "nii.gz")
    }


def test_the_derivative_says_what_it_is_and_what_it_is_of(tmp_path):
    raw, derived, out = (tmp_path / name for name in ("raw", "prepared", "a/out"))
    describe_dataset(out, {"raw": raw, "fmriprep": derived, "none": None})
    described = json.loads((out / "dataset_description.json").read_text())
    (maker,) = described.pop("GeneratedBy")
    assert maker.pop("Description")
    assert maker == {"Name": "mvpa_kfda", "Version": __version__}
    links = {"raw": "../../raw", "fmriprep": "../../prepared"}
    assert described == {
        "Name": "Decoding results of mvpa_kfda",
        "BIDSVersion": "1.10.0",
        "DatasetType": "derivative",
        "SourceDatasets": [{"URL": "../../raw"}, {"URL": "../../prepared"}],
        "DatasetLinks": links,
    }
    assert "*.h5" in (out / ".bidsignore").read_text().splitlines()


def test_every_file_has_a_sidecar_that_describes_it(eeg, fmri):
    for out in (eeg[1], fmri[2]):
        files = [
            path
            for path in out.glob("sub-*/**/*")
            if path.is_file() and path.suffix != ".json"
        ]
        for path in files:
            sidecar = path.with_name(path.name.partition(".")[0] + ".json")
            content = json.loads(sidecar.read_text())
            assert content["Description"]
            assert content["Options"]["where"] == STIMULI
            assert None not in content["Options"].values()
            resolved = content["Parameters"]
            assert resolved["reg"] == "auto"
            assert resolved["cv"]["name"] in ("KFold", "LeaveOneGroupOut")
            assert resolved["kernel"] == {"name": "Linear"}
            assert content["GeneratedBy"] == {
                "Name": "mvpa_kfda",
                "Version": __version__,
            }
            assert content["Versions"]["mvpa_kfda"] == __version__
            assert content["Versions"]["numpy"] == np.__version__
            assert content["Parameters"]["n_permutations"] == 5
            assert all(name.startswith("bids:") for name in content["Sources"])
            if path.suffix == ".tsv":
                columns = pd.read_csv(path, sep="\t", nrows=1).columns
                for name in columns:
                    assert content[name]["Description"]
                    known = name in COLUMNS or name.startswith("p_")
                    assert known or name in ("accuracy", "voxel")


def test_the_group_is_tested_as_by_hand(eeg, fmri, capsys):
    root, out = eeg
    method = ["--method", "t", "--correction", "fdr", "none"]
    assert run(root, out, "group", "--task", "words", *method) == 0
    files = sorted(out.glob("sub-*/eeg/*task-words_*.h5"))
    expected = group_inference(files, "t", ["fdr", "none"], random_state=0)
    path = out / "group" / "group_task-words_desc-time_decoding.h5"
    result = load_result(path)
    np.testing.assert_array_equal(result.pvalues("fdr"), expected.pvalues("fdr"))
    assert list(result.subjects) == ["01", "02"]
    table = pd.read_csv(path.with_suffix(".tsv"), sep="\t")
    np.testing.assert_allclose(table["p_fdr"], expected.pvalues("fdr"), rtol=1e-12)
    citations = (out / "CITATION.bib").read_text()
    keys = re.findall(r"(?m)^@\w+\{(\w+),$", citations)
    assert len(keys) == len(set(keys)) > 5
    # Of the subjects' tests, and of the group's.
    assert {"Nichols2002", "Benjamini1995"} <= set(keys)
    sidecar = json.loads(path.with_suffix(".json").read_text())
    assert set(table.columns) <= set(sidecar)
    root, _, out = fmri
    assert run(root, out, "group", "--correction", "none") == 0
    files = sorted(out.glob("sub-*/func/*.h5"))
    expected = group_inference(files, correction="none", random_state=0, resample=True)
    (path,) = out.glob("group/*stat-p_statmap.nii.gz")
    values = load_img(path).get_fdata()[1:].ravel()
    np.testing.assert_allclose(values, expected.pvalues(), rtol=1e-6)
    capsys.readouterr()
    assert run(root, out, "group", "--correction", "none") == 0
    assert "there already" in capsys.readouterr().out


def test_a_subject_with_a_single_run_has_other_folds_and_is_named(tmp_path, capsys):
    root = bids_data.write_eeg(tmp_path / "data")
    bids_data.write_eeg(root, ["03"], n_runs=1)
    out = tmp_path / "out"
    given = ["--where", STIMULI, "--tmax", "0.1", "--n-permutations", "0"]
    assert run(root, out, "participant", *given) == 0
    capsys.readouterr()
    assert run(root, out, "group", "--method", "t", "--correction", "none") == 0
    text = capsys.readouterr().err
    assert f"Subject 03 ({out}" in text
    (result,) = out.glob("group/*.h5")
    kept = " ".join(load_result(result).warnings)
    for told in (
        "was analysed differently from the first: ",
        "cv (KFold(",
        "instead of LeaveOneGroupOut()), ",
        "groups (no instead of yes)",
    ):
        assert told in text
        assert told in kept


def test_sessions_that_were_chosen_are_tests_of_their_own():
    names = {None: ["01", "02"], "1": ["03"], "2": ["04"]}
    tests = {
        (*(() if ses is None else (("ses", ses),)), ("task", "faces")): {
            name: Path(name) for name in of_session
        }
        for ses, of_session in names.items()
    }
    joined, first, second = tests
    chosen = {key: dict(each) for key, each in tests.items()}
    assert _with_single_sessions(tests) == {joined: ["03", "04"]}
    assert {key: list(each) for key, each in tests.items()} == {
        joined: ["01", "02", "03", "04"]
    }
    # Subject 01 has results of a session, too: of 03 it may have been chosen as well.
    chosen[first]["01"] = Path("01")
    assert _with_single_sessions(chosen) == {}
    assert [*chosen] == [joined, first, second]


@pytest.mark.some(1)
@pytest.mark.parametrize("n_left", [1, 2])
def test_groups_are_sessions_where_each_has_one_run(tmp_path, capsys, n_left):
    root = bids_data.write_eeg(tmp_path / "data", in_sessions=True)
    bids_data.write_eeg(root, ["03"], n_runs=n_left, seed=1, in_sessions=True)
    out = tmp_path / "out"
    given = ["--where", STIMULI, "--tmax", "0.1", "--n-permutations", "0"]
    assert run(root, out, "participant", *given) == 0
    result = the_result(out, "sub-01")
    assert result.parameters["recordings"]["group"] == "session"
    assert result.parameters["recordings"]["baseline"] == ["none", "0"]
    text = methods_text(result)
    assert "leave-one-session-out cross-validation" in text
    assert "trials were in 2 sessions" in text
    capsys.readouterr()
    assert run(root, out, "group", "--method", "t", "--correction", "none") == 0
    shown, told = capsys.readouterr()
    assert ("of a single session: sub-03" in shown) == (n_left == 1)
    (path,) = out.glob("group/*.h5")
    group = load_result(path)
    of_group = methods_text(group)
    assert ("leave-one-session-out" in of_group) == (n_left == 2)
    assert group.n_subjects == 3
    # One session leaves nothing to leave out: folds are others, which is told.
    for said in (told, " ".join(group.warnings)):
        for words in (
            "cv (KFold(",
            "groups (no instead of yes)",
            "recordings.group (none instead of session)",
        ):
            assert (words in said) == (n_left == 1)
    assert ("kind of folds (03)" in of_group) == (n_left == 1)


def test_results_without_permutations_have_no_p_values(eeg, fmri, tmp_path):
    scores = ["--scoring", "accuracy", "confusion_matrix"]
    none = ["--n-permutations", "0", "--where", STIMULI, *scores]
    out = tmp_path / "eeg"
    given = ["--task", "faces", "--participant-label", "01"]
    assert run(eeg[0], out, "participant", *none, *given) == 0
    for path in out.rglob("*.tsv"):
        assert path.read_text().startswith("time\taccuracy\n")
    assert "Golub1979" in (out / "CITATION.bib").read_text()
    root, derived, _ = fmri
    given = ["--derivatives", derived, "--participant-label", "01", "--radius", "4"]
    out = tmp_path / "fmri"
    assert run(root, out, "participant", *none, *given) == 0
    (image,) = out.rglob("*.nii.gz")
    assert image.name.endswith("_stat-accuracy_statmap.nii.gz")


# ----------------------------------------------------------------------- a second call


@pytest.fixture
def epochs(tmp_path):
    """Return a small dataset of epochs, and what is decoded of it."""
    root = bids_data.write_epochs(tmp_path / "data", ("01", "02"))
    assert run(root, tmp_path / "out", "participant", *FEW) == 0
    return root, tmp_path / "out"


def test_a_second_call_does_only_what_is_missing(epochs, capsys):
    root, out = epochs
    before = states(out)
    capsys.readouterr()
    assert run(root, out, "participant", *FEW, "--n-jobs", "1") == 0
    assert capsys.readouterr().out.count("there already") == 2
    assert states(out) == before
    (table,) = out.rglob("*sub-01*.tsv")
    table.unlink()
    first, second = sorted(before)
    second.unlink()
    assert run(root, out, "participant", *FEW) == 0
    assert table.is_file()
    after = states(out)
    assert after[first] == before[first]
    assert after[second] > before[second]


def test_what_changed_is_done_anew_and_said(epochs, capsys):
    root, out = epochs
    before = states(out)
    epochs_file = root / "sub-02" / "eeg" / "sub-02_task-faces_proc-clean_epo.fif"
    os.utime(epochs_file)  # as copies have other times, too
    capsys.readouterr()
    assert run(root, out, "participant", *FEW) == 0
    assert capsys.readouterr().out.count("there already") == 2
    mne.read_epochs(epochs_file, verbose="error")[:23].save(
        epochs_file, overwrite=True, verbose="error"
    )
    assert run(root, out, "participant", *FEW) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "there already" in lines[0]
    assert "replaces an earlier result, as these changed: input files" in lines[1]
    assert run(root, out, "participant", "--n-permutations", "7") == 0
    text = capsys.readouterr().out
    assert text.count("as these changed: --n-permutations;") == 2
    assert the_result(out, "sub-01").n_permutations == 7
    assert all(after > before[path] for path, after in states(out).items())
    # Another name keeps both.
    assert run(root, out, "participant", *FEW, "--desc", "few trials") == 0
    assert the_result(out, "sub-01_task-faces_desc-fewTrials").n_permutations == 5
    assert the_result(out, "sub-01_task-faces_desc-time").n_permutations == 7


def test_files_of_earlier_options_do_not_stay(epochs):
    root, out = epochs
    assert run(root, out, "participant", *FEW, "--scoring", "roc_auc") == 0
    for path in out.rglob("*.tsv"):
        assert "roc_auc" in path.read_text()
        assert "accuracy" not in path.read_text()


def test_a_result_of_unknown_origin_is_not_replaced(epochs, capsys):
    root, out = epochs
    for path in out.rglob("sub-01*.json"):
        path.unlink()
    before = states(out)
    assert run(root, out, "participant", *FEW) == 1
    assert "says how it was made" in capsys.readouterr().err
    assert states(out) == before


def test_a_subject_that_fails_does_not_stop_the_others(epochs, capsys, tmp_path):
    root, _ = epochs
    path = root / "sub-01" / "eeg" / "sub-01_task-faces_proc-clean_epo.fif"
    path.write_bytes(b"no epochs")
    (root / "sub-03").mkdir()
    assert run(root, tmp_path / "new", "participant", *FEW) == 1
    said = capsys.readouterr()
    assert "mvpa-kfda: error: sub-01 task-faces: " in said.err
    assert "sub-03 task-faces: there are no runs of task 'faces'" in said.err
    assert "Traceback" not in said.err
    assert "sub-02 task-faces: highest accuracy" in said.out
    assert "2 of 3 failed" in said.out
    assert [p.name[:6] for p in (tmp_path / "new").rglob("*.h5")] == ["sub-02"]


def test_what_fails_late_is_finished_without_decoding_again(
    epochs, monkeypatch, capsys
):
    root, out = epochs
    before = states(out)
    with monkeypatch.context() as patch:
        patch.setattr(app.Output, "finish", None)
        assert run(root, out, "participant", "--n-permutations", "8") == 2
    after = states(out)
    assert all(after[path] > before[path] for path in before)
    assert not list(out.rglob("*.tsv"))
    assert run(root, out, "participant", "--n-permutations", "8") == 0
    assert len(list(out.rglob("*.tsv"))) == 2
    assert states(out) == after
    # What cannot be decoded anew does not cost what is there.
    capsys.readouterr()
    assert run(root, out, "participant", "--n-permutations", "8", "--cv", "99") == 2
    assert "sub-01 task-faces: " in capsys.readouterr().err
    assert states(out) == after


def test_a_stopped_searchlight_is_continued(fmri, tmp_path, monkeypatch, capsys):
    root, derived, out = fmri
    given = ["--derivatives", derived, "--where", STIMULI, "--radius", "4"]
    given += ["--participant-label", "01", *FEW]
    save = Output.save

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Output, "save", stop)
    new = tmp_path / "new"
    assert run(root, new, "participant", *given) == 130
    assert "stopped; run the same command to continue" in capsys.readouterr().err
    (checkpoint,) = new.rglob("*.checkpoint")
    from mvpa_kfda.utils.checkpoint import Checkpoint

    with Checkpoint(checkpoint) as kept:
        assert kept.finished
    monkeypatch.setattr(Output, "save", save)
    assert run(root, new, "participant", *given) == 0
    assert not list(new.rglob("*.checkpoint*"))
    expected = the_result(out, "sub-01").scores
    np.testing.assert_array_equal(the_result(new, "sub-01").scores, expected)


def test_there_is_a_page_for_each_subject_and_the_group(epochs, monkeypatch, capsys):
    root, out = epochs
    for path in out.glob("*.html"):
        path.unlink()
    monkeypatch.setattr(app, "write_page", WRITE_PAGE)
    few = [each for each in SECTIONS if each.title in ("Summary", "Scores")]
    monkeypatch.setattr("mvpa_kfda.reports.page.SECTIONS", few)
    given = ["--participant-label", "02"]
    assert run(root, out, "participant", *FEW, *given) == 0
    assert "there already" in capsys.readouterr().out
    assert run(root, out, "group", "--method", "t") == 0
    assert {path.name for path in out.glob("*.html")} == {
        "index.html",
        "sub-02_desc-time_report.html",
        "group_task-faces_desc-time_report.html",
    }
    text = (out / "sub-02_desc-time_report.html").read_text()
    result = the_result(out, "sub-02")
    assert "Subject 02" in text
    assert rounded(result.scores.max()) in text
    assert "FDR correction" not in text
    corrected = [*given, "--correction", "fdr", "max"]
    assert run(root, out, "participant", *FEW, *corrected) == 0
    text = (out / "sub-02_desc-time_report.html").read_text()
    for name in ("FDR", "max-statistic"):
        assert re.search(f'<img alt="[^"]*{name} correction', text)

    def fail(*_):
        raise ValueError("no paper")

    monkeypatch.setattr(app, "write_page", fail)
    assert run(root, out, "participant", "--n-permutations", "6", *given) == 1
    assert "error: sub-02 page: no paper" in capsys.readouterr().err


# ----------------------------------------------------------------------------- options


def test_the_file_of_a_run_repeats_it(epochs, tmp_path, capsys):
    root, out = epochs
    given = ["--by", "rt > 0.5", "--where", "rt > 0", "--picks", "Cz", "Pz"]
    given += [
        "--reg",
        "0.1",
        "1",
        "--no-average-test",
        "--average",
        "2",
        "--tmin",
        "0.1",
    ]
    assert run(root, out, "participant", *given, *FEW, "--desc", "rt") == 0
    result = the_result(out, "sub-01_task-faces_desc-rt")
    assert result.parameters["reg"]["grid"] == [0.1, 1.0]
    config = out / "participant_desc-rt_config.toml"
    before, text = states(out), config.read_text()
    capsys.readouterr()
    assert run(root, out, "participant", "--config", config) == 0
    assert capsys.readouterr().out.count("there already") == 2
    assert states(out) == before
    assert config.read_text() == text
    one = ["--config", config, "--participant-label", "01"]
    assert run(root, tmp_path / "new", "participant", *one) == 0
    first, second = (
        the_result(o, "sub-01_task-faces_desc-rt") for o in (out, tmp_path / "new")
    )
    assert first == second
    # The command line comes first, and tables of the other level are not read.
    mine = tmp_path / "mine.toml"
    mine.write_text(
        'by = "trial_type"\nscoring = ["roc_auc", "accuracy"]\n'
        "[participant]\nn-permutations = 9\nn_jobs = 1\nreg = 0.3\n"
        '[group]\nmethod = "t"\ncorrection = "none"\n'
    )
    new = tmp_path / "other"
    arguments = ["participant", "--config", mine, "--scoring", "accuracy"]
    assert run(root, new, *arguments) == 0
    result = the_result(new, "sub-01")
    assert (result.scoring, result.n_permutations) == (["accuracy"], 9)
    assert result.parameters["reg"] == 0.3
    assert run(root, new, "group", "--config", mine) == 0
    (path,) = new.glob("group/*.h5")
    assert load_result(path).method == "t"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n-permutatons = 5", "Did you mean 'n-permutations'"),
        ("[group]\nby = 'a'", "unknown key 'by' of [group]"),
        ("tmin = 'early'", "invalid value for tmin: 'early'"),
        ("n-compcor = 1.5", "Allowed: a whole number"),
        ("analysis = 'all'", "Allowed: 'time', 'generalization'"),
        ("equalize = 1", "Allowed: true or false"),
        ("tmin = [0, 1]", "tmin takes one value, not a list"),
        ("tmin = true", "Allowed: a number"),
        ("by =", "is no valid TOML"),
        ("group = 3", "are tables of options"),
    ],
)
def test_mistakes_in_a_file_are_said_in_one_sentence(tmp_path, capsys, text, message):
    config = tmp_path / "config.toml"
    config.write_text(text)
    assert run(tmp_path, tmp_path / "out", "participant", "--config", config) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert not (tmp_path / "out").exists()


@pytest.mark.some(6)
@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--task", "rest"], "--task rest: no recording is of that task. Those of"),
        (["--participant-label", "9"], "no recording is of that participant-label"),
        (["--session", "2"], "no recording is of that session. There are none."),
        (["--run", "9"], "no recording is of that run"),
        (["--datatype", "meg"], "has nothing to decode of datatype 'meg'"),
        (["--derivatives", "nowhere"], "there is no such folder"),
        (
            ["--analysis", "regions"],
            "--analysis regions is not for eeg data. For these take time or "
            "generalization.",
        ),
        (["--radius", "3"], "--radius is not for --analysis time"),
        (["--method", "t"], "--method does not apply to the level participant"),
        (["--correction", "cluster-fdr"], "is for the level group"),
        (["--reg", "Tunned(3)"], "Did you mean Tuned?"),
        (["--analysis", "region"], "Did you mean regions?"),
        (["--tsk", "faces"], "Did you mean --task?"),
        (["--mask-img", "no.nii"], "no such file: no.nii"),
        (["--config", "no.toml"], "--config no.toml: the file cannot be read"),
    ],
)
def test_mistakes_are_said_before_anything_is_done(
    eeg, tmp_path, capsys, given, message
):
    assert run(eeg[0], tmp_path / "out", "participant", *given) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            ["--by", "shape"],
            "--by 'shape' is no column of the events, and no expression",
        ),
        (["--by", "onset >"], "no expression on them: "),
        (["--by", "onset + 0.5"], "numbers"),
        (["--where", "trial_type == 'cat'"], "--where and --by leave no event"),
        (["--where", "trial_type == 'cat'"], "trial_type is 'button', 'face/left', "),
        (["--where", "trial_type == 'button'"], "gives all events one label, 'button'"),
        (["--where", "onset"], "is not true or false for each event"),
        (["--train-on", "onset > 1e6"], "selects none of the"),
        (["--reject", "eeg"], "write TYPE=LIMIT"),
        (["--reject", "eeg=1e-9"], "No epoch is left"),
        (["--baseline", "early"], "is not a baseline. Use two numbers in seconds"),
        (["--picks", "C99"], "C99"),
    ],
)
def test_mistakes_of_every_subject_are_said(eeg, tmp_path, capsys, given, message):
    given = [*given, "--participant-label", "01", "--task", "faces", *FEW]
    assert run(eeg[0], tmp_path / "out", "participant", *given) == 2
    lines = capsys.readouterr().err.splitlines()
    (line,) = [line for line in lines if "error" in line]
    assert line.startswith("mvpa-kfda: error: sub-01 task-faces: ")
    assert message in line
    assert not list((tmp_path / "out").rglob("*.h5"))


def test_two_spaces_must_be_chosen_from(tmp_path, capsys):
    root, derived, out = tmp_path / "raw", tmp_path / "prep", tmp_path / "out"
    spaces = (f"{SPACE}_res-2", SPACE, "T1w")
    bids_data.write_fmri(root, derived, ("01", "02"), 2, spaces, shape=(4, 4, 4))
    given = ["--derivatives", derived, "--where", STIMULI, "--radius", "4", *FEW]
    assert run(root, out, "participant", *given) == 2
    assert f"3 spaces: {SPACE}, {SPACE}:res-2, T1w. Choose" in capsys.readouterr().err
    assert run(root, out, "participant", *given, "--space", "MNI") == 2
    assert "no image is in that space" in capsys.readouterr().err
    for space, part in (
        (f"{SPACE}:res-2", f"space-{SPACE}_res-2"),
        ("T1w", "space-T1w"),
    ):
        assert run(root, out, "participant", *given, "--space", space) == 0
        assert len(list(out.rglob(f"*_{part}_desc-searchlight_decoding.h5"))) == 2
    assert run(root, out, "group", "--space", "T1w") == 2
    assert "each subject's own brain" in capsys.readouterr().err


def test_places_that_do_harm_are_refused(epochs, tmp_path, capsys):
    root, out = epochs
    other = tmp_path / "other"
    bids_data.describe(other, "fMRIPrep")
    full = tmp_path / "full"
    full.mkdir()
    (full / "thesis.txt").write_text("")
    for place, message in [
        (root, "is the dataset itself"),
        (root / "sub-01" / "results", "is inside of sub-01 of the dataset"),
        (
            other,
            "is another dataset, by its dataset_description.json made by 'fMRIPrep'",
        ),
        (full, "holds files, but is no dataset of mvpa_kfda"),
        (full / "thesis.txt", "is a file"),
    ]:
        assert run(root, place, "participant") == 2
        assert message in capsys.readouterr().err
    assert run(full, out, "participant") == 2
    assert "is no BIDS dataset" in capsys.readouterr().err
    assert run(root, tmp_path / "empty", "group") == 2
    assert "has no results of subjects" in capsys.readouterr().err


def test_what_is_missing_in_a_dataset_is_said(tmp_path, capsys):
    root, derived, out = tmp_path / "raw", tmp_path / "prep", tmp_path / "out"
    bids_data.write_fmri(root, derived, ("01",), 2)
    assert run(root, out, "participant") == 2
    assert "nothing to decode" in capsys.readouterr().err
    bold = next(derived.rglob("*bold.nii.gz"))
    shutil.copy(
        bold, root / "sub-01" / "func" / "sub-01_task-objects_run-1_bold.nii.gz"
    )
    assert run(root, out, "participant") == 2
    assert "Set --derivatives to its output" in capsys.readouterr().err
    given = ["--derivatives", derived, "--confounds", "scrub", *FEW]
    assert run(root, out, "participant", *given) == 2
    said = capsys.readouterr().err
    assert (
        "have no column 'framewise_displacement'). Choose others with --confounds"
        in said
    )
    for path in derived.rglob("*confounds*"):
        path.unlink()
    assert run(root, out, "participant", "--derivatives", derived, *FEW) == 2
    assert "finds no confounds 'motion' of fMRIPrep" in capsys.readouterr().err
    for path in root.rglob("*events.tsv"):
        path.unlink()
    given = ["--derivatives", derived, "--confounds", "none", *FEW]
    assert run(root, out, "participant", *given) == 2
    assert "has no events: there is no events.tsv" in capsys.readouterr().err
    for path in derived.rglob("*_desc-preproc_bold.nii.gz"):
        old = path.name.replace("_desc-preproc_bold", "_bold_preproc")
        path.rename(path.with_name(old))
    assert run(root, out, "participant", "--derivatives", derived) == 2
    assert "as fMRIPrep did before its version 1.2" in capsys.readouterr().err


def test_raw_data_without_mne_bids_name_what_to_install(
    eeg, tmp_path, capsys, monkeypatch
):
    monkeypatch.setitem(sys.modules, "mne_bids", None)
    given = ["--task", "faces", *FEW]
    assert run(eeg[0], tmp_path / "out", "participant", *given) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert 'pip install "mvpa-kfda[bids]"' in line
    assert not (tmp_path / "out").exists()


def test_every_option_is_in_the_page_about_it():
    page = Path(__file__).parents[2] / "doc" / "bids.rst"
    text = re.sub(r"(?s)\$ docker run .*?\$ head", "", page.read_text())  # fMRIPrep's
    named = set(re.findall(r"--[a-z][a-z-]+", text))
    flags = {f"--{key}" for name in LEVELS for key in keys_of(name)}
    assert flags | {"--config"} <= named
    of_verify = {"--bids-dir", "--lut", "--record"}
    assert named <= flags | {"--config", "--help"} | of_verify


def test_the_file_in_the_page_is_valid(epochs, tmp_path):
    page = (Path(__file__).parents[2] / "doc" / "bids.rst").read_text()
    (text,) = re.findall(r"(?s)code-block:: toml\n\n(.*?)\n\n\S", page)
    config = tmp_path / "faces.toml"
    config.write_text(textwrap.dedent(text))
    for level in LEVELS:
        options = {name: keys_of(name) for name in LEVELS}
        assert len(read_config(config, level, options)) >= 4


def test_marks_of_bad_stretches_are_no_events(tmp_path):
    """As MNE-BIDS writes the annotations "BAD_..." and "EDGE boundary"."""
    names = ["cat", "BAD_blink", "dog", "EDGE boundary", "bad", "n/a"]
    table = pd.DataFrame({"onset": [1, 2, 3, 4, 5, None], "duration": 0.0})
    path = tmp_path / "events.tsv"
    table.assign(trial_type=names).to_csv(path, sep="\t", index=False, na_rep="n/a")
    options = {"by": "trial_type", "where": None}
    found = events.events_of_runs([Run("1", tmp_path, path)], options)
    kept = wanted(found)
    assert kept["trial_type"].tolist() == ["cat", "dog"]
    assert kept["onset"].tolist() == [1, 3]
    assert count_fates(found) == {"1": {"decoded": 2, Fate.MARK: 3, Fate.NO_LABEL: 1}}
