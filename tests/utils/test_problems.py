"""What is to be said of a design: worded once, told of several subjects together."""

import pytest

from mvpa_kfda.utils.problems import Problem, read_texts, who_was_told, word_told

TOLD = {
    "a": ["3 of 24 are odd.", "Few.", "Few."],
    "b": ["5 of 24 are odd."],
    "c": ["3 of 24 are odd."],
}


def test_texts_of_several_subjects_are_said_once():
    exact = who_was_told(TOLD)
    assert exact == {
        "3 of 24 are odd.": ["a", "c"],
        "Few.": ["a"],
        "5 of 24 are odd.": ["b"],
    }
    alike = who_was_told(TOLD, numbers=False)
    assert alike == {"3 of 24 are odd.": ["a", "b", "c"], "Few.": ["a"]}
    assert word_told(alike, 3) == [
        "3 of 3 subjects: 3 of 24 are odd. (The numbers are those of a.)",
        "1 of 3 subjects (a): Few.",
    ]
    (two,) = word_told({"4 are odd.": ["a", "b"]}, 3)
    assert two.startswith("2 of 3 subjects (a")
    assert two.endswith("4 are odd. (The numbers are those of a.)")


def test_a_problem_is_warned_of_at_the_caller():
    with pytest.warns(RuntimeWarning, match="^Mind the gap$") as given:
        Problem("gap", "Mind the gap").warn(RuntimeWarning)
    assert given[0].filename == __file__


def test_texts_of_a_file_may_contain_each_other(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text(
        "Notes.\n\n[first]\nOf {n}\ntrials, <what to do>\n\n[what to do]\nrest."
    )
    assert read_texts(path) == {
        "first": "Of {n} trials, rest.",
        "what to do": "rest.",
    }
