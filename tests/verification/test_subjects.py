"""The results that a group was made of are found by their checksums."""

from dataclasses import replace

import numpy as np
import pytest

from mvpa_kfda import group_inference, load_result, verify
from tests import build
from tests.to_verify import KINDS, edited

OPTIONS = {"n_permutations": 60, "random_state": 0, "alpha": 0.3}


def subjects(first=0):
    """Return results of three subjects."""
    return [build.result("DecodingResult", seed) for seed in range(first, first + 3)]


def test_other_subjects_are_named(tmp_path):
    mine, others = subjects(), subjects(10)
    saved = build.saved_in(tmp_path, mine)
    group = group_inference(saved, "sign-flip", "max", **OPTIONS)
    assert verify(group, saved[::-1]).ok  # in any order, by their names
    assert verify(group, mine[::-1]).ok  # which have none
    one, two = (path.read_bytes() for path in saved[:2])
    saved[0].write_bytes(two)
    saved[1].write_bytes(one)
    found = str(verify(group, saved))
    assert "the results of sub-01 and sub-02 are swapped" in found
    saved[0].write_bytes(one)
    assert "the result given as sub-02 is that of sub-01" in str(verify(group, saved))
    saved[1].write_bytes(two)
    found = verify(group, saved[::2])
    assert "the result of sub-02 is not given" in str(found)
    others[0].save(saved[2], overwrite=True)
    found = verify(group, saved)
    assert not found.ok
    assert len(found.cells) == 0
    for given, more, words in (
        (saved, {}, "the result of sub-03 is another one than recorded"),
        ([*mine[:2], others[0]], {}, "the result of sub-03 is another one"),
        (mine[:2], {}, "the result of sub-03 is not given"),
        ([*mine, others[0]], {}, "number 4 is none of the results of the group"),
        (mine, {"other": mine}, "results of the other list are given, and were not"),
    ):
        assert words in str(verify(group, given, **more))
    two = group_inference(mine, "t", "none", other=others, **OPTIONS)
    words = "the results of the other list are not given, and were when it was made"
    assert words in str(verify(two, mine))


def test_subjects_of_a_second_list_have_its_name(tmp_path):
    saved = build.saved_in(tmp_path, subjects())
    (tmp_path / "more").mkdir()
    other = build.saved_in(tmp_path / "more", subjects(first=10))
    for labels, ending in ((None, "other"), (("old", "young"), "young")):
        options = OPTIONS | {"other": other, "paired": True, "labels": labels}
        group = group_inference(saved, "sign-flip", "max", **options)
        names = [f"{name} ({ending})" for name in group.subjects]
        assert [*group.other_subjects] == names
        assert verify(group, saved[::-1], other=other[::-1]).ok


@pytest.mark.some(7)
@pytest.mark.parametrize("kind", KINDS)
def test_checksums_are_of_the_content(kind, tmp_path):
    first = build.result(kind)
    first.save(tmp_path / "result.h5")
    assert load_result(tmp_path / "result.h5").checksum == first.checksum
    assert replace(first, versions={}).checksum == first.checksum
    predicted = edited(first.predicted, -1, 1).astype(first.predicted.dtype)
    metrics = {name: np.asarray(x) + 0.01 for name, x in first.metrics.items()}
    nulls = {name: edited(x, -1, 0.01) for name, x in first.nulls.items()}
    for forged in ({"predicted": predicted}, {"metrics": metrics}, {"nulls": nulls}):
        assert replace(first, **forged).checksum != first.checksum
