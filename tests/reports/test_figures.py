"""Patterns on the head, where scores are highest, in the unit of their channels."""

import mne
import numpy as np
import pytest
from numpy.testing import assert_allclose

from mvpa_kfda import decode_epochs, simulate_epochs
from mvpa_kfda.reports.figures import best_place, plot_channel_patterns
from tests import build
from tests.html_pages import images_in, read_section

#: Kind of channel -> its label, and what its unit is in SI units.
UNITS = {
    "eeg": ("EEG (µV)", 1e-6),
    "mag": ("Magnetometers (fT)", 1e-15),
    "grad": ("Gradiometers (fT/cm)", 1e-13),
    "seeg": ("sEEG (mV)", 1e-3),
    "hbo": ("HbO (µM)", 1e-6),
}


@pytest.mark.parametrize("kind", UNITS)
def test_patterns_are_drawn_where_scores_are_best_in_their_units(kind):
    label, unit = UNITS[kind]
    X, codes = build.trials((10, 10), 5, 3)
    result = decode_epochs(build.epochs(X, codes, kind), "word", cv=4)
    figure = plot_channel_patterns(result)
    patterns = result.patterns()
    assert label in {ax.get_ylabel() for ax in figure.axes}
    assert [ax.get_title() for ax in figure.axes] == list(patterns)
    for ax, average in zip(figure.axes, patterns.values(), strict=True):
        drawn = [line.get_ydata() for line in ax.lines[:-1]]
        assert_allclose(drawn, average.data / unit, rtol=1e-12, atol=0)
    if kind == "eeg":  # on a part of the head
        places = {
            ch["ch_name"]: [0.07 * np.cos(i), 0.07 * np.sin(i), 0.06]
            for i, ch in enumerate(result.info["chs"])
        }
        epochs = build.epochs(X, codes, kind)
        epochs.set_montage(mne.channels.make_dig_montage(places))
        result = decode_epochs(epochs, "word", cv=4)
        figure = plot_channel_patterns(result)
        (bar,) = (ax for ax in figure.axes if ax.get_label() == "<colorbar>")
        assert bar.get_ylabel() == label
        heads = [ax for ax in figure.axes if ax is not bar]
        assert all(len(ax.images) == 1 for ax in heads)
        at = result.scores.argmax()
        largest = max(np.abs(x.data[:, at]).max() for x in result.patterns().values())
        limits = heads[0].images[0].get_clim()
        assert_allclose(limits, [-largest / unit, largest / unit], rtol=1e-12, atol=0)


def test_many_channels_and_classes_have_patterns():
    result = decode_epochs(simulate_epochs(n_classes=3, random_state=0), step=0.1)
    (_, (alternative,)) = images_in(read_section(result, "Activation patterns"))
    assert "Activation pattern" in alternative
    assert best_place(result) == (result.scores.argmax(),)
    power = build.result("TimeFrequencyResult", n_permutations=0)
    at = np.unravel_index(power.scores.argmax(), power.shape)
    assert best_place(power) == at
