"""What all results share: scores, p-values, tables, words, and how they are written."""

import ast
import os
import re
import sys
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from nibabel import Nifti1Image
from numpy.testing import assert_array_equal

import mvpa_kfda
from mvpa_kfda import compare, cross_validate, group_inference, report
from mvpa_kfda.cli.command import check_out
from mvpa_kfda.cli.output import save_figure, save_table
from mvpa_kfda.results.epochs import (
    DecodingResult,
    TimeResult,
)
from mvpa_kfda.utils.checkpoint import Checkpoint
from mvpa_kfda.utils.files import write_json, write_whole
from tests import build

N, P, C = 12, 19, 3


def made(kind=TimeResult, shape=(5,), n_permutations=P, **fields):
    """Return a result of three classes that has a table and two other metrics."""
    rng = np.random.default_rng(0)
    # Not in alphabetical order: the first one is the one of .scores.
    metrics = {name: rng.random(shape) for name in ("roc_auc", "accuracy")}
    nulls = {name: rng.random((n_permutations, *shape)) for name in metrics}
    fields |= {"times": -0.1 + 0.05 * np.arange(5)} if shape else {}
    return build.made(
        kind,
        metrics["roc_auc"],
        metrics=metrics | {"confusion_matrix": rng.random((*shape, C, C))},
        nulls=nulls if n_permutations else {},
        chances={"roc_auc": 0.5, "accuracy": 1 / 3, "confusion_matrix": np.nan},
        classes=np.array(["cat", "dog", "größer"]),
        y=np.arange(N) % C,
        **{"predicted": rng.integers(C, size=(*shape, N))} | fields,
    )


def single(**fields):
    return made(DecodingResult, (), class_scores=np.ones((N, C)), **fields)


# ------------------------------------------------------------------------- the object


def test_scores_null_and_chance_are_the_first_metrics():
    one, many = single(), made()
    assert one.scoring == many.scoring == ["roc_auc", "accuracy", "confusion_matrix"]
    assert one.scalar_metrics == ["roc_auc", "accuracy"]
    assert type(one.scores) is type(one.pvalues()) is float
    assert one.scores == one.metrics["roc_auc"]
    assert many.scores is many.metrics["roc_auc"]
    assert_array_equal(many.null, many.nulls["roc_auc"])
    assert one.chance == many.chance == 0.5
    assert one.n_permutations == many.n_permutations == P
    assert (one.shape, many.shape) == ((), (5,))
    assert one.null.shape == (P,)
    none = made(n_permutations=0)
    assert none.null.shape == (0, 5)
    assert none.n_permutations == single(n_permutations=0).n_permutations == 0
    assert not none.has_p
    with pytest.raises(AttributeError, match="no scores of single folds"):
        _ = many.fold_scores
    with pytest.raises(AttributeError, match="did not record its penalties"):
        _ = many.lambdas


def test_predictions_are_labels_masked_where_never_tested():
    for result in (single(), made()):
        assert type(result.predictions) is np.ndarray
        assert_array_equal(result.predictions, result.classes[result.predicted])
        missing = np.isin(np.arange(N), [0, 4])
        predicted = np.where(missing, -1, result.predicted)
        masked = replace(result, predicted=predicted).predictions
        expected = np.broadcast_to(missing, masked.shape)
        assert_array_equal(masked.mask, expected)
        assert_array_equal(masked.data[~expected], result.predictions[~expected])


def test_folds_train_on_the_rows_that_are_not_tested():
    tests = (np.array([5, 1]), np.array([1, 2, 3]))
    result = single(tests=tests)
    train = [[0, 2, 3, 4, 6, 7, 8, 9, 10, 11], [0, 4, 5, 6, 7, 8, 9, 10, 11]]
    for fold, rows, test in zip(result.folds, train, tests, strict=True):
        assert_array_equal(fold[0], rows)
        assert_array_equal(fold[1], test)
    assert_array_equal(result.true_classes, [1, 2, 0, 2])


@pytest.mark.parametrize("make", [single, made])
def test_p_values_say_what_is_wrong(make):
    with pytest.raises(ValueError, match=r"no label permutations.*n_permutations="):
        make(n_permutations=0).pvalues()
    for options, message in [
        ({"metric": "auc"}, r"'metric': 'auc'\. Allowed: 'roc_auc', 'acc"),
        ({"metric": "confusion_matrix"}, "'confusion_matrix' is not one number"),
        ({"correction": "maximum"}, r"'correction': 'maximum'\. Allowed: 'none',"),
        ({"alternative": "more"}, "'alternative': 'more'"),
    ]:
        with pytest.raises(ValueError, match=message):
            make().pvalues(**options)
    with pytest.raises(ValueError, match="'axis': 'freqs'"):
        make().along("freqs")


def test_tables_have_p_values_by_correction():
    result = made()
    columns = ["time", "roc_auc", "accuracy"]
    assert list(made(n_permutations=0).to_dataframe()) == columns
    assert list(result.to_dataframe()) == [*columns, "p", "p_max"]
    table = result.to_dataframe(["fdr", "max-step-down"], metric="accuracy")
    assert list(table) == [*columns, "p", "p_fdr", "p_max_step_down"]
    assert_array_equal(table["p_fdr"], result.pvalues("fdr", metric="accuracy"))
    assert_array_equal(table["time"], result.times)
    one = single().to_dataframe()
    assert one.shape == (1, 3)
    assert list(one) == ["roc_auc", "accuracy", "p"]


def test_the_peak_is_the_row_of_the_highest_score():
    result = made()
    for metric in ("roc_auc", "accuracy"):
        table = result.to_dataframe("fdr", metric=metric)
        row = table.iloc[result.metrics[metric].argmax()]
        found = result.peak("fdr", metric=metric)
        assert found == {name: row[name] for name in ("time", metric, "p", "p_fdr")}
        assert result.best_position(metric) == result.metrics[metric].argmax()
    assert "p_fdr" not in single().peak("fdr")
    scores = {"accuracy": np.full(5, np.nan)}
    with pytest.raises(ValueError, match="no scores, so no peak"):
        replace(made(n_permutations=0), metrics=scores).peak()


def test_without_an_effect_scores_are_around_their_permuted_mean():
    rng = np.random.default_rng(0)
    for shift in (0.0, 0.2):
        null = 0.5 + shift + 0.05 * rng.standard_normal((P, 5))
        result = build.made(TimeResult, null[0] - 0.1, null, times=np.arange(5.0))
        if not shift:
            assert np.isnan(result.permuted_mean())
            assert result.null_level("accuracy") == 0.5
            assert result.worded_chance() == "chance 0.500"
            continue
        mean = result.permuted_mean()
        assert mean == pytest.approx(null.mean(), rel=1e-12)
        assert result.null_level("accuracy") == mean
        assert result.worded_chance().startswith("chance 0.500; mean of permuted lab")
        assert result.worded_chance().endswith(f" {mean:.3f}")
        assert_array_equal(
            result.favour("accuracy", "two-sided"), np.abs(result.scores - mean)
        )
    assert_array_equal(result.favour("accuracy", "less"), -result.scores)
    assert_array_equal(result.favour("accuracy"), result.scores)


def test_results_are_frozen_and_compared_by_content():
    result = made()
    with pytest.raises(FrozenInstanceError, match="y"):
        result.y = np.zeros(N)
    assert result == made()
    assert result != single()
    less = {name: null.astype(np.float32) for name, null in result.nulls.items()}
    more = {name: null.astype(np.float64) for name, null in less.items()}
    assert replace(result, nulls=less) != replace(result, nulls=more)
    for field, value in {
        "y": np.zeros(N, dtype=int),
        "times": np.arange(5.0),
        "groups": np.zeros(N),
        "parameters": {"reg": 0.1},
        "versions": {"numpy": "3"},
        "chances": {"roc_auc": 0.5, "accuracy": 0.2, "confusion_matrix": np.nan},
        "tests": tuple(np.arange(N).reshape(3, 4)),
        "classes": np.array(["cat", "dog", "other"]),
        "metrics": dict(reversed(result.metrics.items())),
    }.items():
        assert replace(result, **{field: value}) != result, field
    for free in ("options", "inputs"):  # however they were made
        assert replace(result, **{free: {"reg": 0.1}}) == result


@pytest.mark.parametrize(
    ("field", "value", "match"),
    [
        ("metrics", {"accuracy": np.zeros(4)}, "metric 'accuracy'"),
        ("metrics", {}, "the metrics' names"),
        ("chances", {}, "the metrics' names"),
        ("nulls", {"accuracy": np.zeros((P, 6))}, "null of 'accuracy'"),
        ("nulls", {"f1": np.zeros((P, 5))}, "the metrics' names"),
        ("fold_metrics", {"accuracy": np.zeros((4, 5))}, "folds of 'accuracy'"),
        ("predicted", np.zeros((5, N + 1), dtype=int), "predicted"),
        ("times", np.arange(6.0), r"positions \(6,\) and 12 trials got"),
        ("class_scores", np.zeros((5, N, 2)), r"\(5, 12, 3\); got \(5, 12, 2\)"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(field, value, match):
    with pytest.raises(ValueError, match=match):
        replace(made(), **{field: value})


# ------------------------------------------------------------------------------- words


def title_of(result):
    return ", ".join(result.title_parts())


@pytest.mark.filterwarnings("ignore:average=2 leaves no:UserWarning")
def test_repr_is_one_informative_line():
    assert repr(single()) == (
        f"<DecodingResult: ROC AUC {single().scores:.3f} (chance 0.500) | "
        "12 trials, 3 classes, 4 folds, 19 permutations>"
    )
    result = made()
    best = f"{result.scores.max():.3f} at {result.times[result.scores.argmax()]:.3g}"
    assert repr(result) == (
        f"<TimeResult: highest ROC AUC {best} s (chance 0.500) | "
        "5 times from -0.100 to 0.100 s | 12 trials, 3 classes, 4 folds, "
        "19 permutations>"
    )
    words = "3 training times from 0.000 to 2.000 s x 3 test times from 0.000 to"
    assert words in repr(build.result("GeneralizationResult"))
    one = made(n_permutations=1, tests=(np.arange(N),))
    assert title_of(one).endswith("1 fold, 1 permutation")
    averaged = build.result(average=2, n_repeats=3)
    assert averaged.title_parts()[0] == "6 averages of 2 trials (12)"
    assert "4 folds, 3 repeats, 9 permutations" in title_of(averaged)


def test_metrics_that_results_lack_are_refused_with_those_that_they_have():
    several = [
        build.result(seed=seed, scoring=["accuracy", "confusion_matrix"])
        for seed in range(2)
    ]
    for metric in ("f1", "confusion_matrix", "r2", "nonsense"):
        with pytest.raises(
            ValueError, match=r"(Allowed|that have): \[?'accuracy'"
        ) as e:
            group_inference(several, metric=metric)
        # Decoding again is the way to a metric only where decoding knows it.
        again = "scoring=['accuracy', 'confusion_matrix', 'f1']"
        assert (again in str(e.value)) == (metric == "f1")
    kappa = build.result(scoring="kappa")
    with pytest.raises(ValueError, match="It has 'accuracy': pass a metric that all"):
        group_inference([kappa, build.result(seed=1)], n_permutations=9)
    with pytest.raises(ValueError, match="result_a has 'kappa', result_b 'accuracy'"):
        compare(kappa, build.result())


# -------------------------------------- whatever is there and is not a file is refused


@pytest.fixture(scope="module")
def result():
    return build.result(n_permutations=0)


IMAGE = Nifti1Image(np.zeros((2, 2, 2)), np.eye(4))
WRITERS = {
    "save": ("x.h5", lambda path, result: result.save(path, overwrite=True)),
    "report": ("x.html", lambda path, result: report(result, path, overwrite=True)),
    "checkpoint": ("x.checkpoint", lambda path, _: Checkpoint(path)),
    "log": ("x-wal", lambda path, _: Checkpoint(path.with_name("x"))),
    "table": ("x.csv", lambda path, _: save_table(pd.DataFrame({"a": [1]}), path)),
    "figure": ("x.png", lambda path, result: save_figure(path, result.plot)),
    "image": ("x.nii.gz", lambda path, _: write_whole(path, IMAGE.to_filename)),
    "bids": ("x.toml", lambda path, _: write_json(path, {}, follow=False)),
    "command": ("group_t.png", lambda path, _: check_out(path.parent, "group_t")),
}


@pytest.mark.skipif(sys.platform == "win32", reason="no such files on Windows")
@pytest.mark.parametrize("writer", WRITERS)
def test_what_is_no_file_is_left_alone(writer, result, tmp_path):
    name, write = WRITERS[writer]
    path = tmp_path / name
    os.mkfifo(path)
    with open(os.open(path, os.O_RDWR), "r+b", buffering=0) as pipe:
        pipe.write(bytes(100))  # a reader would not wait for ever
        before = os.lstat(path)
        with pytest.raises(OSError, match=f"{name} is a pipe, not a file"):
            write(path, result)
        assert os.lstat(path).st_ino == before.st_ino
    assert os.listdir(tmp_path) == [name]
    if writer != "command":
        path.unlink()
        path.mkdir()
        with pytest.raises(IsADirectoryError, match="is a folder; use the name of a f"):
            write(path, result)
        assert os.listdir(tmp_path) == [name]


#: What writes a file by its name, and what checks the name before.
_WRITE = {"to_csv", "to_filename", "savefig", "write_text", "write_bytes"}
_CHECKED = {"write_whole"}
#: Calls that open text, and what says that it is none.
_OPEN = {"open", "read_text", "write_text", "fdopen"}
_WORDS = re.compile("|".join(_WRITE | _OPEN))
_BINARY = re.compile(r"'[rwax]b\+?'|'[rwax]\+?b'")


def test_no_writer_goes_around_the_check_or_leaves_the_encoding_to_the_system():
    """Text has another encoding on Windows, and other ends of lines."""
    for path in Path(mvpa_kfda.__file__).parent.rglob("*.py"):
        if not _WORDS.search(text := path.read_text("utf-8")):
            continue
        tree, covered = ast.parse(text), set()
        calls = {node for node in ast.walk(tree) if isinstance(node, ast.Call)}
        for node in ast.walk(tree):
            named = getattr(node, "name", None) in ("write", "write_text")
            if named or (node in calls and _name(node.func) in _CHECKED):
                covered |= set(ast.walk(node))
        for node in calls:
            method = isinstance(node.func, ast.Attribute)
            if _name(node.func) not in _WRITE | _OPEN:
                continue
            words, place = ast.unparse(node), f"{path}:{node.lineno}"
            named = {each.arg for each in node.keywords}
            if method and _name(node.func) in _WRITE and node not in covered:
                assert node.args, place
                assert _name(node.args[0]) == "content", place  # into memory
            if method and node.func.attr == "to_csv":
                assert "lineterminator" in named or None in named, place
            elif _name(node.func) in _OPEN and not _BINARY.search(words):
                stated = "encoding" in named or _name(node.func) == "write_text"
                if method and "write_text" in words:
                    stated = {"encoding", "newline"} <= named
                # Pages of a browser, and files of other packages, are not ours.
                assert stated or "webbrowser" in words, f"{place} {words}"


def _name(node):
    """Return the last name of what is called or given."""
    return getattr(node, "attr", getattr(node, "id", None))


def test_trials_are_those_of_one_repeat():
    y, chosen = np.tile([0, 1], 15), np.arange(30) % 3 > 0
    X = np.random.default_rng(0).normal(size=(30, 4))
    options = {"average": 2, "n_repeats": 3, "random_state": 0}
    result = cross_validate(X, y, train_on=chosen, **options)
    assert result.worded_trials() == "trained on 10 trials, tested on 4 others"
    averages = cross_validate(X, y, cv=3, **options)
    assert averages.worded_trials() == "12 averages of 2 trials (24)"
