"""Time generalization of plain arrays."""

import numpy as np

from ._analysis import make_analysis
from ._checks import check_finite, check_jobs
from ._generalization import (
    average_both,
    check_no_same_trials,
    check_same_trials,
    generalize,
    without_copy,
)
from .arrays import array_samples_first, cut_array, record_windows
from .models import resolve_method
from .sources import window_source


def generalize_arrays(
    X,
    y,
    X_test=None,
    *,
    y_test=None,
    same_trials=None,
    sfreq=1.0,
    tmin=0.0,
    tmin_test=None,
    groups=None,
    window=None,
    step=None,
    window_mode="mean",
    kernel="linear",
    reg=0.3,
    cv=None,
    scoring="accuracy",
    n_permutations=0,
    permute="auto",
    null="auto",
    random_state=None,
    n_jobs=None,
    dtype="float64",
    verbose=None,
    n_components=None,
    approx=None,
    average=None,
):
    """Train at every time point of an array and test at every other one.

    What :func:`generalize_epochs` does beneath its handling of channels, for data that
    are not MNE-Python's.

    Parameters
    ----------
    X : array_like, shape (n_trials, n_features, n_times)
        Real, finite data to train on, and to test on if there is no `X_test`.
    y : array_like, shape (n_trials,)
        Class labels: strings, whole numbers or booleans; two or more classes.
    X_test : array_like, shape (n_test_trials, n_features, n_test_times) | None
        Data to test on, with the features of `X`.
    y_test : array_like, shape (n_test_trials,) | None
        Labels to be predicted. None: those of `y`, for the same trials.
    same_trials : bool | None
        Whether `X_test` holds the trials of `X` in the same order, see
        :func:`generalize_epochs`. None: found out by comparing the data at common
        times; other times or other processing of the same trials cannot be recognized,
        so say so.
    sfreq : float
        Samples per second, of both. With 1, times and windows are in samples.
    tmin, tmin_test : float
        Time of the first sample of `X` and `X_test` in seconds; `tmin_test` None is
        `tmin`.
    groups : array_like, shape (n_trials,) | None
        Runs, sessions or subjects of the trials of `X`, see :func:`cross_validate`.
    window, step : float | None
        Length of a sliding window and distance between windows in seconds, rounded to
        samples. None: one sample.
    window_mode : "mean" | "concatenate"
        Average the samples in a window, or use all of them as features.
    kernel : str | kernel object | callable
        See :func:`cross_validate`; not ``"precomputed"``.
    reg : float | str | penalty object
        See :func:`cross_validate`; a float is relative to each time point's kernel.
    cv : None | int | splitter | iterable of (train, test)
        See :func:`cross_validate`. Not for tests on other trials.
    scoring : str | list of str
        See :func:`cross_validate`.
    n_permutations : int
        Label permutations P, the same at every time point. See
        :func:`generalize_epochs` for which labels are permuted.
    permute : "auto" | "within_folds" | "within_groups" | "groups" | "free"
        What may be exchanged, see :func:`mvpa_kfda.permutation.permute_labels`.
    null : "auto" | "full" | "max" | "stream"
        What to keep of the permutations' maps, see :func:`generalize_epochs`.
    random_state : int | Generator | RandomState | None
        Seed of the permutations.
    n_jobs : int | None
        Workers over blocks of time points, as in joblib. The result does not depend
        on it.
    dtype : "float64" | "float32"
        Precision in which labels are processed, see :func:`cross_validate`.
    verbose : bool | None
        True shows a progress bar, False none, None only on runs of more than a few
        seconds.
    n_components : int | None
        How many discriminants to classify by, see :func:`cross_validate`.
    approx : Nystrom | None
        Landmarks that approximate the kernel, see :func:`cross_validate`.
    average : int | None
        How many trials to average into pseudo-trials, see :func:`cross_validate`.
        For linear kernels, and not for tests on other trials.

    Returns
    -------
    result : GeneralizationResult
        See :func:`generalize_epochs`.

    Raises
    ------
    ValueError, TypeError
        On features or labels that do not fit together, and all that
        :func:`generalize_epochs` refuses.

    Examples
    --------
    >>> import numpy as np
    >>> from mvpa_kfda import generalize_arrays
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 20)
    >>> X, X_new = rng.normal(size=(2, 40, 8, 5))  # trials, features, times
    >>> X[:, 0, 3:] += 3 * y[:, None]
    >>> X_new[:, 0, :2] += 3 * y[:, None]
    >>> result = generalize_arrays(X, y, X_new, y_test=y)
    >>> (result.scores > 0.8).astype(int)
    array([[0, 0, 0, 0, 0],
           [0, 0, 0, 0, 0],
           [0, 0, 0, 0, 0],
           [1, 1, 0, 0, 0],
           [1, 1, 0, 0, 0]])
    """
    kernel, reg = resolve_method(kernel, reg, approx)
    n_jobs = check_jobs(n_jobs)
    data = array_samples_first(X, "X")
    cut = (window, step, window_mode)
    windows = windows_test = cut_array(data, sfreq, tmin, *cut)
    data_test, n_test = data, None
    if X_test is None:
        check_no_same_trials(same_trials, "X_test")
        if tmin_test is not None:
            raise ValueError("tmin_test is the time of X_test, but no X_test is given.")
    else:
        data_test = array_samples_first(X_test, "X_test", data.shape[2])
        tmin_test = tmin if tmin_test is None else check_finite("tmin_test", tmin_test)
        times = tmin + np.arange(len(data)) / sfreq
        times_test = tmin_test + np.arange(len(data_test)) / sfreq
        same = check_same_trials(
            same_trials, data, times, data_test, times_test, ("X", "X_test")
        )
        if same:
            data_test = without_copy(data, times, data_test, times_test)
        else:
            n_test = data_test.shape[1]
        windows_test = cut_array(data_test, sfreq, tmin_test, *cut)
    analysis = make_analysis(
        y,
        data.shape[1],
        groups=groups,
        kernel=kernel,
        reg=reg,
        cv=cv,
        scoring=scoring,
        n_permutations=n_permutations,
        permute=permute,
        random_state=random_state,
        dtype=dtype,
        y_test=y_test,
        n_test=n_test,
        n_components=n_components,
        average=average,
    )
    parameters = record_windows(windows, sfreq, window_mode, data)
    data, data_test = average_both(analysis, data, data_test, kernel)
    return generalize(
        analysis,
        window_source(data, windows, window_mode, kernel, reg),
        window_source(data_test, windows_test, window_mode, kernel, reg),
        null=null,
        n_jobs=n_jobs,
        verbose=verbose,
        parameters=parameters,
    )
