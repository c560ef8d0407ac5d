"""Time generalization: train at one time, test at another."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from ..data.classes import EpochLabels
from ..data.confounds import (
    Confounds,
    confounds_of_epochs,
    read_confounds,
    read_train_on,
)
from ..data.epochs import channels_left_out, check_epochs
from ..data.pairs import (
    check_alone,
    check_no_same_trials,
    check_same_trials,
    gather_pairs,
    without_copy,
)
from ..kfda.foldwise import FoldwisePlan, FoldwiseTransfer
from ..kfda.kernels import Linear
from ..kfda.models import for_channels
from ..kfda.penalties import MOST_OF_SECOND
from ..kfda.transfer import Expansions, Transfer, chunk_length
from ..results.epochs import GeneralizationResult, exempt_cells
from ..results.patterns import pack_info
from ..utils.checks import check_finite
from .analysis import decode, make_analysis
from .arrays import array_samples_first, cut_array, record_windows
from .epochs import ChannelOptions, Channels, EpochTrials, logged, record_epochs
from .options import (
    ClassOptions,
    ClassScoreOptions,
    JobOptions,
    LoggedJobOptions,
    NullOptions,
    WindowOptions,
    decodes,
)
from .positions import Positions, WindowPositions, window_positions
from .procedure import Procedure, TrialData, Windowing, taken
from .sizes import NullBudget

if TYPE_CHECKING:
    from mne import BaseEpochs
    from typing_extensions import Unpack


@dataclass(frozen=True)
class GeneralizationPositions(Positions):
    """Training windows as positions, each tested in all windows of other data."""

    #: One row of training windows.
    train: WindowPositions
    #: One row of test windows; their kernel and penalty do not matter.
    test: WindowPositions
    #: The labels to be predicted; None: those trained with, (n_test,).
    true: np.ndarray | None = None
    #: The cells that are tested against one null only (n_train_times, n_test_times).
    exempt: np.ndarray | None = None

    fewer = WindowPositions.fewer

    @property
    def shape(self):
        """The shape of the leading part of the map: every position fills a row."""
        return self.train.shape

    def describe(self):
        """Word the size of the map."""
        return f"{self.train.n_windows} x {self.test.n_windows} times"

    def check(self):
        """Refuse what the training windows refuse."""
        self.train.check()

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
        if self.train.kernel.low_rank:
            return 0
        rows = 4 * self.width * self.n_test * min(self.train.data.shape[1:])
        return self.train.worker_bytes + min(rows, _Chunks._MOST)

    def blocks(self):
        """Return the training positions cut into ranges."""
        return self.train.blocks()

    def where(self, position):
        """Return how to begin a message about a training position."""
        return self.train.where(position)

    def signal(self, position):
        """Return the channels' mean in a training window, (n, p)."""
        return self.train.signal(position)

    def samples(self, position):
        """Return the features of a training window (n, p), and the kernel for them."""
        return self.train.samples(position)

    def grouped(self, grouping, block, tested=None):
        """Return the same of pseudo-trials; of all test windows, perhaps of others."""
        train = self.train.grouped(grouping, block)
        test = self.test.grouped(tested or grouping, range(self.width))
        return replace(self, train=train, test=test)

    def same(self, position):
        """Return the cell of the same time; None where none is."""
        same = self.test.times.round(6) == self.train.times[position].round(6)
        return int(same.argmax()) if same.any() else None

    def models(self, block, task):
        """Yield the transfer from every training window in a block."""
        plans = self.train.plans(block, task)
        of_second = replace(task, at_most=MOST_OF_SECOND)
        for position, plan in zip(block, plans, strict=True):
            model = self._transfer(position, plan, task)
            if task.second is not None and plan.is_above(MOST_OF_SECOND):
                alone = range(position, position + 1)
                (second,) = self.train.plans(alone, of_second)
                model = replace(model, second=model.by(second))
            yield model

    def _transfer(self, position, plan, task):
        """Return the transfer from one training window."""
        if isinstance(plan, FoldwisePlan):
            return self._foldwise(plan, task.learned)
        order = plan.order if plan.batches else np.arange(self.n_test)
        X = self.train.features(position)
        if self._uses_features(X, task):
            expansions = Expansions.of_features(plan, X)
            chunks = self._feature_chunks(order, plan)
        else:
            expansions = Expansions.of_kernel(plan, X, self.train.kernel_of(position))

            def rows(windows):
                features = self._test_features(windows, order)
                values = expansions.rows(features.reshape(-1, X.shape[1]))
                return values.reshape(*features.shape[:2], -1)

            shape = self.n_test, expansions.n_columns
            chunks = _Chunks(rows, shape, self.width, len(plan.rows), plan.dtype)
        return Transfer(plan, expansions, chunks, self.true, self.n_test)

    def _foldwise(self, plan, learned):
        """Return the transfer of folds with matrices of their own, or of a model."""

        def chunks_of(part, trials, learned):
            def rows(windows):
                if self._test_windows is None:
                    features = self._test_features(windows, trials)
                else:
                    features = self._test_windows[list(windows)][:, trials]
                features = learned.augmented(features, trials)
                values = part.rows(features.reshape(-1, features.shape[2]))
                return values.reshape(*features.shape[:2], -1)

            shape = len(trials), part.expansions.n_columns
            return _Chunks(rows, shape, self.width, len(trials), plan.dtype)

        if plan.batches:
            return FoldwiseTransfer(
                plan,
                lambda part: chunks_of(part, part.test, learned),
                self.width,
                self.true,
            )
        whole, everybody = plan.whole, np.arange(self.n_test)
        chunks = chunks_of(whole, everybody, learned.of_others)
        return Transfer(whole.plan, whole.expansions, chunks, self.true, self.n_test)

    def _uses_features(self, X, task):
        """Tell whether weights on features are cheaper than kernels between times."""
        n, p = X.shape
        columns = (task.n_classes - 1) * len(task.labels)
        return isinstance(self.train.kernel, Linear) and (
            p * columns <= n * (columns + p)
        )

    def _feature_chunks(self, order, plan):
        """Return the test features, arranged once for all training windows."""
        key = order.tobytes(), len(plan.rows), plan.dtype.name
        chunks = self._arranged.get(key)
        if chunks is None:

            def rows(windows):
                return self._test_features(windows, order)

            shape = self.test.features(0).shape
            chunks = _Chunks(rows, shape, self.width, len(plan.rows), plan.dtype)
            self._arranged.clear()  # of another run
            self._arranged[key] = chunks
        return chunks

    def _test_features(self, windows, order):
        """Return the features of test trials in some windows, (C, n, p)."""
        return np.stack([self.test.features(window)[order] for window in windows])

    @cached_property
    def _test_windows(self):
        """The features of all test trials in all windows, (windows, n, p).

        None where they take much memory.
        """
        shape = (self.width, *self.test.features(0).shape)
        if 8 * np.prod(shape) > _Chunks._MOST:
            return None
        return self._test_features(range(self.width), slice(None))

    @cached_property
    def _arranged(self):
        return {}


class _Chunks:
    """Test rows (n, C, r + 1) of C windows at a time, kept if memory allows."""

    #: Bytes of chunks that are kept for the next block of label vectors.
    _MOST = 2**28

    def __init__(self, rows, shape, n_windows, n_tested, dtype):
        self._rows, self._dtype, self._shape = rows, dtype, shape
        self.n_columns = shape[1] + 1
        n_rows = max(shape[0], n_tested)
        self.length = min(n_windows, chunk_length(n_rows, shape[1] + 1))
        self._ranges = [
            range(start, min(start + self.length, n_windows))
            for start in range(0, n_windows, self.length)
        ]
        self._kept, self._bytes = {}, 0

    def __iter__(self):
        for i in range(len(self._ranges)):
            chunk = self._kept.get(i)
            if chunk is None:
                chunk = self._make(self._ranges[i])
                if self._bytes + chunk.nbytes <= self._MOST:
                    self._kept[i] = chunk
                    self._bytes += chunk.nbytes
            yield chunk

    def _make(self, windows):
        """Gather the rows of some windows, with ones behind."""
        n, r = self._shape
        chunk = np.ones((n, len(windows), r + 1), self._dtype)
        chunk[:, :, :-1] = self._rows(windows).swapaxes(0, 1)
        return chunk


def generalize(analysis, train, test, mode, kernel, *, parameters, **fields):
    """Train in windows of some data and test in windows of others.

    `train` and `test` are each data (n_samples, n_trials, p), maybe the same array, and
    windows, whose samples are features by `mode`. The data are used up; `fields` are
    those of `decode`.
    """
    (data, windows), (data_test, windows_test) = train, test
    data, data_test = _average_both(analysis, data, data_test, kernel)
    if kernel.shift_free:
        _centre(data, data_test)
    kind, reg = _mode(analysis, data_test is data), analysis.procedure.method.reg
    times = windows.times, windows_test.times
    return decode(
        GeneralizationPositions(
            window_positions(data, windows, mode, kernel, reg),
            window_positions(data_test, windows_test, mode, kernel, reg),
            analysis.true,
            exempt_cells(kind, *times),
        ),
        analysis,
        GeneralizationResult,
        parameters={"n_trained": analysis.n_trained, "mode": kind, **parameters},
        train_times=times[0],
        test_times=times[1],
        y_test=analysis.tested,
        **fields,
    )


def _mode(analysis, same_data):
    """Name how training and test trials belong together."""
    if analysis.folds is None:
        return "other_trials"
    if analysis.chosen is not None:
        return "cross_decoding"
    if analysis.true is not None:
        return "other_labels"
    return "plain" if same_data else "same_trials"


def _centre(data, data_test):
    """Take the training data's mean per channel out of both arrays, in place.

    It changes no kernel value that counts, but a large offset would cost digits.
    """
    mean = data.mean(axis=(0, 1))
    data -= mean
    if data_test is not data:
        data_test -= mean


def _maps(procedure, windows, windows_test):
    """Return what is known of the permutations' maps."""
    shape = len(windows.starts), len(windows_test.starts)
    return NullBudget(procedure.permuting.kept, shape, GeneralizationPositions.fewer)


def _average_both(analysis, data, data_test, kernel):
    """Return training and test data (n_samples, n_trials, p) of pseudo-trials."""
    average = analysis.parameters["average"]
    if average is not None and not kernel.is_linear:
        raise ValueError(
            f"average={average!r} needs a linear kernel in time "
            f"generalization; got {kernel!r}. Use kernel='linear' without approx, or "
            "average trials before."
        )
    if analysis.averaging is None:
        return data, data_test
    averaged, _ = analysis.average(data, kernel, axis=1)
    if data_test is data:
        return averaged, averaged
    return averaged, analysis.average(data_test, kernel, axis=1)[0]


class _ArrayOptions(
    WindowOptions,
    ClassOptions,
    JobOptions,
    ClassScoreOptions,
    NullOptions,
    total=False,
):
    """What `generalize_arrays` may be told."""


class _EpochOptions(
    ChannelOptions,
    WindowOptions,
    ClassOptions,
    LoggedJobOptions,
    ClassScoreOptions,
    NullOptions,
    total=False,
):
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
        Whether `X_test` contains the trials of `X` in the same order. None: detected by
        comparing the data at common times; set it to True if the same trials have other
        times or other processing, which cannot be detected.
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
    procedure, time = Procedure.of(options), taken(Windowing, options)
    data = array_samples_first(X, "X")
    windows = windows_test = cut_array(data, sfreq, tmin, time)
    confounds, confounds_test = read_confounds(confounds, data.shape[1]), None
    train_on, n_test, data_test = read_train_on(train_on, data.shape[1]), None, data
    record = record_windows(windows, sfreq, time, data)
    if train_on is not None:
        check_alone("X", X_test, y_test)
        record["train_on"] = train_on.record
    if X_test is not None:
        data_test, windows_test, n_test = _read_test(
            X_test, same_trials, data, (tmin, tmin_test), sfreq, time
        )
    else:
        check_no_same_trials(same_trials, "X_test")
        if tmin_test is not None:
            raise ValueError("tmin_test is the time of X_test, but no X_test is given.")
        no_folds = groups is None and procedure.splitting.cv is None
        if train_on is not None and no_folds:
            # Without folds, the others are as good as other trials.
            y, y_test = train_on.split_labels(y)
            data, data_test = train_on.split(data, axis=1)
            n_test = data_test.shape[1]
            confounds, confounds_test = train_on.split(confounds)
    trials = TrialData(
        y=y,
        n=data.shape[1],
        groups=groups,
        confounds=confounds,
        train_on=train_on if n_test is None else None,
        y_test=y_test,
        n_test=n_test,
        confounds_test=confounds_test,
    )
    maps = _maps(procedure, windows, windows_test)
    return generalize(
        make_analysis(trials, procedure, maps=maps),
        (data, windows),
        (data_test, windows_test),
        time.window_mode,
        procedure.method.kernel,
        parameters=record,
    )


def _read_test(X_test, same_trials, data, starts, sfreq, time):
    """Return data to be tested, their windows, and of how many other trials.

    That is None if they are the trials of `data`.
    """
    tmin, tmin_test = starts
    data_test = array_samples_first(X_test, "X_test", data.shape[2])
    tmin_test = tmin if tmin_test is None else check_finite("tmin_test", tmin_test)
    times = tmin + np.arange(len(data)) / sfreq
    times_test = tmin_test + np.arange(len(data_test)) / sfreq
    same = check_same_trials(
        same_trials, data, times, data_test, times_test, ("X", "X_test")
    )
    if same:
        data_test = without_copy(data, times, data_test, times_test)
    windows = cut_array(data_test, sfreq, tmin_test, time)
    return data_test, windows, None if same else data_test.shape[1]


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
        Whether epoch i of `test_epochs` is the same trial as epoch i of `epochs`. None:
        detected by comparing the data at common times; set it to True for epochs around
        other events than those of `epochs`, which cannot be detected.
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
        also training trials, a query that selects no or all epochs, a map that does not
        fit into memory, and anything that :func:`decode_epochs` rejects.

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
    epochs = check_epochs(epochs)
    confounds = confounds_of_epochs(epochs, confounds)
    with_folds = groups is not None or procedure.splitting.cv is not None
    others = test_epochs, y_test, train_on, same_trials
    sets = gather_pairs(epochs, y, groups, *others, channels.picks, with_folds)
    confounds, confounds_test = sets.part(confounds)
    sfreq = float(epochs.info["sfreq"])
    windows = time.cut(sets.times, sfreq)
    windows_test = time.cut(sets.times_test, sfreq)
    trials = TrialData(
        y=sets.y,
        n=sets.data.shape[1],
        groups=sets.groups,
        confounds=confounds,
        train_on=sets.train_on if with_folds else None,
        numbers=sets.numbers,
        y_test=sets.y_test,
        n_test=sets.n_other,
        confounds_test=confounds_test,
    )
    kernel, maps = procedure.method.kernel, _maps(procedure, windows, windows_test)
    patterns = {"with_patterns": kernel.is_linear}
    analysis = make_analysis(trials, procedure, maps=maps, **patterns)
    scaling = channels.scaling(sets.info, analysis.of_trained(sets.data), kernel)
    data = scaling.apply(sets.data)
    data_test = data if sets.data_test is sets.data else scaling.apply(sets.data_test)
    recorded = record_epochs(sets.info, channels, windows, time, sfreq)
    recorded |= channels_left_out(epochs.info, channels.picks)
    recorded["train_on"] = sets.train_on and sets.train_on.record
    return generalize(
        analysis,
        (data, windows),
        (data_test, windows_test),
        time.window_mode,
        for_channels(kernel, sets.info["ch_names"]),
        parameters=recorded | sets.record,
        undo=scaling.undo,
        info_fif=pack_info(sets.info),
    )
