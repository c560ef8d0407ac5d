"""Results of decoding one set of features, and the loading of all results."""

from dataclasses import dataclass

import numpy as np

from . import roc_plots
from ._plotted import OnePosition
from ._results.base import _Result
from ._results.hdf5 import read_result_file
from .comparison_results import ComparisonResult
from .epochs_results import SensorTimeResult, TimeFrequencyResult, TimeResult
from .group_results import GroupResult
from .latency_results import Latency
from .map_results import GeneralizationResult
from .regression_results import RegressionResult, TimeRegressionResult
from .roc import make_roc
from .volume_results import VolumeResult


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
        return roc_plots.plot_roc(self, positive=positive, ax=ax, show=show)


RESULTS = {
    cls.__name__: cls
    for cls in (
        DecodingResult,
        TimeResult,
        GeneralizationResult,
        TimeFrequencyResult,
        SensorTimeResult,
        VolumeResult,
        RegressionResult,
        TimeRegressionResult,
        GroupResult,
        ComparisonResult,
        Latency,
    )
}


def load_result(path):
    """Load a result from the file that its ``save`` wrote.

    Nothing in the file is ever executed: files that hold anything but plain numbers
    and text are refused.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    result : DecodingResult, TimeResult or another class of result
        Equal to the result that was saved.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is not a result file, is damaged, or comes from a newer version.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from mvpa_kfda import cross_validate, load_result
    >>> X = np.random.default_rng(0).normal(size=(40, 5))
    >>> result = cross_validate(X, np.repeat(["cat", "dog"], 20))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result.save(Path(folder) / "result.h5")
    ...     load_result(Path(folder) / "result.h5") == result
    True
    """
    name, content = read_result_file(path)
    if name not in RESULTS:
        raise ValueError(
            f"{path} holds a {name}, which this version does not know. Allowed: "
            f"{', '.join(RESULTS)}."
        )
    try:
        return RESULTS[name](**content)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path} is damaged: its entries do not make a {name} ({error})."
        ) from error
