"""What is there already: only what was made of this very content, and is whole."""

import json
import os
import shutil
import sys
from dataclasses import replace
from functools import wraps
from pathlib import Path

import nibabel
import numpy as np
import pandas as pd
import pytest

from mvpa_kfda import load_result
from mvpa_kfda.bids import app
from mvpa_kfda.cli import main
from tests import bids_data
from tests.bids_data import SPACE

FEW = ["--where", "trial_type != 'button'", "--n-permutations", "3"]
IMAGES = [*FEW, "--radius", "4"]
#: Where the audit hook, which cannot be taken away, writes names of files.
OPENED = []


def _note(event, arguments):
    if OPENED and event == "open" and isinstance(arguments[0], str | os.PathLike):
        reads = not isinstance(arguments[1], str) or "r" in arguments[1]
        if reads:
            OPENED[0].add(os.path.realpath(arguments[0]))


@pytest.fixture(scope="module", autouse=True)
def no_pages():
    """Leave the pages out, which take seconds each."""

    def write(paths, page, title):
        results = [load_result(path) for path in paths]
        page.write_text(f"{title}: {[r.n_permutations for r in results]}")
        return "done", str(page)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app, "write_page", write)
        yield


def write_images(root):
    """Write images of single trials with tables, and a mask one folder up."""
    rng = np.random.default_rng(0)
    bids_data.describe(root, "GLMsingle")
    folder = root / "sub-01" / "func"
    folder.mkdir(parents=True)
    for run in (1, 2):
        stem = f"sub-01_task-objects_run-{run}_betaseries"
        data = rng.normal(size=(4, 4, 3, 8))
        nibabel.Nifti1Image(data, bids_data.AFFINE).to_filename(
            folder / f"{stem}.nii.gz"
        )
        table = pd.DataFrame({"trial_type": ["cat", "dog"] * 4, "onset": range(8)})
        table.to_csv(folder / f"{stem}.tsv", sep="\t", index=False)
    mask = nibabel.Nifti1Image(np.ones((4, 4, 3), np.uint8), bids_data.AFFINE)
    mask.to_filename(root / "sub-01" / "sub-01_desc-brain_mask.nii.gz")
    return root


def inherit(derived):
    """Put what all runs have in common one folder up, as BIDS allows."""
    for subject in derived.glob("sub-*"):
        for end in ("desc-preproc_bold.json", "desc-brain_mask.nii.gz"):
            several = sorted((subject / "func").glob(f"*_{end}"))
            common = f"{subject.name}_task-objects_space-{SPACE}_{end}"
            several[0].rename(subject / common)
            for path in several[1:]:
                path.unlink()


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Return datasets of all kinds, by the kind."""
    root = tmp_path_factory.mktemp("sources")
    bids_data.write_eeg(root / "raw", ("01",))
    bids_data.write_epochs(root / "epochs", ("01", "02"))
    bids_data.write_fmri(root / "bold", root / "bold" / "prep", ("01",), 2)
    bids_data.add_confounds(root / "bold" / "prep")
    inherit(root / "bold" / "prep")
    write_images(root / "images")
    return root


OPTIONS = {
    "raw": FEW,
    "epochs": FEW,
    "bold": [*FEW, "--confounds", "compcor"],
    "images": ["--estimate", "images", *IMAGES],
}


@pytest.fixture(params=[*OPTIONS])
def study(request, sources, tmp_path):
    """Return a dataset of a kind that a test may change, and how to decode it."""
    return copy_of(sources, request.param, tmp_path)


def copy_of(sources, kind, tmp_path):
    root = shutil.copytree(sources / kind, tmp_path / "data")
    given = [*OPTIONS[kind]]
    if kind == "bold":
        given += ["--derivatives", root / "prep"]
        atlas = np.ones((6, 6, 5), np.int16)
        atlas[3:] = 2
        image = nibabel.Nifti1Image(atlas, bids_data.AFFINE)
        image.to_filename(tmp_path / "atlas.nii")
        (tmp_path / "names.tsv").write_text("index\tname\n1\tleft\n2\tright\n")
        given += ["--analysis", "regions", "--labels-img", tmp_path / "atlas.nii"]
        given += ["--lut", tmp_path / "names.tsv"]
    return root, tmp_path / "out", given


def run(study, *more, level="participant"):
    root, out, given = study
    given = given if level == "participant" else []
    return main([*map(str, ["bids", root, out, level, *given, *more])])


def records(out, subject="*"):
    paths = sorted(out.glob(f"sub-{subject}/**/*_decoding.json"))
    return [json.loads(path.read_text()) for path in paths]


def damage(path):
    """Change one byte of a file, and neither its size nor its time."""
    state, content = path.stat(), bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


def place_of(uri, study):
    """Return the file that a record names."""
    root = study[0]
    if uri.startswith("file:"):
        return Path(uri.removeprefix("file://"))
    _, place, name = uri.split(":")
    return {"raw": root, "preprocessed": root / "prep"}[place] / name


# ------------------------------------------------------------------------ what is read


def test_every_file_that_is_read_is_on_record(study, tmp_path):
    sys.addaudithook(_note)
    OPENED.append(set())
    try:
        assert run(study, "--participant-label", "01") == 0
    finally:
        opened = OPENED.pop()
    (record,) = records(study[1])
    known = {os.path.realpath(place_of(uri, study)) for uri in record["Inputs"]}
    own = os.path.realpath(study[1])
    opened = {p for p in opened if p.startswith(os.path.realpath(tmp_path))}
    opened = {p for p in opened if not p.startswith(own) and os.path.isfile(p)}
    opened = {p for p in opened if not p.endswith("dataset_description.json")}
    assert len(opened) > 0
    assert opened - known == set()


def test_any_change_of_any_input_is_seen(study, capsys, monkeypatch):
    assert run(study, "--participant-label", "01") == 0
    (record,) = records(study[1])
    assert run(study, "--participant-label", "01") == 0
    assert "there already" in capsys.readouterr().out

    def read(*_):
        raise ValueError("read anew")

    monkeypatch.setattr(app, "read_trials", read)
    for uri in record["Inputs"]:
        path = place_of(uri, study)
        if path.name == "participants.tsv":  # of others it may change
            continue
        content, state = path.read_bytes(), path.stat()
        damage(path)
        assert run(study, "--participant-label", "01") == 2, path
        assert "read anew" in capsys.readouterr().err
        path.write_bytes(content)
        os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert run(study, "--participant-label", "01") == 0
    assert "there already" in capsys.readouterr().out


def test_new_files_that_come_first_are_seen(sources, tmp_path, capsys):
    study = copy_of(sources, "bold", tmp_path)
    assert run(study) == 0
    folder = study[0] / "prep" / "sub-01" / "func"
    (bold,) = folder.glob("*run-1*preproc_bold.nii.gz")
    sidecar = bold.with_name(bold.name.replace(".nii.gz", ".json"))
    sidecar.write_text('{"StartTime": 1.9}')  # RepetitionTime is that of all runs
    capsys.readouterr()
    assert run(study) == 2
    assert "StartTime is 1 s, 1.9 s" in capsys.readouterr().err


def test_rows_of_other_participants_may_change(sources, tmp_path, capsys):
    study = copy_of(sources, "raw", tmp_path)
    assert run(study) == 0
    path, (record,) = study[0] / "participants.tsv", records(study[1])
    assert any(uri.endswith(":participants.tsv") for uri in record["Inputs"])
    text = path.read_text()
    others = "\t".join(["sub-77", *["n/a"] * text.splitlines()[0].count("\t")])
    path.write_text(f"{text}{others}\n")
    capsys.readouterr()
    assert run(study) == 0
    assert "there already" in capsys.readouterr().out


def test_a_file_that_changes_while_it_is_read_is_refused(
    sources, tmp_path, capsys, monkeypatch
):
    study = copy_of(sources, "epochs", tmp_path)
    analysis = app.ANALYSES["time"]

    @wraps(analysis.function)
    def decode(epochs, y, **options):
        path = next(study[0].rglob("*sub-01*proc-clean_epo.fif"))
        damage(path)
        return analysis.function(epochs, y, **options)

    monkeypatch.setitem(app.ANALYSES, "time", replace(analysis, function=decode))
    assert run(study, "--participant-label", "01") == 2
    assert "changed while it was read" in capsys.readouterr().err
    assert not list(study[1].rglob("*.h5"))


# --------------------------------------------------------------------- what is written


@pytest.fixture(scope="module")
def searched(sources, tmp_path_factory):
    """Return a searchlight that is done: result, tables, maps and page."""
    study = copy_of(sources, "images", tmp_path_factory.mktemp("searched"))
    assert run(study) == 0
    return study


@pytest.fixture
def finished(searched, tmp_path):
    """Return a copy of it that a test may change; it is known by content."""
    root, out, given = searched
    shutil.copytree(root, tmp_path / "data")
    shutil.copytree(out, tmp_path / "out")
    return tmp_path / "data", tmp_path / "out", given


def test_any_damage_of_any_output_is_mended(finished, capsys):
    _, out, _ = finished
    files = [*out.glob("sub-01/func/*"), *out.glob("sub-01*_report.html")]
    before = {path: path.read_bytes() for path in files}
    assert {path.suffix for path in files} == {
        *(".h5", ".json", ".tsv", ".gz", ".html")
    }
    for path in files:
        harms = damage, lambda path: path.write_bytes(b"")
        for harm in harms if path.suffix in (".h5", ".gz", ".html") else harms[:1]:
            harm(path)
            status = run(finished)
            if path.name.endswith("_decoding.json"):  # nobody knows what it was of
                assert status == 2 or path.read_bytes() == before[path]
                path.write_bytes(before[path])
                continue
            assert status == 0
            if path.suffix not in (".h5", ".gz"):  # which may hold times
                assert len(path.read_bytes()) == len(before[path]), path
    for path in files:
        if path.suffix == ".gz":
            expected = nibabel.Nifti1Image.from_bytes(_unzip(before[path]))
            found = nibabel.load(path).get_fdata()
            np.testing.assert_array_equal(found, expected.get_fdata())
    capsys.readouterr()
    assert run(finished) == 0
    assert "there already" in capsys.readouterr().out


def _unzip(content):
    import gzip

    return gzip.decompress(content)


def test_a_record_names_nothing_else_to_delete(finished, capsys):
    _, out, _ = finished
    (record,) = out.rglob("*_decoding.json")
    folder, content = record.parent, json.loads(record.read_text())
    (folder / "victim.txt").write_text("mine")
    (out / "victim.txt").write_text("mine")
    other = folder / record.name.replace("_decoding.json", "Other_decoding.tsv")
    other.write_text("mine")
    names = ["victim.txt", other.name, "../../victim.txt", str(out / "victim.txt")]
    for files in (names, dict.fromkeys(names, ""), 3):
        record.write_text(json.dumps(content | {"Files": files, "Digest": "0"}))
        assert run(finished) == 0
        content = json.loads(record.read_text())
    for path in (folder / "victim.txt", out / "victim.txt", other):
        assert path.read_text() == "mine"


def test_links_in_the_output_are_not_followed_to_be_replaced(finished, capsys):
    _, out, _ = finished
    target = out.with_name("kept.tsv")
    (table,) = out.rglob("*_peaks.tsv")
    target.write_bytes(table.read_bytes())
    table.unlink()
    table.symlink_to(target)
    capsys.readouterr()
    assert run(finished) == 0  # as it was written
    assert "there already" in capsys.readouterr().out
    assert run(finished, "--n-permutations", "4") == 2
    assert "is a link or no file at all" in capsys.readouterr().err
    assert table.is_symlink()
    assert target.is_file()


def test_maps_of_a_run_that_was_stopped_do_not_stay(finished, monkeypatch, capsys):
    _, out, _ = finished

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(app.Output, "_record", stop)
        more = ["--correction", "fdr", "--n-permutations", "4"]
        assert run(finished, *more) == 130
    assert run(finished, "--n-permutations", "4") == 0
    assert not list(out.rglob("*stat-pFdr*"))


@pytest.mark.parametrize(
    "level", ["participant", pytest.param("group", marks=pytest.mark.slow)]
)
def test_a_page_is_of_the_result_that_is_there(
    sources, tmp_path, monkeypatch, level, capsys
):
    study = copy_of(sources, "epochs", tmp_path)
    assert run(study) == 0
    pattern, options = "sub-01_*.html", ["--n-permutations", "4"]
    if level == "group":
        pattern, options = "group_*.html", ["--method", "t"]
        assert run(study, level="group") == 0
    (page,) = study[1].glob(pattern)
    old = page.read_text()

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(app, "write_page", stop)
        assert run(study, *options, level=level) == 130
    assert not page.exists()
    assert run(study, *options, level=level) == 0
    assert "there already" in capsys.readouterr().out
    assert page.read_text() != old
    # A page from elsewhere is none of this result.
    new = page.read_text()
    page.write_text(old)
    assert run(study, *options, level=level) == 0
    assert page.read_text() == new


# --------------------------------------------------------------------------- the group


@pytest.fixture(scope="module")
def of_three(tmp_path_factory):
    """Return results of three subjects."""
    root = tmp_path_factory.mktemp("three")
    bids_data.write_epochs(root / "data", ("01", "02", "03"))
    given = [*FEW, "--resample", "10"]
    assert run((root / "data", root / "out", given)) == 0
    return root, given


@pytest.fixture
def three(of_three, tmp_path):
    """Return a copy of them that a test may change; they are known by content."""
    root, given = of_three
    shutil.copytree(root, tmp_path / "three")
    return tmp_path / "three" / "data", tmp_path / "three" / "out", given


def group_of(study):
    (path,) = study[1].glob("group/*.h5")
    return list(load_result(path).subjects)


def test_the_group_has_the_subjects_of_the_dataset(three, capsys):
    assert run(three, "--method", "t", level="group") == 0
    assert group_of(three) == ["01", "02", "03"]
    shutil.rmtree(three[0] / "sub-02")
    capsys.readouterr()
    assert run(three, "--method", "t", level="group") == 0
    said = capsys.readouterr()
    assert group_of(three) == ["01", "03"]
    assert "left out: sub-02, not in the dataset" in said.out
    assert "replaces an earlier result" in said.out
    page = (three[1] / "index.html").read_text()
    assert "left out: sub-02, not in the dataset" in page
    assert run(three, "--participant-label", "02", level="group") == 2
    assert "--participant-label 02: no" in capsys.readouterr().err


def test_subjects_without_a_result_are_named(three, capsys):
    for path in (three[1] / "sub-03").rglob("*.*"):
        path.unlink()
    capsys.readouterr()
    for given in ([], ["--participant-label", "01", "02", "03"]):
        assert run(three, "--method", "t", *given, level="group") == 0
        assert "without a result: sub-03" in capsys.readouterr().out


@pytest.mark.parametrize("ending", ["h5", "tsv"])
def test_results_of_the_group_must_be_whole(three, capsys, ending):
    (path,) = (three[1] / "sub-02").rglob(f"*_decoding.{ending}")
    damage(path)
    assert run(three, "--method", "t", level="group") == 2
    assert "sub-02" in (said := capsys.readouterr().err)
    assert "level participant" in said


def test_results_of_other_options_are_said(three, capsys):
    more = ["--tmin", "0.1", "--tmax", "0.3"]
    assert run(three, *more) == 0
    assert run(three, *more, "--participant-label", "02", "--max-dropped", "9") == 0
    capsys.readouterr()
    assert run(three, "--method", "t", level="group") == 0
    said = capsys.readouterr().err
    assert "max_dropped (9.0 of sub-02)" in said
