"""What a record holds is said, of one subject and of what many share."""

from dataclasses import replace
from functools import cache

import mne
import numpy as np
import pytest
from sklearn.decomposition import PCA

from mvpa_kfda import Tuned, decode_arrays, decode_epochs, group_inference, methods_text
from mvpa_kfda.group.subjects import MAY_DIFFER, NUMBERS
from mvpa_kfda.reports.vocabulary import NOT_SAID, SETTING_WORDS
from mvpa_kfda.results.base import SubjectResult
from mvpa_kfda.results.fields import RESULTS
from mvpa_kfda.utils.plain import recorded
from tests import build
from tests.texts import check_text

# ---------------------------------------------------------- every field of the record


#: Field of a record -> another value, and what else it takes for it to mean something.
ANOTHER = {
    "kernel": ({"name": "RBF", "gamma": "median"}, {}),
    "reg": ({"name": "Shrinkage", "gamma": 0.2}, {}),
    "n_components": (1, {}),
    "average": (3, {}),
    "n_repeats": (2, {}),
    "equalize": (True, {}),
    "folds_by_labels": (True, {}),
    "cv": ({"name": "LeaveOneOut"}, {}),
    "train_on": ("modality == 'words'", {}),
    "preprocess": ([recorded(PCA(2))], {}),
    "n_confounds": (2, {}),
    "confounds": ([{"name": "age", "taken_as": "a number"}], {"n_confounds": 1}),
    "permute": ("groups", {}),
    "exact": (True, {}),
    "random_state": (7, {}),
    "dtype": ("float32", {}),
    "n_features": (9, {}),
    "scale": ("channel", {}),
    "sfreq": (250.0, {}),
    "window": (5.0, {}),
    "step": (3.0, {}),
    "window_mode": ("concatenate", {"window": 5.0}),
    "mode": ("same_trials", {}),
    "radius": (12.0, {}),
    "distance": ("geodesic", {}),
    "standardize": (False, {}),
    "classes": ({"face": ["face/left", "face/right"]}, {}),
    "classes_test": ({"face": ["face/left", "face/right"]}, {}),
    "kernels": (
        [{"name": "Linear"}, {"name": "RBF", "gamma": "median"}],
        {"reg": recorded(Tuned())},
    ),
}
#: Kind of result -> fields that only some calls of it record.
OF_SOME_CALLS = {
    "TimeResult": ("classes", "classes_test", "kernels"),
    "VolumeResult": ("distance",),
    "GeneralizationResult": ("mode",),
}
KINDS = [name for name, kind in RESULTS.items() if issubclass(kind, SubjectResult)]


def text_of(result, **changes):
    return methods_text(replace(result, parameters=result.parameters | changes))


@pytest.mark.parametrize("kind", [*KINDS, "regions"])
def test_every_setting_of_the_record_is_said(kind):
    result = build.result(kind)
    usual = text_of(result)
    assert not set(ANOTHER) & NOT_SAID
    # Sources are counted, and a result of regression is no other.
    own = {"n_features"} if "Source" in kind else {"task"}
    names = {*result.parameters} - NOT_SAID - own
    for name in sorted({*names, *OF_SOME_CALLS.get(kind, ())}):
        value, also = ANOTHER[name]
        before = text_of(result, **also) if also else usual
        assert before != text_of(result, **also | {name: value}), name


# --------------------------------------------------------------------- of recordings


#: What the BIDS command records of fMRI, and another value of each field.
SCANS = {
    "kind": ("bold", None),
    "n_runs": (4, 5),
    "group": ("run", "session"),
    "n_scans": ([60, 64], [60, 60]),
    "by": ("condition", "response"),
    "where": (None, "rt > 0.2"),
    "space": ("MNI152NLin6Asym", None),
    "entity": (["desc-denoised"], ["desc-optcom"]),
    "echo": ("2", "1"),
    "estimate": ("lss", "lsa"),
    "hrf_model": ("glover", "spm"),
    "t_r": (2.0, 1.5),
    "slice_time_ref": (0.5, 0.0),
    "smoothing_fwhm": (None, 4.0),
    "mask": ("brain masks of the runs", "--mask-img"),
    "n_mask_voxels": (150, 90),
    "drift_model": ("cosine", "fMRIPrep"),
    "high_pass": (0.01, 0.02),
    "confounds": (["motion", "scrub"], ["none"]),
    "fd_threshold": (0.5, 0.3),
    "std_dvars_threshold": (1.5, 2.0),
    "n_compcor": (5, "all"),
    "n_confound_regressors": (24, 12),
    "n_scans_left_out": (7, 0),
}
NO_BLOCKS = {"hrf_model"}
BLOCKS = {name: pair for name, pair in SCANS.items() if name not in NO_BLOCKS} | {
    "estimate": ("blocks", "images"),
    "drift_model": ("filter", "fMRIPrep"),
    "delay": (5.0, 4.0),
    "block_gap": (1.0, None),
}
SHARED = ("kind", "n_runs", "group", "n_scans", "t_r", "slice_time_ref")
SHARED += ("estimate", "smoothing_fwhm", "n_scans_left_out")
ESTIMATES = {name: SCANS[name] for name in SHARED} | {
    "hrf_model": ([{"function": "early"}, {"function": "late"}], None),
    "drift_model": ("polynomial", None),
    "drift_order": (1, 2),
    "signal_scaling": ("percent", "none"),
    "noise_model": ("ols", "ar1"),
    "regressors": (["heart", "breath"], ["pitch", "yaw"]),
    "n_confound_regressors": (2, 12),
}
RAW = {
    "kind": ("raw", None),
    "n_runs": (4, 5),
    "by": ("condition", "response"),
    "where": ("rt > 0.2", None),
    "tmin": (-0.2, -0.1),
    "tmax": (0.5, 1.0),
    "high_pass": (0.1, None),
    "low_pass": (40.0, None),
    "baseline": (["none", "0"], ["none"]),
    "reject": (["eeg=150e-6"], None),
    "resample": (100.0, None),
}
CUT = {
    "kind": ("epochs", None),
    "n_runs": (4, 5),
    "by": ("condition", "response"),
    "where": (None, "rt > 0.2"),
    "resample": (None, 100.0),
}


RECORDINGS = [SCANS, BLOCKS, ESTIMATES, RAW, CUT]


@cache
def three_subjects():
    """Return results of three subjects."""
    return [build.result("DecodingResult", seed) for seed in range(3)]


def of_group(results):
    """Return the text of a group of subjects."""
    return check_text(group_inference(results, "sign-flip", alpha=0.5, random_state=0))


@pytest.mark.parametrize("recorded", RECORDINGS)
def test_every_field_of_a_recording_is_said_of_a_subject_and_of_a_group(recorded):
    base = {name: value for name, (value, _) in recorded.items()}

    def texts(record, words=methods_text):
        results = [
            replace(each, parameters=each.parameters | {"recordings": record})
            for each in three_subjects()
        ]
        return words(results[0]), words(group_inference(results, "t", "none"))

    usual = texts(base)
    assert texts(base, check_text)  # in good English
    for name, (value, another) in recorded.items():
        if value == another:
            continue
        for text, before in zip(texts(base | {name: another}), usual, strict=True):
            assert text != before, name


def test_every_field_in_which_subjects_may_differ_has_words():
    named = {*ANOTHER, *(f"recordings.{name}" for each in RECORDINGS for name in each)}
    free = {*MAY_DIFFER, *NUMBERS}
    assert {x for x in named if x.rpartition(".")[2] not in free} <= {*SETTING_WORDS}


def test_groups_of_trials_are_runs_where_they_are_known_to_be():
    X, codes = build.trials((8, 8), 4, 3)
    groups = build.groups_of(16)
    result = decode_arrays(X, build.NAMES[codes], groups=groups, n_permutations=9)
    assert "leave-one-group-out" in check_text(result)
    named = replace(result, classes=np.array(["group", "groups"]))
    text = text_of(named, recordings={"kind": "epochs", "n_runs": 4})
    assert "leave-one-run-out" in text
    assert "(8 group, 8 groups)" in text  # names stay as they are
    assert "trials were in 4 runs" in text


# ------------------------------------------------------------------ what many share


def test_a_group_says_what_its_subjects_did():
    results = [build.result("VolumeResult", seed=seed) for seed in range(3)]
    words = "Searchlights (Kriegeskorte et al., 2006) comprised all voxels within 4 mm"
    assert words in of_group(results)
    options = {"window": 0.02, "n_permutations": 9, "sfreq": 100, "random_state": 0}
    options |= {"average": 2, "n_repeats": 2, "cv": 3}
    made = [build.trials((12, 12), 4, 6, seed) for seed in range(3)]
    text = of_group([decode_arrays(*each, **options) for each in made])
    for words in (
        "Each trial had 4 features.",
        "Samples were averaged within sliding windows (window length 0.02 s",
        "Averages of 2 trials were decoded.",
        "The procedure was run twice",
    ):
        assert words in text


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_group_says_how_many_channels_of_which_type():
    options = {"n_permutations": 9, "random_state": 0, "cv": 4}
    info = mne.create_info(4, 100.0, ["eeg", "eeg", "mag", "grad"])

    def words(drop):
        results = []
        for seed in range(3):
            data, codes = build.trials((12, 12), 4, 3, seed)
            epochs = mne.EpochsArray(data, info, verbose=False)
            epochs.drop_channels(drop[seed])
            results.append(decode_epochs(epochs, codes, **options))
        alone = {check_text(result).split(", at each")[0] for result in results}
        return of_group(results), alone

    text, alone = words([[], [], []])
    said = "signals of 4 channels (2 EEG channels, 1 magnetometer, and 1 gradiometer)"
    assert f"Features were the {said}." in text
    assert all(each.endswith(said) for each in alone)
    text, _ = words([["2", "3"], ["2", "3"], ["1", "2", "3"]])
    assert "Features were the signals of 1 to 2 EEG channels." in text
    text, _ = words([["3"], [], []])  # of which not all have all types
    assert "Features were the signals of 3 to 4 channels." in text
