"""What --dry-run says is what the run then does, and it writes nothing."""

import json
import re

import nibabel
import numpy as np
import pytest

from mvpa_kfda import load_result
from mvpa_kfda.cli.main import main
from tests import bids_data

TRIALS = ["--where", "trial_type != 'button'"]
EEG = [*TRIALS, "--tmin", "-0.1", "--tmax", "0.2", "--reject", "eeg=90e-6"]
IMAGES = [*TRIALS, "--radius", "6"]
CASES = {
    "time": EEG,
    "generalization": [*EEG, "--analysis", "generalization"],
    "spheres": IMAGES,
    "blocks": [*IMAGES, "--estimate", "blocks"],
    "regions": [*TRIALS, "--analysis", "regions", "--labels-img", "ATLAS"],
    "mask": [*TRIALS, "--analysis", "regions"],
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Datasets of EEG and of fMRI, and an atlas of two regions and an empty one."""
    folder = tmp_path_factory.mktemp("bids")
    bids_data.write_eeg(folder / "eeg", ["01"], loud=[3])
    size = {"n_runs": 2, "shape": (4, 4, 4)}
    bids_data.write_fmri(folder / "raw", folder / "fmriprep", ["01"], **size)
    labels = np.zeros((4, 4, 4), np.uint8)
    labels[:2], labels[2:3] = 1, 2
    atlas = nibabel.Nifti1Image(labels, bids_data.AFFINE)
    atlas.to_filename(folder / "atlas.nii.gz")
    return folder


def run(folders, output, words, *more):
    of_head = words[: len(EEG)] == EEG
    atlas = str(folders / "atlas.nii.gz")
    given = [atlas if word == "ATLAS" else word for word in words]
    if not of_head:
        given += ["--derivatives", str(folders / "fmriprep")]
    dataset = folders / ("eeg" if of_head else "raw")
    given = ["bids", str(dataset), str(output), "participant", *given, *more]
    return main([*given, "--n-permutations", "19"])


@pytest.mark.parametrize("words", CASES.values(), ids=CASES)
def test_a_preview_is_what_the_run_does(folders, words, tmp_path, capsys):
    assert run(folders, tmp_path, words, "--dry-run", "--correction", "bonferroni") == 0
    said = capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []
    assert run(folders, tmp_path, words) == 0
    (path,) = tmp_path.rglob("*_decoding.h5")
    result = load_result(path)
    trials = json.loads(path.with_suffix(".json").read_text())["Trials"]
    lost = trials["LeftOutPerClass"]
    assert sum(lost.values()) == (2 if words[: len(EEG)] == EEG else 0)
    classes = ", ".join(
        f"{n} {name}" + (f" and {lost[name]} left out" if name in lost else "")
        for name, n in trials["TrialsPerClass"].items()
    )
    m, n = np.size(result.scores), len(result.y)
    p = f"p = {min(1, m / 20):.2f}"
    for words in (
        f"2 runs; {n} trials ({classes})",
        f"{len(result.tests)} folds; {m} position",
        f"; 19 permutations, smallest {p}",
        "Wrote nothing",
    ):
        assert words.rstrip("0") in said
    assert re.search(r"; about [\d.]+ m?s( after the models of single trials)?; ", said)


def test_a_preview_knows_what_is_there(folders, tmp_path, capsys):
    assert run(folders, tmp_path, EEG) == 0
    files = sorted(tmp_path.rglob("*"))
    for more, said in (
        ([], "sub-01 task-faces: there already"),
        (["--reg", "0.1"], "replaces an earlier result, as these changed: --reg"),
        (["--reg", "0.1", "--desc", "weak"], "19 permutations"),
    ):
        capsys.readouterr()
        assert run(folders, tmp_path, EEG, "--dry-run", *more) == 0
        assert said in capsys.readouterr().out
    group = ["bids", str(folders / "eeg"), str(tmp_path), "group", "--dry-run"]
    assert main(group) == 1
    assert "only subject '01' has a result" in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == files
