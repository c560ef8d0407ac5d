"""Files of a BIDS dataset: which are found, which of several are decoded, and when."""

import re
import shutil
from dataclasses import replace
from functools import wraps

import nibabel
import numpy as np
import pandas as pd
import pytest
from bidsschematools.schema import load_schema
from nilearn.image import load_img

from mvpa_kfda import methods_text
from mvpa_kfda.bids import app, find
from mvpa_kfda.bids.find import _recordings, find_units
from mvpa_kfda.cli.bids import participant_options
from tests import bids_data
from tests.bids_data import Study

ONE = "--participant-label 01 --n-permutations 0"
RUN = "sub-01_task-x_run-1"
SPACE = f"{RUN}_space-{bids_data.SPACE}"


# ------------------------------------------------------------ which of several files


def units(root, *names, folder="func", **given):
    """Return the files of the one unit in a dataset of empty files."""
    bids_data.describe(root)
    place = root / "sub-01" / folder
    place.mkdir(parents=True, exist_ok=True)
    for name in names:
        (place / name).touch()
    options = {name: each.default for name, each in participant_options().items()}
    options |= {"bids_dir": root} | given
    (unit,), missing = find_units(options)
    assert not missing
    return [each.path.name for each in unit.recordings]


def bold(*entities, stem=RUN):
    return "_".join([stem, *entities, "bold.nii.gz"])


PREPROC = bold("desc-preproc")


ECHOES = [bold(f"echo-{n}", "desc-preproc") for n in (1, 2)]


@pytest.mark.parametrize(
    ("names", "given", "chosen"),
    [
        ([PREPROC, *ECHOES], {"entity": ["echo-none"]}, PREPROC),
        ([PREPROC, *ECHOES], {"entity": ["echo-02"]}, ECHOES[1]),
        (ECHOES[:1], {}, ECHOES[0]),
        ([PREPROC, bold("desc-denoised")], {}, PREPROC),
        (
            [PREPROC, bold("desc-denoised")],
            {"entity": ["desc-denoised"]},
            bold("desc-denoised"),
        ),
        (
            [bold("echo-1", "desc-a"), bold("echo-1", "desc-b")],
            {"entity": ["echo-1", "desc-b"]},
            bold("echo-1", "desc-b"),
        ),
        (
            [bold("part-mag", "desc-preproc"), bold("part-phase", "desc-preproc")],
            {},
            bold("part-mag", "desc-preproc"),
        ),
        ([PREPROC, bold("desc-preproc", stem=SPACE)], {"space": "none"}, PREPROC),
        (
            [PREPROC, bold("desc-preproc", stem=SPACE)],
            {"space": bids_data.SPACE},
            bold("desc-preproc", stem=SPACE),
        ),
    ],
)
def test_entities_and_spaces_choose_among_files_of_a_run(
    tmp_path, names, given, chosen
):
    assert units(tmp_path, *names, **given) == [chosen]


SERIES = [f"{RUN}_desc-{name}_betaseries.nii.gz" for name in ("face", "house")]


EPOCHS = [f"{RUN}_desc-{name}_epo.fif" for name in ("early", "late")]


GIFTI = f"{RUN}_hemi-L_space-fsaverage_bold.func.gii"


CIFTI = f"{RUN}_space-fsLR_den-91k_bold.dtseries.nii"


NEXT = bold("echo-2", "desc-preproc", stem="sub-01_task-x_run-2")


@pytest.mark.parametrize(
    ("names", "given", "match"),
    [
        (
            [PREPROC, *ECHOES],
            {},
            r"3 files are of run 1: .*\. Choose one with --entity echo-1, --entity "
            r"echo-2, or --entity echo-none\.",
        ),
        (ECHOES, {"entity": ["echo-3"]}, r"echo-3: no .* have: echo-1, echo-2\."),
        (ECHOES, {"entity": ["echo"]}, "--entity echo: write NAME-VALUE"),
        ([PREPROC, NEXT], {}, r"different echoes \(2, none\)\. Choose one with --ent"),
        (
            [bold("desc-denoised"), bold("desc-optcom")],
            {},
            r"none that fMRIPrep .* --entity; there are: desc-denoised, desc-optcom\.",
        ),
        (
            SERIES,
            {"estimate": "images"},
            "2 files are of run 1: .* --entity desc-face or --entity desc-house. If "
            "each holds the trials of one condition, as NiBetaSeries",
        ),
        (EPOCHS, {"folder": "eeg"}, "Choose one with --entity desc-early or --entity "),
        (
            [PREPROC, bold("desc-preproc", stem=SPACE)],
            {},
            r"2 spaces: MNI\w+, none \(that of the scanner\)",
        ),
        ([GIFTI, CIFTI], {}, r"runs on surfaces \(fsLR, fsaverage\), but .* volumes"),
        (
            [PREPROC, CIFTI],
            {"space": "fsLR"},
            r"are: none \(that of the scanner\)\. Surfaces are there in fsLR, but bids",
        ),
        ([PREPROC, PREPROC[:-3]], {}, r"2 files are of run 1.*\. Move one of them"),
    ],
)
def test_several_files_of_a_run_are_listed_with_what_chooses(
    tmp_path, names, given, match
):
    with pytest.raises(ValueError, match=match):
        units(tmp_path, *names, **given)


def test_a_lone_echo_is_said_and_a_denoised_run_is_decoded(fmri, capsys):
    for path in list((fmri.root / "prep").rglob("*desc-preproc_bold*")):
        name = path.name.replace("_desc-preproc", "_desc-denoised")
        path.rename(path.with_name(re.sub(r"(_run-\d)", r"\1_echo-2", name)))
    words = f"{ONE} --analysis regions"
    assert fmri.run(words) == 2
    assert "there are: desc-denoised" in capsys.readouterr().err
    words += " --entity desc-denoised"
    assert fmri.run(words) == 2  # once, and not for each subject
    (line,) = capsys.readouterr().err.splitlines()
    assert "desc-denoised, not desc-preproc" in line
    assert "use --confounds none" in line
    assert fmri.run(f"{words} --confounds none") == 0
    assert fmri.record()["Trials"]["Confounds"] == []
    assert fmri.run(f"{words} --confounds motion") == 0
    assert len(fmri.record()["Trials"]["Confounds"]) == 24
    for path in list((fmri.root / "prep").rglob("*desc-denoised_bold*")):
        path.rename(path.with_name(path.name.replace("denoised", "smoothAROMAnonaggr")))
    aroma = words.replace("denoised", "smoothAROMAnonaggr")
    assert fmri.run(f"{aroma} --confounds ica_aroma --desc aroma") == 0
    assert fmri.record("desc-aroma")["Trials"]["Confounds"] == []
    assert "images of echo 2 only, not combined" in capsys.readouterr().out
    text = methods_text(fmri.result("desc-regions"))
    assert "Scans were those of echo 2 only." in text
    assert "Files were those with desc-denoised in their names." in text


def test_runs_of_which_scans_were_removed_are_refused(fmri, capsys):
    (path,) = fmri.root.rglob("sub-01_*run-2_*_bold.nii.gz")
    image, folder = nibabel.load(path), fmri.root / "sub-01" / "func"
    table = path.with_name("sub-01_task-objects_run-2_outliers.tsv")
    table.write_text("\n".join(["framewise_displacement", *"0" * 60, ""]))
    raw = folder / "sub-01_task-objects_run-2_bold.nii.gz"
    nibabel.Nifti1Image(image.get_fdata(), image.affine).to_filename(raw)
    # Of another run, and links to nothing.
    nibabel.Nifti1Image(image.get_fdata()[..., :9], image.affine).to_filename(
        folder / "sub-01_task-rest_run-2_bold.nii.gz"
    )
    (folder / "sub-01_task-objects_run-3_bold.nii.gz").symlink_to("nothing")
    words = f"{ONE} --analysis regions"
    assert fmri.run(words) == 0
    image.slicer[..., 4:].to_filename(path)
    for beside in (table, raw):
        capsys.readouterr()
        assert fmri.run(words) == 2
        said = capsys.readouterr().err
        assert f"bold.nii.gz has 56 scans, but {beside.name} 60: " in said
        beside.unlink()
    for confounds in path.parent.glob("*run-2_desc-confounds*.tsv"):
        lines = confounds.read_text().splitlines(keepends=True)
        confounds.write_text("".join([lines[0], *lines[5:]]))
    assert fmri.run(words) == 0


def test_runs_in_the_space_of_the_scanner_are_warned_of(fmri, capsys):
    for path in list((fmri.root / "prep").rglob("*_space-*")):
        path.rename(path.with_name(re.sub("_space-[A-Za-z0-9]+", "", path.name)))
    words = f"{ONE} --analysis regions --desc"
    for more, is_said in (("all", True), ("one --run 1 --cv 2", False)):
        assert fmri.run(f"{words} {more}") == 0, capsys.readouterr().err
        assert (
            "each of them to its own reference" in capsys.readouterr().err
        ) == is_said


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


def test_two_spaces_must_be_chosen_from(tmp_path, capsys):
    study = Study(tmp_path / "data", tmp_path / "out", ("--where", bids_data.STIMULI))
    spaces = (f"{bids_data.SPACE}_res-2", bids_data.SPACE, "T1w")
    prep = study.root / "prep"
    bids_data.write_fmri(study.root, prep, ("01", "02"), 2, spaces, shape=(4, 4, 4))
    words = "--radius 4 --n-permutations 0 --confounds none"
    assert study.run(words) == 2
    said = f"3 spaces: {bids_data.SPACE}, {bids_data.SPACE}:res-2, T1w. Choose"
    assert said in capsys.readouterr().err
    assert study.run(f"{words} --space MNI") == 2
    assert "no image is in that space" in capsys.readouterr().err
    for space, part in (
        (f"{bids_data.SPACE}:res-2", f"space-{bids_data.SPACE}_res-2"),
        ("T1w", "space-T1w"),
    ):
        assert study.run(f"{words} --space {space}") == 0
        assert len(list(study.out.rglob(f"*_{part}_desc-*_decoding.h5"))) == 2
    for more in ("", "--dry-run"):
        assert study.run(f"--space T1w {more}", level="group") > 0
        assert "each subject's own brain" in capsys.readouterr().err
    # Regions are the same in all brains, and each subject may have an own atlas.
    for subject in ("01", "02"):
        atlas = np.arange(64).reshape(4, 4, 4) % 4 // (1 + (subject == "02"))
        atlas = nibabel.Nifti1Image(atlas.astype(np.uint8), bids_data.AFFINE)
        atlas.to_filename(tmp_path / f"{subject}.nii.gz")
    words = "--space T1w --analysis regions --n-permutations 0 --labels-img"
    for atlases in (("01", "01"), ("01", "02")):
        for subject, atlas in zip(("01", "02"), atlases, strict=True):
            one = f"--participant-label {subject}"
            assert study.run(f"{words} {tmp_path / atlas}.nii.gz {one}") == 0
        capsys.readouterr()
        given = "--space T1w --desc regions --method t --correction none"
        same = atlases[0] == atlases[1]
        assert study.run(given, level="group") == (0 if same else 2)
    assert "and not both have '2', '3'" in capsys.readouterr().err


# ------------------------------------------------------------------------------- names


def test_runs_are_numbers_and_named_as_in_the_raw_dataset(fmri, capsys):
    indices = load_schema().objects.entities.values()
    assert set(find.INDICES) == {e.name for e in indices if e.format == "index"}
    assert find.same_value("run", "1", "01")
    assert not find.same_value("sub", "1", "01")
    assert not find.same_value("run", None, "1")
    for path in [*fmri.root.glob("sub-*/func/*_run-*")]:
        path.rename(path.with_name(path.name.replace("_run-", "_run-0")))
    # Images need not be compressed.
    for path in [*(fmri.root / "prep" / "sub-01").rglob("*.nii.gz")]:
        load_img(path).to_filename(path.with_name(path.name.removesuffix(".gz")))
        path.unlink()
    words = f"{ONE} --radius 4"
    assert fmri.run(words) == 0
    assert set(fmri.result().groups) == {"01", "02", "03"}
    assert fmri.result().scores.shape == (60,)
    assert set(fmri.record()["Trials"]["TrialsPerRun"]) == {"01", "02", "03"}
    assert fmri.run(f"{words} --run 2 03 --desc two") == 0
    assert set(fmri.result("desc-two").groups) == {"02", "03"}
    capsys.readouterr()
    assert fmri.run(f"{words} --run 9") == 2
    assert "Those of" in (said := capsys.readouterr().err)
    assert "'01', '02', '03'" in said


@pytest.mark.parametrize(("kind", "name"), [("eeg", "study[1]"), ("fmri", "st*dy")])
def test_paths_are_no_patterns(raw_eeg, fmri_of_two, tmp_path, kind, name):
    source = {"eeg": raw_eeg, "fmri": fmri_of_two}[kind]
    words = ONE if kind == "eeg" else f"{ONE} --radius 4 --confounds none"
    other = tmp_path / {"study[1]": "study1", "st*dy": "study"}[name]
    shutil.copytree(source.root, other)
    for path in other.rglob("sub-01*_events.tsv"):
        table = pd.read_csv(path, sep="\t")
        table["trial_type"] = np.roll(table["trial_type"], 3)
        table.to_csv(path, sep="\t", index=False)
    root = shutil.copytree(source.root, tmp_path / name)
    study = Study(root, tmp_path / f"{name} out", source.given)
    plain = source.elsewhere(tmp_path)
    assert study.run(words) == plain.run(words) == 0
    np.testing.assert_array_equal(study.result().scores, plain.result().scores)


@pytest.mark.parametrize(
    ("kind", "pattern"),
    [
        ("eeg", "sub-01*_run-1_events.tsv"),
        ("fmri", "sub-01*_run-1_*mask.nii.gz"),
    ],
)
def test_two_files_for_one_run_are_refused(request, capsys, kind, pattern):
    study = request.getfixturevalue(kind)
    path = study.find(pattern)
    shutil.copy(path, path.with_name(path.name.replace("_run-1", "")))
    assert study.run(ONE) == 2
    said = capsys.readouterr().err
    assert "are both for" in said
    assert path.name in said
    assert "BIDS allows one" in said


# ---------------------------------------------------------------------- what is missing


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--task rest", "--task rest: no recording is of that task. Those of"),
        ("--participant-label 9", "no recording is of that participant-label"),
        ("--session 2", "no recording is of that session. There are none."),
        ("--datatype meg", "has nothing to decode of datatype 'meg'"),
        ("--derivatives nowhere", "there is no such folder"),
    ],
)
def test_what_is_not_there_is_said_before_anything_is_done(
    raw_eeg, tmp_path, capsys, words, message
):
    study = raw_eeg.elsewhere(tmp_path)
    assert study.run(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert not study.out.exists()


def test_what_is_missing_in_a_dataset_is_said(fmri, capsys):
    root, prep = fmri.root, fmri.root / "prep"
    raw = Study(fmri.root.with_name("raw"), fmri.out, fmri.given)
    shutil.copytree(root, raw.root, ignore=lambda *_: ["prep"])
    assert raw.run(ONE) == 2
    assert "nothing to decode" in capsys.readouterr().err
    bold = raw.root / "sub-01" / "func" / "sub-01_task-objects_run-1_bold.nii.gz"
    shutil.copy(fmri.find("sub-01*run-1*bold.nii.gz"), bold)
    assert raw.run(ONE) == 2
    assert "Set --derivatives to its output" in capsys.readouterr().err
    for path in prep.rglob("*confounds_timeseries.tsv"):
        table = pd.read_csv(path, sep="\t").drop(columns="framewise_displacement")
        table.to_csv(path, sep="\t", index=False, na_rep="n/a")
    assert fmri.run(f"{ONE} --confounds scrub") == 2
    said = "have no column 'framewise_displacement'). Choose others with --confounds"
    assert said in capsys.readouterr().err
    for path in prep.rglob("*confounds*"):
        path.unlink()
    assert fmri.run(ONE) == 2
    assert "finds no confounds 'motion' of fMRIPrep" in capsys.readouterr().err
    for path in root.rglob("*events.tsv"):
        path.unlink()
    assert fmri.run(f"{ONE} --confounds none") == 2
    assert "has no events: there is no events.tsv" in capsys.readouterr().err
    for path in prep.rglob("*_desc-preproc_bold.nii.gz"):
        old = path.name.replace("_desc-preproc_bold", "_bold_preproc")
        path.rename(path.with_name(old))
    assert fmri.run(ONE) == 2
    assert "as fMRIPrep did before its version 1.2" in capsys.readouterr().err


# ------------------------------------------------------------------------- what is read


def test_a_file_that_changes_while_it_is_read_is_refused(epochs, capsys, monkeypatch):
    analysis = app.ANALYSES["time"]

    @wraps(analysis.function)
    def decode(data, y, **options):
        path = epochs.find("*sub-01*proc-clean_epo.fif")
        path.write_bytes(path.read_bytes()[:-1] + b"x")
        return analysis.function(data, y, **options)

    monkeypatch.setitem(app.ANALYSES, "time", replace(analysis, function=decode))
    assert epochs.run(ONE) == 2
    assert "changed while it was read" in capsys.readouterr().err
    assert not list(epochs.out.rglob("*.h5"))


def test_new_files_that_come_first_are_seen(fmri, capsys):
    words = f"{ONE} --analysis regions"
    assert fmri.run(words) == 0
    bold = fmri.find("sub-01*run-1*preproc_bold.json")
    common = bold.parents[1] / bold.name.replace("_run-1", "")
    for path in fmri.root.rglob("sub-01*preproc_bold.json"):
        path.rename(common)  # one for all runs, one folder up
    assert fmri.run(words) == 0
    capsys.readouterr()
    bold.write_text('{"StartTime": 1.9}')  # RepetitionTime is that of all runs
    assert fmri.run(words) == 2
    assert "StartTime is 1 s, 1.9 s" in capsys.readouterr().err


def test_rows_of_other_participants_may_change(eeg, capsys):
    assert eeg.run(ONE) == 0
    path = eeg.root / "participants.tsv"
    assert any(uri.endswith(":participants.tsv") for uri in eeg.record()["Inputs"])
    text = path.read_text()
    others = "\t".join(["sub-77", *["n/a"] * text.splitlines()[0].count("\t")])
    for added, said in (
        (f"{text}{others}\n", "there already"),
        (re.sub("(?m)^(sub-01\t).*?(\t|$)", r"\g<1>x\2", text), "input files"),
    ):
        path.write_text(added)
        capsys.readouterr()
        assert eeg.run(ONE) == 0
        assert said in capsys.readouterr().out
