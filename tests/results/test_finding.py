"""What a map shows, in the words of every place that tells it."""

import numpy as np
import pytest

from mvpa_kfda import DecodingResult, TimeResult
from mvpa_kfda.results.finding import Finding
from tests import build

TIMES = np.array([0.1, 0.2, 0.3, 0.4])


def made(scores, n_permutations=39):
    null = np.full((n_permutations, 4), 0.5)
    return build.made(TimeResult, np.array(scores), null, times=TIMES)


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


def test_the_finding_is_the_best_score_and_its_test():
    result = made([0.5, 0.9, 0.825, 0.4])
    assert str(Finding(result)) == (
        "highest accuracy 0.900 at 0.2 s (chance 0.500); significant at 2 of 4 time "
        "points: 0.2 to 0.3 s (p ≤ 0.05, max-statistic correction; smallest p = 0.025)"
    )
    none = Finding(result, alpha=0.01, name=repr)
    assert none.test.startswith("significant at none of 4 time points (p ≤ 0.01, max")
    assert none.test.endswith(
        "smallest p = 0.025; too few permutations to reach this level)"
    )
    less = Finding(result, "none", alternative="less")
    assert less.headline == "lowest accuracy 0.400 at 0.4 s (chance 0.500)"
    assert "(p ≤ 0.05, uncorrected" in less.test
    assert less.spans == "0.4 s"
    clusters = Finding(result, "cluster", threshold=0.1)
    assert "significant clusters cover 2 of 4 time points" in clusters.test
    assert "clusters formed at p ≤ 0.1; smallest p = 0.025" in clusters.test
    both = Finding(result, "none", alternative="two-sided")
    assert both.headline.startswith("accuracy furthest from chance 0.900 at 0.2 s")


def test_what_was_not_tested_or_decoded_says_so():
    plain = Finding(made([0.5, 0.9, 0.8, 0.4], 0))
    assert plain.test == "not tested, as there are no permutations"
    assert np.isnan(plain.smallest_p)
    empty = Finding(made([np.nan] * 4, 0))
    assert str(empty) == "highest accuracy none"
    single = Finding(
        build.made(DecodingResult, 0.7, np.full(19, 0.5), class_scores=np.ones((12, 2)))
    )
    assert str(single) == "accuracy 0.700 (chance 0.500); p = 0.050"
    difference = Finding(build.comparison())
    assert difference.headline.startswith("largest difference in accuracy ")
    assert difference.score[0] in "+-"
    group = Finding(build.group())
    assert group.headline.startswith("highest mean accuracy ")
