"""Patterns in results, as MNE objects or brain images, and the channels they are of."""

from __future__ import annotations

import tempfile
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ..utils.checks import check_option
from ..utils.plain import as_call
from .fields import record

if TYPE_CHECKING:
    from mne import Info

_KINDS = ("class", "discriminant")

_AVERAGES = ("full", "folds")


@record
class PatternMaps:
    """A result that may hold activation patterns; comes before `SubjectResult`.

    Parameters
    ----------
    pattern_maps : dict of str -> array
        Activation patterns in the units of the data: "class", "class_folds" and
        "discriminant", see `patterns`. Empty unless the kernel is linear.
    """

    pattern_maps: dict[str, NDArray] = field(default_factory=dict)

    @property
    def has_patterns(self) -> bool:
        """Whether there are activation patterns."""
        return len(self.pattern_maps) > 0

    def _chosen_patterns(self, kind, average):
        """Maps of a kind (..., n_patterns, n_features), and their labels."""
        check_option("kind", kind, _KINDS)
        check_option("average", average, _AVERAGES)
        if (kind, average) == ("discriminant", "folds"):
            raise ValueError(
                "Each fold has its own discriminants, whose patterns cannot be "
                "averaged. Use kind='class' with average='folds', or average='full'."
            )
        if average == "folds" and self.tests_other_trials:
            raise ValueError(
                "There are no folds to average over: the models were trained on all "
                "trials, and tested on others. Use average='full'."
            )
        if self._no_places:
            raise ValueError(self._no_places)
        if not self.pattern_maps:
            kernel = as_call(self.parameters.get("kernel"))
            raise ValueError(
                "This result holds no activation patterns. They are computed for the "
                "trained classes, with kernel='linear', GraphSmooth or Penalty, or a "
                f"list of only these; its kernel is {kernel}. Run the analysis with "
                f"kernel='linear'{self._other_way}."
            )
        if kind == "discriminant" and kind not in self.pattern_maps:
            raise ValueError(
                "Each repeat has its own averages and hence its own discriminants, "
                "whose patterns cannot be averaged. Use kind='class', or n_repeats=1."
            )
        labels = list(map(str, self.classes))
        if kind == "discriminant":
            labels = [f"discriminant {i}" for i in range(1, len(self.classes))]
        return self.pattern_maps[kind if average == "full" else "class_folds"], labels

    #: Why there is nothing that patterns could be patterns of, or "".
    _no_places: ClassVar[str] = ""

    #: What else there is to do where there are no patterns.
    _other_way: ClassVar[str] = ""


@record
class PatternsMixin(PatternMaps):
    """A result that may hold activation patterns of channels.

    A subclass has the positions of its patterns in the fields that `pattern_axes`
    names: the times come last, frequencies may come before them.

    Parameters
    ----------
    pattern_maps : dict of str -> array, shape (n_times, n_patterns, n_channels)
        Activation patterns in the units of the channels: "class", "class_folds" and
        "discriminant", see `patterns`. Empty unless the kernel is linear.
    info_fif : array of uint8, or None
        Stored information on the channels; `info` unpacks it.
    """

    pattern_axes: ClassVar[tuple[str, ...]] = ("times",)
    _other_way: ClassVar[str] = (
        ", or take the patterns of the whole result instead of its diagonal"
    )

    info_fif: NDArray | None = None

    def __post_init__(self):
        """Normalize the arrays and check that their shapes belong together."""
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

        Raises a ValueError if the result comes from arrays.
        """
        if self.info_fif is None:
            raise ValueError(
                "This result has no channels: it was computed from arrays, or saved "
                "without them. Decode epochs, e.g. with decode_epochs, to keep them."
            )
        return unpack_info(self.info_fif)

    def patterns(
        self,
        kind: Literal["class", "discriminant"] = "class",
        *,
        average: Literal["full", "folds"] = "full",
    ) -> dict[str, Any]:
        """Return the activation patterns [1]_ as MNE-Python objects.

        Parameters
        ----------
        kind : {"class", "discriminant"}
            "class": how the signal of each class differs from the mean of all trials,
            as far as the model sees it. "discriminant": how the signal changes with
            the score of each discriminant, the most discriminant one first. A unit of
            the score is about the square root of n_trials within-class standard
            deviations, and its sign is free: the largest value of each map is positive.
        average : {"full", "folds"}
            The patterns of a model of all (training) trials, or the mean over the
            models of all folds, each fitted to its training trials ("class" only).

        Returns
        -------
        patterns : dict of str -> mne.EvokedArray
            One per class, by its label, or "discriminant 1" and so on. The data are in
            SI units of the channels (V for EEG, T for magnetometers, T/m for
            gradiometers), regardless of scaling in the analysis; the times are those of
            the result. For time-frequency maps the values are AverageTFRArrays, in the
            unit of the decoded power. `nave` is the number of trials.

        Raises
        ------
        ValueError
            If the result holds no patterns or no channels, if a name is unknown, or for
            "discriminant" if trials were regrouped (``n_repeats``).

        References
        ----------
        .. [1] Haufe, S., et al. (2014). On the interpretation of weight vectors of
           linear models in multivariate neuroimaging. NeuroImage, 87, 96-110.
        """
        maps, labels = self._chosen_patterns(kind, average)
        trained = self.y if self.train_rows is None else self.y[self.train_rows]
        counts = np.bincount(trained, minlength=len(labels)) // self.n_repeats
        if kind == "discriminant":
            counts = [sum(counts)] * len(labels)
        positions = [getattr(self, name) for name in self.pattern_axes]
        info = _at_rate_of(positions[-1], self.info)
        return {
            label: _average(maps[..., i, :].T, info, positions, label, int(counts[i]))
            for i, label in enumerate(labels)
        }

    @property
    def _no_places(self):
        """Why there is nothing that patterns could be patterns of, or ""."""
        if self.info_fif is not None:
            return ""
        return (
            "This result holds no activation patterns: it was computed from "
            "arrays, and patterns belong to channels. Use the functions for "
            "epochs, such as decode_epochs or generalize_epochs."
        )


@record
class RegionPatternsMixin(PatternMaps):
    """A result that may hold activation patterns of voxels, separately for each region.

    Parameters
    ----------
    pattern_maps : dict of str -> array, shape (M, n_patterns)
        Activation patterns in the units of the data, of the M `pattern_features`:
        "class", "class_folds" and "discriminant", see `patterns`. Empty for
        searchlights and unless the kernel is linear.
    pattern_features : array of int, shape (M,)
        The voxels, vertices or features decoded in each region, concatenated
        (`n_features` per region): positions in ``geometry.base``. Empty for
        searchlights and unless the kernel is linear.
    """

    pattern_features: NDArray = field(default_factory=lambda: np.empty(0, int))

    def __post_init__(self):
        """Normalize the arrays and check that their shapes belong together."""
        features = np.asarray(self.pattern_features)
        features = features if features.size else np.empty(0, int)
        object.__setattr__(self, "pattern_features", features)
        super().__post_init__()
        self._check_patterns()

    def _check_patterns(self):
        """Raise a ValueError unless patterns belong to the features of the regions."""
        features, n = self.pattern_features, int(np.sum(self.n_features))
        if len(features) == 0 and not self.pattern_maps:
            return
        shapes = {name: maps.shape for name, maps in self.pattern_maps.items()}
        right = all(len(shape) == 2 and shape[0] == n for shape in shapes.values())
        inside = features.dtype.kind in "iu" and features.shape == (n,)
        if inside and n:
            last = self.geometry.base.n_positions - 1
            inside = 0 <= features.min() and features.max() <= last
        if not (right and inside):
            raise ValueError(
                f"Patterns need one row for each of the {n} features of all regions, "
                "and pattern_features the position of each; got patterns of shapes "
                f"{shapes} and pattern_features of shape {features.shape}, dtype "
                f"{features.dtype}."
            )

    def patterns(
        self,
        kind: Literal["class", "discriminant"] = "class",
        *,
        average: Literal["full", "folds"] = "full",
        region: str | int | None = None,
    ) -> dict[str, Any]:
        """Return the activation patterns [1]_ of regions as brain images.

        Each region has its own models and hence its own patterns. Patterns have no
        p-values: interpret them only in regions whose score is above chance.

        Parameters
        ----------
        kind : {"class", "discriminant"}
            "class": how the signal of each class differs from the mean of all trials,
            as far as the model sees it. "discriminant": how the signal changes with
            the score of each discriminant, the most discriminant one first. A unit of
            the score is about the square root of n_trials within-class standard
            deviations, and its sign is free: the largest value of each region's map is
            positive.
        average : {"full", "folds"}
            The patterns of a model of all (training) trials, or the mean over the
            models of all folds, each fitted to its training trials ("class" only).
        region : str, int or None
            One region, by its name or its number in the atlas; None: all of them.

        Returns
        -------
        patterns : dict of str -> image or pandas.Series
            One per class, by its label, or "discriminant 1" and so on:
            nibabel.Nifti1Image or nilearn.surface.SurfaceImage, in single precision, 0
            outside the regions and NaN where no pattern is requested or voxels were
            left out. For arrays, a Series indexed by column names (or column numbers as
            text). The unit is that of the images: scaling by z-scoring is undone, group
            by group. The group means removed by z-scoring are not part of a pattern,
            since models do not use them.

        Raises
        ------
        ValueError
            If the result holds no patterns, if a name is unknown, or for "discriminant"
            if trials were regrouped (``n_repeats``).

        References
        ----------
        .. [1] Haufe, S., et al. (2014). On the interpretation of weight vectors of
           linear models in multivariate neuroimaging. NeuroImage, 87, 96-110.
        """
        labels, maps = self.pattern_values(kind, average, region)
        columns, space = zip(labels, maps.T, strict=True), self.geometry.base
        if space.kind != "features":
            return {label: space.to_img(x, name=label) for label, x in columns}
        import pandas as pd  # slow to import, and only tables need it

        names = space.columns()["feature"].astype(str)
        return {label: pd.Series(values, index=names) for label, values in columns}

    def pattern_values(self, kind: str, average: str, region: Any) -> NDArray:
        """Return labels, and patterns (base positions, n_patterns), NaN where none.

        Parameters
        ----------
        kind : str
            Kind of the patterns.
        average : str
            How patterns of folds are combined.
        region : int, str, or None
            The region whose patterns are returned.

        Returns
        -------
        values : array
            The patterns.
        """
        maps, labels = self._chosen_patterns(kind, average)
        features = self.pattern_features
        rows = slice(None)
        if region is not None:
            of = np.repeat(np.arange(len(self.n_features)), self.n_features)
            rows = of == self._position_of(region)
        values = np.full((self.geometry.base.n_positions, maps.shape[1]), np.nan)
        values[features[rows]] = maps[rows]
        return labels, values

    @property
    def _no_places(self):
        """Why there are no patterns of positions, or ""."""
        if self.geometry.kind == "regions":
            return ""
        return (
            "Searchlights hold no activation patterns, which would be one image "
            "for every centre. Use decode_regions, with an atlas or with "
            "labels_img=None for all voxels of the mask together."
        )


def _at_rate_of(times, info):
    """The info with the sampling rate of evenly spaced times."""
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
    """An `mne.Info` without personal data as the bytes of a FIF file."""
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
    """The `mne.Info` that `pack_info` packed."""
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
