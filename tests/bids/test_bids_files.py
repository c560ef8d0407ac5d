"""Files of a BIDS dataset: which are decoded where a run has several."""

import re

import pytest

from mvpa_kfda import load_result, methods_text
from mvpa_kfda.bids.find import find_units
from mvpa_kfda.cli import main
from mvpa_kfda.cli.bids import participant_options
from tests import bids_data

RUN = "sub-01_task-x_run-1"
SPACE = f"{RUN}_space-{bids_data.SPACE}"


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


def test_a_lone_echo_is_said_and_a_denoised_run_is_decoded_and_verified(
    tmp_path, capsys
):
    raw, derived, out = (tmp_path / name for name in ("raw", "derived", "out"))
    bids_data.write_fmri(raw, derived, ("01",), n_runs=2, shape=(5, 4, 5))
    for path in list(derived.rglob("*desc-preproc_bold*")):
        name = path.name.replace("_desc-preproc", "_desc-denoised")
        path.rename(path.with_name(re.sub(r"(_run-\d)", r"\1_echo-2", name)))
    given = ["--derivatives", str(derived), "--analysis", "regions"]
    given += ["--where", "trial_type != 'button'", "--n-permutations", "5"]
    command = ["bids", str(raw), str(out), "participant", *given]
    assert main(command) == 2
    assert "there are: desc-denoised" in capsys.readouterr().err
    assert main([*command, "--entity", "desc-denoised"]) == 0
    assert "images of echo 2 only, not combined" in capsys.readouterr().out
    (path,) = out.rglob("*_decoding.h5")
    text = methods_text(load_result(path))
    assert "Scans were those of echo 2 only." in text
    assert "Files were those with desc-denoised in their names." in text
    places = ["--bids-dir", str(raw), "--derivatives", str(derived)]
    assert main(["verify", str(path), *places]) == 0
