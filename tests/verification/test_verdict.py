"""The verdict says how much was looked at, and which share may differ all the same."""

import json

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.stats import hypergeom

from mvpa_kfda import Verification, verify
from mvpa_kfda.verification.verdict import COLUMNS, largest_share, read_record
from tests.to_verify import RUNS, WHOLE, X, Y, honest


def test_the_largest_share_that_may_differ_is_hypergeometric():
    for drawn, total in (
        *((10, 1194), (20, 21), (1, 2), (3, 60), (500, 10**6), (7, 7)),
    ):
        n = round(largest_share(drawn, total) * total)
        missed, found = hypergeom.pmf(0, total, [n, n + 1], drawn)
        assert missed > 0.05
        assert found <= 0.05 or n == total
        if drawn == 500:  # of very many, as if drawn with replacement
            assert_allclose(n / total, 1 - 0.05 ** (1 / drawn), rtol=1e-3, atol=0)
        assert largest_share(0, total) == 1


def test_the_verdict_says_how_much_was_looked_at():
    n, n_folds, n_permuted = 3, 4, 3 * 9
    found = verify(honest(), X, Y, groups=RUNS, n_cells=6, random_state=0)
    assert found.samples == (
        ("cell of the observed labels", 3, n * n_folds),
        ("cell of permuted labels", 3, n_permuted),
    )
    assert f"3 of {n * n_folds} cells of the observed labels" in str(found)
    share = np.ceil(100 * largest_share(3, n_permuted))
    assert f"{share:g} %" in str(found)
    # The position whose folds were all refitted is not drawn again.
    cells = found.cells[found.cells["permutation"] == 0]
    whole = cells["position"][cells["fold"] == "all"]
    assert not set(cells["position"][cells["fold"] != "all"]) & set(whole)
    assert isinstance(found, Verification)
    assert "<table" in found._repr_html_()
    assert found.verdict in repr(found)
    found = verify(honest(), X, Y, **WHOLE)
    assert [drawn == total for _, drawn, total in found.samples] == [True, True]
    assert "confidence" not in str(found)


def table(*ok, n_ties=0):
    """Return a table of cells, some of which agree."""
    cells = pd.DataFrame(0, index=range(len(ok)), columns=COLUMNS)
    return cells.assign(ok=ok, n_ties=n_ties)


def test_what_is_found_decides_on_the_verdict():
    all_of, some = (("cell", 2, 2),), (("cell", 2, 40), ("fold", 2, 40))
    for given, is_fine, words in (
        ({"samples": all_of}, True, "holds: all 2 cells refitted, all equal."),
        ({"samples": some}, True, "of 40 folds refitted, all equal. At 95 % confid"),
        ({"samples": some}, True, "at most 75 % of each differ."),
        ({"recomputed": (2, 6)}, True, "where it was looked at: 2 of 6 positions rec"),
        ({"recomputed": (6, 6)}, True, "holds: all 6 positions recomputed"),
        ({"unverified": ("a", "b")}, False, "cannot be verified because a; b."),
        ({"differences": ("a", "b")}, False, "does NOT hold: a; b."),
        ({"cells": table(True, False)}, False, "1 of 2 refitted cells differ"),
        ({"cells": table(True, n_ties=1)}, True, "all equal (1 tie within rounding)"),
    ):
        found = Verification(**{"cells": table(True, True)} | given)
        assert found.ok == is_fine, words
        assert words in found.verdict


def test_records_are_of_a_file_as_it_is(tmp_path):
    path, place = tmp_path / "result.h5", tmp_path / "result.verified.json"
    path.write_bytes(b"numbers")
    assert read_record(path) is None
    found = Verification(cells=table(True), samples=(("cell", 1, 1),))
    found.record(path)
    record = read_record(path)
    assert record["ok"] is True
    assert (record["verdict"], record["n_cells"]) == (found.verdict, 1)
    path.write_bytes(b"other numbers")
    assert read_record(path) is None
    place.write_text(json.dumps(record | {"ok": "yes", "date": 3}))
    with pytest.raises(ValueError, match="damaged: it does not say ok or date"):
        read_record(path)
    place.write_text("[" * 10_000)
    with pytest.raises(ValueError, match="cannot be read as JSON"):
        read_record(path)
    with pytest.raises(FileNotFoundError, match="no"):
        found.record(tmp_path / "no.h5")
