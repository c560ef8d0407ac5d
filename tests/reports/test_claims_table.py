"""The table of claims shows its sentences whole."""

from html import escape

import pandas as pd
import pytest

from mvpa_kfda import claims
from tests import build


@pytest.mark.filterwarnings("ignore")
def test_sentences_are_printed_whole():
    results = {"one": build.result(n_permutations=99), "all": build.group()}
    table = claims(results)
    shown = " ".join(str(table).split())
    html = table._repr_html_()
    for sentence in [*table["statement"], *table["missing"]]:
        assert sentence in shown
        assert escape(sentence, quote=False) in html
    assert "all, how large" in str(table)
    assert "(95 % confidence; label permutations" in shown
    assert "Not supported. This is one subject." in shown
    assert max(map(len, str(table).splitlines())) < 90
    assert type(table[["claim", "missing"]]) is pd.DataFrame
    del table["missing"]
    assert "10 rows" in str(table)
