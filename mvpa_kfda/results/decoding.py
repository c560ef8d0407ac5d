"""Results of decoding one set of features, and of regression."""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..metrics.auc import Roc, make_roc
from ..utils.axes import axes_of
from ..viz.diagnostics import (
    plot_flexibility,
    plot_predictions,
    plot_roc,
    plot_tuning,
)
from ..viz.null import plot_null
from ..viz.time import plot_time
from .base import Scores, SubjectResult
from .dissimilarity import EvidenceMixin
from .epochs import OnsetMixin
from .fields import figure_method, record, result_kind


@result_kind
class DecodingResult(EvidenceMixin, SubjectResult[float]):
    """Decoding of one set of features, see :func:`cross_validate`.

    Parameters
    ----------
    metrics : dict of str -> float or array
        Name -> score of the observed labels. The confusion matrix is (c, c): true
        classes in rows, predicted ones in columns.
    class_scores : array, shape (n, c)
        Score of each class for each trial; the class with the highest is predicted.

    Examples
    --------
    >>> import numpy as np
    >>> from mvpa_kfda import cross_validate
    >>> rng = np.random.default_rng(0)
    >>> y = rng.permutation(["cat", "dog"] * 20)
    >>> X = rng.normal(size=(40, 5)) + (y == "dog")[:, None]
    >>> result = cross_validate(X, y, n_permutations=99, random_state=0)
    >>> result.predictions.shape
    (40,)
    >>> result.pvalues() <= 0.05
    True
    """

    class_scores: NDArray

    def roc(self, positive: Any = None) -> Roc:
        """Compute the ROC curve of one class against the rest.

        Scores are ranked across the trials of all test sets: with two classes, the
        difference of the class scores; with more, the posterior probability of the
        class, as in :meth:`KernelFDA.predict_proba`. The models of different folds
        differ slightly in scale, so the area differs from ``metrics["roc_auc"]``, the
        mean over test sets. A trial in several test sets counts once, with its mean
        class scores; trials in no test set are left out.

        Parameters
        ----------
        positive : label or None
            The positive class. None: the second of two classes in sorted order;
            required with more than two classes.

        Returns
        -------
        roc : Roc
            ``.fpr``, ``.tpr``, ``.thresholds``, as in
            :func:`sklearn.metrics.roc_curve`, ``.auc`` and ``.positive``.

        Raises
        ------
        ValueError
            If `positive` is not a class, or is omitted with more than two classes, or
            if all or none of the tested trials belong to the positive class.

        Examples
        --------
        >>> import numpy as np
        >>> from mvpa_kfda import cross_validate
        >>> rng = np.random.default_rng(0)
        >>> y = rng.permutation(["cat", "dog"] * 20)
        >>> X = rng.normal(size=(40, 5)) + 1.5 * (y == "dog")[:, None]
        >>> cross_validate(X, y).roc()
        <Roc: dog, AUC 0.978>
        """
        return make_roc(self, positive)

    plot = figure_method(plot_null)
    trial_figures: ClassVar[tuple[str, ...]] = ("plot_roc",)

    plot_roc = figure_method(plot_roc)
    plot_tuning = figure_method(plot_tuning)


@record
class _RegressionMap(SubjectResult[Scores]):
    """What the results of regression share: numbers in the place of classes.

    Parameters
    ----------
    metrics : dict of str -> array, shape (positions...)
        Name -> score of the observed values.
    nulls : dict of str -> array, shape (P, positions...)
        Name -> scores under permuted values.
    classes : array, shape (0,)
        Empty: there are none.
    y : array of float, shape (n,)
        The value of each trial.
    predicted : array of float, shape (positions..., n)
        Predicted value of each trial; NaN for a trial that was in no test set.
    members : None
        Regression does not average trials.
    """

    classes: NDArray = field(default_factory=lambda: np.empty(0))

    @property
    def predictions(self) -> NDArray:
        """Predicted values, (positions..., n_trials), in the unit of y.

        NaN for trials that were in no test set. Predictions of a trial in several test
        sets are averaged; the metrics use each of them.
        """
        return self.predicted


@result_kind
class RegressionResult(_RegressionMap[float]):
    """Regression on one set of features, see :func:`regress`.

    Parameters
    ----------
    metrics : dict of str -> float
        Name -> score of the observed values.
    penalty : dict of str -> array
        "lambda" and "degrees_of_freedom", numbers, or (n_folds,) if each fold has its
        own penalty. If labels selected it, as with ``reg="auto"``, also "kernel"
        (n_folds,), the index of the selected one, "grid" (n_kernels, n_lambdas),
        "scale" (n_kernels,), the trace(K_c)/n that a float is relative to, and
        "criterion" (n_folds, n_kernels, n_lambdas), the squared error within the
        training sets. If each fold has its own matrix, "grid" and "scale" begin with
        (n_folds, ...).

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

    plot = figure_method(plot_null)
    trial_figures: ClassVar[tuple[str, ...]] = ("plot_predictions",)

    plot_predictions = figure_method(plot_predictions)
    plot_tuning = figure_method(plot_tuning)


@result_kind
class TimeRegressionResult(OnsetMixin, _RegressionMap[NDArray]):
    """Regression at each time point, see :func:`decode_epochs`, :func:`decode_arrays`.

    Parameters
    ----------
    times : array, shape (n_times,)
        Time points in seconds.
    penalty : dict of str -> array
        "lambda" and "degrees_of_freedom", (n_times,), or (n_times, n_folds) if each
        fold has its own penalty. If labels selected it, as with ``reg="auto"``, also
        "kernel" (n_times, n_folds), the index of the selected one, "grid" (n_times,
        n_kernels, n_lambdas), "scale" (n_times, n_kernels), the trace(K_c)/n that a
        float is relative to, and "criterion" (n_times, n_folds, n_kernels, n_lambdas),
        the squared error within the training sets. If each fold has its own matrix,
        "grid" and "scale" begin with (n_times, n_folds, ...).

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

    axes: ClassVar[dict[str, str]] = axes_of("times")

    times: NDArray

    plot = figure_method(plot_time)
    plot_tuning = figure_method(plot_flexibility)
