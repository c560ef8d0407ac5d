"""Regression: predicting numbers, such as reaction times, without retraining."""

from ._checks import check_array, check_gram, check_option
from ._regression import make_regression_analysis
from ._search.memory import check_memory
from .kernels import needs_gram
from .models import resolve_method
from .regression_results import RegressionResult, TimeRegressionResult
from .search import run
from .sources import FeatureSource


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
        What may be exchanged, see :func:`mvpa_kfda.permutation.permute_labels`.
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
    kernel, reg = resolve_method(kernel, reg, approx, precomputed=True)
    X = check_gram(X) if needs_gram(kernel) else check_array(X)
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
    outcome = run(FeatureSource(X, kernel, reg), analysis.task, n_jobs=1, verbose=False)
    return analysis.result(RegressionResult, outcome, {"n_features": X.shape[1]})


def check_task(task, **refused):
    """Return the task of a decoding function; refuse what regression does not have.

    Parameters
    ----------
    task : "classification" | "regression"
        What to predict.
    **refused
        Arguments of the decoding function that regression does not have.

    Returns
    -------
    task : str
        The task.
    """
    check_option("task", task, ("classification", "regression"))
    given = [name for name, value in refused.items() if value is not None]
    if task == "regression" and given:
        raise ValueError(
            f"task='regression' has no {' and no '.join(given)}. Leave "
            f"{'it' if len(given) == 1 else 'them'} out."
        )
    return task


def regress_windows(
    source,
    y,
    n_trials,
    *,
    groups=None,
    cv=None,
    scoring="r2",
    n_permutations=0,
    permute="auto",
    random_state=None,
    n_jobs=None,
    batch_size=None,
    dtype="float64",
    verbose=None,
    parameters=None,
):
    """Predict numbers at every window of a source, without retraining.

    Parameters
    ----------
    source : source
        One row of windows, see :class:`mvpa_kfda.sources.WindowSource`: any source
        that has ``times`` and knows its ``kernel`` and ``reg``.
    y : array_like, shape (n_trials,)
        The number to predict for every trial, the same at all times.
    n_trials : int
        The number of trials in the source.
    groups : array_like, shape (n_trials,) | None
        See :func:`regress`, as for the next five.
    cv : None | int | splitter | iterable of (train, test)
        The folds, the same at all times.
    scoring : str | list of str
        Metric names; ``"accuracy"``, the default of the decoding functions, is r2.
    n_permutations : int
        Permutations P of the values, the same at all times.
    permute : "auto" | "within_folds" | "within_groups" | "groups" | "free"
        What may be exchanged.
    random_state : int | Generator | RandomState | None
        Seed of the permutations.
    n_jobs : int | None
        Workers over blocks of windows, as in joblib. The result does not depend on it.
    batch_size : int | None
        Permutations processed at a time.
    dtype : "float64" | "float32"
        Precision in which values are processed.
    verbose : bool | None
        True shows a progress bar, False none, None only on runs of more than a few
        seconds.
    parameters : dict | None
        What the result records beside these arguments.

    Returns
    -------
    result : TimeRegressionResult
        ``.scores`` of the first metric at every time, ``.metrics``, ``.null``
        (P, n_times), ``.predictions`` (n_times, n_trials), ``.times``.

    Raises
    ------
    ValueError, TypeError
        On data that is flat at some time, results that do not fit into memory, and all
        that :func:`regress` refuses.

    Examples
    --------
    >>> import numpy as np
    >>> from mvpa_kfda.kernels import Linear
    >>> from mvpa_kfda.regression import regress_windows
    >>> from mvpa_kfda.sources import WindowSource
    >>> rng = np.random.default_rng(0)
    >>> data = rng.normal(size=(3, 50, 8))  # samples, trials, channels
    >>> source = WindowSource(
    ...     data, np.arange(3), 1, "mean", np.arange(3) / 10, Linear(), 0.3
    ... )
    >>> result = regress_windows(source, data[1, :, 0], 50)
    >>> result.times[result.scores > 0.5]
    array([0.1])
    """
    analysis = make_regression_analysis(
        y,
        n_trials,
        groups=groups,
        kernel=source.kernel,
        reg=source.reg,
        cv=cv,
        scoring="r2" if scoring == "accuracy" else scoring,
        n_permutations=n_permutations,
        permute=permute,
        random_state=random_state,
        dtype=dtype,
        batch_size=batch_size,
    )
    source.check_not_flat()
    n_windows = len(source.times)
    n_scores = len(analysis.task.scoring) * analysis.permutations.n_permutations
    check_memory(
        analysis,
        n_windows,
        8 * n_windows * (n_scores + n_trials),
        f"{n_windows} times",
        "fewer times (step=, crop or decimate) or fewer permutations",
    )
    outcome = run(source, analysis.task, n_jobs, verbose)
    return analysis.result(
        TimeRegressionResult, outcome, parameters or {}, times=source.times
    )
