"""Axes of maps: one table of what each is called, wherever it is shown."""

from mvpa_kfda.utils.axes import AXES, axes_of, point_of_axes


def test_an_axis_is_worded_alike_in_figures_texts_and_messages():
    times, freqs, sensors = AXES["times"], AXES["freqs"], AXES["ch_names"]
    assert [each.label for each in (times, freqs, sensors)] == [
        *("Time (s)", "Frequency (Hz)", "Sensor")
    ]
    assert [each.count(2) for each in (times, freqs, sensors)] == [
        *("2 time points", "2 frequencies", "2 sensors")
    ]
    assert [each.end for each in (times, freqs, sensors)] == [" s", " Hz", ""]
    assert [each.is_time for each in (times, freqs, sensors)] == [True, False, False]
    assert [each.asked for each in (times, sensors)] == ["a time", "a sensor by name"]
    assert AXES["vertices"].count(1) == "1 vertex"


def test_columns_and_positions_of_maps_are_named_by_their_axes():
    assert axes_of("ch_names", "times") == {"ch_names": "sensor", "times": "time"}
    assert point_of_axes(["times"], 2) == "time points"
    assert point_of_axes(["freqs", "times"]) == "time-frequency point"
    assert point_of_axes(["ch_names", "times"], 2) == "pairs of sensor and time point"
    assert point_of_axes([], 3) == "positions"
