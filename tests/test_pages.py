"""Pages that newcomers read: their code runs, and what they say of it is so."""

import ast
import doctest
import inspect
import re
import warnings
from pathlib import Path

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
    failed, tried = doctest.testfile(
        str(DOC / "pitfalls.rst"), module_relative=False, verbose=False
    )
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


def test_the_first_five_lines_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (block,) = code_blocks((DOC / "index.rst").read_text())
    exec(compile(block, "index.rst", "exec"), {})
    assert mvpa_kfda.load_result("first.h5").pvalues("max").min() < 0.05


def test_examples_of_the_readme_call_what_there_is():
    blocks = code_blocks((ROOT / "README.rst").read_text())
    assert len(blocks) == 3
    for block in blocks:
        assert len(block.splitlines()) < 10
        for name, keywords in calls(block):
            if hasattr(mvpa_kfda, name):
                accepted = inspect.signature(getattr(mvpa_kfda, name)).parameters
                assert set(keywords) <= set(accepted), name


def ours(page):
    """Return what stands in the right-hand column of the dictionaries."""
    cells = re.findall(r"(?m)^     - ((?:.*\n(?:       .*\n)*))", page)
    return re.findall(r"``(.+?)``", " ".join(" ".join(c.split()) for c in cells))


@pytest.fixture(scope="module")
def dictionaries():
    page = (DOC / "index.rst").read_text()
    return page.split("Coming from another program?")[1].split("An example report")[0]


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
