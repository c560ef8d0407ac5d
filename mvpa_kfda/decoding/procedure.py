"""What is done with trials: one record, and how public functions are told of it.

A `Procedure` is made of parts: the method, what every fold learns before it, the folds,
the samples that trials are made into, the scores, the permutations, and how it runs.
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
from functools import wraps
from importlib import import_module
from os import PathLike
from typing import Any, Literal, TypedDict, TypeVar, get_args

import numpy as np

from ..data.epochs import is_even
from ..data.trials import Trials
from ..inference.permutation import Permute
from ..kfda.folds import CrossValidation
from ..kfda.kernels import KernelLike
from ..kfda.penalties import PenaltyLike
from ..kfda.preprocess import Preprocess, check_steps
from ..kfda.rowmaps import Nystrom, resolve_method
from ..metrics.names import Scoring
from ..results.procedure import passed_on
from ..utils.checks import (
    Precision,
    Seed,
    check_checkpoint,
    check_count,
    check_dtype,
    check_flag,
    check_jobs,
    check_option,
    collected_warnings,
)
from ..utils.fingerprints import collected_inputs, files_of
from .draws import Repeating
from .positions import cut_windows
from .problems import refusal
from .run import NULLS, KeptNull


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
    """

    random_state: Seed = None
    n_jobs: int | None = None
    dtype: Precision = "float64"
    verbose: bool | None = None
    checkpoint: str | PathLike[str] | None = None

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


class Predicted:
    """The kind of prediction over time.

    Parameters
    ----------
    task : "classification" | "regression"
        ``"regression"`` predicts continuous values, such as reaction times, using
        kernel ridge regression: `y` has one value per trial, which is not passed to
        splitters, and the score is ``"r2"`` unless `scoring` is set to ``"pearsonr"``
        or ``"neg_mean_squared_error"``. `n_components` and `average` are for classes
        only.
    """


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


class ClassScoreOptions(TypedDict, total=False):
    """What is kept beside predictions."""

    keep_class_scores: bool


class NullOptions(TypedDict, total=False):
    """What is kept of large maps."""

    null: KeptNull


class CheckpointOptions(TypedDict, total=False):
    """Where long runs are kept."""

    checkpoint: str | PathLike[str] | None


#: The functions that were made by `decodes`, by name.
FUNCTIONS: dict[str, Callable[..., Any]] = {}

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
        def call(*args, **given):
            unknown = [name for name in given if name not in signature.parameters]
            if unknown:
                raise TypeError(_unexpected(function.__name__, unknown[0], signature))
            with collected_warnings() as texts, collected_inputs() as inputs:
                result = function(*args, **given)
            bound = signature.bind(*args, **given)
            bound.apply_defaults()
            read = {n: x for n, x in bound.arguments.items() if n != "checkpoint"}
            files = files_of(read.values())
            kept = {
                "warnings": tuple(dict.fromkeys(texts)),
                "options": passed_on(bound, data, result.parameters),
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
