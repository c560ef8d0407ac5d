"""What every decoding function does: check, draw, run, and pack.

A decoding function reads its input, which gives `Trials` and data, has all that is not
about the data checked and drawn (`make_analysis`), lays out positions, and hands both
to `decode`. A regression is an analysis with other metrics, in which values take the
place of classes.
"""

from dataclasses import dataclass, replace
from dataclasses import fields as dataclass_fields
from functools import partial

import numpy as np

from ..data.trials import Trials
from ..inference.permutation import Permutations, permute_labels
from ..kfda.folds import (
    Folds,
    InnerFolds,
    cross_folds,
    left_out_folds,
    make_folds,
    may_see_labels,
    sees_labels,
)
from ..kfda.models import kernels_of
from ..kfda.penalties import Auto, Tuned, name_of_rule
from ..kfda.preprocess import FoldPreprocessing, check_kernel_after
from ..metrics.classes import METRICS, chance_level
from ..metrics.names import (
    check_regression_scoring,
    check_scoring,
    function_metrics,
    name_functions,
    record_pairs,
)
from ..utils.checks import (
    check_components,
    check_labels,
    check_option,
    check_per_trial,
    draw_seed,
    quoted,
)
from ..utils.fingerprints import note_input
from ..utils.memory import check_memory
from ..utils.record import recorded, versions
from .averaging import Draw
from .orders import find_in_values, warn_of_order
from .problems import (
    check_distances,
    check_sets,
    check_sizes,
    find_absent_class,
    find_alike_names,
    find_misread,
    warn_of,
    warn_of_spread,
)
from .procedure import Procedure
from .regression import RegressionTask, check_values, refuse_class_options
from .resume import describe_run
from .run import Task, run
from .sizes import NullBudget, check_null

_NEEDS_CLASSES = (
    "needs classes, but the values of a regression are continuous. Use KFold, "
    "GroupKFold, ShuffleSplit or a number of folds."
)


@dataclass(frozen=True)
class Analysis:
    """The checked arguments of a decoding analysis that are not about the data."""

    #: The sorted labels, (c,); None where values are predicted.
    classes: np.ndarray | None
    #: Each trial's class, or its value, (n,).
    codes: np.ndarray
    #: Each trial's group, (n,).
    groups: np.ndarray | None
    #: Drawn once from the observed labels; None when the test set is other trials.
    folds: Folds | None
    #: The classes or values to be predicted, (n_tested,).
    tested: np.ndarray
    #: Classes to be predicted, permuted along with the trained labels (P + 1, n); None:
    #: those of other trials.
    permuted_test_labels: np.ndarray | None
    #: The label vectors, observed first.
    permutations: Permutations
    #: What the run loop needs of all this.
    task: Task
    #: Plain values that, with the data, redo the analysis.
    parameters: dict
    #: The single trials, where all else is about pseudo-trials.
    trials: Draw
    #: Which trials are averaged; None for none.
    averaging: Draw | None
    #: The trials in each pseudo-trial, (n, k), of all repeats.
    members: np.ndarray | None
    #: What was asked for.
    procedure: Procedure

    @property
    def train_mask(self):
        """Which trials are trained with (n,), all others tested; None: any may be."""
        return None if self.folds is None else self.folds.train_mask

    @property
    def trained_trials(self):
        """The same of single trials."""
        return None if self.trials.folds is None else self.trials.folds.train_mask

    def of_trained(self, data):
        """The data (..., n, p) of the trials that are trained with."""
        trained = self.trained_trials
        return data if trained is None else data[..., trained, :]

    @property
    def test_labels(self):
        """The labels to be predicted where they are not those trained with."""
        same = self.folds is not None and np.array_equal(self.tested, self.codes)
        return None if same else self.tested

    def task_for(self, positions):
        """The task of some positions.

        Where a model is tested at other positions than its own, there are two tests in
        cross-validation: in the first null the tested labels are permuted along with
        the trained ones, in the second they stay. Where no trial is both trained with
        and tested, the tested labels stay, and that is all.
        """
        permuted = self.permutations.n_permutations
        if not positions.row or self.train_mask is not None or not permuted:
            return self.task
        second = self.permuted_test_labels
        if self.test_labels is None:
            second = self.tested[None]
        return replace(self.task, second=second)

    def average(self, data, kernel, axis=0):
        """Data and kernel of pseudo-trials, if trials are to be averaged.

        A linear kernel is given averaged features, others average their values.
        """
        if self.averaging is None:
            return data, kernel
        return self.averaging.both(data, kernel, axis)


def make_analysis(
    trials, procedure, positions=None, shape=(), *, task="classification", **options
):
    """Check what a `Procedure` does with `Trials`, and draw what is random.

    What is kept of maps of a `shape`, of this kind of `Positions`, is measured before
    any label is drawn. `options` are those of the `Task`, as ``with_patterns``.
    """
    check_option("task", task, ("classification", "regression"))
    _note(trials)
    if task == "regression":
        refuse_class_options(procedure, trials)
    scoring, functions, n_scalar = _check_scores(procedure.scores.scoring, task)
    reg, permuting = procedure.method.reg, procedure.permuting
    values, groups = None, trials.groups
    if task == "regression":
        values = check_values(trials.y, trials.n)
        classes, codes, targets = None, values.codes, values.given
        reg = Tuned() if isinstance(reg, Auto) else reg
    else:
        classes, codes = check_labels(trials.y, trials.n)
        warn_of(find_alike_names(codes, classes))
        targets = codes
    if groups is not None:
        groups = check_per_trial(groups, trials.n, "groups")
    cv, others = procedure.splitting.cv, (trials.test, trials.train_on)
    if values is not None:
        folds = _folds_of_values(cv, values, groups, trials.numbers)
    else:
        cv = procedure.repeating.splitter(cv, groups, *others)
        folds = draw_folds(cv, codes, groups, classes, *others, trials.numbers)
    learned = _learned(trials, procedure, folds)
    others = trials.test and trials.test.confounds
    warn_of(*find_misread(trials.confounds, groups, folds, others))
    repeating, permuted = procedure.repeating, permuting.n_permutations > 0
    repeating.check(folds, trials.y_test, procedure.method.kernel)
    seed = draw_seed(procedure.running.random_state)
    asked = cv, folds, permuting.permute, trials.y_test
    is_shown = permuted and repeating.is_shown(*asked)
    of_trials = Draw(None, targets, groups, folds)
    asked = cv, folds, codes, groups, seed, classes, permuted, is_shown
    averaging, draws = repeating.prepare(*asked)
    if averaging is not None:
        codes, groups, folds = averaging.codes, averaging.groups, averaging.folds
        targets, learned = codes, learned.averaged(averaging)
    tested = targets if values else _check_tested(trials, classes, codes)

    def check(n_permutations):
        if values is not None:
            what = f"To permute {trials.n} values {n_permutations} times"
            check_memory(8 * trials.n * n_permutations, what, "fewer permutations")
        if positions is not None:
            maps = NullBudget(permuting.kept, shape, positions.fewer)
            maps.check(n_scalar, n_permutations)

    permutations, labels, permuted_test_labels = _permute(
        codes,
        None if values or trials.test else tested,
        permuting.n_permutations,
        folds=folds if draws is None else draws.kept_folds,
        groups=groups,
        alike=values is None,
        permute=draws.scheme(permuting.permute) if draws else permuting.permute,
        random_state=seed,
        check=check,
    )
    inner = partial(_make_inner_folds, reg)
    samples = averaging or Draw(None, targets, groups, folds)
    if draws is None:
        inner = inner(None if values else codes, groups, folds)
    else:
        draws = draws.of(labels, inner)
        inner, samples = draws.inner_folds[0], draws.samples()
        tested = samples.codes
    asked = {
        "folds": samples.folds,
        "scoring": scoring,
        "dtype": procedure.running.dtype,
        "functions": function_metrics(functions, classes),
        "learned": learned.seeded(seed),
        "inner": inner,
    }
    if values is not None:
        asked |= {"mean": values.mean, "scale": values.scale, "n_classes": None}
        task = RegressionTask(labels=values.levels[labels], **asked)
    else:
        rank = procedure.method.n_components
        if rank is not None:
            rank = check_components(rank, len(classes))
            rank = None if rank == len(classes) - 1 else rank
        task = Task(
            labels=labels,
            n_classes=len(classes),
            keep_class_scores=bool(procedure.scores.keep_class_scores),
            rank=rank,
            groups=groups,
            draws=draws,
            **asked,
            **options,
        )
    parameters = {
        "cv": of_trials.folds and of_trials.folds.splitter,
        "recorded_order": trials.recorded_order,
        **_record(procedure.method, reg, task, learned, permutations),
        "random_state": seed,
    }
    if values is not None:
        parameters["task"] = "regression"
    else:
        parameters |= repeating.record(averaging, draws) | record_pairs(task.functions)
        parameters["train_on"] = trials.train_on and trials.train_on.record
        parameters["class_sizes"] = np.bincount(of_trials.codes).tolist()
    analysis = Analysis(
        classes,
        samples.codes,
        samples.groups,
        samples.folds,
        tested,
        permuted_test_labels,
        permutations,
        task,
        parameters,
        of_trials,
        averaging,
        samples.members,
        procedure,
    )
    if values is not None:
        warn_of(*find_in_values(values.given, groups, trials.numbers, folds))
        return analysis
    warn_of_order(analysis, of_trials.folds, trials.numbers)
    tests = [np.arange(len(tested))] if samples.folds is None else samples.folds.tests
    check_sets(task.metrics, tests, tested, classes, procedure.repeating.n_repeats)
    check_distances(task.metrics, procedure.method.reg, permuting.n_permutations)
    return analysis


def _record(method, reg, task, learned, permutations):
    """What a result records about method, folds, scores and permutations."""
    record = {
        "kernel": recorded(method.kernel),
        "reg": recorded(name_of_rule(method.reg)),
        "n_components": method.n_components,
        "average": None,
        "n_folds": task.n_folds,
        "scoring": task.scoring,
        **learned.record(),
        "n_permutations": permutations.n_permutations,
        "permute": permutations.scheme,
        "exact": permutations.exact,
        "renamings": permutations.renamings,
        "dtype": task.dtype.name,
    }
    if isinstance(reg, Tuned):
        record["kernels"] = [recorded(each) for each in kernels_of(method.kernel)]
    return record


def _note(trials):
    """Let the result keep the fingerprints of what is known of trials."""
    test = trials.test or Trials(y=trials.y_test, n=trials.n)
    known = {
        "y": trials.y,
        "groups": trials.groups,
        "y_test": test.y,
        "confounds": trials.confounds and trials.confounds.columns,
        "confounds_test": test.confounds and test.confounds.columns,
        "train_on": trials.train_on and trials.train_on.mask,
    }
    for name, values in known.items():
        note_input(name, values)


def _check_scores(scoring, task):
    """The names of metrics, functions among them, and how many have a null."""
    if task == "regression" and isinstance(scoring, str) and scoring == "accuracy":
        scoring = "r2"  # which is the default there
    scoring, functions = name_functions(scoring)
    check = check_regression_scoring if task == "regression" else check_scoring
    scoring = check(scoring, functions)
    n_scalar = sum(name not in METRICS or METRICS[name].scalar for name in scoring)
    return scoring, functions, n_scalar


def _learned(trials, procedure, folds):
    """What every fold learns, steps and how confounds are taken out; or refuse it."""
    kernel, average = procedure.method.kernel, procedure.repeating.average
    given, learned = "confounds", FoldPreprocessing(procedure.learning.steps)
    if learned.steps:
        given = f"preprocess={procedure.learning.preprocess!r}"
    if trials.confounds is not None:
        learned = _with_confounds(learned, trials, folds)
    if learned:
        check_kernel_after(kernel, learned, given)
    if average is not None and learned and not kernel.is_linear:
        raise ValueError(
            f"average={average} with a kernel that is not linear, {kernel!r}, averages "
            f"in feature space, where {given} has no meaning. Use a linear kernel, or "
            "average trials before you decode them."
        )
    return learned


def _with_confounds(learned, trials, folds):
    """The same with confounds; not of other trials, and not if they explain all."""
    confounds, others = trials.confounds, trials.test and trials.test.confounds
    if folds is None and others is None:
        raise ValueError(
            "confounds are known for the training trials, but the models are tested on "
            "other trials (X_test, test_epochs), whose confounds are not. Leave "
            "confounds out, or pass all trials in one set with your own folds, "
            "cv=[(train, test)]."
        )
    smallest, of = trials.n, "the only training set"
    if folds is not None:
        smallest = min(len(train) for train, _ in folds.pairs)
        of = f"the smallest training set of {folds.name}"
    if confounds.size + 1 >= smallest:
        raise ValueError(
            f"confounds has {confounds.size} columns (categories count one less than "
            f"there are), and {of} holds {smallest} trials: they would explain "
            "everything. Use fewer confounds, or larger training sets."
        )
    # One unit for all: among seconds and volts the regression would drop the volts.
    centre, spread = confounds.unit
    rounding = np.finfo(float).eps * np.max(np.abs(confounds.columns) / spread)
    return replace(
        learned,
        confounds=(confounds.columns - centre) / spread,
        others=None if others is None else (others.columns - centre) / spread,
        named=tuple(confounds.record()),
        n_confounds=confounds.size,
        rounding=float(rounding),
    )


def _permute(codes, tested, n_permutations, *, folds, groups, alike, **options):
    """The permutations, and trained and tested labels (P + 1, n) by them.

    Two labellings of a trial are permuted together, as one label. Without a second one,
    since other trials are tested, there are no tested labels to permute. Where some of
    the trials are chosen to train with, only their labels are permuted.
    """
    chosen, of_all = None if folds is None else folds.train_mask, codes
    if chosen is not None:
        groups = None if groups is None else groups[chosen]
        folds = left_out_folds(folds)
        codes, tested, alike = codes[chosen], None, False
    # Two labellings have pairs of classes, which cannot be renamed one by one.
    alike = alike and (tested is None or np.array_equal(tested, codes))
    options |= {"folds": folds, "groups": groups, "alike": alike}
    n_classes = int(codes.max()) + 1
    pairs = codes if tested is None else codes * n_classes + tested
    used, pairs = np.unique(pairs, return_inverse=True)
    trained = used if tested is None else used // n_classes
    permutations = permute_labels(pairs, n_permutations, classes=trained, **options)
    used = used.astype(np.min_scalar_type(-int(used.max()) - 1))  # fast to compare
    labels, permuted_test_labels = used[permutations.labels], None
    if tested is not None:
        labels, permuted_test_labels = np.divmod(labels, n_classes)
    if len(labels) > 1 and (labels[1:] == labels[0]).all():
        raise ValueError(
            f"permute={permutations.scheme!r} leaves the training labels unchanged: "
            "they are equal within each permutation block, only those of y_test are "
            "not. Use permute='free', other groups, or n_permutations=0."
        )
    if chosen is not None:
        permuted = labels
        labels = np.tile(of_all.astype(permuted.dtype), (len(permuted), 1))
        labels[:, chosen] = permuted
    return permutations, labels, permuted_test_labels


def _folds_of_values(cv, values, groups, numbers):
    """The folds of values, which no splitter is shown, so that they may be permuted."""
    if sees_labels(cv):
        raise ValueError(
            f"cv={cv!r} {_NEEDS_CLASSES} To balance the folds by binned values, pass "
            "cv=list(splitter.split(X, bins))."
        )
    nothing = np.zeros(len(values.given), np.intp)
    folds = make_folds(cv, nothing, groups, numbers=numbers, values=values.given)
    if folds.sees_labels is None and may_see_labels(cv):
        return replace(folds, sees_labels=False)  # there was nothing to look at
    return folds


def draw_folds(cv, codes, groups, classes, test, train_on, numbers=None):
    """The folds; None for a test on other trials."""
    if train_on is not None:
        return _draw_cross_folds(cv, codes, groups, classes, train_on, numbers)
    if test is None:
        folds = make_folds(cv, codes, groups, classes, numbers)
        warn_of(find_absent_class(folds, codes, classes))
        sets = ((codes[train], codes[test]) for train, test in folds.pairs)
        if groups is not None and not any(np.intersect1d(*pair).size for pair in sets):
            raise ValueError(
                f"No fold of {folds.name} trains on a class that it tests, so that no "
                "model sees the class it is tested on. Groups should be runs, sessions "
                "or subjects that hold trials of several classes, or several groups of "
                "each class."
            )
        return folds
    if cv is not None:
        raise ValueError(
            "cv has no meaning here: the model is trained on all trials and "
            "tested on others. Leave cv out; for test data that are the same trials in "
            "the same order, use same_trials=True."
        )
    return None


def _draw_cross_folds(cv, codes, groups, classes, train_on, numbers=None):
    """The same, that train on some trials and test the others."""
    train_on.check_labels(classes[codes])
    given = None
    if cv is not None or groups is not None:
        given = make_folds(cv, codes, groups, classes, numbers, train_on.mask)
    folds = cross_folds(given, train_on.mask)
    for number, (train, test) in enumerate(folds.pairs):
        where = ""
        if given is not None:
            left_out = given.tests[number]
            names = () if groups is None else np.unique(groups[left_out])
            group = f" (group {names[0].item()!r})" if len(names) == 1 else ""
            where = f" in fold {number} of {given.name}{group}"
        if len(test) == 0:
            raise ValueError(
                f"{train_on.given} leaves no trial to test{where}: all {len(left_out)} "
                "trials of its test set are selected for training. Select fewer, leave "
                "that test set out, or pass other folds. To train on whole runs and "
                "test on others, pass cv=[(train, test)] with the indices of both."
            )
        present = np.unique(codes[train])
        if len(present) < 2:
            only = [f"trials of class {str(classes[k])!r} only" for k in present]
            raise ValueError(
                f"{train_on.given} leaves {(only or ['no trial'])[0]} to train "
                f"on{where}; a model needs trials of two or more classes. Select "
                "more trials, or pass folds whose training sets hold more of them."
            )
    warn_of(find_absent_class(folds, codes, classes))
    return folds


def _check_tested(trials, classes, codes):
    """The codes of the labels to be predicted, into the trained classes.

    Those trained with, where there are no others.
    """
    y_test, n_test = trials.y_test, trials.n
    if trials.test is not None:
        y_test, n_test = trials.test.y, trials.test.n
    elif y_test is None:
        return codes
    if y_test is None:
        raise ValueError(
            "The test data are other trials than the training data, so their labels "
            f"are needed: pass y_test, one for each of the {n_test} test trials."
        )
    y_test = check_per_trial(y_test, n_test, "y_test")
    if (y_test.dtype.kind in "US") != (classes.dtype.kind in "US"):
        unknown = np.unique(y_test)
    else:
        unknown = np.setdiff1d(y_test, classes)
    if len(unknown):
        raise ValueError(
            "y_test holds labels that no training trial has: "
            f"{quoted(unknown.tolist(), 10)}. The classes of y are: "
            f"{quoted(classes.tolist(), 10)}. Drop these test trials, or rename the "
            "labels so that they match."
        )
    return np.searchsorted(classes, y_test).astype(np.intp)


def _make_inner_folds(reg, codes, groups, folds):
    """The folds within training sets, where labels choose a penalty.

    Of classes (n,), or None for values. Training sets without such folds are refused.
    """
    if not isinstance(reg, Tuned):
        return None
    inner = InnerFolds(groups, codes is None)
    if groups is not None:
        for train, _ in folds.pairs if folds else ((np.arange(len(groups)), None),):
            inner.within(train)
    return inner


def decode(
    positions,
    analysis,
    kind,
    /,
    *,
    parameters,
    record=None,
    checkpoint=None,
    digests=dict,
    undo=None,
    **fields,
):
    """Decode at all positions: what every decoding function does with its input.

    Parameters
    ----------
    positions : Positions
        What is decoded where.
    analysis : Analysis
        The checked arguments.
    kind : type
        The class of the result.
    parameters : dict
        What the result records, on top of what `analysis` does.
    record : dict | None
        What it records of trials that have been chosen.
    checkpoint : Checkpoint | None
        Where finished blocks are kept.
    digests : callable
        Returns what tells whether a checkpoint is of the same data, by name.
    undo : callable | None
        Returns activation patterns (..., n_features) in the data's own units.
    **fields
        Further fields of the result.

    Returns
    -------
    result
        An object of class `kind`.
    """
    positions.check()
    check_sizes(positions, analysis.task.dtype)
    if analysis.permutations.n_permutations and analysis.classes is not None:
        warn_of_spread(positions, analysis)
    running, folds = analysis.procedure.running, analysis.folds
    task = analysis.task_for(positions)
    null = check_null(
        analysis.procedure.permuting.kept,
        task,
        positions,
        len(analysis.tested),
        running.n_jobs,
    )
    if checkpoint:
        first, described = positions.blocks()[0][0], parameters | {"null": null}
        checkpoint.start(describe_run(positions, first, analysis, described, digests()))
    task = replace(task, null=null)
    outcome = run(positions, task, running.n_jobs, running.verbose, checkpoint)
    penalty, tested = dict(outcome.penalty), analysis.tested
    if analysis.classes is None:
        chances = {name: metric.chance for name, metric in task.metrics.items()}
        if "criterion" in penalty:
            penalty["criterion"] = penalty["criterion"] * task.scale**2
    else:
        if analysis.train_mask is not None:
            tested = tested[~analysis.train_mask]
        chances = {
            name: task.functions[name].chance
            if name in task.functions
            else chance_level(name, tested, len(analysis.classes))
            for name in task.scoring
        }
    maps, permuted = outcome.patterns, analysis.permutations.n_permutations > 0
    if null != "all":
        parameters = {"null": null} | parameters
    found = {
        "metrics": outcome.metrics,
        "fold_metrics": outcome.folds,
        "nulls": outcome.nulls if permuted else {},
        "chances": chances,
        "classes": analysis.classes,
        "y": analysis.codes,
        "groups": analysis.groups,
        "predicted": outcome.predicted,
        "tests": (np.arange(len(tested)),) if folds is None else folds.tests,
        "trains": None if folds is None else folds.trains,
        "parameters": analysis.parameters | parameters | (record or {}),
        "versions": versions(),
        "penalty": penalty,
        "members": analysis.members,
        "repeats": outcome.repeats,
        "class_scores": outcome.class_scores,
        "pattern_maps": {name: undo(maps[name]) for name in maps} if undo else maps,
        "null_summaries": _as_arrays(outcome.summaries),
        "second_scores": {
            name: scores
            for name, scores in outcome.second_scores.items()
            if not np.array_equal(scores, outcome.metrics[name], equal_nan=True)
        },
        "second_nulls": outcome.second_nulls,
        "second_summaries": _as_arrays(outcome.second_summaries),
    }
    names = {field.name for field in dataclass_fields(kind)}
    if analysis.classes is None:
        names.remove("classes")
    return kind(**{name: found[name] for name in found.keys() & names}, **fields)


def _as_arrays(summaries):
    """Summaries of nulls as a result keeps them."""
    return {name: summary.to_arrays() for name, summary in summaries.items()}
