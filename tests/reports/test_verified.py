"""Pages say how a result is verified, and what was found when it was."""

import html
import json
from dataclasses import replace
from pathlib import Path

import pytest

from mvpa_kfda import __version__, group_inference, load_result, verify
from mvpa_kfda.reports.verified import verification_html
from tests import build


@pytest.fixture
def saved(tmp_path, monkeypatch):
    """Return the files of five subjects, in a folder to work in."""
    monkeypatch.chdir(tmp_path)
    return build.saved_in(tmp_path, build.subjects(n=5))


def edited(group):
    """Return a group in which one score is another one."""
    scores = group.subject_scores.copy()
    scores[2, 1] += 0.01
    return replace(group, subject_scores=scores)


def test_reports_say_how_to_verify_and_what_was_found(saved):
    options = {"n_permutations": 60, "random_state": 0, "alpha": 0.3}
    group = group_inference(saved, "sign-flip", "max", **options)
    assert "mvpa_kfda.verify(result, subjects)" in verification_html(group)
    group.save("group.h5")
    subjects = [load_result(path) for path in saved]

    def said():
        return verification_html(load_result("group.h5"), "group.h5")

    assert "mvpa-kfda verify group.h5 DATA" in said()  # all have one name
    assert "has not been verified" in said()
    verify(group, subjects).record("group.h5")
    assert "The result holds: all 3 positions and all 31 permutations" in said()
    assert f"by mvpa_kfda {__version__}" in said()
    edited(group).save("group.h5", overwrite=True)
    assert "has not been verified" in said()
    verify("group.h5", subjects).record("group.h5")
    assert "The result does NOT hold" in said()
    Path("group.verified.json").write_text("[" * 10_000)
    assert "cannot be read as JSON" in said()
    result = subjects[0]
    assert "does not say of what data" in verification_html(replace(result, inputs={}))
    assert "mvpa-kfda verify result.h5 DATA" in verification_html(result, saved[0])
    inputs = result.inputs | {"files": ["words-epo.fif, 123 bytes"]}
    replace(result, inputs=inputs).save("words.h5")
    line = "mvpa-kfda verify words.h5 words-epo.fif"
    assert line in verification_html(load_result("words.h5"), "words.h5")
    assert verification_html(build.latency()) == ""


def test_no_other_command_is_shown_than_one_that_verifies(saved):
    result = load_result(saved[0])
    result.save("words.h5")
    inputs = result.inputs
    for files in (["--record, 3 bytes"], ["a\nb, 3 bytes"], [1], 5):
        other = replace(result, inputs=inputs | {"files": files})
        shown = verification_html(other, "words.h5")
        assert "<pre>mvpa-kfda verify words.h5 DATA</pre>" in shown
    good = "mvpa-kfda verify words.h5 --bids-dir '../a b'"
    for line in (
        good,
        f"{good} --record yes",
        f"{good}; rm -rf /",
        f"sudo {good}",
        None,
    ):
        Path("words.json").write_text(json.dumps({"Verify": line}))
        shown = verification_html(load_result("words.h5"), "words.h5")
        assert (good in html.unescape(shown)) == (line == good), line
    # What a shell would run in place of a name is quoted.
    Path("words.json").write_text(json.dumps({"Verify": f"{good} --mask-img `x`$(x)"}))
    shown = verification_html(load_result("words.h5"), "words.h5")
    assert f"{good} --mask-img '`x`$(x)'" in html.unescape(shown)
