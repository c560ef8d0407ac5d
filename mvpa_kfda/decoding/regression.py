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

import numpy as np
from numpy.typing import ArrayLike

from ..data.confounds import Confounds, read_confounds
from ..inference.permutation import Permutations, Permute, permute_labels
from ..kfda.arguments import CrossValidation, KernelLike, PenaltyLike, Preprocess
from ..kfda.folds import Folds, make_folds, may_see_labels, sees_labels
from ..kfda.nystrom import Nystrom
from ..kfda.penalties import Tuned
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
from ..results.kinds import keeps_warnings
from ..utils.checks import (
    Precision,
    Seed,
    check_count,
    check_flag,
    check_per_trial,
    draw_seed,
    warn_of_angles,
)
from ..utils.files import versions
from ..utils.memory import check_memory
from .analysis import (
    check_foldwise,
    check_run,
    decode,
    make_analysis,
    make_inner_folds,
    make_learned,
    read_features,
    record_method,
    record_run,
)
from .orders import warn_of_order_of_values
from .positions import FeaturePositions
from .problems import warn_of_confounds
from .repeating import ONCE
from .run import Task

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
        if self.parameters.get("criterion") == "squared_error":
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


def make_regression_analysis(
    y,
    n_trials,
    *,
    groups,
    kernel,
    reg,
    cv,
    scoring,
    n_permutations,
    permute,
    random_state,
    dtype,
    batch_size=None,
    maps=None,
    preprocess=None,
    confounds=None,
    numbers=None,
):
    """Check the arguments shared by all regressions and draw what is random.

    What is kept of the permutations' `maps` is measured before any value is drawn.
    `numbers` (n,) are those of the trials in the recording, where they are known.
    """
    scoring, functions = name_functions(scoring)
    scoring = check_regression_scoring(scoring, functions)
    dtype = check_run(dtype, n_permutations, batch_size)
    values = check_values(y, n_trials)
    if groups is not None:
        groups = check_per_trial(groups, n_trials, "groups")
    _check_tuned(reg)
    # What splitters are shown in the place of values, so that these may be permuted.
    nothing = np.zeros(n_trials, np.intp)
    folds = make_folds(_checked(cv), nothing, groups, numbers=numbers)
    if folds.sees_labels is None and may_see_labels(cv):
        folds = replace(folds, sees_labels=False)  # there was nothing to look at
    learned = make_learned(preprocess, confounds)
    check_foldwise(learned, preprocess, folds, kernel)
    warn_of_confounds(confounds, groups, folds)
    seed = draw_seed(random_state)

    def check(n_permutations):
        what = f"To permute {n_trials} values {n_permutations} times"
        check_memory(8 * n_trials * n_permutations, what, "fewer permutations")
        if maps is not None:
            maps.check(len(scoring), n_permutations)

    permutations = permute_labels(
        values.codes,
        n_permutations,
        folds=folds,
        groups=groups,
        permute=permute,
        random_state=seed,
        check=check,
        alike=False,
    )
    task = RegressionTask(
        labels=values.levels[permutations.labels],
        n_classes=None,
        folds=folds,
        scoring=scoring,
        dtype=dtype,
        batch_size=batch_size,
        inner=make_inner_folds(reg, nothing, groups, folds, permutations, learned),
        functions=function_metrics(functions),
        learned=learned.seeded(seed),
        mean=values.mean,
        scale=values.scale,
    )
    parameters = {
        "task": "regression",
        **record_method(kernel, reg),
        "cv": folds.splitter,
        **record_run(task, learned, permutations, seed),
    }
    warn_of_order_of_values(values.given, groups, numbers)
    return RegressionAnalysis(values, groups, folds, permutations, task, parameters)


def _checked(cv):
    """Return `cv`, unless it needs classes."""
    if sees_labels(cv):
        raise ValueError(
            f"cv={cv!r} {_NEEDS_CLASSES} To balance the folds by binned values, give "
            "cv=list(splitter.split(X, bins))."
        )
    return cv


def _check_tuned(reg):
    """Refuse to tune a penalty by what needs classes."""
    if not isinstance(reg, Tuned):
        return
    if reg.criterion != "squared_error":
        raise ValueError(
            f"criterion={reg.criterion!r} scores the prediction of classes; in "
            "regression a penalty is tuned by the squared error. Use "
            "Tuned(criterion='squared_error')."
        )
    if sees_labels(reg.cv):
        raise ValueError(f"Tuned(cv={reg.cv!r}) {_NEEDS_CLASSES}")


@keeps_warnings
def regress(
    X: ArrayLike,
    y: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    kernel: KernelLike = "linear",
    reg: PenaltyLike = "auto",
    cv: CrossValidation = None,
    scoring: RegressionScoring = "r2",
    n_permutations: int = 0,
    permute: Permute = "auto",
    random_state: Seed = None,
    batch_size: int | None = None,
    dtype: Precision = "float64",
    approx: Nystrom | None = None,
    preprocess: Preprocess = None,
    confounds: Confounds = None,
) -> RegressionResult:
    r"""Cross-validate a kernel ridge regression without retraining.

    One matrix inverse gives the exact out-of-sample prediction of every fold, for the
    observed values and for any number of permuted ones. The intercept is not penalised.

    Parameters
    ----------
    X : array_like, shape (n_trials, n_features) | (n_trials, n_trials)
        Features, or the kernel matrix with ``kernel="precomputed"``. Their unit does
        not matter, except to kernels whose gamma is a number or None.
    y : array_like, shape (n_trials,)
        The number to predict for every trial, in any unit: a reaction time, a rating.
    groups : array_like, shape (n_trials,) | None
        Runs, sessions or subjects: ``cv=None`` leaves out one at a time, splitters that
        use groups are given them, and `permute` respects them.
    kernel : str | kernel object | callable | list of these
        How trials are compared: ``"linear"``, ``"rbf"`` (Gaussian), ``"polynomial"``,
        an object such as ``RBF(gamma=0.1)`` or ``GraphSmooth(adjacency)``, or a
        function ``f(X, Y) -> (n_x, n_y)``. A list of these, to choose from with a tuned
        `reg`. ``"precomputed"``: `X` is the kernel matrix. The width ``gamma="median"``
        is computed on all rows, without labels.
    reg : float | str | penalty object
        The penalty. ``"auto"`` chooses it inside every training set, and again for
        every permutation, in closed form (see :doc:`/method`); ``"tuned"`` or
        :class:`Tuned` by cross-validation there. The others use no labels, and are
        faster. A float is relative: lambda = reg * trace(K_c) / n, with the centred
        kernel matrix K_c of all n trials, so that the unit of the features does not
        matter. :class:`Ridge` is absolute, :class:`Shrinkage` in units of the
        covariance's trace, :class:`DegreesOfFreedom` says how flexible the model is;
        ``"ledoit_wolf"`` and ``"oas"`` estimate the shrinkage, for linear kernels and
        trials that are independent (for single scans it is too small). The choice is by
        the squared error.
    cv : None | int | splitter | iterable of (train, test)
        None: leave one group out when `groups` are given, else 10 folds. An int: that
        many folds of neighbouring trials, as scikit-learn's KFold. Training sets may be
        any trials outside their test set; if some are not all of them, a relative `reg`
        and the width of a kernel are those of each training set. Test sets may overlap
        or miss trials. Splitters are not shown the values; stratified ones are refused.
    scoring : str | callable | list of these
        ``"r2"``, ``"pearsonr"``, ``"neg_mean_squared_error"`` (in the squared unit of
        y), or several; the first is the one in ``result.scores``. All are computed on
        the predictions pooled over test sets. A function ``f(y_true, y_pred, None) ->
        float`` is a metric too: the mean of what it returns for each test set. With
        permutations it is slow.
    n_permutations : int
        Permutations P of the values for the null distribution; 0 for none. When fewer
        distinct ones exist, all of them are used.
    permute : "auto" | "within_folds" | "within_groups" | "groups" | "free"
        What may be exchanged. ``"within_folds"``: trials of the same training and test
        sets (and group); ``"within_groups"``: trials of a group; ``"groups"``: whole
        groups; ``"free"``: all trials; ``"auto"``: what is valid for the folds and
        groups, whatever `n_permutations`, by the rules of
        :func:`~mvpa_kfda.inference.permutation.permute_labels`.
    random_state : int | Generator | RandomState | None
        Seed of the permutations. None makes p differ from call to call; give a number,
        such as 0, and report it.
    batch_size : int | None
        Permutations processed at a time; memory grows with it. None chooses by cache
        size. The result does not depend on it.
    dtype : "float64" | "float32"
        Precision in which values, observed and permuted, are processed.
    approx : Nystrom | None
        Approximate the kernel with landmarks, for example ``Nystrom(200)``, so that no
        (n, n) matrix is made of many trials; None: take it as it is.
    preprocess : str | transformer | list of these | None
        Steps that every fold learns from its training trials, at each position by
        itself, and applies to its test trials: ``"zscore"`` (each feature),
        ``"pca"`` (components with 99 % of the variance), ``"whiten"`` (these with unit
        variance), a transformer of scikit-learn that needs no labels, or a list of
        these. All permutations share them; a relative `reg` and the width of a kernel
        are then those of each training set. None: nothing.
    confounds : array_like, shape (n_trials,) | (n_trials, n_confounds) | None
        Taken out of the features by linear regression before `preprocess`, in every
        fold with coefficients from its training trials. Texts and pandas' categories
        are categories, all others numbers, of which what is linear is taken out, no
        more: give squares and products too, and angles as sine and cosine.

    Returns
    -------
    result : RegressionResult
        ``.scores`` (a float), ``.metrics``, ``.predictions`` (n_trials,), ``.null``
        (P,), ``.pvalues()``, ``.plot()``, ``.plot_predictions()``,
        ``.to_dataframe()``, ``.save()``. Predictions of a trial that several test sets
        hold are averaged; metrics count each test set's prediction.

    Raises
    ------
    ValueError, TypeError
        On data or values that are not finite, values that are no numbers or all equal,
        the wrong number of values or groups, unknown names, splits that leave out
        training trials, or a lambda that is too small.

    Warns
    -----
    UserWarning
        If the order of trials tells their number: numbers last from trial to trial,
        follow the time, or are alike at the same position of all groups.

    Notes
    -----
    With the hat matrix :math:`G = 11^\top/n + K_c (K_c + \lambda I)^{-1}` the
    out-of-sample predictions of a test set are [1]_ [2]_

    .. math:: \hat y_{te} = y_{te} - (I - G_{te,te})^{-1} \left[(I - G) y\right]_{te}.

    Where nothing can be predicted, R² and the correlation are below zero on average: a
    trial with a large value leaves a lower mean to the model that predicts it. Judge
    them by the permutations, of which the same holds.

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
    X, kernel, reg = read_features(X, kernel, reg, approx)
    analysis = make_regression_analysis(
        y,
        len(X),
        groups=groups,
        kernel=kernel,
        reg=reg,
        cv=cv,
        scoring=scoring,
        n_permutations=n_permutations,
        permute=permute,
        random_state=random_state,
        dtype=dtype,
        batch_size=batch_size,
        preprocess=preprocess,
        confounds=read_confounds(confounds, len(X)),
    )
    return decode(
        FeaturePositions(X, kernel, reg),
        analysis,
        RegressionResult,
        parameters={"n_features": X.shape[1]},
    )


def _make_from_decoding(
    *data,
    scoring,
    with_patterns=False,
    n_components=None,
    keep_class_scores=False,
    train_on=None,
    how=ONCE,
    **options,
):
    """Return the analysis for arguments of a decoding function, some for classes only.

    Their default score, "accuracy", is r2 for numbers.
    """
    del with_patterns  # of classes
    for name in ("equalize", "average_test"):
        check_flag(name, getattr(how, name))
    check_count("n_repeats", how.n_repeats, minimum=1)
    check_flag("keep_class_scores", keep_class_scores)
    refuse_for_regression(
        n_components=n_components,
        average=how.average,
        n_repeats=None if how.n_repeats == 1 else how.n_repeats,
        equalize=how.equalize or None,
        average_test=None if how.average_test is True else how.average_test,
        keep_class_scores=keep_class_scores or None,
        train_on=train_on,
    )
    by_default = isinstance(scoring, str) and scoring == "accuracy"
    scoring = "r2" if by_default else scoring
    return make_regression_analysis(*data, scoring=scoring, **options)


def refuse_for_regression(**of_classes):
    """Refuse arguments of a decoding function that are for classes only."""
    given = [name for name, value in of_classes.items() if value is not None]
    if given:
        raise ValueError(
            f"task='regression' has no {' and no '.join(given)}. Leave "
            f"{'it' if len(given) == 1 else 'them'} out."
        )


#: How decoding over time is analysed, and what results, by what is to be predicted.
TASKS = {
    "classification": (make_analysis, TimeResult),
    "regression": (_make_from_decoding, TimeRegressionResult),
}
