"""Data of another kind than a function takes: the message says which function does."""

import mne
import numpy as np
import pandas as pd
import pytest

from mvpa_kfda import (
    bootstrap_latency,
    compare,
    cross_validate,
    decode_arrays,
    decode_epochs,
    decode_regions,
    decode_sources,
    generalize_arrays,
    generalize_epochs,
    group_inference,
    regress,
    searchlight,
    single_trial_betas,
)
from tests import build

X, CODES = build.trials((8, 8), 4, 24)
Y = build.NAMES[CODES]
EPOCHS, POWER = build.epochs(X, CODES), build.power(X, CODES)
SPECTRA = EPOCHS.compute_psd("welch", n_fft=16, verbose=False)
VERTICES = [np.arange(2), np.arange(2)]


def stcs():
    """Return source estimates of all trials."""
    return [mne.SourceEstimate(trial, VERTICES, 0.1, 0.01) for trial in X]


#: What may be given by mistake, and what the message says of it.
SOURCES = "decode_sources(stcs, y)"
ON_IMAGES = "Images are decoded by searchlight and decode_regions"
GIVEN = {
    "source estimates": (stcs(), "got list of 16 SourceEstimate", SOURCES),
    "a tuple of them": (tuple(stcs()), "got tuple of 16 SourceEstimate", SOURCES),
    "volume estimates": (
        [mne.VolSourceEstimate(trial, [np.arange(4)], 0, 0.01) for trial in X],
        "got list of 16 VolSourceEstimate",
        SOURCES,
    ),
    "one source estimate": (stcs()[0], "got SourceEstimate", SOURCES),
    "epochs": (EPOCHS, "got EpochsArray", "by decode_epochs and generalize_epochs"),
    "several epochs": ([EPOCHS] * 2, "of 2 EpochsArray", "mne.concatenate_epochs"),
    "power": (POWER, "got EpochsTFRArray", "Power is decoded by decode_epochs"),
    "spectra": (SPECTRA, "got EpochsSpectrum", "get_data() to decode_arrays"),
    "an average": (EPOCHS.average(), "got EvokedArray", "epochs it was made of"),
    "averages": (
        [EPOCHS[i].average() for i in range(16)],
        "got list of 16 EvokedArray",
        "np.stack([average.get_data() for average in averages])",
    ),
    "average power": (POWER.average(), "got AverageTFR", "epochs it was made of"),
    "an average spectrum": (SPECTRA.average(), "got Spectrum", "epochs it was made of"),
    "a recording": (
        mne.io.RawArray(X[0], EPOCHS.info, verbose=False),
        "got RawArray",
        "Cut it with mne.Epochs(raw, events, event_id)",
    ),
    "a volume": (build.volume(X[:, :, :, np.newaxis]), "got Nifti1Image", ON_IMAGES),
    "a surface": (build.surface(X[:, 0], X[:, 1]), "got SurfaceImage", ON_IMAGES),
    "features": (X[:, :, 0], "(16, 4)", "is for cross_validate"),
    "trials": (X, "(16, 4, 24)", "are for decode_arrays and generalize_arrays"),
    "a table": (pd.DataFrame(X[:, :, 0]), "", "is for cross_validate"),
    "power of trials": (X[:, :, np.newaxis], "(16, 4, 1, 24)", "For decode_arrays put"),
    "a file of epochs": ("a-epo.fif", "got str", "Read the file with mne.read_epochs"),
    "a file of images": ("a.nii.gz", "got str", "which take their paths"),
    "files of images": (["a.nii", "b.nii"], "of 2 str", "which take their paths"),
    "a table's file": ("table.tsv", "got str", "pandas.read_csv"),
    "an array's file": ("X.npy", "got str", "np.load"),
    "a result's file": ("result.h5", "got str", "load_result"),
    "another file": ("X.dat", "got str", "Read the file first"),
    "a dict": ({"a": EPOCHS}, "got dict", "list(values.values())"),
    "a result": (build.result(), "got TimeResult", "are for group_inference"),
    "results": (build.subjects(n=2), "list of 2 TimeResult", "are for group_inference"),
}
RESULT = build.result()
ATLAS = build.mask(np.ones((4, 24, 1)))
EVENTS = pd.DataFrame({"onset": [1.0, 9.0], "duration": 1.0, "trial_type": ["a", "b"]})
PATHS = ("a file of images", "files of images")
FILES = ("a file of epochs", "a table's file", "an array's file", "a result's file")
FILES += ("another file", *PATHS)

#: The functions, and what of all this they do take, or say in other words.
FUNCTIONS = {
    "decode_epochs": (lambda given: decode_epochs(given, Y), {"epochs", "power"}),
    "generalize_epochs": (lambda given: generalize_epochs(given, Y), {"epochs"}),
    "test_epochs": (
        lambda given: generalize_epochs(EPOCHS, Y, test_epochs=given),
        {"epochs"},
    ),
    "cross_validate": (lambda given: cross_validate(given, Y), {"features", "a table"}),
    "regress": (lambda given: regress(given, CODES), {"features", "a table"}),
    "decode_arrays": (lambda given: decode_arrays(given, Y), {"trials"}),
    "generalize_arrays": (lambda given: generalize_arrays(given, Y), {"trials"}),
    "X_test": (lambda given: generalize_arrays(X, Y, given), {"trials"}),
    "searchlight": (
        lambda given: searchlight(given, Y),
        {"a volume", "a surface", "features", "a table", *FILES},
    ),
    "single_trial_betas": (
        lambda given: single_trial_betas(given, EVENTS, t_r=2.0),
        {"a volume", "a surface", *FILES},
    ),
    "decode_regions": (
        lambda given: decode_regions(given, Y, labels_img=ATLAS),
        {"a volume", "a surface", "features", "a table", *FILES}
        | {"trials", "power of trials"},
    ),
}
CASES = [
    pytest.param(call, *GIVEN[kind], id=f"{name}-{kind}")
    for name, (call, taken) in FUNCTIONS.items()
    for kind in GIVEN
    if kind not in taken
]


@pytest.mark.parametrize(("call", "given", "seen", "words"), CASES)
def test_the_message_names_the_function_for_it(call, given, seen, words):
    with pytest.raises((TypeError, ValueError), match=r"must (be|have) ") as error:
        call(given)
    text = str(error.value)
    assert seen in text
    assert words in text


def test_what_is_advised_for_source_estimates_works():
    given = stcs()
    X = np.stack([stc.data for stc in given])
    result = generalize_arrays(X, Y, tmin=given[0].tmin, sfreq=given[0].sfreq, cv=4)
    np.testing.assert_allclose(result.test_times, given[0].times, rtol=0, atol=1e-12)
    expected = decode_sources(given, Y, cv=4).scores
    np.testing.assert_array_equal(result.diagonal().scores, expected)


def test_generators_have_to_be_lists():
    for call in (FUNCTIONS["decode_epochs"][0], FUNCTIONS["decode_arrays"][0]):
        with pytest.raises(TypeError, match=r"got generator\. Make a list of what"):
            call(stc for stc in stcs())


OF_GROUPS = {
    "group_inference": lambda given: group_inference(given),
    "bootstrap_latency": lambda given: bootstrap_latency(given),
    "other": lambda given: group_inference(build.subjects(n=2), "t", other=given),
    "compare": lambda given: compare(given, RESULT),
    "result_b": lambda given: compare(RESULT, given),
}
NO_RESULTS = ("epochs", "power", "a recording", "a volume", "one source estimate")


@pytest.mark.parametrize("kind", NO_RESULTS)
@pytest.mark.parametrize("call", OF_GROUPS.values(), ids=OF_GROUPS)
def test_groups_are_of_results(call, kind):
    given, _, words = GIVEN[kind]
    with pytest.raises(TypeError, match=r" must be a (list|result)") as error:
        call(given)
    assert words in str(error.value)


@pytest.mark.parametrize("kind", ["source estimates", "averages"])
def test_every_subject_is_a_result(kind):
    for call in (group_inference, bootstrap_latency):
        with pytest.raises(TypeError, match=r"Subject 1 is no result .*(stack|epochs)"):
            call(GIVEN[kind][0])
