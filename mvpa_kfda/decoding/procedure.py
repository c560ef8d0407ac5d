"""What is done with trials: one record, and how public functions are told of it.

A `Procedure` is made of parts: the method, the folds and the samples that trials are
made into, the scores, the permutations, and how it runs.
Each part is checked when it is made, and says what its options mean. Nothing in it is
about data: what is known of these are `Trials`.

A public function writes out the arguments that are its own. The others come in as
``**options: Unpack[SomeOptions]``, a `TypedDict` that type checkers and editors read,
and `decodes` completes the signature, with the defaults of the parts, and the
docstring, with their texts. What the docstring itself says of a shared option, after
"...", is added to the shared text.
"""

from __future__ import annotations

import inspect
import pkgutil
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from difflib import get_close_matches
from functools import partial, wraps
from importlib import import_module
from numbers import Integral
from os import PathLike
from typing import Any, Literal, TypedDict, TypeVar, get_args

import numpy as np
from sklearn.model_selection import KFold

from ..data.epochs import is_even
from ..data.trials import Trials
from ..inference.permutation import BLIND, Permute
from ..kfda.estimator import resolve_method
from ..kfda.folds import (
    DEFAULT_FOLDS,
    CrossValidation,
    find_cut_groups,
    make_folds,
    may_see_labels,
)
from ..kfda.kernels import KernelChoice, KernelLike, Nystrom
from ..kfda.penalties import PenaltyLike
from ..kfda.preprocess import Preprocess, check_steps
from ..metrics.scores import Scoring
from ..results.procedure import OF_THE_RUN
from ..utils.checks import (
    Precision,
    Seed,
    check_checkpoint,
    check_count,
    check_dtype,
    check_flag,
    check_jobs,
    check_option,
    check_positive,
    collected_warnings,
)
from ..utils.fingerprints import collected_inputs, files_of
from ..utils.memory import check_many
from .draws import (
    Draws,
    average_trials,
    count_cells,
    find_left_out,
    seeded_splitters,
)
from .positions import cut_windows
from .problems import refusal
from .run import NULLS, KeptNull


@dataclass(frozen=True)
class Method:
    """What every fold learns; `kernel`, `reg` and steps of `preprocess` become objects.

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
    preprocess : str | transformer | list of these | None
        Preprocessing steps fitted to the training trials of each fold, separately at
        each position, and applied to its test trials: ``"zscore"`` (each feature),
        ``"pca"`` (components with 99 % of the variance), ``"whiten"`` (these with unit
        variance), ``"noise_scale"`` (each feature by its standard deviation within
        classes), a scikit-learn transformer, or a list of these. A relative `reg` and
        the bandwidth of a kernel then refer to each training set. Permutations share
        steps that need no labels. Those that learn from them, such as ``"noise_scale"``
        or ``SelectKBest(k=500)``, are refitted for every permutation, and so is the
        model: about a millisecond for each fold of some ten images, and as much as
        retraining for many trials. None: no preprocessing.
    """

    kernel: KernelLike = "linear"
    reg: PenaltyLike = "auto"
    n_components: int | None = None
    approx: Nystrom | None = None
    precomputed: bool = False
    preprocess: Preprocess = None
    #: The transformers.
    steps: tuple = field(init=False)

    def __post_init__(self):
        """Check kernel, penalty and steps, and make objects of their names."""
        method = resolve_method(self.kernel, self.reg, self.approx, self.precomputed)
        made = *method, check_steps(self.preprocess)
        for name, value in zip(("kernel", "reg", "steps"), made, strict=True):
            # The one way to set a field of a frozen object.
            object.__setattr__(self, name, value)


#: Repeats that are enough for a mean score.
_ENOUGH = 100


@dataclass(frozen=True)
class Repeating:
    """The folds, the samples that trials are made into, and how both are repeated.

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
    average : int | "max" | None
        Number of trials of one class that are averaged, within test sets (and groups),
        into one pseudo-trial; pseudo-trials replace trials in the result. They are
        drawn with `random_state`; remaining trials are left out. ``"max"``: the size of
        the smallest class in any test set (and group).
    n_repeats : int
        Number of repeats, whose scores are averaged: with `average`, trials are
        regrouped at random, without it new random folds are drawn (`cv` is a number, or
        a splitter with random folds). All repeats of a permutation use the same
        permuted labels of trials. ``result.repeats`` has the score of each repeat.
    equalize : bool
        With `average`, make equal numbers of pseudo-trials of all classes in each test
        set (and group), as many as the smallest class allows; each repeat leaves out
        different trials. With ``average=1`` this is random undersampling: trials are
        left out at random until class sizes are equal.
    average_test : bool
        With `average`, test on averages; False tests models trained on averages on
        single trials.
    """

    cv: CrossValidation = None
    average: int | str | None = None
    n_repeats: int = 1
    equalize: bool = False
    average_test: bool = True

    def __post_init__(self):
        """Check what does not depend on folds."""
        n_repeats = check_count("n_repeats", self.n_repeats, minimum=1)
        # As in `Method`: products of small integers of NumPy overflow.
        object.__setattr__(self, "n_repeats", n_repeats)
        for name in ("equalize", "average_test"):
            check_flag(name, getattr(self, name))

    def splitter(self, groups, test=None, train_on=None):
        """`cv`, or for a number of folds that are drawn again and again a splitter."""
        cv, once = self.cv, self.n_repeats == 1 or self.average is not None
        if once or test is not None or train_on is not None:
            return cv
        if cv is None and groups is None:
            cv = DEFAULT_FOLDS
        if not isinstance(cv, Integral):
            return cv
        leak = find_cut_groups(cv, groups)
        if leak:
            leak.warn()
        n_folds = check_count("cv", cv, minimum=2)
        return KFold(n_folds, shuffle=True, random_state=0)

    def check(self, folds, y_test, kernel):
        """Refuse what cannot be repeated; folds are None for tests on other trials."""
        r = self.n_repeats
        check_many(
            r,
            _ENOUGH,
            8 * (1 if folds is None else folds.n),
            f"n_repeats={r:,} times other folds or averages",
            f"fewer repeats; with {_ENOUGH} the mean score hardly changes any more",
        )
        given = f"average={self.average!r}"
        advice = "average out, and average such trials before you decode them"
        if self.average is None:
            if self.equalize or not self.average_test:
                given = "equalize=True" if self.equalize else "average_test=False"
                raise refusal("average: none", given=given)
            if r > 1 and folds is not None and folds.train_mask is not None:
                raise refusal("repeats: train_on", r=r)
            given, advice = f"n_repeats={r}", "n_repeats out"
        what = "y_test, a second label for each trial"
        if folds is None:
            what = (
                "tests on other trials (test_epochs, X_test, in time generalization "
                "train_on without groups or cv)"
            )
        repeated = r > 1 or self.average is not None
        if repeated and (folds is None or y_test is not None):
            raise refusal("repeats: no folds", given=given, what=what, advice=advice)
        chooses = isinstance(kernel, KernelChoice) and not kernel.is_linear
        if self.is_two_sided(folds) and chooses:
            raise refusal("average: kernels", average=self.average)

    def is_two_sided(self, folds):
        """Whether trained and tested samples differ, or folds have training sets."""
        parted = not self.average_test or (folds is not None and folds.trains)
        return self.average is not None and bool(parted)

    def is_shown(self, cv, folds, permute, y_test):
        """Whether a splitter is shown the permuted labels, which may be refused.

        It is if it may look at labels. Of repeats with other folds each is shown them
        anyway.
        """
        kept = permute == "within_folds" or not may_see_labels(cv)
        if kept or folds is None or folds.sees_labels is False:
            return False
        if self.n_repeats > 1 and self.average is None:
            return False
        given = None if self.average is None else f"average={self.average!r}"
        if folds.train_mask is not None:
            given = "train_on"
        if y_test is not None:
            given = "y_test, a second label for each trial"
        if given is not None:
            looks = "looks" if folds.sees_labels else "may look"
            words = {"name": folds.name, "looks": looks, "given": given}
            raise refusal("folds by labels", blind=BLIND, **words)
        return True

    def prepare(self, cv, folds, codes, groups, seed, classes, permuting, y_test):
        """The `Draw` of averages, if there is one, and the `Draws`, if there are any.

        If labels are permuted, some cells of averages must hold several classes.
        """
        permuted = permuting.n_permutations > 0
        shown = permuted and self.is_shown(cv, folds, permuting.permute, y_test)
        once = self.n_repeats == 1 and not self.is_two_sided(folds) and not shown
        if once and self.average is None:
            return None, None
        if once:
            trials = folds, codes, groups, seed, classes
            return average_trials(self.average, *trials, equalize=self.equalize), None
        draws = Draws(folds, groups, seed, self.n_repeats, codes[np.newaxis])
        if self.average is None:
            splitters = (cv,)
            if self.n_repeats > 1:
                splitters = seeded_splitters(cv, folds, groups, self.n_repeats, seed)
            options = {"groups": groups, "classes": classes}
            split = tuple(partial(make_folds, each, **options) for each in splitters)
            return None, replace(draws, split=split, shown=shown)
        options = {"equalize": self.equalize, "average_test": self.average_test}
        cells = count_cells(self.average, folds, codes, groups, classes, **options)
        if permuted and (cells.counts > 0).sum(axis=1).max() < 2:
            raise refusal("regrouped: one class")
        left_out = find_left_out(cells, folds, groups, classes)
        if left_out:
            left_out.warn()
        return None, replace(draws, cells=cells, average_test=self.average_test)

    def record(self, averages, draws):
        """What a result records of it."""
        k = self.average  # maybe "max"
        if averages is not None:
            k = averages.members.shape[1]
        elif draws is not None:
            k = draws.cells and draws.cells.k
        return {
            "average": k,
            "n_repeats": self.n_repeats,
            "equalize": self.equalize,
            "average_test": self.average_test,
            "folds_by_labels": draws is not None and draws.sees_labels,
        }


@dataclass(frozen=True)
class Scores:
    """What is computed from the predictions.

    Parameters
    ----------
    scoring : str | callable | dict | list of these
        Metric name, or list of names, the first of which is in ``result.scores``:
        ``"accuracy"``, ``"balanced_accuracy"``, ``"roc_auc"``, ``"recall"``,
        ``"precision"``, ``"f1"``, ``"recall_macro"``, ``"precision_macro"``,
        ``"f1_macro"``, ``"kappa"``, ``"matthews_corrcoef"``, ``"d_prime"``,
        ``"average_precision"``, ``"neg_log_loss"``, ``"neg_brier_score"``,
        ``"confusion_matrix"``, and for
        :doc:`pairs of classes </rdm>` ``"pairwise_accuracy"``, ``"crossnobis"`` and
        their tables ``"pairwise_accuracies"``, ``"crossnobis_distances"``. With two
        classes, recall, precision, F1 and average precision are those of the second
        class in sorted order, otherwise macro averages. ROC AUC, average precision and
        distances are means over test sets; all others are computed on the predictions
        pooled over them. Distances depend on the
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
    permute : str
        Permutation scheme. ``"within_folds"``: among trials of the same training and
        test sets (and group); ``"within_groups"``: among trials of a group;
        ``"groups"``: whole groups; ``"free"``: all trials; ``"transitions"`` or
        ``"trend"``: for labels that nobody randomised, such as responses; ``"auto"``:
        one of the first four that is valid for the folds and groups, whatever
        `n_permutations`, by the rules of
        :func:`~mvpa_kfda.inference.permutation.permute_labels`. "transitions" exchanges
        stretches of equal labels (within groups), which keeps the number of transitions
        of each kind: exact if a label depends on the one before only. "trend" keeps a
        trend of the labels over the recording, and is approximate. Both take trials in
        the order of recording, and are not for regression.
    null : "auto" | "full" | "max"
        What to keep of the permuted maps, for each metric. ``"full"``: all scores, 4 P
        bytes per position. ``"max"``: the largest score of each map, and for each
        position the number of permutations that reach the observed score; enough for
        all p-values with ``alternative="greater"`` except those of "max-step-down",
        clusters and TFCE. ``"auto"``: ``"full"`` up to 1 GiB; else what ``"max"`` keeps
        and the largest cluster (threshold 0.05) and TFCE score of each map, using a
        temporary file of the size of ``"full"``.
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
        check_option("permute", self.permute, get_args(Permute))
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
    run_by : callable | None
        What runs the analysis in the place of :func:`mvpa_kfda.decoding.run.run`.
    """

    random_state: Seed = None
    n_jobs: int | None = None
    dtype: Precision = "float64"
    verbose: bool | None = None
    checkpoint: str | PathLike[str] | None = None
    run_by: Callable[..., Any] | None = None

    def __post_init__(self):
        """Check all but the seed, which is drawn with."""
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
        """The same with the seed of the run that a checkpoint continues."""
        running, known = self.running, checkpoint and checkpoint.description
        if running.random_state is None and known:
            running = replace(running, random_state=known["random_state"])
        return replace(self, running=running)


#: The parts of a procedure, by name.
PARTS = {part.name: part.default_factory for part in fields(Procedure)}


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
        """The windows of some times (s); single samples may be unevenly spaced."""
        distances = np.diff(times)
        uneven = len(times) > 1 and not is_even(distances)
        if uneven and (self.window is not None or self.step is not None):
            words = {"least": distances.min(), "most": distances.max()}
            raise refusal("times: uneven", **words)
        return cut_windows(times, sfreq, self.window, self.step, self.window_mode)


@dataclass(frozen=True)
class Predicted:
    """What is predicted of a trial.

    Parameters
    ----------
    task : "classification" | "regression"
        ``"regression"`` predicts continuous values, such as reaction times, using
        kernel ridge regression: `y` has one value per trial, which is not passed to
        splitters, and the score is ``"r2"`` unless `scoring` is set to ``"pearsonr"``
        or ``"neg_mean_squared_error"``. `n_components` and `average` are for classes
        only.
    circular : bool
        Of a regression, whether values lie on a circle, as orientations, directions and
        phases do: sine and cosine are regressed, and the prediction is the angle of the
        two. The score is ``"mean_cosine"``, the mean cosine of the error, unless
        `scoring` is set to ``"neg_mean_absolute_error"`` (in the unit of `y`).
    period : float | None
        The value at which a circle is closed, 180 for orientations in degrees. None:
        2 pi, for radians. Only with ``circular=True``.
    """

    task: str = "classification"
    circular: bool = False
    period: float | None = None

    def __post_init__(self):
        """Check what goes together."""
        check_option("task", self.task, ("classification", "regression"))
        check_flag("circular", self.circular)
        if self.circular and self.task != "regression":
            raise ValueError(
                "circular=True is for values, and task='classification' predicts "
                "classes. Pass task='regression', or leave circular out."
            )
        if self.period is not None:
            check_positive("period", self.period, " In the unit of y.")
            if not self.circular:
                raise ValueError(
                    f"period={self.period!r} is the length of a circle, and values "
                    "are taken as numbers. Pass circular=True, or leave period out."
                )

    @property
    def of_values(self):
        """Whether values are predicted, not classes."""
        return self.task == "regression"

    @property
    def turn(self):
        """The length of the circle that values lie on, in their unit; or None."""
        if not self.circular:
            return None
        return 2 * np.pi if self.period is None else float(self.period)


#: What is predicted unless values are asked for.
CLASSES = Predicted()


# ------------------------------------------------------------------- public functions

Function = TypeVar("Function", bound=Callable[..., Any])


class CommonOptions(TypedDict, total=False):
    """What all functions may be told."""

    kernel: KernelLike
    reg: PenaltyLike
    approx: Nystrom | None
    preprocess: Preprocess
    cv: CrossValidation
    n_permutations: int
    permute: Permute
    random_state: Seed
    dtype: Precision


class ClassOptions(CommonOptions, total=False):
    """What all that predict classes may be told."""

    scoring: Scoring
    n_components: int | None
    average: int | Literal["max"] | None
    n_repeats: int
    equalize: bool
    average_test: bool


class TargetOptions(TypedDict, total=False):
    """What values a regression predicts."""

    circular: bool
    period: float | None


class JobOptions(TypedDict, total=False):
    """How many positions are decoded."""

    n_jobs: int | None
    verbose: bool | None


class LoggedJobOptions(TypedDict, total=False):
    """The same where `verbose` may be a level of MNE-Python's log.

    Parameters
    ----------
    verbose : bool | str | int | None
        True (or a level of INFO or below) shows how far the run is, by a bar, or in a
        log by a line now and then; False does not, None only for runs of more than a
        few seconds.
    """

    n_jobs: int | None
    verbose: bool | str | int | None


class WindowOptions(TypedDict, total=False):
    """How time is cut into positions."""

    window: float | None
    step: float | None
    window_mode: Literal["mean", "concatenate"]


class RunOptions(TypedDict, total=False):
    """What is kept of large maps, and where long runs are."""

    null: KeptNull
    checkpoint: str | PathLike[str] | None


#: The functions that were made by `decodes`, by name.
FUNCTIONS: dict[str, Callable[..., Any]] = {}

#: Options that are data, unless they name columns or ask for trials in words.
_OF_TRIALS = ("groups", "confounds", "train_on")

_PARAMETERS = re.compile(r"(?ms)(^Parameters\n-+\n)(.*?)(?=\n\n\S[^\n]*\n---|\Z)")
#: How the text of an argument begins that is added to the shared one.
_MORE = "    ... "


def decodes(
    options: type, *described: type, data: tuple[str, ...] = ()
) -> Callable[[Function], Function]:
    """Make a public function of one that takes shared `options`, a TypedDict.

    Parts of its own whose defaults and texts are needed are `described`. Its result
    keeps what the call warned of, the options but for those that are `data`, and the
    fingerprints of what was read.
    """
    kinds = (*PARTS.values(), Windowing, Trials, *described)

    def decorate(function):
        own = inspect.signature(function)
        first = [p for p in own.parameters.values() if p.kind is not p.VAR_KEYWORD]
        shared, parts = options.__annotations__, filter(is_dataclass, kinds)
        defaults = {each.name: each.default for kind in parts for each in fields(kind)}
        rest = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=defaults[name],
                annotation=getattr(hint, "__forward_arg__", hint),
            )
            for name, hint in shared.items()
        ]
        signature = own.replace(parameters=[*first, *rest])
        function.__doc__ = complete(function.__doc__, signature.parameters, kinds)

        @wraps(function)
        def call(*args, run_by=None, **given):
            unknown = [name for name in given if name not in signature.parameters]
            if unknown:
                raise TypeError(_unexpected(function.__name__, unknown[0], signature))
            with collected_warnings() as texts, collected_inputs() as inputs:
                more = {"run_by": run_by} if run_by else {}
                result = function(*args, **given, **more)
            bound = signature.bind(*args, **given)
            bound.apply_defaults()
            read = {n: x for n, x in bound.arguments.items() if n != "checkpoint"}
            files = files_of(read.values())
            kept = {
                "warnings": tuple(dict.fromkeys(texts)),
                "options": _passed_on(bound, data, result.parameters),
                "inputs": {"function": function.__name__, **inputs, "files": files},
            }
            for name, value in kept.items():
                # The one way to set a field of a frozen object.
                object.__setattr__(result, name, value)
            return result

        call.__signature__ = signature
        hints = {k: v for k, v in function.__annotations__.items() if k != "options"}
        call.__annotations__ = hints | shared
        FUNCTIONS[function.__name__] = call
        return call

    return decorate


def _passed_on(bound, data, parameters):
    """The options of a call that say what was done, with what was drawn.

    `bound` are its arguments, `data` the names of those that are data beside the
    positional ones, and `parameters` is what its result records.
    """
    keywords, options = bound.signature.parameters, {}
    for name, value in bound.arguments.items():
        named = value is None or isinstance(value, str)  # columns, or a query
        if name == "confounds" and isinstance(value, list | tuple):
            # Texts may be categories of the trials, which have no name.
            known = [each["name"] for each in parameters["confounds"] or ()]
            named = known == list(value)
        of_data = name in data or (name in _OF_TRIALS and not named)
        is_option = keywords[name].kind is inspect.Parameter.KEYWORD_ONLY
        if is_option and not of_data and name not in OF_THE_RUN:
            options[name] = value
    options["random_state"] = parameters["random_state"]
    if options.get("approx") is not None:
        kernel = parameters["kernel"]
        first = kernel["kernels"][0] if "kernels" in kernel else kernel
        options["approx"] = first["approx"]
    return options


def describes_options(function: Function) -> Function:
    """Complete the docstring of a function that writes out shared options."""
    kinds = (*PARTS.values(), Windowing, Trials)
    named = inspect.signature(function).parameters
    function.__doc__ = complete(function.__doc__, named, kinds)
    return function


def _unexpected(function, name, signature):
    """Word the error of an argument that a function does not have."""
    text = f"{function}() got an unexpected keyword argument {name!r}"
    for module in pkgutil.iter_modules(import_module(__package__).__path__):
        import_module(f"{__package__}.{module.name}")  # so that all functions are known
    others = sorted(
        f"{other}()"
        for other, each in FUNCTIONS.items()
        if name in inspect.signature(each).parameters
    )
    if others:
        *most, last = others
        words = f"{', '.join(most)} and {last} have" if most else f"{last} has"
        return f"{text}, which {words}"
    near = get_close_matches(name, signature.parameters, n=1)
    return f"{text}. Did you mean {near[0]!r}?" if near else text


# --------------------------------------------------------------------------- docstrings


def complete(doc, parameters, kinds):
    """A docstring whose parameters are described, some by what parts say."""
    if doc is None:  # Python was told to leave docstrings out
        return None
    doc, known = inspect.cleandoc(doc), {}
    for each in (*(kind.__doc__ for kind in kinds), doc):
        for name, entry in entries(each).items():
            known[name] = _described(name, entry, known.get(name))
    texts = dict.fromkeys(known[name] for name in parameters if name in known)
    section = "\n".join(texts)
    return _PARAMETERS.sub(lambda found: found[1] + section, doc, count=1)


def entries(doc):
    """The parameters that a docstring describes, with their entries.

    Several that are described together have the same one.
    """
    section = _PARAMETERS.search(inspect.cleandoc(doc or ""))
    found = {}
    for entry in re.split(r"\n(?=\S)", section[2]) if section else ():
        for name in entry.partition("\n")[0].partition(" : ")[0].split(", "):
            found[name] = entry
    return found


def _described(name, own, shared):
    """The entry of a parameter: its own, or what it adds to the shared one."""
    head, _, text = own.partition("\n")
    if shared is None or not text.startswith(_MORE):
        return own
    head_shared, _, text_shared = shared.partition("\n")
    head = head_shared if head == name else head
    return f"{head}\n{text_shared}\n    {text.removeprefix(_MORE)}"
