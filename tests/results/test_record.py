"""What is kept of objects: the name of their class and their arguments, as values."""

import json

import numpy as np
import pytest
from sklearn import model_selection as ms
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from mvpa_kfda import (
    RBF,
    EmpiricalMap,
    GraphSmooth,
    Nystrom,
    Penalty,
    Polynomial,
    Ridge,
    Tuned,
    cross_validate,
    load_result,
)
from mvpa_kfda.utils.plain import as_call, recorded
from tests import build

X, CODES = build.trials((10, 10), 4, 1)
X = X[:, :, 0]


def a_kernel(A, B):
    return A @ B.T


class Splitter:
    """A splitter that knows its arguments by other names, and shows no more."""

    def __init__(self, n=3):
        self._n = n

    def split(self, X, y, groups=None):
        return ms.KFold(self._n).split(X)


RECORDS = [
    (RBF(), {"name": "RBF", "gamma": "median"}),
    (Polynomial(2), {"name": "Polynomial", "degree": 2, "gamma": None, "coef0": 1.0}),
    (Ridge(1.0), {"name": "Ridge", "lam": 1.0}),
    (
        Tuned([0.1, Ridge(2)]),
        {
            "name": "Tuned",
            "grid": [0.1, {"name": "Ridge", "lam": 2}],
        },
    ),
    (
        ms.RepeatedKFold(n_splits=3, random_state=1),
        {"name": "RepeatedKFold", "n_repeats": 10, "n_splits": 3, "random_state": 1},
    ),
    (Splitter(), {"name": "Splitter"}),
    (a_kernel, {"function": "a_kernel"}),
    (np.float32(0.5), 0.5),
    ((1, None), [1, None]),
]


@pytest.mark.parametrize(("value", "expected"), RECORDS)
def test_objects_are_recorded_by_class_and_arguments(value, expected):
    assert recorded(value) == expected
    assert json.loads(json.dumps(recorded(value))) == expected


def test_matrices_are_told_apart_by_their_values():
    graph, other = build.chain(4), build.chain(4)
    other[0, 3] = other[3, 0] = 1
    one, two = recorded(GraphSmooth(graph)), recorded(GraphSmooth(other))
    assert one["n_features"] == two["n_features"] == 4
    assert one != two
    assert one == recorded(GraphSmooth(graph.copy()))
    folds = [ms.PredefinedSplit([0, 1, k]) for k in (0, 1)]
    assert recorded(folds[0]) != recorded(folds[1])
    assert recorded(folds[0])["test_fold"]["shape"] == [3]


def test_records_are_written_as_python_writes_objects():
    for value in (RBF(0.1), Ridge(2.0), ms.KFold(3), ms.LeaveOneOut()):
        assert as_call(recorded(value)) == repr(value)
    assert as_call(recorded(a_kernel)) == "a_kernel"
    assert as_call([0.1, "auto", None]) == "[0.1, 'auto', None]"


METHODS = [
    {"kernel": RBF(0.2), "reg": Ridge(0.5)},
    {"kernel": a_kernel, "reg": 0.3},
    {"kernel": EmpiricalMap(Polynomial(2)), "reg": 0.1},
    {"kernel": Penalty(np.diag([1.0, 2, 3, 4])), "cv": ms.ShuffleSplit(3)},
    {"kernel": ["linear", GraphSmooth(build.chain(4))], "reg": Tuned([0.1, 1])},
    {"approx": Nystrom(5), "cv": list(ms.KFold(3).split(X))},
    {"preprocess": make_pipeline(StandardScaler(), PCA(2)), "cv": Splitter()},
    {"preprocess": [FunctionTransformer(np.tanh)], "cv": ms.LeaveOneOut()},
]


@pytest.mark.parametrize("method", METHODS)
def test_files_give_back_what_was_recorded(method, tmp_path):
    result = cross_validate(X, CODES, **method)
    result.save(tmp_path / "result.h5")
    loaded = load_result(tmp_path / "result.h5")
    assert loaded.parameters == result.parameters
    for name in method.keys() - {"approx", "preprocess", "cv", "kernel"}:
        assert result.parameters[name] == recorded(method[name])
    assert "0x" not in json.dumps(result.parameters)
