"""What notebooks show of results: a table of facts and a small figure."""

import io
import re
from base64 import b64decode
from dataclasses import replace
from functools import cache
from html import unescape

import matplotlib.pyplot as plt
import numpy as np
import pytest

from mvpa_kfda import TimeResult
from mvpa_kfda.results.load import RESULTS
from tests import build

pytestmark = pytest.mark.filterwarnings("ignore:.* resamples:RuntimeWarning")


@cache
def result_of(kind, n_permutations=39):
    made = {"GroupResult": "group", "ComparisonResult": "comparison"}
    name = made.get(kind, kind.lower())
    if kind in made or kind == "Latency":
        return getattr(build, name)()
    return build.result(kind, n_permutations=n_permutations)


@pytest.mark.some(5)
@pytest.mark.parametrize("n_permutations", [39, 0])
@pytest.mark.parametrize("kind", [*RESULTS, "regions"])
def test_notebooks_show_facts_and_a_figure(kind, n_permutations):
    result = result_of(kind, n_permutations)
    html = result._repr_html_()
    assert not plt.get_fignums()
    assert f"<strong>{type(result).__name__}</strong>" in html
    assert not re.search("<script|<style|<link|http", html)
    # Single scores are drawn on the permutations, if there are any.
    lacks = kind in ("DecodingResult", "RegressionResult") and not n_permutations
    if kind == "VolumeResult" or lacks:
        assert "<img" not in html  # brains take too long
        return
    (data,) = re.findall(r'src="data:image/png;base64,([^"]*)"', html)
    assert plt.imread(io.BytesIO(b64decode(data, validate=True))).std() > 0
    alternative = re.search('alt="([^"]*)"', html)[1]
    assert unescape(alternative) == repr(result)
    assert not set("<>") & set(alternative)


def facts_in(result):
    """Return the rows of the table."""
    rows = re.findall(
        r"<tr><th[^>]*>(.*?)</th><td[^>]*>(.*?)</td></tr>", result._repr_html_()
    )
    return {name: unescape(words) for name, words in rows}


def test_facts_are_where_the_best_score_is_and_the_p_of_its_test():
    result = result_of("GeneralizationResult")
    facts = facts_in(result)
    i, j = np.unravel_index(result.scores.argmax(), result.shape)
    train, test = result.train_times[i], result.test_times[j]
    place = f"training time {train:g} s and test time {test:g} s"
    best = f"{result.scores.max():.3f} at {place} (chance {result.chance:.3f})"
    assert facts["Highest accuracy"] == best
    test = f"max-statistic correction; smallest p = {result.pvalues('max').min():.3f}"
    assert test in facts["Test"]
    words = "16 trials, 2 classes (ant, bee), 4 folds, 39 permutations"
    assert facts["Computed from"] == words
    result = build.comparison(correction="fdr")
    best, facts = np.abs(result.scores).argmax(), facts_in(result)
    expected = f"{result.scores[best]:+.3f} at {result.times[best]:g} s"
    assert facts["Largest difference in accuracy"] == expected
    test = f"FDR correction; smallest p = {result.pvalues('fdr').min():.3f}"
    assert test in facts["Test"]
    group = build.group("VolumeResult")
    facts, peak = facts_in(group), group.peak()
    assert facts["Positions"] == "12 voxels"
    place = ", ".join(f"{peak[name]:g}" for name in "xyz")
    assert f" at x, y, z = {place} mm (" in facts["Highest mean accuracy"]


def test_labels_are_text_and_not_html():
    classes = np.array(["<b>", '"&'])
    html = replace(result_of("TimeResult"), classes=classes)._repr_html_()
    assert "2 classes (&lt;b&gt;, &#34;&amp;)" in html
    assert "<b>" not in html


def test_notebooks_never_fail_or_take_long(monkeypatch):
    tables, times = {"confusion_matrix": np.zeros((3, 2, 2))}, np.arange(3.0)
    fields = {"metrics": tables, "chances": {"confusion_matrix": np.nan}}
    html = build.made(TimeResult, np.zeros(3), times=times, **fields)._repr_html_()
    assert "Highest" not in html  # no number, no curve
    assert "<img" not in html
    assert "12 trials" in html
    space = build.surface_space()
    empty = build.made_of_images(space, np.full(space.n_positions, np.nan))
    assert facts_in(empty)["Highest accuracy"] == "none"
    result = build.result("TimeResult")
    broken = replace(result, nulls={"accuracy": np.full_like(result.null, np.nan)})
    assert "mallest p" not in broken._repr_html_()
    named = replace(result, classes=np.array(["$\\frac$", "b"]))
    assert "<img" in named._repr_html_()
    monkeypatch.setattr("mvpa_kfda.results.base._MANY_SCORES", 27)
    html = result._repr_html_()  # many permutations are not tested for a glance
    assert "mallest p" not in html
    assert "<img" not in html
