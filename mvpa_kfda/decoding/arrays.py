"""Decoding of plain arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike

from ..data.confounds import Confounds, read_confounds, read_train_on
from ..results.decoding import DecodingResult, TimeRegressionResult
from ..results.epochs import TimeResult
from ..utils.checks import (
    check_finite,
    check_option,
    check_positive,
    check_real,
    warn_of_angles,
)
from ..utils.fingerprints import note_input
from .analysis import decode, make_analysis, read_features
from .options import (
    BatchOptions,
    ClassOptions,
    ClassScoreOptions,
    JobOptions,
    WindowOptions,
    decodes,
)
from .positions import FeaturePositions, WindowPositions, window_positions
from .procedure import Procedure, TrialData, Windowing, taken
from .regression import TASKS, Predicted
from .sizes import NullBudget

if TYPE_CHECKING:
    from typing_extensions import Unpack


class _CrossOptions(ClassOptions, BatchOptions, total=False):
    """What `cross_validate` may be told."""


class _ArrayOptions(
    WindowOptions, ClassOptions, JobOptions, ClassScoreOptions, total=False
):
    """What `decode_arrays` may be told."""


@decodes(_CrossOptions)
def cross_validate(
    X: ArrayLike,
    y: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    confounds: Confounds = None,
    train_on: ArrayLike | None = None,
    **options: Unpack[_CrossOptions],
) -> DecodingResult:
    r"""Cross-validate a kernel Fisher discriminant analysis without retraining.

    One matrix inverse gives the exact out-of-sample predictions of all folds, for the
    observed labels and for any number of permuted ones.

    Parameters
    ----------
    X : array_like, shape (n_trials, n_features) | (n_trials, n_trials)
        Features, or the kernel matrix with ``kernel="precomputed"``. Their unit does
        not matter, except for kernels whose gamma is a number or None.
    kernel
        ... ``"precomputed"``: `X` is the kernel matrix. ``gamma="median"`` is computed
        from all rows, without labels.
    scoring
        ... With more than two classes, the ROC AUC is also averaged over classes (one
        versus rest). Test sets with a single class are left out of the mean; if all
        are, the ROC AUC is computed from all test trials together. The same applies to
        permuted labels.
    batch_size
        ... With float32 near ties may.
    dtype
        ... Class scores deviate by up to 1e-3 of the largest. A tuned penalty may
        differ if two are about equally good.
    average
        ... For linear kernels, features are averaged; other kernels are averaged in
        feature space.

    Returns
    -------
    result : DecodingResult
        ``.scores`` (a float), ``.metrics``, ``.predictions`` (n_trials,),
        ``.class_scores`` (n_trials, n_classes), ``.classes``, ``.null`` (P,),
        ``.pvalues()``, ``.plot()``, ``.to_dataframe()``, ``.save()``. Class scores of a
        trial in several test sets are averaged, and the prediction is their argmax;
        metrics count the prediction in each test set.

    Raises
    ------
    ValueError, TypeError
        On non-finite data, labels or groups of the wrong length, a single class, more
        folds than trials, unknown names, splits that train on some of their test
        trials, or a lambda that is too small.

    Warns
    -----
    UserWarning
        If the order of trials predicts their class: it is similar across groups,
        classes come in blocks or repeat, the previous class predicts the next one,
        classes have a trend, or test trials are next to training trials of their class;
        if trials of one class are more variable, and scores of predicted labels are
        tested; or if one trial is 100 or more times as far from the mean of the others
        as they are. See the guide.

    Notes
    -----
    With the hat matrix :math:`G = 11^\top/n + K_c (K_c + \lambda I)^{-1}` and
    contrast-coded labels T, the out-of-sample residuals of a test set are
    :math:`(I - G_{te,te})^{-1} (T - GT)_{te}`; optimal scoring turns them into
    discriminant scores [1]_ [2]_. See :mod:`mvpa_kfda.kfda.direct` for all steps.

    References
    ----------
    .. [1] Treder (2018). Direct calculation of out-of-sample predictions in multi-class
       kernel FDA. ESANN.
    .. [2] Hastie, Buja & Tibshirani (1995). Penalized discriminant analysis. Annals of
       Statistics 23(1), 73-102.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mvpa_kfda import cross_validate
    >>> X, y = load_iris(return_X_y=True)
    >>> result = cross_validate(X, y, n_permutations=999, random_state=0)
    >>> result.scores > 0.9
    True
    >>> result.pvalues()
    0.001

    Unequal classes: trials of the larger ones are left out at random, ten times.

    >>> X, y = X[:120], y[:120]  # 50, 50 and 20 of the classes
    >>> options = {"average": 1, "equalize": True, "n_repeats": 10, "random_state": 0}
    >>> from sklearn.model_selection import KFold
    >>> result = cross_validate(
    ...     X, y, cv=KFold(5, shuffle=True, random_state=0), **options
    ... )
    >>> result.repeats["accuracy"].shape
    (10,)
    """
    settled = {"precomputed": True, "keep_all": True, "keep_class_scores": True}
    procedure = Procedure.of(options, **settled)
    X = read_features(X, procedure)
    trials = array_trials(y, len(X), groups, confounds, train_on)
    analysis = make_analysis(trials, procedure)
    n_features = X.shape[1]
    X, kernel = analysis.average(X, procedure.method.kernel)
    return decode(
        FeaturePositions(X, kernel, procedure.method.reg),
        analysis,
        DecodingResult,
        parameters={"n_features": n_features},
    )


def array_trials(y, n, groups, confounds, train_on):
    """Return the `TrialData` of arrays."""
    return TrialData(
        y=y,
        n=n,
        groups=groups,
        confounds=read_confounds(confounds, n),
        train_on=read_train_on(train_on, n),
    )


@decodes(_ArrayOptions, Predicted)
def decode_arrays(
    X: ArrayLike,
    y: ArrayLike,
    *,
    sfreq: float = 1.0,
    tmin: float = 0.0,
    groups: ArrayLike | None = None,
    confounds: Confounds = None,
    train_on: ArrayLike | None = None,
    task: Literal["classification", "regression"] = "classification",
    **options: Unpack[_ArrayOptions],
) -> TimeResult | TimeRegressionResult:
    """Decode class labels at each time point of an array, without retraining.

    Like :func:`decode_epochs`, but for data other than MNE-Python epochs, without
    handling of channels. For source estimates use :func:`decode_sources`.

    Parameters
    ----------
    X : array_like, shape (n_trials, n_features, n_times)
        Real, finite data. They are copied once, in their own type; each window is
        computed in double precision.
    sfreq : float
        Samples per second. With 1, times and windows are in samples.
    tmin : float
        Time of the first sample in seconds.
    reg
        ... Each time point has its own lambda.
    n_permutations
        ... All time points share them.

    Returns
    -------
    result : TimeResult | TimeRegressionResult
        ``.scores`` (n_times,) of the first metric, ``.metrics``, ``.null`` (P,
        n_times), ``.predictions`` (n_times, n_trials), ``.chance``,
        ``.pvalues(correction=)``, ``.plot()``, ``.to_dataframe()``, ``.save()`` and
        ``.times`` (s; the centres of windows). With ``task="regression"`` a
        TimeRegressionResult, whose predictions are continuous values.

    Raises
    ------
    ValueError, TypeError
        On data that are flat at some time, a window longer than the data, and anything
        that :func:`cross_validate` rejects.

    Examples
    --------
    >>> import numpy as np
    >>> from mvpa_kfda import decode_arrays
    >>> rng = np.random.default_rng(0)
    >>> y = rng.permutation([0, 1] * 20)
    >>> X = rng.normal(size=(40, 8, 5))  # trials, features, times
    >>> X[:, 0, 3:] += 3 * y[:, None]
    >>> result = decode_arrays(X, y, sfreq=10, n_permutations=99, random_state=0)
    >>> result.times[result.pvalues("max") <= 0.05]
    array([0.3, 0.4])
    """
    procedure = Procedure.of(options, keep_all=True)
    time = taken(Windowing, options)
    data = array_samples_first(X, "X", dtype=None)
    windows = cut_array(data, sfreq, tmin, time)
    parameters = record_windows(windows, sfreq, time, data)
    make, kind = TASKS[check_option("task", task, tuple(TASKS))]
    analysis = make(
        array_trials(y, data.shape[1], groups, confounds, train_on),
        procedure,
        maps=NullBudget("all", windows.starts.shape, WindowPositions.fewer),
    )
    data, kernel = analysis.average(data, procedure.method.kernel, axis=1)
    return decode(
        window_positions(data, windows, time.window_mode, kernel, procedure.method.reg),
        analysis,
        kind,
        parameters=parameters,
        times=windows.times,
    )


def array_samples_first(X, name, n_features=None, dtype=np.float64):
    """Return a checked array as new data (n_times, n_trials, n_features).

    With the dtype None in the type of the array, which saves memory: every window is
    computed with in double precision anyway.
    """
    X = check_real(X, name, ndim=3)
    if n_features is not None and X.shape[1] != n_features:
        raise ValueError(
            f"{name} has {X.shape[1]} features and X has {n_features}; both need the "
            "same features in the same order, on axis 1."
        )
    warn_of_angles(X, name, f"np.concatenate([np.sin({name}), np.cos({name})], axis=1)")
    note_input("data" if name == "X" else "data_test", X, np.float64)
    dtype = X.dtype.newbyteorder("=") if dtype is None else dtype
    return np.array(X.transpose(2, 0, 1), dtype, order="C")


def cut_array(data, sfreq, tmin, time):
    """Return the windows of data (n_times, n_trials, n_features)."""
    check_positive("sfreq", sfreq, hint=" It is in samples per second.")
    check_finite("tmin", tmin, hint=" It is in seconds.")
    return time.cut(tmin + np.arange(len(data)) / sfreq, sfreq)


def record_windows(windows, sfreq, time, data):
    """Return what a result records about windows and data."""
    return {
        "n_features": data.shape[2],
        "window": windows.width / sfreq,
        "step": windows.step / sfreq,
        "window_mode": time.window_mode,
        "sfreq": float(sfreq),
    }
