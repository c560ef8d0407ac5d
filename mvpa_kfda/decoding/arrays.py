"""Decoding of plain arrays."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ..data.confounds import Confounds, read_confounds, read_train_on
from ..inference.permutation import Permute
from ..kfda.arguments import CrossValidation, KernelLike, PenaltyLike, Preprocess
from ..kfda.models import resolve_method
from ..kfda.nystrom import Nystrom
from ..metrics.names import Scoring
from ..results.decoding import DecodingResult, TimeRegressionResult
from ..results.epochs import TimeResult
from ..results.kinds import keeps_warnings
from ..utils.checks import (
    Precision,
    Seed,
    check_array,
    check_finite,
    check_jobs,
    check_option,
    check_positive,
    warn_of_angles,
)
from .analysis import decode, make_analysis, read_features
from .positions import (
    FeaturePositions,
    WindowPositions,
    cut_windows,
    window_positions,
)
from .regression import TASKS
from .repeating import Repeating
from .sizes import Maps


@keeps_warnings
def cross_validate(
    X: ArrayLike,
    y: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    kernel: KernelLike = "linear",
    reg: PenaltyLike = "auto",
    cv: CrossValidation = None,
    scoring: Scoring = "accuracy",
    n_permutations: int = 0,
    permute: Permute = "auto",
    random_state: Seed = None,
    batch_size: int | None = None,
    dtype: Precision = "float64",
    n_components: int | None = None,
    approx: Nystrom | None = None,
    average: int | Literal["max"] | None = None,
    preprocess: Preprocess = None,
    confounds: Confounds = None,
    train_on: ArrayLike | None = None,
    n_repeats: int = 1,
    equalize: bool = False,
    average_test: bool = True,
) -> DecodingResult:
    r"""Cross-validate a kernel Fisher discriminant analysis without retraining.

    One matrix inverse gives the exact out-of-sample prediction of every fold, for the
    observed labels and for any number of permuted ones.

    Parameters
    ----------
    X : array_like, shape (n_trials, n_features) | (n_trials, n_trials)
        Features, or the kernel matrix with ``kernel="precomputed"``. Their unit does
        not matter, except to kernels whose gamma is a number or None.
    y : array_like, shape (n_trials,)
        Class labels: strings, whole numbers or booleans; two or more classes.
    groups : array_like, shape (n_trials,) | None
        Runs, sessions or subjects: ``cv=None`` leaves out one at a time, splitters that
        use groups are given them, and `permute` respects them.
    kernel : str | kernel object | callable | list of these
        How trials are compared: ``"linear"``, ``"rbf"`` (Gaussian), ``"polynomial"``,
        an object such as ``RBF(gamma=0.1)`` or ``GraphSmooth(adjacency)``, or a
        function ``f(X, Y) -> (n_x, n_y)``. A list of these, to choose from with a tuned
        `reg`. ``"precomputed"``: `X` is the kernel matrix. The width ``gamma="median"``
        is computed on all rows, without labels.
    reg : float | str | penalty object
        The penalty. ``"auto"`` chooses it inside every training set, and again for
        every permutation, in closed form (see :doc:`/method`); ``"tuned"`` or
        :class:`Tuned` by cross-validation there. The others use no labels, and are
        faster. A float is relative: lambda = reg * trace(K_c) / n, with the centred
        kernel matrix K_c of all n trials, so that the unit of the features does not
        matter. :class:`Ridge` is absolute, :class:`Shrinkage` in units of the
        covariance's trace, :class:`DegreesOfFreedom` says how flexible the model is;
        ``"ledoit_wolf"`` and ``"oas"`` estimate the shrinkage, for linear kernels and
        trials that are independent (for single scans it is too small).
    cv : None | int | splitter | iterable of (train, test)
        None: leave one group out when `groups` are given, else 10 folds. An int: that
        many folds of neighbouring trials, drawn without the labels; more where some
        training set would lack a class. Training sets may be any trials outside their
        test set; if some are not all of them, a relative `reg` and the width of a
        kernel are those of each training set. Test sets may overlap or miss trials. All
        permutations share the folds, unless the splitter looks at the labels
        (StratifiedKFold): then it is shown those of every permutation, which takes a
        model for each. A list of index arrays is shared by all.
    scoring : str | callable | list of these
        Metric name, or list of names, the first of which is in ``result.scores``:
        ``"accuracy"``, ``"balanced_accuracy"``, ``"roc_auc"``, ``"recall"``,
        ``"precision"``, ``"f1"``, ``"recall_macro"``, ``"precision_macro"``,
        ``"f1_macro"``, ``"kappa"``, ``"confusion_matrix"``. With two classes, recall,
        precision and F1 are those of the second class in sorted order, otherwise macro
        averages. The ROC AUC is the mean over test sets; all others are computed on the
        predictions pooled over them. A function ``f(y_true, y_pred, class_scores) ->
        float`` is a metric too: the mean of what it returns for each test set. With
        permutations it is slow. With more than two classes the ROC AUC is the mean
        over classes too, one against the rest. Test sets of a single class are left out
        of the mean; where all are, the ROC AUC is that of all test trials together. So
        it is for permuted labels.
    n_permutations : int
        Label permutations P for the null distribution; 0 for none. When fewer distinct
        ones exist, all of them are used.
    permute : "auto" | "within_folds" | "within_groups" | "groups" | "free"
        What may be exchanged. ``"within_folds"``: trials of the same training and test
        sets (and group); ``"within_groups"``: trials of a group; ``"groups"``: whole
        groups; ``"free"``: all trials; ``"auto"``: what is valid for the folds and
        groups, whatever `n_permutations`, by the rules of
        :func:`~mvpa_kfda.inference.permutation.permute_labels`.
    random_state : int | Generator | RandomState | None
        Seed of the permutations. None makes p differ from call to call; give a number,
        such as 0, and report it.
    batch_size : int | None
        Permutations processed at a time; memory grows with it. None chooses by cache
        size. The result does not depend on it. With float32 near ties may.
    dtype : "float64" | "float32"
        Precision in which labels, observed and permuted, are processed. float32 is
        faster by up to a half, and may change predictions where two classes score about
        the same: hardly ever with two classes, in some percent of trials with many
        classes and a few features. Class scores deviate by up to 1e-3 of the largest. A
        tuned penalty may be another where two are about as good, mostly by log_loss.
    n_components : int | None
        Classify by the first discriminants only (reduced rank); None: by all c - 1 of c
        classes.
    approx : Nystrom | None
        Approximate the kernel with landmarks, for example ``Nystrom(200)``, so that no
        (n, n) matrix is made of many trials; None: take it as it is.
    average : int | "max" | None
        Average so many trials of one class, within test sets (and groups), into
        pseudo-trials that take the place of trials in all of the result. They are drawn
        with `random_state`; a remainder of fewer is left out. ``"max"``: as many as the
        smallest class has in any test set (and group). Linear kernels are given
        averaged features, others are averaged themselves (in feature space).
    preprocess : str | transformer | list of these | None
        Steps that every fold learns from its training trials, at each position by
        itself, and applies to its test trials: ``"zscore"`` (each feature),
        ``"pca"`` (components with 99 % of the variance), ``"whiten"`` (these with unit
        variance), a transformer of scikit-learn that needs no labels, or a list of
        these. All permutations share them; a relative `reg` and the width of a kernel
        are then those of each training set. None: nothing.
    confounds : array_like, shape (n_trials,) | (n_trials, n_confounds) | None
        Taken out of the features by linear regression before `preprocess`, in every
        fold with coefficients from its training trials. Texts and pandas' categories
        are categories, all others numbers, of which what is linear is taken out, no
        more: give squares and products too, and angles as sine and cosine.
    train_on : array_like of bool, shape (n_trials,) | None
        Which trials to train with; all others are for tests, as in cross-decoding. With
        `groups` or `cv` every fold trains on these trials of its training set and tests
        the others of its test set, so that whole runs are left out. Without either, one
        model is trained on all of them and tested on all others. Only the labels
        trained with are permuted (within groups, where `permute` says so): the other
        labels are never trained with, and the hypothesis is that what was trained with
        says nothing about what is tested, which may well be decodable by itself. A
        relative `reg` and the width of a kernel are those of each training set. Not for
        regression.
    n_repeats : int
        Repeat so often, and report the mean score: with `average` trials are grouped
        anew, without it folds are drawn anew (`cv` is a number, or a splitter with
        random folds). A permutation moves the labels of trials, once for all repeats,
        which run on them. ``result.repeats`` has the score of each.
    equalize : bool
        With `average`, make as many pseudo-trials of every class as the smallest has
        in each test set (and group); each repeat leaves out others. With ``average=1``
        this is random undersampling: trials are left out until classes are equal.
    average_test : bool
        With `average`, test averages; False tests single trials by models of averages.

    Returns
    -------
    result : DecodingResult
        ``.scores`` (a float), ``.metrics``, ``.predictions`` (n_trials,),
        ``.class_scores`` (n_trials, n_classes), ``.classes``, ``.null`` (P,),
        ``.pvalues()``, ``.plot()``, ``.to_dataframe()``, ``.save()``. Class scores of
        a trial that several test sets hold are averaged, and the prediction is their
        argmax; metrics count each test set's prediction.

    Raises
    ------
    ValueError, TypeError
        On data that is not finite, labels or groups of the wrong length, one class
        only, more folds than trials, unknown names, splits that train on some of their
        test trials, or a lambda that is too small.

    Warns
    -----
    UserWarning
        If the order of trials tells their class: it is alike in all groups, classes
        come in blocks or repeat, the class before tells the next one, classes follow
        the time, or tested trials go with trained ones; or if trials of one class vary
        more, and scores of predicted labels are tested. See the guide.

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
    X, kernel, reg = read_features(X, kernel, reg, approx)
    analysis = make_analysis(
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
        keep_class_scores=True,
        n_components=n_components,
        preprocess=preprocess,
        how=Repeating(average, n_repeats, equalize, average_test),
        confounds=read_confounds(confounds, len(X)),
        train_on=read_train_on(train_on, len(X)),
    )
    n_features = X.shape[1]
    X, kernel = analysis.average(X, kernel)
    return decode(
        FeaturePositions(X, kernel, reg),
        analysis,
        DecodingResult,
        parameters={"n_features": n_features},
    )


@keeps_warnings
def decode_arrays(
    X: ArrayLike,
    y: ArrayLike,
    *,
    sfreq: float = 1.0,
    tmin: float = 0.0,
    groups: ArrayLike | None = None,
    window: float | None = None,
    step: float | None = None,
    window_mode: Literal["mean", "concatenate"] = "mean",
    kernel: KernelLike = "linear",
    reg: PenaltyLike = "auto",
    cv: CrossValidation = None,
    scoring: Scoring = "accuracy",
    n_permutations: int = 0,
    permute: Permute = "auto",
    random_state: Seed = None,
    n_jobs: int | None = None,
    dtype: Precision = "float64",
    verbose: bool | None = None,
    n_components: int | None = None,
    approx: Nystrom | None = None,
    average: int | Literal["max"] | None = None,
    task: Literal["classification", "regression"] = "classification",
    keep_class_scores: bool = False,
    preprocess: Preprocess = None,
    confounds: Confounds = None,
    train_on: ArrayLike | None = None,
    n_repeats: int = 1,
    equalize: bool = False,
    average_test: bool = True,
) -> TimeResult | TimeRegressionResult:
    """Decode class labels at every time point of an array, without retraining.

    What :func:`decode_epochs` does beneath its handling of channels, for data that are
    not MNE-Python's epochs. Source estimates are for :func:`decode_sources`.

    Parameters
    ----------
    X : array_like, shape (n_trials, n_features, n_times)
        Real, finite data.
    y : array_like, shape (n_trials,)
        Class labels: strings, whole numbers or booleans; two or more classes.
    sfreq : float
        Samples per second. With 1, times and windows are in samples.
    tmin : float
        Time of the first sample in seconds.
    groups : array_like, shape (n_trials,) | None
        Runs, sessions or subjects: ``cv=None`` leaves out one at a time, splitters that
        use groups are given them, and `permute` respects them.
    window, step : float | None
        Length of a sliding window and distance between windows in seconds, rounded to
        samples. None: one sample.
    window_mode : "mean" | "concatenate"
        Average the samples in a window, or use all of them as features.
    kernel : str | kernel object | callable | list of these
        How trials are compared: ``"linear"``, ``"rbf"`` (Gaussian), ``"polynomial"``,
        an object such as ``RBF(gamma=0.1)`` or ``GraphSmooth(adjacency)``, or a
        function ``f(X, Y) -> (n_x, n_y)``. A list of these, to choose from with a tuned
        `reg`.
    reg : float | str | penalty object
        The penalty. ``"auto"`` chooses it inside every training set, and again for
        every permutation, in closed form (see :doc:`/method`); ``"tuned"`` or
        :class:`Tuned` by cross-validation there. The others use no labels, and are
        faster. A float is relative: lambda = reg * trace(K_c) / n, with the centred
        kernel matrix K_c of all n trials, so that the unit of the features does not
        matter. :class:`Ridge` is absolute, :class:`Shrinkage` in units of the
        covariance's trace, :class:`DegreesOfFreedom` says how flexible the model is;
        ``"ledoit_wolf"`` and ``"oas"`` estimate the shrinkage, for linear kernels and
        trials that are independent (for single scans it is too small).
        Each time point has its own lambda.
    cv : None | int | splitter | iterable of (train, test)
        None: leave one group out when `groups` are given, else 10 folds. An int: that
        many folds of neighbouring trials, drawn without the labels; more where some
        training set would lack a class. Training sets may be any trials outside their
        test set; if some are not all of them, a relative `reg` and the width of a
        kernel are those of each training set. Test sets may overlap or miss trials. All
        permutations share the folds, unless the splitter looks at the labels
        (StratifiedKFold): then it is shown those of every permutation, which takes a
        model for each. A list of index arrays is shared by all.
    scoring : str | callable | list of these
        Metric name, or list of names, the first of which is in ``result.scores``:
        ``"accuracy"``, ``"balanced_accuracy"``, ``"roc_auc"``, ``"recall"``,
        ``"precision"``, ``"f1"``, ``"recall_macro"``, ``"precision_macro"``,
        ``"f1_macro"``, ``"kappa"``, ``"confusion_matrix"``. With two classes, recall,
        precision and F1 are those of the second class in sorted order, otherwise macro
        averages. The ROC AUC is the mean over test sets; all others are computed on the
        predictions pooled over them. A function ``f(y_true, y_pred, class_scores) ->
        float`` is a metric too: the mean of what it returns for each test set. With
        permutations it is slow.
    n_permutations : int
        Label permutations P for the null distribution; 0 for none. When fewer distinct
        ones exist, all of them are used. They are the same at every time point.
    permute : "auto" | "within_folds" | "within_groups" | "groups" | "free"
        What may be exchanged. ``"within_folds"``: trials of the same training and test
        sets (and group); ``"within_groups"``: trials of a group; ``"groups"``: whole
        groups; ``"free"``: all trials; ``"auto"``: what is valid for the folds and
        groups, whatever `n_permutations`, by the rules of
        :func:`~mvpa_kfda.inference.permutation.permute_labels`.
    random_state : int | Generator | RandomState | None
        Seed of the permutations. None makes p differ from call to call; give a number,
        such as 0, and report it.
    n_jobs : int | None
        Number of workers, as in joblib: None is 1 (or what ``joblib.parallel_config``
        says), -1 all processors. The result does not depend on it. Starting workers
        takes about a second, so they pay off in longer runs.
    dtype : "float64" | "float32"
        Precision in which labels, observed and permuted, are processed. float32 is
        faster by up to a half, and may change predictions where two classes score about
        the same: hardly ever with two classes, in some percent of trials with many
        classes and a few features.
    verbose : bool | None
        True shows how far the run is, by a bar, or in a log by a line now and then;
        False does not, None only for runs of more than a few seconds.
    n_components : int | None
        Classify by the first discriminants only (reduced rank); None: by all c - 1 of c
        classes.
    approx : Nystrom | None
        Approximate the kernel with landmarks, for example ``Nystrom(200)``, so that no
        (n, n) matrix is made of many trials; None: take it as it is.
    average : int | "max" | None
        Average so many trials of one class, within test sets (and groups), into
        pseudo-trials that take the place of trials in all of the result. They are drawn
        with `random_state`; a remainder of fewer is left out. ``"max"``: as many as the
        smallest class has in any test set (and group).
    task : "classification" | "regression"
        ``"regression"`` predicts numbers, such as reaction times, by kernel ridge
        regression: `y` holds one for each trial, splitters are not shown it, and the
        score is ``"r2"`` unless `scoring` asks for ``"pearsonr"`` or
        ``"neg_mean_squared_error"``. `n_components` and `average` are for classes only.
    keep_class_scores : bool
        Keep the class scores of every trial, for correlating them with behaviour:
        ``result.class_scores``, ``.decision_values()`` and ``.probabilities()``. They
        take a number for every trial, class and position.
    preprocess : str | transformer | list of these | None
        Steps that every fold learns from its training trials, at each position by
        itself, and applies to its test trials: ``"zscore"`` (each feature),
        ``"pca"`` (components with 99 % of the variance), ``"whiten"`` (these with unit
        variance), a transformer of scikit-learn that needs no labels, or a list of
        these. All permutations share them; a relative `reg` and the width of a kernel
        are then those of each training set. None: nothing.
    confounds : array_like, shape (n_trials,) | (n_trials, n_confounds) | None
        Taken out of the features by linear regression before `preprocess`, in every
        fold with coefficients from its training trials. Texts and pandas' categories
        are categories, all others numbers, of which what is linear is taken out, no
        more: give squares and products too, and angles as sine and cosine.
    train_on : array_like of bool, shape (n_trials,) | None
        Which trials to train with; all others are for tests, as in cross-decoding. With
        `groups` or `cv` every fold trains on these trials of its training set and tests
        the others of its test set, so that whole runs are left out. Without either, one
        model is trained on all of them and tested on all others. Only the labels
        trained with are permuted (within groups, where `permute` says so): the other
        labels are never trained with, and the hypothesis is that what was trained with
        says nothing about what is tested, which may well be decodable by itself. A
        relative `reg` and the width of a kernel are those of each training set. Not for
        regression.
    n_repeats : int
        Repeat so often, and report the mean score: with `average` trials are grouped
        anew, without it folds are drawn anew (`cv` is a number, or a splitter with
        random folds). A permutation moves the labels of trials, once for all repeats,
        which run on them. ``result.repeats`` has the score of each.
    equalize : bool
        With `average`, make as many pseudo-trials of every class as the smallest has
        in each test set (and group); each repeat leaves out others. With ``average=1``
        this is random undersampling: trials are left out until classes are equal.
    average_test : bool
        With `average`, test averages; False tests single trials by models of averages.

    Returns
    -------
    result : TimeResult | TimeRegressionResult
        ``.scores`` (n_times,) of the first metric, ``.metrics``, ``.null`` (P,
        n_times), ``.predictions`` (n_times, n_trials), ``.chance``,
        ``.pvalues(correction=)``, ``.plot()``, ``.to_dataframe()``, ``.save()`` and
        ``.times`` (s; the centres of windows). With ``task="regression"`` a
        TimeRegressionResult, whose predictions are numbers.

    Raises
    ------
    ValueError, TypeError
        On data that is flat at some time, a window longer than the data, and all that
        :func:`cross_validate` refuses.

    Examples
    --------
    >>> import numpy as np
    >>> from mvpa_kfda import decode_arrays
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 20)
    >>> X = rng.normal(size=(40, 8, 5))  # trials, features, times
    >>> X[:, 0, 3:] += 3 * y[:, None]
    >>> result = decode_arrays(X, y, sfreq=10, n_permutations=99, random_state=0)
    >>> result.times[result.pvalues("max") <= 0.05]
    array([0.3, 0.4])
    """
    kernel, reg = resolve_method(kernel, reg, approx)
    n_jobs = check_jobs(n_jobs)
    data = array_samples_first(X, "X")
    windows = cut_array(data, sfreq, tmin, window, step, window_mode)
    parameters = record_windows(windows, sfreq, window_mode, data)
    make, kind = TASKS[check_option("task", task, tuple(TASKS))]
    analysis = make(
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
        n_components=n_components,
        keep_class_scores=keep_class_scores,
        preprocess=preprocess,
        how=Repeating(average, n_repeats, equalize, average_test),
        confounds=read_confounds(confounds, data.shape[1]),
        train_on=read_train_on(train_on, data.shape[1]),
        maps=Maps("all", windows.starts.shape, WindowPositions.fewer),
    )
    data, kernel = analysis.average(data, kernel, axis=1)
    return decode(
        window_positions(data, windows, window_mode, kernel, reg),
        analysis,
        kind,
        n_jobs=n_jobs,
        verbose=verbose,
        parameters=parameters,
        times=windows.times,
    )


def array_samples_first(X, name, n_features=None):
    """Return a checked array as new data (n_times, n_trials, n_features)."""
    X = check_array(X, name, ndim=3)
    if n_features is not None and X.shape[1] != n_features:
        raise ValueError(
            f"{name} has {X.shape[1]} features and X has {n_features}; both need the "
            "same features in the same order, on axis 1."
        )
    warn_of_angles(X, name, f"np.concatenate([np.sin({name}), np.cos({name})], axis=1)")
    return np.array(X.transpose(2, 0, 1), order="C")


def cut_array(data, sfreq, tmin, window, step, window_mode):
    """Return the windows of data (n_times, n_trials, n_features)."""
    check_positive("sfreq", sfreq, hint=" It is in samples per second.")
    check_finite("tmin", tmin, hint=" It is in seconds.")
    check_option("window_mode", window_mode, ("mean", "concatenate"))
    times = tmin + np.arange(len(data)) / sfreq
    return cut_windows(times, sfreq, window, step)


def record_windows(windows, sfreq, window_mode, data):
    """Return what a result records about windows and data."""
    return {
        "n_features": data.shape[2],
        "window": windows.width / sfreq,
        "step": windows.step / sfreq,
        "window_mode": window_mode,
        "sfreq": float(sfreq),
    }
