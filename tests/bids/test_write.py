"""The derivative dataset: names, tables, sidecars, pages, and where it may be."""

import json
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from nilearn.interfaces.bids import get_bids_files

from mvpa_kfda import __version__
from mvpa_kfda.bids import app, write
from mvpa_kfda.bids.write import (
    COLUMNS,
    describe_column,
    describe_dataset,
    entity_value,
    is_of,
    seal_page,
    space_entities,
    write_about,
)
from mvpa_kfda.reports.sections import SECTIONS
from mvpa_kfda.utils.rounding import p_words, rounded
from tests import bids_data, build
from tests.bids_data import SPACE, Study


@pytest.fixture(scope="module")
def decoded(tmp_path_factory):
    """Return raw EEG of two tasks, and what is decoded of it."""
    root = tmp_path_factory.mktemp("decoded")
    bids_data.write_eeg(root / "data", tasks=bids_data.TASKS)
    given = ("--where", bids_data.STIMULI, "--tmax", "0.2", *bids_data.FEW)
    study = Study(root / "data", root / "data" / "derivatives" / "kfda", given)
    assert study.run() == 0
    return study


@pytest.fixture(scope="module")
def searched(fmri_of_two, tmp_path_factory):
    """Return searchlights in two subjects, with images of trials, and their group."""
    study = fmri_of_two.elsewhere(tmp_path_factory.mktemp("searched"))
    assert study.run("--radius 4 --keep-betas") == 0
    assert study.run("--method t", level="group") == 0
    return study


# ------------------------------------------------------------------- names and sidecars


def test_names_are_found_by_the_tools_of_others(decoded, searched):
    from mne_bids import find_matching_paths, get_entity_vals

    assert get_entity_vals(decoded.out, "subject") == ["01", "02"]
    assert get_entity_vals(decoded.out, "task") == ["faces", "words"]
    assert get_entity_vals(decoded.out, "description") == ["time"]
    assert get_entity_vals(searched.out, "space") == [SPACE]
    chosen = {"subjects": "02", "tasks": "words", "descriptions": "time"}
    found = find_matching_paths(decoded.out, **chosen, extensions=".tsv")
    assert [path.basename for path in found] == [
        "sub-02_task-words_desc-time_decoding.tsv"
    ]
    (found,) = get_bids_files(
        searched.out,
        file_tag="statmap",
        file_type="nii.gz",
        sub_label="02",
        modality_folder="func",
        filters=[("task", "objects"), ("stat", "accuracy"), ("space", SPACE)],
    )
    assert {p.name.partition(".")[2] for p in Path(found).parent.iterdir()} == {
        *("h5", "tsv", "json", "nii.gz")
    }
    described = json.loads((searched.out / "dataset_description.json").read_text())
    assert set(described["DatasetLinks"]) == {"raw", "preprocessed"}
    for url in described["DatasetLinks"].values():
        assert (searched.out / url / "dataset_description.json").is_file()


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


def test_every_file_has_a_sidecar_that_describes_it(decoded, searched):
    for out in (decoded.out, searched.out):
        files = [
            path
            for path in out.glob("sub-*/**/*")
            if path.is_file() and path.suffix != ".json" and "betas" not in path.name
        ]
        assert len(files) > 4
        for path in files:
            sidecar = path.with_name(path.name.partition(".")[0] + ".json")
            content = json.loads(sidecar.read_text())
            assert content["Description"]
            assert content["Options"]["where"] == bids_data.STIMULI
            assert None not in content["Options"].values()
            resolved = content["Parameters"]
            assert (resolved["reg"], resolved["n_permutations"]) == ("auto", 5)
            assert resolved["cv"]["name"] in ("KFold", "LeaveOneGroupOut")
            assert resolved["kernel"] == {"name": "Linear"}
            made_by = {"Name": "mvpa_kfda", "Version": __version__}
            assert content["GeneratedBy"] == made_by
            assert content["Versions"]["mvpa_kfda"] == __version__
            assert content["Versions"]["numpy"] == np.__version__
            assert all(name.startswith("bids:") for name in content["Sources"])
            if path.suffix == ".tsv":
                for name in pd.read_csv(path, sep="\t", nrows=1).columns:
                    assert content[name]["Description"]
                    known = name in COLUMNS or name.startswith("p_")
                    assert known or name in ("accuracy", "voxel")


def test_columns_and_entities_are_described():
    result = build.result("DecodingResult")
    assert describe_column("x", result)["Units"] == "mm"
    assert describe_column("time", result)["Units"] == "s"
    assert describe_column("p_max", result) == {
        "Description": "p-value, with the correction 'max'"
    }
    majority = describe_column("p_majority_cluster_size", result)["Description"]
    assert majority.endswith("have an effect, with the correction 'cluster-size'")
    score = describe_column("accuracy", result)["Description"]
    assert score.startswith("Score, accuracy; ")
    assert describe_column("some_thing", result) == {"Description": "Some thing"}
    assert entity_value("few trials-now") == "fewTrialsNow"
    assert space_entities("MNI:res-2") == {"space": "MNI", "res": "2"}
    assert space_entities("res-2") == {"res": "2"}
    assert space_entities(None) == {}


def test_results_without_permutations_have_no_p_values(
    epochs_of_two, fmri_of_two, tmp_path
):
    words = "--n-permutations 0 --scoring accuracy confusion_matrix"
    words += " --participant-label 01"
    study = epochs_of_two.elsewhere(tmp_path)
    assert study.run(words) == 0
    (path,) = study.out.rglob("*.tsv")
    assert path.read_text().startswith("time\taccuracy\n")
    assert "Golub1979" in (study.out / "CITATION.bib").read_text()
    study = fmri_of_two.elsewhere(tmp_path, "fmri")
    assert study.run(f"{words} --radius 4") == 0
    (image,) = study.out.rglob("*.nii.gz")
    assert image.name.endswith("_stat-accuracy_statmap.nii.gz")


def refused(root):
    """Return files in which the validator of BIDS finds errors."""
    # Beside this Python: an environment that is not activated is not on the path.
    command = shutil.which("bids-validator-deno", path=sysconfig.get_path("scripts"))
    command = [command, "--json", root]
    said = subprocess.run(command, capture_output=True, text=True, timeout=120)
    found = json.loads(said.stdout)["issues"]["issues"]
    errors = [issue["location"] for issue in found if issue["severity"] == "error"]
    assert bool(errors) == bool(said.returncode)
    return sorted(set(errors))


def test_the_output_is_a_valid_dataset(searched, decoded, tmp_path):
    assert refused(decoded.out) == []
    study = Study(searched.root, tmp_path / "out", searched.given)
    shutil.copytree(searched.out, study.out)
    assert refused(study.out) == []
    assert "index.html" in (study.out / "README.md").read_text()
    assert len(list(study.out.rglob("*_statmap.nii.gz"))) > 9
    # What others wrote into it stays, and what has no place there would be found.
    (study.out / "README.md").write_text("Ours")
    assert study.run("--radius 4 --keep-betas") == 0
    assert (study.out / "README.md").read_text() == "Ours"
    (study.out / "sub-01" / "func" / "sub-01_task-x_scores.tsv").write_text("")
    assert refused(study.out) == ["/sub-01/func/sub-01_task-x_scores.tsv"]


def test_places_that_do_harm_are_refused(epochs, tmp_path, capsys):
    root, other, full = epochs.root, tmp_path / "other", tmp_path / "full"
    bids_data.describe(other, "fMRIPrep")
    full.mkdir()
    (full / "thesis.txt").write_text("")
    made_by = "is another dataset, by its dataset_description.json made by 'fMRIPrep'"
    for place, message in [
        (root, "is the dataset itself"),
        (root / "sub-01" / "results", "is inside of sub-01 of the dataset"),
        (other, made_by),
        (full, "holds files, but is no dataset of mvpa_kfda"),
        (full / "thesis.txt", "is a file"),
    ]:
        assert Study(root, place).run() == 2
        assert message in capsys.readouterr().err
    assert Study(full, epochs.out).run() == 2
    said = "is no BIDS dataset: it holds no dataset_description.json. "
    assert f"{said}Use the folder" in capsys.readouterr().err
    (full / "sub-01").mkdir()
    assert Study(full, epochs.out).run() == 2
    assert f"{said}Add one: " in capsys.readouterr().err
    assert Study(root, tmp_path / "empty").run(level="group") == 2
    assert "has no results of subjects" in capsys.readouterr().err


def test_what_comes_in_while_a_file_is_written_is_not_lost(tmp_path):
    there, path = [], tmp_path / "list.txt"

    def write(name, meanwhile=()):
        there.append(name)
        others = list(meanwhile)

        def word(found):
            while others:
                write(others.pop())
            return " ".join(found)

        write_about(path, lambda: sorted(there), word)

    write("a", meanwhile=["b", "c"])
    assert path.read_text() == "a b c"


# ------------------------------------------------------------------------------- pages


def real_pages(monkeypatch, *titles):
    """Write pages that have few sections."""
    monkeypatch.setattr(app, "write_page", write.write_page)
    few = [each for each in SECTIONS if each.title in titles]
    monkeypatch.setattr("mvpa_kfda.reports.page.SECTIONS", few)


def test_there_is_a_page_for_each_subject_and_the_group(epochs, monkeypatch, capsys):
    assert epochs.run() == 0
    for path in epochs.out.glob("*.html"):
        path.unlink()
    real_pages(monkeypatch, "Summary", "Scores")
    one = "--participant-label 02"
    assert epochs.run(one) == 0
    assert "there already" in capsys.readouterr().out
    assert epochs.run("--method t", level="group") == 0
    page = epochs.out / "sub-02_desc-time_report.html"
    assert {path.name for path in epochs.out.glob("*.html")} == {
        "index.html",
        page.name,
        "group_task-faces_desc-time_report.html",
    }
    text = page.read_text()
    assert "Subject 02" in text
    assert rounded(epochs.result("sub-02").scores.max()) in text
    assert "FDR correction" not in text
    assert epochs.run(f"{one} --correction fdr max") == 0
    for name in ("FDR", "max-statistic"):
        assert re.search(f'<img alt="[^"]*{name} correction', page.read_text())

    def fail(*_):
        raise ValueError("no paper")

    monkeypatch.setattr(app, "write_page", fail)
    assert epochs.run(f"{one} --n-permutations 6") == 1
    assert "error: sub-02 page: no paper" in capsys.readouterr().err


def test_pages_say_how_the_trials_of_each_result_were_made(
    decoded, fmri, monkeypatch, tmp_path
):
    real_pages(monkeypatch, "Warnings of the run")
    # One page for both tasks.
    paths = sorted(decoded.out.rglob("sub-01*_decoding.h5"))
    assert len(paths) == 2
    for some in (paths, paths[:1]):
        assert write.write_page(some, tmp_path / "page.html", "Two")[0] == "done"
        text = (tmp_path / "page.html").read_text()
        for task in ("faces", "words"):
            heading = f"How trials were made: task-{task} desc-time"
            assert (heading in text) == (len(some) == 2)
        assert "How trials were made" in text
    for path in fmri.root.rglob("sub-01*run-2*mask.nii.gz"):
        path.unlink()
    words = "--participant-label 01 --radius 4 --confounds none --n-permutations 0"
    assert fmri.run(words) == 0
    text = (fmri.out / "sub-01_desc-searchlight_report.html").read_text()
    words = "run 1: 8 decoded, 1 not chosen by --where; run 2: 8 decoded, 1 not chosen"
    assert f"<tr><th>Events</th><td>{words}" in text
    assert "<tr><th>Slice time ref</th><td>0.5</td></tr>" in text
    assert "<th>Runs without mask</th><td>sub-01_task-objects_run-2_space-" in text
    assert "There is no brain mask of sub-01_task-objects_run-2" in text


@pytest.mark.parametrize(
    "level", ["participant", pytest.param("group", marks=pytest.mark.slow)]
)
def test_a_page_is_of_the_result_that_is_there(epochs, monkeypatch, level, capsys):
    def stop(*_):
        raise KeyboardInterrupt

    assert epochs.run() == 0
    pattern, words = "sub-01_*.html", "--n-permutations 4"
    if level == "group":
        pattern, words = "group_*.html", "--method t"
        assert epochs.run(level="group") == 0
    (page,) = epochs.out.glob(pattern)
    old = page.read_text()
    with monkeypatch.context() as patch:
        patch.setattr(app, "write_page", stop)
        assert epochs.run(words, level=level) == 130
    assert not page.exists()
    assert epochs.run(words, level=level) == 0
    assert "there already" in capsys.readouterr().out
    new = page.read_text()
    assert new != old
    # A page from elsewhere is none of this result.
    page.write_text(old)
    assert epochs.run(words, level=level) == 0
    assert page.read_text() == new


def test_a_page_is_sealed_with_the_results_and_their_records(tmp_path):
    page, paths = tmp_path / "page.html", [tmp_path / f"{x}.h5" for x in "ab"]
    assert not is_of(page, paths)
    page.write_text("Page")
    for path in paths:
        path.write_text("x")
    seal_page(page, paths)
    assert is_of(page, paths)
    assert is_of(page, paths[::-1])
    assert not is_of(page, paths[:1])
    paths[0].with_suffix(".json").write_text("{}")
    assert not is_of(page, paths)


def test_the_overview_links_all_pages(epochs):
    described = epochs.root / "dataset_description.json"
    content = json.loads(described.read_text()) | {"Name": "Faces & <houses>"}
    described.write_text(json.dumps(content))
    assert epochs.run() == 0
    assert epochs.run("--desc late --tmin 0.2 --participant-label 02") == 0
    assert epochs.run("--method t --desc time", level="group") == 0
    overview = epochs.out / "index.html"
    page = overview.read_text()
    links = re.findall(r'<a href="([^"]+)"', page)
    assert sorted(links) == sorted(p.name for p in epochs.out.glob("*_report.html"))
    assert len(links) == 4
    assert "Decoding of Faces &amp; &lt;houses&gt;" in page
    assert "<houses>" not in page
    for name in ("sub-01_task-faces_desc-time", "sub-02_task-faces_desc-late"):
        result = epochs.result(name)
        p = p_words(result.pvalues("max").min())
        words = f"highest accuracy {result.worded_peak('accuracy')}</a><br>{p} (max)"
        assert words in page
    # The first subject has not been decoded late.
    row = page.partition("<td>sub-01</td>")[2].partition("</tr>")[0]
    assert row.startswith("<td>\N{EN DASH}</td>")
    content["Name"] = "[Unspecified]"  # by MNE-BIDS
    described.write_text(json.dumps(content))
    # What is no longer there is not on the page.
    for path in epochs.out.rglob("*late*"):
        path.unlink()
    assert epochs.run() == 0
    assert "late" not in overview.read_text()
    assert "<h1>Decoding of data</h1>" in overview.read_text()
