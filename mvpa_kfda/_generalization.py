"""What the functions for time generalization do beneath their arguments."""

from hashlib import blake2b

import numpy as np

from ._checks import warn
from ._search.memory import check_null
from .map_results import GeneralizationResult
from .search import run
from .transfer_source import GeneralizationSource

#: So many equal trials may be chance, in spike counts for one, if the user says so.
_CHANCE = 0.1


def generalize(
    analysis, train, test, *, null, n_jobs, verbose, parameters, undo=None, **fields
):
    """Run time generalization between two rows of windows.

    Parameters
    ----------
    analysis : Analysis
        The checked arguments.
    train, test : WindowSource
        Training and test windows; the data may be one array. It is used up.
    null : "auto" | "full" | "max" | "stream"
        What to keep of the permutations' maps.
    n_jobs, verbose
        As in :func:`mvpa_kfda.search.run`.
    parameters : dict
        What the result records, on top of what `analysis` does.
    undo : callable | None
        Returns activation patterns (..., n_features) in the data's own units.
    **fields
        Further fields of the result.

    Returns
    -------
    result : GeneralizationResult
        The map.
    """
    train.check_not_flat()
    shape = (train.n_windows, test.n_windows)
    null = check_null(
        null,
        analysis,
        int(np.prod(shape)),
        n_nulls=1 if analysis.folds is None else 2,
        size=f"{shape[0]} x {shape[1]} times",
        fewer="fewer times (step=, crop or decimate)",
    )
    if train.kernel.shift_free:
        _centre(train.data, test.data)
    source = GeneralizationSource(train, test, analysis.true)
    outcome = run(source, analysis.for_map(null), n_jobs, verbose)
    undo = undo or (lambda patterns: patterns)
    return analysis.result(
        GeneralizationResult,
        outcome,
        train_times=train.times,
        test_times=test.times,
        y_test=analysis.tested,
        null_summaries={m: s.to_arrays() for m, s in outcome.summaries.items()},
        second_nulls=outcome.second_nulls,
        second_summaries={
            m: s.to_arrays() for m, s in outcome.second_summaries.items()
        },
        pattern_maps={kind: undo(maps) for kind, maps in outcome.patterns.items()},
        parameters={
            **analysis.parameters,
            "null": null,
            "n_trained": len(analysis.codes),
            "mode": _mode(analysis, test.data is train.data),
            **parameters,
        },
        **fields,
    )


def _mode(analysis, same_data):
    """Name how training and test trials belong together."""
    if analysis.folds is None:
        return "other_trials"
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


def shared_trials(data, times, data_test, times_test):
    """Find trials that are in both sets of data, by their values at common times.

    Parameters
    ----------
    data, data_test : ndarray, shape (n_samples, n_trials, n_channels)
        The two sets, of the same channels.
    times, times_test : ndarray, shape (n_samples,)
        The samples' times in seconds.

    Returns
    -------
    pairs : ndarray of int, shape (n_pairs, 2)
        Index of each shared trial in `data` and in `data_test`. Trials without any
        variation are left out.
    """
    digits = np.round(times, 6), np.round(times_test, 6)
    _, here, there = np.intersect1d(*digits, return_indices=True)
    if len(here) == 0:
        return np.empty((0, 2), int)
    keys = [_digest(trial) for trial in data[here].transpose(1, 0, 2)]
    first = {key: i for i, key in reversed(list(enumerate(keys)))}
    first.pop(None, None)
    pairs = []
    for j, trial in enumerate(data_test[there].transpose(1, 0, 2)):
        key = _digest(trial)
        if key in first:  # a trial that is there twice is first of all itself
            pairs.append((j if keys[j : j + 1] == [key] else first[key], j))
    return np.array(pairs, int).reshape(-1, 2)


def _digest(trial):
    """Return a short name for a trial's values, None without any variation."""
    if np.ptp(trial) == 0:
        return None
    return blake2b(np.ascontiguousarray(trial), digest_size=16).digest()


def average_both(analysis, data, data_test, kernel):
    """Return training and test data (n_samples, n_trials, p) of pseudo-trials."""
    if analysis.averaging is None:
        return data, data_test
    if not kernel.is_linear:
        raise ValueError(
            f"average={analysis.parameters['average']} needs a linear kernel in time "
            f"generalization; got {kernel!r}. Use kernel='linear' without approx, or "
            "average trials before."
        )
    averaged, _ = analysis.average(data, kernel, axis=1)
    if data_test is data:
        return averaged, averaged
    return averaged, analysis.average(data_test, kernel, axis=1)[0]


def check_no_same_trials(same_trials, test):
    """Refuse `same_trials` where there is no second set of data called `test`."""
    if same_trials is not None:
        raise ValueError(
            f"same_trials={same_trials!r} says how the trials of {test} belong to "
            f"those trained with, but no {test} is given. Leave it out, or give {test}."
        )


def without_copy(data, times, data_test, times_test):
    """Return the test data, or the training data themselves if they are equal."""
    if np.array_equal(times, times_test) and np.array_equal(data, data_test):
        return data
    return data_test


def check_same_trials(same_trials, data, times, data_test, times_test, names):
    """Return whether the test trials are the training trials, one by one.

    Parameters
    ----------
    same_trials : bool | None
        What the user says; None looks at the data.
    data, times, data_test, times_test
        As in :func:`shared_trials`.
    names : tuple of str
        What the user calls the two sets.

    Raises
    ------
    ValueError, TypeError
        If a model would be tested on trials that it was trained on.
    """
    if same_trials not in (None, True, False):
        raise TypeError(
            f"Invalid value for 'same_trials': {same_trials!r}. Allowed: True, False "
            "or None."
        )
    n, n_test = data.shape[1], data_test.shape[1]
    train, test = names
    pairs = shared_trials(data, times, data_test, times_test)
    moved = pairs[pairs[:, 0] != pairs[:, 1]]
    if same_trials:
        if n != n_test or len(moved) > _CHANCE * n:
            found = f"{train} has {n} and {test} has {n_test}"
            if len(moved) > _CHANCE * n_test:
                i, j = moved[0]
                found = f"trial {j} of {test} is trial {i} of {train}"
            raise ValueError(
                "same_trials=True needs the same trials in both, in the same order; "
                f"{found}."
            )
        return True
    if len(pairs) == 0:
        return False
    if n == n_test == len(pairs) and len(moved) == 0:
        if same_trials is None:
            return True
        raise ValueError(
            f"same_trials=False, but {test} holds exactly the trials of {train}: the "
            "models would be tested on what they were trained on. Leave same_trials "
            "out to cross-validate."
        )
    i, j = pairs[0]
    message = (
        f"{len(pairs)} of the {n_test} trials of {test} are also in {train} (trial {j} "
        f"is trial {i} there): the models would be tested on what they were trained "
        "on. Leave these trials out of one of them, or give the same trials in the "
        "same order to have them cross-validated"
    )
    if len(pairs) > _CHANCE * n_test:
        raise ValueError(f"{message}.")
    if same_trials is None:
        raise ValueError(f"{message}; same_trials=False if they are equal by chance.")
    warn(f"{message}. With same_trials=False they are taken for other trials.")
    return False
