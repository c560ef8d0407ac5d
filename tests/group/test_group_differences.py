"""Subjects that differ in one thing each are tested, worded and reported as others are.

What they may differ in is read off their records, so that a new parameter is tried as
well. The warnings that tell of differences are in `test_group_subjects`.
"""

import re
import warnings
from contextlib import suppress
from dataclasses import MISSING, fields, replace
from functools import cache
from itertools import cycle

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.model_selection import GroupKFold, LeaveOneGroupOut, StratifiedKFold

from mvpa_kfda import (
    bootstrap_latency,
    cross_validate,
    decode_arrays,
    group_inference,
    load_result,
    methods_text,
)
from mvpa_kfda.cli.main import main
from mvpa_kfda.group.subjects import MAY_DIFFER, NUMBERS, Subjects, join_lists
from mvpa_kfda.reports import sections
from mvpa_kfda.reports.page import report
from tests import build

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*analysed differently from:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:With .* the smallest:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:With .* the prevalence bound:RuntimeWarning"),
]
KINDS = ["TimeResult", "GeneralizationResult", "VolumeResult", "regions"]
#: A map whose trials were tested in another way does not go with the others.
REFUSED = {"mode", "no mode", "no second_nulls"}


def gather_subjects(results, **options):
    """Gather the subjects of one list."""
    return Subjects(*join_lists(results), **options)


@cache
def subjects(kind):
    options = {"scoring": "pearsonr"} if "Regression" in kind else {}
    results = [build.result(kind, seed, **options) for seed in range(5)]
    # Its words have no number of folds.
    by_runs = {"cv": {"name": "LeaveOneGroupOut"}}
    return [replace(each, parameters=each.parameters | by_runs) for each in results]


def another(value):
    """Return another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        return f"{value}2"
    if isinstance(value, dict):
        return value | {"name": f"{value['name']}2"}
    return [*(value or ()), "ANOTHER"]


def differing(result):
    """Yield what a result may differ in from others, and the result that does."""
    for name in ("parameters", "versions"):
        record = getattr(result, name)
        for key, value in record.items():
            lacks = {k: v for k, v in record.items() if k != key}
            yield f"no {key}", replace(result, **{name: lacks})
            yield key, replace(result, **{name: record | {key: another(value)}})
    for field in fields(result):
        default = field.default
        if field.default_factory is not MISSING:
            default = field.default_factory()
        value = getattr(result, field.name)
        is_empty = isinstance(value, dict) and not value  # and cannot be missing
        if default is not MISSING and not is_empty:
            with suppress(ValueError):  # what the others of its fields need is there
                yield f"no {field.name}", replace(result, **{field.name: default})
    groups = build.groups_of(len(result.y)) if result.groups is None else None
    yield "groups", replace(result, groups=groups)
    yield "warnings", replace(result, warnings=("The order is not random.",))
    names = [n for n in ("nulls", "second_nulls") if hasattr(result, n)]
    fewer = {n: {k: v[:4] for k, v in getattr(result, n).items()} for n in names}
    yield "permutations", replace(result, **fewer)
    first, names = result.scoring[0], ("metrics", "nulls", "chances")
    more = {n: getattr(result, n) | {"other": getattr(result, n)[first]} for n in names}
    yield "scores of another metric", replace(result, **more)


ALL_KINDS = [*KINDS, "RegressionResult"]


@cache
def kinds_that_try():
    """Map each thing to two of the kinds that may differ in it, by turns."""
    having = {}
    for kind in ALL_KINDS:
        for thing, _ in differing(subjects(kind)[0]):
            having.setdefault(thing, []).append(kind)
    turned = enumerate(having.items())
    return {thing: (2 * kinds)[i % len(kinds) :][:2] for i, (thing, kinds) in turned}


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_one_subject_differs_in_one_thing(kind, monkeypatch):
    monkeypatch.setattr(sections, "_draw", lambda *drawn, **options: "")
    monkeypatch.setattr(sections, "views_of", lambda space: [])
    others, how = subjects(kind), {"n_permutations": 49, "random_state": 0}
    expected = group_inference(others, **how)
    place = 0 if kind == "TimeResult" else 2  # the one that others are compared with
    records = {*others[0].parameters, *others[0].versions}
    for thing, one in differing(others[place]):
        records.discard(thing)
        if kind not in (kinds := kinds_that_try()[thing]):
            continue
        results = [*others[:place], one, *others[place + 1 :]]
        if thing in REFUSED:
            with pytest.raises(ValueError, match=r"Subject [23]"):
                group_inference(results, **how)
            continue
        group = group_inference(results, **how)
        if thing not in ("permutations", "no second_scores"):
            assert_array_equal(group.pvalues(), expected.pvalues())
        text = methods_text(group).partition("\n\nReferences")[0]
        assert "of 5 subjects" in text
        for odd in ("None", "ANOTHER", "[", "{"):
            assert odd not in text, (thing, text)
        if kind == kinds[0]:
            assert "5 subjects" in "".join(report(group).html)
    assert not records


@pytest.mark.parametrize("kind", [*KINDS, "RegressionResult"])
def test_every_field_of_the_record_is_compared_unless_it_may_differ(kind):
    others = subjects(kind)
    for name, value in others[2].parameters.items():
        changed = others[2].parameters | {name: another(value)}
        results = [*others[:2], replace(others[2], parameters=changed), *others[3:]]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if name in REFUSED:
                with pytest.raises(ValueError, match=r"Subject 3"):
                    gather_subjects(results)
                continue
            gather_subjects(results)
        told = [text for each in caught if "differently" in (text := str(each.message))]
        called = {"ch_names": "channels"}.get(name, name)
        free = name in {*MAY_DIFFER, *NUMBERS, "scoring"}
        if name == "n_confounds":  # some instead of none
            called, free = "confounds", False
        assert len(told) == (not free), (name, told)
        if not free:
            assert told[0].startswith("Subject 3 was analysed differently from")
            assert f"first: {called} (" in told[0]


@pytest.mark.some(1)
@pytest.mark.parametrize("kind", ["TimeResult", "GeneralizationResult", "regions"])
def test_every_subject_differs_in_other_things(kind, tmp_path, capsys, monkeypatch):
    results = [*subjects(kind)]
    things = [pair for pair in differing(results[0]) if pair[0] not in REFUSED]
    # The page has the same figures.
    monkeypatch.setattr("mvpa_kfda.cli.output.save_figure", lambda *_, **__: None)
    for number, result in enumerate(results):
        lacked = [name for name, _ in things[number::5]]
        kept = {k: v for k, v in result.parameters.items() if f"no {k}" not in lacked}
        changed = {k: another(v) for k, v in kept.items() if k in lacked}
        result = replace(result, parameters=kept | changed)
        result.save(tmp_path / f"sub-{number}.h5")
    names = sorted(map(str, tmp_path.glob("sub-*.h5")))
    out = str(tmp_path / "out")
    assert main(["group", *names, "--n-permutations", "49", "--out", out]) == 0
    saved = f"{out}/group_prevalence.h5"
    assert main(["methods", saved]) == 0
    assert main(["report", saved]) == 0
    page = (tmp_path / "out" / "group_prevalence.html").read_text("utf-8")
    assert "could not be drawn" not in page
    assert "of 5 subjects" in capsys.readouterr().out


# ------------------------------------------------------- real analyses that differ


def decoded(seed, n=36, p=4, n_runs=None, decode=decode_arrays, **options):
    X, codes = build.trials((n // 3,) * 3, p, 3, seed)
    if n_runs is not None:
        options["groups"] = build.groups_of(n, n_runs)
    X = X if decode is decode_arrays else X[:, :, 0]
    options = {"n_permutations": 9, "random_state": seed} | options
    return decode(X, build.NAMES[codes], **options)


def sentence_of(results, start):
    text = methods_text(group_inference(results, "sign-flip", random_state=0))
    return next(each for each in re.split(r"\.\s", text) if each.startswith(start))


def test_numbers_that_subjects_do_not_share_are_ranges():
    results = [decoded(s, n_runs=3 + s % 3, cv=LeaveOneGroupOut()) for s in range(5)]
    assert sentence_of(results, "Each subject's scores were est") == (
        "Each subject's scores were estimated by leave-one-group-out cross-validation "
        "(3 to 5 folds)"
    )
    results = [decoded(s, n_runs=3 + s % 3, cv=GroupKFold(3 + s % 3)) for s in range(5)]
    assert sentence_of(results, "Each subject's scores were est") == (
        "Each subject's scores were estimated by 3- to 5-fold cross-validation with "
        "groups kept intact"
    )
    results = [
        decoded(s, cv=StratifiedKFold(3, shuffle=True, random_state=s))
        for s in range(5)
    ]
    assert sentence_of(results, "Each subject's scores were est") == (
        "Each subject's scores were estimated by stratified 3-fold cross-validation, "
        "trials in random order"
    )
    rng = np.random.default_rng(0)
    confounds = [rng.normal(size=(36, 1 + s % 2)) for s in range(5)]
    results = [decoded(s, confounds=confounds[s], cv=3) for s in range(5)]
    assert sentence_of(results, "The effect of").startswith(
        "The effect of 1 to 2 confound regressors was removed"
    )


def test_numbers_of_runs_on_the_command_line(tmp_path, capsys):
    for seed in range(3):
        decoded(seed, n_runs=3 + seed, cv=None).save(tmp_path / f"sub-{seed}.h5")
    names, out = sorted(map(str, tmp_path.glob("sub-*.h5"))), str(tmp_path / "out")
    assert main(["group", *names, "--method", "t", "--out", out]) == 0
    saved = f"{out}/group_t.h5"
    assert main(["methods", saved]) == 0
    assert "leave-one-group-out cross-validation (3 to 5 folds)" in (
        capsys.readouterr().out.replace("\n", " ")
    )
    assert main(["report", saved]) == 0


OPTIONS = {
    "folds": {"cv": 4},
    "runs": {"n_runs": 4, "cv": None},
    "channels": {"p": 6},
    "trials": {"n": 48},
    "penalty": {"reg": "ledoit_wolf"},
    "tuned": {"reg": "tuned"},
    "kernel": {"kernel": "rbf"},
    "permutations": {"n_permutations": 4},
    "metrics": {"scoring": ["roc_auc", "accuracy"]},
    "steps": {"preprocess": "zscore"},
    "confounds": {"confounds": np.random.default_rng(0).normal(size=(36, 2))},
    "averages": {"average": 2, "cv": 3},
    "repeats": {"average": 2, "cv": 3, "n_repeats": 2},
}


@pytest.mark.some(1)
@pytest.mark.filterwarnings("ignore:Single trials:UserWarning")
@pytest.mark.parametrize("decode", [decode_arrays, cross_validate])
def test_subjects_decoded_in_different_ways(decode, tmp_path, monkeypatch):
    monkeypatch.setattr(sections, "_draw", lambda *drawn, **options: "")
    monkeypatch.setattr(sections, "views_of", lambda space: [])
    usual = {"cv": 3, "decode": decode}
    others = [decoded(seed, **usual) for seed in range(1, 5)]
    how = {"metric": "accuracy", "random_state": 0, "n_permutations": 49}
    methods = ("prevalence", "sign-flip")[:: 1 if decode is decode_arrays else -1]
    for options, method in zip(OPTIONS.values(), cycle(methods), strict=False):
        results = [*others, decoded(0, **usual | options)]
        group = group_inference(results, method, **how)
        group.save(tmp_path / "group.h5", overwrite=True)
        assert "of 5 subjects" in methods_text(group)
        report(group)
        assert main(["methods", str(tmp_path / "group.h5")]) == 0


def test_times_may_differ_by_less_than_half_a_sample():
    results, step = [*subjects("TimeResult")], 0.01
    results[2] = replace(results[2], times=results[2].times + 0.4 * step)
    expected = group_inference(subjects("TimeResult"), random_state=0)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*differ")
        group = group_inference(results, random_state=0)
    assert_array_equal(group.times, results[0].times)
    assert_array_equal(group.pvalues(), expected.pvalues())
    assert group.parameters["first_level_differences"] == {
        "times": {"up to 0.004 s apart": ["subject 3"]}
    }
    assert "Times of subject 3 differed from those of the first" in methods_text(group)
    results[2] = replace(results[2], times=results[0].times + 0.6 * step)
    with pytest.raises(ValueError, match=r"Subject 3 differs .* 0\.006 to 0\.026"):
        group_inference(results, random_state=0)


def test_what_makes_scores_more_or_less_precise_is_told():
    n_runs = [3, 4, 3, 5]
    results = [decoded(s, n_runs=n, cv=None) for s, n in enumerate(n_runs)]
    results[3] = decoded(3, n=48, n_runs=5, cv=None)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*analysed differently from")
        group = group_inference(results, "sign-flip", random_state=0)
    shared = group.parameters["first_level"]
    assert (shared["n_groups"], shared["n_folds"]) == (n_runs, n_runs)
    assert "that were in 3 to 5 groups" in methods_text(group)
    table = "".join(report(group).html).partition("Scores of each subject")[2]
    rows = re.findall(r"(?s)<tr.*?</tr>", table.partition("</table>")[0])
    heads, *rows = [re.findall(r">([^<>]+)</t[hd]>", row) for row in rows]
    assert heads[2:] == ["Trials", "Groups", "Folds", "Permutations"]
    assert [row[2:4] for row in rows] == [["36", f"{n}"] for n in n_runs[:3]] + [
        ["48", "5"]
    ]


# ------------------------------------------------------- warnings that subjects share


def warned_of(number, *texts):
    return replace(subjects("TimeResult")[number], warnings=texts)


def test_what_subjects_were_warned_of_is_told_once(tmp_path, monkeypatch):
    monkeypatch.setattr(sections, "_draw", lambda *drawn, **options: "")
    monkeypatch.setattr(sections, "views_of", lambda space: [])
    alike = "Trials are in order: {} % of them."
    results = [warned_of(k, alike.format(50 + k)) for k in range(4)]
    results.append(warned_of(4, "No trial of <b>."))
    names = [f"sub-{k}" for k in range(5)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        group = group_inference(results, "sign-flip", subjects=names, alpha=0.1)
    told = {alike.format(50): names[:4], "No trial of <b>.": ["sub-4"]}
    assert group.subject_warnings == told
    group.save(tmp_path / "group.h5")
    assert load_result(tmp_path / "group.h5").subject_warnings == told
    html = "".join(report(group).html)
    shown = "Trials are in order: 50 % of them. (The numbers are those of sub-0.)"
    assert f"4 of 5 subjects (sub-0, sub-1, sub-2, and sub-3): {shown}" in html
    assert html.count("Trials are in order") == 2  # and below the text on methods
    assert "1 of 5 subjects (sub-4): No trial of &lt;b&gt;.<" in html


def test_warnings_of_all_subjects_are_counted(tmp_path, capsys):
    texts = [["Mind the gap.", f"There are {k} of them."] for k in range(5)]
    results = [warned_of(k, *texts[k]) for k in range(5)]
    told = (
        "5 of 5 subjects: Mind the gap.",
        "5 of 5 subjects: There are 0 of them. (The numbers are those of subject 1.)",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # they were given when subjects were decoded
        group = group_inference(results, "sign-flip", alpha=0.1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        how = {"min_duration": 0.01, "n_bootstraps": 100, "random_state": 0}
        latency = bootstrap_latency(results, **how)
    assert group.warnings == told
    assert latency.warnings[:2] == told
    for result, name in zip(results, "abcde", strict=True):
        result.save(tmp_path / f"{name}.h5")
    names, out = sorted(map(str, tmp_path.glob("*.h5"))), str(tmp_path / "out")
    assert main(["group", *names, "--method", "t", "--out", out]) == 0
    assert f"Warning: {told[0]}\n" in capsys.readouterr().out
    assert main(["methods", f"{out}/group_t.h5"]) == 0
    assert told[0] in capsys.readouterr().out.replace("\n", " ")


def test_a_page_tells_once_what_several_results_were_warned_of(monkeypatch):
    monkeypatch.setattr(sections, "_draw", lambda *drawn, **options: "")
    monkeypatch.setattr(sections, "views_of", lambda space: [])
    results = {f"sub-{k}": warned_of(k, "Mind <b>.", f"Of {k}.") for k in range(5)}
    html = "".join(report(results).html)
    assert html.count("Mind &lt;b&gt;.") == 1
    assert "sub-0, sub-1, sub-2 and 2 more: Mind &lt;b&gt;." in html
    assert [html.count(f"Of {k}.") for k in range(5)] == [1] * 5
    assert "Mind &lt;b&gt;." in "".join(report(results["sub-0"]).html)
