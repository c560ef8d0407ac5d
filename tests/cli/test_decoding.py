"""Commands that decode: the numbers of the functions, continued where they stopped."""

import re
import shlex
import signal
from pathlib import Path

import mne
import nibabel
import numpy as np
import pandas as pd
import pytest
from nilearn.interfaces.fmriprep import load_confounds
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.decomposition import PCA

from mvpa_kfda import (
    DegreesOfFreedom,
    GraphSmooth,
    Nystrom,
    decode_epochs,
    decode_regions,
    generalize_epochs,
    load_result,
    searchlight,
    single_trial_betas,
)
from mvpa_kfda.cli import output
from mvpa_kfda.cli.decoding import _stem
from mvpa_kfda.utils.checkpoint import Checkpoint
from mvpa_kfda.utils.parallel import WorkersLostError
from tests import bids_data
from tests.commands import (
    BOLD,
    FEW,
    KEEP,
    RUNS,
    SHORT,
    call,
    expected_searchlight,
    kept_bold,
    run,
)


def read(name="words-epo.fif"):
    """Read a file of epochs as the command does."""
    return mne.read_epochs(name, verbose=False)


def line_of(printed, start):
    """Return the line of a report that begins with `start`, without it."""
    (line,) = [line for line in printed.splitlines() if line.startswith(start)]
    return line.removeprefix(start)


# ----------------------------------------------------- the numbers are those of Python

OF_EPOCHS = "--y condition --groups block --window 0.06 --step 0.1 --kernel rbf"
OF_EPOCHS += " --reg 0.7 --scoring roc_auc accuracy --random-state 4 --n-jobs 1"
OPTIONS = {"groups": "block", "window": 0.06, "step": 0.1, "kernel": "rbf"}
OPTIONS |= {"reg": 0.7, "scoring": ["roc_auc", "accuracy"], "random_state": 4}
SHORT_EPOCHS = "epochs words-epo.fif --step 0.2 --n-permutations 2 --groups block"
TWO = "generalize words-epo.fif --step 0.2 --n-permutations 4"
EVERY_THIRD = f"trial not in {[*range(0, 200, 3)]}"
IN_MASK = {"mask_img": "mask.nii.gz", "radius": 3.0}
IN_FEW = IN_MASK | {"process_mask_img": "few.nii.gz"}
ODD = {"train_on": "odd == 1", "n_permutations": 9}
ATLAS = {"labels_img": "atlas.nii.gz", "mask_img": "centres.nii.gz"}
CHOSEN = f"{BOLD} --mask-img mask.nii.gz --radius 3 {FEW} --n-permutations 4"
ANY = {"any": ["face", "house"], "none": "rest"}


def of_epochs(function=decode_epochs, y=None, **options):
    """Return what a function gives for the file of epochs."""
    if "test_epochs" in options:
        options["test_epochs"] = read(options["test_epochs"])
    return function(read(), y, **{"random_state": 0} | options)


def short(**options):
    return of_epochs(**{"step": 0.2, "n_permutations": 2, "groups": "block"} | options)


def of_two(**options):
    return of_epochs(generalize_epochs, step=0.2, n_permutations=4, **options)


def of_images(function, kept=True, label="label", **options):
    """Return what a function gives for the image, without rest or with it."""
    images, table = kept_bold(), pd.read_csv("labels.tsv", sep="\t")[KEEP]
    if not kept:
        images, table = nibabel.load("bold.nii.gz"), "labels.tsv"
    return function(images, (table, label), **{"random_state": 0} | options)


#: Words of a command -> what it gives, the name of its files, and what it says.
CASES = {
    f"epochs words-epo.fif {OF_EPOCHS} --n-permutations 9 --correction fdr": (
        lambda: of_epochs(y="condition", n_permutations=9, **OPTIONS),
        *("words", "60 trials, 3 classes, 16 channels, "),
    ),
    f"{SHORT_EPOCHS} --sensors adjacency --train-on '{EVERY_THIRD}'": (
        lambda: short(train_on=EVERY_THIRD, sensors="adjacency"),
        *("words_train_on_sensors", "16 sensors x "),
    ),
    f"{SHORT_EPOCHS} --task regression --y rt --scoring pearsonr r2": (
        lambda: short(y="rt", task="regression", scoring=["pearsonr", "r2"]),
        *("words_regression", "(chance 0.000; mean of permuted values "),
    ),
    f"generalize words-epo.fif {OF_EPOCHS} --n-permutations 20 --null max": (
        lambda: of_epochs(
            generalize_epochs, "condition", n_permutations=20, null="max", **OPTIONS
        ),
        *("words_generalization", " training times x "),
    ),
    f"{TWO} --test-epochs other-epo.fif": (
        lambda: of_two(test_epochs="other-epo.fif"),
        *("words_to_other_generalization", "times, tested on 30 separate trials\n"),
    ),
    f"{TWO} --test-epochs late-epo.fif --same-trials True --cv 4": (
        lambda: of_two(test_epochs="late-epo.fif", same_trials=True, cv=4),
        *("words_to_late_generalization", "times, 4 folds\n"),
    ),
    # Values are written as in Python.
    f"{SHORT_EPOCHS} --reg DegreesOfFreedom(2.5) --preprocess zscore PCA(3) "
    "--picks 0 1 2 3": (
        lambda: short(
            reg=DegreesOfFreedom(2.5),
            preprocess=["zscore", PCA(3)],
            picks=[0, 1, 2, 3],
        ),
        *("words", "4 channels"),
    ),
    f"{SHORT_EPOCHS} --approx Nystrom(20) --kernel rbf --average 2 --equalize "
    "--no-average-test --n-repeats 2 --y \"{'a':'class_1','b':['class_2']}\"": (
        lambda: short(
            y={"a": "class_1", "b": "class_2"},
            approx=Nystrom(20),
            kernel="rbf",
            average=2,
            equalize=True,
            average_test=False,
            n_repeats=2,
        ),
        *("words", "2 classes"),
    ),
    f"{BOLD} --label-column label --drop rest --groups run --kernel rbf --reg 0.7 "
    "--mask-img mask.nii.gz --process-mask-img few.nii.gz --radius 3.5 --cv 4 "
    "--scoring roc_auc accuracy --standardize False --null max --correction fdr "
    "--n-permutations 9 --random-state 4 --dtype float32 --n-jobs 1": (
        lambda: of_images(
            searchlight,
            groups="run",
            mask_img="mask.nii.gz",
            process_mask_img="few.nii.gz",
            radius=3.5,
            standardize=False,
            kernel="rbf",
            reg=0.7,
            cv=4,
            scoring=["roc_auc", "accuracy"],
            n_permutations=9,
            null="max",
            random_state=4,
            dtype="float32",
        ),
        *("bold_searchlight", "18 voxels"),
    ),
    "regions bold.nii.gz --labels labels.tsv --drop rest --labels-img atlas.nii.gz "
    "--mask-img centres.nii.gz --train-on 'odd == 1' --groups run --n-permutations 9 "
    "--correction cluster": (
        lambda: of_images(decode_regions, groups="run", null="full", **ATLAS, **ODD),
        *("bold_regions_train_on", "trained on 16 trials, tested on 12 others"),
        "(median; 18 to 49)",
    ),
    f"{CHOSEN} --label-column odd --task regression --circular --period 3 --reg 0.3": (
        lambda: of_images(
            searchlight,
            kept=False,
            label="odd",
            task="regression",
            circular=True,
            period=3,
            reg=0.3,
            n_permutations=4,
            **IN_FEW,
        ),
        *("bold_searchlight_regression", "values from 0 to 1"),
    ),
    # Classes are chosen after z-scores.
    f'{CHOSEN} --groups run --classes "{ANY}"': (
        lambda: of_images(
            searchlight,
            kept=False,
            groups="run",
            classes=ANY,
            n_permutations=4,
            **IN_FEW,
        ),
        *("bold_searchlight", "2 classes: any 28, none 4"),
    ),
}


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("words", CASES)
def test_commands_are_the_functions(inside, tmp_path, capsys, words, undrawn):
    expected, stem, *said = CASES[words]
    expected = expected()
    files = run(tmp_path / "new" / "out", words)
    assert {".h5", ".csv", ".png"} <= files.keys()
    assert files[".h5"].name == f"{stem}.h5"
    assert load_result(files[".h5"]) == expected
    correction = re.findall("--correction ([a-z]+)", words) or ["max"]
    corrected = [] if not expected.n_permutations else ["p", f"p_{correction[0]}"]
    table, scored = pd.read_csv(files[".csv"]), expected.scalar_metrics
    assert list(table.columns)[-len([*scored, *corrected]) :] == [*scored, *corrected]
    printed = capsys.readouterr().out
    if not len(expected.classes):
        said.append(f"values from {expected.y.min():g} to {expected.y.max():g}")
    assert all(each in printed for each in said)
    assert f" {expected.scores.max():.3f} " in line_of(printed, "Found: ")
    if corrected:
        p = expected.pvalues(*correction)
        assert_allclose(table[corrected[1]], p.ravel(), rtol=1e-12, atol=0)
        n = np.count_nonzero(p <= 0.05) or "none"
        if correction != ["cluster"] and p.size > 1:
            at = "in" if "region" in table else "at"
            assert line_of(printed, f"Test: significant {at} ").startswith(f"{n} of ")


@pytest.mark.parametrize(
    ("command", "limits"),
    [
        (f"{TWO} --correction cluster", (10**9, 0)),
        # 18 centres, 19 permutations and 4 bytes.
        (
            f"{BOLD} {SHORT} {FEW} --n-permutations 19 --correction tfce",
            (18 * 19 * 4, 18 * 19 * 4 - 1),
        ),
    ],
    ids=["epochs", "images"],
)
def test_clusters_keep_the_whole_null_or_stream_it(
    inside, tmp_path, monkeypatch, command, limits, undrawn, no_figures
):
    kept = {}
    for most in limits:
        monkeypatch.setattr("mvpa_kfda.decoding.run.FULL_NULL_BYTES", most)
        result = load_result(run(tmp_path, command)[".h5"])
        kept[result.parameters["null"]] = result.pvalues(command.split()[-1])
    assert list(kept) == ["full", "stream"]
    assert_array_equal(kept["full"], kept["stream"])
    result = load_result(run(tmp_path, f"{command} --null full")[".h5"])
    assert result.parameters["null"] == "full"


def test_smooth_takes_the_neighbours_of_picked_channels(
    inside, tmp_path, epochs, undrawn
):
    picks = epochs.ch_names[2:14]
    words = f"{TWO} --smooth 5 --picks"
    result = load_result(run(tmp_path, words, *picks)[".h5"])
    info = epochs.copy().pick(picks).info
    kernel = GraphSmooth(mne.channels.find_ch_adjacency(info, "eeg"), 5.0)
    expected = of_two(picks=picks, kernel=kernel)
    assert_array_equal(result.scores, expected.scores)
    assert_array_equal(result.predictions, expected.predictions)
    assert_allclose(result.lambdas, expected.lambdas, rtol=1e-10, atol=0)
    plain = of_two(picks=picks)
    assert not np.allclose(plain.lambdas, expected.lambdas, rtol=1e-3, atol=0)


def test_outputs_are_named_after_the_file_and_replaced(tmp_path, epochs, undrawn):
    path, out = tmp_path / "-epo.fif", tmp_path / "out"
    epochs.save(path, verbose=False)
    for n in (0, 12):
        run(out, f"epochs {path} --step 0.2 --n-permutations {n}")
    names = {path.name for path in out.iterdir()}
    assert names == {f"epochs{end}" for end in (".png", ".csv", ".h5")}
    assert load_result(out / "epochs.h5").n_permutations == 12
    names = ("a_epo.fif", "b-epo.fif.gz", "c.set", "d_epo.mat", "epo-e.fif")
    assert [_stem(Path(name)) for name in names] == ["a", "b", "c", "d", "epo-e"]


# ---------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("epochs absent-epo.fif", "no such file: .*absent-epo.fif"),
        ("epochs .", "is not a file of epochs"),
        ("epochs text-epo.fif", "text-epo.fif is not a file of epochs"),
        ("epochs cut-epo.fif", "cut-epo.fif is not a file of epochs"),
        ("epochs average-ave.fif", "average-ave.fif is not a file of epochs"),
        ("epochs raw.set", "raw.set holds no epochs, .* continuous recording"),
        ("epochs bad.set", "bad.set is not a file of epochs .*EEGLAB epochs"),
        ("epochs text.mat", "text.mat is not a file of epochs"),
        ("epochs two.mat", "two.mat .*it holds several variables, 'a', 'b'"),
        ("words --kernel rbff", r"Did you mean rbf\?$"),
        ("words --reg __import__('os')", "Invalid value for 'reg': .__import__"),
        ("words --smooth 1 --kernel rbf", "--smooth sets a linear kernel"),
        ("words --smooth 1 --picks Fz", "--smooth needs four or more"),
        ("generalize words-epo.fif --test-epochs gone-epo.fif", "no such file: gone"),
        ("generalize words-epo.fif --test-epochs text-epo.fif", "text-epo.fif is not"),
        (
            "generalize words-epo.fif --null max --correction tfce",
            "--correction tfce needs more than the maxima.*--null full",
        ),
        (
            "generalize words-epo.fif --correction cluster-depth",
            "cluster-depth is for time courses, and generalize makes a map",
        ),
        (
            "words --sensors True --correction cluster-depth",
            "cluster-depth is for time courses, and with --sensors there is a map",
        ),
        (f"{BOLD} --null max --correction tfce", "tfce needs .*--null full"),
        (f"{BOLD} --correction cluster-depth", "courses, and images have positions"),
        (f"{BOLD} --threshold 1 --correction cluster", "--threshold 1 is not a p-lev"),
        (f"{BOLD} --threshold .01", "is for clusters. Add --correction"),
        ("regions bold.nii.gz --labels labels.tsv --labels-img no.nii", "is no file"),
    ],
)
def test_what_cannot_be_decoded_is_one_line_and_status_two(
    inside, tmp_path, capsys, words, message
):
    before = sorted(path.name for path in inside.iterdir())
    words = words.replace("words ", "epochs words-epo.fif ", words.startswith("words "))
    assert call(words, "--out", tmp_path) == 2
    printed = capsys.readouterr()
    (line,) = printed.err.splitlines()
    assert line.startswith("mvpa-kfda: error: ")
    assert re.search(message, line)
    assert printed.out == ""
    assert sorted(path.name for path in inside.iterdir()) == before
    assert list(tmp_path.iterdir()) == []  # no checkpoint of a run that never began


# --------------------------------------------------------------- stopped and continued

LONG = f"{BOLD} {SHORT} --groups run --n-permutations 20"
CONTINUE = "stopped; run the same command with --resume to continue\n"


@pytest.fixture
def kept(tmp_path):
    """Return the place of the checkpoint."""
    return tmp_path / "bold_searchlight.checkpoint"


@pytest.fixture
def stop(monkeypatch):
    """Return a function that lets runs end after their first block, by an error."""
    save = Checkpoint.save

    def stop(error):
        def save_and_fail(self, number, arrays):
            save(self, number, arrays)
            raise error

        monkeypatch.setattr(Checkpoint, "save", save_and_fail)
        return lambda: monkeypatch.setattr(Checkpoint, "save", save)

    return stop


def test_stopped_run_is_continued(inside, tmp_path, kept, capsys, stop, no_figures):
    let_go = stop(KeyboardInterrupt())
    command = [LONG, "--out", tmp_path]
    assert call(*command) == 130
    assert capsys.readouterr().err == f"mvpa-kfda: {CONTINUE}"
    let_go()
    assert [*tmp_path.iterdir()] == [kept]
    with Checkpoint(kept) as checkpoint:
        assert checkpoint.finished == {0}
    assert call(*command) == 2
    assert f"{kept} is from an interrupted run. Add --re" in capsys.readouterr().err
    assert call(*command, *"--permute free --resume".split()) == 2
    message = capsys.readouterr().err
    assert "is the checkpoint of another run" in message
    assert "permute was" in message
    assert kept.exists()
    assert call(*command, "--resume", "--n-jobs", "1") == 0
    assert f"Continuing {kept}\n" in capsys.readouterr().out
    assert not kept.exists()
    expected = expected_searchlight(groups=RUNS[KEEP], n_permutations=20)
    assert load_result(tmp_path / "bold_searchlight.h5") == expected


def test_checkpoints_of_nobody_or_of_others(inside, tmp_path, kept, capsys, no_figures):
    for more in ("", "--resume"):
        with Checkpoint(kept) as empty:
            empty.start({"radius": 1.0})
        run(tmp_path, f"{LONG} {FEW} {more}")
        assert not kept.exists()
        assert "Continuing" not in capsys.readouterr().out
    run(tmp_path, f"{LONG} {FEW} --resume")
    assert f"Starting, there is no {kept}\n" in capsys.readouterr().out
    kept.write_text("mine")
    assert call(LONG, "--resume", "--out", tmp_path) == 2
    assert "is not a checkpoint; it is left as it is" in capsys.readouterr().err
    assert kept.read_text() == "mine"
    kept.unlink()
    with Checkpoint(kept):
        assert call(LONG, "--resume", "--out", tmp_path) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "is in use by another run. Wait until it ends" in line
    assert kept.exists()


@pytest.mark.parametrize(
    "error", [OSError("It ended."), WorkersLostError("It ended. Use (n_jobs).")]
)
def test_errors_say_that_the_run_can_be_continued(
    inside, tmp_path, capsys, stop, no_figures, error
):
    stop(error)
    assert call(f"{LONG} {FEW}", "--out", tmp_path) == 2
    said = capsys.readouterr().err
    assert said.startswith("mvpa-kfda: error: It ended.")
    assert said.endswith(" (Run the same command with --resume to continue.)\n")
    assert "checkpoint" not in said


def test_output_that_fails_leaves_the_checkpoint(
    inside, tmp_path, kept, monkeypatch, no_figures, capsys
):
    def fail(*args):
        raise ValueError("nothing to draw on")

    with monkeypatch.context() as patch:
        patch.setattr(output, "_maps", fail)
        assert call(f"{LONG} {FEW}", "--out", tmp_path) == 2
    assert kept.exists()
    assert call(f"{LONG} {FEW}", "--out", tmp_path, "--resume") == 0

    def stop(*args, **kwargs):  # before anything is finished
        raise KeyboardInterrupt

    capsys.readouterr()
    monkeypatch.setattr("mvpa_kfda.decoding.analysis.run", stop)
    assert call(LONG, "--out", tmp_path / "new") == 130
    assert capsys.readouterr().err == "mvpa-kfda: stopped\n"
    assert list((tmp_path / "new").iterdir()) == []


@pytest.mark.usefixtures("heard")
def test_a_signal_stops_a_run_that_continues(
    inside, tmp_path, kept, capsys, monkeypatch
):
    save = Checkpoint.save

    def save_and_signal(self, number, arrays):
        save(self, number, arrays)
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(Checkpoint, "save", save_and_signal)
    assert call(LONG, "--out", tmp_path) == 143
    assert capsys.readouterr().err == f"mvpa-kfda: {CONTINUE}"
    assert [*tmp_path.iterdir()] == [kept]  # closed: no log beside it


# ------------------------------------------------------------------------------- betas


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Return two runs of fMRIPrep, their events, a mask, and tables of confounds."""
    root = tmp_path_factory.mktemp("prep")
    bids_data.write_fmri(root / "raw", root / "prep", ("01",), 2, shape=(4, 4, 4))
    bids_data.add_confounds(root / "prep")
    ends = "_bold.nii.gz", "_events.tsv", "_mask.nii.gz", "_timeseries.tsv"
    return [sorted(map(str, root.rglob(f"*{end}"))) for end in ends]


def test_every_option_of_betas_reaches_the_function(runs, tmp_path, capsys):
    images, events, (mask, _), tables = runs
    words = "--method lsa --conditions cat dog --t-r 2.0 --slice-time-ref 0.5"
    words += " --hrf-model 'spm + derivative' --drift-model polynomial --drift-order 2"
    words += " --high-pass 0.02 --smoothing-fwhm 4 --noise-model ar1 --dtype float32"
    words += " --signal-scaling False --confound-columns rot_x trans_z --confounds"
    given = [*images, "--events", *events, "--mask-img", mask]
    out = tmp_path / "out"
    assert call("betas", *given, *shlex.split(words), *tables, "--out", out) == 0
    printed = capsys.readouterr().out
    expected = single_trial_betas(
        images,
        events,
        method="lsa",
        conditions=["cat", "dog"],
        t_r=2.0,
        slice_time_ref=0.5,
        hrf_model="spm + derivative",
        drift_model="polynomial",
        drift_order=2,
        high_pass=0.02,
        smoothing_fwhm=4.0,
        noise_model="ar1",
        dtype="float32",
        signal_scaling=False,
        confounds=[pd.read_csv(t, sep="\t")[["rot_x", "trans_z"]] for t in tables],
        mask_img=mask,
    )
    (found,) = out.glob("*_betas.nii.gz")
    assert nibabel.load(found).get_data_dtype() == np.float32
    assert_array_equal(nibabel.load(found).get_fdata(), expected.imgs.get_fdata())
    (table,) = out.glob("*_betas.tsv")
    table = pd.read_csv(table, sep="\t")
    pd.testing.assert_frame_equal(table, expected.table, check_dtype=False)
    (found,) = out.glob("*_betas_mask.nii.gz")
    assert_array_equal(nibabel.load(found).get_fdata(), nibabel.load(mask).get_fdata())
    assert "Estimated 16 trials of 2 runs by lsa: cat 8, dog 8\n" in printed
    # They are decoded by the command that is printed.
    line = line_of(printed, "Decode them: ").partition("mvpa-kfda ")[2]
    files = run(tmp_path / "decoded", f"{line} --n-permutations 0 --radius 4")
    result = load_result(files[".h5"])
    assert result.groups.tolist() == [1] * 8 + [2] * 8
    assert result.classes.tolist() == ["cat", "dog"]


@pytest.mark.parametrize(
    ("given", "strategy", "tuned", "drifts"),
    [
        ("compcor --n-compcor 1", ("compcor", "high_pass"), {"n_compcor": 1}, None),
        ("scrub --fd-threshold 0.3", ("scrub",), {"fd_threshold": 0.3}, "cosine"),
    ],
)
def test_drifts_of_fmriprep_take_the_place_of_others(
    runs, tmp_path, capsys, given, strategy, tuned, drifts
):
    images, events, (mask, _), _ = runs
    command = ["betas", *images, "--events", *events, "--mask-img", mask, "--out"]
    assert call("", *command, tmp_path, "--fmriprep", *given.split(" ")) == 0
    told = capsys.readouterr()
    assert told.err == ""
    assert ("no drift model other than confounds" in told.out) == (drifts is None)
    confounds, kept = load_confounds(images, strategy=strategy, **tuned)
    options = {"confounds": confounds, "sample_masks": kept, "drift_model": drifts}
    expected = single_trial_betas(images, events, mask_img=mask, **options).imgs
    (path,) = tmp_path.glob("*_betas.nii.gz")
    found = nibabel.load(path).get_fdata()
    assert_allclose(found, expected.get_fdata(), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("--fmriprep high_pass --drift-model cosine", "and --drift-model would add an"),
        ("--fmriprep high_pass --high-pass 0.01", "and --high-pass would add anot"),
        ("--fmriprep motion --n-compcor 3", "n_compcor=3 is for --fmriprep"),
        ("--fd-threshold 0.3", "--fd-threshold tunes confounds of fMRIPrep. Add"),
        ("--fmriprep scrub --fd-threshold 0.01", "leaves no scan. Raise"),
        ("--conditions bee", "conditions names 'bee', which no trial_type is"),
        ("--confound-columns x", "Add --confounds TABLE, or leave it out"),
        ("--fmriprep motion --confounds EVENTS", "either --fmriprep or"),
        (
            "--confounds EVENTS --confound-columns x",
            "run-1_events.tsv has no column 'x', which --confound-columns names",
        ),
        ("--events no.tsv", "no such file: no.tsv"),
    ],
)
def test_betas_that_cannot_be_are_refused_in_one_line(
    runs, tmp_path, capsys, words, line
):
    images, (first, second), _, _ = runs
    words = words if "--events" in words else f"--events EVENTS {words}"
    words = words.replace("EVENTS", "FIRST SECOND")
    words = words.replace("FIRST", first).replace("SECOND", second)
    assert call("betas", *images, *words.split(), "--out", tmp_path) == 2
    *_, said = capsys.readouterr().err.splitlines()  # nilearn may warn before
    assert said.startswith("mvpa-kfda: error: ")
    assert line in said
