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
STCS = [mne.SourceEstimate(trial, VERTICES, 0.1, 0.01) for trial in X]
AVERAGES = [EPOCHS[i].average() for i in range(16)]
RAW = mne.io.RawArray(X[0], EPOCHS.info, verbose=False)
RESULT = build.result()

#: What may be given by mistake, and what the message says of it.
SOURCES = "decode_sources(stcs, y)"
ON_IMAGES = "Images are decoded by searchlight and decode_regions"
VOLUME_STCS = [mne.VolSourceEstimate(trial, [np.arange(4)], 0, 0.01) for trial in X]
STACK = "np.stack([average.get_data() for average in averages])"
GIVEN = {
    "source estimates": (STCS, "got list of 16 SourceEstimate", SOURCES),
    "a tuple of them": (tuple(STCS), "got tuple of 16 SourceEstimate", SOURCES),
    "volume estimates": (VOLUME_STCS, "got list of 16 VolSourceEstimate", SOURCES),
    "one source estimate": (STCS[0], "got SourceEstimate", SOURCES),
    "epochs": (EPOCHS, "got EpochsArray", "by decode_epochs and generalize_epochs"),
    "several epochs": ([EPOCHS] * 2, "of 2 EpochsArray", "mne.concatenate_epochs"),
    "power": (POWER, "got EpochsTFRArray", "Power is decoded by decode_epochs"),
    "spectra": (SPECTRA, "got EpochsSpectrum", "get_data() to decode_arrays"),
    "an average": (AVERAGES[0], "got EvokedArray", "epochs it was made of"),
    "averages": (AVERAGES, "got list of 16 EvokedArray", STACK),
    "average power": (POWER.average(), "got AverageTFR", "epochs it was made of"),
    "an average spectrum": (SPECTRA.average(), "got Spectrum", "epochs it was made of"),
    "a recording": (RAW, "got RawArray", "Cut it with mne.Epochs(raw, events, event"),
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
    "a generator": ((x for x in STCS), "got generator", "Make a list of what"),
    "a result": (RESULT, "got TimeResult", "are for group_inference"),
    "results": ([RESULT] * 2, "list of 2 TimeResult", "are for group_inference"),
}
ATLAS = build.mask(np.ones((4, 24, 1)))
EVENTS = pd.DataFrame({"onset": [1.0, 9.0], "duration": 1.0, "trial_type": ["a", "b"]})
IMAGES = {
    "a volume",
    "a surface",
    "a generator",
    *(name for name in GIVEN if "file" in name),
}
TABLES, EITHER = {"features", "a table"}, {"epochs", "power"}
#: The functions, and what of all this they do take, or say in other words.
FUNCTIONS = {
    "decode_epochs": (lambda given: decode_epochs(given, Y), EITHER),
    "generalize_epochs": (lambda given: generalize_epochs(given, Y), {"epochs"}),
    "test_epochs": (
        lambda given: generalize_epochs(EPOCHS, Y, test_epochs=given),
        {"epochs"},
    ),
    "cross_validate": (lambda given: cross_validate(given, Y), TABLES),
    "regress": (lambda given: regress(given, CODES), TABLES),
    "decode_arrays": (lambda given: decode_arrays(given, Y), {"trials"}),
    "generalize_arrays": (lambda given: generalize_arrays(given, Y), {"trials"}),
    "X_test": (lambda given: generalize_arrays(X, Y, given), {"trials"}),
    "searchlight": (lambda given: searchlight(given, Y), IMAGES | TABLES),
    "single_trial_betas": (
        lambda given: single_trial_betas(given, EVENTS, t_r=2.0),
        IMAGES,
    ),
    "decode_regions": (
        lambda given: decode_regions(given, Y, labels_img=ATLAS),
        IMAGES | TABLES | {"trials", "power of trials"},
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_message_names_the_function_for_it(name):
    call, taken = FUNCTIONS[name]
    for kind in GIVEN.keys() - taken:
        given, seen, words = GIVEN[kind]
        with pytest.raises((TypeError, ValueError), match=r"must (be|have) ") as error:
            call(given)
        assert seen in str(error.value), kind
        assert words in str(error.value), kind


def test_what_is_advised_for_source_estimates_works():
    given = STCS
    X = np.stack([stc.data for stc in given])
    result = generalize_arrays(X, Y, tmin=given[0].tmin, sfreq=given[0].sfreq, cv=4)
    np.testing.assert_allclose(result.test_times, given[0].times, rtol=0, atol=1e-12)
    expected = decode_sources(given, Y, cv=4).scores
    np.testing.assert_array_equal(result.diagonal().scores, expected)


def test_groups_are_of_results():
    calls = (
        group_inference,
        bootstrap_latency,
        lambda given: group_inference([RESULT] * 2, "t", other=given),
        lambda given: compare(given, RESULT),
        lambda given: compare(RESULT, given),
    )
    for kind in ("epochs", "power", "a recording", "a volume", "one source estimate"):
        for call in calls:
            match = r" must be a (list|result)"
            with pytest.raises(TypeError, match=match) as error:
                call(GIVEN[kind][0])
            assert GIVEN[kind][2] in str(error.value)
    for given in (STCS, AVERAGES):
        for call in calls[:2]:
            with pytest.raises(TypeError, match=r"Subject 1 is no .*(stack|epochs)"):
                call(given)
