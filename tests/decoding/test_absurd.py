"""Calls that nobody means: each argument in turn gets what it cannot take.

Such a call works, or is refused by this package in words: no error of another package
or of Python itself comes through, and it ends soon.
"""

import inspect
import itertools
import re
import traceback
import warnings
from functools import partial
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.model_selection import ShuffleSplit

import mvpa_kfda
from mvpa_kfda import (
    KernelFDA,
    bootstrap_latency,
    check_design,
    compare,
    cross_validate,
    decode_regions,
    group_inference,
    load_result,
    methods_text,
    regress,
    searchlight,
    simulate_epochs,
    single_trial_betas,
)
from mvpa_kfda.inference.clusters import find_clusters, tfce
from mvpa_kfda.inference.corrections import (
    corrected_p_values,
    p_values,
    smallest_p_value,
)
from mvpa_kfda.inference.null import summarize_null
from mvpa_kfda.kfda import folds
from tests import build, entries

PACKAGE = str(Path(mvpa_kfda.__file__).parent)
X, Y = entries.DATA[:, :, 0], entries.NAMES
N = len(Y)
#: Strings of any length came with NumPy 2. Before it, arrays of objects hold them.
STRINGS = STRINGS_NA = np.dtype(object)
if hasattr(np.dtypes, "StringDType"):
    STRINGS = np.dtypes.StringDType()
    STRINGS_NA = np.dtypes.StringDType(na_object=np.nan)


# ------------------------------------------------------------------- absurd values


class GivesNone:
    def split(self, *data):
        return None


class Fails:
    def split(self, *data):
        raise KeyError("boom")


class FailsLater:
    def split(self, X, *data):
        yield np.arange(4, len(X)), np.arange(4)
        raise IndexError("late")


class Endless:
    def split(self, X, *data):
        while True:
            yield np.arange(4, len(X)), np.arange(4)


class TakesNothing:
    def split(self):
        return []


#: Made anew for every call: generators are spent by one.
ABSURD = {
    "None": lambda: None,
    "True": lambda: True,
    "0": lambda: 0,
    "-1": lambda: -1,
    "2.5": lambda: 2.5,
    "nan": lambda: np.nan,
    "inf": lambda: np.inf,
    "1e-20": lambda: 1e-20,
    "5e-324": lambda: 5e-324,
    "nearly 1": lambda: np.nextafter(1, 0),
    "small type": lambda: np.int8(3),
    "unsigned": lambda: np.uint8(200),
    "10**12": lambda: 10**12,
    "10**30": lambda: 10**30,
    "empty text": lambda: "",
    "text": lambda: "nonsense",
    "long text": lambda: "x" * 10_000,
    "half a character": lambda: "\ud800",
    "NUL": lambda: "a\0b",
    "bytes": lambda: b"bytes",
    "list": lambda: [],
    "dict": lambda: {"a": 1},
    "set": lambda: {1, 2},
    "names": lambda: ["none", "max"],
    "object": object,
    "class": lambda: Endless,
    "slice": lambda: slice(None),
    "function": lambda: lambda: 3,
    "function of two": lambda: lambda x, y: "no",
    "generator": lambda: (i for i in range(3)),
    "ragged": lambda: [[1, 2], [3]],
    "records": lambda: np.zeros(3, dtype=[("a", float)]),
    "sparse": lambda: sparse.eye_array(4, format="csr"),
    "diagonal": lambda: sparse.eye_array(4, format="dia"),
    "objects": lambda: np.array([None, 1, "a"], dtype=object),
    "no dimension": lambda: np.array(3.0),
    "no rows": lambda: np.empty(0),
    "five dimensions": lambda: np.zeros((2, 2, 2, 2, 2)),
    "NaN": lambda: np.full(N, np.nan),
    "complex": lambda: np.ones(N) * 1j,
    "dates": lambda: np.array(["2020-01-01"] * N, dtype="M8[D]"),
    "masked": lambda: np.ma.masked_array(np.ones(N), mask=np.arange(N) == 0),
    "new strings": lambda: np.array(["a", "b", "c"] * (N // 3), dtype=STRINGS),
    "missing strings": lambda: np.array(["a", "b", np.nan] * (N // 3), STRINGS_NA),
    "missing numbers": lambda: pd.array([1, 2, None] * (N // 3), dtype="Int64"),
    "missing in series": lambda: pd.Series(["a", "b", None] * 12, dtype="string"),
    "frame": lambda: pd.DataFrame({"a": [1, 2]}),
    "gives None": GivesNone,
    "fails": Fails,
    "fails later": FailsLater,
    "endless": Endless,
    "takes nothing": TakesNothing,
}


# ------------------------------------------------------------------- what is called

RNG = np.random.default_rng(0)
OBSERVED, NULL = RNG.normal(size=6), RNG.normal(size=(19, 6))


def of_entry(entry):
    """Return a function and valid arguments of it."""
    data, y = list(inspect.signature(entry.function).parameters)[:2]
    options = {} if entry.tests_others else {"cv": entry.cv}
    options |= {
        "n_permutations": 3,
        "random_state": 0,
        data: entry.convert(entries.DATA),
    }
    return entry.function, options | {y: entry.y} | entry.options


def of_inference():
    data = {"observed": OBSERVED, "null": NULL}
    cluster = {"correction": "cluster"}
    summary = {"observed": OBSERVED, "summary": summarize_null(OBSERVED, NULL)}
    return {
        "p_values": (p_values, data),
        "corrected": (corrected_p_values, data | cluster),
        "summarize": (summarize_null, data | {"with_clusters": True}),
        "from summary": (corrected_p_values, summary),
        "smallest": (smallest_p_value, {"n_permutations": 9, "n_positions": 2}),
        "find_clusters": (find_clusters, {"maps": NULL, "threshold": 1.0}),
        "tfce": (tfce, {"maps": NULL}),
        "load_result": (load_result, {}),
        "simulate": (simulate_epochs, {"n_trials": 6, "n_channels": 16}),
    }


def of_subjects():
    """Return what takes results, and what is asked before anything is decoded."""
    several, others = build.subjects(n=5), [build.result(seed=s) for s in range(9, 14)]
    pair = {"result_a": several[0], "result_b": build.result(reg=30.0)}
    short = {"results": several, "n_bootstraps": 100, "min_duration": 0.01}
    drawn = {"results": several, "n_permutations": 19}
    onsets = {"onset": 9.0 * np.arange(8), "duration": 1.0, "trial_type": [*"abcaabcb"]}
    bold = {
        "imgs": build.volume(500 + RNG.normal(size=(60, 3, 2, 2))),
        "events": pd.DataFrame(onsets),
        "mask_img": build.mask(np.ones((3, 2, 2))),
        "t_r": 2.0,
    }
    return {
        "compare": (compare, pair),
        "latency": (bootstrap_latency, short),
        "latency of two": (bootstrap_latency, short | {"other": others}),
        "prevalence": (group_inference, drawn),
        "flips": (group_inference, drawn | {"method": "sign-flip", "other": others}),
        "design": (check_design, {"y": Y, "groups": np.arange(N) % 4}),
        "betas": (single_trial_betas, bold),
        "words": (methods_text, {"result": several[0]}),
    }


def of_results():
    made = {kind: build.result(kind) for kind in ("TimeResult", "VolumeResult")}
    made |= {"group": build.group(n=5), "comparison": build.comparison()}
    names = "save", "pvalues", "to_dataframe", "clusters", "plot", "plot_confusion"
    names += "along", "true_discoveries", "plot_null", "peaks"
    return {
        f"{kind}.{name}": (getattr(result, name), {})
        for kind, result in made.items()
        for name in names
        if hasattr(result, name)
    }


def complaint(function, arguments):
    """Return how an error is not one of this package's own in words, "" if it is."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function(**arguments)
    except (TypeError, ValueError, OSError, ImportError) as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        # The last line of the package must be one that raises, and not one that fails.
        ours = last.filename.startswith(PACKAGE) and "raise" in (last.line or "")
        missing = re.search("missing .* required|unexpected keyword", str(error))
        return "" if ours or missing else f"{type(error).__name__}: {error}"[:200]
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:200]
    finally:
        plt.close("all")
    return ""


#: Handed on to nilearn, whose own words name them.
NILEARNS = ("bg_img", "cut_coords", "views")


def complaints(function, valid, share=1.0, seed=0):
    """Return the complaints about a share of all absurd calls, by what was given."""
    rng, found = np.random.default_rng(seed), {}
    for argument in inspect.signature(function).parameters.values():
        variable = argument.kind in (argument.VAR_KEYWORD, argument.VAR_POSITIONAL)
        if variable or argument.name in NILEARNS:
            continue
        for name, make in ABSURD.items():
            workers = argument.name == "n_jobs" and name in ("-1", "10**12", "10**30")
            if rng.random() > share or workers:
                continue
            text = complaint(function, valid | {argument.name: make()})
            if text:
                found[f"{argument.name}={name}"] = text
    return found


@pytest.mark.parametrize("name", of_inference())
def test_functions_of_inference_refuse_in_words(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert complaints(*of_inference()[name], share=0.3) == {}


@pytest.mark.slow
@entries.everywhere
def test_entries_refuse_in_words(entry, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a text is the name of a checkpoint
    assert complaints(*of_entry(entry), share=0.2) == {}


@pytest.mark.slow
def test_functions_of_results_refuse_in_words(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = {name: complaints(*call, 0.3, 2) for name, call in of_subjects().items()}
    assert {name: texts for name, texts in found.items() if texts} == {}


@pytest.mark.slow
def test_methods_of_results_refuse_in_words(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = {
        name: complaints(*call, share=0.3, seed=1)
        for name, call in of_results().items()
    }
    assert {name: texts for name, texts in found.items() if texts} == {}


# ----------------------------------------------------------- what the messages say


@pytest.mark.parametrize("path", [b"a.h5", 3, ["a.h5"], "", "a\0.h5", None])
def test_paths_are_names_of_files(path):
    result = build.result("DecodingResult")
    for call in (result.save, load_result):
        with pytest.raises((TypeError, ValueError), match=r"'path'.*Allowed: .* name"):
            call(path)


def test_names_may_be_as_long_as_files_allow(tmp_path):
    result = build.result("DecodingResult")
    for name in ("x" * 10_000, tmp_path / "d" / ("x" * 10_000)):
        for call in (result.save, load_result):
            with pytest.raises(ValueError, match=r"a name of [\d,]+ characters"):
                call(name)
    path = tmp_path / ("x" * 252 + ".h5")  # that of its draft is no longer
    result.save(path.with_name(path.name[-255:]))


#: Arguments of the smallest and largest levels, of whole numbers that NumPy has, and of
#: what says that it is a list but is none.
SEEN = {
    "regression": (lambda n: regress(X, X[:, 0], n_permutations=n), np.int8(3)),
    "trials": (lambda n: simulate_epochs(n, n_channels=16, sfreq=20), np.int8(100)),
    "flips": (
        lambda n: group_inference(build.subjects(n=6), "sign-flip", n_permutations=n),
        np.int8(127),
    ),
    "all significant": (
        lambda a: build.result("TimeResult").true_discoveries(alpha=a),
        np.nextafter(1, 0),
    ),
    "all of a group": (
        lambda a: group_inference(build.subjects(n=5), alpha=a, n_permutations=19),
        np.nextafter(1, 0),
    ),
    "none of a group": (
        lambda a: group_inference(build.subjects(n=5), alpha=a, n_permutations=19),
        5e-324,
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SEEN)
def test_numbers_at_the_ends_are_taken(name):
    call, value = SEEN[name]
    assert call(value) is not None


def test_axes_and_folds_that_are_none_are_named():
    with pytest.raises(ValueError, match=r"'axis': 'a'\. Allowed: 'times'"):
        build.result("TimeResult").along("a")
    with pytest.raises(ValueError, match="none, as there is a single position"):
        build.result("DecodingResult").along("a")
    with pytest.raises(TypeError, match="Invalid value for 'cv'"):
        cross_validate(X, Y, cv=sparse.eye_array(4, format="dia"))


def test_corrections_are_one_or_a_list():
    result = build.result("TimeResult")
    for corrections in (None, 3, {"max": 1}):
        with pytest.raises(TypeError, match=r"'corrections'.*the name of a correction"):
            result.to_dataframe(corrections)
    assert {"p", "p_max"} <= {*result.to_dataframe(("none", "max"))}
    for correction in (["max"], np.array("max"), {"max"}):
        with pytest.raises(ValueError, match=r"'correction'.*Allowed: 'none'"):
            result.pvalues(correction)


@pytest.mark.parametrize(
    ("cv", "words"),
    [
        (GivesNone(), "NoneType"),
        (Fails(), "KeyError: 'boom'"),
        (FailsLater(), "IndexError: late"),
        (TakesNothing(), "positional argument"),
        (Endless(), "may never end"),
    ],
)
def test_splitters_that_fail_are_named(cv, words):
    with pytest.raises(ValueError, match=rf"cv=.*{type(cv).__name__}.*{words}"):
        cross_validate(X, Y, cv=cv)


def test_a_long_list_of_folds_is_no_endless_splitter():
    test = np.arange(4)
    folds = [(np.arange(4, N), test)] * 10_100
    assert len(cross_validate(X, Y, cv=folds).tests) == len(folds)


def test_kernels_that_fail_are_named():
    for kernel in (lambda x: x @ x.T, lambda x, y: 1 / 0):
        with pytest.raises(ValueError, match=r"kernel .* failed when called"):
            cross_validate(X, Y, cv=3, kernel=kernel)


def test_strings_of_any_length_are_labels():
    plain = cross_validate(X, Y, cv=3)
    found = cross_validate(X, Y.astype(STRINGS), cv=3, groups=None)
    np.testing.assert_array_equal(found.predicted, plain.predicted)
    assert found.classes.tolist() == plain.classes.tolist()
    labels = KernelFDA().fit(X, Y.astype(STRINGS)).predict(X)
    np.testing.assert_array_equal(labels, KernelFDA().fit(X, Y).predict(X))


@pytest.mark.parametrize("name", ["missing strings", "missing in series"])
def test_missing_labels_are_refused_everywhere(name):
    for call in (KernelFDA().fit, cross_validate):
        with pytest.raises(ValueError, match=r"y is missing .* for 12 of 36 trials"):
            call(X, ABSURD[name]())


def test_counts_that_take_long_are_told_before():
    many = {"n_permutations": 10**12, "random_state": 0}
    with pytest.raises(ValueError, match=r"permutations .* needs .*TB"):
        cross_validate(X, Y, cv=3, **many)
    with pytest.raises(ValueError, match=r"n_repeats=1,0{3},0{3},0{3},0{3} .* TB"):
        cross_validate(X, Y, cv=3, n_repeats=10**12)
    design = check_design(Y, n_permutations=10**12)
    assert [problem.severity for problem in design.problems] == ["error"]
    with pytest.warns(RuntimeWarning, match="To draw 1,000,001 perm.* MB, and takes"):
        design = check_design(Y, n_permutations=1_000_001)
    assert "takes long" in design.problems[0].text


@pytest.mark.parametrize("call", [partial(cross_validate, X), check_design])
def test_folds_that_take_long_are_told_before(call, monkeypatch):
    monkeypatch.setattr(folds, "_USUAL", 1)
    message = r"^To draw 101 folds of 36 trials by cv=ShuffleSplit.* takes long .* 101 "
    with pytest.warns(RuntimeWarning, match=message):
        call(Y, cv=ShuffleSplit(101, test_size=6, random_state=0))
    call(Y, cv=ShuffleSplit(100, test_size=6, random_state=0))
    with pytest.warns(RuntimeWarning, match=message):
        problems = check_design(Y, cv=ShuffleSplit(101, random_state=0)).problems
    assert [problem.name for problem in problems] == ["folds"]


@pytest.mark.parametrize("n_splits", [3, 10**30])
def test_splitters_that_say_something_else_than_they_do(n_splits):
    class Liar(Endless):
        def get_n_splits(self, *data):
            return n_splits

    words = "said that there would be 3; it may never end"
    if n_splits > 3:
        words = "which test more than 2,000,036 trials"
    with pytest.raises(ValueError, match=rf"cv=.*Liar.* folds .*{words}"):
        cross_validate(X, Y, cv=Liar())
    problems = check_design(Y, cv=Liar()).problems
    assert re.search(words, problems[0].text)


def test_lists_without_an_end():
    for cv in (itertools.repeat(([0], [1])), itertools.count()):
        problems = check_design(Y, cv=cv).problems
        assert [problem.severity for problem in problems] == ["error"]
    one = build.result()
    endless = itertools.repeat(one)
    for call in (group_inference, bootstrap_latency):
        with pytest.raises(ValueError, match=r"results is of type repeat.* never end"):
            call(endless)
    with pytest.raises(ValueError, match=r"subjects is of type count .* never end"):
        group_inference([one, one], subjects=itertools.count())
    images = itertools.repeat(entries.on_a_grid(entries.DATA))
    with pytest.raises(ValueError, match=r"imgs is of type repeat .* never end"):
        searchlight(images, Y, radius=3.0)


def test_features_that_are_no_numbers_are_named():
    model = KernelFDA().fit(X, Y)
    for given in ({"a": 1}, [["a"] * 5] * 36, [[1, 2], [3]], object()):
        for call in (model.predict, model.transform, lambda X: KernelFDA().fit(X, Y)):
            with pytest.raises((TypeError, ValueError), match=r"^X must be an array"):
                call(given)
    masked = np.ma.masked_array(X, mask=X > 1)
    with pytest.raises(ValueError, match="X is a masked array"):
        model.predict(masked)


def test_regions_and_maps_of_other_kinds_are_named():
    with pytest.raises(TypeError, match=r"labels_img is a list .* a 1-D array"):
        decode_regions(X, Y, labels_img=[[1, 2], [3]])
    volumes = build.result("VolumeResult")
    for name in (ABSURD["sparse"](), np.array(["a", "b"])):
        with pytest.raises(ValueError, match=r"(?s)'name': .*Allowed: 'accuracy'"):
            volumes.to_img(name)


def test_scores_of_labels_of_any_kind():
    model = KernelFDA().fit(X, Y)
    accuracy = np.mean(model.predict(X) == Y)
    assert 0.4 < accuracy < 1
    for labels in (Y, list(Y), Y.astype(STRINGS), pd.Series(Y, dtype="string")):
        assert model.score(X, labels) == accuracy
    weights = np.arange(36.0)
    weighted = weights[model.predict(X) == Y].sum() / weights.sum()
    assert model.score(X, Y, weights) == pytest.approx(weighted, rel=1e-12)
    with pytest.raises(ValueError, match=r"y is missing .* for 1 of 36 trials"):
        model.score(X, [None, *Y[1:]])


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ([np.nan, *Y[1:]], "y is missing .* for 1 of 36"),
        ([1, *Y[1:]], "y holds values of type int, str_"),
        ([[1, 2], [3]] * 18, "y holds values of type list"),
        (
            np.ma.masked_array(entries.CODES, np.arange(36) < 2),
            "y is masked for 2 of 36",
        ),
    ],
)
def test_labels_that_are_none_are_named(labels, words):
    for call in (KernelFDA().fit, KernelFDA().fit(X, Y).score, cross_validate):
        with pytest.raises(ValueError, match=words):
            call(X, labels)
