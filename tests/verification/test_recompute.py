"""Results are computed again, from data that may differ and files not trusted."""

import re
from dataclasses import replace
from functools import cache
from itertools import cycle
from pathlib import Path

import mne
import numpy as np
import pytest

from mvpa_kfda import (
    cross_validate,
    decode_epochs,
    load_result,
    regress,
    searchlight,
    verify,
)
from mvpa_kfda.cli.main import main
from mvpa_kfda.decoding.positions import SubsetPositions
from mvpa_kfda.verification import recompute
from tests import build
from tests.entries import DATA, ENTRIES, everywhere
from tests.to_verify import (
    FEW,
    FEW_Y,
    GIVEN,
    RUNS,
    X,
    Y,
    decode,
    edited,
    honest,
    trials,
)

# ------------------------------------------------------------------------- other inputs


@everywhere
def test_every_entry_knows_other_data(entry):
    result = entry(n_permutations=0)
    given = {name: value for name, value in entry.options.items() if name in GIVEN}
    other = DATA.copy()
    other[0] += 1
    found = verify(result, entry.convert(other), entry.y, **given)
    assert not found.ok
    assert any("other ones" in each for each in found.differences), found


OTHERS = {
    "the data are in another order": {"data": X[::-1]},
    "the data are 39 x 6 x 3, and 40 x 6 x 3 are recorded": {
        **{"data": X[1:], "y": Y[1:], "groups": RUNS[1:]}
    },
    "the labels are in another order": {"y": Y[::-1]},
    "the groups are other ones": {"groups": RUNS + 1},
    "the groups are not given, and were when it was made": {"groups": None},
    "the trials of train_on are given, and were not": {"train_on": np.arange(40) < 20},
}


def test_other_inputs_are_named():
    for words, other in OTHERS.items():
        found = verify(honest(), **{"data": X, "y": Y, "groups": RUNS} | other)
        assert not found.ok
        assert len(found.cells) == 0
        assert words in found.verdict


@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_data_saved_in_single_precision_hold_and_forged_ones_do_not(offset, tmp_path):
    epochs = build.epochs(X + offset)
    result = decode_epochs(epochs, Y, groups=RUNS, n_permutations=9, random_state=0)
    epochs.save(tmp_path / "pets-epo.fif", verbose=False)
    read = mne.read_epochs(tmp_path / "pets-epo.fif", verbose=False)
    how = {"groups": RUNS, "random_state": 0, "n_cells": 12}
    found = verify(result, read, Y, **how)
    assert found.ok, found
    assert "as after saving in single precision" in found.notes[0]
    assert found.cells["n_ties"].sum() < 10
    forged = {"accuracy": edited(result.scores, 1, 0.025)}
    found = verify(replace(result, metrics=forged), read, Y, **how)
    assert not found.ok
    other = build.epochs(trials(seed=1)[0] + offset)
    forged = decode_epochs(other, Y, groups=RUNS, n_permutations=9, random_state=0)
    for read_again in (epochs, read):
        found = verify(replace(forged, inputs=result.inputs), read_again, Y, **how)
        assert found.n_differ, found


FIVE = {"cv": 5, "random_state": 0}
VALUES, THREE = X[:, 0, 1], np.resize(["cat", "dog", "eel"], 40)
#: Functions of features (40, p), and the labels that they are given.
DECODED = {
    "classes": (lambda X: cross_validate(X, Y, n_permutations=9, **FIVE), Y),
    "values": (lambda X: regress(X, VALUES, n_permutations=9, **FIVE), VALUES),
    "a matrix": (lambda K: cross_validate(K, Y, kernel="precomputed", **FIVE), Y),
    "tables of pairs": (
        lambda X: cross_validate(
            X, THREE, scoring=["pairwise_accuracy", "crossnobis"], **FIVE
        ),
        THREE,
    ),
}


@pytest.mark.parametrize("name", DECODED)
def test_how_much_data_differ_is_told(name):
    decoded, y = DECODED[name]
    data = X[:, :, 0] @ X[:, :, 0].T if name == "a matrix" else X[:, :, 0]
    result = decoded(data)
    for size in (1e-12, 1e-7):
        found = verify(result, data * (1 + size), y, n_cells=6, random_state=0)
        assert found.ok, found
        told = float(re.search(r"by about (\S+) of", found.notes[0])[1])
        assert size / 3 < told < 3 * size
    for other in (data[::-1, ::-1] * (1 + size), data * 1.001):
        assert "the data are other ones" in verify(result, other, y).verdict
    if name == "values":  # which may have lost digits, too
        found = verify(result, data, y.round(6), n_cells=8)
        assert found.ok, found
        assert "The labels differ" in found.notes[0]
        found = verify(result, data, y[::-1] * 2)
        assert "labels are other ones" in found.verdict


def test_files_of_before_do_not_say_how_much_data_differ():
    kept = {k: v for k, v in honest().inputs.items() if k != "projections"}
    older = replace(honest(), inputs=kept)
    assert verify(older, X, Y, groups=RUNS).ok
    found = verify(older, X * (1 + 1e-12), Y, groups=RUNS)
    assert "does not say by how much" in found.verdict
    assert found.cells["ok"].all(), found
    found = verify(older, trials(seed=1)[0], Y, groups=RUNS)
    assert "the data are other ones" in found.verdict


def test_files_that_were_read_are_recorded(tmp_path):
    build.epochs(DATA).save(tmp_path / "some-epo.fif", verbose=False)
    read = mne.read_epochs(tmp_path / "some-epo.fif", verbose=False)
    result = decode_epochs(read, ENTRIES["epochs"].y)
    size = (tmp_path / "some-epo.fif").stat().st_size
    assert result.inputs["files"] == [f"some-epo.fif, {size} bytes"]


# ------------------------------------------------------------------------- a large map


@cache
def summarised(null):
    """Return a result that keeps a summary of its null, and how to verify it."""
    options = {"groups": RUNS, "adjacency": np.eye(6, dtype=bool)}
    how = {"n_permutations": 5, "random_state": 0} | options
    result = build.keep(null, searchlight, X[:, :, 0], Y, **how)
    return result, {"data": X[:, :, 0], "y": Y, **options}


@pytest.mark.some(2)
@pytest.mark.parametrize("null", ["max", "stream"])
@pytest.mark.parametrize("n_cells", [8, None])
def test_what_is_kept_of_a_null_holds(null, n_cells):
    result, given = summarised(null)
    found = verify(result, **given, n_cells=n_cells)
    assert found.ok, found
    assert (found.cells["permutation"] > 0).sum() == (4 if n_cells else 30)


#: Part of a summary -> by how much it is edited.
SUMMARY = {
    **dict.fromkeys(("maximum", "cluster_maximum", "tfce_maximum"), 0.025),
    **{"exceedances": 1, "moments": 0.001, "permuted_moments": 0.001},
}


@pytest.mark.some(2)
@pytest.mark.parametrize("name", SUMMARY)
def test_an_edited_summary_of_a_null_is_found(name):
    result, given = summarised("stream")
    summary = result.null_summaries["accuracy"]
    other = summary[name].copy()
    other.flat[3] += SUMMARY[name]
    forged = {"accuracy": summary | {name: other}}
    found = verify(replace(result, null_summaries=forged), **given)
    assert f"null_summaries.accuracy.{name} is" in found.verdict, found


@pytest.fixture
def in_no_time(monkeypatch):
    """One position in every block, and time for the first block and another."""
    clock = iter(range(10**6))
    monkeypatch.setattr(recompute, "monotonic", lambda: next(clock))
    monkeypatch.setattr(SubsetPositions, "block_length", 1)
    return {"budget": 1.5}


def test_a_single_position_is_computed_whatever_the_budget():
    result = cross_validate(X[:, :, 0], Y, cv=4, n_permutations=3, random_state=0)
    found = verify(result, X[:, :, 0], Y, budget=1e-9)
    assert found.ok, found
    assert found.recomputed == (1, 1)


def test_of_large_maps_as_many_positions_as_there_is_time_for(in_no_time):
    for null in ("full", "max", "stream"):
        result, given = summarised(null)
        found = verify(result, **given, **in_no_time)
        assert found.recomputed == (2, 6)
        assert found.ok == (null == "full"), found
        peak, all_p = int(np.argmax(result.scores)), found.cells["position"]
        assert peak in set(all_p)
        assert len(set(all_p)) <= 2
        if null == "full":
            assert "where it was looked at: 2 of 6 positions recomputed" in str(found)
        else:
            assert "largest scores of the permutations" in str(found)
            assert "looked at holds: 2 of 6 positions recomputed, " in str(found)
            assert verify(result, **given, budget=None).ok


@pytest.mark.parametrize("null", ["full", "max"])
def test_frauds_at_the_peak_of_large_maps_are_found(null, in_no_time):
    result, given = summarised(null)
    peak = int(np.argmax(result.scores))
    predicted = result.predicted.copy()
    predicted[peak, 3] ^= 1
    forged = [
        {"metrics": {"accuracy": edited(result.scores, peak, 0.05)}},
        {"n_features": result.n_features + np.eye(6, dtype=int)[peak]},
        {"chances": {"accuracy": 0.4}},
        {"predicted": predicted},
    ]
    if null == "full":
        forged.append({"nulls": {"accuracy": edited(result.null, (2, peak), -0.025)}})
    else:
        summary = result.null_summaries["accuracy"]
        for name, at in (("exceedances", peak), ("maximum", 2)):
            other = summary[name].copy()
            other[at] -= 1
            forged.append({"null_summaries": {"accuracy": summary | {name: other}}})
    for each in forged:
        found = verify(replace(result, **each), **given, **in_no_time)
        assert found.differences, each


# -------------------------------------------------------------- files are not trusted


@pytest.fixture
def saved(tmp_path, monkeypatch):
    """A folder with a result, its data, and other data."""
    monkeypatch.chdir(tmp_path)
    honest().save("result.h5")
    np.savez("data.npz", X=X, y=Y, groups=RUNS)
    np.savez("other.npz", X=X + 1, y=Y, groups=RUNS)
    return tmp_path


def test_the_command_runs_again(saved, capsys):
    assert main(["rerun", "result.h5", "data.npz"]) == 0
    out = capsys.readouterr().out
    assert "All numbers are the same" in out
    assert "the same versions" in out
    assert load_result("result_rerun.h5") == honest()
    assert main(["rerun", "result.h5", "other.npz", "--out", "new"]) == 1
    older = replace(honest(), versions=honest().versions | {"numpy": "1.0"})
    older.save("result.h5", overwrite=True)
    assert main(["rerun", "result.h5", "data.npz"]) == 0
    assert "It was made with numpy 1.0 (now" in capsys.readouterr().out


def test_a_file_decides_neither_what_is_run_nor_where(saved, capsys):
    honest_options = honest().options

    def rerun(**changes):
        replace(honest(), **changes).save("edited.h5", overwrite=True)
        return main(["rerun", "edited.h5", "data.npz"])

    edits = {"checkpoint": "made_by_the_file", "n_jobs": 400}
    assert rerun(options=honest_options | edits) == 0
    assert not list(Path().glob("*made_by*"))
    for name in (
        *("sys_info", "report", "load_result", "Nystrom", "cli", "group_inference"),
    ):
        assert rerun(inputs=honest().inputs | {"function": name}) == 2
        assert f"was not computed by {name!r}" in capsys.readouterr().err
    # Classes of scikit-learn that are neither splitters nor steps, and wrong arguments.
    for option, name, given in (
        ("cv", "GridSearchCV", {"estimator": 1, "param_grid": 2}),
        ("cv", "train_test_split", {}),
        ("cv", "KFold", {"n_folds": 3}),
        ("preprocess", "scale", {"X": [[1.0]]}),
        ("kernel", "Callable", {"function": "eval"}),
        ("kernel", "Kernel", {}),
        ("reg", "_Rule", {}),
        ("y", "KFold", {}),
    ):
        assert rerun(options=honest_options | {option: {"name": name, **given}}) == 2
        assert option in capsys.readouterr().err
    parameters = honest().parameters | {"preprocess": [{"name": "scale", "X": [[1.0]]}]}
    found = verify(replace(honest(), parameters=parameters), X, Y, groups=RUNS)
    assert "parameters.preprocess is" in found.verdict
    options = honest_options | {"cv": {"name": "train_test_split"}}
    found = verify(replace(honest(), options=options), X, Y, groups=RUNS, n_cells=1)
    assert "the options do not say how" in " ".join(found.notes)


SPLITS = {"name": "ShuffleSplit", "n_splits": 10**8, "random_state": 0}
#: Counts of a file that it holds nothing for, in options, and what is said.
COUNTS = {
    "n_repeats": (10**8, "100000000 repeats are asked for"),
    "n_permutations": (10**8, "the options make 1000 or more"),
    "cv": (10**8, "asks for more folds than there are trials"),
    "random_state": ("text", "does not hold together (TypeError"),
}


def test_counts_of_a_file_are_bounded_by_what_it_holds(monkeypatch):
    monkeypatch.setattr(recompute, "_FEW_PERMUTATIONS", 100)
    for name, (value, words) in COUNTS.items():
        options = honest().options | {name: value}
        if name == "cv":
            options["groups"] = None
        parameters = honest().parameters | {name: value}
        other = replace(honest(), options=options, parameters=parameters)
        assert words in verify(other, X, Y, groups=RUNS, n_cells=2).verdict
    options = honest().options | {"groups": None, "cv": SPLITS}
    found = verify(replace(honest(), options=options), X, Y, groups=RUNS)
    assert "makes 100,000,000 splits" in found.verdict


def test_counts_of_a_file_bound_what_is_run_again(saved, capsys, monkeypatch):
    other = honest().options | {"n_repeats": 10**8}
    replace(honest(), options=other).save("edited.h5")
    assert main(["rerun", "edited.h5", "data.npz"]) == 2
    assert "100000000 repeats are asked for" in capsys.readouterr().err
    monkeypatch.setattr(recompute, "_FEW_PERMUTATIONS", 100)
    other = honest().options | {"n_permutations": 10**8}
    replace(honest(), options=other).save("edited.h5", overwrite=True)
    assert main(["rerun", "edited.h5", "data.npz"]) == 1
    # All there are may be fewer than asked for, and some of them are left out.
    few = decode(X[:8], Y[:8], groups=None, cv=2, n_permutations=10**4)
    assert few.n_permutations == 67
    assert verify(few, X[:8], Y[:8], n_cells=4).ok
    few.save("few.h5")
    np.savez("few.npz", X=X[:8], y=Y[:8])
    assert main(["rerun", "few.h5", "few.npz"]) == 0
    again = load_result("few_rerun.h5")
    assert again.options["n_permutations"] == few.options["n_permutations"] == 10**4


@pytest.mark.filterwarnings("ignore")
def test_damaged_records_are_no_errors():
    blocks = np.repeat(np.arange(4), 5)
    whole = decode(FEW[:, :, :1], FEW_Y, groups=blocks, n_permutations=1)
    how = {"groups": blocks, "n_cells": 1, "random_state": 0}
    for where in ("parameters", "options", "inputs"):
        record = getattr(whole, where)
        # Each is left out or NaN, and by turns what it cannot be.
        wrong = cycle((None, [], -1, {"name": [1]}))
        for number, name in enumerate(record):
            left = {key: each for key, each in record.items() if key != name}
            first = left if number % 2 else left | {name: np.nan}
            for other in (first, left | {name: next(wrong)}):
                result = replace(whole, **{where: other})
                try:
                    verify(result, FEW[:, :, :1], FEW_Y, **how)
                except ValueError as error:
                    assert "Pass the same data" in str(error)  # noqa: PT017
