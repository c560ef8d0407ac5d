"""Files for commands, which lie in one folder, and how commands are run there."""

import shlex

import nibabel
import numpy as np
import pandas as pd
from nibabel import Nifti1Image
from nilearn.image import index_img
from scipy.io import savemat

from mvpa_kfda import searchlight, simulate_epochs
from mvpa_kfda.cli.main import main

#: Far from every brain, so that there is no glass brain to draw.
AFFINE = np.array([[-3.0, 0, 0, 6], [0, 3, 0, 300], [0, 0, 3, 9], [0, 0, 0, 1]])
#: Labels of four runs, each in an order of its own: face, house, rest.
ORDERS = "fhrfhfhf", "hfrffhfh", "ffrhfhhf", "ffrhhfhf"
NAMED = {"f": "face", "h": "house", "r": "rest"}
LABELS = [NAMED[letter] for order in ORDERS for letter in order]
RUNS = np.repeat([1, 2, 3, 4], 8)
KEEP = np.array(LABELS) != "rest"
Y = np.array(LABELS)[KEEP]

#: Words that begin a command on the first image of the folder.
BOLD = "searchlight bold.nii.gz --labels labels.tsv"
SHORT = "--drop rest --mask-img mask.nii.gz --radius 3"
#: A map of 18 voxels.
FEW = "--process-mask-img few.nii.gz"


def call(words, *more):
    """Run a command; return its exit status."""
    return main([*shlex.split(words), *map(str, more)])


def run(out, words, *more):
    """Run a command that must succeed; return its files by ending."""
    assert call(words, *more, "--out", out) == 0
    (stem,) = {path.stem for path in out.glob("*.h5")}
    return {path.name.removeprefix(stem): path for path in out.iterdir()}


def on_disk(path, data, affine=AFFINE):
    """Write an image."""
    Nifti1Image(data, affine).to_filename(path)


def write_epochs(folder):
    """Write files of epochs, and some that are none; return the first."""
    epochs = simulate_epochs(
        60, 3, snr=1.0, n_channels=16, sfreq=50.0, tmin=-0.1, tmax=0.4, n_blocks=5
    )
    at_200_ms = epochs.get_data(copy=True)[:, 3, epochs.time_as_index(0.2)[0]]
    noise = 0.1 * at_200_ms.std() * np.random.default_rng(0).normal(size=60)
    epochs.metadata = epochs.metadata.assign(rt=1e5 * (at_200_ms + noise))
    epochs.save(folder / "words-epo.fif", verbose=False)
    epochs.average().save(folder / "average-ave.fif", verbose=False)
    late = epochs.copy().shift_time(2.0)  # whether trials are the same cannot be seen
    late.save(folder / "late-epo.fif", verbose=False)
    other = simulate_epochs(
        30, 3, snr=1.0, n_channels=16, sfreq=50.0, tmax=0.4, random_state=1
    )
    other.crop(0.0, verbose=False).save(folder / "other-epo.fif", verbose=False)
    (folder / "text-epo.fif").write_text("not a FIF file\n")
    (folder / "empty-epo.fif").write_bytes(b"")
    whole = (folder / "words-epo.fif").read_bytes()
    (folder / "cut-epo.fif").write_bytes(whole[: len(whole) // 2])
    (folder / "words.csv").write_text("a,b\n1,2\n")
    savemat(folder / "raw.set", {"EEG": {"nbchan": 1.0}})
    savemat(folder / "bad.set", {"EEG": {"nbchan": 1.0, "trials": 9.0}})
    savemat(folder / "two.mat", {"a": 1.0, "b": 2.0})
    (folder / "text.mat").write_text("not a MATLAB file\n")
    return epochs


def write_images(folder):
    """Write images of one informative voxel, tables, and files that are none."""
    rng = np.random.default_rng(0)
    bold = rng.normal(size=(5, 5, 5, 32)).astype(np.float32)
    bold[2, 2, 2] += 5 * (np.array(LABELS) == "face")
    bold[..., ~KEEP] += 1000  # nobody may look at these
    dead = bold.copy()
    dead[0, 0, 0] = 0
    mask = np.ones((5, 5, 5), np.uint8)
    centres, few = mask.copy(), 0 * mask
    centres[4], centres[1, 1, 1] = 0, 0
    few[1:4, 1:4, 1:3] = 1
    atlas = np.repeat([7, 7, 0, 0, 0], 25).reshape(5, 5, 5).astype(np.int16)
    atlas[2:4, 1:4, 1:4] = 3
    for name, data in {
        "bold.nii.gz": bold,
        "first.nii.gz": bold[..., :8],
        "second.nii": bold[..., 8:],
        "single.nii.gz": bold[..., 0],
        "dead.nii.gz": dead,
        "other.nii.gz": mask[:4, :4, :4],
        "mask.nii.gz": mask,
        "centres.nii.gz": centres,
        "few.nii.gz": few,
        "atlas.nii.gz": atlas,
    }.items():
        on_disk(folder / name, data)
    whole = (folder / "bold.nii.gz").read_bytes()
    (folder / "cut.nii.gz").write_bytes(whole[: len(whole) // 2])
    (folder / "text.nii.gz").write_text("no image\n")
    names = pd.DataFrame({"index": [3, 7], "name": ["V1 left", "FFA"]})
    names.to_csv(folder / "names.tsv", sep="\t", index=False)
    table = pd.DataFrame({"label": LABELS, "run": RUNS, "chunk": RUNS > 2})
    table["odd"] = np.arange(32) % 2
    table.to_csv(folder / "labels.tsv", sep="\t", index=False)
    table[:8].to_csv(folder / "first.csv", index=False)
    table[8:].to_csv(folder / "second.csv", index=False)
    gaps = table.replace("rest", "n/a").assign(run=table["run"].where(KEEP))
    gaps.to_csv(folder / "gaps.tsv", sep="\t", index=False)
    table["run"] = table["run"].where(table["run"] > 1)
    table["code"] = table["label"].map({"face": 1, "house": 2})
    table.to_csv(folder / "holes.tsv", sep="\t", index=False)
    (folder / "labels.txt").write_text("face\nhouse\n")


def kept_bold():
    """Return the volumes that are not rest, as an image."""
    return index_img(nibabel.load("bold.nii.gz"), KEEP)


def expected_searchlight(**options):
    """Return what the function gives for the volumes that are not rest."""
    options = {"mask_img": "mask.nii.gz", "radius": 3.0} | options
    return searchlight(kept_bold(), Y, random_state=0, **options)
