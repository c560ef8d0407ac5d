"""The command line: penalties, kernels, pseudo-trials, landmarks and regression."""

import mne
import nibabel
import numpy as np
import pandas as pd
import pytest
from nibabel import Nifti1Image
from numpy.testing import assert_allclose, assert_array_equal

from mvpa_kfda import (
    DegreesOfFreedom,
    GraphSmooth,
    Nystrom,
    decode_epochs,
    decode_regions,
    generalize_epochs,
    load_result,
    searchlight,
    simulate_epochs,
)
from mvpa_kfda.cli import output
from mvpa_kfda.cli.main import main


@pytest.fixture(autouse=True)
def no_figures(monkeypatch):
    """Draw nothing, which is most of the time that a short command takes."""
    monkeypatch.setattr(output, "save_figure", lambda *_, **options: None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a file of epochs, whose metadata has numbers, and with images."""
    folder = tmp_path_factory.mktemp("files")
    epochs = simulate_epochs(
        60, 3, snr=1.0, n_channels=16, sfreq=20.0, tmin=-0.1, tmax=0.4, n_blocks=5
    )
    rng = np.random.default_rng(0)
    at_200_ms = epochs.get_data(copy=True)[:, 3, epochs.time_as_index(0.2)[0]]
    reaction_time = 0.5 + 1e4 * at_200_ms + 0.01 * rng.normal(size=60)
    hand = rng.choice(["left", "right"], 60)
    epochs.metadata = epochs.metadata.assign(rt=reaction_time, hand=hand, room=7)
    epochs.save(folder / "words-epo.fif", verbose=False)
    other = simulate_epochs(
        30, 3, n_channels=16, sfreq=20.0, tmin=-0.1, tmax=0.4, random_state=1
    )
    other.save(folder / "other-epo.fif", verbose=False)
    types = dict(zip(epochs.ch_names[:8], ["ecog"] * 8, strict=True))
    epochs.set_channel_types(types, verbose=False)
    epochs.save(folder / "types-epo.fif", verbose=False)
    orders, pets = np.random.default_rng(1), np.tile(["cat", "dog"], 3)
    labels = np.concatenate([orders.permutation(pets) for _ in range(6)])
    bold = rng.normal(size=(4, 4, 3, 36))
    bold[:2] += np.where(labels == "dog", 1.5, 0) * rng.normal(size=(2, 4, 3, 1))
    affine = np.diag([3.0, 3.0, 3.0, 1.0])
    nibabel.save(Nifti1Image(bold, affine), folder / "bold.nii.gz")
    whole = np.ones((4, 4, 3), np.uint8)
    nibabel.save(Nifti1Image(whole, affine), folder / "mask.nii.gz")
    some = np.zeros((4, 4, 3), np.uint8)
    some[:2, 1] = 1
    nibabel.save(Nifti1Image(some, affine), folder / "some.nii.gz")
    atlas = np.repeat([1, 2], 24).reshape(4, 4, 3).astype(np.int16)
    nibabel.save(Nifti1Image(atlas, affine), folder / "atlas.nii.gz")
    table = pd.DataFrame({"label": labels, "run": np.repeat(range(6), 6)})
    table["motion"] = rng.normal(size=36)
    table.to_csv(folder / "labels.tsv", sep="\t", index=False)
    return folder


METHODS = {
    "--reg auto": {"reg": "auto"},
    "--reg tuned": {"reg": "tuned"},
    "--reg oas": {"reg": "oas"},
    "--reg ledoit_wolf": {"reg": "ledoit_wolf"},
    "--reg 2": {"reg": 2.0},
    "": {},
    "--reg 0.3": {"reg": 0.3},
    "--reg 0.1 1 10": {"reg": [0.1, 1, 10]},
    "--df 4.5": {"reg": DegreesOfFreedom(4.5)},
    "--average 2": {"average": 2},
    "--average max --repeats 2": {"average": "max", "n_repeats": 2},
    "--average 1 --equalize": {"average": 1, "equalize": True},
    "--average 2 --no-average-test": {"average": 2, "average_test": False},
    "--average 2 --average-test": {"average": 2},
    "--components 1": {"n_components": 1},
    "--kernel rbf --nystrom 20": {"kernel": "rbf", "approx": Nystrom(20)},
    "--preprocess whiten": {"preprocess": "whiten"},
    "--preprocess zscore pca": {"preprocess": ["zscore", "pca"]},
    "--confounds rt hand": {"confounds": ["rt", "hand"]},
}


def read(folder):
    """Read the epochs as the command does."""
    return mne.read_epochs(folder / "words-epo.fif", verbose=False)


def run(folder, out, command, files, *options):
    """Run a command on files of the folder; the output goes elsewhere."""
    files = [str(folder / file) for file in files.split()]
    words = [word for option in options for word in option.split()]
    return main([command, *files, *words, "--out", str(out)])


@pytest.mark.parametrize("option", METHODS)
def test_epochs_passes_the_method_on(folder, tmp_path, capsys, option, undrawn):
    short = "--permutations 9 --groups block --window 0.1 --step 0.1"
    assert run(folder, tmp_path, "epochs", "words-epo.fif", option, short) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    expected = decode_epochs(
        read(folder),
        groups="block",
        window=0.1,
        step=0.1,
        n_permutations=9,
        random_state=0,
        **METHODS[option],
    )
    assert load_result(tmp_path / "words.h5") == expected
    if option == "--average 2":
        assert "-epo.fif: 30 averages of 2 trials (60), 3 classes" in printed.out


def test_repeats_draw_other_folds(folder, tmp_path, capsys):
    words = "--repeats 3 --cv 4 --permutations 9 --step 0.1"
    assert run(folder, tmp_path, "epochs", "words-epo.fif", words) == 0
    printed = capsys.readouterr().out
    assert "-epo.fif: 60 trials, 3 classes" in printed
    assert ", 4 folds, 3 repeats\n" in printed
    options = {"cv": 4, "n_repeats": 3, "n_permutations": 9, "random_state": 0}
    expected = decode_epochs(read(folder), step=0.1, **options)
    assert load_result(tmp_path / "words.h5") == expected


@pytest.mark.some(2)
@pytest.mark.parametrize("option", ["", "--generalize", "--sensors"])
def test_smooth_takes_the_neighbours_of_picked_channels(folder, tmp_path, option):
    epochs = read(folder)
    picks = epochs.ch_names[2:14]
    short = f"--step 0.1 --permutations 9 --picks {','.join(picks)} --smooth 5"
    assert run(folder, tmp_path, "epochs", "words-epo.fif", short, option) == 0
    info = epochs.copy().pick(picks).info
    kernel = GraphSmooth(mne.channels.find_ch_adjacency(info, "eeg"), 5.0)
    options = {"picks": picks, "step": 0.1, "n_permutations": 9, "random_state": 0}
    decode = generalize_epochs if option == "--generalize" else decode_epochs
    if option == "--sensors":
        options["sensors"] = "adjacency"
    expected = decode(epochs, kernel=kernel, **options)
    ending = {"": "", "--generalize": "_generalization", "--sensors": "_sensors"}
    result = load_result(tmp_path / f"words{ending[option]}.h5")
    assert_array_equal(result.scores, expected.scores)
    assert_array_equal(result.predictions, expected.predictions)
    assert_allclose(result.lambdas, expected.lambdas, rtol=1e-10, atol=0)
    plain = decode(epochs, **options)
    assert not np.allclose(plain.lambdas, expected.lambdas, rtol=1e-3, atol=0)


@pytest.mark.parametrize(
    ("option", "scoring"), [("", "r2"), ("--scoring pearsonr,r2", ["pearsonr", "r2"])]
)
def test_regression_predicts_a_column(
    folder, tmp_path, capsys, monkeypatch, option, scoring
):
    monkeypatch.undo()  # of figures
    words = "--task regression --by rt --groups block --permutations 99", option
    assert run(folder, tmp_path, "epochs", "words-epo.fif", *words) == 0
    expected = decode_epochs(
        read(folder),
        "rt",
        groups="block",
        task="regression",
        scoring=scoring,
        n_permutations=99,
        random_state=0,
    )
    assert load_result(tmp_path / "words_regression.h5") == expected
    assert (tmp_path / "words_regression.png").stat().st_size > 10_000
    printed = capsys.readouterr()
    assert printed.err == ""
    y = expected.y
    assert f"60 trials, values from {y.min():g} to {y.max():g}, 16 ch" in printed.out
    at = f"{expected.times[expected.scores.argmax()]:g} s"
    name = expected.scoring[0]
    mean = expected.permuted_mean()
    assert np.isfinite(mean) == (name == "pearsonr")  # below 0 in cross-validation
    chance = f" (chance 0.000; mean of permuted values {mean:.3f})"
    chance = chance if name == "pearsonr" else ""
    label = {"r2": "R²", "pearsonr": "Pearson correlation"}[name]
    line = f"Found: highest {label} {expected.scores.max():.3f} at {at}{chance}\n"
    assert line in printed.out
    assert "Test: significant at " in printed.out


def image_options(folder):
    """What the commands for images are given below, as arguments."""
    files = str(folder / "bold.nii.gz"), (str(folder / "labels.tsv"), "label")
    options = {"groups": "run", "n_permutations": 1, "random_state": 0}
    options["mask_img"] = str(folder / "mask.nii.gz")
    words = f"--labels {folder}/labels.tsv --groups run --permutations 1"
    return files, options, f"{words} --mask {folder}/mask.nii.gz"


def test_searchlight_passes_the_method_on(folder, tmp_path, capsys):
    data, options, words = image_options(folder)
    near = f"{words} --radius 4 --reg tuned --average 3"
    near += f" --process-mask {folder}/some.nii.gz"
    options["process_mask_img"] = str(folder / "some.nii.gz")
    near += " --preprocess zscore --confounds motion"
    options |= {"preprocess": "zscore", "confounds": "motion"}
    assert run(folder, tmp_path, "searchlight", "bold.nii.gz", near) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert "6 folds, 12 averages of 3 trials (36)\n" in printed.out
    expected = searchlight(*data, radius=4, reg="tuned", average=3, **options)
    result = load_result(tmp_path / "bold_searchlight.h5")
    assert_array_equal(result.scores, expected.scores)
    assert_array_equal(result.lambdas, expected.lambdas)
    assert len(result.y) == 12
    assert result.parameters == expected.parameters
    assert result.parameters["n_confounds"] == 1


def test_searchlight_passes_repeats_on(folder, tmp_path, capsys):
    data, options, words = image_options(folder)
    words += " --radius 4 --average 1 --equalize --repeats 2"
    assert run(folder, tmp_path, "searchlight", "bold.nii.gz", words) == 0
    printed = capsys.readouterr().out
    assert ", 6 folds, 2 repeats, 36 trials\n2 classes: cat 18, dog 18\n" in printed
    options |= {"average": 1, "equalize": True, "n_repeats": 2}
    expected = searchlight(*data, radius=4.0, **options)
    result = load_result(tmp_path / "bold_searchlight.h5")
    assert_array_equal(result.scores, expected.scores)
    assert_array_equal(result.repeats["accuracy"], expected.repeats["accuracy"])


def test_regions_pass_the_method_on(folder, tmp_path, capsys):
    data, options, words = image_options(folder)
    atlas = folder / "atlas.nii.gz"
    words += f" --atlas {atlas} --df 6 --kernel rbf --nystrom 15"
    words += " --preprocess zscore pca"
    assert run(folder, tmp_path, "regions", "bold.nii.gz", words) == 0
    assert capsys.readouterr().err == ""
    options |= {"kernel": "rbf", "approx": Nystrom(15)}
    options |= {"preprocess": ["zscore", "pca"]}
    expected = decode_regions(
        *data, labels_img=str(atlas), reg=DegreesOfFreedom(6), **options
    )
    result = load_result(tmp_path / "bold_regions.h5")
    assert_array_equal(result.scores, expected.scores)
    assert_allclose(result.degrees_of_freedom, 6, rtol=0, atol=1e-8)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--reg 0.1 /", "'/' is neither .*oas. Put files before the options$"),
        ("--reg best", "--reg: 'best' is neither a number nor one of auto, tuned, led"),
        (
            "--reg -1",
            "--reg: -1.*Or auto, tuned, ledoit_wolf, oas, or several numbers .* --df.$",
        ),
        ("--reg nan", "--reg: nan.*Or auto, tuned"),
        ("--reg 0.1 -1", "Invalid value for --reg: -1.*above zero.$"),
        ("--reg 0.1 auto", "--reg 0.1 auto .* Use several numbers, or auto alone.$"),
        ("--reg auto oas", "--reg auto oas .* Use several numbers, or auto alone.$"),
        ("--reg 0.2 --df 5", "either --reg or --df, not both"),
        ("--reg tuned --df 5", "either --reg or --df, not both"),
        ("--df 1", "Invalid value for --df: 1"),
        ("--df 40", "--df 40 is too large: .*15 independent directions"),
        (
            "--kernel rbf --reg oas",
            "--reg oas estimates.*Use .*--reg auto, --df or --reg tuned",
        ),
        ("--components 0", "Invalid value for --components: 0"),
        ("--components 3", "Invalid value for --components: 3.*at most 2"),
        ("--average 0", "Invalid value for --average: 0"),
        ("--average 9", "--average 9 leaves class.*Use --average 3 .*e.g. --cv 5"),
        ("--nystrom 0", "--nystrom 0 is not a number of landmarks"),
        ("--nystrom 99", "--nystrom 99 has more landmarks .*leave out --nystrom"),
        ("--nystrom 9 --reg oas", "got --nystrom 9. Use a number, --reg auto, --df or"),
        ("--smooth 1 --kernel rbf", "--smooth sets a linear kernel.*--kernel rbf"),
        ("--smooth -1", "Invalid value for --smooth: -1"),
        ("--smooth nan", "--smooth: nan. Allowed: a finite number. It is 0 or more.$"),
        ("--smooth 1 --picks Cz,Pz", "--smooth needs four or more channels"),
        ("--task counting", "invalid choice: 'counting'"),
        ("--task regression", "needs --by COLUMN"),
        ("--task regression --by condition", "--by must name .*<U7.*leave --task out"),
        ("--task regression --by gone", "--by gone is not a metadata column.*'rt'"),
        (
            "--task regression --by rt --sensors",
            "--sensors cannot be combined with --task",
        ),
        (
            "--task regression --by rt --train-on block<3",
            "--train-on cannot be combined with --task",
        ),
        (
            "--task regression --by rt --components 1 --average 2",
            "--components, --average cannot be combined with --task regression",
        ),
        ("--preprocess zca", "--preprocess: invalid choice: 'zca'.*zscore"),
        (
            "--preprocess pca --smooth 1",
            "--smooth knows .* pca and whiten make .* or take --preprocess zscore.$",
        ),
        (
            "--preprocess zscore --average 2 --kernel rbf",
            "--average 2 with a kernel that is not linear, .* --preprocess zscore has",
        ),
        ("--confounds gone", "--confounds gone is not a metadata column.*'rt'"),
        ("--confounds rt room", r"confounds: the column 'room' is constant \(7 for"),
        (
            "--confounds rt --generalize --test-file other-epo.fif",
            r"on other trials \(--test-file\), .* Leave --confounds out.$",
        ),
        ("--average 2 --generalize --train-on block<3", "tests on other .*--average"),
        ("--average some", "--average: 'some' is neither a number of trials nor max"),
        (
            "--average 7 --groups block",
            "--average 7 leaves class .* Use --average 4 or less, or fewer, larger",
        ),
        ("--repeats 0", "--repeats: 0"),
        (
            "--repeats 3 --groups block",
            "--repeats 3 draws .* (Use --cv, .*; w|W)ith --average K trials",
        ),
        ("--equalize", "--average is not set. Use --average K; with --average 1 no"),
        ("--no-average-test", "--no-average-test says .* Use --average K; with"),
        (
            "--task regression --by rt --repeats 2 --equalize --no-average-test",
            "--repeats, --equalize, --no-average-test cannot be combined with --task",
        ),
        (
            "--task regression --by rt --generalize",
            "--generalize cannot be combined with --task",
        ),
        ("--task regression --by rt --scoring accuracy", "--scoring: 'accuracy'.*r2"),
    ],
)
def test_errors_name_the_options(folder, tmp_path, capsys, option, message):
    short = "--permutations 0 --step 0.1"
    option = option.replace("other-epo.fif", str(folder / "other-epo.fif"))
    assert run(folder, tmp_path, "epochs", "words-epo.fif", option, short) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert_matches(message, printed.err)


def test_smooth_refuses_channels_of_two_types(folder, tmp_path, capsys):
    option = "--smooth 1 --permutations 0"
    assert run(folder, tmp_path, "epochs", "types-epo.fif", option) == 2
    assert_matches(
        "--smooth needs .* channels of one type.*ecog", capsys.readouterr().err
    )


def assert_matches(pattern, text):
    """Assert that a pattern is found in a text."""
    with pytest.raises(ValueError, match=pattern):
        raise ValueError(text)
