"""The page on the file format: its reader reads files, and it leaves nothing out."""

import re
import textwrap
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from nibabel import Nifti1Image
from numpy.testing import assert_array_equal

from mvpa_kfda import decode_arrays, group_inference, searchlight
from mvpa_kfda.results.load import RESULTS
from mvpa_kfda.utils import files as hdf5

PAGE = Path(__file__).parents[1] / "doc" / "file_format.rst"
BLOCK = r"\.\. code-block:: python\n\n((?: {4}.*\n|\n)+)"


@pytest.fixture(scope="module")
def page():
    return PAGE.read_text("utf-8")


@pytest.fixture
def shown(page, tmp_path, monkeypatch):
    """Return a function that saves a result and runs the code of the page on it."""
    monkeypatch.chdir(tmp_path)
    reader, use = (textwrap.dedent(code) for code in re.findall(BLOCK, page))

    def run(result, with_use=False):
        result.save("result.h5")
        names = {}
        exec(reader, names)
        if with_use:
            exec(use, names)
        return names

    return run


def simulate(n_times=5, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(40, 3, n_times)), np.tile(["face", "house"], 20)


def test_reader_on_time_course(shown):
    X, y = simulate()
    options = {"n_permutations": 7, "random_state": 0, "sfreq": 50, "tmin": -0.02}
    result = decode_arrays(X, y, scoring=["roc_auc", "accuracy"], **options)

    names = shown(result, with_use=True)

    assert names["class_name"] == "TimeResult"
    assert names["metric"] == "roc_auc"  # the first that was asked for
    assert_array_equal(names["scores"], result.scores)
    assert_array_equal(names["null"], result.null)
    assert_array_equal(names["times"], result.times)
    assert names["null"].shape == (7, 5)


def test_reader_without_permutations(shown):
    names = shown(decode_arrays(*simulate()), with_use=True)
    assert names["null"] is None


def test_reader_on_image(shown):
    rng = np.random.default_rng(0)
    _, y = simulate()
    affine = np.diag([4.0, 4.0, 4.0, 1.0])
    mask = np.ones((4, 3, 2), dtype=np.uint8)
    mask[1, 0, 1] = 0
    result = searchlight(
        Nifti1Image(rng.normal(size=(4, 3, 2, 40)), affine),
        y,
        groups=np.repeat([1, 2], 20),
        mask_img=Nifti1Image(mask, affine),
        radius=4.0,
        n_permutations=7,
        null="full",
        random_state=0,
    )

    names = shown(result)
    class_name, found = names["read"]("result.h5")

    assert class_name == "VolumeResult"
    assert_array_equal(found["metrics"]["accuracy"], result.scores)
    assert_array_equal(found["nulls"]["accuracy"], result.null)
    assert found["nulls"]["accuracy"].dtype == np.float32
    assert found["classes"] == list(result.classes)
    ends = np.cumsum(found["tests"]["sizes"])[:-1]
    for rows, test in zip(
        np.split(found["tests"]["rows"], ends), result.tests, strict=True
    ):
        assert_array_equal(rows, test)
    # As the page says: position k is the k-th true voxel of the mask.
    image = np.zeros(mask.shape)
    image[found["space"]["mask"]] = found["metrics"]["accuracy"]
    assert_array_equal(np.float32(image), result.to_img().get_fdata())
    assert_array_equal(found["space"]["affine"], affine)


def test_reader_on_group(shown):
    results = [decode_arrays(*simulate(seed=k)) for k in range(6)]
    group = group_inference(results, "sign-flip", ["max", "cluster"], random_state=0)

    names = shown(group)
    class_name, found = names["read"]("result.h5")

    assert class_name == "GroupResult"
    assert found["correction"] == ["max", "cluster"]
    assert found["subjects"] == list(group.subjects)
    assert_array_equal(found["subject_scores"].mean(axis=0), group.scores)
    assert_array_equal(found["places"]["coordinates"]["times"], group.times)
    assert list(found["p_maps"]) == list(group.p_maps)
    for name, p in group.p_maps.items():
        assert_array_equal(found["p_maps"][name], p)
    assert_array_equal(found["null_max"], group.null_max)


@pytest.mark.parametrize("name", RESULTS)
def test_all_fields_are_described(page, name):
    described = set(re.findall(r"``(\w+)``|~mvpa_kfda\.(\w+)`", page))
    described = {one or other for one, other in described}
    missing = {name, *(each.name for each in fields(RESULTS[name]))} - described
    assert not missing


def test_layout_is_described(page):
    source = Path(hdf5.__file__).read_text("utf-8")
    tags = set(re.findall(r'"(__[a-z]+__)"', source))
    assert len(tags) == 7
    assert tags == set(re.findall(r'\{"(__[a-z]+__)":', page))
    assert all(f"key_{key}" in page for key in hdf5.HEADER_KEYS)
    versions = page.split("\nVersions\n")[1].split("\nSecurity\n")[0]
    numbers = re.findall(r"\* - (\d+)\n", versions)
    assert numbers == [str(k + 1) for k in range(hdf5.FORMAT_VERSION)]
