"""The options of an analysis: shared ones are completed, and they can be passed on."""

import copy
import inspect
import pickle
import typing

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.model_selection import KFold, LeaveOneGroupOut, ShuffleSplit
from sklearn.preprocessing import StandardScaler

import mvpa_kfda
from mvpa_kfda import (
    RBF,
    EmpiricalMap,
    GraphSmooth,
    Linear,
    Nystrom,
    Ridge,
    Tuned,
    cross_validate,
    decode_arrays,
    decode_epochs,
    decode_regions,
    generalize_arrays,
    load_result,
    searchlight,
)
from mvpa_kfda.decoding import procedure
from mvpa_kfda.results.procedure import OF_THE_RUN
from tests import build
from tests.entries import CODES, DATA, ENTRIES, NAMES, N, everywhere

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
    result = entry.function(entry.convert(DATA), entry.y, **given)
    again = entry.function(entry.convert(DATA), entry.y, **data, **result.procedure)
    assert again == result
    assert again.procedure.keys() == result.procedure.keys()
    loaded = saved(result, tmp_path)
    assert loaded == result
    matrices = {"sensors", "adjacency", "labels_img"} & given.keys()
    if matrices:
        with pytest.raises(ValueError, match=rf"file: {min(matrices)} \("):
            _ = loaded.procedure
        return
    again = entry.function(entry.convert(DATA), entry.y, **data, **loaded.procedure)
    assert again == result


@everywhere
def test_every_option_is_in_the_procedure_or_data_or_of_the_run(entry):
    result = entry()
    named = inspect.signature(entry.function).parameters
    keywords = {k for k, p in named.items() if p.kind is p.KEYWORD_ONLY}
    left = keywords - result.procedure.keys()
    data = {"groups", "confounds", "train_on", "process_mask_img", "tmin_test"}
    assert left <= {*data, *OF_DATA, *OF_THE_RUN}
    assert result.procedure.keys() <= keywords


def test_a_seed_that_was_drawn_is_passed_on():
    result = cross_validate(X, NAMES, n_permutations=9, approx=Nystrom(8))
    seed = result.procedure["random_state"]
    assert seed == result.parameters["random_state"]
    assert result.procedure["approx"] == Nystrom(8, random_state=_seed_of(result))
    assert cross_validate(X, NAMES, **result.procedure) == result


def _seed_of(result):
    return result.parameters["kernel"]["approx"]["random_state"]


def test_groups_that_are_data_are_asked_for():
    result = cross_validate(X, NAMES, groups=RUNS)
    assert isinstance(result.procedure["cv"], LeaveOneGroupOut)
    assert cross_validate(X, NAMES, groups=RUNS, **result.procedure) == result
    with pytest.raises(ValueError, match="groups"):
        cross_validate(X, NAMES, **result.procedure)


def test_names_of_columns_are_passed_on(tmp_path):
    import pandas as pd

    epochs = build.epochs(DATA, units={})
    columns = {"run": RUNS, "age": np.arange(N) % 7.0, "side": np.arange(N) // 4 % 2}
    epochs.metadata = pd.DataFrame(columns)
    named = {"groups": "run", "confounds": ["age"], "train_on": "side == 0"}
    result = decode_epochs(epochs, NAMES, **named)
    for each in (result, saved(result, tmp_path)):
        assert {name: each.procedure[name] for name in named} == named
        assert each.procedure["cv"] is None
        assert decode_epochs(epochs, NAMES, **each.procedure) == result
    values = {
        "groups": RUNS,
        "confounds": columns["age"],
        "train_on": columns["side"] == 0,
    }
    assert not decode_epochs(epochs, NAMES, **values).procedure.keys() & values.keys()


def test_texts_of_trials_are_data():
    texts = [f"run {run}" for run in RUNS]
    sides = list(np.tile(["left", "right", "left"], N // 3))
    result = cross_validate(X, NAMES, groups=texts, confounds=sides)
    assert not result.procedure.keys() & {"groups", "confounds"}
    data = {"groups": texts, "confounds": sides}
    assert cross_validate(X, NAMES, **data, **result.procedure) == result


def test_columns_of_a_table_file_are_data(tmp_path):
    import pandas as pd

    path = tmp_path / "labels.tsv"
    table = pd.DataFrame({"label": NAMES, "run": RUNS, "age": np.arange(N) % 7.0})
    table.to_csv(path, sep="\t", index=False)
    given = {"adjacency": np.eye(5), "confounds": ["age"], "standardize": False}
    result = searchlight(X, (path, "label"), groups=(str(path), "run"), **given)
    assert result.procedure["confounds"] == ["age"]
    assert "groups" not in result.procedure


KEPT = [
    {"kernel": "rbf", "reg": "tuned"},
    {"kernel": ["linear", RBF(0.3)], "reg": Tuned([0.1, Ridge(3.0)])},
    {"kernel": EmpiricalMap("polynomial"), "cv": ShuffleSplit(3, random_state=0)},
    {"kernel": Linear(), "reg": "oas", "preprocess": ["zscore", "pca"]},
    {"approx": Nystrom(5, random_state=1), "average": 2, "cv": 3},
]


@pytest.mark.parametrize("given", KEPT)
def test_methods_come_back_from_files(given, tmp_path):
    result = cross_validate(X, NAMES, random_state=0, **given)
    loaded = saved(result, tmp_path)
    assert cross_validate(X, NAMES, **loaded.procedure) == result


def a_kernel(A, B):
    return A @ B.T


def a_metric(true, predicted, scores):
    return np.mean(true == predicted)


class Halves:
    def split(self, X, y, groups=None):
        return KFold(2).split(X)


LOST = {
    "kernel": (a_kernel, r"kernel \(the function a_kernel\)"),
    "scoring": ([a_metric], r"scoring \(the function a_metric\)"),
    "cv": (list(KFold(3).split(X)), r"cv \(array\(shape"),
    "preprocess": (StandardScaler(), r"preprocess \(StandardScaler\("),
}


@pytest.mark.parametrize("name", LOST)
def test_what_files_do_not_hold_is_named(name, tmp_path):
    value, match = LOST[name]
    result = cross_validate(X, NAMES, **{name: value})
    assert result.procedure[name] is value or result.procedure[name] == value
    assert cross_validate(X, NAMES, **result.procedure) == result
    for lost in (saved(result, tmp_path), pickle.loads(pickle.dumps(result))):
        assert lost == result
        with pytest.raises(ValueError, match=match):
            _ = lost.procedure


def test_several_losses_are_named_at_once(tmp_path):
    given = {"kernel": GraphSmooth(build.chain(5)), "cv": Halves()}
    lost = saved(cross_validate(X, NAMES, **given), tmp_path)
    with pytest.raises(ValueError, match=r"they do not .*kernel \(Graph.*cv \(Halves"):
        _ = lost.procedure


def test_folds_that_are_used_up_are_refused():
    result = cross_validate(X, NAMES, cv=KFold(3).split(X))
    with pytest.raises(ValueError, match=r"cv \(an iterator, which is used up\)"):
        _ = result.procedure


def test_a_class_may_have_any_name(tmp_path):
    classes = {"name": "face", "function": "house"}
    names = np.where(CODES == 0, "face", "house")
    given = {"adjacency": np.eye(5), "classes": classes, "standardize": False}
    result = searchlight(X, names, **given)
    assert saved(result, tmp_path).options["classes"] == classes
    regions = decode_regions(X, names, classes=classes, standardize=False)
    assert saved(regions, tmp_path).procedure["classes"] == classes


def test_results_made_of_others_say_that_they_have_no_options():
    made = ENTRIES["map"](n_permutations=5, random_state=0).diagonal()
    with pytest.raises(ValueError, match="not returned by a decoding function"):
        _ = made.procedure


def test_options_are_no_part_of_what_makes_results_equal():
    one = cross_validate(X, NAMES, kernel="linear", random_state=0)
    assert one == cross_validate(X, NAMES, kernel=Linear(), random_state=0)
    assert copy.copy(one) == one


# --------------------------------------------------------------- names, texts, defaults


def test_all_functions_of_the_room_are_known():
    assert {*procedure.FUNCTIONS} == {*DECODING}
    assert len(DECODING) == 9


@pytest.mark.parametrize("name", DECODING)
def test_every_argument_is_described_in_the_order_of_the_signature(name):
    function = getattr(mvpa_kfda, name)
    assert [*procedure.entries(function.__doc__)] == [
        *inspect.signature(function).parameters
    ]
    assert "..." not in "".join(
        text.partition("\n")[2].strip()[:3]
        for text in procedure.entries(function.__doc__).values()
    )


def test_shared_options_have_the_types_of_the_parts():
    kinds = [each for each in vars(procedure).values() if typing.is_typeddict(each)]
    hints = {k: v for kind in kinds for k, v in typing.get_type_hints(kind).items()}
    del hints["verbose"]  # a level of MNE-Python's log for some
    for kind in (*procedure.PARTS.values(), procedure.Windowing):
        own = typing.get_type_hints(kind, vars(procedure))
        for name in own.keys() & hints.keys() - vars(procedure.Repeating).keys():
            assert own[name] == hints[name], name


def test_functions_can_be_pickled_and_resolved():
    for name in DECODING:
        function = getattr(mvpa_kfda, name)
        assert pickle.loads(pickle.dumps(function)) is function
    assert typing.get_type_hints(decode_arrays)["n_permutations"] is int


UNKNOWN = {
    "n_permutation": r"\. Did you mean 'n_permutations'\?$",
    "radius": r", which decode_sources\(\) and searchlight\(\) have$",
    "rubbish": "$",
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_arguments_are_refused_with_the_nearest(name):
    start = rf"^decode_arrays\(\) got an unexpected keyword argument '{name}'"
    with pytest.raises(TypeError, match=start + UNKNOWN[name]):
        decode_arrays(DATA, NAMES, **{name: 1})


def test_arguments_go_to_their_places():
    options = {"same_trials": True, "random_state": 0}
    one = generalize_arrays(DATA, NAMES, DATA, **options)
    assert one == generalize_arrays(DATA, y=NAMES, X_test=DATA, **options)
    with pytest.raises(TypeError, match=r"^decode_arrays\(\) (missing|takes)"):
        decode_arrays(DATA)
    with pytest.raises(TypeError, match=r"^decode_arrays\(\) takes 2 positional"):
        decode_arrays(DATA, NAMES, None)
    assert_array_equal(one.y, CODES)
