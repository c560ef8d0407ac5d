"""Checksums by which anybody can tell the input of a result again."""

import hashlib

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mvpa_kfda.utils import fingerprints
from mvpa_kfda.utils.fingerprints import (
    checksum_of,
    collected_inputs,
    file_checksum,
    files_of,
    fingerprint,
    kept_inputs,
    note_input,
    projections,
)

X = np.random.default_rng(0).normal(size=(6, 3, 4))


def sha(rows):
    return hashlib.sha256(b"".join(rows)).hexdigest()


@pytest.mark.parametrize("dtype", ["<f8", ">f8", "<f4", "<i2"])
def test_trials_are_told_by_their_values_in_little_endian(dtype):
    values = np.asfortranarray((9 * X).astype(dtype))
    rows = [
        hashlib.sha256(trial.astype(np.dtype(dtype).newbyteorder("<")).tobytes())
        for trial in values
    ]
    rows = [row.digest() for row in rows]
    name = np.dtype(dtype).name
    assert fingerprint(values) == [name, "6 x 3 x 4", sha(rows), sha(sorted(rows))]
    assert fingerprint(values.astype("<f8"), dtype) == fingerprint(values)


def test_labels_are_told_by_their_text():
    rows = [hashlib.sha256(text.encode()).digest() for text in ("b", "ä", "1")]
    expected = ["text", "3", sha(rows), sha(sorted(rows))]
    assert fingerprint(["b", "ä", 1]) == expected
    assert fingerprint(np.array(["b", "ä", "1"])) == expected
    assert fingerprint([[1], [1, 2]])[:2] == ["text", "2"]
    assert checksum_of({"a": X[0, 0]}, {"b": ["c", "d"]}) == (
        hashlib.sha256(
            f"a {' '.join(fingerprint(X[:1, 0])[:3])}\nb c d".encode()
        ).hexdigest()
    )


def test_sums_of_values_with_random_signs_tell_how_much_data_differ(monkeypatch):
    found = projections(X)
    # The same signs for all trials, whatever is summed at once.
    signs = projections(np.eye(12).reshape(12, 3, 4))
    assert set(np.abs(signs)) == {1.0}
    assert 0 < np.sum(signs > 0) < 12
    assert_allclose(found, X.reshape(6, 12) @ signs, rtol=1e-12, atol=0)
    assert_allclose(projections(X.reshape(6, 12)), found, rtol=1e-12, atol=0)
    monkeypatch.setattr(fingerprints, "_AT_ONCE", 200)
    assert_allclose(projections(X), found, rtol=1e-12, atol=0)
    for other in ("abc", X[:, 0, 0], X.astype(str)):
        assert projections(other) is None


def test_inputs_are_noted_while_they_are_collected():
    note_input("X", X)  # nobody asked
    with collected_inputs() as outer, kept_inputs() as kept:
        note_input("X", X)
        note_input("nothing", None)
        with collected_inputs() as inner:
            note_input("y", ["a", "b"])
    assert {**outer, "projections": None} == {"X": fingerprint(X), "projections": None}
    assert_allclose(outer["projections"]["X"], projections(X), rtol=0, atol=0)
    assert inner == {"y": fingerprint(["a", "b"])}
    assert sorted(kept) == ["X", "y"]
    assert_allclose(kept["X"][0], X, rtol=0, atol=0)


def test_files_are_told_by_content_and_listed_by_name_and_size(tmp_path):
    paths = [tmp_path / f"{i}.nii" for i in range(25)]
    for i, path in enumerate(paths):
        path.write_bytes(bytes(i))
    assert file_checksum(paths[3]) == hashlib.sha256(bytes(3)).hexdigest()
    assert files_of([str(paths[2]), 3.0, [paths[4]], "no file", "\0"]) == [
        *("2.nii, 2 bytes", "4.nii, 4 bytes")
    ]
    found = files_of([paths])
    assert found[19:] == ["19.nii, 19 bytes", "and 5 more files"]
