"""Activation patterns in results, as objects of MNE-Python and as images."""

from dataclasses import replace

import mne
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mvpa_kfda.results.patterns import pack_info, unpack_info
from tests import build


@pytest.mark.parametrize("kind", ["TimeResult", "TimeFrequencyResult", "SourceResult"])
def test_patterns_of_classes_and_discriminants_are_what_was_kept(kind):
    result = build.result(kind)
    for name, average, kept in [
        ("class", "full", "class"),
        ("class", "folds", "class_folds"),
        ("discriminant", "full", "discriminant"),
    ]:
        maps, found = result.pattern_maps[kept], result.patterns(name, average=average)
        labels = ["discriminant 1"] if kept == "discriminant" else list(result.classes)
        assert list(found) == labels
        for i, each in enumerate(found.values()):
            expected = np.moveaxis(maps[..., i, :], -1, 0)
            assert_allclose(each.data, expected, rtol=1e-12)
            assert_allclose(each.times, result.times, rtol=0, atol=1e-9)
            if kind != "SourceResult":
                assert each.ch_names == result.info["ch_names"]
                assert each.nave == (16 if kept == "discriminant" else 8)
                assert each.info["sfreq"] == pytest.approx(100.0, rel=1e-9)


def test_patterns_of_regions_are_at_their_voxels():
    result = build.result("regions")
    maps, mask = result.pattern_maps["class"], result.geometry.base.mask
    for i, image in enumerate(result.patterns().values()):
        values = image.get_fdata()[mask]
        assert_allclose(values[result.pattern_features], maps[:, i], rtol=1e-6)
    labels, values = result.pattern_values("class", "full", "2")
    assert labels == list(result.classes)
    inside = result.geometry.labels == 2
    assert_array_equal(np.isfinite(values[:, 0]), inside)
    shape = {"class": maps[:-1]}
    with pytest.raises(
        ValueError, match="Patterns need one row for each of the 12 fea"
    ):
        replace(result, pattern_maps=shape)
    with pytest.raises(
        ValueError, match="Patterns need one row for each of the 12 fea"
    ):
        replace(result, pattern_features=result.pattern_features + 1)
    with pytest.raises(ValueError, match="Searchlights hold no activation patterns"):
        build.result("VolumeResult").patterns()


def test_patterns_that_there_are_not_are_refused():
    result, other = build.result(), {"mode": "other_trials", "n_trained": 8}
    for each, options, message in [
        (result, {"kind": "weights"}, "'kind': 'weights'"),
        (result, {"average": "mean"}, "'average': 'mean'"),
        (result, {"kind": "discriminant", "average": "folds"}, "Each fold has its own"),
        (
            replace(result, parameters=other),
            {"average": "folds"},
            "no folds to average",
        ),
        (build.result(kernel="rbf"), {}, "its kernel is RBF.*kernel='linear', or take"),
        (replace(result, info_fif=None), {}, "computed from arrays, and patterns"),
        (
            replace(result, pattern_maps={"class": result.pattern_maps["class"]}),
            {"kind": "discriminant"},
            "Each repeat has its own averages",
        ),
    ]:
        with pytest.raises(ValueError, match=message):
            each.patterns(**options)
    with pytest.raises(
        ValueError, match=r"'class' at positions \(3,\) must have shape"
    ):
        replace(result, pattern_maps={"class": np.zeros((2, 2, 4))})
    with pytest.raises(ValueError, match="This result has no channels"):
        _ = replace(result, info_fif=None).info


def test_channels_are_packed_without_personal_data():
    info = build.info_of(["eeg", "mag"])
    info["bads"] = ["EEG0"]
    info["subject_info"] = {"his_id": "somebody", "last_name": "Body"}
    packed = pack_info(info)
    assert_array_equal(packed, pack_info(info))
    again = unpack_info(packed)
    assert again["ch_names"] == info["ch_names"]
    assert again["bads"] == ["EEG0"]
    assert b"somebody" not in packed.tobytes()
    assert isinstance(again, mne.Info)
    with pytest.raises(
        ValueError, match="channel information of this result is damaged"
    ):
        unpack_info(packed[:200])
