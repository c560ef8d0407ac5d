"""The command ``mvpa-kfda group``."""

import numpy as np
import pandas as pd
import pytest
from nibabel import Nifti1Image, load

from mvpa_kfda import decode_arrays, group_inference, load_result, searchlight
from mvpa_kfda.cli.main import main
from mvpa_kfda.inference.corrections import NAMED

Y = np.tile(["face", "house"], 10)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Results of six subjects, as files in folders of their own."""
    rng, folder = np.random.default_rng(0), tmp_path_factory.mktemp("subjects")
    for number in range(1, 7):
        X = rng.normal(size=(20, 3, 5))
        X[Y == "house", :, 3:] += 3
        result = decode_arrays(X, Y, cv=5, n_permutations=19, random_state=0)
        path = folder / f"sub-{number:02d}" / "result.h5"
        path.parent.mkdir()
        result.save(path)
    return sorted(folder.glob("sub-*/result.h5"))


def run(*arguments):
    return main([str(each) for each in arguments])


def test_the_command_is_the_function(files, tmp_path, capsys, undrawn):
    out = tmp_path / "out"
    options = [
        "--method",
        "prevalence",
        "--correction",
        "max",
        "--n-permutations",
        5000,
    ]
    assert run("group", *files, *options, "--out", out) == 0
    names = {path.name for path in out.iterdir()}
    stem = "group_prevalence"
    assert names == {f"{stem}{e}" for e in (".h5", ".csv", ".png", "_null.png")}
    group = load_result(out / f"{stem}.h5")
    expected = group_inference(files, n_permutations=5000, random_state=0)
    assert group == expected
    assert list(group.subjects) == [f"sub-0{k}" for k in range(1, 7)]
    table = pd.read_csv(out / f"{stem}.csv")
    np.testing.assert_allclose(
        table["p_max"], expected.pvalues("max"), rtol=1e-12, atol=0
    )
    text = capsys.readouterr().out
    assert "Tested 5 times from 0.000 to 4.000 s: 6 subjects" in text
    assert "Test: significant at 2 of 5 time points: 3 to 4 s (p ≤ 0.05, max-" in text
    largest = np.nanmax(expected.gamma_0)
    share = int(100 * largest + 1e-9)  # rounded down: it is a bound
    assert f"Prevalence: more than 0.{share:02d} of the population" in text
    assert "_null.png" in text


def test_every_correction_has_a_figure_and_a_line(files, tmp_path, capsys):
    out = tmp_path / "out"
    options = ["--method", "sign-flip", "--correction", "max", "cluster", "none"]
    assert run("group", *files, *options, "--out", out) == 0
    stem = "group_sign-flip"
    endings = (".h5", ".csv", ".png", "_cluster.png", "_none.png", "_null.png")
    assert {path.name for path in out.iterdir()} == {f"{stem}{e}" for e in endings}
    images = [(out / f"{stem}{e}").read_bytes() for e in endings[2:5]]
    assert len(set(images)) == 3
    text = capsys.readouterr().out
    for name in options[3:]:
        assert NAMED[name].label in text


def test_an_order_and_a_share_are_for_the_i_test(files, tmp_path, capsys, undrawn):
    out = tmp_path / "out"
    options = ["--method", "i-test", "--order", "2", "--hypothesis", "0.3"]
    assert run("group", *files, *options, "--out", out) == 0
    group = load_result(out / "group_i-test.h5")
    assert group == group_inference(
        files, "i-test", order=2, hypothesis=0.3, random_state=0
    )
    assert group.correction == ("holm",)
    text = capsys.readouterr().out
    assert "method 'i-test', order 2" in text
    assert "Holm correction" in text


def test_pattern_that_the_shell_left_alone(files, tmp_path, undrawn):
    out = tmp_path / "out"
    pattern = files[0].parents[1] / "sub-*" / "result.h5"
    options = ["--method", "t", "--correction", "fdr-by"]
    assert run("group", pattern, *options, "--out", out) == 0
    assert len(load_result(out / "group_t.h5").subjects) == 6


def test_maps_and_peaks_of_images(tmp_path, capsys, undrawn):
    affine = np.diag([4.0, 4.0, 4.0, 1.0])
    mask = Nifti1Image(np.ones((4, 3, 3), np.uint8), affine)
    paths = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        bold = rng.normal(size=(4, 3, 3, 20))
        bold[2, 1, 1] += 4 * (Y == "face")
        result = searchlight(
            Nifti1Image(bold, affine),
            Y,
            mask_img=mask,
            radius=4.0,
            cv=5,
            n_permutations=19,
            random_state=0,
        )
        paths.append(tmp_path / f"sub-{seed}.h5")
        result.save(paths[-1])
    out = tmp_path / "out"
    assert run("group", *paths, "--n-permutations", 1999, "--out", out) == 0
    group = load_result(out / "group_prevalence.h5")
    for name, expected in (
        ("scores", group.scores),
        ("gamma_0", group.gamma_0),
        ("p", group.pvalues()),
    ):
        values = load(out / f"group_prevalence_{name}.nii.gz").get_fdata()
        np.testing.assert_allclose(values.ravel(), expected, rtol=1e-6, atol=1e-9)
    peaks = pd.read_csv(out / "group_prevalence_peaks.csv")
    assert len(peaks) == len(group.peaks())
    assert "Tested 36 voxels: 6 subjects" in capsys.readouterr().out


def test_no_bound_is_said(tmp_path, capsys, undrawn):
    rng = np.random.default_rng(0)
    for number in range(5):
        X = rng.normal(size=(20, 3, 2))
        result = decode_arrays(X, Y, cv=5, n_permutations=19, random_state=0)
        result.save(tmp_path / f"sub-{number}.h5")
    assert run("group", tmp_path / "sub-*.h5", "--out", tmp_path / "out") == 0
    assert "Prevalence: no bound, as a prevalence of 0" in capsys.readouterr().out


def test_errors_are_one_line(files, tmp_path, capsys):
    assert run("group", files[0], "--out", tmp_path) == 2
    assert "single subject" in capsys.readouterr().err
    assert run("group", files[0], files[0], "--out", tmp_path) == 2
    error = capsys.readouterr().err
    assert "are the same file" in error
    assert error.count("\n") == 1
    assert run("group", files[0], tmp_path / "none.h5", "--out", tmp_path) == 2
    assert "There is no file" in capsys.readouterr().err


def test_two_groups_are_compared(files, tmp_path, capsys, undrawn):
    options = ["--method", "t", "--alpha", 0.2, "--correction", "none", "--paired"]
    lists = [*files[:3], "--other", *files[3:], "--subjects", "a", "b", "c"]
    assert run("group", *lists, *options, "--out", tmp_path / "out") == 0
    result = load_result(tmp_path / "out" / "group_t.h5")
    options = {"alpha": 0.2, "other": files[3:], "paired": True, "random_state": 0}
    names = ["a", "b", "c"]
    assert result == group_inference(files[:3], "t", "none", subjects=names, **options)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nobody-*.h5"], "No file matches the pattern 'nobody-*.h5'."),
        (["SUBJECTS", "--paired"], "paired=True compares with another list"),
        (["SUBJECTS", "--alpha", "5"], "Invalid value for 'alpha': 5"),
        (["SUBJECTS", "--method", "wilcox"], "Did you mean wilcoxon?"),
        (["SUBJECTS", "--metric", "f1"], "Invalid value for 'metric': 'f1'"),
        (["SUBJECTS", "--order", "2"], "order=2 is for"),
        (["SUBJECTS", "--method", "i-test", "--hypothesis", "some"], "'some'"),
        (["SUBJECTS", "--other", "SUBJECTS"], "method='sign-flip'"),
    ],
)
def test_what_cannot_be_tested_is_refused(files, tmp_path, capsys, arguments, message):
    pattern = files[0].parents[1] / "sub-*" / "result.h5"
    arguments = [pattern if each == "SUBJECTS" else each for each in arguments]
    assert run("group", *arguments, "--out", tmp_path / "out") == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_several_corrections(files, tmp_path, capsys, undrawn):
    out = tmp_path / "out"
    options = ["--method", "t", "--correction", "fdr", "cluster", "--out", out]
    assert run("group", *files, *options) == 0
    assert {"p_fdr", "p_cluster"} <= set(pd.read_csv(out / "group_t.csv"))
    assert "FDR correction" in capsys.readouterr().out
