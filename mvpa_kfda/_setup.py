"""What analyses of classes and of numbers have in common before the run loop."""

import platform
from functools import cache
from importlib.metadata import version
from numbers import Integral

import numpy as np

from ._checks import check_count, check_dtype
from ._tuning.inner_folds import InnerFolds
from .folds import sees_labels
from .models import kernels_of
from .penalties import Tuned

#: What a result records the versions of; all of it bears on the numbers.
_PACKAGES = ("numpy", "scipy", "scikit-learn", "mne", "nilearn", "joblib")


def check_run(dtype, n_permutations, batch_size):
    """Check what says how label vectors are processed; return the precision."""
    check_count("n_permutations", n_permutations)
    if batch_size is not None:
        check_count("batch_size", batch_size, minimum=1)
    return check_dtype(dtype)


def draw_seed(random_state):
    """Return a whole number that redraws the same permutations."""
    if random_state is None:
        random_state = np.random.default_rng()
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if isinstance(random_state, Integral):
        return check_count("random_state", random_state)
    raise TypeError(
        f"Invalid value for 'random_state': {random_state!r}. Allowed: None, a whole "
        "number, or a NumPy Generator or RandomState."
    )


def make_inner_folds(reg, codes, groups, folds, permutations):
    """Return the folds within training sets, made now so that errors come early."""
    if not isinstance(reg, Tuned):
        return None
    if permutations.n_permutations and sees_labels(reg.cv):
        raise ValueError(
            f"Tuned(cv={reg.cv!r}) draws folds from the labels, but permuted labels "
            "are tuned with the same folds, and so would not be treated alike. "
            "Use a number of random folds, as Tuned(cv=5), or None."
        )
    inner = InnerFolds(reg.cv, len(codes), codes, groups, folds)
    try:
        _ = inner.of_all, inner.of_folds  # drawn once, here, for all workers
    except ValueError as error:
        if groups is None and "'groups' parameter" in str(error):
            raise ValueError(
                f"Tuned(cv={reg.cv!r}) leaves groups out within each training set, and "
                "there are none. Give groups=, one for each trial."
            ) from error
        raise
    return inner


def record_method(kernel, reg, n_components=None, average=None):
    """Return what a result records about the method."""
    recorded = {"kernel": repr(kernel), "reg": repr(reg)}
    recorded |= {"n_components": n_components, "average": average}
    if isinstance(reg, Tuned):
        recorded["kernels"] = [repr(each) for each in kernels_of(kernel)]
        recorded["criterion"] = reg.criterion
    return recorded


def record_run(task, permutations, seed):
    """Return what a result records about folds, scores and permutations."""
    return {
        "n_folds": 0 if task.folds is None else len(task.folds.tests),
        "scoring": task.scoring,
        "n_permutations": permutations.n_permutations,
        "permute": permutations.scheme,
        "exact": permutations.exact,
        "random_state": seed,
        "dtype": task.dtype.name,
    }


def versions():
    """Return the versions of everything that bears on the numbers."""
    from . import __version__

    return {
        "mvpa_kfda": __version__,
        "python": platform.python_version(),
        **{name: _version(name) for name in _PACKAGES},
    }


@cache
def _version(name):
    """Return a package's version; looking it up takes a millisecond or two."""
    return version(name)
