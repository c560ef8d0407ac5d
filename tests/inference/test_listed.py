"""The names for type checkers and editors are those that there are, in their order."""

from typing import get_args

import pytest

from mvpa_kfda.group.latency import ONSETS
from mvpa_kfda.group.second_level import METHODS
from mvpa_kfda.inference import listed
from mvpa_kfda.inference.corrections import CORRECTIONS, NAMED
from mvpa_kfda.inference.permutation import SCHEMES


@pytest.mark.parametrize(
    ("names", "known"),
    [
        (listed.CorrectionName, CORRECTIONS),
        (listed.Permute, ["auto", *SCHEMES]),
        (listed.MethodName, METHODS),
        (listed.ComparisonName, ["permutation"]),
        (listed.OnsetName, ONSETS),
    ],
)
def test_all_names_are_listed(names, known):
    assert get_args(names) == (*known,)


def test_corrections_of_some_maps_are_listed():
    of_courses = [name for name, known in CORRECTIONS.items() if known.of_courses]
    assert [*listed.OF_COURSES] == of_courses
    assert {*NAMED} - {*CORRECTIONS} == {listed.CLUSTER_FDR}
    assert METHODS["bootstrap"].corrections == (listed.CLUSTER_FDR,)
