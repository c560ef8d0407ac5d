"""Classes of unequal variance, which permutations take for information.

Labels are exchanged as if classes were alike in everything, not in their means alone.
Where one class varies more, exchanged labels spread its trials over both classes. Then
predicted labels of the observed classes are not distributed as those of the exchanged
ones, though no mean differs.
"""

import numpy as np
from scipy.stats import f_oneway

from ..kfda.kernels import needs_gram
from ..utils.problems import Problem

#: How many positions of a map are looked at, and features of each, at most.
_MOST, _FEATURES = 16, 200

#: Ratios of distances that matter, if equal classes have one as large no more often.
_RATIO, _LEVEL = 1.4, 1e-4

#: Fewer trials of a class say nothing about how they vary.
_FEWEST = 4

#: Squared distances below this part of their mean are taken for it: logarithms of what
#: is next to nothing are no measure of it.
_NEAR = 1e-2

#: Metrics that compare ranks and not predicted labels.
_OF_RANKS = {"roc_auc"}


def warn_of_spread(positions, analysis):
    """Warn where classes differ in variance, and scores of predicted labels are tested.

    At some positions of the map. Precomputed kernels are not looked at, and of several
    labels of a trial it is those trained with that count.
    """
    tests = analysis.permutations.n_permutations and set(analysis.task.scoring)
    kernel = getattr(positions, "kernel", None)
    if not tests or tests <= _OF_RANKS or (kernel is not None and needs_gram(kernel)):
        return
    numbers = [number for block in positions.blocks() for number in block]
    numbers = np.array(numbers, np.intp)
    if not len(numbers):
        return
    some = numbers[np.unique(np.linspace(0, len(numbers) - 1, _MOST).astype(int))]
    signals = [_thinned(positions.signal(number)) for number in some]
    codes, chosen = analysis.codes, analysis.chosen
    if len(codes) != len(signals[0]):  # in repeats these are of averages, drawn later
        codes, _, chosen = analysis.single
    if chosen is not None:
        codes, signals = codes[chosen], [signal[chosen] for signal in signals]
    problem = find_spread(signals, codes, analysis.classes)
    if problem:
        problem.warn()


def find_spread(signals, codes, classes):
    """Return the `Problem` of classes whose trials vary more or less, or None.

    Of signals (n, p), by the distances of trials from the median of their class, in
    standard deviations of each feature, and by logarithms of these: single trials that
    are far out decide nothing.
    """
    present = np.flatnonzero(np.bincount(codes) >= _FEWEST)
    kept = np.isin(codes, present)
    if len(present) < 2:
        return None
    codes = codes[kept]
    squares = np.mean([_squares(signal[kept], codes) for signal in signals], axis=0)
    logs = np.log(np.maximum(squares, _NEAR * squares.mean())) / 2
    of_classes = [logs[codes == k] for k in present]
    means = np.array([each.mean() for each in of_classes])
    ratio = float(np.exp(np.ptp(means)))
    if ratio < _RATIO or f_oneway(*of_classes).pvalue >= _LEVEL:
        return None
    least, most = present[means.argmin()], present[means.argmax()]
    text = (
        f"Trials of class {str(classes[most])!r} vary {ratio:.1f} times as much as "
        f"those of {str(classes[least])!r} (distances from the median of their class). "
        "Permuting labels makes the classes alike in every respect, so unequal "
        "variance counts as information: accuracy and other scores of predicted labels "
        "can exceed the permutations although all means are equal, especially if the "
        "more variable class is rare. A small p-value shows that the classes differ, "
        "not how. For claims about means, test scoring='roc_auc' with equal numbers of "
        "trials."
    )
    return Problem("spread", text, {"ratio": ratio})


def _thinned(signal):
    """Return a signal (n, p) with not too many features, evenly spaced."""
    return signal[:, :: -(-signal.shape[1] // _FEATURES)]


def _squares(signal, codes):
    """Return the squared distance (n,) of each trial from the median of its class."""
    rest = np.array(signal, dtype=np.float64)
    size = np.abs(rest).max(axis=0)
    for k, count in zip(*np.unique(codes, return_counts=True), strict=True):
        rest[codes == k] -= np.median(rest[codes == k], axis=0)
        # Trials are near to a median that few of them make.
        rest[codes == k] *= np.sqrt(count / (count - 1))
    scale = np.sqrt(np.mean(rest**2, axis=0))
    varies = scale > np.finfo(float).eps * size
    if not varies.any():
        return np.ones(len(rest))
    return np.mean((rest[:, varies] / scale[varies]) ** 2, axis=1)
