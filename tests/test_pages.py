"""Pages that newcomers read: their code runs, and what they say of it is so."""

import ast
import doctest
import inspect
import re
import warnings
from pathlib import Path

import nibabel
import numpy as np
import pandas as pd
import pytest

import mvpa_kfda

ROOT = Path(__file__).parents[1]
DOC = ROOT / "doc"


def code_blocks(page):
    """Return the blocks of Python of a page, without their margin."""
    pattern = r"(?m)^( *)\.\. code-block:: python\n\n((?:\1    .*\n|\n)+)"
    return [inspect.cleandoc(block) for _, block in re.findall(pattern, page)]


def calls(block):
    """Yield the functions of the package that a block calls, with their keywords."""
    for node in ast.walk(ast.parse(block)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id, [keyword.arg for keyword in node.keywords]


def test_pitfalls_are_as_the_page_says():
    page = (DOC / "pitfalls.rst").read_text()
    test = doctest.DocTestParser().get_doctest(page, {}, "pitfalls", None, None)
    failed, tried = doctest.DocTestRunner(verbose=False).run(test)
    assert (failed, tried > 40) == (0, True)


def test_recipes_are_as_the_page_says():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what is done wrong on purpose
        failed, tried = doctest.testfile(
            str(DOC / "recipes.rst"),
            module_relative=False,
            optionflags=doctest.NORMALIZE_WHITESPACE,
        )
    assert (failed, tried > 40) == (0, True)


@pytest.fixture(scope="module")
def examples():
    """Return the blocks of Python of the README, which the front page includes."""
    epochs, images, group = code_blocks((ROOT / "README.rst").read_text())
    return {"EEG": epochs, "fMRI": images, "group": group}


def test_the_five_lines_for_eeg_run(examples, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert len(examples["EEG"].splitlines()) == 5
    exec(compile(examples["EEG"], "README.rst", "exec"), {})
    assert mvpa_kfda.load_result("sub-01.h5").pvalues("max").min() < 0.05


def test_the_five_lines_for_fmri_run(examples, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert len(examples["fMRI"].splitlines()) == 5
    rng = np.random.default_rng(0)
    labels = np.concatenate([rng.permutation(["face", "house"] * 3) for _ in range(4)])
    bold = 1000 + rng.normal(size=(4, 4, 3, 24))
    bold[1:3, 1:3] += 2 * (labels == "face")
    nibabel.Nifti1Image(bold, np.diag([4.0, 4, 4, 1])).to_filename("bold.nii.gz")
    table = pd.DataFrame({"label": labels, "run": np.repeat(range(4), 6)})
    table.to_csv("labels.tsv", sep="\t", index=False)
    exec(compile(examples["fMRI"], "README.rst", "exec"), {})
    p = nibabel.load("p.nii.gz").get_fdata()
    assert p.shape == bold.shape[:3]
    assert p[1, 1, 1] < 0.05


def test_examples_of_the_readme_call_what_there_is(examples):
    for block in examples.values():
        for name, keywords in calls(block):
            if hasattr(mvpa_kfda, name):
                accepted = inspect.signature(getattr(mvpa_kfda, name)).parameters
                assert set(keywords) <= set(accepted), name


#: Times in the table of the front page, and where they were measured: file, the row,
#: and the cell of the row.
EEG = "(a) 300 x 64 x 100, 3 classes, 10 folds, 1000 permutations"
SPHERES = "(a) 100 images, 4 classes, 5 runs, 2,000 centres, 1,000 permutations"
BRAIN = (
    "(c) 80 images, 2 classes, leave-one-out, 29,398 centres, 10,000 permutations, "
    "float64, n_jobs=2, starting the workers included"
)
STATED = {
    "1.2 s": ("epochs", EEG, 1),
    "3.5 s": ("epochs", EEG, 2),
    "13 s": ("searchlight", f'{SPHERES}, reg="auto"', 1),
    "96 s": ("searchlight", SPHERES, 2),
    "1.8 min": ("searchlight", BRAIN, 1),
    "56 min": ("searchlight", BRAIN, 2),
}
RECORDINGS = {
    "words in sentences": "N400",
    "seven objects": "7 objects, 0.14 s;",
    "eight categories": "Haxby slice, block means",
}


def cells(text):
    """Return the rows of a list-table, as lists of cells."""
    rows = re.findall(r"(?m)^   \* - ?(.*\n(?:     .*\n)*)", text)
    return [
        [" ".join(cell.split()) for cell in re.split(r"\n     -", row)] for row in rows
    ]


def front_table():
    """Return the rows of the table of speed and accuracy."""
    text = (ROOT / "README.rst").read_text()
    return cells(text.split(".. part: table")[1].split(".. end of part")[0])


def measured(file, start):
    """Return the first row of the results that begins with ``start``."""
    text = (DOC / "benchmarks" / f"results_{file}.rst").read_text()
    return next(row for row in cells(text) if row[0].startswith(start))


def test_times_of_the_front_page_are_measured():
    table = " ".join(cell for row in front_table() for cell in row[1:])
    assert sorted(re.findall(r"[\d.]+ (?:s|min)\b", table)) == sorted(STATED)
    for stated, (file, start, column) in STATED.items():
        value, unit = stated.split()
        (number,) = re.findall(rf"([\d.]+) {unit}\b", measured(file, start)[column])
        digits = len(value.partition(".")[2])
        assert f"{float(number):.{digits}f}" == value, start


def test_accuracies_of_the_front_page_are_measured():
    rows = [row for row in front_table() if "%" in row[1]]
    assert len(rows) == len(RECORDINGS)
    for what, ours, others in rows:
        (start,) = [start for words, start in RECORDINGS.items() if words in what]
        _, auto, _, _, _, _, lda, svm, *_ = measured("penalty_recordings", start)
        assert re.findall(r"[\d.]+(?= %)", ours) == [auto]
        assert re.findall(r"[\d.]+(?= %)", others) == [lda, svm]


def ours(page):
    """Return what stands in the right-hand column of the dictionaries."""
    cells = re.findall(r"(?m)^     - ((?:.*\n(?:       .*\n)*))", page)
    return re.findall(r"``(.+?)``", " ".join(" ".join(c.split()) for c in cells))


@pytest.fixture(scope="module")
def dictionaries():
    page = (DOC / "guide" / "other_programs.rst").read_text()
    return page.split("Coming from another program?")[1].split(".. _other-programs:")[0]


def test_dictionaries_name_arguments_that_exist(dictionaries):
    """Every ``name=`` is one of ours, and of the function it is given to."""
    parameters = {
        name: set(inspect.signature(getattr(mvpa_kfda, name)).parameters)
        for name in mvpa_kfda.__all__
    } | {"result.plot": set(inspect.signature(mvpa_kfda.TimeResult.plot).parameters)}
    parameters["to_img"] = set(
        inspect.signature(mvpa_kfda.VolumeResult.to_img).parameters
    )
    everywhere = set().union(*parameters.values())
    seen = 0
    for words in ours(dictionaries):
        called = re.match(r"([\w.]+)\(", words)
        allowed = parameters.get(called[1] if called else "", everywhere)
        for argument in re.findall(r"(?<![\w.])(\w+)=(?!=)", words):
            seen += 1
            assert argument in allowed, words
    assert seen > 50


def test_dictionaries_name_arguments_of_mne_and_nilearn(dictionaries):
    from mne.decoding import GeneralizingEstimator, SlidingEstimator
    from nilearn.decoding import Decoder, SearchLight

    for owner, names in [
        (SlidingEstimator, ["base_estimator", "scoring", "n_jobs"]),
        (GeneralizingEstimator, ["base_estimator"]),
        (SearchLight, ["mask_img", "process_mask_img", "radius", "scoring", "cv"]),
        (Decoder, ["mask", "standardize"]),
    ]:
        accepted = inspect.signature(owner).parameters
        for name in names:
            assert name in dictionaries
            assert name in accepted
    assert inspect.signature(SearchLight).parameters["radius"].default == 2.0
