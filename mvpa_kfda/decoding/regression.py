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

from dataclasses import dataclass
from numbers import Integral

import numpy as np
from sklearn import model_selection as ms

from ..inference.permutation import Permutations, permute_labels
from ..kfda.folds import Folds, make_folds, sees_labels
from ..kfda.penalties import Tuned
from ..metrics import REGRESSION_METRICS, check_regression_scoring, evaluate_regression
from ..results.decoding import RegressionResult, TimeRegressionResult
from ..results.epochs import TimeResult
from ..utils.checks import (
    check_count,
    check_per_trial,
    draw_seed,
    warn,
)
from ..utils.files import versions
from .analysis import (
    check_run,
    decode,
    make_analysis,
    make_inner_folds,
    read_features,
    record_method,
    record_run,
)
from .positions import FeaturePositions
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

    def n_scalar(self):
        """Return how many of the metrics are one number in each cell."""
        return len(self.scoring)

    def decode(self, model):
        """Score and predict with one model; return the parts of a single cell."""
        true, predicted = self._predict(model, slice(0, 1))
        part = {
            f"metrics/{name}": scores
            for name, scores in self._evaluate(true, predicted).items()
        }
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
            scores = self._evaluate(*self._predict(model, block))
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

    def _evaluate(self, true, predicted):
        """Return the scores (B,) of every metric, in the unit of y."""
        scores = evaluate_regression(self.scoring, true, predicted)
        return {
            name: values * self.scale ** REGRESSION_METRICS[name].power
            for name, values in scores.items()
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

    def task_for(self, positions):
        """Return the task of any positions."""
        return self.task

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
            nulls=outcome.nulls if self.permutations.n_permutations else {},
            chances={
                name: REGRESSION_METRICS[name].chance for name in self.task.scoring
            },
            y=self.values.given,
            groups=self.groups,
            predicted=outcome.predicted,
            penalty=penalty,
            tests=self.folds.tests,
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
):
    """Check the arguments shared by all regressions and draw what is random."""
    scoring = check_regression_scoring(scoring)
    dtype = check_run(dtype, n_permutations, batch_size)
    values = check_values(y, n_trials)
    if groups is not None:
        groups = check_per_trial(groups, n_trials, "groups")
    _check_tuned(reg)
    # What splitters are shown in the place of values, so that these may be permuted.
    nothing = np.zeros(n_trials, np.intp)
    folds = make_folds(_splitter(cv, groups), nothing, groups)
    seed = draw_seed(random_state)
    permutations = permute_labels(
        values.codes,
        n_permutations,
        folds=folds,
        groups=groups,
        permute=permute,
        random_state=seed,
    )
    task = RegressionTask(
        labels=values.levels[permutations.labels],
        n_classes=None,
        folds=folds,
        scoring=scoring,
        dtype=dtype,
        batch_size=batch_size,
        inner=make_inner_folds(reg, nothing, groups, folds, permutations),
        mean=values.mean,
        scale=values.scale,
    )
    parameters = {
        "task": "regression",
        **record_method(kernel, reg),
        "cv": folds.name.removeprefix("cv="),
        **record_run(task, permutations, seed),
    }
    return RegressionAnalysis(values, groups, folds, permutations, task, parameters)


def _splitter(cv, groups):
    """Return what `cv` means without classes to stratify."""
    if sees_labels(cv):
        raise ValueError(
            f"cv={cv!r} {_NEEDS_CLASSES} To balance the folds by binned values, give "
            "cv=list(splitter.split(X, bins))."
        )
    if cv is None and groups is None:
        return ms.KFold(10)
    if isinstance(cv, Integral):
        if groups is not None:
            warn(
                f"cv={cv} makes folds without regard to the groups; they only restrict "
                "the permutations. To keep groups apart, use cv=None (leave one group "
                f"out) or cv=GroupKFold({cv}).",
                UserWarning,
            )
        return ms.KFold(check_count("cv", cv, minimum=2))
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


def regress(
    X,
    y,
    *,
    groups=None,
    kernel="linear",
    reg=0.3,
    cv=None,
    scoring="r2",
    n_permutations=0,
    permute="auto",
    random_state=None,
    batch_size=None,
    dtype="float64",
    approx=None,
):
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
        Runs, sessions or subjects: for the splitters that use groups, and the blocks
        within which values are permuted.
    kernel : str | kernel object | callable
        See :func:`cross_validate`.
    reg : float | str | penalty object
        See :func:`cross_validate`. A tuned penalty is chosen by the squared error.
    cv : None | int | splitter | iterable of (train, test)
        None: leave one group out when groups are given, else 10 folds. An int: that
        many folds of neighbouring trials, as scikit-learn's KFold. Test sets may
        overlap or miss trials, but training must be on all trials outside the test
        set. Splitters are not shown the values; stratified ones are refused.
    scoring : str | list of str
        ``"r2"``, ``"pearsonr"``, ``"neg_mean_squared_error"`` (in the squared unit of
        y), or several; the first is the one in ``result.scores``. All are computed on
        the predictions pooled over test sets.
    n_permutations : int
        Permutations P of the values for the null distribution. When fewer distinct
        ones exist, all of them are used.
    permute : "auto" | "within_folds" | "within_groups" | "groups" | "free"
        What may be exchanged: :func:`mvpa_kfda.inference.permutation.permute_labels`.
    random_state : int | Generator | RandomState | None
        Seed of the permutations.
    batch_size : int | None
        Permutations processed at a time; memory grows with it. None chooses by cache
        size. The result does not depend on it.
    dtype : "float64" | "float32"
        Precision in which values, observed and permuted, are processed.
    approx : Nystrom | None
        How to approximate the kernel with many trials, see :func:`cross_validate`.

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
    average=None,
    numbers=None,
    **options,
):
    """Return the analysis for arguments of a decoding function, some for classes only.

    Their default score, "accuracy", is r2 for numbers.
    """
    del with_patterns, numbers  # of classes
    of_classes = {"n_components": n_components, "average": average}
    refuse_for_regression(**of_classes)
    scoring = "r2" if scoring == "accuracy" else scoring
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
