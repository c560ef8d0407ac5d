"""The options of an analysis: completed, passed on, and refused in words.

A call that nobody means works, or is refused by this package in words: no error of
another package or of Python itself comes through, and it ends soon.
"""

import copy
import inspect
import itertools
import pickle
import re
import traceback
import typing
import warnings
from functools import partial
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.model_selection import KFold, LeaveOneGroupOut, ShuffleSplit

import mvpa_kfda
from mvpa_kfda import (
    GraphSmooth,
    KernelFDA,
    Linear,
    Nystrom,
    Ridge,
    bootstrap_latency,
    check_design,
    compare,
    cross_validate,
    decode_arrays,
    decode_epochs,
    decode_regions,
    generalize_arrays,
    group_inference,
    load_result,
    methods_text,
    regress,
    searchlight,
    simulate_epochs,
    single_trial_betas,
)
from mvpa_kfda.decoding import procedure
from mvpa_kfda.inference.clusters import find_clusters, tfce
from mvpa_kfda.inference.corrections import (
    corrected_p_values,
    p_values,
    smallest_p_value,
)
from mvpa_kfda.inference.null import summarize_null
from mvpa_kfda.kfda import folds
from mvpa_kfda.results.procedure import OF_THE_RUN
from tests import build, entries
from tests.entries import CODES, DATA, NAMES, N, everywhere

DECODING = [
    name
    for name in dir(mvpa_kfda)
    if getattr(getattr(mvpa_kfda, name), "__module__", "").startswith(
        "mvpa_kfda.decoding"
    )
    and "random_state" in inspect.signature(getattr(mvpa_kfda, name)).parameters
]
#: What the data of an entry are, beside the first two arguments.
OF_DATA = ("X_test", "y_test", "test_epochs", "same_trials", "mask_img", "mesh", "src")
X = DATA[:, :, 0]
RUNS = np.tile(np.arange(4), N // 4)


def saved(result, folder):
    """Return a result as its file gives it back."""
    result.save(folder / "result.h5", overwrite=True)
    return load_result(folder / "result.h5")


# ------------------------------------------------------------------ passed on to others


@pytest.mark.some(7)
@everywhere
def test_the_procedure_of_a_result_is_the_same_analysis(entry, tmp_path):
    given = {"n_permutations": 7, "reg": Ridge(2.0), "preprocess": "zscore"}
    given |= entry.options
    if not entry.tests_others:
        given["cv"] = KFold(3, shuffle=True, random_state=1)
    if entry.has("null"):
        given["null"] = "max"
    data = {name: given[name] for name in OF_DATA if name in given}
    decode = partial(entry.function, entry.convert(DATA), entry.y)
    result = decode(**given)
    again = decode(**data, **result.procedure)
    assert again == result
    assert again.procedure.keys() == result.procedure.keys()
    loaded = saved(result, tmp_path)
    assert loaded == result
    matrices = {"sensors", "adjacency", "labels_img"} & given.keys()
    if matrices:
        with pytest.raises(ValueError, match=rf"file: {min(matrices)} \("):
            _ = loaded.procedure
        return
    assert decode(**data, **loaded.procedure) == result


@everywhere
def test_every_option_is_in_the_procedure_or_data_or_of_the_run(entry):
    result = entry()
    named = inspect.signature(entry.function).parameters
    keywords = {k for k, p in named.items() if p.kind is p.KEYWORD_ONLY}
    left = keywords - result.procedure.keys()
    data = {"groups", "confounds", "train_on", "process_mask_img", "tmin_test"}
    assert left <= {*data, *OF_DATA, *OF_THE_RUN}
    assert result.procedure.keys() <= keywords


def test_what_was_drawn_is_passed_on_and_data_are_not():
    result = cross_validate(X, NAMES, n_permutations=9, approx=Nystrom(8))
    seed = result.procedure["random_state"]
    assert seed == result.parameters["random_state"]
    landmarks = result.parameters["kernel"]["approx"]["random_state"]
    assert result.procedure["approx"] == Nystrom(8, random_state=landmarks)
    assert cross_validate(X, NAMES, **result.procedure) == result
    result = cross_validate(X, NAMES, groups=RUNS)
    assert isinstance(result.procedure["cv"], LeaveOneGroupOut)
    assert cross_validate(X, NAMES, groups=RUNS, **result.procedure) == result
    with pytest.raises(ValueError, match="groups"):
        cross_validate(X, NAMES, **result.procedure)
    # Texts are categories of the trials, which have no name.
    data = {"groups": [f"run {run}" for run in RUNS], "confounds": [*"lrl"] * 12}
    result = cross_validate(X, NAMES, **data)
    assert not result.procedure.keys() & data.keys()
    assert cross_validate(X, NAMES, **data, **result.procedure) == result
    one = cross_validate(X, NAMES, kernel="linear", random_state=0)
    assert one == cross_validate(X, NAMES, kernel=Linear(), random_state=0)
    assert copy.copy(one) == one


def test_names_of_columns_are_passed_on(tmp_path):
    epochs = build.epochs(DATA, units={})
    columns = {"run": RUNS, "age": np.arange(N) % 7.0, "side": np.arange(N) // 4 % 2}
    epochs.metadata = pd.DataFrame(columns)
    named = {"groups": "run", "confounds": ["age"], "train_on": "side == 0"}
    result = decode_epochs(epochs, NAMES, **named)
    for each in (result, saved(result, tmp_path)):
        assert {name: each.procedure[name] for name in named} == named
        assert each.procedure["cv"] is None
        assert decode_epochs(epochs, NAMES, **each.procedure) == result
    # Not those of a file of their own.
    path = tmp_path / "labels.tsv"
    pd.DataFrame({"label": NAMES, **columns}).to_csv(path, sep="\t", index=False)
    given = {"adjacency": np.eye(5), "confounds": ["age"], "standardize": False}
    result = searchlight(X, (path, "label"), groups=(str(path), "run"), **given)
    assert result.procedure["confounds"] == ["age"]
    assert "groups" not in result.procedure


def a_metric(true, predicted, scores):
    return np.mean(true == predicted)


class Halves:
    def split(self, X, y, groups=None):
        return KFold(2).split(X)


def test_what_cannot_be_passed_on_is_named(tmp_path):
    given = {"kernel": GraphSmooth(build.chain(5)), "cv": Halves()}
    lost = saved(cross_validate(X, NAMES, **given), tmp_path)
    own = cross_validate(X, NAMES, scoring=a_metric)
    assert own.procedure["scoring"] is a_metric
    for result, match in (
        (lost, r"they do not .*kernel \(Graph.*cv \(Halves"),
        (cross_validate(X, NAMES, cv=KFold(3).split(X)), r"an iterator, which is use"),
        (pickle.loads(pickle.dumps(own)), r"scoring \(the function a_metric\)"),
    ):
        with pytest.raises(ValueError, match=match):
            _ = result.procedure


def test_a_class_may_have_any_name(tmp_path):
    classes = {"name": "face", "function": "house"}
    names = np.where(CODES == 0, "face", "house")
    given = {"adjacency": np.eye(5), "classes": classes, "standardize": False}
    result = searchlight(X, names, **given)
    assert saved(result, tmp_path).options["classes"] == classes
    regions = decode_regions(X, names, classes=classes, standardize=False)
    assert saved(regions, tmp_path).procedure["classes"] == classes


# --------------------------------------------------------------- names, texts, defaults


def test_every_argument_is_described_in_the_order_of_the_signature():
    assert {*procedure.FUNCTIONS} == {*DECODING}
    assert len(DECODING) == 9
    for name in DECODING:
        function = getattr(mvpa_kfda, name)
        described = procedure.entries(function.__doc__)
        assert [*described] == [*inspect.signature(function).parameters]
        for text in described.values():
            assert not text.partition("\n")[2].strip().startswith("...")
        assert pickle.loads(pickle.dumps(function)) is function
    assert typing.get_type_hints(decode_arrays)["n_permutations"] is int


def test_unknown_and_missing_arguments_are_refused_with_the_nearest():
    start = "^decode_arrays\\(\\) got an unexpected keyword argument"
    for name, match in {
        "n_permutation": r"\. Did you mean 'n_permutations'\?$",
        "radius": r", which decode_sources\(\) and searchlight\(\) have$",
        "rubbish": "$",
    }.items():
        with pytest.raises(TypeError, match=f"{start} '{name}'{match}"):
            decode_arrays(DATA, NAMES, **{name: 1})
    with pytest.raises(TypeError, match=r"^decode_arrays\(\) (missing|takes)"):
        decode_arrays(DATA)
    with pytest.raises(TypeError, match=r"^decode_arrays\(\) takes 2 positional"):
        decode_arrays(DATA, NAMES, None)
    options = {"same_trials": True, "random_state": 0}
    one = generalize_arrays(DATA, NAMES, DATA, **options)
    assert one == generalize_arrays(DATA, y=NAMES, X_test=DATA, **options)
    assert_array_equal(one.y, CODES)


# ------------------------------------------------------------------------ absurd values


PACKAGE = str(Path(mvpa_kfda.__file__).parent)
#: Strings of any length came with NumPy 2. Before it, arrays of objects hold them.
STRINGS = STRINGS_NA = np.dtype(object)
if hasattr(np.dtypes, "StringDType"):
    STRINGS = np.dtypes.StringDType()
    STRINGS_NA = np.dtypes.StringDType(na_object=np.nan)


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
    "5e-324": lambda: 5e-324,
    "1e-20": lambda: 1e-20,
    "nearly 1": lambda: np.nextafter(1, 0),
    "unsigned": lambda: np.uint8(200),
    "10**12": lambda: 10**12,
    "10**30": lambda: 10**30,
    "text": lambda: "nonsense",
    "long text": lambda: "x" * 10_000,
    "half a character": lambda: "\ud800",
    "NUL": lambda: "a\0b",
    "bytes": lambda: b"bytes",
    "list": lambda: [],
    "dict": lambda: {"a": 1},
    "names": lambda: ["none", "max"],
    "object": object,
    "class": lambda: Endless,
    "slice": lambda: slice(None),
    "function": lambda: lambda: 3,
    "generator": lambda: (i for i in range(3)),
    "ragged": lambda: [[1, 2], [3]],
    "records": lambda: np.zeros(3, dtype=[("a", float)]),
    "sparse": lambda: sparse.eye_array(4, format="csr"),
    "objects": lambda: np.array([None, 1, "a"], dtype=object),
    "no rows": lambda: np.empty(0),
    "five dimensions": lambda: np.zeros((2, 2, 2, 2, 2)),
    "NaN": lambda: np.full(N, np.nan),
    "complex": lambda: np.ones(N) * 1j,
    "masked": lambda: np.ma.masked_array(np.ones(N), mask=np.arange(N) == 0),
    "new strings": lambda: np.array(["a", "b", "c"] * (N // 3), dtype=STRINGS),
    "missing strings": lambda: np.array(["a", "b", np.nan] * (N // 3), STRINGS_NA),
    "missing in series": lambda: pd.Series(["a", "b", None] * 12, dtype="string"),
    "frame": lambda: pd.DataFrame({"a": [1, 2]}),
    "gives None": GivesNone,
    "fails": Fails,
    "fails later": FailsLater,
    "endless": Endless,
    "takes nothing": TakesNothing,
}


RNG = np.random.default_rng(0)
OBSERVED, NULL = RNG.normal(size=6), RNG.normal(size=(19, 6))


def of_entry(entry):
    """Return a function and valid arguments of it."""
    data, y = list(inspect.signature(entry.function).parameters)[:2]
    options = {} if entry.tests_others else {"cv": entry.cv}
    options |= {
        "n_permutations": 3,
        "random_state": 0,
        data: entry.convert(DATA),
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
        "design": (check_design, {"y": NAMES, "groups": np.arange(N) % 4}),
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


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """Work in a folder of its own: a text is the name of a file."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", of_inference())
def test_functions_of_inference_refuse_in_words(name, elsewhere):
    assert complaints(*of_inference()[name], share=0.3) == {}


@pytest.mark.slow
@everywhere
def test_entries_refuse_in_words(entry, elsewhere):
    assert complaints(*of_entry(entry), share=0.2) == {}


@pytest.mark.slow
@pytest.mark.parametrize(("calls", "seed"), [(of_subjects, 2), (of_results, 1)])
def test_functions_and_methods_of_results_refuse_in_words(calls, seed, elsewhere):
    found = {name: complaints(*call, 0.3, seed) for name, call in calls().items()}
    assert {name: texts for name, texts in found.items() if texts} == {}


# ------------------------------------------------------------- what the messages say


def test_names_may_be_as_long_as_files_allow(tmp_path):
    result = build.result("DecodingResult")
    for call in (result.save, load_result):
        for name in ("x" * 10_000, tmp_path / "d" / ("x" * 10_000)):
            with pytest.raises(ValueError, match=r"a name of [\d,]+ characters"):
                call(name)
        for name in (b"a.h5", 3, ["a.h5"], "", "a\0.h5", None):
            with pytest.raises((TypeError, ValueError), match=r"'path'.*Allowed: .* n"):
                call(name)
    path = tmp_path / ("x" * 252 + ".h5")  # that of its draft is no longer
    result.save(path.with_name(path.name[-255:]))


@pytest.mark.filterwarnings("ignore")
def test_numbers_at_the_ends_are_taken():
    """Whole numbers that NumPy has, and the smallest and largest levels."""
    assert regress(X, X[:, 0], n_permutations=np.int8(3)).n_permutations == 3
    assert len(simulate_epochs(np.int8(100), n_channels=16, sfreq=20)) == 100
    subjects, most = build.subjects(n=5), np.nextafter(1, 0)
    group_inference(subjects, "sign-flip", n_permutations=np.int8(127))
    build.result("TimeResult").true_discoveries(alpha=most)
    for alpha in (most, 5e-324):
        group_inference(subjects, alpha=alpha, n_permutations=19)


class Liar(Endless):
    def __init__(self, n_splits):
        self.get_n_splits = lambda *data: n_splits


#: Splitters, and what is said of them.
BROKEN = [
    (GivesNone(), "NoneType"),
    (Fails(), "KeyError: 'boom'"),
    (FailsLater(), "IndexError: late"),
    (TakesNothing(), "positional argument"),
    (Endless(), "may never end"),
    (Liar(3), "said that there would be 3; it may never end"),
    (Liar(10**30), "which test more than 636 trials"),
]


@pytest.mark.parametrize(("cv", "words"), BROKEN)
def test_splitters_that_fail_are_named(cv, words, monkeypatch):
    monkeypatch.setattr(folds, "_MOST_TESTED", 600)
    monkeypatch.setattr(folds, "_MOST_UNKNOWN", 100)
    with pytest.raises(ValueError, match=rf"cv=.*{type(cv).__name__}.*{words}"):
        cross_validate(X, NAMES, cv=cv)
    assert re.search(words, check_design(NAMES, cv=cv).problems[0].text)


def test_what_takes_long_is_told_before(monkeypatch):
    with pytest.raises(ValueError, match=r"n_repeats=1,0{3},0{3},0{3},0{3} .* TB"):
        cross_validate(X, NAMES, cv=3, n_repeats=10**12)
    design = check_design(NAMES, n_permutations=10**12)
    assert [problem.severity for problem in design.problems] == ["error"]
    with pytest.warns(RuntimeWarning, match="To draw 1,000,001 perm.* MB, and takes"):
        design = check_design(NAMES, n_permutations=1_000_001)
    assert "takes long" in design.problems[0].text
    monkeypatch.setattr(folds, "_USUAL", 1)
    message = r"^To draw 101 folds of 36 trials by cv=ShuffleSplit.* takes long .* 101 "
    for call in (partial(cross_validate, X), check_design):
        with pytest.warns(RuntimeWarning, match=message):
            found = call(NAMES, cv=ShuffleSplit(101, test_size=6, random_state=0))
        call(NAMES, cv=ShuffleSplit(100, test_size=6, random_state=0))
    assert [problem.name for problem in found.problems] == ["folds"]


def test_lists_without_an_end():
    for cv in (itertools.repeat(([0], [1])), itertools.count()):
        problems = check_design(NAMES, cv=cv).problems
        assert [problem.severity for problem in problems] == ["error"]
    one = build.result()
    images = itertools.repeat(entries.on_a_grid(DATA))
    for call, match in (
        (lambda: group_inference(itertools.repeat(one)), "results is of type repeat"),
        (lambda: bootstrap_latency(itertools.repeat(one)), "results is of type repea"),
        (
            lambda: group_inference([one, one], subjects=itertools.count()),
            "subjects is of type count",
        ),
        (lambda: searchlight(images, NAMES, radius=3.0), "imgs is of type repeat"),
    ):
        with pytest.raises(ValueError, match=f"{match}.* never end"):
            call()


def test_data_and_labels_of_models_are_refused_in_words():
    model = KernelFDA().fit(X, NAMES)
    calls = (model.predict, model.transform, lambda X: KernelFDA().fit(X, NAMES))
    for given in ({"a": 1}, [["a"] * 5] * 36, [[1, 2], [3]], object()):
        for call in calls:
            with pytest.raises((TypeError, ValueError), match=r"^X must be an array"):
                call(given)
    with pytest.raises(ValueError, match="X is a masked array"):
        model.predict(np.ma.masked_array(X, mask=X > 1))
    labels = np.ma.masked_array(CODES, np.arange(36) < 2)
    for call in (KernelFDA().fit, model.score):
        with pytest.raises(ValueError, match="y is masked for 2 of 36"):
            call(X, labels)


def test_labels_of_any_kind_are_scored():
    strings = NAMES.astype(STRINGS)
    plain, found = (cross_validate(X, y, cv=3) for y in (NAMES, strings))
    assert_array_equal(found.predicted, plain.predicted)
    assert found.classes.tolist() == plain.classes.tolist()
    model = KernelFDA().fit(X, NAMES)
    predicted = model.predict(X)
    assert_array_equal(KernelFDA().fit(X, strings).predict(X), predicted)
    accuracy, weights = np.mean(predicted == NAMES), np.arange(36.0)
    assert 0.4 < accuracy < 1
    for labels in (NAMES, list(NAMES), strings, pd.Series(NAMES, dtype="string")):
        assert model.score(X, labels) == accuracy
    weighted = weights[predicted == NAMES].sum() / weights.sum()
    assert model.score(X, NAMES, weights) == pytest.approx(weighted, rel=1e-12)


def test_regions_axes_and_corrections_of_other_kinds_are_named():
    times, volumes = build.result("TimeResult"), build.result("VolumeResult")
    regions = {"labels_img": [[1, 2], [3]]}
    for call, error, match in (
        (lambda: decode_regions(X, NAMES, **regions), TypeError, "labels_img is a lis"),
        (lambda: volumes.to_img(ABSURD["sparse"]()), ValueError, r"'name': .*Allowed"),
        (lambda: volumes.to_img(np.array(["a"])), ValueError, r"'name': .*Allowed: '"),
        (lambda: times.along("a"), ValueError, r"'axis': 'a'\. Allowed: 'times'"),
        (lambda: times.to_dataframe(None), TypeError, "the name of a correction"),
        (lambda: times.to_dataframe({"max": 1}), TypeError, "the name of a correctio"),
        (lambda: times.pvalues(["max"]), ValueError, r"'correction'.*Allowed: 'none'"),
        (lambda: times.pvalues({"max"}), ValueError, r"'correction'.*Allowed: 'none'"),
    ):
        with pytest.raises(error, match=f"(?s){match}"):
            call()
    assert {"p", "p_max"} <= {*times.to_dataframe(("none", "max"))}
