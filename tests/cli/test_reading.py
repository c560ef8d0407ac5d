"""What commands read: volumes with their labels, blocks, epochs of other programs."""

import re
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from nibabel import Nifti1Image
from numpy.testing import assert_allclose, assert_array_equal
from scipy.io import savemat

from mvpa_kfda import decode_epochs, load_result, searchlight
from tests.commands import (
    AFFINE,
    BOLD,
    FEW,
    KEEP,
    RUNS,
    SHORT,
    call,
    expected_searchlight,
    on_disk,
    run,
)

NONE = "--n-permutations 0"


# ----------------------------------------------------------------------------- volumes


@pytest.mark.parametrize("labels", ["labels.tsv", "first.csv second.csv"])
def test_several_images_are_joined(inside, tmp_path, capsys, no_figures, labels):
    words = f"searchlight first.nii.gz second.nii --labels {labels} --groups file"
    files = run(tmp_path, f"{words} {SHORT} {FEW} --n-permutations 2")
    given = {"process_mask_img": "few.nii.gz", "n_permutations": 2}
    expected = expected_searchlight(groups=1 + (RUNS[KEEP] > 1), **given)
    assert load_result(files[".h5"]) == expected
    assert files[".h5"].name == "first_searchlight.h5"
    assert "first.nii.gz and 1 more: 28 of 32 volumes" in capsys.readouterr().out


def test_images_of_which_nothing_is_left(inside, tmp_path, no_figures):
    table = pd.read_csv("labels.tsv", sep="\t")
    table["label"] = table["label"].where(RUNS < 2, "other")
    table.to_csv(tmp_path / "labels.csv", index=False)
    words = f"searchlight first.nii.gz second.nii {SHORT} {NONE} --drop other --cv 3"
    files = run(tmp_path / "out", words, "--labels", tmp_path / "labels.csv")
    assert len(load_result(files[".h5"]).y) == KEEP[:8].sum()


def test_missing_labels_and_numbers_as_labels(inside, tmp_path, capsys, no_figures):
    words = f"searchlight bold.nii.gz --mask-img mask.nii.gz --radius 3 {NONE} --labels"
    files = run(tmp_path, f"{words} gaps.tsv --drop n/a --groups run")
    expected = expected_searchlight(groups=RUNS[KEEP].astype(float))
    assert load_result(files[".h5"]) == expected
    run(tmp_path, f"{words} holes.tsv --label-column code --drop n/a")
    assert "2 classes: 1 16, 2 12\n" in capsys.readouterr().out
    words = f"{words} labels.tsv --label-column run --cv 4 --classes"
    files = run(tmp_path, words, "{'early': [1, 2], 'late': 4}")
    result = load_result(files[".h5"])
    assert result.classes.tolist() == ["early", "late"]
    assert result.parameters["classes"] == {"early": ["1", "2"], "late": ["4"]}


JOINED = "searchlight first.nii.gz second.nii --labels"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("searchlight no.nii.gz --labels labels.tsv", "no such file: no.nii.gz"),
        ("searchlight bold.nii.gz --labels no.tsv", "no such file: no.tsv"),
        ("searchlight text.nii.gz --labels labels.tsv", "'text.nii.gz' is no image"),
        ("searchlight . --labels labels.tsv", "is no file"),
        (BOLD.replace("bold", "cut"), "data of cut.nii.gz cannot be read"),
        (f"{BOLD} {SHORT}".replace("bold", "cut"), "data of cut.nii.gz cannot"),
        (BOLD.replace("bold", "single"), "is a single image"),
        (BOLD.replace("--", "other.nii.gz --"), "on another grid"),
        ("searchlight bold.nii.gz --labels labels.txt", "must be .* name ends in"),
        ("searchlight bold.nii.gz --labels bold.nii.gz", "table of --labels must be"),
        ("searchlight bold.nii.gz --labels first.csv", "has 8 rows .* 32 .* of bold"),
        (f"{JOINED} first.csv", "first.csv has 8 rows for the 32 volumes of all"),
        (f"{JOINED} second.csv first.csv", "second.csv has 24 rows for the 8 vol"),
        (f"{BOLD} first.csv", "2 tables for 1 images. Use one table for all"),
        (f"{BOLD} --label-column x", "--label-column: 'x' is not .*'label', 'run'"),
        (f"{BOLD} --groups x", "--groups: 'x' is not a .*'label', 'run', 'ch"),
        (f"{BOLD} --groups '[1, 2]'", r"--groups: \[1, 2\] is not a column"),
        (f"{BOLD} --drop Rest", "no volume has .* 'Rest'.* 'face', 'house', 'rest"),
        (f"{BOLD} --drop face house rest", "--drop leaves no volume"),
        (BOLD.replace("labels.tsv", "gaps.tsv"), "'label' .* for 4 .*: volume 3"),
        (
            f"{BOLD} --groups run".replace("labels.tsv", "holes.tsv"),
            "'run' of --labels is empty for 8",
        ),
        (
            f"{BOLD} --confounds code".replace("labels.tsv", "holes.tsv"),
            "'code' of --labels is empt",
        ),
        ("betas hemi-L.func.gii --events labels.tsv", "surface images are decoded in"),
        ("regions hemi-L.func.gii --labels labels.tsv", "surface images are decoded"),
    ],
)
def test_what_does_not_fit_is_one_line(inside, tmp_path, capsys, words, message):
    if "hemi" in words:
        (tmp_path / "hemi-L.func.gii").touch()
        words = words.replace("hemi", str(tmp_path / "hemi"))
    assert call(words, "--out", tmp_path / "out") == 2
    printed = capsys.readouterr()
    (line,) = printed.err.splitlines()
    assert line.startswith("mvpa-kfda: error: ")
    assert re.search(message, line)
    assert printed.out == ""
    assert list(tmp_path.rglob("*.checkpoint")) == []


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


@pytest.fixture
def blocks(tmp_path):
    """Write two images of blocks and their table; return data, table and words."""
    # Sums of three of these are beyond the type that they are written in.
    data = np.random.default_rng(1).integers(20000, 32000, size=(5, 5, 5, 21))
    data[2, 2, 2] -= 9000 * np.array([row[0] == "face" for row in BLOCKS])
    on_disk(tmp_path / "a.nii.gz", data[..., :11].astype(np.int16))
    on_disk(tmp_path / "b.nii.gz", data[..., 11:].astype(np.int16))
    table = pd.DataFrame(BLOCKS, columns=["label", "run", "image"])
    table["odd"] = np.arange(len(table)) % 2
    table["motion"] = np.random.default_rng(3).normal(size=len(table))
    table["scanner"] = np.where(table["image"] == 1, "old", "new")
    table["even"] = np.where(table["odd"] == 1, "no", "yes")
    table.to_csv(tmp_path / "blocks.tsv", sep="\t", index=False)
    words = f"{tmp_path}/a.nii.gz {tmp_path}/b.nii.gz --labels {tmp_path}/blocks.tsv"
    return data, table, f"{words} --average-blocks"


def means_of(data, spans):
    """Return the image of the mean of every block."""
    parts = [data[..., a:b].sum(axis=3) / (b - a) for a, b in spans]
    return Nifti1Image(np.stack(parts, axis=3), AFFINE)


@pytest.mark.parametrize("groups", ["run", None])
def test_means_of_blocks_are_decoded(
    inside, tmp_path, capsys, no_figures, groups, blocks
):
    data, table, words = blocks
    # Otherwise runs do not part blocks.
    spans = SPANS if groups == "run" else [*SPANS[:1], (3, 7), *SPANS[3:]]
    kept = table.iloc[[a for a, _ in spans]]
    options = {"mask_img": "mask.nii.gz", "radius": 3.0, "random_state": 0}
    options |= {"process_mask_img": "few.nii.gz"}
    options |= {"groups": kept["run"]} if groups else {"cv": 2}
    expected = searchlight(means_of(data, spans), kept["label"], **options)
    chosen = f"--groups {groups}" if groups else "--cv 2"
    files = run(tmp_path / "out", f"searchlight {words} {chosen} {SHORT} {FEW} {NONE}")
    assert load_result(files[".h5"]) == expected
    data = f"{words} --drop rest --mask-img mask.nii.gz --n-cells 2"
    check = f"verify {files['.h5']} {data}"
    assert call(f"{check} {FEW}") == 0
    assert call(check) == 1  # 18 positions of a mask that is not given
    said = capsys.readouterr().out
    assert f": 19 of 21 volumes; 19 volumes averaged to {len(spans)} blocks" in said
    assert "as they were for the result" in said
    assert "--mask-img" in said


def test_confounds_are_averaged_within_blocks(
    inside, tmp_path, capsys, no_figures, blocks
):
    data, table, words = blocks
    kept = table.iloc[[a for a, _ in SPANS]].copy()
    kept["motion"] = [table["motion"][a:b].mean() for a, b in SPANS]
    options = {"groups": "run", "confounds": ["motion", "scanner"], "random_state": 0}
    options |= {"mask_img": "mask.nii.gz", "radius": 3.0}
    options["process_mask_img"] = "few.nii.gz"
    expected = searchlight(means_of(data, SPANS), (kept, "label"), **options)
    words = f"searchlight {words} --groups run {NONE} {SHORT} {FEW} --confounds motion"
    result = load_result(run(tmp_path / "out", f"{words} scanner")[".h5"])
    assert result.parameters["n_confounds"] == 2
    assert_array_equal(result.scores, expected.scores)
    assert_allclose(result.lambdas, expected.lambdas, rtol=1e-9, atol=0)
    capsys.readouterr()
    assert call(f"{words} even", "--out", tmp_path / "other") == 2
    assert "'even' of --confounds has several values" in capsys.readouterr().err


def test_no_block_is_both_trained_with_and_tested(
    inside, tmp_path, capsys, no_figures, blocks
):
    _, table, words = blocks
    words = f"searchlight {words} {SHORT} {NONE} --train-on 'odd == 1'"
    result = load_result(run(tmp_path / "out", words)[".h5"])
    assert "19 volumes averaged to 19 blocks" in capsys.readouterr().out
    (train, test), kept = result.folds[0], table[table["label"] != "rest"]
    assert_array_equal(kept["odd"].to_numpy()[train], 1)
    assert_array_equal(kept["odd"].to_numpy()[test], 0)


def test_single_images_are_averaged_alone(inside, tmp_path, capsys, no_figures):
    rng, paths = np.random.default_rng(2), []
    for number in range(6):
        paths.append(tmp_path / f"{number}.nii")
        on_disk(paths[-1], rng.normal(size=(5, 5, 5)))
    pd.DataFrame({"label": [1, 1, 1, 2, 2, 2]}).to_csv(tmp_path / "t.csv")
    words = f"--labels {tmp_path}/t.csv --mask-img mask.nii.gz --cv 3 --radius 3 {NONE}"
    run(tmp_path / "out", "searchlight", *paths, *f"{words} --average-blocks".split())
    said = "0.nii and 5 more: 6 volumes averaged to 6 blocks, 3 folds\n"
    assert said in capsys.readouterr().out


# ----------------------------------------------------------- epochs of other programs


def as_eeglab(epochs):
    """Return epochs as the structure that EEGLAB saves."""
    names = {code: name for name, code in epochs.event_id.items()}
    types = [names[code] for code in epochs.events[:, 2]]
    n, n_channels, n_times = epochs.get_data().shape
    event = np.zeros(n, [("type", object), ("latency", float), ("epoch", float)])
    epoch = np.zeros(n, [("event", float), ("eventtype", object)])
    event["type"], event["epoch"] = types, np.arange(n) + 1
    event["latency"] = epochs.events[:, 0] + 1
    epoch["event"], epoch["eventtype"] = np.arange(n) + 1, types
    places = np.zeros(n_channels, [("labels", object)])
    places["labels"] = epochs.ch_names
    shape = {"trials": n, "nbchan": n_channels, "pnts": n_times}
    times = {"xmin": epochs.tmin, "xmax": epochs.tmax, "srate": epochs.info["sfreq"]}
    data = np.transpose(1e6 * epochs.get_data(), (1, 2, 0))
    parts = {"event": event, "epoch": epoch, "chanlocs": places, "data": data}
    return {"EEG": {"ref": "common", "icawinv": [], **shape, **times, **parts}}


def as_fieldtrip(epochs):
    """Return epochs as the structure of FieldTrip's, as MNE-Python is given it."""
    codes = epochs.events[:, 2]
    numbers = np.column_stack([codes, np.arange(len(codes)) // 12])
    places = {"label": epochs.ch_names, "chanpos": np.zeros((16, 3)), "unit": "cm"}
    return {
        "label": epochs.ch_names,
        "fsample": epochs.info["sfreq"],
        "trial": list(epochs.get_data()),
        "time": [epochs.times] * len(epochs),
        "trialinfo": numbers,
        "elec": places,
    }


def test_epochs_of_eeglab_are_decoded_and_verified(tmp_path, epochs, undrawn):
    savemat(tmp_path / "words.set", as_eeglab(epochs))
    file, made = tmp_path / "words.set", tmp_path / "words.h5"
    run(tmp_path, f"epochs {file} --step 0.2 --n-permutations 2")
    result = load_result(made)
    expected = decode_epochs(epochs, step=0.2, n_permutations=2, random_state=0)
    assert_allclose(result.scores, expected.scores, rtol=1e-12)
    assert_array_equal(result.classes, expected.classes)
    assert_allclose(result.times, expected.times, rtol=1e-9, atol=1e-12)
    assert call(f"verify {made} {file}") == 0
    assert call(f"rerun {made} {file} --out {tmp_path}") == 0
    words = f"generalize {file} --test-epochs {file} --same-trials True --step 0.2"
    assert call(f"{words} {NONE} --out {tmp_path}") == 0
    (made,) = tmp_path.glob("*_generalization.h5")
    for command in ("verify", f"rerun --out {tmp_path}"):
        assert call(command, made, file, "--test-epochs", file) == 0


def test_data_of_fieldtrip_are_decoded(tmp_path, epochs, monkeypatch, capsys, undrawn):
    given, found = as_fieldtrip(epochs), {}

    def read_mat(path, variable_names, **_):
        found["name"] = variable_names
        return {variable_names[0]: given}

    savemat(tmp_path / "words.mat", {"data_clean": {"fsample": 50.0}})
    words = f"epochs {tmp_path}/words.mat --step 0.1 {NONE} --out {tmp_path}"
    monkeypatch.setitem(sys.modules, "pymatreader", None)
    assert call(words) == 2
    said = capsys.readouterr().err
    assert "words.mat cannot be read without the package pymatreader" in said
    reader = SimpleNamespace(read_mat=read_mat)
    monkeypatch.setitem(sys.modules, "pymatreader", reader)
    assert call(words, "--groups", "'1'") == 0
    assert found["name"] == ["data_clean"]
    result = load_result(tmp_path / "words.h5")
    expected = decode_epochs(epochs, step=0.1, groups=given["trialinfo"][:, 1])
    assert_allclose(result.scores, expected.scores, rtol=1e-12)
