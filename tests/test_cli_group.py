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


def test_writes_result_table_and_figures(files, tmp_path, capsys, undrawn):
    out = tmp_path / "out"
    options = ["--method", "prevalence", "--correction", "max", "--permutations", 5000]
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
    assert run("group", *files, "--order", "2", "--out", tmp_path / "other") == 2
    assert "order=2 is for" in capsys.readouterr().err.replace("--order 2", "order=2")
    assert run("group", *files, *options[:-1], "some", "--out", out) == 2
    assert "'some' is neither a share" in capsys.readouterr().err


def test_pattern_that_the_shell_left_alone(files, tmp_path, undrawn):
    out = tmp_path / "out"
    pattern = files[0].parents[1] / "sub-*" / "result.h5"
    options = ["--method", "t", "--correction", "fdr-by"]
    assert run("group", pattern, *options, "--out", out) == 0
    assert len(load_result(out / "group_t.h5").subjects) == 6


def test_passes_every_option_on(files, tmp_path, monkeypatch):
    seen = {}

    def spy(results, method, correction, **options):
        seen.update(options, results=results, method=method, correction=correction)
        return group_inference(files, "t", "none")

    monkeypatch.setattr("mvpa_kfda.group.second_level.group_inference", spy)
    options = ["--method", "wilcoxon", "--correction", "cluster", "max"]
    options += [
        "--alternative",
        "less",
        "--metric",
        "accuracy",
        "--permutations",
        77,
        "--alpha",
        0.01,
    ]
    options += ["--threshold", 0.2, "--seed", 3, "--paired", "--resample"]
    out = ["--out", tmp_path / "out"]
    assert run("group", *files[:3], *options, "--other", *files[3:], *out) == 0
    names = [str(path) for path in files]
    assert seen == {
        "results": names[:3],
        "other": names[3:],
        "method": "wilcoxon",
        "correction": ["cluster", "max"],
        "alternative": "less",
        "metric": "accuracy",
        "n_permutations": 77,
        "alpha": 0.01,
        "threshold": 0.2,
        "random_state": 3,
        "paired": True,
        "resample": True,
        "order": None,
        "hypothesis": None,
    }


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
    assert run("group", *paths, "--permutations", 1999, "--out", out) == 0
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


def test_arguments_of_python_are_worded_for_the_terminal(files, tmp_path, capsys):
    out = ["--out", tmp_path / "out"]

    def error_of(*arguments):
        assert run("group", *arguments, *out) == 2
        return capsys.readouterr().err

    pattern = tmp_path / "nobody-*.h5"
    assert f"No file matches the pattern '{pattern}'." in error_of(pattern)
    assert "add the second with --other" in error_of(*files, "--paired")
    assert "Invalid value for --alpha: 5.0" in error_of(*files, "--alpha", 5)
    text = error_of(*files, "--method", "t", "--threshold", 3.1)
    assert "Invalid value for --threshold: 3.1" in text
    text = error_of(*files, "--permutations", 0)
    assert "Invalid value for --permutations: 0" in text
    assert "Invalid value for --metric: 'f1'" in error_of(*files, "--metric", "f1")
    text = error_of(*files[:3], "--other", *files[3:])
    assert "For a comparison use --method sign-flip" in text
    swapped = [files[1], files[0], *files[2:]]
    text = error_of(*files, "--other", *swapped, "--paired", "--method", "t")
    assert text.count("subjects=") == text.count("paired=") == 0
    assert text.rstrip().endswith("Sort both lists in the same way.")
    twice = files[:3], files[2:5]
    text = error_of(*twice[0], "--other", *twice[1], "--method", "t")
    assert "same in two conditions, use --paired." in text


def test_several_corrections(files, tmp_path, capsys, undrawn):
    out = tmp_path / "out"
    options = ["--method", "t", "--correction", "fdr", "cluster", "--out", out]
    assert run("group", *files, *options) == 0
    assert {"p_fdr", "p_cluster"} <= set(pd.read_csv(out / "group_t.csv"))
    assert "FDR correction" in capsys.readouterr().out
