"""What holds for every test over subjects and between results, of every kind of map.

The numbers of single methods are compared with plain loops in `test_group`,
`test_group_exchange` and `test_comparison`.
"""

import copy
import pickle
from functools import cache
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mvpa_kfda import compare, group_inference, load_result
from mvpa_kfda.group.second_level import METHODS
from tests import build

pytestmark = [
    pytest.mark.filterwarnings("ignore:.* resamples:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:With .* sign flips the smallest:RuntimeWarning"),
]
KINDS = [
    *("DecodingResult", "RegressionResult", "TimeResult", "TimeRegressionResult"),
    *("TimeFrequencyResult", "SensorTimeResult", "GeneralizationResult"),
    *("VolumeResult", "regions", "SourceResult", "SourceTimeResult"),
]
MAPS = [kind for kind in KINDS if kind not in ("DecodingResult", "RegressionResult")]
OPTIONS = {"n_permutations": 199, "random_state": 0, "alpha": 0.3}


@cache
def subjects(kind, first=0):
    """Return results of five subjects."""
    options = {"scoring": "pearsonr"} if "Regression" in kind else {}
    return [build.result(kind, seed, **options) for seed in range(first, first + 5)]


def others(kind):
    return subjects(kind, 10)


def corrections_of(kind, method="sign-flip"):
    if METHODS[method].only:
        return [METHODS[method].only[0]]
    return ["max", "cluster", "tfce"] if kind in MAPS else ["max"]


@pytest.fixture(scope="module")
def files_of(tmp_path_factory):
    """Return a function that names the files of subjects of a kind, written once."""

    @cache
    def files(kind):
        folder, names = tmp_path_factory.mktemp("subjects"), []
        for number, result in enumerate(subjects(kind), start=1):
            names.append(folder / f"sub-{number:02d}" / "result.h5")
            names[-1].parent.mkdir()
            result.save(names[-1])
        return names

    return files


def assert_p_values(result, shape, corrections):
    """Assert that p-values are in bounds and in order."""
    # Uncorrected p-values of the minimum are products over subjects.
    from_theory = result.method in ("t", "wilcoxon")
    drawn = result.method not in ("t", "wilcoxon", "prevalence", "i-test")
    least = 1 / (1 + result.n_permutations) if drawn else 0
    uncorrected = np.asarray(result.pvalues("none"))
    for name in ("none", "fdr", "bonferroni", *corrections):
        p = np.asarray(result.pvalues(name))
        assert p.shape == shape
        assert ((p >= least * (1 - 1e-12)) & (p <= 1) & (p > 0)).all()
        if name not in ("cluster", "tfce") and not from_theory:
            assert (p >= uncorrected - 1e-12).all()


def assert_survives(result, path):
    """Assert that a result is the same when it is loaded, copied or pickled."""
    result.save(path)
    for again in (load_result(path), pickle.loads(pickle.dumps(result))):
        assert again == result
        assert repr(again) == repr(result)
        assert again.to_dataframe().equals(result.to_dataframe())
    assert copy.deepcopy(result) == result


#: Every kind by two of the methods, every method by several kinds. What methods make of
#: the scores of any kind is verified in `test_verification_groups`, every pair of them.
SOME = build.by_turns(KINDS, METHODS, len(METHODS) // 2)


@pytest.mark.some(3)
@pytest.mark.parametrize(("kind", "method"), SOME)
def test_every_kind_from_files_alone(kind, method, files_of, tmp_path):
    files, corrections = files_of(kind), corrections_of(kind, method)
    group = group_inference(files, method, corrections, **OPTIONS)
    assert list(group.subjects) == [f"sub-0{k}" for k in range(1, 6)]
    first, mean = subjects(kind)[0], np.mean([r.scores for r in subjects(kind)], axis=0)
    assert_p_values(group, first.shape, corrections)
    assert_allclose(group.scores, mean, rtol=1e-6, atol=1e-9)
    for name in first.axes:
        assert_array_equal(getattr(group, name), getattr(first, name))
    assert_survives(group, tmp_path / "group.h5")
    table = group.to_dataframe()
    assert len(table) == mean.size
    assert {"statistic", "p", group.metric} <= set(table)
    assert ("p_tfce" in table) == ("tfce" in corrections)
    assert ("gamma_0" in table) == (method == "prevalence")
    assert f"5 subjects | method {method!r}" in repr(group)
    by_labels = METHODS[method].by_labels
    assert (group.subject_p is not None) == by_labels
    of_objects = group_inference(subjects(kind), method, corrections, **OPTIONS)
    assert of_objects != group  # whose subjects have other names
    for name in ("none", *corrections):
        assert_array_equal(of_objects.pvalues(name), group.pvalues(name))


@pytest.mark.some(9)
@pytest.mark.parametrize(
    ("kind", "paired", "method"),
    build.every_pair(
        list(product(KINDS, [False, True], ["sign-flip", "t", "wilcoxon"]))
    ),
)
def test_two_lists_of_every_kind(kind, paired, method, tmp_path):
    options = OPTIONS | {"other": others(kind), "paired": paired}
    group = group_inference(subjects(kind), method, "max", **options)
    assert_p_values(group, others(kind)[0].shape, ["max"])
    means = [np.mean([r.scores for r in of(kind)], axis=0) for of in (subjects, others)]
    assert_allclose(group.scores, means[0] - means[1], rtol=1e-9, atol=1e-12)
    assert_survives(group, tmp_path / "group.h5")


@pytest.mark.some(6)
@pytest.mark.parametrize("kind", KINDS)
def test_comparisons_of_every_kind(kind, tmp_path):
    one, other = (build.result(kind, n_permutations=39, reg=reg) for reg in (0.3, 30.0))
    corrections = corrections_of(kind)
    result = compare(one, other, correction=corrections)
    assert_p_values(result, one.shape, corrections)
    assert_allclose(result.scores, one.scores - other.scores, rtol=0, atol=1e-12)
    assert_survives(result, tmp_path / "comparison.h5")
    one.save(tmp_path / "a.h5")
    other.save(tmp_path / "b.h5")
    files = [str(tmp_path / name) for name in ("a.h5", "b.h5")]
    again = compare(*files, correction=corrections)
    assert again == result


def test_latencies_survive(tmp_path):
    for latency in (build.latency(), build.latency(other=others("TimeResult"))):
        assert_survives(latency, tmp_path / f"{len(latency.parts)}.h5")


@pytest.mark.parametrize("method", METHODS)
def test_the_seed_is_kept_and_makes_the_run_again(method):
    results = subjects("TimeResult")
    group = group_inference(results, method, n_permutations=9)
    seed = group.parameters["random_state"]
    again = group_inference(results, method, n_permutations=9, random_state=seed)
    assert again == group


@pytest.mark.parametrize("method", METHODS)
def test_batches_change_nothing(method, monkeypatch):
    names = ["max", "max-step-down", "cluster", "cluster-size", "tfce"]
    names = list(METHODS[method].only) or names
    results = subjects("TimeFrequencyResult")
    before = group_inference(results, method, names, **OPTIONS)
    monkeypatch.setattr("mvpa_kfda.utils.memory._BATCH", 7)
    after = group_inference(results, method, names, **OPTIONS)
    for name in names:
        assert_allclose(after.pvalues(name), before.pvalues(name), rtol=1e-12, atol=0)
    if METHODS[method].by_labels:
        assert_array_equal(after.subject_p, before.subject_p)
        assert_array_equal(after.subject_sizes, before.subject_sizes)
