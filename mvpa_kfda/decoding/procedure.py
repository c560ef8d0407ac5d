"""What is done with trials: one record, the same for every kind of data.

A `Procedure` is made of parts: the method, what every fold learns before it, the folds,
the samples that trials are made into, the scores, the permutations, and how it runs.
Each part is checked when it is made, and says what its options mean; the public
functions take these texts from here. Nothing in it is about data: that is `TrialData`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from os import PathLike
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from ..data.confounds import ConfoundTable, TrainOn
from ..inference.permutation import Permute
from ..kfda.folds import CrossValidation
from ..kfda.kernels import KernelLike
from ..kfda.models import resolve_method
from ..kfda.penalties import PenaltyLike
from ..kfda.preprocess import Preprocess, check_steps
from ..kfda.rowmaps import Nystrom
from ..metrics.names import Scoring
from ..utils.checks import (
    Precision,
    Seed,
    check_checkpoint,
    check_count,
    check_dtype,
    check_flag,
    check_jobs,
    check_option,
)
from .positions import cut_windows
from .repeating import Repeating
from .sizes import NULLS, KeptNull


@dataclass(frozen=True)
class Method:
    """The classifier, or what predicts numbers; `kernel` and `reg` become objects.

    Parameters
    ----------
    kernel : str | kernel object | callable | list of these
        The kernel: ``"linear"``, ``"rbf"`` (Gaussian), ``"polynomial"``, an object such
        as ``RBF(gamma=0.1)`` or ``GraphSmooth(adjacency)``, or a function ``f(X, Y) ->
        (n_x, n_y)``. From a list of these, one is selected with a tuned `reg`.
    reg : float | str | penalty object | list of these
        The penalty. ``"auto"`` sets it by the features of all trials that are trained
        with in some fold, without labels, so one matrix serves all folds and
        permutations: it is the best for effects that lie where noise lies (see
        :doc:`/guide/penalty` for what that gives up; in regression, labels choose).
        ``"tuned"``, a list, or :class:`Tuned`: labels select it within each training
        set, and again for each permutation. A float is relative: lambda = reg *
        trace(K_c) / n, with the centred kernel matrix K_c of n trials, so the unit of
        the features does not matter. These are all trials, but the training trials of
        each fold if folds have their own matrices (`preprocess`, `confounds`, training
        sets of any trials), even if a step changes nothing. :class:`Ridge` is absolute
        and the same for all folds, :class:`Shrinkage` in units of the covariance's
        trace, :class:`DegreesOfFreedom` sets the flexibility of the model;
        ``"ledoit_wolf"`` and ``"oas"`` estimate the shrinkage, for linear kernels and
        independent trials (for single scans it is too small).
    n_components : int | None
        Classify with the first discriminants only (reduced rank); None: with all c - 1
        for c classes.
    approx : Nystrom | None
        Approximate the kernel with landmarks, for example ``Nystrom(200)``, to avoid an
        (n, n) matrix for many trials; None: use the exact kernel.
    precomputed : bool
        Whether the data may be a kernel matrix.
    """

    kernel: KernelLike = "linear"
    reg: PenaltyLike = "auto"
    n_components: int | None = None
    approx: Nystrom | None = None
    precomputed: bool = False

    def __post_init__(self):
        """Check kernel and penalty, and make objects of their names."""
        method = resolve_method(self.kernel, self.reg, self.approx, self.precomputed)
        for name, value in zip(("kernel", "reg"), method, strict=True):
            # The one way to set a field of a frozen object.
            object.__setattr__(self, name, value)


@dataclass(frozen=True)
class Learning:
    """What every fold learns before the model.

    Parameters
    ----------
    preprocess : str | transformer | list of these | None
        Preprocessing steps fitted to the training trials of each fold, separately at
        each position, and applied to its test trials: ``"zscore"`` (each feature),
        ``"pca"`` (components with 99 % of the variance), ``"whiten"`` (these with unit
        variance), a scikit-learn transformer that needs no labels, or a list of these.
        All permutations share them; a relative `reg` and the bandwidth of a kernel then
        refer to each training set. None: no preprocessing.
    """

    preprocess: Preprocess = None
    #: The transformers.
    steps: tuple = field(init=False)

    def __post_init__(self):
        """Check the steps."""
        object.__setattr__(self, "steps", check_steps(self.preprocess))


@dataclass(frozen=True)
class Splitting:
    """How trials are parted into training and test sets.

    Parameters
    ----------
    cv : None | int | splitter | iterable of (train, test)
        None: leave one group out if `groups` are given, else 10 folds. An int: the
        number of folds of neighbouring trials, made without the labels; it is increased
        if a training set would lack a class. Of rows sorted by class, each fold tests
        the same part of each class, with a warning. Training sets may contain any
        trials outside their test set; if some do not contain all of these, a relative
        `reg` and the bandwidth of a kernel refer to each training set. Test sets may
        overlap or miss trials. All permutations share the folds, unless the splitter
        uses the labels (StratifiedKFold): then it is run on the labels of each
        permutation, which requires a separate model for each. A list of index arrays is
        shared by all.
    """

    cv: CrossValidation = None


@dataclass(frozen=True)
class Scores:
    """What is computed from the predictions.

    Parameters
    ----------
    scoring : str | callable | dict | list of these
        Metric name, or list of names, the first of which is in ``result.scores``:
        ``"accuracy"``, ``"balanced_accuracy"``, ``"roc_auc"``, ``"recall"``,
        ``"precision"``, ``"f1"``, ``"recall_macro"``, ``"precision_macro"``,
        ``"f1_macro"``, ``"kappa"``, ``"confusion_matrix"``, and for
        :doc:`pairs of classes </rdm>` ``"pairwise_accuracy"``, ``"crossnobis"`` and
        their tables ``"pairwise_accuracies"``, ``"crossnobis_distances"``. With two
        classes, recall, precision and F1 are those of the second class in sorted order,
        otherwise macro averages. ROC AUC and distances are means over test sets; all
        others are computed on the predictions pooled over them. Distances depend on the
        size of the penalty: fix it, as by ``reg=0.1``. A dict has means over chosen
        pairs of classes by name, ``{"between": [("face", "house")]}``: of distances, or
        of accuracies if the list contains only these. A function ``f(y_true, y_pred,
        class_scores) -> float`` is a custom metric: its value is averaged over test
        sets. With permutations it is slow.
    keep_class_scores : bool
        Keep the class scores of all trials, for example to correlate them with
        behaviour: ``result.class_scores``, ``.decision_values()`` and
        ``.probabilities()``. They need memory for one number per trial, class and
        position.
    """

    scoring: Scoring = "accuracy"
    keep_class_scores: bool = False

    def __post_init__(self):
        """Check the flag; metrics are checked where it is known what is predicted."""
        check_flag("keep_class_scores", self.keep_class_scores)


@dataclass(frozen=True)
class Permuting:
    """The null distribution.

    Parameters
    ----------
    n_permutations : int
        Number of label permutations P for the null distribution; 0 for none. If fewer
        distinct ones exist, all of them are used.
    permute : "auto" | "within_folds" | "within_groups" | "groups" | "free"
        Permutation scheme. ``"within_folds"``: among trials of the same training and
        test sets (and group); ``"within_groups"``: among trials of a group;
        ``"groups"``: whole groups; ``"free"``: all trials; ``"auto"``: a valid scheme
        for the folds and groups, whatever `n_permutations`, by the rules of
        :func:`~mvpa_kfda.inference.permutation.permute_labels`.
    null : "auto" | "full" | "max" | "stream"
        What to keep of the permuted maps, for each metric. ``"full"``: all scores, 4 P
        bytes per position. ``"max"``: the largest score of each map, and for each
        position the number of permutations that reach the observed score; enough for
        all p-values with ``alternative="greater"`` except those of "max-step-down",
        clusters and TFCE. ``"stream"``: these, and the largest cluster (threshold 0.05)
        and TFCE score of each map, using a temporary file of the size of ``"full"``.
        ``"auto"``: ``"full"`` up to 1 GiB, else ``"max"``.
    keep_all : bool
        Whether all scores are kept in double precision, whatever `null` says.
    """

    n_permutations: int = 0
    permute: Permute = "auto"
    null: KeptNull = "auto"
    keep_all: bool = False

    def __post_init__(self):
        """Check what does not depend on folds and groups."""
        number = check_count("n_permutations", self.n_permutations)
        object.__setattr__(self, "n_permutations", number)
        check_option("null", self.null, NULLS)

    @property
    def kept(self):
        """What is kept of the permutations' maps, "all" for all in full precision."""
        return "all" if self.keep_all else self.null


@dataclass(frozen=True)
class Running:
    """How it runs: apart from the seed, no result depends on it.

    Parameters
    ----------
    random_state : int | Generator | RandomState | None
        Seed of the permutations. With None, p differs from call to call; set a number,
        such as 0, and report it.
    batch_size : int | None
        Permutations processed at a time; memory grows with it. None chooses by cache
        size. The result does not depend on it.
    n_jobs : int | None
        Number of workers, as in joblib: None is 1 (or what ``joblib.parallel_config``
        says), -1 all processors. The result does not depend on it. Starting workers
        takes about a second, so they pay off in longer runs.
    dtype : "float64" | "float32"
        Precision used for observed and permuted labels. float32 saves up to half of the
        time, and may change predictions if two classes have almost equal scores: hardly
        ever with two classes, in a few percent of trials with many classes and few
        features.
    verbose : bool | None
        True shows progress as a bar, or in a log as an occasional line; False does not;
        None does so only for runs of more than a few seconds.
    checkpoint : None | str | path-like
        A file in which finished blocks of positions are saved. The same call with the
        same file resumes an interrupted run, with the same result. The file is not
        deleted at the end.
    """

    random_state: Seed = None
    batch_size: int | None = None
    n_jobs: int | None = None
    dtype: Precision = "float64"
    verbose: bool | None = None
    checkpoint: str | PathLike[str] | None = None

    def __post_init__(self):
        """Check all but the seed, which is drawn with."""
        if self.batch_size is not None:
            size = check_count("batch_size", self.batch_size, minimum=1)
            object.__setattr__(self, "batch_size", size)
        object.__setattr__(self, "n_jobs", check_jobs(self.n_jobs))
        object.__setattr__(self, "dtype", check_dtype(self.dtype))
        check_checkpoint(self.checkpoint)


def taken(kind, options, **settled):
    """Make a part of those of the options that it knows, and of what is `settled`."""
    names = {each.name for each in fields(kind) if each.init}
    known = {name: value for name, value in options.items() if name in names}
    return kind(**known, **settled)


@dataclass(frozen=True)
class Procedure:
    """All that is done with trials."""

    method: Method = field(default_factory=Method)
    learning: Learning = field(default_factory=Learning)
    splitting: Splitting = field(default_factory=Splitting)
    repeating: Repeating = field(default_factory=Repeating)
    scores: Scores = field(default_factory=Scores)
    permuting: Permuting = field(default_factory=Permuting)
    running: Running = field(default_factory=Running)

    @classmethod
    def of(cls, options: Mapping[str, Any], **settled: Any) -> Procedure:
        """Make it of a public function's options, and of what that function settles.

        Options of other parts, as of windows, are left alone.
        """
        given = {**options, **settled}
        return cls(**{part: taken(kind, given) for part, kind in PARTS.items()})

    def resumed(self, checkpoint):
        """Return the same with the seed of the run that a checkpoint continues."""
        running, known = self.running, checkpoint and checkpoint.description
        if running.random_state is None and known:
            running = replace(running, random_state=known["random_state"])
        return replace(self, running=running)


#: The parts of a procedure, by name.
PARTS = {
    "method": Method,
    "learning": Learning,
    "splitting": Splitting,
    "repeating": Repeating,
    "scores": Scores,
    "permuting": Permuting,
    "running": Running,
}


@dataclass(frozen=True)
class Windowing:
    """How time is cut into positions.

    Parameters
    ----------
    window : float | None
        Length of a sliding window in seconds, rounded to samples. None: one sample.
    step : float | None
        Distance between windows in seconds, rounded to samples. None: one sample.
    window_mode : "mean" | "concatenate"
        Average the samples in a window, or use all of them as features.
    """

    window: float | None = None
    step: float | None = None
    window_mode: Literal["mean", "concatenate"] = "mean"

    def __post_init__(self):
        """Check what does not depend on the times."""
        check_option("window_mode", self.window_mode, ("mean", "concatenate"))

    def cut(self, times, sfreq):
        """Return the windows of some times (s)."""
        return cut_windows(times, sfreq, self.window, self.step)


@dataclass(frozen=True, eq=False, kw_only=True)
class TrialData:
    """What is known of trials beside their features.

    Parameters
    ----------
    y : array_like, shape (n_trials,)
        Class labels: strings, whole numbers or booleans; two or more classes.
    groups : array_like, shape (n_trials,) | None
        Runs, sessions or subjects: ``cv=None`` leaves out one at a time, they are
        passed to splitters that use groups, and `permute` respects them.
    confounds : array_like, shape (n_trials,) | (n_trials, n_confounds) | None
        Regressed out of the features before `preprocess`, with coefficients estimated
        on the training trials of each fold. Strings and pandas categoricals are
        categorical, all others continuous. Only linear effects are removed: add squares
        and products as columns, and pass angles as sine and cosine.
    train_on : array_like of bool, shape (n_trials,) | None
        Which trials to train on; all others are test trials (cross-decoding). With
        `groups` or `cv`, each fold trains on these trials of its training set and tests
        on the others of its test set, so that whole runs are left out. Without either,
        one model is trained on all of them and tested on all others. Only the training
        labels are permuted (within groups, depending on `permute`): the null hypothesis
        is that the training trials carry no information about the test trials, which
        may well be decodable themselves. A relative `reg` and the bandwidth of a kernel
        refer to each training set. Not for regression.
    n : int
        The number of training trials, or all.
    numbers : ndarray of int, shape (n,) | None
        Those of the trials in the recording, where they are known.
    y_test : array_like | None
        Another labelling of the same trials, to be predicted in cross-validation, or
        with `n_test` the labels of other trials.
    n_test : int | None
        With other trials as the test set, how many.
    confounds_test : ConfoundTable | None
        The confounds of these.
    """

    y: ArrayLike
    n: int
    groups: ArrayLike | None = None
    confounds: ConfoundTable | None = None
    train_on: TrainOn | None = None
    numbers: np.ndarray | None = None
    y_test: ArrayLike | None = None
    n_test: int | None = None
    confounds_test: ConfoundTable | None = None

    @property
    def recorded_order(self):
        """The rows in the order of recording, (n,); None if that is known to be theirs.

        Or not known to be another one.
        """
        order = None if self.numbers is None else np.argsort(self.numbers)
        return None if order is None or (np.diff(order) > 0).all() else order

    @property
    def chosen_by(self):
        """How a result records which trials are trained with, None for any."""
        return None if self.train_on is None else self.train_on.record
