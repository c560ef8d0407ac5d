"""Time generalization: train at one time, test at another."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from ..data.epochs import EpochLabels, fit_scaling
from ..data.pairs import (
    check_alone,
    check_no_same_trials,
    check_same_trials,
    read_pairs,
    without_copy,
)
from ..data.trials import Confounds, Trials, make_trials
from ..kfda.foldwise import FoldwisePlan
from ..kfda.kernels import Linear, for_channels
from ..kfda.penalties import MOST_OF_SECOND
from ..kfda.transfer import Chunks, Transfer, expand, kernel_columns
from ..results.epochs import GeneralizationResult, exempt_cells
from ..results.patterns import pack_info
from ..utils.checks import check_finite
from ..utils.fingerprints import note_input
from .analysis import decode, make_analysis
from .epochs import (
    ArrayOptions,
    ChannelOptions,
    Channels,
    EpochTrials,
    TimeOptions,
    array_samples_first,
    cut_array,
    logged,
    record_epochs,
)
from .positions import WindowPositions
from .problems import refusal
from .procedure import (
    LoggedJobOptions,
    NullOptions,
    Procedure,
    Windowing,
    decodes,
    taken,
)

if TYPE_CHECKING:
    from mne import BaseEpochs
    from typing_extensions import Unpack


@dataclass(frozen=True)
class GeneralizationPositions(WindowPositions):
    """Training windows as positions, each tested in all windows of other data."""

    #: One row of test windows; their kernel and penalty do not matter.
    test: WindowPositions = None
    #: The labels to be predicted; None: those trained with, (n_test,).
    test_labels: np.ndarray | None = None
    #: The cells that are tested against one null only (n_train_times, n_test_times).
    exempt: np.ndarray | None = None

    def describe(self):
        """Word the size of the map."""
        return f"{self.n_windows} x {self.width} times"

    @property
    def width(self):
        """Number of cells in each row of the map."""
        return self.test.n_windows

    @property
    def row(self):
        """The cells that every position fills."""
        return (self.width,)

    @property
    def n_test(self):
        """The number of test trials."""
        return self.test.data.shape[1]

    @property
    def worker_bytes(self):
        """Memory for the matrix of a training window, and for test rows that stay."""
        if self.kernel.low_rank:
            return 0
        rows = 4 * self.width * self.n_test * min(self.data.shape[1:])
        return super().worker_bytes + min(rows, Chunks.MOST)

    def grouped(self, grouping, block, tested=None):
        """The same of pseudo-trials; of all test windows, perhaps of others."""
        test = self.test.grouped(tested or grouping, range(self.width))
        return replace(super().grouped(grouping, block), test=test)

    def same(self, position):
        """The cell of the same time; None where none is."""
        times, time = self.test.windows.times, self.windows.times[position]
        same = times.round(6) == time.round(6)
        return int(same.argmax()) if same.any() else None

    def models(self, block, task):
        """Yield the transfer from every training window in a block."""
        of_second = replace(task, at_most=MOST_OF_SECOND)
        for position in block:
            plan = self.plan(position, task)
            model = self._transfer(position, plan, task)
            if task.second is not None and plan.is_above(MOST_OF_SECOND):
                second = self.plan(position, of_second)
                model = replace(model, second=replace(model, plan=second))
            yield model

    def _transfer(self, position, plan, task):
        """The transfer from one training window."""
        order = plan.order if plan.batches else np.arange(self.n_test)
        tested = self.test_labels, self.n_test, self.width
        learned = task.learned if plan.batches else task.learned.of_others
        if isinstance(plan, FoldwisePlan):

            def of_fold(fold, order=None):
                order = fold.test if order is None else order
                columns = fold.columns, fold.n_columns
                return self._chunks(plan, order, *columns, learned)

            if plan.scores_features:
                chunks = self._feature_chunks(order, plan)
            elif plan.is_shared or not plan.batches:
                chunks = of_fold(plan.whole, order)
            else:
                chunks = of_fold
            return Transfer(plan, chunks, *tested)
        (values, kernel), unit = self.samples(position), None
        if self._uses_features(values, task):
            chunks = self._feature_chunks(order, plan)
        else:
            columns, values, unit = kernel_columns(values, kernel, plan.hat.lam)
            chunks = self._chunks(plan, order, columns, values.shape[1], learned)
        expansion = partial(expand, values=values, unit=unit)
        return Transfer(plan, chunks, *tested, expansion)

    def _chunks(self, plan, order, columns, n_columns, learned):
        """The test rows of some trials, by what makes columns of features."""

        def rows(windows):
            # Folds that have columns of their own ask for the same features.
            if isinstance(plan, FoldwisePlan) and self._test_windows is not None:
                features = self._test_windows[list(windows)][:, order]
            else:
                features = self._test_features(windows, order)
            features = learned.augmented(features, order)
            values = columns(features.reshape(-1, features.shape[2]))
            return values.reshape(*features.shape[:2], -1)

        return Chunks(rows, (len(order), n_columns), self.width, plan)

    def _uses_features(self, X, task):
        """Whether weights on features are cheaper than kernels between times."""
        (n, p), columns = X.shape, (task.n_classes - 1) * len(task.labels)
        return isinstance(self.kernel, Linear) and p * columns <= n * (columns + p)

    def _feature_chunks(self, order, plan):
        """The test features, arranged once for all training windows."""
        key = order.tobytes(), len(plan.rows), plan.dtype.name
        if key not in self._arranged:
            rows = partial(self._test_features, order=order)
            self._arranged.clear()  # of another run
            shape = self.test.features(0).shape
            self._arranged[key] = Chunks(rows, shape, self.width, plan)
        return self._arranged[key]

    def _test_features(self, windows, order):
        """The features of test trials in some windows, (C, n, p)."""
        return np.stack([self.test.features(window)[order] for window in windows])

    @cached_property
    def _test_windows(self):
        """The features of all test trials in all windows, (windows, n, p).

        None where they take much memory.
        """
        shape = (self.width, *self.test.features(0).shape)
        if 8 * np.prod(shape) > Chunks.MOST:
            return None
        return self._test_features(range(self.width), slice(None))

    @cached_property
    def _arranged(self):
        return {}


def generalize(trials, procedure, train, test, *, parameters, info=None, scale=None):
    """Train in windows of some data and test in windows of others.

    `train` and `test` are each data (n_samples, n_trials, p), perhaps the same array,
    and `Windows`. The data are used up. Epochs have the `info` of their channels,
    and their `scale`.
    """
    (data, windows), (data_test, windows_test) = train, test
    kernel, reg = procedure.method.kernel, procedure.method.reg
    with_folds = procedure.splitting.cv is not None or trials.groups is not None
    if trials.train_on is not None:
        parameters["train_on"] = trials.train_on.record
        if not with_folds:  # the others are as good as other trials
            mask, trials = trials.train_on.mask, trials.parted()
            data, data_test = (np.compress(x, data, 1) for x in (mask, ~mask))
            if info is not None:
                note_input("data", data.transpose(1, 2, 0))
                note_input("data_test", data_test.transpose(1, 2, 0))
    shape = len(windows.starts), len(windows_test.starts)
    analysis = make_analysis(
        trials,
        procedure,
        GeneralizationPositions,
        shape,
        with_patterns=info is not None and kernel.is_linear,
    )
    arrays, fields = [data] if data_test is data else [data, data_test], {}
    if info is not None:
        scaling = fit_scaling(info, analysis.of_trained(data), scale, kernel)
        arrays = [scaling.apply(each) for each in arrays]
        kernel = for_channels(kernel, info["ch_names"])
        fields = {"undo": scaling.undo, "info_fif": pack_info(info)}
    average = analysis.parameters["average"]
    if average is not None and not kernel.is_linear:
        raise refusal("average: generalization", average=average, kernel=kernel)
    arrays = [analysis.average(each, kernel, axis=1)[0] for each in arrays]
    if kernel.shift_free:
        # This changes no kernel value that counts; a large offset would cost digits.
        mean = arrays[0].mean(axis=(0, 1))
        for each in arrays:
            each -= mean
    data, data_test = arrays[0], arrays[-1]
    kind = "plain" if len(arrays) == 1 else "same_trials"
    if analysis.samples.folds is None:
        kind = "other_trials"
    elif analysis.train_mask is not None:
        kind = "cross_decoding"
    elif analysis.test_labels is not None:
        kind = "other_labels"
    times = windows.times, windows_test.times
    chosen, n_trained = analysis.train_mask, len(analysis.samples.codes)
    n_trained = n_trained if chosen is None else int(chosen.sum())
    return decode(
        GeneralizationPositions(
            *(data, windows, kernel, reg),
            test=WindowPositions(data_test, windows_test, kernel, reg),
            test_labels=analysis.test_labels,
            exempt=exempt_cells(kind, *times),
        ),
        analysis,
        GeneralizationResult,
        parameters={"n_trained": n_trained, "mode": kind, **parameters},
        train_times=times[0],
        test_times=times[1],
        y_test=analysis.tested,
        **fields,
    )


class _ArrayOptions(ArrayOptions, NullOptions, total=False):
    """What `generalize_arrays` may be told."""


class _EpochOptions(ChannelOptions, TimeOptions, NullOptions, total=False):
    """What `generalize_epochs` may be told."""


class _PairsOfTimes:
    """What options mean where positions are pairs of times.

    Parameters
    ----------
    kernel
        ... A kernel's width is that of the training time.
    reg
        ... Each training time has its own lambda.
    cv
        ... Not for tests on other trials.
    n_permutations
        ... They are the same for the whole map. In cross-validation each permutation's
        predictions are scored twice: with the tested labels permuted along with the
        trained ones, and with the tested labels as they are, by models with no larger
        penalty than ``reg=0.3``. A cell passes if it passes both
        (:meth:`GeneralizationResult.pvalues` says why). For tests on other trials,
        and with `train_on`, only the training labels are permuted: no trial is both
        trained with and tested, and the hypothesis is that what was trained with says
        nothing about what is tested, which may well be decodable by itself.
    null
        ... A position is a pair of times, and in cross-validation the scores are twice
        as many: 1 GiB are 1000 permutations of 366 x 366 times.
    average
        ... For linear kernels, and not for tests on other trials or other labels.
    keep_class_scores
        ... They are those of the diagonal, where training and test time are the same.
    preprocess
        ... What is learned at a training time is applied at every test time.
    """


@decodes(_ArrayOptions, _PairsOfTimes, data=("y_test", "same_trials", "tmin_test"))
def generalize_arrays(
    X: ArrayLike,
    y: ArrayLike,
    X_test: ArrayLike | None = None,
    *,
    y_test: ArrayLike | None = None,
    same_trials: bool | None = None,
    sfreq: float = 1.0,
    tmin: float = 0.0,
    tmin_test: float | None = None,
    groups: ArrayLike | None = None,
    confounds: Confounds = None,
    train_on: ArrayLike | None = None,
    **options: Unpack[_ArrayOptions],
) -> GeneralizationResult:
    """Train at each time point of an array and test at all time points.

    Like :func:`generalize_epochs`, but for data other than MNE-Python epochs, without
    handling of channels.

    Parameters
    ----------
    X : array_like, shape (n_trials, n_features, n_times)
        Real, finite data to train on, and to test on if there is no `X_test`.
    X_test : array_like, shape (n_test_trials, n_features, n_test_times) | None
        Data to test on, with the features of `X`: separate trials, tested with models
        trained on all of `X`, without folds, or the same trials in the same order,
        cross-validated.
    y_test : array_like, shape (n_test_trials,) | None
        Labels to be predicted. None: those of `y`, for the same trials.
    same_trials : bool | None
        Whether `X_test` contains the trials of `X` in the same order, at other times or
        processed differently. None and False: separate trials, of which none may be a
        copy of a trial of `X`; with False, a few that are equal by chance may be.
    sfreq : float
        Samples per second. With 1, times and windows are in samples. `X_test` has the
        same.
    tmin, tmin_test : float
        Time of the first sample of `X` and `X_test` in seconds; `tmin_test` None is
        `tmin`.
    groups
        ... For the trials of `X`.

    Returns
    -------
    result : GeneralizationResult
        ``.scores`` (n_train_times, n_test_times) of the first metric, ``.train_times``
        and ``.test_times`` (s), ``.metrics``, ``.null`` (P, n_train_times,
        n_test_times), ``.predictions`` (n_train_times, n_test_times, n_tested),
        ``.chance``, ``.pvalues(correction=)``, ``.diagonal()``, ``.plot()``,
        ``.to_dataframe()``, ``.save()``.

    Raises
    ------
    ValueError, TypeError
        On features or labels that do not match, and anything that
        :func:`generalize_epochs` rejects.

    Examples
    --------
    >>> import numpy as np
    >>> from mvpa_kfda import generalize_arrays
    >>> rng = np.random.default_rng(1)
    >>> y = rng.permutation([0, 1] * 20)
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
    procedure = Procedure.of(options)
    data = data_test = array_samples_first(X, "X")
    windows = windows_test = cut_array(data, sfreq, tmin, options)
    trials = make_trials(y, data.shape[1], groups, confounds, train_on)
    if train_on is not None:
        check_alone("X", X_test, y_test)
    if X_test is None:
        check_no_same_trials(same_trials, "X_test")
        if tmin_test is not None:
            raise ValueError("tmin_test is the time of X_test, but no X_test is given.")
        trials = replace(trials, y_test=y_test)
    else:
        data_test = array_samples_first(X_test, "X_test", data.shape[2])
        tmin_test = tmin if tmin_test is None else check_finite("tmin_test", tmin_test)
        times, times_test = (
            start + np.arange(len(each)) / sfreq
            for start, each in ((tmin, data), (tmin_test, data_test))
        )
        both = data, times, data_test, times_test
        if check_same_trials(same_trials, *both, ("X", "X_test")):
            data_test = without_copy(*both)
            trials = replace(trials, y_test=y_test)
        else:
            others = Trials(y=y_test, n=data_test.shape[1])
            trials = replace(trials, test=others)
        windows_test = cut_array(data_test, sfreq, tmin_test, options)
    return generalize(
        trials,
        procedure,
        (data, windows),
        (data_test, windows_test),
        parameters={"n_features": data.shape[2], **windows.record()},
    )


@decodes(
    _EpochOptions,
    *(EpochTrials, Channels, LoggedJobOptions, _PairsOfTimes),
    data=("test_epochs", "y_test", "same_trials"),
)
def generalize_epochs(
    epochs: BaseEpochs,
    y: EpochLabels = None,
    *,
    test_epochs: BaseEpochs | None = None,
    y_test: EpochLabels = None,
    train_on: ArrayLike | str | None = None,
    same_trials: bool | None = None,
    groups: ArrayLike | None = None,
    confounds: Confounds = None,
    **options: Unpack[_EpochOptions],
) -> GeneralizationResult:
    r"""Train at each time point of epochs and test at all time points.

    Temporal generalization [1]_ shows whether a classifier trained at one time
    generalizes to others. The models of all folds at each training time, for the
    observed labels and for permuted ones, follow from one matrix per training time.

    Test data:

    - By default the same epochs, cross-validated. The diagonal of the map equals the
      result of :func:`decode_epochs`.
    - `y_test`: another labelling of the same epochs, cross-validated with the same
      folds: trained on `y`, scored on `y_test`.
    - `test_epochs` with separate trials (another condition, session or modality):
      trained on all of `epochs`, tested on all of `test_epochs`, without folds.
    - `test_epochs` with the same trials in the same order, for example time-locked to
      the response (``same_trials=True``): cross-validated, so that no trial is used for
      both training and testing.
    - `train_on`: trained on some epochs, tested on the others (cross-decoding): without
      folds, or with `groups` or `cv` so that whole runs are left out.

    Parameters
    ----------
    epochs : mne.Epochs
        Epochs (or EpochsArray) with real, finite data. They are not changed.
    test_epochs : mne.Epochs | None
        Epochs to test on, at the same sampling rate. Channels are matched by name, and
        channels that are bad in either stay out; times and order of channels may
        differ.
    y_test : None | str | array_like, shape (n_test_epochs,) | list of str | dict
        Labels to be predicted. None: for separate trials, found like those of `epochs`
        (by event names, tags or the same metadata column); for the same trials, those
        of `epochs`. With class names, all other test epochs are left out. If the same
        epochs are used for training and testing, those with a class in both `y` and
        `y_test` remain. Otherwise each selects from its own epochs, as if only these
        had been given: with ``{"face": "face/left", "house": "house/left"}`` as `y`,
        the same names for ``"face/right"`` and ``"house/right"`` as `y_test`, and
        ``test_epochs=epochs``, one side is used for training and the other for testing.
    same_trials : bool | None
        Whether epoch i of `test_epochs` is the same trial as epoch i of `epochs`, at
        other times or processed differently. None and False: separate trials, of which
        none may be a copy of a trial of `epochs`. None also refuses epochs that have
        the events of `epochs` or overlap with them in time; with False, a few may be
        equal by chance.
    groups : None | str | array_like, shape (n_epochs,)
        ... The name of a metadata column of `epochs`, or one value per epoch, including
        those that `y` leaves out.
    scale
        ... Estimated from `epochs` and also applied to test epochs.
    dtype
        ... It is for data whose mean over trials does not drift by many standard
        deviations.

    Returns
    -------
    result : GeneralizationResult
        ``.scores`` (n_train_times, n_test_times) of the first metric, ``.train_times``
        and ``.test_times`` (s), ``.metrics``, ``.null`` (P, n_train_times,
        n_test_times), ``.predictions`` (n_train_times, n_test_times, n_tested),
        ``.chance``, ``.pvalues(correction=)``, ``.diagonal()``, ``.patterns()``,
        ``.plot()``, ``.to_dataframe()``, ``.save()``. Where `y` or `y_test` name
        classes, ``.parameters["classes"]`` and ``["selected"]``, ``["classes_test"]``
        and ``["selected_test"]`` are as in :func:`decode_epochs`.

    Raises
    ------
    ValueError, TypeError
        On channels, sampling rates or labels that do not match, test trials that are
        or may be training trials, a query that selects no or all epochs, a map that
        does not fit into memory, and anything that :func:`decode_epochs` rejects.

    Notes
    -----
    With the residual maker :math:`M = I - G_t` of a training time, the model of a fold
    with test rows te has dual coefficients :math:`a = M \tilde T / \lambda`, where
    :math:`\tilde T` are the contrasts of the labels less the out-of-sample residuals
    of te. They are exactly zero at te. See :mod:`mvpa_kfda.kfda.transfer`.

    References
    ----------
    .. [1] King & Dehaene (2014). Characterizing the dynamics of mental representations:
       the temporal generalization method. Trends in Cognitive Sciences 18(4), 203-210.

    Examples
    --------
    >>> from mvpa_kfda import generalize_epochs, simulate_epochs
    >>> epochs = simulate_epochs(n_trials=90, random_state=0)
    >>> result = generalize_epochs(
    ...     epochs, step=0.05, cv=5, n_permutations=99, random_state=0
    ... )
    >>> result.scores.shape
    (21, 21)
    >>> bool(result.pvalues("cluster").min() < 0.05)
    True
    """
    procedure = Procedure.of(options | logged(options))
    time, channels = taken(Windowing, options), taken(Channels, options)
    known = {"groups": groups, "confounds": confounds, "train_on": train_on}
    others = {"test_epochs": test_epochs, "y_test": y_test, "same_trials": same_trials}
    train, data_test, times_test = read_pairs(
        epochs, y, channels.picks, **known, **others
    )
    windows = time.cut(train.times, train.sfreq)
    return generalize(
        train.trials,
        procedure,
        (train.data, windows),
        (data_test, time.cut(times_test, train.sfreq)),
        parameters=record_epochs(train, channels.scale, windows),
        info=train.info,
        scale=channels.scale,
    )
