"""One image per trial from BOLD runs: models of single trials, as nilearn makes them.

Haemodynamic responses, drifts and maskers are nilearn's, as its FirstLevelModel has
them. Estimates of least squares are linear in the data, so for every run there is one
matrix (n_trials, n_scans) that gives those of all trials, also where each has a model
of its own: the model of trial t holds the trial x_t, the sums of all others by type,
and what is of no interest, Z. (Where others are together, there is one type.) Take Z
out of everything. As x_t and the others of its type c are together s_c, the model spans
what x_t spans with S = (s_1, s_2, ...), which all trials of the run have in common.
With P = pinv(S) and the residual r_t = x_t - S P x_t, the estimate of the trial is

    b_t = p_c y + (1 - p_c x_t) (r_t y) / (r_t r_t),    p_c the row of P for type c.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Literal
from warnings import catch_warnings, simplefilter

import numpy as np
import pandas as pd
from nilearn.glm.first_level import (
    compute_regressor,
    glover_dispersion_derivative,
    glover_hrf,
    glover_time_derivative,
    make_first_level_design_matrix,
    mean_scaling,
    run_glm,
    spm_dispersion_derivative,
    spm_hrf,
    spm_time_derivative,
)
from numpy.typing import NDArray

from ..utils.checks import (
    Precision,
    check_count,
    check_dtype,
    check_option,
    check_positive,
    counted,
    name_items,
    plural,
    quoted,
    warn,
)
from ..utils.memory import check_memory
from ..utils.progress import Progress
from ..utils.record import recorded
from .bold import (
    COLUMNS,
    check_counts,
    check_durations,
    check_lasting,
    check_number,
    check_sample_mask,
    check_signal,
    check_trials,
    given_of_runs,
    mark_trials,
    name_runs,
    read_bold_confounds,
    read_events,
    refuse_many,
    table_of_trials,
    warn_of_drifts_twice,
)
from .estimates import Betas
from .runs import open_runs
from .timing import find_timing, sidecar_beside
from .volumes import SCORED_AT_ONCE, NilearnWarnings, listed, usable_columns

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
OTHERS = ("together", "by_type")
NOISE_MODELS = ("ols", "ar1")
DRIFT_MODELS = ("cosine", "polynomial", None)
_FUNCTIONS = {
    "glover": (glover_hrf, glover_time_derivative, glover_dispersion_derivative),
    "spm": (spm_hrf, spm_time_derivative, spm_dispersion_derivative),
}
_OF_NILEARN = {function for several in _FUNCTIONS.values() for function in several}
_ENDINGS = ("", " + derivative", " + derivative + dispersion")
#: Haemodynamic responses of one regressor and more -> nilearn's function for each.
HRF_MODELS = {
    name + ending: functions[: n + 1]
    for name, functions in _FUNCTIONS.items()
    for n, ending in enumerate(_ENDINGS)
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


@dataclass(frozen=True, eq=False)
class _RunDesign:
    """What a run is modelled by."""

    #: When scans were taken, in seconds, (n_all_scans,).
    frame_times: np.ndarray
    #: All events that are modelled, in the order of their onsets; types are texts.
    events: pd.DataFrame
    #: Which of them are trials of interest, (n_events,).
    is_trial: np.ndarray
    #: Regressors that are given, (n_all_scans, n_confounds), or None.
    confounds: pd.DataFrame | None
    #: The scans that are not left out.
    kept: np.ndarray | slice
    #: What the run is called in messages.
    name: str

    @property
    def trials(self):
        """The events that are trials of interest."""
        return self.events[self.is_trial]

    def label(self, number):
        """Word a trial, by its place among the trials."""
        trial = self.trials.iloc[number]
        return f"{trial['trial_type']!r} at {trial['onset']:g} s of {self.name}"


# --------------------------------------------------------------------- what is given


def _check_options(options):
    """Check what does not need the images, and return it as it is used."""
    check_option("method", options["method"], METHODS)
    check_option("others", options["others"], OTHERS)
    check_option("noise_model", options["noise_model"], NOISE_MODELS)
    check_option("drift_model", options["drift_model"], DRIFT_MODELS)
    options["high_pass"] = check_positive("high_pass", options["high_pass"], " In Hz.")
    options["drift_order"] = check_count("drift_order", options["drift_order"])
    for name in ("t_r", "smoothing_fwhm"):
        if options[name] is not None:
            options[name] = check_positive(name, options[name])
    if (options["smoothing_fwhm"] or 0) > _WIDEST:
        raise ValueError(
            f"Invalid value for 'smoothing_fwhm': {options['smoothing_fwhm']!r}. "
            f"Allowed: None, or up to {_WIDEST} mm; wider kernels leave no pattern."
        )
    scaling = options["signal_scaling"]
    percent = isinstance(scaling, int | float) and scaling == 0
    if scaling is not False and (isinstance(scaling, bool) or not percent):
        raise ValueError(
            f"Invalid value for 'signal_scaling': {scaling!r}. Allowed: 0, percent of "
            "each voxel's mean over its run; False, the unit of the data."
        )
    share = options["slice_time_ref"]
    number = isinstance(share, int | float) and not isinstance(share, bool)
    if share is not None and not (number and 0 <= share <= 1):
        raise ValueError(
            f"Invalid value for 'slice_time_ref': {share!r}. Allowed: a number from 0 "
            "to 1, the time of the slices of a scan as a fraction of t_r, or None for "
            "the value in the .json files of BIDS."
        )
    _find_kernels(options["hrf_model"])


def _find_kernels(hrf_model):
    """Return the responses of a trial one by one, that of its estimate first."""
    if isinstance(hrf_model, str):
        check_option("hrf_model", hrf_model, HRF_MODELS, ["None", "a function"])
        return HRF_MODELS[hrf_model]
    if hrf_model is None or callable(hrf_model):
        return (hrf_model,)
    several = isinstance(hrf_model, list | tuple) and len(hrf_model) > 0
    if not several or not all(map(callable, hrf_model)):
        raise TypeError(
            f"Invalid value for 'hrf_model': {hrf_model!r}. Allowed: "
            f"{quoted(HRF_MODELS)}, None, a function(t_r, oversampling) or a list of "
            "such functions, the first of which is estimated."
        )
    return tuple(hrf_model)


# ---------------------------------------------------------------------------- designs


def _make_designs(lengths, tables, is_trial, confounds, sample_masks, options):
    """Return the `_RunDesign` of every run."""
    runs, t_r, share = [], options["t_r"], options["slice_time_ref"]
    _check_high_pass(options)
    names = name_runs(tables)
    for i, n in enumerate(lengths):
        name = f"run {names[i]}" if len(lengths) > 1 else "the run"
        run = _RunDesign(
            frame_times=np.linspace(share * t_r, (n - 1 + share) * t_r, n),
            events=tables[i].assign(trial_type=tables[i]["trial_type"].astype(str)),
            is_trial=is_trial[i],
            confounds=read_bold_confounds(*confounds[i], n),
            kept=check_sample_mask(*sample_masks[i], n),
            name=name,
        )
        check_trials(run.trials, name, n * t_r)
        check_lasting(run.events, name, n * t_r)
        n_trials = int(run.is_trial.sum()) if options["method"] == "lsa" else 1
        n_types = run.events.loc[~run.is_trial, "trial_type"].nunique()
        k = len(_find_kernels(options["hrf_model"]))
        n_kept = len(run.frame_times[run.kept])
        check_counts(name, n_trials * k, n_types * k, n_kept)
        runs.append(run)
    warn_of_drifts_twice([run.confounds for run in runs], options["drift_model"])
    return runs


def _check_high_pass(options):
    """Refuse drifts that are faster than the scans can show."""
    high_pass, most = options["high_pass"], 0.5 / options["t_r"]
    if options["drift_model"] == "cosine" and high_pass >= most:
        raise ValueError(
            f"Invalid value for 'high_pass': {high_pass!r}. Allowed: less than "
            f"{most:g} Hz, half the rate of the scans, e.g. 0.01; slower drifts are "
            "removed."
        )


def _regressors(trials, kernels, frame_times):
    """Return what nilearn makes of each trial and response, (n_trials, n_scans, k)."""
    columns = [
        _regressor(trial, kernel, frame_times)
        for trial in trials.itertuples()
        for kernel in kernels
    ]
    stacked = np.reshape(columns, (len(trials), len(kernels), len(frame_times)))
    return stacked.transpose(0, 2, 1)


def _regressor(trial, kernel, frame_times):
    """Return what nilearn makes of one trial and one response, (n_scans,)."""
    event = [trial.onset], [trial.duration], [1.0]
    try:
        found, _ = compute_regressor(event, kernel, frame_times, min_onset=_MIN_ONSET)
    except Exception as error:  # of anybody's function
        if not callable(kernel) or kernel in _OF_NILEARN:
            raise
        raise ValueError(
            f"hrf_model {kernel!r} failed when called as function(t_r, oversampling), "
            f"which should return the response at times t_r / oversampling apart: "
            f"{error}"
        ) from error
    return found[:, 0]


def _design_matrix(run, events, options):
    """Return the design matrix that nilearn makes of some events of a run."""
    columns = [*COLUMNS, *({"modulation"} & {*run.events.columns})]
    try:
        return make_first_level_design_matrix(
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
        raise ValueError(
            f"nilearn makes no design matrix of {run.name}: {error}"
        ) from error


def _warn_of_missed_trials(runs, kernels, t_r):
    """Warn of trials whose response no scan shows, or none that is kept."""
    missed = []
    for run in runs:
        trials, times = run.trials, run.frame_times
        ends = (trials["onset"] + trials["duration"]).to_numpy()
        near = ends + RESPONSE > times[-1]
        some_left_out = len(times[run.kept]) < len(times)
        near = np.flatnonzero(near | some_left_out)
        if len(near) == 0:
            continue
        n, more = len(times), int(np.ceil((ends.max() + RESPONSE - times[-1]) / t_r))
        longer = times[0] + np.arange(n + max(more, 1)) * t_r
        power = _regressors(trials.iloc[near], kernels[:1], longer)[:, :, 0] ** 2
        share = power[:, :n][:, run.kept].sum(axis=1) / power.sum(axis=1)
        missed += [run.label(number) for number in near[share < _SEEN]]
    if missed:
        warn(
            "Less than half of the response is in scans that were measured and kept "
            f"for {counted(len(missed), 'trial')} ({', '.join(missed[:3])}"
            f"{', ...' if len(missed) > 3 else ''}). Their estimates are noisier than "
            "those of the other trials: consider leaving them out."
        )


#: What trials are called that have a regressor together.
_OTHER_TRIALS = "other trials"


def _name_trials(types):
    """Return a name for every trial, by its type and number within it."""
    numbers = pd.Series(types).groupby(types, sort=False).cumcount() + 1
    return [f"{kind}__{n:03d}" for kind, n in zip(types, numbers, strict=True)]


def _lay_out(run, kernels, options):
    """Return the weights of a run, (n_trials, n_scans), and its design matrix."""
    types = run.trials["trial_type"].to_numpy()
    names = _name_trials(types)
    endings = ["", *(f"_{i}" for i in range(1, len(kernels)))]
    if taken := {*names, _OTHER_TRIALS} & {*run.events["trial_type"]}:
        raise ValueError(
            f"{run.name} has a trial_type {quoted(taken)}, which is how trials "
            "would be called. Rename that type."
        )
    of_all_scans = _regressors(run.trials, kernels, run.frame_times)
    X = of_all_scans[:, run.kept]
    silent = np.flatnonzero(~X[:, :, 0].any(axis=1))
    if len(silent):
        raise ValueError(
            f"No scan that is kept holds anything of the response to the trial "
            f"{run.label(silent[0])} ({counted(len(silent), 'such trial')}). Drop it "
            "from events."
        )
    with NilearnWarnings():
        nuisance = _design_matrix(run, run.events[~run.is_trial], options)
    nuisance = nuisance.iloc[run.kept]
    weigh = _weigh_separately if options["method"] == "lss" else _weigh_together
    if options["others"] == "together":
        types = np.full(len(types), _OTHER_TRIALS)
    weights = weigh(X, types, nuisance.to_numpy(), run)
    weights = (_main_response(of_all_scans) @ weights)[:, 0]
    matrix = pd.DataFrame(
        X.transpose(1, 0, 2).reshape(X.shape[1], -1),
        nuisance.index,
        [name + ending for name in names for ending in endings],
    )
    return weights, pd.concat([matrix, nuisance], axis=1)


# -------------------------------------------------------------------------- estimates


def _basis(nuisance):
    """Return an orthonormal basis (n_scans, rank) of what is of no interest."""
    lengths = np.linalg.norm(nuisance, axis=0)
    # Where columns depend on each other nilearn adds rounding errors to all of them, so
    # that what was zero must not be scaled to the length of the others.
    there = lengths > _ZERO * lengths.max()
    scaled = nuisance[:, there] / lengths[there]
    U, s, _ = np.linalg.svd(scaled, full_matrices=False)
    return U[:, s > max(nuisance.shape) * np.finfo(float).eps * s[0]]


def _inverse(A, lengths):
    """Return pinv of A (..., n, m) and the column that is a sum of others, or -1.

    `lengths` (..., m) are those of the columns before anything was taken out.
    """
    lengths = np.where(lengths > 0, lengths, 1)
    U, s, Vt = np.linalg.svd(A / lengths[..., np.newaxis, :], full_matrices=False)
    V, U = np.swapaxes(Vt, -1, -2), np.swapaxes(U, -1, -2)
    P = (V / np.maximum(s, _SINGULAR)[..., np.newaxis, :]) @ U
    singular = s[..., -1] < _SINGULAR
    column = np.abs(Vt[..., -1, :]).argmax(axis=-1)
    return P / lengths[..., np.newaxis], np.where(singular, column, -1)


def _main_response(X):
    """Return how coefficients make that of the main response, (n_trials, 1, k).

    nilearn makes the derivatives of a response orthogonal to it.
    """
    R = np.linalg.qr(X, mode="r")
    return R[:, :1] / R[:, :1, :1]


def _check_size(n_regressors, basis, run):
    """Refuse models with more regressors than scans."""
    n_scans, rank = basis.shape
    if n_regressors + rank > n_scans:
        refuse_many(run.name, n_regressors, rank, n_scans)


def _refuse_singular(what, run):
    """Say of which trials the responses cannot be told from other regressors."""
    raise ValueError(
        f"The design is singular: the response to {what} in {run.name} is a sum of "
        "other regressors. Look for events that always come together, for confounds "
        "that hold the task, and with method='lsa' for trials too close in time "
        "(method='lss' is for these)."
    )


def _weigh_separately(X, types, nuisance, run):
    """Return weights (n_trials, k, n_scans) of trials with a model each.

    X (n_trials, n_scans, k) are the regressors of trials, `types` their names.
    """
    basis, (names, codes) = _basis(nuisance), np.unique(types, return_inverse=True)
    k, counts, lengths = X.shape[2], np.bincount(codes), np.linalg.norm(X, axis=1)
    _check_size((len(names) + 1) * k, basis, run)
    sums = np.stack([X[codes == code].sum(axis=0) for code in range(len(names))])
    lengths_of_sums = np.linalg.norm(sums, axis=1).ravel()
    X, sums = (A - basis @ (basis.T @ A) for A in (X, sums))
    S = np.concatenate(list(sums), axis=1)  # (n_scans, n_types * k)
    P, column = _inverse(S, lengths_of_sums)
    if column >= 0:
        _refuse_singular(f"{names[column // k]!r}", run)
    own = P.reshape(len(names), k, -1)[codes]  # (n_trials, k, n_scans)
    alone = counts[codes] == 1
    D, columns = _inverse(X - S @ (P @ X), lengths)
    if (wrong := (columns >= 0) & ~alone).any():
        _refuse_singular(run.label(np.flatnonzero(wrong)[0]), run)
    D[alone] = 0  # there are no others of the type: the trial is the sum
    return own + D - (own @ X) @ D


def _weigh_together(X, types, nuisance, run):
    """Return weights (n_trials, k, n_scans) of trials in one model of the run."""
    basis, (n_trials, n_scans, k) = _basis(nuisance), X.shape
    _check_size(n_trials * k, basis, run)
    lengths = np.linalg.norm(X, axis=1).ravel()
    columns = (X - basis @ (basis.T @ X)).transpose(1, 0, 2).reshape(n_scans, -1)
    P, column = _inverse(columns, lengths)
    if column >= 0:
        _refuse_singular(run.label(column // k), run)
    return P.reshape(n_trials, k, n_scans)


def _fit_by_nilearn(Y, run, options, progress):
    """Return estimates (n_trials, n_voxels) by nilearn's models of noise."""
    k = len(_find_kernels(options["hrf_model"]))
    types = run.events["trial_type"].to_numpy(dtype=object)
    trials = np.flatnonzero(run.is_trial)
    named = types.copy()
    named[trials] = _name_trials(types[trials])
    together = options["method"] == "lsa"
    if options["others"] == "together":
        types = np.where(run.is_trial, _OTHER_TRIALS, types)
    values = np.empty((len(trials), Y.shape[1]))
    for count, row in enumerate(trials):
        labels = (
            named if together else np.where(np.arange(len(types)) == row, named, types)
        )
        if count == 0 or not together:
            events = run.events.assign(trial_type=labels)
            with catch_warnings():
                simplefilter("ignore")  # what they are about has been said
                design = _design_matrix(run, events, options).iloc[run.kept].to_numpy()
                noises, fitted = run_glm(Y, design, options["noise_model"])
        # nilearn has types in sorted order, each with its responses.
        column = k * np.flatnonzero(np.unique(labels) == labels[row])[0]
        for noise, result in fitted.items():
            values[count, noises == noise] = result.theta[column]
        progress.update(1)
    return values


# ------------------------------------------------------------------------------- data


def _estimate(data, finite, run, weights, options, progress, notes):
    """Return estimates (n_trials, n_voxels) of a run, and take note of odd voxels."""
    check_signal(data, run.name, np.arange(len(run.frame_times))[run.kept])
    sound = finite & usable_columns(data)
    notes["hold NaN or infinite values, and so do their estimates"] |= ~finite
    notes["are constant in some run, where their estimates are 0"] |= finite & ~sound
    values = np.zeros((len(weights), data.shape[1]), dtype=options["dtype"])
    values[:, ~finite] = np.nan
    low = np.zeros(len(sound), bool)
    by_nilearn = options["noise_model"] != "ols"
    (columns,), step = np.nonzero(sound), max(1, SCORED_AT_ONCE // len(data))
    step = max(1, len(columns)) if by_nilearn else step
    for start in range(0, len(columns), step):
        block = columns[start : start + step]
        Y = data[:, block].astype(
            np.float64
        )  # scaled too, which nilearn does in float32
        if options["signal_scaling"] is not False:
            low[block] = Y.mean(axis=0) < 1
            with catch_warnings():
                simplefilter("ignore")  # there is a note on it
                Y = mean_scaling(Y, options["signal_scaling"])[0]
        if by_nilearn:
            values[:, block] = _fit_by_nilearn(Y, run, options, progress)
        else:
            values[:, block] = weights @ Y
    notes[
        "have a mean below 1, of which percent make no sense: they are taken times 100 "
        "instead, as nilearn does (or use signal_scaling=False)"
    ] |= low
    if not by_nilearn:
        progress.update(len(weights))
    return values


class _Notes(dict):
    """What is odd about voxels -> which these are."""

    def __missing__(self, what):
        self[what] = False
        return False

    def tell(self, noun):
        """Warn of what there is."""
        for what, marked in self.items():
            if n := np.count_nonzero(marked):
                warn(f"{n} of {len(marked)} {plural(noun)} of the mask {what}.")


def single_trial_betas(
    imgs: Run | Sequence[Run],
    events: Events | Sequence[Events],
    *,
    method: Literal["lss", "lsa"] = "lss",
    others: Literal["together", "by_type"] = "together",
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
    others : "together" | "by_type"
        With "lss", whether the other trials have one regressor, or one for each type
        [2]_. With "by_type", estimates depend on the labels, and those of the same type
        in a run are correlated: scores are too high, and p-values can be too small,
        even with runs as groups.
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
    .. [2] Turner, B. O., Mumford, J. A., Poldrack, R. A., & Ashby, F. G. (2012).
       Spatiotemporal activity estimation for multivoxel pattern analysis with rapid
       event-related designs. NeuroImage, 62(3), 1429-1438.

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
        "others": others,
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
    runs = open_runs(imgs)
    n = len(runs.lengths)
    given = given_of_runs(imgs, n, events, confounds, sample_masks)
    tables = [read_events(*each) for each in given["events"]]
    is_trial = mark_trials(tables, conditions)
    timing = find_timing(
        name_items("imgs", runs.images),
        [runs.header_t_r(i) for i in range(n)],
        [sidecar_beside(item) for item in listed(imgs)],
        options["t_r"],
        options["slice_time_ref"],
    )
    options |= {"t_r": timing.t_r, "slice_time_ref": timing.slice_time_ref}
    of_scans = given["confounds"], given["sample_masks"]
    designs = _make_designs(runs.lengths, tables, is_trial, *of_scans, options)
    table = table_of_trials(tables, is_trial)
    check_durations(table)
    kernels = _find_kernels(options["hrf_model"])
    n_values = max(runs.lengths) * len(kernels)
    check_number(len(table), runs.most_images, n_values)
    models = [_lay_out(design, kernels, options) for design in designs]
    _warn_of_missed_trials(designs, kernels, options["t_r"])
    runs.fit(mask_img, options["smoothing_fwhm"])
    weights = [each for each, _ in models]
    values = _estimate_all(runs, designs, weights, options, verbose)
    options |= {
        "hrf_model": recorded(options["hrf_model"]),
        "dtype": options["dtype"].name,
        "slice_time_ref_from": timing.told_by,
        **_about_scans(designs),
    }
    matrices = [matrix for _, matrix in models]
    return Betas(runs.to_imgs(values), table, runs.mask_img, matrices, options)


def _about_scans(designs):
    """Return how many scans the runs had and lost, and the names of their confounds."""
    lengths = [len(run.frame_times) for run in designs]
    kept = sum(len(run.frame_times[run.kept]) for run in designs)
    tables = [run.confounds for run in designs if run.confounds is not None]
    names = dict.fromkeys(str(name) for table in tables for name in table.columns)
    return {
        "n_scans": lengths,
        "n_scans_left_out": sum(lengths) - kept,
        "regressors": [*names],
    }


def _estimate_all(runs, designs, weights, options, verbose):
    """Return the estimates of all trials, (n_trials, n_voxels)."""
    n_trials, n_scans = sum(map(len, weights)), max(runs.lengths)
    size = options["dtype"].itemsize * n_trials
    n_places, n_voxels = runs.n_places, runs.n_positions
    check_memory(
        size * (n_voxels + n_places) + 8 * n_scans * (2 * n_voxels + n_places),
        f"Estimating {n_trials} trials in {n_voxels} {plural(runs.noun)}",
        "dtype='float32', fewer runs at a time or a smaller mask",
    )
    values, start = np.empty((n_trials, n_voxels), options["dtype"]), 0
    notes = _Notes()
    with Progress(n_trials, verbose=verbose, noun="trial") as progress:
        for number, (design, each) in enumerate(zip(designs, weights, strict=True)):
            stop = start + len(each)
            data, finite = runs.read(number, design.kept, design.name)
            values[start:stop] = _estimate(
                data, finite, design, each, options, progress, notes
            )
            start = stop
    notes.tell(runs.noun)
    return values
