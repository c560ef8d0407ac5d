"""Channels in results: what is kept of an mne.Info, and patterns as MNE objects."""

from __future__ import annotations

import tempfile
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ..utils.checks import check_option
from .kinds import record

if TYPE_CHECKING:
    from mne import Info

_KINDS = ("class", "discriminant")

_AVERAGES = ("full", "folds")


@record
class PatternsMixin:
    """A result that may hold activation patterns; comes before `SubjectResult`.

    A subclass has the positions of its patterns in the fields that `pattern_axes`
    names: the times come last, frequencies may come before them.

    Parameters
    ----------
    pattern_maps : dict of str -> array, shape (n_times, n_patterns, n_channels)
        Activation patterns in the channels' own units: "class", "class_folds" and
        "discriminant", see `patterns`. Empty unless the kernel is linear.
    info_fif : array of uint8, or None
        What is kept of the channels; `info` unpacks it.
    """

    pattern_axes: ClassVar[tuple[str, ...]] = ("times",)

    pattern_maps: dict[str, NDArray] = field(default_factory=dict)
    info_fif: NDArray | None = None

    def __post_init__(self):
        """Normalize the arrays and check that their shapes belong together."""
        self._convert(
            lambda maps: {kind: np.asarray(values) for kind, values in maps.items()},
            "pattern_maps",
        )
        if self.info_fif is not None:
            self._convert(np.asarray, "info_fif")
        super().__post_init__()
        shape = tuple(len(getattr(self, name)) for name in self.pattern_axes)
        for name, maps in self.pattern_maps.items():
            if maps.ndim != len(shape) + 2 or maps.shape[: len(shape)] != shape:
                raise ValueError(
                    f"The patterns {name!r} at positions {shape} must have shape "
                    f"({', '.join(map(str, shape))}, n_patterns, n_channels); got "
                    f"{maps.shape}."
                )

    @property
    def info(self) -> Info:
        """The channels, an mne.Info without personal data.

        A ValueError if the result comes from arrays.
        """
        if self.info_fif is None:
            raise ValueError(
                "This result knows no channels: it was computed from arrays, or saved "
                "without them. Decode epochs, e.g. with decode_epochs, to keep them."
            )
        return unpack_info(self.info_fif)

    def patterns(
        self,
        kind: Literal["class", "discriminant"] = "class",
        *,
        average: Literal["full", "folds"] = "full",
    ) -> dict[str, Any]:
        """Return the activation patterns [1]_ as averages that MNE-Python can plot.

        Parameters
        ----------
        kind : {"class", "discriminant"}
            "class": how the signal of each class differs from the mean of all trials,
            as far as the model sees it. "discriminant": how the signal changes with
            the score of each discriminant, the most discriminant one first. A unit of
            the score is about the square root of n_trials within-class standard
            deviations, and its sign is free: the largest value of each map is positive.
        average : {"full", "folds"}
            The patterns of the model of all trials (of all that are trained with), or
            the mean over the models of all folds, each on its training trials ("class"
            only).

        Returns
        -------
        patterns : dict of str -> mne.EvokedArray
            One per class, by its label, or "discriminant 1" and so on. The data are in
            the channels' own SI units (V for EEG, T for magnetometers, T/m for
            gradiometers), whatever the analysis was scaled by; the times are those of
            the result. For time-frequency maps the values are AverageTFRArrays, in the
            unit of the power that was decoded. `nave` is the number of trials.

        Raises
        ------
        ValueError
            If the result holds no patterns or no channels, if a name is unknown, or for
            "discriminant" if trials were grouped anew (``n_repeats``).

        References
        ----------
        .. [1] Haufe, S., et al. (2014). On the interpretation of weight vectors of
           linear models in multivariate neuroimaging. NeuroImage, 87, 96-110.
        """
        maps, labels, counts = self._chosen_patterns(kind, average)
        positions = [getattr(self, name) for name in self.pattern_axes]
        info = _at_rate_of(positions[-1], self.info)
        return {
            label: _average(maps[..., i, :].T, info, positions, label, int(counts[i]))
            for i, label in enumerate(labels)
        }

    def _chosen_patterns(self, kind, average):
        """Return maps (..., n_patterns, n_channels), their labels, and trial counts."""
        check_option("kind", kind, _KINDS)
        check_option("average", average, _AVERAGES)
        if (kind, average) == ("discriminant", "folds"):
            raise ValueError(
                "Every fold has discriminants of its own, whose patterns cannot be "
                "averaged. Use kind='class' with average='folds', or average='full'."
            )
        if average == "folds" and self.parameters.get("mode") == "other_trials":
            raise ValueError(
                "There are no folds to average over: the models were trained on all "
                "trials, and tested on others. Use average='full'."
            )
        maps = self._kept_patterns()
        if kind == "discriminant" and kind not in maps:
            raise ValueError(
                "Every repeat has averages of its own and so its own discriminants, "
                "whose patterns cannot be averaged. Use kind='class', or n_repeats=1."
            )
        maps = maps[kind if average == "full" else "class_folds"]
        labels = list(map(str, self.classes))
        trained = self.y if self._chosen is None else self.y[self._chosen]
        counts = np.bincount(trained, minlength=len(labels)) // self._n_repeats
        if kind == "discriminant":
            labels = [f"discriminant {i + 1}" for i in range(maps.shape[-2])]
            counts = [sum(counts)] * len(labels)
        return maps, labels, counts

    @property
    def _has_places(self):
        """Whether it is known what patterns are patterns of."""
        return self.info_fif is not None

    def _kept_patterns(self):
        """Return the maps by kind, or say why there are none."""
        if not self._has_places:
            raise ValueError(
                "This result holds no activation patterns: it was computed from "
                "arrays, and patterns belong to channels. Use the functions for "
                "epochs, such as decode_epochs or generalize_epochs."
            )
        if not self.pattern_maps:
            kernel = self.parameters.get("kernel", "unknown")
            raise ValueError(
                "This result holds no activation patterns. They are computed for the "
                "trained classes, with kernel='linear', GraphSmooth or Penalty, or a "
                f"list of only these; its kernel is {kernel}. Run the analysis with "
                "kernel='linear', or take the patterns of the whole result instead of "
                "its diagonal."
            )
        return self.pattern_maps


def _at_rate_of(times, info):
    """Return the info with the sampling rate of evenly spaced times."""
    import mne

    steps = np.diff(times)
    if len(steps) == 0 or not np.allclose(steps, steps[0], rtol=1e-3, atol=0):
        return info
    # The rate of an info is not to be set by hand; resampling a stand-in sets it.
    n_samples = int(np.ceil(info["sfreq"] * steps[0])) + 1
    stand_in = mne.EvokedArray(np.zeros((len(info["ch_names"]), n_samples)), info)
    return stand_in.resample(round(1 / steps.mean(), 9), verbose=False).info


def _average(data, info, positions, comment, nave):
    """Return data (n_channels, n_times) or (n_channels, n_times, n_freqs) for MNE."""
    import mne

    if len(positions) == 2:
        freqs, times = positions
        return mne.time_frequency.AverageTFRArray(
            info, data.transpose(0, 2, 1), times, freqs, nave=nave, comment=comment
        )
    (times,) = positions
    evoked = mne.EvokedArray(data, info, comment=comment, nave=nave, verbose=False)
    # Given at once, a first time between samples would be rounded.
    return evoked.shift_time(times[0], relative=False)


#: Where a FIF file names the machine that wrote it: its first entry is the file's
#: identity, 16 bytes of heading, 4 of the format's version, then 8 of the machine.
_MACHINE = slice(20, 28)


def pack_info(info):
    """Return an `mne.Info` without personal data as the bytes of a FIF file."""
    import mne  # slow to import, as in all functions of this module

    # Names, types, positions and bad channels stay; dates, persons, devices, places and
    # the machine that runs this go. Equal infos give equal bytes, 10 to 50 kB.

    with mne.use_log_level("ERROR"), tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kept-info.fif"
        mne.io.write_info(path, info.copy().anonymize())
        packed = np.fromfile(path, np.uint8)
    packed[_MACHINE] = 0
    return packed


def unpack_info(packed):
    """Return the `mne.Info` that `pack_info` packed."""
    import mne

    with mne.use_log_level("ERROR"), tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kept-info.fif"
        np.asarray(packed, np.uint8).tofile(path)
        try:
            return mne.io.read_info(path)
        # What broken bytes make of MNE-Python's reader.
        except Exception as error:
            raise ValueError(
                "The channel information of this result is damaged; take the result "
                f"from a backup or run the analysis again ({error})."
            ) from error
