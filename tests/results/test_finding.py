"""What a map shows, in the words of every place that tells it."""

import numpy as np
import pytest

from mvpa_kfda import TimeResult
from mvpa_kfda.results.finding import Finding
from tests import build

TIMES = np.array([0.1, 0.2, 0.3, 0.4])


@pytest.mark.parametrize(
    ("high", "spans"),
    [
        ([True, False, True, True], "0.1, 0.3 to 0.4 s"),
        ([True, True, False, True], "0.1 to 0.2, 0.4 s"),
        ([True] * 4, "0.1 to 0.4 s"),
        ([False] * 4, ""),
    ],
)
def test_times_in_a_row_are_one_span(high, spans):
    scores, null = np.where(high, 0.9, 0.5), np.full((39, 4), 0.5)
    found = Finding(build.made(TimeResult, scores, null=null, times=TIMES), "none")
    assert found.spans == spans
    assert found.n == sum(high)
