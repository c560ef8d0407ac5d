"""What results and commands say: of one thing there is no plural."""

import re
from dataclasses import replace

import numpy as np
import pytest

from mvpa_kfda import compare, decode_arrays, generalize_arrays, group_inference
from mvpa_kfda.cli.main import main
from mvpa_kfda.data.space import FeatureSpace
from mvpa_kfda.results.epochs import (
    GeneralizationResult,
    SensorTimeResult,
    TimeFrequencyResult,
    TimeResult,
)
from mvpa_kfda.utils.checks import counted, plural
from tests import build
from tests.entries import everywhere

pytestmark = [
    pytest.mark.filterwarnings("ignore:With .* the smallest:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:.* leaves? .*:RuntimeWarning"),
]

#: One of something, with the noun of several; not 0.1 or 21 of them.
ONE_OF_SEVERAL = re.compile(r"(?<![\d.,-])1 ((?!class)[a-z-]+ )?[a-z]+s\b")


def assert_no_plural_of_one(*texts):
    for text in texts:
        assert not ONE_OF_SEVERAL.search(text), text


def test_the_check_finds_what_it_is_for():
    for text in ("1 folds", "a 1 second-level permutations", "1 training times"):
        with pytest.raises(AssertionError, match="1 "):
            assert_no_plural_of_one(text)
    assert_no_plural_of_one("1 fold", "0.1 times", "21 folds", "1,001 folds")


@pytest.mark.parametrize(
    ("noun", "several"),
    [
        ("fold", "folds"),
        ("vertex", "vertices"),
        ("frequency", "frequencies"),
        ("class", "classes"),
        ("second-level permutation", "second-level permutations"),
        ("pair of times", "pairs of times"),
    ],
)
def test_nouns_follow_their_number(noun, several):
    assert plural(noun) == several
    assert counted(1, noun) == f"1 {noun}"
    for number in (0, 2, 1000):
        assert counted(number, noun) == f"{number} {several}"
    assert counted(1000, noun, ",") == f"1,000 {several}"


@pytest.mark.filterwarnings("ignore")
@everywhere
def test_results_of_one_permutation_say_so(entry):
    result = entry(n_permutations=1, random_state=0)
    title = ", ".join(result.title_parts())
    assert "1 permutation" in repr(result)
    assert_no_plural_of_one(repr(result), title, result.places.describe())


def single(kind, **fields):
    """Return a result of one position, one fold and one permutation."""
    shape = tuple(len(fields[name]) for name in kind.axes)
    scores = np.full(shape, 0.7)
    result = build.made(kind, scores, scores[np.newaxis] - 0.1, n=4, **fields)
    return replace(result, tests=(np.arange(4),))


def singles():
    one, two = np.array([0.1]), np.array([0.1, 0.2])
    pair = {"adjacency": np.empty((2, 0), int), "info_fif": np.empty(0, np.uint8)}
    cells = {"test_times": one, "y_test": np.arange(4) % 2}
    return [
        single(TimeResult, times=one),
        single(TimeFrequencyResult, freqs=one, times=two),
        single(SensorTimeResult, ch_names=np.array(["Cz"]), times=one, **pair),
        single(GeneralizationResult, train_times=two, **cells),
    ]


@pytest.mark.parametrize("result", singles(), ids=lambda result: type(result).__name__)
def test_results_of_one_position_say_so(result):
    title = ", ".join(result.title_parts())
    assert "1 fold" in repr(result)
    assert "1 fold, 1 permutation" in title
    assert_no_plural_of_one(repr(result), title, result.places.describe())
    assert " to 0.100" not in repr(result)


def test_one_tested_trial_is_not_several():
    X, codes = build.trials((8, 8), 4, 3)
    options = {"X_test": X[:1] + 0.1, "y_test": codes[:1], "same_trials": False}
    result = generalize_arrays(X, codes, **options)
    assert "tested on 1 other," in repr(result)
    assert_no_plural_of_one(repr(result), ", ".join(result.title_parts()))


def test_spaces_of_one_position():
    assert FeatureSpace(None, 1).describe() == "1 feature"
    assert FeatureSpace(None, 2).describe() == "2 features"
    space = build.surface_space()
    assert space.describe() == f"{space.n_positions} vertices"


def test_groups_and_comparisons_of_one_draw():
    results = build.subjects(n=3, n_permutations=3)
    group = group_inference(results, "prevalence", n_permutations=1, random_state=0)
    assert "1 second-level permutation>" in repr(group)
    assert_no_plural_of_one(repr(group), ", ".join(group.title_parts()))
    flips = group_inference(results, "sign-flip", n_permutations=1, random_state=0)
    assert "1 sign flip" in ", ".join(flips.title_parts())
    a, b = (build.result(n_permutations=1, reg=reg) for reg in (0.3, 30.0))
    compared = compare(a, b)
    assert_no_plural_of_one(repr(compared), ", ".join(compared.title_parts()))


# -------------------------------------------------------------------- the command line


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Results of three subjects with a metric that is a table."""
    rng, paths = np.random.default_rng(0), []
    folder = tmp_path_factory.mktemp("subjects")
    y = np.tile(["face", "house"], 8)
    options = {"scoring": ["accuracy", "confusion_matrix"], "cv": 4}
    for number in range(3):
        X = rng.normal(size=(16, 3, 1)) + (y == "face")[:, None, None]
        result = decode_arrays(X, y, n_permutations=3, random_state=0, **options)
        paths.append(folder / f"sub-{number}.h5")
        result.save(paths[-1])
    return [str(path) for path in paths]


@pytest.mark.filterwarnings("ignore")
def test_the_group_command_counts_to_one(files, tmp_path, capsys):
    options = ["--n-permutations", "1", "--out", str(tmp_path / "out")]
    assert main(["group", *files, *options]) == 0
    printed = capsys.readouterr().out
    assert "Tested 1 time, 0.000 s: 3 subjects" in printed
    assert "1 second-level permutation\n" in printed
    assert_no_plural_of_one(printed)


@pytest.mark.parametrize("metric", ["f1", "confusion_matrix", "r2", "nonsense"])
def test_a_refused_metric_lists_those_that_are_taken(files, metric, tmp_path, capsys):
    out = ["--out", str(tmp_path / "out")]
    assert main(["group", *files, "--metric", metric, *out]) != 0
    told = capsys.readouterr().err
    taken = re.search(r"(?:Allowed|that have): (.*?)\.(?:\s|$)", told)[1]
    names = re.findall(r"'(\w+)'", taken)
    assert names == ["accuracy"]
    # Decoding again is the way to a metric only where decoding knows it.
    # As Python calls it: the command that compares has no such option.
    assert ("scoring=['accuracy', 'confusion_matrix', 'f1']" in told) == (
        metric == "f1"
    )
    assert ("decode again" in told) == (metric == "f1")


def test_a_metric_that_is_listed_is_taken(files, tmp_path, undrawn):
    out = ["--out", str(tmp_path / "out")]
    assert main(["group", *files, "--metric", "accuracy", *out]) == 0


def test_results_that_lack_a_metric_name_those_that_all_could_have(files):
    results = build.subjects(n=2, scoring=["kappa", "confusion_matrix"])
    with pytest.raises(ValueError, match="It has 'accuracy': pass a metric that all"):
        group_inference(
            [build.result(scoring="kappa"), build.result(seed=1)], n_permutations=9
        )
    with pytest.raises(ValueError, match=r"Allowed: 'kappa'\. For other metrics"):
        group_inference(results, metric="f1")
    with pytest.raises(ValueError, match="result_a has 'kappa', result_b 'accuracy'"):
        compare(results[0], build.result())
