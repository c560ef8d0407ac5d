"""One image per trial from BOLD runs: models of single trials, as nilearn makes them.

Haemodynamic responses, drifts and maskers are nilearn's, as its FirstLevelModel has
them. Estimates of least squares are linear in the data, so for every run there is one
matrix (n_trials, n_scans) that gives those of all trials, also where each has a model
of its own: the model of trial t holds the trial x_t, the sum of all others, and what is
of no interest, Z. Take Z out of everything. The model spans what x_t spans with the sum
S of all trials, which all trials of the run have in common. With P = pinv(S) and the
residual r_t = x_t - S P x_t, the estimate of the trial is

    b_t = P y + (1 - P x_t) (r_t y) / (r_t r_t).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from os import PathLike
from typing import TYPE_CHECKING, Literal
from warnings import catch_warnings, simplefilter

import numpy as np
import pandas as pd
from nilearn.glm import first_level
from numpy.typing import NDArray

from ..utils.checks import (
    Precision,
    check_count,
    check_dtype,
    check_option,
    check_positive,
    counted,
    invalid,
    plural,
    quoted,
    some_of,
    warn,
)
from ..utils.memory import check_memory
from ..utils.plain import recorded
from ..utils.progress import Progress
from . import bold
from .images import Betas
from .volumes import SCORED_AT_ONCE, listed, nilearn_warnings, usable_columns

if TYPE_CHECKING:
    from nibabel.cifti2 import Cifti2Image
    from nibabel.spatialimages import SpatialImage
    from nilearn.surface import SurfaceImage
    from pandas import DataFrame
    from sklearn.base import TransformerMixin

    Run = SpatialImage | SurfaceImage | Cifti2Image | str | PathLike[str]
    Events = DataFrame | str | PathLike[str]
    Regressors = DataFrame | NDArray | str | PathLike[str]
    Response = str | Callable | Sequence[Callable] | None

METHODS = ("lss", "lsa")
NOISE_MODELS = ("ols", "ar1")
DRIFT_MODELS = ("cosine", "polynomial", None)
_PARTS = ("hrf", "time_derivative", "dispersion_derivative")
#: Haemodynamic responses of one regressor and more -> nilearn's function for each.
HRF_MODELS = {
    name + ending: tuple(getattr(first_level, f"{name}_{x}") for x in _PARTS[: n + 1])
    for name in ("glover", "spm")
    for n, ending in enumerate(("", " + derivative", " + derivative + dispersion"))
}

#: A wider kernel smooths everything away, and takes long.
_WIDEST = 100
#: Seconds before a run from which on nilearn takes events in.
_MIN_ONSET = -24
#: Seconds that a response lasts.
RESPONSE = 32.0
#: The share of a response that has to be within the run, lest there is a warning.
_SEEN = 0.5
#: A regressor of which less is left, relative to its length, when all others are taken
#: out is one of their sums.
_SINGULAR = 1e-6
#: A column of no interest is zero if it is shorter than this part of the longest one.
_ZERO = 1e-12
#: What trials are called that have a regressor together.
_OTHER_TRIALS = "other trials"
#: What may be odd about voxels.
_ODD = (
    "hold NaN or infinite values, and so do their estimates",
    "are constant in some run, where their estimates are 0",
    "have a mean below 1, of which percent make no sense: they are taken times 100 "
    "instead, as nilearn does (or use signal_scaling=False)",
)


# --------------------------------------------------------------------- what is given


def _check_options(options):
    """Check what does not need the images, and return it as it is used."""
    check_option("method", options["method"], METHODS)
    check_option("noise_model", options["noise_model"], NOISE_MODELS)
    check_option("drift_model", options["drift_model"], DRIFT_MODELS)
    options["high_pass"] = check_positive("high_pass", options["high_pass"], " In Hz.")
    options["drift_order"] = check_count("drift_order", options["drift_order"])
    for name in ("t_r", "smoothing_fwhm"):
        if options[name] is not None:
            options[name] = check_positive(name, options[name])
    names = "smoothing_fwhm", "signal_scaling", "slice_time_ref"
    width, scaling, share = map(options.get, names)
    if width is not None and width > _WIDEST:
        allowed = f"None, or up to {_WIDEST} mm; wider kernels leave no pattern"
        raise invalid("smoothing_fwhm", width, allowed)
    if scaling is not False and not (bold.is_number(scaling) and scaling == 0):
        allowed = "0 for percent of each voxel's mean over its run, False for raw units"
        raise invalid("signal_scaling", scaling, allowed)
    if share is not None and not (bold.is_number(share) and 0 <= share <= 1):
        allowed = "from 0 to 1, a fraction of t_r, or None for that in the .json files"
        raise invalid("slice_time_ref", share, allowed)


def _find_kernels(hrf_model):
    """The responses of a trial one by one, that of its estimate first."""
    if isinstance(hrf_model, str):
        check_option("hrf_model", hrf_model, HRF_MODELS, ["None", "a function"])
        return HRF_MODELS[hrf_model]
    kernels = hrf_model if isinstance(hrf_model, list | tuple) else [hrf_model]
    if hrf_model is None or (kernels and all(map(callable, kernels))):
        return tuple(kernels)
    functions = "a function(t_r, oversampling) or a list, the first to be estimated"
    allowed = f"{quoted(HRF_MODELS)}, None, {functions}"
    raise invalid("hrf_model", hrf_model, allowed, TypeError)


# ---------------------------------------------------------------------------- designs


@dataclass(frozen=True, eq=False)
class _Run:
    """What a run is modelled by."""

    #: What it is called in messages.
    name: str
    #: When scans were taken, in seconds, (n_all_scans,).
    frame_times: np.ndarray
    #: The scans that are not left out.
    kept: np.ndarray | slice
    #: All events that are modelled, in the order of their onsets; types are texts.
    events: pd.DataFrame
    #: Which of them are trials of interest, (n_events,).
    is_trial: np.ndarray
    #: Regressors that are given, (n_all_scans, n_confounds), or None.
    confounds: pd.DataFrame | None
    #: The responses of a trial one by one.
    kernels: tuple

    @property
    def trials(self):
        """The events that are trials of interest."""
        return self.events[self.is_trial]

    @property
    def trial_names(self):
        """A name for every trial, by its type and number within it."""
        types = self.trials["trial_type"]
        numbers = types.groupby(types, sort=False).cumcount() + 1
        return [f"{kind}__{n:03d}" for kind, n in zip(types, numbers, strict=True)]

    @property
    def n_kept(self):
        """The number of scans that are not left out."""
        return len(self.frame_times[self.kept])

    def label(self, number):
        """Word a trial, by its place among the trials."""
        trial = self.trials.iloc[number]
        return f"{trial['trial_type']!r} at {trial['onset']:g} s of {self.name}"

    def check_counts(self, n_trials, n_others):
        """Refuse more regressors of trials and of no interest than there are scans."""
        if n_trials + n_others > self.n_kept:
            raise ValueError(
                f"{self.name}: the model has {n_trials:,} regressors of trials and "
                f"{n_others:,} of no interest, but there are {self.n_kept} scans. Use "
                "method='lss', a simpler hrf_model, or fewer confounds or other events."
            )


def _open_designs(lengths, tables, is_trial, of_scans, kernels, options):
    """The `_Run` of every run, before anything is computed."""
    runs, t_r, share = [], options["t_r"], options["slice_time_ref"]
    high_pass, most = options["high_pass"], 0.5 / t_r
    if options["drift_model"] == "cosine" and high_pass >= most:
        allowed = f"less than {most:g} Hz, half the rate of the scans, e.g. 0.01"
        raise invalid("high_pass", high_pass, allowed)
    for i, (n, name) in enumerate(zip(lengths, bold.name_runs(tables), strict=True)):
        run = _Run(
            name=f"run {name}" if len(lengths) > 1 else "the run",
            frame_times=np.linspace(share * t_r, (n - 1 + share) * t_r, n),
            confounds=bold.read_bold_confounds(*of_scans["confounds"][i], n),
            kept=bold.read_sample_mask(*of_scans["sample_masks"][i], n),
            events=tables[i].assign(trial_type=tables[i]["trial_type"].astype(str)),
            is_trial=is_trial[i],
            kernels=kernels,
        )
        bold.check_trials(run.trials, run.name, n * t_r)
        bold.check_lasting(run.events, run.name, n * t_r)
        k, others = len(kernels), run.events.loc[~run.is_trial, "trial_type"]
        run.check_counts(1, k * others.nunique())
        run.check_counts(k * (len(run.trials) if options["method"] == "lsa" else 1), 1)
        runs.append(run)
    bold.warn_of_drifts_twice([run.confounds for run in runs], options["drift_model"])
    return runs


def _regressors(trials, kernels, frame_times):
    """What nilearn makes of each trial and response, (n_trials, n_scans, k)."""
    X = np.empty((len(trials), len(kernels), len(frame_times)))
    for i, trial in enumerate(trials.itertuples()):
        event = [trial.onset], [trial.duration], [1.0]
        for j, kernel in enumerate(kernels):
            asked = event, kernel, frame_times
            try:
                found, _ = first_level.compute_regressor(*asked, min_onset=_MIN_ONSET)
            except Exception as error:  # of anybody's function
                if kernel in (None, *chain(*HRF_MODELS.values())):
                    raise
                raise ValueError(
                    f"hrf_model {kernel!r} failed as function(t_r, oversampling), of "
                    f"the response at times t_r / oversampling apart: {error}"
                ) from error
            X[i, j] = found[:, 0]
    return X.transpose(0, 2, 1)


def _design_matrix(run, events, options):
    """The design matrix (n_kept_scans, ...) of some events, made by nilearn."""
    columns = [*bold.COLUMNS, *({"modulation"} & {*run.events.columns})]
    try:
        matrix = first_level.make_first_level_design_matrix(
            run.frame_times,
            events[columns] if len(events) else None,
            options["hrf_model"],
            options["drift_model"],
            options["high_pass"],
            options["drift_order"],
            add_regs=run.confounds,
            min_onset=_MIN_ONSET,
        )
    except ValueError as error:
        what = f"nilearn makes no design matrix of {run.name}"
        raise ValueError(f"{what}: {error}") from error
    return matrix.iloc[run.kept]


def _warn_of_missed_trials(runs, t_r):
    """Warn of trials whose response no scan shows, or none that is kept."""
    missed = []
    for run in runs:
        trials, times, n = run.trials, run.frame_times, len(run.frame_times)
        ends = (trials["onset"] + trials["duration"]).to_numpy() + RESPONSE
        if len(near := np.flatnonzero((ends > times[-1]) | (run.n_kept < n))) == 0:
            continue
        more = int(np.ceil((ends.max() - times[-1]) / t_r))
        longer = times[0] + np.arange(n + max(more, 1)) * t_r
        power = _regressors(trials.iloc[near], run.kernels[:1], longer)[:, :, 0] ** 2
        share = power[:, :n][:, run.kept].sum(axis=1) / power.sum(axis=1)
        missed += [run.label(number) for number in near[share < _SEEN]]
    if missed:
        warn(
            "Less than half of the response is in scans that were measured and kept "
            f"for {counted(len(missed), 'trial')} ({some_of(missed)}). Their estimates "
            "are noisier: consider leaving them out."
        )


def _lay_out(run, options):
    """The weights of a run, (n_trials, n_scans), and its design matrix."""
    names = run.trial_names
    if taken := {*names, _OTHER_TRIALS} & {*run.events["trial_type"]}:
        raise ValueError(
            f"{run.name} has a trial_type {quoted(taken)}, a name of trials. Rename it."
        )
    of_all_scans = _regressors(run.trials, run.kernels, run.frame_times)
    X = of_all_scans[:, run.kept]
    if len(silent := np.flatnonzero(~X[:, :, 0].any(axis=1))):
        raise ValueError(
            "No scan that is kept holds anything of the response to the trial "
            f"{run.label(silent[0])} ({counted(len(silent), 'such trial')}). Drop it "
            "from events."
        )
    with nilearn_warnings():
        nuisance = _design_matrix(run, run.events[~run.is_trial], options)
    weigh = _weigh_separately if options["method"] == "lss" else _weigh_together
    weights = weigh(X, _basis(nuisance.to_numpy()), run)
    # nilearn makes the derivatives of a response orthogonal to it, which changes the
    # coefficient of the main response.
    R = np.linalg.qr(of_all_scans, mode="r")
    weights = (R[:, :1] / R[:, :1, :1] @ weights)[:, 0]
    endings = ["", *(f"_{i}" for i in range(1, len(run.kernels)))]
    matrix = pd.DataFrame(
        X.transpose(1, 0, 2).reshape(X.shape[1], -1),
        nuisance.index,
        [name + ending for name in names for ending in endings],
    )
    return weights, pd.concat([matrix, nuisance], axis=1)


# -------------------------------------------------------------------------- estimates


def _basis(nuisance):
    """An orthonormal basis (n_scans, rank) of what is of no interest."""
    lengths = np.linalg.norm(nuisance, axis=0)
    # Where columns depend on each other nilearn adds rounding errors to all of them, so
    # that what was zero must not be scaled to the length of the others.
    there = lengths > _ZERO * lengths.max()
    scaled = nuisance[:, there] / lengths[there]
    U, s, _ = np.linalg.svd(scaled, full_matrices=False)
    return U[:, s > max(nuisance.shape) * np.finfo(float).eps * s[0]]


def _inverse(A, lengths):
    """The pinv of A (..., n, m) and the column that is a sum of others, or -1.

    `lengths` (..., m) are those of the columns before anything was taken out.
    """
    lengths = np.where(lengths > 0, lengths, 1)
    U, s, Vt = np.linalg.svd(A / lengths[..., np.newaxis, :], full_matrices=False)
    V, U = np.swapaxes(Vt, -1, -2), np.swapaxes(U, -1, -2)
    P = (V / np.maximum(s, _SINGULAR)[..., np.newaxis, :]) @ U
    singular = s[..., -1] < _SINGULAR
    column = np.abs(Vt[..., -1, :]).argmax(axis=-1)
    return P / lengths[..., np.newaxis], np.where(singular, column, -1)


def _singular(what, run):
    """The error of a response that cannot be told from other regressors."""
    return ValueError(
        f"The design is singular: the response to {what} in {run.name} is a sum of "
        "other regressors. Look for events that always come together, confounds that "
        "hold the task, and trials too close in time for method='lsa' (use 'lss')."
    )


def _weigh_separately(X, basis, run):
    """Weights (n_trials, k, n_scans) of trials with a model each.

    X (n_trials, n_scans, k) are the regressors of trials, `basis` spans all others.
    """
    total = X.sum(axis=0)
    run.check_counts(2 * X.shape[2], basis.shape[1])
    lengths, length_of_total = (np.linalg.norm(A, axis=-2) for A in (X, total))
    X, S = (A - basis @ (basis.T @ A) for A in (X, total))
    P, column = _inverse(S, length_of_total)
    if column >= 0:
        raise _singular(f"{_OTHER_TRIALS!r}", run)
    if len(X) == 1:  # the trial is the sum
        return P[np.newaxis]
    D, columns = _inverse(X - S @ (P @ X), lengths)
    if (columns >= 0).any():
        raise _singular(run.label(np.flatnonzero(columns >= 0)[0]), run)
    return P + D - (P @ X) @ D


def _weigh_together(X, basis, run):
    """Weights (n_trials, k, n_scans) of trials in one model of the run."""
    n_trials, n_scans, k = X.shape
    run.check_counts(n_trials * k, basis.shape[1])
    lengths = np.linalg.norm(X, axis=1).ravel()
    columns = (X - basis @ (basis.T @ X)).transpose(1, 0, 2).reshape(n_scans, -1)
    P, column = _inverse(columns, lengths)
    if column >= 0:
        raise _singular(run.label(column // k), run)
    return P.reshape(n_trials, k, n_scans)


def _fit_by_nilearn(Y, run, options, progress):
    """Estimates (n_trials, n_voxels) by nilearn's models of noise."""
    trials, values = np.flatnonzero(run.is_trial), []
    named = run.events["trial_type"].to_numpy(dtype=object, copy=True)
    others = np.where(run.is_trial, _OTHER_TRIALS, named)
    named[trials] = run.trial_names
    separately = options["method"] == "lss"
    for row in trials:
        here = np.arange(len(named)) == row
        labels = np.where(here, named, others) if separately else named
        if separately or not values:
            events = run.events.assign(trial_type=labels)
            with catch_warnings():
                simplefilter("ignore")  # what they are about has been said
                X = _design_matrix(run, events, options).to_numpy()
                noises, fitted = first_level.run_glm(Y, X, options["noise_model"])
        # nilearn has types in sorted order, each with its responses.
        number = np.flatnonzero(np.unique(labels) == labels[row])[0]
        values.append(np.empty(Y.shape[1]))
        for noise, result in fitted.items():
            values[-1][noises == noise] = result.theta[len(run.kernels) * number]
        progress.update(1)
    return np.array(values)


# ------------------------------------------------------------------------------- data


def _estimate(data, finite, run, weights, options, progress):
    """Estimates (n_trials, n_voxels) of a run, and which voxels are `_ODD`."""
    bold.check_signal(data, run.name, np.arange(len(run.frame_times))[run.kept])
    sound = finite & usable_columns(data)
    low = np.zeros(len(sound), bool)
    values = np.zeros((len(weights), data.shape[1]), dtype=options["dtype"])
    values[:, ~finite] = np.nan
    by_nilearn = options["noise_model"] != "ols"
    columns = np.flatnonzero(sound)
    step = max(1, len(columns) if by_nilearn else SCORED_AT_ONCE // len(data))
    for start in range(0, len(columns), step):
        block = columns[start : start + step]
        Y = data[:, block].astype(np.float64)  # nilearn would scale in float32
        if options["signal_scaling"] is not False:
            low[block] = Y.mean(axis=0) < 1
            with catch_warnings():
                simplefilter("ignore")  # there is a note on it
                Y = first_level.mean_scaling(Y, options["signal_scaling"])[0]
        values[:, block] = (
            _fit_by_nilearn(Y, run, options, progress) if by_nilearn else weights @ Y
        )
    if not by_nilearn:
        progress.update(len(weights))
    return values, np.stack([~finite, finite & ~sound, low])


def _estimate_all(scans, runs, weights, options, verbose):
    """The estimates of all trials, (n_trials, n_voxels)."""
    n_trials, n_scans = sum(map(len, weights)), max(scans.lengths)
    size = options["dtype"].itemsize * n_trials
    n_places, n_voxels = scans.space.joined_mask.size, scans.space.n_positions
    check_memory(
        size * (n_voxels + n_places) + 8 * n_scans * (2 * n_voxels + n_places),
        f"Estimating {n_trials} trials in {n_voxels} {plural(scans.space.noun)}",
        "dtype='float32', fewer runs at a time or a smaller mask",
    )
    values, odd = np.empty((n_trials, n_voxels), options["dtype"]), False
    parts = np.split(values, np.cumsum([*map(len, weights)])[:-1])  # of every run
    with Progress(n_trials, verbose=verbose, noun="trial") as progress:
        each = zip(parts, runs, weights, strict=True)
        for number, (part, run, of_run) in enumerate(each):
            data = scans.read(number, run.kept, run.name)
            part[:], here = _estimate(*data, run, of_run, options, progress)
            odd = odd | here
    for what, n in zip(_ODD, odd.sum(axis=1), strict=True):
        if n:
            warn(f"{n} of {n_voxels} {plural(scans.space.noun)} of the mask {what}.")
    return values


def single_trial_betas(
    imgs: Run | Sequence[Run],
    events: Events | Sequence[Events],
    *,
    method: Literal["lss", "lsa"] = "lss",
    conditions: Sequence[str | int] | str | None = None,
    t_r: float | None = None,
    slice_time_ref: float | None = None,
    hrf_model: Response = "glover",
    drift_model: Literal["cosine", "polynomial"] | None = "cosine",
    high_pass: float = 0.01,
    drift_order: int = 1,
    confounds: Regressors | Sequence[Regressors | None] | None = None,
    sample_masks: NDArray | Sequence[NDArray | None] | None = None,
    mask_img: Run | TransformerMixin | None = None,
    smoothing_fwhm: float | None = None,
    signal_scaling: Literal[0, False] = 0,
    noise_model: Literal["ols", "ar1"] = "ols",
    dtype: Precision = "float64",
    verbose: bool | None = None,
) -> Betas:
    """Estimate single-trial responses from BOLD runs, one image per trial.

    The models are those of :class:`nilearn.glm.first_level.FirstLevelModel`, fitted run
    by run. Arguments of the same name have the same meaning and, except for
    `noise_model`, the same defaults.

    Parameters
    ----------
    imgs : 4D image | SurfaceImage | Cifti2Image | path | list of these
        One image per run, or a file name pattern; volumes must share a grid, CIFTI
        files (.dtseries.nii, .ptseries.nii) their columns.
    events : DataFrame | path | list of these
        For each run, the columns onset and duration (seconds, from the first scan) and
        trial_type, as in BIDS events.tsv files. Further columns are copied to the table
        of trials.
    method : "lss" | "lsa"
        ``"lss"``, least squares separate: a separate model for each trial, with one
        regressor for the trial and one for all other trials [1]_. ``"lsa"``, least
        squares all: one model per run, with a regressor for each trial.
    conditions : None | list of str | str
        The trial types to estimate; None takes all events. Events of other types have
        one regressor for each type.
    t_r : None | float
        Repetition time in seconds. None takes the RepetitionTime in the BIDS .json file
        of each run, else that of the headers, if they state a unit of time.
    slice_time_ref : None | float
        Reference time of the slices within a scan, as a fraction of `t_r` (0 to 1);
        after slice-timing correction, the reference it used. None takes the StartTime
        in the .json file of each run, as written by fMRIPrep, else 0 with a warning.
    hrf_model : str | None | callable | list of callables
        The haemodynamic response: ``"glover"``, ``"spm"``, with ``" + derivative"`` or
        ``" + derivative + dispersion"``, or functions ``f(t_r, oversampling)``. With
        more than one response, images are estimates of the first. None: no haemodynamic
        delay.
    drift_model : "cosine" | "polynomial" | None
        Model of slow drifts.
    high_pass : float
        Cut-off frequency of cosine drifts in Hz.
    drift_order : int
        Order of polynomial drifts.
    confounds : None | DataFrame | array | path | list of these
        Further nuisance regressors, one row per scan, one table for each run; for
        fMRIPrep, from :func:`nilearn.interfaces.fmriprep.load_confounds`.
    sample_masks : None | array | list of these
        For each run, the indices of the scans to keep, if some are to be excluded.
    mask_img : None | 3D image | SurfaceImage | Cifti2Image | path | fitted masker
        The voxels to estimate. None: the intersection of the masks that Nilearn
        computes for the runs, or all vertices or grayordinates. With a fitted masker,
        its ``transform`` extracts the data.
    smoothing_fwhm : None | float
        Full width at half maximum in mm for smoothing volumes.
    signal_scaling : 0 | False
        0: estimates are in percent of each voxel's mean over the run. False: in the
        unit of the data.
    noise_model : "ols" | "ar1"
        Ordinary least squares, or autocorrelated noise. ``"ar1"`` is computed by
        Nilearn, model by model, and takes many times as long.
    dtype : "float64" | "float32"
        Data type of the images. Estimates are computed in double precision.
    verbose : None | bool
        Whether to show progress; None shows it for long runs.

    Returns
    -------
    betas : Betas
        With the fields ``imgs``, ``table``, ``mask_img``, ``design_matrices`` and
        ``parameters``, see :class:`~mvpa_kfda.Betas`. Trials are ordered by run, then
        by onset.

    See Also
    --------
    searchlight : Decodes them: ``searchlight(betas, "trial_type", groups="run")``.
    decode_regions : Decodes them in regions of an atlas.

    Notes
    -----
    Estimates of trials that are close in time are correlated: errors of neighbouring
    trials have opposite signs with "lsa" and the same sign with "lss". Estimates from
    different runs are not correlated. Therefore use runs as groups, with a new random
    order of trials in each.

    With "ols", the estimates of all trials are the product of one matrix (n_trials,
    n_scans) and the data of the run, whatever the number of models. The images of all
    trials and the scans of one run are held in memory.

    References
    ----------
    .. [1] Mumford, J. A., Turner, B. O., Ashby, F. G., & Poldrack, R. A. (2012).
       Deconvolving BOLD activation in event-related designs for multivoxel pattern
       classification analyses. NeuroImage, 59(3), 2636-2643.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from nibabel import Nifti1Image
    >>> rng = np.random.default_rng(0)
    >>> bold = [Nifti1Image(rng.normal(100, 1, (3, 3, 3, 60)), np.eye(4)) for _ in "ab"]
    >>> events = pd.DataFrame({"onset": np.arange(8) * 12.0, "duration": 1.0})
    >>> events["trial_type"] = ["face", "house"] * 4
    >>> mask = Nifti1Image(np.ones((3, 3, 3)), np.eye(4))
    >>> betas = single_trial_betas(
    ...     bold, [events, events], t_r=2.0, slice_time_ref=0.5, mask_img=mask
    ... )
    >>> betas
    <Betas | 16 trials (face 8, house 8) of 2 runs, lss>
    >>> betas.imgs.shape
    (3, 3, 3, 16)
    >>> betas.table.head(2)
       run  onset  duration trial_type
    0    1    0.0       1.0       face
    1    1   12.0       1.0      house
    """
    options = {
        "method": method,
        "t_r": t_r,
        "slice_time_ref": slice_time_ref,
        "hrf_model": hrf_model.lower() if isinstance(hrf_model, str) else hrf_model,
        "drift_model": drift_model,
        "high_pass": high_pass,
        "drift_order": drift_order,
        "smoothing_fwhm": smoothing_fwhm,
        "signal_scaling": signal_scaling,
        "noise_model": noise_model,
        "dtype": check_dtype(dtype),
    }
    _check_options(options)
    kernels = _find_kernels(options["hrf_model"])
    scans = bold.open_runs(imgs)
    n, longest = len(scans.lengths), max(scans.lengths)
    given = bold.given_of_runs(imgs, n, events, confounds, sample_masks)
    tables = [bold.read_events(*each) for each in given.pop("events")]
    is_trial = bold.mark_trials(tables, conditions)
    t_r, share, told_by = bold.find_timing(
        scans.names,
        [scans.header_t_r(i) for i in range(n)],
        [bold.sidecar_beside(item) for item in listed(imgs)],
        options["t_r"],
        options["slice_time_ref"],
    )
    options |= {"t_r": t_r, "slice_time_ref": share}
    runs = _open_designs(scans.lengths, tables, is_trial, given, kernels, options)
    table = bold.table_of_trials(tables, is_trial)
    bold.check_durations(table)
    if len(table) > scans.most_images:
        raise ValueError(
            f"{len(table):,} trials are more than the {scans.most_images:,} volumes of "
            "NIfTI. Name those of interest as conditions, or use fewer runs."
        )
    check_memory(
        3 * 8 * len(table) * longest * len(kernels),
        f"To model {counted(len(table), 'trial', ',')} in up to {longest:,} scans",
        "fewer conditions or runs at a time",
    )
    weights, matrices = zip(*(_lay_out(run, options) for run in runs), strict=True)
    _warn_of_missed_trials(runs, options["t_r"])
    scans.fit(mask_img, options["smoothing_fwhm"])
    values = _estimate_all(scans, runs, weights, options, verbose)
    regressors = [run.confounds.columns for run in runs if run.confounds is not None]
    options |= {
        "hrf_model": recorded(options["hrf_model"]),
        "dtype": options["dtype"].name,
        "slice_time_ref_from": told_by,
        "n_scans": scans.lengths,
        "n_scans_left_out": sum(scans.lengths) - sum(run.n_kept for run in runs),
        "regressors": [*dict.fromkeys(str(n) for names in regressors for n in names)],
    }
    return Betas(scans.to_imgs(values), table, scans.mask_img, [*matrices], options)
