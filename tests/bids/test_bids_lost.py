"""Every event is decoded, or counted with its reason; nothing of others is taken."""

import json
import shutil
import time

import nibabel
import numpy as np
import pandas as pd
import pytest
from nilearn.image import load_img

from mvpa_kfda import load_result
from mvpa_kfda.bids import app
from mvpa_kfda.bids.events import FATE, RUN, check_losses
from mvpa_kfda.cli import main
from tests import bids_data
from tests.bids_data import SPACE

STIMULI = ["--where", "trial_type != 'button'"]
FEW = [*STIMULI, "--n-permutations", "0"]
IMAGES = [*FEW, "--radius", "4", "--confounds", "none"]


@pytest.fixture(scope="module", autouse=True)
def no_pages():
    """Leave the pages out, which take seconds each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app, "write_page", lambda *_: ("done", ""))
        yield


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Return raw EEG with two runs of 16 trials, and fMRI with three of 8."""
    root = tmp_path_factory.mktemp("sources")
    bids_data.write_eeg(root / "eeg", ("01",))
    bids_data.write_fmri(root / "fmri", root / "fmri" / "prep", ("01",), 3)
    bids_data.add_confounds(root / "fmri" / "prep")
    return root


@pytest.fixture
def eeg(sources, tmp_path):
    shutil.copytree(sources / "eeg", tmp_path / "data")
    return tmp_path / "data"


@pytest.fixture
def fmri(sources, tmp_path):
    shutil.copytree(sources / "fmri", tmp_path / "data")
    return tmp_path / "data"


def run(root, *more, given=FEW, out="out"):
    """Run the command; return its exit status."""
    derived = ["--derivatives", root / "prep"] if (root / "prep").exists() else []
    command = ["bids", root, root.with_name(out), "participant"]
    return main([*map(str, [*command, *derived, *given, *more])])


def trials_of(root, out="out"):
    """Return what the record says of trials, and of which recordings they are."""
    (path,) = root.with_name(out).rglob("*_decoding.json")
    record = json.loads(path.read_text())
    return record["Trials"], [name.rpartition("/")[2] for name in record["Sources"]]


def change(root, number, write):
    """Change the table of events of a run."""
    (path,) = (root / "sub-01").rglob(f"*run-{number}_events.tsv")
    table = pd.read_csv(path, sep="\t")
    changed = write(table)
    table = table if changed is None else changed
    table.to_csv(path, sep="\t", index=False, na_rep="n/a")


def move(row, onset):
    """Return what gives an event another onset."""

    def write(table):
        table["onset"] = table["onset"].astype(float)
        table.loc[row, "onset"] = onset

    return write


def unnamed(table):
    """Rename the column of the classes."""
    return table.rename(columns={"trial_type": "kind"})


BEFORE, BEYOND = "before the start of the recording", "beyond the end of the recording"
NOT_CHOSEN = "not chosen by --where"


# ----------------------------------------------------------------------- of events


@pytest.mark.parametrize(
    ("onset", "reason"),
    [
        (-1.0, BEFORE),
        (0.1, BEFORE),  # its epoch begins 0.2 s earlier
        (14.8, BEYOND),  # its epoch ends 0.5 s later
        (500.0, BEYOND),
        (np.nan, "without an onset"),
    ],
)
def test_events_of_eeg_are_decoded_or_counted(eeg, capsys, onset, reason):
    change(eeg, 1, move(3, onset))
    assert run(eeg) == 0
    trials, _ = trials_of(eeg)
    assert trials["NumberOfTrials"] == 31
    first, second = trials["Events"]["1"], trials["Events"]["2"]
    assert first == {"decoded": 15, reason: 1, NOT_CHOSEN: 1}
    assert second == {"decoded": 16, NOT_CHOSEN: 1}
    said = capsys.readouterr().out
    assert "31 of 34 events decoded" in said
    assert f"1 {reason}" in said
    if onset != 14.8:
        return
    # A second one is too many, unless it is allowed.
    change(eeg, 1, move(4, onset))
    assert run(eeg) == 2
    words = f"2 of 32 events to decode are lost: 2 {reason} (run 1)"
    assert words in (told := capsys.readouterr().err)
    assert "--max-dropped 7, in percent" in told
    assert run(eeg, "--max-dropped", "7") == 0
    assert trials_of(eeg)[0]["NumberOfTrials"] == 30


@pytest.mark.some(3)
@pytest.mark.parametrize(
    ("estimate", "onset", "reason"),
    [
        ("lss", -1.0, BEFORE),
        ("lss", 119.9, BEYOND),
        ("lss", 500.0, BEYOND),
        ("lss", np.nan, "without an onset"),
        ("blocks", -1.0, BEFORE),
        ("blocks", 119.9, BEYOND),
    ],
)
def test_events_of_fmri_are_decoded_or_counted(fmri, capsys, estimate, onset, reason):
    change(fmri, 2, move(3, onset))
    assert run(fmri, "--estimate", estimate, given=IMAGES) == 0
    trials, _ = trials_of(fmri)
    assert trials["NumberOfTrials"] == 23
    assert trials["Events"]["2"] == {"decoded": 7, reason: 1, NOT_CHOSEN: 1}
    assert f"1 {reason}" in capsys.readouterr().out
    # The other estimates are those of a table without this event.
    if onset == 500.0:
        change(fmri, 2, lambda table: table.drop(index=3))
        assert run(fmri, "--estimate", estimate, given=IMAGES, out="o2") == 0
        results = [
            load_result(next(fmri.with_name(out).rglob("*.h5")))
            for out in ("out", "o2")
        ]
        np.testing.assert_array_equal(results[0].scores, results[1].scores)


def cut_eeg(root):
    (path,) = (root / "sub-01").rglob("*run-1_eeg.eeg")
    path.write_bytes(path.read_bytes()[:3001])


def empty_eeg(root):
    (path,) = (root / "sub-01").rglob("*run-1_eeg.eeg")
    path.write_bytes(bytes(path.stat().st_size))


def write_bold(root, make):
    (path,) = root.rglob("*run-1_*preproc_bold.nii.gz")
    image = load_img(path)
    data = make(image.get_fdata().astype(np.float32))
    nibabel.Nifti1Image(data, image.affine, image.header).to_filename(path)


def cut_bold(root):
    write_bold(root, lambda data: data[..., :20])


def empty_bold(root):
    write_bold(root, lambda data: data * 0)


def late_events(root):
    change(root, 1, lambda table: table.assign(onset=table["onset"] + 1000))


def without_column(root):
    change(root, 1, unnamed)


@pytest.mark.some(4)
@pytest.mark.parametrize(
    ("kind", "harm", "reason"),
    [
        ("eeg", cut_eeg, BEYOND),
        ("eeg", empty_eeg, "without any signal"),
        ("eeg", without_column, "in tables without the column trial_type"),
        ("fmri", cut_bold, BEYOND),
        ("fmri", late_events, BEYOND),
        ("fmri", without_column, "in tables without the column trial_type"),
    ],
)
def test_a_run_is_not_lost_in_silence(request, capsys, kind, harm, reason):
    root = request.getfixturevalue(kind)
    given = [*(IMAGES if kind == "fmri" else FEW), "--cv", "4"]
    harm(root)
    assert run(root, given=given) == 2
    assert f"{reason} (run 1)" in capsys.readouterr().err
    assert run(root, "--max-dropped", "100", given=given) == 0
    trials, recordings = trials_of(root)
    whole = 8 * 3 if kind == "fmri" else 16 * 2
    left = trials["Events"]["1"]
    assert left[reason] >= 5
    lost = whole // (3 if kind == "fmri" else 2) - left["decoded"]
    assert trials["NumberOfTrials"] == whole - lost
    assert any("run-1" in name for name in recordings) == (left["decoded"] > 0)


@pytest.mark.parametrize("estimate", ["lss", "blocks"])
def test_a_run_of_zeros_is_refused(fmri, capsys, estimate):
    empty_bold(fmri)
    assert run(fmri, "--estimate", estimate, given=IMAGES) == 2
    said = capsys.readouterr().err
    assert "60 scans of 60 without any signal" in said
    assert "run 1" in said


@pytest.mark.parametrize("estimate", ["lss", "blocks"])
def test_more_events_than_an_image_holds_are_refused_at_once(fmri, capsys, estimate):
    def write(table):
        onsets = np.linspace(4, 90, 40_000).round(5)
        kinds = ["cat", "dog"] * 20_000
        return pd.DataFrame({"onset": onsets, "duration": 1.0, "trial_type": kinds})

    change(fmri, 2, write)
    start = time.process_time()
    assert run(fmri, "--estimate", estimate, given=IMAGES) == 2
    assert "more than the 32,767 volumes" in capsys.readouterr().err
    assert time.process_time() - start < 5


@pytest.mark.parametrize("value", ["1e6", "1e9", "150"])
def test_a_duration_beyond_the_run_is_refused_at_once(fmri, capsys, value):
    def write(table):
        table["duration"] = table["duration"].astype(object)
        table.loc[3, "duration"] = value

    change(fmri, 2, write)
    for estimate in ("lss", "blocks"):
        assert run(fmri, "--estimate", estimate, given=IMAGES) == 2
        said = capsys.readouterr().err
        assert "run-2_events.tsv: the event at 40 s lasts" in said
        assert "but the whole run 120 s" in said


def test_volumes_of_zeros_are_no_trials(tmp_path, capsys):
    bids_data.describe(tmp_path / "data", "GLMsingle")
    folder = tmp_path / "data" / "sub-01" / "func"
    folder.mkdir(parents=True)
    data = np.random.default_rng(0).normal(size=(4, 4, 3, 32))
    data[..., 5] = 0
    stem = folder / "sub-01_task-objects_betaseries"
    nibabel.Nifti1Image(data, bids_data.AFFINE).to_filename(f"{stem}.nii.gz")
    nibabel.Nifti1Image(np.ones((4, 4, 3)), bids_data.AFFINE).to_filename(
        f"{stem}_mask.nii.gz"
    )
    table = pd.DataFrame({"trial_type": ["cat", "dog"] * 16})
    table.to_csv(f"{stem}.tsv", sep="\t", index=False)
    given = ["--n-permutations", "0", "--radius", "4", "--estimate", "images"]
    assert run(tmp_path / "data", given=given) == 0
    assert trials_of(tmp_path / "data")[0]["Events"] == {
        "1": {"decoded": 31, "without any signal": 1}
    }
    assert "31 of 32 events decoded: 1 without any signal" in capsys.readouterr().out


def test_epochs_of_zeros_are_no_trials(tmp_path, capsys):
    root = bids_data.write_epochs(tmp_path / "data", ("01",))
    (path,) = root.rglob("*proc-clean_epo.fif")
    epochs = bids_data.mne.read_epochs(path, verbose="error")
    epochs.load_data()._data[7] = 1e-6
    epochs.save(path, overwrite=True, verbose="error")
    assert run(root) == 0
    counts = trials_of(root)[0]["Events"]
    assert sum(own.get("without any signal", 0) for own in counts.values()) == 1
    assert "23 of 24 events decoded: 1 without any signal" in capsys.readouterr().out


def test_what_was_asked_for_is_counted_and_no_loss(tmp_path, capsys):
    root = bids_data.write_eeg(tmp_path / "data", ("01",), loud=(2, 5, 6))
    assert run(root, "--reject", "eeg=80e-6") == 0
    reason = "above the limits of --reject"
    assert trials_of(root)[0]["Events"]["1"] == {
        "decoded": 13,
        reason: 3,
        NOT_CHOSEN: 1,
    }
    assert f"26 of 34 events decoded: 6 {reason}, 2 {NOT_CHOSEN}" in (
        capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("estimate", "scans"), [("lss", range(20, 42)), ("blocks", range(22, 26))]
)
def test_trials_whose_scans_are_left_out_are_counted(fmri, capsys, estimate, scans):
    (path,) = (fmri / "prep").rglob("*run-1_*confounds_timeseries.tsv")
    table = pd.read_csv(path, sep="\t")
    table.loc[[*scans], "framewise_displacement"] = 9.0
    table.to_csv(path, sep="\t", index=False, na_rep="n/a")
    given = [*FEW, "--radius", "4", "--confounds", "scrub", "--estimate", estimate]
    assert run(fmri, given=given) == 0
    reason = "without a scan that --confounds scrub leaves"
    assert trials_of(fmri)[0]["Events"]["1"] == {
        "decoded": 7,
        reason: 1,
        NOT_CHOSEN: 1,
    }
    assert f"1 {reason}" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["eeg", pytest.param("fmri", marks=pytest.mark.slow)])
def test_of_any_damaged_table_all_rows_are_counted(
    sources, tmp_path, capsys, monkeypatch, kind
):
    given = FEW if kind == "eeg" else [*IMAGES, "--estimate", "blocks"]
    read, found, seen = app.read_trials, [], set()

    def spy(*arguments):
        found.append(read(*arguments).about)
        raise ValueError("that will do")

    monkeypatch.setattr(app, "read_trials", spy)
    for seed in range(8):
        rng, root = np.random.default_rng(seed), tmp_path / f"data{seed}"
        shutil.copytree(sources / kind, root)
        n_rows = sum(damage_table(p, rng) for p in sorted(root.rglob("*_events.tsv")))
        found.clear()
        assert run(root, "--max-dropped", "100", given=given, out=f"out{seed}") == 2
        told = capsys.readouterr().err
        if not found:
            seen.add("refused")
            assert any(word in told for word in ("_events.tsv", "un 1", "un 2", "--by"))
            continue
        counts = found[0]["Events"].values()
        assert sum(sum(own.values()) for own in counts) == n_rows
        assert sum(own["decoded"] for own in counts) == found[0]["NumberOfTrials"]
        seen |= {reason for own in counts for reason in own}
    assert {"refused", BEYOND, BEFORE, "marked as BAD or EDGE"} <= seen


def damage_table(path, rng):
    """Change some cells of a table of events, and return how many rows it has."""
    table = pd.read_csv(path, sep="\t", dtype=object)
    values = {
        "onset": ["n/a", "-3", "1e5", "0.05", "119.95", "inf"],
        "duration": ["0.3", "0.2", "-1"],
        "trial_type": ["n/a", "", "BAD_blink", "3"],
    }
    for _ in range(rng.integers(4)):
        column = rng.choice([*values])
        row = table.index[rng.integers(len(table))]
        table.loc[row, column] = rng.choice(values[column])
    if rng.random() < 0.2:
        table = unnamed(table)
    if rng.random() < 0.3:
        table = pd.concat([table, table.iloc[:2].assign(onset="200")])
    table.to_csv(path, sep="\t", index=False, na_rep="n/a")
    return len(table)


# -------------------------------------------------- of tables as people save them


@pytest.mark.parametrize("kind", ["eeg", "fmri"])
def test_a_run_without_events_is_left_out_and_counted(request, capsys, kind):
    root = request.getfixturevalue(kind)
    given = FEW if kind == "eeg" else IMAGES
    change(root, 2, lambda table: table[:0])
    assert run(root, given=given) == 0
    assert "1 run without events left out: 2" in capsys.readouterr().out
    trials, recordings = trials_of(root)
    assert trials["Events"]["2"] == {"decoded": 0}
    assert "2" not in trials["TrialsPerRun"]
    assert not [name for name in recordings if "run-2" in name]
    for number in (1, 2, 3)[: 2 if kind == "eeg" else 3]:
        change(root, number, lambda table: table[:0])
    assert run(root, given=given) == 2
    assert "_events.tsv has no events, and none of the" in capsys.readouterr().err


def rewrite(root, write):
    """Write all tables of events as bytes of their text."""
    for path in (root / "sub-01").rglob("*_events.tsv"):
        path.write_bytes(write(path.read_text(encoding="utf-8")))


def padded(text):
    """Return a table with blanks around its tabs and at the ends of lines."""
    return text.replace("\t", " \t ").replace("\n", "  \n").encode()


def test_blanks_around_cells_mean_nothing(fmri):
    assert run(fmri, given=IMAGES) == 0
    expected = trials_of(fmri)[0]
    rewrite(fmri, padded)
    assert run(fmri, given=IMAGES, out="again") == 0
    assert trials_of(fmri, "again")[0] == expected


def test_blanks_that_mne_bids_cannot_read_are_said(eeg, capsys):
    rewrite(eeg, padded)
    assert run(eeg) == 2
    said = capsys.readouterr().err
    assert "MNE-BIDS finds no column 'onset' in a table beside it" in said


def test_tables_in_latin_1_are_read_and_said(fmri, capsys):
    renamed = {"dog": "Gebäude", "cat": "Gesicht"}

    def write(text):
        for name, other in renamed.items():
            text = text.replace(name, other)
        return text.encode("latin-1")

    rewrite(fmri, write)
    assert run(fmri, given=IMAGES) == 0
    assert "events.tsv is not in UTF-8 and was read as Lat" in capsys.readouterr().err
    assert set(trials_of(fmri)[0]["TrialsPerClass"]) == {"Gebäude", "Gesicht"}


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda text: text.replace("\t", ",").encode(), "separated by commas or semic"),
        (
            lambda text: text.replace("onset", "time").encode(),
            "Its columns are: 'time'",
        ),
        (
            lambda text: b"\x00" + text.encode(),
            "cannot be read as a table: it is no te",
        ),
    ],
)
def test_tables_that_are_none_are_named_with_what_to_do(fmri, capsys, write, message):
    rewrite(fmri, write)
    assert run(fmri, given=IMAGES) == 2
    said = capsys.readouterr().err
    assert message in said
    assert "run-1_events.tsv" in said


def test_renamed_files_of_brainvision_are_said(eeg, capsys):
    for path in (eeg / "sub-01").rglob("*run-1_eeg.eeg"):
        path.unlink()
    assert run(eeg) == 2
    said = capsys.readouterr().err
    assert "run-1_eeg.vhdr: there is no sub-01_task-faces_run-1_eeg.eeg, which" in said
    assert "Errno" not in said


def check_lost(counts, most):
    """Check the losses of runs: run -> fate -> number."""
    rows = [
        (run, None if fate == "decoded" else fate)
        for run, fates in counts.items()
        for fate, number in fates.items()
        for _ in range(number)
    ]
    check_losses(pd.DataFrame(rows, columns=[RUN, FATE]), {"max_dropped": most})


def test_few_are_few_of_every_run():
    check_lost({"1": {"decoded": 90, BEYOND: 4}, "2": {"decoded": 90}}, 5)
    check_lost({"1": {"decoded": 90, NOT_CHOSEN: 900}}, 0)
    with pytest.raises(ValueError, match="10 of 190 events to decode are lost: 10 bey"):
        check_lost({"1": {"decoded": 90, BEYOND: 10}, "2": {"decoded": 90}}, 5)
    # Nothing is left of a run that is short beside others.
    runs = {"1": {"decoded": 0, BEYOND: 4}, "2": {"decoded": 900}}
    with pytest.raises(ValueError, match="--max-dropped 100, in percent"):
        check_lost(runs, 5)
    check_lost(runs, 100)


@pytest.mark.parametrize("value", ["-1", "101", "nan"])
def test_what_may_be_dropped_is_a_percentage(eeg, capsys, value):
    assert run(eeg, "--max-dropped", value) == 2
    assert "--max-dropped" in (said := capsys.readouterr().err)
    assert "from 0 to 100" in said


# ----------------------------------------------------------------------- of files


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("kind", "name"),
    [("eeg", "study[1]"), ("fmri", "study[1]"), ("fmri", "st*dy")],
)
def test_paths_are_no_patterns(sources, tmp_path, kind, name):
    given = [*FEW] if kind == "eeg" else IMAGES
    other = {"study[1]": "study1", "st*dy": "study"}[name]
    root = shutil.copytree(sources / kind, tmp_path / name)
    shutil.copytree(sources / kind, tmp_path / other)
    for path in (tmp_path / other / "sub-01").rglob("*_events.tsv"):
        table = pd.read_csv(path, sep="\t")
        table["trial_type"] = np.roll(table["trial_type"], 3)
        table.to_csv(path, sep="\t", index=False)
    for path in (tmp_path / other).rglob("*_bold.nii.gz"):
        image = load_img(path)
        data = image.get_fdata()[..., ::-1].astype(np.float32)
        nibabel.Nifti1Image(data, image.affine, image.header).to_filename(path)
    shutil.copytree(sources / kind, tmp_path / "plain")
    assert run(root, given=given, out=f"{name} out") == 0
    assert run(tmp_path / "plain", given=given) == 0
    results = [
        load_result(next((tmp_path / out).rglob("*_decoding.h5")))
        for out in ("out", f"{name} out")
    ]
    np.testing.assert_array_equal(results[0].scores, results[1].scores)


@pytest.mark.parametrize("kind", ["eeg", "fmri"])
def test_two_files_for_one_run_are_refused(request, capsys, kind):
    root = request.getfixturevalue(kind)
    (path,) = (root / "sub-01").rglob("*run-1_events.tsv")
    shutil.copy(path, path.with_name(path.name.replace("_run-1", "")))
    assert run(root, given=IMAGES if kind == "fmri" else FEW) == 2
    said = capsys.readouterr().err
    assert "_run-1_events.tsv' are both for" in said
    assert "BIDS allows one" in said


def test_two_masks_for_one_run_are_refused(fmri, capsys):
    (path,) = fmri.rglob("*run-1_*mask.nii.gz")
    shutil.copy(path, path.with_name(path.name.replace("_run-1", "")))
    assert run(fmri, given=IMAGES) == 2
    assert f"_space-{SPACE}_desc-brain_mask.nii.gz' are both" in capsys.readouterr().err
