"""What can be claimed: every sentence where its guarantee holds, and nowhere else."""

from functools import cache

import numpy as np
import pytest

from mvpa_kfda import (
    bootstrap_latency,
    claims,
    compare,
    cross_validate,
    decode_arrays,
    group_inference,
)
from mvpa_kfda.utils.rounding import rounded
from tests import build

pytestmark = pytest.mark.filterwarnings("ignore")
TIMES = dict(sfreq=10, n_permutations=99, random_state=0, reg=0.3)


@cache
def subject(seed, separation=2.0):
    """Return a time course of six times, with an effect at the last three but one."""
    rng = np.random.default_rng(seed)
    y = np.repeat(["face", "house"], 20)
    X = rng.normal(size=(40, 4, 6))
    X[y == "house", :, 2:5] += separation
    return decode_arrays(X, y, **TIMES)


@cache
def single(seed, separation=2.0):
    """Return a result of a single position."""
    X, y = build.features((20, 20), 4, seed, separation)
    return cross_validate(X, y, n_permutations=99, random_state=0, reg=0.3)


@cache
def group(method, correction, separation=2.0, n=10, carriers=None, make=subject, **how):
    """Return a group of subjects, of whom the carriers have an effect."""
    have = range(n if carriers is None else carriers)
    subjects = [make(s, separation if s in have else 0.0) for s in range(n)]
    options = {"random_state": 0, "n_permutations": 1999} | how
    if correction:
        options["correction"] = correction
    return group_inference(subjects, method, **options)


def said(result, claim):
    """Return the row of a claim."""
    table = claims(result)
    [row] = table[table["claim"] == claim].to_dict("records")
    assert bool(row["statement"]) != bool(row["missing"])
    return row


def made(words):
    """Return a result by its name: method, correction, and what is not as usual."""
    name, *more = words.split()
    separation = 0.0 if "noise" in more else 2.0
    if name in ("time", "single"):
        return {"time": subject, "single": single}[name](0, separation)
    if name == "latency":
        return bootstrap_latency([subject(s) for s in range(8)], random_state=0)
    if name == "untested":
        return decode_arrays(*build.trials((12, 12), 4, 6, 0), reg=0.3)
    if name == "i-test":
        carriers = 7 if "few" in more else None
        return group(name, None, separation, carriers=carriers, order=2, n=14)
    return group(name, more[0], separation, n=5 if "five" in more else 10)


#: Sentence -> claim, results that allow it, and results that do not.
SENTENCES = {
    "At each of 3 of 6 time points, accuracy is above that of permuted": (
        *("where", "time", "time noise, untested"),
    ),
    "At each of 3 of 6 time points, mean accuracy over the population is above": (
        *("where", "sign-flip max"),
        "sign-flip max noise, sign-flip cluster, sign-flip fdr, sign-flip tfce, "
        "sign-flip none, bootstrap max, prevalence max",
    ),
    "at least one person of the population has an effect": (
        *("where", "prevalence max", "prevalence max noise, sign-flip max"),
    ),
    "at least one of these subjects has an effect": (
        *("where", "bootstrap max", "bootstrap max noise, prevalence max"),
    ),
    "In one cluster, mean accuracy over the population is above chance somewhere": (
        *("where", "sign-flip cluster", "sign-flip cluster noise, sign-flip max"),
    ),
    "5 % are expected to be false at most": (
        *("where", "sign-flip fdr", "sign-flip fdr noise, sign-flip max"),
    ),
    "Accuracy is above that of permuted labels (p = 0.010)": (
        *("where", "single", "single noise"),
    ),
    "By 0.2 s, accuracy is above": ("from when", "time", "time noise, single"),
    "By 0.2 s, mean accuracy": (
        *("from when", "sign-flip max, sign-flip cluster-depth"),
        "sign-flip cluster, sign-flip fdr, sign-flip tfce, sign-flip max noise",
    ),
    "The onset of mean accuracy lies between": (
        *("from when", "latency", "time, sign-flip max"),
    ),
    "At least 3 of 6 time points (50 %) have an effect": (
        *("how much", "time, sign-flip cluster"),
        "time noise, single, t bonferroni, sign-flip max noise",
    ),
    "more than 50 % of the population have an effect": (
        *("how many", "i-test"),
        "i-test noise, i-test few, sign-flip max, bootstrap max, time",
    ),
    "of the population have an effect at 0.": (
        *("how many", "prevalence max", "prevalence max noise, sign-flip max"),
    ),
    "mean accuracy over the population is between": (
        *("how large", "sign-flip max, i-test", "time, sign-flip max five"),
    ),
    "and nowhere above 0.6": ("how large", "sign-flip max noise", "sign-flip max"),
}


@pytest.mark.parametrize("sentence", SENTENCES)
def test_every_sentence_stands_where_its_guarantee_holds(sentence):
    claim, allowing, refusing = SENTENCES[sentence]
    for name in allowing.split(", "):
        row = said(made(name), claim)
        assert sentence.lower() in row["statement"].lower()
        assert row["method"]
    for name in refusing.split(", "):
        assert sentence.lower() not in said(made(name), claim)["statement"].lower()


def test_bounds_and_confidences_are_those_of_the_results():
    result = subject(0)
    p = result.pvalues("max")
    assert said(result, "where")["bound"] == np.count_nonzero(p <= 0.05)
    assert said(result, "from when")["bound"] == result.onset()
    assert said(result, "how much")["bound"] == result.true_discoveries().n_true
    people = group("prevalence", "max")
    assert said(people, "how many")["bound"] == np.nanmax(people.gamma_0)
    large = group("sign-flip", "max", 0.0)
    high = large.interval(0.95, simultaneous=True).high.max()
    assert high <= said(large, "how large")["bound"] < high + 1e-3
    latency = made("latency")
    low, high = latency.onset_interval
    words = f"lies between {rounded(low)} and {rounded(high)} s."
    assert words in said(latency, "from when")["statement"]
    assert said(latency, "from when")["bound"] == low
    # A false discovery rate gives no confidence.
    assert np.isnan(said(group("sign-flip", "fdr"), "where")["confidence"])
    assert said(group("sign-flip", "max"), "where")["confidence"] == 0.95
    strict = group("sign-flip", "max", alpha=0.01)
    assert said(strict, "where")["confidence"] == 0.99


@pytest.mark.parametrize(
    ("n_others", "make", "method", "source"),
    [
        (0, "single", "inverted sign flips", "Hartigan (1969)"),
        (7, "single", "inverted permutations of group labels", "Garthwaite (1996)"),
        (0, "subject", "largest t under sign flips", "Nichols & Holmes (2002)"),
    ],
)
def test_intervals_cite_their_method(n_others, make, method, source):
    make = {"single": single, "subject": subject}[make]
    others = [make(20 + s) for s in range(n_others)] or None
    people = [make(s) for s in range(8)]
    found = group_inference(people, "sign-flip", other=others, random_state=0)
    row = said(found, "how large")
    assert row["method"].startswith(method)
    assert row["source"] == source


def test_a_comparison_says_which_result_is_better():
    y = np.repeat([0, 1], 20)
    X = np.random.default_rng(0).normal(size=(40, 4))
    X[:, 0] += 3 * y
    options = {"n_permutations": 99, "random_state": 0, "reg": 0.3}
    good, bad = (cross_validate(Z, y, **options) for Z in (X, X[:, 1:]))
    found = compare(good, bad, labels=("all", "three"))
    words = "Accuracy differs between all and three"
    assert said(found, "where")["statement"].startswith(words)
    assert "not people" in said(found, "how many")["missing"]
    large = said(found, "how large")
    assert "The difference in accuracy is between" in large["statement"]
    assert large["bound"] == pytest.approx(float(found.interval().high), abs=1e-3)


def test_several_results_have_their_names():
    table = claims({"one": subject(0), "all": group("sign-flip", "max")})
    assert table["result"].tolist() == ["one"] * 5 + ["all"] * 5
    assert claims(subject(0))["claim"].tolist() == table["claim"].tolist()[:5]
    with pytest.raises(TypeError, match=r"claims\(load_result\(path\)\)"):
        claims("result.h5")


@pytest.mark.slow
def test_noise_is_claimed_of_as_rarely_as_is_said():
    wrong = dict.fromkeys(["where", "from when", "how much"], 0)
    n = 300
    for seed in range(n):
        for claim in wrong:
            wrong[claim] += bool(said(subject(seed, 0.0), claim)["statement"])
    # Binomial, with a probability of 1e-4.
    assert max(wrong.values()) <= 31
