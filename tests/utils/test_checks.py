"""Input checks and their words; the warnings of a run are given, and kept in it."""

import inspect
import math
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

import mvpa_kfda
from mvpa_kfda import cross_validate, group_inference, load_result
from mvpa_kfda.results.fields import RESULTS
from mvpa_kfda.utils import checks
from mvpa_kfda.utils.checks import collected_warnings, warn
from tests import build
from tests.entries import ENTRIES

# ------------------------------------------------------------------------------- words


def test_numbers_of_things_are_worded():
    assert checks.enumerated("abc") == "a, b, and c"
    assert checks.enumerated("ab", "or") == "a or b"
    assert checks.some_of("abcd") == "a, b, c, and d"
    assert checks.some_of("abcde") == "a, b, c and 2 more"
    assert checks.quoted([1, "a", 2], 2) == "1, 'a', ..."
    assert checks.quoted([1, "a"], 2) == "1, 'a'"
    for one, many in (("vertex", "vertices"), ("frequency", "frequencies")):
        assert checks.counted(1, one) == f"1 {one}"
        assert [checks.counted(n, one) for n in (0, 2)] == [f"0 {many}", f"2 {many}"]
    assert checks.counted(2, "class") == "2 classes"
    assert checks.counted(1000, "pair of times", ",") == "1,000 pairs of times"
    assert checks.ranged([3, 5], "fold") == "3 to 5 folds"
    assert checks.ranged([3, 3], "fold") == "3 folds"
    assert [checks.times_words(n) for n in (1, 2, 3)] == ["once", "twice", "3 times"]
    sizes = [checks.word_bytes(x) for x in (999, 1e3, 2.5e6, 1e9, 3e13)]
    assert sizes == ["999 bytes", "1 kB", "2.5 MB", "1 GB", "30 TB"]


# ------------------------------------------------------------------------- one argument


@pytest.mark.parametrize(
    ("call", "good", "bad", "message"),
    [
        (lambda x: checks.check_count("n", x, 2), [2, np.int8(9)], [1, True, "3"], "2"),
        (checks.check_count, [], [("n", 3.0), ("n", 1e6)], r"write int\((3|1e\+06)\)"),
        (lambda x: checks.check_count("n", x, most=9), [9], [10], "and at most 9"),
        (
            lambda x: checks.check_positive("reg", x),
            [1e-9, np.float32(2)],
            [0, -1, math.inf, math.nan, 10**400, "1", True],
            "above zero",
        ),
        (
            lambda x: checks.check_positive("reg", x, zero=True),
            [0],
            [-1],
            r"Zero is allowed too\.",
        ),
        (lambda x: checks.check_finite("a", x), [-3, 0.5], [math.nan, "a"], "finite"),
        (lambda x: checks.check_share("a", x), [0.5], [0, 1, True], "above 0 and bel"),
        (
            lambda x: checks.check_share("a", x, 2, zero=True),
            [0, 1.5],
            [-0.1, 2],
            "of at least 0 and below 2",
        ),
        (lambda x: checks.check_flag("a", x), [True, np.False_], [1, None], "True or"),
        (lambda x: checks.check_flag("a", x, (None,)), [None], [0], "or None"),
        (
            lambda x: checks.check_text("a", x),
            [None, "b"],
            [1, "\ud800"],
            "text|halves",
        ),
        (checks.check_path, ["a"], [1, b"a", "", "a\0", "x" * 9999], "name"),
        (
            lambda x: checks.check_option("a", x, ("b", 1)),
            ["b", 1],
            ["c", ["b"], np.array(["b"])],
            "Allowed: 'b', 1",
        ),
        (
            lambda x: checks.all_items("cv", x),
            [(), "ab"],
            [3, iter(int, 1)],
            "Allowed: a list|may never end",
        ),
        (checks.draw_seed, [3, 2**70], [-1, 1.5, "a"], "random_state"),
        (checks.generator, [3], [-1, "a"], "random_state"),
        (checks.check_dtype, ["float32", float], ["int8", "x", 3.5], "'float64', 'fl"),
    ],
)
def test_values_are_taken_or_refused_with_what_is_allowed(call, good, bad, message):
    for value in good:
        call(value)
    for value in bad:
        given = value if isinstance(value, tuple) else (value,)
        with pytest.raises((TypeError, ValueError), match=message):
            call(*given)


def test_seeds_redraw_the_same():
    for make in (np.random.default_rng, np.random.RandomState):
        first, again = (checks.draw_seed(make(3)) for _ in range(2))
        assert first == again != checks.draw_seed(make(4))
    assert checks.draw_seed(np.int64(7)) == 7


def test_files_are_found_by_patterns_and_named_in_errors(tmp_path):
    for name in ("b1", "a1", "a[1]"):
        (tmp_path / name).write_text(name)
    found = checks.expand_pattern(tmp_path / "?1")
    assert [path.name for path in found] == ["a1", "b1"]
    (path,) = checks.expand_pattern(tmp_path / "a[1]")
    assert path.name == "a[1]"
    with pytest.raises(FileNotFoundError, match=r"matches the pattern '.*c\*' here"):
        checks.expand_pattern(tmp_path / "c*", " here")
    with pytest.raises(FileNotFoundError, match=r"^mask: '.*none' is no file"):
        checks.read_file(tmp_path / "none", "mask", str, "image")
    with pytest.raises(ValueError, match=r"a1' is no number: .*literal"):
        checks.read_file(tmp_path / "a1", "n", lambda path: int("a"), "number")
    table = pd.DataFrame()
    table.attrs["file"] = "c.tsv"
    assert checks.name_items("imgs", ["a.nii", 3, table]) == [
        "a.nii",
        "imgs[1]",
        "c.tsv",
    ]
    assert checks.name_items("imgs", [3]) == ["imgs"]


# ---------------------------------------------------------------------- arrays, labels


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.array([[1, np.nan], [1, 2], [np.inf, np.nan]]), "3 NaN .* 2 of 3 .*: 0"),
        (np.array([[1, np.inf], [1, 2]], dtype=np.float32), "1 NaN .* 1 of 2 trials"),
        ([[1, 2], [3]], "differ in length"),
        (np.zeros((2, 2), "M8[s]"), "must be numeric"),
        (np.ma.masked_equal([[1, 2], [3, 4]], 3), "masked"),
        (["a.npy"], "must be an array of numbers; got list of 1 str"),
    ],
)
def test_data_that_cannot_be_decoded_are_refused(X, message):
    with pytest.raises((TypeError, ValueError), match=message):
        checks.check_array(X)


def test_data_are_not_copied_unless_they_must_be():
    X = np.ones((3, 2))
    assert checks.check_array(X) is X
    assert checks.check_real(X.astype(np.int16)).dtype == np.int16
    assert checks.check_real(X.astype(np.longdouble)).dtype == np.float64
    assert_array_equal(checks.check_array([["1", "2"]]), [[1.0, 2.0]])
    with pytest.raises(ValueError, match=r"must be square, .*; got \(3, 2\)"):
        checks.check_gram(X)
    with pytest.raises(ValueError, match=r"symmetric kernel .* largest .* is 1\."):
        checks.check_gram(np.array([[1.0, 2.0], [1.0, 1.0]]))


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (["a", None, "b", np.nan], r"missing \(None or NaN\) for 2 of 4"),
        (["a", pd.NA, "b", "b"], "for 1 of 4"),
        ([b"a", b"\xff", b"a", b"b"], "no UTF-8"),
        ([0.5, 1, 1, 2], "looks continuous .3 distinct"),
        (["a"] * 4, "one class only .'a'"),
        ([1, 2, 3, 4], "a different label for each of the 4"),
    ],
)
def test_labels_that_are_none_are_refused(y, message):
    with pytest.raises(ValueError, match=message):
        checks.check_labels(y, 4)


@pytest.mark.parametrize(
    "y",
    [
        ["b ", "a", " b", "a"],
        np.array([b"b", b"a", b"b", b"a"]),
        np.array([2.0, 1.0, 2.0, 1.0]),
        np.array([2, 1, 2, 1], ">i4"),
        [True, False, True, False],
        pd.Series(["b", "a", "b", "a"], dtype="string"),
    ],
)
def test_labels_become_codes_of_sorted_classes(y):
    classes, codes = checks.check_labels(y, 4)
    assert codes.tolist() == [1, 0, 1, 0]
    assert classes.dtype.isnative
    assert classes.tolist() in (["a", "b"], [1, 2], [False, True])


ANGLES = np.linspace(0, 1, 101)[:-1]


@pytest.mark.parametrize(
    ("values", "name", "unit"),
    [
        (2 * np.pi * ANGLES, "", "radians"),
        (2 * np.pi * (ANGLES - 0.5), "", "radians"),
        (360 * ANGLES, "", None),
        (360 * ANGLES, "phase_deg", "degrees"),
        (180 * ANGLES, "orientation", "degrees"),
        (2 * np.pi * ANGLES[:30], "", None),
        (2 * np.pi * ANGLES[:30] / 0.3, "angle", "radians"),
        (4 * ANGLES, "", None),
        (7 * ANGLES, "", None),
        (np.pi * (1 + (2 * ANGLES - 1) ** 3), "", None),  # rare at both ends
        (np.append(2 * np.pi * ANGLES, np.nan), "angle", None),
    ],
)
def test_angles_are_known_by_their_range_and_name(values, name, unit):
    assert checks.angle_unit(values, name) == unit


# ---------------------------------------------------------------------------- warnings


def given_by(function, *args, **options):
    """Return the result of a call and the texts of what it warned of."""
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        result = function(*args, **options)
    return result, [str(each.message) for each in given]


#: One entry of each function.
OF_FUNCTIONS = {entry.function.__name__: entry for entry in ENTRIES.values()}


@pytest.mark.parametrize("entry", OF_FUNCTIONS.values(), ids=OF_FUNCTIONS)
def test_results_keep_what_was_warned_of(entry):
    result, given = given_by(entry, n_permutations=9, random_state=0)
    assert list(result.warnings) == list(dict.fromkeys(given))


def test_warnings_survive_a_file_and_are_those_of_the_call_alone(tmp_path):
    with pytest.raises(ValueError, match="one class only"):
        cross_validate(np.zeros((4, 2)), ["a"] * 4)
    X, codes = build.features((12, 12), seed=0)
    order = np.argsort(codes)  # one class came first, which is worth a warning
    options = {"groups": np.tile([0, 1], 12), "n_permutations": 5, "random_state": 0}
    result, given = given_by(
        cross_validate, X[order], build.NAMES[codes[order]], **options
    )
    assert given
    assert list(result.warnings) == given
    result.save(tmp_path / "result.h5")
    assert load_result(tmp_path / "result.h5").warnings == result.warnings
    subjects, of_subjects = given_by(build.subjects, n=4)
    group, given = given_by(group_inference, subjects, "sign-flip", random_state=0)
    assert given
    assert list(group.warnings) == given
    assert set(group.warnings).isdisjoint(of_subjects)
    result = build.result("GeneralizationResult", n_permutations=3)
    object.__setattr__(result, "warnings", ("Mind the gap.",))
    assert result.diagonal().warnings == ("Mind the gap.",)


def nested():
    """Warn inside and outside of a call within a call; return what each collected."""
    with collected_warnings() as outer:
        warn("before")
        with collected_warnings() as inner:
            warn("inside")
            warn("of the machine", of_result=False)
        warn("after")
    return inner, outer


def test_calls_within_calls_hand_theirs_on():
    (inner, outer), given = given_by(nested)
    assert given == ["before", "inside", "of the machine", "after"]
    assert inner == ["inside"]
    assert outer == ["before", "inside", "after"]


def test_all_functions_that_make_a_result_keep_warnings():
    made = {entry.function for entry in ENTRIES.values()}
    for name in mvpa_kfda.__all__:
        public = getattr(mvpa_kfda, name)
        if inspect.isfunction(public):
            returned = str(inspect.signature(public).return_annotation)
            if set(re.findall(r"\w+", returned)) & set(RESULTS):
                made.add(public)
    assert len(made) >= 11
    assert [each for each in made if not hasattr(each, "__wrapped__")] == []
