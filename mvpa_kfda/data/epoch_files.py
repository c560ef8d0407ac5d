"""Files of epochs, by the endings of their names: MNE-Python's, EEGLAB's, FieldTrip's.

All of them are read by MNE-Python.
"""

from pathlib import Path

import h5py
import mne
from scipy.io import whosmat

from ..utils.checks import quoted

#: What MNE-Python reads newer files of MATLAB with.
_MATLAB_READER = "pymatreader"


def read_epochs_file(path):
    """Return the epochs of a file, with one kind of error for all that is wrong."""
    path = Path(path)
    try:
        return READERS.get(path.suffix, _read_fif)(path)
    except Exception as error:  # a reader of foreign bytes fails in many ways
        raise ValueError(f"{path} {_word(error)}") from error


def _word(error):
    """Word why a file cannot be read, behind its name."""
    text = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    # SciPy, which MNE-Python uses without it for EEGLAB, reads no files of version 7.3.
    if _MATLAB_READER in text or isinstance(error, NotImplementedError):
        return (
            f"cannot be read without the package {_MATLAB_READER}. Install it (pip "
            f"install {_MATLAB_READER}), or save the epochs by mne.Epochs.save "
            "(-epo.fif)."
        )
    if "read_raw_eeglab" in text:
        return (
            "holds no epochs, or only one: for EEGLAB it is a continuous recording. "
            "Cut it into epochs first, by Tools > Extract epochs in EEGLAB or by "
            "mne.Epochs."
        )
    return (
        f"is not a file of epochs that MNE-Python can read ({text}). Use epochs saved "
        "by mne.Epochs.save (-epo.fif), EEGLAB epochs (.set) or FieldTrip data (.mat)."
    )


def _read_fif(path):
    """Read epochs as MNE-Python saves them."""
    return mne.read_epochs(path, verbose="error")


def _read_eeglab(path):
    """Read epochs of EEGLAB; channels named EOG or EYE are none of the brain."""
    return mne.read_epochs_eeglab(path, eog="auto", verbose="error")


def _read_fieldtrip(path):
    """Read the data structure of FieldTrip, whose columns of trialinfo are numbered."""
    names = _variables(path)
    if len(names) > 1 and "data" not in names:
        raise ValueError(f"it holds several variables, {quoted(names, 5)}; save one")
    name = "data" if "data" in names else names[0]
    with mne.use_log_level("error"):
        epochs = mne.read_epochs_fieldtrip(path, info=None, data_name=name)
        if epochs.metadata is not None:
            epochs.metadata = epochs.metadata.rename(columns=str)
    return epochs


def _variables(path):
    """Return the names of the variables in a file of MATLAB's."""
    if not h5py.is_hdf5(path):
        return [name for name, *_ in whosmat(path)]
    with h5py.File(path, "r") as file:
        return [name for name in file if not name.startswith("#")]


#: Endings -> readers; everything else is read as MNE-Python's own.
READERS = {".set": _read_eeglab, ".mat": _read_fieldtrip}
