"""Patterns of results as objects of MNE-Python, and the channels they belong to."""

from datetime import date, datetime, timezone

import mne
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mvpa_kfda import TimeFrequencyResult, TimeResult
from mvpa_kfda.results.patterns import pack_info, unpack_info
from tests import build

CHANNELS = ["Fz", "Cz", "Pz", "a channel with a long name", "MEG 1", "MEG 2", "extra"]
TYPES = ["eeg"] * 4 + ["mag", "grad", "misc"]


def make_info(sfreq=250.0):
    """Channels of several types, and all that tells who was recorded when."""
    info = mne.create_info(CHANNELS, sfreq, TYPES)
    montage = mne.channels.make_standard_montage("biosemi64")
    info.set_montage(montage, on_missing="ignore")
    for i in (4, 5):
        info["chs"][i]["loc"][:] = 0.01 * np.arange(12) + i
    info["bads"] = ["Cz"]
    info.set_meas_date(datetime(2021, 3, 4, tzinfo=timezone.utc))
    info["experimenter"] = "Dr. Who"
    info["description"] = "secret place"
    info["device_info"] = {"type": "cap", "model": "x", "serial": "SN123", "site": "y"}
    info["subject_info"] = {
        **{"id": 77, "his_id": "subj-77", "sex": 1, "hand": 1},
        **{"last_name": "Miller", "first_name": "Ann", "birthday": date(1990, 5, 6)},
    }
    return info


def make_result(kind=TimeResult, *, n_times=4, info=True, with_maps=True, **more):
    """Return a result with random patterns of 7 channels and 3 classes."""
    rng, step = np.random.default_rng(0), 0.02
    axes = {"times": -0.051 + step * np.arange(n_times)}
    if kind is TimeFrequencyResult:
        axes = {"freqs": np.array([4.0, 8.0, 13.0]), **axes}
    shape = tuple(map(len, axes.values()))
    rows = {"class": 3, "class_folds": 3, "discriminant": 2}
    maps = {k: 1e-6 * rng.normal(size=(*shape, m, 7)) for k, m in rows.items()}
    y = np.array([0, 1, 2, 0, 1, 0])
    fields = {
        **{"classes": np.array([10, 20, 30]), "y": y, "tests": (np.arange(6),)},
        **{"predicted": rng.integers(3, size=(*shape, 6)), **axes},
        "parameters": {"kernel": {"name": "Linear"}},
        "pattern_maps": maps if with_maps else {},
        "info_fif": pack_info(make_info()) if info else None,
    }
    return build.made(kind, rng.random(shape), **fields | more)


def test_an_info_comes_back_without_personal_data():
    info = make_info()
    packed = pack_info(info)
    assert packed.dtype == np.uint8
    assert packed.ndim == 1
    assert len(packed) < 20_000
    back = unpack_info(packed)
    assert back["ch_names"] == CHANNELS
    assert back.get_channel_types() == TYPES
    assert back["bads"] == ["Cz"]
    assert back["sfreq"] == 250.0
    for one, other in zip(back["chs"], info["chs"], strict=True):
        assert_allclose(one["loc"], other["loc"], rtol=1e-6, atol=1e-8)
    assert str(back["meas_date"].date()) == "2000-01-01"
    data = bytes(packed)
    assert_array_equal(back["file_id"]["machid"], 0)
    for text in ("Who", "secret", "SN123", "subj-77", "Miller", "Ann"):
        assert text.encode() not in data
    # The given info stays as it is.
    assert info["subject_info"]["last_name"] == "Miller"
    assert info["meas_date"].year == 2021


def test_equal_infos_give_equal_bytes_on_all_machines_and_days(monkeypatch):
    first = pack_info(make_info())
    monkeypatch.setattr("uuid.getnode", lambda: 0x123456789ABC)
    monkeypatch.setattr("time.time", lambda: 1e9)
    assert_array_equal(pack_info(make_info()), first)


@pytest.mark.parametrize("types", [["misc"] * 3, ["eeg"] * 3, ["eeg", "eog", "stim"]])
def test_any_channels_can_be_kept_without_a_word(types, capsys, recwarn):
    info = mne.create_info(["a", "b", "c"], 100.0, types)
    vector = {"nrow": 1, "ncol": 2, "row_names": None, "col_names": ["a", "b"]}
    vector["data"] = np.array([[0.6, 0.8]])
    projector = mne.Projection(active=False, kind=1, desc="blink", data=vector)
    evoked = mne.EvokedArray(np.zeros((3, 1)), info, verbose=False)
    info = evoked.add_proj(projector, verbose=False).info
    back = unpack_info(pack_info(info))
    assert len(back["projs"]) == 1
    assert back["ch_names"] == ["a", "b", "c"]
    assert back.get_channel_types() == types
    assert capsys.readouterr() == ("", "")
    assert len(recwarn) == 0


@pytest.mark.parametrize("spoiled", [np.arange(9), pack_info(make_info())[:500]])
def test_damaged_channel_information(spoiled):
    result = make_result(info_fif=spoiled)
    with pytest.raises(ValueError, match=r"channel information .* damaged; take"):
        _ = result.info


@pytest.mark.parametrize(
    ("kind", "average"),
    [("class", "full"), ("class", "folds"), ("discriminant", "full")],
)
def test_patterns_are_evokeds(kind, average):
    result = make_result()
    evokeds = result.patterns(kind, average=average)
    maps = result.pattern_maps[kind if average == "full" else "class_folds"]
    names, n = ["10", "20", "30"], [3, 2, 1]
    if kind == "discriminant":
        names, n = ["discriminant 1", "discriminant 2"], [6, 6]
    assert list(evokeds) == names
    for i, (name, evoked) in enumerate(evokeds.items()):
        assert isinstance(evoked, mne.EvokedArray)
        assert (evoked.comment, evoked.nave) == (name, n[i])
        assert evoked.ch_names == CHANNELS
        assert evoked.info["bads"] == ["Cz"]
        assert_array_equal(evoked.data, maps[:, i].T)
        assert_allclose(evoked.times, result.times, rtol=0, atol=1e-12)
        assert_allclose(evoked.info["sfreq"], 50.0, rtol=1e-9, atol=0)


def test_one_time_and_uneven_times_keep_the_recorded_rate():
    (evoked, *_) = make_result(n_times=1).patterns().values()
    assert evoked.info["sfreq"] == 250.0
    assert_allclose(evoked.times, [-0.051], rtol=0, atol=1e-12)
    times = np.array([0.0, 0.1, 0.15, 0.3])
    (evoked, *_) = make_result(times=times).patterns().values()
    assert evoked.info["sfreq"] == 250.0
    # At the recorded rate nothing needs to be converted.
    times = 0.1 + np.arange(4) / 250
    (evoked, *_) = make_result(times=times).patterns().values()
    assert evoked.info["sfreq"] == 250.0
    assert_allclose(evoked.times, times, rtol=0, atol=1e-12)


def test_patterns_over_frequencies_are_averaged_tfrs():
    result = make_result(TimeFrequencyResult)
    tfrs = result.patterns()
    assert list(tfrs) == ["10", "20", "30"]
    for i, (name, tfr) in enumerate(tfrs.items()):
        assert isinstance(tfr, mne.time_frequency.AverageTFRArray)
        assert (tfr.comment, tfr.nave) == (name, [3, 2, 1][i])
        expected = result.pattern_maps["class"][:, :, i].transpose(2, 0, 1)
        assert_array_equal(tfr.data, expected)
        assert_array_equal(tfr.freqs, result.freqs)
        assert_allclose(tfr.times, result.times, rtol=0, atol=1e-12)


def test_why_there_are_no_patterns():
    parameters = {"kernel": {"name": "RBF", "gamma": 0.1}}
    result = make_result(with_maps=False, parameters=parameters)
    with pytest.raises(ValueError, match=r"'linear', Graph.*; its kernel is RBF\(gam"):
        result.patterns()
    with pytest.raises(ValueError, match=r"from arrays, and patterns belong to"):
        make_result(info=False).patterns()
    with pytest.raises(ValueError, match=r"has no channels.*decode_epochs"):
        _ = make_result(info=False).info
    for given, message in (
        ({"kind": "classes"}, r"'kind': 'classes'.*'discriminant'"),
        ({"average": "fold"}, r"'average': 'fold'.*'folds'"),
        (
            {"kind": "discriminant", "average": "folds"},
            r"its own discriminants.*kind='class'",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            make_result().patterns(**given)
    for shape in ((3, 3, 7), (4, 7), (4, 2, 3, 7)):
        message = r"'class' at positions \(4,\) must have sha"
        with pytest.raises(ValueError, match=message):
            make_result(pattern_maps={"class": np.zeros(shape)})
