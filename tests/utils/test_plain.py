"""What results record: objects by name and arguments, and versions of packages."""

import zlib
from functools import partial
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.model_selection import GroupKFold, RepeatedKFold

from mvpa_kfda import RBF, Ridge, Tuned
from mvpa_kfda.utils.plain import as_call, is_record, known, recorded, versions
from tests import build

ARRAY = np.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize(
    ("value", "record", "call"),
    [
        (np.float64(0.5), 0.5, "0.5"),
        (("a", np.int8(1)), ["a", 1], "['a', 1]"),
        ({1: None, "b": True}, {"1": None, "b": True}, "{'1': None, 'b': True}"),
        (Path("a.nii"), "a.nii", "'a.nii'"),
        (np.linalg.norm, {"function": "norm"}, "norm"),
        (Ridge(2.0), {"name": "Ridge", "lam": 2.0}, "Ridge(lam=2.0)"),
        (
            GroupKFold(3),
            recorded(GroupKFold(3)) | {"name": "GroupKFold", "n_splits": 3},
            as_call(recorded(GroupKFold(3))),
        ),
        (
            ARRAY,
            {
                "name": "array",
                "shape": [2, 3],
                "checksum": f"{zlib.crc32(ARRAY.tobytes()):08x}",
            },
            f"array(shape=[2, 3], checksum='{zlib.crc32(ARRAY.tobytes()):08x}')",
        ),
    ],
    ids=build.words,
)
def test_values_are_recorded_as_plain_ones_and_written_as_in_python(
    value, record, call
):
    assert recorded(value) == record
    assert type(recorded(value)) is type(record)
    assert as_call(recorded(value)) == call


def test_objects_keep_the_arguments_that_make_them():
    assert recorded(PCA(3))["n_components"] == 3
    repeated = recorded(RepeatedKFold(n_splits=3, n_repeats=2, random_state=1))
    assert repeated["name"] == "RepeatedKFold"
    assert [repeated[x] for x in ("n_repeats", "n_splits", "random_state")] == [2, 3, 1]
    tuned = recorded(Tuned([0.1, 1.0]))
    assert (tuned["name"], tuned["grid"]) == ("Tuned", [0.1, 1.0])
    assert is_record(tuned)
    assert not any(map(is_record, ("RBF", {"gamma": 1}, {"name": 3})))
    assert known({"name": "RBF"}) is RBF
    assert known({"name": "RBF"}, Ridge) is None
    assert known({"name": "SVC"}) is None
    assert recorded(partial(max))["name"] == "partial"


def test_versions_are_those_of_what_is_loaded():
    found = versions()
    assert found["numpy"] == np.__version__
    assert found["scikit-learn"] == version("scikit-learn")
    assert {"mvpa_kfda", "python", "scipy", "mne", "nilearn", "joblib"} < set(found)
