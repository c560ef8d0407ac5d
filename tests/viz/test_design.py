"""The picture of a design: trials, folds and blocks of exchange."""

import numpy as np
import pytest
from matplotlib.text import Text
from numpy.testing import assert_array_equal
from sklearn.model_selection import KFold

from mvpa_kfda import check_design
from tests import build

RUNS = np.repeat(np.arange(6), 20)


def cells(ax):
    return np.ma.filled(ax.collections[0].get_array(), -1)


def test_trials_folds_and_blocks_are_those_of_the_design():
    y = np.random.default_rng(0).permuted(np.tile([0, 1], (6, 10)), axis=1)
    design = check_design(y.ravel(), RUNS)
    figure = design.plot()
    trials, folds, blocks = figure.axes
    assert_array_equal(cells(trials), y)
    assert [text.get_text() for text in trials.get_yticklabels()] == [*"012345"]
    assert_array_equal(cells(folds), 1 + np.eye(6))
    assert_array_equal(cells(blocks), np.eye(6))
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels[:4] == ["0", "1", "trained", "tested"]
    assert [ax.get_title() for ax in figure.axes] == ["Trials", "Folds", "Exchange"]
    assert not design.plot(legend=False).legends
    mixing = KFold(3, shuffle=True, random_state=0)
    figure = check_design(y.ravel()[:60], RUNS[:60], mixing).plot()
    assert (cells(figure.axes[1]) == 3).all()
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert "group in both training and test set" in labels


@pytest.mark.parametrize("n_names", [3, 12])
def test_names_of_classes_are_as_they_are_and_fit(n_names):
    names = ["$\\frac{1}{$", "b$", "$x$ and $y$"]
    names += [f"the category of objects {k}" for k in range(n_names - 3)]
    figure = check_design(names * 5, np.repeat(np.arange(5), n_names)).plot()
    figure.canvas.draw()
    assert any(names[0] in text.get_text() for text in figure.findobj(Text))
    box = figure.legends[0].get_window_extent()
    assert figure.bbox.padded(1).fully_containsx(box.x1)
    assert all(ax.bbox.y0 > box.y1 and ax.bbox.height > 40 for ax in figure.axes)


def test_trials_without_groups_take_several_lines():
    codes = build.codes_of((40, 40))
    trials, folds, *_ = check_design(codes, cv=KFold(5)).plot().axes
    assert_array_equal(cells(trials), codes.reshape(4, 20))
    tested = np.arange(80).reshape(4, 20) // 16
    parts = [
        [(row == k).any() * 2 + (row != k).any() for k in range(5)] for row in tested
    ]
    assert_array_equal(cells(folds), parts)
