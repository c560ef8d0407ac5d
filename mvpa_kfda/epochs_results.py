"""Results of decoding epochs: over time, and over frequencies or sensors as well.

Results are frozen objects that hold everything needed to redo the analysis.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from . import map_plots
from ._plotted import OverTime
from ._results.base import _Result
from ._results.places import sensor_time_adjacency
from ._results.sensors import WithPatterns, unpack_info


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class TimeResult(OverTime, WithPatterns, _Result):
    """Decoding at every time point, see `decode_epochs`.

    Parameters
    ----------
    times : array, shape (n_times,)
        Time points in seconds.
    metrics : dict of str -> array, shape (n_times,)
        Name -> score of the observed labels. The confusion matrix is (n_times, c, c):
        true classes in rows, predicted ones in columns.
    nulls : dict of str -> array, shape (P, n_times)
        Name -> scores under permuted labels.
    chances : dict of str -> float
        Name -> chance level, NaN where there is none.
    classes : array, shape (c,)
        The labels of the classes.
    y : array of int, shape (n,)
        Class of every trial, an index into `classes`.
    groups : array, shape (n,), or None
        Group of every trial.
    predicted : array of int, shape (n_times, n)
        Predicted class of every trial, an index into `classes`; -1 for a trial that
        was in no test set.
    tests : tuple of arrays of int
        Row indices of every test set.
    parameters : dict
        The arguments of the analysis.
    versions : dict of str -> str
        Versions of the packages that made the result.
    penalty : dict of str -> float or array
        What was recorded of the penalties: "lambda" and "degrees_of_freedom", and where
        they were tuned "kernel", "grid", "scale" and "criterion"; see `lambdas`.
    members : array of int, shape (n, k), or None
        The trials that were averaged, where pseudo-trials take the place of trials.
    pattern_maps : dict of str -> array, shape (n_times, n_patterns, n_channels)
        Activation patterns in the channels' own units: "class", "class_folds" and
        "discriminant", see `patterns`. Empty unless the kernel is linear.
    info_fif : array of uint8, or None
        What is kept of the channels; `info` unpacks it.

    Examples
    --------
    >>> import mne
    >>> import numpy as np
    >>> from mvpa_kfda import decode_epochs
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(["face", "house"], 10)
    >>> data = rng.normal(size=(20, 4, 6))  # trials, channels, times
    >>> data[y == "house", :, 3:] += 2
    >>> info = mne.create_info(4, sfreq=100.0, ch_types="eeg")
    >>> epochs = mne.EpochsArray(data * 1e-6, info, tmin=-0.03, verbose=False)
    >>> result = decode_epochs(epochs, y, cv=5, n_permutations=99, random_state=0)
    >>> result.scores.shape
    (6,)
    >>> result.times[result.pvalues("max") <= 0.05]
    array([0.  , 0.01, 0.02])
    >>> sorted(result.patterns())  # kernel="linear" is the default
    ['face', 'house']
    """

    axes: ClassVar[dict] = {"times": "time"}

    times: np.ndarray


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class TimeFrequencyResult(WithPatterns, _Result):
    """Decoding of power at every frequency and time, see `decode_epochs`.

    Parameters
    ----------
    freqs : array, shape (n_freqs,)
        Frequencies in Hz.
    times : array, shape (n_times,)
        Time points in seconds.
    metrics : dict of str -> array, shape (n_freqs, n_times)
        Name -> score of the observed labels. The confusion matrix is
        (n_freqs, n_times, c, c): true classes in rows, predicted ones in columns.
    nulls : dict of str -> array, shape (P, n_freqs, n_times)
        Name -> scores under permuted labels.
    chances : dict of str -> float
        Name -> chance level, NaN where there is none.
    classes : array, shape (c,)
        The labels of the classes.
    y : array of int, shape (n,)
        Class of every trial, an index into `classes`.
    groups : array, shape (n,), or None
        Group of every trial.
    predicted : array of int, shape (n_freqs, n_times, n)
        Predicted class of every trial, an index into `classes`; -1 for a trial that
        was in no test set.
    tests : tuple of arrays of int
        Row indices of every test set.
    parameters : dict
        The arguments of the analysis.
    versions : dict of str -> str
        Versions of the packages that made the result.
    penalty : dict of str -> float or array
        What was recorded of the penalties: "lambda" and "degrees_of_freedom", and where
        they were tuned "kernel", "grid", "scale" and "criterion"; see `lambdas`.
    members : array of int, shape (n, k), or None
        The trials that were averaged, where pseudo-trials take the place of trials.
    pattern_maps : dict of str -> array, shape (n_freqs, n_times, m, n_channels)
        Activation patterns in units of the power, see `patterns`; empty unless the
        kernel is linear.
    info_fif : array of uint8, shape (n_bytes,), or None
        The channels, as a file of MNE-Python; see `info`.

    Examples
    --------
    >>> import mne
    >>> import numpy as np
    >>> from mvpa_kfda import decode_epochs
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(["face", "house"], 10)
    >>> power = rng.chisquare(4, size=(20, 4, 2, 5))  # trials, channels, freqs, times
    >>> power[y == "house", :, 1, 3:] *= 20
    >>> tfr = mne.time_frequency.EpochsTFRArray(
    ...     mne.create_info(4, sfreq=100.0, ch_types="eeg"),
    ...     power,
    ...     times=np.arange(-2, 3) / 100,
    ...     freqs=[10.0, 40.0],
    ... )
    >>> result = decode_epochs(tfr, y, cv=5, n_permutations=99, random_state=0)
    >>> (result.pvalues("max") <= 0.05).astype(int)
    array([[0, 0, 0, 0, 0],
           [0, 0, 0, 1, 1]])
    """

    axes: ClassVar[dict] = {"freqs": "freq", "times": "time"}
    pattern_axes: ClassVar[tuple] = ("freqs", "times")

    freqs: np.ndarray
    times: np.ndarray

    def plot(
        self,
        *,
        metric=None,
        correction="max",
        alpha=0.05,
        vlim=None,
        cmap=None,
        ax=None,
        show=False,
    ):
        """Plot the map, frequencies upwards and times to the right.

        Parameters
        ----------
        metric : str or None
            Name of the metric; None takes the first.
        correction : str
            Correction of the p-values for testing many cells.
        alpha : float
            Areas with p <= alpha are outlined.
        vlim : tuple of float or None
            Ends of the color scale; None makes it symmetric about chance.
        cmap : str or None
            A color map of matplotlib.
        ax : matplotlib Axes or None
            Where to draw, best in a figure with ``layout="constrained"``; None makes a
            figure.
        show : bool
            Show the figure at once.

        Returns
        -------
        ax : matplotlib Axes
        """
        return map_plots.plot_time_frequency(
            self,
            metric=metric,
            correction=correction,
            alpha=alpha,
            vlim=vlim,
            cmap=cmap,
            ax=ax,
            show=show,
        )


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class SensorTimeResult(_Result):
    """Decoding of every sensor's neighbourhood at every time, see `decode_epochs`.

    Parameters
    ----------
    ch_names : array of str, shape (n_sensors,)
        The sensors in the middle of the neighbourhoods.
    times : array, shape (n_times,)
        Time points in seconds.
    adjacency : array of int, shape (2, n_pairs)
        Pairs of neighbouring sensors, each once, as indices into `ch_names`. A
        neighbourhood is a sensor and all its neighbours.
    info_fif : array of uint8, shape (n_bytes,)
        The sensors' types and positions, as a file of MNE-Python; see `info`.
    metrics : dict of str -> array, shape (n_sensors, n_times)
        Name -> score of the observed labels. The confusion matrix is
        (n_sensors, n_times, c, c): true classes in rows, predicted ones in columns.
    nulls : dict of str -> array, shape (P, n_sensors, n_times)
        Name -> scores under permuted labels.
    chances : dict of str -> float
        Name -> chance level, NaN where there is none.
    classes : array, shape (c,)
        The labels of the classes.
    y : array of int, shape (n,)
        Class of every trial, an index into `classes`.
    groups : array, shape (n,), or None
        Group of every trial.
    predicted : array of int, shape (n_sensors, n_times, n)
        Predicted class of every trial, an index into `classes`; -1 for a trial that
        was in no test set.
    tests : tuple of arrays of int
        Row indices of every test set.
    parameters : dict
        The arguments of the analysis.
    versions : dict of str -> str
        Versions of the packages that made the result.
    penalty : dict of str -> float or array
        What was recorded of the penalties: "lambda" and "degrees_of_freedom", and where
        they were tuned "kernel", "grid", "scale" and "criterion"; see `lambdas`.
    members : array of int, shape (n, k), or None
        The trials that were averaged, where pseudo-trials take the place of trials.

    Examples
    --------
    >>> import mne
    >>> import numpy as np
    >>> from mvpa_kfda import decode_epochs
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(["face", "house"], 10)
    >>> data = rng.normal(size=(20, 4, 6))  # trials, channels, times
    >>> data[y == "house", 0, 4:] += 5
    >>> info = mne.create_info(["O1", "O2", "F3", "F4"], sfreq=100.0, ch_types="eeg")
    >>> epochs = mne.EpochsArray(data * 1e-6, info, tmin=-0.03, verbose=False)
    >>> pairs = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]])
    >>> result = decode_epochs(
    ...     epochs, y, sensors=pairs, cv=5, n_permutations=99, random_state=0
    ... )
    >>> (result.pvalues("cluster") <= 0.05).astype(int)
    array([[0, 0, 0, 0, 1, 1],
           [0, 0, 0, 0, 1, 1],
           [0, 0, 0, 0, 0, 0],
           [0, 0, 0, 0, 0, 0]])
    """

    axes: ClassVar[dict] = {"ch_names": "sensor", "times": "time"}

    ch_names: np.ndarray
    times: np.ndarray
    adjacency: np.ndarray
    info_fif: np.ndarray

    def __post_init__(self):
        """Normalize the arrays and check that their shapes belong together."""
        for name in ("adjacency", "info_fif"):
            object.__setattr__(self, name, np.asarray(getattr(self, name)))
        super().__post_init__()
        pairs, n_sensors = self.adjacency, len(self.ch_names)
        known = pairs.dtype.kind in "iu" and np.isin(pairs, np.arange(n_sensors)).all()
        if pairs.ndim != 2 or len(pairs) != 2 or not known:
            raise ValueError(
                "adjacency must have shape (2, n_pairs) and hold indices of the "
                f"{n_sensors} sensors; got shape {pairs.shape}, dtype {pairs.dtype}."
            )

    @property
    def info(self):
        """The sensors' types and positions, an `mne.Info`."""
        return unpack_info(self.info_fif)

    def _adjacency(self):
        """Return which positions are neighbours: in space, or one step in time."""
        return sensor_time_adjacency(self.adjacency, *self.shape)

    def plot(
        self,
        *,
        times=None,
        metric=None,
        correction="max",
        alpha=0.05,
        vlim=None,
        cmap=None,
        show=False,
    ):
        """Plot the map, with the sensors on the head at some times.

        Parameters
        ----------
        times : float, sequence of float, or None
            Times of the heads in seconds; None chooses them.
        metric : str or None
            Name of the metric; None takes the first.
        correction : str
            Correction of the p-values for testing many sensors and times.
        alpha : float
            Sensors and times with p <= alpha are marked.
        vlim : tuple of float or None
            Ends of the color scale; None makes it symmetric about chance.
        cmap : str or None
            A color map of matplotlib.
        show : bool
            Show the figure at once.

        Returns
        -------
        figure : matplotlib Figure
        """
        return map_plots.plot_sensors(
            self,
            times=times,
            metric=metric,
            correction=correction,
            alpha=alpha,
            vlim=vlim,
            cmap=cmap,
            show=show,
        )
