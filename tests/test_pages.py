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

ROOT = Path(__file__).parents[2]
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


@pytest.mark.parametrize(
    "n_left_out", [2, pytest.param(0, marks=pytest.mark.slow, id="whole page")]
)
def test_pitfalls_are_as_the_page_says(n_left_out):
    """All but a call of scikit-learn that fits 1010 models, and what it printed."""
    page = (DOC / "pitfalls.rst").read_text()
    test = doctest.DocTestParser().get_doctest(page, {}, "pitfalls", None, None)
    sources = [example.source for example in test.examples]
    (fits,) = [
        i for i, text in enumerate(sources) if "= permutation_test_score" in text
    ]
    for example in test.examples[fits:][:n_left_out]:
        example.options[doctest.SKIP] = True
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


def test_every_pitfall_has_a_wrong_and_a_right_way():
    page = (DOC / "pitfalls.rst").read_text()
    sections = re.split(r"\n(?=[^\n]+\n-{5,}\n)", page)[1:]
    assert len(sections) >= 7
    for section in sections:
        wrong, right = section.split("**Right:**")
        assert ">>>" in wrong
        assert ">>>" in right
        # What the bold words promise is what the code printed.
        promised = re.search(r"\*\*(.+?)(?: correct.*| in noise\.)\*\*", wrong)[1]
        share = promised.removesuffix(" %")
        wanted = f"{int(share) / 100:.2f}" if share.isdigit() else promised
        printed = [line for line in wrong.splitlines() if re.match(r"    \S*\d", line)]
        assert any(wanted in line or promised in line for line in printed), promised


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


def parts(readme):
    """Return the names of the parts of the README that the front page may include."""
    starts, ends = (
        re.findall(rf"(?m)^\.\. {words}: (\w+)$", readme)
        for words in ("part", "end of part")
    )
    assert starts == ends
    return starts


def test_front_page_and_readme_say_the_same():
    included = re.findall(
        r"include:: \.\./README\.rst\n   :start-after: \.\. part: (\w+)\n"
        r"   :end-before: \.\. end of part: (\w+)\n",
        (DOC / "index.rst").read_text(),
    )
    names = parts((ROOT / "README.rst").read_text())
    assert included == [(name, name) for name in names]
    assert {"what", "use", "table", "why"} <= set(names)


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


#: Start pages, and the folders of their chapters.
PARTS = {"user_guide": "guide", "method": "method", "group": "group"}

#: What newcomers search for, in the words of the field.
SEARCHED = (
    *("RDM", "multiple comparisons", "unbalanced", "SLURM", "fMRIPrep", "BIDS"),
    *("searchlight", "permutation", "confound", "onset", "prevalence"),
)


@pytest.fixture(scope="module")
def found_first():
    """Return headings and terms of the glossary.

    The search of the built pages lists these before pages that have the words.
    """
    glossary = (DOC / "glossary.rst").read_text().split(".. glossary::")[1]
    found = re.findall(r"(?m)^   (\w.*)$", glossary)
    for folder in (DOC, *(DOC / name for name in PARTS.values())):
        for page in map(Path.read_text, folder.glob("*.rst")):
            found += re.findall(r"(?m)^(\S.*)\n(?:={4,}|-{4,}|~{4,})$", page)
    return found


@pytest.mark.parametrize("words", SEARCHED)
def test_search_finds(words, found_first):
    pattern = re.compile(rf"\b{words}s?\b", re.IGNORECASE)
    assert any(map(pattern.search, found_first))


@pytest.mark.parametrize("start", PARTS)
def test_every_chapter_is_offered_by_a_question(start):
    page = (DOC / f"{start}.rst").read_text()
    questions, _, tree = page.partition(".. toctree::")
    listed = re.findall(r"(?m)^   (\w[\w/]+)$", tree)
    offered = re.findall(r":doc:`([\w/]+)`", questions)
    assert [name for name in offered if name in listed] == listed
    chapters = list((DOC / PARTS[start]).glob("*.rst"))
    assert {f"{PARTS[start]}/{path.stem}" for path in chapters} <= set(listed)
    for path in chapters:
        assert len(path.read_text().split()) < 2500, path


#: Pages of words and tables only: a dictionary, and lists.
WITHOUT_FIGURES = ("other_programs", "references")


def long_pages():
    """Return the pages that are long enough to need a figure."""
    chapters = [*(DOC / "guide").glob("*.rst"), *(DOC / "group").glob("*.rst")]
    pages = [*chapters, DOC / "rdm.rst", DOC / "checking.rst"]
    return [
        page
        for page in pages
        if page.stem not in WITHOUT_FIGURES and len(page.read_text().split()) > 900
    ]


@pytest.mark.parametrize("page", long_pages(), ids=lambda page: page.stem)
def test_a_long_page_has_a_figure(page):
    assert re.search(r"(?m)^\.\. (image|cell)::", page.read_text())


def cells_of_a_notebook():
    """Return the code of the pages that is run when they are built."""
    pattern = r"(?m)^\.\. cell::\n(?:   .*\n)*\n((?:   .*\n|\n)+)"
    return [
        pytest.param(inspect.cleandoc(code), id=f"{page.stem}-{i}")
        for page in sorted(DOC.rglob("*.rst"))
        for i, code in enumerate(re.findall(pattern, page.read_text()))
    ]


@pytest.mark.parametrize("code", cells_of_a_notebook())
def test_cells_of_pages_end_with_what_they_show(code):
    assert isinstance(ast.parse(code).body[-1], ast.Expr)


@pytest.mark.parametrize(
    "tutorial", sorted((ROOT / "tutorials").glob("*.py")), ids=lambda path: path.stem
)
def test_a_tutorial_begins_with_its_answer(tutorial):
    """Its first paragraph has two to four sentences and the call, then the story."""
    page = ast.get_docstring(ast.parse(tutorial.read_text()))
    _, _, answer, story = page.split("\n\n", 3)
    call = re.search(r"``[\w\s.,()*\"=-]+``|:func:`~mvpa_kfda\.\w+`", answer)
    assert call, answer
    sentences = re.split(r"[.?!] (?=[A-Z`:])", answer.replace("\n", " "))
    assert 2 <= len(sentences) <= 4
    assert len(answer.split()) < 110
    assert story


def ours(page):
    """Return what stands in the right-hand column of the dictionaries."""
    cells = re.findall(r"(?m)^     - ((?:.*\n(?:       .*\n)*))", page)
    return re.findall(r"``(.+?)``", " ".join(" ".join(c.split()) for c in cells))


@pytest.fixture(scope="module")
def dictionaries():
    page = (DOC / "guide" / "other_programs.rst").read_text()
    return page.split("Coming from another program?")[1].split(".. _other-programs:")[0]


def test_there_is_a_dictionary_for_each_of_five_programs(dictionaries):
    names = re.findall(r"<summary>(.*)</summary>", dictionaries)
    assert [name.split()[0] for name in names] == [
        "MNE-Python",
        "nilearn",
        "MVPA-Light",
        "CoSMoMVPA",
        "The",
    ]


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


def names_shown(tutorial):
    """Return what of the package a tutorial imports, or links in its text."""
    text = tutorial.read_text()
    imports = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and node.module == "mvpa_kfda"
    ]
    linked = re.findall(r":\w+:`~mvpa_kfda\.(\w+)", text)
    return {alias.name for node in imports for alias in node.names} | set(linked)


def test_tutorials_show_everything_public():
    """Only so does its page in the reference link one."""
    shown = set().union(*map(names_shown, (ROOT / "tutorials").glob("*.py")))
    assert set(mvpa_kfda.__all__) - shown == {"sys_info"}
