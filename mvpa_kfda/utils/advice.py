"""What was given instead of data, and which function takes it.

Objects of other packages are known by the names of their classes, so that none of these
packages is loaded for it.
"""

import os
from dataclasses import dataclass
from types import GeneratorType

import numpy as np


@dataclass(frozen=True)
class _Kind:
    """Objects that some function takes, and what to do with one of them or a list."""

    #: Names of their classes, or of classes that these are made of.
    classes: tuple
    one: str
    several: str

    def holds(self, value):
        """Tell whether an object is of this kind."""
        return any(base.__name__ in self.classes for base in type(value).__mro__)


#: What is recognised, the more special before what it is made of.
_KINDS = (
    _Kind(
        ("EpochsTFR",),
        "Power is decoded by decode_epochs; for generalization, pass one frequency of "
        "its get_data() to generalize_arrays.",
        "Power is decoded by decode_epochs, one object at a time.",
    ),
    _Kind(
        ("EpochsSpectrum",),
        "A spectrum has no time axis. Pass its get_data() to decode_arrays, which "
        "decodes every frequency, or all its features to cross_validate.",
        "Spectra have no time axis. Pass their get_data(), joined by np.concatenate, "
        "to decode_arrays, which decodes every frequency.",
    ),
    _Kind(
        ("BaseEpochs",),
        "Epochs are decoded by decode_epochs and generalize_epochs; for one time "
        "alone, pass epochs.get_data()[:, :, i] to cross_validate.",
        "Epochs are decoded by decode_epochs and generalize_epochs. Join them with "
        "mne.concatenate_epochs first, or decode each by itself.",
    ),
    _Kind(
        ("_BaseSourceEstimate",),
        "A single source estimate is one trial or an average. Make one for every trial "
        "(mne.minimum_norm.apply_inverse_epochs), and use decode_sources(stcs, y).",
        "Source estimates, one per trial, are decoded by decode_sources(stcs, y). For "
        "generalize_arrays stack their data: X = np.stack([stc.data for stc in stcs]), "
        "tmin=stcs[0].tmin, sfreq=stcs[0].sfreq.",
    ),
    _Kind(
        ("Evoked", "AverageTFR", "Spectrum"),
        "An average has no single trials to decode. Pass the epochs it was made of to "
        "decode_epochs.",
        "If each counts as a trial, stack their data: X = np.stack([average.get_data() "
        "for average in averages]), and use decode_arrays(X, y, tmin=..., sfreq=...).",
    ),
    _Kind(
        ("BaseRaw", "RawTFR"),
        "A recording has no trials yet. Cut it with mne.Epochs(raw, events, event_id) "
        "first, and use decode_epochs.",
        "Recordings have no trials yet. Cut each with mne.Epochs(raw, events, "
        "event_id) first, join the epochs with mne.concatenate_epochs, and use "
        "decode_epochs.",
    ),
    _Kind(
        ("SpatialImage", "SurfaceImage"),
        "Images are decoded by searchlight and decode_regions.",
        "Images are decoded by searchlight and decode_regions.",
    ),
    _Kind(
        ("Result",),
        "Results of several subjects are for group_inference, two of one subject for "
        "compare.",
        "Results of several subjects are for group_inference, two of one subject for "
        "compare.",
    ),
)

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


def is_foreign(value):
    """Tell whether an object, or the first of a list, is data of another package."""
    return any(kind.holds(_first(value)) for kind in _KINDS)


def may_hold_numbers(value):
    """Tell whether something may be an array of numbers."""
    nothing = str | os.PathLike | dict | GeneratorType
    return not (is_foreign(value) or isinstance(_first(value), nothing))


def _first(value):
    """Return the first of a list, else the object itself."""
    return value[0] if isinstance(value, list | tuple) and value else value


def advice(value):
    """Return which function takes an object, as a sentence after a space, or ""."""
    found = _advice(value)
    return f" {found}" if found else ""


def _advice(value):
    """Return which function takes an object, "" if none is known."""
    first = _first(value)
    several = first is not value
    for kind in _KINDS:
        if kind.holds(first):
            return kind.several if several else kind.one
    if isinstance(first, str | os.PathLike):
        return _of_path(os.fspath(first).lower())
    if isinstance(first, np.ndarray):
        return _ARRAYS.get(first.ndim + several, "")
    if type(value).__name__ == "DataFrame":
        return _ARRAYS[2]
    if isinstance(value, GeneratorType):
        return "Make a list of what the generator yields: list(...)."
    if isinstance(value, dict) and value:
        return "Pass its values one by one, or as a list: list(values.values())."
    return ""


def _of_path(path):
    """Return what to do with a path."""
    for endings, words in _FILES.items():
        if path.endswith(endings):
            return words
    return "Read the file first, epochs with mne.read_epochs, arrays with np.load."
