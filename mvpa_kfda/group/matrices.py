"""The mean of subjects' matrices of pairs of classes, which come one by one."""

import numpy as np


class MeanMatrices:
    """Means over subjects, of the kinds that all of them have for the same classes.

    A pair that a subject has not tested is left out of the mean, where there are
    others.
    """

    def __init__(self):
        self._classes, self._sums, self._counts = None, None, {}

    def add(self, classes, matrices):
        """Add a subject's matrices (V, pairs) by kind."""
        if self._sums is None:
            self._classes = classes
            self._sums = {kind: 0.0 for kind in matrices}
            self._counts = dict.fromkeys(matrices, 0)
        same = np.array_equal(classes, self._classes)
        kinds = self._sums.keys() & matrices.keys() if same else ()
        self._sums = {kind: each for kind, each in self._sums.items() if kind in kinds}
        for kind in self._sums:
            defined = np.isfinite(matrices[kind])
            self._sums[kind] += np.where(defined, matrices[kind], 0.0)
            self._counts[kind] = self._counts[kind] + defined

    def means(self, places, counted):
        """Return means (positions..., pairs) by kind; NaN at positions not counted."""
        found = {}
        for kind, total in (self._sums or {}).items():
            with np.errstate(invalid="ignore"):
                mean = (total / self._counts[kind])[counted].T
            found[kind] = np.moveaxis(places.expand(mean, counted), 0, -1)
        return found

    @property
    def classes(self):
        """The labels of the classes; None without matrices."""
        return self._classes if self._sums else None
