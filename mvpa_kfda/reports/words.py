"""Words for what an analysis was asked for: kernels, penalties, folds, metrics, tests.

Whatever the package knows by a name has an entry in one of these tables. Results record
kernels, penalties and splitters by the name of their class and their arguments, which
the entries are given.
"""

from __future__ import annotations

from ..kfda.folds import SPLITTERS
from ..kfda.kernels import kernel_words
from ..kfda.penalties import MOST_OF_SECOND, N_OVER_SPECTRUM
from ..metrics.names import find_metric
from ..utils.checks import counted, enumerated, ranged
from ..utils.plain import is_record
from ..viz.common import channel_label
from .citations import name

# ------------------------------------------------------------------------- of channels


def channels_words(n, by_type):
    """Word the channels of a subject or of several, (S,), in all and by their types.

    Types are left out where they are not those of all channels.
    """
    types = [
        ranged(each, label if label.endswith("meter") else f"{label} channel")
        for each, label in zip(
            by_type.values(), map(channel_label, by_type), strict=True
        )
    ]
    if list(map(sum, zip(*by_type.values(), strict=True))) != list(n):
        types = []
    if len(types) == 1:
        return types[0]
    return ranged(n, "channel") + (f" ({enumerated(types)})" if types else "")


def features_of_channels(columns, channels):
    """Word what was decoded of some channels, in a map with these columns."""
    if "sensor" in columns:
        return f"the signals of a sensor and its neighbours among {channels}"
    return f"{'the power' if 'freq' in columns else 'the signals'} of {channels}"


# ------------------------------------------------------------------------- of settings

#: Fields of a record that a paper need not say: how the program went about it, and what
#: other sentences say from the data themselves.
NOT_SAID = frozenset(
    {
        # What was kept, and how computed.
        *("null", "selected", "renamings", "recorded_order"),
        # In numbers of trials, folds and permutations, and in the metrics.
        *("n_folds", "n_trained", "n_permutations", "scoring", "class_sizes"),
        # In trials that were averaged, z-scores of voxels, and types of channels.
        *("average_test", "n_images", "ch_names", "channels_left_out"),
    }
)

#: Field of a record -> what it is called where subjects differ in it.
SETTING_WORDS = {
    "task": "the task",
    "kernel": "the kernel",
    "kernels": "the kernels",
    "reg": "the penalty",
    "n_components": "the number of discriminants",
    "cv": "the kind of folds",
    "folds_by_labels": "whether folds depend on labels",
    "groups": "whether trials have groups",
    "train_on": "the trials to train with",
    "preprocess": "the preprocessing in folds",
    "confounds": "the confounds",
    "average": "the number of trials per average",
    "average_test": "whether test trials are averaged",
    "equalize": "whether classes are made equally large",
    "n_repeats": "the number of repeats",
    "permute": "how labels are permuted",
    "scoring": "the first metric",
    "class_names": "the classes",
    "ch_names": "the channels",
    "n_features": "the number of features",
    "scale": "the scaling of channels",
    "sfreq": "the sampling rate",
    "window": "the length of windows",
    "step": "the step between windows",
    "window_mode": "how samples of a window are joined",
    "radius": "the radius",
    "distance": "the kind of distance",
    "standardize": "the scaling of features",
    "mode": "how training and test data belong together",
    "classes": "the events of the classes",
    "classes_test": "the events of the classes in the test data",
    "recordings.kind": "the kind of recordings",
    "recordings.group": "what the groups of trials are",
    "recordings.by": "what made the classes",
    "recordings.where": "which events were chosen",
    "recordings.space": "the space",
    "recordings.entity": "the files that were chosen",
    "recordings.echo": "the echo",
    "recordings.estimate": "how images of trials were made",
    "recordings.hrf_model": "the haemodynamic response",
    "recordings.others": "the regressors of other trials",
    "recordings.noise_model": "the model of noise",
    "recordings.signal_scaling": "the unit of betas",
    "recordings.t_r": "the TR",
    "recordings.slice_time_ref": "the reference of slice times",
    "recordings.smoothing_fwhm": "the smoothing",
    "recordings.mask": "where the mask came from",
    "recordings.drift_model": "the model of drifts",
    "recordings.drift_order": "the order of drifts",
    "recordings.high_pass": "the high-pass filter",
    "recordings.low_pass": "the low-pass filter",
    "recordings.confounds": "the confounds of scans",
    "recordings.regressors": "the confounds of scans",
    "recordings.fd_threshold": "the limit of framewise displacement",
    "recordings.std_dvars_threshold": "the limit of DVARS",
    "recordings.n_compcor": "the number of noise components",
    "recordings.delay": "the delay of blocks",
    "recordings.block_gap": "the pauses within blocks",
    "recordings.tmin": "the start of epochs",
    "recordings.tmax": "the end of epochs",
    "recordings.baseline": "the baseline",
    "recordings.reject": "the limits of rejection",
    "recordings.resample": "the resampling",
}

# ------------------------------------------------------------------------ of penalties

#: Whether trials have groups (None: unknown) -> how training trials are left out.
LEFT_OUT_WORDS = {
    None: "left-out training trials",
    True: "training trials left out one group at a time",
    False: "training trials left out one at a time",
}


#: How lambda is found that no label has a part in: what is minimised for effects that
#: are like noise, and for those in any direction; on which grid; and what of groups.
_LIKE_NOISE = (
    "minimised v / (m - m²)², where m and v are the mean and the variance of w / (w + "
    "λ) over the n - 1 largest eigenvalues w of the centred kernel matrix K of these n "
    "trials: the size that an effect distributed like noise needs in new trials, whose "
    "residuals are taken as equal, as in generalized cross-validation [@Golub1979]."
)
_ANYWHERE = (
    " The second, for effects in any direction, minimised (b + √(b² + 4 c d²)) / d², "
    "where s is the mean of w / (w + λ)², q = 1 - m, b = s / q², c = v / (n (n - 2) "
    "q⁴), and d is s / q plus the sum of 1 / (w + λ) over positive w, plus (p - n + 1) "
    "/ λ if n - 1 of them are positive with p ≥ n features."
)
_GRID = (
    " The grid had four values per decade, from ten times the largest w to a {} of the "
    "second largest; 0.001 was added to the logarithm of what is minimised for each "
    "decade down, and its minimum refined by a parabola in log λ through the lowest "
    "value and its neighbours."
)
_OF_GROUPS = (
    " With three or more groups of several trials, the product of the criterion and "
    "its counterpart for groups was minimised: with the mean of each group removed "
    "from the rows and columns of K (K + λI)⁻¹, m then is its trace divided by the "
    "degrees of freedom within groups, and v the sum of its squared elements between "
    "groups, and of the squared differences of its diagonal elements from m (1 - 1 / "
    "k), in groups of k trials, divided by the summed products of two groups' degrees "
    "of freedom"
)
_ANYWHERE_OF_GROUPS = (
    "; likewise, s is the trace of K (K + λI)⁻² divided by the degrees of freedom "
    "within groups, and c has no factor n - 2"
)


def auto_words(trials, has_groups, is_linear=True, both=False):
    """Word how ``reg="auto"`` was set, or both penalties from which one is chosen.

    By the features of `trials`; `has_groups` None stands for unknown.
    """
    what, it = "The ridge penalty λ was", "It"
    if both:
        what, it = "Both values were", "The first"
    groups = _OF_GROUPS + (_ANYWHERE_OF_GROUPS if both else "") + "."
    grid = _GRID.format("millionth" if is_linear else "hundredth")
    return (
        f"{what} set from the features of {trials}, without labels. {it} {_LIKE_NOISE}"
        f"{_ANYWHERE if both else ''}{grid}{'' if has_groups is False else groups}"
    )


def tuning_words(
    recorded, kernels, has_groups, trials, of_classes=True, are_linear=True
):
    """Word how a tuned penalty was chosen; `has_groups` None stands for unknown."""
    grid, by_default = recorded["grid"], recorded["grid"] == "auto"
    n = len(grid) if not by_default else N_OVER_SPECTRUM
    if by_default and of_classes and are_linear:
        n = 2
    left_out = LEFT_OUT_WORDS[has_groups]
    way, least = "cross-validation", f"the smallest squared error for {left_out}"
    if by_default and has_groups is False:
        of = "class indicators" if of_classes else "values"
        way = "generalized cross-validation [@Golub1979]"
        least = (
            f"the smallest sum of squared training residuals of the {of}, divided by "
            "the squared trace of the matrix that makes these residuals,"
        )
    what, values, best = "The ridge penalty λ was", counted(n, "value"), "one"
    if kernels is not None and len(kernels) > 1:
        choice = enumerated(map(kernel_words, kernels), "or")
        what = f"The kernel, {choice}, and the ridge penalty λ were"
        values, best = f"{values} for each kernel", "pair"
    words = (
        f"{what} selected from {values} by {way} within each training set: "
        f"the {best} with {least} was used."
    )
    if not by_default:
        return words
    if n == 2:
        return f"{words} {auto_words(trials, has_groups, both=True)}"
    return (
        f"{words} The values were spaced logarithmically, from the largest eigenvalue "
        f"of the centred kernel matrix of {trials} to a thousandth of the smallest "
        "positive one, but no more than seven decades below the second."
    )


# ---------------------------------------------------------------------------- of folds


def splitter_words(recorded, n_folds=None):
    """Word a splitter as it is recorded, with a number of folds or one per subject."""
    given = recorded if is_record(recorded) else {"name": recorded}
    kind = given["name"]
    if n_folds is None:
        n_folds = given.get("n_splits", [])
    n_folds = [n_folds] if isinstance(n_folds, int) else list(n_folds)
    if kind not in SPLITTERS:
        return f"cross-validation with the splitter {name(kind)}"
    words = SPLITTERS[kind].words(given, n_folds)
    moved = "groups" if "Group" in kind else "trials"
    return f"{words}, {moved} in random order" if given.get("shuffle") else words


# -------------------------------------------------------------------------- of metrics


def metric_words(metric):
    """Return the long and the short words of a metric; a function has its name."""
    entry = find_metric(metric)
    if entry is None:
        custom = f"custom metric {name(metric)}"
        return f"the {custom}", custom
    return entry.words or entry.label, entry.short or entry.label


# ---------------------------------------------------------------------------- of tests


def second_test(record):
    """Say what is tested twice in time generalization, by what is recorded."""
    reg, penalty = record.get("reg"), ""
    if reg is not None and not (is_record(reg) and reg["name"] == "Tuned"):
        penalty = (
            f" and a penalty of at most {MOST_OF_SECOND} times the mean squared "
            "norm of the centred trials"
        )
    return (
        "Scores were tested twice, once with labels permuted in both training and test "
        f"data and once with only the training labels permuted{penalty}; the larger "
        "*p*-value is reported [@Berger1982]"
    )
