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

import numpy as np

from ..kfda.direct import Predictions
from ..kfda.penalties import Auto, Tuned
from ..metrics.names import FunctionMetric
from ..metrics.regression import REGRESSION_METRICS, RegressionMetric
from ..utils.checks import check_count, check_flag, check_per_trial, warn_of_angles
from .problems import refusal
from .run import Task

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
    """The `Values` of y, (n,)."""
    y = check_per_trial(y, n_trials, "y")
    if y.dtype.kind not in "iufO":
        raise refusal("values: type", dtype=y.dtype)
    given = y.astype(np.float64)
    bad = ~np.isfinite(given)
    if bad.any():
        words = {"bad": bad.sum(), "n": n_trials, "first": np.flatnonzero(bad)[0]}
        raise refusal("values: infinite", **words)
    warn_of_angles(given, "y", "predict np.sin(y) and np.cos(y), in two analyses")
    levels, codes = np.unique(given, return_inverse=True)
    # Divided before anything is squared, which could overflow or underflow.
    size = np.abs(levels).max() or 1.0
    mean = (given / size).mean()
    centred = levels / size - mean
    scale = np.abs(centred).max()
    if not scale > _ROUNDING * np.finfo(float).eps:
        raise refusal("values: constant", value=given[0], n=n_trials)
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
        return {
            name: _OfStandardised(known[name], self.mean, self.scale)
            for name in self.scoring
        }

    scalar_metrics = metrics

    def penalty(self, reg):
        """A penalty for values: their size tells how much to shrink."""
        return Tuned() if isinstance(reg, Auto) else reg

    def predict(self, model, labels, want_scores=False):
        """Yield the true and the predicted values, standardised, (n_test, B) both."""
        values = labels.T
        T = values[model.order].astype(model.dtype, copy=False)[np.newaxis]
        true, predicted = values[model.rows], np.empty((len(model.rows), T.shape[2]))
        for batch, residuals in model.fold_residuals(T):
            fitted = batch.of(T)[0] - residuals[0]
            predicted[batch.rows] = fitted.reshape(-1, T.shape[2])
        yield Predictions(true, predicted, None)

    def blocks(self, model):
        """Yield slices of the permuted values; some may overlap.

        Never of one alone: products of vectors round unlike those of matrices.
        """
        size = self.batch_size or model.block_size(2)  # one column each, as 2 classes
        for start in range(1, len(self.labels), size):
            first = max(1, min(start, len(self.labels) - 2))
            yield slice(first, max(start + size, first + 2))

    def by_trial(self, model, observed):
        """The predictions (1, n) of the observed values, in their unit.

        Averages over the folds that test a trial; NaN for trials never tested.
        """
        times = np.bincount(model.rows, minlength=model.n_rows)
        predicted = observed[0].predicted[:, 0]
        total = np.bincount(model.rows, predicted, minlength=model.n_rows)
        average = np.full(model.n_rows, np.nan)
        np.divide(total, times, out=average, where=times > 0)
        return {"predicted": (self.mean + self.scale * average)[np.newaxis]}


@dataclass(frozen=True)
class _OfStandardised:
    """A metric of standardised values, in the unit of the given ones."""

    metric: RegressionMetric | FunctionMetric
    mean: float
    scale: float

    scalar, table, needs_class_scores = True, None, False

    @property
    def chance(self):
        """Its value where nothing can be predicted."""
        return self.metric.chance

    @property
    def needs_two_classes(self):
        """Whether it is undefined where all values to be predicted are equal."""
        return self.metric.needs_spread

    def score(self, tested):
        """The scores (1, B) of what was tested; functions are shown given values."""
        true, predicted, metric = tested.true[:, 0], tested.predicted[:, 0], self.metric
        if not isinstance(metric, FunctionMetric):
            scores = metric.score(true, predicted) * self.scale**metric.power
        else:
            true, predicted = (self.mean + self.scale * v.T for v in (true, predicted))
            pairs = zip(true, predicted, strict=True)
            scores = [metric.mean(*pair, None, tested.shapes) for pair in pairs]
        return np.array([scores])


def refuse_class_options(procedure, trials):
    """Refuse options of a decoding function that are for classes only."""
    repeating = procedure.repeating
    for name in ("equalize", "average_test"):
        check_flag(name, getattr(repeating, name))
    check_count("n_repeats", repeating.n_repeats, minimum=1)
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
    if given:
        them = "it" if len(given) == 1 else "them"
        raise refusal("values: options", options=" and no ".join(given), them=them)
