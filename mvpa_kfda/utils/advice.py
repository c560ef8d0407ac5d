"""What was given instead of data, and which function takes it.

Objects of other packages are known by the names of their classes, so that none of these
packages is loaded for it.
"""

import os
from types import GeneratorType

import numpy as np

#: Names of classes, or of classes that these are made of -> what to do with one of
#: their objects, and with a list of several where that is something else. The more
#: special stand before what they are made of.
_KINDS = {
    ("EpochsTFR",): (
        "Power is decoded by decode_epochs; for generalization, pass one frequency of "
        "its get_data() to generalize_arrays.",
        "Power is decoded by decode_epochs, one object at a time.",
    ),
    ("EpochsSpectrum",): (
        "A spectrum has no time axis. Pass its get_data() to decode_arrays, which "
        "decodes every frequency, or all its features to cross_validate.",
        "Spectra have no time axis. Pass their get_data(), joined by np.concatenate, "
        "to decode_arrays, which decodes every frequency.",
    ),
    ("BaseEpochs",): (
        "Epochs are decoded by decode_epochs and generalize_epochs; for one time "
        "alone, pass epochs.get_data()[:, :, i] to cross_validate.",
        "Epochs are decoded by decode_epochs and generalize_epochs. Join them with "
        "mne.concatenate_epochs first, or decode each by itself.",
    ),
    ("_BaseSourceEstimate",): (
        "A single source estimate is one trial or an average. Make one for every trial "
        "(mne.minimum_norm.apply_inverse_epochs), and use decode_sources(stcs, y).",
        "Source estimates, one per trial, are decoded by decode_sources(stcs, y). For "
        "generalize_arrays stack their data: X = np.stack([stc.data for stc in stcs]), "
        "tmin=stcs[0].tmin, sfreq=stcs[0].sfreq.",
    ),
    ("Evoked", "AverageTFR", "Spectrum"): (
        "An average has no single trials to decode. Pass the epochs it was made of to "
        "decode_epochs.",
        "If each counts as a trial, stack their data: X = np.stack([average.get_data() "
        "for average in averages]), and use decode_arrays(X, y, tmin=..., sfreq=...).",
    ),
    ("BaseRaw", "RawTFR"): (
        "A recording has no trials yet. Cut it with mne.Epochs(raw, events, event_id) "
        "first, and use decode_epochs.",
        "Recordings have no trials yet. Cut each with mne.Epochs(raw, events, "
        "event_id) first, join the epochs with mne.concatenate_epochs, and use "
        "decode_epochs.",
    ),
    ("SpatialImage", "SurfaceImage"): (
        "Images are decoded by searchlight and decode_regions.",
    ),
    ("Result",): (
        "Results of several subjects are for group_inference, two of one subject for "
        "compare.",
    ),
}

#: What to do with an array, by its number of dimensions.
_ARRAYS = {
    2: "One row of features per trial is for cross_validate, and with places of the "
    "features for searchlight and decode_regions.",
    3: "Trials x features x times are for decode_arrays and generalize_arrays.",
    4: "For decode_arrays put all features on one axis, trials x features x times; "
    "images are for searchlight.",
}

#: What to do with a path, by how it ends.
_FILES = {
    (".fif", ".fif.gz"): "Read the file with mne.read_epochs first.",
    (".nii", ".nii.gz", ".gii"): "Images are decoded by searchlight and "
    "decode_regions, which take their paths.",
    (".csv", ".tsv"): "Read the table with pandas.read_csv first.",
    (".npy", ".npz"): "Read the file with np.load first.",
    (".h5",): "Read a result with load_result, data with h5py, first.",
}
_OTHER_FILES = "Read the file first, epochs with mne.read_epochs, arrays with np.load."


#: What to do with complex numbers.
COMPLEX = (
    "Of complex values z take power, np.abs(z) ** 2; amplitude, np.abs(z); phase, as "
    "its cosine and sine, the real and imaginary parts of z / np.abs(z); or amplitude "
    "and phase together, as the real and imaginary parts of z. Parts are features side "
    "by side: np.concatenate([z.real, z.imag], axis=1)."
)


#: What to do with angles.
SIN_AND_COS = (
    "Use the sine and the cosine as two columns: np.column_stack([np.sin(angle), "
    "np.cos(angle)]), of np.deg2rad(angle) for degrees, and of twice the angle where "
    "half a turn makes no difference, as for orientations."
)


def described(value):
    """Word what was given: its type, of a list that of its first item too."""
    name = type(value).__name__
    if isinstance(value, list | tuple) and value:
        return f"{name} of {len(value)} {type(value[0]).__name__}"
    if isinstance(value, np.ndarray):
        return f"{name} of shape {value.shape}"
    return name


def _advice_on(value):
    """What to do with one object, and with several, of another package's data."""
    names = {base.__name__ for base in type(_first(value)).__mro__}
    return next((told for kind, told in _KINDS.items() if names & {*kind}), ())


def is_foreign(value):
    """Whether an object, or the first of a list, is data of another package."""
    return bool(_advice_on(value))


def may_hold_numbers(value):
    """Whether something may be an array of numbers."""
    nothing = str | os.PathLike | dict | GeneratorType
    return not (is_foreign(value) or isinstance(_first(value), nothing))


def _first(value):
    """The first of a list, else the object itself."""
    return value[0] if isinstance(value, list | tuple) and value else value


def advice(value):
    """Which function takes an object, as a sentence after a space, or ""."""
    first, found = _first(value), ""
    several = first is not value
    if told := _advice_on(value):
        found = told[-1] if several else told[0]
    elif isinstance(first, str | os.PathLike):
        path, found = os.fspath(first).lower(), _OTHER_FILES
        for endings, words in _FILES.items():
            if path.endswith(endings):
                found = words
    elif isinstance(first, np.ndarray):
        found = _ARRAYS.get(first.ndim + several, "")
    elif type(value).__name__ == "DataFrame":
        found = _ARRAYS[2]
    elif isinstance(value, GeneratorType):
        found = "Make a list of what the generator yields: list(...)."
    elif isinstance(value, dict) and value:
        found = "Pass its values one by one, or as a list: list(values.values())."
    return f" {found}" if found else ""
