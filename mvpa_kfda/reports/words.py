"""Words for what an analysis was asked for: kernels, penalties, folds, metrics, tests.

Whatever the package knows by a name has an entry in one of these tables. Results record
kernels, penalties and splitters by the name of their class and their arguments, which
the entries are given.
"""

from __future__ import annotations

from collections.abc import Callable

from ..kfda.automatic import GRID
from ..kfda.folds import GIVEN
from ..metrics.names import find_metric
from ..utils.checks import counted, enumerated, plural
from ..utils.record import is_record
from ..utils.rounding import nearest, rounded, to_digits
from .citations import name

# --------------------------------------------------------------------------- of words


def capital(text):
    """Return a text with its first letter large."""
    return text[:1].upper() + text[1:]


def number(value, digits=3):
    """Word a number with some significant digits, and never as 1e-05."""
    value = float(value)
    value = to_digits(value, digits) if abs(value) < 10**digits else value
    if value and not 1e-4 <= abs(value) < 1e6:
        mantissa, _, power = f"{value:.{digits - 1}e}".partition("e")
        return f"{float(mantissa):g} \N{MULTIPLICATION SIGN} 10^{int(power)}"
    return f"{value:.{digits}g}" if abs(value) < 10**digits else rounded(value, 0)


def p_words(p):
    """Word a p-value: three decimals, or that it is below the last of them."""
    return f"*p* = {rounded(p)}" if nearest(p) >= 0.001 else "*p* < 0.001"


def ranged(values, noun):
    """Word a number of things, or the smallest and the largest of several numbers."""
    low, high = min(values), max(values)
    return counted(high, noun) if low == high else f"{low} to {counted(high, noun)}"


def times_words(n):
    """Word how often."""
    return {1: "once", 2: "twice"}.get(n, f"{n:,} times")


# ------------------------------------------------------------------------- of settings

#: Fields of a record that a paper need not say: how the program went about it, and what
#: other sentences say from the data themselves.
NOT_SAID = frozenset(
    {
        # What was kept, and how computed.
        *("null", "selected", "renamings"),
        # In numbers of trials, folds and permutations, and in the metrics.
        *("n_folds", "n_trained", "n_permutations", "scoring", "class_sizes"),
        # In trials that were averaged, z-scores of voxels, and types of channels.
        *("average_test", "n_images", "ch_names"),
        # Part of the sentence on the penalty, which names what is minimised.
        "criterion",
    }
)

#: Field of a record -> what it is called where subjects differ in it.
SETTING_WORDS = {
    "task": "the task",
    "kernel": "the kernel",
    "kernels": "the kernels",
    "reg": "the penalty",
    "criterion": "the criterion of the penalty",
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
    "recordings.by": "what made the classes",
    "recordings.where": "which events were chosen",
    "recordings.space": "the space",
    "recordings.estimate": "how images of trials were made",
    "recordings.hrf_model": "the haemodynamic response",
    "recordings.t_r": "the TR",
    "recordings.slice_time_ref": "the reference of slice times",
    "recordings.smoothing_fwhm": "the smoothing",
    "recordings.mask": "where the mask came from",
    "recordings.high_pass": "the high-pass filter",
    "recordings.low_pass": "the low-pass filter",
    "recordings.confounds": "the confounds of scans",
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

# -------------------------------------------------------------------------- of kernels


def _rbf(given):
    gamma = given["gamma"]
    widths = {
        "median": "whose width was set from the median squared distance between trials",
        None: "whose inverse width was one over the number of features",
    }
    inverse = f"of inverse width {gamma}"
    return f"a Gaussian kernel {widths.get(gamma, inverse)}"


def _polynomial(given):
    gamma = given["gamma"]
    scale = "one over the number of features" if gamma is None else gamma
    return (
        f"a polynomial kernel of degree {given['degree']} (scale {scale}, "
        f"constant {number(given['coef0'])})"
    )


def _empirical(given):
    return (
        f"the empirical kernel map of {kernel_words(given['kernel'])}, which places "
        "the penalty on the dual coefficients [@Cawley2003; @Mika1999]"
    )


def _low_rank(given):
    approx = given["approx"]
    landmarks = counted(approx["n_components"], "landmark")
    how = {"kmeans": "chosen by k-means", "uniform": "drawn at random"}
    chosen = how[approx["sampling"]]
    return (
        f"{kernel_words(given['kernel'])}, approximated by the Nyström method with "
        f"{landmarks} {chosen} [@Williams2001]"
    )


def _graph(given):
    strength = number(given["strength"])
    return (
        "a linear kernel that penalises differences between the weights of "
        f"neighbouring features (strength {strength}) [@Hastie1995]"
    )


#: Class of a kernel -> words, of the arguments that are recorded.
KERNEL_WORDS: dict[str, Callable] = {
    "Linear": lambda given: "a linear kernel",
    "RBF": _rbf,
    "Polynomial": _polynomial,
    "Precomputed": lambda given: "a precomputed kernel matrix",
    "Callable": lambda given: "a custom kernel function",
    "EmpiricalMap": _empirical,
    "LowRank": _low_rank,
    "GraphSmooth": _graph,
    "Penalty": lambda given: (
        "a linear kernel with a quadratic penalty on the weights of the features "
        "[@Hastie1995]"
    ),
}


def kernel_words(recorded):
    """Word a kernel as it is recorded."""
    if recorded["name"] == "KernelChoice":
        return enumerated(map(kernel_words, recorded["kernels"]), "or")
    words = KERNEL_WORDS.get(recorded["name"], lambda given: "a custom kernel")
    return words(recorded)


# ------------------------------------------------------------------------ of penalties


def _shrinkage(given):
    return (
        f"shrinkage by {given['gamma']} of the total covariance matrix towards a "
        "multiple of the identity matrix"
    )


#: Class of a rule -> words, of the arguments that are recorded.
PENALTY_WORDS: dict[str, Callable] = {
    "Ridge": lambda given: f"a ridge penalty of λ = {given['lam']}",
    "Shrinkage": _shrinkage,
    "DegreesOfFreedom": lambda given: (
        f"a ridge penalty that leaves {given['df']} effective degrees of freedom "
        "[@Hastie1995]"
    ),
    "ledoit_wolf": lambda given: (
        "shrinkage of the total covariance matrix with the Ledoit-Wolf estimate "
        "[@Ledoit2004]"
    ),
    "oas": lambda given: (
        "shrinkage of the total covariance matrix with the oracle approximating "
        "shrinkage estimate [@Chen2010]"
    ),
}

#: Criterion of a tuned penalty -> what was best.
CRITERION_WORDS = {
    "squared_error": "smallest squared error",
    "accuracy": "highest proportion of correct predictions",
    "log_loss": "smallest log loss",
}


#: Whether trials have groups (None: unknown) -> how training trials are left out.
LEFT_OUT_WORDS = {
    None: "left-out training trials",
    True: "training trials left out one group at a time",
    False: "training trials left out one at a time",
}


def penalty_words(recorded):
    """Word a penalty as it is recorded, but for one that labels choose."""
    kind = recorded["name"] if is_record(recorded) else recorded
    if kind in PENALTY_WORDS:
        return PENALTY_WORDS[kind](recorded)
    if not isinstance(recorded, int | float):
        return "a custom penalty"
    return (
        f"a ridge penalty of {number(recorded)} times the mean squared norm of the "
        "centred trials in the feature space of the kernel"
    )


def auto_words(has_groups, of_classes=True):
    """Word how ``reg="auto"`` was chosen; `has_groups` None stands for unknown."""
    left_out = LEFT_OUT_WORDS[has_groups]
    margin = (
        "0.1 / n of the sum of squares" if of_classes else "a share of 0.1 / n of it"
    )
    return (
        "The ridge penalty was selected by generalized cross-validation [@Golub1979] "
        f"within each training set of n trials: from {len(GRID)} values, the largest "
        f"one was used whose squared error for {left_out}, as estimated in closed "
        f"form, exceeded the smallest by no more than {margin}."
    )


def tuning_words(recorded, kernels, has_groups):
    """Word how a tuned penalty was chosen; `has_groups` None stands for unknown."""
    grid, cv = recorded["grid"], recorded["cv"]
    n = 20 if grid == "auto" else len(grid)
    criterion = CRITERION_WORDS[recorded["criterion"]]
    left_out = LEFT_OUT_WORDS[has_groups]
    if isinstance(cv, int):
        left_out = f"training trials left out in {counted(cv, 'random fold')}"
    elif cv is not None:
        left_out = f"training trials left out in {splitter_words(cv)}"
    what, values, best = "The ridge penalty was", counted(n, "value"), "one"
    if kernels is not None and len(kernels) > 1:
        choice = enumerated(map(kernel_words, kernels), "or")
        what = f"The kernel, {choice}, and the ridge penalty were"
        values, best = f"{values} for each kernel", "pair"
    return (
        f"{what} selected from {values} by cross-validation within each training set: "
        f"the {best} with the {criterion} for {left_out} was used."
    )


# ---------------------------------------------------------------------------- of steps


def _pca(given):
    components = given["n_components"]
    how = []
    if isinstance(components, float):
        share = number(100 * components)
        how.append(f"components that explain {share} % of the variance")
    elif isinstance(components, int):
        how.append(f"the first {counted(components, 'component')}")
    if given["whiten"]:
        how.append("scaled to unit variance")
    return "principal component analysis" + (f" ({', '.join(how)})" if how else "")


#: Class of a step -> words.
STEP_WORDS: dict[str, Callable] = {
    "StandardScaler": lambda given: "z-scoring of each feature",
    "PCA": _pca,
}


def step_words(recorded):
    """Word a step as it is recorded."""
    kind = recorded["name"] if is_record(recorded) else recorded
    words = STEP_WORDS.get(kind, lambda given: f"the transformer {name(kind)}")
    return words(recorded)


# ---------------------------------------------------------------------------- of folds


def _fold(numbers):
    """Word "5-fold" of one number of folds, "3- to 5-fold" of several, or of none."""
    if not len(numbers):
        return "k-fold"
    low, high = min(numbers), max(numbers)
    return f"{low}-fold" if low == high else f"{low}- to {high}-fold"


def _k_fold(kind="", more=""):
    kind, more = kind and f"{kind} ", more and f" {more}"
    return lambda given, k: f"{kind}{_fold(k)} cross-validation{more}"


def _some(numbers, noun):
    """Word how many, or 3 to 5 of several numbers, or that it is not known."""
    return ranged(numbers, noun) if len(numbers) else plural(noun)


def _splits(kind, of=""):
    return lambda given, k: _some(k, f"{kind} split") + of


def _k_folds(given, k):
    """Word folds of neighbouring trials, as a number of folds makes them, or others."""
    if given["shuffle"]:
        return _k_fold()(given, k)
    return f"cross-validation in {_some(k, 'contiguous fold')}"


def _repeated(kind=""):
    """Word a splitter that repeats folds; k of them in all."""

    def words(given, k):
        r = given["n_repeats"]
        folds = _k_fold(kind)(given, [each // r for each in k])
        return f"{folds}, repeated {times_words(r)} with different random folds"

    return words


_WHOLE = "with groups kept intact"
#: Class of a splitter of scikit-learn -> words, of its arguments and numbers of folds.
SPLITTER_WORDS: dict[str, Callable] = {
    "KFold": _k_folds,
    "StratifiedKFold": _k_fold("stratified"),
    "GroupKFold": _k_fold(more=_WHOLE),
    "StratifiedGroupKFold": _k_fold("stratified", _WHOLE),
    "RepeatedKFold": _repeated(),
    "RepeatedStratifiedKFold": _repeated("stratified"),
    "LeaveOneOut": lambda given, k: "leave-one-out cross-validation",
    "LeavePOut": lambda given, k: f"leave-{given['p']}-out cross-validation",
    "LeaveOneGroupOut": lambda given, k: "leave-one-group-out cross-validation",
    "LeavePGroupsOut": lambda given, k: (
        f"cross-validation that leaves {counted(given['n_groups'], 'group')} out "
        "at a time"
    ),
    "ShuffleSplit": _splits("random"),
    "StratifiedShuffleSplit": _splits("stratified random"),
    "GroupShuffleSplit": _splits("random", " of groups"),
    "PredefinedSplit": lambda given, k: "cross-validation in predefined folds",
    "TimeSeriesSplit": _splits("successive", " in time"),
    GIVEN: lambda given, k: (
        "a predefined split"
        if set(k) == {1}
        else "cross-validation in predefined folds"
    ),
}


def splitter_words(recorded, n_folds=None):
    """Word a splitter as it is recorded, with a number of folds or one per subject."""
    given = recorded if is_record(recorded) else {"name": recorded}
    kind = given["name"]
    if n_folds is None:
        n_folds = given.get("n_splits", [])
    n_folds = [n_folds] if isinstance(n_folds, int) else list(n_folds)
    if kind not in SPLITTER_WORDS:
        return f"cross-validation with the splitter {name(kind)}"
    words = SPLITTER_WORDS[kind](given, n_folds)
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

#: Permutation scheme -> among which {trials} the labels changed places.
SCHEME_WORDS = {
    "within_folds": "among {trials} of the same training and test sets{and_group}",
    "within_groups": "among {trials} of the same group",
    "groups": "across whole groups",
    "free": "among all {trials}",
}

_CLUSTERS = (
    "Neighbouring {places} beyond a cluster-forming threshold (*p* = {threshold}) "
    "formed clusters. "
)
#: Correction -> how *p* became what it is, and the words beside a p-value. Of places,
#: such as "time points", what is tested at each (score), and what is drawn.
CORRECTION_WORDS = {
    "none": ("*p*-values were not corrected for multiple testing.", "uncorrected"),
    "max": (
        "*p*-values were corrected for testing at {n} by comparing each {score} "
        "with the null distribution of the most extreme {score} across all "
        "{places} of each {draw}, which controls the family-wise error rate "
        "[@Nichols2002].",
        "corrected by the maximum statistic",
    ),
    "max-step-down": (
        "*p*-values were corrected for testing at {n} with the step-down procedure "
        "based on the most extreme {score} across {places} of each {draw}, which "
        "controls the family-wise error rate [@Westfall1993].",
        "corrected by the step-down maximum",
    ),
    "bonferroni": (
        "*p*-values were corrected for testing at {n} with Bonferroni's method.",
        "Bonferroni-corrected",
    ),
    "fdr": (
        "*p*-values were adjusted for testing at {n} with the procedure of Benjamini "
        "and Hochberg, which controls the false discovery rate [@Benjamini1995].",
        "FDR-adjusted",
    ),
    "fdr-by": (
        "*p*-values were adjusted for testing at {n} with the procedure of Benjamini "
        "and Yekutieli, which controls the false discovery rate under any dependence "
        "[@Benjamini2001].",
        "FDR-adjusted",
    ),
    "cluster": (
        _CLUSTERS
        + "The mass of each cluster (the sum of {mass} over its {places}) was "
        "compared with the null distribution of the largest cluster mass of each "
        "{draw} [@Maris2007].",
        "corrected by cluster mass",
    ),
    "cluster-size": (
        _CLUSTERS
        + "The size of each cluster (its number of {places}) was compared with "
        "the null distribution of the largest cluster size of each {draw} "
        "[@Nichols2002].",
        "corrected by cluster size",
    ),
    "tfce": (
        "*p*-values were corrected for testing at {n} with threshold-free cluster "
        "enhancement [@Smith2009]: each enhanced value was compared with the null "
        "distribution of the largest one of each {draw}.",
        "corrected by TFCE",
    ),
    "cluster-fdr": (
        "Clusters were formed from {places} above a position-specific threshold: the "
        "{score} exceeded in a proportion {threshold} of the {draw}s. The size "
        "of each cluster was compared with those of all clusters of all {draw}s, and "
        "*p*-values of clusters were adjusted to control the false discovery rate "
        "[@Stelzer2013].",
        "FDR-adjusted for clusters",
    ),
}

_IN_ALL = " Clusters were formed where all tests exceeded the threshold, and their "
#: What is to be added where several tests have to reject.
COMMON_WORDS = {
    "cluster": f"{_IN_ALL}mass was compared in each test.",
    "cluster-size": f"{_IN_ALL}size was compared in each test.",
    "cluster-fdr": f"{_IN_ALL}size was compared in each test.",
    "tfce": " Values were enhanced using the extent over which all tests exceeded a "
    "height, and were compared in each test.",
}

#: What is tested twice in time generalization.
SECOND_TEST = (
    "Scores were tested twice, once with labels permuted in both training and test "
    "data and once with only the training labels permuted; the larger *p*-value is "
    "reported [@Berger1982]"
)
