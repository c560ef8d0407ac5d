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
    groups, task = [] if analysis.groups is None else analysis.groups, analysis.task
    (X, kernel), values = positions.samples(first), {}
    kernels = [getattr(each, "kernel", each) for each in kernels_of(kernel)]
    with one_blas_thread:  # as in the run, so that no digit depends on it
        if not all(isinstance(each, _NAMED) for each in kernels):
            # What others make of some data tells them apart, not how they are called.
            made = (each.fit(X)(X) for each in kernels)
            values["the kernel's values"] = digest(*made)
        if task.learned.steps:
            rows = task.learned.augmented(X)
            values["preprocess's values"] = digest(task.learned.fit(rows)(rows))
    # So does what functions make of some labels.
    n, c = len(analysis.codes), len(analysis.classes)
    labels = analysis.classes[analysis.codes]
    some = labels, labels[::-1], np.random.default_rng(0).normal(size=(n, c))
    for name, metric in task.functions.items():
        if isinstance(metric, FunctionMetric):
            values[f"scoring's {name}"] = metric.mean(*some, [(1, n, n)])
    confounds = task.learned.confounds
    return {
        **parameters,
        **analysis.parameters,
        **{name: digest(*arrays) for name, arrays in identity.items()},
        "y": digest(analysis.classes, analysis.codes),
        "groups": digest(groups),
        "cv's folds": digest(*analysis.folds.tests, *(analysis.folds.trains or ())),
        "confounds": digest([] if confounds is None else confounds),
        "permutations": digest(task.labels),
        "averaged trials": digest([] if analysis.members is None else analysis.members),
        **values,
        **{f"version of {name}": version for name, version in versions().items()},
    }
