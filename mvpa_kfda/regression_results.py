"""Results of regression: on one set of features, and over time."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from . import regression_plots
from ._plotted import OnePosition, OverTime
from ._results.base import _Result


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class _Continuous(_Result):
    """What the results of regression share: numbers in the place of classes."""

    classes: np.ndarray = field(default_factory=lambda: np.empty(0))

    @property
    def predictions(self):
        """Predicted values, (positions..., n_trials), in the unit of y.

        NaN for trials that were in no test set. The predictions of a trial that
        several test sets hold are averaged; the metrics count each of them.
        """
        return self.predicted


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class RegressionResult(OnePosition, _Continuous):
    """Regression on one set of features, see `regress`.

    Parameters
    ----------
    metrics : dict of str -> float
        Name -> score of the observed values.
    nulls : dict of str -> array, shape (P,)
        Name -> scores under permuted values.
    chances : dict of str -> float
        Name -> chance level, NaN where there is none.
    classes : array, shape (0,)
        Empty: there are none.
    y : array of float, shape (n,)
        The value of every trial.
    groups : array, shape (n,), or None
        Group of every trial.
    predicted : array of float, shape (n,)
        Predicted value of every trial; NaN for a trial that was in no test set.
    tests : tuple of arrays of int
        Row indices of every test set.
    parameters : dict
        The arguments of the analysis.
    versions : dict of str -> str
        Versions of the packages that made the result.
    penalty : dict of str -> array
        "lambda" and "degrees_of_freedom", numbers, or (n_folds,) where the penalty was
        tuned. Then also "kernel" (n_folds,), the number of the chosen one, "grid"
        (n_kernels, n_lambdas), "scale" (n_kernels,), the trace(K_c)/n that a float is
        relative to, and "criterion" (n_folds, n_kernels, n_lambdas), the mean squared
        error inside the training sets.
    members : None
        Regression averages no trials.

    Examples
    --------
    >>> import numpy as np
    >>> from mvpa_kfda import regress
    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=40)
    >>> X = rng.normal(size=(40, 5)) + y[:, None]
    >>> result = regress(X, y, n_permutations=99, random_state=0)
    >>> result.predictions.shape
    (40,)
    >>> result.pvalues() <= 0.05
    True
    """

    def plot_predictions(self, *, ax=None, show=False):
        """Plot the predicted values against the observed ones.

        Parameters
        ----------
        ax : matplotlib Axes or None
            Where to draw; None makes a figure.
        show : bool
            Show the figure at once.

        Returns
        -------
        ax : matplotlib Axes
        """
        return regression_plots.plot_predictions(self, ax=ax, show=show)


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class TimeRegressionResult(OverTime, _Continuous):
    """Regression at every time point, see `decode_epochs` and `decode_arrays`.

    Parameters
    ----------
    times : array, shape (n_times,)
        Time points in seconds.
    metrics : dict of str -> array, shape (n_times,)
        Name -> score of the observed values.
    nulls : dict of str -> array, shape (P, n_times)
        Name -> scores under permuted values.
    chances : dict of str -> float
        Name -> chance level, NaN where there is none.
    classes : array, shape (0,)
        Empty: there are none.
    y : array of float, shape (n,)
        The value of every trial.
    groups : array, shape (n,), or None
        Group of every trial.
    predicted : array of float, shape (n_times, n)
        Predicted value of every trial; NaN for a trial that was in no test set.
    tests : tuple of arrays of int
        Row indices of every test set.
    parameters : dict
        The arguments of the analysis.
    versions : dict of str -> str
        Versions of the packages that made the result.
    penalty : dict of str -> array
        "lambda" and "degrees_of_freedom" and more, see `RegressionResult`, at every
        time point: (n_times, ...).
    members : None
        Regression averages no trials.

    Examples
    --------
    >>> import numpy as np
    >>> from mvpa_kfda import decode_arrays
    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=40)
    >>> X = rng.normal(size=(40, 4, 6))  # trials, features, times
    >>> X[:, :, 3:] += y[:, None, None]
    >>> result = decode_arrays(
    ...     X, y, task="regression", sfreq=10, n_permutations=99, random_state=0
    ... )
    >>> result.times[result.pvalues("max") <= 0.05]
    array([0.3, 0.4, 0.5])
    """

    axes: ClassVar[dict] = {"times": "time"}

    times: np.ndarray
