"""The command line: same numbers as the functions, one-line errors."""

import inspect
import os
import re
import shlex
import subprocess
import sys
import warnings
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

import mvpa_kfda
from mvpa_kfda import (
    decode_epochs,
    decode_regions,
    generalize_epochs,
    load_result,
    searchlight,
    simulate_epochs,
)
from mvpa_kfda.cli import betas as betas_command
from mvpa_kfda.cli import common, group
from mvpa_kfda.cli.main import _make_parser as make_parser
from mvpa_kfda.cli.main import main
from mvpa_kfda.data import betas
from mvpa_kfda.decoding.run import NULLS
from mvpa_kfda.group.second_level import METHODS
from mvpa_kfda.inference.corrections import CORRECTIONS
from mvpa_kfda.inference.listed import CLUSTER_FDR
from mvpa_kfda.inference.null import ALTERNATIVES
from mvpa_kfda.metrics.classes import METRICS
from mvpa_kfda.metrics.regression import REGRESSION_METRICS
from mvpa_kfda.results.group import GROUP_TESTS

DEMO_ENDINGS = {"demo.png", "demo.csv", "demo.h5"}


@pytest.fixture(scope="module")
def epochs():
    return simulate_epochs(
        60, 3, snr=1.0, n_channels=16, sfreq=50.0, tmin=-0.1, tmax=0.4, n_blocks=5
    )


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
    image = plt.imread(Path(__file__).parents[1] / "doc" / "_static" / "demo.png")
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


def worded(picks, out):
    """Return these options as the command takes them."""
    words = "--by condition --groups block --window 0.06 --step 0.04 --kernel rbf "
    words += "--reg 0.7 --scoring roc_auc, accuracy --seed 4 --jobs 1 --out"
    return [*words.split(), str(out), "--picks", *picks]


def test_epochs_passes_every_option_on(folder, tmp_path, epochs, capsys):
    picks = epochs.ch_names[:10]
    arguments = [
        *worded(picks, tmp_path),
        "--permutations",
        "30",
        "--correction",
        "fdr",
    ]
    status = main(["epochs", str(folder / "words-epo.fif"), *map(str, arguments)])
    printed = capsys.readouterr()
    assert (status, printed.err) == (0, "")
    expected = decode_epochs(
        mne.read_epochs(folder / "words-epo.fif", verbose=False),
        "condition",
        picks=picks,
        n_permutations=30,
        **OPTIONS,
    )
    assert load_result(tmp_path / "words.h5") == expected
    table = pd.read_csv(tmp_path / "words.csv")
    assert list(table.columns) == ["time", "roc_auc", "accuracy", "p", "p_fdr"]
    assert_allclose(table["p_fdr"], expected.pvalues("fdr"), rtol=1e-12, atol=0)
    assert (tmp_path / "words.png").stat().st_size > 10_000
    assert "10 channels" in printed.out
    assert "Found: highest ROC AUC" in printed.out
    assert "FDR correction" in printed.out


def test_without_permutations_there_are_no_p_values(folder, tmp_path, capsys):
    file = str(folder / "words-epo.fif")
    assert main(["epochs", file, "--permutations", "0", "--out", str(tmp_path)]) == 0
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


def test_generalize_passes_every_option_on(folder, tmp_path, epochs, capsys):
    picks = epochs.ch_names[:10]
    words = "--generalize --permutations 200 --correction max --null max"
    arguments = [*worded(picks, tmp_path), *words.split()]
    assert main(["epochs", str(folder / "words-epo.fif"), *arguments]) == 0
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
        ("--test-file other-epo.fif", {"test_epochs": True}, "30 separate trials"),
        (
            "--test-file late-epo.fif --same-trials --cv 4",
            {"test_epochs": True, "same_trials": True, "cv": 4},
            "4 folds",
        ),
        (
            "--test-file late-epo.fif --no-same-trials",
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
    short = ["--step", "0.1", "--permutations", "9", "--out", str(tmp_path)]
    assert main(["epochs", "words-epo.fif", "--generalize", *options, *short]) == 0
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


@pytest.mark.parametrize("option", ["", "--sensors", "--generalize"])
def test_train_on_leaves_blocks_out(folder, tmp_path, capsys, option, undrawn):
    query = f"trial not in {[*range(0, 200, 3)]}"
    short = f"--groups block --step 0.2 --permutations 9 --out {tmp_path} {option}"
    command = ["epochs", str(folder / "words-epo.fif"), "--train-on", query]
    assert main([*command, *short.split()]) == 0
    (words,) = read_files(folder, "words-epo.fif")
    options = {"sensors": "adjacency"} if option == "--sensors" else {}
    decode = generalize_epochs if option == "--generalize" else decode_epochs
    expected = decode(
        words,
        groups="block",
        step=0.2,
        train_on=query,
        n_permutations=9,
        random_state=0,
        **options,
    )
    ending = {"": "", "--sensors": "_sensors", "--generalize": "_generalization"}
    result = load_result(tmp_path / f"words_train_on{ending[option]}.h5")
    assert result == expected
    assert [len(test) for _, test in result.folds] == [4] * 5
    assert f"words-epo.fif, trained on {query}: " in capsys.readouterr().out


@pytest.mark.some(1)
@pytest.mark.parametrize("correction", ["cluster", "tfce"])
def test_clusters_keep_the_whole_null_or_stream_it(
    folder, tmp_path, monkeypatch, correction, undrawn
):
    # As if the map were too large.
    monkeypatch.setattr("mvpa_kfda.decoding.run.FULL_NULL_BYTES", 0)
    command = ["epochs", str(folder / "words-epo.fif"), "--generalize", "--step", "0.1"]
    command += ["--permutations", "19", "--out", str(tmp_path)]
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
    options = ["--sensors", "--step", "0.08", "--permutations", "50"]
    file = str(folder / "words-epo.fif")
    assert main(["epochs", file, *options, "--out", str(tmp_path)]) == 0
    (words,) = read_files(folder, "words-epo.fif")
    expected = decode_epochs(
        words, sensors="adjacency", step=0.08, n_permutations=50, random_state=0
    )
    assert load_result(tmp_path / "words_sensors.h5") == expected
    table = pd.read_csv(tmp_path / "words_sensors.csv")
    assert list(table.columns) == ["sensor", "time", "accuracy", "p", "p_max"]
    assert (tmp_path / "words_sensors.png").stat().st_size > 10_000
    printed = capsys.readouterr().out
    assert f"16 sensors x {len(expected.times)} time points, 10 folds" in printed
    i, j = np.unravel_index(expected.scores.argmax(), expected.shape)
    place = f"at sensor {expected.ch_names[i]} and {expected.times[j]:g} s"
    assert place in report_line(printed, "Found: highest accuracy ")


def test_nothing_significant_is_said(tmp_path, capsys, undrawn):
    noise = simulate_epochs(30, 2, snr=0.0, n_channels=16, sfreq=20.0, tmax=0.3)
    noise.save(tmp_path / "noise-epo.fif", verbose=False)
    file, out = str(tmp_path / "noise-epo.fif"), str(tmp_path)
    assert main(["epochs", file, "--permutations", "20", "--out", out]) == 0
    assert "Test: significant at none of " in capsys.readouterr().out
    assert main(["epochs", file, "--permutations", "10", "--out", out]) == 0
    assert "too few permutations to reach this level" in capsys.readouterr().out
    command = ["epochs", file, "--permutations", "0", "--out", out]
    assert main([*command, "--picks", f"{noise.ch_names[0]}, {noise.ch_names[1]}"]) == 0
    assert "2 channels" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "stem"),
    [("a_epo.fif", "a"), ("b-epo.fif.gz", "b"), ("-epo.fif", "epochs")],
)
def test_outputs_are_named_after_the_file(tmp_path, epochs, name, stem):
    epochs.save(tmp_path / name, verbose=False)
    out = tmp_path / "out"
    options = ["--step", "0.2", "--permutations", "0", "--out", str(out)]
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
    options = ["--step", "0.1", "--permutations", "9", "--out", out]
    assert main(["epochs", file, *options]) == 0
    result = load_result(tmp_path / "words.h5")
    expected = decode_epochs(epochs, step=0.1, n_permutations=9, random_state=0)
    assert_allclose(result.scores, expected.scores, rtol=1e-12)
    assert_array_equal(result.classes, expected.classes)
    assert_allclose(result.times, expected.times, rtol=1e-9, atol=1e-12)
    assert main(["verify", f"{out}/words.h5", file]) == 0
    assert main(["rerun", f"{out}/words.h5", file, "--out", out]) == 0
    half = ["--generalize", "--test-file", file, "--same-trials", *options]
    assert main(["epochs", file, *half, "--permutations", "0"]) == 0
    (made,) = map(str, tmp_path.glob("*_generalization.h5"))
    assert main(["verify", made, file, "--test-file", file]) == 0
    again = ["rerun", made, file, "--test-file", file, "--out", out]
    assert main(again) == 0


def test_data_of_fieldtrip_are_decoded(tmp_path, epochs, monkeypatch, capsys):
    given, found = as_fieldtrip(epochs), {}

    def read_mat(path, variable_names, **_):
        found["name"] = variable_names
        return {variable_names[0]: given}

    savemat(tmp_path / "words.mat", {"data_clean": {"fsample": 50.0}})
    options = ["--step", "0.1", "--permutations", "0", "--out", str(tmp_path)]
    command = ["epochs", str(tmp_path / "words.mat"), *options]
    monkeypatch.setitem(sys.modules, "pymatreader", None)
    assert main(command) == 2
    assert "words.mat cannot be read without the package pymatreader" in (
        capsys.readouterr().err
    )
    reader = SimpleNamespace(read_mat=read_mat)
    monkeypatch.setitem(sys.modules, "pymatreader", reader)
    assert main([*command, "--groups", "1"]) == 0
    assert found["name"] == ["data_clean"]
    result = load_result(tmp_path / "words.h5")
    expected = decode_epochs(epochs, step=0.1, groups=given["trialinfo"][:, 1])
    assert_allclose(result.scores, expected.scores, rtol=1e-12)


def test_running_again_replaces_the_output(folder, tmp_path):
    file = str(folder / "words-epo.fif")
    for permutations in ("0", "12"):
        options = ["--step", "0.1", "--permutations", permutations]
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
        (["words", "--by", "color"], "--by color is not a metadata column.*'block'"),
        (["words", "--groups", "runs"], "--groups runs is not a metadata .*'block'"),
        (["words", "--picks", "Q9"], "No good channels for --picks Q9"),
        (["words", "--window", "3"], "longer than the epoch"),
        (["words", "--window", "long"], "--window: invalid float value: 'long'"),
        (["words", "--step", "-1"], "Invalid value for --step: -1"),
        (["words", "--kernel", "cubic"], "invalid choice: 'cubic'.*rbf"),
        (["words", "--kernel", "precomputed"], "invalid choice: 'precomputed'"),
        (["words", "--reg", "0"], "Invalid value for --reg: 0"),
        (["words", "--cv", "1"], "cv"),
        (["words", "--cv", "300"], "300"),
        (["words", "--scoring", "speed"], "Invalid value for --scoring: 'speed'.*kapp"),
        (["words", "--scoring", "confusion_matrix"], "Put a single-number metric"),
        (["words", "--correction", "all"], "invalid choice: 'all'.*tfce"),
        (["words", "--permutations", "-1"], "Invalid value for --permutations: -1"),
        (["words", "--seed", "-3"], "-3"),
        (["words", "--jobs", "0"], "Invalid value for --jobs: 0"),
        (
            ["words", "--train-on", "block > 9"],
            "--train-on 'block > 9' selects none of",
        ),
        (
            ["words", "--train-on", "block < 4", "--groups", "block"],
            r"--train-on 'block < 4' leaves no trial to test .* or pass other folds\.$",
        ),
        (["words", "--null", "max", "--test-file", "x"], "--test-file, --null belong"),
        (["words", "--no-same-trials"], "--same-trials belongs to time generalization"),
        (["words", "--generalize", "--sensors"], "either --generalize or --sensors"),
        (["words", "--generalize", "--same-trials"], "Add --test-file"),
        (["words", "--generalize", "--train-on", "room == 1"], "no query on the"),
        (["words", "--generalize", "--train-on", "block > 9"], "selects none of the"),
        (
            ["words", "--generalize", "--test-file", "gone-epo.fif"],
            "no such file: gone",
        ),
        (
            ["words", "--generalize", "--test-file", "text-epo.fif"],
            "text-epo.fif is not",
        ),
        (
            ["words", "--generalize", "--test-file", "half-epo.fif"],
            "are also in epochs",
        ),
        (["words", "--generalize", "--test-file", "late-epo.fif"], "Use --same-trials"),
        (["words", "--generalize", "--null", "some"], "invalid choice: 'some'.*max"),
        (
            ["words", "--generalize", "--null", "max", "--correction", "tfce"],
            "--correction tfce needs more than the maxima.*--null full",
        ),
        (
            ["words", "--generalize", "--correction", "cluster-depth"],
            "cluster-depth is for time courses, and --generalize makes a map",
        ),
        (
            ["words", "--sensors", "--correction", "cluster-depth"],
            "cluster-depth is for time courses, and --sensors makes a map",
        ),
        (["words", "--sensors", "--picks", "Fz"], "four or more channels .* 1 of type"),
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
        ["epochs", "words-epo.fif", "--generalize"],
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
        *("--permutations", "9"),
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


OF_IMAGES = (
    "--drop --preprocess --confounds --resume --mask roc_auc tfce .check IMAGE permuted"
)
HELP = {
    "epochs": "--by --correction roc_auc tfce polynomial overwritten --generalize "
    "--test-file --train-on --null --sensors --preprocess --confounds",
    "searchlight": f"--radius --process-mask {OF_IMAGES}",
    "regions": f"--atlas --atlas-names {OF_IMAGES}",
    "betas": "--events --fmriprep --hrf-model --t-r lsa ar1",
    "group": "--method --other --paired",
}


@pytest.mark.parametrize("command", HELP)
def test_help_names_options_and_metrics(command, capsys):
    with pytest.raises(SystemExit, match="0"):
        main([command, "--help"])
    printed = capsys.readouterr().out
    assert [word for word in HELP[command].split() if word not in printed] == []


def test_names_of_options_are_those_of_the_functions():
    assert list(common.METRICS) == list(METRICS)
    assert common.NULLS == NULLS
    assert set(common.REGRESSION_METRICS) == set(REGRESSION_METRICS)
    assert group.METHODS == tuple(METHODS) == tuple(GROUP_TESTS)
    assert betas_command.METHODS == betas.METHODS
    assert betas_command.NOISE_MODELS == betas.NOISE_MODELS
    assert betas_command.HRF_MODELS == tuple(betas.HRF_MODELS)
    assert set(group.CORRECTIONS) == {*CORRECTIONS, CLUSTER_FDR}
    assert group.ALTERNATIVES == ALTERNATIVES


def test_help_loads_nothing_that_takes_long():
    code = """
import contextlib, io, sys
from mvpa_kfda.cli.main import _make_parser as make_parser
from mvpa_kfda.cli.main import main
for command in ([], ["epochs"], ["searchlight"], ["regions"], ["betas"], ["group"]):
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
        main([*command, "--help"])
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


def test_queries_stand_in_messages_as_one_would_type_them():
    options = make_parser().options()
    text = """train_on="run == '1'" selects none; train_on='run > 1' selects all."""
    assert common.reword(text, options) == (
        """--train-on "run == '1'" selects none; --train-on 'run > 1' selects all."""
    )


def test_help_is_a_word_in_messages():
    text = "Neither folds nor permutations help against it."
    assert common.reword(text, make_parser().options()) == text


def test_defaults_are_those_of_python_or_the_help_says_why():
    for function in (decode_epochs, generalize_epochs, searchlight, decode_regions):
        known = inspect.signature(function).parameters
        for option in common.ANALYSIS_OPTIONS:
            # What is not given is left to the function.
            if option.argument in known and option.default is not None:
                differs = known[option.argument].default != option.default
                assert differs == ("in Python" in option.help), option.flag


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["epochs", "x-epo.fif", "--corection", "max"], "Did you mean --correction?"),
        (["epochs", "x-epo.fif", "--corection=max"], "Did you mean --correction?"),
        (["bids", "in", "out", "group", "--tsk", "faces"], "Did you mean --task?"),
    ],
)
def test_misspelt_options_are_told_the_nearest(capsys, given, message):
    assert main(given) == 2
    assert capsys.readouterr().err.endswith(f"{given[-1]}. {message}\n")


def test_options_like_no_other_get_no_advice(capsys):
    assert main(["epochs", "x-epo.fif", "--zzzz"]) == 2
    assert capsys.readouterr().err.endswith("unrecognized arguments: --zzzz\n")
