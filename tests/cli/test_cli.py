"""The command line: same numbers as the functions, one-line errors."""

import contextlib
import os
import re
import shlex
import subprocess
import sys
import warnings
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import matplotlib.pyplot as plt
import mne
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from numpy.testing import assert_allclose, assert_array_equal
from scipy.io import savemat
from sklearn.decomposition import PCA

import mvpa_kfda
from mvpa_kfda import (
    RBF,
    DegreesOfFreedom,
    GraphSmooth,
    Nystrom,
    decode_epochs,
    generalize_epochs,
    load_result,
    simulate_epochs,
)
from mvpa_kfda.cli.command import literal, made
from mvpa_kfda.cli.main import main

DEMO_ENDINGS = {"demo.png", "demo.csv", "demo.h5"}
HOSTILE = "__import__('os').system('touch x')"
DICT = {"y": {"a": "class_1", "b": "class_2"}}
KERNELS = {"kernel": [RBF(gamma=0.2), "linear"], "reg": "tuned"}


@pytest.fixture(scope="module")
def epochs():
    epochs = simulate_epochs(
        60, 3, snr=1.0, n_channels=16, sfreq=50.0, tmin=-0.1, tmax=0.4, n_blocks=5
    )
    at_200_ms = epochs.get_data(copy=True)[:, 3, epochs.time_as_index(0.2)[0]]
    noise = 0.1 * at_200_ms.std() * np.random.default_rng(0).normal(size=60)
    rt = 1e5 * (at_200_ms + noise)
    epochs.metadata = epochs.metadata.assign(rt=rt)
    return epochs


@pytest.fixture(scope="module")
def folder(tmp_path_factory, epochs):
    """A folder with one good file of epochs and several that are none."""
    folder = tmp_path_factory.mktemp("files")
    epochs.save(folder / "words-epo.fif", verbose=False)
    epochs.average().save(folder / "average-ave.fif", verbose=False)
    late = epochs.copy().shift_time(2.0)  # whether trials are the same cannot be seen
    late.save(folder / "late-epo.fif", verbose=False)
    epochs[:30].save(folder / "half-epo.fif", verbose=False)
    other = simulate_epochs(
        30, 3, snr=1.0, n_channels=16, sfreq=50.0, tmax=0.4, random_state=1
    )
    other.crop(0.0, verbose=False).save(folder / "other-epo.fif", verbose=False)
    (folder / "text-epo.fif").write_text("not a FIF file\n")
    (folder / "empty-epo.fif").write_bytes(b"")
    whole = (folder / "words-epo.fif").read_bytes()
    (folder / "cut-epo.fif").write_bytes(whole[: len(whole) // 2])
    (folder / "words.csv").write_text("a,b\n1,2\n")
    savemat(folder / "raw.set", {"EEG": {"nbchan": 1.0}})
    savemat(folder / "bad.set", {"EEG": {"nbchan": 1.0, "trials": 9.0}})
    savemat(folder / "two.mat", {"a": 1.0, "b": 2.0})
    (folder / "text.mat").write_text("not a MATLAB file\n")
    return folder


def run_process(*arguments, **environment):
    """Run the command in a process of its own."""
    code = (
        "import sys; from mvpa_kfda.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )


def test_demo_writes_figure_table_and_result(tmp_path, capsys):
    out, open_before = tmp_path / "new" / "folder", plt.get_fignums()
    assert main(["demo", "--out", str(out)]) == 0
    assert plt.get_fignums() == open_before
    assert {path.name for path in out.iterdir()} == DEMO_ENDINGS
    assert (out / "demo.png").read_bytes().startswith(b"\x89PNG")

    result = load_result(out / "demo.h5")
    assert len(result.classes) == 3
    assert result.n_permutations == 1000
    table = pd.read_csv(out / "demo.csv")
    assert list(table.columns) == ["time", "accuracy", "p", "p_max"]
    assert_allclose(table["accuracy"], result.scores, rtol=1e-12, atol=0)
    assert_allclose(table["p_max"], result.pvalues("max"), rtol=1e-12, atol=0)
    # What the simulation put in is what the demo finds, and nothing before it.
    significant = result.times[result.pvalues("max") <= 0.05]
    assert significant.min() > 0.05
    assert ((significant > 0.14) & (significant < 0.2)).any()
    assert ((significant > 0.3) & (significant < 0.45)).any()

    printed = capsys.readouterr()
    # On a slow machine the progress of a run is told.
    assert not [x for x in printed.err.splitlines() if " of 101 positions" not in x]
    best = result.scores.argmax()
    assert "180 trials, 3 classes, 32 channels, 101 time points" in printed.out
    assert f"{result.scores[best]:.3f} at {result.times[best]:g} s" in printed.out
    assert "Test: significant at 2" in printed.out
    assert "Took " in printed.out
    check_front_page(result)


def check_front_page(result):
    """Check that the figure of the front page shows the scores of the demo.

    The curve and the bars have to be where they are drawn now, in the same colours.
    If they are not, the figure has to be drawn again, see CONTRIBUTING.rst.
    """
    ax = result.plot(correction="max")
    image = plt.imread(Path(__file__).parents[2] / "doc" / "_static" / "demo.png")
    ax.figure.set_dpi(150)
    ax.figure.canvas.draw()
    height, width = image.shape[:2]
    assert (width, height) == ax.figure.canvas.get_width_height()
    (curve,) = [each for each in ax.lines if each.get_label() == "Accuracy"]
    (bars,) = [each for each in ax.collections if each.get_label().startswith("p ≤")]
    low = np.mean(bars.get_paths()[0].get_extents().intervaly)
    significant = result.pvalues("max") <= 0.05
    for artist, color, y, there in (
        (curve, curve.get_color(), result.scores, np.full(significant.shape, True)),
        (bars, bars.get_facecolor()[0], np.full(significant.shape, low), significant),
    ):
        near = np.abs(image[..., :3] - to_rgb(color)).max(axis=2) < 0.1
        at = artist.get_transform().transform(np.stack([result.times, y], axis=1))
        found = [
            near[height - row - 3 : height - row + 3, column - 3 : column + 3].any()
            for column, row in at.round().astype(int)
        ]
        assert_array_equal(found, there)
    plt.close(ax.figure)


OPTIONS = {"groups": "block", "window": 0.06, "step": 0.04, "kernel": "rbf"}
OPTIONS |= {"reg": 0.7, "scoring": ["roc_auc", "accuracy"], "random_state": 4}
WORDS = "--y condition --groups block --window 0.06 --step 0.04 --kernel rbf --reg 0.7 "
WORDS += "--scoring roc_auc accuracy --random-state 4 --n-jobs 1"


def test_epochs_are_decoded_as_by_the_function(folder, tmp_path, epochs, capsys):
    picks = epochs.ch_names[:10]
    more = ["--n-permutations", "30", "--correction", "fdr", "--out", str(tmp_path)]
    command = ["epochs", str(folder / "words-epo.fif"), *WORDS.split(), *more]
    assert main([*command, "--picks", *picks]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    (words,) = read_files(folder, "words-epo.fif")
    expected = decode_epochs(
        words, "condition", picks=picks, n_permutations=30, **OPTIONS
    )
    assert load_result(tmp_path / "words.h5") == expected
    table = pd.read_csv(tmp_path / "words.csv")
    assert list(table.columns) == ["time", "roc_auc", "accuracy", "p", "p_fdr"]
    assert_allclose(table["p_fdr"], expected.pvalues("fdr"), rtol=1e-12, atol=0)
    assert (tmp_path / "words.png").stat().st_size > 10_000
    assert "10 channels" in printed.out
    assert "Found: highest ROC AUC" in printed.out
    assert "FDR correction" in printed.out


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("--reg DegreesOfFreedom(4.5)", {"reg": DegreesOfFreedom(4.5)}),
        ("--reg 0.1 1 10 --average max", {"reg": [0.1, 1, 10], "average": "max"}),
        ("--kernel RBF(gamma=0.2) linear --reg tuned", KERNELS),
        ("--approx Nystrom(20) --kernel rbf", {"approx": Nystrom(20), "kernel": "rbf"}),
        (
            "--average 2 --equalize --no-average-test --n-repeats 2",
            {"average": 2, "equalize": True, "average_test": False, "n_repeats": 2},
        ),
        ("--preprocess zscore PCA(3)", {"preprocess": ["zscore", PCA(3)]}),
        (
            "--y {'a':'class_1','b':['class_2']}",
            DICT,
        ),
    ],
    ids=str,
)
def test_values_are_written_as_in_python(folder, tmp_path, words, options, undrawn):
    short = f"--step 0.2 --n-permutations 2 --groups block --out {tmp_path}"
    command = ["epochs", str(folder / "words-epo.fif"), *words.split(), *short.split()]
    assert main(command) == 0
    (words,) = read_files(folder, "words-epo.fif")
    options = {"n_permutations": 2, "random_state": 0, "groups": "block"} | options
    assert load_result(tmp_path / "words.h5") == decode_epochs(
        words, step=0.2, **options
    )


def test_without_permutations_there_are_no_p_values(folder, tmp_path, capsys):
    file = str(folder / "words-epo.fif")
    assert main(["epochs", file, "--n-permutations", "0", "--out", str(tmp_path)]) == 0
    table = pd.read_csv(tmp_path / "words.csv")
    assert list(table.columns) == ["time", "accuracy"]
    assert "chance 0.333" in (out := capsys.readouterr().out)
    assert "Test:" not in out


def read_files(folder, *names):
    """Read files of epochs as the command does."""
    return [mne.read_epochs(folder / name, verbose=False) for name in names]


def report_line(printed, start):
    """Return the line of a report that begins with `start`, without it."""
    (line,) = [line for line in printed.splitlines() if line.startswith(start)]
    return line.removeprefix(start)


def test_generalize_is_the_function(folder, tmp_path, epochs, capsys):
    picks = epochs.ch_names[:10]
    words = f"{WORDS} --n-permutations 200 --null max --out {tmp_path}"
    command = ["generalize", str(folder / "words-epo.fif"), *words.split()]
    assert main([*command, "--picks", *picks]) == 0
    (words,) = read_files(folder, "words-epo.fif")
    expected = generalize_epochs(
        words, "condition", picks=picks, n_permutations=200, null="max", **OPTIONS
    )
    assert load_result(tmp_path / "words_generalization.h5") == expected
    table = pd.read_csv(tmp_path / "words_generalization.csv")
    columns = ["train_time", "test_time", "roc_auc", "accuracy", "p", "p_max"]
    assert list(table.columns) == columns
    assert_allclose(table["p_max"], expected.pvalues("max").ravel(), rtol=1e-12, atol=0)
    assert (tmp_path / "words_generalization.png").stat().st_size > 10_000
    assert not (tmp_path / "words.h5").exists()

    printed = capsys.readouterr()
    assert printed.err == ""
    n = len(expected.train_times)
    assert f"10 channels, {n} training times x {n} test times, 5 folds" in printed.out
    i, j = np.unravel_index(expected.scores.argmax(), expected.shape)
    best = report_line(printed.out, "Found: highest ROC AUC ")
    assert best.startswith(
        f"{expected.scores.max():.3f} at training time {expected.train_times[i]:g} s "
        f"and test time {expected.test_times[j]:g} s (chance 0.500)"
    )
    marked = expected.pvalues("max") <= 0.05
    assert 0 < marked.mean() < 1
    said = report_line(printed.out, f"Test: significant at {marked.sum()} of ")
    assert "(p ≤ 0.05, max-statistic correction; smallest p = 0.0050)" in said


@pytest.mark.parametrize(
    ("options", "arguments", "folds"),
    [
        ("--train-on 'block < 4'", {"train_on": "block < 4"}, "24 separate trials"),
        ("--test-epochs other-epo.fif", {"test_epochs": True}, "30 separate trials"),
        (
            "--test-epochs late-epo.fif --same-trials True --cv 4",
            {"test_epochs": True, "same_trials": True, "cv": 4},
            "4 folds",
        ),
        (
            "--test-epochs late-epo.fif --same-trials False",
            {"test_epochs": True, "same_trials": False},
            "60 separate trials",
        ),
    ],
)
def test_what_is_tested_is_passed_on(
    folder, tmp_path, monkeypatch, capsys, options, arguments, folds, undrawn
):
    monkeypatch.chdir(folder)
    options = shlex.split(options)
    short = ["--step", "0.1", "--n-permutations", "9", "--out", str(tmp_path)]
    assert main(["generalize", "words-epo.fif", *options, *short]) == 0
    (words,) = read_files(folder, "words-epo.fif")
    if "test_epochs" in arguments:
        (test,) = read_files(folder, options[1])
        arguments = {**arguments, "test_epochs": test}
    expected = generalize_epochs(
        words, step=0.1, n_permutations=9, random_state=0, **arguments
    )
    # Another analysis of the same file has other files.
    part = f"to_{options[1].removesuffix('-epo.fif')}"
    part = part if "test_epochs" in arguments else "train_on"
    assert load_result(tmp_path / f"words_{part}_generalization.h5") == expected
    assert f"times, {folds}\n" in (out := capsys.readouterr().out).replace(
        "tested on ", ""
    )
    assert ("tested on" in out) == ("folds" not in folds)


@pytest.mark.some(1)
@pytest.mark.parametrize("correction", ["cluster", "tfce"])
def test_clusters_keep_the_whole_null_or_stream_it(
    folder, tmp_path, monkeypatch, correction, undrawn
):
    # As if the map were too large.
    monkeypatch.setattr("mvpa_kfda.decoding.run.FULL_NULL_BYTES", 0)
    command = ["generalize", str(folder / "words-epo.fif"), "--step", "0.1"]
    command += ["--n-permutations", "19", "--out", str(tmp_path)]
    kept = {}
    for options in (["--null", "full"], []):
        assert main([*command, "--correction", correction, *options]) == 0
        result = load_result(tmp_path / "words_generalization.h5")
        kept[result.parameters["null"]] = result.pvalues(correction)
    assert list(kept) == ["full", "stream"]
    assert_array_equal(kept["full"], kept["stream"])
    assert main(command) == 0
    result = load_result(tmp_path / "words_generalization.h5")
    assert result.parameters["null"] == "stream"


def test_sensors_make_a_searchlight(folder, tmp_path, capsys):
    query = f"trial not in {[*range(0, 200, 3)]}"
    options = ["--sensors", "adjacency", "--step", "0.08", "--n-permutations", "50"]
    options += ["--train-on", query, "--groups", "block"]
    file = str(folder / "words-epo.fif")
    assert main(["epochs", file, *options, "--out", str(tmp_path)]) == 0
    (words,) = read_files(folder, "words-epo.fif")
    chosen = {"train_on": query, "groups": "block", "sensors": "adjacency"}
    expected = decode_epochs(
        words, step=0.08, n_permutations=50, random_state=0, **chosen
    )
    assert load_result(tmp_path / "words_train_on_sensors.h5") == expected
    table = pd.read_csv(tmp_path / "words_train_on_sensors.csv")
    assert list(table.columns) == ["sensor", "time", "accuracy", "p", "p_max"]
    assert (tmp_path / "words_train_on_sensors.png").stat().st_size > 10_000
    printed = capsys.readouterr().out
    assert f"16 sensors x {len(expected.times)} time points, 5 folds" in printed
    i, j = np.unravel_index(expected.scores.argmax(), expected.shape)
    place = f"at sensor {expected.ch_names[i]} and {expected.times[j]:g} s"
    assert place in report_line(printed, "Found: highest accuracy ")


def test_smooth_takes_the_neighbours_of_picked_channels(folder, tmp_path, epochs):
    picks = epochs.ch_names[2:14]
    command = ["generalize", str(folder / "words-epo.fif"), "--smooth", "5"]
    command += ["--step", "0.1", "--n-permutations", "9", "--out", str(tmp_path)]
    assert main([*command, "--picks", *picks]) == 0
    info = epochs.copy().pick(picks).info
    kernel = GraphSmooth(mne.channels.find_ch_adjacency(info, "eeg"), 5.0)
    options = {"picks": picks, "step": 0.1, "n_permutations": 9, "random_state": 0}
    (words,) = read_files(folder, "words-epo.fif")
    expected = generalize_epochs(words, kernel=kernel, **options)
    result = load_result(tmp_path / "words_generalization.h5")
    assert_array_equal(result.scores, expected.scores)
    assert_array_equal(result.predictions, expected.predictions)
    assert_allclose(result.lambdas, expected.lambdas, rtol=1e-10, atol=0)
    plain = generalize_epochs(words, **options)
    assert not np.allclose(plain.lambdas, expected.lambdas, rtol=1e-3, atol=0)


@pytest.mark.parametrize(
    ("option", "scoring"),
    [("", "r2"), ("--scoring pearsonr r2", ["pearsonr", "r2"])],
)
def test_regression_predicts_a_column(folder, tmp_path, capsys, option, scoring):
    words = f"--task regression --y rt --groups block --n-permutations 99 {option}"
    command = ["epochs", str(folder / "words-epo.fif"), *words.split()]
    assert main([*command, "--out", str(tmp_path)]) == 0
    options = {"groups": "block", "task": "regression", "scoring": scoring}
    (words,) = read_files(folder, "words-epo.fif")
    expected = decode_epochs(words, "rt", n_permutations=99, random_state=0, **options)
    assert load_result(tmp_path / "words_regression.h5") == expected
    assert (tmp_path / "words_regression.png").stat().st_size > 10_000
    printed = capsys.readouterr()
    assert printed.err == ""
    y, name = expected.y, expected.scoring[0]
    assert f"60 trials, values from {y.min():g} to {y.max():g}, 16 ch" in printed.out
    mean = expected.permuted_mean()
    chance = f" (chance 0.000; mean of permuted values {mean:.3f})"
    chance = chance if name == "pearsonr" else ""
    label = {"r2": "R²", "pearsonr": "Pearson correlation"}[name]
    at = f"{expected.times[expected.scores.argmax()]:g} s"
    line = f"Found: highest {label} {expected.scores.max():.3f} at {at}{chance}\n"
    assert line in printed.out
    assert "Test: significant at " in printed.out


def test_nothing_significant_is_said(tmp_path, capsys, undrawn):
    noise = simulate_epochs(30, 2, snr=0.0, n_channels=16, sfreq=20.0, tmax=0.3)
    noise.save(tmp_path / "noise-epo.fif", verbose=False)
    file, out = str(tmp_path / "noise-epo.fif"), str(tmp_path)
    assert main(["epochs", file, "--n-permutations", "20", "--out", out]) == 0
    assert "Test: significant at none of " in capsys.readouterr().out
    assert main(["epochs", file, "--n-permutations", "10", "--out", out]) == 0
    assert "too few permutations to reach this level" in capsys.readouterr().out
    command = ["epochs", file, "--n-permutations", "0", "--out", out]
    assert main([*command, "--picks", *noise.ch_names[:2]]) == 0
    assert "2 channels" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "stem"),
    [("a_epo.fif", "a"), ("b-epo.fif.gz", "b"), ("-epo.fif", "epochs")],
)
def test_outputs_are_named_after_the_file(tmp_path, epochs, name, stem):
    epochs.save(tmp_path / name, verbose=False)
    out = tmp_path / "out"
    options = ["--step", "0.2", "--n-permutations", "0", "--out", str(out)]
    assert main(["epochs", str(tmp_path / name), *options]) == 0
    assert {path.name for path in out.iterdir()} == {
        f"{stem}.png",
        f"{stem}.csv",
        f"{stem}.h5",
    }


def as_eeglab(epochs):
    """Return epochs as the structure that EEGLAB saves."""
    names = {code: name for name, code in epochs.event_id.items()}
    types = [names[code] for code in epochs.events[:, 2]]
    n, n_channels, n_times = epochs.get_data().shape
    event = np.zeros(n, [("type", object), ("latency", float), ("epoch", float)])
    epoch = np.zeros(n, [("event", float), ("eventtype", object)])
    event["type"], event["epoch"] = types, np.arange(n) + 1
    event["latency"] = epochs.events[:, 0] + 1
    epoch["event"], epoch["eventtype"] = np.arange(n) + 1, types
    places = np.zeros(n_channels, [("labels", object)])
    places["labels"] = epochs.ch_names
    shape = {"trials": n, "nbchan": n_channels, "pnts": n_times}
    times = {"xmin": epochs.tmin, "xmax": epochs.tmax, "srate": epochs.info["sfreq"]}
    data = np.transpose(1e6 * epochs.get_data(), (1, 2, 0))
    parts = {"event": event, "epoch": epoch, "chanlocs": places, "data": data}
    return {"EEG": {"ref": "common", "icawinv": [], **shape, **times, **parts}}


def as_fieldtrip(epochs):
    """Return epochs as the structure of FieldTrip's, as MNE-Python is given it."""
    codes = epochs.events[:, 2]
    numbers = np.column_stack([codes, np.arange(len(codes)) // 12])
    places = {"label": epochs.ch_names, "chanpos": np.zeros((16, 3)), "unit": "cm"}
    return {
        "label": epochs.ch_names,
        "fsample": epochs.info["sfreq"],
        "trial": list(epochs.get_data()),
        "time": [epochs.times] * len(epochs),
        "trialinfo": numbers,
        "elec": places,
    }


def test_epochs_of_eeglab_are_decoded_and_verified(tmp_path, epochs):
    savemat(tmp_path / "words.set", as_eeglab(epochs))
    file, out = str(tmp_path / "words.set"), str(tmp_path)
    options = ["--step", "0.1", "--out", out]
    assert main(["epochs", file, *options, "--n-permutations", "9"]) == 0
    result = load_result(tmp_path / "words.h5")
    expected = decode_epochs(epochs, step=0.1, n_permutations=9, random_state=0)
    assert_allclose(result.scores, expected.scores, rtol=1e-12)
    assert_array_equal(result.classes, expected.classes)
    assert_allclose(result.times, expected.times, rtol=1e-9, atol=1e-12)
    assert main(["verify", f"{out}/words.h5", file]) == 0
    assert main(["rerun", f"{out}/words.h5", file, "--out", out]) == 0
    half = ["--test-epochs", file, "--same-trials", "True", *options]
    assert main(["generalize", file, *half, "--n-permutations", "0"]) == 0
    (made,) = map(str, tmp_path.glob("*_generalization.h5"))
    assert main(["verify", made, file, "--test-epochs", file]) == 0
    again = ["rerun", made, file, "--test-epochs", file, "--out", out]
    assert main(again) == 0


def test_data_of_fieldtrip_are_decoded(tmp_path, epochs, monkeypatch, capsys):
    given, found = as_fieldtrip(epochs), {}

    def read_mat(path, variable_names, **_):
        found["name"] = variable_names
        return {variable_names[0]: given}

    savemat(tmp_path / "words.mat", {"data_clean": {"fsample": 50.0}})
    options = ["--step", "0.1", "--n-permutations", "0", "--out", str(tmp_path)]
    command = ["epochs", str(tmp_path / "words.mat"), *options]
    monkeypatch.setitem(sys.modules, "pymatreader", None)
    assert main(command) == 2
    assert "words.mat cannot be read without the package pymatreader" in (
        capsys.readouterr().err
    )
    reader = SimpleNamespace(read_mat=read_mat)
    monkeypatch.setitem(sys.modules, "pymatreader", reader)
    assert main([*command, "--groups", "'1'"]) == 0
    assert found["name"] == ["data_clean"]
    result = load_result(tmp_path / "words.h5")
    expected = decode_epochs(epochs, step=0.1, groups=given["trialinfo"][:, 1])
    assert_allclose(result.scores, expected.scores, rtol=1e-12)


def test_running_again_replaces_the_output(folder, tmp_path):
    file = str(folder / "words-epo.fif")
    for permutations in ("0", "12"):
        options = ["--step", "0.1", "--n-permutations", permutations]
        assert main(["epochs", file, *options, "--out", str(tmp_path)]) == 0
    assert load_result(tmp_path / "words.h5").n_permutations == 12


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "required: COMMAND"),
        (["nonsense"], "invalid choice: 'nonsense'"),
        (["epochs"], "required: FILE"),
        (["epochs", "absent-epo.fif"], "no such file: .*absent-epo.fif"),
        (["epochs", "."], "is not a file of epochs"),
        (["epochs", "text-epo.fif"], "text-epo.fif is not a file of epochs"),
        (["epochs", "empty-epo.fif"], "empty-epo.fif is not a file of epochs"),
        (["epochs", "cut-epo.fif"], "cut-epo.fif is not a file of epochs"),
        (["epochs", "average-ave.fif"], "average-ave.fif is not a file of epochs"),
        (["epochs", "words.csv"], "words.csv is not a file of epochs"),
        (["epochs", "raw.set"], r"raw.set holds no epochs, .* continuous recording"),
        (["epochs", "bad.set"], r"bad.set is not a file of epochs .*EEGLAB epochs"),
        (["epochs", "two.mat"], r"two.mat .*it holds several variables, 'a', 'b'"),
        (["epochs", "text.mat"], r"text.mat is not a file of epochs"),
        (["epochs", "words-epo.fif", "late-epo.fif"], "unrecognized .*late-epo.fif"),
        (["words", "--y", "color"], "y='color' is not a metadata column.*'block'"),
        (["words", "--groups", "runs"], "groups='runs' is not a metadata .*'block'"),
        (["words", "--picks", "Q9"], "No good channels for picks='Q9'"),
        (["words", "--window", "3"], "longer than the epoch"),
        (["words", "--window", "long"], "Invalid value for 'window': 'long'"),
        (["words", "--kernel", "cubic"], "Invalid value for 'kernel': 'cubic'.*rbf"),
        (["words", "--kernel", "rbff"], r"Did you mean rbf\?$"),
        (["words", "--correction", "clustre"], r"Did you mean cluster\?$"),
        (["words", "--reg", "0.1", "-1"], "Invalid value for 'grid': -1"),
        (["words", "--reg", "Tunned(3)"], r"not known. Did you mean Tuned\?$"),
        (["words", "--reg", "Tuned(x)"], "not written as in Python"),
        (["words", "--reg", "Tuned(3, 4, 5)"], "cannot be made: .*arguments"),
        (["words", "--reg", "DegreesOfFreedom(40)"], "15 independent directions"),
        (["words", "--reg", HOSTILE], "Invalid value for 'reg': .__import__"),
        (["words", "--cv", "300"], "300"),
        (["words", "--scoring", "speed"], "Invalid value for 'scoring': 'speed'.*kapp"),
        (["words", "--n-permutations", "-1"], "Invalid value for 'n_permutations': -1"),
        (["words", "--n-perms", "9"], "unrecognized .*Did you mean --n-permutations.$"),
        (["words", "--n_jobs=2"], r"unrecognized .*Did you mean --n-jobs\?$"),
        (["words", "--n-permutations", "9", "8"], "unrecognized arguments: 8$"),
        (["words", "--zzzz"], "unrecognized arguments: --zzzz$"),
        (["words", "--train-on", "block > 9"], "train_on='block > 9' selects none of"),
        (
            ["words", "--smooth", "1", "--kernel", "rbf"],
            "--smooth sets a linear kernel",
        ),
        (["words", "--smooth", "-1"], "Invalid value for 'strength': -1"),
        (["words", "--smooth", "1", "--picks", "Fz"], "--smooth needs four or more"),
        (["words", "--task", "regression"], "regression"),
        (["generalize", "words-epo.fif", "--same-trials", "True"], "same_trials"),
        (
            ["generalize", "words-epo.fif", "--test-epochs", "gone-epo.fif"],
            "no such file: gone",
        ),
        (
            ["generalize", "words-epo.fif", "--test-epochs", "text-epo.fif"],
            "text-epo.fif is not",
        ),
        (
            ["generalize", "words-epo.fif", "--null", "max", "--correction", "tfce"],
            "--correction tfce needs more than the maxima.*--null full",
        ),
        (
            ["generalize", "words-epo.fif", "--correction", "cluster-depth"],
            "cluster-depth is for time courses, and generalize makes a map",
        ),
        (
            ["words", "--sensors", "True", "--correction", "cluster-depth"],
            "cluster-depth is for time courses, and with --sensors there is a map",
        ),
        (["words", "--out", "words.csv"], "words.csv"),
        (["words", "--out", "words.csv/below"], "words.csv"),
        (["demo", "--out", "words.csv"], "words.csv is a file, not a folder"),
    ],
)
def test_errors_are_one_line_and_status_two(
    folder, tmp_path, monkeypatch, capsys, arguments, message
):
    monkeypatch.chdir(folder)
    before = sorted(path.name for path in folder.iterdir())
    if arguments[:1] == ["words"]:
        arguments = ["epochs", "words-epo.fif", *arguments[1:]]
        if "--out" not in arguments:
            arguments += ["--out", str(tmp_path)]
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    lines = printed.err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("mvpa-kfda: error: ")
    assert re.search(message, lines[0])
    assert sorted(path.name for path in folder.iterdir()) == before


@pytest.mark.parametrize(
    "command",
    [
        ["demo"],
        ["epochs", "words-epo.fif"],
        ["generalize", "words-epo.fif"],
    ],
)
def test_output_folder_is_tried_before_anything_is_computed(
    folder, monkeypatch, command
):
    def fail(*args, **kwargs):
        raise AssertionError("computed although the output cannot be written")

    monkeypatch.chdir(folder)
    monkeypatch.setattr(mvpa_kfda, "decode_epochs", fail)
    monkeypatch.setattr(mvpa_kfda, "generalize_epochs", fail)
    assert main([*command, "--out", "words.csv"]) == 2


def test_needs_no_display_and_says_nothing_on_stderr(folder, tmp_path):
    done = run_process(
        *("epochs", folder / "words-epo.fif", "--step", "0.1", "--out", tmp_path),
        *("--n-permutations", "9"),
        MPLBACKEND="module://a_backend_that_cannot_be_loaded",
        DISPLAY="",
        MNE_LOGGING_LEVEL="INFO",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "words.png").exists()


def test_status_reaches_the_shell(capsys):
    done = run_process("epochs", "absent-epo.fif")
    assert done.returncode == 2
    assert done.stderr == "mvpa-kfda: error: no such file: absent-epo.fif\n"
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["--version"])
    assert capsys.readouterr() == (f"mvpa-kfda {mvpa_kfda.__version__}\n", "")


HELP = {
    "epochs": "--y --correction roc_auc tfce polynomial --train-on --sensors --smooth",
    "generalize": "--test-epochs --null --same-trials --confounds",
    "searchlight": "--radius --process-mask-img --drop --resume --labels .check tfce",
    "regions": "--labels-img --lut --mask-img --average-blocks",
    "betas": "--events --fmriprep --hrf-model --t-r lsa ar1",
    "group": "--method --other --paired",
    "bids": "--config --participant-label --by --n-permutations --method --lut",
}


@pytest.mark.parametrize("command", HELP)
def test_help_names_options_and_says_what_they_are(command, capsys):
    with pytest.raises(SystemExit, match="0"):
        main([command, "--help"])
    printed = capsys.readouterr().out
    words = printed.replace(".checkpoint", ".check")
    assert [word for word in HELP[command].split() if word not in words] == []
    for line, after in pairwise([*printed.splitlines(), ""]):
        if line.startswith("  --") and len(line.split("  ")) < 3:
            assert after.startswith(" " * 20), line  # every flag has a text
    assert ":class:" not in printed
    assert "``" not in printed


def test_nothing_that_is_written_is_evaluated(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for text in (
        *(HOSTILE, "open('x', 'w')", "Tuned(open('x', 'w'))", "[open('x', 'w')]"),
        *("RBF.__init__(1)", "Ridge((lambda: open('x', 'w'))())", "(" * 9999),
    ):
        with contextlib.suppress(ValueError):
            assert made(literal(text)) == text
    assert list(tmp_path.iterdir()) == []


def test_help_loads_nothing_that_takes_long():
    code = """
import contextlib, io, sys
from mvpa_kfda.cli.main import main
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
    main(["--help"])
slow = {"numpy", "scipy", "sklearn", "pandas", "mne", "nibabel", "nilearn"}
print(sorted(slow & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (ValueError("one line,\n    two lines"), 2, "error: one line, two lines"),
        (RuntimeError("a worker was killed"), 2, "error: a worker was killed"),
        (MemoryError("a worker was killed"), 2, "error: a worker was killed"),
        (KeyboardInterrupt(), 130, "stopped"),
    ],
    ids=repr,
)
def test_failures_are_one_line(tmp_path, monkeypatch, capsys, error, status, line):
    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(mvpa_kfda, "decode_epochs", fail)
    assert main(["demo", "--out", str(tmp_path)]) == status
    assert capsys.readouterr().err == f"mvpa-kfda: {line}\n"


def test_warnings_about_programs_are_not_shown(tmp_path, monkeypatch, capsys):
    def grumble(*args, **kwargs):
        for kind in (UserWarning, RuntimeWarning, FutureWarning, DeprecationWarning):
            warnings.warn(f"a {kind.__name__}\nof two lines", kind, stacklevel=2)
        raise ValueError("enough")

    monkeypatch.setattr(mvpa_kfda, "decode_epochs", grumble)
    assert main(["demo", "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "mvpa-kfda: warning: a UserWarning of two lines",
        "mvpa-kfda: warning: a RuntimeWarning of two lines",
        "mvpa-kfda: error: enough",
    ]
