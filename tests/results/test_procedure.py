"""The options of an analysis: what results and files keep of them, and give back."""

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
from mvpa_kfda.results.procedure import revived
from mvpa_kfda.utils.plain import recorded
from tests import build

X, CODES = build.features((10, 10), 4)


def a_kernel(A, B):
    return A @ B.T


class Splitter:
    """A splitter that knows its arguments by other names, and shows no more."""

    def __init__(self, n=3):
        self._n = n

    def split(self, X, y, groups=None):
        return ms.KFold(self._n).split(X)


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


#: Options of calls, and whether files give them back.
METHODS = [
    ({"kernel": RBF(0.2), "reg": Ridge(0.5)}, ""),
    ({"kernel": EmpiricalMap(Polynomial(2)), "reg": 0.1}, ""),
    ({"kernel": ["linear", RBF(0.1)], "reg": Tuned([0.1, 1])}, ""),
    ({"approx": Nystrom(5), "kernel": "rbf", "cv": ms.LeaveOneOut()}, ""),
    ({"kernel": a_kernel, "reg": 0.3}, r"it does .*: kernel \(the function a_kernel\)"),
    (
        {"kernel": Penalty(np.diag([1.0, 2, 3, 4])), "cv": Splitter()},
        r"they do .*: kernel \(Penalty\(.*, cv \(Splitter\(\)\)",
    ),
    (
        {"preprocess": make_pipeline(StandardScaler(), PCA(2))},
        r"preprocess \(StandardScaler\(",
    ),
    ({"preprocess": [FunctionTransformer(np.tanh)]}, r"preprocess \(the function tanh"),
]


@pytest.mark.parametrize(("method", "lost"), METHODS)
def test_results_and_files_give_back_what_was_recorded(method, lost, tmp_path):
    result = cross_validate(X, CODES, **method)
    assert cross_validate(X, CODES, **result.procedure) == result
    result.save(tmp_path / "result.h5")
    loaded = load_result(tmp_path / "result.h5")
    assert loaded.parameters == result.parameters
    for name in method.keys() - {"approx", "preprocess", "cv", "kernel"}:
        assert result.parameters[name] == recorded(method[name])
    assert "0x" not in json.dumps(result.parameters)
    if lost:
        with pytest.raises(ValueError, match=lost):
            _ = loaded.procedure
    else:
        assert cross_validate(X, CODES, **loaded.procedure) == result
        assert repr(loaded.procedure) == repr(revived(recorded(result.options)))


def test_groups_that_were_left_out_are_asked_for_again():
    groups = np.arange(20) % 4
    result = cross_validate(X, CODES, groups=groups)
    assert isinstance(result.procedure["cv"], ms.LeaveOneGroupOut)
    assert not {"n_jobs", "verbose", "groups"} & set(result.procedure)
    made = build.made(type(result), 0.7, class_scores=np.ones((12, 2)))
    with pytest.raises(ValueError, match="made of another one, so that no options"):
        _ = made.procedure
