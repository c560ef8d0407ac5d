"""What every decoding function does: check, draw, run, and pack.

A decoding function reads its input, which gives `Trials` and data, has all that is not
about the data checked and drawn (`make_analysis`), lays out positions, and hands both
to `decode`. A regression is an analysis with other metrics, in which values take the
place of classes. The two that decode plain features are here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from dataclasses import fields as dataclass_fields
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from ..data.trials import Confounds, Trials, make_trials
from ..inference.permutation import SCHEMES, Permutations, permute_labels
from ..kfda.folds import (
    InnerFolds,
    cross_folds,
    left_out_folds,
    make_folds,
    may_see_labels,
    sees_labels,
)
from ..kfda.kernels import RBF, Linear, Polynomial, kernels_of, needs_gram
from ..kfda.penalties import Auto, Tuned, name_of_rule
from ..kfda.preprocess import FoldPreprocessing, check_kernel_after, needs_labels
from ..metrics.scores import (
    CIRCULAR_METRICS,
    METRICS,
    REGRESSION_METRICS,
    Metric,
    RegressionScoring,
    always,
    read_scoring,
    record_pairs,
)
from ..results.epochs import DecodingResult, RegressionResult
from ..utils.checkpoint import digest
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
from ..utils.memory import check_memory
from ..utils.parallel import one_blas_thread
from ..utils.plain import recorded, versions
from .orders import warn_of_order
from .positions import FeaturePositions
from .problems import (
    TEXTS,
    check_distances,
    check_sets,
    check_sizes,
    find_absent_class,
    find_alike_names,
    find_misread,
    refusal,
    warn_of,
    warn_of_spread,
)
from .procedure import (
    CLASSES,
    ClassOptions,
    CommonOptions,
    Predicted,
    Procedure,
    TargetOptions,
    decodes,
    taken,
)
from .run import (
    CircularTask,
    Draw,
    RegressionTask,
    Task,
    check_labellings,
    check_null,
    run,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True)
class Analysis:
    """The checked arguments of a decoding analysis that are not about the data."""

    #: The sorted labels, (c,); None where values are predicted.
    classes: np.ndarray | None
    #: The pseudo-trials of all repeats, or the trials: their class or value, group and
    #: folds, which are None when the test set is other trials.
    samples: Draw
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
    #: What was asked for.
    procedure: Procedure

    def of_trained(self, data):
        """The data (..., n, p) of the trials that are trained with."""
        trained = self.trials.train_mask
        return data if trained is None else data[..., trained, :]

    @property
    def test_labels(self):
        """The labels to be predicted where they are not those trained with."""
        crossed = self.samples.folds is not None
        same = crossed and np.array_equal(self.tested, self.samples.codes)
        return None if same else self.tested


def make_analysis(
    trials,
    procedure,
    positions=None,
    shape=(),
    *,
    predicted=CLASSES,
    **options,
):
    """Check what a `Procedure` does with `Trials`, and draw what is random.

    What is kept of maps of a `shape`, of this kind of `Positions`, is measured before
    any label is drawn. `options` are those of the `Task`, as ``with_patterns``.
    """
    _note(trials)
    method, repeating = procedure.method, procedure.repeating
    permuting, scoring = procedure.permuting, procedure.scores.scoring
    values, reg, groups, cv = None, method.reg, trials.groups, repeating.cv
    all_metrics, turn = METRICS, predicted.turn
    if predicted.of_values:
        all_metrics = CIRCULAR_METRICS if turn else REGRESSION_METRICS
        refuse_class_options(procedure, trials)
        if isinstance(scoring, str) and scoring == "accuracy":
            scoring = next(iter(all_metrics))  # which is the default there
    of_numbers = all_metrics if predicted.of_values else None
    scoring, functions = read_scoring(scoring, of_numbers)
    if predicted.of_values:
        values = check_values(trials.y, trials.n, turn)
        classes, codes, targets = None, values.codes, values.given
        reg = Tuned() if isinstance(reg, Auto) else reg
    else:
        classes, codes = check_labels(trials.y, trials.n)
        warn_of(find_alike_names(codes, classes))
        targets = codes
    all_metrics = all_metrics | {name: f(classes) for name, f in functions.items()}
    metrics = {name: all_metrics[name] for name in scoring}
    if groups is not None:
        groups = check_per_trial(groups, trials.n, "groups")
    if values is not None:
        metrics = {name: values.given_unit(each) for name, each in metrics.items()}
        folds = None
        if trials.test is None:
            folds = _folds_of_values(cv, values, groups, trials.numbers)
        elif cv is not None:
            raise refusal("folds: other trials")
    else:
        others = trials.test, trials.train_on
        cv = repeating.splitter(groups, *others)
        folds = draw_folds(cv, codes, groups, classes, *others, trials.numbers)
    learned = _learned(trials, procedure, folds)
    if values is not None and learned.sees_labels:
        step = next(filter(needs_labels, learned.steps))
        raise refusal("preprocess: values", step=step)
    others = trials.test and trials.test.confounds
    warn_of(*find_misread(trials.confounds, groups, folds, others))
    repeating.check(folds, trials.y_test, method.kernel)
    seed = draw_seed(procedure.running.random_state)
    of_trials = Draw(None, targets, groups, folds)
    asked = cv, folds, codes, groups, seed, classes, permuting, trials.y_test
    averaging, draws = repeating.prepare(*asked)
    if averaging is not None:
        codes, groups, folds = averaging.codes, averaging.groups, averaging.folds
        targets, learned = codes, learned.averaged(averaging)
    if values is None:
        tested = _check_tested(trials, classes, codes)
    else:
        tested = _tested_values(trials, targets)

    def check(n_permutations):
        if values is not None:
            what = f"To permute {trials.n} values {n_permutations} times"
            check_memory(8 * trials.n * n_permutations, what, "fewer permutations")
        if positions is not None:
            n_scalar = sum(metric.scalar for metric in metrics.values())
            map_of = permuting.kept, shape, positions.fewer
            check_labellings(*map_of, n_scalar, n_permutations)

    kept_folds, scheme = folds, permuting.permute
    if draws is not None:
        kept_folds, scheme = draws.exchange(scheme)
    permutations, labels, permuted_test_labels = _permute(
        codes,
        None if values or trials.test else tested,
        permuting.n_permutations,
        folds=kept_folds,
        groups=groups,
        alike=values is None,
        permute=scheme,
        random_state=seed,
        check=check,
        time=None if averaging else trials.numbers,
    )
    samples, tuned = averaging or of_trials, isinstance(reg, Tuned)
    observed = [samples]
    if draws is not None:
        draws = draws.of(labels)
        observed, samples = draws.observed, draws.samples()
        tested = samples.codes
    known = {
        "folds": samples.folds,
        "metrics": metrics,
        "dtype": procedure.running.dtype,
        "keep_class_scores": bool(procedure.scores.keep_class_scores),
        "groups": groups,
        "draws": draws,
        "learned": learned.seeded(seed),
        "inner": _make_inner_folds(observed, values is not None) if tuned else None,
    }
    n_folds = 0 if samples.folds is None else len(samples.folds.tests)
    parameters = {
        "cv": of_trials.folds and of_trials.folds.splitter,
        "recorded_order": trials.recorded_order,
        "kernel": recorded(method.kernel),
        "reg": recorded(name_of_rule(method.reg)),
        "n_components": method.n_components,
        "average": None,
        "n_folds": n_folds // (draws.n_repeats if draws else 1),
        "scoring": scoring,
        **learned.record(),
        "n_permutations": permutations.n_permutations,
        "permute": permutations.scheme,
        "exact": permutations.exact,
        "renamings": permutations.renamings,
        "dtype": procedure.running.dtype.name,
        "random_state": seed,
    }
    if tuned:
        parameters["kernels"] = [recorded(each) for each in kernels_of(method.kernel)]
    if values is not None:
        known |= {"mean": values.mean, "scale": values.scale}
        kind = CircularTask if turn else RegressionTask
        task = kind(values.levels[labels], None, **known)
        parameters["task"] = "regression"
        if turn:
            parameters["period"] = turn
    else:
        rank = method.n_components
        if rank is not None:
            rank = check_components(rank, len(classes))
            rank = None if rank == len(classes) - 1 else rank
        task = Task(labels, len(classes), rank=rank, **known, **options)
        parameters |= repeating.record(averaging, draws) | record_pairs(metrics)
        parameters["train_on"] = trials.train_on and trials.train_on.record
        parameters["class_sizes"] = np.bincount(of_trials.codes).tolist()
    analysis = Analysis(
        *(classes, samples, tested, permuted_test_labels, permutations, task),
        *(parameters, of_trials, procedure),
    )
    warn_of_order(analysis, trials.numbers)
    if values is not None:
        return analysis
    tests = [np.arange(len(tested))] if samples.folds is None else samples.folds.tests
    check_sets(task.metrics, tests, tested, classes, repeating.n_repeats)
    check_distances(task.metrics, method.reg, permuting.n_permutations)
    return analysis


def _note(trials):
    """Let the result keep the fingerprints of what is known of trials."""
    test = trials.test or Trials(y=trials.y_test, n=trials.n)
    note_input("y", trials.y)
    note_input("groups", trials.groups)
    note_input("y_test", test.y)
    note_input("confounds", trials.confounds and trials.confounds.columns)
    note_input("confounds_test", test.confounds and test.confounds.columns)
    note_input("train_on", trials.train_on and trials.train_on.mask)


def _learned(trials, procedure, folds):
    """What every fold learns, steps and how confounds are taken out; or refuse it.

    Not of confounds that explain all, or are unknown of other trials.
    """
    kernel, average = procedure.method.kernel, procedure.repeating.average
    given, learned = "confounds", FoldPreprocessing(procedure.method.steps)
    if learned.steps:
        given = f"preprocess={procedure.method.preprocess!r}"
    confounds, others = trials.confounds, trials.test and trials.test.confounds
    if confounds is not None:
        if folds is None and others is None:
            raise refusal("confounds: unknown")
        smallest, of = trials.n, "the only training set"
        if folds is not None:
            smallest = min(len(train) for train, _ in folds.pairs)
            of = f"the smallest training set of {folds.name}"
        if confounds.size + 1 >= smallest:
            words = {"size": confounds.size, "of": of, "n": smallest}
            raise refusal("confounds: too many", **words)
        # One unit for all: among seconds and volts the regression would drop the volts.
        centre, spread = confounds.unit
        rounding = np.finfo(float).eps * np.max(np.abs(confounds.columns) / spread)
        learned = replace(
            learned,
            confounds=(confounds.columns - centre) / spread,
            others=None if others is None else (others.columns - centre) / spread,
            named=tuple(confounds.record()),
            n_confounds=confounds.size,
            rounding=float(rounding),
        )
    if learned:
        check_kernel_after(kernel, learned, given)
    if average is not None and learned and not kernel.is_linear:
        words = {"average": average, "kernel": kernel, "given": given}
        raise refusal("average: steps", **words)
    return learned


def _permute(codes, tested, n_permutations, *, folds, groups, alike, time, **options):
    """The permutations, and trained and tested labels (P + 1, n) by them.

    Two labellings of a trial are permuted together, as one label. Without a second one,
    since other trials are tested, there are no tested labels to permute. Where some of
    the trials are chosen to train with, only their labels are permuted.
    """
    chosen, of_all = None if folds is None else folds.train_mask, codes
    if chosen is not None:
        groups, time = (None if x is None else x[chosen] for x in (groups, time))
        folds = left_out_folds(folds)
        codes, tested, alike = codes[chosen], None, False
    # Two labellings have pairs of classes, which cannot be renamed one by one.
    alike = alike and (tested is None or np.array_equal(tested, codes))
    options |= {"folds": folds, "groups": groups, "alike": alike, "time": time}
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
        raise refusal("permute: same", scheme=permutations.scheme)
    if chosen is not None:
        permuted = labels
        labels = np.tile(of_all.astype(permuted.dtype), (len(permuted), 1))
        labels[:, chosen] = permuted
    return permutations, labels, permuted_test_labels


def _folds_of_values(cv, values, groups, numbers):
    """The folds of values, which no splitter is shown, so that they may be permuted."""
    if sees_labels(cv):
        raise refusal("folds: values", cv=cv)
    nothing = np.zeros(len(values.given), np.intp)
    folds = make_folds(cv, nothing, groups, numbers=numbers, values=values.given)
    if folds.sees_labels is None and may_see_labels(cv):
        return replace(folds, sees_labels=False)  # there was nothing to look at
    return folds


#: Values that vary less than this many units of rounding do not vary.
_ROUNDING = 8


@dataclass(frozen=True)
class Values:
    """The values of all trials, standardised so that no unit costs digits."""

    #: The values as they were given, (n,); on a circle from 0 to its length.
    given: np.ndarray
    #: The distinct values, sorted, between -1 and 1 and of mean 0 over trials, (u,); on
    #: a circle angles in radians.
    levels: np.ndarray
    #: Which of them every trial has, (n,).
    codes: np.ndarray
    #: given = mean + scale * levels[codes].
    mean: float
    scale: float

    def given_unit(self, metric):
        """A metric of standardised values, in the unit of the given ones."""
        mean, scale = self.mean, self.scale

        def score(tested):
            true, predicted = (
                np.broadcast_to(each, tested.shape).reshape(len(each), -1)
                for each in (tested.true, tested.predicted)
            )
            if metric.mean is None:
                found = metric.score(true, predicted) * scale**metric.power
            else:  # functions are shown the given values
                pairs = mean + scale * true.T, mean + scale * predicted.T
                found = [
                    metric.mean(*pair, None, tested.shapes)
                    for pair in zip(*pairs, strict=True)
                ]
            return np.reshape(found, tested.shape[1:])

        # Numbers that are all equal are as one class.
        undefined = {"needs_two_classes": metric.needs_spread}
        chance = always(metric.chance(None) * scale**metric.power)
        return Metric(score, chance, "", **undefined)


def _as_numbers(y, n_trials, name):
    """The values of trials, finite numbers (n,)."""
    y = check_per_trial(y, n_trials, name)
    if y.dtype.kind not in "iufO":
        raise refusal("values: type", dtype=y.dtype)
    given = y.astype(np.float64)
    bad = ~np.isfinite(given)
    if bad.any():
        words = {"bad": bad.sum(), "n": n_trials, "first": np.flatnonzero(bad)[0]}
        raise refusal("values: infinite", **words)
    return given


def check_values(y, n_trials, turn=None):
    """The `Values` of y, (n,), perhaps on a circle of some length."""
    given = _as_numbers(y, n_trials, "y")
    if turn:
        angles, scale = given / turn % 1 * 2 * np.pi, turn / (2 * np.pi)
        levels, codes = np.unique(angles, return_inverse=True)
        apart = np.abs(np.exp(1j * levels) - np.exp(1j * levels[0]))
        rounding = np.finfo(float).eps * max(1, np.abs(given / turn).max())
        if not apart.max() > 2 * np.pi * _ROUNDING * rounding:
            raise refusal("values: constant", value=given[0], n=n_trials)
        return Values(angles * scale, levels, codes, 0.0, scale)
    warn_of_angles(given, "y", None)
    levels, codes = np.unique(given, return_inverse=True)
    # Divided before anything is squared, which could overflow or underflow.
    size = np.abs(levels).max() or 1.0
    mean = (given / size).mean()
    centred = levels / size - mean
    scale = np.abs(centred).max()
    if not scale > _ROUNDING * np.finfo(float).eps:
        raise refusal("values: constant", value=given[0], n=n_trials)
    return Values(given, centred / scale, codes, mean * size, scale * size)


def refuse_class_options(procedure, trials):
    """Refuse options of a decoding function that are for classes only."""
    repeating = procedure.repeating
    given = {
        "n_components": procedure.method.n_components is not None,
        "average": repeating.average is not None,
        "n_repeats": repeating.n_repeats != 1,
        "equalize": repeating.equalize,
        "average_test": not repeating.average_test,
        "keep_class_scores": procedure.scores.keep_class_scores,
        "train_on": trials.train_on is not None,
    }
    given = [name for name, is_given in given.items() if is_given]
    if SCHEMES.get(scheme := procedure.permuting.permute, SCHEMES["free"]).in_time:
        raise refusal("values: scheme", permute=scheme)
    if given:
        them = "it" if len(given) == 1 else "them"
        raise refusal("values: options", options=" and no ".join(given), them=them)


def draw_folds(cv, codes, groups, classes, test, train_on, numbers=None):
    """The folds; None for a test on other trials."""
    if train_on is not None:
        return _draw_cross_folds(cv, codes, groups, classes, train_on, numbers)
    if test is None:
        folds = make_folds(cv, codes, groups, classes, numbers)
        warn_of(find_absent_class(folds, codes, classes))
        sets = ((codes[train], codes[test]) for train, test in folds.pairs)
        if groups is not None and not any(np.intersect1d(*pair).size for pair in sets):
            raise refusal("folds: unseen classes", name=folds.name)
        return folds
    if cv is not None:
        raise refusal("folds: other trials")
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
            words = {"given": train_on.given, "where": where, "n": len(left_out)}
            raise refusal("train_on: no test", **words)
        present = np.unique(codes[train])
        if len(present) < 2:
            only = [f"trials of class {str(classes[k])!r} only" for k in present]
            words = {"given": train_on.given, "where": where}
            raise refusal(
                "train_on: one class", only=(only or ["no trial"])[0], **words
            )
    warn_of(find_absent_class(folds, codes, classes))
    return folds


def _tested_values(trials, targets):
    """The values to be predicted: those trained with, or those of other trials."""
    if trials.y_test is not None:
        raise refusal("values: options", options="y_test of the same trials", them="it")
    if trials.test is None:
        return targets
    if trials.test.y is None:
        raise refusal("y_test: needed", n=trials.test.n)
    return _as_numbers(trials.test.y, trials.test.n, "y_test")


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
        raise refusal("y_test: needed", n=n_test)
    y_test = check_per_trial(y_test, n_test, "y_test")
    if (y_test.dtype.kind in "US") != (classes.dtype.kind in "US"):
        unknown = np.unique(y_test)
    else:
        unknown = np.setdiff1d(y_test, classes)
    if len(unknown):
        named = {"unknown": unknown, "classes": classes}
        words = {name: quoted(each.tolist(), 10) for name, each in named.items()}
        raise refusal("y_test: unknown", **words)
    return np.searchsorted(classes, y_test).astype(np.intp)


def _make_inner_folds(draws, of_values):
    """The folds within training sets, where labels choose a penalty.

    Of the draws of all repeats; training sets without such folds are refused.
    """
    groups = draws[0].groups
    inner = InnerFolds(groups, of_values)
    for draw in () if groups is None else draws:
        pairs = draw.folds.pairs if draw.folds else [(np.arange(len(groups)), None)]
        for train, _ in pairs:
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
    identity=None,
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
    identity : dict of str -> tuple of ndarray
        What tells whether a checkpoint is of the same data, by name.
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
    if analysis.task.draws is None and analysis.samples.sides is not None:
        positions = positions.of_draw(analysis.samples)
    check_sizes(positions, analysis.task.dtype)
    if analysis.permutations.n_permutations and analysis.classes is not None:
        warn_of_spread(positions, analysis)
    running, samples = analysis.procedure.running, analysis.samples
    task, kept = analysis.task, analysis.procedure.permuting.kept
    if positions.row and samples.train_mask is None and len(task.labels) > 1:
        # A model is tested at other positions than its own, in two tests: in the first
        # null the tested labels are permuted along with the trained ones, in the second
        # they stay. Where no trial is both trained with and tested, the tested labels
        # stay, and that is all.
        second = analysis.permuted_test_labels
        if analysis.test_labels is None:
            second = task.labels[:1]
        task = replace(task, second=second)
    null = check_null(kept, task, positions, len(analysis.tested), running.n_jobs)
    if checkpoint:
        first, described = positions.blocks()[0][0], parameters | {"null": null}
        checkpoint.start(describe_run(positions, first, analysis, described, identity))
    task = replace(task, null=null)
    run_by = running.run_by or run
    outcome = run_by(positions, task, running.n_jobs, running.verbose, checkpoint)
    penalty, tested = dict(outcome.penalty), analysis.tested
    proportions = None
    if analysis.classes is None:
        if "criterion" in penalty and not isinstance(task, CircularTask):
            penalty["criterion"] = penalty["criterion"] * task.scale**2
    else:
        if samples.train_mask is not None:
            tested = tested[~samples.train_mask]
        proportions = np.bincount(tested, minlength=len(analysis.classes)) / len(tested)
    chances = {
        name: float(metric.chance(proportions)) for name, metric in task.metrics.items()
    }
    maps = outcome.pattern_maps
    if null != "all":
        parameters = {"null": null} | parameters
    tests = (np.arange(len(tested)),) if samples.folds is None else samples.folds.tests
    found = vars(outcome) | {
        "chances": chances,
        "classes": analysis.classes,
        "y": samples.codes,
        "groups": samples.groups,
        "tests": tests,
        "trains": None if samples.folds is None else samples.folds.trains,
        "parameters": analysis.parameters | parameters | (record or {}),
        "versions": versions(),
        "penalty": penalty,
        "members": samples.members,
        "pattern_maps": {name: undo(maps[name]) for name in maps} if undo else maps,
        "second_scores": {
            name: scores
            for name, scores in outcome.second_scores.items()
            if not np.array_equal(scores, outcome.metrics[name], equal_nan=True)
        },
    }
    for name in ("null_summaries", "second_summaries"):
        found[name] = {metric: x.to_arrays() for metric, x in found[name].items()}
    names = {field.name for field in dataclass_fields(kind)} & found.keys()
    if analysis.classes is None:
        found["classes"] = np.empty(0)
    return kind(**{name: found[name] for name in names}, **fields)


# ------------------------------------------------------------------------- resumed runs


#: Kernels that are known by how they are written.
_NAMED = (Linear, RBF, Polynomial)


def describe_run(positions, first, analysis, parameters, identity):
    """All that a checkpoint's parts depend on, by the names of arguments.

    `first` is the number of a position with features, `parameters` is what the result
    records beside what `analysis` does, and `identity` has arrays of the data.
    """
    task, samples, classes = analysis.task, analysis.samples, analysis.classes
    n, learned = len(samples.codes), task.learned
    arrays = {
        **identity,
        "y": (classes, samples.codes),
        "groups": (samples.groups,),
        "cv's folds": (*samples.folds.tests, *(samples.folds.trains or ())),
        "confounds": (learned.confounds,),
        "permutations": (task.labels,),
        "averaged trials": (samples.members,),
    }
    X, kernel = positions.samples(first)
    kernels = [getattr(each, "kernel", each) for each in kernels_of(kernel)]
    with one_blas_thread:  # as in the run, so that no digit depends on it
        if not all(isinstance(each, _NAMED) for each in kernels):
            # What others make of some data tells them apart, not how they are called.
            arrays["the kernel's values"] = [each.fit(X)(X) for each in kernels]
        if learned.steps:
            rows = learned.augmented(X)
            arrays["preprocess's values"] = (learned.fit(rows, samples.codes)(rows),)
    values = {
        name: digest(*([] if each is None else each for each in some))
        for name, some in arrays.items()
    }
    # What functions make of some labels tells them apart.
    labels, scores = samples.codes, None
    if classes is not None:
        labels = classes[samples.codes]
        scores = np.random.default_rng(0).normal(size=(n, len(classes)))
    some = labels, labels[::-1], scores
    for name, metric in task.metrics.items():
        if metric.mean:
            values[f"scoring's {name}"] = metric.mean(*some, [(1, n, n)])
    packages = {f"version of {k}": v for k, v in versions().items()}
    return parameters | analysis.parameters | values | packages


# ----------------------------------------------------------------------- plain features

#: Trials above which an exact kernel matrix is worth a word.
_MANY = 10_000


def read_features(X, procedure):
    """Checked features (n, p), or a kernel matrix."""
    kernel = procedure.method.kernel
    X = check_gram(X) if needs_gram(kernel) else check_array(X)
    if not needs_gram(kernel):
        warn_of_angles(X, "X", "np.concatenate([np.sin(X), np.cos(X)], axis=1)")
    exact = [not each.is_linear and not each.low_rank for each in kernels_of(kernel)]
    if len(X) > _MANY and any(exact) and not needs_gram(kernel):
        size = word_bytes(8 * len(X) ** 2)
        warn(TEXTS["many trials"].format(n=len(X), size=size), UserWarning)
    note_input("data", X)
    return X


@decodes(ClassOptions)
def cross_validate(
    X: ArrayLike,
    y: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    confounds: Confounds = None,
    train_on: ArrayLike | None = None,
    **options: Unpack[ClassOptions],
) -> DecodingResult:
    r"""Cross-validate a kernel Fisher discriminant analysis without retraining.

    One matrix inverse gives the exact out-of-sample predictions of all folds, for the
    observed labels and for any number of permuted ones.

    Parameters
    ----------
    X : array_like, shape (n_trials, n_features) | (n_trials, n_trials)
        Features, or the kernel matrix with ``kernel="precomputed"``. Their unit does
        not matter, except for kernels whose gamma is a number or None.
    kernel
        ... ``"precomputed"``: `X` is the kernel matrix. ``gamma="median"`` is computed
        from all rows, without labels.
    scoring
        ... With more than two classes, the ROC AUC is also averaged over classes (one
        versus rest). Test sets with a single class are left out of the mean; if all
        are, the ROC AUC is computed from all test trials together. The same applies to
        permuted labels.
    dtype
        ... Class scores deviate by up to 1e-3 of the largest. A tuned penalty may
        differ if two are about equally good.
    average
        ... For linear kernels, features are averaged; other kernels are averaged in
        feature space.

    Returns
    -------
    result : DecodingResult
        ``.scores`` (a float), ``.metrics``, ``.predictions`` (n_trials,),
        ``.class_scores`` (n_trials, n_classes), ``.classes``, ``.null`` (P,),
        ``.pvalues()``, ``.plot()``, ``.to_dataframe()``, ``.save()``. Class scores of a
        trial in several test sets are averaged, and the prediction is their argmax;
        metrics count the prediction in each test set.

    Raises
    ------
    ValueError, TypeError
        On non-finite data, labels or groups of the wrong length, a single class, more
        folds than trials, unknown names, splits that train on some of their test
        trials, or a lambda that is too small.

    Warns
    -----
    UserWarning
        If the order of trials lets noise pass for an effect, by simulation (see
        :func:`check_design`); if trials of one class are more variable, and scores of
        predicted labels are tested; or if one trial is 100 or more times as far from
        the mean of the others as they are. See the guide.

    Notes
    -----
    With the hat matrix :math:`G = 11^\top/n + K_c (K_c + \lambda I)^{-1}` and
    contrast-coded labels T, the out-of-sample residuals of a test set are
    :math:`(I - G_{te,te})^{-1} (T - GT)_{te}`; optimal scoring turns them into
    discriminant scores [1]_ [2]_. See :mod:`mvpa_kfda.kfda.direct` for all steps.

    References
    ----------
    .. [1] Treder (2018). Direct calculation of out-of-sample predictions in multi-class
       kernel FDA. ESANN.
    .. [2] Hastie, Buja & Tibshirani (1995). Penalized discriminant analysis. Annals of
       Statistics 23(1), 73-102.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mvpa_kfda import cross_validate
    >>> X, y = load_iris(return_X_y=True)
    >>> result = cross_validate(X, y, n_permutations=999, random_state=0)
    >>> result.scores > 0.9
    True
    >>> result.pvalues()
    0.001

    Unequal classes: trials of the larger ones are left out at random, ten times.

    >>> X, y = X[:120], y[:120]  # 50, 50 and 20 of the classes
    >>> options = {"average": 1, "equalize": True, "n_repeats": 10, "random_state": 0}
    >>> from sklearn.model_selection import KFold
    >>> result = cross_validate(
    ...     X, y, cv=KFold(5, shuffle=True, random_state=0), **options
    ... )
    >>> result.repeats["accuracy"].shape
    (10,)
    """
    settled = {"precomputed": True, "keep_all": True, "keep_class_scores": True}
    procedure = Procedure.of(options, **settled)
    X = read_features(X, procedure)
    trials = make_trials(y, len(X), groups, confounds, train_on)
    analysis = make_analysis(trials, procedure)
    return decode(
        FeaturePositions(X, procedure.method.kernel, procedure.method.reg),
        analysis,
        DecodingResult,
        parameters={"n_features": X.shape[1]},
    )


class _RegressionOptions(CommonOptions, TargetOptions, total=False):
    """What `regress` may be told."""


@decodes(_RegressionOptions, Predicted)
def regress(
    X: ArrayLike,
    y: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    confounds: Confounds = None,
    scoring: RegressionScoring = "r2",
    **options: Unpack[_RegressionOptions],
) -> RegressionResult:
    r"""Cross-validate a kernel ridge regression without retraining.

    One matrix inverse gives the exact out-of-sample predictions of all folds, for the
    observed values and for any number of permuted ones. The intercept is not penalised.

    Parameters
    ----------
    X : array_like, shape (n_trials, n_features) | (n_trials, n_trials)
        Features, or the kernel matrix with ``kernel="precomputed"``. Their unit does
        not matter, except for kernels whose gamma is a number or None.
    y : array_like, shape (n_trials,)
        The value to predict for each trial, in any unit: a reaction time, a rating.
    kernel
        ... ``"precomputed"``: `X` is the kernel matrix. ``gamma="median"`` is computed
        from all rows, without labels.
    reg
        ... It is selected by the squared error.
    cv : None | int | splitter | iterable of (train, test)
        None: leave one group out when `groups` are given, else 10 folds. An int: the
        number of folds of neighbouring trials, like scikit-learn's KFold; of rows
        sorted by target, the i-th fold tests the i-th of every k. Training sets
        may contain any trials outside their test set; if some do not contain all of
        these, a relative `reg` and the bandwidth of a kernel refer to each training
        set. Test sets may overlap or miss trials. Values are not passed to splitters;
        stratified ones are rejected.
    scoring : str | callable | list of these
        ``"r2"``, ``"pearsonr"``, ``"neg_mean_squared_error"`` (in the squared unit of
        y), or several; the first is the one in ``result.scores``. All are computed on
        the predictions pooled over test sets. A function ``f(y_true, y_pred, None) ->
        float`` is a custom metric: its value is averaged over test sets. With
        permutations it is slow.
    n_permutations : int
        Number of permutations P of the values for the null distribution; 0 for none. If
        fewer distinct ones exist, all of them are used.
    dtype : "float64" | "float32"
        Precision used for observed and permuted values.

    Returns
    -------
    result : RegressionResult
        ``.scores`` (a float), ``.metrics``, ``.predictions`` (n_trials,), ``.null``
        (P,), ``.pvalues()``, ``.plot()``, ``.plot_predictions()``,
        ``.to_dataframe()``, ``.save()``. Predictions for a trial in several test sets
        are averaged; metrics count the prediction in each test set.

    Raises
    ------
    ValueError, TypeError
        On non-finite data or values, values that are not numeric or all equal, the
        wrong number of values or groups, unknown names, splits that leave out training
        trials, or a lambda that is too small.

    Warns
    -----
    UserWarning
        If the order of trials lets noise pass for an effect, by simulation.

    Notes
    -----
    With the hat matrix :math:`G = 11^\top/n + K_c (K_c + \lambda I)^{-1}` the
    out-of-sample predictions of a test set are [1]_ [2]_

    .. math:: \hat y_{te} = y_{te} - (I - G_{te,te})^{-1} \left[(I - G) y\right]_{te}.

    If nothing can be predicted, R² and the correlation are below zero on average:
    leaving out a trial with a large value lowers the mean of the training set that
    predicts it. Compare them with the permutations, which have the same bias.

    References
    ----------
    .. [1] Allen (1974). The relationship between variable selection and data
       augmentation and a method for prediction. Technometrics 16(1), 125-127.
    .. [2] Pahikkala, Boberg & Salakoski (2006). Fast n-fold cross-validation for
       regularized least-squares. SCAI, 83-90.

    Examples
    --------
    Reaction times, in seconds, from 20 features of 80 trials:

    >>> import numpy as np
    >>> from mvpa_kfda import regress
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(80, 20))
    >>> reaction_times = 0.6 + 0.1 * X[:, 0] + 0.1 * rng.normal(size=80)
    >>> result = regress(
    ...     X,
    ...     reaction_times,
    ...     scoring=["r2", "pearsonr"],
    ...     n_permutations=999,
    ...     random_state=0,
    ... )
    >>> result.scores > 0.1
    True
    >>> result.pvalues(metric="pearsonr")
    0.001
    """
    # As a list: a text may be the default for classes.
    predicted = taken(Predicted, options, task="regression")
    if predicted.circular and isinstance(scoring, str) and scoring == "r2":
        scoring = "mean_cosine"  # which is the default there
    several = list(scoring) if isinstance(scoring, list | tuple) else [scoring]
    settled = {"scoring": several, "precomputed": True, "keep_all": True}
    procedure = Procedure.of(options, **settled)
    X = read_features(X, procedure)
    trials = make_trials(y, len(X), groups, confounds)
    return decode(
        FeaturePositions(X, procedure.method.kernel, procedure.method.reg),
        make_analysis(trials, procedure, predicted=predicted),
        RegressionResult,
        parameters={"n_features": X.shape[1]},
    )
