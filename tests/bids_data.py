"""BIDS datasets for tests: raw EEG, epochs, what fMRIPrep writes, and what is made."""

import json
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

import mne
import nibabel
import numpy as np
import pandas as pd

from mvpa_kfda import load_result
from mvpa_kfda.cli.main import main

STIMULI = "trial_type != 'button'"
#: What is asked of datasets, unless a test asks for something else.
FEW = ("--n-permutations", "5")
TASKS = ("faces", "words")
SPACE = "MNI152NLin2009cAsym"
AFFINE = np.diag([3.0, 3.0, 3.0, 1.0])
AFFINE[:3, 3] = -12


def write_eeg(
    root,
    subjects=("01", "02"),
    tasks=TASKS[:1],
    n_runs=2,
    seed=0,
    loud=(),
    in_sessions=False,
):
    """Write raw EEG with MNE-BIDS: two classes that differ from 0.1 s on.

    The trials with the numbers `loud` of every run are to be rejected. `in_sessions`
    puts every run into a session of its own.
    """
    from mne_bids import BIDSPath, write_raw_bids

    rng = np.random.default_rng(seed)
    info = mne.create_info(["Fz", "Cz", "Pz", "Oz"], 50.0, "eeg")
    for subject in subjects:
        for task in tasks:
            for run in range(1, n_runs + 1):
                onsets = 1.0 + np.arange(16) * 0.8
                kinds = rng.permutation(np.repeat(["face/left", "house/left"], 8))
                data = rng.normal(0, 4e-6, (4, 750))
                for onset, kind in zip(onsets, kinds, strict=True):
                    first = round(onset * 50) + 5
                    sign = 1 if kind.startswith("face") else -1
                    data[1:3, first : first + 8] += sign * 3e-6
                for number in loud:
                    data[0, round(onsets[number] * 50) + 3] = 100e-6
                raw = mne.io.RawArray(data, info, verbose="error")
                events = mne.Annotations([*onsets, 14.0], 0.1, [*kinds, "button"])
                raw.set_annotations(events)
                part = {"session": f"{run}"} if in_sessions else {"run": run}
                path = BIDSPath(subject, task=task, datatype="eeg", root=root, **part)
                how = {"format": "BrainVision", "allow_preload": True}
                write_raw_bids(raw, path, overwrite=True, verbose="error", **how)
    return root


#: Channels along the midline, whose positions are nowhere, and others in a plane.
MIDLINE = ("Fz", "Cz", "Pz", "Oz")
PLANE = {"Fz": (0, 1), "C3": (-1, 0), "Cz": (0, 0), "C4": (1, 0), "Pz": (0, -1)}


def write_epochs(root, subjects=("01", "02"), task="faces", places=None):
    """Write epochs as MNE-BIDS-Pipeline does, all runs of a subject in one file."""
    rng = np.random.default_rng(1)
    describe(root, "mne-bids-pipeline")
    names = MIDLINE if places is None else tuple(places)
    for subject in subjects:
        codes = rng.permutation(np.repeat([1, 2], 12))
        noise = rng.normal(0, 1e-6, (24, len(names), 16))
        data = noise + 0.6e-6 * (codes - 1)[:, None, None]
        events = np.column_stack([np.arange(24) * 100, np.zeros(24, int), codes])
        epochs = mne.EpochsArray(
            data,
            mne.create_info(list(names), 50.0, "eeg"),
            events,
            event_id={"face": 1, "house": 2},
            metadata=pd.DataFrame({"rt": rng.random(24), "run": np.arange(24) // 8}),
            verbose="error",
        )
        if places is not None:
            points = {n: (0.05 * x, 0.05 * y, 0.08) for n, (x, y) in places.items()}
            epochs.set_montage(
                mne.channels.make_dig_montage(points, coord_frame="head")
            )
        folder = root / f"sub-{subject}" / "eeg"
        folder.mkdir(parents=True)
        stem = f"sub-{subject}_task-{task}"
        epochs.save(folder / f"{stem}_proc-clean_epo.fif", verbose="error")
        epochs[:5].save(folder / f"{stem}_epo.fif", verbose="error")
    return root


def describe(root, name=None):
    """Write the description of a dataset."""
    root.mkdir(parents=True, exist_ok=True)
    content = {"Name": "test", "BIDSVersion": "1.8.0"}
    if name:
        content |= {"DatasetType": "derivative", "GeneratedBy": [{"Name": name}]}
    (root / "dataset_description.json").write_text(json.dumps(content))


def write_table(table, path):
    """Write a table as BIDS has them."""
    table.to_csv(path, sep="\t", index=False, na_rep="n/a")


def write_fmri(
    raw, derived, subjects=("01", "02"), n_runs=3, spaces=(SPACE,), shape=(6, 6, 5)
):
    """Write events, and BOLD runs with masks and confounds as fMRIPrep names them."""
    rng = np.random.default_rng(0)
    describe(raw)
    describe(derived, "fMRIPrep")
    n_scans, t_r = 60, 2.0
    for subject in subjects:
        for run in range(1, n_runs + 1):
            stem = f"sub-{subject}_task-objects_run-{run}"
            onsets = 4.0 + 12 * np.arange(8)
            kinds = rng.permutation(np.repeat(["cat", "dog"], 4))
            columns = {"onset": onsets, "duration": 4.0, "trial_type": kinds}
            events = pd.DataFrame(columns)
            events.loc[8] = [100.0, 1.0, "button"]
            events["rt"] = [*rng.random(8).round(3), np.nan]
            for root in (raw, derived):
                (root / f"sub-{subject}" / "func").mkdir(parents=True, exist_ok=True)
            write_table(events, raw / f"sub-{subject}" / "func" / f"{stem}_events.tsv")
            data = rng.normal(100, 1, (*shape, n_scans))
            for onset, kind in zip(onsets, kinds, strict=True):
                first = int((onset + 4) / t_r)
                data[1:4, 1:4, 1:4, first : first + 3] += 2.0 if kind == "dog" else -2.0
            folder = derived / f"sub-{subject}" / "func"
            for space in spaces:
                _write_bold(folder, f"{stem}_space-{space}", data, t_r)
            confounds = with_derivatives(rng.normal(size=(n_scans, 6)))
            write_table(confounds, folder / f"{stem}_desc-confounds_timeseries.tsv")
            (folder / f"{stem}_desc-confounds_timeseries.json").write_text("{}")
    return derived


def with_derivatives(motion):
    """Return a table of motion (n_scans, 6), its changes and their squares."""
    names = [f"{kind}_{axis}" for kind in ("trans", "rot") for axis in "xyz"]
    table = pd.DataFrame(motion, columns=names)
    for name in names:
        change = table[name].diff()
        table[f"{name}_derivative1"] = change
        table[f"{name}_power2"] = table[name] ** 2
        table[f"{name}_derivative1_power2"] = change**2
    return table


def add_confounds(derived):
    """Add components, cosines and measures of motion to the confounds of all runs."""
    rng = np.random.default_rng(0)
    for path in sorted(derived.rglob("*confounds_timeseries.tsv")):
        table = pd.read_csv(path, sep="\t")
        n = len(table)
        for k in range(3):
            table[f"a_comp_cor_0{k}"] = rng.normal(size=n)
        # The one that is slower than 128 s, as fMRIPrep has them.
        table["cosine00"] = np.cos(np.pi * (np.arange(n) + 0.5) / n)
        table["framewise_displacement"] = np.where(np.arange(n) % 20 == 9, 0.4, 0.1)
        table["std_dvars"] = np.where(np.arange(n) % 30 == 5, 1.4, 1.0)
        write_table(table, path)
        of_all = {"Method": "aCompCor", "Mask": "combined", "Retained": True}
        meta = {f"a_comp_cor_0{k}": of_all for k in range(3)}
        path.with_suffix(".json").write_text(json.dumps(meta))


def _write_bold(folder, stem, data, t_r):
    """Write a BOLD run, its sidecar and its mask."""
    image = nibabel.Nifti1Image(data.astype(np.float32), AFFINE)
    image.header.set_xyzt_units("mm", "sec")
    image.header.set_zooms((3, 3, 3, t_r))
    image.to_filename(folder / f"{stem}_desc-preproc_bold.nii.gz")
    sidecar = {
        "RepetitionTime": t_r,
        "StartTime": t_r / 2,
        "SliceTimingCorrected": True,
    }
    (folder / f"{stem}_desc-preproc_bold.json").write_text(json.dumps(sidecar))
    mask = np.ones(data.shape[:3], np.uint8)
    mask[0] = 0
    nibabel.Nifti1Image(mask, AFFINE).to_filename(
        folder / f"{stem}_desc-brain_mask.nii.gz"
    )


# ------------------------------------------------------------------- what is made of it


@dataclass(frozen=True)
class Study:
    """A dataset, where results go, and arguments of the level participant.

    What was preprocessed is in "prep" of the dataset, if it is there.
    """

    root: Path
    out: Path
    given: tuple = FEW

    def run(self, words="", *more, level="participant", root=None):
        """Run the command; return its exit status."""
        root = root or self.root
        prep = root / "prep"
        derived = ["--derivatives", prep] if prep.exists() else []
        given = [*derived, *self.given] if level == "participant" else derived
        given += [*shlex.split(words), *more]
        return main(list(map(str, ["bids", root, self.out, level, *given])))

    def result(self, name="sub-01"):
        """Return the one result whose name holds some text."""
        (path,) = self.out.rglob(f"*{name}*_decoding.h5")
        return load_result(path)

    def record(self, name="sub-01"):
        """Return the record of that result."""
        (path,) = self.out.rglob(f"*{name}*_decoding.json")
        return json.loads(path.read_text())

    def find(self, pattern):
        """Return the first file of a name."""
        return min(self.root.rglob(pattern))

    def times(self):
        """Return when every result was written."""
        return {path: path.stat().st_mtime_ns for path in self.out.rglob("*.h5")}

    def elsewhere(self, folder, name="out"):
        """Return the same dataset with another folder for the output."""
        return Study(self.root, folder / name, self.given)

    def copy(self, folder):
        """Return a copy, with what was made, that a test may change."""
        shutil.copytree(self.root, folder / "data")
        if self.out.exists():
            shutil.copytree(self.out, folder / "out")
        return Study(folder / "data", folder / "out", self.given)
