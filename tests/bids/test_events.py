"""Every event is decoded, or counted with its reason; tables as people save them."""

import numpy as np
import pandas as pd
import pytest

from mvpa_kfda.bids import app, events
from mvpa_kfda.bids.events import FATE, RUN, Fate, check_losses, count_fates, wanted
from mvpa_kfda.bids.find import Run

IMAGES = "--radius 4 --confounds none --n-permutations 0 --participant-label 01"
FIRST = "--n-permutations 0 --participant-label 01"
BEFORE, BEYOND = "before the start of the recording", "beyond the end of the recording"
NOT_CHOSEN = "not chosen by --where"


def change(study, number, write):
    """Change the table of events of a run of the first subject."""
    path = study.find(f"sub-01*run-{number}_events.tsv")
    table = pd.read_csv(path, sep="\t")
    changed = write(table)
    table = table if changed is None else changed
    table.to_csv(path, sep="\t", index=False, na_rep="n/a")


def move(row, onset):
    """Return what gives an event another onset."""

    def write(table):
        table["onset"] = table["onset"].astype(float)
        table.loc[row, "onset"] = onset

    return write


@pytest.fixture(params=["eeg", "fmri"])
def study(request):
    """Return a dataset that a test may change."""
    return request.getfixturevalue(request.param)


def words_of(study):
    """Return what is asked of a dataset."""
    return IMAGES if (study.root / "prep").exists() else FIRST


# ------------------------------------------------------------------ events to decode


@pytest.mark.parametrize(
    ("onset", "reason"),
    [
        (-1.0, BEFORE),
        (0.1, BEFORE),  # its epoch begins 0.2 s earlier
        (14.8, BEYOND),  # its epoch ends 0.5 s later
        (np.nan, "without an onset"),
    ],
)
def test_events_of_eeg_are_decoded_or_counted(eeg, capsys, onset, reason):
    times = "--tmin -0.2 --tmax 0.5"
    change(eeg, 1, move(3, onset))
    assert eeg.run(f"{FIRST} {times}") == 0
    trials = eeg.record()["Trials"]
    assert trials["NumberOfTrials"] == 31
    assert trials["Events"]["1"] == {"decoded": 15, reason: 1, NOT_CHOSEN: 1}
    assert trials["Events"]["2"] == {"decoded": 16, NOT_CHOSEN: 1}
    said = capsys.readouterr().out
    assert "31 of 34 events decoded" in said
    assert f"1 {reason}" in said
    if onset != 14.8:
        return
    # A second one is too many, unless it is allowed.
    change(eeg, 1, move(4, onset))
    assert eeg.run(f"{FIRST} {times}") == 2
    words = f"2 of 32 events to decode are lost: 2 {reason} (run 1)"
    assert words in (told := capsys.readouterr().err)
    assert "--max-dropped 7, in percent" in told
    assert eeg.run(f"{FIRST} {times} --max-dropped 7") == 0
    assert eeg.record()["Trials"]["NumberOfTrials"] == 30
    for value in ("-1", "101"):
        assert eeg.run("--max-dropped", value) == 2
        assert "not a percentage from 0 to 100" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("estimate", "onset", "reason"),
    [
        ("lss", -1.0, BEFORE),
        ("lss", 500.0, BEYOND),
        ("blocks", -1.0, BEFORE),
        ("blocks", 119.9, BEYOND),
    ],
)
def test_events_of_fmri_are_decoded_or_counted(
    fmri, tmp_path, capsys, estimate, onset, reason
):
    change(fmri, 2, move(3, onset))
    words = f"{IMAGES} --estimate {estimate}"
    assert fmri.run(words) == 0
    trials = fmri.record()["Trials"]
    assert trials["NumberOfTrials"] == 23
    assert trials["Events"]["2"] == {"decoded": 7, reason: 1, NOT_CHOSEN: 1}
    assert f"1 {reason}" in capsys.readouterr().out
    # The other estimates are those of a table without this event.
    if onset == 500.0:
        change(fmri, 2, lambda table: table.drop(index=3))
        without = fmri.elsewhere(tmp_path, "without")
        assert without.run(words) == 0
        np.testing.assert_array_equal(without.result().scores, fmri.result().scores)


def test_what_was_asked_for_is_counted_and_no_loss(eeg, capsys):
    """Epochs that are rejected take their events with them."""
    for number in (1, 2):
        path = eeg.find(f"sub-01*run-{number}_eeg.eeg")
        signal = np.fromfile(path, "<f4").reshape(-1, 4)
        loud = [round((1 + 0.8 * i) * 50) + 3 for i in (2, 5, 6)]
        signal[loud, 0] = 50 * signal.std()
        signal.tofile(path)
    assert eeg.run(f"{FIRST} --reject eeg=80e-6 --baseline none") == 0
    reason, record = "above the limits of --reject", eeg.record()["Trials"]
    assert record["Events"]["1"] == {"decoded": 13, reason: 3, NOT_CHOSEN: 1}
    said = capsys.readouterr().out
    assert f"26 of 34 events decoded: 6 {reason}, 2 {NOT_CHOSEN}" in said
    files = (eeg.find(f"sub-01*run-{n}_events.tsv") for n in (1, 2))
    tables = (pd.read_csv(path, sep="\t")["trial_type"] for path in files)
    expected = [np.delete(x[x != "button"].to_numpy(), (2, 5, 6)) for x in tables]
    result = eeg.result()
    np.testing.assert_array_equal(result.classes[result.y], np.concatenate(expected))


def cut_table(study):
    change(study, 1, lambda table: table.assign(onset=table["onset"] + 1000))


def without_column(study):
    change(study, 1, lambda table: table.rename(columns={"trial_type": "kind"}))


def empty_signal(study):
    (path,) = study.root.glob("sub-01/eeg/*run-1_eeg.eeg")
    path.write_bytes(bytes(path.stat().st_size))


@pytest.mark.parametrize(
    ("kind", "harm", "reason"),
    [
        ("eeg", empty_signal, "without any signal"),
        ("eeg", without_column, "in tables without the column trial_type"),
        ("fmri", cut_table, BEYOND),
    ],
)
def test_a_run_is_not_lost_in_silence(request, capsys, kind, harm, reason):
    study = request.getfixturevalue(kind)
    harm(study)
    words = f"{words_of(study)} --cv 4"
    assert study.run(words) == 2
    assert f"{reason} (run 1)" in capsys.readouterr().err
    assert study.run(f"{words} --max-dropped 100") == 0
    trials = study.record()["Trials"]
    assert trials["Events"]["1"]["decoded"] == 0
    assert trials["Events"]["1"][reason] >= 5
    assert trials["NumberOfTrials"] == 16
    assert not [name for name in study.record()["Sources"] if "run-1" in name]


def test_of_any_damaged_table_all_rows_are_counted(
    raw_eeg, tmp_path, capsys, monkeypatch
):
    read, found, seen = app.read_trials, [], set()

    def spy(*arguments):
        found.append(read(*arguments).about)
        raise ValueError("that will do")

    monkeypatch.setattr(app, "read_trials", spy)
    for seed in range(8):
        rng, folder = np.random.default_rng(seed), tmp_path / f"{seed}"
        study = raw_eeg.copy(folder)
        tables = sorted(study.root.glob("sub-01/eeg/*_events.tsv"))
        n_rows = sum(damage_table(path, rng) for path in tables)
        found.clear()
        assert study.run(f"{FIRST} --max-dropped 100") == 2
        told = capsys.readouterr().err
        if not found:
            seen.add("refused")
            assert any(word in told for word in ("_events.tsv", "un 1", "un 2", "--by"))
            continue
        counts = found[0]["Events"].values()
        assert sum(sum(own.values()) for own in counts) == n_rows
        assert sum(own["decoded"] for own in counts) == found[0]["NumberOfTrials"]
        seen |= {reason for own in counts for reason in own}
    assert {"refused", BEYOND, BEFORE, "marked as BAD or EDGE"} <= seen


def unnamed(table):
    """Rename the column of the classes."""
    return table.rename(columns={"trial_type": "kind"})


def damage_table(path, rng):
    """Change some cells of a table of events, and return how many rows it has."""
    table = pd.read_csv(path, sep="\t", dtype=object)
    values = {
        "onset": ["n/a", "-3", "1e5", "0.05", "119.95", "inf"],
        "duration": ["0.3", "0.2", "-1"],
        "trial_type": ["n/a", "", "BAD_blink", "3"],
    }
    for _ in range(rng.integers(4)):
        column = rng.choice([*values])
        row = table.index[rng.integers(len(table))]
        table.loc[row, column] = rng.choice(values[column])
    if rng.random() < 0.2:
        table = unnamed(table)
    if rng.random() < 0.3:
        table = pd.concat([table, table.iloc[:2].assign(onset="200")])
    table.to_csv(path, sep="\t", index=False, na_rep="n/a")
    return len(table)


def check_lost(counts, most):
    """Check the losses of runs: run -> fate -> number."""
    rows = [
        (run, None if fate == "decoded" else fate)
        for run, fates in counts.items()
        for fate, number in fates.items()
        for _ in range(number)
    ]
    check_losses(pd.DataFrame(rows, columns=[RUN, FATE]), {"max_dropped": most})


def test_few_are_few_of_every_run():
    check_lost({"1": {"decoded": 90, BEYOND: 4}, "2": {"decoded": 90}}, 5)
    check_lost({"1": {"decoded": 90, NOT_CHOSEN: 900}}, 0)
    with pytest.raises(ValueError, match="10 of 190 events to decode are lost: 10 bey"):
        check_lost({"1": {"decoded": 90, BEYOND: 10}, "2": {"decoded": 90}}, 5)
    # Nothing is left of a run that is short beside others.
    runs = {"1": {"decoded": 0, BEYOND: 4}, "2": {"decoded": 900}}
    with pytest.raises(ValueError, match="--max-dropped 100, in percent"):
        check_lost(runs, 5)
    check_lost(runs, 100)


# ----------------------------------------------------------------------------- labels


def test_marks_of_bad_stretches_are_no_events(tmp_path):
    """As MNE-BIDS writes the annotations "BAD_..." and "EDGE boundary"."""
    names = ["cat", "BAD_blink", "dog", "EDGE boundary", "bad", "n/a"]
    table = pd.DataFrame({"onset": [1, 2, 3, 4, 5, None], "duration": 0.0})
    path = tmp_path / "events.tsv"
    table.assign(trial_type=names).to_csv(path, sep="\t", index=False, na_rep="n/a")
    options = {"by": "trial_type", "where": None, "regression": False}
    found = events.events_of_runs([Run("1", tmp_path, path)], options)
    kept = wanted(found)
    assert kept["trial_type"].tolist() == ["cat", "dog"]
    assert kept["onset"].tolist() == [1, 3]
    assert count_fates(found) == {"1": {"decoded": 2, Fate.MARK: 3, Fate.NO_LABEL: 1}}


def test_classes_are_made_by_expressions_in_the_order_of_onsets(eeg, tmp_path):
    expected = eeg.elsewhere(tmp_path, "expected")
    words = "--participant-label 01 --by"
    assert expected.run(f"{words} trial_type") == 0
    for path in eeg.root.glob("sub-01/eeg/*_events.tsv"):
        table = pd.read_csv(path, sep="\t", keep_default_na=False)
        table = table.sort_values("trial_type", kind="stable")
        table.to_csv(path, sep="\t", index=False)
    assert eeg.run(words, "trial_type.str.startswith('house')") == 0
    result, expected = eeg.result(), expected.result()
    assert result.classes.tolist() == [False, True]
    np.testing.assert_array_equal(result.y, expected.y)
    np.testing.assert_array_equal(result.scores, expected.scores)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--by shape", "--by 'shape' is no column of the events, and no expression"),
        ("--by 'onset >'", "no expression on them: "),
        ("--by 'onset + 0.5'", "numbers"),
        ("--where \"trial_type == 'cat'\"", "trial_type is 'button', 'face/left', "),
        ("--where \"trial_type == 'button'\"", "gives all events one label, 'button'"),
        ("--where onset", "is not true or false for each event"),
        ("--train-on 'onset > 1e6'", "selects none of the"),
        ("--reject eeg", "write TYPE=LIMIT"),
        ("--reject eeg=1e-9", "No epoch is left"),
        ("--baseline early", "is not a baseline. Use two numbers in seconds"),
    ],
)
def test_mistakes_of_every_subject_are_said(raw_eeg, tmp_path, capsys, words, message):
    study = raw_eeg.elsewhere(tmp_path)
    assert study.run(f"{FIRST} {words}") == 2
    lines = capsys.readouterr().err.splitlines()
    (line,) = [line for line in lines if "error" in line]
    assert line.startswith("mvpa-kfda: error: sub-01 task-faces: ")
    assert message in line
    assert not list(study.out.rglob("*.h5"))


# ----------------------------------------------------------- tables as people save them


def test_a_run_without_events_is_left_out_and_counted(study, capsys):
    change(study, 2, lambda table: table[:0])
    assert study.run(words_of(study)) == 0
    assert "1 run without events left out: 2" in capsys.readouterr().out
    trials = study.record()["Trials"]
    assert trials["Events"]["2"] == {"decoded": 0}
    assert "2" not in trials["TrialsPerRun"]
    assert not [name for name in study.record()["Sources"] if "run-2" in name]
    for path in study.root.rglob("sub-01*_events.tsv"):
        path.write_text(path.read_text().partition("\n")[0] + "\n")
    assert study.run(words_of(study)) == 2
    assert "_events.tsv has no events, and none of the" in capsys.readouterr().err


def rewrite(study, write):
    """Write all tables of events as bytes of their text."""
    for path in (study.root / "sub-01").rglob("*_events.tsv"):
        path.write_bytes(write(path.read_text(encoding="utf-8")))


def padded(text):
    """Return a table with blanks around its tabs, and names as others write them."""
    text = text.replace("\t", " \t ").replace("\n", "  \n")
    return text.replace("dog", "Gebäude").encode("latin-1")


def test_tables_with_blanks_or_in_latin_1_are_read_and_said(fmri, tmp_path, capsys):
    expected = fmri.elsewhere(tmp_path, "expected")
    assert expected.run(words_of(fmri)) == 0
    rewrite(fmri, padded)
    assert fmri.run(words_of(fmri)) == 0
    assert "events.tsv is not in UTF-8 and was read as Lat" in capsys.readouterr().err
    trials, others = fmri.record()["Trials"], expected.record()["Trials"]
    assert trials["Events"] == others["Events"]
    assert set(trials["TrialsPerClass"]) == {"Gebäude", "cat"}
    np.testing.assert_array_equal(
        np.sort(fmri.result().scores), np.sort(expected.result().scores)
    )


@pytest.mark.parametrize(
    ("kind", "write", "message"),
    [
        ("eeg", padded, "MNE-BIDS finds no column 'onset' in a table beside it"),
        ("fmri", lambda text: text.replace("\t", ",").encode(), "separated by commas"),
        (
            "fmri",
            lambda text: text.replace("onset", "time").encode(),
            "Its columns are: 'time'",
        ),
        ("fmri", lambda text: b"\x00" + text.encode(), "cannot be read as a table: it"),
        (
            "fmri",
            lambda text: text.replace("4.0\tcat", "inf\tcat").encode(),
            "duration is 'inf' in line",
        ),
        ("fmri", lambda text: text.replace("\t4.0\t", "\t-4\t").encode(), "not neg"),
        (
            "fmri",
            lambda text: text.replace("28.0\t", "soon\t").encode(),
            "'soon' in li",
        ),
    ],
)
def test_tables_that_are_none_are_named(request, capsys, kind, write, message):
    study = request.getfixturevalue(kind)
    rewrite(study, write)
    assert study.run(words_of(study)) == 2
    said = capsys.readouterr().err
    assert message in said
    assert kind == "eeg" or "run-1_events.tsv" in said
