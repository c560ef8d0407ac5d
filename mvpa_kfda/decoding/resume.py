"""What makes two runs the same one, so that a checkpoint may continue it."""

import numpy as np

from ..kfda.kernels import RBF, Linear, Polynomial
from ..kfda.models import kernels_of
from ..metrics.names import FunctionMetric
from ..utils.checkpoint import digest
from ..utils.parallel import one_blas_thread
from ..utils.record import versions

#: Kernels that are known by how they are written.
_NAMED = (Linear, RBF, Polynomial)


def describe_run(positions, first, analysis, parameters, identity):
    """All that a checkpoint's parts depend on, by the names of arguments.

    `first` is the number of a position with features, `parameters` is what the result
    records beside what `analysis` does, and `identity` has arrays of the data.
    """
    parameters = parameters | analysis.parameters
    groups, task = [] if analysis.groups is None else analysis.groups, analysis.task
    packages = {f"version of {k}": v for k, v in versions().items()}
    # What functions make of some labels tells them apart.
    n, c = len(analysis.codes), len(analysis.classes)
    labels = analysis.classes[analysis.codes]
    some = labels, labels[::-1], np.random.default_rng(0).normal(size=(n, c))
    values = {
        f"scoring's {name}": metric.mean(*some, [(1, n, n)])
        for name, metric in task.functions.items()
        if isinstance(metric, FunctionMetric)
    }
    return {
        **parameters,
        **{name: digest(*arrays) for name, arrays in identity.items()},
        "y": digest(analysis.classes, analysis.codes),
        "groups": digest(groups),
        "cv's folds": digest(*analysis.folds.tests, *(analysis.folds.trains or ())),
        "confounds": digest(
            [] if task.learned.confounds is None else task.learned.confounds
        ),
        "permutations": digest(task.labels),
        "averaged trials": digest([] if analysis.members is None else analysis.members),
        **_values_at(positions, first, task),
        **values,
        **packages,
    }


def _values_at(positions, position, task):
    """Return digests of what kernels and steps make of the features of a position."""
    values = {}
    X, kernel = positions.samples(position)
    kernels = [getattr(each, "kernel", each) for each in kernels_of(kernel)]
    with one_blas_thread:  # as in the run, so that no digit depends on it
        if not all(isinstance(each, _NAMED) for each in kernels):
            # What others make of some data tells them apart, not how they are called.
            values["the kernel's values"] = digest(
                *(each.fit(X)(X) for each in kernels)
            )
        if task.learned.steps:
            rows = task.learned.augmented(X)
            values["preprocess's values"] = digest(task.learned.fit(rows)(rows))
    return values
