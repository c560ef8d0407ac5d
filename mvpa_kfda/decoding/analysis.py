"""What every decoding function does: check, draw, run, and pack.

A decoding function reads its input, has the arguments that are not about data checked
(`make_analysis`, for numbers `make_regression_analysis`), lays out positions, and hands
both to `decode`.
"""

from dataclasses import dataclass, replace
from dataclasses import fields as dataclass_fields
from functools import partial

import numpy as np

from ..inference.permutation import Permutations, permute_labels
from ..kfda.folds import (
    Folds,
    InnerFolds,
    cross_folds,
    left_out_folds,
    make_folds,
)
from ..kfda.kernels import needs_gram
from ..kfda.models import kernels_of
from ..kfda.penalties import Tuned, name_of_rule
from ..kfda.splits import sees_labels
from ..kfda.steps import Learned, check_kernel_after
from ..metrics.classes import METRICS, chance_level
from ..metrics.names import (
    check_scoring,
    function_metrics,
    name_functions,
    record_pairs,
)
from ..utils.checks import (
    check_array,
    check_components,
    check_gram,
    check_labels,
    check_per_trial,
    draw_seed,
    quoted,
    warn,
    warn_of_angles,
    word_bytes,
)
from ..utils.fingerprints import note_input
from ..utils.record import recorded, versions
from .averaging import Draw
from .orders import warn_of_order
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
from .run import Task, is_foldwise, run
from .sizes import check_null

#: Trials above which an exact kernel matrix is worth a word.
_MANY = 10_000


def read_features(X, procedure):
    """Return checked features (n, p), or a kernel matrix."""
    kernel = procedure.method.kernel
    X = check_gram(X) if needs_gram(kernel) else check_array(X)
    if not needs_gram(kernel):
        warn_of_angles(X, "X", "np.concatenate([np.sin(X), np.cos(X)], axis=1)")
    exact = [not each.is_linear and not each.low_rank for each in kernels_of(kernel)]
    if len(X) > _MANY and any(exact) and not needs_gram(kernel):
        size = word_bytes(8 * len(X) ** 2)
        warn(
            f"The kernel matrix of {len(X)} trials takes {size}, several times, and "
            "time grows with the cube of the trials. approx=Nystrom(n_components=500) "
            "approximates it at a fraction of that; see its documentation.",
            UserWarning,
        )
    note_input("data", X)
    return X


def note_trials(trials):
    """Let the result keep the fingerprints of what is known of trials."""
    known = {name: getattr(trials, name) for name in ("y", "groups", "y_test")}
    for name in ("confounds", "confounds_test"):
        table = getattr(trials, name)
        known[name] = None if table is None else table.columns
    known["train_on"] = None if trials.train_on is None else trials.train_on.mask
    for name, values in known.items():
        note_input(name, values)


@dataclass(frozen=True)
class Analysis:
    """The checked arguments of a decoding analysis that are not about the data."""

    #: The sorted labels, (c,).
    classes: np.ndarray
    #: Each trial's class, (n,).
    codes: np.ndarray
    #: Each trial's group, (n,).
    groups: np.ndarray | None
    #: Drawn once from the observed labels; None when the test set is other trials.
    folds: Folds | None
    #: The classes to be predicted, (n_tested,).
    tested: np.ndarray
    #: The same, permuted along with the trained labels (P + 1, n); None: other trials.
    moved: np.ndarray | None
    #: The label vectors, observed first.
    permutations: Permutations
    #: What the run loop needs of all this.
    task: Task
    #: Plain values that, with the data, redo the analysis.
    parameters: dict
    #: Codes and groups of the single trials, and which are chosen to train with.
    single: tuple
    #: Which trials are averaged; all else is then about pseudo-trials.
    averaging: Draw | None
    #: The trials in each pseudo-trial, (n, k), of all repeats.
    members: np.ndarray | None
    #: What was asked for.
    procedure: Procedure

    @property
    def chosen(self):
        """Which trials are trained with (n,), all others tested; None: any may be."""
        return None if self.folds is None else self.folds.chosen

    @property
    def n_trained(self):
        """The number of trials that are trained with."""
        return len(self.codes) if self.chosen is None else int(self.chosen.sum())

    def of_trained(self, data):
        """Return the data (..., n, p) of the trials that are trained with."""
        chosen = self.single[2]
        return data if chosen is None else data[..., chosen, :]

    @property
    def true(self):
        """The labels to be predicted where they are not those trained with."""
        same = self.folds is not None and np.array_equal(self.tested, self.codes)
        return None if same else self.tested

    def task_for(self, positions):
        """Return the task of some positions.

        Where a model is tested at other positions than its own, there are two tests in
        cross-validation: in the first null the tested labels move along with the
        trained ones, in the second they stay. Where no trial is both trained with and
        tested, the tested labels stay, and that is all.
        """
        permuted = self.permutations.n_permutations
        if not positions.row or self.chosen is not None or not permuted:
            return self.task
        second = self.tested[None] if self.true is None else self.moved
        return replace(self.task, second=second)

    def warn_of(self, positions):
        """Warn of what the data at some positions say of p-values."""
        if self.permutations.n_permutations:
            warn_of_spread(positions, self)

    def average(self, data, kernel, axis=0):
        """Return data and kernel of pseudo-trials, if trials are to be averaged.

        A linear kernel is given averaged features, others average their values.
        """
        if self.averaging is None:
            return data, kernel
        return self.averaging.both(data, kernel, axis)

    def result(self, kind, outcome, parameters, **fields):
        """Pack the run's outcome as a result of class `kind`."""
        tested = self.tested if self.chosen is None else self.tested[~self.chosen]
        return kind(
            metrics=outcome.metrics,
            fold_metrics=outcome.folds,
            nulls=outcome.nulls if self.permutations.n_permutations else {},
            chances={
                name: self.task.functions[name].chance
                if name in self.task.functions
                else chance_level(name, tested, len(self.classes))
                for name in self.task.scoring
            },
            classes=self.classes,
            y=self.codes,
            groups=self.groups,
            predicted=outcome.predicted,
            tests=(np.arange(len(self.tested)),)
            if self.folds is None
            else self.folds.tests,
            trains=None if self.folds is None else self.folds.trains,
            parameters={**self.parameters, **parameters},
            versions=versions(),
            penalty=outcome.penalty,
            members=self.members,
            repeats=outcome.repeats,
            **fields,
        )


def make_analysis(trials, procedure, *, maps=None, with_patterns=False):
    """Check what a `Procedure` does with trials, and draw what is random.

    What is kept of the permutations' `maps` is measured before any label is drawn.
    """
    note_trials(trials)
    scores, permuting = procedure.scores, procedure.permuting
    scoring, functions, n_scalar = _check_scores(scores.scoring)
    classes, codes, groups = _check_trials(trials)
    cv, folds, splitter = _split(trials, procedure, codes, groups, classes)
    learned = _learn(trials, procedure, folds, groups)
    repeating, permuted = procedure.repeating, permuting.n_permutations > 0
    repeating.check(folds, trials.y_test, procedure.method.kernel)
    seed = draw_seed(procedure.running.random_state)
    asked = cv, folds, permuting.permute, trials.y_test
    shown = permuted and repeating.is_shown(*asked)
    single, of_trials = (codes, groups, folds and folds.chosen), folds
    asked = cv, folds, codes, groups, seed, classes, permuted, shown
    averaging, draws = repeating.prepare(*asked)
    if averaging is not None:
        codes, groups, folds = averaging.codes, averaging.groups, averaging.folds
        learned = learned.averaged(averaging)
    tested = _check_tested(trials, classes, codes)
    permutations, labels, moved = _permute(
        codes,
        tested if trials.n_test is None else None,
        permuting.n_permutations,
        folds=folds if draws is None else draws.kept_folds,
        groups=groups,
        permute=draws.scheme(permuting.permute) if draws else permuting.permute,
        random_state=seed,
        check=maps and partial(maps.check, n_scalar),
    )
    known = {"permutations": permutations, "learned": learned}
    make_inner = partial(make_inner_folds, procedure.method.reg, **known)
    samples = averaging or Draw(None, codes, groups, folds)
    if draws is None:
        inner = make_inner(codes, groups, folds)
    else:
        draws = draws.of(labels, make_inner)
        inner, samples = draws.inner_folds[0], draws.samples()
        tested = samples.codes
    task = Task(
        labels,
        len(classes),
        samples.folds,
        scoring,
        procedure.running.dtype,
        procedure.running.batch_size,
        bool(scores.keep_class_scores),
        with_patterns=with_patterns,
        rank=_check_rank(procedure.method.n_components, len(classes)),
        inner=inner,
        groups=groups,
        draws=draws,
        functions=function_metrics(functions, classes),
        learned=learned.seeded(seed),
    )
    method = procedure.method
    parameters = record_method(method, method.reg) | repeating.record(averaging, draws)
    parameters |= {"cv": splitter, "train_on": trials.chosen_by}
    parameters["recorded_order"] = trials.recorded_order
    parameters |= record_pairs(task.functions)
    parameters |= record_run(task, learned, permutations, seed) | _sizes(single)
    of_samples = samples.codes, samples.groups, samples.folds, tested, moved
    about = permutations, task, parameters, single, averaging, samples.members
    analysis = Analysis(classes, *of_samples, *about, procedure)
    warn_of_order(analysis, of_trials, trials.numbers)
    tests = [np.arange(len(tested))] if samples.folds is None else samples.folds.tests
    check_sets(task.metrics, tests, tested, classes, procedure.repeating.n_repeats)
    check_distances(task.metrics, procedure.method.reg, permuting.n_permutations)
    return analysis


def _split(trials, procedure, codes, groups, classes):
    """Return the splitter, its folds, and what is recorded of it."""
    others = trials.n_test, trials.train_on
    cv = procedure.repeating.splitter(procedure.splitting.cv, groups, *others)
    return cv, *draw_folds(cv, codes, groups, classes, *others, trials.numbers)


def _learn(trials, procedure, folds, groups):
    """Return what every fold learns, or refuse it."""
    learned = make_learned(procedure, trials)
    check_foldwise(learned, procedure, folds)
    confounds = trials.confounds, groups, folds, trials.confounds_test
    warn_of(*find_misread(*confounds))
    return learned


def _check_scores(scoring):
    """Return the names of metrics, functions among them, and the number of maps."""
    scoring, functions = name_functions(scoring)
    scoring = check_scoring(scoring, functions)
    n_scalar = sum(name in functions or METRICS[name].scalar for name in scoring)
    return scoring, functions, n_scalar


def _check_trials(trials):
    """Return the sorted labels, and the class and group of every trial."""
    classes, codes = check_labels(trials.y, trials.n)
    warn_of(find_alike_names(codes, classes))
    if trials.groups is None:
        return classes, codes, None
    return classes, codes, check_per_trial(trials.groups, trials.n, "groups")


def make_learned(procedure, trials):
    """Return what every fold learns: steps, and how confounds are taken out."""
    steps, confounds = procedure.learning.steps, trials.confounds
    if confounds is None:
        return Learned(steps)
    # One unit for all: among seconds and volts the regression would drop the volts.
    centre, spread = confounds.unit
    columns, others = (
        None if table is None else (table.columns - centre) / spread
        for table in (confounds, trials.confounds_test)
    )
    rounding = np.finfo(float).eps * np.max(np.abs(confounds.columns) / spread)
    named = tuple(confounds.record())
    return Learned(steps, columns, others, named, confounds.size, float(rounding))


def check_foldwise(learned, procedure, folds):
    """Refuse what folds of their own have not, where there is something `Learned`."""
    kernel, average = procedure.method.kernel, procedure.repeating.average
    own = folds is not None and folds.trains is not None
    if not (learned or own):
        return
    given = f"preprocess={procedure.learning.preprocess!r}"
    if not learned.steps:
        given = "confounds"
        if learned.confounds is None:
            given = f"{folds.name}, which trains on a part of the other trials,"
    if learned:
        check_kernel_after(kernel, learned, given)
    if learned.confounds is not None:
        _check_confounds(learned, folds)
    if average is not None and learned and not kernel.is_linear:
        raise ValueError(
            f"average={average} with a kernel that is not linear, {kernel!r}, averages "
            f"in feature space, where {given} has no meaning. Use a linear kernel, or "
            "average trials before you decode them."
        )


def _check_confounds(learned, folds):
    """Refuse confounds of other trials, and so many that they explain everything."""
    if folds is None and learned.others is None:
        raise ValueError(
            "confounds are known for the training trials, but the models are tested on "
            "other trials (X_test, test_epochs), whose confounds are not. Leave "
            "confounds out, or pass all trials in one set with your own folds, "
            "cv=[(train, test)]."
        )
    smallest, k = len(learned.confounds), learned.n_confounds
    of = "the only training set"
    if folds is not None:
        smallest = min(len(train) for train, _ in folds.pairs)
        of = f"the smallest training set of {folds.name}"
    if k + 1 >= smallest:
        raise ValueError(
            f"confounds has {k} columns (categories count one less than there are), "
            f"and {of} holds {smallest} trials: they would explain everything. Use "
            "fewer confounds, or larger training sets."
        )


def _check_rank(n_components, n_classes):
    """Return the number of discriminants to use, None for all of them."""
    if n_components is None:
        return None
    n_components = check_components(n_components, n_classes)
    return None if n_components == n_classes - 1 else n_components


def _permute(codes, tested, n_permutations, *, folds, groups, alike=True, **options):
    """Return the permutations, and trained and tested labels (P + 1, n) by them.

    Two labellings of a trial move together, as one label. Without a second one, since
    other trials are tested, there are no tested labels to move. Where some of the
    trials are chosen to train with, only their labels move.
    """
    if folds is not None and folds.chosen is not None:
        return _permute_chosen(codes, n_permutations, folds, groups, options)
    # Two labellings have pairs of classes, which cannot be renamed one by one.
    alike = alike and (tested is None or np.array_equal(tested, codes))
    options |= {"folds": folds, "groups": groups, "alike": alike}
    n_classes = int(codes.max()) + 1
    pairs = codes if tested is None else codes * n_classes + tested
    used, pairs = np.unique(pairs, return_inverse=True)
    trained = used if tested is None else used // n_classes
    permutations = permute_labels(pairs, n_permutations, classes=trained, **options)
    used = used.astype(np.min_scalar_type(-int(used.max()) - 1))  # fast to compare
    labels, moved = used[permutations.labels], None
    if tested is not None:
        labels, moved = np.divmod(labels, n_classes)
    if len(labels) > 1 and (labels[1:] == labels[0]).all():
        raise ValueError(
            f"permute={permutations.scheme!r} leaves the training labels unchanged: "
            "they are equal within each permutation block, only those of y_test are "
            "not. Use permute='free', other groups, or n_permutations=0."
        )
    return permutations, labels, moved


def _permute_chosen(codes, n_permutations, folds, groups, options):
    """Return what `_permute` does where the labels of some trials move among them."""
    chosen = folds.chosen
    permutations, labels, _ = _permute(
        codes[chosen],
        None,
        n_permutations,
        folds=left_out_folds(folds),
        groups=_of(groups, chosen),
        alike=False,
        **options,
    )
    of_all = np.tile(codes.astype(labels.dtype), (len(labels), 1))
    of_all[:, chosen] = labels
    return permutations, of_all, None


def draw_folds(cv, codes, groups, classes, n_test, train_on, numbers=None):
    """Return the folds, None for a test on other trials, and their record."""
    if train_on is not None:
        return _draw_cross_folds(cv, codes, groups, classes, train_on, numbers)
    if n_test is None:
        folds = make_folds(cv, codes, groups, classes, numbers)
        warn_of(find_absent_class(folds, codes, classes))
        if groups is not None:
            _check_trained(folds, codes)
        return folds, folds.splitter
    if cv is not None:
        raise ValueError(
            "cv has no meaning here: the model is trained on all trials and "
            "tested on others. Leave cv out; for test data that are the same trials in "
            "the same order, use same_trials=True."
        )
    return None, None


def _draw_cross_folds(cv, codes, groups, classes, train_on, numbers=None):
    """Return folds that train on some trials and test the others, and their record."""
    train_on.split_labels(classes[codes])  # refuses classes of tested trials alone
    given = None
    if cv is not None or groups is not None:
        given = make_folds(cv, codes, groups, classes, numbers, train_on.mask)
    folds = cross_folds(given, train_on.mask)
    for number, (train, test) in enumerate(folds.pairs):
        where = ""
        if given is not None:
            left_out = given.tests[number]
            where = f" in fold {number} of {given.name}{_word_group(groups, left_out)}"
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
    return folds, folds.splitter


def _word_group(groups, rows):
    """Name the group of some trials in brackets, if it is one."""
    names = () if groups is None else np.unique(groups[rows])
    return f" (group {names[0].item()!r})" if len(names) == 1 else ""


def _check_trained(folds, codes):
    """Refuse folds of which none trains on a class that it tests."""
    n_classes = codes.max() + 1
    for rows in folds.pairs:
        trained, tested = (np.bincount(codes[r], minlength=n_classes) for r in rows)
        if ((tested > 0) & (trained > 0)).any():
            return
    raise ValueError(
        f"No fold of {folds.name} trains on a class that it tests, so that no model "
        "sees the class it is tested on. Groups should be runs, sessions or subjects "
        "that hold trials of several classes, or several groups of each class."
    )


def _check_tested(trials, classes, codes):
    """Return the codes of the labels to be predicted, into the trained classes.

    Those trained with, where there are no others.
    """
    y_test, n_test = trials.y_test, trials.n_test
    if y_test is None and n_test is None:
        return codes
    if y_test is None:
        raise ValueError(
            "The test data are other trials than the training data, so their labels "
            f"are needed: pass y_test, one for each of the {n_test} test trials."
        )
    n_test = trials.n if n_test is None else n_test
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


def make_inner_folds(reg, codes, groups, folds, permutations, learned):
    """Return the folds within training sets, made now so that errors come early.

    One :class:`InnerFolds` for all folds, or where folds have matrices of their own one
    for each, and one for all trials. Of classes (n,), or None for values.
    """
    if not isinstance(reg, Tuned):
        return None
    if permutations.n_permutations and sees_labels(reg.cv):
        raise ValueError(
            f"Tuned(cv={reg.cv!r}) draws folds from the labels, but permuted labels "
            "are tuned with the same folds, and so would not be treated alike. "
            "Use a number of random folds, as Tuned(cv=5), or None."
        )
    n = len(codes) if folds is None else folds.n
    foldwise = is_foldwise(folds, learned)
    try:
        if foldwise:
            trains = [train for train, _ in folds.pairs] if folds else []
            inner = tuple(
                InnerFolds(reg.cv, len(rows), _of(codes, rows), _of(groups, rows), None)
                for rows in (*trains, folds.rows_of_all if folds else np.arange(n))
            )
            _ = [each.of_all for each in inner]
        else:
            inner = InnerFolds(reg.cv, n, codes, groups, folds)
            _ = inner.of_all, inner.of_folds  # drawn once, here, for all workers
    except ValueError as error:
        if groups is None and "'groups' parameter" in str(error):
            raise ValueError(
                f"Tuned(cv={reg.cv!r}) leaves groups out within each training set, and "
                "there are none. Pass groups=, one for each trial."
            ) from error
        raise
    return inner


def _of(values, rows):
    """Return the values of some trials, where there are any."""
    return None if values is None else values[rows]


def record_method(model, reg):
    """Return what a result records about the method, of which reg is what is done."""
    kernel, given = model.kernel, name_of_rule(model.reg)
    method = {"kernel": recorded(kernel), "reg": recorded(given)}
    method |= {"n_components": model.n_components, "average": None}
    if isinstance(reg, Tuned):
        method["kernels"] = [recorded(each) for each in kernels_of(kernel)]
    return method


def _sizes(single):
    """Return what a result records of single trials: how many there are of a class."""
    return {"class_sizes": np.bincount(single[0]).tolist()}


def record_run(task, learned, permutations, seed):
    """Return what a result records about folds, scores and permutations."""
    return {
        "n_folds": task.n_folds,
        "scoring": task.scoring,
        **learned.record(),
        "n_permutations": permutations.n_permutations,
        "permute": permutations.scheme,
        "exact": permutations.exact,
        "renamings": permutations.renamings,
        "random_state": seed,
        "dtype": task.dtype.name,
    }


def decode(
    positions,
    analysis,
    kind,
    /,
    *,
    parameters,
    null=None,
    checkpoint=None,
    undo=None,
    **fields,
):
    """Decode at all positions: what every decoding function does with its input.

    Parameters
    ----------
    positions : Positions
        What is decoded where.
    analysis : Analysis | RegressionAnalysis
        The checked arguments.
    kind : type
        The class of the result.
    parameters : dict
        What the result records, on top of what `analysis` does.
    null : "all" | "full" | "max" | "stream" | None
        What to keep of the permutations' maps, where that is settled already.
    checkpoint : Checkpoint | None
        What :func:`mvpa_kfda.decoding.run.run` takes.
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
    analysis.warn_of(positions)
    running = analysis.procedure.running
    null = settled_null(analysis, positions, null)
    task = replace(analysis.task_for(positions), null=null)
    outcome = run(positions, task, running.n_jobs, running.verbose, checkpoint)
    maps = outcome.patterns
    extra = {
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
    fields |= {name: value for name, value in extra.items() if name in names}
    parameters = parameters if null == "all" else {"null": null} | parameters
    return analysis.result(kind, outcome, parameters, **fields)


def settled_null(analysis, positions, null=None):
    """Return what is kept of the permutations' maps, that do not fit being refused."""
    procedure, task = analysis.procedure, analysis.task_for(positions)
    null, n_jobs = null or procedure.permuting.kept, procedure.running.n_jobs
    return check_null(null, task, positions, len(analysis.tested), n_jobs)


def _as_arrays(summaries):
    """Return summaries of nulls as a result keeps them."""
    return {name: summary.to_arrays() for name, summary in summaries.items()}
