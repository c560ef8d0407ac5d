"""Classes by the names and tags of events: which epochs are decoded as what."""

import re

import mne
import numpy as np
import pandas as pd
import pytest
from mne.time_frequency import EpochsTFRArray
from numpy.testing import assert_array_equal
from sklearn.model_selection import KFold

from mvpa_kfda import decode_epochs, generalize_epochs, load_result, verify
from mvpa_kfda.cli.main import main
from tests import build

EVENT_ID = {"face/left": 1, "face/right": 2, "left/house": 3, "house/right": 4}
EVENT_ID |= {"body": 5, "button": 6}
CODES = build.codes_of([10] * 6, seed=1)
FACE, HOUSE, BODY = (np.isin(CODES, codes) for codes in ([0, 1], [2, 3], [4]))
RUNS = build.groups_of(60)
OPTIONS = {"cv": KFold(5), "n_permutations": 9, "random_state": 0}


def make_epochs(seed=0, shift=0.0):
    """Return epochs of six events with slashes in their names."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 4, 3))
    X[:, 0] += 2 * FACE[:, np.newaxis]
    X[:, 1] += 2 * np.isin(CODES, [0, 2])[:, np.newaxis]
    samples = 10**6 * seed + np.cumsum(rng.integers(200, 300, 60))
    return mne.EpochsArray(
        X * 1e-6,
        mne.create_info(4, 100.0, "eeg"),
        np.column_stack([samples, np.zeros(60, int), CODES + 1]),
        tmin=shift,
        event_id=EVENT_ID,
        metadata=pd.DataFrame({"run": RUNS, "number": np.arange(60)}),
        verbose=False,
    )


EPOCHS = make_epochs()


def assert_same_numbers(result, expected):
    """Assert that two results have the same numbers and labels."""
    assert_array_equal(result.classes, expected.classes)
    for name in ("y", "groups", "predicted", "scores", "null"):
        assert_array_equal(getattr(result, name), getattr(expected, name))


CHOICES = {
    "tags": (["face", "house"], {"face": FACE, "house": HOUSE}),
    "events in parts": (
        ("right/face", "house/left", "body"),
        {"right/face": CODES == 1, "house/left": CODES == 2, "body": BODY},
    ),
    "a dict": (
        {"animate": ["face", "body"], "inanimate": "house"},
        {"animate": FACE | BODY, "inanimate": HOUSE},
    ),
    "tags that share events": (
        {"any face": ["face", "face/left"], "other": ("house/left", "body")},
        {"any face": FACE, "other": (CODES == 2) | BODY},
    ),
}
choices = pytest.mark.parametrize(("y", "masks"), CHOICES.values(), ids=CHOICES)


def selected_by_hand(masks):
    """Return indices of the epochs of some classes, and their labels."""
    labels = np.full(60, "", dtype="<U12")
    for name, mask in masks.items():
        labels[mask] = name
    kept = np.flatnonzero(labels != "")
    return kept, labels[kept]


@pytest.mark.some(4)
@choices
@pytest.mark.parametrize("decode", [decode_epochs, generalize_epochs])
def test_classes_are_those_of_the_epochs_selected_by_hand(y, masks, decode):
    kept, labels = selected_by_hand(masks)
    expected = decode(EPOCHS[kept], labels, groups=RUNS[kept], **OPTIONS)
    for groups in ("run", RUNS, RUNS.tolist()):
        result = decode(EPOCHS, y, groups=groups, **OPTIONS)
        assert_same_numbers(result, expected)
    assert_array_equal(result.parameters["selected"], kept)
    assert len(EPOCHS) == 60


def test_tags_select_what_mne_selects():
    result = decode_epochs(EPOCHS, ["face", "house"])
    kept = EPOCHS[["face", "house"]]
    assert_array_equal(
        result.parameters["selected"], kept.metadata["number"].to_numpy()
    )
    assert result.parameters["classes"] == {
        "face": ["face/left", "face/right"],
        "house": ["house/right", "left/house"],
    }
    assert_array_equal(
        result.classes[result.y],
        ["face" if code < 3 else "house" for code in kept.events[:, 2]],
    )


def test_a_result_keeps_its_classes(tmp_path):
    result = decode_epochs(EPOCHS, {"a/b": ["face", "body"], "c": "house"})
    result.save(tmp_path / "result.h5")
    assert load_result(tmp_path / "result.h5") == result


def test_power_is_decoded_by_tags():
    data = np.abs(np.random.default_rng(0).normal(size=(60, 4, 2, 3)))
    power = EpochsTFRArray(
        EPOCHS.info,
        data,
        EPOCHS.times,
        [8.0, 16.0],
        events=EPOCHS.events,
        event_id=EVENT_ID,
        # Without the next two, MNE-Python 1.9 cannot take some of the epochs.
        selection=np.arange(60),
        drop_log=((),) * 60,
        metadata=EPOCHS.metadata,
    )
    kept, labels = selected_by_hand({"face": FACE, "house": HOUSE})
    result = decode_epochs(power, ["face", "house"], groups="run", **OPTIONS)
    expected = decode_epochs(power[kept], labels, groups="run", **OPTIONS)
    assert_same_numbers(result, expected)


def test_as_many_texts_as_epochs_are_labels():
    labels = np.where(FACE, "face", "body").tolist()
    result = decode_epochs(EPOCHS, labels, **OPTIONS)
    assert_same_numbers(result, decode_epochs(EPOCHS, np.array(labels), **OPTIONS))
    assert "selected" not in result.parameters
    few = EPOCHS[:6]
    with pytest.raises(ValueError, match="a different label for each of the 6 trials"):
        decode_epochs(few, list(EVENT_ID))


# -------------------------------------------------------------------- wrong selections

WRONG = {
    "no event": (
        ["face", "hose"],
        r"y names 'hose', which is no event or tag of epochs\. The events are: "
        r"'face/left', .*'button'; tags in them: 'face', 'house', 'left', 'right'\. "
        r"If these are labels, pass one for each of the 60 epochs\.",
    ),
    "labels for some epochs": (
        ["face", "house"] * 29,
        r"y names 'face' twice among 58 names, for 60 epochs.*one label for each epoch",
    ),
    "one class": (["face"], r"y names 1 class; decoding needs two or more"),
    "no class": ({}, r"y names 0 classes; decoding needs two or more"),
    "an event twice": (
        ["face", "left"],
        r"y names the event 'face/left' in two classes, 'face' and 'left'",
    ),
    "number": ({"a": "face", "b": 3}, r"dict of name -> tag or event.*got 'b': 3"),
    "nothing": ({"a": "face", "b": []}, r"dict of name -> tag or event.*got 'b': \[\]"),
    "no name": (
        {"a": "face", "": "house"},
        r"got '': \['house'\]\. For example: \{'ani",
    ),
    "texts of an array": (np.array(["face", "house"]), r"one value per trial.*\(60,\)"),
}


@pytest.mark.parametrize(("y", "message"), WRONG.values(), ids=WRONG)
def test_names_that_select_nothing_sensible(y, message):
    for decode in (decode_epochs, generalize_epochs):
        with pytest.raises((ValueError, TypeError), match=message):
            decode(EPOCHS, y)
    if not isinstance(y, np.ndarray):
        with pytest.raises((ValueError, TypeError), match=r"y_test names"):
            generalize_epochs(EPOCHS, ["face", "house"], y_test=y)


def test_a_class_without_epochs():
    epochs = EPOCHS[np.flatnonzero(~BODY)].copy()
    epochs.event_id = EVENT_ID
    message = r"names the class 'body', but epochs has no epoch of its events 'body'"
    with pytest.raises(ValueError, match=message):
        decode_epochs(epochs, ["face", "body"])


def test_groups_are_for_all_epochs():
    kept = np.flatnonzero(FACE | HOUSE)
    with pytest.raises(ValueError, match=r"groups must hold one value .*\(60,\)"):
        decode_epochs(EPOCHS, ["face", "house"], groups=RUNS[kept])


def test_regression_has_no_classes():
    with pytest.raises(ValueError, match="predicts numbers, and y names classes"):
        decode_epochs(EPOCHS, ["face", "house"], task="regression")


# ---------------------------------------------------------------- training and testing


def test_two_labellings_of_the_epochs_that_both_name():
    what = {"face": FACE, "house": HOUSE, "body": BODY}
    where = {"face": np.isin(CODES, [0, 2]), "house": np.isin(CODES, [1, 3])}
    kept, labels = selected_by_hand({k: what[k] & (CODES < 4) for k in where})
    result = generalize_epochs(
        EPOCHS,
        ["face", "house"],
        y_test={"face": "left", "house": "right"},
        groups=RUNS,
        **OPTIONS,
    )
    sides = np.where(where["face"], "face", "house")[kept]
    expected = generalize_epochs(
        EPOCHS[kept], labels, y_test=sides, groups=RUNS[kept], **OPTIONS
    )
    assert_same_numbers(result, expected)
    assert_array_equal(result.y_test, expected.y_test)
    # An array is for all epochs, whoever names classes.
    everywhere = np.where(where["face"], "face", "house")
    mixed = generalize_epochs(
        EPOCHS, ["face", "house"], y_test=everywhere, groups=RUNS, **OPTIONS
    )
    assert_same_numbers(mixed, expected)
    assert_array_equal(result.parameters["selected_test"], kept)


def test_two_labellings_without_epochs_in_common():
    left = {"face": "face/left", "house": "house/left"}
    right = {"face": "face/right", "house": "house/right"}
    with pytest.raises(ValueError, match="have no epoch in common"):
        generalize_epochs(EPOCHS, left, y_test=right)
    some = {"face": "face", "house": "body"}
    with pytest.raises(ValueError, match="y names the class 'house', but its epochs"):
        generalize_epochs(EPOCHS, {"face": "face", "house": "house"}, y_test=some)


def test_one_side_is_trained_with_and_the_other_tested():
    left = {"face": "face/left", "house": "house/left"}
    right = {"face": "face/right", "house": "house/right"}
    options = {"n_permutations": 9, "random_state": 0}
    result = generalize_epochs(
        EPOCHS, left, test_epochs=EPOCHS, y_test=right, groups=RUNS, **options
    )
    rows, tested = (np.flatnonzero(np.isin(CODES, c)) for c in ([0, 2], [1, 3]))
    expected = generalize_epochs(
        EPOCHS[rows],
        np.where(FACE, "face", "house")[rows],
        test_epochs=EPOCHS[tested],
        y_test=np.where(FACE, "face", "house")[tested],
        groups=RUNS[rows],
        **options,
    )
    assert_same_numbers(result, expected)
    assert_array_equal(result.y_test, expected.y_test)
    assert result.parameters["classes_test"]["face"] == ["face/right"]
    assert_array_equal(result.parameters["selected_test"], tested)


def test_other_epochs_are_selected_by_the_same_names():
    others = make_epochs(seed=1)
    rows, labels = selected_by_hand({"face": FACE, "house": HOUSE})
    result = generalize_epochs(EPOCHS, ["face", "house"], test_epochs=others)
    expected = generalize_epochs(
        EPOCHS[rows], labels, test_epochs=others[rows], y_test=labels
    )
    assert_array_equal(result.scores, expected.scores)
    assert result.parameters["mode"] == "other_trials"
    with pytest.raises(ValueError, match=r"y_test names 'face', .* tag of test_epochs"):
        generalize_epochs(
            EPOCHS, ["face", "house"], test_epochs=others[["body", "button"]]
        )


def test_the_same_trials_are_selected_one_by_one():
    rows, labels = selected_by_hand({"face": FACE, "house": HOUSE})
    later = make_epochs(seed=2, shift=1.0)
    later.event_id = {"response": 1}  # cut around other events
    later.events[:, 2] = 1
    result = generalize_epochs(
        EPOCHS, ["face", "house"], test_epochs=later, same_trials=True, **OPTIONS
    )
    expected = generalize_epochs(
        EPOCHS[rows], labels, test_epochs=later[rows], same_trials=True, **OPTIONS
    )
    assert_same_numbers(result, expected)
    selected = generalize_epochs(
        EPOCHS,
        ["face", "house"],
        test_epochs=later[rows],
        same_trials=True,
        **OPTIONS,
    )
    assert_same_numbers(selected, expected)
    copies = {"test_epochs": EPOCHS.copy(), "same_trials": True}
    again = generalize_epochs(EPOCHS, ["face", "house"], **copies, **OPTIONS)
    assert again.parameters["mode"] == "plain"
    assert_same_numbers(again, generalize_epochs(EPOCHS[rows], labels, **OPTIONS))
    with pytest.raises(ValueError, match=r"epochs has 40 and test_epochs has 50"):
        generalize_epochs(
            EPOCHS, ["face", "house"], test_epochs=later[:50], same_trials=True
        )


def test_a_query_is_asked_of_the_epochs_that_are_left():
    rows, labels = selected_by_hand({"face": FACE, "house": HOUSE})
    query = f"number not in {[*range(0, 200, 3)]}"
    options = {"train_on": query, "n_permutations": 9, "random_state": 0}
    for groups, column in ((None, None), (RUNS, "run")):
        result = generalize_epochs(EPOCHS, ["face", "house"], groups=groups, **options)
        expected = generalize_epochs(EPOCHS[rows], labels, groups=column, **options)
        assert_same_numbers(result, expected)
        assert_array_equal(result.parameters["selected"], rows)


def test_a_mask_holds_the_epochs_that_are_left_out_too():
    rows, labels = selected_by_hand({"face": FACE, "house": HOUSE})
    mask = np.arange(60) % 3 > 0
    options = {"n_permutations": 9, "random_state": 0}
    for function in (decode_epochs, generalize_epochs):
        for groups, part in ((None, None), (RUNS, RUNS[rows])):
            result = function(
                EPOCHS, ["face", "house"], train_on=mask, groups=groups, **options
            )
            expected = function(
                EPOCHS[rows], labels, train_on=mask[rows], groups=part, **options
            )
            assert_same_numbers(result, expected)
    with pytest.raises(ValueError, match=r"selects none of the 40 trials"):
        decode_epochs(EPOCHS, ["face", "house"], train_on=BODY)


# ------------------------------------------------------------------- the command line


@pytest.fixture
def inside(tmp_path, monkeypatch):
    """A folder with epochs, which is the current one."""
    EPOCHS.save(tmp_path / "words-epo.fif", verbose=False)
    make_epochs(seed=1).save(tmp_path / "new-epo.fif", verbose=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(text, command="epochs"):
    return main(f"{command} words-epo.fif --n-permutations 9 {text}".split())


COMMANDS = {
    "face house": ["face", "house"],
    "{'animate':['face','body'],'inanimate':['house']}": CHOICES["a dict"][0],
}


@pytest.mark.parametrize(("words", "y"), COMMANDS.items(), ids=COMMANDS)
def test_the_command_takes_classes(inside, capsys, undrawn, words, y):
    assert run(f"--y {words} --groups run") == 0
    assert capsys.readouterr().err == ""
    epochs = mne.read_epochs("words-epo.fif", verbose=False)
    expected = decode_epochs(epochs, y, groups="run", n_permutations=9, random_state=0)
    assert load_result("words.h5") == expected


def test_the_command_generalizes_classes(inside, capsys):
    assert run("--y face house --test-epochs new-epo.fif", "generalize") == 0
    result = load_result("words_to_new_generalization.h5")
    assert result.n_tested == 40
    assert result.parameters["classes_test"]["face"] == ["face/left", "face/right"]


REFUSED = {
    "--y face hose": r"error: y names 'hose', which .* 'right'",
    "--y ['face']": "error: y names 1 class;",
}


@pytest.mark.parametrize(("words", "message"), REFUSED.items(), ids=REFUSED)
def test_the_command_refuses(inside, capsys, words, message):
    assert run(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(message, line)


# ------------------------------------------------------------- blanks at ends of names


def padded(labels):
    """Return labels of which every fourth has a blank at its end."""
    return [f"{each} " if i % 4 == 0 else each for i, each in enumerate(labels)]


LABELS = np.where(FACE, "face", np.where(HOUSE, "house", "other"))
PADDED = {
    "labels": padded(LABELS),
    "objects": np.array(padded(LABELS), object),
    "a column": "kind",
    "names": [" face", "house ", "body\t", "button"],
    "a dict": {" face ": "face ", "house": [" house"], "other": ["body", "button "]},
}


@pytest.mark.parametrize("given", PADDED)
def test_blanks_at_the_ends_of_labels_and_names_mean_nothing(given):
    own = EPOCHS.copy()
    own.metadata = own.metadata.assign(kind=padded(LABELS))
    clean = LABELS if given != "names" else ["face", "house", "body", "button"]
    result = decode_epochs(own, PADDED[given], groups=padded(RUNS.astype(str)))
    expected = decode_epochs(EPOCHS, clean, groups=RUNS.astype(str))
    assert_same_numbers(result, expected)
    assert verify(result, own, PADDED[given], groups=padded(RUNS.astype(str))).ok


def test_blanks_mean_nothing_in_queries_and_categories_either():
    kinds = np.where(RUNS < 2, "early", "late")
    results = []
    for column in (kinds, padded(kinds)):
        own = EPOCHS.copy()
        own.metadata = own.metadata.assign(kind=column)
        more = {"train_on": "kind == 'early'", "confounds": "kind"}
        results.append(
            [decode_epochs(own, ["face", "house"], **{k: v}) for k, v in more.items()]
        )
    for result, expected in zip(*results, strict=True):
        assert_same_numbers(result, expected)


def test_events_whose_names_differ_by_blanks_are_one_class():
    own = EPOCHS.copy()
    own.event_id = {f"{name} ": code for name, code in EVENT_ID.items()}
    own.event_id["button"] = own.event_id.pop("body ")
    expected = decode_epochs(EPOCHS, {**CLASSES, "button": ["body", "button"]})
    assert_same_numbers(decode_epochs(own), expected)


CLASSES = {name: name for name in ("face/left", "face/right", "house/right")}
CLASSES |= {"left/house": "left/house"}


def test_one_class_under_two_names_but_for_blanks_is_refused():
    with pytest.raises(ValueError, match=r"names 'face' twice .*Put the events"):
        decode_epochs(EPOCHS, {"face": "face/left", "face ": "face/right"})
