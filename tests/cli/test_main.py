"""The command line as a whole: the demo, help, one line for errors, exit status."""

import os
import subprocess
import sys
import warnings
from itertools import pairwise
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from numpy.testing import assert_allclose, assert_array_equal

import mvpa_kfda
from mvpa_kfda import load_result
from mvpa_kfda.cli.main import main
from tests.commands import BOLD, call


def test_demo_writes_figure_table_and_result(tmp_path, capsys):
    out, open_before = tmp_path / "new" / "folder", plt.get_fignums()
    assert main(["demo", "--out", str(out)]) == 0
    assert plt.get_fignums() == open_before
    assert {path.name for path in out.iterdir()} == {"demo.png", "demo.csv", "demo.h5"}
    assert (out / "demo.png").read_bytes().startswith(b"\x89PNG")
    result = load_result(out / "demo.h5")
    assert (len(result.classes), result.n_permutations) == (3, 1000)
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


def test_a_process_needs_no_display_and_help_loads_nothing_that_takes_long(
    inside, tmp_path, capsys
):
    code = f"""
import contextlib, io, sys
from mvpa_kfda.cli.main import main
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
    main(["--help"])
slow = {{"numpy", "scipy", "sklearn", "pandas", "mne", "nibabel", "nilearn"}}
print(sorted(slow & set(sys.modules)), flush=True)
words = "epochs words-epo.fif --step 0.2 --n-permutations 2 --out"
status = main([*words.split(), {str(tmp_path)!r}])
sys.exit(main(["epochs", "absent-epo.fif"]) if status == 0 else status)
"""
    environment = os.environ | {
        "MPLBACKEND": "module://a_backend_that_cannot_be_loaded",
        "DISPLAY": "",
        "MNE_LOGGING_LEVEL": "INFO",
    }
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.stdout.startswith("[]\nDecoded words-epo.fif: ")
    assert done.stderr == "mvpa-kfda: error: no such file: absent-epo.fif\n"
    assert done.returncode == 2
    assert (tmp_path / "words.png").exists()
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["--version"])
    assert capsys.readouterr() == (f"mvpa-kfda {mvpa_kfda.__version__}\n", "")


HELP = {
    "epochs": "--y --correction roc_auc tfce polynomial --sensors --smooth 1000)",
    "generalize": "--test-epochs --train-on --null --same-trials --confounds",
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


@pytest.mark.parametrize(
    "words",
    [
        "demo --out words.csv",
        "epochs words-epo.fif --out words.csv/below",
        f"{BOLD} --out names.tsv/new",
    ],
)
def test_output_folder_is_tried_before_anything_is_computed(
    inside, monkeypatch, capsys, words
):
    for name in ("decode_epochs", "searchlight"):
        monkeypatch.setattr(mvpa_kfda, name, pytest.fail)
    assert call(words) == 2
    assert ".csv is a file, not a folder" in (
        capsys.readouterr().err.replace(".tsv", ".csv")
    )


def test_folder_that_takes_no_files_is_named(inside, tmp_path, capsys, monkeypatch):
    def refuse(dir):
        raise PermissionError(13, "Permission denied", f"{dir}/tmp1")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    assert call(BOLD, "--out", tmp_path) == 2
    assert capsys.readouterr().err == (
        f"mvpa-kfda: error: --out {tmp_path}: no files can be written into this folder "
        "(Permission denied). Change its permissions, or choose another folder.\n"
    )


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

    monkeypatch.setattr(mvpa_kfda, "simulate_epochs", fail)
    assert main(["demo", "--out", str(tmp_path)]) == status
    assert capsys.readouterr().err == f"mvpa-kfda: {line}\n"


def test_warnings_about_programs_are_not_shown(tmp_path, monkeypatch, capsys):
    def grumble(*args, **kwargs):
        for kind in (UserWarning, RuntimeWarning, FutureWarning, DeprecationWarning):
            warnings.warn(f"a {kind.__name__}\nof two lines", kind, stacklevel=2)
        raise ValueError("enough")

    monkeypatch.setattr(mvpa_kfda, "simulate_epochs", grumble)
    assert main(["demo", "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "mvpa-kfda: warning: a UserWarning of two lines",
        "mvpa-kfda: warning: a RuntimeWarning of two lines",
        "mvpa-kfda: error: enough",
    ]
