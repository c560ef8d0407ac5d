"""Results of all kinds as tables of pandas and datasets of xarray."""

import sys

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from mvpa_kfda import decode_arrays, searchlight
from mvpa_kfda.results.load import RESULTS
from tests import build

xarray = pytest.importorskip("xarray")

MAKE = {
    **{
        kind: lambda kind=kind: build.result(kind)
        for kind in (*RESULTS, "regions")
        if kind not in ("GroupResult", "ComparisonResult", "Latency")
    },
    "GroupResult": build.group,
    "GroupResult of images": lambda: build.group("regions"),
    "ComparisonResult": build.comparison,
    "Latency": build.latency,
}


@pytest.fixture(scope="module", params=MAKE)
def result(request):
    return MAKE[request.param]()


def where(result):
    """Return the dimensions of a map."""
    places = result.axes if hasattr(result, "axes") else {}
    return tuple(
        result.geometry.noun if axis == "positions" else name
        for axis, name in places.items()
    )


def test_datasets_hold_what_tables_hold(result):
    table, dataset = result.to_dataframe(), result.to_xarray()
    if not hasattr(result, "axes"):
        assert dataset.sizes == {"latency": 2}
        assert dataset.time.sel(latency="peak").item() == result.peak
        return
    dims = where(result)
    for name in table:
        if name in dataset.coords:
            continue
        assert dataset[name].dims == dims
        assert_array_equal(dataset[name].to_numpy().ravel(), table[name])
    for name in set(result.scalar_metrics) - {"statistic"}:
        chance = result.chances[name]
        assert dataset[name].attrs.get("chance", np.nan) == pytest.approx(
            chance, nan_ok=True, abs=0
        )
    for axis, dim in zip(result.axes, dims, strict=True):
        if axis != "positions":
            assert_array_equal(dataset[dim], getattr(result, axis))


def test_netcdf_files_hold_datasets(result, tmp_path):
    dataset = result.to_xarray()
    path = tmp_path / "result.nc"
    dataset.to_netcdf(path, engine="scipy")
    with xarray.open_dataset(path, engine="scipy") as again:
        xarray.testing.assert_equal(again, dataset)
        assert again.attrs["result"] == type(result).__name__
        assert set(again.attrs) == set(dataset.attrs)


def test_positions_by_name_and_place():
    result = build.result("SensorTimeResult")
    dataset = result.to_xarray()
    names, times = result.ch_names, result.times
    at = dataset.accuracy.sel(sensor=names[2], time=times[1]).item()
    assert at == result.scores[2, 1]
    assert dataset.time.attrs["units"] == "s"
    volume = build.result("VolumeResult")
    places = volume.to_xarray()
    assert_array_equal(places.x, volume.coordinates[:, 0])
    assert places.x.dims == ("voxel",)
    assert places.z.attrs["units"] == "mm"
    regions = build.result("regions")
    named = regions.to_xarray().accuracy.sel(region="2")
    assert named.item() == regions.scores[1]


def test_folds_trials_classes_and_repeats():
    X, codes = build.trials((12, 12), 4, 3)
    groups = np.arange(24) % 4
    options = {"scoring": ["accuracy", "confusion_matrix"], "n_permutations": 9}
    result = decode_arrays(X, build.NAMES[codes], groups=groups, **options)
    dataset = result.to_xarray(corrections=["max", "fdr"])
    assert {"p", "p_max", "p_fdr"} <= set(dataset)
    assert dataset.accuracy_folds.dims == ("time", "fold")
    assert_array_equal(dataset.accuracy_folds, result.fold_metrics["accuracy"])
    assert dataset.predicted.dims == ("time", "trial")
    assert_array_equal(dataset.group, result.groups)
    one, two = result.classes
    cell = dataset.confusion_matrix.sel(true_class=one, predicted_class=two)
    assert_array_equal(cell, result.metrics["confusion_matrix"][:, 0, 1])
    repeated = build.result("TimeResult", n_repeats=2, average=2)
    again = repeated.to_xarray()
    assert_array_equal(again.accuracy_repeats, repeated.repeats["accuracy"])
    assert again.attrs["parameter_n_repeats"] == 2
    assert_array_equal(again["class"], repeated.classes)


def test_tables_of_pairs():
    X, codes = build.trials((12, 12, 12), 4, 3)
    options = {"reg": 0.1, "cv": 4, "scoring": ["crossnobis", "crossnobis_distances"]}
    y = build.NAMES[codes]
    images = build.volume(X.transpose(0, 2, 1).reshape(-1, 3, 2, 2))
    inside = build.mask(np.ones((3, 2, 2)))
    volume = searchlight(images, y, radius=4.0, mask_img=inside, **options)
    distances = volume.to_xarray().crossnobis_distances
    assert distances.dims == ("voxel", "pair")
    assert_array_equal(distances.sel(pair="ant / cat"), volume.rdm()[:, 1])
    course = decode_arrays(X, y, **options)
    matrices = course.to_xarray().crossnobis_distances
    assert matrices.dims == ("time", "true_class", "predicted_class")
    assert_array_equal(matrices, course.metrics["crossnobis_distances"])


def test_subjects_of_a_group_and_differences_of_latencies():
    group = build.group()
    dataset = group.to_xarray()
    assert dataset.subject_scores.dims == ("subject", "time")
    assert_array_equal(dataset.subject_scores, group.subject_scores)
    assert dataset.attrs["method"] == "sign-flip"
    assert dataset.attrs["n_permutations"] == group.n_permutations
    assert "chance" not in dataset.statistic.attrs  # of which there is none
    assert dataset.subject.to_numpy().tolist() == list(map(str, group.subjects))
    later = [build.result(seed=10 + seed) for seed in range(6)]
    latency = build.latency(other=later)
    peak = latency.to_xarray().time.sel(of="first", latency="peak").item()
    assert peak == latency.parts[0].peak


def test_without_xarray(monkeypatch):
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(ImportError, match=r"not installed.* pip install xarray"):
        build.result().to_xarray()
