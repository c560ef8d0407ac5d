"""Kinds of results: their docs, and their figures as methods."""

import inspect

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from mvpa_kfda.results.epochs import TimeFrequencyResult, TimeResult
from mvpa_kfda.results.fields import RESULTS, plain, plain_values
from mvpa_kfda.viz.time import plot_time
from tests import build


def test_docs_of_a_kind_have_the_inherited_fields_in_its_own_shapes():
    text = TimeFrequencyResult.__doc__
    assert "nulls : dict of str -> array, shape (P, n_freqs, n_times)\n" in text
    assert "predicted : array of int, shape (n_freqs, n_times, n)\n" in text
    assert text.count("\npattern_maps : ") == 1  # its own description stands
    assert (
        text.index("\nfreqs : ") < text.index("\nmetrics : ") < text.index("Examples")
    )
    maps = [
        kind for kind in RESULTS.values() if isinstance(vars(kind).get("axes"), dict)
    ]
    assert len(maps) == 7
    for kind in maps:
        assert "positions..." not in kind.__doc__
    # The places of a group's map are those of its subjects.
    assert "statistic : array, shape (positions...)\n" in RESULTS["GroupResult"].__doc__


def test_figures_of_a_result_are_those_of_the_function():
    (first, *others) = inspect.signature(TimeResult.plot).parameters.values()
    (_, *expected) = inspect.signature(plot_time).parameters.values()
    assert first.name == "self"
    assert others == expected
    text = inspect.getdoc(TimeResult.plot)
    assert "Parameters\n----------\nmetric : str or None\n" in text
    assert "result : " not in text
    assert ">>>" not in text
    result = build.result()
    (ax, other) = result.plot(correction="fdr"), plot_time(result, correction="fdr")
    for line, expected in zip(ax.lines, other.lines, strict=True):
        assert_array_equal(line.get_xydata(), expected.get_xydata())
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        result.plot(colour="red")


def test_single_numbers_are_floats_and_others_arrays():
    assert type(plain(np.float32(0.5))) is float
    values = plain_values({"one": np.array(2), "many": [1, 2]})
    assert type(values["one"]) is float
    assert_array_equal(values["many"], [1, 2], strict=True)
