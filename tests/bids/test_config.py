"""Options in a file: it repeats a run, and mistakes in it are said in one sentence."""

import re
import textwrap
from pathlib import Path

import pytest

from mvpa_kfda import load_result
from mvpa_kfda.bids.config import read_config, tomllib, word_config
from mvpa_kfda.cli.bids import LEVELS, keys_of
from tests.bids_data import Study

OPTIONS = {name: keys_of(name) for name in LEVELS}


def test_the_file_of_a_run_repeats_it(epochs, tmp_path, capsys):
    words = "--by 'rt > 0.5' --where 'rt > 0' --picks Cz Pz --reg 0.1 1 --average 2"
    assert (
        epochs.run(f"{words} --no-average-test --tmin 0.1 --resample 10 --desc rt") == 0
    )
    result = epochs.result("sub-01_task-faces_desc-rt")
    assert result.parameters["reg"]["grid"] == [0.1, 1.0]
    config = epochs.out / "participant_desc-rt_config.toml"
    before, text = epochs.times(), config.read_text()
    capsys.readouterr()
    plain = Study(epochs.root, epochs.out, ())
    assert plain.run("--config", config) == 0
    assert capsys.readouterr().out.count("there already") == 2
    assert epochs.times() == before
    assert config.read_text() == text
    new = Study(epochs.root, tmp_path / "new", ())
    assert new.run("--participant-label 01 --config", config) == 0
    assert new.result("sub-01_task-faces_desc-rt") == result
    # The command line comes first, and tables of the other level are not read.
    mine = tmp_path / "mine.toml"
    mine.write_text(
        'by = "trial_type"\nscoring = ["roc_auc", "accuracy"]\n'
        "[participant]\nn-permutations = 9\nn_jobs = 1\nreg = 0.3\n"
        '[group]\nmethod = "t"\ncorrection = "none"\n'
    )
    other = Study(epochs.root, tmp_path / "other", ("--resample", 10, "--config", mine))
    assert other.run("--scoring accuracy") == 0
    result = other.result()
    assert (result.scoring, result.n_permutations) == (["accuracy"], 9)
    assert result.parameters["reg"] == 0.3
    assert other.run("--config", mine, level="group") == 0
    (path,) = other.out.glob("group/*.h5")
    assert load_result(path).method == "t"


def test_what_is_written_is_read_as_it_was(tmp_path):
    path = tmp_path / "config.toml"
    values = {
        "by": "a 'b' \"c\" \\ \x7f ä",
        "tmin": -0.5,
        "n-permutations": 3,
        "equalize": True,
        "scoring": ["accuracy", "kappa"],
        "mask-img": Path("mask.nii"),
        "tmax": None,
    }
    path.write_text(word_config("participant", values, ["One line", "and more"]))
    assert path.read_text().startswith("# One line\n# and more\n[participant]\n")
    found = read_config(path, "participant", OPTIONS)
    assert found == {
        "by": values["by"],
        "tmin": -0.5,
        "n_permutations": [3],
        "equalize": True,
        "scoring": ["accuracy", "kappa"],
        "mask_img": Path("mask.nii").absolute(),
    } | {"n_permutations": found["n_permutations"]}
    assert found["n_permutations"] in (3, [3])
    assert read_config(path, "group", OPTIONS) == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n-permutatons = 5", "Did you mean 'n-permutations'"),
        ("[group]\nby = 'a'", "unknown key 'by' of [group]"),
        ("tmin = 'early'", "invalid value for tmin: 'early'"),
        ("n-compcor = 1.5", "Allowed: a whole number"),
        ("analysis = 'all'", "Allowed: 'time', 'generalization'"),
        ("equalize = 1", "Allowed: true or false"),
        ("tmin = [0, 1]", "tmin takes one value, not a list"),
        ("tmin = true", "Allowed: a number"),
        ("by =", "is no valid TOML"),
        ("group = 3", "are tables of options"),
    ],
)
def test_mistakes_in_a_file_are_said_in_one_sentence(tmp_path, capsys, text, message):
    config = tmp_path / "config.toml"
    config.write_text(text)
    study = Study(tmp_path, tmp_path / "out", ())
    assert study.run("--config", config) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert not (tmp_path / "out").exists()


def test_the_file_in_the_page_is_valid(tmp_path):
    page = (Path(__file__).parents[2] / "doc" / "bids.rst").read_text()
    (text,) = re.findall(r"(?s)code-block:: toml\n\n(.*?)\n\n\S", page)
    config = tmp_path / "faces.toml"
    config.write_text(textwrap.dedent(text))
    for level in LEVELS:
        assert len(read_config(config, level, OPTIONS)) >= 4


def test_the_file_of_an_array_of_jobs_names_all_subjects(epochs):
    def subjects_after(words):
        assert epochs.run(f"--n-permutations 0 {words}") == 0
        text = (epochs.out / "participant_desc-time_config.toml").read_text()
        return tomllib.loads(text)["participant"].get("participant-label")

    assert subjects_after("--participant-label sub-01") == ["01"]
    assert subjects_after("--participant-label 02 --n-jobs 1") == ["01", "02"]
    assert subjects_after("--participant-label 02 --reg 0.1") == ["02"]
    assert subjects_after("--reg 0.1") is None
