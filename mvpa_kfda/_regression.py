r"""What the functions of regression do before, in and after the run loop.

Ridge regression with an unpenalised intercept in the feature space of a kernel has the
hat matrix G of :mod:`mvpa_kfda.hat`, whatever is regressed. With values y in the place
of coded classes, a fold with test rows te has the out-of-sample residuals and
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

from ._checks import check_count, check_per_trial, warn
from ._setup import (
    check_run,
    draw_seed,
    make_inner_folds,
    record_method,
    record_run,
    versions,
)
from .folds import Folds, make_folds, sees_labels
from .penalties import Tuned
from .permutation import Permutations, permute_labels
from .regression_metrics import (
    REGRESSION_METRICS,
    check_regression_scoring,
    evaluate_regression,
)
from .search import Task

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
    """The values of all trials, standardised so that no unit costs digits.

    Attributes
    ----------
    given : ndarray, shape (n,)
        The values as they were given.
    levels : ndarray, shape (u,)
        The distinct values, sorted, between -1 and 1 and of mean 0 over trials.
    codes : ndarray of int, shape (n,)
        Which of them every trial has.
    mean, scale : float
        given = mean + scale * levels[codes].
    """

    given: np.ndarray
    levels: np.ndarray
    codes: np.ndarray
    mean: float
    scale: float


def check_values(y, n_trials):
    """Return the :class:`Values` of y.

    Raises
    ------
    ValueError
        If y is not numeric, not finite, constant, or of the wrong length.
    """
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
    """What is asked at every position: values take the place of classes.

    Attributes
    ----------
    labels : ndarray, shape (P + 1, n)
        Standardised values, the observed ones first.
    mean, scale : float
        A value is mean + scale * standardised value.
    """

    mean: float
    scale: float

    def run_model(self, model):
        """Predict with one model.

        Returns
        -------
        part : dict of str to ndarray
            ``metrics/NAME`` (1,), ``nulls/NAME`` (P, 1) and ``predicted`` (1, n).
        """
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
            block = slice(start, start + size)
            scores = self._evaluate(*self._predict(model, block))
            for name, null in nulls.items():
                null[start - 1 : start - 1 + size, 0] = scores[name]
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
    """The checked arguments of a regression that are not about the data.

    Attributes
    ----------
    values : Values
        What is predicted.
    groups : ndarray, shape (n,) | None
        Each trial's group.
    folds : Folds
        The test sets.
    permutations : Permutations
        Codes of the values, the observed order first.
    task : RegressionTask
        What the run loop needs of all this.
    parameters : dict
        Plain values that, with the data, redo the analysis.
    """

    values: Values
    groups: np.ndarray | None
    folds: Folds
    permutations: Permutations
    task: RegressionTask
    parameters: dict

    @property
    def tested(self):
        """The values to be predicted, (n,)."""
        return self.values.given

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
    """Check the arguments shared by all regressions and draw what is random.

    Raises
    ------
    ValueError, TypeError
        If an argument is not valid; the message says what is.
    """
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
