"""Part of a result is what only these positions give."""

import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mvpa_kfda import (
    cross_validate,
    decode_arrays,
    generalize_arrays,
    load_result,
    methods_text,
    verify,
)
from tests import build

X, Y = build.trials((14, 12), 4, 8)
RUN = {"sfreq": 20, "n_permutations": 19, "random_state": 0, "cv": 4}
FOLDWISE = {"reg": [0.1, 1.0], "preprocess": "zscore", "keep_class_scores": True}


def same_but_for_the_call(one, other):
    """Compare results whose records say how much was decoded."""
    for name in ("scores", "null", "predicted", "lambdas", "fold_scores"):
        assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    for correction in ("none", "max", "cluster", "tfce"):
        assert_array_equal(one.pvalues(correction), other.pvalues(correction))


@pytest.mark.parametrize("options", [{}, FOLDWISE])
def test_selected_times_are_what_these_times_give(options, tmp_path):
    part = decode_arrays(X, Y, **RUN, **options).sel(times=slice(0.1, 0.3))
    alone = decode_arrays(X[:, :, 2:7], Y, tmin=0.1, **RUN, **options)
    assert type(part) is type(alone)
    assert_allclose(part.times, alone.times, rtol=1e-12)
    same_but_for_the_call(part, alone)
    assert_array_equal(part.class_scores, alone.class_scores)
    part.save(tmp_path / "part.h5")
    assert load_result(tmp_path / "part.h5") == part
    assert "times from 0.1 to 0.3 s were selected" in methods_text(part)
    assert not verify(part, X, Y).ok
    (score,) = part.sel(times=0.2).scores
    assert score == alone.scores[2]


def test_selected_cells_of_a_map_have_both_tests():
    where = {"train_times": slice(None, 0.2), "test_times": slice(0.1, None)}
    part = generalize_arrays(X, Y, **RUN).sel(**where)
    alone = generalize_arrays(
        X[:, :, :5],
        Y,
        X[:, :, 2:],
        tmin_test=0.1,
        same_trials=True,
        **RUN,
    )
    assert part.scores.shape == (5, 6)
    assert part.lambdas.shape == (5,)
    for name in ("scores", "null", "predicted", "lambdas"):
        # But for the mean of all times, which is taken out first.
        assert_allclose(getattr(part, name), getattr(alone, name), rtol=1e-9)
    assert_array_equal(part.second_nulls["accuracy"], alone.second_nulls["accuracy"])
    p = generalize_arrays(X, Y, **RUN).pvalues()
    assert_array_equal(part.pvalues(), p[:5, 2:])
    both = part.sel(test_times=0.2).parameters["selection"]
    assert both.endswith("; test times from 0.2 to 0.2 s")


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ({}, "Invalid coordinates: none"),
        ({"freqs": 3}, "can be selected by times"),
        ({"times": slice(5, 6)}, "go from 0 to 0.35 s"),
        ({"times": slice(0, 1, 2)}, "has a step"),
        ({"times": "early"}, r"Allowed: a number, or slice\(start, stop\), in s"),
    ],
)
def test_what_is_not_there_cannot_be_selected(where, message):
    with pytest.raises(ValueError, match=message):
        decode_arrays(X, Y, cv=4, sfreq=20).sel(**where)


def test_a_single_position_has_no_part():
    with pytest.raises(ValueError, match="DecodingResult has no times or frequencies"):
        cross_validate(X[:, :, 0], Y).sel(times=0.1)


def test_summaries_of_whole_maps_are_of_no_part():
    result = generalize_arrays(X, Y, null="max", **RUN)
    with pytest.raises(ValueError, match="null='full'"):
        result.sel(test_times=0.1)
