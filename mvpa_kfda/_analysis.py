"""What every decoding function does before and after the run loop."""

import platform
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from numbers import Integral

import numpy as np

from . import metrics
from ._checks import check_count, check_dtype, check_labels, check_per_trial
from .folds import Folds, make_folds
from .permutation import Permutations, permute_labels
from .search import Task

#: What a result records the versions of; all of it bears on the numbers.
_PACKAGES = ("numpy", "scipy", "scikit-learn", "mne", "joblib")


@dataclass(frozen=True)
class Analysis:
    """The checked arguments of a decoding analysis that are not about the data.

    Attributes
    ----------
    classes : ndarray, shape (c,)
        The sorted labels.
    codes : ndarray of int, shape (n,)
        Each trial's class.
    groups : ndarray, shape (n,) | None
        Each trial's group.
    folds : Folds
        Drawn once from the observed labels.
    permutations : Permutations
        The label vectors, observed first.
    task : Task
        What the run loop needs of all this.
    parameters : dict
        Plain values that, with the data, redo the analysis.
    """

    classes: np.ndarray
    codes: np.ndarray
    groups: np.ndarray | None
    folds: Folds
    permutations: Permutations
    task: Task
    parameters: dict

    def result(self, kind, outcome, **fields):
        """Pack the run's outcome as a result of class `kind`."""
        return kind(
            metrics=outcome.metrics,
            nulls=outcome.nulls if self.permutations.n_permutations else {},
            chances={
                name: metrics.chance_level(name, self.codes)
                for name in self.task.scoring
            },
            classes=self.classes,
            y=self.codes,
            groups=self.groups,
            predicted=outcome.predicted,
            tests=self.folds.tests,
            versions=_versions(),
            **fields,
        )


def make_analysis(
    y,
    n_trials,
    *,
    groups,
    kernel,
    reg,
    cv,
    scoring,
    n_permutations,
    permute,
    random_state,
    dtype,
    batch_size=None,
    keep_class_scores=False,
):
    """Check the arguments shared by all decoding functions and draw what is random.

    Raises
    ------
    ValueError, TypeError
        If an argument is not valid; the message says what is.
    """
    scoring = metrics.check_scoring(scoring)
    dtype = check_dtype(dtype)
    check_count("n_permutations", n_permutations)
    if batch_size is not None:
        check_count("batch_size", batch_size, minimum=1)
    classes, codes = check_labels(y, n_trials)
    if groups is not None:
        groups = check_per_trial(groups, n_trials, "groups")
    folds = make_folds(cv, codes, groups, classes)
    seed = _seed(random_state)
    permutations = permute_labels(
        codes,
        n_permutations,
        folds=folds,
        groups=groups,
        permute=permute,
        random_state=seed,
    )
    task = Task(
        permutations.labels,
        len(classes),
        folds,
        scoring,
        dtype,
        batch_size,
        keep_class_scores,
    )
    parameters = {
        "kernel": repr(kernel),
        "reg": repr(reg),
        "cv": folds.name.removeprefix("cv="),
        "n_folds": len(folds.tests),
        "scoring": scoring,
        "n_permutations": permutations.n_permutations,
        "permute": permutations.scheme,
        "exact": permutations.exact,
        "random_state": seed,
        "dtype": dtype.name,
    }
    return Analysis(classes, codes, groups, folds, permutations, task, parameters)


def _seed(random_state):
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


def _versions():
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
