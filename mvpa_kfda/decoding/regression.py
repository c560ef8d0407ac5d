r"""Regression: predicting numbers, such as reaction times, without retraining.

Ridge regression with an unpenalised intercept in the feature space of a kernel has the
hat matrix G of :mod:`mvpa_kfda.kfda.hat`, whatever is regressed. With values y in the
place of coded classes, a fold with test rows te has the out-of-sample residuals and
predictions

.. math::

    E_{te} = (I - G_{te,te})^{-1} \left[(I - G) y\right]_{te}, \qquad
    \hat y_{te} = y_{te} - E_{te},

those of a model refitted on the other rows. Permutations of y are further columns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from ..data.confounds import Confounds, read_confounds
from ..inference.permutation import Permutations, permute_labels
from ..kfda.folds import Folds, make_folds
from ..kfda.penalties import Auto, Tuned
from ..kfda.splits import may_see_labels, sees_labels
from ..metrics.names import (
    FunctionMetric,
    RegressionScoring,
    check_regression_scoring,
    function_metrics,
    name_functions,
)
from ..metrics.numbers import REGRESSION_METRICS
from ..results.decoding import RegressionResult, TimeRegressionResult
from ..results.epochs import TimeResult
from ..utils.checks import (
    check_count,
    check_flag,
    check_per_trial,
    draw_seed,
    warn_of_angles,
)
from ..utils.memory import check_memory
from ..utils.record import versions
from .analysis import (
    check_foldwise,
    decode,
    make_analysis,
    make_inner_folds,
    make_learned,
    note_trials,
    read_features,
    record_method,
    record_run,
)
from .options import BatchOptions, CommonOptions, decodes
from .orders import warn_of_order_of_values
from .positions import FeaturePositions
from .problems import find_misread, warn_of
from .procedure import Procedure, TrialData
from .run import Task

if TYPE_CHECKING:
    from typing_extensions import Unpack

_ADVICE = (
    "For class labels use cross_validate, or decode_epochs and decode_arrays with "
    "task='classification'."
)
_NEEDS_CLASSES = (
    "needs classes, but the values of a regression are continuous. Use KFold, "
    "GroupKFold, ShuffleSplit or a number of folds."
)
#: Values that vary less than this many units of rounding do not vary.
_ROUNDING = 8


@dataclass(frozen=True)
class Values:
    """The values of all trials, standardised so that no unit costs digits."""

    #: The values as they were given, (n,).
    given: np.ndarray
    #: The distinct values, sorted, between -1 and 1 and of mean 0 over trials, (u,).
    levels: np.ndarray
    #: Which of them every trial has, (n,).
    codes: np.ndarray
    #: given = mean + scale * levels[codes].
    mean: float
    scale: float


def check_values(y, n_trials):
    """Return the `Values` of y, (n,)."""
    y = check_per_trial(y, n_trials, "y")
    if y.dtype.kind not in "iufO":
        raise ValueError(
            f"y must hold numbers for regression; got dtype {y.dtype}. {_ADVICE} Or "
            "convert: y.astype(float)."
        )
    given = y.astype(np.float64)
    bad = ~np.isfinite(given)
    if bad.any():
        raise ValueError(
            f"y is infinite for {bad.sum()} of {n_trials} trials (first: "
            f"{np.flatnonzero(bad)[0]}). Drop these trials first."
        )
    warn_of_angles(given, "y", "predict np.sin(y) and np.cos(y), in two analyses")
    levels, codes = np.unique(given, return_inverse=True)
    # Divided before anything is squared, which could overflow or underflow.
    size = np.abs(levels).max() or 1.0
    mean = (given / size).mean()
    centred = levels / size - mean
    scale = np.abs(centred).max()
    if not scale > _ROUNDING * np.finfo(float).eps:
        raise ValueError(
            f"y is constant ({given[0]:g} for all {n_trials} trials): there is nothing "
            "to predict."
        )
    return Values(given, centred / scale, codes, mean * size, scale * size)


@dataclass(frozen=True, kw_only=True)
class RegressionTask(Task):
    """What is asked at every position: values take the place of classes."""

    #: A value is mean + scale * standardised value.
    mean: float
    scale: float

    #: Bytes of the prediction of a trial.
    prediction_bytes = 8

    @property
    def metrics(self):
        """The metrics by name."""
        known = REGRESSION_METRICS | self.functions
        return {name: known[name] for name in self.scoring}

    scalar_metrics = metrics

    def penalty(self, reg):
        """Return a penalty for values: their size tells how much to shrink."""
        return Tuned() if isinstance(reg, Auto) else reg

    def decode(self, model):
        """Score and predict with one model; return the parts of a single cell."""
        true, predicted = self._predict(model, slice(0, 1))
        part = {
            f"metrics/{name}": scores
            for name, scores in self._evaluate(true, predicted, model.shapes).items()
        }
        part |= self._of_folds(true, predicted)
        part |= {f"nulls/{name}": null for name, null in self._nulls(model).items()}
        return part | {"predicted": self._per_trial(model, predicted[:, 0])[np.newaxis]}

    def _nulls(self, model):
        """Return the scores (P, 1) of permuted values."""
        nulls = {name: np.empty((len(self.labels) - 1, 1)) for name in self.scoring}
        size = self.batch_size or model.block_size(2)  # one column each, as 2 classes
        for start in range(1, len(self.labels), size):
            # Never one by one: products of vectors round unlike those of matrices.
            first = max(1, min(start, len(self.labels) - 2))
            block = slice(first, max(start + size, first + 2))
            scores = self._evaluate(*self._predict(model, block), model.shapes)
            for name, null in nulls.items():
                null[first - 1 : block.stop - 1, 0] = scores[name]
        return nulls

    def _predict(self, model, block):
        """Return the true and the predicted values of some label vectors, standardised.

        Both (n_test, B), in the order of ``model.rows``.
        """
        values = self.labels[block].T  # (n, B)
        T = values[model.order].astype(model.dtype, copy=False)[np.newaxis]
        true, predicted = values[model.rows], np.empty((len(model.rows), T.shape[2]))
        for batch, residuals in model.fold_residuals(T):
            fitted = batch.of(T)[0] - residuals[0]
            predicted[batch.rows] = fitted.reshape(-1, T.shape[2])
        return true, predicted

    def _evaluate(self, true, predicted, shapes):
        """Return the scores (B,) of every metric, in the unit of y."""
        return {
            name: self._score(metric, true, predicted, shapes)
            for name, metric in self.metrics.items()
        }

    def _score(self, metric, true, predicted, shapes):
        """Return the scores (B,) of one metric, functions being shown values of y."""
        if not isinstance(metric, FunctionMetric):
            return metric.score(true, predicted) * self.scale**metric.power
        true, predicted = (self.mean + self.scale * v.T for v in (true, predicted))
        pairs = zip(true, predicted, strict=True)
        return np.array([metric.mean(*pair, None, shapes) for pair in pairs])

    def _of_folds(self, true, predicted):
        """Return the scores of every test set, ``folds/NAME`` (1, n_sets).

        NaN where a metric needs values that differ, and the test set has none.
        """
        found = {name: [] for name in self.metrics}
        for batch in self.folds.layout.batches:
            pair = [
                v[batch.rows].reshape(batch.k, batch.m).T for v in (true, predicted)
            ]
            flat = (pair[0] == pair[0][:1]).all(axis=0)
            for name, metric in self.metrics.items():
                values = self._score(metric, *pair, ((1, batch.m, 0),))
                values = np.where(flat & metric.needs_spread, np.nan, values)
                found[name].append(values)
        order = np.argsort(self.folds.numbers)
        return {
            f"folds/{name}": np.concatenate(values)[np.newaxis, order]
            for name, values in found.items()
        }

    def _per_trial(self, model, predicted):
        """Average predictions (n_test,) over the folds that test a trial: (n,).

        NaN for trials never tested.
        """
        times = np.bincount(model.rows, minlength=model.n_rows)
        total = np.bincount(model.rows, predicted, minlength=model.n_rows)
        average = np.full(model.n_rows, np.nan)
        np.divide(total, times, out=average, where=times > 0)
        return self.mean + self.scale * average


@dataclass(frozen=True)
class RegressionAnalysis:
    """The checked arguments of a regression that are not about the data."""

    #: What is predicted.
    values: Values
    #: Each trial's group, (n,).
    groups: np.ndarray | None
    #: The test sets.
    folds: Folds
    #: Codes of the values, the observed order first.
    permutations: Permutations
    #: What the run loop needs of all this.
    task: RegressionTask
    #: Plain values that, with the data, redo the analysis.
    parameters: dict
    #: What was asked for.
    procedure: Procedure

    @property
    def tested(self):
        """The values to be predicted, (n,)."""
        return self.values.given

    def of_trained(self, data):
        """Return data as they are: all trials are trained with."""
        return data

    def task_for(self, positions):
        """Return the task of any positions."""
        return self.task

    def warn_of(self, positions):
        """Warn of nothing: there are no classes that could differ in variance."""

    def average(self, data, kernel, axis=0):
        """Return data and kernel as they are: values are not averaged."""
        return data, kernel

    def result(self, kind, outcome, parameters, **fields):
        """Pack the run's outcome as a result of class `kind`."""
        penalty = dict(outcome.penalty)
        if "criterion" in penalty:
            penalty["criterion"] = penalty["criterion"] * self.task.scale**2
        return kind(
            metrics=outcome.metrics,
            fold_metrics=outcome.folds,
            nulls=outcome.nulls if self.permutations.n_permutations else {},
            chances={name: metric.chance for name, metric in self.task.metrics.items()},
            y=self.values.given,
            groups=self.groups,
            predicted=outcome.predicted,
            penalty=penalty,
            tests=self.folds.tests,
            trains=self.folds.trains,
            parameters={**self.parameters, **parameters},
            versions=versions(),
            **fields,
        )


def make_regression_analysis(trials, procedure, *, maps=None, with_patterns=False):
    """Check what a `Procedure` does with `TrialData`, and draw what is random.

    What is kept of the permutations' `maps` is measured before any value is drawn.
    There are no patterns.
    """
    del with_patterns  # of classes
    note_trials(trials)
    _refuse_options(procedure, trials)
    method, running = procedure.method, procedure.running
    permuting, cv = procedure.permuting, procedure.splitting.cv
    scoring, functions = _check_scores(_scoring_of(procedure.scores))
    values, groups = check_values(trials.y, trials.n), trials.groups
    if groups is not None:
        groups = check_per_trial(groups, trials.n, "groups")
    reg = Tuned() if isinstance(method.reg, Auto) else method.reg
    _check_tuned(reg)
    # What splitters are shown in the place of values, so that these may be permuted.
    nothing = np.zeros(trials.n, np.intp)
    order = {"numbers": trials.numbers, "values": values.given}
    folds = make_folds(_checked(cv), nothing, groups, **order)
    if folds.sees_labels is None and may_see_labels(cv):
        folds = replace(folds, sees_labels=False)  # there was nothing to look at
    learned = make_learned(procedure, trials)
    check_foldwise(learned, procedure, folds)
    warn_of(*find_misread(trials.confounds, groups, folds))
    seed = draw_seed(running.random_state)

    def check(n_permutations):
        what = f"To permute {trials.n} values {n_permutations} times"
        check_memory(8 * trials.n * n_permutations, what, "fewer permutations")
        if maps is not None:
            maps.check(len(scoring), n_permutations)

    permutations = permute_labels(
        values.codes,
        permuting.n_permutations,
        folds=folds,
        groups=groups,
        permute=permuting.permute,
        random_state=seed,
        check=check,
        alike=False,
    )
    task = RegressionTask(
        labels=values.levels[permutations.labels],
        n_classes=None,
        folds=folds,
        scoring=scoring,
        dtype=running.dtype,
        batch_size=running.batch_size,
        inner=make_inner_folds(reg, None, groups, folds, permutations, learned),
        functions=function_metrics(functions),
        learned=learned.seeded(seed),
        mean=values.mean,
        scale=values.scale,
    )
    parameters = {
        "task": "regression",
        **record_method(method, reg),
        "cv": folds.splitter,
        "recorded_order": trials.recorded_order,
        **record_run(task, learned, permutations, seed),
    }
    warn_of_order_of_values(values.given, groups, trials.numbers, folds)
    made = permutations, task, parameters, procedure
    return RegressionAnalysis(values, groups, folds, *made)


def _check_scores(scoring):
    """Return the names of metrics, and those of them that are functions."""
    scoring, functions = name_functions(scoring)
    return check_regression_scoring(scoring, functions), functions


def _scoring_of(scores):
    """Return the metrics that were asked for; what classes have by default is r2."""
    by_default = isinstance(scores.scoring, str) and scores.scoring == "accuracy"
    return "r2" if by_default else scores.scoring


def _refuse_options(procedure, trials):
    """Refuse options of a decoding function that are for classes only."""
    how, scores = procedure.repeating, procedure.scores
    for name in ("equalize", "average_test"):
        check_flag(name, getattr(how, name))
    check_count("n_repeats", how.n_repeats, minimum=1)
    refuse_for_regression(
        n_components=procedure.method.n_components,
        average=how.average,
        n_repeats=None if how.n_repeats == 1 else how.n_repeats,
        equalize=how.equalize or None,
        average_test=None if how.average_test is True else how.average_test,
        keep_class_scores=scores.keep_class_scores or None,
        train_on=trials.train_on,
    )


def _checked(cv):
    """Return `cv`, unless it needs classes."""
    if sees_labels(cv):
        raise ValueError(
            f"cv={cv!r} {_NEEDS_CLASSES} To balance the folds by binned values, pass "
            "cv=list(splitter.split(X, bins))."
        )
    return cv


def _check_tuned(reg):
    """Refuse to tune a penalty by what needs classes."""
    if not isinstance(reg, Tuned):
        return
    if sees_labels(reg.cv):
        raise ValueError(f"Tuned(cv={reg.cv!r}) {_NEEDS_CLASSES}")


class _Options(CommonOptions, BatchOptions, total=False):
    """What `regress` may be told."""


@decodes(_Options)
def regress(
    X: ArrayLike,
    y: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    confounds: Confounds = None,
    scoring: RegressionScoring = "r2",
    **options: Unpack[_Options],
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
        If the order of trials predicts their values: these are correlated from trial to
        trial, have a trend, or are similar at the same position in all groups.

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
    _check_scores(scoring)  # by name: there is no default of classes here
    settled = {"scoring": scoring, "precomputed": True, "keep_all": True}
    procedure = Procedure.of(options, **settled)
    X = read_features(X, procedure)
    confounds = read_confounds(confounds, len(X))
    trials = TrialData(y=y, n=len(X), groups=groups, confounds=confounds)
    analysis = make_regression_analysis(trials, procedure)
    return decode(
        FeaturePositions(X, procedure.method.kernel, procedure.method.reg),
        analysis,
        RegressionResult,
        parameters={"n_features": X.shape[1]},
    )


def refuse_for_regression(**of_classes):
    """Refuse arguments of a decoding function that are for classes only."""
    given = [name for name, value in of_classes.items() if value is not None]
    if given:
        raise ValueError(
            f"task='regression' has no {' and no '.join(given)}. Leave "
            f"{'it' if len(given) == 1 else 'them'} out."
        )


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


#: How decoding over time is analysed, and what results, by what is to be predicted.
TASKS = {
    "classification": (make_analysis, TimeResult),
    "regression": (make_regression_analysis, TimeRegressionResult),
}
