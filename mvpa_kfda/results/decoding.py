"""Results of decoding one set of features, and of regression."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from ..metrics import make_roc
from ..viz.diagnostics import plot_predictions, plot_roc
from .base import OnePosition, OverTime, _Result


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class DecodingResult(OnePosition, _Result):
    """Decoding of one set of features, see `cross_validate`.

    Parameters
    ----------
    metrics : dict of str -> float or array
        Name -> score of the observed labels. The confusion matrix is (c, c): true
        classes in rows, predicted ones in columns.
    nulls : dict of str -> array, shape (P,)
        Name -> scores under permuted labels.
    chances : dict of str -> float
        Name -> chance level, NaN where there is none.
    classes : array, shape (c,)
        The labels of the classes.
    y : array of int, shape (n,)
        Class of every trial, an index into `classes`.
    groups : array, shape (n,), or None
        Group of every trial.
    predicted : array of int, shape (n,)
        Predicted class of every trial, an index into `classes`; -1 for a trial that
        was in no test set.
    class_scores : array, shape (n, c)
        Score of every class for every trial; the highest is predicted.
    tests : tuple of arrays of int
        Row indices of every test set.
    parameters : dict
        The arguments of the analysis.
    versions : dict of str -> str
        Versions of the packages that made the result.
    penalty : dict of str -> float or array
        What was recorded of the penalties: "lambda" and "degrees_of_freedom", and where
        they were tuned "kernel", "grid", "scale" and "criterion"; see `lambdas`.
    members : array of int, shape (n, k), or None
        The trials that were averaged, where pseudo-trials take the place of trials.

    Examples
    --------
    >>> import numpy as np
    >>> from mvpa_kfda import cross_validate
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(["cat", "dog"], 20)
    >>> X = rng.normal(size=(40, 5)) + (y == "dog")[:, None]
    >>> result = cross_validate(X, y, n_permutations=99, random_state=0)
    >>> result.predictions.shape
    (40,)
    >>> result.pvalues() <= 0.05
    True
    """

    class_scores: np.ndarray

    def __post_init__(self):
        """Normalize the arrays and check that their shapes belong together."""
        object.__setattr__(self, "class_scores", np.asarray(self.class_scores))
        super().__post_init__()
        expected = (len(self.y), len(self.classes))
        if self.class_scores.shape != expected:
            raise ValueError(
                f"class_scores must have shape (n_trials, n_classes) {expected}; got "
                f"{self.class_scores.shape}."
            )

    def roc(self, positive=None):
        """Compute the ROC curve of one class against the rest.

        The scores of all tested trials are ranked together, whichever test set they
        were in: with two classes the difference of the class scores, with more the
        posterior probability of the class, as :meth:`KernelFDA.predict_proba` gives
        it. The models of different folds differ a little in scale, so the area is not
        that of ``metrics["roc_auc"]``, which is the mean over test sets. A trial of
        several test sets counts once, with its mean class scores; one of none is left
        out.

        Parameters
        ----------
        positive : label or None
            The positive class. None: the second of two classes in sorted order; with
            more than two, the class has to be named.

        Returns
        -------
        roc : Roc
            ``.fpr``, ``.tpr``, ``.thresholds``, as from
            :func:`sklearn.metrics.roc_curve`, ``.auc`` and ``.positive``.

        Raises
        ------
        ValueError
            If `positive` is no class, or left out with more than two classes, or if
            the tested trials are all of the positive class or all of others.

        Examples
        --------
        >>> import numpy as np
        >>> from mvpa_kfda import cross_validate
        >>> rng = np.random.default_rng(0)
        >>> y = np.repeat(["cat", "dog"], 20)
        >>> X = rng.normal(size=(40, 5)) + 1.5 * (y == "dog")[:, None]
        >>> cross_validate(X, y).roc()
        <Roc: dog, AUC 0.960>
        """
        return make_roc(self, positive)

    def plot_roc(self, *, positive=None, ax=None, show=False):
        """Plot ROC curves, see `roc`.

        Parameters
        ----------
        positive : label or None
            The positive class. None: the second of two classes, otherwise each class
            against the rest.
        ax : matplotlib Axes or None
            Where to draw; None makes a figure.
        show : bool
            Show the figure at once.

        Returns
        -------
        ax : matplotlib Axes

        Raises
        ------
        ValueError
            If `positive` is no class, or if the tested trials are all of the positive
            class or all of others.
        """
        return plot_roc(self, positive=positive, ax=ax, show=show)


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
        return plot_predictions(self, ax=ax, show=show)


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
