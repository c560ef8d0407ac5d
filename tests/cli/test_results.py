"""Commands on saved results."""

import numpy as np
import pandas as pd
import pytest
from nibabel import load

from mvpa_kfda import decode_arrays, group_inference, load_result, methods_text
from mvpa_kfda.cli import output
from mvpa_kfda.inference.corrections import NAMED
from tests import build
from tests.commands import call, run

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


def test_the_group_is_tested_as_by_the_function(files, tmp_path, capsys, monkeypatch):
    words = "--method prevalence --correction max --n-permutations 500"
    made = run(tmp_path, "group", *files, *words.split())
    assert set(made) == {".h5", ".csv", ".png", "_null.png"}
    assert made[".h5"].name == "group_prevalence.h5"
    group = load_result(made[".h5"])
    assert group == group_inference(files, n_permutations=500, random_state=0)
    assert list(group.subjects) == [f"sub-0{k}" for k in range(1, 7)]
    table = pd.read_csv(made[".csv"])
    p = group.pvalues("max")
    np.testing.assert_allclose(table["p_max"], p, rtol=1e-12, atol=0)
    text = capsys.readouterr().out
    assert "Tested 5 times from 0.000 to 4.000 s: 6 subjects" in text
    assert "Test: significant at 2 of 5 time points: 3 to 4 s (p ≤ 0.05, max-" in text
    share = int(100 * np.nanmax(group.gamma_0) + 1e-9)  # rounded down: it is a bound
    assert f"Prevalence: more than 0.{share:02d} of the population" in text
    assert "_null.png" in text
    monkeypatch.setattr(type(group), "gamma_0", np.full(5, np.nan))
    said = "Prevalence: no bound, as a prevalence of 0 is not rejected anywhere"
    assert said in [*output.word_group(group)]


def test_every_correction_has_a_figure_and_a_line(files, tmp_path, capsys):
    words = "--method sign-flip --correction max cluster none"
    made = run(tmp_path, "group", *files[:3], *words.split())
    figures = (".png", "_cluster.png", "_none.png")
    assert set(made) == {".h5", ".csv", *figures, "_null.png"}
    assert len({made[ending].read_bytes() for ending in figures}) == 3
    text = capsys.readouterr().out
    for name in ("max", "cluster", "none"):
        assert NAMED[name].label in text
    assert {"p_max", "p_cluster"} <= set(pd.read_csv(made[".csv"]))


def test_options_of_tests_reach_the_function(files, tmp_path, capsys, undrawn):
    # A pattern that the shell left alone.
    pattern = files[0].parents[1] / "sub-*" / "result.h5"
    words = "--method i-test --order 2 --hypothesis 0.3"
    group = load_result(run(tmp_path / "i", "group", pattern, *words.split())[".h5"])
    options = {"order": 2, "hypothesis": 0.3, "random_state": 0}
    assert group == group_inference(files, "i-test", **options)
    assert group.correction == ("holm",)
    assert "method 'i-test', order 2" in capsys.readouterr().out
    words = "--subjects a b c --method t --alpha 0.2 --correction none --paired"
    lists = [*files[:3], "--other", *files[3:]]
    result = load_result(run(tmp_path / "t", "group", *lists, *words.split())[".h5"])
    options = {"alpha": 0.2, "other": files[3:], "paired": True, "random_state": 0}
    names = ["a", "b", "c"]
    assert result == group_inference(files[:3], "t", "none", subjects=names, **options)


def test_maps_and_peaks_of_images(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(output, "save_figure", lambda path, **_: path.touch())
    results = build.subjects("VolumeResult", n=4, n_permutations=9)
    for number, result in enumerate(results):
        result.save(tmp_path / f"sub-{number}.h5")
    words = ["group", tmp_path / "sub-*.h5", "--n-permutations", 199, "--alpha", 0.9]
    made = run(tmp_path / "out", *words)
    group = load_result(made[".h5"])
    for name, expected in (
        ("scores", group.scores),
        ("gamma_0", group.gamma_0),
        ("p", group.pvalues()),
    ):
        values = load(made[f"_{name}.nii.gz"]).get_fdata()
        np.testing.assert_allclose(values.ravel(), expected, rtol=1e-6, atol=1e-9)
    assert len(pd.read_csv(made["_peaks.csv"])) == len(group.peaks()) > 0
    assert "Tested 12 voxels: 4 subjects" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("group nobody-*.h5", "No file matches the pattern 'nobody-*.h5'."),
        ("group FIRST none.h5", "There is no file"),
        ("group ALL --method wilcox", "Did you mean wilcoxon?"),
        ("report FIRST FIRST", "is listed twice"),
        ("methods none.h5", "no such file: none.h5"),
        ("report none.h5", "no such file: none.h5"),
        ("verify FIRST", "The data are missing. List the files"),
        ("verify FIRST X.npz --bids-dir .", "no such file: X.npz"),
        ("verify FIRST FIRST --bids-dir .", "Use either DATA or --bids-dir, not both"),
        ("rerun FIRST X.npz", "no such file: X.npz"),
    ],
)
def test_what_cannot_be_done_is_one_line(files, tmp_path, capsys, words, message):
    every = files[0].parents[1] / "sub-*" / "result.h5"
    words = words.replace("ALL", str(every)).replace("FIRST", str(files[0]))
    out = ["--out", tmp_path / "out"] if words[0] == "g" else []
    assert call(words, *out) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_results_are_described_verified_and_made_again(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, codes = build.trials((8, 8), 4, 3)
    y = build.NAMES[codes]
    result = decode_arrays(X, y, cv=4, n_permutations=9, random_state=0)
    result.save("time.h5")
    np.savez("data.npz", X=X, y=y)
    np.savez("other.npz", X=X + 1e-3 * X[::-1], y=y)
    assert call("methods time.h5") == 0
    assert capsys.readouterr().out.strip() == methods_text(result).strip()
    assert call("verify time.h5 data.npz --n-cells 3 --record") == 0
    assert (tmp_path / "time.verified.json").exists()
    assert call("verify time.h5 other.npz --n-cells 3") == 1
    capsys.readouterr()
    assert call("rerun time.h5 data.npz") == 0
    said = capsys.readouterr().out
    assert "All numbers are the same." in said
    assert "It was made with the same versions of all packages." in said
    assert load_result("time_rerun.h5") == result
    assert call("rerun time.h5 other.npz --out new") == 1
    assert "Numbers differ." in capsys.readouterr().out
    assert load_result("new/time_rerun.h5") != result
