"""Results of latencies: their words and tables, and how they are restored."""

import numpy as np
import pytest

from mvpa_kfda.results.latency import Latency

pytestmark = pytest.mark.filterwarnings("ignore:.* resamples:RuntimeWarning")


def latency(onset, peak, onsets=(0.1, np.nan, 0.2), **fields):
    return Latency(
        onset=onset,
        peak=peak,
        onset_interval=np.array([onset - 0.02, onset + 0.03]),
        peak_interval=np.array([peak - 0.02, peak + 0.01]),
        onsets=np.array(onsets),
        peaks=np.full(3, peak),
        confidence=0.95,
        metric="accuracy",
        chance=0.5,
        n_subjects=12,
        **{"times": np.arange(3.0), "mean": np.arange(3.0)} | fields,
    )


def test_latencies_are_worded_and_listed():
    one = latency(0.1, 0.2)
    words = "onset 0.100 s [0.080, 0.130] | peak 0.200 s [0.180, 0.210] | 12 subjects"
    assert repr(one) == f"<Latency: {words}>"
    assert one.n_without_onset == 1
    table = one.to_dataframe().set_index("latency")
    assert list(table) == ["time", "low", "high", "without"]
    for name, without in {"onset": 1, "peak": 0}.items():
        time, interval = one.when(name)
        assert table.loc[name].tolist() == [time, *interval, without]
    assert repr(latency(np.nan, 0.2)).startswith(
        "<Latency: onset none | peak 0.200 s ["
    )


def test_differences_have_two_parts_that_come_back_from_plain_values():
    parts = latency(0.1, 0.2), latency(0.3, 0.5)
    one = latency(-0.2, -0.3, parts=parts, labels=np.array(["faces", "words"]))
    assert repr(one).startswith("<Difference in Latency: onset -0.200 s [")
    table = one.to_dataframe()
    assert (
        table["of"].tolist() == np.repeat(["difference", "first", "second"], 2).tolist()
    )
    assert table["time"].tolist() == [-0.2, -0.3, 0.1, 0.2, 0.3, 0.5]
    again = Latency(**one._content())
    assert again == one
    assert again.parts == parts
    assert again.labels == ("faces", "words")
